// SPDX-License-Identifier: Apache-2.0
#include "rooftile/report/fusion_race.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "rooftile/base/float_convert.h"
#include "rooftile/bench/cuda/device_ceilings.h"
#include "rooftile/bench/cuda/device_race.h"
#include "rooftile/check/case_inputs.h"
#include "rooftile/compile/kernel.h"
#include "rooftile/report/residual_add.h"
#include "rooftile/runtime/call.h"
#include "rooftile/runtime/cpu/pack.h"
#include "rooftile/runtime/cuda/memory.h"
#include "rooftile/runtime/cuda/stream.h"

namespace rooftile::report {
namespace {

constexpr size_t kCacheLine = 64;

// Memory of one tensor, aligned to a cache line and filled with small numbers of either sign; on
// the device if there is one.
class Buffer {
 public:
  Buffer(DType dtype, const std::vector<int64_t>& shape, const cuda::Device* device)
      : view_(nullptr, dtype, shape) {
    const auto bytes = static_cast<size_t>(view_.numel()) * static_cast<size_t>(size_bytes(dtype));
    const size_t rounded = (bytes / kCacheLine + 1) * kCacheLine;
    memory_.reset(std::aligned_alloc(kCacheLine, rounded));
    view_.data = memory_.get();
    if (view_.data == nullptr) {
      status_ = Diag{.code = ErrorCode::kOutOfMemory, .subject = "fusion"};
      return;
    }
    fill();
    if (device != nullptr) status_ = move_to(*device, static_cast<int64_t>(rounded));
  }
  const TensorView& view() const { return view_; }
  const Status& status() const { return status_; }

 private:
  void fill();
  Status move_to(const cuda::Device& device, int64_t bytes);
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  TensorView view_;
  std::unique_ptr<void, Free> memory_;
  std::optional<cuda::DeviceBuffer> on_device_;
  Status status_;
};

Status Buffer::move_to(const cuda::Device& device, int64_t bytes) {
  auto buffer = cuda::DeviceBuffer::allocate(device, bytes);
  if (!buffer) return buffer.status();
  RT_RETURN_IF_ERROR(cuda::copy_to_device(device, buffer->data(), memory_.get(), bytes, nullptr));
  RT_RETURN_IF_ERROR(cuda::synchronize(device, nullptr));
  memory_.reset();
  view_.data = buffer->data();
  view_.device = DeviceKind::kCuda;
  view_.device_id = device.ordinal();
  on_device_.emplace(std::move(*buffer));
  return {};
}

// A short pattern, repeated: its period is odd, so that rows differ.
void Buffer::fill() {
  constexpr int64_t kPeriod = 4093;
  const auto size = static_cast<size_t>(size_bytes(view_.dtype));
  std::vector<std::byte> pattern(kPeriod * size);
  for (int64_t i = 0; i < kPeriod; ++i)
    store_element(pattern.data(), view_.dtype, i, static_cast<double>(i * 37 % 101 - 50) * 0.02);
  auto* to = static_cast<std::byte*>(view_.data);
  size_t left = static_cast<size_t>(view_.numel()) * size;
  for (; left > 0; to += pattern.size(), left -= std::min(left, pattern.size()))
    std::memcpy(to, pattern.data(), std::min(left, pattern.size()));
}

// One kernel with its arguments bound.
struct Stage {
  std::shared_ptr<const CompiledKernel> kernel;
  std::vector<std::shared_ptr<Buffer>> buffers;
  std::vector<std::shared_ptr<PackedTensor>> packed;
  std::vector<TensorView> views;
  std::vector<Scalar> scalars;
  std::shared_ptr<Buffer> input, output;  // the first of each

