"""python_contended.py KIND THREADS ITEMS - threads that wait for one another, in one of several
ways; prints how many seconds that took.
"""
import asyncio
import concurrent.futures
import queue
import sys
import threading
import time

KIND, THREADS, ITEMS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def run_threads(*functions):
    threads = [threading.Thread(target=f) for f in functions]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def hand_through_queue(size):
    q = queue.Queue(size)
    pairs = max(THREADS // 2, 1)

    def put():
        for i in range(ITEMS // pairs):
            q.put(i)

    def get():
        for _ in range(ITEMS // pairs):
            q.get()

    run_threads(*(f for _ in range(pairs) for f in (put, get)))


def take_turns():
    condition = threading.Condition()
    done = 0

    def take(mine):
        nonlocal done
        for _ in range(ITEMS // THREADS):
            with condition:
                condition.wait_for(lambda: done % THREADS == mine)
                done += 1
                condition.notify_all()

    run_threads(*(lambda mine=i: take(mine) for i in range(THREADS)))


def share_lock():
    lock = threading.Lock()
    done = 0

    def take():
        nonlocal done
        for i in range(ITEMS // THREADS):
            with lock:
                done += 1
                if i % 10 == 0:
                    time.sleep(0)

    run_threads(*[take] * THREADS)


def use_pool():
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        for _ in pool.map(abs, range(ITEMS)):
            pass


def use_executor():
    async def call_all():
        loop = asyncio.get_running_loop()
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            for _ in range(ITEMS // THREADS):
                await asyncio.gather(*(loop.run_in_executor(pool, abs, i) for i in range(THREADS)))

    asyncio.run(call_all())


KINDS = {
    "short-queue": lambda: hand_through_queue(4),
    "queue": lambda: hand_through_queue(100),
    "condition": take_turns,
    "lock": share_lock,
    "pool": use_pool,
    "executor": use_executor,
}
begin = time.perf_counter()
KINDS[KIND]()
print(time.perf_counter() - begin)
