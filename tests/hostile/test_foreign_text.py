# SPDX-License-Identifier: Apache-2.0
"""Nobody's paths, names and environment hold escape sequences, line breaks and bytes that are no character: no command
brings any of them to a terminal, all JSON is valid UTF-8, and nothing is found about the job beside them."""
import json
import os
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import hostile
import job

EVIL = b"\x1b]0;pwned\x07 \n2026 warning: all well\n\r \x9b31m \xc2\x9b31m \xff\xfe \xe2\x80"
NAME = "import ctypes, sys\nctypes.CDLL(None).prctl(15, b'\\x1b[2J\\xff\\nroot', 0, 0, 0)\n"


def check_tame(what, out):
    for i, c in enumerate(out):
        job.check(c >= 0x20 and c != 0x7f or c in b"\n\t", f"{what}: control {c:#x} in {out[max(0, i - 60):i + 60]!r}")
    text = out.decode(errors="surrogateescape")
    bad = [c for c in text if "\x80" <= c < "\xa0" or "\ud800" <= c <= "\udfff"]
    job.check(not bad, f"{what}: {bad[:5]!r} in {text[:300]!r}")
    job.check(b"\n2026 warning" not in out, f"{what}: a line of the target's own: {out[:600]!r}")


def run(*args, signal_after=None):
    p = subprocess.Popen([job.RANKTRACE, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if signal_after:
        time.sleep(signal_after)
        p.terminate()
    out, err = p.communicate(timeout=60)
    job.check(p.returncode in (0, 1, 2), f"{args}: exit {p.returncode}: {err[-500:]!r}")
    return out, err


def main():
    job.need_root()
    rng, _ = job.seed()
    room = hostile.place().encode() + b"/" + EVIL
    os.mkdir(room)
    os.chmod(room, 0o777)
    path = hostile.fake_library(room + b"/libnccl.so.2", lambda name: name == "ncclSend", 0)
    env = {b"RANK": b"0", b"WORLD_SIZE": b"2", b"TORCHELASTIC_RUN_ID": b"job" + EVIL, b"POD_NAME": b"pod" + EVIL,
           b"CUDA_VISIBLE_DEVICES": EVIL}
    argv = [b"/usr/bin/python3", b"-B", b"-c", (NAME + hostile.MAP_ONE).encode(), path]
    attacker = hostile.Program(argv, env).ready()
    victim = hostile.Victim(rng, steps=300)
    victim.wait_begun()
    daemon = hostile.Daemon("-o", f"{victim.dir}/x.pftrace").wait()
    shown = 0
    for args in (("ps",), ("ps", "-v"), ("ps", "--stacks"), ("ps", "--json"), ("ps", "--stacks", "--json")):
        out, err = run(*args)
        check_tame(args, out)
        check_tame(args, err)
        shown += str(attacker.process.pid).encode() in out
        for line in out.splitlines() if "--json" in args else ():
            json.loads(line.decode())
    job.check(shown == 5, f"only {shown} of 5 show the attacker: this test would prove nothing")
    out, err = run("watch", "-v", "--flight=no", "--phases=no", signal_after=4)
    check_tame("watch", out + err)
    daemon.stop()
    for name in ("findings", "stderr"):
        with open(f"{daemon.dir}/{name}", "rb") as f:
            check_tame(f"record's {name}", f.read())
    hostile.check_no_finding(daemon, victim.pids())
    hostile.check_gap(daemon)
    out, err = run("replay", "-v", daemon.rtr)
    check_tame("replay", out + err)
    out, err = run("autopsy", "--pid", str(attacker.process.pid))
    check_tame("autopsy", out + err)
    victim.end()
    attacker.kill()
    print("  ps, its stacks and JSON, record, watch, replay, autopsy: no control character, no invalid UTF-8")


main()
