#!/usr/bin/env python3
"""`ops` and times of GPUs of imported traces, against a second computation of them. Prints TAP.

Usage: test_ops.py WARPSIGHT [WORD...]; with words, tests whose names hold one of them."""
import json
import random
import re
import sqlite3
import sys

from harness import eq, main, test
from traces import CHROME, kineto


def random_trace(seed):
    """Nested operators on two threads, some doubled, with calls, kernels and memory."""
    rng = random.Random(seed)
    events, ids = [], [1]

    def op(tid, start, end, depth, name=None):
        name = name or f"op{rng.randrange(6)}"
        number = ids[0]
        ids[0] += 1
        events.append(
            {
                "ph": "X",
                "cat": "cpu_op",
                "name": name,
                "pid": 50,
                "tid": tid,
                "ts": start,
                "dur": end - start,
                "args": {"External id": number, "Input Dims": [[rng.randrange(1, 3)]]},
            }
        )
        if rng.random() < 0.3:
            events.append(
                {
                    "ph": "i",
                    "name": "[memory]",
                    "cat": "cpu_instant_event",
                    "pid": 50,
                    "tid": tid,
                    "ts": start + (end - start) // 2,
                    "args": {
                        "Bytes": rng.randrange(-500, 500),
                        "Addr": 1,
                        "Device Type": rng.randrange(2),
                        "Device Id": 0,
                    },
                }
            )
        if rng.random() < 0.4:
            events.append(
                {
                    "ph": "X",
                    "cat": "kernel",
                    "name": f"k{rng.randrange(3)}",
                    "pid": 0,
                    "tid": 7,
                    "ts": end + 5,
                    "dur": rng.randrange(1, 30),
                    "args": {
                        "External id": number,
                        "correlation": number,
                        "device": 0,
                        "stream": 7,
                    },
                }
            )
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
            ops.append(
                dict(
                    name=e["name"],
                    s=e["ts"] * 1000,
                    e=(e["ts"] + e["dur"]) * 1000,
                    tid=e["tid"],
                    id=e["args"]["External id"],
                    shape=json.dumps(e["args"]["Input Dims"]),
                    kids=[],
                    up=None,
                    own=0,
                )
            )
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
        return sum(
            m["args"]["Bytes"]
            for m in memory
            if m["args"]["Device Type"] == kind and o["s"] <= m["ts"] * 1000 <= o["e"]
        )

    rows = {}
    for o in ops:
        r = rows.setdefault((o["name"], o["shape"] if by_shape else ""), [0] * 9)
        cpu, dev = o["e"] - o["s"], device(o)
        values = [
            1,
            cpu,
            cpu - sum(k["e"] - k["s"] for k in o["kids"]),
            dev,
            dev - sum(map(device, o["kids"])),
            mem(o, 0),
            mem(o, 0) - sum(mem(k, 0) for k in o["kids"]),
            mem(o, 1),
            mem(o, 1) - sum(mem(k, 1) for k in o["kids"]),
        ]
        rows[(o["name"], o["shape"] if by_shape else "")] = [a + b for a, b in zip(r, values)]
    return rows


