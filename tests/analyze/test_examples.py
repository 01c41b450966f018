#!/usr/bin/env python3
"""The worked examples of examples/ and docs/tutorial: test_examples.py WARPSIGHT LOCK_CONVOY.

Each has a version with a fault, which analyze must name first and at its place, and repaired ones,
for which it must not. Those without a GPU are recorded here; how long their repaired versions wait
for a disk or for the first batch is the machine's affair and not asserted. Prints TAP.
"""
import json
import os
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


if __name__ == "__main__":
    main()
