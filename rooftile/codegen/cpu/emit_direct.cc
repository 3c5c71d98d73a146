// SPDX-License-Identifier: Apache-2.0
// Products whose right operand is used as it lies in memory (OperandForm::kDirect), and what is
// asked for ahead of the loop that reads it. The functions they call are in mma_direct.cc.
#include "rooftile/codegen/cpu/emitter.h"

namespace rooftile::codegen {

using ir::DimIndex;
using ir::Node;
using ir::Op;

bool Emitter::is_direct(const Node& node) const {
  if (node.op != Op::kLoad) return false;
  auto form = schedule_.operand.find(node.label);
  return form != schedule_.operand.end() && form->second == OperandForm::kDirect;
}

// A direct operand is the right one of every product that it feeds, bf16, and multiplied by AMX.
Status Emitter::check_direct(const Node& load) const {
  auto refused = [&](const std::string& found, const std::string& expected) {
    Diag diag = unsupported(load, "an operand cannot be used as it lies in memory",
                            "use kPack: the copy lands in the L2 cache");
    diag.argument = load.label;
    diag.found = found;
    diag.expected = expected;
    return Status(diag);
  };
  for (const Node& mma : program_.nodes) {
    if (mma.op != Op::kMma) continue;
    const Product& product = plan_.product(mma.id);
    if (product.a == load.id) return refused("the left operand of a product", "the right one");
    if (product.b != load.id) continue;
    auto unit = unit_of(mma);
    if (!unit.ok()) return unit.status();
    if (*unit != MmaUnit::kAmxBf16) return refused(unit_info(*unit).name, "amx_bf16");
    if (product.b_transposed && program_.node(product.a).op != Op::kLoad)
      return refused("a computed left operand beside a transposed one", "a loaded tile");
    if (!program_.tensor(load.name)->unit_inner_stride || load.region.empty() ||
        load.region.back().kind != DimIndex::kRange || load.region.back().tile_axis != 1 ||
        load.region.back().step != 1)
      return refused("rows that are not contiguous", "the last dimension along the rows");
  }
  return {};
}

const Node* Emitter::loop_around(const Node& node) const {
  for (const Node& loop : program_.nodes)
    if (loop.op == Op::kLoop)
      for (ValueId id : loop.block.nodes)
        if (id == node.id) return &loop;
  return nullptr;
}

Status Emitter::in_next_iteration(const Node& loop, const std::function<Status()>& body) {
  const std::string var = c_symbol(loop.name), next = w_.fresh("next");
  w_.line("const i64 " + next + " = " + var + " + " + w_.let(loop.step) + ";");
  w_.open("if (" + next + " < " + w_.let(loop.end) + ")");
  w_.line("const i64 " + var + " = " + next + ";");
  const size_t names = w_.hide_names(), memo_from = memo_from_;
  w_.open("");
  memo_from_ = memo_.size();
  memo_.emplace_back();
  other_iteration_ = true;
  w_.line("(void)" + var + ";");
  const Status status = body();
  other_iteration_ = false;
  memo_.pop_back();
  memo_from_ = memo_from;
  w_.close();
  w_.show_names(names);
  w_.close();
  return status;
}

// An object that knows the address of each row of an operand, and a quick way to see that sixteen
// of them are evenly spaced.
Result<std::string> Emitter::emit_row_function(const Node& load) {
  const std::string name = w_.fresh("row_"), r = w_.fresh("r");
  w_.open("const auto " + name + " = [&](i64 " + r + ") -> const char*");
  memo_.emplace_back();
  auto where = row_address(load, {{r, false}, {"0l", true}});
  if (!where.ok()) return where.diag();
  w_.line("return (const char*)" + where->pointer + ";");
  memo_.pop_back();
  w_.close("};");
  // Gathered by indices that lie in scratch: each of them in equal steps is enough.
  std::string even;
  for (const DimIndex& dim : load.region) {
    if (dim.kind != DimIndex::kIndirect) continue;
    const int buffer = plan_.buffer_of(dim.indirect);
    if (buffer < 0 || program_.node(dim.indirect).dtype != DType::kI32) return name;
    even += (even.empty() ? "" : " && ") + std::string("in_equal_steps(") +
            plan_.buffers()[static_cast<size_t>(buffer)].name + " + " + r + ")";
  }
  if (even.empty()) return name;
  const std::string rows = w_.fresh("rows_");
  w_.line("const auto " + rows + " = gathered_rows(" + name + ", [&](i64 " + r + ") { return " +
          even + "; });");
  return rows;
}

// Bytes from the rows of one member of the gang to those of the next; "" if they do not lie at one
// distance.
std::string Emitter::gang_stride(const Node& load) const {
  if (!gang_) return "";
  std::string stride;
  for (size_t d = 0; d < load.region.size(); ++d) {
    const DimIndex& dim = load.region[d];
    const std::set<std::string> in_begin = symbols_of(dim.begin),
                                in_extent = symbols_of(dim.extent);
    if (!in_begin.count(gang_->var) && !in_extent.count(gang_->var)) continue;
    if (dim.kind != DimIndex::kPoint || !dim.begin.same_as(Expr::sym(gang_->var)) ||
        !stride.empty())
      return "";
    stride = c_symbol(load.name + ".s" + std::to_string(d)) + " * " +
             std::to_string(size_bytes(load.dtype));
  }
  return stride;
}

// An object that asks for the rows of the loop's next block, a few at each call. "NothingAhead{}"
// where there is no loop or the schedule wants none.
Result<std::string> Emitter::emit_ahead(const Node& load) {
  const Node* loop = loop_around(load);
  if (!loop || schedule_.prefetch_bytes <= 0) return std::string("NothingAhead{}");
  const std::string var = c_symbol(loop->name), end = w_.let(loop->end),
                    rows = w_.let(load.shape[0]), width = w_.let(load.shape[1]);
  const std::string stride = gang_stride(load), next = w_.fresh("next"), count = w_.fresh("rows"),
                    name = w_.fresh("ahead");
  w_.line("const i64 " + next + " = " + var + " + " + w_.let(loop->step) + ";");
  const size_t names = w_.hide_names(), memo_from = memo_from_;
  memo_from_ = memo_.size();
  memo_.emplace_back();
  other_iteration_ = true;
  auto shadow = [&] {
    w_.line("const i64 " + var + " = " + next + ";");
    if (!stride.empty()) w_.line("const i64 " + c_symbol(gang_->var) + " = first_member;");
    w_.line("(void)" + var + ";");
    shadow_next(of_next_);
  };
  w_.open("const auto " + count + " = [&]() -> i64");
  w_.line("if (!(" + next + " < " + end + ")) return 0l;");
  shadow();
  w_.line("return " + w_.expr(load.shape[0]) + ";");
  w_.close("};");
  const std::string r = w_.fresh("r"), row = w_.fresh("row_");
  w_.open("const auto " + row + " = [&](i64 " + r + ") -> const char*");
  shadow();
  memo_.emplace_back();
  auto where = row_address(load, {{r, false}, {"0l", true}});
  if (where.ok()) w_.line("return (const char*)" + where->pointer + ";");
  memo_.pop_back();
  w_.close("};");
  other_iteration_ = false;
  memo_.pop_back();
  memo_from_ = memo_from;
  w_.show_names(names);
  if (!where.ok()) return where.diag();
  const std::string who = stride.empty() ? "0l, 1l, 0l" : "member, members, " + stride;
  w_.line("const auto " + name + " = ahead_of(" + row + ", " + count + "(), " + who + ", (" +
          width + ") * " + std::to_string(size_bytes(load.dtype)) + ", " + rows + ");");
  return name;
}

Status Emitter::emit_direct_product(const Node& mma, const std::string& first) {
  const Product& product = plan_.product(mma.id);
  const Node &a = program_.node(product.a), &b = program_.node(product.b);
  uses_direct_ = true;
  auto row = emit_row_function(b);
  if (!row.ok()) return row.status();
  auto next = emit_ahead(b);
  if (!next.ok()) return next.status();
  // Rows are evenly spaced unless they are gathered.
  std::string stride = "0l";
  for (size_t d = 0; d < b.region.size(); ++d)
    if (b.region[d].kind == DimIndex::kRange && b.region[d].tile_axis == 0)
      stride = c_symbol(b.name + ".s" + std::to_string(d)) + " * " +
               std::to_string(b.region[d].step * size_bytes(b.dtype));
  for (const DimIndex& dim : b.region)
    if (dim.kind == DimIndex::kIndirect) stride = "0l";
  const Buffer& c = plan_.buffers()[static_cast<size_t>(product.buffer)];
  const std::string bytes = "(" + w_.let(b.shape[1]) + ") * " + std::to_string(size_bytes(b.dtype)),
                    m = w_.let(mma.shape[0]), rows = w_.let(b.shape[0]),
                    out = c.name + ", " + buffer_pitch(product.buffer),
                    right = *row + ", " + stride + ", " + bytes;
  if (product.b_transposed) {
    if (first != "1")
      return unsupported(mma, "a product of an operand in memory, transposed, adds to a sum",
                         "use kPack");
    const PackBuffer& pack =
        packs_.at(pack_key(product.a, false, !product.a_transposed, MmaUnit::kAmxBf16));
    w_.line("mm_amx_bf16_rows_t(" + pack.name + ", " + pack.name + "_panel, " + right + ", " + out +
            ", " + m + ", " + rows + ", " + *next + ");");
    return {};
  }
  std::string left;
  if (a.op == Op::kLoad) {
    const PackBuffer& pack =
        packs_.at(pack_key(product.a, true, product.a_transposed, MmaUnit::kAmxBf16));
    left = pack.name + ", " + pack.name + "_pitch";
  } else if (product.a_transposed) {
    return unsupported(mma, "a computed left operand is transposed",
                       "compute it in the orientation that the product reads");
  } else {
    const int buffer = plan_.buffer_of(product.a);
    const Buffer& kept = plan_.buffers()[static_cast<size_t>(buffer)];
    left = "(const char*)" + kept.name + ", " + buffer_pitch(buffer) + " * " +
           std::to_string(size_bytes(kept.dtype));
  }
  w_.line("mm_amx_bf16_rows_n(" + left + ", " + right + ", " + out + ", " + m + ", " + rows + ", " +
          first + ", " + *next + ");");
  return {};
}

}  // namespace rooftile::codegen
