# SPDX-License-Identifier: Apache-2.0
"""A store that a program serves (FUSE) does not answer under a checkpoint, in tiers record and watch. Its clients sleep
in no D state. All ranks wait for it and none for another: an io_stall names them, mount and file. One rank alone: its
peers' wait names it, file and mount. Both are warnings, as a store may be slow, and end with the answer. The ranks on
whom it does not lie are not named. Two cases are drawn; LONG=1: all."""
import os
import subprocess
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import fuse
import job
import outside

RANKS = 4
ANSWER_S = 25  # a finding behind the limit of 2 s, on a busy machine

job.need_root()
rng, seed = job.seed()


def is_of(s, who):
    return lambda f: f["phase"] != "close" and f["ranks"] == who and f["evidence"].get("mount")


def said_check(f, store, truth):
    e = f["evidence"]
    print(f"{f['summary']}\n  {e['mount']}, {e['file']}", flush=True)
    job.check(e["mount"].startswith(f"{store.folder} (fuse.store object-store, 0:"), f"on which mount: {f}")
    job.check(e["syscall"] == "pwrite64" and e["file"].startswith(store.folder), f"in which call of which file: {f}")
    job.check(f["severity"] == "warning", f"a store that may be slow: {f}")
    job.check(f["since_ns"] > truth["t_ns"] - 1_000_000_000, f"since when: {f}")
    job.check(store.folder in f["remedy"], f"what to do: {f}")


def case(command, alone):
    rank = rng.randrange(RANKS)
    folder = job.tempfile.mkdtemp(prefix="ranktrace-fuse-")
    job.dirs.append(folder)
    store = fuse.Mount(f"{folder}/store")
    checkpoint = f"phase:what=checkpoint,{f'rank={rank},' if alone else ''}sec=8,step=60"  # all write as it freezes
    try:
        with autopsies.Autopsy(["--ranks", RANKS, "--steps", 3000, "--step-ms", 40, "--seed", seed, "--scratch",
                                store.folder, "--fault", checkpoint]) as a:
            s = outside.Session(a, command, "--dstate-limit", "2", *(["--no-raise"] if command == "watch" else []))
            truth = a.wait_fault("phase-checkpoint")
            store.freeze()
            f = s.wait_for(is_of(s, [rank] if alone else list(range(RANKS))), ANSWER_S)
            store.thaw()
            job.check(f and f["kind"] == ("hang" if alone else "io_stall"), f"{f}, {s.findings}, {s.stderr()}")
            said_check(f, store, truth)
            over = s.wait(ANSWER_S, id=f["id"], phase="close")
            job.check(over and over["severity"] == "warning", f"it does not end: {s.findings}")
            job.check(not s.others(rank) if alone else not s.hangs(), f"others are named: {s.findings}")
            job.check(s.stop() == 1, "a warning and --fail-on=warning")  # replays to the same
            return s, store.folder
    finally:
        store.unmount()


def blocked_check(s, mount, ranks):
    """How long, by the recording of tier trace."""
    out = subprocess.run([job.RANKTRACE, "replay", "--storage", "-q", s.rtr], capture_output=True, text=True)
    here = [x for x in map(job.json.loads, out.stdout.splitlines()) if x["mount"] == mount and x["call"] == "write"]
    job.check(len(here) == ranks, f"{ranks} ranks wrote there: {out.stdout}")
    job.check(all(x["type"] == "fuse.store" and x["longest_ns"] > 1_900_000_000 for x in here), f"how long: {here}")


if not os.path.exists("/dev/fuse"):
    job.skip("no FUSE here")
cases = [("record", False), ("watch", True)] if rng.randrange(2) else [("record", True), ("watch", False)]
for command, alone in [(c, a) for c in ("record", "watch") for a in (False, True)] if job.LONG else cases:
    print(f"{'one rank' if alone else 'all ranks'} under {command}", flush=True)
    session, mount = case(command, alone)
    if command == "record":
        blocked_check(session, mount, 1 if alone else RANKS)
