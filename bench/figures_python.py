"""figures_python.py - what Python frames cost the program, and a stack that is read from outside.
"""
import os
import shutil
import statistics
import sys

from run import Row, figure

LOOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python_loop.py")
CONTENDED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python_contended.py")
CALLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python_calls.py")
NOTHING = ("--trace=none", "--sample=none", "--cpuctxsw=none")


@figure
def python_loop(b):
    """Processor time of a loop in Python, recorded in several ways, over that with nothing
    recorded.
    """
    alone = ("--trace=none", "--sample=none", "--cpuctxsw=none", "--python-sampling=true")
    ways = (
        (
            "CPU samples without Python frames",
            ("--trace=none", "--python-sampling=false"),
            None,
            None,
        ),
        (
            "CPU samples with Python frames",
            ("--trace=none",),
            None,
            1.02,
        ),  # in the kernel, where that is permitted
        ("CPU samples, and Python frames by signals", ("--trace=none",), "signals", None),
        ("Python frames by signals alone", alone, "signals", None),
        ("everything that is on by default", (), None, None),
    )
    seen = [[] for _ in ways]
    python = shutil.which("python3")
    for _ in range(b.runs + 1):
        base = b.profile(python, LOOP, "2000", options=NOTHING).value
        for (_, options, way, _), got in zip(ways, seen):
            if way:
                b.env["WARPSIGHT_PYTHON"] = way
            got.append(b.profile(python, LOOP, "2000", options=options).value / base)
            b.env.pop("WARPSIGHT_PYTHON", None)
    return [
        Row("Python loop, " + name, "ratio", [], got[1:], limit, added=False, digits=3)
        for (name, _, _, limit), got in zip(ways, seen)
    ]


@figure
def python_stack_from_outside(b):
    got = [
        b.command([b.program("python_bench"), shutil.which("python3"), "20000"]).value
        for _ in range(b.runs)
    ]
    return [
        Row("Python stack of 30 frames read from outside", "us", [], got, 20, added=False, digits=2)
    ]


# What is measured, kind, threads and items: a second or less each.
CONTENTION = (
    ("50 Python threads on a queue of 4", "short-queue", 50, 60000),
    ("50 Python threads on a queue of 100", "queue", 50, 500000),
    ("8 Python threads on a queue of 100", "queue", 8, 500000),
    ("200 Python threads on a queue of 100", "queue", 200, 500000),
    ("50 Python threads on a condition", "condition", 50, 2000),
    ("50 Python threads on a lock", "lock", 50, 40000),
    ("A thread pool of 50", "pool", 50, 50000),
    ("A thread pool of 50, from asyncio", "executor", 50, 30000),
)


def compare_contended(b, name, *argv):
    """A row: the time that threads which wait for one another take, recorded with the defaults,
    over a bare run's. Single runs differ much, so the medians are compared.
    """
    bare, ours = b.in_turn(*argv)
    ratio = statistics.median(ours) / statistics.median(bare)
    return Row(name, "ratio", [], [ratio], 1.3, added=False, digits=2)


@figure
def contended(b):
    program = b.program("contended_bench")
    yield compare_contended(b, "50 C threads on a queue of 100", program, "50", "3000000")
    for name, kind, threads, items in CONTENTION:
        argv = [sys.executable, CONTENDED, kind, str(threads), str(items)]
        yield compare_contended(b, name, *argv)


@figure
def python_functions(b):
    """A call of a Python function, of one that --python-functions-trace names and of another."""
    python = sys.executable
    version = "%d.%d" % sys.version_info[:2]
    wanted = b.path("functions.json")
    with open(wanted, "w") as f:
        f.write('[{"module": "__main__", "functions": ["named"]}]')
    options = (*NOTHING, "--no-findings", "--python-functions-trace=" + wanted)
    for which in "another", "a named":
        words = [python, CALLS, *["named"] * (which == "a named")]
        bare, ours = [], []
        for _ in range(b.runs):
            bare.append(b.command(words).value)
            ours.append(b.profile(*words, options=options).value)
        name = "call of %s function, CPython %s" % (which, version)
        yield Row(name, "ns", bare, ours, None)
