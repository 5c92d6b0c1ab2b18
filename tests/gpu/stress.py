# SPDX-License-Identifier: Apache-2.0
"""`ranktrace stress gpu` on a machine with NVIDIA GPUs and PyTorch, in 8 minutes at most. Parts (arguments, default
all): codes (exit codes: busy, usage, no library, Ctrl-C), rates (GEMM rates against PyTorch's cuBLAS, in turns A B A B,
same operands), self-test (faults on purpose, TRIALS (10) of each kind on each GPU), memory (90 %, all patterns), full
(--time 60, then its baseline); foreign only if asked for (two GPUs or more: another process computes on one that SEED
draws, TRIALS times, for 20, 30 or 50 % of the time: that one is slow and no other; between them nobody). Prints a
table; all that the tool printed goes to OUT (/tmp/ranktrace-stress).
RANKTRACE=path of the binary (default: what `make pack` made)."""
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time

import gpujob

RANKTRACE = os.path.abspath(os.environ.get("RANKTRACE", "build/gpu/ranktrace"))
OUT = os.environ.get("OUT", "/tmp/ranktrace-stress")
BEGIN, MOST_S = time.monotonic(), 460
N = 8192
TYPES = ["bf16", "fp16", "tf32", "fp8", "fp32", "fp64", "int8"]
SECONDS = 3
TRIALS = int(os.environ.get("TRIALS", 10))

WORKER = r"""
import sys, time, torch
N = int(sys.argv[1])
torch.backends.cuda.matmul.allow_tf32 = False
def bits(kind, negate, seed):
    '''Operands as tools/stress/numbers.h says: random signs and mantissas, the exponent of a column of k and -1.'''
    size, mantissa, bias, span, shift = {"fp64": (64, 52, 1023, 500, 0), "fp32": (32, 23, 127, 120, 0),
        "tf32": (32, 10, 127, 120, 13), "bf16": (16, 7, 127, 120, 0), "fp16": (16, 10, 15, 13, 0),
        "fp8": (8, 3, 7, 5, 0)}[kind]
    g = torch.Generator(device="cuda"); g.manual_seed(seed)
    column = torch.randint(-span, span + 1, (1, N), generator=torch.Generator(device="cuda").manual_seed(7),
                           device="cuda")
    r = lambda most: torch.randint(0, most, (N, N), generator=g, device="cuda", dtype=torch.int64)
    x = ((bias + (-column if negate else column) - r(2)) << mantissa | r(1 << mantissa)) << shift | r(2) << (size - 1)
    ints = {64: torch.int64, 32: torch.int32, 16: torch.int16, 8: torch.uint8}[size]
    return x.to(ints).view({"fp64": torch.float64, "fp32": torch.float32, "tf32": torch.float32,
        "bf16": torch.bfloat16, "fp16": torch.float16, "fp8": torch.float8_e4m3fn}[kind])
def product(kind):
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    if kind == "int8":
        a, b = (torch.randint(-127, 128, (N, N), device="cuda", dtype=torch.int8) for _ in range(2))
        return lambda: torch._int_mm(a, b.t())
    a, b = bits(kind, False, 1), bits(kind, True, 2)
    if kind == "fp8":
        one = torch.ones((), device="cuda")
        return lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    c = torch.empty(N, N, device="cuda", dtype=a.dtype)
    return lambda: torch.mm(a, b.t(), out=c)
def rate(kind, seconds):
    run = product(kind)
    run(); torch.cuda.synchronize()
    begin, rates, queue = time.monotonic(), [], []
    while time.monotonic() - begin < seconds:
        e = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        e[0].record()
        for _ in range(8):
            run()
        e[1].record()
        queue.append((time.monotonic() - begin, e))
        if len(queue) > 2:
            at, e = queue.pop(0)
            e[1].synchronize()
            if at > seconds * 0.2:
                rates.append(2 * N ** 3 * 8 / e[0].elapsed_time(e[1]) * 1e-9)
    torch.cuda.synchronize()
    return sorted(rates)[len(rates) // 2]
torch.zeros(1, device="cuda")
print("ready", torch.__version__, torch.version.cuda, flush=True)
for line in sys.stdin:
    kind, seconds = line.split()
    try:
        print(rate(kind, float(seconds)), flush=True)
    except Exception as e:
        print("none", str(e).split("\n")[0], flush=True)
    torch.cuda.empty_cache()
"""


