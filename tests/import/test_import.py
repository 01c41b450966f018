#!/usr/bin/env python3
"""Importing other tools' traces, and `ops`, as whole commands. Prints TAP. Traces are made here, a few lines each.

Usage: test_import.py WARPSIGHT [WORD...]; with words, tests whose names hold one of them."""
import gzip
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import zlib

WARPSIGHT = os.path.abspath(sys.argv[1])
TESTS = []


def test(f):
    TESTS.append(f)
    return f


class T:
    """A folder to work in, and what tests do in it."""

    def __init__(self, folder):
        self.dir = folder
        self.env = dict(os.environ, XDG_CACHE_HOME=os.path.join(folder, "cache"), TMPDIR=folder)

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, data):
        data = data if isinstance(data, bytes) else data.encode() if isinstance(data, str) else json.dumps(data).encode()
        with open(self.path(name), "wb") as f:
            f.write(data)
        return self.path(name)

    def run(self, *args, ok=True):
        r = subprocess.run([WARPSIGHT, *args], env=self.env, cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=100)
        r.out, r.err = r.stdout.decode("utf-8", "replace"), r.stderr.decode("utf-8", "replace")
        assert r.returncode >= 0, f"killed by signal {-r.returncode}: {args}"
        if ok is not None:
            assert (r.returncode == 0) == ok, f"{args}: status {r.returncode}: {r.err}"
        return r

    def load(self, *files):
        """Import and export; the tables of the export by name, each a list of dicts with texts in place of their numbers."""
        self.err = self.run("import", "-f", "-o", "r.wsrep", *files).err
        return self.tables("r.wsrep")

    def tables(self, report):
        self.run("export", "-q", "-f", "-o", "r.sqlite", report)
        return read(self.path("r.sqlite"))


PLAIN = {"deviceId", "contextId", "streamId", "correlationId", "greenContextId", "domainId", "schemaId", "processId", "vmId", "hwId",
         "callchainId", "eventId", "eventSyncId", "graphId", "gridId", "graphNodeId", "rangeId", "externalId", "counterId", "trackId",
         "frameId", "callersId", "moduleId", "parentId", "fromTrackId", "toTrackId", "setId", "recordFunctionId", "forwardThreadId", "pythonId",
         "pythonParentId", "pythonModuleId", "typeId", "sourceId", "metricId", "globalId", "metricsListId", "nicId"}
NUMBERED = {"symbol", "demangledName", "shortName", "mangledName", "CpuInstruction", "module"}


def read(path):
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    strings = dict(db.execute("SELECT id, value FROM StringIds"))
    tables = {}
    for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall():
        columns = [c[1] for c in db.execute(f'PRAGMA table_info("{name}")')]
        text = [c in NUMBERED or (c.endswith("Id") and c not in PLAIN) for c in columns]
        rows = db.execute(f'SELECT * FROM "{name}"').fetchall()
        tables[name] = [{c: strings.get(v, v) if t else v for c, v, t in zip(columns, r, text)} for r in rows]
    db.close()
    return tables


def eq(a, b, what=""):
    assert a == b, f"{what}: {a!r} is not {b!r}"


# ---- PyTorch ----

def kineto(base=1700000000000000000, start=1000.0, pid=77, offset=0.0, rank=None):
    """A step with two operators, their calls and kernels, a copy, a collective, memory."""
    def x(cat, name, ts, dur, args, pid_=pid, tid=pid):
        return {"ph": "X", "cat": cat, "name": name, "pid": pid_, "tid": tid, "ts": round(start + offset + ts, 3), "dur": dur, "args": args}
    gpu = {"device": 0, "context": 1}
    events = [
        x("user_annotation", "ProfilerStep#3", 0, 100, {"External id": 1}),
        x("cpu_op", "aten::linear", 1, 40, {"External id": 2}),
        x("cpu_op", "aten::addmm", 2.5, 30.125, {"External id": 3, "Input Dims": [[5], [2, 3], [3, 5]], "Ev Idx": 2, "Odd": {"a": [1]}}),
        x("cuda_runtime", "cudaLaunchKernel", 10, 5, {"External id": 3, "correlation": 11, "cbid": 211}),
        x("kernel", "void ns::(anonymous namespace)::gemm<float, 2>(int*)", 50.001, 7.002,
          dict(gpu, **{"External id": 3, "correlation": 11, "stream": 7, "grid": [4, 2, 1], "block": [128, 1, 1], "registers per thread": 32,
                       "shared memory": 64, "est. achieved occupancy %": 50}), 0, 7),
        x("cpu_op", "record_param_comms", 60, 5, {"External id": 4, "Collective name": "allreduce"}),
        x("kernel", "ncclDevKernel_AllReduce_Sum_f32", 65, 20,
          dict(gpu, **{"External id": 4, "correlation": 12, "stream": 20, "Collective name": "allreduce", "In msg nelems": 100,
                       "Out msg nelems": 100, "Group size": 2, "dtype": "Float", "Process Group Name": "0", "Process Group Ranks": "[0, 1]",
                       "grid": [1, 1, 1], "block": [1, 1, 1]}), 0, 20),
        x("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 70, 1, dict(gpu, **{"correlation": 13, "stream": 7, "bytes": 4096}), 0, 7),
        x("gpu_memset", "Memset (Device)", 72, 2, dict(gpu, **{"correlation": 14, "stream": 7, "bytes": 512}), 0, 7),
        {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": pid, "tid": pid, "ts": round(start + offset + 5, 3),
         "args": {"Bytes": 1000, "Addr": 4096, "Total Allocated": 5000, "Total Reserved": 9000, "Device Type": 1, "Device Id": 0}},
        {"ph": "s", "id": 11, "pid": pid, "tid": pid, "ts": round(start + offset + 10, 3), "cat": "ac2g", "name": "ac2g"},
        {"ph": "f", "id": 11, "pid": 0, "tid": 7, "ts": round(start + offset + 50.001, 3), "cat": "ac2g", "name": "ac2g", "bp": "e"},
        {"ph": "s", "id": 5, "pid": pid, "tid": pid, "ts": round(start + offset + 2, 3), "cat": "fwdbwd", "name": "fwdbwd"},
        {"ph": "f", "id": 5, "pid": pid, "tid": pid, "ts": round(start + offset + 61, 3), "cat": "fwdbwd", "name": "fwdbwd", "bp": "e"},
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "ts": 0, "args": {"name": "python3"}},
        {"ph": "M", "name": "thread_name", "pid": pid, "tid": pid, "ts": 0, "args": {"name": "main thread"}},
    ]
    trace = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Test GPU", "numSms": 10, "totalGlobalMem": 1 << 33, "warpSize": 32,
                                                       "maxThreadsPerMultiprocessor": 2048}], "traceEvents": events}
    if rank is not None:
        trace["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 2}
    if base:
        trace["baseTimeNanoseconds"] = base
    return trace


EVENT_TABLES = ["CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_RUNTIME",
                "WARPSIGHT_OP", "WARPSIGHT_OP_LINK", "WARPSIGHT_OP_MEMORY", "WARPSIGHT_COLLECTIVE", "WARPSIGHT_FLOW"]


@test
def kineto_events_have_their_tables(t):
    d = t.load(t.write("k.json", kineto()))
    k, nccl = d["CUPTI_ACTIVITY_KIND_KERNEL"]
    eq((k["start"], k["end"], k["shortName"], k["gridX"], k["gridY"], k["blockX"], k["registersPerThread"], k["streamId"]),
       (50001, 57003, "gemm", 4, 2, 128, 32, 7))
    eq((k["estimatedOccupancy"], k["globalPid"]), (0.5, 77 << 24))
    c, = d["WARPSIGHT_COLLECTIVE"]
    eq((c["nameId"], c["inElements"], c["groupSize"], c["dtypeId"], c["groupRanksId"], c["start"]), ("allreduce", 100, 2, "Float", "[0, 1]", 65000))
    m, = d["CUPTI_ACTIVITY_KIND_MEMCPY"]
    eq((m["copyKind"], m["srcKind"], m["dstKind"], m["bytes"]), (1, 1, 2, 4096))
    eq([r["bytes"] for r in d["CUPTI_ACTIVITY_KIND_MEMSET"]], [512])
    eq([(r["nameId"], r["correlationId"], r["globalTid"]) for r in d["CUPTI_ACTIVITY_KIND_RUNTIME"]], [("cudaLaunchKernel", 11, 77 << 24 | 77)])
    ops = {r["nameId"]: r for r in d["WARPSIGHT_OP"]}
    eq(ops["aten::addmm"]["flops"], 2 * 2 * 3 * 5)
    eq(ops["aten::addmm"]["argsId"], '{"Odd":{"a": [1]}}')
    eq((ops["aten::addmm"]["start"], ops["aten::addmm"]["end"]), (2500, 32625))
    eq(sorted((r["correlationId"], r["externalId"]) for r in d["WARPSIGHT_OP_LINK"]), [(11, 3), (12, 4)])
    mem, = d["WARPSIGHT_OP_MEMORY"]
    eq((mem["bytes"], mem["address"], mem["totalAllocated"], mem["deviceType"]), (1000, 4096, 5000, 1))
    eq([(r["start"], r["end"], r["categoryId"]) for r in d["WARPSIGHT_FLOW"]], [(2000, 61000, "fwdbwd")])
    eq([(r["name"], r["pid"]) for r in d["PROCESSES"]], [("python3", 77)])
    eq([r["nameId"] for r in d["ThreadNames"]], ["main thread"])
    eq([(r["name"], r["smCount"], r["maxWarpsPerSm"]) for r in d["TARGET_INFO_GPU"]], [("Test GPU", 10, 64)])
    eq(d["TARGET_INFO_SESSION_START_TIME"][0]["utcEpochNs"], 1700000000001000000)


@test
def three_forms_of_time_and_gzip_agree(t):
    want = t.load(t.write("a.json", kineto()))
    forms = {
        "absolute.json": json.dumps(kineto(base=None, start=1700000000001000.0)),
        "floats.json": json.dumps(kineto(base=None, start=1700000000001000.0)).replace('.0, "dur"', '.000, "dur"'),
    }
    for name, text in forms.items():
        got = t.load(t.write(name, text))
        for table in EVENT_TABLES:
            if name == "floats.json" or table not in ("CUPTI_ACTIVITY_KIND_KERNEL", "WARPSIGHT_OP"):
                eq([r.get("name") for r in got[table]], [r.get("name") for r in want[table]], table)
        # 2^53 us leaves a quarter of a microsecond: what these files hold
        eq([round(r["start"], -3) for r in got["CUPTI_ACTIVITY_KIND_KERNEL"]], [round(r["start"], -3) for r in want["CUPTI_ACTIVITY_KIND_KERNEL"]])
        eq(got["TARGET_INFO_SESSION_START_TIME"][0]["utcEpochNs"], 1700000000001000000)
    got = t.load(t.write("z.json.gz", gzip.compress(json.dumps(kineto()).encode())))
    for table in EVENT_TABLES:
        eq(got[table], want[table], table)


@test
def numbers_are_exact_in_every_form(t):
    """Nanoseconds of 2024 have 19 digits, more than a double: exponents and long fractions are taken by their digits all the same."""
    forms = ["1712195495505583.123", '"1712195495505583.123"', "1712195495505583.1230000", "1712195495505583.12349", "1.712195495505583123e15", "1712195495505583123e-3",
             "171219549550558312.30e-2", "17121954955055831.23E-1", "0.001712195495505583123e+18"]
    events = [f'{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{ts},"dur":{dur},"args":{{"correlation":{i},"device":0,"stream":7}}}}'
              for i, (ts, dur) in enumerate(zip(["1712195495505583"] + forms, ["1", "2.5e0", "25e-1", "0.0025e3", "2.4995", "2.5004999", "2500E-3", "2.5", "2.50000000000000000000000001", "2.5"]), 1)]
    d = t.load(t.write("n.json", '{"schemaVersion":1,"traceEvents":[' + ",".join(events) + "]}"))
    eq([(r["start"], r["end"]) for r in sorted(d["CUPTI_ACTIVITY_KIND_KERNEL"], key=lambda r: r["correlationId"])], [(0, 1000)] + [(123, 2623)] * len(forms))


@test
def a_slice_about_the_gpu_may_come_first(t):
    want = t.load(t.write("a.json", kineto()))
    trace = kineto()
    trace["traceEvents"].insert(0, {"ph": "X", "cat": "Trace", "name": "Span", "pid": 0, "tid": 9, "ts": 1000.0, "dur": 1})
    got = t.load(t.write("b.json", trace))
    for table in ("PROCESSES", "CUPTI_ACTIVITY_KIND_KERNEL", "WARPSIGHT_OP_LINK"):
        eq(got[table], want[table], table)


@test
def categories_and_thread_names_of_2021(t):
    old = {"traceEvents": [
        {"ph": "X", "cat": "Operator", "name": "aten::mm", "pid": 9, "tid": "9 (python)", "ts": 10, "dur": 50,
         "args": {"External id": 5, "Input dims": [[2, 3], [3, 4]]}},
        {"ph": "X", "cat": "Runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": "9 (python)", "ts": 20, "dur": 5,
         "args": {"cbid": 211, "correlation": 4, "external id": 5}},
        {"ph": "X", "cat": "Kernel", "name": "gemm", "pid": 2, "tid": "stream 7", "ts": 40, "dur": 8,
         "args": {"device": 2, "stream": 7, "correlation": 4, "external id": 5}},
        {"ph": "X", "cat": "Memcpy", "name": "Memcpy DtoH (Device -> Pageable)", "pid": 2, "tid": "stream 7", "ts": 60, "dur": 8,
         "args": {"device": 2, "stream": 7, "correlation": 6, "bytes": 8}},
    ], "schemaVersion": 1}
    d = t.load(t.write("o.json", old))
    eq([(r["deviceId"], r["streamId"], r["end"] - r["start"]) for r in d["CUPTI_ACTIVITY_KIND_KERNEL"]], [(2, 7, 8000)])
    eq([(r["nameId"], r["flops"], r["globalTid"]) for r in d["WARPSIGHT_OP"]], [("aten::mm", 48, 9 << 24 | 9)])
    eq([(r["correlationId"], r["externalId"]) for r in d["WARPSIGHT_OP_LINK"]], [(4, 5)])
    eq([r["copyKind"] for r in d["CUPTI_ACTIVITY_KIND_MEMCPY"]], [2])


@test
def several_files_are_ranks_on_one_clock(t):
    a = t.write("a.json", kineto(rank=0))
    b = t.write("b.json.gz", gzip.compress(json.dumps(kineto(base=1700000000000000000 - 5000000, start=6000.0, pid=77, offset=3, rank=1)).encode()))
    d = t.load(a, b)
    eq(sorted((r["rank"], r["worldSize"]) for r in d["WARPSIGHT_RANK"]), [(0, 2), (1, 2)])
    eq(len({r["globalPid"] for r in d["CUPTI_ACTIVITY_KIND_KERNEL"]}), 2, "processes of the same pid")
    starts = sorted(r["start"] for r in d["CUPTI_ACTIVITY_KIND_KERNEL"] if r["shortName"] == "gemm")
    eq(starts, [50001, 53001])


@test
def collectives_tell_how_far_clocks_are_apart(t):
    files = []
    for rank in 0, 1:
        trace = kineto(rank=rank, offset=rank * 40)
        nccl, = [e for e in trace["traceEvents"] if e["name"].startswith("nccl")]
        for i in range(1, 6):
            trace["traceEvents"].append(dict(nccl, ts=round(nccl["ts"] + 1000 * i + rank * i * 0.001, 3),
                                             args=dict(nccl["args"], correlation=100 + i)))
        files.append(t.write(f"{rank}.json", trace))
    d = t.load(*files)
    eq(sorted((r["rank"], r["clockOffset"]) for r in d["WARPSIGHT_RANK"]), [(0, 0), (1, -40002)])
    assert "collectives that the first file has too say that this clock is 0.040 ms ahead" in t.run("info", "r.wsrep").out


# ---- Chrome ----

CHROME = [
    {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "prog"}},
    {"ph": "B", "name": "outer", "cat": "c", "pid": 1, "tid": 2, "ts": 10},
    {"ph": "B", "name": "in\u00e9r \"q\"", "cat": "c", "pid": 1, "tid": 2, "ts": 11, "args": {"k": [1, {"z": None}]}},
    {"ph": "E", "pid": 1, "tid": 2, "ts": 15},
    {"ph": "E", "pid": 1, "tid": 2, "ts": 20.5},
    {"ph": "X", "name": "x", "cat": "kernel", "pid": 1, "tid": 2, "ts": 30, "dur": 5},
    {"ph": "i", "name": "mark", "pid": 1, "tid": 2, "ts": 31, "s": "t"},
    {"ph": "C", "name": "mem", "pid": 1, "ts": 32, "args": {"rss": 12.5, "swap": 3}},
    {"ph": "b", "cat": "net", "id": "0x1", "name": "get", "pid": 1, "tid": 2, "ts": 40},
    {"ph": "n", "cat": "net", "id": "0x1", "name": "byte", "pid": 1, "tid": 2, "ts": 41},
    {"ph": "e", "cat": "net", "id": "0x1", "name": "get", "pid": 1, "tid": 3, "ts": 45},
    {"ph": "s", "cat": "f", "id": 1, "name": "go", "pid": 1, "tid": 2, "ts": 30},
    {"ph": "t", "cat": "f", "id": 1, "name": "go", "pid": 1, "tid": 3, "ts": 33},
    {"ph": "f", "cat": "f", "id": 1, "name": "go", "pid": 1, "tid": 2, "ts": 36, "bp": "e"},
    {"ph": "X", "name": "s", "pid": "Spans", "tid": "A", "ts": 50, "dur": 1},
    {"ph": "B", "name": "never ends", "pid": 1, "tid": 2, "ts": 60},
    {"ph": "E", "pid": 1, "tid": 9, "ts": 61},
]


