# SPDX-License-Identifier: Apache-2.0
"""`ranktrace stress gpu` on simulated GPUs: a healthy node passes; each fault of a device is found, the right device is
named, where and which bit; what cannot be tested is no pass."""
import json
import sys
import threading

sys.path.insert(1, sys.path[0] + "/../aid")
import job
from stress import ECC, ROWS, THERMAL, XID, Gpus, dip

draw, _ = job.seed()
ONE = ["--only", "bf16", "--time", "0.5"]


def faults(by, *kinds):
    return [f for f in by.get("fault", []) if not kinds or f["kind"] in kinds]


def expect(what, status, by, code, gpu=None, kind=None):
    found = sorted({(f["subject"]["gpu"], f["kind"]) for f in faults(by)})
    print(f"{what}: exit {status}, {found}")
    job.check(status == code, f"{what}: exit {status}, not {code}: {by.get('end')} {found}")
    if gpu is not None:
        job.check(found and all(g == gpu for g, _ in found), f"{what}: faults of {found}, not of GPU {gpu} alone")
        job.check(any(k == kind for _, k in found), f"{what}: {found} has no {kind}")


def healthy():
    for n in (1, 3):
        status, by, err = Gpus(n).lines("--time", "3", "--seed", draw.randrange(1 << 30))
        expect(f"{n} healthy", status, by, 0)
        job.check(len(by["rate"]) == 8 * n and all(r["measured"] and r["checked"] for r in by["rate"]),
                  f"not all measured: {by['rate']}")
        shares = {r["measure"]: r["checksum_share"] for r in by["rate"] if r["measure"] != "memory"}
        job.check(shares.pop("int8") == 0 and all(0 < s < 0.9 for s in shares.values()), f"checksums: {shares}")
        job.check(all(r.get("rule", "").startswith("92 % of the median of the node's 2") for r in by["rate"]) or n == 1,
                  f"rules: {by['rate']}")
        job.check([v["passed"] for v in by["verdict"]] == [True] * n, f"verdicts: {by['verdict']}")
        job.check(by["sample"][-1]["gpus"][0]["temperature_c"] == 62, f"no health: {by['sample'][-1]}")
        job.check(not err, f"standard error: {err}")


def patterns():
    """Each memory pattern has its turn and passes on good memory."""
    status, by, _ = Gpus(1).lines("--only", "memory", "--memory", "3", "--time", "9")
    expect("all memory patterns", status, by, 0)
    job.check("partial" not in by["end"][0], f"{by['end']}")


def corruption():
    """The lowest bit of one element, in all results of one GPU or in some: by majority, by rotation, against itself."""
    for n in (1, 2, 3, 4):
        gpu, row, column, bit = draw.randrange(n), draw.randrange(64), draw.randrange(64), draw.choice([0, 0, 7, 15])
        for every in (1, 7):
            status, by, _ = Gpus(n, SIM_GEMM_FLIP=f"{gpu}:{row}:{column}:{bit}:{every}").lines(*ONE)
            kind = "disputed" if n == 1 and every == 1 else "corruption"
            expect(f"bit {bit} of ({row}, {column}) on GPU {gpu} of {n}, every {every}", status, by, 1, gpu, kind)
            places = {(f["row"], f["column"], f["bits"], f["elements"]) for f in faults(by, kind)}
            # alone and always wrong: the place and the one that has its rows when they are rotated
            own = {(row, column, hex(1 << bit), 1)}
            job.check(places == own or (kind == "disputed" and own < places), f"places: {places}")


def lanes():
    status, by, _ = Gpus(3, SIM_GEMM_LANES="1:8").lines(*ONE, "--size", "128")
    expect("every eighth row", status, by, 1, 1, "corruption")
    job.check(faults(by)[0]["row_period"] == 8 and faults(by)[0]["bits"] == "0x8", f"{faults(by)[0]}")


def memory():
    gpu, byte, bit = draw.randrange(3), draw.randrange(4 << 20), draw.randrange(8)
    status, by, _ = Gpus(3, SIM_GPU_BAD_BIT=f"{gpu}:{byte}:{bit}").lines("--only", "memory", "--time", "0.5")
    expect(f"bit {bit} of byte {byte} on GPU {gpu}", status, by, 1, gpu, "memory")
    f = faults(by, "memory")[0]
    job.check(f["address"] == byte & ~7 and f["bits"] == hex(1 << (8 * (byte & 7) + bit)), f"{f}")


