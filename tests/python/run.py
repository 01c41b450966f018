#!/usr/bin/env python3
"""Whole recordings of Python programs (workload.py): run.py --build BUILD --burn LIBRARY [WORD...];
prints TAP. With words, tests whose name holds one.

Every CPython from 3.8 on that is found (WS_TEST_PYTHONS, PATH, pyenv's folder) runs the workload;
what does not depend on the version runs once. Shares of time are compared with what the program
says that it burnt. Nothing is said about how long anything took. On a virtual machine the
hypervisor takes time away that the clock of the samples counts and that of the thread does not: a
comparison that fails is made again, twice at most.
"""
import argparse, ctypes, glob, gzip, json, os, re, shutil, struct, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
HOLDS, WAITS, NONE = "2", "3", "1"
SIGNAL, SEPARATE = 2, 32


def refuse_programs():
    """In a child: the kernel refuses bpf() from now on, as sandboxes do."""
    number = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
    code = struct.pack(
        "HBBIHBBIHBBIHBBI",
        0x20,
        0,
        0,
        0,
        0x15,
        0,
        1,
        number,
        0x06,
        0,
        0,
        0x50001,
        0x06,
        0,
        0,
        0x7FFF0000,
    )
    where = ctypes.create_string_buffer(code)
    filter = struct.pack("HxxxxxxP", 4, ctypes.addressof(where))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, filter, 0, 0):
        os._exit(77)


class Failed(Exception):
    pass


class Shares(Failed):
    pass


def near(got, is_so, what):
    if abs(got - is_so) >= 0.02:
        raise Shares("%s has %.1f %% of the time, not %.1f" % (what, 100 * is_so, 100 * got))


def want(ok, what):
    if not ok:
        raise Failed(what)


class Sample:
    def __init__(self, fields):
        self.pid, self.tid, self.start, self.weight, self.gil, self.flags = (
            int(fields[0]),
            int(fields[1]),
            int(fields[2]),
            int(fields[3]),
            fields[4],
            int(fields[5]),
        )
        self.stack = fields[6].split(";")
        self.python = [f[3:].split(":")[0] for f in self.stack if f.startswith("py:")]
        self.short = [n.split(".")[-1] for n in self.python]

    def lines(self, name):
        return [
            int(f.rsplit(":", 1)[1])
            for f in self.stack
            if f.startswith("py:" + name + ":") or "." + name + ":" in f
        ]


class Report:
    def __init__(self, text):
        (
            self.samples,
            self.outside,
            self.gil,
            self.diagnostics,
            self.lost,
            self.slices,
            self.calls,
        ) = ([], [], [], [], [], [], [])
        for line in text.splitlines():
            f = line.split("\t")
            if f[0] in ("sample", "outside"):
                (self.samples if f[0] == "sample" else self.outside).append(Sample(f[1:]))
            elif f[0] == "gil":
                self.gil.append((int(f[1]), int(f[2]), int(f[3]), int(f[4]), f[5]))
            elif f[0] == "diag":
                self.diagnostics.append(f[1])
            elif f[0] == "lost":
                self.lost.append(f[1:])
            elif f[0] == "call":
                self.calls.append((f[4], f[5]))
            elif f[0] == "slice":
                self.slices.append(f[1:])


class Runner:
    def __init__(self, build, burn, folder):
        self.build, self.folder = build, folder
        self.env = dict(
            os.environ, WS_TEST_BURN=burn, PYTHONDONTWRITEBYTECODE="1", LC_ALL="C.UTF-8"
        )
        self.log, self.way = "", "kernel"

    def take(self, way):
        self.way = way
        self.env.pop("WARPSIGHT_PYTHON", None)
        if way == "signals":
            self.env["WARPSIGHT_PYTHON"] = way

    def command(self, python):
        """What runs a script: an interpreter's path, or the words of a command that embeds one."""
        return [python] if isinstance(python, str) else python

    def bare(self, python, case):
        p = subprocess.run(
            [*self.command(python), os.path.join(HERE, "workload.py"), case],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=120,
        )
        want(p.returncode == 0, "bare run: " + p.stderr.decode())
        return p.stdout

    def record(self, python, case, *options, before=None):
        out = os.path.join(self.folder, "r.wsrep")
        p = subprocess.run(
            [
                os.path.join(self.build, "warpsight"),
                "profile",
                "-f",
                "-o",
                out,
                *options,
                *self.command(python),
                os.path.join(HERE, "workload.py"),
                case,
            ],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=180,
            preexec_fn=before,
        )
        self.log = p.stderr.decode()
        want(p.returncode == 0, "exit status %d: %s" % (p.returncode, self.log))
        d = subprocess.run(
            [os.path.join(self.build, "tests/python/python_dump"), out],
            stdout=subprocess.PIPE,
            timeout=60,
            check=True,
        )
        self.output = p.stdout
        return json.loads(p.stdout.decode().splitlines()[-1]), Report(
            d.stdout.decode("utf-8", "replace")
        )


