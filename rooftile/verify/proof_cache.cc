// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/proof_cache.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "rooftile/base/hash.h"
#include "rooftile/toolchain/disk_cache.h"
#include "rooftile/verify/parts.h"
#include "rooftile/verify/proof_json.h"

namespace rooftile::verify {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

std::string proof_key(const KernelSource& source) {
  Sha256 hash;
  hash.field("proof 1").field(prover_version());
  hash.field(source.name).field(source.schedule.str()).field(source.target_key);
  hash.field(ir::print(source.program));
  for (const codegen::GpuVariant& variant : source.variants)
    if (variant.program != nullptr) hash.field(ir::print(*variant.program));
  hash.field(source.scheduled).field(source.kernel_text).field(source.launcher_text);
  return hash.hex();
}

Result<ProofCache> ProofCache::open(const std::string& dir) {
  Result<DiskCache> cache = DiskCache::open(dir);  // checks who may write there
  if (!cache.ok()) return cache.diag();
  const std::string folder = cache->dir() + "/proofs";
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    return Diag{.code = ErrorCode::kCache,
                .subject = folder,
                .message = "the folder of proofs cannot be made",
                .found = error.message()};
  return ProofCache(folder);
}

namespace {

// The header of a file whose first line says that it is sound.
std::optional<ordered_json> read_header(std::istream& in) {
  std::string hash, line;
  if (!std::getline(in, hash) || !std::getline(in, line) || sha256_hex(line) != hash)
    return std::nullopt;
  ordered_json header = ordered_json::parse(line, nullptr, false);
  if (header.is_discarded()) return std::nullopt;
  return header;
}

}  // namespace

std::optional<Tally> ProofCache::find_tally(const std::string& key) const {
  std::ifstream in(path(key), std::ios::binary);
  const std::optional<ordered_json> header = read_header(in);
  if (!header || header->value("key", "") != key) return std::nullopt;
  return Tally{header->value("proved", 0), header->value("refuted", 0), header->value("unknown", 0),
               header->value("waived", 0)};
}

std::optional<KernelProof> ProofCache::find(const std::string& key) const {
  std::ifstream in(path(key), std::ios::binary);
  const std::optional<ordered_json> header = read_header(in);
  if (!header || header->value("key", "") != key) return std::nullopt;
  std::optional<KernelProof> proof = header_from_json(*header);
  if (!proof) return std::nullopt;
  std::stringstream rest;
  rest << in.rdbuf();
  if (sha256_hex(rest.str()) != header->value("rest_sha256", "")) return std::nullopt;
  for (std::string line; std::getline(rest, line);) {
    std::optional<Obligation> obligation =
        obligation_from_json(ordered_json::parse(line, nullptr, false));
    if (!obligation) return std::nullopt;
    proof->obligations.push_back(std::move(*obligation));
  }
  proof->from_cache = true;
  return proof;
}

void ProofCache::keep(const std::string& key, const KernelProof& proof) const {
  std::string rest;
  for (const Obligation& obligation : proof.obligations) rest += to_json(obligation).dump() + "\n";
  ordered_json header = header_json(proof);
  header["key"] = key;
  header["rest_sha256"] = sha256_hex(rest);
  const std::string line = header.dump();
  const std::string aside = path(key) + "." + std::to_string(::getpid());
  {
    std::ofstream out(aside, std::ios::binary | std::ios::trunc);
    out << sha256_hex(line) << "\n" << line << "\n" << rest;
    if (!out.flush()) {
      std::error_code ignored;
      fs::remove(aside, ignored);
      return;
    }
  }
  std::error_code ignored;
  fs::rename(aside, path(key), ignored);
}

}  // namespace rooftile::verify
