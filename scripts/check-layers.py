#!/usr/bin/env python3
"""Hold the table of modules in docs/architecture.md against the code.

Each row names a module and the modules it may use. Every #include "module/..." and every symbol of
the built objects must follow it, no module may use one that stands below it in the table, and every
folder of src/ must have a row. Usage: check-layers.py SOURCE [BUILD]; prints TAP.
"""
import collections
import os
import re
import subprocess
import sys


def read_table(path):
    """The rows `| layer | \\`src/x\\` | knows | may use |`, in order: module -> set of modules."""
    allowed = collections.OrderedDict()
    for line in open(path):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        names = re.findall(r"`src/(\w+)`", cells[1]) if len(cells) == 4 else []
        for name in names:
            allowed[name] = set(re.findall(r"\w+", cells[3])) - {"nothing"}
    return allowed


def find_includes(source):
    """(file, user, used) for each include of one module's file by another's."""
    for folder, _, files in os.walk(os.path.join(source, "src")):
        for name in sorted(files):
            if not name.endswith((".c", ".h", ".def")):
                continue
            path = os.path.join(folder, name)
            user = os.path.relpath(path, os.path.join(source, "src")).split(os.sep)[0]
            for used in re.findall(r'^#include "(\w+)/', open(path).read(), re.M):
                if used != user:
                    yield os.path.relpath(path, source), user, used


def module_of(member, modules):
    """libws.a keeps objects as `module_file.c.o`; what the build generates has other names."""
    module = member.split("_")[0]
    return module if module in modules else None


def find_symbols(build, modules):
    """(object, user, used, symbol) for each symbol of libws.a that a module takes from another."""
    listing = subprocess.run(
        ["nm", "-A", os.path.join(build, "src", "libws.a")], capture_output=True, text=True
    ).stdout
    defined, needed = {}, []
    for line in listing.splitlines():
        match = re.match(r".*[/:]([^/:]+\.o):\s*[0-9a-f]*\s+([A-Za-z])\s+(\S+)$", line)
        if not match:
            continue
        member, kind, symbol = match.groups()
        if kind == "U":
            needed.append((member, symbol))
        elif kind in "TDBRVWC":
            defined[symbol] = module_of(member, modules)
    for member, symbol in needed:
        user, used = module_of(member, modules), defined.get(symbol)
        if user and used and user != used:
            yield member, user, used, symbol


def main():
    source = sys.argv[1]
    allowed = read_table(os.path.join(source, "docs", "architecture.md"))
    order = list(allowed)
    results = []

    def check(name, problems):
        results.append((name, problems))

    folders = sorted(
        d
        for d in os.listdir(os.path.join(source, "src"))
        if os.path.isdir(os.path.join(source, "src", d))
    )
    check(
        "every folder of src/ has a row", [f"src/{d} has none" for d in folders if d not in allowed]
    )
    check("every row is a folder", [f"src/{d} does not exist" for d in order if d not in folders])
    check(
        "modules use only what stands above them in the table",
        [
            f"{module} may use {used}"
            for module in order
            for used in sorted(allowed[module])
            if used not in allowed or order.index(used) >= order.index(module)
        ],
    )
    check(
        "includes",
        [
            f"{path} includes {used}/"
            for path, user, used in find_includes(source)
            if user in allowed and used in allowed and used not in allowed[user]
        ],
    )
    if len(sys.argv) > 2:
        symbols = sorted(set(find_symbols(sys.argv[2], set(folders))))
        check(
            "symbols were found", [] if len(symbols) > 100 else [f"only {len(symbols)} in libws.a"]
        )
        check(
            "symbols",
            [
                f"{member} uses {symbol} of {used}"
                for member, user, used, symbol in symbols
                if used not in allowed[user]
            ],
        )
    print(f"1..{len(results)}")
    for number, (name, problems) in enumerate(results, 1):
        print(f"{'not ok' if problems else 'ok'} {number} - {name}")
        for problem in problems[:40]:
            print(f"# {problem}")
    sys.exit(any(problems for _, problems in results))


main()