def share(samples, name):
    return sum(s.weight for s in samples if name in s.short) / max(
        1, sum(s.weight for s in samples)
    )


KERNEL = "frames are read in the kernel"


def in_kernel(report):
    return any(KERNEL in d for d in report.diagnostics)


def exact(report):
    """Are there Python frames of the moment of a sample?"""
    if in_kernel(report):
        want(
            not any(s.flags & SIGNAL for s in report.samples),
            "signals though the kernel reads the frames",
        )
        return True
    return any(s.flags & SIGNAL for s in report.samples)


def everything(r, python):
    truth, report = r.record(python, "everything")
    if r.way == "kernel" and not in_kernel(report):
        return "SKIP programs for the kernel are not permitted here"
    if not exact(report):
        want(report.outside, "neither samples by signal nor from outside: %s" % report.diagnostics)
        return "no perf events here: only that stacks are read from outside was checked"
    child = truth.pop("child")
    main_pid = next(s.pid for s in report.samples if "alpha" in s.short)
    main = [s for s in report.samples if s.pid == main_pid and "phases" in s.short]
    phases = ("alpha", "beta", "numbers", "called_back", "deep", "catcher", "測る", "leaf")
    total = sum(truth[n] for n in phases) + truth["native_free"] + truth["native_held"]
    for name in phases:
        near(share(main, name), truth[name] / total, name)
    native = [s for s in main if "native_burn" in s.stack or "burn_a_little" in s.stack]
    got, is_so = (
        sum(s.weight for s in native) / sum(s.weight for s in main),
        (truth["native_free"] + truth["native_held"]) / total,
    )
    near(got, is_so, "C code")
    check_stacks(main, native)
    check_threads(report, truth, main_pid)
    want(
        any(
            "in_child" in s.short and "everything" in s.short
            for s in report.samples
            if s.pid == child
        ),
        "no Python frames in the forked child",
    )
    return None


def check_stacks(main, native):
    clean = [s for s in main if not s.flags & SEPARATE]
    for s in clean:
        want(s.short[0] == "<module>", "outermost is %s" % s.short[0])
    merged = [s for s in clean if "alpha" in s.short and s.short[-1] == "spin"]
    want(
        merged
        and all(s.short == ["<module>", "everything", "phases", "alpha", "spin"] for s in merged),
        "alpha calls spin: %s" % merged[0].short,
    )
    want(
        sum("_PyEval_EvalFrameDefault" in s.stack for s in merged) * 50 < len(merged),
        "the evaluator's frames are still there",
    )
    at = next(
        i
        for i, l in enumerate(open(os.path.join(HERE, "workload.py"), encoding="utf-8"), 1)
        if "spin(300)" in l
    )
    want(sum(at in s.lines("alpha") for s in merged) > 0.9 * len(merged), "the line in alpha")
    deep = [s for s in clean if "deep" in s.short and s.short[-1] == "spin"]
    want(
        deep and all(s.short.count("deep") == 301 for s in deep),
        "301 levels of deep, not %s" % {s.short.count("deep") for s in deep},
    )
    back = [s for s in clean if s.short[-2:] == ["called_back", "spin"]]
    whole = [s for s in back if s.stack[0] in ("_start", "_dl_start")] or back
    want(whole, "no sample in called_back")
    want(
        len(whole) > 0.95 * len(back), "%d of %d native stacks are whole" % (len(whole), len(back))
    )
    for s in whole:
        order = [
            i
            for i, f in enumerate(s.stack)
            if f.startswith("py:callbacks:")
            or f == "native_call"
            or f.startswith("py:called_back:")
        ]
        want(
            len(order) == 3 and "native_call" == s.stack[order[1]],
            "C code between Python functions: %s" % s.stack,
        )
    for s in clean:
        if "leaf" in s.short and "branch" in s.short:
            want(
                s.short.index("branch") < s.short.index("leaf"), "branch awaits leaf: %s" % s.short
            )
    states = {s.gil for s in native if not s.flags & SEPARATE}
    want({HOLDS, NONE} <= states, "states of the GIL in C code: %s" % states)


