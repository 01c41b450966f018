"""test_fold.py WARPSIGHT - names that differ only in numbers as one line of a summary; TAP."""
import csv, io, os, sqlite3, subprocess, sys, tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import check, check_equal, done

WARPSIGHT = os.path.abspath(sys.argv[1])
GTID = 100 << 24 | 101
PID = 100 << 24
NAMES = (
    ["aten::to, op_id = %d" % (7 * i) for i in range(150)]  # numbers that stand alone
    + ["layer%d step %d/150" % (i % 3, i) for i in range(150 * 3)]  # keeps its layer
    + ["unit%d_of_%d" % (i, 2 * i) for i in range(101)]  # all numbers, since there are so many
    + ["iteration #", "at 0x7ff%03x" % 0xABC, "at 0x10", "conv2d", "conv3d", "layer4", "layer5"]
    + ["sm80_xmma_gemm_f16f16", "sm90_xmma_gemm_f16f16", "pair 1", "pair 2"]
)
KERNELS = ["gemm<%d, float>" % i for i in range(100)] + [
    "sort<%d, %d>(int*)" % (i, i % 7) for i in range(101)
]


def make(path):
    """Ranges one after the other, each with a kernel that is launched inside."""
    db = sqlite3.connect(path)
    texts = NAMES + KERNELS + ["cudaLaunchKernel_v7000"]
    ids = {text: i for i, text in enumerate(texts, 1)}
    db.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    db.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(texts, 1))
    db.execute(
        "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT,"
        " globalTid INTEGER, domainId INTEGER, textId INTEGER)"
    )
    db.execute(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER,"
        " correlationId INTEGER, nameId INTEGER, returnValue INTEGER)"
    )
    db.execute(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,"
        " contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,"
        " demangledName INTEGER, shortName INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER,"
        " blockX INTEGER, blockY INTEGER, blockZ INTEGER)"
    )
    for i, name in enumerate(NAMES):
        start, kernel = 1000 * (i + 1), ids[KERNELS[i % len(KERNELS)]]
        db.execute(
            "INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, NULL, ?, 0, ?)",
            (start, start + 100 + i, GTID, ids[name]),
        )
        db.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?, 0)",
            (start + 10, start + 20, GTID, i + 1, ids["cudaLaunchKernel_v7000"]),
        )
        db.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES"
            " (?, ?, 0, 1, 7, ?, ?, ?, ?, 1, 1, 1, 1, 1, 1)",
            (start + 30, start + 40 + i, i + 1, PID, kernel, kernel),
        )
    db.commit()


def stats(path, report, *options):
    r = subprocess.run(
        [WARPSIGHT, "stats", "-f", "csv", "-r", report, *options, path],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return r, list(csv.DictReader(io.StringIO(r.stdout.strip())))


def count_names(rows, column, count="Instances"):
    return {row[column]: int(row[count]) for row in rows}


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "names.sqlite")
    make(path)

    exact = {name: 1 for name in NAMES}
    auto = {name: 1 for name in NAMES[-11:]}
    auto.update(
        {"aten::to, op_id = #": 150, "unit#_of_#": 101}
        | {"layer%d step #/#" % i: 150 for i in range(3)}
    )
    yes = dict(auto)
    for name in "at 0x7ffabc", "at 0x10", "pair 1", "pair 2":
        del yes[name]
    yes.update({"at #": 2, "pair #": 2})

    for how, want in ("auto", auto), ("yes", yes), ("no", exact):
        r, rows = stats(path, "nvtx_sum", "--fold-names=" + how)
        check_equal("nvtx_sum --fold-names=%s" % how, count_names(rows, "Range"), want)
        check(
            "%s: # is explained where there is one" % how,
            ("--fold-names=no" in r.stderr) == (how != "no"),
            r.stderr,
        )
    check_equal(
        "auto is the usual",
        stats(path, "nvtx_sum")[1],
        stats(path, "nvtx_sum", "--fold-names=auto")[1],
    )
    folded, names = stats(path, "nvtx_sum")[1], stats(path, "nvtx_sum", "--fold-names=no")[1]
    check_equal(
        "the total time",
        sum(int(r["Total Time (ns)"]) for r in folded),
        sum(int(r["Total Time (ns)"]) for r in names),
    )
    kernels = {name: 0 for name in KERNELS[:100]} | {"sort<#, #>(int*)": 0}
    for i in range(len(NAMES)):
        name = KERNELS[i % len(KERNELS)]
        kernels[name if name in kernels else "sort<#, #>(int*)"] += 1
    check_equal(
        "kernels: a hundred template arguments stay, more do not",
        count_names(stats(path, "cuda_gpu_kern_sum")[1], "Name"),
        kernels,
    )
    for report, column in (
        ("nvtx_gpu_proj_sum", "Range"),
        ("nvtx_kern_sum", "NVTX Range"),
        ("gpu_time_breakdown:range", "Part"),
        ("cuda_gpu_kern_sum:nvtx-name", "Name"),
    ):
        seen = {row[column].split("/gemm")[0].split("/sort")[0] for row in stats(path, report)[1]}
        seen.discard("")
        check_equal(report + ": ranges", seen, set(auto))
    for report, column in ("nvtx_pushpop_trace", "Name"), ("nvtx_gpu_proj_trace", "Name"):
        seen = {row[column] for row in stats(path, report)[1]}
        check_equal(report + " keeps all names", seen, set(NAMES))
    r, _ = stats(path, "nvtx_sum", "--fold-names=perhaps")
    check("another word is refused", r.returncode and "auto" in r.stderr, r.stderr)
sys.exit(done())
