// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/check_code.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <sstream>
#include <vector>

#include "rooftile/lanes/program_text.h"

namespace rooftile::verify {
namespace {

using lanes::Ins;

void each_instr(const lanes::Body& body, const std::function<void(const lanes::Instr&)>& see) {
  for (const lanes::Stmt& stmt : body) {
    if (stmt.kind == lanes::StmtKind::kInstr) see(stmt.instr);
    each_instr(stmt.body, see);
    each_instr(stmt.orelse, see);
  }
}

bool touches(const lanes::Instr& i, unsigned spaces) {
  const lanes::InsInfo& info = lanes::ins_info(i.ins);
  return ((unsigned{info.reads} | unsigned{info.writes}) & spaces) != 0;
}

// ---- the machine (sm_90a; CUDA programming guide, compute capability 9.0)

constexpr int kMostThreads = 1024, kRegisters = 65536, kMostOfThread = 255;
constexpr int64_t kMostShared = 232448;

std::string budget(const lanes::Program& kernel) {
  if (kernel.threads <= 0 || kernel.threads > kMostThreads || kernel.threads % 32 != 0)
    return "threads of a CTA: " + std::to_string(kernel.threads);
  int64_t end = 0;
  for (const lanes::SharedAlloc& alloc : kernel.shared) {
    if (alloc.offset < end || alloc.offset % alloc.align != 0)
      return "allocation " + alloc.name + " overlaps the one before it, or is not aligned";
    end = alloc.offset + alloc.bytes;
  }
  if (end > kernel.shared_bytes || kernel.shared_bytes > kMostShared)
    return "shared memory: " + std::to_string(kernel.shared_bytes) + " bytes";
  std::string wrong;
  each_instr(kernel.body, [&](const lanes::Instr& i) {
    if (i.ins != Ins::kRegsInc && i.ins != Ins::kRegsDec) return;
    if (i.n % 8 != 0 || i.n < 24 || i.n > kMostOfThread + 1) wrong = "registers of a thread";
  });
  if (kernel.threads * kernel.min_ctas_per_sm * 24 > kRegisters) wrong = "registers of all threads";
  return wrong;
}

// ---- the copy engine (CUDA driver API, cuTensorMapEncodeTiled)

std::string tensor_maps(const lanes::Program& kernel) {
  std::string wrong;
  for (const lanes::TensorMapUse& map : kernel.maps) {
    const auto tensor = std::find_if(kernel.tensors.begin(), kernel.tensors.end(),
                                     [&](const auto& t) { return t.name == map.tensor; });
    if (tensor == kernel.tensors.end()) return "map of an unknown tensor";
    if (map.box.empty() || map.box.size() > 5) return "dimensions of a box";
    int64_t bytes = size_bytes(tensor->dtype);
    const int64_t span = map.swizzle == lanes::Swizzle::kNone ? INT64_MAX
                         : map.swizzle == lanes::Swizzle::k32 ? 32
                         : map.swizzle == lanes::Swizzle::k64 ? 64
                                                              : 128;
    if (map.box[0] * bytes > span || map.box[0] * bytes % 16 != 0) return "row of a box";
    for (const int side : map.box) {
      if (side < 1 || side > 256) return "side of a box";
      bytes *= side;
    }
    each_instr(kernel.body, [&](const lanes::Instr& i) {
      const bool load = i.ins == Ins::kTmaLoad || i.ins == Ins::kTmaLoadMulticast;
      if (load && i.map == map.name && i.bytes != bytes)
        wrong = "a copy of " + map.tensor + " counts other bytes than its box has";
    });
  }
  return wrong;
}

// ---- products (PTX ISA, wgmma.mma_async: shapes, fragment of D)

std::string fragments(const lanes::Program& kernel) {
  std::string wrong;
  each_instr(kernel.body, [&](const lanes::Instr& i) {
    if (i.ins != Ins::kWgmma) return;
    if (i.n < 8 || i.n > 256 || i.n % 8 != 0) wrong = "columns of a product";
    if (i.regs.empty() || i.regs[0].count != i.n / 2) wrong = "registers of a product's sums";
    if (i.regs.size() > 1 && i.regs[1].count != 4) wrong = "registers of a left operand";
    if ((i.trans_a || i.trans_b) && size_bytes(i.dtype) == 1) wrong = "8-bit operand across rows";
  });
  // Every element of a block of 64 rows is in one register of one thread.
  for (const int n : {8, 256}) {
    std::vector<int> times(size_t{64} * static_cast<size_t>(n));
    for (int thread = 0; thread < 128; ++thread)
      for (int r = 0; r < n / 2; ++r) {
        const int row = thread / 32 * 16 + thread % 32 / 4 + (r & 2) * 4;
        const int column = r / 4 * 8 + thread % 4 * 2 + (r & 1);
        ++times[static_cast<size_t>(row) * static_cast<size_t>(n) + static_cast<size_t>(column)];
      }
    if (std::any_of(times.begin(), times.end(), [](int t) { return t != 1; }))
      wrong = "the table of sums";
  }
  return wrong;
}

// ---- rings: "depth=D slot=B full=F empty=E bytes=X,Y" against the barriers of the code

std::string shared_name(const lanes::Val& v) {
  if (!v.present()) return "";
  if (v->kind == lanes::ValKind::kShared) return v->name;
  for (const lanes::Val& arg : v->args)
    if (std::string name = shared_name(arg); !name.empty()) return name;
  return "";
}

std::map<std::string, std::set<int64_t>> numbers_of(const std::string& evidence) {
  std::map<std::string, std::set<int64_t>> out;
  std::istringstream words(evidence);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) continue;
    std::istringstream values(word.substr(equals + 1));
    for (std::string value; std::getline(values, value, ',');)
      out[word.substr(0, equals)].insert(std::strtoll(value.c_str(), nullptr, 10));
  }
  return out;
}

