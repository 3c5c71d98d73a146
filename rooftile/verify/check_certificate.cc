// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/check_certificate.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "rooftile/base/hash.h"
#include "rooftile/ir/types.h"
#include "rooftile/verify/check_code.h"
#include "rooftile/verify/check_formula.h"
#include "rooftile/verify/contract_text.h"

namespace rooftile::verify {

using nlohmann::ordered_json;

namespace {

Diag refuse(const std::string& name, std::string message, std::string found = "",
            std::string expected = "") {
  Diag diag;
  diag.code = ErrorCode::kCertificate;
  diag.subject = name.empty() ? "certificate" : name;
  diag.message = std::move(message);
  diag.found = std::move(found);
  diag.expected = std::move(expected);
  return diag;
}

// One obligation as the certificate has it.
struct Entry {
  int variant, phase;
  std::string id, level, verdict, prover, subject, waiver, evidence;
};

Entry entry_of(const ordered_json& json) {
  return {json.value("variant", -1),
          json.value("phase", -1),
          json.at("obligation").get<std::string>(),
          json.at("level").get<std::string>(),
          json.at("verdict").get<std::string>(),
          json.at("prover").get<std::string>(),
          json.at("subject").get<std::string>(),
          json.value("waiver", ""),
          json.value("evidence", "")};
}

class Checker {
 public:
  Checker(const ordered_json& json, const KernelSource& source, const std::vector<Waiver>& waivers)
      : json_(json), source_(source), waivers_(waivers) {}

  Result<Checked> run() {
    name_ = json_.at("name").get<std::string>();
    RT_RETURN_IF_ERROR(check_head());
    std::vector<Entry> entries;
    for (const ordered_json& entry : json_.at("obligations")) entries.push_back(entry_of(entry));
    RT_RETURN_IF_ERROR(check_owed(entries));
    RT_RETURN_IF_ERROR(check_subjects(entries));
    Checked out;
    for (const Entry& entry : entries) RT_RETURN_IF_ERROR(check(entry, out));
    return out;
  }

 private:
  Status check_head() const {
    ordered_json sealed = json_;
    sealed.erase("seal");
    if (json_.at("certificate").get<int>() != 1)
      return refuse(name_, "the certificate is of another format");
    if (sha256_hex(sealed.dump()) != json_.at("seal").get<std::string>())
      return refuse(name_, "the certificate has been changed: its seal is broken");
    if (name_ != source_.name)
      return refuse(name_, "the certificate is of another kernel", name_, source_.name);
    Sha256 hash;
    hash.field(source_.kernel_text).field(source_.launcher_text);
    const std::string code = hash.hex();
    if (json_.at("code_sha256").get<std::string>() != code)
      return refuse(name_, "the certificate is of other code",
                    json_.at("code_sha256").get<std::string>(), code);
    if (json_.at("contract") != contract_json(source_))
      return refuse(name_, "the certificate states another contract");
    return {};
  }

  // What this code owes, derived from it anew.
  using Owed = std::map<std::pair<int, int>, std::set<std::string>>;
  Owed owed() const {
    Owed out;
    out[{-1, -1}] = {"contract.met", "contract.implies", "contract.admits"};
    if (!source_.gpu()) {
      add_tiles(source_.program, out[{-1, -1}]);
      out[{-1, -1}].insert({"cpu.bounds", "cpu.race", "cpu.alignment", "cpu.overflow"});
      return out;
    }
    const ir::Program* last = nullptr;
    for (size_t v = 0; v < source_.variants.size(); ++v) {
      const codegen::GpuVariant& variant = source_.variants[v];
      if (variant.program == nullptr) continue;
      if (variant.program.get() != last)
        add_tiles(*variant.program, out[{static_cast<int>(v), -1}]);
      last = variant.program.get();
      for (size_t p = 0; p < variant.phases.size(); ++p) {
        std::set<std::string>& ids = out[{static_cast<int>(v), static_cast<int>(p)}];
        ids = ids_owed(variant.phases[p]);
        if (variant.placed[p] == nullptr) continue;
        ids.insert({"placed.once", "placed.live"});
        if (!variant.placed[p]->placed.rings.empty())
          ids.insert({"ring.credit", "ring.parity", "ring.hazard", "ring.counts", "placed.layout",
                      "lanes.matches"});
      }
    }
    return out;
  }
  static void add_tiles(const ir::Program& program, std::set<std::string>& ids) {
    for (const ir::Node& node : program.nodes) {
      if (node.op == ir::Op::kLoad) ids.insert("tile.bounds");
      if (node.op == ir::Op::kStore) ids.insert({"tile.bounds", "tile.once", "tile.order"});
    }
    for (const ir::TensorParam& tensor : program.tensors)
      if (tensor.role == ir::Role::kOut) ids.insert("tile.covers");
  }

