// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/proof_json.h"

namespace rooftile::verify {

using nlohmann::ordered_json;

namespace {

template <class Enum>
std::optional<Enum> named(std::string_view text, std::string_view (*name)(Enum), Enum last) {
  for (int i = 0; i <= static_cast<int>(last); ++i)
    if (name(static_cast<Enum>(i)) == text) return static_cast<Enum>(i);
  return std::nullopt;
}

ordered_json example_json(const Counterexample& example) {
  ordered_json call = ordered_json::object(), at = ordered_json::array();
  for (const auto& [name, value] : example.call) call[name] = value;
  for (const auto& [name, value] : example.at) at.push_back({name, value});
  ordered_json out = {{"call", call}, {"at", at}, {"story", example.story}};
  if (!example.replay.empty()) {
    out["replayed"] = example.replayed;
    out["replay"] = example.replay;
  }
  return out;
}

Counterexample example_from(const ordered_json& json) {
  Counterexample out;
  for (const auto& [name, value] : json.at("call").items()) out.call[name] = value.get<int64_t>();
  for (const ordered_json& pair : json.at("at"))
    out.at.emplace_back(pair.at(0).get<std::string>(), pair.at(1).get<int64_t>());
  out.story = json.at("story").get<std::vector<std::string>>();
  out.replayed = json.value("replayed", false);
  out.replay = json.value("replay", "");
  return out;
}

}  // namespace

ordered_json to_json(const Obligation& obligation) {
  const Finding& f = obligation.finding;
  const KindInfo& kind = kind_info(f.kind);
  ordered_json out = {{"level", level_name(kind.level)},
                      {"obligation", kind.id},
                      {"verdict", verdict_name(f.verdict)},
                      {"prover", prover_name(f.prover)},
                      {"ms", f.ms},
                      {"subject", f.subject}};
  if (obligation.variant >= 0) out["variant"] = obligation.variant;
  if (obligation.phase >= 0) out["phase"] = obligation.phase;
  if (!f.reason.empty()) out["reason"] = f.reason;
  if (!obligation.waiver.empty()) out["waiver"] = obligation.waiver;
  if (f.verdict == Verdict::kRefuted) out["counterexample"] = example_json(f.example);
  if (!f.assumptions.empty()) out["assumptions"] = f.assumptions;
  if (!f.evidence.empty()) out["evidence"] = f.evidence;
  if (f.loc.line > 0) out["at"] = {{"file", f.loc.file}, {"line", f.loc.line}};
  return out;
}

std::optional<Obligation> obligation_from_json(const ordered_json& json) {
  try {
    Obligation out;
    Finding& f = out.finding;
    const KindInfo* kind = kind_find(json.at("obligation").get<std::string>());
    const auto verdict =
        named(json.at("verdict").get<std::string>(), verdict_name, Verdict::kUnknown);
    const auto prover = named(json.at("prover").get<std::string>(), prover_name, Prover::kSolver);
    if (kind == nullptr || !verdict || !prover) return std::nullopt;
    f.kind = kind->kind;
    f.verdict = *verdict;
    f.prover = *prover;
    f.ms = json.at("ms").get<double>();
    f.subject = json.at("subject").get<std::string>();
    out.variant = json.value("variant", -1);
    out.phase = json.value("phase", -1);
    f.reason = json.value("reason", "");
    out.waiver = json.value("waiver", "");
    if (json.contains("counterexample")) f.example = example_from(json.at("counterexample"));
    f.assumptions = json.value("assumptions", std::vector<std::string>());
    f.evidence = json.value("evidence", "");
    if (json.contains("at"))
      f.loc = {json.at("at").at("file").get<std::string>(), json.at("at").at("line").get<int>()};
    return out;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

ordered_json header_json(const KernelProof& proof) {
  const Tally tally = proof.tally();
  return {{"op", proof.op},           {"kernel", proof.kernel},
          {"config", proof.config},   {"schedule", proof.schedule},
          {"target", proof.target},   {"name", proof.name},
          {"raw", proof.raw},         {"code_sha256", proof.code_hash},
          {"prover", proof.prover},   {"proved", tally.proved},
          {"refuted", tally.refuted}, {"unknown", tally.unknown},
          {"waived", tally.waived},   {"ms", proof.ms},
          {"error", proof.error}};
}

std::optional<KernelProof> header_from_json(const ordered_json& json) {
  try {
    KernelProof out;
    out.op = json.at("op").get<std::string>();
    out.kernel = json.at("kernel").get<std::string>();
    out.config = json.at("config").get<std::string>();
    out.schedule = json.at("schedule").get<std::string>();
    out.target = json.at("target").get<std::string>();
    out.name = json.at("name").get<std::string>();
    out.raw = json.at("raw").get<bool>();
    out.code_hash = json.at("code_sha256").get<std::string>();
    out.prover = json.at("prover").get<std::string>();
    out.ms = json.at("ms").get<double>();
    out.error = json.at("error").get<std::string>();
    return out;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace rooftile::verify
