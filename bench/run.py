#!/usr/bin/env python3
"""
run.py - what recording costs, beside the bare runs: run.py --build BUILD-FOLDER [--runs N] [--only
WORDS].

Each figure is measured bare and recorded in turn, several times, on this machine; the table shows
medians, what recording adds, the limit that the project sets itself and whether it holds. Figures
are functions in figures_*.py beside this file, added with @figure; a figure gives Rows, each as
soon as it is measured. Nothing here is part of the tests: a busy machine may miss a limit without
anything being broken.
"""
import argparse
import glob
import importlib
import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.modules.setdefault("run", sys.modules[__name__])  # figures import this file under its name

FIGURES = []


def figure(fn):
    FIGURES.append(fn)
    return fn


class Row:
    """
    One line of the table. bare and ours are lists of measurements (bare may be empty); `added`
    tells what is held against the limit: the difference of the medians (True) or ours alone
    (False). at_least: the limit is a floor.
    """

    def __init__(
        self, name, unit, bare, ours, limit, added=True, at_least=False, digits=1, note=""
    ):
        self.name, self.unit, self.digits, self.note, self.limit = name, unit, digits, note, limit
        self.bare = statistics.median(bare) if bare else None
        self.ours = statistics.median(ours)
        self.added = self.ours - self.bare if self.bare is not None else None
        value = self.added if added and self.added is not None else self.ours
        self.holds = None if limit is None else value >= limit if at_least else value <= limit
        self.limit_text = (
            "" if limit is None else "%s %s" % (">=" if at_least else "<=", self.number(limit))
        )

    def number(self, v):
        return "" if v is None else "{:,.{}f}".format(v, self.digits)

    def cells(self):
        verdict = {None: "", True: "ok", False: "MISSED"}[self.holds]
        return [
            self.name,
            self.unit,
            self.number(self.bare),
            self.number(self.ours),
            self.number(self.added),
            self.limit_text,
            verdict,
            self.note,
        ]


class Run:
    """One finished command: seconds, output, the recorder's peak memory in MiB."""

    def __init__(self, seconds, out, peak):
        self.seconds, self.out, self.peak = seconds, out, peak

    @property
    def value(self):
        return float(self.out.split()[-1])


class Bench:
    def __init__(self, build, runs, warpsight=None, kept=None):
        """kept: the folder that reports are written to and stay in, instead of a temporary one."""
        self.build, self.runs, self.kept = build, runs, kept
        self.warpsight = warpsight or os.path.join(build, "warpsight")
        self.broken = 0  # what could not be measured
        self.dir = kept or tempfile.mkdtemp(prefix="ws-bench-")
        os.makedirs(self.dir, exist_ok=True)
        self.env = {
            k: v for k, v in os.environ.items() if not k.startswith(("WARPSIGHT", "NVTX_", "LD_"))
        }

    def program(self, name):
        path = os.path.join(self.build, "bench", name)
        if not os.path.exists(path):
            raise RuntimeError("%s is not built" % path)
        return path

    def path(self, name):
        return os.path.join(self.dir, name)

    def command(self, argv, poll=False, silent=False):
        """silent: what it prints goes to /dev/null, where it may be hundreds of megabytes that we
        would be timed reading.
        """
        begin = time.monotonic()
        p = subprocess.Popen(
            argv,
            stdout=subprocess.DEVNULL if silent else subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.env,
            cwd=self.dir,
        )
        peak = 0
        if (
            poll
        ):  # VmHWM of the recorder itself: rusage would give the largest of it and its children
            while True:
                try:
                    with open("/proc/%d/status" % p.pid) as f:
                        m = re.search(r"VmHWM:\s+(\d+)", f.read())
                    peak = max(peak, int(m.group(1)) if m else 0)
                except OSError:
                    pass
                try:
                    p.wait(0.02)
                    break
                except subprocess.TimeoutExpired:
                    pass
        out, err = p.communicate(timeout=300)
        took = time.monotonic() - begin
        if p.returncode:
            raise RuntimeError(
                "%s: status %d: %s" % (" ".join(argv), p.returncode, err.decode("utf-8", "replace"))
            )
        return Run(took, (out or b"").decode(), peak / 1024)

    def bare(self, *argv):
        return self.command(list(argv))

    def profile(self, *argv, options=(), report="bench.wsrep", poll=False):
        return self.command(
            [self.warpsight, "profile", "-f", "-o", self.path(report), *options, *argv], poll
        )

    def in_turn(self, *argv, options=()):
        """(bare, ours): the value that the program prints, run by run, by turns so that a drift of
        the machine hits both.
        """
        bare, ours = [], []
        for _ in range(self.runs):
            bare.append(self.bare(*argv).value)
            ours.append(self.profile(*argv, options=options).value)
        return bare, ours

    def lost(self, report="bench.wsrep"):
        """Events lost, by the report's own table."""
        r = self.command([self.warpsight, "info", "--json", self.path(report)])
        return sum(loss["events"] for loss in json.loads(r.out)["losses"])


