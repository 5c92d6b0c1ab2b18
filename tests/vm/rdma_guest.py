# SPDX-License-Identifier: Apache-2.0
"""Inside a guest with soft-RoCE (tests/vm/test_rdma.sh): perftest and rdma-core's ping-pong under the tracer, from
their start. Posts, bytes and completions per queue pair equal what the tools were asked to do. One session for all: in
the first run the provider is learnt, and those after it have to be complete. """
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../aid"))
import rdma_when
import verbs_records

RANKTRACE = os.path.join(os.environ.get("O", "build"), "ranktrace")
ADDRESS = "10.9.0.1"
WRITE, SEND, READ = "op0", "op2", "op4"
BURST = ("--tier", "burst", "--budget=no")


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
        state = "/sys/class/infiniband/rxe0/ports/1/state"
        if os.path.exists("/dev/infiniband/uverbs0") and "ACTIVE" in open(state).read():
            return
        os.makedirs("/dev/infiniband", exist_ok=True)
        time.sleep(0.1)
    sys.exit("rxe0 did not come up")


def listening():
    """perftest's and rc_pingpong's port, 18515."""
    rows = [line.split() for f in ("tcp", "tcp6") for line in open("/proc/net/" + f).readlines()[1:]]
    return any(r[1].endswith(":4853") and r[3] == "0A" for r in rows)


class Session:
    """A tracer over a shell that starts one tool after the other; their servers are not traced."""
    def __init__(self, name, record=BURST):
        self.rtr, self.err = f"/tmp/{name}.rtr", f"/tmp/{name}.err"
        self.from_shell, to = os.pipe()
        self.process = subprocess.Popen([RANKTRACE, "record", *record, "-o", self.rtr, "--", "bash"],
                                        stdin=subprocess.PIPE, text=True, stdout=subprocess.DEVNULL,
                                        stderr=open(self.err, "w"), pass_fds=[to])
        self.to_fd = to
        self.said = os.fdopen(self.from_shell)

    def run(self, tool):
        """The client's pid."""
        server = subprocess.Popen(tool, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(listening, "the server does not listen", 60)
        self.process.stdin.write(f"bash -c 'echo $$ >&{self.to_fd}; exec {' '.join(tool)} {ADDRESS} > /dev/null 2>&1 "
                                 f"{self.to_fd}>&-'; "
                                 f"echo $? >&{self.to_fd}\n")
        self.process.stdin.flush()
        pid, status = int(self.said.readline()), int(self.said.readline())
        server.wait(60)
        if status:
            sys.exit(f"{tool}: {status}\n{open(self.err).read()}")
        return pid

    def end(self):
        self.process.stdin.close()
        os.close(self.to_fd)
        if self.process.wait(100) > 1:
            sys.exit(open(self.err).read()[-3000:])
        return self.rtr


def until(what, why, seconds=60, every=0.1):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if got := what():
            return got
        time.sleep(every)
    sys.exit(why)


def failed(rtr, pid, why):
    sys.exit(f"{why}\n{verbs_records.stats(rtr, pid)}\n{rdma_when.text(rtr)}\n" +
             open(rtr.replace(".rtr", ".err")).read()[-1500:])


def expect(rtr, name, pid, **want):
    seen = verbs_records.stats(rtr, pid)
    for field, value in want.items():
        got = sum(r[field] for r in seen.values())
        print(f"{name}: {field} {got}, expected {value}", flush=True)
        if got != value:
            failed(rtr, pid, f"{name}: {field} is {got}, not {value}")
    return seen


N, SIZE = 300, 4096


def perf(tool, *more):
    return [tool, "-d", "rxe0", "-F", "-n", str(N), "-s", str(SIZE), *more]


def pong(n=200, size=1024):
    return ["ibv_rc_pingpong", "-d", "rxe0", "-g", "1", "-n", str(n), "-s", str(size)]


def expect_pong(rtr, name, pid, **more):
    expect(rtr, name, pid, posts=200, post_bytes=200 * 1024, send_done=200, recv_done=200, recv_bytes=200 * 1024,
           **more)


def first(rtr, pid):
    """In this run the provider became known. A program may be faster than that: then it has to be said."""
    seen = verbs_records.stats(rtr, pid)
    said = [r["from_start"] for r in seen.values()]
    print(f"the first run: {sum(r['posts'] for r in seen.values())} posts of 200, from_start {said}", flush=True)
    if any(said):
        expect_pong(rtr, "the first run", pid)


def burst():
    s = Session("burst")
    learns, again = s.run(pong()), s.run(pong())
    bw = {tool: s.run(perf(tool)) for tool in ("ib_write_bw", "ib_read_bw", "ib_send_bw")}
    q4, lat = s.run(perf("ib_write_bw", "-q", "4")), s.run(perf("ib_send_lat"))
    rtr = s.end()
    print(rdma_when.text(rtr), flush=True)
    first(rtr, learns)
    expect_pong(rtr, "rc_pingpong", again, from_start=1)
    for tool, op in (("ib_write_bw", WRITE), ("ib_read_bw", READ), ("ib_send_bw", SEND)):
        seen = expect(rtr, tool, bw[tool], posts=N, post_bytes=N * SIZE, errors=0, cut=0, from_start=1, **{op: N})
        expect(rtr, tool, bw[tool], send_done=sum(r["signalled"] for r in seen.values()))
    seen = expect(rtr, "ib_write_bw -q 4", q4, posts=4 * N, post_bytes=4 * N * SIZE, from_start=4)
    if sorted(r["posts"] for r in seen.values()) != 4 * [N]:
        failed(rtr, q4, "ib_write_bw -q 4: not as many on each queue pair")
    expect(rtr, "ib_send_lat", lat, posts=N, post_bytes=N * SIZE, recv_done=N, recv_bytes=N * SIZE, from_start=1)
    peers = [r for r in verbs_records.records(rtr) if r["kind"] == "qp" and r["dest_qpn"] and r["pid"] != learns]
    address = b"\xff\xff" + bytes(int(x) for x in ADDRESS.split("."))
    if {r["pid"] for r in peers} != {again, q4, lat, *bw.values()} or any(r["dgid"][10:] != address for r in peers):
        failed(rtr, again, f"peers: {peers}")


def trace():
    s = Session("trace", ("--tier", "trace"))
    s.run(perf("ib_write_bw"))
    rtr = s.end()
    if verbs_records.stats(rtr) or not any(r["kind"] == "qp" for r in verbs_records.records(rtr)):
        sys.exit(f"trace tier: {verbs_records.stats(rtr)}")


def main():
    device()
    burst()
    trace()
    print("rdma_guest: passed", flush=True)


if __name__ == "__main__":
    main()
