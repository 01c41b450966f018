#!/usr/bin/env python3
"""Whole-command tests of analyze: test_analyze.py WARPSIGHT PLANTED PLANTED_DEBUG [PLANTED_CLANG].

Programs with one fault each are recorded; the fault must be what is named first. Prints TAP.
"""
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, HERE)
from findings import check_sums, first_fault, read_findings
from tap import Skip, live, main, run, same, test

PLANTED, PLANTED_DEBUG = (os.path.abspath(name) for name in sys.argv[2:4])
PLANTED_CLANG = os.path.abspath(sys.argv[4]) if len(sys.argv) > 4 else None


def record(name, *command):
    path = name + ".wsrep"
    run("profile", "-q", "-f", "-o", path, *command)
    return path


# ---- programs on the CPU ----


def check_planted(fault, rule, place):
    report = read_findings(record(fault, PLANTED, fault))
    check_sums(report)
    found = first_fault(report, rule)
    if place not in found["title"]:
        raise AssertionError("%s is not in: %s" % (place, found["title"]))


@live
def sleeping_is_named_with_its_function():
    check_planted("sleep", "sleeping", "wait_a_while")


@live
def waits_that_only_a_time_limit_ends_are_named():
    check_planted("limit", "sleeping", "wait_for_limit")


@live
def a_server_that_sleeps_is_named_and_not_its_client():
    needs_kernel_samples(read_findings(record("server", PLANTED, "server")))
    check_planted("server", "sleeping", "answer_slowly")


@live
def spin_locks_of_the_program_itself_are_named():
    check_planted("ownspin", "busy-waiting", "take_spin_lock")


@test
def locks_of_python_are_named():
    program = """
import threading
lock = threading.Lock()
def hold_lock():
    for i in range(60):
        with lock:
            sum(range(60000))
threads = [threading.Thread(target=hold_lock) for i in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
"""
    with open("locks.py", "w") as f:
        f.write(program)
    report = read_findings(record("locks", sys.executable, "-S", "locks.py"))
    needs_kernel_samples(report)
    found = [f for f in report["findings"] if f["severity"] in ("warning", "critical")]
    if not found or found[0]["rule"] not in ("lock-contention", "gil"):
        raise AssertionError(json.dumps(report["findings"]))
    if "hold_lock" not in found[0]["title"]:
        raise AssertionError(found[0]["title"])


@live
def contended_locks_are_named():
    check_planted("lock", "lock-contention", "update_total")


@live
def a_semaphore_used_as_a_lock_is_named():
    check_planted("semaphore", "lock-contention", "use_in_turns")


@live
def processes_that_wait_for_the_lock_of_a_file_are_named():
    check_planted("flock", "lock-contention", "use_file_in_turns")


@live
def threads_that_wait_for_the_allocator_are_named():
    """Nothing records such waits by name: samples in the kernel tell."""
    for _ in range(5):
        report = read_findings(record("arena", PLANTED, "arena"))
        needs_kernel_samples(report)
        titles = [f["title"] for f in report["findings"] if f["rule"] == "lock-contention"]
        if titles:
            break
    else:
        # Threads that take turns on a core that others use as well do not wait for each other.
        if os.getloadavg()[0] > len(os.sched_getaffinity(0)):
            raise Skip("the machine is busy")
    if "memory allocator" not in titles[0] or "allocate_pieces" not in titles[0]:
        raise AssertionError(titles[0])


@live
def a_program_that_is_bound_to_one_core_is_named():
    if os.cpu_count() < 2 or len(os.sched_getaffinity(0)) < 2:
        raise Skip("there is only one core")
    for _ in range(3):
        findings = read_findings(record("bound", PLANTED, "bound"))["findings"]
        titles = [f["title"] for f in findings if f["rule"] == "oversubscription"]
        if titles:
            break
    else:
        # Where other programs use all cores, hardly anything of its run is its own waiting.
        if os.getloadavg()[0] > len(os.sched_getaffinity(0)):
            raise Skip("the machine is busy")
    told = "bound to one core" in titles[0] and "at stay_on_one_core" in titles[0]
    if not told or titles[0] != findings[0]["title"]:
        raise AssertionError(json.dumps(findings, indent=1))


@live
def unequal_shares_are_named():
    check_planted("imbalance", "imbalance", "2 threads")


