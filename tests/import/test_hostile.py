#!/usr/bin/env python3
"""What is broken, hostile or no trace: read as far as it goes, or refused in one sentence. Prints
TAP.

Usage: test_hostile.py WARPSIGHT [WORD...]; with words, tests whose names hold one of them."""
import gzip
import json
import os
import random
import sqlite3
import sys
import zlib

from harness import eq, main, test
from traces import CHROME, kineto, make_nsys


@test
def broken_json_is_read_to_the_break(t):
    text = json.dumps(CHROME)
    whole = len(t.load(t.write("w.json", text))["WARPSIGHT_SLICE"])
    eq(len(t.load(t.write("open.json", text[:-1] + ","))["WARPSIGHT_SLICE"]), whole)
    assert "broken" not in t.err, t.err
    cut = t.load(t.write("cut.json", '{"traceEvents": ' + text[:-20]))
    assert "The trace is broken" in t.err and "16 events" in t.err, t.err
    eq(len([r for r in cut["DIAGNOSTIC_EVENT"] if "broken" in r["text"]]), 1)
    bad = text.replace('{"ph": "X", "name": "x"', '{"ph": "X" ? "name": "x"').replace(
        '"ph": "i"', '"ph" }: "i"'
    )
    t.load(t.write("bad.json", bad))
    assert "byte" in t.err, t.err
    packed = gzip.compress(json.dumps(kineto()).encode())
    t.load(t.write("cut.json.gz", packed[: len(packed) * 2 // 3]))
    assert "compressed data end too early" in t.err, t.err


@test
def hostile_json_ends_in_a_message(t):
    def event(args):
        return (
            '[{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":'
            + args
            + '},{"ph":"X","name":"b","pid":1,"tid":1,"ts":5,"dur":1}]'
        )

    t.run(
        "import",
        "-f",
        "-o",
        "r",
        t.write("deep.json", event("[" * 100000 + "]" * 100000)),
        ok=False,
    )
    t.load(t.write("deep100.json", event('{"a":' + "[" * 100 + "]" * 100 + "}")))
    numbers = t.load(
        t.write(
            "num.json",
            '[{"ph":"X","name":"a","pid":1e400,"tid":99999999999999999999999,"ts":'
            + "9" * 400
            + '},{"ph":"X","name":"b","pid":-5,"tid":1.5,"ts":1e3,"dur":-7},'
            '{"ph":"X","name":"n","pid":1,"tid":1,"ts":NaN}]',
        )
    )
    eq([r["nameId"] for r in numbers["WARPSIGHT_SLICE"]], ["b"])
    utf = t.load(
        t.write(
            "utf.json", b'[{"ph":"X","name":"\xff\xfe\\ud800\\u12","pid":1,"tid":1,"ts":1,"dur":1}]'
        )
    )
    eq(len(utf["WARPSIGHT_SLICE"]), 1)
    bomb = gzip.compress(b"[" + b" " * (80 << 20))
    r = t.run("import", "-o", "bomb", t.write("bomb.json.gz", bomb), ok=False)
    assert "holds no trace events" in r.err, r.err
    huge = t.write(
        "huge.json", b'[{"ph":"X","name":"' + b"a" * (70 << 20) + b'","ts":1,"pid":1,"tid":1}]'
    )
    assert "64 MiB" in t.run("import", "-o", "huge", huge, ok=False).err
    for name in os.listdir(t.dir):
        assert not name.endswith(".tmp"), name
    assert not os.path.exists(t.path("bomb.wsrep"))


@test
def what_is_no_trace_is_refused(t):
    for name, data, what in [
        ("empty", b"", "is empty"),
        ("text", b"hello\nworld\n", "no trace that is known"),
        ("zeros", b"\0" * 5000, "no trace"),
        ("db", None, "no export of Nsight Systems"),
        ("rep", b"QuadD" + b"\1" * 100, "nsys export --type=sqlite"),
        ("perf", b"PERFILE2" + b"\0" * 96, "perf script -i perf"),
    ]:
        if data is None:
            sqlite3.connect(t.path(name)).execute("CREATE TABLE a(b)").connection.commit()
        else:
            t.write(name, data)
        t.env["PATH"] = t.dir
        r = t.run("import", name, ok=False)
        assert what in r.err and r.err.count("\n") == 1, r.err
    assert "is no report" in t.run("stats", "text", ok=False).err
    assert "not a regular file" in t.run("import", "/dev/null", ok=False).err
    t.run("import", ok=False)
    r = t.run("import", t.path("missing"), ok=False)
    assert "No such file" in r.err, r.err


@test
def hostile_json_ends_well(t):
    """Each is read, or refused in one clear sentence, in bounded memory."""
    event = {"ph": "X", "name": "n", "pid": 1, "tid": 1, "ts": "10.5", "dur": 5}
    good = json.dumps({"traceEvents": [event]}).encode()

    def slices(name, data):
        return [
            (r["start"], r["end"] - r["start"])
            for r in t.load(t.write(name, data)).get("WARPSIGHT_SLICE", [])
        ]

    eq(slices("bom.json", b"\xef\xbb\xbf" + good.replace(b", ", b",\r\n")), [(0, 5000)])
    eq(slices("twice.json", good + good), [(0, 5000)])
    assert "after the end of the trace" in t.err, t.err
    eq(slices("padded.json", good + b"\0" * 99 + b" \n"), [(0, 5000)])
    assert "left out" not in t.err, t.err
    eq(slices("dur.json", good.replace(b"5}", b'"x"}')), [(0, 0)])
    assert "no number" in t.err, t.err
    eq(
        slices(
            "keys.json",
            good.replace(b'"ph"', b'"ph": "i", "ph"').replace(b"]}", b'], "traceEvents": []}'),
        ),
        [(0, 5000)],
    )
    eq(
        slices(
            "numbers.json",
            b'[{"ph":"X","ts":1e999,"dur":1},{"ph":"X","ts":NaN},{"ph":"X","ts":'
            + b"9" * 5000
            + b'},{"ph":"X","ts":1,"dur":1e300,"pid":1e400}]',
        ),
        [(0, 0)],
    )
    assert "(3 times)" in t.err, t.err
    two = gzip.compress(good[:20]) + gzip.compress(good[20:])
    eq(slices("members.json.gz", two), [(0, 5000)])
    for name, data, words in (
        ("deep.json", b"[" * 100000, "nested too deeply"),
        ("deep2.json", b'{"a":' * 100000, "nested too deeply"),
        ("none.json", b'{"a":1}', "no trace events"),
        ("object.json", b'{"traceEvents":{"a":1}}', "no trace events"),
        (
            "cut.json.gz",
            gzip.compress(b"[" + random.Random(1).randbytes(9000).hex().encode())[:2000],
            "too early",
        ),
    ):
        r = t.run("import", "-f", "-o", "out.wsrep", t.write(name, data), ok=False)
        assert r.returncode == 1 and words in r.err, (name, r.err)
    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed_up = (
        bomb.compress(b'[{"ph":"X","ts":1,"name":"')
        + b"".join(bomb.compress(b"a" * (1 << 20)) for _ in range(80))
        + bomb.flush()
    )
    r = t.run("import", "-f", "-o", "out.wsrep", t.write("bomb.json.gz", packed_up), ok=False)
    assert r.returncode == 1 and "more than 64 MiB" in r.err, r.err


@test
def damaged_databases_end_in_a_message(t):
    data = bytearray(open(make_nsys(t, "n.sqlite"), "rb").read())
    rng = random.Random(5)
    for i in range(25):
        bad = bytearray(data)
        for _ in range(rng.randrange(1, 40)):
            bad[rng.randrange(100, len(bad))] = rng.randrange(256)
        t.run(
            "import",
            "-f",
            "-o",
            "bad",
            t.write("bad.sqlite", bytes(bad[: rng.randrange(len(bad) // 2, len(bad) + 1)])),
            ok=None,
        )


sys.exit(main())
