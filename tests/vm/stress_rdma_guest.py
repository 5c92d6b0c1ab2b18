# SPDX-License-Identifier: Apache-2.0
"""Inside a guest with soft-RoCE (tests/vm/test_stress_rdma.sh): `ranktrace stress rdma`.

    stress_rdma_guest.py compare send-bandwidth write-rate  against perftest on one device, A B A B, medians
    stress_rdma_guest.py healthy loss cap mtu dead small apart    on four devices, on a network made bad: who is named

On one CPU a latency is the scheduler's slice, as both ends poll (a read has one that polls): `write-latency` and
`send-latency` need a guest with two that run side by side (no VM_ICOUNT) and a clock that costs no system call
(VM_APPEND=tsc=reliable: else ours pays 1 us of HPET a round trip, and perftest, which reads the TSC, nothing). A busy
host takes a CPU away now and then, and a run is quick (18 us) or slow (30 us) by where the kernel puts its work:
`write-least` compares the shortest round trip of each run, and of RANKTRACE_ROUNDS=61 such runs the tenth percentile.

A guest's CPU does all the work of the network: messages of 4 KiB, which soft-RoCE carries without loss of its own. """
import json
import os
import re
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../aid")]
import rdma_guest  # noqa: E402
import rdma_hosts as hosts  # noqa: E402

RANKTRACE = os.path.join(os.environ.get("O", "build"), "ranktrace")
ROUNDS = int(os.environ.get("RANKTRACE_ROUNDS", 3))
BYTES, PORTS = "4096", 4
WITHIN = 0.05


def lines(*args):
    p = subprocess.run([RANKTRACE, "stress", "rdma", "--json", "--no-gpus", *args], capture_output=True, text=True)
    by = {}
    for line in map(json.loads, p.stdout.splitlines()):
        by.setdefault(line["type"], []).append(line)
    return p.returncode, by, p.stderr


# --- against perftest ---

def perftest(tool, *args):
    """The row of numbers that a client prints: of a latency size, iterations, least, most, median..."""
    argv = [tool, "-d", "rxe0", "-x", "1", "-F", *args]
    server = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    rdma_guest.until(rdma_guest.listening, f"{tool} does not listen", 60)
    p = subprocess.run([*argv, "127.0.0.1"], capture_output=True, text=True, timeout=300)
    server.wait(60)
    rows = [line.split() for line in p.stdout.splitlines() if re.match(r"^ \d+ ", line)]
    if p.returncode or not rows:
        sys.exit(f"{argv}: {p.returncode}\n{p.stdout}{p.stderr}")
    return list(map(float, rows[-1]))


def theirs(operation, measure):
    if measure == "bandwidth":
        # from the rate: of the bandwidth it prints two digits after the point
        return perftest(f"ib_{operation}_bw", "-s", BYTES, "-n", "2000")[4] * int(BYTES) * 8e-3
    if measure == "rate":
        return perftest(f"ib_{operation}_bw", "-s", "2", "-n", "4000")[4]
    # small messages go inline by default in ours; perftest does not know this device and has to be told
    inline = [] if operation == "read" else ["-I", "64"]
    row = perftest(f"ib_{operation}_lat", "-s", "2", "-n", "500", *inline)
    return row[2 if measure == "least" else 4]


def ours(operation, measure):
    status, by, err = lines("--devices", "rxe0", "--shapes", "loopback", "--operations", operation, "--measures",
                            "latency" if measure == "least" else measure, "--bytes", BYTES, "--time", "1",
                            "--iterations", "500")
    if status:
        sys.exit(f"{operation} {measure}: exit {status}: {err} {by.get('fault')}")
    return by["port_case"][0]["least_us" if measure == "least" else "value"]


