#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The evaluation on the simulated cluster: runs the cases, writes tables and plots into docs/, says which bars held.

Lines of the simulator lie in O/eval, one file a case, of a life one a slice; --from DIR judges lines that are there.
Seeds are fixed and are not those that anything was tuned on. As many programs run at once as there are processors, two
at least. Exit status: 0 all bars held, 1 one did not, 3 one could not be judged."""
import argparse
import glob
import json
import math
import os
import re
import subprocess
import sys
import time

import plot
import score

HANGS = ("stop", "kill", "hang", "two")
OTHER_HANGS = ("deadlock", "dstate", "busy")  # each a bar of its own, as is a host that is gone
SLOW = ("slow", "late")
SLOWER = 1.1  # an iteration of theirs
NAMES = {"stop": "stopped (F1)", "kill": "killed (F2)", "hang": "sleeps, nested groups (F3, F6)",
         "two": "two ranks sleep (F19)", "host": "host and agent gone", "dstate": "D state (F8)",
         "busy": "spins (F3)", "deadlock": "order of two communicators (F4)", "slow": "GPU slower (F11)",
         "late": "rank late (F10)", "none": "nothing", "agent": "agent gone (F20)",
         "traffic": "shared link slow (F13)", "imbalance": "heavy stage, sequences (F16)",
         "suspend": "job suspended", "resume": "job suspended for 15 s",
         "upgrade": "agents started anew", "cut": "agents cut off for 60 s",
         "replace": "host gone, job goes on on a spare"}
SEED = 1001
WIDE = ["-n", "10240"]
SMALL = ["-n", "1024"]
NOISY = ["--skew", "0.2", "--loss", "0.05"]
CALLS = ["--calls"]  # agents' probes are on
LARGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}  # 250 MB in small pieces, all read at each tick

# name -> (what it is, arguments, faults, trials in eval, in eval-full); faults None: hours of ordinary life
CASES = {
    "big": ("10,240 ranks, centre", WIDE + ["--warm", "35", "--watch", "6"], HANGS, 6, 300),
    "center": ("1,024 ranks, centre", SMALL, HANGS + score.QUIET, 16, 300),
    "calls": ("1,024 ranks, probes on", SMALL + CALLS + ["--watch", "14"],
              HANGS + OTHER_HANGS + SLOW + score.QUIET, 16, 300),
    "severe": ("1,024 ranks, probes on, a fifth slower or later",
               SMALL + CALLS + ["--watch", "14", "--severity", "1.2"], SLOW, 8, 300),
    "capped": ("1,024 ranks, probes on, GPUs at their power cap",
               SMALL + CALLS + ["--watch", "14", "--capped"], ("slow",), 8, 300),
    "bigcalls": ("10,240 ranks, probes on", WIDE + CALLS + ["--warm", "35", "--watch", "14"], SLOW, 4, 300),
    "gone": ("1,024 ranks, probes on, 45 s watched", SMALL + CALLS + ["--watch", "45"], ("host",), 8, 300),
    "events": ("1,024 ranks, probes on, 100 s watched", SMALL + CALLS + ["--watch", "100"], score.EVENTS, 4, 100),
    "noisy": ("1,024 ranks, 200 ms skew, 5 % of messages lost", SMALL + NOISY, HANGS, 16, 300),
    "asleep": ("1,024 ranks, hosts sleep while they wait", SMALL + ["--asleep"], HANGS, 8, 300),
    "life": ("1,024 ranks, life", SMALL, None, 0.5, None),
    "life128": ("128 ranks, life at rate 10",
                ["-n", "128", "--pp", "2", "--micro", "4", "--rate", "10"], None, 2, 168),
    "lifecalls": ("128 ranks, life at rate 10, probes on",
                  ["-n", "128", "--pp", "2", "--micro", "4", "--rate", "10"] + CALLS, None, 0.5, 24),
    "lifewide": ("10,240 ranks, life", WIDE, None, 5, 168),
}
# Hours are cut into slices, each a job of its own with the next seed, that may run at once: in eval, in eval-full.
SLICE_H = {"life": (0.25, None), "life128": (1, 12), "lifecalls": (0.5, 4), "lifewide": (0.25, 4)}
GRID = {"error": ["1e-4", "0.01", "0.1", "inf"], "lag": ["1", "5"], "step": ["0.5", "20"], "variation": ["0.01", "0.1"],
        "loss": ["0.01"], "skew": ["0", "0.001"], "run-ahead": ["0", "2"]}


def cases(full):
    chosen = {name: (what, args, faults, most if full else few) for name, (what, args, faults, few, most) in
              CASES.items() if (most if full else few)}
    for key, values in GRID.items() if full else ():
        for v in values:
            chosen[f"grid-{key}-{v}"] = (f"1,024 ranks, {key} {v}", SMALL + [f"--{key}", v], HANGS, 50)
    return chosen


def slices(name, hours, full):
    """[hours] of each, the first with SEED."""
    most = SLICE_H[name][full]
    n = max(1, math.ceil(hours / most - 1e-9))
    return [hours / n] * n


def programs(chosen, full, scale):
    """(name of its file, arguments, simulated hours or None) of all that is to be run, in their order."""
    for name, (_, args, faults, count) in chosen.items():
        if faults:
            yield name, [*args, "-s", str(SEED), "-f", ",".join(faults), "-t", str(max(1, round(count * scale)))], None
            continue
        for i, hours in enumerate(slices(name, count * scale, full)):
            yield f"{name}.{i:03d}", [*args, "-s", str(SEED + i), "--life", f"{hours:g}"], hours


def is_through(where, name, hours):
    _, sums = read_life(os.path.join(where, name + ".jsonl"))
    return sums is not None and sums["simulated_s"] >= 3600 * hours - 1


def run_all(program, where, todo, budget_s):
    """Those that have not begun when the time is up are left out, those that run are ended."""
    end, running, waiting, late = time.time() + budget_s, {}, list(todo), []
    while running or waiting:
        for name, p in list(running.items()):
            if p.poll() is None and time.time() < end:
                continue
            if p.poll() is None:
                p.kill()
                late.append(name)
            elif p.returncode:
                sys.exit(f"eval: case {name} failed with status {p.returncode}")
            p.wait()
            del running[name]
        if waiting and time.time() >= end:
            print("eval: no time for " + ", ".join(n for n, _, _ in waiting))
            waiting = []
        while waiting and len(running) < max(2, os.cpu_count()):
            name, args, _ = waiting.pop(0)
            running[name] = subprocess.Popen([program, *args], stdout=open(os.path.join(where, name + ".jsonl"), "w"),
                                             env={**os.environ, **LARGE_PAGES})
        time.sleep(0.2)
    if late:
        print("eval: not through in time, what they wrote counts: " + ", ".join(late))


def lines_of(path):
    """A line cut short by the end of time is left out."""
    for line in open(path, encoding="utf-8") if os.path.exists(path) else ():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def read_life(path):
    """(verdicts, sums) of one slice: of a number, and of the sums, the last line counts."""
    verdicts, sums = {}, None
    for one in lines_of(path):
        if "verdict" in one:
            verdicts[one["number"]] = one["verdict"]
        elif "life" in one:
            sums = one
    return list(verdicts.values()), sums


def read(where, name):
    """(trials by fault, verdicts of all slices of a life, their sums)."""
    trials, verdicts, sums = {}, [], None
    for one in lines_of(os.path.join(where, name + ".jsonl")):
        trials.setdefault(one["fault"], []).append(one)
    for path in sorted(glob.glob(os.path.join(where, name + ".[0-9]*.jsonl"))):
        found, more = read_life(path)
        verdicts += found
        for key, value in (more or {}).items():
            sums = sums or {}
            sums[key] = sums.get(key, 0) + value
    return trials, verdicts, sums


# --- bars ---

def together(trials, faults):
    return [t for f in faults for t in trials.get(f, [])]


def percent(share):
    return "-" if share is None else f"{100 * share:.1f} %"


def seconds(s):
    return "-" if s is None else f"{s:.1f} s"


def bar_hangs(results, name):
    what, found = CASES[name][0], together(results[name][0], HANGS)
    if not found:
        return [(f"{what}: F1, F2, F3, F6, F19", None, "not run")]
    s = score.score(found)
    times = s["p50"] is not None and s["p50"] <= 3 and s["p90"] <= 5
    return [(f"{what}: F1, F2, F3, F6, F19 top-1 >= 97 %", s["top1"] >= 0.97, f"{percent(s['top1'])} of {s['n']}"),
            (f"{what}: p50 <= 3 s, p90 <= 5 s after the first wait", times,
             f"{seconds(s['p50'])}, {seconds(s['p90'])}"),
            (f"{what}: no rank named wrongly", s["wrong"] == 0, f"{s['wrong']} pages")]


def bar_baselines(results):
    """On all hang classes of the case that has them all."""
    found = together(results["calls"][0], HANGS + OTHER_HANGS)
    if not found:
        return [("better than every baseline", None, "not run")]
    best, name = max((b["top1"], name) for name, b in score.baselines(found).items())
    mine = score.score(found)["top1"]
    return [("all hang classes together: better than every baseline", mine > best,
             f"{percent(mine)} of {len(found)}; {name} {percent(best)}")]


def bar_others(results):
    rows = []
    for f in OTHER_HANGS + ("host",):
        found = results["gone" if f == "host" else "calls"][0].get(f)
        s = score.score(found) if found else None
        rows.append((f"{NAMES[f]}: top-1 >= 97 %", s and s["top1"] >= 0.97,
                     s and f"{percent(s['top1'])} of {s['n']}, {s['wrong']} wrong pages" or "not run"))
    return rows


def bar_nested(results):
    found = [t for name in ("big", "center", "calls") for t in results[name][0].get("hang", [])]
    s = score.score(found) if found else None
    return [("nested groups top-1 >= 99 %", s and s["top1"] >= 0.99, s and f"{percent(s['top1'])} of {s['n']}" or
             "not run")]


def bar_noise(results):
    plain, noisy = (together(results[n][0], HANGS) for n in ("center", "noisy"))
    if not plain or not noisy:
        return [("200 ms skew and 5 % loss cost <= 2 points", None, "not run")]
    a, b = score.score(plain), score.score(noisy)
    return [("200 ms skew and 5 % loss cost <= 2 points", a["top1"] - b["top1"] <= 0.02,
             f"{percent(a['top1'])} to {percent(b['top1'])} of {b['n']}"),
            ("and name no rank wrongly", b["wrong"] == 0, f"{b['wrong']} pages")]


def straggler_soon(found):
    """Share that is named, rightly, within five of its iterations."""
    return sum(score.top(t, 1) and score.latency(t) <= 5 * SLOWER * t["step_s"] for t in found) / len(found)


def bar_straggler(results):
    rows, wrong = [], 0
    for name, ranks, percents in (("calls", "", 10), ("severe", "", 20), ("bigcalls", "10,240 ranks, ", 10)):
        for f in SLOW:
            found = results[name][0].get(f)
            text = f"{ranks}{NAMES[f]} by {percents} %: top-1 >= 97 % within 5 iterations"
            if not found:
                rows.append((text, None, "not run"))
                continue
            s, soon = score.score(found), straggler_soon(found)
            wrong += s["wrong"]
            rows.append((text, soon >= 0.97, f"{percent(soon)} of {s['n']}; in 14 s {percent(s['top1'])}"))
    wrong += sum(score.wrong(t)[0] for t in results["capped"][0].get("slow", []))
    return rows + [("stragglers: never a wrong rank", wrong == 0, f"{wrong} pages")]


def none_named(text, found):
    bad = sum(score.wrong(t)[0] for t in found)
    return (text, bad == 0 if found else None, f"{bad} pages in {len(found)} trials" if found else "not run")


def bar_quiet(results):
    quiet = together(results["center"][0], score.QUIET) + together(results["calls"][0], score.QUIET)
    return [none_named("no rank named where none is to blame (F13, F16, F20)", quiet),
            none_named("nor where agents are upgraded or cut off, or the job was suspended for a while",
                       together(results["events"][0], score.EVENTS))]


def life_wrong(verdicts):
    """Pages that name ranks, and critical verdicts of any kind."""
    return (sum(v["severity"] in score.PAGES and v["kind"] in score.NAMING for v in verdicts),
            sum(v["severity"] == "critical" for v in verdicts))


def bar_life(results, full, scale):
    rows = []
    for name, (what, _, faults, few, most) in CASES.items():
        wanted = (most if full else few) and scale * (most if full else few)
        if faults or not wanted:
            continue
        _, verdicts, sums = results[name]
        text = f"{what}: no critical finding in {wanted:g} h"
        pages, critical = life_wrong(verdicts)
        hours = sums["simulated_s"] / 3600 if sums else 0
        rows.append((text, False if critical else None if hours < 0.999 * wanted else True,
                     f"{critical} critical, {pages} pages in {hours:.2f} hours"))
    if not full:
        rows.append(("168 simulated hours at 10,240 ranks without a critical finding", None, "eval-full only"))
    return rows


def bars(results, full, scale):
    return (bar_hangs(results, "big") + bar_hangs(results, "center") + bar_others(results) + bar_baselines(results) +
            bar_nested(results) + bar_noise(results) + bar_straggler(results) + bar_quiet(results) +
            bar_life(results, full, scale))


# --- tables ---

def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, r)) + " |" for r in rows])


def table_bars(rows):
    word = {True: "held", False: "**not held**", None: "not judged"}
    return table(["bar (simulated)", "", "measured"], [(text, word[held if held is None else bool(held)], what)
                                                        for text, held, what in rows])


def class_row(fault, found):
    s, quiet = score.score(found), fault in score.QUIET + score.EVENTS
    notes = sum(v["severity"] == "info" for t in found for v in t["verdicts"]) / s["n"]
    shares = ["-"] * 3 if quiet else [percent(s[k]) for k in ("top1", "top3", "recall")]
    return (NAMES[fault], s["n"], *shares, percent(s["precision"]), seconds(s["p50"]), seconds(s["p90"]), s["wrong"],
            f"{notes:.0f}")


def table_classes(results, chosen):
    head = ["fault", "trials", "top-1", "top-3", "recall", "precision", "p50", "p90", "wrong", "notes"]
    parts = []
    for name, (what, _, faults, _) in chosen.items():
        rows = [class_row(f, results[name][0][f]) for f in faults or () if results[name][0].get(f)]
        if rows:
            parts.append(f"**{what}**\n\n" + table(head, rows))
    return "\n\n".join(parts) if parts else "No trial was run."


def table_baselines(results):
    parts = []
    for name, title, faults in (("center", "F1, F2, F3, F6, F19", HANGS),
                                ("calls", "all hang classes", HANGS + OTHER_HANGS)):
        found = together(results[name][0], faults)
        if not found:
            continue
        s = score.score(found)
        rows = [("ranktrace hub", percent(s["top1"]), percent(s["top3"]), f"{seconds(s['p50'])} (p50)")]
        rows += [(name, percent(b["top1"]), percent(b["top3"]), f"{b['after_s']:.0f} s")
                 for name, b in score.baselines(found).items()]
        parts.append(f"**{CASES[name][0]}: {title}**, {len(found)} trials\n\n" +
                     table(["rule", "top-1", "top-3", "speaks after"], rows))
    return "\n\n".join(parts) if parts else "No trial was run."


def table_life(results):
    rows = []
    for name, (what, _, faults, _, _) in CASES.items():
        _, verdicts, s = results[name]
        if faults is not None or not s:
            continue
        pages, critical = life_wrong(verdicts)
        rows.append((what, f"{s['simulated_s'] / 3600:.2f}", s["checkpoints"], s["evaluations"], s["stalls"],
                     s["restarts"], s["garbage"], s["traffic"], s["sequences"], pages, critical, len(verdicts)))
    return table(["case", "hours", "checkpoints", "evals", "stalls", "restarts", "garbage", "traffic", "uneven",
                  "pages", "critical", "all"], rows) if rows else "No life was run."


def plots(results, docs):
    found = [(NAMES[f], [t for n in ("big", "center", "calls", "gone") for t in results[n][0].get(f, [])])
             for f in HANGS + OTHER_HANGS + ("host",) + SLOW]
    rows = [(name, s["p50"], s["p90"]) for name, trials in found if trials
            for s in [score.score(trials)] if s["p50"] is not None]
    groups = []
    for name, trials in found:
        if trials:
            groups.append((name, []))
            groups[-1][1].append(("hub", score.score(trials)["top1"]))
            groups[-1][1].extend((b.replace("RAS-style ", ""), v["top1"]) for b, v in
                                 score.baselines(trials).items() if "timeout" not in b)
    for path, svg in (("evaluation-latency.svg", plot.ranges("Simulated: first page that names the rank", rows, 5)),
                      ("evaluation-top1.svg", plot.bars("Simulated: the rank that is named first is right", groups))):
        with open(os.path.join(docs, path), "w", encoding="utf-8") as f:
            f.write(svg)


def document(path, parts):
    with open(path, encoding="utf-8") as f:
        page = f.read()
    for name, what in parts.items():
        page, n = re.subn(rf"(<!-- eval: {name} -->\n).*?(<!-- end -->)",
                          lambda m, w=what: m[1] + w + "\n" + m[2], page, flags=re.S)
        assert n == 1, f"{path}: no place for {name}"
    with open(path, "w", encoding="utf-8") as f:
        f.write(page)


def folder_make(where, keep):
    """Lines of another run are no part of this one."""
    os.makedirs(where, exist_ok=True)
    for path in glob.glob(os.path.join(where, "*.jsonl")) if not keep else ():
        os.unlink(path)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--full", action="store_true", help="all counts, the noise grid, a week of life")
    p.add_argument("--scale", type=float, default=1, help="of counts and hours (1)")
    p.add_argument("--budget", type=float, help="minutes (14; --full: none)")
    p.add_argument("--resume", action="store_true", help="slices of life that are through are not run again")
    p.add_argument("--from", dest="lines", metavar="DIR", help="judge lines that are there")
    p.add_argument("--docs", default="docs", help="folder of evaluation.md")
    a = p.parse_args()
    out = os.environ.get("O", "build")
    where = a.lines or os.path.join(out, "eval")
    chosen = cases(a.full)
    if not a.lines:
        todo = [t for t in programs(chosen, a.full, a.scale)
                if not (a.resume and t[2] and is_through(where, t[0], t[2]))]
        folder_make(where, a.resume)
        budget_s = 60 * a.budget if a.budget else (30 * 86400 if a.full else 14 * 60)
        run_all(os.path.join(out, "lib/ranktrace/sim/simcluster"), where, todo, budget_s)
    results = {name: read(where, name) for name in set(chosen) | set(CASES)}
    rows = bars(results, a.full, a.scale)
    document(os.path.join(a.docs, "evaluation.md"),
             {"bars": table_bars(rows), "classes": table_classes(results, chosen),
              "baselines": table_baselines(results), "life": table_life(results)})
    plots(results, a.docs)
    lost = [text for text, held, _ in rows if held is not None and not held]
    unknown = [text for text, held, _ in rows if held is None]
    print(f"bars: {len(rows) - len(lost) - len(unknown)} held, {len(lost)} not held" +
          "".join(f"; {t}" for t in lost) + f"; {len(unknown)} not judged" + "".join(f"; {t}" for t in unknown))
    return 1 if lost else 3 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
