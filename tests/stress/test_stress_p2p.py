# SPDX-License-Identifier: Apache-2.0
"""`ranktrace stress p2p` on simulated GPUs: a healthy node passes with its rates; a slow pair is named 4 of 4 (LONG=1:
10 of 10), as are wrong data, a GPU all of whose links are slow, a slow way to the host, missing NVLinks and lanes; a
dip is not; refusals."""
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job
from stress import LOST, Gpus, dip, without

draw, _ = job.seed()
RANKTRACE = os.path.abspath(job.RANKTRACE)
AGAIN = ["--again", "1"]  # of what is slow in each turn: the time of four is not needed
NVLINK_DOWN, PCIE = 1 << 5, 1 << 6


def argv(*args):
    return [RANKTRACE, "stress", "p2p", "--bytes", "1M", *map(str, args)]


def p2p(g, *args):
    p = subprocess.run(argv("--json", *args), capture_output=True, text=True, timeout=120, env=g.env)
    by = {}
    for line in map(json.loads, p.stdout.splitlines()):
        by.setdefault(line["type"], []).append(line)
    return p.returncode, by, p.stderr


def expect(what, g, code, *words, gpus=None, args=()):
    """All faults have one of the words, and are of these GPUs."""
    status, by, err = p2p(g, *args)
    faults = by.get("fault", [])
    print(f"{what}: exit {status}, {len(faults)} faults, {faults[0]['summary'][:110] if faults else err.strip()[:110]}")
    job.check(status == code, f"{what}: exit {status}, not {code}: {faults} {err}")
    job.check(all(any(w in f["summary"] for w in words) for f in faults), f"{what}: {words} not in {faults}")
    if gpus is not None:
        job.check({f["subject"]["gpu"] for f in faults} <= set(gpus) and faults, f"{what}: {faults}, not of {gpus}")
    return by


def rate(by, measure, a, b):
    return next(x["value"] for x in by["link"] if (x["measure"], x["from"], x["to"]) == (measure, a, b))


def healthy():
    for n in (2, 4):
        by = expect(f"{n} healthy", Gpus(n), 0)
        job.check(len(by["link"]) == 5 * n * (n - 1) and len(by["host_link"]) >= 2 * n, f"{len(by['link'])} links")
        # the modelled rates, without the launches: 400 GB/s, twice that, 20 through the host, 1 us
        for measure, want in (("copy engine", 400), ("both ways", 800), ("without peer access", 20), ("latency", 1000)):
            got = rate(by, measure, 0, 1)
            # through the host nothing is held until all is enqueued: the calls' own time is in it, on a busy host most
            least = 0.02 if measure == "without peer access" else 0.9
            job.check(least * want < got < 1.1 * want, f"{measure}: {got}, not {want}")
        job.check(all(v["passed"] and v["nvlinks_active"] == 18 and v["pcie_lanes"] == 16 for v in by["verdict"]),
                  f"{by['verdict']}")


def slow_pair():
    """Each is measured again; what is slow in each turn is named, however many turns there are."""
    for trial in range(10 if job.LONG else 4):
        again = ["--again", 1] if trial else []  # the first one as a user has it
        n = draw.randrange(3, 6)
        a, b = draw.sample(range(n), 2)
        percent = draw.randrange(40, 120)
        pair = (f"link GPU {a} to GPU {b},", f"link GPU {b} to GPU {a},")
        by = expect(f"{a} to {b} of {n} {percent} % slower", Gpus(n, SIM_P2P_SLOW=f"{a}-{b}:{percent}"), 1, *pair,
                    gpus=(a, b), args=again)
        turns = [len(f["turns"]) for f in by["fault"]]
        job.check(turns == [2 if trial else 5] * len(turns), f"measured {turns} times")
        job.check(any("copy engine" in f["summary"] and pair[0] in f["summary"] for f in by["fault"]), f"{by['fault']}")
    every = ",".join(f"2-{i}:60,{i}-2:60" for i in (0, 1, 3))
    expect("all links of GPU 2", Gpus(4, SIM_P2P_SLOW=every), 1, "all its links", gpus=[2], args=AGAIN)
    expect("5 % slower", Gpus(4, SIM_P2P_SLOW="0-1:4"), 0)


