# SPDX-License-Identifier: Apache-2.0
# runs alone: compares the speed of calls
"""A process that maps the same libraries but is no target runs at its old speed: paired windows, medians of the
ratio."""
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job

CALLS, CHUNKS = 1000, 40
LIB = os.path.join(job.O, "lib/ranktrace/sim/libnccl.so.2")


def chunk(lib):
    begin = time.perf_counter_ns()
    for _ in range(CALLS):
        lib.ncclGroupStart()
        lib.ncclGroupEnd()
    return (time.perf_counter_ns() - begin) / CALLS


def window(lib):
    """ns per pair of calls; the fastest chunk, since the machine is shared and a trap would slow every one."""
    return min(chunk(lib) for _ in range(CHUNKS))


def bystander():
    """Prints the cost of one pair of calls at each line on stdin."""
    lib = ctypes.CDLL(LIB)
    window(lib)
    for _ in sys.stdin:
        print(window(lib), flush=True)


def ask(p):
    p.stdin.write("\n")
    p.stdin.flush()
    return float(p.stdout.readline())


def start():
    return subprocess.Popen([sys.executable, "-B", __file__, "bystander"], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)


def main():
    job.need_root()
    by, target = start(), start()
    ask(by), ask(target)
    ratios, control = [], []
    for _ in range(3):
        off_by, off_target = ask(by), ask(target)
        again = ask(by)
        with tempfile.NamedTemporaryFile(prefix="ranktrace-bystander-") as log:
            tracer = subprocess.Popen([job.RANKTRACE, "record", *job.NO_BUDGET, "--pid", str(target.pid)], stderr=log)
            job.wait_session(tracer, log.name, job.has_probes)
        time.sleep(0.5)
        on_by, on_target = ask(by), ask(target)
        tracer.terminate()
        tracer.wait()
        ratios.append(on_by / off_by)
        control.append((again / off_by, on_target / off_target))
    aa, hit = (statistics.median(c[i] for c in control) for i in (0, 1))
    ratio = statistics.median(ratios)
    print(f"bystander {ratio:.3f}, A/A {aa:.3f}, the target itself {hit:.1f} (ratios of ns per call, traced to not)")
    job.check(hit > 5, "the target was not probed: this test would prove nothing")  # 10 to 60 by machine
    bar = 1.3 if os.environ.get("LONG") else 4  # probed it would be as slow as the target: a busy machine is not that
    job.check(ratio < bar, f"the bystander slowed down by {ratio:.2f}")
    for p in (by, target):
        p.stdin.close()
        p.wait()


bystander() if len(sys.argv) > 1 else main()
