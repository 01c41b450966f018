"""
figures_view.py - how fast the time line comes up: the server of `view`, asked as the page asks, and
the page itself in chromium without a GPU (view_page.mjs). What needs chromium or playwright-core is
skipped, with a word about it, where these are missing.
"""
import http.client
import json
import os
import random
import subprocess
import sys
import time
import urllib.parse

from figures_reading import cpu_report, cuda_report
from run import Row, figure


class View:
    """A running `view` and one connection to it."""

    def __init__(self, b, path):
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            [b.warpsight, "view", "--no-open", path], stdout=subprocess.PIPE, text=True
        )
        url = urllib.parse.urlsplit(self.process.stdout.readline().strip())
        self.path = url.path
        self.connection = http.client.HTTPConnection(url.hostname, url.port)

    def get(self, what):
        self.connection.request("GET", self.path + "api/" + what)
        return self.connection.getresponse().read()

    def since(self):
        return (time.perf_counter() - self.began) * 1000

    def cpu(self):
        """ms of processor time of the server."""
        with open("/proc/%d/stat" % self.process.pid) as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")

    def lanes(self):
        return [str(r["lane"]) for r in json.loads(self.get("tree"))["rows"] if "lane" in r]

    def wait(self):
        while not json.loads(self.get("progress"))["all"]:
            time.sleep(0.02)

    def memory(self):
        """MB that are neither the report nor other files."""
        with open("/proc/%d/status" % self.process.pid) as f:
            return int(next(line for line in f if line.startswith("RssAnon")).split()[1]) / 1024

    def end(self):
        self.process.terminate()
        self.process.wait()


@figure
def view_of_ten_million(b):
    path, first, whole, tile, memory = cuda_report(b), [], [], [], []
    for _ in range(b.runs):
        v = View(b, path)
        lanes = v.lanes()
        v.get("tiles?k=26&i=0&n=2&lanes=" + ",".join(lane + ".3" for lane in lanes))
        first.append(v.since())
        v.wait()
        whole.append(v.since() / 1000)
        for i in range(20):
            began = time.perf_counter()
            v.get("tiles?k=20&i=%d&n=1&lanes=%s.3" % (i, lanes[i % len(lanes)]))
            tile.append((time.perf_counter() - began) * 1000)
        memory.append(v.memory())
        v.end()
    return [
        Row("view of 10 M CUDA events: first picture", "ms", [], first, 300),
        Row("view of 10 M CUDA events: all read", "s", [], whole, None, digits=2),
        Row("view: a tile", "ms", [], tile, 5, digits=2),
        Row("view of 10 M CUDA events: memory", "MB", [], memory, 300),
    ]


@figure
def view_of_hundred_million(b):
    path, first, cpu, close, memory = cuda_report(b, events=100000000), [], [], [], []
    random.seed(1)
    for _ in range(b.runs):
        v = View(b, path)
        session = json.loads(v.get("session?trees=1"))
        rows, last = session["trees"][0]["rows"], session["reports"][0]["last"]
        lanes = [str(r["lane"]) for r in rows if "lane" in r]
        v.get("tiles?k=36&i=0&n=2&lanes=" + ",".join(lane + ".3" for lane in lanes))
        first.append(v.since())
        cpu.append(v.cpu())
        large = [r["lane"] for r in rows if "lane" in r and r.get("count", 0) > 2 << 20]
        for _ in range(20):
            k = random.randrange(8)
            began = time.perf_counter()
            v.get(
                "tiles?k=%d&i=%d&n=1&lanes=%d.3"
                % (k, random.randrange(last >> k) >> 10, random.choice(large))
            )
            close.append((time.perf_counter() - began) * 1000)
        v.wait()
        memory.append(v.memory())
        v.end()
    return [
        Row("view of 100 M CUDA events: first picture", "ms", [], first, 1000),
        Row("view of 100 M CUDA events: processor time for it", "ms", [], cpu, None),
        Row(
            "view of 100 M CUDA events: a tile of a microsecond, unread",
            "ms",
            [],
            close,
            5,
            digits=2,
        ),
        Row("view of 100 M CUDA events: memory", "MB", [], memory, 300),
    ]


