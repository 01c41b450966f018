"""test_target.py - what the target must never notice: programs of other C libraries and word sizes,
other users, other root folders, and what it starts once it is no longer recorded.
"""
import os
import shutil
import signal
import subprocess
import sys

from harness import Failed, Skip, test, wait_until

SOURCE = r"""
#include <stdio.h>
int main(void) { puts("ran"); return 7; }
"""


def compile_with(t, name, compiler, *options):
    """A program that prints a line and ends with 7; skipped where it cannot be built or run."""
    if not shutil.which(compiler):
        t.skip("needs %s" % compiler)
    source, program = os.path.join(t.work, name + ".c"), os.path.join(t.work, name)
    with open(source, "w") as f:
        f.write(SOURCE)
    r = t.run([compiler, *options, source, "-o", program])
    if r.status or t.run([program]).status != 7:
        t.skip("%s %s makes no program that runs" % (compiler, " ".join(options)))
    return program


def script(t, name, interpreter, text=""):
    path = os.path.join(t.work, name)
    with open(path, "w") as f:
        f.write("#!%s\n%s" % (interpreter, text))
    os.chmod(path, 0o755)
    return path


def private_copy(t):
    """warpsight and its hooks in a folder that only we can enter; its path."""
    folder = os.path.join(t.dir, "private")
    os.makedirs(os.path.join(folder, "src", "inject"))
    os.chmod(folder, 0o700)
    build = os.path.dirname(t.where.warpsight)
    shutil.copy(t.where.warpsight, folder)
    for name in os.listdir(os.path.join(build, "src", "inject")):
        if name.endswith(".so"):
            shutil.copy(os.path.join(build, "src", "inject", name), folder + "/src/inject")
    return os.path.join(folder, "warpsight")


def with_private_copy(t, target, *options):
    """Run `target` bare, and recorded by a copy whose files no other user can read."""
    private = private_copy(t)
    bare = t.run(target)
    r = t.run([private, "profile", "-f", "-o", "r", *options, *target])
    t.recorders.add(r.pid)
    t.eq(r.status, bare.status, "exit status beside the bare run's (%s)" % r.said())
    t.eq(r.out, bare.out, "standard output beside the bare run's")
    t.eq(r.target_err, bare.err, "standard error beside the bare run's")
    t.check_clean()
    return r


@test("target")
def musl_program_starts(t):
    program = compile_with(t, "musl", "musl-gcc")
    r = t.same([program], "-f")
    t.eq(r.status, 7, "the program's own status")
    t.contains(r.messages, "musl", "what was said")


@test("target")
def script_of_a_musl_interpreter_starts(t):
    program = compile_with(t, "musl", "musl-gcc")
    first = script(t, "first", program)
    second = script(t, "second", first)
    t.eq(t.same([first], "-f").status, 7, "the interpreter's own status")
    t.eq(t.same([second], "-f").status, 7, "the same one script further")


@test("target")
def renamed_loader_of_another_libc(t):
    """No name tells that the loader is not glibc's: its contents do."""
    program = compile_with(t, "musl", "musl-gcc")
    with open(program, "rb") as f:
        image = f.read()
    old = b"/lib/ld-musl-x86_64.so.1"
    if old not in image or not os.path.exists(old.decode()):
        raise Skip("needs musl's loader for x86-64")
    loader = os.path.join("/tmp", "ws%08x.so" % (os.getpid() & 0xFFFFFFFF))
    os.symlink(old.decode(), loader)
    try:
        with open(program, "wb") as f:
            f.write(image.replace(old, loader.encode().ljust(len(old), b"\0")))
        t.eq(t.same([program], "-f").status, 7, "the program's own status")
    finally:
        os.unlink(loader)


@test("target")
def program_of_32_bits_starts_quietly(t):
    program = compile_with(t, "small", "gcc", "-m32")
    t.eq(t.same([program], "-f").status, 7, "the program's own status")