std::string ring(const std::string& subject, const std::string& evidence,
                 const lanes::Program& kernel) {
  std::map<std::string, std::set<int64_t>> stated = numbers_of(evidence), found;
  for (const char* number : {"depth", "slot", "full", "empty"})
    if (stated[number].size() != 1) return std::string("not stated: ") + number;
  const std::string name = subject.starts_with("ring ") ? subject.substr(5) : subject;
  int full = 0, empty = 0;
  each_instr(lanes::unrolled(kernel).body, [&](const lanes::Instr& i) {
    if (i.ins != Ins::kBarInit && i.ins != Ins::kBarExpect) return;
    const std::string barrier = shared_name(i.args[0]);
    if (i.ins == Ins::kBarExpect) {
      if (barrier == "full_" + name) found["bytes"].insert(i.bytes);
      return;
    }
    const int64_t count = i.args[1]->kind == lanes::ValKind::kInt ? i.args[1]->integer : -1;
    if (barrier == "full_" + name) found["full"].insert(count), ++full;
    if (barrier == "empty_" + name) found["empty"].insert(count), ++empty;
  });
  const int64_t depth = *stated["depth"].begin();
  if (full != depth || empty != depth) return "slots";
  for (const char* number : {"full", "empty", "bytes"})
    if (found[number] != stated[number]) return number;
  for (const lanes::SharedAlloc& alloc : kernel.shared)
    if (alloc.name == "ring_" + name && alloc.bytes == depth * *stated["slot"].begin()) return "";
  return "bytes of all slots";
}

// Rows of 128 bytes whose 16-byte pieces change places by the number of the row.
std::string swizzle() {
  std::vector<int> times(8 * 128);
  for (int row = 0; row < 8; ++row)
    for (int byte = 0; byte < 128; ++byte)
      ++times[static_cast<size_t>((row * 128 + byte) ^ ((row & 7) << 4))];
  return std::any_of(times.begin(), times.end(), [](int t) { return t != 1; })
             ? "two bytes share a place"
             : "";
}

}  // namespace

