#!/usr/bin/env python3
"""The numbers that the page shares with the program, as TypeScript: page_constants.py OUT.ts
[SCHEMA_FOLDER].

They are declared in src/schema/tiles.def (layouts, flags) and events.def (rows of the time line,
texts of our own).
"""
import os
import re
import sys

HEAD = (
    "/** What the page shares with the program. Made by scripts/page_constants.py from"
    " src/schema/tiles.def and events.def. */\n"
)


def read_declarations(path, names):
    """Arguments of the macros `names`, in order, as lists of words."""
    with open(path) as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    text = "\n".join(line for line in text.split("\n") if not line.startswith("#"))
    found = {name: [] for name in names}
    for name, args in re.findall(r"^(\w+)\(((?:\"[^\"]*\"|[^()\"])*)\)", text, flags=re.M):
        if name in found:
            found[name].append(
                [arg.strip() for arg in re.findall(r"\"[^\"]*\"|[^,]+", args) if arg.strip()]
            )
    return found


def put_layout(out, tiles):
    for name, value in tiles["WS_TILE_NUMBER"]:
        out.append("export const %s = %s;" % (name, value))
    out.append("export const RECT_WORDS = RECT_BYTES / 4;")
    out.append(
        "\n/** Where the fields of a rectangle lie: numbers of four bytes counted in words, bytes"
        " in bytes. */"
    )
    for field, kind, offset in tiles["WS_RECT_FIELD"]:
        out.append(
            "export const AT_%s = %d;"
            % (field.upper(), int(offset) // (1 if kind == "BYTE" else 4))
        )
    out.append("\n/** Flags of a rectangle. */")
    for flag, value in tiles["WS_RECT_FLAG"]:
        out.append("export const %s = %s;" % (flag, value))
    out.append("\n/** The byte of an event that says its kind, and more of it. */")
    for name, value in tiles["WS_EVENT_BIT"]:
        out.append("export const EVENT_%s = %s;" % (name, value))
    out.append("\n/** What the two highest bits of a name say that it numbers. */")
    for name, value in tiles["WS_NAME_SPACE"]:
        out.append("export const NAME_%s = %s;" % (name, value))


def put_own_texts(out, events):
    out.append("\n/** Texts of our own: the first number of each list, and how many it has. */")
    first = 0
    for name, count, *texts in events["WS_OWN_TEXT"]:
        if len(texts) != int(count):
            sys.exit(
                "page_constants.py: the texts of %s are %d, not %s" % (name, len(texts), count)
            )
        out.append("export const OWN_%s = %d, OWN_%s_COUNT = %s;" % (name, first, name, count))
        first += int(count)


def put_lanes(out, tiles, events):
    out.append("\n/** Rows of the palette. */")
    colors = [name for name, in tiles["WS_COLORS"]]
    for number, name in enumerate(colors):
        out.append("export const CLASS_%s = %d;" % (name, number))
    out.append("export const CLASSES = %d;" % len(colors))
    out.append("\n/** What states of threads are told apart by, in the order of their numbers. */")
    out.append(
        "export const STATE_WORDS = [%s] as const;"
        % ", ".join(word for _, word in tiles["WS_STATE_CLASS"])
    )
    out.append(
        """
/** A kind of row of the time line. */
export interface LaneKind {
  colors: number; // row of the palette
  counter: boolean;
  again: boolean; // it shows again what other rows have
  byName: boolean; // it opens to a row for each of its commonest names
  moments: boolean; // its events have no length
  nests: boolean; // they are inside of one another: each has time of its own
}
export const LANES: Readonly<Record<string, LaneKind>> = {"""
    )
    for _, name, _, _, color, flags in events["WS_LANE"]:
        if color not in colors:
            sys.exit("page_constants.py: there are no colours %s for %s" % (color, name))
        flags = [flag.strip() for flag in flags.split("|")]
        facts = [
            "%s: %s" % (fact, str(flag in flags).lower())
            for fact, flag in (
                ("counter", "COUNTER"),
                ("again", "AGAIN"),
                ("byName", "BY_NAME"),
                ("moments", "MOMENTS"),
                ("nests", "NESTS"),
            )
        ]
        out.append("  %s: { colors: CLASS_%s, %s }," % (name.strip('"'), color, ", ".join(facts)))
    out.append("};")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    schema = sys.argv[2] if len(sys.argv) > 2 else os.path.join(here, "..", "src", "schema")
    tiles = read_declarations(
        os.path.join(schema, "tiles.def"),
        [
            "WS_TILE_NUMBER",
            "WS_RECT_FIELD",
            "WS_RECT_FLAG",
            "WS_EVENT_BIT",
            "WS_NAME_SPACE",
            "WS_STATE_CLASS",
            "WS_COLORS",
        ],
    )
    events = read_declarations(os.path.join(schema, "events.def"), ["WS_LANE", "WS_OWN_TEXT"])
    out = [HEAD]
    put_layout(out, tiles)
    put_own_texts(out, events)
    put_lanes(out, tiles, events)
    os.makedirs(os.path.dirname(os.path.abspath(sys.argv[1])), exist_ok=True)
    with open(sys.argv[1], "w") as f:
        f.write("\n".join(out) + "\n")


main()
