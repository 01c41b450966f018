#!/usr/bin/env python3
"""Traces as other versions and options of their tools write them: against what is reckoned here
from the input. Prints TAP.

Usage: test_variants.py WARPSIGHT [WORD...]; with words, tests whose names hold one of them."""
import csv
import io
import json
import os
import sqlite3
import sys

from harness import eq, main, test
from traces import make_nsys, msg, perfetto


# ---- PyTorch ----


def old_kineto():
    """As PyTorch 1.8 wrote it: whole microseconds since 1970, "Operator" for everything of its own,
    streams by name.
    """
    t = 1_700_000_000_000_000
    op = lambda name, ts, dur, i: {
        "ph": "X",
        "cat": "Operator",
        "name": name,
        "pid": 9,
        "tid": "9",
        "ts": t + ts,
        "dur": dur,
        "args": {"external id": i},
    }
    gpu = lambda name, ts, dur, c: {
        "ph": "X",
        "cat": "Kernel",
        "name": name,
        "pid": 0,
        "tid": "stream 7",
        "ts": t + ts,
        "dur": dur,
        "args": {"device": 0, "stream": 7, "correlation": c},
    }
    call = lambda ts, c, i: {
        "ph": "X",
        "cat": "Runtime",
        "name": "cudaLaunchKernel",
        "pid": 9,
        "tid": "9",
        "ts": t + ts,
        "dur": 2,
        "args": {"correlation": c, "external id": i},
    }
    return {
        "traceEvents": [
            op("ProfilerStep#3", 0, 100, 1),
            op("aten::mm", 10, 30, 2),
            call(12, 50, 2),
            gpu("sgemm", 20, 30, 50),
            op("Optimizer.step#SGD.step", 50, 40, 3),
            call(60, 51, 3),
            gpu("empty", 70, 0, 51),
            op("ProfilerStep#4", 100, 50, 4),
            call(110, 52, 4),
            gpu("ncclKernel_AllReduce", 90, 30, 52),
            gpu("edge", 100, 0, 53),
        ]
    }


@test
def steps_of_old_traces_count(t):
    path = t.write("old.json", old_kineto())
    lines = {l["Part"]: l for l in t.stats("gpu_time_breakdown:step", path)}
    eq(sorted(lines), ["ProfilerStep#3", "ProfilerStep#4"])
    # Step 3, 0 to 100 us: 30 us of computing, 10 of the collective's 30, and work without length in
    # the middle.
    want = {
        "Total (ns)": 100000,
        "Busy (ns)": 40000,
        "Computation (ns)": 30000,
        "Communication (ns)": 10000,
        "Idle (ns)": 60000,
        "Ops": 3,
    }
    eq({k: int(lines["ProfilerStep#3"][k]) for k in want}, want)
    # Step 4, 100 to 150 us: the rest of the collective, and what has no length at its very
    # beginning, which is not step 3's.
    want = {
        "Total (ns)": 50000,
        "Busy (ns)": 20000,
        "Computation (ns)": 0,
        "Communication (ns)": 20000,
        "Ops": 2,
    }
    eq({k: int(lines["ProfilerStep#4"][k]) for k in want}, want)
    phases = {l["Phase"]: int(l["Total Time (ns)"]) for l in t.stats("step_phases", path)}
    eq(phases, {"Optimizer.step#SGD.step": 40000, "[rest of the step]": 110000})


@test
def missing_steps_are_named(t):
    trace = {
        "traceEvents": [
            e for e in old_kineto()["traceEvents"] if not e["name"].startswith("ProfilerStep")
        ]
    }
    path = t.write("none.json", trace)
    for report, lacks in (
        ("gpu_time_breakdown:step", "steps"),
        ("gpu_idle_causes:step", "steps"),
        ("gpu_time_breakdown:step=nosuch", "ranges of that name"),
    ):
        err = t.run("stats", "-r", report, path).err
        assert f"no {lacks} were recorded" in err, err


@test
def tiny_files_are_what_they_are(t):
    for name, text, why in (
        ("list.json", "[]", "holds no trace events"),
        ("object.json", "{}", "holds no trace events"),
        ("nothing.json", "", "is empty"),
        ("word.txt", "abc", "is no report and no trace that is known"),
    ):
        for command in (["stats"], ["import", "-o", "out.wsrep"], ["info"]):
            err = t.run(*command, t.write(name, text), ok=False).err
            assert why in err, (command, name, err)


