# SPDX-License-Identifier: Apache-2.0
"""Parts of run.py that put no probe into the job: the autopsy of one that hangs, tier watch, NVML's activity, XIDs."""
import collections
import ctypes
import glob
import json
import math
import os
import random
import signal
import statistics
import struct
import subprocess
import sys
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "aid"))
import cost  # noqa: E402
import rtr  # noqa: E402
from gpujob import GPUS, OUT, RANKTRACE, TRAIN, end, fault_line, findings, rank_pids, record, say, start, step_times

EVER = 1 << 62
VICTIM = GPUS - 1
# All data over loopback sockets: every transfer passes the proxy threads
SOCKETS = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "lo"}


def train_line(text):
    """The line of train.py that holds this text, as a Python frame shows it."""
    return next(i for i, line in enumerate(open(TRAIN), 1) if text in line)


def stop_rank(tag):
    os.kill(rank_pids(tag)[VICTIM], signal.SIGSTOP)


def wait_fault(tag, limit_s=60):
    for _ in range(limit_s * 10):
        if fault_line(tag)[0]:
            return
        time.sleep(0.1)
    raise SystemExit(f"{tag}: no fault came")


def proxy_tid(pid):
    """Its NCCL progress thread, which has no name of its own: beside the main thread the one that works most."""
    def worked(tid):
        return int(open(f"/proc/{pid}/task/{tid}/stat").read().rsplit(")", 1)[1].split()[11])
    before = {t: worked(t) for t in os.listdir(f"/proc/{pid}/task") if int(t) != pid}
    time.sleep(1)
    return int(max(before, key=lambda t: worked(t) - before[t]))


def starve_proxy(tag):
    """Its progress thread at idle priority on a core that three spinning processes have. Gives them, to be ended."""
    tid, core = proxy_tid(rank_pids(tag)[VICTIM]), max(os.sched_getaffinity(0))
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    for h in hogs:
        os.sched_setaffinity(h.pid, {core})
        os.setpriority(os.PRIO_PROCESS, h.pid, -20)
    os.sched_setscheduler(tid, os.SCHED_IDLE, os.sched_param(0))
    os.sched_setaffinity(tid, {core})
    print(json.dumps({"proxy_tid": tid, "comm": open(f"/proc/{tid}/comm").read().strip()}), file=sys.stderr)
    return hogs


def look(tag, job, *args):
    """One autopsy: findings, seconds, what it printed for people (of a second one)."""
    begin = time.monotonic()
    out = subprocess.run([RANKTRACE, "autopsy", "--json", "-o", f"{OUT}/{tag}.rtr", "--pid", str(job.pid), *args],
                         capture_output=True, text=True, timeout=60)
    wall = time.monotonic() - begin
    text = subprocess.run([RANKTRACE, "autopsy", "--pid", str(job.pid), *args], capture_output=True, text=True,
                          timeout=60)
    found = [f for f in findings(out.stdout) if f["kind"] != "observation"]
    return found, wall, text.stdout.splitlines(), out.stderr.splitlines()[-4:]


SHOWN = ("python", "native_frame", "kernel_wait", "waiting_in", "side", "sender", "receiver", "channel", "sent",
         "received", "tid",
        "comm_one_of", "runqueue_wait_share", "stack_unread")


def autopsy(tag, classes, *args, inject=wait_fault, python=None, env=None, causes=None, wait_s=4):
    """The job hangs first; the command comes after. It must name rank VICTIM with one of these classes, no other rank,
    and the Python line its main thread is in (None: any)."""
    job = start(tag, "--seconds", 120, *args, env=env)
    time.sleep(1)
    hogs = inject(tag) or []
    time.sleep(wait_s)
    found, wall, text, err = look(tag, job)
    for h in hogs:
        h.kill()
    end(job)
    first = found[0] if found else None
    e = first["evidence"] if first else {}
    right = bool(first) and all(f["ranks"] == [VICTIM] for f in found) and first["class"] in classes
    right = right and (python is None or python in e.get("python", "")) and (causes is None or first["cause"] in causes)
    say(tag, right=right, wall_s=round(wall, 3),
        named=first and [first["kind"], first["class"], first["cause"], *first["ranks"]],
        at=first and [first["comm"], first["op"], first["seq"], first["confidence"]],
        told={k: e[k] for k in SHOWN if k in e}, python_expected=python, stack=e.get("stack", "")[:700],
        others=found[1:], text=text[:30], stderr=err, fault=fault_line(tag)[0])


