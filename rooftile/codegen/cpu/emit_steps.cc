// SPDX-License-Identifier: Apache-2.0
// Parallel spaces, loops, conditions, and products with their operands.
#include "rooftile/codegen/cpu/emitter.h"

namespace rooftile::codegen {

using ir::Node;
using ir::Op;

Status Emitter::emit_block(const ir::Block& block, ValueId region) {
  return emit_steps(plan_.steps(block, region));
}

Status Emitter::emit_steps(const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    switch (step.kind) {
      case Step::kGroup:
        RT_RETURN_IF_ERROR(emit_group(step.group));
        break;
      case Step::kPrepare:
        RT_RETURN_IF_ERROR(emit_prepare(step.id));
        break;
      case Step::kMma:
        RT_RETURN_IF_ERROR(emit_product(program_.node(step.id)));
        break;
      case Step::kLoop: {
        const Node& node = program_.node(step.id);
        RT_RETURN_IF_ERROR(node.op == Op::kTiles ? emit_tiles(node) : emit_loop(node));
        break;
      }
      case Step::kWhen: {
        const Node& node = program_.node(step.id);
        w_.open("if (" + w_.expr(node.expr) + ")");
        memo_.emplace_back();
        RT_RETURN_IF_ERROR(emit_block(node.block, node.id));
        memo_.pop_back();
        w_.close();
        break;
      }
      case Step::kCopy: {
        const Buffer& from = plan_.buffers()[static_cast<size_t>(step.from)];
        const Buffer& to = plan_.buffers()[static_cast<size_t>(step.to)];
        std::string rows = "1l";
        for (size_t d = 0; d + 1 < from.extents.size(); ++d)
          rows += " * " + w_.expr(from.extents[d]);
        const std::string width = w_.expr(from.extents.back()), i = w_.fresh("i");
        w_.line("for (i64 " + i + " = 0; " + i + " < " + rows + "; " + i + "++) __builtin_memcpy(" +
                to.name + " + " + i + " * " + buffer_pitch(step.to) + ", " + from.name + " + " + i +
                " * " + buffer_pitch(step.from) + ", (unsigned long)(" + width + ") * sizeof(*" +
                to.name + "));");
        break;
      }
    }
  }
  return {};
}

Status Emitter::emit_tiles(const Node& node) {
  RT_RETURN_IF_ERROR(emit_pack_ahead(node));
  w_.open("");
  memo_.emplace_back();
  std::string total = "1l";
  std::vector<std::string> extents;
  const Gang* gang = plan_.gang(node.id);
  for (size_t d = 0; d < node.extents.size(); ++d) {
    const bool ganged = gang && node.vars[d] == gang->var;
    extents.push_back(
        w_.let(ganged ? ceil_div(node.extents[d], Expr(gang->width)) : node.extents[d]));
    total += " * imax(" + extents.back() + ", 0)";
  }
  w_.line("const i64 total = " + total + ";");
  w_.line("#pragma omp parallel if (total > 1) num_threads(threads)");
  w_.open("");
  w_.line("char* const scratch = workspace + lay.shared + omp_get_thread_num() * lay.thread;");
  w_.line("(void)scratch;");
  w_.line("@SCRATCH@");
  const std::string chunk = schedule_.grain > 1 ? ", " + std::to_string(schedule_.grain) : "";
  w_.line(schedule_.dynamic
              ? "#pragma omp for schedule(dynamic" + (chunk.empty() ? ", 1" : chunk) + ")"
              : "#pragma omp for schedule(static" + chunk + ")");
  w_.open("for (i64 tile = 0; tile < total; tile++)");
  memo_.emplace_back();
  std::string rest = "tile";
  for (size_t d = node.vars.size(); d-- > 0;) {
    const bool ganged = gang && node.vars[d] == gang->var;
    const std::string var = ganged ? "gang" : c_symbol(node.vars[d]);
    if (d == 0) {
      w_.line("const i64 " + var + " = " + rest + ";");
    } else {
      w_.line("const i64 " + var + " = " + rest + " % " + extents[d] + ";");
      rest = "(" + rest + " / " + extents[d] + ")";
    }
    w_.line("(void)" + var + ";");
    if (ganged) {
      const std::string width = std::to_string(gang->width);
      w_.line("const i64 first_member = gang * " + width + ";");
      w_.line("const i64 members = imin(" + width + ", " + w_.let(node.extents[d]) +
              " - first_member);");
    }
  }
  tile_var_ = node.vars.empty() || gang ? "" : c_symbol(node.vars.back());
  RT_RETURN_IF_ERROR(gang ? emit_gang(node, *gang) : emit_block(node.block, node.id));
  memo_.pop_back();
  w_.close();
  w_.line("@LEAVE@");
  w_.close();
  memo_.pop_back();
  w_.close();
  return {};
}