def check_threads(report, truth, pid):
    for name in ("first_thread", "second_thread"):
        mine = [s for s in report.samples if name in s.short]
        want(len({s.tid for s in mine}) == 1, name + " is in one thread")
        got = sum(s.weight for s in mine)
        # The first milliseconds of a thread are those in which the recorder has not met it yet.
        if not 0.75 * truth[name] < got < 1.15 * truth[name]:
            raise Shares("%s: %d ns recorded of %d" % (name, got, truth[name]))
    holds = sorted((g[2], g[3], g[1]) for g in report.gil if g[0] == pid and g[4] == HOLDS)
    want(all(a[1] <= b[0] for a, b in zip(holds, holds[1:])), "two threads hold the GIL at once")
    tids = {
        s.tid for s in report.samples if "first_thread" in s.short or "second_thread" in s.short
    }
    want({g[1] for g in report.gil if g[4] == WAITS} >= tids, "both threads wait for the GIL")
    want(
        any("waiter" in s.short for s in report.outside),
        "the waiting thread is not seen from outside",
    )
    want(all(s.flags & SEPARATE for s in report.outside), "samples from outside are marked")


def own_signal(r, python):
    truth, report = r.record(python, "own_signal")
    want(truth["signals"] == 1, "the program got %d signals of its own, not 1" % truth["signals"])
    if in_kernel(report):
        want(
            exact(report) and any("alpha" in s.short for s in report.samples),
            "the program's own signal is no matter",
        )
        return
    if any(s.flags & SIGNAL for s in report.samples) or any(
        "SIGURG" in d for d in report.diagnostics
    ):
        want(
            any("SIGURG" in d for d in report.diagnostics),
            "said that the program handles SIGURG: %s" % report.diagnostics,
        )
    want(any("alpha" in s.short for s in report.outside), "alpha is read from outside")


def quiet_signal(r, python):
    bare = r.bare(python, "quiet_signal")
    r.record(python, "quiet_signal")
    want(r.output == bare, "%s, bare %s" % (r.output, bare))


def interrupted(r, python):
    truth, report = r.record(python, "interrupted", "--python-sampling-frequency=2000")
    want(truth["interrupted"] == 0, "%d system calls were interrupted" % truth["interrupted"])
    if exact(report):
        want(
            any("interrupted" in s.short and "native_polls" in s.stack for s in report.samples),
            "there were samples",
        )


def blocked_signal(r, python):
    truth, report = r.record(python, "blocked_signal")
    want(truth["pending"] == 0, "%d signals are pending" % truth["pending"])
    want(
        not in_kernel(report) or any("alpha" in s.short for s in report.samples),
        "a thread that blocks signals is sampled in the kernel",
    )


def foreign(r, python):
    truth, report = r.record(python, "foreign")
    if not exact(report):
        return "no perf events here"
    called = [s for s in report.samples if "foreign_callback" in s.short]
    alone = [s for s in report.samples if "burn_alone" in s.stack]
    tids = {s.tid for s in called + alone}
    want(len(tids) == 1, "one thread, not %d" % len(tids))
    total = sum(s.weight for s in called + alone)
    near(
        sum(s.weight for s in called) / total,
        truth["foreign_callback"] / (truth["foreign_callback"] + truth["alone"]),
        "foreign_callback",
    )
    want(
        all(s.short[0] == "foreign_callback" for s in called),
        "its outermost Python function: %s" % {s.short[0] for s in called},
    )
    stale = [s for s in alone if s.python]
    want(
        not stale,
        "%d of %d samples of C code without a thread state have Python frames: %s"
        % (len(stale), len(alone), stale and stale[0].stack),
    )


