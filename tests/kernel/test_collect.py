"""Kernels measured pass by pass, on a stand-in for the driver and CUPTI (standin.h):
test_collect.py WARPSIGHT APP FOLDER_OF_STANDINS
"""

import contextlib
import csv
import glob
import json
import os
import shutil
import subprocess
import sys

from collect import APP, BARE, HERE, METRICS, SOURCE, ask, environment, left, measure, names, tap


@contextlib.contextmanager
def before_everything_else():
    """What runs inside waits for no core, if root asks for it: a launch that takes longer than a
    millisecond, though only because it waited, has its caches prepared in another way.
    """
    policy, parameter = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError:
        pass
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, parameter)


@tap.test
def the_program_gets_the_results_of_one_run():
    for batch in ("1", "32"):
        check_results(*measure("--replay-batch", batch))


def check_results(out, results):
    assert out.startswith(BARE), out
    assert names(results) == ["accumulate", "count", "plain_read"] * 3 + [
        "ncclDevKernel_AllReduce_Sum"
    ], names(results)
    for result in results[:9]:
        assert not result["error"], result
        assert result["passes"] == 4 and result["metrics"] == {
            "gpu__time_duration.sum": 5000,
            "smsp__inst_executed.sum": 4.5,
            "lts__t_sectors.sum": 4.5,
        }, result
        assert result["end"] - result["start"] == 5000, result
    assert "not be repeated" in results[9]["error"] and not results[9]["passes"], results[9]
    first = results[0]
    assert (first["gridX"], first["gridY"], first["gridZ"]) == (4, 2, 1), first
    assert (first["blockX"], first["dynamicSharedMemory"], first["streamId"]) == (128, 64, 7)
    assert (first["registersPerThread"], first["chipName"]) == (40, "GH100"), first
    assert first["sharedMemoryExecuted"] == 65536, first
    assert [r["launchNumber"] for r in results] == list(range(10))
    assert [r["instanceNumber"] for r in results[:9]] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert results[1]["demangled"] == "void work::count<4>(int*)", results[1]
    device = json.loads(
        tap.run("query", "--format", "json", "r.wsrep", "SELECT * FROM TARGET_INFO_GPU").out
    )
    assert len(device) == 1 and device[0]["name"] == "Stand-in GPU", device


def source_rows():
    """(function, offset, file, line, metric, value) of the first result."""
    query = (
        "SELECT function, pcOffset, file, line, metric, value FROM WARPSIGHT_KERNEL_SOURCE "
        "WHERE resultId = 0 ORDER BY pcOffset, metric"
    )
    return [tuple(row.values()) for row in ask(query)]


@tap.test
def instructions_are_sampled_and_counted():
    os.environ["STANDIN_CUBIN"] = os.path.join(HERE, "cubin", "sample.cubin")
    out, results = measure(*SOURCE, "--sampling-interval", "2", "-k", "count")
    assert out.startswith(BARE), out
    assert [r["passes"] for r in results] == [6] * 3 and not any(r["error"] for r in results)
    function, path, counted = "_Z5smallPKfPfi", "/src/sample.cu", "smsp__sass_inst_executed"
    stalled = "smsp__pcsamp_warps_issue_stalled_"
    expected = [
        (0x50, 14, "smsp__pcsamp_sample_count", 5),
        (0x50, 14, stalled + "wait", 5),
        (0x50, 14, counted, 1000),
        (0xC0, 15, counted, 1001),
        (0xC0, 15, "smsp__sass_sectors_mem_global", 1003),
        (0xD0, 5, "smsp__pcsamp_sample_count", 40),
        (0xD0, 5, stalled + "long_scoreboard", 38),
        (0xD0, 5, stalled + "wait", 2),
        (0x100, 15, "smsp__pcsamp_sample_count", 7),
        (0x100, 15, stalled + "long_scoreboard", 3),
        (0x100, 15, stalled + "wait", 4),
    ]
    rows = source_rows()
    assert rows == [(function, pc, path, line, m, v) for pc, line, m, v in expected], rows
    count = ask(
        "SELECT count(*) AS n, sum(ptxLine > 0) AS ptx, max(callers) AS caller, "
        "max(inlined) AS inlined FROM WARPSIGHT_KERNEL_INSTRUCTION"
    )
    assert count == [
        {"n": 32, "ptx": 32, "caller": "/src/sample.cu:15", "inlined": "_Z5scaleff"}
    ], count
    ptx = ask("SELECT text FROM WARPSIGHT_KERNEL_TEXT WHERE cubinCrc != 0 AND line = 62")
    assert ptx == [{"text": "ld.global.f32 \t%f1, [%rd5];"}], ptx
    page = tap.run("kernel", "--page", "source", "r.wsrep").out.decode()
    lines = [" ".join(line.split()) for line in page.splitlines()]
    assert "40 76.9% 0 sample.cu:5 long scoreboard 95%" in lines, page
    assert "7 13.5% 1,001 sample.cu:15 wait 57%, long scoreboard 43%" in lines, page
    table = tap.run("kernel", "--page", "source", "--csv", "r.wsrep").out.decode().splitlines()
    rows = list(csv.DictReader(table[1:]))
    hot = [row for row in rows if row["Address"] == "0xd0"][0]
    assert (hot["File"], hot["Line"], hot["# Samples"]) == (path, "5", "40"), hot
    assert hot["stall_long_scoreboard"] == "38" and hot["stall_wait"] == "2", hot
    findings = tap.run("kernel", "--json", "r.wsrep").out.decode()
    assert "77 % of the samples are at sample.cu:5" in findings, findings
    out, results = measure(*SOURCE, "--sampling-interval", "2", "--import-source", "no")
    assert [row[2:4] for row in source_rows()] == [(None, 0)] * 11, source_rows()
    del os.environ["STANDIN_CUBIN"]


@tap.test
def code_is_disassembled_while_counters_are_measured():
    """A library's takes a third of a second a function."""
    os.makedirs("bin", exist_ok=True)
    with open("bin/nvdisasm", "w") as file:
        file.write(f"#!/bin/sh\necho > {os.path.abspath('disassembled')}\n")
    os.chmod("bin/nvdisasm", 0o755)
    path = os.environ["PATH"]
    os.environ["PATH"] = os.path.abspath("bin") + ":" + path
    os.environ["STANDIN_CUBIN"] = os.path.join(HERE, "cubin", "sample.cubin")
    os.environ["STANDIN_AWAIT"] = os.path.abspath("disassembled")
    out, results = measure(*SOURCE, "-k", "count", "-c", "1")
    assert out.startswith(BARE) and not results[0]["error"], (out, results)
    assert len(source_rows()) == 11, source_rows()
    del os.environ["STANDIN_AWAIT"], os.environ["STANDIN_CUBIN"]
    os.environ["PATH"] = path
    os.unlink("bin/nvdisasm")


