# SPDX-License-Identifier: Apache-2.0
"""What the culprit waits for, in every tier: watch and record on a job one of whose ranks waits for an object store's
answer, its data worker, a mutex, a timer, a FIFO, and autopsy of the same; the job in namespaces of its own for one of
them. The sentence names the true peer, child, thread, by the job's own fault log; the recording says the same
(Session.stop() compares)."""
import glob
import os
import re
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import faults
import job
import outside

KINDS = {"store": "socket", "worker": "child", "mutex": "lock", "timer": "timer", "fifo": "pipe"}
CONTAINER = ["unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c",
             'ip link set lo up && exec "$@"', "sh"]


def host_pid(ns_pid, below):
    """A process or thread inside the job's own pid namespace, by the host's number."""
    for path in glob.glob("/proc/[0-9]*/task/[0-9]*"):
        try:
            with open(f"{path}/status") as f:
                words = next(line for line in f if line.startswith("NSpid:")).split()
            if int(words[-1]) == ns_pid and len(words) > 2 and os.readlink(f"{path}/ns/pid") == below:
                return int(words[1])
        except (OSError, StopIteration):
            pass
    job.fail(f"no process is {ns_pid} in {below}")


def expected(what, truth):
    """(a pattern of the sentence, typed evidence) by the fault log."""
    pid, tid = truth.get("peer_pid"), truth.get("tid")
    return {
        "store": (rf"waits for an answer of {truth.get('peer')} \(pid {pid} object-store, .*no byte for [0-9.]+ m?s\)",
                  {"waits_for_peer": truth.get("peer"), "waits_for_pid": pid, "waits_for_moves": 0}),
        "worker": (rf"waits for data of child {truth['pid']} \(pt_data_worker, started [0-9.]+ s ago, sleeps for 30 s "
                   rf"\(timer\)\)",
                   {"waits_for_pid": truth["pid"]}),
        "mutex": (rf"waits for a mutex held by thread {tid} 'pt_ckpt_writer' \(sleeps for 30 s \(timer\)\)",
                  {"waits_for_tid": tid, "waits_for_moves": 0}),
        "timer": (r"sleeps for 30 s \(timer\)", {}),
        "fifo": (rf"reads FIFO {truth.get('path')} whose other end is pid {pid} \(object-store, .*\)",
                 {"waits_for_file": truth.get("path"), "waits_for_pid": pid}),
    }[what]


def check(what, truth, evidence):
    pattern, typed = expected(what, truth)
    text = evidence.get("waits_for", "")
    job.check(re.fullmatch(pattern, text), f"{what}: says \"{text}\", the truth is {truth}")
    job.check(evidence["waits_for_kind"] == KINDS[what], f"{what}: kind {evidence['waits_for_kind']}")
    for name, value in typed.items():
        job.check(evidence.get(name) == value, f"{what}: {name} is {evidence.get(name)}, not {value}")
    quiet = evidence.get("waits_for_quiet_s")
    job.check((what == "store") == (quiet is not None) and 0 <= (quiet or 0) < 40, f"{what}: quiet for {quiet} s")
    return text


def reported(s, rank, within_s):
    """The first line about the rank that says what it waits for."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        for f in list(s.findings):
            if f["ranks"] == [rank] and "waits_for" in f["evidence"]:
                return f
        time.sleep(0.1)
    job.fail(f"nothing says what rank {rank} waits for: {s.findings}\n{s.stderr()}")


def start(rng, what, prefix=()):
    rank, step, number = faults.draw(rng, first=25, last=60)
    return rank, autopsies.Autopsy(["--ranks", 4, "--steps", 2000, "--step-ms", 50, "--seed", number,
                                    "--fault", f"waits:what={what},rank={rank % 4},step={step},sec=30"], within=prefix)


def live(rng, what, command, *args):
    rank, a = start(rng, what)
    rank %= 4
    with a:
        if command == "record":
            a.wait_fault("waits")
            a.settle()
        s = outside.Session(a, command, *args)
        truth = a.wait_fault("waits")
        f = reported(s, rank, 30)
        text = check(what, truth, f["evidence"])
        print(f"  {command}: rank {rank} {text}")
        s.stop()


def dead(rng, what, prefix=()):
    rank, a = start(rng, what, prefix)
    rank %= 4
    with a:
        truth = a.wait_fault("waits")
        a.settle()
        if prefix:
            ns = os.readlink(f"/proc/{below(a.process.pid)}/ns/pid")
            truth = {k: host_pid(v, ns) if k in ("pid", "peer_pid", "tid") else v for k, v in truth.items()}
        found = [f for f in a.run_json() if f["ranks"] == [rank] and "waits_for" in f["evidence"]]
        job.check(found, f"autopsy does not say what rank {rank} waits for: {a.out}\n{a.err}")
        print(f"  autopsy{' in namespaces' if prefix else ''}: rank {rank} {check(what, truth, found[0]['evidence'])}")
        a.run()
        job.check(re.search(r"\n(  why  |       ) .*\b(waits|sleeps|reads) ", a.out),
                  f"the report does not say it: {a.out}")
        out = subprocess.run([job.RANKTRACE, "ps", "--stacks", "--pid", str(a.process.pid)], capture_output=True,
                             text=True).stdout
        job.check(re.search(r"\n      " + expected(what, truth)[0], out), f"ps --stacks does not say it: {out}")


def below(pid):
    """unshare's child, which is in the new namespace."""
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return int(f.read().split()[0])


def main():
    job.need_root()
    rng, _ = job.seed()
    for what in KINDS:
        live(rng, what, "watch", "--no-raise")
    drawn = rng.choice(["worker", "mutex"])
    for what in ("store", drawn, "fifo"):
        live(rng, what, "record")
    for what in ("store", drawn):
        dead(rng, what)
        dead(rng, what, CONTAINER)


if __name__ == "__main__":
    main()
