"""Who the server of `view` answers, and that nobody keeps its owner waiting:
test_guard.py WARPSIGHT MAKE_REPORT NO_DIAG [TEST...]; TAP.

The other user is uid 65534, by setpriv; where this cannot change users, those tests are skipped.
"""
import contextlib
import http.client
import os
import pwd
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import PROGRAM, Skip, main, run, same, test

MAKE, NO_DIAG = map(os.path.abspath, sys.argv[2:4])
OTHER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]

# What another user runs: argv is a port, a path and a method; prints what the server sends.
ASK = """
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
got = b""
try:
    s.sendall(("%s %s HTTP/1.1\\r\\nHost: localhost:%s\\r\\nOrigin: http://localhost:%s\\r\\n"
        "Content-Length: 0\\r\\nConnection: close\\r\\n\\r\\n"
        % (sys.argv[3], sys.argv[2], sys.argv[1], sys.argv[1])).encode())
    while True:
        more = s.recv(65536)
        if not more:
            break
        got += more
except ConnectionError:
    pass
sys.stdout.buffer.write(got)
"""

# Opens a thousand connections that each send argv[2], says so, and holds them until its input ends.
HOLD = """
import socket, sys
held = []
for _ in range(1000):
    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    try:
        s.sendall(sys.argv[2].encode())
    except ConnectionError:
        pass
    held.append(s)
print("held", flush=True)
sys.stdin.read()
"""


def until(what, condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = condition()
        if got:
            return got
        time.sleep(0.02)
    raise AssertionError("waited in vain for " + what)


class Server:
    def __init__(self, process, url):
        self.process, self.url = process, url
        parts = urllib.parse.urlsplit(url)
        self.port, self.path = parts.port, parts.path
        self.token = parts.path.strip("/")

    def ask(self, path, method="GET", **headers):
        """Status, body and headers of an answer; the path is relative to the token's."""
        con = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            con.request(method, self.path + path, headers=headers)
            answer = con.getresponse()
            return answer.status, answer.read().decode("utf-8", "replace"), answer.headers
        finally:
            con.close()

    def post(self, path):
        return self.ask(path, "POST", Origin="http://127.0.0.1:%d" % self.port)


@contextlib.contextmanager
def serve(*args, open_it=False, **how):
    command = [PROGRAM, "view"] + ([] if open_it else ["--no-open"]) + list(args)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, **how)
    try:
        yield Server(process, process.stdout.readline().decode().strip())
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        process.stdout.close()


def report():
    if not os.path.exists("one.wsrep"):
        subprocess.run([MAKE, "one.wsrep", "1"], check=True, stdout=subprocess.DEVNULL)
    return "one.wsrep"


def other_user():
    """Words before a command that another user is to run."""
    if not shutil.which("setpriv") or subprocess.run(OTHER + ["true"], stderr=-3).returncode:
        raise Skip("cannot become another user")
    if subprocess.run(OTHER + [sys.executable, "-c", ""], stderr=-3).returncode:
        raise Skip("another user cannot run %s" % sys.executable)
    return OTHER


def ask_as(prefix, s, path, method="GET"):
    """What the server sends to who runs behind these words."""
    return subprocess.run(
        prefix + [sys.executable, "-c", ASK, str(s.port), path, method],
        stdout=subprocess.PIPE,
        check=True,
    ).stdout


def command_lines():
    """Of all processes, as whoever may look at /proc sees them."""
    lines = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            lines.append(open("/proc/%s/cmdline" % pid, "rb").read().decode("utf-8", "replace"))
    return lines


# ---- other users ----


def check_another_user_gets_nothing(prefix, env=None):
    with serve("--record", "--", "touch", "ran", env=env) as s:
        same(s.ask("api/session")[0], 200, "the owner")
        asks = [
            ("GET", s.path),
            ("GET", s.path + "api/session"),
            ("GET", s.path + "api/record"),
            ("GET", "/"),
            ("POST", s.path + "api/record/start"),
            ("POST", s.path + "api/add?name=x"),
        ]
        for method, path in asks:
            got = ask_as(prefix, s, path, method)
            if got and not got.startswith(b"HTTP/1.1 403 "):
                raise AssertionError("%s %s: %r" % (method, path, got[:300]))
            same(b"belongs to another user" in got or got == b"", True, got)
        same('"runs":0' in s.ask("api/record")[1], True, "nothing was recorded")


