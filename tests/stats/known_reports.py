"""Reports of known rows for the whole-command tests of stats and export: made when they are first
asked for, with their SQLite exports, and the files in golden/ to compare with."""
import os
import sqlite3
import subprocess
import sys

from tap import run, same

HERE = os.path.dirname(os.path.abspath(__file__))
MAKE = os.path.abspath(sys.argv[2])
UPDATE = "--update" in sys.argv


def report(kind):
    path = kind + ".wsrep"
    if not os.path.exists(path):
        subprocess.run([MAKE, kind, path], check=True)
    return path


def golden(name, got):
    path = os.path.join(HERE, "golden", name)
    if UPDATE:
        with open(path, "wb") as f:
            f.write(got)
    with open(path, "rb") as f:
        same(got, f.read(), name)


def database(kind):
    path = kind + ".sqlite"
    if not os.path.exists(path):
        run("export", "-q", "--lazy=false", report(kind))
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    return db


def rows(db, sql, *args):
    return [tuple(r) for r in db.execute(sql, args)]
