#!/usr/bin/env python3
"""
train.py - a training loop to record: a 6-layer transformer, NVTX ranges around each part of a step.

    train.py [--steps N | --seconds N] [--batch N] [--profile FROM:TO] [--fork-workers] [--ranks]

Prints the step times. --profile profiles those steps with torch.profiler and prints what it
counted, as JSON: names of kernels with their number and total duration, copies and memory sets.
--ranks joins a process group, for torchrun.
"""
import argparse
import itertools
import json
import os
import time

import torch

p = argparse.ArgumentParser()
p.add_argument("--steps", type=int, default=100)
p.add_argument("--seconds", type=float)
p.add_argument("--batch", type=int, default=16)
p.add_argument("--profile")
p.add_argument("--fork-workers", action="store_true")
p.add_argument("--ranks", action="store_true")
p.add_argument("--graph", action="store_true")
a = p.parse_args()

rank = int(os.environ.get("LOCAL_RANK", "0"))
torch.cuda.set_device(rank)
if a.ranks:
    torch.distributed.init_process_group("nccl")
torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
model = torch.nn.Sequential(torch.nn.TransformerEncoder(layer, 6), torch.nn.Linear(512, 512)).cuda()
if a.ranks:
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
opt = torch.optim.AdamW(model.parameters(), 1e-4)
x = torch.randn(a.batch, 128, 512).pin_memory()
y = torch.randn(a.batch, 128, 512).pin_memory()
if a.fork_workers:
    data = torch.utils.data.TensorDataset(torch.randn(4096, 128, 512))
    loader = iter(torch.utils.data.DataLoader(data, a.batch, num_workers=2))
nvtx = torch.cuda.nvtx


def step():
    with nvtx.range("data_transfer"):
        if a.fork_workers:
            next(loader, None)
        i, o = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
    with nvtx.range("forward"):
        loss = torch.nn.functional.mse_loss(model(i), o)
    with nvtx.range("backward"):
        opt.zero_grad()
        loss.backward()
    with nvtx.range("optimizer"):
        opt.step()
    torch.cuda.synchronize()


def counted(prof):
    work = {}
    for e in prof.profiler.kineto_results.events():
        # What record_function spans over the GPU is no work of its own.
        if str(e.device_type()) == "DeviceType.CUDA" and not e.is_user_annotation():
            c = work.setdefault(e.name(), [0, 0])
            c[0] += 1
            c[1] += e.duration_ns()
    return work


window = [int(v) for v in a.profile.split(":")] if a.profile else None
times, prof = [], None
end = time.monotonic() + a.seconds if a.seconds else None
for n in itertools.count() if end else range(a.steps):
    if end and time.monotonic() >= end:
        break
    if window and n == window[0]:
        prof = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        )
        prof.__enter__()
        nvtx.range_push("profiled")
    t = time.perf_counter()
    step()
    times.append((time.perf_counter() - t) * 1e3)
    if window and n == window[1] - 1:
        nvtx.range_pop()
        prof.__exit__(None, None, None)
times = sorted(times[10:] if len(times) > 20 else times)
print(
    "step best %.3f p25 %.3f median %.3f ms"
    % (times[0], times[len(times) // 4], times[len(times) // 2]),
    flush=True,
)
if prof:
    print("TORCH " + json.dumps(counted(prof)), flush=True)
if a.ranks:
    torch.distributed.destroy_process_group()
