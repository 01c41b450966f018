#!/usr/bin/env python3
"""Tests of everything that is read from samples: test_cpu.py WARPSIGHT MAKE_CPU_REPORT MAKE_REPORT
[--update].

Figures of a report of random rows are computed again here, from the raw tables of its SQLite export
and in another way; tables of a report of few rows are compared with the files in golden/ (--update
rewrites them; read the difference before committing it). Prints TAP.
"""
import collections
import gzip
import json
import os
import sqlite3
import sys

from cpu_report import same_items, report, golden, table, rows, shown, wanted, Function, STATS
from tap import main, refused, run, same, skip_where_only_races_count, test

# ---- the command report ----


@test
def flat_table():
    got = table("report", "--timeunit=ns", report("random"))
    same_items(shown(got, "Function", "Module"), wanted(rows().samples), "flat")
    total = sum(s.weight for s in rows().samples)
    for r in got:
        same(abs(r["Self"] - 100 * r["Self Time"] / total) <= 0.05 + 1e-9, True, "share of %r" % r)
    same(
        [r["Self Time"] for r in got], sorted((r["Self Time"] for r in got), reverse=True), "order"
    )
    by_total = table("report", "--timeunit=ns", "--sort=total", report("random"))
    same(
        [r["Total Time"] for r in by_total],
        sorted((r["Total Time"] for r in got), reverse=True),
        "order by total",
    )


@test
def filters():
    all_of = rows().samples
    for args, keep in (
        (["--thread=1002"], lambda s: s.thread & 0xFFFFFF == 1002),
        (["--thread=odd"], lambda s: s.thread & 1),
        (["--process=200"], lambda s: s.thread >> 24 == 200),
        (["--process=200", "--thread=even"], lambda s: s.thread >> 24 == 200 and not s.thread & 1),
        (["--module=lib1.so"], lambda s: s.stack[0].module == "/lib/lib1.so"),
        (["--module=/lib/lib2.so"], lambda s: s.stack[0].module == "/lib/lib2.so"),
        (["--filter-time=1ms/2ms"], lambda s: 1000000 <= s.at <= 2000000),
        (["--filter-time=/50us", "--process=app"], lambda s: s.at <= 50000),
    ):
        got = table("report", "--timeunit=ns", *args, report("random"))
        same_items(
            shown(got, "Function", "Module"), wanted([s for s in all_of if keep(s)]), " ".join(args)
        )
    ((start, end),) = rows().db.execute(
        "SELECT start, end FROM NVTX_EVENTS WHERE text = 'odd' ORDER BY start LIMIT 1 OFFSET 3"
    )
    got = table("report", "--timeunit=ns", "--filter-nvtx=odd/3", report("random"))
    same_items(
        shown(got, "Function", "Module"),
        wanted([s for s in all_of if start <= s.at <= end]),
        "--filter-nvtx",
    )


@test
def frames_of_one_kind():
    def cut(keep, nothing):
        out = []
        for s in rows().samples:
            stack = tuple(f for f in s.stack if keep(f))
            out.append(s._replace(stack=stack or (Function(nothing, ""),)))
        return wanted(out)

    for kind, nothing, keep in (
        ("python", "[not in Python]", lambda f: f.module.endswith(".py")),
        ("native", "[only in Python]", lambda f: not f.module.endswith(".py")),
    ):
        got = table("report", "--timeunit=ns", "--frames=" + kind, report("random"))
        same_items(shown(got, "Function", "Module"), cut(keep, nothing), kind)


@test
def by_module():
    samples = []
    for s in rows().samples:
        samples.append(
            s._replace(
                stack=tuple(Function(f.module or f.name, f.module or f.name) for f in s.stack)
            )
        )
    want = {(k[0],): v for k, v in wanted(samples).items()}
    same_items(
        shown(table("report", "--timeunit=ns", "--by=module", report("random")), "Module"),
        want,
        "modules",
    )


