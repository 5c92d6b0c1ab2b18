# SPDX-License-Identifier: Apache-2.0
"""The library is upgraded under the session: another build takes its name while ranks are probed in the old one, as a
package manager does it. The old file's probes stay right, jobs that start later are probed in the new one; each job's
operations are exactly those of its own log, both end well, and no probe is left."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(1, sys.path[0] + "/../aid")
import job

LIBRARY = "lib/ranktrace/sim/libnccl.so.2"


def install(where):
    """A build of its own, as its library is replaced."""
    os.makedirs(f"{where}/lib")
    shutil.copy(job.RANKTRACE, f"{where}/ranktrace")
    shutil.copytree(f"{job.O}/lib/ranktrace", f"{where}/lib/ranktrace", symlinks=True)


def other_build(where):
    """The same code with another build-id, in another file."""
    path, note = f"{where}/{LIBRARY}", f"{where}/note"
    out = subprocess.run(["objcopy", "-O", "binary", "--only-section=.note.gnu.build-id", path, note])
    if out.returncode or not os.path.getsize(note):
        job.skip("objcopy cannot change a build-id here")
    with open(note, "rb+") as f:
        f.seek(16)
        f.write(os.urandom(os.path.getsize(note) - 16))
    subprocess.run(["objcopy", "--update-section", f".note.gnu.build-id={note}", path, f"{path}.new"], check=True)
    return f"{path}.new"


def main():
    job.need_root()
    rng, _ = job.seed()
    where = tempfile.mkdtemp(prefix="ranktrace-upgrade-")
    job.dirs.append(where)
    install(where)
    new = other_build(where)
    sim = [f"{where}/ranktrace sim job --quiet --ranks 2 --step-ms 40 --seed {rng.randrange(1 << 30)} --steps {steps} "
           f"--log {where}/{name}.ops" for name, steps in (("old", 250), ("new", 100))]
    script = f"{sim[0]} & old=$!; sleep 4; mv {new} {where}/{LIBRARY}; {sim[1]} && wait $old && echo both > {where}/ok"
    out = subprocess.run([f"{where}/ranktrace", "record", "--json", "-o", f"{where}/job.rtr", "--", "bash", "-c",
                          script], capture_output=True, text=True, timeout=120)
    job.check(os.path.exists(f"{where}/ok"), f"a job failed: {out.stderr}")
    job.check(out.returncode == 0 and not out.stdout, f"exit {out.returncode}, found {out.stdout} {out.stderr}")
    seen = subprocess.run([job.RANKTRACE, "replay", "-q", "--ops", f"{where}/job.rtr"], capture_output=True, text=True)
    with open(f"{where}/seen", "w") as f:
        f.write(seen.stdout)
    truth = {name: job.lines(f"{where}/{name}.ops") for name in ("old", "new")}
    missing, extra = job.compare_ops(truth["old"] + truth["new"], job.lines(f"{where}/seen"))
    builds = subprocess.run(["cmp", "-s", f"{where}/{LIBRARY}", f"{job.O}/{LIBRARY}"]).returncode
    print(f"  {len(truth['old'])} operations in the old library, {len(truth['new'])} in the new one; {len(missing)} "
          f"missing, {len(extra)} extra")
    job.check(builds == 1 and all(truth.values()), "the library was not replaced: this test would prove nothing")
    job.check(not missing and not extra, f"missing {missing[:4]} extra {extra[:4]} {out.stderr}")


main()
