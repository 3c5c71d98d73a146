// SPDX-License-Identifier: Apache-2.0
// Every access of a tile program, as formulas: which elements, by which instance, under which
// conditions. Made by one walk in program order; bounds, disjointness and coverage all read it.
//
// Symbols of an access: dims and attributes; the indices of its parallel space and loops, by their
// own names; `at.0`, `at.1`, ...: the position along an axis of its tile; and, where the walk met
// an element that an earlier phase had stored, that store's symbols with a number behind them
// (`b.2`): some instance stored it, and these are its indices.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "rooftile/ir/ir.h"

namespace rooftile::verify {

using Substitution = std::map<std::string, Expr, std::less<>>;

// A symbol that runs over begin, begin + step, ..., below end.
struct AxisWalk {
  std::string var;
  Expr begin, end, step = 1;
};

struct Access;

// An element of a workspace met in an expression: stored by `store`, whose symbols are renamed.
struct Lookup {
  size_t store = 0;                 // position in Accesses::all
  std::vector<Expr> index;          // the element, as the reader asks for it
  Substitution renamed;             // symbols of the store -> symbols of this lookup
  std::vector<std::string> owners;  // of these, who stored it: indices of the parallel space
};

// Where an access stands: what must be so when it is carried out.
struct Scope {
  size_t phase = 0;              // counted from 0
  std::vector<AxisWalk> tiles;   // indices of the parallel space: which instance
  std::vector<AxisWalk> loops;   // serial loops around, outermost first
  std::vector<Expr> domain;      // ranges of indices, what is known of elements looked up
  std::vector<Expr> conditions;  // of kWhen
  std::vector<Lookup> lookups;
  std::vector<ir::ValueId> regions;  // loops and conditionals around, outermost first
};

struct Access {
  enum Kind : uint8_t { kLoad, kStore, kIndexRead } kind = kLoad;
  ir::ValueId node = -1;  // the load or store, or the node whose expression reads the index
  std::string tensor;
  Scope scope;
  std::vector<AxisWalk> positions;  // `at.<axis>`, of axes that a dimension walks
  std::vector<Expr> index;          // the element, a dimension each
  bool adds = false;
  std::string unknown;  // why `index` says nothing, or empty
  // What must hold for the access to be what `index` says, besides the bounds of the tensor: index
  // arithmetic in narrow integers does not wrap.
  std::vector<Expr> exact;
};

// What must hold wherever the walk passes: no extent is negative, no step or divisor zero.
struct ShapeClaim {
  ir::ValueId node = -1;
  Scope scope;
  Expr holds;
};

struct Accesses {
  std::vector<Access> all;  // in program order
  std::vector<ShapeClaim> shapes;
  std::map<ir::ValueId, Scope> scopes;  // of every node inside a parallel space
};

Accesses collect_accesses(const ir::Program& program);

// Everything known where the access is carried out: domain, conditions, ranges of positions.
std::vector<Expr> facts_of(const Access& access);
std::vector<Expr> range_of(const AxisWalk& walk);
// "store to `d`, %12"
std::string subject_of(const ir::Program& program, const Access& access);

}  // namespace rooftile::verify
