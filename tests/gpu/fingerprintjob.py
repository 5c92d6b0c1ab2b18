# SPDX-License-Identifier: Apache-2.0
"""Operations of NCCL that rank 0's GPU does not enter for HOLD seconds while the others' wait in them, one case after
the other, over several communicators. Rank 1 writes a line a case: name, from when to when its GPU waited (ns)."""
import os
import sys
import time

import torch
import torch.distributed as dist

HOLD_S = float(os.environ.get("HOLD_S", 3.5))
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
prefix = next(a.partition("=")[2] for a in sys.argv if a.startswith("--prefix="))
device = int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count()
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=torch.device("cuda", device))
second = dist.new_group(list(range(world)))
big = torch.zeros(64 << 20, device="cuda")
small = torch.zeros(2, device="cuda")
parts = torch.zeros(64 << 20, device="cuda")
gathered = torch.zeros(world * (4 << 20), device="cuda")


def transfer():
    """A ring of Sends and Recvs."""
    ops = [dist.P2POp(dist.isend, big, (rank + 1) % world), dist.P2POp(dist.irecv, parts, (rank - 1) % world)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()


def two_communicators():
    dist.all_reduce(big)
    with torch.cuda.stream(SIDE):
        dist.all_reduce(parts, group=second)


SIDE = torch.cuda.Stream()
CASES = {
    "AllReduce 256 MiB": lambda: dist.all_reduce(big),
    "AllReduce 8 B": lambda: dist.all_reduce(small),
    "AllGather 16 MiB a rank": lambda: dist.all_gather_into_tensor(gathered, big[:4 << 20]),
    "ReduceScatter 16 MiB a rank": lambda: dist.reduce_scatter_tensor(parts[:4 << 20], gathered),
    "AlltoAll 256 MiB": lambda: dist.all_to_all_single(parts, big),
    "Send and Recv 256 MiB": transfer,
    "two AllReduces 256 MiB at once": two_communicators,
}
with open(f"{prefix}.cases.{rank}", "w", buffering=1, encoding="utf-8") as log:
    for name, run in CASES.items():
        run()  # connections are set up
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        if rank == 0:
            time.sleep(HOLD_S)
        begin_ns = time.monotonic_ns()
        run()
        torch.cuda.synchronize()
        log.write(f"{begin_ns} {time.monotonic_ns()} {name}\n")
        time.sleep(0.3)
dist.destroy_process_group()
