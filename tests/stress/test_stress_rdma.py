# SPDX-License-Identifier: Apache-2.0
"""`ranktrace stress rdma` over a stand-in for libibverbs: healthy ports pass in every shape; wrong data, a dead port or
link, a slow one, lost packets, a port that is down or set otherwise are found, and the right port is named; hosts come
together over TCP; what cannot be tested is no pass."""
import json
import os
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job
from net_hosts import Hosts
from stress import dip
from verbs_sim import Verbs, by_type, library, put

draw, _ = job.seed()
QUICK = ["--time", "0.0005", "--iterations", "20"]
ONE = [*QUICK, "--operations", "write", "--measures", "bandwidth"]
LINKS = ["--shapes", "nic-to-nic"]


def device_of(fault):
    return fault["subject"].get("device")


def ends_of(fault):
    """Of a link both: the one that sends first."""
    return (device_of(fault), *([fault["to"].get("device")] if "to" in fault else []))


def check(what, status, by, err, code, device=None, kind=None, words=""):
    """That exit status, and faults of that kind of that device, or of these, alone."""
    faults = by.get("fault", [])
    print(f"{what}: exit {status}, {sorted({(device_of(f), f['kind']) for f in faults}, key=str)}", flush=True)
    job.check(status == code, f"{what}: exit {status}, not {code}: {by.get('end')} {faults} {err}")
    if kind:
        job.check(faults and all(f["kind"] == kind for f in faults), f"{what}: not {kind}: {faults}")
        want = {device} if isinstance(device, str) else device
        job.check({device_of(f) for f in faults} == want, f"{what}: not {device} alone: {faults}")
        job.check(words in faults[0]["summary"], f"{what}: no '{words}': {faults[0]['summary']}")
        severity = "critical" if kind in ("dead_link", "port", "corruption") else "warning"
        job.check({f["severity"] for f in faults} == {severity}, f"{what}: not {severity}: {faults}")
    else:
        job.check(not faults, f"{what}: {faults}")


def healthy():
    status, by, err = Verbs(3, nodes="0").lines(*QUICK, "--shapes", "all")
    check("3 ports, all shapes", status, by, err, 0)
    count = {}
    for c in by["port_case"]:
        count[c["shape"]] = count.get(c["shape"], 0) + 1
        job.check(c["status"] == "done" and c["wrong"] == 0 and c["value"] > 0, f"{c}")
        job.check(c["measure"] != "bandwidth" or c["checked"] >= 1 << 20, f"not checked: {c}")
        job.check(c["measure"] != "bandwidth" or 380 < c["value"] < 395, f"395 Gb/s and 20 ns a message: {c}")
        job.check(c["measure"] != "rate" or abs(c["value"] - 50) < 1, f"20 ns a message: {c}")
    want = {"loopback": 9 * 3, "nic-to-nic": 9 * 6, "pair": 9 * 2, "ring": 9 * 3, "mesh": 9 * 6}
    job.check(count == want, f"{count}")
    job.check([v["passed"] for v in by["port_verdict"]] == [True] * 3 and not err, f"{by['port_verdict']} {err}")
    status, by, err = Verbs(2).lines(*ONE, "--bytes", "1M")
    check("messages of 1 MiB", status, by, err, 0)
    job.check(all(c["bytes"] == 1 << 20 and c["checked"] == 2 << 20 for c in by["port_case"]), f"{by['port_case']}")


def faults():
    bad = draw.randrange(4)
    other = (bad + 1 + draw.randrange(3)) % 4
    dev, both = f"sim{bad}", {f"sim{bad}", f"sim{other}"}
    all_measures = [*QUICK, "--operations", "write", *LINKS]
    for what, env, args, device, kind, words in (
            ("a dead port", dict(DEAD=bad), ONE + LINKS, dev, "dead_link", "none of its links"),
            ("a dead link", dict(DEAD_LINK=f"{bad}:{other}"), ONE + LINKS, both, "dead_link", "retry counter exceeded"),
            ("a network of small packets", dict(SMALL=f"{bad}:{other}"), ONE + LINKS, both, "dead_link",
             "packets of 4096 bytes do not get through and those of 256 do"),
            ("a slow port", dict(SLOW=f"{bad}:200"), all_measures, dev, "slow", "each of its links"),
            ("lost in the middle", dict(LOSE=f"{bad}:700"), ONE + LINKS, dev, "port", "does not answer any more"),
            ("gone behind the last link", dict(MUTE=f"{bad}:3"), ONE + LINKS, dev, "port", "does not answer any more"),
            ("lost packets", dict(LOSS=bad), ONE + LINKS, dev, "packet_loss", "over each of its links"),
            ("a port that is down", dict(DOWN=bad), ONE + LINKS, dev, "port", "it is DOWN, 3 of 3"),
            ("another MTU", dict(MTU=f"{bad}:1024"), ONE + LINKS, dev, "port", "active MTU 1024, of 3 of 4")):
        v = Verbs(4, **{f"SIM_VERBS_{k}": x for k, x in env.items()})
        status, by, err = v.lines(*args)
        check(f"{what} ({dev})", status, by, err, 1, device, kind, words)
        passed = {device_of(x) for x in by["port_verdict"] if x["passed"]}
        want = {f"sim{i}" for i in range(4)} - (device if isinstance(device, set) else {device})
        job.check(passed == want, f"{what}: passed are {passed}, not {want}")
    for operation in ("write", "read", "send"):
        status, by, err = Verbs(4, SIM_VERBS_FLIP=bad).lines(*QUICK, *LINKS, "--operations", operation, "--measures",
                                                             "bandwidth")
        check(f"a bit of what {dev} receives by {operation}", status, by, err, 1, dev, "corruption", "arrived wrong")
    status, by, err = Verbs(4, speeds={bad: "200 Gb/sec (2X NDR)"}).lines(*ONE, *LINKS)
    check("a link that trained down", status, by, err, 1, dev, "port", "200 Gb/sec (2X NDR), of 3 of 4")
    slow = {i: "100 Gb/sec (4X EDR)" for i in range(2)}  # without a row of the table: here the real clock counts
    status, by, err = Verbs(2, speeds=slow, SIM_VERBS_HANG=0).lines(*ONE, *LINKS, "--limit", "2")
    check("a port that completes nothing", status, by, err, 1, "sim0", "dead_link", "nothing was completed for 2 s")


