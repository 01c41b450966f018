#!/usr/bin/env python3
"""
run.py - CUDA recording from the program to the report, with the stand-in for the driver and CUPTI:
run.py --build BUILD-FOLDER [WORD...]. Prints TAP.

Counts are exact: they follow from what app.c was told to do. Nothing here needs a GPU or CUDA;
tests/gpu has what does.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from harness import (  # noqa: E402
    BUILD,
    COPY,
    HERE,
    HOME,
    LAUNCH,
    PROGRAMS,
    SYNC,
    TMP,
    WARPSIGHT,
    Report,
    joined,
    main,
    same,
    test,
)


@test
def work_and_calls():
    r = Report("init", "work:1000", "driver:10")
    same("kernels", r.kernels(), {"vector": 510, "gemm": 500})
    same("calls", r.calls(), {LAUNCH: 1000, COPY: 1000, SYNC: 1, "cuLaunchKernel": 10})
    same(
        "classes",
        r.all("SELECT eventClass, count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME GROUP BY 1"),
        [(0, 2001), (1, 10)],
    )
    same(
        "names",
        r.all(
            "SELECT DISTINCT d.value, m.value FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds d ON"
            " d.id = k.demangledName JOIN StringIds m ON m.id = k.mangledName ORDER BY 1"
        ),
        [
            (
                "void outer::inner::gemm<4, float>(float*, float*, int)",
                "_ZN5outer5inner4gemmILi4EfEEvPfS2_i",
            ),
            ("void vector<float>(float*, float*, int)", "_Z6vectorIfEvPT_S1_i"),
        ],
    )
    joined(r)
    same("losses", r.count("WARPSIGHT_LOSS"), 0)
    same(
        "kernel",
        r.all(
            "SELECT gridX, gridY, gridZ, blockX, registersPerThread, staticSharedMemory, streamId,"
            " contextId, deviceId, cacheConfig, launchType FROM CUPTI_ACTIVITY_KIND_KERNEL LIMIT 1"
        ),
        [(264, 2, 1, 256, 32, 1024, 7, 1, 0, 1, 1)],
    )
    same(
        "copies",
        r.all("SELECT DISTINCT copyKind, bytes, srcKind, dstKind FROM CUPTI_ACTIVITY_KIND_MEMCPY"),
        [(1, 4096, 0, 2)],
    )
    same(
        "before their launch",
        r.one(
            "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME a "
            "ON a.correlationId = k.correlationId WHERE k.start < a.start"
        ),
        0,
    )


def stacks(r):
    """Name of the call -> the set of its stacks, each the names of the functions that lie in the
    program, the innermost first.
    """
    out = subprocess.run(
        [os.path.join(BUILD, "tests", "symbols", "dump_stacks"), r.path],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    found = {}
    for line in out.splitlines():
        row = line.split("|")
        if row[0] == "cuda":
            found.setdefault(row[1], []).append(row[4].split(";"))
    return found


@test
def stacks_of_calls():
    same("none by default", stacks(Report("init", "work:5")), {})
    all_calls = stacks(Report("init", "work:5", "driver:3", options=["--cudabacktrace=all:0"]))
    same(
        "calls",
        {name: len(s) for name, s in all_calls.items()},
        {LAUNCH: 5, COPY: 5, SYNC: 1, "cuLaunchKernel": 3},
    )
    for name, found in all_calls.items():
        for s in found:
            assert "_start" == s[-1] and any("main" in f for f in s), "%s was called by %s" % (
                name,
                s,
            )
            assert not any("warpsight" in f or "ws_" in f for f in s), "frames of the hooks: %s" % s
    kernels = stacks(Report("init", "work:5", "driver:3", options=["--cudabacktrace=kernel:0"]))
    same("of kernels", sorted(kernels), sorted(["cuLaunchKernel", LAUNCH]))
    same(
        "of copies and waits",
        sorted(stacks(Report("init", "work:5", options=["--cudabacktrace=memory:0,sync:0"]))),
        sorted([COPY, SYNC]),
    )
    same(
        "of calls that last a minute",
        stacks(Report("init", "work:5", options=["--cudabacktrace=all:60000000000"])),
        {},
    )


@test
def occupancy():
    r = Report("init", "work:1")
    # 256 threads of 32 registers and 2 KiB: 8 blocks by warps; 528 blocks over 132 x 8
    same(
        "occupancy",
        r.all(
            "SELECT theoreticalOccupancy, waves, blocksPerSm, occupancyLimiter FROM"
            " CUPTI_ACTIVITY_KIND_KERNEL"
        ),
        [(1.0, 0.5, 8, 1)],
    )


@test
def device_context_streams():
    r = Report("init", "stream", "work:1")
    same(
        "device",
        r.all(
            "SELECT name, busLocation, uuid, chipName, smCount, computeMajor,"
            " maxShmemPerBlockOptin, memoryBandwidth FROM TARGET_INFO_GPU"
        ),
        [
            (
                "Stand-in H200",
                "0000:0A:00.0",
                "GPU-00112233-4455-6677-8899-aabbccddeeff",
                "GH100",
                132,
                9,
                232448,
                4800000000000,
            )
        ],
    )
    same(
        "contexts",
        r.all(
            "SELECT nullStreamId, deviceId, contextId, isGreenContext FROM"
            " TARGET_INFO_CUDA_CONTEXT_INFO"
        ),
        [(7, 0, 1, 0)],
    )
    same(
        "streams",
        r.all("SELECT streamId, contextId, priority, flag FROM TARGET_INFO_CUDA_STREAM"),
        [(13, 1, -5, 2)],
    )


@test
def waits_and_events():
    r = Report("init", "event", "work:1")
    same(
        "events",
        r.all("SELECT streamId, eventId, timestamp FROM CUPTI_ACTIVITY_KIND_CUDA_EVENT"),
        [(7, 1, None)],
    )
    same(
        "waits",
        r.all(
            "SELECT s.syncType, s.streamId, s.eventId, s.eventSyncId = e.eventSyncId FROM"
            " CUPTI_ACTIVITY_KIND_SYNCHRONIZATION s LEFT JOIN CUPTI_ACTIVITY_KIND_CUDA_EVENT e ON"
            " e.eventId = s.eventId ORDER BY s.start"
        ),
        [(2, 13, 1, 1), (3, 7, None, None)],
    )
    same(
        "without",
        Report("init", "event", options=["--cuda-event-trace=false"]).count(
            "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
        ),
        0,
    )
    same(
        "with times",
        Report("init", "event", options=["--cuda-event-trace=timestamps"]).count(
            "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
        ),
        1,
    )


@test
def graphs():
    r = Report("init", "graph")
    same("graphs", r.all("SELECT eventClass FROM CUDA_GRAPH_EVENTS ORDER BY start"), [(95,), (94,)])
    same(
        "nodes",
        r.all(
            "SELECT s.value, graphNodeId FROM CUDA_GRAPH_NODE_EVENTS JOIN StringIds s ON s.id ="
            " nameId ORDER BY start"
        ),
        [("kernel", 0x2000), ("memcpy", 0x2001)],
    )


@test
def memory():
    r = Report("init", "memory", options=["--cuda-memory-usage=true"])
    same(
        "use",
        r.all(
            "SELECT memoryOperationType, bytes, bytesInUse FROM CUDA_GPU_MEMORY_USAGE_EVENTS ORDER"
            " BY start"
        ),
        [(0, 1000, 1000), (0, 500, 1500), (1, 1000, 500)],
    )
    same("not asked for", Report("init", "memory").count("CUDA_GPU_MEMORY_USAGE_EVENTS"), 0)
    r = Report("init", "memory", options=["--cuda-memory-usage=true"], fault="unordered")
    same(
        "use by time, though the records come the other way round",
        r.all(
            "SELECT memoryOperationType, bytes, bytesInUse FROM CUDA_GPU_MEMORY_USAGE_EVENTS ORDER"
            " BY start"
        ),
        [(0, 1000, 1000), (0, 500, 1500), (1, 1000, 500)],
    )


@test
def errors():
    r = Report(
        "init", "fail", "fail", options=["--sample=none", "--cpuctxsw=none"]
    )  # which have things of their own to say
    same("results", r.all("SELECT returnValue FROM CUPTI_ACTIVITY_KIND_RUNTIME"), [(2,), (2,)])
    assert r.said() == "cudaMalloc returned 2: out of memory.", r.said()


@test
def threads():
    r = Report("init", "threads:20:500")
    same("kernels", r.kernels(), {"vector": 10000})
    same("threads", r.one("SELECT count(DISTINCT globalTid) FROM CUPTI_ACTIVITY_KIND_RUNTIME"), 20)
    joined(r)


@test
def chosen_calls():
    r = Report("init", "work:10", options=["--cuda-api=+cudaStreamQuery,-cudaMemcpy*"])
    same("calls", r.calls(), {LAUNCH: 10, "cudaStreamQuery_v3020": 10, SYNC: 1})
    r = Report("init", "work:10", options=["--cuda-trace-all-apis=true"])
    same(
        "all",
        r.calls(),
        {LAUNCH: 10, "cuLaunchKernel": 10, COPY: 10, "cudaStreamQuery_v3020": 10, SYNC: 1},
    )
    bad = subprocess.run(
        [WARPSIGHT, "profile", "--cuda-api=cudaFree", "true"], stderr=subprocess.PIPE, text=True
    )
    assert bad.returncode == 2 and "neither +NAME nor -NAME" in bad.stderr, bad.stderr


@test
def killed():
    r = Report("init", "work:3000", "kill", expect=137)
    same(
        "work",
        (sum(r.kernels().values()), r.count("CUPTI_ACTIVITY_KIND_MEMCPY"), sum(r.calls().values())),
        (3000, 3000, 6001),
    )
    joined(r)


@test
def killed_in_flight():
    r = Report("init", "work:100", "sleep:200", "kill", fault="unfinished", expect=137)
    same("kernels", r.kernels(), {"vector": 50, "gemm": 50})
    same("marked", r.all("SELECT DISTINCT flags, end FROM CUPTI_ACTIVITY_KIND_KERNEL"), [(3, None)])


@test
def ended_by_exit_and_abort():
    same("_exit", Report("init", "work:500", "_exit").kernels(), {"vector": 250, "gemm": 250})
    same(
        "abort",
        sum(Report("init", "work:500", "sleep:100", "abort", expect=134).kernels().values()),
        500,
    )


@test
def reset():
    same(
        "kernels",
        Report("init", "work:500", "reset", "kill", expect=137).kernels(),
        {"vector": 250, "gemm": 250},
    )


@test
def forked():
    r = Report("init", "work:10", "fork")
    same("kernels", sum(r.kernels().values()), 15)
    same(
        "processes with CUDA",
        r.one("SELECT count(DISTINCT globalPid) FROM CUPTI_ACTIVITY_KIND_KERNEL"),
        1,
    )


@test
def names_through_nvtx():
    r = Report("init", "stream", "names")
    same(
        "names",
        r.all(
            "SELECT s.value, deviceId, contextId, streamId FROM WARPSIGHT_NVTX_RESOURCE r JOIN"
            " StringIds s ON s.id = r.nameId ORDER BY 1"
        ),
        [("nothing", None, None, None), ("the copies", 0, 1, 13), ("the device", 0, None, None)],
    )


def inner_profiler_of(app):
    bare = subprocess.run(
        [os.path.join(PROGRAMS, app), "init", "inner"], stdout=subprocess.PIPE, text=True
    ).stdout
    assert (
        "kernels 100 copies 0 calls 301 queries 100 callbacks 2 bad times 0 bad names 0" in bare
    ), bare
    for order in (["init", "inner"], ["init", "work:300", "inner"], ["inner", "init", "inner"]):
        r = Report(*order, app=app)
        runs = order.count("inner")
        if runs == 1:
            same("what it got", r.out, bare)
        extra = 300 if "work:300" in order else 0
        known = 110 * runs + extra if order[0] == "init" else 110 * runs
        same("our kernels", sum(r.kernels().values()), known)
        assert "cudaStreamQuery_v3020" not in r.calls(), r.calls()
        assert "both get their records" in r.said(), r.said()
        joined(r)


@test
def inner_profiler():
    inner_profiler_of("cuda-app-inner")


@test
def inner_profiler_that_looks_functions_up():
    inner_profiler_of("cuda-app-finds")


@test
def windows():
    r = Report("init", "work:10", "sleep:1500", "work:20", options=["-y", "0.7"])
    same("after a delay", sum(r.kernels().values()), 20)
    same("device all the same", r.count("TARGET_INFO_GPU"), 1)
    r = Report("init", "work:10", "sleep:1500", "work:20", options=["-d", "0.7", "--kill", "none"])
    same("before the end", sum(r.kernels().values()), 10)


def later_reports(r):
    """The reports of a session after the first, in order."""
    n, found = 2, []
    while os.path.exists(r.path[: -len(".wsrep")] + ".%d.wsrep" % n):
        found.append(r.path[: -len(".wsrep")] + ".%d.wsrep" % n)
        n += 1
    return found


def ask(path, sql):
    out = subprocess.run(
        [WARPSIGHT, "query", "-f", "csv:nohdr", path, sql],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    return int(out)


def work_of(path):
    """Kernels of a report, and how many of them have not exactly one call."""
    kernels = ask(path, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL")
    alone = ask(
        path,
        "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k WHERE (SELECT count(*) FROM"
        " CUPTI_ACTIVITY_KIND_RUNTIME r WHERE r.correlationId = k.correlationId) != 1",
    )
    return kernels, alone


@test
def capture():
    """cudaProfilerStart and Stop, however they are called: exactly what lies between them."""
    for way in "0123":
        steps = []
        for step in range(6):
            steps += ["start:" + way] * (step in (2, 3)) + ["work:%d" % (step + 10)]
            steps += ["stop:" + way] * (step in (3, 4))
        r = Report("init", *steps, options=["-c", "cudaProfilerApi", "--kill=none"])
        same("kernels, way " + way, sum(r.kernels().values()), 12 + 13)
        same("copies", r.count("CUPTI_ACTIVITY_KIND_MEMCPY"), 12 + 13)
        same("launches", r.calls()[LAUNCH], 12 + 13)
        same("contexts", r.count("TARGET_INFO_CUDA_CONTEXT_INFO"), 1)
        joined(r)


@test
def flight_recorder():
    """A GPU that has nothing to do, and the program's death: both snapshots have the work up to
    then, each piece with its call.
    """
    path = os.path.join(TMP, "flight")
    r = subprocess.run(
        [WARPSIGHT, "profile", "-s", "none", "-t", "cuda", "-o", path]
        + ["--flight-recorder=10m", "--trigger=gpu idle > 400ms", "--no-findings"]
        + ["--", os.path.join(PROGRAMS, "cuda-app")]
        + ["init", "work:100", "sleep:1000", "work:50", "sleep:3000", "kill"],
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ, CUDA_HOME=HOME, STANDIN_FAULT="", XDG_RUNTIME_DIR=TMP),
        timeout=120,
    )
    same("status", r.returncode, 137)
    made = sorted(f for f in os.listdir(TMP) if f.startswith("flight."))
    same("snapshots", made, ["flight.1.gpu-idle.wsrep", "flight.2.death.wsrep"])
    same("work, all called", work_of(path + ".2.death.wsrep"), (150, 0))
    kernels, alone = work_of(path + ".1.gpu-idle.wsrep")
    assert 0 < kernels <= 150, kernels  # a machine that stalls makes gaps of its own
    assert kernels % 50 or not alone, (kernels, alone)
    duration = ask(
        path + ".1.gpu-idle.wsrep",
        "SELECT value FROM META_DATA_CAPTURE WHERE name = 'snapshot.duration_ns'",
    )
    assert duration >= 400000000, duration


@test
def capture_without_cuda():
    """They count where CUDA is not recorded and where there is none, too: from a runtime that is
    opened by name, and from a library that was linked to it and lies in nobody's scope."""
    opened = os.path.join(PROGRAMS, "libcudart.so.13")
    linked = os.path.join(PROGRAMS, "libuser.so")
    program = """
import ctypes, sys
runtime = ctypes.CDLL(sys.argv[1])
print(runtime.cudaProfilerStart(), runtime.cudaProfilerStop())
user = ctypes.CDLL(sys.argv[2])
print(user.start_profiler(), user.stop_profiler())
"""
    for options in (["-t", "none"], []):
        r = Report(
            *["-c", program, opened, linked],
            program=sys.executable,
            options=["-c", "cudaProfilerApi", "--capture-range-end=repeat", "-s", "none", *options],
        )
        same("what the calls answer", r.out, "31 32\n31 32\n")
        same("further reports", len(later_reports(r)), 1)
    for way in "123":
        r = Report(
            *["init", "names", "start:" + way, "names", "stop:" + way, "names"],
            options=["-c", "cudaProfilerApi", "--kill=none", "-t", "nvtx"],
        )
        same("way " + way, r.count("ANALYSIS_DETAILS"), 1)
        same("kernels", r.count("CUPTI_ACTIVITY_KIND_KERNEL"), 0)


