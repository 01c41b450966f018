"""test_streams.py - `profile` and what is around its target: streams, terminals, signals, full
disks and other places that fail.
"""
import errno
import json
import os
import pty
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import time

from harness import Failed, describe, descendants_of, shell_status, test, wait_until, waits_of
from test_options import NO_CPU, tree


# ---- streams


@test("options")
def stdin_passes_through(t):
    data = os.urandom(1 << 20)
    r = t.same(tree(t, "cat"), stdin=data)
    t.eq(r.out, data, "what went in")


@test("options")
def stdin_closed(t):
    t.same(tree(t, "cat"), stdin=None, preexec_fn=lambda: os.close(0))


@test("options")
def all_streams_closed(t):
    argv = t.profile_argv(tree(t, "fork-exit"))
    p = subprocess.Popen(
        ["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *argv], env=t.env, cwd=t.work
    )
    t.recorders.add(p.pid)
    t.eq(p.wait(30), 8, "exit status")
    t.verify(t.path("r"))
    t.check_clean()


@test("options")
def pipe_closed_early(t):
    """yes | head: the writer ends by SIGPIPE, the recording is whole."""
    argv = t.profile_argv(tree(t, "flood"), ["--trace=osrt"])
    p = t.start(argv)
    got = 0
    while got < 100000:
        got += len(os.read(p.stdout.fileno(), 65536)) or t.fail(
            "the target's output ended after %d bytes" % got
        )
    p.stdout.close()
    err = p.stderr.read()
    t.eq(shell_status(p.wait(30)), 128 + signal.SIGPIPE, "exit status (%s)" % err)
    p.stderr.close()
    t.verify(t.path("r"))
    t.check_clean()


@test("options")
def shell_pipeline(t):
    script = (
        "'%s' profile -o r --trace=osrt sh -c 'seq 1 20000 | sort -rn | head -3'; echo $?"
        % t.where.warpsight
    )
    r = t.run(["/bin/sh", "-c", script])
    t.eq(r.out, b"20000\n19999\n19998\n0\n", "output")
    db = t.load(t.path("r"))
    for n in ("seq", "sort", "head"):
        t.ok(n in db.processes(), "%s among %s" % (n, db.processes()))


# ---- terminals and signals


class Terminal:
    """profile under a pseudo-terminal of its own session, as a shell would run it."""

    def __init__(self, t, argv):
        self.t = t
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(t.work)
            os.execve(argv[0], argv, t.env)
        t.recorders.add(self.pid)
        self.out = b""

    def read_until(self, word, seconds=20):
        end = time.monotonic() + seconds
        while word not in self.out:
            if time.monotonic() > end:
                raise Failed("waited for %r, saw %r" % (word, self.out))
            ready, _, _ = select.select([self.fd], [], [], 0.2)
            if not ready:
                continue
            try:
                got = os.read(self.fd, 65536)
            except OSError:
                got = b""
            if not got:
                raise Failed("the terminal closed before %r: %r" % (word, self.out))
            self.out += got

    def drain(self):
        """Read what comes until the other side closes."""
        while True:
            try:
                ready, _, _ = select.select([self.fd], [], [], 20)
                got = os.read(self.fd, 65536) if ready else b""
            except OSError as e:
                if e.errno != errno.EIO:
                    raise
                got = b""
            if not got:
                break
            self.out += got

    def type(self, data):
        os.write(self.fd, data)

    def end(self):
        self.drain()
        _, st = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return 128 + os.WTERMSIG(st) if os.WIFSIGNALED(st) else os.WEXITSTATUS(st)


def stops(pid):
    """How many of a process and its descendants are stopped."""
    n = 0
    for p in [pid] + descendants_of(pid):
        try:
            with open("/proc/%d/stat" % p, "rb") as f:
                n += f.read().rpartition(b")")[2].split()[0] == b"T"
        except OSError:
            pass
    return n


@test("options")
def terminal_is_the_targets(t):
    tty = Terminal(t, t.profile_argv(tree(t, "tty")))
    t.eq(tty.end(), 0, "exit status")
    t.contains(tty.out.decode(), "111", "isatty of the three streams")
    t.check_clean()


@test("options")
def ctrl_c_goes_to_the_target(t):
    """The terminal sends SIGINT to both; the target decides, and the recorder writes its report."""
    tty = Terminal(t, t.profile_argv(tree(t, "wait", "60"), ["--trace=osrt"]))
    tty.read_until(b"READY")
    tty.type(b"\x03")
    t.eq(tty.end(), 128 + signal.SIGINT, "exit status (%r)" % tty.out)
    t.verify(t.path("r"))
    t.check_clean()


@test("options")
def ctrl_c_that_the_target_handles(t):
    tty = Terminal(t, t.profile_argv(tree(t, "signals"), ["--trace=osrt"]))
    tty.read_until(b"READY")
    for _ in range(2):
        tty.out = b""
        tty.type(b"\x03")
        tty.read_until(b"signal 02")
        time.sleep(0.1)
        t.eq(tty.out.count(b"signal 02"), 1, "SIGINTs that the target got for one Ctrl-C")
    tty.type(b"\x1c")
    t.eq(tty.end(), 128 + signal.SIGQUIT, "exit status")
    t.verify(t.path("r"))
    t.check_clean()


@test("options")
def ctrl_z_and_continue(t):
    """Under a job-control shell Ctrl-Z stops the job as a whole and fg continues it."""
    argv = t.profile_argv(tree(t, "until", "enough"), ["--trace=osrt"])
    tty = Terminal(t, ["/bin/bash", "--norc", "-i"])
    tty.type(b"PS1='PROMPT> '\n")
    tty.read_until(b"PROMPT> ")
    tty.type(" ".join("'%s'" % a for a in argv).encode() + b"\n")
    tty.read_until(b"READY")
    tty.type(b"\x1a")
    tty.read_until(b"Stopped")
    t.ge(stops(tty.pid), 1, "stopped processes")
    tty.out = b""
    tty.type(b"fg\n")
    t.ok(wait_until(lambda: not stops(tty.pid)), "all go on")
    t.touch("enough")
    tty.read_until(b" sleeps")
    tty.out = b""
    tty.type(b"echo status=$?\n")
    tty.read_until(b"status=0")
    tty.type(b"exit\n")
    tty.end()
    t.verify(t.path("r"))


def tree_below(pid):
    """The process of the program tree that a recorder runs."""
    return wait_until(
        lambda: [
            c for c in descendants_of(pid) if "tree" in describe(c) and "profile" not in describe(c)
        ]
    )[0]


@test("options")
def signals_to_the_recorder_reach_the_target(t):
    """A supervisor signals the pid it started: as if the target ran alone, the target gets it."""
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        p = t.start(t.profile_argv(tree(t, "wait", "60"), ["--trace=osrt", "-f"]))
        t.eq(t.line(p), b"READY\n", "the target's word")
        target = tree_below(p.pid)
        slept = waits_of(target)
        t.ok(wait_until(lambda: waits_of(target) > slept + 2), "the target sleeps")
        os.kill(p.pid, sig)
        out, err = p.communicate(timeout=30)
        t.eq(shell_status(p.returncode), 128 + sig, "exit status on %s (%s)" % (sig.name, err))
        t.verify(t.path("r"))
        t.ge(t.load(t.path("r")).calls().get("usleep", 0), 1, "sleeps recorded")
        t.check_clean()


@test("options")
def user_signals_are_passed_on(t):
    p = t.start(t.profile_argv(tree(t, "signals")))
    t.eq(t.line(p), b"READY\n", "the target's word")
    os.kill(p.pid, signal.SIGUSR1)
    t.eq(t.line(p), b"signal 10\n", "SIGUSR1 in the target")
    os.kill(p.pid, signal.SIGTERM)
    t.eq(t.line(p), b"signal 15\n", "SIGTERM in the target")
    os.kill(p.pid, signal.SIGQUIT)
    p.communicate(timeout=30)
    t.eq(shell_status(p.returncode), 128 + signal.SIGQUIT, "exit status")
    t.verify(t.path("r"))
    t.check_clean()


@test("options")
def stopped_target_continues(t):
    p = t.start(t.profile_argv(tree(t, "until", "enough"), ["--trace=osrt"]))
    t.eq(t.line(p), b"READY\n", "the target's word")
    target = tree_below(p.pid)
    os.kill(target, signal.SIGSTOP)
    t.ok(wait_until(lambda: stops(target)), "the target stops")
    time.sleep(0.3)
    os.kill(target, signal.SIGCONT)
    if stops(p.pid):  # the recorder stopped along with its target, as a shell job does
        os.kill(p.pid, signal.SIGCONT)
    t.touch("enough")
    out, err = p.communicate(timeout=30)
    t.ok(
        out.endswith(b" sleeps\n") and p.returncode == 0,
        "end of the target: %s, %s (%s)" % (out, p.returncode, err),
    )
    t.verify(t.path("r"))
    t.check_clean()


@test("options")
def messages_go_to_standard_error_without_control_codes(t):
    r = t.profile(tree(t, "work"), status=0)
    t.eq(r.out, b"work\n", "standard output")
    t.ok(
        b"\x1b" not in r.err and b"\r" not in r.err,
        "no progress when standard error is no terminal: %r" % r.err,
    )


# ---- files and places that fail


@test("options")
def two_recorders_of_one_name(t):
    first = t.start(t.profile_argv(tree(t, "until", "enough"), ["--trace=osrt"]))
    t.eq(t.line(first), b"READY\n", "the target's word")
    for extra in ([], ["-f"]):
        r = t.run(t.profile_argv(tree(t, "work"), ["--trace=osrt", *extra]))
        t.eq(r.status, 0, "exit status of the second one: %s" % r.said())
        t.contains(r.messages, "another recorder is writing r.wsrep: this report is r.2", "said")
        t.verify(t.path("r.2"))
    t.touch("enough")
    out, err = first.communicate(timeout=30)
    t.eq(first.returncode, 0, "exit status of the first recording (%s)" % err)
    t.verify(t.path("r"))
    t.eq(
        b"%d sleeps\n" % t.load(t.path("r")).calls().get("usleep", 0), out, "the first one's sleeps"
    )
    t.check_clean()


@test("options")
def recorders_of_the_default_name_at_once(t):
    ps = [t.start(t.profile_argv(tree(t, "wait", "1"), ["--trace=osrt"], None)) for _ in range(5)]
    for p in ps:
        out, err = p.communicate(timeout=60)
        t.eq((out, p.returncode), (b"READY\nDONE\n", 0), "a target (%s)" % err)
    t.eq(len(t.find_reports()), 5, "reports %s" % t.find_reports())
    for f in t.find_reports():
        t.eq(t.load(f).calls().get("usleep"), 100, "sleeps in %s" % f)
    t.check_clean()


@test("options")
def recorders_started_at_once_leave_each_other_alone(t):
    """A recorder cleans up after dead ones; it must not take the memory of one that is just
    beginning for such.
    """
    for group in range(5):
        ps = [
            t.start(
                t.profile_argv(
                    [t.program("ranges"), "nested", "3"],
                    ["--trace=nvtx", "-q"],
                    "g%d-%d" % (group, i),
                )
            )
            for i in range(8)
        ]
        for p in ps:
            out, err = p.communicate(timeout=60)
            t.eq((out, p.returncode), (b"nested\n", 0), "a target (%s)" % err)
    for f in t.find_reports():
        t.eq(t.load(f).range_count(), 27, "ranges in %s" % f)
    t.check_clean()


@test("options", needs=("root",))
def folder_without_permission(t):
    os.mkdir(os.path.join(t.work, "locked"), 0o500)
    os.chown(t.tmp, 65534, 65534)
    r = t.run(
        t.profile_argv(tree(t, "work"), output="locked/r"), preexec_fn=lambda: os.setuid(65534)
    )
    t.ok(r.status != 0 and "locked" in r.messages and r.out == b"", r.said())


def check_after_full_disk(t, r, path):
    """
    The target must not notice: profile ends with its status. The report opens, and what is missing
    is said, counted exactly, and stands in the report itself.
    """
    t.eq((r.status, r.out), (0, b"done\n"), "the target (%s)" % r.said())
    t.contains(r.messages, "space|too large", "the reason")
    t.verify(path)
    db = t.load(path)
    kept = db.range_count()
    said = re.search(r"([0-9]+) rows could not be written", r.messages)
    t.ok(said, "the number of rows lost is said: %s" % r.messages)
    t.eq(
        kept + int(said.group(1)),
        1500000,
        "ranges kept (%d) and said to be lost (%s)" % (kept, said.group(1)),
    )
    t.eq(db.lost(), int(said.group(1)), "the report's own count of what is missing")
    first = t.tool("info", path).out.decode().split("\n", 1)[0]
    t.contains(first, "%s events were lost" % said.group(1), "the first line of info")
    t.ok("complete" not in first, "info does not call it complete: %s" % first)
    facts = json.loads(t.tool("info", "--json", path).out)
    t.eq((facts["complete"], facts["lost_events"]), (False, int(said.group(1))), "the same as JSON")


@test("options", needs=("mounts", "root"))
def full_disk(t):
    """A tmpfs of a few MiB takes the report of a program that records far more."""
    small = os.path.join(t.work, "small")
    os.mkdir(small)
    script = (
        'mount -t tmpfs -o size=6m tmpfs "$0" && shift 0 && "$@"; s=$?; cp "$0"/* "$0"/../out/;'
        " exit $s"
    )
    os.mkdir(os.path.join(t.work, "out"))
    argv = t.profile_argv(
        [t.program("storm"), "random", "1", "1500000"], ["--trace=nvtx", *NO_CPU], output="small/r"
    )
    r = t.run(["unshare", "-m", "/bin/sh", "-c", script, small, *argv], timeout=120)
    check_after_full_disk(t, r, os.path.join(t.work, "out", "r.wsrep"))


@test("options")
def file_size_limit(t):
    """RLIMIT_FSIZE on the recorder: the same as a full disk, and SIGXFSZ must not end it."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, 4 << 20))

    r = t.profile(
        [t.program("storm"), "random", "1", "1500000"],
        "--trace=nvtx",
        "--lossless",
        *NO_CPU,
        preexec_fn=limit,
        clean=False,
        timeout=120,
    )
    if not r.reports:
        # refused before the start, because the journal cannot be made: said, and the target not
        # half recorded
        t.ok(r.status != 0 and r.messages, r.said())
        t.check_clean()
        return
    check_after_full_disk(t, r, r.report)
    t.check_clean()


@test("options", needs=("root",))
def run_as_another_user(t):
    os.chmod(t.work, 0o777)
    r = t.profile(["/usr/bin/id", "-un"], "--run-as=nobody", "--trace=osrt", status=0)
    t.eq(r.out, b"nobody\n", "user of the target")
    r = t.profile(tree(t, "work"), "--run-as=nobody", "--trace=osrt", "-f", status=0)
    t.eq(t.load(r.report).calls().get("usleep"), 1, "sleeps of the other user's program")
    r = t.profile(tree(t, "work"), "--run-as=no-such-user-here", "-f")
    t.ok(r.status != 0 and "no-such-user-here" in r.messages and r.out == b"", r.said())


@test("options", needs=("root",))
def run_as_needs_root(t):
    os.chmod(t.work, 0o777)
    os.chown(t.tmp, 65534, 65534)
    r = t.run(
        t.profile_argv(tree(t, "work"), ["--run-as=root"]), preexec_fn=lambda: os.setuid(65534)
    )
    t.ok(r.status != 0 and r.messages and r.out == b"", r.said())


@test("options")
def report_stands_under_its_name_from_the_start(t):
    p = t.start(t.profile_argv(tree(t, "until", "enough"), ["--trace=osrt"]))
    t.eq(t.line(p), b"READY\n", "the target's word")
    t.ok(os.path.exists(t.path("r")), "the report is there while recording")
    info = t.tool("info", t.path("r"))
    t.touch("enough")
    # it says that the recording still runs, and its status that the report is not whole
    t.ok(info.status in (0, 1) and b"still running" in info.out, info.said())
    p.communicate(timeout=30)
    t.eq(p.returncode, 0, "exit status")
    t.check_clean()


@test("options")
def report_holds_the_facts(t):
    r = t.profile(tree(t, "work"), "--trace=osrt", status=0)
    text = " ".join("%s=%s" % kv for kv in t.load(r.report).meta().items())
    for word in (socket.gethostname(), os.uname().release, "work", "osrt"):
        t.ok(word in text, "%r among the facts: %s" % (word, text))


@test("options")
def stored_output_that_nobody_reads_breaks_the_target_s_pipe(t):
    p = t.start(
        t.profile_argv(["sh", "-c", "yes; echo $? >&2"], ["--trace=none", "--store-output=true"])
    )
    t.eq(t.line(p), b"y\n", "the first line")
    p.stdout.close()
    t.eq(p.wait(20), 0, "exit status")
    t.ok(int(p.stderr.readline()) in (1, 128 + 13), "yes ended by the broken pipe")
    t.check_clean()


@test("options")
def stored_output_of_a_process_that_writes_on(t):
    r = t.profile(
        ["sh", "-c", "yes & echo $! > pid; sleep 0.2"],
        "--trace=none",
        "--store-output=true",
        "--show-output=false",
        "--wait=primary",
        timeout=20,
        status=0,
    )
    t.verify(r.report)
    t.eq(r.out, b"", "standard output")


@test("options")
def stored_output_goes_whole_into_a_pipe_that_does_not_block(t):
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    p = t.start(
        t.profile_argv(
            ["sh", "-c", "yes | head -c 1000000"], ["--trace=none", "--store-output=true"]
        ),
        stdout=writer,
    )
    os.close(writer)
    got = 0
    time.sleep(0.3)
    while True:
        piece = os.read(reader, 65536)
        if not piece:
            break
        got += len(piece)
    os.close(reader)
    t.eq(p.wait(20), 0, "exit status")
    t.eq(got, 1000000, "bytes shown")
    p.stderr.close()
    t.check_clean()


@test("options")
def variable_of_a_report_name_behind_many_others(t):
    env = {"SLURM_VARIABLE_%d" % i: "v" * 80 for i in range(60)}
    script = "RANK=7 %s work %s; true" % (tree(t, "work")[0], "0 " * 1900)
    r = t.profile(["sh", "-c", script], "--trace=osrt", output="rank%q{RANK}", env=env, status=0)
    t.ok(t.path("rank7") in r.reports, "a report of rank 7 among %s" % r.reports)


@test("options")
def signals_that_come_together_all_reach_the_target(t):
    script = (
        "trap 'echo usr1' USR1; trap 'echo term; exit 3' TERM; echo READY; while :; do sleep 0.05;"
        " done"
    )
    for _ in range(3):
        p = t.start(t.profile_argv(["sh", "-c", script], ["--trace=none", "-f"]))
        t.eq(t.line(p), b"READY\n", "the target's word")
        p.send_signal(signal.SIGTERM)
        p.send_signal(signal.SIGUSR1)
        t.eq(p.wait(10), 3, "exit status")
        p.communicate()
        t.check_clean()


@test("options")
def target_with_a_limited_address_space_keeps_most_of_it(t):
    script = 'ulimit -v 500000; exec "$@"'
    for target in ([], t.profile_argv([], ["-f"])):
        r = t.run(
            [
                "sh",
                "-c",
                script,
                "sh",
                *target,
                sys.executable,
                "-c",
                "bytearray(200 << 20); print('ok')",
            ]
        )
        t.eq(
            (r.status, r.out), (0, b"ok\n"), "beside a recording: %s, %s" % (bool(target), r.said())
        )


@test("options")
def limit_on_file_sizes(t):
    r = t.run(
        ["sh", "-c", 'ulimit -f 20000; exec "$@"', "sh", *t.profile_argv(["echo", "ok"], ["-f"])]
    )
    t.eq((r.status, r.out), (0, b"ok\n"), "with 10 MB: %s" % r.said())
    r = t.run(
        ["sh", "-c", 'ulimit -f 1000; exec "$@"', "sh", *t.profile_argv(["echo", "ok"], ["-f"])]
    )
    t.ok(r.status != 0 and r.out == b"" and "ulimit -f" in r.messages, r.said())
