"""figures_reading.py - how fast reports are read: statistics and exports of what figures_recording.py recorded."""
import os

from run import Row, figure


def need(b, name, *argv):
    """Make the report if an earlier figure has not."""
    if not os.path.exists(b.path(name)):
        b.profile(*argv, report=name)
    return b.path(name)


@figure
def stats_of_eighteen_million(b):
    path = need(b, "eighteen.wsrep", b.program("ranges_bench"), "eighteen")
    took = [b.command([b.warpsight, "stats", "-q", "-r", "nvtx_pushpop_sum", path]).seconds for _ in range(b.runs)]
    return [Row("stats -r nvtx_pushpop_sum of 18 M ranges", "s", [], took, 1, digits=2)]


@figure
def sqlite_export(b):
    n = 2_000_000
    path = need(b, "jitter.wsrep", b.program("ranges_bench"), "jitter", str(n))
    rate = []
    for _ in range(max(1, b.runs // 2)):
        r = b.command([b.warpsight, "export", "-t", "sqlite", "-f", "-o", b.path("jitter.sqlite"), path])
        rate.append(n / r.seconds / 1e6)
        os.unlink(b.path("jitter.sqlite"))
    return [Row("SQLite export", "M rows/s", [], rate, 1, added=False, at_least=True, digits=2)]


@figure
def info(b):
    path = need(b, "eighteen.wsrep", b.program("ranges_bench"), "eighteen")
    took = [b.command([b.warpsight, "info", path]).seconds * 1000 for _ in range(b.runs)]
    return [Row("info of 18 M ranges", "ms", [], took, None)]
