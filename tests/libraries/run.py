#!/usr/bin/env python3
"""Tests of calls of libraries: with a stand-in for both ABIs of MPI everywhere, with the real ones
where they are installed. run.py PROGRAM LIBRARIES-OF-TESTS DECLARATIONS-MAKER.
"""
import collections
import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from shown import ask_page, shown  # noqa: E402
from tap import PROGRAM, Skip, main, run, same, test  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
BUILT, MAKER = sys.argv[2], sys.argv[3]
ABIS = ("openmpi", "mpich")
os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
# Ranks share few cores: they let each other run.
os.environ.update(OMPI_MCA_mpi_yield_when_idle="1", OMPI_MCA_rmaps_base_oversubscribe="1")


def profile(report, *command, trace="mpi", code=0, options=()):
    got = run(
        "profile", "-t", trace, "-s", "none", "-o", report, *options, "--", *command, ok=False
    )
    same(got.code, code, got.err)
    return got


def query(report, sql):
    rows = run("query", "-f", "json", report, sql).out
    return json.loads(rows)


def read_calls(report):
    """[(table, name, arguments)] in the order of their starts; null ends as "open": true."""
    rows = query(
        report,
        "SELECT c.value t, n.value n, a.value a, s.end e FROM WARPSIGHT_SLICE s"
        " JOIN StringIds c ON c.id = s.categoryId JOIN StringIds n ON n.id = s.nameId"
        " LEFT JOIN StringIds a ON a.id = s.argsId ORDER BY s.start",
    )
    calls = []
    for row in rows:
        kept = json.loads(row["a"] or "{}")
        kept.pop("commHandle", None)
        if row["e"] is None:
            kept["open"] = True
        calls.append((row["t"], row["n"], kept))
    return calls


def read_messages(*reports):
    text = run("stats", "-q", "-f", "csv", "-r", "mpi_message_trace", *reports).out.decode()
    return [row for row in csv.reader(io.StringIO(text)) if row and row[0] != "Send Start (ns)"]


def check_app_calls(report):
    requests = []

    def request(call):
        requests.append(call[2].pop("requestHandle"))
        return call

    calls = read_calls(report)
    p2p, coll = "MPI_P2P_EVENTS", "MPI_COLLECTIVES_EVENTS"
    wait, other = "MPI_START_WAIT_EVENTS", "MPI_OTHER_EVENTS"
    got = [request(call) if "requestHandle" in call[2] else call for call in calls]
    recv = lambda tag, size: (p2p, "MPI_Recv", {"tag": tag, "remoteRank": 0, "size": size})
    isend = lambda tag, size: (p2p, "MPI_Isend", {"tag": tag, "remoteRank": 0, "size": size})
    want = [
        (other, "MPI_Init", {}),
        (p2p, "MPI_Send", {"tag": 7, "remoteRank": 0, "size": 8}),
        recv(7, 8),
        (p2p, "MPI_Send", {"tag": 9, "remoteRank": 0, "size": 24}),
        recv(9, 24),
        (p2p, "MPI_Send", {"tag": 7, "remoteRank": -1, "size": 0}),
        (p2p, "MPI_Send", {"tag": 7, "remoteRank": 5, "error": 6}),
        isend(1, 5),
        isend(2, 6),
        (wait, "MPI_Waitall", {"requests": 2}),
        isend(3, 7),
        (wait, "MPI_Test", {}),
        (wait, "MPI_Test", {}),
        (wait, "MPI_Test", {}),
        recv(1, 5),
        recv(2, 6),
        recv(3, 7),
        (other, "MPI_Comm_dup", {}),
        (coll, "MPI_Allreduce", {"size": 128, "recvSize": 128}),
        (coll, "MPI_Allgather", {"size": 32, "recvSize": 32}),
        (other, "MPI_Finalize", {}),
    ]
    same(got, want)
    same(requests[3:], [requests[2]] * 3, "the tests are of the last send's request")
    flows = query(report, "SELECT count(*) n FROM WARPSIGHT_FLOW")[0]["n"]
    same(flows, 3, "arrows from sends to waits")


def app(kind, abi):
    return os.path.join(BUILT, "mpi-app%s-%s" % (kind, abi))


