// SPDX-License-Identifier: Apache-2.0
// The value of a node at an index.
//
// A value is a scalar when no axis it depends on is walked by the vector, else a vector. Scalars
// are named in the enclosing scope (before the vector loop), vectors in the body that is being
// written.
#include <cmath>
#include <cstdio>

#include "rooftile/codegen/cpu/emitter.h"

namespace rooftile::codegen {

using ir::Ew;
using ir::Node;
using ir::Op;

Cls cls_of(DType dtype) {
  switch (dtype) {
    case DType::kI64:
      return Cls::kL;
    case DType::kU32:
      return Cls::kU;
    case DType::kBool:
      return Cls::kB;
    case DType::kI8:
    case DType::kU8:
    case DType::kI32:
      return Cls::kI;
    default:
      return Cls::kF;
  }
}

std::string scalar_type(Cls cls) {
  constexpr const char* names[] = {"float", "i32", "u32", "i64", "bool"};
  return names[static_cast<size_t>(cls)];
}

std::string vector_type(Cls cls) {
  constexpr const char* names[] = {"VF", "VI", "VU", "VL", "VI"};
  return names[static_cast<size_t>(cls)];
}

std::string memory_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float";
    case DType::kBool:
      return "b8";
    default:
      return std::string(name(dtype));
  }
}

Diag Emitter::unsupported(const Node& node, std::string what, std::string fix) const {
  Diag diag;
  diag.code = ErrorCode::kPlacement;
  diag.subject = program_.name;
  diag.message = std::move(what);
  diag.argument = node.label.empty() ? "v" + std::to_string(node.id) : node.label;
  diag.fix = std::move(fix);
  diag.at = node.loc;
  return diag;
}

std::string Emitter::literal(double number, Cls cls) const {
  if (cls == Cls::kF) {
    if (std::isnan(number)) return "__builtin_nanf(\"\")";
    if (std::isinf(number)) return number > 0 ? "__builtin_inff()" : "(-__builtin_inff())";
    char text[64];
    std::snprintf(text, sizeof text, "%.9g", number);
    std::string out = text;
    if (out.find_first_of(".e") == std::string::npos) out += ".0";
    return "(" + out + "f)";
  }
  if (cls == Cls::kB) return number != 0 ? "true" : "false";
  const std::string digits = std::to_string(static_cast<int64_t>(number));
  return "(" + digits + (cls == Cls::kL ? "l" : cls == Cls::kU ? "u" : "") + ")";
}

Val Emitter::splat(const Val& v) const {
  if (v.vec) return v;
  constexpr const char* fn[] = {"vf", "vi", "vu", "vl", "vi"};
  return {std::string(fn[static_cast<size_t>(v.cls)]) + "(" + v.text + ")", true, v.cls};
}

Val Emitter::name_value(const std::string& stem, const Val& v) {
  const std::string var = w_.fresh(stem + "_");
  const std::string line = "const " + (v.vec ? vector_type(v.cls) : scalar_type(v.cls)) + " " +
                           var + " = " + v.text + ";";
  if (v.vec)
    body_->push_back(line);
  else
    w_.line(line);
  return {var, v.vec, v.cls};
}

std::string key_of(const Node& node, const AtList& at) {
  std::string key = std::to_string(node.id);
  for (size_t d = 0; d < at.size(); ++d)
    key += node.shape[d].is_const(1) ? ",0l" : (at[d].lane ? "|" : ",") + at[d].text;
  return key;
}

