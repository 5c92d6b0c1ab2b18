# SPDX-License-Identifier: Apache-2.0
"""ranktrace watch on a job whose data travel over a network (--net): a transfer that does not move inside a collective
that all entered is reported while it lasts, with the pair and the channel, and a rank only where its own proxy does not
work. A healthy job: silence. LONG=1: twenty of each, with the bars on time."""
import os
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import faults
import job
import outside

RANKS = 4


def start(number, *extra):
    return autopsies.Autopsy(["--ranks", RANKS, "--steps", 4000, "--step-ms", 50, "--seed", number, "--net", *extra])


def stuck(rng, fault, cause, named):
    rank, step, number = faults.draw(rng, RANKS, first=25, last=60)
    with start(number, "--fault", fault.format(rank=rank, step=step)) as a:
        s = outside.Session(a, "watch", "--no-raise")
        truth = a.wait_fault(fault.split(":")[0])
        f = s.wait(40, kind="hang", phase="open")
        job.check(f, f"no hang found: {s.findings}\n{s.stderr()}")
        e, late = f["evidence"], (f["t_ns"] - truth["t_ns"]) / 1e9
        print(f"  hang/{f['class']} {f['cause']} {f['ranks']} {e.get('sender')}->{e.get('receiver')} channel "
              f"{e.get('channel')}, "
              f"{late:.2f} s after the fault")
        job.check((f["class"], f["cause"]) == ("inside_network", cause), f"{f}")
        job.check(f["ranks"] == ([rank] if named else []), f"named {f['ranks']}: {f}")
        job.check([f[k] for k in ("comm", "op", "seq")] == [truth[k] for k in ("comm", "op", "seq")],
                  f"{f} is not {truth}")
        if named:
            job.check({"sender": e["sender"], "receiver": e["receiver"]}.get(e["side"]) == rank,
                      f"side {e['side']}: {e}")
        else:
            reported = {k: e[k] for k in ("side", "sender", "receiver", "channel")}
            job.check(reported == {"side": "network", **{k: truth[k] for k in ("sender", "receiver", "channel")}},
                      f"{reported}, not {truth}")
        job.check(late <= 5, f"reported after {late:.2f} s")
        job.check(s.stop() == 1, "exit code is not 1")
        job.check(all(x["ranks"] == f["ranks"] for x in s.findings), f"others are named: {s.findings}")
        job.result(f"watch {fault.split(':')[0]}", late)


def healthy(rng, seconds):
    with start(rng.randrange(1 << 30)) as a:
        s = outside.Session(a, "watch")
        time.sleep(seconds)
        job.check(s.stop() == 0 and not s.findings, f"a healthy job: {s.findings}\n{s.stderr()}")
        print(f"  healthy: silent for {seconds} s")


job.need_root()
rng, _ = job.seed()
for _ in range(20 if job.LONG else int(os.environ.get("DRAWS", "1"))):
    stuck(rng, "inside:rank={rank},step={step}", "network", False)
    stuck(rng, "proxy:rank={rank},step={step},how=stop", "proxy_asleep", True)
healthy(rng, 60 if job.LONG else 8)
