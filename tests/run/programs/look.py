"""
look.py OWNER PLACE... - what one user gets of another's: run as anyone but OWNER (a number), it
tries everything of OWNER's processes in /proc, every file, folder and socket of OWNER's in the
places, and every port of 127.0.0.1 on which OWNER listens, with the paths that standard input
names. Prints a line for each thing that it could read, write or enter: what it is, and what came.
"""
import os
import re
import socket
import stat
import sys

OWNER = int(sys.argv[1])
PAGES = [line.strip() for line in sys.stdin if line.strip()]
# What the kernel shows of any process to anyone: figures, names of files it was started from. Words
# of the command line are looked at by the test.
PUBLIC = set(
    "cmdline comm stat statm status limits cgroup sched schedstat mounts mountinfo oom_adj "
    "oom_score oom_score_adj loginuid sessionid coredump_filter cpuset net task arch_status "
    "cpu_resctrl_groups timens_offsets uid_map gid_map projid_map setgroups timerslack_ns "
    "patch_state wchan latency autogroup attr children ksm_stat".split()
)


def say(what, got=b""):
    print("%s: %r" % (what, got[:400]))


def try_file(path, flags=os.O_RDONLY):
    try:
        fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return
    try:
        got = os.read(fd, 1 << 20) if flags == os.O_RDONLY else b"(writable)"
    except OSError:
        return
    finally:
        os.close(fd)
    if got:
        say(path, got)


def look_at_process(folder):
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name == "cmdline":
            try_file(path)
        elif name not in PUBLIC and os.path.islink(path):
            try:
                say(path, os.readlink(path).encode())
            except OSError:
                pass
        elif name not in PUBLIC and not os.path.isdir(path):
            try_file(path)
        elif name not in PUBLIC:
            try:
                say(path, " ".join(os.listdir(path)).encode())
            except OSError:
                pass


def look_at_processes():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        folder = "/proc/" + pid
        try:
            if (
                os.stat(folder).st_uid == OWNER
                or "Uid:\t%d\t" % OWNER
                in open(folder + "/status", encoding="utf-8", errors="replace").read()
            ):
                look_at_process(folder)
        except OSError:
            pass


def try_socket(path):
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_UNIX, kind) as s:
            try:
                s.connect(path)
                say("socket " + repr(path), b"(connected)")
            except OSError:
                pass


def look_at_entry(path):
    try:
        st = os.lstat(path)
    except OSError:
        return
    if st.st_uid != OWNER or stat.S_ISLNK(st.st_mode):
        return
    if stat.S_ISSOCK(st.st_mode):
        try_socket(path)
    elif stat.S_ISREG(st.st_mode):
        try_file(path)
        try_file(path, os.O_WRONLY)
        try:
            os.truncate(path, st.st_size)
            say(path, b"(truncated)")
        except OSError:
            pass


def look_at_places():
    for place in sys.argv[2:]:
        for folder, folders, files in os.walk(place):
            for name in files:
                look_at_entry(os.path.join(folder, name))


def look_at_abstract_sockets():
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as f:
        for line in f:
            name = line.rstrip("\n").split(" ")[-1]
            if "warpsight" in name and name.startswith("@"):
                try_socket("\0" + name[1:])


def ports():
    with open("/proc/net/tcp", encoding="utf-8") as f:
        for line in list(f)[1:]:
            words = line.split()
            if words[3] == "0A" and int(words[7]) == OWNER:
                yield int(words[1].split(":")[1], 16)


def ask(port, page):
    """The answer, without the sentence that refuses."""
    got = b""
    with socket.socket() as s:
        s.settimeout(5)
        try:
            s.connect(("127.0.0.1", port))
            s.sendall(b"GET %s HTTP/1.1\r\nHost: localhost:%d\r\n\r\n" % (page.encode(), port))
            while len(got) < 1 << 20:
                piece = s.recv(65536)
                if not piece:
                    break
                got += piece
        except OSError:
            pass
    return b"" if re.match(rb"HTTP/1.1 403 .*\r\n\r\n[^\n]*\n$", got, re.S) else got


def look_at_ports():
    for port in ports():
        for page in ["/"] + PAGES:
            got = ask(port, page)
            if got:
                say("port %d %s" % (port, page), got)
        print("tried port %d" % port)


look_at_processes()
look_at_places()
look_at_abstract_sockets()
look_at_ports()
