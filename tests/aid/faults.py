# SPDX-License-Identifier: Apache-2.0
"""The fault matrix, case by case: inject, wait for the verdict, check who is named and when. See docs/findings.md."""
import job
import rtr

SLACK_S = 0.5  # a tick, the reorder window and the line's way to us


def draw(rng, ranks=8, first=8, last=16):
    return rng.randrange(ranks), rng.randrange(first, last), rng.randrange(1 << 30)


def run(fault, rng, extra=(), ranks=8, steps=400, record=()):
    rank, step, number = draw(rng, ranks)
    args = ["--ranks", ranks, "--steps", steps, "--seed", number, "--fault", fault.format(rank=rank, step=step), *extra]
    return job.Job(args, record, name=fault.split(":")[0]), rank


def first_wait_ns(j, finding):
    """When the first peer entered the operation that the culprit lacks: by the job's own log."""
    ops = [o for o in job.lines(j.ops_log) if o["comm"] == finding["comm"] and o["op"] == finding["op"]
           and o["seq"] == finding["seq"]]
    job.check(ops, f"nobody entered {finding['op']} #{finding['seq']} of {finding['comm']}")
    return min(o["t_ns"] for o in ops)


def did_enter(j, rank, f, truth):
    """By the job's own log. Send and Recv are one group in this job: before its end none of them is entered, so that a
    rank that sleeps before the second has not entered the first either."""
    mine = [o for o in job.lines(j.ops_log) if o["rank"] == rank]
    here = [o for o in mine if (o["comm"], o["op"], o["seq"]) == (f["comm"], f["op"], f["seq"])]
    open_group = truth["op"] in ("Send", "Recv") and here and here[-1] is mine[-1]
    return here and not open_group


def check_severity(f, severity):
    job.check(f["severity"] == severity, f"severity {f['severity']} instead of {severity}: {f}")


def check_hang(j, rank, hang_class, limit_s, exact, timeout=40):
    """hang/<class> names this rank, its operation is one the rank did not enter and peers did, in time; no other root.
    exact: it is the very operation before which the job injected the fault."""
    f = j.wait_finding(timeout, kind="hang", phase="open")
    job.check(f, f"no hang found; findings: {j.findings}\n{j.stderr()}")
    job.check(f["ranks"] == [rank], f"named {f['ranks']} instead of [{rank}]: {f}")
    job.check(f["class"] == hang_class, f"class {f['class']} instead of {hang_class}: {f}")
    # the others are permanent by evidence
    check_severity(f, "warning" if hang_class == "missing_enter" else "critical")
    late = (f["t_ns"] - first_wait_ns(j, f)) / 1e9
    print(f"  hang/{hang_class} rank {rank} {f['op']} #{f['seq']} {late:.2f} s after the first peer waited")
    job.check(late <= limit_s + SLACK_S, f"found after {late:.2f} s, limit {limit_s} s")
    truth = next(t for t in job.lines(j.fault_log) if t["rank"] == rank)
    job.check(not did_enter(j, rank, f, truth), f"rank {rank} did enter {f['op']} #{f['seq']}")
    if exact:
        job.check([truth[k] for k in ("comm", "op", "seq")] == [f[k] for k in ("comm", "op", "seq")],
                  f"injected before {truth}, named {f['op']} #{f['seq']} of {f['comm']}")
    return f, late


def check_only(j, *expected):
    """Every root finding is one of (kind, rank)."""
    wrong = [f for f in j.roots() if not any(f["kind"] == k and f["ranks"] == [r] for k, r in expected)]
    job.check(not wrong, f"findings without a cause that nobody injected: {wrong}")


def hang(kind, hang_class, rng, extra=(), limit_s=5.0):
    j, rank = run(f"{kind}:rank={{rank}},step={{step}}", rng, extra)
    late = check_hang(j, rank, hang_class, limit_s, exact=not extra)[1]  # nested groups: a peer may lack more than one
    job.check(j.stop() == 1, "exit code is not 1")
    check_only(j, ("hang", rank))
    j.check_replay()
    job.result(f"{kind} {' '.join(extra)}".strip(), late)