def check_linked(abi):
    options = ["--mpi-impl=" + abi] if abi in ABIS else []
    said = profile("linked-" + abi, app("", abi), options=options).err
    same("--mpi-impl" in said, False, said)
    report = "linked-%s.wsrep" % abi
    check_app_calls(report)
    comms = query(
        report,
        "SELECT commHandle, parentHandle, rank, localRank, size, groupRoot, groupRootUid, members"
        " FROM MPI_COMMUNICATORS ORDER BY timestamp",
    )
    same([list(c.values())[2:] for c in comms], [[0, 0, 1, 0, 0, "0"], [0, 0, 1, 0, 1, "0"]])
    same(comms[1]["parentHandle"], comms[0]["commHandle"])
    used = query(report, "SELECT DISTINCT commHandle h FROM MPI_COLLECTIVES_EVENTS")
    same([row["h"] for row in used], [comms[1]["commHandle"]])
    same([row["rank"] for row in query(report, "SELECT rank FROM MPI_RANKS")], [0])
    sums = run("stats", "-q", "-f", "csv", "-r", "mpi_msg_size_sum", report).out.decode()
    rows = [list(row)[:2] + list(row)[-2:] for row in csv.reader(io.StringIO(sums)) if row]
    got = [row[6:10] + row[11:] for row in read_messages(report)]
    want = [["0", "0", tag, "0.000", "MPI_Send", "MPI_Recv"] for tag in ("7", "9")]
    want += [["0", "0", str(tag), "0.000", "MPI_Isend", "MPI_Recv"] for tag in (1, 2, 3)]
    same(got, want, "sends and their receives")
    sums = {(row[2], row[3]): row[1] for row in rows}
    same(sums["p2p", "MPI_Recv"], "5")
    same(sums["p2p", "MPI_Send"], "3", "calls whose bytes are known")
    same(sums["coll_recv", "MPI_Allgather"], "1")


@test
def pointers_as_handles():
    check_linked("openmpi")


@test
def numbers_as_handles():
    check_linked("mpich")


@test
def handles_of_the_standard():
    check_linked("standard")


@test
def functions_that_are_looked_up():
    """RTLD_LOCAL and dlsym: a name that nobody has is not found because of us."""
    for abi in ABIS:
        bare = subprocess.run([app("-finds", abi)], stdout=subprocess.PIPE).stdout
        got = profile("finds-" + abi, app("-finds", abi))
        same(got.out, bare)
        check_app_calls("finds-%s.wsrep" % abi)


def find_on_page(base, name, report=0):
    """The events of this name in the first row that has any; the page reads rows as it goes."""
    asked = "events?r=%d&" % report + "lanes=%d&t0=0&t1=1000000000000&limit=1000&sort=start"
    for lane in range(1000):
        try:
            events = ask_page(base, asked % lane)["events"]
        except urllib.error.HTTPError:  # there is no such row
            return []
        found = [event for event in events if event["name"] == name]
        if found:
            return found
    return []


def wait_for(ask):
    """What `ask` gives once that is not empty; a minute is enough for any machine."""
    for _ in range(600):
        found = ask()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("nothing after a minute")


@test
def message_leads_to_its_receive():
    profile("seen", app("", "openmpi"))
    with shown("seen.wsrep") as base:
        sends = wait_for(lambda: find_on_page(base, "MPI_Send"))
        spot = "event?lane=%d&level=%d&event=%d"
        here = spot % tuple(sends[0][k] for k in ("lane", "level", "event"))
        links = wait_for(lambda: ask_page(base, here)["links"])
        same([(link["role"], link["name"]) for link in links], [("flow_to", "MPI_Recv")])
        there = spot % tuple(links[0][k] for k in ("lane", "level", "event"))
        links = wait_for(lambda: ask_page(base, there)["links"])
        same([(link["role"], link["name"]) for link in links], [("flow_from", "MPI_Send")])


@test
def wait_for_a_request_counts():
    """A message waits in the MPI_Wait of its request, not in MPI_Irecv."""
    for abi in ABIS:
        report = "waits-%s.wsrep" % abi
        profile(report, app("", abi), "waits")
        rows = {row[8]: row for row in read_messages(report)}
        waits = query(
            report,
            "SELECT end - start ns FROM MPI_START_WAIT_EVENTS e JOIN StringIds n ON n.id = textId"
            " WHERE n.value = 'MPI_Wait' ORDER BY start",
        )
        same([row[11:] for row in (rows["21"], rows["22"])], [["MPI_Send", "MPI_Irecv"]] * 2)
        late = int(rows["21"][4])
        same(0 < late <= waits[0]["ns"], True, (late, waits))
        same(rows["22"][4], "0", "its message was there")


