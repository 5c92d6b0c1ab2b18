# SPDX-License-Identifier: Apache-2.0
"""Containers: another libnccl under the host's path, two containers of one image, a library replaced under a running
job. The truth is the job's own log each time; the log's pids are the container's, so operations are distinguished by
rank."""
import collections
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job

SIM = os.path.join(os.path.realpath(job.O), "lib/ranktrace/sim")
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "container.sh")
POD = "6a1e5c3b-0f6d-4b7e-9d55-%012x"
RANKS = 4


def folder(name):
    path = tempfile.mkdtemp(prefix=f"ranktrace-{name}-")
    job.dirs.append(path)
    return path


def sim(path, name, seed, steps, *args):
    return [os.path.realpath(job.RANKTRACE), "sim", "job", "--ranks", str(RANKS), "--steps", str(steps), "--seed",
            str(seed),
            "--job-id", name, "--log", f"{path}/ops.jsonl", "--fault-log", f"{path}/faults.jsonl", "--quiet", *args]


def record(path, command, *args):
    err = open(f"{path}/stderr", "w+")
    out = subprocess.Popen([job.RANKTRACE, "record", "--json", *job.NO_BUDGET, "-o", f"{path}/job.rtr", *args,
                            *(["--", *command] if command else [])],
                           stdout=subprocess.PIPE, stderr=err, text=True)
    return out


def end(process, path):
    try:
        out, _ = process.communicate(timeout=90)
    except subprocess.TimeoutExpired:
        process.kill()
        job.fail(f"the session did not end: {open(f'{path}/stderr').read()}")
    return process.returncode, [json.loads(line) for line in out.splitlines()], open(f"{path}/stderr").read()


def seen(path):
    out = subprocess.run([job.RANKTRACE, "replay", "-q", "--ops", f"{path}/job.rtr"], capture_output=True, text=True)
    job.check(out.returncode in (0, 1), f"replay: {out.stderr}")
    return [json.loads(line) for line in out.stdout.splitlines()]


def compare(what, truth, ops):
    missing, extra = job.compare_ops([dict(o, pid=0) for o in truth], [dict(o, pid=0) for o in ops])
    print(f"{what}: {len(truth)} operations, {len(missing)} missing, {len(extra)} extra")
    job.check(truth, f"{what}: the job logged nothing")
    job.check(not missing and not extra, f"{what}: missing {missing[:4]} extra {extra[:4]}")


def ranks_of(name, n=RANKS, timeout=40):
    """The job's ranks as ps sees them, once all were read: it looks once, and a busy machine does not answer all."""
    limit = time.monotonic() + timeout
    while time.monotonic() < limit:
        out = subprocess.run([job.RANKTRACE, "ps", "--json"], capture_output=True, text=True)
        found = [p for p in map(json.loads, out.stdout.splitlines())
                 if p["job"] == name and p["rank"] >= 0 and not p["is_child"] and nccl_of(p) and p["ns_pid"]]
        if len(found) == n:
            return found
        time.sleep(0.2)
    job.fail(f"{name}: ps shows {len(found)} of {n} ranks: {out.stdout}")


def nccl_of(p):
    return next((lib for lib in p["libs"] if "nccl" in lib["tracers"].split(",")), None)


def other_library(rng, number):
    """A container and the host run different builds of libnccl under one path, both traced, with a fault inside."""
    pod, container = POD % rng.randrange(1 << 48), "%064x" % rng.getrandbits(256)
    inside, outside = folder("inside"), folder("outside")
    names = f"in-{number}", f"out-{number}"
    rank = rng.randrange(RANKS)
    a = record(inside, ["bash", SCRIPT, inside, f"{SIM}/layout1/libnccl.so.2",
                        f"kubepods/burstable/pod{pod}/{container}",
                        *sim(inside, names[0], rng.randrange(1 << 30), 150, "--extra-ops", "--fault",
                             f"stop:rank={rank},step=30,sec=3")])
    # long enough for a busy machine's ps, which is asked for the two one after the other
    b = record(outside, sim(outside, names[1], rng.randrange(1 << 30), 250, "--extra-ops"))
    ins, outs = ranks_of(names[0]), ranks_of(names[1])
    libs = [{(nccl_of(p)["path"], nccl_of(p)["build_id"]) for p in ps} for ps in (ins, outs)]
    print(f"inside {libs[0]}, outside {libs[1]}, pids {[(p['pid'], p['ns_pid']) for p in ins]}")
    job.check(len(libs[0]) == len(libs[1]) == 1, "one library each")
    (path_in, id_in), (path_out, id_out) = libs[0].pop(), libs[1].pop()
    job.check(path_in == path_out and id_in != id_out, f"{path_in} {id_in}, {path_out} {id_out}")
    for p in ins:
        job.check(p["ns_pid"] != p["pid"] and p["ns_pid"] < 100, f"in-container pid: {p}")
        job.check(p["pod"] == pod and p["container"] == container[:12], f"pod and container: {p}")
    job.check(all(p["pod"] == "" and p["ns_pid"] == p["pid"] for p in outs), "the host's job has no pod")
    (code_in, findings, err), (code_out, quiet, err_out) = end(a, inside), end(b, outside)
    compare("another libnccl in a container", job.lines(f"{inside}/ops.jsonl"), seen(inside))
    compare("the host's beside it", job.lines(f"{outside}/ops.jsonl"), seen(outside))
    hang = next((f for f in findings if f["phase"] == "open" and f["ranks"] == [rank]), None)
    job.check(code_in == 1 and hang, f"the stopped rank {rank}: exit {code_in}, {findings}, {err}")
    job.check(hang["evidence"].get("pod") == pod and hang["evidence"].get("container") == container[:12],
              f"evidence: {hang['evidence']}")
    cgroup_remove(f"kubepods/burstable/pod{pod}/{container}")
    job.check(code_out == 0 and not quiet, f"findings on the host: {quiet} {err_out}")


