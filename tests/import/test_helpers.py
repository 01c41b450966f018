#!/usr/bin/env python3
"""Work that helper threads launch, in the ranges of the threads that wait for them: by PyTorch's
sequence numbers and by waits, in three reports of imported traces. Prints TAP.

Usage: test_helpers.py WARPSIGHT [WORD...]; with words, tests whose names hold one of them."""
import csv
import io
import sqlite3
import sys

from harness import eq, main, test
from traces import make_nsys

PID, MAIN, ENGINE, OTHER = 500, 501, 502, 503


def rows(t, report, path):
    out = t.run("stats", "-q", "-r", report, "-f", "csv", path).out
    return list(csv.DictReader(io.StringIO(out)))


def ops(t, report, path, name, count):
    """Range -> (operations, those of helpers). Sums of kernels say the same: these reports have no
    other work."""
    found = {
        r[name]: (int(r[count]), int(r["Helper Ops"]))
        for r in rows(t, report + ":helper-threads", path)
    }
    if report == "nvtx_gpu_proj_sum":
        kernels = {}
        for r in rows(t, "nvtx_kern_sum:helper-threads", path):
            if r["NVTX Range"]:
                n, helped = kernels.get(r["NVTX Range"], (0, 0))
                kernels[r["NVTX Range"]] = (n + int(r["Kern Inst"]), helped + int(r["Helper Ops"]))
        eq(kernels, found, "nvtx_kern_sum")
    return found


def kineto(extra=()):
    """A step of thread MAIN, whose backward pass ENGINE computes; launches as (correlation, thread,
    time)."""
    events, launches = [], [
        (1, MAIN, 10),
        (2, ENGINE, 50),
        (3, ENGINE, 60),
        (4, ENGINE, 70),
        (5, ENGINE, 79),
        (6, ENGINE, 95),
        (7, MAIN, 85),
    ]

    def x(cat, name, tid, ts, dur, **args):
        events.append(dict(ph="X", cat=cat, name=name, pid=PID, tid=tid, ts=ts, dur=dur, args=args))

    def op(name, tid, ts, dur, number, forward):
        args = {"Sequence number": number, "Fwd thread id": forward}
        x("cpu_op", name, tid, ts, dur, **args)

    x("user_annotation", "step", MAIN, 0, 90)
    x("user_annotation", "forward", MAIN, 5, 30)
    x("user_annotation", "backward", MAIN, 40, 41)
    op("aten::mm", MAIN, 8, 10, 7, 0)
    op("autograd::engine::evaluate_function: MmBackward0", ENGINE, 49, 5, 7, 1)
    op("MmBackward0", ENGINE, 58, 5, 7, 1)
    x("user_annotation", "nccl:all_reduce", ENGINE, 69, 3)
    for correlation, tid, ts in launches:
        x("cuda_runtime", "cudaLaunchKernel", tid, ts, 1, correlation=correlation)
        args = dict(device=0, context=1, stream=7, correlation=correlation)
        x("kernel", f"k{correlation}", 7, 200 + 10 * correlation, 5, **args)
    return {"schemaVersion": 1, "deviceProperties": [], "traceEvents": events + list(extra)}


@test
def sequence_numbers_say_who_waits(t):
    t.load(t.write("k.json", kineto()))
    plain = rows(t, "gpu_time_breakdown:range", "r.wsrep")
    assert "Helper Ops" not in plain[0], plain[0]
    eq(
        {r["Part"]: int(r["Ops"]) for r in plain},
        {"step": 2, "forward": 1, "nccl:all_reduce": 1},
    )
    eq(
        ops(t, "gpu_time_breakdown:range", "r.wsrep", "Part", "Ops"),
        # what was launched at 95 is behind all ranges; the range of ENGINE itself stays there, too
        {"step": (6, 4), "forward": (1, 0), "backward": (4, 4), "nccl:all_reduce": (1, 0)},
    )


