"""
test_jobs.py - the ranks of jobs: names of their reports, which rank a process is, and what is left
when a launcher kills its ranks.

A launcher starts the ranks of a job side by side, each with variables that say which one it is.
`Job` stands in for one; mpirun itself is used where it is installed.
"""
import json
import os
import shutil
import signal
import subprocess

from harness import Failed, shell_status, test, wait_until

# What launchers set in rank %d of two on one host.
LAUNCHERS = {
    "torchrun": {
        "RANK": "%d",
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "%d",
        "LOCAL_WORLD_SIZE": "2",
        "TORCHELASTIC_RUN_ID": "none",
    },
    "torch.distributed": {"RANK": "%d", "WORLD_SIZE": "2", "LOCAL_RANK": "%d"},
    "Open MPI": {
        "OMPI_COMM_WORLD_RANK": "%d",
        "OMPI_COMM_WORLD_SIZE": "2",
        "OMPI_COMM_WORLD_LOCAL_RANK": "%d",
        "SLURM_PROCID": "0",  # of the script that has started mpirun
    },
    "srun": {
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": "%d",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_TASKS_PER_NODE": "2(x1)",
        "SLURM_LOCALID": "%d",
        "SLURMD_NODENAME": "node7",
    },
    "MPI": {"PMI_RANK": "%d", "PMI_SIZE": "2", "MPI_LOCALRANKID": "%d"},
    "Flux": {"FLUX_TASK_RANK": "%d", "FLUX_JOB_SIZE": "2", "FLUX_TASK_LOCAL_ID": "%d"},
    "jsrun": {
        "JSM_NAMESPACE_RANK": "%d",
        "JSM_NAMESPACE_SIZE": "2",
        "JSM_NAMESPACE_LOCAL_RANK": "%d",
    },
    "Kubernetes": {"JOB_COMPLETION_INDEX": "%d", "POD_NAME": "train-%d"},
}
QUICK = ("-s", "none", "-t", "nvtx")


class Job:
    """Processes that a launcher has started, each a rank."""

    def __init__(self, t, argv, ranks=2, variables=LAUNCHERS["torchrun"], each=None, **popen):
        self.t = t
        self.ranks = [
            t.start(
                argv,
                env={k: v.replace("%d", str(i)) for k, v in variables.items()}
                | (each(i) if each else {}),
                start_new_session=True,
                **popen,
            )
            for i in range(ranks)
        ]

    def end(self, statuses=None):
        """Wait for all; what they wrote to standard error, by rank."""
        said = []
        for i, p in enumerate(self.ranks):
            _, err = p.communicate(timeout=60)
            said.append(err.decode())
            wanted = statuses[i] if statuses else 0
            if shell_status(p.returncode) != wanted:
                raise Failed("rank %d ended with %d: %s" % (i, p.returncode, said[i]))
        return said


def profile(t, target, *options, output="r"):
    return t.profile_argv(target, (*QUICK, *options), output)


def names(t):
    return [os.path.relpath(p, t.work) for p in t.find_reports()]


def ranks_of(t, report):
    return json.loads(t.tool("info", "--json", t.path(report)).out)["ranks"]


@test("jobs")
def ranks_have_reports_of_their_own(t):
    """One -o for all ranks, as launchers give it; each report says which rank it is of."""
    for launcher, variables in LAUNCHERS.items():
        name = launcher.replace(" ", "")
        pods = launcher == "Kubernetes"
        output = name + ".rank%q{JOB_COMPLETION_INDEX}" if pods else name
        Job(t, profile(t, ["true"], output=output), variables=variables).end()
        t.check_clean()
        ranks = ranks_of(t, name + ".rank1")
        t.eq(len(ranks), 1, "processes of %s" % launcher)
        t.eq((ranks[0]["rank"], ranks[0]["launcher"]), (1, launcher), "rank")
        t.eq(ranks[0].get("world_size"), None if launcher == "Kubernetes" else 2, "world")
        t.eq(ranks[0].get("local_rank"), None if launcher == "Kubernetes" else 1, "local rank")
        local = 2 if launcher in ("torchrun", "srun") else None
        t.eq(ranks[0].get("local_world_size"), local, "ranks of the host by %s" % launcher)
        host = {"srun": "node7", "Kubernetes": "train-1"}.get(launcher, os.uname().nodename)
        t.eq(ranks[0]["host"], host, "host")
    wanted = [l.replace(" ", "") + ".rank%d.wsrep" % i for l in LAUNCHERS for i in (0, 1)]
    t.eq(names(t), sorted(wanted), "reports")


