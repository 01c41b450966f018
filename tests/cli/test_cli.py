#!/usr/bin/env python3
"""Tests of the command line as users meet it: help, errors, suggestions, the man page, completion,
doctor. Prints TAP.

Usage: test_cli.py PROGRAM [BASH-COMPLETION-SCRIPT]. Texts that change with the machine are checked
by shape, the others word by word.
"""
import json
import os
import pty
import re
import resource
import shutil
import subprocess
import sys
import tempfile

PROGRAM = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = []


class Skip(Exception):
    pass


def test(fn):
    TESTS.append(fn)
    return fn


def run(*args, env=None, **more):
    """(status, stdout, stderr) of the program; `env` adds to the environment."""
    more.setdefault("stdout", subprocess.PIPE)
    result = subprocess.run(
        [PROGRAM, *args],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=60,
        env={**os.environ, **(env or {})},
        **more,
    )
    return result.returncode, (result.stdout or b"").decode(), result.stderr.decode()


def same(got, want, what=""):
    assert got == want, f"{what}: got {got!r}, want {want!r}"


def has(text, part):
    assert part in text, f"{part!r} is not in {text!r}"


def refused(args, message):
    """Exit status 2, nothing on stdout, and exactly this line on stderr."""
    status, out, err = run(*args)
    same((status, out, err), (2, "", f"warpsight: {message}\n"), " ".join(args))


def commands():
    _, out, _ = run("--help")
    part = out.split("Commands:\n")[1].split("\n\n")[0]
    return [line.split()[0] for line in part.splitlines() if re.match(r"  \S", line)]


@test
def bare_and_help_print_the_overview():
    texts = {run(*args) for args in ((), ("--help",), ("-h",), ("help",))}
    same(len(texts), 1)
    status, out, err = texts.pop()
    same((status, err), (0, ""))
    has(out, "Usage: warpsight COMMAND")
    for name in commands():
        has(out, f"\n  {name} ")


@test
def version():
    texts = {run(*args) for args in (("--version",), ("-v",), ("version",))}
    same(len(texts), 1)
    status, out, _ = texts.pop()
    same(status, 0)
    assert re.fullmatch(r"warpsight \d+\.\d+\.\d+\n", out), out


@test
def every_command_explains_itself():
    for name in commands():
        texts = {
            run(*args)
            for args in ((name, "--help"), (name, "-h"), ("help", name), ("--help", name))
        }
        same(len(texts), 1, name)
        status, out, err = texts.pop()
        same((status, err), (0, ""), name)
        assert out.startswith(f"Usage: warpsight {name}"), out
        has(out, "-h, --help")
        for line in out.splitlines():
            assert len(line) <= 80 or line.startswith("  warpsight "), f"{name}: too wide: {line!r}"
            assert line == line.rstrip(), f"{name}: blanks at the end: {line!r}"


@test
def unknown_commands_and_options():
    refused(["doctr"], "unknown command 'doctr'; did you mean 'doctor'?")
    refused(["hlep"], "unknown command 'hlep'; did you mean 'help'?")
    refused(
        ["frobnicate"],
        (
            "unknown command 'frobnicate'; 'warpsight help' lists them, 'warpsight profile"
            " frobnicate' records a program"
        ),
    )
    refused(
        ["help", "statsu"],
        (
            "unknown command 'statsu'; did you mean 'stats'?"
            if "stats" in commands()
            else "unknown command 'statsu'; did you mean 'status'?"
        ),
    )
    refused(["--verison"], "unknown option --verison; did you mean --version?")
    refused(
        ["--zzz"],
        "unknown option --zzz: options come after the command, as in 'warpsight profile --zzz ...'",
    )
    refused(["doctor", "--jsno"], "doctor: unknown option --jsno; did you mean --json?")
    refused(["doctor", "--js"], "doctor: unknown option --js; did you mean --json?")
    refused(
        ["doctor", "--quux"], "doctor: unknown option --quux; 'warpsight doctor --help' lists them"
    )
    refused(["doctor", "-z"], "doctor: unknown option -z; 'warpsight doctor --help' lists them")
    refused(["doctor", "--json=yes"], "doctor: --json takes no value")
    refused(["doctor", "now"], "doctor takes no argument, but 'now' is given")
    refused(
        ["status", "--environment=maybe"],
        "status: --environment: 'maybe' is neither true nor false",
    )


