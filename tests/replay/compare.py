#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what today's program says of every recording in this folder with what the program said that made it.

    python3 -B tests/replay/compare.py [--expect DIR] [NAME ...]    exit status 1 and a line per difference
    python3 -B tests/replay/compare.py --accept DIR                 writes today's output to DIR as the new expectations

Kept beside NAME.rtr, as JSON lines: NAME.findings.jsonl (`replay --json`); of some recordings NAME.ops.jsonl,
NAME.qps.jsonl, NAME.steps.jsonl (`replay` with that option), NAME.merge.jsonl (`autopsy --merge --json` of one or
several recordings: MERGES). exits.json has the exit status of each of these commands. The comparison is exact: number
and order of lines, every key and value, times, ranks, confidence; and no command may write to stderr, where it says
which records it does not know. Only the order of keys within a line is free, as in any JSON.

What a finding is called is no part of what was said: the form of ids changed. In place of each id, in "id" and in
"caused_by", stands its number in the order in which the ids of that output appear first ("#1", "#2"). So it is
compared which lines are of one finding, and which finding is the cause of which.

renamed.json maps names that were changed since, and nothing else:
    VIEW -> KIND or "*" -> {"keys": {old: new}, "values": {key: {old: new}}}
A key below another has a dotted path ("evidence.n_waiting"). Paths and kinds are those of the kept lines, before any
renaming; a kind's own entry wins over "*". Only whole strings can be renamed as values: a number, a list or a part of
a text cannot. And it lists keys that were added since, with all that is below them:
    VIEW -> KIND or "*" -> {"added": [key, ...]}
One of them may be new in today's output. Where the kept line has it, too, it is compared as any other.
"""
import argparse
import glob
import itertools
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
RANKTRACE = os.path.join(os.environ.get("O", "build"), "ranktrace")
OPTIONS = {"findings": "--json", "ops": "--ops", "qps": "--qps", "steps": "--steps"}  # of replay, by view
KEPT = {  # views besides findings
    "f21_graph": ["steps"], "healthy": ["ops", "steps"], "healthy_burst": ["ops", "steps"], "rdma_late": ["qps"],
    "rdma_rxe": ["qps"], "rdma_rxe_late": ["qps"], "rdma_start": ["qps"],
}
MERGES = {"autopsy_python": ["autopsy_python"], "autopsy_raw": ["autopsy_raw"],
          "two_hosts": ["two_hosts_a", "two_hosts_b"]}
IDS = ("id", "caused_by")  # of findings: in their place stand the numbers in which they appear first
SHOWN = 12  # differences of one view that are printed


def commands():
    """{NAME.VIEW: arguments of ranktrace}"""
    names = [os.path.basename(path)[:-len(".rtr")] for path in sorted(glob.glob(f"{HERE}/*.rtr"))]
    found = {f"{name}.{view}": ["replay", "-q", OPTIONS[view], f"{HERE}/{name}.rtr"]
             for name in names for view in ["findings", *KEPT.get(name, [])]}
    for name, parts in MERGES.items():
        found[f"{name}.merge"] = ["autopsy", "--merge", "--json", *(f"{HERE}/{part}.rtr" for part in parts)]
    return found


def printed(arguments):
    """(lines, exit status, errors) of one command."""
    out = subprocess.run([RANKTRACE, *arguments], capture_output=True, text=True)
    return out.stdout.splitlines(), out.returncode, out.stderr.strip()


def kept(folder, name):
    """(lines, exit status), or None where nothing is kept."""
    try:
        with open(f"{folder}/{name}.jsonl") as f, open(f"{folder}/exits.json") as exits:
            return f.read().splitlines(), json.load(exits).get(name)
    except FileNotFoundError:
        return None


def flat(row, path=""):
    """{dotted path: value} of a line; an empty object is a value."""
    found = {}
    for key, value in row.items():
        found.update(flat(value, f"{path}{key}.") if isinstance(value, dict) and value else {path + key: value})
    return found


def names_of(table, view, kind):
    """(keys, values) of the table that apply to a line of this view and kind."""
    entries = [table.get(view, {}).get(k, {}) for k in ("*", kind)]
    keys, values = ({path: new for e in entries for path, new in e.get(p, {}).items()} for p in ("keys", "values"))
    return keys, values


def is_added(key, old, table, view, kind):
    """A key of today's output that the table lists as added, or what is below it, and that the kept line lacks."""
    names = [n for k in ("*", kind) for n in table.get(view, {}).get(k, {}).get("added", [])]

    def below(path, name):
        return path == name or path.startswith(name + ".")
    return any(below(key, n) and not any(below(o, n) for o in old) for n in names)


