// SPDX-License-Identifier: Apache-2.0
// The driver: order, workers that die or hang, what is remembered, and what is owed.
#include "rooftile/verify/prove.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "rooftile/emulate/mutate.h"
#include "rooftile/verify/finding_text.h"
#include "rooftile/verify/parts.h"
#include "rooftile/verify/proof_cache.h"
#include "rooftile/verify/proof_json.h"
#include "rooftile/verify/replay_code.h"
#include "rooftile/verify/shipped.h"

namespace rooftile::verify {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("proofs." + std::to_string(::getpid()))) {
    fs::create_directories(path_);
    fs::permissions(path_, fs::perms::owner_all);
  }
  ~Folder() { fs::remove_all(path_); }
  std::string str() const { return path_.string(); }

 private:
  fs::path path_;
};

ShippedKernel shipped(const std::string& op, const std::string& target) {
  const auto kernels = shipped_kernels(*find_op(op), target);
  EXPECT_TRUE(kernels.ok());
  for (const ShippedKernel& kernel : *kernels)
    if (!kernel.kernel->is_raw()) return kernel;
  return {};
}

ProofJob failing(std::string name, const std::function<void()>& how) {
  ProofJob job;
  job.op = std::move(name);
  job.source = [how]() -> Result<KernelSource> {
    how();
    return Diag{.subject = "job", .message = "came back"};
  };
  return job;
}

std::vector<KernelProof> all(const std::vector<ProofJob>& jobs, const ProveOptions& options) {
  std::vector<KernelProof> out;
  prove_all(jobs, options, [&](size_t job, KernelProof proof) {
    EXPECT_EQ(job, out.size()) << "out of order";
    out.push_back(std::move(proof));
  });
  EXPECT_EQ(out.size(), jobs.size());
  return out;
}

TEST(Prove, WorkersThatDieOrHangTakeNobodyWithThem) {
  const std::vector<ProofJob> jobs = {
      failing("dies", [] { std::raise(SIGSEGV); }),
      failing("refuses", [] {}),
      failing("hangs", [] { std::this_thread::sleep_for(std::chrono::hours(1)); }),
      failing("refuses", [] {}),
  };
  const auto proofs = all(jobs, {.workers = 2, .part_seconds = 1, .cache = false});
  ASSERT_EQ(proofs.size(), 4U);
  EXPECT_THAT(proofs[0].error, HasSubstr("Segmentation fault"));
  EXPECT_THAT(proofs[1].error, HasSubstr("came back"));
  EXPECT_THAT(proofs[2].error, HasSubstr("took longer than"));
  EXPECT_THAT(proofs[3].error, HasSubstr("came back"));
}

TEST(Prove, RemembersOnDisk) {
  const Folder folder;
  const ShippedKernel kernel = shipped("softmax", "sm90");
  const ProveOptions options{.workers = 1, .cache_dir = folder.str()};
  const KernelProof first = all({job_for(kernel)}, options)[0];
  const KernelProof second = all({job_for(kernel)}, options)[0];
  EXPECT_FALSE(first.from_cache);
  EXPECT_TRUE(second.from_cache);
  ASSERT_EQ(first.obligations.size(), second.obligations.size());
  for (size_t i = 0; i < first.obligations.size(); ++i) {
    EXPECT_EQ(first.obligations[i].finding.verdict, second.obligations[i].finding.verdict);
    EXPECT_EQ(first.obligations[i].finding.subject, second.obligations[i].finding.subject);
    EXPECT_EQ(first.obligations[i].finding.evidence, second.obligations[i].finding.evidence);
  }
  const auto source = job_for(kernel).source();
  ASSERT_TRUE(source.ok());
  const auto cache = ProofCache::open(folder.str());
  ASSERT_TRUE(cache.ok());
  const auto tally = cache->find_tally(proof_key(*source));
  ASSERT_TRUE(tally);
  EXPECT_EQ(tally->proved, first.tally().proved);
  // Damage is a miss.
  const std::string file = folder.str() + "/proofs/" + proof_key(*source) + ".proof";
  std::fstream(file, std::ios::in | std::ios::out).seekp(200).put('#');
  EXPECT_FALSE(cache->find(proof_key(*source)));
}

