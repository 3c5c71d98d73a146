#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares every #include "rooftile/..." of the library with .ci/layers.txt (check_layers.awk has the rules).
#   .ci/check_layers.sh [ROOT]        ROOT: a source tree with its own .ci/layers.txt; by default this one
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$here/..}"
mapfile -t sources < <(
  find rooftile \( -name '*.h' -o -name '*.cc' -o -name '*.def' \) ! -name '*_test.cc' | sort)
exec awk -f "$here/check_layers.awk" .ci/layers.txt "${sources[@]}"