@tap.test
def metrics_are_sampled_over_the_time_of_a_kernel():
    sampled = "pmsampling:sm__cycles_active.avg,pmsampling:sm__blocks.sum"
    # The interval that suits a kernel depends on how long it takes here.
    interval = ("--pm-sampling-interval", "2000")
    out, results = measure("-k", "count", *interval, metrics=METRICS + "," + sampled)
    assert out.startswith(BARE), out
    assert [r["passes"] for r in results] == [5] * 3 and not any(r["error"] for r in results)
    for result in results:
        found = {k: v for k, v in result["metrics"].items() if "sampl" in k}
        assert found == {
            "pmsampling:sm__cycles_active.avg": 100,
            "pmsampling:sm__blocks.sum": 10,
            "profiler__pmsampler_interval_time": 2000,
            "profiler__pmsampler_samples": 3,
        }, found
    rows = ask(
        "SELECT metric, startOffset, endOffset, value FROM WARPSIGHT_KERNEL_SAMPLE "
        "WHERE resultId = 2 ORDER BY metric DESC, startOffset"
    )
    rows = [tuple(row.values()) for row in rows]
    active, blocks = "sm__cycles_active.avg", "sm__blocks.sum"
    assert rows == [
        (active, 0, 100, 80),
        (active, 100, 200, 0),
        (active, 200, 300, 20),
        (blocks, 0, 100, 8),
        (blocks, 100, 200, 0),
        (blocks, 200, 300, 2),
    ], rows
    measure("-k", "count", "-c", "1", fault="nopm", metrics=METRICS + "," + sampled)
    assert "Kernels are measured without metrics over their time" in measure.stderr
    # Sampling ends after the kernel has: the GPU's buffer may be full by then.
    for fault, warned in (("pmfull", False), ("pmshort", True)):
        _, results = measure("-k", "count", *interval, fault=fault, metrics=METRICS + "," + sampled)
        blocks = [result["metrics"]["pmsampling:sm__blocks.sum"] for result in results]
        assert blocks == [10] * 3, (fault, blocks)
        assert "Kernels are measured without" not in measure.stderr, measure.stderr
        assert ("full before the kernel had ended" in measure.stderr) == warned, measure.stderr
    two = sampled + ",pmsampling:sm__second.avg"
    out, results = measure("-k", "count", "-c", "1", metrics=METRICS + "," + two)
    assert "not together with the others: sm__second.avg." in measure.stderr, measure.stderr
    assert results[0]["metrics"]["pmsampling:sm__blocks.sum"] == 10, results[0]["metrics"]
    assert results[0]["metrics"]["profiler__pmsampler_interval_time"] >= 1500, results[0]
    for wrong in ("999", "1000000001", "x"):
        run = tap.run("kernel", "--pm-sampling-interval", wrong, APP, ok=False)
        assert "--pm-sampling-interval takes auto, 0 or 1000" in run.err, run.err


@tap.test
def the_gpus_links_are_described():
    out, results = measure("-k", "count", "-c", "1", "--section", "Nvlink_Topology")
    assert out.startswith(BARE) and not results[0]["error"], results
    found = {k: v for k, v in results[0]["metrics"].items() if k.startswith("nvlink")}
    assert found == {
        "nvlink__max_count": 4,
        "nvlink__count_physical": 3,
        "nvlink__count_logical": 2,
        "nvlink__enabled_mask": 0b1011,
        "nvlink__is_nvswitch_connected": 1,
        "nvlink__bandwidth_each_direction": 3 * 26562e6,
    }, found
    _, results = measure("-k", "count", "-c", "1", "--section", "C2CLink")
    assert results[0]["metrics"]["c2clink__present"] == 1, results[0]["metrics"]
    # a section that needs no counters, alone
    _, alone = measure(
        "-k", "count", "-c", "1", "--section", "LaunchStats", metrics="launch__grid_size"
    )
    assert not alone[0]["error"] and alone[0]["metrics"] == {"gpu__time_duration.sum": 5000}, alone
    measure("-k", "count", "-c", "1", "--section", "Nvlink_Topology")
    page = tap.run("kernel", "r.wsrep").out.decode()
    assert "Section: NVLink Topology" in page and "79.69" in page, page


def describe_nearby(device):
    """What the kernel says of a PCI device, as metrics."""
    with open(device + "/numa_node") as file:
        node = int(file.read())
    with open(device + "/local_cpulist") as file:
        spans = [span.split("-") for span in file.read().strip().split(",") if span]
    count = sum(int(span[-1]) - int(span[0]) + 1 for span in spans)
    found = {"numa__count_cpu": count} if count else {}
    return dict(found, numa__id_cpu=node) if node >= 0 else found


@tap.test
def the_processors_near_a_gpu_are_counted():
    devices = sorted(os.path.dirname(p) for p in glob.glob("/sys/bus/pci/devices/*/local_cpulist"))
    if not devices:
        raise tap.Skip("there are no PCI devices")
    for bus, expected in [
        (os.path.basename(devices[0]).upper(), describe_nearby(devices[0])),
        ("0000:ff:1f.9", {}),
    ]:
        os.environ["STANDIN_BUS"] = bus
        _, results = measure("-k", "count", "-c", "1", "--section", "NumaAffinity")
        del os.environ["STANDIN_BUS"]
        found = {k: v for k, v in results[0]["metrics"].items() if k.startswith("numa")}
        assert found == expected, (found, expected)


DISASSEMBLER = """#!/bin/sh
# Says what it was asked for in place of an instruction; only what KNOWS names works.
test -r "$2" || exit 1
case "$3 KNOWS" in
"-fun -fun") name=$(sed -n "s/^$4 //p" "${0%/*}/symbols") ;;
" -fun" | " none") name=$(cut -d " " -f 2 "${0%/*}/symbols") ;;
*) exit 1 ;;
esac
for function in $name; do
	printf '\\t.section\\t.text.%s,\\042ax\\042,@progbits\\n' "$function"
	printf '        /*0050*/                   ASKED %s %s ;\\n' "${3:-whole}" "$function"
done
"""


