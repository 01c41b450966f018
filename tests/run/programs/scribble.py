"""
scribble.py HOW [SEED] - a program that harms the memory that it is recorded into. It does it in the
shared memory itself, as a stray write would, while the recorder reads there, and exits with 7.
"""
import os
import random
import struct
import sys
import time

CHUNK = 16384
KIND_PROCESS = 3


def find_memory():
    """The path of the memory: the recorder's /proc, or a file."""
    path = os.environ["WARPSIGHT_SESSION"]
    parts = os.path.basename(path).split("-")
    return "/proc/%s/fd/%s" % (parts[2], parts[4]) if len(parts) > 4 else path


memory = os.open(find_memory(), os.O_RDWR)
size, first = struct.unpack_from("<QI", os.pread(memory, 64, 0), 16)


def read_kind(chunk):
    return struct.unpack("<I", os.pread(memory, 4, chunk * CHUNK + 8))[0]


def write(at, value, size):
    os.pwrite(memory, (value & (1 << 8 * size) - 1).to_bytes(size, "little"), at)


def homes():
    return [c for c in range(first, first + 200) if read_kind(c) == KIND_PROCESS]


def damage_homes():
    """What a process says of itself: its own number, and where its strings are."""
    for chunk in homes():
        write(chunk * CHUNK + 12, random.getrandbits(32), 4)
        write(chunk * CHUNK + 64 + 56, random.getrandbits(64), 8)


def damage_losses():
    """The counts of lost events of every ring."""
    for chunk in range(first, first + 200):
        if read_kind(chunk) == 2:
            write(chunk * CHUNK + 64 + 40, 6294414740280799178, 8)


def damage_anything():
    for _ in range(2000):
        chunk = first + random.randrange(60)
        at = chunk * CHUNK + random.randrange(0, random.choice((64, 256, CHUNK)), 4)
        write(at, random.choice((0, 2**32 - 1, first + 20, random.getrandbits(32))), 4)


def truncate():
    """Again and again, by whatever leads to the memory, while others record into it."""
    for i in range(int(os.environ.get("TIMES", "1"))):
        for path in (memory, find_memory(), os.environ["WARPSIGHT_SESSION"]):
            try:
                os.truncate(path, 0)
                print("truncated")
            except OSError:
                pass
        time.sleep(0.001)


def truncate_journal():
    for name in os.listdir("."):
        if name.endswith(".journal"):
            os.truncate(name, 4096)


random.seed(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
time.sleep(0.05)
globals()[sys.argv[1]]()
time.sleep(0.05)
os._exit(7)
