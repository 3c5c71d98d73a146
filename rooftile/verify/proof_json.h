// SPDX-License-Identifier: Apache-2.0
// Proofs as JSON: what a worker sends, the cache keeps and a certificate holds.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "rooftile/verify/proof.h"

namespace rooftile::verify {

nlohmann::ordered_json to_json(const Obligation& obligation);
// nullopt: not what to_json() writes.
std::optional<Obligation> obligation_from_json(const nlohmann::ordered_json& json);

// Without the obligations.
nlohmann::ordered_json header_json(const KernelProof& proof);
std::optional<KernelProof> header_from_json(const nlohmann::ordered_json& json);

}  // namespace rooftile::verify
