"""
test_live.py - reports are read while they are written: every command gets one consistent state, and
`top` shows what is new.

The program counts its ranges itself, in a file that is mapped shared (see test_kill.py): what a
snapshot holds lies between nothing and what had been begun when it was finished, and grows from one
snapshot to the next.
"""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time

from harness import test, wait_until
from test_kill import STOP_AT, counters, target_of

THREADS = 1


class Running:
    """A recording of storm.c that goes on until `end`."""

    def __init__(self, t, name):
        self.t, self.path = t, t.path(name)
        self.file = os.path.join(t.work, name + ".counters")
        self.p = t.start(
            t.profile_argv(
                [t.program("storm"), "paced", str(THREADS), "0", self.file],
                ["--trace=nvtx", "--cpuctxsw=none"],
                name,
            )
        )
        self.target = target_of(self.p.pid, "storm")
        wait_until(lambda: os.path.exists(self.file) and sum(self.counts()[1]) > 1000, 20)

    def counts(self):
        return counters(self.file, THREADS)

    def end(self):
        with open(self.file, "r+b") as f:
            f.seek(STOP_AT)
            f.write(struct.pack("<Q", 1))
        out, err = self.p.communicate(timeout=60)
        self.t.eq(self.p.returncode, 0, "exit status (%s)" % err)
        self.t.verify(self.path)
        return sum(self.counts()[1])


RANGES = "SELECT count(*) AS n, count(DISTINCT text) AS names FROM NVTX_EVENTS WHERE eventType = 59"


def snapshot(t, path):
    """Ranges that `query` finds right now; their names must be the program's."""
    r = t.tool("query", "-f", "json", path, RANGES)
    t.eq(r.status, 0, "query of a running recording (%s)" % r.said())
    t.contains(r.messages, "still running", "what query says")
    row = json.loads(r.out)[0]
    t.ok(row["names"] <= 8, "names of ranges in a snapshot: %r" % row)
    return row["n"]


def keep_looking(t, running, look, times, failures):
    """Snapshots, one after the other: none smaller than the one before, none larger than what was
    begun.
    """
    try:
        last = 0
        for _ in range(times):
            n = look(t, running.path)
            begun = sum(running.counts()[0])
            t.ok(last <= n <= begun, "snapshots of %d, then %d ranges; begun %d" % (last, n, begun))
            last = n
    except Exception as e:  # handed on by the test's own thread
        failures.append(e)


def exported(t, path):
    db = t.load(path)
    n = db.range_count()
    t.eq(set(db.ranges()) - set("abcdefgh"), set(), "names in an export")
    orphans = (
        db.one(
            "SELECT count(*) FROM NVTX_EVENTS WHERE globalTid NOT IN"
            " (SELECT globalTid FROM WARPSIGHT_THREAD)"
        )
        if db.has("WARPSIGHT_THREAD")
        else 0
    )
    t.eq(orphans, 0, "ranges of threads that an export does not know")
    return n


