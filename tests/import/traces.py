"""Traces of each kind that more than one file of tests reads, made of a few lines."""
import sqlite3
import struct


def kineto(base=1700000000000000000, start=1000.0, pid=77, offset=0.0, rank=None):
    """A step with two operators, their calls and kernels, a copy, a collective, memory."""

    def x(cat, name, ts, dur, args, pid_=pid, tid=pid):
        return {
            "ph": "X",
            "cat": cat,
            "name": name,
            "pid": pid_,
            "tid": tid,
            "ts": round(start + offset + ts, 3),
            "dur": dur,
            "args": args,
        }

    gpu = {"device": 0, "context": 1}
    events = [
        x("user_annotation", "ProfilerStep#3", 0, 100, {"External id": 1}),
        x("cpu_op", "aten::linear", 1, 40, {"External id": 2}),
        x(
            "cpu_op",
            "aten::addmm",
            2.5,
            30.125,
            {"External id": 3, "Input Dims": [[5], [2, 3], [3, 5]], "Ev Idx": 2, "Odd": {"a": [1]}},
        ),
        x(
            "cuda_runtime",
            "cudaLaunchKernel",
            10,
            5,
            {"External id": 3, "correlation": 11, "cbid": 211},
        ),
        x(
            "kernel",
            "void ns::(anonymous namespace)::gemm<float, 2>(int*)",
            50.001,
            7.002,
            dict(
                gpu,
                **{
                    "External id": 3,
                    "correlation": 11,
                    "stream": 7,
                    "grid": [4, 2, 1],
                    "block": [128, 1, 1],
                    "registers per thread": 32,
                    "shared memory": 64,
                    "est. achieved occupancy %": 50,
                },
            ),
            0,
            7,
        ),
        x(
            "cpu_op",
            "record_param_comms",
            60,
            5,
            {"External id": 4, "Collective name": "allreduce"},
        ),
        x(
            "kernel",
            "ncclDevKernel_AllReduce_Sum_f32",
            65,
            20,
            dict(
                gpu,
                **{
                    "External id": 4,
                    "correlation": 12,
                    "stream": 20,
                    "Collective name": "allreduce",
                    "In msg nelems": 100,
                    "Out msg nelems": 100,
                    "Group size": 2,
                    "dtype": "Float",
                    "Process Group Name": "0",
                    "Process Group Ranks": "[0, 1]",
                    "grid": [1, 1, 1],
                    "block": [1, 1, 1],
                },
            ),
            0,
            20,
        ),
        x(
            "gpu_memcpy",
            "Memcpy HtoD (Pinned -> Device)",
            70,
            1,
            dict(gpu, **{"correlation": 13, "stream": 7, "bytes": 4096}),
            0,
            7,
        ),
        x(
            "gpu_memset",
            "Memset (Device)",
            72,
            2,
            dict(gpu, **{"correlation": 14, "stream": 7, "bytes": 512}),
            0,
            7,
        ),
        {
            "ph": "i",
            "cat": "cpu_instant_event",
            "s": "t",
            "name": "[memory]",
            "pid": pid,
            "tid": pid,
            "ts": round(start + offset + 5, 3),
            "args": {
                "Bytes": 1000,
                "Addr": 4096,
                "Total Allocated": 5000,
                "Total Reserved": 9000,
                "Device Type": 1,
                "Device Id": 0,
            },
        },
        {
            "ph": "s",
            "id": 11,
            "pid": pid,
            "tid": pid,
            "ts": round(start + offset + 10, 3),
            "cat": "ac2g",
            "name": "ac2g",
        },
        {
            "ph": "f",
            "id": 11,
            "pid": 0,
            "tid": 7,
            "ts": round(start + offset + 50.001, 3),
            "cat": "ac2g",
            "name": "ac2g",
            "bp": "e",
        },
        {
            "ph": "s",
            "id": 5,
            "pid": pid,
            "tid": pid,
            "ts": round(start + offset + 2, 3),
            "cat": "fwdbwd",
            "name": "fwdbwd",
        },
        {
            "ph": "f",
            "id": 5,
            "pid": pid,
            "tid": pid,
            "ts": round(start + offset + 61, 3),
            "cat": "fwdbwd",
            "name": "fwdbwd",
            "bp": "e",
        },
        {
            "ph": "M",
            "name": "process_name",
            "pid": pid,
            "tid": 0,
            "ts": 0,
            "args": {"name": "python3"},
        },
        {
            "ph": "M",
            "name": "thread_name",
            "pid": pid,
            "tid": pid,
            "ts": 0,
            "args": {"name": "main thread"},
        },
    ]
    trace = {
        "schemaVersion": 1,
        "deviceProperties": [
            {
                "id": 0,
                "name": "Test GPU",
                "numSms": 10,
                "totalGlobalMem": 1 << 33,
                "warpSize": 32,
                "maxThreadsPerMultiprocessor": 2048,
            }
        ],
        "traceEvents": events,
    }
    if rank is not None:
        trace["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 2}
    if base:
        trace["baseTimeNanoseconds"] = base
    return trace


CHROME = [
    {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "prog"}},
    {"ph": "B", "name": "outer", "cat": "c", "pid": 1, "tid": 2, "ts": 10},
    {
        "ph": "B",
        "name": 'in\u00e9r "q"',
        "cat": "c",
        "pid": 1,
        "tid": 2,
        "ts": 11,
        "args": {"k": [1, {"z": None}]},
    },
    {"ph": "E", "pid": 1, "tid": 2, "ts": 15},
    {"ph": "E", "pid": 1, "tid": 2, "ts": 20.5},
    {"ph": "X", "name": "x", "cat": "kernel", "pid": 1, "tid": 2, "ts": 30, "dur": 5},
    {"ph": "i", "name": "mark", "pid": 1, "tid": 2, "ts": 31, "s": "t"},
    {"ph": "C", "name": "mem", "pid": 1, "ts": 32, "args": {"rss": 12.5, "swap": 3}},
    {"ph": "b", "cat": "net", "id": "0x1", "name": "get", "pid": 1, "tid": 2, "ts": 40},
    {"ph": "n", "cat": "net", "id": "0x1", "name": "byte", "pid": 1, "tid": 2, "ts": 41},
    {"ph": "e", "cat": "net", "id": "0x1", "name": "get", "pid": 1, "tid": 3, "ts": 45},
    {"ph": "s", "cat": "f", "id": 1, "name": "go", "pid": 1, "tid": 2, "ts": 30},
    {"ph": "t", "cat": "f", "id": 1, "name": "go", "pid": 1, "tid": 3, "ts": 33},
    {"ph": "f", "cat": "f", "id": 1, "name": "go", "pid": 1, "tid": 2, "ts": 36, "bp": "e"},
    {"ph": "X", "name": "s", "pid": "Spans", "tid": "A", "ts": 50, "dur": 1},
    {"ph": "B", "name": "never ends", "pid": 1, "tid": 2, "ts": 60},
    {"ph": "E", "pid": 1, "tid": 9, "ts": 61},
]


