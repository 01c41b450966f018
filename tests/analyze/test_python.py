#!/usr/bin/env python3
"""Whole-command tests of analyze on programs of Python: test_python.py WARPSIGHT.

Programs with one fault each are recorded; the fault must be what is named first. Prints TAP.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, HERE)
from findings import analyze, check_absent, check_first
from tap import live, main, same


def record(name, program, options=(), arguments=()):
    with open(name + ".py", "w") as file:
        file.write(program)
    return analyze(name, sys.executable, "-S", name + ".py", *arguments, options=options)


@live
def a_task_that_awaits_in_a_loop_is_named():
    program = """import asyncio
def think():
    for i in range(20000): pass
async def answer(number):
    think()
    await asyncio.sleep(0.01)
    think()
    return number
async def gather_all():
    total = 0
    for number in range(60):
        total += await answer(number)
asyncio.run(gather_all())
"""
    check_first(
        record("turns", program),
        "blocking-io",
        "gather_all (turns.py:12) awaits answer (turns.py:",
        "in a loop",
    )


@live
def tasks_that_a_semaphore_holds_up_are_named():
    program = """import asyncio
def think():
    for i in range(20000): pass
async def ask(number):
    think()
    await asyncio.sleep(0.01)
    think()
async def ask_within(sem, number):
    async with sem:
        await ask(number)
async def ask_all():
    sem = asyncio.Semaphore(1)
    await asyncio.gather(*(ask_within(sem, i) for i in range(60)))
asyncio.run(ask_all())
"""
    check_first(
        record("semaphore", program),
        "blocking-io",
        "ask_within (semaphore.py:10) awaits ask",
        "under a lock or semaphore that lets one task through at a time, taken at line 9: ",
        "made at line 12: sem = asyncio.Semaphore(1)",
    )


SLOTS = """import asyncio
class Prober:
    def __init__(self):
        self.slots = asyncio.Semaphore()
    async def ask(self, number):
        async with self.slots:
            sum(range(20000))
            await asyncio.sleep(0.01)
            sum(range(20000))
async def ask_all():
    prober = Prober()
    await asyncio.gather(*(prober.ask(i) for i in range(60)))
asyncio.run(ask_all())
"""


@live
def a_semaphore_is_known_by_the_line_that_makes_it():
    check_first(
        record("slots", SLOTS),
        "blocking-io",
        "Prober.ask (slots.py:",
        "lets one task through at a time, taken at line 6: async with self.slots:",
        "made at line 4: self.slots = asyncio.Semaphore()",
        "not while the task awaits",
    )


@live
def the_one_worker_of_a_queue_is_named():
    program = """import asyncio
async def serve(reader, writer):
    sum(range(30000))
    await reader.readline()
    await asyncio.sleep(0.01)
    writer.close()
async def fetch(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sum(range(20000))
    writer.write(b"page\\n")
    await reader.read()
    writer.close()
async def work(queue, port):
    while not queue.empty():
        queue.get_nowait()
        await fetch(port)
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    queue = asyncio.Queue()
    for n in range(60): queue.put_nowait(n)
    await asyncio.create_task(work(queue, server.sockets[0].getsockname()[1]))
asyncio.run(main())
"""
    check_first(
        record("pages", program),
        "blocking-io",
        "work (pages.py:16) awaits fetch (pages.py:",
        "in a loop, each time before it goes on",
    )


@live
def an_executor_of_one_thread_is_named():
    program = """import asyncio, time
from concurrent.futures import ThreadPoolExecutor
driver = ThreadPoolExecutor(max_workers=1)
def read(sensor):
    time.sleep(0.01)
    return sensor
async def ask(sensor):
    return await asyncio.get_running_loop().run_in_executor(driver, read, sensor)
async def main():
    print(sum(await asyncio.gather(*(ask(s) for s in range(80)))))
asyncio.run(main())
"""
    check_first(record("executor", program), "sleeping", "on the only worker thread", "read (exe")


BLOCKED = """import asyncio, socket, threading, time
def answer(listener):
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.recv(100)
            time.sleep(0.01)
            connection.sendall(b"yes")
def ask(address):
    with socket.create_connection(address) as connection:
        connection.sendall(b"well?")
        return connection.recv(100)
async def handle(address):
    await asyncio.sleep(0)
    return %s
async def handle_all():
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=answer, args=(listener,), daemon=True).start()
    await asyncio.gather(*(handle(listener.getsockname()) for i in range(60)))