@test
def chrome_events(t):
    d = t.load(t.write("c.json", CHROME))
    got = sorted((r["nameId"], r["start"], r["end"], r["flags"]) for r in d["WARPSIGHT_SLICE"])
    eq(got, sorted([("outer", 0, 10500, 0), ("in\u00e9r \"q\"", 1000, 5000, 0), ("x", 20000, 25000, 0), ("mark", 21000, None, 1),
                    ("get", 30000, 35000, 4), ("byte", 31000, None, 5), ("s", 40000, 41000, 0), ("never ends", 50000, None, 2)]))
    eq([r["argsId"] for r in d["WARPSIGHT_SLICE"] if r["nameId"].startswith("in")], ['{"k": [1, {"z": null}]}'])
    eq(sorted((r["groupId"], r["nameId"]) for r in d["WARPSIGHT_COUNTER"]), [("mem", "rss"), ("mem", "swap")])
    eq(sorted(r["value"] for r in d["WARPSIGHT_COUNTER_VALUE"]), [3.0, 12.5])
    eq([(r["start"], r["end"]) for r in d["WARPSIGHT_FLOW"]], [(20000, 23000), (23000, 26000)])
    assert "A" in [r["nameId"] for r in d["WARPSIGHT_TRACK"]] and "net" in [r["nameId"] for r in d["WARPSIGHT_TRACK"]]
    assert "Ends of slices without a beginning" in t.err


@test
def events_may_come_in_any_order(t):
    """Halves of slices too: the same slices come of a shuffled file, whose ends stand before their beginnings."""
    r = random.Random(7)
    events = []

    def nest(tid, a, b, depth):
        at = a
        while depth and b - at > 4:
            c, d = sorted(r.sample(range(at, b), 2))
            if c == d or c <= a:
                break
            events.append({"ph": "B", "name": f"s{depth}.{c}", "cat": "c", "pid": 1, "tid": tid, "ts": c, "args": {"a": c}})
            nest(tid, c, d, depth - 1)
            events.append({"ph": "E", "pid": 1, "tid": tid, "ts": d})
            at = d + 1
    for tid in 1, 2, 3:
        nest(tid, 0, 1000, 5)
    for i in range(40):
        events += [{"ph": "b", "cat": "a", "id": i % 7, "name": f"a{i}", "pid": 1, "tid": 1, "ts": 20 * i + 1}, {"ph": "e", "cat": "a", "id": i % 7, "name": f"a{i}", "pid": 1, "tid": 1, "ts": 20 * i + 9}]
        events += [{"ph": "X", "name": "x", "cat": "k", "pid": 1, "tid": 9, "ts": i, "dur": 3}, {"ph": "s", "cat": "f", "id": i, "name": "go", "pid": 1, "tid": 1, "ts": i},
                   {"ph": "f", "cat": "f", "id": i, "name": "go", "pid": 1, "tid": 2, "ts": i + 5}]
    events.append({"ph": "B", "name": "open", "pid": 1, "tid": 1, "ts": 2000})

    def rows(d):
        return {n: sorted(repr(list(r.items())) for r in d[n]) for n in ("WARPSIGHT_SLICE", "WARPSIGHT_FLOW")}
    first = rows(t.load(t.write("a.json", events)))
    assert "sorted" not in t.err, t.err
    eq(len(first["WARPSIGHT_SLICE"]), sum(e["ph"] in "BbX" for e in events))
    for seed in range(3):
        random.Random(seed).shuffle(events)
        both = t.load(t.write("b.json", CHROME), t.write("s.json", events))["WARPSIGHT_SLICE"]
        eq(t.err.count("Ends of slices without a beginning were left out"), 1, t.err)
        eq(min(r["start"] for r in both if (r["globalTid"] or 0) >> 48), 0, "where the first file begins")
        eq(rows(t.load(t.path("s.json"))), first, f"seed {seed}")
        eq(t.err.count("they were sorted"), 1, t.err)


