// SPDX-License-Identifier: Apache-2.0
// Questions of the kinds that kernels ask, written as text: proved ones, broken ones with a model
// that is checked here again, and some that are honestly unknown. Among them those whose plain form
// makes a solver run away (products of symbols, constants beside products, quotients by symbols).
#include "rooftile/verify/arith/arithmetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "rooftile/verify/arith/solver.h"

namespace rooftile::verify {
namespace {

Expr parse(std::string_view text) {
  const auto e = parse_expr(text);
  EXPECT_TRUE(e) << text;
  return e.value_or(Expr(0));
}

struct Question {
  std::vector<const char*> facts;
  const char* goal;
  Verdict verdict = Verdict::kProved;
};

// The model meets the facts and breaks the goal, by the evaluator that everybody uses.
void expect_breaks(const Answer& answer, const std::vector<Expr>& facts, const Expr& goal) {
  const IndexReader reader = [&](const std::string& tensor, const std::vector<int64_t>& at) {
    std::string name = tensor + "[";
    for (size_t i = 0; i < at.size(); ++i) name += (i ? ", " : "") + std::to_string(at[i]);
    const auto it = answer.model.find(name + "]");
    EXPECT_NE(it, answer.model.end()) << name;
    return it == answer.model.end() ? 0 : it->second;
  };
  for (const Expr& fact : facts)
    EXPECT_NE(evaluate(fact, answer.model, reader).value_or(0), 0) << fact.str();
  EXPECT_EQ(evaluate(goal, answer.model, reader).value_or(1), 0) << goal.str();
}

void check(const Question& q, const ArithmeticLimits& limits = {}) {
  Arithmetic arithmetic(limits);
  std::vector<Expr> facts;
  for (const char* text : q.facts) {
    facts.push_back(parse(text));
    arithmetic.assume(facts.back());
  }
  const Expr goal = parse(q.goal);
  const Answer answer = arithmetic.prove(goal);
  EXPECT_EQ(verdict_name(answer.verdict), verdict_name(q.verdict))
      << q.goal << ": " << answer.reason;
  if (answer.verdict == Verdict::kRefuted) expect_breaks(answer, facts, goal);
  if (answer.verdict == Verdict::kUnknown) {
    EXPECT_FALSE(answer.reason.empty());
  }
}

constexpr Verdict kRefuted = Verdict::kRefuted;

TEST(Arithmetic, KernelQuestions) {
  const Question questions[] = {
      {{"0 <= i", "i < 4"}, "i + 3 < 7"},
      {{"0 <= i", "i < 4"}, "i + 4 < 7", kRefuted},
      // a guard, per dimension
      {{"0 <= b", "0 <= i", "i < 128", "M >= 1", "b * 128 + i < M"}, "b < (M + 127) / 128"},
      {{"0 <= b", "b < (M + 127) / 128", "0 <= i", "i < 128", "M % 128 == 0"}, "b * 128 + i < M"},
      {{"0 <= b", "b < (M + 127) / 128", "0 <= i", "i < 128", "M >= 1"},
       "b * 128 + i < M",
       kRefuted},
      // symbolic tiles, one dimension at a time
      {{"BM >= 1", "0 <= b", "b < nb", "0 <= i", "i < BM"}, "b * BM + i < nb * BM"},
      {{"BM >= 1", "M >= 0", "M % BM == 0", "0 <= b", "b < M / BM", "0 <= i", "i < BM"},
       "b * BM + i < M"},
      {{"BM >= 1", "M >= 1", "0 <= b", "b < (M + BM - 1) / BM", "0 <= i", "i < BM"},
       "b * BM + i < M",
       kRefuted},
      {{"BM >= 1", "M >= 1", "0 <= b", "b < (M + BM - 1) / BM", "0 <= i", "i < BM",
        "b * BM + i < M"},
       "b * BM + i < M && 0 <= b * BM + i"},
      // linear index
      {{"0 <= m", "m < M", "0 <= k", "k < K"}, "0 <= m * K + k && m * K + k < M * K"},
      {{"0 <= m", "m < M", "0 <= k", "k <= K", "K >= 1"}, "m * K + k < M * K", kRefuted},
      {{"0 <= h", "h < H", "0 <= s", "s < S", "0 <= d", "d < D"},
       "(h * S + s) * D + d < H * S * D"},
      {{"0 <= b", "b * 128 + i < M", "0 <= i", "i < 128", "0 <= c", "c * 64 + j < K", "0 <= j",
        "j < 64"},
       "(b * 128 + i) * K + c * 64 + j < M * K"},
      {{"M == nb * BM", "K == nk * BK", "BM >= 1", "BK >= 1", "0 <= b", "b < nb", "0 <= i",
        "i < BM", "0 <= c", "c < nk", "0 <= j", "j < BK"},
       "(b * BM + i) * K + c * BK + j < M * K"},
      // a thread's part of a tile
      {{"0 <= t", "t < 128"}, "t / 32 < 4 && t % 32 < 32 && t / 32 * 32 + t % 32 == t"},
      {{"0 <= t", "t < 128"}, "(t % 32) / 4 + t / 32 * 8 < 32"},
      {{"0 <= t", "t < 128", "0 <= u", "u < 128", "t / 4 == u / 4", "t % 4 == u % 4"}, "t == u"},
      {{"0 <= t", "t < 128", "0 <= u", "u < 128", "t / 8 == u / 8", "t % 4 == u % 4"},
       "t == u",
       kRefuted},
      // quotient and remainder by a symbol: the numbers of tiles
      {{"n >= 1", "0 <= x", "x < m * n"}, "x / n < m && 0 <= x / n && 0 <= x % n && x % n < n"},
      {{"n >= 1", "x / n == y / n", "x % n == y % n"}, "x == y"},
      {{"n >= 2", "x / n == y / n"}, "x == y", kRefuted},
      {{"n >= 1", "0 <= q", "0 <= r", "r < n"}, "(q * n + r) / n == q && (q * n + r) % n == r"},
      // two writers
      {{"S >= N", "0 <= y", "y < N", "0 <= v", "v < N", "x * S + y == u * S + v"},
       "x == u && y == v"},
      {{"S >= N - 1", "0 <= y", "y < N", "0 <= v", "v < N", "0 <= x", "0 <= u",
        "x * S + y == u * S + v"},
       "x == u && y == v",
       kRefuted},
      {{"d != 0", "L >= 0"}, "d * L >= L || 0 - d * L >= L"},
      // divisibility
      {{"K % 8 == 0", "r >= 0"}, "(r * K * 2) % 16 == 0"},
      {{"K % 4 == 0", "r >= 0"}, "(r * K * 2) % 16 == 0", kRefuted},
      {{"K % 8 == 0", "K % 3 == 0"}, "K % 24 == 0"},
      {{"K % 8 == 0", "k % 8 == 0", "k < K"}, "k + 8 <= K"},
      {{"K % 128 == 0"}, "(K + 63) / 64 == K / 64 && K / 64 % 2 == 0"},
      // min, max, select
      {{"0 <= x", "x < 10"}, "min(x, 4) <= 4 && max(x, 4) >= 4 && min(x, 4) + max(x, 4) == x + 4"},
      {{"M >= 1", "0 <= b", "b * 128 < M", "0 <= i", "i < min(128, M - b * 128)"},
       "b * 128 + i < M"},
      {{"0 <= x", "x < 10"}, "select(x < 5, x, x - 5) < 5"},
      {{"0 <= x", "x <= 10"}, "select(x < 5, x, x - 5) < 5", kRefuted},
      {{"x != 3", "x >= 3"}, "x > 3"},
      {{"x < 3 || x > 7", "x >= 2"}, "x == 2 || x >= 8"},
      // ring slots, credits, parity
      {{"c0 <= p", "c1 <= p", "p < min(c0, c1) + 4"}, "p + 1 <= c0 + 4 && p + 1 <= c1 + 4"},
      {{"0 <= n"}, "(n + 4) / 4 % 2 != n / 4 % 2 && (n + 8) / 4 % 2 == n / 4 % 2"},
      {{"0 <= c", "c < p", "p < c + 4"}, "p % 4 != c % 4"},
      {{"0 <= c", "c < p", "p <= c + 4"}, "p % 4 != c % 4", kRefuted},
      // 32 bits
      {{"0 <= m", "m < M", "0 <= k", "k < K", "M * K <= 2147483647"}, "m * K + k <= 2147483647"},
      {{"0 <= m", "m < M", "0 <= k", "k < K", "M <= 1048576", "K <= 1048576"},
       "m * K + k <= 2147483647",
       kRefuted},
  };
  for (const Question& q : questions) check(q, {.solver = false});
}

// Numbers of tiles turned into coordinates, in bands of 16 rows, and back: what makes stores that
// start from them hit every tile once.
TEST(Arithmetic, TileNumbersDecode) {
  const std::string along = "((N + 63) / 64)", across = "((M + 63) / 64)";
  const std::string band = "(tile / (" + along + " * 16))";
  const std::string in_band = "(tile - " + band + " * 16 * " + along + ")";
  const std::string width = "min(16, " + across + " - " + band + " * 16)";
  const std::string i = "(" + band + " * 16 + " + in_band + " % " + width + ")";
  const std::string j = "(" + in_band + " / " + width + ")";
  Arithmetic a({.solver = false});
  for (const std::string& fact : {std::string("1 <= M"), std::string("1 <= N"),
                                  std::string("0 <= tile"), "tile < " + across + " * " + along})
    a.assume(parse(fact));
  for (const std::string& goal : {"1 <= " + width, "0 <= " + i, i + " < " + across, "0 <= " + j,
                                  j + " < " + along, i + " * 64 < M", j + " * 64 < N",
                                  "tile == " + band + " * 16 * " + along + " + " + j + " * " +
                                      width + " + (" + i + " - " + band + " * 16)"})
    EXPECT_EQ(verdict_name(a.prove(parse(goal)).verdict), "proved") << goal;
  EXPECT_EQ(a.prove(parse(j + " < " + along + " - 1")).verdict, kRefuted);
}

// Heads in groups, Hq = Hkv * (Hq / max(Hkv, 1)), where the contract admits no heads at all.
TEST(Arithmetic, GroupsOfHeads) {
  const char* divides = "select(Hkv == 0, Hq == 0, Hq % max(Hkv, 1) == 0)";
  check({{"Hq >= 0", "Hkv >= 0", divides, "0 <= h", "h < Hkv", "0 <= g", "g < Hq / max(Hkv, 1)"},
         "h * (Hq / max(Hkv, 1)) + g < Hq"},
        {.solver = false});
  check({{"Hq >= 0", "Hkv >= 0", divides}, "Hkv * (Hq / max(Hkv, 1)) >= Hq"}, {.solver = false});
  check({{"Hq >= 0", "Hkv >= 0", divides, "0 <= t", "t < Hkv * (Hq / max(Hkv, 1)) * T", "T >= 1"},
         "t / T / (Hq / max(Hkv, 1)) < Hkv"},
        {.solver = false});
}

TEST(Arithmetic, FactsNest) {
  Arithmetic a;
  a.assume(parse("0 <= x"));
  a.push();
  a.assume(parse("x % 8 == 0"));
  a.assume(parse("x < 16"));
  EXPECT_EQ(a.prove(parse("x <= 8")).verdict, Verdict::kProved);
  a.pop();
  EXPECT_EQ(a.prove(parse("x <= 8")).verdict, Verdict::kRefuted);
  EXPECT_EQ(a.prove(parse("x >= 0")).verdict, Verdict::kProved);
}

TEST(Arithmetic, ContradictingFactsAreSeen) {
  Arithmetic a;
  a.assume(parse("x >= 3"));
  Answer answer = a.consistent();
  EXPECT_EQ(answer.verdict, Verdict::kProved);
  EXPECT_GE(answer.model["x"], 3);
  a.assume(parse("x * x <= 8"));
  EXPECT_EQ(a.consistent().verdict, Verdict::kRefuted);
}

TEST(Arithmetic, AnswersRepeat) {
  const auto ask = [] {
    Arithmetic a;
    for (const char* fact :
         {"1 <= M", "1 <= BM", "0 <= b", "b < (M + BM - 1) / BM", "0 <= i", "i < BM"})
      a.assume(parse(fact));
    return a.prove(parse("b * BM + i < M"));
  };
  const Answer first = ask(), second = ask();
  EXPECT_EQ(first.verdict, kRefuted);
  EXPECT_EQ(first.model, second.model);
  for (const auto& [name, value] : first.model)
    EXPECT_LE(value, 4) << name;  // small, to be replayed
}

TEST(Arithmetic, TextDoesNotDependOnOrder) {
  const Expr a = parse("0 <= x"), b = parse("x < N"), goal = parse("x < N + 1");
  const IndexFacts t{.tensor = "t", .has_range = true, .lo = 0, .hi = Expr::sym("N")};
  const IndexFacts u{.tensor = "u", .lo = 0, .hi = 0, .distinct = true};
  const std::string text = question_text({a, b}, {t, u}, goal);
  EXPECT_EQ(text, question_text({b, a, b}, {u, t}, goal));
  EXPECT_EQ(text, question_text({a && b}, {t, u}, goal));
  EXPECT_NE(text, question_text({a}, {t, u}, goal));
  EXPECT_NE(text, question_text({a, b}, {t}, goal));
}

TEST(Arithmetic, IndexTensors) {
  Arithmetic a;
  a.assume(IndexFacts{.tensor = "page", .has_range = true, .lo = 0, .hi = Expr::sym("P")});
  a.assume(IndexFacts{.tensor = "start", .lo = 0, .hi = 0, .non_decreasing = true});
  a.assume(IndexFacts{.tensor = "row", .lo = 0, .hi = 0, .distinct = true});
  for (const char* fact : {"B >= 1", "0 <= i", "i < j", "0 <= s", "s < B"}) a.assume(parse(fact));
  const auto verdict = [&](const char* goal) { return a.prove(parse(goal)).verdict; };
  EXPECT_EQ(verdict("page[i] * B + s < P * B"), Verdict::kProved);
  EXPECT_EQ(verdict("page[i] * B + s < P * B - 1"), Verdict::kRefuted);
  EXPECT_EQ(verdict("start[i] <= start[j]"), Verdict::kProved);
  EXPECT_EQ(verdict("start[i] < start[j]"), Verdict::kRefuted);
  EXPECT_EQ(verdict("row[i] != row[j]"), Verdict::kProved);
  EXPECT_EQ(verdict("page[i] != page[j]"), Verdict::kRefuted);
  EXPECT_EQ(verdict("page[i + 1 - 1] == page[i]"), Verdict::kProved);
}

TEST(Arithmetic, HonestlyUnknown) {
  check({{"x * x * x + y * y * y == z * z * z", "x >= 1", "y >= 1", "z >= 1"},
         "0 == 1",
         Verdict::kUnknown});
  check({{"x >= 0"}, "x / y <= x / y + 1", Verdict::kUnknown});  // y may be 0
}

// Random expressions over a small box, whose every point is looked at.
class RandomExprs {
 public:
  explicit RandomExprs(uint64_t seed) : random_(seed) {}

