#!/usr/bin/env python3
"""Totals of traces of PyTorch's profiler: test_totals.py WARPSIGHT [TRACE...].

What others define (computation, exposed communication and copies, idle time and its causes,
overlap, queue lengths, short kernels) is computed here from the trace by itself, moment by moment,
and has to be equal to the nanosecond to what stats and analyze say. Without traces, random ones
are made up. Prints TAP.
"""
import collections
import csv
import gzip
import json
import os
import random
import sys
from decimal import Decimal

TRACES = [os.path.abspath(path) for path in sys.argv[2:]]
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import Skip, main, run, same, test

Work = collections.namedtuple("Work", "start end device stream kind name call")
COMPUTE, COMM, MEMORY = "compute", "comm", "memory"


# ---- the trace ----


def read_trace(path):
    """GPU work and steps, in nanoseconds."""
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt") as f:
        events = json.load(f, parse_float=Decimal)["traceEvents"]
    spans = [e for e in events if e.get("ph") == "X" and "dur" in e]
    for e in spans:
        e["start"] = int(Decimal(e["ts"]) * 1000)
        e["end"] = int((Decimal(e["ts"]) + Decimal(e["dur"])) * 1000)
    calls = {}
    for e in spans:
        if e.get("cat") in ("cuda_runtime", "cuda_driver"):
            number = e["args"].get("correlation")
            if number not in calls or e["start"] < calls[number][0]:
                calls[number] = (e["start"], e["end"])
    work = []
    for e in spans:
        if e.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset"):
            continue
        kind = MEMORY
        if e["cat"] == "kernel":
            kind = COMM if "nccl" in e["name"] else COMPUTE
        args = e["args"]
        work.append(
            Work(
                e["start"],
                e["end"],
                args["device"],
                args["stream"],
                kind,
                e["name"],
                calls.get(args.get("correlation")),
            )
        )
    steps = sorted((e["start"], e["end"]) for e in spans if e["name"].startswith("ProfilerStep#"))
    return sorted(work), steps


def measure(work, start, end):
    """How long each set of kinds ran together from start to end."""
    changes = collections.defaultdict(lambda: collections.Counter())
    for w in work:
        if min(w.end, end) > max(w.start, start):
            changes[max(w.start, start)][w.kind] += 1
            changes[min(w.end, end)][w.kind] -= 1
    running, times, last = collections.Counter(), collections.Counter(), start
    for at in sorted(changes) + [end]:
        times[frozenset(k for k in running if running[k])] += at - last
        last = at
        running.update(changes.get(at, {}))
    return times


def total(times, wanted):
    return sum(ns for kinds, ns in times.items() if wanted(kinds))


def table(path, name):
    text = run("stats", "-q", "-r", name, "-f", "csv", path).out.decode()
    return [
        {key: value.split(".")[0] if key.endswith("(ns)") else value for key, value in row.items()}
        for row in csv.DictReader(text.splitlines())
    ]


# ---- comparisons ----


def compare_whole_trace(path, work):
    for device in sorted({w.device for w in work}):
        here = [w for w in work if w.device == device]
        start, end = min(w.start for w in here), max(w.end for w in here)
        times = measure(here, start, end)
        row = next(
            r
            for r in table(path, "gpu_time_breakdown:exact")
            if r["GPU"].endswith("(%d)" % device) or r["GPU"] == "GPU %d" % device
        )
        expected = {
            "Total (ns)": end - start,
            "Computation (ns)": total(times, lambda k: COMPUTE in k),
            "Exposed Comm (ns)": total(times, lambda k: COMM in k and COMPUTE not in k),
            "Exposed Mem (ns)": total(times, lambda k: k == {MEMORY}),
            "Idle (ns)": total(times, lambda k: not k),
            "Ops": len(here),
        }
        same({key: int(row[key]) for key in expected}, expected, path)


def compare_idle_causes(path, work):
    """Per stream, as HolisticTraceAnalysis does; for streams whose work does not overlap."""
    expected = collections.Counter()
    streams = collections.defaultdict(list)
    for w in work:
        streams[w.device, w.stream].append(w)
    for ops in streams.values():
        for before, w in zip(ops, ops[1:]):
            gap = w.start - before.end
            if gap <= 0 or not w.call:
                continue
            if w.call[0] > before.end:
                expected["host"] += gap
            elif gap < 30000:
                expected["launch"] += gap
            else:
                expected["waiting"] += gap
    found = collections.Counter()
    for row in table(path, "gpu_idle_causes:stream"):
        if row["Cause"] in ("host", "launch", "waiting"):
            found[row["Cause"]] += int(row["Idle Time (ns)"])
    same(found, expected, path)


def find_window(report, work, steps):
    first = report["steps"]["warm_up"]
    start, end = steps[first][0], steps[-1][1]
    for w in work:
        if w.call and steps[-1][0] <= w.call[0] < steps[-1][1]:
            end = max(end, w.end)
    same(report["window_ns"], end - start, "window")
    return start, end


def compare_budgets(report, work, start, end):
    devices = sorted({w.device for w in work})
    same(len(report["gpus"]), len(devices))
    for device, gpu in zip(devices, report["gpus"]):
        times = measure([w for w in work if w.device == device], start, end)
        expected = {
            "computation_ns": total(times, lambda k: COMPUTE in k),
            "exposed_communication_ns": total(times, lambda k: COMM in k and COMPUTE not in k),
            "exposed_copies_ns": total(times, lambda k: k == {MEMORY}),
            "overlapped_ns": total(times, lambda k: COMPUTE in k and len(k) > 1),
            "idle_ns": total(times, lambda k: not k),
        }
        same({key: gpu[key] for key in expected}, expected, gpu["name"])


