// SPDX-License-Identifier: Apache-2.0
// Small programs that use every operation of the language, through strips and the emulator, against
// the interpreter in the declared dtypes; and what strips refuse.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "rooftile/check/host_tensor.h"
#include "rooftile/codegen/gpu/lower.h"
#include "rooftile/dsl/test_programs.h"
#include "rooftile/emulate/emulate.h"
#include "rooftile/ir/interp.h"

namespace rooftile::codegen {
namespace {

struct Problem {
  std::string program;
  Env sizes;                                         // dims, integer attributes and tile parameters
  std::map<std::string, std::vector<double>> given;  // inputs that are not random
};

const std::vector<Problem>& problems() {
  static const std::vector<Problem> all = {
      {"rms_norm", {{"T", 3}, {"H", 40}}, {}},
      {"rms_norm", {{"T", 2}, {"H", 1037}}, {}},
      {"gemm_f32", {{"M", 9}, {"N", 7}, {"K", 11}, {"BM", 8}, {"BN", 4}, {"BK", 4}}, {}},
      {"gemm_f32", {{"M", 70}, {"N", 40}, {"K", 33}, {"BM", 64}, {"BN", 32}, {"BK", 16}}, {}},
      {"gemm_i8", {{"M", 9}, {"N", 16}, {"K", 32}, {"BM", 8}, {"BN", 8}, {"BK", 16}}, {}},
      {"two_phase_softmax", {{"T", 3}, {"H", 10}}, {}},
      {"gather_scatter",
       {{"R", 5}, {"V", 6}, {"S", 4}, {"D", 8}, {"n", 5}},
       {{"ids", {3, 0, 5, 5, 1}}, {"slots", {2, 2, 0, 3, 2}}, {"first", {1}}}},
      {"pick", {{"R", 4}, {"H", 6}, {"P", 3}}, {{"r", {3, 0, 2}}, {"c", {5, 0, 1}}}},
      {"zoo", {{"n", 13}, {"seed", 5}}, {}},
      {"zoo", {{"n", 150}, {"seed", -7}}, {}},
  };
  return all;
}

ir::Program built(const Problem& problem) {
  for (const ir::test::NamedProgram& named : ir::test::all_programs())
    if (named.name == problem.program) return *named.build();
  return {};
}

class Subject {
 public:
  explicit Subject(const Problem& problem)
      : Subject(built(problem), problem.sizes, problem.given) {}
  Subject(ir::Program program, Env sizes,
          const std::map<std::string, std::vector<double>>& given_values)
      : program_(std::move(program)), sizes_(std::move(sizes)) {
    std::mt19937 random(7);
    std::uniform_real_distribution<double> uniform(-3, 3);
    for (const ir::TensorParam& t : program_.tensors) {
      if (t.role == ir::Role::kWorkspace) continue;
      NdArray array;
      int64_t count = 1;
      for (const Expr& extent : t.shape) {
        array.shape.push_back(evaluate(extent, sizes_).value_or(0));
        count *= array.shape.back();
      }
      const auto given = given_values.find(t.name);
      if (given != given_values.end())
        array.data = given->second;
      else
        for (int64_t i = 0; i < count; ++i) array.data.push_back(uniform(random));
      check::quantize(array, t.dtype);
      tensors_[t.name] = array;
    }
    for (const ir::ScalarParam& s : program_.scalars)
      if (s.is_float) floats_[s.name] = 0.75;
  }

  ir::InterpTensors expected() const {
    ir::InterpTensors out = tensors_;
    const Status status =
        ir::interpret(program_, sizes_, floats_, out, {.numerics = ir::InterpOptions::kDeclared});
    EXPECT_TRUE(status.ok()) << status.str();
    return out;
  }