def ask_disassembler(knows, script=DISASSEMBLER):
    """The texts of instructions, of a disassembler that can restrict itself or not."""
    os.makedirs("bin", exist_ok=True)
    cubin = os.path.join(HERE, "cubin", "sample.cubin")
    table = subprocess.run(["readelf", "-sW", cubin], capture_output=True, text=True).stdout
    symbols = [line.split() for line in table.splitlines() if " FUNC " in line]
    with open("bin/symbols", "w") as file:
        file.writelines(f"{words[0].rstrip(':')} {words[-1]}\n" for words in symbols)
    with open("bin/nvdisasm", "w") as file:
        file.write(script.replace("KNOWS", knows))
    os.chmod("bin/nvdisasm", 0o755)
    path = os.environ["PATH"]
    os.environ["PATH"] = os.path.abspath("bin") + ":" + path
    os.environ["STANDIN_CUBIN"] = cubin
    measure(*SOURCE, "--sampling-interval", "2")
    os.environ["PATH"] = path
    del os.environ["STANDIN_CUBIN"]
    rows = ask(
        "SELECT DISTINCT function, sass FROM WARPSIGHT_KERNEL_INSTRUCTION WHERE sass IS NOT NULL"
    )
    return sorted(tuple(row.values()) for row in rows)


def warnings_of_disassembly():
    rows = ask(
        "SELECT text FROM DIAGNOSTIC_EVENT WHERE text LIKE 'Instructions of % have no text: %'"
    )
    return [row["text"] for row in rows]


@tap.test
def only_measured_functions_are_disassembled():
    # A library's cubin has thousands of functions, which would take seconds each time.
    texts = ask_disassembler("-fun")
    assert not warnings_of_disassembly()
    assert texts and all(sass == f"ASKED -fun {name}" for name, sass in texts), texts


@tap.test
def a_disassembler_that_takes_too_long_is_given_up():
    os.environ["WARPSIGHT_DISASSEMBLY"] = "0"
    texts = ask_disassembler("-fun")
    del os.environ["WARPSIGHT_DISASSEMBLY"]
    assert not texts, texts
    said = "Instructions of further kernels have no text: nvdisasm took more than a minute."
    assert warnings_of_disassembly() == [said], warnings_of_disassembly()


@tap.test
def it_is_said_why_instructions_have_no_text():
    cases = (
        (
            "echo; echo 'nvdisasm fatal   : bad file' >&2; exit 3",
            "nvdisasm says: nvdisasm fatal   : bad file.",
        ),
        ("exit 4", "nvdisasm ended with status 4."),
        ("kill -9 $$", "nvdisasm was ended by signal 9."),
        ("echo nothing of it", "nvdisasm printed none of them."),
    )
    for script, why in cases:
        assert not ask_disassembler("", script="#!/bin/sh\n" + script + "\n")
        said = warnings_of_disassembly()
        assert said and all(text.endswith("have no text: " + why) for text in said), said
        page = tap.run("kernel", "--page", "source", "r.wsrep").out.decode()
        assert page.count(why) >= len(said), (said, page)
    if shutil.which("nvdisasm") or os.path.exists("/usr/local/cuda/bin/nvdisasm"):
        return
    os.environ["STANDIN_CUBIN"] = os.path.join(HERE, "cubin", "sample.cubin")
    measure(*SOURCE, "--sampling-interval", "2")
    del os.environ["STANDIN_CUBIN"]
    said = "Instructions of all kernels have no text: this machine has no nvdisasm"
    assert [text[: len(said)] for text in warnings_of_disassembly()] == [said]
    assert said in tap.run("kernel", "--page", "source", "r.wsrep").out.decode()


@tap.test
def a_disassembler_that_takes_no_function_prints_them_all():
    texts = ask_disassembler("none")
    assert texts and all(sass == f"ASKED whole {name}" for name, sass in texts), texts


@tap.test
def the_machines_disassembler_names_instructions():
    os.makedirs("bin", exist_ok=True)
    with open("bin/nvdisasm", "w") as file:
        lines = [
            "\\t.section\\t.text._Z7stridedPKfPfi,\\042ax\\042,@progbits",
            "        /*00c0*/                   NOP ;",
            "\\t.section\\t.text._Z5smallPKfPfi,\\042ax\\042,@progbits",
            "\\t.sectionflags\\t@\\042SHF_BARRIERS=1\\042",
            "\\t.sectioninfo\\t@\\042SHI_REGISTERS=12\\042",
            ".text._Z5smallPKfPfi:",
            "        /*0050*/              @!P0 BRA `(.L_x_1) ;",
            ".L_x_1:",
            "        /*00c0*/                   LDG.E R7, desc[UR4][R2.64] ;",
        ]
        file.write('#!/bin/sh\ntest -r "$2" && printf \'' + "\\n".join(lines) + "\\n'\n")
    os.chmod("bin/nvdisasm", 0o755)
    path = os.environ["PATH"]
    os.environ["PATH"] = os.path.abspath("bin") + ":" + path
    os.environ["STANDIN_CUBIN"] = os.path.join(HERE, "cubin", "sample.cubin")
    measure(*SOURCE, "-k", "count", "-c", "1", "--sampling-interval", "2")
    os.environ["PATH"] = path
    del os.environ["STANDIN_CUBIN"]
    rows = ask("SELECT pcOffset, sass FROM WARPSIGHT_KERNEL_INSTRUCTION WHERE sass IS NOT NULL")
    assert [tuple(row.values()) for row in rows] == [
        (0x50, "@!P0 BRA `(.L_x_1)"),
        (0xC0, "LDG.E R7, desc[UR4][R2.64]"),
    ], rows
    page = tap.run("kernel", "--page", "source", "r.wsrep").out.decode()
    assert "LDG.E R7, desc[UR4][R2.64]" in page, page


def count_samples():
    """Samples of each result, by its number."""
    query = (
        "SELECT resultId, sum(value) AS n FROM WARPSIGHT_KERNEL_SOURCE "
        "WHERE metric = 'smsp__pcsamp_sample_count' GROUP BY resultId"
    )
    return {row["resultId"]: row["n"] for row in ask(query)}


