"""test_time.py - the time that samples stand for, whatever took them: test_time.py WARPSIGHT
REPLAY.

Machines are made up here, as records of their kernels' buffers (replay.c): threads that run and
wait on cores, and events that sample them as a clock or a counter of cycles does. Needs no events
of the machine that it runs on.
"""
import csv
import io
import json
import os
import random
import sqlite3
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import Skip, main, run, same, test  # noqa: E402

REPLAY = os.path.abspath(sys.argv[2])
PID, BEGIN, MS = 4190000, 1000000000, 1000000
CYCLES = 2.2  # a nanosecond
FIRST, SECOND = 0x400000, 0x500000  # where the files /app/first and /app/second lie
# Periods of a new event of 1000 Hz, as a kernel was seen to find them.
CLIMB = [1, 1, 1, 4, 14, 59, 249, 1045, 4426, 18870, 77937, 304655, 817208]


class Machine:
    """Records of cores on which threads run. Each thread has an event of its own, as inherited ones
    are; `wide`: each core has one.
    """

    def __init__(self, kind, frequency=1000, wide=False, drop=0.0, waits=True, seed=1):
        self.kind, self.period, self.wide, self.drop = kind, 1e9 / frequency, wide, drop
        self.lines = {cpu: [] for cpu in range(4)}
        self.head = ["event %s %d" % (kind, frequency), "begin %d" % BEGIN]
        self.random = random.Random(seed)
        self.events, self.ran, self.taken = {}, {}, {}
        self.last = BEGIN
        self.put(BEGIN + 1, 0, "exec %d %d 0 app" % (PID, BEGIN + 1))
        for at, path in ((FIRST, "/app/first"), (SECOND, "/app/second")):
            self.put(BEGIN + 2, 0, "map %d %d %d 0 %x 100000 %s" % (PID, PID, BEGIN + 2, at, path))
        if waits:  # the target, soon after its exec
            self.put(BEGIN + 3, 0, "out %d %d %d 0" % (PID, PID, BEGIN + 3))

    def put(self, time, cpu, line):
        self.lines[cpu].append((time, len(self.lines[cpu]), line))
        self.last = max(self.last, time)

    def next_sample(self, key):
        """Nanoseconds until the event fires next, and the period that it says then."""
        n = self.events.setdefault(key, {"n": 0, "left": None})
        if self.kind == "clock":
            return self.period, int(self.period)
        period = CLIMB[n["n"]] if n["n"] < len(CLIMB) else int(CYCLES * self.period)
        return max(period / CYCLES, 1500), period  # an interrupt takes that long itself

    def span(self, tid, start, length, cpu=0, place=FIRST, pid=PID, switches=True, preempted=False):
        """The thread runs from `start` for `length` nanoseconds."""
        key = ("cpu", cpu) if self.wide else tid
        end, now = start + length, start
        if switches:
            self.put(start, cpu, "in %d %d %d %d" % (pid, tid, start, cpu))
        while True:
            step, period = self.next_sample(key)
            event = self.events[key]
            step = event["left"] if event["left"] is not None else step
            if now + step > end:
                event["left"] = step - (end - now)
                break
            now, event["left"] = now + step, None
            event["n"] += 1
            if self.random.random() >= self.drop:
                self.put(
                    int(now),
                    cpu,
                    "sample %d %d %d %d %x %d" % (pid, tid, int(now), cpu, place + 16, period),
                )
                self.taken[tid] = self.taken.get(tid, 0) + 1
        if switches:
            self.put(
                end,
                cpu,
                "out %d %d %d %d%s" % (pid, tid, end, cpu, " preempted" if preempted else ""),
            )
        self.ran[tid] = self.ran.get(tid, 0) + length

    def thread(self, tid, time, cpu=0):
        self.put(time, cpu, "fork %d %d %d %d %d %d" % (PID, tid, PID, PID, time, cpu))

    def exit(self, tid, time, cpu=0, pid=PID):
        self.put(time, cpu, "exit %d %d %d %d" % (pid, tid, time, cpu))

    def record(self, path="r.wsrep"):
        """Have the recorder come round each 20 ms, as it does."""
        records, due = [], BEGIN
        for time, _, _, line in sorted(
            (time, cpu, n, line) for cpu, lines in self.lines.items() for time, n, line in lines
        ):
            while time > due:
                due += 20 * MS
                records.append("round %d" % (due - 20 * MS))
            records.append(line)
        text = "\n".join([*self.head, *records, "end %d" % (self.last + MS)]) + "\n"
        p = subprocess.run([REPLAY, path], input=text.encode(), stderr=subprocess.PIPE)
        same((p.returncode, p.stderr), (0, b""), "replay")
        return path


