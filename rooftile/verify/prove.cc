// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/prove.h"

#include <poll.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "rooftile/verify/parts.h"
#include "rooftile/verify/proof_cache.h"
#include "rooftile/verify/proof_json.h"
#include "rooftile/verify/replay_code.h"
#include "rooftile/verify/worker.h"

namespace rooftile::verify {

using nlohmann::ordered_json;

namespace {

std::optional<ProofCache> cache_of(const ProveOptions& options) {
  if (!options.cache) return std::nullopt;
  Result<ProofCache> cache = ProofCache::open(options.cache_dir);
  return cache.ok() ? std::optional(std::move(*cache)) : std::nullopt;
}

// ---- the child
// ----------------------------------------------------------------------------------

KernelProof head_of(const KernelSource& source) {
  KernelProof proof;
  proof.name = source.name;
  proof.raw = source.route == Route::kRaw;
  proof.code_hash = code_hash(source);
  proof.prover = prover_version();
  return proof;
}

ordered_json all_json(const std::vector<Obligation>& obligations) {
  ordered_json out = ordered_json::array();
  for (const Obligation& obligation : obligations) out.push_back(to_json(obligation));
  return out;
}

ordered_json owed_json(const ProofPart& part) {
  ordered_json owes = ordered_json::array();
  for (const Kind kind : part.owes) owes.push_back(kind_info(kind).id);
  return {{"part", part.name}, {"variant", part.variant}, {"phase", part.phase}, {"owes", owes}};
}

// Messages: {"error"}, or {"head", "key", "found"}, then {"part", ...} and {"obligations"} in turn,
// then {"done"}. `first`: parts before it have been answered.
void answer(const ProofJob& job, size_t first, const std::optional<ProofCache>& cache,
            const Worker::Send& send) {
  const auto say = [&](const ordered_json& json) { send(json.dump()); };
  const Result<KernelSource> source = job.source();
  if (!source.ok()) {
    say({{"error", source.diag().str()}});
    return say({{"done", true}});
  }
  const std::string key = proof_key(*source);
  if (first == 0 && cache) {
    if (const std::optional<KernelProof> known = cache->find(key)) {
      say({{"head", header_json(*known)}, {"key", key}, {"found", true}});
      say({{"obligations", all_json(known->obligations)}});
      return say({{"done", true}});
    }
  }
  say({{"head", header_json(head_of(*source))}, {"key", key}, {"found", false}});
  const std::vector<ProofPart> parts = parts_of(*source);
  for (size_t p = first; p < parts.size(); ++p) {
    say(owed_json(parts[p]));
    std::vector<Obligation> obligations = run_part(parts[p]);
    replay_refuted(*source, obligations);
    say({{"obligations", all_json(obligations)}});
  }
  say({{"done", true}});
}

// ---- the parent
// ---------------------------------------------------------------------------------

// A job as far as it has come.
struct Progressing {
  size_t job = 0;
  KernelProof proof;
  std::string key;
  bool found = false;               // in the cache
  bool has_head = false;            // the kernel was generated
  bool whole = true;                // no part was lost
  size_t parts = 0;                 // answered
  std::optional<ProofPart> asking;  // begun, not answered
};

class Pool {
 public:
  Pool(const std::vector<ProofJob>& jobs, const ProveOptions& options,
       const std::function<void(size_t, KernelProof)>& sink)
      : jobs_(jobs), options_(options), sink_(sink), cache_(cache_of(options)) {}

  void run() {
    const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
    const size_t wanted = options_.workers > 0 ? static_cast<size_t>(options_.workers) : cores;
    for (size_t i = 0; i < std::min(wanted, jobs_.size()); ++i)
      if (!start_lane()) break;
    while (busy()) turn();
    // No process could be made at all.
    for (; next_ < jobs_.size(); ++next_) {
      Progressing lost{.job = next_};
      lost.proof.error = "no worker process can be started";
      finish(std::move(lost));
    }
  }

 private:
  struct Lane {
    Worker worker;
    std::optional<Progressing> at;
  };

  bool busy() const {
    return std::any_of(lanes_.begin(), lanes_.end(),
                       [](const Lane& lane) { return lane.at.has_value(); });
  }

  std::optional<Worker> fork_worker() {
    std::vector<int> sockets;
    for (const Lane& lane : lanes_) sockets.push_back(lane.worker.socket());
    return Worker::start(
        [this](const std::string& request, const Worker::Send& send) {
          const ordered_json json = ordered_json::parse(request);
          answer(jobs_[json.at("job").get<size_t>()], json.at("first").get<size_t>(), cache_, send);
        },
        sockets);
  }

  bool start_lane() {
    std::optional<Worker> worker = fork_worker();
    if (!worker) return false;
    lanes_.push_back({std::move(*worker), std::nullopt});
    give_next(lanes_.back());
    return true;
  }

  void give_next(Lane& lane) {
    lane.at.reset();
    if (next_ >= jobs_.size()) return;
    lane.at = Progressing{.job = next_++};
    ask(lane);
  }
  void ask(Lane& lane) {
    const ordered_json request = {{"job", lane.at->job}, {"first", lane.at->parts}};
    if (!lane.worker.request(request.dump())) lost(lane);
  }

