# SPDX-License-Identifier: Apache-2.0
"""A kernel that cannot attach per process (here: told so): the job's library is mapped by another user, too, who would
pay for each probe. It gets none, which is said with the remedy, and the stopped rank is named all the same, from
outside; --shared-probes probes it; one user's own processes alone need no leave."""
import re
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import hostile
import job

ATTACHED_S = 3  # probes come one by one here
LACKS = {"RANKTRACE_KERNEL_LACKS": "uprobe-multi"}
# Said once of a library: of the process that comes first.
REFUSED = (r"(pid [0-9]+: \S*libnccl\S* gets no probes: pid {pid} of uid 65534 maps it, too|"
           r"pid {pid}: \S*libnccl\S* gets no probes: pid [0-9]+ of uid 0 maps it, too).*--shared-probes")


def refused(daemon, attacker):
    return len(re.findall(REFUSED.format(pid=attacker.process.pid), daemon.stderr()))


def case(rng, args, beside, expected):
    """How many refusals of the job's libnccl are said."""
    victim = hostile.Victim(rng, steps=2000)
    victim.wait_begun()
    attacker = hostile.python(hostile.MAP_ONE, hostile.NCCL).ready() if beside else None
    daemon = hostile.Daemon(*args, env=LACKS)
    daemon.wait(lambda line: expected or ", 0 operations" not in line)
    time.sleep(ATTACHED_S)
    took, _ = victim.stop_one(daemon)
    said = refused(daemon, attacker) if attacker else daemon.stderr().count("gets no probes")
    print(f"  {args or 'default'}, {'' if beside else 'not '}beside others: {said} refused, named after {took:.2f} s",
          flush=True)
    job.check(bool(said) == expected and said <= 1, f"{said} refusals are said\n{daemon.stderr()[-2000:]}")
    job.check("cannot filter uprobes by process" in daemon.stderr(), "the kernel is not said to be older")
    if attacker:
        job.check(attacker.process.poll() is None, "the attacker died: this test would prove nothing")
        attacker.kill()
    daemon.stop()
    pids = victim.pids()
    hostile.check_no_finding(daemon, pids - {max(pids)})
    hostile.check_gap(daemon)
    victim.end(600)


def main():
    job.need_root()
    if not job.LONG:
        job.skip("probes go in and out one by one, for minutes on a busy machine: LONG=1")
    rng, _ = job.seed()
    case(rng, ("--shared-probes",), True, False)
    case(rng, (), True, True)
    case(rng, (), False, False)


main()
