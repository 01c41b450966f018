"""figures_sessions.py - what a program pays while its session waits, and how soon commands act."""
import os
import subprocess
import tempfile
import time

from run import Row, figure


class Session:
    """A program under `warpsight launch`, in a session folder of its own."""

    def __init__(self, b, *argv, **popen):
        self.b = b
        self.runtime = tempfile.mkdtemp(prefix="ws-bench-")
        self.env = dict(os.environ, XDG_RUNTIME_DIR=self.runtime)
        self.process = subprocess.Popen(
            [b.warpsight, "launch", "-q", "-s", "none", "-t", "nvtx", "--", *argv],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            **popen,
        )

    def tool(self, *argv):
        subprocess.run(
            [self.b.warpsight, *argv], env=self.env, check=True, stderr=subprocess.DEVNULL
        )

    def value(self):
        out, _ = self.process.communicate()
        return float(out.split()[-1])


@figure
def idle_calls(b):
    """NVTX calls while nothing is collected, nanoseconds of processor time: half a push+pop."""
    bare, ours = [], []
    for _ in range(b.runs):
        argv = [b.program("ranges_bench"), "threads", "20000000", "1"]
        bare.append(b.bare(*argv).value / 2)
        ours.append(Session(b, *argv).value() / 2)
    return [Row("NVTX call in a session that waits", "ns", bare, ours, 2, digits=2)]


def ask_report(b, report, sql):
    out = b.command([b.warpsight, "query", "-f", "csv", report, sql]).out
    return [float(x) for x in out.splitlines()[-1].split(",")]


@figure
def commands(b):
    """How soon commands act: from before `warpsight start` is run, as from a shell, to the first
    mark in the report of a program that marks all the time; and how long after `warpsight stop` was
    run its last mark is.
    """
    begins, ends = [], []
    session = Session(b, b.program("nvtx_storm"), "mark", "1000000000")
    time.sleep(0.5)
    report = b.path("commands.wsrep")
    for _ in range(max(5, b.runs)):
        before = time.time_ns()
        session.tool("start", "-f", "-o", report)
        time.sleep(0.05)
        middle = time.time_ns()
        session.tool("stop")
        # Times in reports count from the beginning of the collection.
        (zero,) = ask_report(b, report, "SELECT avg(realtime - raw) FROM WARPSIGHT_CLOCK")
        first, last = ask_report(
            b, report, "SELECT min(start), max(start) FROM NVTX_EVENTS WHERE eventType = 34"
        )
        begins.append((zero + first - before) / 1e6)
        ends.append((zero + last - middle) / 1e6)
    session.process.kill()
    session.process.wait()
    note = "the longest: %.0f ms"
    return [
        Row("start to the first event", "ms", [], begins, 50, note=note % max(begins)),
        Row("stop to the last event", "ms", [], ends, 50, note=note % max(ends)),
    ]
