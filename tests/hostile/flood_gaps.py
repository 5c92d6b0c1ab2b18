# SPDX-License-Identifier: Apache-2.0
"""flood_gaps.py CHILDREN COMMAND BINARY...: the longest gap of daemons of these builds beside one flood, which all of
them see at once. A build that is named twice shows by how much two of a kind differ."""
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import hostile
import job
import test_flood

CALM_S = 3
AFTER_S = 4  # thousands of processes end


def main():
    job.need_root()
    test_flood.CHILDREN, command, binaries = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    rng, _ = job.seed()
    victim = hostile.Victim(rng, steps=20000)
    victim.wait_begun()
    daemons = []
    for job.RANKTRACE in binaries:
        daemons.append(hostile.Daemon("--no-raise" if command == "watch" else "--tier=trace", command=command))
    for d in daemons:
        d.wait(job.has_probes if command == "record" else lambda line: True)
    time.sleep(CALM_S)
    attacker = test_flood.flood(daemons[0])
    time.sleep(CALM_S)
    attacker.kill()
    time.sleep(AFTER_S)
    for binary, d in zip(binaries, daemons):
        d.stop()
        print(f"{command} {binary}: {d.gap()[1]}", flush=True)
    victim.kill()


if __name__ == "__main__":
    main()
