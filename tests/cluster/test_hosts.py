# SPDX-License-Identifier: Apache-2.0
"""Two and four hosts (network namespaces), an agent on each, a simulated job over TCP: what makes ranks on other hosts
slow or stops them is named by the hub. One agent has a clock that is 200 ms wrong. A rank's GPU is slower: it is a
straggler, stays one, and nothing else is; then it hangs. The agents' recordings, merged, are on one clock: every
collective ends on all ranks within the error that is said. Another job's link loses segments: one root, at that host's
address, or the path where there are two hosts, and no rank is named. Others call an operation of another size or type,
or two in another order; of two types of one size nothing hangs. Ranks are drawn. With LONG=1: it takes minutes."""
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import cluster
import job
import tcp_links

LINK_S = 60
WELL_S = 20  # a path is known by how it was
STEP_MS, SLOW_STEP, SLOW_PERCENT, HANG_STEP, OFFSET_MS = 600, 40, 60, 90, 200
CLOCK = re.compile(r"(\S+): its clock is set by ([+-][0-9.]+) ms for (\S+)'s, right to within ([0-9.]+) ms \(by")


class Recorded(cluster.Cluster):
    """Probes from the start, recordings; one of the agents has a clock that is wrong."""
    wrong = 0

    def recording(self, i):
        return f"{self.dir}/agent{i}.rtr"

    def agent_options(self, i):
        words = ["--flight=no", "--phases=no", "-o", self.recording(i)]
        return words + (["--clock-offset", str(OFFSET_MS)] if i == self.wrong else [])


def blamed(c):
    return [i for i in c.last().values() if i["kind"] in ("hang", "straggler", "mismatch") and i["ranks"]]


def probed(c):
    """All ranks have probes."""
    c.wait_owner()
    c.run("ctl", "set", "tier=trace")
    cluster.wait(lambda: f"no calls are seen\n{c.words()}",
                 lambda: all(json.loads(s)["tier"] == "trace" for s in c.run("ctl", "status", "--json").splitlines()),
                 60)


# --- a slow rank, a hang, one clock ---

def fault_begins(c, name, timeout):
    return cluster.wait(f"the fault {name} begins",
                        lambda: next((f for f in job.lines(c.faults) if f["fault"] == name), None), timeout)


def straggler(c, rank):
    fault_begins(c, "slow", 90)
    begin = time.monotonic()
    job.blame(not blamed(c), f"healthy: {c.words()}")
    f = c.wait_incident(kind="straggler", phase="open", timeout=90)
    took = time.monotonic() - begin
    job.check(f["ranks"] == [rank] and f["host"] == c.host_name(rank), f"not rank {rank}: {f}")
    job.check(not f["caused_by"] and f["evidence"]["known_from"] == "durations", f)
    truth = STEP_MS * SLOW_PERCENT / 1e5
    gap = f["evidence"]["gap_s"]
    job.check(truth / 2 < gap < truth * 1.5, f"its peers wait {truth} s for it, the finding says {gap}")
    print(f"  {c.ranks} hosts, a GPU slower by {SLOW_PERCENT} %: '{f['summary']}' after {took:.1f} s", flush=True)
    return f


def hang(c, rank, slow):
    fault_begins(c, "hang", 180)
    begin = time.monotonic()
    phases = [i["phase"] for i in c.incidents if i["id"] == slow["id"]]
    job.check("close" not in phases, f"it was slow until it slept: {phases}\n{c.words()}")
    f = c.wait_incident(kind="hang", phase="open", timeout=60)
    job.check(f["ranks"] == [rank] and not f["caused_by"], f"not rank {rank}: {f}")
    print(f"  {c.ranks} hosts, asleep: '{f['summary']}' after {time.monotonic() - begin:.1f} s", flush=True)
    time.sleep(5)
    named = {tuple(i["ranks"]) for i in blamed(c)}
    job.blame(named == {(rank,)}, f"others than rank {rank}: {named}\n{c.words()}")


def ops_of(path):
    out = subprocess.run([job.RANKTRACE, "replay", "--ops", path], capture_output=True, text=True)
    job.check(out.returncode in (0, 1), out.stderr)
    return [json.loads(line) for line in out.stdout.splitlines()]


