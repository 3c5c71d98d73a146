// SPDX-License-Identifier: Apache-2.0
// A GPU kernel's lanes in the emulator, on the host's own arguments: what the generated launcher
// does (choose the variant, make workspaces, run the phases in order), without a GPU.
#include <algorithm>
#include <cstring>

#include "rooftile/check/executor.h"
#include "rooftile/emulate/emulate.h"

namespace rooftile::check {
namespace {

// A thread of the emulator takes about a microsecond a statement; beyond this a call takes minutes.
constexpr double kMaxFlops = 4e6;

// The same sequence of seeds for the same first one.
uint64_t next_seed(uint64_t& state) { return state = state * 6364136223846793005u + 1; }

bool is_aligned(const TensorView& view, int64_t align_bytes) {
  if (reinterpret_cast<uintptr_t>(view.data) % static_cast<uintptr_t>(align_bytes) != 0)
    return false;
  for (size_t axis = 0; axis + 1 < static_cast<size_t>(view.rank); ++axis)
    if (view.shape[axis] > 1 && view.strides[axis] * size_bytes(view.dtype) % align_bytes != 0)
      return false;
  return true;
}

bool meets(const codegen::GpuNeeds& needs, const Views& views, const Env& ints) {
  for (const std::string& tensor : needs.aligned)
    if (const auto view = views.find(tensor);  // a workspace is aligned, and no argument
        view != views.end() && !is_aligned(view->second, needs.align_bytes))
      return false;
  return std::all_of(needs.conditions.begin(), needs.conditions.end(), [&](const Expr& condition) {
    return evaluate(condition, ints).value_or(0) != 0;
  });
}

emulate::TensorArg tensor_arg(const TensorView& view, bool initialised) {
  const auto rank = static_cast<size_t>(view.rank);
  return {view.data,
          view.dtype,
          {view.shape.begin(), view.shape.begin() + static_cast<std::ptrdiff_t>(rank)},
          {view.strides.begin(), view.strides.begin() + static_cast<std::ptrdiff_t>(rank)},
          initialised};
}

// Dims by the shapes that bind them, and the integer attributes.
Env integers(const ir::Program& program, const Views& views,
             const std::map<std::string, double, std::less<>>& attrs) {
  Env out;
  for (const ir::TensorParam& tensor : program.tensors) {
    const auto view = views.find(tensor.name);
    if (view == views.end()) continue;
    for (size_t axis = 0; axis < tensor.shape.size(); ++axis)
      if (tensor.shape[axis].kind() == ExprKind::kSym)
        out.emplace(tensor.shape[axis].name(), view->second.shape[axis]);
  }
  for (const ir::ScalarParam& scalar : program.scalars)
    if (const auto at = attrs.find(scalar.name); at != attrs.end() && !scalar.is_float)
      out[scalar.name] = static_cast<int64_t>(at->second);
  return out;
}

// A grid of no CTAs is not launched.
bool is_empty(const lanes::Program& phase, const Env& ints, int sms) {
  Env sizes = ints;
  sizes["SMS"] = sms;
  for (const Expr& extent : {phase.grid_x, phase.grid_y, phase.grid_z})
    if (evaluate(extent, sizes).value_or(1) == 0) return true;
  return false;
}

class EmulatedKernel {
 public:
  EmulatedKernel(KernelSource source, uint64_t seed) : source_(std::move(source)), seed_(seed) {}

  Status run(Arguments& arguments) {
    const Views views = views_of(arguments);
    const Env ints = integers(source_.program, views, arguments.attrs);
    const auto variant =
        std::find_if(source_.variants.begin(), source_.variants.end(),
                     [&](const codegen::GpuVariant& v) { return meets(v.needs, views, ints); });
    if (variant == source_.variants.end())
      return Diag{.code = ErrorCode::kAlignment,
                  .subject = source_.name,
                  .message = "no variant of the kernel takes a call of this alignment"};
    emulate::Launch launch;
    launch.ints.insert(ints.begin(), ints.end());
    launch.floats.insert(arguments.attrs.begin(), arguments.attrs.end());
    for (const ir::TensorParam& tensor : source_.program.tensors)
      if (tensor.role != ir::Role::kWorkspace)
        launch.tensors.emplace(tensor.name, tensor_arg(views.find(tensor.name)->second,
                                                       tensor.role != ir::Role::kOut));
    std::vector<HostTensor> workspaces;
    RT_RETURN_IF_ERROR(add_workspaces(ints, workspaces, launch));
    for (const lanes::Program& phase : variant->phases) {
      if (is_empty(phase, ints, launch.sms)) continue;
      launch.seed = next_seed(seed_);
      RT_RETURN_IF_ERROR(emulate::run(phase, launch));
      for (const lanes::TensorUse& use : phase.tensors)  // what a phase left, the next may read
        if (use.written) launch.tensors.find(use.name)->second.initialised = true;
    }
    for (const HostTensor& workspace : workspaces)
      if (const auto damage = workspace.guard_damage())
        return Diag{.code = ErrorCode::kOutOfBounds,
                    .subject = source_.name,
                    .message = "wrote outside a workspace: " + *damage};
    return {};
  }

 private:
  Status add_workspaces(const Env& ints, std::vector<HostTensor>& workspaces,
                        emulate::Launch& launch) const {
    Env sizes = ints;
    sizes["SMS"] = launch.sms;
    for (const ir::TensorParam& tensor : source_.program.tensors) {
      if (tensor.role != ir::Role::kWorkspace) continue;
      std::vector<int64_t> shape;
      for (const Expr& extent : tensor.shape) shape.push_back(evaluate(extent, sizes).value_or(-1));
      if (std::count(shape.begin(), shape.end(), -1) > 0)
        return Diag{.code = ErrorCode::kInternal,
                    .subject = source_.name,
                    .message = "the size of a workspace has no value",
                    .argument = tensor.name};
      workspaces.emplace_back(tensor.dtype, std::move(shape));
      const bool zeroed = std::count(source_.zeroed.begin(), source_.zeroed.end(), tensor.name) > 0;
      if (zeroed)
        std::memset(workspaces.back().data(), 0,
                    static_cast<size_t>(workspaces.back().size_bytes()));
      launch.tensors.emplace(tensor.name, tensor_arg(workspaces.back().view(), zeroed));
    }
    return {};
  }

  KernelSource source_;
  uint64_t seed_;
};

class EmulatorExecutor : public Executor {
 public:
  explicit EmulatorExecutor(uint64_t seed) : seed_(seed) {}
  Result<Implementation> prepare(KernelSource source) override {
    auto kernel = std::make_shared<EmulatedKernel>(std::move(source), seed_);
    return Implementation([kernel](Arguments& arguments) { return kernel->run(arguments); });
  }
  bool compiles() const override { return false; }
  double max_flops() const override { return kMaxFlops; }

 private:
  uint64_t seed_;
};

}  // namespace

std::unique_ptr<Executor> emulator_executor(uint64_t seed) {
  return std::make_unique<EmulatorExecutor>(seed);
}

}  // namespace rooftile::check
