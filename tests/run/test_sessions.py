"""
test_sessions.py - programs under `warpsight launch`, and the commands that collect them: start,
stop, cancel, shutdown, status, sessions.

The program numbers its marks, so that a report of any part of its run must hold a stretch of
numbers without a gap. WS_TEST_CYCLES starts and stops (200; `make torture` takes 10,000) and
WS_TEST_STORMS sequences of commands, kills and deaths in random order (12; 500) are made.
"""
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import threading
import time

from harness import (
    Failed,
    children_of,
    descendants_of,
    figure,
    shell_status,
    test,
    wait_until,
)

CYCLES = max(20, int(os.environ.get("WS_TEST_CYCLES", "200")))
STORMS = max(4, int(os.environ.get("WS_TEST_STORMS", "12")))


class Sessions:
    """The sessions of a test, in a folder of their own."""

    def __init__(self, t):
        self.t = t
        self.folder = os.path.join(t.runtime, "warpsight")

    def launch(self, target=None, options=(), threads=1, **popen):
        """Run `target`, by default the program with the numbered marks, in a session."""
        t = self.t
        if target is None:
            target = [t.program("marks"), str(threads)]
        popen.setdefault("stdin", subprocess.PIPE)
        p = t.start([t.where.warpsight, "launch", *options, *target], **popen)
        return p

    def launch_marks(self, *options, **kw):
        """The same; returns when the program runs."""
        p = self.launch(options=("-s", "none", "-t", "nvtx", *options), **kw)
        self.t.eq(self.t.line(p), b"marking\n", "the program runs")
        return p

    def end(self, p, status=7):
        """Let the program end by itself; what it wrote to standard error."""
        p.stdin.close()
        p.stdin = None
        out, err = p.communicate(timeout=60)
        if shell_status(p.returncode) != status:
            raise Failed("status %d of launch: %s" % (p.returncode, err))
        return err.decode()

    def tool(self, *args, status=0, **kw):
        r = self.t.tool(*args, **kw)
        if r.status != status:
            raise Failed("warpsight %s: status %d expected; %s" % (args, status, r.said()))
        return r

    def sockets(self):
        return sorted(os.listdir(self.folder)) if os.path.isdir(self.folder) else []

    def listed(self):
        return json.loads(self.tool("sessions", "list", "--json").out)

    def status(self, *args):
        return json.loads(self.tool("status", "--json", *args).out)[0]

    def await_marks(self, least=50, *session):
        """Wait until the collection has so many events; a busy machine takes its time."""
        marked = wait_until(lambda: self.status(*session)["events"] >= least, 60)
        self.t.ok(marked, "the program marks something")

    def collect(self, name, *options):
        """A collection in which the program marks something."""
        self.tool("start", "-o", name, *options)
        self.await_marks()
        self.tool("stop")

    def ask(self, session="[default]", **request):
        """Ask the recorder directly, as the commands do; None when it is gone."""
        try:
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(60)
            s.connect(os.path.join(self.folder, session + ".sock"))
            body = json.dumps(request).encode()
            s.sendall(struct.pack("<I", len(body)) + body, socket.MSG_NOSIGNAL)
            data = b""
            while len(data) < 4 or len(data) < 4 + struct.unpack("<I", data[:4])[0]:
                more = s.recv(65536)
                if not more:
                    return None
                data += more
            return json.loads(data[4:])
        except (ConnectionError, FileNotFoundError):
            return None
        finally:
            s.close()

    def check_clean(self):
        self.t.check_clean()
        self.t.eq(self.sockets(), [], "sockets left")


def marks_of(t, report):
    """{thread: [numbers]} of the marks in a report."""
    found = {}
    out = t.tool(
        "query", "-f", "csv", report, "SELECT text FROM NVTX_EVENTS WHERE eventType = 34"
    ).out.decode()
    for thread, number in re.findall(r"^\"?(\d+) (\d+)\"?\r?$", out, re.M):
        found.setdefault(int(thread), []).append(int(number))
    return {thread: sorted(numbers) for thread, numbers in found.items()}