@figure
def view_of_thread_states(b):
    path, tile, whole, most, memory = cpu_report(b), [], [], [], []
    random.seed(1)
    for _ in range(b.runs):
        v, peak = View(b, path), 0
        while not json.loads(v.get("progress"))["all"]:
            peak = max(peak, v.memory())
            time.sleep(0.05)
        whole.append(v.cpu() / 1000)
        most.append(peak)
        memory.append(v.memory())
        last = json.loads(v.get("session"))["reports"][0]["last"]
        lanes = [r["lane"] for r in json.loads(v.get("tree"))["rows"] if r["type"] == "state"]
        for k in range(8, 30):
            began = time.perf_counter()
            v.get(
                "tiles?k=%d&i=%d&n=1&lanes=%d.1"
                % (k, random.randrange((last >> k + 10) + 1), random.choice(lanes))
            )
            tile.append((time.perf_counter() - began) * 1000)
        v.end()
    return [
        Row("view of 10 M spans on cores as 21 M states: a tile", "ms", [], tile, 5, digits=2),
        Row(
            "view of 10 M spans on cores, 10 M samples: processor time to read all",
            "s",
            [],
            whole,
            None,
            digits=2,
        ),
        Row(
            "view of 10 M spans on cores, 10 M samples: most memory meanwhile",
            "MB",
            [],
            most,
            300,
            digits=0,
        ),
        Row("view of 10 M spans on cores, 10 M samples: memory", "MB", [], memory, 300, digits=0),
    ]


# ---- the page ----

MISSING = 77


def page(b, *words):
    """What view_page.mjs measured, or None where there is nothing to measure it with."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "view_page.mjs")
    try:
        p = subprocess.run(
            ["node", script, b.warpsight, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=600,
        )
    except FileNotFoundError:
        print("bench: skipped: no node", file=sys.stderr)
        return None
    if p.returncode == MISSING:
        print("bench: skipped: %s" % p.stdout.strip(), file=sys.stderr)
        return None
    if p.returncode:
        raise RuntimeError("view_page.mjs %s: %s" % (" ".join(words), p.stderr))
    return json.loads(p.stdout)


def pages(b, *words):
    """The same run by run, as lists by name; None when it was skipped."""
    runs = [page(b, *words)]
    if not runs[0]:
        return None
    runs += [page(b, *words) for _ in range(b.runs - 1)]
    return {name: [r[name] for r in runs] for name in runs[0]}


@figure
def view_painted(b):
    for text, events, limit in [("10 M", 10000000, 1000), ("100 M", 100000000, 2000)]:
        m = pages(b, "painted", cuda_report(b, events=events))
        if m:
            yield Row(
                "view of %s CUDA events: painted, from the start of the server" % text,
                "ms",
                [],
                m["painted"],
                limit,
                digits=0,
            )


@figure
def view_over_a_link(b):
    m = pages(b, "link", cuda_report(b))
    if not m:
        return []
    return [
        Row(
            "view over 100 ms there and back: first view painted",
            "ms",
            [],
            m["first"],
            2000,
            digits=0,
        ),
        Row(
            "view over 100 ms there and back: pan or zoom to a picture",
            "ms",
            [],
            m["picture"],
            50,
            digits=0,
        ),
        Row(
            "view over 100 ms there and back: rows without a picture then",
            "",
            [],
            m["blank"],
            0,
            digits=0,
        ),
        Row(
            "view over 100 ms there and back: pan or zoom to the sharp one",
            "ms",
            [],
            m["sharp"],
            300,
            digits=0,
        ),
        Row(
            "view over 100 ms there and back: the slowest of 24 moves",
            "ms",
            [],
            m["sharp_most"],
            300,
            digits=0,
        ),
    ]


@figure
def view_frames(b):
    m = pages(b, "rows", cuda_report(b, "wide", 2000000), "200")
    if not m:
        return
    for key, text in [
        ("screen", "a screen of 1920x1080"),
        ("all", "all of them in sight, 1920 wide"),
    ]:
        yield from [
            Row(
                "view of 200 rows, %s: panning and zooming" % text,
                "frames/s",
                [],
                m[key + "_fps"],
                20,
                at_least=True,
                note="%d rows with events in sight" % m[key + "_rows"][0],
            ),
            Row("view of 200 rows, %s: drawing a frame" % text, "ms", [], m[key + "_draw"], None),
            Row(
                "view of 200 rows, %s: processor time a frame" % text,
                "ms",
                [],
                m[key + "_cpu"],
                None,
            ),
            Row(
                "view of 200 rows, %s: the page's memory" % text,
                "MB",
                [],
                m[key + "_memory"],
                500,
                digits=0,
                note="%.0f MB without files" % m[key + "_own"][0],
            ),
        ]
