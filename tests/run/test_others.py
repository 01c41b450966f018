"""
test_others.py - a second user of the machine, with all of ps, /proc, /dev/shm, temporary folders
and the loopback interface, gets nothing of a recording, of a finished report or of a page.
"""
import os
import re
import subprocess
import sys

from harness import Failed, test, wait_until

OWNER, OTHER = 20311, 20312
LOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "look.py")
SECRET = "marzipan-%d" % os.getpid()
# Its secret is in its environment and in what it prints, not in its command line.
PROGRAM = 'echo "$SECRET"; echo begun >&2; until [ -e end ]; do sleep 0.02; done; exit 7'


def as_user(uid):
    return {"user": uid, "group": uid, "extra_groups": []}


def python_of(uid):
    """An interpreter that this user can run; a version manager's need not be."""
    for path in (sys.executable, "/usr/bin/python3"):
        try:
            subprocess.run([path, "-c", ""], check=True, stderr=subprocess.DEVNULL, **as_user(uid))
            return path
        except (OSError, subprocess.CalledProcessError):
            pass
    return None


def check_nothing(t, when, pages=(), secrets=()):
    argv = [python_of(OTHER), os.path.join(t.dir, "look.py"), str(OWNER)]
    argv += ["/dev/shm", "/tmp", "/var/tmp", "/run", t.dir]
    r = t.run(argv, stdin="\n".join(pages).encode(), timeout=120, **as_user(OTHER))
    if r.status:
        raise Failed("the other user cannot even look: %s" % r.said())
    lines = r.out.decode().splitlines()
    got = [l for l in lines if not re.match(r"/proc/\d+/cmdline: |tried port", l)]
    if got:
        raise Failed("%s, another user gets at:\n%s" % (when, "\n".join(got)))
    for word in (SECRET, *secrets):
        if any(word in l for l in lines):
            raise Failed("%s, another user reads %s in a command line" % (when, word))
    return lines


def prepare(t):
    """The owner's folders, where everybody may look around."""
    if not python_of(OTHER):
        t.skip("no Python that another user can run")
    if subprocess.run(
        [t.where.warpsight, "--version"], stdout=subprocess.DEVNULL, **as_user(OWNER)
    ).returncode:
        t.skip("the build cannot be read by other users")
    with open(LOOK, encoding="utf-8") as f, open(os.path.join(t.dir, "look.py"), "w") as g:
        g.write(f.read())
    for folder in (t.work, t.tmp):
        os.chmod(folder, 0o755)
        os.chown(folder, OWNER, OWNER)


def start_as_owner(t, argv, **env):
    try:
        return t.start(argv, env=dict(env, HOME=t.work, SECRET=SECRET), **as_user(OWNER))
    except PermissionError:
        return t.skip("the build cannot be read by other users")


@test("others", needs=["root"])
def recording(t):
    """While it is recorded, with its output, and afterwards."""
    prepare(t)
    options = ["--store-output", "--sync=0.1"]
    p = start_as_owner(t, t.profile_argv(["/bin/sh", "-c", PROGRAM], options))
    journal = t.path("r") + ".journal"
    if not wait_until(lambda: os.path.exists(journal) and os.path.getsize(journal)):
        raise Failed("nothing is recorded: %s" % p.stderr.read())
    lines = check_nothing(t, "while it records")
    if not any("/proc/%d/cmdline" % p.pid in l for l in lines):
        raise Failed("the recorder was not looked at: %s" % lines)
    t.touch("end")
    out, err = p.communicate(timeout=60)
    if p.returncode != 7 or SECRET.encode() not in out:
        raise Failed("the recording ends with %s: %s" % (p.returncode, err))
    check_nothing(t, "when the report is finished")
    t.check_clean()


@test("others", needs=["root"])
def page(t):
    """A page that is looked at, and one that records."""
    prepare(t)
    p = start_as_owner(t, t.profile_argv(["/bin/sh", "-c", "exit 0"]))
    p.communicate(timeout=60)
    server = start_as_owner(t, [t.where.warpsight, "view", "--no-open", t.path("r")])
    address = re.search(rb"http://[^/]+(:\d+)?(/[0-9a-f]+/)", t.line(server))
    if not address:
        raise Failed("the server prints no address")
    token = address.group(2).decode()
    pages = [token, token + "api/state", token + "api/report", token + "index.html"]
    lines = check_nothing(t, "while it is viewed", pages, [token.strip("/")])
    if not any(l.startswith("tried port") for l in lines):
        raise Failed("the page was not found: %s" % lines)
    server.terminate()
    server.communicate(timeout=60)
    check_nothing(t, "when the page is closed", pages)
    t.check_clean()
