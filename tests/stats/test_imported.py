"""test_imported.py WARPSIGHT - reports on tables that only imported files have, against small files
made here; TAP.
"""
import csv, io, json, os, sqlite3, subprocess, sys, tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import check_equal as check, done

WARPSIGHT = os.path.abspath(sys.argv[1])
GTID = 100 << 24 | 101
OTHER = 200 << 24 | 201
NAMES = [
    "MPI_Send",
    "MPI_Allreduce",
    "MPI_Wait",
    "MPI_Init",
    "parallel",
    "acc_launch",
    "vkQueueSubmit",
    "vkCmdMarker",
    "frame",
    "draw",
    "cuvidDecode",
    "nvEncode",
    "openat",
]


def rows(report, name, header=False, options=()):
    r = subprocess.run(
        [WARPSIGHT, "stats", "-q", "-r", name, "-f", "csv", *options, report],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert r.returncode == 0, r
    lines = list(csv.reader(io.StringIO(r.stdout.strip())))
    return lines if header else lines[1:]


def database(path):
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    db.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(NAMES, 1))
    ids = {n: i for i, n in enumerate(NAMES, 1)}

    def make(table, columns, *values):
        text = ",\n  ".join(
            "%s INTEGER%s" % (c, " REFERENCES StringIds(id)" if c in ("nameId", "textId") else "")
            for c in columns.split()
        )
        db.execute("CREATE TABLE %s (\n  %s\n)" % (table, text))
        for v in values:
            v = [ids.get(x, x) for x in v]
            db.execute("INSERT INTO %s VALUES (%s)" % (table, ",".join("?" * len(v))), v)

    span = "start end globalTid "
    make("MPI_RANKS", "globalTid rank", (GTID, 3), (OTHER, 4))
    make(
        "MPI_P2P_EVENTS",
        span + "textId tag remoteRank size",
        (10, 20, GTID, "MPI_Send", 7, 4, 1000000),
        (30, 60, OTHER, "MPI_Send", 8, 3, 3000000),
    )
    make(
        "MPI_COLLECTIVES_EVENTS",
        span + "textId rootRank size recvSize",
        (70, 90, GTID, "MPI_Allreduce", None, 2000000, 500000),
    )
    make("MPI_START_WAIT_EVENTS", span + "textId", (95, 99, GTID, "MPI_Wait"))
    make("MPI_OTHER_EVENTS", span + "textId", (1, 5, GTID, "MPI_Init"))
    make("OPENMP_EVENT_KIND_PARALLEL", span + "nameId eventKind", (100, 110, GTID, "parallel", 1))
    make("OPENMP_EVENT_KIND_TASK", span + "nameId eventKind", (100, 130, GTID, "parallel", 1))
    make(
        "CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH",
        span + "nameId lineNo",
        (100, 104, GTID, "acc_launch", 9),
    )
    make(
        "VULKAN_API",
        span + "nameId eventClass contextId correlationId",
        (200, 208, GTID, "vkQueueSubmit", 53, 1, 77),
    )
    make("VULKAN_DEBUG_API", span + "nameId textId", (210, 212, GTID, "vkCmdMarker", "frame"))
    make(
        "VULKAN_WORKLOAD",
        span + "nameId textId",
        (220, 225, GTID, "vkQueueSubmit", None),
        (226, 229, GTID, "vkCmdMarker", "draw"),
    )
    make("NVVIDEO_DECODER_API", span + "nameId", (300, 306, GTID, "cuvidDecode"))
    make("NVVIDEO_ENCODER_API", span + "nameId", (300, 302, GTID, "nvEncode"))
    make(
        "KHR_DEBUG_EVENTS",
        "eventClass " + span + "textId id",
        (62, 500, 530, GTID, "frame", 1),
        (62, 505, 507, GTID, None, 9),
        (63, 510, 550, GTID, "frame", 1),
        (52, 510, None, GTID, "draw", 3),
        (62, 540, None, GTID, "draw", 4),
    )
    text = "(metricsListId INTEGER, metricsIdx INTEGER, name TEXT, description TEXT, unit TEXT)"
    db.execute("CREATE TABLE TARGET_INFO_NETWORK_METRICS " + text)
    db.executemany(
        "INSERT INTO TARGET_INFO_NETWORK_METRICS VALUES (?,?,?,?,?)",
        [
            (1, 0, "IB: Bytes sent", "", "B"),
            (1, 1, "IB: Send waits", "", "ticks"),
            (2, 0, "Send Wait rate", "", "ticks/ms"),
        ],
    )
    db.execute(
        "CREATE TABLE TARGET_INFO_NIC_INFO (GUID INTEGER, stateName TEXT, nicId INTEGER, name TEXT,"
        " deviceId INTEGER)"
    )
    db.execute("INSERT INTO TARGET_INFO_NIC_INFO VALUES (77001, 'Local', 3, 'mlx5_0', 1)")
    db.execute("CREATE TABLE NIC_ID_MAP (nicId INTEGER, globalId INTEGER)")
    db.execute("INSERT INTO NIC_ID_MAP VALUES (3, 9)")
    ms = 1000000
    make(
        "NET_NIC_METRIC",
        "start end globalId metricsListId metricsIdx value",
        (0, ms, 9, 1, 0, 10**9),
        (0, ms, 9, 1, 1, 10000),
        (ms, 3 * ms, 9, 1, 1, 50000),
        (3 * ms, 4 * ms, 9, 1, 1, 5),
    )
    make(
        "NET_IB_SWITCH_METRIC",
        "start end globalId metricsListId metricsIdx value",
        (ms, 2 * ms, 88002, 2, 0, 12345),
    )
    make("SYSCALL", span + "nameId", (400, 411, GTID, "openat"))
    db.commit()
    db.close()