def dips():
    """Slow until its round is measured again: a note. The other links of the round are measured beside it."""
    v = Verbs(3, SIM_VERBS_SLOW="1:200")
    status, out = dip(v, v.argv("--json", *ONE, *LINKS), '"port_case"', 6)
    by = by_type(out)
    check("slow in one turn", status, by, "", 0)
    notes = [n for n in by["end"][0]["notes"] if "bandwidth unsteady: " in n]
    job.check(notes and all("sim1:1" in n and "in 2 measurements" in n for n in notes), f"{by['end']}")
    job.check(len(by["port_case"]) == 6, f"{by['port_case']}")


def ordinary():
    """A port without a cable is none that failed; memory of a node that is not there is said, and no more."""
    status, by, err = Verbs(2, SIM_VERBS_DOWN=1).lines(*ONE, "--shapes", "loopback")
    check("one of two ports has no cable", status, by, err, 0)
    job.check(any("sim1:1 is DOWN and not tested" in n for n in by["end"][0]["notes"]), f"{by['end']}")
    job.check([v["tested"] for v in by["port_verdict"]] == [True, False], f"{by['port_verdict']}")
    status, by, err = Verbs(2, SIM_VERBS_DOWN=1).lines(*ONE, "--shapes", "loopback", "--devices", "sim0,sim1")
    check("the same, named", status, by, err, 1, "sim1", "port", "it is DOWN")
    refused("no port is up, and none shows a cable", Verbs(2, SIM_VERBS_DOWN="0,1").run(*ONE), 3,
            "no RDMA port is up (sim0:1, sim1:1)", "name with --devices")
    status, by, err = Verbs(2, SIM_VERBS_DOWN="0,1", SIM_VERBS_PHYS=5).lines(*ONE)
    check("no port is up, and the cables are in", status, by, err, 1, {"sim0", "sim1"}, "port", "its cable is in")
    v = Verbs(2, SIM_VERBS_DOWN="0,1")
    put(f"{v.sys}/class/infiniband/sim1/ports/1/counters/port_rcv_packets", 7)
    status, by, err = v.lines(*ONE)
    check("no port is up, one was", status, by, err, 1, "sim1", "port", "it was up before")
    status, by, err = Verbs(3, SIM_VERBS_SUBNET="1:7").lines(*ONE, *LINKS)
    check("a port on a network of its own", status, by, err, 0)
    links = {(c["from"]["device"], c["to"]["device"]) for c in by["port_case"]}
    job.check(links == {("sim0", "sim2"), ("sim2", "sim0")}, f"{links}")
    job.check(any("on 2 networks (subnet fe80:0000:0000:0000, subnet fe80:0000:0000:0007)" in n
                  for n in by["end"][0]["notes"]), f"{by['end']}")
    status, by, err = Verbs(3, SIM_VERBS_DEAD=1).lines(*ONE, "--devices", "^sim1")
    check("all but the dead one", status, by, err, 0)
    status, by, err = Verbs(2, nodes="0-1").lines(*ONE, "--shapes", "loopback")
    places = {(c["memory"], c["status"]) for c in by["port_case"]}
    print(f"memory of two nodes: {places}")
    job.check(status == 0 and ("memory of node 0", "done") in places, f"{status} {places} {by.get('fault')}")
    job.check(any(m == "memory of node 1" for m, _ in places), f"{places}")
    two_equal = Verbs(2, SIM_VERBS_MTU="1:1024").lines(*ONE, *LINKS)
    check("two ports, two MTUs", *two_equal, 1, {"sim0", "sim1"}, "port", "which one is right, nothing says")


