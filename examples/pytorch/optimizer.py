#!/usr/bin/env python3
"""optimizer.py - an optimiser that waits for the GPU at every parameter.

    optimizer.py item|fused

item: the norm of each gradient is fetched with .item() to decide whether to clip it. fused: the
decision stays on the GPU, for all gradients at once. See docs/tutorial/hidden-sync.md.
"""
import sys

import torch
from torch import nn

from steps import time_steps

WIDTH, DEPTH, BATCH, LIMIT, STEPS = 2048, 24, 4096, 1.0, 12


class ItemClippedSGD(torch.optim.SGD):
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                norm = parameter.grad.norm().item()
                if norm > LIMIT:
                    parameter.grad.mul_(LIMIT / norm)
        super().step()


class FusedClippedSGD(torch.optim.SGD):
    def step(self):
        for group in self.param_groups:
            gradients = [parameter.grad for parameter in group["params"]]
            norms = torch.stack(torch._foreach_norm(gradients))
            factors = (LIMIT / norms).clamp(max=1.0).unbind()
            torch._foreach_mul_(gradients, list(factors))
        super().step()


def make_model():
    layers = []
    for _ in range(DEPTH):
        layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
    return nn.Sequential(*layers).cuda()


def main():
    optimizers = {"item": ItemClippedSGD, "fused": FusedClippedSGD}
    if len(sys.argv) != 2 or sys.argv[1] not in optimizers:
        sys.exit("usage: optimizer.py item|fused")
    torch.backends.cuda.matmul.allow_tf32 = True
    model = make_model()
    optimizer = optimizers[sys.argv[1]](model.parameters(), lr=1e-3)
    batch = torch.randn(BATCH, WIDTH, device="cuda")

    def train_step(_):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    time_steps(sys.argv[1], STEPS, train_step)


if __name__ == "__main__":
    main()