  Status run() const { return invoke(kernel->launch, views, scalars); }
};

Diag no_such(const OpCall& call, std::string message) {
  Diag diag;
  diag.code = ErrorCode::kUnsupported;
  diag.subject = call.op;
  diag.message = std::move(message);
  diag.found = call.text();
  return diag;
}

Result<std::shared_ptr<const CompiledKernel>> compile_call(const OpDef& op, const OpCall& call,
                                                           const RefCall& resolved,
                                                           const TargetInfo& target) {
  const auto kernels = op.candidates(resolved.config, resolved.dims, target);
  if (kernels.empty()) return no_such(call, "no kernel takes this call");
  auto source = generate(op, *kernels.front(), resolved.config, resolved.dims, target);
  if (!source) return source.status();
  return compile(std::move(*source));
}

const PrepackedOperand* prepacked(const CompiledKernel& kernel, const std::string& tensor) {
  for (const PrepackedOperand& operand : kernel.source.prepacked)
    if (operand.tensor == tensor) return &operand;
  return nullptr;
}

// Binds memory to the tensors of the kernel. `input`, if given, is the first input that has its
// shape and dtype.
Status bind_tensors(const OpDef& op, const RefCall& resolved, std::shared_ptr<Buffer> input,
                    const cuda::Device* device, Stage& stage) {
  for (const ir::TensorParam& param : stage.kernel->source.program.tensors) {
    if (param.role == ir::Role::kWorkspace) continue;
    auto shape = check::shape_of(op, *op.arg(param.name), resolved);
    if (!shape) return shape.status();
    const TensorView wanted(nullptr, param.dtype, *shape);
    std::shared_ptr<Buffer> buffer;
    if (input && param.role == ir::Role::kIn && wanted.shape == input->view().shape &&
        wanted.dtype == input->view().dtype) {
      buffer = std::exchange(input, nullptr);
    } else {
      buffer = std::make_shared<Buffer>(param.dtype, *shape, device);
      RT_RETURN_IF_ERROR(buffer->status());
    }
    if (param.role == ir::Role::kIn && !stage.input) stage.input = buffer;
    if (param.role == ir::Role::kOut && !stage.output) stage.output = buffer;
    if (const PrepackedOperand* operand = prepacked(*stage.kernel, param.name)) {
      auto packed = pack_operand(buffer->view(), operand->n_major);
      if (!packed) return packed.status();
      stage.packed.push_back(std::make_shared<PackedTensor>(std::move(*packed)));
      stage.views.push_back(stage.packed.back()->view());
    } else {
      stage.views.push_back(buffer->view());
      stage.buffers.push_back(std::move(buffer));
    }
  }
  return {};
}

Result<Stage> prepare(const OpCall& call, std::shared_ptr<Buffer> input,
                      const cuda::Device* device) {
  static const OpDef add = residual_add();
  const OpDef* op = call.op == add.name ? &add : find_op(call.op);
  if (op == nullptr) return no_such(call, "no such operator");
  auto test_case = check::parse_case(call.text());
  if (!test_case) return test_case.status();
  const TargetInfo& target = device != nullptr ? sm90_target() : host_target();
  auto resolved = check::resolve_case(*op, check::for_target(*op, *test_case, target));
  if (!resolved) return resolved.status();
  Stage stage;
  auto kernel = compile_call(*op, call, *resolved, target);
  if (!kernel) return kernel.status();
  stage.kernel = *kernel;
  RT_RETURN_IF_ERROR(bind_tensors(*op, *resolved, std::move(input), device, stage));
  for (const ir::ScalarParam& scalar : stage.kernel->source.program.scalars) {
    const double value = resolved->attr(scalar.name);
    stage.scalars.push_back(scalar.is_float ? Scalar(value) : Scalar(static_cast<int64_t>(value)));
  }
  RT_RETURN_IF_ERROR(stage.run());  // an argument that the launcher refuses shows here
  return stage;
}

Result<std::vector<Stage>> prepare_parts(const Fusion& fusion, const cuda::Device* device) {
  std::vector<Stage> stages;
  for (const OpInstance& part : fusion.parts)
    for (int64_t copy = 0; copy < part.count; ++copy) {  // each with weights of its own
      std::shared_ptr<Buffer> input;
      if (!stages.empty()) input = fusion.chained ? stages.back().output : stages.front().input;
      auto stage = prepare(part.call, std::move(input), device);
      if (!stage) return stage.status();
      stages.push_back(std::move(*stage));
    }
  return stages;
}

Status run_all(const std::vector<Stage>& parts) {
  for (const Stage& stage : parts) RT_RETURN_IF_ERROR(stage.run());
  return {};
}

bench::Race race_on_host(const Stage& fused, const std::vector<Stage>& parts,
                         const bench::TimingOptions& timing) {
  return bench::race({{"fused", [&](int64_t) { (void)fused.run(); }},
                      {"parts", [&](int64_t) { (void)run_all(parts); }}},
                     timing);
}

Result<bench::Race> race_on_device(const cuda::Device& device, const Stage& fused,
                                   const std::vector<Stage>& parts,
                                   const bench::TimingOptions& timing) {
  auto stream = cuda::Stream::create(device);
  if (!stream) return stream.status();
  auto sweep = bench::L2Sweep::make(device, stream->get());
  if (!sweep) return sweep.status();
  const StreamScope on(stream->get());
  bench::DeviceRaceOptions options;
  options.timing = timing;
  options.sweep = [&] { return sweep->run(); };
  return bench::device_race(device, stream->get(),
                            {{"fused", [&](size_t) { return fused.run(); }},
                             {"parts", [&](size_t) { return run_all(parts); }}},
                            options);
}

std::string names(const Fusion& fusion) {
  std::string out;
  for (const OpInstance& part : fusion.parts) {
    if (!out.empty()) out += " + ";
    if (part.count > 1) out += std::to_string(part.count) + " ";
    out += part.call.op;
  }
  return out;
}

}  // namespace

FusionRow race_fusion(const Step& step, const Fusion& fusion, const bench::TimingOptions& timing,
                      const cuda::Device* device) {
  const OpInstance& instance = step.ops[fusion.fused];
  FusionRow row;
  row.what = fusion.what;
  row.fused = instance.call.op;
  row.parts = names(fusion);
  row.count = instance.count;
  auto fused = prepare(instance.call, nullptr, device);
  auto parts = prepare_parts(fusion, device);
  if (!fused || !parts) {
    row.failure = fused ? parts.diag().str() : fused.diag().str();
    return row;
  }
  auto race = device != nullptr ? race_on_device(*device, *fused, *parts, timing)
                                : Result<bench::Race>(race_on_host(*fused, *parts, timing));
  if (!race) {
    row.failure = race.diag().str();
    return row;
  }
  row.fused_us = race->timings[0].quantile(0.5);
  row.parts_us = race->timings[1].quantile(0.5);
  return row;
}

}  // namespace rooftile::report
