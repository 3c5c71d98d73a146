// SPDX-License-Identifier: Apache-2.0
#include <z3++.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "rooftile/verify/arith/solver.h"

namespace rooftile::verify::arith {
namespace {

// Never reached by a question within its resource limit: a second guard, not a verdict's measure.
constexpr std::chrono::seconds kWatchdog{20};

class Watchdog {
 public:
  explicit Watchdog(z3::context& context)
      : thread_([this, &context] {
          std::unique_lock lock(mutex_);
          if (!done_.wait_for(lock, kWatchdog, [this] { return over_; })) context.interrupt();
        }) {}
  ~Watchdog() {
    {
      std::lock_guard lock(mutex_);
      over_ = true;
    }
    done_.notify_one();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  bool over_ = false;
  std::thread thread_;
};

class Encoder {
 public:
  explicit Encoder(z3::context& context) : context_(context) {}

  z3::expr formula(const Formula& f) {
    switch (f->kind) {
      case FormulaNode::Kind::kTrue:
      case FormulaNode::Kind::kFalse:
        return context_.bool_val(f->kind == FormulaNode::Kind::kTrue);
      case FormulaNode::Kind::kLiteral: {
        const z3::expr t = term(f->literal.term);
        return f->literal.relation == Relation::kGe ? t >= number(0) : t == number(0);
      }
      default:
        break;
    }
    z3::expr_vector args(context_);
    for (const Formula& arg : f->args) args.push_back(formula(arg));
    return f->kind == FormulaNode::Kind::kAnd ? z3::mk_and(args) : z3::mk_or(args);
  }
  const std::map<AtomId, z3::expr>& atoms() const { return atoms_; }

 private:
  z3::expr number(Wide v) { return context_.int_val(to_string(v).c_str()); }
  z3::expr atom(AtomId id) {
    auto it = atoms_.find(id);
    if (it == atoms_.end())
      it = atoms_.emplace(id, context_.int_const(("a" + std::to_string(id)).c_str())).first;
    return it->second;
  }
  z3::expr term(const Term& t) {
    z3::expr_vector parts(context_);
    for (const auto& [id, c] : t.parts) parts.push_back(c == 1 ? atom(id) : number(c) * atom(id));
    if (t.constant != 0 || t.parts.empty()) parts.push_back(number(t.constant));
    return parts.size() == 1 ? parts[0] : z3::sum(parts);
  }

  z3::context& context_;
  std::map<AtomId, z3::expr> atoms_;
};

// A decimal number that Z3 prints.
Wide read_number(const std::string& text) {
  Wide v = 0;
  const bool negative = !text.empty() && text[0] == '-';
  for (char c : text)
    if (c >= '0' && c <= '9') v = add(mul(v, 10), c - '0');
  return negative ? neg(v) : v;
}

Model model_of(const z3::model& found, const Encoder& encoder) {
  Model model;
  for (const auto& [id, constant] : encoder.atoms())
    model[id] = read_number(Z3_get_numeral_string(constant.ctx(), found.eval(constant, true)));
  return model;
}

uint64_t work_of(const z3::stats& statistics) {
  for (unsigned i = 0; i < statistics.size(); ++i)
    if (statistics.key(i) == "rlimit count") return statistics.uint_value(i);
  return 0;
}

SolverAnswer ask(const std::vector<Formula>& formulas, uint64_t rlimit) {
  z3::context context;
  // The core solver: the tactic that Z3 takes for QF_LIA turns bounded integers into bits and does
  // not count that work (measured: 20 s beyond the limit).
  z3::solver solver(context, z3::solver::simple());
  z3::params params(context);
  params.set("rlimit", static_cast<unsigned>(std::min<uint64_t>(rlimit, UINT32_MAX)));
  params.set("random_seed", 0U);
  solver.set(params);
  Encoder encoder(context);
  for (const Formula& f : formulas) solver.add(encoder.formula(f));
  z3::check_result result = z3::unknown;
  {
    const Watchdog watchdog(context);
    result = solver.check();
  }
  SolverAnswer answer;
  answer.work = work_of(solver.statistics());
  if (result == z3::unsat) answer.status = SolverAnswer::Status::kEmpty;
  if (result == z3::unknown) answer.reason = "the solver gives up: " + solver.reason_unknown();
  if (result == z3::sat) {
    answer.status = SolverAnswer::Status::kModel;
    answer.model = model_of(solver.get_model(), encoder);
  }
  return answer;
}

}  // namespace

SolverAnswer ask_solver(const std::vector<Formula>& formulas, uint64_t rlimit) {
  try {
    return ask(formulas, rlimit);
  } catch (const z3::exception& e) {
    return {SolverAnswer::Status::kUnknown, {}, std::string("the solver fails: ") + e.msg()};
  } catch (const Overflow&) {
    return {SolverAnswer::Status::kUnknown, {}, "a value of the solver's leaves 128 bits"};
  }
}

std::string solver_version() {
  unsigned major = 0, minor = 0, build = 0, revision = 0;
  Z3_get_version(&major, &minor, &build, &revision);
  return "z3 " + std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(build);
}

}  // namespace rooftile::verify::arith