@test
def what_is_not_built_is_said():
    refused(
        ["help", "attach"],
        "'attach' (recording a running process) is not built yet; 'profile --attach PID' does that",
    )
    refused(
        ["status", "--network"],
        "status: --network: network metrics are not recorded, so there is nothing to check",
    )


@test
def options_are_where_they_belong():
    """launch and start share the options of profile: each has its part of them."""
    for command, option, words in (
        ("launch", "--output=x", "--output is about one collection"),
        ("launch", "--duration=1", "--duration is about one collection"),
        ("start", "--trace=nvtx", "--trace is decided when the program is launched"),
        ("start", "--env-var=A=b", "--env-var is decided when the program is launched"),
        ("stop", "--trace=nvtx", "unknown option --trace"),
    ):
        has(run(command, option)[2], f"{command}: {words}")
    for command in ("launch", "start"):
        shown = set(re.findall(r"(?m)^  (?:-., )? *--([a-z-]+)", run(command, "--help")[1]))
        everything = set(re.findall(r"(?m)^  (?:-., )? *--([a-z-]+)", run("profile", "--help")[1]))
        assert shown < everything and len(shown) > 15, (command, sorted(shown))
    refused(
        ["profile", "--session=x", "true"],
        (
            "profile: --session: profile makes a session of its own: give --session-new=NAME, or "
            "run the program by 'warpsight launch'"
        ),
    )


@test
def what_is_known_and_not_there_names_what_is():
    """Commands and options of Nsight Systems that people paste: one sentence, and all that it
    recommends exists.
    """
    for word in (
        "launch",
        "start",
        "stop",
        "cancel",
        "shutdown",
        "sessions",
        "attach",
        "analyze",
        "serve",
        "diff",
        "merge",
        "recipe",
        "kernel",
        "nvprof",
        "service",
        "plugins",
    ):
        if word in commands():
            continue
        status, out, err = run(word)
        same((status, out, err.count("\n")), (2, "", 1), word)
        named = re.findall(r"'([a-z]+)", err.split(";", 1)[1])
        assert named and set(named) <= set(commands()), err
    supported, known = run("profile", "--help")[1].split("\nKnown by name")
    names = re.findall(r"(--[a-z0-9-]+)[,\n]", known.split("Examples:")[0])
    assert len(names) > 40, names
    for option in names:
        status, out, err = run("profile", "--strict", option + "=zzz", "true")
        same((status, out, err.count("\n")), (2, "", 1), option)
        assert err.startswith(f"warpsight: profile: {option}: "), err
        for other in re.findall(r"--[a-z-]+", err.replace(option + ":", "", 1)):
            assert f" {other}" in supported, err


