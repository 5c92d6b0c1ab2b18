# SPDX-License-Identifier: Apache-2.0
"""A rank that hangs while a thread of it starts a health check every two seconds: that these begin and end is no sign
of life. It is a stall, and a hang after 30 s like any other; nothing else is said of it meanwhile."""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import outside
import python_jobs


def main():
    job.need_root()
    rng, _ = job.seed()
    rank = rng.randrange(3)
    a = python_jobs.PythonJob(3, rank, rng.randrange(150, 200), env={"HEALTH_CHECK": "2"})
    s = outside.Session(a, "watch", "--no-raise")
    h = s.wait(60, kind="hang", phase="open")
    outside.check_rank(s, h, rank, "missing_enter")
    job.check(h["severity"] == "warning", f"{h['severity']} at once: {h}")
    f = s.wait(60, id=h["id"], severity="critical")
    job.check(f, f"not critical within a minute: {[x for x in s.findings if x['id'] == h['id']][-1:]}")
    lasted = (f["t_ns"] - f["since_ns"]) / 1e9
    print(f"  rank {rank}: critical after {lasted:.1f} s")
    job.check(30 <= lasted <= 32, f"critical after {lasted:.1f} s")
    s.stop()
    lines = [x for x in s.findings if x["id"] == h["id"]]
    causes = {x["cause"] for x in lines}
    job.check(causes == {"asleep"} and not s.others(rank), f"the cause changes: {causes}: {lines}")
    a.kill()


if __name__ == "__main__":
    main()