@live
def page_faults_are_named():
    check_planted("pages", "page-faults", "touch_pages")


def needs_kernel_samples(report):
    for one in report["not_looked"]:
        if one["rule"] == "small-io":
            raise Skip(one["why"])


def check_call(fault, rule, place, call):
    """A fault that only samples in the kernel show."""
    report = read_findings(record(fault, PLANTED, fault))
    needs_kernel_samples(report)
    title = first_fault(report, rule)["title"]
    if place not in title or not any(name in title for name in call.split()):
        raise AssertionError("%s and %s are not in: %s" % (place, call, title))


@live
def spinning_threads_are_named():
    check_planted("spin", "busy-waiting", "hold_spinlock")


@live
def calls_that_change_protections_are_named():
    check_call("protect", "page-faults", "protect_page", "mprotect")


@live
def asking_until_a_time_limit_is_over_is_named():
    check_planted("polls", "blocking-io", "until a time limit is over, 20 times")


@live
def small_writes_are_named():
    check_call("bytes", "small-io", "put_byte", "write")


@live
def numbers_read_at_random_places_are_named():
    check_call("seek", "small-io", "read_number_at", "read lseek lseek64")


@live
def large_writes_are_no_fault():
    report = read_findings(record("blocks", PLANTED, "blocks"))
    same([f["id"] for f in report["findings"] if f["rule"] == "small-io"], [])


@live
def system_calls_are_named():
    check_call("stat", "system-calls", "look_at_file", "stat fstatat64 newfstatat")


@live
def files_opened_for_each_line_are_named():
    check_call("files", "system-calls", "append_line", "open open64 openat close unlink")


@live
def a_thread_for_each_task_is_named():
    check_planted("threads", "thread-churn", "run_threads")


@live
def a_message_for_each_byte_is_named():
    check_planted("pipe", "handovers", "ask_o")


@live
def a_worker_with_the_longest_share_is_named():
    check_planted("crew", "imbalance", "4 threads")


@live
def what_one_thread_does_alone_is_named():
    check_planted("serial", "serial-section", "planted")


@live
def a_variable_that_threads_change_all_the_time_is_named():
    if os.uname().machine != "x86_64" or len(os.sched_getaffinity(0)) < 2:
        raise Skip("no x86-64, or one core")
    check_planted("atomics", "shared-lines", "change one variable by atomic instructions")


@live
def threads_that_run_one_after_the_other_are_named():
    if len(os.sched_getaffinity(0)) < 2:
        raise Skip("one core")
    check_planted("sequence", "serial-section", "4 threads run one after the other")


@live
def short_threads_that_run_one_after_the_other_are_named():
    if len(os.sched_getaffinity(0)) < 2:
        raise Skip("one core")
    check_planted(
        "short-sequence",
        "serial-section",
        "waited for before the next is started at start_and_join",
    )


@live
def calls_that_ask_many_descriptors_are_named():
    check_planted("descriptors", "many-descriptors", "poll at find_written")


@live
def short_children_of_the_users_program_are_a_fault():
    check_planted("processes", "child-processes", "start_process")


@live
def short_children_whose_output_is_read_are_a_fault():
    check_planted("popen", "child-processes", "ask_shell")


@live
def short_children_of_a_script_of_the_users_are_a_fault():
    """A few are a shell's work."""
    script = "for i in $(seq %d); do /bin/true; done\n"
    found = {}
    for count in 20, 250:
        with open("children.sh", "w") as file:
            file.write(script % count)
        report = read_findings(record("script", "/bin/sh", "children.sh"))
        found[count] = [f["severity"] for f in report["findings"] if f["rule"] == "child-processes"]
    same(set(found[20]) <= {"note"}, True, found)
    same(set(found[250]) <= {"warning", "critical"} and len(found[250]) == 1, True, found)


@live
def short_children_of_a_part_of_a_script_are_named():
    """What stands behind a pipe runs in a process of its own."""
    with open("pipe.sh", "w") as file:
        file.write("seq 250 | while read -r line; do /bin/echo $line >/dev/null; done\n")
    title = first_fault(
        read_findings(record("pipe-script", "/bin/sh", "pipe.sh")), "child-processes"
    )["title"]
    if "(mostly echo)" not in title:
        raise AssertionError(title)


