"""test_options.py - what `profile` takes, says and ends with: the name of the report, exit
statuses, options, windows of time.
"""
import os
import re
import signal
import socket

from harness import children_of, reap, test, wait_until


# Rows of these would be lost, too.
NO_CPU = ["--sample=none", "--cpuctxsw=none", "--system-metrics=none"]


def tree(t, *args):
    return [t.program("tree"), *args]


def names(r):
    return [os.path.basename(p) for p in r.reports]


# ---- the report's name


@test("options")
def default_name_counts_up(t):
    for i in (1, 2, 3):
        r = t.profile(tree(t, "work"), output=None, status=0)
        t.eq(names(r), ["report%d.wsrep" % i], "reports")
    os.unlink(os.path.join(t.work, "report2.wsrep"))
    r = t.profile(tree(t, "work"), output=None, status=0)
    t.ok(names(r)[0] in ("report2.wsrep", "report4.wsrep"), "a free name: %s" % names(r))


@test("options")
def names_with_and_without_extension(t):
    os.mkdir(os.path.join(t.work, "sub"))
    for given, expected in (
        ("plain", "plain.wsrep"),
        ("ext.wsrep", "ext.wsrep"),
        ("sub/in", "sub/in.wsrep"),
        ("dots.v1.2", "dots.v1.2.wsrep"),
    ):
        t.profile(tree(t, "work"), output=given, status=0)
        t.ok(
            os.path.exists(os.path.join(t.work, expected)),
            "%s makes %s; there is %s" % (given, expected, t.find_reports()),
        )


@test("options")
def name_that_is_a_directory(t):
    """-o dir/ puts a report with the default name into it."""
    os.mkdir(os.path.join(t.work, "out"))
    r = t.profile(tree(t, "work"), output="out/", status=0)
    t.ok(
        len(r.reports) == 1 and os.path.dirname(r.reports[0]).endswith("out"),
        "reports: %s" % r.reports,
    )


@test("options")
def name_in_a_missing_directory(t):
    """Either it is made or refused before the target starts; never silence."""
    r = t.profile(tree(t, "work"), output="missing/dir/r")
    if r.status == 0:
        t.eq(len(r.reports), 1, "reports")
    else:
        t.contains(r.messages, "missing/dir", "message")
        t.ok(b"work" not in r.out, "the target was not started")


@test("options")
def placeholders(t):
    r = t.profile(tree(t, "work"), output="a-%p-%h-%q{WS_T}-%%", env={"WS_T": "value"}, status=0)
    host = socket.gethostname()
    name = names(r)[0]
    parts = name.split("-")
    t.ok(parts[1].isdigit(), "%%p is a number in %s" % name)
    t.ok(("-%s-value-%%.wsrep" % host) in name, "host, variable and percent sign in %s" % name)


@test("options")
def placeholder_n_counts(t):
    for _ in range(3):
        t.profile(tree(t, "work"), output="n%n", status=0)
    t.eq(len(t.find_reports()), 3, "reports %s" % t.find_reports())


@test("options")
def placeholder_p_is_the_targets_pid(t):
    r = t.profile(["/bin/sh", "-c", "echo $$"], output="%p", status=0)
    t.eq(names(r), [r.out.decode().strip() + ".wsrep"], "report named by pid")


@test("options")
def unknown_placeholder_is_refused(t):
    r = t.profile(tree(t, "work"), output="x%Z")
    t.ok(r.status != 0 and "%Z" in r.messages, r.said())
    t.eq(r.out, b"", "the target did not run")


@test("options")
def variable_that_is_not_set(t):
    r = t.profile(tree(t, "work"), output="x%q{WS_NOT_SET}")
    t.eq(len(r.reports), 1, "one report (%s)" % r.said())
    t.verify(r.reports[0])


@test("options")
def existing_report_is_kept_without_f(t):
    t.profile(tree(t, "work"), status=0)
    with open(t.path("r"), "rb") as f:
        before = f.read()
    r = t.profile(tree(t, "work"))
    with open(t.path("r"), "rb") as f:
        t.eq(f.read(), before, "the old report")
    t.ok(r.status != 0 and "r.wsrep" in r.messages and "-f" in r.messages, r.said())
    t.eq(r.out, b"", "the target did not run")


