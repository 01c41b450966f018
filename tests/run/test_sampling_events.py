"""test_sampling_events.py - what paces samples (the clock, cycles, signals), the time that they
stand for, limits of the kernel, and other events: of the processor, page faults, tracepoints.
"""
import os
import signal
import subprocess
import sys
import time

from harness import Imprecise, Skip, descendants_of, test, wait_until
from rows import CLOCK, NO_TIME, SIGNAL, Rows
from sampling import busy, record, near, at_least, check_spans, check_times, check_split

ENOSYS, EPERM = 38, 1


def with_cycles(t, argv, *options, output="r", pacer="cycles"):
    """A recording on a machine that counts cycles, or is made to look like one:
    programs/fakecycles.c. Cycles pace the samples, or the clock.
    """
    fake = os.path.join(os.path.dirname(t.program("busy")), "libfakecycles.so")
    if not os.path.exists(fake):
        raise Skip("libfakecycles.so was not built")
    r = t.run(
        [
            "env",
            "LD_PRELOAD=" + fake,
            "WARPSIGHT_PERF_PACER=" + pacer,
            *t.profile_argv(argv, ["--trace=none", *options], output=output),
        ]
    )
    t.eq(r.status, 0, "exit status (%s)" % r.said())
    rows = Rows(t.path(output))
    if rows.meta().get("perf.scope") == "refused":
        raise Skip("perf events are not permitted here")
    return rows


def reported(t, name, *options):
    """Rows of report, by function."""
    lines = t.tool("report", "-q", "-f", "csv", *options, t.path(name)).out.decode().splitlines()
    names = [n.split(" (")[0] for n in lines[0].split(",")]
    return {r["Function"]: r for r in (dict(zip(names, line.split(","))) for line in lines[1:])}


@test("sampling")
def cycles_pace_samples_where_they_are_counted(t):
    rows = with_cycles(t, busy(t, "split", 800))
    check_split(t, rows)
    check_spans(t, rows)
    t.eq(
        [
            (e["type"], e["config"], e["frequency"], rows.strings[e["name"]])
            for e in rows.table("perf_event")
        ],
        [(0, 0, 1000, "cpu-cycles")],
        "events",
    )
    t.eq({s["flags"] & CLOCK for s in rows.samples()}, {0}, "their weights are not time")
    shown = reported(t, "r")
    near(t, float(shown["three_quarters"]["Total Time"]), 600, 60, "milliseconds in three_quarters")
    near(t, float(shown["three_quarters"]["Total"]), 75, 3, "its share of the time")
    near(
        t,
        float(reported(t, "r", "--event=cpu-cycles")["three_quarters"]["Total"]),
        75,
        3,
        "its share of the cycles",
    )
    check_times(t, rows)


@test("sampling")
def a_period_counts_cycles(t):
    rows = with_cycles(t, busy(t, "split", 400), "--sampling-period=2000000")
    t.eq(
        [(e["period"], rows.strings[e["name"]]) for e in rows.table("perf_event")],
        [(2000000, "cpu-cycles")],
        "events",
    )
    t.eq({s["weight"] for s in rows.samples()}, {2000000}, "cycles that a sample stands for")
    near(t, len(list(rows.samples())), 200, 30, "samples of 0.4 s, each of 2 ms")
    shown = reported(t, "r")
    near(t, float(shown["three_quarters"]["Total"]), 75, 6, "share of three_quarters")
    near(t, float(shown["three_quarters"]["Total Time"]), 300, 40, "milliseconds in it")
    t.eq(
        reported(t, "r", "--event=cpu-cycles")["three_quarters"]["Total Time"],
        "",
        "cycles that are asked for are no time",
    )
    check_times(t, rows)


