#!/usr/bin/env python3
"""
kernel.py - kernels measured by warpsight beside Nsight Compute on a GPU machine: the time that
either adds to a bare run, and the values of both, for every set and cache setting:

    kernel.py --warpsight BINARY [--ncu NCU] [--set SET,...] [--cache-control all,none] [--skip N]
    [--count N] [--from-start off] [--rounds N] [--twice] [--all] [--keep FOLDER]
    -- PROGRAM [ARG...]

Both leave the clocks alone. Times are those of the whole program, the least of the rounds, run in
turn; without rounds (0), only values are compared. A metric's difference is the median over the
launches; CLASSES says what is allowed. With --twice ncu runs once more and is compared with itself:
what it does not reproduce is no fault of ours. With --keep, what ncu printed is kept in the folder,
and used instead of running it if it is there.
"""
import argparse
import csv
import io
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

# (class, names or None, units or None, allowed: relative, allowed: points of a percentage)
CLASSES = (
    ("limits", r"^launch__|^sm__maximum_warps", None, 0, 0),
    ("duration", r"^gpu__time_duration", None, 0.05, 0),
    ("hit rates", r"hit_rate", None, 0, 2),
    ("stalls", r"issue_stalled", None, 0.03, 1),
    ("bytes", r"^((?!pct).)*$", r"byte", 0.03, 0),
    ("throughput", r"pct|ratio|per_cycle|per_second|cycles|time", None, 0.03, 1),
    ("counts", None, None, 0.005, 0),
)
# Stalls are not percentages: one point of them is a hundredth of the latency of a warp.
LATENCIES = (
    "smsp__average_warp_latency_per_inst_issued.ratio",
    "smsp__average_warps_active_per_inst_executed.ratio",
)


def read_arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--warpsight", required=True)
    p.add_argument("--ncu", default=shutil.which("ncu") or "/usr/local/cuda/bin/ncu")
    p.add_argument("--set", default="basic")
    p.add_argument("--cache-control", default="all,none")
    p.add_argument("--skip", type=int, default=0)
    p.add_argument("--count", type=int, default=20)
    p.add_argument("--from-start", choices=("on", "off"), default="on")
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--twice", action="store_true")
    p.add_argument("--all", action="store_true", help="print metrics that agree, too")
    p.add_argument("--keep")
    p.add_argument("program", nargs="+")
    return p.parse_args()


def time_command(command):
    began = time.monotonic()
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode:
        sys.exit(f"{command[0]} failed: {result.stdout}{result.stderr}")
    return time.monotonic() - began, result.stdout


def read_page(text):
    """(rows of a page raw, unit of each column)"""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    return (rows[1:], rows[0]) if rows else ([], {})


def read_number(text):
    try:
        return float(text.replace(",", ""))
    except (ValueError, AttributeError):
        return None


def read_pair(ours, theirs):
    """Both numbers, ours with as many digits as ncu has printed; or None."""
    a, b = read_number(ours), read_number(theirs)
    if a is None or b is None:
        return None
    return round(a, len(theirs.partition(".")[2])), b


def find_class(name, unit):
    for entry in CLASSES:
        if (not entry[1] or re.search(entry[1], name)) and (
            not entry[2] or re.search(entry[2], unit)
        ):
            return entry


def find_scale(name, unit, theirs):
    """What one point of the metric is, in its unit."""
    if "issue_stalled" not in name or "pct" in name:
        return 1 if "pct" in name or "%" in unit else 0
    latencies = [read_number(row.get(x)) for row in theirs for x in LATENCIES]
    latencies = [x for x in latencies if x]
    return statistics.median(latencies) / 100 if latencies else 0


def compare_metric(name, unit, ours, theirs):
    """None, or (class, whether it is within, relative, points, greatest relative, pairs)"""
    pairs = [read_pair(a.get(name), b.get(name)) for a, b in zip(ours, theirs)]
    pairs = [pair for pair in pairs if pair]
    if not pairs:
        return None
    relative = [abs(a - b) / abs(b) if b else float(a != b) for a, b in pairs]
    scale = find_scale(name, unit, theirs)
    if "hit_rate" in name and not scale:
        scale = 0.01
    points = statistics.median(abs(a - b) for a, b in pairs) / scale if scale else float("inf")
    kind, _, _, allowed, allowed_points = find_class(name, unit)
    middle = statistics.median(relative)
    good = middle <= allowed or (allowed_points > 0 and points <= allowed_points)
    return kind, good, middle, points, max(relative), pairs


