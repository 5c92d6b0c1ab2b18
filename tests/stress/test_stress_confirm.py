# SPDX-License-Identifier: Apache-2.0
"""From a finding to the test that confirms it: what a recording says to do names the command, and --confirm runs it on
the GPU that the finding is about, says whether it is so, and refuses what no test would confirm."""
import json
import os
import re
import socket
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [f"{here}/../aid", f"{here}/../replay"]
import job
from stress import LOST, Gpus, expect, stress
from test_stress_schema import lines_check
from verbs_sim import Verbs, library

BRIEF = ["--size", "64", "--memory", "10", "--time", "0.7"]


def finding(cause, kind="gpu_health", **more):
    return dict(id=f"vm-1-{cause}", kind=kind, cause=cause, host=socket.gethostname(), summary=f"GPU has {cause}",
                subject=dict(type="gpu", **more))


def written(g, *findings):
    path = f"{g.dir}/incidents.jsonl"
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(one) + "\n" for one in findings)
    return path


def of_a_recording():
    """A real one: its remedies name commands, the file is taken as it is."""
    p = subprocess.run([os.path.abspath(job.RANKTRACE), "replay", "--json", f"{here}/../replay/gpu_health.rtr"],
                       capture_output=True, text=True, timeout=60)
    lines = [json.loads(line) for line in p.stdout.splitlines()]
    named = {x["cause"]: x["remedy"].split("to confirm it: ")[1] for x in lines if "to confirm it: " in x["remedy"]}
    print(f"a recording: {named}")
    job.check(named.get("nvlink_down") == "ranktrace stress p2p" and
              named.get("ecc_uncorrected") == "ranktrace stress gpu --only memory --time 120", f"{named}")
    g = Gpus(1)
    expect("of another host", stress(g, "--confirm", written(g, *[dict(x, host="far") for x in lines])), 2,
           "is of host far", "run it there")


def of_ports():
    """An RDMA port is tested with all of its host; a path of TCP, which has the same causes, is not."""
    loss = dict(finding("retransmits", kind="link"), subject=dict(type="port", device="sim1", port=1))
    tcp = dict(loss, id="vm-1-tcp", subject=dict(type="port", address="192.0.2.1", netdev="eth0"))
    whole = dict(loss, subject=dict(type="port", device="sim1"))
    for what, env, one, code, words in (("it", dict(SIM_VERBS_LOSS=1), loss, 1, "is CONFIRMED by stress rdma"),
                                        ("its device", dict(SIM_VERBS_LOSS=1), whole, 1, "is CONFIRMED by stress rdma"),
                                        ("none", {}, loss, 0, "is not confirmed by stress rdma"),
                                        ("another", dict(SIM_VERBS_LOSS=2), loss, 1,
                                         "is not confirmed by stress rdma, which failed, but on sim2:1 and not on")):
        v = Verbs(3 if what != "another" else 4, **env)
        argv = [x for x in v.argv("--operations", "write", "--time", "0.0005", "--confirm", written(v, one, tcp))
                if x != "rdma"]
        p = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=v.env)
        expect(f"a port, and {what} fails", p, code, f"{loss['id']} {words}", "sim1:1")
    expect("a path of TCP", stress(v, "--confirm", written(v, tcp)), 2, "no test would confirm", "an RDMA port")


