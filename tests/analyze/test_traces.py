#!/usr/bin/env python3
"""Whole-command tests of analyze on traces, and of its options: test_traces.py WARPSIGHT.

Traces of GPU programs with one fault each are made as PyTorch's profiler writes them; the fault
must be what is named first. Prints TAP.
"""
import csv
import html.parser
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, HERE)
from findings import check_sums, first_fault, read_findings
from tap import main, run, same, test


# ---- programs on the GPU: traces as PyTorch's profiler writes them ----


class Trace:
    """Calls of one thread and work of one GPU; times are microseconds."""

    def __init__(self):
        self.events, self.now, self.gpu, self.correlation = [], 1000.0, 1000.0, 0
        self.thread = 10

    def span(self, name, cat, ts, dur, pid, tid, **args):
        self.events.append(
            {
                "ph": "X",
                "name": name,
                "cat": cat,
                "ts": round(ts, 3),
                "dur": round(dur, 3),
                "pid": pid,
                "tid": tid,
                "args": args,
            }
        )

    def launch(self, name, gpu_us, call="cudaLaunchKernel", call_us=5, cat="kernel", stream=7, **a):
        """A call, and the work that it launches behind what is there."""
        self.correlation += 1
        self.span(
            call, "cuda_runtime", self.now, call_us, 10, self.thread, correlation=self.correlation
        )
        self.now += call_us
        start = max(self.gpu, self.now + 2)
        self.gpu = start + gpu_us
        args = {"grid": [1000, 1, 1], "block": [256, 1, 1]} if cat == "kernel" else {}
        args.update(a, correlation=self.correlation, device=0, stream=stream)
        self.span(name, cat, start, gpu_us, 0, stream, **args)

    def wait(self, call="cudaDeviceSynchronize"):
        self.correlation += 1
        end = max(self.now + 3, self.gpu + 3)
        self.span(
            call, "cuda_runtime", self.now, end - self.now, 10, 10, correlation=self.correlation
        )
        self.now = end

    def compute(self, us):
        self.now += us

    def steps(self, count, step):
        for i in range(count):
            start = self.now
            step()
            self.span("ProfilerStep#%d" % i, "user_annotation", start, self.now - start, 10, 10)
        return self

    def write(self, name):
        with open(name, "w") as f:
            json.dump({"schemaVersion": 1, "traceEvents": self.events}, f)
        return name


def check_trace(name, trace, rule):
    report = read_findings(trace.write(name + ".json"))
    check_sums(report)
    return first_fault(report, rule)


def launch_bound_step(t):
    for _ in range(200):
        t.launch("tiny", 2)
        t.compute(5)
    t.wait()


@test
def launches_that_the_gpu_waits_for_are_named():
    t = Trace()
    found = check_trace("launches", t.steps(10, lambda: launch_bound_step(t)), "launch-bound")
    # Of 2,405 us a step 400 are the GPU's: a graph could gain about 83 %.
    if not 0.7 < found["gain_share"] < 0.9:
        raise AssertionError(found)


@test
def code_between_short_launches_is_not_launching():
    t = Trace()

    def step():
        t.span("tokenise", "cpu_op", t.now, 9000, 10, 10)
        t.compute(9000)
        for _ in range(50):
            t.launch("tiny", 2)
            t.compute(5)
        t.wait()

    found = check_trace("tokenise", t.steps(10, step), "gpu-starved")
    if "tokenise" not in found["title"] or not 0.85 < found["gain_share"] < 0.97:
        raise AssertionError(found)


@test
def pageable_copies_are_named():
    t = Trace()

    def step():
        t.launch(
            "Memcpy HtoD (Pageable -> Device)",
            3000,
            call="cudaMemcpyAsync",
            call_us=10,
            cat="gpu_memcpy",
            bytes=50_000_000,
        )
        t.launch("gemm", 5000)
        t.wait()

    found = check_trace("pageable", t.steps(10, step), "pageable-copies")
    if "500.0 MB" not in found["title"] and "450.0 MB" not in found["title"]:
        raise AssertionError(found["title"])


