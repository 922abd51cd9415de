#!/usr/bin/env python3
"""Writes the same four requests in every trace format, beside this file.

usage: make.py      The files are in the repository; this says how they were made.
"""
import os
import struct

SECTOR = 512
# time in ns on the trace's clock (from a whole second), read?, offset, bytes
REQUESTS = [
    (0, True, 4096, 8192),
    (1_500_000, False, 1 << 20, 4096),
    (2_000_000_000, False, 63 * SECTOR, 512),
    (2_000_700_000, True, 10 << 30, 65536),
]
HOUR_S = 3600
ZERO_PAGE = "620f0b67a91f7f74151bc5be745b7110"


def write(name, content):
    data = content if isinstance(content, bytes) else content.encode()
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name), "wb") as file:
        file.write(data)


def lines(make, head=""):
    return head + "".join(make(*request) + "\n" for request in REQUESTS)


def rw(read, words="RW"):
    return words[0 if read else 1]


write("requests.vscsi1", b"".join(
    struct.pack("<IIIHHQQ", 0x80000000 + i, size, 1, 0x28 if read else 0x2A, 0x0100, offset // SECTOR,
                HOUR_S * 10**6 + ns // 1000)
    for i, (ns, read, offset, size) in enumerate(REQUESTS)))
write("requests.vscsi2", b"".join(
    struct.pack("<HHIIIQQQ", 0x88 if read else 0x8A, 0x0200, i, size, 1, offset // SECTOR,
                HOUR_S * 10**6 + ns // 1000, 250)
    for i, (ns, read, offset, size) in enumerate(REQUESTS)))
write("requests.vscsicsv", lines(
    lambda ns, read, offset, size:
    f"2147483692,{size},1,{rw(read, ['read', 'write'])},{offset // SECTOR},{HOUR_S * 10**6 + ns // 1000}",
    "#Vscsi Cmd Trace. (Trace Format Version 1)\n"
    "#Serial Number,IO Data Length,Num SG Entries,Command Type,LBN,Time Stamp (microseconds)\n"))
write("requests.msr", lines(
    lambda ns, read, offset, size:
    f"{128166372000000000 + ns // 100},hm,1,{rw(read, ['Read', 'Write'])},{offset},{size},113736"))
write("requests.heimdall", lines(
    lambda ns, read, offset, size: f"{ns / 1e6:.3f} 0 {offset} {size} {1 if read else 0}"))
write("requests.spc", lines(
    lambda ns, read, offset, size: f"0,{offset // SECTOR}, {size},{rw(read, 'rW')},{ns / 1e9:.6f}"))
write("requests.mqsim", lines(
    lambda ns, read, offset, size:
    f"{ns} 0 {offset // SECTOR} {size // SECTOR} {1 if read else 0}")[:-1])
write("requests.disksim", lines(
    lambda ns, read, offset, size:
    f"{ns / 1e6:.6f}\t0\t{offset // SECTOR}\t{size // SECTOR}\t{3 if read else 2}"))
write("requests.blkparse", lines(
    lambda ns, read, offset, size:
    f"  8,16   3  {ns // 1000:7d} {ns / 1e9:14.9f}  4711  A {rw(read):>3s} {offset // SECTOR + 2048} + "
    f"{size // SECTOR} <- (8,17) {offset // SECTOR}\n"
    f"  8,16   3  {ns // 1000:7d} {ns / 1e9:14.9f}  4711  Q {rw(read):>3s} {offset // SECTOR} + "
    f"{size // SECTOR} [a [strange] name]\n"
    f"  8,16   3        0 {ns / 1e9:14.9f}     0  m   N cfq4711S / insert_request")
    + "CPU3 (8,16):\n Reads Queued:           2,       72KiB\t Writes Queued:           2,        5KiB\n"
    "\nThroughput (R/W): 36KiB/s / 2KiB/s\nEvents (8,16): 12 entries\nSkips: 0 forward (0 -   0.0%)\n")
for version in (2, 3):
    text = f"fio version {version} iolog\n"
    text += "f add\nf open\n" if version == 2 else "1 f add\n2 f open\n"
    last = 0
    for ns, read, offset, size in REQUESTS:
        if version == 2 and ns > last:
            text += f"f wait {(ns - last) // 1000} 0\n"
        stamp = "" if version == 2 else f"{1000 + ns // 1000} "
        text += f"{stamp}f {'read' if read else 'write'} {offset} {size}\n"
        last = ns
    write(f"requests.v{version}.iolog", text + ("f close\n" if version == 2 else "3000000 f close\n"))
write("requests.fiu", "".join(
    f"{777599 * 10**9 + ns} 4711 kjournald {offset // SECTOR} {size // SECTOR} {rw(read)} 6 0 "
    + "".join(ZERO_PAGE if i == 1 else f"{offset + i:032x}" for i in range((size + 4095) // 4096)) + "\n"
    for ns, read, offset, size in REQUESTS))
write("requests.alibaba", lines(
    lambda ns, read, offset, size: f"7,{rw(read)},{offset},{size},{1577808000 * 10**6 + ns // 1000}"))
write("requests.tencent", lines(
    lambda ns, read, offset, size:
    f"{1538323200 + ns // 10**9},{offset // SECTOR},{size // SECTOR},{0 if read else 1},1063"))
write("requests.systor", lines(
    lambda ns, read, offset, size:
    f"1455592741.{ns % 10**9:09d},,{rw(read)},3,{offset},{size}" if ns < 10**9 else
    f"{1455592741 + ns // 10**9}.{ns % 10**9:09d},0.000250000,{rw(read)},3,{offset},{size}",
    "Timestamp,Response,IOType,LUN,Offset,Size\n"))
write("requests.oracle", b"".join(
    struct.pack("<IQIq", HOUR_S + ns // 10**9, offset // SECTOR, size, -1 if i % 2 else 2**63 - 1)
    for i, (ns, read, offset, size) in enumerate(REQUESTS)))
write("requests.lcscsv", lines(
    lambda ns, read, offset, size:
    f"1,{HOUR_S + ns // 10**9},{'28' if read else '2a'},{size},{offset // SECTOR}",
    "version,time,op,size,lbn\n"))
write("requests.cachelib", lines(
    lambda ns, read, offset, size:
    f"{1702511878 + ns // 10**9},12ce23eaa5534a38-9e05ce05bc10d4d0,40,{size},{offset},4235083322,3487869255,"
    f"{'getChunkData' if read else 'putChunk'}.NotInitialized,1,518845025,4",
    "op_time,block_id,block_id_size,io_size,io_offset,user_name,user_namespace,op_name,op_count,host_name,"
    "rs_shard_id\n"))
write("requests.hfp", lines(
    lambda ns, read, offset, size:
    f"1,{81442951 * 1000 + ns // 1000}.000,{rw(read, ['RD', 'WR'])}_IN,{offset // SECTOR},{size // SECTOR},250.000\n"
    f"2,{81442951 * 1000 + ns // 1000}.500,{rw(read, ['RD', 'WR'])}_OUT,0,0,0",
    "#DUMP_OFFSET.I,ELAPSED_USECS.D,CMD.S,LBA.I,NBLKS.I,LATENCY_USECS.D\n"))
write("requests.arc", lines(lambda ns, read, offset, size: f"{offset // SECTOR} {size // SECTOR} 0 {ns}"))
write("pages.arcpage", "1 2 0 0\n256 1 0 1\n")
write("pages.lirs", "1\n*\n256\n")
write("times.flushes", "1000\n2500000\n")


def blktrace(cpu, endian):
    """One CPU's file: every other request, with the events around it and a process's name before."""
    def event(ns, sector, size, action, data=b""):
        return struct.pack(endian + "IIQQIIIIIHH", 0x65617407, 1, ns, sector, size, action, 4711, 8 << 20 | 16,
                           cpu, 0, len(data)) + data
    queue, notify, complete = 16 << 16, 1024 << 16, 128 << 16
    out = event(0, 0, 0, notify, b"fio\0")
    for ns, read, offset, size in REQUESTS[cpu::2]:
        way = (1 if read else 2) << 16
        sector = offset // SECTOR
        remap = struct.pack(">IIQ", 8 << 20 | 16, 8 << 20 | 17, sector)
        out += event(5 * 10**9 + ns, sector + 2048, size, queue | way | 15, remap)
        out += event(5 * 10**9 + ns, sector, size, queue | way | 1)
        out += event(5 * 10**9 + ns + 99, sector, size, complete | way | 8)
    return out


for cpu in (0, 1):
    write(f"requests.blktrace.{cpu}", blktrace(cpu, "<"))
    write(f"big_endian.blktrace.{cpu}", blktrace(cpu, ">"))
