# SPDX-License-Identifier: Apache-2.0
"""What a training script writes down of its own phases, by its own clock."""
import collections
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
    Stamps.left = usage()


def ranges_enter_as_since_2_0():
    """PyTorch 1.13's record_function calls an older function than 2.0 to 2.11 do; from here on it enters ranges as
    those do, in the same places."""
    if torch.__version__.startswith("1."):
        profiler.record_function.__enter__ = enter
        profiler.record_function.__exit__ = leave


Usage = collections.namedtuple("Usage", "lost gave_up idle_ns")
TAKEN_NS = 300_000


def usage():
    """How often this thread lost its CPU, how often it gave it up, and the time that it did not run: a virtual CPU that
    its host takes away is no switch, but neither is it this thread's time."""
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return Usage(used.ru_nivcsw, used.ru_nvcsw, time.monotonic_ns() - time.thread_time_ns())


def is_taken(begin, end):
    """Was the CPU taken from this thread between the two? By its host: only where the thread did not wait."""
    by_host = end.gave_up == begin.gave_up and end.idle_ns - begin.idle_ns > TAKEN_NS
    return end.lost > begin.lost or by_host


def is_taken_behind(begin, end):
    """The same where the thread has nothing to wait for."""
    return end.gave_up > begin.gave_up or is_taken(begin, end)


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
    left = None  # usage when the last range ended, where that is seen

    def __init__(self, rank):
        self.rank = rank
        self.now()
        self.step_ns = self.ns
        self.ns_of, self.preempted = {}, {}

    def now(self):
        """Usage is read on both sides of the clock: what is taken right beside the stamp spoils both phases."""
        self.before = usage()
        self.ns = time.monotonic_ns()
        self.behind = usage()
        self.gc_ns = Collections.ns

    def take(self, phase):
        """What passed since the last stamp was `phase`; None: in none."""
        before, begin, gc_ns = self.ns, self.before, self.gc_ns
        self.now()
        gc_ns = self.gc_ns - gc_ns
        preempted = is_taken(begin, self.behind)
        self.add("gc", gc_ns, gc_ns and preempted)
        if phase:
            preempted |= phase == "optimizer" and is_taken_behind(begin, self.behind)
            preempted |= phase == "data_wait" and self.left is not None and is_taken_behind(self.left, self.behind)
            self.add(phase, self.ns - before - gc_ns, preempted)

    def add(self, phase, ns, preempted):
        self.ns_of[phase] = self.ns_of.get(phase, 0) + ns
        self.preempted[phase] = bool(self.preempted.get(phase, False) or preempted)

    def line(self, kind):
        """collections: of whenever, each in one line."""
        spans, Collections.spans = Collections.spans, []
        return {"rank": self.rank, "kind": kind, "begin_ns": self.step_ns, "end_ns": self.ns, "phases": self.ns_of,
                "preempted": self.preempted, "collections": spans}
