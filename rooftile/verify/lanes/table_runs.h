// SPDX-License-Identifier: Apache-2.0
// Rows that are stored in runs which a table lays out: slot u of a walk belongs to the sequence
// owner[u], whose rows begin where another table says, and stores those of its box that are the
// sequence's. Boxes then lie anywhere, and overlap; the runs in them do not, and cover the tensor.
//
// A run is [begin(u), begin(u) + min(limit(u), size)) where `stored(u)`, and nothing otherwise. Of
// any two slots with runs one ends before the other begins. And before slot u rows are stored up to
// reach(u), which is where its run begins, or, if it has none, where its sequence ends: so much
// holds of the first slot, each hands it on to the next, and the last comes to the tensor's end.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rooftile/verify/lanes/store_form.h"
#include "rooftile/verify/lanes/walk.h"

namespace rooftile::verify {

class TableRuns {
 public:
  // Dimension `dim` of a form whose offsets fill [0, size) there; empty where its base names no
  // table that the contract knows the elements of.
  static std::optional<TableRuns> find(Walk& walk, const LaneContract& contract,
                                       const lanes::Program& kernel, const StoreForm& form,
                                       size_t dim, int64_t size);

  const Expr& walker() const { return walker_; }  // names the slot: what the digits have to say
  const Expr& count() const { return count_; }    // of slots
  // A condition on the store that the runs account for.
  bool accounts_for(const Expr& clip) const;
  bool same_as(const TableRuns& other) const;

  // Empty: it is so. Under facts of the call alone.
  std::string apart(Questions& questions) const;
  std::string covers(Questions& questions, const Expr& extent) const;

 private:
  struct At {
    Expr begin, limit, end, stored, reach;
  };
  At at(const Expr& slot) const;
  bool handed_on(Questions& questions, const Expr& extent, bool stored) const;

  Expr walker_, count_;
  Expr slot_;                    // the symbol that stands for the slot below
  Expr begin_, limit_, stored_;  // over it
  int64_t size_ = 0;
  std::vector<Expr> accounted_;
  Expr element_;                  // of the table, at the slot
  std::vector<Expr> is_element_;  // what the contract says of element "value" at "at.0"
  Expr second_;                   // another slot
};

}  // namespace rooftile::verify