@tap.test
def every_function_that_is_put_off_is_sampled():
    # By default. CUPTI attributes samples to functions that it knew before it counted anything.
    os.environ["STANDIN_CUBIN"] = os.path.join(HERE, "cubin", "sample.cubin")
    chosen = ("--section", "SourceCounters", "-k", "regex:accumulate|plain_read")
    out, results = measure(*chosen, "--sampling-interval", "2")
    assert out.startswith(BARE), out
    assert names(results) == ["accumulate", "plain_read"] * 3, names(results)
    assert [r["passes"] for r in results] == [6] * 6 and not any(r["error"] for r in results)
    assert [r["sharedMemoryExecuted"] for r in results] == [65536] * 6, results
    assert count_samples() == dict.fromkeys(range(6), 52), count_samples()
    for batch in ("1", "2"):
        measure(*SOURCE, "--sampling-interval", "2", "--replay-batch", batch)
        assert count_samples() == dict.fromkeys(range(9), 52), count_samples()
    _, results = measure(*SOURCE, "-k", "plain_read", "--sampling-interval", "2", fault="slow")
    assert [r["sharedMemoryExecuted"] for r in results] == [65536] * 3, results
    out, _ = measure(*SOURCE, "--sampling-interval", "2", what="fork")
    assert out.startswith(BARE), out
    del os.environ["STANDIN_CUBIN"]


@tap.test
def without_samples_there_are_counts():
    out, results = measure(*SOURCE, "-k", "count", fault="nosampling")
    assert out.startswith(BARE) and not any(r["error"] for r in results), (out, results)
    assert {row[4] for row in source_rows()} == {
        "smsp__sass_inst_executed",
        "smsp__sass_sectors_mem_global",
    }, source_rows()
    said = tap.run("info", "r.wsrep").out.decode()
    assert "samples of program counters" in said, said
    measure(*SOURCE, "-k", "count", "-c", "2", "--sampling-interval", "2", fault="unattributed")
    said = tap.run("info", "r.wsrep").out.decode()
    assert said.count("attributes its samples of program counters to no function") == 1, said
    page = tap.run("kernel", "--page", "source", "r.wsrep").out.decode()
    assert "program counters were not sampled" in page and "Share   Instructions" in page, page


def read_recorded_samples(path):
    """Of a file for the stand-in: (offset, metric) -> samples."""
    names, found = {}, {}
    with open(path) as file:
        for line in file:
            words = line.split()
            if words[0] == "reason":
                names[words[1]] = words[2]
            elif words[0] == "pc":
                for index, count in (word.split("=") for word in words[2:]):
                    found[int(words[1], 16), names[index]] = int(count)
    return found


def read_ncu_shares(path, lines):
    """Shares of the samples that Nsight Compute took of the same kernel: by reason, by line, by
    offset."""
    short = {
        "long_sb": "long_scoreboard",
        "short_sb": "short_scoreboard",
        "math": "math_pipe_throttle",
        "mio": "mio_throttle",
        "no_inst": "no_instructions",
        "dispatch": "dispatch_stall",
        "lg": "lg_throttle",
        "imc": "imc_miss",
    }
    with open(path) as file:
        rows = list(csv.DictReader(file))
    total = sum(int(row["# Samples"]) for row in rows)
    by_reason, by_line, by_offset = {}, {}, {}
    for row in rows:
        offset, samples = int(row["Offset"], 16), int(row["# Samples"])
        by_offset[offset] = samples / total
        by_line[lines[offset]] = by_line.get(lines[offset], 0) + samples / total
        for column in row:
            if column.startswith("stall_"):
                reason = short.get(column[6:], column[6:])
                by_reason[reason] = by_reason.get(reason, 0) + int(row[column]) / total
    return by_reason, by_line, by_offset


@tap.test
def samples_of_a_gpu_are_attributed_as_nsight_compute_does():
    # Recorded on an H100, of one kernel. Nsight Compute took fewer samples of another run.
    recorded = os.path.join(HERE, "samples", "strided.txt")
    os.environ["STANDIN_CUBIN"] = os.path.join(HERE, "cubin", "sample.cubin")
    os.environ["STANDIN_SAMPLES"] = recorded
    chosen = ("--section", "SourceCounters", "--instructions", "samples", "-k", "count", "-c", "1")
    measure(*chosen, "--sampling-interval", "2")
    del os.environ["STANDIN_CUBIN"], os.environ["STANDIN_SAMPLES"]
    rows = [row for row in source_rows() if "_not_issued" not in row[4]]
    every = source_rows()
    assert {row[0] for row in every} == {"_Z7stridedPKfPfi"}, every[:3]
    assert {(row[1], row[4]): row[5] for row in every} == read_recorded_samples(recorded)
    total = sum(row[5] for row in rows)
    by_reason, by_line, by_offset = {}, {}, {}
    for _, offset, _, line, metric, value in rows:
        reason = metric.replace("smsp__pcsamp_warps_issue_stalled_", "")
        for sums, key in [(by_reason, reason), (by_line, line), (by_offset, offset)]:
            sums[key] = sums.get(key, 0) + value / total
    lines = {
        i["pc"]: i["line"]
        for i in ask(
            "SELECT pcOffset AS pc, line FROM WARPSIGHT_KERNEL_INSTRUCTION WHERE function = "
            "'_Z7stridedPKfPfi'"
        )
    }
    theirs = read_ncu_shares(os.path.join(HERE, "samples", "strided-ncu.csv"), lines)
    for ours, ncu in zip((by_reason, by_line, by_offset), theirs):
        assert max(ours, key=ours.get) == max(ncu, key=ncu.get), (ours, ncu)
    for ours, ncu in zip((by_reason, by_line), theirs):
        for key in set(ours) | set(ncu):
            assert abs(ours.get(key, 0) - ncu.get(key, 0)) < 0.025, (key, ours, ncu)
    page = tap.run("kernel", "--page", "source", "r.wsrep").out.decode()
    assert "317373 samples of program counters" in page, page
    result = json.loads(tap.run("kernel", "--json", "r.wsrep").out)[0]
    sampled = {i["line"]: i["samples"] for i in result["lines"] if i["samples"]}
    assert sampled == {line: round(share * total) for line, share in by_line.items()}, sampled
    assert result["lines"][0]["line"] == 25 and result["lines"][0]["file"] == "/src/sample.cu"
    assert max(result["lines"][0]["stalls"].items(), key=lambda i: i[1])[0] == "mio_throttle"


@tap.test
def options_that_name_several_may_be_repeated():
    more = ("--metrics", "pmsampling:sm__blocks.sum", "-k", "count", "-c", "1")
    _, results = measure("--section", "C2CLink", "--section", "Nvlink_Topology", *more)
    found = set(results[0]["metrics"])
    wanted = {"c2clink__present", "nvlink__max_count", "pmsampling:sm__blocks.sum"}
    assert wanted | set(METRICS.split(",")) <= found, found