def stress(name, *args, timeout=200, env=None):
    """(exit status, its JSON lines or text, standard error, seconds)"""
    begin = time.monotonic()
    p = subprocess.run([RANKTRACE, "stress", "gpu", *args], capture_output=True, text=True, timeout=timeout,
                       env=dict(os.environ, **(env or {})))
    with open(f"{OUT}/{name}.txt", "w") as f:
        f.write(p.stdout + p.stderr)
    return p.returncode, p.stdout, p.stderr, time.monotonic() - begin


def lines(text, kind):
    return [x for x in map(json.loads, filter(None, text.splitlines())) if x["type"] == kind]


def row(*cells):
    print("  ".join(str(c) for c in cells), flush=True)


class Worker:
    def __init__(self):
        self.p = subprocess.Popen([sys.executable, "-c", WORKER, str(N)], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=open(f"{OUT}/worker.txt", "w"), text=True)
        row("PyTorch:", self.p.stdout.readline().strip())

    def ask(self, kind, seconds):
        self.p.stdin.write(f"{kind} {seconds}\n")
        self.p.stdin.flush()

    def answer(self):
        return self.p.stdout.readline().strip()

    def end(self):
        self.p.stdin.close()
        self.p.wait(30)


def codes(worker):
    def expect(what, status, got, err):
        row("ok  " if status == got else "BAD ", f"exit {got}", what + ":", err.strip()[:220])

    quick = ["--only", "bf16", "--time", "3"]
    status, _, err, _ = stress("idle-context", *quick, "--gpus", "0")
    expect("a process that has a context on GPU 0", 3, status, err)
    worker.ask("bf16", 6)
    time.sleep(2)
    status, _, err, _ = stress("busy", *quick)
    expect("a GPU at work", 3, status, err)
    worker.answer()
    status, _, err, _ = stress("gpus", *quick, "--gpus", "63")
    expect("a GPU that is not there", 2, status, err)
    status, _, err, _ = stress("library", *quick, "--force", "--cublaslt", "/nowhere/libcublasLt.so.13")
    expect("no library", 3, status, err)
    status, _, err, _ = stress("nogpu", *quick, env={"CUDA_VISIBLE_DEVICES": ""})
    expect("no GPU", 3, status, err)
    p = subprocess.Popen([RANKTRACE, "stress", "gpu", "--force", "--time", "60"], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)
    time.sleep(8)
    begin = time.monotonic()
    p.send_signal(signal.SIGINT)
    out = p.communicate(timeout=60)[0]
    with open(f"{OUT}/interrupted.txt", "w") as f:
        f.write(out)
    expect(f"Ctrl-C, {time.monotonic() - begin:.1f} s until the end", 3, p.returncode, out.splitlines()[-1])


def rates(worker):
    """A B A B: ranktrace and PyTorch in turns."""
    row(f"{'type':5}", "ranktrace", "PyTorch", "ratio", "share of the checksum's bound, faults")
    for kind in TYPES:
        ours, theirs, share, faults = [], [], "", 0
        for turn in range(2):
            status, out, err, _ = stress(f"rate-{kind}-{turn}", "--force", "--json", "--only", kind, "--time",
                                         str(SECONDS), "--gpus", "0")
            got = lines(out, "rate") if out else []
            ours += [r["value"] for r in got if r.get("value")]
            share = " ".join(f"{r['checksum_share']:.3g}" for r in got)
            faults += sum(f["kind"] != "slow" for f in lines(out, "fault")) if out else 0
            worker.ask(kind, SECONDS)
            answer = worker.answer()
            theirs += [float(answer)] if not answer.startswith("none") else []
            if err:
                row("     ", err.strip()[:200])
        text = [" ".join(f"{x:7.1f}" for x in v) or "none" for v in (ours, theirs)]
        ratio = f"{statistics.mean(ours) / statistics.mean(theirs):.4f}" if ours and theirs else "-"
        row(f"{kind:5}", text[0], "|", text[1], "|", ratio, "|", share, "|", faults)


