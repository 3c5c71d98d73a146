// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/uniform.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace rooftile::verify {
namespace {

using lanes::Body;
using lanes::Fn;
using lanes::Ins;
using lanes::Instr;
using lanes::Special;
using lanes::Stmt;
using lanes::StmtKind;
using lanes::Val;
using lanes::ValKind;
using lanes::Who;

// Within what a value is one and the same; ordered by how far that reaches.
enum class Same : uint8_t { kThread, kWarp, kWarpgroup, kCta, kCluster, kGrid };

std::string_view name_of(Same same) {
  constexpr std::string_view kNames[] = {"thread", "warp", "warpgroup", "CTA", "cluster", "grid"};
  return kNames[static_cast<size_t>(same)];
}

Same wanted(Who who) {
  switch (who) {
    case Who::kThread:
      return Same::kThread;
    case Who::kWarp:
      return Same::kWarp;
    case Who::kWarpgroup:
      return Same::kWarpgroup;
    case Who::kCta:
      return Same::kCta;
    case Who::kCluster:
      return Same::kCluster;
  }
  return Same::kCluster;
}

// Threads that share tid / divisor.
Same of_quotient(int64_t divisor) {
  return divisor % 128 == 0 ? Same::kWarpgroup : divisor % 32 == 0 ? Same::kWarp : Same::kThread;
}

using TwoLanes = std::map<const Stmt*, Answer>;

class Uniformity {
 public:
  explicit Uniformity(const lanes::Program& program) : program_(program) {
    for (const lanes::TensorUse& tensor : program.tensors)
      if (tensor.written) written_.insert(tensor.name);
    find_definitions(program.body);
    do {
      changed_ = false;
      visit(program.body);
    } while (changed_);
  }

  // `two_lanes`: what is known of instructions beyond the dataflow.
  void report(Report& report, const TwoLanes& two_lanes) {
    report_ = &report;
    two_lanes_ = &two_lanes;
    visit(program_.body);
    report_ = nullptr;
  }

  // Instructions of a warp that not all of it may come to.
  std::set<const Stmt*> open() {
    std::set<const Stmt*> out;
    open_ = &out;
    visit(program_.body);
    open_ = nullptr;
    return out;
  }

 private:
  // Registers that are given a value once: their definitions can be looked through.
  void find_definitions(const Body& body) {
    for (const Stmt& stmt : body) {
      if (stmt.kind == StmtKind::kDecl && stmt.count == 0 && stmt.value.present())
        definitions_[stmt.name] =
            definitions_.count(stmt.name) == 0 ? stmt.value : Val();  // two of one name: neither
      if (stmt.kind == StmtKind::kAssign) definitions_[stmt.target.name] = Val();
      for (const lanes::RegRef& result : stmt.instr.results) definitions_[result.name] = Val();
      if (stmt.kind == StmtKind::kFor) definitions_[stmt.name] = Val();
      find_definitions(stmt.body);
      find_definitions(stmt.orelse);
    }
  }

  const Val& resolved(const Val& v) const {
    if (v->kind != ValKind::kVar) return v;
    const auto it = definitions_.find(v->name);
    return it == definitions_.end() || !it->second.present() ? v : resolved(it->second);
  }

  // `v` as tid / divisor; 0 if it is not that.
  int64_t thread_divisor(const Val& given) const {
    const Val& v = resolved(given);
    if (v->kind == ValKind::kSpecial)
      return v->special == Special::kTid ? 1 : v->special == Special::kWarp ? 32 : 0;
    if (v->kind != ValKind::kFn) return 0;
    if (v->fn == Fn::kCast) return thread_divisor(v->args[0]);
    if ((v->fn != Fn::kShr && v->fn != Fn::kFloorDiv) || v->args[1]->kind != ValKind::kInt)
      return 0;
    const int64_t by = v->args[1]->integer;
    if (by <= 0 || (v->fn == Fn::kShr && by > 30)) return 0;
    return thread_divisor(v->args[0]) * (v->fn == Fn::kShr ? int64_t{1} << by : by);
  }