def of_each_row():
    """Each kind of finding with a test: --confirm takes it, and its command is one that parses. Here there is nothing
    to test, which is status 3 and not usage."""
    g = Gpus(1, SIM_CUDA_FAIL="cuInit:error=100", RANKTRACE_SYSFS=Verbs(0).sys, SIM_VERBS_DEVICES=0)
    with open("user/confirm.def", encoding="utf-8") as f:
        rows = re.findall(r'^CONFIRM\("(\w+)", "(\w+)", (\w+), "(.*)"\)', f.read(), re.M)
    job.check(len(rows) > 20, f"{rows}")
    for kind, what, on, command in rows:
        subject = dict(type="port", device="sim0", port=1) if on == "PORT" else dict(type="gpu", pci="0000:10:00")
        one = dict(finding(what, kind=kind), subject=subject, **{"class": what})
        p = stress(g, "--confirm", written(g, one), *(["--verbs", library()] if command == "rdma" else []))
        ran = f"stress {command.split()[0]}: "
        inventory = command == "inventory"  # needs no GPU that works
        job.check(p.returncode == (0 if inventory else 3) and (inventory or ran in p.stderr),
                  f"{kind} {what}: {command}: exit {p.returncode}: {p.stdout}{p.stderr}")
    print(f"{len(rows)} kinds of findings: each runs its test")
    with open("tools/stress/faults.def", encoding="utf-8") as f:
        named = re.findall(r"ranktrace stress ([^;:\"]*)", f.read())
    job.check(not named, f"remedies of faults that name a command, which nothing parses here: {named}")


def of_a_lost_gpu():
    """NVML does not count it any more: that is the confirmation. One that is there, by either name, is none."""
    g = Gpus(2)
    uuid = "GPU-51300000-0000-0000-0000-000000000001"
    for cause in ("gpu_lost", "needs_reset"):
        for what, names, code, words in (
                ("gone", dict(gpu_uuid="GPU-gone"), 1, ["is CONFIRMED", "GPU-gone is not among the 2 GPUs"]),
                ("gone, by its place", dict(pci="0000:44:00"), 1, ["is CONFIRMED", "0000:44:00 is not among"]),
                ("there", dict(gpu_uuid=uuid), 0, ["is not confirmed", uuid]),
                ("there, by its place", dict(pci="0000:11:00"), 0, ["is not confirmed"])):
            one = dict(finding(cause, **{k: x for k, x in names.items() if k == "pci"}), **names)
            expect(f"{cause}: {what}", stress(g, "--confirm", written(g, one)), code, *words)
    one = dict(finding("gpu_lost"), gpu_uuid="GPU-gone")
    expect("gone, and another by hand", stress(g, "--confirm", written(g, one), "--gpus", "GPU-typo"), 2,
           "no GPU of this host is GPU-typo")
    expect("gone, and a number by hand", stress(g, "--confirm", written(g, one), "--gpus", "0"), 0, "is not confirmed")
    g.fault(1, LOST)
    one = dict(finding("gpu_lost"), gpu_uuid=uuid)
    expect("counted, and lost", stress(g, "--confirm", written(g, one)), 1, "is CONFIRMED")


def of_another_gpu():
    """The test fails on GPU 0: that says nothing about GPU 3."""
    g = Gpus(4, SIM_GPU_SLOW="0:30")
    for gpu, code, word in ((3, False, "failed, but on GPU 0 and not on GPU-"), (0, True, "is CONFIRMED")):
        one = dict(finding("gpu", kind="straggler"), gpu_uuid=f"GPU-51300000-0000-0000-0000-{gpu:012}")
        path = written(g, one)
        expect(f"GPU {gpu}, and GPU 0 fails", stress(g, "--confirm", path, *BRIEF, "--again", "0"), 1, word)
        lines = lines_check("another", stress(g, "--confirm", path, *BRIEF, "--again", "0", "--json").stdout)
        said = [x for x in lines if x["type"] == "confirm"][0]
        job.check((said["confirmed"], said["failed"]) == (code, ["GPU 0"]), f"{said}")


