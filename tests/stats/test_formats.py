"""test_formats.py WARPSIGHT MAKE_REPORT - formats with their arguments, where tables go, names of
reports, help; TAP.
"""
import fcntl, json, os, pty, sqlite3, struct, subprocess, sys, tempfile, termios

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import check_equal as check, done

WARPSIGHT, MAKE = map(os.path.abspath, sys.argv[1:3])


def run(*args):
    return subprocess.run(
        [WARPSIGHT, "stats", *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def sql(report, fmt, query):
    r = run("-q", "-f", fmt, "--sql", query, report)
    assert r.returncode == 0, r
    return r.stdout


WIDE = (
    "SELECT 1234567 AS \"Total:dur_ns\", 'a long name' AS Name, 5 AS Last UNION ALL SELECT 12,"
    " 'b', 6"
)


def on_terminal(columns, *args):
    """The lines that the command writes to a terminal of so many columns."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([WARPSIGHT, *args], stdout=follower, stderr=subprocess.PIPE)
    os.close(follower)
    text = b""
    while True:
        try:
            more = os.read(leader, 65536)
        except OSError:
            break
        if not more:
            break
        text += more
    os.close(leader)
    process.communicate()
    return text.decode().replace("\r", "").splitlines()


LONG = "SELECT 1 AS First, 'begin' || printf('%.*c', 130, 'x') || 'end' AS Name, 'short' AS More"
MANY = "SELECT " + ", ".join("1000000000000 AS number_%d" % i for i in range(9)) + ", 'a' AS Name"


def test_terminal(report):
    for columns in (40, 77, 130):
        for name, space in (("column", 2), ("table", 3)):
            lines = on_terminal(columns, "query", "-f", name, LONG, report)
            check("%s on %d columns: fits" % (name, columns), max(map(len, lines)), columns)
            row = next(line for line in lines if "begin" in line)
            check("the middle is cut", row.count("\u2026") == 1 and "xend" in row, True)
            check("others are not", "short" in row, True)
    lines = on_terminal(200, "query", LONG, report)
    check("with room, names are whole", "x" * 130 + "end" in lines[-1], True)
    lines = on_terminal(60, "query", "--wide", LONG, report)
    check("and with --wide", "x" * 130 + "end" in lines[-1], True)
    lines = on_terminal(60, "query", "-f", "column:nolimit", LONG, report)
    check("and with nolimit", "x" * 130 + "end" in lines[-1], True)
    lines = on_terminal(70, "query", MANY, report)
    check("numbers without room are left out", max(map(len, lines[:-1])) <= 70, True)
    check("those at the right", lines[0].split()[:4], ["number_%d" % i for i in range(4)])
    check("not the name", lines[0].split()[-1], "Name")
    check("which is said", "no room for number_8, number_7" in lines[-1], True)
    lines = on_terminal(70, "query", "SELECT '" + "\u7a7a" * 60 + "' AS Name", report)
    check("wide letters take two", len(lines[-1]) <= 36 and "\u2026" in lines[-1], True)
    plain = run("-q", "-f", "column", "--sql", LONG, report).stdout
    check("elsewhere a name has 100 letters", max(map(len, plain.splitlines())) > 110, True)
    plain = run("-q", "--wide", "-f", "column", "--sql", LONG, report).stdout
    check("or all", "x" * 130 + "end" in plain, True)


def test_slips(report):
    for args, hint in (
        (("-r", "osrt_smu"), "there is no report 'osrt_smu'; did you mean osrt_sum?"),
        (("-r", "cuda_api_sums:base"), "did you mean cuda_api_sum?"),
        (("-f", "colum"), "did you mean column?"),
        (("--help-reports=osrt_smu",), "did you mean osrt_sum?"),
    ):
        r = run(*args, report)
        check("%s: suggests" % args[-1], (r.returncode, hint in r.stderr), (2, True))
    r = run("-r", "frobnicate", report)
    check("nothing is near", "did you mean" in r.stderr, False)


def test_widths(report):
    lines = sql(report, "column:.:6", WIDE).splitlines()[2:]
    check(
        "a width cuts and marks",
        lines[:4],
        [
            " Total (ns)   Name   Last",
            " ----------  ------  ----",
            "  1,234,567  a lon\u2026     5",
            "         12  b          6",
        ],
    )
    lines = sql(report, "column:4:0:2", WIDE).splitlines()[2:]
    check(
        "numbers and headers too, and 0 leaves out",
        lines[:4],
        [" Tot\u2026  L\u2026", " ----  --", " 1,2\u2026   5", "   12   6"],
    )
    lines = sql(report, "table:nofmt:.:0", WIDE).splitlines()[2:]
    check(
        "in a box",
        lines[:4],
        [
            "+------------+------+",
            "| Total (ns) | Last |",
            "+------------+------+",
            "|    1234567 |    5 |",
        ],
    )
    lines = sql(report, "column:nohdr:nolimit", "SELECT '%s' AS n" % ("x" * 150)).splitlines()[2:]
    check("nolimit", lines[0], " " + "x" * 150)
    check(
        "a limit else",
        len(sql(report, "column:nohdr", "SELECT '%s' AS n" % ("x" * 150)).splitlines()[2]),
        101,
    )
    check(
        "a width may exceed it",
        sql(report, "column:nohdr:160", "SELECT '%s' AS n" % ("x" * 150)).splitlines()[2],
        " " + "x" * 150 + " " * 10,
    )
    check(
        "wide characters are not cut in half",
        sql(report, "column:nohdr:4", "SELECT '\u6f22\u5b57\u6f22' AS n").splitlines()[2],
        " \u6f22\u2026 ",
    )
    for bad in (
        "column:12345",
        "column:-1",
        "column:.5",
        "csv:10",
        "json:nohdr",
        "column:esc",
        "htable:title=x",
        "column" + ":1" * 65,
    ):
        r = run("-f", bad, report)
        check("refused: " + bad[:20], (r.returncode, "has no argument" in r.stderr), (2, True))


def test_arguments(report):
    names = "SELECT 'a' || char(9) || 'b' || char(10) || 'c\\d' AS n"
    check("tsv has blanks for tabs", sql(report, "tsv", names), "n\na b c\\d\n\n")
    check("tsv:esc marks them", sql(report, "tsv:nohdr:esc", names), "a\\tb\\nc\\\\d\n\n")
    html = sql(report, 'hdoc:title=A <b> & c:css=https://host:8080/a?x="1":nofmt', WIDE)
    check("hdoc has a title", "<title>A &lt;b&gt; &amp; c</title>" in html)
    check(
        "and a style sheet",
        '<link rel="stylesheet" href="https://host:8080/a?x=&quot;1&quot;">' in html,
    )
    check("and plain numbers", "<td>1234567</td>" in html)
    r = run("-q", "-r", "cuda_gpu_trace", "-f", "json", report)
    check(
        "what is empty is an empty text in JSON",
        {type(v) for row in json.loads(r.stdout) for v in row.values()},
        {int, str, float},
    )
    check(
        "a NULL of a query is null",
        json.loads(sql(report, "json", "SELECT NULL AS a")),
        [{"a": None}],
    )


def test_outputs(report, folder):
    base = os.path.join(folder, "o")
    r = run("-q", "-r", "cuda_gpu_kern_sum:base:nvtx-name", "-f", ".", "-o", base, report)
    check(
        "arguments are in the name of the file",
        open(base + "_cuda_gpu_kern_sum_base_nvtx-name.csv").read().startswith("Time (%)"),
    )
    run("-q", "-r", "cuda_api_sum", "--filter-nvtx", "step@*/1", "-o", base, report)
    check(
        "and the range",
        sorted(n for n in os.listdir(folder) if "nvtx=" in n),
        ["o_cuda_api_sum_nvtx=step@*-1.csv"],
    )
    r = run(
        "-q",
        "-r",
        "cuda_api_sum,cuda_gpu_sum",
        "-f",
        "csv:nohdr",
        "-o",
        "@tee %s1,@sed 's/,/;/g',%s3" % (base, base),
        report,
    )
    check("commands end at a comma", open(base + "1").read() != "" and ";" in r.stdout)
    check("the last report goes on", os.path.exists(base + "3_cuda_gpu_sum.csv"))
    r = run("-q", "-r", "cuda_api_sum", "-f", "csv,json,.", "-o", "-", report)
    check(
        "one report in three formats",
        (r.stdout.count("Time (%)"), r.stdout.count(" ** ")),
        (len(json.loads(r.stdout[r.stdout.index("[") : r.stdout.index("]") + 1])) + 2, 1),
    )


def test_names(report, folder):
    r = run("-r", "gpukernsum:base", "-f", "csv", report)
    new = run("-r", "cuda_gpu_kern_sum:base", "-f", "csv", report)
    check("an old name is the same report", r.stdout, new.stdout)
    check("said once", r.stderr.count("the report gpukernsum is called cuda_gpu_kern_sum now"), 1)
    check("not with -q", run("-q", "-r", "gpukernsum", report).stderr, "")
    run("-q", "-r", "gpukernsum", "-o", os.path.join(folder, "old"), report)
    check(
        "files keep the name that was asked for",
        os.path.exists(os.path.join(folder, "old_gpukernsum.csv")),
    )
    r = run("-r", "cuda_api_sum,dx12_pix_sum,wddm_queue_sum", "-f", "csv", report)
    check(
        "reports of Windows are skipped",
        (
            r.returncode,
            r.stdout.count("Time (%)"),
            r.stderr.count("skipped: what it shows exists on Windows alone"),
        ),
        (0, 1, 2),
    )


def test_help():
    every = run("--help-reports").stdout.split("\n\n")[0].splitlines()
    names = [line.split()[0] for line in every]
    check(
        "a line for each report",
        len(names) == len(set(names)) and all(len(line.split()) > 1 for line in every),
    )
    check(
        "all at length", all(("\n" + n) in "\n" + run("--help-reports=ALL").stdout for n in names)
    )
    out = run("--help-reports=um_sum,cuda_gpu_kern_sum").stdout
    check(
        "those named",
        [line for line in out.splitlines() if not line.startswith(" ")],
        ["cuda_gpu_kern_sum (default)", "um_sum (default)"],
    )
    check(
        "with their arguments",
        "    Argument: rows=<number>\n" in out and "    Argument: nvtx-name\n" in out,
    )
    check("one that is not there", run("--help-reports=nope").returncode, 2)
    out = run("--help-formats").stdout
    check(
        "formats",
        all(
            f in out
            for f in (
                "column[:nohdr][:nolimit][:nofmt][:<width>]...",
                "tsv[:nohdr][:esc]",
                "html[:nohdr][:nofmt][:title=<title>][:css=<address>]",
            )
        ),
    )
    check("one of them", run("--help-formats=hdoc").stdout.count("\n"), 3)
    check("one that is not", run("--help-formats", "xml").returncode, 2)


def test_sqlite(report, folder):
    path = os.path.join(folder, "between.sqlite")
    plain = run("-q", "-r", "cuda_api_sum,nvtx_sum", "-f", "csv", report).stdout
    r = run("-q", "--sqlite", path, "-r", "cuda_api_sum,nvtx_sum", "-f", "csv", report)
    check("--sqlite writes the export", (r.stdout, os.path.exists(path)), (plain, True))
    db = sqlite3.connect(path)
    db.execute("DELETE FROM NVTX_EVENTS")
    db.commit()
    db.close()
    r = run("-q", "--sqlite", path, "-r", "cuda_api_sum,nvtx_sum", "-f", "csv", report)
    check(
        "and then reads it",
        (r.returncode, r.stdout),
        (0, run("-q", "-r", "cuda_api_sum", "-f", "csv", report).stdout),
    )
    r = run(
        "-q",
        "--force-export=true",
        "--sqlite",
        path,
        "-r",
        "cuda_api_sum,nvtx_sum",
        "-f",
        "csv",
        report,
    )
    check("--force-export writes it anew", (r.stdout, r.stderr), (plain, ""))
    os.utime(path, (1, 1))
    r = run("--sqlite", path, report)
    check(
        "an old one is refused",
        (r.returncode, "is older than" in r.stderr, r.stdout),
        (1, True, ""),
    )
    r = run("--sqlite", os.path.join(folder, "x"), path)
    check(
        "so is one for an SQLite file",
        (r.returncode, "is an SQLite export itself" in r.stderr),
        (1, True),
    )


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        report = os.path.join(folder, "cuda.wsrep")
        subprocess.run([MAKE, "cuda", report], check=True)
        test_terminal(report)
        test_slips(report)
        test_widths(report)
        test_arguments(report)
        test_outputs(report, folder)
        test_names(report, folder)
        test_help()
        test_sqlite(report, folder)
    return done()


sys.exit(main())
