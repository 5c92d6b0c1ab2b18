#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do the unit tests notice when the code is wrong? Breaks it in small ways, one at a time, and counts which they kill.

    make mutate [SEED=n] [COUNT=60] [FILES='user/detect/hang/*'] [ONLY=3,17]

Draws COUNT mutations of detectors, model, probe budget and identity with SEED (ROOMS has the share of each; sites.py
has the operators), compiles each mutated file alone, links all unit programs with it at once (programs.py), and runs
them until one fails (a crash and CPU_MAX_S of CPU count as failures): killed. If none does: SURVIVED. Only programs
that run the mutated line are asked (reach.py), those that name the file first, two at a time; those that play whole
jobs play fewer (SHORT=1). A killer runs once more without the mutation: if it fails then too, it proves nothing. The
tree and its build stay as they are.

A mutation that does not compile, or compiles to the same object code, is drawn again; so is one of equivalent.txt: each
entry was read by somebody and found to change nothing that can be seen, and says why. One whose text is gone from its
file is an error.

The draw of a file does not depend on the others: a mutation's turn is a hash of the seed and its own text. ONLY runs
some of the numbers again, after a test was written.

Exit: 0 at least 90 % killed, 1 fewer, 2 it could not run. Takes the build's commands from the environment, as the
Makefile gives them: CC, CFLAGS, INCLUDES, LIBS, O, and COVERED: the unit programs once more, with --coverage. """
import concurrent.futures
import fnmatch
import glob
import hashlib
import itertools
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import programs
import reach
import sites

ROOMS = (  # name, of 10 mutations, files
    ("detectors", 4, ["user/detect/**/*.c"]),
    ("model", 3, ["user/model/**/*.c"]),
    ("identity", 2, ["user/job/*.c"] + [f"user/inspect/discover/{n}.c" for n in (
        "cgroup_path", "launch_env", "late_environ", "place", "rank_tree")]),
    ("probe budget", 1, [f"user/session/rules/{n}.c" for n in ("budget_rules", "escalation")]),
)
BAR, TIMEOUT_S, CPU_MAX_S, MEMORY_MAX = 0.9, 120, 20, 8 << 30
JOBS = min(os.cpu_count() or 1, 4)
EQUIVALENT = "tests/mutate/equivalent.txt"


def stop(text):
    print(f"mutate: {text}", file=sys.stderr)
    sys.exit(2)


def setting(name):
    return shlex.split(os.environ.get(name, ""))


class Build:
    """The tree's build, and a folder for what is made of mutations."""

    def __init__(self):
        self.o, self.cc = os.path.abspath(os.environ.get("O") or "build"), setting("CC") or ["gcc"]
        self.flags = setting("CFLAGS") + setting("INCLUDES")
        self.dir = tempfile.mkdtemp(prefix="mutate.")
        self.originals = {}
        sources = [s for d in ("user", "tools/stress", "tracers") for s in glob.glob(f"{d}/**/*.c", recursive=True)]
        self.objects = {s: f"{self.o}/obj/{s[:-2]}.o" for s in sources if not s.endswith((".bpf.c", "user/cmd/main.c"))}
        self.objects |= {o: o for o in glob.glob(f"{self.o}/obj/gen/*.o")}  # generated, and not mutated
        self.tests = {os.path.basename(t)[:-2]: t for t in sorted(glob.glob("tests/unit/*/test_*.c"))}
        missing = [p for p in list(self.objects.values()) +
                   [f"{self.o}/tests/{t}" for t in self.tests] if not os.path.exists(p)]
        if missing:
            stop(f"{missing[0]} is not built: make unit")
        quick = ["-fuse-ld=lld"] if shutil.which("ld.lld") else []
        link = {"cc": [*self.cc, *setting("CFLAGS"), *quick, "-Wl,--strip-debug"],
                "libs": [*setting("LIBS"), "-lcmocka"]}
        self.programs, self.original = programs.Programs(self.o, self.dir, self.tests, self.objects, link), None
        paths = {f for _, _, patterns in ROOMS for p in patterns for f in glob.glob(p, recursive=True)}
        self.reach = reach.Reach(os.environ["COVERED"], paths, run,
                                 lambda text: print(text, file=sys.stderr, flush=True))

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def compiled(self, path, text):
        """Object code of a text in place of the file; None if it does not compile. Without line numbers, from one
        path."""
        source, out = f"{self.dir}/{os.path.basename(path)}", f"{self.dir}/mutated.o"
        with open(source, "w", encoding="utf-8") as f:
            f.write(text)
        flags = [*self.flags, "-iquote", os.path.dirname(path), "-w", "-g0"]
        rc = subprocess.run([*self.cc, *flags, "-c", source, "-o", out], capture_output=True, check=False).returncode
        os.unlink(source)
        if rc:
            return None
        with open(out, "rb") as f:
            return f.read()

    def changes(self, mutation):
        """Whether it is other object code, which then lies in mutated.o."""
        if mutation.file not in self.originals:
            with open(mutation.file, encoding="utf-8") as f:
                self.originals[mutation.file] = self.compiled(mutation.file, f.read())
        new = self.compiled(mutation.file, mutation.text)
        return new is not None and new != self.originals[mutation.file]

    def with_mutation(self, mutation):
        """The unit programs with the mutation that changes() compiled."""
        return self.programs.of(mutation.file, f"{self.dir}/mutated.o")

    def as_it_is(self):
        self.original = self.original or self.programs.of()
        return self.original


def limits():
    """Not the hard ones: parsers and readers set their own, which may be above."""
    for what, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_CPU, CPU_MAX_S), (resource.RLIMIT_AS, MEMORY_MAX)):
        resource.setrlimit(what, (most, resource.getrlimit(what)[1]))


