"""duckdb_query.py LIBRARY - run the queries on standard input (one a line) with DuckDB's library;
prints a JSON list of rows, as texts, for each.
"""
import ctypes
import json
import sys


def main():
    d = ctypes.CDLL(sys.argv[1])
    db, con = ctypes.c_void_p(), ctypes.c_void_p()
    assert (
        d.duckdb_open(None, ctypes.byref(db)) == 0 and d.duckdb_connect(db, ctypes.byref(con)) == 0
    )
    for f in (d.duckdb_row_count, d.duckdb_column_count):
        f.restype, f.argtypes = ctypes.c_uint64, [ctypes.c_void_p]
    d.duckdb_value_varchar.restype = ctypes.c_void_p
    d.duckdb_value_varchar.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64]
    d.duckdb_result_error.restype, d.duckdb_result_error.argtypes = ctypes.c_char_p, [
        ctypes.c_void_p
    ]
    for sql in sys.stdin.read().splitlines():
        result = ctypes.create_string_buffer(128)
        if d.duckdb_query(con, sql.encode(), result):
            sys.exit("%s: %s" % (sql, d.duckdb_result_error(result)))
        rows = []
        for r in range(d.duckdb_row_count(result)):
            row = []
            for c in range(d.duckdb_column_count(result)):
                v = d.duckdb_value_varchar(result, c, r)
                row.append(ctypes.string_at(v).decode() if v else None)
            rows.append(row)
        print(json.dumps(rows))


main()
