#!/usr/bin/env python3
"""Tests of graphics: run.py PROGRAM FOLDER-OF-TEST-PROGRAMS. Stand-ins for the libraries are used
everywhere, Mesa's software drivers where they are installed."""
import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from shown import ask_page, shown  # noqa: E402
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


def check_clocks(report, work, calls):
    """Clocks that nobody related are hours apart; how well they are related depends on the load."""
    wrong = query(
        report,
        "SELECT count(*) FROM %s WHERE start < (SELECT min(start) - 1000000000 FROM %s)"
        ' OR "end" < start OR "end" > (SELECT max("end") + 1000000000 FROM %s)'
        % (work, calls, calls),
    )
    same(wrong, [[0]])


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
    check_clocks(report, "OPENGL_WORKLOAD", "OPENGL_API")
    joined = (
        "SELECT count(*), count(DISTINCT w.correlationId), sum(w.nameId = c.nameId)"
        " FROM OPENGL_WORKLOAD w JOIN OPENGL_API c ON c.correlationId = w.correlationId"
        " AND c.globalTid >> 24 = w.globalTid >> 24"
    )
    works = query(report, "SELECT count(*) FROM OPENGL_WORKLOAD")[0][0]
    same(query(report, joined), [[works] * 3], "work leads to the call that began it")
    labels = query(report, "SELECT label, type FROM OPENGL_OBJECT_LABELS")
    same(labels, [["a texture", 0x1702]] * draws)


def find_rows(report):
    """{label of a row without a thread: type of the row above it}"""
    with shown(report) as base:
        rows = ask_page(base, "tree")["rows"]
    types = {row["id"]: row["type"] for row in rows}
    return {row["label"]: types.get(row["parent"]) for row in rows if row["type"] == "track"}


@test
def opengl_linked_looked_up_and_asked_for():
    for how in ("linked", "looked-up", "asked"):
        command = (os.path.join(BUILT, "gl-app"), how, LIBRARY, LIBRARY, str(FRAMES), "threads")
        got = profile("gl-" + how, *command)
        same(sorted(got.out.split(b"\n")), sorted(play(*command)[1].split(b"\n")), how)
        check_opengl("gl-%s.wsrep" % how, 3)
    names = ["OpenGL %s, context %d" % (what, i) for what in ("GPU", "frames") for i in (1, 2, 3)]
    same(find_rows("gl-linked.wsrep"), {name: "process" for name in names})


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
    got = profile("annotations", *command, trace="opengl-annotations")
    assert "No call of OpenGL" not in got.err, got.err
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
def opengl_by_default():
    """Without --trace: only in programs that are linked to OpenGL, and without a word."""
    app = (os.path.join(BUILT, "gl-app"), "linked", LIBRARY, LIBRARY, str(FRAMES))
    run("profile", "-s", "none", "-o", "default", "--", *app)
    same(count_rows("default.wsrep", "OPENGL_API")["glClear"], FRAMES + 1)
    got = run("profile", "-s", "none", "-o", "unlinked", "--", "cat", "/proc/self/maps")
    assert b"libwarpsight-hooks" in got.out and b"libwarpsight-lib-" not in got.out, got.out
    assert "OpenGL" not in got.err, got.err
    idle = run("profile", "-s", "none", "-o", "idle", "--", os.path.join(BUILT, "gl-app"), ok=False)
    assert "OpenGL was recorded" not in idle.err, idle.err


@test
def graphics_that_are_not_there():
    got = profile("absent", "true", trace="opengl,vulkan")
    for name in ("OpenGL", "Vulkan"):
        assert "No call of %s was recorded" % name in got.err, got.err


# ---- Vulkan ----


def check_vulkan(report, devices):
    """Each device records two command buffers in each round, and one that it submits twice."""
    calls = count_rows(report, "VULKAN_API")
    recorded, submits = devices * (2 * FRAMES + 1), devices * (FRAMES + 2)
    want = {
        "vkCreateInstance": 1,
        "vkCreateDevice": devices,
        "vkDestroyDevice": devices,
        "vkBeginCommandBuffer": recorded,
        "vkCmdSetDepthBias": recorded,
        "vkCmdFillBuffer": 2 * recorded,
        "vkQueueSubmit": submits,
        "vkWaitForFences": submits,
    }
    same({name: calls.get(name) for name in want}, want)
    labels = {"pass": recorded, "fill": 2 * recorded}
    same(read_instances(report, "vulkan_marker_sum"), dict(labels, step=submits))
    executed = recorded + devices
    times = {"pass": executed, "fill": 2 * executed}
    same(read_instances(report, "vulkan_gpu_marker_sum"), times)
    buffers = query(
        report,
        "SELECT n.value, count(*) FROM VULKAN_WORKLOAD w JOIN StringIds n ON n.id = w.nameId"
        " WHERE eventClass = 93 GROUP BY 1 ORDER BY 1",
    )
    same(buffers, [["command buffer", devices * FRAMES], ["the filler", devices * (FRAMES + 2)]])
    check_clocks(report, "VULKAN_WORKLOAD", "VULKAN_API")
    ids = "SELECT count(*) = count(DISTINCT id), count(*) = count(id) FROM VULKAN_API"
    same(query(report, ids), [[1, 1]], "calls have numbers of their own")
    names = query(report, "SELECT name, objectType FROM VULKAN_OBJECT_NAMES")
    same(names, [["the filler", 6]] * devices)


