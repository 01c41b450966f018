#!/usr/bin/env python3
"""Check the form of the tree, or of some files: format-check.py [FILE...]; prints what is wrong,
and exits 1 when anything is.

Formatters say what they would change: clang-format for C, black for Python, prettier for TypeScript
and JavaScript. What formatters leave alone is measured here: the width of lines, blanks at their
ends, and the newline at the end of a file. `make format` does what formatters can.
"""
import ast
import os
import re
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PRETTIER = os.path.join("viewer", "node_modules", ".bin", "prettier")
CODE = 100
PROSE = 120  # of docs/; a row of a table cannot be wrapped, and examples show what programs print
C_FILES = (".c", ".h", ".def")
SCRIPTS = (".ts", ".mjs")
WIDTHS = {"README.md": CODE, ".md": PROSE}
PLAIN = C_FILES + SCRIPTS + (".py", ".sh", ".css", "meson.build", "Makefile", ".ci/run", ".md")
# A text in quotes may be longer than a line: breaking it would make it hard to search for.
QUOTED = re.compile(r"""["'`/].{40,}""")


def list_files(asked):
    """The files asked for, as far as they are there; else what git keeps, or, without git,
    what is there but for builds and libraries.
    """
    if asked:
        return [path for path in asked if os.path.isfile(path)]
    listing = subprocess.run(["git", "ls-files"], capture_output=True, text=True)
    if listing.returncode == 0:
        return [path for path in listing.stdout.splitlines() if os.path.exists(path)]
    found = []
    for folder, folders, files in os.walk("."):
        folders[:] = [f for f in folders if not f.startswith(("build", ".git", "node_modules"))]
        found += [os.path.relpath(os.path.join(folder, name)) for name in files]
    return found


def run_formatter(command, files, complaint):
    """Lines about the files that a formatter would change."""
    if not files:
        return []
    try:
        result = subprocess.run([*command, *files], capture_output=True, text=True)
    except FileNotFoundError:
        return [f"{command[0]} is not installed"]
    if not result.returncode:
        return []
    said = result.stdout + result.stderr
    names = [path for path in files if path in said]
    return [f"{path}: {complaint}" for path in names] or [f"{command[0]}: {said[-500:]}"]


def check_formatters(files):
    c_files = [f for f in files if f.endswith(C_FILES)]
    plain_c = [f for f in c_files if not f.endswith(".def")]
    wrong = run_formatter(
        ["clang-format", "--dry-run", "-Werror"], plain_c, "clang-format would change it"
    )
    for path in c_files:
        if path.endswith(".def"):  # which clang-format takes for C++ unless it is told
            wrong += check_table(path)
    python = [f for f in files if f.endswith(".py")]
    wrong += run_formatter(["black", "--check"], python, "black would change it")
    scripts = [f for f in files if f.endswith(SCRIPTS)]
    if os.path.exists(PRETTIER):
        wrong += run_formatter([PRETTIER, "--list-different"], scripts, "prettier would change it")
    else:
        print("format-check: no prettier (npm ci in viewer): TypeScript is not checked")
    return wrong


def check_table(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    command = ["clang-format", "--assume-filename=table.h"]
    try:
        formatted = subprocess.run(command, input=text, capture_output=True, text=True).stdout
    except FileNotFoundError:
        return ["clang-format is not installed"]
    return [] if formatted == text else [f"{path}: clang-format would change it"]


def data_lines(path, text):
    """Numbers of the lines of a Python file that are inside of a text over several lines."""
    lines = set()
    if path.endswith(".py"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.Constant, ast.JoinedStr)) and node.end_lineno > node.lineno:
                lines.update(range(node.lineno, node.end_lineno + 1))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                if node.body and ast.get_docstring(node) is not None:
                    first = node.body[0]
                    lines.difference_update(range(first.lineno, first.end_lineno + 1))
    return lines


def may_be_wide(path, line, in_example):
    if path.endswith(".md"):
        return in_example or line.startswith(("|", "    ", "      ")) or " " not in line.strip()
    return path.endswith(SCRIPTS) and bool(QUOTED.search(line))


def check_lines(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    limit = WIDTHS.get(path, WIDTHS.get(os.path.splitext(path)[1], CODE))
    wide = data_lines(path, text)
    wrong = []
    in_example = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            in_example = not in_example
        columns = len(line.expandtabs(8))
        if columns > limit and number not in wide and not may_be_wide(path, line, in_example):
            wrong.append(f"{path}:{number}: {columns} columns, {limit} at most")
        if line != line.rstrip() and not in_example and number not in wide:
            wrong.append(f"{path}:{number}: blanks at the end")
    if text and not text.endswith("\n"):
        wrong.append(f"{path}: no newline at the end")
    return wrong


def main():
    os.chdir(ROOT)
    files = list_files(sys.argv[1:])
    wrong = check_formatters(files)
    for path in files:
        if path.endswith(PLAIN) and not os.path.islink(path):
            wrong += check_lines(path)
    print("\n".join(wrong + [f"format-check: {len(files)} files, {len(wrong)} complaints"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
