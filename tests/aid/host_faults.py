# SPDX-License-Identifier: Apache-2.0
"""Faults of the host: a dataloader's D state, missing CPU, uneven work, two faults at once. See docs/findings.md."""
import collections
import subprocess

import faults
import job

STEP_MS, HOST_MS = 240, 20  # of CPU time a step
BUSY_SHARE = 0.12  # of the time that healthy ranks wait for a CPU: 0.004 to 0.1 where the machine is the test's own
DELAYED_MOST = 5  # iterations until the rank is named


def blocked_child(rng, wait, sec=8, extra=()):
    """d_state names the child under its rank; a rank that waits for it is that one's consequence, reported with it."""
    j, rank = faults.run(f"dstate-child:rank={{rank}},step={{step}},sec={sec},wait={wait}", rng, extra,
                         steps=120 if wait else 300)
    f = j.wait_finding(60, kind="d_state", phase="open")
    job.check(f, f"no d_state found: {j.findings}\n{j.stderr()}")
    truth = j.wait_fault(1, "dstate-child")
    into = (f["t_ns"] - truth["t_ns"]) / 1e9
    said = f["evidence"]
    print(f"  d_state rank {rank}, child {said.get('child_pid')} {said.get('child_name')}, {into:.2f} s into the wait, "
          f"{said.get('peers_waiting')} peers wait")
    job.check(f["ranks"] == [rank] and f["pids"] == [truth["pid"]], f"named {f['ranks']} {f['pids']}, not {truth}")
    job.check(said["child"] == 1 and said["child_pid"] == truth["pid"] and said["child_name"] == "pt_data_worker",
              f"{said}")
    job.check(5 <= into <= 6.5, f"opened {into:.2f} s into the wait, not 5 to 6.5")
    job.check("+0x" in said.get("kernel_stack", ""), f"no kernel stack: {said}")
    job.check((said["peers_waiting"] > 0) == wait, f"{said['peers_waiting']} peers wait, wait={wait}")
    h = j.wait_finding(3 if wait else 0, kind="hang", phase="open")
    if wait:
        job.check(h and h["ranks"] == [rank] and h["class"] == "host_blocked" and h["caused_by"] == f["id"],
                  f"no hang of rank {rank} caused by {f['id']}: {j.findings}")
    j.wait_finding(sec, kind="d_state", phase="close")
    job.check(j.stop() == 1, "exit code is not 1")
    job.check(wait or not any(x["kind"] == "hang" for x in j.findings), f"a hang of a rank that goes on: {j.findings}")
    faults.check_only(j, ("d_state", rank))
    j.check_replay()
    job.result(f"dstate-child:wait={wait}", into)


SECOND = {  # beside a rank that is slow: what is injected, (kind of the root finding, class) that it must give
    "dstate": ("dstate:rank={rank},step={step},sec=8", ("d_state", None)),
    "dstate-child": ("dstate-child:rank={rank},step={step},sec=8,wait=1", ("d_state", None)),
    "hang": ("hang:rank={rank},step={step}", ("hang", "missing_enter")),
    "stop": ("stop:rank={rank},step={step},sec=6", ("hang", "stopped")),
    "kill": ("kill:rank={rank},step={step}", ("hang", "process_dead")),
    "mismatch": ("mismatch:rank={rank},step={step},what=dtype", ("mismatch", None)),
    "slow": ("slow:rank={rank},step={step},percent=120", ("straggler", None)),
}


def two(rng, second):
    """A rank is slow, and some steps later a second fault strikes another: both are found, no other rank is, and they
    are reported in the order of what they cost."""
    fault, (kind, hang_class) = SECOND[second]
    slow, other = rng.sample(range(8), 2)
    step, percent = rng.randrange(8, 12), rng.choice((20, 30, 50))
    later = step + rng.randrange(9, 13)
    j = job.Job(["--ranks", 8, "--steps", 60, "--step-ms", 240, "--seed", rng.randrange(1 << 30), "--fault",
                 f"slow:rank={slow},step={step},percent={percent}", "--fault", fault.format(rank=other, step=later)],
                name="two")
    first = j.wait_finding(40, kind="straggler", phase="open")
    job.check(first and first["ranks"] == [slow], f"rank {slow} not named slow: {j.findings}\n{j.stderr()}")
    want = {"kind": kind, "ranks": [other], "phase": "open", **({"class": hang_class} if hang_class else {})}
    found = j.wait_finding(40, **want)
    job.check(found, f"no {want}: {j.findings}\n{j.stderr()}")
    j.wait_finding(12 if second in ("dstate", "dstate-child", "stop") else 2, id=found["id"], phase="close")
    job.check(j.stop() == 1, "exit code is not 1")
    print(f"  straggler rank {slow} and {kind} rank {other} ({second})")
    faults.check_only(j, ("straggler", slow), (kind, other))
    costs = [line.split() for line in j.stderr().splitlines() if line.startswith("ranktrace: cost ")]
    spent = [float(c[2]) for c in costs]
    job.check(spent == sorted(spent, reverse=True), f"not in the order of cost: {costs}")
    job.check(any(c[4].startswith("straggler") and c[6] == str(slow) for c in costs),
              f"no cost of rank {slow}: {costs}")
    j.check_replay()
    begin = next(f["t_ns"] for f in job.lines(j.fault_log) if f["rank"] == other)
    job.result(f"two:slow+{second}", (found["t_ns"] - begin) / 1e9)


