"""figures_analysis.py - whether `diff` is right about noise and about a planted change, and what
recording the machine beside the program costs."""
import json
import os
import resource

from run import Row, figure

PAIRS = 20
SECONDS, HZ = 5, 100  # ten times as often as it is done, so that the cost can be measured


def diff(b, base, new):
    out = b.command([b.warpsight, "diff", "-f", "json", base, new]).out
    return json.loads(out)


def make_run(b, seed, *words):
    path = b.path("run%d.wsrep" % seed)
    if os.path.exists(path):
        os.unlink(path)
    program = os.path.join(b.build, "tests", "compare", "make_run")
    b.command([program, path, "seed=%d" % seed, *words])
    return path


@figure
def comparisons(b):
    """Runs of one program, with the noise of a real machine, made up: pairs of the same code, and
    of one kernel that takes 5 % longer in the second."""
    alarms = found = 0
    for i in range(PAIRS):
        base = make_run(b, 2 * i + 1)
        same = diff(b, base, make_run(b, 2 * i + 2))
        alarms += same["changed"] > 0 or same["step"]["verdict"] != "no_change"
        slower = diff(b, base, make_run(b, 2 * i + 2, "kernel=6", "slower=0.05"))
        kinds = [x["kind"] for x in slower["items"] if x["verdict"] == "slower"]
        found += "kernel" in kinds
    name = "diff, %d pairs: " % PAIRS
    return [
        Row(name + "same code, a change is named", "pairs", [], [alarms], 1, digits=0),
        Row(
            name + "a kernel 5 % slower, found",
            "pairs",
            [],
            [found],
            PAIRS - 1,
            at_least=True,
            digits=0,
        ),
    ]


def processor_time(b, groups):
    """Of a recording in which nothing happens, the recorder's included, in percent of a core."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    options = ["-s", "none", "--cpuctxsw=none", "-t", "nvtx", "--no-findings"]
    options += ["--system-metrics=" + groups, "--system-metrics-frequency=%d" % HZ]
    b.profile("sleep", str(SECONDS), options=options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return 100 * spent / SECONDS * 10 / HZ  # at ten readings a second


@figure
def system_metrics(b):
    """What reading the machine ten times a second takes."""
    none, every = [], []
    for _ in range(b.runs):
        none.append(processor_time(b, "none"))
        every.append(processor_time(b, "all"))
    row = Row("the machine's metrics, 10 Hz", "% of a core", none, every, 0.2, digits=3)
    return [row]
