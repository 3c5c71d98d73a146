// SPDX-License-Identifier: Apache-2.0
// The legality of a whole program: declarations, SSA order and scoping, bound symbols, unique
// labels, phases.
//
// One walk in program order. A value is visible from its node to the end of the block that holds
// it; a symbol from the region that binds it inwards. Types of single nodes are the table in
// node_rules.cc.
#include <algorithm>
#include <set>

#include "rooftile/ir/node_rules.h"
#include "rooftile/ir/types.h"

namespace rooftile::ir {
namespace {

class Verifier {
 public:
  explicit Verifier(const Program& program)
      : program_(program),
        visible_(program.nodes.size(), false),
        seen_(program.nodes.size(), false) {}

  Status run() {
    RT_RETURN_IF_ERROR(check_declarations());
    RT_RETURN_IF_ERROR(check_block(program_.body, nullptr));
    for (size_t i = 0; i < seen_.size(); ++i)
      if (!seen_[i])
        return fail(&program_.nodes[i], "node stands in no block", node_str(program_.nodes[i]), "");
    return {};
  }

 private:
  Diag fail(const Node* node, std::string message, std::string found, std::string expected,
            ErrorCode code = ErrorCode::kIrStructure) const {
    Diag diag;
    diag.code = code;
    diag.subject = program_.name;
    diag.message = std::move(message);
    diag.found = std::move(found);
    diag.expected = std::move(expected);
    if (node != nullptr) {
      diag.at = node->loc;
      diag.when = "in " + std::string(op_name(node->op)) + " " + node_str(*node);
    }
    return diag;
  }

  // ---- declarations ----

  Status check_declarations() {
    std::set<std::string> names;
    auto declare = [&](const std::string& name) {
      return !name.empty() && names.insert(name).second;
    };
    for (const TensorParam& t : program_.tensors) {
      if (!declare(t.name))
        return fail(nullptr, "two declarations of `" + t.name + "`", t.name, "unique names");
    }
    for (const ScalarParam& s : program_.scalars) {
      if (!declare(s.name))
        return fail(nullptr, "two declarations of `" + s.name + "`", s.name, "unique names");
      if (!s.is_float) symbols_.insert(s.name);
    }
    // A dim is bound by being the bare extent of an argument; workspaces only use what arguments
    // bind.
    for (const TensorParam& t : program_.tensors)
      if (t.role != Role::kWorkspace)
        for (const Expr& extent : t.shape)
          if (extent.kind() == ExprKind::kSym) symbols_.insert(extent.name());
    for (const std::string& param : program_.tile_params)
      if (!symbols_.insert(param).second)
        return fail(nullptr, "tile parameter `" + param + "` has the name of a dim or attribute",
                    param, "a name of its own");
    for (const TensorParam& t : program_.tensors) {
      for (const Expr& extent : t.shape)
        RT_RETURN_IF_ERROR(check_expr(nullptr, extent, "extent of `" + t.name + "`"));
      for (const std::string& other : t.may_alias)
        if (program_.tensor(other) == nullptr)
          return fail(nullptr, "`" + t.name + "` may alias a tensor that does not exist", other,
                      "a declared tensor");
    }
    for (const Clause& c : program_.clauses) {
      if (c.kind != Clause::kCondition) {
        const TensorParam* t = program_.tensor(c.tensor);
        if (t == nullptr || !is_integer(t->dtype))
          return fail(nullptr, "a clause is about `" + c.tensor + "`", c.tensor,
                      "a declared integer tensor");
        if (c.kind == Clause::kDistinct && t->shape.size() != 1)
          return fail(nullptr, "a clause asks for distinct values of `" + c.tensor + "`",
                      type_str(t->dtype, t->shape), "a list");
      }
      if (!c.used.empty()) {
        const TensorParam *rows = program_.tensor(c.tensor), *used = program_.tensor(c.used);
        if (used == nullptr || !is_integer(used->dtype) || used->shape.size() != 1 ||
            rows->shape.size() != 2 || !used->shape[0].same_as(rows->shape[0]))
          return fail(nullptr, "a clause counts the entries in use by `" + c.used + "`", c.used,
                      "an integer vector with one element a row of `" + c.tensor + "`");
      }
      for (const Expr* e : {&c.condition, &c.lo, &c.hi, &c.used_unit, &c.except})
        RT_RETURN_IF_ERROR(check_expr(nullptr, *e, "clause"));
    }
    return {};
  }

  // ---- expressions ----

  Status check_expr(const Node* node, const Expr& expr, const std::string& what) const {
    if (expr.kind() == ExprKind::kSym && symbols_.count(expr.name()) == 0)
      return fail(
          node, "symbol `" + expr.name() + "` in the " + what + " is bound by nothing", expr.name(),
          "a dim of an argument, an integer attribute, a tile parameter or an enclosing index");
    if (expr.kind() == ExprKind::kIndexLoad) {
      const TensorParam* t = program_.tensor(expr.name());
      // An input, or what an earlier phase has worked out (the owner of each block of a batch).
      if (t == nullptr || !is_integer(t->dtype) ||
          (t->role != Role::kIn && t->role != Role::kWorkspace))
        return fail(node, "index load from `" + expr.name() + "` in the " + what, expr.name(),
                    "an integer input tensor or workspace");
      if (t->role == Role::kWorkspace && tensors_written_.count(t->name) == 0)
        return fail(node, "workspace `" + t->name + "` is read before it is written",
                    "no store before this index load", "a store in an earlier phase");
      if (t->shape.size() != expr.args().size())
        return fail(node, "index load from `" + expr.name() + "` has the wrong number of indices",
                    std::to_string(expr.args().size()), std::to_string(t->shape.size()));
    }
    for (const Expr& arg : expr.args()) RT_RETURN_IF_ERROR(check_expr(node, arg, what));
    return {};
  }

