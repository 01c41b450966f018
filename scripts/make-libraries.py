#!/usr/bin/env python3
"""Make hooks for libraries from their declarations: make-libraries.py OUTDIR DECLARATION.calls...

For each library it writes wrap_NAME.c, the wrappers that go into libwarpsight-lib-NAME.so. Of all
of them together it writes library_numbers.h (which hooks and the recorder share: the numbers of
libraries, functions and tables) and library_tables.h (what the recorder knows of them).
docs/libraries.md describes the language of declarations.
"""
import copy
import os
import re
import sys

KINDS = {"": "INTEGER", "U": "UNSIGNED", "R": "REAL", "T": "TEXT", "G": "THREAD", "S": "TEXT"}
MOST_KEPT = 24
MOST_DENSE = 16  # WS_SHAPE_WORDS
PLAIN = {"i": "uintptr_t", "f": "double"}


class Kept:
    """A value that is kept of a call: `name[:kind] = expression`."""

    def __init__(self, name, kind, expression, before=False):
        self.name, self.kind, self.expression, self.before = name, kind, expression, before
        number = re.fullmatch(r"-?\d+", expression) and kind in ("", "U")
        self.constant = expression if number and not before else None


class Table:
    """`use` is the word that declares it: table (calls), rows, or spans."""

    def __init__(self, name, columns, use):
        self.name, self.columns, self.use = name, columns, use
        self.rules = []  # (argument, Kept)


class Function:
    def __init__(self, table, result, name, parameters, where):
        self.table, self.result, self.name, self.where = table, result, name, where
        self.parameters = parameters  # (declaration, name)
        self.kept, self.locals, self.passed, self.after, self.always = [], [], {}, [], []
        self.first = []
        self.when, self.behind = "", ""
        self.plain, self.mark = None, "0"


class Library:
    def __init__(self, name):
        self.name, self.title, self.trace, self.missing = name, name, name, "-1"
        self.files, self.includes, self.twins, self.doc = [], [], "", ""
        self.prepare = "NULL"
        self.dense = []  # tables whose calls may be collected in bunches
        self.tables, self.functions, self.names = [], [], {}
        self.pointers, self.layer = False, False


def fail(where, message):
    sys.exit("%s: %s" % (where, message))


def read_lines(path):
    """(where, indented, text) of each declaration; what is inside brackets goes on."""
    held, start = "", 0
    for number, line in enumerate(open(path), 1):
        line = line.rstrip()
        if line.startswith("#") or not (line or held):
            continue
        start = start if held else number
        held = held + " " + line.strip() if held else line
        if held.count("(") > held.count(")") or held.endswith("\\"):
            held = held.rstrip("\\").rstrip(" ")
            continue
        if held.strip():
            yield "%s:%d" % (path, start), held[0] in " \t", held.strip()
        held = ""
    if held:
        fail("%s:%d" % (path, start), "a bracket is not closed")


def split_parameters(text, where):
    if text.strip() in ("", "void"):
        return []
    parts, depth, at = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            parts.append(text[at:i])
            at = i + 1
    parts.append(text[at:])
    result = []
    for part in parts:
        match = re.search(r"(\w+)\s*(\[[^]]*\])?\s*$", part)
        if not match:
            fail(where, "no name of a parameter in '%s'" % part.strip())
        result.append((part.strip(), match.group(1)))
    return result


def parse_kept(library, text, where, before=False):
    match = re.match(r"(\w+)(?::(\w+))?\s*=\s*(.+)$", text)
    if not match:
        fail(where, "expected NAME = EXPRESSION: %s" % text)
    name, kind, expression = match.groups()
    kind = kind or ""
    if kind not in KINDS and kind not in library.names:
        fail(where, "'%s' is neither U, R, T nor G, nor declared by names" % kind)
    return Kept(name, kind, expression, before)


