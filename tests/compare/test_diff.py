#!/usr/bin/env python3
"""Whole-command tests of diff: test_diff.py WARPSIGHT MAKE_RUN.

Runs of a made-up training program are compared in all forms, and conditions give the exit statuses
that continuous integration goes by. Prints TAP.
"""
import csv
import io
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import main, refused, run, same, test

MAKE_RUN = os.path.abspath(sys.argv[2])


def make(name, **options):
    path = name + ".wsrep"
    words = ["%s=%s" % (key, value) for key, value in options.items()]
    subprocess.run([MAKE_RUN, path, *words], check=True)
    return path


def make_runs():
    if os.path.exists("base.wsrep"):
        return
    make("base", seed=1)
    make("again", seed=2)
    make("slow", seed=3, kernel=5, slower=0.2)


def diff(*words, status=0):
    """What the command prints; it has to end with this status."""
    make_runs()
    result = run("diff", *words, ok=False)
    same(result.code, status, "status of %s: %s" % (words, result.err))
    return result.out.decode()


def compare(*words):
    return json.loads(diff("-f", "json", *words))


def check_sums(explanation):
    for side in (0, 1):
        for rows in ("causes", "rows"):
            same(
                sum(row["ns"][side] for row in explanation[rows]),
                explanation["ns"][side],
                "%s of %s" % (rows, explanation["of"]),
            )
    same(sum(row["change_ns"] for row in explanation["rows"]), explanation["change_ns"], "change")


