// SPDX-License-Identifier: Apache-2.0
#include "rooftile/compile/gpu_kernel.h"

#include <algorithm>
#include <future>
#include <map>
#include <mutex>

#include "rooftile/codegen/cuda/emit_cuda.h"
#include "rooftile/codegen/host/launcher.h"
#include "rooftile/compile/arg_layout.h"
#include "rooftile/runtime/cpu/library.h"
#include "rooftile/runtime/cuda/gpu_kernel.h"
#include "rooftile/toolchain/cubin_cache.h"
#include "rooftile/toolchain/disk_cache.h"
#include "rooftile/toolchain/host_cc.h"

namespace rooftile {
namespace {

Diag schedule_error(const ir::Program& program, const Schedule& schedule, std::string message,
                    std::string found) {
  Diag diag;
  diag.code = ErrorCode::kSchedule;
  diag.subject = program.name;
  diag.message = std::move(message);
  diag.found = std::move(found);
  diag.when = "schedule " + schedule.str();
  return diag;
}

// Every name of the schedule is one of the program's.
Status check_names(const ir::Program& program, const Schedule& schedule) {
  auto known_label = [&](const std::string& name) {
    return std::any_of(program.nodes.begin(), program.nodes.end(), [&](const ir::Node& node) {
      return node.label == name || (node.op == ir::Op::kStore && node.name == name);
    });
  };
  auto known_loop = [&](const std::string& name) {
    return std::any_of(program.nodes.begin(), program.nodes.end(), [&](const ir::Node& node) {
      return node.op == ir::Op::kLoop && node.name == name;
    });
  };
  const std::vector<std::string>& params = program.tile_params;
  for (const auto& [param, value] : schedule.tile)
    if (std::find(params.begin(), params.end(), param) == params.end() || value <= 0)
      return schedule_error(program, schedule,
                            "the schedule sets an unknown or impossible tile parameter",
                            param + " = " + std::to_string(value));
  for (const std::string& param : params)
    if (schedule.tile.count(param) == 0)
      return schedule_error(program, schedule, "the schedule leaves a tile parameter open", param);
  for (const auto& [label, copy] : schedule.gpu.copy)
    if (!known_label(label))
      return schedule_error(program, schedule, "the schedule copies what the program lacks", label);
  for (const auto& [label, product] : schedule.gpu.product)
    if (!known_label(label))
      return schedule_error(program, schedule, "the schedule names an unknown product", label);
  for (const std::string& label : schedule.gpu.fast)
    if (!known_label(label))
      return schedule_error(program, schedule, "the schedule names an unknown value", label);
  for (const auto& [loop, plan] : schedule.gpu.loop)
    if (!known_loop(loop))
      return schedule_error(program, schedule, "the schedule names an unknown loop", loop);
  for (const gpu::LoopSplit& split : schedule.gpu.split)
    if (!known_loop(split.loop))
      return schedule_error(program, schedule, "the schedule splits an unknown loop", split.loop);
  for (const gpu::Turns& turns : schedule.gpu.turns)
    if (!known_loop(turns.loop))
      return schedule_error(program, schedule, "the schedule orders an unknown loop", turns.loop);
  return {};
}

Result<ir::Program> specialise(const ir::Program& program, const Schedule& schedule) {
  RT_RETURN_IF_ERROR(check_names(program, schedule));
  std::map<std::string, Expr, std::less<>> values;
  for (const auto& [param, value] : schedule.tile) values.emplace(param, Expr(value));
  ir::Program out = ir::substitute_symbols(program, values);
  out.tile_params.clear();
  RT_RETURN_IF_ERROR(ir::verify(out));
  return out;
}

std::vector<GpuLaunchVariant> launch_variants(const std::vector<codegen::GpuVariant>& variants) {
  std::vector<GpuLaunchVariant> out;
  for (const codegen::GpuVariant& variant : variants) {
    GpuLaunchVariant launch{variant.needs.align_bytes,
                            variant.needs.aligned,
                            variant.needs.conditions,
                            variant.needs.ranges,
                            {}};
    for (const lanes::Program& phase : variant.phases)
      launch.grids.push_back({phase.grid_x, phase.grid_y, phase.grid_z});
    out.push_back(std::move(launch));
  }
  return out;
}

// ---- from lanes to the runtime's data
// ------------------------------------------------------------

int tensor_index(const ArgLayout& layout, const std::string& name) {
  const auto it = std::find(layout.tensors.begin(), layout.tensors.end(), name);
  return it == layout.tensors.end() ? -1 : static_cast<int>(it - layout.tensors.begin());
}

std::vector<std::string> workspaces_of(const ir::Program& program) {
  std::vector<std::string> out;
  for (const ir::TensorParam& tensor : program.tensors)
    if (tensor.role == ir::Role::kWorkspace) out.push_back(tensor.name);
  return out;
}

// Behind the entries of the layout: codegen/host/launcher.h.
int workspace_stride(const ir::Program& program, const ArgLayout& layout,
                     const std::string& stride) {
  int index = static_cast<int>(layout.ints.size());
  for (const ir::TensorParam& tensor : program.tensors) {
    if (tensor.role != ir::Role::kWorkspace) continue;
    for (size_t axis = 0; axis < tensor.shape.size(); ++axis, ++index)
      if (stride == tensor.name + ".s" + std::to_string(axis)) return index;
  }
  return -1;
}

Result<cuda::GpuParam> parameter(const ir::Program& program, const ArgLayout& layout,
                                 const lanes::Program& phase, const codegen::KernelParam& param) {
  using Kind = codegen::KernelParam::Kind;
  auto unknown = [&] {
    Diag diag;
    diag.code = ErrorCode::kInternal;
    diag.subject = program.name;
    diag.message = "a kernel parameter has no source among the arguments";
    diag.argument = param.name;
    return diag;
  };
  cuda::GpuParam out;
  switch (param.kind) {
    case Kind::kTensorMap:
      out.kind = cuda::GpuParam::kMap;
      for (size_t m = 0; m < phase.maps.size(); ++m)
        if (phase.maps[m].name == param.name) out.index = static_cast<int>(m);
      return out;
    case Kind::kPointer: {
      out.index = tensor_index(layout, param.name);
      if (out.index >= 0) return out;
      const std::vector<std::string> workspaces = workspaces_of(program);
      const auto it = std::find(workspaces.begin(), workspaces.end(), param.name);
      if (it == workspaces.end()) return unknown();
      out.kind = cuda::GpuParam::kWorkspace;
      out.index = static_cast<int>(it - workspaces.begin());
      return out;
    }
    case Kind::kAttribute: {
      const auto it = std::find(layout.floats.begin(), layout.floats.end(), param.name);
      if (it == layout.floats.end()) return unknown();
      out.kind = cuda::GpuParam::kFloat;
      out.index = static_cast<int>(it - layout.floats.begin());
      return out;
    }
    case Kind::kStride:
    case Kind::kDim:
      out.kind = cuda::GpuParam::kInt;
      out.index = layout.int_index(param.name);
      if (out.index < 0) out.index = workspace_stride(program, layout, param.name);
      return out.index < 0 ? Result<cuda::GpuParam>(unknown()) : out;
  }
  return unknown();
}

cuda::GpuMap tensor_map(const ir::Program& program, const ArgLayout& layout,
                        const lanes::TensorMapUse& use) {
  const ir::TensorParam& tensor = *program.tensor(use.tensor);
  cuda::GpuMap map;
  map.tensor = tensor_index(layout, use.tensor);
  map.name = use.tensor;
  map.dtype = tensor.dtype;
  map.rank = static_cast<int>(tensor.shape.size());
  for (int axis = 0; axis < map.rank; ++axis) {
    const auto at = static_cast<size_t>(axis);
    map.stride[at] = layout.int_index(use.tensor + ".s" + std::to_string(axis));
    map.box[at] = static_cast<uint32_t>(use.box[static_cast<size_t>(map.rank - 1 - axis)]);
  }
  map.swizzle = static_cast<cuda::abi::TensorMapSwizzle>(use.swizzle);
  map.l2 = use.l2_promotion >= 256   ? cuda::abi::kL2Bytes256
           : use.l2_promotion >= 128 ? cuda::abi::kL2Bytes128
                                     : cuda::abi::kL2None;
  return map;
}

CudaOptions cuda_options(const lanes::Program& phase) {
  CudaOptions options;
  for (const std::string& flag : phase.ptxas) options.flags.push_back("--ptxas-options=" + flag);
  return options;
}

// NVRTC behind the last of the checks of L2, which unrolls the whole kernel: it takes longer than
// all else that a start from a warm cache does, and what is in the cache has passed it.
CudaCompiler checked_nvrtc(const lanes::Program& phase) {
  CudaCompiler compiler = CudaCompiler::nvrtc();
  compiler.compile = [&phase, compile = std::move(compiler.compile)](
                         const std::string& text, const CudaOptions& options,
                         const std::string& subject) -> Result<CudaBinary> {
    const bool hand_written = phase.body.empty();
    if (Status status = hand_written ? Status() : lanes::verify(phase); !status.ok())
      return status.diag();
    return compile(text, options, subject);
  };
  return compiler;
}

Result<CachedCubin> cubin_of(const KernelSource& source, const GpuText& text) {
  const lanes::Program& phase = source.variants[text.variant].phases[text.phase];
  Result<CubinCache> cache = CubinCache::open("", "", checked_nvrtc(phase));
  if (!cache.ok()) return cache.diag();
  return cache->get_or_compile(text.text, cuda_options(phase), text.name);
}

// The cubins of all texts of `source`, being compiled: each may take seconds, so they are at the
// same time, and the launcher beside them. A machine without threads to spare does it one by one.
std::vector<std::future<Result<CachedCubin>>> compile_texts(const KernelSource& source) {
  std::vector<std::future<Result<CachedCubin>>> cubins;
  for (const GpuText& text : source.gpu_texts)
    cubins.push_back(std::async([&source, &text] { return cubin_of(source, text); }));
  return cubins;
}

Result<cuda::GpuPhase> phase_image(const KernelSource& source, const ArgLayout& layout,
                                   const GpuText& text, Result<CachedCubin> cubin,
                                   CompiledKernel& kernel) {
  if (!cubin.ok()) return cubin.diag();
  const lanes::Program& phase = source.variants[text.variant].phases[text.phase];
  RT_RETURN_IF_ERROR(shipped_ok(cubin->binary.report, text.name));
  kernel.from_cache = kernel.from_cache && cubin->origin != CubinOrigin::kCompiled;
  if (cubin->origin == CubinOrigin::kCompiled) kernel.compile_ms += cubin->binary.compile_ms;
  kernel.reports.push_back(cubin->binary.report);
  kernel.nvrtc = cubin->binary.nvrtc;

  cuda::GpuPhase image;
  image.name = text.name;
  image.cubin = std::move(cubin->binary.cubin);
  image.schedule = source.schedule.name;
  image.threads = static_cast<uint32_t>(phase.threads);
  image.cluster = static_cast<uint32_t>(phase.cluster);
  image.shared_bytes = static_cast<uint32_t>(phase.shared_bytes);
  image.dependent_launch = phase.dependent_launch;
  for (const lanes::TensorMapUse& map : phase.maps)
    image.maps.push_back(tensor_map(source.program, layout, map));
  for (const codegen::KernelParam& param : codegen::kernel_params(phase)) {
    Result<cuda::GpuParam> from = parameter(source.program, layout, phase, param);
    if (!from.ok()) return from.diag();
    image.params.push_back(*from);
  }
  return image;
}

// Workspaces that the lowering asks for become the program's, behind its own. Variants that ask for
// one of the same name ask for the same.
Status add_workspaces(KernelSource& source) {
  const ir::Program own = source.program;
  for (const codegen::GpuVariant& variant : source.variants)
    for (const lanes::Program& phase : variant.phases)
      for (const lanes::TensorUse& use : phase.tensors) {
        if (!use.workspace || own.tensor(use.name) != nullptr) continue;
        if (const ir::TensorParam* there = source.program.tensor(use.name)) {
          const bool same = there->dtype == use.dtype &&
                            std::equal(use.shape.begin(), use.shape.end(), there->shape.begin(),
                                       there->shape.end(),
                                       [](const Expr& a, const Expr& b) { return a.same_as(b); });
          if (same) continue;
          Diag diag;
          diag.code = ErrorCode::kPlacement;
          diag.subject = source.name;
          diag.argument = use.name;
          diag.message = "two schedules of a kernel want different workspaces of one name";
          return diag;
        }
        ir::TensorParam param;
        param.name = use.name;
        param.dtype = use.dtype;
        param.shape = use.shape;
        param.role = ir::Role::kWorkspace;
        source.program.tensors.push_back(std::move(param));
        if (use.zeroed) source.zeroed.push_back(use.name);
      }
  return {};
}

// Plain code, for any x86-64 machine.
constexpr const char* kLauncherTarget = "launcher";

Result<std::shared_ptr<Library>> load_launcher(const KernelSource& source, CompiledKernel& kernel) {
  Result<CachedObject> object =
      compile_cached(source.launcher_text, cpu_flags(TargetInfo{}), kLauncherTarget);
  if (!object.ok()) return object.diag();
  Result<std::shared_ptr<Library>> library = Library::open(object->path);
  if (!library.ok()) return library.diag();
  kernel.library_path = object->path;
  kernel.compile_ms = object->compile_ms;
  kernel.from_cache = object->from_cache;
  kernel.library = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<Library>>>(
      object->keep_alive, *library);
  return *library;
}

}  // namespace

// The contract: what the call must meet before any variant is looked at. Workspaces come from the
// first specialised program: they differ from variant to variant in nothing but tile sizes.
Result<std::string> gpu_launcher_text(const KernelSource& source) {
  return emit_gpu_launcher(source.program, source.name, launch_variants(source.variants));
}

Result<KernelSource> generate_gpu(const ir::Program& program, const std::string& name,
                                  const Schedule& schedule, const TargetInfo& target) {
  KernelSource source;
  source.name = name;
  source.schedule = schedule;
  source.target = target;
  source.target_key = target.key();
  std::vector<const Schedule*> schedules = {&schedule};
  for (const Schedule& other : schedule.otherwise) schedules.push_back(&other);
  for (size_t s = 0; s < schedules.size(); ++s) {
    Result<ir::Program> specialised = specialise(program, *schedules[s]);
    if (!specialised.ok()) return specialised.diag();
    if (s == 0) source.program = source.tiles = *specialised;
    const std::string stem = name + (s == 0 ? "" : "_" + schedules[s]->name);
    Result<codegen::GpuKernelLanes> lanes = codegen::lower_gpu(*specialised, stem, *schedules[s]);
    if (!lanes.ok()) return lanes.diag();
    source.scheduled += "// " + schedules[s]->str() + "\n" + lanes->scheduled;
    for (codegen::GpuVariant& variant : lanes->variants)
      source.variants.push_back(std::move(variant));
  }
  RT_RETURN_IF_ERROR(add_workspaces(source));
  for (size_t v = 0; v < source.variants.size(); ++v)
    for (size_t p = 0; p < source.variants[v].phases.size(); ++p) {
      lanes::Program& phase = source.variants[v].phases[p];
      Result<std::string> text = codegen::emit_cuda(phase);
      if (!text.ok()) return text.diag();
      source.kernel_text +=
          "// variant " + std::to_string(v) + ", phase " + std::to_string(p) + "\n" + *text + "\n";
      source.gpu_texts.push_back({v, p, phase.name, std::move(*text)});
    }
  Result<std::string> launcher = gpu_launcher_text(source);
  if (!launcher.ok()) return launcher.diag();
  source.launcher_text = std::move(*launcher);
  return source;
}

Result<std::shared_ptr<const CompiledKernel>> compile_gpu(KernelSource source) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const CompiledKernel>> compiled;  // by all texts
  const std::string key = source.launcher_text + source.kernel_text;
  {
    std::lock_guard lock(mutex);
    if (auto it = compiled.find(key); it != compiled.end()) return it->second;
  }
  Result<ArgLayout> layout = arg_layout(source.program);
  if (!layout.ok()) return layout.diag();
  auto kernel = std::make_shared<CompiledKernel>();
  std::vector<std::future<Result<CachedCubin>>> cubins = compile_texts(source);
  Result<std::shared_ptr<Library>> library = load_launcher(source, *kernel);
  if (!library.ok()) return library.diag();