def parse_top(library, where, text, state):
    word, _, rest = text.partition(" ")
    if word in ("title", "trace", "missing", "twins", "doc", "prepare"):
        setattr(library, word, rest.strip())
    elif word in ("pointers", "layer"):
        setattr(library, word, True)
    elif word == "plain":
        state["plain"] = rest.split()
        state["function"] = None
    elif word in ("files", "dense"):
        setattr(library, word, getattr(library, word) + rest.split())
    elif word == "include":
        library.includes.append(rest.strip())
    elif word == "names":
        name, *values = rest.split()
        library.names[name] = [value.partition("=")[::2] for value in values]
    elif word in ("table", "rows", "spans"):
        name, *columns = rest.split()
        state["table"] = Table(name, columns, word)
        library.tables.append(state["table"])
        state["function"] = None
    elif word == "in":
        found = [table for table in library.tables if table.name == rest.strip()]
        if not found:
            fail(where, "no table %s" % rest)
        state["table"], state["function"] = found[0], None
    else:
        parse_function(library, where, text, state)


def parse_function(library, where, text, state):
    match = re.match(r"([\w\s*]*[\s*])(\w+)\s*\((.*)\)$", text)
    if not match:
        fail(where, "neither a word of this language nor a function: %s" % text)
    result, name, parameters = match.groups()
    if not state["table"] or state["table"].use != "table":
        fail(where, "%s needs the table that its calls go to (in TABLE)" % name)
    function = Function(
        state["table"], result.strip(), name, split_parameters(parameters, where), where
    )
    arguments = [parameter for _, parameter in function.parameters]
    for argument, kept in state["table"].rules:
        if argument == "*" or argument in arguments:
            function.kept.append(kept)
    library.functions.append(function)
    state["function"] = function


def add_plain_functions(library, where, names, state):
    """Functions of which only types are known: i for whole numbers and pointers, f for others."""
    signature, *mark = state["plain"]
    signature = "" if signature == "-" else signature
    parameters = [("%s a%d" % (PLAIN[kind], i), "a%d" % i) for i, kind in enumerate(signature)]
    for name in names:
        function = Function(state["table"], "uintptr_t", name, parameters, where)
        function.plain, function.mark = signature, (mark + ["0"])[0]
        function.kept = [kept for argument, kept in state["table"].rules if argument == "*"]
        library.functions.append(function)


def parse_rule(library, where, text, table):
    argument, _, rest = text.partition(":")
    table.rules.append((argument.strip(), parse_kept(library, rest.strip(), where)))


def parse_detail(library, where, text, function):
    word, _, rest = text.partition(" ")
    if word == "local":
        function.locals.append(rest)
    elif word == "pass":
        argument, _, expression = rest.partition("=")
        function.passed[argument.strip()] = expression.strip()
    elif word in ("when", "behind"):
        setattr(function, word, rest)
    elif word in ("first", "after", "always"):
        getattr(function, word).append(rest)
    elif word == "without":
        function.kept = [kept for kept in function.kept if kept.name not in rest.split()]
    elif word == "also":
        parse_form(library, where, rest, function)
    else:
        before = word == "before"
        kept = parse_kept(library, rest if before else text, where, before)
        function.kept = [old for old in function.kept if old.name != kept.name] + [kept]
    if len(function.kept) > MOST_KEPT:
        fail(where, "more than %d values" % MOST_KEPT)


def parse_form(library, where, text, function):
    """A function with nearly the same declaration; the details of the first hold for it, too."""
    name, *parts = [part.strip() for part in text.split(";")]
    form = copy.deepcopy(function)
    form.name, form.where = name, where
    for part in parts:
        word, _, rest = part.partition(" ")
        if word == "+":
            added = split_parameters(rest, where)
            form.parameters += added
            for argument, kept in function.table.rules:
                if argument in [parameter for _, parameter in added]:
                    form.kept.append(kept)
        elif word == "with":
            changed = {parameter: text for text, parameter in split_parameters(rest, where)}
            form.parameters = [
                (changed.pop(parameter, text), parameter) for text, parameter in form.parameters
            ]
            if changed:
                fail(where, "no parameter %s" % ", ".join(changed))
        else:
            parse_detail(library, where, part, form)
    library.functions.append(form)


