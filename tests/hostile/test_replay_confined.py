# SPDX-License-Identifier: Apache-2.0
"""A replay, and a merge, that has begun to read holds what docs/security.md says and no more, as /proc has it; and its
outputs are the same as ever, a replaced file, a new one, standard output and a pipe."""
import glob
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import test_privileges

ROOM = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEMO = f"{ROOM}/replay/demo.rtr"
KEEPER = "ranktrace-keep"


def is_filtered(pid):
    try:
        return test_privileges.status(pid)["Seccomp"] == "2"
    except test_privileges.ENDED:
        return False


def blocked(argv, n_processes, stdout=subprocess.PIPE):
    """Starts it; when it has confined itself and waits: {name: pid}, as the table has the names."""
    p = subprocess.Popen([job.RANKTRACE, *argv], stdout=stdout, stderr=subprocess.PIPE)
    end = time.monotonic() + 20
    while time.monotonic() < end and p.poll() is None:
        # one forked a moment ago has its parent's name still
        found = {(KEEPER if pid != p.pid else "replay"): pid for pid in test_privileges.family(p.pid)}
        if len(found) == n_processes and all(map(is_filtered, found.values())):
            return p, found
        time.sleep(0.05)
    p.kill()
    job.fail(f"{argv}: not confined: {p.communicate()}")


def check_family(found, rows, mine):
    for name, pid in found.items():
        test_privileges.check_process(pid, name, rows, mine)
        fds = name == KEEPER and {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
        job.check(name != KEEPER or (len(fds) == 1 and "socket" in min(fds)), f"the keeper holds {fds}")
    print(f"  as documented: {found}")


def replayed(d, rows, mine):
    """The begin of a recording through a pipe; the rest when both processes were looked at."""
    with open(DEMO, "rb") as f:
        data = f.read()
    with open(f"{d}/old.jsonl", "w") as f:
        f.write("old\n")
    os.mkfifo(f"{d}/in")
    os.mkfifo(f"{d}/out.rtr")
    taker = subprocess.Popen(["cat", f"{d}/out.rtr"], stdout=open(f"{d}/taken", "wb"))
    feeder = subprocess.Popen(["sh", "-c", f"exec cat > {d}/in"], stdin=subprocess.PIPE)
    outputs = [f"{d}/old.jsonl", f"{d}/new.pftrace", f"{d}/new.rtr", f"{d}/out.rtr"]
    first = min(len(data) // 2, 50000)  # what pipes hold
    feeder.stdin.write(data[:first])
    feeder.stdin.flush()
    p, found = blocked(["replay", "--json", f"{d}/in", *(w for o in outputs for w in ("-o", o))], 2)
    check_family(found, rows, mine)
    job.check(open(f"{d}/old.jsonl").read() == "old\n", "replaced before it was whole")
    feeder.stdin.write(data[first:])
    feeder.stdin.close()
    out, err = p.communicate(timeout=30)
    job.check(p.returncode == 1 and feeder.wait(10) == 0 and taker.wait(10) == 0, f"exit {p.returncode}: {err}")
    want = subprocess.run([job.RANKTRACE, "replay", "--json", DEMO], capture_output=True).stdout
    job.check(out == want and open(f"{d}/old.jsonl", "rb").read() == want, "other findings than without a pipe")
    for copy in ("new.rtr", "taken"):
        again = subprocess.run([job.RANKTRACE, "replay", "--json", f"{d}/{copy}"], capture_output=True).stdout
        job.check(again == want, f"{copy} is another recording")
    job.check(os.path.getsize(f"{d}/new.pftrace") > 1000 and not glob.glob(f"{d}/*.part*"), os.listdir(d))
    subprocess.run([job.RANKTRACE, "replay", "-q", "/dev/null", "-o", f"{d}/none.rtr"], capture_output=True)
    job.check(not os.path.exists(f"{d}/none.rtr"), "an output of nothing stays")


def without_outputs(d, rows, mine):
    """Nothing has a name: no keeper."""
    os.mkfifo(f"{d}/head")
    feeder = subprocess.Popen(["dd", f"if={DEMO}", f"of={d}/head", "bs=50000", "count=1", "status=none"])
    feed = os.open(f"{d}/head", os.O_RDWR)  # so that it does not end
    try:
        p, found = blocked(["replay", f"{d}/head"], 1)
        check_family(found, rows, mine)
        p.kill()
        p.communicate()
    finally:
        feeder.kill()
        feeder.wait()
        os.close(feed)


def merged(rows, mine):
    """Its standard output has no room: it waits there when it has read both files."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while os.write(write, bytes(4096)):
            pass
    except BlockingIOError:
        os.set_blocking(write, True)
    p, found = blocked(["autopsy", "--merge", "--json", *(f"{ROOM}/replay/two_hosts_{x}.rtr" for x in "ab")], 2, write)
    check_family(found, rows, mine)
    p.kill()
    p.communicate()
    os.close(read)
    os.close(write)


def main():
    job.need_root()
    job.seed()
    rows, mine = test_privileges.documented(), test_privileges.names(
        int(test_privileges.status("self")["CapEff"], 16))
    job.check(rows.get("replay", {}).get("caps") == set() and rows.get(KEEPER), f"no rows of these in {sorted(rows)}")
    with tempfile.TemporaryDirectory(prefix="ranktrace-confined-") as d:
        replayed(d, rows, mine)
        without_outputs(d, rows, mine)
        merged(rows, mine)


if __name__ == "__main__":
    main()