@test
def by_thread():
    by = collections.defaultdict(list)
    for s in rows().samples:
        by["app (%d)" % (s.thread >> 24), rows().thread(s.thread)].append(s)
    want = {k: (len(v), sum(s.weight for s in v)) for k, v in by.items()}
    got = table("report", "--timeunit=ns", "--by=process,thread", report("random"))
    same_items(
        {(r["Process"], r["Thread"]): (r["Samples"], r["Total Time"]) for r in got}, want, "threads"
    )
    want = {k + f: v for k, samples in by.items() for f, v in wanted(samples).items()}
    got = table("report", "--timeunit=ns", "--by=process,thread,function", report("random"))
    same_items(shown(got, "Process", "Thread", "Function", "Module"), want, "functions of threads")


def paths(samples, order):
    """Total weight of every path from the top, and its own."""
    total, own = collections.Counter(), collections.Counter()
    for s in samples:
        stack = s.stack[::order]
        for i in range(1, len(stack) + 1):
            total[stack[:i]] += s.weight
        own[stack] += s.weight
    return {p: (total[p], own[p]) for p in total}


def tree(table_rows):
    out, path = {}, []
    for r in table_rows:
        del path[r["Lvl"] :]
        path.append(Function(r["Function"], r["Module"]))
        same(len(path), r["Lvl"] + 1, "levels follow")
        key = tuple(path)
        same(key in out, False, "a path stands once")
        out[key] = (r["Total Time"], r["Self Time"])
    return out


@test
def trees():
    for view, order in (("top-down", -1), ("bottom-up", 1)):
        got = tree(
            table("report", "--timeunit=ns", "--view=" + view, "--min-percent=0", report("random"))
        )
        same_items(got, paths(rows().samples, order), view)


@test
def limits():
    whole = paths(rows().samples, -1)
    sum_of = sum(s.weight for s in rows().samples)
    got = tree(
        table(
            "report",
            "--timeunit=ns",
            "--view=top-down",
            "--min-percent=2",
            "--depth=3",
            report("random"),
        )
    )
    same_items(
        got,
        {k: v for k, v in whole.items() if v[0] * 100 >= 2 * sum_of and len(k) <= 3},
        "--min-percent, --depth",
    )
    got = table("report", "--timeunit=ns", "--limit=5", report("random"))
    same(got, table("report", "--timeunit=ns", report("random"))[:5], "--limit")
    children = collections.Counter(
        k[:-1] for k in tree(table("report", "--view=top-down", "--limit=2", report("random")))
    )
    same(max(children.values()), 2, "--limit of children")
    err = run("report", "--limit=5", report("random")).err
    same("not shown" in err, True, "what was left out is said: " + err)


@test
def events_together():
    """Cycles of a thread and the clock of another: 4 samples of 1 ms, 3 of 2 ms."""

    def shares(*args):
        return [
            (r["Function"], r["Self"], r["Self Time"], r["Samples"])
            for r in table("report", *args, report("cycles"))
        ]

    same(shares(), [("step", 60.0, 6.0, 3), ("leaf", 40.0, 4.0, 4)], "usual samples")
    same(
        shares("--event=cpu-cycles"),
        [("leaf", 100.0, "", 4)],
        "cycles that are asked for are no time",
    )
    same(shares("--event=cache-misses"), [("main", 100.0, "", 1)], "misses")
    same(shares("--event=task-clock (Python)"), [("step", 100.0, 6.0, 3)], "clock")


@test
def cycles_are_no_time():
    """Eight samples of a counter that finds its way up, then two of 700 each: shares are of cycles,
    and times are not known.
    """
    found = [
        (r["Function"], r["Self"], r["Self Time"], r["Samples"])
        for r in table("report", report("untimed"))
    ]
    same(found, [("main", 84.6, "", 2), ("leaf", 15.4, "", 8)], "what was counted")


@test
def golden_reports():
    for name, args in (
        ("flat", []),
        ("top-down", ["--view=top-down"]),
        ("bottom-up", ["--view=bottom-up"]),
        ("line", ["--by=line"]),
        ("off-cpu", ["--show=off-cpu", "--by=thread,function"]),
        ("gpu", ["--show=gpu", "--view=top-down"]),
        ("python", ["--show=python", "--view=top-down"]),
        ("misses", ["--event=cache-misses"]),
    ):
        golden(
            "cpu.report.%s" % name, run("report", "-q", "--timeunit=ns", *args, report("small")).out
        )


