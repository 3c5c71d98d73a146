// SPDX-License-Identifier: Apache-2.0
// A Plan as text: every field that differs from its default, in a fixed order.
#include "rooftile/compile/schedule_gpu.h"

namespace rooftile::gpu {
namespace {

std::string joined(const Labels& labels) {
  std::string out;
  for (const std::string& label : labels) out += (out.empty() ? "" : "+") + label;
  return out;
}

std::string text_of(const Role& role) {
  std::string out = role.name + ":" + std::to_string(role.groups);
  if (role.regs != 0) out += "x" + std::to_string(role.regs) + "regs";
  return out + "[" + joined(role.runs) + "]";
}

std::string text_of(const Copy& copy) {
  std::string out = copy.via == Via::kTma       ? "tma"
                    : copy.via == Via::kCpAsync ? "cp_async"
                                                : "vector";
  if (copy.multicast) out += "+multicast";
  if (copy.l2 == L2::kEvictFirst) out += "+evict_first";
  if (copy.l2 == L2::kEvictLast) out += "+evict_last";
  if (copy.staging_columns != 0)
    out += "+staged" + std::to_string(copy.staging_columns) + "x" +
           std::to_string(copy.staging_buffers);
  return out;
}

std::string text_of(const Product& product) {
  std::string out = product.unit == Unit::kWgmma     ? "wgmma"
                    : product.unit == Unit::kMmaSync ? "mma_sync"
                                                     : "fma";
  if (product == Product{.unit = product.unit} && product.unit != Unit::kWgmma) return out;
  if (product.a_registers) out += "+a_registers";
  if (product.bytes) out += "+bytes";
  if (product.swap) out += "+swap";
  return out + "+in_flight" + std::to_string(product.in_flight);
}

}  // namespace

std::string Plan::str() const {
  std::string out;
  auto add = [&out](const std::string& text) { out += (out.empty() ? "" : " ") + text; };
  for (const auto& [dim, value] : dims) add(dim + "=" + std::to_string(value));
  for (const Role& role : roles) add("role(" + text_of(role) + ")");
  if (share == Share::kTurns) add("share(turns)");
  for (const ClusterAxis& axis : cluster)
    add("cluster(" + axis.axis + ":" + std::to_string(axis.size) + ")");
  for (const LoopSplit& part : split)
    add("split(" + part.loop + ":" + std::to_string(part.ways) + ")");
  if (grid == Grid::kPersistent) add("persistent");
  if (ctas_per_sm != 1) add("ctas_per_sm(" + std::to_string(ctas_per_sm) + ")");
  if (!order.axes.empty()) add("order(" + joined(order.axes) + ")");
  if (order.band != 0) add("band(" + order.band_axis + ":" + std::to_string(order.band) + ")");
  for (const auto& [label, copy_of] : copy) add("copy(" + label + "=" + text_of(copy_of) + ")");
  for (const Ring& ring : rings)
    add("ring(" + joined(ring.copies) + ":" + std::to_string(ring.depth) + ")");
  for (const auto& [label, product_of] : product)
    add("product(" + label + "=" + text_of(product_of) + ")");
  if (strips != Strips{})
    add("strips(" + std::to_string(strips.threads) + " threads, " +
        std::to_string(strips.vector_bytes) + " bytes, " + std::to_string(strips.held_vectors) +
        " held)");
  for (const auto& [name, loop_of] : loop)
    if (!loop_of.late.empty()) add("late(" + name + ":" + loop_of.late + ")");
  for (const Turns& turn : turns)
    add("turns(" + turn.loop + (turn.each_step ? " each step)" : ")"));
  if (!fast.empty()) add("fast(" + joined(fast) + ")");
  if (dependent_launch) add("dependent_launch");
  return out;
}

}  // namespace rooftile::gpu