def table(*args):
    return list(csv.DictReader(io.StringIO(run(*args).out.decode())))


def column(row, name):
    return next(v for k, v in row.items() if k.split(" (")[0] == name)


def tid_of(label):
    return int(label.rsplit("(", 1)[1].rstrip(")"))


def near(got, want, what, within=0.02):
    if abs(got - want) > within * want:
        raise AssertionError("%s: %.6g, not %.6g" % (what, got, want))


def shown(path):
    """Nanoseconds of each thread: in report, by the scheduler, in SQLite."""
    self_, run_, sql = {}, {}, {}
    for r in table("report", "-q", "-f", "csv", "--by=thread,function", path):
        tid = tid_of(r["Thread"])
        self_[tid] = self_.get(tid, 0) + float(column(r, "Self Time")) * 1e6
    for r in table("stats", "-q", "-f", "csv", "-r", "sched_sum", path):
        run_[int(r["TID"])] = float(column(r, "Run Time"))
    run("export", "-q", "-f", "true", "-t", "sqlite", "-o", "x.sqlite", path)
    db = sqlite3.connect("x.sqlite")
    for gtid, ns in db.execute(
        "SELECT globalTid, SUM(cpuTime) FROM COMPOSITE_EVENTS WHERE eventId = 1 GROUP BY 1"
    ):
        sql[gtid & 0xFFFFFF] = ns
    db.close()
    return self_, run_, sql


def check(m, path=None):
    """Every figure of every thread is what it has run."""
    self_, run_, sql = shown(path or m.record())
    same(sorted(self_), sorted(m.ran), "threads with self time")
    for tid, ns in m.ran.items():
        near(run_[tid], ns, "sched_sum of %d" % tid)
        near(self_[tid], run_[tid], "report of %d (%d samples)" % (tid, m.taken.get(tid, 0)))
        near(sql[tid], run_[tid], "SQLite of %d" % tid)
    near(sum(self_.values()), sum(m.ran.values()), "the sum of all")


def two_threads(m, first=400, second=200):
    """As perf record was tried with: two threads, of which each runs in slices and waits in
    between.
    """
    at = BEGIN + MS
    for i in range(100):
        m.span(PID, at, first * 10000, cpu=0, place=FIRST, preempted=i % 2)
        if not i:
            m.thread(PID + 1, at, 0)
        m.span(PID + 1, at + 100, second * 10000, cpu=1, place=SECOND)
        at += (max(first, second) + 100) * 10000
    m.exit(PID + 1, at, 1)
    m.exit(PID, at + 10)
    return m


@test
def a_counter_that_finds_its_way_up():
    for frequency in (100, 1000, 5000):
        for wide in (False, True):
            m = two_threads(Machine("cycles", frequency, wide))
            check(m)
            shares = {
                r["Function"]: float(column(r, "Self"))
                for r in table("report", "-q", "-f", "csv", "r.wsrep")
            }
            near(shares["[first]"], 66.7, "share of the first", 0.02)


@test
def a_clock():
    for frequency in (100, 1000, 5000):
        for wide in (False, True):
            check(two_threads(Machine("clock", frequency, wide)))


