// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bench/cuda/cublaslt_gemm.h"

#include <limits>

#include "rooftile/runtime/cuda/memory.h"
#include "rooftile/runtime/cuda/stream.h"

namespace rooftile::bench {
namespace {

constexpr int kAlgorithms = 16;  // asked for
constexpr int kTimedCalls = 10;  // of each, at least

Diag refusal(const OpDef& op, std::string why) {
  return {.code = ErrorCode::kUnsupported,
          .subject = op.name,
          .message = "cuBLASLt: " + std::move(why)};
}

// By the name of the activation and whether there is a bias; 0: the library has no such epilogue.
uint32_t epilogue_of(const std::string& activation, bool bias) {
  if (activation == "none") return bias ? cublaslt_abi::kEpilogueBias : cublaslt_abi::kEpilogueNone;
  if (activation == "relu")
    return bias ? cublaslt_abi::kEpilogueReluBias : cublaslt_abi::kEpilogueRelu;
  if (activation == "gelu_tanh")
    return bias ? cublaslt_abi::kEpilogueGeluTanhBias : cublaslt_abi::kEpilogueGeluTanh;
  return 0;
}

std::string activation_of(const OpDef& op, const Config& config) {
  for (const FlagDef& flag : op.flags)
    if (flag.name == "activation") return flag.values[static_cast<size_t>(config.flag(flag.name))];
  return "none";
}

double attr_of(const RefCall& call, const char* attr) {
  const auto at = call.attrs.find(attr);
  return at == call.attrs.end() ? 1 : at->second;
}

const void* data_of(const TensorSet& set, const char* tensor) {
  const auto at = set.find(tensor);
  return at == set.end() ? nullptr : at->second.data;
}

class LtGemm : public DevicePeer {
 public:
  LtGemm(const DevicePeerRequest& request, std::unique_ptr<Matmul> matmul, std::string name)
      : device_(request.device),
        stream_(request.stream),
        matmul_(std::move(matmul)),
        name_(std::move(name)) {}

  // Results of its own, a workspace, and the choice of the algorithm.
  Status prepare(const DevicePeerRequest& request, const std::vector<MatmulOperands>& operands) {
    operands_ = operands;
    for (size_t set = 0; set < operands_.size(); ++set) {
      const TensorView& like = request.sets[set].find("d")->second;
      auto result = cuda::DeviceBuffer::allocate(device_, like.numel() * size_bytes(like.dtype));
      if (!result) return result.status();
      views_.push_back(like);
      views_.back().data = operands_[set].d = result->data();
      buffers_.push_back(std::move(*result));
    }
    auto workspace = cuda::DeviceBuffer::allocate(device_, matmul_->workspace_bytes());
    if (!workspace) return workspace.status();
    workspace_ = workspace->data();
    buffers_.push_back(std::move(*workspace));
    auto fastest = fastest_algorithm(device_, stream_, *matmul_, operands_, workspace_);
    if (!fastest) return fastest.status();
    algorithm_ = *fastest;
    return {};
  }

  std::string name() const override { return name_; }
  Status enqueue(size_t set) override {
    const cuda::ContextGuard current(device_);
    return matmul_->run(algorithm_, operands_[set], workspace_, stream_);
  }
  std::vector<std::pair<std::string, TensorView>> results(size_t set) const override {
    return {{"d", views_[set]}};
  }

