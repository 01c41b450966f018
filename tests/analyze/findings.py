"""Records programs and checks what analyze says of them."""
import json

from tap import Skip, run, same


def analyze(name, *command, options=()):
    path = name + ".wsrep"
    run("profile", "-q", "-f", "-o", path, *options, *command)
    return read_findings(path)


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
    same(any(e["query"] for e in found["evidence"]), True, found)
    for word in words:
        if word not in found["title"] + " " + found["advice"]:
            raise AssertionError("%s is not in: %s" % (word, found))


def check_absent(report, rule):
    skip_blind(report, rule)
    found = [f for f in report["findings"] if f["rule"] == rule and f["severity"] != "ok"]
    same(found, [])


def read_findings(path, *options):
    return json.loads(run("analyze", "-f", "json", *options, path).out)[0]


def first_fault(report, rule):
    """The first finding, which has to be a fault of this rule."""
    skip_blind(report, rule)
    found = report["findings"]
    if not found or found[0]["rule"] != rule:
        raise AssertionError("not found first: %s, but %s" % (rule, json.dumps(found, indent=1)))
    return found[0]


def check_sums(report):
    """The critical path covers the window exactly, and so do the parts of each GPU's time."""
    same(sum(report["critical_path_by_cause_ns"].values()), report["window_ns"], "path")
    for gpu in report["gpus"]:
        parts = sum(
            gpu[part]
            for part in (
                "computation_ns",
                "exposed_communication_ns",
                "exposed_copies_ns",
                "idle_ns",
            )
        )
        same(parts, report["window_ns"], gpu["name"])
        same(sum(gpu["idle_by_cause_ns"].values()), gpu["idle_ns"], "idle of " + gpu["name"])
