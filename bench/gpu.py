#!/usr/bin/env python3
"""
gpu.py - what recording CUDA costs on a GPU machine, beside bare runs and beside Nsight Systems
where that is installed:

    gpu.py --warpsight BINARY --programs FOLDER [--nsys NSYS] [--rounds N] [--only WORD] [--seconds
    N]

Every measurement runs bare, with warpsight and with Nsight Systems in turn, so that drifts of the
machine hit all alike; the table shows the best and the median over the rounds, and what is added to
the bare run. cuda_storm comes from bench/cuda_storm.cu, train.py from tests/gpu.
"""
import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
p = argparse.ArgumentParser()
p.add_argument("--warpsight", required=True)
p.add_argument("--programs", required=True)
p.add_argument("--train", default=os.path.join(HERE, "..", "tests", "gpu", "train.py"))
p.add_argument("--nsys", default=shutil.which("nsys"))
p.add_argument("--rounds", type=int, default=5)
p.add_argument("--only", default="")
p.add_argument("--seconds", type=float, default=1e9, help="stop when so much time has gone")
A = p.parse_args()
TMP = tempfile.mkdtemp(prefix="warpsight-bench-")
BEGAN = time.monotonic()


def ours(*options):
    if "--sample=none" not in options and options:
        options = (*options, "--sample=none", "--cpuctxsw=none")
    return [
        A.warpsight,
        "profile",
        "-q",
        "-f",
        "-o",
        os.path.join(TMP, "ours.wsrep"),
        *options,
        "--",
    ]


def theirs(*options):
    """Without sampling, or (for None) as it comes; then its files are large and its end takes
    minutes, so once is enough.
    """
    quiet = ["-s", "none", "--cpuctxsw=none"] if options != (None,) else []
    return [
        A.nsys,
        "profile",
        "-f",
        "true",
        *quiet,
        "-o",
        os.path.join(TMP, "theirs"),
        *(o for o in options if o),
    ]


def size_of(tool):
    """Bytes of the report that a tool left, in MB."""
    name = "ours" if tool == "ours" else "theirs"
    return (
        sum(os.path.getsize(os.path.join(TMP, f)) for f in os.listdir(TMP) if f.startswith(name))
        / 1e6
    )


def run(tool, program):
    from_ = time.monotonic()
    r = subprocess.run(
        tool + program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300
    )
    if r.returncode:
        print("# %s failed: %s" % (" ".join(tool[:2]), r.stderr[-500:]))
    return r.stdout, time.monotonic() - from_


def storm_numbers(out):
    return {m[1]: float(m[2]) for m in re.finditer(r"^(\w+) ([\d.]+) ([\d.]+)$", out, re.M)}


def train_numbers(out):
    m = re.search(r"step best ([\d.]+) p25 ([\d.]+) median ([\d.]+)", out)
    return {"best": float(m[1]), "p25": float(m[2]), "median": float(m[3])} if m else {}


train = [sys.executable, A.train]
CASES = [  # name, unit, program, reader, options of ours, options of theirs
    (
        "storm",
        "ns",
        [os.path.join(A.programs, "cuda_storm")],
        storm_numbers,
        ["-t", "cuda,nvtx"],
        ["-t", "cuda,nvtx"],
    ),
    (
        "storm, nodes",
        "ns",
        [os.path.join(A.programs, "cuda_storm")],
        storm_numbers,
        ["-t", "cuda,nvtx", "--cuda-graph-trace=node"],
        ["-t", "cuda,nvtx", "--cuda-graph-trace=node"],
    ),
    (
        "train 16",
        "ms",
        train + ["--steps", "120"],
        train_numbers,
        ["-t", "cuda,nvtx"],
        ["-t", "cuda,nvtx"],
    ),
    ("train 16, defaults", "ms", train + ["--steps", "120"], train_numbers, [], [None]),
    (
        "train 16, memory",
        "ms",
        train + ["--steps", "120"],
        train_numbers,
        ["-t", "cuda,nvtx", "--cuda-memory-usage=true"],
        ["-t", "cuda,nvtx", "--cuda-memory-usage=true"],
    ),
    (
        "train 256",
        "ms",
        train + ["--steps", "30", "--batch", "256"],
        train_numbers,
        ["-t", "cuda,nvtx"],
        ["-t", "cuda,nvtx"],
    ),
]
results = {}
chosen = (
    [c for c in CASES if A.only in c[0]]
    if not A.only.startswith("=")
    else [c for c in CASES if c[0] == A.only[1:]]
)
for n in range(A.rounds):
    for name, unit, program, reader, mine, its in chosen:
        tools = [("bare", []), ("ours", ours(*mine))] + ([("nsys", theirs(*its))] if A.nsys else [])
        if n % 2:
            tools.reverse()
        for tool, prefix in tools:
            if time.monotonic() - BEGAN > A.seconds or (tool == "nsys" and its == [None] and n):
                break
            out, wall = run(prefix, program)
            more = {"report MB": size_of(tool)} if tool != "bare" else {"report MB": 0}
            for what, v in dict(reader(out), **{"wall s": wall}, **more).items():
                results.setdefault((name, what, unit), {}).setdefault(tool, []).append(v)

print(
    "%-28s %4s %10s %10s %10s   %9s %9s   %s"
    % ("", "n", "bare", "ours", "nsys", "ours +", "nsys +", "ours/nsys added, best (median)")
)
for (name, what, unit), by in results.items():
    if "bare" not in by or "ours" not in by:
        continue
    best = {t: min(v) for t, v in by.items()}
    med = {t: statistics.median(v) for t, v in by.items()}
    for label, v in (("best", best), ("median", med)):
        o, t = v["ours"] - v["bare"], v.get("nsys", float("nan")) - v["bare"]
        print(
            "%-28s %4d %10.2f %10.2f %10.2f   %+8.1f%% %+8.1f%%   %s"
            % (
                "%s %s, %s" % (name, what, label),
                len(by["ours"]),
                v["bare"],
                v["ours"],
                v.get("nsys", float("nan")),
                100 * o / (v["bare"] or 1),
                100 * t / (v["bare"] or 1),
                "%.2f" % (o / t) if t > 0 else "",
            )
        )
shutil.rmtree(TMP, ignore_errors=True)