def check_marks(t, report, threads=1):
    """Each thread's marks are a stretch without a gap; {thread: (first, last)}."""
    marks = marks_of(t, report)
    t.eq(sorted(marks), list(range(threads)), "threads with marks in %s" % report)
    for thread, numbers in marks.items():
        if numbers != list(range(numbers[0], numbers[-1] + 1)):
            raise Failed(
                "thread %d: %d marks from %d to %d"
                % (thread, len(numbers), *numbers[:: len(numbers) - 1])
            )
    return {thread: (numbers[0], numbers[-1]) for thread, numbers in marks.items()}


@test("sessions")
def several_collections(t):
    s = Sessions(t)
    p = s.launch_marks(threads=3)
    t.eq(s.sockets(), ["[default].sock"], "sockets")
    seen = []
    for name in "abc":
        r = s.tool("start", "-o", name)
        t.contains(r.messages, "Collecting into .*/%s.wsrep" % name, "start says where")
        s.await_marks(500)  # of three threads
        r = s.tool("stop")
        t.contains(r.messages, "Generated: %s" % t.path(name), "stop says which")
        seen.append(check_marks(t, t.path(name), 3))
        report = t.load(t.path(name))
        t.eq(report.processes(), ["marks"], "processes")
        t.ge(report.range_count("step"), 10, "ranges")
        t.eq(report.range_count("the whole thread"), 3, "ranges that were open before")
        t.eq(report.one("SELECT count(*) FROM ANALYSIS_DETAILS"), 1, "collections")
    for earlier, later in zip(seen, seen[1:]):
        for thread in range(3):
            t.ok(earlier[thread][1] < later[thread][0], "collections follow each other")
    t.eq(s.status()["collections"], 3, "collections that were counted")
    t.eq(s.end(p), "", "nothing more is said at the end")
    s.check_clean()
    t.eq(len(t.find_reports()), 3, "reports")


@test("sessions")
def no_start_no_report(t):
    s = Sessions(t)
    t.eq(s.end(s.launch_marks()), "", "what launch says")
    s.check_clean()
    t.eq(t.find_reports(), [], "reports")


@test("sessions")
def default_names_are_numbered(t):
    s = Sessions(t)
    p = s.launch_marks()
    for name in ("report1", "report2"):
        s.tool("start")
        s.tool("stop")
        t.ok(os.path.exists(t.path(name)), name)
    s.tool("start", "-o", "report1", status=1)
    s.tool("start", "-o", "report1", "-f")
    s.tool("stop")
    other = os.path.join(t.dir, "other")
    os.mkdir(other)
    s.tool("start", "-o", "%q{NAME}-%h%%", cwd=other, env={"NAME": "x"})
    t.contains(s.tool("stop").messages, re.escape(other) + "/-[^ ]*%", "in the folder of start")
    s.end(p)
    s.check_clean()


@test("sessions")
def start_before_launch(t):
    s = Sessions(t)
    r = s.tool("start", "-o", "early", "--stats=true")
    t.contains(r.messages, "'\\[default\\]': nothing is recorded until", "what start says")
    t.eq(s.status()["state"], "waiting for launch", "state")
    t.contains(s.tool("start", status=1).messages, "waits for", "a second start")
    t.contains(s.tool("stop", status=1).messages, "nothing has been launched", "stop")
    p = s.launch([t.program("marks"), "2", "50"], options=("-t", "nvtx", "-s", "none"))
    out, err = p.communicate(timeout=60)
    t.eq(p.returncode, 7, "status: %s" % err)
    t.contains(err.decode(), "Generated: .*/early.wsrep", "what launch says")
    t.contains(out.decode(), "nvtx_sum", "statistics")
    t.eq(check_marks(t, t.path("early"), 2), {0: (1, 50), 1: (1, 50)}, "marks")
    s.check_clean()
    for end in ("cancel", "shutdown"):
        s.tool("start")
        s.tool(end)
        s.check_clean()
    s.tool("start", "--session-new=early", "-o", "second")
    p = s.launch_marks()
    s.tool("stop", "--session=early")
    s.collect("third")
    s.end(p)
    s.check_clean()
    t.eq(check_marks(t, t.path("second"))[0][0], 1, "from the beginning")
    check_marks(t, t.path("third"))


