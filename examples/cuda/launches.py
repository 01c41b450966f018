#!/usr/bin/env python3
"""launches.py - the same as launches.cu in PyTorch: a chain of small operations, launched one by
one and as a CUDA graph.
"""
import torch

x = torch.zeros(4096, device="cuda")


def step(v):
    for _ in range(10):
        v = v * 0.5 + 1.0
    return v


stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    for _ in range(3):
        step(x)
torch.cuda.synchronize()
with torch.cuda.nvtx.range("one by one"):
    for _ in range(300):
        step(x)
    torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = step(x)
with torch.cuda.nvtx.range("as a graph"):
    for _ in range(300):
        graph.replay()
    torch.cuda.synchronize()
print(float(y.sum()))
