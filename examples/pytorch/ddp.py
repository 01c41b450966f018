#!/usr/bin/env python3
"""ddp.py - gradients that are averaged over the GPUs: once all are there, or while the rest is
computed.

    torchrun --nproc-per-node=2 ddp.py late|overlapped

late: one bucket holds all gradients, so that its AllReduce begins when the backward pass is over.
overlapped: buckets of 25 MB, each is on its way as soon as it is full. See docs/tutorial/ddp.md.
"""
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTH, DEPTH, BATCH, STEPS = 4096, 12, 1024, 20
BUCKET_MB = {"late": 10000, "overlapped": 25}


def make_model():
    layers = []
    for _ in range(DEPTH):
        layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
    return nn.Sequential(*layers).cuda()


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in BUCKET_MB:
        sys.exit("usage: torchrun --nproc-per-node=N ddp.py late|overlapped")
    device = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(device)
    torch.backends.cuda.matmul.allow_tf32 = True
    dist.init_process_group("nccl", device_id=torch.device("cuda", device))
    model = DistributedDataParallel(
        make_model(), device_ids=[device], bucket_cap_mb=BUCKET_MB[sys.argv[1]]
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randn(BATCH, WIDTH, device="cuda")
    for number in range(STEPS):
        with torch.cuda.nvtx.range("step_%d" % number):
            with torch.cuda.nvtx.range("forward"):
                loss = model(batch).square().mean()
            with torch.cuda.nvtx.range("backward"):
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
            with torch.cuda.nvtx.range("optimizer"):
                optimizer.step()
    torch.cuda.synchronize()
    if dist.get_rank() == 0:
        print("%s: loss %.6f" % (sys.argv[1], loss.item()))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
