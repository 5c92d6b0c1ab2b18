#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tools/deploy/ranktrace.conf, the configuration that packages install: every key of `watch --config`, explained
in the words of the program's own option table.

    scripts/sample_config.py --write     after an option was changed
    scripts/sample_config.py --check     exit status 1, and what differs: tests/operate/test_config.py

O is the build folder; TREE=dir takes another tree's file.
"""
import difflib
import os
import re
import subprocess
import sys
import textwrap

import kept_file

PATH = "tools/deploy/ranktrace.conf"
PROGRAM = os.path.abspath(os.path.join(os.environ.get("O", "build"), "ranktrace"))
NOT_KEYS = {"config", "check-config", "help", "version"}
RAISE = ("raise", "probe the ranks of a finding for a while; no: never attach a probe, whatever is found")
# What holds without the line. Of options with "(...)" at the end of their help it is that.
DEFAULTS = {"json": "no", "metrics": "no", "phases": "/var/lib/ranktrace/known_phases.json", "raise": "yes",
            "raise-for": "60", "hang-limit": "1.5", "busy-limit": "90", "dstate-limit": "5", "budget": "2",
            "budget-node": "20", "shared-probes": "no", "flight": "/var/lib/ranktrace", "flight-seconds": "120",
            "flight-mb": "16", "flight-keep": "20", "fail-on": "critical", "quiet": "no", "verbose": "no"}
# Where there is none.
EXAMPLES = {"pid": "4711", "job": "llama-70b", "duration": "3600", "output": "/var/lib/ranktrace/findings.jsonl",
            "metrics-config": "/etc/ranktrace/metrics.yml",
            "rotate": "1G", "keep": "5", "ring-size": "1048576", "nats": "tls://bus-1:4222,tls://bus-2:4222",
            "nats-creds": "/etc/ranktrace/node.creds", "nats-ca": "/etc/ranktrace/ca.pem",
            "nats-cert": "/etc/ranktrace/node.pem", "nats-key": "/etc/ranktrace/node-key.pem"}
HEAD = """Configuration of the node daemon, ranktrace watch: lines of key = value.

What holds without a line stands in it, behind "#"; where it says "example" nothing holds without it. The command
line wins over this file. Before a restart: ranktrace watch --check-config THIS_FILE says what is wrong in it. Some
keys take effect at a reload (systemctl reload ranktrace), which says which do, and which need a restart.
"""


def options():
    """(group, key, help) in the order of --help."""
    out = subprocess.run([PROGRAM, "watch", "--print-options"], check=True, capture_output=True, text=True).stdout
    for line in out.splitlines():
        kind, *fields = line.split("\t")
        if kind != "option" or fields[2] in NOT_KEYS:
            continue
        yield (fields[0], *RAISE) if fields[2] == "no-raise" else (fields[0], fields[2], fields[5])


def comment(text):
    return "".join(f"# {line}".rstrip() + "\n" for line in text.splitlines())


def entry(key, text):
    value = DEFAULTS.get(key, EXAMPLES.get(key))
    if value is None:
        sys.exit(f"{key}: give it a default or an example in {os.path.basename(__file__)}")
    said = re.search(r"\((\d[\d.]*|critical)(; [^)]*)?\)$", text)
    if said and key in DEFAULTS and said[1] != value and not re.search(rf"watch: {value}\)", text):
        sys.exit(f"{key}: its help says {said[1]}, the sample {value}")
    shown = text if key in DEFAULTS else f"{text}; example:"
    return comment(textwrap.fill(shown, 117, break_on_hyphens=False)) + f"#{key} = {value}\n\n"


def sample():
    text, group = comment(HEAD), None
    for its_group, key, help_text in options():
        if its_group != group:
            group = its_group
            text += f"\n# --- {group} ---\n\n"
        text += entry(key, help_text)
    return text.rstrip("\n") + "\n"


def main():
    write = kept_file.asked_to_write(__doc__)
    wanted = sample()
    if not kept_file.differs(PATH, wanted, write):
        return 0
    before = kept_file.read(PATH).splitlines(True)
    print("".join(difflib.unified_diff(before, wanted.splitlines(True), PATH, "the program", n=1)))
    print("run scripts/sample_config.py --write")
    return 1


if __name__ == "__main__":
    sys.exit(main())