@test
def a_kernel_of_one_block_is_named():
    t = Trace()

    def step():
        t.launch("single_thread_sum", 4000, grid=[1, 1, 1], block=[1, 1, 1])
        t.launch("wide", 1000)
        t.wait()

    t.steps(10, step)
    path = t.write("single.json")
    with open(path) as f:
        document = json.load(f)
    document["deviceProperties"] = [
        {"id": 0, "name": "GPU", "numSms": 132, "maxThreadsPerMultiprocessor": 2048, "warpSize": 32}
    ]
    with open(path, "w") as f:
        json.dump(document, f)
    found = first_fault(read_findings(path), "small-grid")
    if "single_thread_sum" not in found["title"] or "131 of 132" not in found["title"]:
        raise AssertionError(found["title"])


@test
def waits_after_each_kernel_are_named():
    t = Trace()

    def step():
        for _ in range(40):
            t.launch("short", 20)
            t.wait("cudaStreamSynchronize")
            t.compute(10)

    check_trace("waits", t.steps(10, step), "sync-calls")


@test
def small_copies_are_named():
    t = Trace()

    def step():
        for _ in range(100):
            t.launch(
                "Memcpy HtoD (Pinned -> Device)",
                2,
                call="cudaMemcpyAsync",
                cat="gpu_memcpy",
                bytes=256,
            )
            t.compute(3)
        t.launch("gemm", 50)
        t.wait()

    found = check_trace("small-copies", t.steps(10, step), "tiny-copies")
    # Of 855 us a step, 800 are calls and the loop around them: nine tenths go with them.
    if not 0.75 < found["gain_share"] < 0.9:
        raise AssertionError(found)


@test
def memory_allocated_in_every_step_is_named():
    t = Trace()

    def call(name, us):
        t.correlation += 1
        t.span(name, "cuda_runtime", t.now, us, 10, 10, correlation=t.correlation)
        t.compute(us)

    def step():
        call("cudaMalloc", 300)
        t.launch("gemm", 200)
        t.wait()
        call("cudaFree", 400)

    check_trace("allocations", t.steps(10, step), "allocation-churn")


@test
def communication_that_nothing_hides_is_named():
    t = Trace()

    def step():
        t.launch("gemm", 3000)
        t.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 2000)
        t.wait()

    check_trace("communication", t.steps(10, step), "exposed-communication")


def write_rank(rank, compute_us, transfer_us):
    """A rank whose all-reduce ends with that of the other one."""
    t = Trace()

    def step():
        t.launch("gemm", compute_us)
        t.launch(
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            transfer_us,
            **{
                "Collective name": "allreduce",
                "Process Group Name": "0",
                "Group size": 2,
                "In msg nelems": 1000,
                "Out msg nelems": 1000,
                "dtype": "Float",
            },
        )
        t.wait()

    t.steps(10, step)
    path = "rank%d.json" % rank
    with open(path, "w") as f:
        info = {"backend": "nccl", "rank": rank, "world_size": 2}
        json.dump({"schemaVersion": 1, "distributedInfo": info, "traceEvents": t.events}, f)
    return path


def write_pair():
    return write_rank(0, 2000, 2500), write_rank(1, 4000, 500)


