# SPDX-License-Identifier: Apache-2.0
"""The rules for text, called by check.sh with the name of one: prints what breaks it.

lines: no line of code, scripts or tables has more than 120 columns (a tab is eight); docs are check_docs.py's.
words: the words that docs/glossary.md replaces do not come back in code and docs. Identifiers count by their parts.
"""
import os
import re
import sys

LINE_MAX = 120
CODE = (".c", ".h", ".def", ".py", ".sh", ".bash", ".mk", ".proto", "Makefile")
ROOTS = ("user", "tracers", "bpf", "tools", "schemas", "scripts", "tests")
WORDED = ("user", "tracers", "bpf", "tools", "schemas", "docs", "README.md", "CONTRIBUTING.md")
NOT_READ = ("docs/glossary.md", "schemas/CHANGES.md")  # the list itself; records that had those names

# old word: what docs/glossary.md has in its place
OLD = {
    r"told|tells?|telling|retold": "emit, report, show, distinguish",
    r"looked[ _]at|looks of": "sample, scan, read",
    r"nobody|whoever": "name the subject: no rank, no process, the one that",
    r"of[ _]late": "recently",
    r"stand(s|ing)?[ _]still|stood[ _]still": "does not move, has stopped",
    r"h[eo]ld(s|ing)?[ _]up(?! to)": "blocks, delays",
    r"in[ _]vain": "unanswered, without a result",
    r"governor|warden": "probe budget",
    r"infants?": "new process",
    r"patience": "timeout",
    r"unborn|births?": "pending communicator, communicator init",
    r"jam(s|med)?|stuck": "stalled transfer, stalled",
    r"stance|doing": "state, call site, activity",
    r"news": "change",
    r"ev_mark\w*|struct mark|cuda_mark": "CUDA event",
}
WORD = re.compile("(?<![A-Za-z])(?:" + "|".join(f"(?:{w})" for w in OLD) + ")(?![A-Za-z])", re.I)
# values that readers of findings know; an old option; names of tests
KEPT = re.compile(r"no_host_told|\"patience\"|test_\w+", re.I)


def files(roots):
    for root in roots:
        if os.path.isfile(root):
            yield root
        for folder, names, found in os.walk(root):
            names[:] = sorted(n for n in names if n not in ("build", "replay", "__pycache__"))
            yield from (os.path.join(folder, name) for name in sorted(found))


def text(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return enumerate(f.read().split("\n"), 1)


def lines():
    for path in [*files(ROOTS), "Makefile"]:
        if path.endswith(CODE):
            for n, line in text(path):
                columns = len(line.expandtabs(8))
                if columns > LINE_MAX:
                    yield f"{path}:{n}: {columns} columns, more than {LINE_MAX}"


def instead_of(word):
    return next(new for old, new in OLD.items() if re.fullmatch(old, word, re.I))


def words():
    for path in files(WORDED):
        if path.endswith((*CODE, ".md")) and path not in NOT_READ:
            for n, line in text(path):
                for found in WORD.finditer(KEPT.sub("", line)):
                    yield f"{path}:{n}: {found.group()}: {instead_of(found.group())} (docs/glossary.md)"


def main():
    broken = list({"lines": lines, "words": words}[sys.argv[1]]())
    print("\n".join(broken), end="\n" if broken else "")
    return int(bool(broken))


sys.exit(main())