@test
def rank_that_no_launcher_tells():
    os.environ["STANDIN_WORLD"] = "3"
    profile("ranked", app("", "mpich"), "dies", code=128 + signal.SIGKILL)
    del os.environ["STANDIN_WORLD"]
    rows = query("ranked.wsrep", "SELECT rank, worldSize w FROM WARPSIGHT_RANK")
    same([list(row.values()) for row in rows], [[0, 3]])


@test
def call_that_does_not_return():
    profile("dies", app("", "mpich"), "dies", code=128 + signal.SIGKILL)
    same(
        read_calls("dies.wsrep"),
        [("MPI_OTHER_EVENTS", "MPI_Init", {}), ("MPI_P2P_EVENTS", "MPI_Send", {"open": True})],
    )


@test
def call_that_is_left_by_a_jump():
    said = profile("jumps", app("", "mpich"), "jumps", options=("--mpi-impl=openmpi",)).err
    same("--mpi-impl=openmpi: the program uses MPICH" in said, True, said)
    calls = [call for call in read_calls("jumps.wsrep") if call[1] == "MPI_Send"]
    same(calls[0][2], {"tag": 8, "remoteRank": 0, "size": 2})
    same(len(calls), 5)


@test
def sizes_in_a_status():
    """More than fits in 32 bits, beside MPICH's mark of a cancelled message; and none."""
    for abi in ABIS:
        report = "huge-%s.wsrep" % abi
        profile(report, app("", abi), "huge")
        got = [call[2] for call in read_calls(report) if call[1] == "MPI_Recv"]
        same([(call["remoteRank"], call["size"]) for call in got[:2]], [(0, 2**32 + 8), (-1, 0)])


def list_storm(messages):
    """(function, tag, size) of each call of mpi_app.c's storm."""
    for i in range(messages):
        tag, size = i if i % 40 == 0 else 5, i // 4 % 5 + 1
        yield from [("MPI_Send", tag, size), ("MPI_Recv", tag, size)]
        if i % 1000 == 0:
            yield "MPI_Allreduce", None, 16


def read_storm(report):
    """[(function, tag, size, start, end)] of each thread, in their order."""
    threads = collections.defaultdict(list)
    for row in query(
        report,
        "SELECT s.globalTid t, n.value n, json_extract(a.value, '$.tag') tag,"
        " json_extract(a.value, '$.size') size, s.start, s.end FROM WARPSIGHT_SLICE s"
        " JOIN StringIds n ON n.id = s.nameId LEFT JOIN StringIds a ON a.id = s.argsId"
        " WHERE n.value NOT IN ('MPI_Init', 'MPI_Finalize') ORDER BY s.globalTid, s.start, s.end",
    ):
        threads[row["t"]].append([row[k] for k in ("n", "tag", "size", "start", "end")])
    return list(threads.values())


def check_storm(calls, messages):
    """Each call is there with its values, in the order of the program, and none overlaps."""
    same([tuple(call[:3]) for call in calls], list(list_storm(messages)))
    ends = [call[4] for call in calls]
    same([i for i in range(len(calls)) if calls[i][3] > ends[i]], [], "ends before it starts")
    same([i for i in range(1, len(calls)) if calls[i][3] < ends[i - 1]], [], "overlaps")


def was_dense(report):
    said = query(report, "SELECT text FROM DIAGNOSTIC_EVENT")
    return any("followed one another so fast" in row["text"] for row in said)


MESSAGES = 20000


@test
def storm_of_calls():
    """Calls too fast for two readings of the clock each: what was called stays exact."""
    for abi in ABIS:
        report = "storm-%s.wsrep" % abi
        profile(report, app("", abi), "storm", str(MESSAGES))
        same(was_dense(report), True)
        (calls,) = read_storm(report)
        check_storm(calls, 2 * MESSAGES)
        # the pause lies between the two calls that it lay between
        gaps = [calls[i][3] - calls[i - 1][4] for i in range(1, len(calls))]
        first = len(list(list_storm(MESSAGES)))
        same(gaps[first - 1] >= 250_000_000, True, gaps[first - 1])
        same(len(read_messages(report)), 2 * MESSAGES, "each send has its receive")


