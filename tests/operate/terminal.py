# SPDX-License-Identifier: Apache-2.0
"""A command in a terminal of some size, by tmux: keys go in, its screen comes out."""
import os
import re
import shutil
import subprocess
import time

import job


def need():
    if not shutil.which("tmux"):
        job.skip("no tmux: make deps-test installs it")


class Terminal:
    """A command in a terminal of that size."""

    def __init__(self, cols, rows, *argv):
        self.name = f"ranktrace-test-{os.getpid()}-{time.monotonic_ns()}"
        command = " ".join(argv) + "; echo ended $?; exec sleep 600"
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(cols), "-y", str(rows), command)

    def tmux(self, *args):
        out = subprocess.run(["tmux", "-L", self.name, *args], capture_output=True, text=True)
        job.check(out.returncode == 0, f"tmux {args}: {out.stderr}")
        return out.stdout

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def size(self, cols, rows):
        self.tmux("resize-window", "-x", str(cols), "-y", str(rows))

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def wait(self, pattern, timeout=60):
        """The screen that has it."""
        end = time.monotonic() + timeout
        while not re.search(pattern, self.screen(), re.M):
            job.check(time.monotonic() < end, f"'{pattern}' does not come:\n{self.screen()}")
            time.sleep(0.1)
        return self.screen()

    def end(self):
        self.keys("q")
        self.wait(r"^ended 0$")
        self.tmux("kill-server")
