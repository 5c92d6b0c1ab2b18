# SPDX-License-Identifier: Apache-2.0
"""ranktrace top in tmux, at 80 x 24 and 200 x 60 and resized while it runs: eight ranks of a simulated job, live, of
which one sleeps; recordings at other times; ranks of many hosts, by host and one by one (10,240 with LONG=1; HOSTS=n:
eight of each). It leaves the terminal as it was, and no process."""
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
sys.path.insert(1, sys.path[0] + "/../scale")
import hung_job
import job
import terminal
from terminal import Terminal

HOSTS = int(os.environ.get("HOSTS", 1280 if job.LONG else 32))


def live():
    sim = subprocess.Popen([job.RANKTRACE, "sim", "job", "--ranks", "8", "--steps", "100000", "--step-ms", "200",
                            "--job-id", "llama", "--fault=hang:rank=5,step=60,sec=600"], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
    try:
        t = Terminal(80, 24, job.RANKTRACE, "top", "--job", "llama", "--notify-state", "/nowhere")
        t.wait(r"^8 ranks: .*8 moves")
        screen = t.wait(r"^8 ranks: 1 late +7 waits ", 90)  # ranks are seen one by one
        job.check(all(len(line) <= 80 for line in screen.splitlines()), screen)
        job.check(len(re.findall(r"^    5 late |^    \d waits ", screen, re.M)) == 8, f"unlike its head:\n{screen}")
        t.size(200, 60)
        t.wait(r"^    5 \S+ +\d+ late .*llama")
        t.keys("Enter")
        t.wait(r"rank 5, pid \d+")
        t.wait(r"stack read .* ago")
        t.keys("a")
        t.wait("not offered: no 'ranktrace notify'|select a finding first")
        t.keys("d")
        t.wait("no flight recorder in this session")
        t.keys("Escape")
        t.keys("/", "5", "Enter")
        t.size(80, 24)
        t.wait(r"^1/1 .*/5 ")
        t.keys("Escape")
        t.keys("2")
        t.wait(r"(warning|critical) .*rank 5")
        t.keys("Enter")
        t.wait(r"^ EVIDENCE")
        t.keys("q")
        t.wait(r"^ended 0$")
        left = subprocess.run(["pgrep", "-f", f"^{job.RANKTRACE} top --job llama"], capture_output=True, text=True)
        job.check(not left.stdout, f"processes are left: {left.stdout}")
        t.tmux("kill-server")
    finally:
        sim.terminate()
        sim.wait()
    print("  live: rank 5 of 8 is late, its stack was read, both sizes")


def recording():
    t = Terminal(80, 24, job.RANKTRACE, "top", "tests/replay/watch_hang.rtr")
    t.wait(r"^6\.3 of 6\.3 s")
    t.keys("Left", "Left")
    t.wait(r"^4\.\d of 6\.3 s")
    t.wait("^no finding is open")
    t.keys("n")
    t.wait("^WARNING stall +rank 2 has not entered AllReduce #165")
    t.keys("^")
    t.wait(r"^0\.\d of 6\.3 s")
    t.keys("Space")
    t.wait(r"^1\.\d of 6\.3 s >")
    t.keys("t")
    t.wait("a recording: no session to ask")
    t.end()
    print("  a recording: back, to a finding, to its begin, played")


def hosts(folder):
    j = hung_job.Job(HOSTS, 8, 7)
    paths = [f"{folder}/{j.host_name(h)}.rtr" for h in range(HOSTS)]
    for h, path in enumerate(paths):
        j.write(h, path)
    subprocess.run([job.RANKTRACE, "autopsy", "--merge", "-o", f"{folder}/all.rtr", *paths], capture_output=True)
    host, begin = j.host_name(j.culprit // 8), time.monotonic()
    t = Terminal(80, 24, job.RANKTRACE, "top", f"{folder}/all.rtr")
    screen = t.wait(rf"^{j.n} ranks: 1 late  {j.n - 1} waits", 600)
    print(f"  {j.n} ranks of {HOSTS} hosts: shown after {time.monotonic() - begin:.1f} s")
    job.check(re.search(rf"^{host} +8 +- +7 +1 ", screen, re.M), f"no row of {host}:\n{screen}")
    t.keys("Enter")
    t.wait(rf"^ *{j.culprit} late ")
    t.wait(r"^1/8 ")
    t.keys("Escape", "End")
    t.wait(rf"^{HOSTS}/{HOSTS} ")
    begin = time.monotonic()
    t.keys("g", "g")
    t.size(200, 60)
    t.wait(rf"^ *{j.culprit} {host} ")  # the column of hosts is there at that width
    t.wait(rf"^1/{j.n} ")
    print(f"  all of them one by one, at 200 x 60: after {time.monotonic() - begin:.1f} s")
    t.end()


def without_terminal():
    out = subprocess.run([job.RANKTRACE, "top", "tests/replay/watch_hang.rtr"], capture_output=True, text=True,
                         stdin=subprocess.DEVNULL, start_new_session=True)
    job.check(out.returncode == 3 and "no terminal" in out.stderr and "--batch" in out.stderr, f"{out}")
    out = subprocess.run([job.RANKTRACE, "top", "-b", "-"], stdin=open("tests/replay/watch_hang.rtr", "rb"),
                         capture_output=True, text=True)
    job.check(out.returncode == 0 and re.search(r"^    2 .* late ", out.stdout, re.M), f"{out}")


job.need_root()
terminal.need()
folder = tempfile.mkdtemp(prefix="ranktrace-top-")
job.dirs.append(folder)
without_terminal()
recording()
hosts(folder)
live()