def dips():
    """Slow until it is measured again: no fault, and the report says what was measured. Never again: a fault."""
    for what, n, env, words in (("a link", 3, dict(SIM_P2P_SLOW="0-2:60"),
                                 "link GPU 0 to GPU 2, copy engine: unsteady: "),
                                ("the way to the host", 3, dict(SIM_HOST_SLOW="1-1:60"),
                                 "GPU 1: GPU to host, memory of node 0: unsteady: ")):
        status, out = dip(Gpus(n, **env), argv(), "below the bound")
        note = next((x for x in out.splitlines() if words in x), "")
        print(f"a dip of {what}: exit {status}: {note.strip()}")
        job.check(status == 0 and "GB/s in 2 measurements, the first less than" in note, out)
        job.check("FAILED" not in out and "!" not in out, out)
    by = expect("measured once", Gpus(3, SIM_P2P_SLOW="0-2:60"), 1, "GPU 0 to GPU 2,", "GPU 2 to GPU 0,", gpus=(0, 2),
                args=("--again", "0"))
    job.check(not any("turns" in f for f in by["fault"]), f"{by['fault']}")


def live():
    """Every 10 s a line of the GPUs; of links it has no rate."""
    p = subprocess.run(argv("--time", "11"), capture_output=True, text=True, timeout=120, env=Gpus(5).env)
    line = next((x for x in p.stdout.splitlines() if "5 GPUs" in x), "")
    print(f"live: exit {p.returncode}: {line.strip()}")
    job.check(p.returncode == 0 and line.endswith("5 GPUs, up to 62 C"), p.stdout + p.stderr)


def wrong_data():
    a, b = draw.sample(range(3), 2)
    by = expect(f"wrong from {a} to {b}", Gpus(3, SIM_P2P_WRONG=f"{a}-{b}"), 1, f"link GPU {a} to GPU {b},", gpus=[b])
    job.check({f["kind"] for f in by["fault"]} == {"corruption"}, f"{by['fault']}")
    job.check({m for f in by["fault"] for m in ("copy engine", "multiprocessors") if m in f["summary"]} ==
              {"copy engine", "multiprocessors"}, f"{by['fault']}")


def links():
    expect("no access on one pair", Gpus(4, SIM_P2P_NONE="1-3"), 1, "no peer access", "link GPU 1 to GPU 3", gpus=[1])
    a, b = sorted(draw.sample(range(4), 2))
    for a, b in (a, b), (b, a):
        expect(f"no access from {a} to {b}, injected", Gpus(4), 1, "no peer access", f"link GPU {a} to GPU {b}",
               gpus=[a], args=("--inject", f"nopeer:gpu={a},to={b}"))
    expect("the way to the host", Gpus(3, SIM_HOST_SLOW="1-1:40"), 1, "host to GPU", "GPU to host", gpus=[1],
           args=AGAIN)
    for what, bit, word in (("NVLink", NVLINK_DOWN, "17 of its NVLinks are active"), ("PCIe", PCIE, "8 lanes")):
        g = Gpus(3)
        g.fault(2, bit)
        expect(what, g, 1, word, gpus=[2])
    # no peer access at all: all copies go through the host, one of them slow in each turn
    none = ",".join(f"{a}-{b}" for a in range(3) for b in range(3) if a != b)
    expect("a host without peer access", Gpus(3, SIM_P2P_NONE=none, SIM_P2P_SLOW="0-1:80"), 0)
    expect("below the table", Gpus(2, SIM_GPU_NAME="NVIDIA H200", SIM_P2P_SLOW="0-1:40,1-0:40"), 1, "table, *H200:",
           gpus=[0, 1], args=AGAIN)
    expect("lost", Gpus(3, SIM_GPU_LOSE="1:60"), 1, "out of the test", gpus=[1])


def node_that_is_closed():
    """A cpuset without the CPUs, or the memory, of a node, where GPU 0 is: what is measured lies elsewhere, slower."""
    for cpus in ("900", "0"):  # neither that CPU nor that node is there: as if they were forbidden
        g = Gpus(3, SIM_HOST_SLOW="0-0:40")
        g.env["RANKTRACE_SYSFS"] = sysfs = f"{g.dir}/sys"
        files = {f"bus/pci/devices/0000:{0x10 + i:02x}:00.0/numa_node": 0 if i else 200 for i in range(3)}
        files.update({"devices/system/node/node0/cpulist": 0, "devices/system/node/node200/cpulist": cpus})
        for path, text in files.items():
            os.makedirs(os.path.dirname(f"{sysfs}/{path}"), exist_ok=True)
            with open(f"{sysfs}/{path}", "w") as f:
                f.write(f"{text}\n")
        by = expect("a node that is closed", g, 0, args=(*AGAIN, "--save-baseline", f"{g.dir}/links"))
        notes = by["end"][0]["notes"]
        job.check(len(notes) == 1 and "memory of node 200 is not judged: a cpuset" in notes[0], f"{notes}")
        with open(f"{g.dir}/links") as f:
            saved = f.read()
        job.check("memory of node 0" in saved and "memory of node 200" not in saved, saved)


