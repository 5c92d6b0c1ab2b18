# SPDX-License-Identifier: Apache-2.0
"""An unmodified PyTorch job under torchrun, what it logged, and sessions of ranktrace on it."""
import glob
import itertools
import json
import os
import socket
import subprocess
import sys
import time

RANKTRACE = os.path.abspath(os.environ.get("RANKTRACE", "build/gpu/ranktrace"))
OUT = os.environ.get("OUT_DIR", "/tmp/ranktrace-gpu")  # recordings, some MB each, and the jobs' own logs
TRAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "train.py")
ENV = {**os.environ, "TORCH_FR_BUFFER_SIZE": "100000", "OMP_NUM_THREADS": "4"}
VISIBLE = os.environ.get("CUDA_VISIBLE_DEVICES")  # two runs side by side: a share of the GPUs and an OUT_DIR each
GPUS = len(VISIBLE.split(",")) if VISIBLE else len(glob.glob("/dev/nvidia[0-9]*")) or 1
REAL = GPUS
if "RANKS" in os.environ:  # ranks that share GPUs: train.py, mpi_run()
    GPUS = int(os.environ["RANKS"])


def say(part, **result):
    print(json.dumps({"part": part, "gpus": GPUS, **result}), flush=True)


def torchrun(tag, *args, gpus=GPUS):
    for f in glob.glob(f"{OUT}/{tag}.*"):
        os.unlink(f)
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={gpus}", TRAIN,
            f"--prefix={OUT}/{tag}", *map(str, args)]


def record(tag, *args):
    return [RANKTRACE, "record", "-v", "--json", "-o", f"{OUT}/{tag}.rtr", "-o", f"{OUT}/{tag}.pftrace", *args]