@test("target", needs=["root"])
def users_who_cannot_read_us(t):
    """su, setpriv: the shell that another user gets has nothing of ours to complain about."""
    show = "env | grep -c -e LD_PRELOAD -e WARPSIGHT_ -e INJECTION; ls / >/dev/null; echo done"
    targets = [["setpriv", "--reuid=65534", "--clear-groups", "sh", "-c", show]]
    targets.append(["su", "-s", "/bin/sh", "-c", show, "nobody"])
    for target in targets:
        if not shutil.which(target[0]) or t.run(target).status:
            continue
        r = with_private_copy(t, ["sh", "-c", '"$@"; exit 7', "sh", *target])
        t.eq(r.status, 7, "exit status")
        t.contains(r.out.decode(), "0\ndone", "variables of ours that the user's shell saw")
        shutil.rmtree(os.path.join(t.dir, "private"))


@test("target", needs=["root"])
def chroot_starts_quietly(t):
    root = os.path.join(t.dir, "root")
    os.mkdir(root)
    for folder in ("usr", "lib", "lib64", "bin"):
        path = os.path.join(root, folder)
        if os.path.islink("/" + folder):
            os.symlink(os.readlink("/" + folder), path)
        elif os.path.isdir("/" + folder):
            os.mkdir(path)
    target = ["unshare", "-m", "sh", "-c"]
    script = "mount --rbind /usr %s/usr && exec chroot %s /bin/sh -c 'ls /usr >/dev/null; exit 7'"
    target.append(script % (root, root))
    if not shutil.which("unshare") or t.run(target).status != 7:
        t.skip("no folder can be made a root here")
    t.eq(with_private_copy(t, target).status, 7, "exit status")


@test("target", needs=["root"])
def run_as_checks_first(t):
    r = with_private_copy(t, ["sh", "-c", "exit 7"], "--run-as=nobody", "--sample=none")
    t.eq(r.status, 7, "exit status")
    t.contains(r.messages, "nobody.*cannot read the hooks", "what was said")


@test("target")
def children_after_the_end_are_free(t):
    """What outlives the recording starts its own children with the environment it would have had
    without us.
    """
    text = (
        "(while kill -0 $1 2>/dev/null; do sleep 0.05; done; env > after.tmp; mv after.tmp after)"
        " >/dev/null 2>&1 & exit 0"
    )
    helper = script(t, "helper", "/bin/sh", text)
    wait = ["/bin/sh", "-c", "exec %s $PPID" % helper]
    options = ("-f", "--wait=primary", "--trace=osrt,vulkan,openacc", "--nccl-trace=coll")
    own = {"ASAN_OPTIONS": "a=1", "ACC_PROFLIB": "/x/lib/y.so", "VK_INSTANCE_LAYERS": "x"}
    r = t.profile(wait, *options, env=own, clean=False, status=0)
    t.recorders.add(r.pid)
    after = os.path.join(t.work, "after")
    t.ok(wait_until(lambda: os.path.exists(after)), "what outlived the recording went on")
    with open(after) as f:
        seen = f.read().splitlines()
    ours = [
        v for v in seen if v.startswith(("LD_PRELOAD", "WARPSIGHT_", "NVTX_", "CUDA_INJ", "NCCL_"))
    ]
    t.eq(ours, [], "variables of ours")
    for name, value in own.items():
        t.ok("%s=%s" % (name, value) in seen, "%s as it was: %s" % (name, seen))
    t.check_clean()


@test("target")
def children_after_the_collection_are_free(t):
    """So do those that begin when nothing more is collected and the recorder only waits."""
    count = "env | grep -c -e libwarpsight -e WARPSIGHT_SESSION -e verify_asan"
    text = "%s; for i in $(seq 100); do [ $(%s) = 0 ] && break; sleep 0.05; done; %s; true"
    text %= (count, count, count)
    target = ["/bin/sh", "-c", text]
    r = t.profile(target, "--duration=0.2", "--kill=none", "--trace=osrt", "-f", status=0)
    first, *last = r.out.split()
    t.ok(int(first) > 2, "variables of ours at first: %s" % first)
    t.eq(last, [b"0"], "variables of ours in the end")
    said = [text for text in t.load(r.report).diagnostics() if "hooks" in text]
    t.eq(said, [], "what the report says of programs without hooks")


