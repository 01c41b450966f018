#!/usr/bin/env python3
"""Tests of the scripts that judge others: the count of `make check`, the check of the hooks'
symbols, the lines about fuzzers. Prints TAP.

Usage: test_scripts.py SCRIPTS-FOLDER
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

SCRIPTS = os.path.abspath(sys.argv[1])
number = failed = 0


def result(name, got, want):
    global number, failed
    number += 1
    if got == want:
        print(f"ok {number} - {name}")
        return
    failed += 1
    print(f"not ok {number} - {name}\n# got {got!r}\n# want {want!r}")


def count(entries, status):
    """(exit status, last line) of count.py for these entries of a meson log."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as log:
        for stdout, outcome in entries:
            log.write(json.dumps({"name": "x", "stdout": stdout, "result": outcome}) + "\n")
        log.flush()
        got = subprocess.run(
            [sys.executable, os.path.join(SCRIPTS, "count.py"), log.name, str(status)],
            stdout=subprocess.PIPE,
            check=False,
        )
    return got.returncode, got.stdout.decode().splitlines()[-1]


def slowest(*durations):
    """What count.py says of programs that took so many seconds, and adds to WS_TEST_TIMES."""
    with tempfile.TemporaryDirectory() as folder:
        log, times = os.path.join(folder, "log.json"), os.path.join(folder, "times")
        with open(log, "w") as f:
            for i, seconds in enumerate(durations):
                entry = {
                    "name": "s / %d" % i,
                    "stdout": "ok 1",
                    "result": "OK",
                    "duration": seconds,
                }
                f.write(json.dumps(entry) + "\n")
        got = subprocess.run(
            [sys.executable, os.path.join(SCRIPTS, "count.py"), log, "0"],
            stdout=subprocess.PIPE,
            check=True,
            env=dict(os.environ, WS_TEST_TIMES=times),
        )
        with open(times) as f:
            return got.stdout.decode().splitlines()[0], f.read().split("\n")[0].strip()


result(
    "the slowest are told",
    slowest(1.2, 30.6, 4.4),
    ("slowest: 1 31 s, 2 4 s, 0 1 s", "30.6 s  s / 1"),
)

TAP = "1..3\nok 1 - a\nok 2 - b # SKIP no\nok 3 - c\n# ok - not a test\n"
result("TAP lines are tests", count([(TAP, "OK")], 0), (0, "2 passed, 0 failed, 1 skipped"))
result(
    "a program without TAP is one test",
    count([("fine\n", "OK"), (None, "OK")], 0),
    (0, "2 passed, 0 failed"),
)
result(
    "a failed line fails", count([("ok 1\nnot ok 2 - b\n", "FAIL")], 1), (1, "1 passed, 1 failed")
)
result(
    "a crash after good lines fails",
    count([("ok 1\nok 2\n", "ERROR")], 1),
    (1, "2 passed, 1 failed"),
)
result("a time-out fails", count([("", "TIMEOUT")], 1), (1, "0 passed, 1 failed"))
result(
    "a skipped program is skipped",
    count([("", "SKIP"), ("", "OK")], 0),
    (0, "1 passed, 0 failed, 1 skipped"),
)
result("a run without tests fails", count([], 0), (1, "0 passed, 1 failed"))
result("a failure of meson itself fails", count([("ok 1\n", "OK")], 2), (1, "1 passed, 1 failed"))


def looked_at_again(*entries):
    """Names of what count.py would run once more, of (stdout, result, status, stderr)."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as log:
        for i, (stdout, outcome, status, stderr) in enumerate(entries):
            log.write(
                json.dumps(
                    {
                        "name": "s / %d" % i,
                        "stdout": stdout,
                        "stderr": stderr,
                        "result": outcome,
                        "returncode": status,
                    }
                )
                + "\n"
            )
        log.flush()
        got = subprocess.run(
            [sys.executable, os.path.join(SCRIPTS, "count.py"), "--second-look", log.name],
            stdout=subprocess.PIPE,
            check=True,
        )
    return got.stdout.decode().split()


BAD = "ok 1 - a\nnot ok 2 - b\n# why\n"
GOOD = ("ok 1 - a\n", "OK", 0, "")
result(
    "one that said not ok is run again, with whatever status",
    looked_at_again((BAD, "ERROR", 1, ""), GOOD, (BAD, "FAIL", 0, ""), (BAD, "ERROR", 2, "")),
    ["0", "2", "3"],
)
for what, entry in (
    ("a crash", (BAD, "ERROR", -11, "")),
    ("a crash below a shell", (BAD, "ERROR", 139, "")),
    ("a time-out", (BAD, "TIMEOUT", 1, "")),
    ("an end before the last test", ("ok 1 - a\n", "ERROR", 1, "")),
    ("a report of a sanitizer", (BAD, "ERROR", 1, "ERROR: AddressSanitizer: x")),
    ("three failures", (BAD * 3, "ERROR", 1, "")),
):
    result(what + " is not", looked_at_again(entry, GOOD), [])


def library(source, *flags):
    """The failed lines of check-hooks.sh for a library made of this source."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "libx.so")
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-o", path, "-x", "c", "-", *flags],
            input=source.encode(),
            check=True,
        )
        got = subprocess.run(
            [os.path.join(SCRIPTS, "check-hooks.sh"), "readelf", path],
            stdout=subprocess.PIPE,
            check=False,
        )
    lines = [
        line.split(" - ")[0].split()[-1]
        for line in got.stdout.decode().splitlines()
        if line.startswith("not ok")
    ]
    return got.returncode, lines


