"""
test_flight.py - flight recorders: what they keep, the snapshots that are asked for and those that
something in the program causes.

The program does what it is told and says when it has: each snapshot must hold exactly what it had
done by then. Nothing depends on how fast that goes.
"""
import os
import re
import signal
import subprocess
import time

from harness import Failed, shell_status, test, wait_until
from rows import NO_TIME, Rows
from test_sessions import Sessions, marks_of

LONG = "10m"  # nothing is dropped


class Recorder:
    """A program under a flight recorder."""

    def __init__(self, t, *options, keep=LONG, command="profile", output="f", session=None):
        self.t = t
        self.sessions = Sessions(t)
        words = ["--flight-recorder=" + keep, "-t", "nvtx", "-s", "none"]
        if output:
            words += ["-o", output]
        if session:
            words.append("--session-new=" + session)
        self.process = t.start(
            [t.where.warpsight, command, *words, *options, t.program("told")],
            stdin=subprocess.PIPE,
        )
        t.eq(t.line(self.process), b"ready\n", "the program runs")

    def tell(self, *lines):
        for line in lines:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
            self.t.eq(self.t.line(self.process), b"done\n", "the program does as it is told")

    def snapshot(self, *options, **kw):
        return self.sessions.tool("snapshot", *options, **kw)

    def await_report(self, name):
        path = self.t.path(name)
        wait_until(lambda: os.path.exists(path), seconds=60)
        if not os.path.exists(path):
            raise Failed("there is no %s, only %s" % (name, self.t.find_reports()))
        return path

    def end(self, line="exit 0", status=0):
        """End the program; what the recorder wrote to standard error."""
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.close()
        self.process.stdin = None
        out, err = self.process.communicate(timeout=60)
        self.t.eq(shell_status(self.process.returncode), status, "status: %s" % err)
        self.sessions.check_clean()
        return err.decode()


def work_of(t, path):
    """The numbers of the work in a report, each range once, with both its ends."""
    t.verify(path)
    rows = Rows(path)
    numbers = []
    for row in rows.table("nvtx"):
        words = rows.strings[row["text"]].split()
        if words and words[0] == "work":
            t.ok(row["end"] != NO_TIME, "a range is closed")
            numbers.append(int(words[1]))
    return sorted(numbers)


def open_ranges(path):
    rows = Rows(path)
    return sorted(
        rows.strings[row["text"]]
        for row in rows.table("nvtx")
        if row["type"] == 59 and row["end"] == NO_TIME
    )


def up_to(last):
    return list(range(1, last + 1))


@test("flight")
def snapshots_hold_all_up_to_then(t):
    r = Recorder(t)
    r.tell("push outer", "work 1000")
    said = r.snapshot()
    t.contains(said.messages, "Generated: %s$" % re.escape(t.path("f.1.snapshot")), "which")
    r.tell("push inner", "work 3000")
    r.snapshot("-o", "named")
    t.contains(r.snapshot("-o", "named", status=1).messages, "exists already", "a name")
    r.tell("pop", "work 500")
    r.snapshot("-o", "named", "-f")
    os.kill(r.process.pid, signal.SIGURG)
    r.await_report("f.2.signal")
    wait_until(lambda: r.sessions.status()["snapshots"] == 4, seconds=60)
    status = r.sessions.status()
    t.eq((status["state"], status["snapshots"]), ("collecting", 4), "status")
    t.ok(status["kept_bytes"] > 0 and status["kept"] > 0, "what is kept")
    r.tell("pop")
    said = r.end("exit 3", 3)
    t.contains(said, "Generated: f.3.death.wsrep", "the snapshot at the end")
    t.eq(
        [os.path.basename(report) for report in t.find_reports()],
        ["f.1.snapshot.wsrep", "f.2.signal.wsrep", "f.3.death.wsrep", "named.wsrep"],
        "reports",
    )
    for name, last, still_open in (
        ("f.1.snapshot", 1000, ["outer"]),
        ("named", 4500, ["outer"]),
        ("f.2.signal", 4500, ["outer"]),
        ("f.3.death", 4500, []),
    ):
        t.eq(work_of(t, t.path(name)), up_to(last), "work in " + name)
        t.eq(open_ranges(t.path(name)), still_open, "open ranges in " + name)
        report = t.load(t.path(name))
        t.eq(report.processes(), ["told"], "processes")
        t.eq(report.one("SELECT count(*) FROM ANALYSIS_DETAILS"), 1, "collections")
    t.eq(t.load(t.path("f.3.death")).range_count("inner"), 1, "a range that was open before")


