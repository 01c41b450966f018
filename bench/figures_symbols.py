"""figures_symbols.py - how fast stacks are unwound, and what naming places in a program with a
gigabyte of debugging information takes.
"""
import os
import subprocess

from run import Row, figure

UNITS = 380  # of some 2.7 MB each


def source(functions):
    """Types and functions that inline each other: a unit with much debugging information."""
    for i in range(functions):
        yield (
            "struct s%d { int a; long b; double c[4]; struct s%d *next; char name[%d]; unsigned"
            " flag : 3; };"
            % (
                i,
                max(i - 1, 0),
                16 + i % 7,
            )
        )
        for name, body in (
            (
                "in",
                "long r = x; for (int k = 0; k < 3; k++) { r += p->a * k; p->b ^= r; } return r;",
            ),
            ("mid", "long y = in%d(p, x + %d); return y + in%d(p, y);" % (i, i, i)),
        ):
            yield (
                "static inline __attribute__((always_inline)) long %s%d(struct s%d *p, long x) {"
                " %s }"
                % (
                    name,
                    i,
                    i,
                    body,
                )
            )
        yield (
            "long fn%d(struct s%d *p, long x) { long v = mid%d(p, x); if (v > %d) v -= mid%d(p, v);"
            " return v; }"
            % (
                i,
                i,
                i,
                i,
                i,
            )
        )


def large(b):
    """A library with UNITS copies of one unit under different names; about a gigabyte. Needs a
    compiler and binutils.
    """
    path = b.path("large.so")
    if os.path.exists(path):
        return path
    with open(b.path("unit.c"), "w") as f:
        f.write("\n".join(source(1500)))
    subprocess.run(
        ["cc", "-g", "-O2", "-fPIC", "-c", b.path("unit.c"), "-o", b.path("unit.o")], check=True
    )
    copies = []
    for i in range(UNITS):
        copies.append(b.path("unit%d.o" % i))
        subprocess.run(
            ["objcopy", "--prefix-symbols=c%d_" % i, b.path("unit.o"), copies[-1]], check=True
        )
    subprocess.run(["ld", "-shared", "--build-id", "-o", path] + copies, check=True)
    for name in copies:
        os.unlink(name)
    return path


def numbers(b, *argv):
    return [
        float(x)
        for x in subprocess.run(
            [b.program("symbols_bench"), *argv], check=True, stdout=subprocess.PIPE, text=True
        ).stdout.split()
    ]


@figure
def unwinding(b):
    runs = [numbers(b, "unwind", "0.5") for _ in range(b.runs)]
    return [
        Row(
            "copied stacks unwound, rules known",
            "M stacks/s",
            [],
            [r[0] for r in runs],
            1.7,
            added=False,
            at_least=True,
            digits=2,
        ),
        Row("a frame of them", "ns", [], [r[1] for r in runs], None),
        Row(
            "a stack of %d frames, no rule known" % runs[0][2], "us", [], [r[3] for r in runs], 300
        ),
    ]


@figure
def symbols_of_a_gigabyte(b):
    path = large(b)
    runs = [numbers(b, "symbolise", path, "2000") for _ in range(max(1, b.runs // 2))]
    return [
        Row(
            "names, lines, inlining of 2,000 places, %.1f GB" % (os.path.getsize(path) / 1e9),
            "s",
            [],
            [r[0] for r in runs],
            5,
            digits=2,
        ),
        Row("memory for that", "MiB", [], [r[1] for r in runs], 500),
    ]
