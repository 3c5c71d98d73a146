// SPDX-License-Identifier: Apache-2.0
// Queries on a placed phase, and its readable form.
#include "rooftile/codegen/gpu/placed.h"

#include <algorithm>

#include "rooftile/base/expr.h"

namespace rooftile::codegen {

const PlacedCopy* PlacedRing::find(ValueId load) const {
  for (const std::vector<PlacedCopy>& copies : alternatives)
    for (const PlacedCopy& copy : copies)
      if (copy.load == load) return &copy;
  return nullptr;
}

int PlacedRing::offset_in_slot(ValueId load) const {
  for (const std::vector<PlacedCopy>& copies : alternatives) {
    int offset = 0;
    for (const PlacedCopy& copy : copies) {
      if (copy.load == load) return offset;
      offset += copy.bytes();
    }
  }
  return -1;
}

int PlacedRing::engine_bytes(size_t alternative) const {
  int bytes = 0;
  for (const PlacedCopy& copy : alternatives[alternative])
    if (!copy.by_threads()) bytes += copy.bytes();
  return bytes;
}

bool PlacedRing::has_engine() const { return engine_bytes(0) > 0; }
bool PlacedRing::has_threads() const { return engine_bytes(0) < slot_bytes; }

bool Placed::has_thread_copies() const {
  return std::any_of(rings.begin(), rings.end(),
                     [](const PlacedRing& ring) { return ring.has_threads(); });
}

std::string PlacedSplit::str() const {
  if (over_cluster())
    return "split over " + std::to_string(ways) + " CTAs of a cluster; " + std::to_string(owners) +
           (owners > 1 ? " own " : " owns ") + std::to_string(columns) + " columns of sums";
  const std::string owner = "; who has the first steps of a tile owns its sums";
  if (ways > 0) return "split over the grid, " + std::to_string(ways) + " parts a tile" + owner;
  return "split evenly over the grid in the last " + std::to_string(stream_waves) +
         (stream_waves == 1 ? " wave" : " waves") + owner;
}

namespace {

std::string name_of(const ir::Program& program, ValueId id) {
  const ir::Node& node = program.node(id);
  if (node.op == ir::Op::kStore) return node.name;
  if (node.op == ir::Op::kLoop) return node.name;
  return node.label.empty() ? "%" + std::to_string(id) : node.label;
}

class Printer {
 public:
  Printer(const ir::Program& program, const Placed& placed) : program_(program), placed_(placed) {}

  std::string run() {
    out_ += "plan " + placed_.plan.str() + "\n";
    for (const PlacedRing& ring : placed_.rings) print(ring);
    if (const PlacedSplit& split = placed_.split; split.loop >= 0)
      out_ += "loop " + name_of(program_, split.loop) + " " + split.str() + "\n";
    for (const auto& [id, value] : placed_.values) print(id, value);
    out_ += "copying role {\n";
    print(placed_.copying, 1);
    out_ += "}\ncomputing role, " + std::to_string(placed_.groups) + " groups of " +
            std::to_string(64 * placed_.row_blocks) + " rows {\n";
    print(placed_.computing, 1);
    return out_ + "}\n";
  }

 private:
  void print(const PlacedRing& ring) {
    out_ += "ring " + ring.name + ": " + std::to_string(ring.depth) + " slots of " +
            std::to_string(ring.slot_bytes) + " bytes";
    for (const std::vector<PlacedCopy>& copies : ring.alternatives) {
      out_ += " |";
      for (const PlacedCopy& copy : copies)
        out_ +=
            " " + copy.label + "[" + std::to_string(copy.rows) + ", " +
            std::to_string(copy.columns) + "]" +
            (copy.shared_axis.empty() ? "" : " shared along " + copy.shared_axis) +
            (copy.by_threads() ? " by cp.async" : "") +
            (copy.run_rows > 0 ? " in runs of " + std::to_string(copy.run_rows) + " rows" : "") +
            (copy.clear_rows ? ", short rows cleared" : "");
    }
    if (ring.by_warps) out_ += " | given back by warps";
    out_ += "\n";
  }

  void print(ValueId id, const PlacedValue& value) {
    static constexpr const char* kHomes[] = {"inline", "fragment", "operand",
                                             "row",    "scalar",   "ring"};
    if (value.home == Home::kInline) return;
    out_ += "value " + name_of(program_, id) + ": " + kHomes[static_cast<size_t>(value.home)];
    if (!value.reg.empty()) out_ += " " + value.reg;
    if (value.partial) out_ += " (a sum a lane)";
    out_ += "\n";
  }

  void print(const std::vector<Event>& events, int depth) {
    for (const Event& event : events) print(event, depth);
  }

  void print(const Event& event, int depth) {
    static constexpr const char* kNames[] = {
        "loop",    "when", "fill",  "acquire", "release",   "issue",     "wait",    "compute",
        "rescale", "join", "yield", "store",   "take turn", "pass turn", "combine", "owner"};
    const std::string indent(static_cast<size_t>(2 * depth), ' ');
    out_ += indent + kNames[event.kind];
    if (event.ring >= 0) out_ += " " + placed_.rings[static_cast<size_t>(event.ring)].name;
    if (event.id >= 0) out_ += " " + name_of(program_, event.id);
    if (event.kind == Event::kWait) out_ += ", " + std::to_string(event.n) + " left running";
    if (event.kind == Event::kRelease && event.n > 0)
      out_ += ", " + std::to_string(event.n) + " steps late";
    out_ += "\n";
    if (!event.first.empty()) {
      out_ += indent + "first step {\n";
      print(event.first, depth + 1);
      out_ += indent + "} each step after {\n";
    }
    print(event.body, depth + 1);
    if (!event.last.empty()) {
      out_ += indent + "after the last {\n";
      print(event.last, depth + 1);
      out_ += indent + "}\n";
    }
  }

  const ir::Program& program_;
  const Placed& placed_;
  std::string out_;
};

}  // namespace

std::string Placed::str(const ir::Program& program) const { return Printer(program, *this).run(); }

}  // namespace rooftile::codegen
