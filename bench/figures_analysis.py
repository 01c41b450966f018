"""figures_analysis.py - whether `diff` is right about noise and about a planted change, and what
recording the machine beside the program costs."""
import json
import os
import resource
import sys

from run import HERE, Row, figure

PAIRS = int(os.environ.get("WS_BENCH_PAIRS", "20"))
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


def row_of_alarms(what, alarms):
    name = "diff of %s, %d pairs: a change" % (what, PAIRS)
    return Row(name, "pairs", [], [len(alarms)], 1, digits=0, note="; ".join(alarms))


def rows_of_pairs(what, alarms, found, item):
    name = "diff of %s, %d pairs: %s" % (what, PAIRS, item)
    return [
        row_of_alarms(what, alarms),
        Row(name, "pairs", [], [found], PAIRS - 1, at_least=True, digits=0),
    ]


def alarms_of(out):
    """What `diff` says has changed where nothing did."""
    step = [out["step"]["verdict"]] if out["step"]["verdict"] != "no_change" else []
    named = [
        "%s %s %s" % (x["kind"], x["name"], x["verdict"])
        for x in out["items"]
        if x["verdict"] != "no_change"
    ]
    return step + named[:2] if step or out["changed"] else []


def is_named(out, kind, name=""):
    """Whether an item of this kind is said to be slower."""
    return any(
        x["kind"] == kind and x["verdict"] == "slower" and name in x["name"] for x in out["items"]
    )


@figure
def comparisons(b):
    """Runs of one program, with the noise of a real machine, made up: pairs of the same code, and
    of one kernel that takes 5 % longer in the second."""
    alarms, found = [], 0
    for i in range(PAIRS):
        base = make_run(b, 2 * i + 1)
        alarms += [", ".join(x) for x in [alarms_of(diff(b, base, make_run(b, 2 * i + 2)))] if x]
        slower = diff(b, base, make_run(b, 2 * i + 2, "kernel=6", "slower=0.05"))
        found += is_named(slower, "kernel")
    return rows_of_pairs("made-up runs", alarms, found, "a kernel 5 % slower, found")


def change_of(out, kind, name):
    """By how much an item changed, as a share, whether or not that counts."""
    return next(x["change"] for x in out["items"] if x["kind"] == kind and x["name"] == name)


def compare_real(b, program, options, kind, name, runs=1):
    """The alarms of pairs of runs of the same code, what was said of these pairs, and how often
    the part that is 5 % slower is named in comparisons of so many runs a side.
    """

    def record(report, *words):
        b.profile("-q", "--no-findings", program, *words, options=options, report=report)
        return b.path(report)

    alarms, pairs, found, bases, slowers = [], [], 0, [], []
    for i in range(PAIRS):
        bases.append(record("base%d.wsrep" % len(bases)))
        pairs.append(diff(b, bases[-1], record("same.wsrep")))
        slowers.append(record("slower%d.wsrep" % len(slowers), "0.05"))
        alarms += [", ".join(x) for x in [alarms_of(pairs[-1])] if x]
        if len(bases) == runs:
            found += is_named(diff(b, ",".join(bases), ",".join(slowers)), kind, name)
            bases, slowers = [], []
        print("  %d pairs: %d alarms, %d found" % (i + 1, len(alarms), found), file=sys.stderr)
    return alarms, pairs, found


@figure
def comparisons_cpu(b):
    """Runs of a real program of marked steps on CPUs. How small a change can be found follows from
    how much runs of the same code differ on this machine, so that it has no limit.
    """
    kind, name, runs = "range", "score", 5
    program = b.program("steps_bench")
    alarms, pairs, found = compare_real(b, program, ["-t", "nvtx,osrt"], kind, name, runs)
    changes = sorted(100 * abs(change_of(pair, kind, name)) for pair in pairs)
    yield row_of_alarms("runs on CPUs", alarms)
    yield Row(
        "diff of %d times %d runs a side: a range 5 %% slower" % (PAIRS // runs, runs),
        "found",
        [],
        [found],
        None,
        digits=0,
        note="the range of pairs of the same code differs by %.1f %% (median), %.1f %% (most)"
        % (changes[len(changes) // 2], changes[-1]),
    )


@figure
def comparisons_gpu(b):
    """Runs of a real program of marked steps on a GPU."""
    program = b.path("steps_bench_gpu")
    source = os.path.join(HERE, "steps_bench.cu")
    b.command(["nvcc", "-O2", "-arch=native", "-o", program, source])
    alarms, _, found = compare_real(b, program, ["-t", "cuda,nvtx"], "kernel", "attend")
    return rows_of_pairs("runs on a GPU", alarms, found, "a kernel 5 % slower, found")


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