# Every switch of `nsys profile`, `launch` and `start` in the user guides from 2020 to 2026.
SWITCHES = """
accelerator-trace after-collection-start after-report-ready auto-report-name backtrace
capture-range capture-range-end clock-frequency-changes command-file cpu-cluster-events
cpu-core-events cpu-core-metrics cpu-metrics cpu-socket-events cpu-socket-metrics cpuctxsw
cuda-event-trace cuda-flush-interval cuda-graph-trace cuda-memory-usage cuda-trace-all-apis
cuda-trace-scope cuda-um-cpu-page-faults cuda-um-gpu-page-faults cudabacktrace
cudabacktrace-threshold dask debug-symbols delay discard-environment duration duration-frames
dx-force-declare-adapter-removal-support dx12-gpu-workload dx12-wait-calls el1-sampling
el1-sampling-config enable env-var etw-provider event-sample event-sampling-frequency
event-sampling-interval event-sampling-multiplex-interval export flush-on-cudaprofilerstop
force-overwrite ftrace ftrace-keep-user-config gds-libs-path gds-metrics gpu-metrics-device
gpu-metrics-devices gpu-metrics-frequency gpu-metrics-set gpu-video-device gpuctxsw hotkey-capture
ib-net-info-devices ib-net-info-files ib-net-info-output ib-switch-congestion-device
ib-switch-congestion-devices ib-switch-congestion-nic-device ib-switch-congestion-percent
ib-switch-congestion-threshold-high ib-switch-metrics-device ib-switch-metrics-devices
ib-switch-metrics-nic-device inherit-environment injection-use-detours isr kill mpi-impl
nic-metrics nvtx-capture nvtx-domain-exclude nvtx-domain-include opengl-gpu-workload os-events
osrt-backtrace-depth osrt-backtrace-stack-size osrt-backtrace-threshold osrt-file-access
osrt-threshold output process-scope python-backtrace python-functions-trace
python-nvtx-annotations python-sampling python-sampling-frequency pytorch qnx-kernel-events
qnx-kernel-events-mode resolve-symbols retain-etw-files run-as sample samples-per-backtrace
sampling-frequency sampling-period sampling-trigger session session-new show-output soc-metrics
soc-metrics-frequency soc-metrics-set start-frame-index start-later stats stop-on-exit
stop-on-range-end storage-metrics syscall trace trace-fork-before-exec vsync vulkan-gpu-workload
wait wddm-additional-events wddm-backtraces wddm-memory-trace xhv-trace xhv-trace-events
xhv-vm-symbols
""".split()

TRACES = (
    "cuda,cuda-hw,cuda-sw,nvtx,cublas,cublas-verbose,cusparse,cusparse-verbose,cudnn,cudla,"
    "cudla-verbose,cusolver,cusolver-verbose,opengl,opengl-annotations,openacc,openmp,osrt,mpi,"
    "nvvideo,vulkan,vulkan-annotations,dx11,dx11-annotations,dx12,dx12-annotations,openxr,"
    "openxr-annotations,oshmem,ucx,wddm,tegra-accelerators,python-gil,gds,syscall,none"
)


@test
def every_switch_of_nsight_systems_is_known():
    for switch in SWITCHES:
        err = run("profile", f"--{switch}=zzz")[2]
        assert "unknown option" not in err, err
    for word in TRACES.split(","):
        status, out, err = run("profile", "-t", word)
        same((status, out), (2, ""), word)
        has(err, "no program to run")
    for letter in "bcdefnopstwxyY":
        err = run("profile", f"-{letter}")[2]
        assert "unknown option" not in err, err
    err = run("profile", "--cuda-backtrace=true", "true")[2]
    has(err, "did you mean --cudabacktrace?")


@test
def a_file_that_is_not_there_is_no_query():
    refused(
        ["query", "nothing.wsrep"],
        (
            "query: there is no file nothing.wsrep, and as a query it lacks one: warpsight query"
            " 'SELECT ...' FILE"
        ),
    )
    refused(
        ["query", "SELECT 1"], "query: no report file is given; warpsight query 'SELECT ...' FILE"
    )


@test
def words_of_other_tools():
    """Command lines begin with the tool's name, and exports have a format elsewhere."""
    for tool in ("nsys", "ncu", "perf"):
        status, out, err = run(tool, "profile", "./app")
        same((status, out), (2, ""))
        assert "leave the word out" in err and "warpsight profile APP" in err, err
    assert "diff A B" in run("compare", "a", "b")[2]
    refused(
        ["export", "--format=chrom", "nothing.wsrep"],
        run("export", "--type=chrom", "nothing.wsrep")[2].strip().removeprefix("warpsight: "),
    )
    err = run("profile", "--trace=nvtx", "--python-backtrace=cuda", "true")[2]
    assert err == "warpsight: profile: --python-backtrace=cuda needs --trace=cuda\n", err


