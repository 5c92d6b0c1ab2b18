# SPDX-License-Identifier: Apache-2.0
# runs beside few: compares the speed of ranks, as the demo does
"""What `make demo` promises: rank 3 straggler, rank 6 d_state 5 to 6.5 s into the wait with a kernel stack, rank 5
missing enter before the very operation, in time; anything else only as a consequence; a timeline that reads."""
import os
import subprocess
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import job

job.need_root()
out = subprocess.run(["bash", "tools/demo.sh"], capture_output=True, text=True, timeout=120)
job.check(out.returncode == 0, f"demo: {out.stdout}\n{out.stderr}")
findings = job.lines(f"{job.O}/demo/incidents.jsonl")
last = {f["id"]: f for f in findings}
opened = {f["id"]: f for f in findings if f["phase"] == "open"}
roots = sorted((f["kind"], f["class"], *f["ranks"]) for f in last.values() if not f["caused_by"])
print(roots, [(f["kind"], f["class"], f["ranks"], f["caused_by"]) for f in last.values() if f["caused_by"]])
job.check(sorted(map(str, roots)) == sorted(map(str, [("straggler", None, 3), ("d_state", None, 6),
                                                      ("hang", "missing_enter", 5)])), f"roots {roots}")
dstate = next(f for f in opened.values() if f["kind"] == "d_state")
job.check(5 <= dstate["detected_after_s"] <= 6.5 and "+0x" in dstate["evidence"]["kernel_stack"], f"d_state: {dstate}")
hang = next(f for f in opened.values() if f["kind"] == "hang" and f["ranks"] == [5])
truth = next(t for t in job.lines(f"{job.O}/demo/faults.jsonl") if t["fault"] == "hang")
job.check([hang[k] for k in ("comm", "op", "seq")] == [truth[k] for k in ("comm", "op", "seq")], f"{hang} but {truth}")
job.check(hang["detected_after_s"] <= 5, f"hang after {hang['detected_after_s']} s")
check = subprocess.run([sys.executable, "-B", "tools/check_pftrace.py", "--max-bytes-per-slice", "48",
                        f"{job.O}/demo/demo.pftrace"], capture_output=True, text=True)
print(check.stdout.strip())
job.check(check.returncode == 0, f"timeline: {check.stdout}{check.stderr}")
job.check(os.path.getsize(f"{job.O}/demo/demo.rtr") > 0, "no recording")
