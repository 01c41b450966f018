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


CUDA_SUMMARIES = ["cuda_api_sum", "cuda_gpu_kern_sum", "cuda_gpu_kern_sum:nvtx-name", "cuda_gpu_kern_gb_sum", "cuda_gpu_mem_time_sum",
                  "cuda_gpu_mem_size_sum", "cuda_gpu_sum", "cuda_api_gpu_sum", "cuda_kern_exec_sum", "nvtx_gpu_proj_sum", "nvtx_kern_sum"]


def cuda_report(b):
    if not os.path.exists(b.path("cuda.wsrep")):
        b.command([b.program("cuda_bench"), b.path("cuda.wsrep")])
    return b.path("cuda.wsrep")


@figure
def stats_of_cuda(b):
    path = cuda_report(b)
    return [Row("stats -r %s of 10 M CUDA events" % name, "s", [],
                [b.command([b.warpsight, "stats", "-q", "-f", "csv", "-r", name, path]).seconds for _ in range(b.runs)], 1, digits=2)
            for name in CUDA_SUMMARIES]


@figure
def sqlite_export_of_kernels(b):
    """All of the report's tables count as time, only kernels as rows."""
    path, rate, kernels = cuda_report(b), [], 4_186_080
    for _ in range(max(1, b.runs // 2)):
        r = b.command([b.warpsight, "export", "-t", "sqlite", "-f", "-o", b.path("cuda.sqlite"), path])
        rate.append(kernels / r.seconds / 1e6)
        os.unlink(b.path("cuda.sqlite"))
    return [Row("SQLite export of CUDA kernels", "M rows/s", [], rate, 0.7, added=False, at_least=True, digits=2)]


CPU_SUMMARIES = ["cpu_sample_sum", "sched_sum", "cpu_util", "thread_wait_sum", "cpu_gap_sum"]


def cpu_report(b):
    """10 M samples in 1.4 M distinct stacks, 10 M spans on cores, 1.25 M calls."""
    if not os.path.exists(b.path("cpu.wsrep")):
        b.command([b.program("cpu_bench"), "big", b.path("cpu.wsrep"), "10000000"])
    return b.path("cpu.wsrep")


@figure
def stats_of_cpu_time(b):
    path = cpu_report(b)
    return [Row("stats -r %s of 10 M samples, 10 M switches" % name, "s", [],
                [b.command([b.warpsight, "stats", "-q", "-f", "csv", "-r", name, path]).seconds for _ in range(b.runs)], 1, digits=2)
            for name in CPU_SUMMARIES]


@figure
def call_trees(b):
    path = cpu_report(b)
    commands = [("report --view=top-down", ["report", "-q", "--view=top-down", "-f", "csv", path]),
                ("report --show=off-cpu", ["report", "-q", "--show=off-cpu", "-f", "csv", path]),
                ("export -t pprof", ["export", "-q", "-f", "-t", "pprof", "-o", b.path("cpu.pb.gz"), path])]
    return [Row(title + " of 10 M samples", "s", [], [b.command([b.warpsight, *argv]).seconds for _ in range(max(1, b.runs // 2))], None,
                digits=2) for title, argv in commands]
