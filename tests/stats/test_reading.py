#!/usr/bin/env python3
"""Whole-command tests of stats, info and recover over reports of known rows:
test_reading.py WARPSIGHT MAKE_REPORT [--update].

Exports have tests of their own (test_reading_exports.py). Tables are compared with the files in
golden/ (--update rewrites them; read the difference before committing it), figures with a
recomputation from the SQLite export. Prints TAP.
"""
import collections
import csv
import html.parser
import io
import json
import math
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import PROGRAM, Result, main, refused, run, same, skip_where_only_races_count, test

from known_reports import database, golden, report, rows


# ---- tables ----

CPU_REPORTS = [
    "nvtx_sum",
    "nvtx_pushpop_sum",
    "nvtx_pushpop_trace",
    "nvtx_startend_sum",
    "osrt_sum",
]
CUDA_REPORTS = [
    "cuda_api_sum",
    "cuda_api_trace",
    "cuda_gpu_kern_sum",
    "cuda_gpu_kern_gb_sum",
    "cuda_gpu_mem_time_sum",
    "cuda_gpu_mem_size_sum",
    "cuda_gpu_sum",
    "cuda_gpu_trace",
    "cuda_api_gpu_sum",
    "cuda_kern_exec_sum",
    "cuda_kern_exec_trace",
    "nvtx_gpu_proj_sum",
    "nvtx_gpu_proj_trace",
    "nvtx_kern_sum",
    "um_sum",
    "um_total_sum",
    "um_cpu_page_faults_sum",
]
REPORTS = CPU_REPORTS + CUDA_REPORTS
DEFAULTS = [
    "nvtx_sum",
    "osrt_sum",
    "cuda_api_sum",
    "cuda_gpu_kern_sum",
    "cuda_gpu_mem_time_sum",
    "cuda_gpu_mem_size_sum",
    "openmp_sum",
    "opengl_khr_range_sum",
    "opengl_khr_gpu_range_sum",
    "vulkan_marker_sum",
    "vulkan_gpu_marker_sum",
    "um_sum",
    "um_total_sum",
    "um_cpu_page_faults_sum",
    "openacc_sum",
]


@test
def csv_of_every_report():
    for name in CPU_REPORTS:
        golden(
            "basic.%s.csv" % name, run("stats", "-q", "-r", name, "-f", "csv", report("basic")).out
        )
    for name in CUDA_REPORTS:
        golden(
            "cuda.%s.csv" % name, run("stats", "-q", "-r", name, "-f", "csv", report("cuda")).out
        )


@test
def every_format():
    for fmt in ["column", "table", "tsv", "json", "html", "htable", "markdown"]:
        golden(
            "basic.nvtx_sum.%s" % fmt,
            run("stats", "-q", "-r", "nvtx_sum", "-f", fmt, report("basic")).out,
        )


@test
def hostile_names_in_every_format():
    for fmt in ["column", "table", "csv", "tsv", "json", "html", "markdown"]:
        golden(
            "hostile.nvtx_sum.%s" % fmt,
            run("stats", "-q", "-r", "nvtx_sum", "-f", fmt, report("hostile")).out,
        )


@test
def hostile_names_survive_readers():
    want = [
        r[0]
        for r in rows(
            database("hostile"), "SELECT text FROM NVTX_EVENTS WHERE end >= start AND domainId = 0"
        )
    ]
    got = csv.reader(
        io.StringIO(
            run("stats", "-q", "-r", "nvtx_sum", "-f", "csv", report("hostile")).out.decode(),
            newline="",
        )
    )
    names = [r[9] for r in got if r][1:]
    same(sorted(n for n in names if n != "[domain 9]:"), sorted(want), "csv")
    data = json.loads(run("stats", "-q", "-r", "nvtx_sum", "-f", "json", report("hostile")).out)
    same(
        sorted(n["Range"].replace("\0", "\ufffd") for n in data if n["Range"] != "[domain 9]:"),
        sorted(want),
        "json",
    )


