"""A second reader of reports, written from docs/report-format.md alone, and checked against the
first: it keeps the document honest.

    read_report.py MAKE_SAMPLE      MAKE_SAMPLE is the program make_sample; prints TAP
"""
import ctypes
import ctypes.util
import os
import struct
import subprocess
import sys
import tempfile

NULL = 2**64 - 1
zstd = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
zstd.ZSTD_decompress.restype = ctypes.c_size_t
xxhash = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0")
xxhash.XXH3_64bits.restype = ctypes.c_uint64
codecs = set()


def check(data):
    return xxhash.XXH3_64bits(data, ctypes.c_size_t(len(data)))


class Cut:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values if len(values) > 1 else values[0]

    def bytes(self, n):
        self.at += n
        assert self.at <= len(self.data)
        return self.data[self.at - n : self.at]

    def name(self):
        return self.bytes(self.take("H")).decode()

    def stream(self, n):
        word = self.take("I")
        how, stored = word >> 30, self.bytes(word & 0x3FFFFFFF)
        codecs.add("stream %d" % how)
        if how == 0:
            out = stored
        elif how == 1:
            buffer = ctypes.create_string_buffer(n)
            got = zstd.ZSTD_decompress(
                buffer, ctypes.c_size_t(n), stored, ctypes.c_size_t(len(stored))
            )
            out = buffer.raw if got == n else None
        elif how == 2:
            out = stored * n
        else:
            bits = stored[0]
            symbols = stored[1 : 1 + (1 << bits)]
            packed = Cut(stored[1 + (1 << bits) :]).stream((n * bits + 7) // 8)
            out = bytes(
                symbols[packed[i * bits // 8] >> i * bits % 8 & (1 << bits) - 1] for i in range(n)
            )
        assert out is not None and len(out) == n
        return out


def signed(u):
    return (u >> 1) ^ -(u & 1)


class Column:
    def __init__(self, cut):
        (
            self.number,
            self.codec,
            self.flags,
            self.width,
            _,
            self.ref,
            self.bytes,
            self.patches,
            self.dict,
            _,
            self.base,
            self.first,
            self.scale,
            self.min,
            self.max,
        ) = cut.take("HBBBBHIIIIQQQQQ")
        codecs.add("codec %d" % self.codec)
        codecs.add("flags %d" % self.flags)

    def read(self, cut, rows):
        self.table = (
            struct.unpack("<%dQ" % self.dict, cut.stream(self.dict * 8)) if self.codec == 4 else ()
        )
        planes = [cut.stream(rows) for _ in range(self.width)] if self.codec != 1 else []
        self.numbers = [
            sum(plane[i] << 8 * b for b, plane in enumerate(planes)) for i in range(rows)
        ]
        if self.patches:
            codecs.add("patches")
            data = cut.stream(self.patches * 12)
            places = struct.unpack_from("<%dI" % self.patches, data)
            for place, number in zip(
                places, struct.unpack_from("<%dQ" % self.patches, data, self.patches * 4)
            ):
                self.numbers[place] = number
        if self.codec != 4:
            self.numbers = [(u + self.base) % 2**64 for u in self.numbers]
        if self.flags & 1:
            self.numbers = [signed(u) for u in self.numbers]
        self.rest = [signed(c) for c in cut.stream(rows)] if self.flags & 2 else None
        self.values = None


def scaled(start, span, rows):
    x = (start.first << 32) + (1 << 31)

    def move(x, n, c):
        n = (n + 2**63) % 2**64 - 2**63
        y = (x + n * start.scale) % 2**96
        t = ((y >> 32) + c) % 2**64
        return t, y if c == 0 else t << 32 if c > 0 else (t << 32) + 2**32 - 1

    start.values, ends = [], []
    for i in range(rows):
        t, x = move(x, start.numbers[i] if i else 0, start.rest[i])
        start.values.append(t)
        if span is None:
            continue
        if span.numbers[i] == 0:
            ends.append(NULL)
            continue
        t, y = move(x, span.numbers[i] - 1, span.rest[i])
        ends.append(t)
        if start.codec == 6:
            x = y
    if span:
        span.values = ends


def decode(column, columns, rows):
    if column.values is not None:
        return column.values
    other = (
        next((c for c in columns if c.number == column.ref), None)
        if column.codec in (5, 6)
        else None
    )
    start = other if column.codec == 5 else column
    span = (
        column
        if column.codec == 5
        else next((c for c in columns if c.codec == 5 and c.ref == column.number), None)
    )
    if start.flags & 2:
        scaled(start, span, rows)
    elif start.codec == 6:
        start.values, span.values, last = [], [], start.first
        for i in range(rows):
            now = (last + start.numbers[i]) % 2**64 if i else start.first
            n = span.numbers[i]
            last = (now + n - 1) % 2**64 if n else now
            start.values.append(now)
            span.values.append(last if n else NULL)
    elif column.codec == 5:
        values = decode(start, columns, rows)
        column.values = [
            (values[i] + n - 1) % 2**64 if n else NULL for i, n in enumerate(column.numbers)
        ]
    elif column.codec == 1:
        column.values = [column.base] * rows
    elif column.codec == 2:
        column.values = column.numbers
    elif column.codec == 3:
        column.values = [column.first]
        for n in column.numbers[1:]:
            column.values.append((column.values[-1] + n) % 2**64)
    else:
        column.values = [column.table[n] for n in column.numbers]
    return column.values


class Report:
    def __init__(self, data):
        assert data[:8] == b"\x89WSREP\r\n" and struct.unpack_from("<H", data, 8)[0] == 1
        assert check(data[:56]) == struct.unpack_from("<Q", data, 56)[0]
        self.tables, self.rows, self.strings, self.summed = {}, {}, {}, 0
        at, headers = struct.unpack_from("<I", data, 12)[0], []
        while data[at : at + 8] == b"\x89WSBLK\r\n":
            head = data[at + 16 : at + 96]
            assert check(head) == struct.unpack_from("<Q", data, at + 8)[0]
            size = struct.unpack_from("<Q", head, 8)[0]
            body = data[at + 96 : at + 96 + size]
            assert check(body) == struct.unpack_from("<Q", head)[0]
            self.block(*struct.unpack_from("<IIII", head, 16), head, body, at, headers)
            headers.append(struct.pack("<Q", at) + head)
            at += 96 + (size + 7) // 8 * 8
        trailer = data[at:]
        index, size, rows, seal = struct.unpack_from("<QQQQ", trailer)
        assert (
            trailer[32:] == b"\x89WSEND\r\n"
            and size == len(data)
            and seal == check(trailer[:24])
            and index == self.index
        )
        assert rows == sum(len(next(iter(t.values()))) for t in self.rows.values())

    def block(self, kind, table, count, columns, head, body, at, headers):
        if kind == 2:
            self.schema(Cut(body), count)
        elif kind == 3:
            self.text(
                Cut(body),
                count,
                struct.unpack_from("<Q", head, 32)[0],
                struct.unpack_from("<Q", head, 72)[0],
            )
        elif kind == 4:
            self.table(Cut(body), table, count, columns, head)
        elif kind == 6:
            self.overview(Cut(Cut(body).stream(struct.unpack_from("<Q", head, 72)[0])), count)
        elif kind == 5:
            assert body == b"".join(headers) and count == len(headers)
            self.index = at

    def overview(self, cut, blocks):
        for _ in range(blocks):
            table, rows, first, k = cut.take("IIQH")
            columns = cut.take("4H")[:k]
            zero, n = cut.take("HI")
            assert zero == 0 and 1 <= n <= 4096
            groups = [cut.take("QQQII") for _ in range(n)]
            keys = [cut.take("%dI" % k) if k > 1 else (cut.take("I"),) for _ in range(n)]
            bins = [cut.bytes(64) for _ in range(n)]
            name, known = self.tables[table]
            self.compare(
                {key: (group[:4], bin) for key, group, bin in zip(keys, groups, bins)},
                self.rows[name],
                [known[c][0] for c in columns],
                range(first, first + rows),
            )
            self.summed += rows
        assert cut.at == len(cut.data)

    # The sums against the rows.
    def compare(self, told, values, columns, span):
        found = {}
        ends = values.get("end", values["start"])
        for i in span:
            start = values["start"][i]
            end = start if ends[i] == NULL or ends[i] < start else ends[i]
            key = tuple(values[c][i] for c in columns)
            first, last, busy, n = found.get(key, (NULL, 0, 0, 0))
            found[key] = min(first, start), max(last, end), (busy + end - start) % 2**64, n + 1
        assert found == {key: group for key, (group, _) in told.items()}
        for i in span:
            (first, last, _, _), bins = told[tuple(values[c][i] for c in columns)]
            assert bins[min(63, (values["start"][i] - first) * 64 // max(1, last - first))] > 0

    def schema(self, cut, count):
        for _ in range(count):
            number, columns = cut.take("HH")
            name = cut.name()
            self.tables[number] = name, [(cut.name(), cut.name()) for _ in range(columns)]
            self.rows.setdefault(name, {column: [] for column, _ in self.tables[number][1]})

    def text(self, cut, count, first, size):
        data = Cut(cut.stream(cut.take("I")))
        text = Cut(cut.stream(size))
        for i in range(count):
            n = shift = 0
            while True:
                b = data.take("B")
                n |= (b & 0x7F) << shift
                shift += 7
                if b < 0x80:
                    break
            self.strings[first + i] = text.bytes(n)

    def table(self, cut, table, rows, columns, head):
        heads = [Column(cut) for _ in range(columns)]
        for column in heads:
            column.read(cut, rows)
        assert cut.at == len(cut.data)
        name, known = self.tables[table]
        into = self.rows[name]
        assert struct.unpack_from("<Q", head, 32)[0] == len(next(iter(into.values())))
        for number, (column, kind) in enumerate(known):
            stored = next((c for c in heads if c.number == number), None)
            values = decode(stored, heads, rows) if stored else [0] * rows
            flip = 2**63 if kind in ("I32", "I64") else 0
            if stored:
                assert stored.min ^ flip == min(v % 2**64 ^ flip for v in values), (name, column)
                assert stored.max ^ flip == max(v % 2**64 ^ flip for v in values), (name, column)
            into[column] += values


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "sample.wsrep")
        wanted = subprocess.run(
            [sys.argv[1], path], check=True, capture_output=True, text=True
        ).stdout.splitlines()
        with open(path, "rb") as f:
            report = Report(f.read())
    found = []
    for number in sorted(report.tables):
        name, columns = report.tables[number]
        for column, _ in columns:
            values = report.rows[name][column]
            total = sum((i + 1) * v for i, v in enumerate(values)) % 2**64
            found.append("%s.%s %d %d" % (name, column, len(values), total))
    for id in sorted(report.strings):
        s = report.strings[id]
        found.append("string %d %d %d" % (id, len(s), sum((i + 1) * b for i, b in enumerate(s))))
    print("1..3")
    different = [(w, f) for w, f in zip(wanted, found) if w != f]
    for w, f in different[:10]:
        print("# wanted %s, found %s" % (w, f))
    print(
        "%sok 1 - a reader made from the document finds what was written"
        % ("not " if different or len(wanted) != len(found) else "")
    )
    every = (
        {"codec %d" % i for i in range(1, 7)}
        | {"stream %d" % i for i in range(4)}
        | {"flags 0", "flags 1", "flags 2", "patches"}
    )
    print("%sok 2 - the sample has every codec" % ("" if every <= codecs else "not "))
    if not every <= codecs:
        print("# missing: %s" % ", ".join(sorted(every - codecs)))
    print(
        "%sok 3 - what overviews say of blocks is what their rows say"
        % ("" if report.summed else "not ")
    )
    return bool(different or len(wanted) != len(found) or not every <= codecs or not report.summed)


if __name__ == "__main__":
    sys.exit(main())
