"""figures_python.py - what Python frames cost the program, and a stack that is read from outside."""
import os
import shutil

from run import Row, figure

LOOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python_loop.py")
NOTHING = ("--trace=none", "--sample=none", "--cpuctxsw=none")


@figure
def python_loop(b):
    """Processor time of a loop in Python, recorded in several ways, over that with nothing recorded."""
    ways = (("--trace=none", "--python-sampling=false"), ("--trace=none", "--sample=none", "--cpuctxsw=none", "--python-sampling=true"), ("--trace=none",), ())
    seen = [[] for _ in ways]
    python = shutil.which("python3")
    for _ in range(b.runs + 1):
        base = b.profile(python, LOOP, "600", options=NOTHING).value
        for i, way in enumerate(ways):
            seen[i].append(b.profile(python, LOOP, "600", options=way).value / base)
    names = ("Python loop, CPU samples without Python frames", "Python loop, Python frames alone at 1 kHz", "Python loop, both",
             "Python loop, everything that is on by default")
    return [Row(name, "ratio", [], s[1:], limit, added=False, digits=3) for name, s, limit in zip(names, seen, (None, 1.02, None, None))]


@figure
def python_stack_from_outside(b):
    got = [b.command([b.program("python_bench"), shutil.which("python3"), "20000"]).value for _ in range(b.runs)]
    return [Row("Python stack of 30 frames read from outside", "us", [], got, 20, added=False, digits=2)]
