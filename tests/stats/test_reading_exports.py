#!/usr/bin/env python3
"""Whole-command tests of export to SQLite and JSON over reports of known rows:
test_reading_exports.py WARPSIGHT MAKE_REPORT [--update]. See test_reading.py. Prints TAP.
"""
import collections
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import main, refused, run, same, test
from known_reports import database, golden, report, rows

# ---- SQLite ----


@test
def sqlite_schema():
    db = database("basic")
    same(rows(db, "PRAGMA integrity_check"), [("ok",)])
    want = {
        "StringIds": "id value",
        "NVTX_EVENTS": (
            "start end eventType rangeId category color text globalTid endGlobalTid textId domainId"
            " uint64Value int64Value doubleValue uint32Value int32Value floatValue jsonTextId"
            " jsonText binaryData"
        ),
        "OSRT_API": "start end eventClass globalTid nameId returnValue nestingLevel callchainId",
        "PROCESSES": "globalPid pid name",
        "ThreadNames": "nameId priority globalTid",
        "ProcessStreams": "globalPid filenameId contentId",
        "META_DATA_CAPTURE": "name value",
        "META_DATA_EXPORT": "name value",
        "TARGET_INFO_SYSTEM_ENV": "globalVid devStateName name nameEnum value",
        "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime localTime systemClockNs",
        "ANALYSIS_DETAILS": "globalVid duration startTime stopTime",
        "DIAGNOSTIC_EVENT": "timestamp timestampType source severity text globalPid",
        "NVTX_PAYLOAD_SCHEMAS": "domainId schemaId name type flags numEntries payloadSize alignTo",
        "NVTX_PAYLOAD_SCHEMA_ENTRIES": (
            "domainId schemaId idx flags type name description arrayOrUnionDetail offset"
        ),
        "ENUM_NSYS_EVENT_TYPE": "id name label",
        "ENUM_NSYS_EVENT_CLASS": "id name label",
    }
    for table, columns in want.items():
        same([r[1] for r in rows(db, "PRAGMA table_info(%s)" % table)], columns.split(), table)


@test
def sqlite_rows():
    dump = (
        "\n".join(
            "%s %s" % (t, tuple(r))
            for (t,) in rows(
                database("basic"),
                (
                    "SELECT name FROM sqlite_master WHERE name <> 'META_DATA_EXPORT' "
                    "AND name NOT LIKE 'ENUM%'"
                ),
            )
            for r in rows(database("basic"), "SELECT * FROM " + t)
        )
        + "\n"
    )
    golden("basic.sqlite.txt", dump.encode())


@test
def sqlite_queries_that_people_run():
    db = database("basic")
    top = rows(
        db,
        (
            "SELECT coalesce(s.value, n.text) AS name, count(*), sum(n.end - n.start) AS total FROM"
            " NVTX_EVENTS n LEFT JOIN StringIds s ON n.textId = s.id WHERE n.eventType = 59 GROUP"
            " BY name ORDER BY total DESC LIMIT 3"
        ),
    )
    same(top, [("outer", 2, 4500), ("inner", 3, 2100), ("overlap", 2, 1001)])
    same(
        rows(
            db,
            (
                "SELECT s.value, sum(o.end - o.start) FROM OSRT_API o JOIN StringIds s ON s.id ="
                " o.nameId GROUP BY 1 ORDER BY 1"
            ),
        ),
        [("poll", None), ("pthread_mutex_lock", 8000), ("read", 550)],
    )
    same(
        rows(
            db,
            (
                "SELECT p.name, count(*) FROM NVTX_EVENTS n JOIN PROCESSES p ON p.globalPid ="
                " n.globalTid & ~0xffffff GROUP BY 1 ORDER BY 1"
            ),
        ),
        [("app", 22), ("sh", 2)],
    )
    same(
        rows(
            db,
            (
                "SELECT s.value, n.globalTid >> 24, n.globalTid & 0xffffff FROM ThreadNames n JOIN"
                " StringIds s ON s.id = n.nameId ORDER BY 2, 3"
            ),
        ),
        [("main loop", 100, 100), ("worker", 100, 101)],
    )
    same(
        rows(
            db,
            (
                "SELECT DISTINCT e.name FROM NVTX_EVENTS n JOIN ENUM_NSYS_EVENT_TYPE e ON e.id ="
                " n.eventType ORDER BY 1"
            ),
        ),
        [
            ("NvtxCategory",),
            ("NvtxDomainCreate",),
            ("NvtxMark",),
            ("NvtxPushPopRange",),
            ("NvtxStartEndRange",),
        ],
    )
    same(
        rows(
            db,
            (
                "SELECT f.value, c.value FROM ProcessStreams p JOIN StringIds f ON f.id ="
                " filenameId JOIN StringIds c ON c.id = contentId"
            ),
        ),
        [("pid_100_stdout.log", "one\ntwo\n"), ("pid_100_stderr.log", "oops\n")],
    )


