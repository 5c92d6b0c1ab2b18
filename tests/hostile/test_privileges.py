# SPDX-License-Identifier: Apache-2.0
"""Who of our processes may do what: user, capabilities, filter, limits of each, as /proc has them, are those of the
table in docs/security.md, under watch and under record; and `record -- CMD` leaves CMD all that its caller has."""
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job

CAPS = ("CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE "
        "NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT "
        "SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL "
        "SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF "
        "CHECKPOINT_RESTORE").split()
SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
LIMITS = {"address space": "Max address space", "data": "Max data size", "cpu": "Max cpu time",
          "files": "Max open files", "processes": "Max processes", "file size": "Max file size",
          "locked": "Max locked memory", "core": "Max core file size"}
UNITS = {"GB": 1 << 30, "MB": 1 << 20, "s": 1, "": 1}
OURS = {"ranktrace", "ranktrace-zyg", "ranktrace-read", "ranktrace-parse", "ranktrace-nvml", "ranktrace-http",
        "ranktrace-bus"}
ENDED = (FileNotFoundError, ProcessLookupError)  # before a file of it was opened, or before it was read
NVML = """
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = (void *)1; return 0; }
"""


def documented():
    """The two tables: name -> user, capabilities, filter, limits."""
    rows, head = {}, []
    for line in open("docs/security.md"):
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if line.startswith("| `"):
            rows.setdefault(cells[0].strip("`"), {"limits": {}}).update(zip(head[1:], cells[1:]))
        elif line.startswith("| "):
            head = cells
    for r in rows.values():
        caps = [c for c in r["capabilities"].split(", ") if c != "none"]
        r["caps"] = {c for c in caps if "`" not in c}
        for c in caps:
            if c.startswith("those of `"):
                r["caps"] |= rows[c.split("`")[1]]["caps"]
        for which in LIMITS:
            number, _, unit = r.get(which, "").partition(" ")
            if number:
                r["limits"][which] = int(number) * UNITS[unit]
    return rows


def names(bits):
    return {CAPS[i] if i < len(CAPS) else str(i) for i in range(64) if bits >> i & 1}


def status(pid):
    """Anybody's process may have a name that is no text: other tests run beside."""
    with open(f"/proc/{pid}/status", errors="surrogateescape") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def family(pid):
    """This process and all below it: pid -> name."""
    parents, found = {}, {}
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            s = status(p)
        except OSError:
            continue
        parents[int(p)] = (int(s["PPid"]), s["Name"])
    for p in parents:
        at = p
        while at in parents and at != pid:
            at = parents[at][0]
        if at == pid:
            found[p] = parents[p][1]
    return found


def of_session(sid):
    """The same of a session, whose processes may have lost their parents: pid -> name."""
    found = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            s = status(pid)
            if s["State"][0] != "Z" and os.getsid(pid) == sid:
                found[pid] = s["Name"]
        except (OSError, KeyError):
            pass
    return found


def check_process(pid, name, rows, mine):
    s, row = status(pid), rows[name]
    sets = dict.fromkeys(SETS, set())
    sets["CapPrm"] = sets["CapEff"] = row["caps"]
    sets["CapBnd"] = rows["ranktrace"]["caps"] if name == "ranktrace-nvml" else row["caps"]
    for which in SETS:
        has, expected = names(int(s[which], 16)), sets[which] & mine
        job.check(has == expected, f"{name} ({pid}) {which}: has {sorted(has)}, documented {sorted(expected)}")
    for thread in os.listdir(f"/proc/{pid}/task"):
        more = names(int(status(f"{pid}/task/{thread}")["CapPrm"], 16)) - row["caps"]
        job.check(not more, f"{name} ({pid}), thread {thread}: has {sorted(more)} beside what is documented")
    job.check(s["Uid"].split() == s["Gid"].split() == [row["user"]] * 4, f"{name}: {s['Uid']}, {s['Gid']}")
    job.check(s["Groups"].strip() == "" or row["user"] == "0", f"{name}: groups {s['Groups']}")
    job.check(s["NoNewPrivs"] == "1", f"{name}: may gain privileges")
    job.check(s["Seccomp"] == ("2" if row["filter"] == "yes" else "0"), f"{name}: Seccomp {s['Seccomp']}")
    with open(f"/proc/{pid}/limits") as f:
        text = f.read()
    for which, most in row["limits"].items():
        has = re.search(rf"^{LIMITS[which]} +(\S+) +(\S+)", text, re.M)
        job.check(has and has[1] == has[2] == str(most), f"{name}: {which} {has and has.groups()}, not {most}")


