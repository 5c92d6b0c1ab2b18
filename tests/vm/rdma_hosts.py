# SPDX-License-Identifier: Apache-2.0
"""Hosts in a guest: N veth ends v0, v1... with an address and a soft-RoCE device rxeN each, their other ends b0, b1...
in one bridge.

Soft-RoCE asks the first network namespace for its routes whatever namespace its device is in (docs/decisions/tests.md),
so the hosts' ends all stand in that one, and traffic between two addresses of one machine is forced over the wires: a
packet that goes out by vN is routed by vN's own table, what comes in on vN is local, and only what says neither asks
the local table. """
import os
import subprocess
import sys
import time

PREFIX = "10.9.0."


def sh(command):
    r = subprocess.run(command, shell=True, capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"{command}: {r.stdout}{r.stderr}")
    return r.stdout


def conf(name, value):
    for where in ("all", "default"):
        with open(f"/proc/sys/net/ipv4/conf/{where}/{name}", "w") as f:
            f.write(str(value))


def routes(i):
    sh(f"ip route replace {PREFIX}0/24 dev v{i} src {PREFIX}{i + 1} table {100 + i}")


def begin(n):
    for name, value in (("rp_filter", 0), ("accept_local", 1), ("arp_ignore", 1), ("arp_announce", 2)):
        conf(name, value)
    sh("ip link add br0 type bridge && ip link set br0 up")
    sh("ip rule add pref 30 lookup local && ip rule del pref 0")
    for i in range(n):
        sh(f"ip link add v{i} type veth peer name b{i} && ip link set b{i} master br0 up")
        sh(f"ip address add {PREFIX}{i + 1}/24 dev v{i} && ip link set v{i} up")
        routes(i)
        sh(f"ip rule add pref 10 iif v{i} lookup local && ip rule add pref 20 oif v{i} lookup {100 + i}")
        sh(f"rdma link add rxe{i} type rxe netdev v{i}")
    for i in range(n):
        wait_active(i)


def wait_active(i):
    for _ in range(100):
        with open(f"/sys/class/infiniband/rxe{i}/ports/1/state") as f:
            if "ACTIVE" in f.read() and os.path.exists(f"/dev/infiniband/uverbs{i}"):
                return
        time.sleep(0.1)
    sys.exit(f"rxe{i} did not come up")


def netem(i, what, ends="v"):
    """On what host i sends (end v), or what is sent to it (end b)."""
    for end in ends:
        sh(f"tc qdisc replace dev {end}{i} root netem {what}")


def heal(i, ends="v"):
    """What waits in the queue still goes out: a queue pair that loses all of it at once waits for seconds, if it comes
    back at all."""
    netem(i, "delay 0ms", ends)
    time.sleep(3)
    for end in ends:
        sh(f"tc qdisc del dev {end}{i} root")


def down(i):
    sh(f"ip link set v{i} down")


def up(i):
    sh(f"ip link set v{i} up")
    routes(i)


def devices(n):
    return ",".join(f"rxe{i}" for i in range(n))