@test
def default_without_a_gpu():
    """What ran and what was waited for, the first rows of each, and where there is more."""
    path = report("cycles")
    r = run("stats", "-f", "csv", path)
    for name in ("cpu_sample_sum", "thread_wait_sum"):
        whole = run("stats", "-q", "-f", "csv", "-r", name, path).out.decode().splitlines()
        for line in whole[:21]:
            same(line in r.out.decode().splitlines(), True, "%s: %s" % (name, line))
    same("warpsight report" in r.err, True, r.err)
    same("warpsight report" in run("stats", "-q", path).err, False, "-q")
    other = run("stats", "-f", "csv", report("small"))
    same(b"Self Samples" in other.out, False, "where a GPU was used")


@test
def golden_stats():
    for name in STATS + [
        "thread_wait_sum:reason",
        "thread_wait_sum:reason:thread",
        "cpu_gap_sum:stream=7",
        "cpu_gap_sum:thread=101",
        "cpu_gap_sum:min=500",
        "cpu_util:core:bin=5000",
        "cpu_sample_sum:line",
        "cpu_sample_sum:module",
    ]:
        golden(
            "cpu.%s.csv" % name.replace(":", "_"),
            run("stats", "-q", "-r", name, "-f", "csv", report("small")).out,
        )
    for name in ["thread_wait_sum", "cpu_gap_sum"]:
        golden(
            "calls.%s.csv" % name, run("stats", "-q", "-r", name, "-f", "csv", report("calls")).out
        )


# ---- exports ----


@test
def callchains():
    r = rows()
    got = collections.defaultdict(list)
    for i, name, module in r.db.execute(
        "SELECT id, symbol, module FROM SAMPLING_CALLCHAINS ORDER BY id, stackDepth"
    ):
        got[i].append((r.text[name], r.text[module]))
    want = {}
    for i, frame, stack in r.db.execute("SELECT id, frameId, callersId FROM COMPOSITE_EVENTS"):
        want[i] = [
            (n if not n.startswith("[") else None, m or "[Unknown]")
            for n, m in r.functions(frame, stack)
        ]
    for i, chain in want.items():
        same([g[1] for g in got[i]], [c[1] for c in chain], "modules of sample %d" % i)
        for g, c in zip(got[i], chain):
            same(
                g[0].startswith("0x") or g[0] == "[Unknown]" if c[0] is None else g[0] == c[0],
                True,
                "symbol %r, %r" % (g, c),
            )
    chains = {i for i, in r.db.execute("SELECT callchainId FROM OSRT_API WHERE callchainId")}
    same(
        {i for i, in r.db.execute("SELECT DISTINCT id FROM OSRT_CALLCHAINS")},
        chains,
        "stacks of calls",
    )
    same(len(chains) > 100, True, "stacks of calls to compare")
    for i in list(chains)[:50]:
        (depth,) = r.db.execute(
            "SELECT count(*) FROM OSRT_CALLCHAINS WHERE id = ?", (i,)
        ).fetchone()
        same(depth, len(r.functions(0, i)), "depth of %d" % i)


@test
def switches():
    got = rows().db.execute("SELECT start, cpu, isSchedIn, globalTid FROM SCHED_EVENTS").fetchall()
    want = []
    for start, end, cpu, g in rows().db.execute(
        "SELECT start, end, cpu, globalTid FROM WARPSIGHT_SCHED"
    ):
        want += [(start, cpu, 1, g), (end, cpu, 0, g)]
    same([g[0] for g in got], sorted(g[0] for g in got), "order of time")
    same(sorted(got), sorted(want), "rows")


@test
def counts_of_cores():
    got = (
        rows("small").db.execute("SELECT * FROM PERF_EVENT_CPU_RAW_EVENT ORDER BY start").fetchall()
    )
    same(
        got,
        [(1000, 3000, 0, 0, 1, 2000), (1500, 4000, 0, 3, 2, 10), (3000, 5000, 0, 0, 1, 14)],
        "counts",
    )


def folded_name(f):
    return ("%s (%s)" % f if f.module.endswith(".py") else f.name).replace(";", ":")


