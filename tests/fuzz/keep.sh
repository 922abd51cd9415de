#!/usr/bin/env bash
# Takes into tests/fuzz/corpus the inputs of BUILD_DIR/corpus that reach what the kept ones do not.
# At most 150 a target: what is dropped, a fuzzer finds again within seconds.
# usage: keep.sh BUILD_DIR
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
build=$(readlink -f "${1:?build directory}")
for source in "$here"/*_fuzz.cc; do
  target=$(basename "$source" _fuzz.cc)
  mkdir -p "$here/corpus/$target" "$build/corpus/$target"
  "$build/bin/${target}_fuzz" -merge=1 -max_len=8192 "$here/corpus/$target" "$build/corpus/$target" 2>&1 | grep -E 'MERGE-OUTER: .* new files|ERROR' || true
  # Named after their hashes, so this choice is a random one.
  find "$here/corpus/$target" -type f | sort | tail -n +151 | xargs -r rm
done
du -sh "$here/corpus"
