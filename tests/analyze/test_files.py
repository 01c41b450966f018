#!/usr/bin/env python3
"""Programs and scripts that read files: test_files.py WARPSIGHT.

Reading one file again and again is a fault, whoever does it; reading it once, or many, is none.
Prints TAP.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, HERE)
from findings import analyze, check_absent, check_first
from tap import live, main

SETTINGS = """
import json
def write_settings(name):
    with open(name, "w") as f:
        json.dump({"key%d" % i: [i, "value %d" % i] for i in range(3000)}, f)
def read_setting(name, key):
    with open(name) as f:
        return json.load(f)[key][0]
"""

QUESTIONS = """
i=0
while [ $i -lt 60000 ]; do echo c$((i % 20)) $i; i=$((i + 1)); done > bought.txt
for n in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do
    awk -v who=c$n '{ for (i = 0; i < 20; i++) all += $2 % 7 } $1 == who { sum += $2 }
        END { print who, sum, all }' bought.txt
done > /dev/null
"""


def analyze_python(name, program):
    with open(name + ".py", "w") as f:
        f.write(SETTINGS + program)
    return analyze(name, sys.executable, "-S", name + ".py")


def analyze_shell(name, script):
    with open(name + ".sh", "w") as f:
        f.write(script)
    return analyze(name, "sh", "./" + name + ".sh")


@live
def settings_that_are_read_for_each_request_are_named():
    program = """
write_settings("set.json")
for i in range(300):
    read_setting("set.json", "key7")
"""
    report = analyze_python("again", program)
    check_first(report, "read-again", "set.json", "read_setting", "Read it once")


@live
def many_files_that_are_each_read_once_are_no_fault():
    program = """
for i in range(100):
    write_settings("set%d.json" % i)
for i in range(100):
    read_setting("set%d.json" % i, "key7")
"""
    check_absent(analyze_python("once", program), "read-again")


@live
def processes_of_a_script_that_read_the_same_file_are_named():
    report = analyze_shell("questions", QUESTIONS)
    check_first(report, "read-again", "bought.txt", "20 processes", "awk", "one process")


if __name__ == "__main__":
    main()
