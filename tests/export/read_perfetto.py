"""read_perfetto.py - a reader of Perfetto traces for tests: protobuf by hand, interned data
resolved, slices paired on their tracks.
"""
import struct


def varint(b, at):
    v = shift = 0
    while True:
        v |= (b[at] & 127) << shift
        shift += 7
        at += 1
        if b[at - 1] < 128:
            return v, at


def fields(b):
    """(number, value) pairs: ints, or bytes for what has a length."""
    at = 0
    while at < len(b):
        tag, at = varint(b, at)
        kind = tag & 7
        if kind == 0:
            v, at = varint(b, at)
        elif kind == 1:
            v, at = struct.unpack_from("<Q", b, at)[0], at + 8
        elif kind == 2:
            n, at = varint(b, at)
            v, at = b[at : at + n], at + n
            assert len(v) == n, "a message is cut"
        else:
            raise AssertionError("wire type %d" % kind)
        yield tag >> 3, v


def one(b, number, default=None):
    found = default
    for n, v in fields(b):
        if n == number:
            found = v
    return found


def every(b, number):
    return [v for n, v in fields(b) if n == number]


class Trace:
    """tracks: uuid -> dict; slices, instants, counters, samples: lists of dicts."""

    def __init__(self, data):
        self.tracks, self.slices, self.instants, self.counters, self.samples = {}, [], [], [], []
        self.names, self.cats, self.args, self.functions, self.frames, self.stacks = (
            {},
            {},
            {},
            {},
            {},
            {},
        )
        self.open, self.clocks, last = {}, {}, 0
        first = True
        for number, packet in fields(data):
            assert number == 1
            flags = one(packet, 13)
            assert flags == (
                1 if first else 2
            ), "the first packet clears the state, the others need it"
            first = False
            time = one(packet, 8)
            if time is not None:
                assert time >= last, "packets are in order of time"
                last = time
            self.packet(packet, time)

    def packet(self, packet, time):
        for interned in every(packet, 12):
            self.intern(interned)
        for clocks in every(packet, 6):
            self.clocks = {one(c, 1): one(c, 2) for c in every(clocks, 1)}
        for track in every(packet, 60):
            uuid = one(track, 1)
            assert uuid not in self.tracks
            parent = one(track, 5)
            assert parent is None or parent in self.tracks
            self.tracks[uuid] = {
                "name": one(track, 2).decode(),
                "parent": parent,
                "process": one(track, 3),
                "thread": one(track, 4),
                "counter": one(track, 8) is not None,
            }
        for event in every(packet, 11):
            self.event(event, time)
        for sample in every(packet, 66):
            self.samples.append(
                {
                    "ts": time,
                    "pid": one(sample, 2),
                    "tid": one(sample, 3),
                    "cpu": one(sample, 1),
                    "stack": self.stacks[one(sample, 4)],
                }
            )

    def intern(self, interned):
        tables = {1: self.cats, 2: self.names, 3: self.args, 5: self.functions}
        for number, entry in fields(interned):
            if number in tables:
                assert one(entry, 1) not in tables[number], "interned twice"
                tables[number][one(entry, 1)] = one(entry, 2).decode()
            elif number == 6:
                self.frames[one(entry, 1)] = self.functions[one(entry, 2)]
            elif number == 7:
                self.stacks[one(entry, 1)] = [self.frames[f] for f in every(entry, 2)]

    def event(self, e, time):
        kind, uuid = one(e, 9), one(e, 11)
        track = self.tracks[uuid]
        if kind == 2:
            s = self.open[uuid].pop()
            s["end"] = time
            return
        if kind == 4:
            value = one(e, 30)
            if value is None:
                value = struct.unpack("<d", struct.pack("<Q", one(e, 44)))[0]
            assert track["counter"]
            self.counters.append({"ts": time, "track": uuid, "value": value})
            return
        name = one(e, 23)
        s = {
            "ts": time,
            "end": None,
            "track": uuid,
            "name": self.names[one(e, 10)] if name is None else name.decode(),
            "cat": self.cats[one(e, 3)],
            "flows": every(e, 47),
            "args": {self.args[one(a, 1)]: self.arg(a) for a in every(e, 4)},
        }
        if kind == 1:
            self.open.setdefault(uuid, []).append(s)
            self.slices.append(s)
        else:
            assert kind == 3
            self.instants.append(s)

    @staticmethod
    def arg(a):
        for number, v in fields(a):
            if number == 3:
                return v
            if number == 5:
                return struct.unpack("<d", struct.pack("<Q", v))[0]
            if number == 6:
                return v.decode()
        raise AssertionError("an argument without a value")
