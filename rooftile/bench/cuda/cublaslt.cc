// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bench/cuda/cublaslt.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>

#include "rooftile/base/env.h"
#include "rooftile/toolchain/nvrtc_find.h"

namespace rooftile::bench {
namespace {

namespace lt = cublaslt_abi;

// What the vendor's documentation recommends for Hopper.
constexpr uint64_t kMaxWorkspaceBytes = uint64_t{32} << 20;

std::vector<std::string> folders() {
  std::vector<std::string> out = {""};  // the dynamic linker's
  if (const auto nvrtc = find_nvrtc()) {
    const std::filesystem::path folder = std::filesystem::path(nvrtc->path).parent_path();
    out.push_back(folder.string() + "/");
    // CUDA 12 wheels: nvidia/cuda_nvrtc/lib and nvidia/cublas/lib.
    out.push_back((folder.parent_path().parent_path() / "cublas" / "lib").string() + "/");
  }
  if (const auto home = env_value(EnvVar::kCudaHome)) out.push_back(*home + "/lib64/");
  out.insert(out.end(), {"/usr/local/cuda/lib64/", "/usr/local/cuda/lib/"});
  return out;
}

Diag library_failed(lt::Status status, std::string doing) {
  return {.code = status == lt::kNotSupported ? ErrorCode::kUnsupported : ErrorCode::kMachine,
          .message = "cuBLASLt: " + std::move(doing) + " failed",
          .found = "status " + std::to_string(status)};
}

Result<lt::DataType> data_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return lt::kR32F;
    case DType::kF16:
      return lt::kR16F;
    case DType::kBf16:
      return lt::kR16BF;
    case DType::kI8:
      return lt::kR8I;
    case DType::kI32:
      return lt::kR32I;
    case DType::kF8E4M3:
      return lt::kR8FE4M3;
    case DType::kF8E5M2:
      return lt::kR8FE5M2;
    default:
      return Diag{.code = ErrorCode::kUnsupported,
                  .subject = "cuBLASLt",
                  .message = "no such data type",
                  .found = std::string(name(dtype))};
  }
}

#define RT_LT(call, doing) \
  if (const lt::Status status = (call); status != lt::kSuccess) return library_failed(status, doing)

}  // namespace

// ---- the library -----------------------------------------------------------------------------