@test("target")
def memory_after_the_end(t):
    """Commands that a program runs after the recording has ended take no memory for good."""
    text = (
        "(%s outlive $PPID > after.tmp 2>&1; mv after.tmp after) >/dev/null 2>&1 & exit 0"
        % t.program("limits")
    )
    r = t.profile(["/bin/sh", "-c", text], "-f", "--wait=primary", clean=False, status=0)
    t.recorders.add(r.pid)
    after = os.path.join(t.work, "after")
    t.ok(wait_until(lambda: os.path.exists(after)), "what outlived the recording went on")
    with open(after) as f:
        t.eq(f.read(), "grew by less than 512 KiB: 1\noutlive: 0\n", "what it says")
    t.check_clean()


@test("target")
def a_program_that_shuts_itself_in(t):
    """It is killed by any system call that it does not make itself, whatever is recorded, and by
    whichever function it asked for that.
    """
    for how, what in (("shut", "nvtx"), ("shut", "nvtx,osrt"), ("shutbynumber", "nvtx")):
        r = t.same([t.program("ranges"), how, "20000"], "-f", "--trace=" + what)
        if r.status == 77:
            t.skip("no seccomp here")
        t.eq(r.status, 0, "exit status with --trace=%s" % what)
        db = t.load(r.report)
        t.ge(
            db.range_count() + db.lost(),
            20000,
            "ranges recorded or counted with --trace=%s" % what,
        )


@test("target")
def children_on_their_parents_thread_storage(t):
    """They find their parent's state and must not touch it: the parent's calls are all there, none
    of theirs is, and what it starts afterwards is recorded as ever.
    """
    r = t.same([t.program("sharers"), "2"], "-f", "--trace=osrt", "--osrt-threshold=0")
    t.eq(r.status, 5, "exit status")
    t.verify(r.report)
    db = t.load(r.report)
    t.eq(db.lost(), 0, "events lost")
    t.eq(db.calls().get("open", 0) + db.calls().get("open64", 0), 6000, "calls of the parent")


def run_within_limits(t, case, calls, *options):
    r = t.same([t.program("limits"), case], "-f", "--trace=osrt", "--osrt-threshold=0", *options)
    t.eq(r.status, 0, "exit status")
    t.verify(r.report)
    db = t.load(r.report)
    lost = db.lost("osrt%")  # context switches may be lost too, where other programs have many
    t.eq(db.calls().get("read", 0) + lost, calls, "calls recorded or counted as lost")
    return db


@test("target")
def limited_address_space(t):
    """The program's limit is its own: of 500,000 KiB it can allocate 400."""
    run_within_limits(t, "space", 240000)


@test("target")
def address_space_limited_later(t):
    run_within_limits(t, "later", 205600)


@test("target")
def locked_memory(t):
    """Ours is not locked; and without the right to open the arena again nothing is lost."""
    db = run_within_limits(t, "lock", 200200, "--lossless")
    t.eq(db.lost(), 0, "events lost")


@test("target")
def limited_files(t):
    db = run_within_limits(t, "files", 400000, "--lossless")
    t.eq(db.lost(), 0, "events lost")


@test("target")
def what_a_limit_leaves_out_is_said(t):
    """With nobody to empty the rings, only a small part of the address space is used for them."""
    argv = [t.program("limits"), "stalled"]
    # Context switches of the machine, some of which are lost meanwhile, are not what is counted.
    options = ["-f", "--trace=osrt", "--osrt-threshold=0", "--sample=none", "--cpuctxsw=none"]
    r = t.profile(argv, *options, status=0)
    t.verify(r.report)
    db = t.load(r.report)
    calls = db.calls().get("read", 0)
    t.ok(calls < 400000 <= calls + db.lost() < 401000, "recorded %d, lost %d" % (calls, db.lost()))
    t.ge(db.lost(), 1, "calls lost")
    t.contains("\n".join(db.diagnostics()), "address space is limited", "diagnostics")


@test("target")
def more_threads_than_memory_for_them(t):
    """The target waits for memory, but not where all of it is held by threads that live."""
    argv = [t.program("limits"), "crowd"]
    r = t.same(argv, "-f", "--trace=osrt", "--osrt-threshold=0", "--sample=none", "--lossless")
    t.eq(r.status, 0, "exit status")
    t.verify(r.report)
    db = t.load(r.report)
    t.ge(db.lost(), 1, "events lost")
    t.ge(db.calls().get("read", 0), 1, "calls recorded")


