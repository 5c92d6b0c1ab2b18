#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A switch in user space, for kernels without sch_netem: each host's link (a tap) loses, delays and throttles what goes
over it, in both directions, and can lose its carrier. Made and told by net_hosts.py: frames come and go by the
descriptors of argv, commands by stdin: "LINK loss=0.05 delay=0.1 rate=125000 carrier=0", what is not named is healthy.
Deliberately small: some 50,000 frames a second."""
import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time

random.seed(os.environ.get("SEED"))  # of job.py: what is lost
TUNSETCARRIER = 0x400454E2
QUEUE_BYTES = 256 * 1024  # in front of a link with a rate, as a switch's port has it; what does not fit is lost


class Link:
    def __init__(self, fd):
        self.fd, self.mac = fd, None
        self.loss, self.delay, self.rate, self.carrier = 0.0, 0.0, 0.0, 1
        self.free_at = [0.0, 0.0]  # from the host, to the host

    def set(self, words):
        self.loss, self.delay, self.rate, carrier = 0.0, 0.0, 0.0, 1
        for word in words:
            key, value = word.split("=")
            if key == "carrier":
                carrier = int(value)
            else:
                setattr(self, key, float(value))
        if carrier != self.carrier:
            fcntl.ioctl(self.fd, TUNSETCARRIER, struct.pack("i", carrier))
        self.carrier = carrier

    def cross(self, size, at, direction):
        """When a frame that comes at `at` is over it; None: it is lost."""
        if not self.carrier or (self.loss and random.random() < self.loss):
            return None
        if self.rate:
            begin = max(at, self.free_at[direction])
            if (begin - at) * self.rate > QUEUE_BYTES:
                return None
            at = self.free_at[direction] = begin + size / self.rate
        return at + self.delay


def write(link, frame):
    try:
        os.write(link.fd, frame)
    except OSError:
        pass  # its host is down


def forward(links, source, frame, waiting, count):
    now = time.monotonic()
    source.mac = frame[6:12]
    over = source.cross(len(frame), now, 0)
    if over is None:
        return
    to = [other for other in links if other is not source and other.mac == frame[:6]]
    for link in to or [other for other in links if other is not source]:
        at = link.cross(len(frame), over, 1)
        if at is None:
            continue
        if at <= now:
            write(link, frame)
        else:
            heapq.heappush(waiting, (at, next(count), link, frame))


def command(links, line):
    words = line.split()
    if words:
        links[int(words[0])].set(words[1:])
        print("done", flush=True)


def main():
    links = [Link(int(fd)) for fd in sys.argv[1:]]
    by_fd = {link.fd: link for link in links}
    waiting, count = [], iter(range(1 << 62))
    poll = select.poll()
    for fd in [0, *by_fd]:
        os.set_blocking(fd, fd == 0)
        poll.register(fd, select.POLLIN)
    while True:
        wait = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for fd, _ in poll.poll(None if wait is None else wait * 1000):
            if fd == 0:
                line = sys.stdin.readline()
                if not line:
                    return
                command(links, line)
                continue
            for _ in range(8):  # a burst, then the others
                try:
                    frame = os.read(fd, 2048)
                except OSError:
                    break
                forward(links, by_fd[fd], frame, waiting, count)
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, link, frame = heapq.heappop(waiting)
            write(link, frame)


main()