def self_test(_):
    status, out, err, s = stress("self-test", f"--self-test={TRIALS}", timeout=250)
    print(out + err, end="")
    row(f"exit {status}, {s:.0f} s; found {out.count('found there')} of {out.count('GPU ')}")


def foreign(_):
    """A GPU's own rate alone says nothing with one GPU of a kind; the other one is what it is compared with."""
    gpus = len(subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.splitlines())
    others = [gpujob.Foreign(gpu) for gpu in range(gpus)]
    draw, right, quiet = random.Random(int(os.environ.get("SEED", 1))), 0, 0
    for i in range(TRIALS):
        bad, share = draw.randrange(gpus), (20, 30, 50)[i % 3]
        for load in (share, 0):
            others[bad].share(load)
            time.sleep(0.5)
            status, out, err, s = stress(f"foreign-{i}-{load}", "--json", "--force", "--only", "bf16", "--time", "4")
            found = [(f["kind"], f["subject"].get("gpu")) for f in lines(out, "fault")]
            ok = (status, found) == ((1, [("slow", bad)]) if load else (0, []))
            right += ok and load > 0
            quiet += ok and not load
            if not ok or not i:
                row(f"     {load} % on GPU {bad}: exit {status}, {s:.0f} s,", found, err.strip()[:200],
                    *(f["summary"] for f in lines(out, "fault")))
    for other in others:
        other.kill()
    row("ok  " if (right, quiet) == (TRIALS, TRIALS) else "BAD ",
        f"slowed by another process: named {right} of {TRIALS}; between them nobody, {quiet} of {TRIALS}")


def memory(_):
    status, out, err, s = stress("memory", "--json", "--only", "memory", "--time", "25", "--force")
    for r in lines(out, "rate"):
        row(f"GPU {r['subject']['gpu']}: {r.get('value', 0):.0f} GB/s read,",
            f"{r['memory_bytes'] / 2**30:.1f} GiB under test, {r['checked'] / 2**40:.2f} TiB checked,",
            f"rule: {r.get('rule')}")
    end = lines(out, "end")[-1] if out else {}
    row(f"exit {status}, {s:.0f} s, partial: {end.get('partial', 'no')}, faults {len(lines(out, 'fault'))}",
        err.strip())


def full(_):
    base = f"{OUT}/baseline.jsonl"
    status, out, err, s = stress("full", "--time", "60", "--force", "--save-baseline", base)
    print(out + err, end="")
    row(f"exit {status}, {s:.0f} s, baseline written: {os.path.exists(base)}")
    left = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,name", "--format=csv,noheader"], capture_output=True,
                          text=True).stdout
    row("left on the GPUs:", left.strip() or "nothing")
    if os.path.exists(base):
        status, out, err, s = stress("again", "--time", "20", "--force", "--baseline", base, "--only", "bf16,fp8")
        print("\n".join(x for x in out.splitlines() if "baseline" in x), err)
        row(f"against the baseline: exit {status}")


def main():
    os.makedirs(OUT, exist_ok=True)
    print(subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,power.limit,clocks.max.sm", "--format=csv"],
                         capture_output=True, text=True).stdout, flush=True)
    worker = Worker() if not sys.argv[1:] or {"rates", "codes"} & set(sys.argv[1:]) else None
    parts = {"rates": rates, "codes": codes, "self-test": self_test, "full": full, "memory": memory,
             "foreign": foreign}
    for name in sys.argv[1:] or [x for x in parts if x != "foreign"]:
        if time.monotonic() - BEGIN > MOST_S - 60:
            row(f"--- {name}: left out, no time")
            continue
        print(f"--- {name} ({time.monotonic() - BEGIN:.0f} s)", flush=True)
        if name == "self-test" and worker: # the process with a context on the GPU goes: from here on none is there
            worker.end()
            worker = None
            time.sleep(2)
        try:
            parts[name](worker)
        except Exception as e:  # the other parts are of use all the same
            row(f"BAD  {name}: {type(e).__name__}: {e}")
    if worker:
        worker.end()
    print(f"--- end ({time.monotonic() - BEGIN:.0f} s)")


main()
