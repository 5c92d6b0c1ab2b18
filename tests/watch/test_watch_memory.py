# SPDX-License-Identifier: Apache-2.0
# runs beside few: a daemon that gets no CPU holds records for longer
"""ranktrace watch as it is by default, flight recorder included, beside a healthy job of eight ranks: 40 MB at most
besides the rings it maps, also if the recorder were full. And beside a launcher that maps NCCL, has memory and never a
communicator: it is looked through less and less often. LONG=1: for a minute."""
import os
import re
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import job
import outside

DEFAULT_MB = 16  # of the recorder
SIM = os.path.join(os.path.realpath(job.O), "lib/ranktrace/sim")
LAUNCHER = ("import ctypes, time; m = bytearray(b'x' * (200 << 20)); "
            f"ctypes.CDLL('{SIM}/libnccl.so.2'); print('up', flush=True); time.sleep(600)")
SECONDS = 60 if job.LONG else 15
# 0.21 of it a sample of the launcher. The distance is a multiple of what a look takes, so a machine that reads faster
# fits six into 15 s, a slower one five; where the distance does not grow they are 1.8 GB there, 3.5 here.
SCANNED_GB = 1.8 if job.LONG else 1.5


class Launcher:
    def __init__(self):
        self.process = subprocess.Popen([sys.executable, "-c", LAUNCHER], stdout=subprocess.PIPE, text=True)
        job.jobs.append(self)
        self.process.stdout.readline()

    def kill(self):
        self.process.kill()
        self.process.wait()



def reported(pattern, text):
    found = re.search(pattern, text)
    job.check(found, f"'{pattern}' is not in: {text}")
    return tuple(float(x) for x in found.groups())


job.need_root()
rng, _ = job.seed()
with autopsies.Autopsy(["--ranks", 8, "--steps", 100000, "--step-ms", 50, "--seed", rng.randrange(1 << 30)]) as a:
    launcher = Launcher()
    s = outside.Session(a, "watch", "--pid", launcher.process.pid)
    time.sleep(SECONDS)
    job.check(s.stop() in (0, 1), "it did not end well")
    text = s.stderr()
    peak, rings = reported(r"peak memory ([0-9.]+) MiB beside ([0-9.]+) MiB of mapped rings", text)
    held, = reported(r"at most ([0-9.]+) MB held", text)
    scanned_gb, = reported(r"comms: [0-9]+ scans of a process for communicators: ([0-9.]+) GB", text)
    print(f"  {scanned_gb} GB looked through")
    job.check(scanned_gb >= 0.2, "the launcher's memory was never looked at")
    job.check(scanned_gb <= SCANNED_GB, f"{scanned_gb} GB looked through in {SECONDS} s")
    print(f"  {peak} MiB at most beside {rings} MiB of rings; the recorder held {held} MB of {DEFAULT_MB}")
    job.check(peak <= 40, f"{peak} MiB resident")
    full = peak * 1.048576 - held + DEFAULT_MB * 1.07  # with the begin of a chunk and malloc's part
    job.check(full <= 40, f"{full:.1f} MB with a full recorder")