def regenerate(r, python):
    truth, report = r.record(python, "regenerate")
    if not exact(report):
        return "no perf events here"
    made = [
        s
        for s in report.samples
        if any(n.startswith("made_") for n in s.short) and not s.flags & SEPARATE
    ]
    want(len(made) > 20, "%d samples in functions that are made" % len(made))
    order = [
        next(n for n in s.short if n.startswith("made_"))
        for s in sorted(made, key=lambda s: s.start)
    ]
    want(order == sorted(order), "functions have run one after the other: %s" % order)
    for name in sorted(set(order)):
        got = sum(s.weight for s in made if name in s.short)
        if got > 2 * truth[name]:
            raise Shares("%s: %d ns recorded of %d" % (name, got, truth[name]))
    want(not any("[code not read]" in s.python for s in report.samples), "code that was not read")


def execs(r, python):
    truth, report = r.record(python, "execs")
    if exact(report):
        want(
            any("alpha" in s.short for s in report.samples)
            and any("image_two" in s.short for s in report.samples),
            "both images have samples",
        )


def cuda_calls(r, python):
    home, programs = os.path.join(r.folder, "toolkit"), os.path.join(r.build, "tests/cuda")
    os.makedirs(os.path.join(home, "lib64"), exist_ok=True)
    if not os.path.lexists(os.path.join(home, "lib64/libcupti.so.13")):
        os.symlink(
            os.path.join(programs, "libcupti.so.13"), os.path.join(home, "lib64/libcupti.so.13")
        )
    r.env.update(CUDA_HOME=home, WS_TEST_CUDA=os.path.join(programs, "libcuda.so.1"))
    r.env.pop("CUDA_INJECTION64_PATH", None)
    truth, report = r.record(
        python,
        "cuda_calls",
        "--cudabacktrace=kernel:0",
        "--python-backtrace=cuda",
        "--python-sampling=false",
    )
    launches = [c for c in report.calls if c[0].startswith("cudaLaunchKernel")]
    want(len(launches) == 5, "5 launches, not %d" % len(launches))
    frames = [
        [f[3:].split(":")[0].split(".")[-1] for f in c[1].split(";") if f.startswith("py:")]
        for c in launches
    ]
    want(
        frames
        == [["<module>", "cuda_calls", "launches"]] * 3
        + [["<module>", "cuda_calls", "<lambda>", "launches"]] * 2,
        "Python stacks: %s" % frames,
    )
    want(
        all("standin_launch" in c[1].split(";")[-2:] for c in launches),
        "the call's own function is innermost: %s" % launches[0][1],
    )
    want(all(not c[1] for c in report.calls if c not in launches), "stacks of other calls")