def check_session(tracer, rows, mine):
    """Workers come as they are needed: wait until each kind was there."""
    seen, end = {}, time.monotonic() + 60
    while set(seen) < set(rows) and time.monotonic() < end:
        job.check(tracer.poll() is None, f"ended: {tracer.returncode}")
        seen.update({name: pid for pid, name in family(tracer.pid).items() if name in rows})
        time.sleep(0.2)
    job.check(set(seen) == set(rows), f"seen {sorted(seen)} of {sorted(rows)}")
    time.sleep(1)  # each was just forked: now it has given up what it does
    checked, end = {}, time.monotonic() + 30
    while set(checked) < set(rows) and time.monotonic() < end:  # a parser may have been replaced meanwhile
        for pid, name in family(tracer.pid).items():
            try:
                if name in rows and is_settled(pid, name):
                    check_process(pid, name, rows, mine)
                    checked[name] = pid
            except ENDED:
                pass
    print(f"  as documented: {checked}")
    job.check(set(checked) == set(rows), f"there were {sorted(checked)} of {sorted(rows)}")


def is_settled(pid, name):
    """It was there for a while: what it gives up it gives up at its start."""
    with open(f"/proc/{pid}/stat") as f:
        begun = int(f.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - begun > 0.5 and status(pid)["Name"] == name


def tier(folder, argv, rows, mine):
    """What a session has, while it attaches and reads."""
    log = open(f"{folder}/log", "w")
    tracer = subprocess.Popen([job.RANKTRACE, *argv, "--metrics", "0", "-o", f"{folder}/{argv[0]}.rtr"], stdout=log,
                              stderr=log)
    try:
        check_session(tracer, rows, mine)
    finally:
        tracer.terminate()
        tracer.wait(30)


def command_keeps_all(folder):
    out = f"{folder}/command.json"
    code = ("import json\n"
            "s = dict(l.rstrip('\\n').split(':\\t', 1) for l in open('/proc/self/status') if ':\\t' in l)\n"
            f"json.dump(s, open({out!r}, 'w'))")
    done = subprocess.run([job.RANKTRACE, "record", "-o", f"{folder}/command.rtr", "--", sys.executable, "-c", code],
                          timeout=60, capture_output=True, text=True)
    job.check(os.path.exists(out), done)
    s = json.load(open(out))
    own = status("self")
    job.check(all(s[k] == own[k] for k in ("CapEff", "NoNewPrivs", "Seccomp")),
              f"the command has {s['CapEff']}, NoNewPrivs {s['NoNewPrivs']}, Seccomp {s['Seccomp']}")


def main():
    job.need_root()
    _, number = job.seed()
    rows = {name: row for name, row in documented().items() if name in OURS}
    mine = names(int(status("self")["CapEff"], 16))
    job.check(set(rows) == OURS and len(rows["ranktrace-read"]["limits"]) == 7 and
              len(rows["ranktrace-parse"]["limits"]) == 8,
              f"the table is not as expected: {rows}")
    with tempfile.TemporaryDirectory(prefix="ranktrace-privileges-") as d:
        with open(f"{d}/nvml.c", "w") as f:
            f.write(NVML)
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-w", "-o", f"{d}/nvml.so", f"{d}/nvml.c"],
                       check=True)
        os.environ["RANKTRACE_NVML"] = f"{d}/nvml.so"
        sim = subprocess.Popen([job.RANKTRACE, "sim", "job", "--ranks", "2", "--steps", "100000", "--seed",
                                str(number)], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
        try:
            tier(d, ["watch", "--nats", "nats://127.0.0.1:9"], rows, mine)  # no server is there
            del rows["ranktrace-bus"]
            tier(d, ["record", "--all"], rows, mine)
        finally:
            sim.terminate()
            sim.wait()
        command_keeps_all(d)


if __name__ == "__main__":
    main()