@test("target")
def grown_by_a_thread_that_has_not_said_so(t):
    argv = [t.program("limits"), "grown"]
    r = t.profile(argv, "-f", "--trace=osrt", "--osrt-threshold=0", "--sample=none", status=0)
    t.verify(r.report)
    # Of the machine's context switches some may be lost, since the recorder is stopped meanwhile.
    t.eq(t.load(r.report).calls().get("read", 0), 400000, "calls recorded")


@test("target")
def limit_of_the_shell(t):
    """The limit is there before our libraries are."""
    argv = ["/bin/sh", "-c", 'ulimit -v 500000; "$1" space', "sh", t.program("limits")]
    t.eq(t.same(argv, "-f").status, 0, "exit status")


@test("target")
def little_address_space(t):
    """What the hooks would take is too much for some programs: they are started without."""
    line = "ulimit -v %d; dd if=/dev/zero of=/dev/null bs=8M count=1 2>/dev/null; echo $?; exit 7"
    for limit in (14000, 16000, 24000, 40000):
        for mode in (None, "none"):
            argv = ["/bin/sh", "-c", line % limit]
            r = t.same(argv, "-f", env={"WARPSIGHT_PERF": mode} if mode else {})
            t.eq((r.status, r.out), (7, b"0\n"), "status and output under %d KiB" % limit)
            said = "\n".join(t.load(r.report).diagnostics())
            t.eq("dd: the hooks would take" in said, limit < 32 * 1024, "what is said: " + said)


@test("target")
def children_without_much_address_space(t):
    """The same for what is started by posix_spawn, system and popen, and for its own children."""
    code = (
        "import os, resource as r; r.setrlimit(r.RLIMIT_AS, (24 << 20, 24 << 20));"
        "a = ['sh', '-c', 'echo $LD_PRELOAD; cat /proc/self/maps | grep -c warpsight'];"
        "p = os.posix_spawnp('sh', a, os.environ); os.waitpid(p, 0); os.system(a[2]);"
        "os.execvp('sh', a)"
    )
    r = t.profile(["/usr/bin/python3", "-c", code], "-f", env={"LD_PRELOAD": None})
    t.eq(r.out, b"\n0\n" * 3, "libraries of ours in the children")
    t.eq(r.status, 1, "exit status")


@test("target")
def children_with_less_space_than_is_taken(t):
    """A program that limits itself to less than it takes itself gets no memory from the kernel any
    more, but hands nothing of ours to what it starts.
    """
    for limit in ("-v 3000", "-d 1000"):
        r = t.same(["sh", "-c", "ulimit %s; exec sh -c 'echo in; exit 3'" % limit], "-f")
        t.eq((r.status, r.out), (3, b"in\n"), "status and output under ulimit " + limit)


STACK_FROM_NS, LONG_NS = 80000, 5000000
STACKS_A_SECOND, STACKS_AT_ONCE = 500, 100  # record/session.c, inject/osrt.c
LOOKS_A_SECOND, LOOKS_AT_ONCE = 800, 100  # record/perf_waits.c


def hand_around(t, *options):
    """How many waits of 32 threads should have a stack, have one, and are said to have none."""
    r = t.same(
        [t.program("handing"), "32", "1500"],
        "-f",
        "--trace=osrt",
        "--sample=none",
        "--cpuctxsw=none",
        "--resolve-symbols=false",
        *options,
        timeout=120,
    )
    t.verify(r.report)
    db = t.load(r.report)
    t.eq(db.lost(), 0, "events lost")
    lasted = "FROM OSRT_API WHERE end - start >= %d" % STACK_FROM_NS
    due = db.one("SELECT count(*) " + lasted)
    stacks = db.one("SELECT count(*) %s AND callchainId > 0" % lasted)
    span = db.one("SELECT max(end) - min(start) FROM OSRT_API") / 1e9
    said = [
        int(text.split()[0]) for text in db.diagnostics() if "calls of the OS runtime have" in text
    ]
    return due, stacks, sum(said), span


