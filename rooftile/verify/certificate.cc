// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/certificate.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "rooftile/base/hash.h"
#include "rooftile/verify/contract_text.h"
#include "rooftile/verify/proof_json.h"

namespace rooftile::verify {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

namespace {

// The model of the machine: what every proof takes for granted; docs/proofs.md has it in full.
const std::vector<std::string>& always_assumed() {
  static const std::vector<std::string> list = {
      "the launcher runs every check that its text holds before it launches",
      "values of index tensors on a GPU are as the contract says: they are not looked into",
      "PTX as its manual has it: memory model, mbarriers, proxies, copy engine, wgmma, limits of "
      "sm_90a",
      "NVRTC, ptxas, the system compiler and the hardware do what they promise"};
  return list;
}

}  // namespace

std::string certificate_text(const KernelProof& proof, const KernelSource& source,
                             const std::string& request) {
  ordered_json obligations = ordered_json::array(), waivers = ordered_json::array();
  std::set<std::string> assumptions(always_assumed().begin(), always_assumed().end());
  for (const Obligation& obligation : proof.obligations) {
    ordered_json json = to_json(obligation);
    json.erase("ms");  // a certificate of one kernel is one text, whenever it is made
    obligations.push_back(std::move(json));
    assumptions.insert(obligation.finding.assumptions.begin(),
                       obligation.finding.assumptions.end());
    if (!obligation.waiver.empty())
      waivers.push_back({{"obligation", kind_info(obligation.finding.kind).id},
                         {"subject", obligation.finding.subject},
                         {"why", obligation.waiver}});
  }
  ordered_json out = {{"certificate", kCertificateFormat},
                      {"op", proof.op},
                      {"kernel", proof.kernel},
                      {"config", proof.config},
                      {"request", request},
                      {"schedule", proof.schedule},
                      {"target", proof.target},
                      {"name", proof.name},
                      {"code_sha256", proof.code_hash},
                      {"prover", proof.prover},
                      {"contract", contract_json(source)},
                      {"assumptions", assumptions},
                      {"waivers", waivers},
                      {"obligations", obligations}};
  out["seal"] = sha256_hex(out.dump());
  return out.dump(1) + "\n";
}

Status write_certificate(const std::string& dir, const KernelProof& proof,
                         const KernelSource& source, const std::string& request) {
  const fs::path folder = fs::path(dir) / proof.op;
  const fs::path path = folder / (proof.name + ".json");
  const fs::path aside = path.string() + "." + std::to_string(::getpid());
  std::error_code error;
  fs::create_directories(folder, error);
  std::ofstream out(aside, std::ios::binary | std::ios::trunc);
  out << certificate_text(proof, source, request);
  out.close();
  if (out) fs::rename(aside, path, error);
  if (!out || error)
    return Diag{.code = ErrorCode::kIo,
                .subject = path.string(),
                .message = "the certificate cannot be written",
                .found = error.message()};
  return {};
}

}  // namespace rooftile::verify
