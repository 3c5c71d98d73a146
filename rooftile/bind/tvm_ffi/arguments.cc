// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bind/tvm_ffi/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>

#include "rooftile/compile/api.h"

namespace rooftile::bind {
namespace {

constexpr int32_t kPinnedHost = 3;  // DLPack: host memory that a GPU can reach

// TVM-FFI's type indices of strings, which launchers do not take and ffi_abi.h does not have.
constexpr int32_t kRawStr = 8, kSmallStr = 11, kStr = 65;

// The text of a string argument: short ones lie in the value itself, their length in the padding;
// a string object has {data, size} behind its header.
std::optional<std::string_view> text_of(const TVMFFIAny& value) {
  struct Bytes {
    const char* data;
    size_t size;
  };
  switch (value.type_index) {
    case kRawStr:
      return static_cast<const char*>(value.v_ptr);
    case kSmallStr:
      return std::string_view(reinterpret_cast<const char*>(&value.v_int64), value.zero_padding);
    case kStr: {
      const char* object = static_cast<const char*>(value.v_ptr);
      Bytes bytes;
      std::memcpy(&bytes, object + abi::kObjectHeaderBytes, sizeof bytes);
      return std::string_view(bytes.data, bytes.size);
    }
    default:
      return std::nullopt;
  }
}

std::string kind_of(const TVMFFIAny& value) {
  switch (value.type_index) {
    case abi::kNone:
      return "None";
    case abi::kInt:
      return "an integer";
    case abi::kBool:
      return "a bool";
    case abi::kFloat:
      return "a float";
    case abi::kDLTensorPtr:
    case abi::kTensor:
      return "a tensor";
    case kRawStr:
    case kSmallStr:
    case kStr:
      return "a string";
    default:
      return fmt::format("an object of type index {}", value.type_index);
  }
}

Diag refused(const OpDef& op, ErrorCode code, std::string message, const std::string& argument,
             std::string found, std::string expected, std::string fix = "") {
  Diag diag;
  diag.code = code;
  diag.subject = op.name;
  diag.message = std::move(message);
  diag.argument = argument;
  diag.found = std::move(found);
  diag.expected = std::move(expected);
  diag.fix = std::move(fix);
  return diag;
}

std::string dtype_names(const std::vector<DType>& dtypes) {
  std::string out;
  for (DType dtype : dtypes) out += (out.empty() ? "" : ", ") + std::string(name(dtype));
  return out;
}

std::string dtype_text(DLDataType dtype) {
  constexpr std::string_view kKinds[] = {"i", "u", "f", "", "bf"};
  std::string out = dtype.code < std::size(kKinds) && !kKinds[dtype.code].empty()
                        ? fmt::format("{}{}", kKinds[dtype.code], dtype.bits)
                        : fmt::format("DLPack type {} of {} bits", dtype.code, dtype.bits);
  return dtype.lanes == 1 ? out : out + fmt::format(" in {} lanes", dtype.lanes);
}

Result<DType> read_dtype(const OpDef& op, const ArgDef& arg, DLDataType dtype) {
  for (const DTypeInfo& entry : kDTypes)
    if (entry.dlpack_code == dtype.code && entry.dlpack_bits == dtype.bits && dtype.lanes == 1)
      return entry.dtype;
  return refused(
      op, ErrorCode::kDType, "`" + arg.name + "` has a dtype that Rooftile does not know", arg.name,
      dtype_text(dtype),
      arg.same_dtype_as.empty() ? dtype_names(arg.dtypes) : "the dtype of " + arg.same_dtype_as);
}

Result<TensorView> read_tensor(const OpDef& op, const ArgDef& arg, const DLTensor& tensor) {
  TensorView view;
  if (tensor.ndim < 0 || tensor.ndim > kMaxRank)
    return refused(op, ErrorCode::kRank, "`" + arg.name + "` has the wrong number of dimensions",
                   arg.name, fmt::format("rank {}", tensor.ndim),
                   fmt::format("rank {}", arg.shape.size()));
  Result<DType> dtype = read_dtype(op, arg, tensor.dtype);
  if (!dtype.ok()) return dtype.diag();
  switch (tensor.device.device_type) {
    case static_cast<int32_t>(DeviceKind::kCpu):
    case kPinnedHost:
      view.device = DeviceKind::kCpu;
      break;
    case static_cast<int32_t>(DeviceKind::kCuda):
      view.device = DeviceKind::kCuda;
      view.device_id = tensor.device.device_id;
      break;
    default:
      return refused(op, ErrorCode::kDevice,
                     "`" + arg.name + "` is on a device that Rooftile does not use", arg.name,
                     fmt::format("DLPack device type {}", tensor.device.device_type),
                     "a CPU or CUDA tensor");
  }
  view.dtype = *dtype;
  view.rank = tensor.ndim;
  view.data =
      tensor.data == nullptr ? nullptr : static_cast<char*>(tensor.data) + tensor.byte_offset;
  int64_t compact = 1;
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    const auto at = static_cast<size_t>(axis);
    view.shape[at] = tensor.shape[axis];
    view.strides[at] = tensor.strides == nullptr ? compact : tensor.strides[axis];
    // Of an empty tensor the product says nothing; it must not overflow either.
    compact *= std::max<int64_t>(tensor.shape[axis], 1);
  }
  return view;
}

const DLTensor* tensor_of(const TVMFFIAny& value) {
  if (value.type_index == abi::kDLTensorPtr) return static_cast<const DLTensor*>(value.v_ptr);
  if (value.type_index != abi::kTensor) return nullptr;
  return reinterpret_cast<const DLTensor*>(static_cast<const char*>(value.v_ptr) +
                                           abi::kObjectHeaderBytes);
}

Status read_tensors(const OpDef& op, std::span<const TVMFFIAny> args, ForeignArgs& out) {
  for (size_t i = 0; i < op.args.size(); ++i) {
    const ArgDef& arg = op.args[i];
    if (args[i].type_index == abi::kNone) {
      out.tensors.emplace_back();  // the dispatcher says so where it is not optional
      continue;
    }
    const DLTensor* tensor = tensor_of(args[i]);
    if (tensor == nullptr)
      return refused(op, ErrorCode::kArgKind, "`" + arg.name + "` is not a tensor", arg.name,
                     kind_of(args[i]), arg.optional ? "a tensor or None" : "a tensor");
    Result<TensorView> view = read_tensor(op, arg, *tensor);
    if (!view.ok()) return view.diag();
    if (view->device == DeviceKind::kCuda && out.cuda_device < 0) out.cuda_device = view->device_id;
    out.tensors.push_back(*view);
  }
  return {};
}

// Nothing for None, which stands for the default.
Result<std::optional<NamedValue>> read_value(const OpDef& op, const std::string& argument,
                                             const TVMFFIAny& value) {
  using Value = std::optional<NamedValue>;
  if (const auto text = text_of(value)) return Value(*text);
  switch (value.type_index) {
    case abi::kNone:
      return Value();
    case abi::kInt:
      return Value(value.v_int64);
    case abi::kBool:
      return Value(value.v_int64 != 0);
    case abi::kFloat:
      return Value(value.v_float64);
    default:
      return refused(op, ErrorCode::kArgKind, "`" + argument + "` is of the wrong kind", argument,
                     kind_of(value), "a number, a bool or a name");
  }
}

Status read_values(const OpDef& op, std::span<const TVMFFIAny> values, ForeignArgs& out) {
  for (const AttrDef& attr : op.attrs) out.attrs.push_back(default_value(attr));
  for (const FlagDef& flag : op.flags) out.flags.push_back(flag.default_value);
  for (size_t i = 0; i < values.size(); ++i) {
    const bool is_attr = i < op.attrs.size();
    const size_t at = is_attr ? i : i - op.attrs.size();
    auto value = read_value(op, is_attr ? op.attrs[at].name : op.flags[at].name, values[i]);
    if (!value.ok()) return value.diag();
    if (!value->has_value()) continue;
    if (is_attr) {
      Result<Scalar> scalar = attribute_value(op, op.attrs[at], **value);
      if (!scalar.ok()) return scalar.diag();
      out.attrs[at] = *scalar;
    } else {
      Result<int64_t> flag = flag_value(op, op.flags[at], **value);
      if (!flag.ok()) return flag.diag();
      out.flags[at] = *flag;
    }
  }
  return {};
}

}  // namespace

Result<ForeignArgs> read_arguments(const OpDef& op, std::span<const TVMFFIAny> args) {
  const size_t least = op.args.size(), most = least + op.attrs.size() + op.flags.size();
  if (args.size() < least || args.size() > most)
    return refused(op, ErrorCode::kArgCount, "called with the wrong number of arguments", "",
                   std::to_string(args.size()),
                   least == most ? std::to_string(least) : fmt::format("{} to {}", least, most),
                   "pass all tensors, None for absent ones, then attributes, then flags");
  ForeignArgs out;
  out.tensors.reserve(op.args.size());
  RT_RETURN_IF_ERROR(read_tensors(op, args.first(least), out));
  RT_RETURN_IF_ERROR(read_values(op, args.subspan(least), out));
  return out;
}

}  // namespace rooftile::bind
