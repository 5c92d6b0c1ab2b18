# SPDX-License-Identifier: Apache-2.0
"""`ranktrace stress all` on simulated machines with GPUs and RDMA ports: what a health check's caller gets (exit
status, quiet output, JSON lines as the schema has them), and the page in headless Chromium: no error, no request, what
failed is in it."""
import os
import shutil
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [f"{here}/../aid", f"{here}/../replay"]
import chromium
import job
from stress import QUICK, Gpus, expect, stress
from test_stress_schema import lines_check
from verbs_sim import Verbs, library

def stages_of(lines):
    return {line["stage"]: line["status"] for line in lines if line["type"] == "stage"}


def healthy(browser):
    g = Gpus(3, RANKTRACE_SYSFS=Verbs(0).sys)
    page, copy = f"{g.dir}/report.html", f"{g.dir}/lines"
    expect("healthy and quiet: nothing", stress(g, *QUICK, "--quiet", "--html", page, "--lines", copy), 0, out="")
    with open(copy, encoding="utf-8") as f:
        lines = lines_check("healthy", f.read())
    stages = stages_of(lines)
    job.check([stages[s] for s in ("inventory", "gpu", "p2p", "nccl")] == ["passed"] * 4, f"{stages}")
    rdma = next(line for line in lines if line.get("stage") == "rdma")
    job.check(rdma["status"] == "left_out" and rdma["text"] == "this host has no RDMA device", f"{rdma}")
    job.check(lines[-1]["type"] == "end" and lines[-1]["test"] == "all" and "--quick" in lines[-1]["partial"],
              f"{lines[-1]}")
    job.check(os.stat(page).st_mode & 0o77 == 0, "others may read the page")
    if browser:
        page_check(browser, page, "passed", 0, ((1280, False),))


def page_check(browser, page, word, failed, sizes):
    for width, dark in sizes:
        browser.errors.clear()
        browser.asked.clear()
        browser.size(width, 800, dark)
        browser.open(page)
        job.check(not browser.errors, f"{browser.errors}")
        job.check(set(browser.asked) <= {"file://" + page}, f"asks for {browser.asked}")
        job.check(browser.ask("document.documentElement.scrollWidth <= innerWidth"), f"wider than {width}")
        background = browser.ask("getComputedStyle(document.body).backgroundColor")
        job.check((background == "rgb(16, 19, 23)") == dark, f"dark {dark}: {background}")
    job.check(browser.ask('document.querySelector(".verdict .pill").textContent') == word, "its verdict")
    job.check(browser.ask('document.querySelectorAll(".cell.failed").length') == failed, "cells that failed")
    job.check(browser.ask('document.querySelectorAll(".matrices svg").length') == 5, "matrices")
    job.check(browser.ask('document.querySelectorAll(".curves svg .line").length') >= 9, "curves")
    unnamed = browser.ask('[...document.querySelectorAll("svg[role=img]")].filter(e => !e.ariaLabel).length')
    job.check(not unnamed, f"{unnamed} pictures that a screen reader has no name for")


def failed(browser):
    g = Gpus(4, SIM_P2P_SLOW="1-2:60", SIM_GEMM_FLIP="3:5:7:0", SIM_GPU_NAME="<script>alert(1)</script>")
    page, copy = f"{g.dir}/report.html", f"{g.dir}/lines"
    p = stress(g, *QUICK, "--quiet", "--html", page, "--lines", copy)
    expect("a GPU and a link: the reason to drain", p, 1, "GPU 3: corruption: ", "more of this kind)",
           "link GPU 1 to GPU 2, ")
    job.check(len(p.stdout.splitlines()) <= 4, f"quiet: {p.stdout}")
    with open(copy, encoding="utf-8") as f:
        lines = lines_check("failed", f.read())
    faults = [line for line in lines if line["type"] == "fault"]
    job.check({f["subject"]["gpu"] for f in faults if f["kind"] == "corruption"} == {3}, f"{faults}")
    job.check({tuple(f["subject"]["gpus"]) for f in faults if f["kind"] == "link"} >= {(1, 2)}, f"{faults}")
    if browser:
        cells = sum(x.get("failed", False) for x in lines if x["type"] == "link")
        page_check(browser, page, "failed", cells, ((1280, False), (1280, True), (390, False)))
        job.check(browser.ask('document.querySelector("h1").textContent').startswith("GPU 3: corruption"), "h1")