@test("sampling")
def cycles_come_beside_the_clock(t):
    """Where they are asked for they are an event of their own, and time is the clock's."""
    rows = with_cycles(t, busy(t, "split", 400), "--cpu-core-events=cpu-cycles", pacer="")
    t.eq(
        [rows.strings[e["name"]] for e in rows.table("perf_event")],
        ["cpu-clock", "cpu-cycles"],
        "events",
    )
    t.eq(
        {bool(s["flags"] & CLOCK) for s in rows.samples() if s["event"] == 2},
        {False},
        "cycles are no nanoseconds",
    )
    t.eq(
        {s["time"] for s in rows.samples() if s["event"] == 2},
        {0},
        "nor time, which the clock tells",
    )
    check_times(t, rows)


@test("times")
def time_is_what_threads_ran(t):
    """At every way of sampling, of threads and children, brief ones too; what paces the samples may
    be a clock or a counter.
    """
    cases = (
        busy(t, "split", 150),
        busy(t, "together", 2, 100000),
        busy(t, "together", 50, 8000),
        busy(t, "forks", 10, 3),
    )
    for way in ("wide", "threads", "inherit"):
        for frequency in (1000,) if way == "threads" else (100, 1000, 5000):
            for n, argv in enumerate(cases):
                rows = record(
                    t,
                    argv,
                    "--sampling-frequency=%d" % frequency,
                    output="r%s%d%d" % (way, frequency, n),
                    env={"WARPSIGHT_PERF": way},
                )
                check_times(t, rows, "%s, %d Hz, %s:" % (way, frequency, argv[1:]))
    for n, argv in enumerate(cases):
        check_times(t, with_cycles(t, argv, output="c%d" % n), "cycles, %s:" % argv[1:])


BURN = """
import sys, threading, time
def burn(ms):
    end = time.thread_time() + ms / 1e3
    while time.thread_time() < end:
        sum(range(50))
threads = [threading.Thread(target=burn, args=(float(sys.argv[2]),)) for i in range(int(sys.argv[1]))]
[t.start() for t in threads]
[t.join() for t in threads]
"""


@test("times")
def time_of_python_is_what_threads_ran(t):
    """Its samples by the program in the kernel, or by signals to its threads, whose clocks are
    their own.
    """
    for python in ("kernel", "signals"):
        for frequency in (100, 1000, 5000):
            for n, ms in ((1, 150), (2, 100), (50, 6)):
                env = {"WARPSIGHT_PYTHON": "signals"} if python == "signals" else {}
                rows = record(
                    t,
                    [sys.executable, "-S", "-c", BURN, str(n), str(ms)],
                    "--sampling-frequency=%d" % frequency,
                    env=env,
                    output="p%s%d-%d" % (python, frequency, n),
                )
                check_times(t, rows, "Python by %s, %d Hz, %d threads:" % (python, frequency, n))


def way_of_python(t, *options):
    """What the report says of how Python's frames are read."""
    rows = record(t, [sys.executable, "-S", "-c", BURN, "1", "20"], "-f", *options)
    return [d for d in rows.diagnostics() if "frames are" in d]


@test("sampling")
def python_is_read_the_same_way_at_any_frequency(t):
    """Fewer samples do not make it one by signals, which costs more."""
    way = way_of_python(t)
    for option in ("--sampling-frequency=150", "--sampling-frequency=1500"):
        t.eq(way_of_python(t, option), way, option)
    t.eq(way_of_python(t, "--sampling-period=5000000"), way, "200 Hz")


HAND_AROUND = """
import queue, threading
q = queue.Queue(1)
def put():
    for i in range(4000): q.put(i)
def get():
    for i in range(4000): q.get()
threads = [threading.Thread(target=f) for f in (put, get) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
"""


@test("sampling")
def switching_threads_of_python_have_no_events(t):
    """An event for each thread, which sends it the signal for a sample, costs time at each switch:
    where threads switch all the time their stacks are read from outside.
    """
    rows = record(
        t,
        [sys.executable, "-S", "-c", HAND_AROUND],
        "-f",
        env={"WARPSIGHT_PYTHON": "signals"},
    )
    if not any("Threads switch so often that an event" in d for d in rows.diagnostics()):
        raise Imprecise("it is not said that the events were closed: %s" % rows.diagnostics())
    outside = t.load("r.wsrep").one("SELECT count(*) FROM WARPSIGHT_PYTHON_SAMPLE")
    t.ge(outside, 3, "stacks read from outside")


