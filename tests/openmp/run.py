#!/usr/bin/env python3
"""
run.py - OpenMP and OpenACC by the whole command: run.py WARPSIGHT STANDIN SOURCES; TAP on standard
output. The stand-in runtime is always there; what LLVM's and GCC's runtimes do is tested where they
are installed.
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from tap import Skip, main, run, same, test  # noqa: E402

STANDIN, SOURCES = os.path.abspath(sys.argv[2]), os.path.abspath(sys.argv[3])
QUIET = ("--sample=none", "--cpuctxsw=none", "--system-metrics=none", "-f")


def has(text, part):
    if part not in text:
        raise AssertionError("%r is not in %.3000r" % (part, text))


def record(domain, *target, env=(), options=()):
    """The report's path, and what the program and the recorder said."""
    got = run(
        *("profile", "-t", domain, *QUIET, "-o", "r", *options, *target),
        env={**os.environ, **dict(env)},
    )
    return "r.wsrep", got


def query(report, sql):
    return json.loads(run("query", "--format=json", report, sql).out)


def counts(report, table, column="name"):
    sql = (
        "SELECT s.value AS name, count(*) AS n, min(t.end - t.start) AS shortest FROM %s t JOIN "
        "StringIds s ON s.id = t.nameId GROUP BY 1" % table
    )
    return {row[column]: row["n"] for row in query(report, sql)}


