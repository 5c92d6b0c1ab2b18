# SPDX-License-Identifier: Apache-2.0
"""Eight jobs on one host, and a rank of each hangs, a second apart: each is a finding of its own job, with the place of
its own rank. (The rounds of reading stacks are counted for each job.)"""
import contextlib
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import job
import outside

JOBS = 8
STEP_MS, APART = 60, 16  # steps
SITE_MOST_S = 8  # one job's rounds after the first four would come every 15 s


def hanging(i, rank, seed):
    return autopsies.Autopsy(["--ranks", 2, "--steps", 100000, "--step-ms", STEP_MS, "--job-id", f"many-{i}", "--port",
                              29500 + i, "--seed", seed, "--fault", f"hang:rank={rank},step={120 + APART * i},sec=300"])


def hangs(s):
    """By job: the newest line of its hang."""
    return {f["job"]: f for f in list(s.findings) if f["kind"] == "hang" and f["phase"] != "close"}


def wait(s, what, enough, timeout):
    end = time.monotonic() + timeout
    while not enough(hangs(s)):
        job.check(time.monotonic() < end, f"{what}: {hangs(s)}\n{s.stderr()}")
        time.sleep(0.1)


def main():
    job.need_root()
    rng, _ = job.seed()
    ranks = [rng.randrange(2) for _ in range(JOBS)]
    with contextlib.ExitStack() as stack:
        jobs = [stack.enter_context(hanging(i, rank, rng.randrange(1 << 30))) for i, rank in enumerate(ranks)]
        s = outside.Session(jobs[0], "watch", *(x for j in jobs[1:] for x in ("--pid", j.process.pid)))
        for j in jobs:
            j.wait_fault("hang", timeout=120)  # on a busy machine steps take longer
        wait(s, "not all jobs' hangs are reported", lambda h: len(h) == JOBS, job.bar(10))
        begin = time.monotonic()
        wait(s, "some have no call site", lambda h: all("native_frame" in f["evidence"] for f in h.values()),
             job.bar(SITE_MOST_S))
        for i, rank in enumerate(ranks):
            f = hangs(s)[f"many-{i}"]
            job.check(f["ranks"] == [rank], f"job {i}: rank {rank} hangs, named: {f}")
        print(f"  {JOBS} jobs, each with its rank; the last call site {time.monotonic() - begin:.1f} s after the last")
        s.stop()


if __name__ == "__main__":
    main()
