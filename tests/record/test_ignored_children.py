# SPDX-License-Identifier: Apache-2.0
"""A program that ignores SIGCHLD starts ranktrace, which inherits that over exec: the end of a command that it traces
is seen all the same."""
import os
import signal
import subprocess
import sys
import tempfile

sys.path.insert(1, sys.path[0] + "/../aid")
import job

job.need_root()
job.seed()
END_S = 60


def run(*args):
    d = tempfile.mkdtemp(prefix="ranktrace-ignored-")
    job.dirs.append(d)
    argv = [job.RANKTRACE, *(a.replace("DIR", d) for a in args)]
    try:
        out = subprocess.run(argv, stderr=subprocess.PIPE, text=True, timeout=END_S,
                             env=dict(os.environ, RANKTRACE_RUN_DIR=f"{d}/run"),
                             preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    except subprocess.TimeoutExpired:
        job.fail(f"{argv}: not over after {END_S} s")
    return out, d


out, _ = run("record", "-d", "50", "-o", "DIR/s.rtr", "--", "sh", "-c", "exit 7")
job.check(out.returncode == 7, f"the command's status is {out.returncode}: {out.stderr}")
