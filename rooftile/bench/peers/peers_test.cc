// SPDX-License-Identifier: Apache-2.0
// A peer that computes something else would make every ratio a lie: each is compared with the
// operator's own float64 reference on the cases of the smoke set that it accepts.
#include "rooftile/bench/peers/peers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "rooftile/check/case_inputs.h"
#include "rooftile/check/compare.h"
#include "rooftile/check/invoke.h"

namespace rooftile::bench {
namespace {

NdArray load(const TensorView& view) {
  check::HostTensor copy(view.dtype,
                         std::vector<int64_t>(view.shape.begin(), view.shape.begin() + view.rank));
  std::memcpy(copy.data(), view.data, static_cast<size_t>(copy.size_bytes()));
  return copy.load();
}

class PeerResults : public testing::TestWithParam<std::string> {};

TEST_P(PeerResults, AgreeWithTheReference) {
  const OpDef& op = *find_op(GetParam());
  int compared = 0;
  for (const Case& test_case : op.case_list) {
    if (!test_case.tagged("smoke")) continue;
    auto inputs = check::resolve_case(op, test_case);
    ASSERT_TRUE(inputs.ok()) << inputs.diag().str();
    if (op.cost_fn(*inputs).flops == 0) continue;  // a library's view of empty tensors is its own
    ASSERT_TRUE(check::make_inputs(op, *inputs, 11).ok());
    RefCall expected = *inputs;
    op.reference_fn(expected);
    Tolerance tolerance = op.tolerance_fn(expected);
    // The bounds are derived for our order of operations; a library may round an intermediate once
    // more.
    tolerance.abs *= 4, tolerance.rel *= 4, tolerance.norm *= 4;

    check::Arguments arguments = check::place(op, *inputs, false);
    PeerRequest request{op, *inputs, {{}}};
    for (const auto& [name, tensor] : arguments.tensors)
      request.sets[0].emplace(name, tensor.view());
    std::string why_none;
    for (const auto& peer : make_peers(request, why_none)) {
      peer->run(0);
      for (const auto& [name, view] : peer->results(0)) {
        const check::Comparison result = check::compare(load(view), expected[name], tolerance);
        EXPECT_TRUE(result.pass) << peer->name() << ", " << test_case.text << ": " << result.reason
                                 << " at " << result.first_bad << ", got " << result.got
                                 << ", want " << result.want;
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 0);
}

std::vector<std::string> ops_with_peers() {
  std::vector<std::string> names;
  for (const OpDef& op : all_ops())
    if (has_peer(op.name)) names.push_back(op.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Ops, PeerResults, testing::ValuesIn(ops_with_peers()),
                         [](const auto& op) { return op.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PeerResults);

TEST(Peers, AnOperatorThatNoLibraryHasGetsAReason) {
  OpDef op("test", "mine", "");
  std::string why_none;
  EXPECT_TRUE(make_peers({op, {}, {}}, why_none).empty());
  EXPECT_FALSE(why_none.empty());
}

TEST(Peers, VersionsAreThoseOfTheLoadedLibraries) {
  const std::string onednn = onednn_version(), openblas = openblas_version();
  EXPECT_EQ(std::count(onednn.begin(), onednn.end(), '.'), 2) << onednn;
  EXPECT_EQ(openblas.rfind("0.", 0), 0u) << openblas;
}

}  // namespace
}  // namespace rooftile::bench
