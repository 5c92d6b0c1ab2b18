# SPDX-License-Identifier: Apache-2.0
"""A source, a detector and a sink are added to a copy of the tree: their own files, and a line each in three tables.
The copy builds, records a job with them, finds what they are to find, replays it to the same, and obeys the house
rules."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
PLUGIN, LINES = f"{HERE}/tree", f"{HERE}/lines.txt"
TABLES = ["tracers/sources.def", "user/detect/detectors.def", "user/sink/sinks.def"]
RULES = ["includes", "tracers_apart", "libbpf", "pure", "format", "sizes", "names", "licences"]
VICTIM = 2


def files_under(folder):
    return sorted(os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names)


def copy_tree(to):
    """The sources, with their times, and what was built of them: what is not touched is not built again."""
    listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=TOP, capture_output=True)
    names = [n for n in listed.stdout.decode().split("\0") if n and os.path.isfile(f"{TOP}/{n}")]
    if listed.returncode or not names:
        names = [n for n in files_under(TOP) if not n.startswith(("build/", ".git/"))]
    for name in names:
        os.makedirs(os.path.dirname(f"{to}/{name}") or to, exist_ok=True)
        shutil.copy2(f"{TOP}/{name}", f"{to}/{name}")
    build = os.path.realpath(os.environ.get("O", "build"))
    for part in ("obj", "gen", "bpf", "lib"):
        if os.path.isdir(f"{build}/{part}"):
            shutil.copytree(f"{build}/{part}", f"{to}/build/{part}")
    return names


def add_plugin(to):
    for name in files_under(PLUGIN):
        os.makedirs(os.path.dirname(f"{to}/{name}"), exist_ok=True)
        shutil.copy(f"{PLUGIN}/{name}", f"{to}/{name}")
    for line in open(LINES):
        table, row = line.rstrip("\n").split(" ", 1)
        with open(f"{to}/{table}", "a") as f:
            f.write(row + "\n")


def touched(to, names):
    """(files that the copy has and the tree has not, {file that differs: lines added}); a removed line is no
    plug-in."""
    new = [n for n in files_under(to) if not n.startswith("build/") and "__pycache__" not in n and n not in set(names)]
    changed = {}
    for name in names:
        old, now = (open(f"{root}/{name}", "rb").read() for root in (TOP, to))
        if old != now:
            assert now.startswith(old), f"{name}: more than lines added"
            changed[name] = now[len(old):].decode().splitlines()
    return new, changed


def build(to):
    """What is not touched is there by -O2; the rest, some 200 files, compiles in a third of the time
    without. A cache has none of them: the folder, another each time, is among the options."""
    made = subprocess.run(["make", "-j2", "-C", to, "O=build", "build/ranktrace", "build/tests/test_record_kinds"],
                          capture_output=True, text=True, env={**os.environ, "CFLAGS": "-O0"})
    if made.returncode:
        sys.exit(f"FAILED: the tree with a source, a detector and a sink more does not "
                 f"build:\n{made.stdout}{made.stderr}")
    print(f"  built again: {made.stdout.count(' CC ')} files")


def check_rules(to, own):
    """The layout of what is its own: that of all the tree is as long to ask as all other rules, and `make check`
    does."""
    with tempfile.TemporaryDirectory(prefix="ranktrace-plugin-own-") as apart:
        for name in own:
            os.makedirs(os.path.dirname(f"{apart}/{name}"), exist_ok=True)
            shutil.copy(f"{to}/{name}", f"{apart}/{name}")
        for rule in RULES:
            done = subprocess.run(["scripts/check.sh"], cwd=to, capture_output=True, text=True,
                                  env={**os.environ, "RULE": rule, "TREE": apart if rule == "format" else to})
            job.check(not done.returncode, f"house rule {rule}: {done.stdout}")


def rows(path):
    return [line.split(",") for line in open(path).read().splitlines()]


def adjust(j, rank, value):
    with open(f"/proc/{pid_of(j, rank)}/oom_score_adj", "w") as f:
        f.write(str(value))


def pid_of(j, rank):
    return next(o["pid"] for o in reversed(job.lines(j.ops_log)) if o["rank"] == rank)


def odd_ones(findings):
    return [f for f in findings if f["kind"] == "observation" and f["cause"] == "unusual_value"]


def check_session(path):
    """The source's record is recorded, the detector finds the rank, the sink shows both."""
    csv = f"{path}/live.csv"
    j = job.Job(["--ranks", 4, "--steps", 2000, "--step-ms", 40, "--linger-sec", 30], ["--tier", "watch", "-o", csv])
    j.wait_begun(1)
    job.check(not odd_ones(j.findings), f"named before: {j.findings}")
    adjust(j, VICTIM, 500)
    found = j.wait_finding(15, kind="observation", cause="unusual_value", phase="open")
    job.check(found and found["ranks"] == [VICTIM], f"not rank {VICTIM}: {j.findings}\n{j.stderr()}")
    job.check((found["evidence"]["counter"], found["evidence"]["value"],
               found["evidence"]["peers_value"]) == ("oom_score_adj", 500, 0),
              f"{found['evidence']}")
    adjust(j, VICTIM, 0)
    job.check(j.wait_finding(15, kind="observation", cause="unusual_value", phase="close"),
              f"it does not close: {j.findings}")
    j.stop()
    return j, rows(csv)


