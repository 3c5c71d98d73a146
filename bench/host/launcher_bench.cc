// SPDX-License-Identifier: Apache-2.0
// What a call costs before the kernel starts: a generated launcher with its full contract (three
// tensors and a float) over a kernel that does nothing. Four sets of buffers rotate, as in a real
// step.
//
//   launcher      __tvm_ffi_<name> alone, as a TVM-FFI caller sees it
//   invoke        from TensorViews: DLPack structs built on the stack, then the launcher
//   call          the typed C++ function with dispatch; no rows, so that nothing runs behind the
//   checks
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "rooftile/codegen/host/launcher.h"
#include "rooftile/ops.h"
#include "rooftile/runtime/cpu/library.h"
#include "rooftile/toolchain/disk_cache.h"
#include "rooftile/toolchain/host_cc.h"

namespace rooftile {
namespace {

constexpr int64_t kTokens = 16, kHidden = 64;
constexpr size_t kSets = 4;

// The rms_norm contract, without its kernel.
ir::Program rms_norm_contract() {
  const Expr tokens = Expr::sym("T"), hidden = Expr::sym("H");
  ir::Program program;
  program.name = "rms_norm";
  auto add = [&](const char* name, std::vector<Expr> shape, ir::Role role) {
    ir::TensorParam param;
    param.name = name;
    param.dtype = DType::kBf16;
    param.shape = std::move(shape);
    param.role = role;
    param.align_bytes = 16;
    program.tensors.push_back(param);
  };
  add("out", {tokens, hidden}, ir::Role::kOut);
  add("x", {tokens, hidden}, ir::Role::kIn);
  add("weight", {hidden}, ir::Role::kIn);
  program.tensors[0].may_alias = {"x"};
  ir::ScalarParam eps;
  eps.name = "eps";
  eps.fmax = 1;
  eps.has_range = eps.min_exclusive = true;
  program.scalars.push_back(eps);
  return program;
}

TVMFFISafeCall stub_launcher() {
  static std::shared_ptr<Library> library;
  Result<std::string> text = emit_launcher(rms_norm_contract(), "stub");
  if (!text.ok()) return nullptr;
  // The arguments must reach the kernel, or the compiler would drop the work of preparing them.
  *text += R"(
extern "C" void stub_run(void* const* t, const rth::i64* n, const float* f, char*) {
  asm volatile("" : : "r"(t), "r"(n), "r"(f) : "memory");
}
extern "C" rth::i64 stub_workspace(const rth::i64*) { return 0; }
)";
  Result<CachedObject> object =
      compile_cached(*text, cpu_flags(host_target()), host_target().key());
  if (!object.ok()) {
    std::fprintf(stderr, "%s\n", object.diag().str().c_str());
    return nullptr;
  }
  Result<std::shared_ptr<Library>> opened = Library::open(object->path);
  if (!opened.ok()) return nullptr;
  library = *opened;
  return reinterpret_cast<TVMFFISafeCall>(*library->symbol("__tvm_ffi_stub"));
}

struct Buffers {
  std::vector<uint16_t> memory = std::vector<uint16_t>(kSets * 3 * kTokens * kHidden + 64);
  TensorView view(size_t set, size_t which, std::initializer_list<int64_t> shape) {
    auto base = (reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64;
    return TensorView(reinterpret_cast<uint16_t*>(base) + (set * 3 + which) * kTokens * kHidden,
                      DType::kBf16, shape);
  }
};

void launcher(benchmark::State& state) {
  const TVMFFISafeCall launch = stub_launcher();
  if (launch == nullptr) return state.SkipWithError("the stub cannot be compiled");
  Buffers buffers;
  DLTensor tensors[kSets][3];
  TVMFFIAny args[kSets][4];
  int64_t shape[] = {kTokens, kHidden}, strides[] = {kHidden, 1}, weight_shape[] = {kHidden},
          weight_strides[] = {1};
  for (size_t set = 0; set < kSets; ++set) {
    for (size_t i = 0; i < 3; ++i) {
      const bool is_weight = i == 2;
      tensors[set][i] = {buffers.view(set, i, {}).data,
                         {1, 0},
                         is_weight ? 1 : 2,
                         {4, 16, 1},
                         is_weight ? weight_shape : shape,
                         is_weight ? weight_strides : strides,
                         0};
      args[set][i].type_index = abi::kDLTensorPtr;
      args[set][i].v_ptr = &tensors[set][i];
    }
    args[set][3].type_index = abi::kFloat;
    args[set][3].v_float64 = 1e-6;
  }
  size_t set = 0;
  for (auto _ : state) {
    TVMFFIAny result{};
    if (launch(nullptr, args[set], 4, &result) != 0)
      return state.SkipWithError("the launcher refused its arguments");
    set = (set + 1) % kSets;
  }
}

void invoke_views(benchmark::State& state) {
  const TVMFFISafeCall launch = stub_launcher();
  if (launch == nullptr) return state.SkipWithError("the stub cannot be compiled");
  Buffers buffers;
  std::vector<std::vector<TensorView>> views;
  for (size_t set = 0; set < kSets; ++set)
    views.push_back({buffers.view(set, 0, {kTokens, kHidden}),
                     buffers.view(set, 1, {kTokens, kHidden}), buffers.view(set, 2, {kHidden})});
  const Scalar eps[] = {1e-6};
  size_t set = 0;
  for (auto _ : state) {
    if (!invoke(launch, views[set], eps).ok())
      return state.SkipWithError("the launcher refused its arguments");
    set = (set + 1) % kSets;
  }
}

void call_typed(benchmark::State& state) {
  Buffers buffers;
  size_t set = 0;
  for (auto _ : state) {
    Status status =
        ops::rms_norm(buffers.view(set, 0, {0, kHidden}), buffers.view(set, 1, {0, kHidden}),
                      buffers.view(set, 2, {kHidden}));
    if (!status.ok()) return state.SkipWithError(status.str().c_str());
    set = (set + 1) % kSets;
  }
}

double p50(const std::vector<double>& values) {
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

#define RT_HOST_BENCHMARK(fn)         \
  BENCHMARK(fn)                       \
      ->Unit(benchmark::kNanosecond)  \
      ->MinTime(0.05)                 \
      ->Repetitions(11)               \
      ->ComputeStatistics("p50", p50) \
      ->ReportAggregatesOnly()
RT_HOST_BENCHMARK(launcher);
RT_HOST_BENCHMARK(invoke_views);
RT_HOST_BENCHMARK(call_typed);

}  // namespace
}  // namespace rooftile

BENCHMARK_MAIN();
