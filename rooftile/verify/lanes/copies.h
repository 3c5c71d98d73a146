// SPDX-License-Identifier: Apache-2.0
// lanes.tma and lanes.fragments: tensor maps and boxes are what the copy engine takes, and what the
// tensor cores read is laid out as they read it.
#pragma once

#include <map>
#include <set>
#include <string>

#include "rooftile/verify/lanes/places.h"

namespace rooftile::verify {

class Copies : public Walk::Observer {
 public:
  explicit Copies(const lanes::Program& program);
  void instruction(Walk& walk, const lanes::Stmt& stmt) override;
  // The maps themselves.
  void finish(Walk& walk);

 private:
  void copy(Walk& walk, const lanes::Stmt& stmt);
  void product(Walk& walk, const lanes::Stmt& stmt);
  void operand(Walk& walk, const lanes::Stmt& stmt, const lanes::Val& descriptor, int rows,
               bool mn_major);
  void map(Walk& walk, const lanes::TensorMapUse& use);

  // Maps that fill an allocation of shared memory.
  std::map<std::string, std::set<const lanes::TensorMapUse*>> fills_;
  std::set<std::string> stores_;  // maps that are stored through
};

}  // namespace rooftile::verify
