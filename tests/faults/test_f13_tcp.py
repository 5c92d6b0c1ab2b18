# SPDX-License-Identifier: Apache-2.0
"""F13 over TCP: others' traffic fills the link of one of the hosts, TCP or UDP, from it or to it. Neither a rank nor a
link is blamed, while it lasts and when it has ended. Where the host's own link is the narrow one and TCP keeps the
queue in front of it full it is reported as congestion (congested). Elsewhere silence about ranks and links is the
assertion (nobody_blamed)."""
import os
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import tcp_links
from net_hosts import Hosts

RATE = 4e6  # bytes a second, of all links: enough for the job
FLOWS = 6   # of TCP: so many keep the queue in front of the link full


def nobody_blamed(t, filled=False):
    """Others' connections go over the link of one host. Their other end is a host that has no rank, as storage is; its
    link may be what holds them up, but with `filled`."""
    kind, away = ("tcp", True) if filled else (t.rng.choice(("tcp", "udp")), t.rng.random() < 0.5)
    udp = round(t.rng.uniform(0.6, 0.9), 2)  # of the rate, without headers: more, and nothing of the job gets through
    print(f"  {kind} {'from' if away else 'to'} it, {udp}", flush=True)
    with Hosts(t.ranks + 1) as hosts:
        for i in [t.victim] if filled else range(t.ranks + 1):
            hosts.link(i, rate=RATE)
        j = t.start(hosts)
        t.begun(j)
        ends = (t.victim, t.ranks) if away else (t.ranks, t.victim)
        others = tcp_links.others_start(hosts, kind, *ends, FLOWS if kind == "tcp" else 1, udp * RATE)
        time.sleep(15)
        tcp_links.others_end(others)
        time.sleep(12)  # what is reported of it stays for ten seconds
        code = j.stop()
    ranks, links = tcp_links.blamed(j)
    job.blame(not ranks and not links, f"for others' traffic: {j.findings}")
    stood = [f for f in j.findings if f["kind"] == "hang"]  # of nobody, where nothing got through for a while
    job.blame(code == 0 or stood, f"exit code is {code}")
    # where a queue is usual, or short, only the job's slowness may show
    congestion = [f for f in j.opened() if (f["kind"], f["cause"]) == ("observation", "congestion")]
    slow = [f for f in j.opened() if f["kind"] == "slow_step"]
    print(f"  reported: { {(f['kind'], f['cause']) for f in j.opened()} }")
    j.check_replay()
    reported = congestion + slow
    job.result(f"tcp_{kind}_nobody_blamed{'_congestion' if congestion else '_slow_step' if slow else ''}",
               reported[0]["detected_after_s"] if reported else 0)
    return j, congestion


def congested(t):
    j, congestion = nobody_blamed(t, filled=True)
    job.check(congestion, f"the congestion is not reported: {j.findings}\n{j.stderr()}")


def main():
    tcp_links.need_links()
    if not job.LONG and "TRIALS" not in os.environ:
        job.skip("two minutes: with LONG=1")
    rng, number = job.seed()
    if "TRIALS" not in os.environ:
        congested(tcp_links.Trial(rng, number, ["background"], shape="short", ranks=tcp_links.RANKS))
    for _ in range(int(os.environ.get("TRIALS", "1"))):
        nobody_blamed(tcp_links.Trial(rng, number, ["background"]))


main()
