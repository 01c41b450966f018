"""sampling.py - what the tests of CPU samples share: recordings with their rows, figures that are
measured, and what spans and times must be whenever they are asked.
"""

from harness import Imprecise, Skip
from rows import NO_TIME, Rows


def busy(t, *args, name="busy"):
    return [t.program(name), *map(str, args)]


def record(t, argv, *options, **kw):
    """Rows of a recording of `argv`; skips the test where perf is not permitted."""
    r = t.same(argv, "--trace=none", *options, **kw)
    t.eq(r.status, 0, "exit status")
    t.verify(r.report)
    rows = Rows(r.report)
    rows.messages = r.messages
    if rows.meta().get("perf.scope") == "refused" and "none" not in (kw.get("env") or {}).values():
        raise Skip("perf events are not permitted here")
    return rows


def near(t, seen, expected, within, what):
    if abs(seen - expected) > within:
        raise Imprecise("%s: expected %.3f, saw %.3f" % (what, expected, seen))


def at_least(t, seen, least, what):
    """For what is measured, as near() is; t.ge() is for what must be so whenever it is asked."""
    if seen < least:
        raise Imprecise("%s: expected at least %.3f, saw %.3f" % (what, least, seen))


def check_spans(t, rows):
    """Spans of a thread follow each other, and so do those of a core."""
    for key in ("thread", "cpu"):
        last = {}
        for s in rows.spans():
            t.ok(
                s["start"] >= last.get(s[key], 0),
                "span of %s %d begins at %d, before the last one's end" % (key, s[key], s["start"]),
            )
            t.ok(s["end"] == NO_TIME or s["end"] > s["start"], "a span ends after it begins")
            if s["end"] != NO_TIME:
                last[s[key]] = s["end"]


def check_times(t, rows, what=""):
    """Samples of each thread stand for all that it has run, whatever took them."""
    times = rows.times()
    for thread, (ran, told) in times.items():
        t.ok(
            abs(told - ran) <= 0.02 * ran,
            "%s thread %d ran for %.3f ms, its samples stand for %.3f"
            % (what, thread, ran / 1e6, told / 1e6),
        )
    ran = sum(v[0] for v in times.values())
    t.ok(abs(sum(v[1] for v in times.values()) - ran) <= 0.02 * ran, "%s the sum of all" % what)


def check_split(t, rows, process=None, burn=0.97):
    shares = rows.shares(process=process)
    at_least(t, sum(1 for _ in rows.samples(process)), 600, "samples of 0.8 s of CPU time")
    near(t, shares.get("three_quarters", 0), 0.75, 0.03, "share of three_quarters")
    near(t, shares.get("one_quarter", 0), 0.25, 0.03, "share of one_quarter")
    at_least(t, shares.get("main", 0), 0.97, "share of main, which calls everything")
    at_least(t, shares.get("burn", 0), burn, "share of burn, which both call")


# ---- shares
