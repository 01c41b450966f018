#!/usr/bin/env python3
"""Count how src/ and the page are written, against limits: style.py [FILE...].

Names: the share of one-letter identifiers, the mean length of all, and the share of functions whose
name is one short word. Form: conditional expressions for a thousand lines, lines over 100 columns,
the median and the longest of functions in lines, functions with more than six parameters. Texts,
comments and names of included files do not count. Exits 1 when a limit is broken; with -v, says
which names and functions weigh most.
Of TypeScript (viewer/src) lines over 100 columns count, and the share of one-letter identifiers, by
itself.
"""
import argparse
import collections
import os
import re
import statistics
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
COLUMNS = 100
SHORT_WORD = 7  # letters at most of a short name

KEYWORDS = set(
    """auto break case char const continue default do double else enum extern float for goto if
    inline int long register restrict return short signed sizeof static struct switch typedef union
    unsigned void volatile while _Bool _Atomic _Static_assert _Thread_local _Alignas _Alignof
    _Noreturn NULL bool true false asm __asm__ typeof __typeof__ __attribute__ define include ifdef
    ifndef endif elif undef error pragma defined""".split()
)
TEXT_OR_COMMENT = re.compile(
    r"""/\*.*?\*/ | //[^\n]* | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'""", re.S | re.X
)
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include.*$", re.M)
IDENTIFIER = re.compile(r"\b[A-Za-z_]\w*\b")

PARAMETERS = 6
# Others prescribe these: a system call's number and its six arguments, libmicrohttpd's callback.
PRESCRIBED = {"ws_syscall", "ws_raw_syscall", "answer_request", "begin_v4", "begin_v5"}

Function = collections.namedtuple("Function", "lines path name parameters")
# Of the counts: name, what is measured, and the limit; a limit of "least" is a floor.
Limit = collections.namedtuple("Limit", "title limit least")
LIMITS = {
    "one_letter": Limit("one-letter identifiers, %", 15, False),
    "page_letters": Limit("one-letter identifiers of the page, %", 10, False),
    "mean_length": Limit("mean length of identifiers", 6.4, True),
    "short_words": Limit("functions named by one short word, %", 4, False),
    "conditionals": Limit("?: for a thousand lines", 10, False),
    "wide": Limit("lines over 100 columns", 0, False),
    "median": Limit("median lines of a function", 15, False),
    "longest": Limit("lines of the longest function", 80, False),
    "parameters": Limit("functions with more than 6 parameters", 0, False),
}


def blank_out(match):
    """A comment becomes blanks, a text an empty one; lines keep their places."""
    found = match.group(0)
    return re.sub(r"[^\n]", " ", found) if found[0] == "/" else '""'


def strip_source(text):
    return INCLUDE.sub("", TEXT_OR_COMMENT.sub(blank_out, text))


def count_parameters(text):
    """How many the list has that begins with the text's first character, a parenthesis."""
    depth, count = 0, 1
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if not depth:
            break
        count += character == "," and depth == 1
    return count


def function_head(lines, brace):
    """Name and number of parameters of the function whose body begins in line `brace`."""
    head = ""
    for line in reversed(lines[:brace]):
        head = line + " " + head
        if re.match(r"[A-Za-z_]", line):
            break
    match = re.search(r"\b(\w+)\s*\(", head)
    return (match.group(1), count_parameters(head[match.end() - 1 :])) if match else None


def find_functions(path, code):
    lines = code.split("\n")
    for number, line in enumerate(lines):
        if line.rstrip() != "{":
            continue
        end = number
        while end < len(lines) and not lines[end].startswith("}"):
            end += 1
        head = function_head(lines, number)
        if head:
            yield Function(end - number - 1, path, *head)


def letter_share(names):
    """The share of one-letter names in %; 0 of none."""
    letters = sum(n for word, n in names.items() if len(word) == 1)
    return 100 * letters / max(sum(names.values()), 1)


class Counts:
    def __init__(self):
        self.names = collections.Counter()
        self.page_names = collections.Counter()
        self.functions = []
        self.lines = self.conditionals = self.wide = 0

    def add(self, path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.wide += sum(len(line.expandtabs(8)) > COLUMNS for line in text.split("\n"))
        if path.endswith(".ts"):
            self.page_names.update(IDENTIFIER.findall(strip_source(text)))
            return
        if path.endswith(".def"):
            return
        code = strip_source(text)
        self.lines += text.count("\n")
        self.conditionals += code.count("?")
        self.names.update(w for w in IDENTIFIER.findall(code) if w not in KEYWORDS)
        self.functions += find_functions(path, code)

    def figures(self):
        total = sum(self.names.values())
        many = [f for f in self.functions if f.parameters > PARAMETERS]
        short = [f for f in self.functions if "_" not in f.name and len(f.name) <= SHORT_WORD]
        return {
            "one_letter": letter_share(self.names),
            "page_letters": letter_share(self.page_names),
            "mean_length": sum(len(word) * n for word, n in self.names.items()) / total,
            "short_words": 100 * len(short) / len(self.functions),
            "conditionals": 1000 * self.conditionals / self.lines,
            "wide": self.wide,
            "median": statistics.median(f.lines for f in self.functions),
            "longest": max(f.lines for f in self.functions),
            "parameters": sum(f.name not in PRESCRIBED for f in many),
        }

    def details(self):
        letters = [(w, n) for w, n in self.names.most_common() if len(w) == 1][:20]
        words = collections.Counter(f.name for f in self.functions if "_" not in f.name)
        longest = sorted(self.functions, reverse=True)[:10]
        print("one letter: " + ", ".join(f"{w} {n}" for w, n in letters))
        print("one word: " + ", ".join(f"{w} {n}" for w, n in words.most_common(20)))
        many = [f for f in self.functions if f.parameters > PARAMETERS]
        print("parameters: " + ", ".join(f"{f.name} ({f.path}, {f.parameters})" for f in many))
        print("longest: " + ", ".join(f"{f.name} ({f.path}, {f.lines})" for f in longest))


def within(figure, limit):
    return figure >= limit.limit if limit.least else figure <= limit.limit


def show(figures):
    """Print the table; how many limits are broken."""
    broken = 0
    for name, limit in LIMITS.items():
        good = within(figures[name], limit)
        broken += not good
        bound = "least" if limit.least else "most"
        verdict = "ok" if good else "BROKEN"
        print(f"{limit.title:40} {figures[name]:8.2f}   at {bound} {limit.limit:<5} {verdict}")
    return broken


def main():
    parser = argparse.ArgumentParser(description="Count how C sources are written.")
    parser.add_argument("-v", "--verbose", action="store_true", help="say what weighs most")
    parser.add_argument("files", nargs="*", help="sources (all of src/ and viewer/src)")
    options = parser.parse_args()
    if not options.files:
        os.chdir(ROOT)
        for folder, _, names in sorted([*os.walk("src"), *os.walk("viewer/src")]):
            sources = [n for n in names if n.endswith((".c", ".h", ".def", ".ts"))]
            options.files += [os.path.join(folder, name) for name in sorted(sources)]
    counts = Counts()
    for path in options.files:
        counts.add(path)
    if not counts.functions:
        sys.exit("style: no function in these files")
    broken = show(counts.figures())
    if options.verbose:
        counts.details()
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
