#!/usr/bin/env python3
"""Write rows (see write_rows.c) of five made-up results of an H100 as a full set measures it, with
lines of source, and of a time line of the same program: make_results.py > ROWS

The figures are plausible and agree with one another: a copy that waits for device memory, a matrix
product on tensor cores, a transposition with bank conflicts, a kernel of a few blocks in double
precision, and one that could not be measured.
"""

CLOCK = 1.755e9
DRAM_CLOCK = 2.62e9
DRAM_PEAK = 3.35e12
SMS = 132
ELAPSED = ".avg.pct_of_peak_sustained_elapsed"
ACTIVE = ".avg.pct_of_peak_sustained_active"
ZERO = 1000000000000

DEVICE = dict(
    process=1, start=ZERO, id=0, name="NVIDIA H100 80GB HBM3", chip="GH100", visible=1,
    l2_bytes=52428800, memory_bytes=85029158912, memory_bandwidth=3352320000000,
    clock_rate=1980000000, sms=SMS, regs_block=65536, shared_block=49152,
    shared_block_optin=232448, shared_sm=233472, shared_reserved=1024, regs_sm=65536, warp=32,
    warps_sm=64, blocks_sm=32, threads_block=1024, major=9, minor=0,
)  # fmt: skip

STATES = """barrier branch_resolving dispatch_stall drain gmma imc_miss lg_throttle long_scoreboard
math_pipe_throttle membar mio_throttle misc no_instruction not_selected selected short_scoreboard
sleeping tex_throttle wait""".split()
PIPES = """alu fma fmaheavy fp64 shared tensor tensor_op_hmma tensor_op_imma tensor_op_dmma
tma""".split()
PIPE_INSTRUCTIONS = """adu alu cbu_pred_on_any fma fma_type_fp16 fp64 lsu tensor_op_dmma
tensor_op_hmma tensor_op_imma tensor_op_gmma tex tma uniform xu""".split()
# What throughputs are made of: shares of the compute throughput and of the memory's.
PARTS = {
    "sm__inst_executed": (0.8, 0),
    "sm__issue_active": (0.81, 0),
    "sm__inst_executed_pipe_lsu": (0.5, 0),
    "sm__pipe_fma_cycles_active": (1, 0),
    "sm__pipe_alu_cycles_active": (0.6, 0),
    "lts__t_sectors": (0, 0.7),
    "lts__d_sectors": (0, 0.5),
    "dram__throughput": (0, 1),
}

KERNELS = [
    dict(
        name="scale", demangled="scale(float *, float, int)", grid=65536, block=256, registers=16,
        us=92.3, compute=21.4, memory=91.2, l1=34.1, l2=45.3, dram=91.2, occupancy=83.1, ipc=0.62,
        states=dict(long_scoreboard=28.4, lg_throttle=3.1, wait=2.2, selected=1, drain=1.1),
        pipes=dict(fma=6, alu=8.8, lsu=12), fp32=0.18e12, loads=524288, stores=524288,
        sectors=4, l1_hit=0, l2_hit=40.2,
    ),
    dict(
        name="sm90_xmma_gemm_bf16", demangled="sm90_xmma_gemm_bf16_tilesize128x256x64_cublas",
        grid=132, block=384, registers=168, shared=213000, us=418.7, compute=88.6, memory=52.3,
        l1=61.0, l2=48.5, dram=24.2, occupancy=18.6, ipc=0.71,
        states=dict(gmma=3.8, math_pipe_throttle=1.3, selected=1, barrier=0.6, wait=0.9),
        pipes=dict(tensor=88.6, tensor_op_hmma=88.6, shared=88.6, alu=7, fma=3, tma=11),
        fp32=0.4e12, tensor=720e12, loads=1200, stores=38000, sectors=16, l1_hit=2, l2_hit=78.4,
        wavefronts=3.1e6, conflicts=0.02,
    ),
    dict(
        name="transpose", demangled="void transpose<float>(T1 *, const T1 *, int)", grid=16384,
        block=1024, registers=24, shared=4096, us=301.4, compute=14.6, memory=62.8, l1=88.1,
        l2=62.8, dram=33.5, occupancy=71.2, ipc=0.33,
        states=dict(mio_throttle=18.5, short_scoreboard=14.2, long_scoreboard=9.6, barrier=7.1,
                    lg_throttle=5.8, wait=1.2, selected=1),
        pipes=dict(alu=7.1, fma=1.4, lsu=31), fp32=0.01e12, loads=524288, stores=524288,
        sectors=32, l1_hit=11, l2_hit=70.5, wavefronts=17.8e6, conflicts=0.94,
    ),
    dict(
        name="force_double", demangled="force_double(double *, int)", grid=96, block=128,
        registers=72, us=6.8, compute=11.9, memory=3.2, l1=2.1, l2=3.2, dram=1.1, occupancy=5.9,
        ipc=0.21, states=dict(wait=3.4, math_pipe_throttle=2.9, long_scoreboard=2.1, selected=1),
        pipes=dict(fp64=11.9, alu=2, fma=0.4), fp64=1.1e12, loads=384, stores=384, sectors=16,
        l1_hit=20, l2_hit=81,
    ),
]  # fmt: skip

