#!/usr/bin/env python3
"""Does code that shows events keep to their declarations (src/schema/events.def)? test_declared.py
ROOT; TAP.

What differs between kinds of events is a field of their descriptor. So the files that walk the
descriptors compare no table with a name and have no case for one; a new kind would be forgotten
there.
"""
import os
import re
import sys

ROOT = sys.argv[1]
WALKERS = [
    "src/lanes",
    "src/serve",
    "src/export/chrome.c",
    "src/export/chrome_args.c",
    "src/export/perfetto.c",
    "src/export/timeline.c",
    "src/store/writer.c",
]
SWITCHED = re.compile(
    r"case\s+WS_TABLE_[a-z]|case\s+WS_KIND_[a-z]|[=!]=\s*WS_(TABLE|KIND)_[a-z]"
    r"|\[WS_(TABLE|KIND)_[a-z]\w*\]\s*="
)
number = 0
failed = False


def check(good, what, why=()):
    global number, failed
    number += 1
    failed |= not good
    print("%s %d - %s" % ("ok" if good else "not ok", number, what))
    for line in why:
        print("#", line)


def sources(path):
    full = os.path.join(ROOT, path)
    if os.path.isfile(full):
        return [full]
    return [
        os.path.join(full, name) for name in sorted(os.listdir(full)) if name.endswith((".c", ".h"))
    ]


def text_of(path):
    with open(path) as f:
        return re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)


for walker in WALKERS:
    found = [
        os.path.relpath(path, ROOT) + ": " + match.group(0)
        for path in sources(walker)
        for match in SWITCHED.finditer(text_of(path))
    ]
    check(not found, walker + " names no kind of event", found)

events = text_of(os.path.join(ROOT, "src/schema/events.def"))
kinds = re.findall(r"^WS_EVENT\((\w+), (\w+)", events, flags=re.M)
check(len(kinds) > 20 and len({k for k, _ in kinds}) == len(kinds), "each kind is declared once")
tables = set(
    re.findall(
        r"^WS_TABLE\((\w+)", text_of(os.path.join(ROOT, "src/schema/tables.def")), flags=re.M
    )
)
check({t for _, t in kinds} <= tables, "each kind has a table")
print("1..%d" % number)
sys.exit(failed)
