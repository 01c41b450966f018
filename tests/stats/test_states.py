#!/usr/bin/env python3
"""Tests of what threads did and waited for, from scheduling and calls, and of cores and gaps:
test_states.py WARPSIGHT MAKE_CPU_REPORT MAKE_REPORT. As in test_cpu.py, figures of a report of
random rows are computed again here. Prints TAP.
"""
import bisect
import collections
import re
import statistics
import sys

from cpu_report import same_items, report, table, stats, rows
from tap import main, same, test

# ---- states of threads, in another way ----

Span = collections.namedtuple("Span", "start end doing reason function path object")
REASONS = {
    "read": "I/O",
    "pthread_mutex_lock": "lock",
    "pthread_cond_wait": "condition",
    "usleep": "sleep",
    "poll": "poll",
    "sem_wait": "semaphore",
    "frobnicate": "other call",
}


def around(spans, at):
    """The innermost span that holds the moment; spans nest."""
    return max((s for s in spans if s[0] <= at < s[1]), default=None, key=lambda s: s[0])


CALLS = {
    "futex": "futex",
    "epoll_pwait": "poll",
    "nanosleep": "sleep",
    "read": "I/O",
    "syscall 999": "other call",
}


def reason(r, g, start, end):
    at = start + (end - start) // 2
    found = around(r.gil.get(g, ()), at)
    if found:
        return "GIL", "", None, None
    found = around(r.cuda.get(g, ()), at)
    if found:
        return (
            "GPU synchronisation" if "Synchronize" in found[2] else "CUDA call",
            found[2],
            None,
            None,
        )
    found = around(r.osrt.get(g, ()), at)
    if found:
        return REASONS[found[2]], found[2], found[3], found[4]
    found = next((b for b in r.blocked.get(g, ()) if b[0] >= start), None)
    if found and found[1] <= end:
        return CALLS[found[2]], found[2], found[3], None
    return None


def read_calls(r):
    def grouped(query):
        out = collections.defaultdict(list)
        for g, *rest in r.db.execute(query):
            out[g].append(tuple(rest))
        return out

    r.gil = grouped("SELECT globalTid, start, end FROM WARPSIGHT_GIL WHERE state = 3")
    r.cuda = grouped(
        "SELECT globalTid, start, end, (SELECT value FROM StringIds WHERE id = nameId) FROM"
        " CUPTI_ACTIVITY_KIND_RUNTIME"
    )
    r.osrt = grouped(
        "SELECT o.globalTid, o.start, o.end, (SELECT value FROM StringIds WHERE id = o.nameId),"
        " path, object FROM OSRT_API o LEFT JOIN WARPSIGHT_OSRT_DETAIL d USING (globalTid, start)"
    )
    r.blocked = grouped(
        "SELECT globalTid, start, end, (SELECT value FROM StringIds WHERE id = nameId), (SELECT"
        " value FROM StringIds WHERE id = pathId) FROM WARPSIGHT_BLOCKED ORDER BY start"
    )
    r.sched = grouped(
        "SELECT globalTid, start, end, cpu, wokenTime, endState FROM WARPSIGHT_SCHED ORDER BY start"
    )


def pieces(start, end, spans):
    """[start, end) cut at the ends of spans."""
    cuts = sorted({start, end} | {t for s in spans for t in s[:2] if start < t < end})
    return list(zip(cuts, cuts[1:]))


def states(r):
    """By thread: spans in order."""
    if not hasattr(r, "states"):
        read_calls(r)
        r.states = {g: thread_states(r, g, v) for g, v in r.sched.items()}
    return r.states


