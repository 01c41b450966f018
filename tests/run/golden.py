"""golden.py - tests that are text files: golden/NAME.test holds a program, a command and the tables
expected.

    # What it shows, one line.
    command: {ranges} nested 10          {word} is a program of the build, {src}/word a file of
    programs/
    options: --trace=nvtx                given to profile
    needs: go                            words of harness.NEEDS
    build: go                            how to make it first (see BUILDERS), with `source:`
    status: 0                            expected exit status, 0 when left out
    stdin: text                          given to both runs

    [stats nvtx_sum]                     CSV of one statistics report, without regard to the order
    of rows
    Time (%),Total Time (ns),...
    #,#,10,...
    [sql SELECT ...]                     rows of a query on the SQLite export, columns separated by
    |
    [jsonlines WORD]                     how many lines of the JSON lines export hold WORD
    [stdout]                             what the program writes

In expected tables # stands for any number and * for any text within a field. Each test also runs
the command bare and compares standard output, standard error and exit status, and checks `info
--verify`.
"""
import os
import re
import shlex
import shutil
import subprocess

from harness import Failed, test


def pattern_of(line):
    """Regular expression of an expected line."""
    out = []
    for c in line:
        out.append(r"-?[0-9]+(?:\.[0-9]+)?" if c == "#" else "[^,|]*" if c == "*" else re.escape(c))
    return re.compile("".join(out) + r"\Z")


def compare(seen, expected, what):
    """Every expected line must match a line of its own, and none may be left over."""
    left = list(seen)
    for line in expected:
        p = pattern_of(line)
        hit = next((s for s in left if p.match(s)), None)
        if hit is None:
            raise Failed(
                "%s: no line matches %r; lines not yet matched:\n%s" % (what, line, "\n".join(left))
            )
        left.remove(hit)
    if left:
        raise Failed("%s: lines not expected:\n%s" % (what, "\n".join(left)))


def parse(path):
    keys, sections, current = {}, [], None
    with open(path, encoding="utf-8") as f:
        for number, raw in enumerate(f, 1):
            line = raw.rstrip("\n")
            head = re.match(r"\[(.+)\]$", line)
            if head:
                current = []
                sections.append((head.group(1), current))
            elif current is not None:
                if line:
                    current.append(line)
            elif line and not line.startswith("#"):
                key, colon, value = line.partition(":")
                if not colon:
                    raise Failed("%s:%d: neither a key nor a section: %r" % (path, number, line))
                keys[key.strip()] = value.strip()
    return keys, sections


def make(t, argv, name):
    """Run a compiler once per build folder."""
    os.makedirs(t.where.cache, exist_ok=True)
    target = os.path.join(t.where.cache, name)
    r = subprocess.run(
        [a.replace("{out}", target) for a in argv],
        env=dict(t.env, HOME=t.dir, GOCACHE=os.path.join(t.where.cache, "go-cache")),
        cwd=t.where.cache,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if r.returncode:
        raise Failed("%s: %s" % (" ".join(argv), r.stdout.decode("utf-8", "replace")))
    return target


def build_go(t, source, name):
    return make(t, ["go", "build", "-o", "{out}", t.source(source)], name)


def build_rust(t, source, name):
    # rustc may be a shim that needs the caller's HOME to find its toolchain
    os.makedirs(t.where.cache, exist_ok=True)
    target = os.path.join(t.where.cache, name)
    r = subprocess.run(
        ["rustc", "-O", "-o", target, t.source(source)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if r.returncode:
        raise Failed("rustc: %s" % r.stdout.decode("utf-8", "replace"))
    return target


def build_cxx(t, source, name):
    return make(t, ["c++", "-std=c++17", "-O1", "-pthread", "-o", "{out}", t.source(source)], name)


BUILDERS = {"cxx": build_cxx, "go": build_go, "rust": build_rust}


def check_section(t, report, db, result, head, lines):
    kind, _, rest = head.partition(" ")
    if kind == "stats":
        r = t.tool("stats", "-q", "-f", "csv", "-o", "-", "-r", rest, report)
        if r.status:
            raise Failed("stats -r %s: %s" % (rest, r.said()))
        compare(
            [l for l in r.out.decode().splitlines() if l], lines, head
        )  # an empty line ends each table
    elif kind == "sql":
        rows = ["|".join("" if v is None else str(v) for v in row) for row in db.sql(rest)]
        compare(rows, lines, head)
    elif kind == "jsonlines":
        r = t.tool("export", "-t", "jsonlines", "-o", "-", report)
        if r.status:
            raise Failed("export -t jsonlines: %s" % r.said())
        n = sum(1 for l in r.out.decode().splitlines() if rest in l)
        compare([str(n)], lines, head)
    elif kind == "stdout":
        compare(result.out.decode().splitlines(), lines, head)
    else:
        raise Failed("unknown section [%s]" % head)


def run_file(path):
    def body(t):
        keys, sections = parse(path)
        known = {"command", "options", "needs", "build", "source", "status", "stdin", "stderr"}
        if set(keys) - known:
            raise Failed("unknown keys: %s" % ", ".join(sorted(set(keys) - known)))
        words = {}
        if "build" in keys:
            words["made"] = BUILDERS[keys["build"]](t, keys["source"], os.path.basename(path)[:-5])
        argv = []
        for w in shlex.split(keys["command"]):
            argv.append(
                re.sub(
                    r"\{([\w.-]+)\}",
                    lambda m: (
                        t.where.sources
                        if m.group(1) == "src"
                        else words.get(m.group(1)) or t.program(m.group(1))
                    ),
                    w,
                )
            )
        argv[0] = shutil.which(argv[0]) or argv[0]
        r = t.same(
            argv,
            *shlex.split(keys.get("options", "")),
            stdin=keys.get("stdin", "").encode().decode("unicode_escape").encode(),
            ignore_err=keys.get("stderr"),
        )
        t.eq(r.status, int(keys.get("status", "0")), "exit status")
        t.verify(r.report)
        db = t.load(r.report)
        for head, lines in sections:
            check_section(t, r.report, db, r, head, lines)

    return body


def collect(folder):
    for name in sorted(os.listdir(folder)):
        if name.endswith(".test"):
            path = os.path.join(folder, name)
            keys, _ = parse(path)
            body = run_file(path)
            body.__name__ = name[:-5]
            test("golden", tuple(keys.get("needs", "").split()))(body)