  Status check_exprs(const Node& n) const {
    for (const Expr& e : n.shape) RT_RETURN_IF_ERROR(check_expr(&n, e, "shape"));
    for (const DimIndex& dim : n.region) {
      RT_RETURN_IF_ERROR(check_expr(&n, dim.begin, "region"));
      RT_RETURN_IF_ERROR(check_expr(&n, dim.extent, "region"));
    }
    RT_RETURN_IF_ERROR(check_expr(&n, n.expr, "expression"));
    for (const Expr* e : {&n.begin, &n.end, &n.step})
      RT_RETURN_IF_ERROR(check_expr(&n, *e, "loop bounds"));
    for (const Expr& e : n.extents) RT_RETURN_IF_ERROR(check_expr(&n, e, "parallel extents"));
    return {};
  }

  // ---- values ----

  Status check_use(const Node& n, ValueId id) const {
    if (id < 0 || id >= static_cast<int>(program_.nodes.size()))
      return fail(&n, "use of a value that does not exist", "%" + std::to_string(id),
                  "a value of this program");
    if (!visible_[static_cast<size_t>(id)])
      return fail(&n, "use of a value that is not visible here", node_str(program_.node(id)),
                  "a value computed before, in this region or one around it");
    return {};
  }

  Status check_uses(const Node& n, const Node* region) const {
    if (n.op == Op::kCarried &&
        (region == nullptr || n.operands.empty() || n.operands[0] != region->id))
      return fail(&n, "carried value outside its loop", node_str(n),
                  "directly in the block of its loop");
    for (ValueId id : n.operands) RT_RETURN_IF_ERROR(check_use(n, id));
    for (const DimIndex& dim : n.region)
      if (dim.kind == DimIndex::kIndirect) RT_RETURN_IF_ERROR(check_use(n, dim.indirect));
    return {};
  }

  Status check_label(const Node& n) {
    if (n.label.empty() || labels_.insert(n.label).second) return {};
    return fail(&n, "two nodes are labelled `" + n.label + "`", n.label, "unique labels");
  }

  // ---- levels and phases ----

  // The top level holds phases, and scalars that they share; memory is touched inside phases only.
  Status check_level(const Node& n, const Node* region) const {
    if (n.op == Op::kTiles && region != nullptr)
      return fail(&n, "parallel space inside another region", std::string(op_name(region->op)),
                  "the top level");
    if (region != nullptr || n.op == Op::kTiles) return {};
    const bool shared_scalar = n.has_value() && n.rank() == 0 && n.op != Op::kLoad;
    if (shared_scalar) return {};
    return fail(&n, "the top level holds parallel spaces and scalars only",
                std::string(op_name(n.op)), "loads, stores, loops and tiles inside tiles()");
  }

  // Outputs and workspaces hold nothing before the program stores to them.
  Status check_written(const Node& n) {
    if (n.op == Op::kStore) tensors_written_.insert(n.name);
    if (n.op != Op::kLoad || tensors_written_.count(n.name) != 0) return {};
    const Role role = program_.tensor(n.name)->role;
    if (role != Role::kWorkspace && role != Role::kOut) return {};
    return fail(&n, std::string(role_name(role)) + " `" + n.name + "` is read before it is written",
                "no store before this load", "a store in an earlier phase");
  }

  // ---- the walk ----

  Status check_block(const Block& block, const Node* region) {
    for (ValueId id : block.nodes) {
      if (id < 0 || id >= static_cast<int>(program_.nodes.size()) || program_.node(id).id != id)
        return fail(region, "block holds a node that does not exist", "%" + std::to_string(id), "");
      if (seen_[static_cast<size_t>(id)])
        return fail(&program_.node(id), "node stands in two places", node_str(program_.node(id)),
                    "one place");
      seen_[static_cast<size_t>(id)] = true;
      RT_RETURN_IF_ERROR(check_one(program_.node(id), region));
    }
    if (region != nullptr)
      for (ValueId id : block.yields) RT_RETURN_IF_ERROR(check_use(*region, id));
    for (ValueId id : block.nodes) visible_[static_cast<size_t>(id)] = false;
    return {};
  }

  Status check_one(const Node& n, const Node* region) {
    RT_RETURN_IF_ERROR(check_level(n, region));
    RT_RETURN_IF_ERROR(check_label(n));
    RT_RETURN_IF_ERROR(check_uses(n, region));
    RT_RETURN_IF_ERROR(check_exprs(n));
    if (Verdict v = check_node(program_, n))
      return fail(&n, v->message, v->found, v->expected, ErrorCode::kIrType);
    RT_RETURN_IF_ERROR(check_written(n));
    // A loop is visible in its own block, where its carried values refer to it.
    visible_[static_cast<size_t>(n.id)] = true;
    if (n.op == Op::kLoop || n.op == Op::kWhen || n.op == Op::kTiles) return check_region(n);
    return {};
  }

  Status check_region(const Node& n) {
    std::vector<std::string> bound = n.vars;
    if (n.op == Op::kLoop) bound = {n.name};
    for (const std::string& var : bound)
      if (var.empty() || !symbols_.insert(var).second)
        return fail(&n, "index `" + var + "` hides another symbol", var, "a name of its own");
    RT_RETURN_IF_ERROR(check_block(n.block, &n));
    for (const std::string& var : bound) symbols_.erase(var);
    return {};
  }

  const Program& program_;
  std::vector<bool> visible_, seen_;
  std::set<std::string> symbols_, labels_, tensors_written_;
};

}  // namespace

Status verify(const Program& program) { return Verifier(program).run(); }

}  // namespace rooftile::ir