@test
def ops_equal_an_independent_computation(t):
    for seed in range(6):
        trace = random_trace(seed)
        path = t.write(f"t{seed}.json", trace)
        for by_shape in False, True:
            out = t.run(
                "ops",
                "-f",
                "json",
                "--timeunit=ns",
                *(["--group-by-input-shape"] if by_shape else []),
                path,
            ).out
            got = {}
            for r in json.loads(out):
                r = {k.split(" (ns)")[0]: v for k, v in r.items()}
                if r["Device"] == "CPU" and r["Name"] != "[memory]":
                    got[(r["Name"], r.get("Input Shapes", ""))] = [
                        r[k]
                        for k in (
                            "# of Calls",
                            "CPU total",
                            "Self CPU",
                            "CUDA total",
                            "Self CUDA",
                            "CPU Mem (B)",
                            "Self CPU Mem (B)",
                            "CUDA Mem (B)",
                            "Self CUDA Mem (B)",
                        )
                    ]
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
        return {
            (r["Name"], r.get("Device")): r
            for r in json.loads(t.run("ops", "-f", "json", *args, p).out)
        }

    every, one, two = rows(), rows("--step=4"), rows("--step=3,5-9")
    eq(
        [
            r["# of Calls"]
            for r in (
                every[("aten::addmm", "CPU")],
                one[("aten::addmm", "CPU")],
                two[("aten::addmm", "CPU")],
            )
        ],
        [3, 1, 2],
    )
    eq(every[("ProfilerStep*", "CPU")]["# of Calls"], 3)
    eq(every[("aten::addmm", "CPU")]["Total FLOPs"], 180)
    eq(len(rows("-n", "2")), 2)
    assert all(
        r["CPU total (us)"] >= 30 or r["CUDA total (us)"] >= 30
        for r in rows("--min-time=30us").values()
    )
    eq(list(rows("--sort=cpu_time_total"))[0], ("ProfilerStep*", "CPU"))
    table = t.run("ops", p).out
    assert "Self CPU time total: " in table and "Self CUDA time total: " in table, table
    steps = json.loads(t.run("ops", "--view=steps", "-f", "json", p).out)
    eq([r["Step"] for r in steps], [3, 4, 5])
    mem = json.loads(t.run("ops", "--view=memory", "-f", "json", p).out)
    eq(
        [(r["Device"], r["Allocations"], r["Allocated (B)"], r["Peak allocated (B)"]) for r in mem],
        [("CUDA 0", 3, 3000, 5000)],
    )
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
    trace = {
        "baseTimeNanoseconds": 1700000000000000000,
        "traceEvents": [
            {
                "ph": "X",
                "cat": "cpu_op",
                "name": "aten::mm",
                "pid": 1,
                "tid": 1,
                "ts": 1419247333400.5,
                "dur": 10,
                "args": {"External id": 3},
            }
        ]
        + [
            {
                "ph": "X",
                "cat": "kernel",
                "name": "gemm",
                "pid": 0,
                "tid": 7,
                "ts": ts,
                "dur": dur,
                "args": {"External id": 3, "correlation": i, "device": 0, "stream": 7},
            }
            for i, (ts, dur) in enumerate(kernels, 1)
        ],
    }
    path = t.write("far.json", trace)

    def rows(*args):
        return {r["Name"]: r for r in json.loads(t.run("ops", "-f", "json", *args, path).out)}

    exact, doubles = rows("--exact-times"), rows()
    eq(exact["aten::mm"]["CUDA total (us)"], 6.833)
    want = sum((ts + dur) - ts for ts, dur in kernels)
    assert abs(want - 6.833) > 1e-6 and abs(doubles["aten::mm"]["CUDA total (us)"] - want) < 1e-6, (
        want,
        doubles,
    )
    eq(doubles["gemm"]["CUDA total (us)"], 6.833)
    eq(rows("--double-times"), doubles)
    assert "give one of" in t.run("ops", "--double-times", "--exact-times", path, ok=False).err
    # Through a database and back, and beside another file.
    t.run("import", "-o", "far.wsrep", path)
    t.run("export", "-t", "sqlite", "-o", "far.sqlite", "far.wsrep")
    eq(t.run("ops", "-f", "csv", "far.sqlite").out, t.run("ops", "-f", "csv", path).out)
    t.run("import", "-o", "two.wsrep", t.write("near.json", kineto()), path)
    two = {r["Name"]: r for r in json.loads(t.run("ops", "-f", "json", "two.wsrep").out)}
    eq(
        [two["aten::mm"][k] for k in ("CUDA total (us)", "Self CUDA (us)", "# of Calls")],
        [doubles["aten::mm"][k] for k in ("CUDA total (us)", "Self CUDA (us)", "# of Calls")],
    )
    # Microseconds since 1970: a double has a quarter of one left, so they stay exact unless asked
    # for.
    for e in trace["traceEvents"]:
        e["ts"] = f"1712195{int(e['ts'] * 1000) % 10**12 / 1000:013.3f}"
    text = re.sub(
        r'"ts": "([0-9.]+)"',
        r'"ts": \1',
        json.dumps({"schemaVersion": 1, "traceEvents": trace["traceEvents"]}),
    )
    path = t.write("epoch.json", text)
    eq(rows()["aten::mm"]["CUDA total (us)"], 6.833)
    assert abs(rows("--double-times")["aten::mm"]["CUDA total (us)"] - 6.833) > 0.01


def gpu_times(events):
    """Total, busy, computation, communication, exposed communication, memory, exposed memory, idle,
    as doubles give them.
    """

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
        of[
            "mem" if e["cat"] != "kernel" else "comm" if e["name"].startswith("nccl") else "comp"
        ].append((e["ts"], e["ts"] + e["dur"]))
    spans = sum(of.values(), [])
    total, busy = max(b for _, b in spans) - min(a for a, _ in spans), length("comp", "comm", "mem")
    return (
        total,
        busy,
        length("comp"),
        length("comm"),
        length("comp", "comm") - length("comp"),
        length("mem"),
        busy - length("comp", "comm"),
        total - busy,
    )


