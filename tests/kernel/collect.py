"""collect.py - what tests share that measure kernels on a stand-in for the driver and CUPTI
(standin.h): test_SOMETHING.py WARPSIGHT APP FOLDER_OF_STANDINS
"""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap

APP, FOLDER = (os.path.abspath(path) for path in sys.argv[2:4])
METRICS = "smsp__inst_executed.sum,lts__t_sectors.sum"
SOURCE = ("--section", "SourceCounters", "--instructions", "all")
HERE = os.path.dirname(os.path.abspath(__file__))
# What the program prints without warpsight; how often kernels ran is the only difference.
BARE = "sum 15000150000 far 3 graph 0 counter 4 host 4 surprises 0"


def environment(**more):
    home = os.path.join(os.getcwd(), "toolkit")
    os.makedirs(os.path.join(home, "lib64"), exist_ok=True)
    link = os.path.join(home, "lib64", "libcupti.so.13")
    if not os.path.lexists(link):
        os.symlink(os.path.join(FOLDER, "libcupti.so.13"), link)
    env = dict(os.environ, LD_LIBRARY_PATH=FOLDER, CUDA_HOME=home, **more)
    env.pop("CUDA_INJECTION64_PATH", None)
    return env


def measure(*args, fault=None, what="", metrics=METRICS, status=0, program=(APP,)):
    """The program's output and the results with their metrics."""
    more = {"STANDIN_FAULT": fault} if fault else {}
    command = [tap.PROGRAM, "kernel", "-o", "r", "-f", "-q", "--metrics", metrics, *args, *program]
    run = subprocess.run(
        command + ([what] if what else []), env=environment(**more), capture_output=True, text=True
    )
    assert run.returncode == status, (run.returncode, run.stdout, run.stderr)
    measure.stderr = run.stderr
    rows = tap.run(
        "query",
        "--format",
        "json",
        "r.wsrep",
        "SELECT k.*, s.value AS name, d.value AS demangled FROM WARPSIGHT_KERNEL_RESULT k "
        "LEFT JOIN StringIds s ON s.id = k.shortName "
        "LEFT JOIN StringIds d ON d.id = k.demangledName ORDER BY k.id",
    )
    metrics_rows = tap.run(
        "query", "--format", "json", "r.wsrep", "SELECT * FROM WARPSIGHT_KERNEL_METRIC"
    )
    results = json.loads(rows.out)
    for result in results:
        result["metrics"] = {
            row["name"]: row["value"]
            for row in json.loads(metrics_rows.out)
            if row["resultId"] == result["id"]
        }
    return run.stdout, results


def names(results):
    return [result["name"] for result in results]


def ask(query):
    return json.loads(tap.run("query", "--format", "json", "r.wsrep", query).out)


def left(*args, fault=None, what=""):
    """What the stand-in was told of the end of measuring."""
    with open("end", "w", encoding="utf-8"):
        pass
    os.environ["STANDIN_END"] = os.path.abspath("end")
    out, _ = measure(*args, fault=fault, what=what)
    del os.environ["STANDIN_END"]
    assert out.startswith(BARE), out
    with open("end", encoding="utf-8") as f:
        return f.read().splitlines()