class Cells(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text = collections.Counter(), []

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1

    def handle_data(self, data):
        self.text.append(data)


@test
def html_has_no_tags_of_the_target():
    p = Cells()
    p.feed(run("stats", "-q", "-r", "nvtx_sum", "-f", "html", report("hostile")).out.decode())
    same("script" in p.tags, False)
    same(any("<script>alert('x')</script>" in t for t in p.text), True)


@test
def terminal_formats_hold_no_controls():
    for fmt in ["column", "table", "markdown"]:
        text = run(
            "stats", "-r", "nvtx_sum,nvtx_pushpop_trace", "-f", fmt, report("hostile")
        ).out.decode()
        bad = [
            c
            for c in text
            if (ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 or 0x202A <= ord(c) <= 0x202E
        ]
        same(bad, [], fmt)
    text = run("info", report("hostile")).out.decode()
    same([c for c in text if ord(c) < 32 and c != "\n"], [], "info")


@test
def default_reports_and_columns():
    out = run("stats", "-q", report("basic")).out.decode()
    same(
        [line for line in out.split("\n") if "**" in line],
        [" ** NVTX Range Summary (nvtx_sum):", " ** OS Runtime Summary (osrt_sum):"],
    )


@test
def default_reports_of_cuda():
    err = run("stats", "-f", "csv", report("cuda")).err
    out = run("stats", "-q", report("cuda")).out.decode()
    same(
        [line.split("(")[-1][:-2] for line in out.split("\n") if "**" in line],
        [n for n in DEFAULTS if n.startswith(("nvtx_", "cuda_", "um_"))],
    )
    same("cuda_api_sum leaves out 1 of the CUDA API calls: it never ended" in err, True, err)
    same("cuda_gpu_kern_sum leaves out 1 of the CUDA kernels: it had no times" in err, True, err)


@test
def names_of_kernels():
    def names(spec):
        return [r[-1] for r in summary("cuda", spec)]

    same(
        names("cuda_gpu_kern_sum"),
        ["void gemm<float>(float *)", "void relu(float *, int)", "void gemm<double>(double *)"],
    )
    same(names("cuda_gpu_kern_sum:base"), ["gemm", "relu"])
    same(
        names("cuda_gpu_kern_sum:mangled"),
        ["_Z4gemmIfEvPT_", "void gemm<float>(float *)", "void relu(float *, int)"],
    )
    same(
        names("cuda_gpu_kern_sum:nvtx-name:base"),
        ["forward/gemm", "request/gemm", "relu", "step/gemm"],
    )
    same(
        names("cuda_kern_exec_trace:base:nvtx-name"),
        ["forward/gemm", "step/gemm", "step/gemm", "request/gemm", "relu", "relu"],
    )
    same(
        [n for n in names("cuda_gpu_trace:base:nvtx-name") if "gemm" in n],
        ["forward/gemm", "step/gemm", "step/gemm", "request/gemm"],
    )
    for spec, word in [
        ("cuda_gpu_kern_sum:demangled", "base, mangled, nvtx-name"),
        ("nvtx_kern_sum:nvtx-name", "base, mangled"),
        ("cuda_gpu_sum:base:mangled", "exclude each other"),
        ("um_sum:rows=", "rows=<number>"),
        ("um_sum:rows=x", "rows=<number>"),
        ("um_sum:row", "rows=<number>"),
        ("cuda_api_sum:base", "takes no arguments"),
        ("cuda_gpu_sum:", "takes base"),
    ]:
        refused("stats", "-r", spec, report("cuda"), words=[word], code=2)


@test
def unified_memory_rows():
    same(len(summary("cuda", "um_sum")), 2)
    same([r[0] for r in summary("cuda", "um_sum:rows=1")], ["0x7F0000010000"])
    every = summary("wild", "um_sum:rows=1000000")  # the first rows are chosen without sorting all
    same(len(every) > 500, True)
    for n in (0, 1, 2, 9, 250, len(every) - 1, len(every)):
        same(summary("wild", "um_sum:rows=%d" % n), every[:n])


class Launches:
    """The report "launches" joined the slow way: every kernel and copy with its call and the ranges
    around it.
    """

    def __init__(self):
        db = database("launches")
        domains = {
            (r[0] >> 24, r[1]): r[2] + ":"
            for r in rows(
                db, "SELECT globalTid, domainId, text FROM NVTX_EVENTS WHERE eventType = 75"
            )
        }
        self.ranges = rows(
            db,
            (
                "SELECT rowid, start, end, globalTid, eventType, text, domainId FROM NVTX_EVENTS"
                " WHERE eventType IN (59, 60)"
            ),
        )
        self.name = {
            r[0]: (
                "[domain %d]:" % r[6]
                if r[6] and (r[3] >> 24, r[6]) not in domains
                else domains.get((r[3] >> 24, r[6]), "")
            )
            + r[5]
            for r in self.ranges
        }
        self.style = {r[0]: "PushPop" if r[4] == 59 else "StartEnd" for r in self.ranges}
        calls = {
            (r[2] >> 24, r[3]): r
            for r in rows(
                db,
                (
                    "SELECT start, end, globalTid, correlationId, s.value FROM"
                    " CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds s ON s.id = nameId"
                ),
            )
        }
        self.work = []
        for table, name in (("KERNEL", "s.value"), ("MEMCPY", "NULL")):
            join = " JOIN StringIds s ON s.id = demangledName" if table == "KERNEL" else ""
            for w in rows(
                db,
                "SELECT start, end, globalPid, correlationId, %s FROM CUPTI_ACTIVITY_KIND_%s%s"
                % (name, table, join),
            ):
                call = calls.get((w[2] >> 24, w[3]))
                around = [
                    r
                    for r in self.ranges
                    if call and r[3] == call[2] and r[1] <= call[0] and r[2] >= call[1]
                ]
                self.work.append((w, call, around))


@test
def kernels_by_range_equal_a_slow_join():
    launches, want = Launches(), collections.defaultdict(lambda: ([], set()))
    for w, call, around in launches.work:
        if w[4] is None:
            continue
        for r in around:
            times, instances = want[
                launches.name[r[0]],
                launches.style[r[0]],
                str(r[3] >> 24),
                str(r[3] & 0xFFFFFF),
                w[4],
            ]
            times.append(w[1] - w[0])
            instances.add(r[0])
        if not around:
            want["", "", "", "", w[4]][0].append(w[1] - w[0])
    got = summary("launches", "nvtx_kern_sum")
    same(len(got), len(want))
    same(len(got) > 50, True)
    for r in got:
        times, instances = want[r[0], r[1], r[2], r[3], r[12]]
        figures = recomputed(times)
        same([r[4], r[6], r[5]] + r[7:11], [str(len(instances))] + figures[:6], r[0])
        same(abs(float(r[11]) - float(figures[6])) < 0.11, True)


@test
def projections_equal_a_slow_join():
    launches, spans = Launches(), {}
    for w, call, around in launches.work:
        for r in around:
            first, last, n = spans.get(r[0], (w[0], w[1], 0))
            spans[r[0]] = min(first, w[0]), max(last, w[1]), n + 1
    want = collections.Counter()
    for r in launches.ranges:
        if r[0] in spans:
            first, last, n = spans[r[0]]
            want[
                launches.name[r[0]],
                str(first),
                str(last - first),
                str(r[1]),
                str(r[2] - r[1]),
                launches.style[r[0]],
                str(r[3] >> 24),
                str(r[3] & 0xFFFFFF),
                str(n),
            ] += 1
    trace = summary("launches", "nvtx_gpu_proj_trace")
    same(collections.Counter(tuple(r[:9]) for r in trace), want)
    ids = {r[11]: r for r in trace}
    children = collections.Counter(r[12] for r in trace)
    for r in trace:
        same(r[10], str(children[r[11]]), "children")
        same(r[13].endswith(":" + r[11]) and r[13].count(":") == int(r[9]) + 1, True, r[13])
        if r[12]:  # the parent has work too, since its child has, and spans it
            same(
                int(ids[r[12]][3]) <= int(r[3])
                and int(ids[r[12]][3]) + int(ids[r[12]][4]) >= int(r[3]) + int(r[4]),
                True,
                r,
            )
    for r in summary("launches", "nvtx_gpu_proj_sum"):
        same_name = [t for t in trace if (t[0], t[5]) == (r[0], r[1])]
        figures = recomputed([int(t[2]) for t in same_name])
        same([r[2], r[4], r[5], r[6], r[7], r[8]], figures[:6], r[0])
        same(
            (int(r[3]), int(r[10])),
            (sum(int(t[4]) for t in same_name), sum(int(t[8]) for t in same_name)),
            r[0],
        )


@test
def launches_and_runs_equal_a_slow_join():
    want = collections.defaultdict(lambda: ([], [], [], []))
    for w, call, around in Launches().work:
        if w[4] is None or not call:
            continue
        dists = want[str(call[2] >> 24), str(call[2] & 0xFFFFFF), call[4][:-6], w[4]]
        dists[0].append(max(w[1], call[1]) - call[0])
        dists[1].append(call[1] - call[0])
        dists[2].extend([w[0] - call[1]] if w[0] > call[1] else [])
        dists[3].append(w[1] - w[0])
    got = summary("launches", "cuda_kern_exec_sum")
    same(len(got), len(want))
    for r in got:
        dists = want[r[0], r[1], r[25], r[26]]
        same((int(r[3]), int(r[4])), (len(dists[0]), len(dists[2])))
        for i, d in enumerate(dists):
            same(r[5 + i * 5 : 9 + i * 5], recomputed(d)[2:6])
    same(len(summary("launches", "cuda_kern_exec_trace")), sum(len(d[0]) for d in want.values()))


@test
def filters_of_cuda_reports():
    """Work counts by its own span; its call and ranges are found wherever they are."""
    same(
        [r[2] for r in summary("cuda", "cuda_gpu_kern_sum", "--filter-time", "12us/12.6us")], ["2"]
    )
    same(
        [
            (r[0], r[3])
            for r in summary("cuda", "cuda_kern_exec_trace", "--filter-time", "12us/12.6us")
        ],
        [("8900", "2900"), ("9500", "2900")],
    )
    same(
        [r[2] for r in summary("cuda", "cuda_api_sum", "--filter-nvtx", "forward")], ["4", "1", "1"]
    )
    same(
        [r[0] for r in summary("cuda", "nvtx_gpu_proj_trace", "--filter-time", "4160ns/5us")],
        ["step", "forward", "request"],
    )
    same(
        [r[20] for r in summary("cuda", "cuda_gpu_trace", "--filter-nvtx", "forward")],
        ["void gemm<float>(float *)", "void gemm<double>(double *)", "void gemm<double>(double *)"],
    )


@test
def time_units():
    golden(
        "basic.us.csv",
        run("stats", "-q", "-r", "osrt_sum", "-f", "csv", "--timeunit", "us", report("basic")).out,
    )
    golden(
        "basic.s.csv",
        run(
            "stats",
            "-q",
            "-r",
            "nvtx_pushpop_trace",
            "-f",
            "csv",
            "--timeunit=seconds",
            report("basic"),
        ).out,
    )
    refused(
        "stats",
        "--timeunit",
        "fortnights",
        report("basic"),
        words=["fortnights", "ns, us, ms, s"],
        code=2,
    )


def recomputed(durations):
    """What the summary columns must hold for these durations, but for the share."""

    def tenth(x):  # half away from zero, on the exact value
        return "%.1f" % (math.floor(x * 10 + statistics.Fraction(1, 2)) / 10)

    f = [statistics.Fraction(d) for d in durations]
    sd = statistics.stdev(durations) if len(durations) > 1 else 0.0
    return [
        str(sum(durations)),
        str(len(durations)),
        tenth(sum(f) / len(f)),
        tenth(statistics.median(f)),
        str(min(durations)),
        str(max(durations)),
        "%.1f" % sd,
    ]


def summary(kind, name, *args):
    out = run("stats", "-q", "-r", name, "-f", "csv", *args, report(kind)).out.decode()
    return [r for r in csv.reader(io.StringIO(out, newline="")) if r][1:]


def check_summary(got, by_name):
    want = {name: recomputed(d) for name, d in by_name.items()}
    total = sum(sum(d) for d in by_name.values())
    for r in got:
        same(r[1:7], want[r[-1]][:6], r[-1])
        same(abs(float(r[7]) - float(want[r[-1]][6])) < 0.11, True, "deviation of " + r[-1])
        same(abs(float(r[0]) - 100 * int(r[1]) / total) <= 0.0500001, True, "share of " + r[-1])
    same(len(got), len(want))
    order = [(-int(r[1]), r[-1].encode()) for r in got]
    same(order, sorted(order), "order")


@test
def figures_equal_a_recomputation():
    by_name = collections.defaultdict(list)
    for name, d in rows(database("many"), "SELECT text, end - start FROM NVTX_EVENTS"):
        by_name[name].append(d)
    same(len(by_name), 3000)
    check_summary(summary("many", "nvtx_pushpop_sum", "--fold-names=no"), by_name)


@test
def filter_time_takes_what_touches_the_window():
    for spec, lo, hi in [
        ("1ms/2ms", 1000000, 2000000),
        ("/50us", 0, 50000),
        ("3.5ms/", 3500000, 1 << 62),
        ("1000005/1000005", 1000005, 1000005),
    ]:
        by_name = collections.defaultdict(list)
        for name, d in rows(
            database("many"),
            "SELECT text, end - start FROM NVTX_EVENTS WHERE end >= ? AND start <= ?",
            lo,
            hi,
        ):
            by_name[name].append(d)
        check_summary(
            summary("many", "nvtx_pushpop_sum", "--fold-names=no", "--filter-time", spec), by_name
        )


@test
def filter_time_of_the_trace_keeps_levels():
    whole = {r[10]: r for r in summary("basic", "nvtx_pushpop_trace")}
    part = summary("basic", "nvtx_pushpop_trace", "--filter-time", "3000ns/3250")
    same([r[5] for r in part], ["outer", "lib:overlap", "plain", "inner", "leaf"])
    for r in part:
        same(r, whole[r[10]])


@test
def deep_nesting():
    trace = summary("deep", "nvtx_pushpop_trace")
    levels = [r for r in trace if r[5] == "level"]
    same([int(r[8]) for r in levels], list(range(2500)), "levels")
    same([r[9] for r in levels], ["1"] * 2499 + ["0"], "children")
    same(
        (levels[999][12].count(":"), levels[-1][12][:5], levels[-1][12].count(":")),
        (1000, ":...:", 1001),
        "long stacks are cut",
    )
    same({r[8] for r in trace if r[5].endswith("stair")}, {"0"}, "what overlaps does not nest")
    landing = [r for r in trace if r[5] == "landing"][0]
    same(
        (landing[8], landing[11]),
        ("1", [r[10] for r in trace if r[0] == "2499" and r[7] == "502"][0]),
        "the innermost around it",
    )


@test
def filter_time_refuses_nonsense():
    for spec in ["", "5", "a/b", "5/4", "1/2/3", "1m/2m", "-5/3", "1e9/2", "99999999999999999999/"]:
        refused("stats", "--filter-time=" + spec, report("basic"), words=["--filter-time"], code=2)


@test
def filter_nvtx():
    def names(spec):
        return [r[5] for r in summary("basic", "nvtx_pushpop_trace", "--filter-nvtx", spec)]

    same(names("outer/1"), ["outer"])
    same(names("inner/2"), ["outer", "lib:overlap", "plain", "inner", "leaf"])
    same(names("overlap@lib/0"), ["lib:overlap"])
    same(names("overlap@*/1"), ["outer", "inner", "lib:overlap", "plain", "inner"])
    r = run("stats", "-r", "osrt_sum", "--filter-nvtx", "outer", report("basic"))
    same("2 ranges 'outer'" in r.err, True, r.err)
    refused(
        "stats", "--filter-nvtx", "nothing", report("basic"), words=["no range 'nothing'"], code=1
    )
    refused(
        "stats",
        "--filter-nvtx",
        "overlap",
        report("basic"),
        words=["there is one in domain lib"],
        code=1,
    )
    refused(
        "stats",
        "--filter-nvtx",
        "outer/7",
        report("basic"),
        words=["2 ranges", "last index is 1"],
        code=1,
    )
    refused("stats", "--filter-nvtx", "outer/x", report("basic"), words=["'x'"], code=1)


# ---- outputs of stats ----


@test
def lists_pair_up():
    os.mkdir("pair")
    run(
        "stats",
        "-q",
        "-r",
        "nvtx_sum,osrt_sum,nvtx_startend_sum",
        "-f",
        "csv,json",
        "-o",
        "pair/a,pair/b",
        report("basic"),
    )
    same(
        sorted(os.listdir("pair")),
        ["a_nvtx_sum.csv", "b_nvtx_startend_sum.json", "b_osrt_sum.json"],
    )
    out = run(
        "stats",
        "-q",
        "-r",
        "nvtx_sum,osrt_sum",
        "-r",
        "nvtx_startend_sum",
        "-o",
        "pair/c,-",
        report("basic"),
    ).out.decode()
    same(os.path.exists("pair/c_nvtx_sum.csv"), True, "csv is the default of files")
    same(out.count(" ** "), 2, "column is the default of standard output")
    run("stats", "-q", "-o", "pair/d,pair/e", "-f", "csv,tsv", report("basic"))
    same(
        os.path.exists("pair/d_nvtx_sum.csv") and os.path.exists("pair/e_osrt_sum.tsv"),
        True,
        "the default reports pair up too",
    )
    refused(
        "stats",
        "-f",
        ",".join(["csv"] * (len(DEFAULTS) + 1)),
        report("basic"),
        words=["%d formats are given for %d reports" % (len(DEFAULTS) + 1, len(DEFAULTS))],
        code=2,
    )
    out = run(
        "stats", "-q", "-r", "osrt_sum", "-f", "csv,.", "-o", "pair/f,-", report("basic")
    ).out.decode()
    same(
        (os.path.exists("pair/f_osrt_sum.csv"), out.count(" ** ")),
        (True, 1),
        "the last report serves two outputs",
    )


@test
def files_hold_what_is_printed():
    run("stats", "-q", "-r", "nvtx_sum", "-o", "one", report("basic"))
    with open("one_nvtx_sum.csv", "rb") as f:
        same(
            f.read() + b"\n", run("stats", "-q", "-r", "nvtx_sum", "-f", "csv", report("basic")).out
        )


@test
def dot_names_files_after_the_report():
    shutil.copy(report("basic"), "copied.wsrep")
    run("stats", "-q", "-r", "osrt_sum", "-o", ".", "copied")
    same(os.path.exists("copied_osrt_sum.csv"), True)


@test
def several_files():
    out = run("stats", "-q", "-r", "osrt_sum", "-f", "csv", report("basic"), report("basic")).out
    same(out.count(b"Time (%)"), 2)
    shutil.copy(report("basic"), "second.wsrep")
    run("stats", "-q", "-r", "osrt_sum", "-o", "both", report("basic"), "second.wsrep")
    same(
        os.path.exists("both_basic_osrt_sum.csv") and os.path.exists("both_second_osrt_sum.csv"),
        True,
    )


@test
def existing_files_are_kept():
    with open("kept_osrt_sum.csv", "w") as f:
        f.write("precious")
    refused(
        "stats",
        "-q",
        "-r",
        "osrt_sum",
        "-o",
        "kept",
        report("basic"),
        words=["kept_osrt_sum.csv exists", "--force-overwrite"],
        code=1,
    )
    with open("kept_osrt_sum.csv") as f:
        same(f.read(), "precious")
    run("stats", "-q", "-r", "osrt_sum", "-o", "kept", "--force-overwrite=true", report("basic"))
    same(os.path.getsize("kept_osrt_sum.csv") > 50, True)
    same([n for n in os.listdir(".") if n.endswith(".tmp")], [])


@test
def unfit_options_are_refused():
    b = report("basic")
    refused("stats", "-r", "nvtx_sums", b, words=["nvtx_sums", "--help-reports"], code=2)
    refused("stats", "-r", "nvtx_sum:base", b, words=["takes no arguments"], code=2)
    refused("stats", "-f", "xml", b, words=["xml", "csv"], code=2)
    refused("stats", "-f", "csv:wide", b, words=["wide", "nohdr"], code=2)
    refused("stats", "-o", "@", b, words=["no command"], code=2)
    refused("stats", "--sqlite", "x.sqlite", b, b, words=["--sqlite", "one report file"], code=1)
    refused("stats", "--report-dir", "d", b, words=["--report-dir", "d: No such"], code=2)
    refused("stats", words=["no report file"], code=2)
    refused(
        "stats",
        "-o",
        "nowhere/x",
        "-r",
        "osrt_sum",
        "-q",
        b,
        words=["nowhere/x_osrt_sum.csv", "No such file"],
        code=1,
    )


@test
def help_lists():
    out = run("stats", "--help-reports").out.decode()
    for name in REPORTS:
        same(name in out, True, name)
    same("markdown" in run("stats", "--help-formats").out.decode(), True)


@test
def reports_without_data_are_skipped_aloud():
    r = run("stats", report("empty"))
    same(r.out, b"")
    same(("nothing that they show was recorded: " + ", ".join(DEFAULTS)) in r.err, True, r.err)
    same(
        run("stats", "-r", "osrt_sum,cuda_gpu_kern_sum", report("empty")).err.count("skipped: no"),
        2,
    )
    same(run("stats", "-q", report("empty")), Result(0, b"", ""))
    run("stats", "-q", "-o", "none", report("empty"))
    same([n for n in os.listdir(".") if n.startswith("none")], [], "files without data")
    r = run("stats", "-r", "osrt_sum", "--filter-time", "50s/", report("basic"))
    same("in the time asked for" in r.err, True, r.err)


@test
def what_is_left_out_is_said():
    same(
        "leaves out 1 of the calls of the OS runtime: it never ended"
        in run("stats", "-r", "osrt_sum", report("basic")).err,
        True,
    )
    same("end before they start" in run("stats", "-q", report("hostile")).err, True)


# ---- things that go wrong outside ----


@test
def a_reader_that_goes_away():
    for restore in (True, False):  # with the signal, and with the signal ignored
        for args in (
            ["stats", "-r", "nvtx_pushpop_trace", "-f", "csv"],
            ["export", "-t", "jsonlines", "-o", "-"],
        ):
            p = subprocess.Popen(
                [PROGRAM, *args, report("many")],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                restore_signals=restore,
            )
            p.stdout.read(100)
            p.stdout.close()
            err = p.stderr.read().decode()
            same(
                p.wait() in (-signal.SIGPIPE, 128 + signal.SIGPIPE),
                True,
                "exit %s of %s" % (p.returncode, args),
            )
            same(err, "", args)


@test
def full_standard_output():
    """One sentence with the cause, however many tables and files were still to come."""
    sample = "SELECT * FROM NVTX_EVENTS"
    for args in (
        ["stats"],
        ["stats", "-r", "nvtx_pushpop_trace"],
        ["stats", "-f", "csv", "-r", "nvtx_sum,nvtx_pushpop_trace,nvtx_pushpop_sum"],
        ["stats", "-f", "json", report("basic")],
        ["export", "-t", "jsonlines", "-o", "-"],
        ["export", "-t", "chrome", "-o", "-"],
        ["export", "-t", "arrow", "-o", "-"],
        ["query", sample],
        ["query", "-f", "csv", sample + ";" + sample],
        ["info"],
        ["info", "--json"],
        ["help", "--man"],
    ):
        files = [] if args[0] == "help" else [report("many")]
        with open("/dev/full", "wb") as full:
            r = run(*args, *files, ok=False, stdout=full)
        same(
            (r.code, r.err.count("No space left"), r.err.count("cannot write")),
            (1, 1, 1),
            "%s: %s" % (args, r),
        )


def small_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))