@test
def capture_waits_for_work():
    """Work that was launched in a range and runs after it belongs to it, as late as that may be;
    what is launched afterwards does not. By calls and by NVTX."""
    for begin, end, options in (
        (["start:1"], ["stop:1"], ["cudaProfilerApi"]),
        (["push:step"], ["pop"], ["nvtx", "-p", "step"]),
    ):
        r = Report(
            *["init", "work:3", *begin, "work:5", "delay:200000000", "launch:7", *end],
            *["delay:2000", "work:2", "sleep:400", "work:4"],
            options=["--kill=none", "-c", *options],
        )
        same("kernels", sum(r.kernels().values()), 12)
        same("with times", r.count("CUPTI_ACTIVITY_KIND_KERNEL", "end IS NOT NULL"), 12)
        same("launches", r.calls()[LAUNCH], 12)
        joined(r)


@test
def capture_repeated():
    """Each range has its own report, and the work that it launched, though the next has begun."""
    what = ["init"]
    for n in (5, 6, 7, 8):
        what += ["start:0", "delay:30000000", "launch:%d" % n, "stop:0", "delay:2000"]
        what += ["work:3"] * (n % 2)
    r = Report(
        *what,
        options=[
            "-c",
            "cudaProfilerApi",
            "--capture-range-end=repeat:3",
            "--cuda-memory-usage=true",
        ],
    )
    same("reports", len(later_reports(r)), 2)
    same("kernels", [work_of(p) for p in [r.path, *later_reports(r)]], [(5, 0), (6, 0), (7, 0)])


