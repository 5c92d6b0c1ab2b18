# SPDX-License-Identifier: Apache-2.0
"""What is used on older kernels, on this one: features taken away, and the counts are the same.

The kernels themselves: tests/vm.
"""
import json
import os
import subprocess
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import known

job.need_root()
rng, _ = job.seed()


def kernel(*args, lacks=None):
    env = {k: v for k, v in os.environ.items() if k != "RANKTRACE_KERNEL_LACKS"}
    if lacks is not None:
        env["RANKTRACE_KERNEL_LACKS"] = lacks
    return subprocess.run([job.RANKTRACE, "ps", "--kernel", *args], env=env, capture_output=True, text=True)


out = kernel("--load", "--json")
job.check(out.returncode == 0, f"ps --kernel --load: {out.stdout}\n{out.stderr}")
rows = [json.loads(line) for line in out.stdout.splitlines()]
names = [r["feature"] for r in rows if "feature" in r]
loads = [r for r in rows if "load" in r]
job.check(all(r["error"] == 0 and r["programs"] > 0 for r in loads), f"not loaded: {loads}")
for name in names:
    job.check(any(name in r["variant"] for r in loads), f"no program was loaded without {name}")
    text = kernel(lacks=name).stdout
    job.check(f"{name} " in text and "instead: " in text, f"without {name}, ps --kernel says: {text}")
bad = kernel(lacks="no-such-thing")
job.check(bad.returncode == 2 and "no-such-thing" in bad.stderr, f"unknown feature: {bad.returncode} {bad.stderr}")
print(f"  {len(loads)} loads, features: {', '.join(names)}")

for lacks in ("uprobe-multi", ",".join(names)):
    print(f"  without {lacks}:")
    os.environ["RANKTRACE_KERNEL_LACKS"] = lacks
    known.whole(4, "tp=2,dp=1,pp=2", rng.randrange(1 << 30), "--extra-ops", steps=12)
