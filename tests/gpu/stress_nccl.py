# SPDX-License-Identifier: Apache-2.0
"""`ranktrace stress nccl` on real GPUs (two or more), beside nccl-tests where they are built: busbw in turns A B A B,
all types checked, exit codes, nothing left. NCCL_TESTS=folder of all_reduce_perf and the like, NCCL=libnccl.so.2.

A reduction with one wrong element comes from doctored_nccl.c, and from each GPU as a host of its own (--bisect). RANKS:
more hosts than GPUs, which share them, for bisect; TRIALS (1): how often.

    python3 tests/gpu/stress_nccl.py [correct rates codes launched doctored bisect]

rates: ITERATIONS (400) of each size, TURNS (2) times each; medians. Sizes: 1, 16 and 256 MiB, or 1 MiB alone with
SMALL=1. COLLECTIVES=a,b (default: all). PROCESSES=1: nccl-tests as a process for each GPU, as ours is; they were built
with -DMPI_SUPPORT=1 and the folder mpi then."""
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time

from gpujob import mpi_run, shared_gpu

RANKTRACE = os.environ.get("RANKTRACE", "build/gpu/ranktrace")
OUT = os.environ.get("OUT", "/tmp/stress-nccl")
TESTS = os.environ.get("NCCL_TESTS", "nccl-tests/build")
LIBRARY = ["--nccl", os.environ["NCCL"]] if "NCCL" in os.environ else []
PROGRAMS = dict(all_reduce="all_reduce", all_gather="all_gather", reduce_scatter="reduce_scatter",
                broadcast="broadcast", reduce="reduce", alltoall="alltoall", sendrecv="sendrecv")
SIZES, SIZES_THEIRS = "1M-256M:16", ("-b", "1M", "-e", "256M", "-f", "16")
if "SMALL" in os.environ:  # 1 MiB alone; theirs walks over buffers of its largest size
    SIZES, SIZES_THEIRS = "1M", ("-b", "1M", "-e", "128M", "-f", "128")
ITERATIONS = os.environ.get("ITERATIONS", "400")
TURNS = int(os.environ.get("TURNS", 2))
GPUS = len(subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.splitlines())
N = int(os.environ.get("RANKS", GPUS))


def row(*words):
    print(*words, flush=True)


def stress(name, *args, env=None, timeout=240):
    begin = time.monotonic()
    p = subprocess.run([RANKTRACE, "stress", "nccl", *LIBRARY, *args], capture_output=True, text=True, timeout=timeout,
                       env=dict(os.environ, **(env or {})))
    with open(f"{OUT}/{name}.txt", "w") as f:
        f.write(p.stdout + p.stderr)
    return p.returncode, p.stdout, p.stderr, time.monotonic() - begin


def lines(out, kind):
    """Beside them stands what a run says that could not test."""
    return [x for x in map(json.loads, (x for x in out.splitlines() if x.startswith("{"))) if x["type"] == kind]


def expect(what, want, got, text):
    row("ok  " if want == got else "BAD ", what, "exit", got, text.strip()[:300])


def correct():
    status, out, err, s = stress("correct", "--json", "--types", "all", "--bytes", "8-64M:64", "--iterations", "5")
    cases = lines(out, "case")
    bad = [c for c in cases if c["status"] != "done" or c["wrong"]]
    checked = sum(c.get("checked", 0) for c in cases)
    expect(f"{len(cases)} cases of all types, {checked:.3g} elements checked, {s:.0f} s", 0, status, f"{bad[:3]} {err}")


def theirs(program):
    """{size in bytes: (bus bandwidth out of place, in place)} of nccl-tests: a thread a GPU, since one thread that
    launches for all takes longer than the smaller operations (PROCESSES=1: a process, as ours); so many that launch and
    wait at their ends do not count; not as graphs, for which NCCL registers the buffers and takes other ways"""
    argv = [f"{TESTS}/{program}_perf", *SIZES_THEIRS, "-g1", "-n", ITERATIONS, "-w5"]
    if "PROCESSES" in os.environ:
        out = mpi_run(argv, N, stdout=subprocess.PIPE, text=True, timeout=240).stdout
    else:
        out = subprocess.run([*argv, "-t", str(N)], capture_output=True, text=True, timeout=240).stdout
    with open(f"{OUT}/{program}-theirs.txt", "a") as f:
        f.write(out)
    rows = [x.split() for x in out.splitlines() if re.match(r"\s*\d+\s+\d+", x)]
    return {int(x[0]): (float(x[7]), float(x[11]) if x[11] != "N/A" else None) for x in rows}


def rates():
    row("collective, bytes, out or in place: ours A, A | theirs B, B | ratio of medians; own spread of A, of B;",
        "the bar is 0.98 to 1.02 from 1 MB on")
    for name in os.environ.get("COLLECTIVES", ",".join(PROGRAMS)).split(","):
        program, ours, others = PROGRAMS[name], {}, {}
        for turn in range(TURNS):
            _, out, _, _ = stress(f"{name}-{turn}", "--json", "--force", "--collectives", name, "--types", "fp32",
                                  "--bytes", SIZES, "--iterations", ITERATIONS)
            for c in lines(out, "case"):
                ours.setdefault((c["in_place"], c["bytes"]), []).append(c["busbw_gbytes_s"])
            for size, got in (theirs(program) if os.path.exists(f"{TESTS}/{program}_perf") else {}).items():
                for place, value in enumerate(got):
                    if value:
                        others.setdefault((bool(place), size), []).append(value)
        for key, mine in ours.items():
            b = others.get(key)
            row(f"{name:15}{key[1]:>11} {'in ' if key[0] else 'out'}", *(f"{x:8.2f}" for x in mine), "|",
                *(f"{x:8.2f}" for x in b or []),
                f"| {statistics.median(mine) / statistics.median(b):.4f}; {spread(mine)}, {spread(b)}" if b else "")