# ---- names of functions ----

MANGLED = "_ZN2ns4gemmIfLi2EEEvPT_"
FULL, OWN = "void ns::gemm<float, 2>(float*)", "gemm"


@test
def mangled_kernels_of_nsys(t):
    """Where shortName and demangledName are mangled; a mangledName is kept, and one is made."""
    sql = [
        "INSERT INTO StringIds VALUES (20, '%s')" % MANGLED,
        "INSERT INTO StringIds VALUES (21, '_Z5helpfi.kd')",
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD mangledName INTEGER",
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = 20, shortName = 20",
        "UPDATE CUDA_CALLCHAINS SET symbol = 21 WHERE stackDepth = 0",
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT start + 2000, end + 2000, deviceId,"
        " contextId, streamId, 10, globalPid, 1, 2, registersPerThread, gridX, gridY, gridZ, blockX,"
        " blockY, blockZ, graphNodeId, sharedMemoryExecuted, 20 FROM CUPTI_ACTIVITY_KIND_KERNEL",
    ]
    d = t.load(make_nsys(t, "n.sqlite", 3, sql))
    eq(
        [
            (k["demangledName"], k["shortName"], k["mangledName"])
            for k in d["CUPTI_ACTIVITY_KIND_KERNEL"]
        ],
        [(FULL, OWN, MANGLED), ("gemm(int)", "gemm", MANGLED)],
    )
    eq({c["symbol"] for c in d["CUDA_CALLCHAINS"]}, {"helpf(int)", "main"})
    (base,) = t.stats("cuda_gpu_kern_sum:base", "r.wsrep")
    eq((base["Name"], base["Instances"]), (OWN, "2"))
    eq({k["Name"] for k in t.stats("cuda_gpu_kern_sum", "r.wsrep")}, {FULL, "gemm(int)"})
    # An export that is imported again says the same.
    eq(t.load("r.sqlite")["CUPTI_ACTIVITY_KIND_KERNEL"], d["CUPTI_ACTIVITY_KIND_KERNEL"])


@test
def mangled_kernels_of_kineto(t):
    trace = old_kineto()
    trace["traceEvents"][3]["name"] = MANGLED
    trace["traceEvents"][6]["name"] = "_ZN2ns4gemmIfLi2EEEvPT_.kd"
    kernels = t.load(t.write("k.json", trace))["CUPTI_ACTIVITY_KIND_KERNEL"]
    eq(
        [(k["demangledName"], k["shortName"], k["mangledName"]) for k in kernels[:2]],
        [(FULL, OWN, MANGLED), (FULL, OWN, MANGLED + ".kd")],
    )


@test
def mangled_symbols_of_samples(t):
    """Of perf script; C's functions that could be read as types keep their names."""
    text = """\
prog  10/11  [003]  5.000000:  250000 cycles:
\t    401136 _ZN2ns4areaEd+0x10 (/bin/prog)
\t    401200 _RNvCs1234_7mycrate3foo+0x4 (/bin/prog)
\t    401210 _Z3fooi@plt+0x4 (/bin/prog)
\t    401300 f+0x4 (/bin/prog)
\t    401400 _Zno (/bin/prog)
"""
    d = t.load(t.write("p.txt", text))
    eq(
        {r["nameId"] for r in d["WARPSIGHT_SYMBOL"]},
        {"ns::area(double)", "mycrate::foo", "foo(int)@plt", "f", "_Zno"},
    )


@test
def mangled_slices(t):
    """AMD's profilers write Chrome's and Perfetto's formats: the mangled name is an argument."""
    e = lambda **more: dict({"ph": "X", "pid": 1, "tid": 2, "dur": 5}, **more)
    events = [
        e(ts=0, name=MANGLED + ".kd", args={"a": [1]}),
        e(ts=10, name=MANGLED),
        e(ts=20, name="f"),
    ]
    want = [
        (FULL, {"mangled name": MANGLED + ".kd", "a": [1]}),
        (FULL, {"mangled name": MANGLED}),
        ("f", {}),
    ]
    pairs = lambda d: [(r["nameId"], json.loads(r["argsId"] or "{}")) for r in d["WARPSIGHT_SLICE"]]
    eq(pairs(t.load(t.write("c.json", events))), want, "Chrome")
    t.run("export", "-q", "-f", "--type", "chrome", "-o", "again.json", "r.wsrep")
    eq(pairs(t.load("again.json")), want, "exported")
    slice_ = lambda at, **more: msg(f10=1, f8=at, f11=msg(f9=3, f11=8, **more))
    data = perfetto(
        msg(f10=1, f60=msg(f1=8, f2="gpu")),
        slice_(2500, f23=MANGLED + ".kd", f4=msg(f10="a", f4=1)),
        slice_(2600, f23=MANGLED),
        slice_(2700, f23="f"),
    )
    want[0][1]["a"] = 1
    eq(pairs(t.load(t.write("p.pftrace", data))), want, "Perfetto")


