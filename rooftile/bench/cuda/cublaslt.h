// SPDX-License-Identifier: Apache-2.0
// cuBLASLt, NVIDIA's matrix product library, loaded at run time: the peer of products on a GPU.
//
// A Matmul is one product with its layouts, and the algorithms that the library proposes for it.
// The library sees matrices column by column; ours lie row by row, so a product is given to it
// transposed: D^T = B^T A^T.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/base/dtype.h"
#include "rooftile/bench/cuda/cublaslt_abi.h"
#include "rooftile/runtime/cuda/device.h"

namespace rooftile::bench {

class CublasLt {
 public:
  // Looks where the dynamic linker does, then beside NVRTC, in the toolkit and in the folders of
  // Python wheels. Once in a process; RT-R002 with what was tried if it is not there.
  static Result<const CublasLt*> load();

  const cublaslt_abi::Api& api() const { return api_; }
  std::string version() const;  // "13.0.2"
  // A handle for this device's context, kept for the life of the process.
  Result<cublaslt_abi::Handle> handle(const cuda::Device& device) const;

 private:
  CublasLt() = default;
  static Result<const CublasLt*> open();
  cublaslt_abi::Api api_;
};

// D[b] = activation(alpha * A[b] B[b] + bias) + beta * C[b], all row-major and compact.
struct MatmulShape {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool b_is_kn = false;  // B is [K, N] instead of [N, K]
  DType operands = DType::kBf16, result = DType::kBf16;
  cublaslt_abi::Epilogue epilogue = cublaslt_abi::kEpilogueNone;
  bool scales = false;  // f8: the operands have a factor each, in device memory
};

struct MatmulOperands {
  const void *a = nullptr, *b = nullptr, *c = nullptr;  // c null: no such term
  void* d = nullptr;
  const void* bias = nullptr;
  const void *a_scale = nullptr, *b_scale = nullptr;
};

class Matmul {
 public:
  // RT-C015 if the library has no algorithm for it.
  static Result<std::unique_ptr<Matmul>> make(const cuda::Device& device, const MatmulShape& shape,
                                              double alpha, double beta,
                                              const MatmulOperands& example, int max_algorithms);
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  size_t num_algorithms() const { return algorithms_.size(); }
  int64_t workspace_bytes() const;  // the most that any of them wants
  // Gives the product to the stream. Not from two threads at once.
  Status run(size_t algorithm, const MatmulOperands& operands, void* workspace,
             cuda::abi::Stream stream);

 private:
  Matmul(const CublasLt& library, cublaslt_abi::Handle handle, const MatmulShape& shape,
         double alpha, double beta);
  Status describe(const MatmulOperands& example);
  Status set_pointers(const MatmulOperands& operands);
  Status find_algorithms(int max_algorithms);

  const CublasLt& library_;
  cublaslt_abi::Handle handle_;
  MatmulShape shape_;
  bool integers_;  // factors are i32
  float alpha_, beta_;
  int32_t integer_alpha_, integer_beta_;
  cublaslt_abi::MatmulDesc desc_ = nullptr;
  cublaslt_abi::Layout a_ = nullptr, b_ = nullptr, d_ = nullptr;
  std::vector<cublaslt_abi::HeuristicResult> algorithms_;
};

}  // namespace rooftile::bench