@test
def fifty_brief_threads():
    """Each is young when its event still climbs, or never fires."""
    for kind in ("clock", "cycles"):
        for frequency in (100, 1000, 5000):
            m = Machine(kind, frequency)
            m.span(PID, BEGIN + MS, 60 * MS)
            for i in range(50):
                start = BEGIN + (70 + i) * MS
                m.thread(PID + 1 + i, start - 10, 0)
                m.span(PID + 1 + i, start, 700000 + 7000 * i, cpu=i % 4)
                m.exit(PID + 1 + i, start + 1200000, i % 4)
            check(m)


@test
def children():
    for kind in ("clock", "cycles"):
        m = Machine(kind)
        m.span(PID, BEGIN + MS, 10 * MS)
        for i in range(20):
            child, start = PID + 100 + i, BEGIN + (20 + 4 * i) * MS
            m.put(start, 1, "fork %d %d %d %d %d 1" % (child, child, PID, PID, start))
            m.span(child, start + 10, 1500000 + 50000 * i, cpu=1, pid=child)
            m.exit(child, start + 3 * MS, 1, child)
        check(m)


@test
def the_kernel_takes_fewer():
    """It pauses the sampling: most samples are not taken."""
    for kind in ("clock", "cycles"):
        for drop in (0.5, 0.9, 1.0):
            m = two_threads(Machine(kind, drop=drop))
            for i in range(10):
                m.put(BEGIN + (20 + i) * MS, 0, "throttle %d 0" % (BEGIN + (20 + i) * MS))
            check(m)
            said = run("info", "r.wsrep").out.decode()
            same("paused the sampling 10 times" in said, True, "said: " + said[-600:])
            same(
                "[not sampled]" in run("report", "-q", "-f", "csv", "r.wsrep").out.decode(),
                drop == 1.0,
                "what no sample was taken of",
            )


@test
def a_rate_that_falls_in_the_run():
    m = Machine("clock")
    at = BEGIN + MS
    for period in (1, 1, 1, 4, 4, 8):
        m.period = period * MS
        m.span(PID, at, 80 * MS)
        at += 90 * MS
    check(m)


@test
def who_was_never_switched():
    """The target begins to run with its exec, and a core of its own takes it from none."""
    m = Machine("cycles", waits=False)
    m.span(PID, BEGIN + 10, 200 * MS, switches=False)
    m.exit(PID, BEGIN + 10 + 200 * MS)
    check(m)


@test
def lost_records():
    """No time is made up for what nobody saw: neither the gap nor what precedes the first sample
    after it counts.
    """
    for kind in ("clock", "cycles"):
        m = Machine(kind)
        m.span(PID, BEGIN + MS, 50 * MS)
        m.put(BEGIN + 60 * MS, 0, "in %d %d %d 0" % (PID, PID, BEGIN + 60 * MS))
        m.put(BEGIN + 900 * MS, 0, "lost %d 0 500" % (BEGIN + 900 * MS))
        m.span(PID, BEGIN + 901 * MS, 49 * MS, switches=False)
        m.put(BEGIN + 950 * MS, 0, "out %d %d %d 0" % (PID, PID, BEGIN + 950 * MS))
        self_ = shown(m.record())[0]
        near(self_[PID], 98 * MS, "self time with %s" % kind, 0.04)
        same("500" in run("info", "r.wsrep").out.decode(), True, "how many were lost is said")


def rows(report, path, *names):
    return [
        tuple(float(column(r, n)) if column(r, n) else None for n in names)
        for r in table("stats", "-q", "-f", "csv", "-r", report, path)
    ]


def unknown_of(path):
    return {
        int(tid): (run, unknown)
        for tid, run, unknown in rows("sched_sum", path, "TID", "Run Time", "Unknown Time")
    }


def check_cores(path):
    """No core is busier than it can be, and known and unknown time fit into what there was."""
    for share, length, run, unknown, core in rows(
        "cpu_util:core:bin=10000000",
        path,
        "Utilization",
        "Duration",
        "Run Time",
        "Unknown Time",
        "Core",
    ):
        same(share <= 100 and run + unknown <= length, True, "core %s: %s" % (core, (run, unknown)))


