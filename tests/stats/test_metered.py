"""test_metered.py WARPSIGHT MAKE_METERED - the reports about metrics of GPUs, against figures that
can be reckoned by hand and against every nanosecond's reckoning from the export; TAP."""

import collections, csv, io, math, os, sqlite3, subprocess, sys, tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import check_equal, done

WARPSIGHT, MAKE = map(os.path.abspath, sys.argv[1:3])


def call(*command):
    r = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert r.returncode == 0, r
    return r.stdout


def table(report, name, *options):
    text = call(WARPSIGHT, "stats", "-q", "-r", name, "-f", "csv", *options, report)
    return list(csv.DictReader(io.StringIO(text)))


def make(kind):
    call(MAKE, kind, kind + ".wsrep")
    return kind + ".wsrep"


def figures(rows, key, columns):
    return {r[key]: tuple(float(r[c]) if r[c] else None for c in columns) for r in rows}


def reckon_means(path, metric):
    """The mean of a metric over the kernels of each name, from the exported rows."""
    db = sqlite3.connect(path)
    values = db.execute(
        "SELECT v.start, v.start + v.span, v.value FROM WARPSIGHT_COUNTER_VALUE v JOIN"
        " WARPSIGHT_COUNTER c ON c.id = v.counterId JOIN StringIds n ON n.id = c.nameId"
        " WHERE n.value = ? AND v.value IS NOT NULL",
        (metric,),
    ).fetchall()
    sums, known = collections.defaultdict(float), collections.defaultdict(int)
    for name, start, end in db.execute(
        "SELECT s.value, k.start, k.end FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON"
        " s.id = k.demangledName"
    ):
        for a, b, value in values:
            both = max(0, min(b, end) - max(a, start))
            sums[name] += both * value
            known[name] += both
    return {name: sums[name] / known[name] for name in known if known[name]}


def kernels():
    report = make("small")
    rows = table(report, "gpu_metric_kern_sum")
    columns = ("Instances", "Samples", "Own Share (%)", "SM Active (%)", "Tensor Active (%)")
    got = figures(rows, "Name", columns)
    check_equal(
        "samples and means of kernels",
        {n: tuple(round(x, 6) for x in v) for n, v in got.items()},
        {
            "matmul": (2, 20, 100, 37, 49.333333),  # half of the second has no Tensor Active
            "copy": (1, 4, 75, 71.5, 20),
            "tiny": (3, 1, 30, 30, 64),  # all three in one sample
        },
    )
    check_equal(
        "what they are bound by",
        {r["Name"]: r["Bound By"] for r in rows},
        {"matmul": "too few blocks", "copy": "memory bandwidth", "tiny": ""},
    )
    check_equal(
        "operations a second, by the library calls that launched kernels",
        figures(rows, "Name", ("GFLOP/s",)),
        {"matmul": (2000.0,), "copy": (None,), "tiny": (None,)},
    )
    check_equal(
        "joules, bytes a second by the memory's peak, links as the sum of their packets",
        figures(rows, "Name", ("Energy (J)", "DRAM Read (MB/s)", "NVLink RX (%)")),
        {
            "matmul": (1.0, 335000.0, 7.0),
            "copy": (0.15, 2680000.0, 7.0),
            "tiny": (0.015, 335000.0, 7.0),
        },
    )
    call(WARPSIGHT, "export", "-q", "-f", "-o", "small.sqlite", report)
    for metric, column in (("SM Active", "SM Active (%)"), ("Tensor Active", "Tensor Active (%)")):
        want = reckon_means("small.sqlite", metric)
        got = figures(rows, "Name", (column,))
        check_equal(
            metric + " as reckoned from the export",
            {n: math.isclose(got[n][0], v, rel_tol=1e-9) for n, v in want.items()},
            {n: True for n in got},
        )
    window = table(report, "gpu_metric_kern_sum", "--filter-time=1.2ms/1.4ms")
    check_equal(
        "a window cuts kernels",
        figures(window, "Name", ("Total Time (ns)", "Samples", "SM Active (%)")),
        {"matmul": (200000, 2, 12.5)},
    )