@test
def steps_known_by_launches():
    """Steps that nothing marks: exactly those that were asked for, whenever their work runs. Marks
    of the program come first, and where steps are known too late that is said."""
    for delay in (2000, 20000000):
        r = Report(
            *["init", "delay:%d" % delay, "steps:40", "sleep:30"],
            options=["--steps=20-29", "--kill=none"],
        )
        want = {"embed": 10, "gemm": 50, "relu": 50, "loss": 10}
        same("kernels", r.kernels(), want)
        same("launches", r.calls()[LAUNCH], 120)
        copies = r.all("SELECT bytes FROM CUPTI_ACTIVITY_KIND_MEMCPY ORDER BY start")
        same("copies", copies, [(1020 + i,) for i in range(10)])
        joined(r)
        assert "of the kernel '_Z5embedv' (12 launches each); this" in r.err, r.err
    r = Report("init", "training:40", "sleep:30", options=["--steps=20-29", "--kill=none"])
    same("kernels of layers and steps", sum(r.kernels().values()), 1110)
    same("kernels of a step", {r.kernels()[name] for name in ("loss", "lossB")}, {10})
    marked = ["init", "steps:20"]
    for step in range(8):
        marked += ["push:train step", "work:%d" % (step + 10), "pop"]
    r = Report(*marked, options=["--steps=2-3", "--capture-range-end=stop"])
    same("marked steps", sum(r.kernels().values()), 12 + 13)
    assert "NVTX ranges 'train step'" in r.err, r.err
    late, ahead = "only when step 12 had begun", "step 200 did not come: the last one, by the 12"
    for wanted, words in (("2-3", late), ("200", ahead)):
        r = subprocess.run(
            [WARPSIGHT, "profile", "-o", os.path.join(TMP, "none"), "--steps", wanted]
            + [os.path.join(PROGRAMS, "cuda-app"), "init", "steps:40"],
            stderr=subprocess.PIPE,
            text=True,
            env=dict(os.environ, CUDA_HOME=HOME),
        )
        assert words in r.stderr, r.stderr
        same("status", r.returncode, 0)


