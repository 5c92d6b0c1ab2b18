# SPDX-License-Identifier: Apache-2.0
# runs alone: forks by the thousand, and judges how long the collector did not look
"""Process churn beside a job under trace: execs by the thousand, and processes that map libnccl and are gone. The job's
operations stay exact, looks stay frequent, nothing is found, nothing leaks. And a pid that is used again is another
process. And short jobs that start one after another are seen from their first operation to the last, each once."""
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job

SIM = os.path.join(os.path.realpath(job.O), "lib/ranktrace/sim")


def folder():
    path = tempfile.mkdtemp(prefix="ranktrace-churn-")
    job.dirs.append(path)
    return path


def size_of(pid):
    """Open files and resident memory (KiB) of the collector."""
    with open(f"/proc/{pid}/status") as f:
        rss = next(int(line.split()[1]) for line in f if line.startswith("RssAnon"))
    return len(os.listdir(f"/proc/{pid}/fd")), rss


class Watch(threading.Thread):
    """Samples a process once a second until it ends."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.samples = pid, []
        self.start()

    def run(self):
        try:
            while True:
                self.samples.append(size_of(self.pid))
                time.sleep(0.5)
        except (OSError, StopIteration):
            pass


def replay(path, *args):
    out = subprocess.run([job.RANKTRACE, "replay", "-q", *args, f"{path}/job.rtr"], capture_output=True, text=True)
    job.check(out.returncode in (0, 1), f"replay: {out.stderr}")
    return [json.loads(line) for line in out.stdout.splitlines()]


def record(path, command):
    with open(f"{path}/stderr", "w") as err:
        p = subprocess.Popen([job.RANKTRACE, "record", "-v", "--json", *job.NO_BUDGET, "-o", f"{path}/job.rtr", "-o",
                              f"{path}/job.pftrace", "--", *command],
                             stdout=subprocess.PIPE, stderr=err, text=True)
        watch = Watch(p.pid)
        out, _ = p.communicate(timeout=120)
    return p.returncode, [json.loads(line) for line in out.splitlines()], open(f"{path}/stderr").read(), watch


def storm(seed, what, at_least, seconds):
    path = folder()
    program = job.compiled("storm")
    sim = [job.RANKTRACE, "sim", "job", "--ranks", "2", "--steps", str(15 * seconds + 50), "--seed", str(seed), "--log",
           f"{path}/ops.jsonl",
           "--quiet"]
    both = f"{' '.join(sim)} & sleep 2; {program} {seconds} {what} > {path}/storm.log; wait"
    code, findings, text, watch = record(path, ["bash", "-c", both])
    made, bad = (int(w) for w in open(f"{path}/storm.log").read().split() if w.isdigit())
    truth, ops = job.lines(f"{path}/ops.jsonl"), replay(path, "--ops")
    missing, extra = job.compare_ops(truth, ops)
    gap = float(text[text.rindex("longest gap between two polls "):].split()[5])
    calm = watch.samples[min(4, len(watch.samples) - 1)]                    # the job runs, the storm is about to begin
    files, memory = max(s[0] for s in watch.samples), max(s[1] for s in watch.samples)
    print(f"{os.path.basename(what)}: {made} children in {seconds} s, {bad} failed; {len(truth)} operations, "
          f"{len(missing)} missing, "
          f"{len(extra)} extra; longest gap {gap} s; files {calm[0]}, at most {files}; memory {calm[1]}, at most "
          f"{memory} KiB")
    job.check(made >= (at_least if job.LONG else at_least / 8) and not bad, f"{made} children, {bad} failed: no storm")
    job.check(truth and not missing and not extra, f"missing {missing[:4]} extra {extra[:4]} {text}")
    job.check(gap < (0.6 if job.LONG else 3), f"the collector did not look for {gap} s")
    # that ranks wait for a CPU is no accusation while children are made by the hundred
    wrong = [f for f in findings if f["kind"] not in ("observation", "slow_step") and f["cause"] != "cpu_starved"]
    job.check(code in (0, 1) and not wrong, f"exit {code}, findings {wrong}, {text}")
    # helpers that are late stay with their call, 64 at most, with two files each
    job.check(files < calm[0] + (60 if job.LONG else 200), f"{calm[0]} open files grew to {files}")
    # what is kept of processes that ended has an end: 22 MiB of growth after 45,000 of them, and none after 60,000
    job.check(memory < calm[1] + 24576, f"{calm[1]} KiB grew to {memory} KiB")
    # a process that went before its probes were on is no trouble that anybody has to be told of
    job.check(text.count("stays invisible") + text.count("stay invisible") == 0, f"complaints about the dead: {text}")


def reused_pid():
    """One pid, six jobs after each other: the new one is not taken for the old."""
    path = folder()
    program = job.compiled("reuse")
    script = f"{program} {SIM} 6 > {path}/reuse.log; echo $? > {path}/reuse.code"
    code, findings, text, _ = record(path, ["bash", "-c", script])
    status = open(f"{path}/reuse.code").read().strip()
    if status == "77":
        print("no clone3 with set_tid here: pid reuse left out")
        return
    truth = [tuple(map(int, line.split())) for line in open(f"{path}/reuse.log")]
    seen = {}
    for o in replay(path, "--ops"):
        seen.setdefault((o["pid"], o["comm"]), []).append(o["seq"])
    print(f"pid {truth[0][0]} used {len(truth)} times: {[n for _, n in truth]} all-reduces, seen "
          f"{[len(v) for v in seen.values()]}")
    job.check(status == "0" and len({p for p, _ in truth}) == 1, f"{truth} {text}")
    job.check(sorted((p, list(range(n))) for p, n in truth) == sorted((p, v) for (p, _), v in seen.items()),
              f"{truth} {seen} {text}")
    job.check(code == 0 and not findings, f"exit {code}, findings {findings}, {text}")


def short_jobs(seed, n=8):
    """Some of their ranks are found by a scan before their fork is read, or while others' probes are being closed."""
    path = folder()
    sim = f"{job.RANKTRACE} sim job --ranks 4 --steps 8 --step-ms 20 --seed {seed} --quiet --log {path}/ops"
    script = f"export SIM_CUDA_INIT_MS=300; for i in $(seq {n}); do {sim}$i; done"
    code, findings, text, _ = record(path, ["bash", "-c", script])
    truth = [o for i in range(1, n + 1) for o in job.lines(f"{path}/ops{i}")]
    missing, extra = job.compare_ops(truth, replay(path, "--ops"))
    print(f"{n} jobs one after another: {len(truth)} operations, {len(missing)} missing, {len(extra)} extra")
    job.check(truth and not missing and not extra, f"missing {missing[:4]} extra {extra[:4]} {text}")
    critical = [f for f in findings if f["severity"] == "critical"]
    job.check(code == 0 and not critical, f"exit {code}, findings {critical}, {text}")


job.need_root()
random, number = job.seed()
reused_pid()
short_jobs(random.randrange(1 << 30))
storm(random.randrange(1 << 30), "exec", 1000, 8 if job.LONG else 5)
storm(random.randrange(1 << 30), f"{SIM}/libnccl.so.2", 500, 6 if job.LONG else 4)
