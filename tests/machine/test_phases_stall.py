# SPDX-License-Identifier: Apache-2.0
"""The disk of watch's file of known phases freezes as a rank pauses, which is what the file is then written for: the
daemon goes on. A rank that is stopped meanwhile is found, metrics are served, the log says what the file waits for; and
SIGTERM ends the daemon, which says what is lost."""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(1, sys.path[0] + "/../aid")
sys.path.insert(1, sys.path[0] + "/../hostile")
import frozen_disk
import hostile
import job
import test_privileges

THAW_AT_MOST_S = 180
WRITE_S = 60  # the file is written twice a minute at most
SAID_S = 30  # after 10 s
END_S = 30  # it waits for 5 s
STEP_MS, PAUSE_STEP, PAUSE_S = 200, 60, 6

job.need_root()
rng, _ = job.seed()
folder = tempfile.mkdtemp(prefix="ranktrace-phases-stall-")
job.dirs.append(folder)
mount, name = f"{folder}/disk", f"phases-stall-{os.getpid()}"


def wait_for(what, is_it, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = is_it()
        if found:
            return found
        time.sleep(0.2)
    job.fail(f"{what}: not within {seconds} s\n{daemon.stderr()}\n{daemon.findings()}")


def blocked():
    """Who of the daemon's family waits for the disk."""
    found = []
    for pid in test_privileges.family(daemon.process.pid):
        try:
            if test_privileges.status(pid)["State"][0] == "D":
                found.append(pid)
        except OSError:
            pass
    return found


def writer():
    """The same process twice: none that waits for a moment."""
    first = set(blocked())
    time.sleep(1)
    return first & set(blocked())


def opened(rank):
    return [f for f in daemon.findings() if f["kind"] in ("hang", "stopped") and f["phase"] == "open" and
            f["ranks"] == [rank]]


def stopped_rank_is_found(rank, pid):
    before = len(opened(rank))
    os.kill(pid, signal.SIGSTOP)
    wait_for(f"rank {rank}, which is stopped while the disk is frozen, is found", lambda: len(opened(rank)) > before,
             30)
    os.kill(pid, signal.SIGCONT)


def metrics():
    url = re.search(r"metrics at (http://\S+)", daemon.stderr())[1]
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def checks():
    wait_for("the pause is found", lambda: opened(1), 120)
    disk.freeze()
    who = wait_for("the file is written", writer, WRITE_S)
    job.check(daemon.process.pid not in who, "the loop itself waits for the disk")
    stopped_rank_is_found(0, next(o["pid"] for o in job.lines(ops) if o["rank"] == 0))
    job.check(metrics() == 200, f"metrics are not served: {metrics()}")
    wait_for("the wait is said", lambda: "as its disk does not answer" in daemon.stderr(), SAID_S)
    begin = time.monotonic()
    daemon.process.terminate()
    code = daemon.process.wait(END_S)
    text = daemon.stderr()
    job.check(code in (0, 1), f"its exit code is {code}: {text}")
    job.check("could not be written within 5 s" in text and "known phases are not kept" in text,
              f"the loss is not said: {text}")
    print(f"  a stopped rank is found while the disk is frozen; the end took {time.monotonic() - begin:.1f} s")
    disk.thaw()
    time.sleep(1)
    job.check(not os.path.exists(f"{mount}/phases"), "a child of the session wrote after its end")


disk = frozen_disk.Disk(folder, "disk", THAW_AT_MOST_S)
ops = f"{folder}/ops.jsonl"
sim = subprocess.Popen([job.RANKTRACE, "sim", "job", "--ranks", "2", "--step-ms", str(STEP_MS), "--steps", "5000",
                        "--job-id", name, "--log", ops, "--no-dataloader", "-q", "--seed", str(rng.randrange(1 << 30)),
                        "--fault", f"hang:rank=1,step={PAUSE_STEP},sec={PAUSE_S}"])
daemon = hostile.Daemon("--job", name, "--no-raise", "--flight=no", f"--phases={mount}/phases", "--metrics", "0",
                        command="watch", env={"RANKTRACE_RUN_DIR": f"{folder}/run"})
try:
    daemon.wait(lambda line: True)
    checks()
finally:
    disk.let_go()
    sim.terminate()
    sim.wait(20)
    daemon.kill()
    time.sleep(0.5)
    disk.close()