@tap.test
def what_other_modes_of_replay_leave_out_is_said():
    both = "smsp__inst_executed.sum,pmsampling:sm__blocks.sum"
    mode = ("--replay-mode", "app-range", "--nvtx-include", "none/")
    for args, metrics, what in [
        (SOURCE, METRICS, "single instructions are left out"),
        ((), both, "samples over the time of kernels are left out"),
        (SOURCE, both, "single instructions and samples over the time of kernels are left out"),
    ]:
        measure(*args, *mode, metrics=metrics)
        assert what in measure.stderr, measure.stderr
    measure(*mode)
    assert "left out" not in measure.stderr, measure.stderr


@tap.test
@before_everything_else()
def each_pass_is_preceded_by_a_run():
    """So addresses have been translated, and warm caches hold what the kernel leaves there. Where
    the driver does not empty caches, other memory is read instead, which fills them."""
    # What points to memory of the host is measured at once, after a run that finds what it writes,
    # with a run more for a function that is new. Launches that are put off run twice before.
    for name, batch, before, fault, passes in [
        ("accumulate", "1", 1 + 3 * 1, None, (4 + 4, 4 + 4)),
        ("count", "32", 1 + 3 * 1, None, (4 + 4, 4 + 4)),
        ("accumulate", "32", 3 * 2, None, (4 + 4, 4 + 4)),
        ("accumulate", "1", 1 + 3 * 1, "nocache", (4, 4 + 4)),
        ("accumulate", "32", 3 * 2, "nocache", (4, 4 + 4)),
    ]:
        args = ("-k", name, "-c", "3", "--replay-batch", batch)
        flushed = measure(*args, fault=fault)[0]
        warm = measure(*args, "--cache-control", "none", fault=fault)[0]
        assert flushed.startswith(BARE) and warm.startswith(BARE), (flushed, warm)
        runs = [int(out.split()[-1]) - 10 - before for out in (flushed, warm)]
        # A launch that a busy machine holds up for 20 ms is tried once before, not twice.
        held_up = 3 if batch == "32" else 0
        for n, found in zip(passes, runs):
            assert 3 * n - held_up <= found <= 3 * n, (name, batch, fault, runs)


@tap.test
def launches_are_measured_before_their_memory_goes():
    out, results = measure("-s", "10", "--replay-batch", "32", what="freed")
    assert out.startswith(BARE) and out.split()[-1] == str(14 + 4 * (2 + 4 + 4)), out
    assert len(results) == 4 and not any(r["error"] for r in results), results
    assert all(r["metrics"]["smsp__inst_executed.sum"] == 4.5 for r in results), results


@tap.test
def copies_on_the_host_do_as_well():
    out, results = measure(fault="nomemory")
    assert out.startswith(BARE), out
    assert [bool(r["error"]) for r in results] == [False] * 9 + [True], results


@tap.test
def filters_choose():
    cases = [
        (("-k", "accumulate"), ["accumulate"] * 3),
        (("-k", "regex:^c.*t$"), ["count"] * 3),
        (("-k", "regex:work::count<4>", "--kernel-name-base", "demangled"), ["count"] * 3),
        (("-k", "_Z10accumulatePj", "--kernel-name-base", "mangled"), ["accumulate"] * 3),
        (("-k", "nothing"), []),
        (("-s", "2", "-c", "3"), ["plain_read", "accumulate", "count"]),
        (("-k", "count", "-s", "1", "-c", "1"), ["count"]),
        (("-k", "count", "--launch-skip-before-match", "4"), ["count"] * 2),
        (("--kernel-id", "1:7:accumulate:2"), ["accumulate"]),
        (("--kernel-id", "::regex:read:3"), ["plain_read"]),
        (("--kernel-id", "2::accumulate:1"), []),
        (("--kernel-id", "1:7::.*3|1"), ["accumulate", "count", "plain_read"] * 2),
        (("--devices", "1"), []),
    ]
    for args, want in cases:
        out, results = measure(*args)
        assert names(results) == want, (args, names(results))
        assert out.startswith(BARE), (args, out)


@tap.test
def the_program_is_ended_after_the_last_launch():
    for args in (("--replay-batch", "32"), ("--replay-mode", "application")):
        out, results = measure("-c", "4", "--kill", "yes", *args, status=128 + 15)
        assert not out and len(results) == 4, (args, out, results)
        assert not any(result["error"] for result in results), results


@tap.test
def only_what_lies_between_start_and_stop():
    out, results = measure("--profile-from-start", "off", what="ranges")
    assert [r["launchNumber"] for r in results] == [3, 4, 5], results
    assert out.startswith(BARE), out


@tap.test
def nvtx_ranges_choose():
    out, results = measure("--nvtx", what="nvtx")
    assert out.startswith(BARE), out
    assert [r["nvtxRanges"] for r in results[:3]] == [
        "round 0/lib@library/forward",
        "round 0/lib@library/forward",
        "round 0",
    ], results[:3]
    assert results[9]["nvtxRanges"] is None
    for args, want in [
        (("--nvtx-include", "round 1/"), [3, 4, 5]),
        (("--nvtx-include", "round 1/]"), [5]),
        (("--nvtx-include", "forward/"), [0, 1, 3, 4, 6, 7]),
        (("--nvtx-include", "[/forward"), []),
        (("--nvtx-include", "[/round 2/forward/]"), [6, 7]),
        (("--nvtx-include", "[/*/forward/]"), [0, 1, 3, 4, 6, 7]),
        (("--nvtx-include", "[/+/]"), [2, 5, 8]),
        (("--nvtx-include", "lib@library/"), [0, 1, 3, 4, 6, 7]),
        (("--nvtx-include", "other@library/"), []),
        (("--nvtx-include", "regex:^round [12]$/"), [3, 4, 5, 6, 7, 8]),
        (("--nvtx-include", "round 0/", "--nvtx-include", "round 2/]"), [0, 1, 2, 8]),
        (("--nvtx-include", "regex:round/", "--nvtx-exclude", "forward/"), [2, 5, 8]),
        (("--nvtx-exclude", "regex:round/"), [9]),
    ]:
        got = [r["launchNumber"] for r in measure(*args, what="nvtx")[1]]
        assert got == want, (args, got)


@tap.test
def start_end_ranges_choose():
    for args, want in [
        (("--nvtx-include", "middle"), [3, 4, 5]),
        (("--nvtx-include", "regex:mid,middle"), [3, 4, 5]),
        (("--nvtx-include", "middle,other"), []),
        (("--nvtx-exclude", "middle"), [0, 1, 2, 6, 7, 8, 9]),
    ]:
        got = [r["launchNumber"] for r in measure(*args, what="started")[1]]
        assert got == want, (args, got)


