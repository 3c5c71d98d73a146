// SPDX-License-Identifier: Apache-2.0
#include "rooftile/codegen/cpu/emit_cpu.h"

#include "rooftile/codegen/cpu/emitter.h"
#include "rooftile/codegen/cpu/prelude.h"

namespace rooftile::codegen {

using ir::Node;
using ir::Op;

namespace {

void replace_line(std::string* text, const std::string& mark, const std::string& lines) {
  size_t at;
  while ((at = text->find(mark)) != std::string::npos) {
    const size_t start = text->rfind('\n', at) + 1, end = text->find('\n', at) + 1;
    text->replace(start, end - start, lines);
  }
}

}  // namespace

// Elements from one row of a buffer to the next. Rows are whole cache lines plus one, so that rows
// of a power of two do not fall on the same cache sets.
std::string Emitter::buffer_pitch(int buffer) const {
  const Buffer& b = plan_.buffers()[static_cast<size_t>(buffer)];
  if (b.extents.size() < 2 || b.extents.back().is_const(1)) return "1l";
  return "q_" + b.name;
}

// Every part of the kernel's memory, in the order in which they lie.
std::vector<ScratchPart> Emitter::scratch_parts() const {
  std::vector<ScratchPart> parts;
  auto part = [&](ScratchPart::Form form, const std::string& part_name, int element_bytes) {
    ScratchPart out;
    out.form = form;
    out.name = out.like = part_name;
    out.owner = of_member_.count(part_name) ? ScratchPart::kMember : ScratchPart::kThread;
    out.element_bytes = element_bytes;
    return out;
  };
  for (const ir::TensorParam& tensor : program_.tensors) {
    if (tensor.role != ir::Role::kWorkspace) continue;
    parts.push_back(part(ScratchPart::kWorkspace, tensor.name, size_bytes(tensor.dtype)));
    parts.back().owner = ScratchPart::kShared;
    parts.back().extents = tensor.shape;
  }
  for (const auto& [tensor_name, ahead] : ahead_) {
    const std::vector<Expr>& shape = program_.tensor(tensor_name)->shape;
    parts.push_back(part(ScratchPart::kAhead, "ahead_" + tensor_name, 4));
    ScratchPart& packed = parts.back();
    packed.owner = ScratchPart::kShared;
    packed.per_word = unit_info(ahead.unit).per_word;
    packed.extents = {shape[static_cast<size_t>(ahead.n_dim)],
                      shape[static_cast<size_t>(ahead.k_dim)]};
    for (int d : ahead.others) packed.extents.push_back(shape[static_cast<size_t>(d)]);
  }
  for (size_t i = 0; i < plan_.buffers().size(); ++i) {
    const Buffer& b = plan_.buffers()[i];
    const bool flat = buffer_pitch(static_cast<int>(i)) == "1l";
    ScratchPart buffer =
        part(flat ? ScratchPart::kFlat : ScratchPart::kRows, b.name, size_bytes(b.dtype));
    const int line = 64 / buffer.element_bytes;
    buffer.buffer = static_cast<int>(i);
    buffer.extents = b.extents;
    buffer.pitch_unit = b.product ? kPanelColumns : line;
    buffer.pitch_pad = b.product ? 16 : line;
    buffer.whole_tiles = b.product || b.a_operand;
    parts.push_back(buffer);
    if (twins_.count(static_cast<int>(i)) == 0) continue;
    buffer.name = b.name + "_next";
    buffer.owner = ScratchPart::kThread;
    parts.push_back(buffer);
  }
  std::set<std::string> free;
  for (const Node& node : program_.nodes) {
    if (node.op == Op::kLoop) free.insert(node.name);
    free.insert(node.vars.begin(), node.vars.end());
  }
  for (const auto& [key, pack] : packs_) {
    auto rows = upper_bound(pack.rows, free), words = upper_bound(pack.words, free);
    parts.push_back(
        part(pack.is_a ? ScratchPart::kPackedRows : ScratchPart::kPanels, pack.name, 4));
    parts.back().extents = {rows ? *rows : pack.rows, words ? *words : pack.words};
    parts.back().source = pack.source;
    parts.back().holds = {pack.rows, pack.words};
  }
  return parts;
}

// lay_out(n): byte offsets of every buffer inside a thread's scratch, and the sizes of the parts of
// the workspace.
std::string Emitter::layout_text(const std::vector<ScratchPart>& parts) const {
  const ScratchText layout = scratch_text(parts);
  std::string s = "struct Layout {\n  i64 shared, thread, member, at_members;\n" + layout.fields;
  s += "};\nAI i64 up64(i64 x) { return (x + 63) / 64 * 64; }\n";
  s += "static Layout lay_out(const i64* n) {\n";
  for (size_t i = 0; i < args_.num_dims + args_.num_int_attrs; ++i)
    s += "  const i64 " + c_symbol(args_.ints[i]) + " = n[" + std::to_string(i) + "];\n  (void)" +
         c_symbol(args_.ints[i]) + ";\n";
  s += "  Layout lay = {};\n  i64 shared = 0, thread = 0, member = 0;\n" + layout.body;
  int64_t width = 0;
  for (const auto& [var, members] : schedule_.gang) width = std::max(width, members);
  s += "  lay.at_members = thread;\n  thread += " + std::to_string(width) +
       " * member;\n  lay.shared = shared;\n  lay.thread = thread;\n  lay.member = member;\n"
       "  return lay;\n}\n";
  return s;
}

std::string Emitter::entry_text(const std::string& body) {
  std::string s = "extern \"C\" i64 " + name_ +
                  "_workspace(const i64* n) {\n  const Layout lay = lay_out(n);\n"
                  "  return lay.shared + omp_get_max_threads() * lay.thread + 64;\n}\n\n";
  s += "extern \"C\" void " + name_ +
       "_run(void* const* t, const i64* n, const float* f, char* workspace) {\n"
       "  (void)t; (void)n; (void)f; (void)workspace;\n";
  // Never more threads than <name>_workspace() counted.
  s += "  const Layout lay = lay_out(n);\n  const int threads = " +
       (schedule_.threads > 0
            ? "(int)imin(" + std::to_string(schedule_.threads) + ", omp_get_max_threads())"
            : std::string("omp_get_max_threads()")) +
       ";\n";
  for (size_t i = 0; i < args_.ints.size(); ++i)
    s += "  const i64 " + c_symbol(args_.ints[i]) + " = n[" + std::to_string(i) + "];\n  (void)" +
         c_symbol(args_.ints[i]) + ";\n";
  for (size_t i = 0; i < args_.floats.size(); ++i)
    s += "  const float a_" + args_.floats[i] + " = f[" + std::to_string(i) + "];\n  (void)a_" +
         args_.floats[i] + ";\n";
  size_t position = 0;
  for (const ir::TensorParam& tensor : launched_.tensors) {
    const std::string type = memory_type(tensor.dtype);
    const bool input = tensor.role == ir::Role::kIn;
    if (tensor.role == ir::Role::kWorkspace) {
      s += "  " + type + "* const t_" + tensor.name + " = (" + type + "*)(workspace + lay.w_" +
           tensor.name + ");\n";
      std::string stride = "1l";
      for (size_t d = tensor.shape.size(); d-- > 0;) {
        Writer w;
        const std::string sym = c_symbol(tensor.name + ".s" + std::to_string(d));
        s += "  const i64 " + sym + " = " + stride + ";\n  (void)" + sym + ";\n";
        stride = sym + " * " + w.expr(tensor.shape[d]);
      }
      continue;
    }
    s += "  " + std::string(input ? "const " : "") + type + "* const t_" + tensor.name + " = (" +
         type + "*)t[" + std::to_string(position++) + "];\n";
    s += "  (void)t_" + tensor.name + ";\n";
    if (tensor.role == ir::Role::kOut || tensor.role == ir::Role::kInOut) {
      // Outputs larger than the caches keep bypass them: that saves reading them first.
      Writer w;
      std::string bytes = std::to_string(size_bytes(tensor.dtype)) + "l";
      for (const Expr& e : tensor.shape) bytes += " * " + w.expr(e);
      s += "  const bool nt_" + tensor.name + " = " + bytes +
           " >= " + std::to_string(schedule_.nontemporal_bytes) + "l;\n  (void)nt_" + tensor.name +
           ";\n";
    }
  }
  for (const Buffer& b : plan_.buffers())
    if (b.extents.size() >= 2 && !b.extents.back().is_const(1))
      s += "  const i64 q_" + b.name + " = lay.q_" + b.name + ";\n  (void)q_" + b.name + ";\n";
  for (const auto& [tensor, ahead] : ahead_) {
    const std::string field = "ahead_" + tensor;
    s += "  i32* const " + field + " = (i32*)(workspace + lay.at_" + field + ");\n";
    for (const std::string& size : {field + "_panel", field + "_part"})
      s += "  const i64 " + size + " = lay." + size + ";\n  (void)" + size + ";\n";
  }
  for (const auto& [key, pack] : packs_) {
    const std::string field = pack.name + (pack.is_a ? "_pitch" : "_panel");
    s += "  const i64 " + field + " = lay." + field + ";\n  (void)" + field + ";\n";
  }
  return s + body + "}\n";
}

Result<CpuKernelText> Emitter::run() {
  auto plan = Plan::make(program_, schedule_);
  if (!plan.ok()) return plan.diag();
  plan_ = *plan;
  auto args = arg_layout(program_);
  if (!args.ok()) return args.diag();
  RT_RETURN_IF_ERROR(place_packed_args());
  // dims that only the packed tensor would have bound must come from elsewhere
  if (!packed_args_.empty()) {
    auto packed = arg_layout(launched_);
    if (!packed.ok()) return packed.diag();
    args = packed;
  }
  args_ = *args;
  RT_RETURN_IF_ERROR(emit_block(program_.body, -1));
  std::string body = w_.take();

  std::string scratch = buffer_declarations(false), leave;
  bool amx = false;
  for (MmaUnit unit : units_) amx |= unit_info(unit).amx;
  if (amx) {
    scratch += "      amx_enter();\n";
    leave += "      amx_leave();\n";
  }
  if (uses_nt_) leave += "      fence_nt();\n";
  replace_line(&body, "@SCRATCH@", scratch);
  replace_line(&body, "@MEMBER@", buffer_declarations(true));
  replace_line(&body, "@LEAVE@", leave);

  CpuKernelText out;
  out.text =
      "// " + name_ + ": generated by Rooftile for " + target_.key() + "\n" + cpu_prelude(target_);
  if (!units_.empty() || !packs_.empty()) out.text += packing_text();
  if (amx) out.text += amx_setup_text();
  for (MmaUnit unit : units_) out.text += mma_text(unit, target_, schedule_.prefetch_bytes);
  if (uses_direct_) out.text += mma_direct_text();
  out.scratch = scratch_parts();
  out.text += layout_text(out.scratch) + entry_text(body);
  out.scheduled = "schedule " + schedule_.str() + "\n" + plan_.str();
  for (const auto& [key, pack] : packs_)
    out.scheduled += "packed operand " + pack.name + " for " + unit_info(pack.unit).name + "\n";
  out.program = launched_;
  for (const auto& [tensor, arg] : packed_args_) out.packed.push_back(arg);
  return out;
}

Result<CpuKernelText> emit_cpu(const ir::Program& program, const std::string& name,
                               const Schedule& schedule, const TargetInfo& target) {
  return Emitter(program, name, schedule, target).run();
}

}  // namespace rooftile::codegen