def two_containers(rng, number):
    """Two containers of one overlay image: their library is one inode to the kernel, each operation is counted once."""
    top = folder("image")
    paths = [f"{top}/a", f"{top}/b"]
    starts = []
    for path, name in zip(paths, "ab"):
        os.mkdir(path)
        starts.append(["bash", SCRIPT, path, "-", "-",
                       *sim(path, f"{name}-{number}", rng.randrange(1 << 30), 23, "--port", str(29600 + ord(name)),
                            "--extra-ops")])
    both = " & ".join(" ".join(s) for s in starts) + " & wait"
    code, findings, err = end(record(top, ["bash", "-c", both]), top)
    truth = [o for path in paths for o in job.lines(f"{path}/ops.jsonl")]
    compare("two containers of one image", truth, seen(top))
    job.check(code == 0 and not findings, f"findings: {findings} {err}")


def replaced_library(rng, number):
    """An upgrade replaces the file under a running job; the attach comes after it and works by the mapped one."""
    path = folder("replaced")
    library = f"{path}/libnccl.so.2"
    subprocess.run(["cp", "-L", f"{SIM}/layout1/libnccl.so.2", library], check=True)
    name = f"replaced-{number}"
    process = subprocess.Popen(sim(path, name, rng.randrange(1 << 30), 350, "--nccl-lib", library))
    before = ranks_of(name)
    while len(job.lines(f"{path}/ops.jsonl")) < 400 and process.poll() is None:
        time.sleep(0.1)
    subprocess.run(["cp", "-L", f"{SIM}/layout2/libnccl.so.2", f"{path}/new"], check=True)
    os.rename(f"{path}/new", library)
    after = ranks_of(name)
    job.check({nccl_of(p)["build_id"] for p in before} == {nccl_of(p)["build_id"] for p in after}, f"{before} {after}")
    job.check(all(nccl_of(p)["deleted"] and not nccl_of(q)["deleted"] for p, q in zip(after, before)),
              f"deleted: {after}")
    code, findings, err = end(record(path, [], "--pid", str(process.pid)), path)
    process.wait()
    ops = [o for o in seen(path) if o["op"] in job.COUNTED]
    first = collections.defaultdict(lambda: 1 << 63)
    for o in ops:
        first[o["pid"]] = min(first[o["pid"]], o["t_ns"])
    job.check(len(first) == RANKS, f"operations of {len(first)} ranks: {err}")
    met = set(map(job.op_key, ops))  # the job logs before it calls, and may lose its CPU in between
    truth = [o for o in job.lines(f"{path}/ops.jsonl") if o["op"] in job.COUNTED and
             (o["t_ns"] >= first[o["pid"]] - 200_000 or job.op_key(o) in met)]
    compare("a replaced library, attached late", truth, ops)
    job.check(min(o["seq"] for o in ops) > 0, "attached before the start?")
    job.check(code == 0 and not findings, f"findings: {findings} {err}")


def cgroup_remove(name):
    """As far up as it is empty."""
    root = "/sys/fs/cgroup" if os.path.exists("/sys/fs/cgroup/cgroup.procs") else "/sys/fs/cgroup/systemd"
    try:
        while name:
            os.rmdir(f"{root}/{name}")
            name = os.path.dirname(name)
    except OSError:
        pass


def supported():
    """A kernel or sandbox without overlay mounts cannot run this test."""
    path = folder("try")
    out = subprocess.run(["bash", SCRIPT, path, "-", "-", "true"], capture_output=True, text=True)
    return out.stderr.strip() if out.returncode else ""


job.need_root()
why = supported()
if why:
    job.skip(f"no containers here: {why.splitlines()[-1]}")
random, number = job.seed()
replaced_library(random, number)
two_containers(random, number)
other_library(random, number)
