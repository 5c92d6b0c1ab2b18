# SPDX-License-Identifier: Apache-2.0
"""ranktrace autopsy on ranks with much memory of their own: the communicators are found among it. 64 MB a rank; with
LONG=1 2 GB each, and the time counts."""
# runs alone with LONG=1: it holds 16 GB and asserts how long the command took
import os
import subprocess
import sys
import tempfile

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import faults
import job

BAR_S = 4.0
BALLAST = r"""
#include <stdlib.h>
#include <sys/mman.h>
/* Memory that is written to, as tensors are: anonymous, private, in pieces. */
__attribute__((constructor)) static void ballast(void)
{
	unsigned long left = getenv("RANK") && getenv("BALLAST_MB") ? strtoul(getenv("BALLAST_MB"), 0, 10) << 20 : 0;
	unsigned long n = 64ul << 20;
	for (; left >= n; left -= n) {
		char *p = mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		for (unsigned long i = 0; p != MAP_FAILED && i < n; i += 4096)
			p[i] = 1;
	}
}
"""


def available_mb():
    with open("/proc/meminfo") as f:
        return next(int(line.split()[1]) // 1024 for line in f if line.startswith("MemAvailable"))


job.need_root()
rng, number = job.seed()
mb = int(os.environ.get("BALLAST_MB", 2048 if autopsies.LONG else 64))
if available_mb() < 8 * mb + 2048:
    job.skip(f"needs {8 * mb + 2048} MB of memory, {available_mb()} are there")
folder = tempfile.mkdtemp(prefix="ranktrace-ballast-")
job.dirs.append(folder)
with open(f"{folder}/ballast.c", "w") as f:
    f.write(BALLAST)
subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", f"{folder}/ballast.so", f"{folder}/ballast.c"], check=True)
env = dict(os.environ, LD_PRELOAD=f"{folder}/ballast.so", BALLAST_MB=str(mb))
for trial in range(3 if autopsies.LONG else 1):
    rank, step, drawn = faults.draw(rng)
    with autopsies.Autopsy(["--ranks", 8, "--steps", 400, "--seed", drawn, "--fault", f"hang:rank={rank},step={step}"],
                           env) as a:
        truth = a.wait_fault("hang", 120)
        a.settle()
        with open(f"/proc/{truth['pid']}/status") as f:
            rss = next(int(line.split()[1]) // 1024 for line in f if line.startswith("VmRSS"))
        job.check(rss >= mb, f"the rank holds {rss} MB only")
        found = a.run_json()
        print(f"  8 ranks of {rss} MB: rank {found and found[0]['ranks']} in {a.wall_s:.2f} s; {a.err.strip()}")
        job.check([(f["class"], f["ranks"]) for f in found] == [("missing_enter", [rank])], f"{found}\n{a.err}")
        job.check(not autopsies.LONG or a.wall_s <= BAR_S, f"took {a.wall_s:.2f} s, bar {BAR_S} s")
        job.result(f"autopsy {mb} MB a rank", a.wall_s)
