// SPDX-License-Identifier: Apache-2.0
// Generated launchers over a kernel that records what it was given: what is accepted and how it
// arrives, what is refused and with which text, and the three ways an error travels.
#include "rooftile/codegen/host/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "rooftile/runtime/call.h"
#include "rooftile/runtime/cpu/library.h"
#include "rooftile/toolchain/host_cc.h"

using ::testing::HasSubstr;

namespace {
thread_local std::string tvm_ffi_error;
}
// Stands in for TVM-FFI: launchers look this name up in the process.
extern "C" void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message) {
  tvm_ffi_error = std::string(kind) + ": " + message;
}

namespace rooftile {
namespace {

constexpr int kTokens = 4, kHidden = 16, kSequences = 2;

// What the launcher handed to the kernel.
struct Seen {
  void* t[16];
  int64_t n[48];
  float f[8];
  char* workspace;
  int64_t runs, wanted_bytes;
};

constexpr const char* kRecorder = R"(
struct Seen { void* t[16]; rth::i64 n[48]; float f[8]; char* workspace; rth::i64 runs, wanted_bytes; };
extern "C" { Seen seen; }
extern "C" void probe_run(void* const* t, const rth::i64* n, const float* f, char* workspace) {
  for (int i = 0; i < NT; ++i) seen.t[i] = t[i];
  for (int i = 0; i < NI; ++i) seen.n[i] = n[i];
  for (int i = 0; i < NF; ++i) seen.f[i] = f[i];
  seen.workspace = workspace;
  if (workspace) workspace[seen.wanted_bytes - 1] = 1;
  ++seen.runs;
}
extern "C" rth::i64 probe_workspace(const rth::i64*) { return seen.wanted_bytes; }
)";

ir::TensorParam tensor(std::string name, DType dtype, std::vector<Expr> shape, ir::Role role,
                       int align_bytes = 1) {
  ir::TensorParam param;
  param.name = std::move(name);
  param.dtype = dtype;
  param.shape = std::move(shape);
  param.role = role;
  param.align_bytes = align_bytes;
  return param;
}

ir::Clause clause(ir::Clause::Kind kind, std::string name, Expr lo, Expr hi, std::string why) {
  ir::Clause out;
  out.kind = kind;
  out.tensor = std::move(name);
  out.lo = lo;
  out.hi = hi;
  out.why = std::move(why);
  return out;
}

// Every kind of check in one contract.
ir::Program probe_program() {
  const Expr T = Expr::sym("T"), H = Expr::sym("H"), B = Expr::sym("B");
  ir::Program p;
  p.name = "probe";
  p.tensors.push_back(tensor("out", DType::kBf16, {T, H}, ir::Role::kOut, 16));
  p.tensors.back().may_alias = {"x"};
  p.tensors.push_back(tensor("x", DType::kBf16, {T, H}, ir::Role::kIn, 16));
  p.tensors.push_back(tensor("wide", DType::kF32, {2 * H}, ir::Role::kIn));
  p.tensors.back().unit_inner_stride = false;
  p.tensors.push_back(tensor("bias", DType::kF32, {B}, ir::Role::kIn));
  p.tensors.push_back(tensor("cu_seqlens", DType::kI32, {B + 1}, ir::Role::kIn));
  p.tensors.push_back(tensor("pages", DType::kI32, {B, 4}, ir::Role::kIn));
  p.tensors.push_back(tensor("scratch", DType::kF32, {T}, ir::Role::kWorkspace));
  ir::ScalarParam eps;
  eps.name = "eps";
  eps.fmax = 1;
  eps.has_range = eps.min_exclusive = true;
  ir::ScalarParam window;
  window.name = "window";
  window.is_float = false;
  window.min = -1;
  window.max = T;
  window.has_range = true;
  ir::ScalarParam scale;
  scale.name = "scale";
  p.scalars = {eps, window, scale};
  ir::Clause rows;
  rows.condition = H % 8 == 0;
  rows.why = "rows are whole vectors";
  p.clauses = {
      rows, clause(ir::Clause::kIndexRange, "pages", 0, T, "a page must exist"),
      clause(ir::Clause::kFirstIs, "cu_seqlens", 0, 0, "the first sequence starts at 0"),
      clause(ir::Clause::kLastIs, "cu_seqlens", T, 0, "the sequences cover all tokens"),
      clause(ir::Clause::kNonDecreasing, "cu_seqlens", 0, 0, "sequences follow each other")};
  p.clauses[1].has_except = true;
  p.clauses[1].except = -1;
  return p;
}

struct Probe {
  std::shared_ptr<Library> library;
  TVMFFISafeCall launch = nullptr;
  const char* (*last_error)() = nullptr;
  Seen* seen = nullptr;
};

// Each under a name of its own: a library of one name is loaded once.
Probe compiled(const ir::Program& program, const std::string& file,
               const std::vector<std::string>& counts) {
  Probe out;
  Result<std::string> text = emit_launcher(program, "probe");
  if (!text.ok()) ADD_FAILURE() << text.diag().str();
  const auto dir =
      std::filesystem::temp_directory_path() / ("rooftile_launcher_" + std::to_string(getpid()));
  std::filesystem::create_directories(dir);
  std::vector<std::string> flags = {"-std=c++20", "-O2", "-fPIC", "-shared", "-Wall", "-Werror"};
  flags.insert(flags.end(), counts.begin(), counts.end());
  Result<CompileOutput> object = compile_shared(*text + kRecorder, flags, (dir / file).string());
  if (!object.ok()) ADD_FAILURE() << object.diag().str();
  out.library = *Library::open(object->path);
  std::filesystem::remove_all(dir);
  out.launch = reinterpret_cast<TVMFFISafeCall>(*out.library->symbol("__tvm_ffi_probe"));
  out.last_error =
      reinterpret_cast<const char* (*)()>(*out.library->symbol("__rooftile_last_error_probe"));
  out.seen = static_cast<Seen*>(*out.library->symbol("seen"));
  return out;
}

// Compiled once for all tests.
const Probe& probe() {
  static const Probe instance =
      compiled(probe_program(), "probe.so", {"-DNT=6", "-DNI=13", "-DNF=2"});
  return instance;
}

class Launcher : public ::testing::Test {
 protected:
  alignas(64) uint16_t out_data[kTokens * kHidden];
  alignas(64) uint16_t x_data[kTokens * kHidden];
  alignas(64) float wide_data[2 * kHidden];
  float bias_data[kSequences];
  int32_t cu_data[kSequences + 1] = {0, 1, kTokens};
  int32_t pages_data[kSequences * 4] = {0, 1, 2, 3, 3, -1, -1, 0};

