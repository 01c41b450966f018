#!/usr/bin/env python3
"""What PyTorch's own table shows of events that a trace of it does not say everything of. Prints
TAP.

The rules are those that make `ops` equal key_averages() of the same run; see docs/import.md. Usage:
test_ops_truth.py WARPSIGHT [WORD...]; with words, tests whose names hold one of them.
"""
import json
import sqlite3
import sys

from harness import eq, main, test

MAIN, BACKWARD, WATCHDOG = 77, 78, 79


def write(t, name, events):
    return t.write(
        name,
        {"schemaVersion": 1, "baseTimeNanoseconds": 1700000000000000000, "traceEvents": events},
    )


def rows(t, path, *args):
    """Of each (name, device): calls, self CPU, CPU total, CUDA total, share of CPU total."""
    return {
        (r["Name"], r.get("Device", "CPU")): (
            r["# of Calls"],
            r["Self CPU (us)"],
            r["CPU total (us)"],
            r.get("CUDA total (us)", 0),
            r["CPU total (%)"] > 0,
        )
        for r in json.loads(t.run("ops", "-f", "json", *args, path).out)
    }


def x(cat, name, ts, dur, tid=MAIN, pid=77, **args):
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": {k.replace("_", " "): v for k, v in args.items()},
    }


def gpu(cat, name, ts, dur, correlation, external):
    return x(
        cat, name, ts, dur, 7, 0, correlation=correlation, External_id=external, device=0, stream=7
    )