@test
def storm_with_all_times():
    report = "storm-lossless.wsrep"
    profile(report, app("", "mpich"), "storm", "500", options=("--lossless",))
    same(was_dense(report), False)
    check_storm(read_storm(report)[0], 1000)


@test
def storm_that_ends():
    """Calls that were collected and not yet written are there after a kill, once."""
    for messages in (MESSAGES, MESSAGES + 7):
        killed = 128 + signal.SIGKILL
        report = "storm-dies-%d.wsrep" % messages
        profile(report, app("", "openmpi"), "storm-dies", str(messages), code=killed)
        same(was_dense(report), True)
        (calls,) = read_storm(report)
        check_storm(calls, 2 * messages)
        report = "storm-hangs-%d.wsrep" % messages
        profile(report, app("", "mpich"), "storm-hangs", str(messages), code=killed)
        (calls,) = read_storm(report)
        check_storm(calls[:-1], 2 * messages)
        same(calls[-1][0::4], ["MPI_Send", None], "the call that did not return")
        same(calls[-1][3] >= calls[-2][4], True)


@test
def storm_in_both_after_a_fork():
    profile("storm-forks.wsrep", app("", "mpich"), "storm-forks", str(MESSAGES))
    threads = read_storm("storm-forks.wsrep")
    same(len(threads), 2)
    for calls in threads:
        wanted = 2 * MESSAGES if len(calls) > 3 * MESSAGES else MESSAGES
        check_storm(calls, wanted)


@test
def library_that_is_not_there():
    got = profile("without", "sh", "-c", "exit 3", code=3)
    same("No call of MPI was recorded" in got.err, True, got.err)


@test
def library_inside_the_program():
    got = profile("static", os.path.join(BUILT, "mpi-app-static"))
    same("linked into" in got.err and "mpi-app-static" in got.err, True, got.err)
    # of an archive, only what the program needs is linked: here no ucp_init, no shmem_init
    got = profile("static-2", os.path.join(BUILT, "others-app-static"), trace="ucx,oshmem")
    same(got.err.count("others-app-static statically"), 2, got.err)
    profile("silent", "/bin/true", trace="nccl,tensorrt,nvshmem,openmp,openacc")
    said = query("silent.wsrep", "SELECT text FROM DIAGNOSTIC_EVENT")
    names = ("NCCL", "TensorRT", "NVSHMEM", "OpenMP", "OpenACC")
    for name in names:
        same(sum(name + " was recorded: no program" in row["text"] for row in said), 1, name)
    same("No call of MPI" in got.err, False, got.err)


@test
def ucx_and_openshmem():
    app_path = os.path.join(BUILT, "others-app")
    bare = subprocess.run([app_path], stdout=subprocess.PIPE).stdout
    got = profile("others", app_path, trace="ucx,oshmem")
    same(got.out, bare)
    calls = read_calls("others.wsrep")
    for _, _, kept in calls:
        kept.pop("worker", None)
        kept.pop("bufferAddr", None)
    submit = "UCP_SUBMIT_EVENTS"
    want = [
        ("UCP_EVENTS", "ucp_worker_create", {}),
        (submit, "ucp_tag_send_nbx", {"packedSize": 5, "tag": 1, "endpoint": 0}),
        (submit, "ucp_tag_send_nbx", {"packedSize": 16, "tag": 2**64 - 1, "endpoint": 0}),
        (submit, "ucp_tag_send_nbx", {"packedSize": 17, "tag": 3, "endpoint": 0}),
        (submit, "ucp_tag_send_nbx", {"packedSize": 17, "tag": 99, "endpoint": 0, "error": -3}),
        (submit, "ucp_put_nbi", {"packedSize": 16, "endpoint": 0}),
    ]
    want += [("UCP_PROGRESS_EVENTS", "ucp_worker_progress", {"events": 1})] * 3
    want += [
        ("OSHMEM_EVENTS", "shmem_int_put", {"pe": 3, "bytes": 16}),
        ("OSHMEM_EVENTS", "shmem_double_p", {"pe": 2, "bytes": 8}),
        ("OSHMEM_EVENTS", "shmem_float_g", {"pe": 1, "bytes": 4}),
        ("OSHMEM_EVENTS", "shmem_barrier_all", {}),
        ("OSHMEM_EVENTS", "shmem_barrier_all", {}),
    ]
    same(calls, want)
    rows = query("others.wsrep", "SELECT sum(packedSize) n FROM UCP_SUBMIT_EVENTS")
    same(rows[0]["n"], 71)
    same(len(query("others.wsrep", "SELECT workerUid FROM UCP_WORKERS")), 1)


