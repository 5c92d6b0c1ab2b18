# SPDX-License-Identifier: Apache-2.0
"""`ranktrace stress rdma` into and out of GPU memory, over stand-ins for libibverbs and the driver: as a dma-buf, else
by nvidia-peermem, else a note; each byte is compared; a GPU far from a port is slower and no fault, one near by is."""
import os
import shutil
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import job
from stress import Gpus
from verbs_sim import Verbs, put

draw, _ = job.seed()
LOOP = ["--time", "0.0005", "--measures", "bandwidth", "--shapes", "loopback"]
DEVICES = 4


class Host(Verbs):
    """As many GPUs as adapters. switched: adapter i and GPU i are behind one PCIe switch, two such on a root complex;
    else nothing says where they are (a guest)."""

    def __init__(self, switched=True, **env):
        gpus = Gpus(DEVICES)
        super().__init__(DEVICES, **env)
        for key, value in gpus.env.items():
            if key not in os.environ:
                self.env.setdefault(key, value)
        self.env["LD_LIBRARY_PATH"] = gpus.env["LD_LIBRARY_PATH"]
        for i in range(DEVICES if switched else 0):
            port = f"{self.sys}/devices/pci0000:{i // 2}0/0000:{i // 2}0:0{i % 2 + 1}.0"
            self.link(f"{port}/0000:{i}1:00.0/0000:{i}2:00.0", f"bus/pci/devices/0000:{0x10 + i:02x}:00.0")
            self.link(f"{port}/0000:{i}1:00.0/0000:{i}3:00.0", f"class/infiniband/sim{i}/device")
            put(f"{self.sys}/class/infiniband/sim{i}/device/numa_node", 0)

    def link(self, target, name):
        os.makedirs(target)
        at = f"{self.sys}/{name}"
        os.makedirs(os.path.dirname(at), exist_ok=True)
        shutil.rmtree(at, ignore_errors=True)
        os.symlink(target, at)

    def argv(self, *args):
        return [x for x in super().argv(*LOOP, *args) if x != "--no-gpus"]


def tested(what, host, *args, code=0):
    status, by, err = host.lines(*args)
    faults = [(f["subject"].get("gpu", f["subject"].get("device")), f["kind"], f["summary"])
              for f in by.get("fault", [])]
    print(f"{what}: exit {status}, {faults} {by['end'][0].get('notes', '')} {err.strip()[:200]}", flush=True)
    job.check(status == code, f"{what}: exit {status}, not {code}: {faults} {err}")
    of_gpus = [c for c in by["port_case"] if c["memory"].startswith("GPU")]
    return by, faults, of_gpus


def registered():
    """All ways to register, all operations: each byte of 1 MiB arrives, and of the last message."""
    for what, env in (("a dma-buf", {}),
                      ("the closed driver, nvidia-peermem", dict(SIM_VERBS_PEERMEM=1, SIM_CUDA_DMABUF=0)),
                      ("an old kernel, nvidia-peermem", dict(SIM_VERBS_PEERMEM=1, SIM_VERBS_NO_DMABUF=1))):
        by, faults, of_gpus = tested(what, Host(**env), "--operations", "write,read,send")
        job.check(not faults and len(of_gpus) == 3 * DEVICES * DEVICES, f"{what}: {len(of_gpus)} cases, {faults}")
        good = [c["status"] == "done" and c["checked"] >= 1 << 20 and not c["wrong"] for c in of_gpus]
        job.check(all(good), f"{of_gpus}")


def unregistered():
    """Neither way: the ports' own tests count, and it is said what was not tested and why."""
    by, faults, of_gpus = tested("no way to register", Host(SIM_VERBS_NO_DMABUF=1), "--operations", "write")
    job.check({c["status"] for c in of_gpus} == {"not_possible"} and not faults, f"{of_gpus}")
    job.check(by["end"][0]["notes"] == [
        "not tested: sim0:1 to itself and 3 others: GPU memory cannot be registered (dma-buf: Operation not supported; "
        "nvidia-peermem: Bad address): open driver, or load nvidia-peermem"], f"{by['end']}")
    job.check([v["passed"] for v in by["port_verdict"]] == [True] * DEVICES, f"{by['port_verdict']}")


def wrong():
    """One GPU's memory: it is that GPU, said once, and no port."""
    bad = draw.randrange(DEVICES)
    for operation in ("write", "read", "send"):
        by, faults, of_gpus = tested(f"GPU {bad}'s data wrong by {operation}", Host(SIM_VERBS_GPU_FLIP=bad),
                                     "--operations", operation, code=1)
        job.check([(g, k) for g, k, _ in faults] == [(bad, "corruption")], f"{faults}")
        job.check(f"from each of the {DEVICES} ports that were tried; the first, sim0:1 to itself" in faults[0][2],
                  f"{faults}")
        job.check({c["memory"] for c in of_gpus if c["wrong"]} == {f"GPU {bad}"}, f"{of_gpus}")


def far():
    """Half of the rate to GPUs of other switches is how hosts are built; where nothing says how they are, too."""
    for what, host in (("switches", Host(SIM_VERBS_FAR_US=1)), ("a guest", Host(switched=False, SIM_VERBS_FAR_US=1))):
        by, faults, of_gpus = tested(f"far GPUs, {what}", host, "--operations", "write,read")
        near_gpus = [p.get("near_gpus") for p in by["begin"][0]["ports"]]
        job.check(near_gpus == [[i] if what == "switches" else None for i in range(DEVICES)], f"{near_gpus}")
        rates = {(c["from"]["device"][3:] == c["memory"][4:]): c["value"] for c in of_gpus}
        job.check(rates[False] < 0.8 * rates[True] and not faults, f"{rates} {faults}")


def near():
    """The GPU behind its own switch, half as fast as the others are to theirs."""
    bad = draw.randrange(DEVICES)
    host = Host(SIM_VERBS_FAR_US=1, SIM_VERBS_GPU_SLOW=f"{bad}:2")
    by, faults, _ = tested(f"GPU {bad} is slow", host, "--operations", "write", code=1)
    job.check({(d, k) for d, k, _ in faults} == {(f"sim{bad}", "slow")} and f"GPU {bad}" in faults[0][2], f"{faults}")


def own_baseline():
    """Of each GPU its own: a far one is held to what it was."""
    host = Host(SIM_VERBS_FAR_US=1)
    path = f"{host.dir}/baseline"
    tested("a baseline", host, "--operations", "write", "--save-baseline", path)
    tested("held", host, "--operations", "write", "--baseline", path)
    host.env["SIM_VERBS_FAR_US"] = "2"
    by, faults, _ = tested("far ones slower", host, "--operations", "write", "--baseline", path, code=1)
    job.check({k for _, k, _ in faults} == {"slow"} and len(faults) == DEVICES, f"{faults}")
    job.check(all("of the own baseline" in s for _, _, s in faults), f"{faults}")


cases = (registered, unregistered, wrong, far, near, own_baseline)
for case in [c for c in cases if not sys.argv[1:] or c.__name__ in sys.argv[1:]]:
    case()
