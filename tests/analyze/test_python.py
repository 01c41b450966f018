#!/usr/bin/env python3
"""Whole-command tests of analyze on programs of Python: test_python.py WARPSIGHT.

Programs with one fault each are recorded; the fault must be what is named first. Prints TAP.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import Skip, live, main, run


def analyze(name, program):
    with open(name + ".py", "w") as file:
        file.write(program)
    path = name + ".wsrep"
    run("profile", "-q", "-f", "-o", path, sys.executable, "-S", name + ".py")
    return json.loads(run("analyze", "-f", "json", path).out)[0]


def find_first(name, program, rule):
    """The first finding of a program, which has to be of this rule."""
    report = analyze(name, program)
    for one in report["not_looked"]:
        if one["rule"] == rule:
            raise Skip(one["why"])
    found = report["findings"]
    if not found or found[0]["rule"] != rule:
        raise AssertionError("not found first: %s, but %s" % (rule, json.dumps(found, indent=1)))
    return found[0]


def check_words(finding, *words):
    for word in words:
        if word not in finding["title"]:
            raise AssertionError("%s is not in: %s" % (word, finding["title"]))


@live
def a_task_that_awaits_in_a_loop_is_named():
    program = """import asyncio
def think():
    for i in range(20000): pass
async def answer(number):
    think()
    await asyncio.sleep(0.01)
    think()
    return number
async def gather_all():
    total = 0
    for number in range(60):
        total += await answer(number)
asyncio.run(gather_all())
"""
    found = find_first("turns", program, "blocking-io")
    check_words(found, "gather_all (turns.py:12) awaits answer (turns.py:", "in a loop")


@live
def tasks_that_a_semaphore_holds_up_are_named():
    program = """import asyncio
def think():
    for i in range(20000): pass
async def ask(number):
    think()
    await asyncio.sleep(0.01)
    think()
async def ask_within(sem, number):
    async with sem:
        await ask(number)
async def ask_all():
    sem = asyncio.Semaphore(1)
    await asyncio.gather(*(ask_within(sem, i) for i in range(60)))
asyncio.run(ask_all())
"""
    found = find_first("semaphore", program, "blocking-io")
    check_words(found, "ask_within (semaphore.py:10) awaits ask", "under a lock or semaphore")


@live
def a_function_that_calls_itself_is_said_to():
    program = """def ways(n):
    if n < 2: return 1
    return ways(n - 1) + ways(n - 2)
ways(31)
"""
    found = find_first("ways", program, "hot-code")
    check_words(found, "at ways (ways.py:", "calls itself, ", " levels deep")


MESSAGES = """import logging, os
log = logging.getLogger("orders")
logging.basicConfig(level=logging.%s, stream=open(os.devnull, "w"))
def describe(order):
    return ", ".join(str(item) for item in sorted(order))
def handle(order):
    log.debug(
        "order %%s",
        describe(order))
for i in range(6000):
    handle(range(200))
"""


@live
def messages_that_are_not_written_are_named():
    found = find_first("messages", MESSAGES % "INFO", "unused-messages")
    check_words(found, "not written at handle (messages.py:9)")


@live
def messages_that_are_written_are_no_fault():
    found = analyze("written", MESSAGES % "DEBUG")["findings"]
    if any(one["rule"] == "unused-messages" for one in found):
        raise AssertionError(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
