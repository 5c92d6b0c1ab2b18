# SPDX-License-Identifier: Apache-2.0
"""The faults of the matrix amid a job's ordinary life (simjob --life): who is named, how soon, how severe, and that
nobody else is critical; in record, and in watch what a look from outside can show. CASES=n draws so many (4); LONG=1:
all of both tiers; CASE=F3: those whose name begins so."""
import json
import os
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import faults
import job
import lives
import outside
import rtr

LIMIT_S = 5 + faults.SLACK_S  # since the first peer waited
BLOCKED_S = (5, 6.5)          # into the D state
UNCOUNTED_S = 10 + 3 + faults.SLACK_S
UNNUMBERED = {"AlltoAll", "Gather", "Scatter"}  # of a session that came late
CREATED_S = 5  # from a communicator's creation to its first operation, on a busy machine
NEW_LIMIT_S, NEW_OPS, STEP_OPS = 10 + 2 + faults.SLACK_S, 10, 80
NEW_S = 3  # two samples of watch, on a busy machine: only what came between them is seen
REACHED_S, NAMED_S, AFTER_S = 180, 20, 2  # until the fault's step; then; what is looked at when it has been named
SCALE = 0.3 if job.LONG else 0.1          # of the phases' lengths
FLAT, NESTED, TENSOR = (), lives.NESTED, ("--layout", "tp=2,dp=4")
ASLEEP = ("missing_enter", "init")  # if its peers abort meanwhile, they wait for it in the creation that follows
STOPPED, DEAD = ("stopped", "init"), ("process_dead", "init")


class Case:
    def __init__(self, fault, kind, classes, severity="critical", layouts=(FLAT, NESTED), outside=True):
        """classes: of a hang. outside: watch sees it, too."""
        self.fault, self.kind, self.classes, self.severity = fault, kind, classes, severity
        self.layouts, self.outside = layouts, outside
        self.name, _, self.keys = fault.partition(":")

    def spec(self, rank, step):
        return f"{self.name}:rank={rank},step={step}" + (f",{self.keys}" if self.keys else "")


CASES = {
    "F1": Case("stop", "hang", STOPPED),
    "F2 kill": Case("kill:how=kill", "hang", DEAD),
    "F2 segv": Case("kill:how=segv", "hang", DEAD),
    "F3": Case("hang", "hang", ASLEEP, "warning", (FLAT,)),
    "F4 blocked": Case("deadlock:host=blocked", "hang", ("deadlock",), layouts=(TENSOR,)),
    "F4 ahead": Case("deadlock:host=ahead", "hang", ("deadlock",), outside=False),
    "F5 count": Case("mismatch:what=count", "mismatch", (None,), layouts=(FLAT,), outside=False),
    "F5 dtype": Case("mismatch:what=dtype", "mismatch", (None,), layouts=(FLAT,), outside=False),
    "F6": Case("hang", "hang", ASLEEP, "warning", (NESTED,)),
    "F7 send": Case("p2p:what=send", "hang", ("p2p_unmatched",), layouts=(NESTED,), outside=False),
    "F7 recv": Case("p2p:what=recv", "hang", ("p2p_unmatched",), layouts=(NESTED,), outside=False),
    "F8 file": Case("dstate:sec=20", "d_state", (None,)),
    "F8 memory": Case("dstate-mm:sec=20", "d_state", (None,)),
    "F9 memory": Case("dstate-child:sec=20,wait=0", "d_state", (None,)),
    "F9 waits": Case("dstate-child:sec=20,wait=1", "d_state", (None,)),
    "F18 new": Case("init:what=new,how=sleep", "hang", ("init",), "warning"),
    "F18 split": Case("init:what=split,how=sleep", "hang", ("init",), "warning"),
    "F18 stop": Case("init:what=new,how=stop", "hang", ("init",), outside=False),
    "F18 dead": Case("init:what=split,how=dead", "hang", ("init",), outside=False),
}


def wait(s, timeout, fits):
    end = time.monotonic() + timeout
    while time.monotonic() < end and s.process.poll() is None:
        for f in list(s.findings):
            if fits(f):
                return f
        time.sleep(0.1)
    return None


