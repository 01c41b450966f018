"""harness.py - whole-command tests: run a program bare and under `warpsight profile`, and compare.

A test is a function with the decorator @test; it gets a Test, whose methods run things and check
them. What every recording must keep is checked by Test.profile itself, after each run, so that no
test can forget it: no process left behind, nothing left in shared memory, nothing left in TMPDIR,
no journal beside a finished report, a report with private permissions.

Processes left behind are found exactly, also when several suites run at once: this process declares
itself the reaper of its descendants (PR_SET_CHILD_SUBREAPER), so whatever outlives its parent
becomes our child. Leftover shared memory is recognised by the recorder's pid in the arena's first
bytes.

Contents of reports are read through the commands that users have: `export -t sqlite` for rows,
`stats -f csv` for tables. Only the standard library of Python 3.9 or newer is used.
"""
import atexit
import csv
import ctypes
import io
import os
import re
import select
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import traceback

PR_SET_CHILD_SUBREAPER = 36
ARENA_MAGIC = 0x314152534B524157
ARENA_RECORDER_AT = 8 + 4 + 4 + 8 + 4 + 4  # offset of ws_arena.recorder_pid

libc = ctypes.CDLL(None, use_errno=True)
TESTS = []


class Skip(Exception):
    """The test cannot run here; the text says what is missing."""


class Failed(Exception):
    """A check did not hold."""


class Imprecise(Failed):
    """A measured share or count is off: such a test is made again, ATTEMPTS in all. A hypervisor
    that takes a core away, or a program beside this one, may spoil a measurement, but hardly every
    time.
    """


ATTEMPTS = 3

# Variables of whoever runs the tests that change what is recorded, or what a report is called.
OTHERS = ("WARPSIGHT", "NVTX_", "LD_", "OMPI_", "PMI_", "PMIX_", "SLURM", "JOB_COMPLETION_INDEX")
OTHERS += ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC", "POD_NAME")


def test(suite, needs=()):
    """Register a test. `needs`: words of NEEDS that must hold, else it is skipped and says why."""

    def add(fn):
        TESTS.append((suite, fn.__name__.replace("_", "-"), fn, needs))
        return fn

    return add


def have(program):
    return shutil.which(program) is not None


def can_unshare_mounts():
    return (
        subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL).returncode == 0
        if have("unshare")
        else False
    )


NEEDS = {
    "root": (lambda: os.geteuid() == 0, "needs root"),
    "user": (lambda: os.geteuid() != 0, "needs an ordinary user"),
    "go": (lambda: have("go"), "needs a Go compiler (go)"),
    "rust": (lambda: have("rustc"), "needs a Rust compiler (rustc)"),
    "cc": (lambda: have("cc"), "needs a C compiler (cc)"),
    "c++": (lambda: have("c++"), "needs a C++ compiler (c++)"),
    "sqlite3": (lambda: have("sqlite3"), "needs sqlite3"),
    "git": (lambda: have("git"), "needs git"),
    "mounts": (can_unshare_mounts, "needs the right to make a mount namespace"),
    "x86-64": (lambda: os.uname().machine == "x86_64", "needs an x86-64 machine"),
}


class Result:
    """A finished command: status as a shell would give it, output as bytes, and the seconds it
    took.
    """

    def __init__(self, argv, status, out, err, seconds, pid):
        self.argv, self.status, self.out, self.err, self.seconds, self.pid = (
            argv,
            status,
            out,
            err,
            seconds,
            pid,
        )
        self.reports = []

    @property
    def report(self):
        if len(self.reports) != 1:
            raise Failed("expected one report of %s, found %s" % (self.argv, self.reports))
        return self.reports[0]

    @property
    def target_err(self):
        """Standard error without the lines that are ours."""
        return b"".join(l for l in self.err.splitlines(True) if not l.startswith(b"warpsight: "))

    @property
    def messages(self):
        """Our lines of standard error, as text."""
        return "".join(
            l.decode("utf-8", "replace")
            for l in self.err.splitlines(True)
            if l.startswith(b"warpsight: ")
        )

    def said(self):
        return "status %s\nstdout: %s\nstderr: %s" % (
            self.status,
            self.out[-2000:].decode("utf-8", "replace"),
            self.err[-4000:].decode("utf-8", "replace"),
        )


