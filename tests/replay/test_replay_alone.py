# SPDX-License-Identifier: Apache-2.0
"""Replay as a program of its own (replay_main.c), linked without libbpf, libelf and libdw, says of every recording the
same as `ranktrace replay`: decode, model, detectors and sinks need nothing of what attaches or inspects."""
import os
import re
import subprocess
import sys

import compare

ALONE = os.path.join(os.environ.get("O", "build"), "ranktrace-replay")
LIVE_ONLY = {"libbpf", "libelf", "libdw"}


def libraries(program):
    """Names of the shared libraries that a program asks for: {"libm", "libc"}."""
    text = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\(NEEDED\).*\[(\w+)\.so", text))


def said(*argv):
    out = subprocess.run(argv, capture_output=True, text=True)
    return out.stdout, out.stderr, out.returncode


if not os.path.exists(ALONE):
    sys.exit(f"FAILED: no {ALONE}: run `make unit`")
assert LIVE_ONLY & libraries(compare.RANKTRACE), f"ranktrace asks for none of {LIVE_ONLY}: this test sees nothing"
wrong = LIVE_ONLY & libraries(ALONE)
n = 0
for name, (command, *arguments) in compare.commands().items():
    if command != "replay":
        continue
    n += 1
    if said(ALONE, *arguments) != said(compare.RANKTRACE, command, *arguments):
        print(f"FAILED: {name} differs")
        wrong.add(name)
print(f"{n} outputs of recordings are equal; libraries: {' '.join(sorted(libraries(ALONE)))}")
sys.exit(1 if wrong or n < 50 else 0)
