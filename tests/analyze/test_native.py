#!/usr/bin/env python3
"""Whole-command tests of analyze on small programs of C and C++: test_native.py WARPSIGHT. Prints
TAP."""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, HERE)
from findings import analyze, check_absent, check_first
from tap import Skip, live, main

PROGRESS = """
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>
enum { ROWS = 600 };
static atomic_int rows_done;
static double image[ROWS];
static void *render(void *with_rest)
{
    for (int row = 0; row < ROWS; row++) {
        for (int i = 1; i < 300000; i++) image[row] += 1.0 / ((double)i * i + row);
        rows_done++;
    }
    return with_rest;
}
__attribute__((noinline)) static void show_progress(int sleeps)
{
    int shown = 0, now;
    while ((now = rows_done) < ROWS) {
        if (now - shown >= ROWS / 4) {
            shown = now;
            fprintf(stderr, "%d rows\\n", now);
        }
        if (sleeps) usleep(10000);
    }
}
int main(int argc, char **argv)
{
    pthread_t thread;
    (void)argv;
    pthread_create(&thread, NULL, render, NULL);
    if (argc > 1) show_progress(1);
    else show_progress(0);
    pthread_join(thread, NULL);
    printf("%f\\n", image[7]);
}
"""

CHAINS = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { BUCKETS = 64, NAMES = 30000 };
struct symbol { struct symbol *next; unsigned hash; int uses; char name[40]; };
static struct symbol *buckets[BUCKETS];
static unsigned hash_name(const char *s)
{
    unsigned h = 2166136261u;
    while (*s) h = (h ^ (unsigned char)*s++) * 16777619u;
    return h;
}
__attribute__((noinline)) static struct symbol *intern(const char *name)
{
    unsigned h = hash_name(name);
    struct symbol *s;
    for (s = buckets[h % BUCKETS]; s; s = s->next)
        if (s->hash == h && strcmp(s->name, name) == 0) return s;
    s = calloc(1, sizeof *s);
    s->hash = h;
    strcpy(s->name, name);
    s->next = buckets[h % BUCKETS];
    return buckets[h % BUCKETS] = s;
}
int main(void)
{
    char name[40];
    unsigned long r = 1;
    for (int i = 0; i < 120000; i++) {
        r = r * 6364136223846793005ul + 1442695040888963407ul;
        snprintf(name, sizeof name, "entry_%lu", (r >> 33) % NAMES);
        intern(name)->uses++;
    }
    printf("%d\\n", intern("entry_7")->uses);
}
"""

WORDS = """
#include <stdio.h>
#include <string.h>
static char words[8000][32];
static int counts[8000], known;
__attribute__((noinline)) static int find_word(const char *word)
{
    for (int i = 0; i < known; i++)
        if (strcmp(words[i], word) == 0) return i;
    strcpy(words[known], word);
    return known++;
}
int main(void)
{
    unsigned long r = 1;
    for (int i = 0; i < 60000; i++) {
        char word[32];
        r = r * 6364136223846793005ul + 1442695040888963407ul;
        snprintf(word, sizeof word, "word%lu", (r >> 33) % 8000);
        counts[find_word(word)]++;
    }
    printf("%d\\n", counts[0]);
}
"""

# Each process has memory that takes milliseconds to be given back at its end.
SCANS = """
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) static double sharpen(int picture)
{
    double sum = 0;
    for (int i = 1; i < (picture % 2 ? 3000000 : 150000000); i++) sum += 1.0 / i;
    return sum;
}
int main(void)
{
    for (int process = 0; process < 2; process++)
        if (fork() == 0) {
            char *memory = malloc(200 << 20);
            memset(memory, 1, 200 << 20);
            for (int picture = process; picture < 8; picture += 2)
                if (sharpen(picture) < 1) return 1;
            _exit(memory[4096] != 1);
        }
    while (wait(NULL) > 0) {}
}
"""

# Two processes that are always there; each is waited for before the other one is asked.
ASKED = """
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
static void work(int end)
{
    double piece;
    while (read(end, &piece, sizeof piece) == sizeof piece) {
        for (int i = 1; i < 6000000; i++) piece += 1.0 / i;
        if (write(end, &piece, sizeof piece) < 0) break;
    }
    _exit(0);
}
__attribute__((noinline)) static double dispatch(int end, double piece)
{
    if (write(end, &piece, sizeof piece) < 0) exit(1);
    if (read(end, &piece, sizeof piece) != sizeof piece) exit(1);
    return piece + 1;
}
int main(void)
{
    int pairs[2][2];
    for (int i = 0; i < 2; i++) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i])) return 1;
        if (fork() == 0) {
            for (int k = 0; k <= i; k++) close(pairs[k][0]);
            work(pairs[i][1]);
        }
        close(pairs[i][1]);
    }
    double sum = 0;
    for (int i = 0; i < 80; i++) sum += dispatch(pairs[i % 2][0], i);
    for (int i = 0; i < 2; i++) close(pairs[i][0]);
    while (wait(NULL) > 0) {}
    return sum < 0;
}
"""


CLOSES = """
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) static void close_inherited(void)
{
    for (int fd = 3; fd < 12000; fd++) close(fd);
}
int main(void)
{
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();
        if (!child) {
            close_inherited();
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
}
"""

COMMANDS = """
#include <stdlib.h>
__attribute__((noinline)) static int make_folder(void)
{
    return system("mkdir -p made") ? -1 : 0;
}
int main(void)
{
    int failed = 0;
    for (int i = 0; i < 60; i++) failed += make_folder();
    return failed != 0;
}
"""


def build(name, source, compiler="gcc", ending=".c"):
    if not shutil.which(compiler):
        raise Skip("%s is not installed" % compiler)
    with open(name + ending, "w") as f:
        f.write(source)
    subprocess.run([compiler, "-O2", "-g", "-pthread", name + ending, "-o", name], check=True)
    return "./" + name


@live
def a_loop_that_only_looks_at_a_variable_waits_busily():
    report = analyze("progress", build("progress", PROGRESS))
    check_first(report, "busy-waiting", "show_progress", "only reads rows_done")


@live
def a_loop_that_sleeps_between_two_looks_does_not():
    check_absent(analyze("sleeps", build("progress", PROGRESS), "sleeps"), "busy-waiting")


@live
def the_loop_along_a_chain_is_told_as_such():
    report = analyze("chains", build("chains", CHAINS))
    check_first(report, "hot-code", "intern", "chain of a hash table")


@live
def a_list_of_texts_that_is_searched_is_told_as_such():
    report = analyze("words", build("words", WORDS))
    check_first(report, "library-work", "find_word", "linear search")


@live
def processes_that_got_too_little_are_told_by_the_one_that_works():
    report = analyze("scans", build("scans", SCANS))
    check_first(report, "imbalance", "sharpen", "2 threads or processes")
    waited = report["critical_path_by_cause_ns"].get("waiting for a child process", 0)
    if waited > report["window_ns"] / 2:
        raise AssertionError(waited)


@live
def processes_that_are_asked_in_turn_are_named():
    if len(os.sched_getaffinity(0)) < 2:
        raise Skip("one core")
    report = analyze("asked", build("asked", ASKED))
    check_first(report, "work-in-turn", "2 threads or processes", "dispatch", "before it asks")


@live
def what_short_processes_compute_is_not_their_starting():
    report = analyze("closes", build("closes", CLOSES))
    found = [f for f in report["findings"] if f["rule"] == "child-processes"]
    if not found or "what they compute remains" not in found[0]["assumption"]:
        raise AssertionError(found)


@live
def commands_in_a_loop_are_short_processes():
    report = analyze("commands", build("commands", COMMANDS))
    check_first(report, "child-processes", "make_folder", "short processes")
    check_absent(report, "work-in-turn")


if __name__ == "__main__":
    main()
