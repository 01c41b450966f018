#!/usr/bin/env python3
"""data_loader.py - a CNN on small images whose transformations are slow.

    data_loader.py [--workers N] [--steps N]

Each image is rotated, cropped and waits for a millisecond, as for a file server. With --workers=0
the training process does that itself. See docs/tutorial/data-loader.md.
"""
import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from steps import time_steps

device = torch.device("cuda")


class SlowTransform:
    def __call__(self, image):
        time.sleep(0.001)
        return image


class Digits(Dataset):
    """Images of 28 x 28 made up from their number, augmented at random."""

    def __init__(self):
        self.slow = SlowTransform()

    def __len__(self):
        return 1 << 20

    def __getitem__(self, i):
        image = torch.full((1, 32, 32), (i % 255) / 255.0)
        image = torch.rot90(image, i % 4, (1, 2))
        at = torch.randint(0, 4, (2,)).tolist()
        return self.slow(image[:, at[0] : at[0] + 28, at[1] : at[1] + 28]).clone(), i % 10


def make_model():
    return nn.Sequential(
        nn.Conv2d(1, 256, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(256, 256, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(256, 512, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(512, 512, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, 10),
    ).to(device)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    loader = DataLoader(
        Digits(),
        batch_size=64,
        num_workers=options.workers,
        pin_memory=options.workers > 0,
        persistent_workers=options.workers > 0,
    )
    model, loss_function = make_model(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batches = iter(loader)

    def train_step(_):
        images, labels = next(batches)
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        with torch.cuda.nvtx.range("forward"):
            loss = loss_function(model(images), labels)
        with torch.cuda.nvtx.range("backward"):
            optimizer.zero_grad()
            loss.backward()
        with torch.cuda.nvtx.range("optimizer"):
            optimizer.step()

    time_steps("%d workers" % options.workers, options.steps, train_step)


if __name__ == "__main__":
    main()