def need(word):
    help_text = subprocess.run([job.RANKTRACE, "sim", "job", "--help"], capture_output=True, text=True).stdout
    if word not in help_text:
        job.skip(f"the simulated job has no fault {word}")


def late_steps(j, rank, begin_ns, end_ns):
    """Steps in which the rank made the others wait, 5 % of the step or more: by the job's own log of its calls."""
    arrivals, late = collections.defaultdict(dict), []
    for o in job.lines(j.ops_log):
        arrivals[o["comm"], o["seq"], o["op"], bool(o.get("graph"))][o["rank"]] = o["t_ns"]
    for of in arrivals.values():
        mine, others = of.get(rank), sorted(t for r, t in of.items() if r != rank)
        if mine and others and begin_ns < mine <= end_ns and mine - others[len(others) // 2] >= 0.05 * STEP_MS * 1e6:
            late.append(mine)
    late.sort()
    return [t for i, t in enumerate(late) if not i or t - late[i - 1] > 0.5 * STEP_MS * 1e6]


def starved(rng, how, extra=()):
    """The rank that gets too little CPU is the straggler, for that reason, within so many of the iterations that it
    delays. False: the healthy ranks lacked CPU, too (others use this machine), and how soon was not judged."""
    fault = f"cpu:rank={{rank}},step={{step}},how={how}" + (",n=24" if how == "hog" else ",percent=4")
    j, rank = faults.run(fault, rng, ["--step-ms", STEP_MS, "--host-ms", HOST_MS, *extra], ranks=4, steps=45)
    f = j.wait_finding(60, kind="straggler", phase="open")
    job.check(f, f"no straggler found: {j.findings}\n{j.stderr()}")
    job.check(f["ranks"] == [rank], f"named {f['ranks']} instead of [{rank}]: {f}")
    truth, said = j.wait_fault(1, "cpu"), f["evidence"]
    late = late_steps(j, rank, truth["t_ns"], f["t_ns"] - 2 * faults.SLACK_S * 1e9)
    print(f"  straggler rank {rank} ({f['cause']}), {(f['t_ns'] - truth['t_ns']) / 1e9:.2f} s after the fault, "
          f"{len(late)} "
          f"delayed steps; {said}")
    job.check(f["cause"] == "cpu_starved", f"cause {f['cause']}")
    judged = job.LONG or said["runqueue_wait_share_peers"] <= BUSY_SHARE
    job.check(not judged or len(late) <= DELAYED_MOST, f"named after {len(late)} delayed iterations")
    job.check(said["runqueue_wait_share"] > said["runqueue_wait_share_peers"], f"{said}")
    if how == "quota":
        last = j.wait_finding(15, kind="straggler", phase="close") or f
        job.check(last["evidence"].get("throttled_share", 0) > 0.1 and last["evidence"].get("quota_cores") == 0.04,
                  f"{last}")
    job.check(j.stop() == 1, "exit code is not 1")
    # the quota stays to the job's end, where no rank waits for the rank any more: then cpu_starved may name it
    faults.check_only(j, ("straggler", rank), *([("cpu_starved", rank)] if how == "quota" else []))
    j.check_replay()
    if late:
        job.result(f"cpu:{how}", (f["t_ns"] - late[0]) / 1e9)
    return judged


def starved_trials(rng, how, extra=()):
    """Until as many as asked for were judged in full; one on a machine that has no CPU for the healthy ranks either is
    drawn again."""
    judged = 0
    for _ in range(job.TRIALS + 2):
        judged += starved(rng, how, extra)
        if judged == job.TRIALS:
            return
    job.skip(f"other load on this machine: how soon was judged in {judged} of {job.TRIALS} trials")


def uneven(rng, fault, extra=()):
    """Work that is uneven without a fault names no rank (that iterations became slower may be reported: no rank's
    doing)."""
    j = job.Job(["--ranks", 8, "--steps", 60, "--seed", rng.randrange(1 << 30), "--fault", fault, *extra],
                name="uneven")
    code = j.end(240)
    named = [f for f in j.roots() if f["ranks"]]
    job.check(not named, f"named somebody: {named}\n{j.stderr()}")
    job.check(code in (0, 1), f"exit code {code}: {j.stderr()}")
    j.check_replay()
    print(f"  no rank named: {fault} {' '.join(map(str, extra))}")
