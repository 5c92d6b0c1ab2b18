# SPDX-License-Identifier: Apache-2.0
"""Collections of garbage in three interpreters at once, in ranks without PyTorch: by the marks that Debian compiles in,
by the function where the file has symbols, and not at all where it has neither, which is said; the rank is traced all
the same. Each long collection has the begin and the end that the interpreter's own callbacks say, and an interpreter
that is no rank is left alone. A rank without Python lacks nothing."""
import glob
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import rtr

MARKED = "/usr/bin/python3"
WIRE_PYTHON, PYTHON_GC = 9, 1
NEAR_NS, COLLECTIONS = 1_000_000, 3
RANK = """
import gc, sys, time
gc.disable()
heap = [[] for _ in range(300000)]
begin = 0
def note(what, _):
    global begin
    if what == "start":
        begin = time.monotonic_ns()
    else:
        print(begin, time.monotonic_ns(), flush=True)
for line in sys.stdin:
    for _ in range(100):
        gc.collect(0)
    gc.callbacks[:] = [note]
    gc.collect()
    gc.callbacks[:] = []
"""

job.need_root()
folder = tempfile.mkdtemp(prefix="ranktrace-python-gc-")
job.dirs.append(folder)


def interpreters():
    """(name, program, environment) of what is here; the last one has neither marks nor symbols."""
    found = []
    notes = subprocess.run(["readelf", "-n", MARKED], capture_output=True, text=True).stdout
    if "gc__start" in notes:
        found.append(("marks", MARKED, {}))
    for library in sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.1[0-3]*/lib/libpython3.1?.so.1.0"))):
        names = subprocess.run(["nm", library], capture_output=True, text=True).stdout
        home = os.path.dirname(os.path.dirname(library))
        if " gc_collect_main\n" in names and "gc__start" not in subprocess.run(
                ["readelf", "-n", library], capture_output=True, text=True).stdout:
            bare = f"{folder}/{os.path.basename(library)}"
            shutil.copy(library, bare)
            subprocess.run(["strip", bare], check=True)
            found.append(("function", f"{home}/bin/python3", {}))
            found.append(("neither", f"{home}/bin/python3", {"LD_LIBRARY_PATH": folder}))
            break
    return found or job.skip("no interpreter with marks or symbols here")


def start(program, env, rank):
    env = dict(os.environ, **env, **({"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": "3"} if rank >= 0 else {}))
    return subprocess.Popen([program, "-c", RANK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)


def collect(p):
    p.stdin.write("\n")
    p.stdin.flush()
    return tuple(map(int, p.stdout.readline().split()))


def collections_check(name, own, seen):
    """`own`: (begin, end) by the callbacks, which run right outside of the marks."""
    if name == "neither":
        job.check(not seen, f"collections without marks or symbols: {seen}")
        return
    for own_begin, own_end in own:
        inside = [(begin, end) for begin, end, _ in seen if own_begin <= begin and end <= own_end]
        job.check(len(inside) == 1, f"{name}: {len(inside)} records of one collection: {own} {seen}")
        late = max(inside[0][0] - own_begin, own_end - inside[0][1])
        job.check(late <= NEAR_NS + (own_end - own_begin) // 20, f"{name}: {late / 1e6:.2f} ms beside the callbacks")


def semaphores(pid):
    """Is anybody looked for in this process? Its own counters, in the memory of Debian's interpreter."""
    out = subprocess.run(["readelf", "-n", MARKED], capture_output=True, text=True).stdout
    at = [int(line.split("Semaphore: ")[1], 16) for line in out.splitlines() if "Semaphore" in line]
    with open(f"/proc/{pid}/mem", "rb") as mem:
        return [struct.unpack("H", os.pread(mem.fileno(), 2, a))[0] for a in at]


def semaphores_gone(pid):
    """The kernel takes probes away some time after the tracer's end."""
    end = time.monotonic() + 20
    while sum(semaphores(pid)) and time.monotonic() < end:
        time.sleep(0.1)
    return semaphores(pid)


kinds = interpreters()
plain = subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=dict(os.environ, RANK="9", LOCAL_RANK="0", WORLD_SIZE="3"))
ranks = [start(program, env, r) for r, (_, program, env) in enumerate(kinds)]
other = start(kinds[0][1], kinds[0][2], -1)
with open(f"{folder}/stderr", "w") as err:
    tracer = subprocess.Popen([job.RANKTRACE, "record", "-v", "--budget=no", "--budget-node=no", "-o",
                               f"{folder}/f.rtr", "-o", f"{folder}/f.pftrace",
                               *(f"--pid={p.pid}" for p in (*ranks, plain))], stderr=err)
try:
    n_probes = 2 * sum(name != "neither" for name, _, _ in kinds)
    job.wait_session(tracer, f"{folder}/stderr", lambda line: f", {n_probes} probes, " in line)
    own = [[collect(p) for _ in range(COLLECTIONS)] for p in ranks]
    collect(other)
    if kinds[0][0] == "marks" and open(MARKED, "rb").read()[16] == 2:  # no PIE: addresses are the file's
        job.check(sum(semaphores(ranks[0].pid)) == 2, f"a rank's counters: {semaphores(ranks[0].pid)}")
        job.check(sum(semaphores(other.pid)) == 0, "an interpreter that is no rank is told that somebody looks")
finally:
    tracer.send_signal(signal.SIGINT)
    tracer.wait(60)
    counters = semaphores_gone(ranks[0].pid) if kinds[0][0] == "marks" else []
    for p in (*ranks, other, plain):
        p.kill()
job.check(sum(counters) == 0, f"counters stay behind: {counters}")
with open(f"{folder}/stderr") as f:
    said = f.read()
seen = {p.pid: [] for p in (*ranks, plain)}
for tracer_id, kind, pid, _, ts, body in rtr.whole_records(f"{folder}/f.rtr"):
    if (tracer_id, kind) == (WIRE_PYTHON, PYTHON_GC):
        begin, busy, n = struct.unpack_from("QQI", body)
        seen[pid].append((begin, ts, busy))
for r, (name, _, _) in enumerate(kinds):
    collections_check(name, own[r], seen[ranks[r].pid])
    print(f"{name}: {len(seen[ranks[r].pid])} records, {(own[r][0][1] - own[r][0][0]) / 1e6:.0f} ms", flush=True)
blind = sum(name == "neither" for name, _, _ in kinds)
job.check(said.count("not visible: garbage collection") == blind, f"of {blind} interpreters: {said}")
