#!/usr/bin/env python3
"""data_loader.py - a training loop whose data come too late; without a GPU, without PyTorch.

    data_loader.py [--workers N] [--steps N]

A sample takes a millisecond to fetch, as from a file server, and a batch has eight of them.
Training on a batch takes some two milliseconds of computing. With --workers=0 the process that
trains loads its batches itself, one after the other; with workers, processes load them ahead. See
docs/tutorial/data-loader.md.
"""
import argparse
import hashlib
import multiprocessing
import time

BATCH = 8


class SlowDataset:
    """Samples that arrive one millisecond after they were asked for."""

    def __getitem__(self, i):
        time.sleep(0.001)
        return hashlib.sha256(b"%d" % i).digest() * 128


def load_batch(dataset, number):
    return b"".join(dataset[number * BATCH + i] for i in range(BATCH))


def serve_batches(dataset, pipe, worker, workers, steps):
    """What a worker does: every `workers`-th batch goes into its pipe, which holds two."""
    for number in range(worker, steps, workers):
        pipe.send_bytes(load_batch(dataset, number))


class DataLoader:
    """Batches in order, from worker processes if there are any."""

    def __init__(self, dataset, workers, steps):
        self.dataset, self.steps, self.pipes = dataset, steps, []
        context = multiprocessing.get_context("fork")
        for worker in range(workers):
            ours, theirs = context.Pipe(duplex=False)
            arguments = (dataset, theirs, worker, workers, steps)
            context.Process(target=serve_batches, args=arguments, daemon=True).start()
            theirs.close()
            self.pipes.append(ours)

    def __iter__(self):
        for number in range(self.steps):
            if self.pipes:
                yield self.pipes[number % len(self.pipes)].recv_bytes()
            else:
                yield load_batch(self.dataset, number)


def train_step(batch):
    return hashlib.pbkdf2_hmac("sha256", batch, b"weights", 12000)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    start = time.perf_counter()
    for batch in DataLoader(SlowDataset(), options.workers, options.steps):
        train_step(batch)
    elapsed = time.perf_counter() - start
    print(
        "%d workers: %.2f s, %.1f ms a step"
        % (options.workers, elapsed, 1000 * elapsed / options.steps)
    )


if __name__ == "__main__":
    main()
