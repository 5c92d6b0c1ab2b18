# SPDX-License-Identifier: Apache-2.0
"""-h, --help, -V, --version of every command; usage lines; what a user without privilege reads; whom a session says it
is attached to."""
import os
import re
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job

NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
RANKTRACE = os.path.abspath(job.RANKTRACE)
COMMANDS = ["ps", "autopsy", "record", "watch", "top", "replay", "steps", "diff", "report", "doctor", "dump", "hub",
            "incidents", "notify", "ctl", "stress", "sim"]


def run(*args, prefix=(), **kw):
    out = subprocess.run([*prefix, RANKTRACE, *map(str, args)], capture_output=True, text=True, timeout=60, **kw)
    return out.returncode, out.stdout, out.stderr


def help_everywhere():
    for command in COMMANDS:
        texts = [run(command, "-h"), run(command, "--help"), run("help", command)]
        code, text, err = texts[0]
        job.check(texts[1] == texts[0] == texts[2], f"{command}: three ways, three texts: {texts}")
        job.check(code == 0 and not err and text.startswith(f"Usage: ranktrace {command} "),
                  f"{command} -h: {code} {text}{err}")
        job.check(all(len(line) <= 80 for line in text.splitlines()), f"{command} -h: more than 80 columns:\n{text}")
        job.check("-h, --help" in text and "-V, --version" in text, f"{command} -h names not itself:\n{text}")
        for way in ("-V", "--version"):
            code, text, err = run(command, way)
            job.check(code == 0 and re.fullmatch(r"ranktrace \d+\.\d+\.\d+\n", text),
                      f"{command} {way}: {code} {text}{err}")
    code, text, _ = run("sim", "job", "-h")
    job.check(code == 0 and text.startswith("Usage: ranktrace sim job "), text)
    code, text, _ = run("-h")
    listed = re.findall(r"^  (\w+) ", text.split("Exit codes")[0], re.M)
    job.check(code == 0 and listed == COMMANDS and run("-h") == run("--help") == run("help"), text)
    job.check(run("-V") == run("--version") == (0, run("ps", "-V")[1], ""), "-V")
    for n in "01234":
        job.check(re.search(rf"^  {n} +\S", text, re.M), f"exit code {n} is not in --help:\n{text}")


def order():
    """What belongs together stands together, what selects comes first."""
    text = run("record", "-h")[1]
    names = re.findall(r"^(?:  -\w, |      )--([\w-]+)", text, re.M)
    wanted = ["pid", "output", "json", "hang-limit", "busy-limit", "tier", "budget", "flight", "flight-seconds",
              "quiet", "verbose", "help"]
    job.check([n for n in names if n in wanted] == wanted, f"order of options: {names}")


def usage_errors():
    for args, words in ((["record", "--no-such"], "ranktrace record: unrecognized option"),
                        (["record"], "ranktrace record: trace what?"),
                        (["nothing"], "'nothing' is not a command"), ([], "Usage: ranktrace COMMAND"),
                        (["sim"], "which simulation?"),
                        (["replay"], "ranktrace replay: which recording?"),
                        (["ps", "--load"], "--load goes with --kernel")):
        code, out, err = run(*args)
        job.check(code == 2 and not out and words in err, f"{args}: exit {code}: {out}{err}")


def without_privilege(sim):
    """Nothing that may be read: 3, which privilege, and the remedy. A job of one's own is shown."""
    for args in (["ps"], ["ps", "--json"], ["ps", "--stacks"], ["autopsy"], ["autopsy", "--json"]):
        code, out, err = run(*args, prefix=NOBODY, cwd="/")
        print(f"nobody: {args}: exit {code}: {err.strip().splitlines()[-1]}")
        job.check(code == 3 and not out and "CAP_SYS_PTRACE" in err and "run as root" in err,
                  f"{args}: {code} {out}{err}")
    for args in (["record", "--pid", sim.pid], ["watch"]):
        code, out, err = run(*args, prefix=NOBODY, cwd="/")
        job.check(code == 3 and not out and "CAP_BPF" in err and "run as root" in err, f"{args}: {code} {out}{err}")


def names_whom(name):
    code, _, err = run("record", "--job", name, "-d", 1)
    job.check(re.search(rf"attached to 2 ranks of job {name} in \d+\.\d s\n", err), f"no greeting: {err}")
    job.check(code == 0 and "probe hits" not in err and "longest gap" not in err, f"statistics without -v: {err}")
    err = run("record", "--job", name, "-d", 1, "-v")[2]
    job.check("longest gap" in err and "peak memory" in err, f"no statistics with -v: {err}")
    err = run("watch", "--flight=no", "-d", 1, "--job", name)[2]
    job.check(f"watching 2 ranks of job {name}" in err, f"no greeting: {err}")
    code, _, err = run("record", "--job", "no-such-job", "-d", 1)
    job.check(code == 0 and "no process of job 'no-such-job' runs here" in err and name in err, f"{code} {err}")
    code, out, err = run("autopsy", "--job", "no-such-job")
    job.check(code == 2 and not out and "no process of job 'no-such-job'" in err, f"autopsy: {code} {out}{err}")
    code, _, err = run("record", "--", RANKTRACE, "sim", "job", "--ranks", 3, "--steps", 40, "--quiet", "--job-id",
                       f"{name}-b")
    job.check(code == 0 and f"attached to 3 ranks of job {name}-b" in err, f"{code} {err}")


help_everywhere()
order()
usage_errors()
job.need_root()
name = f"line-{os.getpid()}"
sim = subprocess.Popen([RANKTRACE, "sim", "job", "--ranks", "2", "--steps", "100000", "--quiet", "--job-id", name])
try:
    end = time.monotonic() + 30
    while run("ps", "--json")[1].count(f'"job":"{name}"') < 2 and time.monotonic() < end:
        time.sleep(0.2)
    without_privilege(sim)
    names_whom(name)
finally:
    sim.terminate()
    sim.wait()
