#!/usr/bin/env python3
"""Count the tests of a `meson test` run: every TAP line is one test, a test program without TAP is one.

Usage: count.py testlog.json STATUS, where STATUS is what `meson test` exited with. Prints "N passed, N failed" (and ", N skipped" when
there are any) as the last line, the names of failed tests before it. Exits 1 when a test failed, or when nothing was run: a
suite that silently vanished must not look like success.
"""

import json
import re
import sys

LINE = re.compile(r"^(not )?ok\b(.*)", re.MULTILINE)
DIRECTIVE = re.compile(r"#\s*(skip|todo)", re.IGNORECASE)


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


def main():
    totals = [0, 0, 0]
    try:
        with open(sys.argv[1], encoding="utf-8", errors="replace") as log:
            entries = [json.loads(line) for line in log if line.strip()]
    except FileNotFoundError:
        entries = []
    for entry in entries:
        counts = count(entry)
        totals = [a + b for a, b in zip(totals, counts)]
        if counts[1]:
            print(f"failed: {entry['name']} ({counts[1]} of {counts[0] + counts[1]}, {entry['result']})")
    status = int(sys.argv[2])
    if (status and not totals[1]) or not entries:
        print(f"failed: the test run itself (meson test exited with {status}, {len(entries)} test programs ran)")
        totals[1] += 1
    print(f"{totals[0]} passed, {totals[1]} failed" + (f", {totals[2]} skipped" if totals[2] else ""))
    return 1 if totals[1] else 0


if __name__ == "__main__":
    sys.exit(main())