def describe(found):
    """A comparison with ncu in one line, and whether it is within what is allowed."""
    if not found:
        return " " * 44
    _, good, middle, points, most, _ = found
    mark = "" if good else " <--"
    return f"median {100 * middle:7.2f} % {points:6.2f} points, most {100 * most:7.2f} %{mark}"


def print_comparison(ours, theirs, again, units, every):
    """`again`: what ncu measured in its second run, or nothing."""
    table = {entry[0]: [0, 0, 0] for entry in CLASSES}
    for name in ours[0]:
        unit = units.get(name) or ""
        about_launch = "__" in name and not re.match("device__|profiler__|nvlink__", name)
        found = compare_metric(name, unit, ours, theirs) if about_launch else None
        if not found:
            continue
        itself = compare_metric(name, unit, again, theirs) if again else None
        kind, good, pairs = found[0], found[1], found[5]
        table[kind][0] += 1
        table[kind][1] += not good
        table[kind][2] += bool(itself and not itself[1])
        if every or not good:
            example = ", ".join("%.5g/%.5g" % pair for pair in pairs[:4])
            also = f"; ncu itself {describe(itself)}" if itself else ""
            print(f"  {kind:10} {name:72} {describe(found)}{also}; {example}")
    for kind, _, _, allowed, points in CLASSES:
        total, outside, unsteady = table[kind]
        also = f" or {points} points" if points else ""
        itself = f", ncu itself {unsteady:3}" if again else ""
        print(
            f"  {kind:10} {total:4} metrics, {outside:3} beyond {100 * allowed:g} %{also}{itself}"
        )


def measure_ncu(a, choice, kept):
    if kept and os.path.exists(kept):
        with open(kept, encoding="utf-8") as f:
            seconds, text = f.read().split("\n", 1)
        return float(seconds), text
    command = [a.ncu, "--csv", "--page", "raw", "--print-units", "base", *choice, *a.program]
    seconds, text = time_command(command)
    if kept:
        with open(kept, "w", encoding="utf-8") as f:
            f.write(f"{seconds}\n{text}")
    return seconds, text


def count_passes(a, report):
    """The most of a launch."""
    query = "SELECT max(passes) AS n FROM WARPSIGHT_KERNEL_RESULT"
    command = [a.warpsight, "query", "--format", "json", report, query]
    return json.loads(time_command(command)[1])[0]["n"]


def count_ncu_passes(rows):
    passes = [read_number(row.get("profiler__replayer_passes")) for row in rows]
    return max((int(n) for n in passes if n), default="unknown")


def compare_tools(a, metrics, cache, bare, folder):
    report = os.path.join(folder, "ours.wsrep")
    choice = [
        *("--set", metrics, "--cache-control", cache, "--clock-control", "none"),
        *("--launch-skip", str(a.skip), "--launch-count", str(a.count)),
        *("--profile-from-start", a.from_start),
    ]
    kept = os.path.join(a.keep, f"ncu-{metrics}-{cache}") if a.keep else ""
    ours, theirs = [], []
    for _ in range(max(a.rounds, 1)):
        command = [a.warpsight, "kernel", "-q", "-f", "-o", report, *choice, "--", *a.program]
        ours.append(time_command(command)[0])
        seconds, text = measure_ncu(a, choice, kept and kept + ".csv")
        theirs.append(seconds)
    second = measure_ncu(a, choice, kept and kept + "-2.csv")[1] if a.twice else ""
    page = time_command([a.warpsight, "kernel", "--csv", "--page", "raw", report])[1]
    mine, _ = read_page(page)
    other, units = read_page(text)
    added = min(ours) - bare, min(theirs) - bare
    print(
        f"set {metrics}, cache control {cache}: launches warpsight {len(mine)}, ncu {len(other)}; "
        f"added: warpsight {added[0]:.2f} s, ncu {added[1]:.2f} s, ratio {added[0] / added[1]:.2f}"
    )
    if not mine or not other:
        sys.exit("there is nothing to compare")
    print(f"  passes: warpsight {count_passes(a, report)}, ncu {count_ncu_passes(other)}")
    print_comparison(mine, other, read_page(second)[0], units, a.all)


def main():
    a = read_arguments()
    folder = tempfile.mkdtemp(prefix="warpsight-kernel-bench-")
    if a.keep:
        os.makedirs(a.keep, exist_ok=True)
    bare = min((time_command(a.program)[0] for _ in range(a.rounds)), default=0)
    print(f"bare {bare:.2f} s")
    for metrics in a.set.split(","):
        for cache in a.cache_control.split(","):
            compare_tools(a, metrics, cache, bare, folder)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