@test("sessions")
def what_cannot_be_done(t):
    s = Sessions(t)
    for command in ("stop", "cancel", "shutdown"):
        t.contains(s.tool(command, status=1).messages, "there is no session", command)
        t.contains(
            s.tool(command, "--session=x", status=1).messages, "there is no session 'x'", command
        )
        s.tool(command, "x", status=2)
    t.contains(s.tool("start", "--session=x", status=1).messages, "no session 'x'", "start")
    t.contains(s.tool("launch", "--session=x", "true", status=1).messages, "no session 'x'", "")
    t.eq(s.tool("status").out, b"No session is running.\n", "status")
    s.tool("status", "--session=x", status=1)
    t.eq(s.listed(), [], "sessions")
    s.tool("sessions", status=2)
    s.tool("start", "true", status=2)
    s.tool("launch", status=2)
    t.contains(
        s.tool("launch", "--session-new=a/b", "true", status=1).messages, "slashes", "a name"
    )
    s.tool("launch", "--session-new=-x", "true", status=1)
    s.tool("launch", "--session-new=" + "x" * 65, "true", status=1)
    s.tool("launch", "--session-new=%q", "true", status=1)
    s.tool("launch", "/nonexistent", status=127)
    p = s.launch_marks()
    t.contains(s.tool("stop", status=1).messages, "nothing is being collected", "stop")
    t.contains(s.tool("cancel", status=1).messages, "nothing is being collected", "cancel")
    t.contains(s.tool("launch", "true", status=1).messages, "runs a program already", "launch")
    t.contains(
        s.tool("launch", "--session-new=[default]", "true", status=1).messages, "already", "new"
    )
    s.tool("start", "-o", "/nonexistent/x", status=1)
    s.tool("start", "-o", "%z", status=1)
    t.eq(s.status()["state"], "idle", "state")
    s.tool("start", "-o", "a")
    t.contains(s.tool("start", status=1).messages, "running already", "a second start")
    s.tool("stop")
    check_marks(t, t.path("a"))
    s.end(p)
    s.check_clean()
    t.eq(len(t.find_reports()), 1, "reports")


@test("sessions")
def several_sessions(t):
    s = Sessions(t)
    names = ["one", 'größe "x" $(y)', "[z]"]
    programs = [s.launch_marks("--session-new=" + name) for name in names]
    t.eq([x["name"] for x in s.listed()], sorted(names), "sessions")
    r = s.tool("start", status=1)
    t.contains(r.messages, "there are 3 sessions", "which")
    ids = {x["name"]: x["id"] for x in s.listed()}
    s.tool("start", "--session=one", "-o", "one")
    s.tool("start", "--session=%d" % ids[names[1]], "-o", "two")
    t.eq(
        [x["state"] for x in s.listed()],
        ["idle" if x == "[z]" else "collecting" for x in sorted(names)],
        "states",
    )
    table = s.tool("sessions", "list").out.decode()
    t.eq(len(table.splitlines()), 4, "lines of the table")
    t.contains(table, r"ID +TIME +STATE +COLLECTIONS +NAME", "its header")
    s.tool("stop", "--session=" + names[1])
    s.tool("stop", "--session=one")
    first, second = check_marks(t, t.path("one")), check_marks(t, t.path("two"))
    t.ok(first and second, "both collected")
    for p in programs:
        s.end(p)
    s.check_clean()


@test("sessions")
def cancel_discards(t):
    s = Sessions(t)
    p = s.launch_marks()
    for _ in range(3):
        s.tool("start", "-o", "gone")
        s.tool("cancel")
        t.eq(t.find_reports(), [], "reports")
        t.eq([f for f in os.listdir(t.work) if f[0] != "."], [], "files")
    s.collect("kept")
    check_marks(t, t.path("kept"))
    s.end(p)
    s.check_clean()


