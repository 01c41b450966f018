"""
test_attach.py - recording processes that run already: what is recorded, and that the process does
not notice. attachee.c tells whether it did.
"""
import os
import random
import re
import signal
import subprocess
import sys
import time

from harness import have, test, wait_until
from test_kill import STOP_AT, counters


def start_attachee(t, *words, program="attachee", before=()):
    p = t.start([*before, t.program(program), *words], stdin=subprocess.PIPE)
    t.line(p)
    return p


def attach(t, pid, *options, output="r"):
    r = t.tool("profile", "--attach", str(pid), "-o", output, "-f", *options)
    t.recorders.add(r.pid)
    return r


def expect_as_alone(t, p, what):
    out, err = p.communicate(timeout=60)
    t.eq(out.decode().split("\n")[-2:], ["as alone", ""], what + ": what it saw (%s)" % err)
    t.eq(p.returncode, 42, what + ": exit status (%s)" % err)


@test("attach", needs=("x86-64",))
def records_a_running_program(t):
    file = os.path.join(t.work, "counters")
    p = t.start([t.program("storm"), "paced", "1", "0", file])
    wait_until(lambda: os.path.exists(file) and counters(file, 1)[1][0] > 1000, 20)
    before = counters(file, 1)[1][0]
    r = attach(t, p.pid, "-d", "1.5", "-t", "nvtx,osrt")
    after = counters(file, 1)[0][0]
    t.eq(r.status, 0, "status of profile --attach (%s)" % r.said())
    t.contains(r.messages, "runs on unrecorded", "what is said at the end")
    t.verify(t.path("r"))
    db = t.load(t.path("r"))
    n = db.range_count()
    t.ok(0 < n <= after - before, "%d ranges, of %d that the program made" % (n, after - before))
    t.ok(set(db.ranges()) <= set("abcdefgh"), "names of the ranges: %s" % db.ranges())
    t.eq(db.lost(), 0, "events lost")
    t.eq(db.processes(), ["storm"], "processes")
    t.contains(" ".join(db.diagnostics()), "NVTX: 1 of 1 libraries", "diagnostics")
    # A second session in the same process, whose hooks are there already.
    again = attach(t, p.pid, "-d", "1", "-t", "nvtx", output="again")
    t.eq(again.status, 0, "a second time (%s)" % again.said())
    t.ge(t.load(t.path("again")).range_count(), 1, "ranges of the second report")
    with open(file, "r+b") as f:
        f.seek(STOP_AT)
        f.write(b"\1")
    out, err = p.communicate(timeout=30)
    begun, done = counters(file, 1)
    t.eq(p.returncode, 0, "status of the program (%s)" % err)
    t.eq(begun, done, "every range has been ended")
    t.check_clean()


@test("attach")
def samples_and_switches_at_once(t):
    p = start_attachee(t, "malloc", "2")
    r = attach(t, p.pid, "-d", "0.4", "-t", "none")
    t.eq(r.status, 0, "status (%s)" % r.said())
    db = t.load(t.path("r"))
    if db.meta().get("perf.scope", "refused") == "refused":
        t.skip("perf events are refused")
    t.eq(db.processes(), ["attachee"], "processes")
    t.ge(db.one("SELECT count(DISTINCT tid) FROM WARPSIGHT_THREAD"), 2, "threads that ran")
    t.ge(db.one("SELECT count(*) FROM COMPOSITE_EVENTS"), 20, "samples")
    names = [n for (n,) in db.sql("SELECT value FROM StringIds")]
    t.ok("allocate" in names, "the function that runs has its name")
    expect_as_alone(t, p, "a program whose threads are sampled")
    t.check_clean()


def attach_again_and_again(t, p, times):
    loaded = 0
    for _ in range(times):
        r = attach(t, p.pid, "-d", "0.05", "-s", "none", "--cpuctxsw=none", "-t", "nvtx,osrt")
        t.eq(r.status, 0, "status of profile --attach (%s)" % r.said())
        loaded += b"Nothing of" not in r.err
    return loaded