def autopsy_healthy(tag, *args, env=None):
    job = start(tag, "--seconds", 40, *args, env=env)
    time.sleep(1)
    found, wall, text, err = look(tag, job)
    end(job)
    say(tag, right=not found, wall_s=round(wall, 3), findings=found, text=text[:12], stderr=err)


class Watch:
    """ranktrace watch beside a job."""

    def __init__(self, tag, job, *args):
        self.err = f"{OUT}/{tag}.err"
        self.process = subprocess.Popen([RANKTRACE, "watch", "--json", "-o", f"{OUT}/{tag}.rtr", "-o",
                                         f"{OUT}/{tag}.pftrace", f"--flight={OUT}/{tag}.flight",
                                         "--pid", str(job.pid), *args], stdout=subprocess.PIPE,
                                        stderr=open(self.err, "w"), text=True)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        reported = findings(self.process.communicate(timeout=60)[0])
        self.newest = {f["id"]: f for f in reported if f["phase"] != "close"}
        return [f for f in reported if f["phase"] == "open"]


def watch(tag, *args, inject=None, hang_class=None, seconds=12):
    """Watched from before the fault; nobody is probed until it is found. Without a fault: silence, and what it
    costs."""
    job = start(tag, "--seconds", 120, *args)
    w = Watch(tag, job, *([] if hang_class else ["--no-raise"]))
    with cost.bpf_stats():
        time.sleep(6)
        used, bpf, t0 = cost.cpu_s(w.process.pid), cost.bpf_run(w.process.pid), time.monotonic()
        begin = time.monotonic_ns()
        if inject:
            inject(tag)
            begin = fault_line(tag)[1] or time.monotonic_ns()
        time.sleep(seconds)
        span, used_end, bpf_end = time.monotonic() - t0, cost.cpu_s(w.process.pid), cost.bpf_run(w.process.pid)
    percent = {name: round(100 * (used_end[name] - used[name]) / span, 3) for name in used_end}
    resident = cost.status_kib(w.process.pid, "VmHWM")
    found = w.stop()
    end(job)
    first = next((f for f in found if f["kind"] == "hang"), None)
    others = [f for f in found if f is not first
              and f["kind"] not in ("observation", "slow_step") and not f["caused_by"]]
    right = not others and ((first["class"] == hang_class and first["ranks"] == [VICTIM]) if first and hang_class
                            else not first and not hang_class)
    say(tag, right=right, named=first and [first["class"], first["cause"], *first["ranks"], first["op"], first["seq"]],
        after_s=first and (first["t_ns"] - begin) / 1e9, others=others, cpu_percent=percent,
        bpf_percent=round(100 * (bpf_end[0] - bpf[0]) / span, 3), bpf_runs_a_s=round((bpf_end[1] - bpf[1]) / span, 1),
        probe_hits=bpf_end[2] - bpf[2] if not hang_class else None, resident_mib=round(resident / 1024, 1),
        fault=fault_line(tag)[0],
        told={k: v for k, v in w.newest[first["id"]]["evidence"].items() if k in SHOWN} if first else None,
        stderr=open(w.err).read().splitlines()[-4:])


def interval(ratios):
    """Mean of the logs and its 95 % interval, as ratios (bootstrap, fixed seed)."""
    rng, logs = random.Random(1), [math.log(r) for r in ratios]
    means = sorted(statistics.fmean(rng.choices(logs, k=len(logs))) for _ in range(4000))
    return [round(math.exp(x), 5) for x in (statistics.fmean(logs), means[100], means[3899])]


def page_tables(tag):
    """Of all ranks together, KiB."""
    return sum(cost.status_kib(p, "VmPTE") for p in rank_pids(tag).values())


def window_of(tag, seconds):
    """Median step time, and by how much the page tables grew meanwhile."""
    begin, kib = time.monotonic_ns(), page_tables(tag)
    time.sleep(seconds)
    return statistics.median(step_times(tag, begin, time.monotonic_ns())), page_tables(tag) - kib


