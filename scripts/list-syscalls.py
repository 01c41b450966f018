#!/usr/bin/env python3
"""
list-syscalls.py OUT CC... - the system calls that the C library's header knows for the machine that
is built for, as lines of C: {SYS_read, "read"},
"""
import re
import subprocess
import sys

macros = subprocess.run(
    [*sys.argv[2:], "-dM", "-E", "-x", "c", "-"],
    input="#include <sys/syscall.h>\n",
    stdout=subprocess.PIPE,
    universal_newlines=True,
    check=True,
).stdout
names = sorted(set(re.findall(r"^#define SYS_(\w+)\b", macros, re.M)))
with open(sys.argv[1], "w", encoding="ascii") as out:
    for name in names:
        out.write('{SYS_%s, "%s"},\n' % (name, name))
