# SPDX-License-Identifier: Apache-2.0
# runs beside few: on a host where probes come late its rank is read from outside, and rightly
"""A rank that nothing shows before it maps its libraries, seconds after its start, as under plain srun. Its probes come
at once, so that no call is missed: its memory is not searched for communicators again and again."""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(1, sys.path[0] + "/../aid")
import job

job.need_root()
job.seed()
BEFORE_S = 5  # its libraries come so long after its start: above what is late
LATE_S = 1  # a session that was away for longer proves nothing here, nor one whose probes had to wait
WAITED = "has more to run than CPUs|has no probes yet"
SCANS = 1  # of its memory, until its probes are in place
NCCL = os.path.abspath(f"{job.O}/lib/ranktrace/sim/libnccl.so.2")
RANK = f"""
import ctypes, time
time.sleep({BEFORE_S})
ctypes.CDLL("{NCCL}", mode=ctypes.RTLD_GLOBAL)
more = bytearray(64 << 20)
time.sleep(14)
"""
SLURM = {"SLURM_JOB_ID": "77123", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_LOCALID": "0"}


def session():
    """What a session says in which such a rank comes, how often it searched it, and the longest time it was away."""
    d = tempfile.mkdtemp(prefix="ranktrace-met-")
    job.dirs.append(d)
    with open(f"{d}/stderr", "w+") as log:
        tracer = subprocess.Popen([job.RANKTRACE, "record", "-v", "--job", "slurm-77123.0", "-o", f"{d}/s.rtr"],
                                  stderr=log, env=dict(os.environ, RANKTRACE_RUN_DIR=f"{d}/run"))
        job.wait_session(tracer, log.name, lambda line: True)
        subprocess.run([sys.executable, "-c", RANK], env=dict(os.environ, **SLURM), check=True)
        tracer.terminate()
        tracer.wait()
        log.seek(0)
        said = log.read()
    gap = re.search(r"longest gap between two polls ([0-9.]+) s", said)
    scans = re.search(r"comms: ([0-9]+) scans of a process", said)
    job.check(gap and "attached to 1 rank" in said, f"the rank is not traced: {said}")
    return said, int(scans[1]) if scans else 0, float(gap[1])


for trial in range(3):
    said, n, away_s = session()
    print(f"  {n} scans of its memory; the session was away for {away_s} s")
    if n <= SCANS:
        sys.exit(0)
    job.check(away_s > LATE_S or re.search(WAITED, said), f"read from outside, though its probes were in time: {said}")
job.skip("on this host probes come late")
