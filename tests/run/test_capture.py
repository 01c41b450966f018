"""test_capture.py - collections that ranges of the program begin and end: each report has exactly
what ran in its range, whoever opened it."""
import os

from harness import test
from rows import NO_TIME, Rows


def work_of(t, path):
    """The numbers of the work that a report has, each of which must be whole."""
    t.verify(path)
    rows = Rows(path)
    seen = {}
    for row in rows.table("nvtx"):
        words = rows.strings[row["text"]].split()
        if len(words) == 2 and row["end"] != NO_TIME:
            seen.setdefault(int(words[0]), []).append(int(words[1]))
    for number, parts in seen.items():
        t.eq(sorted(parts), list(range(200)), "work %d in %s" % (number, os.path.basename(path)))
    return sorted(seen)


def capture(t, case, *options, nvtx="capture", status=0, output="r", expected=None):
    """Record a case; the work of each report, in the order of the reports."""
    way = ["-c", "nvtx", "-p", nvtx] if nvtx else ["-c", "program"]
    r = t.profile(
        [t.program("captures"), case],
        *["-t", "nvtx", "--sample=none", "--no-findings", *way, *options],
        output=output,
        status=status,
    )
    t.eq(r.out, b"" if status else case.encode() + b"\n", "the target's output")
    t.eq([work_of(t, report) for report in r.reports], expected, "work in the reports of " + case)
    return r


@test("capture")
def a_range_ends_as_it_is_told(t):
    for how, expected in (
        ("none", [[2, 3, 4, 5, 6, 7, 8, 9]]),
        ("stop", [[2]]),
        ("repeat", [[5], [8], [2]]),  # in the order of the names: r.2, r.3, r
        ("repeat:2", [[5], [2]]),
    ):
        r = capture(
            t, "push", "--capture-range-end=" + how, output=how.replace(":", ""), expected=expected
        )
    names = [os.path.basename(report) for report in r.reports]
    t.eq(names, ["repeat2.2.wsrep", "repeat2.wsrep"], "names of the reports")
    r = capture(t, "push", "--stop-on-range-end=true", output="older", expected=[[2]])
    t.contains(r.messages, "the capture range has ended: the target runs on unrecorded", "message")


@test("capture")
def the_session_ends_with_the_range_unless_told_otherwise(t):
    for options, expected in (
        ([], [[2]]),
        (["--capture-range-end=repeat-shutdown:2"], [[5], [2]]),
        (["--kill=sigint"], [[2]]),
    ):
        r = t.profile(
            [t.program("captures"), "lasts"],
            *["-t", "nvtx", "--sample=none", "-c", "nvtx", "-p", "capture", "-f", "true", *options],
        )
        t.eq(r.status, 130 if "--kill=sigint" in options else 143, "status with %s" % options)
        t.eq([work_of(t, report) for report in r.reports], expected, "work with %s" % options)
        for report in r.reports:
            os.unlink(report)
    capture(t, "push", "--kill=none", expected=[[2]])


@test("capture")
def ranges_of_every_kind(t):
    end = "--capture-range-end=stop"
    capture(t, "nested", end, expected=[[1, 2, 3]])
    capture(t, "domain", end, nvtx="capture@mine", output="d", expected=[[1]])
    capture(t, "domain", end, nvtx="capture@*", output="a", expected=[[0]])
    capture(t, "startend", end, output="s", expected=[[1, 2]])
    capture(t, "threads", end, output="t", expected=[[1, 2, 3]])
    capture(t, "processes", end, output="p", expected=[[1, 2]])
    capture(
        t, "program", "--capture-range-end=repeat", nvtx=None, output="w", expected=[[4], [1, 2]]
    )


@test("capture")
def a_process_that_dies_in_its_range_ends_it(t):
    capture(t, "dies", "--capture-range-end=repeat", expected=[[4], [1]])


@test("capture")
def ranges_that_follow_at_once_are_all_there(t):
    r = capture(
        t,
        "often",
        "--capture-range-end=repeat",
        output="often%n",
        expected=[[2 * i] for i in sorted(range(20), key=lambda i: "often%d.w" % (i + 1))],
    )
    t.eq(len(r.reports), 20, "reports")