def first_wait_ns(a, f, ranks):
    """When the first peer entered what they lack, by the job's own log; None: nobody did."""
    places = outside.places(f)
    kinds = job.COUNTED if f["op"] in job.COUNTED else {f["op"]}
    return min((o["t_ns"] for o in job.lines(a.ops_log)
                if (o["comm"], o["seq"]) in places and o["op"] in kinds and o["rank"] not in ranks),
               default=None)


def last_call_ns(a, f):
    place = f["comm"], f["op"], f["seq"]
    return max(o["t_ns"] for o in job.lines(a.ops_log) if (o["comm"], o["op"], o["seq"]) == place)


def limit_s(a, tier, truth):
    """What watch is used to of a communicator that was made anew just before is not known (docs/findings.md): its
    first sample shows no operations, the second those in between."""
    mine = [o for o in job.lines(a.ops_log) if o["rank"] == truth["rank"] and o["t_ns"] <= truth["t_ns"]]
    began_ns = {o["comm"]: o["t_ns"] for o in reversed(mine)}
    recent = {o["comm"] for o in mine[-STEP_OPS:]}
    is_new = any(began_ns[c] > truth["t_ns"] - NEW_S * 1e9 or sum(o["comm"] == c for o in mine) <= NEW_OPS
                 for c in recent)
    return NEW_LIMIT_S if tier == "watch" and is_new else LIMIT_S


def check_late(a, case, f, truth, tier):
    """In time, counted from the first peer that waits for it. That one may have come before the fault."""
    if case.kind == "d_state":
        late = (f["t_ns"] - truth["t_ns"]) / 1e9
        job.check(BLOCKED_S[0] <= late <= BLOCKED_S[1] + faults.SLACK_S, f"found {late:.2f} s into the wait: {f}")
        return late
    if case.kind == "mismatch":
        late, limit = (f["t_ns"] - last_call_ns(a, f)) / 1e9, 1 + faults.SLACK_S
    elif f["class"] == "init":
        late, limit = f["detected_after_s"], limit_s(a, tier, truth)
    else:
        since = first_wait_ns(a, f, f["ranks"])
        late, limit = (f["t_ns"] - max(truth["t_ns"], since or 0)) / 1e9, limit_s(a, tier, truth)
    job.check(late <= limit, f"found after {late:.2f} s, limit {limit} s: {f}")
    return late


def check_others(s, truth, ranks):
    """From the fault on no other rank is reported as a root; in all of the session no other is critical."""
    last = {f["id"]: f for f in s.findings}
    apart = [f for f in last.values() if not (f["ranks"] and set(f["ranks"]) <= ranks) and not f["caused_by"]]
    critical = [f for f in apart if f["severity"] == "critical"]
    job.blame(not critical, f"critical besides: {critical}")
    later = [f for f in apart if f["severity"] == "warning" and f["since_ns"] >= truth["t_ns"] and f["ranks"]]
    job.blame(not later, f"named besides: {later}")


def phase_on(a, t_ns):
    """The phase of the job's life in which it struck."""
    on = None
    for f in job.lines(a.fault_log):
        if f["fault"] == "life" and f["t_ns"] <= t_ns:
            on = f["what"] if f["phase"] == "begin" else None
    return on


def from_creation(s, comm, ops):
    """The session saw this communicator's creation: what NCCL does not count has its own numbers there."""
    lines = subprocess.run([job.RANKTRACE, "replay", "-q", "--ops", s.rtr], capture_output=True, text=True).stdout
    seen = [o for o in map(json.loads, lines.splitlines()) if o["comm"] == comm and o["op"] in ops]
    return bool(seen) and not any(o.get("seq_from_attach") for o in seen)


def check_late_attach(a, s, comm):
    """Only a session whose probes came behind a communicator's creation may not know its numbers: that lies shortly
    before its first operation, by the job's own log."""
    ops = [o for o in job.lines(a.ops_log) if o["comm"] == comm]
    attached = rtr.attached_ns(s.rtr, rtr.NCCL)
    began_ns, attached_ns = min(o["t_ns"] for o in ops), max(attached.get(o["pid"], 0) for o in ops)
    job.check(attached_ns > began_ns - CREATED_S * 1e9,
              f"{comm} began {(began_ns - attached_ns) / 1e9:.1f} s behind the attach, and is not numbered")


