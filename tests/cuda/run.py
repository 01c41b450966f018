#!/usr/bin/env python3
"""
run.py - CUDA recording from the program to the report, with the stand-in for the driver and CUPTI: run.py --build BUILD-FOLDER [WORD...]. Prints TAP.

Counts are exact: they follow from what app.c was told to do. Nothing here needs a GPU or CUDA; tests/gpu has what does.
"""
import argparse
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
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
HOME = os.path.join(TMP, "toolkit")  # looks like a toolkit: CUDA_HOME leads the hook to the stand-in
os.makedirs(os.path.join(HOME, "lib64"))
os.symlink(os.path.join(PROGRAMS, "libcupti.so.13"), os.path.join(HOME, "lib64", "libcupti.so.13"))
TESTS = []


def test(f):
    TESTS.append(f)
    return f


class Report:
    def __init__(self, *what, options=(), fault=None, expect=0, app="cuda-app", env=None):
        self.path = os.path.join(TMP, "r%d.wsrep" % len(os.listdir(TMP)))
        e = dict(os.environ, CUDA_HOME=HOME, **(env or {}))
        for name in ("CUDA_INJECTION64_PATH", "CUDA_PATH"):
            if not env or name not in env:
                e.pop(name, None)
        e["STANDIN_FAULT"] = fault or ""
        r = subprocess.run([WARPSIGHT, "profile", "-o", self.path, *options, "--", os.path.join(PROGRAMS, app), *what], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, env=e, timeout=120)
        self.out, self.err = r.stdout, r.stderr
        assert r.returncode == expect, "exit %d, not %d: %s" % (r.returncode, expect, r.stderr)
        subprocess.run([WARPSIGHT, "export", "-q", "--lazy=false", "-o", self.path + ".sqlite", self.path], check=True)
        self.db = sqlite3.connect(self.path + ".sqlite")

    def all(self, sql):
        return self.db.execute(sql).fetchall()

    def one(self, sql):
        return self.db.execute(sql).fetchone()[0]

    def kernels(self):
        return dict(self.all("SELECT s.value, count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.shortName GROUP BY 1"))

    def calls(self):
        return dict(self.all("SELECT s.value, count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId GROUP BY 1"))

    def count(self, table, where="1"):
        return self.one("SELECT count(*) FROM %s WHERE %s" % (table, where))

    def said(self):
        return " ".join(t for (t,) in self.all("SELECT text FROM DIAGNOSTIC_EVENT"))


def same(what, got, want):
    assert got == want, "%s: %r, not %r" % (what, got, want)


def joined(r):
    """Each piece of work has exactly one call of its process."""
    for t in ("KERNEL", "MEMCPY", "MEMSET"):
        same("%s without exactly one call" % t, r.one("""SELECT count(*) FROM CUPTI_ACTIVITY_KIND_%s w WHERE
             (SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME a WHERE a.correlationId = w.correlationId
              AND a.globalTid / 0x1000000 = w.globalPid / 0x1000000) != 1""" % t), 0)


LAUNCH, COPY, SYNC = "cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "cudaStreamSynchronize_v3020"


@test
def work_and_calls():
    r = Report("init", "work:1000", "driver:10")
    same("kernels", r.kernels(), {"vector": 510, "gemm": 500})
    same("calls", r.calls(), {LAUNCH: 1000, COPY: 1000, SYNC: 1, "cuLaunchKernel": 10})
    same("classes", r.all("SELECT eventClass, count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME GROUP BY 1"), [(0, 2001), (1, 10)])
    same("names", r.all("SELECT DISTINCT d.value, m.value FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds d ON d.id = k.demangledName "
                        "JOIN StringIds m ON m.id = k.mangledName ORDER BY 1"),
         [("void outer::inner::gemm<4, float>(float*, float*, int)", "_ZN5outer5inner4gemmILi4EfEEvPfS2_i"),
          ("void vector<float>(float*, float*, int)", "_Z6vectorIfEvPT_S1_i")])
    joined(r)
    same("losses", r.count("WARPSIGHT_LOSS"), 0)
    same("kernel", r.all("SELECT gridX, gridY, gridZ, blockX, registersPerThread, staticSharedMemory, streamId, contextId, deviceId, cacheConfig, launchType "
                         "FROM CUPTI_ACTIVITY_KIND_KERNEL LIMIT 1"), [(264, 2, 1, 256, 32, 1024, 7, 1, 0, 1, 1)])
    same("copies", r.all("SELECT DISTINCT copyKind, bytes, srcKind, dstKind FROM CUPTI_ACTIVITY_KIND_MEMCPY"), [(1, 4096, 0, 2)])
    same("before their launch", r.one("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME a "
                                      "ON a.correlationId = k.correlationId WHERE k.start < a.start"), 0)


