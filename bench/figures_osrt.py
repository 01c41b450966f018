"""figures_osrt.py - what the OS-runtime hook adds to calls, kind by kind."""
from run import Row, figure

MODES = [  # mode, calls, limit on what is added, what it is
    ("mutex-mt", 20000000, 3, "mutex lock+unlock, threaded process"),
    ("rwlock", 10000000, None, "rwlock rdlock+unlock"),
    ("sem", 10000000, None, "semaphore wait+post"),
    ("spin", 10000000, None, "spin lock+unlock"),
    ("trylock", 10000000, None, "mutex trylock+unlock"),
    ("cond-signal", 10000000, None, "cond signal, nobody waiting"),
    ("getc", 10000000, None, "getc from the buffer"),
    ("putc", 10000000, None, "putc into the buffer"),
    ("fwrite", 10000000, None, "fwrite of 16 B into the buffer"),
    ("getpid", 2000000, 3, "getpid, not in the list"),
    ("yield", 1000000, None, "sched_yield"),
    ("file-write", 300000, None, "4 KiB pwrite (recorded when over 1 us)"),
    ("ping-pong", 100000, None, "condition variable ping-pong, a round"),
]


@figure
def os_runtime_calls(b):
    for mode, n, limit, title in MODES:
        bare, ours = b.in_turn(b.program("osrt_bench"), mode, str(n), options=["-t", "osrt"])
        yield Row(title, "ns", bare, ours, limit)
