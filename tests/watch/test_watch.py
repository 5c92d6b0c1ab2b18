# SPDX-License-Identifier: Apache-2.0
# runs alone with LONG=1: it asserts what the daemon costs
"""ranktrace watch on a running job: faults are named without a probe in any process, a healthy job and its pauses are
silence, and the daemon is small. LONG=1: 100 runs, with the latencies and the cost asserted."""
import os
import statistics
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import cost
import faults
import job
import outside

LONG = bool(os.environ.get("LONG"))
RUNS = int(os.environ.get("RUNS", "100" if LONG else "3"))
NESTED = ("--layout", "tp=2,dp=2,pp=2")
# fault, class, more arguments, does the very operation count
CASES = [("stop", "stopped", (), True), ("hang", "missing_enter", (), True), ("hang", "missing_enter", NESTED, False),
         ("dstate", "host_blocked", (), True), ("dstate-mm", "host_blocked", (), False),
         ("kill", "process_dead", (), False)]
SECONDS = {"dstate": ",sec=20", "dstate-mm": ",sec=20"}


def ours(pid):
    """Links of this process: bpf_link's fdinfo in its own files, no other's."""
    kinds = []
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        try:
            with open(f"/proc/{pid}/fdinfo/{fd}") as f:
                kinds += [line.split()[1] for line in f if line.startswith("link_type:")]
        except FileNotFoundError:
            pass
    return kinds


def check_no_probe(s):
    kinds = ours(s.process.pid)
    job.check(kinds, "no BPF link at all: the session is not there")
    job.check(not any("uprobe" in k or "perf" in k for k in kinds), f"probes in tier watch: {kinds}")


def fault(rng, which):
    name, hang_class, extra, exact = CASES[which]
    rank, step, number = faults.draw(rng, first=25, last=60)
    args = ["--ranks", 8, "--steps", 2000, "--step-ms", 50, "--seed", number, "--fault",
            f"{name}:rank={rank},step={step}{SECONDS.get(name, '')}", *extra]
    with autopsies.Autopsy(args) as a:
        s = outside.Session(a, "watch", "--no-raise")
        f = s.wait(60, kind="hang", phase="open")
        outside.check_rank(s, f, rank, hang_class)
        if name != "kill":  # what the dead entered since the last sample is nobody's knowledge: the finding says so
            outside.check_lacking(a, f, rank)
        else:
            dead_at = a.wait_fault(name)
            entered = [o["seq"] for o in job.lines(a.ops_log)
                       if o["comm"] == f["comm"] and o["op"] in job.COUNTED and o["rank"] != rank]
            least = min(dead_at["seq"], max(entered))  # its peers may wait in what it entered last, and in no later one
            job.check("seq_is" in f["evidence"] and (f["comm"] != dead_at["comm"] or f["seq"] >= least),
                      f"{f}, {dead_at}, peers entered up to {max(entered)}")
        truth = a.wait_fault(name)
        if exact:
            job.check([truth[k] for k in ("comm", "op", "seq")] == [f[k] for k in ("comm", "op", "seq")],
                      f"{truth} and {f}")
        late = (f["t_ns"] - outside.first_wait_ns(a, f)) / 1e9
        print(f"  hang/{hang_class} rank {rank} {f['op']} #{f['seq']} {late:.2f} s after the first peer waited")
        check_no_probe(s)
        job.check(s.stop() == 1, "exit code is not 1")
        wrong = s.others(rank)
        job.check(not wrong, f"others are named: {wrong}")
        job.result(f"watch {name} {' '.join(extra)}".strip(), late)
        return name, late


def quiet(rng, planned, seconds=8):
    """No rank is named; what the daemon costs meanwhile is printed."""
    args = ["--ranks", 8, "--steps", 100000, "--step-ms", 50, "--seed", rng.randrange(1 << 30)]
    for what in planned:
        args += ["--fault", what]
    with autopsies.Autopsy(args) as a:
        s = outside.Session(a, "watch", *(["--no-raise"] if planned else []))  # an observation raises, rightly
        time.sleep(30 if LONG else 3)  # what it costs to begin is not what it costs to watch
        with cost.bpf_stats():
            begin, cpu, bpf = time.monotonic(), cost.cpu_s(s.process.pid), cost.bpf_run(s.process.pid)
            time.sleep(30 if LONG else seconds)
            span, ran = time.monotonic() - begin, cost.bpf_run(s.process.pid)
            share = 100 * ((cost.cpu_s(s.process.pid) - cpu).total() + ran[0] - bpf[0]) / span
        kib = cost.status_kib(s.process.pid, "VmHWM")
        job.check(ran[1] > bpf[1] and ran[2] == bpf[2],
                  f"runs of programs, of those on probes: {bpf[1:]}, then {ran[1:]}")
        check_no_probe(s)
        print(f"  {planned or 'healthy'}: {share:.2f} % of a core with BPF, {kib / 1024:.1f} MiB at most")
        code = s.stop()
        job.check(code == 0 and not s.others(None), f"exit {code}: {s.findings}")
        job.check(kib <= 40 * 1024, f"{kib} KiB resident")
        if LONG and not planned:
            job.check(share <= 0.5, f"{share:.2f} % of a core")


def main():
    job.need_root()
    rng, _ = job.seed()
    order = rng.sample(range(len(CASES)), len(CASES))
    late = [fault(rng, order[i % len(CASES)]) for i in range(RUNS)]
    # a D state is reported past 5 s, with its own finding
    fast = sorted(s for name, s in late if not name.startswith("dstate"))
    p50, p90 = statistics.median(fast), fast[int(0.9 * (len(fast) - 1) + 0.5)]
    print(f"{len(fast)} hangs without D state: p50 {p50:.2f} s, p90 {p90:.2f} s")
    job.check(not LONG or (p50 <= 3 and p90 <= 5), f"p50 {p50:.2f} s, p90 {p90:.2f} s")
    job.check(p90 <= 20, f"p90 {p90:.2f} s")
    quiet(rng, [])


if __name__ == "__main__":
    main()