def thread_states(r, g, sched):
    out = []
    (end_of_all,) = r.db.execute("SELECT max(stopTime) FROM ANALYSIS_DETAILS").fetchone()
    syncs = [c for c in r.cuda.get(g, ()) if "Synchronize" in c[2]]
    for i, (start, end, cpu, woken, after) in enumerate(sched):
        if i:
            off, why = sched[i - 1][1], sched[i - 1][4]
            ready = (
                off if why == 1 else woken if woken is not None and off <= woken <= start else start
            )
            if off < ready:
                found = reason(r, g, off, ready) or (
                    "kernel" if why == 3 else "not known",
                    "",
                    None,
                    None,
                )
                out.append(Span(off, ready, "waiting", *found))
            if ready < start:
                out.append(Span(ready, start, "runnable", "run queue", "", None, None))
        for a, b in pieces(start, end, syncs):
            sync = around(syncs, a)
            out.append(
                Span(
                    a,
                    b,
                    "running",
                    "GPU synchronisation" if sync else "",
                    sync[2] if sync else "",
                    None,
                    None,
                )
            )
    off, why = sched[-1][1], sched[-1][4]
    found = reason(r, g, off, end_of_all) or ("kernel" if why == 3 else "not known", "", None, None)
    if why == 1:
        out.append(Span(off, end_of_all, "runnable", "run queue", "", None, None))
    else:
        out.append(Span(off, end_of_all, "waiting", *found))
    return out


def cut(spans, start, end):
    for s in spans:
        s = s._replace(start=max(s.start, start), end=min(s.end, end))
        if s.start < s.end:
            yield s


def length(spans):
    return sum(s.end - s.start for s in spans)


@test
def scheduling():
    want = {}
    for g, spans in states(rows()).items():
        sched = rows().sched[g]
        want[g & 0xFFFFFF] = (
            length(s for s in spans if s.doing == "running"),
            len(sched),
            max(s[1] - s[0] for s in sched),
            length(s for s in spans if s.doing == "runnable"),
            max(s.end - s.start for s in spans if s.doing == "runnable"),
            length(s for s in spans if s.doing == "waiting"),
            len(sched),
            sum(s[4] == 1 for s in sched),
            sum(a[2] != b[2] for a, b in zip(sched, sched[1:])),
            len({s[2] for s in sched}),
        )
    got = {
        r["TID"]: (
            r["Run Time"],
            r["Runs"],
            r["Max Run"],
            r["Queue Time"],
            r["Max Queue"],
            r["Wait Time"],
            r["Switches"],
            r["Preempted"],
            r["Migrations"],
            r["Cores"],
        )
        for r in stats("sched_sum")
    }
    same_items(got, want, "sched_sum")


def wait_key(r, g, s):
    what = (
        s.path
        if s.path
        else (
            None
            if not s.object
            else ("0x%x" if s.reason in ("lock", "condition", "semaphore") else "%d") % s.object
        )
    )
    return g & 0xFFFFFF, s.reason, s.function, what or ""


@test
def waits():
    for args, window in (([], (0, 1 << 62)), (["--filter-time=500us/900us"], (500000, 900000))):
        by = collections.defaultdict(list)
        for g, spans in states(rows()).items():
            for s in cut(spans, *window):
                if s.doing != "running" or s.reason:
                    by[wait_key(rows(), g, s)].append(s.end - s.start)
        want = {k: (sum(v), len(v), min(v), max(v), statistics.median(v)) for k, v in by.items()}
        got = collections.defaultdict(list)
        for r in stats("thread_wait_sum", *args):
            what = re.split("held by|woken by", str(r["Object"]))[0].strip()
            got[r["TID"], r["Reason"], r["Function"], what].append(r)
        merged = {}
        for k, v in got.items():  # lines of several holders of one lock
            median = want[k][4] if len(v) > 1 and k in want else v[0]["Med"]
            merged[k] = (
                sum(r["Total Time"] for r in v),
                sum(r["Waits"] for r in v),
                min(r["Min"] for r in v),
                max(r["Max"] for r in v),
                median,
            )
        same_items(merged, want, "thread_wait_sum %s" % args)


def named(r, g):
    return "%s (%d)" % (rows().thread(g).rsplit(" (", 1)[0], g & 0xFFFFFF)


