#!/usr/bin/env python3
"""
forward.py - makes a test of every wrapper that osrt_functions.def describes: forward.py
osrt_functions.def > forward.c

For each line, a stand-in takes the place of the function behind the wrapper. The wrapper is called
with arguments that differ in every bit that their types have; the stand-in must get just these, and
what it returns (a success, then a failure with an errno) must come back with errno as it left it;
both with nothing being recorded and with a session that records everything.
"""
import re
import sys

SKIP_TYPES = {"__SOCKADDR_ARG": "%s.__sockaddr__", "__CONST_SOCKADDR_ARG": "%s.__sockaddr__"}


def split(params):
    """Parameters at top level: there are no function pointers among them."""
    return [p.strip() for p in params.split(",")]


def name_of(param):
    return re.search(r"(\w+)(?:\[\d*\])?$", param).group(1)


def word(param):
    for t, form in SKIP_TYPES.items():
        if param.startswith(t):
            return "(uint64_t)(uintptr_t)" + form % name_of(param)
    return "(uint64_t)(uintptr_t)(%s)" % name_of(param)


def entries(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    guard = None
    for m in re.finditer(
        r"^(#if defined\((\w+)\)|#endif|(WS_OSRT|WS_OSRT_VARIADIC)\((.*?\n?.*?\n?.*?\n?.*?)\)\n)",
        text,
        re.M | re.S,
    ):
        if m.group(2):
            guard = m.group(2)
        elif m.group(1) == "#endif":
            guard = None
        elif m.group(3):
            body = " ".join(m.group(4).split())
            parens = re.findall(r"\(([^()]*)\)", body)
            symbol, _, ret = [s.strip() for s in body.split("(")[0].split(",")[:3]]
            yield guard, symbol, ret, split(parens[0]), m.group(3) == "WS_OSRT_VARIADIC", split(
                parens[1]
            )


def variadic(params, args):
    """Parameters of a caller that gives one word for each of the wrapper's a1 to a4."""
    extra = [a for a in args if re.fullmatch(r"a[1-4]", a)]
    return params[:-1] + ["long " + a for a in extra]


def emit(guard, symbol, ret, params, is_variadic, args):
    names, given = [], params
    if is_variadic:
        given = variadic(params, args)
    if params != ["void"]:
        names = [name_of(p) for p in given]
    out = []
    if guard:
        out.append("#if defined(%s)" % guard)
    if is_variadic:
        last = name_of(params[-2])
        out.append(
            "static %s stand_in_%s(%s)\n{\n\tva_list ap;\n\n\tva_start(ap, %s);"
            % (ret, symbol, ", ".join(params), last)
        )
        for i, p in enumerate(given):
            got = "va_arg(ap, uint64_t)" if i >= len(params) - 1 else word(p)
            out.append("\tgot[%d] = %s;" % (i, got))
        out.append("\tva_end(ap);\n\terrno = give_errno;\n\treturn (%s)(uintptr_t)give;\n}" % ret)
    else:
        out.append("static %s stand_in_%s(%s)\n{" % (ret, symbol, ", ".join(params)))
        out += ["\tgot[%d] = %s;" % (i, word(p)) for i, p in enumerate(given if names else [])]
        out.append("\terrno = give_errno;\n\treturn (%s)(uintptr_t)give;\n}" % ret)
    out.append("static uint64_t call_%s(%s)\n{" % (symbol, ", ".join(given)))
    out += ["\tsent[%d] = %s;" % (i, word(p)) for i, p in enumerate(given if names else [])]
    out.append("\treturn (uint64_t)(uintptr_t)%s(%s);\n}" % (symbol, ", ".join(names)))
    out.append(
        "static uint64_t cast_%s(uint64_t v)\n{\n\treturn (uint64_t)(uintptr_t)(%s)(uintptr_t)v;\n}"
        % (symbol, ret)
    )
    if guard:
        out.append("#endif")
    return "\n".join(out), len(names)


def main():
    found = list(entries(open(sys.argv[1]).read()))
    print('#include "forward.h"\n')
    rows = []
    for e in found:
        text, n = emit(*e)
        print(text + "\n")
        s = e[1]
        row = (
            '\t{"%s", WS_OSRT_%s, %d, (void *)stand_in_%s, (call_fn *)(void *)call_%s, cast_%s},'
            % (s, s, n, s, s, s)
        )
        rows.append("#if defined(%s)\n%s\n#endif" % (e[0], row) if e[0] else row)
    print("const struct forward forwards[] = {\n%s\n};" % "\n".join(rows))
    print("const size_t forwards_n = sizeof(forwards) / sizeof(forwards[0]);")


main()
