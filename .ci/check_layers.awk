# SPDX-License-Identifier: Apache-2.0
# Called by check_layers.sh with layers.txt first and then every source file. Prints one line a fault: an include that
# the layers do not admit, a file in no unit, a cycle of units. Exit status 1 if there is any.

function covers(unit, path,    next_char) {
  next_char = substr(path, length(unit) + 1, 1)
  return index(path, unit) == 1 && (next_char == "" || next_char == "/" || next_char == ".")
}

function unit_of(path,    best, unit) {
  best = ""
  for (unit in layer)
    if (covers(unit, path) && length(unit) > length(best)) best = unit
  return best
}

# Whether one of the units in the blank-separated `list` covers `path`.
function listed(list, path,    i, n, unit) {
  n = split(list, unit, " ")
  for (i = 1; i <= n; ++i)
    if (covers(unit[i], path)) return 1
  return 0
}

function fault(text) { print text; ++num_faults }

# ---- layers.txt: UNIT LAYER [only UNIT...] [also UNIT...]
FILENAME == ARGV[1] {
  sub(/#.*/, "")
  if (NF == 0) next
  layer[$1] = $2
  for (i = 3; i <= NF; ++i)
    if ($i == "only" || $i == "also") kind = $i
    else if (kind == "only") only[$1] = only[$1] " " $i
    else also[$1] = also[$1] " " $i
  next
}

# ---- the sources
/^ *#include "rooftile\// {
  ++num_includes
  split($0, quoted, "\"")
  path = substr(quoted[2], length("rooftile/") + 1)
  from = unit_of(substr(FILENAME, length("rooftile/") + 1))
  to = unit_of(path)
  if (from == "") fault(FILENAME " belongs to no unit of layers.txt")
  if (to == "") fault(FILENAME ":" FNR ": " quoted[2] " belongs to no unit of layers.txt")
  if (from == "" || to == "" || from == to) next
  edge[from " " to] = FILENAME ":" FNR
  below = layer[to] < layer[from]
  if (below && (!(from in only) || listed(only[from], path))) next
  if (listed(also[from], path)) next
  reason = below ? "is not on its list" : "is layer " layer[to]
  fault(FILENAME ":" FNR ": " from " (layer " layer[from] ") includes " quoted[2] ", and " to " " reason)
}

# Cycles: take away units that use nothing that is left, until what remains waits for itself.
END {
  for (unit in layer) left[unit] = 1
  do {
    removed = 0
    for (unit in left) {
      waits = 0
      for (e in edge) {
        split(e, ends, " ")
        if (ends[1] == unit && (ends[2] in left)) waits = 1
      }
      if (!waits) gone[unit] = removed = 1
    }
    for (unit in gone) delete left[unit]
  } while (removed)
  for (e in edge) {
    split(e, ends, " ")
    if ((ends[1] in left) && (ends[2] in left)) fault(edge[e] ": part of a cycle, " ends[1] " -> " ends[2])
  }
  printf "layers: %d includes checked, %d faults\n", num_includes, num_faults
  exit num_faults > 0
}
