"""figures_gains.py - whether the findings of the worked examples (docs/tutorial) are right: the
planted fault comes first, the repaired version has no more than a note of it, and the estimated
gain is within a factor of two of what the repair really gains.

The gain is measured without a recorder, by what the programs print of their own time, and once more
as `diff` shows it. Programs that print no time are measured by `diff` alone.
"""
import json
import os
import re
import shutil
import statistics
import sys

from run import HERE, Row, figure

EXAMPLES = os.path.join(HERE, "..", "examples")
FACTOR = 2


class Example:
    """A faulty and a repaired version: the rule that must come first in the one and be silent in
    the other, how many units make up the window that the estimate is of, and what is recorded of
    it. units: how often what the program prints fits into a run; 0: the estimate is of a step, as
    what it prints is.
    """

    def __init__(self, name, rule, faulty, repaired, units=0, options=(), printed=True):
        self.name, self.rule, self.faulty, self.repaired = name, rule, faulty, repaired
        self.units, self.options, self.printed = units, options, printed


class Sides:
    """What was measured of one version: its own times, its reports."""

    def __init__(self):
        self.ms, self.reports = [], []


def printed_ms(text):
    found = re.search(r"([\d.]+) ms a (?:step|document|record)", text)
    if not found:
        raise RuntimeError("no time was printed: %s" % text[-200:])
    return float(found.group(1))


def analyze(b, report):
    return json.loads(b.command([b.warpsight, "analyze", "-f", "json", report]).out)[0]


def first_finding(report):
    """The rule of the first finding that is above a note, or of a note if there is nothing else."""
    shown = [f for f in report["findings"] if f["severity"] != "ok"]
    return shown[0] if shown else {"rule": "none", "gain_ns": 0, "title": ""}


def estimated_ms(report, finding):
    steps = report["steps"]
    count = steps["count"] if steps["source"] != "none" else 1
    return finding["gain_ns"] / max(count, 1) / 1e6


def measure_side(b, example, version, command):
    side = Sides()
    for i in range(b.runs):
        if example.printed:
            side.ms.append(printed_ms(b.bare(*command).out) * max(example.units, 1))
        name = "%s-%s-%d.wsrep" % (re.sub(r"\W+", "-", example.name), version, i)
        b.profile("-q", *command, options=example.options, report=name)
        side.reports.append(b.path(name))
    return side


def judge(b, example):
    """Rows of one example: the share of runs whose findings are right, and the gains."""
    base = measure_side(b, example, "faulty", example.faulty)
    new = measure_side(b, example, "repaired", example.repaired)
    estimates, right, other = [], [], []
    for report in (analyze(b, path) for path in base.reports):
        finding = first_finding(report)
        right.append(finding["rule"] == example.rule)
        estimates.append(estimated_ms(report, finding))
        if not right[-1]:
            other.append("first: " + finding["rule"])
    for report in (analyze(b, path) for path in new.reports):
        left = [f for f in report["findings"] if f["rule"] == example.rule]
        levels = [f["severity"] for f in left if f["severity"] != "ok"]
        right.append(not [level for level in levels if level != "note"])
        other += ["a %s is left after the repair" % level for level in levels]
    command = [b.warpsight, "diff", "-f", "json", ",".join(base.reports), ",".join(new.reports)]
    step = json.loads(b.command(command).out)["step"]
    shown = (step["ns"][0] - step["ns"][1]) / 1e6
    gain = statistics.median(base.ms) - statistics.median(new.ms) if base.ms else shown
    estimate = statistics.median(estimates)
    yield Row(
        "%s: first, and gone when repaired" % example.name,
        "%",
        [],
        [100 * statistics.mean(right)],
        100,
        at_least=True,
        digits=0,
        note="; ".join([example.rule] + sorted(set(other))),
    )
    ratio = estimate / gain if gain > 0 else float("inf")
    yield Row(
        "%s: gain estimated / measured" % example.name,
        "factor",
        [],
        [max(ratio, 1 / ratio) if ratio else float("inf")],
        FACTOR,
        digits=2,
        note="estimated %.3f, measured %.3f, diff %+.3f ms (%s): x %.2f"
        % (estimate, gain, -shown, step["verdict"], ratio),
    )


def judge_all(b, examples):
    for example in examples:
        try:
            yield from judge(b, example)
        except (RuntimeError, OSError, ValueError, KeyError) as e:
            print("bench: %s could not be measured: %s" % (example.name, e), file=sys.stderr)
            b.broken += 1


def python_example(*words):
    folder, name, *rest = words
    return [sys.executable, "-S" if folder == "cpu" else "-u"] + [
        os.path.join(EXAMPLES, folder, name),
        *rest,
    ]


