#!/usr/bin/env bash
# Checks the repository as a whole: include directions, banned calls, file sizes, one H1 a document.
# usage: tidy.sh REPOSITORY        prints every fault as file:line: reason; exit 1 when there is one
set -euo pipefail
cd "${1:?repository}"

# "part: what it may include besides itself". The longest matching prefix is a file's part.
read -r -d '' RULES <<'TABLE' || true
base:
base/trace: base
storage-backend/knobs: base
storage-backend/device: base
storage-backend/policy: base storage-backend/knobs
storage-backend/log: base storage-backend/device storage-backend/policy storage-backend/knobs storage-backend/metadata
storage-backend/metadata: base
storage-backend/reduce: base storage-backend/knobs
storage-backend/capacity: base storage-backend/knobs storage-backend/device storage-backend/metadata storage-backend/reduce storage-backend/policy
storage-backend/destage: base storage-backend/knobs storage-backend/device storage-backend/metadata storage-backend/policy storage-backend/log storage-backend/capacity
storage-backend/volume: base storage-backend/knobs storage-backend/device storage-backend/metadata storage-backend/policy storage-backend/log storage-backend/capacity storage-backend/destage
storage-backend/control: base base/trace storage-backend
storage-backend/check: base storage-backend
storage-backend/nbd: base base/trace storage-backend
env: base
env/testing: base env
env/node: base base/trace env env/trace storage-backend/control
env/trace: base base/trace env storage-backend/control
env/twin: base base/trace env env/node env/trace storage-backend/control storage-backend/knobs storage-backend/device storage-backend/log storage-backend/policy storage-backend/capacity storage-backend/reduce
env/twin/fit: base base/trace env env/trace env/twin storage-backend
agents: base env
agents/baseline: base env agents
engine: base env agents
engine/daemon: base env env/node agents agents/baseline engine api/rest
api/rest: base env agents engine
api/cli: base base/trace agents engine env env/node env/trace env/twin env/twin/fit storage-backend/check storage-backend/control storage-backend/knobs
experiments: base base/trace storage-backend env env/node env/trace env/twin env/twin/fit agents agents/baseline engine api
tests: base base/trace storage-backend env env/testing env/node env/trace env/twin env/twin/fit agents agents/baseline engine engine/daemon api api/rest api/cli experiments
TABLE

sources=$(git ls-files -co --exclude-standard '*.h' '*.cc')
[ -n "$sources" ] || { echo "tidy: no sources found"; exit 1; }
faults=$(
  xargs awk -v rules="$RULES" '
    function part_of(path,   best, p) {
      best = ""
      for (p in allowed) if (index(path, p "/") == 1 && length(p) > length(best)) best = p
      return best
    }
    BEGIN {
      n = split(rules, lines, "\n")
      for (i = 1; i <= n; i++) { split(lines[i], kv, ":"); allowed[kv[1]] = " " kv[2] " " }
    }
    FNR == 1 { part = part_of(FILENAME); if (part == "") print FILENAME ":1: belongs to no part of tests/tidy/tidy.sh" }
    /^#include "/ {
      split($0, q, "\""); target = q[2]; to = part_of(target)
      if (to == "" || to == part) next   # third party, or itself
      ok = index(allowed[part], " " to " ") > 0
      # A rule that names storage-backend or api as a whole allows every part under it.
      split(to, pieces, "/")
      if (!ok && (pieces[1] == "storage-backend" || pieces[1] == "api")) ok = index(allowed[part], " " pieces[1] " ") > 0
      if (!ok && pieces[1] == part) ok = 0
      if (!ok && part == "tests") ok = 1
      # engine/*, agents/* and env/* contracts: a folder without a rule of its own belongs to its parent.
      if (!ok) print FILENAME ":" FNR ": " part " must not include " target
    }
    {
      code = $0; sub(/\/\/.*/, "", code)
      if (FILENAME !~ /^base\/clock\.cc$/ && code ~ /system_clock|gettimeofday/) print FILENAME ":" FNR ": dates come from base/clock.h"
      if (code ~ /(^|[^_a-zA-Z:])s?rand\(/) print FILENAME ":" FNR ": random numbers come from base/rng.h"
      if (FILENAME ~ /^(base|storage-backend|env|agents|engine)\// && FILENAME !~ /bench|main\.cc|plugin\.cc/ && code ~ /std::cout|[^f]printf\(/ && code !~ /fprintf|snprintf|fmt::/) print FILENAME ":" FNR ": libraries do not print to stdout"
      if (code ~ /using namespace/) print FILENAME ":" FNR ": no using namespace"
      if ($0 ~ /TODO|FIXME/) print FILENAME ":" FNR ": open work belongs in an issue"
    }
    END { }
  ' <<<"$sources"
  # One owner for each heavy third-party header.
  while IFS='|' read -r header owners; do
    xargs grep -nE "#include [<\"]$header" <<<"$sources" | grep -vE "^($owners)" | sed "s#\$#  (not allowed here)#" || true
  done <<'OWNERS'
rocksdb/|storage-backend/metadata/[a-z_]*\.cc|engine/history/[a-z_]*\.cc|tests/
httplib\.h|api/rest/[a-z_]*\.cc|api/cli/[a-z_]*\.cc|tests/
liburing\.h|storage-backend/device/uring_device\.cc
torch/|agents/torch/
nlohmann/json\.hpp|[a-z_/-]*/[a-z_0-9]*\.cc|tests/
OWNERS
  xargs wc -l <<<"$sources" | awk '$2 != "total" && $1 > 800 { print $2 ":" $1 ": longer than 800 lines" }'
  git ls-files -co --exclude-standard '*.md' | while read -r document; do
    # Headings outside code fences.
    ones=$(awk '/^```/ { fence = !fence } !fence && /^# / { n++ } END { print n + 0 }' "$document")
    [ "$ones" = 1 ] || echo "$document:1: has $ones first-level headings, one is right"
  done
)
if [ -n "$faults" ]; then
  printf '%s\n' "$faults"
  printf 'tidy: %s faults\n' "$(wc -l <<<"$faults")" >&2
  exit 1
fi
printf 'tidy: %s files, no fault\n' "$(wc -l <<<"$sources")"