@test
def full_disk():
    """A limit on the size of files stands for a full disk: what was begun must be gone."""
    report("many")
    os.mkdir("full")
    for args in (
        ["export", "-o", "full/x.sqlite"],
        ["export", "-t", "json", "-o", "full/x.jsonl"],
        ["stats", "-r", "nvtx_pushpop_trace", "-o", "full/x"],
    ):
        refused(*args, "many.wsrep", words=["cannot write"], code=1, preexec_fn=small_files)
        same(os.listdir("full"), [], args)


@test
def not_reports():
    with open("text.wsrep", "w") as f:
        f.write("this is no report\n" * 100)
    open("nothing.wsrep", "w").close()
    os.mkdir("directory.wsrep")
    for command in (["stats"], ["export"], ["info"], ["recover"]):
        refused(*command, "missing", words=["missing"], code=1)
        for name in ("text.wsrep", "nothing.wsrep", "directory.wsrep"):
            refused(*command, name, words=[name], code=1)
        refused(*command, words=["no report file is given"], code=2)


@test
def damage_is_said():
    with open(report("many"), "rb") as f:
        whole = f.read()
    with open("cut.wsrep", "wb") as f:
        f.write(whole[: len(whole) // 2])
    r = run("stats", "-r", "nvtx_pushpop_sum", "-q", "cut.wsrep", ok=False)
    same("cut.wsrep" in r.err, True, r)
    same(run("info", "cut.wsrep", ok=False).code, 1)
    data = json.loads(run("info", "--json", "cut.wsrep", ok=False).out)
    same((data["complete"], len(data["damage"]) > 0), (False, True))
    flipped = bytearray(whole)
    for at in range(len(whole) // 3, len(whole) // 3 + 8):
        flipped[at] ^= 0x55
    with open("flipped.wsrep", "wb") as f:
        f.write(flipped)
    r = run("info", "--verify", "flipped.wsrep", ok=False)
    same((r.code, b"Damage:" in r.out), (1, True), r)
    same(
        run("stats", "-q", "flipped.wsrep", ok=False).err != "",
        True,
        "numbers of a damaged report come with a warning",
    )


@test
def wild_reports_harm_nothing():
    """A well-formed file with arbitrary numbers in every column: some output or a refusal, and no
    more.
    """
    skip_where_only_races_count()
    w = report("wild")
    for args in (
        ["stats", "-r", ",".join(REPORTS), "-f", "csv"],
        ["stats", "-r", "cuda_gpu_kern_gb_sum:nvtx-name,cuda_gpu_trace:nvtx-name:base"],
        ["stats", "-r", "nvtx_gpu_proj_sum:helper-threads", "-f", "csv"],
        ["stats", "-r", "nvtx_kern_sum:helper-threads", "-f", "csv"],
        ["stats", "-r", "gpu_time_breakdown:range:helper-threads", "-f", "csv"],
        ["stats", "-r", "nvtx_pushpop_trace", "-f", "json", "--timeunit", "ms"],
        ["stats", "--filter-time", "1us/1ms"],
        ["stats", "--filter-nvtx", "wild 5\xff@*/3"],
        ["info"],
        ["info", "--json", "--verify"],
        ["export", "-t", "jsonlines", "-o", "-"],
        ["export", "-q", "-f"],
    ):
        r = run(*args, w, ok=False)
        same(r.code in (0, 1), True, "%s: exit %d: %s" % (args, r.code, r.err[-2000:]))
    json.loads(run("stats", "-q", "-r", "nvtx_pushpop_trace", "-f", "json", w).out)
    json.loads(run("info", "--json", w, ok=False).out)
    for line in run("export", "-t", "jsonlines", "-o", "-", w).out.decode().split("\n")[:-1]:
        json.loads(line)
    same(rows(database("wild"), "PRAGMA integrity_check"), [("ok",)])


@test
def recover_writes_an_index():
    with open(report("many"), "rb") as f:
        whole = f.read()
    with open("torn.wsrep", "wb") as f:
        f.write(whole[: len(whole) - 60])
    run("recover", "torn.wsrep", "-o", "mended.wsrep")
    same(run("info", "--verify", "mended.wsrep").code, 0)
    same(
        summary("many", "nvtx_pushpop_sum"),
        [
            r
            for r in csv.reader(
                io.StringIO(
                    run(
                        "stats", "-q", "-r", "nvtx_pushpop_sum", "-f", "csv", "mended"
                    ).out.decode(),
                    newline="",
                )
            )
            if r
        ][1:],
    )


# ---- info ----


@test
def info_tells_what_is_there():
    text = run("info", report("basic")).out.decode()
    for words in (
        "host.name = testhost",
        "12 of nvtx, thread 101: memory budget",
        "warning: nvtx: two libraries embed NVTX",
        "Processes: 3",
    ):
        same(words in text, True, words)
    data = json.loads(run("info", "--json", "--verify", report("basic")).out)
    tables = {t["name"]: t["rows"] for t in data["tables"]}
    same((tables["nvtx"], tables["osrt"], tables["process"], len(data["threads"])), (24, 5, 3, 3))
    same((data["closed"], data["verified"], data["damage"]), (True, True, []))
    same(data["complete"], data["lost_events"] == 0)
    same(data["losses"][0]["events"] + data["losses"][1]["events"], 13)
    refused("info", report("basic"), report("many"), words=["one report file at a time"], code=2)


sys.exit(main())