// Carried tiles that the first product starts from zero are zero when there is no iteration.
void Emitter::emit_zero_results(const Node& node) {
  const LoopPlan& loop = plan_.loop(node.id);
  const std::string begin = w_.let(node.begin), end = w_.let(node.end);
  for (size_t k = 0; k < node.operands.size(); ++k) {
    if (!loop.skip_init[k] || program_.node(node.operands[k]).op == Op::kResult) continue;
    const Node& init = program_.node(node.operands[k]);
    const Buffer& buffer = plan_.buffers()[static_cast<size_t>(loop.buffers[k])];
    w_.line("if (!(" + begin + " < " + end + ")) for (i64 r = 0; r < " + w_.expr(init.shape[0]) +
            "; r++) __builtin_memset(" + buffer.name + " + r * " + buffer_pitch(loop.buffers[k]) +
            ", 0, (unsigned long)(" + w_.expr(init.shape[1]) + ") * sizeof(*" + buffer.name +
            "));");
  }
}

Status Emitter::emit_loop(const Node& node) {
  const LoopPlan& loop = plan_.loop(node.id);
  std::vector<std::string> carried(node.operands.size());
  for (size_t k = 0; k < node.operands.size(); ++k) {
    if (loop.buffers[k] >= 0) continue;
    const Node& init = program_.node(node.operands[k]);
    auto v = value(node.operands[k], AtList(init.shape.size()));
    if (!v.ok()) return v.status();
    carried[k] = w_.fresh("c_" + node.name);
    w_.line(scalar_type(v->cls) + " " + carried[k] + " = " + v->text + ";");
  }
  for (const Node& other : program_.nodes) {
    if ((other.op != Op::kCarried && other.op != Op::kResult) || other.operands[0] != node.id)
      continue;
    if (!carried[static_cast<size_t>(other.axis)].empty())
      variables_[other.id] = carried[static_cast<size_t>(other.axis)];
  }
  const std::string begin = w_.let(node.begin), end = w_.let(node.end), step = w_.let(node.step);
  emit_zero_results(node);
  const std::string var = c_symbol(node.name);
  w_.open("for (i64 " + var + " = " + begin + "; " + var + " < " + end + "; " + var +
          " += " + step + ")");
  memo_.emplace_back();
  RT_RETURN_IF_ERROR(emit_block(node.block, node.id));
  std::vector<std::pair<std::string, std::string>> next;
  for (size_t k = 0; k < carried.size(); ++k) {
    if (carried[k].empty()) continue;
    const Node& yield = program_.node(node.block.yields[k]);
    auto v = value(yield.id, AtList(yield.shape.size()));
    if (!v.ok()) return v.status();
    const std::string name = w_.fresh("next");
    w_.line("const " + scalar_type(v->cls) + " " + name + " = " + v->text + ";");
    next.push_back({carried[k], name});
  }
  for (const auto& [to, from] : next) w_.line(to + " = " + from + ";");
  memo_.pop_back();
  w_.close();
  return {};
}

// ---- products --------------------------------------------------------------------------------

