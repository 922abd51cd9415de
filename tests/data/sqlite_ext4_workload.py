#!/usr/bin/env python3
"""The workload behind sqlite_ext4.ebbt: SQLite and file copies in one ext4 mount, about a minute.

usage: sqlite_ext4_workload.py MOUNT_POINT

Bursts of small transactions with fsync, pauses between them, look-ups and scans of a database that
does not fit the page cache (each burst drops its own files' pages), a source tree copied twice,
searches through it, deletes and fstrim. The same statements in the same order each time; only the
times differ.
"""

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time

ROWS = 120_000
TREE = "/usr/lib/python3.11"
SYLLABLES = "ka lo mi ren tas vor el ni do sha pe gur in at ol qui ban cer dul fy".split()
WORDS = [a + b + c for a in SYLLABLES for b in SYLLABLES for c in SYLLABLES]


class Workload:
    def __init__(self, mount):
        self.mount = mount
        self.random = random.Random(20260727)
        self.path = os.path.join(mount, "bank.db")
        self.db = sqlite3.connect(self.path, isolation_level=None)
        for pragma in ("page_size=4096", "journal_mode=WAL", "synchronous=FULL", "cache_size=-1000",
                       "wal_autocheckpoint=500"):
            self.db.execute(f"PRAGMA {pragma}")

    def text(self, words):
        return " ".join(self.random.choice(WORDS) for _ in range(words))

    def account(self):
        """Skewed: half of the accesses go to a twentieth of the accounts."""
        if self.random.random() < 0.5:
            return self.random.randrange(ROWS // 20) * 20
        return self.random.randrange(ROWS)

    def drop_pages(self):
        """Evicts this database's clean pages, as a server with less memory would."""
        for path in (self.path, self.path + "-wal"):
            self.drop_file(path)

    @staticmethod
    def drop_file(path):
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)

    def load(self):
        self.db.execute("CREATE TABLE account(id INTEGER PRIMARY KEY, owner TEXT, balance INTEGER, note TEXT)")
        self.db.execute("CREATE TABLE entry(id INTEGER PRIMARY KEY, account INTEGER, amount INTEGER, at TEXT, text TEXT)")
        for first in range(0, ROWS, 10_000):
            self.db.execute("BEGIN")
            self.db.executemany(
                "INSERT INTO account VALUES(?,?,?,?)",
                ((n, self.text(2), 1000, self.text(14)) for n in range(first, first + 10_000)),
            )
            self.db.execute("COMMIT")
        self.db.execute("CREATE INDEX entry_account ON entry(account)")

    def transfer(self):
        amount = self.random.randrange(1, 100)
        source, target = self.account(), self.account()
        self.db.execute("BEGIN IMMEDIATE")
        for account, change in ((source, -amount), (target, amount)):
            self.db.execute("UPDATE account SET balance = balance + ? WHERE id = ?", (change, account))
            self.db.execute(
                "INSERT INTO entry(account, amount, at, text) VALUES(?,?,?,?)",
                (account, change, time.strftime("%F %T"), self.text(8)),
            )
        self.db.execute("COMMIT")

    def look_up(self):
        account = self.account()
        self.db.execute("SELECT * FROM account WHERE id = ?", (account,)).fetchall()
        self.db.execute("SELECT sum(amount) FROM entry WHERE account = ?", (account,)).fetchall()

    def burst(self, seconds, transfers_per_s, look_ups):
        """Transfers at a rate, each followed by look-ups."""
        begin = time.monotonic()
        for n in range(int(seconds * transfers_per_s)):
            time.sleep(max(0, begin + n / transfers_per_s - time.monotonic()))
            self.transfer()
            for _ in range(look_ups):
                self.look_up()
            if n % 200 == 199:
                self.drop_pages()

    def report(self):
        self.drop_pages()
        self.db.execute("SELECT owner, count(*), sum(balance) FROM account GROUP BY substr(owner, 1, 2)").fetchall()

    def back_up(self, name):
        """A copy of the database file: the same blocks again, in one long stream."""
        self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.drop_pages()
        shutil.copyfile(self.path, os.path.join(self.mount, name))
        os.sync()

    def copy_tree(self, name):
        shutil.copytree(TREE, os.path.join(self.mount, name), symlinks=True,
                        ignore=shutil.ignore_patterns("__pycache__", "*.a", "*.so"))
        os.sync()

    def search_tree(self, name):
        for folder, _, files in os.walk(os.path.join(self.mount, name)):
            for file in files:
                path = os.path.join(folder, file)
                if os.path.isfile(path):
                    self.drop_file(path)
                    with open(path, "rb") as content:
                        content.read().count(b"import")

    def run(self):
        self.load()
        time.sleep(2)
        self.burst(6, 150, 4)
        time.sleep(2)
        self.copy_tree("tree_a")
        self.burst(6, 120, 8)
        self.back_up("monday.db")
        time.sleep(2)
        self.burst(5, 250, 1)
        self.copy_tree("tree_b")
        time.sleep(2)
        self.report()
        self.burst(6, 100, 12)
        self.search_tree("tree_a")
        shutil.rmtree(os.path.join(self.mount, "tree_a"))
        self.db.execute("DELETE FROM entry WHERE id % 3 = 0")
        subprocess.run(["fstrim", self.mount], check=True)
        time.sleep(1)
        self.burst(6, 200, 2)
        self.back_up("tuesday.db")
        self.copy_tree("tree_c")
        time.sleep(2)
        self.burst(5, 100, 10)
        os.unlink(os.path.join(self.mount, "monday.db"))
        subprocess.run(["fstrim", self.mount], check=True)
        self.report()
        self.burst(5, 150, 4)
        self.db.close()
        os.sync()


if __name__ == "__main__":
    start = time.monotonic()
    Workload(sys.argv[1]).run()
    print(f"workload: {time.monotonic() - start:.1f} s", file=sys.stderr)
