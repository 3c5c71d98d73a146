// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/check_formula.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "rooftile/base/expr.h"

namespace rooftile::verify {
namespace {

struct Question {
  std::vector<Expr> facts;
  Expr goal;
};

// ---- linear terms over named atoms

using Int = __int128;
struct Linear {
  std::map<std::string, Int> terms;  // atom -> coefficient; no zeros
  Int constant = 0;
  void add(const Linear& other, Int times) {
    for (const auto& [atom, c] : other.terms) {
      Int& mine = terms[atom];
      mine += c * times;
      if (mine == 0) terms.erase(atom);
    }
    constant += other.constant * times;
  }
};

// linear >= 0
using System = std::vector<Linear>;

// Cases that a formula falls into; each a conjunction of inequalities. Too many are given up.
constexpr size_t kMostCases = 256, kMostRows = 400;

class Splitter {
 public:
  bool gave_up = false;

  std::vector<System> cases(const Expr& e, bool truth) {
    switch (e.kind()) {
      case ExprKind::kConst:
        return (e.value() != 0) == truth ? std::vector<System>{{}} : std::vector<System>{};
      case ExprKind::kNot:
        return cases(e.args()[0], !truth);
      case ExprKind::kAnd:
      case ExprKind::kOr:
        return (e.kind() == ExprKind::kAnd) == truth
                   ? both(cases(e.args()[0], truth), cases(e.args()[1], truth))
                   : either(cases(e.args()[0], truth), cases(e.args()[1], truth));
      case ExprKind::kLt:
        return truth ? compare(e.args()[0], e.args()[1], 1) : compare(e.args()[1], e.args()[0], 0);
      case ExprKind::kLe:
        return truth ? compare(e.args()[0], e.args()[1], 0) : compare(e.args()[1], e.args()[0], 1);
      case ExprKind::kEq:
      case ExprKind::kNe: {
        const Expr &a = e.args()[0], &b = e.args()[1];
        if ((e.kind() == ExprKind::kEq) == truth) return both(compare(a, b, 0), compare(b, a, 0));
        return either(compare(a, b, 1), compare(b, a, 1));
      }
      default: {  // a number as a formula: not zero
        const Expr zero = 0;
        return truth ? either(compare(e, zero, 1), compare(zero, e, 1))
                     : both(compare(e, zero, 0), compare(zero, e, 0));
      }
    }
  }

  std::vector<System> both(const std::vector<System>& a, const std::vector<System>& b) {
    std::vector<System> out;
    for (const System& x : a)
      for (const System& y : b) {
        if (out.size() >= kMostCases) {
          gave_up = true;
          return out;
        }
        System joined = x;
        joined.insert(joined.end(), y.begin(), y.end());
        out.push_back(std::move(joined));
      }
    return out;
  }