def expand(lines):
    """`each A/B a/b c/d` repeats the function that follows with {A} and {B} replaced."""
    block, names, values = [], [], []
    for where, indented, text in list(lines) + [(None, False, "")]:
        if not indented and block and len(block) > 1:
            for value in values:
                parts = dict(zip(names, value.split("/")))
                for held in block[1:]:
                    yield held[0], held[1], re.sub(r"\{(\w+)\}", lambda m: parts[m[1]], held[2])
            block = []
        if text.startswith("each "):
            block = [text]
            names, values = text.split()[1].split("/"), text.split()[2:]
        elif block:
            block.append((where, indented, text))
        elif text:
            yield where, indented, text


def read_library(path):
    name = os.path.splitext(os.path.basename(path))[0]
    library, state = Library(name), {"table": None, "function": None, "plain": None}
    for where, indented, text in expand(read_lines(path)):
        if not indented:
            state["plain"] = None
            parse_top(library, where, text, state)
        elif state["plain"]:
            add_plain_functions(library, where, text.split(), state)
        elif state["function"]:
            parse_detail(library, where, text, state["function"])
        elif state["table"]:
            parse_rule(library, where, text, state["table"])
        else:
            fail(where, "indented below nothing")
    check_library(library, path)
    return library


def check_library(library, path):
    seen = set()
    for function in library.functions:
        if function.name in seen:
            fail(function.where, "%s is declared twice" % function.name)
        seen.add(function.name)
        order = {column.partition(":")[0]: i for i, column in enumerate(function.table.columns)}
        function.kept.sort(key=lambda kept: order.get(kept.name, len(order)))
    for name in library.dense:
        if name not in [table.name for table in library.tables]:
            fail(path, "no table %s" % name)
    if not library.functions or not library.files:
        fail(path, "a library needs functions and the names of its files")


# ---- wrappers ----


def number_of(library, function):
    return "WS_CALL_%s_%s" % (library.name, function.name)


def make_kept_value(kept):
    if kept.before:
        return "was_%s" % kept.name
    if kept.kind == "R":
        return "ws_library_real(%s)" % kept.expression
    if kept.kind == "T":
        return "ws_library_keep_text(%s)" % kept.expression
    return "(int64_t)(%s)" % kept.expression


def get_words(function):
    """What a record of the call holds; what is always the same is not in it."""
    return [kept for kept in function.kept if kept.kind != "G" and not kept.constant]


def is_dense(library, function):
    """Whether its calls may be collected: nothing but its values has to be known of them."""
    return (
        function.table.name in library.dense
        and not (function.after or function.always or function.first or function.when)
        and not any(kept.kind in ("T", "S") for kept in function.kept)
        and len(get_words(function)) < MOST_DENSE
    )


def is_waiting(function):
    """Whether a call returns when another rank's message has come: others then wait for what the
    program does next. A send has done its part before it returns.
    """
    names = [name for _, name in function.parameters]
    return "dest" not in names or "source" in names


def make_values(words_kept, out):
    """Lines that compute what is kept of a call that has returned, before there is room for it,
    because that may take calls of functions.
    """
    for i, kept in enumerate(words_kept):
        out.append("\t\tint64_t kept%d = %s;" % (i, make_kept_value(kept)))


def is_known_before(function, kept):
    """Whether the value follows from arguments that are no pointers, so that the call that waits
    for others can keep it before that.
    """
    pure = re.sub(r"\bws_mpi_(handle|peer)\b", "", kept.expression)
    names = [name for _, name in function.parameters if name in re.findall(r"\w+", pure)]
    plain = re.fullmatch(r"[\s()]*\w+[\s()]*", pure)
    return bool(plain and names)


