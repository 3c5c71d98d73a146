// SPDX-License-Identifier: Apache-2.0
// A symbolic run of one thread, of any number in any CTA, over an L2 program.
//
// Registers hold expressions over dims, strides, cta.x, tid, loop counters and loaded values.
// Branches and guards add facts; a loop forgets what its body assigns, but for bounds that every
// assignment preserves (register_ranges.h). Loops marked unrolled are loops like any other, their
// counters symbols, except where they index registers that decide addresses.
//
// Machine arithmetic is arithmetic of integers as long as nothing wraps: each operation on indices
// is asked (lanes.overflow); of numbers that a kernel computes with, which may wrap, nothing is
// known. The observer sees every instruction with what is known there.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "rooftile/lanes/lanes.h"
#include "rooftile/verify/lanes/hand_out.h"
#include "rooftile/verify/lanes/prove_lanes.h"
#include "rooftile/verify/lanes/questions.h"
#include "rooftile/verify/lanes/register_ranges.h"
#include "rooftile/verify/lanes/report.h"

namespace rooftile::verify {

// What a round of a loop that hands out parts (hand_out.h) is about, as far as the lemmas tell.
struct PartsAt {
  const HandOut* form = nullptr;
  Expr slot, slots;  // 0 <= slot < slots
  Expr tile, tiles;
  Expr owner, others;  // slots; 0 where the role computes no sums
};

// A loop around the place where the walk stands.
struct LoopAt {
  const lanes::Stmt* stmt = nullptr;
  Expr variable;     // its value: a symbol, or begin + step * counter
  std::string name;  // of the symbol in it; "" where the value is a constant
  Expr begin, end, step;
  std::shared_ptr<const PartsAt> parts = nullptr;
};

class Walk {
 public:
  class Observer {
   public:
    virtual ~Observer() = default;
    // Guards of the instruction are among the facts.
    virtual void instruction(Walk& walk, const lanes::Stmt& stmt) = 0;
  };

  Walk(const lanes::Program& program, const LaneContract& contract);
  void run(const std::vector<Observer*>& observers);

  const lanes::Program& program() const { return program_; }
  const LaneContract& contract() const { return contract_; }
  Questions& questions() { return questions_; }
  Symbols& symbols() { return questions_.symbols(); }
  Report& report() { return report_; }
  const std::vector<LoopAt>& loops() const { return loops_; }

  // The value of an expression here. Records obligations of overflow for the current statement.
  Expr value(const lanes::Val& v);
  // Asks, and notes the answer on the current statement.
  bool require(Kind kind, const Expr& goal, const std::string& claim);
  const lanes::Stmt& statement() const { return *stmt_; }

 private:
  // walk.cc: statements
  void body(const lanes::Body& statements);
  void statement(const lanes::Stmt& stmt);
  // Nobody comes to these: what they owe holds.
  void unreached(const lanes::Stmt& stmt);
  void unreached(const lanes::Body& statements);
  void branch(const lanes::Stmt& stmt);
  void loop(const lanes::Stmt& stmt);
  void while_loop(const lanes::Stmt& stmt);
  void hand_out(const lanes::Stmt& stmt, const HandOut& form);  // parts.cc
  void of_hand_out(const lanes::Stmt& stmt);
  void instruction(const lanes::Stmt& stmt);
  void store_results(const lanes::Instr& instr, const std::optional<Expr>& guard);
  void set(const std::string& name, const Expr& value);
  void merge(const Expr& condition, const std::map<std::string, Expr>& before,
             const std::map<std::string, Expr>& then, const std::set<std::string>& changed);
  void forget(const std::set<std::string>& names);
  const std::set<std::string>& assigned(const lanes::Body& statements);
  bool expands(const lanes::Stmt& stmt);
  std::string element_name(const lanes::RegRef& ref);

  // values.cc: expressions
  Expr compute(const lanes::Val& v);
  Expr special(lanes::Special which);
  Expr function(const lanes::Val& v);
  Expr chosen(const lanes::Val& v);
  Expr bitwise(const lanes::Val& v);
  Expr quotient(const lanes::Val& v, bool remainder);
  Expr cast(const lanes::Val& v);
  Expr fresh(lanes::Ty type, const std::string& hint, bool data = true);
  Expr fitted(lanes::Ty type, const Expr& e);
  Answer ask(const Expr& goal);  // under the conditions of the selects around
  Answer smaller(const Expr& goal, Answer answer);
  void scan(const lanes::Val& v);

  const lanes::Program& program_;
  const LaneContract& contract_;
  Questions questions_;
  Report report_;
  RegisterRanges ranges_;
  std::vector<Observer*> observers_;
  const lanes::Stmt* stmt_ = nullptr;
  std::map<std::string, Expr> registers_;
  std::map<std::string, lanes::Ty> types_;
  std::set<std::string> tracked_;  // arrays whose elements decide addresses
  std::set<std::string> written_;  // tensors that the kernel writes, and what may be them
  std::vector<LoopAt> loops_;
  const HandOuts hand_outs_;
  std::map<std::string, Expr> handed_;  // registers of the hand-out around
  std::vector<std::vector<std::pair<std::string, std::optional<Expr>>>> scopes_;
  std::vector<Expr> guards_;  // conditions of selects whose arms are being evaluated
  std::unordered_map<const lanes::Body*, std::set<std::string>> assigned_;
  struct Memo {
    Expr value;
    std::vector<Expr> guards;
  };
  std::unordered_map<const lanes::ValNode*, Memo> memo_;  // of the current statement
};

// Arrays of integers whose elements take part in addresses, guards or conditions.
std::set<std::string> address_arrays(const lanes::Program& program);

}  // namespace rooftile::verify
