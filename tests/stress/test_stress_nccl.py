# SPDX-License-Identifier: Apache-2.0
"""`ranktrace stress nccl` on simulated GPUs and a libnccl whose operations move and reduce data: a healthy node passes,
with the right bandwidths; a wrong element, a hang, a lost GPU, a dead rank and a slow host are found, the right one is
named; what cannot be tested is no pass; nothing is left running."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job
from net_hosts import Hosts
from stress import LOST, SIM, XID, Gpus, dip, older_nccl, without

draw, _ = job.seed()
RANKTRACE = os.path.abspath(job.RANKTRACE)
QUICK = ["--bytes", "64K", "--iterations", "5"]
ONE = [*QUICK, "--collectives", "all_reduce", "--place", "out", "--types", "fp32"]


def argv(*args):
    return [RANKTRACE, "stress", "nccl", *map(str, args)]


def by_type(text):
    by = {}
    for line in map(json.loads, text.splitlines()):
        by.setdefault(line["type"], []).append(line)
    return by


def nccl(n, *args, **env):
    g = Gpus(n, **env)
    p = subprocess.run(argv("--json", *args), capture_output=True, text=True, timeout=120, env=g.env)
    return p.returncode, by_type(p.stdout), p.stderr


TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


def launched(n, per_host, *args, launcher=TORCHRUN, cases=0, end=False, lose=None, late=None, **env):
    """By a launcher's variables, on hosts of per_host GPUs each: (exit statuses, rank 0's lines, standard errors).
    `cases`: what is slow, hangs or is wrong by `env` ends when rank 0 has printed so many; `end`: it is sent SIGINT.
    `lose`: a GPU that is lost once all ranks are there. `late`: the rank that alone is wrong or hangs by
    SIM_NCCL_WRONG_LATE or SIM_NCCL_HANG_LATE behind so many cases, or else is killed then."""
    g = Gpus(n, **env)
    dip_file = f"{g.dir}/slow"
    if cases and late is None:
        open(dip_file, "w").close()
        g.env["SIM_SLOW_WHILE"] = dip_file
    port = draw.randrange(20000, 30000)
    ps = []
    for rank in range(n):
        mine = dict(zip(launcher, (rank, n, rank, per_host)), NCCL_HOSTID=f"node{rank // per_host}")
        if rank == late:
            mine.update({k[:-5]: v for k, v in env.items() if k.endswith("_LATE")}, SIM_SLOW_WHILE=dip_file)
        if launcher == TORCHRUN:
            mine.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        ps.append(subprocess.Popen(argv("--json", *args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=dict(g.env, **{k: str(v) for k, v in mine.items()})))
    lines = []
    if lose is not None:
        lines.append(ps[0].stdout.readline())
        g.fault(lose, LOST)
    elif end and not cases:
        lines.append(ps[0].stdout.readline())
        time.sleep(2)  # that they wait for the one who hangs, and nothing else
    while cases and (line := ps[0].stdout.readline()):
        lines.append(line)
        cases -= '"type":"case"' in line
    job.check(not cases, f"{cases} cases were not printed: {lines[-3:]}")
    if late is not None:
        open(dip_file, "w").close()
        if not any(k.endswith("_LATE") for k in env):
            ps[late].kill()
    elif "SIM_SLOW_WHILE" in g.env and not end:
        os.remove(dip_file)
    if end:
        ps[0].send_signal(signal.SIGINT)
    outs = [p.communicate(timeout=120) for p in ps]
    return [p.returncode for p in ps], by_type("".join(lines) + outs[0][0]), [o[1] for o in outs]


def expect(what, status, by, code, gpus=None, kind=None):
    found = [(f["subject"].get("gpu"), f["kind"]) for f in by.get("fault", [])]
    print(f"{what}: exit {status}, {sorted(set(found), key=str)}")
    job.check(status == code, f"{what}: exit {status}, not {code}: {by.get('end')} {by.get('fault')}")
    if gpus is not None:
        job.check({g for g, _ in found} == set(gpus), f"{what}: {by.get('fault')}, not of {gpus} alone")
        job.check(all(k == kind for _, k in found), f"{what}: {found}, not {kind}")


def healthy():
    status, by, err = nccl(3, "--bytes", "64K", "--iterations", "4", "--skip", "1", "--types", "all",
                           SIM_NCCL_LATENCY_US=2000)
    expect("3 healthy, all types", status, by, 0)
    cases = by["case"]
    job.check(len(cases) == 12 * (5 * 2 + 2), f"{len(cases)} cases")
    job.check(all(c["status"] == "done" and c["wrong"] == 0 and c["checked"] >= c["bytes"] // 8 for c in cases),
              f"{[c for c in cases if c['wrong'] or not c['checked']]}")
    # the time is that of an operation: 2 ms and a little, without the start of the ranks
    job.check(all(1990 < c["us"] < 3000 for c in cases), f"times: {sorted(c['us'] for c in cases)[-5:]}")
    factors = dict(all_reduce=4 / 3, all_gather=2 / 3, reduce_scatter=2 / 3, alltoall=2 / 3)
    for c in cases:
        want = c["algbw_gbytes_s"] * factors.get(c["collective"], 1)
        job.check(abs(c["busbw_gbytes_s"] - want) < 1e-6 * want, f"factor: {c}")
    job.check([v["passed"] for v in by["verdict"]] == [True] * 3 and not err, f"{by['verdict']} {err}")
    status, by, _ = nccl(2, *QUICK, "--types", "fp32", "--bytes", "8-64K:16")
    expect("2 healthy, small sizes", status, by, 0)
    status, by, err = nccl(3, "--collectives", "alltoall", "--types", "all", "--bytes", "8-64K:64", "--iterations", "4",
                           **older_nccl())
    expect("alltoall of Send and Recv", status, by, 0)
    job.check(len(by["case"]) == 12 * 3 and not err, f"{len(by['case'])} cases: {err}")
    job.check(all(c["status"] == "done" and c["wrong"] == 0 and c["checked"] for c in by["case"]), f"{by['case']}")
    scaling()


def scaling():
    """Time of 2 ms and bytes by 150 GB/s: on a line, the largest size is the best, and single ones may be slower."""
    status, by, _ = nccl(2, "--iterations", "6", "--types", "fp32", "--place", "out", "--collectives", "all_reduce",
                         "--bytes", "64K-16M:16", SIM_NCCL_GBPS="1")
    expect("scaling", status, by, 0)
    rows = by["scaling"]
    job.check([r["bytes"] for r in rows] == [1 << 16, 1 << 20, 1 << 24], f"{rows}")
    job.check(all(0.9 < r["linearity"] < 1.1 and r["us_p99"] > 0.9 * r["us"] for r in rows), f"{rows}")
    job.check(rows[-1]["efficiency"] == 1 and rows[0]["efficiency"] < rows[1]["efficiency"] < 1, f"{rows}")


def wrong():
    """All of 4 (LONG=1: 10): its own result, a partial sum that all get, or what it hands on."""
    for i in range(10 if job.LONG else 4):
        n = draw.randrange(3, 7)
        gpu, how, every = draw.randrange(n), ("own", "reduce", "forward")[i % 3], draw.choice(["", ":1", ":3"])
        setting = f"{gpu}:{how}:{draw.randrange(16384)}{every}"
        status, by, _ = nccl(n, *ONE, SIM_NCCL_WRONG=setting)
        expect(f"{setting} of {n}", status, by, 1, [gpu], "corruption")
        job.check("in place of 0x" in by["fault"][0]["summary"] and "each of its" in by["fault"][0]["summary"],
                  by["fault"][0]["summary"])
    for collective in ("reduce_scatter", "reduce"):
        status, by, _ = nccl(4, *QUICK, "--collectives", collective, "--types", "bf16", SIM_NCCL_WRONG="2:reduce:9")
        expect(f"{collective}", status, by, 1, [2], "corruption")
    status, by, _ = nccl(2, *ONE, SIM_NCCL_WRONG="1:own:3")
    expect("of two, its own", status, by, 1, [1], "corruption")
    status, by, _ = nccl(2, *ONE, SIM_NCCL_WRONG="1:reduce:3")
    expect("of two, both wrong: none can be named", status, by, 1, [None], "corruption")


def stalled():
    limit = ["--limit", "2"]  # ranks have to come within it, too: a busy host needs more than half a second
    status, by, _ = nccl(4, *ONE, *limit, SIM_NCCL_HANG="2:0")
    expect("one does not come", status, by, 1, [2], "stalled")
    for what, collective, library in (("Send and Recv", "sendrecv", {}), ("AlltoAll", "alltoall", {}),
                                      ("Send and Recv of an alltoall", "alltoall", older_nccl())):
        status, by, _ = nccl(3, *QUICK, "--collectives", collective, "--types", "fp32", *limit,
                             SIM_NCCL_HANG="1:0", **library)
        expect(f"one does not come to {what}", status, by, 1, [1], "stalled")
    status, by, _ = nccl(3, *QUICK, "--limit", "5", SIM_GPU_LOSE="1:30")
    expect("lost in the middle", status, by, 1, [1], "lost")


def no_room():
    """NCCL finds no room in /dev/shm, at once or when it first connects for an operation: no GPU's fault, and no pass.
    Beside an XID it is one, of that GPU."""
    for what, n, env, args in (("at the creation", 4, {}, []), ("later", 3, dict(SIM_NCCL_NO_SHM="1:8"), []),
                               ("and no end of it", 3, {}, ["--time", "60"])):
        status, by, err = nccl(n, *ONE, "--limit", 3, *args, **{"SIM_NCCL_NO_SHM": 1, **env})
        expect(f"no room {what}", status, by, 3)
        job.check("fault" not in by and "GPU 1 of" in err and "No space left on device (28)" in err and
                  "--shm-size" in err and "medium: Memory" in err and "--shm-size" in by["end"][0]["notes"][0],
                  f"{by} {err}")
        job.check(not any(v["passed"] for v in by["verdict"]), f"{by['verdict']}")
    g = Gpus(3, SIM_NCCL_NO_SHM=1)
    g.fault(1, XID)
    p = subprocess.run(argv("--json", *ONE), capture_output=True, text=True, timeout=120, env=g.env)
    expect("no room, and an XID", p.returncode, by_type(p.stdout), 1)
    job.check((1, "lost") in [(f["subject"].get("gpu"), f["kind"]) for f in by_type(p.stdout)["fault"]], p.stdout)
    for hosts in (3, 9):
        statuses, by, errs = launched(hosts, 1, *ONE, "--bisect", SIM_NCCL_NO_SHM=1)
        print(f"{hosts} hosts, no room on node1: exits {statuses}, {by.get('fault')} {errs[0].strip()}", flush=True)
        job.check(statuses == [3] * hosts and "fault" not in by and "of node1 (rank 1)" in errs[0], f"{by} {errs}")


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [int(x) for x in f.read().split()]


def started(*args, **env):
    g = Gpus(3, **env)
    p = subprocess.Popen(argv("--json", "--time", "60", *args), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True, env=g.env)
    begin = json.loads(p.stdout.readline())
    while json.loads(p.stdout.readline())["type"] != "case":
        pass
    return p, begin, children(p.pid)


def gone(pids):
    end = time.monotonic() + 5
    while any(os.path.exists(f"/proc/{pid}") for pid in pids) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def ended():
    p, _, pids = started(*ONE, "--limit", "2")
    os.kill(pids[1], signal.SIGKILL)
    out, err = p.communicate(timeout=60)
    expect("a rank was killed", p.returncode, by_type(out), 1, [1], "lost")
    job.check("signal 9" in out and gone(pids), f"{out}{err}")
    p, _, pids = started(*ONE)
    begin = time.monotonic()
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=60)
    took = time.monotonic() - begin
    print(f"Ctrl-C: exit {p.returncode} after {took:.1f} s: {err.strip()}")
    job.check(p.returncode == 3 and "no verdict" in err and "partial" in by_type(out)["end"][0] and took < 5, out + err)
    job.check(gone(pids), "ranks were left running")
    p, _, pids = started(*ONE)
    p.kill()
    p.communicate()
    job.check(gone(pids), "ranks outlived the coordinator")


def signals():
    """All ranks exit alike after a signal to rank 0, and soon: while one hangs, too, and where a GPU was lost."""
    begin = time.monotonic()
    statuses, by, errs = launched(4, 2, *ONE, "--limit", "40", end=True, SIM_NCCL_HANG="3:0")
    took = time.monotonic() - begin
    print(f"a signal in a hang: exits {statuses} after {took:.1f} s: {errs[0].strip()}")
    job.check(statuses == [3] * 4 and "stopped by a signal" in by["end"][0]["partial"] and took < 20, f"{by} {errs}")
    statuses, by, errs = launched(4, 2, *ONE, "--limit", "3", lose=3, SIM_NCCL_HANG="3:0")
    found = sorted({(f["subject"].get("rank"), f["kind"]) for f in by.get("fault", [])}, key=str)
    print(f"one whose GPU is lost is refused when it starts anew: exits {statuses}, {found}")
    job.check(statuses == [1] * 4, f"{statuses} {by} {errs}")


def signals_wrong():
    """Wrong data are a fault, though a signal comes while others hang in the same round."""
    for n, per_host, hangs, args in ((4, 2, 3, ["--split", "inside"]), (4, 1, 1, ["--bisect"]),
                                     (9, 1, 8, ["--bisect"])):
        statuses, by, errs = launched(n, per_host, *ONE, *args, "--limit", "40", end=True, SIM_NCCL_WRONG="0:own:3",
                                      SIM_NCCL_HANG=f"{hangs}:0")
        found = [(f["kind"], f["summary"]) for f in by.get("fault", [])]
        print(f"{n} ranks, {args}: a signal behind wrong data: exits {statuses}, {found}", flush=True)
        job.check(statuses == [1] * n and [k for k, _ in found] == ["corruption"] and "partial" in by["end"][0],
                  f"{statuses} {by} {errs}")


def hosts():
    """Two hosts and more, as torchrun starts them."""
    statuses, by, errs = launched(4, 2, *ONE)
    expect("two hosts", statuses[0], by, 0)
    job.check(statuses == [0] * 4 and by["begin"][0]["hosts"] == 2 and not any(errs), f"{statuses} {errs}")
    slow = dict(SIM_NCCL_SLOW="5:30", SIM_NCCL_LATENCY_US=3000)
    statuses, by, _ = launched(8, 2, *ONE, "--split", "inside", **slow)
    expect("a slow host", statuses[0], by, 1, [None], "slow")
    job.check(all("host node2:" in f["summary"] for f in by["fault"]) and statuses == [1] * 8, f"{by['fault']}")
    statuses, by, _ = launched(8, 2, *ONE, "--split", "rails", **slow)
    expect("two rails, one of them slow", statuses[0], by, 1, [None], "slow")
    job.check("rail 1" in by["fault"][0]["summary"], f"{by['fault']}")


def launchers():
    """Each row of the table of launchers, as it starts two hosts of two ranks."""
    with open("tools/stress/launch/launchers.def", encoding="utf-8") as f:
        rows = re.findall(r'^LAUNCHER\("(.*?)",\s+"(\w+)",\s+"(\w+)",\s+"(\w+)",\s+"(\w+)"\)', f.read(), re.M)
    job.check(len(rows) >= 4, f"launchers: {rows}")
    for name, *variables in rows:
        port = draw.randrange(30000, 32000)
        statuses, by, errs = launched(4, 2, *ONE, "--host", f"127.0.0.1:{port}", launcher=tuple(variables))
        expect(name, statuses[0], by, 0)
        job.check(statuses == [0] * 4 and by["begin"][0]["hosts"] == 2, f"{statuses} {errs}")
        job.check(len(by["verdict"]) == 4, f"{by['verdict']}")


def bisect():
    bad = sorted(draw.sample(range(24), 3))
    statuses, by, _ = launched(24, 1, *ONE, "--bisect", SIM_NCCL_WRONG=f"{bad[0]}:own:7,{bad[1]}:reduce:3",
                               SIM_NCCL_SLOW=f"{bad[2]}:40", SIM_NCCL_LATENCY_US=3000)
    print(f"24 hosts, {bad} bad: {by['end'][0]['notes']}")
    found = sorted((f["subject"]["host"], f["kind"]) for f in by["fault"])
    want = sorted((f"node{host}", kind) for host, kind in zip(bad, ("corruption", "corruption", "slow")))
    job.check(statuses == [1] * 24 and found == want, f"{found}, not {want}: {by['fault']}")
    statuses, by, errs = launched(9, 1, *ONE, "--bisect", "--limit", "2", SIM_NCCL_HANG="4:0")
    found = [(f["subject"]["host"], f["kind"]) for f in by.get("fault", [])]
    job.check(found == [("node4", "stalled")], f"{found}, exits {statuses}: {by} {errs}")
    statuses, by, _ = launched(9, 1, *ONE, "--bisect")
    expect("9 hosts, none bad", statuses[0], by, 0)


def many_hosts_rates():
    """A disturbance of a host that is over when it alone is tried again: a note. Groups that share a network: how many
    run at once moves all rates, and does not hide a slow host, nor name another."""
    bad = draw.choice((2, 5, 8))  # the last of its group: two tests find it, each with two controls
    statuses, by, _ = launched(9, 1, *ONE, "--bisect", cases=18, SIM_NCCL_SLOW=f"{bad}:100", SIM_NCCL_LATENCY_US=3000)
    notes = by["end"][0]["notes"]
    print(f"9 hosts, node{bad} slow for three rounds: exits {statuses}, {notes}", flush=True)
    job.check(statuses == [0] * 9 and "fault" not in by, f"{by.get('fault')} {notes}")
    job.check(f"host node{bad} was slow in a group" in notes[0] and "and is not with host" in notes[0], f"{notes}")
    wrong, slow = draw.sample(range(9), 2)
    statuses, by, errs = launched(9, 1, *ONE, "--bisect", "--again", 8, cases=60, end=True, SIM_NCCL_LATENCY_US=3000,
                                  SIM_NCCL_WRONG=f"{wrong}:own:7", SIM_NCCL_SLOW=f"{slow}:100")
    found = [(f["subject"]["host"], f["kind"]) for f in by.get("fault", [])]
    print(f"a signal while node{slow} is tried again, node{wrong} is wrong: exits {statuses}, {found}", flush=True)
    job.check(statuses == [1] * 9 and found == [(f"node{wrong}", "corruption")],
              f"{statuses} {found} {by['end']} {errs[0]}")
    bad = draw.randrange(16)
    for slow in ({"SIM_NCCL_SLOW": f"{bad}:25"}, {}):
        with tempfile.NamedTemporaryFile(prefix="ranktrace-network-") as network:
            statuses, by, _ = launched(16, 1, *ONE, "--bisect", "--again", 2, SIM_NCCL_LATENCY_US=3000, **slow,
                                       SIM_NCCL_SHARED=network.name)
        found = [(f["subject"]["host"], f["kind"]) for f in by.get("fault", [])]
        print(f"16 hosts that share a network, {slow}: {found}: {by['end'][0]['notes']}", flush=True)
        job.check(found == ([(f"node{bad}", "slow")] if slow else []), f"{found} {by}")
        job.check(not slow or "pairs of good hosts beside it" in by["fault"][0]["summary"], f"{by.get('fault')}")


def controls():
    """A host that is well at first, and then wrong, hangs or dies, beside the tests or in them: no other is blamed."""
    bad = {"SIM_NCCL_WRONG": "0:own:7"}
    for late in (8, 4, 3):
        for fault, kind in (({"SIM_NCCL_WRONG_LATE": f"{late}:own:9"}, "corruption"),
                            ({"SIM_NCCL_HANG_LATE": f"{late}:0"}, "stalled"), ({}, "lost")):
            statuses, by, _ = launched(9, 1, *ONE, "--bisect", "--limit", "2", cases=5, late=late, **bad, **fault,
                                       SIM_NCCL_LATENCY_US=3000)
            found = sorted((f["subject"].get("host"), f["kind"]) for f in by.get("fault", []))
            print(f"node0 is wrong, later node{late} {fault}: {found}, {by['end'][0]['notes']}", flush=True)
            job.check(found == [("node0", "corruption"), (f"node{late}", kind)], f"{found} {by.get('fault')}")
            job.check(all(s == 1 for i, s in enumerate(statuses) if fault or i != late), f"{statuses}")
    statuses, by, _ = launched(9, 1, *ONE, "--bisect", cases=5, SIM_NCCL_WRONG="4:own:7", SIM_NCCL_LATENCY_US=3000)
    print(f"wrong data that do not come again: exits {statuses}, {by.get('fault')}")
    job.check(statuses == [1] * 9 and "not known which (node3, node4, node5" in by["fault"][0]["summary"], f"{by}")
    statuses, by, _ = launched(9, 1, *ONE, "--bisect", "--limit", 2, cases=4, SIM_NCCL_HANG="4:0",
                               SIM_NCCL_LATENCY_US=3000)
    print(f"a hang that does not come again: exits {statuses}, {by['end'][0]['notes']}")
    # 3: of three groups two had a rate, too few to compare
    job.check(statuses == [3] * 9 and "fault" not in by and "did well when tried again" in by["end"][0]["notes"][0],
              f"{by}")


def few_hosts():
    """Two to six hosts: too few for groups, so all pairs; the rates of two name neither."""
    for n in (3, 4, 5, 6):
        bad = draw.randrange(n)
        statuses, by, _ = launched(n, 1, *ONE, "--bisect", "--again", 1, SIM_NCCL_SLOW=f"{bad}:100",
                                   SIM_NCCL_LATENCY_US=3000)
        found = [(f["subject"]["host"], f["kind"]) for f in by.get("fault", [])]
        print(f"{n} hosts, node{bad} slow: {found}: {by['end'][0]['notes']}")
        job.check(statuses == [1] * n and found == [(f"node{bad}", "slow")], f"{found} {by}")
        statuses, by, _ = launched(n, 1, *ONE, "--bisect", SIM_NCCL_LATENCY_US=3000)
        expect(f"{n} hosts, none bad", statuses[0], by, 0)
    statuses, by, _ = launched(4, 1, *ONE, "--bisect", SIM_NCCL_WRONG="2:reduce:3", SIM_NCCL_SLOW="0:100",
                               SIM_NCCL_LATENCY_US=3000)
    found = sorted((f["subject"]["host"], f["kind"]) for f in by.get("fault", []))
    job.check(found == [("node0", "slow"), ("node2", "corruption")], f"{found} {by}")
    statuses, by, _ = launched(3, 1, *ONE, "--bisect", "--limit", "2", SIM_NCCL_HANG="1:0")
    found = [(f["subject"]["host"], f["kind"]) for f in by.get("fault", [])]
    job.check(found == [("node1", "stalled")], f"{found} {by}")
    statuses, by, errs = launched(2, 1, *ONE, "--bisect")
    print(f"2 hosts: exits {statuses}: {errs[0].strip()}")
    job.check(statuses == [3] * 2 and "too few to compare rates" in errs[0] and "fault" not in by, f"{errs} {by}")
    statuses, by, _ = launched(2, 1, *ONE, "--bisect", SIM_NCCL_WRONG="1:own:7")
    found = [("rank" in f["subject"], f["kind"]) for f in by.get("fault", [])]  # as tests/gpu/stress_nccl.py expects
    job.check(statuses == [1] * 2 and found == [(False, "corruption")], f"2 hosts, one wrong: {found} {by}")
    statuses, by, errs = launched(5, 2, *ONE, "--bisect", SIM_NCCL_SLOW="4:100", SIM_NCCL_LATENCY_US=3000)
    job.check(statuses == [3] * 5 and "as many GPUs each" in errs[0], f"hosts of 2, 2 and 1: {statuses} {errs[0]}")
    statuses, by, errs = launched(6, 1, "--bisect", "--bytes", "1G", "--collectives", "all_reduce")
    job.check(statuses == [3] * 6 and "smaller --bytes" in errs[0], f"nothing was measured: {statuses} {errs[0]} {by}")


def few_hosts_hang():
    """A host that hangs is waited for in two pairs, and in one again; two that hang once more, with each other. So is
    the last one of an odd number: its first partner rests in the second round, and is not known to be well before."""
    for n, bad, most in ((5, 1, 3), (8, 1, 3), (8, 2, 5)):
        bad = sorted(draw.sample(range(n), bad))
        statuses, by, _ = launched(n, 1, *ONE, "--bisect", "--limit", "2",
                                   SIM_NCCL_HANG=",".join(f"{i}:0" for i in bad))
        found = [(f["subject"]["host"], f["kind"]) for f in by.get("fault", [])]
        rounds = [c for c in by["case"] if c["status"] == "hung"]
        print(f"{n} hosts, {bad} hang: {found}, {len(rounds)} pairs hung: {by['end'][0]['notes']}", flush=True)
        job.check(statuses == [1] * n and found == [(f"node{i}", "stalled") for i in bad], f"{found} {by}")
        last = n % 2 and n - 1 in bad
        job.check(len(rounds) <= len(bad) * most + last, f"{[c['group'] for c in rounds]}")


def few_hosts_late():
    """One that is well, then wrong or hangs, in the first pass or beside a slow one that is tried again."""
    for n, cases, slow in ((4, 4, {}), (5, 20, {"SIM_NCCL_SLOW": "0:100"})):
        for fault, kind in (({"SIM_NCCL_WRONG_LATE": "2:own:9"}, "corruption"),
                            ({"SIM_NCCL_HANG_LATE": "2:0"}, "stalled")):
            statuses, by, _ = launched(n, 1, *ONE, "--bisect", "--limit", "2", cases=cases, late=2, **slow, **fault,
                                       SIM_NCCL_LATENCY_US=3000)
            found = sorted((f["subject"]["host"], f["kind"]) for f in by.get("fault", []))
            print(f"{n} hosts, node2 later {fault}, {slow}: {found}: {by['end'][0]['notes']}", flush=True)
            job.check(statuses == [1] * n and found == [("node0", "slow")] * bool(slow) + [("node2", kind)],
                      f"{found} {by}")


def few_hosts_dips():
    """A disturbance over all pairs of a host that is over by the time they are tried again: notes. What comes in each
    try names it, and says how often. Wrong data are wrong, though they come once."""
    slow = dict(SIM_NCCL_LATENCY_US=3000)
    for n, tests in ((3, 2), (4, 6), (5, 10)):  # of the first pass; two cases each
        bad = draw.randrange(n) if n > 3 else 2
        statuses, by, _ = launched(n, 1, *ONE, "--bisect", cases=2 * tests, SIM_NCCL_SLOW=f"{bad}:100", **slow)
        notes = by["end"][0]["notes"]
        print(f"{n} hosts, node{bad} slow for {tests} tests: exits {statuses}, {notes}", flush=True)
        job.check(statuses == [0] * n and "fault" not in by, f"{by.get('fault')} {notes}")
        unsteady = [x for x in notes if "unsteady: " in x and " measurements, the first less than " in x]
        job.check(len(unsteady) == n - 1 and all(f"node{bad}" in x for x in unsteady), f"{notes}")
    statuses, by, _ = launched(3, 1, *ONE, "--bisect", "--again", 2, SIM_NCCL_SLOW="1:100", **slow)
    job.check("at best of 3 measurements" in by["fault"][0]["summary"] and len(by["fault"]) == 1, f"{by['fault']}")
    job.check(by["fault"][0]["subject"]["host"] == "node1" and "7 tests in 7 rounds" in by["end"][0]["notes"][0],
              f"{by['fault']} {by['end']}")
    statuses, by, _ = launched(3, 1, *ONE, "--bisect", "--limit", "2", cases=2, SIM_NCCL_HANG="2:0", **slow)
    notes = by["end"][0]["notes"]
    print(f"3 hosts, node2 hangs for two tests: exits {statuses}, {notes}")
    job.check(statuses == [0] * 3 and "fault" not in by, f"{by.get('fault')} {notes}")
    job.check(sum("failed, and passed when tried again" in x for x in notes) == 2, f"{notes}")
    statuses, by, _ = launched(6, 1, *ONE, "--bisect", "--limit", "2", cases=22, SIM_NCCL_HANG="2:0", **slow)
    notes = by["end"][0]["notes"]
    print(f"6 hosts, node2 hangs in the first pass: exits {statuses}, {notes}")
    job.check(statuses == [0] * 6 and "fault" not in by and notes[-1].endswith("27 tests in 10 rounds"), f"{by}")
    job.check(sum("failed, and passed when tried again" in x for x in notes) == 2, f"{notes}")
    statuses, by, _ = launched(3, 1, *ONE, "--bisect", cases=2, SIM_NCCL_WRONG="2:own:7", **slow)
    found = [(f["subject"]["host"], f["kind"]) for f in by.get("fault", [])]
    print(f"3 hosts, node2 wrong for two tests: exits {statuses}, {found}")
    job.check(statuses == [1] * 3 and found == [("node2", "corruption")], f"{by}")
    statuses, by, errs = launched(3, 1, *ONE, "--bisect", cases=6, end=True, SIM_NCCL_SLOW="1:100", **slow)
    print(f"a signal before it was tried again: exits {statuses}, {errs[0].strip()}, {by['end'][0].get('partial')}")
    job.check(statuses == [3] * 3 and "fault" not in by and "stopped by a signal" in by["end"][0]["partial"],
              f"{statuses} {by}")


def namespaces():
    """Hosts that are network namespaces with names of their own, and srun's variables: over TCP from rank to rank 0."""
    if os.geteuid():
        print("not root: no network namespaces")
        return
    n, bad, g = 6, draw.randrange(6), None
    with_hosts = Hosts(n, netem=True)  # a bridge is enough: no link is made bad
    try:
        g = Gpus(n, SIM_NCCL_WRONG=f"{bad}:reduce:9", SIM_NCCL_LATENCY_US=3000)
        ps = []
        for i in range(n):
            mine = dict(SLURM_PROCID=i, SLURM_STEP_NUM_TASKS=n, SLURM_LOCALID=i, SLURM_JOB_ID=77,
                        SLURM_STEP_NODELIST=with_hosts.address(0))
            command = ["ip", "netns", "exec", with_hosts.names[i], "unshare", "--uts", "sh", "-c",
                       'hostname "$0" && exec "$@"', f"gpu{i}", *argv("--json", *ONE, "--bisect")]
            ps.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       env=dict(g.env, **{k: str(v) for k, v in mine.items()})))
        outs = [p.communicate(timeout=120) for p in ps]
    finally:
        with_hosts.close()
    by = by_type(outs[0][0])
    found = [(f["subject"]["host"], f["kind"]) for f in by.get("fault", [])]
    print(f"{n} network namespaces, gpu{bad} bad: {found}")
    job.check([p.returncode for p in ps] == [1] * n and found == [(f"gpu{bad}", "corruption")], f"{found} {outs}")