# ---- Chrome ----


@test
def halves_of_slices(t):
    e = lambda ph, ts, **more: dict({"ph": ph, "pid": 1, "tid": 2, "ts": ts}, **more)
    path = t.write(
        "halves.json",
        [
            e("B", 0, name="both", args={"x": 1}),
            e("E", 5, args={"y": 2}),
            e("B", 10, name="late"),
            e("E", 12, args={"y": 3}),
            e("b", 20, cat="c", name="across", id2={"global": "0x1"}),
            e("e", 25, cat="c", name="across", id2={"global": "0x1"}, **{"pid": 9}),
            e("b", 30, cat="c", name="mine", id2={"local": "0x1"}),
            e("b", 31, cat="c", name="yours", id2={"local": "0x1"}, **{"pid": 9}),
            e("e", 33, cat="c", name="mine", id2={"local": "0x1"}),
            e("e", 37, cat="c", name="yours", id2={"local": "0x1"}, **{"pid": 9}),
        ],
    )
    err = t.run("import", "-f", "-o", "halves.wsrep", path).err
    assert "Arguments of ends of slices were left out where the beginning has some." in err, err
    assert "without a beginning" not in err, err
    eq(
        t.query(
            """SELECT s.start, s.end, n.value AS name, a.value AS args FROM WARPSIGHT_SLICE s JOIN StringIds n ON n.id = s.nameId
                  LEFT JOIN StringIds a ON a.id = s.argsId ORDER BY s.start""",
            "halves.wsrep",
        ),
        [
            [0, 5000, "both", '{"x": 1}'],
            [10000, 12000, "late", '{"y": 3}'],
            [20000, 25000, "across", None],
            [30000, 33000, "mine", None],
            [31000, 37000, "yours", None],
        ],
    )


# ---- several processes through Chrome's JSON ----


def rank(number, pid, kernel, length):
    t = 1000 * number
    return {
        "schemaVersion": 1,
        "distributedInfo": {"rank": number, "world_size": 2},
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        "traceEvents": [
            {
                "ph": "X",
                "cat": "cpu_op",
                "name": "aten::mm",
                "pid": pid,
                "tid": pid,
                "ts": t,
                "dur": 50,
                "args": {"External id": 5},
            },
            {
                "ph": "X",
                "cat": "cuda_runtime",
                "name": "cudaLaunchKernel",
                "pid": pid,
                "tid": pid,
                "ts": t + 5,
                "dur": 2,
                "args": {"correlation": 77, "External id": 5},
            },
            {
                "ph": "X",
                "cat": "kernel",
                "name": kernel,
                "pid": 0,
                "tid": 7,
                "ts": t + 20,
                "dur": length,
                "args": {"device": 0, "stream": 7, "correlation": 77, "External id": 5},
            },
        ],
    }


