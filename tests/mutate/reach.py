# SPDX-License-Identifier: Apache-2.0
"""Which unit program runs which line: only those can notice a mutation of it. Each program of a build with --coverage
runs once, and what gcov says of it is kept beside that build as long as the program is the same."""
import glob
import hashlib
import json
import os
import subprocess


def counters_of(build, path):
    return f"{build}/obj/{path[:-2]}.gcda"


def gcov(files):
    """What it says of each source file."""
    out = subprocess.run(["gcov", "--json-format", "--stdout", *files], capture_output=True, text=True, check=True)
    return [f for text in out.stdout.splitlines() for f in json.loads(text)["files"]]


def what_ran(build, program, run, paths):
    """{file: {functions: [(first line, last line) of each that ran], lines: [each that ran]}}"""
    for old in glob.glob(f"{build}/obj/user/**/*.gcda", recursive=True):
        os.unlink(old)
    run(program)
    written = [c for c in (counters_of(build, p) for p in paths) if os.path.exists(c)]
    return {f["file"]: {"functions": [(n["start_line"], n["end_line"]) for n in f["functions"] if n["execution_count"]],
                        "lines": [n["line_number"] for n in f["lines"] if n["count"]]}
            for f in (gcov(written) if written else []) if f["file"] in paths}


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
        self.code = {}

    def of(self, test):
        program, kept = f"{self.build}/tests/{test}", f"{self.build}/{test}.ran"
        if test not in self.ran:
            with open(program, "rb") as f:
                digest = hashlib.sha256(f.read()).hexdigest()
            if kept_of(kept).get("program") != digest:
                self.say(f"what {test} runs")
                with open(kept + ".new", "w", encoding="utf-8") as f:
                    json.dump({"program": digest, "ran": what_ran(self.build, program, self.run, self.paths)}, f)
                os.rename(kept + ".new", kept)
            self.ran[test] = kept_of(kept)["ran"]
        return self.ran[test]

    def code_of(self, path):
        """Functions and lines, by what the compiler noted (no program needs to have run them)."""
        if path not in self.code:
            notes = f"{self.build}/obj/{path[:-2]}.gcno"
            mine = [f for f in gcov([notes]) if f["file"] == path]
            self.code[path] = ([(n["start_line"], n["end_line"]) for f in mine for n in f["functions"]],
                               {n["line_number"] for f in mine for n in f["lines"]})
        return self.code[path]

    def runs(self, test, path, line):
        """Whether the program is seen to run that line; of a line that the compiler has no code for, the function
        around it; outside of functions: any of the file."""
        mine, (functions, lines) = self.of(test).get(path), self.code_of(path)
        if not mine:
            return False
        if line in lines:
            return line in mine["lines"]
        inside = any(first <= line <= last for first, last in functions)
        return not inside or any(first <= line <= last for first, last in mine["functions"])

    def among(self, tests, path, line):
        """Those that could notice. What a helper process runs that is killed is seen of none: then those that run
        anything of the file."""
        seen = [t for t in tests if self.runs(t, path, line)]
        return seen or [t for t in tests if path in self.of(t)]
