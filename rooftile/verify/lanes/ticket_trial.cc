// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/ticket_trial.h"

#include <algorithm>
#include <map>
#include <set>

#include "rooftile/lanes/program_text.h"

namespace rooftile::verify {

using lanes::Body;
using lanes::Fn;
using lanes::Ins;
using lanes::Special;
using lanes::Stmt;
using lanes::StmtKind;
using lanes::Val;
using lanes::ValKind;

namespace {

constexpr int64_t kGroup = 128;
constexpr int64_t kMostRounds = 4096;
constexpr int64_t kSizes[] = {8, 136, 520};
constexpr int64_t kMultiprocessors[] = {1, 2, 3, 5, 8};
constexpr size_t kMostCalls = 1024;
constexpr int64_t kMostStatements = 6'000;  // of a call; longer ones are passed over

using Number = std::optional<int64_t>;
using Ticket = std::vector<int64_t>;  // its index

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

Number computed(Fn fn, const std::vector<int64_t>& a) {
  switch (fn) {
    case Fn::kCast:
      return a[0];
    case Fn::kAdd:
      return a[0] + a[1];
    case Fn::kSub:
      return a[0] - a[1];
    case Fn::kMul:
      return a[0] * a[1];
    case Fn::kFloorDiv:
      return a[1] == 0 ? 0 : floor_div(a[0], a[1]);
    case Fn::kFloorMod:
      return a[1] == 0 ? 0 : a[0] - floor_div(a[0], a[1]) * a[1];
    case Fn::kShr:
      return a[1] < 0 || a[1] > 62 ? Number() : a[0] >> a[1];
    case Fn::kAnd:
      return a[0] & a[1];
    case Fn::kMin:
      return std::min(a[0], a[1]);
    case Fn::kMax:
      return std::max(a[0], a[1]);
    case Fn::kLt:
      return a[0] < a[1] ? 1 : 0;
    case Fn::kLe:
      return a[0] <= a[1] ? 1 : 0;
    case Fn::kEq:
      return a[0] == a[1] ? 1 : 0;
    case Fn::kNe:
      return a[0] != a[1] ? 1 : 0;
    case Fn::kLogicalAnd:
      return a[0] != 0 && a[1] != 0 ? 1 : 0;
    case Fn::kLogicalOr:
      return a[0] != 0 || a[1] != 0 ? 1 : 0;
    case Fn::kLogicalNot:
      return a[0] == 0 ? 1 : 0;
    case Fn::kSelect:
      return a[0] != 0 ? a[1] : a[2];
    default:
      return std::nullopt;
  }
}

// Of a call: what the CTAs before have left.
struct Memory {
  std::map<Ticket, int64_t> tickets;
  std::map<Ticket, std::set<int64_t>> announced;  // rows of images, since the ticket was cleared
  std::map<int64_t, int64_t> stored;              // rows of images: by which CTA
  int64_t statements = 0;
};

struct Unknown {};
struct TooLong {};
struct Wrong {
  const Stmt* stmt;
  std::string what;
};

// One thread of a CTA, as far as its integers go.
class Thread {
 public:
  Thread(const lanes::Program& kernel, const Env& call, int64_t grid, Memory& memory, int64_t cta,
         int64_t tid)
      : kernel_(kernel), call_(call), grid_(grid), memory_(memory), cta_(cta), tid_(tid) {
    for (const lanes::TensorUse& tensor : kernel.tensors)
      if (tensor.workspace) (tensor.zeroed ? tickets_ : images_).insert(tensor.name);
  }
  void run() { run(kernel_.body); }

 private:
  Number value(const Val& v) const {
    switch (v->kind) {
      case ValKind::kInt:
        return v->integer;
      case ValKind::kVar: {
        const auto it = registers_.find(v->name);
        return it == registers_.end() ? Number() : it->second;
      }
      case ValKind::kParam: {
        const auto it = call_.find(v->name);
        return it == call_.end() ? Number() : Number(it->second);
      }
      case ValKind::kSpecial:
        return special(v->special);
      case ValKind::kFn:
        return function(v);
      default:
        return std::nullopt;
    }
  }
  Number special(Special which) const {
    switch (which) {
      case Special::kTid:
        return tid_;
      case Special::kLane:
        return tid_ % 32;
      case Special::kWarp:
        return tid_ / 32;
      case Special::kCtaX:
        return cta_;
      case Special::kGridX:
        return grid_;
      case Special::kClusterRank:
        return cta_ % kernel_.cluster;
      default:
        return std::nullopt;
    }
  }
  // What decides does so, whatever is not known beside it.
  Number function(const Val& v) const {
    if (v->fn == Fn::kSelect) {
      const Number condition = value(v->args[0]);
      return condition ? value(v->args[*condition != 0 ? 1 : 2]) : Number();
    }
    std::vector<int64_t> args;
    for (const Val& arg : v->args) {
      const Number n = value(arg);
      if (!n) return std::nullopt;
      args.push_back(*n);
    }
    return computed(v->fn, args);
  }
  int64_t known(const Val& v) const {
    const Number n = value(v);
    if (!n) throw Unknown();
    return *n;
  }

