#!/usr/bin/env python3
"""Importing what perf script prints. Prints TAP.

Usage: test_perf_script.py WARPSIGHT [WORD...]; with words, tests whose names hold one of them."""
import sys

from harness import eq, main, test
from traces import PERF


@test
def perf_script_text(t):
    d = t.load(t.write("p.txt", PERF))
    eq(
        [(r["start"], r["cpu"], r["cpuCycles"], r["globalTid"]) for r in d["COMPOSITE_EVENTS"]],
        [(0, 3, 250000, 10 << 24 | 11), (100000000, 3, 250000, 10 << 24 | 11)],
    )
    eq(
        {r["nameId"] for r in d["WARPSIGHT_SYMBOL"]},
        {"native_write_msr", "main", "f(int, A<int> const&)"},
    )
    eq(
        {r["pathId"] for r in d["WARPSIGHT_MODULE"]},
        {"[kernel.kallsyms]", "/usr/bin/prog", "/usr/lib/lib x.so (deleted)"},
    )
    eq(len(d["WARPSIGHT_STACK"]), 2)
    eq(
        [(r["start"], r["nameId"], r["textId"]) for r in d["FTRACE_EVENTS"]],
        [(500000001, "sched:sched_switch", "prev_comm=a ==> next_comm=b")],
    )
    assert "no event of perf script" in t.err


@test
def perf_script_spans_on_cores(t):
    """The kernel's words, those of perf's plug-ins, and --show-switch-events say the same."""
    kernel = """\
swapper     0 [001] 10.000000: sched:sched_waking: comm=my prog pid=11 prio=120 target_cpu=001
swapper     0 [001] 10.000010: sched:sched_wakeup: comm=my prog pid=11 prio=120 target_cpu=001
swapper     0 [001] 10.000100: sched:sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=my prog next_pid=11 next_prio=120
my prog    11 [001] 10.000300: sched:sched_switch: prev_comm=my prog prev_pid=11 prev_prio=120 prev_state=D|K ==> next_comm=other next_pid=22 next_prio=120
other      22 [001] 10.000600: sched:sched_switch: prev_comm=other prev_pid=22 prev_prio=120 prev_state=R+ ==> next_comm=last one next_pid=33 next_prio=120
"""
    plugin = """\
swapper     0 [001] 10.000000: sched:sched_waking: my prog:11 [120] CPU:001
swapper     0 [001] 10.000100: sched:sched_switch: swapper/1:0 [120] R ==> my prog:11 [120]
my prog    11 [001] 10.000300: sched:sched_switch: my prog:11 [120] D ==> other:22 [120]
other      22 [001] 10.000600: sched:sched_switch: other:22 [120] R+ ==> last one:33 [120]
"""
    want = [
        (100000, 300000, 1, 0, 3, 11),
        (300000, 600000, 1, None, 1, 22),
        (600000, None, 1, None, 0, 33),
    ]
    for name, text in (("kernel", kernel), ("plugin", plugin)):
        d = t.load(t.write(name + ".txt", text))
        eq(
            [
                (
                    r["start"],
                    r["end"],
                    r["cpu"],
                    r["wokenTime"],
                    r["endState"],
                    r["globalTid"] & 0xFFFFFF,
                )
                for r in d["WARPSIGHT_SCHED"]
            ],
            want,
            name,
        )
        assert {"my prog", "other", "last one"} <= {r["nameId"] for r in d["ThreadNames"]}, name
    d = t.load(
        t.write(
            "events.txt",
            """\
 prog 10/11 [002] 5.000001: PERF_RECORD_SWITCH_CPU_WIDE IN           prev pid/tid:     0/0
 prog 10/11 [002] 5.000002:     1000 cycles:
	    401136 main+0x10 (/bin/prog)
 prog 10/11 [002] 5.000004: PERF_RECORD_SWITCH_CPU_WIDE OUT preempt  next pid/tid:    20/20
 prog 10/11 [002] 5.000005: PERF_RECORD_MMAP2 10/11: [0x400000(0x1000) @ 0 08:01 5 6]: r-xp /bin/prog
""",
        )
    )
    eq(
        [(r["start"], r["end"], r["cpu"], r["endState"]) for r in d["WARPSIGHT_SCHED"]],
        [(0, 3000, 2, 1)],
    )
    eq(len(d["COMPOSITE_EVENTS"]), 1)
    assert "PERF_RECORD_" in t.err, t.err


@test
def perf_script_of_all_fields(t):
    """What -F leaves out or adds: no thread, no core, branches, source lines, no period, no stack
    but a place.
    """
    cases = {
        "pid and tid": (
            " 10/11 [000] 100.5:  7 cycles:u: \n\t  401136 main+0x10 (/bin/prog)\n\n",
            (0, 7, 10 << 24 | 11),
        ),
        "tid alone": ("  11 100.5:     401136 main (/bin/prog)\n", (None, 1, 11 << 24 | 11)),
        "comm and time": ("a prog 100.5: cycles: \n\t401136 main (/bin/prog)\n", (None, 1, 0)),
        "comm and core": ("a prog [004] 100.5: cycles: \n\t401136 main (/bin/prog)\n", (4, 1, 0)),
        "time alone": ("100.5: cycles: \n\t401136 main (/bin/prog)\n", (None, 1, 0)),
        "branches": (
            (
                "prog 11 [001] 100.5: 9 cycles: \n\t401136 main (/bin/prog)\n\t"
                " 0x401136/0x401150/P/-/-/0  0x1/0x2/M/-/-/3 \n\t401180 start (/bin/prog)\n"
            ),
            (1, 9, 11 << 24 | 11),
        ),
        "source lines": (
            (
                "prog 11 [001] 100.5: 9 cycles: \n\t401136 main+0x3 (/bin/prog)\n "
                " main.c:12\n\t401180 start (/bin/prog)\n  main.c:99\n"
            ),
            (1, 9, 11 << 24 | 11),
        ),
    }
    for name, (text, (cpu, weight, tid)) in cases.items():
        d = t.load(t.write("p.txt", text + "x 1 101.0: cycles: \n\t1234 g (y)\n"))
        first = d["COMPOSITE_EVENTS"][0]
        eq((first["cpu"], first["cpuCycles"]), (cpu, weight), name)
        if tid:
            eq(first["globalTid"], tid, name)
        chain = [r["symbol"] for r in d["SAMPLING_CALLCHAINS"] if r["id"] == first["id"]]
        eq(chain, ["main", "start"] if "start" in text else ["main"], name)


sys.exit(main())
