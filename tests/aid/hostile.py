# SPDX-License-Identifier: Apache-2.0
"""A job of root's, a daemon over the host, and beside both an unprivileged user who means harm: what each attack must
leave as it was."""
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time

import job

NOBODY = 65534
SIM = os.path.join(os.path.realpath(job.O), "lib/ranktrace/sim")
NCCL = f"{SIM}/libnccl.so.2"
GAP_S = 0.5
STOPS = 8  # of a rank, for one of a kind


def place():
    """A folder that everybody may read and the attacker may write."""
    path = tempfile.mkdtemp(prefix="ranktrace-hostile-")
    os.chmod(path, 0o777)
    job.dirs.append(path)
    return path


class Program:
    """A process of nobody's; ready() waits for its word."""

    def __init__(self, argv, env=None, name=None):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=NOBODY, group=NOBODY,
                                        extra_groups=[], env=env, cwd="/", text=True, start_new_session=True,
                                        executable=name)
        job.jobs.append(self)

    def ready(self):
        word = self.process.stdout.readline()
        job.check(word.strip() == "ready", f"the attacker says {word!r}: this test would prove nothing")
        return self

    def kill(self):
        if self.process.poll() is None:
            try:
                os.killpg(self.process.pid, 9)
            except ProcessLookupError:
                pass
        self.process.wait()


def python(code, *args, env=None):
    return Program(["/usr/bin/python3", "-B", "-c", code, *map(str, args)], env)


MAP_ONE = "import ctypes, sys\nlib = ctypes.CDLL(sys.argv[1])\nprint('ready', flush=True)\nsys.stdin.read()\n"


def program(name, *args, env=None):
    """A C program of tests/aid, run by nobody."""
    return Program([job.compiled(name), *map(str, args)], env)