@test("jobs")
def names_say_the_rank_where_they_must(t):
    os.mkdir(os.path.join(t.work, "there"))
    for output, left in (
        (None, ["report1.rank0", "report1.rank1"]),
        (None, ["report2.rank0", "report2.rank1"]),
        ("run.v1.wsrep", ["run.v1.rank0", "run.v1.rank1"]),
        ("there", ["there/report1.rank0", "there/report1.rank1"]),
        ("own%q{RANK}", ["own0", "own1"]),
        ("one.rank%q{RANK}", ["one.rank0", "one.rank1"]),
        ("host%h", ["host%s.rank%d" % (os.uname().nodename, i) for i in (0, 1)]),
    ):
        before = set(names(t))
        Job(t, profile(t, ["true"], output=output)).end()
        t.eq(sorted(set(names(t)) - before), [n + ".wsrep" for n in left], "reports of %s" % output)
    before = set(names(t))
    for number, variables in enumerate(
        (
            {"RANK": "1"},  # may mean anything
            {"RANK": "0", "WORLD_SIZE": "1"},  # there is no other
            {"SLURM_PROCID": "0", "SLURM_NTASKS": "2"},  # a script, not a step
            {"JOB_COMPLETION_INDEX": "1"},  # in a pod with a file system of its own
            {"OMPI_COMM_WORLD_RANK": "x", "PMI_RANK": "7", "PMI_SIZE": "2"},
        )
    ):
        Job(t, profile(t, ["true"], output="one%d" % number), 1, variables).end()
    t.eq(sorted(set(names(t)) - before), ["one%d.wsrep" % i for i in range(5)], "no ranks")
    for value, name in (("a.b", "a.b.wsrep"), ("a.wsrep", "a.wsrep")):
        r = t.profile(["true"], *QUICK, output="%q{NAME}", env={"NAME": value}, clean=False)
        t.eq([os.path.basename(report) for report in r.reports], [name], "what a variable makes")
        os.unlink(os.path.join(t.work, name))


@test("jobs")
def a_later_rank_keeps_its_findings_to_itself(t):
    """The example has threads that wait for each other."""
    said = Job(t, t.profile_argv([t.program("demo")])).end()
    t.contains(said[0], r"Generated: .*r.rank0.wsrep.*warpsight: 1\. ", "rank 0")
    t.contains(said[1], "Generated: .*r.rank1.wsrep", "rank 1")
    t.ok("warpsight: 1. " not in said[1], "rank 1 says: " + said[1])


@test("jobs")
def recorders_that_want_one_name_all_get_one(t):
    """Ranks of a launcher that says nothing: none is refused, and none loses its report, also
    where each may replace the reports of the time before: that is a race, so it is run often.
    """
    wait = ["sh", "-c", "until [ -e go ]; do sleep 0.02; done; echo over"]
    for options in ((),) + (("-f",),) * 6:
        job = Job(t, profile(t, wait, *options), 3, {})
        live = wait_until(lambda: sorted(names(t)) == ["r.2.wsrep", "r.3.wsrep", "r.wsrep"], 60)
        t.ok(live, "reports while they are written: %s" % names(t))
        wait_until(lambda: len([f for f in os.listdir(t.work) if f.endswith(".journal")]) == 3, 60)
        t.touch("go")
        said = job.end()
        t.contains("".join(said), "another recorder is writing .*r.wsrep: this report is", "said")
        os.unlink(os.path.join(t.work, "go"))
        t.check_clean()
        for name in ("r", "r.2", "r.3"):
            t.verify(t.path(name))
            t.eq("sh" in t.tool("info", t.path(name)).out.decode(), True, "what was run")
    r = t.profile(["true"], *QUICK, output="r", status=1)
    t.contains(r.messages, "exists already", "a report that is complete is refused")


