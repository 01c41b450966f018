"""python_calls.py - prints what a call takes, in ns of processor time: of a function that nobody
names, or with the argument "named" of one that figures_python.py names."""
import sys
import time

CALLS = 1000000


def named():
    pass


def other():
    pass


def spend(function):
    since = time.process_time_ns()
    for _ in range(CALLS):
        function()
    return (time.process_time_ns() - since) / CALLS


function = named if sys.argv[1:] == ["named"] else other
print("%.2f" % min(spend(function) for _ in range(5)))