def not_executable(root):
    """Scripts that begin with #! and cannot be called by their names, as the documents do."""
    found = []
    for folder in ("bench", "examples", "scripts", "tests"):
        for place, _, files in os.walk(os.path.join(root, folder)):
            if "node_modules" not in place:
                for path in (os.path.join(place, f) for f in files if f.endswith((".py", ".sh"))):
                    with open(path, "rb") as f:
                        if f.read(2) == b"#!" and not os.stat(path).st_mode & 0o100:
                            found.append(path)
    return sorted(found)


result("scripts can be called by their names", not_executable(os.path.dirname(SCRIPTS)), [])

# A fuzzer that is a shell script: what libFuzzer prints, and a crash the first time that it runs.
FUZZER = """#!/bin/sh
case $1 in -help=1) exit 0;; esac
for corpus; do :; done
echo "#2 pulse  cov: 3 ft: 5 corp: 1/1b"
echo "#5 INITED cov: 10 ft: 12 corp: 3/9b"
if [ ! -e "$corpus/crashed" ] && [ "${0%crashes}" != "$0" ]; then
	: >"$corpus/crashed"
	echo "#70 NEW    cov: 12 ft: 14 corp: 4/12b"
	exit 77
fi
echo "#100 DONE   cov: 17 ft: 21 corp: 9/50b"
echo "stat::number_of_executed_units: 1000"
"""


def fuzz_packed(*words, **env):
    """Run a packed folder of made-up fuzzers: exit status and what it printed, in order."""
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "bin"))
        os.makedirs(os.path.join(folder, "lib", "libc"))
        shutil.copy(os.path.join(SCRIPTS, "fuzz.py"), folder)
        for name in ("fuzz_crashes", "fuzz_lasts"):
            path = os.path.join(folder, "bin", name)
            with open(path, "w") as f:
                f.write(FUZZER)
            os.chmod(path, 0o755)
        got = subprocess.run(
            [sys.executable, os.path.join(folder, "fuzz.py"), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            env=dict(os.environ, FUZZ_SECONDS="60", **env),
        )
        lines = got.stdout.decode().replace(folder, "FOLDER").splitlines()
        return got.returncode, sorted(line for line in lines if not line.startswith("  "))


LASTS = "fuzz_lasts: %d inputs, 17 places reached, 7 of them new, no crash"
result(
    "a line for each fuzzer",
    fuzz_packed(FUZZ_JOBS="1"),
    (
        1,
        [
            "1 passed, 1 failed",
            "fuzz_crashes: 1070 inputs, 17 places reached, 7 of them new, 1 crashes, see"
            " FOLDER/crashes",
            LASTS % 1000,
        ],
    ),
)
result(
    "more processes than fuzzers share one",
    fuzz_packed("lasts", FUZZ_JOBS="3"),
    (0, ["1 passed, 0 failed", LASTS % 3000]),
)
result(
    "a fuzzer that there is not",
    fuzz_packed("nothing"),
    (1, ["fuzz: no fuzzer is called nothing; there are crashes, lasts"]),
)
result(
    "a list of cores that is none",
    fuzz_packed(FUZZ_CORES="4-"),
    (1, ['fuzz: FUZZ_CORES is "4-"; it has to be a list of cores such as 4-15']),
)

if shutil.which("cc") and shutil.which("readelf"):
    result(
        "a plain library passes the check of hooks", library("int f(void) { return 1; }"), (0, [])
    )
    result(
        "a further library is found",
        library(
            "double sqrt(double); double f(double x) { return sqrt(x); }",
            "-Wl,--no-as-needed",
            "-lm",
        )[1][:1],
        ["1"],
    )
    if os.confstr("CS_GNU_LIBC_VERSION").split()[-1].split(".") >= ["2", "34"]:
        newer = "#include <pthread.h>\nint f(pthread_t *t) { return pthread_create(t, 0, 0, 0); }"
        result("a symbol that old systems lack is found", library(newer), (1, ["2"]))
    result(
        "a symbol without version is found",
        library("int nowhere(void); int f(void) { return nowhere(); }"),
        (1, ["3"]),
    )
    result(
        "much thread-local memory is found",
        library("__thread char big[100]; char *f(void) { return big; }")[1][:1],
        ["4"],
    )
    result(
        "an executable stack is found",
        library("int f(void) { return 1; }", "-Wl,-z,execstack"),
        (1, ["5"]),
    )
print(f"1..{number}")
sys.exit(1 if failed else 0)
