# SPDX-License-Identifier: Apache-2.0
"""Inside a guest with soft-RoCE (tests/vm/test_rdma.sh): perftest and rdma-core's ping-pong under the tracer, from the start and
attached in the middle. Posts, bytes and completions per queue pair equal what the tools were asked to do.
"""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
import verbs_records

RANKTRACE = os.path.join(os.environ.get("O", "build"), "ranktrace")
ADDRESS = "10.9.0.1"
WRITE, SEND, READ = "op0", "op2", "op4"
last = ""


def device():
    if os.path.exists("/sys/class/infiniband/rxe0"):
        return
    run = lambda *a: subprocess.run(a, check=True)
    run("ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1")
    run("ip", "address", "add", ADDRESS + "/24", "dev", "v0")
    run("ip", "link", "set", "v0", "up")
    run("ip", "link", "set", "v1", "up")
    run("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "v0")
    for _ in range(100):
        if os.path.exists("/dev/infiniband/uverbs0") and "ACTIVE" in open("/sys/class/infiniband/rxe0/ports/1/state").read():
            return
        os.makedirs("/dev/infiniband", exist_ok=True)
        time.sleep(0.1)
    sys.exit("rxe0 did not come up")


def listening():
    """perftest's and rc_pingpong's port, 18515."""
    rows = [line.split() for f in ("tcp", "tcp6") for line in open("/proc/net/" + f).readlines()[1:]]
    return any(r[1].endswith(":4853") and r[3] == "0A" for r in rows)


def run(name, tool, record=("--tier", "burst", "--budget=no"), server=None):
    """The client under the tracer, its server beside it; the totals of its queue pairs and all records."""
    rtr = f"/tmp/{name}.rtr"
    s = subprocess.Popen(server or tool, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(300):
        if listening():
            break
        time.sleep(0.2)
    c = subprocess.run([RANKTRACE, "record", *record, "-o", rtr, "--"] + tool + [ADDRESS], capture_output=True, text=True, timeout=200)
    s.wait(60)
    global last
    last = c.stdout[-1500:] + c.stderr[-1500:]
    if c.returncode > 1:
        sys.exit(f"{name}: {c.returncode}\n{c.stdout[-1500:]}\n{c.stderr[-1500:]}")
    return verbs_records.stats(rtr), list(verbs_records.records(rtr)), list(verbs_records.libs(rtr)), c


def expect(name, seen, **want):
    for field, value in want.items():
        got = sum(r[field] for r in seen.values())
        print(f"{name}: {field} {got}, expected {value}", flush=True)
        if got != value:
            print(last, *seen.values(), sep="\n")
            sys.exit(f"{name}: {field} is {got}, not {value}")


def main():
    device()
    n, size = 300, 4096
    perf = lambda tool, *more: [tool, "-d", "rxe0", "-F", "-n", str(n), "-s", str(size), *more]
    pong = ["ibv_rc_pingpong", "-d", "rxe0", "-g", "1", "-n", "200", "-s", "1024"]
    seen, _, _, _ = run("pingpong", pong)
    expect("rc_pingpong", seen, posts=200, post_bytes=200 * 1024, send_done=200, recv_done=200, recv_bytes=200 * 1024)
    for tool, op in (("ib_write_bw", WRITE), ("ib_read_bw", READ), ("ib_send_bw", SEND)):
        seen, records, libs, out = run(tool, perf(tool))
        expect(tool, seen, posts=n, post_bytes=n * size, errors=0, cut=0, from_start=1, **{op: n})
        expect(tool, seen, send_done=sum(r["signalled"] for r in seen.values()))
        peers = [r for r in records if r["kind"] == "qp" and r["dest_qpn"]]
        assert peers and all(r["dgid"][10:] == b"\xff\xff" + bytes(int(x) for x in ADDRESS.split(".")) for r in peers), peers
        print(tool, "probed:", libs, flush=True)
    seen, _, _, _ = run("q4", perf("ib_write_bw", "-q", "4"))
    assert len([r for r in seen.values() if r["posts"] == n]) == 4, seen
    expect("ib_write_bw -q 4", seen, posts=4 * n, post_bytes=4 * n * size)
    seen, _, _, _ = run("ib_send_lat", perf("ib_send_lat"))
    expect("ib_send_lat", seen, posts=n, post_bytes=n * size, recv_done=n, recv_bytes=n * size)
    seen, records, _, _ = run("trace", perf("ib_write_bw"), record=("--tier", "trace"))
    assert not seen and any(r["kind"] == "qp" for r in records)
    print("rdma_guest: passed", flush=True)


if __name__ == "__main__":
    main()
