// SPDX-License-Identifier: Apache-2.0
// Two memories: this thread's, keyed by everything that can influence the choice (dtypes, presence,
// flags, shapes), compared in full; and the process's, keyed by what is compiled. Only the second
// takes a lock, and only on a miss of the first.
#include "rooftile/compile/dispatch.h"

#include <algorithm>
#include <array>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <vector>

#include "rooftile/base/env.h"
#include "rooftile/compile/proof_gate.h"
#include "rooftile/compile/reference_route.h"
#include "rooftile/compile/target.h"
#include "rooftile/ops/op_def.h"

namespace rooftile {
namespace {

using KernelPtr = std::shared_ptr<const CompiledKernel>;

bool is_absent(const TensorView& view) { return !view; }

Diag usage(const OpDef& op, ErrorCode code, std::string message, std::string argument,
           std::string found, std::string expected) {
  Diag diag;
  diag.code = code;
  diag.subject = op.name;
  diag.message = std::move(message);
  diag.argument = std::move(argument);
  diag.found = std::move(found);
  diag.expected = std::move(expected);
  return diag;
}

Status check_counts(const OpDef& op, const OpArgs& args) {
  auto check = [&](std::string_view what, size_t found, size_t expected) -> Status {
    if (found == expected) return {};
    return usage(op, ErrorCode::kArgCount, "called with the wrong number of " + std::string(what),
                 "", std::to_string(found), std::to_string(expected));
  };
  RT_RETURN_IF_ERROR(check("tensors", args.tensors.size(), op.args.size()));
  RT_RETURN_IF_ERROR(check("attributes", args.attrs.size(), op.attrs.size()));
  RT_RETURN_IF_ERROR(check("flags", args.flags.size(), op.flags.size()));
  for (size_t i = 0; i < op.args.size(); ++i) {
    const TensorView& view = args.tensors[i];
    const ArgDef& arg = op.args[i];
    if (is_absent(view) && !arg.optional && !arg.shape.empty())
      return usage(op, ErrorCode::kArgCount, "the tensor `" + arg.name + "` is missing", arg.name,
                   "no tensor", "a tensor of rank " + std::to_string(arg.shape.size()));
    if (view.rank < 0 || view.rank > kMaxRank)
      return usage(op, ErrorCode::kRank, "`" + arg.name + "` has an impossible rank", arg.name,
                   "rank " + std::to_string(view.rank), "0 to " + std::to_string(kMaxRank));
    if (static_cast<size_t>(view.dtype) >= kDTypes.size())
      return usage(op, ErrorCode::kDType, "`" + arg.name + "` has an unknown dtype", arg.name,
                   std::to_string(static_cast<int>(view.dtype)), "a DType");
  }
  return {};
}

// Kernels and schedules are chosen by shape, so the shapes must make sense before that; the
// launcher checks the rest. Only a schedule of the caller's own may ask for tensors in another
// form.
Status check_shapes(const OpDef& op, const Config& config, const OpArgs& args,
                    const CallOptions& options) {
  for (size_t i = 0; i < op.args.size(); ++i) {
    const ArgDef& arg = op.args[i];
    const TensorView& view = args.tensors[i];
    if (!config.has(arg.name)) continue;
    if (view.rank != static_cast<int>(arg.shape.size()) && options.schedule == nullptr)
      return usage(op, ErrorCode::kRank, "`" + arg.name + "` has the wrong number of dimensions",
                   arg.name, "rank " + std::to_string(view.rank),
                   "rank " + std::to_string(arg.shape.size()));
    for (int axis = 0; axis < view.rank; ++axis)
      if (view.shape[static_cast<size_t>(axis)] < 0)
        return usage(op, ErrorCode::kExtent, "`" + arg.name + "` has a negative extent", arg.name,
                     arg.name + ".shape[" + std::to_string(axis) +
                         "] = " + std::to_string(view.shape[static_cast<size_t>(axis)]),
                     "0 or more");
  }
  return {};
}

// ---- the thread's memory ------------------------------------------------------------------------

// Everything that a choice of kernel may depend on, as words.
class CallKey {
 public:
  // False if it does not fit: such a call is looked up the long way.
  bool fill(const OpDef& op, const OpArgs& args, Route route, bool proved) {
    size_ = 0;
    size_t needed = 2 + args.flags.size();
    for (const TensorView& view : args.tensors) needed += 1 + static_cast<size_t>(view.rank);
    if (needed > words_.size()) return false;
    push(static_cast<int64_t>(reinterpret_cast<intptr_t>(&op)));
    push(static_cast<int64_t>(route) | int64_t{proved} << 8);
    for (int64_t flag : args.flags) push(flag);
    for (const TensorView& view : args.tensors) {
      push(view.rank | static_cast<int64_t>(view.dtype) << 8 | int64_t{is_absent(view)} << 16 |
           static_cast<int64_t>(view.device) << 20);
      for (int i = 0; i < view.rank; ++i) push(view.shape[static_cast<size_t>(i)]);
    }
    return true;
  }
  size_t hash() const {
    uint64_t h = size_;
    for (size_t i = 0; i < size_; ++i)
      h = (h ^ static_cast<uint64_t>(words_[i])) * 0x9e3779b97f4a7c15ull;  // Fibonacci hashing
    return static_cast<size_t>(h >> 32);
  }
  bool operator==(const CallKey& other) const {
    return size_ == other.size_ &&
           std::equal(words_.begin(), words_.begin() + static_cast<long>(size_),
                      other.words_.begin());
  }

