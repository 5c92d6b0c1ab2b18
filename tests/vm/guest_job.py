# SPDX-License-Identifier: Apache-2.0
"""What a guest proves of its kernel: a known workload is counted exactly, and some faults are found. Run by
guest_check.sh.

A guest under software emulation is 10 to 50 times slower than its host, so nothing here asks for speed: the job waits
until the tracer has attached (--start-file), faults last until they are found, and limits are minutes. """
import json
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "aid"))
import compare  # noqa: E402
import job  # noqa: E402

ATTACH_S = 150
SAME = 6  # answers, half a second apart
FINDING_S = 120
END_S = 180


def say(case, text):
    print(f"PASSED {case}: {text}", flush=True)


class GuestJob(job.Job):
    def __init__(self, ranks, layout, seed, *options, steps):
        self.start = f"/tmp/start-{os.getpid()}-{seed}"
        super().__init__(["--ranks", ranks, "--layout", layout, "--seed", seed, "--steps", steps, "--no-dataloader",
                          "--start-file", self.start, *options], name="guest")
        self.wait_attached(2 * ranks)
        open(self.start, "w").close()

    def stop(self):
        """As job.Job.stop(), with time for 131 perf uprobes, each of which waits for a grace period on its way out."""
        self.process.send_signal(signal.SIGINT)
        return self.end(END_S)

    def takes_questions(self):
        """SIGUSR1 is held back or caught by now; before that it would end the tracer, whose start takes seconds
        here."""
        with open(f"/proc/{self.process.pid}/status") as f:
            masks = [int(line.split()[1], 16) for line in f if line.startswith(("SigBlk", "SigCgt"))]
        return any(m & 1 << (signal.SIGUSR1 - 1) for m in masks)

    def wait_attached(self, libraries):
        """Until the tracer says that it is on that many libraries, and no more probes came for a while: before 6.6
        they go in one by one."""
        end, same, last = time.monotonic() + ATTACH_S, 0, None
        while time.monotonic() < end:
            time.sleep(0.5)
            job.check(self.process.poll() is None, f"the tracer ended: {self.stderr()}")
            if not self.takes_questions():
                continue
            self.process.send_signal(signal.SIGUSR1)
            reported = re.findall(r"(\d+) libraries, (\d+) probes", self.stderr())
            same = same + 1 if len(reported) > 1 and reported[-1] == last else 0
            last = reported[-1] if reported else None
            if reported and int(reported[-1][0]) >= libraries and int(reported[-1][1]) and same >= SAME:
                return
        job.fail(f"not attached after {ATTACH_S} s: {self.stderr()}")


def known(rng):
    j = GuestJob(2, "tp=1,dp=1,pp=2", rng.randrange(1 << 30), "--extra-ops", steps=6)
    code = j.end(END_S)
    # what this count needs; whether every tracer loads is the case "programs"
    job.check(not re.search("'(nccl|cuda|sched)' did not load", j.stderr()), f"a tracer did not load: {j.stderr()}")
    counted, seen = compare.exact(j.ops_log, j.rtr), j.replay("--ops")
    open_ends = [o for o in seen if o["end_ns"] is None]
    job.check(not open_ends, f"{len(open_ends)} operations have no end: {open_ends[:3]}")
    job.check(code in (0, 1), f"exit code {code}: {j.stderr()}")  # a finding about a slow guest is no fault here
    j.check_replay()
    lacks = os.environ.get("RANKTRACE_KERNEL_LACKS")
    say(f"count without {lacks}" if lacks else "count", counted)


def fault(case, kind, spec, rng, steps):
    rank = rng.randrange(2)
    j = GuestJob(2, "tp=1,dp=2,pp=1", rng.randrange(1 << 30), "--fault", spec.format(rank=rank), steps=steps)
    f = j.wait_finding(FINDING_S, kind=kind, phase="open")
    job.check(f, f"no {kind}: {j.findings}\n{j.stderr()}")
    job.check(f["ranks"] == [rank], f"named {f['ranks']} instead of [{rank}]: {f}")
    job.check(j.stop() == 1, f"exit code is not 1: {j.stderr()}")
    wrong = [r for r in j.roots() if r["kind"] in ("hang", "d_state", "stopped",
                                                   "mismatch") and (r["kind"], r["ranks"]) != (kind, [rank])]
    job.check(not wrong, f"named besides: {wrong}")
    j.check_replay()
    return f, rank


def hang(rng):
    f, rank = fault("hang", "hang", "hang:rank={rank},step=4", rng, 40)
    job.check(f["class"] == "missing_enter" and f["cause"] == "asleep", f"not a missing_enter asleep: {f}")
    say("hang", f"rank {rank} never entered {f['op']} {f['seq']}")


def dstate(rng):
    f, rank = fault("dstate", "d_state", "dstate:rank={rank},step=4,sec=120", rng, 40)
    job.check("+0x" in f["evidence"].get("kernel_stack", ""), f"no kernel stack: {f['evidence']}")
    say("dstate", f"rank {rank}, cause {f['cause']}")


def programs(_):
    """Every program in every shape that this kernel can run."""
    out = subprocess.run([job.RANKTRACE, "ps", "--kernel", "--load", "--json"], capture_output=True, text=True)
    loads = [json.loads(line) for line in out.stdout.splitlines() if line.startswith('{"load"')]
    job.check(out.returncode == 0 and loads and not any(o["error"] for o in loads), f"{out.stdout}\n{out.stderr}")
    say("programs", f"{sum(o['programs'] for o in loads)} loads in {len({o['variant'] for o in loads})} variants")


CASES = {"programs": programs, "count": known, "hang": hang, "dstate": dstate}

rng, _ = job.seed()
print(f"KERNEL {os.uname().release} {os.uname().machine}", flush=True)
for arg in sys.argv[1:]:  # CASE or CASE-FEATURE,...: without these
    began = time.monotonic()
    case, _, lacks = arg.partition("-")
    os.environ.pop("RANKTRACE_KERNEL_LACKS", None)
    if lacks:
        os.environ["RANKTRACE_KERNEL_LACKS"] = lacks
    CASES[case](rng)
    print(f"  {arg} took {time.monotonic() - began:.0f} s", flush=True)
