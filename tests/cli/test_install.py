#!/usr/bin/env python3
"""What `make install` installs, and that `make uninstall` removes it and nothing else. Prints TAP.

Usage: test_install.py BUILD-FOLDER SOURCE-FOLDER. Installs into a folder of its own.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import check_equal as check, done

BUILD, SOURCE = map(os.path.abspath, sys.argv[1:3])


def files_below(folder):
    return sorted(
        os.path.relpath(os.path.join(place, name), folder)
        for place, _, names in os.walk(folder)
        for name in names
    )


def broken_links(place):
    """Of the security policy and of what it leads to; both must be readable without the tree."""
    broken = []
    for name in ("SECURITY.md", "docs/security.md"):
        path = os.path.join(place, name)
        if not os.path.exists(path):
            broken.append(name)
            continue
        with open(path, encoding="utf-8") as f:
            links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", f.read())
        folder = os.path.dirname(path)
        broken += [link for link in links if not os.path.exists(os.path.join(folder, link))]
    return broken


def main():
    if not shutil.which("meson"):
        print("1..0 # SKIP no meson")
        return
    with tempfile.TemporaryDirectory() as root:
        subprocess.run(
            ["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", root],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        files = files_below(root)
        names = {os.path.basename(f) for f in files}
        check("the program is installed", "warpsight" in names, True)
        check("and its manual page", any(f.endswith("man1/warpsight.1") for f in files), True)
        check(
            "documents lie beside it",
            sorted(f.split("doc/warpsight/docs/")[1] for f in files if "doc/warpsight/docs/" in f),
            files_below(os.path.join(SOURCE, "docs")),
        )
        check(
            "and the examples that they lead to",
            any(f.endswith("doc/warpsight/examples/cpu/data_loader.py") for f in files),
            True,
        )
        readme = [f for f in files if f.endswith("doc/warpsight/README.md")]
        check("with the README, whose links to them hold", len(readme), 1)
        place = os.path.join(root, os.path.dirname(readme[0]))
        check("documents on security lead to files that are there", broken_links(place), [])
        own = os.path.join(root, os.path.dirname(readme[0]), "notes.txt")
        with open(own, "w", encoding="ascii") as f:
            f.write("a file of the user's\n")
        subprocess.run(
            [os.path.join(SOURCE, "scripts", "uninstall.sh"), BUILD],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "DESTDIR": root},
        )
        check("only the user's own is left", files_below(root), [os.path.relpath(own, root)])
        left = [place for place, folders, names in os.walk(root) if not folders and not names]
        check("no empty folder of ours", [place for place in left if "warpsight" in place], [])
    return done()


sys.exit(main())