@test("sessions")
def shutdown_ends(t):
    s = Sessions(t)
    p = s.launch_marks()
    s.tool("start", "-o", "a")
    s.await_marks()
    r = s.tool("shutdown")
    t.contains(r.messages, "Generated: .*/a.wsrep", "the report")
    check_marks(t, t.path("a"))
    p.communicate(timeout=60)
    t.eq(shell_status(p.returncode), 143, "status")
    s.check_clean()
    p = s.launch_marks()
    s.tool("shutdown", "--kill=9")
    p.communicate(timeout=60)
    t.eq(shell_status(p.returncode), 137, "status")
    s.check_clean()
    p = s.launch_marks()
    target = children_of(p.pid)[0]
    s.tool("start", "-o", "b")
    s.await_marks()
    s.tool("shutdown", "--kill=none")
    check_marks(t, t.path("b"))
    t.ok(p.wait(60) is not None, "launch has ended")
    t.ok(os.path.exists("/proc/%d" % target), "the program runs on")
    t.eq(s.sockets(), [], "sockets")
    p.stdin.close()
    s.check_clean()


@test("sessions")
def environment_of_children(t):
    """They have our variables as long as a collection may begin, and no longer."""
    s = Sessions(t)
    text = "while read line; do env | grep -c -e libwarpsight -e WARPSIGHT_SESSION; done"

    def launch():
        return s.launch(["sh", "-c", text], ("-s", "none", "-t", "nvtx"))

    def count():
        """In a new child."""
        p.stdin.write(b"\n")
        p.stdin.flush()
        return int(t.line(p))

    p = launch()
    t.ge(count(), 2, "variables of ours before a collection")
    p.kill()
    p.wait()
    t.ok(wait_until(lambda: not count()), "none of them without a recorder")
    p.stdin.close()
    p = launch()
    t.ge(count(), 2, "variables of ours in another session")
    s.tool("start", "-o", "gone")
    s.tool("cancel")
    t.ge(count(), 2, "variables of ours when another collection may begin")
    s.tool("shutdown", "--kill=none")
    t.eq(count(), 0, "variables of ours after the session")
    p.stdin.close()
    p.wait(60)
    s.check_clean()


@test("sessions")
def ranges_in_a_session(t):
    """--capture-range at start: before the launch and after it, with each end."""
    s = Sessions(t)
    s.tool("start", "-o", "a", "-c", "nvtx", "-p", "step", "--capture-range-end=repeat:2")
    p = s.launch_marks()
    t.ok(wait_until(lambda: s.status()["collections"] == 2, 20), "two ranges")
    t.ok(wait_until(lambda: s.status()["state"] == "idle", 20), "then nothing")
    r = s.tool("start", "-o", "b", "-c", "nvtx", "-p", "step@*")
    t.contains(r.messages, "when the range begins", "what start says")
    t.ok(wait_until(lambda: s.status()["state"] == "idle", 20), "stop is the default")
    s.tool("start", "-o", "c", "-c", "nvtx", "-p", "never")
    t.eq(s.status()["state"], "waiting", "state")
    t.contains(s.tool("stop", status=1).messages, "nothing had been collected", "stop")
    s.tool("start", "-o", "e", "--steps=4-6")
    t.ok(wait_until(lambda: s.status()["state"] == "idle", 20), "three steps")
    t.eq(t.load(t.path("e")).range_count("step"), 3, "steps")
    os.unlink(t.path("e"))
    s.tool("start", "-o", "d", "-c", "nvtx", "-p", "never")
    s.tool("cancel")
    s.tool("start", "-c", "nvtx", status=2)
    t.contains(s.end(p), "b.wsrep", "reports that nobody was told of")
    s.check_clean()
    reports = [os.path.basename(r) for r in t.find_reports()]
    t.eq(len(reports), 3, "reports: %s" % reports)
    for report in t.find_reports():
        t.eq(t.load(report).range_count("step"), 1, "one range each in %s" % report)


