// SPDX-License-Identifier: Apache-2.0
// Products by tensor cores in the strips way: mma.sync m16n8k16 (i8: k32) on operands that threads
// have brought into shared memory, whatever their alignment, and read by ldmatrix.
//
// Warps form a grid over the tile; a lane owns the places of the accumulator fragment: rows r and
// r + 8 of each block of 16, columns 2q and 2q + 1 of each block of 8. An operand keeps the order
// it has in memory: along k it is read as it lies, across k by ldmatrix.trans. Rows are an odd
// number of 16-byte pieces apart, so that eight of them meet every bank once. What a tile does not
// fill is zero. A left operand that is computed from registers never leaves them: the accumulator
// fragment of one product, packed, is the left fragment of the next.
//
// Loads go to registers first and from there to shared memory where a product needs them. In a loop
// without stores the next step's loads start before this step's product, and are on their way
// meanwhile.
#include <algorithm>

#include "rooftile/codegen/gpu/strips.h"

namespace rooftile::codegen {

using ir::Node;
using ir::Op;
using lanes::Ins;
using lanes::Ty;
using lanes::Unroll;
using lanes::Val;

namespace {

constexpr int kRows = 16, kColumns = 8;  // of one instruction
constexpr int kStepBytes = 32;           // of k, one instruction
constexpr int kPiece = 16;               // bytes of a row that one lane names to ldmatrix
constexpr int kGroup = 8;                // registers of those that do not wait for their product
constexpr int kMostInFlight = 48;        // registers of a thread for operands on their way

int round_up(int a, int b) { return (a + b - 1) / b * b; }
int ceil_of(int a, int b) { return (a + b - 1) / b; }
Val both(const Val& a, const Val& b) { return !a.present() ? b : !b.present() ? a : a && b; }
Val u32(const Val& v) { return lanes::cast(Ty::kU32, v); }

// Rows of another number of vectors than a power of two: the place of each item is worth keeping
// to the compiler, and there are no registers for it.
bool has_odd_rows(int vectors) { return (vectors & (vectors - 1)) != 0; }

}  // namespace

// ---- who owns what -----------------------------------------------------------------------------

// Whether the plan gives products of this phase to tensor cores; all of them or none.
bool Strips::wants_tensor_cores() {
  std::vector<ValueId> by_mma, others;
  const auto visit = [&](auto&& self, const ir::Block& b) -> void {
    for (ValueId id : b.nodes) {
      const Node& n = node(id);
      if (n.op == Op::kMma) {
        const auto how = plan_.product.find(n.label);
        const bool mma = how != plan_.product.end() && how->second.unit == gpu::Unit::kMmaSync;
        (mma ? by_mma : others).push_back(id);
      }
      self(self, n.block);
    }
  };
  visit(visit, phase_.block);
  for (ValueId id : by_mma) {
    const DType dtype = node(node(id).operands[0]).dtype;
    if (dtype != DType::kBf16 && dtype != DType::kF16 && dtype != DType::kI8)
      fail(node(id), "mma.sync has no such operands", std::string(rooftile::name(dtype)),
           "bf16, f16 or i8", "unit fma");
    if (!others.empty())
      fail(node(others[0]), "products of a phase by more than one unit", hint_of(node(others[0])),
           "mma.sync for all of them, or for none");
  }
  return !by_mma.empty();
}

// Rows that are reduced stay in one warp. Else the grid of warps that covers the tallest and widest
// product with the least waste, and reads the fewest operands.
void Strips::choose_grid_of_warps(const ir::Block& block) {
  int rows = 1, columns = 1;
  bool reduces = false;
  const auto visit = [&](auto&& self, const ir::Block& b) -> void {
    for (ValueId id : b.nodes) {
      const Node& n = node(id);
      reduces |= n.op == Op::kReduce && node(n.operands[0]).rank() == 2 && n.axis == 1;
      if (n.op == Op::kMma) {
        rows = std::max(rows, static_cast<int>(most(n.shape[0]).value_or(1)));
        columns = std::max(columns, static_cast<int>(most(n.shape[1]).value_or(1)));
      }
      self(self, n.block);
    }
  };
  visit(visit, block);
  int best = 1;
  int64_t least = -1;
  for (int across = 1; across <= warps() && (across == 1 || !reduces); across *= 2) {
    if (warps() % across != 0) continue;
    const int64_t high = round_up(rows, kRows * (warps() / across)) / (warps() / across);
    const int64_t wide = round_up(columns, kColumns * across) / across;
    const int64_t cost = high * wide * 1024 + high + wide;
    if (least < 0 || cost < least) {
      least = cost;
      best = across;
    }
  }
  columns_of_threads_ = 4 * best;
  const Val down = lanes::floor_div(warp(), Val(best)), right = lanes::floor_mod(warp(), Val(best));
  ty_ = declare(Ty::kI32, "first_row", down * Val(kRows) + lanes::floor_div(lane(), Val(4)));
  tx_ = declare(Ty::kI32, "first_column",
                right * Val(kColumns) + lanes::floor_mod(lane(), Val(4)) * Val(2));
  note("warps " + std::to_string(warps() / best) + " x " + std::to_string(best) + ", mma.sync");
}

// ---- operands ----------------------------------------------------------------------------------

Strips::Operand Strips::mma_operand(const Node& n, int k_axis, const Role& role,
                                    const Space& space) const {
  const int down = threads_ / columns_of_threads_;
  Operand to;
  to.element_bytes = size_bytes(n.dtype);
  const int outer = k_axis == 1 ? space.rows : space.columns;
  const int step = kStepBytes / to.element_bytes, piece = kPiece / to.element_bytes;
  to.depth = round_up(k_axis == 1 ? space.columns : space.rows, step);
  if (role.left) to.rows = round_up(outer, 2 * down);
  if (role.right) to.rows = std::max(to.rows, round_up(outer, 2 * columns_of_threads_));
  const int fast_axis = n.op == Op::kLoad ? n.region.back().tile_axis : n.rank() - 1;
  // ldmatrix transposes 16-bit elements only.
  to.k_fast = fast_axis == k_axis || to.element_bytes == 1;
  const int fast = to.k_fast ? to.depth : round_up(to.rows, piece);
  to.pitch = fast + (fast / piece % 2 == 0 ? piece : 0);
  return to;
}

Val Strips::mma_address(const Operand& operand, const Val& outer, const Val& k) const {
  const Val element =
      operand.k_fast ? outer * Val(operand.pitch) + k : k * Val(operand.pitch) + outer;
  return lanes::shared("tiles") +
         u32(element * Val(operand.element_bytes) + Val(static_cast<int>(operand.offset)));
}

// An element in the form that packing rounds once.
Val Strips::operand_element(const Node& n, const Point& at) {
  const bool rounds = n.op == Op::kCast && is_float(n.dtype) && is_float(node(n.operands[0]).dtype);
  const Val value = eval(rounds ? n.operands[0] : n.id, at)[0];
  if (!at.guard.present()) return value;
  return lanes::select(at.guard, value,
                       value.type() == Ty::kF32 ? lanes::f32(0) : lanes::int_val(value.type(), 0));
}

// A load in memory order: elements of a vector, vectors of a thread.
Strips::Flight Strips::flight_of(const Node& n, int k_axis, const Operand& to) {
  Flight f;
  f.id = n.id;
  f.k_axis = k_axis;
  f.to = to;
  const bool load = n.op == Op::kLoad;
  f.k_is_fast = (load ? n.region.back().tile_axis : n.rank() - 1) == k_axis;
  if (load && f.k_is_fast == to.k_fast)
    f.width = vector_for_staging(n, f.k_is_fast ? k_axis : 1 - k_axis, to, f.k_is_fast);
  f.words = f.width == 1 ? 1 : f.width * to.element_bytes / 4;
  f.fast = (f.k_is_fast ? to.depth : to.rows) / f.width;
  f.total = f.fast * (f.k_is_fast ? to.rows : to.depth);
  f.items = ceil_of(f.total, threads_);
  return f;
}

// Where in the operand item `s` of this thread lies, and whether there is one.
Val Strips::place_of(const Flight& f, const Val& s, Val* outer, Val* k) {
  const Val e = name_value("e", tid() + s * Val(threads_));
  const Val slow = name_value("slow", lanes::floor_div(e, Val(f.fast)));
  const Val quick = name_value("quick", lanes::floor_mod(e, Val(f.fast)) * Val(f.width));
  *outer = f.k_is_fast ? slow : quick;
  *k = f.k_is_fast ? quick : slow;
  return e < Val(f.total);
}

// Items [first, first + count) into registers 0.. of the flight; zeros beyond the tile. `n` may be
// the load of another step.
void Strips::take_off(const Flight& f, const Node& n, const Val& first, int count) {
  const Val extents[2] = {size(n.shape[0]), size(n.shape[1])};
  prepare(n);
  const std::string s_name = index_.unique("s");
  const Val s = lanes::var(Ty::kI32, s_name);
  lanes::Body body = scoped([&] {
    Val outer, k;
    place_of(f, first + s, &outer, &k);
    Point at;
    at.at = f.k_axis == 1 ? std::vector<Val>{outer, k} : std::vector<Val>{k, outer};
    at.width = f.width;
    at.guard = name_value("inside", at.at[0] < extents[0] && at.at[1] < extents[1]);
    if (n.op != Op::kLoad) {
      emit(lanes::assign(f.raw, s, pack_elements(n.dtype, {operand_element(n, at)}, 1, 0)));
      return;
    }
    lanes::Instr load = access(n, Ins::kLdGlobal, at, 0, f.width);
    const Ty type = raw_registers(n.dtype, f.width).type;
    if (type != Ty::kU32) {  // a single i8
      const Val one = declare(type, hint_of(n) + "_raw", lanes::int_val(type, 0));
      load.results = {{one->name, Val(), 1}};
      emit(lanes::instr(std::move(load)));
      emit(lanes::assign(f.raw, s, u32(one)));
      return;
    }
    for (int w = 0; w < f.words; ++w)
      emit(lanes::assign(f.raw, s * Val(f.words) + Val(w), lanes::int_val(Ty::kU32, 0)));
    load.results = {{f.raw, s * Val(f.words), f.words}};
    emit(lanes::instr(std::move(load)));
  });
  emit(lanes::for_(s_name, 0, count, 1, std::move(body), Unroll::kYes));
}

void Strips::land(const Flight& f, const Val& first, int count) {
  const std::string s_name = index_.unique("s");
  const Val s = lanes::var(Ty::kI32, s_name);
  lanes::Body body = scoped([&] {
    Val outer, k;
    lanes::Instr store;
    store.ins = Ins::kStShared;
    const Val exists = place_of(f, first + s, &outer, &k);
    if (f.total % threads_ != 0 || f.items % count != 0) store.guard = exists;
    store.regs = {{f.raw, s * Val(f.words), f.words}};
    store.bytes = f.width * f.to.element_bytes;
    store.args = {mma_address(f.to, outer, k)};
    emit(lanes::instr(std::move(store)));
  });
  emit(lanes::for_(s_name, 0, count, 1, std::move(body), Unroll::kYes));
}

void Strips::touch_operand(const Operand& operand, bool write) {
  touch_shared(operand.offset, operand.offset + operand.bytes(), write);
}

bool Strips::fits_in_air(const Flight& f) const {
  if (f.width == 1 && has_odd_rows(f.fast)) return false;
  int registers = f.items * f.words;
  for (const Flight& other : in_air_) registers += other.items * other.words;
  return registers <= kMostInFlight;
}

// A value that needs nothing from other threads' registers.
void Strips::stage_flight(const Node& n, int k_axis, const Operand& to) {
  if (n.op == Op::kLoad) check_fresh(n);
  for (Flight& f : in_air_)  // started a step ahead
    if (f.id == n.id && f.k_axis == k_axis) {
      f.lands = true;
      return;
    }
  Flight f = flight_of(n, k_axis, to);
  const bool waits = fits_in_air(f);
  const int most = waits ? f.items : std::clamp(kGroup / f.words, 1, f.items);
  f.raw = declare_array(Ty::kU32, hint_of(n) + "_staged", most * f.words);
  if (waits) {
    take_off(f, n, 0, f.items);
    f.lands = true;
    in_air_.push_back(f);
    return;
  }
  touch_operand(to, true);
  const std::string first = index_.unique("first");
  lanes::Body body = scoped([&] {
    take_off(f, n, lanes::var(Ty::kI32, first), most);
    land(f, lanes::var(Ty::kI32, first), most);
  });
  emit(lanes::for_(first, 0, round_up(f.items, most), most, std::move(body)));
}

// Whatever this step has on its way goes to shared memory; what the next step will need of it
// starts.
void Strips::land_all() {
  std::vector<Flight> staying;
  for (Flight& f : in_air_) {
    if (!f.lands) {
      staying.push_back(f);
      continue;
    }
    touch_operand(f.to, true);
    land(f, 0, f.items);
    if (!f.ahead) continue;
    f.lands = false;
    staying.push_back(f);
  }
  in_air_ = std::move(staying);
}

// Loads of a loop that can start a step ahead: of products only, from where nothing is stored, and
// named by the loop's variable and what does not change.
std::vector<ValueId> Strips::loads_ahead(const Node& loop) const {
  std::vector<ValueId> out;
  for (ValueId id : loop.block.nodes) {
    const Node& n = node(id);
    if (n.op == Op::kStore || !n.block.nodes.empty()) return {};
    if (n.op != Op::kLoad || n.rank() != 2 || !uses_.operand_only(id)) continue;
    const bool looked_up =
        std::any_of(n.region.begin(), n.region.end(),
                    [](const ir::DimIndex& dim) { return dim.kind == ir::DimIndex::kIndirect; });
    if (!looked_up) out.push_back(id);
  }
  return out;
}

Node Strips::at_step(const Node& n, const Node& loop, const Expr& value) const {
  const std::map<std::string, Expr, std::less<>> values = {{loop.name, value}};
  Node out = n;
  for (Expr& extent : out.shape) extent = substitute(extent, values);
  for (ir::DimIndex& dim : out.region) {
    dim.begin = substitute(dim.begin, values);
    dim.extent = substitute(dim.extent, values);
  }
  return out;
}

// Ahead of the loop: the first step's loads. Their places in shared memory are those of every step.
void Strips::start_ahead(const Node& loop) {
  if (!stored_.empty()) return;  // what was stored might be what is loaded
  for (ValueId id : loads_ahead(loop)) {
    const Node& n = node(id);
    std::map<int, Role> roles;
    roles_of(id, false, &roles);
    Space space;
    if (roles.size() != 1 || !space_of(n, at_step(n, loop, loop.begin).shape, &space)) continue;
    const auto& [k_axis, role] = *roles.begin();
    Operand to = mma_operand(n, k_axis, role, space);
    Flight f = flight_of(n, k_axis, to);
    if (!fits_in_air(f)) continue;
    f.to.offset = allocate(to.bytes());
    f.ahead = true;
    f.raw = declare_array(Ty::kU32, hint_of(n) + "_staged", f.items * f.words);
    in_air_.push_back(f);
    note("ahead of its step: " + hint_of(n));
    loop_ahead_ = &loop;
  }
  if (loop_ahead_ == &loop) fly_ahead(loop.begin);
}

// In the loop, once this step's operands have landed.
void Strips::start_next_step() {
  if (loop_ahead_ == nullptr) return;
  fly_ahead(Expr::sym(loop_ahead_->name) + loop_ahead_->step);
  loop_ahead_ = nullptr;  // once a step
}

void Strips::fly_ahead(const Expr& step) {
  const Val exists = size(step) < size(loop_ahead_->end);
  lanes::Body body = scoped([&] {
    for (const Flight& f : in_air_)
      if (f.ahead) take_off(f, at_step(node(f.id), *loop_ahead_, step), 0, f.items);
  });
  emit(lanes::if_(exists, std::move(body), {}, true));
}

// ---- operands from registers -------------------------------------------------------------------

// Whether a left operand stays in registers: its rows lie in one warp, and whole steps of k in it.
bool Strips::keeps_fragment(const Node& n, int k_axis, const Role& role, const Operand& to) const {
  return role.left && !role.right && k_axis == 1 && columns_of_threads_ == 4 &&
         to.element_bytes == 2 && to.depth % (2 * kColumns) == 0 && has_fragment(n.id);
}

// Runs `each` for every two neighbours of a row that a lane owns: rows i, columns 2 jj, 2 jj + 1.
void Strips::for_pairs(const Space& space,
                       const std::function<void(const Val&, const Val&, Point, Point)>& each) {
  const std::string i_name = index_.unique("i"), j_name = index_.unique("j");
  const Val i = lanes::var(Ty::kI32, i_name), jj = lanes::var(Ty::kI32, j_name);
  lanes::Body rows = scoped([&] {
    const Val row = name_value("row", row_at(i));
    lanes::Body columns = scoped([&] {
      Point pair[2];
      for (int e = 0; e < 2; ++e) {
        const Val j = jj * Val(2) + Val(e);
        Point& at = pair[e];
        at.at = {row, name_value("column", column_at(j))};
        at.row_slot = i;
        at.slot = slot_of(i, j, space);
        at.guard = name_value("inside", row < space.row_extent && at.at[1] < space.column_extent);
      }
      each(i, jj, pair[0], pair[1]);
    });
    emit(lanes::for_(j_name, 0, space.wide / 2, 1, std::move(columns), Unroll::kYes));
  });
  emit(lanes::for_(i_name, 0, space.high, 1, std::move(rows), Unroll::kYes));
}

// The left fragment of the instruction: registers (row half) + 2 (k half) of each step.
void Strips::pack_fragment(const Node& n, Operand& to, const Space& space) {
  const int steps = to.depth / (2 * kColumns);
  to.fragment = declare_array(Ty::kU32, hint_of(n) + "_left", space.high / 2 * steps * 4);
  for_pairs(space, [&](const Val& i, const Val& jj, const Point& first, const Point& second) {
    const Val step = lanes::floor_div(i, Val(2)) * Val(steps) + lanes::floor_div(jj, Val(2));
    const Val reg = lanes::floor_mod(i, Val(2)) + lanes::floor_mod(jj, Val(2)) * Val(2);
    emit(lanes::assign(
        to.fragment, step * Val(4) + reg,
        pack_elements(n.dtype, {operand_element(n, first), operand_element(n, second)}, 2, 0)));
  });
}

// Every thread writes the elements that it owns, two neighbours of a row at a time where the row
// lies as it does in memory.
void Strips::spill_fragment(const Node& n, int k_axis, const Operand& to, const Space& space) {
  const int down = threads_ / columns_of_threads_;
  const int covered[2] = {down * space.high, columns_of_threads_ * space.wide};
  const int outer_room = covered[1 - k_axis], k_room = covered[k_axis];
  if (outer_room < to.rows || k_room < to.depth) zero_operand(to, Ty::kI32);
  const bool pairs = to.element_bytes == 2 && to.k_fast == (k_axis == 1);
  for_pairs(space, [&](const Val&, const Val&, const Point& first, const Point& second) {
    const Val values[2] = {operand_element(n, first), operand_element(n, second)};
    for (int e = 0; e < 2; e += pairs ? 2 : 1) {
      const Point& at = e == 0 ? first : second;
      const Val outer = at.at[static_cast<size_t>(1 - k_axis)];
      const Val k = at.at[static_cast<size_t>(k_axis)];
      Val room = outer_room > to.rows ? outer < Val(to.rows) : Val();
      room = both(room, k_room > to.depth ? k < Val(to.depth) : Val());
      const Val word = pairs ? pack_elements(n.dtype, {values[0], values[1]}, 2, 0)
                             : pack_elements(n.dtype, {values[e]}, 1, 0);
      const Val source = declare(word.type(), "mine", word);
      lanes::Instr store;
      store.ins = Ins::kStShared;
      store.guard = room;
      store.regs = {{source->name, Val(), 1}};
      store.bytes = pairs ? 4 : to.element_bytes;
      store.args = {mma_address(to, outer, k)};
      emit(lanes::instr(std::move(store)));
    }
  });
}

void Strips::stage_mma(const Node& n, int k_axis, const Role& role, const Space& space) {
  for (const Flight& f : in_air_)
    if (f.id == n.id && f.k_axis == k_axis) {
      operands_[{n.id, k_axis}] = f.to;
      return stage_flight(n, k_axis, f.to);
    }
  Operand to = mma_operand(n, k_axis, role, space);
  if (keeps_fragment(n, k_axis, role, to) && to.depth == columns_of_threads_ * space.wide) {
    pack_fragment(n, to, space);
    operands_[{n.id, k_axis}] = to;
    return;
  }
  to.offset = allocate(to.bytes());
  operands_[{n.id, k_axis}] = to;
  note("shared " + hint_of(n) + ": " + shape_key(n.shape) + ", " + std::to_string(to.bytes()) +
       " bytes");
  if (has_fragment(n.id)) {
    touch_operand(to, true);
    spill_fragment(n, k_axis, to, space);
  } else {
    stage_flight(n, k_axis, to);
  }
}

// ---- the product -------------------------------------------------------------------------------

// What a lane names to ldmatrix: a row of the 8x8 matrix lane / 8. Of a left operand the four are
// rows 0 and 8, then the same 16 bytes of k further; of a right one 0 and 16 bytes of k, then the
// block of columns behind.
Val Strips::lane_address(const Operand& operand, const Val& first_outer, bool left, int apart) {
  const int k_half = kPiece / operand.element_bytes;  // elements
  const Val in = lanes::floor_mod(lane(), Val(8)), m = lanes::floor_div(lane(), Val(8));
  const Val low = lanes::floor_mod(m, Val(2)), high = lanes::floor_div(m, Val(2));
  // left: rows low, k high. right: k low, blocks of columns high.
  const Val outer_block = first_outer + (left ? low * Val(8) : high * Val(apart));
  const Val k_block = (left ? high : low) * Val(k_half);
  return operand.k_fast ? mma_address(operand, outer_block + in, k_block)
                        : mma_address(operand, outer_block, k_block + in);
}

// sum += a b, one step of k after the other; a warp's rows and columns in registers.
void Strips::multiply_mma(const Node& n, const Fragment& sum, const Space& space, const Operand& a,
                          const Operand& b) {
  const DType dtype = node(n.operands[0]).dtype;
  const int down = threads_ / columns_of_threads_;
  const int step = kStepBytes / size_bytes(dtype);
  const int steps = std::min(a.depth, b.depth) / step;
  const int row_blocks = space.high / 2, column_blocks = space.wide / 2;
  const int across = 2 * columns_of_threads_;  // from a block of columns of a warp to its next
  const Val warp_row = lanes::floor_div(warp(), Val(columns_of_threads_ / 4)) * Val(kRows);
  const Val warp_column = lanes::floor_mod(warp(), Val(columns_of_threads_ / 4)) * Val(kColumns);
  const bool a_in_registers = !a.fragment.empty();
  const Val a_base =
      a_in_registers ? Val() : name_value("a_base", lane_address(a, warp_row, true, 0));
  const Val b_base = name_value("b_base", lane_address(b, warp_column, false, across));
  const auto moved = [&](const Operand& operand, const Val& base, const Val& outer, const Val& k) {
    const Val element =
        operand.k_fast ? outer * Val(operand.pitch) + k : k * Val(operand.pitch) + outer;
    return base + u32(element * Val(operand.element_bytes));
  };
  const auto load = [&](const Operand& operand, const std::string& reg, const Val& first,
                        const Val& address, int matrices) {
    lanes::Instr i;
    i.ins = Ins::kLdMatrix;
    i.n = matrices;
    i.trans_a = !operand.k_fast;
    i.results = {{reg, first, matrices}};
    i.args = {address};
    emit(lanes::instr(std::move(i)));
  };
  const std::string kk_name = index_.unique("step"), i_name = index_.unique("i");
  const Val kk = lanes::var(Ty::kI32, kk_name), i = lanes::var(Ty::kI32, i_name);
  const auto columns = [&](const std::string& left, const std::string& right, const Val& first,
                           int count) {
    const Val k = kk * Val(step);
    load(b, right, 0, moved(b, b_base, first * Val(across), k), 2 * count);
    lanes::Body rows = scoped([&] {
      for (int c = 0; c < count; ++c) {
        const Val slot = (i * Val(column_blocks) + (first + Val(c))) * Val(4);
        lanes::Instr mma;
        mma.ins = Ins::kMmaSync;
        mma.dtype = dtype;
        mma.results = {{sum.name, slot, 4}};
        const Val at = a_in_registers ? (i * Val(a.depth / step) + kk) * Val(4) : i * Val(4);
        mma.regs = {{left, at, 4}, {right, Val(2 * c), 2}, {sum.name, slot, 4}};
        emit(lanes::instr(std::move(mma)));
      }
    });
    emit(lanes::for_(i_name, 0, row_blocks, 1, std::move(rows), Unroll::kYes));
  };
  lanes::Body body = scoped([&] {
    std::string left = a.fragment;
    if (!a_in_registers) {
      left = declare_array(Ty::kU32, "a", 4 * row_blocks);
      lanes::Body loads = scoped([&] {
        load(a, left, i * Val(4), moved(a, a_base, i * Val(2 * down), kk * Val(step)), 4);
      });
      emit(lanes::for_(i_name, 0, row_blocks, 1, std::move(loads), Unroll::kYes));
    }
    const std::string right = declare_array(Ty::kU32, "b", 4);
    const std::string j_name = index_.unique("j");
    const Val j = lanes::var(Ty::kI32, j_name);
    lanes::Body two = scoped([&] { columns(left, right, j * Val(2), 2); });
    emit(lanes::for_(j_name, 0, column_blocks / 2, 1, std::move(two), Unroll::kYes));
    if (column_blocks % 2 != 0) columns(left, right, column_blocks - 1, 1);
  });
  emit(lanes::for_(kk_name, 0, steps, 1, std::move(body), Unroll::kYes));
}

}  // namespace rooftile::codegen
