# SPDX-License-Identifier: Apache-2.0
"""Every recording here opens and gives the findings that the program gave that made it (compare.py). Those of runs that
once went wrong, each NAME.rtr with a NAME.json, give the root findings that NAME.json names. Every line that is kept,
by today's names, and every line of today is as schemas/incident.schema.json has it.

This is also the test that old recordings still open: no recording here is ever made anew. What they are: README.md."""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

import checks
import compare
import schema_check
from checks import check

RANKTRACE = compare.RANKTRACE
SILENT = ("observation", "lost_events")
here = os.path.dirname(os.path.abspath(__file__))


def check_roots():
    recordings = [path for path in sorted(glob.glob(f"{here}/*.rtr")) if os.path.exists(path[:-4] + ".json")]
    check(recordings, "recordings of runs that once went wrong")
    for path in recordings:
        with open(path[:-4] + ".json") as f:
            expected = json.load(f)
        out = subprocess.run([RANKTRACE, "replay", "-q", "--json", "--fail-on=warning", path], capture_output=True,
                             text=True)
        last = {f["id"]: f for f in map(json.loads, out.stdout.splitlines())}
        roots = [[f["kind"], f["class"], f["ranks"]] for f in last.values()
                 if not f["caused_by"] and f["kind"] not in SILENT]
        right = sorted(map(str, roots)) == sorted(map(str, expected["roots"])) and out.returncode == expected["exit"]
        check(right, f"{os.path.basename(path)}: {roots}, exit {out.returncode} {out.stderr}")


def check_merge_refuses():
    """A session's recording is no autopsy's: it has records that an autopsy never writes."""
    for name in ("watch_hang", "f03_hang", "gpu_health"):
        out = subprocess.run([RANKTRACE, "autopsy", "--merge", f"{here}/{name}.rtr"], capture_output=True, text=True)
        check(out.returncode == 2 and "no recording of an autopsy" in out.stderr,
              f"--merge refuses {name}: {out.returncode} {out.stderr}")


def check_merge_of_one():
    """A merge of one recording finds what its replay does."""
    def found(*words):
        out = subprocess.run([RANKTRACE, "replay", *words, "-q", "--json", f"{here}/watch_hang.rtr"],
                             capture_output=True, text=True)
        check(out.returncode in (0, 1), f"replay {words}: exit {out.returncode}: {out.stderr}")
        return [(f["kind"], f["class"], f["ranks"]) for f in map(json.loads, out.stdout.splitlines())]
    check(found() and found("--merge") == found(), "replay --merge of one recording finds what its replay does")


def run_compare(*arguments):
    out = subprocess.run([sys.executable, "-B", f"{here}/compare.py", *arguments], capture_output=True, text=True)
    return out.returncode, out.stdout + out.stderr


def check_all():
    code, text = run_compare()
    print(text, end="")
    check(code == 0, "every output is as it was kept")


def check_seen(name, change, text):
    """A change of the kept lines of one recording is reported, in words that hold `text`."""
    with tempfile.TemporaryDirectory(prefix="ranktrace-replay-") as folder:
        shutil.copy(f"{here}/exits.json", folder)
        with open(f"{here}/{name}.jsonl") as f:
            rows = [json.loads(line) for line in f]
        change(rows)
        with open(f"{folder}/{name}.jsonl", "w") as f:
            f.writelines(json.dumps(row) + "\n" for row in rows)
        code, out = run_compare("--expect", folder, name.split(".")[0])
    seen = code == (text is not None) and (text or "") in out
    check(seen, f"planted in {name}: {text}" if text else f"{name} as it was")
    if not seen:
        print(out)


def check_planted():
    stop = "f01_stop.findings"
    check_seen(stop, lambda rows: None, None)
    check_seen(stop, lambda rows: rows[0]["evidence"].update(waiting_s=9.5), "evidence.waiting_s: before 9.5, after ")
    check_seen(stop, lambda rows: rows[0]["evidence"].update(n_waiting=3.0), "evidence.n_waiting: before 3.0, after 3")
    check_seen(stop, lambda rows: rows[0]["evidence"].update(more=1), "evidence.more: before 1, after (no such key)")
    check_seen(stop, lambda rows: rows[0]["evidence"].pop("limit_s"), "evidence.limit_s: before (no such key), after ")
    check_seen(stop, lambda rows: rows[0].update(confidence=0.5), "confidence: before 0.5, after ")
    check_seen(stop, lambda rows: rows[0].update(t_ns=rows[0]["t_ns"] + 1), "t_ns: before ")
    check_seen(stop, lambda rows: rows[0].update(ranks=[1]), "ranks: before [1], after [2]")
    check_seen(stop, lambda rows: rows[0].update({"class": "init"}), 'class: before "init", after "stopped"')
    check_seen(stop, lambda rows: rows.append(rows[0]), "only before: ")
    check_seen(stop, lambda rows: rows.pop(), "only after: ")
    check_seen("f08_dstate.findings", lambda rows: rows.reverse(), "phase: before ")
    check_seen("two_hosts.merge", lambda rows: rows[0].update(host="node-c"), 'host: before "node-c", after "node-')
    with tempfile.TemporaryDirectory() as folder:
        code, out = run_compare("--expect", folder, "healthy")
        check(code == 1 and "nothing is kept" in out, "an expectation that is missing")