def enabled(out):
    return [tuple(map(int, m)) for m in re.findall(r"enabled: (\d+) records, (\d+) callback", out)]


@test
def idle():
    """While nothing is collected CUPTI records no call and calls back at no call that a program
    makes often; what is made then is known in the collection."""
    for fault in (None, "version12"):
        what = [
            "init",
            "sleep:100",
            "graph",
            "work:5",
            "enabled",
            "sleep:1200",
            "enabled",
            "work:9",
        ]
        r = Report(*what, options=["-y", "0.7", "--cudabacktrace=all:0", "-d", "1.5"], fault=fault)
        before, inside = enabled(r.out)
        same("records while idle", before[0], 0)
        # cudaDeviceReset, and cudaProfilerStop of the runtime and the driver
        same("callbacks while idle", before[1], 3)
        assert sum(inside) > 6, inside
        same("work", sum(r.kernels().values()), 9)
        same("graphs made before", r.count("CUDA_GRAPH_EVENTS"), 2)
        r = Report(
            "init",
            "work:5",
            "sleep:900",
            "enabled",
            options=["-d", "0.3", "--kill", "none"],
            fault=fault,
        )
        same("after the end", enabled(r.out), [(0, 3)])


@test
def not_asked():
    r = Report("init", "work:10", options=["-t", "nvtx,osrt"])
    same("kernels", r.kernels(), {})
    same("calls", r.calls(), {})


