#!/usr/bin/env bash
# Something real on top: PostgreSQL on ext4 on the export, and the node killed under it.
#
# usage: postgres_test.sh BUILD_DIR [ROUNDS]        as root; 1 round unless told (./dev soak: 10)
# A round: pgbench and two clients that log each commit they were told of; SIGKILL of the node in mid-run;
# the node again; journal replay, then fsck -n must find nothing; PostgreSQL recovers; every logged commit
# must be there, pgbench's sums must agree and no page's checksum be wrong. Exit 77, with the reason, where
# the machine cannot do it. EBB_KEEP=1 keeps the scratch folder.
set -euo pipefail

skip() { echo "postgres_test: skipped: $*"; exit 77; }
fail() { echo "postgres_test: round $round: $*" >&2; exit 1; }

build=$(readlink -f "${1:?build directory}")
rounds=${2:-1}
round=0
PG_BIN=$(echo /usr/lib/postgresql/*/bin)
[ "$(id -u)" = 0 ] || skip "loop devices and mounts need root"
[ -x "$PG_BIN/initdb" ] || skip "PostgreSQL is not installed"
id postgres >/dev/null 2>&1 || skip "there is no user postgres, and PostgreSQL does not run as root"
[ -c /dev/fuse ] || skip "/dev/fuse is missing"
[ -c /dev/loop-control ] || skip "there are no loop devices"
for tool in nbdkit nbdfuse fusermount3 losetup mkfs.ext4 e2fsck setpriv stdbuf; do
  command -v "$tool" >/dev/null || skip "$tool is missing"
done

scratch=$(mktemp -d)
chmod 755 "$scratch"
mkdir "$scratch/fuse" "$scratch/mount" "$scratch/socket" "$scratch/log"
chown postgres: "$scratch/socket" "$scratch/log"
cat >"$scratch/node.toml" <<TOML
name = "postgres"
volume_size = "512MiB"
control_socket = "control.sock"
state_dir = "state"
metadata_dir = "metadata"
[nbd]
socket = "nbd.sock"
[cache]
path = "cache.img"
size = "64MiB"
[[capacity]]
path = "capacity.img"
size = "1GiB"
TOML
server='' fuse='' loop='' postmaster=''

AS_POSTGRES=(setpriv --reuid=postgres --regid=postgres --init-groups --)
as_postgres() { "${AS_POSTGRES[@]}" "$@"; }
psql_quietly() { as_postgres "$PG_BIN/psql" -h "$scratch/socket" -X -q -A -t -v ON_ERROR_STOP=1 "$@" postgres; }

# wait_for SECONDS WHAT COMMAND...: until the command succeeds.
wait_for() {
  local tries=$(($1 * 20)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ $((tries -= 1)) -gt 0 ] || fail "$what: waited in vain"
    sleep 0.05
  done
}

start_node() {
  rm -f "$scratch/nbd.sock"
  nbdkit -f -U "$scratch/nbd.sock" "$build/lib/nbdkit-ebb-plugin.so" "config=$scratch/node.toml" 2>>"$scratch/log/node" &
  server=$!
  wait_for 60 "the node starts" test -S "$scratch/nbd.sock"
}

attach_disk() {
  nbdfuse "$scratch/fuse/disk" "nbd+unix:///?socket=$scratch/nbd.sock" 2>>"$scratch/log/nbdfuse" &
  fuse=$!
  wait_for 20 "nbdfuse" test -f "$scratch/fuse/disk"
  # Direct I/O, or the kernel would cache the export a second time below the file system.
  loop=$(losetup --find --show --direct-io=on "$scratch/fuse/disk") || skip "no loop device can be made here"
}

# mountpoint(1) asks the file system, which may be dead.
is_mounted() { grep -q " $1 " /proc/mounts; }

detach_disk() {
  if is_mounted "$scratch/mount"; then wait_for 30 "umount" umount "$scratch/mount"; fi
  if [ -n "$loop" ]; then losetup -d "$loop"; loop=''; fi
  if is_mounted "$scratch/fuse"; then wait_for 30 "fusermount3" fusermount3 -u "$scratch/fuse"; fi
  if [ -n "$fuse" ]; then wait "$fuse" || true; fuse=''; fi
}

start_postgres() {
  # Not through the function: $! must be the postmaster and no shell around it.
  "${AS_POSTGRES[@]}" "$PG_BIN/postgres" -D "$scratch/mount/data" -k "$scratch/socket" -c listen_addresses= -c shared_buffers=16MB \
    -c checkpoint_timeout=30s -c max_wal_size=64MB >>"$scratch/log/postgres" 2>&1 &
  postmaster=$!
  wait_for 60 "PostgreSQL starts" psql_quietly -c 'select 1'
}

# stop_postgres SIGNAL: INT is a clean stop; QUIT is what is left to do when its disk is gone.
stop_postgres() {
  [ -n "$postmaster" ] || return 0
  kill "-$1" "$postmaster" 2>/dev/null || true
  wait "$postmaster" 2>/dev/null || true
  postmaster=''
}

undo() {
  set +e
  stop_postgres QUIT
  detach_disk
  [ -n "$server" ] && kill "$server" 2>/dev/null && wait "$server" 2>/dev/null
  if [ -n "${EBB_KEEP:-}" ]; then echo "kept: $scratch" >&2; else rm -rf --one-file-system "$scratch"; fi
}
trap undo EXIT

create_cluster() {
  mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$loop"
  mount "$loop" "$scratch/mount"
  mkdir "$scratch/mount/data"
  chown postgres: "$scratch/mount/data"
  as_postgres "$PG_BIN/initdb" -D "$scratch/mount/data" -A trust --data-checksums --wal-segsize=4 >/dev/null
  start_postgres
  psql_quietly -c 'create table ledger (client int, number int, primary key (client, number))'
  as_postgres "$PG_BIN/pgbench" -h "$scratch/socket" -i -q -s 2 postgres >/dev/null 2>&1
}

# ledger_client NUMBER: one commit after the other, each logged once PostgreSQL has said that it is durable.
ledger_client() {
  awk -v client="$1" -v round="$round" 'BEGIN {
    for (n = 1; n <= 1000000; n++) printf "insert into ledger values (%d, %d);\n\\echo %d %d\n", client, round * 1000000 + n, client, round * 1000000 + n
  }' | as_postgres stdbuf -oL "$PG_BIN/psql" -h "$scratch/socket" -X -q -v ON_ERROR_STOP=1 postgres >>"$scratch/acknowledged.$1" 2>/dev/null
}

run_load_and_kill() {
  local clients=()
  for client in 1 2; do
    ledger_client $client &
    clients+=($!)
  done
  as_postgres "$PG_BIN/pgbench" -h "$scratch/socket" -n -c 4 -j 2 -T 60 postgres >/dev/null 2>&1 &
  clients+=($!)
  sleep $((4 + RANDOM % 4)).$((RANDOM % 10))
  kill -KILL "$server"
  wait "$server" 2>/dev/null || true
  server=''
  stop_postgres QUIT
  wait "${clients[@]}" 2>/dev/null || true
}

check_file_system() {
  e2fsck -y -E journal_only "$loop" >>"$scratch/log/fsck" 2>&1 || [ $? = 1 ] || fail "the journal cannot be replayed: $(tail -n 5 "$scratch/log/fsck")"
  local found
  found=$(e2fsck -fn "$loop" 2>&1) || fail "fsck -n found: $found"
}

check_database() {
  local acknowledged=0 missing sums
  for client in 1 2; do
    acknowledged=$((acknowledged + $(wc -l <"$scratch/acknowledged.$client")))
    missing=$(comm -23 <(sort "$scratch/acknowledged.$client") \
      <(psql_quietly -F ' ' -c "select client, number from ledger where client = $client" | sort))
    [ -z "$missing" ] || fail "$(wc -l <<<"$missing") acknowledged commits are missing, the first: $(head -n 1 <<<"$missing")"
  done
  sums=$(psql_quietly -c 'select count(distinct s) from (select sum(abalance) s from pgbench_accounts union all select sum(bbalance) from pgbench_branches
    union all select sum(tbalance) from pgbench_tellers union all select coalesce(sum(delta), 0) from pgbench_history) sums')
  [ "$sums" = 1 ] || fail "pgbench's sums do not agree"
  [ "$acknowledged" -gt $((100 * round)) ] || fail "only $acknowledged commits: nothing was at stake"
  echo "round $round of $rounds: $acknowledged acknowledged commits all there, $(psql_quietly -c 'select count(*) from pgbench_history') of pgbench, file system clean"
}

check_page_checksums() {
  stop_postgres INT
  as_postgres "$PG_BIN/pg_checksums" --check -D "$scratch/mount/data" >>"$scratch/log/checksums" 2>&1 ||
    fail "pages are damaged: $(tail -n 3 "$scratch/log/checksums")"
}

start_node
attach_disk
create_cluster
while [ $((round += 1)) -le "$rounds" ]; do
  run_load_and_kill
  detach_disk
  start_node
  attach_disk
  check_file_system
  mount "$loop" "$scratch/mount"
  start_postgres
  check_database
done
round=$rounds
check_page_checksums