@test
def gpu_time_breakdown_in_doubles(t):
    """To the digits of a tool that keeps ts and ts + dur as doubles, wherever the trace's zero is;
    exactly when asked for.
    """
    columns = (
        "Total",
        "Busy",
        "Computation",
        "Communication",
        "Exposed Comm",
        "Memory",
        "Exposed Mem",
        "Idle",
    )
    for base in 0, 3_000_000_000, 20_000_000_000, 1419247333430, 4458676522690, 7800000000000:
        r = random.Random(base)
        events = []
        for i in range(300):
            cat = r.choice(["kernel"] * 4 + ["gpu_memcpy", "gpu_memset"])
            name = {
                "kernel": r.choice(["gemm", "ncclDevKernel_AllReduce"]),
                "gpu_memcpy": "Memcpy DtoD (Device -> Device)",
                "gpu_memset": "Memset (Device)",
            }[cat]
            events.append(
                {
                    "ph": "X",
                    "cat": cat,
                    "name": name,
                    "pid": 0,
                    "tid": 7,
                    "ts": base * 1000 + 7000 * i + r.randrange(20000),
                    "dur": r.randrange(9000),
                    "args": {"correlation": i + 1, "device": 0, "stream": 7 + i % 3},
                }
            )
        events.append(
            {
                "ph": "X",
                "cat": "cpu_op",
                "name": "o",
                "pid": 5,
                "tid": 5,
                "ts": base * 1000,
                "dur": 1000,
                "args": {},
            }
        )
        text = re.sub(
            r'("ts"|"dur"): (\d+)',
            lambda m: f"{m[1]}: {int(m[2]) // 1000}.{int(m[2]) % 1000:03d}",
            json.dumps({"schemaVersion": 1, "traceEvents": events}),
        )
        path = t.write("t.json", text)
        exact = gpu_times(events[:-1])
        events = json.loads(text)["traceEvents"]
        want = gpu_times(events[:-1])
        for report, expected, most in ("gpu_time_breakdown", [1000 * v for v in want], 0.02), (
            "gpu_time_breakdown:exact",
            exact,
            0,
        ):
            got = json.loads(t.run("stats", "-q", "-f", "json", "-r", report, path).out)[0]
            for name, v in zip(columns, expected):
                assert abs(got[f"{name} (ns)"] - v) <= most, (
                    base,
                    report,
                    name,
                    got[f"{name} (ns)"],
                    v,
                )
    copies = json.loads(
        t.run("stats", "-q", "-f", "json", "-r", "gpu_time_breakdown:copies", path).out
    )[0]
    want = gpu_times(
        [e | ({"cat": "kernel"} if e["cat"] == "gpu_memset" else {}) for e in events[:-1]]
    )
    for name, v in zip(columns, want):
        assert abs(copies[f"{name} (ns)"] - 1000 * v) <= 0.02, (name, copies, v)