  TensorView out{out_data, DType::kBf16, {kTokens, kHidden}};
  TensorView x{x_data, DType::kBf16, {kTokens, kHidden}};
  TensorView wide{wide_data, DType::kF32, {2 * kHidden}};
  TensorView bias{bias_data, DType::kF32, {kSequences}};
  TensorView cu{cu_data, DType::kI32, {kSequences + 1}};
  TensorView pages{pages_data, DType::kI32, {kSequences, 4}};
  Scalar eps = 1e-6, window = 2, scale = 0.5;

  void SetUp() override {
    *probe().seen = {};
    std::memset(out_data, 0x5a, sizeof out_data);
  }
  Status call() {
    const TensorView tensors[] = {out, x, wide, bias, cu, pages};
    const Scalar scalars[] = {eps, window, scale};
    return invoke(probe().launch, tensors, scalars);
  }
  // The call is refused with this code, blames `argument`, and the kernel has not run.
  void expect_refused(ErrorCode code, const std::string& argument, const std::string& found) {
    const int64_t runs = probe().seen->runs;
    Status status = call();
    ASSERT_FALSE(status.ok()) << "accepted; expected " << code_text(code);
    EXPECT_EQ(code_text(status.diag().code), code_text(code)) << status.str();
    EXPECT_EQ(status.diag().argument, argument) << status.str();
    EXPECT_EQ(status.diag().subject, "probe");
    EXPECT_THAT(status.diag().found, HasSubstr(found)) << status.str();
    EXPECT_FALSE(status.diag().message.empty());
    EXPECT_EQ(probe().seen->runs, runs);
  }
  void expect_accepted() {
    const int64_t runs = probe().seen->runs;
    Status status = call();
    EXPECT_TRUE(status.ok()) << status.str();
    EXPECT_EQ(probe().seen->runs, runs + 1);
  }
};

TEST_F(Launcher, HandsOverPointersDimsAttributesAndStrides) {
  expect_accepted();
  const Seen& seen = *probe().seen;
  EXPECT_EQ(seen.t[0], out_data);
  EXPECT_EQ(seen.t[5], pages_data);
  const int64_t expected[] = {kTokens, kHidden, kSequences, 2, kHidden, 1, kHidden,
                              1,       1,       1,          1, 4,       1};
  for (size_t i = 0; i < std::size(expected); ++i) EXPECT_EQ(seen.n[i], expected[i]) << i;
  EXPECT_EQ(seen.f[0], 1e-6f);
  EXPECT_EQ(seen.f[1], 0.5f);
  EXPECT_EQ(seen.workspace, nullptr);
}

TEST_F(Launcher, StridesOfExtentOneAreIgnored) {
  out.shape[0] = x.shape[0] = 1;
  cu_data[2] = 1;
  window = 1;
  std::fill_n(pages_data, 8, 0);
  out.strides[0] = -7;
  x.strides[0] = int64_t{1} << 62;
  expect_accepted();
  EXPECT_EQ(probe().seen->n[4], kHidden);
  EXPECT_EQ(probe().seen->n[6], kHidden);
}

TEST_F(Launcher, TakesBroadcastAndFlippedInputs) {
  wide.strides[0] = 0;
  expect_accepted();
  wide.data = wide_data + 2 * kHidden - 1;
  wide.strides[0] = -1;
  expect_accepted();
  EXPECT_EQ(probe().seen->n[8], -1);
}

TEST_F(Launcher, TakesTheSamePointerAndStridesInPlace) {
  x = out;
  expect_accepted();
}

TEST_F(Launcher, RefusesPartialOverlapInPlace) {
  alignas(64) static uint16_t buffer[(kTokens + 1) * kHidden];
  out.data = buffer;
  x.data = buffer + kHidden;
  expect_refused(ErrorCode::kAlias, "out", "`x` at 0x");
}

TEST_F(Launcher, TakesInterleavedColumnsOfOneBuffer) {
  alignas(64) static uint16_t buffer[kTokens * 2 * kHidden];
  out.data = buffer;
  x.data = buffer + kHidden;
  out.strides[0] = x.strides[0] = 2 * kHidden;
  expect_accepted();
  x.data = buffer + kHidden / 2;  // now columns 8..23 against 0..15
  expect_refused(ErrorCode::kAlias, "out", "`out` at 0x");
}

TEST_F(Launcher, RefusesOverlapWithAnIndexTensor) {
  cu.data = out_data;
  expect_refused(ErrorCode::kAlias, "out", "`cu_seqlens` at 0x");
}

TEST_F(Launcher, RefusesOverlappingOutputRows) {
  for (int64_t stride : {0, 8, -kHidden}) {
    out.strides[0] = stride;
    expect_refused(ErrorCode::kStride, "out", "outermost stride " + std::to_string(stride));
  }
}

TEST_F(Launcher, EmptyOutputsAreDoneWithoutRunning) {
  out.shape[0] = x.shape[0] = 0;
  out.data = x.data = nullptr;
  std::fill_n(cu_data, 3, 0);
  std::fill_n(pages_data, 8, -1);
  window = 0;
  EXPECT_TRUE(call().ok()) << call().str();
  EXPECT_EQ(probe().seen->runs, 0);
}

TEST_F(Launcher, RefusesWrongRankDTypeDeviceExtent) {
  x.rank = 1;
  expect_refused(ErrorCode::kRank, "x", "rank 1, shape [4]");
  x.rank = 2;
  x.dtype = DType::kF16;
  expect_refused(ErrorCode::kDType, "x", "f16");
  x.dtype = DType::kBf16;
  x.device = DeviceKind::kCuda;
  expect_refused(ErrorCode::kDevice, "x", "device type 2");
  x.device = DeviceKind::kCpu;
  x.shape[1] = 8;
  expect_refused(ErrorCode::kExtent, "x", "x.shape[1] = 8");
  x.shape[1] = -1;
  expect_refused(ErrorCode::kExtent, "x", "[4, -1]");
  x.shape[1] = int64_t{1} << 50;
  expect_refused(ErrorCode::kSizeLimit, "x", "[4, 1125899906842624]");
  x.shape[1] = kHidden;
  wide.shape[0] = kHidden;
  expect_refused(ErrorCode::kExtent, "wide", "wide.shape[0] = 16");
  wide.shape[0] = 2 * kHidden;
  pages.shape[1] = 3;
  expect_refused(ErrorCode::kExtent, "pages", "pages.shape[1] = 3");
  pages.shape[1] = 4;
  expect_accepted();
}

TEST_F(Launcher, RefusesWrongStridesAlignmentPointers) {
  x.strides[1] = 2;
  expect_refused(ErrorCode::kStride, "x", "stride 2 in dimension 1");
  x.strides[1] = 1;
  x.data = x_data + 1;
  expect_refused(ErrorCode::kAlignment, "x", "address 0x");
  x.data = nullptr;
  expect_refused(ErrorCode::kNullPointer, "x", "null, shape [4, 16]");
  x.data = x_data;
  x.strides[0] = kHidden + 1;
  expect_refused(ErrorCode::kAlignment, "x", "stride 17 in dimension 0");
  x.strides[0] = (int64_t{1} << 61);
  expect_refused(ErrorCode::kSizeLimit, "x", "shape [4, 16]");
}

TEST_F(Launcher, RefusesAttributesOutOfRange) {
  for (double bad : {0.0, -1.0, 1.5, 1e-60}) {
    eps = bad;
    expect_refused(ErrorCode::kAttrRange, "eps", "");
  }
  for (double bad : {double{NAN}, double{INFINITY}, 1e300}) {
    eps = bad;
    expect_refused(ErrorCode::kNonFinite, "eps", "");
    eps = 1e-6;
    scale = bad;
    expect_refused(ErrorCode::kNonFinite, "scale", "");
    scale = 1.0;
  }
  window = -2;
  expect_refused(ErrorCode::kAttrRange, "window", "-2");
  window = kTokens + 1;
  expect_refused(ErrorCode::kAttrRange, "window", "5");
  window = Scalar(1.0);
  expect_refused(ErrorCode::kArgKind, "window", "a float");
  window = 0;
  eps = 1;  // an integer where a float is taken
  expect_accepted();
}

TEST_F(Launcher, RefusesConditionsThatDoNotHold) {
  out.shape[1] = x.shape[1] = 4;
  wide.shape[0] = 8;
  expect_refused(ErrorCode::kExtent, "out", "H = 4");
}

TEST_F(Launcher, WalksIndexTensors) {
  pages_data[6] = kTokens;
  expect_refused(ErrorCode::kIndexRange, "pages", "pages[1, 2] = 4");
  pages_data[6] = -2;
  expect_refused(ErrorCode::kIndexRange, "pages", "pages[1, 2] = -2");
  pages_data[6] = -1;
  cu_data[0] = 1;
  expect_refused(ErrorCode::kIndexOrder, "cu_seqlens", "cu_seqlens[0] = 1");
  cu_data[0] = 0;
  cu_data[2] = 3;
  expect_refused(ErrorCode::kIndexOrder, "cu_seqlens", "cu_seqlens[2] = 3");
  cu_data[2] = kTokens;
  cu_data[1] = kTokens + 1;
  expect_refused(ErrorCode::kIndexOrder, "cu_seqlens", "cu_seqlens[2] = 4 after 5");
  cu_data[1] = 1;
  expect_accepted();
}

TEST_F(Launcher, IndexTensorsHonourStrides) {
  int32_t spread[kSequences * 16] = {};
  pages.data = spread;
  pages.strides[0] = 16;
  spread[4] = 99;  // between the rows
  expect_accepted();
  spread[16] = 99;
  expect_refused(ErrorCode::kIndexRange, "pages", "pages[1, 0] = 99");
}

TEST_F(Launcher, WorkspaceComesAlignedAndStays) {
  probe().seen->wanted_bytes = 1000;
  expect_accepted();
  char* first = probe().seen->workspace;
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  probe().seen->wanted_bytes = 500;
  expect_accepted();
  EXPECT_EQ(probe().seen->workspace, first);
  probe().seen->wanted_bytes = int64_t{1} << 60;
  expect_refused(ErrorCode::kOutOfMemory, "", "1152921504606846976 bytes");
}

// ---- as a foreign caller sees it ----------------------------------------------------------------

class ForeignLauncher : public Launcher {
 protected:
  DLTensor dl[6];
  TVMFFIAny args[9];
  void build() {
    TensorView* views[] = {&out, &x, &wide, &bias, &cu, &pages};
    for (size_t i = 0; i < 6; ++i) {
      TensorView& view = *views[i];
      const DTypeInfo& dtype = info(view.dtype);
      dl[i] = {view.data,         {1, 0},  view.rank, {dtype.dlpack_code, dtype.dlpack_bits, 1},
               view.shape.data(), nullptr, 0};
      args[i].type_index = abi::kDLTensorPtr;
      args[i].v_ptr = &dl[i];
    }
    args[6].type_index = abi::kFloat;
    args[6].v_float64 = 1e-6;
    args[7].type_index = abi::kInt;
    args[7].v_int64 = 2;
    args[8].type_index = abi::kBool;
    args[8].v_int64 = 1;
  }
  int call_foreign(int count = 9) {
    TVMFFIAny result{};
    return probe().launch(nullptr, args, count, &result);
  }
};

TEST_F(ForeignLauncher, NullStridesMeanCompactAndByteOffsetCounts) {
  build();
  dl[1].data = reinterpret_cast<char*>(x_data) - 32;
  dl[1].byte_offset = 32;
  ASSERT_EQ(call_foreign(), 0) << probe().last_error();
  EXPECT_EQ(probe().seen->t[1], x_data);
  EXPECT_EQ(probe().seen->n[4], kHidden);
  EXPECT_EQ(probe().seen->n[5], 1);
}

TEST_F(ForeignLauncher, TakesTensorObjects) {
  build();
  struct {
    char header[abi::kObjectHeaderBytes];
    DLTensor tensor;
  } object = {{}, dl[1]};
  args[1].type_index = abi::kTensor;
  args[1].v_ptr = &object;
  ASSERT_EQ(call_foreign(), 0) << probe().last_error();
  EXPECT_EQ(probe().seen->t[1], x_data);
}

TEST_F(ForeignLauncher, ErrorsReachTvmFfiWithTheirPythonClass) {
  build();
  EXPECT_EQ(call_foreign(8), -1);
  EXPECT_THAT(tvm_ffi_error,
              HasSubstr("TypeError: error[RT-C001]: probe: called with the wrong number"));
  EXPECT_THAT(
      tvm_ffi_error,
      HasSubstr(
          "expected:   9 arguments: out, x, wide, bias, cu_seqlens, pages, eps, window, scale"));
  args[1].type_index = abi::kNone;
  EXPECT_EQ(call_foreign(), -1);
  EXPECT_THAT(tvm_ffi_error, HasSubstr("TypeError: error[RT-C002]: probe: `x` is not a tensor"));
  EXPECT_THAT(tvm_ffi_error, HasSubstr("found:      None"));
  args[1].type_index = abi::kDLTensorPtr;
  args[1].v_ptr = nullptr;
  EXPECT_EQ(call_foreign(), -1);
  args[1].v_ptr = &dl[1];
  dl[1].dtype.lanes = 2;
  EXPECT_EQ(call_foreign(), -1);
  EXPECT_THAT(tvm_ffi_error, HasSubstr("found:      bf16 with 2 lanes"));
  dl[1].dtype.lanes = 1;
  dl[1].shape = nullptr;
  dl[1].ndim = 0;
  EXPECT_EQ(call_foreign(), -1);
  EXPECT_THAT(tvm_ffi_error, HasSubstr("ValueError: error[RT-C003]"));
  EXPECT_EQ(tvm_ffi_error.substr(tvm_ffi_error.find("error[")), probe().last_error());
}

TEST_F(ForeignLauncher, HandlesOfOtherLibrariesAreNotTakenForOurs) {
  build();
  uint64_t something_else[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  TVMFFIAny result{};
  tvm_ffi_error.clear();
  EXPECT_EQ(probe().launch(something_else, args, 3, &result), -1);
  EXPECT_THAT(tvm_ffi_error, HasSubstr("RT-C001"));
}

TEST_F(ForeignLauncher, WorkspaceIsKeptBetweenCalls) {
  build();
  probe().seen->wanted_bytes = 4096;
  ASSERT_EQ(call_foreign(), 0);
  char* first = probe().seen->workspace;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  ASSERT_EQ(call_foreign(), 0);
  EXPECT_EQ(probe().seen->workspace, first);
}

// Rising lists, short ones and long ones are looked through in different ways.
TEST(DistinctLauncher, RefusesAValueThatStandsTwice) {
  const Expr T = Expr::sym("T");
  ir::Program p;
  p.name = "probe";
  p.tensors = {tensor("out", DType::kF32, {T}, ir::Role::kOut),
               tensor("slots", DType::kI64, {T}, ir::Role::kIn)};
  p.clauses = {clause(ir::Clause::kDistinct, "slots", 0, 0, "each slot once")};
  p.clauses[0].has_except = true;
  p.clauses[0].except = -1;
  const Probe instance = compiled(p, "distinct.so", {"-DNT=2", "-DNI=3", "-DNF=1"});
  for (const int64_t count : {3, 40, 500}) {
    std::vector<float> out_data(static_cast<size_t>(count));
    std::vector<int64_t> slots(static_cast<size_t>(count));
    const auto call = [&] {
      const TensorView tensors[] = {{out_data.data(), DType::kF32, {count}},
                                    {slots.data(), DType::kI64, {count}}};
      return invoke(instance.launch, tensors, {});
    };
    for (int64_t i = 0; i < count; ++i) slots[static_cast<size_t>(i)] = 3 * i;
    EXPECT_TRUE(call().ok()) << "rising";
    std::reverse(slots.begin(), slots.end());
    slots[0] = slots[1] = -1;
    EXPECT_TRUE(call().ok()) << "falling, with two that are skipped";
    slots[0] = slots[2];
    const Status refused = call();
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.diag().code, ErrorCode::kIndexOrder);
    EXPECT_THAT(refused.diag().found, HasSubstr("slots[2] = " + std::to_string(slots[2])));
  }
}

TEST(EmitLauncher, SymbolsThatNothingBindsAreRefused) {
  ir::Program program = probe_program();
  for (const char* bound_by : {"bias", "pages"})
    for (ir::TensorParam& param : program.tensors)
      if (param.name == bound_by) param.shape[0] = 2;
  Result<std::string> text = emit_launcher(program, "probe");
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.diag().code, ErrorCode::kIrStructure);
  EXPECT_THAT(text.diag().message, HasSubstr("`B`"));
}

TEST(EmitLauncher, TextNeedsNoHeaders) {
  Result<std::string> text = emit_launcher(probe_program(), "probe");
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->find("#include"), std::string::npos);
}

}  // namespace
}  // namespace rooftile
