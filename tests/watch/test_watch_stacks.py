# SPDX-License-Identifier: Apache-2.0
"""What the culprit of a hang is doing, in a live session: watch, and record on a job that hangs already, report it as
the finding opens or well within a second, as an autopsy would; a culprit whose memory cannot be read costs the session
no sample. The terminal says it once."""
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import faults
import job
import outside
import python_jobs


def reported(s, h, keys):
    """The line of the hang that first says one of these."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        for f in list(s.findings):
            if f["id"] == h["id"] and keys & set(f["evidence"]):
                return f
        time.sleep(0.1)
    job.fail(f"nothing says {keys}: {s.findings}\n{s.stderr()}")


def check_reported(s, h):
    f = reported(s, h, {"stack", "stack_end", "stack_unread"})
    late = (f["t_ns"] - h["t_ns"]) / 1e9
    print(f"  {f['phase']} {late:.2f} s after the open: {f['evidence'].get('native_frame')}")
    job.check(f["phase"] in ("open", "update") and late <= job.bar(1), f"{f['phase']} {late:.2f} s after the open")
    return reported(s, h, {"waiting_in"}) if "stack" in f["evidence"] else f


def check_once(s):
    """As people read it: a stall is printed once, with its call site."""
    text = subprocess.run([job.RANKTRACE, "replay", s.rtr], capture_output=True, text=True).stdout
    said = [line for line in text.splitlines() if "WARNING stall" in line and "OVER, was" not in line]
    job.check(len(said) == 1 and "\n  why     at " in text, f"said {len(said)} times:\n{text}")


def check_gap(s):
    text = s.stderr()
    gap = float(text[text.rindex("longest gap between two polls "):].split()[5])
    job.check(gap <= job.bar(1), f"{gap} s between two samples")
    return gap


def hang(rng, fault, command, *args):
    """Replay gives the same: Session.stop() compares."""
    rank, step, number = faults.draw(rng, first=25, last=60)
    with autopsies.Autopsy(["--ranks", 8, "--steps", 2000, "--step-ms", 50, "--seed", number, "--fault",
                            fault.format(rank=rank, step=step)]) as a:
        if command == "record":
            a.wait_fault(fault.split(":")[0])
            a.settle()
        s = outside.Session(a, command, *args)
        h = s.wait(60, kind="hang", phase="open")
        job.check(h and h["ranks"] == [rank], f"named {h}, not rank {rank}; {s.findings}\n{s.stderr()}")
        f = check_reported(s, h)
        if command == "record":  # autopsies.check_call_site() wants all seven waiting, which only who hangs at once are
            time.sleep(1)
        autopsies.check_call_site(f, fault)
        time.sleep(3)
        job.check(s.stop() == 1, "exit code is not 1")
        wrong = s.others(rank)
        job.check(not wrong, f"others are named: {wrong}")
        if h["severity"] == "warning":
            check_once(s)
        lines = [x for x in s.findings if x["id"] == h["id"]]
        job.check(len(lines) <= 4, f"one hang, {len(lines)} lines: {lines}")
        print(f"  {command} {fault.split(':')[0]} rank {rank}; longest gap {check_gap(s):.2f} s")


def line_of(source, text):
    with open(source) as f:
        return next(n for n, line in enumerate(f, 1) if text in line)


def python(rng):
    rank = rng.randrange(3)
    a = python_jobs.PythonJob(3, rank, rng.randrange(150, 200))
    s = outside.Session(a, "watch", "--no-raise")
    h = s.wait(60, kind="hang", phase="open")
    outside.check_rank(s, h, rank, "missing_enter")
    e = check_reported(s, h)["evidence"]
    line = line_of(a.source, "# the culprit")
    job.check(e.get("python", "").endswith(f"python_job.py:{line} load_batch"),
              f"python {e.get('python')}, line {line} of load_batch: {e}")
    job.check(e["waiting_in"].startswith("2 of 2 others: ") and e["waiting_in"].endswith("must"),
              f"waiting_in {e['waiting_in']}")
    job.check(s.stop() == 1 and not s.others(rank), f"{s.findings}")
    check_once(s)
    a.kill()


def main():
    job.need_root()
    rng, _ = job.seed()
    python(rng)
    hang(rng, "hang:rank={rank},step={step}", "watch", "--no-raise")
    hang(rng, "hang:rank={rank},step={step}", "watch")
    hang(rng, "dstate-mm:rank={rank},step={step},sec=20", "watch", "--no-raise")
    hang(rng, "hang:rank={rank},step={step}", "record")


if __name__ == "__main__":
    main()
