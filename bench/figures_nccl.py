"""figures_nccl.py - how true what a report says of NCCL's collectives is: bytes and bus bandwidth,
beside what the program itself counted and timed. Measured on machines with two NVIDIA GPUs and
PyTorch only."""
import importlib.util
import json
import os
import subprocess
import sys

from run import HERE, Row, figure

RANKS = 2
WORK = [
    *[sys.executable, "-m", "torch.distributed.run", "--standalone"],
    *["--nproc-per-node=%d" % RANKS, os.path.join(HERE, "nccl_work.py")],
]
OPTIONS = ["-q", "-f", "-t", "cuda,nccl", "-s", "none", "--system-metrics=none", "--no-findings"]
LACKING = """
SELECT count(*) FROM WARPSIGHT_COLLECTIVE c
WHERE c.bytes IS NULL OR c.groupNameId IS NULL OR c.correlationId IS NULL OR NOT EXISTS (
    SELECT 1 FROM CUPTI_ACTIVITY_KIND_KERNEL k
    WHERE k.correlationId = c.correlationId AND k.globalPid = c.globalPid)"""
TOTALS = """
SELECT c.globalPid >> 24 & 16777215, n.value, count(*), sum(c.bytes) FROM WARPSIGHT_COLLECTIVE c
JOIN StringIds n ON n.id = c.nameId GROUP BY 1, 2"""


def has_gpus():
    if importlib.util.find_spec("torch"):
        import torch

        if torch.cuda.device_count() >= RANKS:
            return True
    print("bench: not measured: this needs two NVIDIA GPUs and PyTorch", file=sys.stderr)
    return False


def record(b, what):
    """Run the work recorded; what its ranks wrote, and the report."""
    report, out = b.path(what + ".wsrep"), b.path(what)
    command = [b.warpsight, "profile", *OPTIONS, "-o", report, *WORK, what, out]
    p = subprocess.run(command, env=b.env, cwd=b.dir, capture_output=True, text=True)
    if p.returncode:
        raise RuntimeError("%s: %s" % (what, p.stderr[-500:]))
    ranks = []
    for rank in range(RANKS):
        with open("%s.%d" % (out, rank)) as f:
            ranks.append(json.load(f))
    return ranks, report


def ask(b, report, *words):
    command = [b.warpsight, words[0], "-q", "-f", "json", *words[1:], report]
    if words[0] == "query":
        command = [b.warpsight, "query", "-f", "json", report, words[1]]
    p = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(p.stdout)


@figure
def nccl_bandwidth(b):
    """Bus bandwidth as nccl-tests computes it, from events around the collectives in the program,
    beside that of the statistics, which have the kernels' times."""
    if not has_gpus():
        return
    ranks, report = record(b, "bandwidth")
    known = {}
    for row in ask(b, report, "stats", "-r", "nccl_sum"):
        known[row["Operation"], row["Message Bytes"], row["Rank"]] = row
    for i, row in enumerate(ranks[0]["rows"]):
        off, note = [], []
        for rank in range(RANKS):
            timed = ranks[rank]["rows"][i]["bus"]
            ours = known[row["operation"], row["message"], "rank %d" % rank]
            ours = ours["Bus Bandwidth (MB/s)"] / 1e3
            off.append(100 * abs(ours / timed - 1))
            note.append("%.1f for %.1f" % (ours, timed))
        name = "bus bandwidth of %s, %d MiB, off by" % (row["operation"], row["size"] >> 20)
        yield Row(name, "%", [], [max(off)], 3, digits=2, note=", ".join(note) + " GB/s")


@figure
def nccl_totals(b):
    """Calls and bytes of a training, as the program counted them."""
    if not has_gpus():
        return
    ranks, report = record(b, "ddp")
    lacking = list(ask(b, report, "query", LACKING)[0].values())
    name = "DDP: collectives without bytes, communicator or kernel"
    yield Row(name, "calls", [], lacking, 0, digits=0)
    rows = [list(row.values()) for row in ask(b, report, "query", TOTALS)]
    for operation in sorted(ranks[0]["calls"]):
        for rank, data in enumerate(ranks):
            mine = [row for row in rows if row[0] == data["pid"] and row[1] == operation]
            calls, total = mine[0][2:] if mine else (0, 0)
            wanted = data["bytes"][operation]
            note = "%d calls for %d, %d bytes" % (calls, data["calls"][operation], total)
            name = "DDP: bytes of %s of rank %d, off by" % (operation, rank)
            yield Row(name, "B", [], [abs(total - wanted)], 0, digits=0, note=note)