@test
def nvshmem_is_asked_to_say_its_calls():
    got = profile("nvshmem", "sh", "-c", "echo $NVSHMEM_NVTX", trace="nvshmem")
    same(got.out, b"common\n")
    os.environ["NVSHMEM_NVTX"] = "init"
    got = profile("nvshmem-own", "sh", "-c", "echo $NVSHMEM_NVTX", trace="nvshmem")
    del os.environ["NVSHMEM_NVTX"]
    same(got.out, b"init\n", "the user's own value stays")


@test
def layout_of_ucx():
    if not os.path.exists("/usr/include/ucp/api/ucp.h") or not shutil.which("cc"):
        raise Skip("the headers of UCX are not installed")
    with open("layout.c", "w") as out:
        out.write(
            "#include <stddef.h>\n#include <ucp/api/ucp.h>\n"
            '_Static_assert(offsetof(ucp_request_param_t, datatype) == 24, "");\n'
            '_Static_assert(UCP_OP_ATTR_FIELD_DATATYPE == 8, "");\n'
            '_Static_assert(UCP_DATATYPE_SHIFT == 3 && UCP_DATATYPE_IOV == 2, "");\n'
            '_Static_assert(offsetof(ucp_dt_iov_t, length) == 8, "");\n'
        )
    got = subprocess.run(["cc", "-c", "layout.c", "-o", "layout.o"], stderr=subprocess.PIPE)
    same((got.returncode, got.stderr), (0, b""))


@test
def declarations_with_mistakes():
    cases = {
        "title x\nint f(int a)\n": "needs the table",
        "files x\ntable X_EVENTS start\n\nint f(int a\n": "a bracket is not closed",
        "files x\ntable X_EVENTS start\nin Y\n": "no table Y",
        "files x\ntable X_EVENTS start\n\nin X_EVENTS\nint f(int a)\n\tb:Q = a\n": "'Q' is neither",
        "files x\ntable X_EVENTS start\n\nin X_EVENTS\nint f(int a)\nint f(int a)\n": "twice",
        "table X_EVENTS start\n\nin X_EVENTS\nint f(int a)\n": "names of its files",
    }
    for text, message in cases.items():
        with open("wrong.calls", "w") as out:
            out.write(text)
        got = subprocess.run(
            [sys.executable, MAKER, ".", "wrong.calls"], stderr=subprocess.PIPE, text=True
        )
        same((got.returncode, message in got.stderr), (1, True), got.stderr)


# ---- the real ones ----


def find_mpi(abi, compiler="mpicc"):
    compiler, launcher = shutil.which(compiler + "." + abi), shutil.which("mpirun." + abi)
    if not compiler or not launcher:
        raise Skip("%s is not installed" % abi)
    return compiler, launcher


def compile_with(compiler, source, program):
    command = [compiler, "-w", os.path.join(HERE, source), "-o", program]
    got = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    same(got.returncode, 0, got.stderr)


def read_figures(report):
    """{name: (calls, bytes sent, bytes received)} of all ranks."""
    figures = collections.defaultdict(lambda: (0, 0, 0))
    for _, name, kept in read_calls(report):
        calls, size, received = figures[name]
        figures[name] = (calls + 1, size + kept.get("size", 0), received + kept.get("recvSize", 0))
    return dict(figures)


