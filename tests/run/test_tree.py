"""test_tree.py - the process tree: every way in which programs start others, and what they do that
could hide them.
"""
import json
import os
import re
import resource
import shutil
import stat
import struct
import subprocess
import sys

from harness import Failed, test, wait_until

NOBODY = 65534


def recorded(t, case, *options, arg=None, usleeps=None, processes=None, **kw):
    """Run tree CASE bare and recorded; check the number of usleep calls and of program images
    recorded.
    """
    argv = [t.program("tree"), case] + ([str(arg)] if arg is not None else [])
    r = t.same(argv, "--trace=osrt", *options, **kw)
    t.verify(r.report)
    db = t.load(r.report)
    if usleeps is not None:
        t.eq(
            db.calls().get("usleep", 0),
            usleeps,
            "usleep calls recorded (diagnostics: %s)" % db.diagnostics(),
        )
    if processes is not None:
        t.eq(images(t, r.report), processes, "program images recorded")
    t.eq(db.lost(), 0, "events lost")
    return db


def images(t, report):
    """Number of program images: an exec starts a new one in the same pid, which the SQLite export
    shows as one process.
    """
    return int(
        re.search(rb"^Processes: ([0-9,]+)", t.tool("info", report).out, re.M)
        .group(1)
        .replace(b",", b"")
    )


@test("tree")
def execs_in_quick_succession(t):
    """Images that live for a moment, met by the recorder in any order: each is there, and none
    takes another's memory.
    """
    script = (
        "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do (exec /bin/sh -c 'exec"
        ' /bin/sh -c "read x < /dev/null; exec env true"\'); done'
    )
    for _ in range(3):
        r = t.profile(["/bin/sh", "-c", script], "-f", "--trace=osrt", "--sample=none", status=0)
        t.verify(r.report)
        db = t.load(r.report)
        t.eq(db.one("SELECT count(*) FROM WARPSIGHT_PROCESS WHERE origin = 2"), 80, "images")
        t.eq(
            db.one("SELECT count(*) FROM WARPSIGHT_PROCESS WHERE origin = 3"), 20, "forked children"
        )


@test("tree")
def fork_child_is_recorded(t):
    recorded(t, "fork", usleeps=2, processes=2)


@test("tree")
def fork_child_that_calls__exit(t):
    recorded(t, "fork-exit", usleeps=1, processes=2)


@test("tree")
def vfork_then_exec(t):
    recorded(t, "vfork", usleeps=2, processes=2)


@test("tree")
def vfork_whose_exec_fails_leaves_the_parent_recording(t):
    recorded(
        t, "vfork-fails", "--sample=none", "--cpuctxsw=none", usleeps=20, processes=1
    )  # perf would see the children


@test("tree")
def exec_is_a_second_image(t):
    recorded(t, "exec", usleeps=2, processes=2)


FORKS = """
import os, sys, time
if sys.argv[1] != "0":
    os.chroot(sys.argv[2])
for i in range(int(sys.argv[3])):
    if not os.fork():
        time.sleep(0.2)
        os._exit(0)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
"""


@test("tree")
def more_processes_than_descriptors(t):
    r = t.same(
        [sys.executable, "-c", FORKS, "0", "", "60"],
        "--trace=osrt",
        timeout=20,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)),
    )
    t.verify(r.report)
    t.eq(images(t, r.report), 61, "program images recorded")


@test("tree", needs=("root",))
def children_in_a_chroot_without_proc(t):
    empty = os.path.join(t.work, "empty")
    os.mkdir(empty)
    r = t.same([sys.executable, "-c", FORKS, "1", empty, "3"], "--trace=osrt", timeout=20)
    t.verify(r.report)
    t.eq(images(t, r.report), 4, "program images recorded")


@test("tree", needs=("mounts",))
def children_killed_in_another_pid_namespace(t):
    # The first process there leaves others behind, which the kernel then kills: none of them can
    # say that it ends.
    r = t.same(
        [
            "unshare",
            "-fp",
            "sh",
            "-c",
            "sleep 100 & sleep 100 & %s -c 'import os; os._exit(3)'; exit 5" % sys.executable,
        ],
        "--trace=osrt",
        timeout=20,
    )
    t.eq(r.status, 5, "exit status")
    t.verify(r.report)
    t.ge(images(t, r.report), 5, "program images recorded")


