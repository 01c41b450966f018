#!/usr/bin/env python3
"""The worked examples of examples/ and docs/tutorial: test_examples.py WARPSIGHT LOCK_CONVOY.

Each has a version with a fault, which analyze must name first and at its place, and repaired ones,
for which it must not. Those without a GPU are recorded here; how long their repaired versions wait
for a disk or for the first batch is the machine's affair and not asserted. Prints TAP.
"""
import json
import os
import sqlite3
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, HERE)
from findings import analyze, check_absent, check_first, skip_blind
from tap import Skip, live, main, run, same, test

EXAMPLES = os.path.join(HERE, "..", "..", "examples", "cpu")
LOCK_CONVOY = os.path.abspath(sys.argv[2])


def load(workers, steps):
    script = os.path.join(EXAMPLES, "data_loader.py")
    options = ["--workers=%d" % workers, "--steps=%d" % steps]
    report = analyze("loader%d" % workers, sys.executable, "-S", script, *options)
    skip_blind(report, "sleeping")  # loading waits, which is not seen where threads are not
    return report


@live
def loading_in_the_process_that_trains_is_named():
    check_first(load(0, 60), "data-loading", "SlowDataset.__getitem__", "in the training process")


@live
def too_few_workers_are_named_with_their_number():
    """With one: on a busy machine a step takes as long as two workers need for its batch."""
    check_first(load(1, 100), "data-loading", "in too few workers", "now there are 1")


@live
def workers_that_are_ahead_are_no_fault():
    """They wait until the process that trains reads: it has all that it needs."""
    check_absent(load(4, 100), "slow-reader")


def sort_out(version):
    return analyze("convoy-" + version, LOCK_CONVOY, version)


@live
def a_lock_convoy_is_named_and_gone_after_the_repair():
    check_first(sort_out("shared"), "lock-contention", "4 threads", "count_document")
    check_absent(sort_out("split"), "lock-contention")


def measure_flush(path):
    """Nanoseconds that this disk takes for a small flush, the median of some."""
    times = []
    with open(path, "wb") as file:
        for _ in range(21):
            file.write(b"x" * 512)
            file.flush()
            start = time.perf_counter_ns()
            os.fsync(file.fileno())
            times.append(time.perf_counter_ns() - start)
    os.unlink(path)
    return sorted(times)[10]


@live
def a_flush_for_every_record_is_named():
    if measure_flush("flushed") < 50_000:
        raise Skip("files are kept in memory here: a flush takes no time")
    script = os.path.join(EXAMPLES, "slow_disk.py")
    report = analyze("disk-each", sys.executable, "-S", script, "each")
    check_first(report, "blocking-io", "fsync", "ledger.bin", "flush_ledger", "Flush less often")


COLUMNS = {
    "StringIds": ("id", "value"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "end", "globalTid", "correlationId", "nameId"),
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid")
        + ("demangledName", "shortName", "gridX", "gridY", "gridZ")
    ),
    "NVTX_EVENTS": ("start", "end", "eventType", "text", "globalTid"),
}
PROCESS = 1 << 48 | 500 << 24


class Export:
    """What Nsight Systems exports of a program whose threads launch and wait; times are ns."""

    def __init__(self):
        names = ((1, "compute"), (2, "cudaLaunchKernel_v7000"), (3, "cudaDeviceSynchronize_v3020"))
        self.rows = {table: [] for table in COLUMNS}
        self.rows["StringIds"] = list(names)
        self.now = {}  # by thread
        self.gpu = {}  # when each has nothing left to do

    def launch(self, thread, ns, device=0):
        start = self.now.setdefault(thread, 1000)
        link = len(self.rows["CUPTI_ACTIVITY_KIND_RUNTIME"]) + 1
        begin = max(self.gpu.get(device, 0), start + 9000)
        self.now[thread] = start + 6000
        self.gpu[device] = begin + ns
        call = (start, start + 5000, PROCESS | thread, link, 2)
        self.rows["CUPTI_ACTIVITY_KIND_RUNTIME"].append(call)
        kernel = (begin, begin + ns, device, device + 1, 7, link, PROCESS, 1, 1, 4096, 1, 1)
        self.rows["CUPTI_ACTIVITY_KIND_KERNEL"].append(kernel)

    def wait(self, thread, device=0):
        link = len(self.rows["CUPTI_ACTIVITY_KIND_RUNTIME"]) + 1
        start, self.now[thread] = self.now[thread], self.gpu[device] + 5000
        call = (start, self.gpu[device] + 3000, PROCESS | thread, link, 3)
        self.rows["CUPTI_ACTIVITY_KIND_RUNTIME"].append(call)

    def mark(self, thread, text, start):
        self.rows["NVTX_EVENTS"].append((start, self.now[thread], 59, text, PROCESS | thread))
        self.now[thread] += 2000

    def analyze(self, name):
        with sqlite3.connect(name) as db:
            for table, columns in COLUMNS.items():
                db.execute("CREATE TABLE %s (%s)" % (table, ", ".join(columns)))
                marks = ", ".join("?" * len(columns))
                db.executemany("INSERT INTO %s VALUES (%s)" % (table, marks), self.rows[table])
        db.close()
        return json.loads(run("analyze", "-f", "json", name).out)[0]


def time_kernels(waits):
    """cuda/timing.cu: a range around each launch, which does or does not wait for the kernel."""
    export = Export()
    for i in range(20):
        start = export.now.get(501, 0)
        export.launch(501, 500_000_000 if not i else 2_000_000)
        if waits or not i:  # the first, which loads the kernel, is waited for
            export.wait(501)
        export.mark(501, "timed kernel", start)
    export.wait(501)
    return export.analyze("timing-%s.sqlite" % ("right" if waits else "wrong"))


@test
def clocks_that_are_read_too_early_are_named():
    check_first(time_kernels(False), "unfinished-ranges", '"timed kernel"', "Launches return")
    check_absent(time_kernels(True), "unfinished-ranges")


def feed_gpus(threads):
    """cuda/two_gpus.cu: batches are prepared for 3 ms and computed on for 2 ms, on each GPU."""
    export = Export()
    for step in range(20):
        starts = {}
        for gpu in range(2):
            thread = 501 + gpu % threads
            starts.setdefault(thread, export.now.get(thread, 0))
            export.now[thread] = export.now.get(thread, 0) + 3_000_000
            export.launch(thread, 2_000_000, gpu)
            export.wait(thread, gpu)
        export.mark(501, "step %d" % step, starts[501])
    return export.analyze("feeding-%d.sqlite" % threads)


@test
def one_thread_for_two_gpus_is_named():
    report = feed_gpus(1)
    check_first(report, "one-feeder", "501", "2 GPUs", "a thread of its own")
    if not 0.4 < report["findings"][0]["gain_share"] < 0.6:  # in truth it is a half
        raise AssertionError(report["findings"][0])
    check_absent(feed_gpus(2), "one-feeder")


if __name__ == "__main__":
    main()