Result<MmaUnit> Emitter::unit_of(const Node& mma) const {
  auto wish = schedule_.mma.find(mma.label);
  const MmaMechanism mechanism = wish == schedule_.mma.end() ? MmaMechanism::kAuto : wish->second;
  MmaUnit unit;
  const DType dtype = program_.node(mma.operands[0]).dtype;
  if (!choose_unit(dtype, mechanism, target_, &unit)) {
    Diag diag = unsupported(mma, "a product cannot be placed as the schedule asks",
                            "use MmaMechanism::kAuto");
    diag.found = std::string(name(dtype)) + " on " + target_.key();
    diag.expected =
        mechanism == MmaMechanism::kAmx ? "AMX for this dtype" : "bf16, f16, f32 or i8 operands";
    return diag;
  }
  return unit;
}

std::string Emitter::pack_key(ValueId source, bool is_a, bool transposed, MmaUnit unit) const {
  return std::to_string(source) + (is_a ? "a" : "b") + (transposed ? "t" : "n") +
         unit_info(unit).name;
}

Status Emitter::emit_prepare(ValueId load) {
  // Every product that uses the tile, with the form it wants; each form once.
  std::set<std::string> done;
  for (const Node& mma : program_.nodes) {
    if (mma.op != Op::kMma) continue;
    const Product& product = plan_.product(mma.id);
    if (product.a != load && product.b != load) continue;
    auto unit = unit_of(mma);
    if (!unit.ok()) return unit.status();
    // Beside a right operand [N, K] in memory the left one is packed as if it were on the right.
    const bool swapped = is_direct(program_.node(product.b)) && product.b_transposed;
    if (product.a == load && swapped &&
        done.insert(pack_key(load, false, !product.a_transposed, *unit)).second)
      RT_RETURN_IF_ERROR(emit_pack_b(load, !product.a_transposed, *unit));
    if (product.a == load && !swapped &&
        done.insert(pack_key(load, true, product.a_transposed, *unit)).second)
      RT_RETURN_IF_ERROR(emit_pack_a(load, product.a_transposed, *unit));
    if (product.b == load && !is_packed_arg(program_.node(load)) &&
        !is_direct(program_.node(load)) &&
        done.insert(pack_key(load, false, product.b_transposed, *unit)).second)
      RT_RETURN_IF_ERROR(emit_pack_b(load, product.b_transposed, *unit));
  }
  return {};
}

Status Emitter::emit_pack_a(ValueId load, bool transposed, MmaUnit unit) {
  const Node& node = program_.node(load);
  const MmaUnitInfo& info = unit_info(unit);
  const size_t row_axis = transposed ? 1 : 0, k_axis = 1 - row_axis;
  PackBuffer pack;
  pack.name = "pa" + std::to_string(packs_.size());
  pack.unit = unit;
  pack.is_a = true;
  pack.source = load;
  pack.rows = node.shape[row_axis];
  pack.words = ceil_div(node.shape[k_axis], Expr(info.per_word));
  packs_[pack_key(load, true, transposed, unit)] = pack;
  const std::string rows = w_.let(node.shape[row_axis]), k = w_.let(node.shape[k_axis]);
  const std::string r = w_.fresh("r"), type = memory_type(info.word_dtype);
  w_.open("for (i64 " + r + " = 0; " + r + " < " + rows + "; " + r + "++)");
  memo_.emplace_back();
  AtList at(2);
  at[row_axis] = {r, false};
  at[k_axis] = {"0l", true};
  auto where = row_address(node, at);
  if (!where.ok()) return where.status();
  if (!where->lane_offsets.empty())
    return unsupported(node, "the summed axis of an operand is gathered",
                       "gather rows or columns, not the summed axis");
  const std::string stride = where->lane_stride.empty() ? "1l" : where->lane_stride;
  w_.line("copy_row((" + type + "*)(" + pack.name + " + " + r + " * " + pack.name + "_pitch), " +
          where->pointer + ", " + k + ", " + stride + ");");
  memo_.pop_back();
  w_.close();
  return {};
}