@test("options")
def existing_report_is_replaced_with_f(t):
    for word in ("-f", "--force-overwrite", "--force-overwrite=true"):
        t.profile(tree(t, "work"), word, status=0)
        r = t.profile(tree(t, "fork"), word, status=7)
        t.eq(len(t.load(r.report).processes()), 2, "images in the new report")
    r = t.profile(tree(t, "work"), "-f", "true", status=0)
    t.eq(r.out, b"work\n", "true after -f is its value")


@test("options")
def old_report_stays_when_the_new_run_cannot_begin(t):
    t.profile(tree(t, "work"), status=0)
    with open(t.path("r"), "rb") as f:
        before = f.read()
    r = t.profile(["/nonexistent/program"], "-f")
    t.eq(r.status, 127, "exit status")
    with open(t.path("r"), "rb") as f:
        t.eq(f.read(), before, "the old report")


# ---- exit statuses


@test("options")
def command_not_found(t):
    for target in (["/nonexistent/program"], ["no-such-program-anywhere"]):
        # a folder of PATH that may not be searched would make it "permission denied", as execvp
        # says
        r = t.profile(target, status=127, env={"PATH": "/usr/bin:/bin"})
        t.contains(r.messages, target[0], "message")
        t.eq(r.reports, [], "reports")


@test("options")
def command_not_executable(t):
    path = os.path.join(t.work, "file")
    with open(path, "w") as f:
        f.write("x")
    r = t.profile([path], status=126)
    t.contains(r.messages, "file", "message")
    r = t.profile([t.work], status=126)
    t.contains(r.messages, "it is a directory", "message")
    t.eq(r.reports, [], "reports")
    with open(path, "w") as f:
        f.write("#!/nonexistent/interpreter\n")
    os.chmod(path, 0o755)
    r = t.profile([path], status=127)
    t.contains(r.messages, "interpreter", "message")
    r = t.profile([""], status=127)
    t.contains(r.messages, "it has no name", "message")


@test("options")
def nothing_to_run(t):
    r = t.tool("profile")
    t.ok(r.status == 2 and r.messages, r.said())
    r = t.tool("profile", "--trace=osrt", "--")
    t.ok(r.status == 2 and r.messages, r.said())


@test("options")
def exit_statuses_of_the_target(t):
    for n in (0, 1, 2, 42, 126, 127, 255):
        t.same(tree(t, "work", str(n)), "-f")


@test("options")
def death_by_signal(t):
    for sig in (
        signal.SIGTERM,
        signal.SIGKILL,
        signal.SIGINT,
        signal.SIGHUP,
        signal.SIGUSR1,
        signal.SIGPIPE,
        signal.SIGALRM,
    ):
        r = t.same(tree(t, "kill", str(int(sig))), "-f", "--trace=osrt")
        t.eq(r.status, 128 + sig, "exit status")
        t.verify(r.report)


@test("options")
def crash_is_recorded(t):
    for case, sig in (("crash", signal.SIGSEGV), ("abort", signal.SIGABRT)):
        r = t.same(tree(t, case), "-f", "--trace=osrt")
        t.eq(r.status, 128 + sig, "exit status")
        db = t.load(r.report)
        t.eq(db.calls().get("usleep"), 1, "the sleep before the end")


# ---- options, their forms and their refusal


@test("options")
def unknown_option_names_the_nearest(t):
    r = t.profile(tree(t, "work"), "--tracee=osrt", output="x", status=2)
    t.contains(r.messages + r.err.decode(), "trace", "message")
    t.eq((r.out, r.reports), (b"", []), "nothing ran, nothing was written")


@test("options")
def unknown_trace_is_refused(t):
    r = t.profile(tree(t, "work"), "--trace=osrt,nonsense", status=2)
    t.contains(r.err.decode(), "nonsense", "message")
    t.eq(r.out, b"", "nothing ran")