 private:
  static std::vector<System> either(std::vector<System> a, const std::vector<System>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  // A term with the inequalities under which it has this value.
  struct Valued {
    Linear value;
    System when;
  };

  // a + gap <= b
  std::vector<System> compare(const Expr& a, const Expr& b, Int gap) {
    std::vector<System> out;
    for (const Valued& x : values(a))
      for (const Valued& y : values(b)) {
        if (out.size() >= kMostCases) {
          gave_up = true;
          return out;
        }
        Linear row = y.value;
        row.add(x.value, -1);
        row.constant -= gap;
        System system = x.when;
        system.insert(system.end(), y.when.begin(), y.when.end());
        system.push_back(std::move(row));
        out.push_back(std::move(system));
      }
    return out;
  }

  static Valued atom(const Expr& e) { return {.value = {.terms = {{e.str(), 1}}}, .when = {}}; }

  std::vector<Valued> values(const Expr& e) {
    switch (e.kind()) {
      case ExprKind::kConst:
        return {{.value = {.terms = {}, .constant = e.value()}, .when = {}}};
      case ExprKind::kAdd:
      case ExprKind::kSub:
        return pairs(e, [&](const Linear& a, const Linear& b) -> std::optional<Linear> {
          Linear sum = a;
          sum.add(b, e.kind() == ExprKind::kAdd ? 1 : -1);
          return sum;
        });
      case ExprKind::kMul:
        return pairs(e, [](const Linear& a, const Linear& b) -> std::optional<Linear> {
          if (!a.terms.empty() && !b.terms.empty()) return std::nullopt;
          Linear out;
          out.add(a.terms.empty() ? b : a, a.terms.empty() ? a.constant : b.constant);
          return out;
        });
      case ExprKind::kFloorDiv:
      case ExprKind::kMod:
        return divided(e);
      case ExprKind::kMin:
      case ExprKind::kMax: {
        const bool least = e.kind() == ExprKind::kMin;
        std::vector<Valued> out;
        for (int pick = 0; pick < 2; ++pick) {
          const Expr &mine = e.args()[static_cast<size_t>(pick)],
                     &other = e.args()[static_cast<size_t>(1 - pick)];
          choose(mine, least ? compare(mine, other, 0) : compare(other, mine, 0), out);
        }
        return out;
      }
      case ExprKind::kSelect: {
        std::vector<Valued> out;
        choose(e.args()[1], cases(e.args()[0], true), out);
        choose(e.args()[2], cases(e.args()[0], false), out);
        return out;
      }
      default:
        return {atom(e)};
    }
  }

  void choose(const Expr& value, const std::vector<System>& when, std::vector<Valued>& out) {
    for (const Valued& v : values(value))
      for (const System& system : when) {
        if (out.size() >= kMostCases) {
          gave_up = true;
          return;
        }
        Valued joined = v;
        joined.when.insert(joined.when.end(), system.begin(), system.end());
        out.push_back(std::move(joined));
      }
  }

  template <class Join>
  std::vector<Valued> pairs(const Expr& e, const Join& join) {
    std::vector<Valued> out;
    for (const Valued& a : values(e.args()[0]))
      for (const Valued& b : values(e.args()[1])) {
        if (out.size() >= kMostCases) {
          gave_up = true;
          return out;
        }
        std::optional<Linear> value = join(a.value, b.value);
        Valued joined = value ? Valued{std::move(*value), a.when} : atom(e);
        if (value) joined.when.insert(joined.when.end(), b.when.begin(), b.when.end());
        out.push_back(std::move(joined));
      }
    return out;
  }

  // n = d q + r, 0 <= r < d, for a positive constant d.
  std::vector<Valued> divided(const Expr& e) {
    const Expr& by = e.args()[1];
    if (!by.is_const() || by.value() <= 0) return {atom(e)};
    const Linear quotient{.terms = {{(e.args()[0] / by).str(), 1}}};
    std::vector<Valued> out = values(e.args()[0]);
    for (Valued& v : out) {
      Linear rest = v.value;  // n - d q >= 0
      rest.add(quotient, -Int{by.value()});
      Linear below;  // d - 1 - rest >= 0
      below.add(rest, -1);
      below.constant += by.value() - 1;
      v.when.push_back(rest);
      v.when.push_back(below);
      v.value = e.kind() == ExprKind::kFloorDiv ? quotient : rest;
    }
    return out;
  }
};

// ---- elimination

Int common(Int a, Int b) {
  a = a < 0 ? -a : a;
  b = b < 0 ? -b : b;
  while (b != 0) {
    const Int r = a % b;
    a = b;
    b = r;
  }
  return a;
}

// Divides by what all coefficients have in common and rounds the constant down: integers.
void tighten(Linear& row) {
  Int g = 0;
  for (const auto& [atom, c] : row.terms) g = common(g, c);
  if (g <= 1) return;
  for (auto& [atom, c] : row.terms) c /= g;
  row.constant = row.constant >= 0 ? row.constant / g : -((-row.constant + g - 1) / g);
}

// True: no values meet all of it.
bool contradicts(System system) {
  constexpr Int kLarge = Int{1} << 80;
  while (true) {
    for (Linear& row : system) tighten(row);
    System left;
    for (Linear& row : system) {
      if (!row.terms.empty())
        left.push_back(std::move(row));
      else if (row.constant < 0)
        return true;
    }
    if (left.empty() || left.size() > kMostRows) return false;
    // The atom whose elimination adds the fewest rows.
    std::map<std::string, std::pair<size_t, size_t>> signs;
    for (const Linear& row : left)
      for (const auto& [atom, c] : row.terms) ++(c > 0 ? signs[atom].first : signs[atom].second);
    const auto best =
        std::min_element(signs.begin(), signs.end(), [](const auto& a, const auto& b) {
          return a.second.first * a.second.second < b.second.first * b.second.second;
        });
    const std::string atom = best->first;
    System next, lower, upper;
    for (Linear& row : left) {
      const auto it = row.terms.find(atom);
      if (it == row.terms.end())
        next.push_back(std::move(row));
      else
        (it->second > 0 ? lower : upper).push_back(std::move(row));
    }
    for (const Linear& a : lower)
      for (const Linear& b : upper) {
        const Int x = a.terms.at(atom), y = -b.terms.at(atom);
        if (x > kLarge || y > kLarge) return false;
        Linear row;
        row.add(a, y);
        row.add(b, x);
        next.push_back(std::move(row));
      }
    system = std::move(next);
  }
}

bool follows(const Question& q) {
  Splitter splitter;
  std::vector<System> cases = splitter.cases(q.goal, false);
  for (const Expr& fact : q.facts) {
    if (splitter.gave_up || cases.empty()) break;
    cases = splitter.both(cases, splitter.cases(fact, true));
  }
  if (splitter.gave_up) return false;
  return std::all_of(cases.begin(), cases.end(), [](const System& s) { return contradicts(s); });
}

// ---- trying values

bool is_broken(const Question& q) {
  std::set<std::string> symbols;
  collect_symbols(q.goal, symbols);
  for (const Expr& fact : q.facts) collect_symbols(fact, symbols);
  std::mt19937_64 random(1);
  static constexpr int64_t kValues[] = {0, 1, 2, 3, 5, 7, 8, 16, 31, 64, 127, 128, 129, 256, 4096};
  for (int attempt = 0; attempt < 400; ++attempt) {
    Env env;
    for (const std::string& symbol : symbols)
      env[symbol] = attempt % 2 == 0 ? kValues[random() % std::size(kValues)]
                                     : static_cast<int64_t>(random() % 12);
    const uint64_t salt = random();
    const IndexReader reader = [&](const std::string& tensor, const std::vector<int64_t>& at) {
      uint64_t h = salt ^ std::hash<std::string>()(tensor);
      for (const int64_t i : at) h = (h ^ static_cast<uint64_t>(i)) * 0x9e3779b97f4a7c15ull;
      return static_cast<int64_t>(h >> 60);
    };
    const bool meets = std::all_of(q.facts.begin(), q.facts.end(), [&](const Expr& fact) {
      return evaluate(fact, env, reader).value_or(0) != 0;
    });
    if (meets && evaluate(q.goal, env, reader).value_or(1) == 0) return true;
  }
  return false;
}

std::optional<std::vector<Question>> read(std::string_view text) {
  std::vector<Question> out;
  Question at;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.starts_with("index ")) continue;
    if (!line.starts_with("fact ") && !line.starts_with("goal ")) return std::nullopt;
    const std::optional<Expr> e = parse_expr(line.substr(5));
    if (!e) return std::nullopt;
    if (line.starts_with("fact ")) {
      at.facts.push_back(*e);
      continue;
    }
    at.goal = *e;
    out.push_back(std::move(at));
    at = {};
  }
  if (out.empty()) return std::nullopt;
  return out;
}

}  // namespace

Redone check_formulas(std::string_view text) {
  const std::optional<std::vector<Question>> questions = read(text);
  if (!questions) return Redone::kNoText;
  Redone worst = Redone::kHolds;
  for (const Question& q : *questions) {
    if (is_broken(q)) return Redone::kBroken;
    if (!follows(q)) worst = Redone::kTooHard;
  }
  return worst;
}

}  // namespace rooftile::verify
