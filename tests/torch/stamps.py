# SPDX-License-Identifier: Apache-2.0
"""What a training script writes down of its own phases, by its own clock."""
import resource
import time

import torch
from torch.autograd import profiler


def enter(self):
    self.record = torch.ops.profiler._record_function_enter_new(self.name, self.args)
    return self


def leave(self, *_):
    torch.ops.profiler._record_function_exit._RecordFunction(self.record)


def ranges_enter_as_since_2_0():
    """PyTorch 1.13's record_function calls an older function than 2.0 to 2.11 do; from here on it enters ranges as
    those do, in the same places."""
    if torch.__version__.startswith("1."):
        profiler.record_function.__enter__ = enter
        profiler.record_function.__exit__ = leave


def preemptions():
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


class Stamps:
    """Phases of a step; where the thread lost its CPU in one, the stamp may be late by as long as that took."""

    def __init__(self, rank):
        self.rank = rank
        self.now()
        self.step_ns = self.ns
        self.ns_of, self.preempted = {}, {}

    def now(self):
        """Preemptions are read on both sides of the clock: one right beside the stamp spoils both phases."""
        self.before = preemptions()
        self.ns = time.monotonic_ns()
        self.behind = preemptions()

    def take(self, phase):
        """What passed since the last stamp was `phase`; None: in none."""
        before, preempted = self.ns, self.before
        self.now()
        if phase:
            self.ns_of[phase] = self.ns_of.get(phase, 0) + self.ns - before
            self.preempted[phase] = self.preempted.get(phase, False) or self.behind > preempted

    def line(self, kind):
        return {"rank": self.rank, "kind": kind, "begin_ns": self.step_ns, "end_ns": self.ns, "phases": self.ns_of,
                "preempted": self.preempted}
