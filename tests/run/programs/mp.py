"""mp.py - Python: mp.py fork|spawn|threads LIBRARY. Ranges by way of a C library (ctypes) in every
worker, and a sleep each.
"""
import ctypes
import multiprocessing
import os
import sys
import threading
import time


def item(library, number):
    lib = ctypes.CDLL(library)
    for _ in range(5):
        lib.lib_push(b"item %d" % number)
        time.sleep(0.002)
        lib.lib_pop()
    return number * number


def main():
    how, library = sys.argv[1:3]
    if how == "threads":
        all_threads = [threading.Thread(target=item, args=(library, i)) for i in range(4)]
        for t in all_threads:
            t.start()
        for t in all_threads:
            t.join()
        print("threads")
        return 3
    ctx = multiprocessing.get_context(how)
    got = []
    for i in range(4):
        # one process an item, so that which process does what is known
        with ctx.Pool(1) as pool:
            got += pool.starmap(item, [(library, i)])
            pool.close()
            pool.join()
    print(got, os.environ.get("NOTHING", "none"))
    return 2


if __name__ == "__main__":
    sys.exit(main())
