# SPDX-License-Identifier: Apache-2.0
"""The collector is stopped (SIGSTOP) for longer than rings are of use, then goes on. The job does not notice: its rate
stays. From 10 s on probes return at once: the calls from then to its return, and only these, are missing, counted and
said; nobody is accused of them, and a rank that stops afterwards is named."""
import os
import re
import signal
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job

AWAY_S = 10  # COLLECTOR_AWAY_NS
STOP_S = 60 if job.LONG else 13


def rate(ops, begin_ns, end_ns):
    return sum(begin_ns <= o["t_ns"] < end_ns for o in ops) / (end_ns - begin_ns) * 1e9


def stop_a_rank(j, rank):
    pid = next(o["pid"] for o in job.lines(j.ops_log) if o["rank"] == rank)
    os.kill(pid, signal.SIGSTOP)
    try:
        return j.wait_finding(60, kind="hang", phase="open")
    finally:
        os.kill(pid, signal.SIGCONT)


def main():
    job.need_root()
    rng, _ = job.seed()
    j = job.Job(["--ranks", 4, "--steps", 100000, "--step-ms", 40, "--seed", rng.randrange(1 << 30)], name="stopped")
    j.wait_begun(2.0)
    begin_ns = time.monotonic_ns()
    j.process.send_signal(signal.SIGSTOP)
    time.sleep(STOP_S)
    end_ns = time.monotonic_ns()
    j.process.send_signal(signal.SIGCONT)
    time.sleep(2)
    roots, rank = j.roots(), rng.randrange(4)
    job.check(not roots, f"accused although nothing is wrong: {roots}")
    last_ns = time.monotonic_ns()  # what the job calls while the session ends is another matter
    h = stop_a_rank(j, rank)
    job.check(h and h["ranks"] == [rank], f"rank {rank} stopped and is not named: {j.findings}\n{j.stderr()}")
    j.stop()
    said = re.search(r"for ([0-9.]+) s probes returned at once", j.stderr())
    job.check(said and abs(float(said[1]) - (STOP_S - AWAY_S)) < 1, f"the gap is not said as it was: {j.stderr()}")
    job.check(any(f["kind"] == "lost_events" for f in j.findings), f"the loss was not reported: {j.findings}")
    truth = job.lines(j.ops_log)
    missing, extra = job.compare_ops(truth, j.replay("--ops"))
    at = {job.op_key(o): (o["t_ns"] - begin_ns) / 1e9 for o in truth}
    when = sorted(at[k] for k in missing if at[k] < (last_ns - begin_ns) / 1e9)
    before, after = rate(truth, begin_ns - 10 ** 9, begin_ns), rate(truth, end_ns - 3 * 10 ** 9, end_ns)
    print(f"  {before:.0f} operations a second before, {after:.0f} while nobody takes records; {len(when)} missing, "
          f"{when and f'{when[0]:.2f} to {when[-1]:.2f} s'} after the stop; said: {said[0]}")
    job.check(after > before / 2, "the job became slower")
    job.check(not extra, f"invented: {extra[:3]}")
    job.check(when and AWAY_S - 0.3 < when[0] and when[-1] < STOP_S + 0.3, "other operations are missing too")
    job.check(len(when) > (STOP_S - AWAY_S) * after / 2, "records were taken while the collector was away")


main()