@tap.test
def every_run_of_the_program_makes_a_pass():
    out, results = measure("--replay-mode", "application")
    lines = out.splitlines()
    assert len(lines) == 4 and all(line == BARE + " runs 10" for line in lines), out
    assert names(results) == ["accumulate", "count", "plain_read"] * 3 + [
        "ncclDevKernel_AllReduce_Sum"
    ], names(results)
    for result in results[:9]:
        assert not result["error"] and result["passes"] == 4, result
        assert result["metrics"]["smsp__inst_executed.sum"] == 4.5, result
        assert result["replayMode"] == "application", result
    assert "not be repeated" in results[9]["error"], results[9]


@tap.test
def graphs_are_counted_in_every_run():
    out, results = measure("-s", "10", "--replay-mode", "application", what="graph")
    assert out.startswith(BARE.replace("graph 0", "graph 4")), out
    assert [r["metrics"]["smsp__inst_executed.sum"] for r in results] == [8.5] * 2, results


@tap.test
def runs_that_differ_are_said():
    if os.path.exists("was-here"):
        os.remove("was-here")
    out, results = measure("--replay-mode", "application", what="differs")
    assert [r["launchNumber"] for r in results] == [0, 1, 2, 3, 4, 5, 6], results
    assert all(r["passes"] == 4 for r in results[:6]), results
    assert "3 kernels or ranges of earlier runs" in measure.stderr, measure.stderr


@tap.test
def ranges_are_counted_as_one():
    for args, what, name, runs in [
        ((), "ranges", "cudaProfilerStart", 12.5),
        (("--nvtx-include", "round 1/"), "nvtx", "round 1", 12.5),
        (("--nvtx-include", "[/round 2/forward/]"), "nvtx", "forward", 8.5),
        (("--nvtx-include", "middle"), "started", "middle", 12.5),
    ]:
        out, results = measure("--replay-mode", "app-range", *args, what=what)
        assert all(line == BARE + " runs 10" for line in out.splitlines()), out
        assert names(results) == [name], (args, results)
        assert not results[0]["error"] and results[0]["passes"] == 4, results
        assert results[0]["metrics"]["smsp__inst_executed.sum"] == runs, results
        assert results[0]["gridX"] == 0 and results[0]["replayMode"] == "app-range", results
    three = measure("--replay-mode", "app-range", "--nvtx-include", "regex:round/", what="nvtx")[1]
    assert names(three) == ["round 0", "round 1", "round 2"], three
    one = measure(
        *("--replay-mode", "app-range", "--nvtx-include", "regex:round/", "-s", "1", "-c", "1"),
        what="nvtx",
    )[1]
    assert names(one) == ["round 1"], one


@tap.test
def ranges_are_repeated_within_a_run():
    bare = BARE.replace("15000150000", "20000200000").replace("far 3", "far 4")
    for cache, runs in (("all", 10 + 2 * (1 + 2 + 4)), ("none", 10 + 2 * (1 + 2 + 4 + 4))):
        args = ("--replay-mode", "range", "--cache-control", cache)
        out, results = measure(*args, what="repeat")
        assert out == f"{bare} runs {runs}\n", out
        assert names(results) == ["cudaProfilerStart"], results
        assert not results[0]["error"] and results[0]["passes"] == 4, results
        assert results[0]["metrics"]["smsp__inst_executed.sum"] == 8.5, results
        assert results[0]["replayMode"] == "range", results
    out, results = measure("--replay-mode", "range", what="allocate")
    assert out == f"{bare} runs 12\n", out
    assert "cuMemAlloc_v2 is not repeated" in results[0]["error"], results
    # A kernel that may write to the host, and one that waits for other GPUs.
    for args, what in [((), "ranges"), (("--nvtx-include", "[/round 2/forward/]"), "nvtx")]:
        out, results = measure("--replay-mode", "range", *args, what=what)
        assert out == BARE + " runs 10\n" and len(results) == 1, (out, results)
        assert "memory of the host" in results[0]["error"], results
        assert not results[0]["passes"] and "app-range" in results[0]["error"], results


@tap.test
def a_graph_is_measured_as_one():
    out, results = measure("-s", "10", what="graph")
    assert out.startswith(BARE.replace("graph 0", "graph 4")), out
    assert [r["name"] for r in results] == ["CUDA graph"] * 2, results
    for result in results:
        assert not result["error"] and result["passes"] == 4, result
        assert result["metrics"]["smsp__inst_executed.sum"] == 8.5, result
    # By name no graph is chosen: its kernels are not seen one by one.
    assert names(measure("-k", "regex:.", "-s", "10", what="graph")[1]) == []


@tap.test
def nodes_of_graphs_are_measured_one_by_one():
    bare = BARE.replace("graph 0", "graph 6").replace("counter 4", "counter 6")
    out, results = measure("-s", "10", what="nodes")
    assert out.startswith(bare) and names(results) == ["CUDA graph"] * 2, (out, results)
    for batch in ("1", "32"):
        args = ("-s", "10", "--graph-profiling", "node", "--replay-batch", batch)
        out, results = measure(*args, what="nodes")
        assert out.startswith(bare), out
        assert names(results) == ["first_node", "second_node"] * 2, results
        assert [r["launchNumber"] for r in results] == [10, 11, 12, 13], results
        for result in results:
            assert not result["error"] and result["passes"] == 4, result
            assert result["metrics"]["smsp__inst_executed.sum"] == 4.5, result
            assert result["gridX"] == 4 and result["dynamicSharedMemory"] == 64, result
        args = ("--graph-profiling", "node", "-k", "second_node", "-c", "1")
        out, results = measure(*args, "--replay-batch", batch, what="nodes")
        assert out.startswith(bare) and names(results) == ["second_node"], (out, results)
    # What cannot be made one by one is measured as a whole.
    out, results = measure("-s", "10", "--graph-profiling", "node", what="host")
    assert out.startswith(bare) and names(results) == ["CUDA graph"] * 2, (out, results)
    assert "not by its nodes" in tap.run("info", "r.wsrep").out.decode()


@tap.test
def threads_take_turns():
    out, results = measure("-s", "10", what="threads")
    assert len(results) == 40 and not any(r["error"] for r in results), results
    assert out.startswith(BARE.replace("counter 4 host 4", "counter 44 host 44")), out


