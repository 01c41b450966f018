"""figures_gpu_metrics.py - what sampling GPUs costs, and how true the samples are. Measured on
machines with an NVIDIA GPU and PyTorch only."""
import csv
import glob
import importlib.util
import io
import os
import statistics
import subprocess
import sys
import tempfile
import time

from run import HERE, Row, figure

WORK = [sys.executable, os.path.join(HERE, "gpu_metrics_work.py")]
SESSION = ["-q", "--sample=none", "--system-metrics=none"]
QUIET = [*SESSION, "--no-findings"]
ONE_GPU = "--gpu-metrics-devices=0"
SECONDS = 4
PERIOD_US = 100  # of the default frequency
# FLOP of a tensor core's bf16 products without sparsity, by SM and clock, by compute capability.
TENSOR_FLOP = {80: 2048, 90: 4096}
ROWS = """
SELECT v.start, v.span, v.value, r.start, r.end
FROM NVTX_EVENTS r JOIN WARPSIGHT_COUNTER_VALUE v ON v.start + v.span > r.start AND v.start < r.end
JOIN WARPSIGHT_COUNTER c ON c.id = v.counterId JOIN StringIds n ON n.id = c.nameId
WHERE r.text = '%s' AND n.value LIKE '%s' ORDER BY v.start"""
LINKED = """
SELECT sum(v.value * (min(v.start + v.span, r.end) - max(v.start, r.start))) / 1e9
FROM NVTX_EVENTS r JOIN WARPSIGHT_COUNTER_VALUE v ON v.start + v.span > r.start AND v.start < r.end
JOIN WARPSIGHT_COUNTER c ON c.id = v.counterId JOIN StringIds n ON n.id = c.nameId
JOIN StringIds g ON g.id = c.groupId
WHERE r.text = '%s' AND n.value = 'NVLink %s Rate' AND g.value = 'GPU metrics, GPU %d'"""
# Who sends and receives what the work moves.
TRAFFIC = {
    "copy": (("TX", 0), ("RX", 1)),
    "broadcast": (("TX", 0), ("RX", 1)),
    "all-reduce": (("TX", 0), ("RX", 0), ("TX", 1), ("RX", 1)),
}
KERNELS = """
SELECT k.start, k.end FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN NVTX_EVENTS r
ON k.start >= r.start AND k.end <= r.end WHERE r.text = 'bursts' ORDER BY k.start"""


def has_gpu():
    if glob.glob("/proc/driver/nvidia/gpus/*") and importlib.util.find_spec("torch"):
        return True
    print("bench: not measured: this needs an NVIDIA GPU and PyTorch", file=sys.stderr)
    return False


def find_sampler(recorder):
    """The process that samples the GPU, a child of the recorder."""
    children = []
    for path in glob.glob("/proc/%d/task/*/children" % recorder):
        with open(path) as f:
            children += f.read().split()
    for pid in children:
        with open("/proc/%s/comm" % pid) as f:
            if f.read().strip() == "ws-gpu-metrics":
                return int(pid)
    raise RuntimeError("nothing samples the GPU")


def processor_time(pid):
    with open("/proc/%d/stat" % pid) as f:
        words = f.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def measure_share(b, hz):
    """The share of a core that recorder and sampler take while the GPU is busy, in percent."""
    options = ["-t", "none", ONE_GPU, "--gpu-metrics-frequency=%d" % hz]
    recorder = subprocess.Popen(
        [b.warpsight, "profile", "-f", "-o", b.path("share.wsrep"), *QUIET, *options]
        + [*WORK, "copy", str(SECONDS + 6)],
        env=b.env,
        cwd=b.dir,
        stdout=subprocess.DEVNULL,
    )
    time.sleep(6)  # PyTorch has begun
    pids = [recorder.pid, find_sampler(recorder.pid)]
    before, began = [processor_time(pid) for pid in pids], time.monotonic()
    time.sleep(SECONDS)
    spent, passed = [processor_time(pid) for pid in pids], time.monotonic() - began
    recorder.wait()
    return 100 * (sum(spent) - sum(before)) / passed


@figure
def gpu_metrics_cost(b):
    """The recorder while a GPU is sampled."""
    if not has_gpu():
        return
    for hz, limit in ((1000, None), (10000, 25)):
        shares = [measure_share(b, hz) for _ in range(b.runs)]
        yield Row("GPU metrics at %d Hz, recorder" % hz, "% core", [], shares, limit)


