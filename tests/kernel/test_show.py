"""Results shown in the terminal and for programs: test_show.py WARPSIGHT WRITE_ROWS FOLDER

ncu/ holds what Nsight Compute 2025.3 measured of examples/kernels on an H100.
"""

import csv
import gzip
import io
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap

WRITE_ROWS, FOLDER = (os.path.abspath(path) for path in sys.argv[2:4])
PLANTED = {
    "uncoalesced": "UncoalescedGlobalAccess",
    "bank_conflicts": "SharedMemoryConflicts",
    "tail": "TailEffect",
    "divergence": "ThreadDivergence",
    "registers": "TheoreticalOccupancy",
    "fp64": "DoublePrecision",
}


def recorded(name):
    return os.path.join(FOLDER, "ncu", name + ".csv.gz")


def show(*arguments):
    return tap.run("kernel", *arguments).out.decode()


def fail(*arguments):
    result = tap.run("kernel", *arguments, ok=False)
    assert result.code, (arguments, result)
    return result.err


def judge(path):
    return json.loads(show("--json", path))


def near(value, expected, share=1e-6):
    return abs(value - expected) <= share * abs(expected)


@tap.test
def the_planted_fault_is_the_first_finding_and_the_repair_clears_it():
    for name, rule in PLANTED.items():
        (faulty,), (repaired,) = judge(recorded(name)), judge(recorded(name + "_repaired"))
        findings = [f for f in faulty["findings"] if f["estimate"] is not None]
        assert findings[0]["rule"] == rule, (name, findings[0])
        assert findings[0]["assumption"] and findings[0]["advice"] and findings[0]["evidence"]
        rest = [f for f in repaired["findings"] if f["rule"] == rule]
        assert all(f["estimate"] < 0.05 for f in rest), (name, rest)
        gain = 1 - repaired["duration_ns"] / faulty["duration_ns"]
        estimate = findings[0]["estimate"]
        assert 0.5 < estimate / gain < 2, (name, estimate, gain)


@tap.test
def values_of_nsight_compute_are_imported_in_plain_units():
    (result,) = judge(recorded("uncoalesced"))
    metrics = result["metrics"]
    assert result["gpu"] == "NVIDIA H100 80GB HBM3" and result["chip"] == "GH100"
    assert result["demangled"] == "weigh(const float *, float *, int)", result
    assert result["grid"] == [65536, 1, 1] and result["block"] == [256, 1, 1]
    for name, unit, value in (
        ("gpu__time_duration.sum", "ns", 195008),
        ("dram__bytes_read.sum", "byte", 536893184),
        ("dram__bytes_read.sum.per_second", "byte/s", 2.753185e12),
        ("smsp__inst_executed.sum", "inst", 8912896),
        ("device__attribute_total_memory", "", 85017493504),
    ):
        assert metrics[name]["unit"] == unit, (name, metrics[name])
        assert near(metrics[name]["value"], value), (name, metrics[name])
    assert metrics["launch__func_cache_config"]["value"] == "CachePreferNone"


@tap.test
def occupancy_is_computed_as_nsight_compute_says():
    for name in PLANTED:
        path = "computed.rows"
        (result,) = judge(recorded(name))
        measured = result["metrics"]
        device = {
            "sms": "multiprocessor_count",
            "warp": "warp_size",
            "warps_sm": "max_warps_per_multiprocessor",
            "blocks_sm": "max_blocks_per_multiprocessor",
            "regs_sm": "max_registers_per_multiprocessor",
            "regs_block": "max_registers_per_block",
            "shared_sm": "max_shared_memory_per_multiprocessor",
            "shared_reserved": "reserved_shared_memory_per_block",
            "major": "compute_capability_major",
        }
        columns = "".join(
            f"\t{column}={measured['device__attribute_' + attribute]['value']}"
            for column, attribute in device.items()
        )
        with open(path, "w") as rows:
            rows.write(
                "process\tid=1\tpid=7\tstart=1\tname=app\n"
                f"cuda_device\tprocess=1\tstart=1\tid=0\tname=H100{columns}\n"
                "kernel_result\tstart=2\tprocess=1\tid=0\tname=k\tchip=GH100\ttool=warpsight"
                + "".join(f"\tgrid_{a}={v}" for a, v in zip("xyz", result["grid"]))
                + "".join(f"\tblock_{a}={v}" for a, v in zip("xyz", result["block"]))
                + f"\tregisters={9 if name == 'tail' else measured['launch__registers_per_thread']['value']}"
                f"\tstatic_shared={int(measured['launch__shared_mem_per_block_static']['value'])}"
                f"\texecuted_shared={int(measured['launch__shared_mem_config_size']['value'])}\n"
            )
        with open(path) as rows:
            subprocess.run([WRITE_ROWS, "computed.wsrep"], stdin=rows, check=True)
        (ours,) = judge("computed.wsrep")
        for metric in (
            "launch__occupancy_limit_blocks",
            "launch__occupancy_limit_registers",
            "launch__occupancy_limit_shared_mem",
            "launch__occupancy_limit_warps",
            "sm__maximum_warps_per_active_cycle_pct",
            "launch__waves_per_multiprocessor",
            "launch__thread_count",
            "launch__registers_per_thread",
            "launch__registers_per_thread_allocated",
        ):
            there, here = measured[metric]["value"], ours["metrics"][metric]["value"]
            assert near(here, there, 1e-3), (name, metric, here, there)