@test
def a_slower_kernel_is_named_and_the_change_explained():
    report = compare("base", "slow")
    changed = [item for item in report["items"] if item["verdict"] != "no_change"]
    same([(item["kind"], item["name"]) for item in changed], [("kernel", "kernel_f")], "changed")
    same(changed[0]["verdict"], "slower", "verdict")
    assert 0.1 < changed[0]["low"] < 0.2 < changed[0]["high"] < 0.3, changed[0]
    same(changed[0]["count"], [4, 4], "count")
    check_sums(report["explanation"])
    same(
        report["explanation"]["ns"],
        [run["window_ns"] // run["steps"] for run in report["base"] + report["new"]],
        "step time",
    )
    for gpu in report["gpus"]:
        check_sums(gpu)
        same(gpu["ns"], report["explanation"]["ns"], gpu["of"])
    first = report["explanation"]["rows"][0]
    same((first["cause"], first["what"]), ("computation on the GPU", "kernel_f"), "first")


@test
def the_same_program_again_is_no_change():
    report = compare("base", "again")
    same(report["changed"], 0, "changed")
    same(report["step"]["verdict"], "no_change", "step")
    text = diff("base", "again")
    assert "no change" in text and "slower:" not in text, text


@test
def ids_are_the_same_in_every_comparison():
    ids = [
        {item["name"]: item["id"] for item in compare("base", with_)["items"]}
        for with_ in ("again", "slow")
    ]
    same(ids[0], ids[1], "ids")
    same(len(set(ids[0].values())), len(ids[0]), "different")


@test
def text_markdown_and_csv_say_the_same():
    text = diff("base", "slow")
    assert "slower: kernel kernel_f" in text and "together" in text, text
    markdown = diff("-f", "markdown", "base", "slow")
    assert "| slower | kernel kernel\\_f |" in markdown, markdown
    rows = list(csv.DictReader(io.StringIO(diff("-f", "csv", "base", "slow"))))
    by_name = {row["Name"]: row for row in rows}
    report = compare("base", "slow")
    same(len(rows), len(report["items"]) + 2, "rows")
    same(by_name["kernel_f"]["Verdict"], "slower", "verdict")
    for item in report["items"]:
        row = by_name[item["name"]] if item["kind"] == "kernel" else None
        if row:
            same(round(float(row["New Time (ns)"])), item["ns"][1], item["name"])
            assert abs(float(row["Difference (ns)"]) - item["change_ns"]) <= 2, row


@test
def intervals_are_there_where_something_is_judged():
    make("few", seed=6, steps=2)
    for item in compare("base", "slow")["items"] + compare("few", "few")["items"]:
        same(item["low"] is None, item["high"] is None, item["name"])
        if item["probability"] is None:
            same(item["verdict"], "no_change", item["name"])
    step = compare("few", "few")["step"]
    same((step["verdict"], step["low"], step["high"]), ("no_change", None, None), "two steps")
    assert "too few steps" in diff("few", "few")


@test
def conditions_give_three_exit_statuses():
    for condition, status in (
        ("step>50%", 0),
        ("kernel kernel_f>50%", 0),
        ("kernel kernel_f>5%", 3),
        ("mean kernel *_f > 10us", 3),
        ("os read>1%", 4),
    ):
        text = diff("base", "slow", "--fail-on", condition, status=status)
        word = {0: "pass", 3: "fail", 4: "cannot tell"}[status]
        assert "  %s: %s:" % (word, condition) in text, text
    diff("base", "slow", "--fail-on=step>50%", "--fail-on=kernel kernel_f>5%", status=3)
    report = json.loads(
        diff("-f", "json", "base", "slow", "--fail-on", "kernel kernel_f>5%", status=3)
    )
    same(report["result"], "fail", "result")
    same(report["conditions"][0]["name"], "kernel_f", "name")


@test
def several_runs_a_side_are_given_in_three_ways():
    make_runs()
    make("base2", seed=4)
    make("slow2", seed=5, kernel=5, slower=0.2)
    reports = [
        compare("--base", "base", "base2", "--new", "slow", "slow2"),
        compare("base,base2", "slow,slow2"),
        compare("base*.wsrep", "slow*.wsrep"),
    ]
    for report in reports:
        same([len(report[side]) for side in ("base", "new")], [2, 2], "runs")
        same(report["items"], reports[0]["items"], "items")
    check_sums(reports[0]["explanation"])
    same(reports[0]["items"][0]["name"], "kernel_f", "first")


@test
def what_cannot_be_compared_is_refused():
    make_runs()
    make("other-gpu", gpu="A100")
    make("unmarked", unmarked=1)
    make("train", step="train step %u")
    with open("text", "w") as file:
        file.write("no report\n")
    for words, status, why in (
        (["base"], 2, "two reports are compared"),
        (["base", "again", "slow"], 2, "'slow' belongs to neither side"),
        (["base", "text"], 1, "text"),
        (["base", "nothing"], 1, "cannot open nothing"),
        (["base", "other-gpu"], 1, "ran on"),
        (["base", "unmarked"], 1, "no ranges mark the steps of unmarked"),
        (["base", "train"], 1, "--whole"),
        (["base", "again", "--step", "epoch"], 1, "epoch"),
        (["base", "again", "--fail-on", "step"], 2, "no condition"),
        (["base", "again", "--fail-on", "kernel kernel_z>3%"], 1, "did you mean"),
        (["base", "again", "--noise", "lots"], 2, "--noise"),
    ):
        refused("diff", *words, words=[why], code=status)
    diff("--other-gpu", "base", "other-gpu")
    whole = compare("--whole", "base", "train")
    same(whole["unit"], "run", "unit")
    check_sums(whole["explanation"])
    same(compare("unmarked", "unmarked")["unit"], "step", "unit of sequences of kernels")


@test
def imported_traces_are_compared():
    def trace(name, factor):
        events = []
        for step in range(30):
            start = step * 1000
            events.append(
                {
                    "ph": "X",
                    "cat": "user_annotation",
                    "name": "ProfilerStep#%d" % step,
                    "pid": 1,
                    "tid": 1,
                    "ts": start,
                    "dur": 900,
                }
            )
            events.append(
                {
                    "ph": "X",
                    "cat": "cpu_op",
                    "name": "aten::mm",
                    "pid": 1,
                    "tid": 1,
                    "ts": start + 10,
                    "dur": 300 * factor + step % 3,
                }
            )
        with open(name, "w") as file:
            json.dump({"traceEvents": events, "schemaVersion": 1}, file)

    trace("before.json", 1)
    trace("after.json", 1.5)
    report = compare("before.json", "after.json")
    changed = [
        (item["kind"], item["name"]) for item in report["items"] if item["verdict"] == "slower"
    ]
    same(changed, [("operator", "aten::mm")], "changed")


if __name__ == "__main__":
    sys.exit(main(sys.argv[3:]))
