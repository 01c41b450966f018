#!/usr/bin/env python3
"""The command `import`: its output, an nsys that is installed, interrupts; traces as reports of
every other command. Prints TAP.

Usage: test_command.py WARPSIGHT [WORD...]; with words, tests whose names hold one of them."""
import os
import signal
import subprocess
import sys
import time

from harness import eq, main, test, WARPSIGHT
from traces import CHROME, kineto, make_nsys


@test
def an_output_is_never_replaced_unasked(t):
    a = t.write("a.json", CHROME)
    t.run("import", a)
    before = open(t.path("a.wsrep"), "rb").read()
    assert "exists already" in t.run("import", a, ok=False).err
    t.run("import", "-f", t.write("bad.json", "[]"), "-o", "a", ok=False)
    eq(open(t.path("a.wsrep"), "rb").read(), before)
    eq(os.stat(t.path("a.wsrep")).st_mode & 0o777, 0o600)
    assert "report already" in t.run("import", "-o", "b", "a.wsrep", ok=False).err


@test
def nsys_reports_are_exported_by_an_installed_nsys(t):
    make_nsys(t, "real.sqlite")
    t.write(
        "nsys",
        (
            '#!/bin/sh\n[ "$1 $2" = \'export --type=sqlite\' ] || exit 3\nwhile [ "$1" != --output'
            f' ]; do shift; done\nexec /bin/cp {t.path("real.sqlite")} "$2"\n'
        ),
    )
    os.chmod(t.path("nsys"), 0o755)
    t.env["PATH"] = t.dir
    d = t.load(t.write("a.nsys-rep", b"QuadD" + b"\1" * 100))
    eq(len(d["CUPTI_ACTIVITY_KIND_KERNEL"]), 1)
    eq([n for n in os.listdir(t.dir) if n.startswith("warpsight-import")], [])


@test
def an_interrupted_import_leaves_nothing(t):
    """Neither the export that an nsys was making, nor its temporary folder, nor half a report; and
    nsys is told.
    """
    t.write("nsys", "#!/bin/sh\necho $$ > %s\nexec /bin/sleep 60\n" % t.path("started"))
    os.chmod(t.path("nsys"), 0o755)
    t.write("a.nsys-rep", b"QuadD" + b"\1" * 100)
    t.env["PATH"] = t.dir
    for sig in signal.SIGINT, signal.SIGTERM:
        before = set(os.listdir(t.dir))
        p = subprocess.Popen(
            [WARPSIGHT, "import", "-o", "never.wsrep", "a.nsys-rep"],
            env=t.env,
            cwd=t.dir,
            stderr=subprocess.DEVNULL,
        )
        while not os.path.exists(t.path("started")) or not open(t.path("started")).read().strip():
            time.sleep(0.01)
        pid = int(open(t.path("started")).read())
        p.send_signal(sig)
        eq(p.wait(60), -sig)
        for _ in range(500):
            try:
                if (
                    open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] == "Z"
                ):  # gone, and nobody has asked yet
                    break
                time.sleep(0.01)
            except (FileNotFoundError, ProcessLookupError):
                break
        else:
            raise AssertionError("nsys goes on")
        os.unlink(t.path("started"))
        eq(set(os.listdir(t.dir)), before)


@test
def every_command_opens_traces(t):
    trace = t.write("k.json", kineto())
    first = t.run("stats", "-q", "-f", "csv", "-r", "cuda_gpu_kern_sum", trace)
    cached = os.listdir(t.path("cache/warpsight/imports"))
    eq(len(cached), 1)
    again = t.run("stats", "-q", "-f", "csv", "-r", "cuda_gpu_kern_sum", trace)
    eq(again.out, first.out)
    eq(again.err, "")
    eq(os.listdir(t.path("cache/warpsight/imports")), cached)
    file = os.path.join(t.path("cache/warpsight/imports"), cached[0])
    with open(file, "rb") as kept:  # so that its number is not dealt again
        eq(
            t.run(
                "stats", "--force-export=true", "-q", "-f", "csv", "-r", "cuda_gpu_kern_sum", trace
            ).out,
            first.out,
        )
        assert os.stat(file).st_ino != os.fstat(kept.fileno()).st_ino
    assert "k.json" in t.run("info", trace).out
    t.env.update(XDG_CACHE_HOME="/dev/null/x", HOME="/dev/null")
    eq(t.run("stats", "-q", "-f", "csv", "-r", "cuda_gpu_kern_sum", trace).out, first.out)
    t.env.update(XDG_CACHE_HOME="", HOME=t.path("no-home"))
    eq(t.run("stats", "-q", "-f", "csv", "-r", "cuda_gpu_kern_sum", trace).out, first.out)
    eq([n for n in os.listdir(t.dir) if n.startswith(("warpsight-import", "no-home"))], [])


sys.exit(main())
