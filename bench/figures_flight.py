"""figures_flight.py - what a flight recorder costs beside one that writes a file, what memory it
takes, and how long a snapshot does: a million ranges a second."""
import json
import os
import subprocess
import tempfile
import time

from run import Row, figure

RATE = 1000000
KEEP, SECONDS = 30, 45  # the time that is kept, and that a program runs under a flight recorder
CAP = 32 << 20  # of the run that is about memory: less than KEEP seconds take
SHORT = 15


def processor_time(pid):
    with open("/proc/%d/stat" % pid) as f:
        words = f.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def resident_memory(pid):
    """MiB, shared memory included: names that never repeat go through it."""
    with open("/proc/%d/status" % pid) as f:
        return int(next(x for x in f if x.startswith("VmRSS")).split()[1]) / 1024


class Recording:
    """The program under `warpsight profile`, in a session of its own."""

    def __init__(self, b, seconds, *options):
        self.b = b
        self.runtime = tempfile.mkdtemp(prefix="ws-bench-")
        self.env = dict(os.environ, XDG_RUNTIME_DIR=self.runtime)
        self.process = subprocess.Popen(
            [b.warpsight, "profile", "-q", "-s", "none", "-t", "nvtx", "--no-findings"]
            + ["-o", b.path("flight.wsrep"), *options, "--"]
            + [b.program("flight_bench"), str(RATE), str(seconds)],
            env=self.env,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tool(self, *argv):
        return subprocess.run(
            [self.b.warpsight, *argv], env=self.env, check=True, capture_output=True, text=True
        ).stdout

    def status(self):
        return json.loads(self.tool("status", "--json"))[0]

    def recorder_cost(self, seconds):
        """Processor time of the recorder for each second that passes."""
        before, began = processor_time(self.process.pid), time.monotonic()
        time.sleep(seconds)
        return (processor_time(self.process.pid) - before) / (time.monotonic() - began)

    def target_cost(self):
        out, _ = self.process.communicate()
        return float(out.split()[1])


def costs(b, *options):
    r = Recording(b, SHORT, *options)
    time.sleep(3)
    recorder = r.recorder_cost(SHORT - 5)
    return recorder * 1000, r.target_cost()


@figure
def flight_recorder(b):
    """Processor time with and without; what is kept against its cap; a snapshot of 30 s."""
    file_costs, costs_of_flight = [], []
    for _ in range(max(2, b.runs // 2)):
        file_costs.append(costs(b, "-f"))
        costs_of_flight.append(costs(b, "--flight-recorder=%ds" % KEEP))
    rows = [
        Row(
            "recorder, of a second: flight recorder beside file",
            "ms",
            [x[0] for x in file_costs],
            [x[0] for x in costs_of_flight],
            5,
        ),
        Row(
            "range at 1 M/s: flight recorder beside file",
            "ns",
            [x[1] for x in file_costs],
            [x[1] for x in costs_of_flight],
            10,
            digits=2,
        ),
    ]
    r = Recording(b, SECONDS, "--flight-recorder=%ds" % KEEP)
    time.sleep(KEEP + 5)
    began = time.monotonic()
    r.tool("snapshot", "-f", "-o", b.path("snapshot.wsrep"))
    took = time.monotonic() - began
    r.process.communicate()
    out = b.command(
        [b.warpsight, "query", "-f", "csv", b.path("snapshot.wsrep")]
        + ["SELECT count(*), max(end) - min(end) FROM NVTX_EVENTS WHERE end NOT NULL"]
    ).out
    count, span = [float(x) for x in out.splitlines()[-1].split(",")]
    note = "%.1f M ranges of %.1f s" % (count / 1e6, span / 1e9)
    rows.append(Row("snapshot of 30 s", "s", [], [took], 2, digits=2, note=note))
    complete = count / (span / 1e9 * RATE) * 100
    rows.append(Row("ranges in it, of those made", "%", [], [complete], 99.5, at_least=True))
    r = Recording(b, SECONDS, "--flight-recorder=10m,%dM" % (CAP >> 20))
    shares, memory, begin = [], [], time.monotonic()
    while time.monotonic() - begin < SECONDS - 3:
        time.sleep(1)
        if time.monotonic() - begin > SECONDS * 0.6:
            shares.append(r.status()["kept_bytes"] / CAP * 100)
            memory.append(resident_memory(r.process.pid))
    r.process.communicate()
    rows.append(Row("memory of its cap, least", "%", [], [min(shares)], 95, at_least=True))
    rows.append(Row("memory of its cap, most", "%", [], [max(shares)], 105))
    grown = memory[-1] - memory[0]
    note = "%.0f MiB at the end" % memory[-1]
    rows.append(Row("recorder's memory grows, last 40 %", "MiB", [], [grown], 4, note=note))
    return rows