@test
def output_that_cannot_be_written_is_an_error():
    with open("/dev/full", "w", encoding="ascii") as full:
        same(
            run("help", "--man", stdout=full)[::2],
            (1, "warpsight: cannot write to standard output: No space left on device\n"),
        )
    status = subprocess.run(
        ["sh", "-c", '"$0" version >&-', PROGRAM], stderr=subprocess.PIPE, check=False
    )
    same(
        (status.returncode, status.stderr),
        (1, b"warpsight: cannot write to standard output: Bad file descriptor\n"),
    )
    if (
        "--no-open" in run("view", "--help")[1]
        and "without its page" not in run("view", "nothing.wsrep")[2]
    ):
        with open("/dev/full", "w", encoding="ascii") as full:
            same(
                run("view", "--no-open", stdout=full)[::2],
                (1, "warpsight: cannot tell the address of the page: No space left on device\n"),
            )


@test
def a_reader_that_goes_away_is_no_error():
    for prefix in ("", "trap '' PIPE; "):
        script = prefix + '{ "$0" help --man; echo $? >&2; } | true'
        got = subprocess.run(["sh", "-c", script, PROGRAM], stderr=subprocess.PIPE, check=False)
        assert got.stderr in (b"141\n", b"0\n"), got.stderr


@test
def help_fills_the_terminal():
    def on_terminal(columns):
        leader, follower = pty.openpty()
        import fcntl
        import struct
        import termios

        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        subprocess.run([PROGRAM, "help", "doctor"], stdout=follower, check=True)
        os.close(follower)
        text = b""
        while True:
            try:
                more = os.read(leader, 65536)
            except OSError:
                break
            if not more:
                break
            text += more
        os.close(leader)
        return max(len(line) for line in text.decode().splitlines())

    assert on_terminal(50) <= 50
    assert 80 < on_terminal(110) <= 110
    assert on_terminal(500) <= 120


@test
def man_page_formats_without_warnings():
    status, out, err = run("help", "--man")
    same((status, err), (0, ""))
    for name in commands():
        has(out, f'.SS "warpsight {name}')
    if not shutil.which("man") and not shutil.which("groff"):
        raise Skip("neither man nor groff")
    command = (
        ["groff", "-man", "-ww", "-Tutf8", "-z"]
        if shutil.which("groff")
        else ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", "-"]
    )
    got = subprocess.run(
        command, input=out.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False
    )
    same(got.stderr.decode(), "", "formatter")