@test
def reports_of_one_rank_each_tell_together_who_comes_last():
    paths = write_pair()
    *reports, together = json.loads(run("analyze", "-f", "json", *paths).out)
    same(len(reports), 2)
    found = together["findings"]
    same([f["rule"] for f in found], ["late-rank"])
    same(found[0]["severity"], "critical")
    if not found[0]["title"].startswith("Rank 1 (rank1.json) comes last"):
        raise AssertionError(found)
    # In each step, rank 0 waits for 2 of the 4.5 ms.
    same(found[0]["cost_ns"], 2000000)
    same([r["waiting_for_ranks_ns"] for r in together["ranks"]], [2000000, 0])
    for form in "text", "markdown", "html":
        if "Rank 1 (rank1.json) comes last" not in run("analyze", "-f", form, *paths).out.decode():
            raise AssertionError(form)
    runs = json.loads(run("analyze", "-f", "sarif", *paths).out)["runs"]
    same(len(runs), 3, "one of each report, and one of both")
    of_both = [r for r in runs[2]["results"] if r["ruleId"] == "late-rank"]
    same([(r["level"], r["properties"]["cost_ns"]) for r in of_both], [("error", 2000000)])
    places = [of_both[0][k] for k in ("locations", "relatedLocations")]
    places = [[p["physicalLocation"]["artifactLocation"]["uri"] for p in of] for of in places]
    same(places, [["rank1.json"], ["rank0.json"]])
    same(runs[2]["properties"]["ranks_together"], together)
    same(len(json.loads(run("analyze", "-f", "json", paths[0]).out)), 1)
    alike = write_rank(0, 2000, 500), write_rank(1, 2000, 510)
    same(json.loads(run("analyze", "-f", "json", *alike).out)[-1]["findings"], [])
    run("analyze", "--fail-on", "critical", *alike)
    same(run("analyze", "--fail-on", "critical", *write_pair(), ok=False).code, 1)


@test
def a_well_overlapped_loop_has_no_fault():
    t = Trace()

    def step():
        for _ in range(10):
            t.launch("gemm", 500)
        copy = t.gpu - 3000
        t.span(
            "Memcpy HtoD (Pinned -> Device)",
            "gpu_memcpy",
            copy,
            1000,
            0,
            8,
            device=0,
            stream=8,
            bytes=20_000_000,
            correlation=10**6 + t.correlation,
        )
        t.now = max(t.now, t.gpu - 4000)  # the CPU is a step ahead

    report = read_findings(t.steps(20, step).write("overlapped.json"))
    check_sums(report)
    same([f for f in report["findings"] if f["severity"] in ("warning", "critical")], [])
    same([f["rule"] for f in report["findings"] if f["severity"] == "ok"], ["copy-overlap"])


@test
def steps_that_are_not_marked_are_found_by_their_kernels():
    t = Trace()
    for _ in range(12):
        for name in ("first", "second", "second", "third"):
            t.launch(name, 100)
        t.wait()
    report = read_findings(t.write("unmarked.json"))
    same(report["steps"]["source"], "repeated")
    if not 8 <= report["steps"]["count"] + report["steps"]["warm_up"] <= 12:
        raise AssertionError(report["steps"])


# ---- phases and slow steps ----


def check_phases(path, source, expected):
    """Microseconds a step of each phase, which add up to the window."""
    report = read_findings(path)
    phases = report["phases"]
    same(phases["source"], source)
    same(sum(phases["ns"].values()), report["window_ns"], "phases add up")
    same(phases["total_ns"], report["window_ns"], "total of the phases")
    for name, us in expected.items():
        near(phases["ns"][name] / 1e3 / phases["steps"], us, name)
    return phases


