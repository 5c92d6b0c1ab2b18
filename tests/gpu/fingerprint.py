# SPDX-License-Identifier: Apache-2.0
"""On a machine with two or more NVIDIA GPUs and PyTorch: what NVML's activity shows of a GPU that waits in NCCL
(fingerprintjob.py: rank 0 comes late to each operation), by operation and by NCCL's settings: default, trees, few
channels. Beside `record --tier watch`; its samples of each wait, of all GPUs but rank 0's, against the channels that
NCCL's own log gives the operation. Prints a JSON line a case. Right: samples alike, SM activity of channels / SMs."""
import collections
import os
import re
import signal
import subprocess
import sys
import time

import gpujob
import zero
from gpujob import OUT, RANKTRACE, say

JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fingerprintjob.py")
SETTINGS = {"default": {}, "tree": {"NCCL_ALGO": "allreduce:tree"}, "channels": {"NCCL_MAX_NCHANNELS": "8"}}
SMS = 132
CHANNELS = re.compile(r"(\w+): (\d+) Bytes -> Algo (\w+) proto (\w+) channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\}")


def samples(tag, begin_ns, end_ns):
    """By GPU: (SM, occupancy, tensor, DRAM) of the samples that lie inside, percent."""
    found = collections.defaultdict(list)
    for kind, ts, f in zero.gpu_facts(tag):
        if kind == 19 and f["window_ns"] and begin_ns <= ts - f["window_ns"] and ts <= end_ns:
            found[f["index"]].append(tuple(f[k] / 100 for k in ("sm", "occupancy", "tensor", "dram")))
    return found


def told(setting, tag, line, n):
    begin, end, name = line.split(" ", 2)
    by_gpu = samples(tag, int(begin) + 200_000_000, int(end) - 200_000_000)
    waiting = {g: s for g, s in by_gpu.items() if g != 0}
    seen = sorted({s for g in waiting.values() for s in g})
    spread = max((max(s[i] for s in g) - min(s[i] for s in g) for g in waiting.values() for i in (0, 1)), default=None)
    say(f"fingerprint-{setting}", case=name.strip(), gpus_seen=len(waiting), of=n - 1,
        samples=sum(map(len, waiting.values())), spread=spread, sm_occupancy_tensor_dram=[seen[0], seen[-1]] if seen
        else None, sms=sorted({round(s[0] * SMS / 100, 2) for s in seen}), late_gpu=by_gpu.get(0, [])[:2])


def measure(setting):
    tag = f"fingerprint-{setting}"
    os.environ.update(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,COLL,TUNING,GRAPH",
                      NCCL_DEBUG_FILE=f"{OUT}/{tag}.nccl.%p", **SETTINGS[setting])
    gpujob.ENV.update(os.environ)
    job = gpujob.Ranks(tag, JOB)
    with open(f"{OUT}/{tag}.err", "w", encoding="utf-8") as err:
        session = subprocess.Popen([RANKTRACE, "record", "-q", "--tier", "watch", "-o", f"{OUT}/{tag}.rtr", "--pid",
                                    str(os.getpid())], stdout=subprocess.DEVNULL, stderr=err)
    for p in job.ranks:
        p.wait(120)
    time.sleep(0.5)
    session.send_signal(signal.SIGINT)
    session.wait(60)
    with open(f"{OUT}/{tag}.cases.1", encoding="utf-8") as f:
        for line in f:
            told(setting, tag, line, job.n)
    log = open(f"{OUT}/{tag}.nccl.{job.ranks[1].pid}", encoding="utf-8", errors="replace").read()
    print(setting, "NCCL's log:", sorted({(m[1], int(m[2]), m[3], m[4], int(m[6]) - int(m[5]) + 1)
                                          for m in CHANNELS.finditer(log)}),
          sorted(set(re.findall(r"\d+ coll channels.*", log))), flush=True)
    for key in SETTINGS[setting]:
        del os.environ[key], gpujob.ENV[key]


def main():
    os.makedirs(OUT, exist_ok=True)
    for setting in sys.argv[1:] or SETTINGS:
        try:
            measure(setting)
        except Exception as e:  # the other settings are of use all the same
            say(f"fingerprint-{setting}", error=f"{type(e).__name__}: {e}")


main()