def roles():
    """Cards of one chip for several ends: slower, with another MTU, or without a cable by design."""
    slow, storage = "200 Gb/sec (2X NDR)", "MT_0000000892"
    for what, how, notes in (
            ("a storage card among four", dict(n=5, boards={4: storage}, speeds={4: slow}, SIM_VERBS_MTU="4:1024",
                                               SIM_VERBS_SLOW="4:1"), []),
            ("a slower link alone", dict(n=4, boards={3: storage}, speeds={3: slow}, SIM_VERBS_SLOW="3:1"), []),
            ("two like cards are slower", dict(n=6, speeds={4: slow, 5: slow}), ["speed and width 200 Gb/sec"]),
            ("two like cards have no cable", dict(n=6, SIM_VERBS_DOWN="4,5"), ["sim4:1 is DOWN and not tested (4"])):
        status, by, err = Verbs(**how).lines(*ONE, *LINKS)
        check(what, status, by, err, 0)
        said = by["end"][0].get("notes", [])
        job.check(all(any(n in x for x in said) for n in notes), f"{what}: {said}")


def roles_of_hosts():
    slow = "200 Gb/sec (2X NDR)"
    for what, n, speeds, down, node, words in (
            ("one rail is slower on all", 3, [{2: slow}] * 3, None, None, ""),
            ("but on one host", 3, [{2: slow}, {2: slow}, {}], None, "node2", "of 2 of 3 ports of its name 200"),
            ("one host's card trained down", 2, [{}, {2: slow}], None, "node1", "of 5 of 6 ports of its kind 400"),
            ("one rail has no cable", 3, [{}] * 3, {0: 2, 1: 2, 2: 2}, None, ""),
            ("on one host", 3, [{}] * 3, {1: 2}, "node1", "it is DOWN, 2 of 2 others of its name are up"),
            ("on one of two", 2, [{}] * 2, {1: 2}, "node1", "it is DOWN, 1 of 1 others of its name are up")):
        envs = {i: dict(speeds=speeds[i], **(dict(SIM_VERBS_DOWN=down[i]) if i in (down or {}) else {}))
                for i in range(n)}
        status, by, err = launched(n, *ONE, *LINKS, ports=3, envs=envs)[0]
        check(what, status, by, err, 1 if node else 0, "sim2", "port" if node else None, words)
        job.check({f["subject"]["host"] for f in by.get("fault", [])} == ({node} if node else set()), f"{what}: {by}")


def fabrics():
    """InfiniBand fabrics with one subnet prefix, two link layers, a port whose network is not known: what cannot be
    linked is no fault. A dead port beside three like it is one, and so is a rail that is dead between two hosts."""
    ib, no_fault = dict(SIM_VERBS_SUBNET="9:0"), "two InfiniBand fabrics"
    for what, how, args, bad, note in (
            ("two fabrics", dict(SIM_VERBS_FABRICS="0011"), LINKS, None, no_fault),
            ("four", dict(SIM_VERBS_FABRICS="0123"), ["--shapes", "loopback,mesh"], None, no_fault),
            ("a dead port", dict(SIM_VERBS_FABRICS="0001"), LINKS, "sim3", None),
            ("another card on its own", dict(SIM_VERBS_FABRICS="0001", boards={3: "MT_0"}), LINKS, None, no_fault),
            ("a dead link", dict(SIM_VERBS_DEAD_LINK="0:1"), LINKS, {"sim0", "sim1"}, None),
            ("two subnet managers", dict(SIM_VERBS_SM="1122", SIM_VERBS_FABRICS="0011"), LINKS, None, "on 2 networks"),
            ("two link layers", dict(SIM_VERBS_ETHERNET=3, SIM_VERBS_FABRICS="0001"), ["--shapes", "ring,mesh"], None,
             None)):
        status, by, err = Verbs(4, **ib, **how).lines(*ONE, *args)
        check(what, status, by, err, 1 if bad else 0, bad, "dead_link" if bad else None)
        notes = by["end"][0].get("notes", [])
        job.check(note is None or len([n for n in notes if note in n]) == 1, f"{what}: {notes}")
    status, by, err = Verbs(3, SIM_VERBS_NO_ADDRESS=1, SIM_VERBS_FABRICS="010").lines(*ONE, *LINKS)
    check("a network that is not known", status, by, err, 0)
    links = {(c["from"]["device"], c["to"]["device"]) for c in by["port_case"]}
    job.check(links == {("sim0", "sim2"), ("sim2", "sim0")}, f"{links}")
    job.check(any("the network of sim1:1 is not known" in n for n in by["end"][0]["notes"]), f"{by['end']}")
    for what, env, args, code in (("rails are fabrics", dict(ib, SIM_VERBS_FABRICS="01"), ["--shapes", "mesh"], 0),
                                  ("a dead rail", dict(ib, SIM_VERBS_DEAD=1), LINKS, 1)):
        status, by, err = launched(2, *ONE, *args, envs={0: env, 1: env})[0]
        check(what, status, by, err, code, "sim1", "dead_link" if code else None)


