"""read_arrow.py - a reader of Arrow's streams and files for tests, written from the format's
description and sharing nothing with the writer.

read(bytes) gives a list of streams; each is a Stream with name, fields and columns (lists of Python
values). It checks what the format demands on the way: versions, alignment, lengths of buffers, the
index of a file.
"""
import struct


class Table:
    """A FlatBuffers table."""

    def __init__(self, buf, at):
        self.buf, self.at = buf, at
        self.vtable = at - struct.unpack_from("<i", buf, at)[0]
        self.size = struct.unpack_from("<H", buf, self.vtable)[0]

    def place(self, field):
        slot = 4 + 2 * field
        offset = (
            struct.unpack_from("<H", self.buf, self.vtable + slot)[0] if slot < self.size else 0
        )
        return self.at + offset if offset else None

    def number(self, field, code, default=0):
        at = self.place(field)
        if at is None:
            return default
        assert at % struct.calcsize(code) == 0, "a number is not aligned"
        return struct.unpack_from("<" + code, self.buf, at)[0]

    def follow(self, field):
        at = self.place(field)
        return None if at is None else at + struct.unpack_from("<I", self.buf, at)[0]

    def table(self, field):
        at = self.follow(field)
        return None if at is None else Table(self.buf, at)

    def text(self, field):
        at = self.follow(field)
        if at is None:
            return None
        n = struct.unpack_from("<I", self.buf, at)[0]
        assert self.buf[at + 4 + n] == 0
        return self.buf[at + 4 : at + 4 + n].decode()

    def tables(self, field):
        at = self.follow(field)
        if at is None:
            return []
        n = struct.unpack_from("<I", self.buf, at)[0]
        return [
            Table(self.buf, at + 4 + 4 * i + struct.unpack_from("<I", self.buf, at + 4 + 4 * i)[0])
            for i in range(n)
        ]

    def structs(self, field, code):
        at = self.follow(field)
        n = struct.unpack_from("<I", self.buf, at)[0]
        assert (at + 4) % 8 == 0, "structs are not aligned"
        return [
            struct.unpack_from("<" + code, self.buf, at + 4 + i * struct.calcsize("<" + code))
            for i in range(n)
        ]


def root(buf):
    return Table(buf, struct.unpack_from("<I", buf, 0)[0])


class Field:
    KINDS = {1: "null", 2: "int", 3: "double", 4: "binary", 5: "utf8"}

    def __init__(self, t):
        self.name, self.nullable = t.text(0), bool(t.number(1, "B"))
        self.kind = self.KINDS[t.number(2, "B")]
        kind = t.table(3)
        if self.kind == "int":
            self.bits, self.signed = kind.number(0, "i"), bool(kind.number(1, "B"))
        if self.kind == "double":
            assert kind.number(0, "h") == 2
        dictionary = t.table(4)
        self.dictionary = None
        if dictionary:
            self.dictionary = dictionary.number(0, "q")
            index = dictionary.table(1)
            assert (index.number(0, "i"), index.number(1, "B")) == (32, 1)
        self.meta = {p.text(0): p.text(1) for p in t.tables(6)}

    def type(self):
        inner = (
            "%sint%d" % ("" if self.signed else "u", self.bits) if self.kind == "int" else self.kind
        )
        return "dictionary" if self.dictionary is not None else inner


class Stream:
    def __init__(self, schema):
        assert schema.number(0, "h") == 0, "little-endian"
        self.fields = [Field(f) for f in schema.tables(1)]
        self.meta = {p.text(0): p.text(1) for p in schema.tables(2)}
        self.name = self.meta["table_name"]
        self.columns = [[] for _ in self.fields]
        self.dictionaries, self.batches = {}, 0

    def column(self, name):
        return self.columns[[f.name for f in self.fields].index(name)]

    def rows(self):
        return list(zip(*self.columns))


class Buffers:
    def __init__(self, batch, body, aligned_at):
        self.nodes = iter(batch.structs(1, "qq"))
        self.places, self.body = iter(batch.structs(2, "qq")), body
        assert aligned_at % 64 == 0, "a body does not begin at a multiple of 64"

    def take(self):
        offset, length = next(self.places)
        assert (
            offset % 64 == 0 and 0 <= offset and offset + length <= len(self.body)
        ), "a buffer is misplaced"
        return self.body[offset : offset + length]


