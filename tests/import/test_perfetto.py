#!/usr/bin/env python3
"""Importing Perfetto's protocol buffers, which are put together here field by field. Prints TAP.

Usage: test_perfetto.py WARPSIGHT [WORD...]; with words, tests whose names hold one of them."""
import json
import sys
import zlib

from harness import eq, main, test
from traces import msg, perfetto, varint


@test
def perfetto_tracks(t):
    data = perfetto(
        msg(f10=1, f13=1, f6=msg(f1=[msg(f1=6, f2=1000), msg(f1=1, f2=1700000000000000000)])),
        msg(f10=1, f60=msg(f1=5, f3=msg(f1=42, f6="prog"))),
        msg(f10=1, f60=msg(f1=6, f5=5, f4=msg(f1=42, f2=43, f5="worker"))),
        msg(f10=1, f60=msg(f1=7, f5=5, f2="queue", f8=msg(f3=3, f4=1024))),
        msg(f10=1, f60=msg(f1=8, f5=5, f2="gpu")),
        msg(
            f10=1,
            f8=2000,
            f12=msg(f1=msg(f1=1, f2="cat"), f2=msg(f1=1, f2="named"), f3=msg(f1=1, f2="size")),
            f11=msg(
                f9=1, f11=6, f3=1, f10=1, f4=[msg(f1=1, f4=-3), msg(f10="who", f6='me "x"')], f47=[]
            ),
        ),
        msg(f10=1, f8=3000, f11=msg(f9=2, f11=6)),
        msg(f10=1, f8=2500, f11=msg(f9=3, f11=8, f23="moment")),
        msg(f10=1, f8=2600, f11=msg(f9=4, f11=7, f30=2)),
        msg(f10=1, f8=2700, f11=msg(f9=1, f11=8, f23="open", f36=9)),
        msg(f10=1, f8=2800, f11=msg(f9=3, f11=6, f23="target", f42=9)),
        # another sequence with a clock of differences
        msg(f10=2, f13=1, f6=msg(f1=[msg(f1=6, f2=10000), msg(f1=64, f2=50, f3=1, f4=100)])),
        msg(f10=2, f59=msg(f58=64, f11=msg(f11=8))),
        msg(f10=2, f8=3, f11=msg(f9=3, f23="delta")),
        msg(f10=2, f8=2, f11=msg(f9=3, f23="delta2")),
        msg(
            f1=msg(
                f1=2,
                f2=[
                    msg(f1=4000, f2=1, f4=msg(f2=1, f4=1, f5="b", f6=43)),
                    msg(f1=4500, f2=1, f4=msg(f2=43, f4=0, f6=0)),
                ],
            )
        ),
    )
    d = t.load(t.write("a.pftrace", data))
    zero = 2000
    got = sorted((r["nameId"], r["start"], r["end"], r["flags"]) for r in d["WARPSIGHT_SLICE"])
    eq(
        got,
        sorted(
            [
                ("named", 0, 1000, 0),
                ("moment", 500, None, 1),
                ("open", 700, None, 2),
                ("target", 800, None, 1),
                ("delta", 10300 - zero, None, 1),
                ("delta2", 10500 - zero, None, 1),
            ]
        ),
    )
    (named,) = [r for r in d["WARPSIGHT_SLICE"] if r["nameId"] == "named"]
    eq(
        (named["categoryId"], json.loads(named["argsId"]), named["globalTid"]),
        ("cat", {"size": -3, "who": 'me "x"'}, 42 << 24 | 43),
    )
    eq([(r["value"]) for r in d["WARPSIGHT_COUNTER_VALUE"]], [2048.0])
    eq([(r["nameId"], r["unitId"]) for r in d["WARPSIGHT_COUNTER"]], [("queue", "B")])
    eq([(r["start"], r["end"]) for r in d["WARPSIGHT_FLOW"]], [(700, 800)])
    eq([(r["start"], r["end"], r["cpu"]) for r in d["WARPSIGHT_SCHED"]], [(2000, 2500, 2)])
    eq(d["TARGET_INFO_SESSION_START_TIME"][0]["utcEpochNs"], 1700000000000001000)
    t.load(t.write("cut.pftrace", data[:-30]))
    assert "middle of a packet" in t.err, t.err


def packed(*numbers):
    return b"".join(varint(n) for n in numbers)


@test
def perfetto_switches_in_the_compact_form(t):
    compact = msg(
        f5=["swapper", "one", "two"],
        f1=packed(1000, 500, 250),
        f2=packed(1, 2, 0),
        f3=packed(11, 22, 0),
        f4=packed(1, 1, 1),
        f6=packed(1, 2, 0),
        f7=packed(900, 550),
        f8=packed(11, 22),
    )
    d = t.load(
        t.write(
            "a.pftrace",
            perfetto(
                msg(f1=msg(f1=3, f4=compact)),
                msg(f1=msg(f1=3, f2=msg(f1=2000, f2=0, f4=msg(f4=1, f5="one", f6=11)))),
            ),
        )
    )
    got = [
        (r["start"], r["end"], r["cpu"], r["wokenTime"], r["endState"], r["globalTid"] & 0xFFFFFF)
        for r in d["WARPSIGHT_SCHED"]
    ]
    zero = 1000
    eq(
        got,
        [(0, 500, 3, 900 - zero, 3, 11), (500, 750, 3, 450, 1, 22), (1000, None, 3, None, 0, 11)],
    )
    eq(
        sorted(r["nameId"] for r in d["ThreadNames"] if r["nameId"] in ("one", "two")),
        ["one", "two"],
    )
    t.load(
        t.write(
            "b.pftrace",
            perfetto(
                msg(f1=msg(f1=3, f4=msg(f1=packed(1000, 500), f3=packed(1, 2), f2=packed(1))))
            ),
        )
    )
    assert "compact list of switches is broken" in t.err, t.err


