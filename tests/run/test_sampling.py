"""test_sampling.py - CPU samples and context switches: what perf's records become, in each way of
getting them.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import golden
from harness import Imprecise, Skip, descendants_of, test, wait_until
from rows import (
    BLOCKED,
    BROKEN,
    CLOCK,
    DEAD,
    KERNEL,
    NO_TIME,
    PREEMPTED,
    REST,
    SIGNAL,
    TRUNCATED,
    Rows,
)

ENOSYS, EPERM = 38, 1


def busy(t, *args, name="busy"):
    return [t.program(name), *map(str, args)]


def record(t, argv, *options, **kw):
    """Rows of a recording of `argv`; skips the test where perf is not permitted."""
    r = t.same(argv, "--trace=none", *options, **kw)
    t.eq(r.status, 0, "exit status")
    t.verify(r.report)
    rows = Rows(r.report)
    rows.messages = r.messages
    if rows.meta().get("perf.scope") == "refused" and "none" not in (kw.get("env") or {}).values():
        raise Skip("perf events are not permitted here")
    return rows


def near(t, seen, expected, within, what):
    if abs(seen - expected) > within:
        raise Imprecise("%s: expected %.3f, saw %.3f" % (what, expected, seen))


def at_least(t, seen, least, what):
    """For what is measured, as near() is; t.ge() is for what must be so whenever it is asked."""
    if seen < least:
        raise Imprecise("%s: expected at least %.3f, saw %.3f" % (what, least, seen))


def check_spans(t, rows):
    """Spans of a thread follow each other, and so do those of a core."""
    for key in ("thread", "cpu"):
        last = {}
        for s in rows.spans():
            t.ok(
                s["start"] >= last.get(s[key], 0),
                "span of %s %d begins at %d, before the last one's end" % (key, s[key], s["start"]),
            )
            t.ok(s["end"] == NO_TIME or s["end"] > s["start"], "a span ends after it begins")
            if s["end"] != NO_TIME:
                last[s[key]] = s["end"]


def check_times(t, rows, what=""):
    """Samples of each thread stand for all that it has run, whatever took them."""
    times = rows.times()
    for thread, (ran, told) in times.items():
        t.ok(
            abs(told - ran) <= 0.02 * ran,
            "%s thread %d ran for %.3f ms, its samples stand for %.3f"
            % (what, thread, ran / 1e6, told / 1e6),
        )
    ran = sum(v[0] for v in times.values())
    t.ok(abs(sum(v[1] for v in times.values()) - ran) <= 0.02 * ran, "%s the sum of all" % what)


def check_split(t, rows, process=None, burn=0.97):
    shares = rows.shares(process=process)
    at_least(t, sum(1 for _ in rows.samples(process)), 600, "samples of 0.8 s of CPU time")
    near(t, shares.get("three_quarters", 0), 0.75, 0.03, "share of three_quarters")
    near(t, shares.get("one_quarter", 0), 0.25, 0.03, "share of one_quarter")
    at_least(t, shares.get("main", 0), 0.97, "share of main, which calls everything")
    at_least(t, shares.get("burn", 0), burn, "share of burn, which both call")


# ---- shares


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


def hard(t, *args, strip=False, output="r", least=150):
    """Samples of a case of hard that lie in the program, as (stack, flags), of at least so many."""
    program = t.program("hard")
    if strip:
        program = os.path.join(t.work, "hard")
        if subprocess.run(["strip", "-o", program, t.program("hard")]).returncode:
            raise Skip("needs strip")
    rows = record(
        t,
        [program, *map(str, args)],
        output=output,
        **({"env": {"LD_LIBRARY_PATH": os.path.dirname(t.program("hard"))}} if strip else {}),
    )
    found = [(rows.stack(s), s) for s in rows.samples() if not s["flags"] & KERNEL]
    at_least(t, len(found), least, "samples of %s" % " ".join(map(str, args)))
    return rows, found


def mostly(t, found, good, what, share=0.95):
    bad = [stack for stack, _ in found if not good(stack)]
    t.ok(
        len(bad) <= (1 - share) * len(found),
        "%s: %d of %d are otherwise, such as %s" % (what, len(bad), len(found), bad[:1]),
    )


def after(stack, name):
    """What follows the first occurrence of a function."""
    return stack[stack.index(name) + 1 :] if name in stack else None


OUTER = ["main", "__libc_start_call_main", "__libc_start_main", "_start"]


@test("sampling")
def hard_deep_recursion(t):
    _, found = hard(t, "deep", 60, 250)
    mostly(
        t,
        found,
        lambda s: s.count("recurse") == 60 and after(s, "burn")[60:] == OUTER,
        "all of 60 calls",
    )
    _, found = hard(t, "deep", 3000, 250, output="more")
    deep = [(stack, s) for stack, s in found if "burn" in stack]
    mostly(
        t,
        deep,
        lambda s: s.count("recurse") > 20 and set(after(s, "burn")) == {"recurse"},
        "as many of 3,000 calls as were copied, and no other callers",
    )
    t.ge(
        sum(1 for _, s in deep if s["flags"] & (TRUNCATED | BROKEN)),
        0.95 * len(deep),
        "stacks that are marked incomplete",
    )


@test("sampling")
def hard_longjmp(t):
    _, found = hard(t, "longjmp", 250)
    found = [f for f in found if "burn" in f[0]]
    mostly(t, found, lambda s: after(s, "burn") == ["after_jumps", *OUTER], "callers after jumps")


@test("sampling")
def hard_coroutines(t):
    _, found = hard(t, "coroutine", 400)
    inside, outside = [f for f in found if "co_inner" in f[0]], [
        f for f in found if "co_inner" not in f[0] and "burn" in f[0]
    ]
    at_least(t, min(len(inside), len(outside)), 80, "samples on both stacks")
    mostly(
        t,
        inside,
        lambda s: after(s, "burn")
        in (["co_inner", "co_body"], ["co_inner", "co_body", "__start_context"]),
        "on the coroutine's stack",
    )
    mostly(
        t, outside, lambda s: after(s, "burn") == ["coroutines", *OUTER], "on the thread's stack"
    )


@test("sampling")
def hard_plt(t):
    _, found = hard(t, "plt", 400)
    mostly(
        t,
        found,
        lambda s: after(s, "calls_plt") == OUTER,
        "calls through the PLT have their callers",
    )
    stubs = [s for s, _ in found if s[0] == "tiny@plt"]
    at_least(t, len(stubs), 1, "samples in the stub")
    t.ok(all(s[1] == "calls_plt" for s in stubs), "the stub's caller: %s" % stubs[:1])


@test("sampling")
def hard_vdso(t):
    rows, found = hard(t, "vdso", 400)
    inside = [
        (stack, s)
        for stack, s in found
        if rows.modules.get(rows.frames[s["frame"]]["module"]) == "[vdso]"
    ]
    at_least(t, len(inside), 0.3 * len(found), "samples in the vDSO")
    mostly(t, inside, lambda s: "clock" in s[0], "they have names")
    mostly(t, inside, lambda s: after(s, "calls_vdso") == OUTER, "and callers")


@test("sampling")
def hard_tail_call(t):
    _, found = hard(t, "tail", 250)
    mostly(
        t,
        [f for f in found if "burn" in f[0]],
        lambda s: after(s, "burn") == ["tail_callee", "outer_of_tail", *OUTER],
        "who jumped is not there, its caller is",
    )


@test("sampling")
def hard_generated_code(t):
    r = t.profile(
        [t.program("hard"), "jit", "250"], "--trace=none"
    )  # once only: its map stays in /tmp
    rows = Rows(r.report)
    path = "/tmp/perf-%d.map" % rows.table("process")[0]["pid"]
    if os.path.exists(path):
        os.unlink(path)
    if rows.meta().get("perf.scope") == "refused":
        raise Skip("perf events are not permitted here")
    found = [(rows.stack(s), s) for s in rows.samples() if not s["flags"] & KERNEL]
    t.ge(
        sum(1 for s, _ in found if s == ["generated_spin", "calls_generated", *OUTER]),
        0.9 * len(found),
        "samples in generated code, with callers, of %d" % len(found),
    )


FAULTY = r"""
#include <stdlib.h>
#include <time.h>
volatile unsigned long sink;
__attribute__((noinline)) void burn(int ms)
{
	for (clock_t end = clock() + ms * (CLOCKS_PER_SEC / 1000); clock() < end;)
		for (int i = 0; i < 20000; i++)
			sink += i;
}
__attribute__((noinline)) int below(int n, int ms)
{
	volatile char room[1000];

	room[n] = 1;
	if (n)
		below(n - 1, ms);
	else
		burn(ms);
	return room[n];
}
int main(int argc, char **argv) { return below(atoi(argv[1]), atoi(argv[2])) - 1; }
"""


def faults_of(t, name, flags, depth, *options):
    """What `report` and `info` say is wrong with the stacks of a program built so."""
    with open(os.path.join(t.work, "faulty.c"), "w") as f:
        f.write(FAULTY)
    program = os.path.join(t.work, name)
    built = t.run(["cc", "-O1", "-g0", *flags, "faulty.c", "-o", program])
    t.eq(built.status, 0, "cc: %s" % built.err)
    rows = record(t, [program, str(depth), "250"], *options, output=name)
    report = os.path.join(t.work, name + ".wsrep")
    said = t.tool("report", report).messages
    shown = t.tool("info", report).out.decode().partition("Call stacks:\n")[2]
    t.eq(
        re.findall(r"[0-9.]+ % of samples .*", said),
        [line.strip().rstrip(".") for line in shown.split("\n\n")[0].splitlines() if "%" in line],
        "report and info say the same",
    )
    return said


@test("sampling", ("cc",))
def faults_of_stacks_are_said_with_the_fix(t):
    bare = ("-fomit-frame-pointer", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables")
    said = faults_of(t, "notables", bare, 3)
    t.contains(
        said,
        r"9\d\.\d % of samples have stacks that end in .*/notables\): compile it with "
        "-fno-omit-frame-pointer",
        "no tables",
    )
    said = faults_of(t, "deep", (), 16)
    t.contains(said, "deeper than what was copied.*--sample-stack-size=32768", "16 kB of stack")
    said = faults_of(t, "whole", (), 16, "--sample-stack-size=32768")
    t.ok("deeper than" not in said, "all of it was copied: " + said)
    said = faults_of(t, "stripped", ("-s",), 2)
    t.contains(said, "stripped file .*/stripped\\): install its debug symbols", "no symbols")


@test("sampling")
def runtimes_are_asked_for_names(t):
    """Only where --jit-names says so, and behind what the environment holds."""
    show = ["sh", "-c", 'echo "$NODE_OPTIONS|$JAVA_TOOL_OPTIONS"']
    env = {"NODE_OPTIONS": "--max-old-space-size=99"}
    plain = t.profile(show, "--trace=none", env=env).out.decode().strip()
    t.eq(plain, "--max-old-space-size=99|", "without the option")
    r = t.profile(show, "--trace=none", "--jit-names=node", env=env, output="n")
    t.eq(r.out.decode().strip(), "--max-old-space-size=99 --perf-basic-prof|", "--jit-names=node")
    r = t.profile(show, "--trace=none", "--jit-names=java,node", output="j")
    node, _, java = r.out.decode().strip().partition("|")
    t.eq(node, "--perf-basic-prof", "node of both")
    t.ok(
        java.index("+IgnoreUnrecognizedVMOptions")
        < java.index("+UnlockDiagnosticVMOptions")
        < java.index("+DumpPerfMapAtExit"),
        "order of Java's options: " + java,
    )


HOT_JS = """
function hot(n) { let s = 0; for (let i = 0; i < n; i++) s += Math.sqrt(i) * i % 7; return s }
for (let s = 0; process.cpuUsage().user < 900000;) s += hot(20000)
"""
HOT_JAVA = """
class Hot {
    static double hot(int n) {
        double s = 0;
        for (int i = 0; i < n; i++) s += (i ^ n) % 7 + 1.0 / (i + 1);
        return s;
    }
    public static void main(String[] a) {
        double s = 0;
        java.lang.management.ThreadMXBean threads =
            java.lang.management.ManagementFactory.getThreadMXBean();
        while (threads.getCurrentThreadCpuTime() < 900000000L) s += hot(20000);
        System.err.println(s > 0);
    }
}
"""


def check_runtime(t, argv, word, advice, function):
    bare = t.profile(argv, "--trace=none", output="bare")
    if Rows(bare.report).meta().get("perf.scope") == "refused":
        raise Skip("perf events are not permitted here")
    t.contains(bare.messages, "no names.*%s.*--jit-names" % advice, "advice of " + word)
    named = t.profile(argv, "--trace=none", "--jit-names=" + word, output="named")
    t.ok("--jit-names" not in named.messages, "with names there is no advice: " + named.messages)
    table = t.tool("report", "-q", named.report).out.decode()
    for left in set(re.findall(r"/tmp/perf-\d+\.map", table)):
        os.remove(left)  # the runtime's, which nobody removes
    t.ok(function in table, "%s is named:\n%s" % (function, table))


@test("sampling")
def node_names_its_functions_when_asked(t):
    if not shutil.which("node"):
        raise Skip("needs node")
    with open(os.path.join(t.work, "hot.js"), "w") as f:
        f.write(HOT_JS)
    check_runtime(t, ["node", "hot.js"], "node", "node --perf-basic-prof", "hot ")


@test("sampling")
def java_names_its_functions_when_asked(t):
    if not (shutil.which("java") and shutil.which("javac")):
        raise Skip("needs java and javac")
    with open(os.path.join(t.work, "Hot.java"), "w") as f:
        f.write(HOT_JAVA)
    t.eq(t.run(["javac", "Hot.java"]).status, 0, "javac")
    check_runtime(t, ["java", "-cp", t.work, "Hot"], "java", "DumpPerfMapAtExit", "Hot.hot(")


@test("sampling")
def hard_dlclose(t):
    """Two libraries, the second of which may lie where the first one lay."""
    libraries = [
        os.path.join(os.path.dirname(t.program("hard")), "lib%s_spin.so" % n)
        for n in ("first", "second")
    ]
    copy = os.path.join(
        t.work, "copied.so"
    )  # hard is linked with the first: another file is unloaded in truth
    shutil.copy(libraries[0], copy)
    rows, found = hard(t, "dlclose", 200, copy, libraries[1])
    halves = [
        [(stack, s) for stack, s in found if name in stack]
        for name in ("first_spin", "second_spin")
    ]
    for name, half in zip(("first_spin", "second_spin"), halves):
        near(t, len(half) / len(found), 0.5, 0.1, "share of " + name)
        mostly(
            t,
            half,
            lambda s: after(s, name)[:2] == ["spin_here", "in_library"] and s[-4:] == OUTER,
            "callers of " + name,
        )
    t.ok(
        max(s["start"] for _, s in halves[0]) < min(s["start"] for _, s in halves[1]),
        "one came before the other",
    )
    t.eq(
        {
            rows.modules[rows.frames[s["frame"]]["module"]]
            for stack, s in halves[0]
            if stack[0] == "first_spin"
        },
        {copy},
        "file of the first",
    )


@test("sampling")
def hard_alternate_stack(t):
    """Without frame pointers, what was interrupted is known, its callers are not; then the stack is
    marked, never made up.
    """
    _, found = hard(t, "altstack", 250)
    found = [(stack, s) for stack, s in found if "in_handler" in stack]
    at_least(t, len(found), 150, "samples in the handler")
    mostly(
        t,
        found,
        lambda s: after(s, "in_handler")[:2] == ["__restore_rt", "interrupted"],
        "what was interrupted",
    )
    for stack, s in found:
        rest = after(stack, "interrupted") or []
        t.ok(
            rest == ["under_handler", *OUTER] or (not rest and s["flags"] & (TRUNCATED | BROKEN)),
            "callers, or a mark: %s" % stack,
        )


@test("sampling", ("go",))
def hard_go(t):
    """Go keeps frame pointers, but not in functions without a frame, and its call frame information
    is compressed.
    """
    program = golden.build_go(t, "spin.go", "spin")
    rows = record(t, [program])
    found = [(rows.stack(s), s) for s in rows.samples() if "main.leaf" in rows.stack(s)]
    at_least(t, len(found), 100, "samples in leaf")
    mostly(
        t,
        found,
        lambda s: after(s, "main.leaf")[:2]
        in (["main.through", "main.work"], ["main.direct", "main.work"])
        and s[-1].startswith("runtime.goexit"),
        "callers",
    )
    near(
        t,
        sum(1 for s, _ in found if "main.through" in s) / len(found),
        0.5,
        0.1,
        "share of through",
    )


@test("sampling")
def hard_stripped_program(t):
    rows, found = hard(t, "tail", 250, strip=True)
    inside = "[%s]" % os.path.join(t.work, "hard")
    mostly(
        t,
        found,
        lambda s: s[-5:] == [inside, inside, *OUTER[1:3], inside],
        "stacks of a stripped program are whole, its functions have no names",
    )


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


@test("sampling")
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


@test("sampling")
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
    moment `during` the run on.
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


@test("sampling", ("root",))
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
def switches_and_wake_ups_are_recorded_again_after_a_long_pause(t):
    """Their events are closed in it, and opened again at its end."""
    rows = record(t, busy(t, "pingpong", 150000), env={"WARPSIGHT_PERF": "wide"})
    if "Wake-ups are not traced" in " ".join(rows.diagnostics()):
        raise Skip("wake-ups cannot be traced here")
    end = max(s["end"] for s in rows.spans() if s["end"] != NO_TIME)
    pauses = {
        (g["start"], g["end"])
        for g in rows.table("sched_gap")
        if g["end"] - g["start"] > 100_000_000 and g["end"] < end - 20_000_000
    }
    if not pauses:
        raise Skip("the threads did not switch often enough for a long pause")
    last = max(end for _, end in pauses)
    after = [s for s in rows.spans() if s["start"] > last]
    t.ge(len(after), 10, "spans after the last pause")
    t.ok(any(s["woken"] for s in after), "wake-ups after the last pause")
    t.eq([d for d in rows.diagnostics() if "refused to begin again" in d], [], "refusals")


@test("sampling")
def samples_on_cores_are_said(t):
    """Where all is observed on whole cores, threads inherit no event."""
    rows = record(t, busy(t, "split", 50), env={"WARPSIGHT_PERF": "wide"})
    if not rows.meta()["perf.scope"].startswith("every CPU"):
        raise Skip("whole cores may not be watched here")
    t.eq(rows.meta()["perf.scope"], "every CPU", "scope")
    rows = record(t, busy(t, "split", 50), output="own", env={"WARPSIGHT_PERF": "threads"})
    t.contains(rows.meta()["perf.scope"], "inherited", "scope of samples by thread")


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