def make_waiting_call(function, number, call, out):
    """Lines that make a call after which others may wait, and leave it pending."""
    kept = get_words(function)
    head = "ws_library_shape(%s, %d)" % (number, len(kept))
    out.append("\tint64_t *ws_word = ws_library_prepare_pending(ws_place, %s);\n" % head)
    values = list(enumerate(map(make_kept_value, kept)))
    late = [(i, value) for i, value in values if not is_known_before(function, kept[i])]
    out += ["\tws_word[%d] = %s;" % one for one in values if one not in late]
    out.append(call)
    out.append("\tif (ws_library_has_bunch(ws_place)) {")
    out += ["\t\tint64_t kept%d = %s;" % one for one in late] + [""]
    out += ["\t\tws_word[%d] = kept%d;" % (i, i) for i, _ in late]
    out.append("\t\tws_library_leave_pending(ws_place, %s);\n\t}" % head)


def make_collected_call(function, number, call, out):
    """Lines that make a call and add it to its bunch."""
    kept = get_words(function)
    head = "ws_library_shape(%s, %d)" % (number, len(kept))
    values = ", ".join(make_kept_value(one) for one in kept)
    out.append(call)
    out.append("\tif (ws_library_has_bunch(ws_place))")
    out.append(
        "\t\tws_library_collect(&ws_place.ring->bunch, %s, (int64_t[]){%s});" % (head, values)
    )


def make_write(words_kept, number, out, dense=False):
    """Lines that write the record of a call that has returned; `number` is its function's."""
    count = len(words_kept)
    out.append("\t{\n\t\tstruct ws_nest *nest;")
    make_values(words_kept, out)
    out.append("\n\t\tnest = ws_library_reserve(&ws_call, %d);" % count)
    out.append("\t\tif (ws_likely(nest != NULL)) {")
    out.append("\t\t\tstruct ws_rec_library *record = ws_library_record(nest);\n")
    out += ["\t\t\trecord->kept[%d] = kept%d;" % (i, i) for i in range(count)]
    out.append("\t\t\tws_library_publish(&ws_call, nest, record, %s, %d);" % (number, count))
    if dense:
        out.append("\t\t\tws_library_note_pace(&ws_call);")
    out.append("\t\t}\n\t}")


def has_marks(library):
    return any(function.mark != "0" for function in library.functions)


def make_plain_body(library, function, out):
    """The wrapper that all functions of these types share; `i` is its entry."""
    types = "".join("%s, " % text for text, _ in function.parameters)
    words = ", ".join(name for _, name in function.parameters)
    only = ", ".join(PLAIN[kind] for kind in function.plain) or "void"
    number = "%s + i / 2" % number_of(library, library.functions[0])
    note = "\n\tif (marks[i / 2])\n\t\tws_library_note_mark(marks[i / 2], %s);" % number
    if not has_marks(library):
        note = ""
    out.append(
        "static WS_NOINLINE uintptr_t plain_%s(%sunsigned i)\n{" % (function.plain, types)
        + "\n\tuintptr_t (*behind)(%s) = %s, result;" % (only, make_behind(library, function, "i"))
        + "\n\tstruct ws_library_call ws_call;\n"
        + "\n\tif (ws_unlikely(!behind))\n\t\treturn (uintptr_t)(%s);" % library.missing
        + "\n\tif (!ws_library_begin(&ws_call, %s))" % number
        + "\n\t\treturn behind(%s);" % words
        + note
        + "\n\tresult = behind(%s);" % words
        + "\n\tws_library_end(&ws_call);"
    )
    make_write(get_words(function), number, out)
    out.append("\treturn result;\n}\n")


def make_plain_wrapper(library, function, out):
    types = ", ".join(text for text, _ in function.parameters) or "void"
    words = "".join("%s, " % name for _, name in function.parameters)
    first = 2 * library.functions.index(function)
    for place, name in enumerate(get_wrapper_names(library, function)):
        hidden = place or library.layer
        if not hidden:
            out.append("WS_EXPORT uintptr_t %s(%s);" % (name, types))
        out.append(
            "%suintptr_t %s(%s)\n{\n\treturn plain_%s(%s%d);\n}\n"
            % ("static " if hidden else "", name, types, function.plain, words, first + place)
        )


def make_behind(library, function, number):
    """The expression for the function behind the wrapper."""
    if function.behind:
        return function.behind
    if library.layer:
        return "ws_library_find_next((const void *)%s, %s)" % (function.parameters[0][1], number)
    return "ws_library_find_behind(%s)" % number


