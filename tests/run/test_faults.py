"""test_faults.py - each command with its n-th allocation (those of libdw by themselves), write,
mapping, opened file, fork, sync, rename, close or call of a socket failing, once or from there on.
What must hold: no crash and no hang; a message where something is missing; no half-made file under
a name that was asked for, and none forgotten beside it; a report that opens; and a recorded program
that has printed and returned what it does alone, or has not begun at all.

WS_TEST_FAULTS (8) is how many n of each kind are tried for each command, spread over all there are,
the same at each run; 0 tries all of them (`make nightly`). programs/fault.c does the failing.
"""
import json
import os
import shutil
import signal
import struct
import subprocess

from harness import Failed, Result, Skip, figure, shared_leftovers, shell_status, test

KINDS = ("alloc", "write", "map", "open", "fork", "sync", "rename", "dwarf", "close", "socket")
FAULTS = int(os.environ.get("WS_TEST_FAULTS", "8"))
HANG = 60  # seconds; far more than 10, since a machine may be busy
CRASHES = {128 + s for s in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE)}
CRASHES |= {128 + signal.SIGILL, 128 + signal.SIGSYS, 128 + signal.SIGTRAP}


def empty(folder):
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)


class Faulty:
    """A command that is run with faults: its words, the file it makes (or None), and what is there
    before it starts.
    """

    says_in_output = False  # whether what went wrong may be said in what it prints

    def __init__(self, t, words, made=None, prepare=None):
        self.t, self.words, self.made, self.prepare = t, words, made, prepare
        self.counts = os.path.join(t.dir, "counts")
        self.library = t.program("libfault.so")

    def start_afresh(self):
        empty(self.t.work)
        if self.prepare:
            self.prepare()

    def run(self, fault):
        """(result, calls by kind) of one run; `fault` as WS_FAULT has it, None for none."""
        self.start_afresh()
        with open(self.counts, "wb") as f:
            f.write(bytes(8 * len(KINDS)))
        env = {"LD_PRELOAD": self.library, "WS_FAULT": fault or "", "WS_FAULT_COUNTS": self.counts}
        r = self.execute(env)
        with open(self.counts, "rb") as f:
            return r, dict(zip(KINDS, struct.unpack("<%dQ" % len(KINDS), f.read())))

    def execute(self, env):
        return self.t.run([self.t.where.warpsight, *self.words], env=env, timeout=HANG)

    def files(self):
        return sorted(os.listdir(self.t.work))


