#!/usr/bin/env python3
"""
kernel.py - kernels measured by warpsight beside Nsight Compute on a GPU machine: the time that
either adds to a bare run, and the values of both:

    kernel.py --warpsight BINARY [--ncu NCU] [--set SET] [--cache-control all|none] [--skip N]
    [--count N] [--rounds N] [--all] -- PROGRAM [ARG...]

Both leave the clocks alone. Durations are those of the whole program, the least of the rounds, run
in turn. A metric is marked if the median over the launches is off by more than 3 %, and, of a
percentage, by more than one point; --all prints the others too.
"""
import argparse
import csv
import io
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

p = argparse.ArgumentParser()
p.add_argument("--warpsight", required=True)
p.add_argument("--ncu", default=shutil.which("ncu") or "/usr/local/cuda/bin/ncu")
p.add_argument("--set", default="basic")
p.add_argument("--cache-control", default="all")
p.add_argument("--skip", type=int, default=0)
p.add_argument("--count", type=int, default=20)
p.add_argument("--rounds", type=int, default=2)
p.add_argument("--all", action="store_true")
p.add_argument("program", nargs="+")
A = p.parse_args()
TMP = tempfile.mkdtemp(prefix="warpsight-kernel-bench-")
REPORT = os.path.join(TMP, "ours.wsrep")
CHOICE = [
    *("--set", A.set, "--cache-control", A.cache_control, "--clock-control", "none"),
    *("--launch-skip", str(A.skip), "--launch-count", str(A.count)),
]
OURS = [A.warpsight, "kernel", "-q", "-f", "-o", REPORT, *CHOICE, "--"]
THEIRS = [A.ncu, "--csv", "--page", "raw", "--print-units", "base", *CHOICE]


def run(command):
    began = time.monotonic()
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode:
        sys.exit(f"{command[0]} failed: {result.stdout}{result.stderr}")
    return time.monotonic() - began, result.stdout


def read_csv(text):
    """The rows of a page raw, without its line of units."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    return list(csv.DictReader(io.StringIO("\n".join(lines))))[1:]


def number(text):
    try:
        return float(text.replace(",", ""))
    except (ValueError, AttributeError):
        return None


def compare(ours, theirs):
    """(metric, launches, median of relative differences, greatest, median of differences, pairs)"""
    for name in ours[0]:
        pairs = [(number(a.get(name)), number(b.get(name))) for a, b in zip(ours, theirs)]
        pairs = [pair for pair in pairs if None not in pair]
        if "__" not in name or not pairs:
            continue
        relative = [abs(a - b) / abs(b) if b else float(a != b) for a, b in pairs]
        absolute = [abs(a - b) for a, b in pairs]
        yield (
            *(name, len(pairs), statistics.median(relative), max(relative)),
            *(statistics.median(absolute), pairs),
        )


def main():
    seconds = {"bare": [], "warpsight": [], "ncu": []}
    ncu_text = ""
    for _ in range(A.rounds):
        seconds["bare"].append(run(A.program)[0])
        seconds["warpsight"].append(run([*OURS, *A.program])[0])
        took, ncu_text = run([*THEIRS, *A.program])
        seconds["ncu"].append(took)
    best = {tool: min(times) for tool, times in seconds.items()}
    added = {tool: best[tool] - best["bare"] for tool in ("warpsight", "ncu")}
    print(f"bare {best['bare']:.2f} s; added: warpsight {added['warpsight']:.2f} s, ", end="")
    print(f"ncu {added['ncu']:.2f} s, ratio {added['warpsight'] / added['ncu']:.2f}")
    page = run([A.warpsight, "kernel", "--csv", "--page", "raw", REPORT])[1]
    ours, theirs = read_csv(page), read_csv(ncu_text)
    print(f"launches: warpsight {len(ours)}, ncu {len(theirs)}")
    if not ours or not theirs:
        sys.exit("there is nothing to compare")
    outside = total = 0
    for name, count, relative, most, absolute, pairs in compare(ours, theirs):
        good = relative <= 0.03 or ("pct" in name and absolute <= 1)
        total += 1
        outside += not good
        if A.all or not good:
            example = "%.6g / %.6g" % pairs[len(pairs) // 2]
            print(
                f"{name:80} {count:3} launches, off by {100 * relative:7.2f} %, at most "
                f"{100 * most:8.2f} %, e.g. {example}{'' if good else '  <--'}"
            )
    print(f"{total} metrics, {outside} outside")
    shutil.rmtree(TMP)


main()
