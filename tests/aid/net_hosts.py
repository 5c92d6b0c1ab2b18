# SPDX-License-Identifier: Apache-2.0
"""Hosts that are network namespaces on one switch, with links that can be made bad: for simjob --netns. Where the
kernel has sch_netem it is veth, a bridge and netem, else taps and net_switch.py. Nothing is left of them when they are
closed."""
import fcntl
import os
import struct
import subprocess
import sys

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000


def run(*words, check=True):
    return subprocess.run(words, check=check, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE).returncode == 0


def has_netem():
    run("modprobe", "sch_netem", check=False) if os.path.exists("/sbin/modprobe") else None
    name = f"rtnetem{os.getpid()}"
    run("ip", "netns", "add", name)
    try:
        return run("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms",
                   check=False)
    finally:
        run("ip", "netns", "del", name)


class Hosts:
    """HOSTS.prefix is for --netns; host i has address(i) on eth0."""

    def __init__(self, number, netem=None):
        self.number, self.prefix = number, f"rt{os.getpid()}-"
        self.netem = has_netem() if netem is None else netem
        self.names, self.switch = [], None
        try:
            for i in range(number):
                self.names.append(f"{self.prefix}{i}")
                run("ip", "netns", "add", self.names[-1])
                run("ip", "-n", self.names[-1], "link", "set", "lo", "up")
            self._bridge() if self.netem else self._switch()
            for i, name in enumerate(self.names[:number]):
                run("ip", "-n", name, "addr", "add", f"{self.address(i)}/24", "dev", "eth0")
                run("ip", "-n", name, "link", "set", "eth0", "up")
        except BaseException:
            self.close()
            raise

    def address(self, i):
        return f"10.78.0.{i + 1}"

    def _bridge(self):
        hub = f"{self.prefix}hub"
        self.names.append(hub)
        run("ip", "netns", "add", hub)
        run("ip", "-n", hub, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", hub, "link", "set", "br0", "up")
        for i in range(self.number):
            run("ip", "-n", self.names[i], "link", "add", "eth0", "type", "veth", "peer", "name", f"host{i}", "netns",
                hub)
            run("ip", "-n", hub, "link", "set", f"host{i}", "master", "br0", "up")

    def _switch(self):
        fds = []
        for i in range(self.number):
            fd, name = os.open("/dev/net/tun", os.O_RDWR), f"rt{os.getpid() % 100000}t{i}"
            fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
            run("ip", "link", "set", name, "netns", self.names[i], "name", "eth0")
            fds.append(fd)
        here = os.path.dirname(os.path.abspath(__file__))
        self.switch = subprocess.Popen([sys.executable, f"{here}/net_switch.py", *map(str, fds)], pass_fds=fds,
                                       text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for fd in fds:
            os.close(fd)

    def link(self, i, loss=0.0, delay=0.0, rate=0.0, up=True):
        """The link of host i from now on: share lost, seconds, bytes a second, each way."""
        if not self.netem:
            self.switch.stdin.write(f"{i} loss={loss} delay={delay} rate={rate} carrier={int(up)}\n")
            self.switch.stdin.flush()
            self.switch.stdout.readline()
            return
        hub = f"{self.prefix}hub"
        run("ip", "-n", hub, "link", "set", f"host{i}", "up" if up else "down")
        for name, dev in ((self.names[i], "eth0"), (hub, f"host{i}")):
            words = ["limit", "10000"]
            words += ["loss", f"{loss * 100}%"] if loss else []
            words += ["delay", f"{delay * 1000:.0f}ms"] if delay else []
            words += ["rate", f"{rate * 8:.0f}bit"] if rate else []
            run("tc", "-n", name, "qdisc", "replace", "dev", dev, "root", "netem", *words)

    def start(self, i, *words, **more):
        """A process on host i."""
        return subprocess.Popen(["ip", "netns", "exec", self.names[i], *words], **more)

    def close(self):
        if self.switch:
            self.switch.stdin.close()
            self.switch.wait(10)
        for name in self.names:
            run("ip", "netns", "del", name, check=False)
        self.names = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
