#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Metrics: schemas/metrics.def is the table. --write puts it into docs/operate.md; --check prints where the docs differ
from it, and what of its rules a line of it breaks."""
import re
import sys
import textwrap

import kept_file

TABLE, DOC = "schemas/metrics.def", "docs/operate.md"
BEGIN, END = "<!-- metrics: written by scripts/metrics.py from schemas/metrics.def -->\n", "<!-- end of metrics -->\n"
ROW = re.compile(r'^METRIC\((\w+),\s*"([^"]*)",\s*(\w+),\s*"([^"]*)",\s*"([^"]*)",\s*(\d+),\s*"((?:[^"\\]|\\.)*)"\)$',
                 re.M)
UNITS = ("seconds", "bytes", "ratio", "watts", "celsius", "hertz", "bytes_per_second")
# What grows with time, sizes or ids is no label: ranks, GPUs and ports are as many as a node has.
LABELS = {"train_job", "rank", "parallelism", "state", "kind", "severity", "class", "cause", "gpu", "root", "UUID",
          "model", "host", "part", "role", "reason", "error", "fault", "device", "port", "netdev", "event", "queue",
          "tier", "version", "mountpoint", "fstype", "call", "phase"}
SERIES_MAX = 17408


def rows(path=TABLE):
    """[{id, name, type, unit, labels, series, help}], in the order of the table."""
    text = kept_file.read(path)
    found = [dict(zip(("id", "name", "type", "unit", "labels", "series", "help"), m)) for m in ROW.findall(text)]
    if len(found) != len(re.findall(r"^METRIC\(", text, re.M)):
        sys.exit(f"{path}: a line is not METRIC(id, \"name\", type, \"unit\", \"labels\", series, \"help\")")
    for r in found:
        r["labels"] = r["labels"].split(",") if r["labels"] else []
        r["series"] = int(r["series"])
    return found


def wrong(r):
    """The rules of names: prometheus.io/docs/practices/naming, and OpenMetrics'."""
    if not re.fullmatch(r"ranktrace_[a-z0-9_]+", r["name"]):
        yield "its name is not ranktrace_ and small letters"
    if r["type"] not in ("COUNTER", "GAUGE", "INFO", "HISTOGRAM"):
        yield f"type {r['type']}"
    for kind, end in (("COUNTER", "_total"), ("INFO", "_info")):
        if (r["type"] == kind) != r["name"].endswith(end):
            yield f"{end} is of type {kind}, and only of that"
    base = re.sub("_(total|info)$", "", r["name"])
    if r["unit"] and (r["unit"] not in UNITS or not base.endswith("_" + r["unit"])):
        yield f"its unit {r['unit']} is no base unit, or not the end of its name"
    if not r["unit"] and re.search("_(" + "|".join(UNITS) + ")$", base):
        yield "its name has a unit, and its row none"
    if set(r["labels"]) - LABELS:
        yield f"labels {sorted(set(r['labels']) - LABELS)}"
    if {"rank", "event"} <= set(r["labels"]) or not r["help"].endswith("."):
        yield "rank by operation has no bound, or the help is no sentence"


def table(found):
    lines = []
    for r in found:
        kind = "; ".join([r["type"].lower()] + [" ".join(f"`{name}`" for name in r["labels"])] * bool(r["labels"]))
        lines += textwrap.wrap(f"- **`{r['name']}`** ({kind}): {r['help']}", 118, subsequent_indent="  ",
                               break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def main():
    write = kept_file.asked_to_write(__doc__)
    found = rows()
    bad = [f"{TABLE}: {r['name']}: {w}" for r in found for w in wrong(r)]
    if len({r["name"] for r in found}) != len(found):
        bad.append(f"{TABLE}: a name is there twice")
    for who, is_hub in (("a session", False), ("a hub", True)):
        if sum(r["series"] for r in found if r["name"].startswith("ranktrace_hub_") == is_hub) > SERIES_MAX:
            bad.append(f"{TABLE}: more than {SERIES_MAX} series of {who} together")
    head, _, rest = kept_file.read(DOC).partition(BEGIN)
    text = head + BEGIN + table(found) + END + rest.partition(END)[2]
    if kept_file.differs(DOC, text, write):
        bad.append(f"{DOC}: not as {TABLE} has it: run scripts/metrics.py --write")
    return kept_file.report(bad)


if __name__ == "__main__":
    sys.exit(main())
