#!/usr/bin/env python3
"""
windows.py - a training loop that says which of its steps are to be collected, and waits for the GPU
nowhere but at its end: windows.py --by cuda|nvtx|none FROM:TO... [--steps N]
[--unmarked]

Each step is in an NVTX range "step", each of the given windows in a range "window" or between
cudaProfilerStart and cudaProfilerStop.
"""
import argparse

import torch

p = argparse.ArgumentParser()
p.add_argument("--by", default="none")
p.add_argument("--steps", type=int, default=60)
p.add_argument("--unmarked", action="store_true", help="no ranges around the steps")
p.add_argument("windows", nargs="*")
a = p.parse_args()
nvtx = torch.cuda.nvtx
windows = [tuple(map(int, w.split(":"))) for w in a.windows]
torch.manual_seed(0)
layers = [m for _ in range(6) for m in (torch.nn.Linear(2048, 2048), torch.nn.GELU())]
model = torch.nn.Sequential(*layers).cuda()
opt = torch.optim.AdamW(model.parameters(), 1e-4)
x = torch.randn(2048, 2048, device="cuda")
y = torch.randn(2048, 2048, device="cuda")


def turn(on):
    if a.by == "cuda":
        cudart = torch.cuda.cudart()
        cudart.cudaProfilerStart() if on else cudart.cudaProfilerStop()
    elif a.by == "nvtx":
        nvtx.range_push("window") if on else nvtx.range_pop()


for n in range(a.steps):
    if any(n == w[0] for w in windows):
        turn(True)
    if not a.unmarked:
        nvtx.range_push("step")
    loss = torch.nn.functional.mse_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if not a.unmarked:
        nvtx.range_pop()
    if any(n + 1 == w[1] for w in windows):
        turn(False)
torch.cuda.synchronize()
print("done %.6f" % loss.item(), flush=True)
