# SPDX-License-Identifier: Apache-2.0
"""One rank's GPU never reaches the job's next work: a kernel that does not end, on one SM or on all, or a host callback
in front of it. Late in a step all hosts enter the same operations and wait: what the GPUs do names the rank, with no
probe (watch) and with (record), and an autopsy that comes afterwards says the same. Early in a step the host waits for
its GPU and its peers for the host: the rank is named as any that does not come, and what its GPU does is the cause as
soon as it is known. Before the fault no rank is named. LONG=1: all cases, 2 to 4 ranks."""
import itertools
import os
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import gpus
import job

LONG = bool(os.environ.get("LONG"))
CAUSES = {"one-sm": "gpu_other_kernel", "all-sms": "gpu_other_kernel", "idle": "gpu_idle"}


def check(rng, tier, how, what, ranks):
    gpus.use()
    rank = rng.randrange(ranks)
    name = f"{tier}, {how}, {what}, rank {rank} of {ranks}"
    j = job.Job(["--ranks", ranks, "--steps", 4000, "--step-ms", 50, "--seed", rng.randrange(1 << 30),
                 "--fault", f"spin:rank={rank},step={rng.randrange(100, 130)},what={what},how={how}"],
                ["--tier", "watch"] if tier == "watch" else [], name="gpu-stall")
    truth = j.wait_fault(90, "spin")
    job.check(truth, f"{name}: the fault did not strike: {j.stderr()}")
    job.check(not [f for f in j.opened() if f["kind"] in ("hang", "straggler")],
              f"{name}: named before the fault: {j.findings}")
    first = f = j.wait_finding(60, kind="hang", phase="open")
    # probes see sooner that all entered than NVML shows what the GPUs do since then: that comes as an update
    job.check(f and f["ranks"] in ([[rank], []] if tier == "trace" else [[rank]]),
              f"{name}: {j.findings}\n{j.stderr()}")
    late = (f["t_ns"] - truth["t_ns"]) / 1e9
    f = j.wait_finding(30, kind="hang", **{"class": "inside_gpu"})
    job.check(f and f["ranks"] == [rank] and f["cause"] == CAUSES[what], f"{name}: {j.findings}")
    e = f["evidence"]
    print(f"  {name}: after {late:.1f} s; {f['class']}/{f['cause']} after {(f['t_ns'] - truth['t_ns']) / 1e9:.1f} s")
    states = dict(line.split(": ") for line in e["gpu_states"].split("\n"))
    job.check(states.pop(f"rank {rank}") != "waits in NCCL" and set(states.values()) == {"waits in NCCL"},
              f"{name}: {e}")
    job.check(e["sm_percent_peers"] == 18.18 and e["gpu"] == rank, f"{name}: {e}")
    j.stop()
    named = [f["ranks"] for f in j.opened() if f["kind"] in ("hang", "straggler")]
    job.check(named == [first["ranks"]], f"{name}: others named: {named}")
    j.check_replay()
    job.result(f"gpu_stall {tier} {how} {what}", late)


def check_autopsy(rng, what, ranks):
    gpus.use()
    rank = rng.randrange(ranks)
    with autopsies.Autopsy(["--ranks", ranks, "--steps", 4000, "--step-ms", 50, "--seed", rng.randrange(1 << 30),
                            "--fault", f"spin:rank={rank},step=20,what={what},how=late"]) as a:
        a.wait_fault("spin")
        a.settle()
        found = [f for f in a.run_json() if f["phase"] == "open"]
        job.check(len(found) == 1 and found[0]["ranks"] == [rank] and found[0]["class"] == "inside_gpu" and
                  found[0]["cause"] == CAUSES[what], f"autopsy, {what}, rank {rank} of {ranks}: {found}\n{a.err}")
        print(f"  autopsy, {what}, rank {rank} of {ranks}: {found[0]['cause']} in {a.wall_s:.1f} s")


def main():
    job.need_root()
    rng, _ = job.seed()
    if LONG:
        cases = list(itertools.product(("watch", "trace"), ("early", "late"), CAUSES))
    else:
        kinds = rng.sample(list(CAUSES), 3)
        cases = [("watch", "late", kinds[0]), ("trace", "late", kinds[1]),
                 ("watch", "early", rng.choice(("one-sm", "all-sms")))]
    for case in cases:
        check(rng, *case, rng.randrange(2, 5))
    check_autopsy(rng, rng.choice(list(CAUSES)), rng.randrange(2, 5))


main()