// While row `row` of a streamed operand is packed, row `row` of the loop's next block is asked for:
// the same address with the loop variable one step on.
Status Emitter::emit_fetch_next(const Node& load, const std::string& row) {
  const Node* loop = loop_around(load);
  if (!loop || schedule_.prefetch_bytes <= 0) return {};
  return in_next_iteration(*loop, [&]() -> Status {
    w_.open("if (" + row + " < " + w_.let(load.shape[0]) + ")");
    memo_.emplace_back();
    auto where = row_address(load, {{row, false}, {"0l", true}});
    if (where.ok() && where->lane_offsets.empty())
      w_.line("prefetch_row(" + where->pointer + ", (" + w_.let(load.shape[1]) + ") * " +
              std::to_string(size_bytes(load.dtype)) + ");");
    memo_.pop_back();
    w_.close();
    return where.status();
  });
}

Status Emitter::emit_pack_b(ValueId source, bool transposed, MmaUnit unit) {
  const Node& node = program_.node(source);
  const MmaUnitInfo& info = unit_info(unit);
  // transposed: the source is [N, K] and the product wants its transpose
  const size_t n_axis = transposed ? 0 : 1, k_axis = 1 - n_axis;
  PackBuffer pack;
  pack.name = "pb" + std::to_string(packs_.size());
  pack.unit = unit;
  pack.is_a = false;
  pack.source = source;
  pack.rows = node.shape[n_axis];
  pack.words = ceil_div(node.shape[k_axis], Expr(info.per_word));
  packs_[pack_key(source, false, transposed, unit)] = pack;
  const bool from_buffer = node.op != Op::kLoad;
  const int buffer = from_buffer ? plan_.buffer_of(source) : -1;
  const std::string type = memory_type(info.word_dtype);
  const std::string from =
      memory_type(from_buffer ? plan_.buffers()[static_cast<size_t>(buffer)].dtype
                              : program_.tensor(node.name)->dtype);
  const std::string n = w_.let(node.shape[n_axis]), k = w_.let(node.shape[k_axis]);
  const std::string per = std::to_string(info.per_word);
  // Pointer of row `r` of the source and the element stride along its other axis.
  auto row = [&](const std::string& r, size_t row_axis,
                 std::string* stride) -> Result<std::string> {
    AtList at(2);
    at[row_axis] = {r, false};
    at[1 - row_axis] = {"0l", true};
    if (from_buffer) {
      Address where;
      buffer_pointer(buffer, node, at, &where);
      *stride = where.lane_stride.empty() ? "1l" : where.lane_stride;
      return where.pointer;
    }
    auto where = row_address(node, at);
    if (!where.ok()) return where.diag();
    if (!where->lane_offsets.empty())
      return unsupported(node, "an operand is gathered along the axis that lies in the lanes",
                         "gather the other axis");
    *stride = where->lane_stride.empty() ? "1l" : where->lane_stride;
    return where->pointer;
  };
  std::string stride = "1l";
  const std::string c = w_.fresh("g"), r = w_.fresh("r");
  if (transposed) {  // 16 columns of the panel at a time, each a row of the source
    w_.open("for (i64 " + c + " = 0; " + c + " < up(" + n + ", 32); " + c + " += 16)");
    w_.line("const " + from + "* rows[16];");
    w_.line("const i64 nrows = imin(16, " + n + " - " + c + ");");
    w_.open("for (i64 " + r + " = 0; " + r + " < nrows; " + r + "++)");
    memo_.emplace_back();
    auto pointer = row("(" + c + " + " + r + ")", 0, &stride);
    if (!pointer.ok()) return pointer.status();
    w_.line("rows[" + r + "] = " + *pointer + ";");
    if (!from_buffer) RT_RETURN_IF_ERROR(emit_fetch_next(node, "(" + c + " + " + r + ")"));
    memo_.pop_back();
    w_.close();
    w_.line("pack_columns<" + type + ">(" + pack.name + " + " + c + " / 32 * " + pack.name +
            "_panel + " + c + " % 32, rows, nrows, " + k + ", " + stride + ");");
    w_.close();
  } else {  // one word row of every panel at a time, from `per` rows of the source
    w_.open("for (i64 " + c + " = 0; " + c + " < up(" + k + ", 16 * " + per + "); " + c +
            " += " + per + ")");
    w_.line("const " + from + "* rows[" + per + "];");
    w_.line("const i64 nrows = imin(" + per + ", imax(" + k + " - " + c + ", 0));");
    w_.open("for (i64 " + r + " = 0; " + r + " < nrows; " + r + "++)");
    memo_.emplace_back();
    auto pointer = row("(" + c + " + " + r + ")", 0, &stride);
    if (!pointer.ok()) return pointer.status();
    w_.line("rows[" + r + "] = " + *pointer + ";");
    if (!from_buffer) RT_RETURN_IF_ERROR(emit_fetch_next(node, "(" + c + " + " + r + ")"));
    memo_.pop_back();
    w_.close();
    w_.line("pack_word_row<" + type + ">(" + pack.name + " + " + c + " / " + per + " * 32, " +
            pack.name + "_panel, rows, nrows, " + n + ", " + stride + ");");
    w_.close();
  }
  return {};
}

