"""figures_reading.py - how fast reports are read: statistics and exports of what
figures_recording.py recorded.
"""
import json
import os
import shutil

from run import Row, figure


def need(b, name, *argv):
    """Make the report if an earlier figure has not."""
    if not os.path.exists(b.path(name)):
        b.profile(*argv, report=name)
    return b.path(name)


@figure
def stats_of_eighteen_million(b):
    path = need(b, "eighteen.wsrep", b.program("ranges_bench"), "eighteen")
    took = [
        b.command([b.warpsight, "stats", "-q", "-r", "nvtx_pushpop_sum", path]).seconds
        for _ in range(b.runs)
    ]
    return [Row("stats -r nvtx_pushpop_sum of 18 M ranges", "s", [], took, 1, digits=2)]


def nvtx_sum(b, kind, what):
    path = b.path(kind + ".wsrep")
    if not os.path.exists(path):
        b.command([b.program("stats_bench"), path, kind, "10000000"])
    took = [
        b.command(
            [b.warpsight, "stats", "-q", "-f", "csv", "-r", "nvtx_sum", path], silent=True
        ).seconds
        for _ in range(b.runs)
    ]
    return [Row("stats -r nvtx_sum of 10 M ranges, " + what, "s", [], took, 1, digits=2)]


@figure
def stats_of_a_million_names(b):
    """A million lines of ten ranges each."""
    return nvtx_sum(b, "million", "a million names")


@figure
def stats_of_names_that_never_repeat(b):
    """Ten million lines."""
    return nvtx_sum(b, "names", "each of its own name")