class Daemon:
    """ranktrace record over all jobs of the host."""

    def __init__(self, *args, command="record", env=None):
        self.dir = tempfile.mkdtemp(prefix="ranktrace-daemon-")
        job.dirs.append(self.dir)
        job.jobs.append(self)
        self.rtr = f"{self.dir}/all.rtr"
        self.out, self.err = open(f"{self.dir}/findings", "w"), open(f"{self.dir}/stderr", "w")
        every = ["--all"] if command == "record" else []
        argv = [job.RANKTRACE, command, *every, "-v", "--json", "-o", self.rtr, *map(str, args)]
        self.process = subprocess.Popen(argv, stdout=self.out, stderr=self.err, env=dict(os.environ, **(env or {})))

    def wait(self, ready=job.has_probes):
        job.wait_session(self.process, f"{self.dir}/stderr", ready)
        return self

    def stderr(self):
        with open(f"{self.dir}/stderr", errors="surrogateescape") as f:
            return f.read()

    def findings(self):
        return job.lines(f"{self.dir}/findings")

    def check_alive(self):
        job.check(self.process.poll() is None, f"the daemon ended: {self.process.poll()}\n{self.stderr()[-3000:]}")

    def gap(self):
        """Seconds, and what is said of it."""
        text = self.stderr()
        said = text[text.rindex("longest gap between two polls "):].partition("\n")[0]
        return float(said.split()[5]), said

    def stop(self):
        self.check_alive()
        self.process.terminate()
        code = self.process.wait(60)
        job.check(code in (0, 1), f"the daemon's exit code is {code}\n{self.stderr()[-3000:]}")
        return code

    def kill(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()

    def wait_finding(self, timeout, pid, **fields):
        """The first finding about this process whose fields are as given; None without one."""
        end = time.monotonic() + timeout
        while time.monotonic() < end and self.process.poll() is None:
            for f in self.findings():
                if pid in f.get("pids", []) and all(f.get(k) == v for k, v in fields.items()):
                    return f
            time.sleep(0.02)
        return None


class Victim:
    """A job of root's that runs so many steps and says what it did."""

    def __init__(self, rng, ranks=2, steps=60, step_ms=30, env=None):
        self.dir = tempfile.mkdtemp(prefix="ranktrace-victim-")
        job.dirs.append(self.dir)
        job.jobs.append(self)
        self.ranks, self.steps, self.ops_log = ranks, steps, f"{self.dir}/ops.jsonl"
        self.out = open(f"{self.dir}/out", "w+")
        self.argv = [job.RANKTRACE, "sim", "job", "--ranks", ranks, "--steps", steps, "--step-ms", step_ms, "--seed",
                     rng.randrange(1 << 30), "--log", self.ops_log]
        print(" ".join(map(str, self.argv[1:])), flush=True)
        self.process = subprocess.Popen(list(map(str, self.argv)), stdout=self.out, stderr=subprocess.STDOUT,
                                        env=dict(os.environ, **(env or {})))

    def wait_begun(self, timeout=60):
        end = time.monotonic() + timeout
        while len({o["rank"] for o in job.lines(self.ops_log)}) < self.ranks:
            job.check(time.monotonic() < end and self.process.poll() is None, f"no job: {self.text()}")
            time.sleep(0.1)

    def stop_one(self, daemon, kinds=("hang", "stopped"), timeout=60):
        """Stops its last rank until the daemon names that one: after how many seconds it did, and of which kind. A rank
        that had entered the operation when it was stopped is `stopped`, which takes longer than a hang: once more where
        it is none of these kinds."""
        for _ in range(STOPS):
            took_s, kind = self.stop_until_named(daemon, timeout)
            if kind in kinds:
                return took_s, kind
            time.sleep(1)
        return job.check(False, f"in {STOPS} stops none was one of {kinds}: this test would prove nothing")

    def stop_until_named(self, daemon, timeout):
        pid, seen, opened = max(self.pids()), len(daemon.findings()), []
        begin = time.monotonic()
        os.kill(pid, signal.SIGSTOP)
        try:
            while not opened:
                opened = [f for f in daemon.findings()[seen:] if pid in f.get("pids", []) and
                          f["kind"] in ("hang", "stopped") and f["phase"] == "open"]
                daemon.check_alive()
                job.check(time.monotonic() < begin + timeout,
                          f"pid {pid} was not named within {timeout} s: {daemon.findings()[seen:]}")
                time.sleep(0.01)
            return time.monotonic() - begin, opened[0]["kind"]
        finally:
            os.kill(pid, signal.SIGCONT)

    def text(self):
        with open(f"{self.dir}/out") as f:
            return f.read()

    def pids(self):
        return {o["pid"] for o in job.lines(self.ops_log)}

    def end(self, timeout=120):
        """Unharmed: it ended by itself, with 0, and said that it ran all its steps, and nothing else."""
        code = self.process.wait(timeout)
        job.check(code == 0, f"the victim ended with {code}: {self.text()}")
        said = rf"simjob: {self.ranks} ranks \([^)]*\) ran {self.steps} steps of [0-9.]+ ms in [0-9.]+ s; 0 failed\n"
        job.check(re.fullmatch(said, self.text()), f"the victim says {self.text()!r}")
        return job.lines(self.ops_log)

    def kill(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()


def check_gap(daemon):
    gap, said = daemon.gap()
    print(f"  {said}")
    job.check(gap <= GAP_S or not job.LONG and gap <= job.bar(GAP_S), f"the daemon did not look for {gap} s")


def check_no_finding(daemon, pids):
    """Nothing about these processes; but that an attacker takes the CPU from them may be seen, and is true."""
    wrong = [f for f in daemon.findings() if set(f.get("pids", [])) & set(pids) and f["kind"] != "observation" and
             "cpu_starved" not in (f["kind"], f.get("cause"))]
    job.check(not wrong, f"findings about the victim: {wrong}")


def elf_symbol_places(data):
    """(offset of the st_value in the file, name, value) of each symbol in both tables."""
    shoff, = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, shoff + i * size) for i in range(count)]
    for s in sections:
        if s[1] not in (2, 11):
            continue
        names = sections[s[6]]
        for at in range(s[4], s[4] + s[5], 24):
            name, = struct.unpack_from("<I", data, at)
            value, = struct.unpack_from("<Q", data, at + 8)
            begin = names[4] + name
            yield at + 8, data[begin:data.index(b"\0", begin)].decode(), value


def fake_library(to, moved, by=1):
    """A copy of libnccl, its build-id as well, whose symbols that `moved` chooses say so many bytes later."""
    with open(NCCL, "rb") as f:
        data = bytearray(f.read())
    n = 0
    for at, name, value in list(elf_symbol_places(data)):
        if value and moved(name):
            struct.pack_into("<Q", data, at, value + by)
            n += 1
    job.check(n, "no symbol was moved: this test would prove nothing")
    with open(to, "wb") as f:
        f.write(data)
    os.chmod(to, 0o755)
    shutil.copy(os.fsencode(f"{SIM}/libcuda.so.1"), os.path.dirname(os.fsencode(to)))
    return to
