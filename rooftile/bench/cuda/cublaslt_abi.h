// SPDX-License-Identifier: Apache-2.0
// The part of cuBLASLt that benchmarks call: own declarations of the documented names, numbers and
// layouts, looked up at run time (cublaslt.h). cublaslt_test.cc compares them with the real
// cublasLt.h where that is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rooftile::bench::cublaslt_abi {

using Handle = struct HandleImpl*;
using MatmulDesc = struct MatmulDescImpl*;
using Layout = struct LayoutImpl*;
using Preference = struct PreferenceImpl*;
using Stream = void*;

enum Status : int { kSuccess = 0, kNotSupported = 15 };

enum DataType : int {
  kR32F = 0,
  kR16F = 2,
  kR8I = 3,
  kR32I = 10,
  kR16BF = 14,
  kR8FE4M3 = 28,
  kR8FE5M2 = 29,
};
enum ComputeType : int { kCompute32F = 68, kCompute32I = 72 };
enum Operation : int { kOpN = 0, kOpT = 1 };

enum DescAttribute : int {
  kDescTransA = 3,
  kDescTransB = 4,
  kDescEpilogue = 7,
  kDescBiasPointer = 8,
  kDescAScalePointer = 17,
  kDescBScalePointer = 18,
  kDescBiasDataType = 26,
};
enum LayoutAttribute : int { kLayoutBatchCount = 5, kLayoutBatchStride = 6 };
enum PreferenceAttribute : int { kPreferenceMaxWorkspaceBytes = 1 };
enum Epilogue : uint32_t {
  kEpilogueNone = 1,
  kEpilogueRelu = 2,
  kEpilogueBias = 4,
  kEpilogueReluBias = 6,
  kEpilogueGeluTanh = 32,
  kEpilogueGeluTanhBias = 36,
};

struct Algo {
  uint64_t data[8];
};
struct HeuristicResult {
  Algo algo;
  size_t workspace_bytes;
  Status state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(HeuristicResult) == 96 && offsetof(HeuristicResult, state) == 72);

// X(field, result, parameters): the symbol is "cublasLt" and the field.
#define RT_CUBLASLT_ENTRY_POINTS(X)                                                             \
  X(GetVersion, size_t, ())                                                                     \
  X(Create, Status, (Handle * handle))                                                          \
  X(MatmulDescCreate, Status, (MatmulDesc * desc, ComputeType compute, DataType scale))         \
  X(MatmulDescDestroy, Status, (MatmulDesc desc))                                               \
  X(MatmulDescSetAttribute, Status,                                                             \
    (MatmulDesc desc, DescAttribute attribute, const void* value, size_t bytes))                \
  X(MatrixLayoutCreate, Status,                                                                 \
    (Layout * layout, DataType type, uint64_t rows, uint64_t columns, int64_t leading))         \
  X(MatrixLayoutDestroy, Status, (Layout layout))                                               \
  X(MatrixLayoutSetAttribute, Status,                                                           \
    (Layout layout, LayoutAttribute attribute, const void* value, size_t bytes))                \
  X(MatmulPreferenceCreate, Status, (Preference * preference))                                  \
  X(MatmulPreferenceDestroy, Status, (Preference preference))                                   \
  X(MatmulPreferenceSetAttribute, Status,                                                       \
    (Preference preference, PreferenceAttribute attribute, const void* value, size_t bytes))    \
  X(MatmulAlgoGetHeuristic, Status,                                                             \
    (Handle handle, MatmulDesc desc, Layout a, Layout b, Layout c, Layout d,                    \
     Preference preference, int wanted, HeuristicResult* results, int* found))                  \
  X(Matmul, Status,                                                                             \
    (Handle handle, MatmulDesc desc, const void* alpha, const void* a, Layout a_layout,         \
     const void* b, Layout b_layout, const void* beta, const void* c, Layout c_layout, void* d, \
     Layout d_layout, const Algo* algo, void* workspace, size_t workspace_bytes, Stream stream))

struct Api {
#define RT_FIELD(field, result, parameters) result(*field) parameters = nullptr;
  RT_CUBLASLT_ENTRY_POINTS(RT_FIELD)
#undef RT_FIELD
};

}  // namespace rooftile::bench::cublaslt_abi