@test("tree", needs=("mounts",))
def processes_in_a_pid_namespace_that_cannot_be_seen(t):
    """The recorder's /proc is of other processes than its own: what says that it ended may write
    on, and yet it is one process.
    """
    script = "%s work; %s work; sleep 0.2" % (t.program("tree"), t.program("tree"))
    r = t.run(
        [
            "unshare",
            "-fp",
            *t.profile_argv(
                ["unshare", "-fp", "sh", "-c", script],
                ["--trace=osrt", "--sample=none", "--cpuctxsw=none"],
                "r",
            ),
        ],
        timeout=30,
    )
    t.eq(r.status, 0, "exit status")
    t.eq(
        images(t, t.path("r")), 6, "program images recorded"
    )  # unshare and its child, sh, tree twice, sleep
    t.eq(t.load(t.path("r")).lost(), 0, "events lost")
    t.check_clean()


@test("tree")
def children_with_a_preload_of_their_own(t):
    work = [t.program("tree"), "work"]
    own = t.program("libown.so")
    for script in (
        "LD_PRELOAD=%s %s work; true" % (own, work[0]),
        "unset LD_PRELOAD; %s work; true" % work[0],
        "LD_PRELOAD= %s work; true" % work[0],
        "LD_PRELOAD='%s libm.so.6' %s work; true" % (own, work[0]),
    ):
        r = t.same(["sh", "-c", script], "--trace=osrt", "-f")
        t.eq(images(t, r.report), 2, "program images recorded of %r" % script)


@test("tree")
def environments_made_for_children_do_not_add_up(t):
    recorded(t, "clean-often")


@test("tree")
def images_start_when_they_start(t):
    """An image that began after a sleep of the one before it starts, in the report, after the end
    of that sleep.
    """
    for _ in range(5):
        r = t.profile([t.program("tree"), "exec"], "--trace=osrt", "-f", status=3)
        info = json.loads(t.tool("info", "--json", r.report).out)
        first, second = sorted(info["processes"], key=lambda p: p["id"])
        sleep = t.load(r.report).one(
            "SELECT min(end) FROM OSRT_API JOIN StringIds ON id = nameId WHERE value = 'usleep'"
        )
        t.ge(
            second["start_ns"],
            sleep,
            "start of the second image, against the end of the sleep before it",
        )
        t.eq(second["parent"], first["id"], "parent of the second image")


@test("tree")
def exec_that_fails(t):
    recorded(t, "exec-fails", usleeps=1, processes=1)


@test("tree")
def bad_arguments_of_exec_are_refused_by_the_kernel(t):
    """Pointers that lead nowhere: the program gets EFAULT, or crashes where it would alone."""
    r = t.same([t.program("badexec")], "--trace=osrt", timeout=60)
    t.ok(b"execve(nowhere, good_argv, environ): exit 14\n" in r.out, "EFAULT: %s" % r.out)
    t.verify(r.report)


@test("tree")
def exec_with_an_empty_environment(t):
    recorded(t, "exec-clean", usleeps=2, processes=2)


@test("tree")
def clearenv_then_fork(t):
    recorded(t, "clearenv", usleeps=2, processes=2)


@test("tree")
def clone_as_fork(t):
    recorded(t, "clone", usleeps=1, processes=2)


@test("tree")
def clone_by_system_call(t):
    recorded(t, "clone-raw", usleeps=1, processes=2)


@test("tree")
def clone_that_shares_memory(t):
    # The child runs on the parent's memory, on its thread block: whether its sleep is recorded is
    # its own affair, but the parent's must be, and both must live.
    argv = [t.program("tree"), "clone-vm"]
    r = t.same(argv, "--trace=osrt")
    db = t.load(r.report)
    t.ge(db.calls().get("usleep", 0), 1, "usleep calls recorded")
    t.ok(db.calls()["usleep"] <= 2, "no more sleeps than were made")


@test("tree")
def posix_spawn(t):
    recorded(t, "spawn", usleeps=2, processes=2)


@test("tree")
def posix_spawn_with_an_environment_of_its_own(t):
    recorded(t, "spawn-clean", usleeps=1, processes=2)


@test("tree")
def system_runs_a_shell(t):
    db = recorded(t, "system", usleeps=2)
    t.ge(len(db.processes()), 2, "program images")
    t.eq(db.processes().count("tree"), 2, "images of tree (%s)" % db.processes())


@test("tree")
def popen_runs_a_shell(t):
    recorded(t, "popen", usleeps=1)


@test("tree")
def re_parented_child(t):
    recorded(t, "reparent", usleeps=2)


