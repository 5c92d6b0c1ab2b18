# SPDX-License-Identifier: Apache-2.0
"""`ranktrace stress p2p` on real GPUs (two or more), beside nvbandwidth where it is built (NVBANDWIDTH=path), else
beside copies that PyTorch times: A B A B A B; exit codes; nothing left.

    python3 tests/gpu/stress_p2p.py [matrix codes nopeer]"""
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time

RANKTRACE = os.environ.get("RANKTRACE", "build/gpu/ranktrace")
OUT = os.environ.get("OUT", "/tmp/stress-p2p")
TOOL = os.environ.get("NVBANDWIDTH", "nvbandwidth/nvbandwidth")
TURNS = 3  # of two, a median is the mean: one dip of either tool would be the ratio
TORCH = """
import torch
n, size = torch.cuda.device_count(), 512 << 20
for a in range(n):
    for b in range(n):
        if a == b: continue
        x, y = (torch.empty(size, dtype=torch.uint8, device=f"cuda:{d}") for d in (a, b))
        t = []
        for _ in range(4):
            s, e = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            with torch.cuda.device(a):
                s.record()
                for _ in range(16): y.copy_(x, non_blocking=True)
                e.record()
            torch.cuda.synchronize(a); torch.cuda.synchronize(b)
            t.append(16 * size / s.elapsed_time(e) / 1e6)
        print(a, b, sorted(t[1:])[1])
"""


def row(*words):
    print(*words, flush=True)


def stress(name, *args, env=None):
    begin = time.monotonic()
    p = subprocess.run([RANKTRACE, "stress", "p2p", *args], capture_output=True, text=True, timeout=280,
                       env=dict(os.environ, **(env or {})))
    with open(f"{OUT}/{name}.txt", "w") as f:
        f.write(p.stdout + p.stderr)
    return p.returncode, p.stdout, p.stderr, time.monotonic() - begin


def theirs(turn):
    """{(from, to): GB/s} of the copy engine, one way"""
    if not os.path.exists(TOOL):
        out = subprocess.run([sys.executable, "-c", TORCH], capture_output=True, text=True, timeout=280).stdout
        return {(int(a), int(b)): float(v) for a, b, v in (x.split() for x in out.splitlines())}
    out = subprocess.run([TOOL, "-t", "device_to_device_memcpy_write_ce"], capture_output=True, text=True,
                         timeout=280).stdout
    with open(f"{OUT}/nvbandwidth-{turn}.txt", "w") as f:
        f.write(out)
    found = {}
    for line in out.splitlines():
        words = line.split()
        if re.match(r"\s*\d+\s", line) and all(re.match(r"[\d.]+$|N/A$", w) for w in words):
            found.update({(int(words[0]), to): float(w) for to, w in enumerate(words[1:]) if w != "N/A"})
    return found


def matrix():
    ours, others = {}, {}
    for turn in range(TURNS):
        status, out, err, s = stress(f"matrix-{turn}", "--json", "--force")
        by = [json.loads(x) for x in out.splitlines()]
        row(f"exit {status}, {s:.0f} s", err.strip(), *(x["summary"] for x in by if x["type"] == "fault"))
        for x in by:
            if x["type"] == "link":
                ours.setdefault((x["measure"], x["from"], x["to"]), []).append(x["value"])
            if x["type"] == "host_link":
                ours.setdefault((f"host, node {x['node']}, {x['measure']}", x["from"], x["to"]), []).append(x["value"])
        for pair, value in theirs(turn).items():
            others.setdefault(("copy engine", *pair), []).append(value)
    for key, values in sorted(ours.items()):
        if key in others:
            ratio = statistics.median(values) / statistics.median(others[key])
            row(*key, *(f"{v:.1f}" for v in values), "|", *(f"{v:.1f}" for v in others[key]), f"| {ratio:.4f}",
                "" if 0.98 <= ratio <= 1.02 else "BAD: the bar is 2 %")
        else:
            row(*key, *(f"{v:.1f}" for v in values))


def codes():
    for what, want, args, env in (("one GPU", 3, ["--gpus", "0"], {}), ("no such GPU", 2, ["--gpus", "63"], {}),
                                  ("no GPU", 3, [], {"CUDA_VISIBLE_DEVICES": ""}),
                                  ("too large", 3, ["--bytes", "200G"], {})):
        status, _, err, _ = stress("codes", "--force", *args, env=env)
        row("ok  " if status == want else "BAD ", what, "exit", status, err.strip()[:300])
    left = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,name", "--format=csv,noheader"], capture_output=True,
                          text=True).stdout
    row("left on the GPUs:", left.strip() or "nothing")


def nopeer(trials=10):
    """No peer access one way of one pair, drawn for each trial: that link is named and no other."""
    n = len(subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.splitlines())
    draw, right = random.Random(int(os.environ.get("SEED", 1))), 0
    for i in range(trials):
        a, b = draw.sample(range(n), 2)
        status, out, err, s = stress(f"nopeer-{i}", "--json", "--force", "--bytes", "32M", "--inject",
                                     f"nopeer:gpu={a},to={b}")
        found = [x["summary"] for x in map(json.loads, out.splitlines()) if x["type"] == "fault"]
        ok = status == 1 and found and all(f"GPU {a} to GPU {b}" in x for x in found)
        right += ok
        if not ok or not i:
            row(f"     {a} to {b}: exit {status}, {s:.0f} s", *found, err.strip())
    row("ok  " if right == trials else "BAD ", f"a pair without peer access: named {right} of {trials}")


def main():
    os.makedirs(OUT, exist_ok=True)
    for name in sys.argv[1:] or ("matrix", "codes"):
        row(f"--- {name}")
        try:
            {"matrix": matrix, "codes": codes, "nopeer": nopeer}[name]()
        except Exception as e:  # the other part is of use all the same
            row(f"BAD  {name}: {type(e).__name__}: {e}")


main()
