# SPDX-License-Identifier: Apache-2.0
"""Which unit program runs which function: only those can notice a mutation of it. Each program of a build with
--coverage runs once, and what gcov says of it is kept beside that build until the program is built anew."""
import glob
import json
import os
import subprocess


def counters_of(build, path):
    return f"{build}/obj/{path[:-2]}.gcda"


def functions_run(build, program, run, paths):
    """{file: [(first line, last line) of each function that ran]}"""
    for old in glob.glob(f"{build}/obj/user/**/*.gcda", recursive=True):
        os.unlink(old)
    run(program)
    written = [c for c in (counters_of(build, p) for p in paths) if os.path.exists(c)]
    ran = {}
    if not written:
        return ran
    gcov = subprocess.run(["gcov", "--json-format", "--stdout", *written], capture_output=True, text=True, check=True)
    for line in gcov.stdout.splitlines():
        for f in json.loads(line)["files"]:
            if f["file"] in paths:
                ran.setdefault(f["file"], []).extend((n["start_line"], n["end_line"]) for n in f["functions"]
                                                     if n["execution_count"])
    return ran


class Reach:
    """`build`: built with --coverage; `run`: runs a program; `say`: gets a line for each program that is asked anew."""

    def __init__(self, build, tests, paths, run, say):
        self.ran = {}
        for test in tests:
            program, kept = f"{build}/tests/{test}", f"{build}/{test}.reach"
            if not os.path.exists(kept) or os.path.getmtime(kept) < os.path.getmtime(program):
                say(f"what {test} runs")
                with open(kept + ".new", "w", encoding="utf-8") as f:
                    json.dump(functions_run(build, program, run, paths), f)
                os.rename(kept + ".new", kept)
            with open(kept, encoding="utf-8") as f:
                self.ran[test] = json.load(f)

    def runs(self, test, path, line):
        """Whether the program runs the function around that line; outside of functions: any of the file."""
        functions = [f for ran in self.ran.values() for f in ran.get(path, [])]
        mine = self.ran[test].get(path, [])
        inside = any(first <= line <= last for first, last in functions)
        return any(first <= line <= last for first, last in mine) if inside else bool(mine)