  // Waits until a worker has something to say, or has had too long.
  void turn() {
    std::vector<pollfd> fds;
    for (const Lane& lane : lanes_) fds.push_back({lane.worker.socket(), POLLIN, 0});
    ::poll(fds.data(), fds.size(), 200);
    for (size_t i = 0; i < lanes_.size(); ++i) {
      Lane& lane = lanes_[i];
      if (!lane.at) continue;
      if (fds[i].revents != 0) {
        std::vector<std::string> messages;
        const bool there = lane.worker.receive(messages);
        for (const std::string& message : messages)
          if (hear(*lane.at, ordered_json::parse(message))) {
            finish(std::move(*lane.at));
            give_next(lane);
          }
        if (!there) lost(lane);
      } else if (lane.worker.silent_seconds() > options_.part_seconds) {
        lost(lane);
      }
    }
  }

  // True: the job is done.
  static bool hear(Progressing& at, const ordered_json& message) {
    if (message.contains("error")) {
      at.proof.error = message.at("error").get<std::string>();
    } else if (message.contains("head")) {
      if (at.has_head) return false;  // a second worker goes on where the first was lost
      if (auto head = header_from_json(message.at("head"))) at.proof = std::move(*head);
      at.key = message.at("key").get<std::string>();
      at.found = message.at("found").get<bool>();
      at.has_head = true;
    } else if (message.contains("part")) {
      ProofPart part{.name = message.at("part").get<std::string>(),
                     .variant = message.at("variant").get<int>(),
                     .phase = message.at("phase").get<int>()};
      for (const auto& id : message.at("owes"))
        part.owes.push_back(kind_find(id.get<std::string>())->kind);
      at.asking = std::move(part);
    } else if (message.contains("obligations")) {
      for (const ordered_json& json : message.at("obligations"))
        if (auto obligation = obligation_from_json(json)) {
          if (!at.found) at.proof.ms += obligation->finding.ms;
          at.proof.obligations.push_back(std::move(*obligation));
        }
      ++at.parts;
      at.asking.reset();
    }
    return message.contains("done");
  }

  // The worker is gone, or has had its time: what it was asked is unknown; another goes on.
  void lost(Lane& lane) {
    const bool late = lane.worker.silent_seconds() > options_.part_seconds;
    const std::string how = lane.worker.stop();
    const std::string reason = late ? "the prover took longer than " +
                                          std::to_string(static_cast<int>(options_.part_seconds)) +
                                          " s and was stopped"
                                    : "the prover's process " + how;
    Progressing& at = *lane.at;
    at.whole = false;
    if (at.asking) {
      for (Obligation& obligation : unanswered(*at.asking, reason))
        at.proof.obligations.push_back(std::move(obligation));
      ++at.parts;
      at.asking.reset();
    } else {
      at.proof.error = "the kernel's code could not be generated: " + reason;
    }
    std::optional<Worker> fresh = fork_worker();
    if (!fresh) {
      if (at.proof.error.empty()) at.proof.error = "no worker process can be started";
      finish(std::move(at));
      lane.at.reset();
      return;
    }
    lane.worker = std::move(*fresh);
    if (at.proof.error.empty()) return ask(lane);
    finish(std::move(at));
    give_next(lane);
  }

  void finish(Progressing done) {
    const ProofJob& job = jobs_[done.job];
    KernelProof& proof = done.proof;
    proof.op = job.op;
    proof.kernel = job.kernel;
    proof.config = job.config;
    proof.schedule = job.schedule;
    proof.target = job.target;
    proof.from_cache = done.found;
    if (cache_ && done.whole && !done.found && proof.error.empty()) cache_->keep(done.key, proof);
    apply_waivers(job.waivers, proof);
    ready_.emplace(done.job, std::move(proof));
    for (auto it = ready_.begin(); it != ready_.end() && it->first == delivered_;
         it = ready_.erase(it), ++delivered_)
      sink_(it->first, std::move(it->second));
  }

  const std::vector<ProofJob>& jobs_;
  const ProveOptions& options_;
  const std::function<void(size_t, KernelProof)>& sink_;
  const std::optional<ProofCache> cache_;
  std::vector<Lane> lanes_;
  size_t next_ = 0, delivered_ = 0;
  std::map<size_t, KernelProof> ready_;
};

}  // namespace

void prove_all(const std::vector<ProofJob>& jobs, const ProveOptions& options,
               const std::function<void(size_t, KernelProof)>& sink) {
  Pool(jobs, options, sink).run();
}

KernelProof prove(const KernelSource& source, const ProveOptions& options) {
  static std::mutex mutex;
  static std::map<std::string, KernelProof> known;
  const std::string key = proof_key(source);
  if (options.cache) {
    const std::lock_guard lock(mutex);
    if (const auto it = known.find(key); it != known.end()) return it->second;
  }
  const std::vector<ProofJob> jobs = {{.source = [&source] { return Result<KernelSource>(source); },
                                       .op = source.program.name,
                                       .schedule = source.schedule.name,
                                       .target = source.target_key}};
  KernelProof out;
  prove_all(jobs, options, [&](size_t, KernelProof proof) { out = std::move(proof); });
  if (options.cache && out.error.empty()) {
    const std::lock_guard lock(mutex);
    KernelProof& kept = known[key] = out;
    kept.from_cache = true;
  }
  return out;
}

}  // namespace rooftile::verify