def check_ids():
    """Ids may have another form; which lines are of one finding, and what causes what, may not."""
    kept = [{"id": "a-1", "caused_by": None}, {"id": "a-2", "caused_by": "a-1"}, {"id": "a-1", "caused_by": None}]

    def differ(*today):
        before, after = ([json.dumps(r) for r in kept], 1), ([json.dumps(r) for r in today], 1, "")
        return compare.differences("findings", before, after, {"findings": {}})

    def rows(*ids):
        return [{"id": i, "caused_by": c} for i, c in ids]
    check(not differ(*rows(("n-7", None), ("n-8", "n-7"), ("n-7", None))), "ids of another form")
    check(differ(*rows(("n-7", None), ("n-8", None), ("n-7", None))), "a cause that is gone")
    check(differ(*rows(("n-7", None), ("n-8", "n-8"), ("n-7", None))), "another cause")
    check(differ(*rows(("n-7", None), ("n-8", "n-7"), ("n-9", None))), "a line of another finding")
    check(differ(*rows(("n-7", None), ("n-7", "n-7"), ("n-7", None))), "two findings that are one")
    check(differ(*rows(("n-7", "n-9"), ("n-8", "n-7"), ("n-7", None))), "a cause that is new")


def check_ids_alike():
    """A dump from the begin on has the live run's ids, a recording of a merge those of the merge."""
    told = {name: {json.loads(line)["id"] for line in compare.printed(arguments)[0]}
            for name, arguments in compare.commands().items() if name.endswith((".findings", ".merge"))}
    for a, b in (("watch_raise.findings", "flight_dump.findings"), ("two_hosts.merge", "two_hosts_merged.findings")):
        check(told[a] and told[a] == told[b], f"{a} and {b}: {told[a]}, {told[b]}")
    apart = [ids for name, ids in told.items() if name not in ("flight_dump.findings", "two_hosts_merged.findings")]
    check(len(set().union(*apart)) == sum(map(len, apart)), "two recordings share no id")


def check_added():
    """Keys that are listed may be new, and those below them; no other key, and no value of a kept key."""
    kept = {"kind": "hang", "t_ns": 5, "evidence": {"old": 1}}
    today = {**kept, "subject": {"type": "rank", "rank": 3}, "severity": "page"}

    def differ(before, after, added, kind="*"):
        before, after = ([json.dumps(before)], 1), ([json.dumps(after)], 1, "")
        return compare.differences("findings", before, after, {"findings": {kind: {"added": added}}})
    check(len(differ(kept, today, [])) == 3, "no key is listed")
    check(not differ(kept, today, ["subject", "severity"]), "keys that may be new")
    check(not differ(kept, today, ["subject", "severity"], "hang"), "keys that may be new in one kind")
    check(len(differ(kept, today, ["subject", "severity"], "link")) == 3, "keys that may be new in another kind")
    check(len(differ(kept, today, ["subject"])) == 1, "one of two is listed")
    check(len(differ(kept, {**today, "subjects": 1}, ["subject", "severity"])) == 1, "a name that begins alike")
    check(len(differ(kept, {**today, "t_ns": 6}, ["subject", "severity", "t_ns"])) == 1, "a kept key's value")
    old = {**today, "subject": {"type": "rank"}}
    check(len(differ(old, today, ["subject", "severity"])) == 1, "a key below one that the kept line has")
    check(len(differ({**kept, "severity": "page"}, kept, ["severity"])) == 1, "a kept key that is gone")


def schema_read():
    with open(f"{here}/../../schemas/incident.schema.json", encoding="utf-8") as f:
        return json.load(f)


def nested(row):
    """The line of a flat one."""
    found = {}
    for path, value in row.items():
        *above, key = path.split(".")
        at = found
        for name in above:
            at = at.setdefault(name, {})
        at[key] = value
    return found


def of_before(schema, table):
    """The schema of kept lines: keys that were added since may be missing."""
    added = {name for kind in table["findings"].values() for name in kind.get("added", [])}
    return {**schema, "required": [key for key in schema["required"] if key not in added]}


def check_schema():
    table, today, said = compare.table_read(), schema_read(), []
    before = of_before(today, table)
    for name, arguments in compare.commands().items():
        if not name.endswith((".findings", ".merge")):
            continue
        kept = (compare.renamed(json.loads(line), table, "findings") for line in compare.kept(here, name)[0])
        said += [(before, nested(row)) for row in kept]
        said += [(today, json.loads(line)) for line in compare.printed(arguments)[0]]
    wrong = {fault for schema, row in said for fault in schema_check.faults(schema, row)}
    print("".join(f"{fault}\n" for fault in sorted(wrong)), end="")
    unknown = {key for _, row in said for key in row} - set(today["properties"])
    check(len(said) > 100 and not wrong and not unknown,
          f"{len(said)} lines are as the schema has them {unknown or ''}")


