"""`diff` of measured kernels: test_diff.py WARPSIGHT WRITE_ROWS FOLDER

FOLDER/ncu holds what Nsight Compute measured of examples/kernels on an H100.
"""

import json
import os
import subprocess
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, ".."))
import tap

WRITE_ROWS = os.path.abspath(sys.argv[2])
ROWS = subprocess.run(
    [sys.executable, os.path.join(FOLDER, "make_results.py")], stdout=subprocess.PIPE, check=True
).stdout.decode()
MEASURED = "".join(line for line in ROWS.splitlines(True) if not line.startswith("cuda_kernel"))


def write(name, rows):
    subprocess.run([WRITE_ROWS, name], input=rows.encode(), check=True)
    return name


def compare(*arguments):
    return json.loads(tap.run("diff", "-f", "json", *arguments).out)["kernels"]


def fail(*arguments):
    result = tap.run("diff", *arguments, ok=False)
    assert result.code, (arguments, result)
    return result.err


def figure(pair, label):
    return next(one for one in pair["figures"] if one["label"] == label)


@tap.test
def figures_of_both_sides_and_what_explains_the_duration():
    slow = write("slow.wsrep", MEASURED)
    fast = write(
        "fast.wsrep",
        MEASURED.replace("value=301400\n", "value=150700\n").replace(
            "value=528957\n", "value=264478\n"
        ),
    )
    pairs = compare(slow, fast)
    assert [pair["ids"] for pair in pairs] == [[i, i] for i in range(5)], pairs
    same, changed = pairs[0], pairs[2]
    assert same["change"] == 0 and "explanation" not in same, same
    assert changed["duration_ns"] == [301400, 150700] and changed["change"] == -0.5, changed
    assert figure(changed, "Elapsed Cycles")["values"] == [528957, 264478]
    assert figure(changed, "DRAM Throughput")["change"] == 0

    # Two results of one report: the parts add up to the change.
    (pair,) = compare("--kernels", "0:2", slow, slow)
    parts = {one["cause"]: one["ns"] for one in pair["explanation"]}
    whole = pair["duration_ns"][1] - pair["duration_ns"][0]
    assert len(parts) == 5 and abs(sum(parts.values()) + pair["unexplained_ns"] - whole) < 1, pair
    assert abs(pair["unexplained_ns"]) < 0.01 * whole, pair
    assert parts["cycles that a warp needs for an instruction"] > 0, parts

    text = tap.run("diff", slow, fast).out.decode()
    assert "301.40 us" in text and "-50.0%" in text and "What explains it" in text, text
    assert "DRAM Throughput" not in text, text
    assert "DRAM Throughput" in tap.run("diff", "--all", slow, fast).out.decode()


@tap.test
def repairs_that_were_measured_explain_themselves():
    sides = []
    for name in ("bank_conflicts", "bank_conflicts_repaired"):
        tap.run("import", "-o", name, os.path.join(FOLDER, "ncu", name + ".csv.gz"))
        sides.append(name + ".wsrep" if os.path.exists(name + ".wsrep") else name)
    pair = compare("--kernels", "0:0", *sides)[0]
    assert pair["change"] < -0.1, pair["change"]
    conflicts = figure(pair, "Total Bank Conflicts")["values"]
    assert conflicts[1] < conflicts[0] / 2, conflicts
    whole = pair["duration_ns"][1] - pair["duration_ns"][0]
    assert abs(pair["unexplained_ns"]) < 0.2 * abs(whole), pair


@tap.test
def what_cannot_be_compared_is_said():
    slow = write("again.wsrep", MEASURED)
    none = write("none.wsrep", "collection\tstart=1000\tend=2000\n")
    line = write("line.wsrep", ROWS)
    assert "has no result 9" in fail("--kernels", "0:9", slow, slow)
    assert "neither all nor two numbers" in fail("--kernels", "x", slow, slow)
    assert "no measured kernels" in fail("--kernels", "all", slow, none)
    assert "text or json" in fail("-f", "csv", slow, slow)
    assert "--fail-on" in fail("--kernels", "all", "--fail-on", "step>3%", slow, slow)
    assert "one report with one" in fail("--kernels", "all", slow + "," + slow, slow)
    # Reports with a time line are compared by it, unless kernels are asked for.
    assert "kernels" not in json.loads(tap.run("diff", "-f", "json", line, line).out)
    assert len(compare("--kernels", "all", line, line)) == 5


tap.main()