  bool concerns(const Stmt& stmt) const {
    if (stmt.kind == StmtKind::kInstr)
      return tickets_.count(stmt.instr.global.tensor) > 0 ||
             images_.count(stmt.instr.global.tensor) > 0;
    const auto in = [&](const Stmt& inner) { return concerns(inner); };
    return std::any_of(stmt.body.begin(), stmt.body.end(), in) ||
           std::any_of(stmt.orelse.begin(), stmt.orelse.end(), in);
  }
  void forget(const Body& body) {
    for (const Stmt& stmt : body) {
      registers_.erase(stmt.kind == StmtKind::kAssign ? stmt.target.name : stmt.name);
      for (const lanes::RegRef& result : stmt.instr.results) registers_.erase(result.name);
      forget(stmt.body);
      forget(stmt.orelse);
    }
  }
  void set(const std::string& name, const Number& n) {
    registers_.erase(name);
    if (n) registers_.emplace(name, *n);
  }

  void run(const Body& body) {
    for (const Stmt& stmt : body) run(stmt);
  }
  void run(const Stmt& stmt) {
    if (++memory_.statements > kMostStatements) throw TooLong();
    switch (stmt.kind) {
      case StmtKind::kDecl:
        if (stmt.count == 0) set(stmt.name, stmt.value.present() ? value(stmt.value) : Number());
        return;
      case StmtKind::kAssign:
        if (!stmt.target.first.present()) set(stmt.target.name, value(stmt.value));
        return;
      case StmtKind::kInstr:
        for (const lanes::RegRef& result : stmt.instr.results) registers_.erase(result.name);
        if (concerns(stmt)) instruction(stmt);
        return;
      case StmtKind::kIf: {
        const Number condition = value(stmt.value);
        if (condition) return run(*condition != 0 ? stmt.body : stmt.orelse);
        break;
      }
      case StmtKind::kFor:
        if (concerns(stmt)) return loop(stmt);
        break;
      default:
        break;
    }
    if (concerns(stmt)) throw Unknown();
    forget({stmt});
  }
  void loop(const Stmt& stmt) {
    const int64_t begin = known(stmt.begin), end = known(stmt.end), step = known(stmt.step);
    if (step < 1 || (end - begin) / step > kMostRounds) throw Unknown();
    for (int64_t i = begin; i < end; i += step) {
      set(stmt.name, i);
      run(stmt.body);
    }
  }

  void instruction(const Stmt& stmt) {
    const lanes::Instr& i = stmt.instr;
    if (i.guard.present() && known(i.guard) == 0) return;
    std::vector<int64_t> index;
    for (const Val& at : i.global.index) index.push_back(known(at));
    if (tickets_.count(i.global.tensor) > 0) return ticket(stmt, index);
    const int64_t row = index.at(0);
    if (i.ins == Ins::kStGlobal) {
      const auto [it, fresh] = memory_.stored.emplace(row, cta_);
      if (!fresh && (it->second != cta_ || sent_.count(row) == 0))
        throw Wrong{&stmt, "image " + std::to_string(row) + " is stored by CTA " +
                               std::to_string(it->second) + " and by CTA " + std::to_string(cta_)};
      sent_.insert(row);
    } else if (i.ins == Ins::kLdGlobal && acquired_.count(row) == 0) {
      throw Wrong{&stmt, "image " + std::to_string(row) +
                             " is read, which nobody has announced to who reads it"};
    }
  }

  void ticket(const Stmt& stmt, const Ticket& at) {
    int64_t& count = memory_.tickets[at];
    const std::string name = "ticket " + std::to_string(at.at(0));
    switch (stmt.instr.ins) {
      case Ins::kRedGlobalRelease:
      case Ins::kRedGlobal:
        count += known(lanes::var(lanes::Ty::kI32, stmt.instr.regs.at(0).name));
        memory_.announced[at].merge(sent_);
        sent_.clear();
        return;
      case Ins::kWaitGlobal: {
        const int64_t wanted = known(stmt.instr.args[0]);
        if (count != wanted)
          throw Wrong{&stmt, name + " is waited for to hold " + std::to_string(wanted) +
                                 ", and the CTAs up to this one make it " + std::to_string(count)};
        acquired_ = memory_.announced[at];
        return;
      }
      case Ins::kStGlobal:
        count = known(lanes::var(lanes::Ty::kI32, stmt.instr.regs.at(0).name));
        memory_.announced.erase(at);
        return;
      default:
        throw Unknown();
    }
  }

