#!/usr/bin/env python3
"""Importing the Trace Event Format of Chrome: slices, counters, flows, in any order. Prints TAP.

Usage: test_chrome.py WARPSIGHT [WORD...]; with words, tests whose names hold one of them."""
import random
import sys

from harness import eq, main, test
from traces import CHROME


@test
def chrome_events(t):
    d = t.load(t.write("c.json", CHROME))
    got = sorted((r["nameId"], r["start"], r["end"], r["flags"]) for r in d["WARPSIGHT_SLICE"])
    eq(
        got,
        sorted(
            [
                ("outer", 0, 10500, 0),
                ('in\u00e9r "q"', 1000, 5000, 0),
                ("x", 20000, 25000, 0),
                ("mark", 21000, None, 1),
                ("get", 30000, 35000, 4),
                ("byte", 31000, None, 5),
                ("s", 40000, 41000, 0),
                ("never ends", 50000, None, 2),
            ]
        ),
    )
    eq(
        [r["argsId"] for r in d["WARPSIGHT_SLICE"] if r["nameId"].startswith("in")],
        ['{"k": [1, {"z": null}]}'],
    )
    eq(
        sorted((r["groupId"], r["nameId"]) for r in d["WARPSIGHT_COUNTER"]),
        [("mem", "rss"), ("mem", "swap")],
    )
    eq(sorted(r["value"] for r in d["WARPSIGHT_COUNTER_VALUE"]), [3.0, 12.5])
    eq([(r["start"], r["end"]) for r in d["WARPSIGHT_FLOW"]], [(20000, 23000), (23000, 26000)])
    assert "A" in [r["nameId"] for r in d["WARPSIGHT_TRACK"]] and "net" in [
        r["nameId"] for r in d["WARPSIGHT_TRACK"]
    ]
    assert "Ends of slices without a beginning" in t.err


@test
def events_may_come_in_any_order(t):
    """Halves of slices too: the same slices come of a shuffled file, whose ends stand before their
    beginnings.
    """
    r = random.Random(7)
    events = []

    def nest(tid, a, b, depth):
        at = a
        while depth and b - at > 4:
            c, d = sorted(r.sample(range(at, b), 2))
            if c == d or c <= a:
                break
            events.append(
                {
                    "ph": "B",
                    "name": f"s{depth}.{c}",
                    "cat": "c",
                    "pid": 1,
                    "tid": tid,
                    "ts": c,
                    "args": {"a": c},
                }
            )
            nest(tid, c, d, depth - 1)
            events.append({"ph": "E", "pid": 1, "tid": tid, "ts": d})
            at = d + 1

    for tid in 1, 2, 3:
        nest(tid, 0, 1000, 5)
    for i in range(40):
        events += [
            {
                "ph": "b",
                "cat": "a",
                "id": i % 7,
                "name": f"a{i}",
                "pid": 1,
                "tid": 1,
                "ts": 20 * i + 1,
            },
            {
                "ph": "e",
                "cat": "a",
                "id": i % 7,
                "name": f"a{i}",
                "pid": 1,
                "tid": 1,
                "ts": 20 * i + 9,
            },
        ]
        events += [
            {"ph": "X", "name": "x", "cat": "k", "pid": 1, "tid": 9, "ts": i, "dur": 3},
            {"ph": "s", "cat": "f", "id": i, "name": "go", "pid": 1, "tid": 1, "ts": i},
            {"ph": "f", "cat": "f", "id": i, "name": "go", "pid": 1, "tid": 2, "ts": i + 5},
        ]
    events.append({"ph": "B", "name": "open", "pid": 1, "tid": 1, "ts": 2000})

    def rows(d):
        return {
            n: sorted(repr(list(r.items())) for r in d[n])
            for n in ("WARPSIGHT_SLICE", "WARPSIGHT_FLOW")
        }

    first = rows(t.load(t.write("a.json", events)))
    assert "sorted" not in t.err, t.err
    eq(len(first["WARPSIGHT_SLICE"]), sum(e["ph"] in "BbX" for e in events))
    for seed in range(3):
        random.Random(seed).shuffle(events)
        both = t.load(t.write("b.json", CHROME), t.write("s.json", events))["WARPSIGHT_SLICE"]
        eq(t.err.count("Ends of slices without a beginning were left out"), 1, t.err)
        eq(
            min(r["start"] for r in both if (r["globalTid"] or 0) >> 48),
            0,
            "where the first file begins",
        )
        eq(rows(t.load(t.path("s.json"))), first, f"seed {seed}")
        eq(t.err.count("they were sorted"), 1, t.err)


sys.exit(main())
