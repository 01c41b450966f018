#!/usr/bin/env python3
"""Importing SQLite exports of Nsight Systems, of any schema, with tables of any tool; and our own
export of them again. Prints TAP.

Usage: test_nsys.py WARPSIGHT [WORD...]; with words, tests whose names hold one of them."""
import os
import shutil
import sqlite3
import sys

from harness import eq, main, read, test
from traces import CHROME, kineto, make_nsys, PERF


def literal(value):
    """A value as SQL writes it."""
    if value is None:
        return "NULL"
    return "'%s'" % value if isinstance(value, str) else repr(value)


@test
def nsys_of_schema_2_and_3(t):
    for version in 2, 3:
        os.path.exists(t.path("n.sqlite")) and os.unlink(t.path("n.sqlite"))
        d = t.load(make_nsys(t, "n.sqlite", version))
        (k,) = d["CUPTI_ACTIVITY_KIND_KERNEL"]
        eq(
            (k["start"], k["end"], k["demangledName"], k["shortName"], k["gridZ"], k["globalPid"]),
            (5000, 6000, "gemm(int)", "gemm", 3, 1 << 48 | 500 << 24),
        )
        eq(k["sharedMemoryExecuted"], 77 if version > 2 else None)
        r, m = d["NVTX_EVENTS"]
        eq(
            (r["start"], r["end"], r["text"], r["color"], r["int32Value"]),
            (-50, 7000, "range", 255, -2),
        )
        eq(
            (m["start"], m["textId"], m["doubleValue"], m["category"], m["text"]),
            (100, "registered", 2.5, 3, None),
        )
        eq(len(d["WARPSIGHT_STACK"]), 2)
        eq(d["ThreadNames"][0]["nameId"], "main")
        out = t.run("stats", "-q", "-f", "csv", "-r", "cuda_gpu_kern_sum", "n.sqlite").out
        assert "1000" in out and "gemm" in out, out


