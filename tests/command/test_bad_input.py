# SPDX-License-Identifier: Apache-2.0
"""Files and processes made to trip: ps says what stays invisible and why, record goes on. Damaged ELF and DWARF by the
thousand are tests/unit/test_target_elf.c's, processes that vanish test_churn.py's."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(1, sys.path[0] + "/../aid")
import job

SIM = os.path.join(os.path.realpath(job.O), "lib/ranktrace/sim")
NCCL = os.path.realpath(f"{SIM}/libnccl.so.2")
# Maps a file executable (no loader would take it), then waits.
MAPS = """import mmap, os, sys, time
f = os.open(sys.argv[1], os.O_RDONLY)
m = mmap.mmap(f, 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
print("ready", flush=True); time.sleep(100)"""
# Loads the library, becomes another user and forbids to be sampled.
HIDES = """import ctypes, os, sys, time
ctypes.CDLL(sys.argv[1]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
print("ready", flush=True); time.sleep(100)"""

job.need_root()
folder = tempfile.mkdtemp(prefix="ranktrace-bad-")
job.dirs.append(folder)
os.chmod(folder, 0o755)
running = []


def written(name, data):
    with open(f"{folder}/{name}", "wb") as f:
        f.write(data)
    return f"{folder}/{name}"


def start(argv, rank):
    env = dict(os.environ, RANK=str(rank), WORLD_SIZE="8", TORCHELASTIC_RUN_ID=f"bad-{os.getpid()}")
    p = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env)
    running.append(p)
    job.check(p.stdout.readline() == "ready\n", f"{argv} did not start")
    return p.pid


def shown():
    out = subprocess.run([job.RANKTRACE, "ps", "--json"], capture_output=True, text=True, timeout=30)
    job.check(out.returncode == 0, f"ps: {out.returncode} {out.stderr}")
    return {p["pid"]: p for p in map(json.loads, out.stdout.splitlines())}


def expect(all_shown, pid, what, text):
    why = all_shown[pid]["invisible"] if pid in all_shown else "(not listed)"
    print(f"{what}: {why}")
    job.check(text in why, f"{what}: expected '{text}', ps says '{why}'")


try:
    whole = open(NCCL, "rb").read()
    foreign = bytearray(whole)
    foreign[18:20] = (183).to_bytes(2, "little")  # EM_AARCH64; on arm64 this test's file would be our own
    if os.uname().machine == "aarch64":
        foreign[18:20] = (62).to_bytes(2, "little")
    headers = bytearray(whole[:4096])
    headers[32:40] = (1 << 40).to_bytes(8, "little")  # program headers far behind the end
    pids = {"foreign": start([sys.executable, "-c", MAPS, written("libnccl-arm.so", bytes(foreign))], 0),
            "cut": start([sys.executable, "-c", MAPS, written("libnccl-cut.so", whole[:5000])], 1),
            "headers": start([sys.executable, "-c", MAPS, written("libnccl-far.so", bytes(headers))], 2),
            "hides": start([sys.executable, "-c", HIDES, NCCL], 3)}
    source = written("static.c", b"#include <stdio.h>\n#include <unistd.h>\nint ncclAllReduce(void) { return 1; }\n"
                                 b"int main(void) { puts(\"ready\"); fflush(stdout); pause(); return ncclAllReduce(); "
                                 b"}\n")
    if subprocess.run(["cc", "-static", "-s", "-o", f"{folder}/stripped", source],
                      stderr=subprocess.DEVNULL).returncode == 0:
        pids["stripped"] = start([f"{folder}/stripped"], 4)
    seen = shown()
    expect(seen, pids["foreign"], "another machine's library", "libnccl-arm.so: built for another machine")
    expect(seen, pids["cut"], "a library cut short", "libnccl-cut.so: damaged or cut short")
    expect(seen, pids["headers"], "headers that point nowhere", "libnccl-far.so: damaged or cut short")
    if "stripped" in pids:
        expect(seen, pids["stripped"], "a static program without symbols", "is stripped")
    hidden = seen.get(pids["hides"])
    job.check(hidden and hidden["rank"] == 3 and any("nccl" in lib["tracers"] for lib in hidden["libs"]),
              f"another user's process that cannot be dumped: {hidden}")
    out = subprocess.run([job.RANKTRACE, "record", "-v", "--duration", "2", *(f"--pid={p}" for p in pids.values())],
                         capture_output=True, text=True, timeout=60)
    print(out.stderr.strip())
    job.check(out.returncode == 0, f"record: {out.returncode} {out.stderr}")
    job.check(f"{len(pids)} processes" in out.stderr, f"record did not take them all: {out.stderr}")
finally:
    for p in running:
        p.kill()
        p.wait()