PERF = """# captured on    : today
my prog 10/11 [003]  100.500000:     250000 cpu-clock:pppH:
\tffffffff8104f45a native_write_msr+0xa ([kernel.kallsyms])
\t    7f12aa00 main+0x10 (/usr/bin/prog)
\t    7f12ab00 f(int, A<int> const&)+0x1f (/usr/lib/lib x.so (deleted))

my prog 10/11 [003]  100.600000:     250000 cpu-clock:pppH:
\t    7f12aa00 main+0x10 (/usr/bin/prog)
\t    7f12ab00 f(int, A<int> const&)+0x1f (/usr/lib/lib x.so (deleted))

other 20 101.000000001: sched:sched_switch: prev_comm=a ==> next_comm=b
nonsense
"""


def make_nsys(t, name, version=3, extra=()):
    db = sqlite3.connect(t.path(name))
    x = db.execute
    x("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    for i, s in enumerate(
        ["gemm(int)", "gemm", "cudaLaunchKernel_v7000", "main", "MPI_Send", "registered"], 1
    ):
        x("INSERT INTO StringIds VALUES (?,?)", (i, s))
    gpid, gtid = 1 << 48 | 500 << 24, 1 << 48 | 500 << 24 | 501
    new = ", graphNodeId INTEGER, sharedMemoryExecuted INTEGER" if version > 2 else ""
    x(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,"
        " contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,"
        " demangledName INTEGER, shortName INTEGER, registersPerThread INTEGER, gridX INTEGER,"
        " gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER" + new + ")"
    )
    x(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5000, 6000, 0, 1, 7, 9, ?, 1, 2, 16, 1, 2,"
        " 3, 32, 1, 1" + (", NULL, 77)" if new else ")"),
        (gpid,),
    )
    x(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER,"
        " globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER,"
        " callchainId INTEGER)"
    )
    x("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (4000, 4500, 0, ?, 9, 3, 0, 1)", (gtid,))
    x(
        "CREATE TABLE CUDA_CALLCHAINS (id INTEGER, symbol INTEGER, module INTEGER, originalIP"
        " INTEGER, stackDepth INTEGER)"
    )
    x("INSERT INTO CUDA_CALLCHAINS VALUES (1, 2, 4, 16, 0), (1, 4, 4, 32, 1)")
    x(
        "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, rangeId INTEGER,"
        " category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER,"
        " textId INTEGER, domainId INTEGER, uint64Value INTEGER, int32Value INTEGER, doubleValue"
        " REAL)"
    )
    x(
        (
            "INSERT INTO NVTX_EVENTS VALUES (-50, 7000, 59, NULL, NULL, 255, 'range', ?, NULL,"
            " NULL, 0, NULL, -2, NULL)"
        ),
        (gtid,),
    )
    x(
        (
            "INSERT INTO NVTX_EVENTS VALUES (100, NULL, 34, NULL, 3, NULL, NULL, ?, NULL, 6, 0,"
            " NULL, NULL, 2.5)"
        ),
        (gtid,),
    )
    x("CREATE TABLE ThreadNames (nameId INTEGER, priority INTEGER, globalTid INTEGER)")
    x("INSERT INTO ThreadNames VALUES (4, 10, ?)", (gtid,))
    x("CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT)")
    x("INSERT INTO PROCESSES VALUES (?, 500, 'prog')", (gpid,))
    if version > 2:
        x(
            "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT,"
            " localTime TEXT)"
        )
        x("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1600000000000000000, '', '')")
        x(
            "CREATE TABLE ANALYSIS_DETAILS (globalVid INTEGER, duration INTEGER, startTime INTEGER,"
            " stopTime INTEGER)"
        )
        x("INSERT INTO ANALYSIS_DETAILS VALUES (0, 9000, 0, 9000)")
    for sql in extra:
        x(sql)
    db.commit()
    db.close()
    return t.path(name)


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def msg(**fields):
    """f11=b"..." is field 11, bytes; numbers are varints, floats doubles, lists repeated."""
    out = b""
    for key, values in fields.items():
        number = int(key[1:].split("_")[0])
        for v in values if isinstance(values, list) else [values]:
            if isinstance(v, float):
                out += varint(number << 3 | 1) + struct.pack("<d", v)
            elif isinstance(v, int):
                out += varint(number << 3) + varint(v)
            else:
                v = v.encode() if isinstance(v, str) else v
                out += varint(number << 3 | 2) + varint(len(v)) + v
    return out


def perfetto(*packets):
    return b"".join(msg(f1=p) for p in packets)
