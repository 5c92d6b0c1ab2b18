# SPDX-License-Identifier: Apache-2.0
"""BPF objects of one process, distinguished from those of other sessions on the host by their ids, which are never used
again while anybody could take one for the other (the kernel hands them out in a circle)."""
import json
import os
import subprocess

KINDS = ("link", "prog", "map")


def of_process(pid):
    """(kind, id) of the links, programs and maps that a process holds open now."""
    found = set()
    try:
        for fd in os.listdir(f"/proc/{pid}/fdinfo"):
            try:
                with open(f"/proc/{pid}/fdinfo/{fd}") as f:
                    words = dict(line.split(":", 1) for line in f if ":" in line)
            except FileNotFoundError:  # closed meanwhile
                continue
            found |= {(kind, int(words[f"{kind}_id"])) for kind in KINDS if f"{kind}_id" in words}
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found


def count(objects, kind):
    return sum(k == kind for k, _ in objects)


def left(objects):
    """Those that the kernel still has."""
    found = set()
    for kind in KINDS:
        out = subprocess.run(["bpftool", "-j", kind, "list"], capture_output=True, text=True)
        found |= {(kind, o["id"]) for o in json.loads(out.stdout or "[]")}
    return found & objects