asyncio.run(handle_all())
"""


@live
def a_task_that_blocks_its_event_loop_is_named():
    check_first(
        record("blocked", BLOCKED % "ask(address)"),
        "blocked-loop",
        "handle (blocked.py:15) calls ask (blocked.py:12)",
        "waits in recv",
        "asyncio.to_thread",
    )


@live
def a_task_that_lets_a_thread_wait_blocks_nothing():
    program = BLOCKED % "await asyncio.to_thread(ask, address)"
    check_absent(record("unblocked", program), "blocked-loop")


@live
def a_function_that_calls_itself_is_said_to():
    program = """def ways(n):
    if n < 2: return 1
    return ways(n - 1) + ways(n - 2)
ways(31)
"""
    check_first(
        record("ways", program), "hot-code", "at ways (ways.py:", "calls itself, ", " levels deep"
    )


@live
def work_below_what_only_drives_a_generator_is_named():
    program = """import re
patterns = ["word%d.*[a-f]+(x|y)" % i for i in range(700)]
def matches(title):
    return any(re.search(pattern, title) for pattern in patterns)
print(sum(matches("title %d" % i) for i in range(2)))
"""
    check_first(
        record("patterns", program),
        "library-work",
        "compiling regular expressions, again and again at matches",
        "(patterns.py:4)",
    )


@live
def a_loop_that_only_asks_is_named():
    program = """import threading
done = False
def work():
    global done
    total = 0
    for i in range(3000000): total += i & 3
    done = True
def wait():
    thread = threading.Thread(target=work)
    thread.start()
    while not done:
        pass
    thread.join()
wait()
"""
    check_first(
        record("asking", program),
        "busy-waiting",
        "in a loop that only asks at wait (asking.py:",
        "wait() of an Event",
    )


@live
def processes_that_share_work_do_not_wait_for_the_gil():
    program = """import multiprocessing
def count(limit):
    return sum(1 for n in range(2, limit) if all(n % d for d in range(2, int(n ** 0.5) + 1)))
if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        print(sum(pool.imap(count, [9000] * 20)))
"""
    check_absent(record("primes", program), "gil")


@live
def the_side_that_asks_a_manager_is_named():
    program = """import multiprocessing
def tally(counts):
    for number in range(1500):
        counts[number % 10] = counts.get(number % 10, 0) + 1
if __name__ == "__main__":
    with multiprocessing.Manager() as manager:
        counts = manager.dict()
        worker = multiprocessing.Process(target=tally, args=(counts,))
        worker.start()
        worker.join()
"""
    check_first(
        record("manager", program),
        "handovers",
        "at tally (manager.py:4), by a proxy of multiprocessing.Manager",
        "gather in a local variable",
    )


@live
def the_side_that_asks_a_server_is_named():
    program = """import multiprocessing, xmlrpc.client, xmlrpc.server
def serve(ports):
    server = xmlrpc.server.SimpleXMLRPCServer(("127.0.0.1", 0), logRequests=False)
    server.register_function(lambda word: len(word), "measure")
    ports.send(server.server_address[1])
    server.serve_forever()
def measure_all(proxy, words):
    return sum(
        proxy.measure(word) for word in words)
if __name__ == "__main__":
    ports, port = multiprocessing.Pipe()
    process = multiprocessing.Process(target=serve, args=(port,), daemon=True)
    process.start()
    print(measure_all(xmlrpc.client.ServerProxy("http://127.0.0.1:%d" % ports.recv()), ["a"] * 1500))
    process.terminate()
"""
    check_first(
        record("server", program),
        "round-trips",
        "(server.py:9), by XML-RPC, with a new connection each time",
        "MultiCall",
    )


@live
def what_a_server_sleeps_before_each_answer_is_waited_for_one_by_one():
    program = """import multiprocessing, socket, time
def serve(listener):
    connection, _ = listener.accept()
    lines = connection.makefile("rw")
    for line in lines:
        time.sleep(0.004)
        lines.write(line)
        lines.flush()
def ask(lines, word):
    lines.write(word + chr(10))
    lines.flush()
    return lines.readline()
if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", 0))
    multiprocessing.Process(target=serve, args=(listener,), daemon=True).start()
    lines = socket.create_connection(listener.getsockname()).makefile("rw")
    print(sum(len(ask(lines, "word")) for number in range(200)))
"""
    check_first(record("answers", program), "round-trips", "at ask (answers.py:12)")


@live
def a_pool_whose_other_worker_has_nothing_to_do_is_named():
    program = """import multiprocessing
