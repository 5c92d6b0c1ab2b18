# SPDX-License-Identifier: Apache-2.0
"""Inside a guest with soft-RoCE, last: a device that the target may not open, and one that is removed while it is
traced. Neither ends the session, and what is said names the device. """
import json
import os
import signal
import subprocess
import sys
import time

import rdma_guest
from rdma_guest import RANKTRACE
from rdma_guest_late import BURST, attach, pair, perf, kernels_qps, qps_reported, until, wait_probes


def no_permission():
    node = "/dev/infiniband/uverbs0"
    # twice: it opens the device first of all, and may be over before it is probed
    tool = " ".join(perf("ib_write_bw", 10)) + " 127.0.0.1"
    os.chmod(node, 0o600)
    out = subprocess.run([RANKTRACE, "record", *BURST, "-o", "/tmp/refused.rtr", "--", "setpriv", "--reuid=65534",
                          "--regid=65534",
                          "--clear-groups", "sh", "-c", f"sleep 1; {tool}; exec {tool}"],
                         capture_output=True, text=True, timeout=100)
    os.chmod(node, 0o666)
    said = [line for line in out.stderr.splitlines() if "ibv_open_device" in line]
    print("no permission:", said, flush=True)
    if len(said) not in (1, 2) or any("uid 65534" not in s or node not in s or "mode 600" not in s for s in said):
        sys.exit(out.stdout + out.stderr)


def removed():
    rtr = "/tmp/removed.rtr"
    env = [dict(os.environ, RANK=str(r), WORLD_SIZE="2") for r in (0, 1)]
    s, c = pair(perf("ib_write_bw", 2000000), env)
    idle = subprocess.Popen(["sleep", "600"], env=dict(os.environ, RANK="2", WORLD_SIZE="3"))
    until(lambda: any(q["state"] == "RTS" for q in kernels_qps(c.pid).values()), "no queue pair is ready")
    tracer = attach(rtr, s.pid, c.pid, idle.pid)
    wait_probes(tracer, rtr, 27)
    time.sleep(2)
    gone = subprocess.Popen(["rdma", "link", "delete", "rxe0"])
    time.sleep(4)
    alive = tracer.poll() is None
    for p in (s, c): # soft-RoCE's device goes when its last user does
        p.kill()
    out = c.communicate(timeout=60)[0]
    s.wait(60)
    gone.wait(60)
    time.sleep(8) # devices are looked for every 5 s
    idle.kill()
    idle.wait(60)
    code = tracer.wait(60)
    said = open(rtr + ".err").read()
    print("removed:", said, out[-300:], sep="\n", flush=True)
    found = subprocess.run([RANKTRACE, "replay", "-q", "--json", rtr], capture_output=True, text=True).stdout
    print("removed: findings", found, qps_reported(rtr), flush=True)
    if "rxe0" not in found or "gone" not in found:
        sys.exit("nothing is said of the device that is gone")
    if not alive or code not in (0, 1):
        sys.exit(f"the session ended with {code}, alive when the device was gone: {alive}")


def main():
    rdma_guest.device()
    no_permission()
    removed()
    print("rdma_guest_bad: passed", flush=True)


if __name__ == "__main__":
    main()
