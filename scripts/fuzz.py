#!/usr/bin/env python3
"""fuzz.py [--pack FOLDER] [FUZZER...] - build the fuzzers with clang in build-fuzz and run them
side by side; prints a line for each: inputs tried, places in the code that were reached, how many
of those are new, crashes. Exit status 1 when one crashed or hung.

FUZZ_SECONDS is how long each runs (20), FUZZ_JOBS how many at a time (as many as there are cores);
where there are fewer fuzzers than that, several processes work on one corpus. FUZZ_CORES, a list
as for taskset ("4-15,2"), binds one to each of these cores.
FUZZ_SEED makes inputs the same at each run, as far as the time lasts; in CI they are, so that what
fails there is the change. Corpora stay in build-fuzz/corpus, what crashes one in
build-fuzz/crashes.

--pack makes FOLDER a copy of the fuzzers, their libraries, their corpora and this file:
FOLDER/fuzz.py then does the same on a machine that has Python 3 and nothing else.
"""
import collections
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# In a packed folder this file lies beside the fuzzers; else in scripts/.
PACKED = os.path.isdir(os.path.join(HERE, "bin"))
ROOT = HERE if PACKED else os.path.dirname(HERE)
BUILD = HERE if PACKED else os.path.join(ROOT, "build-fuzz")
# An input takes a tenth of a second; a minute is a hang, on a slow machine too.
HANG = 60
MEMORY = 2048
# A fuzzer is started again after a crash, but a fault that every input meets ends it.
MOST_CRASHES = 20
IMAGES = os.path.join("tests", "python", "images")
# What belongs to the C library has to be of one version: all or none of it is taken along.
LIBC = re.compile(r"(ld-linux|libc|libm|libpthread|libdl|librt|libresolv)\b[-\w]*\.so")

Run = collections.namedtuple("Run", "inputs first last is_crash")


def read_cores(text):
    """Numbers of cores from "4-15,2"."""
    cores = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if not found:
            sys.exit('fuzz: FUZZ_CORES is "%s"; it has to be a list of cores such as 4-15' % text)
        cores += range(int(found[1]), int(found[2] or found[1]) + 1)
    missing = set(cores) - os.sched_getaffinity(0)
    if missing:
        sys.exit("fuzz: there is no core %d to run on" % min(missing))
    return cores


def read_places():
    """Where fuzzers run, a set of cores for each that runs at a time."""
    if os.environ.get("FUZZ_CORES"):
        return [{core} for core in read_cores(os.environ["FUZZ_CORES"])]
    all_cores = os.sched_getaffinity(0)
    jobs = os.environ.get("FUZZ_JOBS") or str(len(all_cores))
    if not re.fullmatch(r"[1-9]\d*", jobs):
        sys.exit('fuzz: FUZZ_JOBS is "%s"; it has to be a number above 0' % jobs)
    return [all_cores] * int(jobs)


def build_fuzzers():
    """The fuzzers alone: everything else is tested elsewhere."""
    if not os.path.exists(os.path.join(BUILD, "build.ninja")):
        options = ["-Dfuzz=true", "-Dwerror=false", "-Db_sanitize=address,undefined"]
        options += ["-Db_lundef=false", "-Ddebug=false", "-Doptimization=1"]
        options += ["-Dc_args=-g1", "-Dcpp_args=-g1"]
        env = dict(os.environ, CC="clang")
        subprocess.run(["meson", "setup", BUILD, *options], cwd=ROOT, env=env, check=True)
    subprocess.run(["ninja", "-C", BUILD, "build.ninja"], check=True)
    targets = subprocess.run(
        ["ninja", "-C", BUILD, "-t", "targets", "all"], stdout=subprocess.PIPE, check=True
    ).stdout.decode()
    fuzzers = re.findall(r"^(\S*/fuzz_[^ /]*): c_LINKER", targets, re.M)
    subprocess.run(["ninja", "-C", BUILD, *fuzzers], check=True)
    return sorted((os.path.join(BUILD, path) for path in fuzzers), key=os.path.basename)