def own_ports():
    """Two ports of one host find no way to each other over Ethernet, unless it is set up for that; then it is a fault,
    as it is between hosts."""
    three = {"sim0", "sim1", "sim2"}
    for what, way, accepts, bad in (("no accept_local", "own", (), None), ("of one netdev", "own", ("simnet0",), None),
                                    ("of each netdev", "own", ("simnet0", "simnet1", "simnet2"), three),
                                    ("of all", "own", ("all",), three)):
        v = Verbs(3, SIM_VERBS_NO_WAY=way)
        for name in accepts:
            put(f"{v.dir}/proc/sys/net/ipv4/conf/{name}/accept_local", 1)
        status, by, err = v.lines(*QUICK, "--operations", "write")
        check(f"no way inside a host, {what}", status, by, err, 1 if bad else 0, bad, "dead_link" if bad else None)
        tried = [c for c in by["port_case"] if c["shape"] == "nic-to-nic"]
        notes = [n for n in by["end"][0].get("notes", []) if "net.ipv4.conf.NETDEV.accept_local=1" in n]
        job.check(len(tried) == 6 and len(notes) == (0 if bad else 1), f"{len(tried)} tried, {by['end']}")
    status, by, err = launched(2, *ONE, *LINKS, ports=1, envs={i: dict(SIM_VERBS_NO_WAY="all") for i in range(2)})[0]
    check("no way to another host", status, by, err, 1, "sim0", "dead_link", "no way to the other port")


def baseline():
    v = Verbs(2)
    path = f"{v.dir}/baseline"
    status, by, err = v.lines(*ONE, *LINKS, "--save-baseline", path)
    check("a baseline", status, by, err, 0)
    status, by, err = v.lines(*ONE, *LINKS, "--baseline", path)
    check("held", status, by, err, 0)
    v.env["SIM_VERBS_SLOW"] = "1:1"
    status, by, err = v.lines(*ONE, *LINKS, "--baseline", path, "--again", 1)
    job.check(all(len(f["turns"]) == 2 for f in by["fault"]), f"{by['fault']}")
    check("slower than it", status, by, err, 1, {"sim0", "sim1"}, "slow", "92 % of the own baseline")
    status, by, err = v.lines(*ONE, *LINKS, "--save-baseline", f"{v.dir}/bad")
    job.check(not os.path.exists(f"{v.dir}/bad"), "a baseline of a run that failed")


def refused(what, p, code, *words):
    text = p.stdout + p.stderr
    print(f"{what}: exit {p.returncode}: {p.stderr.strip()[:300]}", flush=True)
    job.check(p.returncode == code and all(w in text for w in words), f"{what}: {p.returncode}, {words}: {text}")
    job.check(": passed" not in text, f"{what}: it says passed: {text}")


class Traffic(threading.Thread):
    """Somebody sends over a port."""
    def __init__(self, path):
        super().__init__(daemon=True)
        self.path, self.over = path, False
        put(path, 0)

    def run(self):
        n = 0
        while not self.over:
            n += 10**9
            new = f"{self.path}.new"
            put(new, n)
            os.rename(new, self.path)
            time.sleep(0.02)


def refusals():
    v = Verbs(2)
    p = subprocess.run([job.RANKTRACE, "stress", "rdma", "--verbs", "/nowhere/lib.so"], capture_output=True, text=True)
    refused("no library", p, 3, "libibverbs", "/nowhere/lib.so", "install rdma-core")
    p = subprocess.run([job.RANKTRACE, "stress", "rdma", "--verbs", "libdl.so.2"], capture_output=True, text=True)
    refused("another library", p, 3, "libdl.so.2 has no ibv_get_device_list")
    refused("no device", Verbs(0).run(*ONE), 3, "no RDMA device", "the kernel has none", "lspci")
    v.env["SIM_VERBS_DEVICES"] = "0"
    refused("devices of the kernel only", v.run(*ONE), 3, "the kernel has 2, but libibverbs sees none", "ib_uverbs")
    refused("no right to it", Verbs(1, SIM_VERBS_NO_OPEN=1).run(*ONE), 3, "sim0", "Permission denied",
            "/dev/infiniband")
    refused("no locked memory", Verbs(1, SIM_VERBS_NO_MR=1).run(*ONE), 3, "ulimit -l", "nothing could be measured")
    v = Verbs(2)
    traffic = Traffic(f"{v.sys}/class/infiniband/sim1/ports/1/counters/port_xmit_data")
    traffic.start()
    refused("a busy port", v.run(*ONE), 3, "port sim1:1 is in use", "--force")
    check("a busy port, forced", *v.lines(*ONE, "--force", "--shapes", "loopback"), 0)
    traffic.over = True
    check("a port by its number", *v.lines(*ONE, "--force", "--shapes", "loopback", "--devices", "sim1:1"), 0)
    for args, words in ((["--devices", "sim7"], ["'sim7' is not on this host", "sim0, sim1"]),
                        (["--devices", "sim0,sim1:2"], ["'sim1:2' is not on this host: sim1 has 1 port"]),
                        (["--devices", "^sim1:2"], ["'sim1:2' is not on this host"]),
                        (["--shapes", "star"], ["loopback,nic-to-nic"]), (["--operations", "x"], ["write,read,send"]),
                        (["--measures", "x"], ["bandwidth,latency,rate"]), (["--size", "64"], ["stress gpu"]),
                        (["--collectives", "all_reduce"], ["stress nccl"]), (["--gid-index", "x"], ["gid-index"]),
                        (["--bytes", "2G"], ["--bytes"]), (["--baseline", "/nowhere/b"], ["/nowhere/b"]),
                        (["--hosts", "no.such.host.invalid,localhost"], ["no.such.host.invalid"]),
                        (["--hosts", "127.0.0.1,localhost"], ["both this host"]),
                        (["--hosts", "127.0.0.1"], ["this host alone"]),
                        (["--hosts", "198.51.100.1,198.51.100.2"], ["none of", "is this host"]),
                        (["--hosts", "192.0.2.1:x,127.0.0.1"], ["no HOST[:PORT]"])):
        refused(" ".join(args), Verbs(2).run(*ONE, *args), 2, *words)


