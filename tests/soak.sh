#!/usr/bin/env bash
# The long runs that a release must survive, each also by name. Called by ./dev soak, which builds first.
#
# usage: soak.sh [--short | --minutes N] [PART...]      --list explains the parts
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

readonly BUILD=build/release LOGS=build/soak
readonly PARTS="cuts kills knobs postgres traces"
readonly FULL_MINUTES=95  # all parts on two cores
JOBS=${EBB_JOBS:-$(nproc)}

list() {
  cat <<'LIST'
part      whole                              what
cuts      400 seeds, 100,000 power cuts      simulated: at every write of a workload, a start, a stop, a drain, a resize, a compaction
kills     500 kill -9                        of a real node under load, every block checked after each
knobs     30 minutes, 50 kills               random legal settings at 10 Hz while fio verifies; kills between change and use
postgres  10 rounds                          pgbench on ext4 on the export, the node killed in mid-run (root, loop devices, fuse)
traces    10 GB of text, 10 GB binary        generated traces read in under 64 MB of memory, profiled in under 512
--minutes N scales all of it to about N minutes (the whole: 95); --short is --minutes 5.
LIST
}

say() { printf '[soak %5d s] %s\n' "$SECONDS" "$*" >&2; }

# scaled NUMBER: that much of it, at least 1.
scaled() { local n=$(($1 * minutes / FULL_MINUTES)); echo $((n > 0 ? n : 1)); }

# watch PID TOTAL UNIT COUNTER...: says how far it is and when it will be done; its exit code.
watch() {
  local pid=$1 total=$2 unit=$3 start=$SECONDS said=$SECONDS count
  shift 3
  while kill -0 "$pid" 2>/dev/null; do
    sleep 1
    [ $((SECONDS - said)) -ge 30 ] || continue
    said=$SECONDS
    count=$("$@" || true)
    if [ "${count:-0}" -gt 0 ]; then
      say "$part: $count of $total $unit, about $(((SECONDS - start) * (total - count) / count)) s left"
    else
      say "$part: under way, $total $unit to go"
    fi
  done
  wait "$pid"
}

# Counters read the part's log.
count_lines() { cat "$LOGS/$part".*log | grep -c "$1"; }
last_number() { cat "$LOGS/$part".*log | sed -n "s/$1/\1/p" | tail -n 1; }

all_shards() {
  local pids=() status=0 shard
  for ((shard = 0; shard < JOBS; ++shard)); do
    GTEST_TOTAL_SHARDS=$JOBS GTEST_SHARD_INDEX=$shard "$@" >"$LOGS/$part.$shard.log" 2>&1 &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=1; done
  return $status
}

part_cuts() {
  local seeds
  seeds=$(scaled 400)
  # Other seeds each time; a failure prints the case that repeats it.
  EBB_CRASH_SEEDS=$seeds EBB_CRASH_FIRST_SEED=${EBB_CRASH_FIRST_SEED:-$((1000 + $(date +%s) % 1000000 * 1000))} \
    all_shards $BUILD/tests/storage-backend/crash/power_cut_test --gtest_filter='*PowerCutTest*' &
  watch $! "$seeds" seeds count_lines '^\[       OK \] Seed'
}

part_kills() {
  local kills
  kills=$(scaled 500)
  EBB_KILLS=$kills $BUILD/tests/e2e/kill_test --gtest_filter='KillTest.Kills*' >"$LOGS/$part.0.log" 2>&1 &
  watch $! "$kills" kills last_number '^\([0-9]*\) of .* kills survived'
}

part_knobs() {
  local seconds
  seconds=$(scaled 1800)
  EBB_KNOB_STORM_S=$seconds EBB_KNOB_KILLS=$(scaled 50) $BUILD/tests/e2e/knob_storm_test >"$LOGS/$part.0.log" 2>&1 &
  watch $! "$seconds" seconds last_number '^\([0-9]*\) s of .* changes'
}

part_postgres() {
  local rounds
  rounds=$(scaled 10)
  tests/e2e/postgres_test.sh $BUILD "$rounds" >"$LOGS/$part.0.log" 2>&1 &
  watch $! "$rounds" rounds count_lines '^round'
}

part_traces() {
  local megabytes
  megabytes=$(scaled 10000)
  EBB_TRACE_STREAM_BYTES=${megabytes}000000 $BUILD/tests/env/trace/trace_stream_test >"$LOGS/$part.0.log" 2>&1 &
  watch $! 3 tests count_lines '^\[       OK \]'
}

minutes=$FULL_MINUTES
chosen=()
while [ $# -gt 0 ]; do
  case $1 in
    --list) list; exit ;;
    --short) minutes=5 ;;
    --minutes) minutes=${2:?--minutes needs a number}; shift ;;
    *)
      case " $PARTS " in *" $1 "*) chosen+=("$1") ;; *) echo "soak: no part '$1'; there are: $PARTS" >&2; exit 2 ;; esac
      ;;
  esac
  shift
done
[ ${#chosen[@]} -gt 0 ] || read -r -a chosen <<<"$PARTS"

mkdir -p $LOGS
failed=()
for part in "${chosen[@]}"; do
  rm -f "$LOGS/$part".*log
  begin=$SECONDS status=0
  "part_$part" || status=$?
  case $status in
    0) say "$part: passed in $((SECONDS - begin)) s: $(cat "$LOGS/$part".*log | grep -E '^[0-9]+ (kills|changes)|^round|tests? from .* ran' | tail -n 1)" ;;
    77) say "$part: $(tail -n 1 "$LOGS/$part.0.log")" ;;
    *)
      say "$part: FAILED, the whole of it in $LOGS/$part.*.log"
      grep -hE 'Failure|repeat with|EBB_TEST_SEED|round [0-9]+:' "$LOGS/$part".*log | head -n 10 >&2 || true
      failed+=("$part")
      ;;
  esac
done
[ ${#failed[@]} = 0 ] || { say "failed: ${failed[*]}"; exit 1; }
say "all passed: ${chosen[*]}"
