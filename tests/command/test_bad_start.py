# SPDX-License-Identifier: Apache-2.0
"""No privilege, no BTF, no such pid, another pid namespace, unwritable output, disk full: a clear message (object,
cause, remedy), the exit code, and what was recorded stays readable."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(1, sys.path[0] + "/../aid")
import job


def run(argv, env=None, **kw):
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, env={**os.environ, **(env or {})}, **kw)


def expect(name, out, code, *words):
    text = out.stderr.strip()
    print(f"{name}: exit {out.returncode}: {text.splitlines()[-1] if text else ''}")
    job.check(out.returncode == code, f"{name}: exit code {out.returncode} instead of {code}: {text}")
    for word in words:
        job.check(word in text, f"{name}: '{word}' is not in the message: {text}")


job.need_root()
record = [os.path.abspath(job.RANKTRACE), "record", "--pid", str(os.getpid()), "--duration", "1"]
expect("no privilege", run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *record], cwd="/"), 3,
       "CAP_", "root")
expect("no capability", run(["setpriv", "--bounding-set", "-sys_admin,-bpf", "--inh-caps", "-sys_admin,-bpf", *record]),
       3,
       "CAP_BPF")
expect("no BTF", run(record, {"RANKTRACE_BTF": "/nonexistent/vmlinux"}), 3, "/nonexistent/vmlinux",
       "CONFIG_DEBUG_INFO_BTF")
expect("no such pid", run([job.RANKTRACE, "record", "--pid", "4194304"]), 3, "4194304")
expect("pid namespace", run(["unshare", "--pid", "--fork", "--mount-proc", *record[:2], "--pid", "1"]), 3, "namespace")
expect("nothing to trace", run([job.RANKTRACE, "record"]), 2, "--pid")
expect("no number", run([job.RANKTRACE, "record", "--pid", "abc"]), 2, "abc")
expect("unknown suffix", run([*record, "-o", "x.foo"]), 2, "x.foo", ".pftrace")
expect("unwritable output", run([*record, "-o", "/proc/no/such/dir/x.rtr"]), 2, "/proc/no/such/dir/x.rtr",
       "No such file")
expect("no recording", run([job.RANKTRACE, "replay", "/etc/passwd"]), 2, "/etc/passwd", "recording")

full = tempfile.mkdtemp(prefix="ranktrace-full-")
job.check(not subprocess.call(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", full]), "no tmpfs")
try:
    out = run([job.RANKTRACE, "record", "-o", f"{full}/x.rtr", "-o", f"{full}/x.pftrace", "--", job.RANKTRACE, "sim",
               "job",
               "--ranks", "8", "--steps", "400", "--step-ms", "30", "--quiet"])
    expect("disk full", out, 4, f"{full}/x.rtr", "No space left", "stays readable")
    again = run([job.RANKTRACE, "replay", "--ops", f"{full}/x.rtr"])
    n = len(again.stdout.splitlines())
    print(f"disk full: {n} operations readable afterwards")
    job.check(again.returncode == 0 and n > 50, f"not readable: {again.stderr}")
finally:
    subprocess.call(["umount", full])
    shutil.rmtree(full)
