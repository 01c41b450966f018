"""figures_gpu_metrics.py - what sampling GPUs costs, and how true the samples are. Measured on
machines with an NVIDIA GPU and PyTorch only."""
import csv
import glob
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import time

from run import HERE, Row, figure

WORK = [sys.executable, os.path.join(HERE, "gpu_metrics_work.py")]
QUIET = ["-q", "--no-findings", "--sample=none", "--system-metrics=none"]
ONE_GPU = "--gpu-metrics-devices=0"
SECONDS = 4
INTEGRAL = """
SELECT sum(v.value * (min(v.start + v.span, r.end) - max(v.start, r.start))) / 1e9
FROM NVTX_EVENTS r JOIN WARPSIGHT_COUNTER_VALUE v ON v.start + v.span > r.start AND v.start < r.end
JOIN WARPSIGHT_COUNTER c ON c.id = v.counterId JOIN StringIds n ON n.id = c.nameId
WHERE r.text = 'copy' AND n.value = '%s'"""


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
        [b.warpsight, "launch", "-t", "none", *QUIET, ONE_GPU]
        + [*WORK, "loop", str(8 * b.runs), b.warpsight],
        env=env,
        cwd=b.dir,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    pairs = [[float(x) for x in line.split()] for line in out.splitlines() if " " in line]
    added = [100 * (ours / bare - 1) for bare, ours in pairs]
    yield Row("GPU metrics at 10000 Hz, added to a training step", "%", [], added, 1, digits=2)


@figure
def gpu_metrics_accuracy(b):
    """Bytes that the memory moved by its samples, against the bytes of known copies."""
    if not has_gpu():
        return
    away = {"DRAM Read Rate": [], "DRAM Write Rate": []}
    for _ in range(b.runs):
        options = ["-t", "nvtx", ONE_GPU, "--gpu-metrics-set=bytes"]
        copied = b.profile(*WORK, "copy", str(SECONDS), options=[*QUIET, *options]).value
        for name, found in away.items():
            argv = [b.warpsight, "query", "-f", "csv", b.path("bench.wsrep"), INTEGRAL % name]
            moved = float(list(csv.reader(io.StringIO(b.command(argv).out)))[-1][0])
            found.append(100 * abs(moved / copied - 1))
    for name, found in away.items():
        yield Row("%s of copies, off by" % name, "%", [], found, 5, digits=2)