@test("sampling")
def time_by_signals_is_what_threads_used(t):
    """There are no context switches to compare with: what the program says that it has burnt is
    less than what it used.
    """
    rows = record(t, busy(t, "together", 10, 40000), env={"WARPSIGHT_PERF": "none"})
    of = {}
    for s in rows.samples(rest=True):
        of[s["thread"]] = of.get(s["thread"], 0) + s["time"]
    t.eq(len(of), 11, "threads with time")
    for ns in sorted(of.values())[1:]:  # but for the one that started them
        near(t, ns / 1e6, 40, 4, "milliseconds of a thread")


def limited(t, to, during, *options):
    """A recording while the kernel's limit of samples a second is `to`, from the start or from a
    moment `during` the run on. The limit is the machine's, and takes samples from every recording
    that runs beside: the tests of this suite run alone.
    """
    path = "/proc/sys/kernel/perf_event_max_sample_rate"
    with open(path) as f:
        before = f.read()

    def limit(text):
        try:
            with open(path, "w") as f:
                f.write(text)
        except OSError as e:
            raise Skip("the limit cannot be set: %s" % e)

    if int(before) < 2000:
        raise Skip("the kernel's limit is %s already" % before.strip())
    try:
        if not during:
            limit(to)
        p = t.start(
            t.profile_argv(busy(t, "together", 4, 300000), ["--trace=none", *options], output="r"),
            stderr=subprocess.PIPE,
        )
        if during:
            time.sleep(0.4)
            limit(to)
        said = p.communicate()[1].decode()
    finally:
        limit(before)
    t.eq(p.returncode, 0, "exit status (%s)" % said)
    return Rows(t.path("r")), said


@test("limit", ("root",))
def a_lower_limit_is_said_and_costs_no_time(t):
    for during in (False, True):
        rows, said = limited(t, "500", during, "--force-overwrite=true")
        if rows.meta().get("perf.scope") == "refused":
            raise Skip("perf events are not permitted here")
        check_times(t, rows, "limited %s:" % ("during the run" if during else "before"))
        t.contains(
            said,
            (
                "lowered its limit during the run, from .* to 500"
                if during
                else "allows 500 samples a second.*not 1000"
            ),
            "what is said",
        )
        t.contains(said, "Times are right", "what that means")


@test("sampling")
def events_of_the_processor(t):
    rows = with_cycles(
        t, busy(t, "split", 300), "--cpu-core-events=instructions,3", "--sampling-period=3000000"
    )
    t.eq(
        [rows.strings[e["name"]] for e in rows.table("perf_event")],
        ["cpu-cycles", "instructions", "cache-misses"],
        "events",
    )
    of = {e: sum(1 for s in rows.samples() if s["event"] == e) for e in (1, 2, 3)}
    for e, n in of.items():
        near(t, n, 100, 25, "samples of event %d" % e)
    near(
        t,
        float(reported(t, "r", "--event=instructions")["three_quarters"]["Total"]),
        75,
        9,
        "share of the instructions",
    )
    usual = sum(int(r["Samples"]) for r in reported(t, "r").values())
    t.eq(usual, of[1], "samples that count unless an event is named")
    rows = with_cycles(
        t,
        busy(t, "split", 300),
        "--event-sample=system-wide",
        "--event-sampling-interval=50",
        "--system-metrics=none",
        output="c",
    )
    if any("cannot be counted" in d for d in rows.diagnostics()):
        raise Skip("whole CPUs may not be watched here")
    t.eq({rows.strings[c["name"]] for c in rows.table("counter")}, {"instructions"}, "counters")
    times = sorted(v["start"] for v in rows.table("counter_value") if v["counter"] == 1)
    t.ok(all(b - a >= 50e6 for a, b in zip(times, times[1:])), "readings are 50 ms apart at least")


