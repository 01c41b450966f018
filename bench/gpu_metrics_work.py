"""gpu_metrics_work.py - work for a GPU with known figures, which figures_gpu_metrics.py times:

    gpu_metrics_work.py copy SECONDS     copies in an NVTX range "copy"; prints how many bytes were
                                         read, and as many written
    gpu_metrics_work.py loop PAIRS TOOL  trains in a session, with `TOOL start` and `TOOL stop`
                                         around every other window; prints a pair of medians of the
                                         time of a step (ms) a line: without and with
"""
import subprocess
import sys
import time

import torch

COPIED = 1 << 30
STEPS = 40
WARM_STEPS = 20


def copy_memory(seconds):
    source = torch.ones(COPIED, device="cuda", dtype=torch.uint8)
    target = torch.empty_like(source)
    target.copy_(source)
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_push("copy")
    end, copied = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for _ in range(50):
            target.copy_(source)
            copied += COPIED
        torch.cuda.synchronize()
    torch.cuda.nvtx.range_pop()
    print(copied)


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
                subprocess.run([tool, "start", "-f", "-o", "window"], check=True)
            time.sleep(0.1)
            training.median_step(WARM_STEPS)
            medians[recorded] = training.median_step(STEPS)
            if recorded:
                subprocess.run([tool, "stop"], check=True)
        print(medians[False], medians[True], flush=True)


if sys.argv[1] == "copy":
    copy_memory(float(sys.argv[2]))
else:
    train_in_turn(int(sys.argv[2]), sys.argv[3])
