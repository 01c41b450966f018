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
from tap import Skip, main, run, same, test

EXAMPLES = os.path.join(HERE, "..", "..", "examples", "cpu")
LOCK_CONVOY = os.path.abspath(sys.argv[2])


def analyze(name, *command):
    path = name + ".wsrep"
    run("profile", "-q", "-f", "-o", path, *command)
    return json.loads(run("analyze", "-f", "json", path).out)[0]


def skip_blind(report, rule):
    """Where this machine does not let a rule look, the test says so."""
    for one in report["not_looked"]:
        if one["rule"] == rule:
            raise Skip(one["why"])


def check_first(report, rule, *words):
    """The fault is the first finding, and its texts name the place, the cause and the remedy."""
    skip_blind(report, rule)
    found = report["findings"][0] if report["findings"] else {"rule": "none"}
    if found["rule"] != rule:
        raise AssertionError("%s is not first: %s" % (rule, json.dumps(report["findings"])))
    same(found["id"], rule)
    for word in words:
        if word not in found["title"] + " " + found["advice"]:
            raise AssertionError("%s is not in: %s" % (word, found))


def check_absent(report, rule):
    skip_blind(report, rule)
    found = [f for f in report["findings"] if f["rule"] == rule and f["severity"] != "ok"]
    same(found, [])


def load(workers, steps):
    script = os.path.join(EXAMPLES, "data_loader.py")
    options = ["--workers=%d" % workers, "--steps=%d" % steps]
    return analyze("loader%d" % workers, sys.executable, "-S", script, *options)


@test
def loading_in_the_process_that_trains_is_named():
    check_first(load(0, 60), "data-loading", "SlowDataset.__getitem__", "in the training process")


@test
def too_few_workers_are_named_with_their_number():
    check_first(load(2, 100), "data-loading", "in too few workers", "now there are 2")


def sort_out(version):
    return analyze("convoy-" + version, LOCK_CONVOY, version)


@test
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


@test
def a_flush_for_every_record_is_named():
    if measure_flush("flushed") < 50_000:
        raise Skip("files are kept in memory here: a flush takes no time")
    script = os.path.join(EXAMPLES, "slow_disk.py")
    report = analyze("disk-each", sys.executable, "-S", script, "each")
    check_first(report, "blocking-io", "fsync", "ledger.bin", "flush_ledger", "Flush less often")


def write_timing(waits):
    """What Nsight Systems exports of cuda/timing.cu: kernels of 2 ms, a range around each launch,
    which does or does not wait for the kernel.
    """
    name = "timing-%s.sqlite" % ("right" if waits else "wrong")
    process = 1 << 48 | 500 << 24
    thread, now, gpu = process | 501, 1000, 1000
    calls, kernels, ranges = [], [], []
    for i in range(20):
        start = now
        gpu = max(gpu, now + 9000) + 2_000_000
        calls.append((start + 1000, start + 6000, thread, i + 1, 2))
        kernels.append((gpu - 2_000_000, gpu, 0, 1, 7, i + 1, process, 1, 1, 4096, 1, 1))
        now = start + 10_000
        if waits:
            calls.append((now, gpu + 3000, thread, 100 + i, 3))
            now = gpu + 5000
        ranges.append((start, now, 59, "timed kernel", thread))
        now += 2000
    calls.append((now, gpu + 3000, thread, 999, 3))
    columns = {
        "StringIds": ("id", "value"),
        "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "end", "globalTid", "correlationId", "nameId"),
        "CUPTI_ACTIVITY_KIND_KERNEL": (
            ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid")
            + ("demangledName", "shortName", "gridX", "gridY", "gridZ")
        ),
        "NVTX_EVENTS": ("start", "end", "eventType", "text", "globalTid"),
    }
    names = [(1, "compute"), (2, "cudaLaunchKernel_v7000"), (3, "cudaDeviceSynchronize_v3020")]
    with sqlite3.connect(name) as db:
        for (table, of), rows in zip(columns.items(), (names, calls, kernels, ranges)):
            db.execute("CREATE TABLE %s (%s)" % (table, ", ".join(of)))
            marks = ", ".join("?" * len(of))
            db.executemany("INSERT INTO %s VALUES (%s)" % (table, marks), rows)
    db.close()
    return json.loads(run("analyze", "-f", "json", name).out)[0]


@test
def clocks_that_are_read_too_early_are_named():
    check_first(write_timing(False), "unfinished-ranges", '"timed kernel"', "Launches return")
    check_absent(write_timing(True), "unfinished-ranges")


if __name__ == "__main__":
    main()
