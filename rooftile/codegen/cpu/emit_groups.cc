// SPDX-License-Identifier: Apache-2.0
// Row groups: loops over the leading axes, numbers of the row, and vector passes over the last
// axis.
//
// A pass evaluates all its values before it stores any of them, so that an item that replaces a
// carried tile in place cannot be seen by its neighbours. The vector loop is written twice: whole
// vectors, then the tail of n < W elements, where loads touch n elements, stores write n and
// reductions see their neutral element beyond.
#include "rooftile/codegen/cpu/emitter.h"
#include "rooftile/ir/mask.h"

namespace rooftile::codegen {

using ir::Node;
using ir::Op;
using ir::ReduceKind;

struct Emitter::Sink {
  Item item;
  ValueId source = -1;  // what is evaluated
  bool definition = false;
  std::string pointer;  // of the row, in a variable
  std::string lane_stride, lane_offset_base;
  bool nontemporal = false;
  std::vector<std::string> accumulators;  // one a copy of the body
  std::string first_half, first_at;       // a store that waits for the next copy's
};

namespace {

const std::vector<Expr>& domain(const ir::Program& program, const Item& item) {
  const Node& node = program.node(item.id);
  const bool over_operand = item.kind == ItemKind::kReduce ||
                            item.kind == ItemKind::kColumnReduce || item.kind == ItemKind::kStore;
  return over_operand ? program.node(node.operands[0]).shape : node.shape;
}

bool one_wide(const std::vector<Expr>& shape) { return shape.empty() || shape.back().is_const(1); }

std::string neutral(ReduceKind kind, Cls cls) {
  if (kind == ReduceKind::kSum)
    return cls == Cls::kF ? "0.0f" : cls == Cls::kU ? "0u" : cls == Cls::kL ? "0l" : "0";
  const bool low = kind == ReduceKind::kMax || kind == ReduceKind::kArgMax;
  switch (cls) {
    case Cls::kF:
      return low ? "-__builtin_inff()" : "__builtin_inff()";
    case Cls::kL:
      return low ? "(-0x7fffffffffffffffl - 1)" : "0x7fffffffffffffffl";
    case Cls::kU:
      return low ? "0u" : "0xffffffffu";
    default:
      return low ? "(-0x7fffffff - 1)" : "0x7fffffff";
  }
}

std::string combine(ReduceKind kind, const std::string& a, const std::string& b) {
  if (kind == ReduceKind::kSum) return a + " + " + b;
  return std::string(kind == ReduceKind::kMin ? "nmin(" : "nmax(") + a + ", " + b + ")";
}

std::string fold(ReduceKind kind, const std::string& v) {
  return std::string(kind == ReduceKind::kSum   ? "hsum("
                     : kind == ReduceKind::kMin ? "hmin("
                                                : "hmax(") +
         v + ")";
}

// Rows of different items have equal extents but may have different rank: [BM, N] beside [BM, 1].
AtList at_of(const AtList& rows, size_t rank, const At& lane) {
  if (rank == 0) return {};
  AtList at(rank);
  for (size_t d = 0; d + 1 < rank && d < rows.size(); ++d) at[d] = rows[d];
  at[rank - 1] = lane;
  return at;
}

}  // namespace

Status Emitter::emit_group(const Group& group) {
  AtList rows;
  const bool loops = !group.outer.empty();
  if (loops)
    for (const Expr& extent : group.outer) {
      const std::string bound = w_.let(extent);
      const std::string row = w_.fresh("r");
      w_.open("for (i64 " + row + " = 0; " + row + " < " + bound + "; " + row + "++)");
      memo_.emplace_back();
      rows.push_back({row, false});
    }
  // Column reductions start from the neutral element before the first row.
  int last = 0;
  for (const Item& item : group.items) last = std::max(last, item.level);
  last_level_.clear();
  for (const Item& item : group.items)
    for (ValueId load : plan_.inline_loads(item.id))
      last_level_[load] = std::max(last_level_[load], item.level);
  for (int level = 0; level <= last; ++level) {
    level_ = level;
    for (const Item& item : group.items)
      if (item.level == level && one_wide(domain(program_, item)))
        RT_RETURN_IF_ERROR(emit_scalar_item(item, rows));
    std::vector<bool> done(group.items.size(), false);
    for (size_t i = 0; i < group.items.size(); ++i) {
      if (done[i] || group.items[i].level != level || one_wide(domain(program_, group.items[i])))
        continue;
      std::vector<Item> pass;
      const Expr width = domain(program_, group.items[i]).back();
      for (size_t j = i; j < group.items.size(); ++j) {
        const auto& shape = domain(program_, group.items[j]);
        if (done[j] || group.items[j].level != level || one_wide(shape) ||
            !shape.back().same_as(width))
          continue;
        pass.push_back(group.items[j]);
        done[j] = true;
      }
      RT_RETURN_IF_ERROR(emit_pass(pass, rows));
    }
  }
  // Numbers of the row that replace carried ones, now that nothing of this row needs the old ones.
  for (const Item& item : group.items) {
    if (item.commit < 0) continue;
    const Node& node = program_.node(item.id);
    auto v = value(item.id, at_of(rows, node.shape.size(), At{}));
    if (!v.ok()) return v.status();
    Address where;
    buffer_pointer(item.commit, node, at_of(rows, node.shape.size(), At{}), &where);
    w_.line("st1(" + where.pointer + ", " + v->text + ");");
  }
  if (loops)
    for (size_t d = 0; d < group.outer.size(); ++d) {
      memo_.pop_back();
      w_.close();
    }
  return {};
}

// Items whose last extent is 1: plain C++ variables and single stores.
Status Emitter::emit_scalar_item(const Item& item, const AtList& rows) {
  const Node& node = program_.node(item.id);
  if (item.kind == ItemKind::kStore) {
    const Node& source = program_.node(node.operands[0]);
    const AtList at = at_of(rows, source.shape.size(), At{});
    auto v = value(node.operands[0], at);
    if (!v.ok()) return v.status();
    auto where = address(node, at);
    if (!where.ok()) return where.status();
    const std::string sum =
        node.mode == ir::StoreMode::kAdd ? "ld1(" + where->pointer + ") + " : "";
    w_.line("st1(" + where->pointer + ", " + sum + v->text + ");");
    return {};
  }
  if (item.kind == ItemKind::kReduce) {  // over one element
    const Node& source = program_.node(node.operands[0]);
    auto v = value(node.operands[0], at_of(rows, source.shape.size(), At{}));
    if (!v.ok()) return v.status();
    const AtList at = at_of(rows, node.shape.size(), At{});
    Val result = node.reduce == ReduceKind::kArgMax ? Val{"0", false, Cls::kI} : *v;
    memo_.back()[key_of(node, at)] = result;
    if (item.buffer >= 0) {
      Address where;
      buffer_pointer(item.buffer, node, at, &where);
      w_.line("st1(" + where.pointer + ", " + result.text + ");");
    }
    return {};
  }
  if (item.kind == ItemKind::kColumnReduce || item.kind == ItemKind::kScan) {
    // One column: accumulate in the buffer, row after row.
    const Node& source = program_.node(node.operands[0]);
    AtList at = at_of(rows, source.shape.size(), At{});
    auto v = value(node.operands[0], at);
    if (!v.ok()) return v.status();
    Address where;
    const AtList to = item.kind == ItemKind::kScan ? at : at_of({}, node.shape.size(), At{});
    buffer_pointer(item.buffer, node, to, &where);
    if (item.kind == ItemKind::kScan) {
      w_.line("st1(" + where.pointer + ", " + v->text + ");");
      return {};
    }
    std::string first;
    for (const At& row : rows) first += (first.empty() ? "" : " && ") + row.text + " == 0";
    if (first.empty()) first = "1";
    w_.line("st1(" + where.pointer + ", " + first + " ? " + v->text + " : " +
            combine(node.reduce, "ld1(" + where.pointer + ")", v->text) + ");");
    return {};
  }
  const AtList at = at_of(rows, node.shape.size(), At{});
  const bool foreign = item.kind == ItemKind::kKeep && item.buffer != plan_.buffer_of(item.id);
  auto v = value(item.id, at, !foreign);
  if (!v.ok()) return v.status();
  if (item.buffer >= 0) {
    Address where;
    buffer_pointer(item.buffer, node, at, &where);
    w_.line("st1(" + where.pointer + ", " + v->text + ");");
  }
  return {};
}

// Evaluates the values of one copy of the body and appends what is done with them.
Status Emitter::pass_body(std::vector<Sink>& sinks, const AtList& rows, const std::string& position,
                          bool tail, const std::string& copy, std::vector<std::string>* lines) {
  std::map<std::string, Val> memo;
  body_ = lines;
  body_memo_ = &memo;
  tail_ = tail;
  copy_ = copy.empty() ? 0 : std::stoi(copy);
  pairs_ = !copy.empty();
  std::vector<Val> values;
  for (Sink& sink : sinks) {
    const Node& source = program_.node(sink.source);
    auto v =
        value(sink.source, at_of(rows, source.shape.size(), {position, true}), sink.definition);
    if (!v.ok()) {
      body_ = nullptr, body_memo_ = nullptr;
      return v.status();
    }
    values.push_back(splat(*v));
  }
  for (size_t s = 0; s < sinks.size(); ++s) {
    Sink& sink = sinks[s];
    const Node& node = program_.node(sink.item.id);
    const Val& v = values[s];
    const std::string to = sink.pointer + " + (" + position + ")";
    switch (sink.item.kind) {
      case ItemKind::kReduce: {
        const std::string& acc =
            sink.accumulators[copy.empty() ? 0 : static_cast<size_t>(std::stoi(copy))];
        std::string x = v.text;
        if (tail)
          x = "sel(tail_lanes, " + x + ", " +
              splat({neutral(node.reduce, v.cls), false, v.cls}).text + ")";
        if (node.reduce == ReduceKind::kArgMax)
          lines->push_back("argmax_step(" + x + ", lanes() + vi((i32)(" + position + ")), " + acc +
                           ", " + acc + "_at);");
        else
          lines->push_back(acc + " = " + combine(node.reduce, acc, x) + ";");
        break;
      }
      case ItemKind::kColumnReduce: {
        std::string first;
        for (const At& row : rows) first += (first.empty() ? "" : " && ") + row.text + " == 0";
        const std::string old = "ld(" + to + ")";
        lines->push_back("st(" + to + ", " +
                         (first.empty() ? v.text
                                        : "(" + first + ") ? " + v.text + " : " +
                                              combine(node.reduce, old, v.text)) +
                         ");");
        break;
      }
      case ItemKind::kScan:
      case ItemKind::kKeep:
        if (copy.empty()) {
          lines->push_back("st(" + to + ", " + v.text + ");");
        } else if (sink.first_half.empty()) {  // two vectors at a time: narrowing joins them
          sink.first_half = v.text, sink.first_at = to;
        } else {
          lines->push_back("st2(" + sink.first_at + ", " + sink.first_half + ", " + v.text + ");");
          sink.first_half.clear();
        }
        break;
      case ItemKind::kStore: {
        const std::string count = tail ? "n" : "W";
        if (!sink.lane_offset_base.empty()) {
          // Scatter: the index tile is evaluated like any value.
          auto where = address(
              node, at_of(rows, program_.node(node.operands[0]).shape.size(), {position, true}));
          if (!where.ok()) return where.status();
          if (node.mode == ir::StoreMode::kAdd)
            lines->push_back("for (i64 l = 0; l < " + count + "; l++) st1(" + where->pointer +
                             " + (" + where->lane_offsets + ")[l], ld1(" + where->pointer + " + (" +
                             where->lane_offsets + ")[l]) + " + v.text + "[l]);");
          else
            lines->push_back("stx(" + where->pointer + ", " + v.text + ", " + where->lane_offsets +
                             ", 1l, " + count + ");");
          break;
        }
        std::string x = v.text;
        if (!sink.lane_stride.empty()) {
          const std::string p = sink.pointer + " + (" + position + ") * (" + sink.lane_stride + ")";
          if (node.mode == ir::StoreMode::kAdd)
            x = "(ldg(" + p + ", " + sink.lane_stride + ", " + count + ") + " + x + ")";
          lines->push_back("stg(" + p + ", " + x + ", " + sink.lane_stride + ", " + count + ");");
        } else {
          if (node.mode == ir::StoreMode::kAdd)
            x = "(" + std::string(tail ? "ldn(" + to + ", n)" : "ld(" + to + ")") + " + " + x + ")";
          if (tail)
            lines->push_back("stn(" + to + ", " + x + ", n);");
          else if (!sink.nontemporal || copy.empty())
            lines->push_back("st(" + to + ", " + x + ");");
          else if (sink.first_half.empty())
            sink.first_half = x, sink.first_at = to;  // whole lines: two vectors at a time
          else {
            lines->push_back("if (" + nt_row_ + ") stnt2(" + sink.first_at + ", " +
                             sink.first_half + ", " + x + ");");
            lines->push_back("else st2(" + sink.first_at + ", " + sink.first_half + ", " + x +
                             ");");
            sink.first_half.clear();
          }
        }
        break;
      }
      default:
        break;
    }
  }
  body_ = nullptr;
  body_memo_ = nullptr;
  tail_ = pairs_ = false;
  return {};
}

// The selects that `id` is computed through in this pass, but for those that lie in a buffer.
void Emitter::masks_of(ValueId id, bool definition, std::set<ValueId>& selects) const {
  const Node& node = program_.node(id);
  if (!definition && plan_.buffer_of(id) >= 0) return;
  if (node.op == Op::kSelect) selects.insert(id);
  if (node.op != Op::kElementwise && node.op != Op::kSelect && node.op != Op::kCast) return;
  for (ValueId operand : node.operands) masks_of(operand, false, selects);
}

// When the masks of a pass hide nothing in this row, as text; their selects go to `open`. "" where
// there are none, or none of a form that can be asked.
std::string Emitter::nothing_hidden(const std::vector<Sink>& sinks, const AtList& rows,
                                    std::set<ValueId>* open) {
  std::set<ValueId> selects;
  for (const Sink& sink : sinks) masks_of(sink.source, sink.definition, selects);
  std::set<std::string> conditions;
  for (ValueId select : selects) {
    const ValueId mask = program_.node(select).operands[0];
    const std::vector<Expr>& shape = program_.node(mask).shape;
    const auto reaches = ir::reaches(program_, mask);
    if (!reaches || shape.size() != rows.size() + 1) continue;
    open->insert(select);
    for (const ir::Reach& reach : *reaches) {
      std::string least = w_.let(reach.least(shape, rows.size()));
      for (size_t d = 0; d < rows.size(); ++d)
        if (reach.slope[d] != 0)
          least += (reach.slope[d] < 0 ? " - (" : " + (") + rows[d].text + ")";
      conditions.insert(least + " >= 0");
    }
  }
  std::string all;
  for (const std::string& condition : conditions) all += (all.empty() ? "" : " && ") + condition;
  return all;
}

Status Emitter::emit_pass(const std::vector<Item>& items, const AtList& rows) {
  const std::string width = w_.let(domain(program_, items[0]).back());
  std::vector<Sink> sinks;
  bool reduces = false, nontemporal = false;
  std::string nt_condition;
  for (const Item& item : items) {
    const Node& node = program_.node(item.id);
    Sink sink;
    sink.item = item;
    sink.source = item.id;
    const bool over_operand = item.kind == ItemKind::kReduce ||
                              item.kind == ItemKind::kColumnReduce ||
                              item.kind == ItemKind::kStore || item.kind == ItemKind::kScan;
    if (over_operand)
      sink.source = node.operands[0];
    else
      sink.definition = item.buffer == plan_.buffer_of(item.id);
    DType stored = node.dtype;
    Address where;
    if (item.kind == ItemKind::kStore) {
      stored = program_.tensor(node.name)->dtype;
      const size_t rank = program_.node(node.operands[0]).shape.size();
      // The address at lane position 0, to find out how the lane walks.
      auto found = row_address(node, at_of(rows, rank, {"0l", true}));
      if (!found.ok()) return found.status();
      where = *found;
      sink.lane_stride = where.lane_stride;
      sink.lane_offset_base = where.lane_offsets;
    } else if (item.kind != ItemKind::kReduce) {
      const Node& shaped =
          item.kind == ItemKind::kColumnReduce ? program_.node(node.operands[0]) : node;
      AtList at = at_of(item.kind == ItemKind::kColumnReduce ? AtList(rows.size()) : rows,
                        shaped.shape.size(), {"0l", true});
      if (item.kind == ItemKind::kColumnReduce)
        at = at_of(AtList(rows.size()), node.shape.size(), {"0l", true});
      buffer_pointer(item.buffer, node, at, &where);
      stored = plan_.buffers()[static_cast<size_t>(item.buffer)].dtype;
    }
    // A rounding cast right before a store of the same type is done by the store, unless this pass
    // reads it too.
    bool only_products = item.kind == ItemKind::kKeep;
    for (const Use& use : plan_.users(item.id))
      only_products &=
          use.operand >= 0 && use.operand < 2 && program_.node(use.user).op == Op::kMma;
    const Node& source = program_.node(sink.source);
    if (source.op == Op::kCast && source.dtype == stored && is_narrow_float(stored) &&
        (only_products || item.kind == ItemKind::kStore) &&
        (plan_.buffer_of(sink.source) < 0 || sink.definition)) {
      const Node& inner = program_.node(source.operands[0]);
      if (cls_of(inner.dtype) == Cls::kF) {
        sink.source = source.operands[0];
        sink.definition = false;
      }
    }
    if (item.kind != ItemKind::kReduce && sink.lane_offset_base.empty()) {
      sink.pointer = w_.fresh("o_");
      w_.line(memory_type(stored) + "* const " + sink.pointer + " = " + where.pointer + ";");
    }
    const bool streams = item.kind == ItemKind::kStore &&
                         program_.tensor(node.name)->role != ir::Role::kWorkspace &&
                         sink.lane_stride.empty() && sink.lane_offset_base.empty() &&
                         node.mode == ir::StoreMode::kSet && schedule_.nontemporal_bytes > 0 &&
                         size_bytes(stored) >= 2;
    if (streams) {
      sink.nontemporal = nontemporal = uses_nt_ = true;
      nt_condition += std::string(nt_condition.empty() ? "" : " && ") + "nt_" + node.name +
                      " && ((i64)" + sink.pointer + " & 63) == 0";
    }
    reduces |= item.kind == ItemKind::kReduce;
    sinks.push_back(sink);
  }
  if (nontemporal) {
    nt_row_ = w_.fresh("nt_row");
    w_.line("const bool " + nt_row_ + " = " + nt_condition + ";");
  }
  // Independent copies of the body keep several chains of additions in flight.
  const int copies = reduces ? 4 : 2;
  for (Sink& sink : sinks) {
    if (sink.item.kind != ItemKind::kReduce) continue;
    const Node& node = program_.node(sink.item.id);
    const Cls cls = cls_of(program_.node(sink.source).dtype);
    for (int c = 0; c < copies; ++c) {
      sink.accumulators.push_back(w_.fresh("acc"));
      w_.line(vector_type(cls) + " " + sink.accumulators.back() + " = " +
              splat({neutral(node.reduce, cls), false, cls}).text + ";");
      if (node.reduce == ReduceKind::kArgMax)
        w_.line("VI " + sink.accumulators.back() + "_at = vi(0x7fffffff);");
    }
  }
  // The bodies go to buffers first: naming addresses and numbers of the row may still add lines
  // before the loop.
  const std::string j = w_.fresh("j");
  std::vector<std::vector<std::string>> whole(static_cast<size_t>(copies));
  std::vector<std::string> single, tail;
  const auto copies_of_body = [&](std::vector<std::vector<std::string>>* bodies) -> Status {
    for (int c = 0; c < copies; ++c)
      RT_RETURN_IF_ERROR(pass_body(sinks, rows, c == 0 ? j : j + " + " + std::to_string(c) + " * W",
                                   false, std::to_string(c), &(*bodies)[static_cast<size_t>(c)]));
    return {};
  };
  std::vector<std::vector<std::string>> unmasked(whole.size());
  const std::string unmasked_when = nothing_hidden(sinks, rows, &open_);
  if (!unmasked_when.empty()) RT_RETURN_IF_ERROR(copies_of_body(&unmasked));
  open_.clear();
  RT_RETURN_IF_ERROR(copies_of_body(&whole));
  RT_RETURN_IF_ERROR(pass_body(sinks, rows, j, false, "", &single));
  RT_RETURN_IF_ERROR(pass_body(sinks, rows, j, true, "", &tail));
  w_.line("i64 " + j + " = 0;");
  const std::string step = std::to_string(copies) + " * W";
  const std::string over = "for (; " + j + " + " + step + " <= " + width + "; " + j + " += " + step;
  const auto loop_of = [&](const std::string& head, const auto& bodies) {
    w_.open(head + ")");
    for (const auto& lines : bodies)
      for (const std::string& text : lines) w_.line(text);
    w_.close();
  };
  // What this loop has done is no longer there for the next.
  if (!unmasked_when.empty()) loop_of("if (" + unmasked_when + ") " + over, unmasked);
  loop_of(over, whole);
  w_.open("for (; " + j + " + W <= " + width + "; " + j + " += W)");
  for (const std::string& text : single) w_.line(text);
  w_.close();
  w_.open("if (" + j + " < " + width + ")");
  w_.line("const i64 n = " + width + " - " + j + ";");
  w_.line("const VI tail_lanes = (VI)(lanes() < vi((i32)n));");
  w_.line("(void)tail_lanes; (void)n;");
  for (const std::string& text : tail) w_.line(text);
  w_.close();
  // What follows a pass: results of reductions, running sums, zero padding of operand rows.
  for (const Sink& sink : sinks) {
    const Node& node = program_.node(sink.item.id);
    if (sink.item.kind == ItemKind::kReduce) {
      const Cls cls = cls_of(node.dtype);
      const std::string r = w_.fresh("red" + std::to_string(sink.item.id) + "_");
      if (node.reduce == ReduceKind::kArgMax) {
        for (int c = 1; c < copies; ++c)
          w_.line("argmax_step(" + sink.accumulators[static_cast<size_t>(c)] + ", " +
                  sink.accumulators[static_cast<size_t>(c)] + "_at, " + sink.accumulators[0] +
                  ", " + sink.accumulators[0] + "_at);");
        w_.line("const i32 " + r + " = argmax_lanes(" + sink.accumulators[0] + ", " +
                sink.accumulators[0] + "_at);");
      } else {
        const std::string a = combine(node.reduce, sink.accumulators[0], sink.accumulators[1]);
        const std::string b = combine(node.reduce, sink.accumulators[2], sink.accumulators[3]);
        w_.line("const " + scalar_type(cls) + " " + r + " = " +
                fold(node.reduce, combine(node.reduce, "(" + a + ")", "(" + b + ")")) + ";");
      }
      const AtList at = at_of(rows, node.shape.size(), At{});
      memo_.back()[key_of(node, at)] = Val{r, false, cls};
      if (sink.item.buffer >= 0) {
        Address where;
        buffer_pointer(sink.item.buffer, node, at, &where);
        w_.line("st1(" + where.pointer + ", " + r + ");");
      }
    }
    if (sink.item.kind == ItemKind::kScan) {
      const Cls cls = cls_of(node.dtype);
      const std::string run = w_.fresh("run");
      w_.line(scalar_type(cls) + " " + run + " = " + neutral(node.reduce, cls) + ";");
      w_.line("for (i64 k = 0; k < " + width + "; k++) st1(" + sink.pointer + " + k, " + run +
              " = " + combine(node.reduce, run, "ld1(" + sink.pointer + " + k)") + ");");
    }
    if (sink.item.kind == ItemKind::kKeep &&
        plan_.buffers()[static_cast<size_t>(sink.item.buffer)].a_operand)
      w_.line("pad_row(" + sink.pointer + ", " + width + ");");
  }
  return {};
}

}  // namespace rooftile::codegen