def ranges_and_steps():
    report = make("small")
    check_equal(
        "ranges last from their first work to their last",
        figures(table(report, "gpu_metric_nvtx_sum"), "Range", ("Total Time (ns)", "Samples")),
        {"step 0": (2050000, 21), "step 1": (1850000, 19), "forward": (2000000, 20)},
    )
    check_equal(
        "steps last as long as they do",
        figures(
            table(report, "gpu_metric_step_sum"),
            "Step",
            ("Total Time (ns)", "SM Active (%)", "Energy (J)", "GFLOP/s"),
        ),
        {"step 0": (2500000, 17, 1.25, 800.0), "step 1": (2500000, 62, 1.25, 800.0)},
    )
    check_equal(
        "a mixture of kernels is not called bound by latency",
        {r["Step"]: r["Bound By"] for r in table(report, "gpu_metric_step_sum")},
        {"step 0": "tensor cores", "step 1": ""},
    )


def whole_gpus():
    rows = table(make("small"), "gpu_metric_util_sum")
    check_equal(
        "gaps are part of no mean",
        figures(rows, "Metric", ("Samples", "Avg", "Med", "Min", "Max"))["Tensor Active"],
        (90, 44.4444444, 64, 20, 64),
    )
    check_equal(
        "what the driver tells is there too",
        [r["Unit"] for r in rows if r["Metric"].startswith("Mean power")],
        ["W"],
    )
    check_equal(
        "several GPUs",
        figures(table(make("two"), "gpu_metric_util_sum"), "GPU", ("Avg",)),
        {"Some GPU (0)": (90,), "Some GPU (1)": (8,)},
    )
    check_equal(
        "kernels of a GPU have that GPU's metrics",
        figures(table("two.wsrep", "gpu_metric_kern_sum"), "GPU", ("SM Active (%)",)),
        {"Some GPU (0)": (90,), "Some GPU (1)": (8,)},
    )


def memory():
    rows = table(make("small"), "gpu_mem_peak")
    check_equal(
        "who had allocated memory at its peak",
        [
            (r["Peak At (ns)"], r["Size (MB)"], r["Allocations"], r["Largest (MB)"], r["Call"])
            + (r["Range"],)
            for r in rows
        ],
        [
            ("4000000", "2000.000", "2", "1500.000", "cudaMalloc", "forward"),
            ("4000000", "1000.000", "1", "1000.000", "cudaMalloc", ""),
            ("4000000", "400.000", "", "", "[contexts, code and other programs]", ""),
        ],
    )
    check_equal("its size", {r["Peak (MB)"] for r in rows}, {"3000.000"})


def ask(path, sql):
    return sqlite3.connect(path).execute(sql).fetchall()


