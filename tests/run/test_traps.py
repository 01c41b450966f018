"""test_traps.py - what went wrong in trials of recording, each with a test. tests/run/traps.md maps
them.
"""
import os
import re
import shutil
import subprocess

from harness import Failed, test


def calls(t, *args):
    return [t.program("calls"), *args]


@test("traps")
def static_tls_exhausted(t):
    """A program that used up the loader's static TLS: a hook opened late still loads."""
    for trace in ("nvtx", "nvtx,osrt"):
        r = t.same([t.program("tlsuser"), t.program("libtlsfat.so")], "--trace=" + trace, "-f")
        t.eq(r.out, b"exhausted\n", "the program's word on TLS")
        db = t.load(r.report)
        t.eq(db.range_count("late"), 10, "ranges with --trace=%s" % trace)


@test("traps")
def hook_libraries_need_little_static_tls(t):
    """The libraries loaded into programs hold at most three words of TLS each."""
    if shutil.which("readelf") is None:
        t.skip("needs readelf")
    found = hook_libraries(t)
    for lib in found:
        out = subprocess.run(
            ["readelf", "-lW", lib], stdout=subprocess.PIPE, check=True
        ).stdout.decode()
        for line in out.splitlines():
            w = line.split()
            if w and w[0] == "TLS":
                t.ok(
                    int(w[5], 16) <= 24,
                    "%s has %d bytes of TLS" % (os.path.basename(lib), int(w[5], 16)),
                )


def hook_libraries(t):
    build = os.path.dirname(t.where.warpsight)
    found = []
    for d, _, files in os.walk(os.path.join(build, "src")):
        found += [
            os.path.join(d, f) for f in files if re.search(r"^libwarpsight-.*\.so$", f)
        ]  # libwarpsight.so itself is for readers
    if not found:
        raise Failed("no hook libraries under %s/src" % build)
    return found


@test("traps")
def hook_libraries_bind_old_symbols_only(t):
    """Nothing newer than GLIBC_2.28, and nothing needed but libc, libdl and libpthread."""
    if shutil.which("readelf") is None:
        t.skip("needs readelf")
    for lib in hook_libraries(t):
        out = subprocess.run(
            ["readelf", "-VW", "-dW", lib], stdout=subprocess.PIPE, check=True
        ).stdout.decode()
        for v in re.findall(r"GLIBC_([0-9.]+)", out):
            t.ok(
                tuple(map(int, v.split("."))) <= (2, 28),
                "%s wants GLIBC_%s" % (os.path.basename(lib), v),
            )
        for n in re.findall(r"NEEDED.*\[(.*)\]", out):
            t.ok(
                re.match(r"(libc|libdl|libpthread|ld-linux.*|libwarpsight.*)\.so", n),
                "%s needs %s" % (os.path.basename(lib), n),
            )


@test("traps", needs=("mounts", "root"))
def full_shared_memory(t):
    """A /dev/shm of 1 MiB, as small containers have: no SIGBUS in the target, and what could not be
    kept is counted.
    """
    script = 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"'
    for size in ("1m", "64k"):
        r = t.run(
            [
                "unshare",
                "-m",
                "/bin/sh",
                "-c",
                script.replace("1m", size),
                "sh",
                *t.profile_argv(
                    [t.program("storm"), "random", "4", "100000"], ["--trace=nvtx", "-f"]
                ),
            ],
            timeout=120,
        )
        t.eq(
            (r.status, r.out),
            (0, b"done\n"),
            "the target with /dev/shm of %s (%s)" % (size, r.said()),
        )
        t.verify(t.path("r"))
        db = t.load(t.path("r"))
        t.eq(
            db.range_count() + db.lost(),
            400000,
            "ranges kept (%d) and lost (%d)" % (db.range_count(), db.lost()),
        )


@test("traps", needs=("mounts", "root"))
def shared_memory_already_full(t):
    """Something else has filled /dev/shm before we come."""
    script = (
        "mount -t tmpfs -o size=4m tmpfs /dev/shm && { head -c 8m /dev/zero > /dev/shm/other"
        ' 2>/dev/null; exec "$@"; }'
    )
    r = t.run(
        [
            "unshare",
            "-m",
            "/bin/sh",
            "-c",
            script,
            "sh",
            *t.profile_argv([t.program("ranges"), "nested", "10"], ["--trace=nvtx"]),
        ]
    )
    t.eq((r.status, r.out), (0, b"nested\n"), "the target (%s)" % r.said())
    db = t.load(t.path("r"))
    t.eq(
        db.range_count() + db.lost(),
        90,
        "ranges kept (%d) and lost (%d)" % (db.range_count(), db.lost()),
    )


