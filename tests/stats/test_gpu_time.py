"""test_gpu_time.py WARPSIGHT MAKE_REPORT - the reports about time on GPUs, against a
moment-by-moment reckoning from the export; TAP.
"""
import collections, csv, io, os, sqlite3, statistics, subprocess, sys, tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import check, done

WARPSIGHT, MAKE = map(os.path.abspath, sys.argv[1:3])
COMPUTE, COMM, MEMORY = range(3)


def table(report, name, *options):
    r = subprocess.run(
        [WARPSIGHT, "stats", "-q", "-r", name, "-f", "csv", *options, report],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert r.returncode == 0, r
    return list(csv.DictReader(io.StringIO(r.stdout)))


Op = collections.namedtuple("Op", "start end gpu pid stream what call")


def read(db):
    """Operations with the GPU that they really ran on: the second one of each rank is the same."""
    names = dict(db.execute("SELECT id, value FROM StringIds"))
    calls = {
        (c, t >> 24): s
        for s, c, t in db.execute(
            "SELECT start, correlationId, globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME"
        )
    }
    collectives = {
        (c, p >> 24)
        for c, p in db.execute("SELECT correlationId, globalPid FROM WARPSIGHT_COLLECTIVE")
    }
    ops = []
    for start, end, device, pid, stream, corr, name in db.execute(
        "SELECT start, end, deviceId, globalPid >> 24, streamId, correlationId, shortName FROM"
        " CUPTI_ACTIVITY_KIND_KERNEL"
    ):
        comm = (
            names[name].startswith("nccl")
            or "ncclKernel" in names[name]
            or (corr, pid) in collectives
        )
        ops.append(
            Op(
                start,
                end,
                "shared" if device else pid,
                pid,
                stream,
                COMM if comm else COMPUTE,
                calls.get((corr, pid)),
            )
        )
    for start, end, device, pid, stream, corr in db.execute(
        "SELECT start, end, deviceId, globalPid >> 24, streamId, correlationId FROM"
        " CUPTI_ACTIVITY_KIND_MEMCPY"
    ):
        ops.append(
            Op(start, end, "shared" if device else pid, pid, stream, MEMORY, calls.get((corr, pid)))
        )
    return sorted(ops)


GPUS = {901: "Some GPU (0) of rank 5", 902: "Some GPU (0) of rank 6", "shared": "Some GPU (1)"}


def reckon(spans):
    """Every moment by itself: which classes were running."""
    moments = collections.defaultdict(int)
    for what, start, end in spans:
        for t in range(start, end):
            moments[t] |= 1 << what
    have = lambda f: sum(1 for m in moments.values() if f(m))
    return {
        "Busy": len(moments),
        "Computation": have(lambda m: m & 1),
        "Communication": have(lambda m: m & 2),
        "Memory": have(lambda m: m & 4),
        "Exposed Comm": have(lambda m: m & 2 and not m & 1),
        "Exposed Mem": have(lambda m: m == 4),
    }


def same_line(line, want, total, ops):
    want = dict(want, Total=total, Idle=total - want["Busy"])
    got = {k: int(line[k + " (ns)"]) for k in want}
    shares = all(
        abs(float(line[k + " (%)"]) - (v * 100 / total if total else 0)) < 1e-8
        for k, v in want.items()
        if k != "Total"
    )
    return got == want and shares and int(line["Ops"]) == ops


def span(ops):
    return max(o.end for o in ops) - min(o.start for o in ops)


def test_places(report, ops):
    for arg, key, label in (
        ("", lambda o: 0, lambda k: "all"),
        (":stream", lambda o: o.stream, lambda k: "stream %d" % k),
        (":rank", lambda o: o.pid, lambda k: "rank %d" % (k - 896)),
    ):
        lines = table(report, "gpu_time_breakdown" + arg)
        want = [
            (g, k)
            for g in (901, 902, "shared")
            for k in sorted({key(o) for o in ops if o.gpu == g})
        ]
        check(
            "gpu_time_breakdown%s: its lines" % arg,
            [(l["GPU"], l["Part"]) for l in lines] == [(GPUS[g], label(k)) for g, k in want],
            lines,
        )
        bad = []
        for line, (g, k) in zip(lines, want):
            mine = [o for o in ops if o.gpu == g and key(o) == k]
            if not same_line(
                line, reckon((o.what, o.start, o.end) for o in mine), span(mine), len(mine)
            ):
                bad.append(
                    (
                        line,
                        g,
                        k,
                        reckon((o.what, o.start, o.end) for o in mine),
                        span(mine),
                        len(mine),
                    )
                )
        check("gpu_time_breakdown%s: its figures" % arg, not bad, bad[:2])


def test_steps(report, ops, db):
    lines = table(report, "gpu_time_breakdown:step")
    steps = db.execute(
        "SELECT text, start, end, globalTid >> 24 FROM NVTX_EVENTS WHERE text LIKE 'step%' ORDER BY"
        " globalTid, start"
    ).fetchall()
    want, number = [], collections.Counter()
    for g in (901, 902, "shared"):
        number.clear()
        for text, start, end, pid in steps:
            n = number[pid]
            number[pid] += 1
            # Work without length is work, of the step that it begins in.
            cut = [
                (o.what, max(o.start, start), min(o.end, end))
                for o in ops
                if o.gpu == g
                and o.pid == pid
                and (o.start < end and o.end > start or start <= o.start == o.end < end)
            ]
            if cut:
                name = "rank %d %s" % (pid - 896, text if text != "step" else "step %d" % n)
                want.append((GPUS[g], name, reckon(cut), end - start, len(cut)))
    check(
        "by step: its lines",
        [(l["GPU"], l["Part"]) for l in lines] == [w[:2] for w in want],
        lines[:3],
    )
    bad = [(l, w) for l, w in zip(lines, want) if not same_line(l, *w[2:])]
    check("by step: its figures", len(lines) > 40 and not bad, bad[:2])
    named = table(report, "gpu_time_breakdown:step=forward")
    check(
        "steps of a name",
        named and all("forward" in l["Part"] and l["Total (ns)"] == "1500" for l in named),
        named[:2],
    )


def test_ranges(report, ops, db):
    lines = table(report, "gpu_time_breakdown:range")
    ranges = db.execute("SELECT text, start, end, globalTid >> 24 FROM NVTX_EVENTS").fetchall()
    want = {}
    for g in (901, 902, "shared"):
        for text, start, end, pid in ranges:
            inside = [
                o
                for o in ops
                if o.gpu == g
                and o.pid == pid
                and o.call is not None
                and start <= o.call
                and o.call + 9 <= end
            ]
            if not inside:
                continue
            figures, total, n = want.get((GPUS[g], text), (collections.Counter(), 0, 0))
            figures.update(reckon((o.what, o.start, o.end) for o in inside))
            want[(GPUS[g], text)] = (figures, total + span(inside), n + len(inside))
    got = {(l["GPU"], l["Part"]): l for l in lines}
    check("by range: its lines", set(got) == set(want), (sorted(got)[:4], sorted(want)[:4]))
    bad = [
        (got[k], w)
        for k, w in want.items()
        if k in got and not same_line(got[k], {f: w[0][f] for f in reckon([])}, *w[1:])
    ]
    check("by range: its figures", not bad, bad[:2])


def test_window(report, ops):
    start, end = 20000, 60000
    lines = table(report, "gpu_time_breakdown", "--filter-time", "20us/60us")
    bad = []
    for line, g in zip(lines, (901, 902, "shared")):
        cut = [
            (o.what, max(o.start, start), min(o.end, end))
            for o in ops
            if o.gpu == g and o.start <= end and o.end >= start
        ]
        total = max(c[2] for c in cut) - min(c[1] for c in cut)
        if not same_line(line, reckon(cut), total, len(cut)):
            bad.append((line, reckon(cut), total))
    check("a window cuts work to it", len(lines) == 3 and not bad, bad)


def test_overlap(report, ops):
    bad = []
    lines = table(report, "gpu_comm_overlap")
    for line, g in zip(lines, (901, 902, "shared")):
        mine = [o for o in ops if o.gpu == g]
        f = reckon((o.what, o.start, o.end) for o in mine)
        hidden = f["Communication"] - f["Exposed Comm"]
        want = [
            f["Computation"],
            f["Communication"],
            hidden,
            f["Exposed Comm"],
            sum(o.what == COMM for o in mine),
        ]
        got = [
            int(line[k])
            for k in (
                "Computation (ns)",
                "Communication (ns)",
                "Overlapped (ns)",
                "Exposed (ns)",
                "Comm Ops",
            )
        ]
        share = 100 * f["Communication"] / (f["Communication"] + f["Computation"])
        if (
            got != want
            or abs(float(line["Comm Share (%)"]) - share) > 1e-8
            or abs(float(line["Overlapped (%)"]) - 100 * hidden / f["Communication"]) > 1e-8
        ):
            bad.append((line, want, share))
    check("gpu_comm_overlap", len(lines) == 3 and not bad, bad)


def each_gap(ops, delay):
    """Cause, beginning and end of gaps, with the work that ended each; the end so far is a running
    maximum.
    """
    until = None
    for o in ops:
        if until is not None and o.start > until:
            yield (
                "unknown"
                if o.call is None
                else (
                    "host" if o.call > until else "launch" if o.start - until < delay else "waiting"
                )
            ), until, o.start, o
        until = o.end if until is None else max(until, o.end)


def gaps(ops, delay):
    out = collections.defaultdict(list)
    for cause, start, end, _ in each_gap(ops, delay):
        out[cause].append(end - start)
    return out


def test_idle_of_parts(report, ops, db):
    spans = db.execute(
        "SELECT text, start, end, globalTid >> 24 FROM NVTX_EVENTS ORDER BY globalTid, start"
    ).fetchall()
    want = {kind: collections.defaultdict(list) for kind in ("rank", "step", "range")}
    for g in (901, 902, "shared"):
        for pid in (901, 902):
            number = 0
            steps = []
            for text, start, end, p in spans:
                if p == pid and text.startswith("step"):
                    steps.append((text if text != "step" else "step %d" % number, start, end))
                    number += 1
            for cause, start, end, _ in each_gap(
                [o for o in ops if o.gpu == g and o.pid == pid], 30000
            ):
                want["rank"][(cause, "%s rank %d" % (GPUS[g], pid - 896))].append(end - start)
                for name, s, e in steps:
                    if min(e, end) > max(s, start):
                        want["step"][(cause, "%s rank %d %s" % (GPUS[g], pid - 896, name))].append(
                            min(e, end) - max(s, start)
                        )
        for cause, start, end, o in each_gap([o for o in ops if o.gpu == g], 30000):
            for text, s, e, p in spans:
                if o.call is not None and p == o.pid and s <= o.call and o.call + 9 <= e:
                    want["range"][(cause, "%s %s" % (GPUS[g], text))].append(end - start)
    for kind, lines in want.items():
        got = {
            (l["Cause"], l["GPU"]): (int(l["Idle Time (ns)"]), int(l["Gaps"]), int(l["Max (ns)"]))
            for l in table(report, "gpu_idle_causes:" + kind)
        }
        right = {k: (sum(v), len(v), max(v)) for k, v in lines.items()}
        check(
            "gpu_idle_causes:" + kind,
            got == right and len(got) > 2,
            (
                [
                    (k, got.get(k), right.get(k))
                    for k in set(got) | set(right)
                    if got.get(k) != right.get(k)
                ][:4],
                len(got),
            ),
        )


def test_idle(report, ops):
    for arg, delay in (("", 30000), (":delay=50", 50), (":stream:delay=200", 200)):
        lines = table(report, "gpu_idle_causes" + arg)
        want = {}
        for g in (901, 902, "shared"):
            by_stream = collections.defaultdict(list)
            for o in ops:
                if o.gpu == g:
                    by_stream[(o.pid, o.stream) if ":stream" in arg else 0].append(o)
            for key, mine in by_stream.items():
                for cause, lengths in gaps(mine, delay).items():
                    label = GPUS[g] + (" stream %d" % key[1] if key else "")
                    want.setdefault((cause, label), []).extend(lengths)
        got = {(l["Cause"], l["GPU"]): l for l in lines}
        check(
            "gpu_idle_causes%s: its lines" % arg, set(got) == set(want), (sorted(got), sorted(want))
        )
        bad = []
        for k, lengths in want.items():
            line = got.get(k, {})
            have = [
                line.get(c) for c in ("Idle Time (ns)", "Gaps", "Med (ns)", "Min (ns)", "Max (ns)")
            ]
            if have != [
                str(sum(lengths)),
                str(len(lengths)),
                "%.1f" % statistics.median(lengths),
                str(min(lengths)),
                str(max(lengths)),
            ]:
                bad.append((line, lengths[:5]))
        check("gpu_idle_causes%s: its figures" % arg, not bad, bad[:2])


def test_phases(report, db):
    spans = db.execute(
        "SELECT text, start, end, globalTid FROM NVTX_EVENTS ORDER BY globalTid, start, end DESC"
    ).fetchall()
    want, inside = collections.defaultdict(list), []
    for text, start, end, tid in spans:
        if text.startswith("step"):
            phases = [
                (t, b - a)
                for t, a, b, th in spans
                if th == tid and t in ("forward", "backward") and start <= a and b <= end
            ]
            for t, ns in phases:
                want[t].append(ns)
            want["[rest of the step]"].append(end - start - sum(ns for _, ns in phases))
    lines = table(report, "step_phases")
    got = {
        l["Phase"]: (
            int(l["Total Time (ns)"]),
            int(l["Instances"]),
            int(l["Min (ns)"]),
            int(l["Max (ns)"]),
        )
        for l in lines
    }
    check(
        "step_phases",
        got == {k: (sum(v), len(v), min(v), max(v)) for k, v in want.items()}
        and abs(sum(float(l["Time (%)"]) for l in lines) - 100) < 0.2,
        (got, {k: sum(v) for k, v in want.items()}),
    )


def main():
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "gpus.wsrep")
        subprocess.run([MAKE, "gpus", report], check=True)
        subprocess.run([WARPSIGHT, "export", "-q", "-t", "sqlite", report], check=True)
        db = sqlite3.connect(os.path.join(folder, "gpus.sqlite"))
        ops = read(db)
        test_places(report, ops)
        test_steps(report, ops, db)
        test_ranges(report, ops, db)
        test_window(report, ops)
        test_overlap(report, ops)
        test_idle(report, ops)
        test_idle_of_parts(report, ops, db)
        test_phases(report, db)
        r = subprocess.run(
            [WARPSIGHT, "stats", "-r", "gpu_time_breakdown:nope", report],
            capture_output=True,
            text=True,
        )
        check(
            "an argument that it does not take", r.returncode == 2 and "step=<name>" in r.stderr, r
        )
    return done()


sys.exit(main())