@test("tree")
def daemon_waited_for(t):
    """--wait=all stays until the daemon has ended, and has its calls."""
    r = t.profile([t.program("tree"), "daemon", "400"], "--wait=all", "--trace=osrt", status=0)
    t.ok(os.path.exists(os.path.join(t.work, "daemon.done")), "the daemon ended before profile did")
    t.eq(t.load(r.report).calls().get("usleep", 0), 1, "the daemon's sleep")
    t.verify(r.report)


@test("tree")
def daemon_not_waited_for(t):
    """--wait=primary ends with the program; the daemon, which ends when it is told to, runs on,
    unharmed.
    """
    r = t.profile(
        [t.program("tree"), "daemon", "enough"],
        "--wait=primary",
        "--trace=osrt",
        status=0,
        clean=False,
    )
    done = os.path.join(t.work, "daemon.done")
    t.ok(not os.path.exists(done), "profile ended before the daemon did")
    t.touch("enough")
    t.ok(
        wait_until(lambda: os.path.exists(done)),
        "the daemon came to its normal end after the recorder had gone",
    )
    t.check_clean()
    t.verify(r.report)


@test("tree")
def program_that_closes_all_descriptors(t):
    recorded(t, "closefds", usleeps=2, processes=2)


@test("tree")
def closed_descriptors_empty_environment_and_exec(t):
    recorded(t, "closefds-exec", usleeps=1, processes=2)


@test("tree")
def ten_thousand_children(t):
    n = int(os.environ.get("WS_TEST_FORKS", "10000"))
    argv = [t.program("tree"), "forks", str(n)]
    r = t.same(argv, "--trace=osrt", timeout=120)
    t.verify(r.report)
    db = t.load(r.report)
    # A child that records nothing costs nothing and need not be known; none may be known twice.
    t.ok(len(db.processes()) <= n + 1, "at most one image a process")
    t.eq(db.lost(), 0, "events lost")


@test("tree")
def many_children_that_record(t):
    recorded(t, "forks-working", arg=2000, usleeps=2000, processes=2001, timeout=120)


@test("tree")
def forks_while_threads_hold_locks(t):
    argv = [t.program("tree"), "fork-locks"]
    r = t.same(argv, "--trace=osrt", timeout=60)
    t.verify(r.report)
    t.ge(len(t.load(r.report).processes()), 201, "images: the parent and 200 children")


@test("tree")
def exec_while_threads_run(t):
    r = t.same([t.program("tree"), "threads-exec"], "--trace=osrt")
    t.verify(r.report)
    t.eq(images(t, r.report), 2, "images")


@test("tree")
def binary_tree_of_processes(t):
    recorded(t, "tree", arg=5, usleeps=2**6 - 1, processes=2**6 - 1)


@test("tree")
def fork_in_an_exit_handler(t):
    recorded(t, "atexit-fork", usleeps=1, processes=2)


@test("tree")
def child_never_waited_for(t):
    recorded(t, "zombie", usleeps=2, processes=2)


@test("tree")
def empty_program(t):
    db = recorded(t, "empty", processes=1)
    t.eq(db.processes(), ["tree"], "process names")


@test("tree")
def program_that_calls__exit(t):
    recorded(t, "exit-quick", processes=1)


# ---- targets that cannot be recorded: said, not hidden


def said_unrecorded(t, r, why):
    """The report's diagnostics must name the reason."""
    t.contains("\n".join(t.load(r.report).diagnostics()) + r.messages, why, "diagnostics")


@test("tree")
def static_target_is_said(t):
    r = t.same([t.program("static"), "5"], "--trace=osrt")
    t.eq(r.status, 5, "exit status")
    said_unrecorded(t, r, "static")


@test("tree")
def static_child_is_said(t):
    r = t.same(["/bin/sh", "-c", "'%s' 6; exit $?" % t.program("static")], "--trace=osrt")
    t.eq(r.status, 6, "exit status")
    said_unrecorded(t, r, "static")


def elf32(path):
    """
    A 32-bit x86 program made by hand: ELF header, one loadable segment, and code for exit(42). It
    stands in for any 32-bit target on machines without a 32-bit compiler or libc.
    """
    code = bytes(
        [0xB8, 1, 0, 0, 0, 0xBB, 42, 0, 0, 0, 0xCD, 0x80]  # mov eax, 1 (exit)  # mov ebx, 42
    )  # int 0x80
    base, head = 0x08048000, 52 + 32
    ident = b"\x7fELF" + bytes([1, 1, 1, 0]) + bytes(8)
    ehdr = ident + struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, base + head, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    phdr = struct.pack("<IIIIIIII", 1, 0, base, base, head + len(code), head + len(code), 5, 0x1000)
    with open(path, "wb") as f:
        f.write(ehdr + phdr + code)
    os.chmod(path, 0o755)