@test("sessions")
def options_of_the_other_command(t):
    """A range named at the launch is that of each start; what belongs elsewhere is refused so."""
    s = Sessions(t)
    for command, option, words in (
        ("launch", "-ox", "--output is about one collection: give it to 'warpsight start'"),
        ("launch", "--duration=3", "--duration is about one collection"),
        ("launch", "--kill=none", "--kill is an option of 'warpsight profile' alone"),
        ("start", "-tcuda", "--trace is decided when the program is launched"),
        ("start", "--nic-metrics=true", "--nic-metrics is decided when"),
        ("launch", "--outputs=x", "unknown option --outputs"),
        ("launch", "-Q", "unknown option -Q"),
    ):
        r = s.tool(command, option, "true", status=2)
        t.contains(r.messages, words, command + " " + option)
    p = s.launch_marks("-p", "step@*", "--hotkey-capture=F7")
    s.tool("start", "-o", "a", "-c", "nvtx")
    t.ok(wait_until(lambda: s.status()["state"] == "idle", 60), "the range of the launch")
    t.eq(t.load(t.path("a")).range_count("step"), 1, "the range")
    s.tool("start", "-o", "b", "-c", "nvtx", "-p", "never")
    t.eq(s.status()["state"], "waiting", "the range of the start")
    s.end(p)
    s.check_clean()


@test("sessions")
def profile_in_a_session(t):
    s = Sessions(t)
    argv = ["profile", "-t", "nvtx", "-s", "none"]

    def begin(*options):
        p = t.start(
            [t.where.warpsight, *argv, *options, t.program("marks"), "1"], stdin=subprocess.PIPE
        )
        t.eq(t.line(p), b"marking\n", "the program runs")
        return p

    p = begin("--session-new=named", "-o", "first")
    t.eq(s.status()["state"], "collecting", "it collects at once")
    s.await_marks()
    s.tool("stop", "--session=named")
    t.eq(check_marks(t, t.path("first"))[0][0], 1, "from the beginning")
    s.collect("second")
    check_marks(t, t.path("second"))
    s.end(p)
    s.check_clean()
    p = begin("-Y", "true", "-o", "x")
    t.eq(s.status()["state"], "idle", "it waits")
    s.tool("start", "-o", "third", "--no-findings")
    s.await_marks()
    t.contains(s.end(p), "Generated: .*/third.wsrep", "what profile says")
    check_marks(t, t.path("third"))
    s.check_clean()
    t.eq(len(t.find_reports()), 3, "reports")


@test("sessions")
def duration_of_a_start(t):
    s = Sessions(t)
    p = s.launch_marks()
    for name in ("a", "b"):
        s.tool("start", "-o", name, "-d", "0.2")
        t.ok(wait_until(lambda: s.status()["state"] == "idle", 20), "it ends by itself")
        check_marks(t, t.path(name))
        (length,) = t.load(t.path(name)).sql("SELECT stopTime - startTime FROM ANALYSIS_DETAILS")[0]
        t.ge(length, 200e6, "length of the collection")
    s.end(p)
    s.check_clean()


@test("sessions")
def program_ends_while_collecting(t):
    s = Sessions(t)
    p = s.launch_marks()
    s.tool("start", "-o", "a", "--export=jsonlines")
    s.await_marks()
    t.contains(s.end(p), "Generated: .*/a.wsrep", "what launch says")
    check_marks(t, t.path("a"))
    t.ok(any(f.startswith("a.json") for f in os.listdir(t.work)), "exported as start said")
    s.check_clean()
    for sig in (signal.SIGKILL, signal.SIGSEGV):
        p = s.launch_marks()
        s.tool("start", "-f", "-o", "b")
        s.await_marks()
        os.kill(children_of(p.pid)[0], sig)
        p.communicate(timeout=60)
        t.eq(shell_status(p.returncode), 128 + sig, "status")
        check_marks(t, t.path("b"))
        s.check_clean()