def tell(r, *words):
    """What a command of the program says of the last recording."""
    p = subprocess.run(
        [os.path.join(r.build, "warpsight"), *words, os.path.join(r.folder, "r.wsrep")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=60,
        check=True,
    )
    return p.stdout, p.stderr.decode()


def waits(r, python):
    """Waits have the Python functions that waited: those of the call; without hooks of the C
    library those that were read meanwhile.
    """
    r.record(python, "waits", "--trace=osrt,python-gil")
    ends = {
        ";naps": ("[sleep:", 20),
        ";reader": ("[I/O:", 20),
        ";locked": ("[semaphore:", 5),
    }
    for kind in ("folded", "speedscope", "pprof"):
        path = os.path.join(r.folder, "f." + kind)
        tell(r, "export", "-q", "-f", "-t", kind, "--show=off-cpu", "--frames=python", "-o", path)
        with (gzip.open if kind == "pprof" else open)(path, "rb") as f:
            text = f.read().decode("utf-8", "replace")
        for name in ends:
            want(name[1:] in text, "%s has no %s" % (kind, name))
        want("_PyEval" not in text and "start_thread" not in text, kind + ": native functions")
        if kind == "folded":
            stacks = [re.sub(r" \([^;]*?\)(?=;|$)", "", s) for s in text.splitlines()]
    for name, (reason, least) in ends.items():
        found = [s for s in stacks if name + ";" + reason in s]
        want(found, "no wait of %s: %s" % (name, stacks))
        ms = sum(int(s.rsplit(" ", 1)[1]) for s in found) / 1e6
        want(ms >= least, "%s waited for %.1f ms" % (name, ms))
    gil = [s for s in stacks if ";spin;[GIL]" in s]
    want(gil, "waits for the GIL have the function that wanted it: %s" % stacks)
    said = tell(r, "report", "--show=off-cpu", "--frames=python")[1]
    want("without Python frames" in said, "what is not known: " + said)
    r.record(python, "long_nap", "--trace=none", "--cpuctxsw=process-tree")
    table, said = tell(r, "report", "--show=off-cpu", "--frames=python")
    want(b"deep_nap" in table, "read from outside: %s%s" % (table.decode(), said))
    r.record(python, "long_nap", "--trace=osrt", "--python-sampling=false")
    said = tell(r, "report", "--show=off-cpu", "--frames=python")[1]
    want("--python-sampling was off" in said, said)


def embedded(r, python):
    """The interpreter is a library that the program loads when it runs already."""
    code = (
        "import sysconfig, os; g = sysconfig.get_config_var; print(os.path.join(g('LIBDIR') or '',"
        " g('INSTSONAME') or ''))"
    )
    library = (
        subprocess.run([python, "-c", code], stdout=subprocess.PIPE, check=True)
        .stdout.decode()
        .strip()
    )
    if ".so" not in library or not os.path.isfile(library):
        library = next(
            iter(
                sorted(
                    glob.glob(
                        "/usr/lib/*/libpython%s.so*"
                        % os.path.basename(os.path.realpath(python))[6:]
                    )
                )
            ),
            None,
        )
    if not library:
        return "SKIP the interpreter is no shared library"
    return everything(r, [os.path.join(r.build, "tests/python/python_embed"), library, python])


def functions(r, python):
    path = os.path.join(r.folder, "functions.json")
    with open(path, "w") as f:
        json.dump(
            [
                {
                    "_comment": "a test",
                    "module": "__main__",
                    "color": "0xff00",
                    "functions": [
                        "Traced.method",
                        "raises",
                        {"function": "yields", "domain": "made"},
                        "missing",
                        "traced_in_child",
                        "Traced.fixed",
                        "Traced.of_class",
                        "Traced.value",
                        "Traced.Inner.deep",
                        "wrapped",
                        "hidden",
                        "cached",
                        "make.<locals>.made",
                        "make.<locals>.Local.method",
                        "awaits",
                        "in_thread",
                        "dive",
                    ],
                },
                {"module": "json", "functions": ["dumps"], "domain": "outer"},
                # A function that a module of the package defines, named in two ways.
                {"module": "json", "functions": ["encoder.JSONEncoder.encode"], "domain": "deep"},
                {"module": "json", "functions": ["JSONEncoder.iterencode"], "domain": "handed on"},
            ],
            f,
        )
    # A list that is built in may be given, too: none of its functions need run.
    options = "--python-functions-trace=" + path, "--pytorch=functions-trace"
    truth, report = r.record(python, "functions", *options)
    said = " ".join(report.diagnostics)
    count = {}
    for s in report.slices:
        count[s[4], s[5]] = count.get((s[4], s[5]), 0) + 1
        want(int(s[3]) >= int(s[2]), "ends before it starts")
    # A generator's function runs once for each value and once to its end. json.dumps runs once
    # more, to print the result.
    want(
        count
        == {
            ("Traced.method", "__main__"): 9,
            ("raises", "__main__"): 1,
            ("yields", "made"): 3,
            ("dumps", "outer"): 2,
            ("encoder.JSONEncoder.encode", "deep"): 2,
            ("JSONEncoder.iterencode", "handed on"): 2,
            ("traced_in_child", "__main__"): 1,
            ("Traced.fixed", "__main__"): 2,
            ("Traced.of_class", "__main__"): 2,
            ("Traced.value", "__main__"): 1,
            ("Traced.Inner.deep", "__main__"): 1,
            ("wrapped", "__main__"): 3,
            ("hidden", "__main__"): 2,
            ("cached", "__main__"): 1,
            ("make.<locals>.made", "__main__"): 2,
            ("make.<locals>.Local.method", "__main__"): 1,
            ("awaits", "__main__"): 2,
            ("in_thread", "__main__"): 2,
            ("dive", "__main__"): 301,
        },
        "ranges: %s" % count,
    )
    want("__main__.missing" in said and "Traced" not in said, "said what never ran: " + said)
    want("torch" not in said, "of built-in lists nothing need run: " + said)
    others = ("outer", "deep", "handed on")
    mine = [s for s in report.slices if s[5] not in others]
    for s in mine:
        args = json.loads(s[6])
        want(args["color"] == "0xff00" and args["module"] == "__main__", "arguments: " + s[6])
        want(args["file"].endswith("/workload.py") and args["line"] > 100, "its place: " + s[6])
    table = tell(r, "stats", "-q", "-r", "python_function_sum", "-f", "json")[0]
    rows = {x["Function"]: x for x in json.loads(table)}
    trace = json.loads(tell(r, "stats", "-q", "-r", "python_function_trace", "-f", "json")[0])
    want(len(trace) == len(report.slices), "python_function_trace has each call")
    starts = [x["Start (ns)"] for x in trace]
    want(starts == sorted(starts), "in order")
    longest = {x["Function"]: x["Max (ns)"] for x in rows.values()}
    want(all(x["Duration (ns)"] <= longest[x["Function"]] for x in trace), "the same times")
    in_thread = {x["TID"] for x in trace if x["Function"] == "in_thread"}
    want(len(in_thread) == 2, "on their threads: %s" % in_thread)
    want(
        {name: x["Instances"] for name, x in rows.items()}
        == {name: n for (name, domain), n in count.items()},
        "python_function_sum: %s" % table.decode(),
    )
    want(
        rows["dumps"]["Module"] == "json"
        and rows["encoder.JSONEncoder.encode"]["Module"] == "json.encoder"
        and rows["dumps"]["Domain"] == "outer"
        and rows["wrapped"]["Defined At"].split("/")[-1].startswith("workload.py:"),
        "where they are defined: %s" % table.decode(),
    )


def recursion(r, python):
    """A recursion that takes no C stack in 3.11 does not run out of it for our sake."""
    path = os.path.join(r.folder, "recursion.json")
    with open(path, "w") as f:
        json.dump([{"module": "__main__", "functions": ["dive"]}], f)
    truth, report = r.record(python, "recursion", "--python-functions-trace=" + path)
    want(truth == {"depth": 20000}, "the program ends as it does alone: %s" % truth)
    want(report.slices and {s[4] for s in report.slices} == {"dive"}, "some calls are recorded")
    version = subprocess.run([python, "-V"], stdout=subprocess.PIPE, check=True).stdout.decode()
    ended = any("use up a thread's stack" in d for d in report.diagnostics)
    want(
        ended == version.startswith("Python 3.11."),
        "that the tracing ended: %s" % report.diagnostics,
    )


def refused(r, python):
    truth, report = r.record(python, "alpha", before=refuse_programs)
    want(not in_kernel(report), "frames are read in the kernel though programs are refused")
    if any(s.flags & SIGNAL for s in report.samples):
        want(any("alpha" in s.short for s in report.samples), "alpha has samples by signal")
        want(
            any("not to be had here" in d for d in report.diagnostics),
            "it is said: %s" % report.diagnostics,
        )


def delayed(r, python):
    """A thread that took the GIL before the collection began, and never again."""
    truth, report = r.record(python, "delayed", "--delay=0.3")
    if in_kernel(report):
        want(any("alpha" in s.short for s in report.samples), "alpha has samples")


def slower(r, python):
    """Python's frequency divides that of the samples: those of its threads are thinned out, and
    weigh more.
    """
    truth, report = r.record(python, "alpha", "--python-sampling-frequency=200")
    mine = [s for s in report.samples if "alpha" in s.short]
    if exact(report):
        weights = sorted(s.weight for s in mine)
        want(abs(weights[len(weights) // 2] - 5000000) < 500000, "weights: %s" % weights)
        near(min(1, sum(s.weight for s in mine) / truth["alpha"]), 1, "alpha")


def off(r, python):
    truth, report = r.record(python, "alpha", "--python-sampling=false", "--trace=nvtx")
    want(
        not report.outside and not any(s.python for s in report.samples) and not report.gil,
        "Python frames though they were not wanted",
    )


def outside_only(r, python):
    """SIGURG has a handler before the interpreter starts: by a program that execs with it ignored
    it stays ours; so block it in the first thread.
    """
    truth, report = r.record(
        python, "alpha", "--sample=none", "--python-sampling=true", "--trace=none"
    )
    want(
        report.samples or report.outside,
        "nothing recorded with --sample=none --python-sampling=true",
    )


def interpreters():
    """One for each minor version, and the system's own beside it: that is often built otherwise."""
    found, paths = {}, os.environ.get("WS_TEST_PYTHONS", "").split(":")
    paths += glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python3")) + [
        "/usr/bin/python3",
        shutil.which("python3") or "",
    ]
    for path in paths:
        if not path or not os.access(path, os.X_OK):
            continue
        code = (
            "import sys, sysconfig; print('%d.%d' % sys.version_info[:2], sys.implementation.name,"
            " sysconfig.get_config_var('Py_DEBUG'), sys.executable)"
        )
        p = subprocess.run(
            [path, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60
        )
        words = p.stdout.decode().split()
        if p.returncode or len(words) != 4 or words[1] != "cpython" or words[2] == "1":
            continue
        if (3, 8) <= tuple(map(int, words[0].split("."))) <= (3, 14):
            found.setdefault((words[0], words[3].startswith("/usr/bin")), words[3])
    return [
        (version + (" of the system" if system else ""), path)
        for (version, system), path in sorted(
            found.items(), key=lambda e: (tuple(map(int, e[0][0].split("."))), e[0][1])
        )
    ]


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--build", required=True)
    a.add_argument("--burn", required=True)
    a.add_argument("--part", help="I/N: every N-th of the tests from the I-th")
    a.add_argument("words", nargs="*")
    o = a.parse_args()
    pythons = interpreters()
    # What differs from version to version is where things lie; images of all are tested as well.
    if "WS_TEST_SANITIZE" in os.environ:
        pythons = [p for p in pythons if p in (pythons[0], pythons[-1]) or "system" in p[0]]
    ways = ("kernel", "signals")
    tests = [
        ("everything, CPython %s, by %s" % (version, way), everything, path, way)
        for version, path in pythons
        for way in ways
    ]
    tests += [
        ("embedded, CPython %s, by %s" % (version, way), embedded, path, way)
        for version, path in pythons
        for way in ways
        if "system" in version or path == pythons[-1][1]
    ]
    tests += [
        ("functions, CPython %s" % version, functions, path, "kernel") for version, path in pythons
    ]
    # Up to 3.10 a recursion as deep needs more than a usual stack, with and without us.
    tests += [
        ("recursion, CPython %s" % version, recursion, path, "kernel")
        for version, path in pythons
        if version.split()[0] in ("3.11", "3.12")
    ]
    both = [
        (f, way)
        for f in (
            waits,
            own_signal,
            quiet_signal,
            interrupted,
            blocked_signal,
            foreign,
            regenerate,
            execs,
        )
        for way in ways
    ]
    tests += [
        ("%s, by %s" % (f.__name__, way), f, pythons[-1][1], way)
        for f, way in both
        + [(f, "kernel") for f in (refused, slower, delayed, cuda_calls, off, outside_only)]
        if pythons
    ]
    tests = [t for t in tests if not o.words or any(w in t[0] for w in o.words)]
    if o.part:
        number, parts = map(int, o.part.split("/"))
        tests = tests[number - 1 :: parts]
    print("1..%d" % len(tests), flush=True)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="warpsight-python-") as folder:
        r = Runner(os.path.abspath(o.build), os.path.abspath(o.burn), folder)
        for i, (name, fn, path, way) in enumerate(tests, 1):
            r.take(way)
            try:
                for attempt in range(3):
                    try:
                        note = fn(r, path)
                        break
                    except Shares:
                        if attempt == 2:
                            raise
                print("ok %d - %s%s" % (i, name, " # " + note if note else ""), flush=True)
            except (
                Failed,
                subprocess.SubprocessError,
                ValueError,
                KeyError,
                StopIteration,
                IndexError,
            ) as e:
                failed += 1
                print(
                    "not ok %d - %s\n# %s: %s\n# %s"
                    % (i, name, type(e).__name__, e, r.log.replace("\n", "\n# ")),
                    flush=True,
                )
    return failed > 0


sys.exit(main())
