# SPDX-License-Identifier: Apache-2.0
"""Recordings of a hung job as `ranktrace autopsy --raw` writes them, one of each host, without the job: ranks with a
world, a tensor, a data and a pipeline parallel communicator, all at one point of their step. One rank sleeps before its
data parallel AllReduce: its group waits for it, and everybody else, a collective further, for its group."""
import random
import struct
import zlib

COLLECTOR, SCHED = 0, 3
START, TICK, PROC, THREAD, STOP, COMM_SAMPLE, TASK_AT, COMM_SCAN = 1, 2, 3, 4, 7, 10, 11, 32
TASK, SLEEP = 1, 3
SAMPLES = 3                 # of each host: as the shortest look with --raw
INTERVAL_NS = 450_000_000
BEGAN_NS = 3_600_000_000_000
PIPELINE = 8                # stages, so many hosts apart
STEP_OPS = {"world": 1, "tensor": 96, "data": 24, "pipeline": 2}
STEPS = 1000


def record(tracer, kind, tgid, tid, ts_ns, body=b""):
    body += bytes(-len(body) % 8)
    return struct.pack("<HBBIIIQ", 24 + len(body), tracer, kind, tid, tgid, 0, ts_ns) + body


def text(*words):
    return b"".join(w.encode() + b"\0" for w in words)


class Job:
    def __init__(self, hosts, per_host, seed):
        self.hosts, self.per_host, self.n = hosts, per_host, hosts * per_host
        self.rng = random.Random(seed)
        self.culprit = self.rng.randrange(self.n)
        self.stages = PIPELINE if hosts % PIPELINE == 0 else 1
        self.hashes = {}
        self.culprits_group = self.place(self.culprit)["data"][0]

    def hash(self, group):
        return self.hashes.setdefault(group, self.rng.getrandbits(63) | 1)

    def place(self, rank):
        """{communicator: (hash, rank in it, size)}"""
        host, local = divmod(rank, self.per_host)
        per_stage = self.hosts // self.stages
        stage, replica = divmod(host, per_stage)
        return {
            "world": (self.hash("world"), rank, self.n),
            "tensor": (self.hash(("tensor", host)), local, self.per_host),
            "data": (self.hash(("data", stage, local)), replica, per_stage),
            "pipeline": (self.hash(("pipeline", replica, local)), stage, self.stages),
        }

    def entered(self, rank, name, group):
        """Collectives launched: all are through STEPS steps, and in the next through what stands before its wait."""
        n = STEPS * STEP_OPS[name]
        if name in ("tensor", "pipeline"):
            return n + STEP_OPS[name]
        waits_for_world = self.place(rank)["data"][0] != self.culprits_group
        if name == "world":
            return n + waits_for_world
        return n + STEP_OPS[name] - (rank == self.culprit)

    def host_name(self, host):
        return f"node-{host:05d}"

    def pid(self, rank):
        return 4000 + 10 * (rank % self.per_host)  # the same on every host

    def sample(self, rank, ts_ns):
        for i, (name, (group, place, size)) in enumerate(self.place(rank).items()):
            counters = [0] * 8
            counters[4] = self.entered(rank, name, group)
            body = struct.pack("<QQiiiI", 0x7F0000000000 + 0x10000 * i, group, place, size, rank % self.per_host, 5)
            yield record(COLLECTOR, COMM_SAMPLE, self.pid(rank), self.pid(rank), ts_ns,
                         body + struct.pack("<8QiiIB3x", *counters, 0, 0, 0, 7)[:136 - 24 - len(body)])

    def tasks(self, rank, clock_ns, ts_ns):
        pid, call = self.pid(rank), "clock_nanosleep" if rank == self.culprit else "futex"
        for tid in range(pid, pid + 4):
            times = struct.pack("<6QII", clock_ns - 60_000_000_000, 10**12, 10**9, 10**12, 0, 0, SLEEP, 0)
            yield record(SCHED, TASK, pid, tid, ts_ns, times + struct.pack("<QQ16s", 100, 0, b""))
        wchan = "hrtimer_nanosleep" if rank == self.culprit else "futex_wait_queue"
        yield record(COLLECTOR, TASK_AT, pid, pid, ts_ns,
                     struct.pack("<HHHH", len(wchan) + 1, len(call) + 1, 1, 0) + text(wchan, call, ""))

    def records(self, host):
        clock_ns = BEGAN_NS + self.rng.randrange(10**15)  # every host's since its boot
        ranks = range(host * self.per_host, (host + 1) * self.per_host)
        name = self.host_name(host)
        start = struct.pack("<QQQQII", 1_790_000_000_000_000_000 - clock_ns, INTERVAL_NS // 2, INTERVAL_NS // 2,
                            90 * 10**9, 1, len(name) + 1)
        yield record(COLLECTOR, START, 0, 0, clock_ns, start + text(name))
        for r in ranks:
            words = ("big-run", "python3", "", "")
            lens = [len(w) + 1 for w in words]
            who = struct.pack("<QIIiiiBBBB4H", clock_ns - 10**12, 1, self.pid(r), r, r % self.per_host, self.n, 1, 0, 0,
                              0, *lens)
            yield record(COLLECTOR, PROC, self.pid(r), self.pid(r), clock_ns, who + text(*words))
            yield record(COLLECTOR, THREAD, self.pid(r), self.pid(r), clock_ns, struct.pack("16s", b"pt_main_thread"))
        for r in ranks:
            yield record(COLLECTOR, COMM_SCAN, self.pid(r), self.pid(r), clock_ns, struct.pack("<II", 4, 0))
        for i in range(SAMPLES):
            ts_ns = clock_ns + 10_000_000 + i * INTERVAL_NS
            for r in ranks:
                yield from self.sample(r, ts_ns)
            for r in ranks:
                yield from self.tasks(r, clock_ns, ts_ns + 1_000_000)
            if i:
                yield record(COLLECTOR, TICK, 0, 0, ts_ns + 2_000_000)
        yield record(COLLECTOR, STOP, 0, 0, clock_ns + 2_000_000_000, struct.pack("<Q", 0))

    def write(self, host, path):
        all_of_it = list(self.records(host))
        raw = b"".join(all_of_it)
        packed = zlib.compress(raw, 1)
        with open(path, "wb") as f:
            f.write(struct.pack("<QII", 0x0A72744B4E415252, 1, 0))
            f.write(struct.pack("<4sIIIII", b"CHNK", len(raw), len(packed), len(all_of_it), zlib.crc32(packed), 0) +
                    packed)