  Result<std::vector<GpuVariant>> lowered(int threads, int held, std::string* text) const {
    std::map<std::string, Expr, std::less<>> tiles;
    for (const std::string& param : program_.tile_params) tiles.emplace(param, sizes_.at(param));
    ir::Program specialised = ir::substitute_symbols(program_, tiles);
    specialised.tile_params.clear();
    Schedule schedule;
    schedule.gpu.strips = {.threads = threads, .held_vectors = held};
    return lower_strips(specialised, program_.name, schedule, *text);
  }

  bool meets(const GpuNeeds& needs) const {
    for (const std::string& tensor : needs.aligned) {
      const auto at = tensors_.find(tensor);
      if (at == tensors_.end()) continue;
      int64_t bytes = size_bytes(program_.tensor(tensor)->dtype);
      for (size_t d = at->second.shape.size(); d-- > 1;) {
        bytes *= at->second.shape[d];
        if (bytes % needs.align_bytes != 0) return false;
      }
    }
    for (const Expr& condition : needs.conditions)
      if (evaluate(condition, sizes_).value_or(0) == 0) return false;
    return true;
  }

  // What the tensors hold after all phases of a variant.
  std::map<std::string, NdArray> emulated(const GpuVariant& variant, uint64_t seed) const {
    emulate::Launch launch;
    launch.seed = seed;
    for (const auto& [name, value] : sizes_) launch.ints[name] = value;
    for (const auto& [name, value] : floats_) launch.floats[name] = value;
    std::map<std::string, check::HostTensor> memory;
    for (const ir::TensorParam& t : program_.tensors) {
      std::vector<int64_t> shape;
      for (const Expr& extent : t.shape) shape.push_back(evaluate(extent, sizes_).value_or(0));
      check::HostTensor tensor(t.dtype, shape);
      const bool given = t.role == ir::Role::kIn || t.role == ir::Role::kInOut;
      if (given) tensor.store(tensors_.at(t.name));
      const TensorView view = tensor.view();
      launch.tensors[t.name] = {.data = view.data,
                                .dtype = t.dtype,
                                .shape = shape,
                                .strides = {view.strides.begin(), view.strides.begin() + view.rank},
                                .initialised = given};
      memory.emplace(t.name, std::move(tensor));
    }
    for (const lanes::Program& phase : variant.phases) {
      const Status status = emulate::run(phase, launch);
      EXPECT_TRUE(status.ok()) << status.str();
      for (auto& [name, arg] : launch.tensors)
        if (program_.tensor(name)->role == ir::Role::kWorkspace) arg.initialised = true;
    }
    std::map<std::string, NdArray> out;
    for (const auto& [name, tensor] : memory) out[name] = tensor.load();
    return out;
  }

  const ir::Program& program() const { return program_; }