# Of the transposition: offset, instruction, line, samples in mio_throttle and short_scoreboard.
SOURCE = [
    (16, "S2R R0, SR_TID.X", 21, 3, 1),
    (64, "LDG.E.CONSTANT R2, [R4.64]", 23, 4, 20),
    (80, "STS [R7], R2", 24, 160, 80),
    (96, "BAR.SYNC 0x0", 25, 6, 30),
    (112, "LDS R5, [R8]", 27, 290, 145),
    (128, "STG.E [R10.64], R5", 28, 120, 60),
]


CODE = ("function", "cubin", "pc", "sass", "file", "line")


def write(table, **columns):
    print("\t".join([table, *(f"{name}={value}" for name, value in columns.items())]))


def launch(number, kernel):
    """A row of kernel_result, but for when it ran."""
    return dict(
        process=1, thread=1, id=number, device=0, context=1, stream=7, correlation=11 + number,
        launch=number, instance=number // 4, demangled=kernel["demangled"], name=kernel["name"],
        mangled=f"_Z{number}", grid_x=kernel["grid"], grid_y=1, grid_z=1, block_x=kernel["block"],
        block_y=1, block_z=1, registers=kernel["registers"], static_shared=kernel.get("shared", 0),
        executed_shared=102400, cache_config=0, replay="kernel", cache_control="all",
        clock_control="none", sections="full", chip="GH100", tool="warpsight",
    )  # fmt: skip


def throughputs(kernel):
    cycles = kernel["us"] * CLOCK / 1e6
    compute, memory = kernel["compute"], kernel["memory"]
    yield "gpu__time_duration.sum", kernel["us"] * 1000, "ns"
    yield "gpc__cycles_elapsed.max", cycles, "cycle"
    yield "gpc__cycles_elapsed.avg.per_second", CLOCK, "hz"
    yield "dram__cycles_elapsed.avg.per_second", DRAM_CLOCK, "hz"
    yield "sm__cycles_active.avg", cycles * 0.93, "cycle"
    yield "sm__throughput" + ELAPSED, compute, "%"
    yield "gpu__compute_memory_throughput" + ELAPSED, memory, "%"
    yield "gpu__compute_memory_access_throughput" + ELAPSED, memory * 0.9, "%"
    yield "gpu__compute_memory_request_throughput" + ELAPSED, memory * 0.8, "%"
    yield "sm__memory_throughput" + ELAPSED, kernel["l1"] * 0.6, "%"
    yield "l1tex__throughput" + ACTIVE, kernel["l1"], "%"
    yield "lts__throughput" + ELAPSED, kernel["l2"], "%"
    yield "gpu__dram_throughput" + ELAPSED, kernel["dram"], "%"
    for name, (of_compute, of_memory) in PARTS.items():
        yield name + ELAPSED, of_compute * compute + of_memory * memory, "%"


