# SPDX-License-Identifier: Apache-2.0
# runs alone with LONG=1: it builds an image
"""The image: its Dockerfile builds (buildah, in a chroot, from the clean Debian 12 of test_packages.py, as no registry
is asked). Its root, mounted as the DaemonSet mounts it (read-only, the host's /sys and pids, two folders to write to),
with the DaemonSet's capabilities, runs its own command line, serves metrics, and finds a rank that hangs. No
container engine started it: what a runtime adds (AppArmor, device cgroups, NVIDIA's hook) is not tested."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import monitoring

try:
    import yaml
except ImportError:
    job.skip("no python3-yaml: scripts/deps.sh packages installs it")

BASE = os.path.join(os.path.abspath(os.environ.get("VM_CACHE", "build/vm")), "bookworm-root")
POD = "tools/deploy/kubernetes/base/daemonset.yaml"
# In a mount namespace of its own: what the DaemonSet mounts, and nothing else of the host.
START = """set -e
mount --bind -o ro {root} {root} && mount -o remount,bind,ro {root}
mount -t proc proc {root}/proc
mount --rbind -o ro /sys {root}/sys
mount --bind {state} {root}/var/lib/ranktrace
mount --bind {run} {root}/run/ranktrace
mount --bind {config} {root}/etc/ranktrace
exec chroot {root} setpriv --bounding-set=-all,{caps} --inh-caps=-all --no-new-privs {argv}
"""


def buildah(where, *args):
    env = dict(os.environ, STORAGE_DRIVER="vfs", BUILDAH_ISOLATION="chroot")
    out = subprocess.run(["buildah", "--root", f"{where}/storage", "--runroot", f"{where}/run", *args], env=env,
                         capture_output=True, text=True)
    job.check(out.returncode == 0, f"buildah {args[0]}: {out.stdout[-2000:]}{out.stderr[-2000:]}")
    return out.stdout.strip()


def built(where):
    """The image's root, and its configuration."""
    base = buildah(where, "from", "scratch")
    buildah(where, "copy", "-q", base, BASE, "/")
    buildah(where, "commit", "-q", base, "localhost/debian:bookworm-slim")
    buildah(where, "bud", "--build-arg", "BASE=localhost/debian:bookworm-slim", "--pull-never", "-t", "ranktrace", "-f",
            "tools/deploy/oci/Dockerfile", "build/deb")
    config = json.loads(buildah(where, "inspect", "--type", "image", "ranktrace"))["OCIv1"]["config"]
    container = buildah(where, "from", "--pull-never", "localhost/ranktrace")
    return buildah(where, "mount", container), config


def main():
    if not job.LONG:
        job.skip("LONG=1 builds an image")
    job.need_root()
    if not shutil.which("buildah") or not os.path.exists(BASE) or not os.path.exists("build/deb"):
        job.skip("needs buildah, and what test_packages.py left: a clean root and packages")
    where = f"/var/tmp/ranktrace-image-{os.getpid()}"
    os.mkdir(where)
    job.dirs.append(where)
    root, config = built(where)
    job.check(config["Entrypoint"] == ["/usr/bin/ranktrace"] and config["Cmd"][0] == "watch", config)
    job.check(not os.listdir(f"{root}/var/lib/apt/lists") and not [n for n in os.listdir(f"{root}/tmp")], "left behind")
    with open(POD, encoding="utf-8") as f:
        container = yaml.safe_load(f)["spec"]["template"]["spec"]["containers"][0]
    port = monitoring.free_port()
    for name in ("state", "pidfiles", "config"):
        os.mkdir(f"{where}/{name}")
    with open("tools/deploy/kubernetes/base/ranktrace.conf", encoding="utf-8") as f, \
            open(f"{where}/config/ranktrace.conf", "w", encoding="utf-8") as to:
        to.write(re.sub(r"^metrics = .*$", f"metrics = 127.0.0.1:{port}", f.read(), flags=re.M))
    for name in ("run/ranktrace", "var/lib/ranktrace"):  # a runtime makes places to mount at
        os.makedirs(f"{root}/{name}", exist_ok=True)
    sim = subprocess.Popen([job.RANKTRACE, "sim", "job", "--ranks", "3", "--steps", "100000", "--fault",
                            "stop:rank=1,step=20,sec=300", "--job-id", f"image-{os.getpid()}"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    caps = ",".join(f"+{c.lower()}" for c in container["securityContext"]["capabilities"]["add"])
    script = START.format(root=root, state=f"{where}/state", run=f"{where}/pidfiles", config=f"{where}/config",
                          caps=caps,
                          argv=" ".join(["/usr/bin/ranktrace", *container["args"]]))
    with open(f"{where}/out", "w") as out, open(f"{where}/err", "w") as err:
        watch = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "bash", "-c", script], stdout=out,
                                 stderr=err, start_new_session=True)
    job.jobs.append(type("Both", (), {"kill": lambda self: [os.killpg(p.pid, signal.SIGKILL) for p in (sim, watch)
                                                            if p.poll() is None]})())
    check_finding(where, watch)
    check_metrics(port)
    watch.send_signal(signal.SIGTERM)
    job.check(watch.wait(60) in (0, 1), f"it ends with {watch.returncode}")
    job.check(os.listdir(f"{where}/state"), "nothing is in its state folder")
    buildah(where, "umount", "--all")
    print("  the image's own command line, with the DaemonSet's capabilities and mounts, found it")


def check_finding(where, watch):
    end, found = time.monotonic() + 90, []
    while not found and time.monotonic() < end and watch.poll() is None:
        time.sleep(0.5)
        with open(f"{where}/out", encoding="utf-8") as f:
            found = [line for line in f if f'"job":"image-{os.getpid()}"' in line and "is stopped" in line]
    with open(f"{where}/err", encoding="utf-8") as f:
        job.check(found, f"no finding: {watch.poll()} {f.read()}")
    print(f"  {json.loads(found[0])['summary']}")


def check_metrics(port):
    """A page is made once a second."""
    end, text = time.monotonic() + 15, ""
    while "ranktrace_findings_open{" not in text and time.monotonic() < end:
        time.sleep(0.5)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as r:
            text = r.read().decode()
    seen = f'ranktrace_job_ranks{{train_job="image-{os.getpid()}"}} 3' in text
    job.check(seen and "ranktrace_findings_open{" in text, text[:2000])


main()