def check_schema_seen():
    schema = schema_read()
    row = json.loads(compare.printed(compare.commands()["f01_stop.findings"])[0][0])

    def seen(text, change):
        one = json.loads(json.dumps(row))
        change(one)
        found = list(schema_check.faults(schema, one))
        check(any(text in f for f in found) if text else not found, f"planted: {text} {found}")
    seen("", lambda r: None)
    seen("line: lacks subject", lambda r: r.pop("subject"))
    seen("line.evidence: nonsense is not in the schema", lambda r: r["evidence"].update(nonsense=1))
    seen("line.evidence.waiting_s: '9' is no number", lambda r: r["evidence"].update(waiting_s="9"))
    seen("line.evidence.n_waiting: 1.5 is no integer", lambda r: r["evidence"].update(n_waiting=1.5))
    seen("line.cause: 'nonsense' is none of", lambda r: r.update(cause="nonsense"))
    seen("line.kind: None is none of", lambda r: r.update(kind=None))
    seen("line.subject.type: True is none of", lambda r: r["subject"].update(type=True))
    seen("line.subject: nonsense is not in", lambda r: r["subject"].update(nonsense=1))
    seen("line.confidence: 1.5 is out of range", lambda r: r.update(confidence=1.5))
    seen("line.ranks[0]: -2 is out of range", lambda r: r.update(ranks=[-2]))
    seen("line.ranks: 17 items", lambda r: r.update(ranks=[0] * 17))
    seen("line.comm: '0x1' is not as", lambda r: r.update(comm="0x1"))
    seen("line.severity: 'page' is none of", lambda r: r.update(severity="page"))
    seen("line.summary: 0 characters", lambda r: r.update(summary=""))
    seen("line.remedy: None is no string", lambda r: r.update(remedy=None))
    for time in ("2026-11-23 09:05:31Z", "2026-11-23T09:05:31", "2026-02-30T09:05:31Z", "2026-11-23T09:05:61Z", "9"):
        seen(f"line.time: '{time}' is no date-time", lambda r, t=time: r.update(time=t))
    seen("", lambda r: r.update(time="2026-11-23T09:05:31.25+01:00", since=None))
    seen("line.lists.waiting_ranks[1]: '1' is no integer", lambda r: r["lists"].update(waiting_ranks=[0, "1"]))
    seen("line.lists: thread is not in the schema", lambda r: r["lists"].update(thread=["x"]))
    schema["properties"]["schema_version"] = {"const": 1}
    seen("", lambda r: None)
    seen("line.schema_version: True is not 1", lambda r: r.update(schema_version=True))
    schema["properties"]["id"]["format"] = "uuid"
    seen("line.id: the schema has format uuid", lambda r: None)
    schema["properties"]["id"]["anyOf"] = []
    seen("line.id: the schema has anyOf", lambda r: None)


def check_names():
    """The table of renamings maps names, for one kind or for all, and nothing else."""
    row = {"kind": "hang", "class": "stopped", "t_ns": 5, "evidence": {"old": 1, "state": "stopped"}}
    today = {"kind": "hang", "class": "halted", "t_ns": 5, "evidence": {"new": 1, "state": "stopped"}}
    other = {**today, "evidence": {"new": 2, "state": "stopped"}}
    keys, values = {"evidence.old": "evidence.new"}, {"class": {"stopped": "halted"}}

    def differ(after, table, code=1, errors=""):
        after = ([json.dumps(after)], code, errors)
        return compare.differences("findings", ([json.dumps(row)], 1), after, {"findings": table})
    check(not differ(row, {}), "the same line")
    check(len(differ(row, {}, code=0)) == 1, "another exit status")
    check(len(differ(row, {}, errors="3 records were skipped")) == 1, "a message on stderr")
    check(len(differ(today, {})) == 3, "without a table every name differs")
    check(not differ(today, {"*": {"keys": keys, "values": values}}), "names mapped for all kinds")
    check(not differ(today, {"*": {"keys": keys}, "hang": {"values": values}}), "names mapped for one kind")
    check(len(differ(today, {"link": {"keys": keys, "values": values}})) == 3, "names mapped for another kind")
    found = differ(other, {"*": {"keys": keys, "values": values}})
    check(len(found) == 1 and "evidence.new: before 1, after 2" in found[0], "a value that differs below a new name")
    one = {"a": "c", "b": "c"}
    for table in ({"keys": one}, {"values": {"t_ns": {"5": 6}}}, {"values": {"class": one}}):
        try:
            compare.check_table({"findings": {"*": table}})
            check(False, f"accepted: {table}")
        except SystemExit as e:
            check("more than rename" in str(e), f"refused: {table}")


check_roots()
check_all()
check_merge_refuses()
check_merge_of_one()
check_planted()
check_ids()
check_ids_alike()
check_added()
check_names()
check_schema()
check_schema_seen()
checks.end()
