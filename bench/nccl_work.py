"""nccl_work.py - collectives with known figures, which figures_nccl.py compares with a report. One
process a GPU, started by torch.distributed.run:

    nccl_work.py bandwidth FILE   collectives of large buffers, timed by events around them
    nccl_work.py ddp FILE         trains with DistributedDataParallel and counts what it asks for

Each rank writes FILE.RANK, as JSON.
"""
import collections
import json
import os
import sys

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

SIZES = (128 << 20, 512 << 20)  # bytes of the whole buffer, as nccl-tests names them
WARM, TIMED = 3, 20
STEPS = 6
RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def begin():
    torch.cuda.set_device(RANK)
    device = torch.device("cuda", RANK)
    dist.init_process_group("nccl", device_id=device)
    return device


def save(name, data):
    with open("%s.%d" % (name, RANK), "w") as f:
        json.dump({"pid": os.getpid(), **data}, f)


# ---- bandwidth ----


def operations(whole):
    """Of a buffer: name, what each rank contributes to a message in bytes, share of the size that a
    rank's link must carry (the factor of nccl-tests' bus bandwidth), and how to do it."""
    part = whole[: len(whole) // RANKS]
    size, ring = whole.nbytes, (RANKS - 1) / RANKS
    yield "AllReduce", size, 2 * ring, lambda: dist.all_reduce(whole)
    yield "AllGather", size // RANKS, ring, lambda: dist.all_gather_into_tensor(whole, part)
    yield "ReduceScatter", size // RANKS, ring, lambda: dist.reduce_scatter_tensor(part, whole)
    yield "Broadcast", size, 1, lambda: dist.broadcast(whole, 0)


def time_operation(work):
    """Milliseconds of one, by the GPU's clock."""
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    dist.barrier()
    torch.cuda.synchronize()
    first.record()
    for _ in range(TIMED):
        work()
    last.record()
    torch.cuda.synchronize()
    return first.elapsed_time(last) / TIMED


def measure_bandwidth(name):
    device, rows = begin(), []
    for size in SIZES:
        # Buffers of another size, so that a report tells the first ones from those that are timed.
        warm = torch.zeros((size + (1 << 20)) // 4, device=device)
        timed = torch.zeros(size // 4, device=device)
        pairs = zip(operations(warm), operations(timed))
        for (*_, warm_up), (operation, message, factor, work) in pairs:
            for _ in range(WARM):
                warm_up()
            ms = time_operation(work)
            bus = size * factor / (ms / 1e3) / 1e9
            rows.append({"operation": operation, "message": message, "size": size, "bus": bus})
    save(name, {"rows": rows})


# ---- training ----


class Counter(TorchDispatchMode):
    """Counts the collectives that PyTorch is asked for, and their bytes."""

    def __init__(self):
        super().__init__()
        self.calls, self.bytes = collections.Counter(), collections.Counter()

    def add(self, operation, tensors):
        for tensor in tensors:
            self.calls[operation] += 1
            self.bytes[operation] += tensor.nbytes

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = str(function)
        if name.startswith("c10d.allreduce_"):
            self.add("AllReduce", args[0])
        elif name.startswith("c10d.broadcast_"):
            self.add("Broadcast", args[0])
        elif name.startswith("c10d._allgather_base_"):
            self.add("AllGather", [args[1]])
        elif name.startswith("c10d.allgather_"):
            self.add("AllGather", args[1])
        return function(*args, **(kwargs or {}))


def train(name):
    device, count = begin(), Counter()
    with count:
        layers = [torch.nn.Linear(2048, 2048) for _ in range(8)]
        model = torch.nn.parallel.DistributedDataParallel(
            torch.nn.Sequential(*layers).to(device), device_ids=[RANK]
        )
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(STEPS):
            model(torch.ones(16, 2048, device=device) * (RANK + 1)).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    torch.cuda.synchronize()
    save(name, {"calls": count.calls, "bytes": count.bytes})


if __name__ == "__main__":
    {"bandwidth": measure_bandwidth, "ddp": train}[sys.argv[1]](sys.argv[2])
    dist.destroy_process_group()
