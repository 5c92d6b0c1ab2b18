# SPDX-License-Identifier: Apache-2.0
"""The findings in README.md, docs/examples.md and the playbook are what the program prints today:
scripts/finding_examples.py. A page in which one word differs is seen, and --write mends it. So are the playbook's
pictures: scripts/playbook_pictures.sh."""
import os
import shutil
import subprocess
import sys
import tempfile

import checks
from checks import check

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PAGES = ("README.md", "docs/examples.md", "docs/playbook/storage.md", "docs/playbook/quota.md")


def run(what, tree):
    environment = {**os.environ, "TREE": tree, "O": os.path.abspath(os.environ.get("O", "build"))}
    out = subprocess.run([sys.executable, "-B", f"{ROOT}/scripts/finding_examples.py", what], text=True,
                         capture_output=True, env=environment)
    return out.returncode, out.stdout + out.stderr


def planted(change, text):
    """In a copy of the pages, with `change` made to one of them."""
    with tempfile.TemporaryDirectory(prefix="ranktrace-examples-") as tree:
        os.makedirs(f"{tree}/docs/playbook")
        os.makedirs(f"{tree}/tests")
        os.symlink(HERE, f"{tree}/tests/replay")
        for page in PAGES:
            shutil.copy(f"{ROOT}/{page}", f"{tree}/{page}")
        with open(f"{tree}/docs/examples.md") as f:
            before = f.read()
        after = change(before)
        with open(f"{tree}/docs/examples.md", "w") as f:
            f.write(after)
        code, out = run("--check", tree)
        end = out[-300:] if code != 1 else ""
        check(after != before and code == 1 and text in out, f"planted: {text}: {code} {end}")
        if "end" not in text:
            run("--write", tree)
            with open(f"{tree}/docs/examples.md") as f:
                check(f.read() == before, f"{text}: --write mends it")


code, out = run("--check", ROOT)
print(out, end="")
check(code == 0, "the pages' examples are what is printed today")
planted(lambda text: text.replace(" CRITICAL hang ", " CRITICAL hung ", 1), "+2026-11-23 ")
planted(lambda text: text.replace("<!-- end -->", "", 1), "an example has no end")
planted(lambda text: text[:text.rindex("<!-- end -->")], "an example has no end")


def pictures(to):
    environment = {**os.environ, "TO": to, "O": os.environ.get("O", "build")}
    out = subprocess.run([f"{ROOT}/scripts/playbook_pictures.sh", "--check"], capture_output=True, text=True, cwd=ROOT,
                         env=environment)
    return out.returncode, out.stdout + out.stderr


code, out = pictures(f"{ROOT}/docs/playbook")
check(code == 0, f"the playbook's pictures are what is drawn today {out}")
with tempfile.TemporaryDirectory(prefix="ranktrace-pictures-") as old:
    for name in ("storage.svg", "quota.svg"):
        shutil.copy(f"{ROOT}/docs/playbook/{name}", old)
    with open(f"{old}/quota.svg", "a") as f:
        f.write("<!-- older -->")
    code, out = pictures(old)
    check(code == 1 and "quota.svg" in out and "storage.svg" not in out, f"planted: an older picture: {code} {out}")
checks.end()
