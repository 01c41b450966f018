#!/usr/bin/env python3
"""Call stacks of programs whose stacks are known (cases.c, templates.cc), recorded by the
OS-runtime hook: prints TAP.

    run.py --build BUILD [--keep] [NAME...]
"""
import fnmatch
import os
import shutil
import subprocess
import sys
import tempfile

TESTS = []
KINDS = ("cfi", "fp")
OUTER = ["main", "__libc_start_call_main", "__libc_start_main", "_start"]


def test(fn):
    TESTS.append((fn.__name__.replace("_", "-"), fn))
    return fn


class Skip(Exception):
    pass


class Failed(Exception):
    pass


class T:
    def __init__(self, build, work):
        self.build, self.dir = build, work
        self.programs = os.path.join(build, "tests/symbols")

    def program(self, name):
        return os.path.join(self.programs, name)

    def run(self, *argv, status=0):
        r = subprocess.run(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.dir,
            errors="replace",
        )
        if status is not None and r.returncode != status:
            raise Failed("%s: status %d\n%s%s" % (" ".join(argv), r.returncode, r.stdout, r.stderr))
        return r

    def profile(self, *argv, options=()):
        self.report = os.path.join(self.dir, "r.wsrep")
        r = self.run(
            os.path.join(self.build, "warpsight"),
            "profile",
            "-t",
            "osrt",
            "-s",
            "none",
            "--cpuctxsw=none",
            "-f",
            "-o",
            self.report,
            *options,
            "--",
            *argv,
        )
        self.output = r.stdout
        return self.report

    def symbolize(self, *options, status=0):
        return self.run(
            os.path.join(self.build, "warpsight"), "symbolize", *options, self.report, status=status
        )

    def dump(self, *options):
        return [
            line.split("|")
            for line in self.run(
                self.program("dump_stacks"), *options, self.report
            ).stdout.splitlines()
        ]

    def stacks(self, call, *options):
        """Stacks of the calls of a function, each a list of frames from the innermost on."""
        return [
            row[4].split(";")
            for row in self.dump(*options)
            if row[0] == "osrt" and row[1] == call and row[4]
        ]

    def modules(self):
        return {row[1]: int(row[3]) for row in self.dump() if row[0] == "module"}

    def eq(self, have, want, what):
        if have != want:
            raise Failed("%s:\n  wanted %s\n  found  %s" % (what, want, have))

    def begins(self, have, want, what):
        self.eq(have[: len(want)], want, what)


@test
def deep_recursion(t):
    for kind in KINDS:
        t.profile(
            t.program("cases_" + kind),
            "deep",
            options=("--osrt-backtrace-depth=1000", "--osrt-backtrace-stack-size=65528"),
        )
        frames = t.stacks("usleep")[0]
        functions = [f.split("<")[-1] for f in frames]
        t.eq(functions.count("recurse"), 300, kind + ": frames of recurse")
        t.eq(functions[-4:], OUTER, kind + ": the outermost frames")
        t.profile(t.program("cases_" + kind), "deep")
        t.eq(len(t.stacks("usleep")[0]), 24, kind + ": frames with the default depth")


@test
def copies_end_where_the_stack_does(t):
    options = ("--osrt-backtrace-stack-size=65528", "--lossless")  # as many stacks as there are
    t.profile(t.program("cases_fp"), "end-of-stack", options=options)
    t.eq(len(t.stacks("usleep")), 512, "stacks")


@test
def no_depth_no_stacks(t):
    for option in (
        "--osrt-backtrace-depth=0",
        "--osrt-backtrace-stack-size=0",
        "--osrt-backtrace-threshold=10s",
    ):
        t.profile(t.program("cases_fp"), "deep", options=(option,))
        t.eq(t.stacks("usleep"), [], "stacks with " + option)


@test
def alternate_signal_stack_and_longjmp(t):
    for kind in KINDS:
        t.profile(t.program("cases_" + kind), "alternate-stack")
        fault, jump = t.stacks("usleep")
        # The interrupted function is known by its registers; its own callers stand on another
        # stack.
        functions = [f.split("<")[-1] for f in fault]
        t.eq(functions[:3], ["on_fault", "__restore_rt", "fault_here"], kind + ": in the handler")
        t.begins([f.split("<")[-1] for f in jump][:1], ["after_jump"], kind + ": after the jump")
        t.eq([f.split("<")[-1] for f in jump][-4:], OUTER, kind + ": after the jump, outermost")


