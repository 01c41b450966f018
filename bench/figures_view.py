"""figures_view.py - how fast the time line comes up: the server of `view` on 10 M CUDA events, asked as the page asks."""
import http.client
import json
import os
import random
import os
import subprocess
import time
import urllib.parse

from figures_reading import cuda_report
from run import Row, figure


class View:
    """A running `view` and one connection to it."""

    def __init__(self, b, path):
        self.began = time.perf_counter()
        self.process = subprocess.Popen([b.warpsight, "view", "--no-open", path], stdout=subprocess.PIPE, text=True)
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
    return [Row("view of 10 M CUDA events: first picture", "ms", [], first, 300),
            Row("view of 10 M CUDA events: all read", "s", [], whole, None, digits=2),
            Row("view: a tile", "ms", [], tile, 5, digits=2),
            Row("view of 10 M CUDA events: memory", "MB", [], memory, 300)]


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
            v.get("tiles?k=%d&i=%d&n=1&lanes=%d.3" % (k, random.randrange(last >> k) >> 10, random.choice(large)))
            close.append((time.perf_counter() - began) * 1000)
        v.wait()
        memory.append(v.memory())
        v.end()
    return [Row("view of 100 M CUDA events: first picture", "ms", [], first, 1000),
            Row("view of 100 M CUDA events: processor time for it", "ms", [], cpu, None),
            Row("view of 100 M CUDA events: a tile of a microsecond, unread", "ms", [], close, 5, digits=2),
            Row("view of 100 M CUDA events: memory", "MB", [], memory, 300)]