@test("tree", needs=("x86-64",))
def target_of_32_bits_is_said(t):
    path = os.path.join(t.work, "small")
    elf32(path)
    try:
        bare = t.run([path])
    except OSError:
        t.skip("this kernel runs no 32-bit programs")
    if bare.status != 42:
        t.skip("this kernel runs no 32-bit programs")
    r = t.same([path], "--trace=osrt")
    t.eq(r.status, 42, "exit status")
    said_unrecorded(t, r, "32.bit")


@test("tree", needs=("x86-64",))
def child_of_32_bits_makes_no_noise(t):
    """The loader's complaints about a preload of the wrong class must not reach the program's
    standard error.
    """
    path = os.path.join(t.work, "small")
    elf32(path)
    try:
        if t.run([path]).status != 42:
            t.skip("this kernel runs no 32-bit programs")
    except OSError:
        t.skip("this kernel runs no 32-bit programs")
    r = t.same(["/bin/sh", "-c", "%s; echo $?" % path], "--trace=osrt")
    t.eq(r.out, b"42\n", "the shell's word on its child")
    said_unrecorded(t, r, "32.bit")


@test("tree", needs=("root",))
def setuid_target_is_said(t):
    """For a setuid program the loader ignores LD_PRELOAD. Root has nothing to gain, so an ordinary
    user runs it.
    """
    path = os.path.join(t.work, "setuid-tree")
    shutil.copy(t.program("tree"), path)
    os.chown(path, 0, 0)
    os.chmod(path, 0o4755)
    if os.statvfs(t.work).f_flag & os.ST_NOSUID:
        t.skip("this folder is mounted nosuid")
    os.chmod(t.work, 0o777)
    os.chown(t.tmp, NOBODY, NOBODY)
    r = t.same([path, "work", "3"], "--trace=osrt", preexec_fn=lambda: os.setuid(NOBODY))
    t.eq(r.status, 3, "exit status")
    said_unrecorded(t, r, "set.?(user|group)?.?(uid|id)|privilege")


@test("tree")
def script_target(t):
    path = os.path.join(t.work, "script")
    with open(path, "w") as f:
        f.write("#!/bin/sh\n'%s' work 2\nexit $(($? + 5))\n" % t.program("tree"))
    os.chmod(path, 0o755)
    r = t.same([path], "--trace=osrt")
    t.eq(r.status, 7, "exit status")
    db = t.load(r.report)
    t.eq(db.calls().get("usleep", 0), 1, "the sleep of the script's child")
    t.ok("tree" in db.processes(), "images: %s" % db.processes())


@test("tree")
def script_without_interpreter_line(t):
    """execve says ENOEXEC; a shell would run such a file by itself. Either is fine, a clear word
    and no report is not silent.
    """
    path = os.path.join(t.work, "plain")
    with open(path, "w") as f:
        f.write("exit 3\n")
    os.chmod(path, 0o755)
    r = t.profile([path], "--trace=osrt")
    t.ok(r.status == 3 or (r.status == 126 and "plain" in r.messages), r.said())


@test("tree")
def python_script_as_target(t):
    path = os.path.join(t.work, "s.py")
    with open(path, "w") as f:
        f.write(
            "#!/usr/bin/env python3\nimport sys, time\nfor i in range(5):"
            " time.sleep(0.002)\nprint('py'); sys.exit(9)\n"
        )
    os.chmod(path, 0o755)
    r = t.same([path], "--trace=osrt")
    t.eq(r.status, 9, "exit status")
    calls = t.load(r.report).calls()
    t.ge(
        sum(calls.get(c, 0) for c in ("clock_nanosleep", "select", "pselect")),
        5,
        "sleeps recorded (%s)" % calls,
    )


# ---- the user's own preload, and what children see


@test("tree", needs=("cc",))
def preload_of_the_user_is_kept(t):
    own = t.program("libown.so")
    r = t.same(
        [t.program("tree"), "fork"],
        "--trace=osrt",
        env={"LD_PRELOAD": own, "OWN_LOG": os.path.join(t.work, "own.log")},
    )
    with open(os.path.join(t.work, "own.log")) as f:
        lines = f.read().splitlines()
    # twice: the bare run and the recorded one, each with two sleeps
    t.eq(lines.count("usleep"), 4, "sleeps that the user's own library saw")
    t.eq(t.load(r.report).calls().get("usleep", 0), 2, "sleeps recorded")