def check_replay(j, path, live):
    """Where the source does not run: records of its own kind, decoded, are all there is."""
    again = f"{path}/again.csv"
    out = subprocess.run([job.RANKTRACE, "replay", "--json", "-o", again, j.rtr], capture_output=True, text=True)
    job.check("does not know" not in out.stderr, out.stderr)
    replayed = odd_ones([json.loads(line) for line in out.stdout.splitlines()])
    job.check([(f["phase"], f["ranks"]) for f in replayed] == [(f["phase"], f["ranks"]) for f in odd_ones(j.findings)],
              f"{replayed} is not {odd_ones(j.findings)}")
    job.check(rows(again) == live, f"the sink shows {len(rows(again))} lines of the replay, {len(live)} of the session")


def check_sink(live):
    counters = [r for r in live if r[0] == "counter"]
    job.check({r[2] for r in counters} == {"0", "1", "2", "3"} and {r[3] for r in counters} == {"oom_score_adj"},
              f"{counters[:8]}")
    job.check({r[2] for r in counters if r[4] == "500"} == {str(VICTIM)}, f"500 of others than rank {VICTIM}")
    named = [r[2:] for r in live if r[0] == "finding" and r[4] != "update"]
    job.check([str(VICTIM), "observation", "open"] in named and [str(VICTIM), "observation", "close"] in named,
              f"{named}")
    print(f"  {len(counters)} counters, {len(named)} openings and closings in the sink")


def check_other_program(j):
    """One without the source: it says that it does not know the records, and goes on."""
    out = subprocess.run([f"{ORIGINAL}/ranktrace", "replay", j.rtr], capture_output=True, text=True)
    job.check(out.returncode == 0 and "of a kind that this version does not know" in out.stderr, out.stderr)


ORIGINAL = os.path.realpath(os.environ.get("O", "build"))
with tempfile.TemporaryDirectory(prefix="ranktrace-plugin-") as tree:
    listed = copy_tree(tree)
    add_plugin(tree)
    build(tree)
    os.environ["O"] = f"{tree}/build"
    sys.path.insert(1, sys.path[0] + "/../aid")
    import job

    new, changed = touched(tree, listed)
    job.check(new == files_under(PLUGIN), f"files that had to be added besides the plug-in's own: {new}")
    job.check(sorted(changed) == TABLES and all(len(lines) == 1 for lines in changed.values()),
              f"lines that had to be added: {changed}")
    print(f"  own files: {' '.join(new)}; a line each: {' '.join(sorted(changed))}")
    check_rules(tree, new)
    declared = subprocess.run([f"{tree}/build/tests/test_record_kinds"], capture_output=True, text=True)
    job.check(not declared.returncode, f"test_record_kinds: {declared.stdout}{declared.stderr}")
    job.need_root()
    job.seed()
    session, shown = check_session(tree)
    check_replay(session, tree, shown)
    check_sink(shown)
    check_other_program(session)