def interrupted():
    v = Verbs(4)
    p = subprocess.Popen(v.argv("--shapes", "all", "--time", "0.01"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True, env=v.env)
    while "loopback" not in p.stdout.readline():
        pass
    begin = time.monotonic()
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=60)
    print(f"Ctrl-C: exit {p.returncode} after {time.monotonic() - begin:.1f} s: {err.strip()}")
    job.check(p.returncode == 3 and "partial: stopped by a signal" in out and "no verdict" in err, f"{out}{err}")
    job.check(": passed" not in out, f"a partial run says passed: {out}")
    for what, env, seen, kind, device in (
            ("wrong data", dict(FLIP=1), lambda c: c["wrong"], "corruption", "sim1"),
            ("a dead link", dict(DEAD_LINK="0:1"), lambda c: c["status"] == "failed", "dead_link", "sim0"),
            ("lost packets", dict(LOSS=1), lambda c: c.get("lost", 0) > 8, "packet_loss", None)):
        v = Verbs(4, **{f"SIM_VERBS_{k}": x for k, x in env.items()})
        p = subprocess.Popen(v.argv("--json", "--shapes", "nic-to-nic,mesh", "--time", "0.01"), stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, env=v.env)
        lines = lines_until(p, lambda x, seen=seen: x["type"] == "port_case" and seen(x))
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
        by = by_type("".join(lines) + out)
        found = [(ends_of(f), f["kind"]) for f in by.get("fault", [])]
        print(f"Ctrl-C behind {what}: exit {p.returncode}, {found}")
        job.check(p.returncode == 1 and {k for _, k in found} == {kind}, f"{what}: {found} {by['end']} {err}")
        job.check(all(device in (None, *ends) for ends, _ in found), f"{what}: {found}")
        job.check("stopped by a signal" in by["end"][0]["partial"], f"{by['end']}")


def lines_until(p, wanted):
    """What it prints as JSON up to the first line that is wanted."""
    lines = []
    for line in p.stdout:
        lines.append(line)
        if wanted(json.loads(line)):
            return lines
    job.fail(f"never printed: {lines[-3:]} {p.stderr.read()}")


# --- several hosts ---

def begun(n, *args, ports=2, skip=(), envs=None, devices=None, limit="30"):
    """By torchrun's variables: a process a host. Of `skip` none is started. `ports`: of each host, or of all.
    `devices`: what each takes of its own."""
    shared, port, ps = Verbs(1).dir + "/shared", draw.randrange(20000, 30000), []
    for rank in range(n):
        if rank in skip:
            continue
        v = Verbs(ports if isinstance(ports, int) else ports[rank], shared=shared, **(envs or {}).get(rank, {}))
        v.env.update(RANK=str(rank), WORLD_SIZE=str(n), LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", MASTER_ADDR="127.0.0.1",
                     MASTER_PORT=str(port), NCCL_HOSTID=f"node{rank}")
        own = ["--devices", devices[rank]] if devices and devices[rank] else []
        ps.append(subprocess.Popen(v.argv("--json", "--limit", limit, *args, *own), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=v.env))
    return ps


def launched(n, *args, **how):
    """[(exit status, lines, standard error)] a host."""
    ps = begun(n, *args, **how)
    outs = [p.communicate(timeout=120) for p in ps]
    return [(p.returncode, by_type(o[0]), o[1]) for p, o in zip(ps, outs)]


