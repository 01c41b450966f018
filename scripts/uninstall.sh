#!/bin/sh
# Remove what `make install` put under its prefix: uninstall.sh BUILD. The build knows the prefix
# and every file; DESTDIR is heeded as for the installation. Folders of our name go when nothing is
# left in them.
set -eu
meson introspect "$1" --installed | python3 -c '
import json, os, shutil, sys

root, build = sys.argv[1:3]
with open(os.path.join(build, "meson-info", "intro-buildoptions.json")) as f:
    prefix = next(o["value"] for o in json.load(f) if o["name"] == "prefix")
paths = [os.path.join(prefix, path) for path in json.load(sys.stdin).values()]
paths.append(os.path.join(prefix, "share/bash-completion/completions/warpsight"))
folders, removed = set(), 0
for path in sorted(set(paths)):
    folder = os.path.dirname(path)
    while "warpsight" in folder[len(prefix) :].split("/"):
        folders.add(folder)
        folder = os.path.dirname(folder)
    path = root + path
    if not os.path.lexists(path):
        continue
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)
    removed += 1
for folder in sorted(folders, key=len, reverse=True):
    if os.path.isdir(root + folder) and not os.listdir(root + folder):
        os.rmdir(root + folder)
print("removed %d files and folders under %s" % (removed, root + prefix))
' "${DESTDIR:-}" "$1"
