# SPDX-License-Identifier: Apache-2.0
# runs alone with LONG=1: a guest whose processor is emulated takes both of this machine's
"""What users install. Debian packages: built, without a word of lintian, into a clean Debian 12 root without backports;
that root boots in a guest with systemd, where the service finds a rank that hangs, reloads, upgrades, refuses a wrong
configuration, is removed and purged; its processes have the capabilities of docs/security.md there. The tarball: from
any folder, with its own libraries. PARTS='packages guest tarball' chooses."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
sys.path.insert(1, sys.path[0] + "/../hostile")
import job

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.path.abspath(os.environ.get("VM_CACHE", "build/vm"))
VM = os.path.join(HERE, "../vm")
GUEST_S = 2400
CAPS = {"KILL": 5, "SETGID": 6, "SETUID": 7, "SETPCAP": 8, "DAC_READ_SEARCH": 2, "SYS_PTRACE": 19, "SYS_ADMIN": 21,
        "SYS_NICE": 23, "SYSLOG": 34, "PERFMON": 38, "BPF": 39}


def run(*argv, **more):
    out = subprocess.run(argv, capture_output=True, text=True, **more)
    job.check(out.returncode == 0, f"{' '.join(argv)}: {out.returncode} {out.stdout[-3000:]}{out.stderr[-3000:]}")
    return out.stdout


def folder(name):
    path = f"/var/tmp/ranktrace-packages-{os.getpid()}-{name}"
    os.mkdir(path, 0o755)
    job.dirs.append(path)
    return path


def debs():
    run("make", "-s", "deb")
    lint = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", "build/deb/ranktrace.changes"],
                          capture_output=True, text=True)
    job.check(lint.returncode == 0, f"lintian: {lint.stdout}{lint.stderr}")
    found = {n.split("_")[0]: os.path.abspath(f"build/deb/{n}") for n in os.listdir("build/deb") if n.endswith(".deb")}
    listed = run("dpkg", "-c", found["ranktrace"])
    job.check("/sim/" not in listed and "/usr/bin/ranktrace" in listed, "the stand-ins are in the command's package")
    print(f"  built: {', '.join(sorted(found))}; lintian says nothing")
    return found


def clean_root():
    """Debian 12 as debootstrap leaves it, kept for the next time."""
    kept = f"{CACHE}/bookworm-root"
    if not os.path.exists(f"{kept}/etc/debian_version"):
        sites = run("apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)").splitlines()
        mirror = [line.split()[0] for line in sites if line.endswith(" bookworm")]
        if not mirror:
            job.skip("apt's configuration names no mirror of bookworm")
        shutil.rmtree(f"{kept}.new", ignore_errors=True)
        run("debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,dbus,udev,kmod", "bookworm",
            f"{kept}.new", mirror[0])
        os.rename(f"{kept}.new", kept)
    root = folder("root")
    run("cp", "-a", f"{kept}/.", root)
    return root


def install(root, found):
    for name in ("ranktrace", "ranktrace-simjob"):
        shutil.copy(found[name], f"{root}/tmp/{name}.deb")
    if os.path.exists("/etc/resolv.conf"):
        shutil.copy("/etc/resolv.conf", f"{root}/etc/resolv.conf")
    run("chroot", root, "sh", "-c", "export DEBIAN_FRONTEND=noninteractive; apt-get update -qq && apt-get install -y "
        "-qq --no-install-recommends /tmp/ranktrace.deb /tmp/ranktrace-simjob.deb && rm /tmp/*.deb")
    job.check(run("chroot", root, "ranktrace", "--version").startswith("ranktrace "), "it does not run there")
    libdw = run("chroot", root, "dpkg-query", "-W", "-f=${Version}", "libdw1")
    job.check("bpo" not in libdw and "nothing is wrong" in run(
        "chroot", root, "ranktrace", "watch", "--check-config", "/etc/ranktrace.conf"), f"libdw1 {libdw}")
    print(f"  installed in a clean Debian 12 with its own libraries (libdw1 {libdw})")


def newer(found, to):
    """The package of a later version."""
    tree = folder("newer")
    run("dpkg-deb", "-R", found["ranktrace"], tree)
    with open(f"{tree}/DEBIAN/control", encoding="utf-8") as f:
        text = re.sub(r"^(Version: .*)$", r"\1+upgraded", f.read(), flags=re.M)
    with open(f"{tree}/DEBIAN/control", "w", encoding="utf-8") as f:
        f.write(text)
    run("dpkg-deb", "-b", "--root-owner-group", tree, to)


def documented():
    """The first table of docs/security.md: process -> capabilities."""
    rows = {}
    with open("docs/security.md", encoding="utf-8") as f:
        for line in f:
            cells = [c.strip() for c in line.strip().strip("|").split("|")]
            if line.startswith("| `ranktrace") and len(cells) == 4:
                caps = set(cells[2].split(", ")) - {"none"}
                base = next((c for c in caps if c.startswith("those of")), None)
                if base:
                    caps = (caps - {base}) | rows[base.split("`")[1]]
                rows.setdefault(cells[0].strip("`"), caps)
    return rows


def check_processes(output):
    rows, seen = documented(), set()
    for line in re.findall(r"^PROC (.*)$", output, re.M):
        field = dict(part.split(":", 1) for part in line.split())
        name = field["Name"]
        wanted = sum(1 << CAPS[c] for c in rows[name])
        if name == "ranktrace":  # the guest's kernel, 6.1, has no uprobe.multi: docs/security.md
            wanted |= 1 << CAPS["SYS_ADMIN"]
        job.check(int(field["CapEff"], 16) == int(field["CapPrm"], 16) == wanted and field["NoNewPrivs"] == "1",
                  f"{name} has {field}, documented {sorted(rows[name])}")
        seen.add(name)
    job.check({"ranktrace", "ranktrace-zyg", "ranktrace-read", "ranktrace-parse"} <= seen, f"seen were {sorted(seen)}")
    print(f"  under systemd, with the documented capabilities: {', '.join(sorted(seen))}")


def guest(root, found):
    busybox = shutil.which("busybox")
    if not shutil.which("qemu-system-x86_64") or not busybox:
        job.skip("no qemu-system-x86_64 or busybox")
    kernel = subprocess.run([f"{VM}/kernel.sh", "6.1"], capture_output=True, text=True)
    if kernel.returncode:
        job.skip(f"no kernel for the guest: {kernel.stderr}")
    kernel = kernel.stdout.strip()
    where = folder("guest")
    os.mkdir(f"{where}/job")
    shutil.copy(f"{HERE}/guest_packages.sh", f"{where}/job/test.sh")
    newer(found, f"{where}/job/new.deb")
    run(f"{VM}/initramfs.sh", kernel, busybox, f"{where}/initrd", f"{HERE}/guest_init.sh", "virtio_pci", "9pnet_virtio",
        "9p", "overlay")
    with open(f"{where}/qemu", "w") as log:
        q = subprocess.Popen(
            ["nice", "-n", "5", "qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu",
             "max,la57=off", "-smp", "2", "-m", "3G", "-nographic", "-no-reboot", "-nodefaults", "-nic", "none",
             "-serial", f"file:{where}/console", "-kernel", f"{kernel}/vmlinuz", "-initrd", f"{where}/initrd",
             "-append", "console=ttyS0 loglevel=4 panic=-1 oops=panic mitigations=off nokaslr",
             "-virtfs", f"local,path={root},mount_tag=root,security_model=none,readonly=on,multidevs=remap",
             "-virtfs", f"local,path={where}/job,mount_tag=job,security_model=none"], stdin=subprocess.DEVNULL,
            stdout=log, stderr=log)
    job.jobs.append(type("Guest", (), {"kill": lambda self: q.poll() is None and q.send_signal(signal.SIGKILL)})())
    end = time.monotonic() + GUEST_S
    while q.poll() is None and not os.path.exists(f"{where}/job/done") and time.monotonic() < end:
        time.sleep(1)
    output = read(f"{where}/job/output")
    print("".join(f"  {line}\n" for line in output.splitlines() if line.startswith(("ok: ", "kernel "))), end="")
    job.check("FAILED" not in output and os.path.exists(f"{where}/job/done") and "nothing is left" in output,
              f"{output[-4000:]}{read(where + '/qemu')}{read(where + '/console')[-2000:]}")
    check_processes(output)


def read(path):
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def tarball():
    run("make", "-s", "dist")
    name = next(n for n in os.listdir("build/dist") if n.endswith("-linux-x86_64.tar.gz"))
    run("sha256sum", "-c", f"{name}.sha256", cwd="build/dist")
    with open(f"build/dist/{name}", "rb") as f:
        first = f.read()
    run("make", "-s", "dist")
    with open(f"build/dist/{name}", "rb") as f:
        job.check(f.read() == first, "the second tarball of the same tree differs")
    where = folder("tarball")
    run("tar", "-C", where, "-xf", f"build/dist/{name}", "--strip-components=1")
    program = f"{where}/bin/ranktrace"
    programs = [program, f"{where}/lib/ranktrace/sim/simcluster"]
    foreign = [line for path in programs for line in run("ldd", path).splitlines() if "=> /" in line
               and f"{where}/" not in line and not re.search(r"/(libc|libm)\.so\.6", line)]
    job.check(not foreign, f"of this machine they take {foreign}")
    asked = set()
    for path in programs + [f"{where}/lib/ranktrace/libs/{so}" for so in os.listdir(f"{where}/lib/ranktrace/libs")]:
        asked |= set(re.findall(r"GLIBC_2\.(\d+)", run("objdump", "-T", path)))
    job.check(max(map(int, asked)) <= 34, f"it takes glibc 2.{max(map(int, asked))}")
    out = subprocess.run([program, "replay", "-q", "tests/replay/f01_stop.rtr"], capture_output=True, text=True)
    job.check(out.returncode == 1 and "rank 2 is stopped" in out.stdout, f"replay: {out}")
    sim = subprocess.run([program, "sim", "job", "--ranks", "2", "--steps", "2", "-q"], capture_output=True, text=True)
    job.check(sim.returncode == 0, f"its simulated job: {sim}")
    sim = subprocess.run([program, "sim", "cluster", "-n", "64", "--tp", "1", "--pp", "1", "-f", "stop", "-t", "1"],
                         capture_output=True, text=True)
    job.check(sim.returncode == 0 and json.loads(sim.stdout.splitlines()[0])["fault"] == "stop",
              f"its simulated cluster: {sim}")
    print(f"  {name}: {len(first) >> 20} MiB, the same bytes twice, its own libraries, glibc 2.{max(map(int, asked))}")


def main():
    if not job.LONG:
        job.skip("LONG=1 builds packages and boots a guest")
    job.need_root()
    for tool in ("dpkg-buildpackage", "dh", "lintian", "debootstrap"):
        if not shutil.which(tool):
            job.skip(f"no {tool}: scripts/deps.sh packages installs it")
    parts = os.environ.get("PARTS", "packages guest tarball").split()
    if "tarball" in parts:
        tarball()
    if "packages" in parts:
        found = debs()
        root = clean_root()
        install(root, found)
        if "guest" in parts:
            guest(root, found)


main()