@test
def phases_that_are_marked_are_found():
    t = Trace()

    def part(name, us, kernel):
        start = t.now
        t.launch(kernel, 50)
        t.compute(us - 5)
        t.span(name, "user_annotation", start, us, 10, 10)

    def step():
        t.compute(100)  # marked by nothing
        part("load_batch", 200, "Memcpy")
        part("forward", 300, "gemm")
        start = t.now
        part("all_reduce", 50, "ncclKernel")
        t.compute(350)
        t.span("backward", "user_annotation", start, 400, 10, 10)
        part("Optimizer.step#Adam.step", 150, "other")

    path = t.steps(10, step).write("marked.json")
    found = check_phases(
        path,
        "marked",
        {
            "data": 200,
            "forward": 300,
            "backward": 350,
            "communication": 50,
            "optimiser": 150,
            "other": 100,
        },
    )
    now, then = ask(path, "phase forward*0", "phase data*0.5")
    near(now[0] - now[1], 300, "without the forward pass")
    near(then[0] - then[1], 100, "with data in half the time")
    same(
        {name: ns // found["steps"] for name, ns in found["gpu_work_ns"].items() if ns},
        {n: 50000 for n in ("data", "forward", "communication", "optimiser")},
    )


@test
def phases_are_found_where_nothing_is_marked():
    t = Trace()

    def launches(count, kernel, thread=10):
        t.thread = thread
        for _ in range(count):
            t.compute(15)
            t.launch(kernel, 10)
        t.thread = 10

    def step():
        t.compute(95)
        t.launch("Memcpy HtoD (Pageable -> Device)", 20, "cudaMemcpyAsync", cat="gpu_memcpy")
        launches(10, "gemm")
        launches(20, "gemm_backward", 11)
        launches(3, "reduce_norm")
        launches(2, "multi_tensor_apply_kernel")
        t.wait()
        t.compute(100)

    path = t.steps(10, step).write("unmarked-phases.json")
    check_phases(path, "evidence", {"data": 100, "forward": 200, "backward": 400, "optimiser": 100})
    half, none, launches = ask(path, "phase backward*0.5", "phase forward*0", "cpu*0.8")
    near(half[0] - half[1], 200, "with half the backward pass")
    near(none[0] - none[1], 200, "without the forward pass")
    near(launches[1], launches[0] * 0.8, "with less code on both threads")
    text = run("analyze", path).out.decode()
    if "Phases of a step" not in text or "backward" not in text:
        raise AssertionError(text)
    # What only launches and waits is no training loop.
    t = Trace()
    same(
        read_findings(t.steps(10, lambda: launch_bound_step(t)).write("plain.json"))["phases"], None
    )


@test
def a_slow_step_is_told_with_what_it_has_more_of():
    t, number = Trace(), iter(range(100))

    def step():
        t.launch("usual", 500)
        if next(number) == 7:
            t.launch("rare", 2000)
        t.wait()

    steps = read_findings(t.steps(12, step).write("slow.json"))["steps"]
    same(steps["slow_count"], 1)
    slow = steps["slow"][0]
    same([slow["step"], slow["more_of"], slow["what"]], [7, "computation on the GPU", "rare"])
    near(slow["more_ns"] / 1e3, 2000, "more")
    near(slow["ns"] / 1e3, 2515, "all")


# ---- what if ----


def ask(path, *changes):
    """The answers by change: microseconds of a step now and then."""
    options = [word for change in changes for word in ("--what-if", change)]
    answers = read_findings(path, *options)["what_if"]
    same([a["change"] for a in answers], list(changes))
    for answer in answers:
        same(answer["unchanged_ns"], answer["now_ns"], "without a change nothing changes")
        if not answer["assumption"]:
            raise AssertionError(answer)
    return [(a["step_now_ns"] / 1e3, a["step_then_ns"] / 1e3) for a in answers]


def near(value, expected, name):
    if abs(value - expected) > 0.02 * expected + 5:
        raise AssertionError("%s: %g instead of %g" % (name, value, expected))


@test
def a_step_bound_by_kernels_is_scheduled_again():
    t = Trace()

    def step():
        t.launch("Memcpy HtoD (Pinned -> Device)", 500, "cudaMemcpyAsync", cat="gpu_memcpy")
        t.launch("gemm", 3000)
        t.launch("relu", 1000)
        t.wait()

    path = t.steps(10, step).write("bound.json")
    expected = {
        "kernel gemm*0.5": 3015,
        "kernel gemm*0.5 + copies*0": 2515,
        "kernel e*0": 515,
        "copies*0": 4015,
        "launches*0": 4515,
        "kernel gemm*2": 7515,
        "gpu*1": 4515,
        "wait gpu*0": 4500,
    }
    for change, (now, then) in zip(expected, ask(path, *expected)):
        near(now, 4515, "now")
        near(then, expected[change], change)


@test
def a_step_bound_by_launches_is_scheduled_again():
    t = Trace()

    def step():
        t.launch("first", 5)
        t.span("prepare", "user_annotation", t.now, 500, 10, 10)
        t.compute(500)
        for _ in range(100):
            t.launch("tiny", 2)
            t.compute(5)
        t.wait()

    path = t.steps(10, step).write("launches.json")
    expected = {
        "launches*0": 1005,
        "call cudaLaunchKernel*0.5": 1255,
        "kernel tiny*0": 1510,
        "range prepare*0": 1010,
        "cpu*0.5": 755,
    }
    for change, (now, then) in zip(expected, ask(path, *expected)):
        near(now, 1510, "now")
        near(then, expected[change], change)


@test
def a_change_that_says_nothing_is_refused():
    path = any_trace()
    for change, code, words in (
        ("kernel*0.5", 2, "needs a name"),
        ("launches", 2, "FACTOR"),
        ("gpu*fast", 2, "'fast' is no factor"),
        ("kernel no_such*0", 1, "'no_such'"),
    ):
        refused = run("analyze", "--what-if", change, path, ok=False)
        same(refused.code, code, change)
        same(refused.out, b"", change)
        if words not in refused.err or "--what-if" not in refused.err:
            raise AssertionError(refused.err)


@test
def what_if_is_answered_in_all_formats():
    path = any_trace()
    for kind in ("text", "markdown", "html", "sarif"):
        text = run("analyze", "-f", kind, "--what-if", "launches*0", path).out.decode()
        if "launches" not in text or "all else" not in text:
            raise AssertionError(text)
        if kind == "sarif":
            answer = json.loads(text)["runs"][0]["properties"]["what_if"][0]
            same(answer["change"], "launches*0")


# ---- the command ----


def any_trace():
    t = Trace()
    return t.steps(10, lambda: launch_bound_step(t)).write("any.json")


@test
def the_checklist_answers_each_question():
    path = any_trace()
    checks = read_findings(path, "--checklist", "-r", "sleeping")["checklist"]
    same([c["list"] for c in checks], ["points"] * 5 + ["self-checks"] * 8)
    by_question = {c["question"]: c for c in checks}
    launches = by_question["Does the CPU run ahead of the GPU?"]
    same(launches["verdict"], "look")
    if not launches["answer"].startswith("launch-bound: "):
        raise AssertionError(launches)
    same(by_question["Is the GPU kept busy?"]["verdict"], "look")
    same(by_question["What share has communication?"]["verdict"], "does not apply")
    same(by_question["Are the steps marked?"]["answer"].split()[1:], "steps are marked".split())
    if not all(c["answer"] for c in checks):
        raise AssertionError(checks)
    for kind, sign in (
        ("text", "Five points:"),
        ("markdown", "## Checklist"),
        ("html", "Checklist"),
    ):
        if sign not in run("analyze", "--checklist", "-f", kind, path).out.decode():
            raise AssertionError(kind)
    refused = run("analyze", "--checklist", "-f", "sarif", path, ok=False)
    same(refused.code, 2)
    if "--checklist" not in refused.err:
        raise AssertionError(refused.err)


@test
def severity_decides_the_status():
    path = any_trace()
    same(run("analyze", "--fail-on", "critical", path, ok=False).code, 1)
    same(run("analyze", "-r", "copy-overlap", "--fail-on", "note", path, ok=False).code, 0)


@test
def rules_are_chosen_explained_and_listed():
    path = any_trace()
    same(
        {f["rule"] for f in read_findings(path, "-r", "launch-bound,sync-calls")["findings"]},
        {"launch-bound"},
    )
    names = [line.split()[0] for line in run("analyze", "--list-rules").out.decode().splitlines()]
    for name in names:
        text = run("analyze", "--explain", name).out.decode()
        if not text.startswith(name + ": ") or len(text) < 100:
            raise AssertionError(text)
    for options in (["-r", "no-such"], ["--explain", "no-such"]):
        refused = run("analyze", *options, path, ok=False)
        same(refused.code, 2)
        if "no-such" not in refused.err:
            raise AssertionError(refused.err)


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)