def find_packed():
    folder = os.path.join(HERE, "bin")
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]


def choose_fuzzers(fuzzers, words):
    names = [os.path.basename(path)[len("fuzz_") :] for path in fuzzers]
    for word in words:
        if word not in names:
            sys.exit("fuzz: no fuzzer is called %s; there are %s" % (word, ", ".join(names)))
    return [path for path, name in zip(fuzzers, names) if not words or name in words]


class Fuzzer:
    """One fuzzer and what its processes have done."""

    def __init__(self, path):
        self.path = path
        self.name = os.path.basename(path)
        self.corpus = os.path.join(BUILD, "corpus", self.name)
        self.log = os.path.join(BUILD, self.name)
        self.runs = []
        os.makedirs(self.corpus, exist_ok=True)

    def command(self):
        """The program, by the loader of the C library that was packed with it if it needs that."""
        if not PACKED:
            return [self.path]
        libraries = os.path.join(HERE, "lib")
        command = ["env", "LD_LIBRARY_PATH=" + libraries, self.path]
        if subprocess.run([*command, "-help=1"], capture_output=True, check=False).returncode == 0:
            return command
        libc = os.path.join(libraries, "libc")
        loader = next(name for name in os.listdir(libc) if name.startswith("ld-linux"))
        path = libc + ":" + libraries
        return [os.path.join(libc, loader), "--library-path", path, self.path]

    def options(self, number, seconds):
        options = ["-max_total_time=%d" % seconds, "-timeout=%d" % HANG]
        options += ["-rss_limit_mb=%d" % MEMORY, "-print_final_stats=1"]
        # Weighing inputs by rare features takes longer than running them where an input reaches
        # thousands of places.
        options.append("-entropic=0")
        options.append("-artifact_prefix=" + os.path.join(BUILD, "crashes", self.name + "-"))
        seed = os.environ.get("FUZZ_SEED") or (os.environ.get("CI") and "1")
        if seed:
            options.append("-seed=%d" % (int(seed) + number))
        return options

    def execute(self, number, cores, seconds):
        """One process on `cores` until it ends: a Run. Its log has the number of the process."""
        log = "%s.%d.log" % (self.log, number)
        with open(log, "wb") as out:
            command = [*self.command(), *self.options(number, seconds), self.corpus]
            process = subprocess.Popen(
                command,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                preexec_fn=lambda: os.sched_setaffinity(0, cores),
                start_new_session=True,
            )
            try:
                status = process.wait(seconds + 2 * HANG)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                status = process.wait()
        run = read_log(log, status != 0)
        if run.is_crash:
            kept = os.path.join(
                BUILD, "crashes", "%s.%d.%d.log" % (self.name, number, len(self.runs))
            )
            shutil.copy(log, kept)
        return run

    def fuzz(self, number, cores, seconds):
        """Run for `seconds` in all: again after a crash, from the corpus that there is then."""
        end = time.monotonic() + seconds
        for _ in range(MOST_CRASHES):
            left = round(end - time.monotonic())
            if left < 1:
                return
            run = self.execute(number, cores, left)
            self.runs.append(run)
            if not run.is_crash:
                return
            if self.crashes() == 1:
                print_end_of("%s.%d.log" % (self.log, number))

    def crashes(self):
        return sum(run.is_crash for run in self.runs)

    def summary(self):
        """The line about it."""
        inputs = sum(run.inputs for run in self.runs)
        first = min((run.first for run in self.runs if run.first), default=0)
        last = max((run.last for run in self.runs), default=0)
        ended = "no crash"
        if self.crashes():
            ended = "%d crashes, see %s" % (self.crashes(), os.path.join(BUILD, "crashes"))
        reached = "%d places reached, %d of them new" % (last, last - first)
        return "%s: %d inputs, %s, %s" % (self.name, inputs, reached, ended)


