// SPDX-License-Identifier: Apache-2.0
// The CUDA text itself: fragments, names, parameters, and that no instruction or operation lacks a
// text. That a compiler takes it is emit_cuda_compile_test.cc.
#include "rooftile/codegen/cuda/emit_cuda.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/codegen/cuda/prelude.h"
#include "rooftile/lanes/lanes.h"
#include "rooftile/lanes/testing/catalogue.h"
#include "rooftile/lanes/testing/wgmma_gemm.h"

namespace rooftile::codegen {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using namespace lanes;  // NOLINT: the test speaks of little else

// y[row, i] = x[row, i] + 1 for four elements a thread.
Program add_one() {
  Program p;
  p.name = "add_one";
  const Expr m = Expr::sym("M"), n = Expr::sym("N");
  p.tensors = {
      {.name = "x", .dtype = DType::kF32, .shape = {m, n}, .read = true, .unaliased = true},
      {.name = "y", .dtype = DType::kF32, .shape = {m, n}, .written = true}};
  p.scalars = {{"eps", Ty::kF32}, {"N", Ty::kI32}, {"x.s0", Ty::kI64}, {"y.s0", Ty::kI64}};
  p.threads = 256;
  p.min_ctas_per_sm = 2;
  const Val i = var(Ty::kI32, "i"), k = var(Ty::kI32, "k");
  Instr load;
  load.global = {"x", {special(Special::kCtaX), i}, 4};
  load.results = {{"v", 0, 4}};
  load.guard = i < param(Ty::kI32, "N");
  Instr store = load;
  store.ins = Ins::kStGlobal;
  store.global.tensor = "y";
  store.cache = Cache::kStream;
  store.regs = std::move(store.results);
  store.results = {};
  p.body = {decl(Ty::kI32, "i", special(Special::kTid) * 4),
            decl_array(Ty::kF32, "v", 4),
            comment("one vector a thread"),
            instr(load),
            for_("k", 0, 4, 1, {assign("v", k, elem(Ty::kF32, "v", k) + param(Ty::kF32, "eps"))},
                 Unroll::kYes),
            instr(store)};
  return p;
}

std::string emitted(const Program& p) {
  const Result<std::string> text = emit_cuda(p);
  EXPECT_TRUE(text.ok()) << text.status().str();
  return text.ok() ? *text : "";
}

TEST(EmitCuda, PrintsAKernelAsOneWouldWriteIt) {
  const std::string text = emitted(add_one());
  EXPECT_THAT(text,
              HasSubstr("extern \"C\" __global__ void __launch_bounds__(256, 2)\n"
                        "add_one(\n"
                        "    const float* __restrict__ x,\n"
                        "    float* y,\n"
                        "    i64 x_s0,\n"
                        "    i64 y_s0,\n"
                        "    i32 N,\n"
                        "    float eps) {\n"
                        "  const i32 thread_id = threadIdx.x;\n"
                        "  const i32 cta_x = blockIdx.x;\n"
                        "  const i32 i = thread_id * 4;\n"
                        "  float v[4];\n"
                        "  // one vector a thread\n"
                        "  ld_global_v4_nc_if(v, x + ((i64)cta_x * x_s0 + (i64)i), i < N);\n"
                        "  #pragma unroll\n"
                        "  for (i32 k = 0; k < 4; ++k) {\n"
                        "    v[k] = v[k] + eps;\n"
                        "  }\n"
                        "  st_global_v4_stream_if(y + ((i64)cta_x * y_s0 + (i64)i), v, i < N);\n"
                        "}\n"));
}

TEST(EmitCuda, DefinesOnlyTheHelpersThatAreUsed) {
  const std::string text = emitted(add_one());
  EXPECT_THAT(text, HasSubstr("static __device__ __forceinline__ void ld_global_v4_nc_if("
                              "float* r, const void* p, bool guard) {\n"
                              "  asm volatile(\n"
                              "      \"{\\n\"\n"
                              "      \".reg .pred p;\\n\"\n"
                              "      \"setp.ne.u32 p, %5, 0;\\n\"\n"
                              "      \"@p ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];\\n\"\n"
                              "      \"}\"\n"
                              "      : \"+f\"(r[0]), \"+f\"(r[1]), \"+f\"(r[2]), \"+f\"(r[3])\n"
                              "      : \"l\"(p), \"r\"((u32)guard) : \"memory\");\n"
                              "}\n"));
  EXPECT_THAT(text, Not(HasSubstr("#include")));
  EXPECT_THAT(text, Not(HasSubstr("TensorMap")));
  EXPECT_THAT(text, Not(HasSubstr("mbarrier")));
  EXPECT_THAT(text, Not(HasSubstr("smem")));
}

TEST(EmitCuda, ReadsThroughTheReadOnlyCacheOnlyWhatNothingWrites) {
  Program p = add_one();
  p.tensors[0].unaliased = false;
  const std::string text = emitted(p);
  EXPECT_THAT(text, HasSubstr("const float* x,"));
  EXPECT_THAT(text, HasSubstr("\"@p ld.global.v4.b32 "));
}

TEST(EmitCuda, PassesMapsTensorsStridesDimsAttributes) {
  const std::vector<KernelParam> params = kernel_params(*lanes::testing::wgmma_gemm());
  std::string names;
  for (const KernelParam& param : params)
    names += param.name + ":" + std::to_string(param.size) + " ";
  EXPECT_EQ(names, "map_a:128 map_b:128 a:8 b:8 d:8 d.s0:8 M:4 N:4 K:4 ");
  EXPECT_EQ(params[0].kind, KernelParam::Kind::kTensorMap);
  EXPECT_EQ(params[5].kind, KernelParam::Kind::kStride);
  const std::vector<KernelParam> with_attribute = kernel_params(add_one());
  EXPECT_EQ(with_attribute.back().kind, KernelParam::Kind::kAttribute);
  EXPECT_EQ(with_attribute.back().name, "eps");
}

TEST(EmitCuda, ProductsStepThroughDescriptorsByConstants) {
  const std::string text = emitted(*lanes::testing::wgmma_gemm({.bn = 128, .stages = 4}));
  // Only the ring's address is divided; the step of an unrolled loop is a constant to be added.
  EXPECT_THAT(text, HasSubstr("matrix_desc((ring_a >> 4) + ((u32)stage * 512u + (u32)kk * 2u) + "
                              "65536u, 0x40000040u)"));
  EXPECT_THAT(text, HasSubstr("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0, %1,"));
  EXPECT_THAT(text, HasSubstr("%65, %66, keep, 1, 1, 0, 0;"));
}

TEST(EmitCuda, RolesAreUniformAndSingleThreadsAreElected) {
  const std::string text = emitted(*lanes::testing::wgmma_gemm());
  EXPECT_THAT(text,
              HasSubstr("const i32 warp_id = __shfl_sync(0xffffffffu, threadIdx.x >> 5, 0);"));
  EXPECT_THAT(text, HasSubstr("bool elected = elect_one();\n    if (elected) {\n"));
  EXPECT_THAT(text, HasSubstr("  const u32 full = smem_base + 32768u;\n"));
  EXPECT_THAT(text, HasSubstr("tma_load_2d(map_a, ring_a + (u32)stage * 8192u, "
                              "full + (u32)stage * 8u, kb * 64, m0);"));
}

TEST(EmitCuda, NamesMeetNeitherKeywordsNorHelpersNorEachOther) {
  Program p = add_one();
  const Val spin = var(Ty::kF32, "max_nan"), keyword = var(Ty::kF32, "float");
  p.scalars.push_back({"x_s0", Ty::kI32});
  p.body.push_back(decl(Ty::kF32, "float", f32(1)));
  p.body.push_back(decl(Ty::kF32, "max_nan", max(keyword, elem(Ty::kF32, "v", 0))));
  p.body.push_back(assign("v", 0, spin + cast(Ty::kF32, param(Ty::kI32, "x_s0"))));
  const std::string text = emitted(p);
  EXPECT_THAT(text, HasSubstr("const float float_ = 1.0f;"));
  EXPECT_THAT(text, HasSubstr("const float max_nan_ = max_nan(float_, v[0]);"));
  EXPECT_THAT(text, HasSubstr("v[0] = max_nan_ + (float)x_s0_;"));
}

// C++ may assume that i + 1 does not overflow. Of an index that is so; of data it is not.
TEST(EmitCuda, SignedDataWrapsAndIndicesDoNot) {
  Program p = add_one();
  p.tensors.push_back({.name = "t", .dtype = DType::kI32, .shape = {Expr::sym("N")}, .read = true});
  Instr load;
  load.dtype = DType::kI32;
  load.global = {"t", {var(Ty::kI32, "i") + 1}, 1};
  load.results = {{"data", {}, 1}};
  p.body.push_back(decl(Ty::kI32, "data"));
  p.body.push_back(instr(load));
  p.body.push_back(decl(Ty::kI32, "twice", var(Ty::kI32, "data") * 2));
  p.body.push_back(decl(Ty::kI32, "less", var(Ty::kI32, "twice") - 1));
  const std::string text = emitted(p);
  EXPECT_THAT(text, HasSubstr("data = ld_global_i32(t + (i64)(i + 1));"));
  EXPECT_THAT(text, HasSubstr("const i32 twice = wrap_mul(data, 2);"));
  EXPECT_THAT(text, HasSubstr("const i32 less = wrap_sub(twice, 1);"));
  EXPECT_THAT(text, HasSubstr("  return (i32)((u32)a * (u32)b);\n"));
}

TEST(EmitCuda, RefusesWhatDoesNotVerifyOrIsNotPlaced) {
  Program p = add_one();
  p.body.push_back(assign("nothing", 1));
  EXPECT_EQ(emit_cuda(p).diag().code, ErrorCode::kLanes);
  p = add_one();
  p.shared = {{.name = "tile", .bytes = 64}};
  ASSERT_FALSE(emit_cuda(p).ok());
  EXPECT_THAT(emit_cuda(p).diag().str(), HasSubstr("`tile` has no place"));
}

// Every row of instr.def has a text, and the catalogue, which the compile tests use, holds it.
TEST(EmitCuda, EveryInstructionIsInTheCatalogue) {
  std::set<Ins> seen;
  for (const Program& p : lanes::testing::instruction_catalogue()) {
    EXPECT_NE(emitted(p), "");
    for (const Stmt& stmt : p.body)
      if (stmt.kind == StmtKind::kInstr) seen.insert(stmt.instr.ins);
  }
  for (int code = 0; code <= static_cast<int>(Ins::kGridLaunchNext); ++code)
    EXPECT_TRUE(seen.contains(static_cast<Ins>(code))) << ins_info(static_cast<Ins>(code)).name;
}

TEST(EmitCuda, EveryPureOperationHasAText) {
  const Program p = lanes::testing::pure_catalogue();
  const std::string text = emitted(p);
  std::set<Fn> seen;
  for (const Stmt& stmt : p.body)
    if (stmt.kind == StmtKind::kAssign && stmt.value->kind == ValKind::kFn)
      seen.insert(stmt.value->fn);
  for (int code = 0; code <= static_cast<int>(Fn::kMatrixDesc); ++code)
    EXPECT_TRUE(seen.contains(static_cast<Fn>(code))) << fn_info(static_cast<Fn>(code)).name;
  // An operation without a row would leave a hole.
  EXPECT_THAT(text, Not(HasSubstr("= ;")));
}

TEST(CudaPrelude, NumbersOperandsOutputsFirst) {
  const cuda::Helper helper{.name = "mix",
                            .operands = cuda::parse_operands("u32 a, result float r, imm n"),
                            .ptx = "mix $r, $a, $n;"};
  EXPECT_EQ(cuda::definition(helper),
            "template <int n>\n"
            "static __device__ __forceinline__ float mix(u32 a) {\n"
            "  float r;\n"
            "  asm volatile(\"mix %0, %1, %2;\" : \"=f\"(r) : \"r\"(a), \"n\"(n) : \"memory\");\n"
            "  return r;\n"
            "}\n");
}

TEST(CudaPrelude, OneDefinitionASignature) {
  cuda::Prelude prelude;
  const auto helper = [](const char* type) {
    return cuda::Helper{
        .name = "id",
        .operands = cuda::parse_operands(std::string("result ") + type + " r, " + type + " a"),
        .body = "  return a;\n"};
  };
  prelude.use(helper("u32"));
  prelude.use(helper("u32"));
  prelude.use(helper("float"));
  const std::string text = prelude.text();
  EXPECT_EQ(text.find("u32 id(u32 a)"), text.rfind("u32 id(u32 a)"));
  EXPECT_THAT(text, HasSubstr("float id(float a)"));
}

}  // namespace
}  // namespace rooftile::codegen
