#!/usr/bin/env python3
"""training.py - a training loop with marked steps and phases, and PyTorch's own profiler beside it.

    training.py marked|profiler [STEPS]

marked: each step is a range step_N, its phases are ranges in it. profiler: the same loop, and
torch.profiler records what its schedule says; warpsight sees what it sees, and the whole run. See
docs/tutorial/training.md.
"""
import contextlib
import sys

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

CLASSES, BATCH = 10, 256


def make_model():
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 128, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(4),
        nn.Conv2d(128, 256, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(256, CLASSES),
    ).cuda()


def train_step(number, model, optimizer, batch):
    mark = torch.cuda.nvtx.range
    with mark("step_%d" % number):
        with mark("data_transfer"):
            images, labels = (part.cuda(non_blocking=True) for part in batch)
        with mark("forward"):
            loss = nn.functional.cross_entropy(model(images), labels)
        with mark("backward"):
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
        with mark("optimizer"):
            optimizer.step()
    return loss


def open_profiler(version):
    """Two steps are left out, then one waits, one warms up and three are recorded, twice."""
    if version == "marked":
        return contextlib.nullcontext()
    return profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        schedule=schedule(skip_first=2, wait=1, warmup=1, active=3, repeat=2),
        on_trace_ready=lambda p: print("step %d: profiler has a trace" % p.step_num),
    )


def main():
    if not 2 <= len(sys.argv) <= 3 or sys.argv[1] not in ("marked", "profiler"):
        sys.exit("usage: training.py marked|profiler [STEPS]")
    steps = int(sys.argv[2]) if len(sys.argv) == 3 else 20
    torch.manual_seed(1)
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    batch = (
        torch.randn(BATCH, 3, 32, 32).pin_memory(),
        torch.randint(CLASSES, (BATCH,)).pin_memory(),
    )
    with open_profiler(sys.argv[1]) as profiler:
        for number in range(steps):
            loss = train_step(number, model, optimizer, batch)
            if profiler:
                profiler.step()
    print("loss %.4f" % loss.item())


if __name__ == "__main__":
    main()
