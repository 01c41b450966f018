"""reports.py - what the tests of exports share: reports of all kinds, their SQLite export and the
words of the command line (WARPSIGHT MAKE_REPORT MAKE_LINE [TEST...])."""
import os
import sqlite3
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
from tap import run  # noqa: E402

MAKE, MAKE_LINE = (os.path.abspath(p) for p in sys.argv[2:4])
ONLY = sys.argv[4:]
MODULES = os.path.join(HERE, "node_modules")
SANITIZE = os.environ.get("WS_TEST_SANITIZE", "")
DUCKDB = os.environ.get("WARPSIGHT_DUCKDB") or os.path.join(
    MODULES, "@duckdb", "node-bindings-linux-x64", "libduckdb.so"
)


def report(kind):
    path = kind + ".wsrep"
    if not os.path.exists(path):
        subprocess.run([MAKE_LINE if kind in ("line", "long") else MAKE, kind, path], check=True)
    return path


def sqlite(path):
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    return db


def database(kind):
    path = kind + ".sqlite"
    if not os.path.exists(path):
        run("export", "-q", report(kind))
    return sqlite(path)


def rows(db, sql, *args):
    return [tuple(r) for r in db.execute(sql, args)]


def tables(db):
    return [r[0] for r in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]


def exported(kind, *options, name="x.sqlite"):
    run("export", "-q", "-f", "-o", name, *options, report(kind))
    return sqlite(name)


FORMATS = ["sqlite", "jsonlines", "arrow", "arrowdir", "parquetdir", "hdf", "chrome", "perfetto"]
NEED_NOTHING = [f for f in FORMATS if f not in ("parquetdir", "hdf")]
