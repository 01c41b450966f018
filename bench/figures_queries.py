"""figures_queries.py - the queries of common_queries.py against SQLite over the export of the same
report, whose making does not count.

Both are whole commands less their start (a query of nothing), in seconds of processor time, so that
other work on the machine counts for neither. SQLite may take MOST_SECONDS; when it has not finished
then, the ratio is at most the one shown. WS_BENCH_TRACES names a folder of other tools' traces,
which are imported and asked the same.
"""
import os
import resource
import subprocess
import sys

from common_queries import QUERIES
from run import Row, figure

MOST_SECONDS = 20
# Shorter ones are the noise of starting a process.
LEAST_SECONDS = 0.02
ASK_SQLITE = """
import sqlite3, sys
from time import process_time
db = sqlite3.connect(sys.argv[1])
end = process_time() + float(sys.argv[3])
db.set_progress_handler(lambda: process_time() > end, 100000)
try:
    for row in db.execute(sys.argv[2]):
        print(*row, sep=",")
except sqlite3.OperationalError as e:
    if "interrupted" not in str(e):
        raise
"""


def measure(argv):
    """Seconds of processor time that a command takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_query(b, command, runs):
    """The same of a command that ends in SQL, less that of a query of nothing."""
    nothing = min(measure(command("SELECT 1")) for _ in range(3))
    return lambda sql: [max(measure(command(sql)) - nothing, 0) for _ in range(runs)]


def compare_queries(b, name, report):
    database = report.replace(".wsrep", ".sqlite")
    if not os.path.exists(database):
        b.command([b.warpsight, "export", "-q", "-t", "sqlite", "--lazy=false", "-f", report])
    ours = measure_query(b, lambda sql: [b.warpsight, "query", "-q", "-fcsv", sql, report], b.runs)
    sqlite = measure_query(
        b,
        lambda sql: [sys.executable, "-c", ASK_SQLITE, database, sql, str(MOST_SECONDS)],
        1,
    )
    for title, sql in QUERIES.items():
        bare, took = sqlite(sql), ours(sql)
        base = max(bare[0], LEAST_SECONDS)
        note = "at most: SQLite was stopped" if bare[0] >= MOST_SECONDS * 0.95 else ""
        ratios = [max(t, LEAST_SECONDS) / base for t in took]
        yield Row(
            "%s: %s (SQLite %.2f s)" % (name, title, bare[0]),
            "ratio",
            [],
            ratios,
            2,
            digits=2,
            note=note,
        )


@figure
def common_queries(b):
    report = b.path("queries.wsrep")
    b.command([b.program("cuda_bench"), report, "same", "1000000"])
    yield from compare_queries(b, "1 M events", report)


@figure
def common_queries_of_traces(b):
    folder = os.environ.get("WS_BENCH_TRACES")
    for file in sorted(os.listdir(folder)) if folder else []:
        path = os.path.join(folder, file)
        if not os.path.isfile(path) or file.endswith(".md"):
            continue
        report = b.path(file.split(".")[0] + ".wsrep")
        b.command([b.warpsight, "import", "-q", "-f", "-o", report, path])
        yield from compare_queries(b, file.split(".")[0], report)
