"""figures_python.py - what Python frames cost the program, and a stack that is read from outside.
"""
import os
import shutil
import sys

from run import Row, figure

LOOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python_loop.py")
QUEUE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python_queue.py")
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


@figure
def python_queue(b):
    """The time that 50 threads on one queue take, recorded with the defaults, over a bare run's."""
    bare, ours = b.in_turn(sys.executable, QUEUE, "50", "60000")
    ratios = [o / one for one, o in zip(bare, ours)]
    return [Row("50 Python threads on one queue", "ratio", [], ratios, 1.3, added=False, digits=2)]