@test("attach", needs=("x86-64",))
def busy_programs_do_not_notice(t):
    for words in (["malloc", "3", "floats"], ["waits", "signals"]):
        p = start_attachee(t, *words)
        loaded = attach_again_and_again(t, p, 6)
        expect_as_alone(t, p, " ".join(words))
        t.ge(loaded, 3, "times that the hooks were loaded: " + " ".join(words))
    t.check_clean()


PYTHON = """
import sys, threading, time
over = []
def work():
    while not over:
        sum(i * i for i in range(1000))
        time.sleep(0.001)
def wait():
    sys.stdin.read()
    over.append(1)
threads = [threading.Thread(target=f) for f in (work, work, wait)]
[x.start() for x in threads]
print("ready", flush=True)
while not over:
    d = {i: str(i) for i in range(1000)}
    assert all(int(d[i]) == i for i in d)
[x.join() for x in threads]
print("as alone")
sys.exit(42)
"""
NODE = """
let over = false, n = 0;
process.stdin.on("end", () => { over = true; }).resume();
console.log("ready");
function work() {
  for (let i = 0; i < 1e5; i++) n += i % 7;
  if (!over) setTimeout(work, 1);
  else { console.log("as alone"); process.exit(42); }
}
work();
"""


FRAMES = """
import os, sys, threading

def burn():
    n = 0
    for i in range(2000):
        n += i * i
    return n

def of_child():
    while os.getppid() == parent:
        burn()

def of_thread():
    while not over:
        burn()

def of_late_thread():
    while not over:
        burn()

def of_main():
    late = None
    while not os.path.exists("over"):
        burn()
        if not late and os.path.exists("late"):
            late = threading.Thread(target=of_late_thread)
            late.start()
    return late

over, parent = False, os.getpid()
if not os.fork():
    of_child()
    os._exit(0)
thread = threading.Thread(target=of_thread)
thread.start()
print("ready", flush=True)
late = of_main()
over = True
thread.join()
if late:
    late.join()
print("as alone")
sys.exit(42)
"""


def python_samples(t, report):
    """Functions in the stacks that were read from outside."""
    r = t.tool("query", "-f", "csv", t.path(report), "SELECT count(*) FROM WARPSIGHT_PYTHON_SAMPLE")
    return int(r.out.split()[-1]) if not r.status else 0


def folded_stacks(t, report):
    """Of the samples so far: the recording may be under way."""
    r = t.tool("export", "-q", "-t", "folded", "-o", "r.folded", "-f", t.path(report))
    if r.status:
        return ""
    with open(os.path.join(t.work, "r.folded")) as f:
        return f.read()