def roofline(kernel):
    yield "sm__cycles_elapsed.avg.per_second", CLOCK, "hz"
    yield "smsp__cycles_elapsed.avg.per_second", CLOCK, "hz"
    for kind, lanes, rate in (("f", 128, "fp32"), ("d", 64, "fp64"), ("h", 256, "fp16")):
        operations = kernel.get(rate, 0)
        name = f"sass_thread_inst_executed_op_{kind}"
        yield f"sm__{name}fma_pred_on.sum.peak_sustained", lanes * SMS, "inst/cycle"
        for what, share in (("add", 0.1), ("mul", 0.1), ("fma", 0.4)):
            done = operations * share
            yield f"smsp__{name}{what}_pred_on.sum.per_cycle_elapsed", done / CLOCK, "inst/cycle"
            yield f"smsp__{name}{what}_pred_on.sum", done * kernel["us"] / 1e6, "inst"
    tensor = (("fp16", 4096), ("bf16_dst_fp32", 4096), ("tf32_dst_fp32", 2048), ("int8", 8192))
    for source, lanes in (*tensor, ("fp8", 8192), ("fp64", 256)):
        done = kernel.get("tensor", 0) if source.startswith("bf16") else 0
        yield f"sm__ops_path_tensor_src_{source}.sum.peak_sustained", lanes * SMS, ""
        yield f"sm__ops_path_tensor_src_{source}.sum.per_cycle_elapsed", done / CLOCK, ""
    yield "dram__bytes.sum.peak_sustained", DRAM_PEAK / DRAM_CLOCK, "byte/cycle"
    yield "lts__lts2xbar_cycles_active.sum.peak_sustained", 96, ""
    yield "lts__cycles_elapsed.avg.per_second", CLOCK, "hz"
    yield "lts__lts2xbar_cycles_active.sum.per_second", 96 * CLOCK * kernel["l2"] / 110, "hz"
    yield "l1tex__lsu_writeback_active_mem_lgds.sum.peak_sustained", SMS, ""
    yield "l1tex__cycles_elapsed.avg.per_second", CLOCK, "hz"
    yield "l1tex__lsu_writeback_active_mem_lgds.sum.per_second", SMS * CLOCK * kernel[
        "l1"
    ] / 120, ""


def pipes(kernel):
    used, ipc = kernel["pipes"], kernel["ipc"]
    yield "sm__inst_executed.avg.per_cycle_active", ipc, "inst/cycle"
    yield "sm__inst_executed.avg.per_cycle_elapsed", ipc * 0.93, "inst/cycle"
    yield "sm__inst_issued.avg.per_cycle_active", ipc * 1.01, "inst/cycle"
    yield "sm__inst_issued" + ACTIVE, ipc * 25, "%"
    yield "sm__instruction_throughput" + ACTIVE, max(used.values()), "%"
    for pipe in PIPES:
        yield f"sm__pipe_{pipe}_cycles_active" + ACTIVE, used.get(pipe, 0), "%"
    for pipe in PIPE_INSTRUCTIONS:
        yield f"sm__inst_executed_pipe_{pipe}" + ACTIVE, used.get(pipe, 0) * 0.6, "%"
    for what in ("executed", "issued"):
        done = ipc * kernel["us"] * CLOCK / 1e6 * SMS
        yield f"smsp__inst_{what}.sum", done, "inst"
        yield f"smsp__inst_{what}.avg", done / SMS / 4, "inst"


