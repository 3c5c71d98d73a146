#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that is measured on a GPU, on the machine that has it, from a program built elsewhere:
#
#   cmake --preset gpu && cmake --build build-gpu --target rooftile     # here, no GPU needed; carry
#                                                      # build-gpu/rooftile and build-gpu/libfmt.so.*
#   build-gpu/rooftile precompile carry --set smoke --set llm --set large
#   bench/gpu/device_run.sh OUT [PART...]                               # there
#
# Writes JSON lines into OUT, one file a part, and a log. Parts: doctor calibrate check plain fused
# bench large report, and check_llm; without any, all but the last, the most telling first. The
# first rung of the ladder needs no GPU and is not run here. Environment: ROOFTILE (the program,
# default build-gpu/rooftile), ROOFTILE_CUBIN_DIR (default carry, where that is a folder),
# PART_SECONDS (the most that a part may take, default 240), OPS (operators, default all).
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."

out=${1:?usage: device_run.sh OUT [PART...]}
shift
mkdir -p "$out"
program=${ROOFTILE:-build-gpu/rooftile}
[ -x "$program" ] || { echo "device_run: no program $program" >&2; exit 2; }
if [ -z "${ROOFTILE_CUBIN_DIR:-}" ] && [ -d carry ]; then export ROOFTILE_CUBIN_DIR=$PWD/carry; fi
# The kernels of a carried folder will run with this user's rights: nobody else may write it.
[ -z "${ROOFTILE_CUBIN_DIR:-}" ] || chmod -R go-w "$ROOFTILE_CUBIN_DIR"
export ROOFTILE_CACHE_DIR=${ROOFTILE_CACHE_DIR:-$(mktemp -d)} OMP_WAIT_POLICY=passive
read -ra ops <<<"${OPS:-}"
failed=0

# part NAME ARGUMENT...: runs the program, its lines in OUT/NAME.jsonl; goes on whatever comes of it.
part() {
  local name=$1 begin=$SECONDS status
  shift
  timeout "${PART_SECONDS:-240}" "$program" "$@" --json "$out/$name.jsonl" >"$out/$name.log" 2>&1
  status=$?
  [ "$status" = 0 ] || failed=$((failed + 1))
  printf '%-12s status %d, %d lines, %d s\n' "$name" "$status" \
    "$( (cat "$out/$name.jsonl" 2>/dev/null || true) | wc -l)" $((SECONDS - begin))
  [ "$status" = 0 ] || tail -n 12 "$out/$name.log"
}

run() {
  case $1 in
    doctor) part doctor doctor ;;
    calibrate) part calibrate calibrate --device cuda ;;
    check) part check check "${ops[@]}" --target sm90 --set ci --rung 3 --repeat 10 --quiet ;;
    plain) part plain check "${ops[@]}" --target sm90 --set ci --rung 2 --quiet ;;
    fused) part fused check "${ops[@]}" --target sm90 --set ci --rung 4 --quiet ;;
    check_llm) part check_llm check "${ops[@]}" --target sm90 --set llm --rung 3 --quiet ;;
    bench) part bench bench "${ops[@]}" --device cuda --set llm --check-flops 1e8 ;;
    large) part large bench "${ops[@]}" --device cuda --set large --check-flops 1e8 ;;
    report) part report report llama-3-8b --device cuda --batch 16 --html "$out/report.html" ;;
    *) echo "device_run: no part $1" >&2; exit 2 ;;
  esac
}

[ $# -gt 0 ] || set -- doctor calibrate large check bench plain fused report
for name in "$@"; do run "$name"; done
exit $((failed > 0))
