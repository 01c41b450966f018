#!/usr/bin/env python3
"""
kernel_promises.py - what is promised of kernel profiling, in one table, on a GPU machine with
PyTorch, nvcc and Nsight Compute:

    kernel_promises.py --warpsight BINARY [--ncu NCU] [--count N] [--set SET,...]
    [--cache-control all,none] [--rounds N] [--processes N] [--only values,launches,verdicts]

values: what both tools add to a training step, their passes, and every metric of both (kernel.py);
ncu runs twice, so that what it does not reproduce is known. launches: what launches cost that are
not measured, bare and under warpsight, in turns. verdicts: of a product of matrices, a softmax of
Triton, a reduction, a bf16 product of cuBLAS and attention, beside ncu's.
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

import kernel

HERE = os.path.dirname(os.path.abspath(__file__))
LAUNCH_NS = 200  # that a launch may cost more
# What a verdict is about, by words of either tool's.
VERDICTS = (
    ("small grid", r"grid is too small|^Small grid"),
    ("latency", r"low compute throughput and memory|^Bound by latency"),
    ("balanced", r"well-balanced|^Balanced"),
    ("memory", r"Memory is more heavily|[Bb]ound by memory|in the .?Memory Workload"),
    ("compute", r"Compute is more heavily|[Bb]ound by compute|in the .?Compute Workload"),
)


def read_arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--warpsight", required=True)
    p.add_argument("--ncu", default=shutil.which("ncu") or "/usr/local/cuda/bin/ncu")
    p.add_argument("--nvcc", default=shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")
    p.add_argument("--count", default="20")
    p.add_argument("--set", default="full,basic")
    p.add_argument("--cache-control", default="all,none")
    p.add_argument("--rounds", default="1")
    p.add_argument("--processes", type=int, default=9, help="of each kind, for launches")
    p.add_argument("--only", default="values,launches,verdicts")
    return p.parse_args()


def build(a, name, folder):
    program = os.path.join(folder, name)
    source = os.path.join(HERE, name + ".cu")
    subprocess.run([a.nvcc, "-O2", "-lineinfo", "-o", program, source], check=True)
    return program


def print_values(a, folder):
    command = [sys.executable, os.path.join(HERE, "kernel.py"), "--warpsight", a.warpsight]
    command += ["--ncu", a.ncu, "--set", a.set, "--cache-control", a.cache_control, "--twice"]
    command += ["--count", a.count, "--rounds", a.rounds, "--from-start", "off", "--"]
    subprocess.run([*command, sys.executable, os.path.join(HERE, "kernel_step.py")], check=True)


# ---- launches ----


def run_storm(command):
    """{phase: median ns of a launch}"""
    lines = kernel.time_command(command)[1].splitlines()
    found = [re.fullmatch(r"(\w+) (\d+)", line) for line in lines]
    return {match[1]: int(match[2]) for match in found if match}


def describe(values):
    if len(values) < 2:
        return f"{values[0]:+6.0f} ns"
    low, middle, high = statistics.quantiles(values, n=4)
    mark = " <--" if middle > LAUNCH_NS else ""
    return f"{middle:+6.0f} ns ({low:+.0f} to {high:+.0f}){mark}"


def print_launches(a, folder):
    storm = build(a, "kernel_storm", folder)
    ours = [a.warpsight, "kernel", "-q", "-f", "-o", os.path.join(folder, "storm.wsrep")]
    ways = {
        "bare": [],
        "nothing is chosen": [*ours, "-k", "nosuch", "--"],
        "measured together": [*ours, "-k", "target", "-c", "2", "--"],
        "measured one by one": [*ours, "-k", "target", "-c", "2", "--replay-batch", "1", "--"],
    }
    runs = {way: [] for way in ways}
    for _ in range(a.processes):
        for way, prefix in ways.items():
            runs[way].append(run_storm([*prefix, storm]))
    bare = statistics.median(run["before"] for run in runs["bare"])
    print(
        f"launches that are not measured ({a.processes} processes each, in turns; medians and "
        f"quartiles; {LAUNCH_NS} ns are allowed): bare {bare:.0f} ns"
    )
    for way, found in runs.items():
        more = {"before, beside bare": [run["before"] - bare for run in found]}
        for phase in ("between", "after"):
            more[f"{phase}, beside before"] = [run[phase] - run["before"] for run in found]
        cells = "; ".join(f"{name} {describe(values)}" for name, values in more.items())
        print(f"  {way:20} {cells}")


# ---- verdicts ----


def classify(text):
    return next((kind for kind, words in VERDICTS if re.search(words, text)), "?")


def read_rules(text):
    """{ID: what ncu's first rule about the bottleneck says} of a page details"""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    said = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines))):
        if re.match("SOLBottleneck", row.get("Rule Name") or ""):
            said.setdefault(row["ID"], row["Rule Description"])
    return list(said.values())


def print_verdicts(a, folder):
    report = os.path.join(folder, "verdicts.wsrep")
    five = [sys.executable, os.path.join(HERE, "kernel_five.py")]
    print("verdicts:")
    for program, start in (([build(a, "kernel_product", folder)], "on"), (five, "off")):
        choice = ["--set", "full", "--clock-control", "none", "--profile-from-start", start]
        kernel.time_command(
            [a.warpsight, "kernel", "-q", "-f", "-o", report, *choice, "--", *program]
        )
        page = kernel.time_command([a.warpsight, "kernel", "--json", report])[1]
        theirs = read_rules(
            kernel.time_command([a.ncu, "--csv", "--page", "details", *choice, *program])[1]
        )
        results = json.loads(page)
        results = results if isinstance(results, list) else results["results"]
        for i, result in enumerate(results):
            title = result["findings"][0]["title"] if result["findings"] else "nothing"
            said = theirs[i] if i < len(theirs) else "nothing"
            mark = "" if classify(title) == classify(said) else " <--"
            print(f"  {result['name'][:40]:40} {classify(title)}, ncu {classify(said)}{mark}")
            print(f"    {title[:110]}\n    ncu: {said[:110]}")


def main():
    a = read_arguments()
    folder = tempfile.mkdtemp(prefix="warpsight-promises-")
    for name, show in (
        ("values", print_values),
        ("launches", print_launches),
        ("verdicts", print_verdicts),
    ):
        if name in a.only.split(","):
            show(a, folder)
            sys.stdout.flush()
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