def figure(text):
    """What a test has done, in numbers: `make torture` puts these lines into its table."""
    print("# figure: " + text, flush=True)


def shell_status(code):
    return 128 - code if code < 0 else code


def children_of(pid):
    """Pids whose parent is `pid`."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % entry, "rb") as f:
                rest = f.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(rest[1]) == pid:
            found.append(int(entry))
    return found


def descendants_of(pid):
    found, todo = [], [pid]
    while todo:
        kids = children_of(todo.pop())
        found += kids
        todo += kids
    return found


def waits_of(pid):
    """How often a process has left its core of its own will."""
    try:
        with open("/proc/%d/status" % pid, "rb") as f:
            return int(re.search(rb"^voluntary_ctxt_switches:\s*([0-9]+)", f.read(), re.M).group(1))
    except (OSError, AttributeError):
        return 0


def describe(pid):
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as f:
            return "%d (%s)" % (
                pid,
                f.read().replace(b"\0", b" ").decode("utf-8", "replace").strip(),
            )
    except OSError:
        return str(pid)


def reap():
    """Collect children that have ended; they were orphans, or ours already waited for."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def wait_until(fn, seconds=10.0, step=0.01):
    """Poll `fn` until it gives something true; its last value otherwise."""
    end = time.monotonic() + seconds
    while True:
        v = fn()
        if v or time.monotonic() > end:
            return v
        time.sleep(step)


def shared_leftovers(recorders):
    """Arenas in /dev/shm whose recorder is one of `recorders`."""
    found = []
    try:
        names = os.listdir("/dev/shm")
    except OSError:
        return found
    for name in names:
        named = re.match(r"warpsight-\d+-(\d+)-", name)
        if named and int(named.group(1)) in recorders:
            if not os.path.exists("/proc/" + named.group(1)):
                found.append(name)
            continue
        try:
            with open("/dev/shm/" + name, "rb") as f:
                head = f.read(ARENA_RECORDER_AT + 4)
        except OSError:
            continue
        if len(head) < ARENA_RECORDER_AT + 4 or struct.unpack_from("<Q", head)[0] != ARENA_MAGIC:
            continue
        pid = struct.unpack_from("<i", head, ARENA_RECORDER_AT)[0]
        if pid in recorders and not os.path.exists(
            "/proc/%d" % pid
        ):  # pids come round: a living one is another's
            found.append(name)
    return found


class Report:
    """What a report holds, by way of the SQLite export."""

    def __init__(self, t, path):
        self.t, self.path = t, path
        self.sqlite = os.path.join(t.dir, "export-%d.sqlite" % t.count())
        r = t.tool("export", "-t", "sqlite", "--lazy=false", "-o", self.sqlite, path)
        if r.status:
            raise Failed("export of %s failed: %s" % (path, r.said()))
        self.db = sqlite3.connect(self.sqlite)
        self.tables = {
            n
            for (n,) in self.db.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
            )
        }

    def sql(self, query, *args):
        return [tuple(r) for r in self.db.execute(query, args)]

    def one(self, query, *args):
        rows = self.sql(query, *args)
        if len(rows) != 1 or len(rows[0]) != 1:
            raise Failed("%r gives %r, not one value" % (query, rows))
        return rows[0][0]

    def has(self, table):
        return table in self.tables

    # -- NVTX

    NVTX_TEXT = "coalesce(n.text, (SELECT value FROM StringIds WHERE id = n.textId))"

    def ranges(self, kind=59):
        """(text, count) of the NVTX events of a type: 59 push/pop, 60 start/end, 34 marks."""
        if not self.has("NVTX_EVENTS"):
            return {}
        return dict(
            self.sql(
                "SELECT %s AS t, count(*) FROM NVTX_EVENTS n WHERE eventType = ? GROUP BY t"
                % self.NVTX_TEXT,
                kind,
            )
        )

    def range_count(self, like="%", kind=59):
        if not self.has("NVTX_EVENTS"):
            return 0
        return self.one(
            "SELECT count(*) FROM NVTX_EVENTS n WHERE eventType = ? AND %s LIKE ?" % self.NVTX_TEXT,
            kind,
            like,
        )

    # -- OS runtime

    def calls(self):
        """{function: count}."""
        if not self.has("OSRT_API"):
            return {}
        return dict(
            self.sql(
                "SELECT s.value, count(*) FROM OSRT_API o JOIN StringIds s ON s.id = o.nameId GROUP"
                " BY 1"
            )
        )

    # -- the rest

    def lost(self, name="%"):
        """Events lost, from the table of losses."""
        if not self.has("WARPSIGHT_LOSS"):
            return 0
        return self.one(
            (
                "SELECT coalesce(sum(events), 0) FROM WARPSIGHT_LOSS l JOIN StringIds s ON s.id ="
                " l.nameId WHERE s.value LIKE ?"
            ),
            name,
        )

    def processes(self):
        """Base names of all program images, sorted."""
        return (
            sorted(n for (n,) in self.sql("SELECT name FROM PROCESSES"))
            if self.has("PROCESSES")
            else []
        )

    def diagnostics(self):
        if not self.has("DIAGNOSTIC_EVENT"):
            return []
        return [r[0] for r in self.sql("SELECT text FROM DIAGNOSTIC_EVENT")]

    def meta(self):
        return (
            dict(self.sql("SELECT name, value FROM META_DATA_CAPTURE"))
            if self.has("META_DATA_CAPTURE")
            else {}
        )