def holes():
    """A port that most hosts have, and one has not, is a fault of that host. One that is up and has nobody to talk to
    was not tested. What some hosts have more than others is theirs."""
    for ports, args, code, words in (([4, 4, 3], [], 1, ""), ([2, 1], [], 3, "node0/sim1:1: up, and not tested over"),
                                     ([2, 1], ["--shapes", "mesh"], 0, ""), ([2, 1], ["--shapes", "loopback"], 0, ""),
                                     ([2, 2, 1, 1], [], 0, "")):
        runs = launched(len(ports), *ONE, *args, ports=ports)
        status, by, err = runs[0]
        found = [(f["subject"]["host"], device_of(f), f["kind"]) for f in by.get("fault", [])]
        print(f"ports {ports} {args}: exit {[r[0] for r in runs]}, {found}, {err.strip()[:150]}")
        job.check([r[0] for r in runs] == [code] * len(ports) and words in err, f"{[(r[0], r[2]) for r in runs]} {by}")
        job.check(found == ([("node2", "sim3", "port")] if code == 1 else []), f"{found}")
        passed = {(v["subject"]["host"], v["subject"]["device"]): v["passed"] for v in by["port_verdict"]}
        job.check(passed.get(("node2", "sim3")) is (False if code == 1 else None), f"{passed}")
        job.check(code != 3 or not passed[("node0", "sim1")], f"{passed}")
        job.check(len(ports) < 4 or "sim1:1 is on 2 of 4 hosts only" in by["end"][0]["notes"], f"{by['end']}")


def names():
    """Each host with ports of its own choice or names: healthy, and linked by --shapes mesh; by name not tested whole,
    and no fault either. What is not there and not left out is one, but for shapes that go by no name."""
    other, mesh = {2: dict(name="nic")}, ["--shapes", "mesh"]
    no_cable = {rank: dict(SIM_VERBS_DOWN="1,2") for rank in (1, 2)}
    left_out, renamed = "host node2 leaves out sim0:1 (up on", "host node2 lacks sim0:1, sim1:1 (up on"
    for what, args, how, code, words in (
            ("its own --devices", mesh, dict(ports=3, devices=["sim0", "sim0", "sim1"]), 0, left_out),
            ("the same by name", [], dict(ports=3, devices=["sim0", "sim0", "sim1"]), 3, left_out),
            ("left out by number", mesh, dict(ports=2, devices=[None, None, "^sim0:1"]), 0, left_out),
            ("other names", mesh, dict(envs=other), 0, renamed),
            ("other names, a ring", ["--shapes", "ring"], dict(envs=other), 0, renamed),
            ("other names by name", [], dict(envs=other), 3, renamed),
            ("one less, and other names", [], dict(envs=other, ports=[2, 2, 1]), 1, None),
            ("one is not there, mesh", mesh, dict(ports=[4, 4, 3]), 0, "host node2 lacks sim3:1 (up on most hosts)"),
            ("one is not there, ring", ["--shapes", "ring"], dict(ports=[4, 4, 3]), 1, None),
            ("not there, another left out", [], dict(ports=[3, 3, 2], devices=[None, None, "sim1"]), 1, left_out),
            ("only the first host names its ports", LINKS,
             dict(ports=3, devices=["sim0", None, None], envs=no_cable), 0, "node2/sim1:1 is DOWN and not tested"),
            ("the third names one without a cable", LINKS,
             dict(ports=3, devices=["sim0", None, "sim0,sim1"], envs=no_cable), 1, None)):
        runs = launched(3, *ONE, *args, **how)
        by, notes = runs[0][1], runs[0][1]["end"][0].get("notes", [])
        found = {(f["subject"]["host"], f["kind"]) for f in by.get("fault", [])}
        print(f"{what}: exit {[r[0] for r in runs]}, {found}, {notes}, {runs[0][2].strip()[:100]}", flush=True)
        job.check([r[0] for r in runs] == [code] * 3, f"{what}: {[(r[0], r[2]) for r in runs]} {by}")
        job.check(found == ({("node2", "port")} if code == 1 else set()), f"{what}: {by.get('fault')}")
        job.check(words is None or any(n.startswith(words) for n in notes), f"{what}: no '{words}': {notes}")
        job.check(code != 3 or "not tested over the network" in runs[0][2], f"{what}: {runs[0][2]}")


