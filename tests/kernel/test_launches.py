"""Launches that are seen before the driver instead of by CUPTI (WARPSIGHT_KERNEL_LAUNCHES=driver),
on a stand-in for the driver and CUPTI (standin.h):
test_launches.py WARPSIGHT APP FOLDER_OF_STANDINS
"""

import os
import sys

from collect import APP, BARE, HERE, SOURCE, left, measure, names, tap

VARIABLE = "WARPSIGHT_KERNEL_LAUNCHES"
# Times and numbers of texts differ from run to run, and what is not CUPTI's callback has no number
# of CUPTI's.
APART = ("start", "end", "globalPid", "globalTid", "correlationId") + tuple(
    kind + "Name" for kind in ("short", "demangled", "mangled")
)


def driver(function, *args, **options):
    os.environ[VARIABLE] = "driver"
    try:
        return function(*args, **options)
    finally:
        del os.environ[VARIABLE]


def without_times(results):
    return [{k: v for k, v in r.items() if k not in APART} for r in results]


def last_line(out):
    """What the program's memory holds; not how often kernels ran, which is another word."""
    return out.splitlines()[-1].split(" runs ")[0]


def in_both_ways(*args, what="", same_order=True, **options):
    """The results, which are equal."""
    out, want = measure(*args, what=what, **options)
    driven, results = driver(measure, *args, what=what, **options)
    assert last_line(out) == last_line(driven), (args, what, out, driven)
    want, got = without_times(want), without_times(results)
    if not same_order:
        want, got = (sorted(r["name"] for r in rows) for rows in (want, got))
    assert want == got, (args, what, want, got, measure.stderr)
    return driven, results


@tap.test
def the_same_launches_have_the_same_values():
    for args, what, count in [
        (("--replay-batch", "1"), "wrong", 13),
        (("-k", "regex:acc|read", "-s", "1", "-c", "3"), "", 3),
        (("--kernel-id", "1:7:count:2"), "", 1),
        (("--nvtx", "--nvtx-include", "lib@library/"), "nvtx", 6),
        (("--profile-from-start", "off"), "ranges", 3),
        (("-k", "count"), "capture", 3),
        ((), "graph", 12),
        ((), "freed", 14),
        ((), "fork", 10),
    ]:
        out, results = in_both_ways(*args, what=what)
        assert len(results) == count and "Launches are seen by CUPTI" not in measure.stderr
        assert "surprises 0" in out, out


@tap.test
def threads_lose_nothing():
    _, results = in_both_ways(what="threads", same_order=False)
    assert names(results).count("count") == 43 and not any(r["error"] for r in results[:9])


@tap.test
def code_is_kept_and_looked_into():
    os.environ["STANDIN_CUBIN"] = os.path.join(HERE, "cubin", "sample.cubin")
    in_both_ways(*SOURCE, "--sampling-interval", "2", "-k", "count")
    del os.environ["STANDIN_CUBIN"]


@tap.test
def functions_are_found_in_each_way():
    _, want = measure("-k", "count")
    for way in ("dlsym", "address"):
        os.environ["STANDIN_WAY"] = way
        out, results = driver(measure, "-k", "count")
        del os.environ["STANDIN_WAY"]
        assert out.startswith(BARE), (way, out)
        assert without_times(results) == without_times(want), (way, results)
    shell = ("sh", "-c", APP)  # a child, which is another program
    _, results = driver(measure, "-k", "count", program=shell)
    assert without_times(results) == without_times(want), results


@tap.test
def cupti_tells_of_no_launch():
    for function, told in ((measure, 10), (lambda *a, **o: driver(measure, *a, **o), 0)):
        out, _ = function("-k", "nothing", what="told")
        assert f"told {told}\n" in out, (out, told)


@tap.test
def cupti_is_left_after_each_batch():
    assert driver(left, "-c", "2") == ["left"]
    some = ("-k", "regex:acc|read", "--replay-batch", "2")
    assert driver(left, "-c", "3", *some) == ["left"] * 2
    assert driver(left, "-c", "6", *some) == ["left"] * 3
    assert not driver(left, *some, *SOURCE)  # what is looked into must stay known
    assert not driver(left, "-c", "2", fault="kineto")  # the program needs it further
    _, results = in_both_ways("-c", "6", *some)
    assert len(results) == 6 and not any(r["error"] for r in results), results


@tap.test
def what_cannot_be_seen_is_said():
    os.environ["STANDIN_WAY"] = "address"
    out, results = driver(measure, "-k", "count", fault="versions", what="told")
    del os.environ["STANDIN_WAY"]
    assert "told 0\n" not in out and len(results) == 3, (out, results)
    said = tap.run("info", "r.wsrep").out.decode()
    assert "Launches are seen by CUPTI, not before the driver: the driver gives" in said, said
    for args in (("--replay-mode", "application"), ("--graph-profiling", "node")):
        driver(tap.refused, "kernel", *args, APP, words=("WARPSIGHT_KERNEL_LAUNCHES=driver",))
    os.environ[VARIABLE] = "x"
    tap.refused("kernel", APP, words=("takes cupti or driver, not 'x'",))
    del os.environ[VARIABLE]


sys.exit(tap.main())
