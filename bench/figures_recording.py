"""figures_recording.py - what a program pays for being recorded, and what the recorder and its
report take.
"""
import json
import os
import shutil
import subprocess
import statistics

from run import Row, figure

RANGES = 18_000_000


@figure
def range_pairs(b):
    """NVTX push+pop, nanoseconds a pair, in a loop that does nothing else. 4 M pairs: long enough
    for the recorder to matter.
    """
    for mode, name, limit in (
        ("plain", "NVTX push+pop, plain", 30),
        ("registered", "NVTX push+pop, registered", 30),
        ("names", "NVTX push+pop, 64 names, reused buffers", 40),
        ("random", "NVTX push+pop, names that never repeat", 60),
    ):
        bare, ours = b.in_turn(b.program("ranges_bench"), mode, "4000000")
        yield Row(name, "ns", bare, ours, limit)


@figure
def eighteen_million(b):
    """The whole command: 3 M pairs, plain and registered, three times over, one thread."""
    argv = [b.program("ranges_bench"), "eighteen"]
    bare, pair_bare, ours, pair, peak, size, lost = [], [], [], [], [], [], []
    for _ in range(max(1, b.runs)):
        r = b.bare(*argv)
        bare.append(r.seconds)
        pair_bare.append(r.value)
        r = b.profile(*argv, report="eighteen.wsrep", poll=True)
        ours.append(r.seconds)
        pair.append(r.value)
        peak.append(r.peak)
        size.append(os.path.getsize(b.path("eighteen.wsrep")) / RANGES)
        lost.append(b.lost("eighteen.wsrep"))
    return [
        Row(
            "18 M ranges: whole command", "s", bare, ours, 2, added=False, digits=2, note="goal 1.2"
        ),
        Row("18 M ranges: push+pop in that run", "ns", pair_bare, pair, 30),
        Row("18 M ranges: dropped", "events", [], lost, 0, digits=0),
        Row("18 M ranges: report", "B/range", [], size, 1, digits=2),
        Row("18 M ranges: recorder's peak memory", "MiB", [], peak, 300, digits=0),
    ]


