# SPDX-License-Identifier: Apache-2.0
# runs alone: counts a record for each time the caller loses its CPU
"""Ten times more records than a ring holds: every one is received or counted as lost, the loss is drawn and reported
with its remedy, and a job without faults is accused of nothing."""
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import rtr

sys.path.insert(0, "tools")
import check_pftrace

RING = 65536
RECORD_BYTES = 32 + 8 # struct nccl_group, and what the ring adds to a record
PAIRS = 10 * RING // RECORD_BYTES // 2 + 1
BURSTS = 3
LIB = os.path.join(job.O, "lib/ranktrace/sim/libnccl.so.2")


def caller():
    """A burst of calls, each of which is one record, at each line on stdin."""
    lib = ctypes.CDLL(LIB)
    print("ready", flush=True)
    for line in sys.stdin:
        for _ in range(int(line)):
            lib.ncclGroupStart()
            lib.ncclGroupEnd()
        print("done", flush=True)


class Stopped:
    """The collector gets no CPU meanwhile."""

    def __init__(self, tracer):
        self.tracer = tracer

    def __enter__(self):
        self.tracer.send_signal(signal.SIGSTOP)

    def __exit__(self, *_):
        self.tracer.send_signal(signal.SIGCONT)


def lost_drawn(path):
    """Values of the counter track, in the order of time."""
    decoder, trace = check_pftrace.Decoder(), check_pftrace.Trace()
    with open(path, "rb") as f:
        for packet in decoder.packets(f.read()):
            trace.add(packet)
    tracks = {u for u, d in trace.tracks.items() if d.get("name") == "lost records"}
    return [e[5].get("counter_value", 0) for e in sorted(trace.events, key=lambda e: e[:2]) if e[2] in tracks]


def exact():
    where = tempfile.mkdtemp(prefix="ranktrace-overflow-")
    job.dirs.append(where)
    path, trace, log = f"{where}/o.rtr", f"{where}/o.pftrace", f"{where}/stderr"
    p = subprocess.Popen([sys.executable, "-B", __file__, "caller"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         text=True)
    job.check(p.stdout.readline() == "ready\n", "the caller did not start")
    with open(log, "w") as err:
        tracer = subprocess.Popen([job.RANKTRACE, "record", "--json", "--ring-size", str(RING), "--pid", str(p.pid),
                                   "-o", path,
                                   "-o", trace], stdout=subprocess.PIPE, stderr=err, text=True)
    job.wait_session(tracer, log, job.has_probes)
    for _ in range(BURSTS):
        with Stopped(tracer):
            p.stdin.write(f"{PAIRS}\n")
            p.stdin.flush()
            job.check(p.stdout.readline() == "done\n", "the caller died")
        time.sleep(0.3)
    tracer.send_signal(signal.SIGINT)
    out, _ = tracer.communicate(timeout=60)
    p.stdin.close()
    p.wait()
    made = BURSTS * PAIRS * 2
    got = sum((tracer_id, kind) == (rtr.NCCL, rtr.NCCL_GROUP) for tracer_id, kind, *_ in rtr.records(path))
    lost = rtr.losses(path).get(rtr.RING_NORMAL, 0)
    findings = [json.loads(line) for line in out.splitlines()]
    print(f"{made} calls into {BURSTS} x {RING} bytes: {got} records, {lost} lost")
    job.check(got < made / 5, f"{got} of {made} records found room: this test would prove nothing")
    # the caller's own intervals off the CPU use the same ring, and are lost with the rest: many on a busy machine
    job.check(0 <= got + lost - made <= made // 200, f"{got} received + {lost} lost is not {made}")
    drawn = lost_drawn(trace)
    job.check(drawn and drawn[0] == 0 and drawn[-1] == lost and drawn == sorted(drawn), f"drawn: {drawn}, lost {lost}")
    reported = [f for f in findings if f["kind"] == "lost_events"]
    job.check(reported and reported[0]["phase"] == "open", f"no lost_events finding: {findings}")
    job.check(not [f for f in findings if f["kind"] != "lost_events"], f"more than the loss was found: {findings}")
    with open(log) as f:
        text = f.read()
    job.check(f"{lost} records" in text and f"--ring-size {4 * RING}" in text, f"no remedy in:\n{text}")


def blameless(number):
    """A simulated job, half of the time with nobody to empty a ring that holds 10 ms of it."""
    j = job.Job(["--ranks", 4, "--steps", 100000, "--step-ms", 4, "--seed", number], ["--ring-size", RING],
                attach_after=0.5, name="overflow")
    time.sleep(3)
    for _ in range(12):
        with Stopped(j.process):
            time.sleep(0.4)
        time.sleep(0.4)
    time.sleep(1)
    j.stop()
    lost = rtr.losses(j.rtr).get(rtr.RING_NORMAL, 0)
    n = sum(1 for _ in rtr.records(j.rtr))
    print(f"{n} records, {lost} lost; findings: {[(f['kind'], f['class'], f['confidence']) for f in j.opened()]}")
    job.check(lost > 1000, "hardly anything was lost: this test would prove nothing")
    job.check(not j.roots(), f"a job without faults is accused: {j.roots()}")
    job.check(any(f["kind"] == "lost_events" for f in j.findings), "the loss was not reported")
    j.check_replay()


def refusals():
    for size, word in (("100000", "not a power of two"), ("4096", "not between"), ("2147483648", "not between"),
                       ("x", "not a number")):
        out = subprocess.run([job.RANKTRACE, "record", "--ring-size", size, "--all"], capture_output=True, text=True)
        job.check(out.returncode == 2 and word in out.stderr, f"--ring-size {size}: {out.returncode} {out.stderr}")


def main():
    job.need_root()
    _, number = job.seed()
    refusals()
    exact()
    blameless(number)


caller() if len(sys.argv) > 1 else main()
