"""Reading warpsight reports (.wsrep) from Python, through libwarpsight and nothing else that must
be installed.

    import warpsight
    with warpsight.open("train.wsrep") as report:
        kernels = report["cuda_kernel"]
        kernels.to_pandas(["start", "end", "name"])     # with pandas
        pyarrow.table(kernels)                          # with pyarrow, polars, duckdb...: no copy
        for batch in kernels.batches(["start", "end"]): # with nothing
            total = sum(e - s for s, e in zip(batch["start"], batch["end"]))

A table gives its rows through the Arrow PyCapsule protocol (__arrow_c_stream__), so whatever
understands that takes them without a copy. Times count in nanoseconds from the start of the
collection.
"""
import ctypes
import ctypes.util
import os

__all__ = ["open", "Report", "Table", "Batch", "Error"]

API_VERSION = 1  # what this module was written for; a newer library serves it too
FROM_ZERO, NUMBERS = 1, 2
TYPES = {1: "time", 2: "number", 3: "signed", 4: "real", 5: "string", 6: "thread", 7: "process"}
NULL_TIME = (1 << 64) - 1


class Error(Exception):
    """What libwarpsight has to say."""


# ---- the library ----


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


class _Stream(ctypes.Structure):
    pass


_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", ctypes.POINTER(_Schema)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Schema))),
    ("private_data", ctypes.c_void_p),
]
_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.POINTER(_Array)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Array))),
    ("private_data", ctypes.c_void_p),
]
_Stream._fields_ = [
    (
        "get_schema",
        ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Schema)),
    ),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Array))),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(_Stream))),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Stream))),
    ("private_data", ctypes.c_void_p),
]


class _Scan(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("columns", ctypes.POINTER(ctypes.c_char_p)),
        ("column_count", ctypes.c_size_t),
        ("time_min", ctypes.c_uint64),
        ("time_max", ctypes.c_uint64),
        ("flags", ctypes.c_uint),
    ]


class _Column(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("sql_name", ctypes.c_char_p),
        ("doc", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("nullable", ctypes.c_int),
    ]


def _places():
    """Where the library may be: as told, beside an installed or built copy of this module, on the
    loader's path.
    """
    told = os.environ.get("WARPSIGHT_LIBRARY")
    if told:
        return [told]
    here = os.path.dirname(os.path.abspath(__file__))
    names = ["libwarpsight.so.1", "libwarpsight.so"]
    folders = [here, os.path.join(here, "lib")]
    for up in range(2, 7):  # <prefix>/lib/python3/dist-packages/warpsight and the like
        prefix = os.path.abspath(os.path.join(here, *[".."] * up))
        folders += [
            prefix,
            os.path.join(prefix, "lib"),
            os.path.join(prefix, "lib64"),
            os.path.join(prefix, "lib", "warpsight"),
            os.path.join(prefix, "build", "src", "lib"),
        ]
    found = [
        os.path.join(f, n) for f in folders for n in names if os.path.exists(os.path.join(f, n))
    ]
    return found + ["libwarpsight.so.1", ctypes.util.find_library("warpsight") or "libwarpsight.so"]


def _load():
    wrong = []
    for place in _places():
        try:
            lib = ctypes.CDLL(place)
            break
        except OSError as e:
            wrong.append(str(e))
    else:
        raise Error("libwarpsight is not found; set WARPSIGHT_LIBRARY to its path (%s)" % wrong[-1])
    p, s, n = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    for name, result, *args in (
        ("api_version", ctypes.c_int),
        ("version", s),
        ("error", s),
        ("open", p, s),
        ("close", None, p),
        ("complete", ctypes.c_int, p),
        ("damage", s, p, n),
        ("time_zero", ctypes.c_uint64, p),
        ("time_last", ctypes.c_uint64, p),
        ("fact", s, p, s),
        ("table", s, n),
        ("table_doc", s, s),
        ("rows", ctypes.c_uint64, p, s),
        ("column", ctypes.c_int, s, n, ctypes.POINTER(_Column)),
        ("stream", ctypes.c_int, p, s, ctypes.POINTER(_Scan), ctypes.POINTER(_Stream)),
        ("string", p, p, ctypes.c_uint32, ctypes.POINTER(n)),
        ("strings", ctypes.c_uint32, p),
    ):
        f = getattr(lib, "warpsight_" + name)
        f.restype, f.argtypes = result, args
    if lib.warpsight_api_version() < API_VERSION:
        raise Error("libwarpsight is older than this module")
    return lib


_library = None


def _lib():
    global _library
    if _library is None:
        _library = _load()
    return _library


def _text(b):
    return b.decode("utf-8", "replace") if b is not None else None


# ---- capsules ----


def _capsule(struct, name):
    """A PyCapsule that owns a copy of the struct and releases it when nobody has taken it."""
    api = ctypes.pythonapi
    new, get = api.PyCapsule_New, api.PyCapsule_GetPointer
    destructor = ctypes.CFUNCTYPE(None, ctypes.py_object)
    new.restype, new.argtypes = ctypes.py_object, [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_void_p,
    ]
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = ctypes.addressof(struct)
    capsule = new(address, name, ctypes.cast(_destroy, ctypes.c_void_p))
    _held[address] = struct
    return capsule


_held = {}  # what capsules point to, until they are gone


def _destroy_capsule(capsule):
    # `capsule` is a borrowed pointer to an object being destroyed: it must not become a Python
    # object.
    api = ctypes.pythonapi
    for name in (b"arrow_array_stream", b"arrow_schema", b"arrow_array"):
        if _is_valid(capsule, name):
            struct = _held.pop(_get_pointer(capsule, name), None)
            if struct is not None and struct.release:
                struct.release(ctypes.byref(struct))
            return


_is_valid = ctypes.pythonapi["PyCapsule_IsValid"]
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]
_get_pointer = ctypes.pythonapi["PyCapsule_GetPointer"]
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]
_destroy = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_destroy_capsule)


