"""The kernels that took most time, of a report: python3 busiest.py report1.wsrep. With pandas when
it is there, else without.
"""
import collections
import sys

import warpsight

with warpsight.open(sys.argv[1]) as report:
    kernels = report["cuda_kernel"]
    try:
        frame = kernels.to_pandas(["start", "end", "name"])
        frame["ns"] = frame["end"] - frame["start"]
        print(
            frame.groupby("name", observed=True)["ns"]
            .agg(["sum", "count"])
            .sort_values("sum", ascending=False)
            .head(10)
        )
    except ImportError:
        sums = collections.Counter()
        for batch in kernels.batches(["start", "end", "name"]):
            for i, (start, end, name) in enumerate(
                zip(batch["start"], batch["end"], batch["name"])
            ):
                if batch.valid("end", i):
                    sums[name] += end - start
        for name, ns in sums.most_common(10):
            print("%12d ns  %s" % (ns, name))