@tap.test
def a_stream_that_is_captured_is_left_alone():
    out, results = measure("-s", "10", what="capture")
    assert out.startswith(BARE) and not results, (out, results)
    info = tap.run("info", "r.wsrep").out.decode()
    assert "captured into CUDA graphs" in info, info


@tap.test
def failures_are_said_and_harm_nothing():
    for fault, word in [
        ("permission", "administrators only"),
        ("busy", "in use by another tool"),
        ("thirdpass", "result of the stand-in"),
    ]:
        out, results = measure(fault=fault)
        assert out.startswith(BARE), (fault, out)
        assert len(results) == 10, (fault, results)
        for result in results[:9]:
            assert word in result["error"] and not result["metrics"], (fault, result)
            assert result["registersPerThread"] == 40 and not result["passes"], result
            assert result["end"] is None, result


@tap.test
def counters_are_kept_for_later():
    for args in (("--replay-batch", "32"), ("--replay-mode", "application")):
        measure("--keep-counters", *args, metrics="smsp__inst_executed.sum")
        assert os.path.getsize("r.counters") > 100
        command = [tap.PROGRAM, "kernel", "--import", "r.wsrep", "--page", "raw", "--csv"]
        command += ["--metrics", "lts__t_sectors.avg,smsp__uncounted.sum"]
        run = subprocess.run(command, env=environment(), capture_output=True, text=True)
        if "no libcupti of CUDA" in run.stderr:  # sanitizers
            continue
        assert run.returncode == 0, run
        assert "do not give these metrics: smsp__uncounted.sum" in run.stderr, run.stderr
        rows = list(csv.reader(run.stdout.splitlines()))
        column = rows[0].index("lts__t_sectors.avg")
        assert [row[column] for row in rows[2:]] == ["4.5"] * 9 + [""], rows
    data = open("r.counters", "rb").read()
    open("r.counters", "wb").write(data[:60] + bytes([data[60] ^ 1]) + data[61:])
    run = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert run.returncode == 1 and "damaged" in run.stderr, run
    os.remove("r.counters")
    run = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert run.returncode == 1 and "--keep-counters" in run.stderr, run


@tap.test
def a_launch_that_the_driver_refuses_spoils_no_other():
    for batch in ("1", "32"):
        out, results = measure("-s", "10", "--replay-batch", batch, what="wrong")
        assert out.startswith(BARE), out
        assert [bool(r["error"]) for r in results] == [False, True, False], results
        assert [r["passes"] for r in results] == [4, 0, 4], results


@tap.test
def an_attribute_that_stays_the_same_ends_no_batch():
    """And CUPTI's profiler, which delays launches, is not used before there is a batch to
    measure."""
    for what, passes in (("same", "0, 0"), ("other", f"{3 * 4}, 1")):
        out, results = measure("-s", "10", what=what)
        assert out.startswith(f"passes {passes}\n{BARE}"), (what, out)
        assert len(results) == 4 and not any(r["error"] for r in results), results


@tap.test
def another_subscriber_is_named():
    out, results = measure(fault="taken")
    assert out.startswith(BARE) and not results, out
    info = tap.run("info", "r.wsrep").out.decode()
    assert "another tool profiles" in info, info


# With its repetitions written out, it has a thousand million characters.
HUGE = "regex:(((a{255}){255}){255}){64}"


@tap.test
def what_makes_no_sense_is_refused():
    for args, word in [
        (("--set", "nosuchset"), "nosuchset"),
        (("-c", "-1"), "--launch-count"),
        (("--devices", "x"), "--devices"),
        (("--replay-mode", "range", "-k", "x"), "measures ranges"),
        (("--graph-profiling", "node", "--replay-mode", "application"), "--replay-mode kernel"),
        (("--kill", "yes"), "--launch-count"),
        (("-k", "regex:("), "is no expression"),
        (("--kernel-id", "1:2:name"), "CONTEXT:STREAM:NAME:NTH"),
        (("--kernel-id", "a:b:c:1"), "context and stream are numbers"),
        (("--kernel-id", "::c:0"), "counted from 1"),
        (("--kernel-id", "::regex:(:1"), "is no expression"),
        (("--kernel-id", ":::("), "is no expression"),
        (("-k", HUGE), "too large"),
        (("--kernel-id", "::%s:1" % HUGE), "too large"),
        (("--section", HUGE), "too large"),
        (("--metrics", HUGE), "too large"),
        (("--nvtx-include", HUGE), "too large"),
        (("-k", "regex:(a)\\1"), "back-references"),
        (("--nvtx-include", ""), "names no range"),
        (("--nvtx-include", "domain@/"), "names no range"),
        (("--nvtx-exclude", "domain@a/regex:(/b"), "is no expression"),
        (("--nvtx-include", "x" * 1024), "is too long"),
        (("--nvtx-include", "x") * 17, "16 times at most"),
        (("--devices", "1,"), "no list of numbers"),
        (("--devices", "64"), "below 64"),
        (("--replay-batch", "0"), "--replay-batch"),
        (("--replay-mode", "app-range", "-k", "x"), "measures ranges"),
        (("--cache-control", "some"), "--cache-control"),
    ]:
        result = tap.run("kernel", *args, "true", ok=False)
        assert result.code == 2 and word in str(result.err), (args, result)


@tap.test
def a_program_without_results_is_told_why():
    for args, what, word in [
        (("-k", "nothing"), "", "Kernels with other names: accumulate, count, plain_read"),
        (("--devices", "1"), "", "chose none of 10 launches."),
        (("--replay-mode", "range"), "", "No range was measured"),
        (("--profile-from-start", "off"), "", "between cudaProfilerStart and cudaProfilerStop"),
        (("--replay-mode", "application", "-k", "nothing"), "", "of 10 launches"),
    ]:
        out, results = measure(*args, what=what)
        assert out.startswith(BARE) and not results, (args, out, results)
        assert word in tap.run("info", "r.wsrep").out.decode(), (args, word)
    unused = subprocess.run(
        [tap.PROGRAM, "kernel", "-f", "-o", "r", "true"], capture_output=True, text=True
    )
    assert "no process of the program has initialised CUDA" in unused.stderr, unused


@tap.test
def a_metric_that_no_chip_has_is_named():
    command = [tap.PROGRAM, "kernel", "-o", "r", "-f", "--metrics", "nosuch__metric", APP]
    run = subprocess.run(command, env=environment(), capture_output=True, text=True)
    # Without the host library of CUDA, nobody knows.
    reasons = ("GH100 has no metric 'nosuch__metric'", "cannot be expanded: no libcupti")
    assert run.returncode == 2 and "nosuch__metric" in run.stderr, run
    assert any(reason in run.stderr for reason in reasons), run