@test
def sqlite_counts_every_row():
    same(
        rows(
            database("many"),
            (
                "SELECT count(*), count(DISTINCT text), count(DISTINCT globalTid), min(start),"
                " sum(end - start) FROM NVTX_EVENTS"
            ),
        ),
        [(200000, 3000, 5, 0, sum(i * i % 97 for i in range(200000)))],
    )
    starts = [r[0] for r in rows(database("many"), "SELECT start FROM NVTX_EVENTS ORDER BY rowid")]
    same(starts, sorted(starts), "rows are in order of start")


@test
def sqlite_of_cuda():
    db = database("cuda")
    same(
        rows(
            db,
            (
                "SELECT s.value, SUM(k.end-k.start) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN"
                " StringIds s ON k.demangledName=s.id GROUP BY 1 ORDER BY 2 DESC LIMIT 10"
            ),
        ),
        [
            ("void gemm<float>(float *)", 3000),
            ("void relu(float *, int)", 900),
            ("void gemm<double>(double *)", 400),
        ],
    )
    same(
        rows(
            db,
            (
                "SELECT r.globalTid & 0xffffff, s.value, k.gridX FROM CUPTI_ACTIVITY_KIND_KERNEL k"
                " JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId AND"
                " r.globalTid & ~0xffffff = k.globalPid JOIN StringIds s ON s.id = r.nameId WHERE"
                " r.eventClass = 0 AND k.end NOT NULL ORDER BY k.start"
            ),
        ),
        [
            (600, "cudaLaunchKernel_v7000", 4),
            (700, "cudaLaunchKernel_v7000", 4),
            (700, "cudaLaunchKernel_v7000", 4),
            (600, "cudaLaunchKernelExC_v11060", 8),
            (600, "cudaLaunchKernel_v7000", 1),
            (600, "cudaLaunchKernel_v7000", 1),
        ],
    )
    same(
        rows(
            db,
            (
                "SELECT o.label, sum(bytes), sum(migrationCause) FROM CUPTI_ACTIVITY_KIND_MEMCPY"
                " JOIN ENUM_CUDA_MEMCPY_OPER o ON o.id = copyKind GROUP BY 1 ORDER BY 1"
            ),
        ),
        [
            ("Host-to-Device", 2500500, None),
            ("Unified Device-to-Host", 8192, 2),
            ("Unified Host-to-Device", 69632, 4),
        ],
    )
    same(
        rows(db, "SELECT id, cuDevice, name, uuid, isDiscrete, smMajor FROM TARGET_INFO_GPU"),
        [(0, 0, "Some GPU", "GPU-a", 1, 9), (1, 1, "Some GPU", "GPU-b", 1, 9)],
    )
    same(
        rows(db, "SELECT processId, streamId, hwId, flag FROM TARGET_INFO_CUDA_STREAM"),
        [(600, 7, 0, 2)],
    )
    same(
        rows(
            db,
            (
                "SELECT qmdLastCtaDone, tensorSizeMinusOneElements, graphNodeId,"
                " theoreticalOccupancy FROM CUPTI_ACTIVITY_KIND_KERNEL LIMIT 1"
            ),
        ),
        [(None, None, None, 0.5)],
    )
    same(rows(db, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE end IS NULL"), [(1,)])
    lines = [
        json.loads(line)
        for line in run("export", "-t", "jsonlines", "-o", "-", report("cuda"))
        .out.decode()
        .splitlines()
    ]
    kernel = [x for x in lines if x["table"] == "CUPTI_ACTIVITY_KIND_KERNEL"][0]
    same((kernel["correlationId"], kernel["gridX"], "greenContextId" in kernel), (2, 4, False))


@test
def sqlite_of_hostile_names():
    db = database("hostile")
    same(rows(db, "PRAGMA integrity_check"), [("ok",)])
    names = [r[0] for r in rows(db, "SELECT text FROM NVTX_EVENTS WHERE text IS NOT NULL")]
    same(
        "'; DROP TABLE StringIds; --" in names
        and "line\nbreak" in names
        and "broken \ufffd\ufffd utf-8" in names
        and "nul\ufffdinside" in names,
        True,
        names,
    )
    same(max(len(n) for n in names), 10000)


@test
def sqlite_of_an_empty_report():
    db = database("empty")
    same(rows(db, "SELECT count(*) FROM NVTX_EVENTS"), [(0,)])
    same(rows(db, "SELECT * FROM ANALYSIS_DETAILS"), [(0, 5, 0, 5)])


@test
def export_overwrites_only_when_told():
    refused("export", "-o", "-", report("basic"), words=["standard output"], code=1)
    database("basic").close()
    refused("export", report("basic"), words=["basic.sqlite exists", "--force-overwrite"], code=1)
    before = os.stat("basic.sqlite").st_ino
    run("export", "-f", "true", "-q", report("basic"))
    same(os.stat("basic.sqlite").st_ino != before, True)
    same(os.stat("basic.sqlite").st_mode & 0o777, 0o600, "an export is as private as the report")
    refused("export", "-t", "xml", report("basic"), words=["xml"], code=2)
    refused("export", "-t", "text", report("basic"), words=["text", "jsonlines"], code=2)
    refused("export", report("basic"), report("many"), words=["one report file at a time"], code=2)


# ---- JSON lines ----


@test
def jsonlines_equal_sqlite():
    for kind in ("basic", "hostile"):
        db = database(kind)
        lines = [
            json.loads(line)
            for line in run("export", "-t", "jsonlines", "-o", "-", report(kind))
            .out.decode()
            .split("\n")[:-1]
        ]
        by_table = collections.defaultdict(list)
        for line in lines:
            by_table[line.pop("table")].append(line)
        for (table,) in rows(db, "SELECT name FROM sqlite_master"):
            if table in ("META_DATA_EXPORT", "StringIds"):
                continue
            want = [
                {k: v for k, v in zip(r.keys(), r) if v is not None}
                for r in db.execute("SELECT * FROM " + table)
            ]
            got = by_table[table]
            same(len(got), len(want), table)
            for g, w in zip(got, want):
                for k, v in w.items():
                    v = (
                        v.hex()
                        if isinstance(v, bytes)
                        else v + (1 << 64)
                        if isinstance(v, int) and v < 0 and g[k] >= 0
                        else v
                    )
                    same(g[k], v, "%s.%s" % (table, k))
                    if k.endswith("Id") and k[:-2] in g and k[:-2] not in w:
                        same(
                            rows(db, "SELECT value FROM StringIds WHERE id = ?", v),
                            [(g[k[:-2]],)],
                            "%s.%s" % (table, k),
                        )


@test
def json_is_jsonlines():
    run("export", "-t", "json", "-q", report("basic"))
    with open("basic.jsonl") as f:
        same(all(json.loads(line)["table"] for line in f), True)


sys.exit(main())