def is_unseen(a, s, case, tier, truth, during):
    """Its peers wait where no number says who is late: NCCL counts nothing there, and the session saw no call, or not
    the first (docs/limits.md)."""
    ops = set(truth.get("ops", [truth.get("op")]))  # a deadlock has several
    if tier == "watch":
        return case.kind == "hang" and bool(during in ("abort", "elastic") or ops - job.COUNTED)
    unnumbered = ops & UNNUMBERED
    if case.kind not in ("hang", "mismatch") or not unnumbered or from_creation(s, truth["comm"], unnumbered):
        return False
    check_late_attach(a, s, truth["comm"])
    return True


def unseen(s, case, name, tier, truth, ranks, during):
    """Its peers wait in an AlltoAll or a transfer, or, as they aborted, in a creation. Where all hosts are may name it,
    later; no other rank is. A sleeper in record is named for sure."""
    f = wait(s, UNCOUNTED_S, lambda f: f["kind"] == "hang" and f["t_ns"] >= truth["t_ns"] and set(f["ranks"]) & ranks)
    s.stop()
    check_others(s, truth, ranks)
    job.check(not f or set(f["ranks"]) == ranks, f"named {f and f['ranks']}, not {ranks}: {f}")
    job.check(f or tier == "watch" or case.classes != ASLEEP, f"{name} in {tier}, struck in {during}: not found")
    said = f"named after {(f['t_ns'] - truth['t_ns']) / 1e9:.2f} s" if f else "nobody is named"
    print(f"  {name} in {tier}: struck in {during} at {truth.get('op')}, where no number helps: {said}", flush=True)


def strike(a, s, name, case, tier):
    truth = a.wait_fault(case.name, REACHED_S)
    ranks = set(truth.get("ranks", [truth["rank"]]))
    during = phase_on(a, truth["t_ns"]) or "a step"
    if is_unseen(a, s, case, tier, truth, during):
        return unseen(s, case, name, tier, truth, ranks, during)
    f = wait(s, NAMED_S, lambda f: f["kind"] == case.kind and f.get("class") in case.classes and f["severity"] != "info"
             and f["t_ns"] >= truth["t_ns"] and set(f["ranks"]) & ranks)
    job.check(f, f"{name} in {tier}, struck in {during}: not found: {s.findings}\n{s.stderr()}")
    job.check(set(f["ranks"]) == ranks, f"named {f['ranks']}, not {ranks}: {f}")
    job.check(f["severity"] == case.severity, f"severity {f['severity']}, not {case.severity}: {f}")
    late = check_late(a, case, f, truth, tier)
    print(f"  {name} in {tier}: {f['kind']}/{f.get('class')} of {sorted(ranks)} in step {truth['step']} after "
          f"{late:.2f} s, struck in {during} after {sum(lives.phases(a).values())} phases", flush=True)
    time.sleep(AFTER_S)
    job.check(s.stop() == 1, "exit code is not 1")
    check_others(s, truth, ranks)
    job.result(f"life {name} {tier}", late)


def fault(rng, name, tier):
    case = CASES[name]
    # before, a job may be new to record: no iterations known, nor 1,000 operations seen (docs/findings.md)
    rank, step, number = faults.draw(rng, first=60, last=150)
    args = ["--ranks", 8, "--steps", 100000, "--step-ms", 50, "--seed", number, "--life", "--life-scale", SCALE,
            "--fault", case.spec(rank, step), *rng.choice(case.layouts)]
    with autopsies.Autopsy(args) as a:
        # what probes cost here is no matter of this test
        s = outside.Session(a, tier, "--budget=no", *(["--no-raise"] if tier == "watch" else []))
        strike(a, s, name, case, tier)


def chosen(rng):
    every = [(name, tier) for name, case in CASES.items() for tier in ("record", "watch")[:1 + case.outside]]
    if "CASE" in os.environ:
        return [c for c in every if c[0].startswith(os.environ["CASE"])]
    return every if job.LONG else rng.sample(every, int(os.environ.get("CASES", "4")))


def main():
    job.need_root()
    rng, _ = job.seed()
    cases, wrong = chosen(rng), []
    for name, tier in cases:
        try:
            fault(rng, name, tier)
        except SystemExit:  # job.fail() said why; the other cases count all the same
            wrong.append(f"{name} in {tier}")
    job.check(not wrong, f"{len(wrong)} of {len(cases)}: {wrong}")


if __name__ == "__main__":
    main()
