# SPDX-License-Identifier: Apache-2.0
"""Every line that `ranktrace stress --json` writes is as schemas/stress.schema.json has it: of healthy and of bad
GPUs and RDMA ports, of a refusal, of a partial run and of a log; and what incidents have, too, is there."""
import json
import os
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [f"{here}/../aid", f"{here}/../replay"]
import job
from schema_check import faults, resolved
from stress import SMALL, Gpus
from verbs_sim import Verbs

with open(f"{here}/../../schemas/stress.schema.json", encoding="utf-8") as f:
    SCHEMA = resolved(json.load(f))
SEEN = set()
NCCL = ["--bytes", "4K-64K:16", "--iterations", "2", "--types", "fp32"]


def lines_check(what, text):
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        wrong = list(faults(SCHEMA, line))
        job.check(not wrong, f"{what}: {wrong[:3]} in {line}")
        SEEN.add(line["type"])
    return lines


def stress(test, gpus, *args, code=0):
    p = subprocess.run([os.path.abspath(job.RANKTRACE), "stress", test, "--json", *map(str, args)],
                       capture_output=True, text=True, timeout=120, env=gpus.env)
    lines = lines_check(f"{test} {args}", p.stdout)
    print(f"{test} {' '.join(map(str, args))}: exit {p.returncode}, {len(lines)} lines")
    job.check(p.returncode == code, f"exit {p.returncode}: {p.stderr}")
    job.check(lines and {line["test"] for line in lines} == {test}, f"{test}: {lines[:1]}")
    return lines


def of_type(lines, name):
    return [line for line in lines if line["type"] == name]


def rdma(code, *args, **verbs):
    """Of simulated ports: the lines and the faults."""
    p = Verbs(4, **{f"SIM_VERBS_{name}": value for name, value in verbs.items()}).run(
        "--json", "--time", "0.0005", "--iterations", "20", *args)
    lines = lines_check(f"rdma {args} {verbs}", p.stdout)
    print(f"rdma {' '.join(args)} {verbs}: exit {p.returncode}, {len(lines)} lines")
    job.check(p.returncode == code and {line["test"] for line in lines} == {"rdma"}, f"{p.returncode}: {p.stderr}")
    return lines, of_type(lines, "fault")


def rdma_lines():
    lines, _ = rdma(0, "--shapes", "all", "--operations", "write,read")
    ports = [(p["type"], p["device"], p["port"]) for p in lines[0]["ports"]]
    job.check(ports == [("port", f"sim{i}", 1) for i in range(4)], f"{lines[0]}")
    _, faults_of = rdma(1, "--operations", "write", SLOW="2:200")
    job.check(faults_of and all(f["kind"] == "slow" and f["subject"]["device"] == "sim2" and "to" not in f and
                                f["rule"] and f["failed"] and f["unit"] for f in faults_of), f"{faults_of}")
    _, faults_of = rdma(1, "--operations", "write", "--measures", "bandwidth", DEAD_LINK="1:3")
    ends = {(f["subject"]["device"], f["to"]["device"]) for f in faults_of}
    job.check(ends == {("sim1", "sim3"), ("sim3", "sim1")} and "value" not in faults_of[0], f"{faults_of}")
    lines, faults_of = rdma(1, "--operations", "read", "--measures", "bandwidth", DOWN=0)
    verdict = of_type(lines, "port_verdict")[0]
    job.check(faults_of[0]["severity"] == "critical" and not verdict["passed"] and not verdict["tested"], f"{lines}")
    end = of_type(rdma(3, "--operations", "write", NO_MR=1)[0], "end")[0]
    job.check("ulimit -l" in end["notes"][0] and not end["passed"], f"{end}")
    lines, _ = rdma(3, "--shapes", "mesh", DEVICES=0)
    job.check("libibverbs sees none" in of_type(lines, "refused")[0]["summary"], f"{lines}")


def main():
    rdma_lines()
    log = f"{Gpus(1).dir}/log"
    stress("gpu", Gpus(2), *SMALL, "--time", "2.5", "--log", log)
    with open(log, encoding="utf-8") as f:
        lines_check("the log", f.read())
    lines = stress("gpu", Gpus(2, SIM_GEMM_FLIP="1:5:7:0"), *SMALL, "--only", "bf16", "--time", "0.5", code=1)
    fault = of_type(lines, "fault")[0]
    job.check(fault["severity"] == "critical" and fault["subject"]["type"] == "gpu" and fault["subject"]["gpu"] == 1 and
              "drain" in fault["remedy"] and fault["row"] == 5, f"{fault}")
    fault = of_type(stress("gpu", Gpus(3, SIM_GPU_SLOW="2:12"), *SMALL, "--only", "bf16", "--time", "0.5", code=1),
                    "fault")[0]
    job.check(fault["value"] < fault["bound"] and "median of the node's 2 others" in fault["rule"], f"{fault}")
    fault = of_type(stress("p2p", Gpus(3, SIM_P2P_SLOW="0-1:60"), "--bytes", "1M", code=1), "fault")[0]
    job.check(fault["subject"]["type"] == "path" and fault["subject"]["gpus"] == [0, 1] and
              fault["value"] < fault["bound"], f"{fault}")
    lines = stress("nccl", Gpus(3, SIM_NCCL_WRONG="1:own:3"), *NCCL, code=1)
    job.check({f["subject"]["gpu"] for f in of_type(lines, "fault")} == {1}, f"{of_type(lines, 'fault')}")
    stress("nccl", Gpus(2), *NCCL, "--save-baseline", log + ".base")
    stress("nccl", Gpus(2), *NCCL, "--baseline", log + ".base", "--time", "1")
    refused = of_type(stress("gpu", Gpus(1, SIM_CUDA_FAIL="cuInit:error=100"), *SMALL, code=3), "refused")
    job.check(len(refused) == 1 and "no GPU" in refused[0]["summary"], f"{refused}")
    missing = {"begin", "window", "sample", "measured", "case", "rate", "bus_rate", "link", "host_link", "fault",
               "verdict", "refused", "end", "port_case", "port_rate", "port_verdict"} - SEEN
    job.check(not missing, f"no test wrote {missing}")


if __name__ == "__main__":
    main()
