"""Counters that an H100 counted, evaluated by CUPTI's host library: test_images.py WARPSIGHT
WRITE_ROWS FOLDER

counters/matmul.counters is what `warpsight kernel --keep-counters` kept of a launch of a matrix
product of 1024 x 1024 floats in tiles of 16 x 16, and matmul.csv the values that were evaluated
there, on the machine with the GPU. Nothing is asked where the library is not.
"""

import csv
import io
import math
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap

WRITE_ROWS, FOLDER = (os.path.abspath(path) for path in sys.argv[2:4])
PID, LAUNCH = 833, 11
ROWS = f"""\
collection	start=1000	end=2000000
clock	raw=1000	realtime=1700000000000000000	ticks=1
process	id=1	pid={PID}	ppid=1	start=1000	origin=1	exe=/opt/app	cmdline=./app	name=app
thread	id=1	process=1	tid={PID}	start=1000
kernel_result	start=1000	end=277224	process=1	thread=1	launch={LAUNCH}	name=matmul	\
demangled=matmul	chip=GH100	grid_x=64	grid_y=64	grid_z=1	block_x=16	block_y=16	block_z=1
"""
# What a kernel of 2^30 multiplications and additions executes: a warp does 32 at once. The same
# figures of its sectors and bytes have to agree with one another.
FMA = ("smsp__inst_executed_pipe_fmaheavy.sum", "smsp__inst_executed_pipe_fmalite.sum")
FURTHER = (
    "smsp__inst_executed.sum", "sm__inst_executed.sum", "sm__inst_executed_pipe_lsu.sum",
    "dram__bytes_read.sum", "dram__sectors_read.sum", "l1tex__m_xbar2l1tex_read_bytes.sum",
    "l1tex__m_xbar2l1tex_read_sectors.sum", "gpu__time_duration.max",
)  # fmt: skip


def has_library():
    return not tap.run("kernel", "--query-metrics", "--chips", "help", ok=False).code


def make_report():
    shutil.copy(os.path.join(FOLDER, "counters", "matmul.counters"), "matmul.counters")
    subprocess.run([WRITE_ROWS, "matmul.wsrep"], input=ROWS.encode(), check=True)


def evaluate(names):
    if not os.path.exists("matmul.wsrep"):
        make_report()
    pages = tap.run(
        "kernel", "--import", "matmul.wsrep", "--metrics", ",".join(names), "--page", "raw", "--csv"
    )
    heads, units, row = list(csv.reader(io.StringIO(pages.out.decode())))
    return dict(zip(heads, row)), dict(zip(heads, units)), pages.err


@tap.test
def values_are_those_of_the_machine_with_the_gpu():
    if not has_library():
        return
    with open(os.path.join(FOLDER, "counters", "matmul.csv")) as file:
        expected = {row["metric"]: float(row["value"]) for row in csv.DictReader(file)}
    values, units, _ = evaluate(expected)
    assert len(expected) == 78
    for name, value in expected.items():
        assert math.isclose(float(values[name]), value, rel_tol=1e-8), (name, values[name], value)
    wanted = {
        "gpc__cycles_elapsed.avg.per_second": "hz",
        "sm__warps_active.avg.per_cycle_active": "warp",
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": "%",
        "gpu__time_duration.sum": "ns",
    }
    assert {name: units[name] for name in wanted} == wanted, units


@tap.test
def further_metrics_agree_with_what_the_kernel_does():
    if not has_library():
        return
    values, units, _ = evaluate(FMA + FURTHER)
    value = {name: float(values[name]) for name in FMA + FURTHER}
    assert value["smsp__inst_executed.sum"] == value["sm__inst_executed.sum"] == 94404608
    # a multiplication for each, and the indices of the two tiles that a thread loads in each round
    assert (1 << 25) < sum(value[name] for name in FMA) < 1.1 * (1 << 25), value
    assert value["dram__bytes_read.sum"] == 32 * value["dram__sectors_read.sum"] == 12613120
    sectors = value["l1tex__m_xbar2l1tex_read_sectors.sum"]
    assert value["l1tex__m_xbar2l1tex_read_bytes.sum"] == 32 * sectors, value
    assert value["gpu__time_duration.max"] == 276224
    assert units["dram__bytes_read.sum"] == "byte", units


@tap.test
def counters_that_were_not_measured_are_named():
    if not has_library():
        return
    _, _, err = evaluate(
        ["smsp__inst_executed.sum", "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum"]
    )
    assert "do not give these metrics: l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum" in err, err


sys.exit(tap.main())