@test("options")
def traces_that_come_later_are_left_out_with_a_word(t):
    for word in ("openxr", "wddm"):
        r = t.profile(tree(t, "work"), "-f", "true", "-t", "osrt," + word, status=0)
        t.contains(r.messages, "warning: --trace=%s: not built yet, left out" % word, "warning")
        t.eq(t.load(r.report).calls().get("usleep"), 1, "the rest is recorded with " + word)
        r = t.profile(tree(t, "work"), "-f", "true", "--strict", "-t", "osrt," + word, status=2)
        t.contains(r.messages, word, "message")
        t.eq(r.out, b"", "nothing ran with --strict")


@test("options")
def the_best_known_command_line_records(t):
    """It is in many tutorials; what it asks for and does not get is said, in the report too."""
    line = (
        "-w true -t cuda,nvtx,osrt,cudnn,cublas,cudla -s cpu --cudabacktrace=true "
        "--cudabacktrace-threshold=10000 --osrt-threshold=10000 -x true --duration-frames=60"
    )
    ranges = " --capture-range=cudaProfilerApi --stop-on-range-end=true"
    r = t.profile(tree(t, "work"), *(line + ranges).split(), output="none", status=0)
    t.eq(r.out, b"work\n", "the target's output")
    t.contains(r.messages, "did not call cudaProfilerStart: there is no report", "messages")
    t.eq(r.reports, [], "reports")
    r = t.profile(tree(t, "work"), *line.split(), status=0)
    t.eq(r.out, b"work\n", "the target's output")
    db = t.load(r.report)
    t.eq(db.calls().get("usleep"), 1, "calls are recorded")
    for words in (
        "--trace=cudla: not built yet; cuda is used instead",
        "--duration-frames: frames of graphics are not counted",
        "The report is not limited to the range that was asked for.",
    ):
        t.contains(r.messages, words, "messages")
        t.contains(t.tool("info", r.report).out.decode(), words, "info")
    t.ok("--trace=cublas" not in r.messages, "cublas and cudnn are traced")
    t.ok(b"has no effect" not in r.messages.encode(), "no word about what was understood")
    for asked, why in (
        (line, "--trace=cudla"),
        ("--duration-frames 1", "--duration-frames:"),
    ):
        r = t.profile(tree(t, "work"), "-f", "--strict", *asked.split(), status=2)
        t.contains(r.messages, "profile: " + why, "--strict")
        t.eq(r.out, b"", "nothing ran with --strict")


@test("options")
def a_value_in_the_next_word_is_not_the_target(t):
    """Of options that are left out, too."""
    line = "--session-new try -c cudaProfilerApi --gpu-metrics-device 0 --syscall none -Y false"
    r = t.profile(tree(t, "work"), *line.split(), "--isr", "false", "-x", "true", status=0)
    t.eq(r.out, b"work\n", "the target's output")


@test("options")
def both_forms_of_options(t):
    for form in (["--trace=osrt"], ["--trace", "osrt"], ["-t", "osrt"], ["-tosrt"]):
        r = t.profile(tree(t, "work"), *form, "-f", "true", status=0)
        t.eq(t.load(r.report).calls().get("usleep"), 1, "sleeps with %s" % form)


@test("options")
def options_end_at_the_target_and_at_two_dashes(t):
    r = t.profile(["--", *tree(t, "env", "--trace=none")], status=0)
    t.eq(r.out, b"--trace=none=(unset)\n", "the target's own argument")


@test("options")
def trace_none_records_no_calls(t):
    r = t.same(tree(t, "fork"), "--trace=none")
    db = t.load(r.report)
    t.eq((db.calls(), db.ranges()), ({}, {}), "calls and ranges")


@test("options")
def trace_osrt_alone_and_nvtx_alone(t):
    prog = [t.program("ranges"), "mixed"]
    r = t.profile(prog, "--trace=osrt", status=0)
    db = t.load(r.report)
    t.ok(not db.ranges() and db.calls(), "calls only")
    r = t.profile(prog, "--trace=nvtx", "-f", status=0)
    db = t.load(r.report)
    t.ok(db.ranges() and not db.calls(), "ranges only")