@test("traps", needs=("mounts", "root"))
def no_shared_memory_at_all(t):
    """/dev/shm may be missing or read-only in a container."""
    script = 'mount -t tmpfs -o ro tmpfs /dev/shm && exec "$@"'
    r = t.run(
        [
            "unshare",
            "-m",
            "/bin/sh",
            "-c",
            script,
            "sh",
            *t.profile_argv([t.program("ranges"), "nested", "10"], ["--trace=nvtx"]),
        ]
    )
    t.eq((r.status, r.out), (0, b"nested\n"), "the target (%s)" % r.said())
    t.eq(t.load(t.path("r")).range_count(), 90, "ranges")
    t.eq(os.listdir(t.tmp), [], "left in TMPDIR")


@test("traps")
def vfork_child_is_not_taken_for_a_fork(t):
    r = t.same([t.program("ranges"), "vfork", "50"], "--trace=nvtx,osrt")
    t.verify(r.report)
    db = t.load(r.report)
    t.eq(db.ranges(), {"around vfork": 50, "after vfork": 50}, "ranges of the parent")
    t.eq(
        db.one("SELECT count(DISTINCT globalTid) FROM NVTX_EVENTS WHERE eventType = 59"),
        1,
        "threads with ranges",
    )
    t.eq(
        db.one("SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 59 AND end IS NULL"),
        0,
        "ranges left open",
    )


@test("traps")
def functions_that_newer_programs_import(t):
    r = t.same(calls(t, "fortified"), "--trace=osrt", "--osrt-threshold=0")
    seen = t.load(r.report).calls()
    opens = sum(v for k, v in seen.items() if k.strip("_").startswith("open"))
    t.ge(opens, 8, "opens by __open_2 and __open64_2 (%s)" % seen)
    t.ge(sum(v for k, v in seen.items() if k in ("read", "__read_chk")), 4, "reads by __read_chk")
    t.ge(sum(v for k, v in seen.items() if k in ("poll", "__poll_chk")), 4, "polls by __poll_chk")


@test("traps")
def longjmp_out_of_a_call_closes_its_nesting(t):
    """Calls after a longjmp out of a blocking read are at level 0 again."""
    r = t.same(calls(t, "longjmp", "50"), "--trace=osrt")
    t.verify(r.report)
    db = t.load(r.report)
    levels = db.sql(
        "SELECT DISTINCT nestingLevel FROM OSRT_API JOIN StringIds ON id = nameId WHERE value ="
        " 'usleep'"
    )
    t.eq(
        levels,
        [(0,)] if levels and levels[0][0] is not None else [(None,)],
        "nesting of sleeps after the jumps",
    )
    t.eq(db.calls().get("usleep"), 3, "sleeps")


@test("traps")
def longjmp_over_ranges(t):
    r = t.same([t.program("ranges"), "longjmp", "20"], "--trace=nvtx")
    t.eq(t.load(r.report).ranges(), {"left by longjmp": 60, "after": 1}, "ranges")


@test("traps")
def thread_cancellation_survives(t):
    r = t.same(calls(t, "cancel"), "--trace=osrt")
    t.verify(r.report)


@test("traps")
def fork_in_a_handler_that_interrupts_recording(t):
    r = t.profile([t.program("ranges"), "handler-forks", "150"], status=0)
    t.eq(r.out, b"150 children, 0 failed\n", "children")
    t.verify(r.report)
    db = t.load(r.report)
    t.eq([d for d in db.diagnostics() if "overwritten" in d], [], "diagnostics of damage")


@test("traps")
def calls_in_signal_handlers(t):
    r = t.same(calls(t, "handler"), "--trace=osrt")
    t.eq(t.load(r.report).calls().get("usleep"), 5, "sleeps in the handler")


@test("traps")
def calls_before_main_and_at_exit(t):
    r = t.same(calls(t, "edges"), "--trace=osrt", env={"CALLS_EARLY": "1"})
    t.eq(
        t.load(r.report).calls().get("usleep"),
        4,
        "sleeps in constructor, main, exit handler and destructor",
    )


@test("traps")
def errno_and_results_are_untouched(t):
    t.same(calls(t, "errno"), "--trace=osrt", "--osrt-threshold=0")


@test("traps")
def smallest_stack(t):
    r = t.same(calls(t, "minstack"), "--trace=osrt")
    t.eq(t.load(r.report).calls().get("usleep"), 1, "sleeps")


@test("traps")
def epoll_and_sockets(t):
    t.same(calls(t, "sockets"), "--trace=osrt", "--osrt-threshold=0")


