# SPDX-License-Identifier: Apache-2.0
"""Where a C file can be mutated, and into what. Works on text: clang-format's spaces tell a binary operator from
others.

Operators: relational (`<` to `<=`, `==` to `!=`), logic (`&&` to `||`), arithmetic (`+` to `-`), constant (a named
number: one more, one less, twice, half), negated (a condition), removed (an assignment or a call), returned (0 to an
error, true to false), flow (continue to break).

Left alone, since no test of what a program does can tell: comments, texts, includes, assertions, logging, what is done
without memory, and what gives memory back or lets go of it.
"""
import bisect
import collections
import re

Mutation = collections.namedtuple("Mutation", "file line operator begin end text before after nth")

RELATIONAL = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
SWAPPED = {**{k: ("relational", v) for k, v in RELATIONAL.items()}, "&&": ("logic", "||"), "||": ("logic", "&&"),
           "+": ("arithmetic", "-"), "-": ("arithmetic", "+"), "+=": ("arithmetic", "-="), "-=": ("arithmetic", "+=")}
OPERATOR = re.compile(r"(?<= )(<=|>=|==|!=|&&|\|\||\+=|-=|<|>|\+|-)(?=\s)")
CONSTANT = re.compile(r"^#define \w+ (\d+\.\d+|\d+e\d+|\d+)(?:[uU]?[lL]*)(?= *$)", re.M)
CONDITION = re.compile(r"\b(?:if|while) (\()")
SIMPLE = re.compile(r"^\t+([*\w(][^;{}]*;) *$", re.M)
NO_STATEMENT = re.compile(r"(return|break|continue|goto|case|default|do|else|for|while|if|switch|struct|enum|const|"
                          r"static|unsigned|bool|int|char|double|float|size_t|ssize_t|void|off_t|pid_t|"
                          r"u?int\d+_t)\b|\w+ \*?\w+( = .*)?;|(\w*free\w*|HASH_CLEAR)\(|\w*unref\w*\([\w>.-]+\);")
ASSIGNS = re.compile(r"[^=!<>(]*(\(\*?\w+\))?[^=!<>(]* ([-+|&^*/]|<<|>>)?= |[\w>.\[\]*-]+(\+\+|--);|[\w>.-]+\(")
RETURNED = re.compile(r"\breturn (0|true|false|-E[A-Z]+)(?=;)")
FLOW = re.compile(r"\b(continue)(?=;)")
LEFT_ALONE = re.compile(r"assert|\blog_\w+\(|ENOMEM|\b[cm]alloc\(|\brealloc\(")


def masked(text):
    """Comments, texts and directives other than #define of a number as spaces, everything else at its place."""
    def blank(m):
        return re.sub(r"[^\n]", " ", m.group())
    text = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)
    return re.sub(r"^#(?:[^\n]*\\\n)*[^\n]*", lambda m: m.group() if CONSTANT.match(m.group()) else blank(m), text,
                  flags=re.M)


def closing(text, at):
    """Where the bracket that opens at `at` closes."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if not depth:
            return i
    return -1


def constants(number):
    """What a named number becomes. One more of a large one is no other behaviour."""
    if "." in number:
        return [str(float(number) * 2), str(float(number) / 2)]
    n = int(float(number))
    near = [n + 1] + [n - 1] * (n > 0) if n < 100 else []
    return [str(v) for v in dict.fromkeys(near + [2 * n, n // 2]) if v != n]


def begins_statement(code, at):
    return code[:at].rstrip()[-1:] in ("{", "}", ";", ")", ":") or code[:at].rstrip().endswith("else")


def edits(code):
    """(operator, begin, end, new text) of every mutation."""
    for m in OPERATOR.finditer(code):
        operator, new = SWAPPED[m.group()]
        yield operator, m.start(), m.end(), new
    for m in CONSTANT.finditer(code):
        for new in constants(m.group(1)):
            yield "constant", m.start(1), m.end(1), new
    for m in CONDITION.finditer(code):
        end = closing(code, m.start(1))
        yield "negated", m.start(1), end + 1, "(!" + code[m.start(1):end + 1] + ")"
    for m in SIMPLE.finditer(code):
        if begins_statement(code, m.start()) and ASSIGNS.match(m.group(1)) and not NO_STATEMENT.match(m.group(1)):
            yield "removed", m.start(1), m.end(1), ";"
    for m in RETURNED.finditer(code):
        yield "returned", m.start(1), m.end(1), {"0": "-1", "true": "false", "false": "true"}.get(m.group(1), "0")
    for m in FLOW.finditer(code):
        yield "flow", m.start(1), m.end(1), "break"


def mutations(path):
    """All of a file. Each has the lines that it touches, without indentation, as they are and as they become; `nth`
    tells those apart that read alike."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    starts = [0] + [m.end() for m in re.finditer("\n", text)]
    seen = collections.Counter()
    for operator, begin, end, new in edits(masked(text)):
        first, last = starts[bisect.bisect_right(starts, begin) - 1], text.find("\n", end)
        before = " ".join(text[first:last].split())
        if operator == "negated":
            new = "(!" + text[begin:end] + ")"
        after = " ".join((text[first:begin] + new + text[end:last]).split())
        if LEFT_ALONE.search(before):
            continue
        seen[before, after] += 1
        yield Mutation(path, bisect.bisect_right(starts, begin), operator, begin, end, text[:begin] + new + text[end:],
                       before, after, seen[before, after])
