# SPDX-License-Identifier: Apache-2.0
"""The unit that packages install: its capabilities are those of docs/security.md, all of them and no other, and with
these alone `watch` runs, is ready, and finds a rank that hangs. systemd knows each of its settings."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job

UNIT = "debian/ranktrace.service"
OF_THE_DAEMON = {"ranktrace", "ranktrace-read", "ranktrace-zyg", "ranktrace-parse", "ranktrace-nvml", "ranktrace-http",
                 "ranktrace-bus"}


def documented():
    """The first table of the page: what the daemon's processes have together."""
    caps = set()
    with open("docs/security.md", encoding="utf-8") as f:
        for line in f:
            cells = [c.strip() for c in line.strip().strip("|").split("|")]
            if line.startswith("| `") and cells[0].strip("`") in OF_THE_DAEMON and len(cells) == 4:
                caps |= {c for c in cells[2].split(", ") if re.fullmatch("[A-Z_]+", c)}
    return caps


def settings(name):
    with open(UNIT, encoding="utf-8") as f:
        return re.findall(rf"^{name}=(.*)$", f.read(), re.M)


def check_verify():
    """systemd-analyze says what it does not know; that the program is not installed here is no fault."""
    if not shutil.which("systemd-analyze"):
        print("  systemd-analyze is not here: the unit's settings were not read by systemd")
        return
    with tempfile.TemporaryDirectory() as where:
        with open(UNIT, encoding="utf-8") as f, open(f"{where}/ranktrace.service", "w", encoding="utf-8") as to:
            to.write(re.sub("/usr/bin/ranktrace", "/bin/true", f.read()))
        out = subprocess.run(["systemd-analyze", "verify", "--man=no", f"{where}/ranktrace.service"],
                             capture_output=True, text=True)
    ours = [line for line in out.stderr.splitlines() if "ranktrace.service" in line]
    job.check(out.returncode == 0 and not ours, f"systemd-analyze verify: {out.stdout}{out.stderr}")
    print("  systemd-analyze verify: nothing to say")


def check_runs(caps):
    """A process of root with nothing but these in its bounding set, as the unit starts it."""
    if not shutil.which("setpriv"):
        job.skip("no setpriv (util-linux)")
    bounds = "-all," + ",".join(f"+{c.lower()}" for c in sorted(caps))
    where = tempfile.mkdtemp(prefix="ranktrace-unit-")
    job.dirs.append(where)
    sim = subprocess.Popen([job.RANKTRACE, "sim", "job", "--ranks", "4", "--steps", "100000", "--fault",
                            "hang:rank=2,step=20,sec=60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           start_new_session=True)
    env = dict(os.environ, RANKTRACE_RUN_DIR=f"{where}/run")
    with open(f"{where}/out", "w") as out:
        watch = subprocess.Popen(["setpriv", f"--bounding-set={bounds}", "--inh-caps=-all", "--no-new-privs",
                                  os.path.abspath(job.RANKTRACE), "watch", f"--pid={sim.pid}", f"--flight={where}",
                                  "--phases=no"], stdout=out, stderr=out, env=env, start_new_session=True)
    job.jobs.append(type("Both", (), {"kill": lambda self: [os.killpg(p.pid, signal.SIGKILL) for p in (sim, watch)
                                                            if p.poll() is None]})())
    end, text = time.monotonic() + 60, ""
    while "rank 2 has not entered" not in text and time.monotonic() < end and watch.poll() is None:
        time.sleep(0.5)
        with open(f"{where}/out", encoding="utf-8") as f:
            text = f.read()
    job.check("rank 2 has not entered" in text, f"with {bounds}: {watch.poll()} {text}")
    with open(f"/proc/{watch.pid}/status", encoding="utf-8") as f:
        job.check("NoNewPrivs:\t1" in f.read(), "it may gain privileges")
    watch.send_signal(signal.SIGTERM)
    job.check(watch.wait(30) in (0, 1), f"it ends with {watch.returncode}: {text}")
    print(f"  with {len(caps)} capabilities it found: {re.search('.*rank 2 has not entered.*', text)[0]}")


def main():
    has = {c.removeprefix("CAP_") for line in settings("CapabilityBoundingSet") for c in line.split()}
    job.check(has == documented(), f"the unit has {sorted(has)}, docs/security.md {sorted(documented())}")
    job.check(settings("NoNewPrivileges") == ["yes"] and settings("Type") == ["notify"], "not confined, or no notify")
    check_verify()
    job.need_root()
    check_runs(has)


main()