Status Emitter::emit_product(const Node& mma) {
  auto unit = unit_of(mma);
  if (!unit.ok()) return unit.status();
  units_.insert(*unit);
  const MmaUnitInfo& info = unit_info(*unit);
  const Product& product = plan_.product(mma.id);
  const Node& a = program_.node(product.a);
  const Node& b = program_.node(product.b);
  const std::string m = w_.let(mma.shape[0]), n = w_.let(mma.shape[1]);
  const Expr k_extent = a.shape[product.a_transposed ? 0 : 1];
  const std::string k = w_.let(k_extent), words = w_.let(ceil_div(k_extent, Expr(info.per_word)));
  std::string first = "0";
  if (product.zero_first && product.loop < 0)
    first = "1";
  else if (product.zero_first) {
    const Node& loop = program_.node(product.loop);
    first = c_symbol(loop.name) + " == " + w_.expr(loop.begin);
  }
  if (is_direct(b)) return emit_direct_product(mma, first);
  std::string a_text, b_text;
  if (a.op == Op::kLoad) {
    const PackBuffer& pack = packs_.at(pack_key(product.a, true, product.a_transposed, *unit));
    a_text = pack.name + ", " + pack.name + "_pitch";
  } else if (product.a_transposed) {
    return unsupported(mma, "a computed left operand is transposed",
                       "compute it in the orientation that the product reads");
  } else {
    const int buffer = plan_.buffer_of(product.a);
    const Buffer& kept = plan_.buffers()[static_cast<size_t>(buffer)];
    a_text = "(const char*)" + kept.name + ", " + buffer_pitch(buffer) + " * " +
             std::to_string(size_bytes(kept.dtype));
  }
  if (is_packed_arg(b)) {
    std::string panel;
    auto pointer = packed_arg_pointer(b, *unit, &panel);
    if (!pointer.ok()) return pointer.status();
    b_text = *pointer + ", " + panel;
  } else {
    const std::string key = pack_key(product.b, false, product.b_transposed, *unit);
    if (b.op != Op::kLoad) RT_RETURN_IF_ERROR(emit_pack_b(product.b, product.b_transposed, *unit));
    const PackBuffer& pack = packs_.at(key);
    b_text = pack.name + ", " + pack.name + "_panel";
  }
  const Buffer& c = plan_.buffers()[static_cast<size_t>(product.buffer)];
  w_.line("mm_" + std::string(info.name) + "(" + a_text + ", " + b_text + ", " + c.name + ", " +
          buffer_pitch(product.buffer) + ", " + m + ", " + n + ", " + words + ", " + first + ");");
  return {};
}

}  // namespace rooftile::codegen
