# SPDX-License-Identifier: Apache-2.0
"""An XID in the kernel log and the hang that it leads to are one event: whichever is seen first opens as the root, and
the other carries its id. A stall that an XID of the hardware explains later becomes critical as the same finding."""
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import gpus
import job

STEP = 250  # 8 s: by then it is known who computes on which GPU
RANKS, TEXT = 4, "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def log(kmsg, rank):
    with open(kmsg, "a") as f:
        f.write(f"4,1,{time.monotonic_ns() // 1000},-;NVRM: Xid (PCI:{gpus.pci(rank)}): {TEXT}\n")


def hung(rng, kmsg, xid_first):
    rank = rng.randrange(RANKS)
    j = job.Job(["--ranks", RANKS, "--steps", 4000, "--step-ms", 30, "--seed", rng.randrange(1 << 30),
                 "--fault", f"hang:rank={rank},step={STEP},sec=60"], name="xid-hang")
    job.check(j.wait_fault(60, "hang"), f"no fault\n{j.stderr()}")
    if not xid_first:
        f = j.wait_finding(20, kind="hang", phase="open")
        job.check(f and f["severity"] == "warning", f"no stall: {j.findings}\n{j.stderr()}")
    log(kmsg, rank)
    x, h = (j.wait_finding(20, kind=k, phase="open") for k in ("xid", "hang"))
    job.check(x and h and x["ranks"] == h["ranks"] == [rank], f"of rank {rank}: {j.findings}\n{j.stderr()}")
    g = j.wait_finding(5, kind="hang", severity="critical", id=h["id"])
    job.check(g, f"the hang of a GPU that is gone is not critical: {j.findings}")
    time.sleep(1)
    j.stop()
    first, then = (x, h) if xid_first else (h, x)
    ids = {f["id"] for f in j.findings if not f["caused_by"]}
    job.check(ids == {first["id"]} and then["caused_by"] == first["id"], f"roots {ids}, first {first}, then {then}")
    job.check(then.get("explains", False) is not xid_first, f"which is the cause: {then}")
    j.check_replay()
    print(f"  rank {rank}, {first['kind']} first: the root; {then['kind']} belongs to it", flush=True)


def main():
    job.need_root()
    rng, _ = job.seed()
    kmsg = gpus.use()
    for xid_first in (True, False):
        hung(rng, kmsg, xid_first)


main()
