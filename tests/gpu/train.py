# SPDX-License-Identifier: Apache-2.0
"""A PyTorch job as users write them, run by torchrun. --mode: ddp; groups (tensor and data parallel groups beside the
world); dp (gradients reduced by hand after the backward pass); hsdp (FSDP2 over shards, replicas and the world: three
communicators on 4 GPUs); graph (the whole step with its all-reduces captured into a CUDA graph); transfer (one large
all-reduce a step); small (64 all-reduces of 8 bytes a step, nothing else). --nan-check: the host looks at the gradients
before they are reduced, as Megatron does. SIGUSR1 turns PyTorch's profiler on and off. It knows nothing of the tracer;
its own log is the truth: a line a step (number, when it ended, how long its host took until it waits for the GPU), and
PyTorch's flight recorder at the end."""
import argparse
import gc
import json
import os
import pickle
import signal
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from jobfault import cycles_per_ms

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--seconds", type=float, default=0)
parser.add_argument("--width", type=int, default=2048)
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--mode", choices=["ddp", "dp", "groups", "hsdp", "graph", "transfer", "small"], default="ddp")
parser.add_argument("--prefix", default="/tmp/train")
parser.add_argument("--nan-check", action="store_true")
parser.add_argument("--host-ms", type=float, default=0)  # Python work of the host in each step
parser.add_argument("--batch", type=int, default=256)
parser.add_argument("--bf16", action="store_true")  # on the tensor cores
# hang:rank=1,step=100,sec=20 | hang-tp (before the tensor-parallel all-reduce of --mode groups) |
# mismatch:rank=1,step=100 | spin:rank=1,step=100,ms=10 | work:rank=1,at=20,percent=20 (more matrix work in each step) |
# sleep:rank=1,at=20,percent=20 (of the host, a share of the step). at: seconds from the start, in place of step;
# rank=-1: all
parser.add_argument("--fault", default="")
args = parser.parse_args()

rank, local_rank = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
device = local_rank % torch.cuda.device_count()
# ranks that share a GPU: to NCCL they are on hosts of their own
if torch.cuda.device_count() < int(os.environ["WORLD_SIZE"]):
    os.environ.update(NCCL_HOSTID=f"host{rank}", NCCL_IB_DISABLE="1", NCCL_SOCKET_IFNAME="lo")
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=torch.device("cuda", device))
world = dist.get_world_size()
fault = dict(kv.split("=") for kv in args.fault.partition(":")[2].split(",") if kv)
fault_name = args.fault.partition(":")[0]
steps_log = open(f"{args.prefix}.steps.{rank}", "w", buffering=1)


def model():
    torch.manual_seed(1)
    layers = [m for _ in range(args.layers) for m in (torch.nn.Linear(args.width, args.width), torch.nn.GELU())]
    net = torch.nn.Sequential(*layers).cuda()
    return net.bfloat16() if args.bf16 else net


def hang(point):
    if not fault_logged and fault_on(point):
        time.sleep(float(fault.get("sec", 15)))


def inject(tensor):
    hang("hang")
    return tensor[:-8] if not fault_logged and fault_on("mismatch") else tensor


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


def hsdp(net):
    """FSDP2 with shards inside pairs and replicas across them (one pair: shards only)."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    shard = 2 if world % 2 == 0 else world
    mesh = init_device_mesh("cuda", (world // shard, shard), mesh_dim_names=("replica", "shard"))
    mesh = mesh if world > shard else mesh["shard"]
    for layer in net:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(net, mesh=mesh)


fault_logged = False


def fault_on(name):
    global fault_logged
    if fault_name != name or int(fault["rank"]) not in (rank, -1):
        return False
    on = time.monotonic() - begin >= float(fault["at"]) if "at" in fault else step >= int(fault["step"])
    if on and not fault_logged:
        fault_logged = True
        print(f"fault {args.fault} rank={rank} pid={os.getpid()} t_ns={time.monotonic_ns()}", flush=True)
    return on


def spin():
    """In the forward pass. A kernel that only spins on the compute stream: this rank's GPU is slow, its host is not. Or
    more matrix work, by percent of the step's (backward is twice forward)."""
    if fault_on("spin"):
        torch.cuda._sleep(int(float(fault["ms"]) * CYCLES_PER_MS))
    if fault_on("work"):
        weight = net[0].weight
        x = torch.empty(args.batch, args.width, device="cuda", dtype=weight.dtype)
        for _ in range(max(1, round(float(fault["percent"]) / 100 * 3 * args.layers))):
            torch.mm(x, weight.detach())


def host_sleep():
    if fault_on("sleep"):
        time.sleep(float(fault["percent"]) / 100 * step_s)


