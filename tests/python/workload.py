"""What run.py records: each case burns CPU time in functions that are known and prints what it
burnt, in nanoseconds, as JSON on its last line.
"""
import asyncio, ctypes, functools, json, os, signal, sys, threading, time

MS = 1000000
lib = ctypes.CDLL(os.environ["WS_TEST_BURN"])  # lets go of the GIL
held = ctypes.PyDLL(os.environ["WS_TEST_BURN"])  # keeps it
for one in (lib, held):
    one.native_burn.argtypes = [ctypes.c_int64]
    one.native_burn.restype = ctypes.c_int64
truth = {}


def spent(name, since):
    truth[name] = truth.get(name, 0) + time.thread_time_ns() - since


def spin(ms):
    start = time.thread_time_ns()
    end = start + ms * MS
    x = 0
    while time.thread_time_ns() < end:
        for i in range(200):
            x += i * i
    return x


def alpha():
    since = time.thread_time_ns()
    spin(300)
    spent("alpha", since)


def beta():
    since = time.thread_time_ns()
    spin(150)
    spent("beta", since)


def numbers():
    for i in range(15):
        yield spin(10)


def gamma():
    since = time.thread_time_ns()
    sum(numbers())
    spent("numbers", since)


def through_c():
    since = time.thread_time_ns()
    lib.native_burn(100 * MS)
    spent("native_free", since)
    since = time.thread_time_ns()
    held.native_burn(100 * MS)
    spent("native_held", since)


def called_back():
    since = time.thread_time_ns()
    spin(80)
    spent("called_back", since)


def callbacks():
    held.native_call(ctypes.CFUNCTYPE(None)(called_back))


def deep(n):
    if n:
        return deep(n - 1)
    since = time.thread_time_ns()
    spin(80)
    spent("deep", since)


async def leaf():
    since = time.thread_time_ns()
    spin(20)
    await asyncio.sleep(0)
    spent("leaf", since)


async def branch():
    for _ in range(4):
        await leaf()


def thrower():
    raise ValueError("known")


def catcher():
    since = time.thread_time_ns()
    end = since + 80 * MS
    while time.thread_time_ns() < end:
        try:
            thrower()
        except ValueError:
            pass
    spent("catcher", since)


class Größe:
    def 測る(self):
        since = time.thread_time_ns()
        spin(80)
        spent("測る", since)


def phases():
    alpha()
    beta()
    gamma()
    through_c()
    callbacks()
    deep(300)
    asyncio.new_event_loop().run_until_complete(branch())
    catcher()
    Größe().測る()


def thread_body(name):
    since = time.thread_time_ns()
    spin(150)
    spent(name, since)


def first_thread():
    thread_body("first_thread")


def second_thread():
    thread_body("second_thread")


def waiter():
    time.sleep(1)


def threads():
    all = [threading.Thread(target=f) for f in (first_thread, second_thread, waiter)]
    for t in all:
        t.start()
    for t in all:
        t.join()


def in_child():
    spin(150)


def forks():
    pid = os.fork()
    if not pid:
        in_child()
        os._exit(0)
    os.waitpid(pid, 0)
    truth["child"] = pid


def own_signal():
    got = []
    signal.signal(signal.SIGURG, lambda n, f: got.append(n))
    alpha()
    os.kill(os.getpid(), signal.SIGURG)
    for _ in range(1000):
        if got:
            break
        time.sleep(0.001)
    truth["signals"] = len(got)


def quiet_signal():
    shown = [str(signal.getsignal(signal.SIGURG))]
    signal.signal(signal.SIGURG, signal.SIG_IGN)
    shown.append(str(signal.getsignal(signal.SIGURG)))
    alpha()
    os.kill(os.getpid(), signal.SIGURG)
    signal.signal(signal.SIGURG, signal.SIG_DFL)
    shown.append(str(signal.getsignal(signal.SIGURG)))
    truth.clear()
    truth["shown"] = shown


def interrupted():
    truth["interrupted"] = lib.native_polls(1500)


def blocks_signals():
    alpha()
    truth["pending"] = len(signal.sigpending())


def blocked_signal():
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    t = threading.Thread(target=blocks_signals)
    t.start()
    t.join()


def execs():
    alpha()
    sys.stdout.flush()
    os.execv(
        sys.executable,
        [
            sys.executable,
            "-S",
            "-c",
            (
                "import time\ndef image_two():\n e=time.thread_time()+.15\n while"
                " time.thread_time()<e: pass\nimage_two()\nprint('{}')"
            ),
        ],
    )


def foreign_callback():
    since = time.thread_time_ns()
    spin(10)
    spent("foreign_callback", since)