def nvlinks_down():
    """None is active, so all copies go over PCIe, alike: a fault on a board, a note of cards, else no verdict."""
    for n, name, fabric, code in ((8, "NVIDIA B200", 3, 1), (8, "NVIDIA H100 80GB HBM3", 3, 1),
                                  (4, "NVIDIA X300", 3, 1), (4, "NVIDIA X300", 0, 3), (3, "NVIDIA RTX A6000", 0, 0)):
        every = ",".join(f"{a}-{b}:1500" for a in range(n) for b in range(n) if a != b)  # 25 GB/s
        g = Gpus(n, SIM_GPU_NAME=name, SIM_NVLINKS_DOWN="0", SIM_FABRIC=fabric, SIM_P2P_SLOW=every)
        by = expect(f"no NVLink of {n} {name}, fabric {fabric}", g, code, "none of its 18 NVLinks", args=AGAIN)
        job.check(len(by.get("fault", [])) == (n if code == 1 else 0), f"{by.get('fault')}")
        job.check(code == 1 or "active" in by["end"][0]["notes"][0], f"{by['end']}")
        job.check(all(v["passed"] == (code == 0) for v in by["verdict"]), f"{by['verdict']}")
    # three cards, of which a bridge joins two; a board of which one GPU has none
    for name, ends, code in (("NVIDIA RTX A6000", "gpus", 0), ("NVIDIA B200", "switch", 1)):
        g = Gpus(3, SIM_GPU_NAME=name, SIM_NVLINK_ENDS=ends, SIM_NVLINKS_DOWN="2")
        by = expect(f"no NVLink of one {name}", g, code, "0 of its NVLinks are active", args=AGAIN)
        notes = by["end"][0]["notes"]
        job.check(len(by.get("fault", [])) == code and len(notes) == 1 - code, f"{by}")
        job.check(all("GPU 2: 0 of its NVLinks are active, of others of its kind 18" in x for x in notes), f"{notes}")
    p = subprocess.run(argv(), capture_output=True, text=True, timeout=120,
                       env=Gpus(2, SIM_GPU_NAME="NVIDIA X300", SIM_NVLINKS_DOWN="0").env)
    job.check(p.returncode == 3 and "passed" not in p.stdout and "NVLinks of NVIDIA X300 are not judged" in p.stderr,
              p.stdout + p.stderr)


def off_in_a_virtual_machine():
    """Some GPUs of a board, passed one by one, are not judged; on the machine itself they are a fault."""
    for flags, code in (("fpu hypervisor", 3), ("fpu", 1)):
        g = Gpus(2, SIM_GPU_NAME="NVIDIA H200", SIM_NVLINKS_DOWN="0")
        g.env["RANKTRACE_CPUINFO"] = f"{g.dir}/cpuinfo"
        with open(g.env["RANKTRACE_CPUINFO"], "w") as f:
            f.write(f"processor\t: 0\nflags\t\t: {flags}\n")
        by = expect(f"NVLinks off, a CPU with {flags}", g, code, "none of its 18 NVLinks", args=AGAIN)
        job.check(code == 1 or "off in this virtual machine" in by["end"][0]["notes"][0], f"{by['end']}")


def boards_without_a_switch():
    """A pair has a part of the NVLinks there: 4 of 12, or 6 of 18, and the table's rate by as much."""
    def every(percent):
        return ",".join(f"{a}-{b}:{percent}" for a in range(4) for b in range(4) if a != b)
    for name, n, ends, percent, code, word in (("A100-SXM4-40GB", 12, "gpus", 330, 0, ""),  # 93 GB/s of 100
                                               ("H100 80GB HBM3", 18, "gpus", 190, 0, ""),  # 138 of 150
                                               ("H100 80GB HBM3", 18, "gpus", 330, 1, "NVLink, one way, 6 of 18 links"),
                                               ("A100-SXM4-40GB", 12, "switch", 330, 1, "NVLink, one way, Azure"),
                                               ("A100-SXM4-40GB", 12, "unknown", 330, 0, "")):
        g = Gpus(4, SIM_GPU_NAME=f"NVIDIA {name}", SIM_NVLINKS=n, SIM_NVLINK_ENDS=ends, SIM_P2P_SLOW=every(percent))
        by = expect(f"4 of {name}, {n} NVLinks to {ends}, {percent} % longer", g, code, word, args=AGAIN)
        notes = by["end"][0]["notes"]
        job.check(len(notes) == (ends == "unknown") and all("where its NVLinks lead" in x for x in notes), f"{notes}")


