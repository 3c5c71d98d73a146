// SPDX-License-Identifier: Apache-2.0
// rooftile prove [OP]: is every shipped kernel safe for every call that its contract admits?
//
// A row a kernel and schedule, or with an operator named, a row an obligation; what is refuted with
// its counterexample, run so that one sees it happen. Exit status 1 when anything is refuted or
// unknown. --certificate writes a file a kernel, --check validates such files by other means.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "rooftile/base/log.h"
#include "rooftile/cli/op_args.h"
#include "rooftile/cli/output.h"
#include "rooftile/cli/verb.h"
#include "rooftile/verify/certificate.h"
#include "rooftile/verify/check_certificate.h"
#include "rooftile/verify/finding_text.h"
#include "rooftile/verify/proof_json.h"
#include "rooftile/verify/shipped.h"

namespace rooftile::cli {
namespace {

using verify::KernelProof;
using verify::Obligation;
using verify::ShippedKernel;

struct Options {
  std::vector<std::string> names, targets;
  std::string json, certificate, check;
  int workers = 0;
  bool each = false;   // a row an obligation
  bool fresh = false;  // not from the cache
};

// ---- what is said of a kernel

std::string provers_of(const KernelProof& proof) {
  std::map<std::string_view, int> counts;
  for (const Obligation& obligation : proof.obligations)
    if (obligation.finding.verdict == verify::Verdict::kProved)
      ++counts[verify::prover_name(obligation.finding.prover)];
  std::vector<std::string> words;
  for (const auto& [name, count] : counts) words.push_back(fmt::format("{} {}", name, count));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string verdict_words(const Obligation& obligation) {
  if (!obligation.waiver.empty()) return "waived";
  return std::string(verify::verdict_name(obligation.finding.verdict));
}

class Report {
 public:
  Report(Output& out, bool each) : out_(out), each_(each) {}

  void raw(const ShippedKernel& shipped) {
    table_.row({shipped.op->name, shipped.kernel->name, shipped.schedule.name, shipped.target, "-",
                "-", "-", "-", "-", "raw, unproved"});
    out_.json_line(nlohmann::ordered_json({{"op", shipped.op->name},
                                           {"kernel", shipped.kernel->name},
                                           {"schedule", shipped.schedule.str()},
                                           {"target", shipped.target},
                                           {"config", shipped.config.str()},
                                           {"verdict", "raw, unproved"}})
                       .dump());
    ++raw_;
  }

  void add(const ShippedKernel& shipped, const KernelProof& proof) {
    const verify::Tally tally = proof.tally();
    total_.proved += tally.proved;
    total_.refuted += tally.refuted;
    total_.unknown += tally.unknown;
    total_.waived += tally.waived;
    ++kernels_;
    failed_ += tally.passes() && proof.error.empty() ? 0 : 1;
    slowest_ = std::max(slowest_, proof.from_cache ? 0 : proof.ms);
    ms_ += proof.from_cache ? 0 : proof.ms;
    cached_ += proof.from_cache ? 1 : 0;
    for (const Obligation& obligation : proof.obligations) json(shipped, proof, obligation);
    table_.row({proof.op, proof.kernel, shipped.schedule.name, proof.target,
                std::to_string(tally.proved), std::to_string(tally.refuted),
                std::to_string(tally.unknown), std::to_string(tally.waived),
                proof.from_cache ? "cached" : fmt::format("{:.1f}", proof.ms),
                proof.error.empty() ? provers_of(proof) : "cannot be generated"});
    if (each_) page(shipped, proof);
    if (!proof.error.empty()) open(proof.error, proof.error);
    for (const Obligation& obligation : proof.obligations) {
      if (!obligation.waiver.empty())
        waivers_.push_back(fmt::format("{} {}: {} waived: {}", proof.op, proof.kernel,
                                       verify::kind_info(obligation.finding.kind).id,
                                       obligation.waiver));
      else if (obligation.finding.verdict != verify::Verdict::kProved)
        open(fmt::format("{} {} {} {}", proof.op, verify::kind_info(obligation.finding.kind).id,
                         verify::verdict_name(obligation.finding.verdict),
                         obligation.finding.reason),
             verify::diag_of(proof, obligation).str());
    }
  }

  int finish() {
    if (!each_) out_.text(table_.str());
    constexpr size_t kShown = 40;
    for (size_t i = 0; i < std::min(open_.size(), kShown); ++i) {
      out_.text(open_[i].text);
      if (open_[i].times > 1)
        out_.text(fmt::format("  and {} more like this; --json lists them", open_[i].times - 1));
      out_.text("");
    }
    if (open_.size() > kShown)
      out_.text(fmt::format("... and {} kinds more; --json lists them all", open_.size() - kShown));
    for (const std::string& waiver : waivers_) out_.text(waiver);
    out_.text(fmt::format(
        "{} kernels, {} obligations: {} proved, {} refuted, {} unknown, {} waived; {:.1f} s of "
        "proving, slowest kernel {:.0f} ms, {} from the cache; {} raw kernels, unproved",
        kernels_, total_.proved + total_.refuted + total_.unknown + total_.waived, total_.proved,
        total_.refuted, total_.unknown, total_.waived, ms_ / 1e3, slowest_, cached_, raw_));
    return failed_ == 0 ? 0 : 1;
  }

 private:
  // What is open, one text for many alike.
  struct Open {
    std::string key, text;
    int times = 1;
  };
  void open(std::string key, std::string text) {
    for (Open& known : open_)
      if (known.key == key) {
        ++known.times;
        return;
      }
    open_.push_back({std::move(key), std::move(text)});
  }

  void json(const ShippedKernel& shipped, const KernelProof& proof, const Obligation& obligation) {
    if (!out_.has_json()) return;
    nlohmann::ordered_json line = {
        {"op", proof.op},         {"kernel", proof.kernel},    {"schedule", proof.schedule},
        {"target", proof.target}, {"config", proof.config},    {"case", shipped.case_text},
        {"name", proof.name},     {"cached", proof.from_cache}};
    line.update(verify::to_json(obligation));
    out_.json_line(line.dump());
  }

  // Obligations of one kind in a row.
  void page(const ShippedKernel& shipped, const KernelProof& proof) {
    out_.text(fmt::format("{} {} for {}, {}\nschedule {}\n", proof.op, proof.kernel,
                          shipped.case_text, proof.target, proof.schedule));
    struct Row {
      int count = 0;
      double ms = 0;
      std::map<std::string, int> verdicts;
      std::map<std::string_view, int> provers;
    };
    std::map<verify::Kind, Row> rows;
    for (const Obligation& obligation : proof.obligations) {
      Row& row = rows[obligation.finding.kind];
      ++row.count;
      row.ms += obligation.finding.ms;
      ++row.verdicts[verdict_words(obligation)];
      ++row.provers[verify::prover_name(obligation.finding.prover)];
    }
    Table table({"level", "obligation", "verdict", "ms", "prover", "what holds"});
    for (const auto& [kind, row] : rows) {
      const verify::KindInfo& info = verify::kind_info(kind);
      std::vector<std::string> verdicts, provers;
      for (const auto& [word, count] : row.verdicts)
        verdicts.push_back(fmt::format("{} {}", count, word));
      for (const auto& [word, count] : row.provers) provers.emplace_back(word);
      table.row({std::string(verify::level_name(info.level)), std::string(info.id),
                 fmt::format("{}", fmt::join(verdicts, ", ")), fmt::format("{:.1f}", row.ms),
                 fmt::format("{}", fmt::join(provers, ", ")), std::string(info.what)});
    }
    out_.text(table.str());
  }

  Output& out_;
  const bool each_;
  Table table_{{"operator", "kernel", "schedule", "target", "proved", "refuted", "unknown",
                "waived", "ms", "provers"}};
  verify::Tally total_;
  std::vector<Open> open_;
  std::vector<std::string> waivers_;
  double ms_ = 0, slowest_ = 0;
  int kernels_ = 0, failed_ = 0, cached_ = 0, raw_ = 0;
};

// ---- certificates

Status certify(const std::string& dir, const ShippedKernel& shipped, const KernelProof& proof) {
  if (!proof.error.empty()) return {};
  const Result<KernelSource> source = verify::job_for(shipped).source();
  if (!source.ok()) return source.status();
  return verify::write_certificate(dir, proof, *source, shipped.case_text);
}

// The kernel that a certificate names, among those that are shipped.
const ShippedKernel* find(const std::vector<ShippedKernel>& kernels,
                          const verify::CertificateHead& head) {
  const auto it = std::find_if(kernels.begin(), kernels.end(), [&](const ShippedKernel& kernel) {
    return kernel.kernel->name == head.kernel && kernel.config.str() == head.config &&
           kernel.schedule.str() == head.schedule;
  });
  return it == kernels.end() ? nullptr : &*it;
}

Result<verify::Checked> check_file(const std::string& text) {
  auto head = verify::certificate_head(text);
  if (!head) return head.status();
  auto op = op_named(head->op);
  if (!op) return op.status();
  auto kernels = verify::shipped_kernels(**op, head->target);
  if (!kernels) return kernels.status();
  const ShippedKernel* shipped = find(*kernels, *head);
  if (shipped == nullptr)
    return Diag{.code = ErrorCode::kCertificate,
                .subject = head->name,
                .message = "no such kernel is shipped",
                .found = head->kernel + ", schedule " + head->schedule};
  const Result<KernelSource> source = verify::job_for(*shipped).source();
  if (!source.ok()) return source.status();
  return verify::check_certificate(text, *source, verify::job_for(*shipped).waivers);
}

Result<int> check_all(const Options& options) {
  namespace fs = std::filesystem;
  auto out = Output::open(options.json);
  if (!out) return out.status();
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator it(options.check, error), end; it != end && !error;
       it.increment(error))
    if (it->path().extension() == ".json") files.push_back(it->path());
  if (error || files.empty())
    return Diag{.code = ErrorCode::kIo,
                .subject = options.check,
                .message = error ? "the folder cannot be read" : "there are no certificates",
                .found = error ? error.message() : ""};
  std::sort(files.begin(), files.end());
  Progress progress("check", static_cast<int>(files.size()));
  int failed = 0, redone = 0, believed = 0;
  for (const fs::path& file : files) {
    progress.step(file.stem().string());
    std::ifstream in(file, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    const auto checked = check_file(text);
    nlohmann::ordered_json line = {{"certificate", file.string()}, {"ok", checked.ok()}};
    if (checked.ok()) {
      redone += checked->redone;
      believed += checked->believed;
      line["redone"] = checked->redone;
      line["believed"] = checked->believed;
    } else {
      ++failed;
      line["error"] = checked.diag().str();
      out->text(file.string() + "\n" + checked.diag().str());
    }
    out->json_line(line.dump());
  }
  out->text(fmt::format(
      "{} certificates, {} refused; {} obligations shown again without the provers, {} believed",
      files.size(), failed, redone, believed));
  RT_RETURN_IF_ERROR(out->close());
  return failed == 0 ? 0 : 1;
}

// ---- the verb

Result<int> run(const Options& options) {
  if (!options.check.empty()) return check_all(options);
  auto ops = ops_named(options.names);
  if (!ops) return ops.status();
  auto out = Output::open(options.json);
  if (!out) return out.status();
  std::vector<ShippedKernel> kernels;
  Report report(*out, options.each || (!options.names.empty() && options.json.empty()));
  for (const OpDef* op : *ops)
    for (const std::string& target : options.targets) {
      auto shipped = verify::shipped_kernels(*op, target);
      if (!shipped) return shipped.status();
      for (ShippedKernel& kernel : *shipped) {
        if (kernel.kernel->is_raw())
          report.raw(kernel);
        else
          kernels.push_back(std::move(kernel));
      }
    }
  std::vector<verify::ProofJob> jobs;
  for (const ShippedKernel& kernel : kernels) jobs.push_back(verify::job_for(kernel));
  Progress progress("prove", static_cast<int>(jobs.size()));
  Status written;
  verify::prove_all(jobs, {.workers = options.workers, .cache = !options.fresh},
                    [&](size_t job, const KernelProof& proof) {
                      progress.step(proof.op + " " + proof.kernel);
                      report.add(kernels[job], proof);
                      if (written.ok() && !options.certificate.empty())
                        written = certify(options.certificate, kernels[job], proof);
                    });
  const int status = report.finish();
  if (!written.ok()) return written.diag();
  RT_RETURN_IF_ERROR(out->close());
  return status;
}

}  // namespace

void add_prove(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  options->targets = {"sm90", "cpu"};
  std::vector<std::string> targets = verify::proof_targets();
  targets.emplace_back("cpu");
  CLI::App* verb = app.add_subcommand(
      "prove", "prove every shipped kernel safe for every call that its contract admits");
  verb->add_option("op", options->names, "these operators alone");
  verb->add_option("--target", options->targets, "what kernels are for; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(CLI::IsMember(targets))
      ->capture_default_str();
  verb->add_flag_callback(
      "--all", [options] { options->targets = verify::proof_targets(); },
      "on every machine that there are schedules for");
  verb->add_flag("--each", options->each, "a row an obligation, for each kernel");
  verb->add_flag("--fresh", options->fresh, "prove again what has been proved before");
  verb->add_option("--workers", options->workers, "processes at once; default: one a processor");
  verb->add_option("--certificate", options->certificate, "writes a certificate a kernel there");
  verb->add_option("--check", options->check,
                   "validates the certificates in a folder, without the provers");
  verb->add_option("--json", options->json, kJsonHelp);
  verb->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace rooftile::cli
