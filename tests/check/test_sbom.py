# SPDX-License-Identifier: Apache-2.0
"""The bill of materials is valid SPDX 2.3, by the fields that its schema requires and the references between them, and
accounts for every library that the program's ELF files ask for."""
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import job

ID = r"SPDXRef-[A-Za-z0-9.-]+"
LICENCE = r"(NOASSERTION|NONE|[A-Za-z0-9.() +-]+)"
# What the schema of SPDX 2.3 requires, and of what form: name -> pattern of a text, or a table of the same for an
# object, or a list of one for a list that is not empty.
DOCUMENT = {
    "spdxVersion": r"SPDX-2\.3", "dataLicense": r"CC0-1\.0", "SPDXID": r"SPDXRef-DOCUMENT", "name": ".+",
    "documentNamespace": r"https?://[^#\s]+",
    "creationInfo": {"created": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
                     "creators": [r"(Tool|Person|Organization): .+"]},
    "packages": [{"SPDXID": ID, "name": ".+", "versionInfo": ".+", "downloadLocation": ".+",
                  "licenseConcluded": LICENCE, "licenseDeclared": LICENCE, "copyrightText": ".+"}],
    "relationships": [{"spdxElementId": ID, "relatedSpdxElement": ID,
                       "relationshipType": "(DESCRIBES|DYNAMIC_LINK|STATIC_LINK)"}],
    "hasExtractedLicensingInfos": [{"licenseId": r"LicenseRef-[A-Za-z0-9.-]+", "extractedText": "(?s).{100,}"}],
}


def conform(value, form, where):
    if isinstance(form, dict):
        for name, inner in form.items():
            job.check(isinstance(value, dict) and name in value, f"{where} has no {name}")
            conform(value[name], inner, f"{where}.{name}")
    elif isinstance(form, list):
        job.check(isinstance(value, list) and value, f"{where} is no list, or an empty one")
        for i, v in enumerate(value):
            conform(v, form[0], f"{where}[{i}]")
    else:
        job.check(isinstance(value, str) and re.fullmatch(form, value), f"{where}: {value!r:.80} is not {form}")


def references(sbom):
    ids = [p["SPDXID"] for p in sbom["packages"]]
    job.check(len(ids) == len(set(ids)), f"not one entry each: {ids}")
    ends = {r[k] for r in sbom["relationships"] for k in ("spdxElementId", "relatedSpdxElement")}
    job.check(ends == set(ids) | {"SPDXRef-DOCUMENT"}, f"relationships of {sorted(ends ^ set(ids))}")
    texts = {x["licenseId"] for x in sbom["hasExtractedLicensingInfos"]}
    used = {w for p in sbom["packages"] for w in re.findall(r"LicenseRef-[\w.-]+", p["licenseDeclared"])}
    job.check(used == texts, f"licences without a text, or the other way round: {sorted(used ^ texts)}")


def needed(program):
    """Libraries by readelf, where the script asks ldd: those of the program itself."""
    text = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"NEEDED.*\[(.+)\]", text)


def main():
    program = job.RANKTRACE
    if not shutil.which("dpkg-query"):
        job.skip("no dpkg: the bill is made of Debian's packages")
    job.seed()
    out = [subprocess.run([sys.executable, "-B", "scripts/sbom.py", program], capture_output=True, text=True)
           for _ in range(2)]
    job.check(out[0].returncode == 0, out[0].stderr)
    job.check(out[0].stdout == out[1].stdout, "the same program, another bill")
    sbom = json.loads(out[0].stdout)
    conform(sbom, DOCUMENT, "document")
    references(sbom)
    names = {p["name"] for p in sbom["packages"]}
    wanted = needed(program)
    for library in wanted:  # libbpf.so.1 is in libbpf1; libm.so.6 in libc6
        stem = re.split(r"\.so|-", library)[0]
        job.check({"libm": "libc", "ld": "libc"}.get(stem, stem) in {re.sub(r"[\d.-].*", "", n) for n in names},
                  f"{library} is in no package of {sorted(names)}")
    print(f"  {len(wanted)} libraries, {len(names)} packages, {len(out[0].stdout) >> 10} KB")
    bad = subprocess.run([sys.executable, "-B", "scripts/sbom.py", os.devnull], capture_output=True, text=True)
    job.check(bad.returncode != 0, "a bill of nothing")


if __name__ == "__main__":
    main()
