#!/usr/bin/env python3
"""Whole-command tests of export: test_export.py WARPSIGHT MAKE_REPORT MAKE_LINE [TEST...]. Prints
TAP.

What a format holds is compared with the SQLite export of the same report, which tests/stats checks
against golden files. Readers of our own (read_arrow.py, read_perfetto.py) share nothing with the
writers; apache-arrow, DuckDB and h5py read the same files where they are installed (npm ci in this
folder, Debian's python3-h5py), and such tests are skipped with the reason where not.
"""
import collections
import json
import os
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
import read_arrow  # noqa: E402
from reports import (  # noqa: E402
    DUCKDB,
    FORMATS,
    MODULES,
    ONLY,
    SANITIZE,
    database,
    exported,
    report,
    rows,
    sqlite,
    tables,
)
from tap import PROGRAM, Skip, main, refused, run, same, test  # noqa: E402


# ---- which tables, which rows, which clock ----


@test
def every_known_table_and_column_is_there():
    """--lazy=false makes all tables that people may query, with all their columns; without it,
    empty ones are left out.
    """
    db = exported("cuda", "--lazy=false")
    with open(os.path.join(HERE, "..", "..", "src", "schema", "known.def")) as f:
        known = re.findall(r'WS_KNOWN\(\s*"(\w+)",((?:\s*"[^"]*")+)\)', f.read())
    same(len(known) > 100, True, "known tables")
    there = set(tables(db))
    for table, spec in known:
        same(table in there, True, table)
        columns = [
            re.match(r"\w+", c).group() for c in " ".join(re.findall(r'"([^"]*)"', spec)).split()
        ]
        have = [r[1] for r in rows(db, "PRAGMA table_info(%s)" % table)]
        same([c for c in columns if c not in have], [], "columns of " + table)
    same("MPI_RANKS" in tables(database("cuda")), False, "an empty table")
    for table in tables(database("cuda")):
        same(rows(database("cuda"), "SELECT count(*) > 0 FROM " + table), [(1,)], table)


@test
def enumerations_are_whole():
    db = database("cuda")
    same(
        rows(db, "SELECT label FROM ENUM_CUDA_MEMCPY_OPER WHERE id IN (1, 8, 13) ORDER BY id"),
        [("Host-to-Device",), ("Device-to-Device",), ("Unified Device-to-Device",)],
    )
    same(rows(db, "SELECT count(*), min(id) FROM ENUM_NSYS_EVENT_TYPE")[0][0] >= 144, True)
    same(rows(db, "SELECT name FROM ENUM_STACK_UNWIND_METHOD WHERE id = 1000"), [("Undefined",)])


@test
def tables_by_pattern():
    same(
        set(tables(exported("cuda", "--tables=^cupti.*kernel$,STRINGIDS"))),
        {"CUPTI_ACTIVITY_KIND_KERNEL", "StringIds"},
    )
    same(
        set(tables(exported("cuda", "--tables", "memcpy$", "--tables", "memset"))),
        {"CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"},
    )
    same(
        rows(
            exported("cuda", "--tables=StringIds"),
            "SELECT count(*) > 0 FROM StringIds WHERE value = 'void gemm<float>(float *)'",
        ),
        [(1,)],
    )
    refused("export", "--tables=[", report("cuda"), words=["--tables", "["], code=2)
    refused("export", "--tables=a,,b", report("cuda"), words=["--tables", "empty"], code=2)
    names = {
        json.loads(l)["table"]
        for l in run(
            "export", "-t", "jsonlines", "--tables=^osrt", "-o", "-", report("basic")
        ).out.splitlines()
    }
    same(names, {"OSRT_API"})


def starts(kind, times, *more):
    db = exported(kind, "--tables=NVTX", "--times=" + times, *more)
    if "NVTX_EVENTS" not in tables(db):
        return []
    return [
        r[0]
        for r in rows(
            db, "SELECT start FROM NVTX_EVENTS WHERE eventType IN (34, 59, 60) ORDER BY 1, end"
        )
    ]


@test
def times_are_strict_unless_told():
    """outer 1000-5000, inner 1500-2500 and 3000-4000, leaf 3200-3300, outer 6000-6500; other
    threads' ranges lie around.
    """
    got = starts("basic", "1500/3500")
    same((1000 in got, 1500 in got, 3000 in got, 3200 in got), (False, True, False, True), got)
    got = starts("basic", ":2000/3500")
    same(
        (1000 in got, 1500 in got, 3000 in got, 3200 in got),
        (False, True, False, True),
        "the left end may be crossed",
    )
    got = starts("basic", "1500/3500:")
    same(
        (1000 in got, 1500 in got, 3000 in got), (False, True, True), "the right end may be crossed"
    )
    got = starts("basic", ":3400/3500:")
    same((1000 in got, 3000 in got, 3200 in got, 6000 in got), (True, True, False, False), "both")
    same(starts("basic", "6us/6.5us"), starts("basic", "6000/6500"))
    same(starts("basic", "5us1000ns/6e3ns500ns"), starts("basic", "6000/6500"))
    same(starts("basic", "6us/"), starts("basic", "6000/1h"))
    same(
        sorted(starts("basic", "0/2000,6us/6.5us")),
        sorted(set(starts("basic", "0/2000")) | set(starts("basic", "6us/6.5us"))),
    )
    same(starts("basic", "2h/3h"), [])


