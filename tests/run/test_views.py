"""test_views.py - what `report`, the statistics of CPU time and the exports of call stacks say of
programs that do what is known.
"""
import csv
import gzip
import io
import json
import os
import re
import subprocess

from harness import Imprecise, Skip, test

LEAST = 40e6  # nanoseconds that each wait of the program waits takes, at least


def record(t, argv, *options):
    r = t.same(argv, *options)
    t.eq(r.status, 0, "exit status")
    return r


def table(t, *args):
    out = t.tool(*args, "-q", "-f", "csv").out.decode()
    rows = list(csv.reader(io.StringIO(out.rstrip("\n"), newline="")))
    return [dict(zip([n.split(" (")[0] for n in rows[0]], r)) for r in rows[1:]] if rows else []


def sampled(t, r):
    """Skips the test where there are no samples."""
    if not t.load(r.report).one(
        "SELECT count(*) FROM sqlite_master WHERE name = 'COMPOSITE_EVENTS'"
    ):
        raise Skip("CPUs cannot be sampled here")


def near(t, seen, expected, within, what):
    if abs(float(seen) - expected) > within:
        raise Imprecise("%s: expected about %s, saw %s" % (what, expected, seen))


# ---- waits


def check_waits(t, r, whole):
    rows = table(t, "stats", "-r", "thread_wait_sum", r.report)
    waiter = [w for w in rows if w["Thread"] == "waiter"]

    def waited(**what):
        return [
            w
            for w in waiter
            if all(re.fullmatch(v, w[k]) for k, v in what.items())
            and float(w["Total Time"]) >= LEAST
        ]

    t.eq(
        len(
            waited(
                Reason="lock",
                Function="pthread_mutex_lock",
                Object=r"0x[0-9a-f]+ held by holder \(\d+\)",
            )
        ),
        1,
        "waits for the lock",
    )
    t.eq(
        len(waited(Reason="condition", Function="pthread_cond_wait", Object="0x[0-9a-f]+")),
        1,
        "waits for the condition",
    )
    t.eq(
        len(waited(Reason="semaphore", Function="sem_wait", Object="0x[0-9a-f]+")),
        1,
        "waits for the semaphore",
    )
    t.eq(len(waited(Reason="sleep", Function="usleep")), 1, "sleeps")
    t.eq(len(waited(Reason="poll", Function="poll")), 1, "waits for a descriptor")
    t.eq(
        len(waited(Reason="I/O", Function="getc_unlocked", Object="pipe:.*")),
        1,
        "waits of an inline function",
    )
    t.eq(
        len(waited(Reason="I/O", Function="open(64)?", Object=".*/fifo")),
        1,
        "waits for the other end of the FIFO",
    )
    t.eq(len(waited(Reason="I/O", Function="read", Object=".*/fifo")), 1, "reads of the FIFO")
    main = [
        w for w in rows if w["Reason"] == "end of a thread" and float(w["Total Time"]) >= 8 * LEAST
    ]
    t.eq(len(main), 1, "waits of the main thread for the end of another")
    t.eq(
        whole,
        "not known" not in {w["Reason"] for w in waiter if float(w["Total Time"]) >= LEAST},
        "all long waits have a reason",
    )


@test("views")
def waits_have_reasons(t):
    fifo = os.path.join(t.work, "fifo")
    os.mkfifo(fifo)
    check_waits(t, record(t, [t.program("waits"), fifo], "--trace=osrt"), True)


@test("views")
def waits_have_reasons_without_context_switches(t):
    fifo = os.path.join(t.work, "fifo")
    os.mkfifo(fifo)
    check_waits(
        t,
        record(t, [t.program("waits"), fifo], "--trace=osrt", "--sample=none", "--cpuctxsw=none"),
        True,
    )