@test("jobs")
def killed_ranks_lose_nothing(t):
    """One rank fails, and its launcher ends the others: by SIGTERM, and those that live on by
    SIGKILL, the recorder and the program alike."""
    marks = profile(t, [t.program("marks"), "1"])
    job = Job(t, marks, stdin=subprocess.PIPE)
    for p in job.ranks:
        t.eq(t.line(p), b"marking\n", "the program runs")
    # What is in the reports by now stays, whatever comes.
    for name in ("r.rank0", "r.rank1"):
        marks = lambda: t.load(t.path(name)).range_count(kind=34)  # noqa: E731
        t.ok(wait_until(marks, 60, 0.2), "marks of %s" % name)
    job.ranks[0].terminate()
    _, err = job.ranks[0].communicate(timeout=60)
    t.contains(err.decode(), "Generated: .*r.rank0.wsrep", "after SIGTERM")
    os.killpg(job.ranks[1].pid, signal.SIGKILL)
    job.ranks[1].communicate(timeout=60)
    t.verify(t.path("r.rank0"))
    t.eq(t.tool("recover", t.path("r.rank1")).status, 0, "recover")
    for name in ("r.rank0", "r.rank1"):
        report = t.load(t.path(name))
        texts = [text for (text,) in report.sql("SELECT text FROM NVTX_EVENTS WHERE eventType=34")]
        numbers = [int(text.split()[1]) for text in texts]
        t.eq(numbers, list(range(1, len(numbers) + 1)), "marks of %s without a gap" % name)
        t.ge(len(numbers), 1, "marks of %s" % name)


@test("jobs")
def a_large_report_comes_with_advice(t):
    """By a limit that is made small: what most of it is, and the option that makes that less."""
    small = {"WARPSIGHT_LARGE_REPORT": "1"}
    for options, target, words in (
        (
            ("-s", "none", "-t", "osrt", "--osrt-threshold=0", "--osrt-backtrace-depth=0"),
            ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=20000"],
            "a higher --osrt-threshold",
        ),
        (("-s", "none", "-t", "nvtx"), [t.program("marks"), "1", "20000", "0"], "nvtx-domain"),
    ):
        r = t.profile(target, *options, "-f", env=small, timeout=60)
        lines = [l for l in r.messages.splitlines() if " MB, " in l]
        t.eq(len(lines), 1, "lines about the size: %s" % r.messages)
        t.contains(lines[0], r"r.wsrep has [0-9]+ MB, [0-9]+ % of it .*" + words, "advice")
        t.contains(lines[0], "-y 60 -d 30", "advice")
    r = t.profile(["true"], *QUICK, "-f", "--quiet", env={"WARPSIGHT_LARGE_REPORT": "1"})
    t.eq(r.messages, "", "nothing with --quiet")
    r = t.profile(["true"], *QUICK, "-f")
    t.ok(" MB, " not in r.messages, "said of a small report: " + r.messages)


# ---- one recorder for all ranks of a host


def per_node(t, target, *options, output="r"):
    return t.profile_argv(target, ("--per-node", *options), output)


def check_ended(t):
    """The recorder, which is nobody's child, has ended too and left nothing."""
    t.check_clean()
    folder = os.path.join(t.runtime, "warpsight")
    sockets = os.listdir(folder) if os.path.isdir(folder) else []
    t.eq([name for name in sockets if name.endswith(".sock")], [], "sockets")


def pids_of(t, report):
    return {e["rank"]: e["pid"] for e in ranks_of(t, report)}


def marks_of(report, pid):
    """Numbers of the marks of a process."""
    return [
        int(text.split()[1])
        for (text,) in report.sql(
            "SELECT text FROM NVTX_EVENTS JOIN PROCESSES p ON p.globalPid = globalTid / 16777216"
            " * 16777216 WHERE eventType = 34 AND p.pid = ? ORDER BY start",
            pid,
        )
    ]


@test("jobs")
def ranks_of_a_host_share_a_report(t):
    """By each way of getting samples: those of every rank are there."""
    busy = [t.program("busy"), "split", "150"]
    for way in ("wide", "inherit", "none"):
        said = Job(
            t,
            per_node(t, busy, "-t", "nvtx", output=way),
            3,
            each=lambda i: {"WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3", "WARPSIGHT_PERF": way},
        ).end()
        t.contains("".join(said), "Generated: .*%s.wsrep" % way, "said")
        t.eq("".join(said).count("Generated"), 1, "reports that are said")
        check_ended(t)
        pids = pids_of(t, way)
        t.eq(sorted(pids), [0, 1, 2], "ranks")
        report = t.load(t.path(way))
        t.eq(report.meta().get("env.WORLD_SIZE"), "3", "a variable that all ranks have")
        t.eq(report.meta().get("env.RANK"), None, "a variable of one rank")
        counts = dict(
            report.sql(
                "SELECT p.pid, count(*) FROM COMPOSITE_EVENTS JOIN PROCESSES p ON p.globalPid ="
                " globalTid / 16777216 * 16777216 GROUP BY 1"
            )
        )
        for rank, pid in pids.items():
            t.ge(counts.get(pid, 0), 10, "samples of rank %d, %s" % (rank, way))
    t.eq(names(t), ["inherit.wsrep", "none.wsrep", "wide.wsrep"], "reports")


