// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/contract/contract_model.h"

#include <algorithm>
#include <set>

#include "rooftile/ir/types.h"
#include "rooftile/verify/arith/arithmetic.h"
#include "rooftile/verify/tile/contract_facts.h"
#include "rooftile/verify/tile/example_call.h"

namespace rooftile::verify {
namespace {

// Small calls first: they are the ones that can be looked at element by element.
constexpr int64_t kSizes[] = {16, 1024, int64_t{1} << 40};

class Search {
 public:
  Search(const ir::Program& program, const std::vector<Expr>& conditions, const Env& given)
      : program_(program) {
    for (const ir::TensorParam& tensor : program.tensors)
      if (tensor.role != ir::Role::kWorkspace)
        for (const Expr& extent : tensor.shape) collect_symbols(extent, dims_);
    for (const ContractFact& fact : contract_facts(program))
      facts_.push_back({fact.fact, fact.source});
    for (const Expr& condition : conditions)
      facts_.push_back({condition, "condition `" + condition.str() + "`"});
    for (const auto& [name, value] : given)
      if (name.find('[') == std::string::npos)
        facts_.push_back({Expr::sym(name) == Expr(value), name + " = " + std::to_string(value)});
    given_ = given;
    elements();
  }

  ContractModel run() {
    ContractModel out;
    bool none_full = false;  // no call without an empty dim
    for (const int64_t least : {1, 0})
      for (const int64_t most : kSizes) {
        const Answer answer = ask(least, most);
        if (answer.verdict == Verdict::kProved && made(answer.model, out)) {
          out.prover = answer.prover;
          out.verdict = least > 0   ? Verdict::kProved
                        : none_full ? Verdict::kRefuted
                                    : Verdict::kUnknown;
          out.reason = "only calls with an empty dim meet it" +
                       (none_full ? ": " + culprits(1) : std::string());
          return out;
        }
        if (answer.verdict == Verdict::kRefuted && most == kSizes[2]) {
          none_full |= least > 0;
          if (least > 0) continue;
          out.verdict = Verdict::kRefuted;
          out.prover = answer.prover;
          out.reason = "no call meets the contract: " + culprits(0);
          return out;
        }
        if (answer.verdict == Verdict::kUnknown) out.reason = answer.reason;
      }
    if (out.reason.empty()) out.reason = "no call was found that meets the contract";
    return out;
  }

  std::optional<Env> roomy(int64_t most) {
    Arithmetic arithmetic(ArithmeticLimits{.solver = false});
    for (const ContractFact& fact : facts_) arithmetic.assume(fact.fact);
    for (const IndexFacts& order : order_facts(program_)) arithmetic.assume(order);
    for (const std::string& dim : dims_)
      arithmetic.assume(Expr(1) <= Expr::sym(dim) && Expr::sym(dim) <= Expr(most));
    Answer found = arithmetic.consistent();
    if (found.verdict != Verdict::kProved) return std::nullopt;
    for (const std::string& dim : dims_)
      for (const int64_t least : {most, most - most / 4, most / 2}) {
        arithmetic.push();
        arithmetic.assume(Expr::sym(dim) >= Expr(least));
        const Answer larger = arithmetic.consistent();
        if (larger.verdict == Verdict::kProved) {
          found = larger;
          break;
        }
        arithmetic.pop();
      }
    ContractModel out;
    if (!made(found.model, out)) return std::nullopt;
    return out.call;
  }

 private:
  Answer ask(int64_t least, int64_t most) const {
    Arithmetic arithmetic;
    for (const ContractFact& fact : facts_) arithmetic.assume(fact.fact);
    for (const IndexFacts& order : order_facts(program_)) arithmetic.assume(order);
    for (const std::string& dim : dims_)
      arithmetic.assume(Expr(least) <= Expr::sym(dim) && Expr::sym(dim) <= Expr(most));
    return arithmetic.consistent();
  }

  // Of tensors that hold something, an element that the contract speaks of.
  void elements() {
    for (const ir::TensorParam& tensor : program_.tensors) {
      if (tensor.role != ir::Role::kIn || !ir::is_integer(tensor.dtype) || tensor.shape.empty())
        continue;
      const std::vector<Expr> first(tensor.shape.size(), Expr(0));
      for (const ContractFact& fact :
           element_facts(program_, Expr::index_load(tensor.name, first))) {
        Expr holds = fact.fact;
        for (const Expr& extent : tensor.shape) holds = holds || extent <= Expr(0);
        facts_.push_back({holds, fact.source});
      }
    }
  }

  bool made(const Env& model, ContractModel& out) const {
    Env call = given_;
    for (const auto& [name, value] : model) call.emplace(name, value);
    std::string why;
    const std::optional<ExampleCall> example = example_call(program_, call, &why);
    if (!example) {
      out.reason = why;
      return false;
    }
    out.call = std::move(call);
    return true;
  }

  // A small set of statements that cannot hold together: what can be left out is.
  std::string culprits(int64_t least) const {
    std::vector<ContractFact> kept = facts_;
    for (size_t i = kept.size(); i-- > 0;) {
      std::vector<ContractFact> fewer = kept;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      Arithmetic arithmetic;
      for (const ContractFact& fact : fewer) arithmetic.assume(fact.fact);
      for (const std::string& dim : dims_) arithmetic.assume(Expr(least) <= Expr::sym(dim));
      if (arithmetic.consistent().verdict == Verdict::kRefuted) kept = std::move(fewer);
    }
    std::string out;
    for (const ContractFact& fact : kept) out += (out.empty() ? "" : " against ") + fact.source;
    return out;
  }

  const ir::Program& program_;
  std::set<std::string> dims_;
  std::vector<ContractFact> facts_;
  Env given_;
};

}  // namespace

ContractModel contract_model(const ir::Program& program, const std::vector<Expr>& conditions,
                             const Env& given) {
  return Search(program, conditions, given).run();
}

std::optional<Env> roomy_call(const ir::Program& program, const std::vector<Expr>& conditions,
                              int64_t most) {
  return Search(program, conditions, {}).roomy(most);
}

}  // namespace rooftile::verify