@figure
def gpu_metrics_loop(b):
    """What sampling adds to a training loop, window by window in one process."""
    if not has_gpu():
        return
    env = dict(b.env, XDG_RUNTIME_DIR=tempfile.mkdtemp(prefix="ws-bench-"))
    out = subprocess.run(
        [b.warpsight, "launch", "-t", "none", *SESSION, ONE_GPU]
        + [*WORK, "loop", str(8 * b.runs), b.warpsight],
        env=env,
        cwd=b.dir,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    pairs = [[float(x) for x in line.split()] for line in out.splitlines() if " " in line]
    added = [100 * (ours / bare - 1) for bare, ours in pairs]
    middle = statistics.median(added)
    spread = 1.4826 * statistics.median(abs(value - middle) for value in added)
    note = "%d pairs, error of the median %.2f" % (len(added), 1.2533 * spread / len(added) ** 0.5)
    name = "GPU metrics at 10000 Hz, added to a training step"
    yield Row(name, "%", [], added, 1, digits=2, note=note)


class Known:
    """A recording of work whose figures are known."""

    def __init__(self, b):
        self.b = b
        groups = ["-q", "--no-findings", "--sample=none", "--system-metrics=gpu"]
        options = ["-t", "cuda,nvtx", ONE_GPU, "--gpu-metrics-set=bytes"]
        out = b.profile(*WORK, "known", options=[*groups, *options]).out
        self.facts = {
            name: float(value) for name, value in (l.rsplit(" ", 1) for l in out.splitlines())
        }

    def ask(self, sql):
        out = self.b.command(
            [self.b.warpsight, "query", "-f", "csv", self.b.path("bench.wsrep"), sql]
        ).out
        return [[float(x) for x in row] for row in list(csv.reader(io.StringIO(out)))[1:]]

    def integrate(self, row, phase):
        """(the integral of a row over a phase, by s; the time in it with values, s)."""
        total = known = 0
        for start, span, value, begin, end in self.ask(ROWS % (phase, row)):
            seconds = (min(start + span, end) - max(start, begin)) / 1e9
            total, known = total + value * seconds, known + seconds
        return total, known

    def mean(self, row, phase):
        total, known = self.integrate(row, phase)
        return total / known

    def find_expected_tensor(self):
        """The share of the tensor cores' peak, in percent, or None if the peak is not known."""
        cycles, _ = self.integrate("GPC Clock Frequency", "matmul")
        most = TENSOR_FLOP.get(int(self.facts["chip"]), 0) * self.facts["SMs"] * cycles
        return 100 * self.facts["computed"] / most if most else None

    def measure_delays(self):
        """How far the pulses of SM Active begin from their bursts of kernels, in us."""
        starts = []
        end = 0
        for start, kernel_end in self.ask(KERNELS):
            if start > end + 5e6:
                starts.append(start)
            end = kernel_end
        pulses = [row[0] for row in self.ask(ROWS % ("bursts", "SM Active")) if row[2] > 2]
        return [min(abs(pulse - start) for pulse in pulses) / 1000 for start in starts]


def compare(name, measured, expected, limit):
    off = [100 * abs(a / b - 1) for a, b in zip(measured, expected)]
    note = "%.5g instead of %.5g" % (measured[0], expected[0])
    return Row(name + ", off by", "%", [], off, limit, digits=2, note=note)


@figure
def gpu_metrics_accuracy(b):
    """Samples over work with known figures."""
    if not has_gpu():
        return
    runs = [Known(b) for _ in range(b.runs)]
    copied = [run.facts["copied"] for run in runs]
    for row in ("DRAM Read Rate", "DRAM Write Rate"):
        moved = [run.integrate(row, "copy")[0] for run in runs]
        yield compare("%s of copies" % row, moved, copied, 5)
    expected = [run.find_expected_tensor() for run in runs]
    if expected[0]:
        tensor = [run.mean("Tensor Active", "matmul") for run in runs]
        yield compare("Tensor Active of a matmul", tensor, expected, 5)
    one = [run.mean("SM Active", "one SM") for run in runs]
    yield compare("SM Active of one SM", one, [100 / run.facts["SMs"] for run in runs], 5)
    full = [run.mean("SM Active", "copy") for run in runs]
    yield compare("SM Active of copies", full, [100] * len(runs), 5)
    idle = [run.mean("SM Active", "idle") for run in runs]
    yield Row("SM Active of an idle second", "%", [], idle, 0.5, digits=3)
    energy = [run.integrate("Mean power by energy, GPU 0", "energy")[0] for run in runs]
    yield compare("energy of a GPU", energy, [run.facts["energy"] for run in runs], 3)
    delays = [max(run.measure_delays()) for run in runs]
    yield Row("pulse of SM Active, away from its kernels", "us", [], delays, 2 * PERIOD_US)


@figure
def gpu_metrics_links(b):
    """NVLink traffic on both sides, over copies and NCCL's operations of two GPUs."""
    if not has_gpu():
        return
    if len(glob.glob("/proc/driver/nvidia/gpus/*")) < 2:
        print("bench: not measured: this needs two GPUs", file=sys.stderr)
        return
    out = b.profile(*WORK, "links", options=[*QUIET, "-t", "nvtx", "--gpu-metrics-devices=0,1"]).out
    for name, moved in (line.rsplit(" ", 1) for line in out.splitlines()):
        for direction, gpu in TRAFFIC[name]:
            sql = LINKED % (name, direction, gpu)
            out = b.command([b.warpsight, "query", "-f", "csv", b.path("bench.wsrep"), sql]).out
            seen = float(out.splitlines()[1] or 0)
            title = "NVLink %s of GPU %d, %s" % (direction, gpu, name)
            yield compare(title, [seen], [float(moved)], 5)


@figure
def gpu_metrics_rate(b):
    """How much of the time has samples at high rates."""
    if not has_gpu():
        return
    sql = """SELECT count(DISTINCT counterId), 100.0 * sum(iif(value IS NULL, 0, span)) / sum(span),
        count(*) FROM WARPSIGHT_COUNTER_VALUE"""
    for hz in (10000, 20000, 50000, 100000, 200000):
        options = [*QUIET, "-t", "none", ONE_GPU, "--gpu-metrics-frequency=%d" % hz]
        b.profile(*WORK, "copy", "2", options=options)
        out = b.command([b.warpsight, "query", "-f", "csv", b.path("bench.wsrep"), sql]).out
        rows, share, values = out.splitlines()[1].split(",")
        note = "%s rows, %s values" % (rows, values)
        yield Row("time with samples at %d Hz" % hz, "%", [], [float(share)], None, note=note)