def get_wrapper_names(library, function):
    """The wrapper, and that of its second name, or of its address as others tell it."""
    twin = (library.twins.split() + [None])[0]
    if library.layer:
        return ["layer_" + function.name]
    if library.pointers:
        return [function.name, "pointer_" + function.name]
    return [function.name] + ([twin + function.name] if twin else [])


def make_preparation(function, out):
    """The function's own lines before the call."""
    for text in function.locals:
        out.append("\t%s;" % text)
    for kept in function.kept:
        if kept.before:
            plain = Kept(kept.name, kept.kind, kept.expression)
            out.append("\tint64_t was_%s = %s;" % (kept.name, make_kept_value(plain)))


def make_bunch_part(function, number, call, out):
    """Lines that begin a call which may be collected, and do all of it where it is."""
    waits = is_waiting(function)
    out.append(
        "\tif (ws_library_begin_collected(&ws_call, &ws_place, %s, %s)) {"
        % (number, str(waits).lower())
    )
    inner = []
    make_preparation(function, inner)
    make = make_waiting_call if waits else make_collected_call
    make(function, number, call, inner)
    inner.append("\treturn%s;" % ("" if function.result == "void" else " result"))
    out += re.sub(r"(?m)^(?=.)", "\t", "\n".join(inner)).split("\n")
    out.append("\t}")


def make_wrapper(library, function, out):
    types = ", ".join(text for text, _ in function.parameters) or "void"
    words = ", ".join(name for _, name in function.parameters)
    passed = ", ".join(function.passed.get(name, name) for _, name in function.parameters)
    silent = function.result == "void"
    name = function.name
    out.append("typedef %s behind_%s(%s);" % (function.result, name, types))
    comma = ", " if function.parameters else ""
    out.append(
        "static WS_ALWAYS_INLINE %s body_%s(behind_%s *behind%s%s)\n{"
        % (function.result, name, name, comma, types if words else "")
    )
    number, dense = number_of(library, function), is_dense(library, function)
    out.append("\tstruct ws_library_call ws_call;")
    if dense:
        out.append("\tstruct ws_library_place ws_place;")
    if not silent:
        out.append("\t%s result;" % function.result)
    missing = "return;" if silent else "return (%s)(%s);" % (function.result, library.missing)
    out.append("\n\tif (ws_unlikely(!behind))\n\t\t%s" % missing)
    out.extend("\t%s;" % text for text in function.first)
    call = "behind(%s);" % words
    real = "\t%sbehind(%s);" % ("" if silent else "result = ", passed)
    if dense:
        make_bunch_part(function, number, real, out)
    out.append("\tif (!ws_library_begin(&ws_call, %s)) {" % number)
    if function.always:
        out.append("\t\t%s%s" % ("" if silent else "result = ", call))
        out.extend("\t\t%s;" % always for always in function.always)
        out.append("\t\treturn%s;\n\t}" % ("" if silent else " result"))
    elif silent:
        out.append("\t\t%s\n\t\treturn;\n\t}" % call)
    else:
        out.append("\t\treturn %s\n\t}" % call)
    make_preparation(function, out)
    out += [real, "\tws_library_end(&ws_call);"]
    if function.when:
        out.append("\tif (!(%s)) {\n\t\tws_library_drop(&ws_call);" % function.when)
        out.extend("\t\t%s;" % text for text in function.always)
        out.append("\t\treturn%s;\n\t}" % ("" if silent else " result"))
    make_write(get_words(function), number, out, dense)
    out.extend("\t%s;" % text for text in function.after + function.always)
    if not silent:
        out.append("\treturn result;")
    out.append("}\n")
    for place, wrapper in enumerate(get_wrapper_names(library, function)):
        number = "%s + %d" % (2 * library.functions.index(function), place)
        hidden = library.layer or (library.pointers and place)
        if not hidden:
            out.append("WS_EXPORT behind_%s %s;" % (name, wrapper))
        out.append(
            "%s%s %s(%s)\n{" % ("static " if hidden else "", function.result, wrapper, types)
        )
        out.append(
            "\t%sbody_%s((behind_%s *)%s%s%s);\n}\n"
            % (
                "" if silent else "return ",
                name,
                name,
                make_behind(library, function, number),
                comma,
                words,
            )
        )


