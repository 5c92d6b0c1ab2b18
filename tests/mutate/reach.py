# SPDX-License-Identifier: Apache-2.0
"""Which unit program runs which function: only those can notice a mutation of it. Each program of a build with
--coverage runs once, and what gcov says of it is kept beside that build as long as the program is the same."""
import glob
import hashlib
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


def kept_of(path):
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as f:
        return json.load(f)


class Reach:
    """`build`: built with --coverage; `run`: runs a program; `say`: gets a line for each program that is asked anew.
    A program is asked when it is first needed."""

    def __init__(self, build, paths, run, say):
        self.build, self.paths, self.run, self.say, self.ran = build, paths, run, say, {}
        self.functions = {}

    def of(self, test):
        program, kept = f"{self.build}/tests/{test}", f"{self.build}/{test}.reach"
        if test not in self.ran:
            with open(program, "rb") as f:
                digest = hashlib.sha256(f.read()).hexdigest()
            if kept_of(kept).get("program") != digest:
                self.say(f"what {test} runs")
                with open(kept + ".new", "w", encoding="utf-8") as f:
                    json.dump({"program": digest, "ran": functions_run(self.build, program, self.run, self.paths)}, f)
                os.rename(kept + ".new", kept)
            self.ran[test] = kept_of(kept)["ran"]
        return self.ran[test]

    def around(self, path, line):
        """Whether the line is in a function, by what the compiler noted (no program needs to have run it)."""
        if path not in self.functions:
            notes = f"{self.build}/obj/{path[:-2]}.gcno"
            gcov = subprocess.run(["gcov", "--json-format", "--stdout", notes], capture_output=True, text=True,
                                  check=True)
            self.functions[path] = [(n["start_line"], n["end_line"]) for text in gcov.stdout.splitlines()
                                    for f in json.loads(text)["files"] if f["file"] == path for n in f["functions"]]
        return any(first <= line <= last for first, last in self.functions[path])

    def runs(self, test, path, line):
        """Whether the program runs the function around that line; outside of functions: any of the file."""
        mine = self.of(test).get(path, [])
        inside = self.around(path, line)
        return any(first <= line <= last for first, last in mine) if inside else bool(mine)
