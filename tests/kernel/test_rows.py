"""Kernel results in a report: test_rows.py WARPSIGHT WRITE_ROWS FOLDER"""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap

WRITE_ROWS, FOLDER = (os.path.abspath(path) for path in sys.argv[2:4])


def write(path):
    with open(os.path.join(FOLDER, "results.rows")) as rows:
        subprocess.run([WRITE_ROWS, path], stdin=rows, check=True)


@tap.test
def rows_are_read_back_as_they_were_written():
    write("r.wsrep")
    out = tap.run(
        "query",
        "--format",
        "json",
        "r.wsrep",
        "SELECT k.id, s.value AS name, k.gridX, k.passes, m.value, k.error "
        "FROM WARPSIGHT_KERNEL_RESULT k JOIN StringIds s ON s.id = k.shortName "
        "LEFT JOIN WARPSIGHT_KERNEL_METRIC m "
        "ON m.resultId = k.id AND m.name = 'gpu__time_duration.sum' ORDER BY k.id",
    )
    rows = json.loads(out.out)
    assert rows == [
        {"id": 0, "name": "scale", "gridX": 4096, "passes": 9, "value": 12320.0, "error": None},
        {
            "id": 1,
            "name": "scale",
            "gridX": 64,
            "passes": 0,
            "value": None,
            "error": "counters are for administrators only: ERR_NVGPUCTRPERM",
        },
    ], rows


sys.exit(tap.main())
