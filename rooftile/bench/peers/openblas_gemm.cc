// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bench/peers/openblas_gemm.h"

#include <sstream>

#include "rooftile/check/host_tensor.h"
#include "rooftile/compile/target.h"

// The two functions used, as the BLAS and OpenBLAS documentation declare them; the header's place
// differs from system to system.
extern "C" {
void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                 const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc);
const char* openblas_get_config();
void openblas_set_num_threads(int threads);
}

namespace rooftile::bench {
namespace {

constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;

class Sgemm : public Peer {
 public:
  explicit Sgemm(const PeerRequest& request) : sets_(request.sets) {
    const RefCall& call = request.call;
    M_ = static_cast<int>(call.dim("M")), N_ = static_cast<int>(call.dim("N")),
    K_ = static_cast<int>(call.dim("K"));
    alpha_ = static_cast<float>(call.attr("alpha"));
    b_transposed_ = call.config.flag("layout") == 0;
    for (size_t set = 0; set < sets_.size(); ++set)
      results_.emplace_back(DType::kF32, std::vector<int64_t>{M_, N_});
    openblas_set_num_threads(host_target().threads);
  }

  std::string name() const override { return "OpenBLAS " + openblas_version() + " sgemm"; }

  void run(size_t set) override {
    auto floats = [&](const char* tensor) {
      return static_cast<const float*>(sets_[set].find(tensor)->second.data);
    };
    cblas_sgemm(kRowMajor, kNoTrans, b_transposed_ ? kTrans : kNoTrans, M_, N_, K_, alpha_,
                floats("a"), K_, floats("b"), b_transposed_ ? K_ : N_, 0.0f,
                static_cast<float*>(results_[set].data()), N_);
  }

  std::vector<std::pair<std::string, TensorView>> results(size_t set) const override {
    return {{"d", results_[set].view()}};
  }

 private:
  std::vector<TensorSet> sets_;
  std::vector<check::HostTensor> results_;
  int M_ = 0, N_ = 0, K_ = 0;
  float alpha_ = 1;
  bool b_transposed_ = true;
};

Diag refusal(const PeerRequest& request, const char* why) {
  Diag diag;
  diag.code = ErrorCode::kUnsupported;
  diag.subject = request.op.name;
  diag.message = std::string("OpenBLAS: ") + why;
  return diag;
}

}  // namespace

Result<std::unique_ptr<Peer>> openblas_gemm(const PeerRequest& request) {
  const Config& config = request.call.config;
  if (config.dtype("a") != DType::kF32 || config.dtype("d") != DType::kF32)
    return refusal(request, "f32 only");
  if (config.has("bias") || config.has("c") || config.flag("activation") != 0)
    return refusal(request, "no bias, residual or activation");
  for (const char* dim : {"M", "N", "K"})
    if (request.call.dim(dim) > INT32_MAX || request.call.dim(dim) == 0)
      return refusal(request, "sizes of 32 bits, not 0");
  return std::unique_ptr<Peer>(std::make_unique<Sgemm>(request));
}

std::string openblas_version() {
  // "OpenBLAS 0.3.21 DYNAMIC_ARCH ..."
  std::istringstream words(openblas_get_config());
  std::string name, version;
  words >> name >> version;
  return version;
}

}  // namespace rooftile::bench
