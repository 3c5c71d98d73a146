// SPDX-License-Identifier: Apache-2.0
// Contractions split over the grid: the lemmas on which their proofs rest, tried on the kernels'
// own arithmetic for every small number; and what must not pass: a mutant of each thing that the
// proofs look at.
#include "rooftile/verify/lanes/hand_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "rooftile/verify/lane_contract.h"
#include "rooftile/verify/lanes/ticket_trial.h"
#include "rooftile/verify/protocol/prove_protocol.h"
#include "rooftile/verify/shipped.h"

namespace rooftile::verify {
namespace {

using lanes::Body;
using lanes::Fn;
using lanes::Ins;
using lanes::Special;
using lanes::Stmt;
using lanes::StmtKind;
using lanes::Ty;
using lanes::Val;
using lanes::ValKind;
using ::testing::Contains;
using ::testing::ElementsAre;

struct Kernel {
  KernelSource source;
  const codegen::GpuVariant& variant() const { return source.variants.at(0); }
  const lanes::Program& program() const { return variant().phases.at(0); }
  std::vector<Finding> prove(const lanes::Program& changed) const {
    return prove_lanes(changed, lane_contract(variant(), 0));
  }
};

// The shipped kernel of an operator whose config and schedule have these in their names.
const Kernel& shipped(const std::string& op, const std::string& schedule,
                      const std::string& config = "") {
  static std::map<std::string, Kernel> made;
  Kernel& out = made[op + schedule + config];
  if (!out.source.variants.empty()) return out;
  const auto kernels = shipped_kernels(*find_op(op), "sm90");
  EXPECT_TRUE(kernels.ok());
  for (const ShippedKernel& kernel : *kernels) {
    if (kernel.kernel->is_raw() || kernel.schedule.str().find(schedule) == std::string::npos ||
        kernel.config.str().find(config) == std::string::npos)
      continue;
    auto source = job_for(kernel).source();
    EXPECT_TRUE(source.ok()) << source.diag().str();
    out.source = std::move(*source);
    return out;
  }
  ADD_FAILURE() << "no kernel of " << op << " has schedule " << schedule;
  return out;
}

// ---- the lemmas, tried

using Registers = std::map<std::string, int64_t>;

struct Place {
  int64_t cta = 0, grid = 1;
};

class Arithmetic32 {
 public:
  explicit Arithmetic32(Place place) : place_(place) {}
  Registers registers;
  int64_t largest = 0;  // of all that was computed

  int64_t value(const Val& v) {
    const int64_t out = compute(v);
    largest = std::max(largest, std::abs(out));
    return out;
  }