def compute(size):
    sum = 0
    for number in range(size):
        sum += number * number % 7
    return sum
if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        print(len(pool.map(compute, [30000] * 8 + [1500000] * 8, 8)))
"""
    check_first(record("halves", program), "imbalance", "compute (halves.py:")


@live
def tasks_and_threads_that_ask_side_by_side_are_no_fault():
    program = """import asyncio, multiprocessing, sys
from concurrent.futures import ThreadPoolExecutor
from socket import create_connection
async def answer(reader, writer):
    await reader.readline()
    await asyncio.sleep(0.005)
    writer.write(b"yes")
    writer.close()
async def serve(port):
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port.send(server.sockets[0].getsockname())
    async with server:
        await server.serve_forever()
async def ask(address):
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"well?" + bytes([10]))
    return await reader.read()
async def ask_all(address):
    for i in range(30):
        await asyncio.gather(*(ask(address) for i in range(20)))
def ask_here(address):
    with create_connection(address) as connection:
        connection.sendall(b"well?" + bytes([10]))
        return connection.recv(100)
if __name__ == "__main__":
    ports, port = multiprocessing.Pipe()
    process = multiprocessing.Process(target=lambda: asyncio.run(serve(port)), daemon=True)
    process.start()
    if sys.argv[1] == "tasks":
        asyncio.run(ask_all(ports.recv()))
    else:
        with ThreadPoolExecutor(16) as pool:
            print(len(list(pool.map(ask_here, [ports.recv()] * 600))))
    process.terminate()
"""
    for how in ("tasks", "threads"):
        check_absent(record("sides", program, arguments=[how]), "round-trips")


@live
def who_hands_small_work_to_threads_is_named():
    program = """import asyncio
def add(a, b):
    return a + b
async def total(count):
    sum = 0
    for number in range(count):
        sum = await asyncio.to_thread(add, sum, number)
    return sum
print(asyncio.run(total(4000)))
"""
    check_first(record("handing", program), "handovers", "at total (handing.py:")


@live
def threads_that_sleep_side_by_side_are_no_fault():
    program = """import concurrent.futures, time
def ask(number):
    time.sleep(0.05)
    return number
with concurrent.futures.ThreadPoolExecutor(12) as pool:
    print(sum(pool.map(ask, range(120))))
"""
    report = record("side", program)
    same([f["severity"] for f in report["findings"] if f["rule"] == "sleeping"], ["note"])
    check_absent(report, "work-in-turn")


@live
def tasks_that_only_let_others_go_first_are_named():
    program = """import asyncio, queue, threading, time
items = queue.Queue()
def feed():
    for i in range(5):
        time.sleep(0.1)
        items.put(i)
    items.put(None)
async def consume():
    count = 0
    while True:
        try:
            item = items.get_nowait()
        except queue.Empty:
            await asyncio.sleep(0)
            continue
        if item is None:
            return count
        count += 1
threading.Thread(target=feed).start()
print(asyncio.run(consume()))
"""
    check_first(
        record("polling", program),
        "busy-waiting",
        "a task that only lets others go first (sleep(0))",
        "at consume (polling.py:",
        "call_soon_threadsafe",
    )


@live
def small_tasks_of_a_pool_are_told_from_large_data():
    program = """import multiprocessing
def square(number):
    return number * number
if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        print(sum(pool.imap(square, range(9000))))
"""
    check_first(
        record("tasks", program),
        "process-data",
        "while the program waits at <module> (tasks.py:6)",
        "chunksize",
    )


@live
def tasks_that_are_waited_for_one_by_one_are_told():
    program = """import multiprocessing
def make_row(number):
    return [number * 1.5 + column for column in range(3000)]
if __name__ == "__main__":
    total = 0
    with multiprocessing.Pool(2) as pool:
        for number in range(2500):
            total += len(pool.apply(make_row, (number,)))
    print(total)
"""
    check_first(
        record("inturn", program),
        "process-data",
        "work one at a time, while the program waits at <module> (inturn.py:8)",
        "hand over all tasks first",
    )


@live
def loops_in_loops_and_callers_are_said():
    program = """def join(orders, customers):
    found = 0
    for order in orders:
        for customer in customers:
            if customer["id"] == order["customer"]:
                found += 1
    return found
print(join([{"customer": i} for i in range(2500)], [{"id": i} for i in range(2500)]))
"""
    check_first(
        record("join", program),
        "hot-code",
        "in 2 nested loops, which compare each item with each",
        "Put one side into a dictionary",
    )
    program = """def total(lines):
    value = 0
    for line in lines: value += line
    return value