def memory(kernel):
    moved = DRAM_PEAK * kernel["dram"] / 100
    waves, conflicts = kernel.get("wavefronts", 0), kernel.get("conflicts", 0)
    sectors = kernel["sectors"]
    yield "dram__bytes.sum.per_second", moved, "byte/s"
    for way, share in (("read", 0.6), ("write", 0.4)):
        name = f"dram__bytes_{way}.sum"
        yield name, moved * share * kernel["us"] / 1e6, "byte"
        yield name + ".per_second", moved * share, "byte/s"
        yield name + ".pct_of_peak_sustained_elapsed", kernel["dram"] * share, "%"
        yield f"dram__sectors_{way}.sum", moved * share * kernel["us"] / 32e6, "sector"
    yield "l1tex__t_sector_hit_rate.pct", kernel["l1_hit"], "%"
    yield "lts__t_sector_hit_rate.pct", kernel["l2_hit"], "%"
    for way, count in (("ld", kernel["loads"]), ("st", kernel["stores"])):
        pipe = f"pipe_lsu_mem_global_op_{way}"
        yield f"smsp__sass_inst_executed_op_global_{way}.sum", count, "inst"
        yield f"smsp__sass_inst_executed_op_local_{way}.sum", 0, "inst"
        yield f"smsp__sass_inst_executed_op_shared_{way}.sum", waves * 0.3, "inst"
        yield f"l1tex__t_requests_{pipe}.sum", count, ""
        yield f"l1tex__t_sectors_{pipe}.sum", count * sectors, "sector"
        yield f"l1tex__average_t_sectors_per_request_{pipe}.ratio", sectors, ""
        yield f"l1tex__t_sectors_pipe_lsu_mem_local_op_{way}.sum", 0, "sector"
        yield (
            f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{way}.ratio",
            min(32, 128 / sectors),
            "byte",
        )
        yield f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{way}.sum", waves / 2, ""
        yield (
            f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{way}.sum",
            waves / 2 * conflicts,
            "",
        )
    yield "l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct", kernel["l1_hit"], "%"
    yield "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", waves, ""
    yield "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", waves * conflicts, ""
    yield "lts__t_sectors_aperture_sysmem.sum", 52, "sector"
    yield from second_level(kernel)


def second_level(kernel):
    read = kernel["loads"] * kernel["sectors"] * (1 - kernel["l1_hit"] / 100)
    written = kernel["stores"] * kernel["sectors"]
    hits = kernel["l2_hit"] / 100
    yield "l1tex__m_xbar2l1tex_read_bytes.sum", read * 32, "byte"
    yield "l1tex__m_l1tex2xbar_write_bytes.sum", written * 32, "byte"
    yield "l1tex__m_xbar2l1tex_read_sectors.sum", read, "sector"
    yield "l1tex__m_l1tex2xbar_write_sectors.sum", written, "sector"
    for way, count in (("read", read), ("write", written)):
        yield f"lts__t_requests_srcunit_tex_op_{way}.sum", count / 3, ""
        yield f"lts__t_sectors_srcunit_tex_op_{way}.sum", count, "sector"
        yield f"lts__t_sectors_srcunit_tex_op_{way}_lookup_hit.sum", count * hits, "sector"
    yield "lts__t_sectors_srcunit_tex.sum", read + written, "sector"
    yield "lts__t_sectors_srcunit_tex_lookup_miss.sum", (read + written) * (1 - hits), "sector"
    yield "lts__t_sectors.sum", (read + written) * 1.4, "sector"
    yield "lts__t_sectors_srcunit_tex" + ELAPSED, kernel["l2"] * 0.8, "%"


def warps(kernel):
    states, ipc = kernel["states"], kernel["ipc"]
    yield "smsp__issue_active" + ACTIVE, ipc * 25, "%"
    yield "smsp__issue_active.avg.per_cycle_active", ipc / 4, "warp"
    yield "smsp__issue_inst0" + ACTIVE, 100 - ipc * 25, "%"
    yield "smsp__warps_active.avg.per_cycle_active", kernel["occupancy"] * 0.16, "warp"
    yield "smsp__warps_active.avg.peak_sustained", 16, "warp"
    yield "smsp__warps_eligible.avg.per_cycle_active", ipc * 0.5, "warp"
    yield "smsp__average_warp_latency_per_inst_issued.ratio", sum(states.values()), "cycle"
    yield "smsp__average_warps_active_per_inst_executed.ratio", sum(states.values()), "cycle"
    yield "smsp__thread_inst_executed_per_inst_executed.ratio", 31.6, ""
    yield "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio", 29.8, ""
    for state in STATES:
        name = f"smsp__average_warps_issue_stalled_{state}_per_issue_active.ratio"
        yield name, states.get(state, 0.01), "inst"
    yield "sm__warps_active" + ACTIVE, kernel["occupancy"], "%"
    yield "sm__warps_active.avg.per_cycle_active", kernel["occupancy"] * 0.64, "warp"