 private:
  const cuda::Device& device_;
  cuda::abi::Stream stream_;
  std::unique_ptr<Matmul> matmul_;
  std::string name_;
  std::vector<MatmulOperands> operands_;
  std::vector<cuda::DeviceBuffer> buffers_;
  std::vector<TensorView> views_;
  void* workspace_ = nullptr;
  size_t algorithm_ = 0;
};

}  // namespace

Result<MatmulShape> cublaslt_shape(const OpDef& op, const RefCall& call) {
  const Config& config = call.config;
  const std::string activation = activation_of(op, config);
  const bool bias = config.has("bias");
  MatmulShape shape;
  shape.operands = config.dtype("a");
  shape.result = config.dtype("d");
  shape.m = call.dim("M"), shape.n = call.dim("N"), shape.k = call.dim("K");
  if (const auto batch = call.dims.find("B"); batch != call.dims.end()) shape.batch = batch->second;
  shape.b_is_kn = config.flag("layout") == 1;
  if (shape.batch * shape.m * shape.n * shape.k == 0) return refusal(op, "no empty products");
  if (std::max({shape.m, shape.n, shape.k, shape.batch}) > std::numeric_limits<int32_t>::max())
    return refusal(op, "sizes of 32 bits");
  if (op.arg("c") != nullptr && config.has("c") && activation != "none")
    return refusal(op, "it adds the residual before the activation");
  if (bias && config.dtype("bias") != shape.result)
    return refusal(op, "a bias of the result's dtype only");
  const uint32_t epilogue = epilogue_of(activation, bias);
  if (epilogue == 0) return refusal(op, "no epilogue with " + activation);
  shape.epilogue = static_cast<cublaslt_abi::Epilogue>(epilogue);
  if (size_bytes(shape.operands) == 1 && is_float(shape.operands)) {
    shape.scales = op.arg("scale_a") != nullptr;
    if (shape.operands != DType::kF8E4M3) return refusal(op, "not both operands f8e5m2");
    if ((shape.m | shape.n | shape.k) % 16 != 0) return refusal(op, "f8 sizes in steps of 16");
  }
  if (shape.operands != DType::kI8) return shape;
  if (shape.result == DType::kBf16) return refusal(op, "no bf16 result of i8 operands");
  if (epilogue != cublaslt_abi::kEpilogueNone) return refusal(op, "no epilogue for integers");
  const auto whole = [](double value) {
    return value == static_cast<double>(static_cast<int32_t>(value));
  };
  if (shape.result == DType::kI32 &&
      (!whole(attr_of(call, "alpha")) || (config.has("c") && !whole(attr_of(call, "beta")))))
    return refusal(op, "whole factors only for an i32 result");
  return shape;
}

Result<size_t> fastest_algorithm(const cuda::Device& device, cuda::abi::Stream stream,
                                 Matmul& matmul, const std::vector<MatmulOperands>& sets,
                                 void* workspace) {
  auto begin = cuda::Event::create(device, cuda::Event::Timing::kOn);
  auto end = cuda::Event::create(device, cuda::Event::Timing::kOn);
  if (!begin || !end) return begin ? end.status() : begin.status();
  const cuda::ContextGuard current(device);
  size_t best = 0;
  float best_ms = std::numeric_limits<float>::infinity();
  Status refused;
  for (size_t algorithm = 0; algorithm < matmul.num_algorithms(); ++algorithm) {
    // Once untimed: its code is loaded then. An algorithm may refuse what its heuristic admitted.
    refused = matmul.run(algorithm, sets[0], workspace, stream);
    if (!refused.ok()) continue;
    RT_RETURN_IF_ERROR(begin->record(stream));
    for (int call = 0; call < kTimedCalls; ++call)
      RT_RETURN_IF_ERROR(
          matmul.run(algorithm, sets[static_cast<size_t>(call) % sets.size()], workspace, stream));
    RT_RETURN_IF_ERROR(end->record(stream));
    RT_RETURN_IF_ERROR(end->synchronize());
    auto ms = end->ms_since(*begin);
    if (!ms) return ms.status();
    if (*ms < best_ms) best_ms = *ms, best = algorithm;
  }
  if (best_ms == std::numeric_limits<float>::infinity()) return refused;
  return best;
}

Result<std::unique_ptr<DevicePeer>> cublaslt_gemm(const DevicePeerRequest& request) {
  auto shape = cublaslt_shape(request.op, request.call);
  if (!shape) return shape.status();
  auto library = CublasLt::load();
  if (!library) return library.status();
  std::vector<MatmulOperands> operands;
  for (const TensorSet& set : request.sets)
    operands.push_back({.a = data_of(set, "a"),
                        .b = data_of(set, "b"),
                        .c = data_of(set, "c"),
                        .d = const_cast<void*>(data_of(set, "d")),
                        .bias = data_of(set, "bias"),
                        .a_scale = data_of(set, "scale_a"),
                        .b_scale = data_of(set, "scale_b")});
  auto matmul = Matmul::make(request.device, *shape, attr_of(request.call, "alpha"),
                             attr_of(request.call, "beta"), operands.front(), kAlgorithms);
  if (!matmul) return matmul.status();
  const std::string name = "cuBLASLt " + (*library)->version() + ", best of " +
                           std::to_string((*matmul)->num_algorithms());
  auto peer = std::make_unique<LtGemm>(request, std::move(*matmul), name);
  RT_RETURN_IF_ERROR(peer->prepare(request, operands));
  return std::unique_ptr<DevicePeer>(std::move(peer));
}

}  // namespace rooftile::bench
