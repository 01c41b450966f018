#!/usr/bin/env python3
"""torture.py BUILD [STEP...] - what takes hours and looks for harm: kills, storms of events,
collections begun and ended, every fault, programs of all kinds, hostile input. Prints a line when
a step ends and a table of all at the end; what each printed is in BUILD/torture/STEP.log. Exit
status 1 when anything failed.

How much is done: TORTURE_KILLS, TORTURE_EVENTS, TORTURE_STARTS, TORTURE_CYCLES (of start and stop
in one session), TORTURE_SESSIONS (commanded at random), TORTURE_FAULTS (of each kind and command;
0: every one), TORTURE_INPUTS (times the inputs of `make check`, under the sanitizers of addresses
and undefined behaviour), TORTURE_SEED (a number that they are made from: by default the day) and
TORTURE_HOURS (of libFuzzer, all fuzzers together).
"""
import os
import platform
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RUN = os.path.join(HERE, "tests", "run", "run.py")
ASAN = os.path.join(HERE, "build-asan")


def amount(name, default):
    return os.environ.get("TORTURE_" + name, str(default))


class Step:
    """One row of the table: what a step counted while it ran."""

    def __init__(self, name, folder):
        self.name = name
        self.log = os.path.join(folder, name + ".log")
        self.passed = self.failed = self.skipped = 0
        self.figures = []
        self.seconds = 0.0

    def read(self, line):
        """One line of TAP, or of what a fuzzer's run prints."""
        if re.match(r"ok \d", line):
            skipped = "# SKIP" in line
            self.skipped += skipped
            self.passed += not skipped
        elif re.match(r"not ok \d|Bail out!|fuzz_\w+: .* crashes, see", line):
            self.failed += 1
        elif line.startswith("# figure: "):
            self.figures.append(line[10:].strip())
        fuzzed = re.match(r"fuzz_\w+: \d+ inputs, .*, no crash", line)
        replayed = re.match(r"ok \d+ - (\d+ inputs.*)", line)
        self.passed += bool(fuzzed)
        if fuzzed or replayed:
            self.figures.append(line.split(" - ")[-1].strip())

    def execute(self, argv, **env):
        """Run a command; what it prints goes to the log, and its lines are counted."""
        with open(self.log, "ab") as log:
            process = subprocess.Popen(
                argv,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=HERE,
                env=dict(os.environ, **env),
            )
            before = self.failed
            for line in process.stdout:
                log.write(line)
                log.flush()
                self.read(line.decode("utf-8", "replace"))
            if process.wait() and self.failed == before:
                self.failed += 1

    def summary(self):
        text = "%d passed, %d failed" % (self.passed, self.failed)
        return text + (", %d skipped" % self.skipped if self.skipped else "")


def run_suite(*words, **env):
    """A step that runs suites of tests/run."""

    def run_step(step, build):
        step.execute([sys.executable, RUN, "--build", build, *words], **env)

    return run_step


def sum_faults(step, build):
    """Every command with its n-th call failing: one figure instead of one a command."""
    run_suite("faults", WS_TEST_FAULTS=amount("FAULTS", 0))(step, build)
    faults = [int(re.search(r"(\d+) faults", text).group(1)) for text in step.figures]
    step.figures = ["%d faults in %d commands" % (sum(faults), len(faults))]


def replay_targets():
    listed = subprocess.run(
        ["ninja", "-C", ASAN, "-t", "targets", "all"], stdout=subprocess.PIPE, check=True
    ).stdout.decode()
    return re.findall(r"^(\S*/replay_[^ /]+): c(?:pp)?_LINKER", listed, re.M)