@test
def old_cupti():
    r = Report("init", "work:100", fault="version12")
    same("kernels", r.kernels(), {"vector": 50, "gemm": 50})
    same("calls", r.calls(), {LAUNCH: 100, COPY: 100, SYNC: 1})
    same(
        "what it does not know",
        r.all(
            "SELECT DISTINCT maxPotentialClusterSize, maxActiveClusters FROM"
            " CUPTI_ACTIVITY_KIND_KERNEL"
        ),
        [(0, 0)],
    )
    same(
        "copies",
        r.all("SELECT DISTINCT copyCount, graphNodeId FROM CUPTI_ACTIVITY_KIND_MEMCPY"),
        [(None, None)],
    )
    assert "older than 12.5" in r.said(), r.said()
    joined(r)
    r = Report("init", "inside", "work:10", "driver:3", "threads:4:50", fault="version12")
    same(
        "calls of the driver too", r.calls(), {LAUNCH: 210, COPY: 10, SYNC: 1, "cuLaunchKernel": 4}
    )
    same(
        "with their threads",
        r.one("SELECT count(DISTINCT globalTid) FROM CUPTI_ACTIVITY_KIND_RUNTIME"),
        5,
    )
    joined(r)
    r = Report("init", "work:10", "sleep:1500", "work:20", options=["-y", "0.7"], fault="version12")
    same("after a delay", r.calls(), {LAUNCH: 20, COPY: 20, SYNC: 1})
    r = Report("init", "fail", fault="version12", options=["--sample=none", "--cpuctxsw=none"])
    same("results", r.all("SELECT returnValue FROM CUPTI_ACTIVITY_KIND_RUNTIME"), [(2,)])
    r = Report("init", "work:300", "inner", fault="version12", app="cuda-app-inner")
    assert "kernels 100 copies 0 calls 301 queries 100" in r.out, r.out
    same("beside a profiler inside", r.calls(), {LAUNCH: 410, COPY: 410, SYNC: 3})
    joined(r)


