# SPDX-License-Identifier: Apache-2.0
"""What a training script writes down of its own phases, by its own clock."""
import gc
import resource
import time

import torch
from torch.autograd import profiler


def enter(self):
    self.record = torch.ops.profiler._record_function_enter_new(self.name, self.args)
    return self


def leave(self, *_):
    torch.ops.profiler._record_function_exit._RecordFunction(self.record)
    Stamps.left = switches()


def ranges_enter_as_since_2_0():
    """PyTorch 1.13's record_function calls an older function than 2.0 to 2.11 do; from here on it enters ranges as
    those do, in the same places."""
    if torch.__version__.startswith("1."):
        profiler.record_function.__enter__ = enter
        profiler.record_function.__exit__ = leave


def switches():
    """How often this thread lost its CPU, how often it gave it up."""
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    return usage.ru_nivcsw, usage.ru_nvcsw


class Collections:
    """What this process' collections of garbage took, by the interpreter's own callbacks."""
    ns = begin_ns = 0
    spans = []  # (begin, end) of each since they were last written down

    @classmethod
    def note(cls, what, _):
        now = time.monotonic_ns()
        if what == "start":
            cls.begin_ns = now
        else:
            cls.ns += now - cls.begin_ns
            cls.spans.append((cls.begin_ns, now))


gc.callbacks.append(Collections.note)


class Stamps:
    """Phases of a step, collections of garbage in none but their own; where the thread lost its CPU in one, the stamp
    may be late by as long as that took. So where it gave it up in the optimizer, which by itself waits for nothing (for
    the interpreter, which a thread of the loader had), or behind a wait for data, when the batch before is unmapped."""
    left = (0, 0)  # switches when the last range ended

    def __init__(self, rank):
        self.rank = rank
        self.now()
        self.step_ns = self.ns
        self.ns_of, self.preempted = {}, {}

    def now(self):
        """Switches are read on both sides of the clock: one right beside the stamp spoils both phases."""
        self.before = switches()
        self.ns = time.monotonic_ns()
        self.behind = switches()
        self.gc_ns = Collections.ns

    def take(self, phase):
        """What passed since the last stamp was `phase`; None: in none."""
        before, (lost, gave_up), gc_ns = self.ns, self.before, self.gc_ns
        self.now()
        gc_ns = self.gc_ns - gc_ns
        preempted = self.behind[0] > lost
        self.add("gc", gc_ns, gc_ns and preempted)
        if phase:
            preempted |= phase == "optimizer" and self.behind[1] > gave_up
            preempted |= phase == "data_wait" and self.behind[1] > Stamps.left[1]
            self.add(phase, self.ns - before - gc_ns, preempted)

    def add(self, phase, ns, preempted):
        self.ns_of[phase] = self.ns_of.get(phase, 0) + ns
        self.preempted[phase] = bool(self.preempted.get(phase, False) or preempted)

    def line(self, kind):
        """collections: of whenever, each in one line."""
        spans, Collections.spans = Collections.spans, []
        return {"rank": self.rank, "kind": kind, "begin_ns": self.step_ns, "end_ns": self.ns, "phases": self.ns_of,
                "preempted": self.preempted, "collections": spans}
