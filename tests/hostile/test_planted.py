# SPDX-License-Identifier: Apache-2.0
# runs alone: calls by the million, and judges how long the daemon does not look
"""Nobody runs a program that defines ncclAllReduce and cuLaunchKernel of its own, calls them by the million and says
that it is a rank: to the daemon it is a process like any other of that user. Nothing that it says gets into the
job beside it, and nothing is found about that."""
import os
import subprocess
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import hostile
import job

SOURCE = """
#include <stdio.h>
#include <unistd.h>
#define FUNCTION(name) __attribute__((noinline)) int name(long a, long b, long c, long d, long e, \\
	long f, long g) { __asm__ volatile("" ::: "memory"); return a + b + c + d + e + f + g != 1; }
FUNCTION(ncclAllReduce) FUNCTION(ncclCommInitRank) FUNCTION(ncclGroupStart) FUNCTION(ncclGroupEnd) FUNCTION(ncclSend)
FUNCTION(cuLaunchKernel) FUNCTION(cuInit) FUNCTION(cuStreamSynchronize) FUNCTION(cuMemcpyAsync) FUNCTION(cuCtxCreate_v2)
int main(void)
{
	puts("ready");
	fflush(stdout);
	for (long i = 0;; i++) {
		ncclGroupStart(i, i, i, i, i, i, i);
		ncclAllReduce(i * 7, -i, i << 40, i % 300, -1, i * i, ~i);
		ncclGroupEnd(0, 0, 0, 0, 0, 0, 0);
		cuLaunchKernel(i, i << 20, 1, 1, 1, 1, -1);
		if (i % 50 == 0)
			usleep(1000);
	}
}
"""


def planted():
    place = hostile.place()
    with open(f"{place}/planted.c", "w") as f:
        f.write(SOURCE)
    out = subprocess.run(["cc", "-O1", "-rdynamic", "-w", "-o", f"{place}/planted", f"{place}/planted.c"],
                         capture_output=True, text=True)
    if out.returncode:
        job.skip(f"no C compiler here: {out.stderr}")
    return hostile.Program([f"{place}/planted"], dict(os.environ, RANK="1", WORLD_SIZE="2", LOCAL_RANK="1"))


def operations(daemon):
    path = f"{daemon.dir}/ops.jsonl"
    with open(path, "w") as f:
        subprocess.run([job.RANKTRACE, "replay", "-q", "--ops", daemon.rtr], stdout=f, check=False)
    return job.lines(path)


def main():
    job.need_root()
    rng, _ = job.seed()
    attacker = planted().ready()
    daemon = hostile.Daemon(*job.NO_BUDGET)
    daemon.wait(lambda line: job.has_probes(line))
    victim = hostile.Victim(rng, steps=150)
    truth = victim.end()
    daemon.stop()
    job.check(attacker.process.poll() is None, "the attacker died: this test would prove nothing")
    pids, all_ops = victim.pids(), operations(daemon)
    missing, extra = job.compare_ops(truth, [o for o in all_ops if o["pid"] in pids])
    job.check(not extra, f"the job never did {extra[:4]} ({len(extra)})")
    job.check(len(missing) < len(truth) / 2, f"only {len(truth) - len(missing)} operations of {len(truth)} are seen")
    comms = {o["comm"] for o in truth}
    strange = [o for o in all_ops if o["pid"] not in pids and o["comm"] in comms]
    job.check(not strange, f"operations of others in the job's communicators: {strange[:3]}")
    hostile.check_no_finding(daemon, pids)
    hostile.check_gap(daemon)
    print(f"  {len(truth)} operations of the job, {len(missing)} before its probes came, none that it did not do")


main()