def numbers(raw, code, n):
    size = struct.calcsize(code)
    assert len(raw) >= n * size, "a buffer is short"
    return list(struct.unpack_from("<%d%s" % (n, code), raw))


def values(b, kind, bits=0, signed=False):
    """One field of a batch: its values, None where null."""
    n, nulls = next(b.nodes)
    if kind == "null":
        assert nulls == n
        return [None] * n
    valid = b.take()
    if kind in ("utf8", "binary"):
        offsets, raw = numbers(b.take(), "i", n + 1), b.take()
        assert offsets[0] == 0 and offsets == sorted(offsets) and offsets[-1] <= len(raw)
        got = [raw[offsets[i] : offsets[i + 1]] for i in range(n)]
        got = [v.decode() for v in got] if kind == "utf8" else got
    elif kind == "double":
        got = numbers(b.take(), "d", n)
    else:
        got = numbers(
            b.take(),
            {8: "b", 32: "i", 64: "q"}[bits] if signed else {8: "B", 32: "I", 64: "Q"}[bits],
            n,
        )
    if nulls:
        assert len(valid) >= (n + 7) // 8
        got = [v if valid[i >> 3] >> (i & 7) & 1 else None for i, v in enumerate(got)]
    assert sum(v is None for v in got) == nulls, "the count of nulls"
    return got


def read_stream(data, at, base):
    """One stream from `at`; gives it and where it ends. Offsets are aligned from `base`."""
    stream = None
    blocks = {2: [], 3: []}
    while True:
        begin = at
        mark, size = struct.unpack_from("<Ii", data, at)
        assert mark == 0xFFFFFFFF
        at += 8
        if not size:
            return stream, at, blocks
        message = root(data[at : at + size])
        assert message.number(0, "h") == 4, "metadata version 5"
        at += size
        body = data[at : at + message.number(3, "q")]
        kind, header = message.number(1, "B"), message.table(2)
        if kind == 1:
            stream = Stream(header)
            continue
        blocks[kind].append((begin - base, at - begin, len(body)))
        if kind == 2:
            b = Buffers(header.table(1), body, at - base)
            more = values(b, "utf8")
            if not header.number(2, "B"):
                stream.dictionaries[header.number(0, "q")] = more
            else:
                stream.dictionaries[header.number(0, "q")] += more
        else:
            add_batch(stream, Buffers(header, body, at - base), header.number(0, "q"))
        at += len(body)


def add_batch(stream, b, rows):
    stream.batches += 1
    for f, column in zip(stream.fields, stream.columns):
        if f.dictionary is not None:
            codes = values(b, "int", 32, True)
            column += [None if c is None else stream.dictionaries[f.dictionary][c] for c in codes]
        else:
            column += values(b, f.kind, getattr(f, "bits", 0), getattr(f, "signed", False))
        assert len(column) == sum(1 for _ in column) and len(column) >= rows
    assert len({len(c) for c in stream.columns}) == 1, "columns of different lengths"
    assert (
        next(b.places, None) is None and next(b.nodes, None) is None
    ), "more buffers than fields have"


def read(data):
    """All streams of a file of streams, or the one of an Arrow file."""
    if data[:6] == b"ARROW1":
        assert data[-6:] == b"ARROW1"
        size = struct.unpack_from("<i", data, len(data) - 10)[0]
        footer = root(data[len(data) - 10 - size : len(data) - 10])
        stream, end, blocks = read_stream(data, 8, 0)
        assert end == len(data) - 10 - size
        assert [(f.name, f.type()) for f in Stream(footer.table(1)).fields] == [
            (f.name, f.type()) for f in stream.fields
        ]
        for field, kind in ((2, 2), (3, 3)):
            listed = [
                (offset, meta, body) for offset, meta, _, body in footer.structs(field, "qiiq")
            ]
            assert listed == blocks[kind], "the index of the file"
        return [stream]
    streams, at = [], 0
    while at < len(data):
        stream, at, _ = read_stream(data, at, at)
        streams.append(stream)
    return streams
