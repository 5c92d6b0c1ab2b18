# SPDX-License-Identifier: Apache-2.0
"""The ordinary life of a job (simjob --life) whose processes are several ranks: nothing is critical, and of each place
it is warned once."""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import lives
import shared

SECONDS = 120 if job.LONG else 12


def main():
    job.need_root()
    rng, _ = job.seed()
    for shape in shared.SHAPES:
        lives.live("record", SECONDS, rng.randrange(1 << 30), scale=0.1, step_ms=20,
                   extra=("--ranks-per-process", 4, f"--threads={shape}", "--layout", "tp=2"))


main()
