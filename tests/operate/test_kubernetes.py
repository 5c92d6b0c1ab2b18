# SPDX-License-Identifier: Apache-2.0
"""The DaemonSet: the capabilities of the unit, which are those of docs/security.md, and no other right; the host's pid
namespace; what it mounts is what the daemon reads and writes; its configuration is one that the daemon takes. The
site's values reach it (kubectl's kustomize, where it is installed). No cluster is asked."""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import job

try:
    import yaml
except ImportError:
    job.skip("no python3-yaml: scripts/deps.sh packages installs it")

FOLDER = "tools/deploy/kubernetes"


def documents(text):
    return [d for d in yaml.safe_load_all(text) if d]


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def unit_capabilities():
    lines = re.findall(r"^CapabilityBoundingSet=(.*)$", read("debian/ranktrace.service"), re.M)
    return {c.removeprefix("CAP_") for line in lines for c in line.split()}


def check_rights(pod, container):
    rights = container["securityContext"]
    caps = rights["capabilities"]
    job.check(caps["drop"] == ["ALL"] and set(caps["add"]) == unit_capabilities() and unit_capabilities(),
              f"the pod adds {caps}, the unit {sorted(unit_capabilities())}")
    job.check(rights["privileged"] is False and rights["allowPrivilegeEscalation"] is False
              and rights["readOnlyRootFilesystem"] is True and rights["runAsUser"] == 0, rights)
    job.check(pod["hostPID"] is True and pod["hostNetwork"] is True and "hostIPC" not in pod, "namespaces")
    job.check(pod["automountServiceAccountToken"] is False, "it has a token of the cluster")
    job.check("cpu" not in container["resources"]["limits"], "a quota of CPU would starve the collector")


def check_mounts(pod, container, config):
    volumes = {v["name"]: v for v in pod["volumes"]}
    mounts = {m["mountPath"]: m for m in container["volumeMounts"]}
    job.check(set(volumes) == {m["name"] for m in mounts.values()}, "a volume without a mount, or the other way round")
    host = {v["hostPath"]["path"]: name for name, v in volumes.items() if "hostPath" in v}
    job.check(set(host) == {"/var/lib/ranktrace", "/run/ranktrace", "/sys"}, f"of the host it mounts {sorted(host)}")
    job.check(all(m["name"] == host.get(path, m["name"]) for path, m in mounts.items()), "mounted elsewhere")
    writable = {path for path, m in mounts.items() if not m.get("readOnly")}
    job.check(writable == {"/var/lib/ranktrace", "/run/ranktrace"}, f"it can write to {writable}")
    written = re.findall(r"^(?:flight|phases|output) = (/\S+)", config, re.M)
    job.check(written and all(any(w.startswith(path) for path in writable) for w in written),
              f"the configuration writes {written}, the pod to {writable}")
    args = container["args"]
    job.check(args[:2] == ["watch", "--config"] and os.path.dirname(args[2]) in mounts, args)


def check_config(path, container):
    out = subprocess.run([job.RANKTRACE, "watch", "--check-config", path], capture_output=True, text=True)
    job.check(out.returncode == 0, out.stderr)
    port = int(re.search(r"^metrics = \S+:(\d+)$", read(path), re.M)[1])
    ports = {p["name"]: p["containerPort"] for p in container["ports"]}
    job.check(ports == {"metrics": port}, f"{path} serves {port}, the pod {ports}")
    for probe in ("livenessProbe", "readinessProbe"):
        job.check(container[probe]["httpGet"] == {"path": "/metrics", "port": "metrics"}, container[probe])


def daemon(docs):
    found = [d for d in docs if d["kind"] == "DaemonSet"]
    job.check(len(found) == 1, f"{len(found)} DaemonSets")
    job.check(found[0]["spec"]["selector"]["matchLabels"].items()
              <= found[0]["spec"]["template"]["metadata"]["labels"].items(), "it does not select its own pods")
    pod = found[0]["spec"]["template"]["spec"]
    return pod, pod["containers"][0]


def check_names():
    """Files that a kustomization names are there, and its values are of what the base has."""
    for part in ("base", "site"):
        kustomization = yaml.safe_load(read(f"{FOLDER}/{part}/kustomization.yaml"))
        named = kustomization["resources"] + [p["path"] for p in kustomization.get("patches", [])]
        named += [f for c in kustomization["configMapGenerator"] for f in c["files"]]
        missing = [n for n in named if not os.path.exists(f"{FOLDER}/{part}/{n}")]
        job.check(named and not missing, f"{part}: no {missing}")
    _, container = daemon(documents(read(f"{FOLDER}/base/daemonset.yaml")))
    job.check({i["name"] for i in kustomization["images"]} == {container["image"]}, "another image is named")


def check_built():
    if not shutil.which("kubectl"):
        print("  no kubectl: the site's kustomization was read, not built")
        return
    out = subprocess.run(["kubectl", "kustomize", f"{FOLDER}/site"], capture_output=True, text=True)
    job.check(out.returncode == 0 and "deprecated" not in out.stderr, out.stderr)
    docs = documents(out.stdout)
    pod, container = daemon(docs)
    config = next(d for d in docs if d["kind"] == "ConfigMap")
    job.check(all(d["metadata"].get("namespace") == "ranktrace" for d in docs if d["kind"] != "Namespace"), "namespace")
    job.check(container["image"] == "registry.example/ranktrace:0.1.0", container["image"])
    job.check(pod["nodeSelector"] == {"nvidia.com/gpu.present": "true"} and pod["runtimeClassName"] == "nvidia", pod)
    job.check(config["data"]["ranktrace.conf"] == read(f"{FOLDER}/site/ranktrace.conf"), config)
    job.check({"name": "config", "configMap": {"name": config["metadata"]["name"]}} in pod["volumes"],
              f"{config['metadata']['name']} is not what the pod mounts: {pod['volumes']}")
    check_rights(pod, container)
    print(f"  kubectl kustomize: {', '.join(d['kind'] for d in docs)}")


def main():
    pod, container = daemon(documents(read(f"{FOLDER}/base/daemonset.yaml")))
    check_rights(pod, container)
    for part in ("base", "site"):
        check_mounts(pod, container, read(f"{FOLDER}/{part}/ranktrace.conf"))
        check_config(f"{FOLDER}/{part}/ranktrace.conf", container)
    check_names()
    check_built()


main()
