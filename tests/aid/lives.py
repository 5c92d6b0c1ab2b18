# SPDX-License-Identifier: Apache-2.0
"""A session over the ordinary life of a simulated job (simjob --life): what it may say of it, and what it may not."""
import collections
import time

import autopsies
import job
import outside

UNREAD_MOST = 1  # pauses that were warned of and ended before a stack was read: their call site is not known
NESTED = ("--layout", "tp=2,dp=2,pp=2")


def site(f):
    """Where the named rank is, as precisely as it is known."""
    e = f["evidence"]
    return next((e[k] for k in ("python", "native_frame", "kernel_wait") if e.get(k)), "not read")


def phases(a):
    """How often each phase began: by the job's own log."""
    return collections.Counter(f["what"] for f in job.lines(a.fault_log)
                               if f["fault"] == "life" and f["phase"] == "begin")


def live(command, seconds, seed, phases_named="", scale=0.3, extra=NESTED, step_ms=50, kinds=0):
    """Runs it; up to four times as long where it takes that to see so many kinds of phases: long steps of a pipeline
    may take 200 s. Nothing may be critical; a warning at most once for each call site. (findings, phases seen)"""
    life = f"--life={phases_named}" if phases_named else "--life"
    args = ["--ranks", 8, "--steps", 10000000, "--step-ms", step_ms, "--seed", seed, life, "--life-scale", scale,
            *extra]
    with autopsies.Autopsy(args) as a:
        s = outside.Session(a, command)
        end = time.monotonic() + seconds
        while a.process.poll() is None and (time.monotonic() < end or
                                            time.monotonic() < end + 3 * seconds and len(phases(a)) < kinds):
            time.sleep(0.5)
        job.check(a.process.poll() is None, "the job ended")
        s.stop()
        seen = phases(a)
        check(s, seen)
        return s.findings, seen


def far_longer(f):
    """Than anything that ended by itself at its call site: that is said again (docs/findings.md, known phases)."""
    e = f["evidence"]
    once_long = e.get("pauses_before") == 1 and e.get("longest_pause_s", 0) >= 30
    return bool(e.get("pauses_before")) and e["waiting_s"] > (30 if once_long else 3 * e["longest_pause_s"])


def pauses(findings):
    """How many of them lie apart in time: two ranks that wait at once, each in a communicator of its own, are one."""
    n, end = 0, 0
    for f in sorted(findings, key=lambda f: f["since_ns"]):
        n += f["since_ns"] > end
        end = max(end, f["t_ns"])
    return n


def check(s, seen):
    opened = [f for f in s.findings if f["phase"] == "open"]
    worst = {f["id"]: f for f in s.findings if f["severity"] == "critical"}
    warned = {f["id"]: f for f in s.findings if f["severity"] == "warning"}
    # several ranks that cannot be distinguished, at one operation, are one warning
    sites = collections.Counter(where for where, _, _ in {(site(f), f["comm"], f["seq"]) for f in warned.values()
                                                          if not far_longer(f)})
    if sites["not read"]:
        sites["not read"] = pauses(f for f in warned.values() if site(f) == "not read" and not far_longer(f))
    print(f"  {sum(seen.values())} phases {dict(seen)}: {len(worst)} critical, {len(warned)} warnings {dict(sites)}, "
          f"{len(opened) - len(worst.keys() | warned.keys())} others", flush=True)
    job.check(not worst, f"critical in a healthy job: {list(worst.values())}")
    often = {where: n for where, n in sites.items() if n > (UNREAD_MOST if where == "not read" else 1)}
    job.check(not often, f"warned more than once of one place: {often}: {list(warned.values())}")