def stacks(r):
    """Name of the call -> the set of its stacks, each the names of the functions that lie in the program, the innermost first."""
    out = subprocess.run([os.path.join(BUILD, "tests", "symbols", "dump_stacks"), r.path], check=True, stdout=subprocess.PIPE, text=True).stdout
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
    same("calls", {name: len(s) for name, s in all_calls.items()}, {LAUNCH: 5, COPY: 5, SYNC: 1, "cuLaunchKernel": 3})
    for name, found in all_calls.items():
        for s in found:
            assert "_start" == s[-1] and any("main" in f for f in s), "%s was called by %s" % (name, s)
            assert not any("warpsight" in f or "ws_" in f for f in s), "frames of the hooks: %s" % s
    kernels = stacks(Report("init", "work:5", "driver:3", options=["--cudabacktrace=kernel:0"]))
    same("of kernels", sorted(kernels), sorted(["cuLaunchKernel", LAUNCH]))
    same("of copies and waits", sorted(stacks(Report("init", "work:5", options=["--cudabacktrace=memory:0,sync:0"]))), sorted([COPY, SYNC]))
    same("of calls that last a minute", stacks(Report("init", "work:5", options=["--cudabacktrace=all:60000000000"])), {})


@test
def occupancy():
    r = Report("init", "work:1")
    # 256 threads of 32 registers and 2 KiB: 8 blocks by warps; 528 blocks over 132 x 8
    same("occupancy", r.all("SELECT theoreticalOccupancy, waves, blocksPerSm, occupancyLimiter FROM CUPTI_ACTIVITY_KIND_KERNEL"), [(1.0, 0.5, 8, 1)])


@test
def device_context_streams():
    r = Report("init", "stream", "work:1")
    same("device", r.all("SELECT name, busLocation, uuid, chipName, smCount, computeMajor, maxShmemPerBlockOptin, memoryBandwidth FROM TARGET_INFO_GPU"),
         [("Stand-in H200", "0000:0A:00.0", "GPU-00112233-4455-6677-8899-aabbccddeeff", "GH100", 132, 9, 232448, 4800000000000)])
    same("contexts", r.all("SELECT nullStreamId, deviceId, contextId, isGreenContext FROM TARGET_INFO_CUDA_CONTEXT_INFO"), [(7, 0, 1, 0)])
    same("streams", r.all("SELECT streamId, contextId, priority, flag FROM TARGET_INFO_CUDA_STREAM"), [(13, 1, -5, 2)])


@test
def waits_and_events():
    r = Report("init", "event", "work:1")
    same("events", r.all("SELECT streamId, eventId, timestamp FROM CUPTI_ACTIVITY_KIND_CUDA_EVENT"), [(7, 1, None)])
    same("waits", r.all("SELECT s.syncType, s.streamId, s.eventId, s.eventSyncId = e.eventSyncId FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION s "
                        "LEFT JOIN CUPTI_ACTIVITY_KIND_CUDA_EVENT e ON e.eventId = s.eventId ORDER BY s.start"), [(2, 13, 1, 1), (3, 7, None, None)])
    same("without", Report("init", "event", options=["--cuda-event-trace=false"]).count("CUPTI_ACTIVITY_KIND_CUDA_EVENT"), 0)
    same("with times", Report("init", "event", options=["--cuda-event-trace=timestamps"]).count("CUPTI_ACTIVITY_KIND_CUDA_EVENT"), 1)


@test
def graphs():
    r = Report("init", "graph")
    same("graphs", r.all("SELECT eventClass FROM CUDA_GRAPH_EVENTS ORDER BY start"), [(95,), (94,)])
    same("nodes", r.all("SELECT s.value, graphNodeId FROM CUDA_GRAPH_NODE_EVENTS JOIN StringIds s ON s.id = nameId ORDER BY start"),
         [("kernel", 0x2000), ("memcpy", 0x2001)])


@test
def memory():
    r = Report("init", "memory", options=["--cuda-memory-usage=true"])
    same("use", r.all("SELECT memoryOperationType, bytes, bytesInUse FROM CUDA_GPU_MEMORY_USAGE_EVENTS ORDER BY start"),
         [(0, 1000, 1000), (0, 500, 1500), (1, 1000, 500)])
    same("not asked for", Report("init", "memory").count("CUDA_GPU_MEMORY_USAGE_EVENTS"), 0)


@test
def errors():
    r = Report("init", "fail", "fail", options=["--sample=none", "--cpuctxsw=none"])  # which have things of their own to say
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
    same("all", r.calls(), {LAUNCH: 10, COPY: 10, "cudaStreamQuery_v3020": 10, SYNC: 1})
    bad = subprocess.run([WARPSIGHT, "profile", "--cuda-api=cudaFree", "true"], stderr=subprocess.PIPE, text=True)
    assert bad.returncode == 2 and "neither +NAME nor -NAME" in bad.stderr, bad.stderr


