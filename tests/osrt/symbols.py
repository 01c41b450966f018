#!/usr/bin/env python3
"""
symbols.py - what the hook libraries need of the programs they are loaded into: symbols.py
LIBRARY...; TAP on standard output.

They go into containers with another C library: nothing newer than GLIBC_2.28, no library beyond
libc, libdl, libpthread, the loader and ourselves, little thread-local storage, and no function
exported that is not meant to be.
"""
import os
import re
import subprocess
import sys

NEWEST = (2, 28)
LIBRARIES = re.compile(
    r"^(libc\.so\.6|libdl\.so\.2|libpthread\.so\.0|ld-linux-[\w-]+\.so\.\d|libwarpsight-hooks\.so)$"
)
HERE = os.path.dirname(os.path.abspath(__file__))


def readelf(*argv):
    return subprocess.run(
        ["readelf", "-W", *argv], stdout=subprocess.PIPE, check=True
    ).stdout.decode()


def wrapped():
    """The names in osrt_functions.def, and those that have wrappers without being traced."""
    text = open(os.path.join(HERE, "..", "..", "src", "ring", "osrt_functions.def")).read()
    return set(re.findall(r"^WS_OSRT(?:_VARIADIC|_OWN)?\((\w+),", text, re.M)) | {
        "pthread_setname_np"
    }


def symbols(library):
    for line in readelf("--dyn-syms", library).split("\n"):
        f = line.split()
        if len(f) >= 8 and f[0].rstrip(":").isdigit():
            yield f[6] != "UND", f[3], f[7]


def needed(library):
    return [
        n for n in re.findall(r"NEEDED.*\[(.*)\]", readelf("-d", library)) if not LIBRARIES.match(n)
    ]


def too_new(library):
    found = set(re.findall(r"Name: GLIBC_(\d+(?:\.\d+)+)", readelf("-V", library)))
    return sorted(v for v in found if tuple(map(int, v.split("."))) > NEWEST)


def big_tls(library):
    return re.findall(
        r"^\s+TLS\s+\S+ \S+ \S+ \S+ (0x[0-9a-f]*[1-9a-f][0-9a-f]{2,})", readelf("-l", library), re.M
    )


def stray_exports(library):
    if "osrt" not in os.path.basename(library):
        return []
    names = {
        n.split("@")[0]
        for defined, kind, n in symbols(library)
        if defined and kind in ("FUNC", "OBJECT", "NOTYPE")
    }
    names -= {"GLIBC_2.3.2"}
    return sorted(n for n in names - wrapped() if not n.startswith("ws_"))


def missing_exports(library):
    if "osrt" not in os.path.basename(library):
        return []
    names = {n.split("@")[0] for defined, _, n in symbols(library) if defined}
    only_x86 = (
        {"arch_prctl", "ioperm", "iopl", "uselib", "nfsservctl"}
        if os.uname().machine != "x86_64"
        else set()
    )
    return sorted(wrapped() - names - only_x86)


def unbound_exception_code(library):
    """Anything of libgcc's unwinder: the personality is our own so that there is none."""
    return sorted(
        n for _, _, n in symbols(library) if "personality" in n or n.startswith("_Unwind")
    )


CHECKS = [needed, too_new, big_tls, stray_exports, missing_exports, unbound_exception_code]


def main():
    libraries = sys.argv[1:]
    print("1..%d" % (len(libraries) * len(CHECKS)))
    n = failed = 0
    for library in libraries:
        for check in CHECKS:
            n += 1
            wrong = check(library)
            failed += bool(wrong)
            print(
                "%s %d - %s: %s%s"
                % (
                    "not ok" if wrong else "ok",
                    n,
                    os.path.basename(library),
                    check.__name__.replace("_", " "),
                    ": " + ", ".join(wrong) if wrong else "",
                )
            )
    return 1 if failed else 0


sys.exit(main())
