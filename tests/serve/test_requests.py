#!/usr/bin/env python3
"""What the page asks, without a page: test_requests.py WARPSIGHT MAKE_REPORT CUDA_BENCH [TEST...];
TAP.

Every path of the server's table is asked with its parameters, usual and odd, drawn the same each
time, of several reports: every answer is whole, and at the end the server ends as it should. The
tests with a browser say whether the answers are right; this one lets a build with sanitizers see
all of the code behind them at a hundredth of a browser's cost.
"""
import collections
import concurrent.futures
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from tap import PROGRAM, main, same, test

MAKE, BENCH = map(os.path.abspath, sys.argv[2:4])
API = os.path.join(HERE, "..", "..", "src", "serve", "api.c")
QUESTIONS = 14  # of each client, of each path and report
CLIENTS = 3  # at the same time

END = 40_000_000  # ns; the reports are not much longer
TIMES = ["0", "1000", "1000000", "2500000", str(END), str(-END), str(1 << 60)]
WORDS = ["e", "step", "Kernel", "kernel 1", "^k.*[0-9]$", "(", "%'_\\", "", "\u00fc", "a" * 300]
FLAG = ["0", "1"]
SORTS = ["total", "count", "average", "min", "max", "self", "name", "start", "duration", "row"]
KINDS = ["nvtx", "op", "kernel", "memcpy", "cuda_api", "osrt", "sample", "nothing"]
SQL = [
    "SELECT count(*) FROM TARGET_INFO_SESSION_START_TIME; SELECT 1",
    "SELECT * FROM StringIds ORDER BY id DESC",
    "SELECT text, count(*) FROM NVTX_EVENTS GROUP BY 1",
    "SELECT demangledName, sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY 1",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 300000) SELECT i FROM n",
    "SELEC 1",
    "DELETE FROM StringIds",
]
NUMBERS = ["0", "1", "2", "3", "7", "100"]
MATCH = {"q": WORDS, "re": FLAG, "case": FLAG, "exact": ["0", "1", "2"], "form": NUMBERS}
WINDOW = {"t0": TIMES, "t1": TIMES}
LANES = {"lanes": ["0", "1,2,3", "0,1,2,3,4,5,6,7,8,9", ""]}
WHERE = {"where": ["name~e", "start>1000", "duration>=2000", "pid=1", "nothing=1", "count(*)>1"]}
SPOT = {"lane": [str(n) for n in range(24)], "level": NUMBERS, "event": NUMBERS}

# Parameters by path; a path that is not here has none.
PARAMETERS = {
    "session": {"trees": FLAG},
    "diff": {"a": FLAG, "b": FLAG, **WINDOW, "u0": TIMES, "u1": TIMES, "fold": FLAG}
    | {"limit": NUMBERS},
    "changes": {"a": FLAG, "b": FLAG, "limit": NUMBERS},
    "tiles": {"k": ["0", "8", "12", "17", "20", "47"], "i": ["0", "-1", "3", "200"]}
    | {"n": ["1", "2", "8"], "lanes": ["0.1", "0.3,1.2,2.9", "4.1~0~1", "5.2~4294967297", "x"]},
    "at": {**SPOT, **WINDOW, "limit": NUMBERS},
    "event": SPOT,
    "sum": {**WINDOW, **LANES, "names": FLAG, "fold": FLAG, "form": NUMBERS, "kind": KINDS}
    | {"sort": SORTS, "down": FLAG, "offset": NUMBERS, "limit": NUMBERS},
    "events": {**WINDOW, **LANES, **MATCH, **WHERE, "sort": SORTS, "down": FLAG}
    | {"at_least": TIMES, "below": TIMES, "column": ["pid", "deviceId", "bytes", "nothing"]}
    | {"columns": ["pid,tid", "bytes,start", "nothing"], "offset": NUMBERS, "limit": NUMBERS},
    "durations": {**WINDOW, **LANES, **MATCH, **WHERE},
    "search": MATCH,
    "step": {**MATCH, "t": TIMES, "lane": SPOT["lane"], "level": NUMBERS, "back": FLAG},
    "names": {"q": WORDS, "cut": FLAG},
    "sql": {**SPOT, **WINDOW, **LANES, **MATCH, "sums": FLAG},
    "query": {"sql": SQL, "limit": ["1", "100", "10000"], "timeout": ["5"]},
    "findings": {"unasked": FLAG, "again": FLAG},
    "path": {**WINDOW, "least": ["0", "1000", "1000000"], "times": FLAG},
    "kernel": {"id": NUMBERS},
    "launch": {"name": WORDS, "pid": NUMBERS, "correlation": NUMBERS},
    "flame": {**WINDOW, "up": FLAG, "kind": ["0", "1", "2", "3", "4"], "fold": FLAG},
}
ODD = ["", "x", "-1", "1e3", "99999999999999999999", "0.5", "\u0000", "1,,2", "~", "%"]


class Client:
    """One connection to a server."""

    def __init__(self, base):
        self.base = base
        self.connection = http.client.HTTPConnection(base.hostname, base.port)

    def ask(self, path, parameters=(), method="GET", body=None):
        """(status, type, body) of an answer."""
        self.connection.request(
            method,
            "%sapi/%s?%s" % (self.base.path, path, urllib.parse.urlencode(parameters)),
            body=body,
            headers={"Origin": "%s://%s" % (self.base.scheme, self.base.netloc)},
        )
        answer = self.connection.getresponse()
        return answer.status, answer.getheader("Content-Type"), answer.read()


