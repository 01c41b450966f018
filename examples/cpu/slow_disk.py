#!/usr/bin/env python3
"""slow_disk.py - a program that waits for its disk after every record that it writes.

    slow_disk.py each|gathered [FILE]

each: every record is flushed to the disk by itself. gathered: 200 records at a time, which is as
safe for a program that can begin again from the last of them. See docs/tutorial/slow-disk.md.
"""
import hashlib
import os
import sys
import time

RECORDS, GATHERED = 600, 200


def compute_record(number):
    return hashlib.pbkdf2_hmac("sha256", b"%d" % number, b"", 40) * 16


def flush_ledger(ledger):
    ledger.flush()
    os.fsync(ledger.fileno())


def write_ledger(path, interval):
    with open(path, "wb") as ledger:
        for number in range(RECORDS):
            ledger.write(compute_record(number))
            if number % interval == interval - 1:
                flush_ledger(ledger)


def main():
    intervals = {"each": 1, "gathered": GATHERED}
    if len(sys.argv) < 2 or sys.argv[1] not in intervals:
        sys.exit("usage: slow_disk.py each|gathered [FILE]")
    path = sys.argv[2] if len(sys.argv) > 2 else "ledger.bin"
    start = time.perf_counter()
    write_ledger(path, intervals[sys.argv[1]])
    elapsed = time.perf_counter() - start
    os.unlink(path)
    print("%s: %.2f s, %.2f ms a record" % (sys.argv[1], elapsed, 1000 * elapsed / RECORDS))


if __name__ == "__main__":
    main()