@test
def perfetto_compressed_packets(t):
    inner = perfetto(
        msg(f10=1, f8=10, f11=msg(f9=1, f11=5, f23="inside")),
        msg(f10=1, f8=30, f11=msg(f9=2, f11=5)),
    )
    first = perfetto(msg(f10=1, f13=1, f60=msg(f1=5, f2="row")))
    d = t.load(t.write("a.pftrace", first + perfetto(msg(f50=zlib.compress(inner)))))
    eq([(r["nameId"], r["end"] - r["start"]) for r in d["WARPSIGHT_SLICE"]], [("inside", 20)])
    t.load(t.write("b.pftrace", first + perfetto(msg(f50=zlib.compress(inner)[:-12])) + inner))
    assert "Compressed packets are damaged" in t.err, t.err
    bomb = zlib.compress(inner + b"\0" * (80 << 20), 9)
    d = t.load(t.write("c.pftrace", first + perfetto(msg(f50=bomb))))
    assert "more than 64 MiB" in t.err, t.err
    nested = zlib.compress(perfetto(msg(f50=zlib.compress(inner))))
    t.load(t.write("d.pftrace", first + perfetto(msg(f50=nested)) + inner))


@test
def perfetto_state_clocks_and_samples(t):
    d = t.load(
        t.write(
            "a.pftrace",
            perfetto(
                # monotonic is 500 behind; a clock of the sequence in microseconds, not incremental
                msg(
                    f10=1,
                    f13=1,
                    f6=msg(f1=[msg(f1=6, f2=5000), msg(f1=3, f2=4500), msg(f1=65, f2=1, f4=1000)]),
                ),
                msg(f10=1, f60=msg(f1=5, f3=msg(f1=42, f6="prog"))),
                msg(f10=1, f60=msg(f1=6, f5=5, f4=msg(f1=42, f2=43, f5="worker"))),
                msg(f10=1, f60=msg(f1=7, f5=5, f2="depth", f8=msg(f6="items"))),
                msg(f10=1, f8=4600, f58=3, f11=msg(f9=3, f11=6, f23="by the monotonic clock")),
                msg(f10=1, f8=2, f58=65, f11=msg(f9=3, f11=6, f23="by its own")),
                msg(
                    f10=1,
                    f8=5200,
                    f12=msg(f2=msg(f1=1, f2="named")),
                    f13=2,
                    f11=msg(f9=1, f11=6, f10=1, f31=7, f12=12),
                ),
                msg(
                    f10=1, f42=1, f8=5300, f13=2, f11=msg(f9=3, f11=6, f10=1)
                ),  # its names are lost
                msg(f10=1, f8=5400, f11=msg(f9=2, f11=6)),
                msg(f10=1, f13=3, f8=5450, f11=msg(f9=3, f11=6, f23="after")),
                # Chrome's asynchronous events, and a sample: frames before what they refer to
                msg(
                    f10=1,
                    f8=5500,
                    f11=msg(f22="net", f23="request", f11=5, f6=msg(f2=ord("b"), f6=77)),
                ),
                msg(f10=1, f8=5700, f11=msg(f22="net", f11=5, f6=msg(f2=ord("e"), f6=77))),
                msg(
                    f10=1,
                    f8=5800,
                    f12=msg(
                        f7=msg(f1=1, f2=[2, 1]),
                        f6=[msg(f1=1, f2=1, f3=1), msg(f1=2, f2=2, f3=1)],
                        f19=msg(f1=1, f7=[1, 2]),
                        f17=[msg(f1=1, f2="usr"), msg(f1=2, f2="prog")],
                        f5=[msg(f1=1, f2="leaf"), msg(f1=2, f2="main")],
                    ),
                    f66=msg(f1=2, f2=42, f3=43, f4=1, f5=2),
                ),
            ),
        )
    )
    names = [(r["nameId"], r["start"], r["end"]) for r in d["WARPSIGHT_SLICE"]]
    zero = 5100
    eq(
        sorted(names, key=str),
        sorted(
            [
                ("by the monotonic clock", 0, None),
                ("by its own", 6000 - zero, None),
                ("named", 100, 300),
                ("after", 350, None),
                ("request", 400, 600),
            ],
            key=str,
        ),
    )
    eq([(r["start"], r["value"]) for r in d["WARPSIGHT_COUNTER_VALUE"]], [(100, 12.0)])
    eq([(r["nameId"], r["unitId"]) for r in d["WARPSIGHT_COUNTER"]], [("depth", "items")])
    assert "which were dropped while recording" in t.err, t.err
    eq(
        [(r["start"], r["cpu"], r["globalTid"]) for r in d["COMPOSITE_EVENTS"]],
        [(700, 2, 42 << 24 | 43)],
    )
    eq(
        [(r["stackDepth"], r["symbol"], r["module"]) for r in d["SAMPLING_CALLCHAINS"]],
        [(0, "leaf", "usr/prog"), (1, "main", "usr/prog")],
    )


sys.exit(main())
