"""
test_starts.py - collections that begin and end, again and again, at random moments of a program
that records without pause. WS_TEST_STARTS (20; `make torture` takes 10,000) is how many.

WAYS lists how a collection can be begun and ended. Each way is a function that makes a number of
them and checks each report; another way is another entry.
"""
import csv
import io
import os
import random

from harness import Failed, figure, test

STARTS = int(os.environ.get("WS_TEST_STARTS", "20"))
PAIRS = 20000  # that the program makes, within some tens of milliseconds

LOOK = (
    "SELECT (SELECT count(*) FROM ANALYSIS_DETAILS) AS collections,"
    " (SELECT startTime FROM ANALYSIS_DETAILS) AS begin,"
    " (SELECT stopTime FROM ANALYSIS_DETAILS) AS stop, count(*) AS ranges,"
    ' min("end") AS first,'
    " coalesce(sum(start > (SELECT stopTime FROM ANALYSIS_DETAILS)), 0) AS late,"
    " (SELECT coalesce(sum(events), 0) FROM WARPSIGHT_LOSS) AS lost"
    " FROM NVTX_EVENTS WHERE eventType = 59"
)


def check_collection(t, report):
    """What one collection must be: whole, and with nothing from before or after it. Returns its
    ranges.
    """
    t.verify(report)
    r = t.tool("query", "-f", "csv", report, LOOK)
    if r.status:
        raise Failed("query: %s" % r.said())
    row = next(csv.DictReader(io.StringIO(r.out.decode())))
    row = {name: int(value) if value else None for name, value in row.items()}
    t.eq(row["lost"], 0, "events lost")
    if not row["collections"] and not row["ranges"]:
        return 0  # the program was over before
    t.eq(row["collections"], 1, "collections")
    t.ok(row["ranges"] <= PAIRS, "more ranges than the program made: %s" % row)
    if row["first"] is not None:
        t.ok(row["begin"] <= row["first"], "a range of before the collection: %s" % row)
    # What the one thread was about to record when the collection ended may be there.
    t.ok(row["late"] <= 1, "ranges of after the collection: %s" % row)
    return row["ranges"]


def delay_and_duration(t, number):
    """Each in a recording of its own: --delay and --duration, and the program runs on."""
    rnd = random.Random(number)
    ranges = 0
    argv = [t.program("storm"), "paced", "1", str(PAIRS)]
    for _ in range(number):
        times = [
            "--delay=%.4f" % (rnd.random() * 0.04),
            "--duration=%.4f" % rnd.uniform(0.001, 0.03),
        ]
        r = t.profile(argv, *times, "-f", "--kill=none", "--trace=nvtx", status=0)
        t.eq((r.out, r.target_err), (b"done\n", b""), "what the program prints")
        if r.reports:
            ranges += check_collection(t, r.report)
        elif "no report" not in r.messages and "ended before" not in r.messages:
            raise Failed("no report, and no word why: %s" % r.said())
    return ranges


WAYS = {
    "delay-and-duration": delay_and_duration,
}


def add_way(name, way):
    def starts(t):
        ranges = way(t, STARTS)
        figure("%s: %d collections begun and ended, %d ranges in them" % (name, STARTS, ranges))

    starts.__name__ = name
    test("starts")(starts)


for name, way in WAYS.items():
    add_way(name, way)
