# SPDX-License-Identifier: Apache-2.0
"""`ranktrace steps` over the recordings here: the late rank of a job with a straggler is marked, none of a job without;
in a recording that is followed there is a table every few seconds, and the mark comes with the fault; --json is
`replay --steps`."""
import os
import re
import subprocess

import checks
from checks import check

RANKTRACE = os.path.abspath(os.path.join(os.environ.get("O", "build"), "ranktrace"))
here = os.path.dirname(os.path.abspath(__file__))


def run(*args, **kw):
    out = subprocess.run([RANKTRACE, *args], capture_output=True, text=True, cwd=here, timeout=60, **kw)
    return out.returncode, out.stdout, out.stderr


def tables(text):
    """Each table as {rank: (steps, step in ms, late in ms, is it marked as late)}."""
    found = []
    for part in re.split(r"^[0-9.]+ s; medians in ms, .*\n", text, flags=re.M)[1:]:
        head, *lines = part.strip("\n").splitlines()
        assert head.split() == ["rank", "steps", "step", "late"], head
        cells = [line.split() for line in lines]
        found.append({int(c[0]): (int(c[1]), float(c[2].strip("*")), float(c[3].strip("*")), c[3].endswith("*"))
                      for c in cells})
    return found


def marked(table):
    return [rank for rank, row in table.items() if row[3]]


def whole():
    code, out, err = run("steps", "f11_slow.rtr")
    table, = tables(out)
    check(code == 0 and not err and sorted(table) == [0, 1, 2, 3] and marked(table) == [3], f"{out}{err}")
    check(all(row[0] == 20 and 300 < row[1] < 420 for row in table.values()) and table[3][2] > 100, f"medians: {table}")
    table, = tables(run("steps", "nested_run_ahead.rtr")[1])
    check(table and all(row[0] > 0 for row in table.values()) and not marked(table),
          f"stages are no stragglers: {table}")


def followed():
    """The rank becomes slow at step 8 of 24: three seconds are before that."""
    with open(f"{here}/f11_slow.rtr", "rb") as f:
        code, out, err = run("steps", "--every", "3", "-", stdin=f)
    got = tables(out)
    check(code == 0 and not err and [marked(t) for t in got] == [[], [3], [3]], f"every 3 s: {out}{err}")
    check(sum(t[0][0] for t in got) == 20, "each step is in one table")
    with open(f"{here}/f11_slow.rtr", "rb") as f:
        check(len(tables(run("steps", "-", stdin=f)[1])) == 2, "standard input: every 5 s")


def as_json():
    for name in ("f11_slow", "healthy"):
        ours, replay = run("steps", "--json", f"{name}.rtr"), run("replay", "--steps", f"{name}.rtr")
        check(ours[1] == replay[1] != "" and ours[0] == 0, f"--json of {name}: {ours} {replay}")


def others():
    code, out, err = run("steps", "f12_tcp_delay.rtr")
    check(code == 0 and not out and "no step of a rank was seen" in err, f"without steps: {code} {out}{err}")
    for args, words in (([], "which recording?"), (["a", "b"], "one recording"), (["README.md"], "README.md: not a"),
                        (["--every", "-1", "demo.rtr"], "'-1' is no number of seconds")):
        code, out, err = run("steps", *args)
        check(code == 2 and not out and words in err, f"{args}: {code} {out} {err}")


whole()
followed()
as_json()
others()
checks.end()
