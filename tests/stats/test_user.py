"""test_user.py WARPSIGHT MAKE_REPORT - reports written as queries, output into commands, blocks
that filters leave out; TAP.
"""
import csv, io, os, re, shutil, subprocess, sys, tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import check, done

WARPSIGHT, MAKE = map(os.path.abspath, sys.argv[1:3])


def run(*args, **kw):
    return subprocess.run(
        [WARPSIGHT, "stats", *args], capture_output=True, text=True, timeout=60, **kw
    )


REPORT = """-- title: Busy names
-- about: Names by total time.
-- parameter: rows=2
-- parameter: like=%
SELECT text AS "Range", count(*) AS "N", sum(end - start) AS "Total:dur_ns", sum(end - start) * 100.0 / sum(sum(end - start)) OVER () AS "Part:ratio_%"
FROM NVTX_EVENTS WHERE eventType = 59 AND text LIKE :like AND start <= :end AND end >= :start GROUP BY text ORDER BY 3 DESC, 1 LIMIT :rows
"""


def table(r):
    return list(csv.reader(io.StringIO(r.stdout.strip())))


def test_queries(report, folder):
    own = os.path.join(folder, "own")
    os.mkdir(own)
    with open(os.path.join(own, "busy.sql"), "w") as f:
        f.write(REPORT)
    with open(os.path.join(own, "notes.txt"), "w") as f:
        f.write("not a report")
    builtin = table(run("-q", "-f", "csv", "--fold-names=no", "-r", "nvtx_pushpop_sum", report))
    totals = {r[8]: (int(r[2]), int(r[1])) for r in builtin[1:]}
    r = run("-q", "-f", "csv", "--report-dir", own, "-r", "busy:rows=10000", report)
    rows = table(r)
    check(
        "a query in a folder is a report",
        rows[0] == ["Range", "N", "Total (ns)", "Part (%)"]
        and {x[0]: (int(x[1]), int(x[2])) for x in rows[1:]} == totals,
        r,
    )
    check(
        "with its default parameter",
        len(table(run("-q", "-f", "csv", "--report-dir", own, "-r", "busy", report))) == 3,
    )
    name = rows[1][0]
    r = run("-q", "-f", "csv", "--report-dir", own, "-r", "busy:like=%s:rows=5" % name, report)
    check("and another one", [x[0] for x in table(r)[1:]] == [name], r)
    r = run("-q", "--report-dir", own, "-r", "busy", report)
    check("its title is shown", r.stdout.startswith(" ** Busy names (busy):"), r.stdout)
    r = run("--report-dir", own, "--help-reports")
    check("and it is listed", re.search("^busy +Busy names$", r.stdout, re.M), r.stdout[-300:])
    for args in (["--help-reports=busy"], ["--help-reports=ALL"], ["--help-reports", "busy"]):
        r = run("--report-dir", own, *args)
        check(
            "and explained by " + " ".join(args),
            "busy\n    Busy names. Names by total time.\n    Parameter: rows=2\n" in r.stdout,
            r.stdout[-300:],
        )
    r = run(
        "-q",
        "-f",
        "csv",
        "--report-dir",
        own,
        "-r",
        "busy:rows=10000",
        "--filter-time",
        "1ms/1500us",
        "--timeunit",
        "us",
        report,
    )
    want = {
        x[8]: x[2]
        for x in table(
            run(
                "-q",
                "-f",
                "csv",
                "--fold-names=no",
                "-r",
                "nvtx_pushpop_sum",
                "--filter-time",
                "1ms/1500us",
                report,
            )
        )[1:]
    }
    check(
        "a filter is its :start and :end",
        r.stdout.startswith("Range,N,Total (us)") and {x[0]: x[1] for x in table(r)[1:]} == want,
        r,
    )
    r = run("-q", "-f", "csv", "--sql", "SELECT 1 AS a", "--sql", "SELECT 'x' AS b", report)
    check("queries on the command line", r.stdout == "a\n1\n\nb\nx\n\n", r)
    r = run("-q", "-f", "csv,json", "-r", "nvtx_sum", "--sql", "SELECT 7 AS a", report)
    check(
        "come after other reports",
        r.stdout.startswith("Time (%)") and r.stdout.endswith('[\n{"a": 7}\n]\n\n'),
        r.stdout[-100:],
    )
    r = run("-q", "-o", os.path.join(folder, "base"), "--sql", "SELECT 7 AS a", report)
    check("into a file", open(os.path.join(folder, "base_sql.csv")).read() == "a\n7\n", r)
    r = run("--sql", "SELECT 1 WHERE 0", report)
    check(
        "no rows, no table",
        r.returncode == 0 and r.stdout == "" and "skipped: its query gave no rows" in r.stderr,
        r,
    )
    for what, args in (
        ("a filter that it does not use", ["--sql", "SELECT 1", "--filter-time", "0/1"]),
        ("bad SQL", ["--sql", "SELECT FROM"]),
        ("writing", ["--sql", "CREATE TABLE x(a)"]),
        ("a parameter without a value", ["--sql", "SELECT :nope"]),
    ):
        r = run("-q", *args, report)
        check(
            "refused: " + what,
            r.returncode == 1 and r.stderr.count("\n") == 1 and r.stdout == "",
            r,
        )
    for what, args in (
        ("a parameter that is not declared", ["--report-dir", own, "-r", "busy:nope=1"]),
        ("no such folder", ["--report-dir", own + "x"]),
    ):
        r = run(*args, report)
        check("refused: " + what, r.returncode == 2 and r.stderr.count("\n") == 1, r)
    marker = os.path.join(folder, "ran")
    with open(os.path.join(own, "theirs.py"), "w") as f:
        f.write("#!/usr/bin/env python3\nopen(%r, 'w')\n" % marker)
    os.chmod(os.path.join(own, "theirs.py"), 0o755)
    r = run("--report-dir", own, "-r", "theirs:rows=3", report)
    check(
        "a script is not run, but named",
        (
            r.returncode,
            "scripts are not run" in r.stderr and "theirs.sql" in r.stderr,
            os.path.exists(marker),
        )
        == (2, True, False),
        r,
    )
    with open(os.path.join(own, "large.sql"), "w") as f:
        f.write("x" * (1 << 20) + "yy")
    r = run("--report-dir", own, "-r", "busy", report)
    check("refused: a file that is no query", r.returncode == 2 and "large.sql" in r.stderr, r)