@test("capture")
def steps_are_found_and_counted(t):
    def steps(case, wanted, expected, said, *options):
        r = t.profile(
            [t.program("captures"), case],
            *["-t", "nvtx", "--sample=none", "--no-findings", "--kill=none", *options],
            "--steps=" + wanted,
            output=case + wanted,
            status=0,
        )
        t.eq([work_of(t, report) for report in r.reports], expected, case + " " + wanted)
        t.contains(r.messages, said, "what was taken for a step")
        return r

    r = steps("steps", "3-5", [[3, 4, 5, 104, 105]], "NVTX ranges 'Iteration'; this collection")
    t.contains(str(t.load(r.report).diagnostics()), "begins with step 3", "in the report")
    steps("steps", "0", [[0]], "begins with step 0")
    steps("steps", "8-", [[8, 9, 109]], "begins with step 8")
    steps("numbered", "8-9", [[1, 2, 102]], "NVTX ranges 'train_step'")
    steps("batches", "2-3", [[2, 3, 103]], "NVTX ranges 'batch'", "--step-range=batch")
    steps(
        "phases",
        "4-5",
        [[4, 5, 54, 55]],
        "from one to the next of the outermost NVTX ranges 'load'",
    )
    steps("startsteps", "1-2", [[1, 2]], "NVTX ranges 'step'")
    steps("steps", "10-12", [], "step 10 did not come: the last NVTX range 'Iteration' was step 9")
    steps(
        "steps", "4", [], "opened no NVTX range 'step'; there is no", "--step-range=step@elsewhere"
    )
    r = t.profile([t.program("captures"), "push"], "-t", "nvtx", "--steps=500-600", status=0)
    t.contains(r.messages, "name it with --step-range; there is no report", "messages")


@test("capture")
def a_range_that_never_comes_leaves_no_report(t):
    for way, words in (
        (["-c", "nvtx", "-p", "capture"], "no NVTX range 'capture' of the default domain was"),
        (["-c", "program"], "did not call ws_start: there is no report"),
    ):
        r = t.profile([t.program("captures"), "never"], "-t", "nvtx", *way, status=0)
        t.contains(r.messages, words, "message")
        t.eq(r.reports, [], "reports")


@test("capture")
def bad_capture_options_are_told(t):
    for options, words in (
        (["-c", "nvtx"], "--capture-range=nvtx needs the range: --nvtx-capture=RANGE"),
        (["--steps=5-3"], "--steps: '5-3' is not a range of steps"),
        (["--steps=x"], "--steps: 'x' is not a range of steps"),
        (["--steps=1", "-c", "program"], "--steps and --capture-range do not go together"),
        (["--steps=1", "--capture-range-end=repeat"], "--capture-range-end: with --steps there is"),
        (["--steps=1", "--step-range="], "--step-range: the name is empty"),
        (["-c", "cuda"], "--capture-range"),
        (["-c", "program", "--capture-range-end=repeat:0"], "--capture-range-end: 'repeat:0'"),
        (["-c", "nvtx", "-p", "x" * 300], "--nvtx-capture: a name may have 255 bytes"),
    ):
        r = t.profile(["true"], *options, status=2)
        t.contains(r.messages, words, "message of %s" % options)


@test("capture")
def an_old_report_stays_beside_the_next(t):
    """A name that is taken when a later range begins: another one is found."""
    old = t.path("r.2")
    with open(old, "w") as f:
        f.write("mine")
    os.chmod(old, 0o600)
    r = t.profile(
        [t.program("captures"), "push"],
        *["-t", "nvtx", "--sample=none", "-c", "nvtx", "-p", "capture"],
        "--capture-range-end=repeat:2",
        status=0,
    )
    t.eq(open(old).read(), "mine", "the old file")
    t.eq([work_of(t, report) for report in r.reports], [[5], [2]], "work")
    t.contains(r.messages, "exists already: this one is .*r.3.wsrep", "message")