  Expr term(int depth) {
    if (depth == 0 || pick(5) == 0)
      return pick(3) == 0 ? Expr(static_cast<int64_t>(pick(9)) - 3) : symbol(pick(kSymbols));
    const Expr a = term(depth - 1), b = term(depth - 1);
    switch (pick(9)) {
      case 0:
      case 1:
        return a + b;
      case 2:
        return a - b;
      case 3:
        return a * b;
      case 4:
        return a / divisor();
      case 5:
        return a % divisor();
      case 6:
        return min(a, b);
      case 7:
        return max(a, b);
      default:
        return select(condition(depth - 1), a, b);
    }
  }
  Expr condition(int depth) {
    const Expr a = term(depth), b = term(depth);
    switch (pick(depth == 0 ? 4U : 7U)) {
      case 0:
        return a < b;
      case 1:
        return a <= b;
      case 2:
        return a == b;
      case 3:
        return a != b;
      case 4:
        return condition(depth - 1) && condition(depth - 1);
      case 5:
        return condition(depth - 1) || condition(depth - 1);
      default:
        return !condition(depth - 1);
    }
  }
  static Expr symbol(unsigned i) { return Expr::sym(std::string(1, static_cast<char>('x' + i))); }
  static constexpr unsigned kSymbols = 3;

