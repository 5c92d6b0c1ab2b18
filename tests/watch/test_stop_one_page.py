# SPDX-License-Identifier: Apache-2.0
"""A rank that is stopped in the middle of a transfer, at a moment that nobody chose: one event, one page. Of all
findings one opens that is nobody's consequence, however the stop is seen first; also of a process that is several
ranks, a thread each. LONG=1: ten of each tier."""
import os
import signal
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import job
import outside

RANKS, BEGUN_OPS = 4, 400  # of each
NET = ("--step-ms", 8, "--buckets", 12, "--net", "--sync", "step")
SHARED = ("--step-ms", 40, "--layout", "tp=2", "--ranks-per-process", 2, "--threads=each")
WARM_S = 4, 6              # then; drawn
FOUND_S, AFTER_S = 15, 4.5  # a stop of which no hang says so is reported after 3 s


def wait_begun(a, timeout=60):
    """The pid of each rank."""
    end, pids = time.monotonic() + timeout, {}
    while time.monotonic() < end:
        ops = job.lines(a.ops_log)
        pids = {o["rank"]: o["pid"] for o in ops}
        if len(pids) == RANKS and len(ops) >= RANKS * BEGUN_OPS:
            return pids
        time.sleep(0.2)
    job.fail(f"the job does not begin: {pids}")


def stopped(rng, command, sim, together=1):
    """A process, with so many ranks in it."""
    args = ["--ranks", RANKS, "--steps", 1000000, *sim, "--seed", rng.randrange(1 << 30)]
    with autopsies.Autopsy(args) as a:
        s = outside.Session(a, command, *(["--no-raise"] if command == "watch" else []))
        pids = wait_begun(a)
        time.sleep(rng.uniform(*WARM_S))
        rank = rng.randrange(RANKS)
        ranks = [r for r in range(RANKS) if r // together == rank // together]
        os.kill(pids[rank], signal.SIGSTOP)
        try:
            f = s.wait(FOUND_S, kind="hang", phase="open")
            job.check(f, f"no hang found: {s.findings}\n{s.stderr()}")
            job.check((sorted(f["ranks"]), f["class"]) == (ranks, "stopped"), f"stopped were {ranks}: {f}")
            time.sleep(AFTER_S)
            s.stop()
        finally:
            os.kill(pids[rank], signal.SIGCONT)
    first = [f for f in s.findings if f["phase"] == "open" and f["severity"] != "info" and not f["caused_by"]]
    job.check(len(first) == 1, f"{len(first)} pages for one event: {first}")
    inside = f["evidence"].get("known_from") == "proxies"
    print(f"  {command}: {ranks} {'inside' if inside else 'before'} {f['op']} #{f['seq']}, one root", flush=True)
    return inside


def main():
    job.need_root()
    rng, _ = job.seed()
    for command in ("record", "watch"):
        n = [stopped(rng, command, NET) for _ in range(10 if job.LONG else 1)]
        print(f"  {command}: {sum(n)} of {len(n)} in the middle of a transfer")
    for command in ("record", "watch") if job.LONG else ("record",):
        stopped(rng, command, SHARED, together=2)


main()