def check_vulkan_app(library, name):
    command = (os.path.join(BUILT, "vk-app"), library, str(FRAMES), "threads")
    code, said = play(*command)
    if code:
        raise Skip("no loader and driver for Vulkan are installed")
    assert b"left 0" in said, said
    same(profile(name, *command, trace="vulkan").out, said)
    check_vulkan(name + ".wsrep", 3)
    labels = {"pass": 3 * (2 * FRAMES + 1), "fill": 6 * (2 * FRAMES + 1), "step": 3 * (FRAMES + 2)}
    batch, untimed = name + "-batch", name + "-untimed"
    options = ["--vulkan-gpu-workload=batch"]
    got = profile(batch, *command, trace="vulkan-annotations", options=options)
    assert "No call of Vulkan" not in got.err, got.err
    same(count_rows(batch + ".wsrep", "VULKAN_API"), {})
    same(read_instances(batch + ".wsrep", "vulkan_marker_sum"), labels)
    same(read_instances(batch + ".wsrep", "vulkan_gpu_marker_sum"), {})
    work = {"command buffer": 3 * FRAMES, "the filler": 3 * (FRAMES + 2)}
    same(count_rows(batch + ".wsrep", "VULKAN_WORKLOAD"), work)
    profile(untimed, *command, trace="vulkan", options=["--vulkan-gpu-workload=none"])
    same(count_rows(untimed + ".wsrep", "VULKAN_WORKLOAD"), {})


@test
def vulkan_with_a_stand_in():
    check_vulkan_app(os.path.join(BUILT, "libvulkan-standin.so"), "vk-standin")


@test
def vulkan_of_mesa():
    check_vulkan_app("libvulkan.so.1", "vk-mesa")


@test
def vulkan_layer_beside_the_users():
    """What the program finds in its environment, and that it is gone once nothing is recorded."""
    show = "echo $VK_INSTANCE_LAYERS $VK_LAYER_PATH $VK_ADD_LAYER_PATH"
    ours = "echo ${VK_ADD_LAYER_PATH:-${VK_LAYER_PATH##*:}}"
    got = run("profile", "-t", "vulkan", "-s", "none", "-o", "e0", "--", "sh", "-c", ours)
    folder = got.out.decode().strip()
    assert os.path.exists(os.path.join(folder, "vulkan_layer.json")), folder
    env = dict(os.environ, VK_INSTANCE_LAYERS="VK_LAYER_OTHER", VK_LAYER_PATH="/elsewhere")
    got = run("profile", "-t", "vulkan", "-s", "none", "-o", "e1", "--", "sh", "-c", show, env=env)
    want = "VK_LAYER_OTHER:VK_LAYER_WARPSIGHT_trace /elsewhere:%s\n" % folder
    same(got.out.decode(), want)
    got = run("profile", "-t", "nvtx", "-s", "none", "-o", "e2", "--", "sh", "-c", show, env=env)
    same(got.out.decode(), "VK_LAYER_OTHER /elsewhere\n")


@test
def layout_of_vulkan():
    if not os.path.exists("/usr/include/vulkan/vk_layer.h") or not shutil.which("gcc"):
        raise Skip("the headers of Vulkan are not installed")
    top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    made = os.path.join(os.path.abspath(sys.argv[3]), "src/inject/libraries")
    places = ["-I" + os.path.join(top, "src"), "-I" + os.path.join(top, "include"), "-I" + made]
    source = os.path.join(top, "tests/graphics/layouts.c")
    command = ["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-DWS_HOOK", *places, "-c", source]
    subprocess.run([*command, "-o", "layouts.o"], check=True)


@test
def types_of_opengl():
    """Which arguments go where: the declaration is compared with the headers."""
    files = ["/usr/include/GL/" + name for name in ("gl.h", "glext.h", "glx.h")]
    if not all(map(os.path.exists, files)):
        raise Skip("the headers of OpenGL are not installed")
    top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    declared, types = {}, None
    for line in open(os.path.join(top, "src/inject/libraries/opengl.calls")):
        if not line[0].isspace():
            types = line.split()[1].strip("-") if line.startswith("plain ") else None
        elif types is not None:
            declared.update({name: types for name in line.split()})
    pattern = r"(?:GLAPI|extern)\s[\w\s*]*?(?:APIENTRY\s+)?\b(gl\w+)\s*\(([^)]*)\)\s*;"
    known = 0
    for file in files:
        for name, text in re.findall(pattern, open(file).read()):
            parts = [] if text.strip() in ("void", "") else text.split(",")
            real = re.compile(r"\s*(const\s+)?(GLfloat|GLdouble|GLclampf|GLclampd)\s+\w*\s*$")
            got = "".join("f" if real.match(part) else "i" for part in parts)
            if name in declared:
                same(declared[name], got, name)
                known += 1
    assert known > 2000, known


@test
def short_calls():
    """Instructions of ours in a call of a function of which nothing but its types is known."""
    got = profile("steps.wsrep", os.path.join(BUILT, "gl-steps"))
    added = int(got.out.split()[0])
    if not added:
        raise Skip("the processor does not step through programs here")
    assert added <= 160, added


if __name__ == "__main__":
    sys.exit(main())
