# SPDX-License-Identifier: Apache-2.0
"""On a machine with one or more NVIDIA GPUs and PyTorch: traces unmodified jobs live. Parts (arguments, default all):
count-* (every NCCL call once, against PyTorch's flight recorder), late (attached in the middle), healthy-*, f1, f3, f5,
f3-graph, f10-* (CPU hog on one rank's core), f11-* (a spin kernel on one rank's compute stream), overhead (paired
windows of step time with and without the trace tier, with an A/A control), addresses; and without a probe (zero.py)
autopsy-* (started after the hang), proxy-* (the same over sockets: a rank stopped, or its proxy thread without a CPU,
in the middle of a transfer), watch-*, untouched-* (step time and page tables), nvml (fields, cost of a look), xid
(tracepoints), duty-* (more GPU work on one rank, from NVML's activity; aa: nobody's; all, sleep, spin: nobody is to be
named). Prints one JSON line a part. RANKTRACE=path of the binary (default: what `make pack` made). Recordings stay in
OUT_DIR (/tmp/ranktrace-gpu)."""
import collections
import glob
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time

import zero
from gpujob import (ENV, GPUS, OUT, RANKTRACE, end, fault_line, findings, kill_ranks, rank_pids, record, say, start,
                    step_times, torchrun)

# PyTorch's names of what it hands to NCCL -> NCCL's own
NAMES = {"all_reduce": "AllReduce", "_all_gather_base": "AllGather", "all_gather": "AllGather",
         "broadcast": "Broadcast",
         "reduce_scatter": "ReduceScatter", "_reduce_scatter_base": "ReduceScatter", "reduce": "Reduce",
         "all_reduce_barrier": "AllReduce"}


def operations(tag):
    out = subprocess.run([RANKTRACE, "replay", "-q", "--ops", f"{OUT}/{tag}.rtr"], capture_output=True, text=True)
    return [json.loads(line) for line in out.stdout.splitlines()]


def recorder(tag, rank):
    with open(f"{OUT}/{tag}.recorder.{rank}") as f:
        counts = collections.Counter()
        for name, n in json.load(f).items():
            counts[NAMES.get(name.split(":")[-1], name)] += n
        return counts


def in_graphs(tag, rank):
    """Collectives that ran in graph launches, by the job's own word: PyTorch's recorder knows no launch."""
    with open(f"{OUT}/{tag}.graph.{rank}") as f:
        g = json.load(f)
    return g["AllReduce"] * g["launches"]


