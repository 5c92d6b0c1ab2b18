# SPDX-License-Identifier: Apache-2.0
"""One rank of a DDP job over gloo that writes down when each of its phases began and ended, as its own clock says.

ddp_gloo.py LOG STEPS WORKERS SEED RANGES, with RANK and so on in the environment; RANGES: of the script's own in each
step; with more than one the optimizer takes all parameters at once, as it does on GPUs. PyTorch 1.13's record_function
calls an older function than 2.0 to 2.11 do; here it enters ranges as those do, in the same places."""
import contextlib
import gc
import json
import os
import random
import sys
import time

import torch
import torch.distributed as dist
from torch.autograd import profiler
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

import stamps

LOG, STEPS, WORKERS, SEED, RANGES = sys.argv[1], *map(int, sys.argv[2:])
RANK = int(os.environ["RANK"])
WIDTH, BATCH = 256, 16
EVERY, MICRO_BATCHES = 7, 4  # each EVERY-th step has so many micro-batches, and after the next one is an evaluation

stamps.ranges_enter_as_since_2_0()


class Samples(Dataset):
    """Some samples take long to load."""

    def __len__(self):
        return 100000

    def __getitem__(self, i):
        time.sleep(0.0002 + (0.006 if i % 67 == 0 else 0))
        return torch.full((WIDTH,), i * 1e-5), i % 10


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layers = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(4)]
        self.layers = torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 10))
        self.pause_s = 0.0
        self.collects = False

    def forward(self, x):
        time.sleep(self.pause_s)
        if self.collects:
            gc.collect()
        return self.layers(x)


def evaluation(batches, model):
    """One batch of an evaluation: no backward."""
    s = stamps.Stamps(RANK)
    x, _ = next(batches)
    s.take("data_wait")
    with torch.no_grad():
        model(x)
    s.take("forward")
    return s


def training(batches, model, optimizer, micro_batches, rng):
    s = stamps.Stamps(RANK)
    for micro in range(micro_batches):
        x, y = next(batches)
        s.take("data_wait")
        if micro == 0:
            optimizer.zero_grad()
            s.take("optimizer")
        model.module.pause_s = rng.choice((0, 0, 0.003, 0.009))
        model.module.collects = rng.random() < 0.1
        with contextlib.nullcontext() if micro == micro_batches - 1 else model.no_sync():
            loss = torch.nn.functional.cross_entropy(model(x), y)
            s.take("forward")
            loss.backward()
            s.take("backward")
    time.sleep(rng.choice((0, 0.002)))
    s.take(None)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for i in range(RANGES):
        with profiler.record_function(f"by the script: {i}"):
            pass
    s.take(None)
    optimizer.step()
    s.take("optimizer")
    return s


def main():
    rng = random.Random(SEED + RANK)
    os.setpriority(os.PRIO_PROCESS, 0, -15)  # the fewer preemptions, the more can be compared
    sys.setswitchinterval(10)  # nor does the loader's thread take the interpreter between stamp and mark
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(Net())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=RANGES > 1)
    batches = iter(DataLoader(Samples(), batch_size=BATCH, num_workers=WORKERS))
    with open(LOG, "w", buffering=1) as log:
        for step in range(STEPS):
            s = training(batches, model, optimizer, MICRO_BATCHES if step % EVERY == EVERY - 1 else 1, rng)
            s.now()
            log.write(json.dumps(s.line("training")) + "\n")
            if step % EVERY == 0:
                s = evaluation(batches, model)
                log.write(json.dumps(s.line("evaluation")) + "\n")
    dist.barrier()
    os._exit(0)  # the workers of the loader may take seconds to end


main()
