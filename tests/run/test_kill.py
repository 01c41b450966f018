"""
test_kill.py - SIGKILL at random moments. The number of random kills is WS_TEST_KILLS (24, 3 at
least; `make nightly` takes 1000).

The program counts for itself, in a file mapped shared that outlives it: pairs begun and pairs done.
After a kill of the program, the report must hold every pair done and none that was not begun. After
a kill of the recorder, it may lack the pairs of the last 150 ms in which the machine let the
recorder run or it rested of its own will, and the program must go on and come to its own end, which
it does when told by that file.
"""
import os
import random
import signal
import struct
import time

from harness import (
    Failed,
    children_of,
    descendants_of,
    describe,
    figure,
    reap,
    shared_leftovers,
    shell_status,
    test,
    wait_until,
)

KILLS = max(3, int(os.environ.get("WS_TEST_KILLS", "24")))
RECORDER_KILLS = max(5, KILLS // 4)
BOTH_KILLS = max(5, KILLS // 10)
COUNTER_BYTES = 64
STOP_AT = 8191 * COUNTER_BYTES  # of storm.c's last counter


def counters(path, threads):
    """(pairs begun, pairs done) of all threads; done is read first by the writer's order: begun >=
    done.
    """
    with open(path, "rb") as f:
        data = f.read(COUNTER_BYTES * threads)
    done = [struct.unpack_from("<Q", data, i * COUNTER_BYTES + 8)[0] for i in range(threads)]
    begun = [struct.unpack_from("<Q", data, i * COUNTER_BYTES)[0] for i in range(threads)]
    return begun, done


def target_of(recorder, word):
    """Pid of the program that a recorder runs, once it has become that program."""

    def find():
        for p in descendants_of(recorder):
            try:
                if os.readlink("/proc/%d/exe" % p).endswith("/" + word):
                    return p
            except OSError:
                pass
        return None

    return wait_until(find, 20, 0.002)


def by_thread(db):
    """Ranges (closed, open) by thread, in order of the thread ids."""
    return db.sql(
        "SELECT globalTid, count(end), count(*) - count(end) FROM NVTX_EVENTS WHERE eventType = 59"
        " GROUP BY globalTid"
    )


def check_target_kill(t, report, file, threads):
    t.verify(report)
    db = t.load(report)
    begun, done = counters(file, threads)
    lost = db.lost("nvtx%")
    closed, left = 0, 0
    for _, c, o in by_thread(db):
        closed, left = closed + c, left + o
        t.ok(o <= 1, "at most one range left open a thread, saw %d" % o)
    # a pair whose pop has been recorded but not counted, one a thread, is all that may be more
    t.ok(
        sum(done) <= closed + lost <= sum(begun),
        "closed ranges %d, lost %d; the program completed %s and began %s; %s"
        % (closed, lost, done, begun, t.tool("info", report).out.decode()),
    )
    t.eq(lost, 0, "ranges lost")
    t.ok(
        closed + left <= sum(begun),
        "ranges, open ones included: %d, begun %d" % (closed + left, sum(begun)),
    )
    return closed


def kill_target_once(t, delay, threads, mode="paced"):
    file = os.path.join(t.work, "counters")
    for old in (file, t.path("r")):
        if os.path.exists(old):
            os.unlink(old)
    p = t.start(
        t.profile_argv([t.program("storm"), mode, str(threads), "0", file], ["--trace=nvtx"])
    )
    target = target_of(p.pid, "storm")
    t.ok(target, "the target started")
    time.sleep(delay)
    os.kill(target, signal.SIGKILL)
    out, err = p.communicate(timeout=60)
    t.eq(shell_status(p.returncode), 137, "exit status (%s)" % err)
    n = (
        check_target_kill(t, t.path("r"), file, threads)
        if os.path.exists(file) and os.path.getsize(file)
        else 0
    )
    t.check_clean()
    return n


@test("kill")
def target_killed_early_and_late(t):
    kill_target_once(t, 0, 1)
    t.ge(kill_target_once(t, 0.5, 1), 1, "ranges")
    t.ge(kill_target_once(t, 0.5, 3), 3, "ranges")


@test("kill")
def target_killed_at_random(t):
    rnd = random.Random(1)
    n = 0
    for _ in range(KILLS):
        n += kill_target_once(t, rnd.random() ** 2 * 0.25, rnd.choice((1, 1, 2, 4)))
    t.ge(n, 1, "ranges recorded in all")
    figure("target killed %d times: %d ranges recorded, none lost" % (KILLS, n))


def newest_end(db):
    """End of the newest range, on the clock of the collection."""
    return db.one("SELECT coalesce(max(end), 0) FROM NVTX_EVENTS WHERE eventType = 59")


def opens(t, path):
    """`info` shows what is there; its status is 1 when the report was not closed, as it says."""
    info = t.tool("info", path)
    if info.status not in (0, 1) or b"Processes:" not in info.out:
        raise Failed("info on %s: %s" % (path, info.said()))


def recover(t, path):
    """A report left by a killed recorder: opens as it is, and `recover` closes it; both give the
    same rows.
    """
    opens(t, path)
    before = t.load(path).range_count()
    r = t.tool("recover", path)
    if r.status:
        raise Failed("recover: %s" % r.said())
    t.verify(path)
    db = t.load(path)
    t.eq(db.range_count(), before, "ranges after recover and before")
    return db


def let_have(pid, seconds, count):
    """Wait until a process has had so much time: on a core, or asleep because it wished so. What it
    waits for a core or a disk is none. Returns what was seen on the way: the time on the clock, the
    process's own, and count().
    """

    def ran():
        with open("/proc/%d/schedstat" % pid) as f:
            return int(f.read().split()[0]) / 1e9

    def state():
        with open("/proc/%d/stat" % pid, "rb") as f:
            return f.read().rpartition(b")")[2].split()[0]

    begin, rested, end = ran(), 0.0, time.monotonic() + 30
    seen = [(time.monotonic(), 0.0, count())]
    while seen[-1][1] < seconds:
        time.sleep(0.005)
        rested += 0.005 if state() == b"S" else 0
        seen.append((time.monotonic(), ran() - begin + rested, count()))
        if time.monotonic() > end:
            raise Failed("the recorder did not get %.2f s of its own in 30 s" % seconds)
    return seen


def time_lost(seen, kept):
    """Milliseconds, on the clock and of the recorder's own, since the last moment whose events are
    all in the report, to within the 5 ms between two looks.
    """
    whole = [moment for moment in seen if moment[2] <= kept] or seen[:1]
    return tuple((seen[-1][i] - whole[-1][i]) * 1000 for i in (0, 1))


def kill_recorder_once(t, delay, threads=1):
    """Kill the recorder; the program must go on and come to its end. Returns ranges in the report,
    those done by 150 ms before the kill, and how many milliseconds the report lacks (time_lost).
    """
    file = os.path.join(t.work, "counters")
    for old in (file, t.path("r"), t.path("r") + ".journal"):
        if os.path.exists(old):
            os.unlink(old)
    p = t.start(
        t.profile_argv([t.program("storm"), "paced", str(threads), "0", file], ["--trace=nvtx"])
    )
    target = target_of(p.pid, "storm")
    t.ok(target, "the target started")
    t.ok(
        wait_until(lambda: os.path.exists(file) and os.path.getsize(file) > STOP_AT),
        "the target counts",
    )
    time.sleep(delay)
    seen = let_have(p.pid, 0.15, lambda: sum(counters(file, threads)[1]))
    earlier = seen[0][2]
    os.kill(p.pid, signal.SIGKILL)
    p.wait()
    at_kill = sum(counters(file, threads)[1])
    t.ok(
        wait_until(lambda: sum(counters(file, threads)[1]) > at_kill + 1000, 60),
        "the program goes on without the recorder",
    )
    with open(file, "r+b") as f:
        f.seek(STOP_AT)
        f.write(struct.pack("<Q", 1))
    out = p.stdout.read()  # ends when the target closes it
    p.stdout.close()
    p.stderr.close()
    # the target, now our child, ends as it would have: with status 0
    end = time.monotonic() + 60
    status = None
    while time.monotonic() < end and status is None:
        try:
            pid, st = os.waitpid(target, os.WNOHANG)
            if pid:
                status = st
        except ChildProcessError:
            raise Failed("the target is not there to be waited for") from None
        time.sleep(0.005)
    if status is None:
        raise Failed("the target hangs after the recorder was killed: %s" % describe(target))
    t.eq((status, out), (0, b"done\n"), "end of the target")
    begun, done = counters(file, threads)
    t.eq(done, begun, "pairs that the program did, and began")
    if not os.path.exists(t.path("r")):
        raise Failed("no report")
    db = recover(t, t.path("r"))
    n = db.range_count()
    t.ok(n <= sum(begun), "ranges %d, begun %d" % (n, sum(begun)))
    t.ok(
        n >= earlier,
        "ranges in the report: %d; the program had completed %d by 150 ms before the kill"
        % (n, earlier),
    )
    return n, earlier, time_lost(seen, n)


def clean_after_recorder_kill(t):
    """Whatever memory the killed recorder left is found and removed by the next one, or is gone
    already.
    """
    t.profile([t.program("tree"), "empty"], "-f", status=0, clean=False)
    left = shared_leftovers(t.recorders)
    if left:
        for name in left:
            os.unlink("/dev/shm/" + name)
        raise Failed("stale arenas in /dev/shm are not cleaned by the next recorder: %s" % left)


@test("kill")
def recorder_killed(t):
    n, earlier, _ = kill_recorder_once(t, 0.3)
    t.ge(earlier, 1, "pairs done before the kill")
    n, _, _ = kill_recorder_once(t, 0.2, threads=2)
    t.ge(n, 1, "ranges")
    clean_after_recorder_kill(t)


@test("kill")
def recorder_killed_at_random(t):
    rnd = random.Random(2)
    lost = [
        kill_recorder_once(t, rnd.random() * 0.2, threads=rnd.choice((1, 2)))[2]
        for _ in range(RECORDER_KILLS)
    ]
    clean_after_recorder_kill(t)
    for what, ms in zip(("on the clock", "of its own time (on a core, or at rest)"), zip(*lost)):
        ms = sorted(ms)
        figure(
            "recorder killed %d times, %s: %.0f ms lost in the median, %.0f at the 99th percentile,"
            " %.0f at most; more than 100 ms %d times"
            % (
                len(ms),
                what,
                ms[len(ms) // 2],
                ms[len(ms) * 99 // 100],
                ms[-1],
                sum(n > 100 for n in ms),
            )
        )


@test("kill")
def both_killed(t):
    """Target and recorder killed together, as by the out-of-memory killer or a batch system."""
    rnd = random.Random(3)
    for _ in range(BOTH_KILLS):
        for old in (t.path("r"), t.path("r") + ".journal"):
            if os.path.exists(old):
                os.unlink(old)
        p = t.start(t.profile_argv([t.program("storm"), "paced", "2", "0"], ["--trace=nvtx"]))
        target = target_of(p.pid, "storm")
        time.sleep(rnd.random() * 0.3)
        for pid in rnd.sample([target, p.pid], 2):
            os.kill(pid, signal.SIGKILL)
        p.communicate(timeout=30)
        wait_until(lambda: not (reap() or children_of(os.getpid())), 5)
        recover(t, t.path("r"))
    clean_after_recorder_kill(t)
    figure("both killed %d times: every report recovered" % BOTH_KILLS)


@test("kill")
def polite_signals_to_the_recorder_at_random(t):
    """SIGTERM, SIGINT and SIGHUP at any moment: a whole report or a clean refusal."""
    rnd = random.Random(4)
    for i in range(max(8, KILLS // 5)):
        sig = rnd.choice((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
        if os.path.exists(t.path("r")):
            os.unlink(t.path("r"))
        p = t.start(t.profile_argv([t.program("storm"), "paced", "1", "0"], ["--trace=nvtx"]))
        time.sleep(rnd.random() * 0.15)
        os.kill(p.pid, sig)
        try:
            out, err = p.communicate(timeout=30)
        except Exception:
            raise Failed("profile did not end on %s" % sig.name) from None
        t.ok(shell_status(p.returncode) != 0, "exit status after %s" % sig.name)
        if os.path.exists(t.path("r")):
            # the recorder may have been hit before it could take over signals; then its report must
            # still open
            opens(t, t.path("r"))
        reap()
        left = wait_until(lambda: not (reap() or children_of(os.getpid())), 5)
        t.ok(left, "processes left after %s" % sig.name)


@test("kill")
def child_killed(t):
    """A forked child dies by SIGKILL while its parent goes on: both are whole."""
    script = (
        "'%s' paced 1 0 counters & until [ -s counters ]; do sleep 0.01; done; sleep 0.3; kill -9"
        " $!; wait $! 2>/dev/null; '%s' nested 100" % (t.program("storm"), t.program("ranges"))
    )
    r = t.profile(["/bin/bash", "-c", script], "--trace=nvtx", status=0)
    t.verify(r.report)
    db = t.load(r.report)
    begun, done = counters(os.path.join(t.work, "counters"), 1)
    n = db.one("SELECT count(end) FROM NVTX_EVENTS WHERE eventType = 59 AND length(text) = 1")
    t.ok(
        done[0] <= n <= begun[0],
        "ranges of the killed child %d, done %d, begun %d" % (n, done[0], begun[0]),
    )
    t.eq(db.range_count("leaf"), 600, "ranges of the program after it")
