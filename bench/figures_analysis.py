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


def rows_of_pairs(what, alarms, found, item):
    name = "diff of %s, %d pairs: " % (what, PAIRS)
    return [
        Row(name + "a change", "pairs", [], [len(alarms)], 1, digits=0, note="; ".join(alarms)),
        Row(name + item, "pairs", [], [found], PAIRS - 1, at_least=True, digits=0),
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


def compare_real(b, program, options, kind, name):
    """The alarms of pairs of runs of the same code, and in how many pairs the part that is 5 %
    slower in the second is named."""

    def record(report, *words):
        b.profile("-q", "--no-findings", program, *words, options=options, report=report)
        return b.path(report)

    alarms, found = [], 0
    for i in range(PAIRS):
        base, same = record("base.wsrep"), record("same.wsrep")
        slower = record("slower.wsrep", "0.05")
        alarms += [", ".join(x) for x in [alarms_of(diff(b, base, same))] if x]
        found += is_named(diff(b, base, slower), kind, name)
        print("  %d pairs: %d alarms, %d found" % (i + 1, len(alarms), found), file=sys.stderr)
    return alarms, found


@figure
def comparisons_cpu(b):
    """Runs of a real program of marked steps on CPUs, as noisy as this machine is."""
    program = b.program("steps_bench")
    alarms, found = compare_real(b, program, ["-t", "nvtx,osrt"], "range", "score")
    return rows_of_pairs("runs on CPUs", alarms, found, "a range 5 % slower, found")


@figure
def comparisons_gpu(b):
    """Runs of a real program of marked steps on a GPU."""
    program = b.path("steps_bench_gpu")
    source = os.path.join(HERE, "steps_bench.cu")
    b.command(["nvcc", "-O2", "-arch=native", "-o", program, source])
    alarms, found = compare_real(b, program, ["-t", "cuda,nvtx"], "kernel", "attend")
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