def folded(*args, kind="random"):
    out = {}
    for line in (
        run("export", "-q", "-t", "folded", "-o", "-", *args, report(kind))
        .out.decode()
        .splitlines()
    ):
        stack, cost = line.rsplit(" ", 1)
        same(stack in out, False, "a stack stands once")
        out[stack] = int(cost)
    return out


@test
def folded_stacks():
    want = collections.Counter()
    for s in rows().samples:
        want[";".join(folded_name(f) for f in s.stack[::-1])] += s.weight
    # functions of one name in several modules are apart in the tree and together in the text
    got = collections.Counter()
    for line in (
        run("export", "-q", "-t", "folded", "-o", "-", report("random")).out.decode().splitlines()
    ):
        stack, cost = line.rsplit(" ", 1)
        got[stack] += int(cost)
    same_items(got, want, "folded")
    golden(
        "cpu.folded",
        run(
            "export",
            "-q",
            "-t",
            "folded",
            "-o",
            "-",
            "--show=on-cpu,off-cpu,gpu",
            "--by=process,thread",
            report("small"),
        ).out,
    )


@test
def folded_stacks_of_a_time():
    want = collections.Counter()
    for s in rows().samples:
        if 1000000 <= s.at <= 1500000:
            want[";".join(folded_name(f) for f in s.stack[::-1])] += s.weight
    got = collections.Counter()
    for line in (
        run("export", "-q", "-t", "folded", "-o", "-", "--times=1ms/1.5ms", report("random"))
        .out.decode()
        .splitlines()
    ):
        stack, cost = line.rsplit(" ", 1)
        got[stack] += int(cost)
    same_items(got, want, "--times")


@test
def speedscope():
    run("export", "-q", "-f", "-t", "speedscope", "-o", "s.json", report("random"))
    with open("s.json") as f:
        data = json.load(f)
    frames = [f["name"] for f in data["shared"]["frames"]]
    got = {}
    for p in data["profiles"]:
        same(len(p["samples"]), len(p["weights"]), "as many weights")
        same(p["endValue"], sum(p["weights"]), "end")
        same(p["unit"], "nanoseconds", "unit")
        got[p["name"]] = [
            (tuple(frames[i] for i in s), w) for s, w in zip(p["samples"], p["weights"])
        ]
    want = collections.defaultdict(list)
    for s in sorted(rows().samples, key=lambda s: s.at):
        mine = want["app (%d) %s" % (s.thread >> 24, rows().thread(s.thread))]
        stack = s.stack[::-1]
        if mine and mine[-1][0] == stack:
            mine[-1][1] += s.weight
        else:
            mine.append([stack, s.weight])
    same_items(
        {k: v for k, v in got.items()},
        {k: [(tuple(f.name for f in s), w) for s, w in v] for k, v in want.items()},
        "profiles",
    )


def varint(data, at):
    v = shift = 0
    while True:
        b = data[at]
        v |= (b & 127) << shift
        at, shift = at + 1, shift + 7
        if not b & 128:
            return v, at


def message(data):
    """Fields of a protobuf message: number to a list of values."""
    out, at = collections.defaultdict(list), 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            v, at = varint(data, at)
        else:
            same(tag & 7, 2, "wire type")
            n, at = varint(data, at)
            v, at = data[at : at + n], at + n
            same(len(v), n, "length")
        out[tag >> 3].append(v)
    return out


def packed(values):
    out, at = [], 0
    data = b"".join(values)
    while at < len(data):
        v, at = varint(data, at)
        out.append(v)
    return out


def read_pprof(path):
    """Sample types, and samples as (stack of functions from innermost, labels, values)."""
    with open(path, "rb") as f:
        p = message(gzip.decompress(f.read()))
    text = [s.decode() for s in p[6]]
    same(text[0], "", "the first string is empty")
    functions = {m[1][0]: m for m in map(message, p[5])}
    mappings = {m[1][0]: text[m[5][0]] for m in map(message, p[3])}
    places = {}
    for m in map(message, p[4]):
        line = message(m[4][0])
        f = functions[line[1][0]]
        module = (
            mappings[m[2][0]]
            if m[2]
            else text[f[4][0]]
            if f[4] and text[f[4][0]].endswith(".py")
            else ""
        )
        places[m[1][0]] = Function(text[f[2][0]], module)
    types = [(text[t[1][0]], text[t[2][0]]) for t in map(message, p[1])]
    samples = []
    for m in map(message, p[2]):
        labels = {text[k[1][0]]: text[k[2][0]] for k in map(message, m[3])}
        samples.append(
            (tuple(places[i] for i in packed(m[1])), labels["thread"], tuple(packed(m[2])))
        )
    return types, samples


