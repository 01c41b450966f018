#!/usr/bin/env python3
"""
run.py - CUDA recording from the program to the report, with the stand-in for the driver and CUPTI:
run.py --build BUILD-FOLDER [WORD...]. Prints TAP.

Counts are exact: they follow from what app.c was told to do. Nothing here needs a GPU or CUDA;
tests/gpu has what does.
"""
import argparse
import csv
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
p = argparse.ArgumentParser()
p.add_argument("--build", required=True)
p.add_argument("words", nargs="*")
A = p.parse_args()
BUILD = os.path.abspath(A.build)
WARPSIGHT = os.path.join(BUILD, "warpsight")
PROGRAMS = os.path.join(BUILD, "tests", "cuda")
TMP = tempfile.mkdtemp(prefix="warpsight-cuda-")
HOME = os.path.join(
    TMP, "toolkit"
)  # looks like a toolkit: CUDA_HOME leads the hook to the stand-in
os.makedirs(os.path.join(HOME, "lib64"))
os.symlink(os.path.join(PROGRAMS, "libcupti.so.13"), os.path.join(HOME, "lib64", "libcupti.so.13"))
TESTS = []


def test(f):
    TESTS.append(f)
    return f


class Report:
    def __init__(
        self, *what, options=(), fault=None, expect=0, app="cuda-app", env=None, program=None
    ):
        self.path = os.path.join(TMP, "r%d.wsrep" % len(os.listdir(TMP)))
        e = dict(os.environ, CUDA_HOME=HOME, **(env or {}))
        for name in ("CUDA_INJECTION64_PATH", "CUDA_PATH"):
            if not env or name not in env:
                e.pop(name, None)
        e["STANDIN_FAULT"] = fault or ""
        r = subprocess.run(
            [
                WARPSIGHT,
                "profile",
                "-o",
                self.path,
                *options,
                "--",
                program or os.path.join(PROGRAMS, app),
                *what,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=e,
            timeout=120,
        )
        self.out, self.err = r.stdout, r.stderr
        assert r.returncode == expect, "exit %d, not %d: %s" % (r.returncode, expect, r.stderr)
        self.load()

    @classmethod
    def at(cls, path):
        """A report that has been written already."""
        report = cls.__new__(cls)
        report.path = path
        report.load()
        return report

    def load(self):
        subprocess.run(
            [WARPSIGHT, "export", "-q", "--lazy=false", "-o", self.path + ".sqlite", self.path],
            check=True,
        )
        self.db = sqlite3.connect(self.path + ".sqlite")

    def all(self, sql):
        return self.db.execute(sql).fetchall()

    def one(self, sql):
        return self.db.execute(sql).fetchone()[0]

    def kernels(self):
        return dict(
            self.all(
                "SELECT s.value, count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON"
                " s.id = k.shortName GROUP BY 1"
            )
        )

    def calls(self):
        return dict(
            self.all(
                "SELECT s.value, count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON"
                " s.id = r.nameId GROUP BY 1"
            )
        )

    def count(self, table, where="1"):
        return self.one("SELECT count(*) FROM %s WHERE %s" % (table, where))

    def stats(self, name):
        """Rows of a report of statistics, by column."""
        r = subprocess.run(
            [WARPSIGHT, "stats", "-q", "-r", name, "-f", "csv", self.path],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return list(csv.DictReader(line for line in r.stdout.splitlines() if line))

    def said(self):
        return " ".join(t for (t,) in self.all("SELECT text FROM DIAGNOSTIC_EVENT"))


def same(what, got, want):
    assert got == want, "%s: %r, not %r" % (what, got, want)


def joined(r):
    """Each piece of work has exactly one call of its process."""
    for t in ("KERNEL", "MEMCPY", "MEMSET"):
        same(
            "%s without exactly one call" % t,
            r.one(
                """SELECT count(*) FROM CUPTI_ACTIVITY_KIND_%s w WHERE
             (SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME a WHERE a.correlationId = w.correlationId
              AND a.globalTid / 0x1000000 = w.globalPid / 0x1000000) != 1"""
                % t
            ),
            0,
        )


LAUNCH, COPY, SYNC = (
    "cudaLaunchKernel_v7000",
    "cudaMemcpyAsync_v3020",
    "cudaStreamSynchronize_v3020",
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


@test
def nccl():
    """NCCL's calls have their payloads and their kernels, whatever groups made of them."""
    r = Report(options=("-t", "cuda,nvtx", "-s", "none"), app="nccl-app")
    rows = r.all(
        "SELECT l.value, bytes, correlationId, groupSize, groupRank, sourceRank, destinationRank,"
        " sequenceNumber, t.value, d.value, g.value FROM WARPSIGHT_COLLECTIVE LEFT JOIN StringIds"
        " l ON l.id = labelId LEFT JOIN StringIds t ON t.id = dtypeId LEFT JOIN StringIds d ON"
        " d.id = reductionId LEFT JOIN StringIds g ON g.id = groupNameId ORDER BY start, bytes"
    )
    world, pair, alone = ("0x00000000feed000%d" % i for i in (1, 2, 3))
    bf16 = "BFloat16"
    want = [
        ("AllReduce 4 KiB", 4096, 1, 4, 2, -1, -1, 0, bf16, "Avg", world),
        ("AllReduce 1 MiB", 1 << 20, 2, 4, 2, -1, -1, 1, bf16, "Sum", world),
        ("AllReduce 1000 B", 1000, 3, 4, 2, -1, -1, 2, bf16, "Max", world),
        ("AllReduce 1.95 KiB", 2000, 3, 4, 2, -1, -1, 3, bf16, "Max", world),
        ("AllReduce 2.93 KiB", 3000, 3, 4, 2, -1, -1, 4, bf16, "Max", world),
        ("ReduceScatter 8 KiB", 8192, 4, 2, 1, -1, -1, 1, "Float", "Sum", pair),
        ("ReduceScatter 64 B", 64, 5, 2, 1, -1, -1, 0, "Float", "Sum", pair),
        ("AllGather 256 B", 256, 6, 4, 2, -1, -1, 6, None, None, world),
        ("Broadcast 512 B", 512, 7, 4, 2, 3, -1, 5, None, None, world),
        ("Send 128 B", 128, 8, 2, 1, 1, 0, None, None, None, pair),
        ("Recv 160 B", 160, 8, 2, 1, 0, 1, None, None, None, pair),
        ("Reduce 32 B", 32, 9, 4, 2, -1, 1, 7, "Float", "Min", world),
        ("AllReduce 16 B", 16, None, None, -1, -1, -1, 0, None, "PreMulSum", alone),
        ("AllReduce", None, 10, None, -1, -1, -1, None, bf16, None, None),
        ("AllReduce", None, 10, None, -1, -1, -1, None, bf16, None, None),
    ]
    same("collectives", sorted(rows, key=str), sorted(want, key=str))
    same(
        "times of kernels",
        r.count(
            "WARPSIGHT_COLLECTIVE c JOIN CUPTI_ACTIVITY_KIND_KERNEL k USING (correlationId)",
            "c.start = k.start AND c.end = k.end AND c.deviceId = k.deviceId AND"
            " c.streamId = k.streamId AND (callStart < k.start OR callStart IS NULL)",
        ),
        14,
    )
    # A kernel takes 1500 ns; three all-reduces share one by their sizes.
    got = [
        (x["Operation"], x["Message Bytes"], x["Total Time (ns)"], x["Algorithm Bandwidth (MB/s)"])
        + (x["Bus Bandwidth (MB/s)"], x["Ranks"])
        for x in r.stats("nccl_sum")
    ]
    for row in (
        ("AllGather", "256", "1500", "682.667", "512.000", "4"),
        ("AllReduce", str(1 << 20), "1500", "699050.667", "1048576.000", "4"),
        ("AllReduce", "3000", "750", "4000.000", "6000.000", "4"),
        ("AllReduce", "1000", "250", "4000.000", "6000.000", "4"),
        ("Recv", "160", "1500", "106.667", "106.667", "2"),
        ("Send", "128", "1500", "85.333", "85.333", "2"),
    ):
        assert row in got, "%r in %r" % (row, got)
    same("all", len(got), 13)
    sizes = {(x["Operation"], x["In (MB)"], x["Out (MB)"]) for x in r.stats("collective_sum")}
    assert ("ReduceScatter", "0.016", "0.008") in sizes, sizes


@test
def nccl_trace():
    """NCCL's plug-in says how operations were done and what the proxy did, in all versions."""
    for version in range(1, 6):
        r = Report(
            options=("-t", "cuda,nvtx", "-s", "none", "--nccl-trace=all"),
            app="nccl-app",
            env={"STANDIN_NCCL": str(version)},
        )
        got = dict(r.all("SELECT eventKind, count(*) FROM WARPSIGHT_NCCL_EVENT GROUP BY 1"))
        # 10 collectives, a send and a receive in 7 launches; 2 channels, both ways, 3 steps.
        want = [7, 10, 2, 12 * 4, 12 * 12, 12, 12 * 2, 12 * 12]
        if version < 3:  # without channels and networks
            want[6:] = [0, 0]
        same("v%d: events" % version, [got.get(i, 0) for i in range(8)], want)
        text = "(SELECT value FROM StringIds WHERE id = %s)"
        rows = r.all(
            "SELECT DISTINCT %s, %s, channels, eventId IS NOT NULL FROM WARPSIGHT_COLLECTIVE WHERE"
            " bytes IS NOT NULL AND groupSize IS NOT NULL ORDER BY 1 DESC"
            % (text % "algorithmId", text % "protocolId")
        )
        sends = (None, None, 2 if version >= 4 else None, 1)
        same("v%d: choices" % version, rows, [("RING", "LL128", 2, 1), sends])
        same(
            "v%d: joined" % version,
            r.count(
                "WARPSIGHT_COLLECTIVE c JOIN WARPSIGHT_NCCL_EVENT e USING (globalPid, eventId)",
                "(SELECT value FROM StringIds WHERE id = c.nameId) ="
                " (SELECT value FROM StringIds WHERE id = e.operationNameId)"
                " AND c.bytes / 4 = e.elements AND e.start BETWEEN callStart - 1000000 AND c.start",
            ),
            12,
        )
        # What the proxy did belongs to the operation, and steps to their operation of the proxy.
        same(
            "v%d: work" % version,
            r.all(
                "SELECT direction, count(*), sum(o.bytes), min(o.steps), min(o.chunkBytes),"
                " count(DISTINCT o.operationId), count(DISTINCT o.rowId) FROM"
                " WARPSIGHT_NCCL_EVENT o WHERE eventKind = 3 GROUP BY 1 ORDER BY 1"
            ),
            [(d, 24, 24 * 3 * 4096, 3, 1 << 16, 12, 4) for d in (1, 2)],
        )
        same(
            "v%d: steps" % version,
            r.one(
                "SELECT count(*) FROM WARPSIGHT_NCCL_EVENT s JOIN WARPSIGHT_NCCL_EVENT o ON"
                " o.eventId = s.parentId AND o.eventKind = 3 AND o.channelId = s.channelId AND"
                " o.direction = s.direction AND o.rowId = s.rowId AND o.start <= s.start AND"
                " s.end <= o.end AND s.networkTime + s.gpuWait + s.flushTime > 0 AND"
                " ifnull(s.bytes, 4096) = 4096 WHERE s.eventKind = 4"
            ),
            144,
        )
        group = "0x00000000feed0001"
        row = "NCCL %s rank 2 channel 01" % group
        if version == 2:  # does not say which communicator it is
            row = "NCCL rank 2 channel 01"
        same(
            "v%d: rows" % version,
            r.count("WARPSIGHT_NCCL_EVENT e JOIN StringIds s ON s.id = rowId", "value = '%s'" % row)
            > 0,
            True,
        )
        if version >= 4:
            same(
                "v%d: communicator" % version,
                r.all(
                    "SELECT DISTINCT groupSize, groupRank, nodes, %s FROM WARPSIGHT_NCCL_EVENT"
                    " WHERE eventKind = 1 ORDER BY 1" % (text % "communicatorNameId")
                ),
                [(2, 1, 1, "world"), (4, 2, 1, "world")],
            )
            same(
                "channels",
                r.all(
                    "SELECT DISTINCT gpuEnd - gpuStart FROM WARPSIGHT_NCCL_EVENT"
                    " WHERE eventKind = 6"
                ),
                [(2000,)],
            )
    early = Report(
        options=("-t", "cuda,nvtx", "-s", "none", "--nccl-trace=channel"),
        app="nccl-app",
        env={"STANDIN_NCCL": "5", "STANDIN_NCCL_EARLY": "1"},
    )
    same(
        "channels before their kernels are not believed",
        early.all(
            "SELECT count(*), count(e.gpuStart), count(e.gpuEnd), sum(e.start >= c.start AND e.end"
            " <= c.end) FROM WARPSIGHT_COLLECTIVE c JOIN WARPSIGHT_NCCL_EVENT e ON e.operationId ="
            " c.eventId WHERE e.eventKind = 6 AND c.correlationId IS NOT NULL"
        ),
        [(24, 0, 0, 24)],
    )
    same("said", early.count("DIAGNOSTIC_EVENT", "text LIKE '%those of an earlier one%'"), 1)
    only = Report(options=("-t", "cuda,nvtx", "-s", "none", "--nccl-trace=proxy"), app="nccl-app")
    same(
        "proxy alone",
        only.all("SELECT DISTINCT eventKind FROM WARPSIGHT_NCCL_EVENT ORDER BY 1"),
        [(1,), (2,), (3,)],
    )
    rows = only.stats("nccl_proxy_sum")
    same(
        "algorithm",
        {
            (x["Operation"], x["Algorithm"], x["Protocol"], x["Channels"])
            for x in only.stats("nccl_sum")
            if x["Operation"] in ("Send", "Broadcast") or x["Message Bytes"] == "16"
        },
        {("Broadcast", "RING", "LL128", "2"), ("Send", "", "", "2"), ("AllReduce", "", "", "")},
    )
    same(
        "sends",
        {(x["Operation"], x["Direction"], x["Peer"]) for x in rows if x["Operation"] == "Send"},
        {("Send", "receive", "1"), ("Send", "send", "1")},
    )
    own = Report(
        options=("-t", "cuda,nvtx", "-s", "none", "--nccl-trace=all"),
        app="nccl-app",
        env={"NCCL_PROFILER_PLUGIN": "none"},
    )
    assert "NCCL_PROFILER_PLUGIN has NCCL load none" in own.err, own.err
    assert "NCCL has told nothing" not in own.err + only.err, own.err + only.err
    absent = Report(options=("-s", "none", "--nccl-trace=coll"), app="libraries-app")
    assert "NCCL has told nothing" in absent.err, absent.err
    same("rows", own.count("WARPSIGHT_COLLECTIVE", "eventId IS NOT NULL"), 0)


@test
def libraries():
    """Words of --trace make libraries say their calls, which are no ranges of the program."""
    calls = (
        "SELECT n.value, count(*) FROM WARPSIGHT_SLICE JOIN StringIds n ON n.id = nameId JOIN"
        " StringIds c ON c.id = categoryId AND c.value = 'CUBLAS_EVENTS' GROUP BY 1 ORDER BY 1"
    )
    ranges = (
        "SELECT DISTINCT coalesce(text, value) FROM NVTX_EVENTS LEFT JOIN StringIds ON"
        " id = textId WHERE eventType = 59 ORDER BY 1"
    )
    none = ("-s", "none")
    r = Report(options=("-t", "cuda,nvtx,cublas", *none), app="nccl-app")
    same("level 1", r.all(calls), [("cublasLtSSSMatmul", 1)])
    same(
        "ranges",
        [x for (x,) in r.all(ranges) if not x.startswith("nccl")],
        ["step"],
    )
    r = Report(options=("-t", "cublas-verbose", *none), app="nccl-app")
    every = [("cublasLtSSSMatmul", 1), ("cublasSetStream_v2", 1), ("cublasSgemm_v2", 1)]
    same("level 2", r.all(calls), every)
    same(
        "nothing else",
        r.all(ranges) if r.count("sqlite_master", "name = 'NVTX_EVENTS'") else [],
        [],
    )
    r = Report(
        options=("-t", "nccl,cublas,cudnn,cuda", *none),
        app="nccl-app",
        env={"CUBLAS_NVTX_LEVEL": "2"},
    )
    same("the user's own level", r.all(calls), every)
    same("its table", (r.count("CUBLAS_EVENTS"), r.count("CUDNN_EVENTS")), (3, 1))
    same("no range of the program", r.all(ranges)[-1:], [("ncclSend",)])
    same("collectives", r.count("WARPSIGHT_COLLECTIVE"), 15)


@test
def cublas():
    """What is multiplied is kept of each call; calls that the library makes itself are no calls."""
    r = Report(options=("-t", "cuda,cublas", "-s", "none"), app="cublas-app")
    rows = r.all(
        "SELECT value, count(*), transA, transB, m, n, k, batch, aType, bType, cType, computeType,"
        " algorithm, epilogue, flops, bytes, status FROM CUBLAS_EVENTS JOIN StringIds ON"
        " id = nameId GROUP BY 1, 5 ORDER BY 1, 5"
    )
    f, h, b = "fp32", "fp16", "bf16"
    none = (None, None, None)
    batched = "cublasGemmStridedBatchedEx"
    want = [
        # said by NVTX; cublasSgemm_v2 is so too, and not counted again
        ("cublasCreate_v2", 1) + (None,) * 15,
        (batched, 1, "N", "C", 64, 32, 16, 7, b, b, f, f, 99, None, 458752, 78848, None),
        ("cublasLtMatmul", 1, "T", "N", 128, 33, 512, 1, h, h, h, f, None, "gelu_bias")
        + (4325376, 173312, None),
        ("cublasSgemm_v2", 1, "N", "N", -1, 2, 3, None, f, f, f, *none, None, None, 7),
        ("cublasSgemm_v2", 3, "T", "N", 500, 300, 200, None, f, f, f, *none)
        + (60000000, 1240000, None),
    ]
    same("products", rows, want)
    # On the GPU each piece takes 1500 ns; the work of the last launch is of no library.
    same(
        "by call and shape",
        [
            (x["Call"], x["Calls"], x["GPU Ops"], x["Total Time (ns)"], x["GFLOP/s"])
            + (x["Bandwidth (MB/s)"], x["Shape"].split(" aType")[0])
            for x in r.stats("library_gpu_sum")
        ],
        [
            ("cublasSgemm_v2", "3", "3", "4500", "40000.0", "826666.667")
            + ("transA=T transB=N m=500 n=300 k=200",),
            (batched, "1", "2", "3000", "152.9", "26282.667")
            + ("transA=N transB=C m=64 n=32 k=16 batch=7",),
            ("cublasLtMatmul", "1", "1", "1500", "2883.6", "115541.333")
            + ("transA=T transB=N m=128 n=33 k=512 batch=1",),
        ],
    )


@test
def small_libraries():
    """cuFFT's and cuDNN's calls have the sizes of their plans; those of others their own."""
    words = "cuda,cufft,curand,gds,nvjpeg,cudnn,cusparse,cusolver"
    r = Report(options=("-t", words, "-s", "none"), app="libraries-app")
    name = "(SELECT value FROM StringIds WHERE id = nameId)"
    same(
        "transforms",
        r.all(
            "SELECT %s, plan, nx, ny, nz, batch, type, direction, bytes FROM CUFFT_EVENTS"
            " WHERE plan IS NOT NULL ORDER BY start" % name
        ),
        [
            ("cufftXtExec", 3, 64, 32, None, 5, "R2C", -1, 64 * 32 * 5 * 8),
            ("cufftExecC2C", 7, 1024, None, None, 6, "C2C", 1, 1024 * 6 * 16),
            ("cufftXtExec", 99, None, None, None, None, None, -1, None),
        ],
    )
    flops = r.one("SELECT flops FROM CUFFT_EVENTS WHERE plan = 7")
    assert abs(flops - 5 * 1024 * 10 * 6) < 2, flops
    same("plans", r.count("CUFFT_EVENTS", "plan IS NULL"), 2)
    same(
        "by shape",
        [(x["Call"], x["GPU Ops"]) for x in r.stats("library_gpu_sum")],
        [("cudnnBackendExecute", "1")] * 3
        + [("cufftExecC2C", "1"), ("cufftXtExec", "1"), ("cufftXtExec", "1")],
    )
    conv = ("8x6x32x30", "16x3x5x3", "8x16x16x15", "bf16", "2x2", "2x1", "1x1", 2)
    conv += (2 * 8 * 16 * 16 * 15 * 45, 2 * (8 * 6 * 32 * 30 + 16 * 45 + 8 * 16 * 16 * 15))
    old = ("2x3x9x9", "4x3x3x3", "2x4x5x6", "fp16", "2x2", "1x2", "1x1", 1)
    old += (2 * 240 * 27, 2 * (486 + 108 + 240))
    same(
        "convolutions",
        r.all(
            "SELECT %s, operations, x, w, y, dataType, stride, padding, dilation, groups, flops,"
            " bytes, status FROM CUDNN_EVENTS ORDER BY start" % name
        ),
        [
            ("cudnnBackendExecute", "conv_fwd+pointwise", *conv, None),
            ("cudnnBackendExecute", "conv_fwd", *conv, None),
            ("cudnnBackendExecute", *[None] * 12),
            ("cudnnConvolutionForward", "conv_fwd", *old, None),
        ],
    )
    same(
        "sparse products",
        r.all(
            "SELECT %s, transA, transB, rows, columns, nonzeros, n, computeType, algorithm, flops,"
            " status FROM CUSPARSE_EVENTS" % name
        ),
        [("cusparseSpMM", "N", "T", 100, 80, 500, 30, "complex128", 4, 8 * 500 * 30, None)],
    )
    lu = 4 * (2 * 60 * 30 * 30 - 90 * 900 + 2 * 27000 // 3)
    same(
        "factorisations",
        r.all("SELECT %s, m, n, lda, dataType, flops, status FROM CUSOLVER_EVENTS" % name),
        [
            ("cusolverDnDpotrf", None, 300, 304, "fp64", 9000000, None),
            ("cusolverDnXgetrf", 60, 30, 64, "complex64", lu, None),
        ],
    )
    same("numbers", r.all("SELECT count, bytes, status FROM CURAND_EVENTS"), [(1000, 4000, None)])
    same(
        "files",
        r.all("SELECT handle, size, offset, bytes, returnValue FROM CUFILE_EVENTS ORDER BY start"),
        [(16, 4096, 512, 2048, 2048), (16, 4096, -1, None, -1)],
    )
    same("images", r.all("SELECT %s, bytes FROM NVJPEG_EVENTS" % name), [("nvjpegDecode", 12345)])


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


def why_not_emulated(t):
    if t is stacks_of_calls:
        return "in emulation a process's address map is the emulator's"
    if t in CONVERSION:
        return "what becomes of the records is the same on every processor"
    if t in LATE:
        return "libraries can be loaded into running programs on x86-64 only"
    return None


failed = 0
chosen = [t for t in TESTS if not A.words or any(w in t.__name__ for w in A.words)]
for i, t in enumerate(chosen, 1):
    reason = why_not_emulated(t) if os.environ.get("WS_TEST_EMULATED") else None
    if t in LATE and os.uname().machine != "x86_64":
        reason = why_not_emulated(t)
    if reason:
        print("ok %d - cuda: %s # SKIP %s" % (i, t.__name__.replace("_", " "), reason), flush=True)
        continue
    try:
        t()
        print("ok %d - cuda: %s" % (i, t.__name__.replace("_", " ")), flush=True)
    except Exception as e:
        failed += 1
        print("not ok %d - cuda: %s" % (i, t.__name__.replace("_", " ")), flush=True)
        print(
            "# "
            + (str(e) if isinstance(e, AssertionError) else traceback.format_exc()).replace(
                "\n", "\n# "
            ),
            flush=True,
        )
print("1..%d" % len(chosen))
shutil.rmtree(TMP, ignore_errors=True)
sys.exit(1 if failed else 0)
