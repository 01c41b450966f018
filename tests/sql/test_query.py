"""The command query against SQLite itself over the SQLite export of the same report:
test_query.py WARPSIGHT MAKE_REPORT [SECTION... | --part=I/N]; TAP.

The export is the independent expectation: both must give the same rows for any query, whatever plan
the virtual tables choose.
"""
import ctypes
import fcntl
import json
import os
import pty
import random
import re
import select
import sqlite3
import subprocess
import sys
import tempfile
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import RACES_ONLY, check, done, part_of

WARPSIGHT, MAKE = map(os.path.abspath, sys.argv[1:3])
REPORTS = {}
SANITIZED = "WS_TEST_SANITIZE" in os.environ


def run(*args, stdin=None):
    return subprocess.run(
        [WARPSIGHT, "query", *args], capture_output=True, text=True, input=stdin, timeout=120
    )


def same_rows(got, want):
    """Equal as multisets; numbers that both hold as reals to 12 digits."""

    def key(row):
        return tuple(
            (
                (0, "")
                if v is None
                else (1, "%.12g" % (v + 0.0 if v else 0))
                if isinstance(v, (int, float))
                else (2, v)
            )
            for v in row
        )

    return got == want or sorted(map(key, got)) == sorted(map(key, want))


def ask(report, sql):
    r = run("-q", "-f", "json", sql, report)
    if r.returncode:
        return None, r.stderr
    rows = [list(o.values()) for o in json.loads(r.stdout)]
    return rows, r.stderr


def ask_all(report, queries):
    """The rows of each query, run by one command: tables of JSON one after the other."""
    r = run("-q", "-f", "json", "; ".join(queries), report)
    text, out, decoder, at = r.stdout.strip(), [], json.JSONDecoder(), 0
    while at < len(text):
        value, end = decoder.raw_decode(text, at)
        out.append([list(o.values()) for o in value])
        at = re.compile(r"\s*").match(text, end).end()
    return out, r.stderr


def ask_in_batches(report, queries, size=40):
    """(query, rows or None, message) of each; a batch that fails is asked again one by one."""
    for first in range(0, len(queries), size):
        batch = queries[first : first + size]
        answers, message = ask_all(report, batch)
        if len(answers) == len(batch):
            yield from ((sql, rows, message) for sql, rows in zip(batch, answers))
        else:
            yield from ((sql, *ask(report, sql)) for sql in batch)


def reference(db, sql):
    def cell(v):
        return v.hex() if isinstance(v, bytes) else v

    return [[cell(v) for v in row] for row in db.execute(sql)]


def compare(name, report, db, sql):
    got, message = ask(report, sql)
    want = reference(db, sql)
    check(
        "%s: %s" % (name, sql),
        got is not None and same_rows(got, want),
        "%s\nhave %s\nwant %s" % (message, got and got[:5], want[:5]),
    )


# What only the export has, or what names the export itself.
EXPORT_ONLY = {"META_DATA_EXPORT"}