  Status check_owed(const std::vector<Entry>& entries) const {
    for (const auto& [place, ids] : owed()) {
      const auto& where = place;  // clang 14 captures no structured binding
      for (const std::string& id : ids) {
        const bool there = std::any_of(entries.begin(), entries.end(), [&](const Entry& entry) {
          return entry.id == id && entry.variant == where.first && entry.phase == where.second;
        });
        if (!there)
          return refuse(name_, "an obligation is missing",
                        "none for variant " + std::to_string(where.first) + ", phase " +
                            std::to_string(where.second),
                        id);
      }
    }
    return {};
  }

  // Single statements, nodes, rings, extents: a kind of obligation may have many, and each is owed.
  using Subjects = std::map<std::pair<std::string, std::string>, int>;
  Status check_subjects(const std::vector<Entry>& entries) const {
    std::map<std::pair<int, int>, Subjects> owed;
    for (const ir::TensorParam& tensor : source_.program.tensors)
      if (tensor.role != ir::Role::kWorkspace) {
        ++owed[{-1, -1}][{"contract.implies", "memory of `" + tensor.name + "`"}];
        for (size_t axis = 0; axis < tensor.shape.size(); ++axis)
          ++owed[{-1, -1}]
                [{"contract.implies", "extent " + std::to_string(axis) + " of `" + tensor.name +
                                          "` is " + tensor.shape[axis].str()}];
      }
    ++owed[{-1, -1}][{"contract.met", "the contract"}];
    if (source_.gpu()) ++owed[{-1, -1}][{"contract.admits", "a variant for every call"}];
    for (size_t v = 0; v < source_.variants.size(); ++v) {
      const codegen::GpuVariant& variant = source_.variants[v];
      if (variant.program == nullptr) continue;
      for (size_t p = 0; p < variant.phases.size(); ++p) {
        Subjects& subjects = owed[{static_cast<int>(v), static_cast<int>(p)}];
        subjects = subjects_owed(variant.phases[p]);
        // Of the whole kernel; where it has no such thing, that is proved.
        for (const char* id : {"lanes.live", "lanes.barriers", "lanes.shared-race",
                               "lanes.initialised", "lanes.fences", "lanes.tokens"})
          ++subjects[{id, variant.phases[p].name}];
        if (variant.placed[p] == nullptr) continue;
        for (const codegen::PlacedRing& ring : variant.placed[p]->placed.rings)
          for (const char* id : {"ring.credit", "ring.parity", "ring.hazard", "ring.counts",
                                 "placed.layout", "lanes.matches"})
            ++subjects[{id, "ring " + ring.name}];
      }
    }
    std::map<std::pair<int, int>, Subjects> found;
    for (const Entry& entry : entries)
      ++found[{entry.variant, entry.phase}][{entry.id, entry.subject}];
    for (const auto& [place, subjects] : owed)
      for (const auto& [what, times] : subjects)
        if (found[place][what] < times)
          return refuse(name_,
                        "an obligation is missing: " + what.first + " of variant " +
                            std::to_string(place.first) + ", phase " + std::to_string(place.second),
                        std::to_string(found[place][what]) + " of " + std::to_string(times),
                        what.second);
    return check_tiles(entries);
  }

