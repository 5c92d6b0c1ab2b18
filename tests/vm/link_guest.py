# SPDX-License-Identifier: Apache-2.0
"""Inside a guest (tests/vm/test_link.sh): four ranks, simulated NCCL over real verbs on soft-RoCE, each rank on a
device of its own; the network between them is made bad with tc netem. The device is named, in time, and no rank is.

    link_guest.py results posts healthy background loss rate delay kill down blackhole     (the cases, in that order)

Each on a job of its own, whose recording is left in $GUEST_OUT if that is set.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../aid")]
import job  # noqa: E402
import rdma_hosts as hosts  # noqa: E402
import rtr  # noqa: E402

RANKS = 4
BAR_S = 15
LISTED_S = 130  # queue pairs are listed every minute where that takes a second, as in an emulated guest
KNOWN_S = 120  # until the communicators of all ranks are found: a guest under software emulation is slow
RECORD_COMM_SAMPLE = 10
SLICE_BYTES, SLICES = 16384, 12  # tools/simjob/libnccl: 3 others x 4 chunks x 2 channels, two steps to a slice
WITHOUT = ("results", "posts")  # a job to make the network bad under
# 0.27 s each: soft-RoCE takes NCCL's own 7 retries for "for ever"
IMPATIENT = {"NCCL_IB_TIMEOUT": "16", "NCCL_IB_RETRY_CNT": "3"}
STEP_MS = 300  # of computing: a guest's CPUs need as long for the rest
SIM = os.path.join(job.O, "lib/ranktrace/sim/simjob")
BLAMES = ("hang", "straggler", "mismatch", "d_state", "stopped", "cpu_starved")


def results():
    """Over RDMA the job comes to the results it comes to without a network; also with each rank in a network
    namespace."""
    def of(*args):
        run = subprocess.run([SIM, "-q", "--ranks", str(RANKS), "--steps", "8", "--step-ms", "10", "--seed", "5",
                              "--result",
                              "/tmp/result", *args], capture_output=True, text=True, timeout=120)
        job.check(run.returncode == 0, f"{args}: {run.returncode}\n{run.stderr}")
        with open("/tmp/result") as f:
            return sorted(f)
    for i in range(RANKS):
        hosts.sh(f"ip netns add host{i}")
    want = of()
    job.check(of("--net=verbs") == want and of("--net=verbs", "--netns", "host") == want, "other results over RDMA")
    print("PASSED results: over RDMA as without a network, in namespaces too", flush=True)


def posts():
    """Tier burst: what a rank posted for an operation is what the ring sends for one (net_verbs.c), between its call
    and its end. One bucket a step: of operations that queue up behind one another in a communicator it cannot be known
    whose a post was."""
    rtr_file = os.path.join(os.environ.get("GUEST_OUT", "/tmp"), "posts.rtr")
    run = subprocess.run([job.RANKTRACE, "record", "--json", "--tier", "burst", "-o", rtr_file, "--", "nice", "-n",
                          "19", job.RANKTRACE, "sim", "job",
                          "-q", "--ranks", str(RANKS), "--steps", "25", "--step-ms", "300", "--buckets", "1",
                          "--net=verbs", "--no-dataloader"],
                         capture_output=True, text=True, timeout=180, env=dict(os.environ, SIM_CUDA_INIT_MS="3000"))
    job.check(run.returncode == 0, f"record: {run.returncode}\n{run.stdout}{run.stderr}")
    out = subprocess.run([job.RANKTRACE, "replay", "-q", "--ops", rtr_file], capture_output=True, text=True,
                         check=True).stdout
    ops = [json.loads(line) for line in out.splitlines()]
    joined = [o for o in ops if "net" in o]
    for o in joined:
        n = o["net"]
        data, grants = divmod(n["bytes"], SLICE_BYTES)
        job.check(o["t_ns"] <= n["first_post_ns"] <= n["last_post_ns"] <= o["end_ns"], f"not within the operation: {o}")
        job.check(data <= SLICES and grants % 8 == 0 and grants // 8 <= SLICES and n["posts"] == data + grants // 8,
                  f"{o}")
        job.check(data == SLICES or not n["whole"], f"{SLICES} slices, not {data}: {o}")
    n_all = sum(o["net"]["bytes"] // SLICE_BYTES == SLICES for o in joined)
    text = f"{len(joined)} of {len(ops)} operations have posts, {n_all} of these all slices"
    job.check(len(joined) >= len(ops) / 2 and n_all >= 0.9 * len(joined), text)
    print(f"PASSED posts: {text}", flush=True)


class LinkJob(job.Job):
    def __init__(self, number):
        """The tracer is on top of the ranks: those poll, and a guest has two slow CPUs."""
        super().__init__(["--ranks", RANKS, "--steps", 100000, "--step-ms", STEP_MS, "--linger-sec", 60, "--net=verbs",
                          "--seed", number, "--no-dataloader"],
                         ["--tier", "watch"], name="rdma")
        self.wait_known()

    def spawn(self, argv):
        at = argv.index("--") + 1
        return super().spawn(argv[:at] + ["nice", "-n", "19"] + argv[at:])

    def wait_known(self):
        end, known = time.monotonic() + KNOWN_S, ()
        while time.monotonic() < end and len(known) < RANKS:
            time.sleep(2)
            if os.path.exists(self.rtr):
                known = {pid for tracer, kind, pid, *_ in rtr.whole_records(self.rtr)
                         if (tracer, kind) == (rtr.COLLECTOR, RECORD_COMM_SAMPLE)}
        print(f"communicators of {len(known)} ranks are known", flush=True)

    def since(self, begin_ns):
        return [f for f in self.findings if f["t_ns"] >= begin_ns]

    def check_nobody(self, case, begin_ns, allowed=()):
        wrong = [f for f in self.since(begin_ns) if f["kind"] in BLAMES and f["ranks"] and f["ranks"] not in allowed]
        job.check(not wrong, f"{case}: ranks are blamed: {wrong}")


def of_device(f, host):
    return f["kind"] == "link" and f["evidence"].get("device") == f"rxe{host}"


def named(j, case, host, begin_ns):
    """A finding about the port that is nobody's consequence, in time; not one of before."""
    before = {f["id"] for f in j.findings if f["t_ns"] < begin_ns}
    while time.monotonic_ns() < begin_ns + BAR_S * 10**9:
        time.sleep(0.2)
        for f in j.since(begin_ns):
            if of_device(f, host) and not f["caused_by"] and f["id"] not in before:
                late = (f["t_ns"] - begin_ns) / 1e9
                job.check(f["evidence"]["netdev"] == f"v{host}"
                          and f["evidence"].get("ranks_using", str(host)) == str(host), f"{f}")
                print(f"PASSED {case}: {f['cause']} of rxe{host} after {late:.1f} s", flush=True)
                return
    job.fail(f"{case} of rxe{host} is not reported: {j.since(begin_ns)}\n{j.stderr()[-800:]}")


