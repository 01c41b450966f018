#!/usr/bin/env python3
"""
run.py - the OS-runtime hook on real programs: run.py --build BUILD [--only NAME] PROGRAM...; TAP on
standard output.

Each PROGRAM (C or C++, see scenario.h) lists its scenarios. Each runs bare, where its own checks
must hold; recorded with every call kept (--osrt-threshold 0), where they must hold again; and
recorded by default. The rows that it asks for must be in the reports.
"""
import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

Call = collections.namedtuple("Call", "pid tid name start end result error nesting object path")


# What qemu-user does not do, for the scenarios that need it.
NOT_EMULATED = {
    "kinds": "robust mutexes are not emulated",
    "forks": "a vfork's memory is not shared in emulation",
    "uncontended": "calls that do not wait are not short in emulation",
}


class Failed(Exception):
    pass


class Runner:
    def __init__(self, build):
        self.warpsight = os.path.join(build, "warpsight")
        self.dump = os.path.join(build, "tests", "osrt", "osrt_dump")
        self.dir = tempfile.mkdtemp(prefix="ws-osrt-")
        self.env = {
            k: v for k, v in os.environ.items() if not k.startswith(("WARPSIGHT", "LD_", "NVTX_"))
        }

    def command(self, argv, env=None):
        p = subprocess.run(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            cwd=self.dir,
            env=dict(self.env, **(env or {})),
            timeout=120,
        )
        status = p.returncode if p.returncode >= 0 else 128 - p.returncode
        return status, p.stdout.decode("utf-8", "replace"), p.stderr.decode("utf-8", "replace")

    def ok(self, argv, env=None):
        status, out, err = self.command(argv, env)
        wanted = re.search(r"^#status (\d+)$", out, re.M)
        if status != (int(wanted.group(1)) if wanted else 0):
            raise Failed("%s: status %d\n%s%s" % (" ".join(argv), status, out[-2000:], err[-2000:]))
        return out

    def rows(self, report):
        status, out, err = self.command([self.dump, report])
        if status:
            raise Failed("dump: " + err)
        calls, names = [], set()
        for line in out.split("\n"):
            f = line.split("\t")
            if f[0] == "call":
                end = None if f[5] == "-" else int(f[5])
                calls.append(
                    Call(int(f[1]), int(f[2]), f[3], int(f[4]), end, *map(int, f[6:10]), f[10])
                )
            elif f[0] == "name":
                names.add((int(f[2]), f[4]))
        return calls, names

    def profile(self, argv, options=(), env=None):
        report = os.path.join(self.dir, "report.wsrep")
        out = self.ok(
            [self.warpsight, "profile", "-f", "-o", report, "-t", "osrt", *options, *argv], env
        )
        return out, *self.rows(report)


def matches(call, field, value):
    if field == "open":
        return (call.end is None) == (value == "1")
    if field == "min_us":
        return call.end is None or call.end - call.start >= int(value) * 1000
    have = getattr(call, field)
    if isinstance(have, int):
        return have == int(value)
    return have.startswith(value[:-1]) if value.endswith("*") else have == value


def check_want(want, calls):
    fields = dict(f.split("=", 1) for f in want.split(" "))
    n = fields.pop("n", "1+")
    hits = [c for c in calls if all(matches(c, k, v) for k, v in fields.items())]
    if len(hits) < int(n.rstrip("+")) or (not n.endswith("+") and len(hits) != int(n)):
        same = [c for c in calls if c.name == fields.get("name")]
        raise Failed(
            "want %s: %d rows\nrows of that function:\n  %s"
            % (want, len(hits), "\n  ".join(map(str, same[:20])))
        )


def check_always(calls):
    for c in calls:
        if c.end is not None and c.end < c.start:
            raise Failed("ends before it starts: %s" % (c,))
        if c.name.startswith("__") or c.name.endswith("_chk"):
            raise Failed("a name that users do not know: %s" % (c,))


def scenario(r, program, name):
    env = {}
    out = r.ok([program, name])
    for e in re.findall(
        r"^#env (\w+)=(.*)$", out, re.M
    ):  # the recorded runs are to have this variable
        env[e[0]] = e[1]
    out, calls, _ = r.profile([program, name], ["--osrt-threshold", "0"], env)
    check_always(calls)
    for want in re.findall(r"^#want0 (.*)$", out, re.M):
        check_want(want, calls)
    out, calls, names = r.profile([program, name], (), env)
    check_always(calls)
    for want in re.findall(r"^#want (.*)$", out, re.M):
        check_want(want, calls)
    for tid, text in re.findall(r"^#name (\d+) (.*)$", out, re.M):
        if (int(tid), text) not in names:
            raise Failed("thread %s was not named %s: %s" % (tid, text, sorted(names)))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", required=True)
    p.add_argument("--only")
    p.add_argument("programs", nargs="+")
    a = p.parse_args()
    r = Runner(os.path.abspath(a.build))
    cases = []
    for program in a.programs:
        program = os.path.abspath(program)
        cases += [
            (program, name)
            for name in subprocess.run([program], stdout=subprocess.PIPE, check=True)
            .stdout.decode()
            .split()
        ]
    if a.only:
        cases = [c for c in cases if a.only in c[1]]
    print("1..%d" % len(cases), flush=True)
    failed = False
    for i, (program, name) in enumerate(cases, 1):
        title = "%s %s" % (os.path.basename(program), name)
        if os.environ.get("WS_TEST_EMULATED") and name in NOT_EMULATED:
            print("ok %d - %s # SKIP %s" % (i, title, NOT_EMULATED[name]), flush=True)
            continue
        try:
            scenario(r, program, name)
            print("ok %d - %s" % (i, title), flush=True)
        except (Failed, subprocess.TimeoutExpired) as e:
            failed = True
            print("not ok %d - %s\n# %s" % (i, title, str(e).replace("\n", "\n# ")), flush=True)
    shutil.rmtree(r.dir, ignore_errors=True)
    return 1 if failed else 0


sys.exit(main())
