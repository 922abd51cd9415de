#!/usr/bin/env bash
# Goal: prove that tidy.sh finds what it claims to find. Method: a scratch repository with one fault of each kind.
set -euo pipefail
tidy=$(dirname "$(readlink -f "$0")")/tidy.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
git init -q .
mkdir -p base storage-backend/policy engine/loop env/node

# expect_fault FILE LINE TEXT: writes LINE to FILE, wants TEXT in the answer, removes it again.
expect_fault() {
  local file=$1 line=$2 text=$3 answer
  printf '%s\n' "$line" >"$file"
  if answer=$("$tidy" . 2>&1); then echo "no fault found for: $line"; exit 1; fi
  grep -qF "$text" <<<"$answer" || { echo "wrong answer for '$line': $answer"; exit 1; }
  rm "$file"
}

printf '#include "base/clock.h"\n' >base/ok.cc
"$tidy" . >/dev/null || { echo "a clean tree has faults"; exit 1; }
expect_fault base/x.cc '#include "storage-backend/policy/lru.h"' 'base must not include'
expect_fault storage-backend/policy/x.cc '#include "engine/loop/node_loop.h"' 'must not include'
expect_fault engine/loop/x.cc '#include "env/node/node_environment.h"' 'engine must not include'
expect_fault engine/loop/x.h '#include <rocksdb/db.h>' 'not allowed here'
expect_fault env/node/x.cc 'auto now = std::chrono::system_clock::now();' 'base/clock.h'
expect_fault base/y.cc 'int x = rand();' 'base/rng.h'
expect_fault base/y.cc 'using namespace std;' 'no using namespace'
expect_fault base/y.cc '// TODO later' 'belongs in an issue'
expect_fault stray.cc 'int x;' 'belongs to no part'
expect_fault doc.md '' 'first-level headings'
echo "1 passed, 0 failed"