def quiet(j, case, seconds):
    begin = time.monotonic_ns()
    time.sleep(seconds)
    j.check_nobody(case, begin)
    links = [f for f in j.since(begin) if f["kind"] == "link" and f["phase"] == "open"]
    job.check(not links, f"{case}: links are blamed: {links}")
    print(f"PASSED {case}: no rank is named for {seconds} s", flush=True)


def background(j):
    """Others' traffic between all hosts alike."""
    others = []
    for i in range(RANKS):
        port = str(19000 + i)
        others.append(subprocess.Popen(["ib_write_bw", "-d", f"rxe{(i + 1) % RANKS}", "-x", "1", "-F", "-D", "30", "-s",
                                        "4096", "-p", port],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        time.sleep(1)
        others.append(subprocess.Popen(["ib_write_bw", "-d", f"rxe{i}", "-x", "1", "-F", "-D", "30", "-s", "4096", "-p",
                                        port, "127.0.0.1"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    quiet(j, "background", 20)
    for p in others:
        p.kill()
        p.wait()


def bad(j, case, host, what):
    begin = time.monotonic_ns()
    hosts.netem(host, what)
    try:
        named(j, case, host, begin)
        j.check_nobody(case, begin)
    finally:
        hosts.heal(host)


def blackhole(j, host):
    """Nothing of what a host sends arrives, and its port is up: the queue pairs give up, and the kernel's list of them
    says so."""
    begin = time.monotonic_ns()
    hosts.netem(host, "loss 100%")
    try:
        f = None
        while not f and time.monotonic_ns() < begin + LISTED_S * 10**9:
            time.sleep(0.2)
            f = next((f for f in j.since(begin) if f["kind"] == "link"
                      and f["cause"] in ("transport_retries", "queue_pair_error")), None)
        reported = sorted({(f["kind"], f["class"], f["cause"], f["evidence"].get("device")) for f in j.since(begin)},
                          key=str)
        job.check(f, f"blackhole of rxe{host}: no queue pair in error is reported: {reported}\n{j.stderr()[-800:]}")
        j.check_nobody("blackhole", begin)
        print(f"PASSED blackhole: {f['cause']} of {f['evidence'].get('device')} after {(f['t_ns'] - begin) / 1e9:.1f} "
              f"s (rxe{host}); all: {reported}", flush=True)
    finally:
        hosts.heal(host)


def down(j, host):
    begin = time.monotonic_ns()
    hosts.down(host)
    try:
        named(j, "down", host, begin)
        time.sleep(5)
        j.check_nobody("down", begin)
    finally:
        hosts.up(host)


def pid_of(rank):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ") as f, open(f"/proc/{pid}/comm") as c:
                if f"RANK={rank}" in f.read().split("\0") and c.read().startswith("pt_main"):
                    return int(pid)
        except OSError:
            pass
    job.fail(f"rank {rank} is gone")


def kill(j, rank):
    """Its peers' queue pairs run into timeouts: the process is what is named, and no port or link."""
    begin = time.monotonic_ns()
    os.kill(pid_of(rank), signal.SIGKILL)
    f = None
    while not f and time.monotonic_ns() < begin + BAR_S * 10**9:
        time.sleep(0.2)
        f = next((f for f in j.since(begin) if f["kind"] == "hang" and f["ranks"] == [rank]), None)
    job.check(f and f["class"] == "process_dead", f"kill: {j.since(begin)}")
    j.check_nobody("kill", begin, ([rank],))
    links = [f for f in j.since(begin) if f["kind"] == "link" and f["phase"] == "open"]
    job.check(not links, f"kill: links are blamed: {links}")
    print(f"PASSED kill: hang/process_dead rank {rank} after {(f['t_ns'] - begin) / 1e9:.1f} s", flush=True)


def end(j):
    j.stop()
    if "GUEST_OUT" in os.environ:
        shutil.copy(j.rtr, os.path.join(os.environ["GUEST_OUT"], f"link{len(job.jobs)}.rtr"))
    j.check_replay()


def passes(case):
    """The others are still worth a look."""
    try:
        case()
        return True
    except SystemExit:
        return False


def main():
    rng, number = job.seed()
    print(f"KERNEL {os.uname().release} {os.uname().machine}", flush=True)
    with open("/proc/sys/kernel/ns_last_pid", "w") as f:
        f.write("20000")  # pids of a guest are small numbers, and any word of memory may look like one
    hosts.begin(RANKS)
    os.environ.update(NCCL_IB_HCA=hosts.devices(RANKS), NCCL_SET_THREAD_NAME="1", SIM_CUDA_INIT_MS="100")
    cases = sys.argv[1:]
    j, failed = None, []
    host = lambda: rng.randrange(RANKS)
    run = {"results": results, "posts": posts, "healthy": lambda: quiet(j, "healthy", 15),
           "background": lambda: background(j),
           "loss": lambda: bad(j, "loss", host(), "loss 5%"), "rate": lambda: bad(j, "rate", host(), "rate 2mbit"),
           "delay": lambda: bad(j, "delay", host(), "delay 100ms"), "down": lambda: down(j, host()),
           "blackhole": lambda: blackhole(j, host()), "kill": lambda: kill(j, host())}
    wanted = [case for case in cases if case in run]
    for case in wanted:
        os.environ.update(IMPATIENT if case == "blackhole" else {})
        j = None if case in WITHOUT else LinkJob(number)
        failed += [] if passes(run[case]) else [case]
        if j:
            end(j)
    if failed:
        sys.exit(f"link_guest: failed: {' '.join(failed)}")
    print("link_guest: passed")


main()