def without_diag(**more):
    """An environment in which the server is not told by sock_diag whose connections are whose."""
    if os.environ.get("WS_TEST_SANITIZE"):
        raise Skip("nothing can be preloaded into a program with a sanitizer")
    env = dict(os.environ, LD_PRELOAD=NO_DIAG, **more)
    same(run("version", env=env).err, "", "preloading")
    return env


@test
def another_user_gets_nothing_though_it_knows_the_token():
    check_another_user_gets_nothing(other_user())


@test
def nor_where_only_proc_says_whose_connections_are_whose():
    check_another_user_gets_nothing(other_user(), without_diag())


@test
def where_nothing_says_it_the_token_decides_and_no_browser_is_started():
    with fake_desktop() as env:
        env.update(without_diag(WS_TEST_NO_PROC="1", DISPLAY=env["DISPLAY"], PATH=env["PATH"]))
        with open("said", "wb") as said:
            with serve(report(), open_it=True, env=env, stderr=said) as s:
                same(s.ask("api/session")[0], 200, "the owner")
                same(Server(None, s.url[:-2] + "x/").ask("")[0], 403, "without the token")
        same("the browser is not started" in open("said").read(), True, open("said").read())
        same(os.path.exists("opened"), False, "a browser")


@test
def a_users_own_server_answers_its_user_and_root():
    prefix = other_user()
    os.chmod(".", 0o755)
    os.chmod(report(), 0o644)
    if subprocess.run(prefix + [PROGRAM, "version"], stdout=-3, stderr=-3).returncode:
        raise Skip("another user cannot run what is here")
    process = subprocess.Popen(
        prefix + [PROGRAM, "view", "--no-open", os.path.abspath(report())],
        stdout=subprocess.PIPE,
    )
    try:
        s = Server(process, process.stdout.readline().decode().strip())
        got = ask_as(prefix, s, s.path + "api/session")
        same(got[:12], b"HTTP/1.1 200", "its own user")
        same(s.ask("api/session")[0], 200, "root")
        third = ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"]
        got = ask_as(third, s, s.path + "api/session")
        same(got[:12] in (b"HTTP/1.1 403", b""), True, "a third")
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@test
def who_became_root_by_sudo_is_answered_by_roots_server():
    prefix = other_user()
    if os.getuid():
        raise Skip("needs root")
    env = dict(os.environ, SUDO_UID="65534")
    with serve(report(), env=env) as s:
        same(ask_as(prefix, s, s.path + "api/session")[:12], b"HTTP/1.1 200", "who did")
        third = ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"]
        got = ask_as(third, s, s.path + "api/session")
        same(got[:12] in (b"HTTP/1.1 403", b""), True, "a third")


@test
def sockets_of_both_families_and_half_closed_ones_are_their_users():
    with serve(report()) as s:
        request = ("GET %sapi/state HTTP/1.0\r\nHost: localhost\r\n\r\n" % s.path).encode()
        for address in ("127.0.0.1", "::ffff:127.0.0.1"):
            try:
                c = socket.create_connection((address, s.port))
            except OSError:
                continue
            c.sendall(request)
            c.shutdown(socket.SHUT_WR)
            same(c.recv(12), b"HTTP/1.1 200", address)
            c.close()


# ---- the token ----


@contextlib.contextmanager
def fake_desktop():
    """An environment whose xdg-open writes its words to the file `opened`, and stays a while."""
    os.makedirs("desktop", exist_ok=True)
    with open("desktop/xdg-open", "w") as f:
        f.write('#!/bin/sh\necho "$@" > "%s/new"\n' % os.getcwd())
        f.write('mv "%s/new" "%s/opened"\nexec sleep 2\n' % (os.getcwd(), os.getcwd()))
    os.chmod("desktop/xdg-open", 0o755)
    env = dict(os.environ, DISPLAY=":999", PATH=os.getcwd() + "/desktop:" + os.environ["PATH"])
    env.pop("WAYLAND_DISPLAY", None)
    try:
        yield env
    finally:
        with contextlib.suppress(OSError):
            os.unlink("opened")