@test
def kernels_of_nccl_are_collectives(t):
    names = [
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclKernel_ReduceScatter_RING_LL_Sum_float",
        "ncclDevKernel_SendRecv",
        "my_ncclish_kernel",
    ]
    extra = ["INSERT INTO StringIds VALUES (%d, '%s')" % (20 + i, n) for i, n in enumerate(names)]
    for i in range(8):
        extra.append(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (%d, %d, 0, 1, 7, %d, %d, %d, %d, 16,"
            " 1, 1, 1, 32, 1, 1, NULL, 0)"
            % (7000 + i * 100, 7050 + i * 100, 50 + i, 1 << 48 | 500 << 24, 20 + i % 4, 20 + i % 4)
        )
    d = t.load(make_nsys(t, "n.sqlite", 3, extra))
    eq(
        [(c["start"], c["correlationId"], c["nameId"]) for c in d["WARPSIGHT_COLLECTIVE"]],
        [
            (7000 + i * 100, 50 + i, ["allreduce", "reduce_scatter", "sendrecv"][i % 4])
            for i in range(8)
            if i % 4 < 3
        ],
    )
    eq(
        [(c["inElements"], c["dtypeId"]) for c in d["WARPSIGHT_COLLECTIVE"][:3]],
        [(None, "BFloat16"), (None, "Float"), (None, None)],
    )
    sums = t.stats("collective_sum", "r.wsrep")
    eq(
        sorted((s["Operation"], s["Instances"], s["Total Time (ns)"]) for s in sums),
        [("allreduce", "2", "100"), ("reduce_scatter", "2", "100"), ("sendrecv", "2", "100")],
    )


@test
def nothing_of_nsys_is_lost_silently(t):
    gtid = 1 << 48 | 500 << 24 | 501
    d = t.load(
        make_nsys(
            t,
            "n.sqlite",
            3,
            [
                (
                    "CREATE TABLE MPI_P2P_EVENTS (\n  start INTEGER, -- time\n  end INTEGER,\n "
                    " globalTid INTEGER,\n  textId INTEGER, -- REFERENCES StringIds(id)\n  tag"
                    " INTEGER)"
                ),
                f"INSERT INTO MPI_P2P_EVENTS VALUES (10, 20, {gtid}, 5, 99)",
                (
                    "CREATE TABLE GPU_METRICS (timestamp INTEGER, typeId INTEGER, metricId INTEGER,"
                    " value INTEGER)"
                ),
                "INSERT INTO GPU_METRICS VALUES (1, 256, 3, 80), (2, 256, 3, 90)",
                (
                    "CREATE TABLE TARGET_INFO_GPU_METRICS (typeId INTEGER, sourceId INTEGER,"
                    " typeName TEXT, metricId INTEGER, metricName TEXT)"
                ),
                (
                    "INSERT INTO TARGET_INFO_GPU_METRICS VALUES (256, 1, 'GPU 0', 3, 'SMs Active"
                    " [Throughput %]')"
                ),
                "CREATE TABLE SOMETHING_NEW (\n  a INTEGER, -- REFERENCES StringIds(id)\n  b TEXT)",
                "INSERT INTO SOMETHING_NEW VALUES (4, 'x')",
                (
                    "CREATE TABLE SCHED_EVENTS (start INTEGER, cpu INTEGER, isSchedIn INTEGER,"
                    " globalTid INTEGER)"
                ),
                f"INSERT INTO SCHED_EVENTS VALUES (100, 2, 1, {gtid}), (150, 2, 0, {gtid})",
                (
                    "CREATE VIEW ENDLESS AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1"
                    " FROM c) SELECT x AS start FROM c"
                ),
            ],
        )
    )
    (s,) = d["WARPSIGHT_SLICE"]
    eq(
        (s["nameId"], s["categoryId"], s["start"], s["end"], s["argsId"]),
        ("MPI_Send", "MPI_P2P_EVENTS", 10, 20, '{"tag":99}'),
    )
    eq(
        [(r["nameId"], r["unitId"]) for r in d["WARPSIGHT_COUNTER"]],
        [("SMs Active [Throughput %]", "%")],
    )
    eq([(r["start"], r["value"]) for r in d["WARPSIGHT_COUNTER_VALUE"]], [(1, 80.0), (2, 90.0)])
    (f,) = (r for r in d["WARPSIGHT_FOREIGN"] if r["tableNameId"] != "TARGET_INFO_GPU_METRICS")
    eq((f["tableNameId"], f["rowId"]), ("SOMETHING_NEW", '{"a":"main","b":"x"}'))
    eq([(r["start"], r["end"], r["cpu"]) for r in d["WARPSIGHT_SCHED"]], [(100, 150, 2)])
    assert "SOMETHING_NEW has no table here" in t.err, t.err
    # Columns that are not there, and those that nothing takes.
    d = t.load(
        make_nsys(
            t,
            "m.sqlite",
            3,
            [
                "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN coresUsed INTEGER",
                "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN emptyOne TEXT",
                "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET coresUsed = 3, emptyOne = '[]'",
                "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN gridX",
                "ALTER TABLE NVTX_EVENTS DROP COLUMN eventType",
                "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (end INTEGER, bytes INTEGER)",
                "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (1, 2)",
            ],
        )
    )
    eq((len(d["CUPTI_ACTIVITY_KIND_KERNEL"]), len(d.get("CUPTI_ACTIVITY_KIND_MEMSET", []))), (1, 0))
    for said in (
        "CUPTI_ACTIVITY_KIND_KERNEL has no column gridX, ",
        "CUPTI_ACTIVITY_KIND_KERNEL: what stands in coresUsed has no place here and was left out",
        "NVTX_EVENTS has no column eventType.",
        "CUPTI_ACTIVITY_KIND_MEMSET has no column start, ",
        "CUPTI_ACTIVITY_KIND_MEMSET was left out: nothing in it has a time",
    ):
        assert said in t.err, (said, t.err)
    assert "emptyOne" not in t.err, t.err


@test
def nsys_views_are_tables_too(t):
    plain = t.load(make_nsys(t, "a.sqlite"))
    viewed = t.load(
        make_nsys(
            t,
            "b.sqlite",
            3,
            [
                "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO every_kernel",
                (
                    "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT * FROM every_kernel WHERE end"
                    " > start"
                ),
                "ALTER TABLE StringIds RENAME TO texts",
                "CREATE VIEW StringIds AS SELECT * FROM texts",
            ],
        )
    )
    eq(viewed["CUPTI_ACTIVITY_KIND_KERNEL"], plain["CUPTI_ACTIVITY_KIND_KERNEL"])
    t.load(
        make_nsys(
            t,
            "c.sqlite",
            3,
            [
                "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL",
                (
                    "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE c(x) AS (SELECT 1"
                    " UNION ALL SELECT x + 1 FROM c) SELECT x AS start, x + 1 AS end FROM c"
                ),
            ],
        )
    )
    assert (
        "CUPTI_ACTIVITY_KIND_KERNEL was not read to its end: it has more rows than a file of this"
        " size" in t.err
    ), t.err


@test
def nsys_facts_streams_and_contexts(t):
    gpid = 1 << 48 | 500 << 24
    d = t.load(
        make_nsys(
            t,
            "n.sqlite",
            3,
            [
                "CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)",
                "INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE',"
                " 'KEY=hush'), ('COMMAND', 'app'), ('LONG', '" + "x" * 3000 + "')",
                (
                    "CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INTEGER, devStateName TEXT,"
                    " name TEXT, nameEnum INTEGER, value TEXT)"
                ),
                (
                    "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (0, 'Local', 'CpuCores', 1, '12'),"
                    " (0, 'Local', 'DeviceEnvironment', 2, 'KEY=hush'), (0, 'Local',"
                    " 'CudaDriverVersion', 3, '12080')"
                ),
                (
                    "CREATE TABLE TARGET_INFO_CUDA_STREAM (streamId INTEGER, hwId INTEGER, vmId"
                    " INTEGER, processId INTEGER, contextId INTEGER, priority INTEGER, flag"
                    " INTEGER)"
                ),
                "INSERT INTO TARGET_INFO_CUDA_STREAM VALUES (7, 0, 1, 500, 1, 0, 2)",
                (
                    "INSERT INTO StringIds VALUES (50, '/tmp/pid_500_stdout.log'), (51, 'hello'),"
                    " (52, '/tmp/pid_600_stderr.log'), (53, 'bad'), (54, 'x.ini')"
                ),
                (
                    "CREATE TABLE ProcessStreams (globalPid INTEGER, filenameId INTEGER, contentId"
                    " INTEGER)"
                ),
                "INSERT INTO ProcessStreams VALUES (%d, 50, 51), (%d, 52, 53), (%d, 54, 51)"
                % (gpid, 1 << 48 | 600 << 24, 1 << 48),
            ],
        )
    )
    eq(sorted(r["pid"] for r in d["PROCESSES"]), [500, 600])
    eq([(r["processId"], r["streamId"]) for r in d["TARGET_INFO_CUDA_STREAM"]], [(500, 7)])
    eq(
        [(r["globalPid"], r["contentId"]) for r in d["ProcessStreams"]],
        [(gpid, "hello"), (1 << 48 | 600 << 24, "bad")],
    )
    eq([table for table, rows in d.items() if "hush" in repr(rows)], [])
    eq(
        {r["name"]: r["value"] for r in d["TARGET_INFO_SYSTEM_ENV"]},
        {"CpuCores": "12", "CudaDriverVersion": "12080"},
    )
    for word in (
        "PROCESS_0:ENVIRONMENT_VARIABLE was left out: environment",
        "DeviceEnvironment was left out",
        "LONG was left out: it is longer",
    ):
        assert word in t.err, t.err


@test
def the_least_of_schema_2_is_enough(t):
    """As files of 2019: no processes, no names of threads, nothing about the machine, texts as
    numbers, columns in another order.
    """
    db = sqlite3.connect(t.path("old.sqlite"))
    gtid = 500 << 24 | 501
    for sql in (
        "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)",
        (
            "INSERT INTO StringIds VALUES (10, 'void gemm<float>(int)'), (11, 'gemm'), (12,"
            " 'cudaLaunchKernel_v7000'), (13, 'step'), (14, 'read'), (15, 'cudaMemcpyAsync_v3020')"
        ),
        (
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (demangledName INTEGER, shortName INTEGER,"
            " start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER,"
            " correlationId INTEGER, globalPid INTEGER, gridX INTEGER, gridY INTEGER, gridZ"
            " INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER, staticSharedMemory INTEGER,"
            " dynamicSharedMemory INTEGER)"
        ),
        (
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10, 11, 1000, 3000, 0, 1, 7, 5,"
            f" {500 << 24}, 1, 1, 1, 64, 1, 1, 0, 0)"
        ),
        (
            "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER,"
            " contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes"
            " INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER)"
        ),
        (
            f"INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (3000, 3500, 0, 1, 7, 6, {500 << 24},"
            " 2000000, 1, 0, 2)"
        ),
        (
            "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass"
            " INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue"
            " INTEGER)"
        ),
        (
            f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (500, 700, 0, {gtid}, 5, 12, 0), (710,"
            f" 900, 0, {gtid}, 6, 15, 0)"
        ),
        (
            "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text INTEGER,"
            " globalTid INTEGER)"
        ),
        f"INSERT INTO NVTX_EVENTS VALUES (400, 950, 59, 13, {gtid})",
        (
            "CREATE TABLE OSRT_API (start INTEGER, end INTEGER, eventClass INTEGER, globalTid"
            " INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER, nestingLevel"
            " INTEGER)"
        ),
        f"INSERT INTO OSRT_API VALUES (100, 150, 27, {gtid}, 1, 14, 0, 0)",
    ):
        db.execute(sql)
    db.commit()
    db.close()

    def rows(report):
        return [
            line.split(",")
            for line in t.run("stats", "-q", "-f", "csv", "-r", report, "old.sqlite")
            .out.strip()
            .splitlines()[1:]
        ]

    eq(
        [r[1:3] + r[8:] for r in rows("cuda_gpu_kern_sum")],
        [["2000", "1", "void gemm<float>(int)"]],
    )
    eq(
        [r[:2] + r[7:] for r in rows("cuda_gpu_mem_size_sum")],
        [["2.000", "1", "[CUDA memcpy Host-to-Device]"]],
    )
    eq(
        rows("cuda_api_trace"),
        [
            ["500", "200", "cudaLaunchKernel", "0", "5", "500", "501", "", ""],
            ["710", "190", "cudaMemcpyAsync", "0", "6", "500", "501", "", ""],
        ],
    )
    eq([r[:4] for r in rows("nvtx_gpu_proj_sum")], [["step", "PushPop", "2500", "550"]])
    eq([r[1:3] + r[8:] for r in rows("osrt_sum")], [["50", "1", "read"]])
    eq([r[12] for r in rows("nvtx_kern_sum")], ["void gemm<float>(int)"])
    assert t.run("stats", "-q", "old.sqlite").out.count(" ** ") == 6


FOREIGN = {
    "MPI_RANKS": ("globalTid rank", [(None, 3)]),
    "MPI_P2P_EVENTS": (
        "start end globalTid textId@ commHandle tag remoteRank size",
        [(10, 20, "T", 5, -1, 99, 4, 1 << 62), (30, None, "T", 5, None, 99, 4, 7)],
    ),
    "OPENMP_EVENT_KIND_TASK": (
        "start end eventClass globalTid correlationId nameId@ eventKind kindId@",
        [(-40, 20, 78, "T", None, 5, 2, 4), (50, 60, 78, "T", None, None, 2, 99)],
    ),
    "CUPTI_ACTIVITY_KIND_OPENACC_DATA": (
        "start end nameId@ globalTid srcFileId@ funcId@ share:REAL note:TEXT",
        [(10, 20, 5, "T", 2, 999, 0.1, 'say "\u00e9"\n'), (11, 20, 5, "U", 4, None, None, "")],
    ),
    "GENERIC_EVENTS": (
        "rawTimestamp timestamp typeId data:TEXT",
        [(5, 70, 1, '{"a": [1, "b"]}'), (6, None, 1, "x")],
    ),
    "GPU_METRICS": (
        "timestamp typeId metricId value",
        [
            (100, 256, 3, 80),
            (200, 256, 3, 90),
            (100, 256, 4, 1),
            (100, 1 << 40 | 256, 3, 7),
            (150, 512, 9, 2),
        ],
    ),
    "TARGET_INFO_GPU_METRICS": (
        "typeId sourceId typeName:TEXT metricId metricName:TEXT",
        [
            (256, 1, "GPU 0", 3, "SMs Active"),
            (256, 1, "GPU 0", 4, "DRAM [%]"),
            (1 << 40 | 256, 1, "GPU 0", 3, "SMs Active"),
        ],
    ),
    "NET_NIC_METRIC": (
        "start end globalId metricsListId metricsIdx value",
        [(0, 1000, 9, 1, 0, 123456789), (1000, 2000, 9, 1, 1, 5)],
    ),
    "NET_IB_SWITCH_METRIC": (
        "start end globalId metricsListId metricsIdx value",
        [(500, 600, 88002, 2, 0, 3)],
    ),
    "TARGET_INFO_NETWORK_METRICS": (
        "metricsListId metricsIdx name:TEXT description:TEXT unit:TEXT",
        [(1, 0, "sent", "", "B"), (1, 1, "waits", "", "ticks")],
    ),
    "TARGET_INFO_NIC_INFO": (
        "GUID stateName:TEXT nicId name:TEXT deviceId",
        [(77001, "Local", 3, "mlx5_0", 1)],
    ),
    "NIC_ID_MAP": ("nicId globalId", [(3, 9)]),
    "OF_NO_KNOWN_TOOL": ("a b:TEXT start", [(4, "x", 80), (5, None, 90)]),
}


def foreign(gtid):
    """Statements that make them, and what their rows are with texts for numbers of StringIds."""
    texts = dict(
        enumerate(
            ["gemm(int)", "gemm", "cudaLaunchKernel_v7000", "main", "MPI_Send", "registered"], 1
        )
    )
    sql, want = [], {}
    for table, (columns, rows) in FOREIGN.items():
        columns = columns.split()
        sql.append(
            f"CREATE TABLE {table} (\n"
            + ",\n".join(
                c.strip("@").split(":")[0]
                + " "
                + (c.split(":") + ["INTEGER"])[1]
                + (" REFERENCES StringIds(id)" if "@" in c else "")
                for c in columns
            )
            + "\n)"
        )
        rows = [[{"T": gtid, "U": gtid + (3 << 24) + 1}.get(v, v) for v in row] for row in rows]
        sql += [f"INSERT INTO {table} VALUES ({','.join(map(literal, row))})" for row in rows]
        want[table] = sorted(
            repr([texts.get(v, v) if "@" in c else v for c, v in zip(columns, row)]) for row in rows
        )
    return sql, want


def raw(path):
    """All rows as they stand, but of what says when and from where the file was made and what was
    imported.
    """
    db = sqlite3.connect(path)
    names = [
        n
        for n, in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        if n not in ("META_DATA_EXPORT", "DIAGNOSTIC_EVENT")
    ]
    return {n: sorted(map(repr, db.execute(f"SELECT * FROM {n}"))) for n in names}


@test
def export_import_export_gives_the_same_rows(t):
    gpid = 1 << 48 | 500 << 24
    streams = [
        "CREATE TABLE ProcessStreams (globalPid INTEGER, filenameId INTEGER, contentId INTEGER)",
        (
            "INSERT INTO StringIds VALUES (50, '/tmp/pid_500_stdout.log'), (51, 'hello'), (52,"
            " 'pid_500_stderr.log'), (53, '')"
        ),
        f"INSERT INTO ProcessStreams VALUES ({gpid}, 50, 51), ({gpid}, 52, 53)",
    ]
    for name, make in [
        ("k", lambda: t.write("k.json", kineto(rank=0))),
        ("n", lambda: make_nsys(t, "n.sqlite", 3, streams)),
        ("f", lambda: make_nsys(t, "f.sqlite", 3, foreign(gpid + 501)[0])),
        ("c", lambda: t.write("c.json", CHROME)),
        ("p", lambda: t.write("p.txt", PERF)),
    ]:
        first = t.load(make())
        shutil.copy(t.path("r.sqlite"), t.path("first.sqlite"))
        second = t.load(t.path("first.sqlite"))
        eq(set(second) - {"DIAGNOSTIC_EVENT"}, set(first) - {"DIAGNOSTIC_EVENT"}, f"{name} tables")
        for table, rows in first.items():
            if table not in ("META_DATA_EXPORT", "StringIds", "DIAGNOSTIC_EVENT"):
                eq(sorted(map(repr, second[table])), sorted(map(repr, rows)), f"{name} {table}")
        a, b = raw(t.path("first.sqlite")), raw(t.path("r.sqlite"))
        made = {i.split(",")[0] for i in set(a["StringIds"]) ^ set(b["StringIds"])}
        eq(
            [n for n in a if n != "StringIds" and a[n] != b[n]],
            [],
            f"{name}: numbers of texts, beside {made}",
        )


@test
def tables_of_other_tools_keep_their_names(t):
    sql, want = foreign((1 << 48 | 500 << 24) + 501)
    make_nsys(t, "f.sqlite", 3, sql)
    for path in "f.sqlite", "once.sqlite", "twice.sqlite":
        if path != "f.sqlite":
            shutil.copy(t.path("r.sqlite"), t.path(path))
        got = t.load(t.path(path))
        for table, rows in want.items():
            columns = [c.strip("@").split(":")[0] for c in FOREIGN[table][0].split()]
            eq(
                sorted(repr([r[c] for c in columns]) for r in got[table]),
                rows,
                f"{table} of {path}",
            )
    eq(
        t.run(
            "query",
            "-f",
            "csv",
            (
                "SELECT s.value, p.size FROM MPI_P2P_EVENTS p JOIN StringIds s ON s.id = p.textId"
                " ORDER BY p.start"
            ),
            "f.sqlite",
        ).out,
        f"value,size\nMPI_Send,{1 << 62}\nMPI_Send,7\n",
    )
    t.run(
        "export", "-q", "-f", "--ts-shift=1000", "--times=1005/1045", "-o", "s.sqlite", "f.sqlite"
    )
    got = read(t.path("s.sqlite"))
    eq([(r["start"], r["end"]) for r in got["MPI_P2P_EVENTS"]], [(1010, 1020), (1030, None)])
    eq([r["timestamp"] for r in got.get("GPU_METRICS", [])], [])
    # What an import says of a table never stands in for one of the report's own.
    t.load(
        make_nsys(
            t,
            "evil.sqlite",
            3,
            [
                "CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)",
                (
                    "INSERT INTO META_DATA_CAPTURE VALUES ('table.OSRT_API', 'S start/s'),"
                    " ('table.x; DROP TABLE y', 'F a'), ('table.OK', 'F a a'), ('table.DUP', 'F"
                    " a\"b'), ('counter.7', 'GPU_METRICS 1')"
                ),
            ],
        )
    )


sys.exit(main())