@test
def one_core_of_two_loses():
    """The span on the core ends with its last record; one on another core goes on. Who slept may
    have run: nobody knows until its next record.
    """
    m = Machine("clock")
    for tid in (PID + 1, PID + 2, PID + 3):
        m.thread(tid, BEGIN + 10, 0)
    m.span(PID + 3, BEGIN + MS, MS, cpu=2)  # it sleeps to the end
    m.put(BEGIN + 10 * MS, 0, "in %d %d %d 0" % (PID, PID + 1, BEGIN + 10 * MS))
    m.put(BEGIN + 20 * MS, 0, "sample %d %d %d 0 400010 1000000" % (PID, PID + 1, BEGIN + 20 * MS))
    m.put(BEGIN + 900 * MS, 0, "lost %d 0 500" % (BEGIN + 900 * MS))
    m.span(PID + 2, BEGIN + 15 * MS, 900 * MS, cpu=1)
    m.put(BEGIN + 1000 * MS, 3, "map %d %d %d 3 600000 1000 /x" % (PID, PID, BEGIN + 1000 * MS))
    path = m.record()
    got = unknown_of(path)
    near(got[PID + 1][0], 10 * MS, "run on the core that lost")
    near(got[PID + 1][1], 895 * MS, "unknown of it")
    near(got[PID + 2][0], 900 * MS, "run on the other core")
    same(got[PID + 2][1], 0.0, "unknown of it")
    near(got[PID + 3][1], 895 * MS, "unknown of the sleeper")
    check_cores(path)
    near(
        sum(r[0] for r in rows("cpu_util:core", path, "Unknown Time")), 880 * MS, "unknown of cores"
    )
    for command in (["info", path], ["stats", "-r", "sched_sum", path], ["report", path]):
        p = run(*command)
        said = p.out.decode() + p.err
        same("unknown for 0.880 s of core time" in said, True, "%s says: %s" % (command, said))


def images(path):
    """What ran in the child: the files of its rows, in order of id."""
    run("export", "-q", "-f", "true", "-t", "sqlite", "-o", "x.sqlite", path)
    db = sqlite3.connect("x.sqlite")
    got = db.execute(
        "SELECT executable FROM WARPSIGHT_PROCESS WHERE pid = ? ORDER BY id",
        (PID + 1,),
    ).fetchall()
    db.close()
    return [name for name, in got]


def start_child(m, exec_at):
    """A child that is forked at 1 ms and calls exec later; it is switched in and out before."""
    m.put(BEGIN + MS, 0, "fork %d %d %d %d %d 0" % (PID + 1, PID + 1, PID, PID, BEGIN + MS))
    m.span(PID + 1, BEGIN + 2 * MS, MS, pid=PID + 1)
    m.put(exec_at - MS, 0, "in %d %d %d 0" % (PID + 1, PID + 1, exec_at - MS))
    m.put(exec_at, 0, "exec %d %d 0 env" % (PID + 1, exec_at))
    m.put(exec_at + 10, 0, "map %d %d %d 0 700000 1000 /bin/env" % (PID + 1, PID + 1, exec_at + 10))


def end_child(m, time):
    m.put(time, 0, "out %d %d %d 0" % (PID + 1, PID + 1, time))
    m.put(time + 10, 0, "exit %d %d %d 0" % (PID + 1, PID + 1, time + 10))
    m.put(time + 100 * MS, 0, "map %d %d %d 3 600000 1000 /x" % (PID, PID, time + 100 * MS))


@test
def hooks_that_register_late():
    """They have spoken when perf's patience is over, but later than its records reach: the image
    has one row.
    """
    m = Machine("clock")
    start_child(m, BEGIN + 5 * MS)
    m.put(BEGIN + 6 * MS, 0, "out %d %d %d 0" % (PID + 1, PID + 1, BEGIN + 6 * MS))
    # The round after this one takes what is older than 120 ms.
    m.put(BEGIN + 119 * MS, 0, "registered %d %d /bin/env" % (PID + 1, BEGIN + 139 * MS))
    m.put(BEGIN + 138 * MS, 0, "in %d %d %d 0" % (PID + 1, PID + 1, BEGIN + 138 * MS))
    end_child(m, BEGIN + 200 * MS)
    same(images(m.record()), ["/bin/env"], "images of the child")