def write_result(number, kernel):
    start = ZERO + 100000000 + number * 100000000
    end = start + int(kernel["us"] * 1000)
    write("kernel_result", start=start, end=end, passes=38, **launch(number, kernel))
    for part in (throughputs, roofline, pipes, memory, warps):
        for name, value, unit in part(kernel):
            write("kernel_metric", result=number, name=name, unit=unit, value=f"{value:.6g}")


def write_source(number):
    for offset, instruction, line, *samples in SOURCE:
        where = dict(
            result=number,
            function="_Z9transposeIfEvPT_PKS0_i",
            pc=offset,
            sass=instruction,
            file="/src/transpose.cu",
            line=line,
            cubin=77,
        )
        write("kernel_instruction", ptx=offset // 16, **{k: where[k] for k in CODE})
        for state, count in zip(("mio_throttle", "short_scoreboard"), samples):
            metric = f"smsp__pcsamp_warps_issue_stalled_{state}"
            write("kernel_source", metric=metric, value=count, **where)
        write("kernel_source", metric="smsp__sass_inst_executed.sum", value=524288, **where)


def write_samples(number):
    """Over its time: busy, and less so at the end, in ten intervals of 2 us."""
    sampled = {
        "TPC.TriageCompute.sm__cycles_active" + ELAPSED: [95] * 8 + [60, 20],
        "FBSP.TriageCompute.dramc__read_throughput" + ELAPSED: [10, 80, 80, 80, 80] * 2,
    }
    metrics = {"pmsampling:" + name: sum(v) / len(v) for name, v in sampled.items()}
    for name, value in metrics.items():
        write("kernel_metric", result=number, name=name, unit="%", value=value)
    interval = dict(name="profiler__pmsampler_interval_time", unit="ns", value=2000)
    write("kernel_metric", result=number, **interval)
    write("kernel_metric", result=number, name="profiler__pmsampler_samples", value=10)
    for name, values in sampled.items():
        for i, value in enumerate(values):
            when = dict(start=i * 2000, end=i * 2000 + 2000)
            write("kernel_sample", result=number, metric=name, unit="%", value=value, **when)


def write_texts():
    """What the kernel was made of: lines of source, and a line of PTX for each instruction."""
    for line in range(19, 31):
        write("kernel_text", file="/src/transpose.cu", line=line, text=f"  statement({line});")
    for line in range(1, 10):
        function = "_Z9transposeIfEvPT_PKS0_i"
        write("kernel_text", cubin=77, file=function, line=line, text=f"ptx.line {line};")


def write_timeline():
    """Twelve launches of two of the kernels, and of one that was not measured."""
    time = ZERO + 110000000
    other = dict(name="other", demangled="other()", grid=10, block=32, us=50, registers=16)
    for step in range(12):
        for kernel in (KERNELS[0], KERNELS[2], other):
            end = time + int(kernel["us"] * 1000)
            write(
                "cuda_kernel", start=time, end=end, device=0, context=1, stream=7,
                correlation=100 + step, process=1, demangled=kernel["demangled"],
                name=kernel["name"], grid_x=kernel["grid"], grid_y=1, grid_z=1,
                block_x=kernel["block"], block_y=1, block_z=1, registers=kernel["registers"],
            )  # fmt: skip
            time = end + 3000


def main():
    write("collection", start=ZERO, end=ZERO + 1000000000)
    write("clock", raw=ZERO, realtime=1700000000000000000, ticks=1)
    write(
        "process", id=1, pid=4000, ppid=1, start=ZERO, origin=1, exe="/opt/app", name="app",
        cmdline="./app --size 8192",
    )  # fmt: skip
    write("meta", name="target.command_line", value="./app --size 8192")
    write("thread", id=1, process=1, tid=4000, start=ZERO)
    write("cuda_device", **DEVICE)
    for number, kernel in enumerate(KERNELS):
        write_result(number, kernel)
    refused = dict(KERNELS[0], grid=64)
    error = "counters are for administrators only: ERR_NVGPUCTRPERM"
    write("kernel_result", start=ZERO + 600000000, error=error, **launch(4, refused))
    write_source(2)
    write_samples(2)
    write_texts()
    write_timeline()


main()