def exported():
    """Under the names and in the form that people's scripts know."""
    call(WARPSIGHT, "export", "-q", "-f", "-o", "out.sqlite", make("small"))
    names = (
        "SELECT i.metricName, count(*), round(avg(m.value), 4), min(m.timestamp),"
        " max(m.timestamp) FROM GPU_METRICS m JOIN TARGET_INFO_GPU_METRICS i USING (typeId,"
        " metricId) WHERE m.typeId & 0xFF = 0 AND i.metricName LIKE '%s' GROUP BY 1"
    )
    check_equal(
        "a row for each sample, with a whole number",
        ask("out.sqlite", names % "SMs Active%"),
        [("SMs Active [Throughput %]", 100, 49.5, 0, 9900000)],
    )
    check_equal(
        "none for those that were lost",
        ask("out.sqlite", names % "Tensor%"),
        [("Tensor Active [Throughput %]", 90, 44.4444, 0, 9900000)],
    )
    check_equal(
        "the GPU's number is that of TARGET_INFO_GPU",
        ask(
            "out.sqlite",
            "SELECT DISTINCT g.uuid FROM GPU_METRICS m JOIN TARGET_INFO_GPU g ON g.id = m.typeId"
            " & 0xFF",
        ),
        [("GPU-a",)],
    )
    check_equal(
        "networks: how much was counted in the time of a row",
        ask(
            "out.sqlite",
            "SELECT c.name, i.name, i.unit, m.start, m.end, m.value FROM NET_NIC_METRIC m JOIN"
            " TARGET_INFO_NETWORK_METRICS i USING (metricsListId, metricsIdx) JOIN NIC_ID_MAP n"
            " USING (globalId) JOIN TARGET_INFO_NIC_INFO c USING (nicId) ORDER BY 4, 1",
        ),
        [
            ("eth0", "Received", "B", 0, 2000000, 2000),
            ("mlx5_0", "Sent", "B", 0, 1000000, 5000),
            ("eth0", "Received", "B", 2000000, 3000000, 3000),
        ],
    )
    call(WARPSIGHT, "import", "-q", "-f", "-o", "back.wsrep", "out.sqlite")
    call(WARPSIGHT, "export", "-q", "-f", "-o", "back.sqlite", "back.wsrep")
    tables = "GPU_METRICS TARGET_INFO_GPU_METRICS NET_NIC_METRIC TARGET_INFO_NETWORK_METRICS"
    tables += " TARGET_INFO_NIC_INFO NIC_ID_MAP WARPSIGHT_COUNTER_VALUE"
    for name in tables.split():
        sql = "SELECT * FROM %s ORDER BY 1, 2" % name
        back, out = ask("back.sqlite", sql), ask("out.sqlite", sql)
        check_equal(name + " comes back", sorted(back, key=repr), sorted(out, key=repr))
    call(
        WARPSIGHT,
        "export",
        "-q",
        "-f",
        "--tables=GPU_METRICS,StringIds",
        "-o",
        "part.sqlite",
        "small.wsrep",
    )
    call(WARPSIGHT, "import", "-q", "-f", "-o", "part.wsrep", "part.sqlite")
    check_equal(
        "the exported metrics alone say the same",
        float(table("part.wsrep", "gpu_metric_util_sum")[0]["Avg"]),
        49.0,  # of moments, the last says nothing
    )


def imported():
    """As Nsight Systems writes them: whole percents at moments, the GPU in the type."""
    db = sqlite3.connect("nsys.sqlite")
    db.executescript(
        """
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        INSERT INTO StringIds VALUES (1, 'gemm');
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
            contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
            demangledName INTEGER, shortName INTEGER);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 3000, 1, 1, 7, 1, 281474976710656,
            1, 1);
        CREATE TABLE TARGET_INFO_GPU_METRICS (typeId INTEGER, sourceId INTEGER, typeName TEXT,
            metricId INTEGER, metricName TEXT);
        INSERT INTO TARGET_INFO_GPU_METRICS VALUES
            (281479271677953, 281479271677953, '', 0, 'SMs Active [Throughput %]'),
            (281479271677953, 281479271677953, '', 1, 'Compute Warps in Flight [Avg]');
        CREATE TABLE GPU_METRICS (timestamp INTEGER, typeId INTEGER, metricId INTEGER,
            value INTEGER);
        INSERT INTO GPU_METRICS VALUES (0, 281479271677953, 0, 10),
            (1500, 281479271677953, 0, 90), (4000, 281479271677953, 0, 0),
            (0, 281479271677953, 1, 7);
        """
    )
    db.commit()
    db.close()
    call(WARPSIGHT, "import", "-q", "-f", "-o", "nsys.wsrep", "nsys.sqlite")
    check_equal(
        "metrics that were imported",
        figures(
            table("nsys.wsrep", "gpu_metric_kern_sum"),
            "Name",
            ("Samples", "SM Active (%)", "Warps in Flight (%)"),
        ),
        {"gemm": (2, 70, None)},
    )


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    kernels()
    ranges_and_steps()
    whole_gpus()
    memory()
    exported()
    imported()
    os.chdir("/")
sys.exit(done())