@test
def starved_between_fork_and_exec():
    """A child of posix_spawn that gets no processor for a while has no image before its exec."""
    m = Machine("clock")
    m.put(BEGIN, 0, "slow %d" % (PID + 1))
    start_child(m, BEGIN + 300 * MS)
    m.put(BEGIN + 305 * MS, 0, "registered %d %d /bin/env" % (PID + 1, BEGIN + 304 * MS))
    end_child(m, BEGIN + 400 * MS)
    same(images(m.record()), ["/bin/env"], "images of the child")


@test
def child_without_hooks():
    """One that had the processor and was silent has a row, and then another for what it calls."""
    m = Machine("clock")
    start_child(m, BEGIN + 300 * MS)
    m.put(BEGIN + 305 * MS, 0, "registered %d %d /bin/env" % (PID + 1, BEGIN + 304 * MS))
    end_child(m, BEGIN + 400 * MS)
    same(len(images(m.record())), 2, "images of the child")


@test
def paused_switches():
    """Where switches were not recorded on purpose, a span ends with the pause, samples stand for
    their period, and the thread is known again from its next record on.
    """
    m = Machine("clock", wide=True)
    for tid in (PID + 1, PID + 2):
        m.thread(tid, BEGIN + 10, 0)
    m.span(PID + 1, BEGIN + MS, 50 * MS)
    m.put(BEGIN + 60 * MS, 0, "in %d %d %d 0" % (PID, PID + 1, BEGIN + 60 * MS))
    m.span(PID + 1, BEGIN + 60 * MS, 40 * MS, switches=False)
    m.put(BEGIN + 100 * MS, 0, "pause %d" % (BEGIN + 100 * MS))
    # Still recorded on one core, and not to be used.
    m.put(BEGIN + 101 * MS, 1, "in %d %d %d 1" % (PID, PID + 2, BEGIN + 101 * MS))
    m.span(PID + 1, BEGIN + 110 * MS, 100 * MS, switches=False)
    m.put(BEGIN + 300 * MS, 0, "resume %d" % (BEGIN + 300 * MS))
    m.span(PID + 1, BEGIN + 310 * MS, 39 * MS, switches=False)
    m.put(BEGIN + 350 * MS, 0, "out %d %d %d 0" % (PID, PID + 1, BEGIN + 350 * MS))
    m.put(BEGIN + 399 * MS, 1, "out %d %d %d 1" % (PID, PID + 2, BEGIN + 399 * MS))
    path = m.record()
    self_ = shown(path)[0]
    near(self_[PID + 1], 230 * MS, "self time")
    got = unknown_of(path)
    near(got[PID + 1][0], 129 * MS, "run", 0.03)
    near(got[PID + 1][1], 210 * MS, "unknown", 0.03)
    same(got[PID + 2][0] < MS, True, "run of the thread that was seen in the pause only")
    check_cores(path)
    near(
        sum(r[0] for r in rows("cpu_util:core", path, "Unknown Time")), 800 * MS, "unknown of cores"
    )
    said = run("info", path).out.decode()
    same("not recorded for 0.200 of" in said, True, "info says: %s" % said)


@test
def sparse_samples():
    """A sparse sample stands for four periods, though the kernel reports one."""
    m = Machine("clock", wide=True)
    m.thread(PID + 1, BEGIN + 10, 0)
    m.span(PID + 1, BEGIN + MS, 50 * MS)
    m.put(BEGIN + 100 * MS, 0, "pause %d" % (BEGIN + 100 * MS))
    m.put(BEGIN + 100 * MS, 0, "sparse %d 0" % (BEGIN + 100 * MS))
    for i in range(25):
        at = BEGIN + (104 + 4 * i) * MS
        m.put(at, 0, "sample %d %d %d 0 400010 1000000" % (PID, PID + 1, at))
    m.put(BEGIN + 300 * MS, 0, "resume %d" % (BEGIN + 300 * MS))
    m.put(BEGIN + 300 * MS, 0, "dense %d 0" % (BEGIN + 300 * MS))
    m.span(PID + 1, BEGIN + 310 * MS, 39 * MS)
    path = m.record()
    near(shown(path)[0][PID + 1], 189 * MS, "self time")
    said = run("info", path).out.decode()
    same("For up to 0.200 s of a core" in said, True, "info says: %s" % said)


