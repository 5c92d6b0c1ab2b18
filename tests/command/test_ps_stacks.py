# SPDX-License-Identifier: Apache-2.0
"""ranktrace ps --stacks: the Python frames of every thread of a target, for every CPython of 3.9 and later on this
machine, against what the target says of itself, in the host's and in a pid namespace of its own; the target is not
stopped, woken or grown by it. Then a simulated job that hangs: the rank that is elsewhere stands first, alone."""
import glob
import json
import os
import re
import select
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job

FRAMES_MAX, FILE_MAX, FUNC_MAX = 96, 151, 95
TARGET = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python_target.py")


def interpreters():
    """One of each version and place: the system's, pyenv's, and what the path has."""
    found = {}
    for path in sorted(glob.glob("/usr/bin/python3*") + glob.glob("/usr/local/bin/python3*") +
                       glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")) + [sys.executable]):
        if not re.search(r"python3(\.\d+)?$", path):
            continue
        real = os.path.realpath(path)
        out = subprocess.run([path, "-c", "import sys, ctypes; print(sys.implementation.name, *sys.version_info[:3])"],
                             capture_output=True, text=True)
        words = out.stdout.split()
        if not out.returncode and words[0] == "cpython" and (3, 9) <= tuple(map(int, words[1:3])):
            found.setdefault(real, (path, ".".join(words[1:])))
    return list(found.values())


def read_line(process, timeout):
    end, data = time.monotonic() + timeout, b""
    while b"\n" not in data and time.monotonic() < end:
        if select.select([process.stdout], [], [], 0.2)[0]:
            data += os.read(process.stdout.fileno(), 1 << 20) or b"\n"
    return data


def lines_of(process, n, timeout=30):
    data = b""
    while data.count(b"\n") < n:
        got = read_line(process, timeout)
        job.check(got, f"the target says nothing: {data[:200]}")
        data += got
    return [json.loads(line) for line in data.splitlines()]


def stacks(pid):
    out = subprocess.run([job.RANKTRACE, "ps", "--stacks", "--json", "--pid", str(pid)], capture_output=True, text=True)
    job.check(out.returncode == 0, f"ps --stacks: {out.returncode} {out.stderr}")
    return [json.loads(line) for line in out.stdout.splitlines()]


def shortened(text, most, tail):
    """As ranktrace shortens a name: whole characters, the end of a path."""
    if len(text) <= most:
        return text
    return "..." + text[-(most - 3):] if tail else text[:most]


def expected(rows):
    return [[shortened(f, FUNC_MAX, False), shortened(p, FILE_MAX, True), n] for f, p, n in rows[:FRAMES_MAX]]


def compare(version, said, seen, ids):
    """`ids`: a thread's id as the target knows it -> as the host does."""
    threads = {t["tid"]: t for t in seen["threads"]}
    known = version if tuple(map(int, version.split(".")))[:2] >= (3, 11) else version.rsplit(".", 1)[0]
    job.check(seen["python"] == known, f"version {seen['python']}, it is {version}")
    frames = 0
    for tid, rows in said["threads"].items():
        t = threads[ids[int(tid)]]
        mine = [[f["func"], f["file"], f["line"]] for f in t["python"]]
        job.check(mine == expected(rows), f"{version} thread {tid}:\n{mine}\nit says\n{expected(rows)}")
        job.check((t["python_end"] != "") == (len(rows) > FRAMES_MAX), f"{version} {tid}: {t['python_end']}")
        frames += len(mine)
    me = threads[ids[said["self"]]]
    job.check([f["func"] for f in me["python"]] == ["tell", "<module>"], f"{version} main: {me['python']}")
    return len(said["threads"]) + 1, frames + 2


def status(pid, tid):
    with open(f"/proc/{pid}/task/{tid}/status") as f:
        s = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    return {k: s[k].strip() for k in ("State", "TracerPid", "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")}


def footprint(pid):
    with open(f"/proc/{pid}/status") as f:
        s = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    tids = sorted(int(t) for t in os.listdir(f"/proc/{pid}/task"))
    return {"VmPTE": s["VmPTE"].strip(), "VmRSS": s["VmRSS"].strip(), "tasks": {t: status(pid, t) for t in tids}}


def settled(pids, timeout=20):
    """The footprints, once all threads are asleep for good: between its last word and its sleep, one still runs."""
    end, last = time.monotonic() + timeout, None
    while time.monotonic() < end:
        now = {n: footprint(pid) for n, pid in pids.items()}
        if now == last:
            return now
        last = now
        time.sleep(0.5)
    job.fail(f"the target does not come to rest: {last}")


def host_ids(pid):
    """Thread ids inside the process' own pid namespace -> the host's."""
    ids = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/status") as f:
            ns = next(line for line in f if line.startswith("NSpid:")).split()
        ids[int(ns[-1])] = int(tid)
    return ids


def python_case(path, version, fork, contained):
    argv = [path, TARGET, "fork" if fork else "plain"]
    if contained:
        argv = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"] + argv
    p = subprocess.Popen(argv, stdout=subprocess.PIPE)
    try:
        said = {s["name"]: s for s in lines_of(p, 2 if fork else 1)}
        top = p.pid
        if contained:
            top = int(open(f"/proc/{p.pid}/task/{p.pid}/children").read().split()[0])
        pids = {"parent": top}
        if fork:
            # Thread 1 of the process has one child: the fork.
            pids["child"] = int(open(f"/proc/{top}/task/{top}/children").read().split()[0])
        before = settled(pids)
        for name, pid in pids.items():
            seen = stacks(pid)
            seen = next(s for s in seen if s["pid"] == pid)
            n, frames = compare(version, said[name], seen, host_ids(pid))
            native = sum(len(t["native"]) for t in seen["threads"])
            whole = sum(t["native_end"] == "" for t in seen["threads"])
            print(f"{version} {path} {name}{' in a pid namespace' if contained else ''}: {n} threads, {frames} Python "
                  f"frames "
                  f"equal; {native} native frames, {whole} of {len(seen['threads'])} stacks whole", flush=True)
        after = {n: footprint(pid) for n, pid in pids.items()}
        job.check(before == after, f"the target changed:\n{before}\n{after}")
    finally:
        p.kill()
        p.wait()


def groups_of(pid):
    out = subprocess.run([job.RANKTRACE, "ps", "--stacks", "--pid", str(pid)], capture_output=True, text=True)
    job.check(out.returncode == 0, f"ps --stacks: {out.returncode} {out.stderr}")
    blocks = [b for b in out.stdout.split("\n\n") if re.match(r"\d+ threads? of ", b)]
    return [(b, sorted({int(r) for r in re.findall(r"rank (\d+) pid", b)})) for b in blocks]


def hung_job(number, rng):
    rank = rng.randrange(4)
    fault_log = f"/tmp/ranktrace-stacks-{number}.jsonl"
    sim = subprocess.Popen([job.RANKTRACE, "sim", "job", "--ranks", "4", "--steps", "5000", "--quiet", "--seed",
                            str(number),
                            "--fault", f"hang:rank={rank},step=8", "--fault-log", fault_log])
    try:
        end = time.monotonic() + 60
        while time.monotonic() < end and not job.lines(fault_log):
            time.sleep(0.1)
        job.check(job.lines(fault_log), "the fault did not happen")
        time.sleep(1.5)
        # On a busy machine one of the others may still be on its way into its wait.
        for _ in range(10):
            groups = groups_of(sim.pid)
            culprit = [i for i, (b, _) in enumerate(groups) if "hooks_before_op (simjob)" in b]
            waiters = [i for i, (b, ranks) in enumerate(groups) if ranks == sorted({0, 1, 2, 3} - {rank})]
            if waiters:
                break
            time.sleep(0.3)
        print(f"hang of rank {rank}: {len(groups)} groups, "
              f"{groups[culprit[0]][0].splitlines()[0] if culprit else None}")
        job.check(len(culprit) == 1 and groups[culprit[0]][1] == [rank], f"rank {rank} is not alone: {groups}")
        job.check(waiters and culprit[0] < min(waiters), f"rank {rank} does not stand before the others: {groups}")
        job.check("rank_main (simjob)" in groups[culprit[0]][0] and "[kernel] " in groups[culprit[0]][0],
                  f"{groups[culprit[0]]}")
    finally:
        sim.terminate()
        sim.wait()
        os.unlink(fault_log)


def refuses():
    out = subprocess.run([job.RANKTRACE, "ps", "--pid", "1"], capture_output=True, text=True)
    job.check(out.returncode == 2, f"--pid without --stacks: {out.returncode}")
    gone = subprocess.Popen(["true"])
    gone.wait()
    out = subprocess.run([job.RANKTRACE, "ps", "--stacks", "--pid", str(gone.pid)], capture_output=True, text=True)
    job.check(out.returncode == 3 and "has ended" in out.stderr and not out.stdout,
              f"a process that is gone: {out.returncode} {out.stderr}")


job.need_root()
random, number = job.seed()
found = interpreters()
job.check(found, "no CPython of 3.9 or later on this machine, not even the one that runs this")
for i, (path, version) in enumerate(found):
    python_case(path, version, fork=True, contained=i % 2 == number % 2)
hung_job(number, random)
refuses()