@test("traps")
def clock_conversion_is_within_a_microsecond(t):
    """
    Ranges of two seconds against readings of the session clock that the program took around each
    push and pop. The export counts from the start of the collection, so one offset is unknown:
    there must be one for which every time lies between its readings, give or take a microsecond. A
    clock that drifts by 1 us over the run has none.
    """
    file = os.path.join(t.work, "readings")
    n = 1500
    r = t.profile([t.program("clock"), str(n), file], "--trace=nvtx", status=0)
    with open(file) as f:
        readings = [tuple(map(int, l.split())) for l in f]
    rows = t.load(r.report).sql(
        "SELECT start, end FROM NVTX_EVENTS WHERE eventType = 59 ORDER BY start"
    )
    t.eq(len(rows), n, "ranges")
    low, high = -(1 << 63), 1 << 63
    for (a, b, c, d), (start, end) in zip(readings, rows):
        low = max(low, a - start, c - end)
        high = min(high, b - start, d - end)
    t.ok(
        low <= high + 2000,
        "no offset puts all times between their readings: they disagree by %d ns" % (low - high),
    )


@test("traps")
def clock_table_interpolates(t):
    """The readings stored in the report agree with each other: no reading lies over 1 us off the
    line through its neighbours.
    """
    r = t.profile(
        [t.program("clock"), "1500", os.path.join(t.work, "readings")], "--trace=nvtx", status=0
    )
    db = t.load(r.report)
    if not db.has("WARPSIGHT_CLOCK"):
        raise Failed("no WARPSIGHT_CLOCK in the export")
    rows = db.sql("SELECT raw, ticks, realtime FROM WARPSIGHT_CLOCK ORDER BY raw")
    t.ge(len(rows), 3, "clock readings over 1.5 s")
    for (r0, t0, _), (r1, t1, _), (r2, t2, _) in zip(rows, rows[1:], rows[2:]):
        t.ok(r0 < r1 < r2 and t0 < t1 < t2, "readings rise")
        expected = r0 + (r2 - r0) * (t1 - t0) / (t2 - t0)
        t.ok(
            abs(expected - r1) < 20000,
            "a reading is %.0f ns off its neighbours' line" % (expected - r1),
        )


@test("traps", needs=("cc",))
def preload_noise_of_32_bit_programs(t):
    """With a 32-bit libc, the loader would complain on standard error about our 64-bit library."""
    source = os.path.join(t.work, "p.c")
    with open(source, "w") as f:
        f.write("int main(void) { return 42; }\n")
    prog = os.path.join(t.work, "p32")
    if subprocess.run(
        ["cc", "-m32", "-o", prog, source], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ).returncode:
        t.skip("needs a 32-bit libc to compile for (cc -m32)")
    r = t.same(["/bin/sh", "-c", prog + "; echo $?"], "--trace=osrt")
    t.eq((r.out, r.target_err), (b"42\n", b""), "the program's streams")


@test("traps")
def several_libraries_that_embed_nvtx(t):
    """A program and a library, each with an NVTX loader of its own."""
    lib2 = os.path.join(t.work, "second.so")
    shutil.copy(t.program("librange.so"), lib2)
    code = (
        "import ctypes\n"
        "for path in %r:\n"
        "    lib = ctypes.CDLL(path)\n"
        "    for i in range(7):\n"
        "        lib.lib_push(b'from a library'); lib.lib_pop()\n"
        % [t.program("librange.so"), lib2]
    )
    python = shutil.which("python3") or t.skip("needs python3")
    r = t.same([python, "-c", code], "--trace=nvtx")
    t.eq(t.load(r.report).ranges(), {"from a library": 14}, "ranges")


@test("traps")
def deep_nesting(t):
    r = t.same([t.program("ranges"), "deep", "500"], "--trace=nvtx")
    db = t.load(r.report)
    t.eq(db.range_count("deep") + db.lost(), 500, "ranges kept and lost")
    t.eq(db.lost(), 0, "ranges lost")


@test("traps")
def pops_without_a_push(t):
    r = t.same([t.program("ranges"), "pops", "10"], "--trace=nvtx")
    t.eq(t.load(r.report).ranges(), {"one": 1}, "ranges")


@test("traps")
def uncontended_locks_are_not_recorded(t):
    r = t.same(calls(t, "locks"), "--trace=osrt")
    seen = t.load(r.report).calls()
    t.eq(
        {
            k: v
            for k, v in seen.items()
            if k in ("pthread_mutex_lock", "sem_wait", "pthread_spin_lock")
        },
        {"pthread_mutex_lock": 10, "sem_wait": 10},
        "lock calls recorded",
    )