@test
def equal_numbers_of_two_threads_are_told_apart(t):
    """Sequence numbers are of a thread: what the framework calls the thread decides."""

    def x(cat, name, tid, ts, dur, **args):
        return dict(ph="X", cat=cat, name=name, pid=PID, tid=tid, ts=ts, dur=dur, args=args)

    def forward(tid, number):
        return x("cpu_op", "f", tid, 8, 1, **{"Sequence number": number})

    def backward(ts, number, of):
        args = {"Sequence number": number, "Fwd thread id": of}
        return x("cpu_op", "b", ENGINE, ts, 4, **args)

    both = [forward(OTHER, 7), x("user_annotation", "other step", OTHER, 0, 200)]
    t.load(t.write("k.json", kineto(both)))
    eq(  # only the number that both have: nobody's
        ops(t, "gpu_time_breakdown:range", "r.wsrep", "Part", "Ops"),
        {"step": (2, 0), "forward": (1, 0), "nccl:all_reduce": (1, 0)},
    )
    told = both + [forward(MAIN, 8), backward(77, 8, 1), forward(OTHER, 9), backward(94, 9, 2)]
    t.load(t.write("k.json", kineto(told)))
    eq(
        ops(t, "gpu_time_breakdown:range", "r.wsrep", "Part", "Ops"),
        {
            "step": (6, 4),
            "forward": (1, 0),
            "backward": (4, 4),
            "nccl:all_reduce": (1, 0),
            "other step": (1, 1),
        },
    )


def waiting(t, name, waits, ranges=(), launches=((ENGINE, 1100), (ENGINE, 2000), (ENGINE, 4900))):
    """MAIN pushes "step" and "backward"; launches on threads; (thread, function, start, end)."""
    path = make_nsys(t, name)
    db = sqlite3.connect(path)
    x = db.execute
    for table in "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS":
        x(f"DELETE FROM {table}")
    gpid = 1 << 48 | PID << 24
    for start, end, text, thread in [
        (0, 10000000, "step", MAIN),
        (1000000, 5000000, "backward", MAIN),
        *ranges,
    ]:
        x(
            "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId)"
            " VALUES (?,?,59,?,?,0)",
            (start, end, text, gpid | thread),
        )
    for i, (thread, at) in enumerate(((MAIN, 500), *launches), 1):
        x(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,0,?,?,3,0,NULL)",
            (at * 1000, at * 1000 + 5000, gpid | thread, i),
        )
        x(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,0,1,7,?,?,1,2,1,1,1,1,1,1,1,NULL,"
            " 1)",
            (20000000 + i * 1000, 20000000 + i * 1000 + 500, i, gpid),
        )
    x(
        "CREATE TABLE OSRT_API (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER,"
        " nameId INTEGER, returnValue INTEGER, nestingLevel INTEGER, callchainId INTEGER)"
    )
    names = {}
    for thread, function, start, end in waits:
        if function not in names:
            names[function] = 100 + len(names)
            x("INSERT INTO StringIds VALUES (?,?)", (names[function], function))
        x(
            "INSERT INTO OSRT_API VALUES (?,?,27,?,?,0,0,NULL)",
            (start * 1000, end * 1000, gpid | thread, names[function]),
        )
    db.commit()
    db.close()
    t.load(path)


@test
def sequence_numbers_of_emit_nvtx(t):
    ranges = [
        (100000, 400000, "aten::mul, seq = 5, op_id = 1", MAIN),
        (410000, 600000, "aten::add, seq = 6", MAIN),
        (1090000, 1200000, "autograd::engine::evaluate_function: MulBackward0, seq = 5", ENGINE),
        (1092000, 1199000, "MulBackward0, seq = 5, op_id = 2", ENGINE),
        (1990000, 2100000, "AddBackward0, seq = 6", ENGINE),
        (100000, 600000, "aten::sub, seq = 6", OTHER),
    ]
    waiting(t, "emit.sqlite", [], ranges)
    got = ops(t, "nvtx_gpu_proj_sum", "r.wsrep", "Range", "Total GPU Ops")
    mine = {n: c for n, c in got.items() if not n.startswith("a") and "Backward" not in n}
    # number 6 is that of two threads
    eq(mine, {"step": (2, 1), "backward": (1, 1)})
    eq(got["MulBackward0, seq = 5, op_id = 2"], (1, 0))
    ranges[-1] = (100000, 600000, "aten::sub, seq = 9", OTHER)
    waiting(t, "clear.sqlite", [], ranges)
    got = ops(t, "nvtx_gpu_proj_sum", "r.wsrep", "Range", "Total GPU Ops")
    eq([got["step"], got["backward"]], [(4, 3), (3, 3)])