@test
def killed():
    r = Report("init", "work:3000", "kill", expect=137)
    same("work", (sum(r.kernels().values()), r.count("CUPTI_ACTIVITY_KIND_MEMCPY"), sum(r.calls().values())), (3000, 3000, 6001))
    joined(r)


@test
def killed_in_flight():
    r = Report("init", "work:100", "sleep:200", "kill", fault="unfinished", expect=137)
    same("kernels", r.kernels(), {"vector": 50, "gemm": 50})
    same("marked", r.all("SELECT DISTINCT flags, end FROM CUPTI_ACTIVITY_KIND_KERNEL"), [(3, None)])


@test
def ended_by_exit_and_abort():
    same("_exit", Report("init", "work:500", "_exit").kernels(), {"vector": 250, "gemm": 250})
    same("abort", sum(Report("init", "work:500", "sleep:100", "abort", expect=134).kernels().values()), 500)


@test
def reset():
    same("kernels", Report("init", "work:500", "reset", "kill", expect=137).kernels(), {"vector": 250, "gemm": 250})


@test
def forked():
    r = Report("init", "work:10", "fork")
    same("kernels", sum(r.kernels().values()), 15)
    same("processes with CUDA", r.one("SELECT count(DISTINCT globalPid) FROM CUPTI_ACTIVITY_KIND_KERNEL"), 1)


@test
def names_through_nvtx():
    r = Report("init", "stream", "names")
    same("names", r.all("SELECT s.value, deviceId, contextId, streamId FROM WARPSIGHT_NVTX_RESOURCE r JOIN StringIds s ON s.id = r.nameId ORDER BY 1"),
         [("nothing", None, None, None), ("the copies", 0, 1, 13), ("the device", 0, None, None)])


def inner_profiler_of(app):
    bare = subprocess.run([os.path.join(PROGRAMS, app), "init", "inner"], stdout=subprocess.PIPE, text=True).stdout
    assert "kernels 100 copies 0 calls 301 queries 100 callbacks 2 bad times 0 bad names 0" in bare, bare
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
    same("what it does not know", r.all("SELECT DISTINCT maxPotentialClusterSize, maxActiveClusters FROM CUPTI_ACTIVITY_KIND_KERNEL"), [(0, 0)])
    same("copies", r.all("SELECT DISTINCT copyCount, graphNodeId FROM CUPTI_ACTIVITY_KIND_MEMCPY"), [(None, None)])
    assert "older than 12.5" in r.said(), r.said()


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
    same("none counts as unset", sum(Report("init", "work:10", env={"CUDA_INJECTION64_PATH": "none"}).kernels().values()), 10)


@test
def replay_of_a_gpu():
    """What an H200 wrote for tests/gpu/basic.cu: a graph, streams, events, copies, errors."""
    r = Report("init", "replay:" + os.path.join(HERE, "h200.records"))
    same("kernels", r.kernels(), {"scale": 100, "spin": 10, "shared": 1})
    same("graph launches", r.count("CUPTI_ACTIVITY_KIND_GRAPH_TRACE"), 50)
    same("copies", r.all("SELECT copyKind, count(*) FROM CUPTI_ACTIVITY_KIND_MEMCPY GROUP BY 1"), [(1, 6), (2, 1), (8, 1)])
    same("memory sets", r.count("CUPTI_ACTIVITY_KIND_MEMSET"), 2)
    same("failed calls", r.all("SELECT s.value, returnValue FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds s ON s.id = nameId WHERE returnValue "
                               "ORDER BY 2 DESC"), [("cudaMalloc_v3020", 2), (LAUNCH, 1)])
    same("calls", sum(r.calls().values()), 207)
    same("overhead", r.count("CUPTI_ACTIVITY_KIND_OVERHEAD"), 14)
    same("a GPU", r.one("SELECT name FROM TARGET_INFO_GPU WHERE smCount = 132"), "Stand-in H200")
    joined(r)


failed = 0
chosen = [t for t in TESTS if not A.words or any(w in t.__name__ for w in A.words)]
for i, t in enumerate(chosen, 1):
    try:
        t()
        print("ok %d - cuda: %s" % (i, t.__name__.replace("_", " ")), flush=True)
    except Exception as e:
        failed += 1
        print("not ok %d - cuda: %s" % (i, t.__name__.replace("_", " ")), flush=True)
        print("# " + (str(e) if isinstance(e, AssertionError) else traceback.format_exc()).replace("\n", "\n# "), flush=True)
print("1..%d" % len(chosen))
shutil.rmtree(TMP, ignore_errors=True)
sys.exit(1 if failed else 0)