@tap.test
def pages_in_the_terminal():
    out = show(recorded("tail"))
    for line in (
        "  GPU: NVIDIA H100 80GB HBM3 (GH100), SM clock 1.98 Ghz",
        "  iterate(float *, int) (272, 1, 1)x(1024, 1, 1), Context 1, Stream 7, Device 0, CC 9.0",
        "    Section: GPU Speed Of Light Throughput",
        "    DRAM Frequency                  Ghz         2.62",
        "    Duration                         us       429.15",
        "    Compute (SM) Throughput           %        67.12",
        "    OPT   Est. Speedup: 31.39%",
    ):
        assert line in out.splitlines(), (line, out)
    assert "Stall Long Scoreboard" not in out
    body = show("--print-details", "all", recorded("tail"))
    assert "Stall Long Scoreboard" in body and "Compute (SM) Throughput Breakdown" in body
    bare = show("--no-rules", recorded("tail"))
    assert "Est. Speedup" not in bare and "Duration" in bare
    raw = show("--page", "raw", recorded("tail"))
    assert any(
        line.split() == ["gpu__time_duration.sum", "us", "429.15"] for line in raw.splitlines()
    ), raw
    spread = show("--print-summary", "per-kernel", recorded("tail"))
    assert "Invocations 1" in spread and "Minimum" in spread
    source = fail("--page", "source", recorded("tail"))
    assert "no metrics of single instructions" in source


@tap.test
def pages_for_programs():
    raw = show("--page", "raw", "--csv", recorded("torch"))
    names, units, *results = csv.reader(io.StringIO(raw))
    assert names[:11] == (
        "ID,Process ID,Process Name,Host Name,Kernel Name,Context,Stream,Block Size,"
        "Grid Size,Device,CC"
    ).split(",")
    assert len(results) == 2 and all(len(row) == len(names) == len(units) for row in results)
    assert {"launch__registers_per_thread", "launch__shared_mem_per_block_static"} <= set(names)
    duration = names.index("gpu__time_duration.sum")
    assert units[duration] == "ns" and [row[duration] for row in results] == ["205696", "175296"]
    # What we write can be read again, with the same values.
    with open("again.csv", "w") as file:
        file.write(raw)
    first, again = judge(recorded("torch")), judge("again.csv")
    for one, other in zip(first, again):
        for key in ("name", "demangled", "grid", "block", "gpu", "duration_ns"):
            assert one[key] == other[key], key
        titles = [[finding["title"] for finding in r["findings"]] for r in (one, other)]
        assert titles[0] == titles[1], titles
    details = csv.DictReader(io.StringIO(show("--csv", recorded("tail"))), restkey="more")
    rows = list(details)
    assert not any("more" in row for row in rows), rows
    (found,) = [row for row in rows if row["Rule Name"] == "TailEffect"]
    assert float(found["Estimated Speedup"]) > 30 and found["Rule Type"] == "OPT"
    (value,) = [row for row in rows if row["Metric Name"] == "Duration"]
    assert value["Metric Value"] == "429152" and value["Metric Unit"] == "ns"


@tap.test
def the_summary_is_sorted_by_what_the_whole_run_could_save():
    rows = [
        "process\tid=1\tpid=7\tstart=1\tname=app\n",
        "cuda_device\tprocess=1\tstart=1\tid=0\tname=H100\tchip=GH100\tsms=132\twarp=32\t"
        "warps_sm=64\tblocks_sm=32\tregs_sm=65536\tregs_block=65536\tshared_sm=233472\tmajor=9\n",
    ]
    for number, (name, duration) in enumerate((("large", 9000), ("frequent", 1000))):
        rows.append(
            f"kernel_result\tstart={number + 5}\tprocess=1\tid={number}\tname={name}\t"
            f"demangled={name}()\tgrid_x=66\tgrid_y=1\tgrid_z=1\tblock_x=256\tblock_y=1\t"
            "block_z=1\tregisters=32\tchip=GH100\ttool=warpsight\n"
            f"kernel_metric\tresult={number}\tname=gpu__time_duration.sum\tunit=nanosecond\t"
            f"value={duration}\n"
        )
    for i in range(20):
        rows.append(
            f"cuda_kernel\tstart={100000 + 2000 * i}\tend={101000 + 2000 * i}\tprocess=1\t"
            "demangled=frequent()\tname=frequent\n"
        )
    text = "".join(rows)
    subprocess.run([WRITE_ROWS, "line.wsrep"], input=text.encode(), check=True)
    by_name = {result["name"]: result for result in judge("line.wsrep")}
    assert by_name["frequent"]["run_ns"] == 20000 and by_name["frequent"]["saved_ns"] == 10000
    assert by_name["large"]["saved_ns"] == 4500
    assert by_name["large"]["metrics"]["gpu__time_duration.sum"]["unit"] == "ns"
    table = show("line.wsrep").splitlines()
    order = [line.split()[2] for line in table if line[:6].strip().isdigit() and "50.0" in line]
    assert order == ["frequent", "large"], table


