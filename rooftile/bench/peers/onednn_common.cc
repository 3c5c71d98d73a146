// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bench/peers/onednn_common.h"

namespace rooftile::bench {
namespace onednn {

dnnl::engine& engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

dnnl::stream& stream() {
  static dnnl::stream queue(engine());
  return queue;
}

Diag refusal(const PeerRequest& request, std::string why) {
  Diag diag;
  diag.code = ErrorCode::kUnsupported;
  diag.subject = request.op.name;
  diag.message = "oneDNN: " + std::move(why);
  return diag;
}

Result<dnnl::memory::data_type> data_type(const PeerRequest& request, DType dtype) {
  using Type = dnnl::memory::data_type;
  switch (dtype) {
    case DType::kF32:
      return Type::f32;
    case DType::kBf16:
      return Type::bf16;
    case DType::kF16:
      return Type::f16;
    case DType::kI8:
      return Type::s8;
    case DType::kU8:
      return Type::u8;
    case DType::kI32:
      return Type::s32;
    default:
      return refusal(request, "no data type " + std::string(rooftile::name(dtype)));
  }
}

dnnl::memory wrap(const dnnl::memory::desc& desc, const TensorView& view) {
  return dnnl::memory(desc, engine(), view.data);
}

dnnl::memory in_format(dnnl::memory from, const dnnl::memory::desc& wanted) {
  if (from.get_desc() == wanted) return from;
  dnnl::memory to(wanted, engine());
  dnnl::reorder(from, to).execute(stream(), from, to);
  stream().wait();
  return to;
}

dnnl::memory::desc row_major(const dnnl::memory::dims& dims, dnnl::memory::data_type type) {
  dnnl::memory::dims strides(dims.size(), 1);
  for (size_t axis = dims.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * dims[axis];
  return dnnl::memory::desc(dims, type, strides);
}

void Chain::run(size_t set) {
  for (Step& step : steps_) step.primitive.execute(stream(), step.args[set]);
  stream().wait();
}

std::vector<std::pair<std::string, TensorView>> Chain::results(size_t set) const {
  void* data = steps_.back().args[set].at(DNNL_ARG_DST).get_data_handle();
  return {{output_, TensorView(data, dtype_, shape_)}};
}

}  // namespace onednn

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

}  // namespace rooftile::bench
