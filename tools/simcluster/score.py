# SPDX-License-Identifier: Apache-2.0
"""What the trials of the simulated cluster are worth: who was named first, how soon, and who was named wrongly."""

PAGES = ("warning", "critical")
QUIET = ("none", "agent", "traffic", "imbalance")  # no rank is to be named
NAMING = ("hang", "stopped", "d_state", "straggler", "mismatch", "cpu_starved", "io_stall")


def quantile(values, q):
    """Nearest rank; None of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else None


def pages(trial):
    """Verdicts that wake somebody and name ranks, the first one first, the surest of a moment first."""
    found = [v for v in trial["verdicts"] if v["severity"] in PAGES and v["kind"] in NAMING and "warned_s" in v
             and v["n_ranks"] > 0]
    return sorted(found, key=lambda v: (v["warned_s"], -v["confidence"]))


def culprits(trial):
    """Ranks that may be named; a host that is gone has eight."""
    if trial["fault"] in QUIET:
        return set()
    if trial["fault"] == "host":
        first = trial["rank"] // 8 * 8
        return set(range(first, first + 8))
    return {r for r in (trial["rank"], trial["rank2"]) if r >= 0}


def ranks_named(trial):
    """In the order of being named."""
    order = []
    for v in pages(trial):
        order += [r for r in v["ranks"] if r not in order]
    return order


def top(trial, n):
    """The first word names a culprit and, for n = 1, no other with it."""
    named = pages(trial)
    if not named:
        return False
    if n == 1:
        return set(named[0]["ranks"]) <= culprits(trial) and named[0]["n_ranks"] == len(named[0]["ranks"])
    return bool(set(ranks_named(trial)[:n]) & culprits(trial))


def latency(trial):
    """Seconds from the first peer's wait to the first page that names a culprit; None: there is none."""
    times = [v["warned_s"] for v in pages(trial) if set(v["ranks"]) & culprits(trial)]
    return min(times) if times else None


def wrong(trial):
    """Pages, and of them critical ones, that name a rank that is none of the culprits."""
    bad = [v for v in pages(trial) if not set(v["ranks"]) <= culprits(trial)]
    return len(bad), sum("critical_s" in v for v in bad)


def score(trials):
    """One class of trials."""
    times = [t for t in map(latency, trials) if t is not None]
    named = sum(len(pages(t)) for t in trials)
    bad = sum(wrong(t)[0] for t in trials)
    n = len(trials)
    return {"n": n, "top1": sum(top(t, 1) for t in trials) / n, "top3": sum(top(t, 3) for t in trials) / n,
            "recall": len(times) / n, "precision": 1 - bad / named if named else None,
            "p50": quantile(times, 0.5), "p90": quantile(times, 0.9), "wrong": bad,
            "wrong_critical": sum(wrong(t)[1] for t in trials)}


def baselines(trials):
    """Of each rule: top-1 and top-3 on the same trials, and when it speaks."""
    table = {}
    for t in trials:
        for name, word in t["baselines"].items():
            one = table.setdefault(name, {"n": 0, "top1": 0, "top3": 0, "after_s": word["after_s"]})
            one["n"] += 1
            one["top1"] += bool(word["ranks"]) and word["ranks"][0] in culprits(t)
            one["top3"] += bool(set(word["ranks"]) & culprits(t))
    return {name: {"n": b["n"], "after_s": b["after_s"], "top1": b["top1"] / b["n"], "top3": b["top3"] / b["n"]}
            for name, b in table.items()}