def check_ranks(abi):
    compiler, launcher = find_mpi(abi)
    compile_with(compiler, "ranks.c", "ranks-" + abi)
    profile("ranks-" + abi, launcher, "-n", "4", "./ranks-" + abi, "10")
    report = "ranks-%s.wsrep" % abi
    want = {
        "MPI_Init": (4, 0, 0),
        "MPI_Send": (40, 40 * 8, 0),
        "MPI_Recv": (40, 40 * 8, 0),
        "MPI_Comm_split": (4, 0, 0),
        "MPI_Allreduce": (40, 40 * 128, 40 * 128),
        "MPI_Bcast": (4, 2 * 128, 2 * 128),
        "MPI_Gather": (4, 4 * 16, 64),
        "MPI_Irecv": (4, 400, 0),
        "MPI_Isend": (4, 64, 0),
        "MPI_Waitall": (4, 0, 0),
        "MPI_Sendrecv": (4, 32, 32),
        "MPI_Finalize": (4, 0, 0),
    }
    same(read_figures(report), want)
    messages = read_messages(report)
    same(len(messages), 40 + 4 + 4, "each message has both sides")
    pairs = collections.Counter((row[6], row[7]) for row in messages if row[8] == "7")
    same(pairs, {("0", "1"): 10, ("1", "0"): 10, ("2", "3"): 10, ("3", "2"): 10})
    ranks = query(report, "SELECT rank FROM MPI_RANKS ORDER BY rank")
    same([row["rank"] for row in ranks], [0, 1, 2, 3])
    halves = query(
        report, "SELECT members, size, groupRootUid u, count(*) n FROM MPI_COMMUNICATORS GROUP BY 1"
    )
    same(
        [list(row.values()) for row in halves],
        [["0,2", 2, 0, 2], ["0-3", 4, 0, 4], ["1,3", 2, 0, 2]],
    )
    peers = query(
        report,
        "SELECT r.rank r, e.remoteRank p, count(*) n FROM MPI_P2P_EVENTS e JOIN MPI_RANKS r ON"
        " r.globalTid >> 24 = e.globalTid >> 24 WHERE e.tag = 7 GROUP BY 1, 2 ORDER BY 1",
    )
    same([list(row.values()) for row in peers], [[i, i ^ 1, 20] for i in range(4)])
    check_waits(report)


@test
def ranks_of_open_mpi():
    check_ranks("openmpi")


def read_documented_sql():
    """The statement of docs/libraries.md that joins the messages of two reports."""
    page = open(os.path.join(HERE, "../../docs/libraries.md")).read()
    start = page.index("    WITH message AS (")
    return page[start : page.index("\n\n", start)]


def check_waits(*reports):
    """What `analyze` says of ranks, in a report each or in one."""
    answer = json.loads(run("analyze", "-f", "json", *reports).out)[-1]
    same(answer["collectives"], 10, "what all have to reach")
    ranks = sorted(answer["ranks"], key=lambda rank: rank["rank"])
    same([rank["rank"] for rank in ranks], [0, 1, 2, 3])
    same([rank["messages_sent"] for rank in ranks], [12] * 4)
    same([rank["messages_received"] for rank in ranks], [12] * 4)


@test
def messages_between_reports():
    compiler, launcher = find_mpi("openmpi")
    compile_with(compiler, "ranks.c", "ranks-apart")
    inner = ["profile", "-q", "-t", "mpi", "-s", "none", "-o", "apart%q{OMPI_COMM_WORLD_RANK}"]
    command = [launcher, "-n", "4", PROGRAM, *inner, "./ranks-apart", "10"]
    got = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    same(got.returncode, 0, got.stderr)
    sql = read_documented_sql()
    rows = json.loads(run("query", "-f", "json", "--together", sql, "apart0", "apart1").out)
    pairs = collections.Counter((r["from"], r["to"], r["size"]) for r in rows if r["tag"] == 7)
    same(pairs, {(0, 1, 8): 10, (1, 0, 8): 10})
    reports = ["apart%d.wsrep" % i for i in range(4)]
    same(len(read_messages(*reports)), 40 + 4 + 4, "each message has both sides")
    for i, report in enumerate(reports):
        others = [other for other in reports if other != report]
        of_this = [row for row in read_messages(report, *others) if row[6] == str(i)]
        same(len(of_this), 10 + 1 + 1)
    same(read_messages("apart0.wsrep", "apart0.wsrep"), [], "not of one job")
    check_waits(*reports)
    two_jobs = json.loads(run("analyze", "-f", "json", "apart0.wsrep", "apart0.wsrep").out)
    same(len(two_jobs), 2, "the same rank twice is of two jobs")
    check_links_between(reports[:2])