def findings(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def start(tag, *args, env=None):
    job = subprocess.Popen(torchrun(tag, *args), env={**ENV, **(env or {})}, stdout=open(f"{OUT}/{tag}.job", "w"),
                           stderr=subprocess.STDOUT)
    end = time.monotonic() + 120
    while time.monotonic() < end and job.poll() is None:
        if os.path.exists(f"{OUT}/{tag}.steps.0") and sum(1 for _ in open(f"{OUT}/{tag}.steps.0")) > 5:
            return job
        time.sleep(0.2)
    job.kill()
    raise SystemExit(f"{tag}: the job made no steps:\n" + open(f"{OUT}/{tag}.job").read()[-3000:])


def mpi_run(argv, n, **kwargs):
    """A process for each GPU, as mpirun starts them, of a program that was built with mpi/mpi.h. Where there are fewer
    GPUs than n each process has a host of its own to NCCL, which refuses two ranks of a host on one GPU. Returns rank
    0's, with the worst exit status."""
    shared = f"/dev/shm/ranktrace-mpi-{os.getpid()}"
    env = {**kwargs.pop("env", os.environ), "WORLD_SIZE": str(n), "MPI_SHARED": shared}

    def of_rank(r):
        return {**env, "RANK": str(r), **(shared_gpu(r) if n > REAL else {})}
    others = [subprocess.Popen(argv, env=of_rank(r), stdout=subprocess.DEVNULL) for r in range(1, n)]
    first = subprocess.run(argv, env=of_rank(0), **kwargs)
    first.returncode = max(map(abs, [first.returncode, *(p.wait() for p in others)]))
    if os.path.exists(shared):  # not where none of them came so far
        os.unlink(shared)
    return first


def shared_gpu(rank):
    """nccl-tests takes the GPU of NCCL_TESTS_DEVICE."""
    return {"NCCL_HOSTID": f"node{rank}", "NCCL_IB_DISABLE": "1", "NCCL_SOCKET_IFNAME": "lo",
            "NCCL_TESTS_DEVICE": str(rank % REAL)}


FOREIGN = """
import sys, threading, time, torch
torch.cuda.set_device(int(sys.argv[1]))
share, period = int(sys.argv[2]) / 100, 0.05
x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
def busy(n):
    begin = time.monotonic()
    for _ in range(n): x @ x
    torch.cuda.synchronize()
    return time.monotonic() - begin
def listen():
    global share
    for line in sys.stdin: share = int(line) / 100
busy(50)
alone_s = busy(200) / 200
threading.Thread(target=listen, daemon=True).start()
print("begins", flush=True)
while True:
    begin = time.monotonic()
    if share: busy(max(1, round(share * period / alone_s)))
    time.sleep(max(0, begin + period - time.monotonic()))
"""


class Foreign:
    """Another process that computes on a GPU, for so many percent of the time."""

    def __init__(self, gpu, percent=0):
        self.process = subprocess.Popen([sys.executable, "-c", FOREIGN, str(gpu), str(percent)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.process.stdout.readline()

    def share(self, percent):
        self.process.stdin.write(f"{percent}\n")
        self.process.stdin.flush()

    def kill(self):
        self.process.kill()
        self.process.wait(10)


def end(job):
    """Stopped ranks go on first: torchrun asks them to leave."""
    subprocess.run(["pkill", "-CONT", "-f", f"{TRAIN} --prefix={OUT}/"])
    job.terminate()
    try:
        job.wait(20)
    except subprocess.TimeoutExpired:
        job.kill()
    kill_ranks()


def kill_ranks():
    subprocess.run(["pkill", "-9", "-f", f"{TRAIN} --prefix={OUT}/"])


PORTS = itertools.count(20000)  # below those that the kernel gives to whoever connects


def port_free():
    for port in PORTS:
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


class Ranks:
    """A process a rank, each in a session of its own, by nobody who would end the others when one is gone."""

    def __init__(self, tag, script, *args, n=GPUS):
        for f in glob.glob(f"{OUT}/{tag}.*"):
            os.unlink(f)
        port = port_free()
        self.tag, self.n, self.name = tag, n, f"127.0.0.1:{port}"
        self.log = open(f"{OUT}/{tag}.job", "w", encoding="utf-8")
        self.ranks = [self.rank(script, port, r, args) for r in range(n)]

    def rank(self, script, port, r, args):
        env = {**ENV, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": str(self.n), "LOCAL_WORLD_SIZE": str(self.n),
               "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        return subprocess.Popen([sys.executable, script, f"--prefix={OUT}/{self.tag}", *map(str, args)], env=env,
                                stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)

    def steady_s(self):
        """Since its second step; 0 before that."""
        try:
            with open(f"{OUT}/{self.tag}.steps.0", encoding="utf-8") as f:
                first = [f.readline() for _ in range(2)][1]
        except FileNotFoundError:
            return 0
        return (time.monotonic_ns() - int(first.split()[1])) / 1e9 if first.endswith("\n") else 0

    def signal(self, rank, number):
        os.kill(self.ranks[rank].pid, number)

    def pid_options(self):
        return [f"--pid={p.pid}" for p in self.ranks]

    def text(self):
        with open(f"{OUT}/{self.tag}.job", encoding="utf-8", errors="replace") as f:
            return f.read()

    def end(self):
        for p in self.ranks:
            p.kill()
        for p in self.ranks:
            p.wait(30)
        self.log.close()


def fault_line(tag):
    """The job's own word of its fault, and when it began."""
    reported = [line for line in open(f"{OUT}/{tag}.job").read().splitlines() if line.startswith("fault")]
    return (reported[0], int(reported[0].rpartition("=")[2])) if reported else (None, 0)


def parent(pid):
    with open(f"/proc/{pid}/stat") as f:
        return int(f.read().rpartition(")")[2].split()[1])


def rank_pids(tag):
    """By rank; not the data workers, which have the command line and environment of their rank."""
    pids = [int(p) for p in subprocess.run(["pgrep", "-f", f"{TRAIN} --prefix={OUT}/{tag} "], capture_output=True,
                                           text=True).stdout.split()]
    ranks = {}
    for pid in pids:
        env = open(f"/proc/{pid}/environ").read().split("\0")
        ranked = [int(kv[5:]) for kv in env if kv.startswith("RANK=")]
        of_rank = [p for p in ranks.values() if p == parent(pid)]
        if ranked and not of_rank:
            ranks[ranked[0]] = pid
    return ranks


def step_times(tag, begin_ns, end_ns):
    t = [int(line.split()[1]) for line in open(f"{OUT}/{tag}.steps.0")]
    t = [x for x in t if begin_ns <= x <= end_ns]
    return [b - a for a, b in zip(t, t[1:])]