@test("sessions")
def recorder_is_killed(t):
    s = Sessions(t)
    p = s.launch_marks()
    target = children_of(p.pid)[0]
    s.tool("start", "-o", "a")
    s.await_marks()
    p.kill()
    p.wait()
    t.ok(os.path.exists("/proc/%d" % target), "the program runs on")
    t.eq(s.sockets(), ["[default].sock"], "the socket is left")
    t.contains(s.tool("stop", status=1).messages, "there is no session", "stop")
    t.eq(s.sockets(), [], "and removed by who sees it")
    p.stdin.close()
    s.tool("recover", t.path("a"))
    check_marks(t, t.path("a"))
    p = s.launch_marks()
    s.collect("b")
    s.end(p)
    s.check_clean()


@test("sessions")
def interrupted_commands(t):
    """Ctrl-C at a command leaves the session as it is, or as the command makes it."""
    s = Sessions(t)
    p = s.launch_marks()
    for i in range(10):
        c = t.start([t.where.warpsight, "start", "-f", "-o", "a"])
        time.sleep(0.002 * i)
        c.send_signal(signal.SIGINT)
        c.communicate()
        c = t.start([t.where.warpsight, "stop"])
        time.sleep(0.002 * i)
        c.send_signal(signal.SIGINT)
        c.communicate()
        s.ask(do="cancel")
        t.ok(wait_until(lambda: s.status()["state"] == "idle", 20), "idle again")
    s.collect("b", "-f")
    check_marks(t, t.path("b"))
    s.end(p)
    s.check_clean()
    # Interrupts of the terminal are the program's, as under profile.
    p = s.launch(["sleep", "60"], start_new_session=True)
    t.ok(wait_until(lambda: s.sockets() and children_of(p.pid), 20), "it runs")
    s.tool("start", "-o", "c")
    os.killpg(p.pid, signal.SIGINT)
    p.communicate(timeout=60)
    t.eq(shell_status(p.returncode), 130, "status")
    t.verify(t.path("c"))
    s.check_clean()


@test("sessions")
def commands_at_once(t):
    s = Sessions(t)
    p = s.launch_marks()
    for word in ("start", "stop", "start", "cancel", "start", "stop"):
        answers = []
        threads = [
            threading.Thread(
                target=lambda: answers.append(s.ask(do=word, output=t.path("r"), overwrite=True))
            )
            for _ in range(8)
        ]
        for x in threads:
            x.start()
        for x in threads:
            x.join()
        t.eq(sum(a["done"] for a in answers), 1, "%s at once: %r" % (word, answers))
        if word == "start":
            s.await_marks()
        t.ok(all(a["done"] or a["message"] for a in answers), "each refusal has a reason")
    check_marks(t, t.path("r"))
    s.end(p)
    s.check_clean()


# ---- many times ----


def measure(pid):
    """Descriptors, threads and KiB of memory of a process."""
    with open("/proc/%d/status" % pid) as f:
        text = f.read()
    return (
        len(os.listdir("/proc/%d/fd" % pid)),
        int(re.search(r"^Threads:\s+(\d+)", text, re.M).group(1)),
        int(re.search(r"^RssAnon:\s+(\d+)", text, re.M).group(1)),
    )


def wait_for_no_more(pid, before):
    """What `measure` says once the last report is closed: by a thread, which takes its time."""
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        now = measure(pid)
        if now[0] <= before[0] and now[1] <= before[1]:
            break
        time.sleep(0.05)
    return now