def spread(values):
    """The largest of some runs of one tool to the smallest."""
    return f"{max(values) / min(values):.3f}"


def codes():
    quick = ["--bytes", "1M", "--collectives", "all_reduce", "--force"]
    for what, want, args, env in (("no library", 3, ["--nccl", "/nowhere/libnccl.so.2"], {}),
                                  ("one GPU", 3, ["--gpus", "0"], {}),
                                  ("a GPU that is not there", 2, ["--gpus", "63"], {}),
                                  ("one host", 3, ["--bisect"], {}),
                                  ("no GPU", 3, [], {"CUDA_VISIBLE_DEVICES": ""})):
        status, _, err, _ = stress("codes", *quick, *args, env=env)
        expect(what, want, status, err)
    left = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,name", "--format=csv,noheader"], capture_output=True,
                          text=True).stdout
    row("left on the GPUs:", left.strip() or "nothing")


def by_torchrun(*args, hosts=1, bad=None, **env):
    """Started as torchrun does, rank 0's process leads, the others join: (exit statuses, what rank 0 printed). hosts:
    to NCCL and the test each GPU is on one of its own, over sockets. bad: a rank with the doctored library's fault."""
    ps = []
    for i in range(N):
        mine = dict(RANK=i, WORLD_SIZE=N, LOCAL_RANK=i % GPUS, LOCAL_WORLD_SIZE=N // hosts, MASTER_ADDR="127.0.0.1",
                    MASTER_PORT=29600)
        if hosts > 1:
            mine.update(shared_gpu(i))
        if i == bad:
            mine.update(DOCTORED_GPU=i % GPUS)
        ps.append(subprocess.Popen([RANKTRACE, "stress", "nccl", *args, "--force"], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True,
                                   env=dict(os.environ, **{k: str(v) for k, v in (mine | env).items()})))
    outs = [p.communicate(timeout=240)[0] for p in ps]
    return [p.returncode for p in ps], outs[0]


def launched():
    statuses, out = by_torchrun(*LIBRARY, "--bytes", "64M")
    expect("by torchrun's variables", [0] * N, statuses, out.splitlines()[-1])


def doctored_library():
    home = os.path.dirname(os.environ["NCCL"])
    made = f"{OUT}/libdoctored.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", made, os.path.join(os.path.dirname(__file__), "doctored_nccl.c"),
                    "-Wl,--no-as-needed", f"-L{home}", "-l:libnccl.so.2", f"-Wl,-rpath,{home}", "-ldl"], check=True)
    return ["--nccl", made]


ONE_CASE = ("--json", "--collectives", "all_reduce", "--types", "fp32", "--bytes", "1M")


def doctored(trials=10):
    """One wrong element on a GPU drawn for each trial."""
    library, draw, right = doctored_library(), random.Random(int(os.environ.get("SEED", 1))), 0
    status, out = None, ""
    for i in range(trials):
        bad = draw.randrange(N)
        p = subprocess.run([RANKTRACE, "stress", "nccl", *library, *ONE_CASE, "--force"], capture_output=True,
                           text=True, timeout=120, env=dict(os.environ, DOCTORED_GPU=str(bad)))
        status, out = p.returncode, p.stdout
        gpus = {f["subject"].get("gpu") for f in lines(out, "fault")}
        right += status == 1 and (gpus == {bad} or N == 2 and gpus <= {bad, None})
        if gpus != {bad}:
            row(f"     trial {i}: GPU {bad} is wrong, named {gpus}", *(f["summary"] for f in lines(out, "fault")),
                p.stderr.strip()[:300])
    row("ok  " if right == trials else "BAD ", f"one wrong element: found on its GPU {right} of {trials}")
    row("    ", *(f["summary"] for f in lines(out, "fault")))


def blamed(fault):
    """The host of a fault of a rank; None: of no single one. Such a line names the host that wrote it."""
    return fault["subject"]["host"] if "rank" in fault["subject"] else None


def bisect():
    """Each GPU is a host; the one with the doctored library is bad. Two have one pair: it fails without saying whose
    fault it is, and its rate has no other to compare with, so that none bad is no pass."""
    library, draw = doctored_library(), random.Random(int(os.environ.get("SEED", 1)))
    for _ in range(int(os.environ.get("TRIALS", 1))):
        begin, bad = time.monotonic(), draw.randrange(N)
        statuses, out = by_torchrun(*library, *ONE_CASE, "--bisect", hosts=N, bad=bad)
        found = [(blamed(f), f["kind"]) for f in lines(out, "fault")]
        expect(f"--bisect, node{bad} is bad, {time.monotonic() - begin:.0f} s",
               [[1] * N, [(f"node{bad}" if N > 2 else None, "corruption")]], [statuses, found],
               "; ".join(lines(out, "end")[-1].get("notes", [])))
        begin = time.monotonic()
        statuses, out = by_torchrun(*LIBRARY, *ONE_CASE, "--bisect", hosts=N)
        expect(f"--bisect, none is bad, {time.monotonic() - begin:.0f} s", [3 if N == 2 else 0] * N, statuses,
               out.splitlines()[-1])


def main():
    os.makedirs(OUT, exist_ok=True)
    parts = {"correct": correct, "rates": rates, "codes": codes, "launched": launched, "doctored": doctored,
             "bisect": bisect}
    for name in sys.argv[1:] or parts:
        print(f"--- {name}", flush=True)
        try:
            parts[name]()
        except Exception as e:  # the other parts are of use all the same
            row(f"BAD  {name}: {type(e).__name__}: {e}")


main()