@test("options")
def osrt_threshold(t):
    """usleep(2 ms) is recorded at 1 ms and not at 1 s; 0 records every call."""
    t.eq(
        t.load(t.profile(tree(t, "work"), "--osrt-threshold=1000000", status=0))
        .calls()
        .get("usleep"),
        1,
        "at 1 ms",
    )
    t.eq(
        t.load(t.profile(tree(t, "work"), "--osrt-threshold=1000000000", "-f", status=0))
        .calls()
        .get("usleep"),
        None,
        "at 1 s",
    )


@test("options")
def domains_included_and_excluded(t):
    prog = [t.program("ranges"), "domains", "5"]
    for option, expected in (
        (("--nvtx-domain-include=alpha",), {"in alpha": 5}),
        (("--nvtx-domain-include", "alpha,default"), {"in alpha": 5, "in neither": 5}),
        (("--nvtx-domain-exclude=alpha",), {"in beta": 5, "in neither": 5}),
        (("--nvtx-domain-exclude=default",), {"in alpha": 5, "in beta": 5}),
    ):
        r = t.profile(prog, "--trace=nvtx", "-f", *option, status=0)
        t.eq(t.load(r.report).ranges(), expected, "ranges with %s" % " ".join(option))
    r = t.profile(prog, "--nvtx-domain-include=alpha", "--nvtx-domain-exclude=beta", "-f")
    t.ok(r.status == 2 and r.out == b"", "both at once is refused: %s" % r.said())


@test("options")
def names_that_find_no_room_are_refused(t):
    """Names given to hooks stand in shared memory of a fixed size; half a list must not be taken
    for all of it.
    """
    few = ",".join("domain%d" % i for i in range(3000))
    t.profile(
        ["true"], "--trace=nvtx", "--nvtx-domain-include=" + few, status=0, **{"output": "few"}
    )
    r = t.profile(
        ["true"], "--trace=nvtx", "--nvtx-domain-include=" + few + "," + few + "," + few, status=1
    )
    t.contains(r.messages, "more than 64 KiB", "message")
    t.eq(r.out, b"", "nothing ran")


@test("options")
def forked_children_left_out(t):
    """--trace-fork-before-exec=false: children are recorded once they exec, and not before."""
    r = t.profile(tree(t, "fork"), "--trace-fork-before-exec=false", "--trace=osrt", status=7)
    t.eq(t.load(r.report).calls().get("usleep"), 1, "sleeps: the parent's alone")
    r = t.profile(
        tree(t, "system"), "--trace-fork-before-exec=false", "--trace=osrt", "-f", status=14
    )
    t.eq(t.load(r.report).calls().get("usleep"), 2, "sleeps: the parent's and the exec'd child's")


@test("options")
def environment_of_the_target(t):
    r = t.profile(tree(t, "env", "WS_A"), "-e", "WS_A=one", status=0)
    t.eq(r.out, b"WS_A=one\n", "-e")
    r = t.profile(tree(t, "env", "WS_A"), "--env-var=WS_A=two=2,WS_B=x", "-f", status=0)
    t.eq(r.out, b"WS_A=two=2\n", "--env-var with several")
    r = t.profile(tree(t, "env", "WS_C"), "-f", "-n", "false", env={"WS_C": "set"}, status=0)
    t.eq(r.out, b"WS_C=(unset)\n", "-n false drops the environment")
    r = t.profile(
        tree(t, "env", "WS_C"), "-f", "-n", "false", "-e", "WS_C=own", env={"WS_C": "set"}, status=0
    )
    t.eq(r.out, b"WS_C=own\n", "-n false with -e")


@test("options")
def bad_environment_option_is_refused(t):
    r = t.profile(tree(t, "work"), "-e", "=x")
    t.ok(r.status == 2 and r.out == b"", r.said())