def one_clock(c):
    """The recordings of all, merged."""
    for agent in c.agents:
        agent.end()
    merged = f"{c.dir}/all.rtr"
    done = subprocess.run([job.RANKTRACE, "replay", "--merge", *map(c.recording, range(c.ranks)), "-o", merged],
                          capture_output=True, text=True)
    job.check(done.returncode in (0, 1), done.stderr)
    clocks = {name: (float(by), to, float(error)) for name, by, to, error in CLOCK.findall(done.stderr)}
    job.check(len(clocks) == c.ranks - 1, f"{c.ranks} hosts, clocks: {done.stderr}")
    error = sum(e for _, _, e in clocks.values()) / 1e3  # of two hosts by a third: both
    for name, (by, to, within) in clocks.items():
        truth = OFFSET_MS * ((to == c.host_name(c.wrong)) - (name == c.host_name(c.wrong)))
        job.check(abs(by - truth) <= within, f"the clock of {name} differs by {truth} ms from that of {to}: {by}")
    ends, worst = {}, 0.0
    for o in ops_of(merged):
        if o["end_ns"] and not o.get("seq_from_attach"):
            ends.setdefault((o["comm"], o["op"], o["seq"]), {})[o["rank"]] = o
    whole = [list(e.values()) for e in ends.values() if len(e) == c.ranks]
    job.check(len(whole) >= 20, f"{len(whole)} collectives of {len(ends)} are seen on all")
    for ops in whole:
        first, last = min(ops, key=lambda o: o["end_ns"]), max(ops, key=lambda o: o["end_ns"])
        apart = (last["end_ns"] - first["end_ns"]) / 1e9
        known = error + (first["end_error_ns"] + last["end_error_ns"]) / 1e9
        job.check(apart <= known, f"{apart} s apart, known to {known}: {first} {last}")
        worst = max(worst, apart)
    print(f"  {c.ranks} hosts: {len(whole)} collectives end on all within {worst * 1e3:.1f} ms, clocks known to "
          f"{error * 1e3:.3f} ms", flush=True)


def slow_and_hung(hosts, rng, seed):
    rank, Recorded.wrong = rng.randrange(hosts), rng.randrange(hosts)
    faults = ("--fault", f"slow:rank={rank},step={SLOW_STEP},percent={SLOW_PERCENT}",
              "--fault", f"hang:rank={rank},step={HANG_STEP},sec=600")
    with Recorded(hosts, ("--seed", seed, "--step-ms", STEP_MS, *faults)) as c:
        probed(c)
        hang(c, rank, straggler(c, rank))
        one_clock(c)


# --- calls that do not fit ---

def calls(hosts, rng, seed, fault, more, **what):
    rank = rng.randrange(hosts)
    with Recorded(hosts, ("--seed", seed, "--step-ms", 200, "--fault", f"{fault}:{more}rank={rank},step=150")) as c:
        probed(c)
        fault_begins(c, fault, 120)
        begin = time.monotonic()
        f = c.wait_incident(phase="open", caused_by=None, timeout=60, **what)
        job.check(rank in f["ranks"], f"not rank {rank}: {f}\n{c.words()}")
        print(f"  {hosts} hosts, {fault}: '{f['summary']}' after {time.monotonic() - begin:.1f} s", flush=True)


# --- a link ---

def is_at(f, address):
    return address in (f["subject"].get("address"), *f["subject"].get("addresses", ()))


def link(c, host, fault):
    time.sleep(WELL_S)
    job.blame(not [i for i in c.incidents if i["kind"] == "link" or i["ranks"]], f"healthy: {c.incidents}")
    begin = time.monotonic()
    c.hosts.link(host, **fault)
    f = c.wait_incident(kind="link", phase="open", caused_by=None, timeout=LINK_S)
    took, address = time.monotonic() - begin, c.hosts.address(host)
    time.sleep(5)
    job.check(is_at(f, address) and (c.ranks == 2 or f["subject"]["type"] == "port"), f"not {address}: {f}")
    roots = {i["id"] for i in c.last().values() if i["kind"] == "link" and not i["caused_by"]}
    job.check(roots == {f["id"]}, f"not one root: {c.words()}")
    job.blame(not blamed(c), f"a link, and a rank is named: {c.words()}")
    print(f"  {c.ranks} hosts, {fault} at {address}: '{f['summary']}' after {took:.1f} s", flush=True)


def lossy(hosts, rng, seed):
    step_ms, slice_bytes, _ = tcp_links.SHAPES["long"]
    os.environ["SIM_NCCL_SLICE_BYTES"] = str(slice_bytes)
    with cluster.Cluster(hosts, ("--seed", seed, "--step-ms", step_ms)) as c:
        c.wait_owner()
        link(c, rng.randrange(hosts), tcp_links.fault_draw("loss", "long", rng))
    del os.environ["SIM_NCCL_SLICE_BYTES"]


def main():
    cluster.need()
    if not job.LONG:
        job.skip("with LONG=1: it takes minutes")
    rng, seed = job.seed()
    for hosts in [int(os.environ["HOSTS"])] if os.environ.get("HOSTS") else (2, 4):
        slow_and_hung(hosts, rng, seed)
        lossy(hosts, rng, seed)
    calls(rng.choice((2, 4)), rng, seed, "mismatch", "what=count,", kind="mismatch")
    calls(4, rng, seed, "mismatch", "what=dtype,", kind="mismatch", cause="past_calls")  # nothing waits for it
    calls(rng.choice((2, 4)), rng, seed, "deadlock", "", kind="hang", **{"class": "deadlock"})


main()
