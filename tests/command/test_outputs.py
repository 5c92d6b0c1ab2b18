# SPDX-License-Identifier: Apache-2.0
"""An output never destroys an input or another output, replaces an older file only when it is complete, and if it fails
says so and exits with 4; -o - and replay -. Each exit code of a session's CMD."""
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job

RANKTRACE = os.path.abspath(job.RANKTRACE)
RECORDINGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../replay")
HEADERS = 40  # bytes: of a recording and its first chunk
folder = tempfile.mkdtemp(prefix="ranktrace-outputs-")
job.dirs.append(folder)


def run(*args, command=RANKTRACE, **kw):
    kw = {"capture_output": True, **kw}
    out = subprocess.run([command, *args], cwd=folder, timeout=60, **kw)
    return out.returncode, out.stdout or b"", (out.stderr or b"").decode()


def digest(name):
    with open(f"{folder}/{name}", "rb") as f:
        return hashlib.sha1(f.read()).hexdigest()


def refused(what, args, **kw):
    """Exit code 2, a sentence, and every file as before."""
    before = {n: digest(n) for n in os.listdir(folder) if os.path.isfile(f"{folder}/{n}")}
    code, _, err = run(*args, **kw)
    print(f"{what}: exit {code}: {err.strip().splitlines()[-1] if err else ''}")
    job.check(code == 2 and "this output is also the" in err, f"{what}: exit {code}: {err}")
    after = {n: digest(n) for n in os.listdir(folder) if os.path.isfile(f"{folder}/{n}")}
    job.check(after == before, f"{what}: files before {before}, after {after}")


def inputs():
    shutil.copy(f"{RECORDINGS}/f04_deadlock_blocked.rtr", f"{folder}/a.rtr")
    shutil.copy(f"{RECORDINGS}/autopsy_raw.rtr", f"{folder}/raw.rtr")
    os.symlink("a.rtr", f"{folder}/symlink.rtr")
    os.link(f"{folder}/a.rtr", f"{folder}/hardlink.rtr")
    for name in ("a.rtr", "./a.rtr", f"{folder}/a.rtr", "symlink.rtr", "hardlink.rtr"):
        refused(f"replay a.rtr -o {name}", ["replay", "a.rtr", "-o", name])
        refused(f"merge, -o {name}", ["autopsy", "--merge", "a.rtr", "-o", name])
    with open(f"{folder}/a.rtr", "rb") as stdin:
        refused("replay - < a.rtr", ["replay", "-", "-o", "a.rtr"], stdin=stdin)
    with open(f"{folder}/a.rtr", "ab") as stdout:
        refused("replay a.rtr >> a.rtr", ["replay", "a.rtr"], stdout=stdout, stderr=subprocess.PIPE,
                capture_output=False)
    shutil.copy(f"{folder}/a.rtr", f"{folder}/b.rtr")
    refused("one output twice", ["replay", "a.rtr", "-o", "x.rtr", "-o", "./x.rtr"])
    refused("an old output twice", ["replay", "a.rtr", "-o", "b.rtr", "-o", f"{folder}/b.rtr"])


def replaced():
    """An older file stays until the new one is complete; a command that fails to start leaves it alone."""
    shutil.copy(f"{folder}/a.rtr", f"{folder}/old.rtr")
    before = digest("old.rtr")
    code, _, err = run("replay", "a.rtr", "-o", "old.rtr", "-o", "x.unknown")
    job.check(code == 2 and digest("old.rtr") == before, f"replaced by nothing: exit {code}: {err}")
    code, out, err = run("replay", "-q", "old.rtr", "-o", "new.rtr")
    job.check(code == 1 and b"hang" in out.lower(), f"exit {code}: {err}")
    code, _, err = run("replay", "-q", "new.rtr", "-o", "old.rtr")
    job.check(code == 1 and digest("old.rtr") == digest("new.rtr"), f"exit {code}: {err}")
    left = [n for n in os.listdir(folder) if "part" in n]
    job.check(not left, f"left behind: {left}")


def private():
    """What is new is its owner's alone, and is never made where somebody's link leads."""
    names = ["own.rtr", "own.pftrace", "own.jsonl"]
    code, _, err = run("replay", "-q", "a.rtr", *(w for n in names for w in ("-o", n)), umask=0)
    modes = {n: oct(os.stat(f"{folder}/{n}").st_mode & 0o777) for n in names}
    job.check(code == 1 and set(modes.values()) == {"0o600"}, f"modes {modes}, exit {code}: {err}")
    for n in names:
        os.symlink(f"{folder}/planted", f"{folder}/way-{n}")
        code, _, err = run("replay", "-q", "a.rtr", "-o", f"way-{n}")
        job.check(code == 2 and "a link that leads to no file is not followed" in err, f"{n}: exit {code}: {err}")
        job.check(not os.path.exists(f"{folder}/planted"), f"{n}: a file was made where the link leads")


def streams():
    want = run("replay", "-q", "--json", "a.rtr")[1]
    code, recording, err = run("replay", "-q", "a.rtr", "-o", "-")
    job.check(code == 1 and "CRITICAL hang  ranks 1 and 3 wait" in err,
              f"-o -: findings go to stderr: exit {code}: {err}")
    code, out, err = run("replay", "-q", "--json", "-", input=recording)
    job.check(code == 1 and out == want and want, f"replay -: exit {code}: {err}\n{out}\n{want}")
    code, out, err = run("replay", "--json", "a.rtr", "-o", "-")
    job.check(code == 2 and "both want standard output" in err, f"exit {code}: {err}")
    print(f"-o - | replay -: {len(recording)} bytes, the same findings")


