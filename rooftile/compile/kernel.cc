// SPDX-License-Identifier: Apache-2.0
// The pipeline of one kernel, top to bottom; see kernel.h. Texts are remembered by content, so that
// two callers with the same kernel share one library.
#include "rooftile/compile/kernel.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>

#include "rooftile/codegen/cpu/emit_cpu.h"
#include "rooftile/codegen/cpu/mma_text.h"
#include "rooftile/codegen/host/launcher.h"
#include "rooftile/compile/gpu_kernel.h"
#include "rooftile/compile/raw_kernel.h"
#include "rooftile/runtime/cpu/library.h"
#include "rooftile/runtime/cpu/pack.h"
#include "rooftile/toolchain/disk_cache.h"
#include "rooftile/toolchain/host_cc.h"

namespace rooftile {
namespace {

// The packing and the generated products must mean the same layout.
static_assert(codegen::kPanelColumns == kPackColumns && codegen::kWordAlign == kPackWordAlign);

Diag schedule_error(const ir::Program& program, const Schedule& schedule, std::string message,
                    std::string found, std::string expected) {
  Diag diag;
  diag.code = ErrorCode::kSchedule;
  diag.subject = program.name;
  diag.message = std::move(message);
  diag.found = std::move(found);
  diag.expected = std::move(expected);
  diag.when = "schedule " + schedule.str();
  return diag;
}

std::string joined(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += (out.empty() ? "" : ", ") + item;
  return out.empty() ? "none" : out;
}

// Whatever the schedule names must be there, and every tile parameter must get a value.
Status check_names(const ir::Program& program, const Schedule& schedule) {
  const std::vector<std::string>& params = program.tile_params;
  for (const auto& [param, value] : schedule.tile) {
    if (std::find(params.begin(), params.end(), param) == params.end())
      return schedule_error(program, schedule, "the schedule sets an unknown tile parameter", param,
                            joined(params));
    if (value <= 0)
      return schedule_error(program, schedule, "a tile parameter must be positive",
                            param + " = " + std::to_string(value), "1 or more");
  }
  for (const std::string& param : params)
    if (schedule.tile.count(param) == 0)
      return schedule_error(program, schedule, "the schedule leaves a tile parameter open", param,
                            "a value for each of " + joined(params));

  std::vector<std::string> labels;
  for (const ir::Node& node : program.nodes)
    if (!node.label.empty()) labels.push_back(node.label);
  std::vector<std::string> named = schedule.keep;
  named.insert(named.end(), schedule.recompute.begin(), schedule.recompute.end());
  for (const auto& entry : schedule.mma) named.push_back(entry.first);
  for (const auto& entry : schedule.operand) named.push_back(entry.first);
  for (const std::string& label : named)
    if (std::find(labels.begin(), labels.end(), label) == labels.end())
      return schedule_error(program, schedule, "the schedule names a label that the program lacks",
                            label, joined(labels));
  return {};
}

std::string identifier(std::string_view text) {
  std::string out;
  for (char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      out += c;
    else if (!out.empty() && out.back() != '_')
      out += '_';
  while (!out.empty() && out.back() == '_') out.pop_back();
  return out;
}

// Fowler, Noll, Vo: short, stable across machines, only to keep names of different kernels apart.
std::string short_hash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (int shift = 28; shift >= 0; shift -= 4) out += kDigits[(hash >> (32 + shift)) & 15];
  return out;
}

// rooftile_<op>_<kernel>_<schedule>_<dtypes>_<isa>_<hash>: for people first; the hash tells apart
// what the words leave out (flags, tile sizes).
std::string kernel_name(const OpDef& op, const KernelDef& kernel, const Config& config,
                        const Schedule& schedule, const TargetInfo& target) {
  std::string dtypes;
  std::string_view previous;
  for (const ArgDef& arg : op.args) {
    if (!config.has(arg.name)) continue;
    std::string_view dtype = name(config.dtype(arg.name));
    if (dtype != previous) dtypes += (dtypes.empty() ? "" : "_") + std::string(dtype);
    previous = dtype;
  }
  return "rooftile_" + identifier(op.name) + "_" + identifier(kernel.name) + "_" +
         identifier(schedule.name) + "_" + dtypes + "_" + identifier(target.isa) + "_" +
         short_hash(config.str() + "|" + schedule.str() + "|" + target.key());
}

}  // namespace

Result<KernelSource> generate(const ir::Program& program, const std::string& name,
                              const Schedule& schedule, const TargetInfo& target) {
  RT_RETURN_IF_ERROR(ir::verify(program));
  if (target.gpu) return generate_gpu(program, name, schedule, target);
  RT_RETURN_IF_ERROR(check_names(program, schedule));
  std::map<std::string, Expr, std::less<>> values;
  for (const auto& [param, value] : schedule.tile) values.emplace(param, Expr(value));
  ir::Program specialised = ir::substitute_symbols(program, values);
  specialised.tile_params.clear();
  RT_RETURN_IF_ERROR(ir::verify(specialised));

  Result<codegen::CpuKernelText> kernel = codegen::emit_cpu(specialised, name, schedule, target);
  if (!kernel.ok()) return kernel.diag();
  Result<std::string> launcher = emit_launcher(kernel->program, name);
  if (!launcher.ok()) return launcher.diag();

  KernelSource source;
  source.name = name;
  source.schedule = schedule;
  source.scheduled = std::move(kernel->scheduled);
  source.kernel_text = std::move(kernel->text);
  source.launcher_text = std::move(*launcher);
  source.flags = cpu_flags(target);
  for (const codegen::PackedArg& arg : kernel->packed)
    source.prepacked.push_back({arg.tensor, arg.logical, arg.packed, arg.n_major});
  source.program = std::move(kernel->program);
  source.tiles = std::move(specialised);
  source.target = target;
  source.target_key = target.key();
  return source;
}

Result<KernelSource> generate(const OpDef& op, const KernelDef& kernel, const Config& partial,
                              const Env& dims, const TargetInfo& target, const Schedule* schedule,
                              Route route) {
  RT_RETURN_IF_ERROR(op.check_config(partial));
  const Config config = op.complete(partial);
  const Schedule chosen = schedule != nullptr ? *schedule
                          : kernel.schedule   ? kernel.schedule(config, dims, target)
                                              : Schedule{.name = "default"};
  const std::string name = kernel_name(op, kernel, config, chosen, target);
  if (!kernel.is_raw()) {
    Result<ir::Program> program = op.build(kernel, config);
    if (!program.ok()) return program.diag();
    return generate(*program, name, chosen, target);
  }
  const auto tile = op.candidates(config, dims, target, Route::kTile);
  if (route == Route::kRaw || tile.empty())
    return generate_raw(op, kernel, config, name, chosen, target, nullptr);
  Result<KernelSource> otherwise = generate(op, *tile.front(), config, dims, target);
  if (!otherwise.ok()) return otherwise.diag();
  return generate_raw(op, kernel, config, name, chosen, target, &*otherwise);
}

Result<std::shared_ptr<const CompiledKernel>> compile(KernelSource source) {
  if (source.gpu()) return compile_gpu(std::move(source));
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const CompiledKernel>> loaded;  // by object path
  Result<CachedObject> object =
      compile_cached(source.kernel_text + source.launcher_text, source.flags, source.target_key);
  if (!object.ok()) return object.diag();
  {
    std::lock_guard lock(mutex);
    if (auto it = loaded.find(object->path); it != loaded.end()) return it->second;
  }
  Result<std::shared_ptr<Library>> library = Library::open(object->path);
  if (!library.ok()) return library.diag();
  Result<void*> symbol = (*library)->symbol("__tvm_ffi_" + source.name);
  if (!symbol.ok()) return symbol.diag();

  auto kernel = std::make_shared<CompiledKernel>();
  kernel->source = std::move(source);
  kernel->launch = reinterpret_cast<TVMFFISafeCall>(*symbol);
  kernel->library_path = object->path;
  kernel->compile_ms = object->compile_ms;
  kernel->from_cache = object->from_cache;
  // An object that could not be published lives in a private folder, which must outlast the code.
  kernel->library = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<Library>>>(
      object->keep_alive, *library);
  std::lock_guard lock(mutex);
  return loaded.emplace(kernel->library_path, kernel).first->second;
}

}  // namespace rooftile