def stall_becomes_hang(rng, limit_s=30):
    """Two steps: a sleeper is a warning at once, which changes no exit code; the same finding is critical after 30
    s."""
    j, rank = run("hang:rank={rank},step={step}", rng, record=["--fail-on=critical"])
    f = check_hang(j, rank, "missing_enter", 5.0, exact=True)[0]
    g = j.wait_finding(limit_s + 10, id=f["id"], severity="critical")
    job.check(g, f"never critical: {j.findings}")
    after = (g["t_ns"] - g["since_ns"]) / 1e9
    print(f"  hang/missing_enter rank {rank}: critical {after:.2f} s after the first peer waited")
    job.check(g["phase"] == "update" and limit_s <= after <= limit_s + job.bar(1), f"critical after {after:.2f} s: {g}")
    job.check(j.stop() == 1, "exit code is not 1")
    j.check_replay()


def stall_is_no_failure(rng):
    j, rank = run("hang:rank={rank},step={step}", rng, record=["--fail-on=critical"])
    check_hang(j, rank, "missing_enter", 5.0, exact=True)
    job.check(j.stop() == 0, "a stall of some seconds changed the exit code")
    check_only(j, ("hang", rank))


def hang_busy(rng, extra=(), busy_s=8):
    """A rank that burns CPU instead: an observation at once, a hang only past its longer limit (shortened here)."""
    j, rank = run("hang-busy:rank={rank},step={step}", rng, extra, record=["--busy-limit", busy_s])
    seen = j.wait_finding(30, kind="observation", phase="open")
    job.check(seen and seen["ranks"] == [rank], f"no observation on rank {rank}: {j.findings}\n{j.stderr()}")
    f = j.wait_finding(busy_s + 30, kind="hang", phase="open")
    job.check(f and f["ranks"] == [rank] and f["cause"] == "busy", f"no busy hang on rank {rank}: {j.findings}")
    late = (f["t_ns"] - first_wait_ns(j, f)) / 1e9
    print(f"  observation, then hang/missing_enter (busy) rank {rank} after {late:.2f} s")
    job.check(busy_s <= late <= busy_s + job.bar(3), f"busy hang after {late:.2f} s, limit {busy_s} s")
    job.check(j.stop() == 1, "exit code is not 1")
    check_only(j, ("hang", rank))
    j.check_replay()
    job.result("hang-busy", late)


def mismatch(rng, what, extra=()):
    j, rank = run(f"mismatch:rank={{rank}},step={{step}},what={what}", rng, extra)
    f = j.wait_finding(30, kind="mismatch", phase="open")
    job.check(f, f"no mismatch found: {j.findings}\n{j.stderr()}")
    job.check(f["ranks"] == [rank], f"named {f['ranks']} instead of [{rank}]: {f}")
    check_severity(f, "critical")
    calls = [o["t_ns"] for o in job.lines(j.ops_log) if o["comm"] == f["comm"] and o["seq"] == f["seq"] and
             o["op"] == f["op"]]
    late = (f["t_ns"] - max(calls)) / 1e9
    print(f"  mismatch rank {rank} {f['op']} #{f['seq']} {late:.2f} s after the last call")
    job.check(late <= 1 + SLACK_S, f"found after {late:.2f} s, limit 1 s")
    hangs = [h for h in j.findings if h["kind"] == "hang" and h["t_ns"] < f["t_ns"]]
    job.check(not hangs, f"a hang was reported before the mismatch: {hangs}")
    job.check(j.stop() == 1, "exit code is not 1")
    check_only(j, ("mismatch", rank))
    j.check_replay()
    job.result(f"mismatch {what}", late)


def dstate(kind, rng, extra=(), sec=8):
    """d_state opens 5 to 6.5 s into the wait, while it lasts, with a kernel stack; the collector itself never
    blocks."""
    j, rank = run(f"{kind}:rank={{rank}},step={{step}},sec={sec}", rng, extra, steps=60)
    f = j.wait_finding(60, kind="d_state", phase="open")
    job.check(f, f"no d_state found: {j.findings}\n{j.stderr()}")
    job.check(f["ranks"] == [rank], f"named {f['ranks']} instead of [{rank}]: {f}")
    into = (f["t_ns"] - f["since_ns"]) / 1e9
    print(f"  d_state rank {rank} {into:.2f} s into the wait, cause {f['cause']}")
    job.check(5 <= into <= 6.5, f"opened {into:.2f} s into the wait, not 5 to 6.5")
    check_severity(f, "critical")
    stack = f["evidence"].get("kernel_stack", "")
    job.check("+0x" in stack, f"no kernel stack: {f['evidence']}")
    code = j.end(120)
    job.check(code == 1, f"exit code {code} is not 1")
    closed = [c for c in j.findings if c["id"] == f["id"] and c["phase"] == "close"]
    job.check(closed, "the end of the wait was not reported")
    begin, over = (next(t["t_ns"] for t in job.lines(j.fault_log) if t["phase"] == p) for p in ("begin", "end"))
    gap = rtr.longest_gap_s(j.rtr, begin, over)
    print(f"  longest time without a look while the rank was blocked: {gap:.2f} s")
    job.check(gap < (1 if job.LONG else sec / 3), f"the collector did not look for {gap} s")
    late = (closed[0]["t_ns"] - over) / 1e9
    job.check(late <= job.bar(1 + SLACK_S), f"the end of the wait was reported {late:.2f} s after it")
    check_only(j, ("d_state", rank))
    j.check_replay()
    job.result(kind, into)
    return j