@test
def broken_json_is_read_to_the_break(t):
    text = json.dumps(CHROME)
    whole = len(t.load(t.write("w.json", text))["WARPSIGHT_SLICE"])
    eq(len(t.load(t.write("open.json", text[:-1] + ","))["WARPSIGHT_SLICE"]), whole)
    assert "broken" not in t.err, t.err
    cut = t.load(t.write("cut.json", '{"traceEvents": ' + text[:-20]))
    assert "The trace is broken" in t.err and "16 events" in t.err, t.err
    eq(len([r for r in cut["DIAGNOSTIC_EVENT"] if "broken" in r["text"]]), 1)
    bad = text.replace('{"ph": "X", "name": "x"', '{"ph": "X" ? "name": "x"').replace('"ph": "i"', '"ph" }: "i"')
    t.load(t.write("bad.json", bad))
    assert "byte" in t.err, t.err
    packed = gzip.compress(json.dumps(kineto()).encode())
    t.load(t.write("cut.json.gz", packed[:len(packed) * 2 // 3]))
    assert "compressed data end too early" in t.err, t.err


@test
def hostile_json_ends_in_a_message(t):
    def event(args):
        return '[{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":' + args + '},{"ph":"X","name":"b","pid":1,"tid":1,"ts":5,"dur":1}]'
    t.run("import", "-f", "-o", "r", t.write("deep.json", event("[" * 100000 + "]" * 100000)), ok=False)
    t.load(t.write("deep100.json", event('{"a":' + "[" * 100 + "]" * 100 + "}")))
    numbers = t.load(t.write("num.json", '[{"ph":"X","name":"a","pid":1e400,"tid":99999999999999999999999,"ts":' + "9" * 400 +
                             '},{"ph":"X","name":"b","pid":-5,"tid":1.5,"ts":1e3,"dur":-7},{"ph":"X","name":"n","pid":1,"tid":1,"ts":NaN}]'))
    eq([r["nameId"] for r in numbers["WARPSIGHT_SLICE"]], ["b"])
    utf = t.load(t.write("utf.json", b'[{"ph":"X","name":"\xff\xfe\\ud800\\u12","pid":1,"tid":1,"ts":1,"dur":1}]'))
    eq(len(utf["WARPSIGHT_SLICE"]), 1)
    bomb = gzip.compress(b"[" + b" " * (80 << 20))
    r = t.run("import", "-o", "bomb", t.write("bomb.json.gz", bomb), ok=False)
    assert "holds no trace events" in r.err, r.err
    huge = t.write("huge.json", b'[{"ph":"X","name":"' + b"a" * (70 << 20) + b'","ts":1,"pid":1,"tid":1}]')
    assert "64 MiB" in t.run("import", "-o", "huge", huge, ok=False).err
    for name in os.listdir(t.dir):
        assert not name.endswith(".tmp"), name
    assert not os.path.exists(t.path("bomb.wsrep"))


@test
def what_is_no_trace_is_refused(t):
    for name, data, what in [("empty", b"", "is empty"), ("text", b"hello\nworld\n", "no trace that is known"), ("zeros", b"\0" * 5000, "no trace"),
                             ("db", None, "no export of Nsight Systems"), ("rep", b"QuadD" + b"\1" * 100, "nsys export --type=sqlite"), ("perf", b"PERFILE2" + b"\0" * 96, "perf script -i perf")]:
        if data is None:
            sqlite3.connect(t.path(name)).execute("CREATE TABLE a(b)").connection.commit()
        else:
            t.write(name, data)
        t.env["PATH"] = t.dir
        r = t.run("import", name, ok=False)
        assert what in r.err and r.err.count("\n") == 1, r.err
    assert "is no report" in t.run("stats", "text", ok=False).err
    assert "not a regular file" in t.run("import", "/dev/null", ok=False).err
    t.run("import", ok=False)
    r = t.run("import", t.path("missing"), ok=False)
    assert "No such file" in r.err, r.err


@test
def an_output_is_never_replaced_unasked(t):
    a = t.write("a.json", CHROME)
    t.run("import", a)
    before = open(t.path("a.wsrep"), "rb").read()
    assert "exists already" in t.run("import", a, ok=False).err
    t.run("import", "-f", t.write("bad.json", "[]"), "-o", "a", ok=False)
    eq(open(t.path("a.wsrep"), "rb").read(), before)
    eq(os.stat(t.path("a.wsrep")).st_mode & 0o777, 0o600)
    assert "report already" in t.run("import", "-o", "b", "a.wsrep", ok=False).err


@test
def nsys_reports_are_exported_by_an_installed_nsys(t):
    make_nsys(t, "real.sqlite")
    t.write("nsys", "#!/bin/sh\n[ \"$1 $2\" = 'export --type=sqlite' ] || exit 3\nwhile [ \"$1\" != --output ]; do shift; done\n"
            f"exec /bin/cp {t.path('real.sqlite')} \"$2\"\n")
    os.chmod(t.path("nsys"), 0o755)
    t.env["PATH"] = t.dir
    d = t.load(t.write("a.nsys-rep", b"QuadD" + b"\1" * 100))
    eq(len(d["CUPTI_ACTIVITY_KIND_KERNEL"]), 1)
    eq([n for n in os.listdir(t.dir) if n.startswith("warpsight-import")], [])


@test
def an_interrupted_import_leaves_nothing(t):
    """Neither the export that an nsys was making, nor its temporary folder, nor half a report; and nsys is told."""
    t.write("nsys", "#!/bin/sh\necho $$ > %s\nexec /bin/sleep 60\n" % t.path("started"))
    os.chmod(t.path("nsys"), 0o755)
    t.write("a.nsys-rep", b"QuadD" + b"\1" * 100)
    t.env["PATH"] = t.dir
    for sig in signal.SIGINT, signal.SIGTERM:
        before = set(os.listdir(t.dir))
        p = subprocess.Popen([WARPSIGHT, "import", "-o", "never.wsrep", "a.nsys-rep"], env=t.env, cwd=t.dir, stderr=subprocess.DEVNULL)
        while not os.path.exists(t.path("started")) or not open(t.path("started")).read().strip():
            time.sleep(0.01)
        pid = int(open(t.path("started")).read())
        p.send_signal(sig)
        eq(p.wait(60), -sig)
        for _ in range(500):
            try:
                if open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] == "Z":  # gone, and nobody has asked yet
                    break
                time.sleep(0.01)
            except (FileNotFoundError, ProcessLookupError):
                break
        else:
            raise AssertionError("nsys goes on")
        os.unlink(t.path("started"))
        eq(set(os.listdir(t.dir)), before)


# ---- opening directly ----

@test
def every_command_opens_traces(t):
    trace = t.write("k.json", kineto())
    first = t.run("stats", "-q", "-f", "csv", "-r", "cuda_gpu_kern_sum", trace)
    cached = os.listdir(t.path("cache/warpsight/imports"))
    eq(len(cached), 1)
    again = t.run("stats", "-q", "-f", "csv", "-r", "cuda_gpu_kern_sum", trace)
    eq(again.out, first.out)
    eq(again.err, "")
    eq(os.listdir(t.path("cache/warpsight/imports")), cached)
    file = os.path.join(t.path("cache/warpsight/imports"), cached[0])
    with open(file, "rb") as kept:  # so that its number is not dealt again
        eq(t.run("stats", "--force-export=true", "-q", "-f", "csv", "-r", "cuda_gpu_kern_sum", trace).out, first.out)
        assert os.stat(file).st_ino != os.fstat(kept.fileno()).st_ino
    assert "k.json" in t.run("info", trace).out
    t.env.update(XDG_CACHE_HOME="/dev/null/x", HOME="/dev/null")
    eq(t.run("stats", "-q", "-f", "csv", "-r", "cuda_gpu_kern_sum", trace).out, first.out)
    t.env.update(XDG_CACHE_HOME="", HOME=t.path("no-home"))
    eq(t.run("stats", "-q", "-f", "csv", "-r", "cuda_gpu_kern_sum", trace).out, first.out)
    eq([n for n in os.listdir(t.dir) if n.startswith(("warpsight-import", "no-home"))], [])


# ---- perf script ----

PERF = """# captured on    : today
my prog 10/11 [003]  100.500000:     250000 cpu-clock:pppH:
\tffffffff8104f45a native_write_msr+0xa ([kernel.kallsyms])
\t    7f12aa00 main+0x10 (/usr/bin/prog)
\t    7f12ab00 f(int, A<int> const&)+0x1f (/usr/lib/lib x.so (deleted))

my prog 10/11 [003]  100.600000:     250000 cpu-clock:pppH:
\t    7f12aa00 main+0x10 (/usr/bin/prog)
\t    7f12ab00 f(int, A<int> const&)+0x1f (/usr/lib/lib x.so (deleted))

other 20 101.000000001: sched:sched_switch: prev_comm=a ==> next_comm=b
nonsense
"""


@test
def perf_script_text(t):
    d = t.load(t.write("p.txt", PERF))
    eq([(r["start"], r["cpu"], r["cpuCycles"], r["globalTid"]) for r in d["COMPOSITE_EVENTS"]],
       [(0, 3, 250000, 10 << 24 | 11), (100000000, 3, 250000, 10 << 24 | 11)])
    eq({r["nameId"] for r in d["WARPSIGHT_SYMBOL"]}, {"native_write_msr", "main", "f(int, A<int> const&)"})
    eq({r["pathId"] for r in d["WARPSIGHT_MODULE"]}, {"[kernel.kallsyms]", "/usr/bin/prog", "/usr/lib/lib x.so (deleted)"})
    eq(len(d["WARPSIGHT_STACK"]), 2)
    eq([(r["start"], r["nameId"], r["textId"]) for r in d["FTRACE_EVENTS"]], [(500000001, "sched:sched_switch", "prev_comm=a ==> next_comm=b")])
    assert "no event of perf script" in t.err


@test
def hostile_json_ends_well(t):
    """Each is read, or refused in one clear sentence, in bounded memory."""
    event = {"ph": "X", "name": "n", "pid": 1, "tid": 1, "ts": "10.5", "dur": 5}
    good = json.dumps({"traceEvents": [event]}).encode()

    def slices(name, data):
        return [(r["start"], r["end"] - r["start"]) for r in t.load(t.write(name, data)).get("WARPSIGHT_SLICE", [])]

    eq(slices("bom.json", b"\xef\xbb\xbf" + good.replace(b", ", b",\r\n")), [(0, 5000)])
    eq(slices("twice.json", good + good), [(0, 5000)])
    assert "after the end of the trace" in t.err, t.err
    eq(slices("padded.json", good + b"\0" * 99 + b" \n"), [(0, 5000)])
    assert "left out" not in t.err, t.err
    eq(slices("dur.json", good.replace(b"5}", b'"x"}')), [(0, 0)])
    assert "no number" in t.err, t.err
    eq(slices("keys.json", good.replace(b'"ph"', b'"ph": "i", "ph"').replace(b"]}", b'], "traceEvents": []}')), [(0, 5000)])
    eq(slices("numbers.json", b'[{"ph":"X","ts":1e999,"dur":1},{"ph":"X","ts":NaN},{"ph":"X","ts":' + b"9" * 5000 + b'},{"ph":"X","ts":1,"dur":1e300,"pid":1e400}]'), [(0, 0)])
    assert "(3 times)" in t.err, t.err
    two = gzip.compress(good[:20]) + gzip.compress(good[20:])
    eq(slices("members.json.gz", two), [(0, 5000)])
    for name, data, words in (("deep.json", b"[" * 100000, "nested too deeply"), ("deep2.json", b'{"a":' * 100000, "nested too deeply"), ("none.json", b'{"a":1}', "no trace events"),
                              ("object.json", b'{"traceEvents":{"a":1}}', "no trace events"), ("cut.json.gz", gzip.compress(b"[" + random.Random(1).randbytes(9000).hex().encode())[:2000], "too early")):
        r = t.run("import", "-f", "-o", "out.wsrep", t.write(name, data), ok=False)
        assert r.returncode == 1 and words in r.err, (name, r.err)
    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed_up = bomb.compress(b'[{"ph":"X","ts":1,"name":"') + b"".join(bomb.compress(b"a" * (1 << 20)) for _ in range(80)) + bomb.flush()
    r = t.run("import", "-f", "-o", "out.wsrep", t.write("bomb.json.gz", packed_up), ok=False)
    assert r.returncode == 1 and "more than 64 MiB" in r.err, r.err


@test
def perf_script_spans_on_cores(t):
    """The kernel's words, those of perf's plug-ins, and --show-switch-events say the same."""
    kernel = """\
swapper     0 [001] 10.000000: sched:sched_waking: comm=my prog pid=11 prio=120 target_cpu=001
swapper     0 [001] 10.000010: sched:sched_wakeup: comm=my prog pid=11 prio=120 target_cpu=001
swapper     0 [001] 10.000100: sched:sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=my prog next_pid=11 next_prio=120
my prog    11 [001] 10.000300: sched:sched_switch: prev_comm=my prog prev_pid=11 prev_prio=120 prev_state=D|K ==> next_comm=other next_pid=22 next_prio=120
other      22 [001] 10.000600: sched:sched_switch: prev_comm=other prev_pid=22 prev_prio=120 prev_state=R+ ==> next_comm=last one next_pid=33 next_prio=120
"""
    plugin = """\
swapper     0 [001] 10.000000: sched:sched_waking: my prog:11 [120] CPU:001
swapper     0 [001] 10.000100: sched:sched_switch: swapper/1:0 [120] R ==> my prog:11 [120]
my prog    11 [001] 10.000300: sched:sched_switch: my prog:11 [120] D ==> other:22 [120]
other      22 [001] 10.000600: sched:sched_switch: other:22 [120] R+ ==> last one:33 [120]
"""
    want = [(100000, 300000, 1, 0, 3, 11), (300000, 600000, 1, None, 1, 22), (600000, None, 1, None, 0, 33)]
    for name, text in (("kernel", kernel), ("plugin", plugin)):
        d = t.load(t.write(name + ".txt", text))
        eq([(r["start"], r["end"], r["cpu"], r["wokenTime"], r["endState"], r["globalTid"] & 0xffffff) for r in d["WARPSIGHT_SCHED"]], want, name)
        assert {"my prog", "other", "last one"} <= {r["nameId"] for r in d["ThreadNames"]}, name
    d = t.load(t.write("events.txt", """\
 prog 10/11 [002] 5.000001: PERF_RECORD_SWITCH_CPU_WIDE IN           prev pid/tid:     0/0
 prog 10/11 [002] 5.000002:     1000 cycles:
	    401136 main+0x10 (/bin/prog)
 prog 10/11 [002] 5.000004: PERF_RECORD_SWITCH_CPU_WIDE OUT preempt  next pid/tid:    20/20
 prog 10/11 [002] 5.000005: PERF_RECORD_MMAP2 10/11: [0x400000(0x1000) @ 0 08:01 5 6]: r-xp /bin/prog
"""))
    eq([(r["start"], r["end"], r["cpu"], r["endState"]) for r in d["WARPSIGHT_SCHED"]], [(0, 3000, 2, 1)])
    eq(len(d["COMPOSITE_EVENTS"]), 1)
    assert "PERF_RECORD_" in t.err, t.err


@test
def perf_script_of_all_fields(t):
    """What -F leaves out or adds: no thread, no core, branches, source lines, no period, no stack but a place."""
    cases = {
        "pid and tid": (" 10/11 [000] 100.5:  7 cycles:u: \n\t  401136 main+0x10 (/bin/prog)\n\n", (0, 7, 10 << 24 | 11)),
        "tid alone": ("  11 100.5:     401136 main (/bin/prog)\n", (None, 1, 11 << 24 | 11)),
        "comm and time": ("a prog 100.5: cycles: \n\t401136 main (/bin/prog)\n", (None, 1, 0)),
        "comm and core": ("a prog [004] 100.5: cycles: \n\t401136 main (/bin/prog)\n", (4, 1, 0)),
        "time alone": ("100.5: cycles: \n\t401136 main (/bin/prog)\n", (None, 1, 0)),
        "branches": ("prog 11 [001] 100.5: 9 cycles: \n\t401136 main (/bin/prog)\n\t 0x401136/0x401150/P/-/-/0  0x1/0x2/M/-/-/3 \n\t401180 start (/bin/prog)\n",
                     (1, 9, 11 << 24 | 11)),
        "source lines": ("prog 11 [001] 100.5: 9 cycles: \n\t401136 main+0x3 (/bin/prog)\n  main.c:12\n\t401180 start (/bin/prog)\n  main.c:99\n", (1, 9, 11 << 24 | 11)),
    }
    for name, (text, (cpu, weight, tid)) in cases.items():
        d = t.load(t.write("p.txt", text + "x 1 101.0: cycles: \n\t1234 g (y)\n"))
        first = d["COMPOSITE_EVENTS"][0]
        eq((first["cpu"], first["cpuCycles"]), (cpu, weight), name)
        if tid:
            eq(first["globalTid"], tid, name)
        chain = [r["symbol"] for r in d["SAMPLING_CALLCHAINS"] if r["id"] == first["id"]]
        eq(chain, ["main", "start"] if "start" in text else ["main"], name)


# ---- Perfetto ----

def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def msg(**fields):
    """f11=b"..." is field 11, bytes; numbers are varints, floats doubles, lists repeated."""
    out = b""
    for key, values in fields.items():
        number = int(key[1:].split("_")[0])
        for v in values if isinstance(values, list) else [values]:
            if isinstance(v, float):
                out += varint(number << 3 | 1) + struct.pack("<d", v)
            elif isinstance(v, int):
                out += varint(number << 3) + varint(v)
            else:
                v = v.encode() if isinstance(v, str) else v
                out += varint(number << 3 | 2) + varint(len(v)) + v
    return out


def perfetto(*packets):
    return b"".join(msg(f1=p) for p in packets)


@test
def perfetto_tracks(t):
    data = perfetto(
        msg(f10=1, f13=1, f6=msg(f1=[msg(f1=6, f2=1000), msg(f1=1, f2=1700000000000000000)])),
        msg(f10=1, f60=msg(f1=5, f3=msg(f1=42, f6="prog"))),
        msg(f10=1, f60=msg(f1=6, f5=5, f4=msg(f1=42, f2=43, f5="worker"))),
        msg(f10=1, f60=msg(f1=7, f5=5, f2="queue", f8=msg(f3=3, f4=1024))),
        msg(f10=1, f60=msg(f1=8, f5=5, f2="gpu")),
        msg(f10=1, f8=2000, f12=msg(f1=msg(f1=1, f2="cat"), f2=msg(f1=1, f2="named"), f3=msg(f1=1, f2="size")),
            f11=msg(f9=1, f11=6, f3=1, f10=1, f4=[msg(f1=1, f4=-3), msg(f10="who", f6="me \"x\"")], f47=[])),
        msg(f10=1, f8=3000, f11=msg(f9=2, f11=6)),
        msg(f10=1, f8=2500, f11=msg(f9=3, f11=8, f23="moment")),
        msg(f10=1, f8=2600, f11=msg(f9=4, f11=7, f30=2)),
        msg(f10=1, f8=2700, f11=msg(f9=1, f11=8, f23="open", f36=9)),
        msg(f10=1, f8=2800, f11=msg(f9=3, f11=6, f23="target", f42=9)),
        # another sequence with a clock of differences
        msg(f10=2, f13=1, f6=msg(f1=[msg(f1=6, f2=10000), msg(f1=64, f2=50, f3=1, f4=100)])),
        msg(f10=2, f59=msg(f58=64, f11=msg(f11=8))),
        msg(f10=2, f8=3, f11=msg(f9=3, f23="delta")),
        msg(f10=2, f8=2, f11=msg(f9=3, f23="delta2")),
        msg(f1=msg(f1=2, f2=[msg(f1=4000, f2=1, f4=msg(f2=1, f4=1, f5="b", f6=43)), msg(f1=4500, f2=1, f4=msg(f2=43, f4=0, f6=0))])),
    )
    d = t.load(t.write("a.pftrace", data))
    zero = 2000
    got = sorted((r["nameId"], r["start"], r["end"], r["flags"]) for r in d["WARPSIGHT_SLICE"])
    eq(got, sorted([("named", 0, 1000, 0), ("moment", 500, None, 1), ("open", 700, None, 2), ("target", 800, None, 1),
                    ("delta", 10300 - zero, None, 1), ("delta2", 10500 - zero, None, 1)]))
    named, = [r for r in d["WARPSIGHT_SLICE"] if r["nameId"] == "named"]
    eq((named["categoryId"], json.loads(named["argsId"]), named["globalTid"]), ("cat", {"size": -3, "who": 'me "x"'}, 42 << 24 | 43))
    eq([(r["value"]) for r in d["WARPSIGHT_COUNTER_VALUE"]], [2048.0])
    eq([(r["nameId"], r["unitId"]) for r in d["WARPSIGHT_COUNTER"]], [("queue", "B")])
    eq([(r["start"], r["end"]) for r in d["WARPSIGHT_FLOW"]], [(700, 800)])
    eq([(r["start"], r["end"], r["cpu"]) for r in d["WARPSIGHT_SCHED"]], [(2000, 2500, 2)])
    eq(d["TARGET_INFO_SESSION_START_TIME"][0]["utcEpochNs"], 1700000000000001000)
    t.load(t.write("cut.pftrace", data[:-30]))
    assert "middle of a packet" in t.err, t.err


def packed(*numbers):
    return b"".join(varint(n) for n in numbers)


@test
def perfetto_switches_in_the_compact_form(t):
    compact = msg(f5=["swapper", "one", "two"], f1=packed(1000, 500, 250), f2=packed(1, 2, 0), f3=packed(11, 22, 0), f4=packed(1, 1, 1),
                  f6=packed(1, 2, 0), f7=packed(900, 550), f8=packed(11, 22))
    d = t.load(t.write("a.pftrace", perfetto(msg(f1=msg(f1=3, f4=compact)), msg(f1=msg(f1=3, f2=msg(f1=2000, f2=0, f4=msg(f4=1, f5="one", f6=11)))))))
    got = [(r["start"], r["end"], r["cpu"], r["wokenTime"], r["endState"], r["globalTid"] & 0xffffff) for r in d["WARPSIGHT_SCHED"]]
    zero = 1000
    eq(got, [(0, 500, 3, 900 - zero, 3, 11), (500, 750, 3, 450, 1, 22), (1000, None, 3, None, 0, 11)])
    eq(sorted(r["nameId"] for r in d["ThreadNames"] if r["nameId"] in ("one", "two")), ["one", "two"])
    t.load(t.write("b.pftrace", perfetto(msg(f1=msg(f1=3, f4=msg(f1=packed(1000, 500), f3=packed(1, 2), f2=packed(1)))))))
    assert "compact list of switches is broken" in t.err, t.err


@test
def perfetto_compressed_packets(t):
    inner = perfetto(msg(f10=1, f8=10, f11=msg(f9=1, f11=5, f23="inside")), msg(f10=1, f8=30, f11=msg(f9=2, f11=5)))
    first = perfetto(msg(f10=1, f13=1, f60=msg(f1=5, f2="row")))
    d = t.load(t.write("a.pftrace", first + perfetto(msg(f50=zlib.compress(inner)))))
    eq([(r["nameId"], r["end"] - r["start"]) for r in d["WARPSIGHT_SLICE"]], [("inside", 20)])
    t.load(t.write("b.pftrace", first + perfetto(msg(f50=zlib.compress(inner)[:-12])) + inner))
    assert "Compressed packets are damaged" in t.err, t.err
    bomb = zlib.compress(inner + b"\0" * (80 << 20), 9)
    d = t.load(t.write("c.pftrace", first + perfetto(msg(f50=bomb))))
    assert "more than 64 MiB" in t.err, t.err
    nested = zlib.compress(perfetto(msg(f50=zlib.compress(inner))))
    t.load(t.write("d.pftrace", first + perfetto(msg(f50=nested)) + inner))


@test
def perfetto_state_clocks_and_samples(t):
    d = t.load(t.write("a.pftrace", perfetto(
        # monotonic is 500 behind; a clock of the sequence in microseconds, not incremental
        msg(f10=1, f13=1, f6=msg(f1=[msg(f1=6, f2=5000), msg(f1=3, f2=4500), msg(f1=65, f2=1, f4=1000)])),
        msg(f10=1, f60=msg(f1=5, f3=msg(f1=42, f6="prog"))), msg(f10=1, f60=msg(f1=6, f5=5, f4=msg(f1=42, f2=43, f5="worker"))),
        msg(f10=1, f60=msg(f1=7, f5=5, f2="depth", f8=msg(f6="items"))),
        msg(f10=1, f8=4600, f58=3, f11=msg(f9=3, f11=6, f23="by the monotonic clock")),
        msg(f10=1, f8=2, f58=65, f11=msg(f9=3, f11=6, f23="by its own")),
        msg(f10=1, f8=5200, f12=msg(f2=msg(f1=1, f2="named")), f13=2, f11=msg(f9=1, f11=6, f10=1, f31=7, f12=12)),
        msg(f10=1, f42=1, f8=5300, f13=2, f11=msg(f9=3, f11=6, f10=1)),  # its names are lost
        msg(f10=1, f8=5400, f11=msg(f9=2, f11=6)),
        msg(f10=1, f13=3, f8=5450, f11=msg(f9=3, f11=6, f23="after")),
        # Chrome's asynchronous events, and a sample: frames before what they refer to
        msg(f10=1, f8=5500, f11=msg(f22="net", f23="request", f11=5, f6=msg(f2=ord("b"), f6=77))),
        msg(f10=1, f8=5700, f11=msg(f22="net", f11=5, f6=msg(f2=ord("e"), f6=77))),
        msg(f10=1, f8=5800, f12=msg(f7=msg(f1=1, f2=[2, 1]), f6=[msg(f1=1, f2=1, f3=1), msg(f1=2, f2=2, f3=1)], f19=msg(f1=1, f7=[1, 2]),
                                    f17=[msg(f1=1, f2="usr"), msg(f1=2, f2="prog")], f5=[msg(f1=1, f2="leaf"), msg(f1=2, f2="main")]),
            f66=msg(f1=2, f2=42, f3=43, f4=1, f5=2)))))
    names = [(r["nameId"], r["start"], r["end"]) for r in d["WARPSIGHT_SLICE"]]
    zero = 5100
    eq(sorted(names, key=str), sorted([("by the monotonic clock", 0, None), ("by its own", 6000 - zero, None), ("named", 100, 300), ("after", 350, None),
                                       ("request", 400, 600)], key=str))
    eq([(r["start"], r["value"]) for r in d["WARPSIGHT_COUNTER_VALUE"]], [(100, 12.0)])
    eq([(r["nameId"], r["unitId"]) for r in d["WARPSIGHT_COUNTER"]], [("depth", "items")])
    assert "which were dropped while recording" in t.err, t.err
    eq([(r["start"], r["cpu"], r["globalTid"]) for r in d["COMPOSITE_EVENTS"]], [(700, 2, 42 << 24 | 43)])
    eq([(r["stackDepth"], r["symbol"], r["module"]) for r in d["SAMPLING_CALLCHAINS"]], [(0, "leaf", "usr/prog"), (1, "main", "usr/prog")])


# ---- Nsight Systems ----

def make_nsys(t, name, version=3, extra=()):
    db = sqlite3.connect(t.path(name))
    x = db.execute
    x("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    for i, s in enumerate(["gemm(int)", "gemm", "cudaLaunchKernel_v7000", "main", "MPI_Send", "registered"], 1):
        x("INSERT INTO StringIds VALUES (?,?)", (i, s))
    gpid, gtid = 1 << 48 | 500 << 24, 1 << 48 | 500 << 24 | 501
    new = ", graphNodeId INTEGER, sharedMemoryExecuted INTEGER" if version > 2 else ""
    x("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, "
      "correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER, registersPerThread INTEGER, gridX INTEGER, "
      "gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER" + new + ")")
    x("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5000, 6000, 0, 1, 7, 9, ?, 1, 2, 16, 1, 2, 3, 32, 1, 1" + (", NULL, 77)" if new else ")"), (gpid,))
    x("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, correlationId INTEGER, "
      "nameId INTEGER, returnValue INTEGER, callchainId INTEGER)")
    x("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (4000, 4500, 0, ?, 9, 3, 0, 1)", (gtid,))
    x("CREATE TABLE CUDA_CALLCHAINS (id INTEGER, symbol INTEGER, module INTEGER, originalIP INTEGER, stackDepth INTEGER)")
    x("INSERT INTO CUDA_CALLCHAINS VALUES (1, 2, 4, 16, 0), (1, 4, 4, 32, 1)")
    x("CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, rangeId INTEGER, category INTEGER, color INTEGER, text TEXT, "
      "globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER, int32Value INTEGER, doubleValue REAL)")
    x("INSERT INTO NVTX_EVENTS VALUES (-50, 7000, 59, NULL, NULL, 255, 'range', ?, NULL, NULL, 0, NULL, -2, NULL)", (gtid,))
    x("INSERT INTO NVTX_EVENTS VALUES (100, NULL, 34, NULL, 3, NULL, NULL, ?, NULL, 6, 0, NULL, NULL, 2.5)", (gtid,))
    x("CREATE TABLE ThreadNames (nameId INTEGER, priority INTEGER, globalTid INTEGER)")
    x("INSERT INTO ThreadNames VALUES (4, 10, ?)", (gtid,))
    x("CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT)")
    x("INSERT INTO PROCESSES VALUES (?, 500, 'prog')", (gpid,))
    if version > 2:
        x("CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT)")
        x("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1600000000000000000, '', '')")
        x("CREATE TABLE ANALYSIS_DETAILS (globalVid INTEGER, duration INTEGER, startTime INTEGER, stopTime INTEGER)")
        x("INSERT INTO ANALYSIS_DETAILS VALUES (0, 9000, 0, 9000)")
    for sql in extra:
        x(sql)
    db.commit()
    db.close()
    return t.path(name)


@test
def nsys_of_schema_2_and_3(t):
    for version in 2, 3:
        os.path.exists(t.path("n.sqlite")) and os.unlink(t.path("n.sqlite"))
        d = t.load(make_nsys(t, "n.sqlite", version))
        k, = d["CUPTI_ACTIVITY_KIND_KERNEL"]
        eq((k["start"], k["end"], k["demangledName"], k["shortName"], k["gridZ"], k["globalPid"]), (5000, 6000, "gemm(int)", "gemm", 3, 1 << 48 | 500 << 24))
        eq(k["sharedMemoryExecuted"], 77 if version > 2 else None)
        r, m = d["NVTX_EVENTS"]
        eq((r["start"], r["end"], r["text"], r["color"], r["int32Value"]), (-50, 7000, "range", 255, -2))
        eq((m["start"], m["textId"], m["doubleValue"], m["category"], m["text"]), (100, "registered", 2.5, 3, None))
        eq(len(d["WARPSIGHT_STACK"]), 2)
        eq(d["ThreadNames"][0]["nameId"], "main")
        out = t.run("stats", "-q", "-f", "csv", "-r", "cuda_gpu_kern_sum", "n.sqlite").out
        assert "1000" in out and "gemm" in out, out


@test
def nothing_of_nsys_is_lost_silently(t):
    gtid = 1 << 48 | 500 << 24 | 501
    d = t.load(make_nsys(t, "n.sqlite", 3, [
        "CREATE TABLE MPI_P2P_EVENTS (\n  start INTEGER, -- time\n  end INTEGER,\n  globalTid INTEGER,\n  textId INTEGER, -- REFERENCES StringIds(id)\n  tag INTEGER)",
        f"INSERT INTO MPI_P2P_EVENTS VALUES (10, 20, {gtid}, 5, 99)",
        "CREATE TABLE GPU_METRICS (timestamp INTEGER, typeId INTEGER, metricId INTEGER, value INTEGER)",
        "INSERT INTO GPU_METRICS VALUES (1, 256, 3, 80), (2, 256, 3, 90)",
        "CREATE TABLE TARGET_INFO_GPU_METRICS (typeId INTEGER, sourceId INTEGER, typeName TEXT, metricId INTEGER, metricName TEXT)",
        "INSERT INTO TARGET_INFO_GPU_METRICS VALUES (256, 1, 'GPU 0', 3, 'SMs Active [Throughput %]')",
        "CREATE TABLE SOMETHING_NEW (\n  a INTEGER, -- REFERENCES StringIds(id)\n  b TEXT)",
        "INSERT INTO SOMETHING_NEW VALUES (4, 'x')",
        "CREATE TABLE SCHED_EVENTS (start INTEGER, cpu INTEGER, isSchedIn INTEGER, globalTid INTEGER)",
        f"INSERT INTO SCHED_EVENTS VALUES (100, 2, 1, {gtid}), (150, 2, 0, {gtid})",
        "CREATE VIEW ENDLESS AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT x AS start FROM c",
    ]))
    s, = d["WARPSIGHT_SLICE"]
    eq((s["nameId"], s["categoryId"], s["start"], s["end"], s["argsId"]), ("MPI_Send", "MPI_P2P_EVENTS", 10, 20, '{"tag":99}'))
    eq([(r["nameId"], r["unitId"]) for r in d["WARPSIGHT_COUNTER"]], [("SMs Active [Throughput %]", "%")])
    eq([(r["start"], r["value"]) for r in d["WARPSIGHT_COUNTER_VALUE"]], [(1, 80.0), (2, 90.0)])
    f, = (r for r in d["WARPSIGHT_FOREIGN"] if r["tableNameId"] != "TARGET_INFO_GPU_METRICS")
    eq((f["tableNameId"], f["rowId"]), ("SOMETHING_NEW", '{"a":"main","b":"x"}'))
    eq([(r["start"], r["end"], r["cpu"]) for r in d["WARPSIGHT_SCHED"]], [(100, 150, 2)])
    assert "SOMETHING_NEW has no table here" in t.err, t.err
    # Columns that are not there, and those that nothing takes.
    d = t.load(make_nsys(t, "m.sqlite", 3, [
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN coresUsed INTEGER", "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN emptyOne TEXT", "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET coresUsed = 3, emptyOne = '[]'",
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN gridX", "ALTER TABLE NVTX_EVENTS DROP COLUMN eventType",
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (end INTEGER, bytes INTEGER)", "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (1, 2)"]))
    eq((len(d["CUPTI_ACTIVITY_KIND_KERNEL"]), len(d.get("CUPTI_ACTIVITY_KIND_MEMSET", []))), (1, 0))
    for said in ("CUPTI_ACTIVITY_KIND_KERNEL has no column gridX, ", "CUPTI_ACTIVITY_KIND_KERNEL: what stands in coresUsed has no place here and was left out", "NVTX_EVENTS has no column eventType.",
                 "CUPTI_ACTIVITY_KIND_MEMSET has no column start, ", "CUPTI_ACTIVITY_KIND_MEMSET was left out: nothing in it has a time"):
        assert said in t.err, (said, t.err)
    assert "emptyOne" not in t.err, t.err


@test
def nsys_views_are_tables_too(t):
    plain = t.load(make_nsys(t, "a.sqlite"))
    viewed = t.load(make_nsys(t, "b.sqlite", 3, [
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO every_kernel",
        "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT * FROM every_kernel WHERE end > start",
        "ALTER TABLE StringIds RENAME TO texts", "CREATE VIEW StringIds AS SELECT * FROM texts"]))
    eq(viewed["CUPTI_ACTIVITY_KIND_KERNEL"], plain["CUPTI_ACTIVITY_KIND_KERNEL"])
    t.load(make_nsys(t, "c.sqlite", 3, [
        "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL",
        "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS start, x + 1 AS end FROM c"]))
    assert "CUPTI_ACTIVITY_KIND_KERNEL was not read to its end: it has more rows than a file of this size" in t.err, t.err


@test
def nsys_facts_streams_and_contexts(t):
    gpid = 1 << 48 | 500 << 24
    d = t.load(make_nsys(t, "n.sqlite", 3, [
        "CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)",
        "INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE', 'KEY=hush'), ('COMMAND', 'app'), ('LONG', '" + "x" * 3000 + "')",
        "CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INTEGER, devStateName TEXT, name TEXT, nameEnum INTEGER, value TEXT)",
        "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (0, 'Local', 'CpuCores', 1, '12'), (0, 'Local', 'DeviceEnvironment', 2, 'KEY=hush'), "
        "(0, 'Local', 'CudaDriverVersion', 3, '12080')",
        "CREATE TABLE TARGET_INFO_CUDA_STREAM (streamId INTEGER, hwId INTEGER, vmId INTEGER, processId INTEGER, contextId INTEGER, priority INTEGER, flag INTEGER)",
        "INSERT INTO TARGET_INFO_CUDA_STREAM VALUES (7, 0, 1, 500, 1, 0, 2)",
        "INSERT INTO StringIds VALUES (50, '/tmp/pid_500_stdout.log'), (51, 'hello'), (52, '/tmp/pid_600_stderr.log'), (53, 'bad'), (54, 'x.ini')",
        "CREATE TABLE ProcessStreams (globalPid INTEGER, filenameId INTEGER, contentId INTEGER)",
        "INSERT INTO ProcessStreams VALUES (%d, 50, 51), (%d, 52, 53), (%d, 54, 51)" % (gpid, 1 << 48 | 600 << 24, 1 << 48)]))
    eq(sorted(r["pid"] for r in d["PROCESSES"]), [500, 600])
    eq([(r["processId"], r["streamId"]) for r in d["TARGET_INFO_CUDA_STREAM"]], [(500, 7)])
    eq([(r["globalPid"], r["contentId"]) for r in d["ProcessStreams"]], [(gpid, "hello"), (1 << 48 | 600 << 24, "bad")])
    eq([table for table, rows in d.items() if "hush" in repr(rows)], [])
    eq({r["name"]: r["value"] for r in d["TARGET_INFO_SYSTEM_ENV"]}, {"CpuCores": "12", "CudaDriverVersion": "12080"})
    for word in ("PROCESS_0:ENVIRONMENT_VARIABLE was left out: environment", "DeviceEnvironment was left out", "LONG was left out: it is longer"):
        assert word in t.err, t.err


@test
def the_least_of_schema_2_is_enough(t):
    """As files of 2019: no processes, no names of threads, nothing about the machine, texts as numbers, columns in another order."""
    db = sqlite3.connect(t.path("old.sqlite"))
    gtid = 500 << 24 | 501
    for sql in ("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)",
                "INSERT INTO StringIds VALUES (10, 'void gemm<float>(int)'), (11, 'gemm'), (12, 'cudaLaunchKernel_v7000'), (13, 'step'), (14, 'read'), (15, 'cudaMemcpyAsync_v3020')",
                "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (demangledName INTEGER, shortName INTEGER, start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, "
                "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER, "
                "staticSharedMemory INTEGER, dynamicSharedMemory INTEGER)",
                f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10, 11, 1000, 3000, 0, 1, 7, 5, {500 << 24}, 1, 1, 1, 64, 1, 1, 0, 0)",
                "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, "
                "globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER)",
                f"INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (3000, 3500, 0, 1, 7, 6, {500 << 24}, 2000000, 1, 0, 2)",
                "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER)",
                f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (500, 700, 0, {gtid}, 5, 12, 0), (710, 900, 0, {gtid}, 6, 15, 0)",
                "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text INTEGER, globalTid INTEGER)",
                f"INSERT INTO NVTX_EVENTS VALUES (400, 950, 59, 13, {gtid})",
                "CREATE TABLE OSRT_API (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER, nestingLevel INTEGER)",
                f"INSERT INTO OSRT_API VALUES (100, 150, 27, {gtid}, 1, 14, 0, 0)"):
        db.execute(sql)
    db.commit()
    db.close()

    def rows(report):
        return [line.split(",") for line in t.run("stats", "-q", "-f", "csv", "-r", report, "old.sqlite").out.strip().splitlines()[1:]]
    eq([r[1:3] + r[8:] for r in rows("cuda_gpu_kern_sum")], [["2000", "1", "void gemm<float>(int)"]])
    eq([r[:2] + r[7:] for r in rows("cuda_gpu_mem_size_sum")], [["2.000", "1", "[CUDA memcpy Host-to-Device]"]])
    eq(rows("cuda_api_trace"), [["500", "200", "cudaLaunchKernel", "0", "5", "500", "501", "", ""], ["710", "190", "cudaMemcpyAsync", "0", "6", "500", "501", "", ""]])
    eq([r[:4] for r in rows("nvtx_gpu_proj_sum")], [["step", "PushPop", "2500", "550"]])
    eq([r[1:3] + r[8:] for r in rows("osrt_sum")], [["50", "1", "read"]])
    eq([r[12] for r in rows("nvtx_kern_sum")], ["void gemm<float>(int)"])
    assert t.run("stats", "-q", "old.sqlite").out.count(" ** ") == 6


FOREIGN = {
    "MPI_RANKS": ("globalTid rank", [(None, 3)]),
    "MPI_P2P_EVENTS": ("start end globalTid textId@ commHandle tag remoteRank size", [(10, 20, "T", 5, -1, 99, 4, 1 << 62), (30, None, "T", 5, None, 99, 4, 7)]),
    "OPENMP_EVENT_KIND_TASK": ("start end eventClass globalTid correlationId nameId@ eventKind kindId@", [(-40, 20, 78, "T", None, 5, 2, 4), (50, 60, 78, "T", None, None, 2, 99)]),
    "CUPTI_ACTIVITY_KIND_OPENACC_DATA": ("start end nameId@ globalTid srcFileId@ funcId@ share:REAL note:TEXT",
                                         [(10, 20, 5, "T", 2, 999, 0.1, 'say "\u00e9"\n'), (11, 20, 5, "U", 4, None, None, "")]),
    "GENERIC_EVENTS": ("rawTimestamp timestamp typeId data:TEXT", [(5, 70, 1, '{"a": [1, "b"]}'), (6, None, 1, "x")]),
    "GPU_METRICS": ("timestamp typeId metricId value", [(100, 256, 3, 80), (200, 256, 3, 90), (100, 256, 4, 1), (100, 1 << 40 | 256, 3, 7), (150, 512, 9, 2)]),
    "TARGET_INFO_GPU_METRICS": ("typeId sourceId typeName:TEXT metricId metricName:TEXT",
                                [(256, 1, "GPU 0", 3, "SMs Active"), (256, 1, "GPU 0", 4, "DRAM [%]"), (1 << 40 | 256, 1, "GPU 0", 3, "SMs Active")]),
    "NET_NIC_METRIC": ("start end globalId metricsListId metricsIdx value", [(0, 1000, 9, 1, 0, 123456789), (1000, 2000, 9, 1, 1, 5)]),
    "NET_IB_SWITCH_METRIC": ("start end globalId metricsListId metricsIdx value", [(500, 600, 88002, 2, 0, 3)]),
    "TARGET_INFO_NETWORK_METRICS": ("metricsListId metricsIdx name:TEXT description:TEXT unit:TEXT", [(1, 0, "sent", "", "B"), (1, 1, "waits", "", "ticks")]),
    "TARGET_INFO_NIC_INFO": ("GUID stateName:TEXT nicId name:TEXT deviceId", [(77001, "Local", 3, "mlx5_0", 1)]),
    "NIC_ID_MAP": ("nicId globalId", [(3, 9)]),
    "OF_NO_KNOWN_TOOL": ("a b:TEXT start", [(4, "x", 80), (5, None, 90)]),
}


def foreign(gtid):
    """Statements that make them, and what their rows are with texts for numbers of StringIds."""
    texts = dict(enumerate(["gemm(int)", "gemm", "cudaLaunchKernel_v7000", "main", "MPI_Send", "registered"], 1))
    sql, want = [], {}
    for table, (columns, rows) in FOREIGN.items():
        columns = columns.split()
        sql.append(f"CREATE TABLE {table} (\n" + ",\n".join(
            c.strip("@").split(":")[0] + " " + (c.split(":") + ["INTEGER"])[1] + (" REFERENCES StringIds(id)" if "@" in c else "") for c in columns) + "\n)")
        rows = [[{"T": gtid, "U": gtid + (3 << 24) + 1}.get(v, v) for v in row] for row in rows]
        sql += [f"INSERT INTO {table} VALUES ({','.join('NULL' if v is None else repr(v) if not isinstance(v, str) else chr(39) + v + chr(39) for v in row)})" for row in rows]
        want[table] = sorted(repr([texts.get(v, v) if "@" in c else v for c, v in zip(columns, row)]) for row in rows)
    return sql, want


def raw(path):
    """All rows as they stand, but of what says when and from where the file was made and what was imported."""
    db = sqlite3.connect(path)
    names = [n for n, in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'") if n not in ("META_DATA_EXPORT", "DIAGNOSTIC_EVENT")]
    return {n: sorted(map(repr, db.execute(f"SELECT * FROM {n}"))) for n in names}


@test
def export_import_export_gives_the_same_rows(t):
    gpid = 1 << 48 | 500 << 24
    streams = ["CREATE TABLE ProcessStreams (globalPid INTEGER, filenameId INTEGER, contentId INTEGER)", "INSERT INTO StringIds VALUES (50, '/tmp/pid_500_stdout.log'), (51, 'hello'), (52, 'pid_500_stderr.log'), (53, '')",
               f"INSERT INTO ProcessStreams VALUES ({gpid}, 50, 51), ({gpid}, 52, 53)"]
    for name, make in [("k", lambda: t.write("k.json", kineto(rank=0))), ("n", lambda: make_nsys(t, "n.sqlite", 3, streams)),
                       ("f", lambda: make_nsys(t, "f.sqlite", 3, foreign(gpid + 501)[0])),
                       ("c", lambda: t.write("c.json", CHROME)), ("p", lambda: t.write("p.txt", PERF))]:
        first = t.load(make())
        shutil.copy(t.path("r.sqlite"), t.path("first.sqlite"))
        second = t.load(t.path("first.sqlite"))
        eq(set(second) - {"DIAGNOSTIC_EVENT"}, set(first) - {"DIAGNOSTIC_EVENT"}, f"{name} tables")
        for table, rows in first.items():
            if table not in ("META_DATA_EXPORT", "StringIds", "DIAGNOSTIC_EVENT"):
                eq(sorted(map(repr, second[table])), sorted(map(repr, rows)), f"{name} {table}")
        a, b = raw(t.path("first.sqlite")), raw(t.path("r.sqlite"))
        made = {i.split(",")[0] for i in set(a["StringIds"]) ^ set(b["StringIds"])}
        eq([n for n in a if n != "StringIds" and a[n] != b[n]], [], f"{name}: numbers of texts, beside {made}")


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
            eq(sorted(repr([r[c] for c in columns]) for r in got[table]), rows, f"{table} of {path}")
    eq(t.run("query", "-f", "csv", "SELECT s.value, p.size FROM MPI_P2P_EVENTS p JOIN StringIds s ON s.id = p.textId ORDER BY p.start", "f.sqlite").out,
       f"value,size\nMPI_Send,{1 << 62}\nMPI_Send,7\n")
    t.run("export", "-q", "-f", "--ts-shift=1000", "--times=1005/1045", "-o", "s.sqlite", "f.sqlite")
    got = read(t.path("s.sqlite"))
    eq([(r["start"], r["end"]) for r in got["MPI_P2P_EVENTS"]], [(1010, 1020), (1030, None)])
    eq([r["timestamp"] for r in got.get("GPU_METRICS", [])], [])
    # What an import says of a table never stands in for one of the report's own.
    t.load(make_nsys(t, "evil.sqlite", 3, ["CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)", "INSERT INTO META_DATA_CAPTURE VALUES ('table.OSRT_API', 'S start/s'), "
                                           "('table.x; DROP TABLE y', 'F a'), ('table.OK', 'F a a'), ('table.DUP', 'F a\"b'), ('counter.7', 'GPU_METRICS 1')"]))


@test
def damaged_databases_end_in_a_message(t):
    data = bytearray(open(make_nsys(t, "n.sqlite"), "rb").read())
    rng = random.Random(5)
    for i in range(25):
        bad = bytearray(data)
        for _ in range(rng.randrange(1, 40)):
            bad[rng.randrange(100, len(bad))] = rng.randrange(256)
        t.run("import", "-f", "-o", "bad", t.write("bad.sqlite", bytes(bad[:rng.randrange(len(bad) // 2, len(bad) + 1)])), ok=None)


# ---- ops ----

def random_trace(seed):
    """Nested operators on two threads, some doubled, with calls, kernels and memory."""
    rng = random.Random(seed)
    events, ids = [], [1]

    def op(tid, start, end, depth, name=None):
        name = name or f"op{rng.randrange(6)}"
        number = ids[0]
        ids[0] += 1
        events.append({"ph": "X", "cat": "cpu_op", "name": name, "pid": 50, "tid": tid, "ts": start, "dur": end - start,
                       "args": {"External id": number, "Input Dims": [[rng.randrange(1, 3)]]}})
        if rng.random() < 0.3:
            events.append({"ph": "i", "name": "[memory]", "cat": "cpu_instant_event", "pid": 50, "tid": tid, "ts": start + (end - start) // 2,
                           "args": {"Bytes": rng.randrange(-500, 500), "Addr": 1, "Device Type": rng.randrange(2), "Device Id": 0}})
        if rng.random() < 0.4:
            events.append({"ph": "X", "cat": "kernel", "name": f"k{rng.randrange(3)}", "pid": 0, "tid": 7, "ts": end + 5, "dur": rng.randrange(1, 30),
                           "args": {"External id": number, "correlation": number, "device": 0, "stream": 7}})
        if depth and end - start > 20:
            if rng.random() < 0.3:
                op(tid, start + 1, end - 1, depth - 1, name)  # a double
            else:
                at = start + 1
                while at + 12 < end:
                    stop = min(end - 1, at + rng.randrange(6, 60))
                    op(tid, at, stop, depth - 1)
                    at = stop + rng.randrange(0, 5)

    for tid in 50, 51:
        at = 1000
        for _ in range(8):
            stop = at + rng.randrange(30, 400)
            op(tid, at, stop, 4)
            at = stop + rng.randrange(1, 20)
    rng.shuffle(events)
    return {"schemaVersion": 1, "traceEvents": events}


def averages(trace, by_shape):
    """The same by PyTorch's definitions, written plainly."""
    ops, kernels, memory = [], [], []
    for e in trace["traceEvents"]:
        if e.get("cat") == "cpu_op":
            ops.append(dict(name=e["name"], s=e["ts"] * 1000, e=(e["ts"] + e["dur"]) * 1000, tid=e["tid"], id=e["args"]["External id"],
                            shape=json.dumps(e["args"]["Input Dims"]), kids=[], up=None, own=0))
        elif e.get("cat") == "kernel":
            kernels.append(e)
        else:
            memory.append(e)
    by_id = {o["id"]: o for o in ops}
    for k in kernels:
        by_id[k["args"]["External id"]]["own"] += k["dur"] * 1000
    for tid in {o["tid"] for o in ops}:
        stack = []
        for o in sorted((o for o in ops if o["tid"] == tid), key=lambda o: (o["s"], -o["e"])):
            while stack and (o["s"] >= stack[-1]["e"] or o["e"] > stack[-1]["e"]):
                stack.pop()
            if stack:
                stack[-1]["kids"].append(o)
                o["up"] = stack[-1]
            stack.append(o)
    while True:
        gone = []
        for o in sorted(ops, key=lambda o: (o["s"], -o["e"])):
            if o["up"] is not None and o["up"]["name"] == o["name"] and len(o["up"]["kids"]) == 1:
                o["up"]["kids"], o["up"]["own"] = o["kids"], o["own"]
                for k in o["kids"]:
                    k["up"] = o["up"]
                gone.append(id(o))
        ops = [o for o in ops if id(o) not in gone]
        if not gone:
            break

    def device(o):
        return o["own"] + sum(map(device, o["kids"]))

    def mem(o, kind):
        return sum(m["args"]["Bytes"] for m in memory if m["args"]["Device Type"] == kind and o["s"] <= m["ts"] * 1000 <= o["e"])

    rows = {}
    for o in ops:
        r = rows.setdefault((o["name"], o["shape"] if by_shape else ""), [0] * 9)
        cpu, dev = o["e"] - o["s"], device(o)
        values = [1, cpu, cpu - sum(k["e"] - k["s"] for k in o["kids"]), dev, dev - sum(map(device, o["kids"])),
                  mem(o, 0), mem(o, 0) - sum(mem(k, 0) for k in o["kids"]), mem(o, 1), mem(o, 1) - sum(mem(k, 1) for k in o["kids"])]
        rows[(o["name"], o["shape"] if by_shape else "")] = [a + b for a, b in zip(r, values)]
    return rows


@test
def ops_equal_an_independent_computation(t):
    for seed in range(6):
        trace = random_trace(seed)
        path = t.write(f"t{seed}.json", trace)
        for by_shape in False, True:
            out = t.run("ops", "-f", "json", "--timeunit=ns", *(["--group-by-input-shape"] if by_shape else []), path).out
            got = {}
            for r in json.loads(out):
                r = {k.split(" (ns)")[0]: v for k, v in r.items()}
                if r["Device"] == "CPU" and r["Name"] != "[memory]":
                    got[(r["Name"], r.get("Input Shapes", ""))] = [r[k] for k in (
                        "# of Calls", "CPU total", "Self CPU", "CUDA total", "Self CUDA", "CPU Mem (B)", "Self CPU Mem (B)", "CUDA Mem (B)",
                        "Self CUDA Mem (B)")]
            eq(got, averages(trace, by_shape), f"seed {seed}, by shape {by_shape}")


@test
def ops_views_sorts_limits_and_steps(t):
    trace = kineto()
    for i, shift in enumerate([1000, 2000]):
        more = kineto(start=1000.0 + shift)
        for e in more["traceEvents"]:
            if e["name"] == "ProfilerStep#3":
                e["name"] = f"ProfilerStep#{4 + i}"
            a = e.get("args", {})
            for key in "External id", "correlation":
                if key in a:
                    a[key] += 100 * (i + 1)
        trace["traceEvents"] += more["traceEvents"]
    p = t.write("k.json", trace)

    def rows(*args):
        return {(r["Name"], r.get("Device")): r for r in json.loads(t.run("ops", "-f", "json", *args, p).out)}
    every, one, two = rows(), rows("--step=4"), rows("--step=3,5-9")
    eq([r["# of Calls"] for r in (every[("aten::addmm", "CPU")], one[("aten::addmm", "CPU")], two[("aten::addmm", "CPU")])], [3, 1, 2])
    eq(every[("ProfilerStep*", "CPU")]["# of Calls"], 3)
    eq(every[("aten::addmm", "CPU")]["Total FLOPs"], 180)
    eq(len(rows("-n", "2")), 2)
    assert all(r["CPU total (us)"] >= 30 or r["CUDA total (us)"] >= 30 for r in rows("--min-time=30us").values())
    eq(list(rows("--sort=cpu_time_total"))[0], ("ProfilerStep*", "CPU"))
    table = t.run("ops", p).out
    assert "Self CPU time total: " in table and "Self CUDA time total: " in table, table
    steps = json.loads(t.run("ops", "--view=steps", "-f", "json", p).out)
    eq([r["Step"] for r in steps], [3, 4, 5])
    mem = json.loads(t.run("ops", "--view=memory", "-f", "json", p).out)
    eq([(r["Device"], r["Allocations"], r["Allocated (B)"], r["Peak allocated (B)"]) for r in mem], [("CUDA 0", 3, 3000, 5000)])
    events = json.loads(t.run("ops", "--view=memory-events", "-f", "json", p).out)
    eq([r["Operator"] for r in events], ["aten::addmm"] * 3)
    assert "no step 99" in t.run("ops", "--step=99", p, ok=False).err
    assert "no list of steps" in t.run("ops", "--step=a", p, ok=False).err
    assert "nn.Module" in t.run("ops", "--view=modules", p, ok=False).err
    assert "no operators" in t.run("ops", t.write("c.json", CHROME), ok=False).err
    t.run("ops", "-o", "out.csv", p)
    assert "exists already" in t.run("ops", "-o", "out.csv", p, ok=False).err


@test
def ops_in_doubles(t):
    """Far from the trace's zero, a double of microseconds has less than a nanosecond's digits."""
    kernels = [(1419247333430.849, 3.136), (1419247333500.001, 1.697), (1419247333600.333, 2.0)]
    trace = {"baseTimeNanoseconds": 1700000000000000000, "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1419247333400.5, "dur": 10, "args": {"External id": 3}}] + [
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": {
            "External id": 3, "correlation": i, "device": 0, "stream": 7}} for i, (ts, dur) in enumerate(kernels, 1)]}
    path = t.write("far.json", trace)

    def rows(*args):
        return {r["Name"]: r for r in json.loads(t.run("ops", "-f", "json", *args, path).out)}
    exact, doubles = rows("--exact-times"), rows()
    eq(exact["aten::mm"]["CUDA total (us)"], 6.833)
    want = sum((ts + dur) - ts for ts, dur in kernels)
    assert abs(want - 6.833) > 1e-6 and abs(doubles["aten::mm"]["CUDA total (us)"] - want) < 1e-6, (want, doubles)
    eq(doubles["gemm"]["CUDA total (us)"], 6.833)
    eq(rows("--double-times"), doubles)
    assert "give one of" in t.run("ops", "--double-times", "--exact-times", path, ok=False).err
    # Through a database and back, and beside another file.
    t.run("import", "-o", "far.wsrep", path)
    t.run("export", "-t", "sqlite", "-o", "far.sqlite", "far.wsrep")
    eq(t.run("ops", "-f", "csv", "far.sqlite").out, t.run("ops", "-f", "csv", path).out)
    t.run("import", "-o", "two.wsrep", t.write("near.json", kineto()), path)
    two = {r["Name"]: r for r in json.loads(t.run("ops", "-f", "json", "two.wsrep").out)}
    eq([two["aten::mm"][k] for k in ("CUDA total (us)", "Self CUDA (us)", "# of Calls")], [doubles["aten::mm"][k] for k in ("CUDA total (us)", "Self CUDA (us)", "# of Calls")])
    # Microseconds since 1970: a double has a quarter of one left, so they stay exact unless asked for.
    for e in trace["traceEvents"]:
        e["ts"] = f"1712195{int(e['ts'] * 1000) % 10**12 / 1000:013.3f}"
    text = re.sub(r'"ts": "([0-9.]+)"', r'"ts": \1', json.dumps({"schemaVersion": 1, "traceEvents": trace["traceEvents"]}))
    path = t.write("epoch.json", text)
    eq(rows()["aten::mm"]["CUDA total (us)"], 6.833)
    assert abs(rows("--double-times")["aten::mm"]["CUDA total (us)"] - 6.833) > 0.01


def gpu_times(events):
    """Total, busy, computation, communication, exposed communication, memory, exposed memory, idle, as doubles give them."""
    def union(spans):
        out = []
        for a, b in sorted(spans):
            if out and a <= out[-1][1]:
                out[-1][1] = max(out[-1][1], b)
            else:
                out.append([a, b])
        return out

    def length(*kinds):
        return sum(b - a for a, b in union([s for k in kinds for s in of[k]]))
    of = {"comp": [], "comm": [], "mem": []}
    for e in events:
        of["mem" if e["cat"] != "kernel" else "comm" if e["name"].startswith("nccl") else "comp"].append((e["ts"], e["ts"] + e["dur"]))
    spans = sum(of.values(), [])
    total, busy = max(b for _, b in spans) - min(a for a, _ in spans), length("comp", "comm", "mem")
    return (total, busy, length("comp"), length("comm"), length("comp", "comm") - length("comp"), length("mem"), busy - length("comp", "comm"), total - busy)


@test
def gpu_time_breakdown_in_doubles(t):
    """To the digits of a tool that keeps ts and ts + dur as doubles, wherever the trace's zero is; exactly when asked for."""
    columns = ("Total", "Busy", "Computation", "Communication", "Exposed Comm", "Memory", "Exposed Mem", "Idle")
    for base in 0, 3_000_000_000, 20_000_000_000, 1419247333430, 4458676522690, 7800000000000:
        r = random.Random(base)
        events = []
        for i in range(300):
            cat = r.choice(["kernel"] * 4 + ["gpu_memcpy", "gpu_memset"])
            name = {"kernel": r.choice(["gemm", "ncclDevKernel_AllReduce"]), "gpu_memcpy": "Memcpy DtoD (Device -> Device)", "gpu_memset": "Memset (Device)"}[cat]
            events.append({"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": 7, "ts": base * 1000 + 7000 * i + r.randrange(20000), "dur": r.randrange(9000),
                           "args": {"correlation": i + 1, "device": 0, "stream": 7 + i % 3}})
        events.append({"ph": "X", "cat": "cpu_op", "name": "o", "pid": 5, "tid": 5, "ts": base * 1000, "dur": 1000, "args": {}})
        text = re.sub(r'("ts"|"dur"): (\d+)', lambda m: f"{m[1]}: {int(m[2]) // 1000}.{int(m[2]) % 1000:03d}", json.dumps({"schemaVersion": 1, "traceEvents": events}))
        path = t.write("t.json", text)
        exact = gpu_times(events[:-1])
        events = json.loads(text)["traceEvents"]
        want = gpu_times(events[:-1])
        for report, expected, most in ("gpu_time_breakdown", [1000 * v for v in want], 0.02), ("gpu_time_breakdown:exact", exact, 0):
            got = json.loads(t.run("stats", "-q", "-f", "json", "-r", report, path).out)[0]
            for name, v in zip(columns, expected):
                assert abs(got[f"{name} (ns)"] - v) <= most, (base, report, name, got[f"{name} (ns)"], v)
    copies = json.loads(t.run("stats", "-q", "-f", "json", "-r", "gpu_time_breakdown:copies", path).out)[0]
    want = gpu_times([e | ({"cat": "kernel"} if e["cat"] == "gpu_memset" else {}) for e in events[:-1]])
    for name, v in zip(columns, want):
        assert abs(copies[f"{name} (ns)"] - 1000 * v) <= 0.02, (name, copies, v)


@test
def nvtx_ranges_are_operators_where_there_are_none(t):
    """As torch.autograd.profiler.emit_nvtx writes them: names with facts behind them."""
    gpid, gtid = 500 << 24, 500 << 24 | 501
    db = sqlite3.connect(t.path("nvtx.sqlite"))
    ranges = [(0, 1000, "step 7"), (10, 400, "aten::linear, seq = 3, op_id = 1, sizes = [[2, 3], [3, 4]]"), (20, 300, "aten::mm, op_id = 2, sizes = [[2, 3], [3, 4]]"),
              (450, 500, "aten::mm, op_id = 3, sizes = [[8, 8], [8, 8]], input_op_ids = [(1,0)]"), (600, 700, "data [x], sizes"), (1000, 2000, "step 8"),
              (1100, 1200, "aten::relu, op_id = 4")]
    calls = [(30, 40), (310, 330), (460, 470), (610, 620), (1110, 1120), (2100, 2110)]
    for sql in ("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)", "INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel'), (2, 'k')",
                "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER)",
                "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER)",
                "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, "
                "demangledName INTEGER)"):
        db.execute(sql)
    db.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, ?)", [(*r, gtid) for r in ranges])
    db.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, 1)", [(*c, gtid, i) for i, c in enumerate(calls, 1)])
    db.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 7, ?, ?, 2)", [(3000 + 100 * i, 3000 + 100 * i + 10 ** (i - 1) % 99, i, gpid) for i in range(1, 7)])
    db.commit()
    lengths = [10 ** (i - 1) % 99 for i in range(1, 7)]
    db.close()

    def rows(*args):
        return {(r["Name"], r.get("Input Shapes", "")): tuple(r[k] for k in ("# of Calls", "CPU total (ns)", "Self CPU (ns)", "CUDA total (ns)", "Self CUDA (ns)"))
                for r in json.loads(t.run("ops", "-f", "json", "--timeunit=ns", *args, "nvtx.sqlite").out) if r["Device"] == "CPU"}
    a, b, c, d, e, f = lengths
    got = rows()
    eq(got[("aten::mm", "")], (2, 330, 310, a + c, a + c))
    eq(got[("aten::linear", "")], (1, 390, 90, a + b, b))
    eq(got[("data [x], sizes", "")], (1, 100, 90, d, d))
    eq((got[("step 7", "")][3:], got[("aten::relu", "")][3:]), ((a + b + c + d, 0), (e, e)))
    eq(got[("cudaLaunchKernel", "")][0], 6)
    shapes = rows("--group-by-input-shape")
    eq([k for k in sorted(shapes) if k[0] == "aten::mm"], [("aten::mm", "[[2, 3], [3, 4]]"), ("aten::mm", "[[8, 8], [8, 8]]")])
    eq({k[0] for k in rows("--step=8")}, {"step 8", "aten::relu", "cudaLaunchKernel"})
    eq([r["Step"] for r in json.loads(t.run("ops", "--view=steps", "-f", "json", "nvtx.sqlite").out)], [7, 8])


@test
def annotations_are_ranges_of_gpu_time(t):
    def x(cat, name, ts, dur, pid=77, tid=77, **args):
        return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}
    trace = {"schemaVersion": 1, "traceEvents": [x("user_annotation", "forward", 10, 50), x("user_annotation", "inner", 20, 15), x("user_annotation", "idle", 100, 9)]}
    for i, (call, start, name) in enumerate([(12, 30, "gemm"), (22, 40, "relu"), (40, 70, "ncclDevKernel_AllReduce"), (80, 90, "gemm")], 1):
        trace["traceEvents"] += [x("cuda_runtime", "cudaLaunchKernel", call, 5, correlation=i), x("kernel", name, start, 10, 0, 7, correlation=i, device=0, stream=7)]
    rows = json.loads(t.run("stats", "-q", "-f", "json", "-r", "gpu_time_breakdown:range", t.write("a.json", trace)).out)
    eq([(r["Part"], r["Total (ns)"], r["Busy (ns)"], r["Computation (ns)"], r["Communication (ns)"], r["Ops"]) for r in rows],
       [("forward", 50000, 30000, 20000, 10000, 3), ("inner", 10000, 10000, 10000, 0, 1)])


@test
def ops_modules(t):
    def module(name, ts, dur):
        return {"ph": "X", "cat": "python_function", "name": name, "pid": 77, "tid": 77, "ts": 1000 + ts, "dur": dur, "args": {"Python id": 1}}
    trace = kineto()
    trace["traceEvents"] += [module("nn.Module: Net_0", 0.5, 58), module("nn.Module: Linear_0", 0.75, 45), module("f.py(1): g", 0.8, 44)]
    rows = json.loads(t.run("ops", "--view=modules", "-f", "json", "--timeunit=ns", t.write("m.json", trace)).out)
    got = [(r["Module"], r["Calls"], r["CPU total (ns)"], r["Self CPU (ns)"], r["CUDA total (ns)"], r["Self CUDA (ns)"]) for r in rows]
    eq(got, [("Net_0", 1, 58000, 13000, 7002, 0), ("Net_0/Linear_0", 1, 45000, 45000, 7002, 7002)])


def main():
    words = sys.argv[2:]
    chosen = [f for f in TESTS if not words or any(w in f.__name__ for w in words)]
    print(f"1..{len(chosen)}")
    failed = 0
    for i, f in enumerate(chosen, 1):
        folder = tempfile.mkdtemp(prefix="warpsight-test-")
        try:
            f(T(folder))
            print(f"ok {i} - {f.__name__}", flush=True)
        except Exception as e:  # a failure of any kind is the test's
            failed += 1
            print(f"not ok {i} - {f.__name__}")
            print("# " + f"{type(e).__name__}: {e}"[:3000].replace("\n", "\n# "), flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return failed > 0


sys.exit(main())