 private:
  void push(int64_t word) { words_[size_++] = word; }
  size_t size_ = 0;
  std::array<int64_t, 96> words_;
};

struct MemoSlot {
  CallKey key;
  KernelPtr kernel;
};
constexpr size_t kMemoSlots = 256;  // a model step has some dozens of distinct calls

MemoSlot& memo_slot(const CallKey& key) {
  thread_local std::vector<MemoSlot> slots(kMemoSlots);
  return slots[key.hash() % kMemoSlots];
}

// Operators of the caller's own that were given to keep().
struct KeptOps {
  std::mutex mutex;
  std::list<OpDef> ops;  // addresses are stable
};
KeptOps& kept_ops() {
  static KeptOps kept;
  return kept;
}

// Whether the operator lives as long as the process, so that its address can stand for it. Another
// may go, and one with other contents take its address.
bool is_permanent(const OpDef& op) {
  static const std::vector<OpDef>& built_in_ops = all_ops();
  const std::less_equal<const OpDef*> before;
  if (!built_in_ops.empty() && before(&built_in_ops.front(), &op) &&
      before(&op, &built_in_ops.back()))
    return true;
  std::lock_guard lock(kept_ops().mutex);
  return std::any_of(kept_ops().ops.begin(), kept_ops().ops.end(),
                     [&](const OpDef& kept) { return &kept == &op; });
}

// Where most tensors are is where the kernel runs; its launcher refuses the others.
const TargetInfo& target_of(const OpArgs& args) {
  int on_gpu = 0, elsewhere = 0;
  for (const TensorView& view : args.tensors)
    if (!is_absent(view)) ++(view.device == DeviceKind::kCuda ? on_gpu : elsewhere);
  return on_gpu > elsewhere ? sm90_target() : host_target();
}

// ---- the process's memory -----------------------------------------------------------------------

// What stands behind a raw kernel for the calls that its text does not take, as part of a key.
std::string behind(const OpDef& op, const KernelDef& kernel, const Config& config, const Env& dims,
                   const TargetInfo& target, Route route) {
  if (!kernel.is_raw()) return "";
  if (route == Route::kRaw) return "|alone";
  const auto tile = op.candidates(config, dims, target, Route::kTile);
  if (tile.empty()) return "|alone";
  const KernelDef& other = *tile.front();
  return "|" + other.name + "|" +
         (other.schedule ? other.schedule(config, dims, target).str() : std::string());
}

bool proofs_demanded() {
  static const bool demanded = env_flag(EnvVar::kRequireProved);  // no call looks it up again
  return demanded;
}

// Who demands proofs gets tile kernels: nobody proves the others.
Result<CallOptions> with_demands(const OpDef& op, CallOptions options) {
  options.proved = options.proved || proofs_demanded();
  if (!options.proved) return options;
  if (options.route == Route::kRaw)
    return usage(op, ErrorCode::kUnproved, "hand-written kernels are not proved", "", "route raw",
                 "route tile, or no demand for proofs");
  options.route = Route::kTile;
  return options;
}

Result<KernelPtr> compile_for(const OpDef& op, const OpArgs& args, const CallOptions& given) {
  static std::mutex mutex;
  static std::map<std::string, KernelPtr> compiled;

  const Result<CallOptions> demands = with_demands(op, given);
  if (!demands.ok()) return demands.diag();
  const CallOptions& options = *demands;
  Result<Config> config = config_of(op, args);
  if (!config.ok()) return config.diag();
  Result<const KernelDef*> kernel = choose_kernel(op, args, *config, options);
  if (!kernel.ok()) return kernel.diag();
  const Env dims = bind_dims(op, *config, args.tensors);
  const TargetInfo& target = target_of(args);
  const Schedule schedule = options.schedule != nullptr ? *options.schedule
                            : (*kernel)->schedule       ? (*kernel)->schedule(*config, dims, target)
                                                        : Schedule{.name = "default"};
  const std::string key = op.name + "@" + std::to_string(reinterpret_cast<intptr_t>(&op)) + "|" +
                          (*kernel)->name + "|" + config->str() + "|" + schedule.str() + "|" +
                          target.key() + behind(op, **kernel, *config, dims, target, options.route);
  const bool permanent = is_permanent(op);
  if (permanent) {
    KernelPtr known;
    {
      std::lock_guard lock(mutex);
      if (auto it = compiled.find(key); it != compiled.end()) known = it->second;
    }
    if (known != nullptr) {  // perhaps by who did not ask for a proof
      if (options.proved) RT_RETURN_IF_ERROR(require_proved(known->source));
      return known;
    }
  }
  Result<KernelSource> source =
      generate(op, **kernel, *config, dims, target, &schedule, options.route);
  if (!source.ok()) return source.diag();
  if (options.proved) RT_RETURN_IF_ERROR(require_proved(*source));
  Result<KernelPtr> result = compile(std::move(*source));
  if (result.ok() && permanent) {
    std::lock_guard lock(mutex);
    compiled.emplace(key, *result);
  }
  return result;
}

}  // namespace

const OpDef& keep(OpDef op) {
  std::lock_guard lock(kept_ops().mutex);
  return kept_ops().ops.emplace_back(std::move(op));
}

const OpDef& built_in(std::string_view name) { return *find_op(name); }

Result<Config> config_of(const OpDef& op, const OpArgs& args) {
  RT_RETURN_IF_ERROR(check_counts(op, args));
  Config config;
  for (size_t i = 0; i < op.args.size(); ++i) {
    const bool absent = is_absent(args.tensors[i]) && op.args[i].optional;
    if (op.args[i].optional) config.present[op.args[i].name] = !absent;
    if (!absent) config.dtypes[op.args[i].name] = args.tensors[i].dtype;
  }
  for (size_t i = 0; i < op.flags.size(); ++i) config.flags[op.flags[i].name] = args.flags[i];
  RT_RETURN_IF_ERROR(op.check_config(config));
  return op.complete(config);
}

// Extents that disagree keep the first value: the launcher has the message for that.
Env bind_dims(const OpDef& op, const Config& config, std::span<const TensorView> tensors) {
  Env dims;
  for (size_t i = 0; i < op.args.size() && i < tensors.size(); ++i) {
    const ArgDef& arg = op.args[i];
    if (!config.has(arg.name) || tensors[i].rank != static_cast<int>(arg.shape.size())) continue;
    for (size_t axis = 0; axis < arg.shape.size(); ++axis) {
      const Expr extent = config.resolve(arg.shape[axis]);
      if (extent.kind() == ExprKind::kSym) dims.emplace(extent.name(), tensors[i].shape[axis]);
    }
  }
  return dims;
}

Result<const KernelDef*> choose_kernel(const OpDef& op, const OpArgs& args, const Config& config,
                                       const CallOptions& options) {
  RT_RETURN_IF_ERROR(check_shapes(op, config, args, options));
  const TargetInfo& target = target_of(args);
  const Env dims = bind_dims(op, config, args.tensors);
  const std::string& by_name = options.kernel;
  if (by_name.empty()) {
    const auto found = op.candidates(config, dims, target, options.route);
    if (!found.empty()) return found.front();
  }
  std::string names;
  for (const KernelDef& kernel : op.kernels) {
    const bool of_route = options.route == Route::kAuto || kernel.route() == options.route;
    if (!of_route || (kernel.is_raw() && !target.gpu)) continue;
    names += (names.empty() ? "" : ", ") + kernel.name;
    // A kernel asked for by name is not asked whether it applies: its contract decides.
    if (kernel.name == by_name) return &kernel;
  }
  if (by_name.empty())
    return usage(op, ErrorCode::kUnsupported, "no kernel takes this config",
                 "route " + std::string(route_name(options.route)), config.str(), names);
  return usage(op, ErrorCode::kUnsupported, "there is no kernel `" + by_name + "`", by_name,
               by_name, names);
}

Result<KernelPtr> kernel_for(const OpDef& op, const OpArgs& args, const CallOptions& options) {
  RT_RETURN_IF_ERROR(check_counts(op, args));
  CallKey key;
  const bool remember = options.schedule == nullptr && options.kernel.empty() && is_permanent(op) &&
                        key.fill(op, args, options.route, options.proved || proofs_demanded());
  if (!remember) return compile_for(op, args, options);
  MemoSlot& slot = memo_slot(key);
  if (slot.kernel && slot.key == key) return slot.kernel;
  Result<KernelPtr> kernel = compile_for(op, args, options);
  if (kernel.ok()) {
    slot.key = key;
    slot.kernel = *kernel;
  }
  return kernel;
}

Status call(const OpDef& op, const OpArgs& args, const CallOptions& options) {
  if (options.route == Route::kReference) return call_reference(op, args);
  Result<KernelPtr> kernel = kernel_for(op, args, options);
  if (!kernel.ok()) return kernel.diag();
  return invoke((*kernel)->launch, args.tensors, args.attrs, Absent::kLeaveOut);
}

Status call(const CompiledKernel& kernel, std::span<const TensorView> tensors,
            std::span<const Scalar> scalars) {
  return invoke(kernel.launch, tensors, scalars);
}

Result<PackedTensor> prepack(const CompiledKernel& kernel, std::string_view tensor,
                             const TensorView& logical) {
  for (const PrepackedOperand& operand : kernel.source.prepacked) {
    if (operand.tensor != tensor) continue;
    if (operand.dtype != logical.dtype) {
      Diag diag;
      diag.code = ErrorCode::kDType;
      diag.subject = kernel.source.program.name;
      diag.message = "`" + operand.tensor + "` has the wrong dtype";
      diag.argument = operand.tensor;
      diag.found = std::string(name(logical.dtype));
      diag.expected = std::string(name(operand.dtype));
      return diag;
    }
    return pack_operand(logical, operand.n_major, operand.packed);
  }
  Diag diag;
  diag.code = ErrorCode::kArgKind;
  diag.subject = kernel.source.program.name;
  diag.message = "the kernel does not take `" + std::string(tensor) + "` packed";
  diag.argument = std::string(tensor);
  diag.when = "schedule " + kernel.source.schedule.str();
  diag.fix = "compile it with a schedule that asks for OperandForm::kPrepacked";
  return diag;
}

}  // namespace rooftile