@test("live")
def snapshots_while_it_is_recorded(t):
    running = Running(t, "r")
    failures = []
    readers = [
        threading.Thread(target=keep_looking, args=(t, running, look, times, failures))
        for look, times in ((snapshot, 4), (snapshot, 3), (exported, 2))
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    info = t.tool("info", running.path)
    for e in failures:
        raise e
    t.contains(info.out.decode(), "still being recorded", "info of a running recording")
    stats = t.tool("stats", "-r", "nvtx_sum", "-f", "csv", "-o", "-", running.path)
    t.eq(stats.status, 0, "stats of a running recording (%s)" % stats.said())
    t.contains(stats.out.decode(), "PushPop", "what stats shows")
    done = running.end()
    whole = json.loads(t.tool("query", "-f", "json", running.path, RANGES).out)[0]
    t.eq(whole["n"], done, "ranges of the finished report")
    t.check_clean()


def shown_rate(t, page):
    """Ranges a second that a page of `top` shows, all names together."""
    rows = re.findall(r"^[a-h] +([0-9.]+) ?([kM]?) ", page, re.M)
    t.eq(len(rows), 8, "names of ranges in the page:\n" + page)
    return sum(float(n) * {"": 1, "k": 1e3, "M": 1e6}[unit] for n, unit in rows)


@test("live")
def top_shows_what_is_recorded(t):
    nothing = t.tool("top", "--once", t.path("none"))
    t.ok(nothing.status == 1 and b"none.wsrep" in nothing.err, "top of no file: " + nothing.said())
    running = Running(t, "r")
    before, began = sum(running.counts()[1]), time.monotonic()
    once = t.tool("top", "--once", running.path)
    after, ended = sum(running.counts()[0]), time.monotonic()
    t.eq(once.status, 0, "top --once (%s)" % once.said())
    page = once.out.decode()
    t.contains(page, r"r\.wsrep: recording 00:0", "the head of the page")
    t.contains(page, "storm paced", "the command in the page")
    t.ok(b"\033" not in once.out, "a page has no escapes where there is no terminal")
    t.ok(all(len(l) <= 80 for l in page.splitlines()), "a page is 80 columns wide:\n" + page)
    # What it shows of its second cannot be more than was done in all the time around it.
    t.ok(0 < shown_rate(t, page) <= (after - before + 1000) * 1.01, "the rate in\n" + page)
    t.ok(ended > began, "time went by")
    found = t.tool("top", "--once", "--interval=0.2")
    t.eq(found.status, 0, "top of all recordings (%s)" % found.said())
    t.contains(found.out.decode(), re.escape(running.path), "the recording that top finds itself")
    in_terminal(t, running)
    running.end()
    over = t.tool("top", "--once", running.path)
    t.eq(over.status, 1, "top of a finished report")
    t.contains(over.messages, "finished", "what top says of it")
    t.check_clean()


def in_terminal(t, running):
    """The page in a terminal of 80 by 24: it fits, it takes keys, and it leaves the terminal as it
    was.
    """
    pid, fd = pty.fork()
    if not pid:
        os.execve(t.where.warpsight, ["warpsight", "top", "-i", "0.3", running.path], t.env)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    os.kill(pid, signal.SIGWINCH)
    modes = termios.tcgetattr(fd)
    seen, sent, end = b"", False, time.monotonic() + 30
    while time.monotonic() < end:
        ready, _, _ = select.select([fd], [], [], 1)
        if not ready:
            continue
        try:
            seen += os.read(fd, 65536)
        except OSError:
            break
        if seen.count(b"NVTX RANGES") >= 3 and not sent:
            os.write(fd, b"\033[B\033[A\033[Cq")
            sent = True
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    t.eq(status, 0, "status of top, ended by q (%r)" % seen[-500:])
    t.ok(sent, "three pages were drawn: %r" % seen[-2000:])
    t.ok(
        seen.startswith(b"\033[?1049h") and seen.endswith(b"\033[?25h\033[?1049l"),
        "the other screen is left again: %r" % seen[-100:],
    )
    pages = seen.split(b"\033[H")[3:]
    for page in pages[:-1]:
        lines = page.split(b"\033[K\r\n")
        t.ok(len(lines) <= 24 and all(len(l) <= 80 for l in lines), "a page fits: %r" % page)
    t.ok(modes is not None, "the terminal answers")


@test("live")
def top_records_a_process_itself(t):
    p = t.start([t.program("attachee"), "malloc", "1"], stdin=subprocess.PIPE)
    t.line(p)
    r = t.tool("top", "--once", "--attach", str(p.pid))
    t.eq(r.status, 0, "top --attach (%s)" % r.said())
    t.contains(r.out.decode(), "process %d: recording" % p.pid, "the page of top --attach")
    t.contains(r.out.decode(), "attachee malloc 1", "the command in the page")
    gone = t.tool("top", "--attach=999999999", "--once")
    t.ok(gone.status == 1 and b"no process" in gone.err, "top of no process: " + gone.said())
    out, err = p.communicate(timeout=30)
    t.eq(out, b"as alone\n", "the process did not notice (%s)" % err)
    t.check_clean()