@test("sampling")
def page_faults_are_sampled(t):
    rows = record(
        t,
        busy(t, "touch", 20000),
        "--os-events=page-faults",
        "--sampling-period=100000",
        output="none",
    )
    t.eq(len(rows.table("perf_event")), 2, "events")
    rows = record(t, busy(t, "touch", 20000), "--os-events=page-faults")
    number = next(
        e["id"] for e in rows.table("perf_event") if rows.strings[e["name"]] == "page-faults"
    )
    faults = [s for s in rows.samples() if s["event"] == number]
    at_least(t, sum(s["weight"] for s in faults), 10000, "page faults that samples stand for")
    t.eq({s["flags"] & CLOCK for s in faults}, {0}, "they are not time")


@test("sampling", ("root",))
def events_are_counted(t):
    r = t.profile(
        busy(t, "pingpong", 20000),
        "--trace=none",
        "--event-sample=system-wide",
        "--os-events=context-switches,page-faults",
        "--system-metrics=none",
    )
    rows = Rows(r.report)
    if any("cannot be counted" in d for d in rows.diagnostics()):
        raise Skip("whole CPUs may not be watched here")
    counters = {c["id"]: rows.strings[c["name"]] for c in rows.table("counter")}
    t.eq(sorted(set(counters.values())), ["context-switches", "page-faults"], "counters")
    t.eq(len(counters), 2 * os.cpu_count(), "one a core")
    import struct

    rates = [
        (
            struct.unpack("<d", struct.pack("<Q", v["value"]))[0]
            if isinstance(v["value"], int)
            else v["value"]
        )
        for v in rows.table("counter_value")
        if counters[v["counter"]] == "context-switches"
    ]
    t.ge(max(rates, default=0), 1000, "context switches a second, at most")
    t.ok(len(rows.table("perf_event")) == 1, "they are not sampled")


@test("sampling")
def wake_ups_that_cannot_be_traced_are_said(t):
    rows = record(t, busy(t, "pingpong", 50), env={"WARPSIGHT_PERF": "inherit"})
    said = [d for d in rows.diagnostics() if "Wake-ups are not traced" in d]
    t.eq(len(said), 1, "diagnostics about wake-ups: %s" % rows.diagnostics())
    t.contains(said[0], "whole.*'runnable'.*not known", "the reason, and what is lost")


@test("sampling")
def samples_on_cores_are_said(t):
    """Where all is observed on whole cores, threads inherit no event."""
    rows = record(t, busy(t, "split", 50), env={"WARPSIGHT_PERF": "wide"})
    if not rows.meta()["perf.scope"].startswith("every CPU"):
        raise Skip("whole cores may not be watched here")
    t.eq(rows.meta()["perf.scope"], "every CPU", "scope")
    rows = record(t, busy(t, "split", 50), output="own", env={"WARPSIGHT_PERF": "threads"})
    t.contains(rows.meta()["perf.scope"], "inherited", "scope of samples by thread")


@test("sampling")
def samples_of_crowded_cores_are_sparse(t):
    """They stand for four periods each. Where threads have the clock as an event of their own, that
    of the core takes over meanwhile.
    """
    for way in ("wide", "threads"):
        rows = record(t, busy(t, "pingpong", 60000), output=way, env={"WARPSIGHT_PERF": way})
        if not rows.meta()["perf.scope"].startswith("every CPU"):
            raise Skip("whole cores may not be watched here")
        if not any("only one of 4 samples was taken" in d for d in rows.diagnostics()):
            raise Imprecise("%s: no core was crowded: %s" % (way, rows.diagnostics()))
        samples = sorted(rows.samples(), key=lambda s: s["start"])
        if not any(s["time"] > 3500000 for s in samples):
            raise Imprecise("%s: no sample stands for four periods" % way)
        took = samples[-1]["start"] - samples[0]["start"] + 4000000
        t.ge(2 * took, sum(s["time"] for s in samples), "time of two threads, " + way)