std::set<std::string> ids_owed(const lanes::Program& kernel) {
  std::set<std::string> out = {"lanes.budget"};
  if (!kernel.maps.empty()) out.insert("lanes.tma");
  each_instr(kernel.body, [&](const lanes::Instr& i) {
    if (touches(i, lanes::kGlobal)) {
      out.insert({"lanes.global", "lanes.overflow", "lanes.alignment"});
      if ((lanes::ins_info(i.ins).writes & lanes::kGlobal) != 0) out.insert("lanes.once");
    }
    if (touches(i, lanes::kShared | lanes::kPeer))
      out.insert({"lanes.shared", "lanes.alignment", "lanes.shared-race", "lanes.initialised"});
    if (touches(i, lanes::kBarrier)) out.insert({"lanes.shared", "lanes.barriers"});
    if (i.ins == Ins::kBarWait || i.ins == Ins::kBarWaitCluster || i.ins == Ins::kSyncThreads ||
        i.ins == Ins::kWaitGlobal)
      out.insert("lanes.live");
    if (lanes::ins_info(i.ins).who != lanes::Who::kThread) out.insert("lanes.uniform");
    if (i.ins == Ins::kWgmma) out.insert({"lanes.tokens", "lanes.fragments"});
  });
  return out;
}

std::map<std::pair<std::string, std::string>, int> subjects_owed(const lanes::Program& kernel) {
  std::map<std::pair<std::string, std::string>, int> out;
  const std::function<void(const lanes::Body&)> see = [&](const lanes::Body& body) {
    for (const lanes::Stmt& stmt : body) {
      see(stmt.body);
      see(stmt.orelse);
      if (stmt.kind != lanes::StmtKind::kInstr) continue;
      const lanes::Instr& i = stmt.instr;
      const lanes::InsInfo& info = lanes::ins_info(i.ins);
      const std::string subject = lanes::print_head(stmt);
      std::set<std::string> ids;
      const bool boxes =
          i.ins == Ins::kTmaLoad || i.ins == Ins::kTmaLoadMulticast || i.ins == Ins::kTmaStore;
      if (boxes) ids.insert({"lanes.global", "lanes.shared", "lanes.alignment", "lanes.tma"});
      if (i.ins != Ins::kPrefetchL2 && !i.global.tensor.empty())
        ids.insert({"lanes.global", "lanes.alignment"});
      if ((info.writes & lanes::kGlobal) != 0) ids.insert("lanes.once");
      if (info.who != lanes::Who::kThread) ids.insert("lanes.uniform");
      switch (i.ins) {
        case Ins::kLdShared:
        case Ins::kStShared:
        case Ins::kAtomShared:
        case Ins::kLdMatrix:
        case Ins::kStMatrix:
        case Ins::kStAsync:
        case Ins::kCpAsync:
        case Ins::kBulkLoad:
        case Ins::kCpArrive:
        case Ins::kBarInit:
        case Ins::kBarExpect:
        case Ins::kBarArrive:
        case Ins::kBarArriveRemote:
        case Ins::kBarArriveRemoteRelease:
        case Ins::kBarWait:
        case Ins::kBarWaitCluster:
          ids.insert({"lanes.shared", "lanes.alignment"});
          break;
        case Ins::kWgmma:
          ids.insert("lanes.fragments");
          break;
        default:
          break;
      }
      for (const std::string& id : ids) ++out[{id, subject}];
    }
  };
  see(kernel.body);
  for (const lanes::TensorMapUse& map : kernel.maps)
    ++out[{"lanes.tma", "map " + map.name + " of " + map.tensor}];
  return out;
}

std::optional<std::string> redo_from_code(const std::string& obligation, const std::string& subject,
                                          const std::string& evidence,
                                          const lanes::Program& kernel) {
  if (obligation == "lanes.budget") return budget(kernel);
  if (obligation == "lanes.tma") return tensor_maps(kernel);
  if (obligation == "lanes.fragments") return fragments(kernel);
  if (obligation == "lanes.matches") return ring(subject, evidence, kernel);
  if (obligation == "placed.layout") {
    const std::string wrong = swizzle();
    return wrong.empty() ? fragments(kernel) : wrong;
  }
  return std::nullopt;
}

}  // namespace rooftile::verify