def rates():
    status, by, _ = Gpus(4, SIM_GPU_SLOW="2:12").lines("--only", "bf16,memory", "--time", "1", "--again", 2)
    expect("12 % slower", status, by, 1, 2, "slow")
    job.check(all(len(f["turns"]) == 3 for f in faults(by)), f"not measured three times: {faults(by)}")
    status, by, _ = Gpus(4, SIM_GPU_SLOW="2:5").lines("--only", "bf16,memory", "--time", "1")
    expect("5 % slower: the silicon lottery", status, by, 0)
    status, by, _ = Gpus(1, SIM_GPU_NAME="NVIDIA H200").lines("--only", "bf16,memory", "--time", "1", "--again", 1)
    expect("below the table's row", status, by, 1, 0, "slow")
    rows = {r["measure"]: r.get("rule") for r in by["rate"]}
    job.check(rows["memory"].startswith("table, *H200:") and rows["bf16"] is None, f"{rows}")


def dips():
    """A GPU that is slow until its second window, which is there because the first was slow: no fault."""
    g = Gpus(4, SIM_GPU_SLOW="2:30")
    status, out = dip(g, g.argv("--json", "--only", "bf16", "--time", "0.5"), '"again"')
    by = {}
    for line in map(json.loads, out.splitlines()):
        by.setdefault(line["type"], []).append(line)
    expect("slow in one window", status, by, 0)
    job.check(any(n.startswith("GPU 2: bf16: unsteady: ") for n in by["end"][0]["notes"]), f"{by['end']}")
    turns = next(r for r in by["rate"] if r["subject"]["gpu"] == 2)
    job.check(len(turns["turns"]) >= 2 and turns["value"] == max(turns["turns"]), f"{turns}")


def lost():
    status, by, _ = Gpus(3, SIM_GPU_LOSE="1:400").lines("--only", "bf16,memory", "--time", "2")
    expect("lost in the middle", status, by, 1, 1, "lost")
    job.check(all(r["measured"] for r in by["rate"] if r["subject"]["gpu"] != 1),
              f"the others were not measured: {by['rate']}")
    job.check([v["passed"] for v in by["verdict"]] == [True, False, True], f"{by['verdict']}")
    status, by, _ = Gpus(1, SIM_GPU_LOSE="0:20").lines(*ONE)
    expect("the only one lost at once", status, by, 1, 0, "lost")


def health():
    for what, bits, kind in ((ECC, ECC, "ecc"), (ROWS, ROWS, "remapped_rows"), (XID, XID, "xid"),
                             (THERMAL, THERMAL, "throttled")):
        g = Gpus(2)
        threading.Timer(1 if kind == "ecc" else 0, g.fault, (1, bits)).start()  # what was before is not of the test
        status, by, _ = g.lines("--only", "bf16", "--time", "3")
        expect(kind, status, by, 1, 1, kind)


def unsupported():
    status, by, _ = Gpus(2, SIM_NO_FP8="1").lines("--only", "fp8,bf16", "--time", "1")
    expect("a library without fp8", status, by, 0)
    job.check([r["supported"] for r in by["rate"] if r["measure"] == "fp8"] == [False, False], f"{by['rate']}")
    status, by, err = Gpus(2, SIM_NO_FP8="1").lines("--only", "fp8", "--time", "0.5")
    expect("nothing else asked for", status, by, 3)
    job.check("--only" in err, err)


def self_test():
    p = Gpus(2).run("--self-test=1")
    print(p.stdout, end="")
    job.check(p.returncode == 0 and p.stdout.count("found there") == 6, f"exit {p.returncode}: {p.stdout}{p.stderr}")
    # a device that is bad already is said, and no fault on purpose is tried
    p = Gpus(2, SIM_GEMM_FLIP="1:5:7:0").run("--self-test=1")
    job.check(p.returncode == 1 and p.stdout.startswith("without a fault on purpose: GPU 1:"), p.stdout)


for case in (healthy, patterns, corruption, lanes, memory, rates, dips, lost, health, unsupported, self_test):
    case()