  const lanes::Program& kernel_;
  const Env& call_;
  const int64_t grid_;
  Memory& memory_;
  const int64_t cta_, tid_;
  std::set<std::string> tickets_, images_;
  std::map<std::string, int64_t> registers_;
  std::set<int64_t> sent_;      // rows of images that are not announced yet
  std::set<int64_t> acquired_;  // of those that the last wait was for
};

// One group at a time: groups have tickets and columns of their own.
void run_call(const lanes::Program& kernel, const Env& call, int64_t grid, Counterexample& at) {
  for (int64_t tid = kGroup; tid < kernel.threads; tid += kGroup) {
    Memory memory;
    for (int64_t cta = 0; cta < grid; ++cta) {
      at.at = {{"cta.x", cta}, {"tid", tid}};
      Thread(kernel, call, grid, memory, cta, tid).run();
    }
    for (const auto& [ticket, count] : memory.tickets)
      if (count != 0)
        throw Wrong{nullptr, "ticket " + std::to_string(ticket.at(0)) + " holds " +
                                 std::to_string(count) + " when the kernel ends"};
  }
}

// Small calls that the contract admits, as far as sizes tell.
std::vector<Env> calls(const lanes::Program& kernel, const LaneContract& contract) {
  std::set<std::string> names = symbols_of(kernel.grid_x);
  for (const lanes::ScalarUse& scalar : kernel.scalars)
    if (scalar.type == lanes::Ty::kI32) names.insert(scalar.name);
  std::vector<Env> out = {{}};
  for (const std::string& name : names) {
    std::vector<int64_t> values(std::begin(kSizes), std::end(kSizes));
    if (name == "SMS") values.assign(std::begin(kMultiprocessors), std::end(kMultiprocessors));
    for (const Expr& fact : contract.facts)
      if (fact.kind() == ExprKind::kEq && fact.args()[0].same_as(Expr::sym(name)) &&
          fact.args()[1].is_const())
        values = {fact.args()[1].value()};
    std::vector<Env> more;
    for (const Env& call : out)
      for (const int64_t value : values) {
        if (more.size() >= kMostCalls) break;
        more.push_back(call);
        more.back()[name] = value;
      }
    out = std::move(more);
  }
  std::erase_if(out, [&](const Env& call) {
    return std::any_of(contract.facts.begin(), contract.facts.end(), [&](const Expr& fact) {
      return evaluate(fact, call) == std::optional<int64_t>(0);
    });
  });
  return out;
}

const Stmt* first_ticket(const Body& body) {
  for (const Stmt& stmt : body) {
    if (stmt.kind == StmtKind::kInstr && stmt.instr.ins == Ins::kWaitGlobal) return &stmt;
    for (const Body* inner : {&stmt.body, &stmt.orelse})
      if (const Stmt* found = first_ticket(*inner)) return found;
  }
  return nullptr;
}

}  // namespace

bool waits_for_tickets(const lanes::Program& kernel) {
  return first_ticket(kernel.body) != nullptr;
}

std::optional<Finding> try_tickets(const lanes::Program& kernel, const LaneContract& contract) {
  for (const Env& call : calls(kernel, contract)) {
    const std::optional<int64_t> grid = evaluate(kernel.grid_x, call);
    if (!grid || *grid < 1) continue;
    Finding finding;
    try {
      run_call(kernel, call, *grid, finding.example);
    } catch (const Unknown&) {
      return std::nullopt;
    } catch (const TooLong&) {
      continue;
    } catch (const Wrong& wrong) {
      const Stmt& stmt = wrong.stmt != nullptr ? *wrong.stmt : *first_ticket(kernel.body);
      finding.kind = Kind::kGlobalRace;
      finding.subject = lanes::print_head(stmt);
      finding.loc = stmt.loc;
      finding.verdict = Verdict::kRefuted;
      finding.prover = Prover::kEnumeration;
      finding.reason = wrong.what;
      finding.example.call = call;
      return finding;
    }
  }
  return std::nullopt;
}

}  // namespace rooftile::verify
