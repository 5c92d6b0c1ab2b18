# SPDX-License-Identifier: Apache-2.0
"""`ranktrace diff` over the recordings here: one against itself, and against another run of the same job, has no
difference; a job with a slow rank is slower, and that rank is the late one; what only one recording has is said; so is
that there is nothing to compare."""
import json
import os
import subprocess

import checks
from checks import check

RANKTRACE = os.path.abspath(os.path.join(os.environ.get("O", "build"), "ranktrace"))
here = os.path.dirname(os.path.abspath(__file__))


def diff(*args, **kw):
    out = subprocess.run([RANKTRACE, "diff", *args], capture_output=True, text=True, cwd=here, timeout=60, **kw)
    return out.returncode, out.stdout, out.stderr


def rows(*args):
    """Exit status, the lines of measures, the line of the whole."""
    code, out, err = diff("--json", *args)
    *measures, whole = map(json.loads, out.splitlines())
    check(not err and whole["kind"] == "whole", f"{args}: {whole} {err}")
    return code, measures, whole


def itself():
    for name in ("demo", "f11_slow", "nested_run_ahead"):
        code, measures, whole = rows(f"{name}.rtr", f"{name}.rtr")
        changed = [m for m in measures if m["verdict"] not in ("no_difference", "too_few")]
        check(code == 0 and not changed and whole["verdict"] == "no_difference" and whole["compared"] >= 8,
              f"{name} against itself: {whole} {changed}")
        check(all(m["a"] == m["b"] for m in measures), f"{name}: the same medians")
    code, out, _ = diff("demo.rtr", "demo.rtr")
    check(code == 0 and out.startswith("no difference beyond noise: ") and out.count("\n") == 1, out)


def another_run():
    """f19_two has the straggler of f11_slow, and stops once for 6 seconds: no median sees that."""
    code, _, whole = rows("f11_slow.rtr", "f19_two.rtr")
    check(code == 0 and whole["verdict"] == "no_difference" and whole["compared"] >= 8, f"two runs: {whole}")


def slow_rank():
    code, measures, whole = rows("f10_hog.rtr", "f11_slow.rtr")
    slower = {(m["kind"], m.get("rank")) for m in measures if m["verdict"] == "slower"}
    check(code == 1 and whole["verdict"] == "slower", f"a slow rank: {whole}")
    check(("late", 3) in slower and not {("late", r) for r in (0, 1, 2)} & slower, f"rank 3 alone is late: {slower}")
    check(("step", 3) in slower, f"steps are slower: {slower}")
    late, = [m for m in measures if m["kind"] == "late" and m["rank"] == 3]
    check(late["b"]["median_s"] - late["a"]["median_s"] > late["noise_s"] > 0, f"beyond noise: {late}")
    code, out, _ = diff("f10_hog.rtr", "f11_slow.rtr")
    check(code == 1 and "slower  late at collectives    rank 3 " in out and "no difference" not in out, out)
    code, _, whole = rows("--at-least", "1000", "f10_hog.rtr", "f11_slow.rtr")
    check(code == 0 and whole["slower"] == 0, f"--at-least: {whole}")


def other_ranks():
    code, measures, _ = rows("demo.rtr", "f11_slow.rtr")
    only = {m["rank"] for m in measures if m["verdict"] == "only_a" and m["kind"] == "step"}
    check(code == 1 and only == {4, 5, 6, 7}, f"ranks of one recording alone: {only}")
    check("only in demo.rtr: step, ranks 4-7\n" in diff("demo.rtr", "f11_slow.rtr")[1], "and in words")


def refused():
    for args, words in ((["f12_tcp_delay.rtr", "demo.rtr"], "nothing to compare: f12_tcp_delay.rtr has 0 ranks"),
                        (["--json", "f12_tcp_delay.rtr", "demo.rtr"], "nothing to compare: "),
                        (["demo.rtr"], "which recordings?"), (["demo.rtr"] * 3, "two recordings"),
                        (["-", "-"], "from standard input, not both"), (["README.md", "demo.rtr"], "README.md: not a"),
                        (["--at-least", "x", "demo.rtr", "demo.rtr"], "'x' is no percentage")):
        code, out, err = diff(*args)
        check(code == 2 and not out and words in err, f"{args}: {code} {out} {err}")


def from_stdin():
    with open(f"{here}/demo.rtr", "rb") as f:
        code, out, _ = diff("-", "demo.rtr", stdin=f)
    check(code == 0 and out.startswith("no difference"), f"from standard input: {code} {out}")


itself()
another_run()
slow_rank()
other_ranks()
refused()
from_stdin()
checks.end()