@test
def sparse_samples_of_known_switches():
    """Where switches are recorded, their times are shared among sparse samples."""
    m = Machine("clock", wide=True)
    m.thread(PID + 1, BEGIN + 10, 0)
    m.put(BEGIN + 10 * MS, 0, "sparse %d 0" % (BEGIN + 10 * MS))
    m.put(BEGIN + 10 * MS, 0, "in %d %d %d 0" % (PID, PID + 1, BEGIN + 10 * MS))
    for i in range(20):
        at = BEGIN + (14 + 4 * i) * MS
        m.put(at, 0, "sample %d %d %d 0 400010 1000000" % (PID, PID + 1, at))
    m.put(BEGIN + 90 * MS, 0, "out %d %d %d 0 0" % (PID, PID + 1, BEGIN + 90 * MS))
    near(shown(m.record())[0][PID + 1], 80 * MS, "self time")


@test
def moved_while_records_were_lost():
    """It goes on on another core before the loss on its old one is told of."""
    m = Machine("clock")
    m.put(BEGIN + 10 * MS, 0, "in %d %d %d 0" % (PID, PID, BEGIN + 10 * MS))
    m.put(BEGIN + 30 * MS, 0, "sample %d %d %d 0 400010 1000000" % (PID, PID, BEGIN + 30 * MS))
    m.span(PID, BEGIN + 200 * MS, 100 * MS, cpu=1)
    m.put(BEGIN + 900 * MS, 0, "lost %d 0 500" % (BEGIN + 900 * MS))
    path = m.record()
    near(unknown_of(path)[PID][0], 120 * MS, "run")
    check_cores(path)


@test
def sampled_on_another_core():
    """A sample there shows that its switches were lost, before a loss is told of."""
    for kind in ("clock", "cycles"):
        m = Machine(kind)
        m.span(PID, BEGIN + 5 * MS, 10 * MS)
        m.put(BEGIN + 30 * MS, 0, "in %d %d %d 0" % (PID, PID, BEGIN + 30 * MS))
        m.put(BEGIN + 600 * MS, 1, "sample %d %d %d 1 400010 1000" % (PID, PID, BEGIN + 600 * MS))
        m.put(BEGIN + 610 * MS, 1, "out %d %d %d 1" % (PID, PID, BEGIN + 610 * MS))
        m.put(BEGIN + 900 * MS, 0, "lost %d 0 500" % (BEGIN + 900 * MS))
        path = m.record()
        near(shown(path)[0][PID], 20 * MS, "self time with %s" % kind)
        near(unknown_of(path)[PID][0], 20 * MS, "run time with %s" % kind)


