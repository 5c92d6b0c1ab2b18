# SPDX-License-Identifier: Apache-2.0
"""ranktrace watch has the ranks that a finding concerns probed, those only, and lets them go again by itself; what
comes afterwards is found without probes as before. Until the first raise there are no maps of probe tiers."""
import re
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import cost
import faults
import job
import outside
from test_watch import ours

RAISE_S = 6
IDLE_MIB = 4 + 4 * cost.numa_nodes()  # 2.3 a node are rings, 2.6 the targets; 73 MiB with the maps of all tiers


def probed(rtr):
    """(rank, what) in order, as the terminal of a replay shows it."""
    out = subprocess.run([job.RANKTRACE, "replay", "-q", rtr], capture_output=True, text=True)
    return [(int(r), w) for r, w in re.findall(r"rank (\d+) \(pid \d+\) is (probed[^\n]*)", out.stdout)]


def uprobes(s):
    return sum("uprobe" in k or "perf" in k for k in ours(s.process.pid))


def map_mib(s):
    return sum(cost.bpf_maps(s.process.pid).values()) / (1 << 20)


def members(a, comm):
    return {o["rank"] for o in job.lines(a.ops_log) if o["comm"] == comm}


def wait_probes(s, some, timeout):
    end = time.monotonic() + timeout
    while bool(uprobes(s)) != some:
        job.check(time.monotonic() < end,
                  f"{uprobes(s)} probe links after {timeout} s, {'some' if some else 'none'} expected\n{s.stderr()}")
        time.sleep(0.1)


def wait_let_go(s, timeout):
    """Each rank that was probed is probed no more, as the recording has it: links alone say nothing before a busy
    machine has put them in."""
    time.sleep(RAISE_S)  # who is raised by the last finding is by now, and in the recording
    end = time.monotonic() + timeout
    while time.monotonic() < end and set(dict(probed(s.rtr)).values()) != {"probed no more"}:
        time.sleep(0.5)
    wait_probes(s, False, 1)


def main():
    job.need_root()
    rng, _ = job.seed()
    rank, step, number = faults.draw(rng, first=130, last=150)
    second = rng.randrange(8)
    args = ["--ranks", 8, "--steps", 4000, "--step-ms", 40, "--seed", number, "--layout", "tp=2,dp=4", "--fault",
            f"hang-busy:rank={rank},step={step},sec=5", "--fault", f"stop:rank={second},step={step + 500}"]
    with autopsies.Autopsy(args) as a:
        time.sleep(3)  # a live job is old
        s = outside.Session(a, "watch", "--raise-for", RAISE_S)
        time.sleep(1)
        job.check(not uprobes(s), "probes before there was a finding")
        idle = map_mib(s)
        job.check(0 < idle <= IDLE_MIB, f"{idle:.1f} MiB of BPF maps with nothing probed, {IDLE_MIB} are allowed")
        f = s.wait(60, kind="observation", phase="open")
        job.check(f and f["ranks"] == [rank], f"rank {rank} works and is not seen to: {s.findings}\n{s.stderr()}")
        wait_probes(s, True, 20)
        print(f"  BPF maps: {idle:.1f} MiB with nothing probed, {map_mib(s):.1f} MiB with a communicator probed")
        wait_probes(s, False, RAISE_S + 40)
        print(f"  rank {rank} observed, its communicator's members probed and let go")
        h = s.wait(90, kind="hang", phase="open")
        outside.check_rank(s, h, second, "stopped")
        wait_let_go(s, RAISE_S + 40)
        job.check(s.stop() == 1, "exit code is not 1")
        concerned = members(a, f["comm"]) | members(a, h["comm"]) | {rank, second}
        reported = probed(s.rtr)
        raised = {r for r, w in reported if w.startswith("probed:")}
        job.check(raised and raised <= concerned and rank in raised, f"probed {raised}, concerned are {concerned}")
        for r in raised:
            mine = [w for x, w in reported if x == r]
            job.check(mine[0].startswith("probed: ") and mine[-1] == "probed no more", f"rank {r}: {mine}")
        ops = subprocess.run([job.RANKTRACE, "replay", "-q", "--ops", s.rtr], capture_output=True, text=True).stdout
        job.check(ops.count("\n") > 50, f"{ops.count(chr(10))} operations seen by the probes")
        check = subprocess.run(["python3", "-B", "tools/check_pftrace.py", s.trace], capture_output=True, text=True)
        job.check(check.returncode == 0, check.stdout + check.stderr)
        print(f"  probed were {sorted(raised)} of {sorted(concerned)}; then rank {second} was found stopped")


if __name__ == "__main__":
    main()