def window_on(tag, job, command, seconds):
    """The same beside watch (its start is outside of the step times, not of the page tables), beside one autopsy after
    another, or beside nothing (sham), after as long a wait."""
    kib = page_tables(tag)
    if command == "autopsy":
        shell = subprocess.Popen(["sh", "-c", f"while :; do {RANKTRACE} autopsy --pid {job.pid} -P 0; done"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    w = Watch(tag, job, "--no-raise") if command == "watch" else None
    time.sleep(3)
    step, _ = window_of(tag, seconds)
    if w:
        w.stop()
    elif command == "autopsy":
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
    return step, page_tables(tag) - kib


def untouched(tag, *args, command, rounds=int(os.environ.get("ROUNDS", "20")), window=2.0):
    """Windows of the step time in pairs that differ in one thing only: off/sham (the control) and off/on, each pair in
    one order in even rounds and in the other in odd ones, the two pairs likewise."""
    job = start(tag, "--seconds", 590, *args)
    time.sleep(3)
    ratios, base, grown = {"sham": [], command: []}, [], {"sham": [], command: []}

    def off():
        step, _ = window_of(tag, window)
        base.append(step / 1e6)
        return step

    def on(what):
        step, kib = window_on(tag, job, what, window)
        grown[what].append(kib)
        return step

    for i in range(rounds):
        for what in ("sham", command) if i // 2 % 2 else (command, "sham"):
            if i % 2:
                first = off()
                ratios[what].append(on(what) / first)
            else:
                first = on(what)
                ratios[what].append(first / off())
    end(job)
    a_a, on_off = interval(ratios["sham"]), interval(ratios[command])
    say(tag, step_ms=statistics.median(base), a_a=a_a, on_off=on_off,
        medians={k: round(statistics.median(v), 5) for k, v in ratios.items()},
        width=[round(x[2] - x[1], 5) for x in (a_a, on_off)], contains_1=on_off[1] <= 1 <= on_off[2],
        page_tables_grew_kib={k: sorted(v) for k, v in grown.items()},
        all={k: [round(r, 4) for r in v] for k, v in ratios.items()})


def gpu_facts(tag):
    """What the recording holds of each GPU: (kind, time, fields)."""
    shapes = {18: ("IIQIIIII", ("index", "n_gpus", "pci", "pcie_width_max", "pcie_gen_max", "power_limit_mw",
                                "sm_clock_max_mhz", "n_nvlinks")),
              19: ("IIQIIIIIIIIQ", ("index", "cost_us", "window_ns", "sm", "tensor", "dram", "occupancy", "power_mw",
                                    "temperature_c",
                                   "sm_clock_mhz", "mem_clock_mhz", "slowdown")),
              20: ("II8Q9I", ("index", "cost_us", "ecc_corrected", "ecc_uncorrected", "ecc_corrected_ever",
                              "ecc_uncorrected_ever",
                              "nvlink_crc", "nvlink_replay", "nvlink_recovery", "pcie_replay", "rows_corrected",
                              "rows_uncorrected",
                              "rows_pending", "rows_failed", "pages_pending", "inforom_bad", "nvlinks_active",
                              "pcie_width", "pcie_gen")),
              21: ("II", ("index", "n")), 22: ("IIQ", ("index", "state", "since_ns"))}
    for tracer, kind, _, ts, body in rtr.records(f"{OUT}/{tag}.rtr"):
        if tracer == 0 and kind in shapes:
            shape, names = shapes[kind]
            yield kind, ts, dict(zip(names, struct.unpack_from("<" + shape, body)))


def activity(tag, begin_ns, end_ns):
    """Medians of SM and tensor activity and of power, a GPU each."""
    looks = collections.defaultdict(list)
    for kind, ts, f in gpu_facts(tag):
        if kind == 19 and f["window_ns"] and begin_ns <= ts - f["window_ns"] and ts <= end_ns:
            looks[f["index"]].append((f["sm"] / 100, f["tensor"] / 100, f["power_mw"] / 1000))
    return {i: [round(statistics.median(v), 1) for v in zip(*looks[i])] + [len(looks[i])] for i in sorted(looks)}


DUTY_JOB = ("--bf16", "--batch", 4096, "--width", 8192, "--layers", 10)
DUTY_AT = 25


def duty(tag, fault=None, named=True):
    """No probe: attached to the running job, whose one rank (all, or nobody) does more work from then on. `named`: that
    rank must be, within 10 s; else nobody may."""
    victim = GPUS - 1
    args = [f"--fault={fault.format(rank=victim)},at={DUTY_AT}"] if fault else []
    job = start(tag, "--seconds", 60, *DUTY_JOB, *args)
    out = subprocess.run(record(tag, "--tier", "watch", "--pid", str(job.pid), "--duration", "45"), capture_output=True,
                         text=True, timeout=100)
    end(job)
    reported, begin = fault_line(tag)
    found = [f for f in findings(out.stdout) if f["phase"] == "open" and f["kind"] not in ("slow_step", "observation")]
    first = next((f for f in found if f["kind"] == "straggler"), None)
    after = first and (first["t_ns"] - begin) / 1e9
    say(tag, right=bool(first) and first["ranks"] == [victim] and after <= 10 if named else not found,
        named=first and first["ranks"],
        after_s=after if begin else None,
        sm_tensor_power_looks={"before": activity(tag, 0, begin or EVER),
                               "after": activity(tag, begin, EVER) if begin else None},
        step_ms=[statistics.median(step_times(tag, a, b)) / 1e6 for a, b in ((0, begin or EVER), (begin, EVER))],
        finding=first, others=[f for f in found if f is not first], fault=reported, stderr=out.stderr.splitlines()[-5:])


def duty_spin(tag):
    probe = start(f"{tag}-probe", "--seconds", 6, *DUTY_JOB)
    probe.wait(60)
    ms = statistics.median(step_times(f"{tag}-probe", 0, EVER)) / 1e6 * 0.2
    duty(tag, f"spin:rank={{rank}},ms={ms}", named=False)


def nvml():
    """Which fields the driver tells, who computes where, and what a look costs."""
    tag = "nvml"
    job = start(tag, "--seconds", 40, *DUTY_JOB)
    out = subprocess.run(record(tag, "--tier", "watch", "--pid", str(job.pid), "--duration", "25"), capture_output=True,
                         text=True, timeout=80)
    ranks = rank_pids(tag)
    end(job)
    newest, costs = {}, collections.defaultdict(list)
    for kind, _, f in gpu_facts(tag):
        newest[f"{ {18: 'device', 19: 'sample', 20: 'health', 21: 'procs', 22: 'state'}[kind]}"] = f
        if "cost_us" in f:
            costs[kind].append(f["cost_us"])
    unknown = sorted(f"{what}.{name}"
                     for what, f in newest.items() for name, v in f.items() if v in (0xffffffff, (1 << 64) - 1))
    found = [f for f in findings(out.stdout) if f["phase"] == "open"]
    say(tag, fields=newest, not_told=unknown, ranks=ranks, findings=found, silent=not found,
        cpu_us_a_look_and_gpu={name: costs[k] and {"median": statistics.median(costs[k]), "max": max(costs[k]),
                                                   "n": len(costs[k])}
                               for k, name in ((19, "activity"), (20, "health"))},
        stderr=out.stderr.splitlines()[-5:])


def nvml_cost():
    """CPU and wall time of each question to the driver, medians of 5, in microseconds."""
    lib = ctypes.CDLL("libnvidia-ml.so.1")
    lib.nvmlInit_v2()
    gpu, n, pair, buffer = ctypes.c_void_p(), ctypes.c_uint(), ctypes.c_ulonglong(), ctypes.create_string_buffer(4096)
    lib.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(gpu))

    def fields(*ids):
        for i, field in enumerate(ids):
            struct.pack_into("<II", buffer, 40 * i, field, 0xffffffff)
        return lambda: lib.nvmlDeviceGetFieldValues(gpu, len(ids), buffer)

    def processes():
        n.value = 64
        return lib.nvmlDeviceGetComputeRunningProcesses_v3(gpu, ctypes.byref(n), buffer)

    by = ctypes.byref
    calls = {
        "ecc": lambda: lib.nvmlDeviceGetTotalEccErrors(gpu, 0, 0, by(pair)),
        "rows": lambda: lib.nvmlDeviceGetRemappedRows(gpu, by(n), by(n), by(n), by(n)),
        "pages": lambda: lib.nvmlDeviceGetRetiredPagesPendingStatus(gpu, by(n)), "fields crc": fields(38, 45),
        "fields replay": fields(52),
        "fields recovery": fields(59), "fields of four": fields(38, 45, 52, 59), "fields ecc": fields(3, 4, 5, 6),
        "fields rows": fields(142, 143, 144, 145),
        "link state": lambda: lib.nvmlDeviceGetNvLinkState(gpu, 3, by(n)),
        "link replay": lambda: lib.nvmlDeviceGetNvLinkErrorCounter(gpu, 3, 0, by(pair)),
        "pcie replay": lambda: lib.nvmlDeviceGetPcieReplayCounter(gpu, by(n)),
        "pcie width": lambda: lib.nvmlDeviceGetCurrPcieLinkWidth(gpu, by(n)),
        "inforom": lambda: lib.nvmlDeviceValidateInforom(gpu), "processes": processes,
        "power": lambda: lib.nvmlDeviceGetPowerUsage(gpu, by(n)),
        "temperature": lambda: lib.nvmlDeviceGetTemperature(gpu, 0, by(n)),
        "clock": lambda: lib.nvmlDeviceGetClockInfo(gpu, 1, by(n)),
        "reasons": lambda: lib.nvmlDeviceGetCurrentClocksEventReasons(gpu, by(pair)),
    }
    costs = {}
    for name, call in calls.items():
        took = []
        for _ in range(5):
            cpu, wall = time.process_time_ns(), time.monotonic_ns()
            ret = call()
            took.append((time.process_time_ns() - cpu, time.monotonic_ns() - wall))
        costs[name] = [*(round(statistics.median(t) / 1000) for t in zip(*took)), ret]
    say("nvml-cost", cpu_wall_us_and_result=costs)


def xid():
    """The drivers' tracepoints are there, and the tracer is attached to them."""
    tracer = subprocess.Popen([RANKTRACE, "record", "-q", "--all", "--tier", "watch", "--duration", "8"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(4)
    names = []
    for fd in glob.glob(f"/proc/{tracer.pid}/fdinfo/*"):
        try:
            names += [line.split()[1] for line in open(fd) if line.startswith("tp_name:")]
        except OSError:
            pass
    err = tracer.communicate(timeout=30)[1]
    there = [n for n in ("nvidia/nvidia_dev_xid", "nvswitch/nvswitch_dev_sxid")
             if any(os.path.exists(f"{d}/events/{n}") for d in ("/sys/kernel/tracing", "/sys/kernel/debug/tracing"))]
    say("xid", attached=sorted(set(names)), tracepoints=there, exit=tracer.returncode, stderr=err.splitlines()[-4:])

NESTED = ("--mode", "groups")
TRANSFER = ("--mode", "transfer")
MORE_THAN_ONE_GPU = ("duty", "autopsy", "proxy", "watch-f")
PARTS = {
    "autopsy-f1": lambda: autopsy("autopsy-f1", ("stopped",), inject=stop_rank),
    "autopsy-f3": lambda: autopsy("autopsy-f3", ("missing_enter",), f"--fault=hang:rank={VICTIM},step=200,sec=60",
                                  python=f"train.py:{train_line('time.sleep(float(fault.get')}"),
    "autopsy-nested": lambda: autopsy("autopsy-nested", ("missing_enter",), *NESTED,
                                      f"--fault=hang-tp:rank={VICTIM},step=200,sec=60",
                                      python=f"train.py:{train_line('time.sleep(float(fault.get')}"),
    "autopsy-hsdp": lambda: autopsy("autopsy-hsdp", ("missing_enter",), "--mode", "hsdp",
                                    f"--fault=hang:rank={VICTIM},step=200,sec=60",
                                    python=f"train.py:{train_line('time.sleep(float(fault.get')}"),
    "autopsy-healthy": lambda: autopsy_healthy("autopsy-healthy", *NESTED),
    "proxy-stop": lambda: autopsy("proxy-stop", ("stopped",), *TRANSFER, inject=stop_rank, env=SOCKETS),
    "proxy-starved": lambda: autopsy("proxy-starved", ("inside_network", "", None), *TRANSFER, inject=starve_proxy,
                                     env=SOCKETS, causes=("proxy_thread", "proxy_starved")),
    "proxy-healthy": lambda: autopsy_healthy("proxy-healthy", *TRANSFER, env=SOCKETS),
    "watch-f1": lambda: watch("watch-f1", inject=stop_rank, hang_class="stopped"),
    "watch-f3": lambda: watch("watch-f3", f"--fault=hang:rank={VICTIM},at=12,sec=60", inject=wait_fault,
                              hang_class="missing_enter"),
    "watch-nested": lambda: watch("watch-nested", *NESTED, f"--fault=hang-tp:rank={VICTIM},at=14,sec=60",
                                  inject=wait_fault, hang_class="missing_enter"),
    "watch-healthy": lambda: watch("watch-healthy", *NESTED, seconds=30),
    "untouched-watch": lambda: untouched("untouched-watch", command="watch"),
    "untouched-watch-gpu-bound": lambda: untouched("untouched-watch-gpu-bound", "--width", 8192, "--layers", 8,
                                                   command="watch"),
    "untouched-autopsy": lambda: untouched("untouched-autopsy", command="autopsy"),
    "nvml": nvml,
    "nvml-cost": nvml_cost,
    "xid": xid,
    "duty-aa": lambda: duty("duty-aa", named=False),
    **{f"duty-{p}": lambda p=p: duty(f"duty-{p}", f"work:rank={{rank}},percent={p}") for p in (10, 20, 50)},
    "duty-all": lambda: duty("duty-all", "work:rank=-1,percent=20", named=False),
    "duty-sleep": lambda: duty("duty-sleep", "sleep:rank={rank},percent=20", named=False),
    "duty-spin": lambda: duty_spin("duty-spin"),
}
