# SPDX-License-Identifier: Apache-2.0
"""A small ext4 of a test's own that can freeze. What is frozen stays so whatever becomes of the test: after a while
another process thaws it."""
import os
import signal
import subprocess

import job


def run(*argv):
    out = subprocess.run(argv, capture_output=True, text=True)
    if out.returncode:
        job.skip(f"no file system to freeze here: {' '.join(argv)}: {out.stderr}")


class Disk:
    def __init__(self, folder, name, thaw_s):
        self.mount = f"{folder}/{name}"
        os.mkdir(self.mount)
        with open(f"{folder}/image", "wb") as f:
            f.truncate(8 << 20)
        run("mkfs.ext4", "-q", f"{folder}/image")
        run("mount", "-o", "loop", f"{folder}/image", self.mount)
        self.guardian = subprocess.Popen(["sh", "-c", f"sleep {thaw_s}; fsfreeze -u {self.mount}; umount {self.mount}"],
                                         start_new_session=True, stderr=subprocess.DEVNULL)

    def freeze(self):
        run("fsfreeze", "-f", self.mount)

    def thaw(self):
        run("fsfreeze", "-u", self.mount)

    def let_go(self):
        """Thaws it, if it is frozen."""
        subprocess.run(["fsfreeze", "-u", self.mount], stderr=subprocess.DEVNULL)

    def close(self):
        subprocess.run(["umount", self.mount])
        os.killpg(self.guardian.pid, signal.SIGKILL)
