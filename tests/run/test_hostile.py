"""
test_hostile.py - programs that damage what they are recorded into, by accident or on purpose. The
recorder must go on, pass their status on and leave a report that can be read; tests/record's
fuzzer does the same to its parts, a hundred thousand times.
"""
import os
import re
import sys

from harness import Failed, figure, test

SCRIBBLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "scribble.py")
TRUNCATIONS = int(os.environ.get("WS_TEST_TRUNCATIONS", "100"))


def scribble(t, how, seed=1, *options):
    r = t.profile(
        [sys.executable, SCRIBBLE, how, str(seed)], *options, output=how + str(seed), status=7
    )
    for path in r.reports:
        if t.tool("info", path).status:
            raise Failed("%s: the report of a damaged recording cannot be read" % path)
    return r


@test("hostile")
def damaged_homes(t):
    """The recorder looked up memory of its own by a number that stands in shared memory."""
    for seed in range(3):
        scribble(t, "damage_homes", seed)


@test("hostile")
def damaged_counts(t):
    r = scribble(t, "damage_losses")
    said = [int(n) for n in re.findall(rb"([0-9]+) events were lost", r.err)]
    if any(n > 10**12 for n in said):
        raise Failed("more events than there can have been: %s" % r.said())


@test("hostile")
def damaged_anywhere(t):
    for seed in range(4):
        scribble(t, "damage_anything", seed)


@test("hostile", needs=["root"])
def another_user(t):
    """Of root's recorder, what reads another user's memory has lost most of root's rights."""
    os.chmod(t.work, 0o755)
    program = "sed -nE 's/^(CapEff|CapBnd|NoNewPrivs):.//p' /proc/$PPID/status; exit 7"
    r = t.profile(["/bin/sh", "-c", program], "--run-as=nobody", status=7)
    effective, bounding, no_new = r.out.decode().split()
    for name, number in (("SETUID", 7), ("SYS_MODULE", 16), ("NET_ADMIN", 12), ("MKNOD", 27)):
        if int(effective, 16) >> number & 1 or int(bounding, 16) >> number & 1:
            raise Failed("the recorder still has CAP_%s" % name)
    if no_new != "1":
        raise Failed("the recorder may gain rights by an exec")


@test("hostile")
def truncated_memory(t):
    """Nobody can make the shared memory shorter: who tries it a hundred times while a program
    records into it harms neither that program nor what is recorded.
    """
    script = '"$1" plain 2 400000 & "$2" "$3" truncate; wait $!; exit $?'
    argv = ["/bin/sh", "-c", script, "sh", t.program("storm"), sys.executable, SCRIBBLE]
    r = t.profile(argv, "--trace=nvtx", env={"TIMES": str(TRUNCATIONS)}, status=0)
    t.eq(r.target_err, b"", "what the programs say")
    t.ok(b"truncated" not in r.out + r.err, "the memory was truncated: %s" % r.said())
    db = t.load(r.report)
    t.eq(db.range_count() + db.lost(), 800000, "ranges recorded and lost")
    figure("shared memory: %d attempts to truncate it, no harm" % TRUNCATIONS)


@test("hostile")
def removed_name(t):
    """What is started after somebody has cleaned /dev/shm is recorded all the same."""
    script = 'rm "$WARPSIGHT_SESSION" || exit 9; "$1" plain 1 5000; exit 7'
    r = t.profile(["/bin/sh", "-c", script, "sh", t.program("storm")], "--trace=nvtx", status=7)
    t.eq(t.load(r.report).range_count(), 5000, "ranges recorded")


@test("hostile")
def truncated_file(t):
    """Where the memory is a file, the recorder outlives it and says so."""
    program = (
        "sleep 0.1; %s -c 'import os; os.truncate(os.environ[\"WARPSIGHT_SESSION\"], 0)'; "
        % (sys.executable)
    )
    # Without hooks in the shell, so that it outlives what it recorded into.
    r = t.profile(
        ["/bin/sh", "-c", program + "exit 7"], "-t", "none", env={"WARPSIGHT_ARENA": "file"}
    )
    if r.status != 7 or b"truncated" not in r.err:
        raise Failed("the truncation is not reported: %s" % r.said())


@test("hostile")
def truncated_journal(t):
    """Nothing is lost: what the journal holds is in the recorder's memory too."""
    r = scribble(t, "truncate_journal")
    if b"lost" in r.err:
        raise Failed("a truncated journal cost events: %s" % r.said())


@test("hostile")
def synced(t):
    """--sync writes small blocks, at intervals and at the end, into a report like any other."""
    t.profile(["/bin/sh", "-c", "sleep 0.5; exit 7"], "--sync=0.1", status=7)
    r = t.run(t.profile_argv(["/bin/true"], ["--sync=-1"], "negative"))
    if r.status == 0 or b"--sync" not in r.err:
        raise Failed("a negative interval is taken: %s" % r.said())
