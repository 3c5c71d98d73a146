// SPDX-License-Identifier: Apache-2.0
// Certificates hold for the kernel that they are of; a changed one is refused, even with a seal
// made anew; and the checker's own arithmetic.
#include "rooftile/verify/check_certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "rooftile/base/hash.h"
#include "rooftile/verify/certificate.h"
#include "rooftile/verify/check_formula.h"
#include "rooftile/verify/parts.h"
#include "rooftile/verify/shipped.h"

namespace rooftile::verify {
namespace {

using nlohmann::ordered_json;

struct Made {
  KernelSource source;
  KernelProof proof;
  std::string text;
};

// A kernel with its certificate; whatever is not proved yet is left to other tests.
Made certified(const std::string& op) {
  const auto kernels = shipped_kernels(*find_op(op), "sm90");
  Made out;
  for (const ShippedKernel& kernel : *kernels) {
    if (kernel.kernel->is_raw()) continue;
    auto source = job_for(kernel).source();
    if (!source.ok()) continue;
    out.source = std::move(*source);
    out.proof = prove_here(out.source);
    out.proof.op = op;
    out.text = certificate_text(out.proof, out.source, kernel.case_text);
    break;
  }
  return out;
}

std::string resealed(ordered_json json) {
  json.erase("seal");
  json["seal"] = sha256_hex(json.dump());
  return json.dump();
}

std::string refusal(const std::string& text, const KernelSource& source) {
  const auto checked = check_certificate(text, source, {});
  return checked.ok() ? "" : checked.diag().message;
}

TEST(Certificate, HoldsAndIsOneTextAlways) {
  const Made made = certified("gemm");
  const auto checked = check_certificate(made.text, made.source, {});
  ASSERT_TRUE(checked.ok()) << checked.diag().str();
  EXPECT_GT(checked->redone, 10);
  EXPECT_EQ(made.text, certified("gemm").text);
}

TEST(Certificate, ChangedOnesAreRefused) {
  const Made made = certified("gemm");
  ASSERT_EQ(refusal(made.text, made.source), "");
  const ordered_json json = ordered_json::parse(made.text);
  const auto changed = [&](const std::function<void(ordered_json&)>& change) {
    ordered_json out = json;
    change(out);
    return refusal(resealed(std::move(out)), made.source);
  };
  std::string touched = made.text;
  touched[touched.find("proved")] = 'P';
  EXPECT_NE(refusal(touched, made.source), "");
  EXPECT_NE(refusal("{}", made.source), "");
  EXPECT_NE(changed([](ordered_json& c) { c["code_sha256"] = std::string(64, '0'); }), "");
  EXPECT_NE(changed([](ordered_json& c) { c["contract"]["variants"][0]["align_bytes"] = 1; }), "");
  EXPECT_NE(changed([](ordered_json& c) { c["obligations"].erase(0); }), "");
  EXPECT_NE(changed([](ordered_json& c) { c["obligations"][0]["verdict"] = "refuted"; }), "");
  EXPECT_NE(changed([](ordered_json& c) {
              c["obligations"][0]["verdict"] = "unknown";
              c["obligations"][0]["waiver"] = "because";
            }),
            "");
  EXPECT_NE(changed([](ordered_json& c) {
              for (ordered_json& entry : c["obligations"])
                if (entry["obligation"] == "lanes.matches")
                  entry["evidence"] = "depth=2 slot=1024 full=1 empty=1 bytes=1024";
            }),
            "");
  EXPECT_NE(changed([](ordered_json& c) {
              for (ordered_json& entry : c["obligations"])
                if (entry["obligation"] == "ring.credit") entry["evidence"] = "goal p < c\n";
            }),
            "");
}

// An obligation is owed statement by statement, ring by ring, extent by extent: whichever goes, it
// is missed. (Which statements can wrap, and what the launcher admits, the checker does not
// derive.)
TEST(Certificate, MissesWhatIsLeftOut) {
  const std::set<std::string> each = {
      "tile.covers",   "ring.credit",     "ring.parity",  "ring.hazard",       "ring.counts",
      "lanes.matches", "lanes.fragments", "lanes.once",   "lanes.shared-race", "lanes.initialised",
      "lanes.live",    "lanes.barriers",  "lanes.fences", "lanes.tokens"};
  for (const auto& [op, step] : {std::pair("gemm", 7), std::pair("rms_norm", 1)}) {
    const Made made = certified(op);
    ASSERT_EQ(refusal(made.text, made.source), "") << op;
    const ordered_json json = ordered_json::parse(made.text);
    int missed = 0;
    for (size_t i = 0; i < json["obligations"].size(); ++i) {
      const std::string id = json["obligations"][i]["obligation"].get<std::string>();
      if (each.count(id) == 0 && i % static_cast<size_t>(step) != 0) continue;
      ordered_json fewer = json;
      fewer["obligations"].erase(i);
      const bool passes = refusal(resealed(std::move(fewer)), made.source).empty();
      missed += passes ? 0 : 1;
      EXPECT_FALSE(passes && each.count(id) > 0) << op << ": " << json["obligations"][i];
    }
    EXPECT_GT(missed, 20) << op;
  }
}

// The code is what counts: one more register, and the certificate is of something else.
TEST(Certificate, IsOfTheCode) {
  Made made = certified("softmax");
  ASSERT_EQ(refusal(made.text, made.source), "");
  made.source.kernel_text += "\n";
  EXPECT_THAT(refusal(made.text, made.source), ::testing::HasSubstr("other code"));
}

TEST(CheckFormula, RedoesTriesAndGivesUp) {
  EXPECT_EQ(check_formulas("fact 0 <= i\nfact i < (M + 127) / 128\nfact 0 <= r\nfact r < 128\n"
                           "fact r < M - i * 128\ngoal i * 128 + r < M\n"),
            Redone::kHolds);
  EXPECT_EQ(check_formulas("fact 0 <= i\nfact i < M\ngoal i + 1 < M\n"), Redone::kBroken);
  EXPECT_EQ(check_formulas("fact 0 <= x\nfact x < M\nfact 0 <= y\nfact y < K\n"
                           "goal x * K + y < M * K\n"),
            Redone::kTooHard);
  EXPECT_EQ(check_formulas("goal min(a, b) <= max(a, b)\n"), Redone::kHolds);
  EXPECT_EQ(check_formulas("fact x % 8 == 0\ngoal x % 4 == 0\n"), Redone::kTooHard);
  EXPECT_EQ(check_formulas("a table"), Redone::kNoText);
  EXPECT_EQ(check_formulas(""), Redone::kNoText);
}

}  // namespace
}  // namespace rooftile::verify
