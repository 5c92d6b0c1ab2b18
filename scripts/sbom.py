# SPDX-License-Identifier: Apache-2.0
"""Prints the bill of materials of a program as SPDX 2.3 (JSON): the Debian packages of the libraries that it is linked
to (ldd, dpkg), with version, source package and the text of their licence file, and those whose code is compiled in.
What is opened at run time (CUDA, NVML, NCCL) belongs to the host and is not in it. Same packages, same bytes: its
date is SOURCE_DATE_EPOCH, or the commit's. Use: sbom.py PROGRAM > FILE, or `make sbom`."""
import datetime
import hashlib
import json
import os
import re
import subprocess
import sys

COMPILED_IN = ["uthash-dev", "libbpf-dev"]  # headers alone; BPF programs include libbpf's
OWN_LICENCE = "Apache-2.0 AND (GPL-2.0-only OR BSD-2-Clause)"


def output(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def libraries(program):
    """Paths of what the loader maps for it."""
    return re.findall(r"(/\S+) \(0x", output("ldd", program))


def package_of(path):
    """dpkg knows a file by the path that its package had, before or after /usr was merged, link or target."""
    real = os.path.realpath(path)
    for name in (path, real):
        for at in (name, "/usr" + name, re.sub("^/usr", "", name)):
            found = subprocess.run(["dpkg-query", "-S", at], capture_output=True, text=True)
            if not found.returncode:
                return found.stdout.split(": ")[0].split(",")[0]
    sys.exit(f"sbom: {path}: no package has it; a library of no package cannot be accounted for: install it from one")


def facts(package):
    fields = ["Package", "Version", "source:Package", "source:Version", "Architecture", "Maintainer", "Homepage"]
    asked = "\\n".join(f"${{{f}}}" for f in fields)
    return dict(zip(fields, output("dpkg-query", "-W", f"-f={asked}", package).split("\n")))


def licence(name):
    path = f"/usr/share/doc/{name}/copyright"
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return {"licenseId": f"LicenseRef-Debian-{name}", "name": path, "extractedText": f.read()}
    except OSError as e:
        sys.exit(f"sbom: {path}: {e.strerror}: the package's licence file was removed from this system")


def package_entry(f):
    name = f["Package"]
    url = f"pkg:deb/debian/{name}@{f['Version'].replace(':', '%3A').replace('+', '%2B')}?arch={f['Architecture']}"
    entry = {
        "SPDXID": f"SPDXRef-Package-{re.sub('[^A-Za-z0-9.-]', '-', name)}", "name": name,
        "versionInfo": f["Version"], "supplier": f"Person: {f['Maintainer'].replace('<', '(').replace('>', ')')}",
        "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
        "sourceInfo": f"source package {f['source:Package']} {f['source:Version']}",
        "licenseConcluded": "NOASSERTION", "licenseDeclared": f"LicenseRef-Debian-{name}",
        "copyrightText": "NOASSERTION",
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": url}]}
    return entry | ({"homepage": f["Homepage"]} if f["Homepage"] else {})


def own_entry(program):
    with open(program, "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    return {"SPDXID": "SPDXRef-Package-ranktrace", "name": "ranktrace",
            "versionInfo": output(program, "--version").split()[1], "packageFileName": os.path.basename(program),
            "checksums": [{"algorithm": "SHA256", "checksumValue": digest}], "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False, "licenseConcluded": OWN_LICENCE, "licenseDeclared": OWN_LICENCE,
            "copyrightText": "NOASSERTION", "primaryPackagePurpose": "APPLICATION"}


def created():
    at = os.environ.get("SOURCE_DATE_EPOCH")
    if not at:
        log = subprocess.run(["git", "log", "-1", "--format=%ct"], capture_output=True, text=True)
        at = log.stdout.strip() or "0"
    return datetime.datetime.fromtimestamp(int(at), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def link(one, kind, other):
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def document(program):
    linked = {package_of(p) for p in libraries(program)}
    known = [(facts(p), "DYNAMIC_LINK") for p in sorted(linked)] + [(facts(p), "STATIC_LINK") for p in COMPILED_IN]
    own = own_entry(program)
    packages = [own] + [package_entry(f) for f, _ in known]
    links = [link("SPDXRef-DOCUMENT", "DESCRIBES", own["SPDXID"])]
    links += [link(own["SPDXID"], how, p["SPDXID"]) for (_, how), p in zip(known, packages[1:])]
    unique = hashlib.sha256(json.dumps(packages, sort_keys=True).encode()).hexdigest()
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "ranktrace",
            "documentNamespace": f"https://spdx.org/spdxdocs/ranktrace-{unique}",
            "creationInfo": {"created": created(), "creators": ["Tool: ranktrace-scripts-sbom.py"]},
            "packages": packages, "relationships": links,
            "hasExtractedLicensingInfos": [licence(f["Package"]) for f, _ in known]}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: sbom.py PROGRAM")
    json.dump(document(sys.argv[1]), sys.stdout, indent=1)
    print()