def end_errors(seen):
    errors = sorted(o["end_error_ns"] / 1e6 for o in seen if o.get("end_ns"))
    return errors and {"p50": errors[len(errors) // 2], "p90": errors[len(errors) * 9 // 10]}


def count(mode):
    tag = f"count-{mode}"
    out = subprocess.run(record(tag, "--", *torchrun(tag, "--steps", 60, "--mode", mode)), capture_output=True,
                         text=True, env=ENV, timeout=90)
    seen = operations(tag)
    ranks = {}
    for r in range(GPUS):
        truth = recorder(tag, r)
        mine = collections.Counter(o["op"] for o in seen if o["rank"] == r and not o.get("graph"))
        launched = sum(1 for o in seen if o["rank"] == r and o.get("graph"))
        ranks[r] = {"pytorch": dict(truth), "ranktrace": dict(mine), "graphs": [in_graphs(tag, r), launched],
                    "equal": truth == mine and in_graphs(tag, r) == launched}
    say(tag, ranks=ranks, all_equal=all(r["equal"] for r in ranks.values()), findings=findings(out.stdout),
        exit=out.returncode, operations=len(seen), communicators=len({o["comm"] for o in seen}),
        ended=sum(1 for o in seen if o.get("end_ns")), end_error_ms=end_errors(seen),
        stderr=out.stderr.splitlines()[-6:])


def late():
    """Attached in the middle: sequence numbers as if from the start."""
    tag = "late"
    job = start(tag, "--seconds", 14, "--mode", "groups")
    out = subprocess.run(record(tag, "--pid", str(job.pid), "--duration", "4"), capture_output=True, text=True,
                         timeout=120)
    job.wait(120)
    seen = operations(tag)
    last = {}
    for o in seen:
        last.setdefault((o["comm"], o["rank"]), []).append(o["seq"])
    gaps = sum(b - a != 1 for s in last.values() for a, b in zip(s, s[1:]))
    spread = collections.defaultdict(list)
    for (comm, _), s in last.items():
        spread[comm].append(s[-1])
    say(tag, operations=len(seen), first_seq=min((s[0] for s in last.values()), default=None), gaps=gaps,
        last_seq_by_comm={c: sorted(s) for c, s in spread.items()}, findings=findings(out.stdout),
        stderr=out.stderr.splitlines()[-4:])


def healthy(mode, *args, seconds=30):
    """Nothing is injected: nobody may be named. Attached in the middle."""
    tag = "-".join(["healthy", mode, *(str(a).strip("-") for a in args)]).replace("+", "-")
    job = start(tag, "--seconds", seconds + 10, "--mode", mode, *args)
    out = subprocess.run(record(tag, "--pid", str(job.pid), "--duration", str(seconds)), capture_output=True, text=True)
    job.wait(120)
    found = [f for f in findings(out.stdout) if f["phase"] == "open"]
    steps = step_times(tag, 0, 1 << 62)
    say(tag, findings=found, silent=not found, step_ms=statistics.median(steps) / 1e6,
        stderr=out.stderr.splitlines()[-3:])


def fault(name, tag, *args, stop_rank=None):
    """Attached to the running job; the fault comes later. The verdict must name rank 1 (0 with one GPU)."""
    victim = GPUS - 1
    job = start(tag, "--seconds", 60, *args)
    tracer = subprocess.Popen(record(tag, "--pid", str(job.pid), "--duration", "25"), stdout=subprocess.PIPE, text=True,
                              stderr=open(f"{OUT}/{tag}.err", "w"))
    if stop_rank is not None:
        time.sleep(6)
        ranks = rank_pids(tag)
        os.kill(ranks[stop_rank], signal.SIGSTOP)
    text = tracer.communicate(timeout=120)[0]
    if stop_rank is not None:
        os.kill(ranks[stop_rank], signal.SIGCONT)
    end(job)
    found = [f for f in findings(text) if f["phase"] == "open"]
    first = next((f for f in found if f["kind"] == name[0]), None)
    say(tag, expected=[*name, victim], named=first and [first["kind"], first["class"], *first["ranks"]],
        right=bool(first) and (first["kind"], first["class"] or "", first["ranks"]) == (*name, [victim]),
        after_s=first and first["detected_after_s"], finding=first, others=[f for f in found if f is not first],
        job=fault_line(tag)[0],
        stderr=open(f"{OUT}/{tag}.err").read().splitlines()[-4:])


def hog_start(pid, n=3):
    """The rank's threads on one core, and n processes that only spin beside them."""
    core = max(os.sched_getaffinity(0))
    for tid in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(tid), {core})
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    for h in hogs:
        os.sched_setaffinity(h.pid, {core})
    return hogs


def slow(tag, *args, percent=None, hog=False, seconds=20):
    """A slow rank, attached before it becomes slow; the same job without the fault is the control (healthy-*).
    `percent`: of the step, spun away on the compute stream of rank GPUS - 1."""
    victim, tag = GPUS - 1, tag.replace("+", "-")
    if percent:
        probe = start(f"{tag}-probe", "--seconds", 4, *args)
        probe.wait(60)
        step_ms = statistics.median(step_times(f"{tag}-probe", 0, 1 << 62)) / 1e6
        args = (*args, f"--fault=spin:rank={victim},step={int(8e3 / step_ms)},ms={step_ms * percent / 100}")
    job = start(tag, "--seconds", 60, *args)
    tracer = subprocess.Popen(record(tag, "--pid", str(job.pid), "--duration", str(seconds)), stdout=subprocess.PIPE,
                              text=True, stderr=open(f"{OUT}/{tag}.err", "w"))
    time.sleep(6)
    hogs = hog_start(rank_pids(tag)[victim]) if hog else []
    begin = time.monotonic_ns()
    text = tracer.communicate(timeout=120)[0]
    for h in hogs:
        h.kill()
    kill_ranks()
    job.wait(20)
    begin = fault_line(tag)[1] or begin
    before, after = step_times(tag, 0, begin), step_times(tag, begin, 1 << 62)
    found = [f for f in findings(text) if f["phase"] == "open"]
    first = next((f for f in found if f["kind"] == "straggler"), None)
    say(tag, named=first and first["ranks"], cause=first and first["cause"],
        right=bool(first) and first["ranks"] == [victim], in_set=bool(first) and victim in first["ranks"],
        after_s=first and (first["t_ns"] - begin) / 1e9,
        step_ms=[statistics.median(before) / 1e6, statistics.median(after) / 1e6],
        iterations=first and (first["t_ns"] - begin) / statistics.median(after),
        end_error_ms=end_errors(operations(tag)),
        finding=first, others=[f for f in found if f is not first],
        stderr=open(f"{OUT}/{tag}.err").read().splitlines()[-4:])


def addresses():
    """No driver entry point leads past the probes."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "proc_address.py")
    out = subprocess.run([sys.executable, "-B", script, RANKTRACE], capture_output=True, text=True)
    say("addresses", exit=out.returncode, output=out.stdout.splitlines()[-20:], stderr=out.stderr.splitlines()[-5:])


def overhead(tag, *args, pairs=6, window=3.0):
    """Windows off, off, on, in turn: on/off is the price, off/off the A/A control."""
    job = start(tag, "--seconds", (3 * window + 4) * pairs + 10, *args)
    ratio, control, base = [], [], []
    for _ in range(pairs):
        medians = []
        for traced in (False, False, True):
            tracer = None
            if traced:
                tracer = subprocess.Popen([RANKTRACE, "record", "-q", "--pid", str(job.pid)], stderr=subprocess.DEVNULL,
                                          stdout=subprocess.DEVNULL)
                time.sleep(1.5)
            begin = time.monotonic_ns()
            time.sleep(window)
            medians.append(statistics.median(step_times(tag, begin, time.monotonic_ns())))
            if tracer:
                tracer.send_signal(signal.SIGINT)
                tracer.wait(30)
        control.append(medians[1] / medians[0])
        ratio.append(medians[2] / medians[1])
        base.append(medians[0] / 1e6)
    job.terminate()
    job.wait(60)
    kill_ranks()
    say(tag, step_ms=statistics.median(base), on_off=statistics.median(ratio), on_off_all=[round(r, 4) for r in ratio],
        a_a=statistics.median(control), a_a_all=[round(r, 4) for r in control])


MODES = ("ddp", "dp", "groups", "hsdp", "graph")
GPU_BOUND = ("--width", 8192, "--layers", 8)
MORE_THAN_ONE_GPU = ("f1", "f3", "f5", "f10", "f11", *zero.MORE_THAN_ONE_GPU)


def mode_args(mode):
    return ["--mode", mode.split("+")[0], *(f"--{a}" for a in mode.split("+")[1:])]


PARTS = {
    **{f"count-{m}": lambda m=m: count(m) for m in MODES},
    "late": late,
    **{f"healthy-{m}": lambda m=m: healthy(*mode_args(m)[1:]) for m in MODES},
    **{f"healthy-{m}-gpu-bound": lambda m=m: healthy(*mode_args(m)[1:],
                                                     *GPU_BOUND) for m in (*MODES, "dp+nan-check", "groups+nan-check")},
    "f1": lambda: fault(("hang", "stopped"), "f1", stop_rank=GPUS - 1),
    "f3": lambda: fault(("hang", "missing_enter"), "f3", f"--fault=hang:rank={GPUS - 1},at=10,sec=25"),
    "f3-graph": lambda: fault(("hang", "missing_enter"), "f3-graph", "--mode=graph",
                              f"--fault=hang:rank={GPUS - 1},at=10,sec=25"),
    "f5": lambda: fault(("mismatch", ""), "f5", f"--fault=mismatch:rank={GPUS - 1},at=10"),
    **{f"f10-{m}": lambda m=m: slow(f"f10-{m}", *mode_args(m), "--host-ms", 10, hog=True) for m in MODES},
    **{f"f11-{m}-{p}": lambda m=m, p=p: slow(f"f11-{m}-{p}", *mode_args(m), *GPU_BOUND, percent=p,
                                                     seconds=50 if m == "ddp" and GPUS < 4 else 25)
       for m in (*MODES, "dp+nan-check", "groups+nan-check") for p in (10, 20, 50)},
    "overhead": lambda: overhead("overhead"),
    "overhead-gpu-bound": lambda: overhead("overhead-gpu-bound", "--width", 8192, "--layers", 16),
    "addresses": addresses,
    **zero.PARTS,
}

if __name__ == "__main__":
    if not shutil.which("nvidia-smi") and not glob.glob("/dev/nvidia0"):
        print("skipped: no NVIDIA GPU here")
        sys.exit(77)
    os.makedirs(OUT, exist_ok=True)
    for part in sys.argv[1:] or (p for p in PARTS if GPUS > 1 or not p.startswith(MORE_THAN_ONE_GPU)):
        try:
            PARTS[part]()
        except (Exception, SystemExit) as e:
            say(part, error=f"{type(e).__name__}: {e}")
            kill_ranks()