 private:
  ir::Program program_;
  Env sizes_;
  ir::FloatAttrs floats_;
  ir::InterpTensors tensors_;
};

class StripsPrograms : public ::testing::TestWithParam<size_t> {};

TEST_P(StripsPrograms, MeanWhatTheInterpreterSays) {
  const Problem& problem = problems()[GetParam()];
  const Subject subject(problem);
  const ir::InterpTensors want = subject.expected();
  int runs = 0;
  for (const int held : {0, 2})
    for (const int threads : {32, 96, 256}) {
      std::string text;
      auto variants = subject.lowered(threads, held, &text);
      ASSERT_TRUE(variants.ok()) << variants.diag().str();
      for (const GpuVariant& variant : *variants) {
        for (const lanes::Program& phase : variant.phases) {
          const Status status = lanes::verify(phase);
          ASSERT_TRUE(status.ok()) << status.str();
        }
        if (!subject.meets(variant.needs)) continue;
        SCOPED_TRACE(variant.phases[0].name + " " + std::to_string(threads) + " threads\n" + text);
        ++runs;
        const auto got = subject.emulated(variant, static_cast<uint64_t>(runs));
        for (const ir::TensorParam& t : subject.program().tensors) {
          if (t.role != ir::Role::kOut && t.role != ir::Role::kInOut) continue;
          const NdArray &a = got.at(t.name), &b = want.at(t.name);
          for (size_t i = 0; i < b.data.size(); ++i) {
            const double slack =
                is_float(t.dtype)
                    ? 1e-5 + 8e-3 * std::fabs(b.data[i]) * (is_narrow_float(t.dtype) ? 1 : 1e-3)
                    : 0;
            ASSERT_NEAR(a.data[i], b.data[i], slack) << t.name << " element " << i;
          }
        }
      }
    }
  EXPECT_GE(runs, 6);
}

INSTANTIATE_TEST_SUITE_P(All, StripsPrograms, ::testing::Range<size_t>(0, problems().size()),
                         [](const auto& test) {
                           return problems()[test.param].program + "_" + std::to_string(test.param);
                         });

// Ties, both ends of every range, what is beyond them, NaN and infinities.
std::vector<double> cast_values(DType from) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (is_float(from))
    return {0.0,   -0.0,    0.5,   1.5,     2.5,      -2.5,  -0.5,         126.5, 127.5, 128.5,
            254.5, 255.5,   300,   -129,    448,      463,   465,          57344, 61440, 65504,
            65520, 1e-8,    -3e-5, 1 / 3.0, 16777217, 2e9,   3e9,          -3e9,  5e9,   1e19,
            -1e19, 3.39e38, -1e38, 1e-40,   kInf,     -kInf, std::nan(""), 0.1,   7,     -7};
  if (from == DType::kBool) return {0, 1};
  std::vector<double> values = {0, 1, 2, 7, 100, 127};
  const bool is_signed = from == DType::kI8 || from == DType::kI32 || from == DType::kI64;
  if (is_signed) values.insert(values.end(), {-1, -2, -100, -128});
  if (from != DType::kI8) values.insert(values.end(), {128, 200, 255});
  if (size_bytes(from) >= 4) values.insert(values.end(), {256, 70000, 16777219, 2147483647});
  if (from == DType::kU32) values.insert(values.end(), {2147483648.0, 4294967295.0});
  if (from == DType::kI64) values.insert(values.end(), {4294967301.0, -5e12, 9007199254740991.0});
  return values;
}

TEST(StripsElements, CastsRoundSaturateAndWrapAsTheInterpreterSays) {
  int pairs = 0;
  for (const DTypeInfo& from : kDTypes)
    for (const DTypeInfo& to : kDTypes) {
      if (from.dtype == to.dtype) continue;
      SCOPED_TRACE(std::string(from.name) + " to " + std::string(to.name));
      const Expr n = Expr::sym("n");
      dsl::Kernel k(
          ir::test::interface("casts", {ir::test::tensor("out", to.dtype, {n}, ir::Role::kOut),
                                        ir::test::tensor("x", from.dtype, {n})}));
      k.tiles({{"once", 1}}, [&](dsl::Index) {
        k.store(k["out"](dsl::all), k.load(k["x"](dsl::all)).to(to.dtype));
      });
      Result<ir::Program> program = k.finish();
      ASSERT_TRUE(program.ok()) << program.diag().str();
      const std::vector<double> values = cast_values(from.dtype);
      const Subject subject(*program, {{"n", static_cast<int64_t>(values.size())}},
                            {{"x", values}});
      const NdArray want = subject.expected().at("out");
      std::string text;
      auto variants = subject.lowered(32, 0, &text);
      ASSERT_TRUE(variants.ok()) << variants.diag().str();
      for (const GpuVariant& variant : *variants) {
        if (!subject.meets(variant.needs)) continue;
        ++pairs;
        const NdArray got = subject.emulated(variant, 1).at("out");
        for (size_t i = 0; i < values.size(); ++i)
          EXPECT_TRUE(got.data[i] == want.data[i] ||
                      (std::isnan(got.data[i]) && std::isnan(want.data[i])))
              << values[i] << ": " << got.data[i] << ", not " << want.data[i];
      }
    }
  EXPECT_GE(pairs, 110);
}

Schedule strips_of(int threads) {
  Schedule schedule;
  schedule.gpu.strips.threads = threads;
  return schedule;
}

Diag refusal(const ir::Program& program, const Schedule& schedule) {
  std::string text;
  auto variants = lower_strips(program, "subject", schedule, text);
  EXPECT_FALSE(variants.ok());
  return variants.ok() ? Diag() : variants.diag();
}

TEST(StripsRefusals, TilesWithoutABoundAreNamed) {
  const ir::Program program = *ir::test::build_gemm();  // tile parameters left open
  const Diag diag = refusal(program, strips_of(128));
  EXPECT_EQ(diag.code, ErrorCode::kPlacement);
  EXPECT_NE(diag.message.find("no bounded size"), std::string::npos) << diag.str();
  EXPECT_NE(diag.fix.find("gpu.dims"), std::string::npos) << diag.str();
}

TEST(StripsRefusals, WishesOfTheOtherWayAreErrors) {
  const ir::Program program = *ir::test::build_rms_norm();
  EXPECT_EQ(refusal(program, strips_of(100)).code, ErrorCode::kPlacement);
  Schedule ring = strips_of(128);
  ring.gpu.rings = {{.copies = {"x"}, .depth = 2}};
  EXPECT_EQ(refusal(program, ring).code, ErrorCode::kPlacement);
  Schedule tma = strips_of(128);
  tma.gpu.copy["x"].via = gpu::Via::kTma;
  EXPECT_EQ(refusal(program, tma).code, ErrorCode::kPlacement);
}

// Tensor cores take some types, and all products of a phase or none.
TEST(StripsRefusals, ProductsThatTensorCoresCannotTake) {
  const Problem f32 = {
      "gemm_f32", {{"M", 9}, {"N", 7}, {"K", 11}, {"BM", 8}, {"BN", 4}, {"BK", 4}}, {}};
  Schedule schedule = strips_of(128);
  schedule.gpu.product["product"].unit = gpu::Unit::kMmaSync;
  std::map<std::string, Expr, std::less<>> tiles;
  for (const char* param : {"BM", "BN", "BK"}) tiles.emplace(param, Expr(f32.sizes.at(param)));
  Diag diag = refusal(ir::substitute_symbols(built(f32), tiles), schedule);
  EXPECT_EQ(diag.code, ErrorCode::kPlacement);
  EXPECT_EQ(diag.found, "f32");
  EXPECT_EQ(diag.expected, "bf16, f16 or i8");
  schedule.gpu.product["product"].unit = gpu::Unit::kWgmma;
  diag = refusal(ir::substitute_symbols(built(f32), tiles), schedule);
  EXPECT_NE(diag.message.find("wgmma"), std::string::npos) << diag.str();
  schedule.gpu.product = {{"produkt", {.unit = gpu::Unit::kMmaSync}}};
  diag = refusal(ir::substitute_symbols(built(f32), tiles), schedule);
  EXPECT_EQ(diag.code, ErrorCode::kSchedule) << diag.str();
}

// The listing says which passes there are, what is held, and what a call must meet.
TEST(StripsListing, ShowsPassesAndNeeds) {
  Schedule schedule = strips_of(64);
  schedule.gpu.strips.held_vectors = 2;
  std::string text;
  ASSERT_TRUE(lower_strips(*ir::test::build_rms_norm(), "rows", schedule, text).ok());
  for (const char* line :
       {"vectors: 64 threads", "hold [H] in 2 vectors of 8 a thread: x_held",
        "pass 0 over [H], vectors of 8: sum", "pass 1 over [H], vectors of 8: store out",
        "needs 16-byte alignment of x", "needs H % 8 == 0", "needs H <= 1024",
        "elements: 64 threads", "pass 1 over [H], vectors of 1: store out"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nin\n" << text;
}

}  // namespace
}  // namespace rooftile::codegen