@test
def no_command_line_has_the_token_and_its_stand_in_is_good_once():
    with fake_desktop() as env, serve(report(), open_it=True, env=env) as s:
        until("the browser", lambda: os.path.exists("opened"))
        same([line for line in command_lines() if s.token in line], [], "command lines")
        words = open("opened").read().split()
        same(len(words), 1, words)
        handed = urllib.parse.urlsplit(words[0])
        same((handed.hostname, handed.port), ("127.0.0.1", s.port), "address")
        same(s.token in words[0], False, "the token in the browser's words")
        page = Server(None, words[0])
        same(page.ask("api/session")[0], 403, "anything else by the stand-in")
        same(page.ask("", Host="evil.example")[0], 403, "for another host")
        same(page.ask("", "HEAD")[0], 403, "a look ahead")
        status, _, headers = page.ask("")
        same((status, headers["Location"]), (303, s.path), "the first use")
        status, body, headers = page.ask("")
        same((status, headers["Location"]), (410, None), "the second use")
        same("good for one use" in body and s.token not in body, True, body)
        same(s.ask("api/session")[0], 200, "the page")


@test
def the_browser_starts_with_nothing_of_the_server():
    with fake_desktop() as env:
        # no shell: it would clear the mask of signals itself
        with open("desktop/xdg-open", "w") as f:
            f.write("#!%s\nimport os\n" % sys.executable)
            f.write("fds = [os.readlink('/proc/self/fd/%d' % n) for n in range(64)")
            f.write(" if os.path.exists('/proc/self/fd/%d' % n)]\n")
            f.write("text = str(fds) + open('/proc/self/status').read()\n")
            f.write("os.chdir(%r)\nopen('new', 'w').write(text)\n" % os.getcwd())
            f.write("os.rename('new', 'opened')\n")
        with serve(report(), open_it=True, env=env):
            until("the browser", lambda: os.path.exists("opened"))
        text = open("opened").read()
        same("socket:" in text or ".wsrep" in text, False, text)
        same("SigBlk:\t0000000000000000" in text, True, text)


# ---- those who keep it busy ----


