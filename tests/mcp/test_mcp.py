#!/usr/bin/env python3
"""Whole-command tests of mcp: test_mcp.py WARPSIGHT. A client's side of the Model Context Protocol
over pipes, with reports made of traces that are written here. Prints TAP.
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import PROGRAM, main, refused, run, same, test


def make_report(name, launches=100):
    """Ten steps of a loop whose kernels take less time than their launches."""
    events, now = [], 1000.0

    def span(what, cat, ts, dur, pid, tid, **args):
        events.append(dict(ph="X", name=what, cat=cat, ts=ts, dur=dur, pid=pid, tid=tid, args=args))

    for step in range(10):
        start = now
        for _ in range(launches):
            link = len(events) + 1
            span("cudaLaunchKernel", "cuda_runtime", now, 5, 10, 10, correlation=link)
            shape = dict(grid=[1000, 1, 1], block=[256, 1, 1], device=0, stream=7)
            span("tiny", "kernel", now + 7, 2, 0, 7, correlation=link, **shape)
            now += 10
        link = len(events) + 1
        span("cudaDeviceSynchronize", "cuda_runtime", now, 5, 10, 10, correlation=link)
        now += 5
        span("ProfilerStep#%d" % step, "user_annotation", start, now - start, 10, 10)
    with open(name + ".json", "w") as file:
        json.dump({"schemaVersion": 1, "traceEvents": events}, file)
    run("import", "-q", "-f", "-o", name + ".wsrep", name + ".json")
    return name + ".wsrep"


def make_rank(rank, compute, transfer):
    """Ten steps of a rank: a kernel, and an all-reduce that ends with that of the other rank."""
    events, now = [], 1000.0
    collective = {"Collective name": "allreduce", "Process Group Name": "0", "Group size": 2}
    collective.update({"In msg nelems": 8, "Out msg nelems": 8, "dtype": "Float"})
    kernels = ("gemm", compute, {}), ("ncclDevKernel_AllReduce_Sum_f32", transfer, collective)
    for step in range(10):
        start = now
        for name, length, args in kernels:
            link = len(events) + 1
            of_call = dict(ph="X", cat="cuda_runtime", name="cudaLaunchKernel", ts=now, dur=5)
            events.append(dict(of_call, pid=10, tid=10, args=dict(correlation=link)))
            args = dict(args, correlation=link, device=0, stream=7)
            kernel = dict(ph="X", cat="kernel", name=name, ts=now + 7, dur=length, pid=0, tid=7)
            events.append(dict(kernel, args=args))
            now += length + 10
        name = "ProfilerStep#%d" % step
        of_step = dict(ph="X", cat="user_annotation", name=name, ts=start, dur=now - start)
        events.append(dict(of_step, pid=10, tid=10))
    of_job = {"backend": "nccl", "rank": rank, "world_size": 2}
    with open("rank%d.json" % rank, "w") as file:
        json.dump({"schemaVersion": 1, "distributedInfo": of_job, "traceEvents": events}, file)
    run("import", "-q", "-f", "-o", "rank%d.wsrep" % rank, "rank%d.json" % rank)
    return os.path.abspath("rank%d.wsrep" % rank)


class Client:
    """A server and what is said to it."""

    def __init__(self, *args, version="2025-06-18"):
        self.last = 0
        self.process = subprocess.Popen(
            [PROGRAM, "mcp", *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.hello = None
        if version:
            self.hello = self.ask(
                "initialize", protocolVersion=version, capabilities={}, clientInfo={}
            )["result"]
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        text = message if isinstance(message, str) else json.dumps(message)
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def read(self):
        return json.loads(self.process.stdout.readline())

    def ask(self, method, **params):
        self.last += 1
        message = {"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}
        self.send(message)
        answer = self.read()
        same((answer["jsonrpc"], answer["id"]), ("2.0", self.last))
        return answer

    def call(self, tool, **arguments):
        """What the tool answers, which is JSON."""
        result = self.ask("tools/call", name=tool, arguments=arguments)["result"]
        same(result["isError"], False, result)
        return json.loads(result["content"][0]["text"])

    def fail(self, tool, *words, **arguments):
        result = self.ask("tools/call", name=tool, arguments=arguments)["result"]
        same(result["isError"], True, result)
        for word in words:
            if word not in result["content"][0]["text"]:
                raise AssertionError("%r is not in %r" % (word, result))

    def end(self):
        """The server ends with its input, and has said nothing else."""
        self.process.stdin.close()
        same(self.process.stdout.read(), b"")
        same(self.process.wait(), 0)


def code_of(answer):
    return answer["error"]["code"]


@test
def versions_are_negotiated():
    for asked, got in (
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("1999-01-01", "2025-06-18"),
    ):
        client = Client(version=asked)
        same(client.hello["protocolVersion"], got)
        same(client.hello["capabilities"], {"tools": {"listChanged": False}})
        same(client.hello["serverInfo"]["name"], "warpsight")
        client.end()


@test
def nothing_but_ping_comes_before_initialize():
    client = Client(version=None)
    same(client.ask("ping")["result"], {})
    same(code_of(client.ask("tools/list")), -32002)
    same(code_of(client.ask("initialize")), -32602)
    client.end()


@test
def tools_are_listed_with_schemas():
    client = Client()
    tools = client.ask("tools/list")["result"]["tools"]
    names = {tool["name"] for tool in tools}
    same(names >= {"open", "info", "findings", "query", "stats", "compare"}, True, names)
    for tool in tools:
        schema = tool["inputSchema"]
        same((schema["type"], schema["additionalProperties"]), ("object", False))
        same(set(schema["required"]) <= set(schema["properties"]), True, tool)
        for argument in schema["properties"].values():
            same(argument["type"] in ("string", "integer"), True, argument)
            same(bool(argument["description"]), True)
        same(tool["annotations"]["readOnlyHint"], True)
    client.end()


@test
def ranks_are_compared():
    paths = [make_rank(0, 2000, 2500), make_rank(1, 4000, 500)]
    client = Client()
    ids = [client.call("open", path=path)["report"] for path in paths]
    found = client.call("ranks", reports=",".join(ids))
    same([f["rule"] for f in found["findings"]], ["late-rank"])
    same([r["waiting_for_ranks_ns"] for r in found["ranks"]], [2000000, 0])
    same(found, json.loads(run("analyze", "-f", "json", *paths).out)[-1])
    client.fail("ranks", "no collectives or messages", reports=ids[0])
    client.fail("ranks", "r9", reports=ids[0] + ",r9")
    client.end()


@test
def reports_are_opened_and_asked():
    path = make_report("loop")
    client = Client()
    opened = client.call("open", path=path)
    same((opened["report"], opened["complete"]), ("r1", True))
    same(client.call("open", path=os.path.abspath(path))["report"], "r1", "again")
    info = client.call("info", report="r1")
    rows = {table["name"]: table["rows"] for table in info["tables"]}
    same((rows["CUPTI_ACTIVITY_KIND_KERNEL"], info["lost_events"]), (1000, 0))
    found = client.call("findings", report="r1")
    same(found, json.loads(run("analyze", "-f", "json", os.path.abspath(path)).out)[0])
    same(found["findings"][0]["id"], "launch-bound")
    few = client.call("findings", report="r1", rules="gil,sleeping")
    same([f["rule"] for f in few["findings"] if f["rule"] == "launch-bound"], [])
    same(client.call("explain", rule="launch-bound")["rule"], "launch-bound")
    listed = {table["name"] for table in client.call("schema", report="r1")["tables"]}
    same("CUPTI_ACTIVITY_KIND_KERNEL" in listed, True, listed)
    schema = client.call("schema", report="r1", table="CUPTI_ACTIVITY_KIND_KERNEL")["schema"]
    same(schema.startswith("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL"), True, schema)
    same(client.call("close", report="r1")["closed"], True)
    client.fail("info", "r1", report="r1")
    same(client.call("open", path=path)["report"], "r2", "ids are not used again")
    client.end()


@test
def queries_have_limits():
    client = Client(make_report("limits"))
    same("r1 is" in client.hello["instructions"], True, client.hello)
    kernels = "SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL"
    got = client.call("query", report="r1", sql=kernels)
    same((len(got["results"][0]["rows"]), got["truncated"]), (100, True))
    got = client.call("query", report="r1", sql=kernels, limit=5000)
    same((len(got["results"][0]["rows"]), got["truncated"]), (1000, False))
    got = client.call("query", report="r1", sql="SELECT 1 AS a, 'x' AS b, NULL; SELECT 1 << 60")
    same(got["results"][0], {"columns": ["a", "b", "NULL"], "rows": [[1, "x", None]]})
    same(got["results"][1]["rows"], [["1152921504606846976"]])
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT sum(i) FROM n"
    client.fail("query", "longer than 1 s", report="r1", sql=endless, timeout=1)
    client.fail("query", "too big", report="r1", sql="SELECT length(zeroblob(2000000000))")
    for writing in ("CREATE TABLE t(a)", "ATTACH 'x.db' AS x", "PRAGMA journal_mode=wal"):
        client.fail("query", report="r1", sql=writing)
    same(os.path.exists("x.db"), False)
    client.end()


@test
def statistics_come_as_rows():
    client = Client(make_report("rows"))
    same("cuda_gpu_kern_sum" in str(client.call("stats", report="r1")["reports"]), True)
    got = client.call("stats", report="r1", name="cuda_gpu_kern_sum")
    row = dict(zip(got["table"]["columns"], got["table"]["rows"][0]))
    same((row["Name"], row["Instances"], row["Total Time (ns)"]), ("tiny", 1000, 2_000_000))
    got = client.call("stats", report="r1", name="cuda_gpu_trace", limit=7)
    same((len(got["table"]["rows"]), got["truncated"]), (7, True))
    got = client.call("stats", report="r1", name="osrt_sum")
    same((got["table"]["rows"], bool(got["why_empty"])), ([], True))
    client.fail("stats", "no_such", report="r1", name="no_such")
    client.fail("stats", report="r1", name="cuda_gpu_kern_sum", time="late")
    client.end()


@test
def runs_are_compared():
    paths = [make_report("base"), make_report("slower", launches=150)]
    client = Client(*paths)
    got = client.call("compare", base="r1", new="r2")
    same(got, json.loads(run("diff", "-f", "json", *map(os.path.abspath, paths)).out))
    client.fail("compare", "r7", base="r1", new="r7")
    client.fail("compare", base=" ,", new="r2")
    client.end()


@test
def bad_calls_are_said_and_the_server_goes_on():
    client = Client()
    client.fail("open", "no-such-file.wsrep", path="no-such-file.wsrep")
    client.fail("open", "missing")
    client.fail("open", "string", path=7)
    client.fail("open", "no argument", path="x", colour="red")
    client.fail("query", "from 1 to", report="r1", sql="SELECT 1", limit=0)
    client.fail("explain", "no-such", rule="no-such")
    os.mkfifo("pipe")
    client.fail("open", "not a file", path="pipe")
    same(code_of(client.ask("tools/call", name="delete")), -32602)
    same(code_of(client.ask("resources/list")), -32601)
    client.send("{")
    same(code_of(client.read()), -32700)
    client.send("[]")
    same(code_of(client.read()), -32600)
    client.send('{"jsonrpc":"2.0","id":null,"method":"ping"}')
    same(code_of(client.read()), -32600)
    client.send("x" * 3_000_000)
    same(code_of(client.read()), -32600)
    client.send({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "open"}})
    client.send({"jsonrpc": "2.0", "id": 1, "result": {}})
    client.send("")
    same(client.ask("ping")["result"], {}, "notifications and answers are not answered")
    client.end()


@test
def batches_are_answered_where_the_revision_has_them():
    ping = {"jsonrpc": "2.0", "id": "a", "method": "ping"}
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    client = Client(version="2025-03-26")
    client.send([ping, note, dict(ping, id="b")])
    same([answer["id"] for answer in client.read()], ["a", "b"])
    client.send([note])
    same(client.ask("ping")["result"], {})
    client.end()
    client = Client(version="2025-06-18")
    client.send([ping])
    same(code_of(client.read()), -32600)
    client.end()


@test
def files_are_kept_to_folders_and_traces_are_not_imported():
    path = os.path.abspath(make_report("inside"))
    os.mkdir("allowed")
    os.link(path, "allowed/ours.wsrep")
    os.symlink(path, "allowed/theirs.wsrep")
    client = Client("--root=allowed")
    same(client.call("open", path="allowed/ours.wsrep")["report"], "r1")
    client.fail("open", "--root", path=path)
    client.fail("open", "--root", path="allowed/../inside.wsrep")
    client.fail("open", "--root", path="allowed/theirs.wsrep")
    client.end()
    client = Client()
    client.fail("open", "inside.json", path="inside.json")
    client.end()
    refused("mcp", "--root=nowhere", words=["--root", "nowhere"], code=2)
    refused("mcp", "nothing.wsrep", words=["nothing.wsrep"], code=1)


@test
def what_the_program_named_is_only_text():
    name = 'a"\\\x01\u202e</script>\U0001f600'
    span = dict(ph="X", cat="cpu_op", ts=1, dur=1, pid=1, tid=1)
    with open("named.json", "w") as file:
        json.dump({"schemaVersion": 1, "traceEvents": [dict(span, name=name)]}, file)
    run("import", "-q", "-f", "-o", "named.wsrep", "named.json")
    client = Client("named.wsrep")
    got = client.call("query", report="r1", sql="SELECT value FROM StringIds", limit=10000)
    same([name] in got["results"][0]["rows"], True, got)
    client.end()


if __name__ == "__main__":
    main()