def failing():
    with open("/dev/full", "wb") as full:
        for args in (["replay", "-q", "a.rtr"], ["replay", "-q", "--json", "a.rtr"],
                     ["replay", "-q", "a.rtr", "-o", "-"], ["autopsy", "--merge", "-q", "raw.rtr"],
                     ["record", "--list-probes"]):
            code, _, err = run(*args, stdout=full, stderr=subprocess.PIPE, capture_output=False)
            print(f"{' '.join(args)} > /dev/full: exit {code}: {err.strip().splitlines()[-1]}")
            job.check(code == 4 and "standard output: No space left on device" in err, f"{args}: exit {code}: {err}")
    os.symlink("/dev/full", f"{folder}/full.rtr")
    code, _, err = run("replay", "-q", "a.rtr", "-o", "full.rtr")
    job.check(code == 4 and "full.rtr: No space left" in err, f"full.rtr: exit {code}: {err}")


def broken_pipe():
    """The other outputs are completed; without any, a replay ends as every filter does."""
    read, write = os.pipe()
    os.close(read)
    code, _, err = run("replay", "-q", "a.rtr", "-o", "whole.rtr", stdout=write, stderr=subprocess.PIPE,
                       capture_output=False)
    job.check(code == 4 and "standard output: Broken pipe" in err, f"broken pipe: exit {code}: {err}")
    job.check(run("replay", "-q", "--json", "whole.rtr")[1] == run("replay", "-q", "--json", "a.rtr")[1],
              "whole.rtr is not whole")
    code, _, err = run("replay", "-q", "a.rtr", stdout=write, stderr=subprocess.PIPE, capture_output=False)
    job.check(code == -signal.SIGPIPE and not err, f"broken pipe, no other output: exit {code}: {err}")
    os.close(write)


def commands():
    """record -- CMD: 2 if it cannot start, its status if it fails; a job that was killed is not a success."""
    for cmd, want, word in ((["/nowhere/train.py"], 2, "cannot start: No such file"),
                            (["no-such-program"], 2, "cannot start"),
                            ([f"{folder}/a.rtr"], 2, "Permission denied"), ([folder], 2, "Is a directory"),
                            (["true"], 0, ""), (["sh", "-c", "exit 7"], 7, "sh exited with status 7"),
                            (["sh", "-c", "kill -9 $$"], 137, "killed by signal 9")):
        code, _, err = run("record", "-o", "command.rtr", "--", *cmd)
        print(f"record -- {' '.join(cmd)}: exit {code}")
        job.check(code == want and word in err, f"{cmd}: exit {code} instead of {want}: {err}")
        job.check(want != 2 or not os.path.exists(f"{folder}/command.rtr"), "a session that never was left a recording")
    code, _, err = run("record", "--exit-status=command", "--", "sh", "-c", "exit 3")
    job.check(code == 3, f"--exit-status=command: exit {code}: {err}")


def killed():
    """kill -9 while an older file of that name is being replaced: the old one is whole, the new one is beside it."""
    before = digest("old.rtr")
    p = subprocess.Popen([RANKTRACE, "record", "--pid", str(os.getpid()), "-o", "old.rtr"], cwd=folder,
                         stderr=subprocess.PIPE, text=True)
    line = p.stderr.readline()
    job.check("old.rtr exists: written as" in line and "old.rtr.part" in line, line)
    end = time.monotonic() + 30
    while os.path.getsize(f"{folder}/old.rtr.part") <= HEADERS and time.monotonic() < end:
        time.sleep(0.1)
    p.kill()
    p.wait()
    code, _, err = run("replay", "old.rtr.part", "-o", "old.rtr")
    job.check(code == 0 and digest("old.rtr") != before, f"replay of the part onto the old: exit {code}: {err}")
    code, _, err = run("replay", "-q", "old.rtr.part")
    job.check(code == 0, f"the part is still there: exit {code}: {err}")


def reader_gone():
    """A session whose findings nobody can read any more ends; one that writes a recording too goes on."""
    for more, ends in (([], True), (["-o", "goes-on.rtr"], False)):
        read, write = os.pipe()
        os.close(read)
        # so late that a session which attached slowly knows the job's steps by then: before, peers may wait for 30 s
        p = subprocess.Popen([RANKTRACE, "sim", "job", "--ranks", "2", "--steps", "2000", "--quiet", "--fault",
                              "hang:rank=1,step=100"])
        code, _, err = run("record", "--pid", str(p.pid), "-d", "30", *more, stdout=write, stderr=subprocess.PIPE,
                           capture_output=False)
        p.terminate()
        p.wait()
        os.close(write)
        job.check(code == 4 and "standard output: Broken pipe" in err, f"exit {code}: {err}")
        job.check(("no output of this session is read" in err) == ends, f"{more}: {err}")


inputs()
replaced()
private()
streams()
failing()
broken_pipe()
job.need_root()
commands()
killed()
reader_gone()