# ---- rows ----


class Batch:
    """Rows of one block. batch["column"] is a memoryview of its values, or a list of str and None
    for texts; no copy is made of numbers.

    Values that are null read as whatever stands for it; batch.nulls("column") tells how many there
    are, batch.valid("column", i) which. A view keeps the batch alive, and the batch its report.
    """

    def __init__(self, array, schema):
        self._array, self._schema = array, schema
        self._index = {_text(schema.children[i].contents.name): i for i in range(schema.n_children)}
        self.columns = list(self._index)

    def __len__(self):
        return self._array.length

    def __del__(self):
        for s in (self._array, self._schema):
            if s.release:
                s.release(ctypes.byref(s))

    def _child(self, name):
        i = self._index[name]
        return self._array.children[i].contents, self._schema.children[i].contents

    def nulls(self, name):
        return self._child(name)[0].null_count

    def valid(self, name, i):
        a = self._child(name)[0]
        return not a.buffers[0] or bool(
            ctypes.cast(a.buffers[0], ctypes.POINTER(ctypes.c_uint8))[i >> 3] >> (i & 7) & 1
        )

    def _null_mask(self, numpy, name):
        a = self._child(name)[0]
        if not a.buffers[0]:
            return numpy.zeros(a.length, bool)
        bits = (ctypes.c_uint8 * ((a.length + 7) // 8)).from_address(a.buffers[0])
        return (
            numpy.unpackbits(numpy.frombuffer(bits, "u1"), count=a.length, bitorder="little") == 0
        )

    def values(self, name):
        """The numbers as a read-only memoryview: of texts their numbers."""
        a, s = self._child(name)
        kind = {b"l": ctypes.c_int64, b"L": ctypes.c_uint64, b"g": ctypes.c_double}[s.format]
        if not a.length:
            return memoryview(b"").cast({b"l": "q", b"L": "Q", b"g": "d"}[s.format])
        buffer = (kind * a.length).from_address(a.buffers[1])
        buffer._batch = self
        return (
            memoryview(buffer)
            .cast("B")
            .cast({b"l": "q", b"L": "Q", b"g": "d"}[s.format])
            .toreadonly()
        )

    def __getitem__(self, name):
        if not self._child(name)[1].dictionary:
            return self.values(name)
        known = {}
        out = []
        for number in self.values(name):
            if number not in known:
                known[number] = self._dictionary_text(name, number)
            out.append(known[number])
        return out

    def _dictionary_text(self, name, number):
        if not number:
            return None
        d = self._child(name)[0].dictionary.contents
        offsets = ctypes.cast(d.buffers[1], ctypes.POINTER(ctypes.c_int64))
        return ctypes.string_at(
            d.buffers[2] + offsets[number], offsets[number + 1] - offsets[number]
        ).decode()


class Table:
    """The rows of one table of a report, read when they are asked for."""

    def __init__(self, report, name):
        self.report, self.name = report, name
        self.doc = _text(_lib().warpsight_table_doc(name.encode()))

    def __len__(self):
        return _lib().warpsight_rows(self.report._handle(), self.name.encode())

    def __repr__(self):
        return "<warpsight table %s: %d rows>" % (self.name, len(self))

    @property
    def columns(self):
        """By name: (type, name in SQL, whether values may be null, meaning)."""
        out, i, c = {}, 0, _Column()
        while not _lib().warpsight_column(self.name.encode(), i, ctypes.byref(c)):
            out[_text(c.name)] = (
                TYPES.get(c.type, "number"),
                _text(c.sql_name),
                bool(c.nullable),
                _text(c.doc),
            )
            i += 1
        return out

    def _stream(self, columns=None, start=None, end=None, flags=FROM_ZERO):
        names = [c.encode() for c in columns] if columns is not None else []
        if columns is not None and not names:
            raise Error("no columns are asked for")
        zero = self.report.time_zero

        def clock(t, otherwise):
            return otherwise if t is None else min(max(zero + int(t), 0), NULL_TIME)

        scan = _Scan(
            ctypes.sizeof(_Scan),
            (ctypes.c_char_p * len(names))(*names) if names else None,
            len(names),
            clock(start, 0),
            clock(end, NULL_TIME),
            flags,
        )
        stream = _Stream()
        if _lib().warpsight_stream(
            self.report._handle(), self.name.encode(), ctypes.byref(scan), ctypes.byref(stream)
        ):
            raise Error(_text(_lib().warpsight_error()))
        return stream

    def select(self, columns=None, start=None, end=None):
        """Some columns, and the rows whose span touches start..end (nanoseconds from the start of
        the collection); Arrow takes it.
        """
        return Selection(self, columns, start, end)

    def batches(self, columns=None, start=None, end=None):
        """Batches one after the other; memory is that of one of them."""
        stream = self._stream(columns, start, end)
        try:
            while True:
                schema, array = _Schema(), _Array()
                if stream.get_schema(ctypes.byref(stream), ctypes.byref(schema)):
                    raise Error(_text(stream.get_last_error(ctypes.byref(stream))))
                if stream.get_next(ctypes.byref(stream), ctypes.byref(array)):
                    schema.release(ctypes.byref(schema))
                    raise Error(_text(stream.get_last_error(ctypes.byref(stream))))
                if not array.release:
                    schema.release(ctypes.byref(schema))
                    return
                yield Batch(array, schema)
        finally:
            stream.release(ctypes.byref(stream))

    def to_lists(self, columns=None, start=None, end=None):
        """Everything as lists by name, with None for null: for small tables and no dependencies."""
        out = {c: [] for c in (columns if columns is not None else self.columns)}
        for batch in self.batches(columns, start, end):
            for c in out:
                values = batch[c]
                out[c] += (
                    values
                    if not batch.nulls(c) or isinstance(values, list)
                    else [v if batch.valid(c, i) else None for i, v in enumerate(values)]
                )
        return out

    def to_numpy(self, columns=None, start=None, end=None):
        """By name, a list of arrays, one a batch, which share memory with it; texts are arrays of
        their numbers.
        """
        import numpy

        out = {c: [] for c in (columns if columns is not None else self.columns)}
        for batch in self.batches(columns, start, end):
            for c in out:
                out[c].append(
                    numpy.frombuffer(
                        batch.values(c),
                        dtype={"q": "i8", "Q": "u8", "d": "f8"}[batch.values(c).format],
                    )
                )
        return out

    def to_arrow(self, columns=None, start=None, end=None):
        import pyarrow

        return pyarrow.RecordBatchReader.from_stream(self.select(columns, start, end)).read_all()

    def to_pandas(self, columns=None, start=None, end=None):
        """A DataFrame: through pyarrow where that is there, else column by column, texts as
        categories.
        """
        import pandas

        try:
            import pyarrow  # noqa: F401
        except ImportError:
            return self._to_pandas_alone(pandas, columns, start, end)
        return self.to_arrow(columns, start, end).to_pandas()

    def _to_pandas_alone(self, pandas, columns, start, end):
        """Numbers with nulls have pandas' nullable types (Int64, UInt64), so that none is made a
        float; one batch is taken without a copy.
        """
        import numpy

        frame, kinds = {}, self.columns
        batches = list(self.batches(columns, start, end))
        for c in columns if columns is not None else kinds:
            parts = [
                numpy.frombuffer(v, dtype={"q": "i8", "Q": "u8", "d": "f8"}[v.format])
                for v in (b.values(c) for b in batches)
            ]
            empty = numpy.empty(
                0, {"time": "i8", "signed": "i8", "real": "f8"}.get(kinds[c][0], "u8")
            )
            values = parts[0] if len(parts) == 1 else numpy.concatenate(parts) if parts else empty
            if kinds[c][0] != "string":
                nulls = any(b.nulls(c) for b in batches)
                mask = (
                    numpy.concatenate([b._null_mask(numpy, c) for b in batches]) if nulls else None
                )
                if not nulls:
                    frame[c] = values
                elif values.dtype.kind == "f":
                    frame[c] = numpy.where(mask, numpy.nan, values)
                else:
                    frame[c] = pandas.arrays.IntegerArray(values, mask)
                continue
            used, codes = numpy.unique(values, return_inverse=True)
            texts = [batches[0]._dictionary_text(c, int(n)) for n in used]
            frame[c] = pandas.Series(numpy.array(texts, dtype=object)[codes]).astype("category")
        return pandas.DataFrame(frame, copy=False)

    def __arrow_c_stream__(self, requested_schema=None):
        return _capsule(self._stream(), b"arrow_array_stream")


class Selection:
    """Some of a table, for whatever takes __arrow_c_stream__."""

    def __init__(self, table, columns, start, end):
        self._args = (columns, start, end)
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return _capsule(self._table._stream(*self._args), b"arrow_array_stream")


class Report:
    """An open report: a mapping from names of tables to tables. Closed by `with`, close() or when
    nothing refers to it.
    """

    def __init__(self, path):
        self._pointer = _lib().warpsight_open(os.fsencode(path))
        if not self._pointer:
            raise Error(_text(_lib().warpsight_error()))
        self.path = os.fspath(path)

    def _handle(self):
        if not self._pointer:
            raise Error("the report %s is closed" % self.path)
        return self._pointer

    def close(self):
        """Streams, batches and views that are in use stay good."""
        if getattr(self, "_pointer", None):
            _lib().warpsight_close(self._pointer)
            self._pointer = None

    __del__ = close

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def time_zero(self):
        """Start of the collection on the clock of the session: tables count times from here."""
        return _lib().warpsight_time_zero(self._handle())

    @property
    def duration(self):
        return _lib().warpsight_time_last(self._handle()) - self.time_zero

    @property
    def complete(self):
        return bool(_lib().warpsight_complete(self._handle()))

    @property
    def damage(self):
        out, i = [], 0
        while True:
            sentence = _lib().warpsight_damage(self._handle(), i)
            if sentence is None:
                return out
            out.append(_text(sentence))
            i += 1

    def fact(self, name):
        return _text(_lib().warpsight_fact(self._handle(), name.encode()))

    def string(self, number):
        n = ctypes.c_size_t()
        p = _lib().warpsight_string(self._handle(), number, ctypes.byref(n))
        return ctypes.string_at(p, n.value).decode("utf-8", "replace")

    def keys(self):
        out, i = [], 0
        while True:
            name = _lib().warpsight_table(i)
            if name is None:
                return out
            out.append(_text(name))
            i += 1

    def __iter__(self):
        return iter(self.keys())

    def __contains__(self, name):
        return isinstance(name, str) and _lib().warpsight_table_doc(name.encode()) is not None

    def __getitem__(self, name):
        if name not in self:
            raise KeyError("there is no table %r" % (name,))
        return Table(self, name)


def open(path):  # noqa: A001 - warpsight.open("x.wsrep") reads best
    return Report(path)