Result<Val> Emitter::value(ValueId id, AtList at, bool definition) {
  const Node& node = program_.node(id);
  if (open_.count(id) > 0) {
    const ValueId seen = node.operands[1];
    return value(seen, program_.node(seen).shape.empty() ? AtList{} : at);
  }
  bool lane = false;
  for (size_t d = 0; d < at.size(); ++d) {
    if (node.shape[d].is_const(1)) at[d] = At{};
    lane |= at[d].lane;
  }
  const std::string key = key_of(node, at);
  if (auto variable = variables_.find(id); variable != variables_.end())
    return Val{variable->second, false, cls_of(node.dtype)};
  if (!definition) {
    if (lane && body_memo_) {
      if (auto found = body_memo_->find(key); found != body_memo_->end()) return found->second;
    } else {
      for (size_t i = memo_.size(); i-- > memo_from_;)
        if (auto found = memo_[i].find(key); found != memo_[i].end()) return found->second;
    }
  }
  const bool anew = other_iteration_ && of_next_.count(plan_.buffer_of(id)) == 0 &&
                    (node.op == Op::kLoad || node.op == Op::kElementwise ||
                     node.op == Op::kSelect || node.op == Op::kCast);
  const int buffer = anew ? -1 : plan_.buffer_of(id);
  Result<Val> out = Val{};
  if (buffer >= 0 && !definition) {
    out = buffer_value(buffer, node, at);
  } else {
    switch (node.op) {
      case Op::kFill:
        return Val{literal(node.number, cls_of(node.dtype)), false, cls_of(node.dtype)};
      case Op::kScalar:
        return Val{"a_" + node.name, false, Cls::kF};
      case Op::kFromIndex:
        return Val{w_.let(node.expr), false, Cls::kL};
      case Op::kIota: {
        const At where = at.empty() ? At{} : at[static_cast<size_t>(node.axis)];
        const std::string first = "(i32)(" + where.text + " + " + w_.let(node.expr) + ")";
        if (!where.lane) return Val{"(" + first + ")", false, Cls::kI};
        out = Val{"lanes() + vi(" + first + ")", true, Cls::kI};
        break;
      }
      case Op::kLoad:
        out = load_value(node, at);
        break;
      case Op::kTranspose: {
        std::swap(at[0], at[1]);
        return value(node.operands[0], at);
      }
      case Op::kElementwise:
      case Op::kSelect:
      case Op::kCast:
      case Op::kPhilox:
        out = elementwise_value(node, at);
        break;
      default:
        return unsupported(node, "internal: a value has no home", "report the program");
    }
  }
  if (!out.ok()) return out;
  Val named = name_value("v" + std::to_string(id), *out);
  if (named.vec)
    (*body_memo_)[key] = named;
  else
    memo_.back()[key] = named;
  return named;
}

Result<std::vector<Val>> Emitter::operand_values(const Node& node, const AtList& at) {
  std::vector<Val> values;
  for (ValueId operand : node.operands) {
    const Node& source = program_.node(operand);
    auto v = value(operand, source.shape.empty() ? AtList{} : at);
    if (!v.ok()) return v.diag();
    values.push_back(*v);
  }
  return values;
}

Result<Val> Emitter::cast(const Val& v, DType to) {
  const Cls target = cls_of(to);
  auto wrap = [&](const std::string& fn) { return Val{fn + "(" + v.text + ")", v.vec, target}; };
  const std::string vt = vector_type(target), st = scalar_type(target);
  auto convert = [&] {
    return v.vec ? Val{"CONV(" + v.text + ", " + vt + ")", true, target} : wrap("(" + st + ")");
  };
  if (is_float(to)) {
    Val f = v;
    if (v.cls == Cls::kB)
      f = v.vec ? Val{"sel(" + v.text + ", vf(1.0f), vf(0.0f))", true, Cls::kF} : wrap("(float)");
    else if (v.cls != Cls::kF)
      f = convert();
    if (!is_narrow_float(to)) return f;
    return Val{"as_" + memory_type(to) + "(" + f.text + ")", f.vec, Cls::kF};
  }
  if (to == DType::kBool)
    return v.vec ? Val{"(VI)(CONV((" + v.text + " != 0), VI))", true, Cls::kB}
                 : Val{"(" + v.text + " != 0)", false, Cls::kB};
  if (v.cls == Cls::kF) {
    if (to == DType::kI8) return wrap("sat_i8");
    if (to == DType::kU8) return wrap("sat_u8");
    if (to == DType::kI32) return wrap("to_i32");
    if (to == DType::kU32) return wrap("to_u32");
    return wrap("to_i64");
  }
  if (v.cls == Cls::kB)
    return v.vec ? (to == DType::kI64 ? Val{"CONV(" + v.text + " & 1, VL)", true, target}
                                      : Val{"(" + vt + ")(" + v.text + " & 1)", true, target})
                 : wrap("(" + st + ")");
  if (to == DType::kI8 || to == DType::kU8) {  // integers wrap
    Val wide = v.cls == Cls::kI ? v : convert();
    return Val{to == DType::kI8 ? "((" + wide.text + " << 24) >> 24)" : "(" + wide.text + " & 255)",
               v.vec, target};
  }
  if (v.cls == target) return v;
  return convert();
}