def hosts_interrupted():
    """A signal to one host, the first or another, or to all: all end within a second or two, with one status, and
    nothing that the end itself cut is a fault."""
    forever = ["--operations", "write", "--measures", "bandwidth", *LINKS, "--time", "60"]
    real = dict(SIM_VERBS_HANG=9)  # of no port: the real clock
    for at, flip in (((0,), None), ((1,), None), ((0, 1), None), ((1, 0), None), ((0,), 1)):
        args = ["--operations", "read,write", *forever[2:]] if flip is not None else forever
        env = dict(real) if flip is None else {}
        extra = ["--time", "0.05", "--shapes", "nic-to-nic,mesh"] if flip is not None else []
        ps = begun(2, *args, *extra, envs={i: dict(env, **({} if flip is None else dict(SIM_VERBS_FLIP=flip)))
                                             for i in range(2)})
        lines = lines_until(ps[0], lambda x: x["type"] == ("begin" if flip is None else "port_case"))
        time.sleep(1.5 if flip is None else 0)
        begin = time.monotonic()
        for i in at:
            ps[i].send_signal(signal.SIGINT)
        outs = [p.communicate(timeout=60) for p in ps]
        took = time.monotonic() - begin
        by, codes = by_type("".join(lines) + outs[0][0]), [p.returncode for p in ps]
        found = [(ends_of(f), f["kind"]) for f in by.get("fault", [])]
        print(f"Ctrl-C on {at}: exit {codes} after {took:.1f} s, {found}, {by['end'][0]['partial']}")
        job.check(took < 3.5, f"Ctrl-C on {at}: {took:.1f} s")
        job.check(bool(found) == (flip is not None), f"{at}: {found} {outs}")
        job.check(codes == [1 if found else 3] * 2, f"{at}: {codes} {outs}")
        job.check(all(f"sim{flip}" in ends and kind == "corruption" for ends, kind in found), f"{found}")
        want = "stopped by a signal" if 0 in at else "host node1 was stopped by a signal"
        job.check(want in by["end"][0]["partial"], f"{by['end']}")


def hosts():
    runs = launched(3, *ONE, "--shapes", "loopback,nic-to-nic,mesh")
    check("3 hosts, torchrun", *runs[0], 0)
    job.check([r[0] for r in runs] == [0] * 3 and not any(r[1] for r in runs[1:]), f"{[r[0] for r in runs]}")
    rails = {(c["from"]["host"], c["to"]["host"], c["from"]["device"], c["to"]["device"])
             for c in runs[0][1]["port_case"] if c["shape"] == "nic-to-nic"}
    want = {(f"node{a}", f"node{b}", f"sim{d}", f"sim{d}") for a in range(3) for b in range(3) for d in range(2)
            if a != b}
    job.check(rails == want, f"{rails}")
    mesh = [c for c in runs[0][1]["port_case"] if c["shape"] == "mesh"]
    job.check(len(mesh) == 6 * 5 and all(c["checked"] for c in mesh), f"{len(mesh)} of 30 links of the mesh")
    runs = launched(3, *ONE, *LINKS, envs={1: dict(SIM_VERBS_MTU="1:1024")})
    status, by, err = runs[0]
    check("another MTU on one host", status, by, err, 1, "sim1", "port", "active MTU 1024, of 2 of 3 ports of its name")
    hosts_of = {f["subject"]["host"] for f in by["fault"]}
    job.check(hosts_of == {"node1"} and [r[0] for r in runs] == [1] * 3, f"{by['fault']}")
    runs = launched(2, *ONE, *LINKS, skip=[1], limit="2")
    check("a host does not come", *runs[0], 3)
    job.check("host 1 of 2 did not come within 2 s" in runs[0][2], runs[0][2])
    runs = launched(2, *ONE, *LINKS, skip=[0], limit="2")
    check("the first host is missing", *runs[0], 3)
    job.check("127.0.0.1" in runs[0][2] and "cannot be reached for 2 s" in runs[0][2], runs[0][2])
    runs = launched(2, *ONE, *LINKS, envs={1: dict(SIM_VERBS_DEVICES=0)})
    check("a host without a device", *runs[0], 3)
    job.check([r[0] for r in runs] == [3, 3] and "host node1: no RDMA device" in runs[0][2], f"{[r[2] for r in runs]}")
    runs = launched(2, *ONE, *LINKS, envs={0: dict(LOCAL_RANK=0)}, ports=1)
    check("one port each", *runs[0], 0)


def hosts_list():
    """Network namespaces with host names of their own: one command a host, the same list."""
    with_hosts, shared = Hosts(2, netem=True), Verbs(1).dir + "/shared"

    def started(lists):
        ps = []
        for i, hosts_given in enumerate(lists):
            v = Verbs(2, shared=shared)
            command = ["ip", "netns", "exec", with_hosts.names[i], "unshare", "--uts", "sh", "-c",
                       'hostname "$0" && exec "$@"', f"gpu{i}", *v.argv("--json", *ONE, *LINKS, "--limit", "20",
                                                                        "--hosts", hosts_given)]
            ps.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=v.env))
        outs = [p.communicate(timeout=120) for p in ps]
        return [(p.returncode, by_type(o[0]), o[1]) for p, o in zip(ps, outs)]

    try:
        a, b = with_hosts.address(0), with_hosts.address(1)
        runs = started([f"{a},{b}"] * 2)
        check("--hosts", *runs[0], 0)
        links = {(c["from"]["host"], c["to"]["host"]) for c in runs[0][1]["port_case"]}
        job.check(links == {("gpu0", "gpu1"), ("gpu1", "gpu0")} and runs[1][0] == 0, f"{[r[2] for r in runs]}")
        runs = started([f"{a}:29600,{b}", f"{a}:29600,{b},192.0.2.9"])
        check("another list", *runs[0], 3)
        job.check("counts 3 hosts in place of 2" in runs[0][2] and runs[1][0] == 3, f"{[r[2] for r in runs]}")
        runs = started([f"{a},{b}", f"{a},{b}:29556"])
        job.check(runs[0][0] == 2 and "has another --hosts" in runs[0][2], f"{[(r[0], r[2]) for r in runs]}")
    finally:
        with_hosts.close()