BANDS = [(0, "none"), (1, "1"), (2, "2 to 9"), (10, "10 to 99"), (100, "100 to 1023")]
BANDS.append((1024, "1024 or more"))


def name_band(depth):
    return [name for least, name in BANDS if depth >= least][-1]


def compare_queues(report, work, start, end):
    changes = collections.defaultdict(list)
    for w in work:
        if w.call and w.start >= start and w.call[0] < end:
            changes[w.stream].append((max(w.call[0], start), 1))
            if w.start < end:
                changes[w.stream].append((w.start, -1))
    found = {q["stream"]: q for q in report["queues"]["streams"]}
    same(sorted(found), sorted(changes))
    for stream, steps in changes.items():
        bands, depth, last, area = collections.Counter(), 0, start, 0
        for at, change in sorted(steps) + [(end, 0)]:
            bands[name_band(depth)] += at - last
            area += depth * (at - last)
            depth, last = depth + change, at
        mine = found[stream]
        same(mine["launches"], sum(c < 0 for at, c in steps), "launches")
        same(mine["depth_ns"], area, "depth of stream %d" % stream)
        same(
            {name: ns for name, ns in mine["ns_by_depth"].items() if ns},
            {name: ns for name, ns in bands.items() if ns},
            "bands of stream %d" % stream,
        )
        same(sum(mine["ns_by_depth"].values()), report["window_ns"], "bands add up")


def compare_short_kernels(report, work, start, end):
    kernels = [w for w in work if w.kind != MEMORY and w.call and start <= w.start < end]
    brief = [w for w in kernels if w.end - w.start < 10000]
    expected = {
        "kernels": len(kernels),
        "count": len(brief),
        "run_ns": sum(w.end - w.start for w in brief),
        "launch_ns": sum(w.call[1] - w.call[0] for w in brief),
    }
    same({key: report["short_kernels"][key] for key in expected}, expected)


def compare(path):
    work, steps = read_trace(path)
    compare_whole_trace(path, work)
    compare_idle_causes(path, work)
    report = json.loads(run("analyze", "-f", "json", path).out)[0]
    same(sum(report["critical_path_by_cause_ns"].values()), report["window_ns"], "path")
    if report["steps"]["source"] != "marked":
        return
    start, end = find_window(report, work, steps)
    compare_budgets(report, work, start, end)
    compare_queues(report, work, start, end)
    compare_short_kernels(report, work, start, end)


# ---- made-up traces ----


def make_trace(seed, name):
    """Random calls, with work on three streams that overlap each other; times are whole us."""
    draw = random.Random(seed)
    events, now, free, correlation = [], 1000, {7: 0, 9: 0, 11: 0}, 0
    kinds = {
        7: [("kernel", "gemm"), ("kernel", "void relu<float>(float*)")],
        9: [("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)"), ("gpu_memset", "Memset (Device)")],
        11: [("kernel", "ncclDevKernel_AllReduce_Sum_f32"), ("kernel", "side")],
    }

    def span(cat, title, ts, dur, pid, tid, **args):
        event = {"ph": "X", "cat": cat, "name": title, "ts": ts, "dur": dur, "pid": pid}
        events.append(dict(event, tid=tid, args=args))

    for step in range(8):
        begin = now
        for _ in range(60):
            correlation += 1
            stream = draw.choice((7, 7, 7, 9, 11))
            cat, title = draw.choice(kinds[stream])
            took, length = draw.randint(3, 12), draw.choice((2, 5, 9, 10, 40, 300))
            span("cuda_runtime", "cudaLaunchKernel", now, took, 1, 1, correlation=correlation)
            start = max(now + took + draw.randint(1, 60), free[stream] + draw.randint(1, 40))
            free[stream] = start + length
            args = {"device": 0, "stream": stream, "correlation": correlation}
            span(cat, title, start, length, 0, stream, **args)
            now += took + draw.randint(1, 30)
        if draw.random() < 0.5:
            correlation += 1
            end = max(now, *free.values()) + 3
            span(
                "cuda_runtime",
                "cudaDeviceSynchronize",
                now,
                end - now,
                1,
                1,
                correlation=correlation,
            )
            now = end
        span("user_annotation", "ProfilerStep#%d" % step, begin, now - begin, 1, 1)
        now += draw.randint(1, 50)
    with open(name, "w") as f:
        json.dump({"schemaVersion": 1, "traceEvents": events}, f)
    return name


@test
def totals_equal_those_computed_from_the_trace():
    for seed in range(4):
        compare(make_trace(seed, "random%d.json" % seed))


def make_pause(name):
    """Four kernels prepare, three seconds pass, and then 40 of the same come, a step each."""
    events, now = [], 1000
    for number in range(44):
        if number == 4:
            now += 3_000_000
        for cat, title, start, pid, tid in (
            ("cuda_runtime", "cudaLaunchKernel", now, 1, 1),
            ("kernel", "work", now + 10, 0, 7),
        ):
            args = {"correlation": number + 1, "device": 0, "stream": 7}
            event = {"ph": "X", "cat": cat, "name": title, "ts": start, "dur": 900 * pid + 8}
            events.append(dict(event, pid=pid, tid=tid, args=args))
        now += 1000
    with open(name, "w") as f:
        json.dump({"schemaVersion": 1, "traceEvents": events}, f)
    return name


@test
def a_pause_before_the_loop_is_no_step():
    report = json.loads(run("analyze", "-f", "json", make_pause("pause.json")).out)[0]
    same(report["steps"]["source"], "repeated")
    same(max(report["steps"]["durations_ns"]) < 100_000_000, True, report["steps"])


@test
def totals_of_given_traces_equal_those_computed_from_them():
    if not TRACES:
        raise Skip("no traces were given")
    for path in TRACES:
        compare(path)


if __name__ == "__main__":
    main()