def check_table(table):
    """What is no renaming: values that are no strings, two names that become one."""
    for view, kinds in table.items():
        for kind in kinds:
            keys, values = names_of(table, view, kind)
            for new in (keys, *values.values()):
                if not all(isinstance(n, str) for n in new.values()) or len(set(new.values())) < len(new):
                    sys.exit(f"renamed.json: {view}, {kind}: {new} does more than rename")


def renamed(row, table, view):
    """A kept line, flat, by today's names."""
    keys, values = names_of(table, view, row.get("kind"))
    found = {}
    for path, value in flat(row).items():
        if isinstance(value, str):
            value = values.get(path, {}).get(value, value)
        new = keys.get(path, path)
        if new in found:
            sys.exit(f"renamed.json: two keys of a line become {new}: {row}")
        found[new] = value
    return found


def numbered(lines):
    """The same lines with an id's number by first appearance in the place of each id."""
    seen, found = {}, []
    for line in lines:
        row = json.loads(line)
        for key in IDS:
            if row.get(key) is not None:
                row[key] = seen.setdefault(row[key], f"#{len(seen) + 1}")
        found.append(json.dumps(row))
    return found


def label(row):
    return " ".join(str(row[k]) for k in ("id", "phase", "kind", "rank", "qp", "op", "seq") if row.get(k) is not None)


def line_differences(i, before, after, table, view):
    if before is None or after is None:
        which = f"line {i + 1} {label(json.loads(before or after))}"
        yield f"{which}: {'only before: ' + before if before else 'only after: ' + after}"
        return
    old, new = renamed(json.loads(before), table, view), flat(json.loads(after))
    kind = json.loads(before).get("kind")
    for key in [*old, *(k for k in new if k not in old and not is_added(k, old, table, view, kind))]:
        # as text: 1, 1.0 and true are equal in Python
        a, b = (json.dumps(x[key]) if key in x else "(no such key)" for x in (old, new))
        if a != b:
            yield f"line {i + 1} {label(json.loads(before))}: {key}: before {a}, after {b}"


def differences(view, before, after, table):
    """Texts, each one difference between (lines, exit status) before and (lines, exit status, errors) after."""
    found = [f"exit status: before {before[1]}, after {after[1]}"] if before[1] != after[1] else []
    found += [f"stderr: {after[2]}"] if after[2] else []
    old, new = (numbered(lines) if view == "findings" else lines for lines in (before[0], after[0]))
    for i, (a, b) in enumerate(itertools.zip_longest(old, new)):
        found += line_differences(i, a, b, table, view)
    return found


def compare(folder, wanted, table):
    """Prints each difference. The number of views that were compared, and of those that differ."""
    todo, wrong = {n: c for n, c in commands().items() if not wanted or n.split(".")[0] in wanted}, 0
    for name, arguments in todo.items():
        before = kept(folder, name)
        view = "findings" if name.endswith(".merge") else name.rsplit(".", 1)[1]
        found = differences(view, before, printed(arguments), table) if before else ["nothing is kept"]
        for text in found[:SHOWN]:
            print(f"{name}: {text}")
        if len(found) > SHOWN:
            print(f"{name}: and {len(found) - SHOWN} more differences")
        wrong += bool(found)
    lost = {os.path.basename(p)[:-len(".jsonl")] for p in glob.glob(f"{folder}/*.jsonl")} - set(commands())
    for name in sorted(lost if not wanted else ()):
        print(f"{name}: kept, and there is no recording of it")
    return len(todo), wrong + (len(lost) if not wanted else 0)


def accept(folder):
    os.makedirs(folder, exist_ok=True)
    exits = {}
    for name, arguments in commands().items():
        lines, exits[name], _ = printed(arguments)
        with open(f"{folder}/{name}.jsonl", "w") as f:
            f.writelines(line + "\n" for line in lines)
    with open(f"{folder}/exits.json", "w") as f:
        f.write(json.dumps(exits, indent=1, sort_keys=True) + "\n")


def table_read():
    with open(f"{HERE}/renamed.json") as f:
        table = json.load(f)
    check_table(table)
    return table


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("names", nargs="*", metavar="NAME", help="only these recordings")
    args.add_argument("--expect", default=HERE, metavar="DIR", help="the kept output (default: this folder)")
    args.add_argument("--accept", metavar="DIR", help="write today's output there; renamed.json is then done with")
    args = args.parse_args()
    if args.accept:
        accept(args.accept)
        return 0
    n, wrong = compare(args.expect, args.names, table_read())
    print(f"{n} outputs compared, {wrong} differ")
    return 1 if wrong or not n else 0


if __name__ == "__main__":
    sys.exit(main())
