// SPDX-License-Identifier: Apache-2.0
// Partial sums that meet through global memory: images and tickets (docs/decisions/0004-proofs.md,
// "Parts").
//
// Who does not own the sums of a tile stores them as an image in a row of its own, its group meets,
// and one thread adds 1 to the owner's ticket, release. One thread of the owner's group waits until
// the ticket holds the number of the others, acquire, and clears it; the group meets and reads the
// images. With the lemmas of hand_out.h: whatever is read has been stored before, nobody stores it
// again, and tickets are zero when the kernel ends. That is asked here, of each instruction:
//   the row that is stored is the slot's own; the ticket is the owner's, its column the group's
//   one thread a group adds, and one waits; what is added is 1, what is awaited is `others`
//   a barrier of the group stands between images and addition, and between wait and reads
//   what is read are the rows owner - 1 .. owner - others, columns of the same group
//   the thread that has waited clears the ticket before it meets the others
#pragma once

#include <set>
#include <string>

#include "rooftile/verify/lanes/once.h"

namespace rooftile::verify {

// Answers lanes.global-race of tickets and images, and lanes.once of tickets: gives the tickets'
// names, and notes those of the images in `sites`.
std::set<std::string> prove_meets(Walk& walk, TensorSites& sites);

}  // namespace rooftile::verify