def replay_inputs(step, build):
    """Mutated reports, journals, traces, arenas and the rest, under ASan and UBSan."""
    if not os.path.exists(os.path.join(ASAN, "build.ninja")):
        options = ["-Dwerror=false", "-Db_sanitize=address,undefined", "-Db_lundef=false"]
        options += ["-Ddebug=false", "-Doptimization=1", "-Dc_args=-g1", "-Dcpp_args=-g1"]
        step.execute(["meson", "setup", ASAN, *options])
    step.execute(["ninja", "-C", ASAN, "build.ninja"])
    targets = replay_targets()
    step.execute(["ninja", "-C", ASAN, *targets])
    for target in targets:
        before = len(step.figures)
        step.execute(
            [os.path.join(ASAN, target)],
            WS_TEST_TIMES=amount("INPUTS", 10),
            WS_TEST_SEED=amount("SEED", time.strftime("%Y%m%d")),
            UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1",
        )
        name = os.path.basename(target)[len("replay_") :]
        step.figures[before:] = ["%s: %s" % (name, text) for text in step.figures[before:]]


def fuzz(step, build):
    """libFuzzer, from the corpora of the last time."""
    fuzzers = len(
        subprocess.run(
            ["git", "ls-files", "tests/**/fuzz_*.c"], stdout=subprocess.PIPE, cwd=HERE, check=True
        ).stdout.splitlines()
    )
    turns = max(1.0, fuzzers / len(os.sched_getaffinity(0)))
    seconds = float(amount("HOURS", 24)) * 3600 / turns
    step.execute(["scripts/fuzz.py"], FUZZ_SECONDS=str(max(1, int(seconds))), FUZZ_SEED="", CI="")


# In this order.
STEPS = {
    "kills": run_suite("kill", WS_TEST_KILLS=amount("KILLS", 3000)),
    "storms": run_suite("exact", WS_TEST_EVENTS=amount("EVENTS", 72000000)),
    "starts": run_suite("starts", WS_TEST_STARTS=amount("STARTS", 10000)),
    "sessions": run_suite(
        "sessions", WS_TEST_CYCLES=amount("CYCLES", 10000), WS_TEST_STORMS=amount("SESSIONS", 500)
    ),
    "hostile": run_suite("hostile", "others", "target", WS_TEST_TRUNCATIONS="100"),
    "faults": sum_faults,
    "programs": run_suite("programs", WS_TEST_PROGRAMS="all"),
    "inputs": replay_inputs,
    "fuzz": fuzz,
}


def describe_machine(build):
    model = platform.machine()
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        found = re.search(r"^model name\s*: (.*)$", f.read(), re.M)
        model = found.group(1) if found else model
    version = subprocess.run(
        [os.path.join(build, "warpsight"), "--version"], stdout=subprocess.PIPE, check=True
    ).stdout.decode()
    return "%s, %s, %d cores, Linux %s, %s" % (
        time.strftime("%Y-%m-%d"),
        model,
        os.cpu_count(),
        platform.release().split("-")[0],
        version.splitlines()[0],
    )


def show_time(seconds):
    if seconds < 100:
        return "%.0f s" % seconds
    return "%.0f min" % (seconds / 60) if seconds < 6000 else "%.1f h" % (seconds / 3600)


def print_table(build, steps):
    print("\n%s\n" % describe_machine(build))
    print("| Step | Tests | What was done | Time |\n|---|---|---|---|")
    for step in steps:
        figures = "; ".join(step.figures) or "-"
        print(
            "| %s | %s | %s | %s |" % (step.name, step.summary(), figures, show_time(step.seconds))
        )


def main():
    build = os.path.abspath(sys.argv[1])
    chosen = sys.argv[2:] or list(STEPS)
    folder = os.path.join(build, "torture")
    unknown = set(chosen) - set(STEPS)
    if unknown:
        sys.exit("torture: no step is called %s; there are %s" % (unknown.pop(), ", ".join(STEPS)))
    os.makedirs(folder, exist_ok=True)
    steps = []
    for name in chosen:
        step = Step(name, folder)
        open(step.log, "wb").close()
        begin = time.monotonic()
        STEPS[name](step, build)
        step.seconds = time.monotonic() - begin
        steps.append(step)
        print("%s: %s, %s" % (name, step.summary(), show_time(step.seconds)), flush=True)
        if step.failed:
            print("  see %s" % step.log, flush=True)
    print_table(build, steps)
    return 1 if any(step.failed for step in steps) else 0


if __name__ == "__main__":
    sys.exit(main())