def host_dies():
    shared, port, ps = Verbs(1).dir + "/shared", draw.randrange(20000, 30000), []
    for rank in range(3):
        v = Verbs(1, shared=shared)
        v.env.update(RANK=str(rank), WORLD_SIZE="3", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                     NCCL_HOSTID=f"node{rank}")
        ps.append(subprocess.Popen(v.argv("--json", *LINKS, "--time", "0.002", "--iterations", "200"),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=v.env))
    while '"port_case"' not in ps[0].stdout.readline():
        pass
    ps[1].kill()
    out, err = ps[0].communicate(timeout=120)
    by = by_type(out)
    said = [(f["subject"]["host"], f["summary"][:90]) for f in by.get("fault", [])]
    print(f"a host dies: exit {ps[0].returncode}, {said}")
    job.check(ps[0].returncode == 1 and [host for host, _ in said] == ["node1"], f"{by.get('fault')} {err}")
    later = {(c["from"]["host"], c["to"]["host"]) for c in by["port_case"] if c["status"] == "done"}
    job.check(("node2", "node0") in later, f"the links of the others were not tested: {later}")
    job.check(ps[2].wait(60) == 1, "the other host's exit status")


def own_cpus():
    """A port's threads are on the CPUs of its node: on others a host's rates differ from port to port."""
    v = Verbs(2, SIM_VERBS_CPU_US="0:1")
    for listed in ("", "0"):
        if listed:
            put(f"{v.sys}/devices/system/node/node0/cpulist", listed)
        status, by, err = v.lines(*ONE, *LINKS)
        rates = [c["value"] for c in by["port_case"]]
        print(f"CPUs of node 0: '{listed}': {rates}")
        job.check(all(r > 380 if listed else r < 300 for r in rates) and len(rates) == 2, f"{status} {rates} {err}")


def few_cpus():
    """A launcher's mask of one CPU does not hold the threads. Where a host has less CPUs than ends that poll, their
    rates are no port's: a note, and what needs one CPU is judged as ever."""
    if {0, 1} <= os.sched_getaffinity(0):
        v = Verbs(2, SIM_VERBS_CPU_US="1:1")
        put(f"{v.sys}/devices/system/node/node0/cpulist", 1)
        p = v.run("--json", *ONE, *LINKS, preexec_fn=lambda: os.sched_setaffinity(0, {0}))
        rates = [c["value"] for c in by_type(p.stdout)["port_case"]]
        print(f"bound to CPU 0, ports of CPU 1: {rates}")
        job.check(p.returncode == 0 and all(r > 380 for r in rates), f"{p.returncode} {rates} {p.stderr}")
    slow, latency = dict(SIM_VERBS_SLOW="1:200"), [*QUICK, "--operations", "write", "--measures", "latency", *LINKS]
    for what, limit, args, bad in (("no limit", None, latency, True), ("one CPU", "cpulist", latency, False),
                                   ("a quota", "cpu.max", latency, False), ("one sends", "cpulist", ONE + LINKS, True),
                                   ("all send", "cpulist", [*ONE, "--shapes", "ring"], False)):
        v = Verbs(4, **slow)
        if limit == "cpulist":
            put(f"{v.sys}/devices/system/node/node0/cpulist", 0)
        elif limit:
            put(f"{v.dir}/proc/self/cgroup", "0::/job/step")
            put(f"{v.sys}/fs/cgroup/job/cpu.max", "100000 100000")
        status, by, err = v.lines(*args)
        check(f"a slow port, {what}", status, by, err, 1 if bad else 0, "sim1", "slow" if bad else None)
        notes = [n for n in by["end"][0].get("notes", []) if "has 1 CPU for" in n and "are not judged" in n]
        job.check(len(notes) == (0 if bad else 1), f"{what}: {by['end']}")


def receives():
    """A latency of more sends than the 512 receives that are posted at its begin: each is posted again."""
    status, by, err = Verbs(1, nodes="0").lines("--time", "0.01", "--iterations", "1200", "--operations", "send",
                                                "--measures", "latency", "--shapes", "loopback")
    check("1,200 sends, one by one", status, by, err, 0)
    job.check([c["messages"] for c in by["port_case"]] == [1200], f"{by['port_case']}")


library()
cases = (healthy, own_cpus, few_cpus, receives, faults, dips, ordinary, roles, roles_of_hosts,
         fabrics, own_ports, baseline, refusals, interrupted, hosts, holes, names,
         hosts_interrupted, hosts_list, host_dies)
for case in [c for c in cases if not sys.argv[1:] or c.__name__ in sys.argv[1:]]:
    begin_s = time.monotonic()
    case()
    print(f"-- {case.__name__}: {time.monotonic() - begin_s:.1f} s", flush=True)