@tap.test
def without_counters_the_launch_is_shown():
    with open(os.path.join(FOLDER, "results.rows")) as rows:
        subprocess.run([WRITE_ROWS, "refused.wsrep"], stdin=rows, check=True)
    refused = judge("refused.wsrep")[1]
    assert "ERR_NVGPUCTRPERM" in refused["error"]
    assert refused["metrics"]["sm__maximum_warps_per_active_cycle_pct"]["value"] == 100
    assert [f["rule"] for f in refused["findings"]] == ["SmallGrid"], refused["findings"]
    out = show("refused.wsrep")
    assert "Not measured: counters are for administrators only" in out
    assert "Section: Occupancy" in out.split("Not measured")[1]


@tap.test
def the_shape_of_launches_needs_no_counters():
    text = "process\tid=1\tpid=7\tstart=1\tname=app\n"
    for start, ns, name, shape in (
        (
            1000,
            4000,
            "f",
            "grid_x=272\tblock_x=1024\tregisters=16\toccupancy=1\twaves=1.25\tlimiter=1",
        ),
        (
            6000,
            1000,
            "g",
            "grid_x=10\tblock_x=128\tregisters=99\toccupancy=0.5\twaves=0.5\tlimiter=2",
        ),
        (
            8000,
            1000,
            "g",
            "grid_x=10\tblock_x=128\tregisters=99\toccupancy=0.5\twaves=0.5\tlimiter=2",
        ),
        (9500, 500, "h", "grid_x=1\tblock_x=32"),
    ):
        text += (
            f"cuda_kernel\tstart={start}\tend={start + ns}\tprocess=1\tdemangled={name}\t"
            f"name={name}\t{shape}\tgrid_y=1\tgrid_z=1\tblock_y=1\tblock_z=1\n"
        )
    subprocess.run([WRITE_ROWS, "shapes.wsrep"], input=text.encode(), check=True)
    out = tap.run("stats", "-q", "-f", "csv", "-r", "cuda_kern_launch_sum", "shapes.wsrep").out
    rows = list(csv.DictReader(io.StringIO(out.decode())))
    assert [row["Name"] for row in rows] == ["f", "g", "h"], rows
    f, g, h = rows
    assert f["Limiter"] == "block size" and g["Limiter"] == "registers" and h["Limiter"] == ""
    assert float(f["Tail (%)"]) == 37.5 and float(g["Tail (%)"]) == 0 and h["Tail (%)"] == ""
    assert g["Instances"] == "2" and g["Registers"] == "99"
    assert float(g["Occupancy (%)"]) == 50 and h["Occupancy (%)"] == ""


@tap.test
def lists_and_explanations():
    assert "basic (default)" in show("--list-sets")
    sections = show("--list-sections")
    assert "SpeedOfLight " in sections and "SourceCounters" in sections
    assert "UncoalescedGlobalAccess" in show("--list-rules")
    explained = show("--explain", "lts__t_sectors_srcunit_tex_op_read.sum")
    assert "L2 cache" in explained and "32 bytes" in explained and "reads" in explained
    chinese = show("--language", "zh", "--explain", "smsp__issue_active.avg")
    assert "调度器" in chinese
    wrong = fail("--explain", "no_such_thing")
    assert "nothing is known" in wrong
    wrong = fail("--set", "all", "./app")
    assert "no set 'all'" in wrong


