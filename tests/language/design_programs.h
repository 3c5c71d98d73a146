// SPDX-License-Identifier: Apache-2.0
// The programs of docs/decisions/0001-language.md with the interfaces that an operator would give
// them, for the tests beside this file.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "docs/decisions/0001/schedules.h"
#include "rooftile/dsl/dsl.h"

namespace rooftile::design_test {

using dsl::Kernel;
using ir::Role;

inline Expr S(const char* name) { return Expr::sym(name); }

inline ir::TensorParam tensor(std::string name, DType dtype, std::vector<Expr> shape, Role role) {
  ir::TensorParam t;
  t.name = std::move(name);
  t.dtype = dtype;
  t.shape = std::move(shape);
  t.role = role;
  return t;
}
inline ir::TensorParam in(std::string name, DType dtype, std::vector<Expr> shape) {
  return tensor(std::move(name), dtype, std::move(shape), Role::kIn);
}
inline ir::TensorParam out(std::string name, DType dtype, std::vector<Expr> shape) {
  return tensor(std::move(name), dtype, std::move(shape), Role::kOut);
}

inline constexpr DType kBf16 = DType::kBf16, kF32 = DType::kF32, kI32 = DType::kI32;

inline Result<ir::Program> build(std::string name, std::vector<ir::TensorParam> tensors,
                                 const std::function<void(Kernel&)>& author) {
  ir::Program interface;
  interface.name = std::move(name);
  interface.tensors = std::move(tensors);
  ir::ScalarParam scale;
  scale.name = "softmax_scale";
  interface.scalars = {scale};
  Kernel kernel(std::move(interface));
  author(kernel);
  return kernel.finish();
}

inline Result<ir::Program> gemm() {
  return build("gemm",
               {out("d", kBf16, {S("M"), S("N")}), in("a", kBf16, {S("M"), S("K")}),
                in("b", kBf16, {S("N"), S("K")}), in("bias", kBf16, {S("N")})},
               dsl::design::gemm);
}

inline Result<ir::Program> attention(bool causal) {
  const std::vector<Expr> q = {S("B"), S("Sq"), S("Hq"), S("D")};
  const std::vector<Expr> kv = {S("B"), S("Sk"), S("Hkv"), S("D")};
  return build("attention",
               {out("out", kBf16, q), out("lse", kF32, {S("B"), S("Hq"), S("Sq")}),
                in("q", kBf16, q), in("k", kBf16, kv), in("v", kBf16, kv)},
               [&](Kernel& k) { dsl::design::attention(k, causal); });
}

inline Result<ir::Program> decode() {
  const std::vector<Expr> q = {S("B"), S("Hkv"), S("G"), S("D")};
  const std::vector<Expr> pages = {S("P"), S("PAGE"), S("Hkv"), S("D")};
  return build(
      "decode",
      {out("out", kBf16, q), in("q", kBf16, q), in("k", kBf16, pages), in("v", kBf16, pages),
       in("table", kI32, {S("B"), S("MP")}), in("lens", kI32, {S("B")})},
      dsl::design::paged_decode);
}

inline Result<ir::Program> moe() {
  return build("moe",
               {out("y", kBf16, {S("R"), S("N")}), in("x", kBf16, {S("T"), S("K")}),
                in("w", kBf16, {S("E"), S("N"), S("K")}), in("source", kI32, {S("R")}),
                in("offsets", kI32, {S("E") + 1})},
               dsl::design::moe_gemm);
}

inline Result<ir::Program> int4() {
  return build("int4",
               {out("y", kBf16, {S("M"), S("N")}), in("x", kBf16, {S("M"), S("K")}),
                in("word", kI32, {S("K") / 8, S("N")}), in("scale", kBf16, {S("NG"), S("N")}),
                in("zero", kI32, {S("NG"), S("N")})},
               dsl::design::int4_gemm);
}

inline Result<ir::Program> softmax() {
  return build("softmax", {out("y", kBf16, {S("R"), S("V")}), in("x", kBf16, {S("R"), S("V")})},
               dsl::design::softmax);
}

}  // namespace rooftile::design_test