@test("target")
def few_stacks_of_many_waits(t):
    """Threads that hand a turn around wait so often that a stack each time would slow them down:
    so many a second are taken, and how many were not is said.
    """
    due, stacks, left_out, span = hand_around(t)
    most = int(2 * (STACKS_A_SECOND * span + STACKS_AT_ONCE)) + 10
    t.ok(stacks <= most, "%d stacks taken in %.2f s, not %d" % (stacks, span, most))
    t.eq(stacks + left_out, due, "waits of 80 us: with a stack, and counted as without")
    t.ge(stacks, min(due, STACKS_AT_ONCE) // 2, "stacks")


@test("target")
def all_stacks_when_nothing_may_be_left_out(t):
    due, stacks, left_out, _ = hand_around(t, "--lossless")
    t.eq((stacks, left_out), (due, 0), "stacks, and those left out")


WAITING = """
import threading, time
def wait():
    for _ in range(60):
        time.sleep(0.006)
threads = [threading.Thread(target=wait) for _ in range(100)]
for t in threads: t.start()
for t in threads: t.join()
"""


@test("target")
def few_looks_at_many_waits(t):
    """Asking the kernel what a thread waits in takes the target's locks: it is asked only so often,
    however many threads wait.
    """
    r = t.profile([sys.executable, "-c", WAITING], "--resolve-symbols=false", timeout=120)
    db = t.load(r.report)
    looks = db.has("WARPSIGHT_BLOCKED") and db.one("SELECT count(*) FROM WARPSIGHT_BLOCKED")
    span = db.one("SELECT max(end) - min(start) FROM OSRT_API") / 1e9
    most = int(LOOKS_AT_ONCE + LOOKS_A_SECOND * span) + 20
    t.ok(looks <= most, "%d looks in %.2f s, not %d" % (looks, span, most))


@test("target")
def recorder_without_memory(t):
    """Whatever little address space there is, the target is recorded or not run, and nothing is
    left of what was begun; an older report stays.
    """
    kept = os.path.join(t.work, "r.wsrep")
    with open(kept, "w") as f:
        f.write("old")
    os.chmod(kept, 0o600)
    refused = 0
    for limit in range(16000, 64000, 4000):
        command = ["/bin/sh", "-c", 'ulimit -v %d && exec "$@"' % limit, "sh"]
        r = t.run(
            [*command, t.where.warpsight, "profile", "-f", "-o", "r", "/bin/sh", "-c", "exit 7"]
        )
        t.recorders.add(r.pid)
        if r.status == 7 and "the recording ends here" in r.messages:
            os.unlink(kept + ".journal")  # as one that is killed leaves it
            with open(kept, "w") as f:
                f.write("old")
            continue
        if r.status == 7:
            break
        refused += 1
        t.eq((r.status, r.out), (1, b""), "status and output under %d KiB" % limit)
        t.contains(r.said(), "memory", "what is said under %d KiB" % limit)
        t.eq(os.listdir(t.work), ["r.wsrep"], "files left under %d KiB" % limit)
        with open(kept) as f:
            t.eq(f.read(), "old", "the older report under %d KiB" % limit)
    t.ge(refused, 1, "limits under which there was no memory")
    t.eq(r.status, 7, "status under %d KiB: %s" % (limit, r.said()))
    t.check_clean()


@test("target")
def memory_is_reached_from_everywhere(t):
    """Who may not look into the recorder's /proc is sent the memory: user and pid namespaces, other
    rights, another user.
    """
    storm = t.program("storm")
    ways = {
        "user": ["unshare", "-Ur"],
        "pid": ["unshare", "-Urpf", "--mount-proc"],
        "rights": ["setpriv", "--bounding-set=-all", "--inh-caps=-all"],
    }
    tried = 0
    for name, words in ways.items():
        if t.run([*words, "true"]).status:
            continue
        tried += 1
        r = t.profile([*words, storm, "plain", "2", "50000"], "--trace=nvtx", output=name, status=0)
        db = t.load(r.report)
        t.eq((db.range_count() + db.lost(), r.target_err), (100000, b""), "ranges by " + name)
    if os.geteuid() == 0:
        os.chmod(t.work, 0o777)
        argv = [storm, "plain", "2", "50000"]
        r = t.profile(argv, "--trace=nvtx", "--run-as=nobody", output="run-as", status=0)
        if "cannot read" in r.messages:
            t.skip("the build cannot be read by other users")
        db = t.load(r.report)
        t.eq(db.range_count() + db.lost(), 100000, "ranges of another user")
        tried += 1
    if not tried:
        t.skip("no way to be elsewhere")


@test("target")
def filter_that_forbids_sockets(t):
    """Under more filters than the recorder's the memory is not asked for: that might be fatal."""
    argv = [t.program("limits"), "sockets"]
    if t.run(argv).status == 77:
        t.skip("no user namespaces, or no filters of system calls")
    t.eq(t.same(argv).status, 5, "exit status")


FILTERED = "threads fork clone spawn system exec compute control end".split()


@test("target")
def filters_that_end_a_program(t):
    """Threads, forked children and what is started under a filter that ends the program for calls
    which only the hooks would make; threads and children are recorded all the same.
    """
    for case, how in [(case, []) for case in FILTERED] + [("fork", ["syscall"])]:
        for mode in (None, "none"):
            argv = [t.program("filtered"), case, *how]
            env = {"WARPSIGHT_PERF": mode} if mode else {}
            options = ["--trace=osrt,openmp", "--osrt-threshold=0"]
            name = "-".join([case, *how, str(mode)])
            try:
                r = t.same(argv, *options, env=env, output=name)
            except Failed as e:
                raise Failed("%s: %s" % (name, e)) from e
            if r.status == 77:
                t.skip("no filters of system calls")
            t.eq(r.status, 5, "exit status of " + name)
            calls = {"threads": 100, "fork": 110}.get(case)
            if calls:
                db = t.load(r.report)
                t.eq(db.calls().get("usleep", 0) + db.lost(), calls, "calls of " + name)


@test("target")
def recorder_that_does_not_answer(t):
    """A program that has to ask the stopped recorder for the memory goes on without it, soon."""
    if t.run(["unshare", "-Ur", "true"]).status:
        t.skip("no user namespaces")
    script = "echo $PPID; read x; unshare -Ur sh -c 'echo in; exit 3'; echo $?; exec sh -c 'exit 4'"
    p = t.start(t.profile_argv(["/bin/sh", "-c", script]), stdin=subprocess.PIPE)
    recorder = int(t.line(p))
    os.kill(recorder, signal.SIGSTOP)
    p.stdin.write(b"\n")
    t.eq((t.line(p), t.line(p)), (b"in\n", b"3\n"), "what it prints without an answer")
    os.kill(recorder, signal.SIGCONT)
    p.communicate(timeout=60)
    t.eq(p.returncode, 4, "exit status")
    t.check_clean()


ODD = "memory bare fixed traced locked files coroutine timer closed children full".split()


@test("target")
def odd_programs(t):
    """Programs that do what few do (odd.c says what), with perf events and without."""
    for case in ODD:
        for mode in (None, "none"):
            env = {"WARPSIGHT_PERF": mode} if mode else {}
            try:
                t.same([t.program("odd"), case], env=env, output="%s-%s" % (case, mode))
            except Failed as e:
                raise Failed("%s, %s: %s" % (case, mode or "with perf events", e)) from e


@test("target")
def rare_programs(t):
    """More of them (rare.c), which say themselves what there is; those of a session, too."""
    rare = t.program("rare")
    cases = [line.split()[0] for line in t.run([rare]).out.decode().splitlines()]
    t.ge(len(cases), 25, "cases")
    for case in cases:
        bare = t.run([rare, case])
        t.eq(bare.status, 5, "status of %s alone: %s" % (case, bare.said()))
        for way in ("profile", "profile without perf events", "launch"):
            words = [t.where.warpsight, "launch", "--session-new=" + case, rare, case]
            if way != "launch":
                words = t.profile_argv([rare, case], ["-f", "--trace=cuda,nvtx,osrt,malloc"])
            mode = "none" if way.endswith("events") else None
            r = t.run(words, env={"WARPSIGHT_PERF": mode})
            t.recorders.add(r.pid)
            seen = (r.status, r.out, r.target_err)
            t.eq(seen, (bare.status, bare.out, bare.err), "%s by %s" % (case, way))
    t.check_clean()
