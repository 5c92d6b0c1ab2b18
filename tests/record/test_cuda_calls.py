# SPDX-License-Identifier: Apache-2.0
"""Every probed driver function, called a prime number of times by a program that logs its own calls: each record of the
tracer against that log, in order, with arguments, results and times. In both tiers, without return probes (the
target's seccomp filter kills it for the system call behind them), and with calls that stay open.
"""
import ctypes
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(1, sys.path[0] + "/../aid")
import cuda_program
import cuda_records
import job
import rtr

PRIMES = (2, 3, 5, 7, 11)
FLOOD = 100000  # calls in a row, for a ring of 64 KiB
START_MS = 1000 if job.LONG else 3000  # before its first call: a busy machine attaches slowly
PER_THREAD = 2  # CU_STREAM_PER_THREAD
OPEN_S = 2.5
BEGIN, END, INSTANTIATE, CLONE, LAUNCH, UPDATE, DESTROY = range(7)
WAITS = {"cuStreamSynchronize": 0, "cuEventSynchronize": 1, "cuCtxSynchronize": 2, "cuMemcpyDtoH": 3}


def probes():
    out = subprocess.run([job.RANKTRACE, "record", "--list-probes", "--json"], capture_output=True, text=True,
                         check=True)
    rows = [json.loads(line) for line in out.stdout.splitlines()]
    return {r["symbol"]: r["tier"] for r in rows if r["tracer"] == "cuda"}


def seccomp_exec(argv):
    """In the child: a filter that allows everything but the uretprobe system call, which kills."""
    class Filter(ctypes.Structure):
        _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]

    class Program(ctypes.Structure):
        _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.POINTER(Filter))]

    # A = nr; if A == 335 (uretprobe) kill the process, else allow
    rows = (Filter * 4)((0x20, 0, 0, 0), (0x15, 0, 1, 335), (0x06, 0, 0, 0x80000000), (0x06, 0, 0, 0x7fff0000))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(Program(4, rows)), 0, 0):
        sys.exit("prctl: " + os.strerror(ctypes.get_errno()))
    os.execv(argv[0], argv)


def shown(call, base, field):
    """Value of a parameter as the tracer is to tell it."""
    for name in (field, "config." + field):
        if name in call:
            v = call[name]
            return PER_THREAD if field == "stream" and not v and call["symbol"].endswith(("_ptsz", "_ptds")) else v
    return 0


def bytes_of(call):
    for struct in ("copy2d", "copy3d"):
        if struct + ".width" in call:
            return call[struct + ".width"] * call[struct + ".height"] * call.get(struct + ".depth", 1)
    for name, unit in (("n1", 1), ("n2", 2), ("n4", 4)):
        if name in call:
            return call[name] * unit
    for name, unit in (("width", 1), ("width1", 1), ("width2", 2), ("width4", 4)):
        if name in call:
            return call[name] * call["height"] * unit
    return call.get("bytes", 0)


def is_copy_to_host(call, base):
    return base == "cuMemcpyDtoH" or any(call.get(s + ".to") == 1
                                         and call.get(s + ".from") in (2, 3) for s in ("copy2d", "copy3d"))


def capture(call, base, kind, result, **words):
    return dict(kind="capture", capture=kind, fn=base, result=result,
                **{"stream": 0, "graph": 0, "exec": 0, "parent": 0, **words})


