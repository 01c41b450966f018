#!/usr/bin/env python3
"""The worked examples and other faults as they were recorded on a GPU: test_recorded.py WARPSIGHT.

reports/*.wsrep.xz are recordings of examples/, and of small programs with one fault each
(fault-*), with default options. reports/expected.json says of each which rule must come first,
which words its texts must hold and which rules must be silent; of each faulty one by how much its
repair made it faster, which the estimated gain must be within a factor of two of. Prints TAP.
"""
import json
import lzma
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from tap import main, run, same, test

FOLDER = os.path.join(HERE, "reports")
with open(os.path.join(FOLDER, "expected.json")) as file:
    EXPECTED = json.load(file)
ANALYSES = {}


def analyze(name):
    if name not in ANALYSES:
        with lzma.open(os.path.join(FOLDER, name + ".wsrep.xz")) as packed:
            with open(name + ".wsrep", "wb") as file:
                file.write(packed.read())
        ANALYSES[name] = json.loads(run("analyze", "-f", "json", name + ".wsrep").out)[0]
    return ANALYSES[name]


def check_proofs(name, finding):
    """A finding has a query, which shows rows."""
    queries = [e["query"] for e in finding["evidence"] if e["query"]]
    same(len(queries) > 0, True, finding)
    for query in queries:
        rows = json.loads(run("query", "-f", "json", name + ".wsrep", query).out)
        same(len(rows) > 0, True, query)


def check_report(name, expected):
    report = analyze(name)
    found = report["findings"]
    if "first" in expected:
        same(found[0]["rule"] if found else None, expected["first"], json.dumps(found)[:3000])
        for word in expected.get("words", ()):
            if word not in found[0]["title"] + " " + found[0]["advice"]:
                raise AssertionError("%s: %s is not in %s" % (name, word, found[0]))
        check_proofs(name, found[0])
    loud = [f["title"] for f in found if f["severity"] in ("warning", "critical")]
    same(loud if expected.get("quiet") else [], [], name)
    silent = [f["title"] for f in found if f["rule"] in expected.get("silent", ())]
    same([t for t in silent if not t.startswith("Copies of")], [], name)
    parts = ("computation_ns", "exposed_communication_ns", "exposed_copies_ns", "idle_ns")
    same(sum(report["critical_path_by_cause_ns"].values()), report["window_ns"], name)
    for gpu in report["gpus"]:
        same(sum(gpu[part] for part in parts), report["window_ns"], name)


def check_gain(name, measured):
    report = analyze(name)
    estimated = report["findings"][0]["gain_ns"] / report["steps"]["count"] / 1e6
    if not measured / 2 <= estimated <= measured * 2:
        raise AssertionError(
            "%s: %.3f ms were promised, %.3f ms gained" % (name, estimated, measured)
        )


@test
def faults_come_first_and_are_gone_after_the_repair():
    for name, expected in EXPECTED["reports"].items():
        check_report(name, expected)


@test
def kernels_of_the_program_are_to_be_measured():
    found = [f for f in analyze("timing-right")["findings"] if f["rule"] == "hot-kernel"]
    same(
        [f["next"] for f in found],
        ["warpsight kernel --set detailed -k compute --launch-count 3 cuda/build/timing right"],
    )
    found = [f for f in analyze("optimizer-fused")["findings"] if f["rule"] == "hot-kernel"]
    same([f["next"].split()[1] for f in found], ["stats"])


@test
def streams_that_gain_little_are_said_to():
    found = [f for f in analyze("many-streams-eight")["findings"] if f["rule"] == "serial-streams"]
    same([f["severity"] for f in found], ["ok"])
    if "8 streams run side by side" not in found[0]["title"]:
        raise AssertionError(found[0]["title"])


@test
def gains_are_as_estimated():
    for name, measured in EXPECTED["gains"].items():
        check_gain(name, measured)


if __name__ == "__main__":
    main()