@test
def findings_name_source_files():
    """SARIF has the file and the line; after a recording there are at most twelve lines."""
    program = """
import copy, time
tree = {str(i): [i, str(i)] for i in range(2000)}
end = time.process_time() + 0.7
while time.process_time() < end:
    copy.deepcopy(tree)
"""
    os.makedirs("a folder", exist_ok=True)
    with open("a folder/copies.py", "w") as f:
        f.write(program)
    done = run("profile", "-f", "-o", "copies", sys.executable, "-S", "a folder/copies.py")
    first_fault(read_findings("copies.wsrep"), "library-work")
    lines = [line for line in done.err.split("\n") if line]
    if "copy.deepcopy(tree)" not in done.err or len(lines) > 12:
        raise AssertionError(done.err)
    sarif = json.loads(run("analyze", "-f", "sarif", "copies.wsrep").out)
    result = sarif["runs"][0]["results"][0]
    place = result["locations"][0]["physicalLocation"]
    same(place["artifactLocation"]["uri"], "a%20folder/copies.py")
    same(place["region"]["startLine"], 6)
    related = result["relatedLocations"][0]["physicalLocation"]["artifactLocation"]
    same(related["uri"], "copies.wsrep")


@test
def every_format_can_be_read():
    path = any_trace()
    sarif = json.loads(run("analyze", "-f", "sarif", path, path).out)
    same(sarif["version"], "2.1.0")
    same(len(sarif["runs"]), 2)
    same(sarif["runs"][0]["results"][0]["ruleId"], "launch-bound")
    tags = set(Page(run("analyze", "-f", "html", path).out.decode()).tags)
    same(tags & {"script", "h1", "h3"}, {"h1", "h3"})
    for kind, sign in (("markdown", "# any.json"), ("text", "Findings:")):
        text = run("analyze", "-f", kind, path).out.decode()
        if sign not in text:
            raise AssertionError(text)
    run("analyze", "-f", "json", "-o", "out.json", path)
    same(run("analyze", "-f", "json", "-o", "out.json", path, ok=False).code, 1, "no overwriting")
    same(len(json.load(open("out.json"))), 1)