@test("jobs")
def each_rank_ends_as_if_alone(t):
    """Statuses, signals and programs that cannot be run; and the name where hosts may be many."""
    script = "case $RANK in 0) exit 3;; 1) echo ready; exec sleep 600;; esac; read x; echo got $x"
    many = LAUNCHERS["torchrun"] | {"WORLD_SIZE": "9", "LOCAL_WORLD_SIZE": "3"}
    argv = per_node(t, ["sh", "-c", script], *QUICK)
    job = Job(t, argv, 3, many, stdin=subprocess.PIPE)
    t.eq(t.line(job.ranks[1]), b"ready\n", "rank 1 runs")
    job.ranks[1].terminate()
    out, _ = job.ranks[2].communicate(b"this\n", timeout=60)
    t.eq(out, b"got this\n", "standard input and output of rank 2")
    job.end([3, 143, 0])
    check_ended(t)
    host = os.uname().nodename
    t.eq(names(t), ["r.%s.wsrep" % host], "reports")
    t.eq(sorted(pids_of(t, "r." + host)), [0, 1, 2], "ranks")
    many["LOCAL_WORLD_SIZE"] = "1"
    job = Job(t, per_node(t, ["nonexistent"], *QUICK, output="x%h"), 1, many)
    t.contains(job.end([127])[0], "cannot run nonexistent", "said")
    check_ended(t)
    t.eq(names(t)[1:], ["x%s.wsrep" % host], "reports")
    r = t.tool("profile", "--per-node", "--store-output=true", "true")
    t.eq(r.status, 2, "status")
    t.contains(r.messages, "--per-node and --store-output do not go together", "said")
    r = t.tool("profile", "--per-node", "-o", "r.%s.wsrep" % host, "true")
    t.contains(r.messages, "exists already", "said")
    t.eq(r.status, 1, "status of a rank whose recorder cannot begin")
    check_ended(t)


@test("jobs", needs=("root", "mounts"))
def ranks_in_containers_share_no_recorder(t):
    """Each in a pid namespace of its own: they cannot see each other's processes."""
    inside = ["unshare", "-m", "-p", "-f", "--mount-proc"]
    wait = ["sh", "-c", "until [ -e go ]; do sleep 0.02; done"]
    many = LAUNCHERS["torchrun"] | {"WORLD_SIZE": "9", "LOCAL_WORLD_SIZE": "1"}
    job = Job(t, [*inside, *per_node(t, wait, *QUICK)], 2, many)
    host = os.uname().nodename
    wanted = ["r.%s.2.wsrep" % host, "r.%s.wsrep" % host]
    wait_until(lambda: names(t) == wanted, 60)
    t.touch("go")
    job.end()
    check_ended(t)
    t.eq(names(t), wanted, "reports")
    ranks = [e["rank"] for name in wanted for e in ranks_of(t, name)]
    t.eq(sorted(set(ranks)), [0, 1], "ranks")


def start_marks(t, variables):
    """Two ranks that mark until their input ends, the first of which has started the recorder."""
    marks = per_node(t, [t.program("marks"), "1"], *QUICK)
    job = Job(t, marks, 1, variables, stdin=subprocess.PIPE)
    t.eq(t.line(job.ranks[0]), b"marking\n", "rank 0 runs")
    second = {k: v.replace("%d", "1") for k, v in variables.items()}
    job.ranks.append(t.start(marks, env=second, start_new_session=True, stdin=subprocess.PIPE))
    t.eq(t.line(job.ranks[1]), b"marking\n", "rank 1 runs")
    return job


def await_marks(t, pids, least):
    """Until so many marks of each are in the report, which is being written."""
    for pid in pids:
        t.ok(
            wait_until(lambda: len(marks_of(t.load(t.path("r")), pid)) >= least, 60, 0.2),
            "marks of %d" % pid,
        )


