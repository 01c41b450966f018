#!/usr/bin/env python3
"""run.py - run the whole-command tests: run.py --build BUILD-FOLDER [SUITE[/NAME]...], words of
shell pattern.
"""
import argparse
import fnmatch
import os
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import harness  # noqa: E402
import golden  # noqa: E402,F401
import test_attach  # noqa: E402,F401
import test_capture  # noqa: E402,F401
import test_exact  # noqa: E402,F401
import test_flight  # noqa: E402,F401
import test_faults  # noqa: E402,F401
import test_hostile  # noqa: E402,F401
import test_hotkey  # noqa: E402,F401
import test_jobs  # noqa: E402,F401
import test_kill  # noqa: E402,F401
import test_live  # noqa: E402,F401
import test_metrics  # noqa: E402,F401
import test_options  # noqa: E402,F401
import test_others  # noqa: E402,F401
import test_programs  # noqa: E402,F401
import test_sampling  # noqa: E402,F401
import test_sampling_events  # noqa: E402,F401
import test_sampling_stacks  # noqa: E402,F401
import test_sessions  # noqa: E402,F401
import test_starts  # noqa: E402,F401
import test_streams  # noqa: E402,F401
import test_traps  # noqa: E402,F401
import test_target  # noqa: E402,F401
import test_tree  # noqa: E402,F401
import test_views  # noqa: E402,F401


def main():
    p = argparse.ArgumentParser(description="Whole-command tests of warpsight; prints TAP.")
    p.add_argument(
        "--build",
        default=os.path.join(HERE, "..", "..", "build"),
        help="build folder of meson (default: build)",
    )
    p.add_argument("--list", action="store_true", help="list the tests and end")
    p.add_argument("--keep", action="store_true", help="keep the folders that tests work in")
    p.add_argument("--part", metavar="I/N", help="run every N-th of the tests from the I-th")
    p.add_argument("pattern", nargs="*", help="suite, or suite/name, with shell wildcards")
    a = p.parse_args()
    golden.collect(os.path.join(HERE, "golden"))
    chosen = [
        t
        for t in harness.TESTS
        if not a.pattern
        or any(fnmatch.fnmatch(t[0], w) or fnmatch.fnmatch(t[0] + "/" + t[1], w) for w in a.pattern)
    ]
    if a.part:
        number, parts = map(int, a.part.split("/"))
        chosen = chosen[number - 1 :: parts]
    if a.list:
        print("\n".join("%s/%s" % t[:2] for t in chosen))
        return 0
    if not chosen:
        print("Bail out! no test is called %s" % " ".join(a.pattern))
        return 1
    # What nohup or a shell's & made this process ignore, every program under test would ignore too.
    for sig in (
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGTERM,
        signal.SIGUSR1,
        signal.SIGALRM,
    ):
        if signal.getsignal(sig) == signal.SIG_IGN:
            signal.signal(
                sig, signal.default_int_handler if sig == signal.SIGINT else signal.SIG_DFL
            )
    build = os.path.abspath(a.build)
    where = harness.Where(
        os.path.join(build, "warpsight"),
        os.path.join(build, "tests", "run"),
        os.path.join(HERE, "programs"),
    )
    return harness.main(where, chosen, a.keep)


if __name__ == "__main__":
    sys.exit(main())