@test
def expert_rules_are_tables():
    t = Trace()

    def step():
        for call, kind in (("cudaMemcpyAsync", "Pageable"), ("cudaMemcpy", "Pinned")):
            t.launch(
                "Memcpy HtoD (%s -> Device)" % kind,
                100,
                call=call,
                cat="gpu_memcpy",
                bytes=1_000_000,
            )
        t.launch("gemm", 50)
        t.wait()
        t.compute(3000)

    path = t.steps(10, step).write("rules.json")

    def rows(rule):
        text = run("analyze", "-f", "csv", "-r", rule, path).out.decode()
        return list(csv.DictReader(text.splitlines()))

    copies = rows("cuda_memcpy_async")
    same([(r["Src Kind"], r["API Name"]) for r in copies], [("Pageable", "cudaMemcpyAsync")] * 10)
    same([r["API Name"] for r in rows("cuda_memcpy_sync")], ["cudaMemcpy"] * 10)
    same(len(rows("cuda_memcpy_sync:rows=3")), 3)
    same(len(rows("cuda_api_sync")), 10)
    same(len(rows("gpu_gaps:gap=2")), 9)
    same(run("analyze", "-r", "gpu_gaps", path).out, b"")
    used = rows("gpu_time_util")
    if not used or not all(float(r["In-Use (%)"]) < 50 for r in used):
        raise AssertionError(used)
    same(run("analyze", "-f", "csv", path, ok=False).code, 2)
    same(run("analyze", "-r", "gpu_gaps,sleeping", path, ok=False).code, 2)


if __name__ == "__main__":
    main()