def slow(rng, percent, extra=()):
    # 240 ms steps: shorter ones are summed up (user/detect/straggler/straggler.c), and drown in a loaded machine's own
    # scheduling
    j, rank = run(f"slow:rank={{rank}},step={{step}},percent={percent}", rng, ["--step-ms", 240, *extra], steps=45)
    f = j.wait_finding(60, kind="straggler", phase="open")
    job.check(f, f"no straggler found: {j.findings}\n{j.stderr()}")
    job.check(f["ranks"] == [rank], f"named {f['ranks']} instead of [{rank}]: {f}")
    truth = j.wait_fault(1, "slow")
    job.check(truth, "the job did not log its fault")
    late = (f["t_ns"] - truth["t_ns"]) / 1e9
    step = 0.24 * (1 + percent / 100)
    print(f"  straggler rank {rank} after {late / step:.1f} iterations, blame {f['evidence'].get('blame_percent'):.1f} "
          f"%")
    most = 20 if f["evidence"].get("host_cpu_pressure_share") else 5 # where ranks wait for CPUs it has to last for 16
    job.check(late <= most * step + 2 * SLACK_S, f"named after {late:.2f} s, {late / step:.1f} iterations: {f}")
    code = j.end(120)
    job.check(code == 1, f"exit code {code} is not 1")
    check_only(j, ("straggler", rank))
    j.check_replay()
    job.result(f"slow {percent}%", late)
    return late


def silent(rng, faults, extra=(), steps=60, record=()):
    """Legitimate unusual phases: no finding (observations are allowed)."""
    _, _, number = draw(rng)
    args = ["--ranks", 8, "--steps", steps, "--seed", number, *extra]
    for fault in faults:
        args += ["--fault", fault]
    j = job.Job(args, record, name="silent")
    code = j.end(240)
    job.check(not j.roots(), f"named somebody: {j.roots()}\n{j.stderr()}")
    job.check(code == 0, f"exit code {code}: {j.stderr()}")
    j.check_replay()
    print(f"  silent: {' '.join(faults) or 'no fault'}")


def kill(rng, how, extra=()):
    """A rank dies while the others live on: its death is reported with how it ended, and nothing else is."""
    j, rank = run(f"kill:rank={{rank}},step={{step}},how={how}", rng, extra)
    f, late = check_hang(j, rank, "process_dead", 3.0, exact=not extra)
    ended = {k: f["evidence"].get(k) for k in ("exit_code", "exit_signal")}
    want = {"kill": {"exit_signal": 9}, "segv": {"exit_signal": 11}, "exit": {"exit_code": 1, "exit_signal": 0}}[how]
    job.check(all(ended[k] == v for k, v in want.items()), f"{how} reported as {ended}")
    job.check(j.stop() == 1, "exit code is not 1")
    check_only(j, ("hang", rank))
    j.check_replay()
    job.result(f"kill how={how} {' '.join(extra)}".strip(), late)


def stands(j, ops):
    """When each of these (rank, comm, op, seq) was entered, by the job's own log."""
    seen = {(o["rank"], o["comm"], o["op"], o["seq"]): o["t_ns"] for o in job.lines(j.ops_log)}
    return [seen[o] for o in ops if o in seen]