def compare(cases):
    wrong = []
    rdma_guest.device()
    print(f"{'':16} {'perftest':>28} {'ranktrace':>28}  ratio", flush=True)
    for case in cases:
        a, b = [], []
        for _ in range(ROUNDS):
            a.append(theirs(*case.split("-")))
            b.append(ours(*case.split("-")))
        of = (lambda values: sorted(values)[len(values) // 10]) if case.endswith("least") else statistics.median
        ratio = of(b) / of(a)
        text = lambda values: " ".join(f"{v:.4g}" for v in values)
        print(f"{case:16} {text(a):>28} {text(b):>28}  {ratio:.3f}", flush=True)
        if abs(ratio - 1) > WITHIN:
            wrong.append(f"{case} {ratio:.3f}")
    if wrong:
        sys.exit(f"not within {WITHIN:.0%} of perftest: {', '.join(wrong)}")
    print("compare: passed", flush=True)


# --- a bad network ---

LINKS = ("--shapes", "nic-to-nic", "--bytes", BYTES, "--time", "0.5", "--iterations", "50")
SOME = ("--operations", "write", "--measures", "bandwidth")


def run(case, *args):
    begin = time.monotonic()
    status, by, err = lines(*LINKS, *args)
    faults = [(f["subject"].get("device"), f["kind"], f["summary"]) for f in by.get("fault", [])]
    took = time.monotonic() - begin
    print(f"{case}: exit {status} after {took:.0f} s, {len(by.get('port_case', []))} cases {err.strip()}", flush=True)
    for f in faults:
        print(f"  {f}", flush=True)
    return status, faults, by


def named(case, kind, device, words, *args):
    """One fault, of that kind, of that device alone."""
    status, faults, _ = run(case, *SOME, *args)
    alone = faults and all(d == device and k == kind for d, k, _ in faults)
    if status != 1 or not alone or words not in faults[0][2]:
        sys.exit(f"{case}: not {kind} of {device} alone ('{words}')")


def healthy():
    status, faults, by = run("healthy")
    if status or faults or len(by["port_case"]) != 9 * PORTS * (PORTS - 1) or any(c["wrong"] for c in by["port_case"]):
        sys.exit("healthy: it does not pass")


def cap(on):
    for end in "vb":
        hosts.sh(f"tc qdisc replace dev {end}1 root tbf rate 20mbit burst 16kb limit 3mb" if on else
                 f"tc qdisc del dev {end}1 root")


def up_again():
    hosts.up(0)
    hosts.wait_active(0)


def move(to, away):
    """The address of the last port."""
    hosts.sh(f"ip address replace {to}4/24 dev v3 && ip address delete {away}4/24 dev v3")
    hosts.routes(3) if to == hosts.PREFIX else time.sleep(1)


def apart():
    """A port on a network of its own, with a working wire to the others: no link to it is tried, and that is said."""
    status, faults, by = run("apart", *SOME)
    ports = {c[end]["device"] for c in by["port_case"] for end in ("from", "to")}
    if status or faults or ports != {"rxe0", "rxe1", "rxe2"} or "on 2 networks (10.9.0.0/24, 10.9.9.0/24)" not in \
            str(by["end"][0]["notes"]):
        sys.exit(f"apart: not said so: {ports} {by['end']}")


# what makes the network bad, what is then said, what makes it good again; `small`: the port's own MTU is what it was
CASES = {
    "healthy": (lambda: None, healthy, lambda: None),
    "loss": (lambda: hosts.netem(2, "loss 5%"),
             lambda: named("loss", "packet_loss", "rxe2", "packets are lost over each of its links"),
             lambda: hosts.heal(2)),
    # 128 messages of 4 KiB wait longer there than soft-RoCE waits for an answer
    "cap": (lambda: cap(True), lambda: named("cap", "slow", "rxe1", "each of its links is slow", "--bytes", "1024"),
            lambda: cap(False)),
    "mtu": (lambda: hosts.sh("ip link set v3 mtu 700"),
            lambda: named("mtu", "port", "rxe3", "active MTU 512, of 3 of 4"),
            lambda: hosts.sh("ip link set v3 mtu 1500")),
    "dead": (lambda: hosts.down(0), lambda: named("dead", "port", "rxe0", "it is DOWN, 3 of 3 others"), up_again),
    "small": (lambda: hosts.sh("ip link set b2 mtu 700"),
              lambda: named("small", "dead_link", "rxe2", "the MTU of the network between them is smaller"),
              lambda: hosts.sh("ip link set b2 mtu 1500")),
    "apart": (lambda: move("10.9.9.", hosts.PREFIX), apart, lambda: move(hosts.PREFIX, "10.9.9.")),
}


def main():
    if sys.argv[1:2] == ["compare"]:
        return compare(sys.argv[2:])
    with open("/proc/sys/net/core/netdev_max_backlog", "w") as f:
        f.write("100000")
    hosts.begin(PORTS)
    failed = []
    for case in sys.argv[1:]:
        worsen, check, heal = CASES[case]
        worsen()
        try:
            check()
        except SystemExit as why:
            failed.append(str(why))
        heal()
    print("\n".join(failed) or "stress_rdma_guest: passed", flush=True)
    return len(failed)


sys.exit(main())
