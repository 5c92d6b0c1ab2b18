# SPDX-License-Identifier: Apache-2.0
"""The rules for docs, called by check.sh: prints what breaks one.

Lines of README.md, CONTRIBUTING.md, docs/ and the READMEs of folders have at most 120 characters; a row of a table
may be longer where one cell alone (a link, a command) cannot be broken. README.md has at most 250 lines. Every
relative link leads to a file, and to a heading of it where it names one. Every file that docs/architecture.md names
exists; the ways that it walks have 20 files at most and never return to a room. A decision's number is no other's.
Every kind of finding, class of hang and cause is in docs/findings.md, and of kinds and classes symptom, command,
reading and what to do in the playbook.
"""
import glob
import json
import os
import re
import sys

LINE_MAX, README_MAX, CELL_MAX, WAY_MAX = 120, 250, 80, 20
PAGES = ("docs/**/*.md", "tracers/*/README.md", "tools/*/README.md", "schemas/*.md", "tests/*/README.md")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|^\[[^^\]][^\]]*\]:\s+(\S+)", re.M)
FILE = re.compile(r"`((?:[\w.-]+/)*[\w.-]+\.(?:bpf\.c|bpf\.h|[ch]|def|mk|py|sh|json|md|proto))`")


def lines_long(path, text):
    for n, line in enumerate(text.split("\n"), 1):
        cells = [c.strip() for c in line.strip("| ").split("|")] if line.startswith("|") else []
        if len(line) > LINE_MAX and not any(len(c) > CELL_MAX and " " not in c for c in cells):
            yield f"{path}:{n}: {len(line)} characters, more than {LINE_MAX}"


def anchors(path):
    """What a heading is called in a link: lower case, no punctuation, spaces as dashes."""
    with open(path, encoding="utf-8") as f:
        heads = re.findall(r"^#+ +(.*)$", f.read(), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def links_dead(path, text):
    for link in (a or b for a, b in LINK.findall(text)):
        target, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        to = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
        if not os.path.exists(to):
            yield f"{path}: link to {link}: no such file"
        elif anchor and to.endswith(".md") and anchor not in anchors(to):
            yield f"{path}: link to {link}: no such heading"


def files_missing(path, text):
    for name in sorted(set(FILE.findall(text))):
        if not os.path.exists(name):
            yield f"{path}: names {name}, which does not exist"


def room_of(name):
    """The kernel's side is one room whatever folder it lies in; what reads a source's records is a room of its own."""
    if ".bpf." in name or name.startswith("bpf/"):
        return "the kernel's side"
    return name if name.endswith("_records.c") else "/".join(name.split("/")[:2])


def ways_wrong(path, text):
    """The tables under "The way of one event", one for each ### heading but the last, which is of findings."""
    for way in re.findall(r"^### (.*?)(?=^##)", text, re.M | re.S)[:-1]:
        title, names = way.split("\n")[0], FILE.findall("\n".join(line for line in way.split("\n") if line[:1] == "|"))
        left, room = set(), None
        for name in names:
            if room_of(name) != room:
                left.add(room)
                room = room_of(name)
            if room in left:
                yield f"{path}: {title}: returns to {room} ({name})"
        if len(names) > WAY_MAX:
            yield f"{path}: {title}: {len(names)} files, more than {WAY_MAX}"


def findings_missing(path, text):
    with open("schemas/incident.schema.json", encoding="utf-8") as f:
        fields = json.load(f)["properties"]
    for name in [n for field in ("kind", "class", "cause") for n in fields[field].get("enum", []) if n]:
        if not re.search(rf"^#+ .*\b{name}\b|`(\w+/)?{name}`", text, re.M):
            yield f"{path}: {name} is not in it"


def playbook_missing(path, text):
    """Each kind of finding and class of hang has its heading, and below it all four labels."""
    with open("schemas/incident.schema.json", encoding="utf-8") as f:
        fields = json.load(f)["properties"]
    parts = re.split(r"^#{2,3} (.*)$", text, flags=re.M)[1:]
    headed = dict(zip(parts[::2], parts[1::2]))
    for name in [n for field in ("kind", "class") for n in fields[field]["enum"] if n]:
        if name not in headed:
            yield f"{path}: no heading {name}"
    for name, body in headed.items():
        labels = re.findall(r"^- \*\*(\w+)\.\*\* \S", body, re.M)
        if labels != ["Symptom", "Command", "Reading", "Do"]:
            yield f"{path}: {name} has {labels}, not symptom, command, reading, do"


def check(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    yield from lines_long(path, text)
    yield from links_dead(path, text)
    if path == "README.md" and text.count("\n") > README_MAX:
        yield f"{path}: {text.count(chr(10))} lines, more than {README_MAX}"
    if path == "docs/architecture.md":
        yield from files_missing(path, text)
        yield from ways_wrong(path, text)
    if path == "docs/findings.md":
        yield from findings_missing(path, text)
    if path == "docs/playbook/findings.md":
        yield from playbook_missing(path, text)


def numbers_twice(pages):
    seen = {}
    for page in [p for p in pages if p.startswith("docs/decisions/")]:
        with open(page, encoding="utf-8") as f:
            for number in re.findall(r"^\*\*(\d+)\. ", f.read(), re.M):
                if number in seen:
                    yield f"{page}: {number} is a decision of {seen[number]}, too: give it another number"
                seen[number] = page


def main():
    pages = [page for where in PAGES for page in glob.glob(where, recursive=True)]
    broken = [line for path in ["README.md", "CONTRIBUTING.md", *sorted(pages)] for line in check(path)]
    broken += numbers_twice(sorted(pages))
    print("\n".join(broken), end="\n" if broken else "")
    return int(bool(broken))


sys.exit(main())
