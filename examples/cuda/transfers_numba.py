#!/usr/bin/env python3
"""transfers_numba.py - pageable against pinned memory in Numba: watch the kinds of the copies and
how long the calls take.
"""
import numpy as np
from numba import cuda


@cuda.jit
def scale(p, by):
    i = cuda.grid(1)
    if i < p.size:
        p[i] *= by


n = 1 << 22
device = cuda.device_array(n, np.float32)
pageable = np.ones(n, np.float32)
pinned = cuda.pinned_array(n, np.float32)
pinned[:] = 1
stream = cuda.stream()
for host in (pageable, pinned):
    for _ in range(5):
        device.copy_to_device(host, stream=stream)
        scale[(n + 255) // 256, 256, stream](device, 2.0)
        device.copy_to_host(host, stream=stream)
    stream.synchronize()
print(float(pinned[0]))