def write_wrappers(path, library):
    out = ["/* Made by scripts/make-libraries.py. */"]
    out += ["#define WS_LIBRARY_IS_DENSE"] if library.dense else []
    out += ['#include "inject/library.h"']
    out += ['#include "%s"' % include for include in library.includes] + [""]
    plain = {
        function.plain: function for function in library.functions if function.plain is not None
    }
    if plain and has_marks(library):
        marks = ", ".join(function.mark for function in library.functions)
        out.append("static const uint8_t marks[] = {%s};\n" % marks)
    for function in plain.values():
        make_plain_body(library, function, out)
    for function in library.functions:
        make = make_wrapper if function.plain is None else make_plain_wrapper
        make(library, function, out)
    out.append("struct ws_library_behind ws_library_behinds[] = {")
    names = {}
    for i, function in enumerate(library.functions):
        wrappers = get_wrapper_names(library, function)
        for place, wrapper in enumerate(wrappers):
            name = function.name if library.pointers or library.layer else wrapper
            out.append('\t{"%s", (void *)%s, NULL},' % (name, wrapper))
            if not place or not library.pointers:
                names[name] = 2 * i + place
        if len(wrappers) == 1:
            out.append("\t{NULL, NULL, NULL},")
    out.append("};")
    numbers = ", ".join(str(names[name]) for name in sorted(names))
    out.append("const uint16_t ws_library_sorted[] = {%s};" % numbers)
    out.append("const unsigned ws_library_sorted_count = %d;" % len(names))
    out.append("const bool ws_library_pointers = %s;" % ("true" if library.pointers else "false"))
    files = ", ".join('"%s"' % name for name in library.files)
    out.append("const char *const ws_library_files[] = {%s, NULL};" % files)
    out.append("void (*const ws_library_prepare)(void) = %s;" % library.prepare)
    out.append("const unsigned ws_library_number = WS_LIBRARY_%s;" % library.name)
    write_file(path, out)


# ---- what hooks and the recorder share ----


def write_numbers(path, libraries):
    out = [
        "/* Made by scripts/make-libraries.py. */",
        "#ifndef WS_LIBRARY_NUMBERS_H\n#define WS_LIBRARY_NUMBERS_H\n",
        "enum ws_library {",
    ]
    out += ["\tWS_LIBRARY_%s," % library.name for library in libraries]
    out += ["\tWS_LIBRARIES\n};\n", "enum ws_library_function {"]
    for library in libraries:
        out += ["\t%s," % number_of(library, function) for function in library.functions]
    out += ["\tWS_LIBRARY_CALLS\n};\n", "enum ws_library_table {"]
    for library in libraries:
        out += ["\tWS_LIBRARY_TABLE_%s," % table.name for table in library.tables]
    out += ["\tWS_LIBRARY_TABLES\n};\n"]
    words = sorted({library.trace for library in libraries})
    out.append("/* Words of --trace. */")
    out.append('#define WS_LIBRARY_TRACES "%s"' % ",".join(words))
    out.append("#endif")
    write_file(path, out)


def make_table_fact(library, table):
    """The columns in the form of WS_FOREIGN_TABLE_FACT."""
    roles = {"start": "s", "end": "e", "globalTid": "t", "textId": "@n", "nameId": "@n"}
    if table.use == "rows":
        roles = {"start": "s", "timestamp": "s"}
    if table.use == "table":
        roles["id"] = "i"
    words = []
    for column in table.columns:
        name, kind, _ = split_column(column)
        letter = {"R": "R", "": "", "U": "", "G": "", "S": "@"}.get(kind, "T")
        role = "" if kind == "S" else roles.get(name, "")
        words.append("%s/%s%s" % (name, letter, role))
    return "%s %s" % ("F" if table.use == "rows" else "S", " ".join(words))


