// SPDX-License-Identifier: Apache-2.0
// For tests: short names for building L2 programs by hand.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "rooftile/lanes/lanes.h"

namespace rooftile::emulate::testing {

using lanes::Body;
using lanes::Fn;
using lanes::Ins;
using lanes::Instr;
using lanes::Program;
using lanes::RegRef;
using lanes::Stmt;
using lanes::Ty;
using lanes::Val;

inline Val i32(const std::string& name) { return lanes::var(Ty::kI32, name); }
inline Val u32(const std::string& name) { return lanes::var(Ty::kU32, name); }
inline Val f32(const std::string& name) { return lanes::var(Ty::kF32, name); }
inline Val flag(const std::string& name) { return lanes::var(Ty::kPred, name); }
inline Val dim(const std::string& name) { return lanes::param(Ty::kI32, name); }
inline Val unsigned_of(const Val& v) { return lanes::cast(Ty::kU32, v); }
inline Val at(const std::string& alloc, const Val& byte) {
  return lanes::shared(alloc) + unsigned_of(byte);
}
inline Val tid() { return special(lanes::Special::kTid); }
inline Val lane() { return special(lanes::Special::kLane); }
inline Val warp() { return special(lanes::Special::kWarp); }

// An instruction with args, immediates and registers.
struct Op {
  std::vector<Val> args;
  int n = 0, bytes = 0;
  std::vector<RegRef> results, regs;
  std::string map;
  lanes::GlobalRef global;
  DType dtype = DType::kF32;
  Val guard;
  Fn op = Fn::kAdd;
  bool trans = false;
};
inline Stmt ins(Ins i, Op o = {}) {
  Instr out;
  out.ins = i;
  out.args = std::move(o.args);
  out.n = o.n;
  out.bytes = o.bytes;
  out.results = std::move(o.results);
  out.regs = std::move(o.regs);
  out.map = std::move(o.map);
  out.global = std::move(o.global);
  out.dtype = o.dtype;
  out.guard = std::move(o.guard);
  out.op = o.op;
  out.trans_a = o.trans;
  return lanes::instr(std::move(out));
}

inline void append(Body& to, Body more) {
  for (Stmt& s : more) to.push_back(std::move(s));
}

// The lane that elect.sync chooses runs `body`.
inline Body elected(const std::string& name, Body body) {
  return {lanes::decl(Ty::kPred, name), ins(Ins::kElect, {.results = {{name}}}),
          lanes::if_(flag(name), std::move(body))};
}

}  // namespace rooftile::emulate::testing
