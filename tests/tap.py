"""tap.py - what whole-command tests in Python share: TAP, and the program that is tested, which is
the first word of their command line.

A script either checks as it goes (`check`, then `done`), or declares tests, functions that raise
when something is wrong, which `main` runs one after the other in a folder that is theirs.
"""
import collections
import functools
import os
import shutil
import subprocess
import sys
import tempfile

PROGRAM = os.path.abspath(sys.argv[1])
Result = collections.namedtuple("Result", "code out err")
TESTS = []
CHECKS = []  # whether each was right


# ---- checks ----


def check(name, ok, detail=""):
    CHECKS.append(bool(ok))
    print("%sok %d - %s" % ("" if ok else "not ", len(CHECKS), name))
    if not ok:
        for line in str(detail).splitlines()[:20]:
            print("# " + line[:1000])


def check_equal(name, got, want=True):
    check(name, got == want, "got  %.2000r\nwant %.2000r" % (got, want))


def done():
    """The exit status."""
    print("1..%d" % len(CHECKS))
    return not all(CHECKS)


# ---- tests ----


class Skip(Exception):
    """Raised by a test that cannot be made here: why."""


# Instrumented for races the program is some twenty times slower. What arbitrary numbers do to it is
# tested by the build that checks memory.
RACES_ONLY = os.environ.get("WS_TEST_SANITIZE") == "thread"


def skip_where_only_races_count():
    if RACES_ONLY:
        raise Skip("arbitrary numbers are tested without the thread sanitizer")


def test(f):
    TESTS.append(f)
    return f


def live(f):
    """A test that records a program and judges its times. On a busy machine threads may wait for
    cores so long that something else is the largest; so it is tried again, and why is printed.
    """

    @functools.wraps(f)
    def try_often(tries=5):
        for left in range(tries - 1, -1, -1):
            try:
                return f()
            except AssertionError as e:
                if not left:
                    raise
                load = "load %.1f on %d cores" % (os.getloadavg()[0], os.cpu_count())
                print("# %s again (%s): %.500s" % (f.__name__, load, " ".join(str(e).split())))

    return test(try_often)


def run(*args, ok=True, **kw):
    p = subprocess.run(
        [PROGRAM, *args],
        stdin=subprocess.DEVNULL,
        stdout=kw.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        **kw,
    )
    r = Result(p.returncode, p.stdout, p.stderr.decode())
    if ok and r.code:
        raise AssertionError("%s: exit %d, %s" % (args, r.code, r.err))
    return r


def same(got, want, what=""):
    if got != want:
        raise AssertionError(
            "%s\ngot:    %s\nwanted: %s" % (what, repr(got)[:3000], repr(want)[:3000])
        )


def refused(*args, words=(), code=None, **kw):
    """The command fails, with one line on stderr that has these words, and prints nothing."""
    r = run(*args, ok=False, **kw)
    same(r.code != 0, True, "exit status of %r" % (args,))
    if code is not None:
        same(r.code, code, "exit status of %r: %s" % (args, r.err))
    same(r.err.count("\n"), 1, "lines on stderr: " + r.err)
    for word in words:
        if word not in r.err:
            raise AssertionError("%r is not in %r" % (word, r.err))
    same(r.out or b"", b"", "output")
    return r


def part_of(tests, part):
    """Every n-th of the tests from the i-th, for a part "i/n": what one of n programs runs that
    meson starts side by side.
    """
    number, _, parts = part.partition("/")
    return tests[int(number) - 1 :: int(parts)]


def main(only=()):
    """Run the tests, or those of these names (--part=i/n: a part of them); the exit status."""
    parts = [word[len("--part=") :] for word in only if word.startswith("--part=")]
    only = [word for word in only if not word.startswith("--part=")]
    folder = tempfile.mkdtemp(prefix="warpsight-test-")
    os.chdir(folder)
    wanted = [f for f in TESTS if not only or f.__name__ in only]
    for part in parts:
        wanted = part_of(wanted, part)
    print("1..%d" % len(wanted))
    failed = 0
    for n, f in enumerate(wanted, 1):
        try:
            f()
            print("ok %d - %s" % (n, f.__name__))
        except Skip as e:
            print("ok %d - %s # SKIP %s" % (n, f.__name__, e))
        except Exception as e:  # any surprise is a failure of this test alone
            failed += 1
            print("not ok %d - %s" % (n, f.__name__))
            for line in ("%s: %s" % (type(e).__name__, e)).splitlines():
                print("# " + line)
        sys.stdout.flush()
    os.chdir("/")
    shutil.rmtree(folder)
    return failed > 0
