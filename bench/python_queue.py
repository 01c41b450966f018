"""python_queue.py - threads that hand things through one queue: python_queue.py THREADS ITEMS;
prints how many seconds that took.
"""
import queue
import sys
import threading
import time

THREADS, ITEMS = int(sys.argv[1]), int(sys.argv[2])


def put(q, n):
    for i in range(n):
        q.put(i)


def get(q, n):
    for _ in range(n):
        q.get()


q = queue.Queue(4)
pairs = max(THREADS // 2, 1)
threads = [
    threading.Thread(target=f, args=(q, ITEMS // pairs)) for _ in range(pairs) for f in (put, get)
]
begin = time.perf_counter()
for t in threads:
    t.start()
for t in threads:
    t.join()
print(time.perf_counter() - begin)