@test
def handler_on_the_same_stack(t):
    for kind in KINDS:
        t.profile(t.program("cases_" + kind), "same-stack")
        functions = [f.split("<")[-1] for f in t.stacks("usleep")[0]]
        t.begins(functions, ["on_signal", "__restore_rt"], kind + ": in the handler")
        if "interrupted" not in functions:
            raise Failed("%s: the interrupted function is missing: %s" % (kind, functions))
        t.eq(functions[-4:], OUTER, kind + ": the outermost frames")


@test
def coroutines(t):
    for kind in KINDS:
        t.profile(t.program("cases_" + kind), "coroutine")
        functions = [[f.split("<")[-1] for f in s] for s in t.stacks("usleep")]
        t.eq(
            [f[:2] for f in functions if f[0] == "co_inner"],
            [["co_inner", "co_body"]] * 2,
            kind + ": on the coroutine's stack",
        )
        for f in functions:
            if f[0] == "co_inner" and f[2:] not in ([], ["__start_context"]):
                raise Failed("%s: frames beyond the coroutine: %s" % (kind, f))
        t.eq(
            [f[-4:] for f in functions if f[0] == "after_jump"],
            [OUTER],
            kind + ": back on the thread's own stack",
        )


@test
def tail_call(t):
    for kind in KINDS:
        t.profile(t.program("cases_" + kind), "tail-call")
        functions = [f.split("<")[-1] for f in t.stacks("usleep")[0]]
        t.begins(functions, ["tail_callee", "calls_tail"], kind + ": the caller left by a jump")


CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases.c")


def check_inlined(t, program, what, names=("nap", "inlined_inner", "inlined_outer", "has_inlined")):
    """The functions inlined into each other around a sleep, and the line of each."""
    with open(CASES) as f:
        source = f.read().splitlines()
    t.profile(program, "inlined")
    frame = t.stacks("usleep", "-l")[0][0].split("<")
    t.eq(
        [f.split("@")[0] for f in frame], list(names), what + ": functions inlined into each other"
    )
    for part, text in zip(frame, ("usleep(300)", "nap()", "inlined_inner()", "inlined_outer()")):
        file, line = part.split("@")[1].split(":")
        t.eq(file, "cases.c", "file of " + part)
        if text not in source[int(line) - 1]:
            raise Failed("%s: %s is line %s: %s" % (what, part, line, source[int(line) - 1]))


@test
def inlined_functions_and_lines(t):
    for kind in ("cfi", "dwarf4", "packed"):
        check_inlined(t, t.program("cases_" + kind), kind)
    t.profile(t.program("cases_cfi"), "inlined", options=("--show-source-info=false",))
    t.eq(t.stacks("usleep", "-l")[0][0], "has_inlined", "without source information")


@test
def split_debugging_information(t):
    """-gsplit-dwarf: all is shown where the .dwo files are; without them functions and lines still
    are, and what is missing is said.
    """
    compiler = shutil.which(os.environ.get("CC", "cc").split()[0])
    if not compiler:
        raise Skip("no C compiler")
    for version in ("4", "5"):
        program = os.path.join(t.dir, "split" + version)
        t.run(
            compiler,
            "-O2",
            "-gdwarf-" + version,
            "-gsplit-dwarf",
            "-pthread",
            "-c",
            CASES,
            "-o",
            program + ".o",
        )
        t.run(compiler, "-pthread", "-o", program, program + ".o", "-ldl")
        if not os.path.exists(program + ".dwo"):
            raise Skip("the compiler does not split")
        check_inlined(t, program, "DWARF %s, split" % version)
        os.rename(program + ".dwo", program + ".moved")
        check_inlined(
            t, program, "DWARF %s, split, without its other part" % version, ["has_inlined"]
        )
        said = t.run(os.path.join(t.build, "warpsight"), "info", t.report).stdout
        if (
            "inlined functions of 1 of its compilation units are not shown" not in said
            or "split%s.dwo" % version not in said
        ):
            raise Failed("what is missing is not said: %s" % said)
        os.rename(program + ".moved", program + ".dwo")
        if "without inlined" in t.symbolize("--all").stderr:
            raise Failed("the file is there again")
        t.eq(len(t.stacks("usleep", "-l")[0][0].split("<")), 4, "functions once the file is there")


