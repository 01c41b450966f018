"""--clock-control base, on a stand-in for NVML: test_clocks.py WARPSIGHT LIBRARY"""

import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap

LIBRARY = os.path.abspath(sys.argv[2])
COMMAND = [tap.PROGRAM, "kernel", "-q", "-f", "-o", "r", "--clock-control", "base"]
COMMAND += ["--metrics", "sm__cycles_active.avg"]


def environment(**more):
    if os.path.exists("clocks"):
        os.remove("clocks")
    env = dict(os.environ, WARPSIGHT_NVML=LIBRARY, STANDIN_CLOCKS=os.path.abspath("clocks"))
    env.pop("CUDA_VISIBLE_DEVICES", None)
    return dict(env, **more)


def clocks():
    return open("clocks").read().split("\n")[:-1] if os.path.exists("clocks") else []


def wait_until(met):
    for _ in range(6000):
        if met():
            return
        time.sleep(0.01)
    raise AssertionError(clocks())


@tap.test
def clocks_are_locked_while_the_program_runs():
    for visible, gpus in [(None, [0, 1, 2]), ("2,GPU-0", [0, 2]), ("1", [1]), ("", [])]:
        more = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
        run = subprocess.run(
            [*COMMAND, "sh", "-c", "cp clocks before; exit 3"],
            env=environment(**more),
            capture_output=True,
            text=True,
        )
        if not gpus:
            assert run.returncode == 1 and "finds no GPU" in run.stderr, run
            continue
        assert run.returncode == 3, run
        assert open("before").read().split("\n")[:-1] == [f"lock {n}" for n in gpus], visible
        assert clocks() == [f"{what} {n}" for what in ("lock", "unlock") for n in gpus], clocks()


@tap.test
def without_permission_the_program_does_not_run():
    run = subprocess.run(
        [*COMMAND, "touch", "ran"],
        env=environment(STANDIN_DENIED="1"),
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1 and "run as root" in run.stderr, run
    assert not os.path.exists("ran")


@tap.test
def clocks_are_unlocked_when_warpsight_is_killed():
    for how in (signal.SIGKILL, signal.SIGINT):
        process = subprocess.Popen(
            [*COMMAND, "sh", "-c", "echo $$ > pid.new; mv pid.new pid; exec sleep 100"],
            env=environment(),
            start_new_session=True,
        )
        wait_until(lambda: os.path.exists("pid"))
        assert len(clocks()) == 3, clocks()
        process.send_signal(how)
        target = int(open("pid").read())
        os.remove("pid")
        wait_until(lambda: len(clocks()) == 6)
        assert sorted(clocks())[3:] == ["unlock 0", "unlock 1", "unlock 2"], clocks()
        if how == signal.SIGKILL:
            os.kill(target, signal.SIGKILL)
        process.wait()


sys.exit(tap.main())
