// SPDX-License-Identifier: Apache-2.0
#include "rooftile/cli/op_args.h"

#include <algorithm>
#include <numeric>

namespace rooftile::cli {
namespace {

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j)
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1,
                                                 diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)}));
  }
  return row.back();
}

}  // namespace

Result<const OpDef*> op_named(const std::string& name) {
  if (const OpDef* op = find_op(name)) return op;
  Diag diag;
  diag.code = ErrorCode::kUsage;
  diag.message = "there is no such operator";
  diag.found = name;
  diag.fix = "see `rooftile ops`";
  size_t nearest = 4;  // further away is another word
  for (const OpDef& op : all_ops())
    if (const size_t distance = edit_distance(name, op.name); distance < nearest) {
      nearest = distance;
      diag.fix = "did you mean " + op.name + "? `rooftile ops` lists all";
    }
  return diag;
}

Result<std::vector<const OpDef*>> ops_named(const std::vector<std::string>& names) {
  std::vector<const OpDef*> out;
  for (const std::string& name : names) {
    auto op = op_named(name);
    if (!op) return op.status();
    out.push_back(*op);
  }
  if (names.empty())
    for (const OpDef& op : all_ops()) out.push_back(&op);
  return out;
}

}  // namespace rooftile::cli
