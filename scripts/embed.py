#!/usr/bin/env python3
"""Make files part of the program: embed.py OUT.c FILE... writes them as C arrays; embed.py --list
DIR prints the page's sources.
"""
import base64
import gzip
import hashlib
import os
import sys

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


def main():
    if sys.argv[1] == "--list":
        for folder, _, names in sorted(os.walk(os.path.join(sys.argv[2], "src"))):
            for name in sorted(names):
                print(os.path.join(folder, name))
        return
    out = ["/* Made by scripts/embed.py. */", '#include "page/page.h"', ""]
    entries = []
    for i, path in enumerate(sys.argv[2:]):
        data = open(path, "rb").read()
        packed = gzip.compress(data, 9, mtime=0)
        for name, what in (("file", data), ("packed", packed)):
            rows = (",".join(map(str, what[k : k + 32])) for k in range(0, len(what), 32))
            out.append(
                "static const unsigned char %s%d[] = {\n%s\n};" % (name, i, ",\n".join(rows))
            )
        digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
        entries.append(
            '    {"%s", "%s", file%d, sizeof(file%d), packed%d, sizeof(packed%d), "%s"},'
            % (os.path.basename(path), TYPES[os.path.splitext(path)[1]], i, i, i, i, digest)
        )
    out += [
        "",
        "const struct ws_asset ws_assets[] = {",
        *entries,
        "    {0, 0, 0, 0, 0, 0, 0},",
        "};",
        "",
    ]
    with open(sys.argv[1], "w") as f:
        f.write("\n".join(out))


main()
