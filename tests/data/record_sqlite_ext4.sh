#!/usr/bin/env bash
# Records tests/data/sqlite_ext4.ebbt: a workload of SQLite and file copies on ext4 over an NBD export.
#
# usage: record_sqlite_ext4.sh OUT.ebbt PLUGIN [PLUGIN ARGUMENTS...]      as root
#   e.g. record_sqlite_ext4.sh new.ebbt build/release/nbdkit-ebb-plugin.so config=node.toml
# Starts nbdkit with PLUGIN ARGUMENTS... record=OUT.ebbt, puts the export (512 MiB or more) under a
# loop device through nbdfuse, makes a file system and runs sqlite_ext4_workload.py in it. Takes about
# a minute; needs nbdkit, nbdfuse (libnbd-bin), fuse3, e2fsprogs, python3. Leaves nothing behind but OUT.
set -euo pipefail

[ $# -ge 2 ] || { sed -n '4,5s/^# //p' "$0" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "record: loop devices and mounts need root" >&2; exit 2; }
for tool in nbdkit nbdfuse fusermount3 losetup mkfs.ext4 fstrim python3; do
  command -v "$tool" >/dev/null || { echo "record: $tool is missing" >&2; exit 2; }
done

here=$(dirname "$(readlink -f "$0")")
out=$(readlink -m "$1")
plugin=$2
shift 2
scratch=$(mktemp -d)
server='' fuse='' loop=''

# Undoes in reverse order whatever was done; nbdkit's own end finishes the trace file.
undo() {
  set +e
  mountpoint -q "$scratch/mount" && umount "$scratch/mount"
  [ -n "$loop" ] && losetup -d "$loop"
  mountpoint -q "$scratch/fuse" && fusermount3 -u "$scratch/fuse"
  [ -n "$fuse" ] && wait "$fuse"
  [ -n "$server" ] && kill "$server" && wait "$server"
  rm -rf --one-file-system "$scratch"
}
trap undo EXIT

# wait_for TEST FILE PID: until the file is there, or the process that makes it has ended.
wait_for() {
  until [ "$1" "$2" ]; do
    kill -0 "$3" 2>/dev/null || { echo "record: $2 did not appear" >&2; exit 1; }
    sleep 0.05
  done
}

mkdir "$scratch/fuse" "$scratch/mount"
nbdkit -f -U "$scratch/nbd.sock" "$plugin" "$@" record="$out" &
server=$!
wait_for -S "$scratch/nbd.sock" "$server"
nbdfuse "$scratch/fuse/disk" "nbd+unix:///?socket=$scratch/nbd.sock" &
fuse=$!
wait_for -f "$scratch/fuse/disk" "$fuse"

# Direct I/O, or the kernel would cache the export a second time below the file system.
loop=$(losetup --find --show --direct-io=on "$scratch/fuse/disk")
echo "record: making a file system" >&2
mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$loop" 512M
mount "$loop" "$scratch/mount"
echo "record: running the workload" >&2
python3 "$here/sqlite_ext4_workload.py" "$scratch/mount"