def machine():
    cpu = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as f:
            cpu = next((l.split(":", 1)[1].strip() for l in f if l.startswith("model name")), cpu)
        with open("/proc/meminfo") as f:
            memory = int(f.readline().split()[1]) // 1024 // 1024
        with open("/sys/devices/system/clocksource/clocksource0/current_clocksource") as f:
            clock = f.read().strip()
    except OSError:
        memory, clock = 0, "?"
    return "%s, %d cores, %d GiB, Linux %s, clock source %s, load %.1f" % (
        cpu,
        os.cpu_count(),
        memory,
        platform.release(),
        clock,
        os.getloadavg()[0],
    )


# Title and width of each column; those of numbers are negative, and stand to the right. Rows come
# one by one, so that widths cannot follow what is in them.
COLUMNS = [
    ("figure", 60),
    ("unit", 8),
    ("bare", -12),
    ("ours", -12),
    ("added", -12),
    ("limit", -11),
    ("verdict", 7),
    ("", 0),
]


def show_line(cells):
    widths = [width for _, width in COLUMNS]
    padded = [c.ljust(w) if w >= 0 else c.rjust(-w) for c, w in zip(cells, widths)]
    print("  ".join(padded).rstrip(), flush=True)


def show_head():
    show_line([title for title, _ in COLUMNS])
    show_line(["-" * abs(width) for _, width in COLUMNS])


def main():
    p = argparse.ArgumentParser(description="Measure what recording costs.")
    p.add_argument("--build", default=os.path.join(HERE, "..", "build"))
    p.add_argument("--warpsight", help="the program to measure (BUILD/warpsight)")
    p.add_argument("--keep", metavar="FOLDER", help="write reports there, and leave them")
    p.add_argument(
        "--runs",
        type=int,
        default=int(os.environ.get("WS_BENCH_RUNS", "5")),
        help="runs of each figure (5)",
    )
    p.add_argument(
        "--only",
        default="",
        help="only figures whose function name matches this regular expression",
    )
    a = p.parse_args()
    for path in sorted(glob.glob(os.path.join(HERE, "figures_*.py"))):
        importlib.import_module(os.path.basename(path)[:-3])
    b = Bench(os.path.abspath(a.build), a.runs, a.warpsight, a.keep and os.path.abspath(a.keep))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows = []
    if os.getloadavg()[0] > 0.7 * os.cpu_count():
        print(
            "the machine is busy with other work (load %.1f): figures of nanoseconds will be too"
            " high" % os.getloadavg()[0]
        )
    print(
        "machine: %s; medians of %d runs, bare and recorded in turn\n" % (machine(), a.runs),
        flush=True,
    )
    show_head()
    try:
        for fn in FIGURES:
            if not re.search(a.only, fn.__name__):
                continue
            print("measuring %s ..." % fn.__name__.replace("_", " "), file=sys.stderr, flush=True)
            try:
                for row in fn(b):
                    show_line(row.cells())
                    rows.append(row)
            except (RuntimeError, OSError, ValueError, IndexError, subprocess.TimeoutExpired) as e:
                b.broken += 1
                print("bench: %s could not be measured: %s" % (fn.__name__, e), file=sys.stderr)
    finally:
        if not b.kept:
            shutil.rmtree(b.dir, ignore_errors=True)
    missed = sum(r.holds is False for r in rows)
    print(
        "\n%d figures, %d limits missed, %d figures could not be measured"
        % (len(rows), missed, b.broken)
    )
    return 1 if b.broken else 0


if __name__ == "__main__":
    sys.exit(main())
