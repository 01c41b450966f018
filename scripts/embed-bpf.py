#!/usr/bin/env python3
"""Make a BPF object, as clang writes it, part of the program: embed-bpf.py OUT.c OBJECT HEADER
PREFIX writes the array PREFIX_programs of struct ws_bpf_program, one for each section
"program/NAME", in the order of the object.

A symbol that the object leaves undefined becomes a patch, named by the enumerator PREFIX_SYMBOL
(PREFIX in capitals) that HEADER declares: the loader puts a map or a constant there.
"""
import struct
import sys

R_BPF_64_64 = 1
SHT_SYMTAB, SHT_REL = 2, 9


class Object:
    """A little-endian ELF64 relocatable file."""

    def __init__(self, path):
        self.data = open(path, "rb").read()
        if self.data[:6] != b"\x7fELF\x02\x01":
            sys.exit("embed-bpf: %s: not a little-endian ELF64 object" % path)
        offset, size, count, names = (
            struct.unpack_from("<Q", self.data, 0x28)[0],
            *struct.unpack_from("<HHH", self.data, 0x3A),
        )
        # name, type, flags, address, offset, size, link, info, alignment, size of an entry
        self.headers = [
            struct.unpack_from("<IIQQQQIIQQ", self.data, offset + i * size) for i in range(count)
        ]
        self.names = [self.text_at(names, header[0]) for header in self.headers]

    def content(self, index):
        header = self.headers[index]
        return self.data[header[4] : header[4] + header[5]]

    def text_at(self, table, offset):
        content = self.content(table)
        return content[offset : content.index(b"\0", offset)].decode()

    def symbol(self, table, number):
        """Name of a symbol, and whether it is defined in the object."""
        name, _, _, section = struct.unpack_from("<IBBH", self.content(table), number * 24)
        return self.text_at(self.headers[table][6], name), section != 0

    def patches(self, target):
        """(instruction, symbol) of the relocations of a section."""
        for index, header in enumerate(self.headers):
            if header[1] != SHT_REL or header[7] != target:
                continue
            for offset, info in struct.iter_unpack("<QQ", self.content(index)):
                name, defined = self.symbol(header[6], info >> 32)
                if info & 0xFFFFFFFF != R_BPF_64_64 or defined:
                    sys.exit(
                        "embed-bpf: %s: a reference to %s that the loader does not know"
                        % (self.names[target], name)
                    )
                yield offset // 8, name


def write_program(out, prefix, number, program, index):
    words = ["0x%016x" % word for (word,) in struct.iter_unpack("<Q", program.content(index))]
    rows = (", ".join(words[k : k + 4]) for k in range(0, len(words), 4))
    out.append("static const uint64_t words%d[] = {\n\t%s,\n};" % (number, ",\n\t".join(rows)))
    out.append("static const struct ws_bpf_patch patches%d[] = {" % number)
    enumerator = prefix.upper() + "_"
    patches = list(program.patches(index))
    out += ["\t{%d, %s%s}," % (at, enumerator, name) for at, name in patches]
    out.append("};")
    name = program.names[index].split("/")[1]
    sizes = (name, number, len(words), number, len(patches))
    return '\t{"%s", words%d, %d, patches%d, %d},' % sizes


def main():
    path, source, header, prefix = sys.argv[1:]
    out = ["/* Made by scripts/embed-bpf.py. */", '#include "%s"' % header]
    entries = []
    program = Object(source)
    for index, name in enumerate(program.names):
        if name.startswith("program/"):
            entries.append(write_program(out, prefix, len(entries), program, index))
    out += ["", "const struct ws_bpf_program %s_programs[] = {" % prefix, *entries, "\t{0},", "};"]
    with open(path, "w") as file:
        file.write("\n".join(out) + "\n")


main()