@contextlib.contextmanager
def held_connections(s, text, prefix=()):
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit[1] != resource.RLIM_INFINITY and limit[1] < 1100:
        raise Skip("no 1,000 connections can be made here")
    room = limit[1] if limit[1] != resource.RLIM_INFINITY else 4096
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit[0], min(room, 4096)), limit[1]))
    holder = subprocess.Popen(
        list(prefix) + [sys.executable, "-c", HOLD, str(s.port), text],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    try:
        same(holder.stdout.readline(), b"held\n", "a thousand connections")
        yield
    finally:
        holder.communicate()


def check_owner_is_served(s, text, prefix=()):
    """While all of them are held; none has a thread, which are what a server has few of."""
    with held_connections(s, text, prefix):
        for _ in range(3):
            same(s.ask("api/state")[0], 200, "the owner, beside %r" % text)
        threads = os.listdir("/proc/%d/task" % s.process.pid)
        same(len(threads) < 50, True, "%d threads beside %r" % (len(threads), text))


@test
def a_thousand_half_sent_requests_keep_nobody_waiting():
    with serve(report()) as s:
        for text in ("", "GET /", "GET /%s/ HTTP/1.1\r\nHost: localhost\r\n" % ("0" * 32)):
            check_owner_is_served(s, text)


@test
def a_thousand_of_another_user_keep_nobody_waiting():
    prefix = other_user()
    with serve(report()) as s:
        for text in ("", "GET %s HTTP/1.1\r\nHost: localhost\r\n" % s.path):
            check_owner_is_served(s, text, prefix)


def limit_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


@test
def few_descriptors_are_enough():
    with serve(report(), preexec_fn=limit_descriptors) as s:
        check_owner_is_served(s, "GET /")


@test
def too_many_with_the_token_are_told_so_and_make_room_when_they_end():
    with serve(report(), preexec_fn=limit_descriptors) as s:
        for _ in range(50):  # more than there may be at once: those that end are not counted
            same(s.ask("api/state")[0], 200, "one after the other")
        held = [socket.create_connection(("127.0.0.1", s.port)) for _ in range(16)]
        for c in held:
            c.sendall(("GET %s HTTP/1.1\r\n" % s.path).encode())
        status, body, _ = until("a refusal", lambda: refusal_of(s))
        same((status, "too many connections" in body), (503, True), body)
        for c in held:
            c.close()
        until("room", lambda: s.ask("api/state")[0] == 200)


@test
def a_thousand_with_the_token_end_and_the_server_answers_again():
    """More at once than the library that answers would take."""
    with serve(report()) as s:
        for _ in range(3):
            with held_connections(s, "GET %sapi/state HTTP/1.1\r\nHost: loc" % s.path):
                until("a refusal", lambda: refusal_of(s))
            until("room", lambda: s.ask("api/state")[0] == 200)


def refusal_of(s):
    answer = s.ask("api/state")
    return answer[0] != 200 and answer


@test
def a_first_line_in_pieces_is_one():
    with serve(report()) as s:
        c = socket.create_connection(("127.0.0.1", s.port))
        c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in ("GET %sapi/state HTTP/1.1\r\nHost: localhost\r\n\r\n" % s.path).encode():
            c.sendall(bytes([byte]))
        same(c.recv(12), b"HTTP/1.1 200", "sent byte by byte")
        c.close()


# ---- the server's end ----


def running(word):
    """Processes that have this in their command lines."""
    return [line for line in command_lines() if word in line]


@test
def a_recording_ends_with_its_server_in_order_however_that_ends():
    """Ended by Ctrl+C it has what the program did until then, and so it has here."""
    for number, how in enumerate((signal.SIGKILL, signal.SIGTERM)):
        folder = "end%d" % number
        os.mkdir(folder)
        word = "warpsight-mark-%d-%d" % (os.getpid(), number)
        code = "echo $$ > new; mv new started; exec sleep 1000 # " + word
        with serve("--record", "--", "sh", "-c", code, cwd=folder) as s:
            same(s.post("api/record/start?osrt=1")[:2], (200, "{}"), "start")
            until("the program", lambda: os.path.exists(folder + "/started"))
            pid = int(until("its number", lambda: open(folder + "/started").read()))
            until("its exec", lambda: b"sleep" in open("/proc/%d/cmdline" % pid, "rb").read()[:6])
            same(s.ask("api/record")[0], 200, "the question that started it is over")
            os.kill(s.process.pid, how)
            s.process.wait()
            until("the program's end", lambda: not os.path.exists("/proc/%d" % pid))
            until("the recorder's end", lambda: not running(word))
        name = folder + "/report1.wsrep"
        same(os.path.exists(name + ".journal"), False, "it was closed")
        r = run("query", name, "SELECT count(*) AS n FROM PROCESSES", ok=False)
        same((r.code, r.err), (0, ""), "the report")


@test
def a_recording_outlasts_the_connection_that_asked_for_it():
    os.makedirs("lasts", exist_ok=True)
    code = "touch started; while [ ! -e go ]; do sleep 0.05; done; touch reached"
    with serve("--record", "--", "sh", "-c", code, cwd="lasts") as s:
        before = len(os.listdir("/proc/%d/task" % s.process.pid))
        s.post("api/record/start?osrt=1")
        until("the program", lambda: os.path.exists("lasts/started"))
        # the thread of the connection is gone: only the recording's own is left
        until(
            "the connection's end",
            lambda: len(os.listdir("/proc/%d/task" % s.process.pid)) <= before + 2,
        )
        open("lasts/go", "w").close()
        until("the end", lambda: '"running":0' in s.ask("api/record")[1])
        same(os.path.exists("lasts/reached"), True, "it ran to its end")
        same('"status":0' in s.ask("api/record")[1], True, "status")


@test
def a_file_beyond_the_limit_of_sizes_is_refused_and_the_server_stays():
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))

    os.makedirs("sizes", exist_ok=True)
    env = dict(os.environ, TMPDIR=os.path.abspath("sizes"))
    process = subprocess.Popen(
        [PROGRAM, "view", "--no-open"], stdout=subprocess.PIPE, preexec_fn=limit, env=env
    )
    try:
        s = Server(process, process.stdout.readline().decode().strip())
        con = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
        con.request(
            "POST",
            s.path + "api/add?name=large",
            b"x" * 200000,
            {"Origin": "http://127.0.0.1:%d" % s.port},
        )
        said = con.getresponse().read()
        con.close()
        same(b"cannot keep large" in said, True, said)
        same(s.ask("api/state")[0], 200, "the server")
        until("its folder to be gone", lambda: not os.listdir("sizes"))
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@test
def a_file_larger_than_the_free_room_is_refused_before_it_is_kept():
    """In a file system of a megabyte, which a namespace of its own has."""
    mount = "mount -t tmpfs -o size=1m none /mnt && "
    if subprocess.run(["unshare", "-m", "sh", "-c", mount + "true"], stderr=-3).returncode:
        raise Skip("nothing can be mounted here")
    serving = 'TMPDIR=/mnt exec "$0" view --no-open'
    process = subprocess.Popen(
        ["unshare", "-m", "sh", "-c", mount + serving, PROGRAM], stdout=subprocess.PIPE
    )
    try:
        s = Server(process, process.stdout.readline().decode().strip())
        c = socket.create_connection(("127.0.0.1", s.port))
        c.sendall(
            (
                "POST %sapi/add?name=large HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                "Origin: http://127.0.0.1:%d\r\nContent-Length: 2000000\r\n\r\n"
                % (s.path, s.port, s.port)
            ).encode()
        )
        got = b""
        while b"free" not in got:
            more = c.recv(65536)
            same(more != b"", True, got)
            got += more
        same(got[:12], b"HTTP/1.1 400", got)
        c.close()
        same(s.ask("api/state")[0], 200, "the server")
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


