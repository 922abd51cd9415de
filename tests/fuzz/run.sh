#!/usr/bin/env bash
# Runs the libFuzzer targets, two at a time, from the kept corpus.
#
# usage: run.sh BUILD_DIR SECONDS [TARGET...]      a target: superblock, trace_formats:msr, ...; all unless told
# Each trace format's parser is a target of its own.
# New inputs stay in BUILD_DIR/corpus; keep.sh takes what is worth keeping into the tree. A crash prints its
# input's place: give it to the target again, mend the fault, and make a unit test of it.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
build=$(readlink -f "${1:?build directory}")
seconds=${2:?seconds for each target}
shift 2
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
  for source in "$here"/*_fuzz.cc; do
    target=$(basename "$source" _fuzz.cc)
    if [ "$target" = trace_formats ]; then
      mapfile -t -O ${#targets[@]} targets < <(EBB_FUZZ_LIST=1 "$build/bin/trace_formats_fuzz" | sed 's/^/trace_formats:/')
    else
      targets+=("$target")
    fi
  done
fi

fuzz_one() {
  local target=${1%%:*} log=$2/fuzz_${1/:/_}.log
  mkdir -p "$2/corpus/$target" "$2/crashes"
  case $1 in *:*) export EBB_FUZZ_FORMAT=${1#*:} ;; esac
  if "$2/bin/${target}_fuzz" -max_total_time="$3" -max_len=8192 -timeout=20 -rss_limit_mb=1024 -print_final_stats=1 \
    -artifact_prefix="$2/crashes/${1/:/_}-" "$2/corpus/$target" "$4/corpus/$target" >"$log" 2>&1; then
    echo "$1: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs, $(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1) edges covered, no fault"
  else
    echo "$1: FAULT, see $log" >&2
    grep -E 'ERROR|SUMMARY|Test unit written' "$log" >&2 || tail -n 5 "$log" >&2
    return 1
  fi
}
export -f fuzz_one
printf '%s\n' "${targets[@]}" | xargs -P 2 -I{} bash -c 'fuzz_one "$@"' _ {} "$build" "$seconds" "$here"
