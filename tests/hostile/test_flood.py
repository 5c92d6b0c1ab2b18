# SPDX-License-Identifier: Apache-2.0
# runs alone: forks by the thousand, and judges how soon a verdict comes
"""Nobody's process maps a library of the job's kind and forks thousands of children, all targets by that: a rank of the
job that is stopped amid them is named as soon as without them, by record and by watch."""
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import hostile
import job

CHILDREN = 16500 if job.LONG else 3000
LATER_S = 0.5
CALM_STOPS = 3
CALM_S = 2  # between two stops: the job is well again


def flood(daemon):
    """The daemon has a look at the process before it forks: its children are targets from their first instruction."""
    library = hostile.fake_library(f"{hostile.place()}/libnccl.so.2", lambda name: "nccl" in name, 0)
    attacker = hostile.program("flood", library, CHILDREN).ready()
    time.sleep(2)
    attacker.process.stdin.write("x")
    attacker.process.stdin.flush()
    word = attacker.process.stdout.readline().strip()
    job.check(word == "forked", f"the attacker says {word!r}: this test would prove nothing")
    daemon.check_alive()
    return attacker


def stops_calm(victim, daemon):
    """Seconds for each kind of finding that came of some stops."""
    took = {}
    for _ in range(CALM_STOPS):
        seconds, kind = victim.stop_one(daemon)
        took[kind] = max(seconds, took.get(kind, 0))
        time.sleep(CALM_S)
    return took


def case(rng, command):
    victim = hostile.Victim(rng, steps=5000)
    victim.wait_begun()
    daemon = hostile.Daemon("--no-raise" if command == "watch" else "--tier=trace", command=command)
    daemon.wait(job.has_probes if command == "record" else lambda line: True)
    time.sleep(CALM_S)
    calm = stops_calm(victim, daemon)
    attacker = flood(daemon)
    amid, kind = victim.stop_one(daemon, calm)
    print(f"{command}: the stopped rank is named ({kind}) after {calm[kind]:.2f} s, amid {CHILDREN} children after "
          f"{amid:.2f} s")
    job.check(amid <= calm[kind] + job.bar(LATER_S), f"{amid:.2f} s amid the flood, {calm[kind]:.2f} s without")
    job.check("processes were refused" in daemon.stderr() or "no further probes" in daemon.stderr() or
              command == "watch", "the flood is not said: this test would prove nothing")
    attacker.kill()
    daemon.stop()
    pids = victim.pids()
    hostile.check_no_finding(daemon, pids - {max(pids)})
    wrong = [f for f in daemon.findings() if attacker.process.pid in f.get("pids", []) and f["kind"] != "observation"]
    job.check(not wrong, f"findings about who floods: {wrong}")
    hostile.check_gap(daemon)
    victim.end(600)


def main():
    job.need_root()
    if not job.LONG:
        job.skip("thousands of processes disturb what runs beside: LONG=1")
    rng, _ = job.seed()
    for command in ("record", "watch"):
        case(rng, command)


if __name__ == "__main__":
    main()