 private:
  static int64_t floor_div(int64_t a, int64_t b) {
    return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  }
  int64_t compute(const Val& v) {
    switch (v->kind) {
      case ValKind::kInt:
        return v->integer;
      case ValKind::kVar:
        return registers.at(v->name);
      case ValKind::kSpecial:
        return v->special == Special::kCtaX ? place_.cta : place_.grid;
      default:
        break;
    }
    const auto at = [&](size_t i) { return value(v->args[i]); };
    switch (v->fn) {
      case Fn::kCast:
        return at(0);
      case Fn::kAdd:
        return at(0) + at(1);
      case Fn::kSub:
        return at(0) - at(1);
      case Fn::kMul:
        return at(0) * at(1);
      case Fn::kFloorDiv:
        return floor_div(at(0), at(1));
      case Fn::kFloorMod:
        return at(0) - floor_div(at(0), at(1)) * at(1);
      case Fn::kShr:
        return at(0) >> at(1);
      case Fn::kAnd:
        return at(0) & at(1);
      case Fn::kMin:
        return std::min(at(0), at(1));
      case Fn::kMax:
        return std::max(at(0), at(1));
      case Fn::kLt:
        return at(0) < at(1) ? 1 : 0;
      case Fn::kLe:
        return at(0) <= at(1) ? 1 : 0;
      case Fn::kEq:
        return at(0) == at(1) ? 1 : 0;
      case Fn::kSelect:
        return at(0) != 0 ? at(1) : at(2);
      default:
        ADD_FAILURE() << "the test does not know " << lanes::str(v);
        return 0;
    }
  }
  const Place place_;
};

struct Item {
  int64_t cluster, round, slot, tile, first, last, owner, others;
};

// The hand-out of the role that computes sums: the body that its loop stands in, and where.
struct Found {
  const HandOut* form = nullptr;
  const Body* body = nullptr;
  size_t at = 0;
};
Found find_hand_out(const HandOuts& all, const Body& body) {
  for (size_t i = 0; i < body.size(); ++i) {
    const HandOut* form = all.at(body[i]);
    if (form != nullptr && !form->owner.empty()) return {form, &body, i};
    for (const Body* inner : {&body[i].body, &body[i].orelse})
      if (const Found found = find_hand_out(all, *inner); found.form != nullptr) return found;
  }
  return {};
}

// Runs the statements of the pattern, and nothing else, for one cluster.
std::vector<Item> items_of(const HandOuts& all, const Found& found, int64_t tiles, int64_t steps,
                           int64_t cluster, int64_t clusters, int size, int64_t* largest) {
  const HandOut& h = *found.form;
  const bool runs = h.form == HandOut::kRuns;
  Arithmetic32 thread({cluster * size, clusters * size});
  Registers& regs = thread.registers;
  regs[h.count->name] = runs ? tiles : tiles * h.ways;
  regs[h.steps->name] = steps;
  const auto run = [&](const Stmt& stmt) {
    if (!all.has(stmt)) return;
    if (stmt.kind == StmtKind::kDecl) regs[stmt.name] = thread.value(stmt.value);
    if (stmt.kind != StmtKind::kIf || thread.value(stmt.value) == 0) return;
    for (const Stmt& inner : stmt.body)
      regs[inner.kind == StmtKind::kDecl ? inner.name : inner.target.name] =
          thread.value(inner.value);
  };
  for (size_t i = 0; i < found.at; ++i) run((*found.body)[i]);
  const Stmt& loop = (*found.body)[found.at];
  const int64_t end = thread.value(loop.end), step = thread.value(loop.step);
  std::vector<Item> out;
  int64_t round = 0;
  for (int64_t i = thread.value(loop.begin); i < end; i += step, ++round) {
    regs[loop.name] = i;
    for (const Stmt& stmt : loop.body) run(stmt);
    out.push_back({cluster, round, regs.at(h.slot), regs.at(h.tile), regs.at(h.first),
                   regs.at(h.last), regs.at(h.owner), regs.at(h.others)});
  }
  *largest = std::max(*largest, thread.largest);
  return out;
}

void expect_lemmas(const std::vector<Item>& items, int64_t tiles, int64_t steps, bool runs) {
  std::map<int64_t, std::vector<int64_t>> begins, ends;  // of parts, by tile
  std::map<int64_t, const Item*> owners, sent;           // by tile; by slot
  for (const Item& item : items) {
    ASSERT_TRUE(0 <= item.tile && item.tile < tiles);
    ASSERT_TRUE(0 <= item.first && item.first < item.last && item.last <= steps);
    begins[item.tile].push_back(item.first);
    ends[item.tile].push_back(item.last);
    ASSERT_LE(item.slot, item.owner);
    ASSERT_LE(0, item.others);
    ASSERT_LE(item.others, item.owner);
    if (item.slot == item.owner) {
      EXPECT_TRUE(owners.emplace(item.tile, &item).second) << "two own a tile";
    } else {
      EXPECT_TRUE(sent.emplace(item.slot, &item).second) << "a slot sends twice";
    }
  }
  ASSERT_EQ(static_cast<int64_t>(owners.size()), tiles);
  std::set<int64_t> awaited, waiting;
  for (const auto& [tile, owner] : owners) {
    // Parts lie side by side.
    std::vector<int64_t>&from = begins[tile], &to = ends[tile];
    std::sort(from.begin(), from.end());
    std::sort(to.begin(), to.end());
    EXPECT_EQ(from.front(), 0);
    EXPECT_EQ(to.back(), steps);
    EXPECT_TRUE(std::equal(from.begin() + 1, from.end(), to.begin()));
    EXPECT_EQ(static_cast<int64_t>(from.size()), owner->others + 1);
    if (owner->others == 0) continue;
    EXPECT_TRUE(waiting.insert(owner->owner).second) << "a ticket serves two tiles";
    for (int64_t o = 1; o <= owner->others; ++o) {
      const auto other = sent.find(owner->owner - o);
      ASSERT_NE(other, sent.end()) << "an owner waits for nobody";
      EXPECT_EQ(other->second->owner, owner->owner);
      EXPECT_EQ(other->second->tile, tile);
      // Of lower number in the same round, or in order in one CTA.
      const Item& sender = *other->second;
      if (sender.cluster == owner->cluster) {
        EXPECT_LT(sender.round, owner->round);
      } else {
        EXPECT_LT(sender.cluster, owner->cluster) << "an owner waits for a later CTA";
        EXPECT_TRUE(runs || sender.round == owner->round);
      }
      awaited.insert(other->first);
    }
  }
  EXPECT_EQ(awaited.size(), sent.size()) << "somebody is not waited for";
  if (!runs) return;
  for (const Item& item : items)  // who sends has not waited before
    for (const Item& later : items)
      if (item.cluster == later.cluster && item.slot == item.owner && item.others > 0 &&
          later.slot != later.owner) {
        EXPECT_LT(later.round, item.round);
      }
}

void try_lemmas(const Kernel& kernel, int64_t most) {
  const lanes::Program& program = kernel.program();
  const HandOuts all(program);
  const Found found = find_hand_out(all, program.body);
  ASSERT_NE(found.form, nullptr);
  const bool runs = found.form->form == HandOut::kRuns;
  const int64_t ways = std::max(found.form->ways, 1);
  for (int64_t tiles = 1; tiles <= most; ++tiles)
    for (int64_t steps = ways; steps <= ways + most; ++steps)
      for (int64_t at_once = 0; at_once <= most; ++at_once) {
        const int64_t clusters = std::max<int64_t>(at_once * ways, 1);
        std::vector<Item> items;
        int64_t largest = 0;
        for (int64_t c = 0; c < clusters; ++c)
          for (const Item& item :
               items_of(all, found, tiles, steps, c, clusters, program.cluster, &largest))
            items.push_back(item);
        expect_lemmas(items, tiles, steps, runs);
        const int64_t bound = std::max({tiles * steps, tiles * ways, steps * ways,
                                        clusters * program.cluster, tiles * ways + clusters});
        EXPECT_LE(largest, bound + 1);
        if (::testing::Test::HasFailure()) {
          ADD_FAILURE() << tiles << " tiles of " << steps << " steps on " << clusters;
          return;
        }
      }
}

TEST(HandOut, LemmasOfEqualParts) {
  try_lemmas(shipped("gemm", "kk:grid:4"), 6);
  try_lemmas(shipped("gemm", "kk:grid:7"), 4);
}
TEST(HandOut, LemmasOfRuns) {
  try_lemmas(shipped("gemm", "128x256_stream1"), 9);
  try_lemmas(shipped("gemm_batched", "stream1"), 9);
}

// ---- mutants

using Edit = std::function<bool(Body&, size_t)>;  // true: done

bool edit(Body& body, const Edit& change) {
  for (size_t i = 0; i < body.size(); ++i)
    if (change(body, i) || edit(body[i].body, change) || edit(body[i].orelse, change)) return true;
  return false;
}
lanes::Program edited(const lanes::Program& program, const Edit& change) {
  lanes::Program out = program;
  EXPECT_TRUE(edit(out.body, change)) << "the kernel has no such place";
  return out;
}
bool is(const Stmt& stmt, Ins ins) {
  return stmt.kind == StmtKind::kInstr && stmt.instr.ins == ins;
}
bool holds(const Stmt& stmt, Ins ins) {
  const auto in = [&](const Stmt& inner) { return holds(inner, ins); };
  return is(stmt, ins) || std::any_of(stmt.body.begin(), stmt.body.end(), in) ||
         std::any_of(stmt.orelse.begin(), stmt.orelse.end(), in);
}
void erase(Body& body, size_t i) { body.erase(body.begin() + static_cast<std::ptrdiff_t>(i)); }

Edit drop(Ins ins) {
  return [ins](Body& body, size_t i) {
    if (!is(body[i], ins)) return false;
    erase(body, i);
    return true;
  };
}
Edit change(Ins ins, const std::function<void(lanes::Instr&)>& how) {
  return [=](Body& body, size_t i) {
    if (!is(body[i], ins)) return false;
    how(body[i].instr);
    return true;
  };
}
// The direct neighbour of a statement that holds `ins`: a barrier before or behind it.
Edit drop_barrier_by(Ins ins, bool behind) {
  return [=](Body& body, size_t i) {
    const size_t next = behind ? i + 1 : i - 1;
    if (!holds(body[i], ins) || next >= body.size() || !is(body[next], Ins::kNamedSync))
      return false;
    erase(body, next);
    return true;
  };
}
bool is_image(const lanes::Instr& i) { return i.global.tensor.starts_with("parts_"); }
Edit change_image(Ins ins, const std::function<void(lanes::Instr&)>& how) {
  return [=](Body& body, size_t i) {
    if (!is(body[i], ins) || !is_image(body[i].instr)) return false;
    how(body[i].instr);
    return true;
  };
}
Edit change_number(const std::string& reg, int value) {
  return [=](Body& body, size_t i) {
    if (body[i].kind != StmtKind::kDecl || !body[i].name.starts_with(reg)) return false;
    body[i].value = Val(value);
    return true;
  };
}
// What only some do, all do.
Edit for_all(Ins ins) {
  return [ins](Body& body, size_t i) {
    if (body[i].kind != StmtKind::kIf || body[i].uniform || !holds(body[i], ins)) return false;
    Body inner = std::move(body[i].body);
    erase(body, i);
    body.insert(body.begin() + static_cast<std::ptrdiff_t>(i), inner.begin(), inner.end());
    return true;
  };
}

std::set<Verdict> verdicts(const std::vector<Finding>& findings, Kind kind) {
  std::set<Verdict> out;
  for (const Finding& finding : findings)
    if (finding.kind == kind) out.insert(finding.verdict);
  return out;
}

class Meets : public ::testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  const Kernel& kernel() const { return shipped(GetParam().first, GetParam().second); }
  // Of this kind, on some statement.
  bool refuted(const Edit& mistake, Kind kind = Kind::kGlobalRace) const {
    return verdicts(kernel().prove(edited(kernel().program(), mistake)), kind)
               .count(Verdict::kRefuted) > 0;
  }
};

TEST_P(Meets, TheKernelItselfIsProved) {
  for (const Finding& finding : kernel().prove(kernel().program()))
    EXPECT_EQ(finding.verdict, Verdict::kProved) << finding.subject << ": " << finding.reason;
  for (const Finding& finding :
       prove_protocol(kernel().program(), lane_contract(kernel().variant(), 0).facts))
    EXPECT_EQ(finding.verdict, Verdict::kProved) << finding.subject << ": " << finding.reason;
}

TEST_P(Meets, TicketsThatDoNotTellAreRefuted) {
  EXPECT_TRUE(refuted(drop(Ins::kWaitGlobal))) << "no wait";
  EXPECT_TRUE(refuted(drop(Ins::kRedGlobalRelease))) << "nobody adds";
  EXPECT_TRUE(refuted(change(Ins::kRedGlobalRelease, [](auto& i) { i.ins = Ins::kRedGlobal; })))
      << "no release";
  EXPECT_TRUE(refuted(change_number("arrival", 2))) << "a part counts twice";
  EXPECT_TRUE(refuted(for_all(Ins::kRedGlobalRelease))) << "every thread adds";
  EXPECT_TRUE(refuted(change(Ins::kWaitGlobal, [](auto& i) { i.args[0] = i.args[0] + 1; })))
      << "waits for one more than come";
  EXPECT_TRUE(refuted(change(Ins::kWaitGlobal, [](auto& i) {
    i.global.index[0] = i.global.index[0] - 1;
  }))) << "waits for another's ticket";
}

TEST_P(Meets, TicketsThatAreNotZeroAgainAreRefuted) {
  const auto is_clear = [](const Stmt& stmt) {
    return is(stmt, Ins::kStGlobal) && stmt.instr.global.tensor == "tickets";
  };
  EXPECT_TRUE(refuted([&](Body& body, size_t i) {
    if (!is_clear(body[i])) return false;
    erase(body, i);
    return true;
  })) << "not cleared";
  EXPECT_TRUE(refuted(change_number("none", 1), Kind::kWriteOnce)) << "set to 1";
  EXPECT_TRUE(refuted(
      [&](Body& body, size_t i) {
        if (!is(body[i], Ins::kWaitGlobal)) return false;
        std::rotate(body.begin() + static_cast<std::ptrdiff_t>(i),
                    body.begin() + static_cast<std::ptrdiff_t>(i) + 1, body.end());
        return true;
      },
      Kind::kWriteOnce))
      << "cleared before the wait";
  lanes::Program dirty = kernel().program();
  for (lanes::TensorUse& tensor : dirty.tensors) tensor.zeroed = false;
  EXPECT_THAT(verdicts(kernel().prove(dirty), Kind::kGlobalRace), Contains(Verdict::kRefuted));
}

TEST_P(Meets, ImagesOutOfOrderAreRefuted) {
  EXPECT_TRUE(refuted(drop_barrier_by(Ins::kRedGlobalRelease, false))) << "announced too early";
  EXPECT_TRUE(refuted(drop_barrier_by(Ins::kWaitGlobal, true))) << "read without a barrier";
  EXPECT_TRUE(refuted(change_image(Ins::kStGlobal, [](auto& i) {
    i.global.index[0] = lanes::var(Ty::kI32, "owner");
  }))) << "two CTAs use one slot";
  EXPECT_TRUE(refuted(change_image(Ins::kLdGlobal, [](auto& i) {
    i.global.index[0] = i.global.index[0] + 1;
  }))) << "its own slot is read for another's";
  EXPECT_TRUE(refuted(change_image(Ins::kLdGlobal, [](auto& i) {
    i.global.index[1] = i.global.index[1] + lanes::int_val(Ty::kI64, 512);
  }))) << "what another group, or nobody, has stored";
}

// What is not there is not forgotten: parts that nobody announces, or leaves at all, and tickets
// that nobody waits for.
TEST_P(Meets, WhatIsMissingIsRefuted) {
  const auto emptied = [](Ins holding, bool outermost) -> Edit {
    return [=](Body& body, size_t i) {
      if (body[i].kind != StmtKind::kIf || !holds(body[i], holding) || holds(body[i], Ins::kWgmma))
        return false;
      const auto is_it = [&](const Stmt& inner) { return is(inner, holding); };
      if (!outermost && std::none_of(body[i].body.begin(), body[i].body.end(), is_it)) return false;
      body[i].body.clear();
      body[i].orelse.clear();
      return true;
    };
  };
  for (const Ins ins : {Ins::kRedGlobalRelease, Ins::kWaitGlobal}) {
    EXPECT_TRUE(refuted(emptied(ins, false))) << "an addition, or a wait";
    EXPECT_TRUE(refuted(emptied(ins, true), Kind::kWriteOnce)) << "all that goes with it";
  }
}

TEST_P(Meets, BarriersThatSomeSkipAreNone) {
  const auto guarded = [](Ins by, bool behind) -> Edit {
    return [=](Body& body, size_t i) {
      const size_t next = behind ? i + 1 : i - 1;
      if (!holds(body[i], by) || next >= body.size() || !is(body[next], Ins::kNamedSync))
        return false;
      body[next].instr.guard = lanes::var(Ty::kI32, "owner") < 7;
      return true;
    };
  };
  EXPECT_TRUE(refuted(guarded(Ins::kRedGlobalRelease, false)));
  EXPECT_TRUE(refuted(guarded(Ins::kWaitGlobal, true)));
}

// Arithmetic that is not that of the lemmas is no hand-out, whichever number it is.
TEST_P(Meets, OtherArithmeticIsNotBelieved) {
  const auto gives_number = [](const Stmt& stmt) {
    return (stmt.kind == StmtKind::kDecl || stmt.kind == StmtKind::kAssign) &&
           stmt.value.present() && stmt.value.type() == Ty::kI32;
  };
  lanes::Program changed = kernel().program();
  const HandOuts before(changed);
  const Found found = find_hand_out(before, changed.body);
  ASSERT_NE(found.form, nullptr);
  std::vector<Stmt*> members;
  const auto take = [&](const Body& body) {
    for (const Stmt& stmt : body) {
      if (!before.has(stmt)) continue;
      if (gives_number(stmt)) members.push_back(const_cast<Stmt*>(&stmt));
      for (const Stmt& inner : stmt.body) members.push_back(const_cast<Stmt*>(&inner));
    }
  };
  take(*found.body);
  take((*found.body)[found.at].body);
  EXPECT_GE(members.size(), 6u);
  const LaneContract contract = lane_contract(kernel().variant(), 0);
  EXPECT_FALSE(try_tickets(changed, contract)) << "tries find fault with what is right";
  std::set<std::string> unseen;
  for (Stmt* member : members) {
    const std::string name = member->name + member->target.name;
    const Val right = member->value;
    member->value = right + 1;
    EXPECT_EQ(find_hand_out(HandOuts(changed), changed.body).form, nullptr) << name;
    if (!try_tickets(changed, contract)) unseen.insert(name.substr(0, name.find('.')));
    member->value = right;
  }
  EXPECT_NE(find_hand_out(HandOuts(changed), changed.body).form, nullptr);
  // Of what only concerns where a part begins, or which tile it is of, tickets say nothing.
  for (const char* name : {"part_first", "part_last", "tile_1", "waves_1", "whole_1"})
    unseen.erase(name);
  EXPECT_THAT(unseen, ::testing::IsEmpty());
}

// An owner that waits for CTAs behind it.
TEST(HandOut, WithoutLemmasSmallCallsAreTried) {
  const Kernel& kernel = shipped("gemm", "kk:grid:4");
  const lanes::Program changed = edited(kernel.program(), [](Body& body, size_t i) {
    if (body[i].kind != StmtKind::kDecl || body[i].name != "owner") return false;
    body[i].value = lanes::var(Ty::kI32, "slot_of_sums") + lanes::var(Ty::kI32, "part") - 3;
    return true;
  });
  const std::vector<Finding> findings = kernel.prove(changed);
  EXPECT_THAT(verdicts(findings, Kind::kGlobalRace), ElementsAre(Verdict::kRefuted));
  EXPECT_THAT(findings[0].reason, ::testing::HasSubstr("is waited for to hold 3"));
  EXPECT_GT(findings[0].example.call.at("SMS"), 0);
}

// Rounds of a grid that is no multiple of the parts of a tile: an owner might wait for a CTA that
// is started when it ends.
TEST(HandOut, PartsOfATileAreOfOneRound) {
  const Kernel& kernel = shipped("gemm", "kk:grid:4");
  lanes::Program changed = kernel.program();
  ASSERT_EQ(changed.grid_x.kind(), ExprKind::kMin);
  const std::vector<Expr> counts = changed.grid_x.args();  // of all parts, and of those at once
  const Expr& parts = counts[symbols_of(counts[0]).count("SMS")];
  changed.grid_x = min(parts, Expr::sym("SMS"));
  EXPECT_THAT(verdicts(kernel.prove(changed), Kind::kNoDeadlock), Contains(Verdict::kRefuted));
}

INSTANTIATE_TEST_SUITE_P(Kernels, Meets,
                         ::testing::Values(std::pair("gemm", "kk:grid:4"),
                                           std::pair("gemm_batched", "kk:stream:1"),
                                           std::pair("gemm", "128x256_stream1")),
                         [](const auto& kernel) {
                           std::string name = std::string(kernel.param.first) + kernel.param.second;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(c); },
                               '_');
                           return name;
                         });