Result<Val> Emitter::elementwise_value(const Node& node, const AtList& at) {
  auto operands = operand_values(node, at);
  if (!operands.ok()) return operands.diag();
  std::vector<Val>& v = *operands;
  if (node.op == Op::kCast) return cast(v[0], node.dtype);
  bool vec = false;
  for (const Val& x : v) vec |= x.vec;
  if (node.op == Op::kPhilox)
    return Val{"philoxv(" + v[0].text + ", " + v[1].text + ", " + v[2].text + ")", vec, Cls::kU};
  if (vec)
    for (Val& x : v) x = splat(x);
  const Cls cls = cls_of(node.dtype);
  if (node.op == Op::kSelect)
    return Val{"sel(" + v[0].text + ", " + v[1].text + ", " + v[2].text + ")", vec, cls};

  const Cls in = v[0].cls;
  auto infix = [&](const char* op) {
    return Val{"(" + v[0].text + " " + op + " " + v[1].text + ")", vec, cls};
  };
  auto call = [&](const std::string& fn) {
    std::string text = fn + "(" + v[0].text;
    if (v.size() > 1) text += ", " + v[1].text;
    return Val{text + ")", vec, cls};
  };
  auto compare = [&](const char* op) {
    Val r = infix(op);
    r.cls = Cls::kB;
    if (vec) r.text = in == Cls::kL ? "CONV(" + r.text + ", VI)" : "(VI)" + r.text;
    return r;
  };
  switch (node.ew) {
    case Ew::kAdd:
      return infix("+");
    case Ew::kSub:
      return infix("-");
    case Ew::kMul:
      return infix("*");
    case Ew::kDiv:
      return infix("/");
    case Ew::kAnd:
    case Ew::kLogicalAnd:
      return infix("&");
    case Ew::kOr:
    case Ew::kLogicalOr:
      return infix("|");
    case Ew::kXor:
      return infix("^");
    case Ew::kShl:
      return infix("<<");
    case Ew::kShr:
      return infix(">>");
    case Ew::kLt:
      return compare("<");
    case Ew::kLe:
      return compare("<=");
    case Ew::kEq:
      return compare("==");
    case Ew::kNe:
      return compare("!=");
    case Ew::kNeg:
      return Val{"(-" + v[0].text + ")", vec, cls};
    case Ew::kLogicalNot:
      return Val{(vec ? "(~" : "(!") + v[0].text + ")", vec, cls};
    case Ew::kMax:
      return call("nmax");
    case Ew::kMin:
      return call("nmin");
    case Ew::kFloorDiv:
      return call("fdivv");
    case Ew::kMod:
      return call("fmodv");
    case Ew::kMulHi:
      return call("mulhiv");
    default:
      return call(std::string(ir::ew_info(node.ew).name) + "v");  // exp2v, tanhv, ...
  }
}