def baseline():
    """Three links alike: what they did before is what they are held to; and rounds for as long as --time says."""
    g = Gpus(3)
    path = f"{g.dir}/links"
    begin = time.monotonic()
    by = expect("a baseline of rounds", g, 0, args=("--save-baseline", path, "--time", "2"))
    job.check(time.monotonic() - begin >= 2 and len(by["link"]) == 5 * 6, f"{time.monotonic() - begin:.1f} s")
    by = expect("held", g, 0, args=("--baseline", path, "--force"))
    held = [x for x in by["link"] + by["host_link"] if x.get("measure") != "without peer access"]
    job.check(len(held) >= 4 * 6 + 6 and all("own baseline" in x["rule"] for x in held), f"{by['link'][0]}")
    job.check(not by["end"][0]["notes"], f"{by['end']}")
    every = ",".join(f"{a}-{b}:40" for a in range(3) for b in range(3) if a != b)
    by = expect("all links slower alike", Gpus(3, SIM_P2P_SLOW=every), 1, "all its links", "link GPU",
                args=("--baseline", path, *AGAIN))
    job.check(all("own baseline" in f["rule"] for f in by["fault"]), f"{by['fault']}")
    by = expect("other sizes", g, 0, args=("--baseline", path, "--force", "--bytes", "2M"))
    job.check("the baseline has no" in by["end"][0]["notes"][0], f"{by['end']}")


def refused():
    for what, code, n, env, args, words in (("one GPU", 3, 1, {}, [], "at least two"),
                                            ("no GPU", 3, 2, dict(SIM_CUDA_FAIL="cuInit:error=100"), [], "no GPU"),
                                            ("no driver", 3, 2, without("libcuda.so.1"), [],
                                             "libcuda.so.1"),
                                            ("no NVML", 3, 2, without("libnvidia-ml.so.1"), [], "libnvidia-ml.so.1"),
                                            ("no memory", 3, 2, {}, ["--bytes", "512M"], "smaller --bytes"),
                                            ("an old driver", 3, 2, dict(SIM_CUDA_DRIVER_VERSION="10010"), [],
                                             "440.33"),
                                            ("no memory in the middle", 3, 2,
                                             dict(SIM_CUDA_FAIL="cuMemAlloc_v2:after=3:error=2"), [],
                                             "smaller --bytes"),
                                            ("gpu's option", 2, 2, {}, ["--only", "bf16"], "--only"),
                                            ("gpu's fault", 2, 2, {}, ["--inject", "mem:gpu=0,at=0,bit=0"], "p2p"),
                                            ("no such GPU", 2, 2, {}, ["--inject", "nopeer:gpu=0,to=5"],
                                             "GPU 5 is not under test"),
                                            ("too small", 2, 2, {}, ["--bytes", "8"], "at least 65536"),
                                            ("a GPU that is not there", 2, 2, {}, ["--gpus", "5"], "this host has 2")):
        status, _, err = p2p(Gpus(n, **env), *args)
        print(f"{what}: exit {status}: {err.strip().splitlines()[0]}")
        job.check(status == code and words in err, f"{what}: exit {status}: {err}")
    g = Gpus(2)
    g.fault(1, LOST)
    status, _, err = p2p(g)
    job.check(status == 3 and "GPU 1: it is lost" in err and "reset" in err, f"lost before the start: {status} {err}")
    g = Gpus(2)
    g.process(0, os.getpid())
    status, _, err = p2p(g)
    job.check(status == 3 and "GPU 0 is in use" in err, f"busy: {status} {err}")
    p = subprocess.Popen(argv(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=Gpus(8).env)
    while "copy engine" not in p.stdout.readline():
        pass
    begin = time.monotonic()
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=30)
    print(f"Ctrl-C: exit {p.returncode} after {time.monotonic() - begin:.1f} s")
    job.check(p.returncode == 3 and "partial: stopped" in out and "no verdict" in err and ": passed" not in out,
              out + err)


for case in (healthy, slow_pair, dips, live, wrong_data, links, node_that_is_closed, nvlinks_down,
             off_in_a_virtual_machine, boards_without_a_switch, baseline, refused):
    case()
