#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy on sources, a dozen at a time: nearly all of its time goes into the headers of the standard library, and
# sources that are included one after the other share them. Where such a batch does not compile (two files with a local
# function of one name) or has a finding, its halves are looked at, down to single files; only those report.
#   .ci/check_tidy.sh BUILD JOBS FILE...      BUILD: the folder with compile_commands.json
set -euo pipefail
cd "$(dirname "$0")/.."
readonly batch_size=12

tidy() { clang-tidy-14 --quiet --warnings-as-errors='*' "$@" 2>/dev/null; }

# The compiler's options for a source, without g++'s precompiled headers, which clang cannot read.
options_of() {  # options_of BUILD FILE
  grep -m 1 -- "-c [^ ]*/$2\"" "$1/compile_commands.json" |
    sed 's/^ *"command": "[^ ]* //; s/ -o .*//; s/ -Winvalid-pch//; s/ -include [^ ]*cmake_pch\.hxx//'
}

check() {  # check BUILD FILE...
  local build=$1 options
  shift
  options=$(options_of "$build" "$1")
  # shellcheck disable=SC2086  # the options are words
  if [ $# = 1 ]; then
    tidy "$1" -- $options
    return
  fi
  local batch=$build/tidy.$BASHPID.cc half=$(($# / 2)) status=0
  printf '#include "%s"\n' "$@" >"$batch"
  # shellcheck disable=SC2086
  tidy "$batch" -- $options >/dev/null || status=1
  rm "$batch"
  [ $status = 1 ] || return 0
  status=0
  check "$build" "${@:1:half}" || status=1
  check "$build" "${@:half+1}" || status=1
  return $status
}

if [ "$1" = --batch ]; then
  check "${@:2}"
else
  build=$1 jobs=$2
  shift 2
  printf '%s\0' "$@" | xargs -0 -n $batch_size -P "$jobs" "$0" --batch "$build"
fi