Result<Emitter::Address> Emitter::address(const Node& node, const AtList& at) {
  const ir::TensorParam& tensor = *program_.tensor(node.name);
  Address out;
  out.pointer = "t_" + node.name;
  std::string scalar_offset;
  for (size_t d = 0; d < node.region.size(); ++d) {
    const ir::DimIndex& dim = node.region[d];
    const bool last = d + 1 == node.region.size();
    const bool unit = last && tensor.unit_inner_stride;
    const std::string stride = unit ? "" : c_symbol(node.name + ".s" + std::to_string(d));
    auto times = [&](const std::string& x) { return stride.empty() ? x : x + " * " + stride; };
    auto add = [&](const std::string& x) {
      scalar_offset += (scalar_offset.empty() ? "" : " + ") + times(x);
    };
    if (dim.kind == ir::DimIndex::kPoint) {
      if (!dim.begin.is_const(0)) add(w_.let(dim.begin));
      continue;
    }
    const At where = dim.tile_axis >= 0 && dim.tile_axis < static_cast<int>(at.size())
                         ? at[static_cast<size_t>(dim.tile_axis)]
                         : At{};
    if (dim.kind == ir::DimIndex::kIndirect) {
      auto index = value(dim.indirect, {where});
      if (!index.ok()) return index.diag();
      if (!index->vec) {
        add("(i64)" + index->text);
      } else {
        const std::string wide =
            index->cls == Cls::kL ? index->text : "CONV(" + index->text + ", VL)";
        out.lane_offsets += (out.lane_offsets.empty() ? "" : " + ") + times(wide);
      }
      continue;
    }
    if (!dim.begin.is_const(0)) add(w_.let(dim.begin));
    const std::string step = dim.step == 1 ? "" : " * " + std::to_string(dim.step) + "l";
    if (where.lane) {
      out.lane_index = where.text;
      if (!unit || dim.step != 1) {
        out.lane_stride = (stride.empty() ? "1l" : stride) + step;
        out.lane_index = "(" + where.text + ") * (" + out.lane_stride + ")";
      }
    } else if (where.text != "0l") {
      add("(" + where.text + ")" + step);
    }
  }
  if (!scalar_offset.empty()) out.pointer = "(" + out.pointer + " + " + scalar_offset + ")";
  return out;
}

Result<Emitter::Address> Emitter::row_address(const Node& node, const AtList& at) {
  std::vector<std::string> ignored;  // what a gathered lane's offsets would need in a body
  std::map<std::string, Val> memo;
  body_ = &ignored, body_memo_ = &memo;
  auto where = address(node, at);
  body_ = nullptr, body_memo_ = nullptr;
  return where;
}

