#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints findings into the docs: runs the commands that stand in README.md and docs/examples.md on kept recordings.

    scripts/finding_examples.py --write     after a text, or an example, was changed
    scripts/finding_examples.py --check     exit status 1, and what differs: tests/replay/test_examples.py

An example is a comment with the arguments of ranktrace, the block that it printed, and the comment that ends it:
    <!-- printed by: replay tests/replay/f01_stop.rtr -->
    <!-- end -->
Behind " | " may stand what is shown of it: "findings 1, 3" (those blocks that begin with a time), "lines 9" (the first
ones, then "..."), "json 2" (the second line, as JSON over several lines), or "errors cost" (those lines of standard
error that have this word). Times are UTC; lines are folded at column
118, which a terminal does by itself. O is the build folder; TREE=dir takes another tree's pages.
"""
import difflib
import json
import os
import re
import subprocess
import sys
import textwrap

import incident_schema
import kept_file

PAGES = ("README.md", "docs/examples.md", "docs/playbook/storage.md", "docs/playbook/quota.md")
EXAMPLE = re.compile(r"(<!-- printed by: (.*?)(?: \| (.*?))? -->\n)(.*?)(<!-- end -->)", re.S)
INDENT, WIDTH = " " * 10, 118


def printed(arguments):
    """Standard output and error of the command. It may find something: exit status 0 or 1."""
    program = os.path.join(os.environ.get("O", "build"), "ranktrace")
    environment = {**os.environ, "TZ": "UTC", "NO_COLOR": "1", "LC_ALL": "C.UTF-8", "COLUMNS": str(WIDTH)}
    out = subprocess.run([program, *arguments.split()], capture_output=True, text=True, env=environment)
    if out.returncode not in (0, 1) or not out.stdout:
        sys.exit(f"ranktrace {arguments}: exit status {out.returncode} {out.stderr}")
    return out.stdout, out.stderr


def findings(text, wanted):
    """Those of the blocks, each from its time to the next one's."""
    blocks = re.split(r"^(?=\d{4}-\d\d-\d\d )", text, flags=re.M)[1:]
    try:
        return "".join(blocks[int(number) - 1] for number in wanted.split(","))
    except IndexError:
        sys.exit(f"only {len(blocks)} findings where {wanted} are to be shown")


def lines(text, wanted):
    return "".join(text.splitlines(True)[:int(wanted)]) + "...\n"


def as_json(text, wanted):
    return incident_schema.dumped(json.loads(text.splitlines()[int(wanted) - 1])) + "\n"


SHOW = {"findings": findings, "lines": lines, "json": as_json}


def folded_line(line):
    """Not between a number and its unit."""
    kept = re.sub(r"(\d) (?=[a-z%])", "\\1\N{NO-BREAK SPACE}", line)
    return textwrap.fill(kept, WIDTH, subsequent_indent=INDENT, break_long_words=False,
                         break_on_hyphens=False).replace("\N{NO-BREAK SPACE}", " ") + "\n"


def folded(text):
    return "".join(folded_line(line) if len(line) > WIDTH else line for line in text.splitlines(True))


def block(arguments, show):
    text, errors = printed(arguments)
    how, _, wanted = (show or "").partition(" ")
    if how == "errors":
        text = "".join(line for line in errors.splitlines(True) if wanted in line)
    elif show:
        text = SHOW[how](text, wanted)
    return f"```\n{folded(text)}```\n"


def filled(page):
    """The page's text with what its commands print today."""
    n = 0

    def example(m):
        nonlocal n
        n += 1
        return m.group(1) + block(m.group(2), m.group(3)) + m.group(5)
    text = EXAMPLE.sub(example, page)
    if n != page.count("<!-- printed by: "):
        sys.exit("an example has no end")
    return text, n


def main():
    write = kept_file.asked_to_write(__doc__)
    differ = total = 0
    for name in PAGES:
        before = kept_file.read(name)
        after, n = filled(before)
        total += n
        if kept_file.differs(name, after, write):
            differ += 1
            old, new = before.splitlines(True), after.splitlines(True)
            print("".join(difflib.unified_diff(old, new, name, f"{name} today", n=1)))
    if differ:
        print("run scripts/finding_examples.py --write")
    print(f"{total} examples, {differ} pages differ")
    return 1 if differ or not total else 0


if __name__ == "__main__":
    sys.exit(main())
