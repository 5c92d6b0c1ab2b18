# SPDX-License-Identifier: Apache-2.0
"""A real Slurm of one node on loopback: munged, slurmctld, slurmd, with ports and folders of its own."""
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job

SCRIPTS = os.path.abspath("tools/deploy/slurm")
NODE = "testnode"
HOST = socket.gethostname().split(".")[0]


def need():
    job.need_root()
    for tool in ("slurmctld", "slurmd", "munged", "scontrol", "jq"):
        if not shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin"):
            job.skip(f"no {tool}: scripts/deps.sh packages installs it")


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Slurm:
    """`env`: what the scripts get, RANKTRACE_... of findings.bash."""

    def __init__(self, **env):
        self.dir = tempfile.mkdtemp(prefix="ranktrace-slurm-", dir="/var/tmp")
        job.dirs.append(self.dir)
        self.processes = []
        job.jobs.append(self)
        for name in ("state", "spool", "run"):
            os.mkdir(f"{self.dir}/{name}")
        self.env = dict(RANKTRACE_FINDINGS=f"{self.dir}/findings.jsonl", RANKTRACE_RULES=f"{self.dir}/rules",
                        RANKTRACE_RUN=f"{self.dir}/run", RANKTRACE_STATE=f"{self.dir}/state", **env)
        for name in ("prolog", "epilog", "health"):
            self.wrap(name)
        self.configure()
        os.environ["SLURM_CONF"] = f"{self.dir}/slurm.conf"
        self.start_munge()
        self.start("slurmctld", "-D", "-i")
        self.start("slurmd", "-D", "-N", NODE)
        self.wait_state(lambda s: "IDLE" in s and "NOT_RESP" not in s, 60)

    def path(self, name):
        return f"{self.dir}/{name}"

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def log(self, name):
        with open(self.path(name), encoding="utf-8", errors="replace") as f:
            return f.read()

    def wrap(self, name):
        """The installed script with this test's folders; what it logs is kept: no logger is on its path."""
        lines = "".join(f"export {k}='{v}'\n" for k, v in self.env.items())
        self.write(f"{name}.sh", f"#!/bin/bash\n{lines}logger() {{ return 1; }}\nexport -f logger\n"
                   f"export SLURM_CONF={self.dir}/slurm.conf PATH=/usr/sbin:/usr/bin:/sbin:/bin\n"
                   f"exec {SCRIPTS}/{name}.sh >> {self.dir}/{name}.log 2>&1\n")
        os.chmod(self.path(f"{name}.sh"), 0o755)

    def configure(self):
        ctld, d = free_ports(2)
        self.write("slurm.conf", f"""ClusterName=test
SlurmctldHost={HOST}(127.0.0.1)
SlurmctldPort={ctld}
SlurmdPort={d}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={self.dir}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={self.dir}/state
SlurmdSpoolDir={self.dir}/spool
SlurmctldPidFile={self.dir}/slurmctld.pid
SlurmdPidFile={self.dir}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
ReturnToService=1
MailProg=/bin/true
MpiDefault=none
KillWait=3
Prolog={self.dir}/prolog.sh
Epilog={self.dir}/epilog.sh
PrologFlags=Alloc
HealthCheckProgram={self.dir}/health.sh
HealthCheckInterval=5
HealthCheckNodeState=ANY
NodeName={NODE} NodeAddr=127.0.0.1 NodeHostname={HOST} CPUs={os.cpu_count()} State=UNKNOWN
PartitionName=all Nodes={NODE} Default=YES MaxTime=INFINITE State=UP
""")

    def start_munge(self):
        self.write("munge.key", os.urandom(32).hex() * 32)
        os.chmod(self.path("munge.key"), 0o600)
        os.chmod(self.dir, 0o755)
        self.start("munged", "-F", "--force", f"--key-file={self.dir}/munge.key", f"--socket={self.dir}/munge.socket",
                   f"--pid-file={self.dir}/munge.pid", f"--seed-file={self.dir}/munge.seed",
                   f"--log-file={self.dir}/munge.out")
        end = time.monotonic() + 20
        while not os.path.exists(self.path("munge.socket")) and time.monotonic() < end:
            time.sleep(0.1)
        job.check(os.path.exists(self.path("munge.socket")), f"munged: {self.log('munged.log')}")

    def start(self, name, *args):
        path = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
        with open(self.path(f"{name}.log"), "w") as log:
            self.processes.append(subprocess.Popen([path, *args], stdout=log, stderr=log, start_new_session=True))

    def kill(self):
        subprocess.run(["scancel", "--user=root", "--quiet"], capture_output=True)
        for p in reversed(self.processes):
            p.terminate()
            try:
                p.wait(10)
            except subprocess.TimeoutExpired:
                p.kill()

    def node(self):
        """(state, reason)"""
        out = subprocess.run(["scontrol", "-o", "show", "node", NODE], capture_output=True, text=True).stdout
        state = out.partition(" State=")[2].partition(" ")[0]
        return state, out.partition(" Reason=")[2].partition(" [root@")[0].strip()

    def wait_state(self, is_meant, timeout):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            state, reason = self.node()
            if is_meant(state):
                return state, reason
            time.sleep(0.3)
        job.fail(f"the node is {self.node()}: {self.log('slurmctld.log')[-2000:]} {self.log('slurmd.log')[-2000:]}")
        return None

    def resume(self):
        subprocess.run(["scontrol", "update", f"NodeName={NODE}", "State=RESUME"], check=True)
        self.wait_state(lambda s: "DRAIN" not in s, 30)