@test("jobs")
def a_shared_recorder_outlives_its_ranks(t):
    """The rank that started it is killed, with its program; the other goes on. Then that one is
    killed, and nobody waits for the report: it is written all the same."""
    job = start_marks(t, LAUNCHERS["torchrun"])
    t.ok(wait_until(lambda: len(pids_of(t, "r")) == 2, 60), "both are in the report")
    pids = pids_of(t, "r")
    await_marks(t, pids.values(), 1)
    os.killpg(job.ranks[0].pid, signal.SIGKILL)
    job.ranks[0].communicate(timeout=60)
    seen = len(marks_of(t.load(t.path("r")), pids[1]))
    await_marks(t, [pids[1]], seen + 100)
    os.killpg(job.ranks[1].pid, signal.SIGKILL)
    job.ranks[1].communicate(timeout=60)
    t.ok(wait_until(lambda: not os.path.exists(t.path("r") + ".journal"), 60), "it is closed")
    check_ended(t)
    t.verify(t.path("r"))
    report = t.load(t.path("r"))
    for rank, pid in pids.items():
        numbers = marks_of(report, pid)
        t.eq(numbers, list(range(1, len(numbers) + 1)), "marks of rank %d without a gap" % rank)
        t.ge(len(numbers), 1, "marks of rank %d" % rank)


@test("jobs")
def ranks_outlive_their_shared_recorder(t):
    job = start_marks(t, LAUNCHERS["torchrun"])
    recorder = json.loads(t.tool("sessions", "list", "--json").out)[0]
    pid = [recorder[k] for k in ("id", "ID", "recorder") if k in recorder][0]
    t.ok(wait_until(lambda: len(pids_of(t, "r")) == 2, 60), "both are in the report")
    os.kill(int(pid), signal.SIGKILL)
    for p in job.ranks:
        out, err = p.communicate(timeout=60)
        t.ge(int(out.split()[1]), 1, "marks that a rank has made")
        t.eq(p.returncode, 7, "its status: %s" % err)
        t.contains(err.decode(), "recorder has ended early; 'warpsight recover'", "said")
    t.eq(t.tool("recover", t.path("r")).status, 0, "recover")
    t.tool("sessions", "list")  # removes the socket
    check_ended(t)
    t.eq(len(pids_of(t, "r")), 2, "ranks in the report")


def mpirun(t, flavour):
    program = shutil.which("mpirun." + flavour)
    if not program:
        t.skip("needs mpirun.%s" % flavour)
    start = [program, "-n", "2"]
    if flavour == "openmpi":
        start[1:1] = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    if t.run([*start, "true"]).status:
        t.skip("mpirun.%s cannot start two processes here" % flavour)
    return start


def check_mpirun(t, flavour, launcher):
    start = mpirun(t, flavour)
    r = t.run([*start, *profile(t, ["sh", "-c", "true"], output="in")])
    t.eq(r.status, 0, "status of %s: %s" % (flavour, r.said()))
    r = t.run(profile(t, [*start, "sh", "-c", "true; true"], output="around"))
    t.eq(r.status, 0, "status of warpsight: %s" % r.said())
    t.eq(names(t), ["around.wsrep", "in.rank0.wsrep", "in.rank1.wsrep"], "reports")
    seen = {(e["rank"], e["world_size"], e["launcher"]) for e in ranks_of(t, "around")}
    t.eq(seen, {(0, 2, launcher), (1, 2, launcher)}, "ranks in one report")
    t.contains(t.tool("info", t.path("in.rank1")).out.decode(), "rank 1 of 2, local rank 1", "info")
    r = t.run([*start, *per_node(t, ["sh", "-c", "true"], *QUICK, output="node")])
    t.eq(r.status, 0, "status of %s: %s" % (flavour, r.said()))
    check_ended(t)
    t.eq(sorted(pids_of(t, "node")), [0, 1], "ranks of a host")
    if flavour == "mpich":
        return  # it does not end the others where none has called MPI_Init
    # A rank that fails takes the others with it; their reports stay.
    fail = 'if [ "${OMPI_COMM_WORLD_RANK-$PMI_RANK}" = 1 ]; then exit 9; fi; exec sleep 600'
    r = t.run([*start, *profile(t, ["sh", "-c", fail], output="failed")])
    t.eq(r.status, 9, "status of a failed job: %s" % r.said())
    for name in ("failed.rank0", "failed.rank1"):
        t.ok(wait_until(lambda: os.path.exists(t.path(name)), 60), "%s of %s" % (name, names(t)))
        t.tool("recover", t.path(name))
        t.ge(len(ranks_of(t, name)), 1, "processes of %s" % name)


@test("jobs")
def open_mpi_runs_recorded_ranks(t):
    check_mpirun(t, "openmpi", "Open MPI")


@test("jobs")
def mpich_runs_recorded_ranks(t):
    check_mpirun(t, "mpich", "MPI")
