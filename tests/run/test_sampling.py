"""test_sampling.py - CPU samples and context switches: shares of functions, threads and images,
whose processes are recorded, and spans of running.
"""
import os
import shutil
import signal
import subprocess

from harness import Skip, test
from rows import BLOCKED, DEAD, NO_TIME, PREEMPTED, Rows
from sampling import busy, record, near, at_least, check_spans, check_times, check_split


@test("sampling")
def functions_have_their_shares(t):
    rows = record(t, busy(t, "split", 800))
    check_split(t, rows)
    check_spans(t, rows)
    t.eq(rows.lost(), 0, "events lost")
    t.eq({s["event"] for s in rows.samples()}, {1}, "events of samples")
    t.eq(
        [rows.strings[e["name"]] for e in rows.table("perf_event")],
        ["cpu-clock"],
        "events, on machines that count cycles too",
    )
    check_times(t, rows)


@test("sampling")
def functions_have_their_shares_with_frame_pointers(t):
    check_split(
        t, record(t, busy(t, "split", 800, name="busyfp"), "--backtrace=fp"), burn=0.8
    )  # what keeps no frame pointers (libc, the vDSO) hides its caller


@test("sampling")
def dwarf_finds_the_same(t):
    check_split(t, record(t, busy(t, "split", 800), "--backtrace=dwarf"))


@test("sampling")
def a_static_program_is_sampled(t):
    rows = record(t, busy(t, "split", 800, name="busystatic"))
    check_split(t, rows)
    t.eq([rows.strings[p["name"]] for p in rows.table("process")], ["busystatic"], "processes")
    t.contains(
        rows.strings[rows.table("process")[0]["cmdline"]],
        "busystatic split 800$",
        "its command line",
    )
    t.eq(len(rows.table("process_end")), 1, "ends of processes")


@test("sampling")
def inherited_events_find_the_same(t):
    rows = record(t, busy(t, "split", 800), env={"WARPSIGHT_PERF": "inherit"})
    check_split(t, rows)
    check_spans(t, rows)
    t.contains(rows.meta()["perf.scope"], "inherited", "scope")


@test("sampling", ("root",))
def an_ordinary_user_samples_too(t):
    if not shutil.which("setpriv"):
        raise Skip("needs setpriv")
    os.chmod(t.work, 0o777)
    os.chmod(t.tmp, 0o777)
    argv = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--inh-caps=-all",
        t.where.warpsight,
        "profile",
        "-t",
        "none",
        "-o",
        "r",
        *busy(t, "split", 800),
    ]
    r = t.run(argv)
    if r.status in (126, 127):
        raise Skip("an ordinary user may not run the programs of this build")
    t.eq(r.status, 0, "exit status (%s)" % r.said())
    rows = Rows(t.path("r"))
    if rows.meta()["perf.scope"] == "refused":
        raise Skip("perf_event_paranoid forbids it")
    t.contains(rows.meta()["perf.scope"], "inherited|every CPU", "scope")
    check_split(t, rows)
    check_spans(t, rows)


@test("sampling", ("root",))
def a_set_user_id_program_is_followed(t):
    """Its exec makes the kernel take inherited events from it, and say that it has ended."""
    if not shutil.which("setpriv"):
        raise Skip("needs setpriv")
    os.chmod(t.work, 0o777)
    program = os.path.join(t.work, "setuid")
    shutil.copy(t.program("busy"), program)
    os.chmod(program, 0o4755)
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if subprocess.run(as_nobody + [program, "split", "1"]).returncode:
        raise Skip("an ordinary user cannot run what is here")
    rows = record(t, as_nobody + [program, "split", "800"], env={"WARPSIGHT_PERF": "threads"})
    if not rows.meta()["perf.scope"].startswith("every CPU"):
        raise Skip("whole cores may not be watched here")
    check_split(t, rows, process="setuid")
    ran = sum(
        s["end"] - s["start"]
        for s in rows.spans()
        if s["end"] != NO_TIME and rows.process_of(s["thread"]) == "setuid"
    )
    t.ge(ran / 1e9, 0.7, "seconds that its spans last")