def refused():
    for what, code, n, args, env, words in (
            ("one GPU", 3, 1, [], {}, ["no other GPU to communicate with"]),
            ("no library", 3, 2, ["--nccl", "/nowhere/libnccl.so"], {}, ["/nowhere/libnccl.so", "--nccl"]),
            ("no GPU", 3, 2, [], dict(SIM_CUDA_FAIL="cuInit:error=100"), ["no GPU"]),
            ("no driver", 3, 2, [], without("libcuda.so.1"), ["libcuda.so.1", "install NVIDIA's driver"]),
            ("another major version", 3, 2, [], dict(SIM_NCCL_VERSION="30100"), ["version 30100", "--nccl"]),
            ("an old driver", 3, 2, [], dict(SIM_CUDA_DRIVER_VERSION="10010"), ["440.33"]),
            ("a GPU that is not there", 2, 2, ["--gpus", "2"], {}, ["this host has 2"]),
            ("one host", 3, 2, ["--bisect"], {}, ["--bisect", "one"]),
            ("a baseline", 2, 2, ["--bisect", "--baseline", "/dev/null"], {}, ["--bisect", "a baseline is of all"]),
            ("a baseline of it", 2, 2, ["--bisect", "--save-baseline", "/nowhere/b"], {}, ["without --bisect"]),
            ("another library", 3, 2, ["--nccl", f"{SIM}/libcuda.so.1"], {}, ["has no ncclGetVersion", "--nccl FILE"]),
            ("no NVML", 3, 2, [], without("libnvidia-ml.so.1"), ["libnvidia-ml.so.1", "driver"]),
            ("gpu's option", 2, 2, ["--only", "bf16"], {}, ["--only"]),
            ("sizes", 2, 2, ["--bytes", "x"], {}, ["1K-1G"]),
            ("a launcher without a number on the host", 2, 2, [], dict(RANK=1, WORLD_SIZE=2), ["LOCAL_RANK"]),
            ("no rank 0", 3, 2, ["--limit", "0.5"],
             dict(RANK=1, WORLD_SIZE=2, LOCAL_RANK=1, MASTER_ADDR="127.0.0.1", MASTER_PORT=19999), ["19999", "--host"]),
            ("no rank 1", 3, 2, ["--limit", "1"],
             dict(RANK=0, WORLD_SIZE=2, LOCAL_RANK=0, MASTER_ADDR="127.0.0.1", MASTER_PORT=19998),
             ["rank 1 of 2 did not come"]),
            ("no such host", 2, 2, [], dict(RANK=1, WORLD_SIZE=2, LOCAL_RANK=1, MASTER_ADDR="no.such.invalid"),
             ["no.such.invalid", "--host"])):
        status, by, err = nccl(n, *(args or QUICK), **env)
        print(f"{what}: exit {status}: {err.strip().splitlines()[0] if err else by.get('end')}")
        text = err + json.dumps(by)
        job.check(status == code and all(w in text for w in words), f"{what}: exit {status}, not {code}: {text}")
    status, _, err = nccl(2, "--bytes", "1G", "--collectives", "all_reduce")
    job.check(status == 3 and "no room for two buffers of 1073741824 bytes: a smaller --bytes" in err, f"memory: {err}")
    g = Gpus(2)
    g.fault(1, LOST)
    p = subprocess.run(argv(*ONE), capture_output=True, text=True, env=g.env, timeout=60)
    job.check(p.returncode == 3 and "rank 1: GPU 1: it is lost" in p.stderr and "reset" in p.stderr, f"lost: {p}")
    g = Gpus(2)
    g.process(1, os.getpid())
    p = subprocess.run(argv(*ONE), capture_output=True, text=True, env=g.env, timeout=60)
    job.check(p.returncode == 3 and "GPU 1 is in use" in p.stderr, f"busy: {p}")