 private:
  unsigned pick(unsigned n) { return static_cast<unsigned>(random_() % n); }
  Expr divisor() {
    return pick(3) == 0 ? symbol(pick(kSymbols)) : Expr(static_cast<int64_t>(pick(5)) + 1);
  }
  std::mt19937_64 random_;
};

// Calls `visit` at each point of the box until it says false.
void each_point(int64_t lo, int64_t hi, const std::function<bool(const Env&)>& visit) {
  Env env;
  for (int64_t x = lo; x < hi; ++x)
    for (int64_t y = lo; y < hi; ++y)
      for (int64_t z = lo; z < hi; ++z) {
        env = {{"x", x}, {"y", y}, {"z", z}};
        if (!visit(env)) return;
      }
}

// Facts that hold of something, and say nothing of x, y and z.
std::vector<Expr> beside_the_point(int count) {
  std::vector<Expr> out;
  const auto other = [](int i) { return Expr::sym("other" + std::to_string(i)); };
  for (int i = 0; i < count; ++i) {
    out.push_back(Expr(1) <= other(i) && other(i) <= Expr(1000));
    if (i > 1) out.push_back(other(i - 2) * other(i - 1) <= other(i) + Expr(7));
  }
  return out;
}

void compare_with_enumeration(uint64_t seed, int questions, const ArithmeticLimits& limits,
                              const std::vector<Expr>& others = {}) {
  RandomExprs random(seed);
  int unknown = 0;
  for (int i = 0; i < questions; ++i) {
    const int64_t lo = i % 3 == 0 ? -2 : i % 3 - 1, hi = lo + 5;
    std::vector<Expr> facts;
    for (unsigned s = 0; s < RandomExprs::kSymbols; ++s) {
      facts.push_back(RandomExprs::symbol(s) >= lo);
      facts.push_back(RandomExprs::symbol(s) < hi);
    }
    for (int f = 0; f < i % 4; ++f) facts.push_back(random.condition(1));
    const Expr goal = random.condition(2);
    Arithmetic arithmetic(limits);
    for (const Expr& fact : facts) arithmetic.assume(fact);
    for (const Expr& fact : others) arithmetic.assume(fact);
    const Answer answer = arithmetic.prove(goal);
    const Answer possible = arithmetic.consistent();
    const auto admitted = [&](const Env& env) {
      return std::all_of(facts.begin(), facts.end(),
                         [&](const Expr& f) { return evaluate(f, env).value_or(0) != 0; });
    };
    bool follows = true, any = false;
    each_point(lo, hi, [&](const Env& env) {
      if (!admitted(env)) return true;
      any = true;
      if (evaluate(goal, env).value_or(0) == 0) follows = false;
      return follows;
    });
    const std::string text = question_text(facts, {}, goal);
    EXPECT_TRUE(answer.verdict != Verdict::kProved || follows) << text;
    if (answer.verdict == Verdict::kRefuted) expect_breaks(answer, facts, goal);
    EXPECT_TRUE(possible.verdict != Verdict::kProved || any) << text;
    EXPECT_TRUE(possible.verdict != Verdict::kRefuted || !any) << text;
    unknown += answer.verdict == Verdict::kUnknown;
    if (::testing::Test::HasFailure()) return;
  }
  // Most of these: divisors that may be zero.
  EXPECT_LT(unknown, questions / 4);
}

TEST(Arithmetic, AgreesWithEnumeration) {
  compare_with_enumeration(1, 1500, {.solver = false});
  compare_with_enumeration(2, 200, {});
}

// Where many facts are known, those that bear on the question are tried first.
TEST(Arithmetic, AgreesWithEnumerationAmongManyFacts) {
  compare_with_enumeration(3, 300, {.solver = false}, beside_the_point(16));
}

TEST(Arithmetic, FewOfManyFactsDecide) {
  const auto ask = [](const char* most) {
    Arithmetic arithmetic({.solver = false});
    for (const Expr& fact : beside_the_point(40)) arithmetic.assume(fact);
    for (const char* fact :
         {"0 <= b", "b < B", "0 <= j", "j < (min(cu[b + 1] - cu[b], y) + 127) / 128", "cu[0] == 0",
          "cu[B] == T", "0 <= T"})
      arithmetic.assume(parse(fact));
    arithmetic.assume(parse(most));
    arithmetic.assume(IndexFacts{.tensor = "cu", .rank = 1, .non_decreasing = true});
    return arithmetic.prove(parse("j * 128 <= 2147483647")).verdict;
  };
  EXPECT_EQ(ask("T <= 2147483647"), Verdict::kProved);
  EXPECT_NE(ask("T <= 2147484000"), Verdict::kProved);
}

TEST(Arithmetic, SolverAlone) {
  using namespace arith;
  AtomTable atoms;
  const Term x = Term::atom(atoms.symbol("x")), y = Term::atom(atoms.symbol("y"));
  const auto answer = ask_solver({at_least_zero(x - 3), is_zero(x * 2 - y)}, 100'000);
  if (solver_version() == "none") GTEST_SKIP() << "built without the solver";
  ASSERT_EQ(answer.status, SolverAnswer::Status::kModel);
  EXPECT_TRUE(answer.model.at(1) == answer.model.at(0) * 2);
  EXPECT_EQ(ask_solver({is_zero(x * 2 - y * 2 - 1)}, 100'000).status, SolverAnswer::Status::kEmpty);
}

}  // namespace
}  // namespace rooftile::verify