@tap.test
def cupti_is_left_after_the_last_launch():
    for args in (("--replay-batch", "1"), (), SOURCE, ("--cache-control", "none")):
        assert left("-c", "2", *args) == ["left"], args
    assert not left("-k", "accumulate")  # there may be more
    assert not left("-c", "2", fault="kineto")  # the program needs it further


def prepared(*args, passes=4, **options):
    """What the driver was asked to empty the level-2 cache of, and where passes begin."""
    with open("cache", "w", encoding="utf-8"):
        pass
    os.environ["STANDIN_CACHE"] = os.path.abspath("cache")
    out, results = measure("-c", "2", *args, **options)
    del os.environ["STANDIN_CACHE"]
    assert out.startswith(BARE), out
    for result in results:
        assert not result["error"] and result["passes"] == passes, result
        assert result["metrics"]["lts__t_sectors.sum"] == 4.5, result
    with open("cache", encoding="utf-8") as f:
        return f.read().split()


def emptied(*args, **options):
    return [word for word in prepared(*args, **options) if word in ("system", "device")]


@tap.test
def the_driver_empties_the_cache():
    for batch in ("1", "32"):
        both = ["system", "device"]
        assert emptied("--replay-batch", batch) == both * 2 * 4
        assert not emptied("--replay-batch", batch, "--cache-control", "none")
        assert not emptied("--replay-batch", batch, fault="nocache")
        looks = (*SOURCE, "-k", "count", "--replay-batch", batch)
        os.environ["STANDIN_CUBIN"] = os.path.join(HERE, "cubin", "sample.cubin")
        assert emptied(*looks, passes=6) == both * 2 * 6
        del os.environ["STANDIN_CUBIN"]


def count_copies(*args, **options):
    """How often memory was copied on the GPU in each pass; before "units" that of samples."""
    words = prepared(*args, **options)
    starts = [i for i, word in enumerate(words) if word == "pass"]
    passes = [words[a:b].count("copy") for a, b in zip(starts, starts[1:])]
    before = words[: starts[0]]
    samples = before[before.index("units") - 8 :] if "units" in before else []
    return passes, samples.count("copy")


@tap.test
@before_everything_else()
def the_first_pass_finds_what_saving_leaves_in_warm_caches():
    """That of samples over time where there are any, as with Nsight Compute, else one of counters:
    all memory is read before it."""
    os.environ["STANDIN_CUBIN"] = os.path.join(HERE, "cubin", "sample.cubin")
    for batch in ("1", "32"):
        args = ("-k", "accumulate", "--replay-batch", batch)
        for looks, passes in ((), 4), (SOURCE, 6):
            warm, _ = count_copies(*looks, *args, "--cache-control", "none", passes=passes)
            cold, _ = count_copies(*looks, *args, passes=passes)
            assert warm[0] > warm[1] == warm[2] and cold[0] == cold[1], (batch, warm, cold)
        units = {"metrics": METRICS + ",pmsampling:sm__cycles_active.avg", "passes": 5}
        warm, samples = count_copies(*args, "--cache-control", "none", **units)
        cold, others = count_copies(*args, **units)
        assert warm[:3] == cold[:3] and samples > others, (batch, warm, cold, samples, others)
    del os.environ["STANDIN_CUBIN"]


@tap.test
def a_metric_that_the_chip_lacks_is_named():
    known = subprocess.run(
        [tap.PROGRAM, "kernel", "--query-metrics"], env=environment(), capture_output=True
    )
    if known.returncode:  # built with sanitizers: nothing can be looked up
        raise tap.Skip("this build cannot load the stand-in's list of metrics")
    out, results = measure(metrics="nosuch__metric.sum")
    assert out.startswith(BARE), out
    assert results[0]["error"].startswith("GH100 has no metric 'nosuch__metric.sum'"), results[0]


NCU = """#!/bin/sh
# warpsight itself stands for Nsight Compute; what it prints is changed.
shift 5
"%s" kernel -q -f -o theirs "$@" >&2 && "%s" kernel --csv --page raw theirs.wsrep | sed '%s'
"""


@tap.test
def the_bench_compares_with_ncu_by_class():
    bench = os.path.join(HERE, "..", "..", "bench", "kernel.py")
    for change, outside in (("", "0"), ('s/"5000"/"5300"/g', "1")):
        with open("ncu", "w", encoding="utf-8") as f:
            f.write(NCU % (tap.PROGRAM, tap.PROGRAM, change))
        os.chmod("ncu", 0o755)
        command = [sys.executable, bench, "--warpsight", tap.PROGRAM, "--ncu", "./ncu"]
        command += ["--cache-control", "none", "--count", "6", "--", APP]
        run = subprocess.run(command, env=environment(), capture_output=True, text=True)
        assert run.returncode == 0, (run.stdout, run.stderr)
        lines = [line.split() for line in run.stdout.splitlines()]
        assert ["duration", "1", "metrics,", outside, "beyond", "5", "%"] in lines, run.stdout
        assert "launches warpsight 6, ncu 6" in run.stdout, run.stdout
        assert ["passes:", "warpsight", "4,", "ncu", "unknown"] in lines, run.stdout


NVCC = """#!/bin/sh
# The program that this builds says what launches cost: more after the first measured one.
printf '#!/bin/sh\\necho before 3000; echo between 3300; echo after 3010\\n' > "$4"
chmod +x "$4"
"""


@tap.test
def the_bench_says_what_launches_cost():
    bench = os.path.join(HERE, "..", "..", "bench", "kernel_promises.py")
    with open("nvcc", "w", encoding="utf-8") as f:
        f.write(NVCC)
    os.chmod("nvcc", 0o755)
    command = [sys.executable, bench, "--warpsight", tap.PROGRAM, "--nvcc", "./nvcc"]
    command += ["--only", "launches", "--processes", "3"]
    run = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert run.returncode == 0, (run.stdout, run.stderr)
    lines = run.stdout.splitlines()
    assert "bare 3000 ns" in lines[0] and len(lines) == 5, lines
    for line in lines[1:]:
        assert "between, beside before   +300 ns (+300 to +300) <--" in line, line
        assert "after, beside before    +10 ns (+10 to +10)" in line, line


sys.exit(tap.main())
