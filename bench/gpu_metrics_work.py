"""gpu_metrics_work.py - work for a GPU with known figures, which figures_gpu_metrics.py times:

    gpu_metrics_work.py copy SECONDS     copies memory
    gpu_metrics_work.py known            work with known figures, in NVTX ranges; prints NAME VALUE
                                         lines
    gpu_metrics_work.py links            moves memory between two GPUs, in NVTX ranges; prints NAME
                                         BYTES lines
    gpu_metrics_work.py loop PAIRS TOOL  trains in a session, with `TOOL start` and `TOOL stop`
                                         around every other window; prints a pair of medians of the
                                         time of a step (ms) a line: without and with
"""
import contextlib
import ctypes
import subprocess
import sys
import time

import torch

COPIED = 1 << 30
SIDE = 8192  # of a matrix
BURSTS = 20
STEPS = 40
WARM_STEPS = 20


@contextlib.contextmanager
def phase(name):
    """An NVTX range that contains the work of the GPU as well."""
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_push(name)
    yield
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_pop()


def repeat(work, seconds, times):
    """Do it `times` times, again and again; returns how often it was done."""
    end, done = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for _ in range(times):
            work()
        torch.cuda.synchronize()
        done += times
    return done


def make_copy():
    source = torch.ones(COPIED, device="cuda", dtype=torch.uint8)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def make_matmul():
    left = torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16)
    right, product = torch.randn_like(left), torch.empty_like(left)
    return lambda: torch.matmul(left, right, out=product)


def read_energy():
    """What GPU 0 has used, in J, by the counter of NVML."""
    energy, device = ctypes.c_ulonglong(), ctypes.c_void_p()
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    nvml.nvmlInit_v2()
    nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
    nvml.nvmlDeviceGetTotalEnergyConsumption(device, ctypes.byref(energy))
    return energy.value / 1000


def make_bursts(work):
    with phase("bursts"):
        for _ in range(BURSTS):
            for _ in range(3):
                work()
            torch.cuda.synchronize()
            time.sleep(0.015)


def do_known_work():
    copy, matmul = make_copy(), make_matmul()
    repeat(copy, 0.2, 5)
    repeat(matmul, 0.2, 5)
    before = read_energy()
    with phase("energy"):
        with phase("copy"):
            print("copied", COPIED * repeat(copy, 1, 50))
        with phase("matmul"):
            print("computed", 2 * SIDE**3 * repeat(matmul, 1, 50))
        with phase("one SM"):
            repeat(lambda: torch.cuda._sleep(10_000_000), 0.5, 10)
        with phase("idle"):
            time.sleep(1)
    print("energy", read_energy() - before)
    make_bursts(matmul)
    properties = torch.cuda.get_device_properties(0)
    print("SMs", properties.multi_processor_count)
    print("chip", 10 * properties.major + properties.minor)


def do_linked_work():
    """GPU 0 sends to GPU 1 in a copy and a broadcast; each sends and receives in an all-reduce."""
    both = [torch.ones(COPIED // 16, device="cuda:%d" % gpu) for gpu in (0, 1)]
    works = {
        "copy": lambda: both[1].copy_(both[0]),
        "broadcast": lambda: torch.cuda.nccl.broadcast(both),
        "all-reduce": lambda: torch.cuda.nccl.all_reduce(both),
    }
    for name, work in works.items():
        repeat_on_both(work, 0.2)
        torch.cuda.nvtx.range_push(name)
        times = repeat_on_both(work, 1)
        torch.cuda.nvtx.range_pop()
        print(name, times * both[0].nbytes)


def repeat_on_both(work, seconds):
    end, done = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for _ in range(50):
            work()
        for gpu in (0, 1):
            torch.cuda.synchronize(gpu)
        done += 50
    return done


class Training:
    """Steps of a small model as a CUDA graph: their time is that of the GPU alone, and they take
    so little power that it does not lower its clocks."""

    def __init__(self):
        layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, dropout=0, batch_first=True)
        self.model = torch.nn.TransformerEncoder(layer, 6).cuda().bfloat16()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.batch = torch.randn(8, 256, 512, device="cuda", dtype=torch.bfloat16)
        other = torch.cuda.Stream()
        with torch.cuda.stream(other):
            for _ in range(3):
                self.train()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.train()

    def train(self):
        self.optimizer.zero_grad(set_to_none=False)
        self.model(self.batch).float().square().mean().backward()
        self.optimizer.step()

    def step(self):
        self.graph.replay()

    def median_step(self, steps):
        """The median time of a step in ms, by the GPU's clock."""
        events = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
        events[0].record()
        for event in events[1:]:
            self.step()
            event.record()
        torch.cuda.synchronize()
        times = [a.elapsed_time(b) for a, b in zip(events, events[1:])]
        return sorted(times)[steps // 2]


def train_in_turn(pairs, tool):
    training = Training()
    training.median_step(200)
    for pair in range(pairs):
        medians = {}
        for recorded in (False, True) if pair % 2 else (True, False):
            if recorded:
                subprocess.run([tool, "start", "-f", "--no-findings", "-o", "window"], check=True)
            time.sleep(0.1)
            training.median_step(WARM_STEPS)
            medians[recorded] = training.median_step(STEPS)
            if recorded:
                subprocess.run([tool, "stop"], check=True)
        print(medians[False], medians[True], flush=True)


if sys.argv[1] == "copy":
    repeat(make_copy(), float(sys.argv[2]), 50)
elif sys.argv[1] == "known":
    do_known_work()
elif sys.argv[1] == "links":
    do_linked_work()
else:
    train_in_turn(int(sys.argv[2]), sys.argv[3])