def run(program):
    """(passed, why not)"""
    with tempfile.TemporaryFile() as out:
        p = subprocess.Popen([program], stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                             preexec_fn=limits, env={**os.environ, "SEED": "1", "SHORT": "1"})
        try:
            rc = p.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            rc = None
        try:
            os.killpg(p.pid, signal.SIGKILL)  # what it started, too
        except ProcessLookupError:
            pass
        p.wait()
        out.seek(0)
        failed = re.findall(rb"\[  FAILED  \] (\w+)", out.read())
    if rc == 0:
        return True, ""
    return False, failed[0].decode() if failed else "no end" if rc is None else f"status {rc}"


# --- which programs first ---

def words(path):
    return set(re.findall(r"[a-z0-9]+", os.path.basename(path)[:-2])) - {"test", "detect", "model"}


class Order:
    """Programs that could notice, the likeliest first: those that killed before, name the file, or say what it
    defines."""

    def __init__(self, build):
        self.build, self.kills, self.seconds = build, {}, {}
        self.texts = {}
        for test, path in build.tests.items():
            with open(path, encoding="utf-8") as f:
                self.texts[test] = f.read()

    def score(self, test, path, symbols):
        folder = self.build.tests[test].split("/")[2]
        header = path.removeprefix("user/")[:-2] + ".h"
        said = sum(s in self.texts[test] for s in symbols)
        return (20 * (header in self.texts[test]) + 10 * len(words(path) & words(self.build.tests[test])) +
                min(said, 9) +
                3 * (f"/{folder}/" in path) + 5 * self.kills.get((test, path), 0) - self.seconds.get(test, 0.5))

    def of(self, mutation):
        path, symbols = mutation.file, programs.defined(self.build.objects[mutation.file])
        likeliest = sorted(self.build.tests, key=lambda t: -self.score(t, path, symbols))
        return self.build.reach.among(likeliest, path, mutation.line)


def killer(build, order, mutation, note):
    """(program, why) of the first that fails; None: it survived. `note` gets what fails without the mutation too."""
    likeliest = order.of(mutation)
    if not likeliest:
        return None
    mutated, asked = build.with_mutation(mutation), iter(likeliest)

    def ask(test):
        begin = time.monotonic()
        passed, why = run(mutated.program(test))
        order.seconds[test] = time.monotonic() - begin
        return test, passed, why

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        while some := list(itertools.islice(asked, JOBS)):
            for test, passed, why in pool.map(ask, some):
                if passed:
                    continue
                if run(build.as_it_is().program(test))[0]:
                    order.kills[test, mutation.file] = order.kills.get((test, mutation.file), 0) + 1
                    return test, why
                note(f"     {test} fails without it, too")
    return None


# --- the draw ---

def equivalents():
    with open(EQUIVALENT, encoding="utf-8") as f:
        entries = [entry.split("\n", 3) for entry in f.read().strip().split("\n\n")[1:]]
    known = {(path, before.removeprefix("- "), after.removeprefix("+ ")) for path, before, after, _ in entries}
    for path, before, after in known:
        if not os.path.exists(path) or (before, after) not in {(m.before, m.after) for m in sites.mutations(path)}:
            stop(f"{EQUIVALENT}: no such mutation of {path}: {before}")
    return known


def turn(seed, mutation):
    key = f"{seed}|{mutation.file}|{mutation.before}|{mutation.after}|{mutation.nth}"
    return hashlib.sha256(key.encode()).digest()


def drawn(build, seed, count, wanted, known):
    """(room, mutation), each with other object code, none known as equivalent."""
    left = count
    for i, (room, share, patterns) in enumerate(ROOMS):
        part = left if i == len(ROOMS) - 1 else count * share // 10
        files = sorted({f for p in patterns for f in glob.glob(p, recursive=True) if fnmatch.fnmatch(f, wanted)})
        every = sorted((m for f in files for m in sites.mutations(f)), key=lambda m: turn(seed, m))
        for m in every:
            if not part:
                break
            if (m.file, m.before, m.after) in known or not build.changes(m):
                continue
            part -= 1
            left -= 1
            yield room, m


def main():
    seed, count = os.environ.get("SEED") or "14", int(os.environ.get("COUNT") or 60)
    only = {int(n) for n in (os.environ.get("ONLY") or "").split(",") if n}
    build = Build()
    order, tally, survived, begin = Order(build), {}, [], time.monotonic()

    def say(text):
        print(text, flush=True)

    try:
        for n, (room, m) in enumerate(drawn(build, seed, count, os.environ.get("FILES") or "*", equivalents()), 1):
            if only and n not in only:
                continue
            say(f"{n:3}  {m.file}:{m.line}  {m.operator}\n     - {m.before}\n     + {m.after}")
            by = killer(build, order, m, say)
            say(f"     killed by {by[0]}: {by[1]}" if by else "     SURVIVED")
            killed, of = tally.get(room, (0, 0))
            tally[room] = killed + bool(by), of + 1
            survived += [] if by else [f"{n:3}  {m.file}:{m.line}  {m.operator}: {m.before}"]
    finally:
        build.close()
    killed, of = (sum(t[i] for t in tally.values()) for i in (0, 1))
    if not of:
        stop("nothing to mutate")
    say("survived:\n" + "\n".join(survived) if survived else "none survived")
    say(", ".join(f"{room} {k} of {t}" for room, (k, t) in tally.items()))
    say(f"killed {killed} of {of} ({100 * killed / of:.0f} %), seed {seed}, {time.monotonic() - begin:.0f} s")
    sys.exit(0 if killed >= BAR * of else 1)


main()
