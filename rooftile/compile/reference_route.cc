// SPDX-License-Identifier: Apache-2.0
#include "rooftile/compile/reference_route.h"

#include <map>
#include <mutex>

#include "rooftile/base/float_convert.h"
#include "rooftile/codegen/host/launcher.h"
#include "rooftile/compile/dispatch.h"
#include "rooftile/ops/op_def.h"
#include "rooftile/runtime/cpu/library.h"
#include "rooftile/toolchain/disk_cache.h"
#include "rooftile/toolchain/host_cc.h"

namespace rooftile {
namespace {

constexpr const char* kCheckerName = "rooftile_check_only";

// A launcher over an empty kernel. The libraries stay loaded: there is one an operator and config.
Result<TVMFFISafeCall> contract_checker(const OpDef& op, const OpArgs& args, const Config& config) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<Library>> checkers;  // by text
  if (!op.reference_fn) {
    Diag diag;
    diag.code = ErrorCode::kUnsupported;
    diag.subject = op.name;
    diag.message = "the operator has no reference";
    return diag;
  }
  Result<const KernelDef*> kernel = choose_kernel(op, args, config, {.route = Route::kTile});
  if (!kernel.ok()) return kernel.diag();
  Result<ir::Program> program = op.build(**kernel, config);
  if (!program.ok()) return program.diag();
  Result<std::string> text = emit_launcher(*program, kCheckerName);
  if (!text.ok()) return text.diag();
  const std::string name = kCheckerName;
  *text += "extern \"C\" void " + name +
           "_run(void* const*, const rth::i64*, const float*, char*) {}\n"
           "extern \"C\" rth::i64 " +
           name + "_workspace(const rth::i64*) { return 0; }\n";

  std::lock_guard lock(mutex);
  std::shared_ptr<Library>& library = checkers[*text];
  if (!library) {
    TargetInfo generic;
    Result<CachedObject> object = compile_cached(*text, cpu_flags(generic), generic.key());
    if (!object.ok()) return object.diag();
    Result<std::shared_ptr<Library>> opened = Library::open(object->path);
    if (!opened.ok()) return opened.diag();
    library = *opened;
  }
  Result<void*> symbol = library->symbol("__tvm_ffi_" + name);
  if (!symbol.ok()) return symbol.diag();
  return reinterpret_cast<TVMFFISafeCall>(*symbol);
}

// Calls fn(offset in elements) for each element, last dimension fastest.
template <class Fn>
void for_each_element(const TensorView& view, const Fn& fn) {
  if (view.numel() == 0) return;
  std::array<int64_t, kMaxRank> at{};
  for (;;) {
    int64_t offset = 0;
    for (size_t i = 0; i < static_cast<size_t>(view.rank); ++i) offset += at[i] * view.strides[i];
    fn(offset);
    auto axis = static_cast<size_t>(view.rank);
    while (axis > 0 && ++at[axis - 1] == view.shape[axis - 1]) at[--axis] = 0;
    if (axis == 0) return;
  }
}

NdArray read(const TensorView& view) {
  NdArray array;
  array.shape.assign(view.shape.begin(), view.shape.begin() + view.rank);
  array.data.reserve(static_cast<size_t>(view.numel()));
  for_each_element(view, [&](int64_t offset) {
    array.data.push_back(load_element(view.data, view.dtype, offset));
  });
  return array;
}

void write(const NdArray& array, const TensorView& view) {
  size_t next = 0;
  for_each_element(view, [&](int64_t offset) {
    store_element(view.data, view.dtype, offset, array.data[next++]);
  });
}

}  // namespace

Status call_reference(const OpDef& op, const OpArgs& args) {
  Result<Config> config = config_of(op, args);
  if (!config.ok()) return config.diag();
  Result<TVMFFISafeCall> check = contract_checker(op, args, *config);
  if (!check.ok()) return check.diag();
  std::vector<TensorView> present;
  for (size_t i = 0; i < op.args.size(); ++i)
    if (config->has(op.args[i].name)) present.push_back(args.tensors[i]);
  RT_RETURN_IF_ERROR(invoke(*check, present, args.attrs));

  RefCall call;
  call.config = *config;
  call.dims = bind_dims(op, *config, args.tensors);
  for (size_t i = 0; i < op.attrs.size(); ++i) {
    const Scalar& scalar = args.attrs[i];
    call.attrs[op.attrs[i].name] =
        scalar.is_float ? scalar.number : static_cast<double>(scalar.integer);
    if (!op.attrs[i].is_float) call.dims[op.attrs[i].name] = scalar.integer;
  }
  for (size_t i = 0; i < op.args.size(); ++i) {
    const ArgDef& arg = op.args[i];
    if (!config->has(arg.name)) continue;
    call.tensors[arg.name] = read(args.tensors[i]);
    if (arg.role == ir::Role::kOut)
      std::fill(call.tensors[arg.name].data.begin(), call.tensors[arg.name].data.end(), 0.0);
  }
  op.reference_fn(call);
  for (size_t i = 0; i < op.args.size(); ++i)
    if (config->has(op.args[i].name) && op.args[i].role != ir::Role::kIn)
      write(call.tensors[op.args[i].name], args.tensors[i]);
  return {};
}

}  // namespace rooftile