def test_commands(report, folder):
    out = os.path.join(folder, "taken by a command")
    r = run("-q", "-r", "nvtx_sum", "-o", "@tee '%s'" % out, report)
    direct = run("-q", "-f", "csv", "-r", "nvtx_sum", report)
    check(
        "a command gets the table",
        r.returncode == 0 and open(out).read() == direct.stdout.rstrip("\n") + "\n" == r.stdout,
        r,
    )
    script = os.path.join(folder, "words")
    with open(script, "w") as f:
        f.write('#!/bin/sh\ncat >/dev/null\nfor w; do echo "<$w>"; done\n')
    os.chmod(script, 0o755)
    r = run(
        "-q",
        "-r",
        "nvtx_sum",
        "-o",
        "@%s a 'b  c' \"d\\\"e\" f\\ g '' $HOME;'x,y'" % script,
        report,
    )
    check(
        "words are split and nothing else happens to them",
        r.stdout == '<a>\n<b  c>\n<d"e>\n<f g>\n<>\n<$HOME;x,y>\n',
        r,
    )
    r = run("-q", "-r", "nvtx_pushpop_trace", "-o", "@head -n 1", report)
    check("a command may stop reading", r.returncode == 0 and r.stdout.startswith("Start (ns)"), r)
    for what, command, word in (
        ("that fails", "@sh -c 'cat >/dev/null; exit 3'", "status 3"),
        ("that is not there", "@no-such-command-here", "no-such-command"),
        ("that is killed", "@sh -c 'kill -9 $$'", "signal 9"),
    ):
        r = run("-q", "-r", "nvtx_sum", "-o", command, report)
        check("a command " + what, r.returncode == 1 and word in r.stderr, r)
    shutil.copy("/bin/sh", report[: -len(".wsrep")])
    r = run("-q", "-r", "nvtx_sum", report[: -len(".wsrep")])
    check(
        "a program that has the report's name is passed over",
        r.returncode == 0 and "nvtx_sum" in r.stdout,
        r,
    )
    for bad in ("@", "@ ", "@a 'b"):
        r = run("-r", "nvtx_sum", "-o", bad, report)
        check("refused: -o %r" % bad, r.returncode == 2 and r.stderr.count("\n") == 1, r)


def decoded(r):
    m = re.search(r"decoded (\d+) blocks; the report has (\d+)", r.stderr)
    return (int(m[1]), int(m[2])) if m else None


def test_reading(report):
    for name in ("nvtx_sum", "nvtx_pushpop_sum"):
        whole = decoded(run("-v", "-r", name, report))
        part = decoded(run("-v", "-r", name, "--filter-time", "0/100us", report))
        check(
            "%s with a window decodes only what it needs" % name,
            whole and part and part[0] < whole[0] / 2,
            (whole, part),
        )
    query = [
        "-v",
        "-f",
        "csv",
        "--sql",
        "SELECT count(*) FROM NVTX_EVENTS WHERE start <= :end AND end >= :start",
    ]
    whole, part = decoded(run(*query, report)), decoded(
        run(*query, "--filter-time", "0/100us", report)
    )
    check("and so does a query", part[0] <= whole[0] - 10, (whole, part))


def main():
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for kind in ("basic", "many"):
            paths[kind] = os.path.join(folder, kind + ".wsrep")
            subprocess.run([MAKE, kind, paths[kind]], check=True)
        test_queries(paths["many"], folder)
        test_commands(paths["basic"], folder)
        test_reading(paths["many"])
    return done()


sys.exit(main())