@test("attach")
def python_frames_without_a_hook(t):
    """Of threads that were there, of one that is started meanwhile, and of a child; with hooks in
    the process and without.
    """
    with open(os.path.join(t.work, "frames.py"), "w") as f:
        f.write(FRAMES)
    p = t.start([sys.executable, "frames.py"])
    t.eq(t.line(p), b"ready\n", "the program runs")
    functions = {"of_main", "of_thread", "of_child", "burn"}
    for name, trace in (("none", "none"), ("hooks", "nvtx,osrt")):
        recorder = t.start(
            [t.where.warpsight, "profile", "--attach", str(p.pid), "-o", name, "-t", trace]
        )
        words = (
            r"frames are read in the kernel|Stacks of CPU samples have no frames of Python.*kernel"
        )
        said = lambda: re.search(words, t.tool("info", t.path(name)).out.decode())  # noqa: E731
        wait_until(said, 60, 0.1)
        if trace != "none":
            t.touch("late")
            functions.add("of_late_thread")
        missing = lambda: [f for f in functions if f + " (" not in folded_stacks(t, name)]  # noqa
        readable = said() and "frames are read" in said().group(0)
        if readable:
            wait_until(lambda: not missing(), 60, 0.2)
        recorder.send_signal(signal.SIGINT)
        _, err = recorder.communicate(timeout=60)
        t.eq(recorder.returncode, 0, "status of profile (%s)" % err)
        t.ok(said(), "what is said of Python's frames")
        if readable:
            t.eq(missing(), [], "functions without samples")
            text = folded_stacks(t, name)
            t.contains(text, r"<module> \([^;]*;of_main \([^;]*;burn \(", "callers and callees")
    # Where the kernel takes no such program.
    recorder = t.start(
        [t.where.warpsight, "profile", "--attach", str(p.pid), "-o", "outside", "-t", "nvtx"],
        env={"WARPSIGHT_PYTHON": "signals"},
    )
    refused = lambda: b"Nothing of NVTX" in t.tool("info", t.path("outside")).out  # noqa: E731
    wait_until(lambda: python_samples(t, "outside") >= 5 or refused(), 60, 0.2)
    recorder.send_signal(signal.SIGINT)
    _, err = recorder.communicate(timeout=60)
    t.eq(recorder.returncode, 0, "status of profile (%s)" % err)
    info = t.tool("info", t.path("outside")).out.decode()
    if "Nothing of NVTX is recorded" not in info:  # the hooks could be loaded
        t.contains(info, r"CPython 3\.[0-9]+: frames are read from outside", "info")
        t.ge(python_samples(t, "outside"), 5, "stacks that were read from outside")
        t.contains(info, "Stacks of CPU samples have no frames of Python", "what is said")
    t.touch("over")
    expect_as_alone(t, p, "a Python program whose frames are read")
    t.check_clean()


@test("attach", needs=("x86-64",))
def interpreters_do_not_notice(t):
    programs = [[sys.executable, "-c", PYTHON]]
    if have("node"):
        programs.append(["node", "-e", NODE])
    for program in programs:
        p = t.start(program, stdin=subprocess.PIPE)
        t.line(p)
        t.ge(attach_again_and_again(t, p, 4), 1, "times that hooks were loaded: " + program[0])
        expect_as_alone(t, p, program[0])
    t.check_clean()


@test("attach")
def what_cannot_be_attached_to(t):
    ended = subprocess.Popen(["true"])
    ended.wait()
    kernel = next((p for p in os.listdir("/proc") if p.isdigit() and is_kernel_thread(p)), None)
    cases = [(str(ended.pid), "no process"), ("0", "no program to run"), ("-3", "no process id")]
    if kernel:
        cases.append((kernel, "thread of the kernel"))
    for pid, why in cases:
        r = t.tool("profile", "--attach=" + pid, "-o", "x")
        t.ok(r.status != 0, "attaching to %s is refused" % pid)
        t.contains(r.messages, why, "why %s cannot be attached to" % pid)
    r = t.tool("profile", "--attach", str(os.getpid()), "-o", "x", "true")
    t.eq(r.status, 2, "a program beside --attach")
    zombie = subprocess.Popen(["true"])
    wait_until(lambda: state_of(zombie.pid) == "Z")
    r = t.tool("profile", "--attach", str(zombie.pid), "-o", "x")
    t.contains(r.messages, "has ended", "a process that has ended")
    zombie.wait()
    t.eq(t.find_reports(), [], "reports of what was refused")


def is_kernel_thread(pid):
    try:
        with open("/proc/%s/stat" % pid) as f:
            return int(f.read().rpartition(")")[2].split()[6]) & 0x200000
    except OSError:
        return False


def state_of(pid):
    with open("/proc/%d/stat" % pid) as f:
        return f.read().rpartition(")")[2].split()[0]


