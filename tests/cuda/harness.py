"""harness.py - what the tests of CUDA share: programs recorded with the stand-in for the driver
and CUPTI, and their reports. SCRIPT --build BUILD-FOLDER [WORD...] runs the tests whose names have
one of the words, and prints TAP.
"""
import argparse
import csv
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
p = argparse.ArgumentParser()
p.add_argument("--build", required=True)
p.add_argument("--part", help="I/N: every N-th of the tests from the I-th")
p.add_argument("words", nargs="*")
A = p.parse_args()
BUILD = os.path.abspath(A.build)
WARPSIGHT = os.path.join(BUILD, "warpsight")
PROGRAMS = os.path.join(BUILD, "tests", "cuda")
TMP = tempfile.mkdtemp(prefix="warpsight-cuda-")
HOME = os.path.join(
    TMP, "toolkit"
)  # looks like a toolkit: CUDA_HOME leads the hook to the stand-in
os.makedirs(os.path.join(HOME, "lib64"))
os.symlink(os.path.join(PROGRAMS, "libcupti.so.13"), os.path.join(HOME, "lib64", "libcupti.so.13"))
TESTS = []


def test(f):
    TESTS.append(f)
    return f


class Report:
    def __init__(
        self, *what, options=(), fault=None, expect=0, app="cuda-app", env=None, program=None
    ):
        self.path = os.path.join(TMP, "r%d.wsrep" % len(os.listdir(TMP)))
        e = dict(os.environ, CUDA_HOME=HOME, **(env or {}))
        for name in ("CUDA_INJECTION64_PATH", "CUDA_PATH"):
            if not env or name not in env:
                e.pop(name, None)
        e["STANDIN_FAULT"] = fault or ""
        r = subprocess.run(
            [
                WARPSIGHT,
                "profile",
                "-o",
                self.path,
                *options,
                "--",
                program or os.path.join(PROGRAMS, app),
                *what,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=e,
            timeout=120,
        )
        self.out, self.err = r.stdout, r.stderr
        assert r.returncode == expect, "exit %d, not %d: %s" % (r.returncode, expect, r.stderr)
        self.load()

    @classmethod
    def at(cls, path):
        """A report that has been written already."""
        report = cls.__new__(cls)
        report.path = path
        report.load()
        return report

    def load(self):
        subprocess.run(
            [WARPSIGHT, "export", "-q", "--lazy=false", "-o", self.path + ".sqlite", self.path],
            check=True,
        )
        self.db = sqlite3.connect(self.path + ".sqlite")

    def all(self, sql):
        return self.db.execute(sql).fetchall()

    def one(self, sql):
        return self.db.execute(sql).fetchone()[0]

    def kernels(self):
        return dict(
            self.all(
                "SELECT s.value, count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON"
                " s.id = k.shortName GROUP BY 1"
            )
        )

    def calls(self):
        return dict(
            self.all(
                "SELECT s.value, count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON"
                " s.id = r.nameId GROUP BY 1"
            )
        )

    def count(self, table, where="1"):
        return self.one("SELECT count(*) FROM %s WHERE %s" % (table, where))

    def stats(self, name):
        """Rows of a report of statistics, by column."""
        r = subprocess.run(
            [WARPSIGHT, "stats", "-q", "-r", name, "-f", "csv", self.path],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return list(csv.DictReader(line for line in r.stdout.splitlines() if line))

    def said(self):
        return " ".join(t for (t,) in self.all("SELECT text FROM DIAGNOSTIC_EVENT"))


def same(what, got, want):
    assert got == want, "%s: %r, not %r" % (what, got, want)


def joined(r):
    """Each piece of work has exactly one call of its process."""
    for t in ("KERNEL", "MEMCPY", "MEMSET"):
        same(
            "%s without exactly one call" % t,
            r.one(
                "SELECT count(*) FROM (SELECT count(a.correlationId) AS calls FROM"
                " CUPTI_ACTIVITY_KIND_%s w LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME a ON"
                " a.correlationId = w.correlationId AND"
                " a.globalTid / 0x1000000 = w.globalPid / 0x1000000 GROUP BY w.rowid)"
                " WHERE calls != 1" % t
            ),
            0,
        )


LAUNCH, COPY, SYNC = (
    "cudaLaunchKernel_v7000",
    "cudaMemcpyAsync_v3020",
    "cudaStreamSynchronize_v3020",
)


def main(kind="cuda", explain_skip=None):
    """Run the tests that were chosen. `explain_skip` says of a test why it is left out, or None."""
    failed = 0
    chosen = [t for t in TESTS if not A.words or any(w in t.__name__ for w in A.words)]
    if A.part:
        number, parts = map(int, A.part.split("/"))
        chosen = chosen[number - 1 :: parts]
    for i, t in enumerate(chosen, 1):
        name = "%s: %s" % (kind, t.__name__.replace("_", " "))
        reason = explain_skip(t) if explain_skip else None
        if reason:
            print("ok %d - %s # SKIP %s" % (i, name, reason), flush=True)
            continue
        try:
            t()
            print("ok %d - %s" % (i, name), flush=True)
        except Exception as e:  # each test says what was wrong
            failed += 1
            why = str(e) if isinstance(e, AssertionError) else traceback.format_exc()
            print("not ok %d - %s" % (i, name), flush=True)
            print("# " + why.replace("\n", "\n# "), flush=True)
    print("1..%d" % len(chosen))
    shutil.rmtree(TMP, ignore_errors=True)
    sys.exit(1 if failed else 0)