@test("views")
def waits_of_a_program_without_hooks(t):
    """What a static program waits in is asked of the kernel, of waits that last."""
    if not os.path.exists(t.program("waitsstatic")):
        raise Skip("no static C library")
    fifo = os.path.join(t.work, "fifo")
    os.mkfifo(fifo)
    r = record(t, [t.program("waitsstatic"), fifo], "--trace=none", "--sample=none")
    if not table(t, "stats", "-r", "sched_sum", r.report):
        raise Skip("context switches cannot be recorded here")
    waiter = [
        w for w in table(t, "stats", "-r", "thread_wait_sum", r.report) if w["Thread"] == "waiter"
    ]
    found = {w["Reason"]: w for w in waiter if w["Reason"] not in ("not known", "run queue")}
    t.ok(set(found) <= {"futex", "poll", "sleep", "I/O", "kernel"}, "reasons: %s" % waiter)
    t.ge(
        len(set(found) - {"kernel"}),
        3,
        "of a lock, a sleep, poll and reads, those that were seen: %s" % waiter,
    )
    t.ok(
        any(
            w["Object"].endswith("/fifo") or w["Object"].startswith("pipe:")
            for w in waiter
            if w["Function"] in ("read", "openat")
        )
        or "I/O" not in found,
        "what a read reads: %s" % waiter,
    )
    known, all_ = (
        sum(float(w["Total Time"]) for w in rows if w["Reason"] != "run queue")
        for rows in (found.values(), waiter)
    )
    t.ge(known, 0.5 * all_, "nanoseconds of waits of a known reason")


def find_sleeps(t, r):
    """How many waits in nanosleep there are, after as many looks at the kernel as it takes."""
    if not table(t, "stats", "-r", "sched_sum", r.report):
        raise Skip("context switches cannot be recorded here")
    rows = table(t, "stats", "-r", "thread_wait_sum", r.report)
    return sum(int(w["Waits"]) for w in rows if w["Function"].endswith("nanosleep"))


def need_kernel_programs(t, r):
    """Skips the test where the kernel does not tell in which calls threads wait (Linux 5.15)."""
    told = "SELECT count(*) FROM WARPSIGHT_BLOCKED WHERE start = end"
    db = t.load(r.report)
    if os.geteuid() or not os.path.exists("/sys/kernel/btf/vmlinux"):
        raise Skip("programs cannot be loaded into the kernel")
    if "the kernel takes programs" not in t.tool("doctor").out.decode():
        raise Skip("the kernel takes no programs, or the build has none")
    t.ok(db.has("WARPSIGHT_BLOCKED") and db.one(told) > 0, "the kernel tells of waits")


@test("views")
def short_waits_of_a_program_without_hooks(t):
    """Of a thousand sleeps of 1 ms some are found by the call, though none lasts for 4 ms."""
    if not os.path.exists(t.program("busystatic")):
        raise Skip("no static C library")
    argv = [t.program("busystatic"), "sleeps", "1000"]
    r = t.profile(argv, "--trace=none", env={"WARPSIGHT_WAIT_CALLS": "look"}, status=0)
    found = find_sleeps(t, r)
    if found < 12:
        raise Imprecise("sleeps that were found: %d" % found)


@test("views")
def every_wait_of_a_program_without_hooks(t):
    """The kernel tells in which call each begins; what a descriptor leads to is looked up."""
    if not os.path.exists(t.program("busystatic")):
        raise Skip("no static C library")
    r = t.profile([t.program("busystatic"), "sleeps", "500"], "--trace=none", status=0)
    found = find_sleeps(t, r)
    need_kernel_programs(t, r)
    if found < 480:
        raise Imprecise("sleeps that were found: %d of 500" % found)
    fifo = os.path.join(t.work, "fifo")
    os.mkfifo(fifo)
    r = t.profile([t.program("waitsstatic"), fifo], "--trace=none", output="paths", status=0)
    rows = table(t, "stats", "-r", "thread_wait_sum", r.report)
    t.ok(any(w["Object"].endswith("/fifo") for w in rows), "the FIFO: %s" % rows)
    names = {w["Function"] for w in rows if w["Thread"] == "waiter"}
    t.ok({"futex", "clock_nanosleep", "read"} <= names, "calls of the waiter: %s" % names)


@test("views")
def waits_of_a_child_without_hooks(t):
    """The shell has hooks; the kernel tells of its child's waits once the child has been seen."""
    if not os.path.exists(t.program("busystatic")):
        raise Skip("no static C library")
    script = "'%s' sleeps 1000; true" % t.program("busystatic")
    r = t.profile(["sh", "-c", script], "--trace=osrt", status=0)
    found = find_sleeps(t, r)
    need_kernel_programs(t, r)
    if found < 500:
        raise Imprecise("sleeps that were found: %d of 1000" % found)


RUST_SLEEPS = """fn main() {
    for _ in 0..300 { std::thread::sleep(std::time::Duration::from_millis(1)); }
}
"""


