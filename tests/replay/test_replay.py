# SPDX-License-Identifier: Apache-2.0
"""Recordings of runs that once went wrong: each NAME.rtr must give the root findings that NAME.json names."""
import glob
import json
import os
import subprocess
import sys

RANKTRACE = os.path.join(os.environ.get("O", "build"), "ranktrace")
SILENT = ("observation", "lost_events")
here = os.path.dirname(os.path.abspath(__file__))
failed = 0
recordings = sorted(glob.glob(f"{here}/*.rtr"))
for path in recordings:
    with open(path[:-4] + ".json") as f:
        expected = json.load(f)
    out = subprocess.run([RANKTRACE, "replay", "-q", "--json", path], capture_output=True, text=True)
    last = {f["id"]: f for f in map(json.loads, out.stdout.splitlines())}
    roots = [[f["kind"], f["class"], f["ranks"]] for f in last.values() if not f["caused_by"] and f["kind"] not in SILENT]
    right = sorted(map(str, roots)) == sorted(map(str, expected["roots"])) and out.returncode == expected["exit"]
    print(f"{'ok' if right else 'FAILED'}: {os.path.basename(path)}: {roots}, exit {out.returncode} {out.stderr}")
    failed += not right
sys.exit(1 if failed or not recordings else 0)