@test("sampling")
def callers_below_an_alternate_stack(t):
    """What a signal interrupted and who called that are below a handler on a stack of its own,
    where frame pointers are kept.
    """
    rows = record(t, [t.program("altstack"), "400"])
    stacks = [rows.stack(s) for s in rows.samples()]
    handled = [s for s in stacks if "in_handler" in s]
    at_least(t, len(handled), 200, "samples in the handler")
    whole = [
        s for s in handled if s[s.index("in_handler") :][2:5] == ["interrupted", "outer", "main"]
    ]
    t.ge(
        len(whole),
        0.95 * len(handled),
        "of %d samples in the handler, those with all callers" % len(handled),
    )


# ---- where stacks are hard to follow: programs/hard.c


@test("sampling")
def fewer_backtraces(t):
    rows = record(t, busy(t, "split", 400), "--samples-per-backtrace=4")
    with_stack = sum(1 for s in rows.samples() if s["callers"])
    near(t, with_stack / len(list(rows.samples())), 0.25, 0.02, "samples with callers")
    rows = record(t, busy(t, "split", 200), "--backtrace=none", output="n")
    t.eq(sum(1 for s in rows.samples() if s["callers"]), 0, "samples with callers")
    at_least(t, rows.shares().get("burn", 0), 0.7, "share of burn itself")