def ports(browser):
    """Of a host with RDMA devices: the stage runs, and a port that is down, or a link that carries nothing between
    ports that are up, is the reason to drain."""
    port = ["critical", "port 1 of sim1", "port: it is DOWN", "do: look at its cable"]
    link = ["critical", "dead_link: sim1:1 to sim2:1, nic-to-nic", "do: look at cables and switch"]
    for what, env, code, status, said in (("healthy ports", {}, 0, "passed", []),
                                          ("a port that is down", dict(DOWN=1), 1, "failed", port),
                                          ("a dead link", dict(DEAD_LINK="1:2"), 1, "failed", link)):
        v = Verbs(3, **{f"SIM_VERBS_{name}": value for name, value in env.items()})
        g = Gpus(1, **{name: value for name, value in v.env.items() if name not in os.environ})
        page, copy = f"{g.dir}/report.html", f"{g.dir}/lines"
        p = stress(g, *QUICK, "--verbs", library(), "--no-gpus", "--html", page, "--lines", copy)
        expect(what, p, code, "RDMA ports", "port 1 of sim0", *said)
        with open(copy, encoding="utf-8") as f:
            lines = lines_check(what, f.read())
        job.check(stages_of(lines)["rdma"] == status, f"{stages_of(lines)}")
        cases = [line for line in lines if line["type"] == "port_case"]
        dead = {tuple(sorted((c["from"]["device"], c["to"]["device"]))) for c in cases if c["status"] != "done"}
        job.check({(c["operation"], c["measure"]) for c in cases} == {("write", "bandwidth"), ("write", "latency")} and
                  dead == ({("sim1", "sim2")} if said is link else set()), f"{cases}")
        if browser:
            browser.errors.clear()
            browser.open(page)
            job.check(not browser.errors, f"{browser.errors}")
            rows = browser.ask('document.querySelectorAll("#ports table:first-of-type tbody tr").length')
            bad = browser.ask('[...document.querySelectorAll("#ports tr.bad")].map((r) => r.textContent).join()')
            job.check(rows >= 3 and (("port 1 of sim1" in bad) if code else not bad), f"{rows} rows, bad: {bad}")


def no_cable():
    """No port is up. By design, as nothing shows that one has a cable: a pass that says what was not tested, quiet or
    not. Where a cable is in it is a fault."""
    for what, env, code, words in (
            ("no cable", {}, 0, ["rdma: partial: no RDMA port is up (sim0:1, sim1:1)", "--devices"]),
            ("cables are in", dict(SIM_VERBS_PHYS=5), 1, ["port 1 of sim0: port: it is DOWN", "cable is in"])):
        v = Verbs(2, SIM_VERBS_DOWN="0,1", **env)
        g = Gpus(1, **{name: value for name, value in v.env.items() if name not in os.environ})
        copy = f"{g.dir}/lines"
        p = stress(g, *QUICK, "--verbs", library(), "--no-gpus", "--quiet", "--lines", copy)
        expect(f"no port is up, {what}", p, code, *words)
        with open(copy, encoding="utf-8") as f:
            lines = lines_check(what, f.read())
        job.check(stages_of(lines)["rdma"] == ("failed" if code else "left_out"), f"{stages_of(lines)}")
        job.check(code or "rdma; --quick" in lines[-1]["partial"], f"{lines[-1]}")


def main():
    browser = chromium.Browser() if shutil.which("chromium") else None
    healthy(browser)
    failed(browser)
    ports(browser)
    no_cable()
    if browser:
        browser.end()
    print("no chromium: the page was not looked at" if not browser else "the page was looked at")


if __name__ == "__main__":
    main()
