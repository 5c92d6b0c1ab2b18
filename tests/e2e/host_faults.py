# SPDX-License-Identifier: Apache-2.0
"""Faults of the host: a dataloader's D state, missing CPU, uneven work, two faults at once. See docs/verdicts.md."""
import faults
import job


def blocked_child(rng, wait, sec=8, extra=()):
    """d_state names the child under its rank; a rank that waits for it is that one's consequence, told with it."""
    j, rank = faults.run(f"dstate-child:rank={{rank}},step={{step}},sec={sec},wait={wait}", rng, extra, steps=120 if wait else 300)
    f = j.wait_finding(60, kind="d_state", phase="open")
    job.check(f, f"no d_state found: {j.findings}\n{j.stderr()}")
    truth = j.wait_fault(1, "dstate-child")
    into = (f["t_ns"] - truth["t_ns"]) / 1e9
    said = f["evidence"]
    print(f"  d_state rank {rank}, child {said.get('child_pid')} {said.get('child_name')}, {into:.2f} s into the wait, "
          f"{said.get('peers_waiting')} peers wait")
    job.check(f["ranks"] == [rank] and f["pids"] == [truth["pid"]], f"named {f['ranks']} {f['pids']}, not {truth}")
    job.check(said["child"] == 1 and said["child_pid"] == truth["pid"] and said["child_name"] == "pt_data_worker", f"{said}")
    job.check(5 <= into <= 6.5, f"opened {into:.2f} s into the wait, not 5 to 6.5")
    job.check("+0x" in said.get("kernel_stack", ""), f"no kernel stack: {said}")
    job.check((said["peers_waiting"] > 0) == wait, f"{said['peers_waiting']} peers wait, wait={wait}")
    h = j.wait_finding(3 if wait else 0, kind="hang", phase="open")
    if wait:
        job.check(h and h["ranks"] == [rank] and h["class"] == "host_blocked" and h["caused_by"] == f["id"],
                  f"no hang of rank {rank} caused by {f['id']}: {j.findings}")
    j.wait_finding(sec, kind="d_state", phase="close")
    job.check(j.stop() == 1, "exit code is not 1")
    job.check(wait or not any(x["kind"] == "hang" for x in j.findings), f"a hang of a rank that goes on: {j.findings}")
    faults.check_only(j, ("d_state", rank))
    j.check_replay()
    job.result(f"dstate-child:wait={wait}", into)