// ---- a residual that may be the result

TEST(ResidualInPlace, IsReadBeforeItsGroupMeetsAndStores) {
  const Kernel& kernel = shipped("gemm", "wgmma_64x64", "c=bf16");
  const auto race = [&](const lanes::Program& program) {
    return verdicts(kernel.prove(program), Kind::kGlobalRace);
  };
  EXPECT_THAT(race(kernel.program()), ElementsAre(Verdict::kProved));
  const auto store_at = [](const Stmt& stmt) { return holds(stmt, Ins::kTmaStore); };
  // The barrier, and the fence, between the reads and the store.
  for (const Ins ins : {Ins::kNamedSync, Ins::kProxyFence})
    EXPECT_THAT(race(edited(kernel.program(),
                            [&](Body& body, size_t i) {
                              if (i == 0 || body[i].kind != StmtKind::kIf || !store_at(body[i]))
                                return false;
                              for (size_t j = i; j-- > 0;)
                                if (is(body[j], ins)) {
                                  erase(body, j);
                                  return true;
                                }
                              return false;
                            })),
                Contains(Verdict::kUnknown))
        << "without the one that stands between";
  EXPECT_THAT(race(edited(kernel.program(),
                          [&](Body& body, size_t i) {
                            if (body[i].kind != StmtKind::kIf || !store_at(body[i])) return false;
                            Stmt store = body[i];
                            erase(body, i);
                            body.insert(body.begin(), std::move(store));
                            return true;
                          })),
              Contains(Verdict::kUnknown))
      << "read after the store";
  EXPECT_THAT(race(edited(kernel.program(),
                          [](Body& body, size_t i) {
                            if (!is(body[i], Ins::kLdGlobal) || body[i].instr.global.tensor != "c")
                              return false;
                            Val& row = body[i].instr.global.index[0];
                            row = row + 64;
                            return true;
                          })),
              Contains(Verdict::kUnknown))
      << "a neighbour's rows";
}

}  // namespace
}  // namespace rooftile::verify
