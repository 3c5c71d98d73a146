// SPDX-License-Identifier: Apache-2.0
#include "rooftile/codegen/cuda/hand_written.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "rooftile/codegen/cuda/emit_cuda.h"
#include "rooftile/codegen/cuda/prelude.h"

namespace rooftile::codegen {
namespace {

std::string identifier(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '.', '_');
  return out;
}

std::string macro(std::string_view name) {
  std::string out = "RT_" + identifier(name);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

std::string_view element_text(DType dtype) {
  switch (size_bytes(dtype)) {
    case 1:
      return "u8";
    case 2:
      return "u16";
    case 8:
      return "i64";
    default:
      return dtype == DType::kF32 ? "float" : "i32";
  }
}

std::string parameter_text(const lanes::Program& launch, const KernelParam& param) {
  const std::string name = identifier(param.name);
  if (param.kind == KernelParam::Kind::kTensorMap)
    return "const __grid_constant__ TensorMap " + name;
  if (param.kind != KernelParam::Kind::kPointer)
    return fmt::format("const {} {}", cuda::type_text(param.type), name);
  const auto tensor = std::find_if(launch.tensors.begin(), launch.tensors.end(),
                                   [&](const lanes::TensorUse& t) { return t.name == param.name; });
  return fmt::format("{}{}* {}", tensor->written ? "" : "const ", element_text(tensor->dtype),
                     name);
}

std::string head(const lanes::Program& launch) {
  std::string out = fmt::format("extern \"C\" __global__ void __launch_bounds__({}, {})",
                                launch.threads, launch.min_ctas_per_sm);
  if (launch.cluster > 1) out += fmt::format(" __cluster_dims__({}, 1, 1)", launch.cluster);
  out += " \\\n" + launch.name + "(";
  const std::vector<KernelParam> params = kernel_params(launch);
  for (size_t i = 0; i < params.size(); ++i)
    out += (i == 0 ? " \\\n    " : ", \\\n    ") + parameter_text(launch, params[i]);
  return out + ")";
}

// One form of a product: how the sum is passed, what else is, and PTX up to and after its operands.
struct ProductForm {
  std::string_view name, sum, operands, predicate, a, layout;
};
constexpr ProductForm kForms[] = {
    {"first", "out", "u64 a, u64 b", "setp.ne.b32 p, 0, 0;", "$a", "0, 0"},
    {"add", "inout", "u64 a, u64 b", "setp.eq.b32 p, 0, 0;", "$a", "0, 0"},
    {"keep", "inout", "u64 a, u64 b, u32 keep", "setp.ne.b32 p, $keep, 0;", "$a", "0, 0"},
    {"add_regs", "inout", "u32 a[4], u64 b", "setp.eq.b32 p, 0, 0;", "$a", "1"},
};

std::string product(int n) {
  std::string out = fmt::format("template <>\nstruct Wgmma<{}> {{\n", n);
  for (const ProductForm& form : kForms)
    out +=
        cuda::definition({.name = std::string(form.name),
                          .operands = cuda::parse_operands(
                              fmt::format("{} float d[{}], {}", form.sum, n / 2, form.operands)),
                          .ptx = fmt::format("{{\n.reg .pred p;\n{}\n"
                                             "wgmma.mma_async.sync.aligned.m64n{}k16.f32.bf16.bf16 "
                                             "$d, {}, $b, p, 1, 1, {};\n}}",
                                             form.predicate, n, form.a, form.layout)});
  return out + "};\n\n";
}

}  // namespace

std::string emit_hand_written(const lanes::Program& launch, const HandWritten& from) {
  cuda::Prelude types;
  types.use_tensor_maps();
  std::string out = types.text();
  for (const auto& [name, value] : from.numbers)
    out += fmt::format("#define {} {}\n", macro(name), value);
  out += "#define RT_KERNEL " + head(launch) + "\n\n";
  if (!from.products.empty()) out += "template <int N>\nstruct Wgmma;\n\n";
  for (const int n : from.products) out += product(n);
  return out + std::string(from.text);
}

}  // namespace rooftile::codegen
