#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fills schemas/incident.schema.json from the tables of the code: kinds, severities and classes (user/finding.h),
causes (user/cause.def), evidence with type, unit and help (user/evidence.def), types of subjects (user/subject.h),
operations (user/event.c); and schemas/stress.schema.json: faults (tools/stress/faults.def), tests
(tools/stress/tests.def). All else in these files is written by hand, and kept.

    scripts/incident_schema.py --write      after a row of a table, or the schema, was edited
    scripts/incident_schema.py --check      exit status 1, and what is missing: make check
"""
import json
import re
import sys

import kept_file

SCHEMA = "schemas/incident.schema.json"
STRESS = "schemas/stress.schema.json"
WIDTH = 120
TYPES = {  # of evidence, as the JSON sink writes them: a number that is none (0 / 0) is null
    "NUMBER": {"type": ["number", "null"]},
    "INTEGER": {"type": ["integer", "null"]},
    "RANK": {"type": "integer", "minimum": -1},
    "FLAG": {"enum": [0, 1]},
    "TEXT": {"type": "string"},
    "LINES": {"type": "string"},
    "NAMES": {"type": "string"},
    "RANKS": {"type": "string", "pattern": "^[0-9?]"},
    "PIDS": {"type": "string", "pattern": "^[0-9?]"},
}
ITEMS = {  # of the array that "lists" has of such evidence: a rank that is not known is null
    "LINES": {"type": "string"},
    "NAMES": {"type": "string"},
    "RANKS": {"type": ["integer", "null"], "minimum": 0},
    "PIDS": {"type": "integer", "minimum": 0},
}
TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|(\w+)|([(),])|\s+')


def row_at(text, at):
    """Arguments of the macro call whose bracket opens before `at`; neighbouring strings are one."""
    row = [""]
    while True:
        m = TOKEN.match(text, at)
        if not m:
            raise ValueError(f"no row of a table: {text[at:at + 40]!r}")
        at, mark = m.end(), m.group(3)
        if mark == ")":
            return row
        if mark == ",":
            row.append("")
        else:
            row[-1] += (m.group(1) or "").replace('\\"', '"') + (m.group(2) or "")


def rows(text, macro):
    plain = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return [row_at(plain, m.end()) for m in re.finditer(rf"^[ \t]*{macro}\(", plain, re.M)]


def x_rows(path, name):
    """Rows of `#define name(X)`."""
    found = re.search(rf"^#define {name}\(X\) \\\n((?:.*\\\n)*.*\n)", kept_file.read(path), re.M)
    if not found:
        raise ValueError(f"{path}: no table {name}")
    return rows(found.group(1).replace("\\\n", "\n"), "X")


def evidence_property(row, units):
    _, name, kind, unit, text = row
    found = {**TYPES[kind], "description": text}
    if units[unit]:
        found["x-unit"] = units[unit]
    return name, found


def filled(schema):
    """The schema as the tables have it."""
    has = schema["properties"]
    has["kind"]["enum"] = [name for _, name, _ in x_rows("user/finding.h", "FINDING_KINDS")]
    has["severity"]["enum"] = [name for _, name in x_rows("user/finding.h", "SEVERITIES")]
    has["class"]["enum"] = [name or None for _, name in x_rows("user/finding.h", "HANG_CLASSES")]
    causes = rows(kept_file.read("user/cause.def"), "CAUSE")
    has["cause"]["enum"] = [None, *(name for _, name, _ in causes)]
    has["cause"]["x-meaning"] = {name: text for _, name, text in causes}
    has["op"]["enum"] = [None, *re.findall(r'\[OP_\w+\] = "(\w+)"', kept_file.read("user/event.c"))]
    has["subject"]["properties"]["type"]["enum"] = [n for _, n, _ in x_rows("user/subject.h", "SUBJECT_TYPES") if n]
    units = {unit: name for unit, name, *_ in x_rows("user/finding.h", "EVIDENCE_UNITS")}
    evidence = rows(kept_file.read("user/evidence.def"), "EVIDENCE")
    has["evidence"]["properties"] = dict(evidence_property(row, units) for row in evidence)
    lists = {name: ITEMS[kind] for _, name, kind, *_ in evidence if kind in ITEMS}
    has["lists"]["properties"] = {name: {"type": "array", "items": items} for name, items in lists.items()}
    return schema


def filled_stress(schema):
    """The same of the lines of active tests."""
    faults = rows(kept_file.read("tools/stress/faults.def"), "FAULT")
    of_fault = next(line for line in schema["oneOf"] if line["title"] == "fault")["properties"]
    of_fault["kind"]["enum"] = [name for _, name, *_ in faults]
    of_fault["severity"]["enum"] = sorted({severity.lower() for _, _, severity, _ in faults})
    schema["$defs"]["test"]["enum"] = [name for _, name, _ in rows(kept_file.read("tools/stress/tests.def"), "STRESS")]
    return schema


def dumped(value, indent=0, used=0):
    """JSON text: what fits in a line is on one."""
    one = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (dict, list)) or not value or indent + used + len(one) < WIDTH:
        return one
    inner = " " * (indent + 2)
    if isinstance(value, dict):
        heads = [json.dumps(key, ensure_ascii=False) + ": " for key in value]
        parts = [h + dumped(v, indent + 2, len(h) + 1) for h, v in zip(heads, value.values())]
        return "{\n" + ",\n".join(inner + p for p in parts) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(inner + dumped(v, indent + 2, 1) for v in value) + "\n" + " " * indent + "]"


def names(schema):
    """What a reader may meet, to say what is missing."""
    if "oneOf" in schema:
        for line in schema["oneOf"]:
            yield from (f"fault {name}" for name in line["properties"].get("kind", {}).get("enum", []))
        yield from (f"test {name}" for name in schema["$defs"]["test"]["enum"])
        return
    has = schema["properties"]
    for field in ("kind", "severity", "class", "cause", "op"):
        yield from (f"{field} {name}" for name in has[field].get("enum", []))
    yield from (f"subject {name}" for name in has["subject"]["properties"]["type"].get("enum", []))
    yield from (f"evidence {name}" for name in has["evidence"].get("properties", {}))


def say_what(path, before, schema):
    """How the file differs; the exit status."""
    old, new = set(names(json.loads(before))), set(names(schema))
    for which, list_of in (("is not in it", new - old), ("is in no table", old - new)):
        for name in sorted(list_of):
            print(f"{path}: {name} {which}")
    if old == new:
        print(f"{path}: not as the tables have it")
    print("run scripts/incident_schema.py --write")
    return 1


def main():
    write = kept_file.asked_to_write(__doc__)
    status = 0
    for path, fill in ((SCHEMA, filled), (STRESS, filled_stress)):
        before = kept_file.read(path)
        schema = fill(json.loads(before))
        text = dumped(schema) + "\n"
        if kept_file.differs(path, text, write):
            status = say_what(path, before, schema)
    return status


if __name__ == "__main__":
    sys.exit(main())