@test("attach", needs=("x86-64",))
def hooks_that_cannot_come(t):
    """The hooks are refused with a sentence, and the rest is recorded."""
    stopped = start_attachee(t)
    os.kill(stopped.pid, signal.SIGSTOP)
    wait_until(lambda: state_of(stopped.pid) == "T")
    r = attach(t, stopped.pid, "-d", "0.1", "-t", "nvtx")
    t.eq(r.status, 0, "attaching to a stopped process (%s)" % r.said())
    t.contains(r.messages, "is stopped", "what is said of a stopped process")
    t.eq(state_of(stopped.pid), "T", "its state afterwards")
    os.kill(stopped.pid, signal.SIGCONT)
    expect_as_alone(t, stopped, "a stopped process that goes on")

    traced = t.start([t.program("attachee"), "traced"], stdin=subprocess.PIPE)
    child = int(t.line(traced))
    t.line(traced)
    r = attach(t, child, "-d", "0.1", "-t", "nvtx")
    t.eq(r.status, 0, "attaching to a process under a debugger (%s)" % r.said())
    t.contains(r.messages, "under a debugger", "what is said of it")
    expect_as_alone(t, traced, "a process under a debugger")

    static = start_attachee(t, program="attacheestatic")
    r = attach(t, static.pid, "-d", "0.1", "-t", "nvtx")
    t.eq(r.status, 0, "attaching to a static program (%s)" % r.said())
    t.contains(r.messages, "statically", "what is said of it")
    expect_as_alone(t, static, "a static program")
    t.check_clean()


@test("attach", needs=("x86-64", "root"))
def of_other_users(t):
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if not have("setpriv"):
        t.skip("needs setpriv")
    os.chmod(t.dir, 0o755)
    os.chmod(t.work, 0o777)
    theirs = start_attachee(t, "malloc", "1", before=nobody)
    r = attach(t, theirs.pid, "-d", "0.2", "-t", "nvtx,osrt")
    t.eq(r.status, 0, "root attaches to another user's process (%s)" % r.said())
    mine = start_attachee(t)
    r = t.run(
        [*nobody, t.where.warpsight, "profile", "--attach", str(mine.pid), "-o", t.work + "/n"]
    )
    t.ok(r.status != 0, "a user attaches to root's process (%s)" % r.said())
    t.contains(r.messages, "another user's", "what is said of that")
    expect_as_alone(t, mine, "root's process")
    expect_as_alone(t, theirs, "the user's process")
    t.check_clean()


@test("attach")
def ends_with_an_interrupt_or_the_process(t):
    p = start_attachee(t)
    recorder = t.start(
        [t.where.warpsight, "profile", "--attach", str(p.pid), "-o", "a", "-t", "nvtx"]
    )
    wait_until(lambda: os.path.exists(t.path("a")), 10)
    time.sleep(0.3)
    recorder.send_signal(signal.SIGINT)
    out, err = recorder.communicate(timeout=30)
    t.eq(recorder.returncode, 0, "status after an interrupt (%s)" % err)
    t.eq(p.poll(), None, "the process lives on")
    t.verify(t.path("a"))
    recorder = t.start(
        [t.where.warpsight, "profile", "--attach", str(p.pid), "-o", "b", "-t", "nvtx"]
    )
    wait_until(lambda: os.path.exists(t.path("b")), 10)
    time.sleep(0.2)
    expect_as_alone(t, p, "a process that ends while it is recorded")
    out, err = recorder.communicate(timeout=30)
    t.eq(recorder.returncode, 0, "status when the process has ended (%s)" % err)
    t.verify(t.path("b"))
    t.check_clean()


@test("attach", needs=("x86-64",))
def killed_recorders_do_no_harm(t):
    rnd = random.Random(7)
    p = start_attachee(t, "malloc", "2", "waits", "floats")
    for _ in range(14):
        recorder = t.start(
            [t.where.warpsight, "profile", "--attach", str(p.pid), "-o", "k", "-f", "-q"]
            + ["-t", "nvtx,osrt", "-s", "none", "--cpuctxsw=none"]
        )
        time.sleep(rnd.random() * 0.15)
        recorder.kill()
        recorder.communicate()
    r = attach(t, p.pid, "-d", "0.1", "-t", "osrt")
    t.eq(r.status, 0, "attaching after them (%s)" % r.said())
    t.ok(b"Nothing of" not in r.err, "the hooks are loaded after them (%s)" % r.said())
    expect_as_alone(t, p, "a process whose recorders were killed")


