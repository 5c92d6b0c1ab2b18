# SPDX-License-Identifier: Apache-2.0
"""ranktrace autopsy --merge: the looks of several hosts as one verdict, the same as over the whole; a host that is
missing; files that make no sense together. The hosts are halves of one job's ranks, under host names of their own."""
import json
import os
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import faults
import job


def ranks_of(a):
    with open(f"/proc/{a.process.pid}/task/{a.process.pid}/children") as f:
        return [int(p) for p in f.read().split()]


def look(a, host, pids, pipe=False):
    """One host's own look, as a parallel shell would run it there."""
    path = f"{a.dir}/{host}.rtr"
    argv = " ".join([job.RANKTRACE, "autopsy", "--quiet", "--raw", "-" if pipe else path,
                     *(f"--pid {p}" for p in pids)])
    with open(path if pipe else os.devnull, "wb") as out:
        done = subprocess.run(["unshare", "--uts", "sh", "-c", f"hostname {host} && exec {argv}"], stdout=out,
                              stderr=subprocess.PIPE)
    job.check(done.returncode == 0, f"--raw: {done.returncode} {done.stderr}")
    return path


def merge(*args):
    done = subprocess.run([job.RANKTRACE, "autopsy", "--merge", *args], capture_output=True, text=True)
    job.check(done.returncode in (0, 1, 2), f"--merge: {done.returncode} {done.stderr}")
    return done


def findings(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def verdict(f):
    return {k: f[k] for k in ("kind", "class", "cause", "ranks", "pids", "comm", "op", "seq", "job")}


def refuses(what, *args):
    done = merge(*args)
    job.check(done.returncode == 2 and what in done.stderr and not done.stdout, f"not refused for '{what}': {done}")


def cut(path, share):
    with open(path, "rb") as f:
        data = f.read()
    with open(path + ".cut.rtr", "wb") as f:
        f.write(data[:int(len(data) * share)])
    return path + ".cut.rtr"


job.need_root()
rng, number = job.seed()
rank, step, drawn = faults.draw(rng)
with autopsies.Autopsy(["--ranks", 8, "--steps", 400, "--seed", drawn, "--fault",
                        f"hang:rank={rank},step={step}"]) as a:
    truth = a.wait_fault("hang")
    a.settle()
    whole = a.run_json()
    pids = ranks_of(a)
    job.check(len(pids) == 8, f"ranks: {pids}")
    rng.shuffle(pids)
    at = rng.randrange(2, 7)
    halves = [look(a, "node-a", pids[:at]), look(a, "node-b", pids[at:], pipe=True)]
    merged_rtr = f"{a.dir}/merged.rtr"
    done = merge("--json", "-o", merged_rtr, *halves)
    found = findings(done)
    job.check(done.returncode == 1 and len(found) == 1, f"{done}")
    job.check(list(map(verdict, found)) == list(map(verdict, whole)), f"merged {found}\nwhole {whole}")
    f = found[0]
    host = "node-a" if truth["pid"] in pids[:at] else "node-b"
    job.check(f["host"] == host and f["ranks"] == [rank], f"rank {rank} was on {host}: {f}")
    for name in ("kernel_wait", "native_frame", "waiting_ranks", "waiting_in"):
        job.check(f["evidence"][name] == whole[0]["evidence"][name], f"{name}: {f['evidence']}")
    again = subprocess.run([job.RANKTRACE, "replay", "-q", "--json", merged_rtr], capture_output=True, text=True)
    job.check(again.stdout == done.stdout, f"replay differs:\n{done.stdout}\n{again.stdout}")
    text = merge("--quiet", *halves).stdout
    first, where = text.splitlines()[:2]
    job.check(f" rank {rank} has not entered " in first and f"host {host}" in where and f"pid {truth['pid']}" in where,
              text)
    job.check("8 ranks on node-" in text, text)
    print(f"  8 ranks as {at} and {8 - at}: rank {rank} on {host}, as over the whole")

    some = [x for x in pids if x != truth["pid"]][:6]  # the others are there, only not asked for
    done = subprocess.run([job.RANKTRACE, "autopsy", "--json", *(f"--pid={p}" for p in some)], capture_output=True,
                          text=True)
    job.check(done.returncode == 0 and not done.stdout, f"somebody is named for not being asked for: {done}")
    left = halves[0] if host == "node-b" else halves[1]  # the half without the culprit
    done = merge("--json", left)
    job.check(not [f for f in findings(done) if f["kind"] == "hang" and f["confidence"] >= 0.5],
              f"a wrong name: {done.stdout}")
    refuses("both of host", halves[0], halves[0])
    refuses("no ranktrace recording", halves[0], "/etc/passwd")
    refuses("No such file", halves[0], f"{a.dir}/none.rtr")
    refuses("before its first round of samples is complete", halves[0], cut(halves[1], 0.3))
    # half of the ranks gone from the report: said, and no rank is named for it
    third = look(a, "node-c", pids[at:-1])
    done = merge("--json", halves[0], third)
    lost = [f for f in findings(done) if f["cause"] == "no_host_told"]
    job.check(len(lost) == 1 and len(lost[0]["ranks"]) == 1, f"{done.stdout}")
    missing = [f["ranks"] for f in findings(done) if f["class"] == "missing_enter"]
    job.check(truth["pid"] == pids[-1] or missing == [[rank]], done.stdout)
    job.check("nothing is known of 1 of 8" in merge("--quiet", halves[0], third).stdout,
              "the missing rank is not reported")
with autopsies.Autopsy(["--ranks", 2, "--steps", 2000, "--seed", drawn]) as b:
    while len(job.lines(b.ops_log)) < 40:
        time.sleep(0.1)
    refuses("in common", halves[0], look(b, "node-d", ranks_of(b)))
done = subprocess.run([job.RANKTRACE, "autopsy", "--merge"], capture_output=True, text=True)
job.check(done.returncode == 2, "no files")
