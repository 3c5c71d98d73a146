// SPDX-License-Identifier: Apache-2.0
// The schedules of real kernels are proved; each of the mistakes that a scheduler can make is
// refuted, by the obligation that it breaks.
#include "rooftile/verify/placed/prove_placed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "rooftile/verify/arith/arithmetic.h"
#include "rooftile/verify/placed/layouts.h"
#include "rooftile/verify/placed/ring_lemmas.h"
#include "rooftile/verify/shipped.h"

namespace rooftile::verify {
namespace {

using codegen::Event;
using codegen::Placed;
using codegen::PlacedPhase;
using Events = std::vector<Event>;

// The first placed phase of a shipped kernel that `wanted` likes.
std::shared_ptr<const PlacedPhase> find_phase(const std::string& op,
                                              const std::function<bool(const Placed&)>& wanted) {
  const auto kernels = shipped_kernels(*find_op(op), "sm90");
  if (!kernels.ok()) return nullptr;
  for (const ShippedKernel& kernel : *kernels) {
    if (kernel.kernel->is_raw()) continue;
    const auto source = job_for(kernel).source();
    if (!source.ok()) continue;
    for (const codegen::GpuVariant& variant : source->variants)
      for (const auto& placed : variant.placed)
        if (placed != nullptr && wanted(placed->placed)) return placed;
  }
  return nullptr;
}

std::vector<std::string> refuted(const PlacedPhase& phase) {
  std::vector<std::string> out;
  for (const Finding& finding : prove_placed(phase.program, phase.placed)) {
    EXPECT_NE(finding.verdict, Verdict::kUnknown) << finding.reason;
    if (finding.verdict == Verdict::kRefuted) out.emplace_back(kind_info(finding.kind).id);
  }
  return out;
}

// Every list of events in the tree.
void each_list(Events& events, const std::function<void(Events&)>& edit) {
  edit(events);
  for (Event& event : events)
    for (Events* inner : {&event.first, &event.body, &event.last})
      if (!inner->empty()) each_list(*inner, edit);
}

bool first_of(Events& events, Event::Kind kind, const std::function<void(Events&, size_t)>& edit) {
  bool done = false;
  each_list(events, [&](Events& list) {
    for (size_t i = 0; i < list.size() && !done; ++i)
      if (list[i].kind == kind) {
        done = true;
        edit(list, i);
      }
  });
  return done;
}
void erase(Events& list, size_t i) { list.erase(list.begin() + static_cast<std::ptrdiff_t>(i)); }

struct Mistake {
  const char* name;
  std::function<bool(Placed&)> make;
  std::vector<std::string> broken;  // one of these obligations
};

const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> all = {
      {"a wait is missing",
       [](Placed& p) {
         bool done = false;
         each_list(p.computing, [&](Events& list) {
           done |= std::erase_if(list, [](const Event& e) { return e.kind == Event::kWait; }) > 0;
         });
         return done;
       },
       {"ring.hazard", "placed.tokens"}},
      {"a slot is never given back",
       [](Placed& p) { return first_of(p.computing, Event::kRelease, erase); },
       {"ring.credit", "placed.live"}},
      {"a slot is given back twice",
       [](Placed& p) {
         return first_of(p.computing, Event::kRelease, [](Events& list, size_t i) {
           list.insert(list.begin() + static_cast<std::ptrdiff_t>(i), list[i]);
         });
       },
       {"ring.credit"}},
      {"a slot is given back as soon as its product starts",
       [](Placed& p) {
         return first_of(p.computing, Event::kWait, [](Events& list, size_t i) {
           for (size_t r = i; r < list.size(); ++r)
             if (list[r].kind == Event::kRelease) {
               list[r].n = 0;
               std::rotate(list.begin() + static_cast<std::ptrdiff_t>(i),
                           list.begin() + static_cast<std::ptrdiff_t>(r),
                           list.begin() + static_cast<std::ptrdiff_t>(r) + 1);
               return;
             }
         });
       },
       {"ring.hazard", "ring.credit"}},
      {"a slot is not waited for",
       [](Placed& p) { return first_of(p.computing, Event::kAcquire, erase); },
       {"ring.credit", "ring.hazard"}},
      {"a product is missing",
       [](Placed& p) { return first_of(p.computing, Event::kIssue, erase); },
       {"placed.once"}},
      {"a store is done twice",
       [](Placed& p) {
         return first_of(p.computing, Event::kStore,
                         [](Events& list, size_t i) { list.push_back(list[i]); });
       },
       {"placed.once"}},
      {"a slot that no product reads is given back for the whole group",
       [](Placed& p) {
         const auto ring =
             std::find_if(p.rings.begin(), p.rings.end(), [](const auto& r) { return r.by_warps; });
         if (ring == p.rings.end()) return false;
         ring->by_warps = false;
         return true;
       },
       {"ring.parity"}},
      {"a copy is missing",
       [](Placed& p) { return first_of(p.copying, Event::kFill, erase); },
       {"placed.once", "ring.credit"}},
      {"a ring without a slot to spare",
       [](Placed& p) {
         p.rings.front().depth = 1;
         return p.rings.size() == 1 && p.plan.product.begin()->second.in_flight > 0;
       },
       {"placed.live"}},
      {"a slot is smaller than its copies",
       [](Placed& p) {
         p.rings.front().slot_bytes -= 1024;
         return true;
       },
       {"ring.counts", "placed.layout"}},
      {"slices of a cluster that are not whole",
       [](Placed& p) {
         p.rings.front().alternatives[0][0].shared_axis = "elsewhere";
         p.plan.cluster = {{"elsewhere", 3}};
         return true;
       },
       {"ring.counts", "placed.layout"}},
      {"fewer rows than the product reads",
       [](Placed& p) {
         p.rings.front().alternatives[0][0].rows /= 2;
         return true;
       },
       {"placed.layout"}},
  };
  return all;
}

void expect_all_refuted(const PlacedPhase& original) {
  ASSERT_THAT(refuted(original), ::testing::IsEmpty());
  int made = 0;
  for (const Mistake& mistake : mistakes()) {
    PlacedPhase changed = original;
    if (!mistake.make(changed.placed)) continue;
    ++made;
    const std::vector<std::string> found = refuted(changed);
    const bool told = std::any_of(found.begin(), found.end(), [&](const std::string& id) {
      return std::count(mistake.broken.begin(), mistake.broken.end(), id) > 0;
    });
    EXPECT_TRUE(told) << mistake.name << ": " << ::testing::PrintToString(found);
  }
  EXPECT_GE(made, 9);
}

TEST(ProvePlaced, GemmAndItsMistakes) {
  const auto phase = find_phase("gemm", [](const Placed& p) {
    return p.plan.product.begin()->second.in_flight > 0 && !p.split.over_cluster();
  });
  ASSERT_NE(phase, nullptr);
  expect_all_refuted(*phase);
}

TEST(ProvePlaced, LateProductAndItsMistakes) {
  const auto phase =
      find_phase("attention_prefill", [](const Placed& p) { return !p.plan.loop.empty(); });
  ASSERT_NE(phase, nullptr);
  expect_all_refuted(*phase);
}

// The sums of the step before are scaled while the late product still adds to them.
TEST(ProvePlaced, RescaleUnderARunningProduct) {
  auto phase =
      find_phase("attention_prefill", [](const Placed& p) { return !p.plan.loop.empty(); });
  ASSERT_NE(phase, nullptr);
  PlacedPhase changed = *phase;
  each_list(changed.placed.computing, [](Events& list) {
    const auto at = [&](Event::Kind kind) {
      return std::find_if(list.begin(), list.end(), [&](const Event& e) { return e.kind == kind; });
    };
    if (const auto rescale = at(Event::kRescale); rescale != list.end()) {
      const auto issued = std::find_if(list.begin(), list.end(),
                                       [](const Event& e) { return e.kind == Event::kIssue; });
      if (issued < rescale) std::rotate(issued + 2, rescale, rescale + 1);
    }
  });
  EXPECT_THAT(refuted(changed), ::testing::Contains("placed.tokens"));
}

TEST(ProvePlaced, SwizzleByRank) {
  std::vector<uint64_t> images;
  for (int row = 1; row < 64; row *= 2) images.push_back(static_cast<uint64_t>(swizzled(row, 0)));
  for (int byte = 1; byte < 128; byte *= 2)
    images.push_back(static_cast<uint64_t>(swizzled(0, byte)));
  EXPECT_EQ(rank_f2(images), 13);
  images.back() = images.front();
  EXPECT_EQ(rank_f2(images), 12);
}

// The window that parity can tell is exactly a ring wide: a reader one further behind is not told.
TEST(ProvePlaced, LemmasAreSharp) {
  for (int depth = 1; depth <= 8; ++depth)
    for (const Lemma& lemma : ring_lemmas(depth)) {
      Arithmetic arithmetic;
      for (const Expr& fact : lemma.facts) arithmetic.assume(fact);
      EXPECT_EQ(arithmetic.prove(lemma.goal).verdict, Verdict::kProved) << depth << lemma.what;
      // A ring of one slot is never filled while a reader holds it: there is no such case.
      const bool possible = depth > 1 || lemma.kind != Kind::kRingHazard;
      if (possible) {
        EXPECT_EQ(arithmetic.consistent().verdict, Verdict::kProved) << depth << lemma.what;
      }
    }
  const Lemma parity = ring_lemmas(3)[2];
  ASSERT_EQ(parity.kind, Kind::kRingParity);
  Arithmetic loose;  // without p <= c + S
  for (const Expr& fact : parity.facts)
    if (fact.str() != (Expr::sym("p") <= Expr::sym("c") + Expr(3)).str()) loose.assume(fact);
  EXPECT_EQ(loose.prove(parity.goal).verdict, Verdict::kRefuted);
}

}  // namespace
}  // namespace rooftile::verify