@test("flight")
def snapshots_of_a_program_that_goes_on(t):
    s = Sessions(t)
    p = s.launch_marks("--flight-recorder=" + LONG, threads=3)
    names = ["s%d" % n for n in range(4)]
    for name in names:
        s.tool("snapshot", "-o", name)
    p.stdin.close()
    p.stdin = None
    p.communicate(timeout=60)
    t.eq(shell_status(p.returncode), 7, "status")
    before = {}
    for name in [*names, "flight.1.death"]:
        marks = marks_of(t, t.path(name))
        for thread, numbers in marks.items():
            t.eq(numbers, up_to(len(numbers)), "marks of thread %d in %s" % (thread, name))
        for thread, count in before.items():
            t.ge(len(marks.get(thread, [])), count, "marks since the snapshot before")
        before = {thread: len(numbers) for thread, numbers in marks.items()}
    for name in names[:2]:
        t.verify(t.path(name))
        rows = Rows(t.path(name))
        ranges = [row for row in rows.table("nvtx") if row["type"] == 59]
        t.eq([r for r in ranges if not rows.strings[r["text"]]], [], "ranges without a name")
        keys = [(r["thread"], r["start"], r["text"]) for r in ranges]
        t.eq(len(set(keys)), len(keys), "ranges, each once, in " + name)


@test("flight")
def what_is_older_is_dropped(t):
    r = Recorder(t, keep="1s")
    r.tell("push outer of a name that is new", "work 2000")
    for _ in range(3):
        time.sleep(0.5)
        r.tell("work 100")
    time.sleep(0.8)
    numbers, last = [], 2300
    while not numbers:  # a machine that stalls for a second has nothing to show
        r.tell("work 400")
        last += 400
        r.snapshot("-o", "last", "-f")
        numbers = work_of(t, t.path("last"))
    t.eq(r.end(), "", "nothing is written of a program that ends well")
    t.ok(numbers[0] > 2000, "the oldest work is gone: %d" % numbers[0])
    t.eq(numbers, list(range(numbers[0], last + 1)), "the rest is there")
    t.eq(open_ranges(t.path("last")), ["outer of a name that is new"], "open ranges")
    t.eq(len(t.find_reports()), 1, "reports")


@test("flight")
def in_a_session_of_its_own(t):
    r = Recorder(t, command="launch", session="one", output=None)
    other = Recorder(t, session="two", output="other")
    r.tell("work 10")
    other.tell("work 20")
    t.contains(r.snapshot(status=1).messages, "there are 2 sessions", "which")
    r.snapshot("--session=one")
    for command in ("stop", "cancel", "start"):
        said = r.sessions.tool(command, "--session=one", status=1).messages
        t.contains(said, "flight recorder|running already", command)
    r.sessions.tool("shutdown", "--session=one")
    t.eq(shell_status(r.process.wait(60)), 143, "status")
    other.process.kill()
    other.process.wait(60)
    t.eq([f for f in os.listdir(t.work) if f.endswith(".wsrep")], ["flight.1.snapshot.wsrep"], "")
    t.eq(work_of(t, t.path("flight.1.snapshot")), up_to(10), "work")
    other.process.stdin.close()
    other.sessions.listed()  # removes the socket of the one that was killed
    t.eq(r.sessions.sockets(), [], "sockets")


@test("flight")
def of_a_start_before_the_launch(t):
    s = Sessions(t)
    flight = "--flight-recorder=" + LONG
    said = s.tool("start", flight, "--trigger", "mark out of memory").messages
    t.contains(said, "nothing is recorded until", "start")
    process = t.start(
        [t.where.warpsight, "launch", "-t", "nvtx", "-s", "none", t.program("told")],
        stdin=subprocess.PIPE,
    )
    t.eq(t.line(process), b"ready\n", "the program runs")
    for line in (b"work 10\n", b"mark out of memory\n"):
        process.stdin.write(line)
        process.stdin.flush()
        t.eq(t.line(process), b"done\n", "the program does as it is told")
    path = t.path("flight.1.mark-out-of-memory")
    wait_until(lambda: os.path.exists(path), seconds=60)
    t.eq(work_of(t, path), up_to(10), "work of the snapshot by the trigger")
    t.contains(s.tool("start", flight, status=1).messages, "from the program's", "too late")
    s.tool("snapshot")
    t.eq(work_of(t, t.path("flight.2.snapshot")), up_to(10), "work of the snapshot")
    process.stdin.close()
    process.stdin = None
    process.communicate(timeout=60)
    s.tool("start", "-o", "plain")
    said = s.tool("launch", flight, t.program("told"), status=2).messages
    t.contains(said, "not for a flight recorder", "a start of another kind")
    s.check_clean()