Result<Val> Emitter::load_value(const Node& node, const AtList& at) {
  auto where = address(node, at);
  if (!where.ok()) return where.diag();
  const Cls cls = cls_of(node.dtype);
  const bool lane = !where->lane_index.empty() || !where->lane_offsets.empty();
  if (!lane) return Val{"ld1(" + where->pointer + ")", false, cls};
  // The row's pointer is computed once, before the vector loop.
  const std::string pointer_text = where->pointer;
  const std::string key = "p:" + where->pointer;
  std::string pointer;
  for (size_t i = memo_.size(); i-- > memo_from_ && pointer.empty();)
    if (auto found = memo_[i].find(key); found != memo_[i].end()) pointer = found->second.text;
  if (pointer.empty()) {
    pointer = w_.fresh("p_");
    w_.line("const " + memory_type(node.dtype) + "* const " + pointer + " = " + where->pointer +
            ";");
    memo_.back()[key] = Val{pointer, false, cls};
  }
  const std::string count = tail_ ? "n" : "W";
  if (!where->lane_offsets.empty())
    return Val{"ldx(" + pointer + ", " + where->lane_offsets + ", 1l, " + count + ")", true, cls};
  const std::string element = pointer + " + (" + where->lane_index + ")";
  // Ask for the row of a later tile while this one, already near, is read for the last time.
  const int line_elements = 64 / size_bytes(node.dtype);
  const bool whole_line = copy_ * target_.lanes_f32() % line_elements == 0;
  const auto last = last_level_.find(node.id);
  if (schedule_.prefetch_rows > 0 && !tail_ && whole_line && where->lane_stride.empty() &&
      last != last_level_.end() && last->second == level_ &&
      pointer_text.find(tile_var_) != std::string::npos && !tile_var_.empty()) {
    std::string ahead = pointer_text;
    for (size_t at_pos = 0; (at_pos = ahead.find(tile_var_, at_pos)) != std::string::npos;) {
      const std::string next =
          "(" + tile_var_ + " + " + std::to_string(schedule_.prefetch_rows) + ")";
      ahead.replace(at_pos, tile_var_.size(), next);
      at_pos += next.size();
    }
    const std::string ahead_key = "p:" + ahead;
    auto& names = memo_.back();
    if (!names.count(ahead_key)) {
      const std::string name = w_.fresh("f_");
      w_.line("const " + memory_type(node.dtype) + "* const " + name + " = " + ahead + ";");
      names[ahead_key] = Val{name, false, cls};
    }
    body_->push_back("__builtin_prefetch(" + names[ahead_key].text + " + (" + where->lane_index +
                     "), 0, 2);");
  }
  if (!where->lane_stride.empty())
    return Val{"ldg(" + element + ", " + where->lane_stride + ", " + count + ")", true, cls};
  if (pairs_ && node.dtype == DType::kBf16 && target_.isa == "avx512")  // two vectors are one line
    return Val{copy_ % 2 == 0 ? "ld_line<0>(" + element + ")" : "ld_line<W>(" + element + " - W)",
               true, cls};
  return Val{tail_ ? "ldn(" + element + ", n)" : "ld(" + element + ")", true, cls};
}

// Element address inside a buffer; the lane's part goes to `lane`.
std::string Emitter::buffer_pointer(int buffer, const Node& node, const AtList& at, Address* lane) {
  const Buffer& b = plan_.buffers()[static_cast<size_t>(buffer)];
  const int rank = static_cast<int>(at.size());
  std::string offset;
  for (int d = 0; d < rank; ++d) {
    const At& where = at[static_cast<size_t>(d)];
    if (node.shape[static_cast<size_t>(d)].is_const(1) || (where.text == "0l" && !where.lane))
      continue;
    std::string stride;
    if (d + 1 < rank) {
      stride = buffer_pitch(buffer);
      for (int x = d + 1; x + 1 < rank; ++x)
        stride += " * " + w_.expr(b.extents[static_cast<size_t>(x)]);
    }
    if (where.lane) {
      lane->lane_index =
          stride.empty() || stride == "1l" ? where.text : "(" + where.text + ") * (" + stride + ")";
      lane->lane_stride = stride == "1l" ? "" : stride;
    } else {
      offset += (offset.empty() ? "" : " + ") + ("(" + where.text + ")") +
                (stride.empty() ? "" : " * " + stride);
    }
  }
  lane->pointer = offset.empty() ? b.name : "(" + b.name + " + " + offset + ")";
  return lane->pointer;
}

Result<Val> Emitter::buffer_value(int buffer, const Node& node, const AtList& at) {
  Address where;
  buffer_pointer(buffer, node, at, &where);
  const Cls cls = cls_of(node.dtype);
  if (where.lane_index.empty()) return Val{"ld1(" + where.pointer + ")", false, cls};
  const std::string element = where.pointer + " + (" + where.lane_index + ")";
  if (!where.lane_stride.empty())
    return Val{"ldg(" + element + ", " + where.lane_stride + ", " + (tail_ ? "n" : "W") + ")", true,
               cls};
  // Scratch rows have room for whole vectors.
  return Val{"ld(" + element + ")", true, cls};
}

}  // namespace rooftile::codegen