def print_end_of(log):
    """What the sanitizers said, for those who see no more than what is printed here."""
    with open(log, encoding="utf-8", errors="replace") as f:
        lines = f.read().splitlines()[-40:]
    print("".join("  %s\n" % line for line in lines), end="", flush=True)


def read_log(path, is_crash):
    """What libFuzzer printed. Where it crashed there are no final figures, only the last line."""
    with open(path, encoding="utf-8", errors="replace") as f:
        text = f.read()
    begun = re.search(r"^#\d+\s+INITED\s+cov: (\d+)", text, re.M)
    places = [int(n) for n in re.findall(r"^#\d+\s+\S+\s+cov: (\d+)", text, re.M)]
    done = re.findall(r"^stat::number_of_executed_units: *(\d+)", text, re.M)
    done = done or re.findall(r"^#(\d+)\s", text, re.M) or ["0"]
    first = int(begun[1]) if begun else 0
    return Run(int(done[-1]), first, max(places, default=0), is_crash)


def run_all(fuzzers, places, seconds):
    """Share the fuzzers out: a thread for each place takes one after the other."""
    jobs = queue.SimpleQueue()
    count = max(len(places), len(fuzzers))
    left = collections.Counter()
    for i in range(count):
        fuzzer = fuzzers[i % len(fuzzers)]
        left[fuzzer] += 1
        jobs.put((fuzzer, i // len(fuzzers)))
    lock = threading.Lock()

    def work(cores):
        while True:
            try:
                fuzzer, number = jobs.get_nowait()
            except queue.Empty:
                return
            fuzzer.fuzz(number, cores, seconds)
            with lock:
                left[fuzzer] -= 1
                if not left[fuzzer]:
                    print(fuzzer.summary(), flush=True)

    threads = [threading.Thread(target=work, args=(cores,)) for cores in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def find_libraries(path):
    listed = subprocess.run(["ldd", path], stdout=subprocess.PIPE, check=True).stdout.decode()
    return re.findall(r"(/\S+) \(0x", listed)


def pack(fuzzers, folder):
    """The fuzzers and all that they need in `folder`."""
    for name in ("bin", "lib/libc", "corpus", IMAGES):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    libraries = set()
    for path in fuzzers:
        shutil.copy(path, os.path.join(folder, "bin"))
        libraries.update(find_libraries(path))
    for path in libraries:
        name = os.path.basename(path)
        shutil.copy(path, os.path.join(folder, "lib", "libc" if LIBC.match(name) else "", name))
    if os.path.isdir(os.path.join(BUILD, "corpus")):
        shutil.copytree(
            os.path.join(BUILD, "corpus"), os.path.join(folder, "corpus"), dirs_exist_ok=True
        )
    shutil.copytree(os.path.join(ROOT, IMAGES), os.path.join(folder, IMAGES), dirs_exist_ok=True)
    shutil.copy(os.path.abspath(__file__), os.path.join(folder, "fuzz.py"))
    print("%d fuzzers packed in %s" % (len(fuzzers), folder))


def main():
    words = sys.argv[1:]
    folder = None
    if words[:1] == ["--pack"] and len(words) > 1 and not PACKED:
        folder, words = words[1], words[2:]
    if any(word.startswith("-") for word in words):
        sys.exit(__doc__)
    places = read_places()
    paths = choose_fuzzers(find_packed() if PACKED else build_fuzzers(), words)
    if folder:
        pack(paths, folder)
        return 0
    os.makedirs(os.path.join(BUILD, "crashes"), exist_ok=True)
    fuzzers = [Fuzzer(path) for path in paths]
    run_all(fuzzers, places, int(os.environ.get("FUZZ_SECONDS") or 20))
    failed = sum(fuzzer.crashes() > 0 for fuzzer in fuzzers)
    print("%d passed, %d failed" % (len(fuzzers) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