@test("sessions")
def cycles(t):
    s = Sessions(t)
    p = s.launch_marks(threads=2)
    target = children_of(p.pid)[0]
    first, last, checked = None, 0, 0
    for i in range(CYCLES):
        name = t.path("r%d" % (i % 10))
        t.ok(s.ask(do="start", output=name, overwrite=True)["done"], "start %d" % i)
        answer = s.ask(do="stop")
        t.ok(answer["done"] and answer["report"] == name, "stop %d: %r" % (i, answer))
        if i % 50 == 49 and i < 200 or i % 500 == 499:
            for k in range(10):
                marks = marks_of(t, t.path("r%d" % k))
                for thread, numbers in marks.items():
                    t.eq(numbers, list(range(numbers[0], numbers[-1] + 1)), "cycle %d" % i)
                if 0 in marks:
                    t.ok(marks[0][0] > last, "collections follow each other")
                    last = marks[0][-1]
                checked += 1
        if i == CYCLES // 2:
            first = measure(p.pid), measure(target)
    end = wait_for_no_more(p.pid, first[0]), wait_for_no_more(target, first[1])
    for who, (before, after) in zip(("recorder", "program"), zip(first, end)):
        t.ok(after[0] <= before[0], "descriptors of the %s: %d, %d" % (who, before[0], after[0]))
        t.ok(after[1] <= before[1], "threads of the %s: %d, %d" % (who, before[1], after[1]))
        grown = after[2] - before[2]
        # Buffers of the recorder reach their final size in some hundred cycles, 4 MiB in all. A
        # leak of one report's buffers in each cycle would be 30 MiB by then.
        allowed = 16384 if CYCLES < 2000 else 2048
        t.ok(grown <= allowed, "memory of the %s grew by %d KiB" % (who, grown))
    t.eq(s.status()["collections"], CYCLES, "collections")
    s.end(p)
    s.check_clean()
    figure(
        "%d starts and stops, %d reports checked: no mark lost; recorder %+d descriptors, %+d"
        " threads, %+d KiB" % ((CYCLES, checked) + tuple(b - a for a, b in zip(first[0], end[0])))
    )


def storm(t, s, rnd):
    """Commands, kills and deaths in any order; what is left must be nothing."""
    name = "storm %d" % rnd.randrange(1000)
    before = rnd.random() < 0.3
    if before:
        s.tool("start", "--session-new=" + name, "-f", "-o", "r")
    options = [] if before else ["--session-new=" + name]
    if before:
        options = ["--session=" + name]
    p = s.launch(options=("-s", "none", "-t", "nvtx", *options), threads=2)
    answers = []

    def command():
        words = ["start", "stop", "stop", "cancel", "status"] + ["shutdown"] * (rnd.random() < 0.1)
        request = {"do": rnd.choice(words), "output": t.path("r"), "overwrite": True, "signal": 15}
        answers.append(s.ask(name, **request))

    def kill_program():
        for pid in children_of(p.pid):
            try:
                os.kill(pid, rnd.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGABRT)))
            except ProcessLookupError:
                pass

    threads = []
    for _ in range(rnd.randrange(3, 25)):
        time.sleep(rnd.random() ** 3 * 0.05)
        if rnd.random() < 0.05:
            kill_program()
        elif rnd.random() < 0.03:
            p.kill()
        else:
            threads.append(threading.Thread(target=command))
            threads[-1].start()
    if rnd.random() < 0.5:
        kill_program()
    p.stdin.close()
    p.stdin = None
    for x in threads:
        x.join(60)
        t.ok(not x.is_alive(), "each command is answered")
    p.communicate(timeout=60)
    t.ok(all(a is None or a["done"] or a["message"] for a in answers), "refusals have reasons")
    s.tool("sessions", "list")  # removes what a killed recorder has left
    if p.returncode == -signal.SIGKILL:
        for left in os.listdir(t.work):  # of a report that did not have its name yet
            if re.search(r"\.(warpsight-)?%d-" % p.pid, left):
                os.unlink(os.path.join(t.work, left))
        t.profile(
            ["true"], "--force-overwrite=true", clean=False, status=0
        )  # and this its shared memory
    return len(answers), p.returncode == -signal.SIGKILL


@test("sessions")
def storms(t):
    s = Sessions(t)
    rnd = random.Random(15)
    commands = kills = 0
    for _ in range(STORMS):
        n, killed = storm(t, s, rnd)
        commands, kills = commands + n, kills + killed
        s.check_clean()
        if os.path.exists(t.path("r")):
            if not killed:
                t.verify(t.path("r"))
                for numbers in marks_of(t, t.path("r")).values():
                    t.eq(numbers, list(range(numbers[0], numbers[-1] + 1)), "marks")
        for name in os.listdir(t.work):
            os.unlink(os.path.join(t.work, name))
    figure(
        "%d sessions, %d commands at random, recorders killed %d times: all ended clean"
        % (STORMS, commands, kills)
    )
