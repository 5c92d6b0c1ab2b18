# SPDX-License-Identifier: Apache-2.0
"""Two hosts, an agent on each, one of which has a clock that is 200 ms wrong: a rank is stopped, the hub asks for the
windows of both flight recorders, and `ranktrace incidents fetch` makes one stream of them. In it every collective that
both show ends on both within the error that is said. Who has no window is named, and an id that nobody knows is
refused. Then an autopsy of the job from another host, by an account that may do all, and by one that may ask for the
ranks of its own user and nothing else. The rank and the host with the wrong clock are drawn."""
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import cluster
import job

RANKS, OFFSET_MS, CALLS_S = 2, 200, 6
ACCOUNTS = f"""authorization {{ users: [
  {{ user: all, password: all }},
  {{ user: own, password: own, permissions: {{ subscribe: ["_INBOX.>"], publish: ["ranktrace.ask.u{os.getuid()}",
     "$JS.API.DIRECT.GET.RANKTRACE_FILES.ranktrace.file.u{os.getuid()}.>"] }} }},
  {{ user: other, password: other, permissions: {{ subscribe: ["_INBOX.>"], publish: ["ranktrace.ask.u4711",
     "$JS.API.DIRECT.GET.RANKTRACE_FILES.ranktrace.file.u4711.>"] }} }}
] }}
no_auth_user: all
"""
CLOCK = re.compile(r"its clock is set by ([+-][0-9.]+) ms for .*, right to within ([0-9.]+) ms \(by ([0-9]+)")


class Frozen(cluster.Cluster):
    """Its agents keep a window; one of them has a clock that is wrong."""
    wrong = 0

    def agent_options(self, i):
        words = [f"--flight={self.dir}/flight{i}", "--phases=no"]
        return words + (["--clock-offset", str(OFFSET_MS)] if i == self.wrong else [])


def fetched(c, f, wrong):
    """Where the clocks are, in seconds: their difference and its error."""
    done = c.start(c.ours("incidents", "fetch", f["id"][-8:], "-o", f"{c.dir}/f.pftrace", "-o", f"{c.dir}/f.rtr"),
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    _, said = done.communicate(timeout=90)
    job.check(done.returncode == 0, f"exit {done.returncode}: {said}\n{c.words()}")
    found = CLOCK.search(said)
    job.check(found, f"no word on the clocks: {said}\n{c.words()}")
    offset, error, n = float(found[1]) / 1e3, float(found[2]) / 1e3, int(found[3])
    first = re.search(r"for (\S+?)'s", said)[1]
    truth = OFFSET_MS / 1e3 * (1 if first == c.host_name(wrong) else -1)
    print(f"  clocks: {offset * 1e3:+.3f} ms, error {error * 1e3:.3f} ms, {n} collectives", flush=True)
    job.check(n >= 20 and abs(offset - truth) <= error, f"the clocks differ by {truth} s: {said}")
    return error


def check_ends(c, error):
    """Every collective of both hosts ends on both at once, to within the error of the clocks and those of its ends."""
    out = subprocess.run([job.RANKTRACE, "replay", "--ops", f"{c.dir}/f.rtr"], capture_output=True, text=True)
    job.check(out.returncode in (0, 1), out.stderr)
    ends, worst = {}, 0.0
    for o in map(json.loads, out.stdout.splitlines()):
        if o["end_ns"] and not o.get("seq_from_attach"):
            ends.setdefault((o["comm"], o["op"], o["seq"]), {})[o["rank"]] = o
    both = [e for e in ends.values() if len(e) == RANKS]
    job.check(len(both) >= 20, f"{len(both)} collectives of {len(ends)} are seen on both")
    for a, b in (e.values() for e in both):
        apart = abs(a["end_ns"] - b["end_ns"]) / 1e9
        known = error + (a["end_error_ns"] + b["end_error_ns"]) / 1e9
        job.check(apart <= known, f"{apart} s apart, known to {known}: {a} {b}")
        worst = max(worst, apart)
    print(f"  {len(both)} collectives end on both within {worst * 1e3:.3f} ms", flush=True)


def main():
    cluster.need()
    rng, seed = job.seed()
    rank, Frozen.wrong = rng.randrange(RANKS), rng.randrange(RANKS)
    with Frozen(RANKS, ("--seed", seed), config=ACCOUNTS) as c:
        c.wait_owner()
        c.run("ctl", "set", "tier=trace")
        cluster.wait(lambda: f"no calls are seen\n{c.words()}", lambda: tiers(c) == ["trace"] * RANKS, 40)
        time.sleep(CALLS_S)
        c.stop_rank(rank)
        f = c.wait_incident(phase="open", ranks=[rank])
        time.sleep(5)
        error = fetched(c, f, Frozen.wrong)
        check_ends(c, error)
        autopsies(c, rank)
        c.continue_rank(rank)
        c.run("incidents", "fetch", "no-such-one", "-o", f"{c.dir}/none.pftrace", code=2)
        job.check(not os.path.exists(f"{c.dir}/none.pftrace"), "a file of nothing")


def asked(c, account, *words):
    url = c.url.replace("nats://", f"nats://{account}:{account}@")
    done = c.start([job.RANKTRACE, "autopsy", "--nats", url, "--job", f"simjob-{c.sim.pid}", "--json", *words],
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, said = done.communicate(timeout=90)
    return done.returncode, [json.loads(line) for line in out.splitlines()], said


def autopsies(c, rank):
    for account, words in (("all", ()), ("own", ("--own",))):
        begin = time.monotonic()
        code, found, said = asked(c, account, *words)
        last = {i["id"]: i for i in found}.values()  # a window has also what was over before it ended
        roots = [i for i in last if i["kind"] in ("hang", "stopped") and not i["caused_by"] and i["phase"] != "close"]
        job.check(code == 1 and roots and all(i["ranks"] == [rank] for i in roots), f"{account}: {code} {found} {said}")
        job.check(roots[0]["host"] == c.host_name(rank), roots)
        print(f"  autopsy by {account}: {time.monotonic() - begin:.1f} s", flush=True)
    code, found, said = asked(c, "own")
    job.check(code == 4 and not found and "may not ask" in said, f"it asked for all: {code} {found} {said}")
    code, found, said = asked(c, "other", "--own")
    job.check(code == 4 and not found, f"root's ranks for another account: {code} {found} {said}")


def tiers(c):
    return [s["tier"] for s in map(json.loads, c.run("ctl", "status", "--json").splitlines())]


if __name__ == "__main__":
    main()
