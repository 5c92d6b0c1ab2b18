# SPDX-License-Identifier: Apache-2.0
"""ranktrace autopsy on a job whose data travel over a network (--net), stuck in the middle of a collective: the network
between two ranks delivers nothing, a rank's proxy stops, its process does, its proxy gets no CPU. Who, which side,
which channel, by NCCL's proxy counters in memory. A healthy job: silence. LONG=1: twenty of each."""
import os
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import faults
import job

job.need_root()
rng, _ = job.seed()
libs = f"{job.O}/lib/ranktrace/sim"
LONG = os.environ.get("LONG") == "1"
DRAWS = int(os.environ.get("DRAWS", 20 if LONG else job.TRIALS))
RANKS = 4
LAYOUTS = ((), ("--nccl-lib", f"{libs}/layout1/libnccl.so.2"), ("--nccl-lib", f"{libs}/layout2/libnccl.so.2"))


def start(fault, extra=()):
    rank, step, number = faults.draw(rng, RANKS)
    args = ["--ranks", RANKS, "--steps", 4000, "--seed", number, "--net", *LAYOUTS[rng.randrange(3)],
            *(("--layout", "tp=2,dp=2") if rng.randrange(2) else ()), *extra]
    return autopsies.Autopsy(args + (["--fault", fault.format(rank=rank, step=step)] if fault else []))


def look(a, case):
    """Its findings; the recording replays to the same ones."""
    rtr = f"{a.dir}/{case}.rtr"
    found = a.run_json("-o", rtr)
    again = subprocess.run([job.RANKTRACE, "replay", "-q", "--json", rtr], capture_output=True, text=True)
    job.check(again.stdout == a.out, f"replay differs:\n{a.out}\n{again.stdout}")
    return found


def check_named(found, rank, truth):
    """Whatever is said, it is said of that rank (None: of nobody)."""
    for f in found:
        job.check(f["ranks"] == ([] if rank is None else [rank]), f"named {f['ranks']}, not {rank} of {truth}: {f}")


def one_hang(a, case, hang_class, rank, truth):
    """A machine too busy to prove anything is asked again; a wrong word never passes."""
    for _ in range(8):
        found = look(a, case)
        check_named(found, rank, truth)
        hangs = [f for f in found if f["kind"] == "hang"]
        if hangs:
            break
    job.check(len(hangs) == 1 and a.code == 1, f"exit {a.code}: {found}\n{a.err}")
    f = hangs[0]
    e = f["evidence"]
    print(f"  hang/{f['class']} {f['cause']} {f['ranks']} {f['op']} #{f['seq']} side {e.get('side')} "
          f"{e.get('sender')}->"
          f"{e.get('receiver')} channel {e.get('channel')}: {e.get('sent')}; {e.get('received')} in {a.wall_s:.2f} s")
    job.check(f["class"] == hang_class, f"class {f['class']}, not {hang_class}: {f}")
    job.result(f"inside {case}", a.wall_s)
    return f


def inside():
    with start("inside:rank={rank},step={step}") as a:
        truth = a.wait_fault("inside")
        a.settle()
        f = one_hang(a, "network", "inside_network", None, truth)
        reported = {k: f["evidence"].get(k) for k in ("side", "sender", "receiver", "channel")}
        job.check(reported == {"side": "network", **{k: truth[k] for k in ("sender", "receiver", "channel")}},
                  f"{reported} is not {truth}")
        job.check([f[k] for k in ("comm", "op", "seq")] == [truth[k] for k in ("comm", "op", "seq")],
                  f"{f} is not {truth}")


def stopped(how, hang_class, cause):
    with start("proxy:rank={rank},step={step},how=" + how) as a:
        truth = a.wait_fault("proxy")
        a.settle()
        f = one_hang(a, how, hang_class, truth["rank"], truth)
        e = f["evidence"]
        job.check(f["pids"] == [truth["pid"]] and f["cause"] == cause, f"cause {f['cause']}: {f}")
        job.check({"sender": e.get("sender"), "receiver": e.get("receiver")}.get(e.get("side")) == truth["rank"],
                  f"side {e.get('side')} of {e.get('sender')}->{e.get('receiver')}, not {truth}")
        job.check(e["channel"] in (0, 1) and (e["sent"] + e["received"]).count("posted"), f"no progress reported: {e}")
        if how == "stop":  # stopped: it may be named for what it lacks elsewhere
            job.check([f[k] for k in ("comm", "op", "seq")] == [truth[k] for k in ("comm", "op", "seq")],
                      f"{f} is not {truth}")
            job.check(e["tid"] == truth["tid"], f"thread {e['tid']}, not {truth['tid']}")


def starved():
    """It creeps: a hang when it stands while it is sampled, else a rank that waits for a CPU. Never another rank."""
    with start("proxy:rank={rank},step={step},how=starve,n=6") as a:
        truth = a.wait_fault("proxy")
        time.sleep(2)
        for _ in range(8):
            found = [f for f in look(a, "starve") if f["kind"] != "observation"]
            check_named(found, truth["rank"], truth)
            if found:
                break
        job.check(len(found) == 1, f"exit {a.code}: {found}\n{a.err}")
        f = found[0]
        print(f"  {f['kind']}/{f['class']} {f['cause']} {f['ranks']} side {f['evidence'].get('side')}: waited "
              f"{f['evidence'].get('runqueue_wait_share'):.2f} of the time, in {a.wall_s:.2f} s")
        job.check(f["cause"] in ("proxy_thread", "proxy_starved"), f"cause {f['cause']}: {f}")
        job.check(f["evidence"]["tid"] == truth["tid"], f"thread {f['evidence']['tid']}, not {truth['tid']}")
        job.result("inside starve", a.wall_s)


def healthy():
    with start(None) as a:
        while len(job.lines(a.ops_log)) < 100:
            time.sleep(0.1)
        job.check(look(a, "healthy") == [] and a.code == 0, f"exit {a.code}: {a.out}{a.err}")
        print(f"  healthy in {a.wall_s:.2f} s")


for draw in range(DRAWS):
    inside()
    stopped("stop", "inside_network", "proxy_asleep")
    stopped("sigstop", "stopped", "stopped")
    starved()
for draw in range(DRAWS if LONG else 1):
    healthy()
