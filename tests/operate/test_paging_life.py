# SPDX-License-Identifier: Apache-2.0
# runs alone with LONG=1: a job that is healthy is not starved by other tests
"""The ordinary life of a job pages nobody: for 30 minutes `watch` serves a healthy job that writes checkpoints,
evaluates, waits for data, to Prometheus and Alertmanager with the rules and routes as they are shipped, and its
findings go to `ranktrace notify` with its own schedule. No message comes. SECONDS=n: so long."""
import collections
import os
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
sys.path.insert(1, sys.path[0] + "/../watch")
import autopsies
import job
import lives
import monitoring
import outside
from test_watch_metrics import url_of

RANKS = 4
SECONDS = int(os.environ.get("SECONDS", 1800))


def value(m, query):
    found = (m.wait(lambda d: d["result"], 30, "query", query=query) or {}).get("result")
    job.check(found, f"no answer to {query}: {getattr(m, 'error', '')}")
    return float(found[0]["value"][1])


def served(m):
    """The job was seen the whole time: else nobody is paged of a job that nobody saw."""
    window = f"[{SECONDS}s]"
    share, ranks = value(m, f"avg_over_time(up{window})"), value(m, f"max_over_time(ranktrace_job_ranks_seen{window})")
    entered = value(m, f"min(sum by (rank) (increase(ranktrace_collectives_total{window})))")
    job.check(share > 0.99 and ranks == RANKS and entered > SECONDS / 2, f"up {share}, {ranks} ranks, {entered}")
    return f"scraped {share:.1%}, at least {entered:.0f} collectives a rank"


def main():
    if not job.LONG:
        job.skip("LONG=1 follows a job for 30 minutes")
    job.need_root()
    monitoring.need()
    rng, _ = job.seed()
    hook = monitoring.Webhook()
    args = ["--ranks", RANKS, "--steps", 10000000, "--step-ms", 200, "--layout", "tp=2,dp=2", "--seed",
            rng.randrange(1 << 30), "--life"]
    with autopsies.Autopsy(args) as a:
        s = outside.Session(a, "watch", "--metrics", "0", "-o", f"{a.dir}/findings.jsonl")
        m = monitoring.Monitoring([url_of(s).split("/")[2]], hook, quick=False)
        notify = monitoring.Notify(f"{a.dir}/findings.jsonl", hook.port)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            job.check(a.process.poll() is None, "the job ended")
            time.sleep(1)
        scraped = served(m)
        seen = lives.phases(a)
        worst = collections.Counter({f["id"]: (f["kind"], f["severity"]) for f in s.findings}.values())
        print(f"  {SECONDS} s: {sum(seen.values())} phases {dict(seen)}; findings {dict(worst)}; {scraped}; "
              f"{len(hook.got)} messages", flush=True)
        job.check(len(seen) >= 4 or SECONDS < 1800, f"too little happened: {seen}")
        job.check(notify.process.poll() is None, "notify ended")
        job.check(not hook.got, f"messages about a healthy job: {hook.got}\n{s.findings}")
        notify.kill()
        s.stop()


if __name__ == "__main__":
    main()
