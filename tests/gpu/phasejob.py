# SPDX-License-Identifier: Apache-2.0
"""One rank of a training job that writes down when each of its phases began and ended, as its own clock says.

phasejob.py MODE PREFIX, with RANK and so on in the environment. MODE: ddp, compile (the same, compiled, with a new
shape to compile for now and then) or fsdp2 (each layer sharded). All have two micro-batches in each 4th step, a
DataLoader with two workers, clipping, an evaluation and a checkpoint now and then, and end when PREFIX.stop exists.
Without a GPU (gloo) ddp works too, on PyTorch 1.13 through the entry of ranges that later versions have."""
import json
import os
import random
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "torch"))
import stamps

MODE, PREFIX = sys.argv[1:]
RANK = int(os.environ["RANK"])
GPU = torch.cuda.is_available()
WIDTH, BATCH, LAYERS = (1024, 64, 6) if GPU else (256, 16, 4)
ACCUMULATED, EVALUATED, SAVED, RECOMPILED = 4, 7, 25, 100  # each so-manieth step

stamps.ranges_enter_as_since_2_0()


class Samples(Dataset):
    """Some samples take long to load."""

    def __len__(self):
        return 100_000_000

    def __getitem__(self, i):
        time.sleep(0.00005 + (0.02 if i % 997 == 0 else 0))
        return torch.full((WIDTH,), i % 1000 * 1e-3), i % 10


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.head = torch.nn.Linear(WIDTH, 10)

    def forward(self, x):
        for layer in self.layers:
            x = torch.nn.functional.gelu(layer(x))
        return self.head(x)


def wrapped(net):
    if MODE == "fsdp2":
        from torch.distributed.fsdp import fully_shard
        for layer in net.layers:
            fully_shard(layer)
        return fully_shard(net)
    if MODE == "compile":
        net = torch.compile(net, dynamic=False)
    return DistributedDataParallel(net, device_ids=[device.index] if GPU else None)


def sync_set(on):
    """Gradients are reduced in the last micro-batch alone."""
    if MODE == "fsdp2":
        model.set_requires_gradient_sync(on)
    else:
        model.require_backward_grad_sync = on  # what no_sync() does


def save():
    """As a careful script does it: no reader ever sees half a file."""
    state = {k: v.to_local() if hasattr(v, "to_local") else v for k, v in model.state_dict().items()}
    path = f"{PREFIX}.checkpoint.{RANK}"
    with open(path + ".tmp", "wb") as f:
        torch.save(state, f)
        f.flush()
        os.fsync(f.fileno())
    os.rename(path + ".tmp", path)


def batch(s):
    x, y = next(batches)
    s.take("data_wait")
    x, y = x.to(device), y.to(device)
    s.take(None)
    return x, y


def evaluation():
    """One batch: no backward."""
    s = stamps.Stamps(RANK)
    x, _ = batch(s)
    model.eval()
    s.take(None)
    with torch.no_grad():
        model(x)
    s.take("forward")
    model.train()
    s.take(None)
    return s.line("evaluation")


def training(step, rng):
    s = stamps.Stamps(RANK)
    n = 2 if step % ACCUMULATED == ACCUMULATED - 1 else 1
    for micro in range(n):
        x, y = batch(s)
        if step % RECOMPILED == RECOMPILED - 1:
            x, y = x[:BATCH - step // RECOMPILED % BATCH - 1], y[:BATCH - step // RECOMPILED % BATCH - 1]
        if micro == 0:
            optimizer.zero_grad()
            s.take("optimizer")
        sync_set(micro == n - 1)
        time.sleep(rng.choice((0, 0.002)))
        s.take(None)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        s.take("forward")
        loss.backward()
        s.take("backward")
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    s.take(None)
    optimizer.step()
    s.take("optimizer")
    loss.item()
    if step % SAVED == 0 and (RANK == 0 or MODE == "fsdp2"):
        s.now()
        save()
        s.take("checkpoint")
    s.take(None)
    return s.line("training")


def goes_on():
    """False on all ranks in the same step."""
    go = torch.tensor([not os.path.exists(f"{PREFIX}.stop")], dtype=torch.int32, device=device)
    dist.all_reduce(go, op=dist.ReduceOp.MIN)
    return go.item()


def run():
    rng, step = random.Random(RANK), 0
    with open(f"{PREFIX}.steps.{RANK}", "w", buffering=1) as log:
        while goes_on():
            log.write(json.dumps(training(step, rng)) + "\n")
            if step % EVALUATED == 0:
                log.write(json.dumps(evaluation()) + "\n")
            step += 1


os.nice(-15)  # the fewer preemptions, the more can be compared
torch.set_num_threads(1)
torch.manual_seed(1)
if GPU:
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
else:
    device = torch.device("cpu")
    dist.init_process_group("gloo")
model = wrapped(Net().to(device))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
batches = iter(DataLoader(Samples(), batch_size=BATCH, num_workers=2))
run()
os._exit(0)  # the workers of the loader may take seconds to end