@figure
def jittered(b):
    """Random names out of 64 and work of random length between push and pop."""
    n = 2_000_000
    size = []
    for _ in range(max(1, b.runs // 2)):
        b.profile(b.program("ranges_bench"), "jitter", str(n), report="jitter.wsrep")
        size.append(os.path.getsize(b.path("jitter.wsrep")) / n)
    return [Row("random names, jittered work: report", "B/range", [], size, 3, digits=2)]


@figure
def threads(b):
    """
    Processor time of an event with eight threads at once over that with one. The limit supposes a
    core for each thread and one for the recorder: with fewer, threads take turns, the recorder
    falls behind, and events go to memory never touched before.
    """
    ratio, ones, eights, clocks = [], [], [], []
    for _ in range(b.runs):
        ones.append(b.profile(b.program("ranges_bench"), "threads", "3200000", "1").value)
        eights.append(b.profile(b.program("ranges_bench"), "threads", "3200000", "8").value)
        ratio.append(eights[-1] / ones[-1])
        clocks.append(
            b.bare(b.program("ranges_bench"), "clocks", "3200000", "8").value
            / b.bare(b.program("ranges_bench"), "clocks", "3200000", "1").value
        )
    cores = os.cpu_count()
    note = "%.0f ns with 1 thread, %.0f with 8; bare: two clock reads" % (
        sorted(ones)[len(ones) // 2],
        sorted(eights)[len(eights) // 2],
    )
    if cores < 9:
        note += "; the limit of 1.3 is for 9 cores or more"
    return [
        Row(
            "push+pop with 8 threads over 1 thread",
            "ratio",
            clocks,
            ratio,
            1.3 if cores >= 9 else None,
            added=False,
            digits=2,
            note=note,
        )
    ]


@figure
def os_runtime(b):
    for mode, name, n, limit in (
        ("mutex", "mutex lock+unlock, uncontended", 20_000_000, 3),
        ("pipe", "pipe write+read, 1 byte", 500_000, 75),
        ("untraced", "untraced function (getppid)", 2_000_000, None),
    ):
        bare, ours = b.in_turn(b.program("calls_bench"), mode, str(n))
        row = Row(name, "ns", bare, ours, limit)
        if (
            limit is None
        ):  # nothing may be added: less than the spread of the bare runs, and at least a nanosecond
            row = Row(
                name,
                "ns",
                bare,
                ours,
                max(1.0, max(bare) - min(bare)),
                note="limit is the bare runs' own spread",
            )
        yield row


@figure
def start_and_end(b):
    """What profiling a program that does nothing takes: the recorder's start and end."""
    bare, ours = [], []
    for _ in range(b.runs):
        bare.append(b.bare("/bin/true").seconds * 1000)
        ours.append(b.profile("/bin/true").seconds * 1000)
    ratio = statistics.median(ours) / statistics.median(bare)
    note = "%.0f times the bare run" % ratio
    return [Row("profile of /bin/true: whole command", "ms", bare, ours, 80, note=note)]


@figure
def short_children(b):
    """What each of fifty children adds that begin and end at once, beside start_and_end's."""
    script = "i=0; while [ $i -lt 50 ]; do /bin/true; i=$((i + 1)); done"
    bare, ours, ratio = [], [], []
    for _ in range(b.runs):
        bare.append(b.bare("/bin/sh", "-c", script).seconds * 1000 / 50)
        alone = b.profile("/bin/true").seconds
        ours.append((b.profile("/bin/sh", "-c", script).seconds - alone) * 1000 / 50)
        ratio.append(ours[-1] / bare[-1])
    note = "%.1f times the bare run" % statistics.median(ratio)
    return [Row("50 short children: each", "ms", bare, ours, 5, added=False, note=note)]


@figure
def wrapped_call(b):
    """A call of a traced library (MPI_Send of a stand-in, a function of OpenGL's): what the wrapper
    adds beyond two readings of the clock.
    """
    program = os.path.join(b.build, "tests", "libraries", "mpi-bench")
    clocks = [b.bare(program, "clocks", "5000000").value for _ in range(b.runs)]
    two = statistics.median(clocks)
    note = "%.0f ns of them two readings of the clock; the limit is 60 beyond these" % two
    rows = []
    for title, trace, path in (
        ("MPI", "mpi", program),
        ("OpenGL", "opengl", os.path.join(b.build, "tests", "graphics", "gl-bench")),
    ):
        bare, ours = b.in_turn(path, "send", "400000", options=("-t", trace, "-s", "none"))
        rows.append(Row("call of " + title, "ns", bare, ours, 60 + two, note=note))
    return rows


@figure
def yielding(b):
    """Pairs of processes that share cores and yield to one another, as ranks of MPI do. The goal is
    5 % more; in the first milliseconds every switch is recorded.
    """
    for skipped, measured, name, limit in (
        ("300", "500", "Yielding pairs, recorded with the defaults", 1.05),
        ("3", "40", "Yielding pairs, their first 40 ms", None),
    ):
        bare, ours = b.in_turn(b.program("yield_bench"), skipped, measured)
        ratio = statistics.median(ours) / statistics.median(bare)
        yield Row(name, "ratio", [], [ratio], limit, added=False, digits=2)


def find_mpis(b):
    """(title, program, launcher's arguments) of each MPI that is installed."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi_bench.c")
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        b.env[name] = "1"
    for title, end, bind, crowd in (
        ("Open MPI", ".openmpi", "--bind-to", ["--oversubscribe"]),
        ("MPICH", ".mpich", "-bind-to", []),
    ):
        compiler, launcher = shutil.which("mpicc" + end), shutil.which("mpirun" + end)
        if not compiler or not launcher:
            continue
        program = b.path("mpi_bench" + end)
        flags = ["-O2", "-D_GNU_SOURCE", "-I", os.path.dirname(source) + "/../src"]
        subprocess.run([compiler, *flags, source, "-o", program], check=True)
        yield title, program, [launcher, bind, "core", "-n", "2"], [launcher, *crowd, "-n", "4"]


RECORDINGS = (
    ("defaults", ()),
    ("without samples", ("-s", "none")),
    ("without samples and context switches", ("-s", "none", "--cpuctxsw=none")),
)


@figure
def mpi_latency(b):
    """8 bytes one way between two ranks of a host, where there is an MPI: calls through the hooks
    and past them in one run, then whole runs, as long as those of osu_latency and ten times as
    long. The goal is 5 % more. Messages take two and more different times by where the system puts
    the ranks, so runs are compared in pairs.
    """
    for title, program, two, _ in find_mpis(b):
        bare, ours = [], []
        for _ in range(b.runs):
            argv = [*two, program, "pingpong", "2000"]
            times = b.profile(*argv, options=("-t", "mpi", "-s", "none")).out.split()
            bare.append(float(times[-2]))
            ours.append(float(times[-1]))
        yield make_share_row(title + ", 8 bytes between two ranks: hooks alone", bare, ours, 2)
        for trips, all_trips in ((10000, 11000), (100000, 110000)):
            for recorded, options in RECORDINGS[: 3 if trips == 10000 else 1]:
                name = "%s, %s round trips of two ranks: %s" % (title, f"{trips:,}", recorded)
                argv = [*two, program, "warm-pairs", str(trips)]
                yield compare_ranks(b, name, argv, options, 2)
            yield make_calls_row(b, name, 4 * all_trips)


@figure
def mpi_of_four(b):
    """The same for four ranks, in two pairs and in a collective."""
    for title, program, _, four in find_mpis(b):
        for mode, what, calls in (
            ("pairs", "8 bytes in two pairs", 8),
            ("allreduce", "all-reduce of four", 4),
        ):
            for recorded, options in RECORDINGS:
                name = "%s, %s: %s" % (title, what, recorded)
                yield compare_ranks(b, name, [*four, program, mode, "100000"], options, 4)
            yield make_calls_row(b, name, calls * 100000)


def compare_ranks(b, name, argv, options, ranks):
    """Bare and recorded runs by turns, in the opposite order every other time."""
    bare, ours = [], []
    for i in range(3 * b.runs):
        for recorded in (False, True) if i % 2 else (True, False):
            if recorded:
                ours.append(b.profile(*argv, options=("-t", "mpi", *options)).value)
            else:
                bare.append(b.bare(*argv).value)
    return make_share_row(name, bare, ours, ranks)


def make_share_row(name, bare, ours, ranks):
    """How much more it takes, in percent: the median of the pairs."""
    shares = [100 * (with_us / without - 1) for without, with_us in zip(bare, ours)]
    low, _, high = statistics.quantiles(shares, n=4) if len(shares) > 1 else shares * 3
    note = "%.1f to %.1f in half of %d pairs; %.0f ns bare, %.0f recorded" % (
        low,
        high,
        len(shares),
        statistics.median(bare),
        statistics.median(ours),
    )
    if (os.cpu_count() or 1) <= ranks:
        note += "; no core is free for the recorder"
    return Row(name, "%", [], shares, 5, added=False, note=note)


def make_calls_row(b, name, wanted):
    """Calls in the report of the last run."""
    recorded = [count_mpi_calls(b)]
    return Row(name + ": calls", "", [wanted], recorded, 0, at_least=True, digits=0)


def count_mpi_calls(b):
    """Calls of the last report that mpi_bench.c makes in its loops."""
    sql = (
        "SELECT count(*) n FROM WARPSIGHT_SLICE s JOIN StringIds n ON n.id = s.nameId"
        " WHERE n.value IN ('MPI_Send', 'MPI_Recv', 'MPI_Allreduce')"
    )
    out = b.command([b.warpsight, "query", "-f", "json", b.path("bench.wsrep"), sql]).out
    return json.loads(out)[0]["n"]
