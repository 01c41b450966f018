"""figures_sampling.py - what CPU samples and context switches cost the program, and the recorder.
"""
import re
import statistics

from run import Row, figure

NOTHING = ("--trace=none", "--sample=none", "--cpuctxsw=none")


def ratios(b, case, n, *ways):
    """Processor time of a case in several ways over that with nothing recorded, by turns; the first
    run of each warms up.
    """
    seen = [[] for _ in ways]
    for _ in range(b.runs + 1):
        base = b.profile(b.program("sampling_bench"), case, n, options=NOTHING).value
        for i, way in enumerate(ways):
            seen[i].append(
                b.profile(b.program("sampling_bench"), case, n, options=way).value / base
            )
    return [s[1:] for s in seen]


@figure
def sampled_work(b):
    """CPU time of the same work, sampled, over that without."""
    default, fp, only = ratios(
        b,
        "work",
        "1500",
        ("--trace=none",),
        ("--trace=none", "--backtrace=fp"),
        ("--trace=none", "--sample=none"),
    )
    return [
        Row(
            "work under 1 kHz sampling and context switches",
            "ratio",
            [],
            default,
            1.02,
            added=False,
            digits=3,
        ),
        Row("the same with --backtrace=fp", "ratio", [], fp, 1.02, added=False, digits=3),
        Row("work under context switches alone", "ratio", [], only, 1.01, added=False, digits=3),
    ]


@figure
def switching(b):
    """CPU time of a wake-up and a context switch, over that without: the dearest case, threads that
    do nothing else.
    """
    default, only = ratios(
        b, "switches", "100000", ("--trace=none",), ("--trace=none", "--sample=none")
    )
    return [
        Row(
            "ping-pong under sampling and context switches",
            "ratio",
            [],
            default,
            None,
            added=False,
            digits=2,
        ),
        Row(
            "ping-pong under context switches alone", "ratio", [], only, 1.8, added=False, digits=2
        ),
    ]  # 1.4 where wake-ups cannot be traced


@figure
def creating_threads(b):
    (default,) = ratios(b, "threads", "3000", ("--trace=none",))
    return [
        Row(
            "creating and joining a thread, followed",
            "ratio",
            [],
            default,
            1.5,
            added=False,
            digits=2,
        )
    ]


def told(b, report, key, what=float):
    out = b.command([b.warpsight, "info", b.path(report)]).out
    m = re.search(key, out)
    return what(m.group(1).replace(",", "")) if m else what(0)


@figure
def recorder(b):
    """The recorder's own processor time for each sample with 8 kB of stack, at 10 kHz so that the
    rest of its work matters less.
    """
    per = []
    for _ in range(b.runs):
        base = b.profile(
            b.program("sampling_bench"), "work", "4000", options=("--trace=none", "--sample=none")
        ) and told(b, "bench.wsrep", r"recorder\.cpu_s = ([0-9.]+)")
        b.profile(
            b.program("sampling_bench"),
            "work",
            "4000",
            options=("--trace=none", "--sampling-frequency=10000", "--resolve-symbols=false"),
        )
        samples = told(b, "bench.wsrep", r"\nsample +([0-9,]+)")
        per.append(
            (told(b, "bench.wsrep", r"recorder\.cpu_s = ([0-9.]+)") - base) * 1e6 / samples
            if samples
            else 0
        )
    return [
        Row(
            "recorder, a sample with its stack",
            "us",
            [],
            per,
            5,
            added=False,
            digits=2,
            note=(
                "from %d runs, least %.2f" % (len(per), min(per))
                if len(per) > 1
                else "%.2f" % statistics.median(per)
            ),
        )
    ]
