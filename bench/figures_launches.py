"""figures_launches.py - what launches cost that 'warpsight kernel' does not measure: the hook's own
part, on the tests' stand-in for the driver and CUPTI. CUPTI's part needs a GPU:
kernel_promises.py.
"""
import os

from run import Row, figure

LAUNCHES = 2000000


def count_in(b, way, program):
    """One launch while filters choose nothing, in nanoseconds."""
    home = b.path("toolkit")
    os.makedirs(os.path.join(home, "lib64"), exist_ok=True)
    link = os.path.join(home, "lib64", "libcupti.so.13")
    standins = os.path.join(b.build, "tests", "kernel")
    if not os.path.lexists(link):
        os.symlink(os.path.join(standins, "libcupti.so.13"), link)
    command = ["env", "LD_LIBRARY_PATH=" + standins]
    if way == "driver":
        command.append("STANDIN_FAULT=silent")
    if way:
        command += ["CUDA_HOME=" + home, "WARPSIGHT_KERNEL_LAUNCHES=" + way, b.warpsight]
        command += ["kernel", "-q", "-f", "-o", b.path("launches.wsrep"), "-k", "other"]
        command += ["--metrics", "smsp__inst_executed.sum"]
    return b.command([*command, *program]).value


@figure
def launches_that_are_not_measured(b):
    for threads in (1, 2):
        bench = os.path.join(b.build, "tests", "kernel", "launch_bench")
        program = [bench, str(threads), str(LAUNCHES)]
        times = {"": [], "cupti": [], "driver": []}
        for _ in range(b.runs):
            for way, values in times.items():
                values.append(count_in(b, way, program))
        for way, what in (("cupti", "CUPTI's callback"), ("driver", "before the driver")):
            title = "launch not chosen, %s, %d thread%s" % (what, threads, "s"[: threads - 1])
            yield Row(title, "ns", times[""], times[way], 200 if way == "driver" else None)
