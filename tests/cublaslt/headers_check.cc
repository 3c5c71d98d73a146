// SPDX-License-Identifier: Apache-2.0
// Rooftile's own declarations of cuBLASLt beside the real cublasLt.h: compiled by
// cublaslt_headers_test.cc where that header is, never linked or run.
#include <cublasLt.h>

#include <cstddef>

#include "rooftile/bench/cuda/cublaslt_abi.h"
#include "tests/support/same_shape.h"

namespace {

namespace lt = rooftile::bench::cublaslt_abi;

#define RT_SAME_FUNCTION(field, result, parameters)                               \
  static_assert(kSameShape<decltype(lt::Api::field), decltype(&cublasLt##field)>, \
                "cublasLt" #field);
RT_CUBLASLT_ENTRY_POINTS(RT_SAME_FUNCTION)

static_assert(sizeof(lt::Algo) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(lt::HeuristicResult) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(lt::HeuristicResult, workspace_bytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(lt::HeuristicResult, state) ==
              offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(offsetof(lt::HeuristicResult, waves) ==
              offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));

#define RT_SAME(ours, theirs) \
  static_assert(static_cast<int>(ours) == static_cast<int>(theirs), #theirs)
RT_SAME(lt::kSuccess, CUBLAS_STATUS_SUCCESS);
RT_SAME(lt::kNotSupported, CUBLAS_STATUS_NOT_SUPPORTED);
RT_SAME(lt::kR32F, CUDA_R_32F);
RT_SAME(lt::kR16F, CUDA_R_16F);
RT_SAME(lt::kR8I, CUDA_R_8I);
RT_SAME(lt::kR32I, CUDA_R_32I);
RT_SAME(lt::kR16BF, CUDA_R_16BF);
RT_SAME(lt::kR8FE4M3, CUDA_R_8F_E4M3);
RT_SAME(lt::kR8FE5M2, CUDA_R_8F_E5M2);
RT_SAME(lt::kCompute32F, CUBLAS_COMPUTE_32F);
RT_SAME(lt::kCompute32I, CUBLAS_COMPUTE_32I);
RT_SAME(lt::kOpN, CUBLAS_OP_N);
RT_SAME(lt::kOpT, CUBLAS_OP_T);
RT_SAME(lt::kDescTransA, CUBLASLT_MATMUL_DESC_TRANSA);
RT_SAME(lt::kDescTransB, CUBLASLT_MATMUL_DESC_TRANSB);
RT_SAME(lt::kDescEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
RT_SAME(lt::kDescBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
RT_SAME(lt::kDescAScalePointer, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
RT_SAME(lt::kDescBScalePointer, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
RT_SAME(lt::kDescBiasDataType, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
RT_SAME(lt::kLayoutBatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
RT_SAME(lt::kLayoutBatchStride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
RT_SAME(lt::kPreferenceMaxWorkspaceBytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
RT_SAME(lt::kEpilogueNone, CUBLASLT_EPILOGUE_DEFAULT);
RT_SAME(lt::kEpilogueRelu, CUBLASLT_EPILOGUE_RELU);
RT_SAME(lt::kEpilogueBias, CUBLASLT_EPILOGUE_BIAS);
RT_SAME(lt::kEpilogueReluBias, CUBLASLT_EPILOGUE_RELU_BIAS);
RT_SAME(lt::kEpilogueGeluTanh, CUBLASLT_EPILOGUE_GELU);
RT_SAME(lt::kEpilogueGeluTanhBias, CUBLASLT_EPILOGUE_GELU_BIAS);

#ifdef ROOFTILE_WRONG_ON_PURPOSE
RT_SAME(lt::kR16F, CUDA_R_16BF);
#endif

}  // namespace