def fill(limit):
    lines = []
    while total(lines) < limit: lines.append(len(lines) % 7)
    return lines
print(len(fill(12000)))
"""
    check_first(
        record("totals", program),
        "hot-code",
        "at total (",
        "called in a loop at fill (totals.py:7)",
    )


@live
def loops_that_search_and_comprehensions_are_said():
    program = """def find(customers, wanted):
    for customer in customers:
        if customer["id"] == wanted:
            return customer
def join(known):
    for n in range(len(known)):
        find(known, n)
join([{"id": n} for n in range(2500)])
"""
    report = record("search", program)
    check_first(
        report,
        "hot-code",
        "which compares items one by one, called in a loop at join (search.py:7)",
        "each search becomes one look-up",
    )
    same(report["findings"][0]["severity"], "warning")
    program = """rows = [(k * 7919 % 365, k % 40) for k in range(40000)]
print(len({day: [v for d, v in rows if d == day] for day in range(365)}))
"""
    report = record("group", program)
    if sys.version_info < (3, 12):  # later ones have no frames of comprehensions
        check_first(report, "hot-code", "in 2 nested loops, which compare each item with each")


@live
def work_on_the_same_things_in_a_loop_is_a_warning():
    program = """import json
TEXT = json.dumps({"rates": {f"c{i}": i / 7 for i in range(300)}})
def price(order):
    rates = json.loads(TEXT)["rates"]
    return rates[f"c{order % 300}"]
print(round(sum(price(order) for order in range(4000))))
"""
    report = record("rates", program)
    check_first(report, "library-work", "JSON", "of the same things each time at price")
    same(report["findings"][0]["severity"], "warning")
    program = """import random
def auction(count):
    bids = []
    for _ in range(count):
        bids.append(random.random())
        bids.sort(key=lambda bid: -bid)
    return bids[0]
print(auction(2000))
"""
    check_first(record("auction", program), "library-work", "sorting, of the same things each")
    program = """import random
def medians(count):
    found = []
    for _ in range(count):
        values = [random.random() for _ in range(300)]
        values.sort(key=lambda value: -value)
        found.append(values[150])
    return found
print(len(medians(2500)))
"""
    report = record("medians", program)
    same([f["severity"] for f in report["findings"] if "same things" in f["title"]], [])


GROUPS = """import asyncio
def think():
    for i in range(20000): pass
async def ask(number):
    think()
    await asyncio.sleep(0.06 if number %% 4 == 0 else 0.005)
    think()
    return number
%s
asyncio.run(ask_all())
"""


@live
def groups_of_tasks_that_wait_for_their_slowest_are_named():
    program = """async def ask_all():
    for first in range(0, 60, 4):
        await asyncio.gather(*(ask(n) for n in range(first, first + 4)))
"""
    report = record("groups", GROUPS % program)
    check_first(report, "blocking-io", "in groups", "at line 11", "Semaphore")
    program = """async def ask_one(slots, number):
    async with slots:
        await ask(number)
async def ask_all():
    slots = asyncio.Semaphore(4)
    await asyncio.gather(*(ask_one(slots, number) for number in range(40)))
"""
    report = record("slots", GROUPS % program)
    same([f["title"] for f in report["findings"] if "groups" in f["title"]], [])


@live
def conditions_that_compare_no_items_are_no_searches():
    program = """def longest(limit):
    best = 0
    for start in range(1, limit):
        value, steps = start, 0
        while value != 1:
            value = value // 2 if value % 2 == 0 else 3 * value + 1
            steps += 1
        best = max(best, steps)
    return best
print(longest(12000))
"""
    report = record("collatz", program)
    finding = report["findings"][0]
    same([finding["severity"], "compare" in finding["title"]], ["note", False])
    same("dictionary, by what" in finding["advice"], False)


@live
def queries_of_pages_by_offset_are_a_warning():
    program = """import sqlite3
db = sqlite3.connect(":memory:")
db.execute("create table reading (id integer primary key, value integer)")
db.executemany("insert into reading values (?, ?)", ((n, n % 7) for n in range(60000)))
def page(first):
    return db.execute("SELECT id, value FROM reading ORDER BY id LIMIT 100 OFFSET ?",
                      (first,)).fetchall()
def read():
    return sum(len(page(first)) for first in range(0, 60000, 100))
