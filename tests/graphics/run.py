#!/usr/bin/env python3
"""Tests of graphics: run.py PROGRAM FOLDER-OF-TEST-PROGRAMS. Stand-ins for the libraries are used
everywhere, Mesa's software drivers where they are installed."""
import csv
import io
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import Skip, main, run, same, test  # noqa: E402

BUILT = os.path.abspath(sys.argv[2])
LIBRARY = os.path.join(BUILT, "libGL.so")
os.environ["EGL_PLATFORM"] = "surfaceless"
FRAMES = 6


def profile(report, *command, trace="opengl", options=()):
    got = run("profile", "-t", trace, "-s", "none", *options, "-o", report, "--", *command)
    assert "overwritten" not in got.err, got.err
    return got


def query(report, sql):
    return [list(row.values()) for row in json.loads(run("query", "-f", "json", report, sql).out)]


def count_rows(report, category):
    """Rows of `slice` by name."""
    return dict(
        query(
            report,
            "SELECT n.value, count(*) FROM WARPSIGHT_SLICE s JOIN StringIds n ON n.id = s.nameId"
            " JOIN StringIds c ON c.id = s.categoryId WHERE c.value = '%s' GROUP BY 1" % category,
        )
    )


def read_instances(report, name):
    """{range: instances} of a summary."""
    text = run("stats", "-q", "-f", "csv", "-r", name, report).out.decode()
    rows = [row for row in csv.reader(io.StringIO(text)) if row]
    return {row[-1]: int(row[2]) for row in rows[1:]}


# ---- OpenGL ----


def play(*command):
    got = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return got.returncode, got.stdout


def check_opengl(report, draws):
    """`draws` is how many times the program drew all its frames, each in a context of its own."""
    swaps = draws * (FRAMES + 1)
    calls = count_rows(report, "OPENGL_API")
    want = {
        "eglSwapBuffers": swaps,
        "glPushDebugGroup": 2 * swaps,
        "glBegin": swaps + draws,
        "glVertex2d": 3 * (swaps + draws),
        "glTexImage3D": draws,
        "glReadPixels": draws,
        "glFinish": draws,
    }
    same({name: calls.get(name) for name in want}, want)
    groups = {"scene": swaps, "shado": swaps}
    same(read_instances(report, "opengl_khr_range_sum"), groups)
    same(read_instances(report, "opengl_khr_gpu_range_sum"), groups)
    same(count_rows(report, "OPENGL_FRAMES"), {"frame": swaps - draws})
    work = query(
        report,
        'SELECT count(DISTINCT contextId), min("end" - start) >= 0, count(*) >= %d'
        " FROM OPENGL_WORKLOAD" % swaps,
    )
    same(work, [[draws, 1, 1]])
    outside = query(
        report,
        "SELECT count(*) FROM OPENGL_WORKLOAD WHERE start < (SELECT min(start) FROM OPENGL_API)",
    )
    same(outside, [[0]], "the clocks are related")
    labels = query(report, "SELECT label, type FROM OPENGL_OBJECT_LABELS")
    same(labels, [["a texture", 0x1702]] * draws)


@test
def opengl_linked_looked_up_and_asked_for():
    for how in ("linked", "looked-up", "asked"):
        command = (os.path.join(BUILT, "gl-app"), how, LIBRARY, LIBRARY, str(FRAMES), "threads")
        got = profile("gl-" + how, *command)
        same(got.out, play(*command)[1], how)
        check_opengl("gl-%s.wsrep" % how, 3)


@test
def opengl_of_mesa():
    app = os.path.join(BUILT, "gl-app-mesa")
    for how in ("looked-up", "asked"):
        command = (app, how, "libEGL.so.1", "libGL.so.1", str(FRAMES))
        code, said = play(*command)
        if code:
            raise Skip("no software driver for OpenGL is installed")
        same(profile("mesa-" + how, *command).out, said)
        check_opengl("mesa-%s.wsrep" % how, 1)


@test
def annotations_alone_and_no_times():
    command = (os.path.join(BUILT, "gl-app"), "linked", LIBRARY, LIBRARY, str(FRAMES))
    profile("annotations", *command, trace="opengl-annotations")
    report = "annotations.wsrep"
    same(count_rows(report, "OPENGL_API"), {})
    same(count_rows(report, "OPENGL_WORKLOAD"), {})
    groups = {"scene": FRAMES + 1, "shado": FRAMES + 1}
    same(read_instances(report, "opengl_khr_range_sum"), groups)
    same(read_instances(report, "opengl_khr_gpu_range_sum"), groups)
    profile("untimed", *command, options=["--opengl-gpu-workload=false"])
    same(count_rows("untimed.wsrep", "OPENGL_WORKLOAD"), {})
    same(count_rows("untimed.wsrep", "OPENGL_API")["glClear"], FRAMES + 1)
    same(read_instances("untimed.wsrep", "opengl_khr_gpu_range_sum"), {})


@test
def graphics_that_are_not_there():
    got = profile("absent", "true")
    assert "No call of OpenGL was recorded" in got.err, got.err


if __name__ == "__main__":
    sys.exit(main())