@test
def ends_that_were_lost():
    """Processes that ended meanwhile, one of which nobody hears of again and one whose number is
    given anew.
    """
    m = Machine("clock")
    for i, child in enumerate((PID + 100, PID + 200)):
        start = BEGIN + (5 + i) * MS
        m.put(start, i, "fork %d %d %d %d %d %d" % (child, child, PID, PID, start, i))
        m.put(start + MS, i, "in %d %d %d %d" % (child, child, start + MS, i))
        m.put(
            start + 2 * MS,
            i,
            "sample %d %d %d %d 400010 1000000" % (child, child, start + 2 * MS, i),
        )
        m.put(start + 300 * MS, i, "lost %d %d 500" % (start + 300 * MS, i))
    again = BEGIN + 500 * MS
    m.put(BEGIN + 290 * MS, 2, "dead %d" % (PID + 100))
    m.put(again, 2, "fork %d %d %d %d %d 2" % (PID + 200, PID + 200, PID, PID, again))
    m.span(PID + 200, again + MS, 50 * MS, cpu=2, pid=PID + 200)
    m.exit(PID + 200, again + 52 * MS, 2, PID + 200)
    m.put(BEGIN + 3000 * MS, 3, "map %d %d %d 3 600000 1000 /x" % (PID, PID, BEGIN + 3000 * MS))
    path = m.record()
    check_cores(path)
    sched = rows("sched_sum", path, "TID", "Run Time", "Unknown Time")
    first = [r for r in sched if r[0] == PID + 100]
    same(len(first), 1, "rows of the first child")
    near(first[0][1], MS, "run of the first child", 0.05)
    same(first[0][2] <= 300 * MS, True, "unknown time does not outlive it: %s" % first)
    second = sorted(r[1] for r in sched if r[0] == PID + 200)
    same(len(second), 2, "two processes have the number of the second child")
    near(second[0], MS, "run of the first of them", 0.05)
    near(second[1], 50 * MS, "run of the second of them")


@test
def ends_that_are_doubted():
    """A record of an end soon after an exec may be a set-user-ID program's, which goes on. One that
    only took long to end has ended then, nevertheless.
    """
    m = Machine("clock")
    for child, goes_on in ((PID + 100, False), (PID + 200, True)):
        start = BEGIN + (10 if goes_on else 50) * MS
        m.put(start, 1, "fork %d %d %d %d %d 1" % (child, child, PID, PID, start))
        m.put(start + 1000, 1, "exec %d %d 1 it" % (child, start + 1000))
        m.put(start + 3 * MS, 1, "exit %d %d %d 1" % (child, child, start + 3 * MS))
        if goes_on:
            m.put(start + 9 * MS, 1, "out %d %d %d 1" % (child, child, start + 9 * MS))
            m.put(start + 12 * MS, 1, "in %d %d %d 1" % (child, child, start + 12 * MS))
            m.put(start + 13 * MS, 1, "exit %d %d %d 1" % (child, child, start + 13 * MS))
        m.put(start + 14 * MS, 1, "dead %d" % child)
    m.put(BEGIN + 900 * MS, 0, "map %d %d %d 0 600000 1000 /x" % (PID, PID, BEGIN + 900 * MS))
    run_ = {tid: run for tid, (run, _) in unknown_of(m.record()).items()}
    near(run_[PID + 100], 3 * MS, "run time of one that ended")
    near(run_[PID + 200], 10 * MS, "run time of one that went on")


@test
def last_steps_of_an_end():
    """Who has ended is switched once more: it is nobody new, after a loss either."""
    m = Machine("clock")
    m.thread(PID + 1, BEGIN + 10, 0)
    m.put(BEGIN + MS, 1, "lost %d 1 5" % (BEGIN + MS))
    m.span(PID + 1, BEGIN + 5 * MS, 10 * MS)
    m.exit(PID + 1, BEGIN + 16 * MS)
    m.put(BEGIN + 17 * MS, 0, "in %d %d %d 0" % (PID, PID + 1, BEGIN + 17 * MS))
    m.put(BEGIN + 900 * MS, 0, "map %d %d %d 0 600000 1000 /x" % (PID, PID, BEGIN + 900 * MS))
    self_, run_, _ = shown(m.record())
    near(run_[PID + 1], 10 * MS, "run time")
    near(self_[PID + 1], 10 * MS, "self time")


@test
def unknown_time_is_no_run_time():
    """Each sample comes after a loss: what is between them belongs to nobody."""
    for kind in ("clock", "cycles"):
        m = Machine(kind)
        m.span(PID, BEGIN + MS, 10 * MS)
        for i in range(20):
            at = BEGIN + (100 + 20 * i) * MS
            m.put(at, 0, "lost %d 0 50" % at)
            m.put(at + 1000, 0, "sample %d %d %d 0 400010 1000000" % (PID, PID, at + 1000))
            m.put(at + 2000, 0, "out %d %d %d 0" % (PID, PID, at + 2000))
        path = m.record()
        self_ = shown(path)[0][PID]
        same(self_ <= 10 * MS + 20 * 1000 * 1.1, True, "self time with %s: %d" % (kind, self_))
        same(unknown_of(path)[PID][0] <= 10 * MS + 20 * 1100, True, "run time with %s" % kind)
        check_cores(path)