@test("sampling", ("root",))
def tracepoints_need_no_mount(t):
    """Where tracefs stands at no path, the recorder mounts it for itself, and nothing of that is
    left.
    """
    names = t.run([t.where.warpsight, "profile", "--ftrace=help"])
    if names.status:
        t.contains(names.messages, "tracefs|tracepoints", "why there is no list")
        raise Skip("tracepoints cannot be read here: %s" % names.messages)
    t.ok(b"sched/sched_switch\n" in names.out, "a tracepoint of the list")
    before = open("/proc/self/mountinfo").read()
    rows = record(t, busy(t, "threads", 5, 100), "--ftrace=sched/sched_process_fork")
    if "every CPU" not in rows.meta()["perf.scope"]:
        raise Skip("whole CPUs may not be watched here")
    t.eq(sum(1 for e in rows.table("ftrace") if e["thread"]), 5, "forks")
    t.ok(
        not any("Wake-ups" in d for d in rows.diagnostics()),
        "wake-ups are traced: %s" % rows.diagnostics(),
    )
    t.eq(open("/proc/self/mountinfo").read(), before, "what is mounted")


def with_tracefs(t, *words):
    """Run words in a mount namespace that has tracefs."""
    return t.run(
        [
            "unshare",
            "-m",
            "sh",
            "-c",
            (
                "mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null; test -e"
                ' /sys/kernel/tracing/events/sched || exit 77; exec "$@"'
            ),
            "sh",
            *words,
        ]
    )


@test("sampling", ("root", "mounts"))
def wake_ups_tell_who_and_when(t):
    r = with_tracefs(t, *t.profile_argv(busy(t, "pingpong", 500), ["--trace=none"]))
    if r.status == 77:
        raise Skip("tracefs cannot be mounted")
    t.eq(r.status, 0, "status (%s)" % r.said())
    rows = Rows(t.path("r"))
    woken = [s for s in rows.spans() if s["woken"] != NO_TIME and s["waker"]]
    t.ge(
        len(woken), 300, "spans with a waker"
    )  # of one thread alone, where the kernel lets whoever is woken run at once
    t.ok({(s["thread"], s["waker"]) for s in woken} <= {(1, 2), (2, 1)}, "the two wake each other")
    for s in rows.spans():
        t.ok(s["woken"] == NO_TIME or s["woken"] <= s["start"], "woken before it ran")


@test("sampling", ("root", "mounts"))
def tracepoints_are_recorded(t):
    r = with_tracefs(
        t,
        *t.profile_argv(
            busy(t, "threads", 5, 100),
            [
                "--trace=none",
                "--ftrace=sched/sched_process_exit,sched:sched_process_fork,nothing/here",
            ],
        ),
    )
    if r.status == 77:
        raise Skip("tracefs cannot be mounted")
    t.eq(r.status, 0, "status (%s)" % r.said())
    t.contains(r.messages, "nothing/here", "the one that does not exist is named")
    rows = Rows(t.path("r"))
    ours = [e for e in rows.table("ftrace") if e["thread"]]
    t.eq(sum(1 for e in ours if rows.strings[e["name"]] == "sched/sched_process_fork"), 5, "forks")
    t.ge(sum(1 for e in ours if rows.strings[e["name"]] == "sched/sched_process_exit"), 5, "exits")
    t.contains(rows.strings[ours[0]["text"]], r"comm=busy .*pid=\d+", "fields")


# ---- without perf, and after a kill


def check_signals(t, rows, seconds):
    t.eq(rows.meta()["perf.scope"], "refused", "scope")
    t.ok(
        all(s["flags"] & SIGNAL and s["flags"] & CLOCK for s in rows.samples()),
        "all samples are by signal",
    )
    t.eq([rows.strings[e["name"]] for e in rows.table("perf_event")], ["timer-signal"], "events")
    t.ok(
        any("timer signal" in d and "perf_event_paranoid" in d for d in rows.diagnostics()),
        "it is said: %s" % rows.diagnostics(),
    )
    near(
        t,
        sum(s["weight"] for s in rows.samples()) / 1e9,
        seconds,
        0.3 * seconds,
        "seconds of CPU time that samples stand for",
    )


NO_PERF = {"WARPSIGHT_PERF": "none"}


