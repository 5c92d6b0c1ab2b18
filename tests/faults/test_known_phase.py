# SPDX-License-Identifier: Apache-2.0
"""A pause that ended by itself makes its call site a known phase: a rank that sleeps twice at one place warns once, and
a session that reads the file of an earlier one does not warn at all. A longer pause there is a warning still."""
import json
import os
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import job


def session(rank, sleeps, path, number):
    """{id: the severities of a hang in their order}; each must name the rank that sleeps, and no other rank."""
    faults = [x for step, sec in sleeps for x in ("--fault", f"hang:rank={rank},step={step},sec={sec}")]
    j = job.Job(["--ranks", 4, "--steps", sleeps[-1][0] + 40, "--seed", number, "--job-id", "phases", *faults],
                ["--phases", path, "--fail-on=critical"], name="phase")
    code = j.end(120)
    job.check(code == 0, f"exit code {code}: {j.stderr()}")
    found = {}
    for f in j.findings:
        if f["kind"] == "hang":
            job.check(f["ranks"] == [rank], f"named {f['ranks']} instead of {rank}: {f}")
            found.setdefault(f["id"], []).append(f["severity"])
    job.check(len(found) == len(sleeps), f"{len(sleeps)} pauses, found {j.findings}")
    print(f"  pauses of {[sec for _, sec in sleeps]} s: {list(found.values())}")
    j.check_replay()
    return list(found.values()), j


job.need_root()
rng, _ = job.seed()
rank, number = rng.randrange(4), rng.randrange(1 << 30)
first, j = session(rank, [(12, 5), (40, 5)], path := f"{job.tempfile.mkdtemp(prefix='ranktrace-phases-')}/phases.json",
                   number)
job.dirs.append(os.path.dirname(path))
job.check(set(first[0]) == {"warning"}, f"the first pause: {first[0]}")
job.check(set(first[1]) == {"info"}, f"the second pause there: {first[1]}")
with open(path) as f:
    kept = json.load(f)["phases"]
job.check([p["pauses"] for p in kept] == [2] and 4.5 < kept[0]["longest_s"] < 8, f"kept: {kept}")
second, j = session(rank, [(14, 5), (40, 22)], path, number)
job.check(set(second[0]) == {"info"}, f"known from the session before: {second[0]}")
text = next(f["evidence"]["known_phase"] for f in j.findings if f["kind"] == "hang")
job.check("2 times before" in text, text)
job.check(second[1][0] == "info" and "warning" in second[1] and "critical" not in second[1],
          f"a longer one: {second[1]}")