# ---- hostile words ----


@test
def a_files_name_reaches_no_header_and_no_path():
    os.makedirs("names", exist_ok=True)
    env = dict(os.environ, TMPDIR=os.path.abspath("names"))
    with serve(report(), env=env) as s:
        for name in ("a%0d%0aX-Evil:%201", "..", "../../x", "..%5cx", "a%00b", "%3Cscript%3E"):
            status, body, headers = s.post("api/add?name=" + name)
            same(status in (200, 400) and '"error"' in body or status == 400, True, body)
            same([h for h in headers if "evil" in h.lower()], [], name)
            same(headers["Content-Type"] != "text/html", True, "its type")
        for name in ("", "x" * 256, "%ff"):
            same(s.post("api/add?name=" + name)[0], 400, name)
        until("all folders to be gone", lambda: not os.listdir("names"))
        for path in (
            "%2e%2e/%2e%2e/etc/passwd",
            "../../etc/passwd",
            "/etc/passwd",
            "%0d%0aX-Evil:1",
        ):
            status, _, headers = s.ask(path)
            same((status, "X-Evil" in headers), (404, False), path)


@test
def trees_without_end_end_an_import_and_not_the_server():
    with serve(report()) as s:
        con = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
        con.request(
            "POST",
            s.path + "api/add?name=deep.json",
            b'{"traceEvents":' + b"[" * 1000000,
            {"Origin": "http://127.0.0.1:%d" % s.port},
        )
        same(con.getresponse().read(), b'{"job":0}', "it is imported")
        con.close()
        until("its end", lambda: '"state":"failed"' in s.ask("api/state")[1])
        same("nested too deeply" in s.ask("api/state")[1], True, s.ask("api/state")[1])


@test
def an_import_is_killed_with_its_server_and_goes_first_where_memory_runs_out():
    os.makedirs("import", exist_ok=True)
    folder = os.path.abspath("import")
    with serve(report(), env=dict(os.environ, TMPDIR=folder)) as s:
        lines = ",".join(
            '{"ph":"X","ts":%d,"dur":1,"pid":1,"tid":2,"name":"n"}' % i for i in range(300000)
        )
        con = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
        con.request(
            "POST",
            s.path + "api/add?name=long.json",
            '{"traceEvents":[%s]}' % lines,
            {"Origin": "http://127.0.0.1:%d" % s.port},
        )
        con.getresponse().read()
        con.close()

        def importer():
            for pid in filter(str.isdigit, os.listdir("/proc")):
                with contextlib.suppress(OSError):
                    words = open("/proc/%s/cmdline" % pid).read()
                    if folder in words and "\0import\0" in words:
                        os.kill(int(pid), signal.SIGSTOP)
                        return pid
            return '"state":"done"' in s.ask("api/state")[1] and "none"

        pid = until("the import", importer)
        if pid == "none":
            raise Skip("the import was too fast to be seen")
        same(open("/proc/%s/oom_score_adj" % pid).read(), "1000\n", "it goes first")
        os.kill(s.process.pid, signal.SIGKILL)
        s.process.wait()
        until("its end", lambda: not running(folder))


