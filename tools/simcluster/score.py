# SPDX-License-Identifier: Apache-2.0
"""What the trials of the simulated cluster are worth: who was named first, how soon, and who was named wrongly."""

PAGES = ("warning", "critical")
QUIET = ("none", "agent", "traffic", "imbalance", "suspend")  # no rank is to be named
EVENTS = ("resume", "upgrade", "cut")                        # nor here, and they take a minute
STALL_SEEN_S, STALL_OVER_S = 2, 8  # a report is late; peers wait for its rank's first operations after it, too
NAMING = ("hang", "stopped", "d_state", "straggler", "mismatch", "cpu_starved", "io_stall")


def quantile(values, q):
    """Nearest rank; None of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else None


def said_s(trial, verdict):
    """When it said what it has to; None: it did not. Of a rank that spins an observation is the verdict (F3): it may
    work, and a page comes after the busy limit of 90 s."""
    if trial["fault"] == "busy" and verdict["kind"] == "observation":
        return verdict.get("open_s")
    if verdict["severity"] not in PAGES or verdict["kind"] not in NAMING:
        return None
    return verdict.get("warned_s")


def of_the_job(verdict):
    """That its ranks are all stopped blames none of them."""
    return verdict["kind"] == "stopped" and verdict["n_ranks"] > 1


def of_a_stall(trial, verdict):
    """It names a rank whose input ran dry, while that lasts: right, and not about the trial's fault."""
    at = said_s(trial, verdict)
    return (verdict["kind"], verdict["class"]) == ("hang", "missing_enter") and any(
        verdict["ranks"] == [one["rank"]] and one["begin_s"] <= at <= one["begin_s"] + one["s"] + STALL_SEEN_S and
        verdict.get("closed_s", at) <= one["begin_s"] + one["s"] + STALL_OVER_S for one in trial["stalls"])


def pages(trial):
    """Verdicts that name ranks and wake somebody, the first one first, the surest of a moment first."""
    found = [v for v in trial["verdicts"] if v["n_ranks"] > 0 and not of_the_job(v)
             and said_s(trial, v) is not None and not of_a_stall(trial, v)]
    return sorted(found, key=lambda v: (said_s(trial, v), -v["confidence"]))


def names(verdict):
    """Whom it blames: a deadlock lists all who are in it, those with the other order first."""
    return set(verdict["ranks"][:1] if verdict["class"] == "deadlock" else verdict["ranks"])


def culprits(trial):
    """Ranks that may be named; a host that is gone has eight."""
    if trial["fault"] in QUIET + EVENTS:
        return set()
    if trial["fault"] in ("host", "replace"):
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
        first = named[0]
        whole = first["class"] == "deadlock" or first["n_ranks"] == len(first["ranks"])
        return names(first) <= culprits(trial) and whole
    return bool(set(ranks_named(trial)[:n]) & culprits(trial))


def latency(trial):
    """Seconds from the first peer's wait to the first page that names a culprit; None: there is none."""
    times = [said_s(trial, v) for v in pages(trial) if names(v) & culprits(trial)]
    return min(times) if times else None


def wrong(trial):
    """Pages, and of them critical ones, that name a rank that is none of the culprits."""
    bad = [v for v in pages(trial) if not names(v) <= culprits(trial)]
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
