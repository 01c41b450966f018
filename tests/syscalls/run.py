#!/usr/bin/env python3
"""run.py - --trace=syscall by the whole command: run.py WARPSIGHT APP; TAP on standard output."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import Skip, main, run, same, test  # noqa: E402

APP = os.path.abspath(sys.argv[2])
QUIET = ("--sample=none", "--cpuctxsw=none", "--system-metrics=none", "-f", "-o", "r")


def record(*target, options=(), env=()):
    return run(
        *("profile", "-t", "syscall", *QUIET, *options, *target), env={**os.environ, **dict(env)}
    )


def query(sql):
    return json.loads(run("query", "--format=json", "r.wsrep", sql).out)


def said():
    return run("info", "r.wsrep").out.decode()


def need_permission():
    if "system calls are not recorded" in said():
        raise Skip("system calls may not be recorded here")


def counts():
    rows = query(
        "SELECT v.value AS name, count(*) AS n FROM SYSCALL s JOIN StringIds v ON v.id = s.nameId "
        "GROUP BY 1"
    )
    return {row["name"]: row["n"] for row in rows}


@test
def every_call_of_the_tree_is_recorded():
    same(record(APP).out, b"done\n")
    need_permission()
    got = counts()
    want = {"getgid": 7, "getegid": 11, "geteuid": 5}
    # The loader of the images asks who the user is, too, on some systems.
    same({name: got.get(name, 0) >= n for name, n in want.items()}, dict.fromkeys(want, True))
    same(got.get("getuid", 0) >= 50, True, got)
    same(got.get("execve", 0) >= 2, True, got)
    by_thread = query(
        "SELECT s.globalTid AS t, count(*) AS n FROM SYSCALL s JOIN StringIds v ON v.id = s.nameId "
        "WHERE v.value = 'getgid' GROUP BY 1 ORDER BY 2 DESC"
    )
    same(by_thread[0]["n"], 7)
    failed = query(
        "SELECT returnValue AS r FROM SYSCALL s JOIN StringIds v ON v.id = s.nameId WHERE "
        "v.value = 'close' AND returnValue < 0"
    )
    same([row["r"] for row in failed].count(-9), 1)
    same(query("SELECT count(*) AS n FROM SYSCALL WHERE end < start")[0]["n"], 0)
    table = run("stats", "-r", "syscall_sum", "--format=csv", "r.wsrep").out.decode()
    same("Num Calls" in table.splitlines()[0] and ",getgid" in table, True, table)


@test
def what_comes_too_fast_is_counted():
    record(APP, "many")
    need_permission()
    kept = counts()["getuid"]
    # Each call is recorded, or counted: by the program in the kernel or, where the recorder did
    # not come round in time, with perf's other records. Other calls may be among those.
    lost = re.findall(r"^ *(\d+) of (?:system calls|CPU samples)", said(), re.M)
    same(kept + sum(map(int, lost)) >= 2000000, True, (kept, lost))


@test
def where_it_is_not_permitted_it_is_said():
    got = record(APP, env={"WARPSIGHT_SYSCALLS": "none"})
    same(got.out, b"done\n")
    same("--trace=syscall: system calls are not recorded" in said(), True, said())


if __name__ == "__main__":
    sys.exit(main())