@test("views", needs=("rust",))
def every_wait_of_a_static_rust_program(t):
    source, program = os.path.join(t.work, "sleeps.rs"), os.path.join(t.work, "sleeps")
    with open(source, "w", encoding="ascii") as f:
        f.write(RUST_SLEEPS)
    made = subprocess.run(
        ["rustc", "-O", "-C", "target-feature=+crt-static", "-o", program, source],
        env=dict(os.environ),
        stderr=subprocess.PIPE,
        check=False,
    )
    if made.returncode:
        raise Skip("no static Rust programs: %s" % made.stderr.decode("utf-8", "replace")[-300:])
    r = t.profile([program], "--trace=none", status=0)
    found = find_sleeps(t, r)
    need_kernel_programs(t, r)
    if found < 285:
        raise Imprecise("sleeps that were found: %d of 300" % found)


@test("views")
def stats_of_a_program_without_hooks(t):
    """Where no hook could be loaded, stats say so and where there is something to see."""
    if not os.path.exists(t.program("busystatic")):
        raise Skip("no static C library")
    r = record(t, [t.program("busystatic"), "split", "100"])
    sampled(t, r)
    why = "loaded the hooks.*warpsight report' shows its CPU samples.*--show=off-cpu"
    t.contains(t.tool("stats", r.report).messages, why, "default reports")
    t.contains(
        t.tool("stats", "-r", "osrt_sum", r.report).messages,
        "osrt_sum skipped: no calls.*" + why,
        "a report that was asked for",
    )
    t.eq(t.tool("stats", "-q", r.report).messages, "", "-q")
    r = record(t, [t.program("busy"), "split", "10"], "-o", "hooked", "-f", "true")
    said = t.tool("stats", r.report).messages
    t.ok("loaded the hooks" not in said, "a program with hooks: %s" % said)


@test("views")
def waits_have_call_stacks(t):
    r = record(t, [t.program("waits")], "--trace=osrt")
    if not t.load(r.report).has("OSRT_CALLCHAINS"):
        raise Skip("call stacks of calls are not recorded here")
    out = t.tool(
        "export", "-q", "-t", "folded", "--show=off-cpu", "--by=thread", "-o", "-", r.report
    ).out.decode()
    for function, label in (
        ("wait_for_lock", "[lock: pthread_mutex_lock]"),
        ("wait_for_condition", "[condition: pthread_cond_wait]"),
    ):
        lines = [
            s
            for s in out.splitlines()
            if s.startswith("waiter (") and ";" + function + ";" in s and label in s
        ]
        t.eq(len(lines), 1, "stacks with %s" % function)
        t.ge(int(lines[0].rsplit(" ", 1)[1]), LEAST, "time in %s" % function)


# ---- samples


@test("views")
def shares_of_functions(t):
    r = record(t, [t.program("busy"), "split", "800"], "--trace=none")
    sampled(t, r)
    flat = {f["Function"]: f for f in table(t, "report", r.report)}
    near(t, flat["three_quarters"]["Total"], 75, 6, "total share of three_quarters")
    near(t, flat["one_quarter"]["Total"], 25, 6, "total share of one_quarter")
    t.ge(float(flat["main"]["Total"]), 90, "total share of main")
    levels, path = {}, []
    for f in table(t, "report", "--view=top-down", "--min-percent=5", r.report):
        path[int(f["Lvl"]) :] = [f["Function"]]
        levels[f["Function"]] = list(path)
    t.eq(levels["three_quarters"][-2:], ["split", "three_quarters"], "callers of three_quarters")
    t.ok("main" in levels["one_quarter"], "main calls one_quarter: %s" % levels["one_quarter"])
    up = table(t, "report", "--view=bottom-up", "--min-percent=20", r.report)
    t.ok(
        {"three_quarters", "one_quarter"} <= {f["Function"] for f in up if int(f["Lvl"]) > 0},
        "bottom-up has the callers: %s" % up,
    )
    modules = table(t, "report", "--by=module", r.report)
    t.ok(
        any(m["Module"].endswith("/busy") and float(m["Total"]) >= 90 for m in modules),
        "the program's share: %s" % modules,
    )


def fields(data):
    """Fields of a protobuf message: (number, value), values being whole numbers or bytes."""

    def varint(at):
        v = shift = 0
        while data[at] > 127:
            v |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
        return v | data[at] << shift, at + 1

    at = 0
    while at < len(data):
        tag, at = varint(at)
        v, at = varint(at)
        if tag & 7 == 2:
            v, at = data[at : at + v], at + v
        yield tag >> 3, v


