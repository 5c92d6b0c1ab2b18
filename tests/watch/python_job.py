# SPDX-License-Identifier: Apache-2.0
"""A training job in Python on the stand-in libraries: python_job.py RANKS CULPRIT STEP LIBRARIES. Each rank is a
process of this file; the culprit goes to sleep before that step, all others wait for it in the driver. With
HEALTH_CHECK=SECONDS a thread of the culprit starts a short process so often from then on."""
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

STEP_S = 0.03


def health_check(every_s):
    while True:
        subprocess.run(["sleep", "0.1"], check=True)
        time.sleep(every_s)


def load_batch():
    if os.environ.get("HEALTH_CHECK"):
        threading.Thread(target=health_check, args=(float(os.environ["HEALTH_CHECK"]),), daemon=True).start()
    time.sleep(1000)  # the culprit


class Libraries:
    def __init__(self, folder):
        self.cuda = ctypes.CDLL(f"{folder}/libcuda.so.1", ctypes.RTLD_GLOBAL)
        self.nccl = ctypes.CDLL(f"{folder}/libnccl.so.2")

    def must(self, library, name, *args):
        status = getattr(library, name)(*args)
        if status:
            sys.exit(f"{name}: {status}")


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


def unique_id(libs, rank, path):
    made = UniqueId()
    if rank:
        while not os.path.exists(path):
            time.sleep(0.01)
        with open(path, "rb") as f:
            ctypes.memmove(ctypes.byref(made), f.read(), 128)
    else:
        libs.must(libs.nccl, "ncclGetUniqueId", ctypes.byref(made))
        with open(path + ".new", "wb") as f:
            f.write(bytes(made))
        os.rename(path + ".new", path)
    return made


def train_step(libs, comm, stream):
    libs.must(libs.nccl, "ncclAllReduce", ctypes.c_void_p(1), ctypes.c_void_p(1), ctypes.c_size_t(1024), 7, 0, comm,
              stream)
    libs.must(libs.cuda, "cuStreamSynchronize", stream)
    time.sleep(STEP_S)


def rank_main(ranks, culprit, step, folder, path):
    rank, libs = int(os.environ["RANK"]), Libraries(folder)
    context, stream, comm = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    libs.must(libs.cuda, "cuInit", 0)
    libs.must(libs.cuda, "cuDevicePrimaryCtxRetain", ctypes.byref(context), rank)
    libs.must(libs.cuda, "cuCtxSetCurrent", context)
    libs.must(libs.cuda, "cuStreamCreateWithPriority", ctypes.byref(stream), 1, 0)
    libs.must(libs.nccl, "ncclCommInitRank", ctypes.byref(comm), ranks, unique_id(libs, rank, path), rank)
    for n in range(100000):
        if (rank, n) == (culprit, step):
            load_batch()
        train_step(libs, comm, stream)


def main():
    ranks, culprit, step, folder, *path = sys.argv[1:]
    if path:
        return rank_main(int(ranks), int(culprit), int(step), folder, path[0])
    all_of_them = []
    signal.signal(signal.SIGTERM, lambda *_: [p.kill() for p in all_of_them] + [sys.exit(0)])
    with tempfile.TemporaryDirectory() as shared:
        for rank in range(int(ranks)):
            env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=ranks)
            all_of_them.append(subprocess.Popen([sys.executable, "-B", *sys.argv, f"{shared}/id"], env=env))
        for p in all_of_them:
            p.wait()


if __name__ == "__main__":
    main()
