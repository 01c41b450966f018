#!/usr/bin/env python3
"""Figures of imported traces that are easily wrong: damage that changes them silently, names of
arguments that only some versions write, times that are none, what a round trip keeps. Prints TAP.

Usage: test_figures.py WARPSIGHT [WORD...]; with words, tests whose names hold one of them."""
import gzip
import json
import sys
import zlib

from harness import eq, main, test
from traces import CHROME, kineto, make_nsys


def stored(data):
    """A gzip member that holds its data uncompressed: a flipped byte of it is one of the text."""
    packer = zlib.compressobj(0, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


@test
def gzip_checksums_and_lengths_are_checked(t):
    text = json.dumps(kineto()).encode()
    whole = stored(text)
    t.load(t.write("whole.json.gz", whole))
    assert "broken" not in t.err, t.err
    at = whole.index(b'"dur": 7.002') + 7
    cases = {
        "flipped": (whole[:at] + b"9" + whole[at + 1 :], "checksum"),
        "checksum": (whole[:-6] + b"\0\1" + whole[-4:], "checksum"),
        "length": (whole[:-2] + b"\7\7", "length"),
        "cut": (whole[:-5], "end too early"),
        "no-end": (whole[:-8], "end too early"),
        "garbage": (whole + b"\0\0garbage", "what follows"),
        "second": (stored(text[:900]) + stored(text[900:])[:-3] + b"abc", "length"),
        "first": (stored(text[:900])[:-5] + b"12345" + stored(text[900:]), "are damaged"),
    }
    for name, (data, word) in cases.items():
        d = t.load(t.write(name + ".json.gz", data))
        assert "The trace is broken" in t.err and word in t.err, (name, t.err)
        eq(len([r for r in d["DIAGNOSTIC_EVENT"] if word in r["text"]]), 1, name)
    t.load(t.write("padded.json.gz", whole + b"\0" * 700000))
    assert "broken" not in t.err, t.err
    script = b"prog 10/11 [003]  100.500000:     250000 cpu-clock:pppH:\n\t10 main+0x10 (/p)\n\n"
    t.load(t.write("script.gz", stored(script)[:-6] + b"123456"))
    assert "checksum" in t.err, t.err


@test
def copies_of_amd_have_their_bytes(t):
    """What AMD's profiler writes of a copy: its call has the size, as a text; in 2023 as "size",
    and later as "bytes". The call may come behind the copy."""

    def x(cat, name, ts, dur, args, pid=77, tid=77):
        return dict(ph="X", cat=cat, name=name, pid=pid, tid=tid, ts=ts, dur=dur, args=args)

    def copy(name, ts, correlation):
        args = {"device": 2, "stream": 0, "correlation": correlation, "kind": "HtoD"}
        return x("gpu_memcpy", name, ts, 4, args, 2, 0)

    def call(ts, correlation, **size):
        args = dict({"cid": 30, "correlation": correlation, "src": "0x7f", "dst": "0x9"}, **size)
        return x("cuda_runtime", "hipMemcpyWithStream", ts, 5, args)

    events = [
        copy("CopyHostToDevice", 20, 1),
        call(10, 1, size="4096"),
        call(11, 2, bytes="1048576"),
        copy("Memcpy DtoH (Device -> Host)", 30, 2),
        call(12, 3),
        copy("CopyDeviceToDevice", 40, 3),
    ]
    d = t.load(t.write("amd.json", {"schemaVersion": 1, "traceEvents": events}))
    rows = sorted((r["start"], r["bytes"], r["copyKind"]) for r in d["CUPTI_ACTIVITY_KIND_MEMCPY"])
    eq(rows, [(10000, 4096, 1), (20000, 1048576, 2), (30000, 0, 8)])


@test
def devices_and_occupancy_of_2021(t):
    device = {
        "id": 3,
        "name": "Tesla V100-DGXS-32GB",
        "totalGlobalMem": 34084028416,
        "major": 7,
        "minor": 2,
        "maxThreadsPerBlock": 1024,
        "maxThreadsPerMultiProcessor": 2048,
        "warpSize": 32,
        "multiProcessorCount": 80,
    }
    trace = kineto()
    trace.pop("deviceProperties", None)
    trace["computeProperties"] = [device]
    kernel = [e for e in trace["traceEvents"] if e.get("cat") == "kernel"][0]
    del kernel["args"]["est. achieved occupancy %"]
    kernel["args"]["theoretical occupancy %"] = 31.25
    d = t.load(t.write("old.json", trace))
    (gpu,) = [r for r in d["TARGET_INFO_GPU"] if r["cuDevice"] == 3]
    got = tuple(gpu[c] for c in ("name", "totalMemory", "smMajor", "smMinor", "smCount"))
    eq(got, ("Tesla V100-DGXS-32GB", 34084028416, 7, 2, 80))
    eq(gpu["maxWarpsPerSm"], 64)
    occupancy = [r["theoreticalOccupancy"] for r in d["CUPTI_ACTIVITY_KIND_KERNEL"]]
    eq(sorted(occupancy), [0, 0.3125])
    assert "theoretical" not in t.err and "computeProperties" not in t.err, t.err


def span(t, report):
    info = json.loads(t.run("info", "--json", report).out)
    return info["events_start_ns"], info["events_end_ns"], info["span_ns"]


@test
def moments_of_no_process_do_not_stretch_the_time_line(t):
    """What the PyTorch profiler writes of its window, at time 0 or hours later, is a fact."""
    end = {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": ""}
    trace = kineto()
    t.load(t.write("without.json", trace))
    expected = span(t, "r.wsrep")
    events = trace["traceEvents"]
    for ts in 0, 1e10:
        trace["traceEvents"] = events + [dict(end, ts=ts)]
        d = t.load(t.write("with.json", trace))
        eq(span(t, "r.wsrep"), expected)
        eq([r for r in d.get("WARPSIGHT_SLICE", []) if r["nameId"] == "Record Window End"], [])
        facts = [r for r in d["META_DATA_CAPTURE"] if r["name"] == "trace.Record Window End"]
        eq([r["value"] for r in facts], ["%.6f s" % (ts / 1e6)])
    trace["traceEvents"] = events + [dict(end, ts=1010)]
    d = t.load(t.write("inside.json", trace))
    (row,) = [r for r in d["WARPSIGHT_SLICE"] if r["nameId"] == "Record Window End"]
    eq(
        [r["nameId"] for r in d["WARPSIGHT_TRACK"] if r["id"] == row["trackId"]],
        ["Whole trace"],
    )
    d = t.load(t.write("only.json", [dict(end, ts=5)]))
    eq([r["start"] for r in d["WARPSIGHT_SLICE"]], [0])


@test
def texts_are_no_times(t):
    """SQLite lets a column of numbers hold a text: such rows have no place on the time line."""
    extra = [
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT 'soon', end, eventClass, globalTid,"
        " 10, nameId, returnValue, NULL FROM CUPTI_ACTIVITY_KIND_RUNTIME",
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT start, x'3132', deviceId, contextId,"
        " streamId, 10, globalPid, demangledName, shortName, 1, 1, 1, 1, 1, 1, 1, NULL, 1"
        " FROM CUPTI_ACTIVITY_KIND_KERNEL",
        "INSERT INTO NVTX_EVENTS SELECT '12 apples', end, eventType, rangeId, category, color,"
        " 'odd', globalTid, endGlobalTid, textId, domainId, NULL, NULL, NULL FROM NVTX_EVENTS"
        " LIMIT 1",
        "CREATE TABLE COPIES AS SELECT * FROM NVTX_EVENTS",
    ]
    d = t.load(make_nsys(t, "text.sqlite", extra=extra))
    eq([r["start"] for r in d["CUPTI_ACTIVITY_KIND_RUNTIME"]], [4000])
    eq([r["start"] for r in d["CUPTI_ACTIVITY_KIND_KERNEL"]], [5000])
    eq(sorted(r["start"] for r in d["NVTX_EVENTS"]), [-50, 100])
    for table in "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS":
        assert f"{table}: rows whose start, end or timestamp is no number" in t.err, t.err


@test
def numbers_written_as_texts_are_times(t):
    extra = [
        "ALTER TABLE CUPTI_ACTIVITY_KIND_RUNTIME RENAME TO was",
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start TEXT, end TEXT, eventClass INTEGER,"
        " globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER,"
        " callchainId INTEGER)",
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT * FROM was",
        "DROP TABLE was",
    ]
    d = t.load(make_nsys(t, "number.sqlite", extra=extra))
    eq([(r["start"], r["end"]) for r in d["CUPTI_ACTIVITY_KIND_RUNTIME"]], [(4000, 4500)])
    assert "is no number" not in t.err, t.err


@test
def no_green_context_is_empty(t):
    extra = [
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN greenContextId INTEGER",
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET greenContextId = 0",
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT 7000, 8000, deviceId, contextId,"
        " streamId, 10, globalPid, demangledName, shortName, 1, 1, 1, 1, 1, 1, 1, NULL, 1, 4"
        " FROM CUPTI_ACTIVITY_KIND_KERNEL",
    ]
    rows = t.stats("cuda_gpu_trace", make_nsys(t, "green.sqlite", extra=extra))
    eq([r["GreenCtx"] for r in rows], ["", "4"])


SPANS = [
    dict(ph="X", cat="Trace", name="window", pid="Spans", tid="PyTorch", ts=990, dur=900, args={}),
    dict(ph="i", s="g", name="Iteration Start", pid="Traces", tid="Trace PyTorch", ts=991),
]


def with_tracks(tables):
    """The same with names in place of numbers of tracks."""
    names = {r["id"]: r["nameId"] for r in tables.get("WARPSIGHT_TRACK", [])}
    for r in tables.get("WARPSIGHT_TRACK", []):
        r["parent"] = names.get(r["parentId"])
    for r in tables.get("WARPSIGHT_SLICE", []):
        r["track"] = names.get(r["trackId"])
    return tables


@test
def chrome_round_trips_keep_times_and_names(t):
    """Exported to Chrome's JSON and imported again, a report has the same times, collections and
    names of threads, also where its times do not count from its collection or its first event."""
    sources = {
        "nsys": make_nsys(
            t,
            "n.sqlite",
            extra=["UPDATE ANALYSIS_DETAILS SET startTime = 3000, duration = 6000"],
        ),
        "chrome": t.write("c.json", CHROME),
        "kineto": t.write("k.json", kineto()),
        "spans": t.write("s.json", dict(kineto(), traceEvents=kineto()["traceEvents"] + SPANS)),
    }
    columns = {
        "CUPTI_ACTIVITY_KIND_KERNEL": ("start", "end"),
        "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "end"),
        "NVTX_EVENTS": ("start", "end"),
        "WARPSIGHT_OP": ("start", "end", "nameId"),
        "ANALYSIS_DETAILS": ("startTime", "stopTime"),
        "ThreadNames": ("nameId",),
        "WARPSIGHT_SLICE": ("start", "end", "nameId", "argsId", "track"),
        "WARPSIGHT_TRACK": ("nameId", "parent"),
    }
    for name, source in sources.items():
        first = with_tracks(t.load(source))
        zero = span(t, "r.wsrep")
        t.run("export", "-q", "-f", "-t", "chrome", "-o", "back.json", "r.wsrep")
        again = with_tracks(t.load(t.path("back.json")))
        eq(span(t, "r.wsrep"), zero, name)
        for table, kept in columns.items():
            rows = [
                sorted(repr([r[c] for c in kept]) for r in d.get(table, [])) for d in (first, again)
            ]
            eq(rows[1], rows[0], (name, table))


@test
def info_tells_the_window_from_its_events(t):
    extra = ["UPDATE ANALYSIS_DETAILS SET duration = 520000000, stopTime = 520000000"]
    t.load(make_nsys(t, "window.sqlite", extra=extra))
    out = t.run("info", "r.wsrep").out
    assert "Time span:  0.520000 s\n" in out, out
    assert "Events:     from -0.000000 s to 0.000007 s (0.000007 s)\n" in out, out
    info = json.loads(t.run("info", "--json", "r.wsrep").out)
    eq((info["span_ns"], info["events_start_ns"], info["events_end_ns"]), (520000000, -50, 7000))
    extra = ["INSERT INTO ANALYSIS_DETAILS VALUES (0, 1000000, 1000000000, 1001000000)"]
    t.load(make_nsys(t, "two.sqlite", extra=extra))
    out = t.run("info", "r.wsrep").out
    assert "1.001000 s, of which 0.001009 s were recorded in 2 collections" in out, out


sys.exit(main())
