# SPDX-License-Identifier: Apache-2.0
# runs alone with LONG=1: its daemons wait for a job of theirs for up to a minute
"""A real Slurm of one node, its prolog, epilog and health check ours. A job whose rank is stopped: without a rule it is
only logged, with one the node is drained with the documented reason. A device test that fails drains, one that could
not run does not. A prolog ends a test, and lets no job begin on a node that a rule drains."""
import os
import re
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import slurm

REASON = re.compile(r"ranktrace: (\w+) gpu=(\S+) rank=(\S+) inc=(\S+): (.+)")
FAULT = '{"type":"fault","uuid":"GPU-11111111-2222-3333-4444-555555555555","kind":"memory","text":"bits differ"}'
# Instead of `ranktrace stress all --quick --json`: what a device, or its absence, makes it say.
STUB = """#!/bin/bash
echo "$@" >> {dir}/calls
case $(cat {dir}/outcome) in
passes) echo all passed ;;
fails) echo '{fault}'; exit 1 ;;
no-gpu) echo 'ranktrace: error: no GPU' >&2; exit 3 ;;
runs) trap 'echo stopped; exit 3' TERM; sleep 100 & wait ;;
esac
"""


def wait(what, is_so, timeout=60):
    end = time.monotonic() + timeout
    while not is_so():
        job.check(time.monotonic() < end, f"not within {timeout} s: {what}")
        time.sleep(0.3)


def start_job(s):
    out = subprocess.run(["sbatch", "--parsable", "--output=/dev/null", "--chdir=/tmp", "--wrap",
                          f"exec {os.path.abspath(job.RANKTRACE)} sim job --ranks 3 --steps 100000 "
                          "--fault stop:rank=1,step=20,sec=300"], capture_output=True, text=True)
    job.check(out.returncode == 0, f"sbatch: {out.stderr}")
    return out.stdout.strip()


def start_watch(s):
    env = dict(os.environ, RANKTRACE_RUN_DIR=f"{s.dir}/run")
    with open(s.path("watch.log"), "w") as log:
        p = subprocess.Popen([job.RANKTRACE, "watch", "--flight=no", "--phases=no", "-o", s.path("findings.jsonl"),
                              "--rotate=1d", "-q"], stdout=log, stderr=log, env=env, start_new_session=True)
    job.jobs.append(type("Watch", (), {"kill": lambda self: p.poll() is None and p.kill()})())


def finding(s, number):
    """Of that job of Slurm's (others may run on this host): the daemon has written it."""
    return any(f'"slurm_job":"{number}"' in line and "is stopped before" in line
               for line in s.log("findings.jsonl").splitlines())


def stopped_rank(s, number):
    """The reason with which the node was drained for that job."""
    state, reason = s.wait_state(lambda st: "DRAIN" in st, 60)
    m = REASON.fullmatch(reason)
    job.check(m and m[1] == "hang" and m[2] == "-" and m[3] == "1" and "rank 1 is stopped" in m[5]
              and m[5].endswith("[ops]"), reason)
    job.check(any(m[4] in line and f'"slurm_job":"{number}"' in line for line in s.log("findings.jsonl").splitlines()),
              f"{m[4]} is no finding of job {number}")
    print(f"  {state}: {reason}")


def cancel(s, number):
    subprocess.run(["scancel", number], check=True)
    wait("the job's end", lambda: not subprocess.run(["squeue", "-h"], capture_output=True, text=True).stdout.strip())


def check_findings(s):
    """The health check first logs, then drains; the epilog drains for a job that has just ended."""
    start_watch(s)
    number = start_job(s)
    wait("a finding of the job", lambda: os.path.exists(s.path("findings.jsonl")) and finding(s, number))
    wait("it is logged", lambda: "is stopped" in s.log("health.log"))
    job.check("DRAIN" not in s.node()[0], f"drained without a rule: {s.node()}")
    print("  without a rule: " + next(line for line in s.log("health.log").splitlines() if "is stopped" in line))
    s.write("rules", f"{number} hang/stopped/* drain ops 0\n")
    stopped_rank(s, number)
    cancel(s, number)
    s.write("rules", "")
    s.resume()

    s.write("health.sh", "#!/bin/bash\n")
    number = start_job(s)
    wait("a finding of the second job", lambda: finding(s, number))
    s.write("rules", f"{number} hang/stopped/* drain ops 0\n")
    time.sleep(2)
    job.check("DRAIN" not in s.node()[0], f"drained while the job runs: {s.node()}")
    cancel(s, number)
    stopped_rank(s, number)


def stub(s, outcome):
    s.write("outcome", outcome)
    for name in ("calls", "state/stress.passed"):
        if os.path.exists(s.path(name)):
            os.unlink(s.path(name))
    wait(f"a device test that {outcome}", lambda: os.path.exists(s.path("calls")))


def check_tests(s):
    stub(s, "no-gpu")
    wait("what it says", lambda: "not tested, which says nothing" in s.log("health.log"))
    job.check("DRAIN" not in s.node()[0], f"drained by a test that could not run: {s.node()}")
    stub(s, "passes")
    wait("the stamp", lambda: os.path.exists(s.path("state/stress.passed")))
    calls = s.log("calls")
    time.sleep(12)  # two more health checks
    job.check(s.log("calls") == calls == "stress all --quick --json\n", f"tested again within a day: {s.log('calls')}")
    stub(s, "fails")
    wait("what it says", lambda: "bits differ (rule: log)" in s.log("health.log"))
    job.check("DRAIN" not in s.node()[0], f"drained without a rule: {s.node()}")
    s.write("rules", "* stress drain gpu-team 0\n")
    _, reason = s.wait_state(lambda st: "DRAIN" in st, 60)
    job.check(reason == "ranktrace: stress gpu=GPU-11111111-2222-3333-4444-555555555555 rank=- inc=-: bits differ "
              "[gpu-team]", reason)
    print(f"  {reason}")
    s.write("outcome", "passes")
    s.write("rules", "")
    s.resume()


def check_prolog(s):
    """A job that comes ends the test; one that is drained for begins nowhere."""
    stub(s, "runs")
    begin = time.monotonic()
    out = subprocess.run(["srun", "--immediate=60", "true"], capture_output=True, text=True, timeout=90)
    job.check(out.returncode == 0, f"srun beside a test: {out.stderr} {s.log('prolog.log')}")
    took = time.monotonic() - begin
    wait("the test's end", lambda: not os.path.exists(s.path("run/stress.pid")))
    job.check("the test was ended" in s.log("health.log") or "not tested" in s.log("health.log"), s.log("health.log"))
    job.check(took < job.bar(10), f"a job waited {took:.1f} s for a test to end")
    print(f"  a job that came ended a test, and ran within {took:.1f} s")
    s.write("outcome", "passes")


def main():
    if not job.LONG:
        job.skip("LONG=1 runs a real Slurm")
    slurm.need()
    where = slurm.tempfile.mkdtemp(prefix="ranktrace-stub-")
    job.dirs.append(where)
    s = slurm.Slurm(RANKTRACE=f"{where}/ranktrace", RANKTRACE_STRESS_EVERY="86400")
    with open(f"{where}/ranktrace", "w", encoding="utf-8") as f:
        f.write(STUB.format(dir=s.dir, fault=FAULT))
    os.chmod(f"{where}/ranktrace", 0o755)
    s.write("outcome", "passes")
    check_tests(s)
    check_prolog(s)
    check_findings(s)


main()
