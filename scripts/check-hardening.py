#!/usr/bin/env python3
"""Check that binaries have what the compiler and the linker can do against overwritten memory:
check-hardening.py BINARY...; prints TAP. With --readelf=COMMAND for another architecture's.

Asked of every file: a table of addresses that is read-only once it is bound (RELRO, BIND_NOW),
no memory that is writable and executable, no relocations in code, and code whose indirect calls
land only where functions begin (endbr64, BTI) as far as it is ours. Of programs: a place of their
own choosing in memory (PIE), a stack protector and checked C-library calls (FORTIFY). The hooks
have neither of the last two: both report through the C library of a program that is not ours, and
the protector's guard lies in thread-local memory, which a thread made by a bare clone() may lack.
"""
import os
import re
import subprocess
import sys

READELF = "readelf"
# The instructions that indirect branches may land on: endbr64; bti c, paciasp.
LANDINGS = {
    "X86-64": (b"\xf3\x0f\x1e\xfa",),
    "AArch64": (b"\x5f\x24\x03\xd5", b"\x3f\x23\x03\xd5"),
}


def read_elf(*args):
    return subprocess.run(
        [READELF, *args], stdout=subprocess.PIPE, text=True, check=True, errors="replace"
    ).stdout


class Binary:
    def __init__(self, path):
        self.path, self.name = path, os.path.basename(path)
        self.head = read_elf("-hW", path)
        self.segments = read_elf("-lW", path)
        self.dynamic = read_elf("-dW", path)
        self.symbols = read_elf("--dyn-syms", "-W", path)
        self.imports = set(re.findall(r" UND (\w+)", self.symbols))
        self.is_hook = self.name.startswith("libwarpsight-")
        self.is_static = "(NEEDED)" not in self.dynamic

    def has_segment(self, name):
        return re.search(r"^\s+%s\s" % name, self.segments, re.MULTILINE) is not None

    def writable_code(self):
        return [s for s in self.segments.splitlines() if re.match(r"\s+(LOAD|GNU_STACK)\s.*RWE", s)]

    def loads(self):
        """(address, offset in the file, size) of what is mapped."""
        found = re.findall(
            r"LOAD\s+(0x\w+)\s+(0x\w+)\s+0x\w+\s+(0x\w+)", self.segments, re.MULTILINE
        )
        return [(int(at, 16), int(offset, 16), int(size, 16)) for offset, at, size in found]

    def functions(self):
        """(name, address) of the functions that others may call."""
        found = re.findall(
            r"^\s+\d+: (\w+)\s+[1-9]\d* FUNC\s+(?:GLOBAL|WEAK)\s+DEFAULT\s+\d+ (\S+)",
            self.symbols,
            re.MULTILINE,
        )
        return [(name, int(at, 16)) for at, name in found]

    def without_landing(self):
        """Functions that do not begin with a landing of the architecture."""
        landings = next((l for m, l in LANDINGS.items() if m in self.head), ())
        bad, loads = [], self.loads()
        with open(self.path, "rb") as file:
            for name, at in self.functions():
                start, offset, _ = next(l for l in loads if l[0] <= at < l[0] + l[2])
                file.seek(offset + at - start)
                if landings and file.read(4) not in landings:
                    bad.append(name)
        return bad


def problems_of(binary):
    """(what is promised, what is wrong with it) for each promise."""
    yield "has no memory that is writable and executable", binary.writable_code()
    yield "has no relocations in its code", re.findall("TEXTREL", binary.dynamic)
    if not binary.is_hook:
        position = "DYN (" in binary.head
        yield "chooses its place in memory", [] if position else ["fixed"]
    bound = re.search(r"BIND_NOW|Flags:.* NOW", binary.dynamic) and binary.has_segment("GNU_RELRO")
    yield "binds at its start and then protects its addresses", [] if bound else ["lazy"]
    yield "has a landing at each function that others may call", binary.without_landing()
    if not binary.is_hook and not binary.is_static:
        guarded = "__stack_chk_fail" in binary.imports
        yield "has a stack protector", [] if guarded else ["no __stack_chk_fail"]
        checked = any(re.match(r"__\w+_chk$", name) for name in binary.imports)
        yield "has checked calls of the C library", [] if checked else ["no __*_chk"]


def main(paths):
    number = failures = 0
    for path in paths:
        binary = Binary(path)
        for promise, problems in problems_of(binary):
            number += 1
            failures += bool(problems)
            print("%sok %d - %s %s" % ("not " if problems else "", number, binary.name, promise))
            for problem in problems[:20]:
                print("# " + problem.strip())
    print("1..%d" % number)
    return failures > 0


if __name__ == "__main__":
    for word in sys.argv[1:]:
        if word.startswith("--readelf="):
            READELF = word.split("=", 1)[1]
    sys.exit(main([word for word in sys.argv[1:] if not word.startswith("--")]))
