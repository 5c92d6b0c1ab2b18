# SPDX-License-Identifier: Apache-2.0
"""A PyTorch job as users write them: DDP, or several communicators (tensor and data parallel groups). Run by torchrun.
It knows nothing of the tracer; its own log (steps, and PyTorch's flight recorder at the end) is the truth."""
import argparse
import json
import os
import pickle
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--seconds", type=float, default=0)
parser.add_argument("--width", type=int, default=2048)
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--mode", choices=["ddp", "groups"], default="ddp")
parser.add_argument("--prefix", default="/tmp/train")
parser.add_argument("--fault", default="")  # hang:rank=1,step=100,sec=20 | mismatch:rank=1,step=100
args = parser.parse_args()

rank, local_rank = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))
world = dist.get_world_size()
fault = dict(kv.split("=") for kv in args.fault.partition(":")[2].split(",") if kv)
fault_name = args.fault.partition(":")[0]
steps_log = open(f"{args.prefix}.steps.{rank}", "w", buffering=1)


def model():
    torch.manual_seed(1)
    layers = [m for _ in range(args.layers) for m in (torch.nn.Linear(args.width, args.width), torch.nn.GELU())]
    return torch.nn.Sequential(*layers).cuda()


def inject(step, tensor):
    if not fault or int(fault["rank"]) != rank or int(fault["step"]) != step:
        return tensor
    print(f"fault {args.fault} rank={rank} pid={os.getpid()} t_ns={time.monotonic_ns()}", flush=True)
    if fault_name == "hang":
        time.sleep(float(fault.get("sec", 15)))
    if fault_name == "mismatch":
        return tensor[:-8]
    return tensor


def groups():
    """Tensor-parallel pairs and data-parallel stripes, as Megatron lays them out, besides the world."""
    tp = 2 if world >= 2 else 1
    mine = {}
    for start in range(0, world, tp):
        members = list(range(start, start + tp))
        g = dist.new_group(members)
        if rank in members:
            mine["tp"] = g
    for offset in range(tp):
        members = list(range(offset, world, tp))
        g = dist.new_group(members)
        if rank in members:
            mine["dp"] = g
    return mine


net = model()
ddp = DistributedDataParallel(net, device_ids=[local_rank]) if args.mode == "ddp" else net
sub = groups() if args.mode == "groups" else {}
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
extra = torch.ones(1 << 20, device="cuda")
gathered = torch.empty(extra.numel() * world, device="cuda")
begin, step = time.monotonic(), 0
while step < args.steps if not args.seconds else time.monotonic() - begin < args.seconds:
    x = torch.randn(256, args.width, device="cuda")
    loss = ddp(x).square().mean()
    if sub:
        dist.all_reduce(extra, group=sub["tp"])
        dist.all_gather_into_tensor(gathered, extra)
    loss.backward()
    if sub:
        for p in net.parameters():
            dist.all_reduce(p.grad, group=sub["dp"])
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    dist.all_reduce(inject(step, extra))
    extra.fill_(1.0)
    loss.item()
    steps_log.write(f"{step} {time.monotonic_ns()}\n")
    step += 1
    if args.seconds:  # all ranks leave in the same step
        more = torch.tensor([time.monotonic() - begin < args.seconds], device="cuda", dtype=torch.int32)
        dist.all_reduce(more, op=dist.ReduceOp.MIN)
        if not more.item():
            break
torch.cuda.synchronize()
trace = pickle.loads(torch._C._distributed_c10d._dump_nccl_trace())
entries = [e["profiling_name"] for e in trace.get("entries", [])]
with open(f"{args.prefix}.recorder.{rank}", "w") as f:
    json.dump({n: entries.count(n) for n in sorted(set(entries))}, f)
dist.destroy_process_group()