@tap.test
def metrics_of_chips_need_the_host_library():
    chips = tap.run("kernel", "--query-metrics", "--chips", "help", ok=False)
    if chips.code:
        assert "libcupti" in chips.err, chips.err
        return
    assert b"GH100" in chips.out.split()
    assert "names no chip" in fail("--query-metrics", "--chips", ",")
    assert "not a regular expression" in fail("--query-metrics", "--metrics", "regex:(")
    metrics = show("--query-metrics", "--chips", "ga100")
    assert "dram__bytes " in metrics and "Throughput" in metrics
    assert "# of bytes accessed in DRAM" in metrics, metrics[:1000]
    table = show(
        "--query-metrics", "--csv", "--chips", "ga100,gh100", "--metrics", "sm__throughput"
    )
    rows = list(csv.DictReader(table.splitlines()))
    assert [row["Chip"] for row in rows] == ["ga100", "gh100"], rows
    assert {(row["Metric Name"], row["Metric Type"], row["Metric Unit"]) for row in rows} == {
        ("sm__throughput", "Throughput", "%")
    }, rows
    some = show("--query-metrics", "--query-metrics-mode", "suffix", "--metrics", "regex:^dram__by")
    assert "dram__bytes_read.sum\n" in some and "sm__" not in some, some[:1000]
    assert "no metric" in fail("--query-metrics", "--metrics", "nosuch")
    forms = show("--query-metrics", "--query-metrics-mode", "suffix")
    assert "dram__bytes.sum.per_second\n" in forms
    wrong = fail("--query-metrics", "--chips", "xx1")
    assert "xx1" in wrong
    listed = show("--list-metrics", "--section", "SchedulerStats")
    assert "smsp__issue_inst0.avg.pct_of_peak_sustained_active" in listed and "1 passes" in listed


@tap.test
def what_is_no_result_is_refused_or_read_as_far_as_it_goes():
    with open("noise.csv", "w") as file:
        file.write(
            '==PROF== Connected to process 7\nhello, "world\n'
            '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream",'
            '"Block Size","Grid Size","Device","CC","gpu__time_duration.sum"\n'
            '"","","","","","","","","","","","us"\n'
            "the program printed this, too\n"
            '"0","7","app","h","f<int, 3>(int, ""x"")","1","7","(32, 1, 1)","(4, 1, 1)","0",'
            '"9.0","1,234.5"\n'
        )
    (result,) = judge("noise.csv")
    assert result["duration_ns"] == 1234500 and result["name"] == "f", result
    assert result["demangled"] == 'f<int, 3>(int, "x")'
    with open("details.csv", "w") as file:
        file.write('"ID","Process ID","Process Name","Host Name","Section Name","Metric Name"\n')
    wrong = fail("details.csv")
    assert "--page raw" in wrong, wrong
    with open("empty.csv", "w") as file:
        file.write('"ID","Process ID","Process Name","Host Name","Kernel Name"\n')
    wrong = fail("--import", "empty.csv")
    assert "holds no results" in wrong, wrong
    tap.run("import", "-f", "-o", "noise.wsrep", "noise.csv")
    assert judge("noise.wsrep")[0]["duration_ns"] == 1234500


@tap.test
def results_are_shown_with_options_after_them():
    with gzip.open(recorded("verdicts"), "rt") as file:
        text = file.read()
    with open("marked.csv", "w", encoding="utf-8") as file:
        file.write("\ufeff" + text)  # as spreadsheets write it
    tap.run("import", "-f", "-o", "marked.wsrep", "marked.csv")
    page = tap.run("kernel", "--page", "raw", "--csv", "marked.csv").out
    for name in "marked.csv", "marked.wsrep":
        assert tap.run("kernel", name, "--page", "raw", "--csv").out == page
    # what is there needs no counters
    assert tap.run("kernel", "marked.csv", "--metrics", "sm__cycles_active.avg,dram__bytes_read")
    assert "--keep-counters" in fail("marked.csv", "--metrics", "sm__cycles_active.avg,nosuch")
    assert "unknown option --nosuch" in fail("marked.csv", "--nosuch")
    with open("empty.csv", "w") as file:
        pass
    assert "empty.csv is empty" in fail("empty.csv")
    assert "cannot open nosuch.wsrep" in fail("nosuch.wsrep")
    with open("run.ncu-rep", "w") as file:
        file.write("NVR")
    assert "--import FILE.ncu-rep" in fail("run.ncu-rep")


@tap.test
def verdicts_are_those_of_nsight_compute():
    """A Triton kernel, a reduction, a bf16 product of cuBLAS and attention of cuDNN, as Nsight
    Compute measured them; its rules say DRAM, DRAM, compute and latency."""
    expected = {
        "softmax": "Mostly bound by memory: device memory (DRAM)",
        "reduce_kernel": "Mostly bound by memory: device memory (DRAM)",
        "nvjet_sm90": "Bound by compute",
        "cudnn_generated": "Bound by latency",
    }
    results = judge(recorded("verdicts"))
    assert len(results) == len(expected)
    for result, (name, verdict) in zip(results, expected.items()):
        assert result["name"].startswith(name), result["name"]
        assert result["findings"][0]["title"].startswith(verdict), result["findings"][0]
        # tensor cores that are busy are no fault, nor are words that all lanes read
        rules = [finding["rule"] for finding in result["findings"]]
        assert "SlowPipeLimiter" not in rules and "UncoalescedSharedAccess" not in rules, rules


sys.exit(tap.main())