  Same value(const Val& v) const {
    switch (v->kind) {
      case ValKind::kVar:
      case ValKind::kElem: {
        const auto it = registers_.find(v->name);
        Same out = it == registers_.end() ? Same::kGrid : it->second;
        for (const Val& arg : v->args) out = std::min(out, value(arg));
        return out;
      }
      case ValKind::kSpecial:
        switch (v->special) {
          case Special::kTid:
          case Special::kLane:
            return Same::kThread;
          case Special::kWarp:
            return Same::kWarp;
          case Special::kGridX:
          case Special::kGridY:
          case Special::kGridZ:
            return Same::kGrid;
          case Special::kCtaY:
          case Special::kCtaZ:
            return Same::kCluster;  // clusters lie along x
          default:
            return program_.cluster == 1 ? Same::kCluster : Same::kCta;
        }
      case ValKind::kFn:
        return function(v);
      default:
        return Same::kGrid;
    }
  }

  Same function(const Val& v) const {
    if (const int64_t divisor = thread_divisor(v); divisor > 1) return of_quotient(divisor);
    if (const Same cluster = of_cluster(v); cluster != Same::kThread) return cluster;
    // warp < 4: tid / 32 on either side of a warpgroup's edge.
    if ((v->fn == Fn::kLt || v->fn == Fn::kLe) && v->args.size() == 2)
      for (const bool left : {true, false}) {
        const int64_t divisor = thread_divisor(v->args[left ? 0 : 1]);
        const Val& edge = v->args[left ? 1 : 0];
        if (divisor == 0 || edge->kind != ValKind::kInt) continue;
        // a < c and !(c <= a) part at c; a <= c and c < a part at c + 1.
        const bool at_c = left == (v->fn == Fn::kLt);
        const Same parted = of_quotient((edge->integer + (at_c ? 0 : 1)) * divisor);
        if (parted > Same::kThread) return parted;
      }
    Same out = Same::kGrid;
    for (const Val& arg : v->args) out = std::min(out, value(arg));
    return out;
  }

  // cta.x / cluster is the cluster's own number.
  Same of_cluster(const Val& v) const {
    if (program_.cluster == 1 || (v->fn != Fn::kShr && v->fn != Fn::kFloorDiv))
      return Same::kThread;
    const Val& x = resolved(v->args[0]);
    if (x->kind != ValKind::kSpecial || x->special != Special::kCtaX ||
        v->args[1]->kind != ValKind::kInt)
      return Same::kThread;
    const int64_t by = v->fn == Fn::kShr ? int64_t{1} << v->args[1]->integer : v->args[1]->integer;
    return by > 0 && by % program_.cluster == 0 ? Same::kCluster : Same::kThread;
  }

  void assign(const std::string& name, Same same) {
    const auto [it, fresh] = registers_.emplace(name, same);
    if (!fresh && same < it->second) {
      it->second = same;
      changed_ = true;
    }
    changed_ |= fresh;
  }

  // Under conditions that a register was declared under as well, all who read it took part.
  Same since(const std::string& name) const {
    const auto it = depth_.find(name);
    Same out = Same::kGrid;
    for (size_t i = it == depth_.end() ? 0 : it->second; i < conditions_.size(); ++i)
      out = std::min(out, conditions_[i]);
    return out;
  }

  Same control() const {
    return conditions_.empty() ? Same::kGrid
                               : *std::min_element(conditions_.begin(), conditions_.end());
  }

  // Barriers of the CTA and the cluster that the statements come to, in order.
  static std::vector<Ins> meetings(const Body& body) {
    std::vector<Ins> out;
    for (const Stmt& stmt : body) {
      if (stmt.kind == StmtKind::kInstr && lanes::ins_info(stmt.instr.ins).who >= Who::kCta)
        out.push_back(stmt.instr.ins);
      for (const Body* inner : {&stmt.body, &stmt.orelse})
        for (Ins ins : meetings(*inner)) out.push_back(ins);
    }
    return out;
  }

  void under(Same condition, const Body& body) {
    conditions_.push_back(condition);
    visit(body);
    conditions_.pop_back();
  }

  void visit(const Body& body) {
    for (const Stmt& stmt : body) statement(stmt);
  }

