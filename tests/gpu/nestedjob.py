# SPDX-License-Identifier: Apache-2.0
"""A PyTorch job in three dimensions, as Megatron lays it out: --layout tp=2,dp=2,pp=2 (a rank is tensor + tp x (data +
dp x pipeline)). Column- and row-parallel layers with an all-reduce of the tensor group each way, 1F1B over --micro
micro-batches between the stages, gradients all-reduced over the data group in one buffer, their norm over the world at
the end of each step. --fault: jobfault.py, in the forward pass of a micro-batch. Its log is the truth: a line a step
(number, when it ended, how long its host took until it waits for the GPU). --gate: begins to use the GPU only once that
file is there. --spin: a file of "RANK PERCENT", read at each step: a kernel of that share of a usual step spins in that
rank's compute stream."""
import argparse
import os
import time

import torch
import torch.distributed as dist

import jobfault

parser = argparse.ArgumentParser()
parser.add_argument("--prefix", default="/tmp/nested")
parser.add_argument("--seconds", type=float, default=3600)
parser.add_argument("--layout", default="tp=2,dp=2,pp=1")
parser.add_argument("--micro", type=int, default=4)
parser.add_argument("--width", type=int, default=2048)
parser.add_argument("--layers", type=int, default=4)  # of a stage
parser.add_argument("--batch", type=int, default=512)  # of a micro-batch
parser.add_argument("--fault", default="")
parser.add_argument("--gate", default="")
parser.add_argument("--spin", default="")
args = parser.parse_args()
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
size = {k: int(v) for k, v in (kv.split("=") for kv in args.layout.split(","))}
TP, DP, PP = size["tp"], size["dp"], size["pp"]
while args.gate and not os.path.exists(args.gate):
    time.sleep(0.05)
device = int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count()
if torch.cuda.device_count() < world:  # ranks that share a GPU: to NCCL they are on hosts of their own
    os.environ.update(NCCL_HOSTID=f"host{rank}", NCCL_IB_DISABLE="1", NCCL_SOCKET_IFNAME="lo")
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=torch.device("cuda", device))
stage = rank // (TP * DP)
is_first, is_last = stage == 0, stage == PP - 1


def my_group(groups):
    """All ranks make all groups, in the same order."""
    made = {tuple(g): dist.new_group(g) for g in groups}
    return next(made[g] for g in made if rank in g)


tp_group = my_group([[t + TP * g for t in range(TP)] for g in range(world // TP)])
dp_group = my_group([[t + TP * (d + DP * p) for d in range(DP)] for p in range(PP) for t in range(TP)])


class IntoRegion(torch.autograd.Function):
    """What all ranks of the tensor group have alike: its gradient is the sum of theirs."""
    @staticmethod
    def forward(_, x):
        return x

    @staticmethod
    def backward(_, grad):
        grad = grad.contiguous()
        dist.all_reduce(grad, group=tp_group)
        return grad


class OutOfRegion(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        x = x.clone()
        dist.all_reduce(x, group=tp_group)
        return x

    @staticmethod
    def backward(_, grad):
        return grad


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(args.width, 4 * args.width // TP, bias=False)
        self.down = torch.nn.Linear(4 * args.width // TP, args.width, bias=False)

    def forward(self, x):
        return x + OutOfRegion.apply(self.down(torch.nn.functional.gelu(self.up(IntoRegion.apply(x)))))


torch.manual_seed(1 + rank % TP)
net = torch.nn.Sequential(*(Layer() for _ in range(args.layers))).cuda().bfloat16()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
SHAPE, TYPE = (args.batch, args.width), torch.bfloat16


def exchange(send=None, to=None, receive_from=None):
    """Sends and receives at once; gives what came. The host does not wait."""
    ops, came = [], None
    if send is not None:
        ops.append(dist.P2POp(dist.isend, send.contiguous(), to))
    if receive_from is not None:
        came = torch.empty(SHAPE, device="cuda", dtype=TYPE)
        ops.append(dist.P2POp(dist.irecv, came, receive_from))
    for work in dist.batch_isend_irecv(ops) if ops else ():
        work.wait()
    return came


BEFORE, AFTER = None if is_first else rank - TP * DP, None if is_last else rank + TP * DP


def activation_in(grad_out=None):
    """The next micro-batch's input, while an earlier one's gradient goes to the stage before."""
    came = exchange(None if is_first else grad_out, BEFORE, BEFORE)
    return torch.randn(*SHAPE, device="cuda", dtype=TYPE) if came is None else came.requires_grad_()


def forward(x):
    fault.strike()
    y = net(x)
    return (x, y.square().mean() / args.micro if is_last else y)


def backward(x, y, grad):
    torch.autograd.backward(y, grad)
    return x.grad


def one_forward_one_backward():
    """Megatron's schedule: a stage runs ahead by as many micro-batches as stages follow it."""
    ahead, under_way = min(PP - stage - 1, args.micro), []
    for _ in range(ahead):
        under_way.append(forward(activation_in()))
        exchange(under_way[-1][1].detach(), AFTER)
    x = activation_in() if args.micro > ahead else None
    for i in range(args.micro - ahead):
        under_way.append(forward(x))
        grad = None if is_last else exchange(under_way[-1][1].detach(), AFTER, AFTER)
        grad_x = backward(*under_way.pop(0), grad)
        if i < args.micro - ahead - 1:
            x = activation_in(grad_x)
        elif not is_first:
            exchange(grad_x, BEFORE)
    for _ in range(ahead):
        grad_x = backward(*under_way.pop(0), exchange(receive_from=AFTER))
        if not is_first:
            exchange(grad_x, BEFORE)


def reduce_gradients():
    flat = torch.cat([p.grad.flatten() for p in net.parameters()])
    dist.all_reduce(flat, group=dp_group)
    return flat


def spin(usual_ms):
    try:
        with open(args.spin, encoding="utf-8") as f:
            who, percent = map(int, f.read().split() or (-1, 0))
    except FileNotFoundError:
        return
    if who == rank:
        torch.cuda._sleep(int(usual_ms * percent / 100 * CYCLES_PER_MS))


USUAL = 40  # steps whose median is a usual step
CYCLES_PER_MS = jobfault.cycles_per_ms() if args.spin else 0
fault = jobfault.Fault(args.fault, rank)
steps_log = open(f"{args.prefix}.steps.{rank}", "w", buffering=1)
begin = time.monotonic()
step, more, times_ms = 0, True, []
while more:
    host_begin_ns = time.monotonic_ns()
    if args.spin and len(times_ms) == USUAL:
        spin(sorted(times_ms)[USUAL // 2])
    one_forward_one_backward()
    over = torch.tensor(float(time.monotonic() - begin > args.seconds), device="cuda")
    norm = torch.stack([reduce_gradients().float().norm(), over])
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    dist.all_reduce(norm)
    host_ns = time.monotonic_ns() - host_begin_ns
    more = norm[1].item() == 0
    if len(times_ms) < USUAL:
        times_ms.append((time.monotonic_ns() - host_begin_ns) / 1e6)
    steps_log.write(f"{step} {time.monotonic_ns()} {host_ns}\n")
    step += 1
dist.destroy_process_group()
