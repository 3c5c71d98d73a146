// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/owed.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace rooftile::verify {
namespace {

using lanes::Ins;

// What a program does, as far as it matters here.
struct Deeds {
  bool global = false, global_write = false, shared = false, async = false, generic_shared = false;
  bool barriers = false, waits = false, products = false, meets = false;
  std::set<std::string> read, written;  // tensors
  bool reads_its_writes() const {
    return std::any_of(read.begin(), read.end(),
                       [&](const std::string& tensor) { return written.count(tensor) > 0; });
  }
  std::map<std::string, std::string> mapped;  // tensors, by map
  void see(const lanes::Instr& i) {
    const lanes::InsInfo& info = lanes::ins_info(i.ins);
    const auto map = mapped.find(i.map);
    const std::string& tensor = map == mapped.end() ? i.global.tensor : map->second;
    if ((info.reads & lanes::kGlobal) != 0) read.insert(tensor);
    if ((info.writes & lanes::kGlobal) != 0) written.insert(tensor);
    const unsigned spaces = unsigned{info.reads} | unsigned{info.writes};
    global |= (spaces & lanes::kGlobal) != 0;
    global_write |= (info.writes & lanes::kGlobal) != 0;
    const bool touches = (spaces & (lanes::kShared | lanes::kPeer)) != 0;
    shared |= touches;
    async |= touches && info.proxy == lanes::Proxy::kAsync;
    generic_shared |= touches && info.proxy == lanes::Proxy::kGeneric;
    barriers |= (spaces & lanes::kBarrier) != 0;
    waits |= i.ins == Ins::kBarWait || i.ins == Ins::kBarWaitCluster ||
             i.ins == Ins::kClusterWait || i.ins == Ins::kNamedSync || i.ins == Ins::kSyncThreads ||
             i.ins == Ins::kWaitGlobal;
    products |= i.ins == Ins::kWgmma;
    meets |= info.who != lanes::Who::kThread;
  }
  void see(const lanes::Body& body) {
    for (const lanes::Stmt& stmt : body) {
      if (stmt.kind == lanes::StmtKind::kInstr) see(stmt.instr);
      see(stmt.body);
      see(stmt.orelse);
    }
  }
};

Deeds deeds(const lanes::Program& kernel) {
  Deeds out;
  for (const lanes::TensorMapUse& map : kernel.maps) out.mapped[map.name] = map.tensor;
  out.see(kernel.body);
  return out;
}

}  // namespace

std::vector<Kind> owed_by_tiles(const ir::Program& program) {
  bool accesses = false, stores = false, outputs = false;
  for (const ir::Node& node : program.nodes) {
    accesses |= node.op == ir::Op::kLoad || node.op == ir::Op::kStore;
    stores |= node.op == ir::Op::kStore;
  }
  for (const ir::TensorParam& tensor : program.tensors) outputs |= tensor.role == ir::Role::kOut;
  std::vector<Kind> out;
  if (accesses) out.push_back(Kind::kTileBounds);
  if (stores) out.push_back(Kind::kTileOnce);
  if (outputs) out.push_back(Kind::kTileCovers);
  if (stores) out.push_back(Kind::kTileOrder);
  return out;
}

std::vector<Kind> owed_by_placed(const codegen::Placed& placed) {
  std::vector<Kind> out = {Kind::kPlacedOnce, Kind::kLive};
  if (!placed.rings.empty())
    for (const Kind kind : {Kind::kRingCredit, Kind::kRingParity, Kind::kRingHazard,
                            Kind::kRingCounts, Kind::kLayout})
      out.push_back(kind);
  if (!placed.plan.product.empty()) out.push_back(Kind::kTokens);
  if (!placed.plan.turns.empty() || placed.plan.share == gpu::Share::kTurns)
    out.push_back(Kind::kTurns);
  return out;
}

std::vector<Kind> owed_by_addresses(const lanes::Program& kernel) {
  const Deeds d = deeds(kernel);
  std::vector<Kind> out;
  if (d.global) {
    out.push_back(Kind::kGlobalBounds);
    out.push_back(Kind::kLaneOverflow);
  }
  if (d.reads_its_writes() || (kernel.dependent_launch && d.global))
    out.push_back(Kind::kGlobalRace);
  if (d.shared || d.barriers) out.push_back(Kind::kSharedBounds);
  if (d.global || d.shared) out.push_back(Kind::kLaneAlignment);
  if (!kernel.maps.empty()) out.push_back(Kind::kTensorMap);
  if (d.global_write) out.push_back(Kind::kWriteOnce);
  if (d.products) out.push_back(Kind::kFragments);
  if (d.meets) out.push_back(Kind::kUniform);
  out.push_back(Kind::kBudget);
  return out;
}

std::vector<Kind> owed_by_protocol(const lanes::Program& kernel) {
  const Deeds d = deeds(kernel);
  std::vector<Kind> out;
  if (d.shared) {
    out.push_back(Kind::kSharedRace);
    out.push_back(Kind::kInitialised);
  }
  if (d.barriers) out.push_back(Kind::kBarriers);
  if (d.waits) out.push_back(Kind::kNoDeadlock);
  if (d.async && d.generic_shared) out.push_back(Kind::kFences);
  if (d.products) out.push_back(Kind::kProductTokens);
  return out;
}

std::vector<Kind> owed_by_cpu() {
  return {Kind::kCpuBounds, Kind::kCpuRace, Kind::kCpuAlignment, Kind::kCpuOverflow};
}

std::vector<Kind> owed_by_contract() {
  return {Kind::kContractMet, Kind::kHostImplies, Kind::kHostAdmits};
}

}  // namespace rooftile::verify
