#!/usr/bin/env python3
"""Importing traces of the PyTorch Profiler: tables, forms of time, ranks. Prints TAP.

Usage: test_kineto.py WARPSIGHT [WORD...]; with words, tests whose names hold one of them."""
import gzip
import json
import sys

from harness import eq, main, test
from traces import kineto

EVENT_TABLES = [
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "WARPSIGHT_OP",
    "WARPSIGHT_OP_LINK",
    "WARPSIGHT_OP_MEMORY",
    "WARPSIGHT_COLLECTIVE",
    "WARPSIGHT_FLOW",
]


@test
def kineto_events_have_their_tables(t):
    d = t.load(t.write("k.json", kineto()))
    k, nccl = d["CUPTI_ACTIVITY_KIND_KERNEL"]
    eq(
        (
            k["start"],
            k["end"],
            k["shortName"],
            k["gridX"],
            k["gridY"],
            k["blockX"],
            k["registersPerThread"],
            k["streamId"],
        ),
        (50001, 57003, "gemm", 4, 2, 128, 32, 7),
    )
    eq((k["estimatedOccupancy"], k["globalPid"]), (0.5, 77 << 24))
    (c,) = d["WARPSIGHT_COLLECTIVE"]
    eq(
        (c["nameId"], c["inElements"], c["groupSize"], c["dtypeId"], c["groupRanksId"], c["start"]),
        ("allreduce", 100, 2, "Float", "[0, 1]", 65000),
    )
    (m,) = d["CUPTI_ACTIVITY_KIND_MEMCPY"]
    eq((m["copyKind"], m["srcKind"], m["dstKind"], m["bytes"]), (1, 1, 2, 4096))
    eq([r["bytes"] for r in d["CUPTI_ACTIVITY_KIND_MEMSET"]], [512])
    eq(
        [
            (r["nameId"], r["correlationId"], r["globalTid"])
            for r in d["CUPTI_ACTIVITY_KIND_RUNTIME"]
        ],
        [("cudaLaunchKernel", 11, 77 << 24 | 77)],
    )
    ops = {r["nameId"]: r for r in d["WARPSIGHT_OP"]}
    eq(ops["aten::addmm"]["flops"], 2 * 2 * 3 * 5)
    eq(ops["aten::addmm"]["argsId"], '{"Odd":{"a": [1]}}')
    eq((ops["aten::addmm"]["start"], ops["aten::addmm"]["end"]), (2500, 32625))
    eq(
        sorted((r["correlationId"], r["externalId"]) for r in d["WARPSIGHT_OP_LINK"]),
        [(11, 3), (12, 4)],
    )
    (mem,) = d["WARPSIGHT_OP_MEMORY"]
    eq(
        (mem["bytes"], mem["address"], mem["totalAllocated"], mem["deviceType"]),
        (1000, 4096, 5000, 1),
    )
    eq(
        [(r["start"], r["end"], r["categoryId"]) for r in d["WARPSIGHT_FLOW"]],
        [(2000, 61000, "fwdbwd")],
    )
    eq([(r["name"], r["pid"]) for r in d["PROCESSES"]], [("python3", 77)])
    eq([r["nameId"] for r in d["ThreadNames"]], ["main thread"])
    eq(
        [(r["name"], r["smCount"], r["maxWarpsPerSm"]) for r in d["TARGET_INFO_GPU"]],
        [("Test GPU", 10, 64)],
    )
    eq(d["TARGET_INFO_SESSION_START_TIME"][0]["utcEpochNs"], 1700000000001000000)


@test
def three_forms_of_time_and_gzip_agree(t):
    want = t.load(t.write("a.json", kineto()))
    forms = {
        "absolute.json": json.dumps(kineto(base=None, start=1700000000001000.0)),
        "floats.json": json.dumps(kineto(base=None, start=1700000000001000.0)).replace(
            '.0, "dur"', '.000, "dur"'
        ),
    }
    for name, text in forms.items():
        got = t.load(t.write(name, text))
        for table in EVENT_TABLES:
            if name == "floats.json" or table not in ("CUPTI_ACTIVITY_KIND_KERNEL", "WARPSIGHT_OP"):
                eq([r.get("name") for r in got[table]], [r.get("name") for r in want[table]], table)
        # 2^53 us leaves a quarter of a microsecond: what these files hold
        eq(
            [round(r["start"], -3) for r in got["CUPTI_ACTIVITY_KIND_KERNEL"]],
            [round(r["start"], -3) for r in want["CUPTI_ACTIVITY_KIND_KERNEL"]],
        )
        eq(got["TARGET_INFO_SESSION_START_TIME"][0]["utcEpochNs"], 1700000000001000000)
    got = t.load(t.write("z.json.gz", gzip.compress(json.dumps(kineto()).encode())))
    for table in EVENT_TABLES:
        eq(got[table], want[table], table)