  // Every load and store of the tile programs lies in its tensor; every output is covered.
  Status check_tiles(const std::vector<Entry>& entries) const {
    std::vector<std::pair<int, const ir::Program*>> programs;
    if (!source_.gpu()) programs.emplace_back(-1, &source_.tiles);
    const ir::Program* last = nullptr;
    for (size_t v = 0; v < source_.variants.size(); ++v) {
      const ir::Program* program = source_.variants[v].program.get();
      if (program != nullptr && program != last)
        programs.emplace_back(static_cast<int>(v), program);
      last = program;
    }
    const auto missing = [&](int variant, const std::string& id, const std::string& begin) {
      return std::none_of(entries.begin(), entries.end(), [&](const Entry& entry) {
        return entry.variant == variant && entry.id == id && entry.subject.starts_with(begin);
      });
    };
    for (const auto& [variant, program] : programs) {
      for (const ir::Node& node : program->nodes) {
        const bool load = node.op == ir::Op::kLoad;
        if (!load && node.op != ir::Op::kStore) continue;
        const std::string subject =
            (load ? "load of `" : "store to `") + node.name + "`, " + ir::node_str(node);
        if (missing(variant, "tile.bounds", subject))
          return refuse(name_, "an obligation is missing: tile.bounds", "none", subject);
      }
      for (const ir::TensorParam& tensor : program->tensors)
        if (tensor.role == ir::Role::kOut &&
            missing(variant, "tile.covers", "output `" + tensor.name + "`"))
          return refuse(name_, "an obligation is missing: tile.covers", "none", tensor.name);
    }
    return {};
  }

  Status check(const Entry& entry, Checked& out) const {
    const std::string what = entry.id + " of " + entry.subject;
    if (entry.verdict != "proved") {
      const bool waived = entry.verdict == "unknown" && !entry.waiver.empty() &&
                          std::any_of(waivers_.begin(), waivers_.end(), [&](const auto& waiver) {
                            return waiver.obligation == entry.id && waiver.why == entry.waiver;
                          });
      if (!waived) return refuse(name_, "an obligation is not proved", what, entry.verdict);
      return {};
    }
    if (entry.prover == "none") return refuse(name_, "an obligation is proved by nobody", what);
    std::optional<std::string> wrong;
    if (entry.variant >= 0 && entry.phase >= 0) {
      const lanes::Program* kernel = phase(entry);
      if (kernel == nullptr) return refuse(name_, "an obligation of code that there is not", what);
      wrong = redo_from_code(entry.id, entry.subject, entry.evidence, *kernel);
    }
    if (wrong && !wrong->empty())
      return refuse(name_, "an obligation does not hold: " + entry.id, *wrong, entry.subject);
    const Redone formula = check_formulas(entry.evidence);
    if (formula == Redone::kBroken)
      return refuse(name_, "the evidence of an obligation does not hold: " + entry.id,
                    entry.evidence, entry.subject);
    const bool redone = wrong.has_value() || formula == Redone::kHolds;
    ++(redone ? out.redone : out.believed);
    return {};
  }

  const lanes::Program* phase(const Entry& entry) const {
    const auto v = static_cast<size_t>(entry.variant), p = static_cast<size_t>(entry.phase);
    if (v >= source_.variants.size() || p >= source_.variants[v].phases.size()) return nullptr;
    return &source_.variants[v].phases[p];
  }

  const ordered_json& json_;
  const KernelSource& source_;
  const std::vector<Waiver>& waivers_;
  std::string name_;
};

}  // namespace

Result<CertificateHead> certificate_head(std::string_view text) {
  try {
    const ordered_json json = ordered_json::parse(text);
    return CertificateHead{
        json.at("op").get<std::string>(),       json.at("kernel").get<std::string>(),
        json.at("config").get<std::string>(),   json.at("request").get<std::string>(),
        json.at("schedule").get<std::string>(), json.at("target").get<std::string>(),
        json.at("name").get<std::string>()};
  } catch (const nlohmann::json::exception& e) {
    return refuse("", "this is not a certificate", e.what());
  }
}

Result<Checked> check_certificate(std::string_view text, const KernelSource& source,
                                  const std::vector<Waiver>& waivers) {
  try {
    const ordered_json json = ordered_json::parse(text);
    return Checker(json, source, waivers).run();
  } catch (const nlohmann::json::exception& e) {
    return refuse(source.name, "this is not a certificate", e.what());
  }
}

}  // namespace rooftile::verify
