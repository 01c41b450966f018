"""test_reader.py WARPSIGHT MAKE_REPORT LIBRARY STATIC_LIBRARY EXAMPLE - libwarpsight through the
Python module, against what `query` says of the same report; TAP.
"""
import ctypes, gc, json, os, subprocess, sys, tempfile

WARPSIGHT, MAKE, LIBRARY, STATIC, EXAMPLE = map(os.path.abspath, sys.argv[1:6])
HERE = os.path.dirname(os.path.abspath(__file__))
os.environ["WARPSIGHT_LIBRARY"] = LIBRARY
sys.path[:0] = [os.path.join(HERE, "..", "..", "python"), os.path.join(HERE, "..")]
sys.dont_write_bytecode = True
import warpsight
from warpsight import reader
from tap import check, done


def sql(report, text):
    r = subprocess.run(
        [WARPSIGHT, "query", "-q", "-f", "json", text, report],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert r.returncode == 0, r
    return [tuple(o.values()) for o in json.loads(r.stdout)]


def signed(v):
    return v - (1 << 64) if isinstance(v, int) and v >= 1 << 63 else v


def rows_of(table, columns, **window):
    lists = table.to_lists(columns, **window)
    return sorted(zip(*([signed(v) for v in lists[c]] for c in columns)), key=repr)


def test_against_sql(path, kind):
    with warpsight.open(path) as r:
        for name, query, columns in (
            (
                "cuda_kernel",
                (
                    "SELECT start, end, deviceId, k.correlationId, graphNodeId,"
                    " theoreticalOccupancy, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k LEFT JOIN"
                    " StringIds s ON s.id = k.demangledName"
                ),
                ["start", "end", "device", "correlation", "graph_node", "occupancy", "demangled"],
            ),
            (
                "cuda_memcpy",
                "SELECT start, end, bytes, copyKind, srcKind FROM CUPTI_ACTIVITY_KIND_MEMCPY",
                ["start", "end", "bytes", "kind", "src_kind"],
            ),
            (
                "nvtx",
                (
                    "SELECT start, end, eventType, domainId, coalesce(text, s.value) AS t FROM"
                    " NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId"
                ),
                ["start", "end", "type", "domain", "text"],
            ),
            (
                "osrt",
                (
                    "SELECT o.start AS a, o.end AS b, returnValue, s.value FROM OSRT_API o LEFT"
                    " JOIN StringIds s ON s.id = o.nameId"
                ),
                ["start", "end", "result", "name"],
            ),
        ):
            blank = lambda rows: sorted(
                (row[:-1] + (row[-1] or None,) for row in rows), key=repr
            )  # a text that is not there: '' in SQL
            want, got = blank(sql(path, query)), blank(rows_of(r[name], columns))
            check(
                "%s: %s has the rows of the query" % (kind, name),
                got == want,
                "have %s\nwant %s" % (got[:3], want[:3]),
            )
            check(
                "%s: %s knows how many" % (kind, name),
                len(r[name]) == len(want),
                (len(r[name]), len(want)),
            )


def test_times(path):
    with warpsight.open(path) as r:
        want = sql(
            path,
            (
                "SELECT start, end, globalTid FROM NVTX_EVENTS WHERE start <= 2000000 AND"
                " coalesce(end, start) >= 1000000"
            ),
        )
        got = rows_of(r["nvtx"], ["start", "end"], start=1000000, end=2000000)
        check(
            "a window of time",
            0 < len(got) < len(r["nvtx"]) and got == sorted(((a, b) for a, b, _ in want), key=repr),
            (len(got), len(want)),
        )
        check(
            "of which blocks outside are not read",
            sum(1 for _ in r["nvtx"].batches(["start"], 1000000, 2000000))
            < sum(1 for _ in r["nvtx"].batches(["start"])),
        )
        check(
            "before everything there is nothing",
            rows_of(r["nvtx"], ["start"], start=-(10**9), end=-1) == [],
        )


def test_lifetimes(path):
    r = warpsight.open(path)
    table = r["nvtx"]
    batches = list(table.batches(["start", "text"]))
    expected = [bytes(b.values("start")) for b in batches]
    views = [b["start"] for b in batches]
    texts = batches[0]["text"][:3]
    pending = table.batches(["start"])
    next(pending)
    r.close()
    check("a batch outlives its report", batches[0]["text"][:3] == texts)
    check("and so does a stream", len(next(pending)) > 0)
    del batches, pending
    gc.collect()
    check("a view outlives its batch", [bytes(v) for v in views] == expected)
    check("a view cannot be written to", all(v.readonly for v in views))
    try:
        len(table)
        check("a closed report says so", False)
    except warpsight.Error as e:
        check("a closed report says so", "closed" in str(e), e)
    r.close()


def take_capsule(capsule):
    """As a consumer does: move the stream out of the capsule, then read it."""
    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [
        ctypes.py_object,
        ctypes.c_char_p,
    ]
    there = reader._Stream.from_address(api.PyCapsule_GetPointer(capsule, b"arrow_array_stream"))
    stream = reader._Stream.from_buffer_copy(there)
    there.release = type(there.release)()
    return stream


def test_capsules(path):
    with warpsight.open(path) as r:
        capsule = r["nvtx"].__arrow_c_stream__()
        check(
            "a table is a capsule that Arrow knows", "arrow_array_stream" in repr(capsule), capsule
        )
        stream = take_capsule(capsule)
        del capsule
        gc.collect()
        total, array = 0, reader._Array()
        while not stream.get_next(ctypes.byref(stream), ctypes.byref(array)) and array.release:
            total += array.length
            array.release(ctypes.byref(array))
        stream.release(ctypes.byref(stream))
        check("whose stream has all rows", total == len(r["nvtx"]), total)
        held = len(reader._held)
        for _ in range(50):
            r["nvtx"].select(["start"]).__arrow_c_stream__()
        gc.collect()
        check(
            "a capsule that nobody takes is released", len(reader._held) == held, len(reader._held)
        )


def test_schema(path):
    with warpsight.open(path) as r:
        check(
            "all tables are there",
            {"nvtx", "cuda_kernel", "meta", "thread"} <= set(r) and "nope" not in r,
        )
        wrong = []
        for name in r:
            stream, schema = r[name]._stream(), reader._Schema()
            stream.get_schema(ctypes.byref(stream), ctypes.byref(schema))
            names = [schema.children[i].contents.name.decode() for i in range(schema.n_children)]
            formats = [schema.children[i].contents.format for i in range(schema.n_children)]
            kinds = r[name].columns
            want = [
                {"time": b"l", "signed": b"l", "real": b"g", "string": b"l"}.get(k[0], b"L")
                for k in kinds.values()
            ]
            if schema.format != b"+s" or names != list(kinds) or formats != want:
                wrong.append((name, names, formats))
            schema.release(ctypes.byref(schema))
            stream.release(ctypes.byref(stream))
        check("with the columns and types that they say", not wrong, wrong[:2])
        check(
            "and can be read whole",
            all(sum(len(b) for b in r[n].batches()) == len(r[n]) for n in r),
        )
        check(
            "facts",
            "wild" in path
            or r.fact("nothing.of.that") is None
            and r.complete
            and r.damage == []
            and r.duration > 0,
        )


def refused(name, f, *words):
    try:
        f()
        check(name, False, "not refused")
    except (warpsight.Error, KeyError) as e:
        check(name, all(w in str(e) for w in words), e)


def test_refusals(path, folder):
    refused(
        "no such file",
        lambda: warpsight.open(os.path.join(folder, "missing.wsrep")),
        "missing.wsrep",
    )
    empty = os.path.join(folder, "empty.wsrep")
    open(empty, "w").close()
    refused("not a report", lambda: warpsight.open(empty), "empty.wsrep")
    with warpsight.open(path) as r:
        refused("no such table", lambda: r["nope"], "nope")
        refused("no such column", lambda: list(r["nvtx"].batches(["nope"])), "nope", "nvtx")
        refused("a column twice", lambda: list(r["nvtx"].batches(["start", "start"])), "twice")
        refused("no columns", lambda: list(r["nvtx"].batches([])), "no columns")
        scan = reader._Scan(8, None, 0, 0, 1, 0)
        stream = reader._Stream()
        check(
            "a scan of no size",
            reader._lib().warpsight_stream(
                r._handle(), b"nvtx", ctypes.byref(scan), ctypes.byref(stream)
            )
            == -1,
        )
        scan = reader._Scan(ctypes.sizeof(reader._Scan), None, 0, 0, 1, 1 << 20)
        check(
            "a flag of later versions",
            reader._lib().warpsight_stream(
                r._handle(), b"nvtx", ctypes.byref(scan), ctypes.byref(stream)
            )
            == -1
            and not stream.release,
        )


def test_damage(path, folder):
    """A byte changed in each part of the file: an error or the right rows, nothing else."""
    data = open(path, "rb").read()
    with warpsight.open(path) as r:
        whole = {t: rows_of(r[t], ["start", "end"]) for t in ("nvtx", "osrt")}
    copy, odd = os.path.join(folder, "damaged.wsrep"), []
    for at in range(0, len(data), max(1, len(data) // 150)):
        with open(copy, "wb") as f:
            f.write(data[:at] + bytes([data[at] ^ 0x5A]) + data[at + 1 :])
        try:
            with warpsight.open(copy) as r:
                for t in whole:
                    got = rows_of(r[t], ["start", "end"])
                    if got != whole[t] and not r.damage and r.complete:
                        odd.append((at, t))
                    for b in r["nvtx"].batches(["text"]):
                        b["text"]
        except warpsight.Error:
            pass
    check("damage is told, not shown", not odd, odd)


def test_numpy(path):
    try:
        import numpy
    except ImportError:
        check("numpy takes columns as they are # SKIP numpy is not installed", True)
        return
    with warpsight.open(path) as r:
        parts = r["nvtx"].to_numpy(["start", "end"])
        lists = r["nvtx"].to_lists(["start"])
        check(
            "numpy takes columns as they are",
            numpy.concatenate(parts["start"]).tolist() == lists["start"],
        )
        batch = next(r["nvtx"].batches(["start"]))
        view = numpy.frombuffer(batch["start"], "i8")
        check("without a copy", view.ctypes.data == batch._array.children[0].contents.buffers[1])


def test_optional(path):
    for module, read in (
        ("pandas", lambda r: len(r["nvtx"].to_pandas(["start", "text"]))),
        ("pyarrow", lambda r: r["nvtx"].to_arrow(["start", "text"]).num_rows),
    ):
        try:
            __import__(module)
        except ImportError:
            check("%s reads a table # SKIP %s is not installed" % (module, module), True)
            continue
        with warpsight.open(path) as r:
            check("%s reads a table" % module, read(r) == len(r["nvtx"]))


def test_pandas(path, small):
    """What pandas gets without pyarrow: the rows of to_lists, null as NA, texts as categories; and
    one batch without a copy.
    """
    try:
        import pandas
    except ImportError:
        check(
            "pandas has the same rows # SKIP pandas is not installed (Debian: python3-pandas)", True
        )
        return
    for p in (path, small):
        with warpsight.open(p) as r:
            for name in ("nvtx", "osrt", "cuda_kernel"):
                frame, lists = (
                    r[name]._to_pandas_alone(pandas, None, None, None),
                    r[name].to_lists(),
                )
                odd = [
                    c
                    for c in lists
                    if [None if v is pandas.NA or v != v else v for v in frame[c].astype(object)]
                    != lists[c]
                    and lists[c]
                ]
                check(
                    "pandas: %s of %s has the same rows" % (name, os.path.basename(p)),
                    not odd and list(frame) == list(lists) and len(frame) == len(r[name]),
                    odd,
                )
    with warpsight.open(small) as r:
        frame = r["nvtx"]._to_pandas_alone(pandas, ["start", "end", "text"], None, None)
        check(
            "pandas: types",
            (str(frame.start.dtype), str(frame.end.dtype), str(frame.text.dtype))
            == ("int64", "Int64", "category"),
            frame.dtypes,
        )
        check(
            "pandas: what never ended has no end",
            frame.end.isna().any() and (frame.end.dropna() >= frame.start[frame.end.notna()]).all(),
        )
        check(
            "pandas: an empty window",
            len(r["nvtx"]._to_pandas_alone(pandas, ["start", "text"], -(10**9), -1)) == 0,
        )
        own = r["nvtx"]._to_pandas_alone(pandas, ["start"], None, None).start.to_numpy()
        check(
            "pandas: one batch without a copy",
            not own.flags.owndata and not own.flags.writeable,
            own.flags,
        )
    check("pandas: which outlives its report", own.tolist() == frame.start.tolist())


def test_symbols(folder):
    def symbols(*command):
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return {line.split()[-1] for line in out.splitlines() if len(line.split()) == 3}

    shared, static = symbols("nm", "-D", "--defined-only", LIBRARY), symbols(
        "nm", "-g", "--defined-only", STATIC
    )
    check(
        "only public symbols are visible",
        shared and shared == static and all(s.startswith("warpsight_") for s in shared),
        (shared, static),
    )
    header = open(os.path.join(HERE, "..", "..", "include", "warpsight", "warpsight.h")).read()
    check("and all of them are declared", all(s + "(" in header for s in shared), shared)
    dynamic = subprocess.run(["readelf", "-d", LIBRARY], capture_output=True, text=True).stdout
    check("the library has its version in its name", "[libwarpsight.so.1]" in dynamic, dynamic)
    program = os.path.join(folder, "static")
    sanitize = os.environ.get("WS_TEST_SANITIZE")
    flags = ["-fsanitize=" + sanitize] if sanitize else []
    r = subprocess.run(
        [
            "cc",
            *flags,
            "-I" + os.path.join(HERE, "..", "..", "include"),
            os.path.join(HERE, "..", "..", "examples", "reader", "busiest.c"),
            STATIC,
            "-lzstd",
            "-lxxhash",
            "-lpthread",
            "-lm",
            "-o",
            program,
        ],
        capture_output=True,
        text=True,
    )
    check("the static library links", r.returncode == 0, r.stderr)
    return program


def test_example(path, program):
    want = sql(
        path,
        (
            "SELECT sum(end - start) AS t, count(*) AS n, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k"
            " JOIN StringIds s ON s.id = k.shortName WHERE end IS NOT NULL GROUP BY k.shortName"
        ),
    )
    for p in (EXAMPLE, program):
        r = subprocess.run([p, path], capture_output=True, text=True)
        got = [line.split(None, 3) for line in r.stdout.splitlines()]
        check(
            "the example adds up: %s" % os.path.basename(p),
            r.returncode == 0
            and got
            and sorted(
                (int(t), int(n), s)
                for t, _, rest in [(g[0], g[1], " ".join(g[2:])) for g in got]
                for n, s in [rest.split(None, 1)]
            )
            == sorted(want),
            (r.stdout, want),
        )
    r = subprocess.run([EXAMPLE, path + ".no"], capture_output=True, text=True)
    check("and says what is wrong", r.returncode == 1 and ".no" in r.stderr, r)
    out = subprocess.run(
        [sys.executable, os.path.join(HERE, "..", "..", "examples", "reader", "busiest.py"), path],
        capture_output=True,
        text=True,
        env=dict(
            os.environ,
            PYTHONPATH=os.path.join(HERE, "..", "..", "python"),
            PYTHONDONTWRITEBYTECODE="1",
        ),
    )
    check("so does the one in Python", out.returncode == 0 and max(want)[2] in out.stdout, out)


def main():
    if os.environ.get("WS_TEST_SANITIZE") == "thread":
        print("1..0 # SKIP an interpreter cannot load a library of this sanitizer")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for kind in ("basic", "cuda", "many", "hostile", "wild", "empty"):
            paths[kind] = os.path.join(folder, kind + ".wsrep")
            subprocess.run([MAKE, kind, paths[kind]], check=True)
        for kind in ("basic", "cuda", "hostile"):
            test_against_sql(paths[kind], kind)
        test_times(paths["many"])
        test_lifetimes(paths["many"])
        test_capsules(paths["many"])
        test_schema(paths["wild"])
        test_schema(paths["cuda"])
        test_refusals(paths["basic"], folder)
        test_damage(paths["basic"], folder)
        test_numpy(paths["many"])
        test_optional(paths["many"])
        test_pandas(paths["many"], paths["basic"])
        program = test_symbols(folder)
        test_example(paths["cuda"], program)
    return done()


sys.exit(main())