def baseline():
    g = Gpus(2, SIM_NCCL_LATENCY_US=3000)
    path = f"{g.dir}/baseline"
    args = [*ONE, "--force"]
    p = subprocess.run(argv(*args, "--save-baseline", path), capture_output=True, text=True, env=g.env, timeout=60)
    job.check(p.returncode == 0 and os.path.exists(path), f"{p}")
    p = subprocess.run(argv(*args, "--baseline", path), capture_output=True, text=True, env=g.env, timeout=60)
    job.check(p.returncode == 0 and "own baseline" in p.stdout, f"held: {p}")
    g.env["SIM_NCCL_SLOW"] = "1:40"
    status, out = dip(g, argv("--json", *args, "--baseline", path), '"case"')
    by = by_type(out)
    print(f"slower until it is measured again: exit {status}, {by['end'][0]['notes']}")
    job.check(status == 0 and "fault" not in by, f"a dip: {out}")
    job.check(len(by["case"]) == len(by["bus_rate"][0]["turns"]) >= 2, f"{by['case']} {by['bus_rate']}")
    job.check(any("unsteady: " in n for n in by["end"][0]["notes"]), f"{by['end']}")
    del g.env["SIM_NCCL_SLOW"]
    g.env["SIM_NCCL_LATENCY_US"] = "3500"
    p = subprocess.run(argv(*args, "--baseline", path), capture_output=True, text=True, env=g.env, timeout=60)
    print(f"slower than the baseline: exit {p.returncode}")
    job.check(p.returncode == 1 and "GB/s at best of 5 measurements (" in p.stdout, f"slower: {p}")


cases = (healthy, wrong, stalled, no_room, ended, signals, signals_wrong, hosts, launchers, bisect, many_hosts_rates,
         controls, few_hosts, few_hosts_hang, few_hosts_late, few_hosts_dips, namespaces, refused, baseline)
for case in [c for c in cases if not sys.argv[1:] or c.__name__ in sys.argv[1:]]:
    T = time.monotonic()
    case()
    print(case.__name__, f"{time.monotonic() - T:.1f} s")