@test
def calls_inside_calls():
    """What the runtime does through the driver has one call: that of the runtime where that is
    traced, else the driver's.
    """
    r = Report(
        "init", "inside", "work:10", "nodes:5", options=["--cuda-graph-trace=node:host-only"]
    )
    same(
        "calls",
        r.calls(),
        {LAUNCH: 10, COPY: 10, SYNC: 1, "cuLaunchKernel": 1, "cudaGraphLaunch_v10000": 1},
    )
    joined(r)
    option = "--cuda-graph-trace=node:host-and-device"
    for strict, status in (([], 0), (["--strict"], 2)):
        p = subprocess.run(
            [WARPSIGHT, "profile", "-f", "-o", "device", *strict, option, "true"],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert p.returncode == status and "host-and-device" in p.stderr, (strict, p)


@test
def correlations_begin_again():
    """The numbers have 32 bits: after the last comes the first."""
    r = Report("init", "correlation:4294967286", "work:10")
    same("calls", r.calls(), {LAUNCH: 10, COPY: 10, SYNC: 1})
    r = subprocess.run(
        [WARPSIGHT, "stats", "-q", "-f", "csv:nohdr", "-r", "cuda_kern_exec_sum", r.path],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    same(
        "pairs of call and kernel",
        sum(int(row.split(",")[3]) for row in r.stdout.splitlines() if row),
        9,
    )  # one has 0, which is none


@test
def functions_for_cuda_to_call():
    r = Report("init", "stream", "host", options=["-s", "none"])
    same(
        "functions",
        r.all(
            "SELECT n.value, m.value LIKE '%/cuda-app', streamId, contextId, graphId, graphNodeId,"
            " (SELECT s.value FROM CUPTI_ACTIVITY_KIND_RUNTIME a JOIN StringIds s ON s.id ="
            " a.nameId WHERE a.correlationId = h.correlationId) FROM WARPSIGHT_CUDA_HOST_FUNCTION h"
            " JOIN StringIds n ON n.id = h.nameId JOIN StringIds m ON m.id = h.module ORDER BY"
            " start"
        ),
        [
            ("called_by_cuda", 1, 13, 1, None, None, "cudaLaunchHostFunc_v10000"),
            ("called_by_cuda", 1, None, 1, 0x100, 0x2002, "cuGraphAddHostNode"),
        ],
    )


@test
def unified_memory():
    r = Report(
        "init",
        "unified",
        options=["--cuda-um-cpu-page-faults=true", "--cuda-um-gpu-page-faults=true"],
    )
    same(
        "CPU faults",
        r.all(
            "SELECT address, originalFaultPc > 0, i.value, m.value LIKE '%/cuda-app' FROM"
            " CUDA_UM_CPU_PAGE_FAULT_EVENTS JOIN StringIds i ON i.id = CpuInstruction JOIN"
            " StringIds m ON m.id = module"
        ),
        [(0x7000000000, 1, "called_by_cuda", 1)],
    )
    same(
        "GPU faults",
        r.all(
            "SELECT address, numberOfPageFaults, faultAccessType, deviceId FROM"
            " CUDA_UM_GPU_PAGE_FAULT_EVENTS"
        ),
        [(0x7000010000, 9, 2, 0)],
    )
    same(
        "traffic",
        r.all(
            "SELECT copyKind, bytes, migrationCause, virtualAddress, srcKind, dstKind FROM"
            " CUPTI_ACTIVITY_KIND_MEMCPY"
        ),
        [(11, 65536, 2, 0x7000010000, 4, 4)],
    )
    s = subprocess.run(
        [WARPSIGHT, "stats", "-q", "-f", "csv:nohdr", "-r", "um_cpu_page_faults_sum", r.path],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    same("by instruction", s.stdout.strip(), "1,called_by_cuda")
    same("not asked for", Report("init", "unified").count("CUPTI_ACTIVITY_KIND_MEMCPY"), 0)
    r = Report(
        "init", "unified", "work:10", options=["--cuda-um-gpu-page-faults=true"], fault="nomanaged"
    )
    assert "page faults of unified memory are not recorded" in r.said(), r.said()
    same("kernels all the same", sum(r.kernels().values()), 10)


@test
def many_streams():
    r = Report("init", "streams:100000", "work:2")
    same("streams", r.one("SELECT count(DISTINCT streamId) FROM TARGET_INFO_CUDA_STREAM"), 100000)
    same("kernels", sum(r.kernels().values()), 2)
    same("losses", r.count("WARPSIGHT_LOSS"), 0)


@test
def many_kernels():
    n = 100000
    r = Report("init", "kernels:%d" % n)
    same(
        "kernels and names",
        r.all("SELECT count(*), count(DISTINCT shortName) FROM CUPTI_ACTIVITY_KIND_KERNEL"),
        [(n, n)],
    )
    same("names lost", r.one("SELECT count(*) FROM StringIds WHERE value LIKE '%name lost'"), 0)
    same(
        "joined",
        r.one(
            "SELECT count(*) FROM (SELECT correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL INTERSECT "
            "SELECT correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME)"
        ),
        n,
    )


@test
def newer_records():
    """A CUPTI of tomorrow: fields behind those known, kinds that are not."""
    r = Report("init", "work:300", "stream", "nodes:3", fault="future")
    same("kernels", sum(r.kernels().values()), 303)
    same(
        "calls",
        r.calls(),
        {
            LAUNCH: 300,
            COPY: 300,
            SYNC: 1,
            "cudaStreamCreateWithPriority_v5050": 1,
            "cudaGraphLaunch_v10000": 1,
        },
    )
    joined(r)
    r = Report("init", "work:300", "sleep:500", "kill", fault="future", expect=137)
    same(
        "of one that was killed",
        (sum(r.kernels().values()), r.count("CUPTI_ACTIVITY_KIND_MEMCPY")),
        (300, 300),
    )


@test
def kind_refused():
    r = Report("init", "work:10", fault="nosets")
    same("kernels", sum(r.kernels().values()), 10)
    assert "CUPTI refuses to record memory sets: CUPTI_ERROR_STANDIN" in r.said(), r.said()
    r = Report("init", "work:10", fault="nojit")
    same("kernels", sum(r.kernels().values()), 10)
    assert (
        "refuses" not in r.said()
    ), r.said()  # older drivers have no such records, which is no news


@test
def too_old_or_too_new():
    """The CUPTI that the program has mapped cannot be used, and no other is opened beside it: the
    program's own profiling goes on.
    """
    for fault, why in (
        ("older", "older than that of CUDA 12"),
        ("toonew", "newer than the driver"),
    ):
        bare = subprocess.run(
            [os.path.join(PROGRAMS, "cuda-app-inner"), "init", "inner"],
            stdout=subprocess.PIPE,
            text=True,
            env=dict(os.environ, STANDIN_FAULT=fault),
        ).stdout
        r = Report("init", "work:10", "inner", fault=fault, app="cuda-app-inner")
        assert why in r.said(), r.said()
        same("ours", r.kernels(), {})
        same("its", r.out, bare)
        assert "kernels 100" in bare, bare


@test
def context_gone_while_flushing():
    r = Report("init", "work:500", "sleep:150", "work:500", fault="contextgone")
    same("kernels", sum(r.kernels().values()), 1000)
    joined(r)


@test
def exit_in_a_function_called_by_cuda():
    """On a thread of the driver's, which holds CUPTI's lock: the flush at the end cannot get it,
    and the program ends all the same.
    """
    r = Report("init", "work:100", "sleep:150", "hostexit", expect=3)
    same("kernels", sum(r.kernels().values()), 100)


@test
def no_times():
    r = Report("init", "work:100", fault="notimes")
    same("kernels", r.kernels(), {"vector": 50, "gemm": 50})
    same("marked", r.all("SELECT DISTINCT flags, end FROM CUPTI_ACTIVITY_KIND_KERNEL"), [(1, None)])


@test
def out_of_order():
    r = Report("init", "work:500", fault="unordered")
    same("kernels", sum(r.kernels().values()), 500)
    joined(r)


@test
def dropped():
    r = Report("init", "work:100", fault="dropped")
    same("loss", r.all("SELECT events FROM WARPSIGHT_LOSS"), [(42,)])


@test
def place_taken():
    r = Report("init", "work:10", fault="taken")
    same("kernels", r.kernels(), {})
    assert "CUPTI for someone else" in r.said() and "CUPTI for someone else" in r.err, r.said()


@test
def refused():
    r = Report("init", "work:10", fault="refuse")
    assert "CUDA is not recorded: CUPTI refuses" in r.said(), r.said()


@test
def hanging_flush():
    r = Report("init", "work:100", fault="hang")
    same("kernels", sum(r.kernels().values()), 100)
    assert "did not hand over its last records in time" in r.said(), r.said()


@test
def injection_of_another_tool():
    r = Report("work:1", env={"CUDA_INJECTION64_PATH": "/opt/other/libtool.so"})
    assert "CUDA_INJECTION64_PATH has /opt/other/libtool.so loaded" in r.said(), r.said()
    same(
        "none counts as unset",
        sum(Report("init", "work:10", env={"CUDA_INJECTION64_PATH": "none"}).kernels().values()),
        10,
    )


@test
def tools_that_have_the_gpu_to_themselves():
    """Known by what they put into the environment; the program must go on as without us, or not
    begin where it would hang.
    """
    inner = Report(
        "init", "work:10", "env:CUDA_INJECTION64_PATH", env={"QUADD_INJECTION_CONFIG": "1"}
    )
    same("kernels", inner.kernels(), {})
    assert (
        "CUDA is not recorded: Nsight Systems has it, under which warpsight was started"
        in inner.said()
    ), inner.said()
    assert "CUDA_INJECTION64_PATH is not set" in inner.out, inner.out
    for variable, tool in (
        ("NV_SANITIZER_INJECTION_PORT_BASE", "Compute Sanitizer"),
        ("NV_COMPUTE_PROFILER_PERFWORKS_DIR", "Nsight Compute"),
    ):
        r = subprocess.run(
            [WARPSIGHT, "profile", "-o", os.path.join(TMP, "none"), "echo", "begun"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(os.environ, **{variable: "1"}),
            timeout=60,
        )
        same("status and output under " + tool, (r.returncode != 0, r.stdout), (True, ""))
        assert "%s would wait for ever" % tool in r.stderr, r.stderr


@test
def tools_started_by_the_program():
    """ncu refuses a program whose CUDA_INJECTION64_PATH is set; a script may start it."""
    folder = os.path.join(TMP, "bin")
    os.makedirs(folder, exist_ok=True)
    ncu = os.path.join(folder, "ncu")
    os.path.exists(ncu) or shutil.copy(os.path.join(PROGRAMS, "cuda-app"), ncu)
    env = {"LD_LIBRARY_PATH": PROGRAMS}
    script = (
        "%s env:CUDA_INJECTION64_PATH; NV_SANITIZER_INJECTION_PORT_BASE=1 %s init work:10"
        " env:CUDA_INJECTION64_PATH" % (ncu, os.path.join(PROGRAMS, "cuda-app"))
    )
    r = Report("-c", script, app="/bin/sh", env=env)
    assert "CUDA_INJECTION64_PATH is not set" in r.out.splitlines()[0], r.out
    assert "CUDA is not recorded in what ncu starts" in r.said(), r.said()
    assert "CUDA is not recorded: Compute Sanitizer has it for itself" in r.said(), r.said()
    same("kernels", r.kernels(), {})


@test
def replay_of_a_gpu():
    """What an H200 wrote for tests/gpu/basic.cu: a graph, streams, events, copies, errors."""
    r = Report("init", "replay:" + os.path.join(HERE, "h200.records"))
    same("kernels", r.kernels(), {"scale": 100, "spin": 10, "shared": 1})
    same("graph launches", r.count("CUPTI_ACTIVITY_KIND_GRAPH_TRACE"), 50)
    same(
        "copies",
        r.all("SELECT copyKind, count(*) FROM CUPTI_ACTIVITY_KIND_MEMCPY GROUP BY 1"),
        [(1, 6), (2, 1), (8, 1)],
    )
    same("memory sets", r.count("CUPTI_ACTIVITY_KIND_MEMSET"), 2)
    same(
        "failed calls",
        r.all(
            "SELECT s.value, returnValue FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds s ON s.id"
            " = nameId WHERE returnValue ORDER BY 2 DESC"
        ),
        [("cudaMalloc_v3020", 2), (LAUNCH, 1)],
    )
    same("calls", sum(r.calls().values()), 207)
    same("overhead", r.count("CUPTI_ACTIVITY_KIND_OVERHEAD"), 14)
    same("a GPU", r.one("SELECT name FROM TARGET_INFO_GPU WHERE smCount = 132"), "Stand-in H200")
    joined(r)


class Commanded:
    """A program that runs already and does what it is told."""

    def __init__(self, *what):
        env = dict(os.environ, CUDA_HOME=HOME)
        for name in ("CUDA_INJECTION64_PATH", "CUDA_PATH", "STANDIN_FAULT"):
            env.pop(name, None)
        self.p = subprocess.Popen(
            [os.path.join(PROGRAMS, "cuda-app"), *what, "commands"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        same("the program", self.p.stdout.readline(), "ready\n")

    def say(self, word):
        self.p.stdin.write(word + "\n")
        self.p.stdin.flush()
        lines = []
        while not lines or lines[-1] not in ("done", ""):
            lines.append(self.p.stdout.readline().strip())
        return lines[:-1]

    def enabled(self):
        """At how many calls CUPTI records or calls back."""
        return sum(int(n) for n in re.findall(r"\d+", self.say("enabled")[0]))

    def wait_for(self, on):
        until = time.monotonic() + 60
        while (self.enabled() > 0) != on:
            assert time.monotonic() < until, "CUPTI is %s" % ("off" if on else "still on")
            time.sleep(0.01)


def start_attached(app, command="profile", *options):
    """A recorder of the program, and its report."""
    path = os.path.join(TMP, "late%d.wsrep" % len(os.listdir(TMP)))
    recorder = subprocess.Popen(
        [WARPSIGHT, command, "--attach", str(app.p.pid), "-s", "none", "-t", "cuda", "-o", path]
        + list(options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ, XDG_RUNTIME_DIR=TMP),
    )
    return recorder, path


def attach_and_work(app, command, words, end=signal.SIGINT):
    recorder, path = start_attached(app, command)
    app.wait_for(True)
    for word in words:
        app.say(word)
    recorder.send_signal(end)
    out, err = recorder.communicate(timeout=60)
    return path, recorder.returncode, err


@test
def late_attach():
    """CUPTI is loaded into a program that has used CUDA for a while, twice, and given back."""
    app = Commanded("init", "stream", "graph", "work:7")
    for n in (20, 33):
        path, status, err = attach_and_work(
            app, "profile", ["work:%d" % n, "threads:3:5", "driver:4", "memory", "nodes:2"]
        )
        same("status of profile --attach (%s)" % err, status, 0)
        same("what is enabled afterwards", app.enabled(), 0)
        app.say("work:11")
        r = Report.at(path)
        same("kernels", r.count("CUPTI_ACTIVITY_KIND_KERNEL"), n + 3 * 5 + 4 + 2)
        same("copies", r.count("CUPTI_ACTIVITY_KIND_MEMCPY"), n)
        same("launches of the runtime", r.calls()["cudaLaunchKernel_v7000"], n + 3 * 5)
        same("waits", r.count("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"), 1)
        same("devices", r.all("SELECT name FROM TARGET_INFO_GPU"), [("Stand-in H200",)])
        same("contexts", r.count("TARGET_INFO_CUDA_CONTEXT_INFO", "nullStreamId = 7"), 1)
        same("streams", r.all("SELECT streamId, priority FROM TARGET_INFO_CUDA_STREAM"), [(13, -5)])
        nodes = r.count("CUPTI_ACTIVITY_KIND_KERNEL", "graphNodeId IS NOT NULL")
        same("nodes of the graph that there was", nodes, 2)
        joined(r)
        assert "CUDA is recorded from here on" in r.said(), r.said()
    app.p.stdin.close()
    same("status of the program", app.p.wait(timeout=60), 0)


@test
def late_attach_to_the_end():
    """The program ends while it is attached to; a second recorder is refused meanwhile."""
    for how in ("input", "kill", "_exit", "fork"):
        app = Commanded("init", "work:7")
        recorder, path = start_attached(app)
        app.wait_for(True)
        app.say("work:25")
        if how == "input":
            said = start_attached(app, "profile", "-d", "0.1")[0].communicate(timeout=60)[1]
            assert "being recorded by another warpsight" in said, said
        elif how == "fork":
            app.say("fork")
        else:
            app.p.stdin.write(how + "\n")
        app.p.stdin.close()
        app.p.wait(timeout=60)
        err = recorder.communicate(timeout=60)[1]
        same("status of profile --attach, %s (%s)" % (how, err), recorder.returncode, 0)
        kernels = Report.at(path).count("CUPTI_ACTIVITY_KIND_KERNEL")
        if how in ("input", "fork"):
            same("kernels, %s" % how, kernels, 30 if how == "fork" else 25)
        assert kernels <= 30, kernels


@test
def late_attach_without_its_recorder():
    """A recorder that is killed leaves CUPTI on for a second; the next attach works."""
    app = Commanded("init", "work:7")
    attach_and_work(app, "profile", ["work:5"], signal.SIGKILL)
    app.wait_for(False)
    app.say("work:5")
    path, status, err = attach_and_work(app, "profile", ["work:9"])
    same("status of profile --attach (%s)" % err, status, 0)
    same("kernels", Report.at(path).count("CUPTI_ACTIVITY_KIND_KERNEL"), 9)
    app.p.stdin.close()
    same("status of the program", app.p.wait(timeout=60), 0)


# They vary what CUPTI writes: one way of it, `replay of a GPU`, shows that the processor reads it.
CONVERSION = [
    occupancy,
    device_context_streams,
    graphs,
    memory,
    errors,
    unified_memory,
    many_kernels,
    newer_records,
    kind_refused,
    too_old_or_too_new,
    no_times,
    out_of_order,
    dropped,
    correlations_begin_again,
    windows,
    not_asked,
    idle,
]


def await_state(session, state, collections):
    command = [WARPSIGHT, "status", "--json", "--session=" + session]
    until = time.monotonic() + 60
    seen = None
    while seen != (state, collections):
        assert time.monotonic() < until, "%r, not %r" % (seen, (state, collections))
        r = subprocess.run(
            command, stdout=subprocess.PIPE, env=dict(os.environ, XDG_RUNTIME_DIR=TMP)
        )
        status = json.loads(r.stdout or "[{}]")[0]
        seen = (status.get("state"), status.get("collections"))
        time.sleep(0.01)


@test
def late_attach_by_the_programs_calls():
    """cudaProfilerStart and Stop, of the runtime and of the driver, begin and end collections."""
    app = Commanded("init", "work:7")
    options = ["-c", "cudaProfilerApi", "--capture-range-end=repeat:2", "--session-new=late"]
    recorder, path = start_attached(app, "profile", *options)
    app.wait_for(True)
    for way, n in ((0, 12), (3, 20)):
        await_state("late", "waiting", int(way > 0))
        app.say("work:5")
        app.say("start:%d" % way)
        app.say("work:%d" % n)
        app.say("stop:%d" % way)
        app.say("work:5")
    err = recorder.communicate(timeout=60)[1]
    same("status of profile --attach (%s)" % err, recorder.returncode, 0)
    for report, n in ((path, 12), (path.replace(".wsrep", ".2.wsrep"), 20)):
        same("kernels", Report.at(report).count("CUPTI_ACTIVITY_KIND_KERNEL"), n)
    app.p.stdin.close()
    same("status of the program", app.p.wait(timeout=60), 0)


LATE = [
    late_attach_by_the_programs_calls,
    late_attach,
    late_attach_to_the_end,
    late_attach_without_its_recorder,
]


def explain_skip(t):
    """Why the test is left out on this machine; None if it is not."""
    if not os.environ.get("WS_TEST_EMULATED") and (t not in LATE or os.uname().machine == "x86_64"):
        return None
    if t is stacks_of_calls:
        return "in emulation a process's address map is the emulator's"
    if t in CONVERSION:
        return "what becomes of the records is the same on every processor"
    if t in LATE:
        return "libraries can be loaded into running programs on x86-64 only"
    return None


main(explain_skip=explain_skip)