@test
def pprof():
    run("export", "-q", "-f", "-t", "pprof", "-o", "p.pb.gz", report("random"))
    types, samples = read_pprof("p.pb.gz")
    same(types, [("samples", "count"), ("cpu", "nanoseconds")], "types")
    got, want = collections.Counter(), collections.Counter()
    for stack, thread, values in samples:
        got[stack, thread] += values[1]
    for s in rows().samples:
        want[s.stack, rows().thread(s.thread)] += s.weight
    same_items(got, want, "samples")
    run(
        "export",
        "-q",
        "-f",
        "-t",
        "pprof",
        "--show=on-cpu,off-cpu,gpu",
        "-o",
        "p.pb.gz",
        report("random"),
    )
    types, samples = read_pprof("p.pb.gz")
    same(
        [t[0] for t in types],
        ["samples", "cpu", "waits", "wait", "operations", "gpu"],
        "types of three",
    )
    for column, query in (
        (1, "SELECT sum(cpuCycles) FROM COMPOSITE_EVENTS"),
        (5, "SELECT sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL"),
        (4, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL"),
    ):
        same(sum(s[2][column] for s in samples), rows().db.execute(query).fetchone()[0], query)


@test
def gpu_time_by_range():
    r = rows()
    want = collections.Counter()
    calls = {
        (g >> 24, c): (g, s, e)
        for g, c, s, e in r.db.execute(
            "SELECT globalTid, correlationId, start, end FROM CUPTI_ACTIVITY_KIND_RUNTIME"
        )
    }
    ranges = collections.defaultdict(list)
    for g, s, e, t in r.db.execute(
        "SELECT globalTid, start, end, text FROM NVTX_EVENTS ORDER BY start"
    ):
        ranges[g].append((s, e, t))
    for pid, c, s, e, name in r.db.execute(
        "SELECT globalPid >> 24, correlationId, start, end, demangledName FROM"
        " CUPTI_ACTIVITY_KIND_KERNEL"
    ):
        call = calls.get((pid, c))
        path = [t for a, b, t in ranges[call[0]] if a <= call[1] and call[2] <= b] if call else []
        want[tuple(path) + (r.text[name],)] += e - s
    got = tree(
        table(
            "report",
            "--timeunit=ns",
            "--show=gpu",
            "--view=top-down",
            "--min-percent=0",
            report("random"),
        )
    )
    same_items(
        {tuple(f.name for f in k): v[1] for k, v in got.items() if v[1]}, want, "report --show=gpu"
    )


# ---- bad input ----


@test
def refusals():
    random, calls = report("random"), report("calls")
    refused("report", words=["no report file"], code=2)
    refused("report", random, calls, words=["one report file"], code=2)
    refused("report", "--view=sideways", random, words=["sideways", "top-down"], code=2)
    refused("report", "--by=function,module", random, words=["--by", "function,module"], code=2)
    refused("report", "--depth=3", random, words=["--depth", "--view"], code=2)
    refused("report", "--view=top-down", "--depth=-3", random, words=["--depth"], code=2)
    refused("report", "--min-percent=lots", random, words=["--min-percent", "lots"], code=2)
    refused("report", "--min-percent=nan", random, words=["--min-percent", "nan"], code=2)
    refused("report", "--thread=nobody", random, words=["no thread 'nobody'"], code=1)
    refused("report", "--process=nothing", random, words=["no process 'nothing'"], code=1)
    refused("report", "--module=libnone.so", random, words=["libnone.so"], code=1)
    refused("report", "--event=branches", random, words=["branches"], code=1)
    refused("report", "--show=gpu", "--module=x", random, words=["--module"], code=2)
    refused("report", "--filter-time=x", random, words=["--filter-time"], code=2)
    refused("report", "-f", "xml", random, words=["xml"], code=2)
    refused("report", "missing", words=["missing"], code=1)
    refused("stats", "-q", "-r", "cpu_gap_sum:gpu=9", random, words=["GPU 9"])
    refused("stats", "-q", "-r", "cpu_gap_sum:stream=99", random, words=["stream 99"])
    refused("stats", "-q", "-r", "cpu_gap_sum:thread=9", random, words=["thread 9"])
    refused("stats", "-q", "-r", "cpu_gap_sum:cpu", calls, words=["context switches"])
    refused("stats", "-q", "-r", "cpu_util:bin=0", random, words=["bin=0"])
    refused("stats", "-q", "-r", "cpu_util:bin=1", random, words=["bin=1"])
    refused("stats", "-r", "sched_sum:x", random, words=["no arguments"])
    refused("export", "-t", "folded", "-o", "-", calls, words=["nothing of on-cpu"])
    refused(
        "export",
        "-t",
        "folded",
        "-o",
        "-",
        "--times=1us/2us,3us/4us",
        random,
        words=["--times", "one range"],
    )
    refused(
        "export", "-t", "folded", "--ts-shift=1", "-o", "-", random, words=["--ts-shift"], code=2
    )
    refused(
        "export", "-t", "sqlite", "--show=gpu", "-o", "x.sqlite", random, words=["--show"], code=2
    )
    same(os.path.exists("x.sqlite"), False, "no output")


@test
def nothing_recorded():
    r = run("report", report("calls"))
    same((r.out, "no CPU samples were recorded" in r.err), (b"", True), r.err)
    for name in STATS:
        r = run("stats", "-r", name, report("empty"))
        same((r.out, "skipped" in r.err), (b"", True), name + ": " + r.err)


@test
def hostile_rows():
    skip_where_only_races_count()
    for kind in ("hostile", "wild"):
        for name in STATS + ["cpu_gap_sum:cpu", "thread_wait_sum:reason", "cpu_sample_sum:line"]:
            for fmt in ("csv", "json"):
                r = run("stats", "-q", "-r", name, "-f", fmt, report(kind), ok=False)
                same(r.code in (0, 1), True, "%s of %s: exit %d" % (name, kind, r.code))
                if fmt == "json" and r.out.strip():
                    json.loads(r.out)
        for show in ("on-cpu", "off-cpu", "python", "gpu"):
            for view in ("flat", "top-down", "bottom-up"):
                r = run(
                    "report",
                    "-q",
                    "-f",
                    "json",
                    "--show=" + show,
                    "--view=" + view,
                    "--min-percent=0",
                    report(kind),
                    ok=False,
                )
                same(r.code in (0, 1), True, "%s of %s: exit %d" % (show, kind, r.code))
                if r.out.strip():
                    json.loads(r.out)
    run(
        "export",
        "-q",
        "-f",
        "-t",
        "speedscope",
        "-o",
        "h.json",
        "--show=on-cpu,off-cpu",
        report("hostile"),
    )
    with open("h.json") as f:
        json.load(f)
    run("export", "-q", "-f", "-t", "pprof", "-o", "h.pb.gz", report("hostile"))
    read_pprof("h.pb.gz")
    for stack in folded(kind="hostile"):
        same(any(ord(c) < 32 for c in stack), False, "controls in %r" % stack)
    run("export", "-q", "-f", "-o", "h.sqlite", report("hostile"))
    (deepest,) = (
        sqlite3.connect("h.sqlite")
        .execute("SELECT max(stackDepth) FROM SAMPLING_CALLCHAINS")
        .fetchone()
    )
    same(deepest, 4095, "the deepest stack is cut")


@test
def output_files():
    r = run("report", "-o", "out.csv", report("random"))
    same(r.out, b"", "standard output")
    with open("out.csv") as f:
        same(f.readline().startswith("Self (%),Self Time (ms),Samples"), True, "CSV to a file")
    refused("report", "-q", "-o", "out.csv", report("random"), words=["out.csv"], code=1)
    run("report", "-q", "-o", "out.csv", "--force-overwrite", report("random"))


sys.exit(main())
