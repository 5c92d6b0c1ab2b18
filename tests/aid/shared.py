# SPDX-License-Identifier: Apache-2.0
"""Simulated jobs whose processes are several ranks: 4 in two processes (or one), by a thread each or by one thread."""
import time

import autopsies
import job

RANKS = 4
SHAPES = ("each", "one")


def arguments(rng, shape, per_process=2, *more):
    return ["--ranks", RANKS, "--ranks-per-process", per_process, f"--threads={shape}",
            "--seed", rng.randrange(1 << 30), *more]


def begun(rng, shape, *more):
    """A job that goes on by itself, once every rank has called something."""
    a = autopsies.Autopsy(arguments(rng, shape, 2, "--steps", 100000, "--step-ms", 20, *more))
    while len({o["comm_rank"] for o in job.lines(a.ops_log)}) < RANKS:
        time.sleep(0.1)
    return a


def ranks_of(shape, rank):
    """Who is late when this rank's thread is: its thread may be that of others, too."""
    return [rank] if shape == "each" else [rank // 2 * 2, rank // 2 * 2 + 1]


def check_named(f, ranks, truth):
    """These ranks, by process, GPU and rank in the communicator."""
    e = f["evidence"]
    numbers = ",".join(map(str, ranks))
    several = "s" if len(ranks) > 1 else ""
    job.check(sorted(f["ranks"]) == ranks and set(f["pids"]) == {truth["pid"]}, f"named {f['ranks']}: {f}, {truth}")
    member = f"pid {truth['pid']}, GPU{several} {numbers}, rank{several} {numbers} of {RANKS} in 0x"
    job.check(e["member"].startswith(member), f"member {e['member']}, not {member}")
    return e