  void statement(const Stmt& stmt) {
    switch (stmt.kind) {
      case StmtKind::kDecl:
        depth_[stmt.name] = conditions_.size();
        if (stmt.value.present()) assign(stmt.name, value(stmt.value));
        return;
      case StmtKind::kAssign: {
        Same same = std::min(since(stmt.target.name), value(stmt.value));
        if (stmt.target.first.present()) same = std::min(same, value(stmt.target.first));
        return assign(stmt.target.name, same);
      }
      case StmtKind::kInstr:
        return instruction(stmt);
      case StmtKind::kIf: {
        const Same condition = value(stmt.value);
        stated(stmt, condition);
        // Warps that part and meet equally often on both sides do meet.
        const bool meet = meetings(stmt.body) == meetings(stmt.orelse);
        meeting_.push_back(meet ? Same::kGrid : condition);
        under(condition, stmt.body);
        under(condition, stmt.orelse);
        meeting_.pop_back();
        return;
      }
      case StmtKind::kWhile: {
        const Same condition = value(stmt.value);
        stated(stmt, condition);
        meeting_.push_back(condition);
        under(condition, stmt.body);
        meeting_.pop_back();
        return;
      }
      case StmtKind::kFor: {
        const Same start = std::min(value(stmt.begin), value(stmt.step));
        const Same condition = std::min(start, value(stmt.end));
        stated(stmt, condition);
        depth_[stmt.name] = conditions_.size() + 1;
        assign(stmt.name, start);
        meeting_.push_back(condition);
        under(condition, stmt.body);
        meeting_.pop_back();
        return;
      }
      case StmtKind::kComment:
        return;
    }
  }

  // A condition that the text says is the same in every lane of a warp that is there.
  void stated(const Stmt& stmt, Same same) {
    if (report_ == nullptr || !stmt.uniform) return;
    if (same >= Same::kWarp)
      report_->proved(Kind::kUniform, stmt, Prover::kDataflow);
    else
      report_->unknown(Kind::kUniform, stmt,
                       "stated to be the same in every lane of a warp, which does not show");
  }

  void instruction(const Stmt& stmt) {
    const Instr& instr = stmt.instr;
    const lanes::InsInfo& info = lanes::ins_info(instr.ins);
    const Same guard = instr.guard.present() ? value(instr.guard) : Same::kGrid;
    if ((report_ != nullptr || open_ != nullptr) && info.who != Who::kThread) {
      Same reached = std::min(control(), guard);
      // Who waits for the cluster holds up nobody: all have to arrive, and only warps to wait as
      // one. Whether somebody waits in vain is lanes.live.
      const bool waits = instr.ins == Ins::kClusterWait;
      if (!waits && info.who >= Who::kCta && reached >= Same::kWarp)
        reached =
            meeting_.empty() ? Same::kGrid : *std::min_element(meeting_.begin(), meeting_.end());
      require(stmt, reached, waits ? Same::kWarp : wanted(info.who));
    }
    for (const lanes::RegRef& result : instr.results)
      assign(result.name, std::min({since(result.name), guard, result_of(instr)}));
  }

  void require(const Stmt& stmt, Same reached, Same who) {
    Same operands = Same::kGrid;
    switch (stmt.instr.ins) {
      case Ins::kWgmma:
      case Ins::kNamedSync:
      case Ins::kNamedArrive:
        for (const Val& arg : stmt.instr.args)
          if (arg.present()) operands = std::min(operands, value(arg));
        break;
      default:
        break;
    }
    const bool warp_alone = who == Same::kWarp && operands >= who;
    if (open_ != nullptr) {
      if (warp_alone && reached < who) open_->insert(&stmt);
      return;
    }
    if (reached >= who && operands >= who)
      return report_->proved(Kind::kUniform, stmt, Prover::kDataflow);
    if (const auto it = two_lanes_->find(&stmt);
        warp_alone && it != two_lanes_->end() && it->second.verdict != Verdict::kUnknown)
      return report_->note(Kind::kUniform, stmt, it->second,
                           "the other lanes of the warp of thread `tid`, among them thread "
                           "`other_tid`, come here as well");
    report_->unknown(Kind::kUniform, stmt,
                     std::string(reached < who ? "reached under conditions" : "with operands") +
                         " that are surely alike within a " +
                         std::string(name_of(reached < who ? reached : operands)) +
                         " only, and executed by a whole " + std::string(name_of(who)));
  }

