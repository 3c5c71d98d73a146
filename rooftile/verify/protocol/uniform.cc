// SPDX-License-Identifier: Apache-2.0
// A register differs between lanes if it is ever assigned what differs, or assigned where lanes
// have parted: the least such set, by a fixpoint over the statements.
#include "rooftile/verify/protocol/uniform.h"

#include <set>

namespace rooftile::verify::protocol {
namespace {

using lanes::Body;
using lanes::Fn;
using lanes::Ins;
using lanes::Instr;
using lanes::RegRef;
using lanes::Special;
using lanes::Stmt;
using lanes::StmtKind;
using lanes::Val;
using lanes::ValKind;

constexpr int64_t kLanesLog2 = 5;

class Uniformity {
 public:
  const Stmt* run(const Body& body) {
    for (size_t before = ~size_t{0}; before != varying_.size();) {
      before = varying_.size();
      apart_ = nullptr;
      visit(body, false);
    }
    return apart_;
  }

 private:
  // Arrays are one register here: their elements are mostly computed alike.
  bool varies(const Val& v) const {
    if (!v.present()) return false;
    switch (v->kind) {
      case ValKind::kVar:
      case ValKind::kElem:
        return varying_.count(v->name) > 0;
      case ValKind::kSpecial:
        return v->special == Special::kTid || v->special == Special::kLane;
      case ValKind::kFn:
        if (v->fn == Fn::kShr && v->args[0]->kind == ValKind::kSpecial &&
            v->args[0]->special == Special::kTid && v->args[1]->kind == ValKind::kInt &&
            v->args[1]->integer >= kLanesLog2)
          return false;  // the warp's number
        for (const Val& arg : v->args)
          if (varies(arg)) return true;
        return false;
      default:
        return false;
    }
  }
  // Whether the results differ between lanes where the instruction is executed by all.
  bool differ(const Instr& i) const {
    if (i.ins == Ins::kVoteAny || i.ins == Ins::kRedux) return false;
    bool any = i.ins == Ins::kElect || i.ins == Ins::kAtomGlobal || i.ins == Ins::kAtomShared ||
               i.ins == Ins::kMmaSync || i.ins == Ins::kWgmma || i.ins == Ins::kLdMatrix ||
               i.ins == Ins::kShflUp || varies(i.guard);
    if (i.ins == Ins::kShflIdx) return any || varies(i.args[0]);
    for (const Val& v : i.args) any = any || varies(v);
    for (const Val& v : i.global.index) any = any || varies(v);
    for (const RegRef& r : i.regs) any = any || varying_.count(r.name) > 0;
    return any;
  }
  static bool wants_warp(const Instr& i) {
    switch (i.ins) {
      case Ins::kShflXor:
      case Ins::kShflIdx:
      case Ins::kShflUp:
      case Ins::kVoteAny:
      case Ins::kRedux:
      case Ins::kElect:
      case Ins::kMmaSync:
        return true;
      default:
        return false;
    }
  }

  void visit(const Body& body, bool parted) {
    for (const Stmt& s : body) visit(s, parted);
  }
  void visit(const Stmt& s, bool parted) {
    switch (s.kind) {
      case StmtKind::kDecl:  // of the lanes that are here, and nobody else's
        if (s.value.present() && varies(s.value)) varying_.insert(s.name);
        return;
      case StmtKind::kAssign:
        if (parted || varies(s.value)) varying_.insert(s.target.name);
        return;
      case StmtKind::kInstr:
        if (parted && wants_warp(s.instr) && apart_ == nullptr) apart_ = &s;
        if (parted || differ(s.instr)) {
          for (const RegRef& r : s.instr.results) varying_.insert(r.name);
          if (s.instr.ins == Ins::kWgmma) varying_.insert(s.instr.regs[0].name);
        }
        return;
      case StmtKind::kIf: {
        const bool inner = parted || varies(s.value);
        visit(s.body, inner);
        return visit(s.orelse, inner);
      }
      case StmtKind::kFor: {
        const bool differs = varies(s.begin) || varies(s.end) || varies(s.step);
        if (differs) varying_.insert(s.name);
        return visit(s.body, parted || differs);
      }
      case StmtKind::kWhile:
        return visit(s.body, parted || varies(s.value));
      case StmtKind::kComment:
        return;
    }
  }

  std::set<std::string, std::less<>> varying_;
  const Stmt* apart_ = nullptr;
};

}  // namespace

const lanes::Stmt* apart(const lanes::Program& program) { return Uniformity().run(program.body); }

}  // namespace rooftile::verify::protocol