@test("flight")
def what_the_dead_leave_behind(t):
    """The snapshot of a death does not wait for what lives on."""
    gate = os.path.join(t.work, "gate")
    os.mkfifo(gate)
    p = t.start(
        [t.where.warpsight, "profile", "--flight-recorder=" + LONG, "-s", "none", "-t", "nvtx"]
        + ["-o", "f", "--", "sh", "-c", "cat gate & exit 3"]
    )
    path = t.path("f.1.death")
    wait_until(lambda: os.path.exists(path), seconds=60)
    t.ok(os.path.exists(path), "the snapshot is there before the child ends")
    with open(gate, "w"):
        pass
    p.communicate(timeout=60)
    t.eq(shell_status(p.returncode), 3, "status")
    t.eq([os.path.basename(f) for f in t.find_reports()], ["f.1.death.wsrep"], "reports")
    os.unlink(gate)


@test("flight")
def what_does_not_go(t):
    s = Sessions(t)
    for options, why in (
        (["--flight-recorder=x"], "'x' is not a time"),
        (["--flight-recorder=30s,1K"], "from 16M"),
        (["--flight-recorder=1s", "-d", "5"], "--duration does not go with"),
        (["--flight-recorder=1s", "-c", "program"], "--capture-range does not go with"),
        (["--flight-recorder=1s", "--stats=true"], "--stats does not go with"),
        (["--flight-recorder=1s", "-Y", "true"], "--start-later does not go with"),
    ):
        t.contains(s.tool("profile", *options, "true", status=2).messages, why, str(options))
    said = s.tool("profile", "--flight-recorder=1s", "-s", "none", "true").messages
    t.contains(said, "nothing was written", "a program that ends well")
    t.contains(s.tool("snapshot", status=1).messages, "there is no session", "snapshot")
    s.tool("snapshot", "x", status=2)
    p = s.launch_marks()
    t.contains(s.tool("snapshot", status=1).messages, "no flight recorder", "snapshot")
    s.end(p)
    s.check_clean()
    t.eq(t.find_reports(), [], "reports")


TRIGGERS = (
    ("range slow > 50ms", ["range 60000 slowly", "range 60000 slow 1"], "range-slow", "slow 1"),
    ("mark out of memory", ["mark out of it", "mark out of memory"], "mark-out-of-memory", None),
    (
        "step > 3x",
        ["range 1000 Step %d" % n for n in range(8)] + ["range 500000 Step 8"],
        "step",
        "Step 8",
    ),
)


@test("flight")
def triggers_write_snapshots(t):
    options = ["--trigger=" + ",".join(x[0] for x in TRIGGERS[:2]), "--trigger=" + TRIGGERS[2][0]]
    for trigger, lines, label, name in TRIGGERS:
        r = Recorder(t, *options, output=label)
        r.tell("work 10", *lines)
        path = r.await_report("%s.1.%s" % (label, label))
        # What follows within the time that a snapshot holds makes none.
        r.tell(lines[-1])
        said = r.end("die", 137)
        t.contains(said, "Generated: %s.2.death.wsrep" % label, "at the end")
        t.eq(said.count("Generated"), 2, "reports of " + trigger)
        t.eq(work_of(t, path), up_to(10), "work")
        meta = t.load(path).meta()
        t.eq(meta["snapshot.cause"], trigger, "cause")
        if name:
            t.eq(t.load(path).range_count(name), 1, "ranges " + name)
            t.ge(int(meta["snapshot.duration_ns"]), 50000000, "duration")
        t.eq(t.load(t.path(label + ".2.death")).meta()["snapshot.cause"], "death", "cause")


@test("flight")
def triggers_that_are_none(t):
    s = Sessions(t)
    for trigger, why in (
        ("x", "is none of"),
        ("range > 5ms", "is none of"),
        ("range a", "is none of"),
        ("range a > 5", "stands a time"),
        ("step > 0.5x", "from 1.05x"),
        ("gpu idle > 1ms", "needs --trace=cuda"),
    ):
        said = s.tool(
            *["profile", "-t", "nvtx", "--flight-recorder=9s", "--trigger=" + trigger, "true"],
            status=2,
        ).messages
        t.contains(said, "--trigger: '%s'.*%s" % (re.escape(trigger), why), trigger)
    t.contains(
        s.tool("profile", "--trigger=step > 2x", "true", status=2).messages,
        "needs --flight-recorder",
        "a trigger alone",
    )
    said = s.tool("profile", "--flight-recorder=5s", "--trigger=gpu idle > 1s", "true", status=2)
    t.contains(said.messages, "keep 5 s more", "too short to hold it")
    t.eq(t.find_reports(), [], "reports")
