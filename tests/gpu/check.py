#!/usr/bin/env python3
"""
check.py - what recording CUDA on a real GPU must hold: check.py --warpsight BINARY --programs
FOLDER [--torch] [--long SECONDS] [--only WORD] [--jobs N]. Prints TAP; with --list only the names
of the checks, which needs no GPU.

Several checks run side by side, the longest, which are the last, first. Those whose times matter
are @alone. Several runs may share the checks: --part 1/2 makes every other one.

The programs are those of this folder, built by scripts/check-gpu.sh. Counts are exact: they come
from the programs' sources, or from torch.profiler in the same run.
"""
import argparse
import bisect
import concurrent.futures
import csv
import itertools
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
p = argparse.ArgumentParser()
p.add_argument("--warpsight", default="warpsight")
p.add_argument("--programs", default=".")
p.add_argument("--list", action="store_true")
p.add_argument("--torch", action="store_true")
p.add_argument(
    "--long",
    type=int,
    default=0,
    help="also record a training loop for so many seconds and look for growth and drift",
)
p.add_argument("--only", default="")
p.add_argument("--jobs", type=int, default=max(1, min(8, (os.cpu_count() or 1) // 4)))
p.add_argument("--part", default="1/1")
A = p.parse_args()
TMP = tempfile.mkdtemp(prefix="warpsight-gpu-")
TESTS = []
NUMBERS = itertools.count()


def test(f):
    TESTS.append(f)
    return f


def alone(f):
    f.alone = True
    return f


class Report:
    def __init__(self, path):
        self.path = path
        db = path + ".sqlite"
        subprocess.run(
            [
                A.warpsight,
                "export",
                "-t",
                "sqlite",
                "--force-overwrite=true",
                "--lazy=false",
                "-o",
                db,
                path,
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self.db = sqlite3.connect(db)

    def one(self, sql):
        return self.db.execute(sql).fetchone()[0]

    def all(self, sql):
        return self.db.execute(sql).fetchall()


def record(*program, options=(), expect=0, env=None, timeout=120):
    path = os.path.join(TMP, "r%d.wsrep" % next(NUMBERS))
    r = subprocess.run(
        [A.warpsight, "profile", "-o", path, *options, "--", *program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=timeout,
        env=dict(os.environ, **(env or {})),
    )
    assert r.returncode == expect, "exit %d, not %d: %s" % (r.returncode, expect, r.stderr[-2000:])
    rep = Report(path)
    rep.out, rep.err = r.stdout, r.stderr
    return rep


def basic(*args, **kw):
    return record(os.path.join(A.programs, "basic"), *args, **kw)


def same(what, got, want):
    assert got == want, "%s: %r, not %r" % (what, got, want)


KERNELS = (
    "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.shortName WHERE"
    " s.value = '%s'"
)


def usual_counts(r, nodes=False):
    same("scale kernels", r.one(KERNELS % "scale"), 100 + (20 * 50 if nodes else 0))
    same("shared kernels", r.one(KERNELS % "shared"), 1)
    same("spin kernels", r.one(KERNELS % "spin"), 10)
    same(
        "graph launches",
        r.one("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE"),
        0 if nodes else 50,
    )
    same(
        "copies to the device",
        r.one(
            "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE copyKind = 1 AND bytes = 4194304"
        ),
        6,
    )
    same(
        "from it",
        r.one(
            "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE copyKind = 2 AND bytes = 4194304"
        ),
        1,
    )
    same(
        "inside it",
        r.one(
            "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE copyKind = 8 AND bytes = 4194304"
        ),
        1,
    )
    same("memory sets", r.one("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_MEMSET"), 2)


def joins(r):
    """Every piece of work has exactly one call of its process."""
    for t in ("KERNEL", "MEMCPY", "MEMSET"):
        bad = r.all(
            """SELECT w.correlationId, (SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME a WHERE a.correlationId = w.correlationId
                       AND a.globalTid / 0x1000000 = w.globalPid / 0x1000000) n FROM CUPTI_ACTIVITY_KIND_%s w
                       WHERE n != 1 AND w.copyKind NOT IN (11, 12, 13)""".replace(
                "AND w.copyKind NOT IN (11, 12, 13)", "" if t != "MEMCPY" else "AND w.copyKind < 11"
            )
            % t
        )
        assert not bad, "%s without exactly one call: %d, such as %r" % (t, len(bad), bad[:3])


def order(r):
    bad = r.one(
        """SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME a ON a.correlationId = k.correlationId
                   AND a.globalTid / 0x1000000 = k.globalPid / 0x1000000 WHERE k.start < a.start OR k.end < k.start"""
    )
    same("kernels that began before their launch", bad, 0)


@test
def everything():
    r = basic()
    usual_counts(r)
    joins(r)
    order(r)
    same(
        "pageable copies",
        r.one("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE srcKind = 0 OR dstKind = 0"),
        2,
    )
    same(
        "demangled",
        r.one(
            "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id ="
            " k.demangledName WHERE s.value = 'void outer::scale<float>(float*, int, float)'"
        ),
        100,
    )
    g = r.all(
        "SELECT gridX, blockX, staticSharedMemory, dynamicSharedMemory, theoreticalOccupancy, waves"
        " FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.shortName WHERE s.value ="
        " 'shared'"
    )[0]
    same("launch", g[:4], (4, 1024, 4096, 8192))
    assert 0.4 < g[4] <= 1 and 0 < g[5] < 1, "occupancy %r" % (g,)
    same("streams", r.one("SELECT count(DISTINCT streamId) FROM CUPTI_ACTIVITY_KIND_KERNEL"), 3)
    assert r.one("SELECT count(*) FROM TARGET_INFO_CUDA_STREAM WHERE priority < 0") >= 1
    assert r.one("SELECT smCount FROM TARGET_INFO_GPU") > 0
    assert (
        r.one(
            "SELECT count(*) FROM TARGET_INFO_GPU WHERE busLocation IS NOT NULL AND uuid LIKE"
            " 'GPU-%'"
        )
        > 0
    )
    same("contexts", r.one("SELECT count(*) FROM TARGET_INFO_CUDA_CONTEXT_INFO"), 1)
    same(
        "failed calls",
        r.one("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE returnValue NOT IN (0, 600)"),
        2,
    )
    assert "cudaMalloc returned 2: out of memory" in r.err, r.err
    same(
        "queries",
        r.one(
            "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId"
            " WHERE s.value LIKE 'cudaGetLastError%'"
        ),
        0,
    )
    same("events", r.one("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_CUDA_EVENT"), 1)
    assert r.one("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION WHERE syncType = 1") >= 1
    assert r.one("SELECT count(*) FROM CUDA_GRAPH_NODE_EVENTS") >= 21
    same("losses", r.all("SELECT * FROM WARPSIGHT_LOSS"), [])


@test
def nodes_of_graphs():
    r = basic(options=["--cuda-graph-trace=node"])
    usual_counts(r, nodes=True)
    joins(r)
    same(
        "nodes",
        r.one("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE graphNodeId IS NOT NULL"),
        1000,
    )


def measure(bare, *options):
    """Rows of the page of raw values, a kernel each, of a run that is otherwise as `bare`."""
    path = os.path.join(TMP, "kernels%d.wsrep" % next(NUMBERS))
    command = [A.warpsight, "kernel", "-q", "-o", path, "-k", "scale", "-c", "5", *options]
    r = subprocess.run([*command, *bare.args], capture_output=True, text=True)
    same("exit status", r.returncode, bare.returncode)
    assert set(r.stdout.splitlines()) == set(bare.stdout.splitlines()), (options, r)
    command = [A.warpsight, "kernel", "--page", "raw", "--csv", path]
    page = subprocess.run(command, capture_output=True, text=True).stdout
    rows = list(csv.DictReader(page.splitlines()))[1:]  # behind the row of units
    same("kernels", len(rows), 5)
    return rows


def run_bare():
    program = os.path.join(A.programs, "basic")
    return subprocess.run([program], capture_output=True, text=True)


@test
def measured_kernels():
    """Their results are those of a bare run, and each has all its metrics."""
    bare = run_bare()
    for options in (
        (),
        ("--cache-control", "none"),
        ("--replay-mode", "application", "--keep-counters"),
    ):
        for row in measure(bare, *options):
            assert float(row["gpu__time_duration.sum"]) > 500, (options, row)
            assert row["sm__throughput.avg.pct_of_peak_sustained_elapsed"], (options, row)


@test
def all_sections_of_kernels():
    """The full set measures what the basic one does, and more, one launch at a time or many."""
    bare = run_bare()
    basic_set = measure(bare)
    for options in ((), ("--cache-control", "none"), ("--replay-batch", "1")):
        for some, row in zip(basic_set, measure(bare, "--set", "full", *options)):
            measured, wanted = ({n for n in r if r[n]} for r in (row, some))
            assert measured > wanted, (options, wanted - measured)
            assert float(row["smsp__inst_executed.sum"] or 0) > 0, (options, row)


@test
def memory():
    r = basic(options=["--cuda-memory-usage=true"])
    usual_counts(r)
    same(
        "device memory",
        r.one("SELECT max(bytesInUse) FROM CUDA_GPU_MEMORY_USAGE_EVENTS WHERE memKind = 2"),
        8 << 20,
    )


@test
def all_calls():
    r = basic(options=["--cuda-trace-all-apis=true"])
    usual_counts(r)
    assert (
        r.one(
            "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId"
            " WHERE s.value LIKE 'cudaGetLastError%'"
        )
        >= 2
    )


@test
def chosen_calls():
    r = basic(options=["--cuda-api=+cudaGetLastError,-cudaMemcpyAsync"])
    names = {
        n.split("_")[0]
        for (n,) in r.all(
            "SELECT DISTINCT s.value FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id ="
            " r.nameId"
        )
    }
    assert "cudaGetLastError" in names and "cudaMemcpyAsync" not in names, names


@test
def killed():
    r = basic("kill", expect=128 + 9)
    usual_counts(r)
    joins(r)


@test
def left_by_exit():
    usual_counts(basic("_exit"))


@test
def reset():
    usual_counts(basic("reset"))


@test
def threads():
    r = basic("threads")
    same("kernels", r.one(KERNELS % "scale"), 100 + 4000)
    same("threads", r.one("SELECT count(DISTINCT globalTid) FROM CUPTI_ACTIVITY_KIND_RUNTIME"), 9)
    joins(r)
    order(r)


@test
def forked():
    usual_counts(basic("fork"))


@test
def host_functions():
    r = basic("hostfunc")
    same(
        "calls",
        r.one(
            "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId"
            " WHERE s.value LIKE 'cudaLaunchHostFunc%'"
        ),
        7,
    )
    same(
        "functions",
        r.one(
            "SELECT count(*) FROM WARPSIGHT_CUDA_HOST_FUNCTION h JOIN StringIds s ON s.id ="
            " h.nameId WHERE s.value LIKE 'on_host%'"
        ),
        7,
    )


@test
def green_contexts():
    r = basic("green")
    if "no green contexts" in r.out:
        return r.out.strip()
    same("kernels", r.one(KERNELS % "scale"), 110)
    same(
        "in the green context",
        r.one("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE greenContextId IS NOT NULL"),
        10,
    )
    same(
        "contexts",
        r.one("SELECT count(*) FROM TARGET_INFO_CUDA_CONTEXT_INFO WHERE isGreenContext = 1"),
        1,
    )


@test
def names_of_streams():
    r = basic()
    same(
        "names",
        r.all(
            """SELECT n.value, (SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k WHERE k.streamId = r.streamId AND k.contextId = r.contextId AND
                           k.deviceId = r.deviceId) FROM WARPSIGHT_NVTX_RESOURCE r JOIN StringIds n ON n.id = r.nameId"""
        ),
        [("urgent", 33)],
    )


@test
def unified_memory():
    r = basic(
        "managed", options=["--cuda-um-gpu-page-faults=true", "--cuda-um-cpu-page-faults=true"]
    )
    moved = r.one("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE copyKind >= 11")
    faults = r.one("SELECT count(*) FROM CUDA_UM_GPU_PAGE_FAULT_EVENTS") + r.one(
        "SELECT count(*) FROM CUDA_UM_CPU_PAGE_FAULT_EVENTS"
    )
    assert moved or faults or "unified memory" in r.err, "no traffic and no word about it"


@test
def killed_while_launching():
    path = os.path.join(TMP, "killed.wsrep")
    t = subprocess.Popen(
        [
            A.warpsight,
            "profile",
            "-q",
            "-o",
            path,
            "--",
            os.path.join(A.programs, "basic"),
            "forever",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    seen, until = 0, time.monotonic() + 4
    while time.monotonic() < until:
        seen = int(t.stdout.readline())
    pid = int(
        subprocess.run(
            ["pgrep", "-P", str(t.pid)], stdout=subprocess.PIPE, text=True
        ).stdout.split()[0]
    )
    os.kill(pid, signal.SIGKILL)
    rest = t.stdout.read().split()
    seen = int(rest[-1]) if rest else seen
    same("exit", t.wait(), 137)
    n = Report(path).one(KERNELS % "scale") - 100
    assert n >= seen, "%d kernels in the report, %d known to have run" % (n, seen)


@test
@alone
def clock_for_long():
    """Launch and kernel keep their distance: the two clocks do not drift apart within the run."""
    path = os.path.join(TMP, "drift.wsrep")
    subprocess.run(
        [
            A.warpsight,
            "profile",
            "-q",
            "-o",
            path,
            "-d",
            "12",
            "--",
            os.path.join(A.programs, "basic"),
            "forever",
        ],
        stdout=subprocess.DEVNULL,
    )
    rows = Report(path).all(
        """SELECT k.start - a.start, a.start FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME a
                               ON a.correlationId = k.correlationId WHERE k.gridX = 1 AND k.blockX = 32 AND k.rowid % 1000 = 3 ORDER BY a.start"""
    )
    assert len(rows) > 100, len(rows)
    third = len(rows) // 3
    early = sorted(d for d, _ in rows[:third])[third // 2]
    late = sorted(d for d, _ in rows[-third:])[third // 2]
    assert abs(late - early) < 20000 and min(d for d, _ in rows) >= 0, (early, late, min(rows))


def launched(r):
    """When each kernel of the report was launched, in order; each has one call."""
    same(
        "kernels without one call",
        r.one(
            "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k WHERE (SELECT count(*) FROM"
            " CUPTI_ACTIVITY_KIND_RUNTIME a WHERE a.correlationId = k.correlationId) != 1"
        ),
        0,
    )
    rows = r.all(
        "SELECT a.start, k.end FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME a"
        " ON a.correlationId = k.correlationId ORDER BY 1"
    )
    same("kernels without times", sum(end is None for _, end in rows), 0)
    return [start for start, _ in rows]


def launches(r):
    """Calls that launch kernels."""
    return r.one(
        "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME a JOIN StringIds s ON s.id = a.nameId"
        " WHERE s.value LIKE 'cu%LaunchKernel%'"
    )


def reports_of(r):
    """The reports of a session, in order."""
    reports, n = [r], 2
    while os.path.exists(r.path[: -len(".wsrep")] + ".%d.wsrep" % n):
        reports.append(Report(r.path[: -len(".wsrep")] + ".%d.wsrep" % n))
        n += 1
    return reports


@test
def ranges_of_a_static_runtime():
    """What was launched between cudaProfilerStart and Stop, though it runs long after."""
    program = (os.path.join(A.programs, "ranges"), "100", "200", "300", "150", "100", "70")
    r = record(*program, options=["-c", "cudaProfilerApi", "--capture-range-end=repeat:2"])
    reports = reports_of(r)
    got = [(len(launched(one)), launches(one)) for one in reports]
    same("kernels and their launches", got, [(200, 200), (150, 150)])
    r = record(
        *program, options=["-t", "none", "-c", "cudaProfilerApi", "--capture-range-end=repeat:3"]
    )
    same("ranges where CUDA is not traced", len(reports_of(r)), 3)


def torch_counts(r, options=()):
    line = [l for l in r.out.splitlines() if l.startswith("TORCH ")]
    theirs = json.loads(line[0][6:])
    a, b = r.all(
        "SELECT start, end FROM NVTX_EVENTS WHERE text = 'profiled' OR textId = (SELECT id FROM"
        " StringIds WHERE value = 'profiled')"
    )[0]
    inside = """ JOIN CUPTI_ACTIVITY_KIND_RUNTIME a ON a.correlationId = k.correlationId AND a.globalTid / 0x1000000 = k.globalPid / 0x1000000
                 WHERE a.start BETWEEN %d AND %d""" % (
        a,
        b,
    )
    ours = {
        n: [c, d]
        for n, c, d in r.all(
            "SELECT s.value, count(*), sum(k.end - k.start) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN"
            " StringIds s ON s.id = k.demangledName" + inside + " GROUP BY 1"
        )
    }
    theirs_k = {n: v for n, v in theirs.items() if not n.startswith("Mem")}
    print(
        "# torch: %d kernels of %d names; ours %d of %d"
        % (
            sum(v[0] for v in theirs_k.values()),
            len(theirs_k),
            sum(v[0] for v in ours.values()),
            len(ours),
        )
    )
    same("kernels", sum(v[0] for v in ours.values()), sum(v[0] for v in theirs_k.values()))
    same(
        "counts by name",
        sorted(v[0] for v in ours.values()),
        sorted(v[0] for v in theirs_k.values()),
    )
    mine, its = sum(v[1] for v in ours.values()), sum(v[1] for v in theirs_k.values())
    assert abs(mine - its) <= its * 0.01, "durations %d and %d" % (mine, its)
    for kind, table in (("Memcpy", "MEMCPY"), ("Memset", "MEMSET")):
        same(
            kind,
            r.one("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_%s k" % table + inside),
            sum(v[0] for n, v in theirs.items() if n.startswith(kind)),
        )
    different = set(ours) ^ set(theirs_k)
    assert len(different) <= len(ours) // 2, "names differ: %r" % sorted(different)[:4]


if A.torch:

    @test
    def torch_profiler_inside():
        r = record(
            sys.executable,
            os.path.join(HERE, "train.py"),
            "--steps",
            "30",
            "--profile",
            "10:20",
            options=["-t", "cuda,nvtx"],
            timeout=200,
        )
        torch_counts(r)
        joins(r)
        order(r)

    def windows(by, *which, options=()):
        return record(
            *[sys.executable, os.path.join(HERE, "windows.py"), "--by", by, *which],
            options=["-t", "cuda,nvtx", "-s", "none", *options],
            timeout=200,
        )

    def steps_of(r):
        """Kernels that were launched in each step of the report."""
        steps = r.all(
            "SELECT n.start, n.end FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId"
            " WHERE coalesce(n.text, s.value) = 'step' ORDER BY 1"
        )
        times = launched(r)
        return [bisect.bisect(times, end) - bisect.bisect(times, start) for start, end in steps]

    @test
    def ten_steps_of_sixty():
        """Windows of a training loop hold exactly their steps, whoever says which they are."""
        full = steps_of(windows("none"))
        same("steps", len(full), 60)
        same("kernels of a step", len(set(full[10:])), 1)
        per = full[-1]
        stop = ["--capture-range-end=stop"]
        once = [
            ("cuda", "20:30", ["-c", "cudaProfilerApi", *stop]),
            ("nvtx", "20:30", ["-c", "nvtx", "-p", "window", *stop]),
            ("none", "20:30", ["--steps=20-29", *stop]),
        ]
        for by, which, options in once:
            r = windows(by, which, options=options)
            what = "by %s, %s: " % (by, options[1])
            same(what + "kernels, launches", (len(launched(r)), launches(r)), (10 * per, 10 * per))
            same(what + "kernels of the steps", steps_of(r), [per] * 10)
        r = windows("none", "--unmarked", options=["--steps=20-29", *stop])
        print("# " + " ".join(line for line in r.err.splitlines() if "Steps are" in line))
        got = (len(launched(r)), launches(r))
        same("by launches: kernels and their launches", got, (10 * per, 10 * per))
        r = windows(
            *["cuda", "20:30", "33:38", "40:55"],
            options=["-c", "cudaProfilerApi", "--capture-range-end=repeat:3"],
        )
        got = [(len(steps_of(one)), len(launched(one)), launches(one)) for one in reports_of(r)]
        same("repeat:3", got, [(n, n * per, n * per) for n in (10, 5, 15)])
        print("# %d kernels a step" % per)

    def torch_totals(out):
        """Kernels that torch.profiler counted, an entry for each rank."""
        lines = [l for l in out.splitlines() if "TORCH " in l]
        return sorted(
            sum(
                v[0]
                for n, v in json.loads(l[l.index("TORCH ") + 6 :]).items()
                if not n.startswith("Mem")
            )
            for l in lines
        )

    def profiled_kernels(rep):
        """Kernels launched within the range "profiled", an entry for each process."""
        rows = rep.all(
            """SELECT n.globalTid / 0x1000000, count(*) FROM NVTX_EVENTS n JOIN CUPTI_ACTIVITY_KIND_RUNTIME a ON a.globalTid / 0x1000000 =
                          n.globalTid / 0x1000000 AND a.start BETWEEN n.start AND n.end JOIN CUPTI_ACTIVITY_KIND_KERNEL k ON k.correlationId = a.correlationId
                          AND k.globalPid / 0x1000000 = a.globalTid / 0x1000000 WHERE n.text = 'profiled' GROUP BY 1"""
        )
        return [n for _, n in rows]

    def two_ranks(outside, inside):
        """torchrun with two ranks; `outside` before torchrun, `inside` before the program of each
        rank.
        """
        import torch

        if torch.cuda.device_count() < 2:
            return None
        r = subprocess.run(
            [
                *outside,
                sys.executable,
                "-m",
                "torch.distributed.run",
                "--standalone",
                "--nproc-per-node",
                "2",
                "--no-python",
                *inside,
                sys.executable,
                os.path.join(HERE, "train.py"),
                "--steps",
                "30",
                "--ranks",
                "--profile",
                "10:20",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=200,
        )
        assert r.returncode == 0, r.stderr[-2000:]
        totals = torch_totals(r.stdout)
        same("ranks that counted", len(totals), 2)
        return totals

    @test
    def ranks_in_one_report():
        path = os.path.join(TMP, "ranks.wsrep")
        totals = two_ranks([A.warpsight, "profile", "-q", "-t", "cuda,nvtx", "-o", path, "--"], [])
        if totals is None:
            return "needs two GPUs"
        rep = Report(path)
        same("kernels of each rank", sorted(profiled_kernels(rep)), totals)
        joins(rep)
        order(rep)

    @test
    def a_report_for_each_rank():
        name = os.path.join(TMP, "rank%q{RANK}.wsrep")
        totals = two_ranks([], [A.warpsight, "profile", "-q", "-t", "cuda,nvtx", "-o", name, "--"])
        if totals is None:
            return "needs two GPUs"
        same(
            "kernels of each rank",
            sorted(
                sum(
                    (
                        profiled_kernels(Report(os.path.join(TMP, "rank%d.wsrep" % n)))
                        for n in range(2)
                    ),
                    [],
                )
            ),
            totals,
        )

    @test
    def data_loader_workers():
        r = record(
            sys.executable,
            os.path.join(HERE, "train.py"),
            "--steps",
            "30",
            "--fork-workers",
            "--profile",
            "10:20",
            options=["-t", "cuda,nvtx"],
            timeout=200,
        )
        torch_counts(r)

    def launch_distances(path, begin, end):
        """Start of each kernel's run less start of its launch, ns, for launches within a window of
        seconds.
        """
        out = subprocess.run(
            [
                A.warpsight,
                "stats",
                "-r",
                "cuda_kern_exec_trace",
                "-f",
                "csv",
                "-q",
                "--filter-time=%ds/%ds" % (begin, end),
                path,
            ],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        rows = list(csv.DictReader(out.splitlines()))
        return [int(r["Kernel Start (ns)"]) - int(r["API Start (ns)"]) for r in rows]

    if A.long:

        @test
        @alone
        def long_run():
            """The recorder's memory stays, and GPU and CPU clocks keep together, over a long
            training loop.
            """
            path = os.path.join(TMP, "long.wsrep")
            t = subprocess.Popen(
                [
                    A.warpsight,
                    "profile",
                    "-q",
                    "-t",
                    "cuda,nvtx,osrt",
                    "-o",
                    path,
                    "--",
                    sys.executable,
                    os.path.join(HERE, "train.py"),
                    "--seconds",
                    str(A.long),
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
            memory = []
            while t.poll() is None:
                time.sleep(5)
                try:
                    with open("/proc/%d/status" % t.pid) as f:
                        memory.append(
                            [int(l.split()[1]) for l in f if l.startswith(("VmRSS", "RssAnon"))]
                        )
                except OSError:
                    break
            same("exit", t.wait(), 0)
            cpu = resource.getrusage(resource.RUSAGE_CHILDREN)
            memory = [m for m in memory if len(m) == 2]
            third = len(memory) // 3
            early, late = max(m[1] for m in memory[third : 2 * third]), max(
                m[1] for m in memory[2 * third :]
            )
            first, last = launch_distances(path, 30, 33), launch_distances(
                path, A.long - 20, A.long - 17
            )
            info = subprocess.run(
                [A.warpsight, "info", path], stdout=subprocess.PIPE, text=True
            ).stdout
            print("# memory of the recorder in kB (all, its own), every minute: %r" % memory[::12])
            print(
                "# launch to kernel, ns: first %d min %d median %d; last %d min %d median %d;"
                " report %d bytes; processor time of both %.1f s"
                % (
                    len(first),
                    min(first),
                    sorted(first)[len(first) // 2],
                    len(last),
                    min(last),
                    sorted(last)[len(last) // 2],
                    os.path.getsize(path),
                    cpu.ru_utime + cpu.ru_stime,
                )
            )
            print("# " + info.replace("\n", "\n# "))
            assert late < early * 1.1 + 8192, "its own memory grew from %d to %d kB" % (early, late)
            assert (
                min(first) >= 0 and min(last) >= 0 and abs(min(first) - min(last)) < 20000
            ), "clocks drift: %d, %d ns" % (min(first), min(last))


if A.list:
    os.rmdir(TMP)
    print("\n".join(t.__name__.replace("_", " ") for t in TESTS))
    sys.exit(0)


def check(t):
    """(whether it passed, its lines of TAP without number)"""
    began = time.monotonic()
    try:
        skipped = t()
    except Exception as e:  # an assertion, a missing table, a program that failed
        what = "%s: %s" % (type(e).__name__, e) if str(e) else traceback.format_exc()
        return False, "gpu: %s\n# %s" % (t.__name__, what.replace("\n", "\n# "))
    took = " # %.1f s" % (time.monotonic() - began)
    return True, "gpu: %s%s" % (t.__name__, " # SKIP " + skipped if skipped else took)


part, parts = (int(n) for n in A.part.split("/"))
chosen = [t for t in TESTS if A.only in t.__name__][part - 1 :: parts]
together = [t for t in chosen if not hasattr(t, "alone")]
results = {t: check(t) for t in chosen if t not in together}
with concurrent.futures.ThreadPoolExecutor(A.jobs) as pool:
    waiting = {t: pool.submit(check, t) for t in reversed(together)}
    for i, t in enumerate(chosen, 1):
        results[t] = results.get(t) or waiting[t].result()
        print("%s %d - %s" % ("ok" if results[t][0] else "not ok", i, results[t][1]), flush=True)
print("1..%d" % len(chosen))
sys.exit(not all(good for good, _ in results.values()))