print(read())
"""
    report = record("pages", program)
    check_first(report, "library-work", "queries", "page (pages.py:", "WHERE id > ?")
    same(report["findings"][0]["severity"], "warning")


@live
def processes_are_named_by_the_line_that_starts_them():
    program = """import subprocess
def pack(name):
    return subprocess.run(["true", name])
for i in range(150): pack("a")
"""
    check_first(record("packing", program), "child-processes", " pack (packing.py:3)")


@live
def a_heap_of_objects_is_no_list_that_is_searched():
    program = """import heapq
class Event:
    def __init__(self, at): self.at = at
    def __lt__(self, other): return self.at < other.at
heap = []
for i in range(40000): heapq.heappush(heap, Event(i * 7919 % 40009))
for i in range(40000): heapq.heappop(heap)
"""
    report = record("heap", program)
    same([f["title"] for f in report["findings"] if f["severity"] in ("warning", "critical")], [])


@live
def handlers_of_logs_that_are_made_again_are_named():
    program = """import logging
def note(text):
    handler = logging.FileHandler("notes.log")
    log = logging.getLogger("notes")
    log.propagate = False
    log.addHandler(handler)
    log.warning(text)
    log.removeHandler(handler)
    handler.close()
for i in range(6000): note("event")
"""
    check_first(
        record("notes", program),
        "library-work",
        "making handlers and files of logs, again and again at note (notes.py:",
    )


COPIES = """import copy
def render(defaults):
    return copy.deepcopy(defaults)
for i in range(%d): render({"a": [1, 2, 3] * 20, "b": {"c": [4] * 50}})
"""


def get_severities(report, rule):
    return [f["severity"] for f in report["findings"] if f["rule"] == rule]


@live
def a_few_samples_are_a_note():
    many = record("copies", COPIES % 9000)
    same(get_severities(many, "library-work"), ["warning"])
    few = record("copies", COPIES % 9000, ["--sampling-frequency=20"])
    same("warning" in get_severities(few, "library-work"), False)


@live
def a_rule_that_cannot_look_says_so():
    report = record("copies", COPIES % 1, ["--trace=none"])
    whys = [one["why"] for one in report["not_looked"] if one["rule"] == "read-again"]
    same(len(whys), 1)
    same("--trace=osrt" in whys[0], True)


MESSAGES = """import logging, os
log = logging.getLogger("orders")
logging.basicConfig(level=logging.%s, stream=open(os.devnull, "w"))
def describe(order):
    return ", ".join(str(item) for item in sorted(order))
def handle(order):
    log.debug(
        "order %%s",
        describe(order))
for i in range(6000):
    handle(range(200))
"""


@live
def messages_that_are_not_written_are_named():
    check_first(
        record("messages", MESSAGES % "INFO"),
        "unused-messages",
        "not written at handle (messages.py:9)",
    )


@live
def messages_that_are_written_are_no_fault():
    check_absent(record("written", MESSAGES % "DEBUG"), "unused-messages")


POOLS = """import multiprocessing
def worst(series):
    return max(abs(a - b) for a, b in zip(series, series[1:]))
def work_batch(number, pool):
    return max(pool.map(worst, [[number * k %% 97 for k in range(300)] for i in range(8)]))
if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    %s
"""


@live
def pools_that_are_made_for_each_batch_are_named():
    report = record(
        "pools",
        POOLS
        % """for number in range(40):
        with context.Pool(2) as pool:
            work_batch(number, pool)""",
    )
    check_first(
        report,
        "worker-start",
        "80 worker processes are started again and again at <module> (pools.py:9), 2 at a time",
        "Make one pool",
    )


@live
def one_pool_for_all_batches_is_no_fault():
    report = record(
        "one_pool",
        POOLS
        % """with context.Pool(2) as pool:
        for number in range(40):
            work_batch(number, pool)""",
    )
    check_absent(report, "worker-start")


@live
def a_task_that_asks_again_after_a_pause_is_told_to_wait_for_what_it_needs():
    program = """import asyncio
class Job:
    value = None
    async def run(self):
        await asyncio.sleep(0.004)
        self.value = 1
async def finished(job):
    while job.value is None:
        await asyncio.sleep(0.05)
async def main():
    for number in range(20):
        job = Job()
        task = asyncio.create_task(job.run())
        await finished(job)
        await task
