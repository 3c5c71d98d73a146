// SPDX-License-Identifier: Apache-2.0
#include "rooftile/codegen/host/emit_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "rooftile/codegen/host/emit_expr.h"

namespace rooftile::host {
namespace {

// DLPack's dtype as one little-endian word, one lane.
uint32_t dtype_word(DType dtype) {
  return static_cast<uint32_t>(info(dtype).dlpack_code) |
         static_cast<uint32_t>(info(dtype).dlpack_bits) << 8 | 1u << 16;
}

std::string double_text(double value) {
  if (std::isinf(value)) return value > 0 ? "__builtin_inf()" : "-__builtin_inf()";
  return fmt::format("{:.17g}{}", value,
                     value == std::floor(value) && std::fabs(value) < 1e15 ? ".0" : "");
}

std::string extent_var(const ir::TensorParam& tensor, size_t axis) {
  return fmt::format("n_{}_{}", identifier(tensor.name), axis);
}
std::string stride_var(const ir::TensorParam& tensor, size_t axis) {
  return fmt::format("s_{}_{}", identifier(tensor.name), axis);
}

std::string joined(const ir::TensorParam& tensor, const char* separator) {
  std::string out;
  for (size_t i = 0; i < tensor.shape.size(); ++i)
    out += (i ? separator : "") + extent_var(tensor, i);
  return out;
}

}  // namespace

bool has_index_load(const Expr& expr) {
  if (expr.kind() == ExprKind::kIndexLoad) return true;
  return std::any_of(expr.args().begin(), expr.args().end(), has_index_load);
}

std::string shape_text(const std::vector<Expr>& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + shape[i].str();
  return out + "]";
}

ContractEmitter::ContractEmitter(const ir::Program& program, const ArgLayout& layout,
                                 ErrorSites& sites, bool on_gpu)
    : program_(program),
      layout_(layout),
      sites_(sites),
      on_gpu_(on_gpu),
      checks_(host_checks(program, on_gpu)) {
  for (const ir::TensorParam& tensor : program.tensors)
    if (tensor.role != ir::Role::kWorkspace) tensors_.push_back(&tensor);
  for (const DimSource& source : dim_sources(program))
    bound_.emplace(source.dim, Dim{source.tensor->name, source.axis});
}

bool ContractEmitter::listed(HostCheck::Kind kind, const ir::TensorParam& tensor) const {
  return std::any_of(checks_.begin(), checks_.end(), [&](const HostCheck& check) {
    return check.kind == kind && check.tensor == &tensor;
  });
}

std::string ContractEmitter::require(const std::string& violated, const Site& site,
                                     const std::vector<std::string>& values, int indent) {
  return fmt::format("{:{}}if (__builtin_expect({}, 0)) return {};\n", "", indent, violated,
                     sites_.raise(site, values));
}

std::string ContractEmitter::non_empty(const ir::TensorParam& tensor) {
  if (tensor.shape.empty()) return "true";
  std::string out;
  for (size_t i = 0; i < tensor.shape.size(); ++i)
    out += (i ? " && " : "") + extent_var(tensor, i) + " != 0";
  return out;
}

std::string ContractEmitter::device_check(size_t position) {
  const std::string& name = tensors_[position]->name;
  const std::string var = "t_" + identifier(name), quoted = "`" + name + "`";
  const std::vector<std::string> found = {var + "->device_type", var + "->device_id"};
  if (!on_gpu_)
    return require(
        fmt::format("!rth::on_host({})", var),
        {ErrorCode::kDevice, name, quoted + " is not in host memory",
         "device type {i0}, device {i1}", "CPU (device type 1) or pinned host memory (3)", "",
         "copy " + quoted + " to the CPU first"},
        found);
  std::string out = require(fmt::format("{}->device_type != 2", var),
                            {ErrorCode::kDevice, name, quoted + " is not on a CUDA device",
                             "device type {i0}, device {i1}", "CUDA (device type 2)", "",
                             "copy " + quoted + " to the GPU first"},
                            found);
  if (position == 0) return out;
  const std::string first = "t_" + identifier(tensors_[0]->name);
  return out + require(fmt::format("{}->device_id != {}->device_id", var, first),
                       {ErrorCode::kDevice, name, quoted + " is on another device", "device {i0}",
                        "device {i1}, where `" + tensors_[0]->name + "` is", "",
                        "put all tensors of a call on one device"},
                       {var + "->device_id", first + "->device_id"});
}

std::string ContractEmitter::arguments() {
  std::string names;
  for (const ir::TensorParam* tensor : tensors_)
    names += (names.empty() ? "" : ", ") + tensor->name;
  for (const ir::ScalarParam& scalar : program_.scalars) names += ", " + scalar.name;
  size_t count = tensors_.size() + program_.scalars.size();
  std::string out = require(
      fmt::format("num_args != {}", count),
      {ErrorCode::kArgCount, "", "called with the wrong number of arguments", "{i0} arguments",
       fmt::format("{} arguments: {}", count, names), "",
       "pass the tensors in this order, then the attributes; leave absent optional tensors out"},
      {"num_args"});

  for (size_t i = 0; i < tensors_.size(); ++i) {
    const ir::TensorParam& tensor = *tensors_[i];
    const std::string var = "t_" + identifier(tensor.name), quoted = "`" + tensor.name + "`";
    const std::string dtype(name(tensor.dtype));
    out += fmt::format("\n  // {}: {} {} {}\n", tensor.name, role_name(tensor.role), dtype,
                       shape_text(tensor.shape));
    out += fmt::format("  const rth::DlTensor* const {} = rth::tensor(args[{}]);\n", var, i);
    out +=
        require("!" + var,
                {ErrorCode::kArgKind, tensor.name, quoted + " is not a tensor", "{k0}",
                 "a tensor (DLPack)", "", "pass the tensors first, in the order of the contract"},
                {fmt::format("args[{}].type", i)});
    out += require(fmt::format("{}->ndim != {}", var, tensor.shape.size()),
                   {ErrorCode::kRank, tensor.name, quoted + " has the wrong number of dimensions",
                    "rank {i0}, shape {s1}",
                    fmt::format("rank {}: {}", tensor.shape.size(), shape_text(tensor.shape)), "",
                    fmt::format("reshape {} to {}", quoted, shape_text(tensor.shape))},
                   {var + "->ndim", fmt::format("(rth::i64){}", var)});
    out += require(
        fmt::format("{}->dtype != {:#x}u", var, dtype_word(tensor.dtype)),
        {ErrorCode::kDType, tensor.name, quoted + " has the wrong dtype", "{t0}", dtype, "",
         fmt::format("convert {} to {}, or use the kernel compiled for its dtype", quoted, dtype)},
        {var + "->dtype"});
    out += device_check(i);
  }
  return out;
}

// ---- attributes --------------------------------------------------------------------------------

std::string ContractEmitter::float_attr(const ir::ScalarParam& scalar, size_t position) {
  const std::string arg = fmt::format("args[{}]", position), id = identifier(scalar.name);
  const std::string bits = fmt::format("__builtin_bit_cast(rth::i64, v_{})", id);
  const std::string quoted = "`" + scalar.name + "`";
  std::string out = require("!rth::is_number(" + arg + ")",
                            {ErrorCode::kArgKind, scalar.name, quoted + " is not a number", "{k0}",
                             "a float or an integer", "", "pass " + quoted + " as a float"},
                            {arg + ".type"});
  out += fmt::format("  const double v_{0} = {1}.type == 3 ? {1}.f : (double){1}.i;\n", id, arg);
  out += fmt::format("  const float a_{0} = (float)v_{0};\n", id);

  std::string expected = "a finite f32", outside;
  bool takes_infinity = false;
  if (scalar.has_range) {
    expected = fmt::format("{:g} {} {} <= {:g}", scalar.fmin,
                           scalar.min_exclusive ? "<" : "<=", scalar.name, scalar.fmax);
    takes_infinity = std::isinf(scalar.fmax) || std::isinf(scalar.fmin);
    outside = fmt::format("v_{0} {1} {2} || v_{0} > {3}", id, scalar.min_exclusive ? "<=" : "<",
                          double_text(scalar.fmin), double_text(scalar.fmax));
    // A tiny double becomes the excluded bound when it is rounded to f32.
    if (scalar.min_exclusive)
      outside += fmt::format(" || a_{} <= (float){}", id, double_text(scalar.fmin));
  }
  std::string refused = fmt::format("!rth::is_finite(a_{})", id);
  if (takes_infinity) refused += fmt::format(" && !rth::is_infinite(v_{})", id);
  out += require(refused,
                 {ErrorCode::kNonFinite, scalar.name, quoted + " is not finite", "{f0}", expected,
                  "", "pass a finite value that f32 can hold"},
                 {bits});
  if (scalar.has_range)
    out += require(outside,
                   {ErrorCode::kAttrRange, scalar.name, quoted + " is out of range", "{f0}",
                    expected, "", "pass a value in the range"},
                   {bits});
  return out;
}

std::string ContractEmitter::int_attr(const ir::ScalarParam& scalar, size_t position) {
  const std::string arg = fmt::format("args[{}]", position), var = symbol_variable(scalar.name);
  const std::string quoted = "`" + scalar.name + "`";
  std::string out = require("!rth::is_integer(" + arg + ")",
                            {ErrorCode::kArgKind, scalar.name, quoted + " is not an integer",
                             "{k0}", "an integer", "", "pass " + quoted + " as an integer"},
                            {arg + ".type"});
  return out + fmt::format("  const rth::i64 {} = {}.i;\n", var, arg);
}

std::string ContractEmitter::scalars() {
  std::string out;
  for (size_t i = 0; i < program_.scalars.size(); ++i) {
    const ir::ScalarParam& scalar = program_.scalars[i];
    out += fmt::format("\n  // {}: {} attribute\n", scalar.name,
                       scalar.is_float ? "float" : "integer");
    out += scalar.is_float ? float_attr(scalar, tensors_.size() + i)
                           : int_attr(scalar, tensors_.size() + i);
  }
  return out;
}

// ---- shapes ------------------------------------------------------------------------------------

std::string ContractEmitter::extent_check(const ir::TensorParam& tensor, size_t axis) {
  const Expr& extent = tensor.shape[axis];
  const std::string var = extent_var(tensor, axis);
  std::vector<std::string> values = {var};
  std::string value = emit_expr(extent), expected = extent.str(), origin;
  if (!extent.is_const()) {
    expected += " = {i1}";
    values.push_back("wanted");
    if (extent.kind() != ExprKind::kSym) origin = value_pattern({extent}, values);
    for (const std::string& symbol : symbols_of(extent))
      if (auto at = bound_.find(symbol); at != bound_.end())
        origin += fmt::format("{}{} is {}.shape[{}]", origin.empty() ? "" : "; ", symbol,
                              at->second.tensor, at->second.axis);
  }
  Site site{ErrorCode::kExtent,
            tensor.name,
            fmt::format("extent {} of `{}` disagrees with {}", axis, tensor.name,
                        extent.is_const() ? "the contract" : "the other arguments"),
            fmt::format("{}.shape[{}] = {{i0}}", tensor.name, axis),
            expected,
            origin,
            fmt::format("give `{}` the shape {}", tensor.name, shape_text(tensor.shape))};
  if (extent.is_const()) return require(fmt::format("{} != {}", var, extent.value()), site, values);
  if (extent.kind() == ExprKind::kSym) {
    values[1] = value;
    return require(fmt::format("{} != {}", var, value), site, values);
  }
  return fmt::format("  {{\n    bool bad = false;\n    const rth::i64 wanted = {};\n", value) +
         require(fmt::format("bad || {} != wanted", var), site, values, 4) + "  }\n";
}

std::string ContractEmitter::shapes() {
  std::string out =
      "\n  // Shapes: each dim is bound where it first stands alone; the rest must agree.\n";
  for (const ir::TensorParam* tensor : tensors_) {
    const std::string id = identifier(tensor->name);
    for (size_t i = 0; i < tensor->shape.size(); ++i)
      out += fmt::format("  const rth::i64 n_{0}_{1} = t_{0}->shape[{1}];\n", id, i);
    if (!listed(HostCheck::kExtents, *tensor)) continue;
    std::vector<std::string> shape_value = {"(rth::i64)t_" + id};
    const std::string all = joined(*tensor, " | ");
    out +=
        require(fmt::format("({}) < 0", all),
                {ErrorCode::kExtent, tensor->name, "`" + tensor->name + "` has a negative extent",
                 "shape {s0}", shape_text(tensor->shape) + ", nothing negative", "",
                 "pass the tensor's true shape"},
                shape_value);
    out += require(fmt::format("({}) >> {}", all, kExtentBits),
                   {ErrorCode::kSizeLimit, tensor->name, "`" + tensor->name + "` is too large",
                    "shape {s0}", "extents below 2^48", "", "pass the tensor's true shape"},
                   shape_value);
  }
  for (const DimSource& source : dim_sources(program_))
    out += fmt::format("  const rth::i64 {} = {};\n", symbol_variable(source.dim),
                       extent_var(*source.tensor, source.axis));
  for (const HostCheck& check : checks_)
    if (check.kind == HostCheck::kExtentIs) out += extent_check(*check.tensor, check.axis);
  return out;
}

// ---- strides, alignment, pointers --------------------------------------------------------------

std::string ContractEmitter::strides(const ir::TensorParam& tensor) {
  const std::string id = identifier(tensor.name), quoted = "`" + tensor.name + "`";
  const size_t rank = tensor.shape.size();
  if (rank == 0) return "";
  std::string declare, read, compact, safe;
  for (size_t i = rank; i-- > 0;) {
    const std::string s = stride_var(tensor, i);
    const std::string inner = i + 1 == rank
                                  ? "1"
                                  : fmt::format("rth::mul({}, {}, bad)", extent_var(tensor, i + 1),
                                                stride_var(tensor, i + 1));
    declare += (declare.empty() ? "" : ", ") + s;
    read += fmt::format(" {} = t_{}->strides[{}];", s, id, i);
    compact += fmt::format(" {} = {};", s, inner);
    safe += fmt::format("  if ({} <= 1) {} = {};\n", extent_var(tensor, i), s, inner);
  }
  std::string out = fmt::format("  rth::i64 {};\n", declare);
  out += fmt::format("  if (t_{}->strides) {{{} }}\n  else {{{} }}\n", id, read, compact);
  out += safe;  // an extent of 1 may carry any stride
  if (listed(HostCheck::kUnitStride, tensor)) {
    const std::string inner = stride_var(tensor, rank - 1);
    out += require(
        inner + " != 1",
        {ErrorCode::kStride, tensor.name, quoted + " is not contiguous in its last dimension",
         fmt::format("stride {{i0}} in dimension {}", rank - 1), "stride 1",
         fmt::format("{}.shape[{}] = {{i1}}", tensor.name, rank - 1),
         "make " + quoted + " contiguous in its last dimension"},
        {inner, extent_var(tensor, rank - 1)});
  }
  return out;
}

std::string ContractEmitter::memory(const ir::TensorParam& tensor) {
  const std::string id = identifier(tensor.name), quoted = "`" + tensor.name + "`";
  const size_t rank = tensor.shape.size();
  const int element = size_bytes(tensor.dtype), align = required_alignment(tensor);
  std::string out =
      require(fmt::format("!t_{}->data", id),
              {ErrorCode::kNullPointer, tensor.name, quoted + " has a null data pointer",
               "null, shape {s0}", "memory for every element", "",
               "allocate " + quoted + ", or give it an extent of 0"},
              {fmt::format("(rth::i64)t_{}", id)}, 4);
  const bool aligned = listed(HostCheck::kAligned, tensor);
  if (aligned)
    out += require(fmt::format("(rth::u64)p_{} % {}", id, align),
                   {ErrorCode::kAlignment, tensor.name, quoted + " is not aligned", "address {p0}",
                    fmt::format("a multiple of {} bytes", align), "",
                    fmt::format("allocate {} aligned to {} bytes, or copy it", quoted, align)},
                   {fmt::format("(rth::i64)p_{}", id)}, 4);
  if (aligned && align > element)
    for (size_t i = 0; i + 1 < rank; ++i)
      out += require(fmt::format("{} > 1 && (rth::u64){} * {} % {}", extent_var(tensor, i),
                                 stride_var(tensor, i), element, align),
                     {ErrorCode::kAlignment, tensor.name,
                      fmt::format("the rows of {} are not aligned", quoted),
                      fmt::format("stride {{i0}} in dimension {}, {} bytes an element", i, element),
                      fmt::format("a multiple of {} elements ({} bytes)", align / element, align),
                      "", fmt::format("pad the rows of {} to {} bytes", quoted, align)},
                     {stride_var(tensor, i)}, 4);

  std::string row_major = "true", dims;
  for (size_t i = 0; i < rank; ++i) {
    dims +=
        fmt::format("    span.dim({}, {}, bad);\n", extent_var(tensor, i), stride_var(tensor, i));
    std::string reach = "0";
    for (size_t j = i + 1; j < rank; ++j)
      reach =
          fmt::format("{} + ({} - 1) * {}", reach, extent_var(tensor, j), stride_var(tensor, j));
    row_major += fmt::format(" && {} > {}", stride_var(tensor, i), reach);
  }
  out += "    rth::Span span;\n" + dims;
  const Site too_large{ErrorCode::kSizeLimit,
                       tensor.name,
                       quoted + " spans more than 64-bit addresses can reach",
                       "shape {s0}",
                       "extents and strides whose byte offsets fit 63 bits",
                       "",
                       "pass the tensor's true shape and strides"};
  if (listed(HostCheck::kReach, tensor))
    out += require(
        fmt::format("bad || ((rth::u64)span.hi | (0 - (rth::u64)span.lo)) >> {}", kReachBits),
        too_large, {fmt::format("(rth::i64)t_{}", id)}, 4);
  // The quick test is for rows in order; any other order of strides is sorted out off the hot path.
  if (listed(HostCheck::kApart, tensor))
    out += require(
        fmt::format("!({}) && rth::overlaps_itself(layout_{}())", row_major, id),
        {ErrorCode::kStride, tensor.name, fmt::format("elements of the output {} overlap", quoted),
         "shape {s0}, outermost stride {i1}", "positive strides that keep all elements apart", "",
         "pass " + quoted + " without broadcast, flipped or overlapping dimensions"},
        {fmt::format("(rth::i64)t_{}", id), stride_var(tensor, 0)}, 4);
  out += fmt::format("    b_{0}.lo = (rth::u64)p_{0} + (rth::u64)(span.lo * {1});\n", id, element);
  out += fmt::format("    b_{0}.hi = (rth::u64)p_{0} + (rth::u64)((span.hi + 1) * {1});\n", id,
                     element);
  return out;
}

std::string ContractEmitter::layouts() {
  std::string out;
  for (const ir::TensorParam* tensor : tensors_) {
    const std::string id = identifier(tensor->name);
    out += fmt::format("\n  // {}: strides, alignment, memory\n", tensor->name);
    out += "  bad = false;\n" + strides(*tensor);
    out += fmt::format("  char* const p_{0} = rth::first_byte(t_{0});\n", id);
    out += fmt::format("  rth::Bytes b_{};\n", id);
    out += fmt::format(
        "  const auto layout_{} = [&] {{\n    rth::Layout layout;\n    layout.element = {};\n", id,
        size_bytes(tensor->dtype));
    for (size_t i = 0; i < tensor->shape.size(); ++i)
      out += fmt::format("    layout.dim({}, {} * {});\n", extent_var(*tensor, i),
                         stride_var(*tensor, i), size_bytes(tensor->dtype));
    out += "    return layout;\n  };\n";
    out += fmt::format("  if ({}) {{\n{}  }}\n", non_empty(*tensor), memory(*tensor));
  }
  return out;
}

// ---- aliasing ----------------------------------------------------------------------------------

std::string ContractEmitter::no_overlap(const ir::TensorParam& out, const ir::TensorParam& other) {
  auto lists = [](const ir::TensorParam& a, const ir::TensorParam& b) {
    return std::find(a.may_alias.begin(), a.may_alias.end(), b.name) != a.may_alias.end();
  };
  const std::string a = identifier(out.name), b = identifier(other.name);
  const bool same_layout_allowed = (lists(out, other) || lists(other, out)) &&
                                   out.shape.size() == other.shape.size() &&
                                   size_bytes(out.dtype) == size_bytes(other.dtype);
  std::string violated = fmt::format("b_{}.meets(b_{})", a, b);
  if (same_layout_allowed) {
    std::string same = fmt::format("p_{} == p_{}", a, b);
    for (size_t i = 0; i < out.shape.size(); ++i)
      same += fmt::format(" && {} == {} && {} == {}", stride_var(out, i), stride_var(other, i),
                          extent_var(out, i), extent_var(other, i));
    violated += fmt::format(" && !({})", same);
  }
  violated += fmt::format(
      " && !rth::lie_side_by_side(layout_{0}(), b_{0}.lo, layout_{1}(), b_{1}.lo)", a, b);
  return require(
      violated,
      {ErrorCode::kAlias, out.name,
       fmt::format("the output `{}` overlaps `{}`", out.name, other.name),
       fmt::format("`{}` at {{p0}}..{{p1}}, `{}` at {{p2}}..{{p3}}", out.name, other.name),
       same_layout_allowed ? "separate memory, or the same pointer and strides" : "separate memory",
       "", fmt::format("give `{}` its own memory", out.name)},
      {fmt::format("(rth::i64)b_{}.lo", a), fmt::format("(rth::i64)b_{}.hi", a),
       fmt::format("(rth::i64)b_{}.lo", b), fmt::format("(rth::i64)b_{}.hi", b)});
}

std::string ContractEmitter::aliasing() {
  std::string out = "\n  // Aliasing: an output shares no byte with another argument.\n";
  for (const HostCheck& check : checks_)
    if (check.kind == HostCheck::kNoOverlap) out += no_overlap(*check.tensor, *check.other);
  return out;
}

}  // namespace rooftile::host
