# SPDX-License-Identifier: Apache-2.0
# runs beside few: judges how soon a frozen rank is named
"""A job that is suspended as a whole (SIGSTOP to all, as a scheduler sends it; a cgroup's freezer, as of a paused
container): one warning, no rank is blamed, then or when it goes on, and a rank that hangs afterwards is found as soon
as ever. One rank that is frozen alone is named, with what holds it. A tier and a way each, drawn; LONG=1: all."""
import os
import signal
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import cost
import faults
import job
import outside
import rtr

RANKS, SUSPENDED_S = 8, 12
LIMIT_S = 5 + faults.SLACK_S
FREEZERS = {"v1": ("/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED"),
            "v2": ("/sys/fs/cgroup", "cgroup.freeze", "1", "0"),
            "hybrid": ("/sys/fs/cgroup/unified", "cgroup.freeze", "1", "0")}


def write(path, text):
    with open(path, "w", encoding="ascii") as f:
        f.write(str(text))


class Freezer:
    def __init__(self, kind):
        top, self.file, self.on, self.off = FREEZERS[kind]
        self.top, self.dir = top, f"{top}/ranktrace-test-{os.getpid()}"
        os.makedirs(self.dir, exist_ok=True)

    def hold(self, pids):
        for pid in pids:
            write(f"{self.dir}/cgroup.procs", pid)
        write(f"{self.dir}/{self.file}", self.on)

    def free(self, _):
        write(f"{self.dir}/{self.file}", self.off)

    def remove(self):
        self.free(None)
        with open(f"{self.dir}/cgroup.procs", encoding="ascii") as f:
            for pid in f.read().split():
                write(f"{self.top}/cgroup.procs", pid)
        os.rmdir(self.dir)


class Signals:
    def hold(self, pids):
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)

    def free(self, pids):
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    def remove(self):
        pass


def mounted():
    """Ways to freeze here."""
    return [kind for kind, (top, *_) in FREEZERS.items()
            if os.path.ismount(top) and (kind == "v1" or os.path.exists(f"{top}/cgroup.controllers"))]


def holder(how):
    return Signals() if how == "signal" else Freezer(how)


def all_of(a):
    return [a.process.pid] + cost.children(a.process.pid)


def session(a, tier):
    return outside.Session(a, tier, "--budget=no")


def raised(s):
    """Processes that watch gave probes, by its recording so far."""
    return {pid for tracer, kind, pid, *_ in rtr.whole_records(s.rtr)
            if (tracer, kind) == (rtr.COLLECTOR, rtr.RECORD_TIER)}


def check_suspension(s, how, begin):
    """One finding, a warning, as long as it lasts; nobody is named before it, beside it, or as the job goes on."""
    opened = [f for f in s.findings[begin:] if f["phase"] == "open" and f["kind"] != "observation"
              and (f["kind"], f["severity"]) != ("slow_step", "info")]  # which other work on this host makes
    job.check(len(opened) == 1, f"{len(opened)} findings of a job that was suspended by {how}: {opened}")
    f, last = opened[0], [f for f in s.findings if f["id"] == opened[0]["id"]][-1]
    job.check((f["kind"], f["severity"], f["n_ranks"]) == ("stopped", "warning", RANKS), f"{f}")
    job.check(f["subject"]["type"] == "job" and f["cause"] == ("stopped" if how == "signal" else "frozen"), f"{f}")
    job.check(last["phase"] == "close", f"not closed when the job went on: {last}")
    return f


def suspended(rng, tier, how):
    rank, step, seed = rng.randrange(RANKS), rng.randrange(500, 600), rng.randrange(1 << 30)
    with autopsies.Autopsy(["--ranks", RANKS, "--steps", 100000, "--step-ms", 50, "--seed", seed,
                            "--fault", f"hang:rank={rank},step={step}"]) as a:
        time.sleep(4)
        s, held, pids = session(a, tier), holder(how), all_of(a)
        time.sleep(rng.uniform(8, 10))
        begin = len(s.findings)
        job.check(not [f for f in s.findings if f["severity"] != "info"], f"before: {s.findings}")
        try:
            held.hold(pids)
            time.sleep(SUSPENDED_S)
            shown = subprocess.run([job.RANKTRACE, "ps"], capture_output=True, text=True).stdout
        finally:
            held.free(pids)
            held.remove()
        time.sleep(5)
        f = check_suspension(s, how, begin)
        job.check(not raised(s), f"probes for a job that is suspended: {raised(s)}")
        word = "stopped" if how == "signal" else "frozen"
        job.check(shown.count(f" {word}") >= RANKS, f"ps shows no {RANKS} ranks as {word}:\n{shown}")
        truth = a.wait_fault("hang", 90)
        hang = s.wait_for(lambda f: f["kind"] == "hang" and f["severity"] != "info", LIMIT_S + 5)
        outside.check_rank(s, hang, rank, "missing_enter")
        late = (hang["t_ns"] - max(truth["t_ns"], outside.first_wait_ns(a, hang))) / 1e9
        job.check(late <= LIMIT_S, f"a hang after that was found after {late:.2f} s: {hang}")
        s.stop()
        print(f"  {tier}, suspended by {how}: one warning after {f['detected_after_s']:.1f} s; a rank that hung "
              f"later was named after {late:.1f} s", flush=True)


def frozen(rng, tier, how):
    seed = rng.randrange(1 << 30)
    with autopsies.Autopsy(["--ranks", RANKS, "--steps", 100000, "--step-ms", 50, "--seed", seed]) as a:
        time.sleep(4)
        s, held = session(a, tier), holder(how)
        time.sleep(rng.uniform(8, 10))
        ranks = {r["pid"]: r["rank"] for r in job.lines(a.ops_log)}
        pid = rng.choice(sorted(ranks))
        try:
            held.hold([pid])
            begin_ns = time.monotonic_ns()
            f = s.wait_for(lambda f: f["kind"] == "hang" and f["severity"] != "info", LIMIT_S + 5)
            text = subprocess.run([job.RANKTRACE, "autopsy", "--pid", str(a.process.pid)], capture_output=True,
                                  text=True).stdout
        finally:
            held.free([pid])
            held.remove()
        outside.check_rank(s, f, ranks[pid], "stopped")
        job.check(f["severity"] == "critical" and f["cause"] == "frozen", f"{f}")
        late = (f["t_ns"] - begin_ns) / 1e9
        job.check(late <= LIMIT_S, f"found after {late:.2f} s: {f}")
        job.check("its cgroup is frozen" in text, f"the autopsy does not say so:\n{text}")
        s.stop()
        job.check(not s.others(ranks[pid]), f"others: {s.others(ranks[pid])}")
        print(f"  {tier}, a rank frozen by {how}: named after {late:.1f} s", flush=True)


def main():
    job.need_root()
    rng, _ = job.seed()
    freezers, tiers = mounted(), ["record", "watch"]
    if job.LONG:
        cases = [(what, t, h) for what in (suspended, frozen) for t in tiers
                 for h in freezers + ["signal"] * (what is suspended)]
    else:
        rng.shuffle(tiers)
        cases = [(suspended, tiers[0], "signal")]
        cases += [(suspended, tiers[1], rng.choice(freezers)), (frozen, tiers[0], rng.choice(freezers))] if freezers \
            else []
    for what, tier, how in cases:
        what(rng, tier, how)
    if not freezers:
        print("no freezer is mounted here: what is frozen was not tested")


if __name__ == "__main__":
    main()
