# SPDX-License-Identifier: Apache-2.0
"""A burn-in of a day, `stress gpu --time 24h --log F`, the last seconds of it: the log of all hours before is made from
real lines. Its end is judged over the whole day: a GPU that became slower is named, by what the log has; healthy ones
pass. A day that ends early is no whole one."""
import json
import os
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import job
from stress import Gpus

draw, _ = job.seed()
DAY, LEFT, EVERY = 86400, 2, 300
ONLY = ["--only", "bf16,memory"]


def lines_of(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def day_log(g, path, slower):
    """What a day writes but for its last seconds: each measure of each GPU every five minutes. `slower` gets 14 %
    slower from morning to evening; the others move by a percent."""
    status, _, err = g.lines(*ONLY, "--time", "1", "--log", f"{path}.first")
    job.check(status == 0, f"the first round: {status} {err}")
    first = [x for x in lines_of(f"{path}.first") if x["type"] == "measured"]
    job.check(len(first) == 2 * len({x["subject"]["gpu"] for x in first}), f"{first}")
    with open(path, "w", encoding="utf-8") as f:
        for at in range(EVERY, DAY - EVERY + 1, EVERY):
            f.writelines(json.dumps(line_at(x, at, slower)) + "\n" for x in first)
        f.writelines(json.dumps(line_at(x, DAY - LEFT, slower)) + "\n" for x in first)
    return len(first)


def line_at(line, at_s, slower):
    less = 0.14 * at_s / DAY if line["subject"]["gpu"] == slower else 0
    return dict(line, elapsed_s=at_s, value=line["value"] * (1 - less) * draw.uniform(0.99, 1.01))


def day(what, slower, code):
    g = Gpus(3)
    path = f"{g.dir}/day"
    each = day_log(g, path, slower)
    before = len(lines_of(path))
    status, by, err = g.lines(*ONLY, "--time", "24h", "--force", "--log", path, "--resume")
    faults = {(f["subject"]["gpu"], f["kind"]) for f in by.get("fault", [])}
    trends = {(r["subject"]["gpu"], r["measure"]): r["trend"] for r in by["rate"]}
    print(f"{what}: exit {status}, {sorted(faults)}, {len(lines_of(path)) - before} lines more, trends "
          f"{ {k: round(v, 3) for k, v in trends.items()} }")
    job.check(status == code, f"{what}: exit {status}: {by.get('fault')} {err}")
    end, took = by["end"][0], (by["end"][0]["t_ns"] - by["begin"][0]["t_ns"]) / 1e9
    job.check(DAY - 1 < end["elapsed_s"] < DAY + 60 and took < 60, f"{what}: {end}, {took} s")
    job.check(len(lines_of(path)) >= before + each, f"{what}: the last round is not in the log")
    job.check(all(t < -0.085 if gpu == slower else abs(t) < 0.03 for (gpu, _), t in trends.items()), f"{trends}")
    if code:
        job.check(faults == {(slower, "trend")}, f"{what}: {by['fault']}")
        job.check("became slower by " in by["fault"][0]["summary"], f"{by['fault']}")
    return g, path


def main():
    day("a day, all well", None, 0)
    g, path = day("a day in which GPU 1 gets slower", 1, 1)
    p = g.run(*ONLY, "--time", "24h", "--force", "--log", path, "--resume")
    job.check(p.returncode == 2 and "has all of the time already" in p.stderr, f"a day that is over: {p}")


if __name__ == "__main__":
    main()