TEST(Prove, WhatIsOwedAndNotAnsweredIsUnknown) {
  ProofPart part{.name = "part", .owes = {Kind::kGlobalBounds, Kind::kBudget}};
  part.prove = [] {
    Finding finding;
    finding.kind = Kind::kBudget;
    finding.verdict = Verdict::kProved;
    return std::vector<Finding>{finding};
  };
  const auto obligations = run_part(part);
  ASSERT_EQ(obligations.size(), 2U);
  EXPECT_EQ(obligations[0].finding.kind, Kind::kGlobalBounds);
  EXPECT_EQ(obligations[0].finding.verdict, Verdict::kUnknown);
  EXPECT_EQ(obligations[1].finding.verdict, Verdict::kProved);
  part.prove = []() -> std::vector<Finding> { throw std::bad_alloc(); };
  EXPECT_THAT(run_part(part)[0].finding.reason, HasSubstr("bad_alloc"));
}

// What is refuted is run, so that one sees it happen; the report says it in text and in JSON.
TEST(Prove, CounterexamplesAreRun) {
  const Result<KernelSource> source = job_for(shipped("rms_norm", "sm90")).source();
  ASSERT_TRUE(source.ok()) << source.diag().str();
  KernelSource broken = *source;
  lanes::Program& code = broken.variants[0].phases[0];
  const std::vector<emulate::Mutant> mutants = emulate::mutants(code);
  const auto unguarded = std::find_if(mutants.begin(), mutants.end(), [](const auto& mutant) {
    return mutant.kind == emulate::Mutation::kDropGuard &&
           mutant.site.find("ld.global") != std::string::npos;
  });
  ASSERT_NE(unguarded, mutants.end());
  code = unguarded->program;
  const KernelProof proof = prove(broken, {.workers = 1, .cache = false});
  int replayed = 0;
  for (const Obligation& obligation : proof.obligations) {
    if (obligation.finding.verdict != Verdict::kRefuted) continue;
    EXPECT_TRUE(obligation.finding.example.replayed) << obligation.finding.example.replay;
    EXPECT_THAT(obligation.finding.example.replay, HasSubstr("RT-E006"));
    EXPECT_THAT(diag_of(proof, obligation).str(), HasSubstr("replayed: RT-E006"));
    EXPECT_TRUE(to_json(obligation)["counterexample"]["replayed"].get<bool>());
    ++replayed;
  }
  EXPECT_GE(replayed, 1);
}

// A right kernel shows nothing, whatever is claimed of it.
TEST(Prove, AClaimThatIsWrongDoesNotReplay) {
  const Result<KernelSource> source = job_for(shipped("rms_norm", "sm90")).source();
  ASSERT_TRUE(source.ok()) << source.diag().str();
  Obligation claim{.variant = 0, .phase = 0};
  claim.finding.kind = Kind::kGlobalBounds;
  claim.finding.verdict = Verdict::kRefuted;
  claim.finding.example.call = {{"T", 3}, {"H", 8}};
  const Replay replay = replay_finding(*source, claim);
  EXPECT_TRUE(replay.ran) << replay.what;
  EXPECT_FALSE(replay.shown) << replay.what;
}

TEST(Prove, WaiversLetPassWhatIsUnknownAndNothingElse) {
  KernelProof proof;
  for (const Verdict verdict : {Verdict::kProved, Verdict::kUnknown, Verdict::kRefuted}) {
    Obligation obligation;
    obligation.finding.kind = Kind::kWriteOnce;
    obligation.finding.verdict = verdict;
    proof.obligations.push_back(obligation);
  }
  apply_waivers({{"lanes.once", "by inspection"}}, proof);
  const Tally tally = proof.tally();
  EXPECT_EQ(tally.waived, 1);
  EXPECT_EQ(tally.refuted, 1);
  EXPECT_FALSE(tally.passes());
  ASSERT_NE(proof.first_open(), nullptr);
  EXPECT_EQ(proof.first_open()->finding.verdict, Verdict::kRefuted);
}

}  // namespace
}  // namespace rooftile::verify
