"""The queries that people pass on to each other (bench/common_queries.py), over reports and over
their SQLite exports: test_common_queries.py WARPSIGHT MAKE_REPORT CUDA_BENCH; TAP.

Rows must be SQLite's, and the tables may hand over only so many rows, whatever order SQLite gives
the joins: a few times those that there are.
"""
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "..", "bench")]
from common_queries import QUERIES
from tap import check, done

WARPSIGHT, MAKE, CUDA_BENCH = map(os.path.abspath, sys.argv[1:4])
# How often the rows of a query's tables may be handed over. One look-up too wide costs hundreds.
MOST_PASSES = 6
LOOK_UPS = {
    "left join, id first": (
        "SELECT count(*) FROM NVTX_EVENTS n LEFT JOIN StringIds ON id = n.textId"
    ),
    "no such text": (
        "SELECT count(*) FROM NVTX_EVENTS n JOIN StringIds s ON s.value = n.text || 'x'"
    ),
    "a text by its value": (
        "SELECT count(*) FROM StringIds s JOIN CUPTI_ACTIVITY_KIND_KERNEL k ON s.id = k.shortName"
        " WHERE s.value = (SELECT max(value) FROM StringIds WHERE value LIKE '%kernel%')"
    ),
    "an id that is a real number": (
        "SELECT value FROM StringIds WHERE id IN (SELECT shortName * 1.0 FROM"
        " CUPTI_ACTIVITY_KIND_KERNEL UNION SELECT shortName + 0.5 FROM CUPTI_ACTIVITY_KIND_KERNEL)"
    ),
    "an id that is a text": (
        "SELECT value FROM StringIds WHERE id = (SELECT CAST(min(nameId) AS TEXT) FROM"
        " CUPTI_ACTIVITY_KIND_RUNTIME) OR id = 'x' OR id = x'32'"
    ),
    "kinds by label": (
        "SELECT n.start, e.label FROM NVTX_EVENTS n LEFT JOIN ENUM_NSYS_EVENT_TYPE e"
        " ON e.id = n.eventType"
    ),
    "threads by name": (
        "SELECT count(*) FROM NVTX_EVENTS n LEFT JOIN ThreadNames t ON t.globalTid = n.globalTid"
    ),
    "a bound that is null": "SELECT count(*) FROM NVTX_EVENTS n WHERE start > NULL",
    "ends that are missing": (
        "SELECT count(*) FROM NVTX_EVENTS a JOIN NVTX_EVENTS b ON b.end >= a.start AND"
        " b.start <= a.start AND b.globalTid = a.globalTid WHERE a.end IS NULL"
    ),
    "bounds that are real numbers": (
        "SELECT count(*) FROM NVTX_EVENTS a JOIN NVTX_EVENTS b ON b.start > a.start + 0.5 AND"
        " b.start < a.end - 0.5"
    ),
    "bounds that are texts": (
        "SELECT count(*) FROM NVTX_EVENTS a JOIN NVTX_EVENTS b ON b.start = CAST(a.start AS TEXT)"
    ),
    "one moment": ("SELECT count(*) FROM NVTX_EVENTS a JOIN NVTX_EVENTS b ON b.start = a.end"),
}
# Those that ask for many pairs, or for texts compared with numbers.
MANY_ROWS = "ends that are missing", "bounds that are real numbers", "bounds that are texts"


def ask(report, sql):
    """Rows, how many the tables handed over, and the message if there is one."""
    r = subprocess.run(
        [WARPSIGHT, "query", "-v", "-f", "json", sql, report],
        capture_output=True,
        text=True,
        timeout=200,
    )
    counted = re.search(r"(\d+) rows", r.stderr)
    if r.returncode or not counted:
        return None, 0, r.stderr
    return [list(row.values()) for row in json.loads(r.stdout)], int(counted[1]), r.stderr


def alike(rows):
    """Numbers to ten digits, since sums of real numbers depend on their order."""
    return [["%.10g" % v if isinstance(v, (int, float)) else v for v in row] for row in rows]


def count_rows(db, sql):
    """The rows of all tables that the query names."""
    tables = set(re.findall(r"\b(?:FROM|JOIN) (\w+)", sql))
    known = {t for (t,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    return sum(db.execute("SELECT count(*) FROM " + t).fetchone()[0] for t in tables & known)


def export(path):
    subprocess.run([WARPSIGHT, "export", "-q", "-t", "sqlite", "--lazy=false", path], check=True)
    return sqlite3.connect(path.replace(".wsrep", ".sqlite"))


def same_rows(sql, got, want):
    """Equal, and in the same order where the query asks for one."""
    got, want = alike(got), alike(want)
    if "ORDER BY" not in sql:
        got, want = sorted(map(str, got)), sorted(map(str, want))
    return got == want


def test_report(name, path, db):
    most = 0
    for title, sql in {**QUERIES, **LOOK_UPS}.items():
        got, visited, message = ask(path, sql)
        want = [list(row) for row in db.execute(sql)]
        check(
            "%s: %s" % (name, title),
            got is not None and same_rows(sql, got, want),
            "%s\nhave %s\nwant %s" % (message, got and got[:4], want[:4]),
        )
        bound = MOST_PASSES * count_rows(db, sql) + 1000
        if title not in MANY_ROWS:
            check("%s: %s: few rows are read" % (name, title), visited <= bound, (visited, bound))
        most = max(most, len(want))
    check(name + ": some query has rows", most > 0)


def main():
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("basic", "cuda"):
            path = os.path.join(folder, kind + ".wsrep")
            subprocess.run([MAKE, kind, path], check=True)
            test_report(kind, path, export(path))
        path = os.path.join(folder, "steps.wsrep")
        subprocess.run([CUDA_BENCH, path, "same", "6000"], check=True)
        test_report("steps", path, export(path))
    return done()


sys.exit(main())