def check_links_between(reports):
    with shown(*reports) as base:
        for report, role in enumerate(("flow_to", "flow_from")):
            name = ("MPI_Send", "MPI_Recv")[report]
            calls = wait_for(lambda: find_on_page(base, name, report))
            same(len(calls), 10)
            spot = tuple(calls[-1][k] for k in ("lane", "level", "event"))
            asked = "event?r=%d&lane=%d&level=%d&event=%d" % (report, *spot)
            links = wait_for(lambda: ask_page(base, asked)["links"])
            same([(link["role"], link["report"]) for link in links], [(role, 1 - report)])


@test
def ranks_of_mpich():
    check_ranks("mpich")


def storm_to_itself(abi):
    """Thousands of calls of one rank, with types that are freed and whose handles come again."""
    compiler, launcher = find_mpi(abi)
    compile_with(compiler, "itself.c", "itself-" + abi)
    rounds = 3000
    for options, dense in ((), True), (("--lossless",), False):
        report = "itself-%s-%s.wsrep" % (abi, dense)
        profile(report, launcher, "-n", "1", "./itself-" + abi, str(rounds), options=options)
        same(was_dense(report), dense)
        sent = sum(8 + 8 * (i // 100 % 5 + 1) for i in range(rounds))
        figures = read_figures(report)
        same(figures["MPI_Sendrecv"], (2 * rounds, sent, sent))
        same(figures["MPI_Allreduce"], (rounds, 16 * rounds, 16 * rounds))
        sizes = [kept["size"] for _, name, kept in read_calls(report) if name == "MPI_Sendrecv"]
        same(sizes[1::2], [8 * (i // 100 % 5 + 1) for i in range(rounds)])


@test
def storm_of_open_mpi():
    storm_to_itself("openmpi")


@test
def storm_of_mpich():
    storm_to_itself("mpich")


@test
def ranks_in_fortran():
    tested = 0
    for abi in ABIS:
        if not shutil.which("mpifort." + abi) or not shutil.which("gfortran"):
            continue
        compiler, launcher = find_mpi(abi, "mpifort")
        compile_with(compiler, "ranks.f90", "fortran-" + abi)
        profile("fortran-" + abi, launcher, "-n", "2", "./fortran-" + abi)
        want = {
            "MPI_Init": (2, 0, 0),
            "MPI_Send": (10, 320, 0),
            "MPI_Recv": (10, 320, 0),
            "MPI_Allreduce": (2, 64, 64),
            "MPI_Finalize": (2, 0, 0),
        }
        same(read_figures("fortran-%s.wsrep" % abi), want)
        tested += 1
    if not tested:
        raise Skip("no MPI for Fortran is installed")


@test
def short_between_messages():
    """What a message waits for: instructions of ours between a receive and the send after it. Where
    the recorder looks at the bunch of calls just then, a new one is begun, which takes more.
    """
    for abi in ABIS:
        for _ in range(3):
            app_steps = os.path.join(BUILT, "steps-app-" + abi)
            got = profile("steps-%s.wsrep" % abi, app_steps, options=("-f",))
            added, dense = map(int, got.out.split())
            if dense <= 110:
                break
        if not added:
            raise Skip("the processor does not step through programs here")
        assert added <= 200, (abi, added)
        assert dense <= 110, (abi, dense)


@test
def constants_of_both():
    source = open(os.path.join(HERE, "../../src/inject/mpi.c")).read()
    tested = 0
    for abi in ABIS:
        if not shutil.which("mpicc." + abi):
            continue
        compile_with(shutil.which("mpicc." + abi), "constants.c", "constants-" + abi)
        said = subprocess.run(["./constants-" + abi], stdout=subprocess.PIPE, check=True).stdout
        name = {"openmpi": "open_mpi", "mpich": "mpich"}[abi]
        ours = re.search(r"struct ws_mpi_abi %s = \{(.*?)\};" % name, source, re.S).group(1)
        ours = dict(re.findall(r"\.(\w+) = (-?\d+)", ours))
        theirs = dict(line.split() for line in said.decode().splitlines())
        named = theirs.pop("named")
        if abi == "openmpi":
            same(re.search(r"OPEN_MPI_NAMED = (\d+)", source).group(1), named)
        same(ours, theirs, abi)
        tested += 1
    if not tested:
        raise Skip("no MPI is installed")


if __name__ == "__main__":
    sys.exit(main())
