"""test_metrics.py - what the machine did beside the program: --system-metrics."""
import sys

from harness import test

VALUES = """SELECT g.value, n.value, u.value, count(*), min(v.start), max(v.value)
FROM WARPSIGHT_COUNTER_VALUE v JOIN WARPSIGHT_COUNTER c ON c.id = v.counterId
JOIN StringIds g ON g.id = c.groupId JOIN StringIds n ON n.id = c.nameId
JOIN StringIds u ON u.id = c.unitId GROUP BY c.id"""

BIG = "x = bytearray(64 << 20); print(len(x))"


def read_values(t, r):
    report = t.load(r.report)
    if not report.has("WARPSIGHT_COUNTER_VALUE"):
        return report, {}
    return report, {(row[0], row[1]): row[2:] for row in report.sql(VALUES)}


@test("metrics")
def the_machine_is_recorded(t):
    r = t.profile([sys.executable, "-c", BIG], "-s", "none", "-t", "nvtx", status=0)
    report, values = read_values(t, r)
    t.ok(("Memory", "Available") in values, "memory: %r" % list(values))
    t.eq(values["Memory", "Available"][0], "B", "its unit")
    t.ge(values["Memory", "Available"][3], 1 << 20, "bytes")
    for (group, name), (_, count, start, _) in values.items():
        t.ge(count, 1, "values of %s" % name)
        t.ge(start, 0, "%s is of the collection" % name)


@test("metrics")
def what_is_wanted_is_chosen(t):
    target = [sys.executable, "-c", BIG]
    r = t.profile(target, "--system-metrics=none", output="none", status=0)
    t.eq(read_values(t, r)[1], {}, "nothing")
    r = t.profile(target, "--system-metrics=memory", output="memory", status=0)
    t.eq({group for group, _ in read_values(t, r)[1]}, {"Memory"}, "one group")
    r = t.profile(
        target,
        "--system-metrics=memory",
        "--storage-metrics=true",
        "--nic-metrics=none",
        output="two",
    )
    groups = {group for group, _ in read_values(t, r)[1]}
    t.ok("Memory" in groups and groups <= {"Memory", "Storage"}, "groups: %r" % groups)


@test("metrics")
def wrong_words_are_refused(t):
    for option, words in (
        ("--system-metrics=cpu,dsk", ("'dsk' is no group", "disk")),
        ("--system-metrics-frequency=0", ("1 to 100",)),
        ("--nic-metrics=often", ("nic-metrics",)),
    ):
        r = t.profile(["true"], option)
        t.eq(r.status, 2, option)
        for word in words:
            t.contains(r.err.decode(), word, option)