@test
def ranks_stay_apart_in_chrome_json(t):
    for pids in ((500, 600), (500, 500)):  # in containers, ranks easily have the same pid
        files = [
            t.write(f"rank{i}.json", rank(i, pid, f"k{i}", 10 + i)) for i, pid in enumerate(pids)
        ]
        t.run("import", "-q", "-f", "-o", "both.wsrep", *files)
        t.run("export", "-q", "-f", "-t", "chrome", "-o", "both.json", "both.wsrep")
        sql = """SELECT k.end - k.start, s.value, count(r.start) AS calls, count(DISTINCT k.globalPid) AS pids FROM CUPTI_ACTIVITY_KIND_KERNEL k
                 JOIN StringIds s ON s.id = k.shortName
                 LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId AND r.globalTid & ~0xffffff = k.globalPid
                 GROUP BY s.value ORDER BY s.value"""
        for report in ("both.wsrep", "both.json"):
            eq(t.query(sql, report), [[10000, "k0", 1, 1], [11000, "k1", 1, 1]])
            eq(
                t.query("SELECT count(DISTINCT globalPid) FROM CUPTI_ACTIVITY_KIND_KERNEL", report),
                [[2]],
            )
            ops = csv.DictReader(io.StringIO(t.run("ops", "-f", "csv", report).out))
            eq([o["CUDA total (us)"] for o in ops if o["Name"] == "aten::mm"], ["21.000"])
        # A process that is alone says nothing of it.
        t.run("export", "-q", "-f", "-t", "chrome", "-o", "one.json", files[0])
        with open(os.path.join(t.dir, "one.json")) as f:
            assert "process id" not in f.read()


@test
def columns_of_one_name_are_all_there(t):
    """A join easily has two columns called start: an object of JSON has both."""
    out = t.run(
        "query",
        "-q",
        "-f",
        "json",
        "SELECT 1 AS a, 2 AS b, 3 AS a, NULL AS a",
        t.write("one.json", rank(0, 5, "k", 1)),
    ).out
    eq(json.loads(out), [{"a": 1, "b": 2, "a:1": 3, "a:2": None}])


# ---- SQLite exports that lack columns ----


def nsys(path, pids, columns):
    if os.path.exists(path):
        os.unlink(path)
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    db.executemany("INSERT INTO StringIds VALUES (?, ?)", [(1, "k"), (2, "cudaLaunchKernel_v7000")])
    db.execute(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, correlationId"
        " INT, nameId INT)"
    )
    names = ["start", "end", "deviceId", "streamId", "demangledName", "shortName"] + columns
    db.execute(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (%s)" % ", ".join(n + " INT" for n in names)
    )
    for i, pid in enumerate(pids):
        db.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, 2)",
            (100 * i, 100 * i + 9, pid << 24 | pid, i + 1),
        )
        values = {
            "start": 100 * i + 20,
            "end": 100 * i + 25,
            "deviceId": 0,
            "streamId": 7,
            "demangledName": 1,
            "shortName": 1,
            "correlationId": i + 1,
            "globalPid": pid << 24,
        }
        db.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (%s)" % ", ".join("?" * len(names)),
            [values[n] for n in names],
        )
    db.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (deviceId INT, eventId INT)")
    db.commit()
    db.close()
    return path


@test
def columns_that_join_are_missed(t):
    path = os.path.join(t.dir, "x.sqlite")
    whole = t.stats("cuda_kern_exec_trace", nsys(path, [40, 40], ["correlationId", "globalPid"]))
    eq(
        [(int(l["API Start (ns)"]), int(l["Kernel Start (ns)"])) for l in whole],
        [(0, 20), (100, 120)],
    )
    # One process: the work can only be its own.
    nsys(path, [40, 40], ["correlationId"])
    err = t.run("import", "-f", "-o", "x.wsrep", path).err
    assert (
        "CUPTI_ACTIVITY_KIND_KERNEL has no column globalPid: its rows were taken to be of the only"
        " process" in err
    ), err
    eq(t.stats("cuda_kern_exec_trace", path), whole)
    # Several: it may be anybody's, and that is said.
    nsys(path, [40, 41], ["correlationId"])
    err = t.run("import", "-f", "-o", "x.wsrep", path).err
    assert (
        "CUPTI_ACTIVITY_KIND_KERNEL has no column globalPid: its rows cannot be joined" in err
    ), err
    eq(t.stats("cuda_kern_exec_trace", path), [])
    nsys(path, [40], ["globalPid"])
    err = t.run("import", "-f", "-o", "x.wsrep", path).err
    assert (
        "CUPTI_ACTIVITY_KIND_KERNEL has no column correlationId" in err
        and "cannot be read" not in err
    ), err
    eq([int(l["Total Time (ns)"]) for l in t.stats("cuda_gpu_kern_sum", path)], [5])