@live
def programs_that_subshells_of_a_script_start_are_told_apart():
    with open("fields.sh", "w") as file:
        file.write(
            "# cut and sed for each line\n"
            "for i in $(seq 120); do\n"
            '    x=$(echo "$i:a" | cut -d: -f1)\n'
            '    y=$(echo "$x" | sed s/1/2/; :)\n'
            "done\n:\n"
        )
    finding = first_fault(read_findings(record("fields", "sh", "fields.sh")), "child-processes")
    texts = finding["title"] + finding["advice"]
    for words in r"\d+ cut, ", r"\d+ sed", "cut at line 3", "sed at line 4", "one awk or sed":
        if not re.search(words, texts):
            raise AssertionError(finding)


@live
def copying_a_large_process_is_named():
    for _ in range(5):  # on a busy machine the children may take longer than the copying
        report = read_findings(record("fork", PLANTED, "fork"))
        needs_kernel_samples(report)
        titles = [f["title"] for f in report["findings"] if f["rule"] == "child-processes"]
        if titles and "copy_process" in titles[0] and "fork itself" in titles[0]:
            return
    raise AssertionError(json.dumps(report["findings"], indent=1))


@live
def allocating_one_by_one_is_named():
    path = record("lists", PLANTED, "lists")
    names = run("report", "-q", "-f", "csv", path).out
    if b"_int_malloc" not in names and b"_int_free" not in names:
        raise Skip("the C library's functions have no names")
    title = first_fault(read_findings(path), "library-work")["title"]
    if "allocating and freeing" not in title or "make_list" not in title:
        raise AssertionError(title)


@live
def workers_side_by_side_are_no_short_children():
    report = read_findings(record("workers", PLANTED, "workers"))
    check_sums(report)
    if any(f["rule"] == "child-processes" for f in report["findings"]):
        raise AssertionError(json.dumps(report["findings"]))


@live
def short_children_of_python_are_named():
    program = "import subprocess\nfor i in range(25): subprocess.run(['/bin/true'])\n"
    found = first_fault(
        read_findings(record("children", sys.executable, "-S", "-c", program)), "child-processes"
    )
    if int(found["title"].split()[0]) < 20:
        raise AssertionError(found["title"])


@live
def processes_that_compute_one_after_the_other_are_named():
    program = (
        "import subprocess, sys\n"
        "def convert():\n"
        "    work = 'sum(i * i for i in range(900000))'\n"
        "    subprocess.run([sys.executable, '-S', '-c', work])\n"
        "for i in range(6): convert()\n"
    )
    with open("turns.py", "w") as file:
        file.write(program)
    if len(os.sched_getaffinity(0)) < 2:
        raise Skip("one core")
    report = read_findings(record("turns", sys.executable, "-S", "turns.py"))
    found = first_fault(report, "children-in-turn")
    if "6 processes" not in found["title"] or "convert (turns.py:4)" not in found["title"]:
        raise AssertionError(found["title"])


@live
def the_slowest_stage_of_a_pipeline_is_named():
    if len(os.sched_getaffinity(0)) < 2:
        raise Skip("one core")
    check_planted("stages", "slow-reader", "is the slowest stage of a pipeline")


@live
def the_slowest_of_threads_with_queues_is_named():
    if len(os.sched_getaffinity(0)) < 2:
        raise Skip("one core")
    check_planted("queues", "slow-stage", "is the slowest stage")


@live
def readers_that_lock_for_writing_are_told_so():
    report = read_findings(record("writers", PLANTED, "writers"))
    advice = first_fault(report, "lock-contention")["advice"]
    if "take the lock for reading" not in advice:
        raise AssertionError(advice)


@live
def what_is_done_under_a_lock_is_named():
    check_planted("held", "lock-contention", "nanosleep at sleep_with_lock")


@live
def short_processes_live_on_after_exec():
    """What a child does before exec and after it is one process."""
    with open("naps.sh", "w") as file:
        file.write("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do x=$(sleep 0.03); done\n:\n")
    report = read_findings(record("naps", "sh", "naps.sh"))
    found = [f for f in report["findings"] if f["rule"] == "child-processes"]
    title = found[0]["title"] if found else ""
    each = re.match(r"1\d short processes \(mostly sleep\) .* \(([0-9.]+) ms each\)", title)
    if not each or float(each[1]) < 20:
        raise AssertionError(report["findings"])