def check_pprof(t, path, program, samples):
    """What pprof reads: the first mapping is the program ("File:"), and numbers lead to what is
    there.
    """
    with open(path, "rb") as f:
        message = list(fields(gzip.decompress(f.read())))
    strings = [v.decode() for k, v in message if k == 6]
    mappings = [dict(fields(v)) for k, v in message if k == 3]
    locations = [list(fields(v)) for k, v in message if k == 4]
    functions = {dict(fields(v))[1]: strings[dict(fields(v))[2]] for k, v in message if k == 5}
    t.eq(strings[mappings[0][5]], program, "file of the first mapping")
    t.eq({m[1] for m in mappings}, set(range(1, len(mappings) + 1)), "numbers of mappings")
    t.ok(
        {dict(loc).get(2, 0) for loc in locations} <= {0} | {m[1] for m in mappings},
        "locations lie in mappings",
    )
    t.ok(
        {dict(fields(v))[1] for loc in locations for k, v in loc if k == 4} == set(functions),
        "functions of locations",
    )
    t.ok("burn" in functions.values(), "functions: %s" % functions)
    t.eq(
        sum(packed(dict(fields(v))[2])[0] for k, v in message if k == 2), samples, "samples counted"
    )


def packed(data):
    """Whole numbers one behind the other."""
    out, v, shift = [], 0, 0
    for b in data:
        v |= (b & 127) << shift
        shift += 7
        if b < 128:
            out.append(v)
            v = shift = 0
    return out


@test("views")
def exports_say_the_same(t):
    r = record(t, [t.program("busy"), "threads", "3", "100000"], "--trace=none")
    sampled(t, r)
    samples = t.load(r.report).one("SELECT count(*) FROM COMPOSITE_EVENTS WHERE NOT flags & 64")
    total = sum(
        float(f["Total Time"]) for f in table(t, "report", "--by=thread", "--timeunit=ns", r.report)
    )
    t.eq(
        sum(int(f["Samples"]) for f in table(t, "report", "--by=thread", r.report)),
        samples,
        "samples by thread",
    )
    t.eq(
        sum(int(f["Self Samples"]) for f in table(t, "stats", "-r", "cpu_sample_sum", r.report)),
        samples,
        "samples by function",
    )
    t.eq(sum(int(f["Samples"]) for f in table(t, "report", r.report)), samples, "samples of report")
    folded = t.tool("export", "-q", "-t", "folded", "-o", "-", r.report).out.decode().splitlines()
    t.eq(sum(int(s.rsplit(" ", 1)[1]) for s in folded), total, "time in folded stacks")
    t.tool("export", "-q", "-t", "speedscope", "-o", "s.json", r.report)
    with open(os.path.join(t.work, "s.json")) as f:
        profiles = json.load(f)["profiles"]
    t.eq(sum(sum(p["weights"]) for p in profiles), total, "time for speedscope")
    t.ge(len(profiles), 3, "profiles of threads")
    t.tool("export", "-q", "-t", "pprof", "-o", "p.pb.gz", r.report)
    check_pprof(t, os.path.join(t.work, "p.pb.gz"), os.path.realpath(t.program("busy")), samples)


@test("views")
def time_without_samples_is_in_every_export(t):
    """Threads that end before a sample of them is taken ran nevertheless."""
    options = ("--trace=none", "--sampling-frequency=20")
    r = record(t, [t.program("busy"), "threads", "20", "3000"], *options)
    sampled(t, r)
    unsampled = t.load(r.report).one(
        "SELECT count(*) FROM COMPOSITE_EVENTS AS r WHERE flags & 64 AND NOT EXISTS (SELECT 1 FROM"
        " COMPOSITE_EVENTS AS s WHERE s.globalTid = r.globalTid AND NOT s.flags & 64)"
    )
    t.ge(unsampled, 10, "threads without a sample")
    total = sum(
        float(f["Total Time"]) for f in table(t, "report", "--by=thread", "--timeunit=ns", r.report)
    )
    for view in ("flat", "top-down", "bottom-up"):
        rows = table(t, "report", "--view=" + view, "--limit=0", "--timeunit=ns", r.report)
        t.eq(sum(float(f["Self Time"]) for f in rows), total, "time in the view " + view)
    folded = t.tool("export", "-q", "-t", "folded", "-o", "-", r.report).out.decode().splitlines()
    t.eq(sum(int(s.rsplit(" ", 1)[1]) for s in folded), total, "time in folded stacks")
    t.tool("export", "-q", "-t", "speedscope", "-o", "s.json", r.report)
    with open(os.path.join(t.work, "s.json")) as f:
        profiles = json.load(f)["profiles"]
    t.eq(sum(sum(p["weights"]) for p in profiles), total, "time for speedscope")
    t.tool("export", "-q", "-t", "pprof", "-o", "p.pb.gz", r.report)
    with open(os.path.join(t.work, "p.pb.gz"), "rb") as f:
        message = list(fields(gzip.decompress(f.read())))
    t.eq(sum(packed(dict(fields(v))[2])[1] for k, v in message if k == 2), total, "time for pprof")