@test
def times_leave_facts_alone():
    db = exported("basic", "--times=2h/3h")
    same(
        rows(db, "SELECT eventType FROM NVTX_EVENTS ORDER BY 1"),
        [(33,), (75,), (75,)],
        "definitions",
    )
    same(rows(db, "SELECT count(*) FROM WARPSIGHT_PROCESS"), [(3,)])
    same("OSRT_API" in tables(db), False)
    for bad in ("1/2/3", "/", "5/4", "1x/2", "a/b", "nan/2", "", ":", "1"):
        refused("export", "--times=" + bad, report("basic"), words=["--times"], code=2)


@test
def times_of_all_formats_agree():
    want = rows(
        exported("many", "--times=:1ms/2ms:"),
        "SELECT count(*), sum(start), sum(end) FROM NVTX_EVENTS",
    )[0]
    same(want[0] > 10, True)
    lines = [
        json.loads(l)
        for l in run(
            "export",
            "-t",
            "jsonlines",
            "--times=:1ms/2ms:",
            "-o",
            "-",
            "--tables=NVTX",
            report("many"),
        ).out.splitlines()
    ]
    same((len(lines), sum(l["start"] for l in lines), sum(l["end"] for l in lines)), want)
    s = read_arrow.read(
        run(
            "export",
            "-t",
            "arrow",
            "--times=:1ms/2ms:",
            "-o",
            "-",
            "--tables=NVTX_EVENTS",
            report("many"),
        ).out
    )[0]
    same((len(s.column("start")), sum(s.column("start")), sum(s.column("end"))), want)
    trace = json.loads(
        run("export", "-t", "chrome", "--times=:1ms/2ms:", "-o", "-", report("many")).out
    )
    same(sum(e["ph"] == "X" for e in trace["traceEvents"]), want[0])


