"""rows.py - what the tables of CPU samples and context switches of a report hold, read without the
program under test.

    rows.py REPORT          prints the share of samples of each function: itself, and with what it
    called
"""
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location(
    "read_report", os.path.join(HERE, "..", "store", "read_report.py")
)
read_report = importlib.util.module_from_spec(spec)
spec.loader.exec_module(read_report)

NO_TIME = 2**64 - 1
CLOCK, SIGNAL, TRUNCATED, BROKEN, KERNEL, REST = 1, 2, 4, 8, 16, 64
UNKNOWN, PREEMPTED, DEAD, BLOCKED = 0, 1, 5, 6


class Rows:
    def __init__(self, path):
        with open(path, "rb") as f:
            self.raw = read_report.Report(f.read())
        self.strings = {i: s.decode("utf-8", "replace") for i, s in self.raw.strings.items()}
        self.strings[0] = ""
        self.names = {}
        deepest = {}
        for s in self.table(
            "symbol"
        ):  # the last set written counts; the deepest is the function itself
            key = (s["set"], s["depth"])
            if s["name"] and key >= deepest.get(s["frame"], (0, 0)):
                deepest[s["frame"]] = key
                self.names[s["frame"]] = self.strings[s["name"]]
        self.frames = {f["id"]: f for f in self.table("frame")}
        self.stacks = {s["id"]: (s["parent"], s["frame"]) for s in self.table("stack")}
        self.modules = {m["id"]: self.strings[m["path"]] for m in self.table("module")}
        self.processes = {p["id"]: p for p in self.table("process")}
        self.threads = {t["id"]: t for t in self.table("thread")}

    def table(self, name):
        columns = self.raw.rows.get(name)
        if not columns:
            return []
        return [dict(zip(columns, values)) for values in zip(*columns.values())]

    def function(self, frame):
        """Name of a frame's function, or its module in brackets."""
        f = self.frames.get(frame)
        return (
            "[nothing]"
            if not f
            else self.names.get(frame) or "[%s]" % self.modules.get(f["module"], "unknown")
        )

    def stack(self, sample):
        """Functions from the innermost outwards."""
        found, at = [self.function(sample["frame"])], sample["callers"]
        while at:
            parent, frame = self.stacks[at]
            found.append(self.function(frame))
            at = parent
        return found

    def samples(self, process=None, rest=False):
        """Samples, of the processes of a name when one is given; with `rest` also what was left
        over at the ends of threads.
        """
        for s in self.table("sample"):
            if s["flags"] & REST and not rest:
                continue
            if process is None or self.process_of(s["thread"]) == process:
                yield s

    def process_of(self, thread):
        t = self.threads.get(thread)
        p = self.processes.get(t["process"]) if t else None
        return self.strings[p["name"]] if p else "?"

    def shares(self, inclusive=True, process=None):
        """{function: share of the weight of all samples}."""
        total, of = 0, {}
        for s in self.samples(process):
            total += s["weight"]
            for name in set(self.stack(s)) if inclusive else [self.stack(s)[0]]:
                of[name] = of.get(name, 0) + s["weight"]
        return {name: weight / total for name, weight in of.items()} if total else {}

    def times(self):
        """{thread: [ns on cores, ns that its rows of samples stand for]}, of the event that paces
        them.
        """
        found = {}
        for s in self.table("sched"):
            if s["end"] != NO_TIME:
                found.setdefault(s["thread"], [0, 0])[0] += s["end"] - s["start"]
        for s in self.samples(rest=True):
            found.setdefault(s["thread"], [0, 0])[1] += s["time"]
        return found

    def spans(self, thread=None):
        """Rows of sched in the order of time."""
        return sorted(
            (s for s in self.table("sched") if thread is None or s["thread"] == thread),
            key=lambda s: s["start"],
        )

    def meta(self):
        return {self.strings[m["name"]]: self.strings[m["value"]] for m in self.table("meta")}

    def diagnostics(self):
        return [self.strings[d["text"]] for d in self.table("diagnostic")]

    def thread_names(self):
        """{thread: its names in the order of time}."""
        found = {}
        for n in sorted(self.table("thread_name"), key=lambda n: n["start"]):
            found.setdefault(n["thread"], []).append(self.strings[n["name"]])
        return found

    def lost(self):
        return sum(row["events"] for row in self.table("loss"))


def main():
    rows = Rows(sys.argv[1])
    own, all_ = rows.shares(False), rows.shares(True)
    print("%d samples, %d spans on a core" % (len(rows.table("sample")), len(rows.table("sched"))))
    for name, share in sorted(all_.items(), key=lambda item: -item[1])[:30]:
        print("%6.2f %6.2f  %s" % (100 * own.get(name, 0), 100 * share, name))


if __name__ == "__main__":
    main()