def one(total, name, *more):
    """A line of a single span."""
    return [
        "100.0",
        str(total),
        "1",
        "%d.0" % total,
        "%d.0" % total,
        str(total),
        str(total),
        "0.0",
        *more,
        name,
    ]


def test_summaries(report):
    check(
        "openmp_sum adds up its tables",
        rows(report, "openmp_sum", True),
        [
            [
                "Time (%)",
                "Total Time (ns)",
                "Count",
                "Avg (ns)",
                "Med (ns)",
                "Min (ns)",
                "Max (ns)",
                "StdDev (ns)",
                "Name",
            ],
            ["100.0", "40", "2", "20.0", "20.0", "10", "30", "14.1", "parallel"],
        ],
    )
    for name, total, text in (
        ("openacc_sum", 4, "acc_launch"),
        ("vulkan_api_sum", 8, "vkQueueSubmit"),
        ("vulkan_marker_sum", 2, "frame"),
        ("vulkan_gpu_marker_sum", 3, "draw"),
        ("syscall_sum", 11, "openat"),
    ):
        check(name, rows(report, name), [one(total, text)])
    check(
        "nvvideo_api_sum",
        [(r[1], r[8], r[9]) for r in rows(report, "nvvideo_api_sum")],
        [("6", "Decoder", "cuvidDecode"), ("2", "Encoder", "nvEncode")],
    )
    check(
        "mpi_event_sum",
        [(r[1], r[2], r[8], r[9]) for r in rows(report, "mpi_event_sum")],
        [
            ("40", "2", "p2p", "MPI_Send"),
            ("20", "1", "coll", "MPI_Allreduce"),
            ("4", "1", "other", "MPI_Init"),
            ("4", "1", "start_wait", "MPI_Wait"),
        ],
    )
    check(
        "mpi_msg_size_sum",
        rows(report, "mpi_msg_size_sum"),
        [
            ["4.000", "2", "2.000", "2.000", "1.000", "3.000", "1.414", "p2p", "MPI_Send"],
            [
                "2.000",
                "1",
                "2.000",
                "2.000",
                "2.000",
                "2.000",
                "0.000",
                "coll_send",
                "MPI_Allreduce",
            ],
            [
                "0.500",
                "1",
                "0.500",
                "0.500",
                "0.500",
                "0.500",
                "0.000",
                "coll_recv",
                "MPI_Allreduce",
            ],
        ],
    )
    check(
        "a window",
        [r[9] for r in rows(report, "mpi_event_sum", options=("--filter-time", "0/6"))],
        ["MPI_Init"],
    )