def split_column(column):
    """NAME, NAME:KIND, NAME=CONSTANT, or NAME- for one that no span has: name, kind, constant."""
    name, _, kind = column.partition(":")
    name, _, constant = name.partition("=")
    return name.rstrip("-"), kind, constant


def get_row_words(table):
    """(name, kind, constant) of what a row's or span's record holds."""
    columns = [split_column(column) for column in table.columns if not column.endswith("-")]
    if table.use == "rows":
        return columns
    own = ("start", "end", "globalTid", "nameId")
    named = any(name == "nameId" for name, _, _ in columns)
    return [
        (name, kind, constant)
        for name, kind, constant in columns
        if name not in own and (named or name != "textId")
    ]


def make_kept_entry(library, name, kind, constant):
    same = "true, %s" % constant if constant else "false, 0"
    if kind in KINDS:
        return '{"%s", WS_KEPT_%s, NULL, %s}' % (name, KINDS[kind], same)
    return '{"%s", WS_KEPT_NAMED, names_%s_%s, %s}' % (name, library.name, kind, same)


def write_tables(path, libraries):
    out = ["/* Made by scripts/make-libraries.py. */", ""]
    for library in libraries:
        for name, values in library.names.items():
            out.append("static const struct named names_%s_%s[] = {" % (library.name, name))
            out += ['\t{%s, "%s"},' % (number, text) for number, text in values]
            out.append("\t{0, NULL},\n};")
    out.append("static const struct library libraries[WS_LIBRARIES] = {")
    for library in libraries:
        out.append(
            '\t{"%s", "%s", "%s", "%s", %s},'
            % (
                library.name,
                library.title,
                library.trace,
                ", ".join(library.files),
                "true" if library.layer else "false",
            )
        )
    out.append("};")
    for library in libraries:
        for table in library.tables:
            if table.use != "table":
                write_kept_list(out, library, "row_" + table.name, get_row_words(table))
        lists = {}
        for function in library.functions:
            kept = [(kept.name, kept.kind, kept.constant) for kept in function.kept]
            name = lists.setdefault(tuple(kept), "call_" + function.name)
            function.kept_list = name
            if name == "call_" + function.name:
                write_kept_list(out, library, name, kept)
    out.append("static const struct table tables[WS_LIBRARY_TABLES] = {")
    for library in libraries:
        for table in library.tables:
            columns = get_row_words(table) if table.use != "table" else []
            kept = "row_%s, %d" % (table.name, len(columns)) if columns else "NULL, 0"
            spans = "true" if table.use == "spans" else "false"
            fact = make_table_fact(library, table)
            out.append(
                '\t{"%s", "%s",\n\t %s, %s, WS_LIBRARY_%s},'
                % (table.name, fact, kept, spans, library.name)
            )
    out.append("};\nstatic const struct function functions[WS_LIBRARY_CALLS] = {")
    for library in libraries:
        for function in library.functions:
            kept = "%s, %d" % (function.kept_list, len(function.kept))
            if not function.kept:
                kept = "NULL, 0"
            out.append(
                '\t{"%s", WS_LIBRARY_TABLE_%s, WS_LIBRARY_%s, %s},'
                % (function.name, function.table.name, library.name, kept)
            )
    out.append("};")
    write_file(path, out)


def write_kept_list(out, library, name, kept):
    if kept:
        entries = ",\n\t".join(make_kept_entry(library, *entry) for entry in kept)
        out.append("static const struct kept %s[] = {\n\t%s};" % (name, entries))


def write_file(path, lines):
    with open(path, "w") as out:
        out.write("\n".join(lines) + "\n")


def main():
    folder, *paths = sys.argv[1:]
    libraries = [read_library(path) for path in paths]
    write_numbers(os.path.join(folder, "library_numbers.h"), libraries)
    write_tables(os.path.join(folder, "library_tables.h"), libraries)
    for library in libraries:
        write_wrappers(os.path.join(folder, "wrap_%s.c" % library.name), library)


if __name__ == "__main__":
    main()
