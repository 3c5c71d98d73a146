// SPDX-License-Identifier: Apache-2.0
// What the certificate checker reads off a kernel's lanes for itself: which kinds of obligation
// they owe, and the facts behind those that need no prover. Shares no code with the provers.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "rooftile/lanes/lanes.h"

namespace rooftile::verify {

// Ids of the obligations that a certificate of this kernel must have.
std::set<std::string> ids_owed(const lanes::Program& kernel);

// Of single statements: how often which subject (a statement as it is printed, "map a of b") has to
// come up under an id. A certificate that leaves one out says nothing of it.
std::map<std::pair<std::string, std::string>, int> subjects_owed(const lanes::Program& kernel);

// What is wrong; "": nothing. nullopt: not an obligation that is redone here.
std::optional<std::string> redo_from_code(const std::string& obligation, const std::string& subject,
                                          const std::string& evidence,
                                          const lanes::Program& kernel);

}  // namespace rooftile::verify