@test
def names_of_calls_and_domains(t):
    """In PyTorch's tables, calls have no version of CUDA in their names: "_v7000" goes, "_v2" is
    the function's own.
    """
    path = nsys(os.path.join(t.dir, "x.sqlite"), [40, 40, 40], ["correlationId", "globalPid"])
    db = sqlite3.connect(path)
    db.executemany(
        "INSERT INTO StringIds VALUES (?, ?)",
        [(3, "cudaEventRecordWithFlags_v11010"), (4, "cudaStreamGetCaptureInfo_v2"), (5, "step")],
    )
    db.execute("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET nameId = correlationId + 1")
    db.execute(
        "CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, globalTid INT, textId INT)"
    )
    db.execute("INSERT INTO NVTX_EVENTS VALUES (0, 300, 59, ?, 5)", [40 << 24 | 40])
    db.commit()
    db.close()
    err = t.run("stats", "--filter-nvtx=step@nosuch", path, ok=False).err
    assert err.endswith(
        "has no range 'step' in domain nosuch; there is one in the default domain\n"
    ), err
    rows = csv.DictReader(io.StringIO(t.run("ops", "-f", "csv", path).out))
    eq(
        sorted(r["Name"] for r in rows if r["Name"].startswith("cuda")),
        ["cudaEventRecordWithFlags", "cudaLaunchKernel", "cudaStreamGetCaptureInfo_v2"],
    )


@test
def normalised_times_are_aligned(t):
    """Files of nsys export --ts-normalize count from 1970 already: beside others they are not
    shifted again.
    """
    epoch, files = 1_700_000_000_000_000_000, []
    for i, zero in enumerate((0, epoch, epoch)):
        path = nsys(os.path.join(t.dir, f"n{i}.sqlite"), [40 + i], ["correlationId", "globalPid"])
        db = sqlite3.connect(path)
        db.execute(
            "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INT, utcTime TEXT, localTime"
            " TEXT)"
        )
        db.execute(
            "CREATE TABLE ANALYSIS_DETAILS (globalVid INT, duration INT, startTime INT, stopTime"
            " INT)"
        )
        db.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?, '', '')", [epoch])
        db.execute("INSERT INTO ANALYSIS_DETAILS VALUES (0, 1000, ?, ?)", [zero + 10, zero + 1010])
        for table in ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL"):
            db.execute(f"UPDATE {table} SET start = start + ?, end = end + ?", [zero, zero])
        db.commit()
        db.close()
        files.append(path)
    t.run("import", "-q", "-f", "-o", "n.wsrep", *files)
    eq(
        t.query(
            (
                "SELECT count(*) AS n, max(start) - min(start) AS apart FROM"
                " CUPTI_ACTIVITY_KIND_KERNEL"
            ),
            "n.wsrep",
        ),
        [[3, 0]],
    )
    t.run("import", "-q", "-f", "-o", "n.wsrep", files[1])
    t.run("export", "-q", "-f", "-t", "sqlite", "--ts-normalize", "-o", "n.sqlite", "n.wsrep")
    db = sqlite3.connect(os.path.join(t.dir, "n.sqlite"))
    eq(db.execute("SELECT start - ? FROM CUPTI_ACTIVITY_KIND_KERNEL", [epoch]).fetchall(), [(20,)])
    db.close()


@test
def numbers_between_texts_are_no_texts(t):
    """--tables and --append write all texts of a report, so that numbers agree; a number that no
    text has is not one.
    """
    t.run(
        "export",
        "-q",
        "-f",
        "-t",
        "sqlite",
        "-o",
        "s.sqlite",
        nsys(os.path.join(t.dir, "x.sqlite"), [40], ["correlationId", "globalPid"]),
    )
    db = sqlite3.connect(os.path.join(t.dir, "s.sqlite"))
    texts = db.execute("SELECT value FROM StringIds WHERE value != '' ORDER BY id").fetchall()
    db.execute("UPDATE StringIds SET id = -id")
    db.execute("UPDATE StringIds SET id = 50 - 3 * id")
    db.execute("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET nameId = 50 + 3 * nameId")
    db.execute(
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = 50 + 3 * demangledName, shortName ="
        " 50 + 3 * shortName"
    )
    db.commit()
    db.close()
    t.run("import", "-q", "-f", "-o", "s.wsrep", "s.sqlite")
    t.run(
        "export",
        "-q",
        "-f",
        "-t",
        "sqlite",
        "--tables=RUNTIME,StringIds",
        "-o",
        "a.sqlite",
        "s.wsrep",
    )
    t.run("export", "-q", "-t", "sqlite", "--append", "-o", "a.sqlite", "s.wsrep")
    db = sqlite3.connect(os.path.join(t.dir, "a.sqlite"))
    got = db.execute("SELECT value FROM StringIds ORDER BY id").fetchall()
    assert not [v for v, in got if not v] and set(texts) <= set(got), (texts, got)
    eq(
        db.execute(
            "SELECT value FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = demangledName"
        ).fetchall(),
        [("k",)],
    )
    db.close()


