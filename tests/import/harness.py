"""What tests of importing share: a folder to work in, tables of a report as dicts, and TAP. See
docs/testing.md.
"""
import csv
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile

WARPSIGHT = os.path.abspath(sys.argv[1])
TESTS = []


def test(f):
    TESTS.append(f)
    return f


class T:
    """A folder to work in, and what tests do in it."""

    def __init__(self, folder):
        self.dir = folder
        self.env = dict(os.environ, XDG_CACHE_HOME=os.path.join(folder, "cache"), TMPDIR=folder)

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, data):
        data = (
            data
            if isinstance(data, bytes)
            else data.encode()
            if isinstance(data, str)
            else json.dumps(data).encode()
        )
        with open(self.path(name), "wb") as f:
            f.write(data)
        return self.path(name)

    def run(self, *args, ok=True):
        r = subprocess.run(
            [WARPSIGHT, *args],
            env=self.env,
            cwd=self.dir,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=100,
        )
        r.out, r.err = r.stdout.decode("utf-8", "replace"), r.stderr.decode("utf-8", "replace")
        assert r.returncode >= 0, f"killed by signal {-r.returncode}: {args}"
        if ok is not None:
            assert (r.returncode == 0) == ok, f"{args}: status {r.returncode}: {r.err}"
        return r

    def load(self, *files):
        """Import and export; the tables of the export by name, each a list of dicts with texts in
        place of their numbers.
        """
        self.err = self.run("import", "-f", "-o", "r.wsrep", *files).err
        return self.tables("r.wsrep")

    def stats(self, report, path):
        """Rows of a report of statistics, each a dict of texts."""
        return list(
            csv.DictReader(
                io.StringIO(self.run("stats", "-q", "-r", report, "-f", "csv", path).out)
            )
        )

    def query(self, sql, path):
        return [
            list(row.values())
            for row in json.loads(self.run("query", "-q", "-f", "json", sql, path).out)
        ]

    def tables(self, report):
        self.run("export", "-q", "-f", "-o", "r.sqlite", report)
        return read(self.path("r.sqlite"))


PLAIN = {
    "deviceId",
    "contextId",
    "streamId",
    "correlationId",
    "greenContextId",
    "domainId",
    "schemaId",
    "processId",
    "vmId",
    "hwId",
    "callchainId",
    "eventId",
    "eventSyncId",
    "graphId",
    "gridId",
    "graphNodeId",
    "rangeId",
    "externalId",
    "counterId",
    "trackId",
    "frameId",
    "callersId",
    "moduleId",
    "parentId",
    "fromTrackId",
    "toTrackId",
    "setId",
    "recordFunctionId",
    "forwardThreadId",
    "pythonId",
    "pythonParentId",
    "pythonModuleId",
    "typeId",
    "sourceId",
    "metricId",
    "globalId",
    "metricsListId",
    "nicId",
}
NUMBERED = {"symbol", "demangledName", "shortName", "mangledName", "CpuInstruction", "module"}


def read(path):
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    strings = dict(db.execute("SELECT id, value FROM StringIds"))
    tables = {}
    for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall():
        columns = [c[1] for c in db.execute(f'PRAGMA table_info("{name}")')]
        text = [c in NUMBERED or (c.endswith("Id") and c not in PLAIN) for c in columns]
        rows = db.execute(f'SELECT * FROM "{name}"').fetchall()
        tables[name] = [
            {c: strings.get(v, v) if t else v for c, v, t in zip(columns, r, text)} for r in rows
        ]
    db.close()
    return tables


def eq(a, b, what=""):
    assert a == b, f"{what}: {a!r} is not {b!r}"


def main():
    words = sys.argv[2:]
    chosen = [f for f in TESTS if not words or any(w in f.__name__ for w in words)]
    print(f"1..{len(chosen)}")
    failed = 0
    for i, f in enumerate(chosen, 1):
        folder = tempfile.mkdtemp(prefix="warpsight-test-")
        try:
            f(T(folder))
            print(f"ok {i} - {f.__name__}", flush=True)
        except Exception as e:  # a failure of any kind is the test's
            failed += 1
            print(f"not ok {i} - {f.__name__}")
            print("# " + f"{type(e).__name__}: {e}"[:3000].replace("\n", "\n# "), flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return failed > 0