@test
def nvtx_ranges_are_operators_where_there_are_none(t):
    """As torch.autograd.profiler.emit_nvtx writes them: names with facts behind them."""
    gpid, gtid = 500 << 24, 500 << 24 | 501
    db = sqlite3.connect(t.path("nvtx.sqlite"))
    ranges = [
        (0, 1000, "step 7"),
        (10, 400, "aten::linear, seq = 3, op_id = 1, sizes = [[2, 3], [3, 4]]"),
        (20, 300, "aten::mm, op_id = 2, sizes = [[2, 3], [3, 4]]"),
        (450, 500, "aten::mm, op_id = 3, sizes = [[8, 8], [8, 8]], input_op_ids = [(1,0)]"),
        (600, 700, "data [x], sizes"),
        (1000, 2000, "step 8"),
        (1100, 1200, "aten::relu, op_id = 4"),
    ]
    calls = [(30, 40), (310, 330), (460, 470), (610, 620), (1110, 1120), (2100, 2110)]
    for sql in (
        "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)",
        "INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel'), (2, 'k')",
        (
            "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT,"
            " globalTid INTEGER)"
        ),
        (
            "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid"
            " INTEGER, correlationId INTEGER, nameId INTEGER)"
        ),
        (
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,"
            " streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER)"
        ),
    ):
        db.execute(sql)
    db.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, ?)", [(*r, gtid) for r in ranges])
    db.executemany(
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, 1)",
        [(*c, gtid, i) for i, c in enumerate(calls, 1)],
    )
    db.executemany(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 7, ?, ?, 2)",
        [(3000 + 100 * i, 3000 + 100 * i + 10 ** (i - 1) % 99, i, gpid) for i in range(1, 7)],
    )
    db.commit()
    lengths = [10 ** (i - 1) % 99 for i in range(1, 7)]
    db.close()

    def rows(*args):
        return {
            (r["Name"], r.get("Input Shapes", "")): tuple(
                r[k]
                for k in (
                    "# of Calls",
                    "CPU total (ns)",
                    "Self CPU (ns)",
                    "CUDA total (ns)",
                    "Self CUDA (ns)",
                )
            )
            for r in json.loads(
                t.run("ops", "-f", "json", "--timeunit=ns", *args, "nvtx.sqlite").out
            )
            if r["Device"] == "CPU"
        }

    a, b, c, d, e, f = lengths
    got = rows()
    eq(got[("aten::mm", "")], (2, 330, 310, a + c, a + c))
    eq(got[("aten::linear", "")], (1, 390, 90, a + b, b))
    eq(got[("data [x], sizes", "")], (1, 100, 90, d, d))
    eq((got[("step 7", "")][3:], got[("aten::relu", "")][3:]), ((a + b + c + d, 0), (e, e)))
    eq(got[("cudaLaunchKernel", "")][0], 6)
    shapes = rows("--group-by-input-shape")
    eq(
        [k for k in sorted(shapes) if k[0] == "aten::mm"],
        [("aten::mm", "[[2, 3], [3, 4]]"), ("aten::mm", "[[8, 8], [8, 8]]")],
    )
    eq({k[0] for k in rows("--step=8")}, {"step 8", "aten::relu", "cudaLaunchKernel"})
    eq(
        [
            r["Step"]
            for r in json.loads(t.run("ops", "--view=steps", "-f", "json", "nvtx.sqlite").out)
        ],
        [7, 8],
    )


@test
def annotations_are_ranges_of_gpu_time(t):
    def x(cat, name, ts, dur, pid=77, tid=77, **args):
        return {
            "ph": "X",
            "cat": cat,
            "name": name,
            "pid": pid,
            "tid": tid,
            "ts": ts,
            "dur": dur,
            "args": args,
        }

    trace = {
        "schemaVersion": 1,
        "traceEvents": [
            x("user_annotation", "forward", 10, 50),
            x("user_annotation", "inner", 20, 15),
            x("user_annotation", "idle", 100, 9),
        ],
    }
    for i, (call, start, name) in enumerate(
        [(12, 30, "gemm"), (22, 40, "relu"), (40, 70, "ncclDevKernel_AllReduce"), (80, 90, "gemm")],
        1,
    ):
        trace["traceEvents"] += [
            x("cuda_runtime", "cudaLaunchKernel", call, 5, correlation=i),
            x("kernel", name, start, 10, 0, 7, correlation=i, device=0, stream=7),
        ]
    rows = json.loads(
        t.run(
            "stats", "-q", "-f", "json", "-r", "gpu_time_breakdown:range", t.write("a.json", trace)
        ).out
    )
    eq(
        [
            (
                r["Part"],
                r["Total (ns)"],
                r["Busy (ns)"],
                r["Computation (ns)"],
                r["Communication (ns)"],
                r["Ops"],
            )
            for r in rows
        ],
        [("forward", 50000, 30000, 20000, 10000, 3), ("inner", 10000, 10000, 10000, 0, 1)],
    )


@test
def ops_modules(t):
    def module(name, ts, dur):
        return {
            "ph": "X",
            "cat": "python_function",
            "name": name,
            "pid": 77,
            "tid": 77,
            "ts": 1000 + ts,
            "dur": dur,
            "args": {"Python id": 1},
        }

    trace = kineto()
    trace["traceEvents"] += [
        module("nn.Module: Net_0", 0.5, 58),
        module("nn.Module: Linear_0", 0.75, 45),
        module("f.py(1): g", 0.8, 44),
    ]
    rows = json.loads(
        t.run("ops", "--view=modules", "-f", "json", "--timeunit=ns", t.write("m.json", trace)).out
    )
    got = [
        (
            r["Module"],
            r["Calls"],
            r["CPU total (ns)"],
            r["Self CPU (ns)"],
            r["CUDA total (ns)"],
            r["Self CUDA (ns)"],
        )
        for r in rows
    ]
    eq(got, [("Net_0", 1, 58000, 13000, 7002, 0), ("Net_0/Linear_0", 1, 45000, 45000, 7002, 7002)])


sys.exit(main())