@test
def completion():
    script = run("help", "--bash-completion")[1]
    if not shutil.which("bash"):
        raise Skip("no bash")
    ask = (
        'source /dev/stdin <<<"$SCRIPT"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _warpsight; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )

    def complete(*words):
        got = subprocess.run(
            ["bash", "--norc", "-c", ask, "bash", "warpsight", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "SCRIPT": script},
            check=True,
        )
        same(got.stderr, b"")
        return got.stdout.decode().split()

    same(complete("doc"), ["doctor"])
    same(sorted(complete("")), sorted([*commands(), "--help", "--version"]))
    same(complete("doctor", "--j"), ["--json"])
    same(complete("help", "vers"), ["version"])
    same(
        sorted(complete("status", "--")),
        ["--all", "--environment", "--help", "--json", "--session"],
    )
    if "profile" in commands():
        has(complete("profile", "--trace", "nv"), "nvtx")
        has(complete("profile", "--trace", "=", "nvtx,os"), "nvtx,osrt")
        has(complete("profile", "--trace", "nvtx,os"), "nvtx,osrt")
        has(complete("profile", "tru"), "true")
    same(complete("stats", "-r", "cuda_gpu_mem_s"), ["cuda_gpu_mem_size_sum"])
    same(complete("stats", "--report", "=", "osrt_sum,nvtx_gpu_proj_t")[0][:9], "osrt_sum,")
    same(complete("stats", "-f", "mark"), ["markdown"])
    for command in ("query", "report", "ops"):
        same(sorted(complete(command, "--format", "=", "t")), ["table", "tsv"])


@test
def doctor_says_what_it_found():
    status, out, err = run("doctor", "--json")
    report = json.loads(out)
    same(err, "")
    same(status, 0 if report["usable"] else 1)
    names = [c["name"] for c in report["checks"]]
    same(len(set(names)), len(names))
    for name in (
        "kernel",
        "clock",
        "hooks",
        "shared memory",
        "perf events",
        "ptrace",
        "seccomp",
        "capabilities",
        "limits",
        "GPU",
        "CUPTI",
    ):
        assert name in names, name
    for check in report["checks"]:
        assert check["state"] in ("ok", "degraded", "missing"), check
        assert check["found"], check
    blocked = [c for c in report["checks"] if c["needed"] and c["state"] == "missing"]
    same(report["usable"], not blocked)
    status_text, text, _ = run("doctor")
    same(status_text, status)
    for check in report["checks"]:
        assert re.search(
            rf"^{check['state']} +{re.escape(check['name'])} ", text, re.MULTILINE
        ), check
    same(run("status", "-e")[1], text)


def check_of(name, **more):
    return next(
        c for c in json.loads(run("doctor", "--json", **more)[1])["checks"] if c["name"] == name
    )


@test
def doctor_sees_what_is_wrong():
    blocked = check_of("CUDA settings", env={"CUDA_LAUNCH_BLOCKING": "1"})
    same((blocked["state"], blocked["fix"]), ("degraded", "unset CUDA_LAUNCH_BLOCKING"))
    taken = check_of("injection", env={"NVTX_INJECTION64_PATH": "/opt/other/tool\x1b[31m.so"})
    same(taken["state"], "degraded")
    has(taken["found"], "NVTX_INJECTION64_PATH is set already (/opt/other/tool\x1b[31m.so)")
    assert (
        "\x1b" not in run("doctor", env={"NVTX_INJECTION64_PATH": "/opt/other/tool\x1b[31m.so"})[1]
    )
    temporary = check_of("temporary files", env={"TMPDIR": "/nonexistent"})
    same(
        (temporary["state"], temporary["found"]),
        ("degraded", "/nonexistent is not writable: No such file or directory"),
    )
    few = check_of(
        "limits", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    )
    same(few["state"], "degraded")
    has(few["found"], "open files 64 (low)")


@test
def doctor_without_its_hooks_fails():
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(PROGRAM, folder)
        got = subprocess.run([copy, "doctor", "--json"], stdout=subprocess.PIPE, check=False)
        same(got.returncode, 1)
        report = json.loads(got.stdout)
        same(report["usable"], False)
        hooks = next(c for c in report["checks"] if c["name"] == "hooks")
        same((hooks["state"], hooks["needed"]), ("missing", True))
        has(hooks["found"], "libwarpsight-hooks.so is missing")
        # A library that no program here can load is found, tried, and reported with the loader's
        # own words.
        for name in ("libwarpsight-hooks.so", "libwarpsight-osrt.so", "libwarpsight-sample.so"):
            with open(os.path.join(folder, name), "wb") as f:
                f.write(b"not a library")
        report = json.loads(
            subprocess.run([copy, "doctor", "--json"], stdout=subprocess.PIPE, check=False).stdout
        )
        hooks = next(c for c in report["checks"] if c["name"] == "hooks")
        same(hooks["state"], "missing")
        has(hooks["found"], "a program that was to load the hooks said:")


def main():
    failed = 0
    print(f"1..{len(TESTS)}")
    for number, fn in enumerate(TESTS, 1):
        name = fn.__name__.replace("_", "-")
        try:
            fn()
            print(f"ok {number} - {name}")
        except Skip as why:
            print(f"ok {number} - {name} # SKIP {why}")
        except Exception as why:  # one test's failure must not hide the others
            failed += 1
            print(f"not ok {number} - {name}")
            print(
                "".join(f"# {line}\n" for line in f"{type(why).__name__}: {why}".splitlines()),
                end="",
            )
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