def test_network(report):
    head = [
        "Start (ns)",
        "End (ns)",
        "Duration (ns)",
        "Send wait rate (ticks/ms)",
        "GUID",
        "Device name",
    ]
    nic = ["1000000", "3000000", "2000000", "25000.0", "77001", "mlx5_0"]
    switch = ["1000000", "2000000", "1000000", "12345.0", "88002", ""]
    check(
        "network_congestion",
        sorted(rows(report, "network_congestion", True)),
        sorted([head, nic, switch]),
    )
    check("with a threshold", rows(report, "network_congestion:ticks_threshold=20000"), [nic])
    check("a low one", len(rows(report, "network_congestion:ticks_threshold=4")), 4)
    check(
        "in a window",
        rows(report, "network_congestion", options=("--filter-time", "2500us/")),
        [nic],
    )
    check(
        "only of waits",
        {r[4] for r in rows(report, "network_congestion:ticks_threshold=0")},
        {"77001", "88002"},
    )


def test_debug_groups(report):
    check(
        "opengl_khr_range_sum",
        rows(report, "opengl_khr_range_sum", True),
        [
            [
                "Time (%)",
                "Total Time (ns)",
                "Instances",
                "Avg (ns)",
                "Med (ns)",
                "Min (ns)",
                "Max (ns)",
                "StdDev (ns)",
                "Range",
            ],
            ["93.8", "30", "1", "30.0", "30.0", "30", "30", "0.0", "frame"],
            ["6.3", "2", "1", "2.0", "2.0", "2", "2", "0.0", "9"],
        ],
    )
    check("opengl_khr_gpu_range_sum", rows(report, "opengl_khr_gpu_range_sum"), [one(40, "frame")])


def test_traces(report):
    got = rows(report, "mpi_event_trace", True)
    check(
        "mpi_event_trace names its columns",
        [c.split(" (")[0] for c in got[0]],
        (
            "Start End Duration Event Pid Tid Tag Rank PeerRank RootRank Size"
            " CollSendSize CollRecvSize"
        ).split(),
    )
    check(
        "and has ranks and sizes",
        [(r[3], r[4], r[6], r[7], r[8], r[10], r[11], r[12]) for r in got[1:4]],
        [
            ("MPI_Init", "100", "", "3", "", "", "", ""),
            ("MPI_Send", "100", "7", "3", "4", "1.000", "", ""),
            ("MPI_Send", "200", "8", "4", "3", "3.000", "", ""),
        ],
    )
    check("of collectives", got[4][10:], ["", "2.000", "0.500"])
    check(
        "vulkan_api_trace",
        [r[1:8] for r in rows(report, "vulkan_api_trace")],
        [["8", "vkQueueSubmit", "53", "1", "77", "100", "101"]],
    )


def test_collectives(folder):
    def event(ts, dur, name, n_in, n_out, corr):
        return {
            "ph": "X",
            "cat": "kernel",
            "name": "ncclDevKernel_" + name,
            "pid": 0,
            "tid": 7,
            "ts": ts,
            "dur": dur,
            "args": {
                "device": 0,
                "stream": 7,
                "correlation": corr,
                "Collective name": name,
                "In msg nelems": n_in,
                "Out msg nelems": n_out,
                "dtype": "Float",
                "Group size": 4,
                "Process Group Name": "0",
                "Process Group Description": "default_pg",
            },
        }

    path = os.path.join(folder, "rank0.json")
    with open(path, "w") as f:
        json.dump(
            {
                "schemaVersion": 1,
                "distributedInfo": {"backend": "nccl", "rank": 2, "world_size": 4},
                "traceEvents": [
                    event(1, 10, "allreduce", 1000000, 1000000, 1),
                    event(21, 30, "allreduce", 1000000, 1000000, 2),
                    event(61, 5, "_allgather_base", 250000, 999999, 3),
                ],
            },
            f,
        )
    got = rows(path, "collective_sum")
    check(
        "collective_sum has bytes and what they should be",
        [r[2:3] + r[8:] for r in got],
        [
            [
                "2",
                "allreduce",
                "Float",
                "4.000",
                "4.000",
                "4.000",
                "6.000",
                "300000.000",
                "default_pg",
                "4",
                "rank 2",
            ],
            [
                "1",
                "_allgather_base",
                "Float",
                "1.000",
                "4.000",
                "4.000",
                "3.000",
                "600000.000",
                "default_pg",
                "4",
                "rank 2",
            ],
        ],
    )


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        path, report = os.path.join(folder, "theirs.sqlite"), os.path.join(folder, "ours.wsrep")
        database(path)
        subprocess.run([WARPSIGHT, "import", "-q", "-o", report, path], check=True)
        test_summaries(report)
        test_traces(report)
        test_network(report)
        test_debug_groups(report)
        test_collectives(folder)
    return done()


sys.exit(main())