@live
def what_a_process_writes_and_nobody_reads_is_named():
    reader = "import sys, time\nfor line in sys.stdin: time.sleep(0.004)"
    program = (
        "import subprocess, sys\n"
        "def log(stream):\n"
        "    stream.write(b'.' * 4000 + b'\\n')\n"
        "    stream.flush()\n"
        "child = subprocess.Popen([sys.executable, '-S', '-c', %r], stdin=subprocess.PIPE)\n"
        "for i in range(150): log(child.stdin)\n"
        "child.stdin.close()\n"
        "child.wait()\n"
    )
    with open("reader.py", "w") as file:
        file.write(program % reader)
    if len(os.sched_getaffinity(0)) < 2:
        raise Skip("one core")
    report = read_findings(record("reader", sys.executable, "-S", "reader.py"))
    found = [f for f in report["findings"] if f["rule"] == "slow-reader"]
    if not found or "log (reader.py:4)" not in found[0]["title"]:
        raise AssertionError(report["findings"])
    if found[0]["severity"] not in ("warning", "critical"):
        raise AssertionError(found)


@live
def rand_in_several_threads_is_named():
    report = read_findings(record("draws", PLANTED, "draws"))
    title = first_fault(report, "library-work")["title"]
    if "rand()" not in title or "draw_numbers" not in title:
        raise AssertionError(title)


@live
def a_function_that_calls_itself_is_said_to():
    report = read_findings(record("recursion", PLANTED, "recursion"))
    title = first_fault(report, "hot-code")["title"]
    if "count_ways" not in title or "which calls itself" not in title:
        raise AssertionError(title)


def needs_machine_code():
    if os.uname().machine != "x86_64":
        raise Skip("machine code of x86-64 only")


@live
def a_matrix_read_by_columns_is_named():
    needs_machine_code()
    title = first_fault(read_findings(record("columns", PLANTED, "columns")), "hot-code")["title"]
    if "add_columns" not in title or "each round goes 24000 bytes on" not in title:
        raise AssertionError(title)


@live
def atomic_variables_behind_pointers_are_named():
    needs_machine_code()
    check_planted("pointers", "shared-lines", "2 threads change variables by atomic instructions")


@live
def what_a_script_does_before_it_becomes_the_program_is_left_out():
    with open("start.sh", "w") as file:
        file.write(
            "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do /bin/true; done; exec %s sleep\n" % PLANTED
        )
    report = read_findings(record("started", "/bin/sh", "start.sh"))
    rules = [f["rule"] for f in report["findings"]]
    same((rules[0], "child-processes" in rules), ("sleeping", False), rules)


@live
def a_build_without_optimisation_is_named():
    report = read_findings(record("debug", PLANTED_DEBUG, "healthy"))
    with open(PLANTED_DEBUG, "rb") as f:
        if b" -O0" not in f.read():
            raise Skip("this compiler does not note its options")
    title = first_fault(report, "debug-build")["title"]
    if "compute" not in title:
        raise AssertionError(title)


@live
def a_build_of_clang_without_optimisation_is_named():
    """Clang does not note its options; how it describes variables shows the build."""
    if not PLANTED_CLANG:
        raise Skip("there is no clang")
    report = read_findings(record("clang", PLANTED_CLANG, "healthy"))
    title = first_fault(report, "debug-build")["title"]
    if "compute" not in title:
        raise AssertionError(title)


@live
def a_program_that_computes_has_no_fault():
    report = read_findings(record("healthy", PLANTED, "healthy"))
    check_sums(report)
    bad = [f for f in report["findings"] if f["severity"] in ("warning", "critical")]
    same(bad, [])


# ---- the end of a recording ----


@live
def profile_ends_with_what_costs_most():
    end = run("profile", "-f", "-o", "end.wsrep", PLANTED, "sleep").err
    if "wait_a_while" not in end or len(end.splitlines()) > 12:
        raise AssertionError(end)
    for option in ("--no-findings", "--quiet"):
        quiet = run("profile", option, "-f", "-o", "end.wsrep", PLANTED, "sleep").err
        if "wait_a_while" in quiet:
            raise AssertionError(quiet)


if __name__ == "__main__":
    main()