@test("sampling")
def frequency_and_period(t):
    n = {}
    for name, options in (
        ("slow", ["--sampling-frequency=200"]),
        ("fast", ["--sampling-frequency", "2000"]),
    ):
        rows = record(t, busy(t, "split", 500), *options, output=name)
        n[name] = len(list(rows.samples()))
        t.eq(rows.table("perf_event")[0]["frequency"], 200 if name == "slow" else 2000, "frequency")
    t.ok(
        6 < n["fast"] / max(n["slow"], 1) < 14,
        "ten times the frequency gives ten times the samples: %s" % n,
    )
    rows = record(t, busy(t, "split", 300), "--sampling-period=2000000", output="p")
    t.eq(
        (rows.table("perf_event")[0]["period"], rows.table("perf_event")[0]["frequency"]),
        (2000000, 0),
        "period and frequency",
    )
    weights = sorted(s["weight"] for s in rows.samples())
    near(t, weights[len(weights) // 2] / 1e6, 2, 0.1, "milliseconds that most samples stand for")
    check_times(t, rows)


# ---- who


@test("sampling")
def every_thread_has_a_row(t):
    for way in ("wide", "threads", "inherit"):
        rows = record(t, busy(t, "threads", 200, 1000), output=way, env={"WARPSIGHT_PERF": way})
        t.eq(len(rows.threads), 201, "threads (%s)" % way)
        t.eq(len({s["thread"] for s in rows.spans()}), 201, "threads that ran (%s)" % way)
        t.eq(
            sum(1 for s in rows.spans() if s["after"] == DEAD),
            201,
            "threads whose end was seen (%s)" % way,
        )
        ran = (
            sum(
                s["end"] - s["start"]
                for s in rows.spans()
                if s["thread"] != 1 and s["end"] != NO_TIME
            )
            / 1e9
        )
        t.ge(ran, 0.2, "seconds that threads of 1 ms ran (%s)" % way)
        check_times(t, rows, way)
        check_spans(t, rows)


@test("sampling")
def brief_threads_and_processes_have_their_shares(t):
    """Events that each inherits begin anew with it: these would be seen three times as often as
    they should, or never.

    The recorder changes over once it has seen some threads end. That it has done so by the middle
    of the run is all that is asked of its haste: samples of the second half count.
    """
    rows = record(t, busy(t, "brief", 600), env={"WARPSIGHT_PERF": "threads"})
    if not rows.meta()["perf.scope"].startswith("every CPU"):
        raise Skip("whole cores may not be watched here")
    begin, end = (f(s["start"] for s in rows.samples()) for f in (min, max))
    stacks = [rows.stack(s) for s in rows.samples() if s["start"] > (begin + end) // 2]
    count = {name: sum(1 for s in stacks if name in s) for name in ("parent", "child", "thread")}
    at_least(t, sum(count.values()), 300, "samples of the three in the second half: %s" % count)
    for name, n in count.items():
        near(t, n / sum(count.values()), 1 / 3, 0.08, "share of %s among the three" % name)


@test("sampling")
def brief_threads_of_their_own_events_are_said(t):
    rows = record(t, busy(t, "brief", 40), env={"WARPSIGHT_PERF": "inherit"})
    t.ok(
        any("less than 50 ms" in d for d in rows.diagnostics()), "a diagnostic about short threads"
    )


@test("sampling")
def threads_behind_the_c_library(t):
    """Threads that no hook has seen."""
    rows = record(t, busy(t, "raw", 20, 5000))
    t.eq(len(rows.threads), 21, "threads")
    t.ge(
        len({s["thread"] for s in rows.samples() if s["thread"] != 1}),
        15,
        "raw threads that were sampled",
    )
    check_spans(t, rows)


@test("sampling")
def five_thousand_threads(t):
    rows = record(t, busy(t, "together", 5000, 50), "--sampling-frequency=200", timeout=100)
    t.eq((len(rows.threads), len(rows.processes)), (5001, 1), "threads and processes")
    t.eq(rows.lost(), 0, "events lost")
    check_spans(t, rows)


@test("sampling")
def names_come_from_the_kernel(t):
    rows = record(t, busy(t, "named"))
    names = rows.thread_names()
    t.eq(sorted(n[-1] for n in names.values()), ["busy", "quietly-named"], "names")


@test("sampling")
def images_of_an_exec_are_told_apart(t):
    for name in ("busy", "busystatic"):
        for way in ("wide", "threads", "inherit"):
            rows = record(
                t,
                busy(t, "execs", 3, 60, name=name),
                output=name + way,
                env={"WARPSIGHT_PERF": way},
            )
            t.eq(len(rows.processes), 4, "images (%s, %s)" % (name, way))
            of = {}
            for s in rows.samples():
                of.setdefault(rows.threads[s["thread"]]["process"], []).append(s["start"])
            t.eq(sorted(of), [1, 2, 3, 4], "images with samples (%s, %s)" % (name, way))
            t.ok(
                all(max(of[i]) < min(of[i + 1]) for i in (1, 2, 3)),
                "each image's samples come after the last one's",
            )
            t.eq(
                [rows.processes[i]["parent"] for i in (2, 3, 4)],
                [1, 2, 3],
                "parents (%s, %s)" % (name, way),
            )
            check_spans(t, rows)


@test("sampling")
def images_end_where_the_next_begins(t):
    """Of images in one process, with hooks or without, each is over when the next begins, by its
    exec; the last ends by itself.
    """
    static = t.program("busystatic")
    chains = {
        "hooked": busy(t, "execs", 5, 2),
        "static": busy(t, "execs", 3, 1, name="busystatic"),
        "threads": busy(t, "threadexecs", 2, 5),
        "mixed": ["sh", "-c", "exec env nice env %s execs 2 0" % static],
        "at once": ["sh", "-c", "exec env sh -c 'exec env true'"],
    }
    for name, argv in chains.items():
        for way in ("wide", "inherit", "none"):
            rows = Rows(
                t.profile(
                    argv, "--trace=osrt", output="r" + way, env={"WARPSIGHT_PERF": way}
                ).report
            )
            ends = {e["process"]: e for e in rows.table("process_end")}
            images = sorted(rows.table("process"), key=lambda p: p["start"])
            what = "%s (%s)" % (name, way)
            t.eq(len({p["pid"] for p in images}), 1, "processes of " + what)
            t.eq(
                [ends[p["id"]]["reason"] for p in images],
                [2] * (len(images) - 1) + [1],
                "why images ended, of " + what,
            )
            for a, b in zip(images, images[1:]):
                t.ok(
                    a["start"] <= ends[a["id"]]["end"] <= b["start"],
                    "%s: an image is over before the next begins" % what,
                )
            t.ok(ends[images[-1]["id"]]["end"] >= images[-1]["start"], "the last end of " + what)


@test("sampling")
def a_thread_that_execs_leaves_no_thread_behind(t):
    for name in ("busy", "busystatic"):
        for way in ("wide", "inherit"):
            rows = record(
                t,
                busy(t, "threadexecs", 2, 30, name=name),
                output=name + way,
                env={"WARPSIGHT_PERF": way},
            )
            threads = {}
            for thread in rows.threads.values():
                threads[thread["process"]] = threads.get(thread["process"], 0) + 1
            t.eq(
                sorted(threads.values()), [1, 3, 3], "threads of the images (%s, %s)" % (name, way)
            )
            check_spans(t, rows)


@test("sampling")
def forked_children_are_followed(t):
    for name in ("busy", "busystatic"):
        rows = record(t, busy(t, "forks", 10, 20, name=name), output=name)
        t.eq(len(rows.processes), 11, "processes (%s)" % name)
        t.eq(
            len({rows.threads[s["thread"]]["process"] for s in rows.samples()} - {1}),
            10,
            "children with samples (%s)" % name,
        )
        t.eq(
            {p["parent"] for p in rows.processes.values() if p["id"] != 1},
            {1},
            "parents (%s)" % name,
        )
        t.eq(len(rows.table("process_end")), 11, "ends (%s)" % name)


@test("sampling")
def hooks_and_perf_agree_on_threads(t):
    """Threads that both know have one row."""
    r = t.profile([t.program("calls"), "sleep", "5"], "--trace=osrt")
    if r.status == 2:
        r = t.profile([t.program("tree"), "threads"], "--trace=osrt", output="o")
    rows = Rows(r.report)
    tids = [(x["process"], x["tid"]) for x in rows.threads.values()]
    t.eq(len(tids), len(set(tids)), "no thread has two rows")


@test("sampling", ("root",))
def system_wide_sees_others(t):
    other = t.start(busy(t, "split", 600000, name="busyfp"))
    try:
        r = t.profile(busy(t, "split", 500), "--trace=none", "--sample=system-wide", orphans=True)
    finally:
        other.kill()
        other.wait()
    rows = Rows(r.report)
    if "every CPU" not in rows.meta()["perf.scope"]:
        raise Skip("only the program's own threads may be watched here")
    t.eq(
        {p["origin"] for p in rows.processes.values() if rows.strings[p["name"]] == "busyfp"},
        {4},
        "origin of the other process",
    )
    at_least(t, sum(1 for _ in rows.samples("busyfp")), 50, "samples of the other process")
    shares = rows.shares(process="busyfp")
    near(
        t,
        shares.get("three_quarters", 0) + shares.get("one_quarter", 0),
        1,
        0.06,
        "its functions are named",
    )
    at_least(t, sum(1 for _ in rows.samples("busy")), 100, "samples of the target")
    alone = Rows(t.profile(busy(t, "split", 100), "--trace=none", output="alone").report)
    t.eq(
        {alone.strings[p["name"]] for p in alone.processes.values()},
        {"busy"},
        "processes with --sample=process-tree",
    )


@test("sampling")
def a_process_tree_holds_no_other_programs(t):
    """Whole cores are watched, and others run, fork, execute and end all the time beside the
    target: nothing of them is in the report.
    """
    script = "while :; do %s forks 3 10; %s threads 20 500; %s execs 2 10; done" % (
        (t.program("busyfp"),) * 3
    )
    other = t.start(["sh", "-c", script], start_new_session=True)
    try:
        rows = record(t, busy(t, "forks", 5, 80), "--ftrace=sched/sched_process_fork", orphans=True)
    finally:
        os.killpg(other.pid, signal.SIGKILL)
        other.wait()
    t.eq({rows.strings[p["name"]] for p in rows.processes.values()}, {"busy"}, "processes")
    t.eq(len(rows.processes), 6, "processes of the target")
    known = set(rows.threads)
    t.eq(
        {s["thread"] for s in rows.samples()} - known,
        set(),
        "threads of samples that are not the target's",
    )
    t.eq(
        {s["thread"] for s in rows.spans()} - known,
        set(),
        "threads of spans that are not the target's",
    )
    t.eq(
        [f for s in rows.samples() for f in rows.stack(s) if "/busyfp]" in f], [], "code of others"
    )
    near(t, sum(s["time"] for s in rows.samples(rest=True)) / 1e9, 0.4, 0.1, "seconds of CPU time")


# ---- context switches


@test("sampling")
def sleeps_are_spans_that_end_blocked(t):
    rows = record(t, busy(t, "sleeps", 50))
    t.ge(sum(1 for s in rows.spans() if s["after"] == BLOCKED), 50, "spans that ended in a wait")
    check_spans(t, rows)


@test("sampling")
def running_time_is_the_sum_of_spans(t):
    rows = record(t, busy(t, "split", 400), "--sample=none")
    t.eq(len(rows.table("sample")), 0, "samples")
    ran = sum(s["end"] - s["start"] for s in rows.spans())
    t.ge(ran, 0.4e9 * 0.97, "nanoseconds on a core")
    for s in rows.spans():
        if s["woken"] != NO_TIME:
            t.ok(s["woken"] <= s["start"], "woken before it ran")


@test("sampling")
def ping_pong_switches(t):
    rows = record(t, busy(t, "pingpong", 500))
    by_thread = {}
    for s in rows.spans():
        by_thread[s["thread"]] = by_thread.get(s["thread"], 0) + 1
    t.eq(len(by_thread), 2, "threads that ran")
    t.ge(min(by_thread.values()), 100, "spans of each")
    t.ge(
        sum(1 for s in rows.spans() if s["after"] in (BLOCKED, PREEMPTED)),
        400,
        "spans with a reason for their end",
    )
    check_spans(t, rows)


@test("sampling")
def what_sample_and_cpuctxsw_decide(t):
    argv = busy(t, "split", 50)
    for options, samples, spans in (
        (["-s", "none"], False, True),
        (["-s", "none", "--cpuctxsw=none"], False, False),
        (["-s", "cpu"], True, True),
        (["--sample=process-tree", "--cpuctxsw=none"], True, True),
    ):
        rows = record(t, argv, *options, output="-".join(options).replace("=", ""))
        t.eq(
            (bool(rows.table("sample")), bool(rows.table("sched"))),
            (samples, spans),
            "samples and spans with %s" % options,
        )
        t.eq(
            "--cpuctxsw=none does not count" in rows.messages,
            len(options) == 2 and options[1] == "--cpuctxsw=none" and options[0] != "-s",
            "said with %s: %s" % (options, rows.messages),
        )


@test("sampling")
def a_window_holds_what_lies_in_it(t):
    for way in ("wide", "inherit"):
        rows = record(
            t,
            busy(t, "split", 1200),
            "--delay=0.3",
            "--duration=0.4",
            "--kill=none",
            output=way,
            env={"WARPSIGHT_PERF": way},
        )
        window = rows.table("collection")[-1]
        at_least(t, len(rows.table("sample")), 20, "samples (%s)" % way)
        for kind in ("sample", "sched"):
            for row in rows.table(kind):
                t.ok(
                    window["start"] <= row["start"] <= window["end"],
                    "a %s lies in the window (%s)" % (kind, way),
                )
                t.ok(
                    row.get("end", 0) in (NO_TIME,) or row.get("end", 0) <= window["end"],
                    "a %s ends in the window (%s)" % (kind, way),
                )
        near(t, rows.shares().get("main", 0), 1, 0.03, "share of main (%s)" % way)


# ---- events


@test("sampling")
def events_have_lists(t):
    for option, word in (("--cpu-core-events", "instructions"), ("--os-events", "page-faults")):
        r = t.tool("profile", option + "=help")
        t.eq(r.status, 0, "status of %s=help" % option)
        t.contains(r.out.decode(), word, option)
        r = t.tool("profile", option + "=nonsense", "true")
        t.eq(r.status, 2, "status of an event that is none")
        t.contains(r.messages, "'nonsense' is no event.*" + option + "=help", "message")
    for bad in (
        "--sampling-frequency=0",
        "--sampling-frequency=1000000",
        "--sampling-period=5",
        "--sampling-period=0",
        "--sampling-period=20000 --sampling-frequency=100",
        "--event-sampling-interval=5",
        "--event-sample=system-wide --event-sampling-interval=0",
        "--strict --sampling-trigger=timer",
        "--samples-per-backtrace=0",
        "--backtrace=magic",
        "--os-events=",
        "--sample=none --os-events=page-faults",
    ):
        r = t.tool("profile", *bad.split(), "true")
        t.eq(r.status, 2, "status of %s (%s)" % (bad, r.said()))


@test("sampling")
def metrics_of_cores(t):
    r = t.tool("profile", "--cpu-core-metrics=help")
    t.eq(r.status, 0, "status of help")
    listed = r.out.decode()
    t.contains(listed, "ipc .*llc-mpki ", "metrics")
    for bad, why in (("nonsense", "'nonsense' is no metric.*=help lists"), ("", "no metric is")):
        r = t.tool("profile", "--cpu-core-metrics=" + bad, "true")
        t.eq(r.status, 2, "status of a metric that is none")
        t.contains(r.messages, why, "message")
    lacks = (
        "ipc cannot be computed: this machine does not count"
        in t.tool(
            "profile", "-q", "-f", "true", "-o", "m.wsrep", "--cpu-core-metrics=ipc", "true"
        ).said()
    )
    line = [line for line in listed.splitlines() if line.split()[:1] == ["ipc"]][0]
    t.eq(lacks, "this machine does not count" in line, "ipc is refused where help says so")
