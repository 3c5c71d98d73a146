// SPDX-License-Identifier: Apache-2.0
// Gangs: instances of a parallel dimension whose serial loop is run in step, iteration by
// iteration.
//
// The text has three parts, each with a loop over the members: before the serial loop, inside it,
// and after it. Scratch that more than one part mentions, and what the loop carries, exists once a
// member; everything else is shared, since members run one after the other.
#include <algorithm>

#include "rooftile/codegen/cpu/emitter.h"

namespace rooftile::codegen {

using ir::Node;

namespace {

bool mentions(const std::string& text, const std::string& name) {
  auto in_name = [&](size_t at) {
    return at < text.size() && (isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_');
  };
  for (size_t at = 0; (at = text.find(name, at)) != std::string::npos; ++at)
    if (!in_name(at + name.size()) && (at == 0 || !in_name(at - 1))) return true;
  return false;
}

}  // namespace

Status Emitter::emit_members(const Gang& gang, const std::function<Status()>& body) {
  const std::string var = c_symbol(gang.var);
  w_.open("for (i64 member = 0; member < members; member++)");
  memo_.emplace_back();
  w_.line("const i64 " + var + " = first_member + member;");
  w_.line("(void)" + var + ";");
  w_.line("@MEMBER@");
  gang_ = &gang;
  RT_RETURN_IF_ERROR(body());
  gang_ = nullptr;
  memo_.pop_back();
  w_.close();
  return {};
}

// What the members have in common in the next iteration, such as the pages of its keys, for those
// that ask for its rows: worked out once instead of row by row.
Status Emitter::emit_common_ahead(const Node& loop, const std::vector<Step>& common) {
  const bool asks = std::any_of(program_.nodes.begin(), program_.nodes.end(),
                                [&](const Node& node) { return is_direct(node); });
  if (schedule_.prefetch_bytes <= 0 || !asks) return {};
  std::set<int> kept;
  for (const Step& step : common)
    for (const Item& item : step.group.items)
      if (item.kind == ItemKind::kKeep) kept.insert(item.buffer);
  if (kept.empty()) return {};
  RT_RETURN_IF_ERROR(in_next_iteration(loop, [&] {
    shadow_next(kept);
    return emit_steps(common);
  }));
  of_next_ = kept;
  twins_.insert(kept.begin(), kept.end());
  return {};
}

// In this scope the names of these buffers stand for their twins, which belong to the next
// iteration.
void Emitter::shadow_next(const std::set<int>& buffers) {
  for (int buffer : buffers) {
    const Buffer& b = plan_.buffers()[static_cast<size_t>(buffer)];
    w_.line(memory_type(b.dtype) + "* const " + b.name + " = " + b.name + "_next;");
    w_.line("(void)" + b.name + ";");
  }
}

Status Emitter::emit_gang(const Node& phase, const Gang& gang) {
  const Node& loop = program_.node(gang.loop);
  std::vector<Step> before, after;
  bool passed = false;
  for (const Step& step : plan_.steps(phase.block, phase.id)) {
    if (step.kind == Step::kLoop && step.id == gang.loop)
      passed = true;
    else
      (passed ? after : before).push_back(step);
  }
  const GangBody body = plan_.gang_body(gang);

  std::vector<std::string> parts;
  size_t start = w_.text().size();
  auto end_part = [&] {
    parts.push_back(w_.text().substr(start));
    start = w_.text().size();
  };
  RT_RETURN_IF_ERROR(emit_members(gang, [&] {
    Status status = emit_steps(before);
    if (status.ok()) emit_zero_results(loop);
    return status;
  }));
  end_part();
  const std::string var = c_symbol(loop.name), begin = w_.let(loop.begin), end = w_.let(loop.end),
                    step = w_.let(loop.step);
  w_.open("for (i64 " + var + " = " + begin + "; " + var + " < " + end + "; " + var +
          " += " + step + ")");
  memo_.emplace_back();
  RT_RETURN_IF_ERROR(emit_steps(body.common));
  RT_RETURN_IF_ERROR(emit_common_ahead(loop, body.common));
  RT_RETURN_IF_ERROR(emit_members(gang, [&] { return emit_steps(body.own); }));
  of_next_.clear();
  memo_.pop_back();
  w_.close();
  end_part();
  RT_RETURN_IF_ERROR(emit_members(gang, [&] { return emit_steps(after); }));
  end_part();
  find_member_buffers(gang, parts);
  return {};
}

void Emitter::find_member_buffers(const Gang& gang, const std::vector<std::string>& parts) {
  auto look = [&](const std::string& name) {
    int count = 0;
    for (const std::string& part : parts) count += mentions(part, name);
    if (count > 1) of_member_.insert(name);
  };
  for (const Buffer& buffer : plan_.buffers()) look(buffer.name);
  for (const auto& [key, pack] : packs_) look(pack.name);
  for (int buffer : plan_.loop(gang.loop).buffers)
    of_member_.insert(plan_.buffers()[static_cast<size_t>(buffer)].name);
}

// Pointers to the thread's scratch, or to that of the member at hand.
std::string Emitter::buffer_declarations(bool of_members) const {
  std::string out;
  if (of_members)
    out +=
        "      char* const own = scratch + lay.at_members + member * lay.member;\n"
        "      (void)own;\n";
  auto declare = [&](const std::string& type, const std::string& name) {
    if ((of_member_.count(name) > 0) != of_members) return;
    out += "      " + type + "* const " + name + " = (" + type + "*)(" +
           (of_members ? "own" : "scratch") + " + lay.at_" + name + ");\n      (void)" + name +
           ";\n";
  };
  for (const Buffer& b : plan_.buffers()) declare(memory_type(b.dtype), b.name);
  if (!of_members)
    for (int twin : twins_) {
      const Buffer& b = plan_.buffers()[static_cast<size_t>(twin)];
      declare(memory_type(b.dtype), b.name + "_next");
    }
  for (const auto& [key, pack] : packs_) declare(pack.is_a ? "char" : "i32", pack.name);
  return out;
}

}  // namespace rooftile::codegen