def expected(call, base, tier, returns):
    """The records that one call is to leave: lists of what they must hold."""
    result, made = call["result"], call["made"]
    stream, event, graph, exec_ = (shown(call, base, f) for f in ("stream", "event", "graph", "exec"))
    made_if = made if not result else 0
    if tier == "burst" and base.startswith(("cuLaunch", "cuMemcpy", "cuMemset")):
        return [dict(kind="launch", stream=stream, bytes=bytes_of(call), fn=base)]
    if base in WAITS or (base in ("cuMemcpy2D", "cuMemcpy2DUnaligned", "cuMemcpy3D") and is_copy_to_host(call, base)):
        sync = WAITS.get(base, 3)
        handle = stream if sync == 0 else event if sync == 1 else PER_THREAD if call["symbol"].endswith("_ptds") else 0
        both = dict(sync=sync, handle=handle, bytes=bytes_of(call), fn=base)
        return [dict(both, kind="sync_begin", result=0), dict(both, kind="sync_end", result=result if returns else -1)]
    if base in ("cuEventRecord", "cuEventRecordWithFlags", "cuStreamWaitEvent"):
        kind = "event_wait" if base == "cuStreamWaitEvent" else "event_record"
        return [dict(kind=kind, event=event, stream=stream, fn=base)]
    if base in ("cuGraphLaunch", "cuGraphDestroy", "cuGraphExecDestroy"):
        at_entry = capture(call, base, LAUNCH if base == "cuGraphLaunch" else DESTROY, -1, stream=stream, graph=graph,
                           exec=exec_)
        return [at_entry] + ([dict(kind="call", bytes=0, result=result, fn=base)] if returns else [])
    reported = result if returns else -1
    if base in ("cuStreamBeginCapture", "cuStreamBeginCaptureToGraph"):
        return [capture(call, base, BEGIN, reported, stream=stream)]
    if base == "cuStreamEndCapture":
        return [capture(call, base, END, reported, stream=stream, graph=made_if if returns else 0)]
    if base == "cuGraphExecUpdate":
        return [capture(call, base, UPDATE, reported, exec=exec_, graph=graph)]
    if not returns:
        return []
    if base.startswith("cuGraphInstantiate"):
        return [capture(call, "cuGraphInstantiate", INSTANTIATE, result, graph=graph, exec=made_if)]
    if base == "cuGraphClone":
        return [capture(call, base, CLONE, result, parent=call["parent"], graph=made_if)]
    if base == "cuEventQuery":
        return [dict(kind="query", event=event, stream=0, result=result, fn=base)]
    if base == "cuStreamQuery":
        return [dict(kind="stream_query", event=0, stream=stream, result=result, fn=base)]
    if base == "cuEventElapsedTime":
        return [dict(kind="elapsed", start=call["start"], end=call["end"], result=result,
                     ms=made / 1e6 if not result else 0)]
    return [dict(kind="call", bytes=bytes_of(call), result=result, fn=base)]


def compare(log, records, tiers, tier, returns):
    """Both in the order of one thread. Returns how much longer the tracer's calls took than the log's, in ns."""
    bases = {symbol: base for symbol, base, _ in cuda_program.functions()}
    excess, at = [], 0
    for call in log:
        if tiers[call["symbol"]] == "burst" and tier != "burst":
            continue
        for want in expected(call, bases[call["symbol"]], tiers[call["symbol"]], returns):
            job.check(at < len(records), f"no record for {call}")
            got = records[at]
            at += 1
            job.check(all(got.get(k) == v for k, v in want.items()), f"expected {want}\n     got {got}\n for {call}")
            if not returns or want["kind"] not in ("sync_end",
                                                   "call") and not (want["kind"] == "capture" and want["result"] >= 0):
                continue
            job.check(got["begin"] <= call["begin"] and got["ts"] >= call["end"], f"{got} does not span {call}")
            excess.append(got["ts"] - got["begin"] - (call["end"] - call["begin"]))
    job.check(at == len(records), f"{len(records) - at} records for no call, e.g. {records[at:at + 1]}")
    return excess


def totals_check(log, counts, tiers, flood):
    """The kernel side's own totals, whatever the ring lost."""
    burst = [c for c in log if tiers[c["symbol"]] == "burst"]
    copies = [c for c in burst if c["symbol"].startswith("cuMemcpy")]
    want = dict(launches=sum(c["symbol"].startswith("cuLaunch") for c in burst), copies=len(copies) + flood,
                copy_bytes=sum(map(bytes_of, copies)) + 3 * flood,
                sets=sum(c["symbol"].startswith("cuMemset") for c in burst))
    got = {k: counts[-1][k] for k in want} if counts else None
    job.check(got == want, f"totals: expected {want}, got {got}")


def opens_check(opens, allocated_ns):
    """cuMemAlloc was reported after 1 s; the wait behind it has its begin record, and nothing else stayed open."""
    job.check(len(opens) == 1, f"open calls reported: {opens}")
    o = opens[0]
    job.check(o["fn"] == "cuMemAlloc" and o["bytes"] == 0x77777 and o["begin"] <= allocated_ns, f"open call: {o}")
    job.check(1e9 <= o["ts"] - o["begin"] < 2e9, f"reported {(o['ts'] - o['begin']) / 1e9:.2f} s into the call")