@figure
def gains_cpu(b):
    """The examples without a GPU. Four threads need four cores to gain what they can."""
    convoy = os.path.join(b.build, "examples", "lock_convoy")
    if not os.path.exists(convoy):
        convoy = b.path("lock_convoy")
        source = os.path.join(EXAMPLES, "cpu", "lock_convoy.c")
        flags = ["-O2", "-g", "-fno-omit-frame-pointer", "-pthread"]
        b.command([os.environ.get("CC", "cc"), *flags, "-o", convoy, source])
    loader = python_example("cpu", "data_loader.py")
    disk = python_example("cpu", "slow_disk.py")
    return judge_all(
        b,
        [
            Example(
                "lock convoy",
                "lock-contention",
                [convoy, "shared"],
                [convoy, "split"],
                units=600,
            ),
            Example(
                "data loader, 0 -> 4 workers",
                "data-loading",
                loader + ["--workers=0"],
                loader + ["--workers=4"],
                units=200,
            ),
            Example(
                "slow disk",
                "blocking-io",
                disk + ["each"],
                disk + ["gathered"],
                units=600,
            ),
        ],
    )


def cuda_programs(b):
    """Where the examples in CUDA are, which are built here if they are not."""
    folder = os.path.join(EXAMPLES, "cuda", "build")
    if not os.path.exists(os.path.join(folder, "two_gpus")):
        if not shutil.which("nvcc"):
            raise RuntimeError("the examples in CUDA need nvcc")
        b.command(["make", "-s", "-j8", "-C", os.path.join(EXAMPLES, "cuda")])
    return folder


@figure
def gains_two_gpus(b):
    """The examples that need two GPUs."""
    program = os.path.join(cuda_programs(b), "two_gpus")
    torchrun = [sys.executable, "-m", "torch.distributed.run"]
    ddp = torchrun + ["--nproc-per-node=2", os.path.join(EXAMPLES, "pytorch", "ddp.py")]
    return judge_all(
        b,
        [
            Example(
                "one thread for two GPUs",
                "one-feeder",
                [program, "one-thread"],
                [program, "two-threads"],
            ),
            Example(
                "gradients averaged late",
                "exposed-communication",
                ddp + ["late"],
                ddp + ["overlapped"],
                options=["-t", "cuda,nvtx,nccl"],
                printed=False,
            ),
        ],
    )


@figure
def gains_cuda(b):
    """The examples in CUDA that need one GPU."""

    def example(name, rule, program, faulty, repaired):
        path = os.path.join(folder, program)
        return Example(name, rule, [path, faulty], [path, repaired])

    folder = cuda_programs(b)
    form = "transfers_form"
    return judge_all(
        b,
        [
            example("pageable copies", "pageable-copies", "copies", "pageable", "pinned"),
            example("copies not hidden", "copy-overlap", "copies", "pinned", "overlapped"),
            example("many small copies", "tiny-copies", form, "pieces", "gathered"),
            example("too many bytes", "copy-overlap", form, "whole", "changed"),
            example("streams not side by side", "serial-streams", "streams", "bug", "repaired"),
        ],
    )


@figure
def gains_pytorch(b):
    """The examples in PyTorch that need one GPU."""

    def example(name, rule, script, faulty, repaired):
        command = python_example("pytorch", script)
        return Example(name, rule, command + [faulty], command + [repaired])

    loader = "data_loader.py"
    return judge_all(
        b,
        [
            example("launch-bound encoder", "launch-bound", "encoder.py", "plain", "graph"),
            example("hidden synchronisation", "sync-calls", "optimizer.py", "item", "fused"),
            example("PyTorch loader", "data-loading", loader, "--workers=0", "--workers=32"),
        ],
    )


def check_reports(b, name, command, first, severities):
    """A row of a program that has nothing to gain: which finding comes first, or that none of
    these severities is there; only what the program itself prints or is can be wrong.
    """
    right, notes = [], []
    for _ in range(b.runs):
        b.profile("-q", *command, report="check.wsrep")
        report = analyze(b, b.path("check.wsrep"))
        above = [f["rule"] for f in report["findings"] if f["severity"] in severities]
        right.append(not above and first_finding(report)["rule"] in first)
        notes += above or [first_finding(report)["rule"]]
    note = ", ".join(sorted(set(notes)))
    value = 100 * statistics.mean(right)
    return Row(name, "%", [], [value], 100, at_least=True, digits=0, note=note)


@figure
def gains_none(b):
    """The examples that have nothing to gain: wrong clocks, and streams that gain little."""
    folder = cuda_programs(b)
    loud = ("warning", "critical")
    timing, streams = os.path.join(folder, "timing"), os.path.join(folder, "many_streams")
    quiet = ("hot-kernel", "none")
    yield check_reports(b, "wrong clocks: first", [timing, "wrong"], ("unfinished-ranges",), loud)
    yield check_reports(b, "right clocks: healthy", [timing, "right"], quiet, loud)
    yield check_reports(b, "eight streams: healthy", [streams, "eight"], quiet, loud)
