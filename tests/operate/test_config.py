# SPDX-License-Identifier: Apache-2.0
"""The sample configuration has every key that the program takes, and no other; it is right as it is and with each line
switched on. `watch --check-config` names file, line, key and what is allowed, for all that is wrong at once."""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(1, sys.path[0] + "/../aid")
import job

SAMPLE = "tools/deploy/ranktrace.conf"
# A value that is wrong, and what is said of it: the keys that take any text (names, files) are not in it.
WRONG = [("pid", "zero", "not a process id"), ("duration", "0", "not a number of seconds above 0"),
         ("output", "findings.txt", "use .pftrace, .rtr, .html or .jsonl"),
         ("rotate", "5", "neither a size (500M, 2G) nor a time (30min, 12h, 7d)"),
         ("keep", "1000", "not a number from 1 to 999"), ("json", "true", "neither 'yes' nor 'no'"),
         ("metrics", "localhost:0", "give PORT (on 127.0.0.1), ADDR:PORT or [ADDR]:PORT"),
         ("hang-limit", "1,5", "not a number of seconds above 0"),
         ("busy-limit", "-3", "not a number of seconds above 0"), ("dstate-limit", "x", "not a number of seconds"),
         ("raise", "1", "neither 'yes' nor 'no'"), ("raise-for", "9999", "not a number of seconds from 1 to 3600"),
         ("budget", "0", "neither 'no' nor a percentage of a core"), ("budget-node", "y", "neither 'no' nor"),
         ("shared-probes", "si", "neither 'yes' nor 'no'"), ("ring-size", "1000", "not a power of two"),
         ("flight-seconds", "0", "not a number from 1 to"), ("flight-mb", "-1", "not a number from 1 to"),
         ("flight-keep", "many", "not a number from 1 to"), ("fail-on", "info", "warning"),
         ("quiet", "1", "neither 'yes' nor 'no'"), ("verbose", "2", "neither 'yes' nor 'no'")]
ANY_TEXT = {"job", "phases", "flight", "metrics-config", "nats", "nats-creds", "nats-ca", "nats-cert", "nats-key"}


def written(name, text):
    with open(name, "w", encoding="utf-8") as f:
        f.write(text)
    return name


def run(*argv):
    return subprocess.run([job.RANKTRACE, "watch", *argv], capture_output=True, text=True, timeout=60)


def settings(folder):
    """Those that the program itself lists when it does not know one."""
    err = run("--check-config", written(f"{folder}/unknown.conf", "no-such-key = 1\n")).stderr
    return set(re.search(r"settings are (.*)", err)[1].split(", "))


def check_sample(folder):
    out = subprocess.run([sys.executable, "-B", "scripts/sample_config.py", "--check"], capture_output=True, text=True)
    job.check(out.returncode == 0, out.stdout + out.stderr)
    with open(SAMPLE, encoding="utf-8") as f:
        text = f.read()
    keys, known = re.findall(r"^#([a-z-]+) = \S", text, re.M), settings(folder)
    job.check(len(keys) == len(set(keys)) and set(keys) == known,
              f"the sample lacks {known - set(keys)}, and has {set(keys) - known} or a key twice")
    on = re.sub(r"^#([a-z-]+ = )", r"\1", text, flags=re.M)
    for name, content in (("as it is", text), ("all switched on", on)):
        out = run("--check-config", written(f"{folder}/sample.conf", content))
        job.check(out.returncode == 0 and "nothing is wrong" in out.stdout, f"sample, {name}: {out.stdout}{out.stderr}")
    return known


def check_wrong(folder, known):
    job.check({key for key, _, _ in WRONG} | ANY_TEXT == known, f"not tried: {known - {k for k, _, _ in WRONG}}")
    path = written(f"{folder}/wrong.conf", "".join(f"{key} = {value}\n" for key, value, _ in WRONG))
    out = run("--check-config", path)
    job.check(out.returncode == 2 and not out.stdout, f"{out.returncode} {out.stdout}")
    for n, (key, _, allowed) in enumerate(WRONG, 1):
        said = re.search(rf"^ranktrace: error: {re.escape(path)}:{n}: {key}: (.*)$", out.stderr, re.M)
        job.check(said and allowed in said[1], f"{key}: {said and said[0]}, not {allowed}\n{out.stderr}")
    print(f"  {len(WRONG)} wrong values, each with its line and what is allowed")


def check_daemon(folder):
    """It does not start with a file that is wrong, and says the same."""
    path = written(f"{folder}/daemon.conf", "# of this node\nhang-limt = 2\n")
    out = run("--config", path)
    job.check(out.returncode == 2 and f"{path}:2: 'hang-limt' is not a setting (did you mean" in out.stderr,
              f"{out.returncode} {out.stderr}")
    path = written(f"{folder}/apart.conf", "keep = 3\nnats-cert = /a.pem\n")
    out = run("--check-config", path)
    job.check(out.returncode == 2 and "--keep without --rotate" in out.stderr and "--nats URL" in out.stderr
              and f"{path}: these settings" in out.stderr, out.stderr)
    out = run("--check-config", f"{folder}/none.conf")
    job.check(out.returncode == 2 and f"{folder}/none.conf: No such file" in out.stderr, out.stderr)


def check_web(folder):
    """What metrics-config names is checked too, where it is there: the file may be made elsewhere."""
    web = written(f"{folder}/web.yml", "basic_auth_users:\n  prom: secret\n")
    path = written(f"{folder}/web.conf", f"metrics = 9978\nmetrics-config = {web}\n")
    out = run("--check-config", path)
    job.check(out.returncode == 2 and f"{web}:2: prom: not a bcrypt hash" in out.stderr, out.stderr)
    os.remove(web)
    out = run("--check-config", path)
    job.check(out.returncode == 0 and f"{web} is not on this host" in out.stderr, f"{out.returncode} {out.stderr}")
    out = run("--check-config", written(f"{folder}/web.conf", f"metrics-config = {web}\n"))
    job.check(out.returncode == 0 and "--metrics-config without --metrics" in out.stderr, out.stderr)


def main():
    folder = tempfile.mkdtemp(prefix="ranktrace-config-")
    job.dirs.append(folder)
    known = check_sample(folder)
    check_wrong(folder, known)
    check_daemon(folder)
    check_web(folder)


if __name__ == "__main__":
    main()