# ---- through ssh ----


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def is_open(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def prepare_sshd(folder):
    """Words that start a server of ssh, which lets in who has the key `id` of this folder."""
    program = shutil.which("sshd") or "/usr/sbin/sshd"
    if not os.access(program, os.X_OK) or not shutil.which("ssh"):
        raise Skip("needs ssh and sshd (openssh-server)")
    if os.geteuid() == 0:  # what the start of the service makes
        os.makedirs("/run/sshd", 0o755, exist_ok=True)
    os.chmod(folder, 0o755)  # who logs in reads id.pub by itself
    for name in ("host", "id"):
        key = os.path.join(folder, name)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    options = {
        "ListenAddress": "127.0.0.1",
        "HostKey": os.path.join(folder, "host"),
        "AuthorizedKeysFile": os.path.join(folder, "id.pub"),
        "StrictModes": "no",
        "UsePAM": "no",
        "PidFile": "none",
        "PermitRootLogin": "yes",
    }
    return [program, "-f", "/dev/null", "-D", "-e"] + [
        w for o in options.items() for w in ("-o", "%s=%s" % o)
    ]


@contextlib.contextmanager
def sshd():
    """A server of ssh: its folder and port. The process is ours alone, and ended by its number."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        port, said = free_port(), os.path.join(folder, "log")
        with open(said, "wb") as log:
            process = subprocess.Popen(prepare_sshd(folder) + ["-p", str(port)], stderr=log)
        try:
            until("sshd", lambda: process.poll() is not None or is_open(port))
            if process.poll() is not None:
                raise Skip("sshd does not start here: " + open(said).read()[-300:])
            yield folder, port
        finally:
            process.terminate()
            process.wait()


@contextlib.contextmanager
def forwarded(s, user, by):
    """The server as it is seen at the near end of `ssh -L`, logged in as `user`."""
    folder, port = by
    near = free_port()
    options = "StrictHostKeyChecking=no UserKnownHostsFile=/dev/null LogLevel=ERROR BatchMode=yes"
    process = subprocess.Popen(
        ["ssh", "-F", "none", "-N", "-i", os.path.join(folder, "id"), "-p", str(port)]
        + [w for o in options.split() for w in ("-o", o)]
        + ["-L", "127.0.0.1:%d:127.0.0.1:%d" % (near, s.port), user + "@127.0.0.1"],
        stderr=subprocess.PIPE,
    )
    try:
        until("ssh", lambda: process.poll() is not None or is_open(near))
        if process.poll() is not None:
            raise AssertionError(process.stderr.read() + open(folder + "/log", "rb").read())
        far = Server(process, s.url)
        far.port = near
        yield far
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()


@test
def through_ssh_the_user_who_logs_in_is_who_asks():
    user = pwd.getpwuid(os.geteuid()).pw_name
    with sshd() as by, serve(report()) as s, forwarded(s, user, by) as far:
        same(far.ask("api/state")[0], 200, "the same account")
        far.path = "/%s/" % ("0" * 32)
        same(far.ask("api/state")[0], 403, "without the token")


@test
def through_ssh_another_account_is_told_to_use_the_same():
    other_user()
    name = pwd.getpwuid(65534).pw_name
    with sshd() as by, serve(report()) as s, forwarded(s, name, by) as far:
        status, said, _ = far.ask("api/state")
        same((status, "log in as" in said), (403, True), said)


@test
def through_ssh_an_account_sees_its_own_server():
    """Which root's sshd connects to as that user."""
    other_user()
    name = pwd.getpwuid(65534).pw_name
    as_other = {"user": 65534, "group": 65534, "extra_groups": [], "cwd": "/"}
    try:
        subprocess.run([PROGRAM, "--version"], check=True, stdout=-3, **as_other)
    except (OSError, subprocess.CalledProcessError):
        raise Skip("another user cannot run %s" % PROGRAM) from None
    env = dict(os.environ, HOME="/nonexistent", TMPDIR="/tmp")
    with sshd() as by, serve(env=env, **as_other) as s, forwarded(s, name, by) as far:
        same(far.ask("api/state")[0], 200, "the same account, which is not root's")


sys.exit(main(sys.argv[4:]))
