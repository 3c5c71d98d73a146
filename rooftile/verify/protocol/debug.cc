
#include "rooftile/verify/protocol/machine.h"
#include <fmt/format.h>
namespace rooftile::verify::protocol {
void Machine::debug(const State& s) {
  std::string pcs, slots, decided, bars, recs, left;
  for (auto& w : s.warps) { pcs += fmt::format("{}/{},", w.pc, w.frames.empty() ? -1 : w.frames.back().index); }
  for (size_t w = 0; w < s.warps.size(); ++w) { auto& x = s.warps[w]; if (w % 4) continue; slots += fmt::format("\n   w{} step={}:", w, x.step<0?"-":terms_.atom_text(x.step)); for (size_t i = 0; i < x.slots.size(); ++i) if (x.slots[i] > 1) slots += fmt::format(" {}={}", flat_.slot_names[i], terms_.text(x.slots[i])); for (auto l : x.left) slots += fmt::format(" left({},{})", l, terms_.loop(l).renamed); slots += fmt::format(" com={} over={} touched={:x}", x.committed, x.over, x.touched); }
  for (auto& [a, y] : s.decided) decided += fmt::format("\n   {}={}", terms_.atom_text(a), y);
  for (auto& b : s.barriers) bars += fmt::format("{}{}/{} ", b.phase ? "+" : "-", b.pending, b.issued);
  for (auto& r : s.records) { std::string k; for (auto x : r.known.words) if (x) k += fmt::format("{:x}.", x); recs += fmt::format("\n   of{} by{} run{} cta{} own{} acc{} bar{} lanes{:x} grp{} known {}", int(r.of), int(r.by), r.running, r.cta, r.owner, r.access, r.barrier, r.lanes, r.group, k); }
  fmt::print("STATE pcs {}\n bars {}\n slots {}\n decided {}\n records {} {}\n", pcs, bars, slots, decided, s.records.size(), getenv("RTDBG")[0] == '2' ? recs : "");
}
}