@test
def waits_name_who_held_and_who_woke():
    """Of the GIL, who held it longest during the wait; where nothing else is known, who woke the
    thread.
    """
    r = rows()
    states(r)
    holds = collections.defaultdict(list)
    for g, start, end in r.db.execute(
        "SELECT globalTid, start, end FROM WARPSIGHT_GIL WHERE state = 2 ORDER BY start, globalTid"
    ):
        holds[g >> 24].append((start, end, g))
    wakers = {
        (g, start): w
        for g, start, w in r.db.execute(
            "SELECT globalTid, start, wakerGlobalTid FROM WARPSIGHT_SCHED"
        )
    }
    want = collections.Counter()
    for g, spans in r.states.items():
        for s, after in zip(spans, [*spans[1:], None]):
            if s.doing == "waiting" and s.reason == "GIL":
                best = max(
                    ((min(e, s.end) - max(b, s.start), -b, h) for b, e, h in holds[g >> 24]),
                    default=(0,),
                    key=lambda o: o[:2],
                )
                want[
                    g & 0xFFFFFF, "GIL", "held by " + named(r, best[2]) if best[0] > 0 else ""
                ] += (s.end - s.start)
            elif s.doing == "waiting" and s.reason == "not known":
                follows = next(
                    (x for x in spans if x.start >= s.end and x.doing == "running"), None
                )
                waker = after and after.doing == "runnable" and wakers.get((g, follows.start))
                want[g & 0xFFFFFF, "not known", "woken by " + named(r, waker) if waker else ""] += (
                    s.end - s.start
                )
    got = collections.Counter()
    for line in stats("thread_wait_sum"):
        if line["Reason"] in ("GIL", "not known"):
            got[line["TID"], line["Reason"], line["Object"]] += line["Total Time"]
    same_items(got, want, "who held, who woke")
    for words in ("GIL", "held by"), ("not known", "woken by"):
        same(
            any(k[1] == words[0] and k[2].startswith(words[1]) for k in got), True, "%s %s" % words
        )


@test
def interpreter_lock():
    by, holds = collections.defaultdict(lambda: ([], [])), collections.defaultdict(list)
    for g, start, end, state in rows().db.execute(
        "SELECT globalTid, start, end, state FROM WARPSIGHT_GIL"
    ):
        by[g][state == 2].append(end - start)
        if state == 2:
            holds[g >> 24].append((start, g))
    handed = collections.Counter()
    for v in holds.values():
        v.sort()
        for (_, a), (_, b) in zip(v, v[1:]):
            handed[b] += a != b
    want = {
        g & 0xFFFFFF: (sum(w), len(w), max(w), sum(h), len(h), max(h), handed[g])
        for g, (w, h) in by.items()
    }
    got = {
        r["TID"]: (
            r["Wait Time"],
            r["Waits"],
            r["Max Wait"],
            r["Held Time"],
            r["Holds"],
            r["Max Held"],
            r["Handovers"],
        )
        for r in stats("gil_sum")
    }
    same_items(got, want, "gil_sum")


@test
def waits_by_reason():
    want = collections.Counter()
    for spans in states(rows()).values():
        for s in spans:
            if s.doing != "running" or s.reason:
                want[s.reason] += s.end - s.start
    same_items(
        {r["Reason"]: r["Total Time"] for r in stats("thread_wait_sum:reason")}, want, "reasons"
    )


@test
def off_cpu_by_reason():
    want = collections.Counter()
    for g, spans in states(rows()).items():
        for s in spans:
            if s.doing in ("waiting", "runnable"):
                label = "[%s%s%s]" % (
                    s.reason,
                    ": " + s.function if s.function else "",
                    " " + s.path if s.path else "",
                )
                want[rows().thread(g), label] += s.end - s.start
    got = collections.Counter()
    for r in table(
        "report", "--timeunit=ns", "--show=off-cpu", "--by=thread,function", report("random")
    ):
        if r["Function"].startswith("[") and r["Self Time"]:
            got[r["Thread"], r["Function"]] += r["Self Time"]
    same_items(got, want, "report --show=off-cpu")