@test("views")
def a_machine_of_many_cores(t):
    """Events of many cores are opened by several threads; nothing is missing, nothing is twice."""
    argv = [t.program("busy"), "threads", "6", "30000"]
    r = t.profile(argv, "--trace=none", env={"WARPSIGHT_PERF_COPIES": "24"}, status=0)
    sampled(t, r)
    spent = {w["TID"]: float(w["Run Time"]) for w in table(t, "stats", "-r", "sched_sum", r.report)}
    shown = {
        f["Thread"].rstrip(")").split("(")[1]: float(f["Total Time"])
        for f in table(t, "report", "--by=thread", "--timeunit=ns", r.report)
    }
    t.eq(len(shown), 7, "threads")
    t.eq(shown, spent, "time by samples and by switches")


@test("views")
def scheduling_of_threads(t):
    r = record(
        t,
        [t.program("busy"), "sleeps", "20"],
        "--trace=osrt",
        "--sample=none",
        "--cpuctxsw=process-tree",
    )
    if not t.load(r.report).has("SCHED_EVENTS"):
        raise Skip("context switches are not recorded here")
    rows = table(t, "stats", "-r", "sched_sum", r.report)
    t.ge(max(int(s["Switches"]) for s in rows), 20, "switches of the thread that sleeps 20 times")
    t.ge(max(float(s["Wait Time"]) for s in rows), 20e6, "time that it waits")
    slept = [
        w for w in table(t, "stats", "-r", "thread_wait_sum", r.report) if w["Reason"] == "sleep"
    ]
    t.eq(sum(int(w["Waits"]) for w in slept), 20, "sleeps")
    cores = table(t, "stats", "-r", "cpu_util:core", r.report)
    run = sum(float(s["Run Time"]) for s in rows)
    t.eq(sum(float(c["Run Time"]) for c in cores), run, "running time by core and by thread")


@test("views")
def nothing_to_show_has_its_reason(t):
    """A report without samples or context switches is no failure, and what says so says why."""
    r = t.profile(["true"], "--trace=none", "--sample=none", "--cpuctxsw=none")
    for words, reason in (
        (["report"], "sampling was off"),
        (["report", "--view=top-down"], "sampling was off"),
        (["report", "--show=off-cpu"], "cpuctxsw.*trace=osrt"),
        (["stats", "-r", "cpu_sample_sum"], "sampling was off"),
        (["stats", "-r", "sched_sum"], "cpuctxsw=none"),
        (["stats", "-r", "thread_wait_sum"], "cpuctxsw.*trace=osrt"),
    ):
        shown = t.tool(*words, r.report)
        t.eq((shown.status, shown.out), (0, b""), "%s" % words)
        t.contains(shown.messages, reason, "%s" % words)
    r = t.profile(["true"], "--trace=none", env={"WARPSIGHT_PERF": "none"}, output="refused")
    t.contains(t.tool("report", r.report).messages, "no CPU samples.*refused", "report")
    t.contains(
        t.tool("stats", "-r", "sched_sum", r.report).messages,
        "no context switches.*refused",
        "stats",
    )


@test("views")
def info_says_how_long_was_recorded(t):
    """One recording is one collection, though the recorder wrote of its begin and of its end."""
    report = t.profile(["sleep", "0.1"], status=0).report
    said = [x for x in t.tool("info", report).out.splitlines() if x.startswith(b"Time span:")]
    t.eq(len(said), 1, "lines on the time span")
    t.eq(b"collections" in said[0], False, "collections of one recording: %s" % said[0])