def trace():
    return [
        x("user_annotation", "outer", 0, 1000, External_id=1),
        x("cpu_op", "aten::copy_", 100, 300, External_id=2),
        {
            "ph": "X",
            "cat": "overhead",
            "name": "Activity Buffer Request",
            "pid": -1,
            "tid": 0,
            "ts": 110,
            "dur": 190,
        },
        x("cuda_runtime", "cudaStreamQuery", 120, 5, WATCHDOG, correlation=40),
        x("cuda_runtime", "cudaMemcpyAsync", 310, 20, External_id=2, correlation=50),
        x("cpu_op", "record_param_comms", 500, 100, External_id=3),
        x("user_annotation", "nccl:all_reduce", 510, 80, External_id=4),
        x("cuda_runtime", "cudaLaunchKernel", 520, 20, External_id=3, correlation=51),
        x("cpu_op", "aten::tiny", 600, 12, External_id=8),
        x("cuda_runtime", "cudaEventRecord", 601, 9, BACKWARD, correlation=61),
        x("cuda_runtime", "cudaEventRecord", 602, 9, WATCHDOG, correlation=62),
        x("user_annotation", "nccl:mine", 650, 50, External_id=5),
        x("cpu_op", "aten::mm", 700, 100, BACKWARD, External_id=6),
        x("cuda_runtime", "cudaEventQuery", 720, 10, BACKWARD, correlation=6),
        x("cuda_runtime", "cudaLaunchKernel", 740, 4, BACKWARD, External_id=6, correlation=52),
        gpu("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 900, 10, 50, 2),
        gpu("kernel", "ncclDevKernel_AllReduce", 950, 30, 51, 3),
        gpu("kernel", "gemm", 985, 5, 52, 6),
        x("gpu_user_annotation", "outer", 899.999, 80.002, 7, 0, External_id=1),
        x("gpu_user_annotation", "first", 949.999, 10, 7, 0, External_id=1),
        x("gpu_user_annotation", "inside", 952, 5, 7, 0, External_id=1),
    ]


@test
def overheads_calls_and_works_count_as_in_pytorch(t):
    path = write(t, "t.json", trace())
    got = rows(t, path, "--exact-times")
    want = {
        # On the main thread: the overhead and, within it, what another thread called for no
        # operator.
        ("Activity Buffer Request", "CPU"): (1, 185, 190, 0, True),
        ("cudaStreamQuery", "CPU"): (1, 5, 5, 0, True),
        ("aten::copy_", "CPU"): (1, 90, 300, 10, True),
        # An asynchronous work takes nothing from the operator around it, has no time of its own and
        # no share.
        ("record_param_comms", "CPU"): (1, 80, 100, 30, True),
        ("nccl:all_reduce", "CPU"): (1, 0, 80, 0, False),
        ("nccl:mine", "CPU"): (1, 50, 50, 0, True),
        # Calls of two other threads overlap in an operator of this one.
        ("aten::tiny", "CPU"): (1, -6, 12, 0, True),
        # A call that no operator made is not inside of what its thread did; and its number is no
        # operator's.
        ("aten::mm", "CPU"): (1, 96, 100, 5, True),
        ("cudaEventQuery", "CPU"): (1, 10, 10, 0, True),
        ("outer", "CPU"): (1, 1000 - 300 - 100 - 12 - 50 - 10, 1000, 40, True),
        # Written a nanosecond longer at both ends, where GPU work says so.
        ("outer", "CUDA"): (1, 0, 0, 80, False),
        ("first", "CUDA"): (1, 0, 0, 10, False),
        ("inside", "CUDA"): (1, 0, 0, 5, False),
    }
    for key, row in want.items():
        eq(got[key], row, key)
    share = {
        r["Name"]: r["Self CPU (%)"] for r in json.loads(t.run("ops", "-f", "json", path).out)
    }["aten::tiny"]
    assert abs(share + 100 * 6 / 1100) < 1e-6, share
    # Through a report and a database, and beside another rank.
    t.run("import", "-o", "t.wsrep", path)
    t.run("export", "-q", "-t", "sqlite", "-o", "t.sqlite", "t.wsrep")
    eq(t.run("ops", "-f", "csv", "t.sqlite").out, t.run("ops", "-f", "csv", path).out)
    other = [
        dict(
            e,
            pid=e["pid"] + 100 if e["pid"] == 77 else e["pid"],
            tid=e["tid"] + 100 if e["pid"] == 77 else e["tid"],
        )
        for e in trace()
    ]
    t.run("import", "-o", "two.wsrep", path, write(t, "u.json", other))
    two = rows(t, "two.wsrep", "--exact-times")
    eq({k: v[:4] for k, v in two.items()}, {k: tuple(2 * n for n in v[:4]) for k, v in got.items()})


@test
def the_thread_of_the_steps_stopped_the_profiler(t):
    got = rows(
        t,
        write(
            t,
            "t.json",
            trace() + [x("user_annotation", "ProfilerStep#1", 690, 200, BACKWARD, External_id=9)],
        ),
        "--exact-times",
    )
    eq(got[("aten::mm", "CPU")][1], 86)
    eq(got[("aten::copy_", "CPU")][1], 280)
    eq(got[("ProfilerStep*", "CPU")][1], 100)
    eq(got[("aten::tiny", "CPU")][1], 12)


@test
def a_trace_without_operators_has_overheads(t):
    events = [e for e in trace() if e["cat"] in ("cuda_runtime", "overhead")] + [
        x("cuda_runtime", "cudaFree", 100, 250, correlation=70)
    ]
    for e in events:
        e["args"] = {"correlation": e["args"]["correlation"]} if "args" in e else {}
        e["ts"] += 0.001  # a decimal, as all traces of PyTorch have since 2024
    got = rows(t, write(t, "t.json", events))
    eq(got[("Activity Buffer Request", "CPU")][:3], (1, 185, 190))
    eq(got[("cudaFree", "CPU")][:3], (1, 40, 250))


@test
def lists_of_tensors_have_no_shapes(t):
    shapes = [
        [[[8, 8], [8]], [2]],
        [[[4]], [2]],
        [[], [2]],
        [[8, 8], [2]],
        [[[[1]], [2]], [3], [[4], []]],
        [],
    ]
    events = [
        x("cpu_op", "aten::cat", 10 * i, 5, External_id=i + 1, Input_Dims=s)
        for i, s in enumerate(shapes)
    ]
    got = json.loads(
        t.run("ops", "-f", "json", "--group-by-input-shape", write(t, "t.json", events)).out
    )
    eq(
        {r["Input Shapes"].replace(" ", ""): r["# of Calls"] for r in got},
        {"[[],[2]]": 3, "[[8,8],[2]]": 1, "[[],[3],[]]": 1, "[]": 1},
    )


@test
def other_reports_keep_their_threads(t):
    db = sqlite3.connect(t.path("n.sqlite"))
    for sql in (
        "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)",
        "INSERT INTO StringIds VALUES (1, 'cudaFree'), (2, 'cudaMalloc'), (3, 'Overhead')",
        (
            "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid"
            " INTEGER, correlationId INTEGER, nameId INTEGER)"
        ),
        (
            "CREATE TABLE CUPTI_ACTIVITY_KIND_OVERHEAD (start INTEGER, end INTEGER, globalTid"
            " INTEGER, correlationId INTEGER, nameId INTEGER)"
        ),
        (
            f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1000, 9000, {77 << 24 | 77}, 1, 1),"
            f" (2000, 3000, {77 << 24 | 78}, 2, 2)"
        ),
        f"INSERT INTO CUPTI_ACTIVITY_KIND_OVERHEAD VALUES (4000, 5000, {77 << 24}, 1, 3)",
    ):
        db.execute(sql)
    db.commit()
    db.close()
    eq(
        {k[0]: v[:3] for k, v in rows(t, "n.sqlite").items()},
        {"cudaFree": (1, 8, 8), "cudaMalloc": (1, 1, 1)},
    )


sys.exit(main())
