"""What the tests of samples and of states share: reports, tables in CSV, and the rows of a report's
SQLite export, from which figures are computed again. Used by programs that are called with
WARPSIGHT MAKE_CPU_REPORT MAKE_REPORT [--update].
"""
import collections
import csv
import io
import os
import sqlite3
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from tap import run, same

MAKE, MAKE_ANY = (os.path.abspath(p) for p in sys.argv[2:4])
UPDATE = "--update" in sys.argv
STATS = ["cpu_sample_sum", "sched_sum", "cpu_util", "thread_wait_sum", "gil_sum", "cpu_gap_sum"]


def same_items(got, want, what=""):
    """Dictionaries, by what differs."""
    for key in sorted(set(got) | set(want), key=repr):
        if got.get(key) != want.get(key):
            raise AssertionError(
                "%s: %r\ngot:    %r\nwanted: %r" % (what, key, got.get(key), want.get(key))
            )
    same(len(want) > 0, True, what + ": something to compare")


def report(kind):
    path = kind + ".wsrep"
    if not os.path.exists(path):
        subprocess.run([MAKE_ANY if kind in ("wild", "empty") else MAKE, kind, path], check=True)
    return path


def golden(name, got):
    path = os.path.join(HERE, "golden", name)
    if UPDATE:
        with open(path, "wb") as f:
            f.write(got)
    with open(path, "rb") as f:
        same(got, f.read(), name)


def table(*args):
    """Rows of a table in CSV as dictionaries, without units in the names of columns; numbers as
    numbers.
    """
    text = run(*args, "-q", "-f", "csv").out.decode()
    rows = list(csv.reader(io.StringIO(text.rstrip("\n"), newline="")))
    names = [n.split(" (")[0] for n in rows[0]]

    def value(s):
        try:
            return float(s) if "." in s else int(s)
        except ValueError:
            return s

    return [dict(zip(names, map(value, r))) for r in rows[1:]]


def stats(name, *more, kind="random"):
    return table("stats", "-r", name, *more, report(kind))


# ---- the raw rows, and what follows from them ----

Sample = collections.namedtuple(
    "Sample", "at thread stack weight"
)  # stack: functions, innermost first
Function = collections.namedtuple("Function", "name module")


class Rows:
    def __init__(self, kind):
        path = kind + ".sqlite"
        if not os.path.exists(path):
            run("export", "-q", report(kind))
        db = self.db = sqlite3.connect(path)
        text = self.text = dict(db.execute("SELECT id, value FROM StringIds"))
        self.names = dict(
            db.execute(
                "SELECT globalTid, (SELECT value FROM StringIds WHERE id = nameId) FROM ThreadNames"
            )
        )
        modules = {i: text[p] for i, p in db.execute("SELECT id, pathId FROM WARPSIGHT_MODULE")}
        symbols = collections.defaultdict(dict)
        for frame, depth, number, name in db.execute(
            "SELECT frameId, depth, setId, nameId FROM WARPSIGHT_SYMBOL"
        ):
            symbols[frame].setdefault(number, []).append((depth, text.get(name)))
        self.frames = {}
        for i, module, name, file in db.execute(
            "SELECT id, moduleId, nameId, fileId FROM WARPSIGHT_FRAME"
        ):
            where = modules.get(module, "")
            known = sorted(symbols[i][max(symbols[i])]) if i in symbols else [(0, None)]
            if name:
                self.frames[i] = [Function(text[name], text[file])]
            else:
                self.frames[i] = [
                    Function(n or ("[%s]" % where.split("/")[-1] if where else "[unknown]"), where)
                    for _, n in known
                ]
        self.stack_rows = {
            i: (p, f) for i, p, f in db.execute("SELECT id, parentId, frameId FROM WARPSIGHT_STACK")
        }
        self.samples = [
            Sample(t, g, self.functions(f, c), w)
            for t, g, f, c, w in db.execute(
                "SELECT start, globalTid, frameId, callersId, cpuCycles FROM COMPOSITE_EVENTS WHERE"
                " eventId = 1"
            )
        ]

    def functions(self, frame, stack):
        out = list(self.frames[frame]) if frame else []
        while stack:
            stack, frame = self.stack_rows[stack]
            out += self.frames[frame]
        return tuple(out)

    def thread(self, g):
        return "%s (%d)" % (self.names.get(g, "thread"), g & 0xFFFFFF)


ROWS = {}


def rows(kind="random"):
    if kind not in ROWS:
        ROWS[kind] = Rows(kind)
    return ROWS[kind]


def flat(samples):
    """Self and total (count, weight) by function."""
    out = collections.defaultdict(lambda: [0, 0, 0, 0])
    for s in samples:
        out[s.stack[0]][0] += 1
        out[s.stack[0]][1] += s.weight
        for f in set(s.stack):
            out[f][2] += 1
            out[f][3] += s.weight
    return {k: tuple(v) for k, v in out.items()}


def shown(table_rows, *keys):
    return {
        tuple(r[k] for k in keys): (r["Samples"], r["Self Time"], r["Total Time"])
        for r in table_rows
    }


def wanted(samples):
    return {tuple(f): (v[0], v[1], v[3]) for f, v in flat(samples).items()}