@test
def utilization():
    bin_ns = 100000
    cores, threads = collections.Counter(), collections.Counter()
    states(rows())
    for g, sched in rows().sched.items():
        for start, end, cpu, *_ in sched:
            for i in range(start // bin_ns, (end - 1) // bin_ns + 1):
                part = min(end, (i + 1) * bin_ns) - max(start, i * bin_ns)
                cores[i * bin_ns, cpu] += part
                threads[i * bin_ns, g & 0xFFFFFF] += part
    got = stats("cpu_util:bin=%d" % bin_ns)
    same_items(
        {(r["Start"], r["Core"]): r["Run Time"] for r in got if r["Core"] != ""}, cores, "cores"
    )
    same_items(
        {(r["Start"], r["TID"]): r["Run Time"] for r in got if r["Core"] == ""}, threads, "threads"
    )
    for r in got:
        same(
            abs(r["Utilization"] - 100 * r["Run Time"] / r["Duration"]) < 0.051,
            True,
            "share of %r" % r,
        )
    same([r for r in got if r["Core"] != ""], stats("cpu_util:core:bin=%d" % bin_ns), ":core")
    same([r for r in got if r["Core"] == ""], stats("cpu_util:thread:bin=%d" % bin_ns), ":thread")


def merged(spans):
    out = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([start, end])
    return out


def gaps_between(spans):
    v = merged(spans)
    return [(a[1], b[0]) for a, b in zip(v, v[1:])]


def in_gaps(r, gaps):
    """Time of each (thread, state, reason, call) in the gaps."""
    want = collections.Counter()
    for g, spans in states(r).items():
        starts = [a for a, _ in gaps]
        for s in spans:
            for a, b in gaps[max(0, bisect.bisect(starts, s.start) - 1) :]:
                if a >= s.end:
                    break
                part = min(b, s.end) - max(a, s.start)
                if part > 0:
                    want[g & 0xFFFFFF, s.doing, s.reason, s.function] += part
    return want


@test
def what_threads_did_in_gaps():
    r = rows()
    work = list(
        r.db.execute("SELECT start, end, deviceId, streamId FROM CUPTI_ACTIVITY_KIND_KERNEL")
    )
    states(r)
    running = [s[:2] for v in r.sched.values() for s in v]
    one = [s[:2] for g, v in r.sched.items() for s in v if g & 0xFFFFFF == 1005]
    for arg, spans in (
        ("gpu=1", [w[:2] for w in work if w[2] == 1]),
        ("stream=8:gpu=0", [w[:2] for w in work if w[2:] == (0, 8)]),
        ("cpu", running),
        ("thread=1005", one),
    ):
        gaps = gaps_between(spans)
        got = stats("cpu_gap_sum:" + arg)
        same_items(
            {(v["TID"], v["State"], v["Reason"], v["Call"]): v["Time"] for v in got},
            in_gaps(r, gaps),
            arg,
        )
        idle = sum(b - a for a, b in gaps)
        for v in got:
            same(abs(v["Of Idle"] - 100 * v["Time"] / idle) < 0.051, True, "share of %r" % v)
    both = stats("cpu_gap_sum")
    same({v["Idle Resource"] for v in both}, {"GPU 0", "GPU 1"}, "resources")
    long_ones = [
        g for g in gaps_between([w[:2] for w in work if w[2] == 0]) if g[1] - g[0] >= 20000
    ]
    got = stats("cpu_gap_sum:gpu=0:min=20000")
    same_items(
        {(v["TID"], v["State"], v["Reason"], v["Call"]): v["Time"] for v in got},
        in_gaps(r, long_ones),
        "min=",
    )


@test
def functions_sampled_in_gaps():
    r = rows()
    gaps = gaps_between(
        r.db.execute("SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE deviceId = 0")
    )
    doing = collections.defaultdict(collections.Counter)
    for s in r.samples:
        if any(a <= s.at < b for a, b in gaps):
            python = [f for f in s.stack if f.module.endswith(".py")]
            doing[s.thread & 0xFFFFFF][(python or s.stack)[0]] += 1
    for v in stats("cpu_gap_sum:gpu=0"):
        if v["State"] != "running" or v["Reason"]:
            continue
        counts = doing[v["TID"]]
        best = [n for _, n in counts.most_common(3)]
        want = [(100 * n + sum(counts.values()) // 2) // sum(counts.values()) for n in best]
        same(
            [int(p.rsplit("(", 1)[1][:-2]) for p in v["Sampled In"].split(", ")],
            want,
            "shares of %r" % v,
        )


sys.exit(main())