COND = "pthread_cond_wait"
OWN = [(ENGINE, COND, 100, 1050), (ENGINE, COND, 4950, 9000)]
NOBODY = {"step": (1, 0)}
FOR_MAIN = {"step": (4, 3), "backward": (3, 3)}


@test
def waits_say_who_is_helped(t):
    during = (MAIN, COND, 1010, 4990)
    cases = {
        "condition": ([during], (), FOR_MAIN),
        "semaphore": ([(MAIN, "sem_wait", 1010, 4990)], (), FOR_MAIN),
        "late by a moment": ([(MAIN, COND, 1130, 4990)], (), FOR_MAIN),
        "a lock": ([(MAIN, "pthread_mutex_lock", 1010, 4990)], (), NOBODY),
        "time": ([(MAIN, "nanosleep", 1010, 4990)], (), NOBODY),
        "a part": ([(MAIN, COND, 1500, 4990)], (), NOBODY),
        "until before its end": ([(MAIN, COND, 1010, 4000)], (), NOBODY),
        "another without ranges": ([during, (OTHER, COND, 1000, 9000)], (), FOR_MAIN),
        "two": ([during, (OTHER, COND, 1000, 9000)], [(0, 9000000, "other", OTHER)], NOBODY),
    }
    for i, (what, (waits, ranges, expected)) in enumerate(cases.items()):
        waiting(t, f"{i}.sqlite", OWN + waits, ranges)
        for report, name, count in (
            ("gpu_time_breakdown:range", "Part", "Ops"),
            ("nvtx_gpu_proj_sum", "Range", "Total GPU Ops"),
            ("nvtx_gpu_proj_trace", "Name", "NumGPUOps"),
        ):
            got = ops(t, report, "r.wsrep", name, count)
            eq({n.lstrip(":"): c for n, c in got.items()}, expected, (what, report))
    plain = rows(t, "nvtx_gpu_proj_sum", "r.wsrep")
    eq([r["Total GPU Ops"] for r in plain], ["1"])
    assert "Helper Ops" not in plain[0], plain[0]


@test
def pieces_between_waits_are_looked_at_one_by_one(t):
    """A pool's thread that works for one thread after the other; in ranges of its own, a wait alone
    does not make it a helper."""
    waits = [
        (ENGINE, COND, 100, 1050),
        (ENGINE, COND, 2500, 5900),
        (ENGINE, COND, 7500, 8000),
        (MAIN, COND, 1010, 3000),
        (OTHER, COND, 5950, 7600),
    ]
    launches = [(ENGINE, 1100), (ENGINE, 2000), (ENGINE, 6000), (ENGINE, 7000), (ENGINE, 8500)]
    other = [(5000000, 9000000, "other", OTHER)]
    waiting(t, "pool.sqlite", waits, other, launches)
    expected = {"step": (3, 2), "backward": (2, 2), "other": (2, 2)}
    eq(ops(t, "nvtx_gpu_proj_sum", "r.wsrep", "Range", "Total GPU Ops"), expected)
    other.append((5900000, 7600000, "own work", ENGINE))
    waiting(t, "own.sqlite", waits, other, launches)
    expected = {"step": (3, 2), "backward": (2, 2), "own work": (2, 0)}
    eq(ops(t, "nvtx_gpu_proj_sum", "r.wsrep", "Range", "Total GPU Ops"), expected)


sys.exit(main())
