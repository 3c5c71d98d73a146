// SPDX-License-Identifier: Apache-2.0
// Products, operands in shared memory, sums in registers: by FMA; by tensor cores in strips_mma.cc.
//
// Both operands lie with k contiguous and a row pitch of 4 words more than a multiple of 4, so that
// a thread reads four steps of k at once and the rows of eight neighbouring threads fall into
// different banks. What a tile does not fill is zero, so the loop over k needs no mask.
#include <algorithm>

#include "rooftile/codegen/gpu/strips.h"

namespace rooftile::codegen {

using ir::Node;
using ir::Op;
using lanes::Fn;
using lanes::Ins;
using lanes::Ty;
using lanes::Val;

namespace {

constexpr int kStep = 4;               // of k, read at once: 16 bytes
constexpr int kStagingRegisters = 32;  // loads of a thread in flight

int round_up(int a, int b) { return (a + b - 1) / b * b; }
Val zero_of(Ty type) { return type == Ty::kF32 ? lanes::f32(0) : lanes::int_val(type, 0); }
Val both(const Val& a, const Val& b) { return !a.present() ? b : !b.present() ? a : a && b; }

}  // namespace

ValueId Strips::strip_transpose(ValueId id, bool* flipped) const {
  *flipped = false;
  while (node(id).op == Op::kTranspose) {
    *flipped = !*flipped;
    id = node(id).operands[0];
  }
  return id;
}

int64_t Strips::allocate(int64_t bytes) {
  const int64_t offset = arena_top_;
  arena_top_ += (bytes + 15) / 16 * 16;
  arena_bytes_ = std::max(arena_bytes_, arena_top_);
  return offset;
}

void Strips::touch_shared(int64_t begin, int64_t end, bool write) {
  const bool conflict = std::any_of(
      shared_touched_.begin(), shared_touched_.end(),
      [&](const SharedTouched& t) { return t.begin < end && begin < t.end && (write || t.write); });
  if (conflict) sync();
  shared_touched_.push_back({begin, end, write});
}

Val Strips::operand_address(const Operand& operand, const Val& outer, const Val& k) const {
  const Val words = outer * Val(operand.pitch) + k;
  return lanes::shared("tiles") +
         lanes::cast(Ty::kU32, words * Val(4) + Val(static_cast<int>(operand.offset)));
}

// ---- staging -----------------------------------------------------------------------------------

// How products use a value, by the axis of the value that is k.
void Strips::roles_of(ValueId id, bool flipped, std::map<int, Role>* by_k_axis) const {
  for (ValueId user : uses_.users(id)) {
    const Node& n = node(user);
    if (n.op == Op::kTranspose) roles_of(user, !flipped, by_k_axis);
    if (n.op != Op::kMma) continue;
    if (n.operands[0] == id) (*by_k_axis)[flipped ? 0 : 1].left = true;
    if (n.operands[1] == id) (*by_k_axis)[flipped ? 1 : 0].right = true;
  }
}

bool Strips::has_fragment(ValueId id) const {
  if (fragments_.count(id) != 0) return true;
  const Node& n = node(id);
  if (is_scalar(n) || n.op == Op::kCarried || n.op == Op::kResult) return false;
  const std::vector<ValueId> inputs = inputs_of(n);
  return std::any_of(inputs.begin(), inputs.end(), [&](ValueId i) { return has_fragment(i); });
}

void Strips::stage(ValueId id) {
  const Node& n = node(id);
  Space space;
  if (!space_of(n, n.shape, &space)) return;
  std::map<int, Role> roles;
  roles_of(id, false, &roles);
  prepare_tile({id}, {}, "staging of " + std::to_string(id));
  for (const auto& [k_axis, role] : roles) {
    if (mma_) {
      stage_mma(n, k_axis, role, space);
      continue;
    }
    const int outer = k_axis == 1 ? space.rows : space.columns;
    Operand to;
    to.depth = round_up(k_axis == 1 ? space.columns : space.rows, kStep);
    to.pitch = to.depth + kStep;
    if (role.left) to.rows = round_up(outer, threads_ / columns_of_threads_);
    if (role.right) to.rows = std::max(to.rows, round_up(outer, columns_of_threads_));
    to.offset = allocate(to.bytes());
    operands_[{id, k_axis}] = to;
    touch_shared(to.offset, to.offset + to.bytes(), true);
    note("shared " + hint_of(n) + ": " + shape_key(n.shape) + ", " + std::to_string(to.rows) +
         " rows of " + std::to_string(to.depth) + " words");
    if (has_fragment(id))
      stage_tile(n, k_axis, to, space);
    else
      stage_flat(n, k_axis, to);
  }
}

// Elements of one vector load along the fast axis, or 1.
int Strips::vector_for_staging(const Node& n, int fast_axis, const Operand& to, bool fast_is_k) {
  if (!vectors_ || n.op != Op::kLoad || fast_axis + 1 != n.rank()) return 1;
  const int width = plan_.strips.vector_bytes / size_bytes(program_.tensor(n.name)->dtype);
  const int along = fast_is_k ? to.depth : to.rows;
  std::vector<Expr> conditions = needs_.conditions;
  if (width < 2 || along % width != 0 || width > kStagingRegisters / 2) return 1;
  if (!multiples_.holds(n.shape.back(), width, &conditions) ||
      !vector_access(n, width, &conditions))
    return 1;
  needs_.conditions = conditions;
  vector_accesses_.insert({n.id, width});
  if (std::find(needs_.aligned.begin(), needs_.aligned.end(), n.name) == needs_.aligned.end())
    needs_.aligned.push_back(n.name);
  return width;
}

// A value that needs nothing from other threads' registers: threads share the padded tile evenly,
// along the axis that is contiguous in memory.
void Strips::stage_flat(const Node& n, int k_axis, const Operand& to) {
  const bool k_is_fast =
      n.op == Op::kLoad ? n.region.back().tile_axis == k_axis : k_axis + 1 == n.rank();
  const int width = vector_for_staging(n, k_is_fast ? k_axis : 1 - k_axis, to, k_is_fast);
  const int fast = (k_is_fast ? to.depth : to.rows) / width;
  const int total = fast * (k_is_fast ? to.rows : to.depth);
  const int each = (total + threads_ - 1) / threads_;
  const int group = std::min(each, std::max(1, kStagingRegisters / width));
  const bool exact = total % threads_ == 0 && each % group == 0;
  const Ty type = register_type(n.dtype);
  const Val extents[2] = {size(n.shape[0]), size(n.shape[1])};
  const std::string first = index_.unique("first"), s_name = index_.unique("s");
  const Val s = lanes::var(Ty::kI32, s_name);

  lanes::Body body = scoped([&] {
    const std::string staged = declare_array(type, hint_of(n) + "_staged", group * width);
    const auto place = [&](Val* outer, Val* k) {
      const Val e = name_value("e", tid() + (lanes::var(Ty::kI32, first) + s) * Val(threads_));
      const Val slow = name_value("slow", lanes::floor_div(e, Val(fast)));
      const Val quick = name_value("quick", lanes::floor_mod(e, Val(fast)) * Val(width));
      *outer = k_is_fast ? slow : quick;
      *k = k_is_fast ? quick : slow;
      return exact ? Val() : e < Val(total);
    };
    lanes::Body load_all = scoped([&] {
      Val outer, k;
      place(&outer, &k);
      Point at;
      at.at = k_axis == 1 ? std::vector<Val>{outer, k} : std::vector<Val>{k, outer};
      at.width = width;
      at.guard = name_value("inside", at.at[0] < extents[0] && at.at[1] < extents[1]);
      const Vec values = eval(n.id, at);
      for (int w = 0; w < width; ++w)
        emit(lanes::assign(
            staged, s * Val(width) + Val(w),
            lanes::select(at.guard, values.size() == 1 ? values[0] : values[static_cast<size_t>(w)],
                          zero_of(type))));
    });
    emit(lanes::for_(s_name, 0, group, 1, std::move(load_all), lanes::Unroll::kYes));
    lanes::Body store_all = scoped([&] {
      Val outer, k;
      const Val guard = place(&outer, &k);
      const int run = k_is_fast && width % kStep == 0 ? kStep : 1;
      for (int w = 0; w < width; w += run) {
        lanes::Instr store;
        store.ins = Ins::kStShared;
        store.guard = guard;
        store.regs = {{staged, s * Val(width) + Val(w), run}};
        store.bytes = 4 * run;
        store.args = {k_is_fast ? operand_address(to, outer, k + Val(w))
                                : operand_address(to, outer + Val(w), k)};
        emit(lanes::instr(std::move(store)));
      }
    });
    emit(lanes::for_(s_name, 0, group, 1, std::move(store_all), lanes::Unroll::kYes));
  });
  emit(lanes::for_(first, 0, each, Val(group), std::move(body)));
}

void Strips::zero_operand(const Operand& to, Ty type) {
  const std::string name = index_.unique("e");
  lanes::Body body = scoped([&] {
    store_shared(zero_of(type), lanes::shared("tiles") +
                                    lanes::cast(Ty::kU32, lanes::var(Ty::kI32, name) * Val(4) +
                                                              Val(static_cast<int>(to.offset))));
  });
  emit(lanes::for_(name, tid(), Val(static_cast<int>(to.bytes() / 4)), Val(threads_),
                   std::move(body), lanes::Unroll::kNo, false));
  sync();
}

// A value computed from registers: every thread writes the elements that it owns.
void Strips::stage_tile(const Node& n, int k_axis, const Operand& to, const Space& space) {
  const int covered_rows = threads_ / columns_of_threads_ * space.high;
  const int covered_columns = columns_of_threads_ * space.wide;
  const int outer_covered = k_axis == 1 ? covered_rows : covered_columns;
  const int depth_covered = k_axis == 1 ? covered_columns : covered_rows;
  const Ty type = register_type(n.dtype);
  if (outer_covered < to.rows || depth_covered < to.depth) zero_operand(to, type);
  for_tile(space, n.shape, [&](const Point& at) {
    const Val value = eval(n.id, at)[0];
    const Val outer = at.at[static_cast<size_t>(1 - k_axis)];
    const Val k = at.at[static_cast<size_t>(k_axis)];
    Val room = outer_covered > to.rows ? outer < Val(to.rows) : Val();
    room = both(room, depth_covered > to.depth ? k < Val(to.depth) : Val());
    store_shared(at.guard.present() ? lanes::select(at.guard, value, zero_of(type)) : value,
                 operand_address(to, outer, k), room);
  });
}

// ---- the product -------------------------------------------------------------------------------

void Strips::product(const Node& n) {
  bool a_flipped = false, b_flipped = false;
  const ValueId a = strip_transpose(n.operands[0], &a_flipped);
  const ValueId b = strip_transpose(n.operands[1], &b_flipped);
  const auto left = operands_.find({a, a_flipped ? 0 : 1});
  const auto right = operands_.find({b, b_flipped ? 1 : 0});
  Space space;
  if (!space_of(n, n.shape, &space)) return;
  if (left == operands_.end() || right == operands_.end()) {
    fail(n, "an operand of a product has no place in shared memory",
         hint_of(node(left == operands_.end() ? a : b)),
         "a value of the same block or one around it");
    return;
  }
  if (mma_) land_all();
  const Fragment sum = make_fragment(n, space);
  if (n.operands.size() == 3) {
    fill_fragment(sum, n.operands[2], space);
  } else {
    const std::string s = index_.unique("s");
    emit(lanes::for_(s, 0, sum.count, 1,
                     {lanes::assign(sum.name, lanes::var(Ty::kI32, s), zero_of(sum.type))},
                     lanes::Unroll::kYes));
  }
  if (left->second.fragment.empty()) touch_operand(left->second, false);
  touch_operand(right->second, false);
  if (mma_) {
    start_next_step();
    multiply_mma(n, sum, space, left->second, right->second);
  } else {
    multiply(n, sum, space, left->second, right->second, size(node(n.operands[0]).shape[1]));
  }
  fragments_[n.id] = sum;
}

// sum += a b, four steps of k at a time.
void Strips::multiply(const Node&, const Fragment& sum, const Space& space, const Operand& a,
                      const Operand& b, const Val& depth) {
  const int down = threads_ / columns_of_threads_;
  const std::string k_name = index_.unique("k"), i_name = index_.unique("i"),
                    j_name = index_.unique("j"), step_name = index_.unique("step");
  const Val k = lanes::var(Ty::kI32, k_name), i = lanes::var(Ty::kI32, i_name),
            j = lanes::var(Ty::kI32, j_name), step = lanes::var(Ty::kI32, step_name);
  const Val a_base = name_value("a_base", operand_address(a, ty_, 0));
  const Val b_base = name_value("b_base", operand_address(b, tx_, 0));
  const auto load_four = [&](const std::string& array, const Val& first, const Val& base,
                             const Val& words) {
    lanes::Instr load;
    load.ins = Ins::kLdShared;
    load.results = {{array, first, kStep}};
    load.bytes = 16;
    load.args = {base + lanes::cast(Ty::kU32, words * Val(4))};
    emit(lanes::instr(std::move(load)));
  };
  lanes::Body body = scoped([&] {
    const std::string left = declare_array(sum.type, "a", space.high * kStep);
    const std::string right = declare_array(sum.type, "b", kStep);
    lanes::Body loads =
        scoped([&] { load_four(left, i * Val(kStep), a_base, i * Val(down * a.pitch) + k); });
    emit(lanes::for_(i_name, 0, space.high, 1, std::move(loads), lanes::Unroll::kYes));
    lanes::Body columns = scoped([&] {
      load_four(right, 0, b_base, j * Val(columns_of_threads_ * b.pitch) + k);
      const Val slot = i * Val(space.wide) + j;
      const Val x = lanes::elem(sum.type, left, i * Val(kStep) + step);
      const Val y = lanes::elem(sum.type, right, step);
      const Val old = lanes::elem(sum.type, sum.name, slot);
      const Val next = sum.type == Ty::kF32 ? lanes::fn(Fn::kFma, {x, y, old}) : old + x * y;
      lanes::Body steps = {lanes::assign(sum.name, slot, next)};
      lanes::Body rows = {
          lanes::for_(step_name, 0, kStep, 1, std::move(steps), lanes::Unroll::kYes)};
      emit(lanes::for_(i_name, 0, space.high, 1, std::move(rows), lanes::Unroll::kYes));
    });
    emit(lanes::for_(j_name, 0, space.wide, 1, std::move(columns), lanes::Unroll::kYes));
  });
  emit(lanes::for_(k_name, 0, depth, kStep, std::move(body)));
}

}  // namespace rooftile::codegen