  Same result_of(const Instr& instr) const {
    Same out = Same::kGrid;
    for (const Val& arg : instr.args)
      if (arg.present()) out = std::min(out, value(arg));
    for (const Val& index : instr.global.index) out = std::min(out, value(index));
    switch (instr.ins) {
      case Ins::kLdGlobal:
        return written_.count(instr.global.tensor) != 0 ? Same::kThread : out;
      case Ins::kLdShared:  // of one CTA; nobody writes meanwhile (lanes.shared-race)
        return std::min(out, Same::kCta);
      case Ins::kMapa:
        return out;
      case Ins::kVoteAny:
      case Ins::kRedux:
        return Same::kWarp;
      case Ins::kShflIdx:
        return out >= Same::kWarp ? Same::kWarp : Same::kThread;
      default:
        return Same::kThread;
    }
  }

  const lanes::Program& program_;
  Report* report_ = nullptr;
  const TwoLanes* two_lanes_ = nullptr;
  std::set<const Stmt*>* open_ = nullptr;
  std::set<std::string> written_;
  std::map<std::string, Val, std::less<>> definitions_;
  std::map<std::string, Same, std::less<>> registers_;
  std::map<std::string, size_t, std::less<>> depth_;  // conditions around a declaration
  std::vector<Same> conditions_;
  std::vector<Same> meeting_;  // the same, without branches whose sides meet equally often
  bool changed_ = false;
};

}  // namespace

WholeWarps::WholeWarps(const lanes::Program& program)
    : program_(program), open_(Uniformity(program).open()) {}

void WholeWarps::instruction(Walk& walk, const Stmt& stmt) {
  if (open_.count(&stmt) == 0) return;
  Answer found = two_lanes(walk);
  const auto [it, is_new] = two_lanes_.emplace(&stmt, found);
  // The worst of what several copies of it say.
  const auto better = [](const Answer& answer) {
    return answer.verdict == Verdict::kProved ? 2 : answer.verdict == Verdict::kUnknown ? 1 : 0;
  };
  if (!is_new && better(found) < better(it->second)) it->second = std::move(found);
}

// Whether what holds for one thread here holds for every other of its warp. Conditions on what
// threads have loaded, on what loops have made of registers, and loops that lanes walk apart are
// not looked into.
Answer WholeWarps::two_lanes(Walk& walk) const {
  Questions& questions = walk.questions();
  const Expr tid = Expr::sym("tid");
  Expr for_all = 1;
  for (size_t i = questions.contract_facts(); i < questions.facts().size(); ++i) {
    const Expr& fact = questions.facts()[i];
    if (questions.kinds()[i] == FactKind::kLemma) continue;
    const std::set<std::string> names = walk.symbols().closure(fact);
    const bool own = names.count("tid") != 0;
    for (const std::string& name : names) {
      const Symbol* symbol = walk.symbols().find(name);
      const SymbolKind kind = symbol == nullptr ? SymbolKind::kCall : symbol->kind;
      const bool alike = kind == SymbolKind::kCall || kind == SymbolKind::kPlace;
      if (!alike || (own && questions.kinds()[i] == FactKind::kDomain))
        return {Verdict::kUnknown, Prover::kNone, {}, "conditions beyond threads' numbers"};
    }
    if (own) for_all = for_all && fact;
  }
  const Expr other = walk.symbols().add(
      "other_tid", {.kind = SymbolKind::kPlace, .range = {0, program_.threads - 1}});
  questions.push();
  questions.assume(other / 32 == tid / 32);
  Answer answer = questions.prove(substitute(for_all, {{"tid", other}}));
  questions.pop();
  return answer;
}

void WholeWarps::finish(Walk& walk) { Uniformity(program_).report(walk.report(), two_lanes_); }

}  // namespace rooftile::verify