@test("tree", needs=("cc",))
def preload_of_the_user_reaches_children(t):
    own = t.program("libown.so")
    r = t.profile(
        [t.program("tree"), "system"],
        "--trace=osrt",
        status=14,
        env={"LD_PRELOAD": own, "OWN_LOG": os.path.join(t.work, "own.log")},
    )
    with open(os.path.join(t.work, "own.log")) as f:
        t.eq(f.read().splitlines().count("usleep"), 2, "sleeps that the user's own library saw")
    t.eq(t.load(r.report).calls().get("usleep", 0), 2, "sleeps recorded")


@test("tree")
def descriptors_are_the_targets_own(t):
    t.same([t.program("tree"), "fds"], "--trace=osrt")
    t.same([t.program("tree"), "fds"], "--trace=none", output="n")


@test("tree")
def signal_dispositions_are_inherited_unchanged(t):
    t.same([t.program("tree"), "sigstate"])
    # as under nohup
    r = t.same(
        ["/bin/sh", "-c", "trap '' HUP QUIT; exec '%s' sigstate" % t.program("tree")], output="n"
    )
    t.contains(r.out.decode(), "1i-", "SIGHUP ignored")


# ---- one report per value of a variable that children set


@test("tree")
def one_report_per_value_of_a_variable(t):
    r = t.profile(
        [t.program("tree"), "ranks", "3"], "--trace=osrt", output="rank%q{RANK}", status=0
    )
    names = [os.path.basename(p) for p in r.reports]
    for i in range(3):
        t.ok("rank%d.wsrep" % i in names, "reports: %s" % names)
    for p in r.reports:
        t.verify(p)
        m = re.match(r"rank([0-9]+)\.wsrep$", os.path.basename(p))
        if m:
            t.eq(t.load(p).calls().get("usleep", 0), 1, "the sleep of rank %s" % m.group(1))


@test("tree", needs=("git",))
def git_is_recorded(t):
    repo = os.path.join(t.work, "repo")
    env = {
        "GIT_CONFIG_NOSYSTEM": "1",
        "HOME": t.work,
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
        "GIT_PAGER": "cat",
    }
    script = (
        "git init -q %s && cd %s && for i in 1 2 3; do echo $i > f && git add f && git commit -q -m"
        " $i; done" % (repo, repo)
    )
    t.eq(t.run(["/bin/sh", "-c", script], env=env).status, 0, "making a repository")
    r = t.same(["git", "-C", repo, "log", "-p"], "--trace=osrt", env=env)
    t.verify(r.report)
    t.ok("git" in t.load(r.report).processes(), "git among the processes")


@test("tree", needs=("sqlite3",))
def sqlite_is_recorded(t):
    query = (
        "PRAGMA temp_store = 1; PRAGMA cache_size = 10; CREATE TABLE a AS WITH RECURSIVE n(i) AS"
        " (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000) SELECT i, i * 7919 % 200003 AS"
        " k FROM n; CREATE INDEX x ON a(k); SELECT count(DISTINCT k), sum(i) FROM a;"
    )
    r = t.same(["sqlite3", ":memory:", query], "--trace=osrt")
    t.verify(r.report)
    t.eq(t.load(r.report).processes(), ["sqlite3"], "processes")
    db = os.path.join(t.work, "big.db")
    for options in ((), ("--osrt-threshold=0",)):
        if os.path.exists(db):
            os.unlink(db)
        r = t.profile(["sqlite3", db, query], "--trace=osrt", "-f", *options, status=0)
        t.eq(r.out, b"200000|20000100000\n", "the query's answer")
        t.ge(
            sum(n for c, n in t.load(r.report).calls().items() if "write" in c),
            10,
            "writes to the database",
        )


@test("tree", needs=("cc",))
def make_of_a_c_project(t):
    if shutil.which("make") is None:
        t.skip("needs make")
    with open(os.path.join(t.work, "Makefile"), "w") as f:
        f.write("all: a.o b.o c.o d.o\n\tcat $^ > all\n%.o: %.c\n\tcc -O1 -c -o $@ $<\n")
    for n in "abcd":
        with open(os.path.join(t.work, n + ".c"), "w") as f:
            f.write("int %s(int x) { return x * 3; }\n" % n)
    r = t.profile(["make", "-s", "-j4"], "--trace=osrt", status=0, timeout=120)
    t.verify(r.report)
    db = t.load(r.report)
    names = db.processes()
    t.ge(sum("cc1" in n for n in names), 4, "compilers among %s" % names)
    t.ok("make" in names, "make among %s" % names)
    if any("wait" in d and "hang" in d for d in db.diagnostics()):
        raise Failed("unexpected: %s" % db.diagnostics())