def trace_check(path, log, bases):
    """The file is sound, and what returned is drawn once."""
    names = [bases[c["symbol"]] for c in log]
    wanted = ",".join(f"{n}={names.count(n)}"
                      for n in ("cuMemAlloc", "cuModuleLoadData", "cuMemcpyHtoD", "cuGraphLaunch"))
    out = subprocess.run([sys.executable, "tools/check_pftrace.py", "--expect-slices", wanted, path],
                         capture_output=True, text=True)
    job.check(out.returncode == 0, out.stdout + out.stderr)


def run(rng, tier, returns, extra=(), flood=0):
    with tempfile.TemporaryDirectory(prefix="ranktrace-cuda-") as d:
        tiers = probes()
        symbols = {s for s, _, _ in cuda_program.functions()}
        job.check(symbols == set(tiers), f"probed and not called, or called and not probed: {symbols ^ set(tiers)}")
        counts = {s: rng.choice(PRIMES) for s in sorted(symbols)}
        argv = [cuda_program.build(d, counts), f"{d}/log", str(START_MS), str(int(OPEN_S * 1000)), str(flood)]
        if not returns:
            argv = [sys.executable, "-B", os.path.abspath(__file__), "seccomp"] + argv
        out = subprocess.run([job.RANKTRACE, "record", "--tier", tier, "--budget=no", "-o", f"{d}/a.rtr", "-o",
                              f"{d}/a.pftrace",
                              *extra, "--exit-status=command", "--", *argv], capture_output=True, text=True,
                             timeout=120)
        job.check(out.returncode == 0, f"exit {out.returncode}: {out.stderr}")
        log = job.lines(f"{d}/log")
        job.check(len(log) == sum(counts.values()) + 3, f"{len(log)} calls logged")
        all_records = list(cuda_records.records(f"{d}/a.rtr"))
        lost = rtr.losses(f"{d}/a.rtr")
        if returns and not flood:
            trace_check(f"{d}/a.pftrace", log, {s: b for s, b, _ in cuda_program.functions()})
    opens_check([r for r in all_records if r["kind"] == "open"], log[-3]["begin"])
    if tier == "burst":
        totals_check(log, [r for r in all_records if r["kind"] == "counts"], tiers, flood)
    records = [r for r in all_records if r["kind"] not in ("open", "counts")]
    return log, records, tiers, lost


def flood_check(rng):
    """More launches than the bulk ring takes: counted all the same, reported, and no other class loses anything."""
    log, records, tiers, lost = run(rng, "burst", True, ("--ring-size", "65536"), FLOOD)
    launches = sum(r["kind"] == "launch" for r in records)
    n = sum(lost.values())
    print(f"flood: {launches} launches and copies recorded, {n} lost and reported, totals exact")
    job.check(n > FLOOD / 100, f"{n} lost, too few to prove anything")  # how many depends on how fast the collector is
    job.check(set(lost) == {rtr.RING_BULK}, f"lost in another class: {lost}")
    job.check(launches + n == FLOOD +
              sum(c["symbol"].startswith(("cuLaunch", "cuMemset")) or "cuMemcpy" in c["symbol"] and
                                           "Async" in c["symbol"] for c in log), "recorded and lost are not all")
    rest = [c for c in log if not (c["symbol"].startswith(("cuLaunch", "cuMemset", "cuMemcpy")) and
                                   tiers[c["symbol"]] == "burst")]
    compare(rest, [r for r in records if r["kind"] != "launch"], tiers, "burst", True)


def main():
    job.need_root()
    rng, _ = job.seed()
    for tier in ("trace", "burst"):
        log, records, tiers, lost = run(rng, tier, True)
        job.check(not lost, f"lost: {lost}")
        excess = compare(log, records, tiers, tier, True)
        print(f"{tier}: {len(log)} calls of {len(tiers)} functions, {len(records)} records; calls seen longer than "
              f"they were "
              f"by p50 {statistics.median(excess) / 1e3:.0f} us")
        job.check(statistics.median(excess) < 1e6, "durations are off")
    flood_check(rng)
    if platform.machine() != "x86_64" or tuple(map(int, platform.release().split(".")[:2])) < (6, 11):
        print("no uretprobe system call on this kernel: returns are probed under seccomp, too")
        return
    log, records, tiers, lost = run(rng, "trace", False)
    compare(log, records, tiers, "trace", False)
    print(f"without return probes: {len(log)} calls, {len(records)} records")


if sys.argv[1:2] == ["seccomp"]:
    seccomp_exec(sys.argv[2:])
else:
    main()