def of_another_domain():
    """Each GPU in a PCI domain of its own: what is found of one says nothing about the one on the same bus."""
    g = Gpus(3, SIM_GPU_SLOW="0:30", SIM_GPU_DOMAINS=1)
    for pci, word in (("0002:10:00", "failed, but on GPU 0 and not on 0002:10:00"), ("0001:10:00", "is CONFIRMED")):
        path = written(g, finding("gpu", kind="straggler", pci=pci))
        expect(f"of {pci}, and 0001:10:00 fails", stress(g, "--confirm", path, *BRIEF, "--again", "0"), 1, word)
    # one that is not there at all, and has a slow one on its bus
    g = Gpus(2, SIM_GPU_SLOW="0:30")
    path = written(g, finding("gpu", kind="straggler", pci="0009:10:00"))
    expect("of 0009:10:00, and 0000:10:00 fails", stress(g, "--confirm", path, *BRIEF, "--again", "0"), 1,
           "failed, but on GPU 0 and not on 0009:10:00")
    one = ["--only", "bf16", *BRIEF]
    expect("a domain that is not there", stress(g, "gpu", "--gpus", "0009:10:00.0", *one), 2,
           "no GPU of this host is 0009:10:00.0", "Bus-Id")
    expect("no domain, and several", stress(Gpus(2, SIM_GPU_DOMAINS=1), "gpu", "--gpus", "10:00.0", *one), 2,
           "several GPUs of this host are 10:00.0", "give the domain")
    g = Gpus(2, SIM_GPU_DOMAINS=1)
    for pci in ("0002:10:00", "00000002:10:00.0"):
        p = stress(g, "gpu", "--gpus", pci, *one, "--json")
        begin = lines_check(pci, p.stdout)[0]
        job.check(p.returncode == 0 and [x["pci"] for x in begin["gpus"]] == ["0002:10:00.0"], f"{pci}: {begin}")
        expect(f"inventory of {pci}", stress(g, "--confirm", written(g, finding("gpu_lost", pci=pci))), 0,
               "is not confirmed")
        g.idle()


def main():
    of_another_domain()
    of_a_recording()
    of_a_lost_gpu()
    of_another_gpu()
    of_each_row()
    of_ports()
    begin = json.loads(stress(Gpus(3), "gpu", *BRIEF, "--only", "bf16", "--json").stdout.splitlines()[0])
    pci, uuid = begin["gpus"][1]["pci"], begin["gpus"][1]["uuid"]
    bad = Gpus(3, SIM_GPU_BAD_BIT="1:4096:3")
    path = written(bad, finding("ecc_uncorrected", pci="0000" + pci), finding("receiver", kind="hang"))
    p = stress(bad, "--confirm", path, *BRIEF, "--json")
    lines = lines_check("confirm", p.stdout)
    job.check(p.returncode == 1 and [x["uuid"] for x in lines[0]["gpus"]] == [uuid], f"{lines[0]} {p.stderr}")
    job.check([x["confirmed"] for x in lines if x["type"] == "confirm"] == [True], f"{lines[-1]}")
    well = Gpus(3)
    path = written(well, dict(finding("ecc_uncorrected"), gpu_uuid=uuid), finding("throttled_thermal", pci=pci))
    expect("healthy", stress(well, "--confirm", f"{path}#vm-1-ecc_uncorrected", *BRIEF), 0, "is not confirmed", uuid)
    slow = Gpus(3, SIM_GPU_SLOW="1:30")
    expect("the last one, with its peers", stress(slow, "--confirm", path, *BRIEF), 1, "vm-1-throttled_thermal",
           "CONFIRMED by stress gpu --only bf16,fp32", "FAULT GPU 1")
    expect("no such id", stress(well, "--confirm", path + "#nobody"), 2, "has no finding nobody")
    expect("nothing to test", stress(well, "--confirm", written(well, finding("asleep", kind="hang"))), 2,
           "no test would confirm")
    expect("no finding", stress(well, "--confirm", "/etc/hostname"), 2, "has no finding", "watch --json")
    expect("no file", stress(well, "--confirm", "/nowhere/x"), 2, "/nowhere/x: No such file")
    gone = written(well, dict(finding("ecc_uncorrected"), gpu_uuid="GPU-0"))
    expect("a GPU that was replaced", stress(well, "--confirm", gone, *BRIEF), 2, "no GPU of this host is GPU-0")


if __name__ == "__main__":
    main()