def numbers(total):
    """Which calls fail, of `total`: the first, the last, and others at equal steps."""
    if not FAULTS or total <= FAULTS:
        return list(range(1, total + 1))
    return sorted({1 + i * (total - 1) // (FAULTS - 1) for i in range(FAULTS)})


def faults_of(counts):
    for kind in KINDS:
        for i, n in enumerate(numbers(counts[kind])):
            yield kind, "%s:%d" % (kind, n)
            if not FAULTS or i % 2 == 0:
                yield kind, "%s:%d+" % (kind, n)


def try_all(t, command, check):
    """Run `command` with every fault, and `check(fault, result)` after each; all that failed is
    said at once.
    """
    whole, counts = command.run(None)
    check(None, whole, whole)
    if not counts["alloc"]:
        raise Failed("no call of %s is counted" % command.words)
    wrong = []
    tried = 0
    for kind, fault in faults_of(counts):
        r, _ = command.run(fault)
        tried += 1
        try:
            if r.status in CRASHES:
                raise Failed("it crashed")
            said = r.err or (command.says_in_output and r.out)
            if r.status not in (0, whole.status) and not said:
                raise Failed("it failed without a word")
            check(fault, r, whole)
            left = shared_leftovers({r.pid})
            for name in left:
                os.unlink("/dev/shm/" + name)
            left += os.listdir(t.tmp)
            empty(t.tmp)
            if left:
                raise Failed("left behind: %s" % left)
        except Failed as e:
            wrong.append("%s %s: %s; %s" % (command.words[0], fault, e, r.said()[-600:]))
    if wrong:
        raise Failed("%d of %d faults did harm:\n%s" % (len(wrong), tried, "\n".join(wrong)))
    figure("%s: %d faults" % (command.words[0], tried))


def make_report(t):
    """A report of ranges, calls and samples, kept outside the folder that commands work in."""
    path = os.path.join(t.dir, "kept.wsrep")
    r = t.run(t.profile_argv([t.program("ranges"), "nested", "20"], ["--trace=nvtx,osrt"]))
    if r.status:
        raise Failed("cannot make a report: %s" % r.said())
    shutil.move(t.path("r"), path)
    return path


def check_reader(command):
    """What holds for commands that read a report and print, or make a file."""
    seen = {}
    made_folder = (command.made or "").endswith("dir")

    def check(fault, r, whole):
        files = command.files()
        if fault is None:
            seen["files"] = files
            if r.status:
                raise Failed("it fails without a fault: %s" % r.said())
            return
        if r.status == 0 and r.out != whole.out and not r.err:
            raise Failed("it printed something else and said nothing")
        if r.status == 0 and files != seen["files"]:
            raise Failed("it made %s, not %s" % (files, seen["files"]))
        if r.status and command.made in files:
            raise Failed("it failed and made %s" % command.made)
        extra = set(files) - set(seen["files"])
        # Who can open nothing cannot list a folder, and so cannot remove it.
        if extra and not (made_folder and fault.startswith("open") and fault.endswith("+")):
            raise Failed("left behind: %s" % sorted(extra))

    return check


def read_with_faults(t, words, made=None):
    command = Faulty(t, words, made)
    try_all(t, command, check_reader(command))


def check_recording(t, command):
    """What holds for `profile` and its program, which prints "hi" and ends with 7."""

    def check(fault, r, whole):
        if r.out not in (b"hi\n", b"") or r.target_err:
            raise Failed("the program printed something else")
        if r.out and r.status != 7 and not r.messages:
            raise Failed("its status is lost without a word")
        if r.out and r.status not in (7, 1):
            raise Failed("its status is neither its own nor that of a failed recording")
        if not r.out and "--store-output" in command.words and str(fault)[-1] == "+":
            return  # its output goes through our hands, which could write nothing any more
        if not r.out and "output could not all be written" in r.messages:
            return  # for the same reason, which was said
        if not r.out and r.status in (0, 7):
            raise Failed("the program has not run, and the status does not say so")
        report = t.path("r")
        if not r.out and command.files():
            raise Failed("left without a program having run: %s" % command.files())
        if not os.path.exists(report):
            return
        if t.tool("info", "--verify", report).status:
            recovered = t.tool("recover", report)
            if recovered.status and fault.startswith(("write", "sync")) and r.err:
                return  # no block of it could be written, which was said
            if recovered.status:
                raise Failed("its report is beyond recovery: %s" % recovered.said())
            t.verify(report)
        if command.files() != ["r.wsrep"]:
            raise Failed("left beside the report: %s" % command.files())

    return check


def record_with_faults(t, *options):
    words = ["profile", "-o", "r", *options, "sh", "-c", "echo hi; exit 7"]
    command = Faulty(t, words)
    try_all(t, command, check_recording(t, command))


@test("faults")
def profile_of_ranges_and_calls(t):
    record_with_faults(t, "--trace=nvtx,osrt", "--sample=none")


@test("faults")
def profile_with_samples_and_kept_output(t):
    record_with_faults(t, "--store-output", "--sync=0.1")


@test("faults")
def profile_over_an_old_report(t):
    """Where the program has not run, the old report is still there."""
    old = make_report(t)
    words = ["profile", "-f", "-o", "r", "--sample=none", "sh", "-c", "echo hi; exit 7"]
    command = Faulty(t, words, prepare=lambda: shutil.copy(old, t.path("r")))
    recorded = check_recording(t, command)

    def check(fault, r, whole):
        if r.out:
            recorded(fault, r, whole)
            return
        if not os.path.exists(t.path("r")):
            raise Failed("the old report is gone: %s" % command.files())
        with open(old, "rb") as f, open(t.path("r"), "rb") as g:
            if f.read() != g.read() or command.files() != ["r.wsrep"]:
                raise Failed("the old report has not come back")

    try_all(t, command, check)


@test("faults")
def stats(t):
    read_with_faults(t, ["stats", make_report(t)])


@test("faults")
def info(t):
    read_with_faults(t, ["info", make_report(t)])


@test("faults")
def help_and_version(t):
    for words in ["help"], ["help", "profile"], ["version"]:
        read_with_faults(t, words)


@test("faults")
def query(t):
    words = "SELECT text, count(*) FROM NVTX_EVENTS GROUP BY text ORDER BY 1"
    read_with_faults(t, ["query", make_report(t), words])


# Other commands that read a report and print: the words before it, and behind it.
READERS = {
    "report": (["report"], []),
    "analyze": (["analyze"], []),
    "analyze_as_sarif": (["analyze", "--format=sarif"], []),
    "diff": (["diff"], ["REPORT"]),
    "ops": (["ops"], []),
}


def reading(name, before, behind):
    def read(t):
        report = make_report(t)
        read_with_faults(t, [*before, report, *[report for _ in behind]])

    read.__name__ = name
    test("faults")(read)


for name, words in READERS.items():
    reading(name, *words)


def exporting(kind):
    def export(t):
        made = "x." + kind.strip("/")
        read_with_faults(t, ["export", "-t", kind, "-o", made, make_report(t)], made)

    export.__name__ = "export_" + kind
    test("faults")(export)


for kind in ("sqlite", "json", "arrowdir", "perfetto", "html"):
    exporting(kind)


@test("faults")
def importing(t):
    report = make_report(t)
    trace = os.path.join(t.dir, "trace.json")
    r = t.tool("export", "-t", "chrome", "-o", trace, report)
    if r.status:
        raise Skip("no trace to import")
    read_with_faults(t, ["import", "-o", "i.wsrep", trace], "i.wsrep")


@test("faults")
def recover(t):
    """A report without its end; what cannot be recovered stays as it was."""
    report = make_report(t)
    with open(report, "rb") as f:
        cut = f.read()[:-200]

    def prepare():
        with open(t.path("r"), "wb") as f:
            f.write(cut)

    command = Faulty(t, ["recover", "r.wsrep"], prepare=prepare)

    def check(fault, r, whole):
        if command.files() != ["r.wsrep"]:
            raise Failed("left behind: %s" % command.files())
        if r.status == 0:
            t.verify(t.path("r"))
        with open(t.path("r"), "rb") as f:
            if r.status and f.read() != cut and t.tool("info", "--verify", t.path("r")).status:
                raise Failed("the report is neither as it was nor recovered")

    try_all(t, command, check)


@test("faults")
def symbolize(t):
    """The report is as it was, or whole; what libdw cannot stand costs lines, not the command."""
    options = ["--trace=osrt", "--osrt-backtrace-threshold=0", "--resolve-symbols=false"]
    r = t.run(t.profile_argv([t.program("calls"), "threads", "20"], options, "../kept"))
    kept = os.path.join(t.dir, "kept.wsrep")
    if r.status:
        raise Failed("cannot make a report: %s" % r.said())
    with open(kept, "rb") as f:
        before = f.read()
    command = Faulty(t, ["symbolize", "r.wsrep"], prepare=lambda: shutil.copy(kept, t.path("r")))

    def check(fault, r, whole):
        if command.files() != ["r.wsrep"]:
            raise Failed("left behind: %s" % command.files())
        with open(t.path("r"), "rb") as f:
            changed = f.read() != before
        if r.status and changed:
            raise Failed("it failed and changed the report")
        if r.status == 0:
            t.verify(t.path("r"))
        if fault and fault.startswith("dwarf") and r.status:
            raise Failed("what libdw does brings it down")

    try_all(t, command, check)


@test("faults")
def printing_into_a_command(t):
    read_with_faults(t, ["stats", "-q", "-r", "nvtx_sum", "-o", "@cat", make_report(t)])


class FaultyServer(Faulty):
    """`view`: run until it has printed its address or ended, and then asked to end."""

    def execute(self, env):
        p = self.t.start([self.t.where.warpsight, *self.words], env=env)
        try:
            first = self.t.line(p, HANG)
            if first:
                p.send_signal(signal.SIGTERM)
            out, err = p.communicate(timeout=HANG)
        except (Failed, subprocess.TimeoutExpired):
            p.kill()
            p.communicate()
            raise Failed("it neither prints its address nor ends") from None
        return Result(p.args, shell_status(p.returncode), first + out, err, 0, p.pid)


@test("faults")
def view_starts_or_says_why(t):
    command = FaultyServer(t, ["view", "--no-open", make_report(t)])

    def check(fault, r, whole):
        if b"http://" not in r.out and (r.status == 0 or not r.err):
            raise Failed("no address, and no word why")
        if fault is None and b"http://" not in r.out:
            raise Failed("no address without a fault: %s" % r.said())

    try_all(t, command, check)


# ---- commands whose answer depends on the machine or on the moment ----


class FaultyTalk(Faulty):
    """A command that answers what it reads from standard input: a file, since it may end early."""

    def __init__(self, t, words, lines):
        super().__init__(t, words)
        self.asked = os.path.join(t.dir, "asked")
        with open(self.asked, "w") as f:
            f.writelines(line + "\n" for line in lines)

    def execute(self, env):
        words = [self.t.where.warpsight, *self.words]
        with open(self.asked, "rb") as f:
            return self.t.run(words, stdin=f, env=env, timeout=HANG)


def check_answer(command):
    def check(fault, r, whole):
        if fault is None and r.status > 1:
            raise Failed("it fails without a fault: %s" % r.said())
        if r.status == 0 and not r.out and not r.err:
            raise Failed("no answer, and no word why")
        if command.files():
            raise Failed("left behind: %s" % command.files())

    return check


def answer_with_faults(t, words):
    command = Faulty(t, words)
    command.says_in_output = True
    try_all(t, command, check_answer(command))


@test("faults")
def doctor(t):
    answer_with_faults(t, ["doctor"])


@test("faults")
def state_of_the_machine(t):
    answer_with_faults(t, ["status", "-e"])


@test("faults")
def list_of_sessions(t):
    answer_with_faults(t, ["sessions", "list"])


@test("faults")
def top_of_a_report(t):
    answer_with_faults(t, ["top", "--once", "--interval=0.1", make_report(t)])


@test("faults")
def measured_kernels_of_a_report(t):
    answer_with_faults(t, ["kernel", make_report(t)])


@test("faults")
def tools_for_agents(t):
    call = '{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}'
    lines = [
        call % (1, "initialize", '{"protocolVersion":"2025-06-18","capabilities":{}}'),
        call % (2, "tools/call", '{"name":"findings","arguments":{"report":"r1"}}'),
    ]
    command = FaultyTalk(t, ["mcp", make_report(t)], lines)

    def check(fault, r, whole):
        answers = [json.loads(line) for line in r.out.splitlines()]
        if r.status == 0 and {answer["id"] for answer in answers} != {1, 2}:
            raise Failed("it answers %s" % answers)
        if fault is None and any("error" in answer for answer in answers):
            raise Failed("it refuses without a fault: %s" % answers)
        if command.files():
            raise Failed("left behind: %s" % command.files())

    try_all(t, command, check)


# ---- kernels, measured on the stand-in for the driver and CUPTI (tests/kernel) ----

MEASURED = 9  # launches of its program that can be
BARE = b"sum 15000150000 far 3 graph 0 counter 4 host 4 surprises 0"


class FaultyKernel(Faulty):
    """`kernel`, or with `library` what it has loaded into the program."""

    def __init__(self, t, library=None, options=()):
        self.folder = os.path.join(os.path.dirname(t.where.programs), "kernel")
        self.app = os.path.join(self.folder, "kernel-app")
        if not os.path.exists(self.app):
            raise Skip("kernel-app was not built")
        words = ["kernel", "-o", "r", "--metrics", "smsp__inst_executed.sum", *options, self.app]
        super().__init__(t, words)
        self.library = os.path.abspath(self.library)
        self.home = os.path.join(t.dir, "toolkit")
        os.makedirs(os.path.join(self.home, "lib64"))
        cupti = "libcupti.so.13"
        os.symlink(os.path.join(self.folder, cupti), os.path.join(self.home, "lib64", cupti))
        self.more = {"LD_LIBRARY_PATH": self.folder, "CUDA_HOME": self.home}
        if library:
            self.more["WS_FAULT_LIBRARY"] = library

    def execute(self, env):
        return super().execute({**env, **self.more})

    def measured(self):
        """How many launches have their counters; and what the report says besides."""
        db = self.t.load(self.t.path("r"))
        table = "WARPSIGHT_KERNEL_RESULT"
        told = " ".join(db.diagnostics())
        if not db.has(table):
            return 0, told
        told += " ".join(text or "" for (text,) in db.sql("SELECT error FROM " + table))
        return db.one("SELECT count(*) FROM %s WHERE passes > 0" % table), told


def check_measuring(t, command):
    """The program prints and returns what it does alone, or is not begun; what could not be
    measured is said.
    """

    def check(fault, r, whole):
        ran = BARE in r.out
        if r.out and not ran:
            raise Failed("the program printed something else: %s" % r.out)
        if not ran and (r.status == 0 or command.files()):
            raise Failed("it was not run: status %d, left %s" % (r.status, command.files()))
        if ran and r.status not in (0, 1):
            raise Failed("the program's status is lost: %d" % r.status)
        if r.status and not r.err:
            raise Failed("it failed without a word")
        if ran and not os.path.exists(t.path("r")):
            raise Failed("there is no report; it says %s" % r.messages)
        if not ran:
            return
        if t.tool("info", "--verify", t.path("r")).status:
            recovered = t.tool("recover", t.path("r"))
            if recovered.status and fault.startswith(("write", "sync")) and r.err:
                return
            t.verify(t.path("r"))
        if command.files() != ["r.wsrep"]:
            raise Failed("left beside the report: %s" % command.files())
        measured, told = command.measured()
        if measured < MEASURED and not told.strip() and not r.messages:
            raise Failed("%d kernels measured, and no word why" % measured)
        if fault is None and (measured != MEASURED or r.status):
            raise Failed("%d kernels measured without a fault: %s" % (measured, r.said()))

    return check


def measure_with_faults(t, *args):
    command = FaultyKernel(t, *args)
    try_all(t, command, check_measuring(t, command))


@test("faults")
def kernels_are_measured(t):
    measure_with_faults(t)


@test("faults")
def what_measures_kernels_in_the_program(t):
    measure_with_faults(t, "libwarpsight-kernel")


@test("faults")
def what_repeats_the_program_for_its_kernels(t):
    measure_with_faults(t, "libwarpsight-kernel", ["--replay-mode", "application"])


# ---- sessions ----


@test("faults")
def launch(t):
    """The program has printed and returned what it does alone, or has not begun."""
    words = ["launch", "-s", "none", "-t", "nvtx", "sh", "-c", "echo hi; exit 7"]
    command = Faulty(t, words)
    try_all(t, command, check_recording(t, command))


def start_session(t):
    """A program in a session; it runs until its standard input is closed."""
    words = [t.where.warpsight, "launch", "-s", "none", "-t", "nvtx", t.program("marks"), "1"]
    session = t.start(words, stdin=subprocess.PIPE)
    t.eq(t.line(session, HANG), b"marking\n", "the program runs")
    return session


def end_program(session):
    """Close the standard input of a session's program; its status."""
    session.stdin.close()
    session.stdin = None
    session.communicate(timeout=HANG)
    return shell_status(session.returncode)


def end_session(t, session):
    """Whatever the commands before have left: the session goes on and collects."""
    t.tool("cancel")
    r = t.tool("start", "-o", "last")
    t.eq(r.status, 0, "start after faults: %s" % r.said())
    r = t.tool("stop")
    t.eq(r.status, 0, "stop after faults: %s" % r.said())
    t.verify(t.path("last"))
    t.eq(end_program(session), 7, "the program's status")


def check_works_unharmed(fault, r, whole):
    if fault is None and r.status:
        raise Failed("it fails without a fault: %s" % r.said())


@test("faults")
def start(t):
    session = start_session(t)
    command = Faulty(t, ["start", "-o", "r"], prepare=lambda: t.tool("cancel"))

    try_all(t, command, check_works_unharmed)
    end_session(t, session)


@test("faults")
def status_of_a_session(t):
    session = start_session(t)
    command = Faulty(t, ["status"])
    try_all(t, command, check_works_unharmed)
    end_session(t, session)


@test("faults")
def snapshot(t):
    """Those that are written are whole, and the flight recorder goes on."""
    words = ["profile", "--flight-recorder=30s", "-s", "none", "-t", "nvtx"]
    kept = os.path.join(t.dir, "flight")
    marks = [t.program("marks"), "1"]
    session = t.start([t.where.warpsight, *words, "-o", kept, *marks], stdin=subprocess.PIPE)
    t.eq(t.line(session, HANG), b"marking\n", "the program runs")
    command = Faulty(t, ["snapshot", "-o", "r"])

    def check(fault, r, whole):
        check_works_unharmed(fault, r, whole)
        if r.status == 0:
            t.verify(t.path("r"))

    try_all(t, command, check)
    r = t.tool("snapshot", "-o", "last")
    t.eq(r.status, 0, "snapshot after faults: %s" % r.said())
    t.verify(t.path("last"))
    t.eq(end_program(session), 7, "the program's status")


@test("faults")
def shutdown(t):
    """The session ends, by this command or the next."""
    sessions = []
    command = Faulty(t, ["shutdown"], prepare=lambda: sessions.append(start_session(t)))

    def check(fault, r, whole):
        check_works_unharmed(fault, r, whole)
        if r.status:
            t.tool("shutdown")
        end_program(sessions.pop())
        if b"marks" in t.tool("sessions", "list").out:
            raise Failed("the session is still there")

    try_all(t, command, check)


def begin_collection(t):
    t.tool("cancel")
    r = t.tool("start", "-f", "-o", "r")
    if r.status:
        raise Failed("the session does not start again: %s" % r.said())


@test("faults")
def cancel(t):
    session = start_session(t)
    command = Faulty(t, ["cancel"], prepare=lambda: begin_collection(t))

    try_all(t, command, check_works_unharmed)
    end_session(t, session)


@test("faults")
def stop(t):
    session = start_session(t)
    command = Faulty(t, ["stop"], prepare=lambda: begin_collection(t))

    def check(fault, r, whole):
        if fault is None and r.status:
            raise Failed("it fails without a fault: %s" % r.said())
        if r.status:
            t.tool("stop")
        t.verify(t.path("r"))

    try_all(t, command, check)
    end_session(t, session)