@test
def numbers_are_exact_in_every_form(t):
    """Nanoseconds of 2024 have 19 digits, more than a double: exponents and long fractions are
    taken by their digits all the same.
    """
    forms = [
        "1712195495505583.123",
        '"1712195495505583.123"',
        "1712195495505583.1230000",
        "1712195495505583.12349",
        "1.712195495505583123e15",
        "1712195495505583123e-3",
        "171219549550558312.30e-2",
        "17121954955055831.23E-1",
        "0.001712195495505583123e+18",
    ]
    events = [
        f'{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{ts},"dur":{dur},'
        f'"args":{{"correlation":{i},"device":0,"stream":7}}}}'
        for i, (ts, dur) in enumerate(
            zip(
                ["1712195495505583"] + forms,
                [
                    "1",
                    "2.5e0",
                    "25e-1",
                    "0.0025e3",
                    "2.4995",
                    "2.5004999",
                    "2500E-3",
                    "2.5",
                    "2.50000000000000000000000001",
                    "2.5",
                ],
            ),
            1,
        )
    ]
    d = t.load(t.write("n.json", '{"schemaVersion":1,"traceEvents":[' + ",".join(events) + "]}"))
    eq(
        [
            (r["start"], r["end"])
            for r in sorted(d["CUPTI_ACTIVITY_KIND_KERNEL"], key=lambda r: r["correlationId"])
        ],
        [(0, 1000)] + [(123, 2623)] * len(forms),
    )


@test
def a_slice_about_the_gpu_may_come_first(t):
    want = t.load(t.write("a.json", kineto()))
    trace = kineto()
    trace["traceEvents"].insert(
        0, {"ph": "X", "cat": "Trace", "name": "Span", "pid": 0, "tid": 9, "ts": 1000.0, "dur": 1}
    )
    got = t.load(t.write("b.json", trace))
    for table in ("PROCESSES", "CUPTI_ACTIVITY_KIND_KERNEL", "WARPSIGHT_OP_LINK"):
        eq(got[table], want[table], table)


@test
def categories_and_thread_names_of_2021(t):
    old = {
        "traceEvents": [
            {
                "ph": "X",
                "cat": "Operator",
                "name": "aten::mm",
                "pid": 9,
                "tid": "9 (python)",
                "ts": 10,
                "dur": 50,
                "args": {"External id": 5, "Input dims": [[2, 3], [3, 4]]},
            },
            {
                "ph": "X",
                "cat": "Runtime",
                "name": "cudaLaunchKernel",
                "pid": 9,
                "tid": "9 (python)",
                "ts": 20,
                "dur": 5,
                "args": {"cbid": 211, "correlation": 4, "external id": 5},
            },
            {
                "ph": "X",
                "cat": "Kernel",
                "name": "gemm",
                "pid": 2,
                "tid": "stream 7",
                "ts": 40,
                "dur": 8,
                "args": {"device": 2, "stream": 7, "correlation": 4, "external id": 5},
            },
            {
                "ph": "X",
                "cat": "Memcpy",
                "name": "Memcpy DtoH (Device -> Pageable)",
                "pid": 2,
                "tid": "stream 7",
                "ts": 60,
                "dur": 8,
                "args": {"device": 2, "stream": 7, "correlation": 6, "bytes": 8},
            },
        ],
        "schemaVersion": 1,
    }
    d = t.load(t.write("o.json", old))
    eq(
        [
            (r["deviceId"], r["streamId"], r["end"] - r["start"])
            for r in d["CUPTI_ACTIVITY_KIND_KERNEL"]
        ],
        [(2, 7, 8000)],
    )
    eq(
        [(r["nameId"], r["flops"], r["globalTid"]) for r in d["WARPSIGHT_OP"]],
        [("aten::mm", 48, 9 << 24 | 9)],
    )
    eq([(r["correlationId"], r["externalId"]) for r in d["WARPSIGHT_OP_LINK"]], [(4, 5)])
    eq([r["copyKind"] for r in d["CUPTI_ACTIVITY_KIND_MEMCPY"]], [2])


@test
def several_files_are_ranks_on_one_clock(t):
    a = t.write("a.json", kineto(rank=0))
    b = t.write(
        "b.json.gz",
        gzip.compress(
            json.dumps(
                kineto(base=1700000000000000000 - 5000000, start=6000.0, pid=77, offset=3, rank=1)
            ).encode()
        ),
    )
    d = t.load(a, b)
    eq(sorted((r["rank"], r["worldSize"]) for r in d["WARPSIGHT_RANK"]), [(0, 2), (1, 2)])
    eq(
        len({r["globalPid"] for r in d["CUPTI_ACTIVITY_KIND_KERNEL"]}),
        2,
        "processes of the same pid",
    )
    starts = sorted(r["start"] for r in d["CUPTI_ACTIVITY_KIND_KERNEL"] if r["shortName"] == "gemm")
    eq(starts, [50001, 53001])


@test
def collectives_tell_how_far_clocks_are_apart(t):
    files = []
    for rank in 0, 1:
        trace = kineto(rank=rank, offset=rank * 40)
        (nccl,) = [e for e in trace["traceEvents"] if e["name"].startswith("nccl")]
        for i in range(1, 6):
            trace["traceEvents"].append(
                dict(
                    nccl,
                    ts=round(nccl["ts"] + 1000 * i + rank * i * 0.001, 3),
                    args=dict(nccl["args"], correlation=100 + i),
                )
            )
        files.append(t.write(f"{rank}.json", trace))
    d = t.load(*files)
    eq(sorted((r["rank"], r["clockOffset"]) for r in d["WARPSIGHT_RANK"]), [(0, 0), (1, -40002)])
    assert (
        "collectives that the first file has too say that this clock is 0.040 ms ahead"
        in t.run("info", "r.wsrep").out
    )


sys.exit(main())
