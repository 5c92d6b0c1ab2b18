# SPDX-License-Identifier: Apache-2.0
"""A GPU that is lost, XIDs in the kernel log (by address, by process, of an unknown number), then a driver that does
not answer: each is a finding with the rank it hits; the session goes on looking meanwhile. What is one event has one
root: the GPU that is lost."""
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import gpus
import job

RANKS = 4

job.need_root()
rng, number = job.seed()
kmsg = gpus.use()
lost, named, unknown = rng.sample(range(RANKS), 3)
j = job.Job(["--ranks", RANKS, "--steps", 4000, "--step-ms", 100, "--seed", number,
             "--fault", f"gpu:what=lost,rank={lost},step=30", "--fault", f"gpu:what=silent,rank={named},step=100"],
            ["--tier", "watch"], name="gpu-lost")


def log(text):
    with open(kmsg, "a") as f:
        f.write(f"4,1,{time.monotonic_ns() // 1000},-;{text}\n")


f = j.wait_finding(90, kind="gpu_health", phase="open")
job.check(f and f["cause"] == "gpu_lost" and f["ranks"] == [lost],
          f"rank {lost} lost its GPU: {j.findings}\n{j.stderr()}")
pid = next(o["pid"] for o in job.lines(j.ops_log) if o["rank"] == named)
log("EXT4-fs (sda1): mounted filesystem")
log(f"NVRM: Xid (PCI:{gpus.pci(lost)}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")
log(f"NVRM: Xid (PCI:{gpus.pci(lost)}): 31, pid={pid}, name=simjob, Ch 00000008, intr 00000000. MMU Fault")
log(f"NVRM: Xid (PCI:{gpus.pci(unknown)}): 999, something new")
want = {79: [lost], 31: [named], 999: [unknown]}
end = time.monotonic() + 60
while time.monotonic() < end and len([f for f in j.opened() if f["kind"] == "xid"]) < len(want):
    time.sleep(0.2)
reported = {f["evidence"]["xid"]: f for f in j.opened() if f["kind"] == "xid"}
job.check({n: f["ranks"] for n, f in reported.items()} == want, f"XIDs {want}, reported {reported}\n{j.stderr()}")
job.check([reported[n]["cause"] for n in (79, 31, 999)] == ["hardware", "application", "unknown"], f"{reported}")
job.check("fallen off the bus" in reported[79]["evidence"]["message"], f"{reported[79]}")
f = j.wait_finding(90, kind="gpu_health", phase="open", cause="driver_does_not_answer")
job.check(f and sorted(f["ranks"]) == list(range(RANKS)), f"a driver that does not answer: {j.findings}\n{j.stderr()}")
roots = {f["kind"]: f for f in j.opened() if not f["caused_by"]}
job.check(roots.keys() == {"gpu_health", "xid"} and roots["xid"] == reported[999],
          f"one event, and an XID of another GPU: {roots}")
job.check(all(x["caused_by"] == roots["gpu_health"]["id"] for x in (reported[79], reported[31], f)),
          f"not of the GPU that is lost: {j.opened()}")
print(f"  the driver's silence reported {f['detected_after_s']:.1f} s after the question")
job.check(len(gpus.by_cause(j)) == 2, f"more than was injected: {gpus.by_cause(j)}")
job.check(j.stop() == 1, "exit code is not 1")
j.check_replay()
job.result("gpu_lost", f["detected_after_s"])
