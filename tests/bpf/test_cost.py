# SPDX-License-Identifier: Apache-2.0
"""Each BPF program against its budget (instructions.txt): instructions that the verifier walks through at its load, so
that none grows unseen. What programs cost when they run is printed beside it and no test: times differ by machine."""
import json
import os
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../aid"))
import job

STATS = "/proc/sys/kernel/bpf_stats_enabled"


def budgets():
    with open(f"{HERE}/instructions.txt", encoding="utf-8") as f:
        rows = [line.split() for line in f if line.strip() and not line.startswith("#")]
    return {name: int(n) for name, n in rows}


def programs(pid):
    """Name -> facts of each program that the process holds: /proc says what bpftool does not."""
    ids = {}
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        try:
            with open(f"/proc/{pid}/fdinfo/{fd}", encoding="utf-8") as f:
                words = dict(line.split(":", 1) for line in f if ":" in line)
        except FileNotFoundError:
            continue
        if "verified_insns" in words:
            ids[int(words["prog_id"])] = {k: int(words[k]) for k in ("verified_insns", "run_cnt", "run_time_ns")}
    shown = subprocess.run(["bpftool", "-j", "prog", "show"], capture_output=True, text=True, check=True).stdout
    return {p["name"]: ids[p["id"]] for p in json.loads(shown) if p["id"] in ids}


def stats(value):
    with open(STATS, "r+", encoding="utf-8") as f:
        before = f.read()
        f.seek(0)
        f.write(value)
    return before


def run(names):
    """A session of tier burst over a job that runs for some steps, until all these programs are loaded."""
    argv = [job.RANKTRACE, "record", "-q", "--tier", "burst", "--", job.RANKTRACE, "sim", "job", "-q", "--ranks=2",
            "--steps=200", "--step-ms=50"]
    session = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    found = {}
    while session.poll() is None:
        time.sleep(0.5)
        try:
            found.update(programs(session.pid))
        except FileNotFoundError:
            pass
        if set(found) >= names and any(p["run_cnt"] > 1000 for p in found.values()):
            session.send_signal(signal.SIGINT)
    return found


def main():
    job.need_root()
    limits = budgets()
    before = stats("1")
    try:
        found = run(set(limits))
    finally:
        stats(before)
    bad = [f"{name}: no line in instructions.txt" for name in sorted(set(found) - set(limits))]
    bad += [f"{name}: in instructions.txt, and not loaded" for name in sorted(set(limits) - set(found))]
    for name, p in sorted(found.items()):
        ns = f"{p['run_time_ns'] / p['run_cnt']:6.0f} ns in {p['run_cnt']} runs" if p["run_cnt"] else "not run"
        print(f"{name:32} {p['verified_insns']:7} of {limits.get(name, 0):7} instructions, {ns}")
        if p["verified_insns"] > limits.get(name, 0):
            bad.append(f"{name}: {p['verified_insns']} instructions, more than {limits.get(name, 0)}")
    for line in bad:
        print(line)
    sys.exit(1 if bad or not found else 0)


if __name__ == "__main__":
    main()
