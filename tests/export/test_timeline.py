#!/usr/bin/env python3
"""Whole-command tests of exports to the formats of time lines, Chrome's and Perfetto's:
test_timeline.py WARPSIGHT MAKE_REPORT MAKE_LINE [TEST...]. Prints TAP.
"""
import collections
import gzip
import json
import os
import sqlite3
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
import read_perfetto  # noqa: E402
from reports import (  # noqa: E402
    ONLY,
    database,
    report,
    rows,
    tables,
)
from tap import main, run, same, test  # noqa: E402


# ---- Chrome ----


def chrome(kind, *options):
    d = json.loads(run("export", "-t", "chrome", "-o", "-", *options, report(kind)).out)
    return d, d["traceEvents"]


def ns(us):
    return round(us * 1000)


@test
def chrome_equals_sqlite():
    for kind in ("cuda", "line", "basic"):
        db, (d, events) = database(kind), chrome(kind)
        have = set(tables(db))
        for table, cats in (
            ("CUPTI_ACTIVITY_KIND_KERNEL", {"kernel"}),
            ("CUPTI_ACTIVITY_KIND_MEMCPY", {"gpu_memcpy"}),
            ("CUPTI_ACTIVITY_KIND_MEMSET", {"gpu_memset"}),
            ("OSRT_API", {"osrt"}),
            ("CUPTI_ACTIVITY_KIND_RUNTIME", {"cuda_runtime", "cuda_driver"}),
        ):
            graphs = (
                rows(db, "SELECT start, end FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE")
                if table.endswith("KERNEL") and "CUPTI_ACTIVITY_KIND_GRAPH_TRACE" in have
                else []
            )
            want = sorted(
                (rows(db, "SELECT start, end FROM " + table) if table in have else []) + graphs,
                key=str,
            )
            got = sorted(
                [
                    (ns(e["ts"]), None if e["args"].get("never ended") else ns(e["ts"] + e["dur"]))
                    for e in events
                    if e["ph"] == "X" and e.get("cat") in cats
                ],
                key=str,
            )
            same(got, want, "%s of %s" % (table, kind))
        same(
            d["baseTimeNanoseconds"],
            rows(db, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")[0][0],
        )


@test
def chrome_is_as_kineto_writes_it():
    d, events = chrome("line")
    same((d["schemaVersion"], d["displayTimeUnit"]), (1, "ms"))
    by = lambda **want: [e for e in events if all(e.get(k) == v for k, v in want.items())]
    (mm,) = by(name="aten::mm")
    same(
        (
            mm["cat"],
            mm["args"]["External id"],
            mm["args"]["Input Dims"],
            mm["args"]["Extra"],
            mm["args"]["Sequence number"],
        ),
        ("cpu_op", 11, [[2, 3], []], 7, 111),
    )
    (odd,) = by(name="hostile args")
    same(
        (odd["args"]["Input Dims"], odd["args"]["args"]),
        ("[[2, 3", '}, {"x":'),
        "what is no JSON stays a text",
    )
    (step,) = by(name="ProfilerStep#1")
    same(step["cat"], "user_annotation")
    (call,) = by(cat="cuda_runtime", pid=1, name="cudaLaunchKernel")
    same((call["args"]["correlation"], call["args"]["External id"]), (5, 11))
    (kernel,) = [
        e
        for e in by(cat="kernel")
        if e["args"].get("correlation") == 5 and e["args"]["device"] == 1
    ]
    same(
        (
            kernel["tid"],
            kernel["name"],
            kernel["args"]["grid"],
            kernel["args"]["block"],
            kernel["args"]["External id"],
        ),
        (7, 'void "quoted"<int>\\(...)', [2, 3, 4], [32, 1, 1], 11),
    )
    same(kernel["pid"] not in (1, 4000), True, "device 1 is not process 1")
    pids = {e["pid"]: e["args"]["labels"] for e in by(ph="M", name="process_labels")}
    same((pids[1], pids[kernel["pid"]], pids[0]), ("CPU", "GPU 1", "GPU 0"))
    same(
        [e["args"]["name"] for e in by(ph="M", name="thread_name", pid=kernel["pid"])], ["stream 7"]
    )
    (memory,) = by(name="[memory]")
    same(
        (
            memory["ph"],
            memory["args"]["Bytes"],
            memory["args"]["Total Allocated"],
            memory["args"]["Device Type"],
        ),
        ("i", -64, 1000, 1),
    )
    same([e["args"]["value"] for e in by(ph="C", name="GPU 1: power")], [250.5, 300])
    same(sorted(e["name"] for e in by(ph="b")), ["crossing", "crossing fill", "open"])
    (early,) = by(name="before the start")
    same(early["ts"], -0.05)


@test
def chrome_flows_have_two_ends():
    for kind in ("cuda", "line"):
        _, events = chrome(kind)
        ends = {
            ph: collections.Counter(e["id"] for e in events if e["ph"] == ph and e["cat"] == "ac2g")
            for ph in "sf"
        }
        same(set(ends["s"]), set(ends["f"]), kind)
        same(max(ends["s"].values()), 1, "one call a flow, the outer one")
        spans = collections.defaultdict(list)
        for e in events:
            if e["ph"] == "X":
                spans[e["pid"], e["tid"], e["ts"]].append(e)
        for e in events:
            if e["ph"] in "sf" and e["cat"] == "ac2g":
                same(
                    any(
                        x["cat"].startswith("cuda_")
                        or x["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")
                        for x in spans[e["pid"], e["tid"], e["ts"]]
                    ),
                    True,
                    "a flow lies on a span",
                )
    _, events = chrome("line")
    arrow = {e["ph"]: e for e in events if e.get("name") == "handed over"}
    same((ns(arrow["s"]["ts"]), ns(arrow["f"]["ts"]), arrow["f"]["tid"]), (110, 260, 1))


@test
def chrome_samples_are_profiles():
    """Perfetto and Chrome's tools read profiles (nodes and steps of microseconds), chrome://tracing
    the frame of each event.
    """
    db, (d, events) = database("line"), chrome("line")
    taken = [e for e in events if e["ph"] == "P"]
    same(
        sorted(ns(e["ts"]) for e in taken if e["name"] == "ProfileChunk"),
        sorted(x for x, in rows(db, "SELECT start FROM COMPOSITE_EVENTS")),
    )
    nodes, now, stacks = {}, {}, collections.Counter()
    for e in taken:
        key, data = (e["pid"], e["id"]), e["args"]["data"]
        if e["name"] == "Profile":
            now[key] = data["startTime"]
            continue
        for n in data["cpuProfile"]["nodes"]:
            same("parent" not in n or (key, n["parent"]) in nodes, True, "a parent is told first")
            nodes[key, n["id"]] = n
        now[key] += data["timeDeltas"][0]
        same(now[key], int(e["ts"] // 1), "whole microseconds")
        (node,) = data["cpuProfile"]["samples"]
        path, frame, framed = [], e.get("sf"), []
        while "parent" in nodes[key, node]:
            path.append(nodes[key, node]["callFrame"]["functionName"])
            node = nodes[key, node]["parent"]
        while frame:
            framed.append(d["stackFrames"][frame]["name"])
            frame = d["stackFrames"][frame].get("parent")
        same(path, framed)
        stacks[tuple(path)] += 1
    chains = collections.defaultdict(list)
    for i, symbol in rows(
        db,
        "SELECT id, value FROM SAMPLING_CALLCHAINS JOIN StringIds s ON s.id = symbol ORDER BY 1,"
        " stackDepth".replace("SELECT id", "SELECT SAMPLING_CALLCHAINS.id"),
    ):
        chains[i].append(symbol)
    want = collections.Counter(len(v) for v in chains.values())
    same(
        collections.Counter(len(k) for k, n in stacks.items() for _ in range(n)),
        want,
        "depths of stacks",
    )


@test
def chrome_links_forward_and_backward():
    def op(name, ts, dur, tid, **args):
        return {
            "ph": "X",
            "cat": "cpu_op",
            "name": name,
            "pid": 9,
            "tid": tid,
            "ts": ts,
            "dur": dur,
            "args": args,
        }

    number = lambda n: {"Sequence number": n, "Fwd thread id": 0}
    back = lambda n: {"Sequence number": n, "Fwd thread id": 1}
    json.dump(
        {
            "schemaVersion": 1,
            "traceEvents": [
                op("aten::linear", 1, 10, 1, **number(5)),
                op("aten::addmm", 2, 5, 1, **number(5)),
                op("aten::relu", 20, 5, 1, **number(6)),
                op("autograd::engine::evaluate_function: ReluBackward0", 30, 9, 2, **back(6)),
                op("ReluBackward0", 31, 5, 2, **back(6)),
                op("aten::inner", 32, 1, 2, **back(6)),
                op("AddmmBackward0", 41, 5, 2, **back(5)),
                op("AloneBackward0", 50, 5, 2, **back(7)),
            ],
        },
        open("fb.json", "w"),
    )
    run("export", "-q", "-f", "-t", "chrome", "-o", "fb.out", "fb.json")
    flows = collections.defaultdict(dict)
    for e in json.load(open("fb.out"))["traceEvents"]:
        if e.get("cat") == "fwdbwd":
            flows[e["id"]][e["ph"]] = (e["tid"], e["ts"])
    first = min(a["ts"] for a in json.load(open("fb.out"))["traceEvents"] if a["ph"] == "X")
    same(
        sorted(
            (v["s"][0], v["s"][1] - first, v["f"][0], v["f"][1] - first) for v in flows.values()
        ),
        [(1, 1, 2, 40), (1, 19, 2, 30)],
    )
    run("import", "-q", "-f", "-o", "fb.wsrep", "fb.out")
    same(
        run("query", "SELECT count(*) FROM WARPSIGHT_FLOW", "--format=csv", "fb.wsrep").out.split(),
        [b"count(*)", b"2"],
    )
    again = json.loads(run("export", "-t", "chrome", "-o", "-", "fb.wsrep").out)["traceEvents"]
    same(
        len([e for e in again if e.get("cat") == "fwdbwd"]), 4, "recorded links are not made again"
    )


@test
def chrome_comes_back():
    """What Chrome's format has room for is the same rows after an import of the export."""
    tables = {
        "NVTX_EVENTS": "start, end, eventType, text, domainId, category",
        "OSRT_API": "start, end",
        "COMPOSITE_EVENTS": "start, cpu",
        "CUPTI_ACTIVITY_KIND_RUNTIME": "start, end, correlationId, returnValue",
        "CUPTI_ACTIVITY_KIND_MEMCPY": "start, end, copyKind, bytes, streamId",
        "CUPTI_ACTIVITY_KIND_MEMSET": "start, end, memKind, bytes",
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "start, end, syncType",
        "WARPSIGHT_OP": "start, end, kind, externalId, sequenceNumber",
        "WARPSIGHT_OP_LINK": "correlationId, externalId",
        "WARPSIGHT_OP_MEMORY": "start, bytes",
        "WARPSIGHT_FLOW": "start, end",
        "WARPSIGHT_SLICE": "end - start",
    }
    for kind in ("line", "cuda"):
        run("export", "-q", "-f", "-t", "chrome", "-o", "back.json", report(kind))
        run("import", "-q", "-f", "-o", "back.wsrep", "back.json")
        run("export", "-q", "-f", "--lazy=false", "-o", "back.sqlite", "back.wsrep")
        run("export", "-q", "-f", "--lazy=false", "-o", "there.sqlite", report(kind))
        for table, columns in tables.items():
            if table == "NVTX_EVENTS":
                where = " WHERE eventType IN (34, 59, 60)"
            elif kind == "cuda" and table in ("WARPSIGHT_SLICE", "CUPTI_ACTIVITY_KIND_RUNTIME"):
                continue  # overheads and calls without a correlation
            else:
                where = ""
            there, back = (
                sqlite3.connect(f)
                .execute("SELECT %s FROM %s%s" % (columns, table, where))
                .fetchall()
                for f in ("there.sqlite", "back.sqlite")
            )
            same(from_first(back, columns), from_first(there, columns), "%s of %s" % (table, kind))


def from_first(rows, columns):
    """Rows in order, their times counted from the first of them; what is not known is 0."""
    times = [c.strip() in ("start", "end") for c in columns.split(",")]
    first = min((x for r in rows for x, t in zip(r, times) if t and x is not None), default=0)
    return sorted(
        (
            tuple(x - first if t and x is not None else x or 0 for x, t in zip(r, times))
            for r in rows
        ),
        key=str,
    )


@test
def chrome_of_hostile_and_wild_reports():
    for kind in ("hostile", "wild", "empty"):
        chrome(kind)


@test
def chrome_compressed_by_name():
    run("export", "-q", "-t", "chrome", "-o", "t.json.gz", report("line"))
    run("export", "-q", "-t", "chrome", "-o", "t.json", report("line"))
    with gzip.open("t.json.gz") as f, open("t.json") as g:
        a, b = json.loads(f.read()), json.load(g)
    same((a["traceEvents"], os.stat("t.json.gz").st_mode & 0o777), (b["traceEvents"], 0o600))


# ---- Perfetto ----


def perfetto(kind, *options):
    return read_perfetto.Trace(
        run("export", "-t", "perfetto", "-o", "-", *options, report(kind)).out
    )


@test
def perfetto_equals_chrome():
    """The same spans by name and time, and slices nest on every track."""
    for kind in ("cuda", "line", "basic"):
        t, (_, events) = perfetto(kind), chrome(kind)
        shown = (
            "nvtx",
            "osrt",
            "kernel",
            "gpu_memcpy",
            "gpu_memset",
            "cuda_runtime",
            "cuda_driver",
            "cpu_op",
            "user_annotation",
            "python_function",
        )
        want = collections.Counter(
            (
                e["name"],
                e["cat"],
                max(0, ns(e["ts"])),
                None if e["args"].get("never ended") else ns(e["ts"] + e["dur"]),
            )
            for e in events
            if e["ph"] == "X" and e["cat"] in shown
        )
        crossing = {e["id"]: ns(e["ts"]) for e in events if e["ph"] == "e" and e["cat"] == "nvtx"}
        starts = {e["id"]: e for e in events if e["ph"] == "b" and e["cat"] == "nvtx"}
        got = collections.Counter(
            (s["name"], s["cat"], s["ts"], s["end"]) for s in t.slices if s["cat"] in shown
        )
        for i, e in starts.items():
            end = None if e["name"] in ("open",) else crossing[i]
            want[e["name"], "nvtx", ns(e["ts"]), end] += 1
        if got != want:
            raise AssertionError(
                "%s: %r" % (kind, (list((got - want).items())[:3], list((want - got).items())[:3]))
            )


@test
def perfetto_tracks_and_flows():
    t = perfetto("line")
    name = lambda uuid: t.tracks[uuid]["name"]
    kernels = [s for s in t.slices if s["cat"] == "kernel"]
    same({name(s["track"]) for s in kernels}, {"Stream 7"})
    same({name(t.tracks[s["track"]]["parent"]) for s in kernels}, {"GPU 0", "GPU 1"})
    same(len({s["track"] for s in kernels}), 3, "two that cross are on two tracks")
    calls = {f: s for s in t.slices if s["cat"].startswith("cuda_") for f in s["flows"]}
    flows = [f for s in kernels for f in s["flows"]]
    same((sorted(calls), len(flows)), (sorted(set(flows)), 2))
    same({s["name"] for s in calls.values()}, {"cudaLaunchKernel"})
    (mm,) = [s for s in t.slices if s["name"] == "aten::mm"]
    same(
        (mm["args"]["External id"], mm["args"]["Input Dims"], name(mm["track"])),
        (11, "[[2, 3], []]", "loop"),
    )
    same([c["value"] for c in t.counters if name(c["track"]) == "GPU 1: power"], [250.5, 300])
    same([c["value"] for c in t.counters if name(c["track"]) == "GPU 1 memory (Device)"], [512])
    same(
        [(s["stack"], s["cpu"]) for s in t.samples],
        [(["fn1", "fn2", "fn3"], 3), (["fn1", "fn2", "fn3"], None)],
    )
    same(
        [(s["name"], s["ts"], s["end"]) for s in t.slices if s["cat"] == "sched"],
        [("core 3", 500, 900)],
    )
    same({name(s["track"]) for s in t.slices if "fill" in s["name"]}, {"pool of buffers"})
    same(t.clocks, {6: 0, 1: 1700000000000000000})
    inner, outer = (
        next(s for s in t.slices if s["name"] == "same start, " + n) for n in ("inner", "outer")
    )
    same(
        inner["track"], outer["track"], "the longer of two that begin together is around the other"
    )


@test
def perfetto_of_hostile_and_wild_reports():
    for kind in ("hostile", "wild", "empty"):
        perfetto(kind)


sys.exit(main(ONLY))
