#!/usr/bin/env python3
"""run.py - --trace=malloc by the whole command: run.py WARPSIGHT APP OTHER; TAP."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import main, run, same, test  # noqa: E402

APP, OTHER = os.path.abspath(sys.argv[2]), os.path.abspath(sys.argv[3])
COLUMNS = ("Live at End (MB)", "Allocated (MB)", "Samples", "Live at Peak (MB)")
QUIET = ("--sample=none", "--cpuctxsw=none", "--system-metrics=none", "-f", "-o", "r")


def sums():
    rows = json.loads(run("stats", "-r", "malloc_sum", "--format=json", "r.wsrep").out)
    found = {}
    for row in rows:
        name = row["Allocated by"].split(" < ")[0]
        into = found.setdefault(name, {"stack": row["Allocated by"]})
        for column in COLUMNS:
            into[column] = round(into.get(column, 0) + float(row[column]), 3)
    return found


@test
def what_lives_is_known_by_stack():
    same(run("profile", "-t", "malloc", *QUIET, APP).out, b"done\n")
    got = sums()
    kept, grown = got["keep_blocks"], got["grow_block"]
    same([kept[column] for column in COLUMNS], [33.554, 67.109, 4, 67.109])
    same(" < main" in kept["stack"], True, kept)
    same([grown[column] for column in COLUMNS], [0, 25.166, 2, 0])


@test
def another_allocator_is_left_alone():
    got = run("profile", "-t", "malloc", *QUIET, "--env-var=LD_PRELOAD=" + OTHER, APP)
    same(got.out, b"done\n")
    said = run("info", "r.wsrep").out.decode()
    same("has an allocator of its own" in said, True, said)


if __name__ == "__main__":
    sys.exit(main())