asyncio.run(main())
"""
    report = record("pauses", program)
    check_first(report, "blocking-io", "until a time limit is over", "It asks again and again")
    title = report["findings"][0]["title"]
    same("finished (pauses.py:9)" in title or "at line 9: await" in title, True)


WEIGHT = """class Parcel:
    def __init__(self, items):
        self.items = items
    %s
    def weight(self):
        return sum(self.items)
def heaviest(parcels):
    best = parcels[0]
    for i in range(300):
        for parcel in parcels:
            if parcel.weight%s > best.weight%s:
                best = parcel
    return best
print(heaviest([Parcel(list(range(n %% 97 + 200))) for n in range(400)]).items[0] %% 2)
"""


@live
def a_property_that_is_computed_at_each_access_is_named():
    check_first(
        record("property", WEIGHT % ("@property", "", "")),
        "library-work",
        "at Parcel.weight (property.py:6)",
        "a property, which is computed at each access, called in a loop at heaviest",
        "functools.cached_property",
    )


@live
def a_method_is_no_property():
    report = record("method", WEIGHT % ("# no @property", "()", "()"))
    same("a property" in report["findings"][0]["title"], False)


SAVING = """import json
state = []
def save():
    with open("state.json", "w") as out:
        json.dump(state, out)
for number in range(500):
    state.append({"job": number, "result": number * 7919 % 10007})
    if number > 300:
        save()
        json.dumps(state, indent=1)
"""


@live
def writing_the_whole_state_again_is_told_to_write_what_changed():
    report = record("saving", SAVING)
    found = [f for f in report["findings"] if "writing JSON" in f["title"]]
    same(found[0]["advice"].startswith("Write only what has changed"), True)


@live
def a_loop_that_counts_its_turns_while_it_asks_is_named():
    program = """import threading
class Task:
    def __init__(self):
        self.values, self.ended = [], False
    def run(self):
        for n in range(3000000):
            self.values.append(n * n % 7)
            if n % 1000 == 0:
                self.values.clear()
        self.ended = True
    def done(self):
        return self.ended
def wait_for(task):
    turns = 0
    while not task.done():
        turns += 1
        if turns % 1000000 == 0:
            print("|/-"[turns // 1000000 % 3])
task = Task()
threading.Thread(target=task.run).start()
wait_for(task)
"""
    check_first(record("spinner", program), "busy-waiting", "wait_for")


@live
def a_loop_that_counts_up_to_what_it_asks_for_is_no_busy_wait():
    program = """import threading
def fill(values):
    for n in range(3000000):
        values[n % 100] = n * n % 7
def count(limit):
    turns = 0
    while turns < limit:
        turns += 1
    return turns
thread = threading.Thread(target=fill, args=([0] * 100,))
thread.start()
count(12000000)
"""
    check_absent(record("counter", program), "busy-waiting")


DOWNLOADS = """import time
from concurrent.futures import ThreadPoolExecutor
def download(n):
    time.sleep(0.02)
    return n
def gather():
    total = 0
    with ThreadPoolExecutor(6) as pool:
        %s
    return total
print(gather())
"""


@live
def results_that_are_waited_for_one_by_one_are_named():
    program = DOWNLOADS % (
        "for n in range(50):\n            total += pool.submit(download, n).result()"
    )
    check_first(
        record("results", program),
        "sleeping",
        "Each result is waited for before the next is asked for at gather (results.py:10)",
        "Ask for all first",
    )


@live
def results_that_are_asked_for_together_are_no_such_fault():
    report = record("together", DOWNLOADS % "total = sum(pool.map(download, range(300)))")
    same([f for f in report["findings"] if "Each result" in f["title"]], [])


@live
def a_function_that_sums_up_its_own_results_is_told_to_keep_them():
    program = """def ways(steps, sizes=(1, 2, 3)):
    if steps <= 0:
        return steps == 0
    return sum(ways(steps - s) for s in sizes)
print(ways(21))
"""
    first = record("ways", program)["findings"][0]
    same("which calls itself" in first["title"] and "functools.cache" in first["advice"], True)


@live
def a_sort_by_comparisons_is_told_to_use_a_key():
    program = """import functools
def compare(a, b):
    return (a[1] > b[1]) - (a[1] < b[1])
def ranking(names):
    return sorted(names, key=functools.cmp_to_key(compare))
for turn in range(6):
    ranking([(n, n * 7919 % 40009) for n in range(40000)])
"""
    found = record("ranking", program)["findings"]
    told = [f for f in found if "cmp_to_key" in f["title"] and "Sort by a key" in f["advice"]]
    same(len(told), 1, found)


if __name__ == "__main__":
    main()
