"""steps.py - what the examples in PyTorch share: marked steps, and the time that one takes."""
import time

import torch

WARM_UP = 4


def time_steps(version, steps, step):
    """Runs step(i), each in a marked range, and prints how long one took."""
    for i in range(WARM_UP + steps):
        if i == WARM_UP:
            torch.cuda.synchronize()
            start = time.perf_counter()
        with torch.cuda.nvtx.range("step %d" % i):
            step(i)
    torch.cuda.synchronize()
    print("%s: %.3f ms a step" % (version, 1000 * (time.perf_counter() - start) / steps))