# ---- perf script ----


def stacks(t, text):
    """Of each sample, its frames as (symbol, module, address)."""
    path = t.write("perf.txt", text)
    rows = t.query(
        """SELECT c.id, s.start, y.value AS symbol, m.value AS module, c.originalIP FROM SAMPLING_CALLCHAINS c JOIN COMPOSITE_EVENTS s ON s.id = c.id
                      JOIN StringIds y ON y.id = c.symbol JOIN StringIds m ON m.id = c.module ORDER BY s.start, c.stackDepth""",
        path,
    )
    out = {}
    for _, start, symbol, module, address in rows:
        out.setdefault(start, []).append((symbol, module, address))
    return [out[k] for k in sorted(out)]


@test
def modules_with_brackets_and_blanks(t):
    eq(
        stacks(
            t,
            """a 12 b  77 [001] 10.000300: cycles:u:
\t    4005d0 operator()<int, (anonymous namespace)::X>(int) const+0x5 (/opt/a b (c)/bin [v2]/app)
\t    4005e0 main (/tmp/a(b)
\t    4005f0 f(int) (/tmp/x (deleted))

""",
        ),
        [
            [
                (
                    "operator()<int, (anonymous namespace)::X>(int) const",
                    "/opt/a b (c)/bin [v2]/app",
                    0x4005D0,
                ),
                ("main", "/tmp/a(b", 0x4005E0),
                ("f(int)", "/tmp/x (deleted)", 0x4005F0),
            ]
        ],
    )


@test
def inlined_functions_are_of_the_file_around_them(t):
    eq(
        stacks(
            t,
            """app 10 1.5: 1000 cycles:
\t    1139 inner (inlined)
\t    1139 middle (inlined)
\t    1139 outer+0x10 (/tmp/app)

""",
        ),
        [
            [
                ("inner", "/tmp/app", 0x1139),
                ("middle", "/tmp/app", 0x1139),
                ("outer", "/tmp/app", 0x1139),
            ]
        ],
    )


@test
def fields_around_the_address(t):
    eq(
        stacks(
            t,
            """app  10/11  1.000001: 100 cycles:u:  1139 work+0x10 (/tmp/app) 0x1/0x2/P/-/-/0  0x3/0x4/M/-/-/0
app  10/11  1.000002: 100 cycles:u:  1140 work+0x17 (/tmp/app) insn: 48 89 e5
app  10/11  1.000003: 100 cycles:u:  7f00deadbeef  55d012345678 main+0x5 (/bin/x)
app  10/11  1.000004: 100 cpu/mem-loads,ldlat=30/P:  7ffe1234 |OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A 12 1139 g (/bin/x)
app  10/11  1.000005: 100 cycles:u:  55d012345678 f (/bin/x)
""",
        ),
        [
            [("work", "/tmp/app", 0x1139)],
            [("work", "/tmp/app", 0x1140)],
            [("main", "/bin/x", 0x55D012345678)],
            [("g", "/bin/x", 0x1139)],
            [("f", "/bin/x", 0x55D012345678)],
        ],
    )


@test
def stacks_without_modules(t):
    text = """app  10/11  1.000001:     100 cycles:u:
            1139 work+0x10
            1159 main<int, (a)>(int) const

   beef 12 1.5: 100 cycles:u:
\t    1160

app  10/11  2.000001:     100 cycles:u:  7f0011223344 flat+0x10
app  10/11  2.000002: kmem:kfree: 1234 is the text of a tracepoint
"""
    eq(
        [[(s, a) for s, _, a in stack] for stack in stacks(t, text)],
        [
            [("work", 0x1139), ("main<int, (a)>(int) const", 0x1159)],
            [("0x1160", 0x1160)],
            [("flat", 0x7F0011223344)],
        ],
    )
    eq(t.query("SELECT count(*) FROM COMPOSITE_EVENTS", "perf.txt"), [[3]])


sys.exit(main())
