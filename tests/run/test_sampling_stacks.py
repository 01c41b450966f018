"""test_sampling_stacks.py - call stacks of samples in places where they are hard to follow, and
what is said where they break off.
"""
import os
import re
import shutil
import subprocess

import golden
from harness import Skip, test
from rows import BROKEN, KERNEL, TRUNCATED, Rows
from sampling import record, near, at_least


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


def run_bare(t, argv):
    bare = t.profile(argv, "--trace=none", output="bare")
    if Rows(bare.report).meta().get("perf.scope") == "refused":
        raise Skip("perf events are not permitted here")
    return bare


def check_runtime(t, argv, word, function):
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
    advice = "no names.*node --perf-basic-prof.*--jit-names"
    t.contains(run_bare(t, ["node", "hot.js"]).messages, advice, "advice")
    check_runtime(t, ["node", "hot.js"], "node", "hot ")


@test("sampling")
def java_has_names_and_whole_stacks(t):
    """Names and sizes of frames are read from the machine's memory; it is not asked for them."""
    if not (shutil.which("java") and shutil.which("javac")):
        raise Skip("needs java and javac")
    with open(os.path.join(t.work, "Hot.java"), "w") as f:
        f.write(HOT_JAVA)
    t.eq(t.run(["javac", "Hot.java"]).status, 0, "javac")
    argv = ["java", "-cp", t.work, "Hot"]
    bare = run_bare(t, argv)
    t.ok("--jit-names" not in bare.messages, "no advice is needed: " + bare.messages)
    table = t.tool("report", "-q", "--view=top-down", bare.report).out.decode()
    t.ok(re.search(r"JavaMain.*\bHot\.hot ", table, re.S), "names and callers:\n" + table)
    check_runtime(t, argv, "java", "Hot.hot(")


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