@test("options")
def environment_is_private_by_default(t):
    secret = "sEcReT-value-7391"
    r = t.profile(
        tree(t, "work"), env={"MY_TOKEN": secret, "RANK": "5", "SLURM_JOB_ID": "77"}, status=0
    )
    with open(r.report, "rb") as f:
        t.ok(secret.encode() not in f.read(), "a secret variable is not in the report")
    meta = t.load(r.report).meta()
    t.ok(
        not any(secret in (v or "") for v in meta.values()),
        "a secret variable is not among the facts",
    )
    t.ok("5" in [v for k, v in meta.items() if "RANK" in k], "RANK is: %s" % meta)
    t.ok("77" in [v for k, v in meta.items() if "SLURM_JOB_ID" in k], "SLURM_JOB_ID is")
    r = t.profile(tree(t, "work"), "--store-environment", "-f", env={"MY_TOKEN": secret}, status=0)
    t.ok(
        any(secret in (v or "") for v in t.load(r.report).meta().values()),
        "--store-environment stores it",
    )


# Twenty kinds of secret as people give them to programs; the value of each is told by its number.
SECRETS = """
--password=hunter01zz|--db-password|hunter02zz|-u|user:hunter03zz|-p|hunter04zz|
https://me:hunter05zz@host.example/r.git|https://hunter06zz@host.example/r.git|
https://host.example/?a=1&access_token=hunter07zz&b=2|AWS_SECRET_ACCESS_KEY=hunter08zz|
Authorization: Bearer hunter09zz|ghp_hunter10zz0123456789|sk-proj-hunter11zz0123456789|
AKIAhunter12zz0123|eyJhbGciOi.hunter13zz.c2lnbmF0dXJl|--api-key=hunter14zz|
{"user": "me", "token": "hunter15zz"}|X-Api-Key: hunter16zz|--accessToken|hunter17zz|
xoxb-hunter18zz-0123|glpat-hunter19zz0123456789|postgres://me:hunter20zz@db.example:5432/x
""".replace(
    "\n", ""
).split(
    "|"
)
IN_SHELL = (
    "DB_PASSWORD=hunter21zz true --token 'hunter22zz x' && true -u me:hunter23zz "
    '"--secret=hunter24zz"; true'
)


def secrets_in(t, report):
    """The numbers of the secrets that a report and its exports hold."""
    found = set()
    paths = [report]
    for kind in ("sqlite", "jsonlines", "chrome", "perfetto", "html"):
        path = t.path("export." + kind)
        t.tool("export", "-f", "true", "-t", kind, "-o", path, report)
        paths.append(path)
    for path in paths:
        with open(path, "rb") as f:
            found |= {int(n) for n in re.findall(rb"hunter(\d\d)zz", f.read())}
    info = t.tool("info", report).out
    return found | {int(n) for n in re.findall(rb"hunter(\d\d)zz", info)}


@test("options")
def secrets_in_command_lines_are_masked(t):
    """Those of the target, of children with hooks and without, and of images that they become."""
    script = '/bin/true "$@"; sh -c "$IN_SHELL"; exec /bin/true "$@"'
    target = ["sh", "-c", script, "app", *SECRETS]
    options = ["-e", "MY_TOKEN=hunter30zz", "--env-var=A=1,MY_SECRET=hunter31zz"]
    r = t.profile(target, *options, env={"IN_SHELL": IN_SHELL}, status=0)
    t.eq(secrets_in(t, r.report), set(), "secrets in the report")
    lines = [row[0] for row in t.load(r.report).sql("SELECT commandLine FROM WARPSIGHT_PROCESS")]
    t.ge(sum("--password=***" in line for line in lines), 2, "masked in several of %s" % lines)
    t.ok(any("https://me:***@host.example/r.git" in line for line in lines), "the rest is kept")
    options += ["--keep-command-lines", "-f"]
    r = t.profile(target, *options, env={"IN_SHELL": IN_SHELL}, status=0)
    t.eq(
        secrets_in(t, r.report), {*range(1, 25), 30, 31}, "with --keep-command-lines all are there"
    )