@test
def templates_and_exceptions(t):
    if not os.path.exists(t.program("cases_cxx")):
        raise Skip("no C++ compiler")
    t.profile(t.program("cases_cxx"))
    stacks = t.stacks("usleep")
    t.eq(len(stacks), 2, "sleeps")
    for s in stacks:
        t.begins(s[0], "shapes::Box<double, 3>::area(double)", "a member of a template")
        if "shapes::apply<main::{lambda()#" not in ";".join(s):
            raise Failed("the lambda's caller is missing: %s" % s)
        t.eq(s[-1], "_start", "the outermost")


@test
def rust(t):
    rustc = shutil.which("rustc")
    if not rustc:
        raise Skip("no Rust compiler")
    source = os.path.join(t.dir, "waits.rs")
    with open(source, "w") as f:
        f.write(
            """mod shapes {
    pub struct Square(pub u64);
    impl Square {
        #[inline(never)]
        pub fn wait(&self) -> u64 {
            std::thread::sleep(std::time::Duration::from_micros(300));
            std::hint::black_box(self.0)
        }
    }
}
#[inline(never)]
fn twice<F: Fn() -> u64>(f: F) -> u64 {
    std::hint::black_box(f() + f())
}
fn main() {
    let s = shapes::Square(3);
    println!("{}", twice(|| s.wait()));
}
"""
        )
    for mangling, option in (("default", []), ("v0", ["-Csymbol-mangling-version=v0"])):
        made = subprocess.run(
            [rustc, "-g", "-O", *option, "-o", os.path.join(t.dir, "waits"), source],
            cwd=t.dir,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if made.returncode:
            raise Skip("rustc does not work here")
        t.profile(os.path.join(t.dir, "waits"))
        stacks = [s for call in ("nanosleep", "clock_nanosleep") for s in t.stacks(call)]
        t.eq(len(stacks), 2, mangling + ": sleeps")
        for s in stacks:
            names = ";".join(s).replace("<waits::", "waits::")
            for wanted in ("waits::shapes::Square", "waits::twice", "waits::main"):
                if wanted not in names:
                    raise Failed("%s: %s is missing: %s" % (mangling, wanted, names))
            t.eq(s[-1], "_start", mangling + ": the outermost")


@test
def unloaded_libraries_are_told_apart(t):
    for n in range(3):
        t.profile(t.program("cases_fp"), "unloaded", t.programs)
        functions = [s[1].split("<")[-1] for s in t.stacks("usleep")]
        t.eq(
            functions,
            ["first_library", "second_library", "first_library"],
            "libraries at one address",
        )
    places = [line.split()[-1] for line in t.output.splitlines()]
    if len(set(places)) != 1:
        print("# the loader put them at %s" % places)


@test
def stripped_program(t):
    strip = shutil.which("strip")
    if not strip:
        raise Skip("no strip")
    for kind, named in (("cfi", False), ("fp", True)):
        copy = os.path.join(t.dir, "stripped_" + kind)
        t.run(strip, "-o", copy, t.program("cases_" + kind))
        t.profile(copy, "tail-call")
        frames = t.stacks("usleep")[0]
        # tail_callee is in the dynamic symbols of the second; calls_tail, which is static, in
        # neither.
        t.begins(
            frames, ["tail_callee" if named else "?", "?"], kind + ": names in a stripped program"
        )
        t.eq(frames[-3:-1], OUTER[1:3], kind + ": the C library's frames")


@test
def separate_debug_file(t):
    strip, objcopy = shutil.which("strip"), shutil.which("objcopy")
    if not strip or not objcopy:
        raise Skip("no strip or objcopy")
    copy, folder = os.path.join(t.dir, "split"), os.path.join(t.dir, "symbols")
    os.mkdir(folder)
    t.run(objcopy, "--only-keep-debug", t.program("cases_cfi"), os.path.join(folder, "split.debug"))
    t.run(strip, "-o", copy, t.program("cases_cfi"))
    t.profile(copy, "inlined", options=("--symbols=" + folder,))
    t.eq(t.stacks("usleep")[0][0], "nap<inlined_inner<inlined_outer<has_inlined", "with --symbols")
    t.profile(copy, "inlined")
    t.eq(t.stacks("usleep")[0][0], "?", "without")
    t.symbolize("--symbols=" + folder)
    t.eq(t.stacks("usleep")[0][0], "nap<inlined_inner<inlined_outer<has_inlined", "after symbolize")
    # A debug file of another program has another build id.
    t.profile(copy, "inlined")
    t.run(objcopy, "--only-keep-debug", t.program("cases_fp"), os.path.join(folder, "split.debug"))
    t.symbolize("--symbols=" + folder)
    t.eq(t.stacks("usleep")[0][0], "?", "with a debug file that is another program's")
    # By .gnu_debuglink, beside the program.
    t.run(objcopy, "--only-keep-debug", t.program("cases_cfi"), os.path.join(t.dir, "split.debug"))
    t.run(objcopy, "--add-gnu-debuglink=" + os.path.join(t.dir, "split.debug"), copy)
    t.profile(copy, "inlined")
    t.eq(
        t.stacks("usleep")[0][0], "nap<inlined_inner<inlined_outer<has_inlined", "by its debug link"
    )


@test
def symbols_later(t):
    t.profile(t.program("cases_cfi"), "inlined")
    at_once = t.dump("-l")
    t.profile(t.program("cases_cfi"), "inlined", options=("--resolve-symbols=false",))
    t.eq(t.stacks("usleep")[0][0], "?", "with --resolve-symbols=false")
    t.symbolize()
    later = t.dump("-l")
    t.eq(
        [r[4] for r in later if r[0] == "osrt" and r[1] == "usleep"],
        [r[4] for r in at_once if r[0] == "osrt" and r[1] == "usleep"],
        "symbols later",
    )
    t.run(os.path.join(t.build, "warpsight"), "info", "--verify", t.report)
    size = os.path.getsize(t.report)
    r = t.symbolize()
    t.eq(os.path.getsize(t.report), size, "size after a second time (%s)" % r.stderr)
    t.symbolize("--all")
    t.eq(
        [r[4] for r in t.dump("-l") if r[0] == "osrt" and r[1] == "usleep"],
        [r[4] for r in at_once if r[0] == "osrt" and r[1] == "usleep"],
        "with --all",
    )
    t.eq(sorted(os.listdir(t.dir)), ["r.wsrep"], "files left")


@test
def symbolize_leaves_the_report_alone_when_it_fails(t):
    t.profile(t.program("cases_cfi"), "inlined", options=("--resolve-symbols=false",))
    with open(t.report, "rb") as f:
        before = f.read()
    t.symbolize("--symbols=/nonexistent", status=1)
    limited = subprocess.run(
        [
            "bash",
            "-c",
            'ulimit -f %d; exec "$0" symbolize "$1"' % (len(before) // 1024),
            os.path.join(t.build, "warpsight"),
            t.report,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    t.eq(limited.returncode, 1, "status on a full disk (%s)" % limited.stderr)
    with open(t.report, "rb") as f:
        t.eq(f.read() == before, True, "the report is what it was")
    t.eq(sorted(os.listdir(t.dir)), ["r.wsrep"], "files left")
    with open(t.report, "r+b") as f:
        f.truncate(len(before) - 40)
    r = t.symbolize(status=1)
    if "recover" not in r.stderr:
        raise Failed("a report without its end: %s" % r.stderr)
    with open(t.report, "wb") as f:
        f.write(b"nonsense" * 100)
    t.symbolize(status=1)


@test
def deleted_program(t):
    copy = os.path.join(t.dir, "gone")
    shutil.copy(t.program("cases_cfi"), copy)
    t.profile(copy, "deleted")
    functions = [f.split("<")[-1] for f in t.stacks("usleep")[0]]
    t.eq(functions[0], "after_jump", "a function of a deleted program")
    t.eq(t.modules()[copy] & 1, 1, "it is marked as deleted")


@test
def replaced_program_is_not_mislabelled(t):
    copy = os.path.join(t.dir, "changing")
    shutil.copy(t.program("cases_cfi"), copy)
    t.profile(copy, "replaced", t.program("cases_fp"))
    functions = [f.split("<")[-1] for f in t.stacks("usleep")[0]]
    if functions[0] not in ("after_jump", "?"):
        raise Failed("a function of a replaced program is called %s" % functions)
    t.profile(t.program("cases_cfi"), "inlined", options=("--resolve-symbols=false",))
    # Later: another file under the recorded path.
    shutil.copy(t.program("cases_cfi"), copy)
    t.profile(copy, "inlined", options=("--resolve-symbols=false",))
    os.unlink(copy)
    shutil.copy(t.program("cases_fp"), copy)
    t.symbolize()
    t.eq(t.stacks("usleep")[0][0], "?", "another program under the recorded path")


@test
def generated_code(t):
    t.profile(t.program("cases_fp"), "perf-map")
    path = t.output.strip()
    frames = [f.split("<")[-1] for f in t.stacks("usleep")[0]]
    t.begins(frames, ["nap_called", "generated_function", "calls_generated"], "with a perf map")
    t.eq(frames[-4:], OUTER, "with a perf map, outermost")
    # Later the map is of another time, and the process's number may be another's: it is not used
    # any more but from a folder that is named.
    t.profile(t.program("cases_fp"), "perf-map", options=("--resolve-symbols=false",))
    other = t.output.strip()
    os.utime(other, (1e9, 1e9))
    t.symbolize()
    t.eq(t.stacks("usleep")[0][1], "?", "with a perf map of another time")
    os.rename(other, os.path.join(t.dir, os.path.basename(other)))
    t.symbolize("--symbols=" + t.dir)
    t.eq(t.stacks("usleep")[0][1], "generated_function", "with a perf map from a folder")
    os.unlink(path)


@test
def jitdump(t):
    t.profile(t.program("cases_fp"), "jitdump", t.dir)
    frames = [f.split("<")[-1] for f in t.stacks("usleep", "-l")[0]]
    t.eq(frames[1], "dumped_function@generated.src:77", "with a jitdump file")
    t.eq([f.split("@")[0] for f in frames][-4:], OUTER, "outermost")


@test
def holders_of_locks(t):
    t.profile(t.program("cases_fp"), "holder")
    rows = [r for r in t.dump() if r[0] == "osrt"]
    other = next(r[2] for r in rows if r[1] == "usleep")
    for call in ("pthread_mutex_lock", "pthread_rwlock_rdlock"):
        row = next(
            r for r in rows if r[1] == call and r[4]
        )  # taking a free lock may last a microsecond too, and has no stack
        t.eq(row[3], other, "thread that held the lock of " + call)
        t.eq([f.split("<")[-1] for f in row[4].split(";")][-4:], OUTER, "stack of " + call)


@test
def processes_gone_before_anyone_looks(t):
    t.profile(t.program("cases_cfi"), "short-lived")
    stacks = [[f.split("<")[-1] for f in s] for s in t.stacks("usleep")]
    t.eq(
        len([s for s in stacks if s[0] == "after_jump"]),
        20,
        "stacks of children that live a moment",
    )
    for s in stacks:
        t.eq(s[-4:], OUTER, "outermost frames")


def main():
    args = sys.argv[1:]
    build = os.path.abspath(args[args.index("--build") + 1])
    keep = "--keep" in args
    words = [
        a
        for i, a in enumerate(args)
        if not a.startswith("--") and (not i or args[i - 1] != "--build")
    ]
    chosen = [(n, f) for n, f in TESTS if not words or any(fnmatch.fnmatch(n, w) for w in words)]
    print("1..%d" % len(chosen), flush=True)
    bad = 0
    for i, (name, fn) in enumerate(chosen, 1):
        work = tempfile.mkdtemp(prefix="ws-symbols-")
        try:
            fn(T(build, work))
            print("ok %d - %s" % (i, name))
        except Skip as e:
            print("ok %d - %s # SKIP %s" % (i, name, e))
        except Exception as e:  # any failure is this test's
            bad += 1
            print("not ok %d - %s" % (i, name))
            print(
                "\n".join("# " + line for line in ("%s: %s" % (type(e).__name__, e)).splitlines())
            )
        sys.stdout.flush()
        if keep:
            print("# " + work)
        else:
            shutil.rmtree(work, ignore_errors=True)
    return bad != 0


sys.exit(main())
