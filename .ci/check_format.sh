#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Names every source that clang-format 14 would change; exit status 1 if there is any, 77 without clang-format 14 (other
# versions format differently).
#   .ci/check_format.sh [--fix]       --fix: change them
set -euo pipefail
cd "$(dirname "$0")/.."
for tool in clang-format-14 clang-format none; do
  command -v $tool >/dev/null && $tool --version | grep -q 'version 14\.' && break
done
[ $tool != none ] || { echo 'clang-format 14 is not installed'; exit 77; }
mode=(--dry-run -Werror)
[ "${1:-}" != --fix ] || mode=(-i)
dirs=()
for dir in rooftile tests examples; do [ ! -d $dir ] || dirs+=($dir); done
{ find "${dirs[@]}" -name '*.h' -print0 -o -name '*.cc' -print0 -o -name '*.cu' -print0 |
  xargs -0 -n 16 -P "$(nproc)" $tool "${mode[@]}" 2>&1 | grep -E ': (error|warning):' || true; } |
  cut -d: -f1 | sort | uniq -c |
  awk '{ print $2 ": " $1 " places; run ./dev fmt"; bad = 1 } END { exit bad }'