@test
def clocks_are_shifted():
    plain = rows(
        database("basic"), "SELECT min(start), max(end), min(end - start) FROM NVTX_EVENTS"
    )[0]
    for shift in (1000, -5):
        got = rows(
            exported("basic", "--ts-shift=%d" % shift),
            "SELECT min(start), max(end), min(end - start) FROM NVTX_EVENTS",
        )[0]
        same(got, (plain[0] + shift, plain[1] + shift, plain[2]), shift)
    epoch = rows(database("basic"), "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")[0][0]
    db = exported("basic", "--ts-normalize", "--ts-shift", "7")
    same(rows(db, "SELECT min(start) FROM NVTX_EVENTS")[0][0], plain[0] + epoch + 7)
    same(
        rows(db, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")[0][0],
        epoch,
        "when the session began is no event",
    )
    same(
        starts("basic", "7000/7500", "--ts-shift=1000"),
        [t + 1000 for t in starts("basic", "6000/6500")],
        "times are those of the export",
    )
    refused("export", "--ts-shift=1s", report("basic"), words=["--ts-shift"], code=2)


@test
def append_adds_what_is_missing():
    for name in ("add.sqlite", "add_dir"):
        kind = "sqlite" if name.endswith("e") else "arrowdir"
        run(
            "export", "-q", "-t", kind, "-o", name, "--tables=^OSRT_API,^StringIds", report("basic")
        )
        if kind == "sqlite":
            sqlite(name).execute("DELETE FROM OSRT_API").connection.commit()
        else:
            before = os.stat("add_dir/OSRT_API.arrow").st_ino
        refused("export", "-t", kind, "-o", name, report("basic"), words=["exists"], code=1)
        refused(
            "export",
            "-t",
            kind,
            "-o",
            name,
            "-f",
            "--append",
            report("basic"),
            words=["--append"],
            code=2,
        )
        run("export", "-q", "-t", kind, "-o", name, "--append", report("basic"))
    same(rows(sqlite("add.sqlite"), "SELECT count(*) FROM OSRT_API"), [(0,)], "what is there stays")
    same(rows(sqlite("add.sqlite"), "SELECT count(*) FROM NVTX_EVENTS"), [(24,)])
    same(
        rows(
            sqlite("add.sqlite"),
            "SELECT count(*) FROM NVTX_EVENTS n JOIN StringIds s ON s.id = n.textId",
        ),
        [(1,)],
        "texts of new tables",
    )
    same(os.stat("add_dir/OSRT_API.arrow").st_ino, before)
    same(os.path.exists("add_dir/NVTX_EVENTS.arrow"), True)
    run("export", "-q", "-t", "sqlite", "-o", "fresh.sqlite", "--append", report("basic"))
    same(len(tables(sqlite("fresh.sqlite"))), len(tables(database("basic"))), "nothing was there")
    refused(
        "export", "-o", "add.sqlite", "--append", report("cuda"), words=["another report"], code=1
    )
    same(
        rows(sqlite("add.sqlite"), "SELECT count(*) FROM NVTX_EVENTS"),
        [(24,)],
        "a failed append changes nothing",
    )


@test
def options_mean_something_or_are_refused():
    run("export", "-q", "-f", "--include-json=false", "-o", "no.sqlite", report("basic"))
    refused(
        "export",
        "-q",
        "-f",
        "--include-json",
        "-o",
        "no.sqlite",
        report("basic"),
        words=("binaryData",),
        code=2,
    )
    for kind, option in (
        ("jsonlines", "--append"),
        ("arrow", "--append"),
        ("hdf", "--append"),
        ("chrome", "--tables=x"),
        ("chrome", "--append"),
        ("perfetto", "--lazy=false"),
        ("perfetto", "--include-blobs=false"),
        ("sqlite", "--separate-strings"),
        ("chrome", "--separate-strings"),
        ("arrowdir", "--separate-strings"),
    ):
        refused(
            "export",
            "-t",
            kind,
            option,
            report("basic"),
            words=[option.split("=")[0], kind],
            code=2,
        )
    for kind in ("sqlite", "arrowdir", "parquetdir", "hdf"):
        refused("export", "-t", kind, "-o", "-", report("basic"), words=["standard output"], code=1)
    for kind in ("text", "xml", "info"):
        refused("export", "-t", kind, report("basic"), words=["--type", kind, "sqlite"], code=2)
    text = run("export", "--help").out.decode()
    for kind in FORMATS:
        same(kind + "," in text, True, "%s in --help" % kind)


@test
def blobs_and_strings():
    same(
        rows(
            exported("basic"), "SELECT hex(binaryData) FROM NVTX_EVENTS WHERE binaryData NOT NULL"
        ),
        [("0001FF22",)],
    )
    same(
        rows(
            exported("basic", "--include-blobs=false"), "SELECT count(binaryData) FROM NVTX_EVENTS"
        ),
        [(0,)],
    )
    whole = [
        json.loads(l)
        for l in run("export", "-t", "jsonlines", "-o", "-", report("basic")).out.splitlines()
    ]
    apart = [
        json.loads(l)
        for l in run(
            "export", "-t", "json", "--separate-strings", "-o", "-", report("basic")
        ).out.splitlines()
    ]
    texts = {l["id"]: l["value"] for l in apart if l["table"] == "StringIds"}
    calls = [(l, k) for l, k in zip(whole, apart) if l["table"] == "OSRT_API"]
    same(len(calls), 5)
    for l, k in calls:
        same(("name" in k, texts[k["nameId"]]), (False, l["name"]))


# ---- tools that people have ----


@test
def queries_of_other_tools():
    """What converters and analysers made for Nsight Systems' SQLite ask: tables looked up by name,
    kernels, calls, ranges and threads joined.
    """
    db = database("cuda")
    have = {r["name"] for r in db.execute("SELECT name FROM sqlite_master WHERE type='table'")}
    same(
        {
            "CUPTI_ACTIVITY_KIND_KERNEL",
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            "NVTX_EVENTS",
            "StringIds",
            "TARGET_INFO_GPU",
        }
        <= have,
        True,
    )
    strings = {r["id"]: r["value"] for r in db.execute("SELECT id, value FROM StringIds")}
    kernels = db.execute("SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchall()
    same({strings[k["shortName"]] for k in kernels}, {"gemm", "relu"})
    same(
        rows(
            db,
            (
                "SELECT DISTINCT deviceId, globalPid / 0x1000000 % 0x1000000 AS PID FROM"
                " CUPTI_ACTIVITY_KIND_KERNEL ORDER BY 2"
            ),
        ),
        [(0, 600), (1, 700)],
    )
    same(
        rows(
            db,
            (
                "SELECT count(*) FROM NVTX_EVENTS WHERE eventType == 59 AND text IS NOT NULL AND"
                " globalTid % 0x1000000 IN (600, 700)"
            ),
        )[0][0]
        > 0,
        True,
    )
    same(
        rows(
            db,
            (
                "SELECT s.value, count(*), sum(k.end - k.start), avg(k.end - k.start) FROM"
                " CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON k.shortName = s.id WHERE"
                " k.deviceId = 0 AND k.[end] >= 0 GROUP BY s.value ORDER BY 3 DESC"
            ),
        )[0][0],
        "gemm",
    )
    same(
        rows(
            db,
            (
                "SELECT r.start, k.start - r.end, s.value FROM CUPTI_ACTIVITY_KIND_RUNTIME AS r"
                " JOIN CUPTI_ACTIVITY_KIND_KERNEL AS k USING (correlationId) JOIN StringIds s ON"
                " s.id = r.nameId WHERE r.globalTid / 0x1000000 = k.globalPid / 0x1000000"
            ),
        )[0][2][:4],
        "cuda",
    )
    same(
        rows(
            db,
            (
                "SELECT name, smCount, totalMemory, computeMajor || '.' || computeMinor FROM"
                " TARGET_INFO_GPU ORDER BY id"
            ),
        )[0],
        ("Some GPU", 132, 80000000000, "9.0"),
    )
    same(
        rows(
            db,
            (
                "SELECT pid, cudaId, gpuId, uuid, numMultiprocessors FROM TARGET_INFO_CUDA_DEVICE"
                " ORDER BY 1, 2"
            ),
        ),
        [
            (600, 0, 0, "GPU-a", 132),
            (600, 1, 1, "GPU-b", 132),
            (700, 0, 0, "GPU-a", 132),
            (700, 1, 1, "GPU-b", 132),
        ],
    )
    same(
        rows(db, "SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_SCHEMA_VERSION'"),
        [("3.25.0",)],
    )
    same(
        rows(
            db,
            (
                "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_MEMCPY m JOIN ENUM_CUDA_MEMCPY_OPER e ON"
                " m.copyKind = e.id WHERE e.label = 'Host-to-Device'"
            ),
        )[0][0]
        > 0,
        True,
    )


# What scripts and tools made for Nsight Systems' SQLite ask, by who asks: every statement must run,
# over any report, and those of a CUDA run give rows.
THIRD_PARTY = {
    "converters to Chrome's JSON: devices": (
        "SELECT DISTINCT deviceId, globalPid / 0x1000000 % 0x1000000 AS PID FROM"
        " CUPTI_ACTIVITY_KIND_KERNEL"
    ),
    "converters: ranges": (
        "SELECT start, end, text, globalTid / 0x1000000 % 0x1000000 AS PID, globalTid % 0x1000000"
        " AS TID FROM NVTX_EVENTS WHERE NVTX_EVENTS.eventType == 59"
    ),
    "converters: calls": (
        "SELECT start, end, globalTid % 0x1000000 AS TID, correlationId, nameId FROM"
        " CUPTI_ACTIVITY_KIND_RUNTIME"
    ),
    "examples of the manual: kernels in ranges": (
        "SELECT n.text, count(*), sum(k.end - k.start) FROM NVTX_EVENTS n JOIN"
        " CUPTI_ACTIVITY_KIND_RUNTIME r ON n.eventType == 59 AND n.globalTid == r.globalTid AND"
        " n.start <= r.start AND n.end >= r.end JOIN CUPTI_ACTIVITY_KIND_KERNEL k ON"
        " k.correlationId == r.correlationId GROUP BY 1"
    ),
    "recipes: labels of copies": (
        "SELECT e.label, k.label, count(*), sum(bytes) FROM CUPTI_ACTIVITY_KIND_MEMCPY m JOIN"
        " ENUM_CUDA_MEMCPY_OPER e ON e.id = copyKind LEFT JOIN ENUM_CUDA_MEM_KIND k ON k.id ="
        " srcKind GROUP BY 1, 2"
    ),
    "recipes: session": (
        "SELECT utcEpochNs, startTime, stopTime, duration FROM TARGET_INFO_SESSION_START_TIME,"
        " ANALYSIS_DETAILS"
    ),
    "analysers: utilisation": (
        "WITH line AS (SELECT min(start) a, max(end) b FROM CUPTI_ACTIVITY_KIND_KERNEL), busy AS"
        " (SELECT sum(end - start) t FROM CUPTI_ACTIVITY_KIND_KERNEL) SELECT 100.0 * t / (b - a)"
        " FROM line, busy"
    ),
    "analysers: waits by kind": (
        "SELECT e.label, count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION JOIN"
        " ENUM_CUPTI_SYNC_TYPE e ON e.id = syncType GROUP BY 1"
    ),
    "layer benchmarks: all work with its call": (
        "SELECT u.start, u.end, r.start FROM (SELECT start, end, correlationId FROM"
        " CUPTI_ACTIVITY_KIND_KERNEL UNION ALL SELECT start, end, correlationId FROM"
        " CUPTI_ACTIVITY_KIND_MEMCPY UNION ALL SELECT start, end, correlationId FROM"
        " CUPTI_ACTIVITY_KIND_MEMSET) u JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId)"
    ),
    "layer benchmarks: types of ranges": (
        "SELECT id FROM ENUM_NSYS_EVENT_TYPE WHERE name = 'NvtxPushPopRange'"
    ),
    "rank labels": (
        "WITH f AS (SELECT globalTid / 0x1000000 % 0x1000000 AS pid, min(start) AS start FROM"
        " NVTX_EVENTS GROUP BY pid) SELECT coalesce(e.text, s.value) FROM NVTX_EVENTS e JOIN f ON"
        " e.globalTid / 0x1000000 % 0x1000000 = f.pid AND e.start = f.start LEFT JOIN StringIds s"
        " ON e.textId = s.id"
    ),
    "trace libraries: threads": (
        "SELECT s.value, (t.globalTid >> 24) & 0x00FFFFFF, t.globalTid & 0x00FFFFFF FROM"
        " ThreadNames t JOIN StringIds s ON s.id = t.nameId"
    ),
    "cheat sheets: GPU": (
        "SELECT name, totalMemory, smCount, clockRate FROM TARGET_INFO_GPU LIMIT 1"
    ),
    "cheat sheets: process": "SELECT name, pid FROM PROCESSES WHERE name LIKE '%t%'",
}


@test
def queries_known_from_other_tools_run():
    run("export", "-q", "-f", "--lazy=false", "-o", "known.sqlite", report("cuda"))
    db = sqlite3.connect("known.sqlite")
    for who, sql in THIRD_PARTY.items():
        same(len(db.execute(sql).fetchall()) > 0, True, who)
    for sql in (
        "SELECT s.value, count(*) FROM OSRT_API JOIN StringIds s ON s.id = nameId GROUP BY 1",
        "SELECT cpu, isSchedIn, count(*) FROM SCHED_EVENTS GROUP BY 1, 2",
        (
            "SELECT s.value, count(*) FROM SAMPLING_CALLCHAINS JOIN StringIds s ON s.id = symbol"
            " WHERE stackDepth = 0 GROUP BY 1"
        ),
        "SELECT sum(cpuCycles) FROM COMPOSITE_EVENTS",
        "SELECT count(*), sum(end - start) FROM PROFILER_OVERHEAD",
        "SELECT name, value FROM META_DATA_CAPTURE",
        "SELECT * FROM GENERIC_EVENTS",
        "SELECT * FROM GPU_METRICS",
    ):
        db.execute(sql).fetchall()
    # The manual's way of giving calls a name of their own.
    db.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_RUNTIME ADD COLUMN name TEXT")
    db.execute(
        "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET name = (SELECT value FROM StringIds WHERE"
        " CUPTI_ACTIVITY_KIND_RUNTIME.nameId = StringIds.id)"
    )
    same(
        db.execute(
            "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE name IS NULL"
        ).fetchone(),
        (0,),
    )


def contents(path):
    """Every table's rows with texts for their numbers, without what names the files themselves."""
    db = sqlite3.connect(path)
    texts = dict(db.execute("SELECT id, value FROM StringIds"))
    out = {}
    for (t,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        names = [c[1] for c in db.execute("PRAGMA table_info(%s)" % t)]
        named = [
            c.endswith(
                (
                    "nameId",
                    "NameId",
                    "textId",
                    "Name",
                    "pathId",
                    "symbol",
                    "module",
                    "filenameId",
                    "contentId",
                    "categoryId",
                    "argsId",
                )
            )
            for c in names
        ]
        out[t] = sorted(
            (
                tuple(texts.get(v, v) if n else v for v, n in zip(r, named))
                for r in db.execute("SELECT * FROM " + t)
            ),
            key=repr,
        )
    out["StringIds"] = sorted(v for _, v in out["StringIds"])
    out["META_DATA_EXPORT"] = [
        r for r in out["META_DATA_EXPORT"] if not r[0].endswith(("_FILE", "_TIME_UTC"))
    ]
    return out


@test
def sqlite_comes_back():
    for kind in ("basic", "cuda", "line"):
        run("export", "-q", "-f", "-o", "one.sqlite", report(kind))
        run("import", "-q", "-f", "-o", "one.wsrep", "one.sqlite")
        run("export", "-q", "-f", "-o", "two.sqlite", "one.wsrep")
        one, two = contents("one.sqlite"), contents("two.sqlite")
        same(sorted(two), sorted(one), kind)
        for t in one:
            same(two[t], one[t], "%s of %s" % (t, kind))


@test
def scheduling_and_samples_as_known():
    db = database("line")
    same(
        rows(
            db,
            "SELECT start, cpu, isSchedIn, globalTid & 0xffffff FROM SCHED_EVENTS ORDER BY start",
        ),
        [(500, 3, 1, 1), (900, 3, 0, 1)],
    )
    same(
        rows(db, "SELECT id, start, cpu, threadState, cpuCycles FROM COMPOSITE_EVENTS ORDER BY id"),
        [(1, 600, 3, 1, 1000), (2, 700, None, 1, 1000)],
    )
    same(
        rows(
            db,
            (
                "SELECT stackDepth, s.value FROM SAMPLING_CALLCHAINS c JOIN StringIds s ON s.id ="
                " c.symbol WHERE c.id = 1 ORDER BY stackDepth"
            ),
        ),
        [(0, "fn3"), (1, "fn2"), (2, "fn1")],
    )


# ---- Arrow ----


def compare_stream(s, db, names):
    """An Arrow stream against the table of the same name in SQLite, rows in any order."""
    info = [r[1] for r in rows(db, "PRAGMA table_info(%s)" % s.name)]
    index = [names.index(c) for c in info]
    got = collections.Counter(tuple(plain(row[i]) for i in index) for row in s)
    want = collections.Counter(
        tuple(plain(v) for v in r) for r in rows(db, 'SELECT * FROM "%s"' % s.name)
    )
    same(len(list(got.elements())), len(list(want.elements())), "rows of " + s.name)
    if got != want:
        raise AssertionError(
            "%s: %r" % (s.name, (list((got - want).items())[:2], list((want - got).items())[:2]))
        )


def plain(v):
    if isinstance(v, float):
        return repr(v)
    if isinstance(v, int) and v >= 1 << 63:
        return v - (1 << 64)  # SQLite has signed numbers only
    return v


Rows = collections.namedtuple("Rows", "name rows")


class Named:
    def __init__(self, name, data):
        self.name, self.data = name, data

    def __iter__(self):
        return iter(self.data)


@test
def arrow_equals_sqlite():
    for kind in ("basic", "cuda", "hostile", "line", "empty", "many"):
        db = database(kind)
        streams = read_arrow.read(run("export", "-t", "arrow", "-o", "-", report(kind)).out)
        same(sorted(s.name for s in streams), sorted(tables(db)), kind)
        for s in streams:
            if s.name != "META_DATA_EXPORT":
                compare_stream(Named(s.name, s.rows()), db, [f.name for f in s.fields])


@test
def arrow_files_equal_streams():
    run("export", "-q", "-t", "arrowdir", "-o", "dir", report("cuda"))
    streams = {
        s.name: s
        for s in read_arrow.read(run("export", "-t", "arrow", "-o", "-", report("cuda")).out)
    }
    same(sorted(os.listdir("dir")), sorted(n + ".arrow" for n in streams))
    for name, s in streams.items():
        with open("dir/%s.arrow" % name, "rb") as f:
            (one,) = read_arrow.read(f.read())
        if name != "META_DATA_EXPORT":
            same((one.rows(), one.meta), (s.rows(), s.meta), name)
        same(os.stat("dir/%s.arrow" % name).st_mode & 0o777, 0o600)


@test
def arrow_has_types_units_and_texts():
    (s,) = read_arrow.read(
        run("export", "-t", "arrow", "--tables=KIND_KERNEL$", "-o", "-", report("cuda")).out
    )
    types = {f.name: f.type() for f in s.fields}
    same(
        (
            types["start"],
            types["gridX"],
            types["graphNodeId"],
            types["theoreticalOccupancy"],
            types["qmdLastCtaDone"],
            types["demangledNameValue"],
        ),
        ("int64", "uint32", "uint64", "double", "null", "dictionary"),
    )
    same(
        [f.meta.get("unit") for f in s.fields if f.name in ("start", "end", "gridX")],
        ["ns", "ns", None],
    )
    same(set(s.column("shortNameValue")), {"gemm", "relu"})
    same(len(s.dictionaries[0]), len(set(s.dictionaries[0])), "a dictionary has each text once")
    (o,) = read_arrow.read(
        run("export", "-t", "arrow", "--tables=^OSRT_API", "-o", "-", report("basic")).out
    )
    same(o.column("name"), ["read", "read", "read", "pthread_mutex_lock", "poll"])


@test
def arrow_of_all_tables():
    streams = read_arrow.read(
        run("export", "-t", "arrow", "--lazy=false", "-o", "-", report("empty")).out
    )
    same(len(streams) > 150, True, "tables")
    same({s.name: s for s in streams}["NVTX_EVENTS"].rows(), [])
    read_arrow.read(run("export", "-t", "arrow", "-o", "-", report("wild")).out)


@test
def arrow_by_its_own_library():
    if not os.path.isdir(os.path.join(MODULES, "apache-arrow")) or not shutil.which("node"):
        raise Skip("apache-arrow is not installed: npm ci in tests/export")
    for kind in ("basic", "cuda", "hostile"):
        run("export", "-q", "-f", "-t", "arrowdir", "-o", "npm", report(kind))
        p = subprocess.run(
            ["node", os.path.join(HERE, "read_arrow.mjs"), "npm"],
            stdout=subprocess.PIPE,
            check=True,
        )
        got, db = json.loads(p.stdout), database(kind)
        same(sorted(got), sorted(tables(db)))
        for table, (names, *data) in got.items():
            if table == "META_DATA_EXPORT":
                continue
            (ours,) = read_arrow.read(open("npm/%s.arrow" % table, "rb").read())
            want = [
                [
                    (
                        v.hex()
                        if isinstance(v, bytes)
                        else str(v)
                        if isinstance(v, int) and f.bits == 64
                        else v
                    )
                    for f, v in zip(ours.fields, r)
                ]
                for r in ours.rows()
            ]
            same(names, [f.name for f in ours.fields])
            same(data, want, table)


# ---- Parquet and HDF5 ----


def questions(db, table):
    """What is compared of a table, (table, columns, condition): all of it, or, since texts of
    200,000 rows take seconds, one row of seven and the sum of all.
    """
    columns = ", ".join('"%s"' % r[1] for r in rows(db, "PRAGMA table_info(%s)" % table))
    if rows(db, 'SELECT count(*) FROM "%s"' % table)[0][0] < 20000:
        return [(table, columns, "")]
    return [(table, columns, " WHERE start % 7 = 1"), (table, "count(*), sum(start)", "")]


@test
def parquet_equals_sqlite():
    if not os.path.exists(DUCKDB):
        raise Skip("DuckDB's library is not installed: npm ci in tests/export")
    env = dict(os.environ, WARPSIGHT_DUCKDB=DUCKDB)
    for kind in ("basic", "cuda", "hostile", "many"):
        run("export", "-q", "-t", "parquetdir", "-o", "it's " + kind, report(kind), env=env)
        db = database(kind)
        names = [t for t in tables(db) if t != "META_DATA_EXPORT"]
        same(sorted(os.listdir("it's " + kind)), sorted(t + ".parquet" for t in tables(db)))
        compared = [question for t in names for question in questions(db, t)]
        sql = ["SELECT %s FROM 'it''s %s/%s.parquet'%s" % (c, kind, t, w) for t, c, w in compared]
        p = subprocess.run(
            [sys.executable, os.path.join(HERE, "duckdb_query.py"), DUCKDB],
            input="\n".join(sql).encode(),
            stdout=subprocess.PIPE,
            check=True,
        )
        for (t, columns, where), line in zip(compared, p.stdout.splitlines()):
            got = collections.Counter(tuple(as_text(v) for v in r) for r in json.loads(line))
            want = collections.Counter(
                tuple(as_text(v) for v in r)
                for r in rows(db, 'SELECT %s FROM "%s"%s' % (columns, t, where))
            )
            if got != want or (where and not want):
                raise AssertionError(
                    "%s of %s: %r"
                    % (t, kind, (list((got - want).items())[:2], list((want - got).items())[:2]))
                )


def as_text(v):
    """A value as DuckDB writes it, one kind of number as another: unsigned, real."""
    if v is None or isinstance(v, bytes):
        return None if v is None else "blob"
    if isinstance(v, str) and not re.fullmatch(r"-?[0-9.]+(e[-+]?[0-9]+)?", v):
        return "blob" if v.startswith("\\x") else v
    n = float(v) if "." in str(v) or "e" in str(v) else int(v)
    return (
        n - (1 << 64)
        if isinstance(n, int) and n >= 1 << 63
        else float(n)
        if isinstance(n, float)
        else n
    )


@test
def parquet_without_its_library():
    env = dict(os.environ, WARPSIGHT_DUCKDB="/nowhere/libduckdb.so")
    refused(
        "export",
        "-t",
        "parquetdir",
        "-o",
        "none",
        report("basic"),
        words=["DuckDB", "WARPSIGHT_DUCKDB", "arrowdir"],
        code=1,
        env=env,
    )
    same(os.path.exists("none"), False)
    env = dict(os.environ, WARPSIGHT_DUCKDB="libz.so.1")
    refused(
        "export",
        "-t",
        "parquetdir",
        "-o",
        "none",
        report("basic"),
        words=["DuckDB"],
        code=1,
        env=env,
    )


READ_HDF = """
import h5py, json, sys
f = h5py.File(sys.argv[1], "r")
plain = lambda v: v.decode() if isinstance(v, bytes) else v.tolist() if hasattr(v, "tolist") else v
out = {}
for name, g in f.items():
    columns = {}
    for c, d in g.items():
        none = d.attrs.get("null_value")
        unsigned = d.dtype.kind == "u" and d.dtype.itemsize == 8
        values = [None if none is not None and (v == none or v != v) else plain(v) for v in d[:]]
        columns[c] = values, unsigned
    out[name] = columns
print(json.dumps(out))
"""


def python_with_h5py():
    for python in (sys.executable, "/usr/bin/python3"):
        if (
            os.path.exists(python)
            and not subprocess.run(
                [python, "-c", "import h5py"], stderr=subprocess.DEVNULL
            ).returncode
        ):
            return python
    raise Skip("h5py is not installed (Debian: python3-h5py)")


@test
def hdf_equals_sqlite():
    python = python_with_h5py()
    for kind in ("basic", "cuda", "hostile", "line"):
        run("export", "-q", "-f", "-t", "hdf", "-o", "x.h5", report(kind))
        got = json.loads(
            subprocess.run(
                [python, "-c", READ_HDF, "x.h5"], stdout=subprocess.PIPE, check=True
            ).stdout
        )
        db = database(kind)
        same(sorted(got), sorted(tables(db)), kind)
        for t, columns in got.items():
            if t == "META_DATA_EXPORT":
                continue
            names = [r[1] for r in rows(db, "PRAGMA table_info(%s)" % t)]
            same(sorted(columns), sorted(names), t)
            sql = ", ".join(
                ('nullif("%s", -1)' if columns[c][1] else '"%s"') % c for c in names
            )  # 2^64 - 1 is what null is there
            want = collections.Counter(
                tuple(hdf_value(v) for v in r) for r in rows(db, 'SELECT %s FROM "%s"' % (sql, t))
            )
            have = collections.Counter(zip(*[[hdf_value(v) for v in columns[c][0]] for c in names]))
            if have != want:
                raise AssertionError(
                    "%s of %s: %r"
                    % (t, kind, (list((have - want).items())[:2], list((want - have).items())[:2]))
                )


def hdf_value(v):
    if v is None or v == "" or v == [] or v == b"":
        return None  # texts know no null there
    return tuple(v) if isinstance(v, (bytes, list)) else plain(v)


@test
def hdf_without_its_library():
    env = dict(os.environ, WARPSIGHT_HDF5="/nowhere/libhdf5.so")
    refused(
        "export",
        "-t",
        "hdf",
        "-o",
        "none.h5",
        report("basic"),
        words=["HDF5", "WARPSIGHT_HDF5"],
        code=1,
        env=env,
    )
    same([n for n in os.listdir(".") if n.startswith("none.h5")], [])


# ---- files ----


def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (50000, 50000))


def usable(kind):
    if kind == "parquetdir":
        return os.path.exists(DUCKDB)
    if kind == "hdf":
        return (
            run("export", "-q", "-f", "-t", "hdf", "-o", "probe.h5", report("basic"), ok=False).code
            == 0
        )
    return True


@test
def a_full_disk_leaves_nothing():
    report("many")
    env = dict(os.environ, WARPSIGHT_DUCKDB=DUCKDB)
    for kind in filter(usable, FORMATS):
        if kind == "parquetdir" and "address" in SANITIZE:
            # DuckDB throws, which the sanitizer cannot follow in a library opened at run time
            continue
        os.mkdir("full")
        refused(
            "export",
            "-q",
            "-t",
            kind,
            "-o",
            "full/x",
            "many.wsrep",
            words=["cannot write", "full/x"],
            code=1,
            preexec_fn=small_files,
            env=env,
        )
        same(os.listdir("full"), [], kind)
        os.rmdir("full")


@test
def why_it_is_full_is_said_through_compression():
    os.mkdir("full")
    refused(
        "export",
        "-q",
        "-t",
        "chrome",
        "-o",
        "full/x.json.gz",
        report("many"),
        words=["full/x.json.gz: File too large"],
        code=1,
        preexec_fn=small_files,
    )
    same(os.listdir("full"), [])
    os.rmdir("full")


@test
def a_report_is_not_replaced():
    """Not even with -f, by whatever is made of reports: a slip of the pen must not cost a
    recording.
    """
    shutil.copy(report("basic"), "precious.wsrep")
    with open("precious.wsrep", "rb") as f:
        before = f.read()
    name = "precious.wsrep"
    for args in (
        ["export", "-f", "-o", name],
        ["export", "-f", "-t", "jsonlines", "-o", name],
        ["export", "-a", "-o", name],
        ["export", "-f", "-t", "hdf", "-o", name],
        ["query", "--force-overwrite", "-o", name, "SELECT 1"],
        ["stats", "--force-export=true", "--sqlite=" + name],
    ):
        r = run(*args, name, ok=False)
        same(r.code, 1, "%s: %s" % (args, r.err))
        with open(name, "rb") as f:
            same(f.read() == before, True, "%s left the report alone" % args)
        same([n for n in os.listdir(".") if n.startswith(name + ".")], [], "leftovers of %s" % args)


@test
def what_exists_stays():
    env = dict(os.environ, WARPSIGHT_DUCKDB=DUCKDB)
    for kind in filter(usable, FORMATS):
        folder = kind.endswith("dir")
        if folder:
            os.mkdir("old")
            open("old/file", "w").close()
        else:
            open("old", "w").close()
        refused(
            "export",
            "-t",
            kind,
            "-o",
            "old",
            report("basic"),
            words=["old", "exists", "--force-overwrite"],
            code=1,
            env=env,
        )
        run("export", "-q", "-f", "-t", kind, "-o", "old", report("basic"), env=env)
        same(os.path.exists("old/file"), False, "replaced as a whole")
        same([n for n in os.listdir(".") if n.startswith("old.")], [], kind)
        shutil.rmtree("old") if folder else os.unlink("old")
    os.makedirs("tree/with")
    refused(
        "export",
        "-f",
        "-t",
        "arrowdir",
        "-o",
        "tree",
        report("basic"),
        words=["tree", "other things than files"],
        code=1,
    )
    same(os.path.isdir("tree/with"), True)
    open("plain", "w").close()
    refused(
        "export",
        "-f",
        "-t",
        "arrowdir",
        "-o",
        "plain",
        report("basic"),
        words=["plain", "no folder"],
        code=1,
    )


@test
def a_reader_that_goes_away():
    report("many")
    for kind in ("jsonlines", "arrow", "chrome", "perfetto"):
        p = subprocess.Popen(
            [PROGRAM, "export", "-t", kind, "-o", "-", "many.wsrep"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        p.stdout.read(100)
        p.stdout.close()
        same(
            (p.wait() in (-signal.SIGPIPE, 128 + signal.SIGPIPE), p.stderr.read()),
            (True, b""),
            kind,
        )
        p.stderr.close()


@test
def an_interrupt_leaves_nothing():
    report("long")
    for kind in ("sqlite", "jsonlines", "chrome", "perfetto"):
        os.mkdir("cut")
        p = subprocess.Popen(
            [PROGRAM, "export", "-q", "-t", kind, "-o", "cut/x", "long.wsrep"],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        while (
            not any(os.path.getsize("cut/" + n) > 100000 for n in os.listdir("cut") if n != "x")
            and p.poll() is None
        ):
            time.sleep(0.001)
        p.send_signal(signal.SIGINT)
        same(p.wait(), -signal.SIGINT, kind)
        same(os.listdir("cut"), [], kind)
        p.stderr.close()
        os.rmdir("cut")


def peak(*args, env=None):
    """The largest memory of a run of the program, MiB: VmHWM at its end, as the kernel counts for
    waited children alone.
    """
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True);"
        " print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    p = subprocess.run(
        [sys.executable, "-c", code, PROGRAM, *args], stdout=subprocess.PIPE, check=True, env=env
    )
    return int(p.stdout.split()[-1]) / 1024


@test
def memory_does_not_grow_with_the_report():
    """1.5 M rows are 200 MB in Arrow and far more as cells."""
    if SANITIZE:
        raise Skip("a sanitizer's own memory is in the figures")
    report("long")
    env = dict(os.environ, WARPSIGHT_DUCKDB=DUCKDB)
    for kind in filter(usable, FORMATS):
        used = peak("export", "-q", "-f", "-t", kind, "-o", "big", "long.wsrep", env=env)
        shutil.rmtree("big") if kind.endswith("dir") else os.unlink("big")
        bound = 700 if kind == "parquetdir" else 150  # DuckDB is bounded by 512 MB of its own
        same(used < bound, True, "%s took %d MiB" % (kind, used))


sys.exit(main(ONLY))
