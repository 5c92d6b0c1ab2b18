# SPDX-License-Identifier: Apache-2.0
"""The verbs tracer where there is nothing to see, or too much: a host without RDMA devices and a device that cannot be
opened are reported with cause and remedy; of 4,096 queue pairs of one process each is counted, in bounded memory; of
more than are counted at once the surplus is reported, and no count is wrong. """
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import verbs_records
from test_verbs import COUNTED, EXPORTED, PLACED, Target, Tracer, build

MANY, TOO_MANY = 4096, 9000
# more than with three queue pairs; 4,096 of them in model and tables are 2 MiB, their records go to disk
MEMORY_MIB = 24


def recorded(to, name, argv, tier="burst", env=None):
    rtr = f"{to}/{name}.rtr"
    p = subprocess.Popen([job.RANKTRACE, "record", "-v", "--tier", tier, "--budget=no", "-o", rtr, "--"] + argv,
                         stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=open(f"{to}/{name}.err", "w"), text=True,
                         env=dict(os.environ, **(env or {})))
    t = Target.__new__(Target)
    t.process = p
    return t, json.loads(p.stdout.readline()), rtr, f"{to}/{name}.err"


def no_device_and_no_permission(to, argv):
    """In the trace tier as well."""
    os.makedirs(f"{to}/sys/class/infiniband")
    t, ready, rtr, err = recorded(to, "unopened", [argv[0], f"{to}/absent/uverbs0", argv[2]], "trace",
                                  {"RANKTRACE_SYSFS": f"{to}/sys"})
    job.check(ready.get("opened") is False, ready)
    t.end()
    said = open(err).read()
    job.check("this host has no RDMA device" in said and said.count("no RDMA device") == 1, said)
    job.check("ibv_open_device(fake0) failed" in said and "/dev/infiniband/uverbs0" in said, said)
    os.makedirs(f"{to}/some/class/infiniband/mlx5_0")
    t, _, _, err = recorded(to, "some", [argv[0], f"{to}/absent/uverbs0", argv[2]], "trace",
                            {"RANKTRACE_SYSFS": f"{to}/some"})
    t.end()
    job.check("no RDMA device" not in open(err).read(), open(err).read())


def peak_mib(err):
    return [float(line.split("peak memory ")[1].split()[0]) for line in open(err) if "peak memory" in line][-1]


def many(to, argv):
    few, _, _, few_err = recorded(to, "few", argv)
    few.ask("go 1")
    few.end()
    env = {"VERBS_QPS": str(MANY)}
    t, _, rtr, err = recorded(to, "many", argv, env=env)
    truth = t.ask("go 2")
    t.end()
    seen = verbs_records.stats(rtr)
    job.check(len(truth) == MANY, len(truth))
    for qpn, want in truth.items():
        got = seen.get(qpn, {})
        job.check(all(got.get(f, 0) == want[f] for f in COUNTED), f"QP {qpn}: {got}, the application counted {want}")
    print(f"{MANY} queue pairs: {peak_mib(err)} MiB, {peak_mib(few_err)} with three", flush=True)
    job.check(peak_mib(err) < peak_mib(few_err) + MEMORY_MIB,
              f"{peak_mib(err)} MiB, {peak_mib(few_err)} with three queue pairs")
    job.check("are in use" not in open(err).read(), open(err).read())


def many_late(to, argv):
    os.environ["VERBS_QPS"] = str(MANY)
    t = Target(argv)
    before = t.ask("go 1")
    tracer = Tracer(to, t.pid, "burst")
    tracer.wait_probes(EXPORTED + PLACED)
    truth = t.ask("go 1")
    t.end()
    seen = verbs_records.stats(tracer.end())
    for qpn, want in truth.items():
        job.check(all(seen.get(qpn, {}).get(f, 0) == want[f] - before[qpn][f] for f in COUNTED),
                  f"QP {qpn}: {seen.get(qpn)} {want}")


def too_many(to, argv):
    t, _, rtr, err = recorded(to, "more", argv, env={"VERBS_QPS": str(TOO_MANY)})
    truth = t.ask("go 1")
    t.end()
    job.check("RDMA queue pairs are in use" in open(err).read(), open(err).read())
    for qpn, r in verbs_records.stats(rtr).items():
        job.check(all(r[f] <= truth[qpn][f] for f in COUNTED), f"QP {qpn}: {r}, the application counted {truth[qpn]}")


def main():
    job.need_root()
    to = tempfile.mkdtemp(prefix="ranktrace-verbs-")
    job.dirs.append(to)
    argv = build(to)[:3]
    no_device_and_no_permission(to, argv)
    many(to, argv)
    many_late(to, argv)
    too_many(to, argv)


if __name__ == "__main__":
    main()