  cuda::GpuKernelImage image;
  image.name = source.name;
  for (const std::string& workspace : workspaces_of(source.program))
    image.workspaces.push_back(std::count(source.zeroed.begin(), source.zeroed.end(), workspace) > 0
                                   ? cuda::GpuWorkspace::kZeroed
                                   : cuda::GpuWorkspace::kScratch);
  image.variants.resize(source.variants.size());
  for (size_t i = 0; i < cubins.size(); ++i) {
    const GpuText& text = source.gpu_texts[i];
    Result<cuda::GpuPhase> phase = phase_image(source, *layout, text, cubins[i].get(), *kernel);
    if (!phase.ok()) return phase.diag();
    image.variants[text.variant].push_back(std::move(*phase));
  }
  Result<void*> bind = (*library)->symbol("__rooftile_bind_" + source.name);
  if (!bind.ok()) return bind.diag();
  Result<void*> entry = (*library)->symbol("__tvm_ffi_" + source.name);
  if (!entry.ok()) return entry.diag();
  kernel->device_kernel = cuda::GpuKernel::keep(std::move(image));
  const RtGpuLauncher launcher = kernel->device_kernel->launcher();
  reinterpret_cast<void (*)(const RtGpuLauncher*)> (*bind)(&launcher);
  kernel->launch = reinterpret_cast<TVMFFISafeCall>(*entry);
  kernel->source = std::move(source);
  std::lock_guard lock(mutex);
  return compiled.emplace(key, kernel).first->second;
}

Status carry_gpu(const KernelSource& source, const std::string& dir) {
  for (const GpuText& text : source.gpu_texts) {
    const lanes::Program& phase = source.variants[text.variant].phases[text.phase];
    Result<CubinCache> cache = CubinCache::open("", "", checked_nvrtc(phase));
    if (!cache.ok()) return cache.diag();
    Result<CachedCubin> cubin = cache->carry_to(dir, text.text, cuda_options(phase), text.name);
    if (!cubin.ok()) return cubin.diag();
    RT_RETURN_IF_ERROR(shipped_ok(cubin->binary.report, text.name));
  }
  return carry_object(dir, source.launcher_text, cpu_flags(TargetInfo{}), kLauncherTarget).status();
}

}  // namespace rooftile
