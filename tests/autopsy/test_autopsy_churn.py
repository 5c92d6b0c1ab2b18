# SPDX-License-Identifier: Apache-2.0
"""ranktrace autopsy beside thousands of processes that live for milliseconds, and beside a process that holds NCCL's
magic number, 100 GB of address space and mappings that come and go: the verdict is the same, and time and memory stay
bounded."""
import os
import resource
import subprocess
import sys
import textwrap
import threading
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import faults
import job

HOSTILE = textwrap.dedent("""
    import mmap, os, random, struct, sys, time
    try:
        space = mmap.mmap(-1, 100 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)  # MAP_NORESERVE
    except OSError:  # a host that gives no more than it has
        space = mmap.mmap(-1, 1 << 26, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    magic = struct.pack("<Q", 0x0280028002800280)
    lies = bytearray(magic * (8 << 17))
    space[:len(magic)] = magic
    print("there", flush=True)
    while True:
        come = mmap.mmap(-1, 1 << 22, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        come[:8] = magic
        come.close()
        time.sleep(0.0005)
""")


def churn(end, count):
    while not end.is_set():
        p = subprocess.Popen(["true"])
        p.wait()
        count[0] += 1


job.need_root()
rng, number = job.seed()
rank, step, drawn = faults.draw(rng)
env = dict(os.environ, RANK="8", LOCAL_RANK="8", WORLD_SIZE="9")
hostile = subprocess.Popen([sys.executable, "-c", HOSTILE], env=env, stdout=subprocess.PIPE)
hostile.stdout.readline()
end, count = threading.Event(), [0]
threads = [threading.Thread(target=churn, args=(end, count), daemon=True) for _ in range(2)]
try:
    with autopsies.Autopsy(["--ranks", 8, "--steps", 400, "--seed", drawn, "--fault",
                            f"hang:rank={rank},step={step}"]) as a:
        truth = a.wait_fault("hang")
        a.settle()
        for t in threads:
            t.start()
        time.sleep(0.5)
        before, begin = count[0], time.monotonic()
        found = a.run_json("--pid", hostile.pid)
        during = count[0] - before
        peak_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"  {during} processes came and went meanwhile; {a.wall_s:.2f} s, {peak_mb:.0f} MB at most (of any child "
              f"of this test)")
        job.check(during > 20, f"only {during} processes came and went")
        job.check(a.code == 1 and [f["ranks"] for f in found] == [[rank]], f"exit {a.code}: {found}\n{a.err}")
        job.check(found[0]["class"] == "missing_enter" and found[0]["pids"] == [truth["pid"]], f"{found}")
        job.check(a.wall_s < 20 and peak_mb < 1024, f"{a.wall_s:.1f} s, {peak_mb:.0f} MB")
        job.check(hostile.poll() is None, "the other process did not live through it")
        # every process of the host
        everywhere = subprocess.run([job.RANKTRACE, "autopsy", "--json"], capture_output=True, text=True)
        job.check(everywhere.returncode < 4, f"{everywhere.returncode} {everywhere.stderr}")
finally:
    end.set()
    for t in threads:
        if t.is_alive():
            t.join(5)
    hostile.kill()
    hostile.wait()