@figure
def sqlite_export(b):
    n = 2_000_000
    path = need(b, "jitter.wsrep", b.program("ranges_bench"), "jitter", str(n))
    rate = []
    for _ in range(max(1, b.runs // 2)):
        r = b.command(
            [b.warpsight, "export", "-t", "sqlite", "-f", "-o", b.path("jitter.sqlite"), path]
        )
        rate.append(n / r.seconds / 1e6)
        os.unlink(b.path("jitter.sqlite"))
    return [Row("SQLite export", "M rows/s", [], rate, 1, added=False, at_least=True, digits=2)]


def export_rates(b, kind, path, rows, name, limit, note=""):
    rate, out = [], b.path("out." + kind)
    for _ in range(max(1, b.runs // 2)):
        r = b.command([b.warpsight, "export", "-q", "-t", kind, "-f", "-o", out, path])
        rate.append(rows / r.seconds / 1e6)
        shutil.rmtree(out) if os.path.isdir(out) else os.unlink(out)
    return Row(name, "M rows/s", [], rate, limit, added=False, at_least=True, digits=2, note=note)


@figure
def exports(b):
    """All rows of a report of 10 M CUDA events and of 5 M ranges, by type. Only Arrow and SQLite
    have limits.
    """
    ranges, n = b.path("ranges.wsrep"), 5_000_000
    if not os.path.exists(ranges):
        b.command([b.program("stats_bench"), ranges, "jitter", str(n)])
    events = int(
        sum(
            t["rows"]
            for t in json.loads(b.command([b.warpsight, "info", "--json", cuda_report(b)]).out)[
                "tables"
            ]
            if t["name"].startswith("cuda")
        )
    )
    out = []
    for kind in ("arrow", "arrowdir", "jsonlines", "hdf", "chrome", "perfetto"):
        limit = 10 if kind.startswith("arrow") else None
        out.append(export_rates(b, kind, ranges, n, "export -t %s of NVTX ranges" % kind, limit))
        out.append(
            export_rates(
                b, kind, cuda_report(b), events, "export -t %s of CUDA events" % kind, limit
            )
        )
    return out


@figure
def info(b):
    path = need(b, "eighteen.wsrep", b.program("ranges_bench"), "eighteen")
    took = [b.command([b.warpsight, "info", path]).seconds * 1000 for _ in range(b.runs)]
    return [Row("info of 18 M ranges", "ms", [], took, None)]


CUDA_SUMMARIES = [
    "cuda_api_sum",
    "cuda_gpu_kern_sum",
    "cuda_gpu_kern_sum:nvtx-name",
    "cuda_gpu_kern_gb_sum",
    "cuda_gpu_mem_time_sum",
    "cuda_gpu_mem_size_sum",
    "cuda_gpu_sum",
    "cuda_api_gpu_sum",
    "cuda_kern_exec_sum",
    "nvtx_gpu_proj_sum",
    "nvtx_kern_sum",
    "gpu_time_breakdown",
    "gpu_time_breakdown:step",
    "gpu_time_breakdown:range",
    "gpu_idle_causes",
    "step_phases",
]


def cuda_report(b, kind="same", events=10000000):
    name = b.path("cuda-%s%s.wsrep" % (kind, "" if events == 10000000 else "-%d" % events))
    if not os.path.exists(name):
        b.command([b.program("cuda_bench"), name, kind, str(events)])
    return name


@figure
def stats_of_cuda(b):
    path = cuda_report(b)
    return [
        Row(
            "stats -r %s of 10 M CUDA events" % name,
            "s",
            [],
            [
                b.command([b.warpsight, "stats", "-q", "-f", "csv", "-r", name, path]).seconds
                for _ in range(b.runs)
            ],
            1,
            digits=2,
        )
        for name in CUDA_SUMMARIES
    ]


@figure
def sqlite_export_of_kernels(b):
    """All of the report's tables count as time, only kernels as rows."""
    path, rate, kernels = cuda_report(b), [], 4_186_080
    for _ in range(max(1, b.runs // 2)):
        r = b.command(
            [b.warpsight, "export", "-t", "sqlite", "-f", "-o", b.path("cuda.sqlite"), path]
        )
        rate.append(kernels / r.seconds / 1e6)
        os.unlink(b.path("cuda.sqlite"))
    return [
        Row(
            "SQLite export of CUDA kernels",
            "M rows/s",
            [],
            rate,
            0.7,
            added=False,
            at_least=True,
            digits=2,
        )
    ]


CPU_SUMMARIES = ["cpu_sample_sum", "sched_sum", "cpu_util", "thread_wait_sum", "cpu_gap_sum"]


def cpu_report(b):
    """10 M samples in 1.4 M distinct stacks, 10 M spans on cores, 1.25 M calls."""
    if not os.path.exists(b.path("cpu.wsrep")):
        b.command([b.program("cpu_bench"), "big", b.path("cpu.wsrep"), "10000000"])
    return b.path("cpu.wsrep")


@figure
def analysis(b):
    """The limit is of two idle cores."""
    reports = [("10 M CUDA events", cuda_report(b)), ("10 M samples, 10 M switches", cpu_report(b))]
    return [
        Row(
            "analyze of " + what,
            "s",
            [],
            [b.command([b.warpsight, "analyze", path], silent=True).seconds for _ in range(b.runs)],
            2,
            digits=2,
        )
        for what, path in reports
    ]


@figure
def stats_of_cpu_time(b):
    path = cpu_report(b)
    return [
        Row(
            "stats -r %s of 10 M samples, 10 M switches" % name,
            "s",
            [],
            [
                b.command([b.warpsight, "stats", "-q", "-f", "csv", "-r", name, path]).seconds
                for _ in range(b.runs)
            ],
            1,
            digits=2,
        )
        for name in CPU_SUMMARIES
    ]


@figure
def stats_of_rarer_tables(b):
    """10 M spans of Python's lock on 16 threads; 10 M moves and faults of a million pages of
    unified memory.
    """
    for kind, name in (("gil", "gil_sum"), ("um", "um_sum"), ("um", "um_total_sum")):
        path = b.path(kind + ".wsrep")
        if not os.path.exists(path):
            b.command([b.program("stats_bench"), path, kind, "10000000"])
        took = [
            b.command([b.warpsight, "stats", "-q", "-f", "csv", "-r", name, path]).seconds
            for _ in range(b.runs)
        ]
        yield Row("stats -r %s of 10 M events" % name, "s", [], took, 1, digits=2)


@figure
def call_trees(b):
    path = cpu_report(b)
    commands = [
        ("report --view=top-down", ["report", "-q", "--view=top-down", "-f", "csv", path]),
        ("report --show=off-cpu", ["report", "-q", "--show=off-cpu", "-f", "csv", path]),
        ("export -t pprof", ["export", "-q", "-f", "-t", "pprof", "-o", b.path("cpu.pb.gz"), path]),
    ]
    return [
        Row(
            title + " of 10 M samples",
            "s",
            [],
            [b.command([b.warpsight, *argv]).seconds for _ in range(max(1, b.runs // 2))],
            None,
            digits=2,
        )
        for title, argv in commands
    ]


def big_trace(path, megabytes):
    """A trace of the PyTorch profiler: operators with shapes, their launches and kernels."""
    at, number, size = 1000, 0, 0
    with open(path, "w") as f:
        size += f.write(
            '{"schemaVersion": 1, "baseTimeNanoseconds": 1700000000000000000, "traceEvents": [\n'
        )
        while size < megabytes * 1e6:
            number += 1
            at += 40
            size += f.write(
                '{"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 7, "tid": 7, "ts":'
                ' %d.125, "dur": 30.5, "args": {"External id": %d, "Record function id": 0,'
                ' "Concrete Inputs": ["", "", "", "1", "1"], "Input type": ["c10::BFloat16",'
                ' "c10::BFloat16", "c10::BFloat16", "Scalar", "Scalar"], "Input Strides": [[1],'
                ' [512, 1], [1, 512], [], []], "Input Dims": [[512], [%d, 512], [512, 512], [],'
                ' []], "Ev Idx": %d}},\n{"ph": "X", "cat": "cuda_runtime", "name":'
                ' "cudaLaunchKernel", "pid": 7, "tid": 7, "ts": %d.5, "dur": 6.25, "args":'
                ' {"External id": %d, "cbid": 211, "correlation": %d}},\n{"ph": "s", "id": %d,'
                ' "pid": 7, "tid": 7, "ts": %d.5, "cat": "ac2g", "name": "ac2g"},\n{"ph": "X",'
                ' "cat": "kernel", "name": "void'
                " cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn"
                "_align8>(cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8"
                '::Params)",'
                ' "pid": 0, "tid": 7, "ts": %d.75, "dur": 9.376, "args": {"External id": %d,'
                ' "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": %d,'
                ' "registers per thread": 72, "shared memory": 33792, "blocks per SM": 0.6, "warps'
                ' per SM": 2.4, "grid": [5, 16, 1], "block": [128, 1, 1], "est. achieved occupancy'
                ' %%": 4}},\n'
                % (
                    at,
                    number,
                    number % 97,
                    number,
                    at + 9,
                    number,
                    number,
                    number,
                    at + 9,
                    at + 20,
                    number,
                    number,
                )
            )
        f.write("{}]}\n")


@figure
def import_of_a_trace(b):
    """The goal is 150 MB/s of a trace of 1 GB within 1 GiB of memory; the rate does not depend on
    the size.
    """
    path, megabytes = b.path("trace.json"), 300
    if not os.path.exists(path):
        big_trace(path, megabytes)
    rate = [
        megabytes
        / b.command([b.warpsight, "import", "-q", "-f", "-o", b.path("trace.wsrep"), path]).seconds
        for _ in range(b.runs)
    ]
    return [Row("import of a PyTorch trace", "MB/s", [], rate, 150, added=False, at_least=True)]


@figure
def stats_of_hard_cuda(b):
    """Names that never repeat (the table has four million lines), and correlation ids that lie
    apart.
    """
    return [
        Row(
            "stats -r %s of 10 M CUDA events, %s" % (name, kind),
            "s",
            [],
            [
                b.command(
                    [b.warpsight, "stats", "-q", "-f", "csv", "-r", name, cuda_report(b, kind)]
                ).seconds
                for _ in range(b.runs)
            ],
            limit,
            digits=2,
        )
        for kind, name, limit in (
            ("unique", "nvtx_kern_sum", None),
            ("unique", "cuda_gpu_kern_sum:nvtx-name", None),
            ("unique", "nvtx_gpu_proj_sum", 1),
            ("sparse", "nvtx_kern_sum", 1),
            ("sparse", "cuda_kern_exec_sum", 1),
        )
    ]


@figure
def default_stats_of_cuda(b):
    path = cuda_report(b)
    return [
        Row(
            "all default reports of 10 M CUDA events",
            "s",
            [],
            [
                b.command([b.warpsight, "stats", "-q", "-f", "csv", path]).seconds
                for _ in range(b.runs)
            ],
            3,
            digits=2,
        )
    ]


QUERIES = {
    "GROUP BY of 10 M ranges": (
        "ranges",
        "SELECT text, count(*), sum(end - start) FROM NVTX_EVENTS GROUP BY text",
    ),
    "GROUP BY of 10 M ranges, six figures": (
        "ranges",
        (
            "SELECT text, count(*), sum(end - start), avg(end - start), min(end - start), max(end -"
            " start), min(start) FROM NVTX_EVENTS GROUP BY text"
        ),
    ),
    "GROUP BY name of 10 M ranges, registered or not": (
        "ranges",
        (
            "SELECT coalesce(e.text, s.value) AS name, count(*), sum(end - start) / 1e6 AS ms, "
            "avg((end - start) / 1e3) FROM NVTX_EVENTS e LEFT JOIN StringIds s ON s.id = e.textId "
            "WHERE eventType = 59 GROUP BY name ORDER BY ms DESC LIMIT 20"
        ),
    ),
    "GROUP BY thread of 10 M ranges": (
        "ranges",
        "SELECT globalTid, count(*), sum(end - start) FROM NVTX_EVENTS GROUP BY globalTid",
    ),
    "top ten of 4 M kernels": (
        "cuda",
        (
            "SELECT s.value, sum(k.end - k.start) AS t FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN"
            " StringIds s ON s.id = k.demangledName GROUP BY s.value ORDER BY t DESC LIMIT 10"
        ),
    ),
    "a hundredth of the time": (
        "cuda",
        "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE start > 1e9 AND end < 2e9",
    ),
}


@figure
def queries(b):
    for name, (kind, sql) in QUERIES.items():
        path = cuda_report(b) if kind == "cuda" else b.path("ten.wsrep")
        if not os.path.exists(path):
            b.command([b.program("stats_bench"), path, "jitter", "10000000"])
        yield Row(
            "query: " + name,
            "s",
            [],
            [
                b.command([b.warpsight, "query", "-f", "csv", sql, path]).seconds
                for _ in range(b.runs)
            ],
            2,
            digits=2,
        )