@test("attach", needs=("x86-64",))
def within_a_container_that_filters_calls(t):
    """All processes there have the container's filter; who has more has shut itself in."""
    filtered = [t.program("busy"), "deny", "1"]
    if t.run([*filtered, "true"]).status == 77:
        t.skip("no seccomp filter can be set")
    for before, refused in (([], False), (filtered, True)):
        p = start_attachee(t, "malloc", "2", before=[*filtered, *before])
        options = ["--attach", str(p.pid), "-o", "f", "-f", "-d", "0.1", "-s", "none"]
        r = t.run([*filtered, t.where.warpsight, "profile", *options, "-t", "osrt"])
        t.eq(r.status, 0, "status of profile --attach (%s)" % r.said())
        t.eq(b"has shut itself in with seccomp" in r.err, refused, "refused (%s)" % r.said())
        t.eq(b"Nothing of" in r.err, refused, "the hooks are left out (%s)" % r.said())
        expect_as_alone(t, p, "a program that is attached to within a container")


@test("attach", needs=("x86-64",))
def ranges_begin_collections(t):
    """The hooks are loaded before a collection begins: they see the range that begins it."""
    p = t.start([t.program("marks"), "1"], stdin=subprocess.PIPE)
    t.eq(t.line(p), b"marking\n", "the program runs")
    for name, options, each in (
        ("a", ["-c", "nvtx", "-p", "step@*", "--capture-range-end=repeat:2"], {"a": 1, "a.2": 1}),
        ("b", ["--steps=2-4"], {"b": 3}),
    ):
        r = attach(t, p.pid, "-t", "nvtx", "-s", "none", *options, output=name)
        t.eq(r.status, 0, "status (%s)" % r.said())
        for report, ranges in each.items():
            t.eq(t.load(t.path(report)).range_count("step"), ranges, "ranges in " + report)
    r = attach(t, p.pid, "-t", "nvtx", "-c", "cudaProfilerApi")
    t.eq(r.status, 2, "status without CUDA")
    t.contains(r.messages, "needs --trace=cuda", "without CUDA")
    p.stdin.close()
    p.stdin = None
    p.communicate(timeout=60)
    t.eq(p.returncode, 7, "status of the program")
    t.check_clean()


@test("attach", needs=("x86-64",))
def sessions_of_a_running_program(t):
    """launch --attach: several collections of one process, begun and ended from elsewhere."""
    p = t.start([t.program("marks"), "1"], stdin=subprocess.PIPE)
    t.eq(t.line(p), b"marking\n", "the program runs")
    launch = t.start(
        [t.where.warpsight, "launch", "--attach", str(p.pid), "-t", "nvtx", "-s", "none"]
    )
    for name in ("one", "two"):
        wait_until(lambda: t.tool("start", "-o", name).status == 0, 10, 0.1)
        wait_until(lambda: os.path.exists(t.path(name)), 10)
        time.sleep(0.2)
        r = t.tool("stop")
        t.eq(r.status, 0, "stop (%s)" % r.said())
        t.ge(t.load(t.path(name)).range_count(kind=34), 5, "marks in report " + name)
    t.eq(t.tool("shutdown").status, 0, "shutdown")
    out, err = launch.communicate(timeout=30)
    t.eq(launch.returncode, 0, "status of launch (%s)" % err)
    p.stdin.close()
    p.stdin = None
    out, err = p.communicate(timeout=30)
    t.eq(p.returncode, 7, "status of the program (%s)" % err)
    t.check_clean()