@test("options")
def secrets_in_the_environment_are_not_stored(t):
    env = {
        "SLURM_JWT": "hunter01zz",
        "SLURM_PROCID": "5",
        "SLURM_CONF_SERVER": "hunter02zz",
        "KUBERNETES_TOKEN": "hunter03zz",
        "OMPI_COMM_WORLD_SECRET": "hunter04zz",
        "NCCL_KEY": "hunter05zz",
        "GITHUB_TOKEN": "hunter06zz",
        "NCCL_ALGO": "Ring",
    }
    r = t.profile(tree(t, "work"), env=env, status=0)
    t.eq(secrets_in(t, r.report), set(), "secrets in the report")
    meta = t.load(r.report).meta()
    t.eq(
        {k: meta.get("env." + k) for k in env},
        {k: "(not stored)" for k in env}
        | {"SLURM_PROCID": "5", "NCCL_ALGO": "Ring", "GITHUB_TOKEN": None},
        "values of what says which rank it is, names of the other variables of launchers",
    )
    r = t.profile(tree(t, "work"), "--store-environment", "-f", env=env, status=0)
    t.eq(secrets_in(t, r.report), set(range(1, 7)), "with --store-environment all are there")


@test("options")
def command_file(t):
    path = os.path.join(t.work, "options.txt")
    with open(path, "w") as f:
        f.write("# how we record\n--trace=osrt\n-e WS_A=from-file\n")
    r = t.profile(tree(t, "env", "WS_A"), "--command-file=" + path, status=0)
    t.eq(r.out, b"WS_A=from-file\n", "options of the file hold")
    r = t.profile(tree(t, "work"), "--command-file=/nonexistent", "-f")
    t.ok(r.status != 0 and "/nonexistent" in r.messages and r.out == b"", r.said())


@test("options")
def stats_after_the_run(t):
    r = t.profile(tree(t, "work"), "--trace=osrt", "--stats=true", status=0)
    t.eq(r.out.count(b"work\n"), 1, "the target's output is there once")
    t.contains((r.out + r.err).decode(), "usleep", "statistics")


@test("options")
def export_after_the_run(t):
    r = t.profile(tree(t, "work"), "--trace=osrt", "--export=sqlite", status=0)
    t.ok(os.path.exists(os.path.join(t.work, "r.sqlite")), "r.sqlite among %s" % os.listdir(t.work))
    t.profile(tree(t, "work"), "--trace=osrt", "-f", "--export=jsonlines", status=0)
    t.ok(
        any(n.startswith("r.json") for n in os.listdir(t.work)),
        "JSON lines among %s" % os.listdir(t.work),
    )
    t.profile(tree(t, "work"), "-f", "--trace=osrt", "--export=arrow,folded", status=0)
    t.ok(
        {"r.arrows", "r.folded"} <= set(os.listdir(t.work)),
        "both types among %s" % os.listdir(t.work),
    )
    r = t.profile(tree(t, "work"), "-f", "--export=nonsense")
    t.ok(r.status == 2 and "nonsense" in r.err.decode() and r.out == b"", r.said())


@test("options")
def store_output(t):
    r = t.same(tree(t, "both"), "--store-output", "--trace=osrt")
    db = t.load(r.report)
    stored = db.sql("SELECT * FROM ProcessStreams")
    ids = dict(db.sql("SELECT id, value FROM StringIds"))
    text = " ".join(str(ids.get(v, v)) for row in stored for v in row)
    for i in range(3):
        t.ok("out %d" % i in text and "err %d" % i in text, "both streams in %s" % text)


@test("options")
def output_is_not_stored_by_default(t):
    r = t.profile(tree(t, "both"), status=0)
    db = t.load(r.report)
    t.ok(
        not db.has("ProcessStreams") or not db.sql("SELECT * FROM ProcessStreams"),
        "no output stored",
    )


@test("options")
def show_output_off(t):
    r = t.profile(tree(t, "both"), "-w", "false", status=0)
    t.eq((r.out, r.target_err), (b"", b""), "streams with -w false")
    r = t.profile(tree(t, "both"), "-w", "true", "-f", status=0)
    t.eq(r.out, b"out 0\nout 1\nout 2\n", "standard output with -w true")