@test("sampling")
def without_perf_signals_take_samples(t):
    rows = record(t, busy(t, "split", 1600), env=NO_PERF)
    check_signals(t, rows, 1.6)
    shares = rows.shares()
    near(t, shares.get("three_quarters", 0), 0.75, 0.06, "share of three_quarters")
    at_least(t, shares.get("main", 0), 0.95, "share of main")
    t.eq(len(rows.table("sched")), 0, "spans")


@test("sampling")
def a_filter_that_refuses_perf_is_said(t):
    for number in (EPERM, ENOSYS):
        r = t.run(
            busy(
                t,
                "deny",
                number,
                *t.profile_argv(busy(t, "split", 800), ["--trace=none"], output="r%d" % number),
            )
        )
        if r.status == 77:
            raise Skip("no seccomp filter can be set")
        t.eq(r.status, 0, "status (%s)" % r.said())
        check_signals(t, Rows(t.path("r%d" % number)), 0.8)
        t.contains(r.messages, "perf events are refused.*" + os.strerror(number), "message")
        doctor = t.run(busy(t, "deny", number, t.where.warpsight, "doctor"))
        t.contains(
            " ".join(doctor.out.decode().split()), "perf events are refused.*timer signal", "doctor"
        )


@test("sampling")
def signals_reach_every_thread(t):
    rows = record(t, busy(t, "together", 8, 150000), env=NO_PERF)
    check_signals(t, rows, 1.2)
    main = rows.processes[1]["pid"]
    t.eq(
        sum(1 for i in {s["thread"] for s in rows.samples()} if rows.threads[i]["tid"] != main),
        8,
        "threads with samples",
    )
    for name, images in (("forks", 5), ("execs", 5)):
        rows = record(t, busy(t, name, 4, 60), output=name, env=NO_PERF)
        t.ge(
            len({rows.threads[s["thread"]]["process"] for s in rows.samples()}),
            images - (name == "forks"),
            "images with samples (%s)" % name,
        )


@test("sampling")
def the_program_keeps_its_signals(t):
    record(t, busy(t, "signals", 300), env=NO_PERF)
    record(t, busy(t, "urgent", 300), output="u", env=NO_PERF)
    record(t, busy(t, "threads", 2000, 0), output="many", env=NO_PERF)  # timers are given back


@test("sampling")
def the_program_waits_for_signals_of_its_own(t):
    """One that blocks all signals and takes them by sigwait, or looks at those that are pending, is
    not shown the sampler's.
    """
    t.same(busy(t, "waited", 50), "--trace=none", env={"WARPSIGHT_PERF": "none"})


@test("sampling")
def without_samples_perf_is_not_missed(t):
    r = t.profile(
        busy(t, "split", 50), "--trace=none", "--sample=none", "--cpuctxsw=none", env=NO_PERF
    )
    t.eq(r.messages.count("perf"), 0, "nothing is said of perf: %s" % r.messages)
    r = t.profile(busy(t, "split", 50), "--trace=none", "--sample=none", output="c", env=NO_PERF)
    t.contains(r.messages, "context switches are not recorded", "what is missing is said")


@test("sampling")
def a_killed_recorder_leaves_samples(t):
    p = t.start(t.profile_argv(busy(t, "split", 600000), ["--trace=none"]))
    pid = wait_until(lambda: [c for c in descendants_of(p.pid) if cpu_seconds(c) > 0.5], 60)
    t.ok(pid, "the program burns")
    time.sleep(0.3)
    p.send_signal(signal.SIGKILL)
    p.wait()
    t.end_processes()
    out = t.path("whole")
    r = t.tool("recover", "-o", out, t.path("r"))
    t.eq(r.status, 0, "recover (%s)" % r.said())
    rows = Rows(out)
    if rows.meta().get("perf.scope") == "refused":
        raise Skip("perf events are not permitted here")
    at_least(t, len(rows.table("sample")), 20, "samples")
    t.ge(len(rows.table("stack")), 2, "stacks")


def cpu_seconds(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return sum(map(int, f.read().rpartition(")")[2].split()[11:13])) / os.sysconf(
                "SC_CLK_TCK"
            )
    except OSError:
        return 0