class Test:
    def __init__(self, where, name):
        self.where, self.name = where, name
        self.dir = tempfile.mkdtemp(prefix="ws-run-")
        os.chmod(self.dir, 0o755)
        self.work = os.path.join(self.dir, "work")
        self.tmp = os.path.join(self.dir, "tmp")
        os.mkdir(self.work)
        os.mkdir(self.tmp, 0o700)
        self.numbers = 0
        self.recorders = set()
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(OTHERS)}
        self.runtime = os.path.join(self.dir, "runtime")  # sessions are looked for there
        os.mkdir(self.runtime, 0o700)
        self.env.update(XDG_RUNTIME_DIR=self.runtime)
        self.env.update(WS_TEST_SESSIONS=os.path.join(self.runtime, "warpsight"))
        self.env.update(TMPDIR=self.tmp, LC_ALL="C.UTF-8", PYTHONDONTWRITEBYTECODE="1")
        self.keep = False

    def count(self):
        self.numbers += 1
        return self.numbers

    # -- checks

    def fail(self, text):
        raise Failed(text)

    def ok(self, condition, text):
        if not condition:
            raise Failed(text)

    def eq(self, seen, expected, what):
        if seen != expected:
            raise Failed("%s: expected %r, saw %r" % (what, expected, seen))

    def ge(self, seen, least, what):
        if not seen >= least:
            raise Failed("%s: expected at least %r, saw %r" % (what, least, seen))

    def contains(self, text, needle, what):
        if not re.search(needle, text, re.I | re.S):
            raise Failed("%s: expected something like %r in: %s" % (what, needle, text[-3000:]))

    def skip(self, why):
        raise Skip(why)

    # -- running

    def program(self, name):
        """Path of a program that the build made for these tests."""
        path = os.path.join(self.where.programs, name)
        if name == "demo":  # the bundled example
            path = os.path.join(os.path.dirname(self.where.warpsight), "examples", name)
        if not os.path.exists(path):
            raise Skip("%s was not built" % name)
        return path

    def source(self, name):
        return os.path.join(self.where.sources, name)

    def run(self, argv, stdin=b"", env=None, cwd=None, timeout=60, **popen):
        """Run a command to its end. `env` adds to the test's environment; None values remove."""
        e = dict(self.env)
        for k, v in (env or {}).items():
            if v is None:
                e.pop(k, None)
            else:
                e[k] = v
        begin = time.monotonic()
        p = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE if isinstance(stdin, bytes) else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=e,
            cwd=cwd or self.work,
            **popen,
        )
        try:
            out, err = p.communicate(stdin if isinstance(stdin, bytes) else None, timeout)
        except subprocess.TimeoutExpired:
            stuck = ", ".join(describe(d) for d in [p.pid] + descendants_of(p.pid))
            self.end_processes()
            out, err = p.communicate()
            raise Failed(
                "%s did not end in %d s; running were: %s\nstdout: %s\nstderr: %s"
                % (
                    argv,
                    timeout,
                    stuck,
                    out[-1000:].decode("utf-8", "replace"),
                    err[-1000:].decode("utf-8", "replace"),
                )
            ) from None
        return Result(argv, shell_status(p.returncode), out, err, time.monotonic() - begin, p.pid)

    def end_processes(self):
        """Kill what this test started and is still there."""
        for pid in descendants_of(os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def tool(self, *args, **kw):
        """Run a warpsight command."""
        return self.run([self.where.warpsight, *args], **kw)

    def start(self, argv, env=None, **popen):
        """Start a command and leave it running; a Popen."""
        e = dict(self.env, **(env or {}))
        popen.setdefault("stdin", subprocess.DEVNULL)
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        popen.setdefault("bufsize", 0)
        p = subprocess.Popen(argv, env=e, cwd=self.work, **popen)
        self.recorders.add(p.pid)
        return p

    def line(self, p, seconds=20):
        """The next line that a started command writes; fails when none comes. Reads the descriptor
        itself, byte by byte.
        """
        got, end = b"", time.monotonic() + seconds
        while not got.endswith(b"\n"):
            ready, _, _ = select.select([p.stdout.fileno()], [], [], max(0, end - time.monotonic()))
            byte = os.read(p.stdout.fileno(), 1) if ready else None
            if byte is None:
                raise Failed("%s wrote no line in %d s, but %r" % (p.args, seconds, got))
            if not byte:
                break
            got += byte
        return got

    def profile_argv(self, target, options=(), output="r"):
        return [
            self.where.warpsight,
            "profile",
            *([] if output is None else ["-o", output]),
            *options,
            *target,
        ]

    def profile(self, target, *options, output="r", clean=True, status=None, orphans=False, **kw):
        """
        Record `target` (a list). output: the name given by -o, None to leave -o out. Checks that
        nothing is left over; `status`, when given, is what the command must end with.
        """
        before = set(self.find_reports())
        r = self.run(self.profile_argv(target, options, output), **kw)
        self.recorders.add(r.pid)
        r.reports = sorted(set(self.find_reports()) - before) or (
            [self.path(output)] if output and self.path(output) in before else []
        )
        if status is not None and r.status != status:
            raise Failed("exit status: expected %d, saw %s" % (status, r.said()))
        if clean:
            self.check_clean(orphans)
        return r

    def path(self, output):
        p = os.path.join(self.work, output)
        return p if p.endswith(".wsrep") else p + ".wsrep"

    def touch(self, name):
        """Make an empty file in the folder that the programs work in: some wait for one."""
        with open(os.path.join(self.work, name), "w"):
            pass

    def find_reports(self):
        found = []
        for d, _, files in os.walk(self.work):
            found += [os.path.join(d, f) for f in files if f.endswith(".wsrep")]
        return sorted(found)

    def check_clean(self, orphans=False):
        """Nothing of a finished recording may be left but its report."""
        reap()
        if not orphans:
            left = wait_until(lambda: not (reap() or children_of(os.getpid())), 3.0)
            if not left:
                names = [describe(p) for p in children_of(os.getpid())]
                self.end_processes()
                raise Failed("processes left behind: %s" % ", ".join(names))
        left = shared_leftovers(self.recorders)
        if left:
            for name in left:
                os.unlink("/dev/shm/" + name)
            raise Failed("left in /dev/shm: %s" % ", ".join(left))
        left = os.listdir(self.tmp)
        if left:
            raise Failed("left in TMPDIR: %s" % ", ".join(left))
        for d, _, files in os.walk(self.work):
            for f in files:
                if f.endswith(".journal") or ".wsrep." in f:
                    raise Failed("left beside the report: %s" % f)
                if f.endswith(".wsrep") and os.stat(os.path.join(d, f)).st_mode & 0o077:
                    raise Failed("%s can be read by others" % f)
        self.recorders.clear()

    def same(self, target, *options, ignore_err=None, **kw):
        """Run `target` bare and recorded; streams and exit status must be the same. Returns the
        recording.
        """
        bare_kw = {
            k: v for k, v in kw.items() if k in ("stdin", "env", "cwd", "timeout", "preexec_fn")
        }
        bare = self.run(target, **bare_kw)
        wait_until(lambda: not (reap() or children_of(os.getpid())), 3.0)
        r = self.profile(target, *options, **kw)
        self.eq(r.status, bare.status, "exit status beside the bare run's (%s)" % r.said())
        self.eq(r.out, bare.out, "standard output beside the bare run's")
        self.eq(r.target_err, bare.err, "standard error beside the bare run's")
        r.bare = bare
        return r

    # -- reading reports

    def load(self, report):
        return Report(self, report.report if isinstance(report, Result) else report)

    def verify(self, path):
        """`info --verify` must find nothing wrong."""
        r = self.tool("info", "--verify", path)
        if r.status:
            raise Failed("info --verify %s: %s" % (path, r.said()))
        return r.out.decode()

    def stats(self, path, report, *options):
        """Rows of a statistics report as dictionaries; [] when it was skipped for want of data."""
        r = self.tool("stats", "-q", "-f", "csv", "-o", "-", "-r", report, *options, path)
        if r.status:
            raise Failed("stats -r %s: %s" % (report, r.said()))
        return list(csv.DictReader(io.StringIO(r.out.decode())))

    def finish(self):
        self.end_processes()
        wait_until(lambda: not (reap() or children_of(os.getpid())), 3.0)
        if not self.keep:
            shutil.rmtree(self.dir, ignore_errors=True)


class Where:
    """Places: the tool, the programs built for the tests, their sources, and a folder for what
    tests build themselves.
    """

    def __init__(self, warpsight, programs, sources):
        self.warpsight = os.path.abspath(warpsight)
        self.programs, self.sources = os.path.abspath(programs), os.path.abspath(sources)
        self.cache = os.path.join(self.programs, "made")
        self.needs = {}
        if not os.access(
            self.programs, os.W_OK
        ):  # another user's build: what is made here lasts for this run
            self.cache = tempfile.mkdtemp(prefix="ws-made-")
            atexit.register(shutil.rmtree, self.cache, True)

    def need(self, word):
        if word not in self.needs:
            self.needs[word] = NEEDS[word][0]()
        return None if self.needs[word] else NEEDS[word][1]


def run_one(where, suite, name, fn, needs, keep):
    """('ok' | 'skip' | 'fail', text)"""
    for word in needs:
        why = where.need(word)
        if why:
            return "skip", why
    for _ in range(ATTEMPTS):
        verdict, text = attempt(where, name, fn, keep)
        if verdict != "imprecise":
            return verdict, text
    return "fail", text


def attempt(where, name, fn, keep):
    """('ok' | 'skip' | 'fail' | 'imprecise', text)"""
    t = Test(where, name)
    t.keep = keep
    try:
        fn(t)
        return "ok", ""
    except Imprecise as e:
        return "imprecise", str(e)
    except Skip as e:
        return "skip", str(e)
    except Failed as e:
        return "fail", str(e)
    except Exception:  # a broken test is a failed one
        return "fail", traceback.format_exc()
    finally:
        t.finish()


def main(where, chosen, keep=False):
    """Run (suite, name, fn, needs) tuples, print TAP, give the exit status."""
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        print("Bail out! cannot become a subreaper")
        return 1
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    failed = skipped = 0
    print("1..%d" % len(chosen), flush=True)
    for i, (suite, name, fn, needs) in enumerate(chosen, 1):
        begin = time.monotonic()
        verdict, text = run_one(where, suite, name, fn, needs, keep)
        took = "%.1f s" % (time.monotonic() - begin)
        if verdict == "fail":
            failed += 1
            print("not ok %d - %s/%s (%s)" % (i, suite, name, took))
            print("".join("# %s\n" % l for l in text.splitlines()), end="")
        elif verdict == "skip":
            skipped += 1
            print("ok %d - %s/%s # SKIP %s" % (i, suite, name, text))
        else:
            print("ok %d - %s/%s (%s)" % (i, suite, name, took))
        sys.stdout.flush()
    print("# %d tests, %d failed, %d skipped" % (len(chosen), failed, skipped))
    return 1 if failed else 0