# ---- windows of time


def usleeps(t, r):
    return t.load(r.report).calls().get("usleep", 0)


@test("options")
def delay(t):
    """The program sleeps in steps for about two seconds; calls that began in the first are not
    there.
    """
    r = t.profile(tree(t, "wait", "2"), "-y", "1", "--trace=osrt", status=0)
    n = usleeps(t, r)
    t.ok(20 <= n < 200, "of 200 sleeps %d were recorded" % n)


@test("options")
def delay_longer_than_the_program(t):
    r = t.profile(tree(t, "work"), "-y", "100", "--trace=osrt", status=0)
    t.eq(usleeps(t, r), 0, "sleeps")
    t.verify(r.report)
    t.ok(r.seconds < 30, "did not wait for the delay")


@test("options")
def duration_ends_the_recording_and_the_target_runs_on(t):
    # the reference tool's default is --kill=sigterm; --kill=none lets the target go on
    r = t.profile(tree(t, "wait", "3"), "-d", "1", "--kill=none", "--trace=osrt", status=0)
    t.contains(r.out.decode(), "DONE", "the target's own end")
    t.contains(r.messages, "the duration of 1 s is over: the target runs on", "why it is over")
    n = usleeps(t, r)
    t.ok(0 < n < 250, "of 300 sleeps %d were recorded" % n)


@test("options")
def duration_with_kill(t):
    r = t.profile(tree(t, "wait", "60"), "-d", "0.5", "--kill=sigkill", "--trace=osrt")
    t.eq(r.status, 128 + 9, "exit status")
    t.contains(r.messages, "duration of 0.5 s is over: the target was sent SIGKILL", "why")
    r = t.profile(tree(t, "wait", "60"), "-d", "0.2", "-q", "-f", "--trace=osrt")
    t.ok("duration" not in r.messages, "--quiet: " + r.messages)
    r = t.profile(tree(t, "wait", "60"), "-d", "1", "--kill", "sigterm", "--trace=osrt", "-f")
    t.eq(r.status, 128 + 15, "exit status")
    t.ge(usleeps(t, r), 1, "sleeps recorded")


@test("options")
def delay_and_duration(t):
    r = t.profile(
        tree(t, "wait", "3"), "--delay=0.5", "--duration=1", "--kill=none", "--trace=osrt", status=0
    )
    n = usleeps(t, r)
    t.ok(0 < n < 250, "of 300 sleeps %d were recorded" % n)
    spans = (
        t.load(r.report).sql("SELECT startTime, stopTime FROM ANALYSIS_DETAILS")
        if "startTime"
        in [c[1] for c in t.load(r.report).sql("PRAGMA table_info(ANALYSIS_DETAILS)")]
        else []
    )
    for a, b in spans:
        if b is not None:
            t.ok(b - a < 2_500_000_000, "the collection lasted %d ns" % (b - a))


@test("options")
def bad_times_are_refused(t):
    for opt in (
        "--delay=-1",
        "--delay=abc",
        "--duration=",
        "--duration=1x",
        "--kill=sigwhat",
        "--wait=some",
    ):
        r = t.profile(tree(t, "work"), opt)
        t.ok(r.status == 2 and r.out == b"" and r.err, "%s: %s" % (opt, r.said()))


@test("options")
def wait_primary_and_all(t):
    r = t.profile(
        ["/bin/sh", "-c", "'%s' wait 1 >/dev/null & exit 3" % t.program("tree")],
        "--wait=all",
        "--trace=osrt",
        status=3,
    )
    t.eq(usleeps(t, r), 100, "the background child's sleeps")
    r = t.profile(
        ["/bin/sh", "-c", "'%s' wait 2 >/dev/null 2>&1 & exit 3" % t.program("tree")],
        "--wait=primary",
        "--trace=osrt",
        "-f",
        clean=False,
    )
    t.eq(r.status, 3, "exit status")
    wait_until(lambda: not (reap() or children_of(os.getpid())))
    t.check_clean()
