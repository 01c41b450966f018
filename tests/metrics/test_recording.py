#!/usr/bin/env python3
"""GPU metrics as the commands say them: what options mean, what keeps them from being recorded.
Prints TAP.

Usage: test_recording.py WARPSIGHT STAND-IN. The stand-in takes the place of CUPTI and NVML.
"""
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import check_equal, done

WARPSIGHT, STANDIN = map(os.path.abspath, sys.argv[1:3])


def check(got, want, name):
    check_equal(name, got, want)


def call(*words, mode=""):
    env = dict(os.environ, WARPSIGHT_PM=STANDIN, WARPSIGHT_NVML=STANDIN, WARPSIGHT_PM_MODE=mode)
    env.pop("CUDA_VISIBLE_DEVICES", None)
    return subprocess.run([WARPSIGHT, *words], env=env, capture_output=True, text=True)


def profile(*words, mode=""):
    return call(
        "profile", "--system-metrics=none", "--sample=none", "-t", "none", *words, mode=mode
    )


os.chdir(tempfile.mkdtemp())
r = profile("--gpu-metrics-devices=help")
check(
    sorted(line.split(",")[0] for line in r.stdout.splitlines()),
    ["0: Stand-in 1", "1: Stand-in 0"],
    "help lists the GPUs by their numbers in NVML",
)
check("Tensor Active" in profile("--gpu-metrics-set=help").stdout, True, "help lists the sets")
r = profile("--gpu-metrics-devices=help", mode="mig")
check("divided into MIG instances" in r.stdout, True, "and what keeps GPUs from being sampled")
for word in ("devices=x", "frequency=9", "set=/none"):
    r = profile("--gpu-metrics-devices=all", "--gpu-metrics-" + word, "true")
    check((r.returncode, r.stderr.count("\n")), (2, 1), "--gpu-metrics-%s is refused" % word)
r = profile("-o", "none", "--gpu-metrics-set=bytes", "true")
check(
    (r.returncode, "no effect without --gpu-metrics-devices" in r.stderr),
    (0, True),
    "a set without GPUs is worth a warning",
)
r = profile("-o", "denied", "--gpu-metrics-devices=0", "echo", "ran", mode="denied")
check((r.returncode, r.stdout), (0, "ran\n"), "a program runs whose GPUs may not be sampled")
r = call("info", "denied.wsrep")
check("NVreg_RestrictProfilingToAdminUsers=0" in r.stdout, True, "the report says what would help")
r = profile("-o", "sampled", "--gpu-metrics-devices=all", "echo", "ran")
check((r.returncode, r.stdout), (0, "ran\n"), "a program runs whose GPUs are sampled")
check(call("info", "sampled.wsrep").returncode, 0, "and has a report")


def count_sampled(report):
    """How many rows the GPU metrics of a report have, GPU by GPU."""
    query = (
        "SELECT count(DISTINCT c.nameId) AS n FROM WARPSIGHT_COUNTER c JOIN StringIds g "
        "ON g.id = c.groupId WHERE g.value LIKE 'GPU metrics%' GROUP BY c.groupId"
    )
    return call("query", "-f", "csv", report, query).stdout.split()[1:]


r = profile("-q", "-o", "machine", "--gpu-metrics-devices=all", "--duration=1")
check((r.returncode, r.stderr), (0, ""), "a machine is recorded without a program")
waiting = subprocess.Popen(
    [WARPSIGHT, "profile", "-q", "-o", "until", "--sample=none", "--gpu-metrics-devices=all"],
    env=dict(os.environ, WARPSIGHT_PM=STANDIN, WARPSIGHT_NVML=STANDIN),
)
for _ in range(600):
    if os.path.exists("until.wsrep") and count_sampled("until.wsrep"):
        break
    time.sleep(0.1)
waiting.send_signal(signal.SIGINT)
check(waiting.wait(), 0, "or until it is interrupted")
check(len(count_sampled("until.wsrep")), 2, "and has a report with its GPUs")
r = profile("--gpu-metrics-devices=all", "--kill=none", "--duration=1")
check(
    (r.returncode, r.stderr.count("\n")), (2, 1), "what only makes sense with a program is refused"
)
r = profile("--duration=1")
check((r.returncode, "no program to run" in r.stderr), (2, True), "as is nothing to record")
done()
