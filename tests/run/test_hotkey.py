"""test_hotkey.py - a key of an X11 display that begins and ends collections, on a display of its
own (Xvfb) where that is installed."""
import ctypes
import ctypes.util
import shutil
import subprocess

from harness import Failed, test, wait_until
from test_flight import work_of
from test_sessions import Sessions

F1 = 0xFFBE


class Keyboard:
    """Xvfb, and its keyboard."""

    def __init__(self, t):
        names = [ctypes.util.find_library(name) for name in ("X11", "Xtst")]
        if not shutil.which("Xvfb") or not all(names) or not ctypes.util.find_library("xcb"):
            t.skip("needs Xvfb, libX11, libXtst and libxcb")
        self.server = t.start(
            ["Xvfb", "-displayfd", "1", "-screen", "0", "640x480x8", "-nolisten", "tcp"]
        )
        number = t.line(self.server).decode().strip()
        if not number.isdigit():
            t.skip("Xvfb does not start here")
        self.name = ":" + number
        self.x11, self.xtst = (ctypes.CDLL(name) for name in names)
        self.x11.XOpenDisplay.restype = ctypes.c_void_p
        self.display = ctypes.c_void_p(self.x11.XOpenDisplay(self.name.encode()))
        t.ok(self.display.value, "the display opens")

    def move(self, number, down):
        key = self.x11.XKeysymToKeycode(self.display, ctypes.c_ulong(F1 + number - 1))
        self.xtst.XTestFakeKeyEvent(self.display, key, down, ctypes.c_ulong(0))
        self.x11.XSync(self.display, 0)

    def press(self, number):
        self.move(number, 1)
        self.move(number, 0)

    def end(self):
        self.x11.XCloseDisplay(self.display)
        self.server.terminate()
        self.server.wait(60)


class Program:
    """A program that does as it is told, in a session that the key controls."""

    def __init__(self, t, keyboard, command, *options):
        self.t, self.sessions = t, Sessions(t)
        self.process = t.start(
            [t.where.warpsight, command, "-s", "none", "-t", "nvtx", *options, t.program("told")],
            stdin=subprocess.PIPE,
            env={"DISPLAY": keyboard.name},
        )
        t.eq(t.line(self.process), b"ready\n", "the program runs")

    def work(self, number):
        self.process.stdin.write(b"work %d\n" % number)
        self.process.stdin.flush()
        self.t.eq(self.t.line(self.process), b"done\n", "the program does as it is told")

    def wait_for(self, state, collections):
        def reached():
            s = self.sessions.status()
            return s["state"] == state and s["collections"] == collections

        if not wait_until(reached, 60):
            raise Failed("not %s, %d: %s" % (state, collections, self.sessions.status()))

    def end(self):
        self.process.stdin.close()
        self.process.stdin = None
        return self.process.communicate(timeout=60)[1].decode()


@test("hotkey")
def a_key_begins_and_ends_collections(t):
    keyboard = Keyboard(t)
    p = Program(
        t,
        keyboard,
        "profile",
        "--session-new=[default]",
        "-o",
        "r",
        "-c",
        "hotkey",
        "--hotkey-capture=F9",
        "--capture-range-end=repeat:2",
        "--no-findings",
    )
    taken = t.tool(
        "profile",
        "-c",
        "hotkey",
        "--hotkey-capture=F9",
        "true",
        env={"DISPLAY": keyboard.name},
    )
    t.eq(taken.status, 1, "status where the key is taken")
    t.contains(taken.messages, "another program has the key F9", "the key is taken")
    for n in range(2):
        p.work(3)
        keyboard.press(8)  # another key
        keyboard.press(9)
        p.wait_for("collecting", n)
        p.work(4 + n)
        keyboard.press(9)
        p.wait_for("waiting" if n == 0 else "over", n + 1)
        p.work(3)
    said = p.end()
    t.contains(said, "r.2.wsrep", "reports")
    t.eq([len(work_of(t, t.path(name))) for name in ("r", "r.2")], [4, 5], "work")
    keyboard.end()
    p.sessions.check_clean()


@test("hotkey")
def in_a_session(t):
    keyboard = Keyboard(t)
    p = Program(t, keyboard, "launch")
    p.work(3)
    p.sessions.tool("start", "-o", "r", "-c", "hotkey")
    p.wait_for("waiting", 0)
    keyboard.press(12)
    p.wait_for("collecting", 0)
    p.work(4)
    keyboard.press(12)
    p.wait_for("idle", 1)
    p.work(3)
    keyboard.end()
    said = p.sessions.tool("start", "-o", "s", "-c", "hotkey", status=1).messages
    t.contains(said, "cannot be opened", "a display that is gone")
    p.end()
    t.eq(len(work_of(t, t.path("r"))), 4, "work")
    t.eq(len(t.find_reports()), 1, "reports")
    p.sessions.check_clean()


@test("hotkey")
def without_a_display(t):
    for options, status, words in (
        (["-c", "hotkey"], 1, "needs an X11 display, and DISPLAY is not set"),
        (["-c", "hotkey", "--hotkey-capture=F13"], 2, "'F13' is none of F1 to F12"),
        (["--hotkey-capture=F3"], 0, "--hotkey-capture has no effect without"),
    ):
        r = t.tool(
            "profile",
            "-s",
            "none",
            "-t",
            "none",
            "-o",
            "r",
            *options,
            "true",
            env={"DISPLAY": None},
        )
        t.eq(r.status, status, "status of %s" % options)
        t.contains(r.messages, words, str(options))