def build(compiler, flag, source):
    program = "./" + os.path.splitext(source)[0] + "_" + compiler
    try:
        built = subprocess.run(
            [compiler, flag, "-O1", "-o", program, os.path.join(SOURCES, source)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
    except FileNotFoundError:
        raise Skip(compiler + " is not installed")
    if built.returncode:
        raise Skip("%s has no %s here" % (compiler, flag))
    return program


@test
def a_runtime_with_ompt_is_recorded():
    report, got = record("openmp", STANDIN)
    same(got.out, b"told\n")
    same(
        {kind: n for kind, n in of_kinds(report).items()},
        {
            "INITIAL": 1,
            "WORKER": 1,
            "PARALLEL": 1,
            "TASK": 4,
            "SYNC_REGION": 1,
            "TASK_CREATE": 3,
            "TASK_SCHEDULE": 6,
            "MUTEX_WAIT": 2,
            "CRITICAL_SECTION": 2,
            "MUTEX_RELEASED": 2,
        },
    )
    # What the worker has open ends with its region, however late it learns of that.
    region = query(report, "SELECT * FROM OPENMP_EVENT_KIND_PARALLEL")[0]
    same((region["eventClass"], region["eventKind"]), (78, 3))
    for table in ("OPENMP_EVENT_KIND_SYNC_REGION", "OPENMP_EVENT_KIND_TASK WHERE kind = 2"):
        row = query(report, "SELECT * FROM " + table)[0]
        same(row["parallelId"], region["parallelId"])
        same(row["end"], region["end"], table)
    target = query(
        report,
        "SELECT eventKind, value FROM WARPSIGHT_OPENMP WHERE eventKind IN (17, 18) ORDER BY 1",
    )
    same([(r["eventKind"], r["value"]) for r in target], [(17, 3), (18, 4096)])
    locks = query(report, "SELECT waitId, start, end FROM OPENMP_EVENT_KIND_CRITICAL_SECTION")
    same(sorted(r["waitId"] for r in locks), [0x100, 0x200])
    released = query(report, "SELECT waitId, start, end FROM OPENMP_EVENT_KIND_MUTEX_RELEASED")
    ends = {r["waitId"]: r["end"] for r in locks}
    same({r["waitId"]: r["start"] for r in released}, ends)


def of_kinds(report):
    """Rows of each table that people know, without those that are empty."""
    kinds = (
        "PARALLEL TASK SYNC_REGION TASK_CREATE TASK_SCHEDULE MUTEX_WAIT CRITICAL_SECTION "
        "MUTEX_RELEASED"
    ).split()
    found = {}
    for kind in kinds:
        sql = "SELECT count(*) AS n FROM OPENMP_EVENT_KIND_" + kind
        found[kind] = query(report, sql)[0]["n"]
    threads = query(report, "SELECT threadType FROM OPENMP_EVENT_KIND_THREAD ORDER BY 1")
    found["INITIAL"] = [r["threadType"] for r in threads].count(1)
    found["WORKER"] = [r["threadType"] for r in threads].count(2)
    return {kind: n for kind, n in found.items() if n}


@test
def domains_that_are_off_leave_the_runtime_alone():
    same(record("none", STANDIN)[1].out, b"no tool\n")
    same(record("openacc", STANDIN)[1].out, b"no tool\n")
    same(record("openmp", STANDIN, "openacc")[1].out, b"no library\n")


@test
def another_tool_goes_first():
    report, got = record("openmp", STANDIN, env={"OMP_TOOL_LIBRARIES": "/nowhere.so"})
    same(got.out, b"no tool\n")
    has(run("info", report).out.decode(), "OMP_TOOL_LIBRARIES names another")


@test
def an_openacc_runtime_is_recorded():
    report, got = record("openacc", STANDIN, "openacc")
    same(got.out, b"told\n")
    same(
        counts(report, "WARPSIGHT_OPENACC"),
        {
            "Compute construct at solve.c:24": 3,
            "Enqueue upload at solve.c:24": 3,
            "Enqueue launch at solve.c:24": 3,
        },
    )
    sql = (
        "SELECT l.*, k.value AS kernel, f.value AS file FROM CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH l "
        "JOIN StringIds k ON k.id = l.kernelName JOIN StringIds f ON f.id = l.srcFile"
    )
    launch = query(report, sql)[0]
    same(
        [launch[c] for c in "eventKind lineNo cuDeviceId cuStreamId numGangs numWorkers".split()],
        [18, 24, 1, 7, 8, 1],
    )
    same((launch["vectorLength"], launch["kernel"]), (128, "solve_24"))
    same(launch["file"], "/src/solve.c")
    data = query(report, "SELECT sum(bytes) AS n FROM CUPTI_ACTIVITY_KIND_OPENACC_DATA")
    same(data[0]["n"], 12000)
    has(run("stats", "-r", "openacc_sum", report).out.decode(), "Enqueue launch at solve.c:24")
    own = record("openacc", STANDIN, "openacc", env={"ACC_PROFLIB": "/nowhere.so"})[1]
    same(own.out, b"no library\n")  # the user's comes first, ours behind it


@test
def an_export_is_imported_as_it_was():
    report, _ = record("openmp", STANDIN)
    run("export", "-t", "sqlite", "-f", "true", "-o", "e.sqlite", report)
    run("import", "-f", "-o", "back.wsrep", "e.sqlite")
    same(of_kinds("back.wsrep"), of_kinds(report))
    same(query("back.wsrep", "SELECT count(*) AS n FROM WARPSIGHT_SLICE")[0]["n"], 0)
    same(counts("back.wsrep", "WARPSIGHT_OPENMP"), counts(report, "WARPSIGHT_OPENMP"))
    same(
        run("stats", "-r", "openmp_sum", "--format=csv", "back.wsrep").out,
        run("stats", "-r", "openmp_sum", "--format=csv", report).out,
    )


@test
def llvm_tells_of_everything():
    program = build("clang", "-fopenmp", "app.c")
    report, got = record("openmp", program)
    same(got.out, b"sum 4950\n")
    names = counts(report, "WARPSIGHT_OPENMP")
    bare = {}
    for name, n in names.items():
        bare[name.split(" in ")[0]] = bare.get(name.split(" in ")[0], 0) + n
    want = {
        "Parallel region": 7,
        "Implicit task": 21,
        "Explicit task": 20,
        "Task created": 20,
        "Critical section": 15,
        "Explicit barrier": 15,
        "Masked region": 5,
        "Lock held": 1,
        "Taskwait": 1,
        "Single": 1,
    }
    same({name: bare.get(name) for name in want}, want)
    same(names.get("Parallel region in solve"), 5)
    loops = query(report, "SELECT count FROM OPENMP_EVENT_KIND_WORKSHARE WHERE kind <> 3")
    same(sum(r["count"] == 64 for r in loops), 15)


@test
def gnu_says_that_it_has_no_interface():
    program = build("gcc", "-fopenmp", "app.c")
    report, got = record("openmp", program)
    same(got.out, b"sum 4950\n")
    has(run("info", report).out.decode(), "GNU's OpenMP runtime (libgomp), which has no interface")


@test
def gnu_tells_of_openacc():
    program = build("gcc", "-fopenacc", "acc.c")
    report, got = record("openacc", program)
    same(got.out, b"15\n")
    same(counts(report, "CUPTI_ACTIVITY_KIND_OPENACC_OTHER").get("Compute construct"), 4)


if __name__ == "__main__":
    sys.exit(main())