@test
def samples_of_both_kinds():
    """Python's threads take their own samples in user space, by a clock of their own; what hits the
    kernel is sampled by the event.

    Of each four milliseconds three are in user space. However often either samples, each part has
    its share.
    """
    for own, event in ((1, 1), (9, 1), (1, 10)):
        m = Machine("clock", 1000 // event)
        start = BEGIN + 150 * MS
        m.span(PID, BEGIN + MS, 10 * MS)
        m.put(start, 0, "in %d %d %d 0" % (PID, PID, start))
        user = kernel = 0
        for i in range(1000):
            at = start + (i + 1) * MS
            if i % 4 == 3:
                kernel += 1
                if not kernel % event:
                    m.put(at, 0, "sample %d %d %d 0 %x %d" % (PID, PID, at, FIRST + 16, event * MS))
            else:
                user += 1
                if not user % own:
                    m.put(at, 0, "held %d %d %d" % (PID, at, own * MS))
        m.put(start + 1000 * MS + 500, 0, "out %d %d %d 0" % (PID, PID, start + 1000 * MS + 500))
        m.ran[PID] += 1000 * MS + 500
        what = "own samples each %d ms, others each %d ms" % (own, event)
        near(shown(m.record())[0][PID], m.ran[PID], "self time with " + what)
        share = {
            r["Function"]: float(column(r, "Self"))
            for r in table("report", "-q", "-f", "csv", "r.wsrep")
        }
        near(share["[no stack]"], 75, "share of user space with " + what, 0.06)


@test
def exports_add_up():
    for kind in ("clock", "cycles"):
        m = two_threads(Machine(kind))
        path, want = m.record(), sum(m.ran.values())
        run("export", "-q", "-f", "true", "-t", "folded", "-o", "x.folded", path)
        near(sum(int(line.rsplit(" ", 1)[1]) for line in open("x.folded")), want, "folded stacks")
        run("export", "-q", "-f", "true", "-t", "speedscope", "-o", "x.json", path)
        profiles = json.load(open("x.json"))["profiles"]
        near(sum(sum(p["weights"]) for p in profiles), want, "speedscope")
        same({p["unit"] for p in profiles}, {"nanoseconds"}, "its unit")
        rows = table("stats", "-q", "-f", "csv", "-r", "cpu_sample_sum", path)
        near(sum(float(column(r, "Self Time")) for r in rows), want, "cpu_sample_sum")
        if kind == "cycles":
            db = (
                sqlite3.connect("x.sqlite")
                if not run(
                    "export", "-q", "-f", "true", "-t", "sqlite", "-o", "x.sqlite", path
                ).code
                else None
            )
            cycles, ns = db.execute(
                "SELECT SUM(cpuCycles), SUM(cpuTime) FROM COMPOSITE_EVENTS"
            ).fetchone()
            db.close()
            near(cycles / ns, CYCLES, "cycles a nanosecond", 0.03)


@test
def shares_and_times_agree():
    """In rows for people too; and no time has more digits than its share."""
    for kind in ("clock", "cycles"):
        m = two_threads(Machine(kind))
        for r in table("report", "-q", "-f", "csv", m.record()):
            near(
                float(column(r, "Self Time")) / (sum(m.ran.values()) / 1e6) * 100,
                float(column(r, "Self")),
                r["Function"],
                0.01,
            )
        lines = run("report", "-q", "r.wsrep").out.decode().splitlines()
        row = next(line for line in lines if "[first]" in line).split()
        same(row[1].count("."), 1, "a time with decimals: %s" % row)
        same(len(row[1].split(".")[1]), 1, "decimals of %s" % row[1])


if __name__ == "__main__":
    sys.exit(main())
