#!/usr/bin/env python3
"""Count the tests of a `meson test` run: every TAP line is one test, a test program without TAP is
one.

Usage: count.py LOG STATUS [SECOND]   LOG: testlog.json; STATUS: what `meson test` exited with;
SECOND: the log of a second look
       count.py --second-look LOG     names of the test programs that may have one, a line each

Prints which test programs took longest, what failed, and then "N passed, N failed" (and
", N skipped" when there are any) as the last line. Exits 1 when a test failed, or when nothing was
run: a suite that silently vanished must not look like success. With WS_TEST_TIMES, the name of a
file, the seconds of each test program are added to that, for a list over several runs.

A second look: some tests record programs on a machine that may not have run them, or us, for half a
second. A few test programs in which tests said "not ok" are therefore run once more, alone. What
passes then counts as passed and is named as unsteady. A crash, a time limit that ran out, and
whatever a sanitizer wrote are failures at the first time: those do not go away by being rare.
"""

import json
import os
import re
import sys

LINE = re.compile(r"^(not )?ok\b(.*)", re.MULTILINE)
DIRECTIVE = re.compile(r"#\s*(skip|todo)", re.IGNORECASE)
SANITIZER = re.compile(r"(Address|Leak|Thread|Memory|UndefinedBehavior)Sanitizer|runtime error:")
MOST_SECOND_LOOKS = 4  # more than that at once is no accident


def count(entry):
    """(passed, failed, skipped) of one test program."""
    passed = failed = skipped = 0
    for bad, rest in LINE.findall(entry.get("stdout") or ""):
        if DIRECTIVE.search(rest):
            skipped += 1
        elif bad:
            failed += 1
        else:
            passed += 1
    if entry["result"] == "SKIP":
        return 0, 0, max(1, passed + skipped)
    if entry["result"] not in ("OK", "EXPECTEDFAIL"):
        return passed, max(1, failed), skipped
    if not passed + failed + skipped:
        return 1, 0, 0
    return passed, failed, skipped


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as log:
            return [json.loads(line) for line in log if line.strip()]
    except FileNotFoundError:
        return []


def not_ok(entry, most=6):
    """Lines of failed tests, with the output of each where that is short."""
    lines = (entry.get("stdout") or "").splitlines()
    told = []
    for i, line in enumerate(lines):
        if line.startswith("not ok") and not DIRECTIVE.search(line):
            told.append(line)
            for more in lines[i + 1 : i + 9]:
                if not more.lstrip().startswith("#"):
                    break
                told.append(more[:300])
    errors = [
        line[:300] for line in (entry.get("stderr") or "").splitlines() if SANITIZER.search(line)
    ]
    return [f"  {line}" for line in told[: most * 9] + errors[:most]]


def said_not_ok(entry):
    return any(
        bad and not DIRECTIVE.search(rest) for bad, rest in LINE.findall(entry.get("stdout") or "")
    )


def may_look_again(entry):
    """Whether a test program failed in the way that a late machine makes tests fail."""
    said = (entry.get("stdout") or "") + (entry.get("stderr") or "")
    # A program that says "not ok" and ends with 1 is an ERROR to meson; one that a signal ended has
    # a negative status, or a shell's 128 and more.
    return (
        entry["result"] in ("FAIL", "ERROR")
        and 0 <= entry.get("returncode", 0) < 64
        and 1 <= count(entry)[1] <= 2
        and said_not_ok(entry)
        and not SANITIZER.search(said)
    )


def second_look(path):
    """Names of the test programs to run again; none when too much failed for an accident."""
    entries = [entry for entry in read(path) if count(entry)[1]]
    if len(entries) > MOST_SECOND_LOOKS or not all(map(may_look_again, entries)):
        return
    for entry in entries:
        print(entry["name"].split(" / ")[-1])


def show_slowest(entries, most=5):
    times = sorted(((entry.get("duration", 0), entry["name"]) for entry in entries), reverse=True)
    if "WS_TEST_TIMES" in os.environ:
        with open(os.environ["WS_TEST_TIMES"], "a", encoding="utf-8") as file:
            file.writelines(f"{seconds:8.1f} s  {name}\n" for seconds, name in times)
    slowest = [f"{name.split(' / ')[-1]} {seconds:.0f} s" for seconds, name in times[:most]]
    print("slowest: " + ", ".join(slowest))


def main():
    if sys.argv[1] == "--second-look":
        second_look(sys.argv[2])
        return 0
    totals = [0, 0, 0]
    entries = read(sys.argv[1])
    status = int(sys.argv[2])
    again = {entry["name"]: entry for entry in read(sys.argv[3])} if len(sys.argv) > 3 else {}
    for entry in entries:
        counts = count(entry)
        if counts[1] and entry["name"] in again and not count(again[entry["name"]])[1]:
            print(
                f"unsteady: {entry['name']} ({counts[1]} failed at first, none the second time)",
                *not_ok(entry),
                sep="\n",
            )
            counts = count(again[entry["name"]])
            status = 0
        totals = [a + b for a, b in zip(totals, counts)]
        if counts[1]:
            print(
                (
                    f"failed: {entry['name']} ({counts[1]} of {counts[0] + counts[1]},"
                    f" {entry['result']})"
                ),
                *not_ok(entry),
                sep="\n",
            )
    if entries:
        show_slowest(entries)
    if (status and not totals[1]) or not entries:
        print(
            f"failed: the test run itself (meson test exited with {status}, {len(entries)} test"
            " programs ran)"
        )
        totals[1] += 1
    print(
        f"{totals[0]} passed, {totals[1]} failed" + (f", {totals[2]} skipped" if totals[2] else "")
    )
    return 1 if totals[1] else 0


if __name__ == "__main__":
    sys.exit(main())
