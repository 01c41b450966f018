#!/usr/bin/env python3
"""
test_file_sum.py - what a program did with its files, by the whole command: test_file_sum.py
WARPSIGHT PROGRAM; TAP on standard output.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import main, run, same, test  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[2])
QUIET = ("--sample=none", "--cpuctxsw=none", "--system-metrics=none")


def file_sum(report):
    rows = json.loads(run("stats", "-r", "file_sum", "--format=json", report).out)
    return {os.path.basename(row["Path"]): row for row in rows}


def figures(row):
    names = ("Opens", "Reads", "Bytes Read (MB)", "Small Reads", "Writes", "Bytes Written (MB)")
    return [float(row[name]) for name in names]


def check_files(report):
    got = file_sum(report)
    same(figures(got["in.order"]), [1, 32, 2.097, 0, 32, 2.097], got)
    same(figures(got["here.and.there"]), [1, 40, 0.02, 40, 0, 0], got)
    same(figures(got["items"])[4:], [1, 0.007], got)
    # Twice 4,096, 4,096 and 1,808 bytes into the stream's buffer, and all at once.
    same(figures(got["lines"])[1:4], [7, 0.03, 2], got)
    # Of the reads and writes after the first one, one goes back to the beginning.
    same(got["in.order"]["In Order (%)"], 98.4)
    same(got["here.and.there"]["In Order (%)"], 0.0)


@test
def files_are_added_up_by_path():
    got = run(
        *("profile", "-t", "osrt", "--osrt-threshold=0", *QUIET, "-f", "-o", "r", PROGRAM),
    )
    same(got.out, b"done\n")
    check_files("r.wsrep")


@test
def an_export_keeps_what_is_needed_for_that():
    run("export", "-t", "sqlite", "-f", "true", "-o", "e.sqlite", "r.wsrep")
    run("import", "-f", "-o", "back.wsrep", "e.sqlite")
    check_files("back.wsrep")


if __name__ == "__main__":
    sys.exit(main())