class Server:
    """`view` of some reports."""

    def __init__(self, *files):
        self.process = subprocess.Popen(
            [PROGRAM, "view", "--no-open", *files],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        address = re.search(r"http://\S+", line)
        if not address:
            raise AssertionError("view says: " + line + self.process.stderr.read())
        self.base = urllib.parse.urlsplit(address.group())

    def end(self):
        """It ends with status 0 and has said nothing of a sanitizer's."""
        self.process.send_signal(signal.SIGINT)
        _, said = self.process.communicate(timeout=120)
        same(self.process.returncode, 0, "exit status; it said: " + said)
        same(re.findall(r"Sanitizer.*|runtime error.*", said), [], "what it said")


def make_report(program, name, *words):
    if not os.path.exists(name):
        subprocess.run([program, name, *words], check=True)
    return name


def view_reports():
    return [make_report(MAKE, "small.wsrep", "1"), make_report(MAKE, "large.wsrep", "6")]


def paths():
    """Those of the server's own table."""
    with open(API, encoding="utf-8") as f:
        found = re.findall(r'^\t\{"(\w+)", ws_api_\w+,', f.read(), re.M)
    same(len(found) > 15, True, "paths in " + API)
    return found


def is_whole(path, status, kind, body):
    """JSON, tiles, or one sentence that says what is wrong."""
    if status == 200 and kind == "application/json":
        json.loads(body)
        return True
    if status == 200:
        return kind == "application/octet-stream" and path == "tiles"
    text = body.decode()
    return (
        status in (400, 404)
        and kind.startswith("text/plain")
        and len(text) > 5
        and "\n" not in text
    )


def draw(random_numbers, parameters, most):
    """Some of the parameters, with one of their values each, seldom an odd one."""
    chosen = random_numbers.sample(sorted(parameters), min(len(parameters), most))
    return [
        (name, random_numbers.choice(ODD if random_numbers.random() < 0.06 else parameters[name]))
        for name in chosen
    ]


def ask_all(client, reports, seed):
    """Ask each path of each report. How many answers with status 200 each path gave."""
    numbers = random.Random(seed)
    good = collections.Counter()
    for path in paths():
        parameters = PARAMETERS.get(path, {})
        for report in range(reports):
            for question in range(QUESTIONS if parameters else 1):
                given = draw(numbers, parameters, question % 6) + [("r", str(report))]
                status, kind, body = client.ask(path, given)
                if not is_whole(path, status, kind, body):
                    raise AssertionError("%s %s: %d %r" % (path, given, status, body[:300]))
                good[path] += status == 200
    return good


def kernel_report():
    """Measured kernels."""
    here = os.path.join(HERE, "..", "kernel", "make_results.py")
    rows = subprocess.run([sys.executable, here], stdout=subprocess.PIPE, check=True).stdout
    writer = os.path.join(os.path.dirname(MAKE), "..", "kernel", "write_rows")
    subprocess.run([writer, "kernels.wsrep"], input=rows, check=True)
    return "kernels.wsrep"


def expect_answers(files, seed, silent):
    """Several clients ask everything at the same time; each path answers some of it, but for those
    that have nothing to say of these reports."""
    server = Server(*files)
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        asked = [
            pool.submit(ask_all, Client(server.base), len(files), CLIENTS * seed + number)
            for number in range(CLIENTS)
        ]
        good = sum((each.result() for each in asked), collections.Counter())
    server.end()
    same([path for path in paths() if not good[path] and path not in silent], [], "never answered")


@test
def every_path_of_reports_with_everything():
    # what `view --record` alone answers
    expect_answers([*view_reports(), kernel_report()], 1, ["record"])


@test
def every_path_of_gpu_work():
    files = [
        make_report(BENCH, "same.wsrep", "same", "20000"),
        make_report(BENCH, "unique.wsrep", "unique", "20000"),
    ]
    expect_answers(files, 2, ["record", "kernel"])


@test
def what_is_added_is_shown():
    server = Server(*view_reports())
    client = Client(server.base)
    events = [
        {"ph": "X", "cat": "c", "name": "n%d" % (i % 7), "pid": 1, "tid": i % 3, "ts": i, "dur": 1}
        for i in range(500)
    ]
    trace = json.dumps({"traceEvents": events}).encode()
    for name, body in [("trace.json", trace), ("bad.json", trace[:-9]), ("none.bin", b"\0" * 99)]:
        status, _, answer = client.ask("add", [("name", name)], "POST", body)
        same(status, 200, "%s: %r" % (name, answer))
    with open(view_reports()[0], "rb") as f:
        status, _, answer = client.ask("add", [("name", "again.wsrep")], "POST", f.read())
    same((status, "report" in json.loads(answer)), (200, True), repr(answer))
    for job in ["99", "x", ""]:
        client.ask("cancel", [("job", job)], "POST", b"")
    states = jobs_when_done(client)
    same(states["trace.json"], "done", repr(states))
    same(set(states.values()) <= {"done", "failed"}, True, repr(states))
    for report in range(4):
        status, _, answer = client.ask("sum", [("r", str(report))])
        same((status, "groups" in json.loads(answer)), (200, True), "sums of report %d" % report)
    server.end()


def jobs_when_done(client):
    """State by name, when no import is under way any more."""
    while True:
        jobs = json.loads(client.ask("state")[2])["jobs"]
        states = {job["name"]: job["state"] for job in jobs}
        if not {"waiting", "running"} & set(states.values()):
            return states
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main(sys.argv[4:]))
