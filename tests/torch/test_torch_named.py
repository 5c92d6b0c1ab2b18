# SPDX-License-Identifier: Apache-2.0
# runs alone: on a busy machine ranks are late for want of a CPU, and not in the phase that is slow
"""A rank whose host is slow in one phase of its steps is named with that phase; one that compiles within a forward is
an observation that says so, and no warning. The phase, the rank and the step are drawn."""
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job

job.need_root()
rng, seed = job.seed()


def wait_for(j, timeout, is_it):
    """The first finding of which that is true, in whatever state."""
    end = time.monotonic() + timeout
    with j.cond:
        while True:
            for f in j.findings:
                if is_it(f):
                    return f
            if time.monotonic() > end or j.process.poll() is not None:
                return None
            j.cond.wait(0.2)


def start(name, fault):
    return job.Job(["--seed", seed, "--ranks", 4, "--steps", 5000, "--step-ms", 40, "--torch", "--quiet", "--fault",
                    fault], name=name)


def slow_phase():
    rank, what = rng.randrange(4), rng.choice(("backward", "forward", "optimizer", "data"))
    phase = "data_wait" if what == "data" else what
    j = start("named", f"slow-host:rank={rank},what={what},ms=40,step={rng.randrange(80, 120)}")
    f = wait_for(j, 60, lambda f: f["kind"] == "straggler" and f["evidence"].get("phase"))
    # the first is about steps of which some were before the fault
    whole = wait_for(j, 20, lambda f: f["evidence"].get("phase") == phase and f["evidence"]["phase_s"] >= 0.039)
    j.kill()
    job.check(f, f"no rank is named with a phase: {j.findings} {j.stderr()}")
    job.check(f["ranks"] == [rank] and f["evidence"]["phase"] == phase, f"rank {rank}, {phase}: {f}")
    job.check(f["evidence"]["phase_percent"] >= 80, f"a phase that explains less: {f}")
    job.check(f["evidence"]["phase_s"] >= f["evidence"]["gap_s"] * 0.8, f"the phase is not the wait: {f}")
    job.check(whole, f"the phase takes 40 ms longer, which no finding says: {j.findings}")
    print(f"rank {rank}, {phase}: {f['summary']}", flush=True)


def compilation():
    rank = rng.randrange(4)
    j = start("compile", f"compile:rank={rank},sec=6,step={rng.randrange(40, 60)}")
    f = wait_for(j, 60, lambda f: f["ranks"] == [rank] and f["evidence"].get("phase"))
    j.wait_fault(60, "compile")
    j.kill()
    job.check(f and f["evidence"]["phase"] == "forward", f"rank {rank} compiles in its forward: {j.findings}")
    job.check(f["severity"] == "info", f"a compilation is no warning: {f}")
    print(f"rank {rank} compiles: {f['summary']}", flush=True)


slow_phase()
compilation()
