// SPDX-License-Identifier: Apache-2.0
// The frame of a kernel of strips: parameters, the parallel index of the CTA, names and scopes; and
// the variants that a program becomes.
#include "rooftile/codegen/gpu/strips.h"

#include <algorithm>

#include "rooftile/codegen/gpu/fix_dims.h"
#include "rooftile/codegen/gpu/size_limits.h"
#include "rooftile/codegen/gpu/touched_tensors.h"

namespace rooftile::codegen {

using ir::Node;
using ir::Op;
using lanes::Ty;
using lanes::Val;

Strips::Strips(const ir::Program& program, const Node& phase, const gpu::Plan& plan, bool vectors)
    : program_(program),
      phase_(phase),
      plan_(plan),
      vectors_(vectors),
      threads_(plan.strips.threads),
      tiled_(contains(program, phase.block, Op::kMma)),
      uses_(program, program.body),
      index_(program),
      multiples_(program) {
  if (vectors) needs_.align_bytes = plan.strips.vector_bytes;
}

// ---- names and scopes --------------------------------------------------------------------------

void Strips::push_scope() {
  memo_.emplace_back();
  numbers_.emplace_back();
  index_.push_scope();
}

void Strips::pop_scope() {
  memo_.pop_back();
  numbers_.pop_back();
  index_.pop_scope();
}

Val Strips::declare(Ty type, const std::string& hint, const Val& initial) {
  const std::string name = index_.unique(hint);
  emit(lanes::decl(type, name, initial));
  return lanes::var(type, name);
}

std::string Strips::declare_array(Ty type, const std::string& hint, int count) {
  const std::string name = index_.unique(hint);
  emit(lanes::decl_array(type, name, count));
  return name;
}

Val Strips::name_value(const std::string& hint, const Val& value) {
  const lanes::ValKind kind = value->kind;
  const bool simple = kind == lanes::ValKind::kInt || kind == lanes::ValKind::kFloat ||
                      kind == lanes::ValKind::kVar || kind == lanes::ValKind::kParam;
  return simple ? value : declare(value.type(), hint, value);
}

void Strips::set(const Val& variable, const Val& value) {
  emit(variable->kind == lanes::ValKind::kElem
           ? lanes::assign(variable->name, variable->args[0], value)
           : lanes::assign(variable->name, value));
}

Val Strips::number(const Expr& expr) {
  const std::string key = expr.str();
  for (const auto& scope : numbers_)
    if (const auto found = scope.find(key); found != scope.end()) return found->second;
  Val value = index_.number(expr, body_);
  if (value->kind == lanes::ValKind::kFn) value = name_value("n", value);
  numbers_.back()[key] = value;
  return value;
}

Val Strips::size(const Expr& expr) { return lanes::cast(Ty::kI32, number(expr)); }

std::string Strips::hint_of(const Node& n) const {
  std::string hint = !n.label.empty() ? n.label : n.op == Op::kLoad ? n.name : "v";
  for (char& c : hint)
    if (isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return hint;
}

void Strips::fail(const Node& n, std::string message, std::string found, std::string expected,
                  std::string fix) {
  if (!error_.ok()) return;
  Diag diag;
  diag.code = ErrorCode::kPlacement;
  diag.subject = program_.name;
  diag.message = std::move(message);
  diag.found = std::move(found);
  diag.expected = std::move(expected);
  diag.fix = std::move(fix);
  diag.at = n.loc;
  error_ = diag;
}

void Strips::note(const std::string& line) {
  listing_ += std::string(static_cast<size_t>(2 * depth_ + 2), ' ') + line + "\n";
}

// ---- the kernel --------------------------------------------------------------------------------

lanes::Program Strips::interface(const std::string& name) const {
  lanes::Program p;
  p.name = name;
  p.threads = threads_;
  // Element by element, the operands of a product on their way take several times the registers.
  p.min_ctas_per_sm = mma_ && !vectors_ ? std::max(plan_.ctas_per_sm / 2, 1) : plan_.ctas_per_sm;
  p.dependent_launch = plan_.dependent_launch;
  // Only what this phase touches: other phases are other kernels.
  const auto [read, written] = touched_tensors(program_, phase_);
  std::set<std::string> dims;
  for (const ir::TensorParam& t : program_.tensors) {
    for (const Expr& extent : t.shape) collect_symbols(extent, dims);
    if (read.count(t.name) + written.count(t.name) == 0) continue;
    const bool aligned =
        std::find(needs_.aligned.begin(), needs_.aligned.end(), t.name) != needs_.aligned.end();
    lanes::TensorUse use;
    use.name = t.name;
    use.dtype = t.dtype;
    use.shape = t.shape;
    use.read = read.count(t.name) != 0;
    use.written = written.count(t.name) != 0;
    use.workspace = t.role == ir::Role::kWorkspace;
    use.align_bytes =
        // Workspaces are compact: their strides are whatever the extents make them.
        std::max({1, t.role == ir::Role::kWorkspace ? 1 : t.align_bytes, size_bytes(t.dtype),
                  aligned ? needs_.align_bytes : 1});
    p.tensors.push_back(use);
    // A tensor of rank r has r strides; the innermost is 1 where the contract says so.
    for (size_t d = 0; d < t.shape.size(); ++d)
      if (d + 1 < t.shape.size() || !t.unit_inner_stride)
        p.scalars.push_back({t.name + ".s" + std::to_string(d), Ty::kI64});
  }
  for (const ir::ScalarParam& s : program_.scalars) dims.erase(s.name);
  for (const std::string& dim : dims) p.scalars.push_back({dim, Ty::kI32});
  for (const ir::ScalarParam& s : program_.scalars)
    p.scalars.push_back({s.name, s.is_float ? Ty::kF32 : Ty::kI64});
  return p;
}

// The CTA's parallel index, the last axis fastest (or as the plan orders them).
void Strips::open_phase() {
  for (const ir::TensorParam& t : program_.tensors) {
    index_.unique(t.name);
    for (const Expr& extent : t.shape)
      for (const std::string& symbol : symbols_of(extent)) index_.unique(symbol);
  }
  for (const ir::ScalarParam& s : program_.scalars) index_.unique(s.name);

  // The plan orders the phases that have its axes.
  std::vector<std::string> axes = plan_.order.axes;
  const std::set<std::string> named(axes.begin(), axes.end());
  if (named != std::set<std::string>(phase_.vars.begin(), phase_.vars.end())) axes = phase_.vars;
  Val rest = lanes::special(lanes::Special::kCtaX);
  for (size_t k = axes.size(); k-- > 0;) {
    const auto at = std::find(phase_.vars.begin(), phase_.vars.end(), axes[k]);
    if (at == phase_.vars.end()) continue;
    const Expr& extent = phase_.extents[static_cast<size_t>(at - phase_.vars.begin())];
    const bool last = k == 0;
    const Val extent_value = last ? Val() : size(extent);
    index_.bind(axes[k],
                declare(Ty::kI32, axes[k], last ? rest : lanes::floor_mod(rest, extent_value)));
    if (!last) rest = name_value("rest", lanes::floor_div(rest, extent_value));
  }
}

Result<lanes::Program> Strips::lower(const std::string& name) {
  push_scope();
  if (plan_.dependent_launch) {
    // The kernel before is over; the one behind may take what this one leaves idle.
    for (const lanes::Ins ins : {lanes::Ins::kGridWait, lanes::Ins::kGridLaunchNext}) {
      lanes::Instr instr;
      instr.ins = ins;
      emit(lanes::instr(std::move(instr)));
    }
  }
  open_phase();
  if (tiled_) choose_grid_of_threads(phase_.block);
  bank_ = declare(Ty::kI32, "bank", 0);
  block(phase_.block);
  pop_scope();
  if (!error_.ok()) return error_;

  lanes::Program p = interface(name);
  p.body = std::move(body_);
  if (uses_slots_) p.shared.push_back({.name = "slots", .bytes = 2 * 8 * 8 * warps(), .align = 16});
  if (arena_bytes_ > 0) p.shared.push_back({.name = "tiles", .bytes = arena_bytes_, .align = 16});
  p.grid_x = 1;
  for (const Expr& extent : phase_.extents) p.grid_x = p.grid_x * extent;
  RT_RETURN_IF_ERROR(lanes::plan_shared(p));
  return p;
}

// ---- variants ----------------------------------------------------------------------------------

namespace {

Diag refused(const ir::Program& program, std::string message, std::string found,
             std::string expected) {
  Diag diag;
  diag.code = ErrorCode::kPlacement;
  diag.subject = program.name;
  diag.message = std::move(message);
  diag.found = std::move(found);
  diag.expected = std::move(expected);
  return diag;
}

// Wishes that strips cannot meet.
Status check_plan(const ir::Program& program, const gpu::Plan& plan) {
  const int threads = plan.strips.threads, bytes = plan.strips.vector_bytes;
  if (threads < 32 || threads > 1024 || threads % 32 != 0)
    return refused(program, "strips over another number of threads", std::to_string(threads),
                   "whole warps, up to 1024 threads");
  if (bytes != 4 && bytes != 8 && bytes != 16)
    return refused(program, "strips of another vector", std::to_string(bytes) + " bytes",
                   "4, 8 or 16 bytes");
  if (plan.strips.held_vectors < 0 || plan.strips.held_vectors > 32)
    return refused(program, "no such number of held vectors",
                   std::to_string(plan.strips.held_vectors), "0 to 32");
  if (!plan.roles.empty() || !plan.cluster.empty() || !plan.rings.empty() || !plan.turns.empty() ||
      plan.grid != gpu::Grid::kCover || plan.order.band != 0)
    return refused(program, "strips have no roles, clusters, rings, turns, bands or walks",
                   plan.str(), "a plan with `strips` only");
  for (const auto& [label, product] : plan.product) {
    const bool known = std::any_of(
        program.nodes.begin(), program.nodes.end(),
        [&, &name = label](const Node& n) { return n.op == Op::kMma && n.label == name; });
    if (!known) {
      Diag diag = refused(program, "the schedule names a product that the program lacks", label,
                          "the label of a product");
      diag.code = ErrorCode::kSchedule;
      return diag;
    }
    if (product.unit == gpu::Unit::kWgmma || product.a_registers || product.bytes || product.swap)
      return refused(program, "strips have no roles that products by wgmma need",
                     "product `" + label + "` by wgmma or as it wants its operands",
                     "unit fma or mma_sync, or roles for the other way");
  }
  for (const auto& [label, copy] : plan.copy)
    if (copy.via != gpu::Via::kVector || copy.multicast || copy.staging_columns != 0)
      return refused(program, "strips move data by vector loads and stores",
                     "copy `" + label + "` by other means", "via vector");
  return {};
}

void merge(const GpuNeeds& from, GpuNeeds* into) {
  into->align_bytes = std::max(into->align_bytes, from.align_bytes);
  for (const std::string& tensor : from.aligned)
    if (std::find(into->aligned.begin(), into->aligned.end(), tensor) == into->aligned.end())
      into->aligned.push_back(tensor);
  for (const Expr& condition : from.conditions) add_condition(condition, into);
}

Result<GpuVariant> variant_of(const ir::Program& program, const std::string& name,
                              const Schedule& schedule, bool vectors, std::string* scheduled) {
  GpuVariant variant;
  *scheduled += std::string(vectors ? "vectors" : "elements") + ": " +
                std::to_string(schedule.gpu.strips.threads) + " threads\n";
  for (ValueId id : program.body.nodes) {
    const Node& phase = program.node(id);
    if (phase.op != Op::kTiles) continue;
    Strips strips(program, phase, schedule.gpu, vectors);
    const std::string suffix = (vectors ? "_v" : "_e") + std::to_string(variant.phases.size());
    Result<lanes::Program> kernel = strips.lower(name + suffix);
    if (!kernel.ok()) return kernel.diag();
    std::string axes;
    for (size_t k = 0; k < phase.vars.size(); ++k)
      axes += (k > 0 ? ", " : "") + phase.vars[k] + " < " + phase.extents[k].str();
    *scheduled += "phase " + std::to_string(variant.phases.size()) + ": tiles " + axes + "\n" +
                  strips.listing();
    merge(strips.needs(), &variant.needs);
    add_size_conditions(program, phase, &variant.needs);
    variant.phases.push_back(std::move(*kernel));
  }
  if (!variant.needs.aligned.empty()) {
    *scheduled += "needs " + std::to_string(variant.needs.align_bytes) + "-byte alignment of";
    for (const std::string& tensor : variant.needs.aligned) *scheduled += " " + tensor;
    *scheduled += "\n";
  }
  for (const Expr& condition : variant.needs.conditions)
    *scheduled += "needs " + condition.str() + "\n";
  return variant;
}

}  // namespace

Result<std::vector<GpuVariant>> lower_strips(const ir::Program& given, const std::string& name,
                                             const Schedule& schedule, std::string& scheduled) {
  RT_RETURN_IF_ERROR(check_plan(given, schedule.gpu));
  // Dims that the caller has not replaced yet.
  std::map<std::string, int64_t> open_dims;
  std::set<std::string> symbols;
  for (const ir::TensorParam& t : given.tensors)
    for (const Expr& extent : t.shape) collect_symbols(extent, symbols);
  for (const auto& [dim, value] : schedule.gpu.dims)
    if (symbols.count(dim) != 0) open_dims.emplace(dim, value);
  Result<ir::Program> fixed = fix_dims(given, open_dims);
  if (!fixed.ok()) return fixed.diag();
  const ir::Program program = std::move(*fixed);

  std::vector<GpuVariant> variants;
  for (const bool vectors : {true, false}) {
    std::string text;
    Result<GpuVariant> variant = variant_of(program, name, schedule, vectors, &text);
    if (!variant.ok()) return variant.diag();
    for (const auto& [dim, value] : open_dims)
      add_condition(Expr::sym(dim) == Expr(value), &variant->needs);
    // Without a single vector access, the first variant is the second.
    const bool same = vectors && variant->needs.aligned.empty();
    if (same) continue;
    if (!vectors) variant->needs.align_bytes = 1;
    scheduled += text;
    variants.push_back(std::move(*variant));
  }
  return variants;
}

}  // namespace rooftile::codegen
