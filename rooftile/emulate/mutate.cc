// SPDX-License-Identifier: Apache-2.0
#include "rooftile/emulate/mutate.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "rooftile/lanes/program_text.h"

namespace rooftile::emulate {
namespace {

using lanes::Body;
using lanes::Fn;
using lanes::Ins;
using lanes::Instr;
using lanes::Program;
using lanes::Stmt;
using lanes::StmtKind;
using lanes::Ty;
using lanes::Val;
using lanes::ValKind;

// The body with a mistake at statement i, if the mistake can be made there.
using Edit = std::function<std::optional<Body>(const Body& body, size_t i)>;

bool is_instr(const Stmt& s, std::initializer_list<Ins> kinds) {
  return s.kind == StmtKind::kInstr &&
         std::find(kinds.begin(), kinds.end(), s.instr.ins) != kinds.end();
}

// An instruction among `kinds`, itself or inside.
bool contains(const Stmt& s, std::initializer_list<Ins> kinds) {
  const auto in = [&](const Body& body) {
    return std::any_of(body.begin(), body.end(), [&](const Stmt& x) { return contains(x, kinds); });
  };
  return is_instr(s, kinds) || in(s.body) || in(s.orelse);
}

Edit drop(std::initializer_list<Ins> kinds) {
  return [kinds = std::vector<Ins>(kinds)](const Body& body, size_t i) -> std::optional<Body> {
    if (body[i].kind != StmtKind::kInstr ||
        std::find(kinds.begin(), kinds.end(), body[i].instr.ins) == kinds.end())
      return std::nullopt;
    Body out = body;
    out.erase(out.begin() + static_cast<std::ptrdiff_t>(i));
    return out;
  };
}

// Changes an instruction of kind `ins`; `change` says whether it did.
template <class Change>
Edit change_instr(Ins ins, Change change) {
  return [=](const Body& body, size_t i) -> std::optional<Body> {
    if (!is_instr(body[i], {ins})) return std::nullopt;
    Body out = body;
    if (!change(out[i].instr)) return std::nullopt;
    return out;
  };
}

Edit add_to_arg(Ins ins, size_t arg, int by) {
  return change_instr(ins, [=](Instr& i) {
    i.args[arg] = i.args[arg] + lanes::int_val(i.args[arg].type(), by);
    return !i.args[arg].is_int(0);  // a barrier of no arrivals is no barrier
  });
}

Edit flip_arg(Ins ins, size_t arg) {
  return change_instr(ins, [=](Instr& i) {
    const Val& old = i.args[arg];
    i.args[arg] = lanes::fn(Fn::kXor, {old, lanes::int_val(old.type(), 1)});
    return true;
  });
}

// A plain store to what somebody waits for: its rewinding, missing.
std::optional<Body> drop_rewind(const Body& body, size_t i) {
  if (!is_instr(body[i], {Ins::kStGlobal})) return std::nullopt;
  const std::string& tensor = body[i].instr.global.tensor;
  if (std::none_of(body.begin(), body.end(), [&](const Stmt& s) {
        return is_instr(s, {Ins::kWaitGlobal}) && s.instr.global.tensor == tensor;
      }))
    return std::nullopt;
  Body out = body;
  out.erase(out.begin() + static_cast<std::ptrdiff_t>(i));
  return out;
}

// Arrivals that stand after a wait, moved before it.
std::optional<Body> early_release(const Body& body, size_t i) {
  if (!contains(body[i], {Ins::kBarArrive, Ins::kBarArriveRemote, Ins::kBarArriveRemoteRelease,
                          Ins::kNamedArrive}))
    return std::nullopt;
  for (size_t wait = i; wait-- > 0;) {
    if (!is_instr(body[wait], {Ins::kWgmmaWait, Ins::kBulkWaitRead, Ins::kBulkWait, Ins::kCpWait}))
      continue;
    Body out = body;
    std::rotate(out.begin() + static_cast<std::ptrdiff_t>(wait),
                out.begin() + static_cast<std::ptrdiff_t>(i),
                out.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return out;
  }
  return std::nullopt;
}

// The first comparison of a guard, loosened.
Val loosened(const Val& v, bool& done) {
  if (v->kind != ValKind::kFn || done) return v;
  if (v->fn == Fn::kLt) {
    done = true;
    return lanes::fn(Fn::kLe, v->args);
  }
  std::vector<Val> args;
  args.reserve(v->args.size());
  for (const Val& arg : v->args) args.push_back(loosened(arg, done));
  return done ? lanes::fn(v->fn, v.type(), std::move(args)) : v;
}

std::optional<Body> guard_edit(const Body& body, size_t i, bool drop_it) {
  if (body[i].kind != StmtKind::kInstr || !body[i].instr.guard.present()) return std::nullopt;
  Body out = body;
  Val& guard = out[i].instr.guard;
  bool done = drop_it;
  guard = drop_it ? Val() : loosened(guard, done);
  return done ? std::optional(out) : std::nullopt;
}

Edit loop_edit(int by) {
  return [=](const Body& body, size_t i) -> std::optional<Body> {
    if (body[i].kind != StmtKind::kFor || body[i].unroll == lanes::Unroll::kYes)
      return std::nullopt;
    Body out = body;
    out[i].end = by > 0 ? out[i].end + out[i].step : out[i].end - out[i].step;
    return out;
  };
}

// ---- edits of values, wherever they stand

using Rewrite = std::function<Val(const Val&)>;  // absent: keep

Val rewritten(const Val& v, const Rewrite& rewrite) {
  if (!v.present()) return v;
  if (Val out = rewrite(v); out.present()) return out;
  if (v->kind != ValKind::kFn) return v;
  std::vector<Val> args;
  args.reserve(v->args.size());
  for (const Val& arg : v->args) args.push_back(rewritten(arg, rewrite));
  return lanes::fn(v->fn, v.type(), std::move(args));
}

void rewrite_all(Body& body, const Rewrite& rewrite) {
  for (Stmt& s : body) {
    for (Val* v : {&s.value, &s.begin, &s.end, &s.step, &s.instr.guard})
      *v = rewritten(*v, rewrite);
    for (Val& arg : s.instr.args) arg = rewritten(arg, rewrite);
    rewrite_all(s.body, rewrite);
    rewrite_all(s.orelse, rewrite);
  }
}

// A descriptor with another swizzle.
std::optional<Body> descriptor_edit(const Body& body, size_t i) {
  if (!is_instr(body[i], {Ins::kWgmma})) return std::nullopt;
  Body out = body;
  bool done = false;
  const Rewrite swap = [&](const Val& v) -> Val {
    if (done || v->kind != ValKind::kFn || v->fn != Fn::kMatrixDesc) return {};
    done = true;
    std::vector<Val> args = v->args;
    args[3] = lanes::int_val(args[3].type(), args[3]->integer ^ 1);
    return lanes::fn(Fn::kMatrixDesc, std::move(args));
  };
  for (Val& arg : out[i].instr.args) arg = rewritten(arg, swap);
  return done ? std::optional(out) : std::nullopt;
}

bool touches_tensor(const Stmt& s) {
  return is_instr(s, {Ins::kLdGlobal, Ins::kStGlobal, Ins::kRedGlobal, Ins::kCpAsync});
}

// `from_end`: 0 the innermost dimension, 1 the one outside it.
Edit index_edit(size_t from_end, const std::function<Val(const Val&, int width)>& change) {
  return [=](const Body& body, size_t i) -> std::optional<Body> {
    if (!touches_tensor(body[i])) return std::nullopt;
    Body out = body;
    lanes::GlobalRef& ref = out[i].instr.global;
    if (from_end >= ref.index.size()) return std::nullopt;
    Val& index = ref.index[ref.index.size() - 1 - from_end];
    const Val changed = change(index, ref.width);
    if (!changed.present()) return std::nullopt;
    index = changed;
    return out;
  };
}

Edit stores_only(const Edit& edit) {
  return [edit](const Body& body, size_t i) {
    return is_instr(body[i], {Ins::kStGlobal}) ? edit(body, i) : std::nullopt;
  };
}

Val one_more(const Val& index, int width) { return index + lanes::int_val(index.type(), width); }
Val narrow(const Val& index, int) {
  if (index.type() != Ty::kI64 || index->kind == ValKind::kInt) return {};
  return lanes::cast(Ty::kI64, lanes::cast(Ty::kI32, index));
}
// Neighbours become one.
Val folded(const Val& index, int width) {
  if (index->kind == ValKind::kInt) return {};
  const Val two = lanes::int_val(index.type(), int64_t{2} * width);
  return lanes::floor_div(index, two) * two;
}

// A 64-bit sum or product, outermost first, computed in 32 bits.
std::optional<Body> narrow_arithmetic(const Body& body, size_t i) {
  if ((body[i].kind != StmtKind::kDecl && body[i].kind != StmtKind::kAssign) ||
      !body[i].value.present())
    return std::nullopt;
  bool done = false;
  Body out = body;
  out[i].value = rewritten(body[i].value, [&](const Val& v) -> Val {
    if (done) return v;
    if (v->kind != ValKind::kFn || v.type() != Ty::kI64 || (v->fn != Fn::kMul && v->fn != Fn::kAdd))
      return {};
    done = true;
    std::vector<Val> args;
    for (const Val& arg : v->args) args.push_back(lanes::cast(Ty::kI32, arg));
    return lanes::cast(Ty::kI64, lanes::fn(v->fn, std::move(args)));
  });
  return done ? std::optional(out) : std::nullopt;
}

std::optional<Body> swapped_operands(const Body& body, size_t i) {
  if (!is_instr(body[i], {Ins::kWgmma})) return std::nullopt;
  Body out = body;
  Instr& product = out[i].instr;
  if (product.args.size() == 3)
    std::swap(product.args[1], product.args[2]);
  else if (size_bytes(product.dtype) == 2)
    product.trans_b = !product.trans_b;
  else
    return std::nullopt;
  return out;
}

std::optional<Body> folded_layout(const Body& body, size_t i) {
  if (!is_instr(body[i], {Ins::kStShared, Ins::kStMatrix})) return std::nullopt;
  Body out = body;
  Val& address = out[i].instr.args[0];
  address = lanes::fn(Fn::kAnd, {address, lanes::int_val(Ty::kU32, 0xffffffff ^ 16)});
  return out;
}

// The statements of a branch that has no other side, done by all.
std::optional<Body> dropped_branch(const Body& body, size_t i) {
  if (body[i].kind != StmtKind::kIf || !body[i].orelse.empty()) return std::nullopt;
  if (!contains(body[i], {Ins::kStGlobal, Ins::kStShared, Ins::kBarArrive, Ins::kBarArriveRemote,
                          Ins::kBarExpect, Ins::kTmaStore}))
    return std::nullopt;
  Body out = body;
  out[i].value = lanes::pred(true);
  return out;
}

// ---- edits of the whole program

// Bytes of one slot of an allocation that copies fill, 0 if none do or there is only one.
int64_t slot_bytes(const Body& body, const lanes::SharedAlloc& alloc) {
  for (const Stmt& s : body) {
    if (is_instr(s, {Ins::kTmaLoad, Ins::kTmaLoadMulticast, Ins::kBulkLoad})) {
      bool here = false;
      rewritten(s.instr.args[0], [&](const Val& v) -> Val {
        here |= v->kind == ValKind::kShared && v->name == alloc.name;
        return {};
      });
      if (here) return s.instr.bytes < alloc.bytes ? s.instr.bytes : 0;
    }
    for (const Body* inner : {&s.body, &s.orelse})
      if (const int64_t bytes = slot_bytes(*inner, alloc); bytes > 0) return bytes;
  }
  return 0;
}

// Addresses into `alloc` wrap one slot early.
Program shallow_ring(Program program, const std::string& alloc, int64_t bytes) {
  rewrite_all(program.body, [&](const Val& v) -> Val {
    if (v->kind != ValKind::kFn || v->fn != Fn::kAdd || v->type != Ty::kU32) return {};
    bool inside = false;
    const Val offset = rewritten(v, [&](const Val& x) -> Val {
      if (x->kind != ValKind::kShared || x->name != alloc) return {};
      inside = true;
      return lanes::int_val(Ty::kU32, 0);
    });
    if (!inside) return {};
    return lanes::shared(alloc) + floor_mod(offset, lanes::int_val(Ty::kU32, bytes));
  });
  return program;
}

struct Kind {
  Mutation mutation;
  Edit edit;
};

std::vector<Kind> kinds() {
  const auto bytes = [](int by) {
    return change_instr(Ins::kBarExpect, [by](Instr& i) {
      i.bytes += by;
      return i.bytes > 0;
    });
  };
  const auto leave_more = [](Ins ins) {
    return change_instr(ins, [](Instr& i) {
      ++i.n;
      return true;
    });
  };
  std::vector<Kind> out = {
      {Mutation::kDropProxyFence, drop({Ins::kProxyFence})},
      {Mutation::kDropProductFence, drop({Ins::kWgmmaFence})},
      {Mutation::kDropInitFence, drop({Ins::kBarInitFence})},
      {Mutation::kDropWait,
       drop({Ins::kBarWait, Ins::kBarWaitCluster, Ins::kWgmmaWait, Ins::kBulkWaitRead,
             Ins::kBulkWait, Ins::kCpWait, Ins::kWaitGlobal})},
      {Mutation::kDropMeeting,
       drop({Ins::kSyncThreads, Ins::kNamedSync, Ins::kSyncWarp, Ins::kClusterWait})},
      {Mutation::kDropCommit,
       drop({Ins::kWgmmaCommit, Ins::kBulkCommit, Ins::kCpCommit, Ins::kCpArrive})},
      {Mutation::kOneArrivalMore, add_to_arg(Ins::kBarInit, 1, 1)},
      {Mutation::kOneArrivalMore, add_to_arg(Ins::kWaitGlobal, 0, 1)},
      {Mutation::kOneArrivalLess, add_to_arg(Ins::kBarInit, 1, -1)},
      {Mutation::kOneArrivalLess, add_to_arg(Ins::kWaitGlobal, 0, -1)},
      {Mutation::kDropRelease, change_instr(Ins::kRedGlobalRelease,
                                            [](Instr& i) {
                                              i.ins = Ins::kRedGlobal;
                                              return true;
                                            })},
      {Mutation::kDropRewind, drop_rewind},
      {Mutation::kMoreBytes, bytes(16)},
      {Mutation::kFewerBytes, bytes(-16)},
      {Mutation::kWrongParity, flip_arg(Ins::kBarWait, 1)},
      {Mutation::kWrongParity, flip_arg(Ins::kBarWaitCluster, 1)},
      {Mutation::kEarlyRelease, early_release},
      {Mutation::kLocalArrival, change_instr(Ins::kBarArriveRemote,
                                             [](Instr& i) {
                                               i.ins = Ins::kBarArrive;
                                               i.args.pop_back();
                                               return true;
                                             })},
      {Mutation::kWrongMulticast, flip_arg(Ins::kTmaLoadMulticast, 2)},
      {Mutation::kDropGuard, [](const Body& b, size_t i) { return guard_edit(b, i, true); }},
      {Mutation::kLooseGuard, [](const Body& b, size_t i) { return guard_edit(b, i, false); }},
      {Mutation::kLongLoop, loop_edit(1)},
      {Mutation::kShortLoop, loop_edit(-1)},
      {Mutation::kWrongSwizzle, descriptor_edit},
      {Mutation::kGreedyRegisters, change_instr(Ins::kRegsInc,
                                                [](Instr& i) {
                                                  i.n += 16;
                                                  return i.n <= 256;
                                                })},
  };
  for (const Ins ins : {Ins::kWgmmaWait, Ins::kBulkWaitRead, Ins::kBulkWait, Ins::kCpWait})
    out.push_back({Mutation::kLeaveOneMore, leave_more(ins)});
  for (const size_t dimension : {0, 1}) {
    out.push_back({Mutation::kShiftedIndex, index_edit(dimension, one_more)});
    out.push_back({Mutation::kNarrowIndex, index_edit(dimension, narrow)});
  }
  out.push_back({Mutation::kNarrowIndex, narrow_arithmetic});
  out.push_back({Mutation::kDoubleWrite, stores_only(index_edit(0, folded))});
  out.push_back({Mutation::kSwappedOperands, swapped_operands});
  out.push_back({Mutation::kFoldedLayout, folded_layout});
  out.push_back({Mutation::kDropBranch, dropped_branch});
  return out;
}

// Applies the edit at the k-th place where it can be; counts k down.
bool apply(Body& body, const Edit& edit, int& k, std::string& site) {
  for (size_t i = 0; i < body.size(); ++i) {
    if (std::optional<Body> changed = edit(body, i); changed && k-- == 0) {
      site = lanes::print_head(body[i]);
      body = std::move(*changed);
      return true;
    }
    if (apply(body[i].body, edit, k, site) || apply(body[i].orelse, edit, k, site)) return true;
  }
  return false;
}

}  // namespace

std::string_view mutation_name(Mutation mutation) {
  constexpr std::string_view kNames[] = {"proxy fence dropped",
                                         "product fence dropped",
                                         "barrier init fence dropped",
                                         "wait dropped",
                                         "meeting dropped",
                                         "commit dropped",
                                         "wait leaves one more",
                                         "one arrival more",
                                         "one arrival less",
                                         "more bytes expected",
                                         "fewer bytes expected",
                                         "wrong parity",
                                         "ring one slot shallower",
                                         "early release",
                                         "remote arrival made local",
                                         "wrong multicast mask",
                                         "guard dropped",
                                         "guard loosened",
                                         "loop one step longer",
                                         "loop one step shorter",
                                         "wrong swizzle",
                                         "too many registers",
                                         "release dropped",
                                         "rewinding dropped",
                                         "index one off",
                                         "index in 32 bits",
                                         "operands swapped",
                                         "layout folded",
                                         "element written twice",
                                         "branch dropped"};
  return kNames[static_cast<size_t>(mutation)];
}

std::vector<Mutant> mutants(const Program& program) {
  std::vector<Mutant> out;
  for (const Kind& kind : kinds()) {
    for (int place = 0;; ++place) {
      Mutant mutant{kind.mutation, "", program};
      int k = place;
      if (!apply(mutant.program.body, kind.edit, k, mutant.site)) break;
      out.push_back(std::move(mutant));
    }
  }
  for (const lanes::SharedAlloc& alloc : program.shared) {
    const int64_t slot = slot_bytes(program.body, alloc);
    if (slot > 0)
      out.push_back({Mutation::kShallowRing, alloc.name,
                     shallow_ring(program, alloc.name, alloc.bytes - slot)});
  }
  for (size_t m = 0; m < program.maps.size(); ++m) {
    Mutant mutant{Mutation::kWrongSwizzle, "map " + program.maps[m].name, program};
    if (program.maps[m].swizzle == lanes::Swizzle::kNone) continue;
    mutant.program.maps[m].swizzle = lanes::Swizzle::kNone;
    out.push_back(std::move(mutant));
  }
  return out;
}

}  // namespace rooftile::emulate