def host_work():
    end = time.perf_counter() + args.host_ms / 1e3
    while time.perf_counter() < end:
        sum(range(100))


def batch():
    return torch.randn(args.batch, args.width, device="cuda", dtype=torch.bfloat16 if args.bf16 else torch.float32)


def eager_step(step):
    loss = ddp(batch()).square().mean()
    if sub:
        hang("hang-tp")
        dist.all_reduce(extra, group=sub["tp"])
    loss.backward()
    if args.nan_check and not all(torch.isfinite(p.grad.to_local() if hasattr(p.grad,
                                                                              "to_local") else p.grad).all().item()
                                  for p in list(net.parameters())[:2]):
        raise SystemExit("gradients are not finite")
    if sub or args.mode == "dp":
        for p in net.parameters():
            dist.all_reduce(p.grad, group=sub.get("dp"))
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if sub:
        dist.all_gather_into_tensor(gathered, extra)
    return loss


def transfer_step():
    """Nothing but data on their way: 1 GiB."""
    dist.all_reduce(big)
    return big[0]


def small_step():
    """Nothing but calls: what a collective costs the host."""
    for _ in range(64):
        dist.all_reduce(tiny)
    return tiny[0]


def reduced_step(x):
    loss = net(x).square().mean()
    loss.backward()
    for p in net.parameters():
        dist.all_reduce(p.grad)
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    return loss


def captured():
    """The whole step as one graph, after warm-up on a side stream as PyTorch's notes ask for."""
    x = batch()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(4):
            reduced_step(x)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = reduced_step(x)
    return graph, loss, x


net = model()
ddp = DistributedDataParallel(net,
                              device_ids=[device]) if args.mode == "ddp" else hsdp(net) if args.mode == "hsdp" else net
sub = groups() if args.mode == "groups" else {}
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, capturable=args.mode == "graph")
extra = torch.ones(1 << 20, device="cuda")
big = torch.zeros(1 << 28 if args.mode == "transfer" else 1, device="cuda")
tiny = torch.zeros(2, device="cuda")
gathered = torch.empty(extra.numel() * world, device="cuda")
CYCLES_PER_MS = cycles_per_ms() if fault_name == "spin" else 0
special = {"transfer": transfer_step, "small": small_step}
graph = captured() if args.mode == "graph" else None
if not graph:
    net.register_forward_pre_hook(lambda *_: spin())
profiler, profiler_turns = None, 0


def profiler_turn(*_):
    global profiler_turns
    profiler_turns += 1


def profiler_set():
    """On after an odd number of signals, between two steps."""
    global profiler
    if profiler and not profiler_turns % 2:
        profiler.stop()
        profiler = None
    elif not profiler and profiler_turns % 2:
        profiler = torch.profiler.profile()
        profiler.start()


signal.signal(signal.SIGUSR1, profiler_turn)
begin, step, step_s, step_begin = time.monotonic(), 0, 0.0, time.monotonic()
while step < args.steps if not args.seconds else time.monotonic() - begin < args.seconds:
    profiler_set()
    host_begin_ns = time.monotonic_ns()
    host_work()
    host_sleep()
    if graph:
        tensor = inject(extra)
        spin()
        graph[2].normal_()
        graph[0].replay()
        loss = graph[1]
        dist.all_reduce(tensor)
    else:
        loss = special[args.mode]() if args.mode in special else eager_step(step)
        dist.all_reduce(inject(extra))
    extra.fill_(1.0)
    if args.seconds:  # all ranks leave in the same step; behind the step on the GPU: it adds no wait of its own
        more = torch.full((1,), int(time.monotonic() - begin < args.seconds), device="cuda", dtype=torch.int32)
        dist.all_reduce(more, op=dist.ReduceOp.MIN)
    host_ns = time.monotonic_ns() - host_begin_ns
    loss.item()
    steps_log.write(f"{step} {time.monotonic_ns()} {host_ns}\n")
    step += 1
    step_s, step_begin = time.monotonic() - step_begin, time.monotonic()
    if args.seconds and not more.item():
        break
torch.cuda.synchronize()
trace = pickle.loads(torch._C._distributed_c10d._dump_nccl_trace())
entries = [e["profiling_name"] for e in trace.get("entries", [])]
with open(f"{args.prefix}.recorder.{rank}", "w") as f:
    json.dump({n: entries.count(n) for n in sorted(set(entries))}, f)
with open(f"{args.prefix}.graph.{rank}", "w") as f:  # the all-reduces of one launch, and the launches
    json.dump({"AllReduce": sum(1 for _ in net.parameters()), "launches": step if args.mode == "graph" else 0}, f)
graph = loss = None  # NCCL waits in the destruction for graphs that hold its collectives
gc.collect()
dist.destroy_process_group()