Result<const CublasLt*> CublasLt::open() {
  std::string tried;
  for (const std::string& folder : folders())
    for (const char* file : {"libcublasLt.so.13", "libcublasLt.so.12"}) {
      const std::string path = folder + file;
      void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr) {
        tried += (tried.empty() ? "" : ", ") + path;
        continue;
      }
      auto* opened = new CublasLt;  // lives as long as the process, as the library does
      bool complete = true;
#define RT_BIND(field, result, parameters)                                               \
  opened->api_.field =                                                                   \
      reinterpret_cast<decltype(opened->api_.field)>(dlsym(library, "cublasLt" #field)); \
  complete = complete && opened->api_.field != nullptr;
      RT_CUBLASLT_ENTRY_POINTS(RT_BIND)
#undef RT_BIND
      if (complete) return opened;
      delete opened;
      tried += (tried.empty() ? "" : ", ") + path + " (lacks an entry point)";
    }
  return Diag{.code = ErrorCode::kMachine,
              .subject = "cuBLASLt",
              .message = "the library is not on this machine",
              .found = "tried " + tried,
              .fix = "install it, or put its folder into LD_LIBRARY_PATH"};
}

Result<const CublasLt*> CublasLt::load() {
  static std::mutex mutex;
  static const CublasLt* loaded = nullptr;
  const std::lock_guard lock(mutex);
  if (loaded != nullptr) return loaded;
  Result<const CublasLt*> opened = open();
  if (opened) loaded = *opened;
  return opened;
}

std::string CublasLt::version() const {
  const size_t number = api_.GetVersion();  // 130002 (CUDA 13: 10^4), 120805
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
         std::to_string(number % 100);
}

Result<lt::Handle> CublasLt::handle(const cuda::Device& device) const {
  static std::mutex mutex;
  static std::map<const cuda::Device*, lt::Handle> handles;
  const std::lock_guard lock(mutex);
  lt::Handle& handle = handles[&device];
  if (handle != nullptr) return handle;
  const cuda::ContextGuard current(device);
  RT_LT(api_.Create(&handle), "making a handle");
  return handle;
}

// ---- one product -----------------------------------------------------------------------------

Matmul::Matmul(const CublasLt& library, lt::Handle handle, const MatmulShape& shape, double alpha,
               double beta)
    : library_(library),
      handle_(handle),
      shape_(shape),
      integers_(shape.operands == DType::kI8 && shape.result == DType::kI32),
      alpha_(static_cast<float>(alpha)),
      beta_(static_cast<float>(beta)),
      integer_alpha_(static_cast<int32_t>(alpha)),
      integer_beta_(static_cast<int32_t>(beta)) {}

Matmul::~Matmul() {
  const lt::Api& api = library_.api();
  if (desc_ != nullptr) api.MatmulDescDestroy(desc_);
  for (lt::Layout layout : {a_, b_, d_})
    if (layout != nullptr) api.MatrixLayoutDestroy(layout);
}

Result<std::unique_ptr<Matmul>> Matmul::make(const cuda::Device& device, const MatmulShape& shape,
                                             double alpha, double beta,
                                             const MatmulOperands& example, int max_algorithms) {
  auto library = CublasLt::load();
  if (!library) return library.status();
  auto handle = (*library)->handle(device);
  if (!handle) return handle.status();
  std::unique_ptr<Matmul> out(new Matmul(**library, *handle, shape, alpha, beta));
  const cuda::ContextGuard current(device);
  RT_RETURN_IF_ERROR(out->describe(example));
  RT_RETURN_IF_ERROR(out->find_algorithms(max_algorithms));
  return out;
}

Status Matmul::describe(const MatmulOperands& example) {
  const lt::Api& api = library_.api();
  auto operands = data_type(shape_.operands), result = data_type(shape_.result);
  if (!operands || !result) return operands ? result.status() : operands.status();
  RT_LT(api.MatmulDescCreate(&desc_, integers_ ? lt::kCompute32I : lt::kCompute32F,
                             integers_ ? lt::kR32I : lt::kR32F),
        "describing a product");
  // The library's first operand is our B.
  const lt::Operation trans_first = shape_.b_is_kn ? lt::kOpN : lt::kOpT;
  const lt::Operation trans_second = lt::kOpN;
  RT_LT(api.MatmulDescSetAttribute(desc_, lt::kDescTransA, &trans_first, sizeof trans_first),
        "describing an operand");
  RT_LT(api.MatmulDescSetAttribute(desc_, lt::kDescTransB, &trans_second, sizeof trans_second),
        "describing an operand");
  RT_LT(api.MatmulDescSetAttribute(desc_, lt::kDescEpilogue, &shape_.epilogue,
                                   sizeof shape_.epilogue),
        "describing an epilogue");
  const auto m = static_cast<uint64_t>(shape_.m), n = static_cast<uint64_t>(shape_.n),
             k = static_cast<uint64_t>(shape_.k);
  RT_LT(api.MatrixLayoutCreate(&a_, *operands, shape_.b_is_kn ? n : k, shape_.b_is_kn ? k : n,
                               shape_.b_is_kn ? shape_.n : shape_.k),
        "describing B");
  RT_LT(api.MatrixLayoutCreate(&b_, *operands, k, m, shape_.k), "describing A");
  RT_LT(api.MatrixLayoutCreate(&d_, *result, n, m, shape_.n), "describing D");
  const auto batch = static_cast<int32_t>(shape_.batch);
  const int64_t strides[] = {shape_.n * shape_.k, shape_.m * shape_.k, shape_.m * shape_.n};
  const lt::Layout layouts[] = {a_, b_, d_};
  for (size_t i = 0; i < 3 && shape_.batch > 1; ++i) {
    RT_LT(api.MatrixLayoutSetAttribute(layouts[i], lt::kLayoutBatchCount, &batch, sizeof batch),
          "describing a batch");
    RT_LT(api.MatrixLayoutSetAttribute(layouts[i], lt::kLayoutBatchStride, &strides[i],
                                       sizeof strides[i]),
          "describing a batch");
  }
  return set_pointers(example);
}

// Pointers that the library keeps in the description; its heuristics look at their alignment.
Status Matmul::set_pointers(const MatmulOperands& operands) {
  const lt::Api& api = library_.api();
  if (operands.bias != nullptr)
    RT_LT(api.MatmulDescSetAttribute(desc_, lt::kDescBiasPointer, &operands.bias,
                                     sizeof operands.bias),
          "setting the bias");
  if (!shape_.scales) return {};
  RT_LT(api.MatmulDescSetAttribute(desc_, lt::kDescAScalePointer, &operands.b_scale,
                                   sizeof operands.b_scale),
        "setting a scale");
  RT_LT(api.MatmulDescSetAttribute(desc_, lt::kDescBScalePointer, &operands.a_scale,
                                   sizeof operands.a_scale),
        "setting a scale");
  return {};
}

Status Matmul::find_algorithms(int max_algorithms) {
  const lt::Api& api = library_.api();
  lt::Preference preference = nullptr;
  RT_LT(api.MatmulPreferenceCreate(&preference), "describing a preference");
  const std::unique_ptr<lt::PreferenceImpl, lt::Status (*)(lt::Preference)> owner(
      preference, api.MatmulPreferenceDestroy);
  RT_LT(api.MatmulPreferenceSetAttribute(preference, lt::kPreferenceMaxWorkspaceBytes,
                                         &kMaxWorkspaceBytes, sizeof kMaxWorkspaceBytes),
        "setting the workspace");
  algorithms_.resize(static_cast<size_t>(max_algorithms));
  int found = 0;
  RT_LT(api.MatmulAlgoGetHeuristic(handle_, desc_, a_, b_, d_, d_, preference, max_algorithms,
                                   algorithms_.data(), &found),
        "looking for an algorithm");
  algorithms_.resize(static_cast<size_t>(found));
  std::erase_if(algorithms_, [](const auto& one) { return one.state != lt::kSuccess; });
  if (algorithms_.empty()) return library_failed(lt::kNotSupported, "looking for an algorithm");
  return {};
}

int64_t Matmul::workspace_bytes() const {
  size_t most = 0;
  for (const lt::HeuristicResult& one : algorithms_) most = std::max(most, one.workspace_bytes);
  return static_cast<int64_t>(most);
}

Status Matmul::run(size_t algorithm, const MatmulOperands& operands, void* workspace,
                   cuda::abi::Stream stream) {
  RT_RETURN_IF_ERROR(set_pointers(operands));
  const lt::HeuristicResult& chosen = algorithms_[algorithm];
  const void* alpha = integers_ ? static_cast<const void*>(&integer_alpha_) : &alpha_;
  static const float kNoTerm = 0;  // all bits zero: 0 as an integer too
  const void* beta = operands.c == nullptr ? static_cast<const void*>(&kNoTerm)
                     : integers_           ? static_cast<const void*>(&integer_beta_)
                                           : &beta_;
  const void* c = operands.c == nullptr ? operands.d : operands.c;
  RT_LT(library_.api().Matmul(handle_, desc_, alpha, operands.b, a_, operands.a, b_, beta, c, d_,
                              operands.d, d_, &chosen.algo, workspace, chosen.workspace_bytes,
                              stream),
        "a product");
  return {};
}

#undef RT_LT

}  // namespace rooftile::bench
