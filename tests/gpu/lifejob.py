# SPDX-License-Identifier: Apache-2.0
"""An ordinary PyTorch job with all its interruptions, run by torchrun: epochs whose data workers start anew (rank 1's
slowly), gradient accumulation, uneven sequence lengths, recompiles, imbalanced all-to-all, a pipeline's transfers,
evaluation on rank 0, a checkpoint that rank 0 saves and then waits for an object store's answer (the first one is
uploaded for long), garbage collection, and communicators that are destroyed and made anew. Nothing of it is a fault.
--fault puts one inside (jobfault.py). With fewer GPUs than ranks, ranks share one: NCCL takes them for ranks of several
hosts."""
import argparse
import gc
import os
import random
import select
import socket
import subprocess
import sys
import time

STORE = """
import socket, sys, time
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); print(s.getsockname()[1], flush=True)
while True:
    c, _ = s.accept(); upload, answer = map(float, c.recv(64).split())
    end = time.time() + upload
    c.sendall(b"go")
    while time.time() < end: c.recv(1 << 18); time.sleep(0.05)
    c.sendall(b"full")
    while c.recv(1 << 20) != b"": pass
    time.sleep(answer); c.sendall(b"stored"); c.close()
"""

parser = argparse.ArgumentParser()
parser.add_argument("--prefix", default="/tmp/life")
parser.add_argument("--seconds", type=float, default=300)
parser.add_argument("--epoch-steps", type=int, default=60)
parser.add_argument("--store-s", type=float, default=8)
parser.add_argument("--first-store-s", type=float, default=40)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--fault", default="")
args = parser.parse_args()
rank, local_rank, world = (int(os.environ[k]) for k in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import jobfault  # noqa: E402

if torch.cuda.device_count() < world:
    os.environ.update(NCCL_HOSTID=f"host{rank}", NCCL_IB_DISABLE="1", NCCL_SOCKET_IFNAME="lo")
device = torch.device("cuda", local_rank % torch.cuda.device_count())
torch.cuda.set_device(device)
fault = jobfault.Fault(args.fault, rank)
steps_log = open(f"{args.prefix}.steps.{rank}", "w", buffering=1)
life_log = open(f"{args.prefix}.life.{rank}", "w", buffering=1)
begin = time.monotonic()


def note(what):
    life_log.write(f"{time.monotonic_ns()} {what}\n")


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return args.epoch_steps * 2 + 64

    def __getitem__(self, i):
        return torch.full((32, 512), float(i % 7))


def slow_start(_):
    if rank == 1:
        time.sleep(2.5)


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(*(m for _ in range(8) for m in (torch.nn.Linear(512, 512), torch.nn.GELU()))).to(device)


def store_wait(upload_s, answer_s):
    """Bytes for as long as the store takes them, slowly; then they are out, and the answer comes late."""
    with socket.create_connection(("127.0.0.1", store_port)) as s:
        s.sendall(f"{upload_s} {answer_s}".encode())
        s.recv(2)
        s.setblocking(True)
        while upload_s and not select.select([s], [], [], 0)[0]:
            s.sendall(bytes(1 << 18))
        s.shutdown(socket.SHUT_WR)
        while s.recv(64):
            pass


def checkpoint(n):
    note("checkpoint")
    if rank == 0:
        torch.save(net.state_dict(), f"{args.prefix}.ckpt")
        store_wait(args.first_store_s if n == 0 else 0, args.store_s)
    dist.barrier()


def evaluate(seconds=5):
    note("evaluate")
    if rank == 0:
        end = time.monotonic() + seconds
        with torch.no_grad():
            while time.monotonic() < end:
                net(torch.randn(4096, 512, device=device)).sum().item()
    dist.barrier()


def train(x, sync):
    context = ddp.no_sync() if not sync else open(os.devnull)
    with context:
        ddp(x).square().mean().backward()
    if sync:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def all_to_all(draw):
    """Experts are chosen unevenly: how much each rank sends to each is drawn."""
    counts = [[draw.randrange(1, 4000) for _ in range(world)] for _ in range(world)]
    out = torch.empty(sum(counts[r][rank] for r in range(world)), device=device)
    dist.all_to_all_single(out, torch.ones(sum(counts[rank]), device=device), [counts[r][rank] for r in range(world)],
                           counts[rank])


def pipeline(draw):
    """Forward to the next, backward from it; the last stage has more to do."""
    x = torch.ones(1 << 18, device=device)
    if rank > 0:
        dist.recv(x, rank - 1)
    if rank == world - 1:
        torch.mm(torch.randn(2048, 2048, device=device), torch.randn(2048, 2048, device=device)).sum().item()
    if rank < world - 1:
        dist.send(x, rank + 1)


def recompile(n):
    note("recompile")
    compiled = torch.compile(network(), dynamic=False)
    for size in (8 + n, 16 + n):
        compiled(torch.randn(size, 512, device=device)).sum().item()


def collect():
    note("collect")
    heap = [[i] for i in range(300000)]
    for cell in heap:
        cell.append(heap)
    del heap, cell
    gc.collect()


def process_group(n):
    """Each generation has keys of its own in the store: a rank that is early would find the last one's unique id."""
    global ddp, optimizer
    dist.init_process_group("nccl", store=dist.PrefixStore(f"life{n}", rendezvous), rank=rank, world_size=world,
                            device_id=device)
    ddp = DistributedDataParallel(net, device_ids=[device.index])
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)


def epoch(n):
    """False: time is up, which all ranks learn in the same step."""
    draw = random.Random(args.seed * 1000 + n)
    note(f"epoch {n}")
    loader = torch.utils.data.DataLoader(Samples(), batch_size=2, num_workers=2, worker_init_fn=slow_start)
    for i, x in enumerate(loader):
        if i >= args.epoch_steps:
            break
        if fault.name != "kernel-forward":
            fault.strike()
        length = draw.choice((8, 16, 32)) if n % 3 == 1 else 32
        train(x.to(device)[:, :length], sync=i % 4 == 3)
        if n % 3 == 2:
            all_to_all(draw)
            pipeline(draw)
        if i % 20 == rank:
            collect()
        more = torch.tensor([time.monotonic() - begin < args.seconds], device=device, dtype=torch.int32)
        dist.all_reduce(more, op=dist.ReduceOp.MIN)
        steps_log.write(f"{n * args.epoch_steps + i} {time.monotonic_ns()}\n")
        if not more.item():
            return False
    return True


store_port = 0
if rank == 0:
    store = subprocess.Popen([sys.executable, "-c", STORE], stdout=subprocess.PIPE, text=True)
    store_port = int(store.stdout.readline())
net = network()
net.register_forward_pre_hook(lambda *_: fault.strike() if fault.name == "kernel-forward" and net.training else None)
ddp = optimizer = None
rendezvous = next(dist.rendezvous("env://"))[0]
process_group(0)
number = 0
while epoch(number):
    checkpoint(number)
    if number % 2:
        evaluate()
    if number % 3 == 0:
        recompile(number)
    if number % 4 == 3:
        note("communicators anew")
        ddp = optimizer = None
        dist.destroy_process_group()
        process_group(number)
    number += 1
note("end")
dist.destroy_process_group()
if rank == 0:
    store.kill()
