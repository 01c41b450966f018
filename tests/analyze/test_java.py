#!/usr/bin/env python3
"""Whole-command tests of analyze on programs of Java: test_java.py WARPSIGHT. Prints TAP."""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, HERE)
from findings import analyze, check_absent, check_first
from tap import Skip, live, main

VISITORS = """
public class Visitors {
    static final Object door = new Object();
    static long sum;
    static long work(long v) {
        for (int i = 0; i < 60000; i++) v = v * 6364136223846793005L + 1442695040888963407L;
        return v;
    }
    static void enter(boolean in_turns, long n) {
        if (in_turns) synchronized (door) { sum += work(n); }
        else work(n);
    }
    public static void main(String[] args) throws Exception {
        boolean in_turns = args.length > 0;
        Thread[] threads = new Thread[3];
        for (int i = 0; i < 3; i++) {
            threads[i] = new Thread(() -> { for (int n = 0; n < 6000; n++) enter(in_turns, n); },
                                    "visitor-" + i);
            threads[i].start();
        }
        for (Thread thread : threads) thread.join();
        System.out.println(sum);
    }
}
"""


BYTES = """
public class Bytes {
    static long count(java.io.InputStream in) throws java.io.IOException {
        long words = 0;
        for (int c; (c = in.read()) >= 0;) if (c <= ' ') words++;
        return words;
    }
    public static void main(String[] args) throws java.io.IOException {
        System.out.println(count(new java.io.FileInputStream(args[0])));
    }
}
"""


QUEUE = """
import java.util.ArrayList;
import java.util.List;
public class Queue {
    static long drain(List<Integer> jobs) {
        long sum = 0;
        while (!jobs.isEmpty()) sum += jobs.remove(0);
        return sum;
    }
    public static void main(String[] args) {
        long sum = 0;
        for (int round = 0; round < 4; round++) {
            List<Integer> jobs = new ArrayList<>();
            for (int i = 0; i < 100000; i++) jobs.add(i);
            sum += drain(jobs);
        }
        System.out.println(sum);
    }
}
"""


IN_TURN = """
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
public class InTurn {
    static double compute(int task) {
        double sum = 0;
        for (int i = 1; i < 400000; i++) sum += Math.sin(i * 0.001 * task);
        return sum;
    }
    static double compute_all(ExecutorService pool) throws Exception {
        double sum = 0;
        for (int i = 0; i < 60; i++) {
            int task = i;
            sum += pool.submit(() -> compute(task)).get();
        }
        return sum;
    }
    public static void main(String[] args) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(2);
        System.out.println(compute_all(pool));
        pool.shutdown();
    }
}
"""


def compile_java(name, text):
    if not shutil.which("javac"):
        raise Skip("no compiler of Java is installed")
    with open(name + ".java", "w") as f:
        f.write(text)
    subprocess.run(["javac", name + ".java"], check=True)


def analyze_java(name, *arguments):
    compile_java("Visitors", VISITORS)
    return analyze(name, "java", "-cp", ".", "Visitors", *arguments)


@live
def threads_that_wait_for_a_monitor_are_named():
    report = analyze_java("monitor", "in turns")
    titles = [f["title"] for f in report["findings"] if f["rule"] == "lock-contention"]
    if not titles or "a monitor of Java" not in titles[0] or "Visitors.enter" not in titles[0]:
        raise AssertionError(report["findings"])


@live
def the_method_that_reads_single_bytes_is_named():
    compile_java("Bytes", BYTES)
    with open("bytes.txt", "w") as f:
        f.write("some words in a line\n" * 60000)
    report = analyze("bytes", "java", "-cp", ".", "Bytes", "bytes.txt")
    check_first(report, "small-io", "Bytes.count", "buffer")


@live
def what_a_costly_method_does_is_told():
    compile_java("Queue", QUEUE)
    report = analyze("queue", "java", "-cp", ".", "Queue")
    check_first(report, "hot-code", "Queue.drain", "moves all items", "ArrayDeque")


@live
def a_method_that_the_interpreter_runs_is_named():
    """The interpreter's code is the same for all methods: which one runs is kept in its frame."""
    compile_java(
        "Interpreted", QUEUE.replace("class Queue", "class Interpreted").replace("100000", "40000")
    )
    report = analyze("interpreted", "java", "-Xint", "-cp", ".", "Interpreted")
    titles = [f["title"] for f in report["findings"] if f["severity"] != "ok"]
    if not titles or "Interpreted.drain" not in titles[0]:
        raise AssertionError(titles)


@live
def tasks_of_an_executor_that_are_waited_for_in_turn_are_named():
    compile_java("InTurn", IN_TURN)
    report = analyze("in-turn", "java", "-cp", ".", "InTurn")
    check_first(report, "work-in-turn", "InTurn.compute_all", "submit all")


@live
def threads_that_work_side_by_side_wait_for_none():
    check_absent(analyze_java("sidebyside"), "lock-contention")


if __name__ == "__main__":
    main()