def deadlock(rng, host, extra=(), ranks=8):
    """One finding names every rank of the cycle and both communicators, wherever the hosts are."""
    j, rank = run(f"deadlock:rank={{rank}},step={{step}},host={host}", rng, extra, ranks=ranks)
    f = j.wait_finding(60, kind="hang", phase="open")
    job.check(f, f"no hang found: {j.findings}\n{j.stderr()}")
    truth = next(t for t in job.lines(j.fault_log) if t["fault"] == "deadlock")
    job.check(f["class"] == "deadlock", f"class {f['class']}: {f}")
    check_severity(f, "critical")
    job.check(set(f["ranks"]) == set(truth["ranks"]), f"named {f['ranks']}, in the cycle are {truth['ranks']}")
    comms = f["evidence"]["comms"].split(",")
    job.check(sorted(comms) == sorted(truth["comms"]), f"named {comms}, used in opposite order are {truth['comms']}")
    if len(truth["ranks"]) > 2:
        job.check(f["evidence"].get("other_order_ranks") == str(truth["rank"]), f"{f['evidence']} and {truth}")
    places = [(r, c, o, s) for r in truth["ranks"] for c, o, s in zip(truth["comms"], truth["ops"], truth["seqs"])]
    late = (f["t_ns"] - min(stands(j, places))) / 1e9
    print(f"  deadlock host={host} of {len(truth['ranks'])} ranks {late:.2f} s after the first of them waited")
    job.check(late <= 5 + SLACK_S, f"found after {late:.2f} s")
    job.check(j.stop() == 1, "exit code is not 1")
    job.check([x["id"] for x in j.roots()] == [f["id"]], f"more than one finding: {j.roots()}")
    j.check_replay()
    job.result(f"deadlock host={host} {' '.join(extra)}".strip(), late)


def p2p(rng, what, extra=("--layout", "tp=2,dp=2,pp=2")):
    """Who left a transfer out is named, with the pair and the side that is missing."""
    j, rank = run(f"p2p:rank={{rank}},step={{step}},what={what}", rng, extra)
    f = j.wait_finding(60, kind="hang", phase="open")
    job.check(f, f"no hang found: {j.findings}\n{j.stderr()}")
    truth = next(t for t in job.lines(j.fault_log) if t["fault"] == "p2p")
    pair = {k: f["evidence"].get(k) for k in ("sender", "receiver")}
    job.check(f["class"] == "p2p_unmatched" and f["ranks"] == [rank], f"named {f['class']} {f['ranks']}, not {rank}")
    check_severity(f, "critical")
    job.check(pair == {k: truth[k] for k in pair} and f["evidence"]["peer"] in pair.values(),
              f"pair {pair}, in truth {truth}")
    job.check((f["comm"], f["op"]) == (truth["comm"], truth["op"]), f"{f}, {truth}")
    # a tracer that came after the first calls, on a busy machine, says that it does not know the number
    job.check(f["seq"] == truth["unmatched_seq"] or f["evidence"].get("seq_from_attach"), f"{f}, {truth}")
    job.check(abs(f["evidence"]["n_sends"] - f["evidence"]["n_recvs"]) == 1, f"counts in {f['evidence']}")
    other = truth["receiver"] if what == "send" else truth["sender"]
    waits = stands(j, [(other, truth["comm"], "Recv" if what == "send" else "Send", truth["unmatched_seq"])])
    late = (f["t_ns"] - waits[0]) / 1e9
    print(f"  p2p_unmatched: rank {rank} left out a {what}, {late:.2f} s after its peer waited")
    job.check(late <= 5 + SLACK_S, f"found after {late:.2f} s")
    job.check(j.stop() == 1, "exit code is not 1")
    check_only(j, ("hang", rank))
    j.check_replay()
    job.result(f"p2p what={what} {' '.join(extra)}".strip(), late)


def init(rng, what, how, extra=()):
    """A creation of a communicator that one rank does not come to."""
    place = "" if what == "start" else ",step={step}"
    j, rank = run(f"init:rank={{rank}}{place},what={what},how={how}", rng, extra)
    f = j.wait_finding(60, kind="hang", phase="open")
    job.check(f, f"no hang found: {j.findings}\n{j.stderr()}")
    cause = {"sleep": "asleep", "stop": "stopped", "dead": "dead"}[how]
    job.check((f["class"], f["ranks"], f["cause"]) == ("init", [rank], cause),
              f"named {f['class']} {f['ranks']} ({f['cause']}), not {rank} ({cause})\n{f}")
    check_severity(f, "warning" if how == "sleep" else "critical")
    job.check(f["evidence"]["comm_size"] == 8, f"{f}")
    job.check(len(f["evidence"]["waiting_ranks"].split(",")) == 7, f"who waits: {f['evidence']}")
    print(f"  init what={what} how={how}: rank {rank} {f['detected_after_s']:.2f} s after the first waited")
    job.check(f["detected_after_s"] <= 10 + SLACK_S, f"found after {f['detected_after_s']:.2f} s")
    job.check(j.stop() == 1, "exit code is not 1")
    check_only(j, ("hang", rank))
    j.check_replay()
    job.result(f"init what={what} how={how}", f["detected_after_s"])