def foreign():
    """A C thread gets a new thread state for each of its calls into Python, and has none in
    between.
    """
    lib.native_foreign.restype = ctypes.c_int64
    truth["alone"] = lib.native_foreign(
        ctypes.CFUNCTYPE(None)(foreign_callback), 30, ctypes.c_int64(10 * MS)
    )


def regenerate():
    """Functions that are made, run and freed by turns: their code objects, names and all, come to
    lie in the same places.
    """
    body = (
        "def made_%d():\n    e = time.thread_time_ns() + 6000000\n    while time.thread_time_ns() <"
        " e:\n        pass\n"
    )
    for i in range(100, 160):
        space = {"time": time}
        exec(body % i, space)
        since = time.thread_time_ns()
        space["made_%d" % i]()
        truth["made_%d" % i] = time.thread_time_ns() - since
        del space


def delayed():
    for _ in range(3):
        alpha()


def launches(cuda, n):
    for i in range(n):
        cuda.standin_launch(b"_Z6vectorIfEvPT_S1_i", 7, 0)


def cuda_calls():
    cuda = ctypes.CDLL(os.environ["WS_TEST_CUDA"])  # the stand-in of tests/cuda
    cuda.cuInit(0)
    time.sleep(
        3 if "WS_TEST_SANITIZE" in os.environ else 0.3
    )  # until the recorder has found the interpreter, which takes a hundredth of that
    launches(cuda, 3)
    list(map(lambda n: launches(cuda, n), [2]))
    cuda.standin_wait(7)


class Traced:
    def method(self, n):
        if n:
            self.method(n - 1)

    @staticmethod
    def fixed():
        pass

    @classmethod
    def of_class(cls):
        pass

    @property
    def value(self):
        return 1

    class Inner:
        def deep(self):
            pass


def keep_name(f):
    @functools.wraps(f)
    def wrapper(*args):
        return f(*args)

    return wrapper


def lose_name(f):
    def wrapper(*args):
        return f(*args)

    return wrapper


@keep_name
def wrapped():
    pass


@lose_name
def hidden():
    pass


@functools.lru_cache(maxsize=None)
def cached():
    pass


def make():
    def made():
        pass

    class Local:
        def method(self):
            pass

    made()
    Local().method()
    return made


async def awaits():
    await asyncio.sleep(0)


def in_thread():
    pass


# Another function of that name, which nobody named.
class Other:
    def method(self):
        pass


def call_traced():
    Traced.fixed()
    Traced().fixed()
    Traced.of_class()
    Traced().of_class()
    Traced().value
    Traced.Inner().deep()
    Other().method()
    for _ in range(3):
        wrapped()
    for _ in range(2):
        hidden()
        cached()
    make()()
    dive(300)
    asyncio.run(awaits())
    threads = [threading.Thread(target=in_thread) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def raises():
    raise KeyError


def yields():
    yield 1
    yield 2


def traced_in_child():
    pass


def functions():
    for _ in range(3):
        Traced().method(2)
    try:
        raises()
    except KeyError:
        pass
    sum(yields())
    json.dumps({})
    call_traced()
    pid = os.fork()
    if not pid:
        traced_in_child()
        os._exit(0)
    os.waitpid(pid, 0)
    truth.clear()


def naps():
    for _ in range(15):
        time.sleep(0.003)


def reader(fd):
    while os.read(fd, 1):
        pass


def writer(fd):
    for _ in range(15):
        time.sleep(0.003)
        os.write(fd, b"x")
    os.close(fd)


def locked(lock):
    with lock:
        pass


def waits():
    """Threads that wait in known functions: for time, a pipe, a lock, and the GIL."""
    read, write = os.pipe()
    lock = threading.Lock()
    lock.acquire()
    started = [
        threading.Thread(target=f, args=a)
        for f, a in ((naps, ()), (reader, (read,)), (writer, (write,)), (locked, (lock,)))
    ]
    started += [threading.Thread(target=spin, args=(60,)) for _ in range(2)]
    for thread in started:
        thread.start()
    time.sleep(0.1)
    lock.release()
    for thread in started:
        thread.join()


def deep_nap():
    time.sleep(0.4)


def long_nap():
    deep_nap()


def dive(n):
    return n and 1 + dive(n - 1)


def recursion():
    sys.setrecursionlimit(30000)
    threading.stack_size(512 << 10)
    thread = threading.Thread(target=lambda: truth.update(depth=dive(20000)))
    thread.start()
    thread.join()


def everything():
    phases()
    threads()
    forks()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print(json.dumps(truth))