def test_tables(name, report, db):
    tables = [t for (t,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    got, message = ask(report, "SELECT name FROM sqlite_schema")
    check(
        name + ": the same tables",
        got is not None and {r[0] for r in got} == set(tables),
        "%s %s" % (got, message),
    )
    queries = []
    for t in tables:
        if t not in EXPORT_ONLY and t != "StringIds":
            columns = [c[1] for c in db.execute("PRAGMA table_info(%s)" % t)]
            queries.append("SELECT %s FROM %s" % (", ".join('"%s"' % c for c in columns), t))
    got, message = ask_all(report, queries)
    check("%s: %d tables are answered" % (name, len(queries)), len(got) == len(queries), message)
    for sql, rows in zip(queries, got):
        want = reference(db, sql)
        check(
            "%s: %s" % (name, sql), same_rows(rows, want), "have %s\nwant %s" % (rows[:5], want[:5])
        )
    want = dict(db.execute("SELECT id, value FROM StringIds"))
    got, _ = ask(report, "SELECT id, value FROM StringIds")
    have = dict(map(tuple, got or []))
    check(
        name + ": StringIds has what is pointed to",
        all(have.get(k) == v for k, v in want.items()),
        want,
    )


QUERIES = {
    "basic": [
        "SELECT globalTid, count(*), sum(end - start) FROM NVTX_EVENTS GROUP BY globalTid",
        "SELECT text, count(*), min(start), max(end) FROM NVTX_EVENTS GROUP BY text",
        (
            "SELECT text, textId, eventType, count(*) FROM NVTX_EVENTS GROUP BY text, textId,"
            " eventType"
        ),
        "SELECT DISTINCT eventType FROM NVTX_EVENTS",
        "SELECT DISTINCT globalTid, domainId FROM NVTX_EVENTS",
        "SELECT count(*) FROM NVTX_EVENTS WHERE start >= 100 AND end < 5000",
        "SELECT * FROM NVTX_EVENTS WHERE start = 100",
        "SELECT * FROM NVTX_EVENTS WHERE text = 'payload'",
        "SELECT * FROM NVTX_EVENTS WHERE text = 'PAYLOAD' COLLATE NOCASE",
        "SELECT * FROM NVTX_EVENTS WHERE eventType = '34'",
        "SELECT * FROM NVTX_EVENTS WHERE eventType = 34.0",
        "SELECT * FROM NVTX_EVENTS WHERE eventType = 34.5",
        "SELECT * FROM NVTX_EVENTS WHERE eventType = NULL",
        "SELECT * FROM NVTX_EVENTS WHERE category IS NULL",
        "SELECT * FROM NVTX_EVENTS WHERE eventType IN (33, 34, 75)",
        "SELECT * FROM NVTX_EVENTS WHERE start > 1e2 AND start < '1000'",
        "SELECT * FROM NVTX_EVENTS WHERE start BETWEEN -5 AND 9223372036854775807",
        "SELECT * FROM NVTX_EVENTS WHERE doubleValue = 2.5 OR int32Value < 0",
        "SELECT s.value AS a, o.start AS b FROM OSRT_API o JOIN StringIds s ON s.id = o.nameId",
        (
            "SELECT s.value, count(*) FROM OSRT_API o JOIN StringIds s ON s.id = o.nameId GROUP BY"
            " s.value"
        ),
        (
            "SELECT s.value, count(*) FROM OSRT_API o LEFT JOIN StringIds s ON s.id = o.nameId"
            " WHERE o.returnValue < 0 GROUP BY 1"
        ),
        (
            "SELECT o.globalTid, d.path FROM OSRT_API o JOIN WARPSIGHT_OSRT_DETAIL d ON d.globalTid"
            " = o.globalTid AND d.start = o.start"
        ),
        (
            "SELECT e.label, count(*) FROM NVTX_EVENTS n JOIN ENUM_NSYS_EVENT_TYPE e ON e.id ="
            " n.eventType GROUP BY e.label"
        ),
        (
            "SELECT (SELECT count(*) FROM OSRT_API o WHERE o.globalTid = t.globalTid) FROM"
            " WARPSIGHT_THREAD t"
        ),
        (
            "WITH RECURSIVE c(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM c WHERE i < 50) SELECT"
            " i, (SELECT count(*) FROM NVTX_EVENTS WHERE eventType = i) FROM c"
        ),
        (
            "SELECT count(*) FROM NVTX_EVENTS a JOIN NVTX_EVENTS b ON a.text = b.text AND"
            " a.globalTid = b.globalTid"
        ),
    ],
    "cuda": [
        (
            "SELECT shortName, count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY"
            " shortName"
        ),
        (
            "SELECT s.value AS n, sum(k.end - k.start) AS t FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN"
            " StringIds s ON s.id = k.demangledName GROUP BY s.value ORDER BY t DESC LIMIT 10"
        ),
        (
            "SELECT deviceId, contextId, streamId, count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP"
            " BY 1, 2, 3"
        ),
        (
            "SELECT r.start AS a, k.start AS b, r.nameId AS c FROM CUPTI_ACTIVITY_KIND_KERNEL k"
            " JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId AND"
            " r.globalTid / 0x1000000 = k.globalPid / 0x1000000"
        ),
        "SELECT copyKind, sum(bytes) FROM CUPTI_ACTIVITY_KIND_MEMCPY GROUP BY copyKind",
        "SELECT graphId, graphNodeId, count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY 1, 2",
        (
            "SELECT k.start FROM CUPTI_ACTIVITY_KIND_KERNEL k LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME"
            " r ON r.correlationId = k.correlationId WHERE r.start IS NULL"
        ),
    ],
    "many": [
        # SQLite answers OR by a run for each side, and tells by their numbers which rows it has
        # met.
        (
            "SELECT count(*), sum(start) FROM NVTX_EVENTS WHERE start < 9000000000000000 AND"
            " ((globalTid = 6710886801 AND eventType IN (59, 34) AND domainId = 0) OR (globalTid ="
            " 6710886802 AND eventType IN (59, 34) AND domainId = 0))"
        ),
        (
            "SELECT count(*), sum(start) FROM NVTX_EVENTS WHERE start < 9000000000000000 AND"
            " ((globalTid = 6710886801 AND domainId IS NOT NULL AND domainId = 0) OR (globalTid <"
            " 6710886803 AND eventType IN (59, 34) AND domainId = 0))"
        ),
        "SELECT text, count(*), sum(end - start) FROM NVTX_EVENTS GROUP BY text",
        (
            "SELECT globalTid, min(start), max(end) FROM NVTX_EVENTS WHERE start > 1000000 AND end"
            " < 90000000 GROUP BY globalTid"
        ),
        (
            "SELECT count(*) FROM NVTX_EVENTS WHERE globalTid = (SELECT max(globalTid) FROM"
            " NVTX_EVENTS)"
        ),
        "SELECT DISTINCT domainId, eventType FROM NVTX_EVENTS",
    ],
    "hostile": [
        "SELECT text, count(*) FROM NVTX_EVENTS GROUP BY text",
        "SELECT a.text FROM NVTX_EVENTS a JOIN NVTX_EVENTS b ON a.text = b.text",
        (
            "SELECT s.value, count(*) FROM OSRT_API o JOIN StringIds s ON s.id = o.nameId GROUP BY"
            " s.value"
        ),
    ],
    "wild": [
        "SELECT count(*), sum(start % 1000) FROM NVTX_EVENTS",
        "SELECT eventType, count(*) FROM NVTX_EVENTS GROUP BY eventType",
        "SELECT text, count(*) FROM NVTX_EVENTS GROUP BY text",
        "SELECT count(*) FROM OSRT_API a JOIN OSRT_API b ON a.nameId = b.nameId",
        "SELECT theoreticalOccupancy IS NULL, count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY 1",
    ],
}

ORDERED = [
    "SELECT globalTid, count(*) FROM NVTX_EVENTS GROUP BY globalTid ORDER BY globalTid DESC",
    "SELECT text, count(*) FROM NVTX_EVENTS GROUP BY text ORDER BY text",
    "SELECT text FROM NVTX_EVENTS ORDER BY text DESC",
    "SELECT eventType, globalTid FROM NVTX_EVENTS ORDER BY eventType, globalTid DESC",
    "SELECT start FROM NVTX_EVENTS ORDER BY start LIMIT 7",
    "SELECT id FROM StringIds WHERE id IN (SELECT nameId FROM OSRT_API) ORDER BY id",
    "SELECT text, count(*) FROM NVTX_EVENTS GROUP BY text ORDER BY text DESC",
    "SELECT DISTINCT eventType FROM NVTX_EVENTS ORDER BY eventType DESC",
    "SELECT DISTINCT text FROM NVTX_EVENTS ORDER BY text",
    (
        "SELECT s.value, count(*) FROM OSRT_API o JOIN StringIds s ON s.id = o.nameId GROUP BY"
        " s.value ORDER BY s.value DESC"
    ),
    (
        "SELECT s.value, count(*) FROM OSRT_API o JOIN StringIds s ON s.id = o.nameId GROUP BY"
        " s.value ORDER BY s.value"
    ),
    (
        "SELECT s.value FROM OSRT_API o JOIN StringIds s ON s.id = o.nameId ORDER BY s.value,"
        " o.start DESC"
    ),
    "SELECT category, count(*) FROM NVTX_EVENTS GROUP BY category ORDER BY category",
]


def test_order(report, db):
    for sql in ORDERED:
        got, message = ask(report, sql)
        check(
            "in order: " + sql,
            got == reference(db, sql),
            "%s\nhave %s\nwant %s" % (message, got and got[:6], reference(db, sql)[:6]),
        )


def random_query(rng, db, table):
    """Conditions, groups and joins on columns drawn at random, with values that occur."""
    columns = [c[1] for c in db.execute("PRAGMA table_info(%s)" % table)]

    def value(c):
        rows = db.execute('SELECT "%s" FROM %s ORDER BY random() LIMIT 1' % (c, table)).fetchall()
        v = rows[0][0] if rows else 1
        if v is None or isinstance(v, bytes):
            return "NULL"
        return "'%s'" % v.replace("'", "''") if isinstance(v, str) else repr(v)

    def condition():
        c = rng.choice(columns)
        op = rng.choice(["=", "=", "<", ">", ">=", "<=", "!=", "IS"])
        return '"%s" %s %s' % (c, op, value(c))

    where = " AND ".join(condition() for _ in range(rng.randrange(3)))
    if (
        rng.random() < 0.3
    ):  # each side is a run of its own, which must know the rows of the other again
        either = " OR ".join(
            "(%s AND %s)" % (condition(), condition()) for _ in range(rng.randrange(2, 4))
        )
        where = "%s(%s)" % (where + " AND " if where else "", either)
    where = " WHERE " + where if where else ""
    if "\0" in where:
        where = ""
    if rng.random() < 0.5:
        keys = ", ".join(
            '"%s"' % c for c in rng.sample(columns, min(len(columns), rng.randrange(1, 4)))
        )
        return "SELECT %s, count(*) FROM %s%s GROUP BY %s" % (keys, table, where, keys)
    if rng.random() < 0.3:
        c = rng.choice(columns)
        return 'SELECT count(*) FROM %s a JOIN %s b ON a."%s" = b."%s"' % (table, table, c, c)
    return "SELECT %s FROM %s%s" % (
        ", ".join('"%s"' % c for c in rng.sample(columns, min(len(columns), rng.randrange(1, 4)))),
        table,
        where,
    )


def test_random(name, report, db, queries):
    rng = random.Random(20240501)
    tables = [
        t
        for (t,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        if t not in EXPORT_ONLY | {"StringIds"}
        and db.execute("SELECT count(*) FROM " + t).fetchone()[0]
    ]
    wrong = []
    asked = [random_query(rng, db, rng.choice(tables)) for _ in range(queries)]
    for sql, got, message in ask_in_batches(report, asked):
        if got is None or not same_rows(got, reference(db, sql)):
            wrong.append(
                "%s\n%s\nhave %s\nwant %s"
                % (
                    sql,
                    message,
                    got and sorted(map(str, got))[:4],
                    sorted(map(str, reference(db, sql)))[:4],
                )
            )
    check("%s: %d random queries" % (name, queries), not wrong, "\n".join(wrong))


HOSTILE = [
    "ATTACH 'stolen.db' AS x",
    "ATTACH ':memory:' AS x",
    "DETACH report1",
    "CREATE TABLE x(a)",
    "CREATE TEMP TABLE x(a)",
    "CREATE VIRTUAL TABLE temp.x USING warpsight(9, 9)",
    "CREATE VIEW v AS SELECT 1",
    "CREATE TRIGGER t AFTER INSERT ON NVTX_EVENTS BEGIN SELECT 1; END",
    "DROP TABLE NVTX_EVENTS",
    "DELETE FROM NVTX_EVENTS",
    "INSERT INTO NVTX_EVENTS(start) VALUES(1)",
    "UPDATE StringIds SET value = ''",
    "VACUUM INTO 'stolen.db'",
    "VACUUM",
    "PRAGMA temp_store_directory = '/'",
    "PRAGMA journal_mode = WAL",
    "PRAGMA writable_schema = 1",
    "PRAGMA hard_heap_limit = 0",
    "SELECT load_extension('libc.so.6')",
    "ANALYZE",
    "ALTER TABLE NVTX_EVENTS RENAME TO x",
    "SELECT",
    "SELECT * FROM",
    "SELECT * FROM nothing",
    "SELECT nope FROM NVTX_EVENTS",
    "'",
    '"',
    "/*",
    "SELECT 1 FROM NVTX_EVENTS WHERE (" + "(" * 2000,
    "SELECT zeroblob(2000000000)",
    "SELECT " + "+".join(["1"] * 5000),
    "SELECT x'0",
    "SELECT 1; DROP TABLE OSRT_API",
    "\x01\x02",
]


def test_hostile(report, folder):
    before = sorted(os.listdir(folder))
    for sql in HOSTILE:
        r = subprocess.run(
            [WARPSIGHT, "query", sql, report], capture_output=True, timeout=60, cwd=folder
        )
        check(
            "refused: %r" % sql[:60],
            r.returncode == 1
            and r.stderr.startswith(b"warpsight: SQL: ")
            and r.stderr.count(b"\n") == 1,
            r,
        )
    check("nothing was written", sorted(os.listdir(folder)) == before, os.listdir(folder))
    rng = random.Random(7)
    words = [
        "SELECT",
        "*",
        "FROM",
        "NVTX_EVENTS",
        "WHERE",
        "start",
        "=",
        "1",
        "(",
        ")",
        "GROUP BY",
        "text",
        "JOIN",
        "StringIds",
        "ON",
        ",",
        "count(*)",
        "ORDER BY",
        "LIMIT",
        "-1",
        "'x'",
        "NULL",
        "IN",
        "WITH",
        "AS",
        "a",
        "UNION ALL",
        "OSRT_API",
        "id",
        ";",
        "DISTINCT",
        "globalTid",
        "x'00'",
        "LIKE",
        "'%'",
        "OVER",
        "PARTITION BY",
        "rowid",
        "<",
        "||",
        "CASE",
        "WHEN",
        "THEN",
        "END",
        "eventType",
        "BETWEEN",
        "AND",
        "9e999",
    ]
    bad = []
    statements = 40 if SANITIZED else 300  # the fuzzer of statements is sanitized
    for _ in range(statements):
        sql = " ".join(rng.choice(words) for _ in range(rng.randrange(1, 14)))
        r = run("-f", "csv", "--", sql, report)
        if r.returncode not in (0, 1):
            bad.append((sql, r.returncode, r.stderr))
    check("%d random statements end with an answer or a message" % statements, not bad, bad[:3])


def test_reading(report):
    r = run("-v", "SELECT count(*) FROM NVTX_EVENTS WHERE start > 0 AND end < 2000000", report)
    m = re.search(r"read (\d+) blocks and left out (\d+)", r.stderr)
    check("a query by time leaves out blocks", m and int(m[2]) > 0, r)
    everything = run("-v", "SELECT count(*) FROM NVTX_EVENTS", report)
    n = re.search(r"read (\d+) blocks and left out (\d+)", everything.stderr)
    check(
        "and one without reads all",
        m and n and n[2] == "0" and int(n[1]) == int(m[1]) + int(m[2]),
        everything,
    )


def test_command(report, other, folder):
    script = (
        "SELECT 1 AS a;\n.tables\nSELECT count(*) AS n\nFROM OSRT_API;\n.schema StringIds\n.format"
        " csv\nSELECT 2 AS b, 'x,y' AS c;\n.quit\n"
    )
    r = run(report, stdin=script)
    check(
        "what is piped in is run",
        r.returncode == 0
        and "OSRT_API" in r.stdout
        and "CREATE TABLE StringIds" in r.stdout
        and 'b,c\n2,"x,y"\n' in r.stdout,
        r,
    )
    r = run(report, stdin="SELECT nope;\nSELECT 1;\n")
    check("a script ends at a failure", r.returncode == 1 and "nope" in r.stderr, r)
    r = run(
        "-q",
        "--together",
        "-f",
        "csv:nohdr",
        (
            "SELECT (SELECT count(*) FROM report1.NVTX_EVENTS), (SELECT count(*) FROM"
            " report2.NVTX_EVENTS), (SELECT count(*) FROM NVTX_EVENTS)"
        ),
        report,
        other,
    )
    one = run("-f", "csv:nohdr", "SELECT count(*) FROM NVTX_EVENTS", report).stdout.strip()
    two = run("-f", "csv:nohdr", "SELECT count(*) FROM NVTX_EVENTS", other).stdout.strip()
    check("several reports together", r.stdout.strip() == "%s,%s,%s" % (one, two, one), r)
    r = run("-f", "csv:nohdr", "SELECT count(*) FROM NVTX_EVENTS", report, other)
    check(
        "several reports one by one",
        r.stdout.split() == [one, two] and r.stderr.count(":\n") == 2,
        r,
    )
    out = os.path.join(folder, "rows.csv")
    r = run("-o", out, "SELECT 1.5 AS x, 'a' AS y", report)
    check("into a file, as csv", r.returncode == 0 and open(out).read() == "x,y\n1.5,a\n", r)
    r = run("-o", out, "SELECT 1", report)
    check(
        "which is not replaced",
        r.returncode == 1 and "exists already" in r.stderr and open(out).read() == "x,y\n1.5,a\n",
        r,
    )
    r = run("--force-overwrite", "-o", out, "SELECT nope", report)
    check("nor by a query that fails", r.returncode == 1 and open(out).read() == "x,y\n1.5,a\n", r)
    r = run(
        "-f",
        "csv",
        "--timeunit",
        "ms",
        "SELECT 1500000 AS 'Total:dur_ns', 2500000 AS 'Size:mem_B', 12.34 AS 'Share:ratio_%'",
        report,
    )
    check(
        "columns say what they are",
        r.stdout == "Total (ms),Size (MB),Share (%)\n1.500000,2.500,12.3\n",
        r,
    )
    r = run(
        "-f",
        "csv",
        (
            "SELECT 0.1 AS a, 1e300 AS b, -2.0 AS c, 9223372036854775807 AS d, NULL AS e, x'00ff'"
            " AS f, 1e999 AS g"
        ),
        report,
    )
    check(
        "values in full",
        r.stdout == "a,b,c,d,e,f,g\n0.1,1e+300,-2.0,9223372036854775807,,00ff,Inf\n",
        r,
    )
    for args in (
        ["SELECT 1"],
        [],
        ["-f", "nope", "SELECT 1", report],
        ["--timeunit", "h", "SELECT 1", report],
        [report, other],
        ["SELECT 1", "SELECT 2", report],
        ["SELECT 1", report, "SELECT 2"],
    ):
        r = run(*args)
        check(
            "refused: query %s" % " ".join(args)[:40],
            r.returncode == 2 and r.stderr.startswith("warpsight: query: "),
            r,
        )
    r = run("SELECT 1", os.path.join(folder, "missing"))
    check("no such file", r.returncode == 1 and "missing" in r.stderr, r)


def test_operands(report, folder):
    """The SQL before the reports or after them."""
    for args in (["SELECT 6 * 7 AS n", report], [report, "SELECT 6 * 7 AS n"]):
        r = run("-q", "-f", "csv", *args)
        check("query %s: answered" % " ".join(args)[:20], r.stdout == "n\n42\n", r)
    r = run("-q", "-f", "csv:nohdr", report, "SELECT 1", report)
    check("between reports", r.stdout.split() == ["1", "1"], r)
    missing = os.path.join(folder, "my missing report")
    r = run(missing, "WITH a AS (SELECT 1) SELECT * FROM a")
    check(
        "a missing report before SQL is named",
        r.returncode == 1 and missing in r.stderr and "SQL" not in r.stderr,
        r,
    )
    r = run("SELECT 1", "SELECT 2", report)
    check("two statements", "'SELECT 1' and 'SELECT 2' are both SQL" in r.stderr, r)
    r = run(report, report)
    check("no SQL", "both taken for reports" in r.stderr, r)


ENDLESS = {
    "in SQLite": (
        "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM t) SELECT max(a) FROM t"
    ),
    "in our tables": (
        "SELECT count(*) FROM NVTX_EVENTS a, NVTX_EVENTS b, NVTX_EVENTS c, NVTX_EVENTS d,"
        " NVTX_EVENTS e WHERE a.text || b.text || c.text || d.text || e.text = 'x'"
    ),
}


def test_limits(report):
    for name, sql in ENDLESS.items():
        r = run("--timeout=300ms", sql, report)
        check(
            "a query without end %s is stopped" % name,
            r.returncode == 1 and r.stderr.endswith("the query took longer than 0.3 s\n"),
            r,
        )
    r = run("-f", "csv", "--timeout=100", "SELECT 1 AS a", report)
    check("one that ends in time is not", r.stdout == "a\n1\n", r)
    for sql in (
        (
            "WITH RECURSIVE t(a, b) AS (SELECT 1, 'x' UNION ALL SELECT a + 1, b || b FROM t WHERE"
            " a < 28) SELECT sum(length(b)) FROM t"
        ),
        (
            "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM t WHERE a < 3000000)"
            " SELECT length(group_concat(a, '----------------------')) FROM t"
        ),
    ):
        r = run("--memory-limit=60", sql, report)
        check(
            "a query that needs too much memory is stopped",
            r.returncode == 1 and "more than the 60 MiB of memory" in r.stderr,
            r,
        )
    r = run("-f", "csv", "--memory-limit=60", "SELECT count(*) > 0 AS a FROM NVTX_EVENTS", report)
    check("one that does not is answered", r.stdout == "a\n1\n", r)


def has_libedit():
    for name in "libedit.so.2", "libedit.so.0":
        try:
            ctypes.CDLL(name)
            return True
        except OSError:
            pass
    return False


def test_prompt(report, terminal):
    """At a terminal: a mistake ends nothing, Ctrl-C ends the query that runs, .quit the prompt.
    With libedit lines come back.
    """
    master, slave = pty.openpty()
    p = subprocess.Popen(
        [WARPSIGHT, "query", report],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        close_fds=True,
        start_new_session=True,
        env=dict(os.environ, TERM=terminal),
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(slave)
    seen = ""

    def until(text):
        nonlocal seen
        end = time.time() + 60
        while text not in seen and time.time() < end and select.select([master], [], [], 60)[0]:
            seen += os.read(master, 65536).decode("utf-8", "replace")
        before, found, seen = seen.partition(text)
        return bool(found)

    def type_in(text):
        os.write(master, text.encode())

    def edited():
        """Keys are libedit's, not the terminal's: that is a moment after the prompt is there."""
        end = time.time() + 60
        while termios.tcgetattr(master)[3] & termios.ICANON and time.time() < end:
            time.sleep(0.001)
        return time.time() < end

    type_in("SELECT nope;\n")
    check("prompt: a mistake is told", until("no such column"))
    type_in("SELECT 40 +\n2 AS answer;\n")
    check("prompt: and ends nothing", until("answer") and until("42"))
    type_in(
        "SELECT 'run' || 'ning'; WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM t)"
        " SELECT max(a) FROM t;\n"
    )
    check("prompt: a query without end", until("running"))
    end = time.time() + 60
    while (
        "interrupted" not in seen and time.time() < end
    ):  # the second statement may not have begun yet
        type_in("\x03")
        time.sleep(0.2)
        while select.select([master], [], [], 0)[0]:
            seen += os.read(master, 65536).decode("utf-8", "replace")
    check("prompt: ends by Ctrl-C", until("interrupted"))
    type_in(".schema StringIds\n")
    check("prompt: which is not the end", until("CREATE TABLE StringIds"))
    if terminal != "dumb":
        type_in("SELECT 6 * 111 AS six;\n")
        check("prompt: a line", until("666") and until("warpsight> ") and edited())
        type_in("\x1b[A\x02\x7f5;\x0b\n")  # back, before the semicolon, another name
        check(
            "prompt: is called back and changed",
            until("si5") and until("666") and until("warpsight> ") and edited(),
        )
        type_in("SELECT count(*) + 70000 FROM Thr\t;\n")
        check("prompt: names of tables are completed", until("7000"))
    type_in(".quit\n")
    check("prompt: this is", p.wait(60) == 0)
    os.close(master)


def make_report(kind, folder):
    """The path of a report, and a connection to its SQLite export; made when first asked for."""
    if kind not in REPORTS:
        path = os.path.join(folder, kind + ".wsrep")
        subprocess.run([MAKE, kind, path], check=True)
        export = [WARPSIGHT, "export", "-q", "-t", "sqlite", "--lazy=false", path]
        subprocess.run(export, check=True)
        REPORTS[kind] = path, sqlite3.connect(os.path.join(folder, kind + ".sqlite"))
    return REPORTS[kind]


def test_kind(kind, folder):
    """All tables of a report, and the queries for its kind."""
    path, db = make_report(kind, folder)
    if kind != "many" and not (kind == "wild" and RACES_ONLY):
        test_tables(kind, path, db)
    for sql in QUERIES[kind]:
        compare(kind, path, db, sql)


def test_terminals(folder):
    if RACES_ONLY:
        return  # its sanitizer keeps signals back while a query computes
    report = make_report("basic", folder)[0]
    test_prompt(report, "dumb")
    if has_libedit():
        test_prompt(report, "vt100")


def test_hostile_words(folder):
    empty = os.path.join(folder, "room")
    os.mkdir(empty)
    test_hostile(make_report("basic", folder)[0], empty)


def test_commands(folder):
    reports = [make_report(kind, folder)[0] for kind in ("basic", "cuda")]
    test_command(*reports, folder)


def sections():
    """(name, function of the folder) of all that is tested; the longest first, so that parts (every
    n-th of them) take about as long as each other.
    """
    found = []
    for kind in ("basic", "cuda", "hostile"):
        found.append(
            (
                "random " + kind,
                lambda folder, kind=kind: test_random(
                    kind, *make_report(kind, folder), queries=120
                ),
            )
        )
    found.append(("hostile", test_hostile_words))
    found += [(kind, lambda folder, kind=kind: test_kind(kind, folder)) for kind in QUERIES]
    found.append(("order", lambda folder: test_order(*make_report("basic", folder))))
    found.append(("reading", lambda folder: test_reading(make_report("many", folder)[0])))
    found.append(("command", test_commands))
    found.append(
        ("operands", lambda folder: test_operands(make_report("basic", folder)[0], folder))
    )
    found.append(("limits", lambda folder: test_limits(make_report("basic", folder)[0])))
    found.append(("prompt", test_terminals))
    return found


def main():
    chosen = sections()
    for word in sys.argv[3:]:
        if word.startswith("--part="):
            chosen = part_of(chosen, word[len("--part=") :])
        else:
            chosen = [section for section in chosen if word in section[0]]
    with tempfile.TemporaryDirectory() as folder:
        for _, run_section in chosen:
            run_section(folder)
    return done()


sys.exit(main())
