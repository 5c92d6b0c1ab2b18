# SPDX-License-Identifier: Apache-2.0
"""A training job in Python (watch/python_job.py), as autopsies.Autopsy is the simulated one."""
import os
import subprocess
import sys
import tempfile

import job

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../watch/python_job.py")


class PythonJob:
    def __init__(self, ranks, culprit, step, env=None):
        """env: of its ranks, besides this process' own."""
        self.dir = tempfile.mkdtemp(prefix="ranktrace-watch-python-")
        job.dirs.append(self.dir)
        self.source = os.path.realpath(SOURCE)
        argv = [sys.executable, "-B", self.source, ranks, culprit, step, f"{os.path.realpath(job.O)}/lib/ranktrace/sim"]
        self.process = subprocess.Popen([*map(str, argv)], env=dict(os.environ, **(env or {})))
        job.jobs.append(self)

    def kill(self):
        self.process.terminate()
        self.process.wait(20)
