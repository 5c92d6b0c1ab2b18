# SPDX-License-Identifier: Apache-2.0
"""ranktrace report: the page has the findings of replay, of every recording here and of a merge, with the same exit
status; what processes call themselves stays text (a closing script tag, markup, escape sequences, bytes that are no
characters); it lets no script run but its own."""
import glob
import hashlib
import base64
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [f"{here}/../scale", f"{here}/../aid"]
import hung_job

RANKTRACE = os.path.join(os.environ.get("O", "build"), "ranktrace")
REPLAYS = f"{here}/../replay"
EVIL = '</script><script>pwned=1</script><img src=x onerror=pwned=1>\x1b[31m\x1b]0;pwned\x07\udcff\udcfe-->'
STACK = 12


def check(right, what):
    if not right:
        sys.exit(f"FAIL: {what}")


def run(*arguments):
    return subprocess.run([RANKTRACE, *arguments], capture_output=True)


def read_page(path):
    """(its data, the whole text)"""
    with open(path, "rb") as f:
        text = f.read().decode("utf-8")  # strictly
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    check(len(found) == 1, f"{path}: {len(found)} blocks of data")
    return json.loads(found[0]), text


def last_lines(out):
    """The last line of each finding, in the order in which they opened."""
    last = {}
    for line in out.splitlines():
        one = json.loads(line)
        last[one["id"]] = one
    return list(last.values())


def compare(name, page, as_lines, as_report):
    data, _ = read_page(page)
    expected, got = last_lines(as_lines.stdout), [f["json"] for f in data["findings"]]
    check(got == expected, f"{name}: {len(got)} findings, not the {len(expected)} of its lines:\n{got}\n{expected}")
    check(as_report.returncode == as_lines.returncode, f"{name}: exit {as_report.returncode}: {as_report.stderr}")
    check(len(data["summary"]["said"]) == 3 and all(data["summary"]["said"]), f"{name}: {data['summary']}")
    check(all(f["do"] and f["sentence"] for f in data["findings"]), f"{name}: a finding without words")
    roots = [f for f in data["findings"] if f["root"] and f["json"]["severity"] != "info"]
    check(bool(roots) == (data["summary"]["severity"] in ("warning", "critical")), f"{name}: {data['summary']}")
    return data


def check_all(room):
    n = 0
    for path in sorted(glob.glob(f"{REPLAYS}/*.rtr")):
        name = os.path.basename(path)[:-4]
        made = run("report", "-q", path, "-o", f"{room}/{name}.html")
        data = compare(name, f"{room}/{name}.html", run("replay", "-q", "--json", path), made)
        check(not made.stdout and not made.stderr, f"{name}: {made.stdout} {made.stderr}")
        n += len(data["findings"])
    check(n > 60, f"only {n} findings: this compares nothing")
    print(f"  {n} findings of all recordings are in their pages")


def check_merge(room):
    parts = [f"{REPLAYS}/two_hosts_{x}.rtr" for x in "ab"]
    made = run("report", "-q", "--fail-on=warning", *parts, "-o", f"{room}/m.html")
    data = compare("merge", f"{room}/m.html", run("autopsy", "--merge", "--json", *parts), made)
    check({m["host"] for m in data["machines"]} == {"node-a", "node-b"}, data["machines"])
    graph = data["findings"][0]["graph"]
    culprits = [n["title"] for n in graph["nodes"] if n.get("culprit")]
    check(culprits == ["rank 1"] and graph["edges"], graph)
    made = run("report", f"{REPLAYS}/f03_hang.rtr", f"{REPLAYS}/f01_stop.rtr", "-o", f"{room}/no.html")
    check(made.returncode == 2 and not os.path.exists(f"{room}/no.html"), f"a session is no autopsy: {made}")


def check_content(room):
    """What a reader is to see first, in the recordings where it is known."""
    data = read_page(f"{room}/demo.html")[0]
    heat = data["heat"][0]
    check(heat["n_rows"] == 8 and heat["n_cols"] >= 40 and not heat["by_time"], heat["n_cols"])
    check(any(n["title"] == "rank 5" and n.get("culprit") for f in data["findings"] if "graph" in f
              for n in f["graph"]["nodes"]), "demo: rank 5 is not drawn")
    check({c["of"] for c in data["stacks"]["children"]} == {"rank 5", "ranks 0-4, 6-7"}, "demo: stacks")
    late = max(data["ranks"], key=lambda r: r.get("late_s", 0))
    check(late["rank"] == 5, f"others waited longest for {late}")
    data = read_page(f"{room}/f04_deadlock_blocked.html")[0]
    edges = {(e["from"], e["to"]) for e in data["findings"][0]["graph"]["edges"]}
    check(edges == {(0, 1), (1, 0)}, f"a deadlock of two: {edges}")
    data = read_page(f"{room}/healthy.html")[0]
    check(data["summary"]["severity"] == "ok" and "No fault" in data["summary"]["said"][0], data["summary"])
    data = read_page(f"{room}/gpu_health.html")[0]
    check(len(data["machines"][0]["gpus"]) == 4, "gpu_health: its GPUs")
    data = read_page(f"{room}/watch_hang.html")[0]
    check(any("no call was probed" in line for line in data["unseen"]), data["unseen"])
    check(not data["heat"], "steps without a probe")


class HostileJob(hung_job.Job):
    """All that a process or a host may call itself is EVIL."""

    def host_name(self, host):
        return EVIL

    def records(self, host):
        for r in super().records(host):
            if r[2:4] == bytes((hung_job.COLLECTOR, hung_job.STOP)):
                ts_ns = struct.unpack_from("<Q", r, 16)[0]
                for rank in range(self.per_host):
                    yield self.stack(rank, ts_ns - 10 ** 9)
            yield r

    def stack(self, rank, ts_ns):
        words = ["", "", "", f"{EVIL}\nmain", EVIL, EVIL, ""]
        lens = [len(w) + 1 for w in words]
        return hung_job.record(hung_job.COLLECTOR, STACK, self.pid(rank), self.pid(rank), ts_ns,
                               struct.pack("<BB7H", ord("S"), 0, *lens) + hung_job.text(*words))


def hostile_page(room):
    hung_job.text = lambda *words: b"".join(w.replace("big-run", EVIL).replace("python3", EVIL)
                                            .encode("utf-8", "surrogateescape") + b"\0" for w in words)
    whole = hung_job.struct.pack
    job = HostileJob(1, 4, 7)
    # lengths of the two names that are replaced
    lens = {len("big-run") + 1: len(EVIL) + 1, len("python3") + 1: len(EVIL) + 1}

    def pack(form, *values):
        if form == "<QIIiiiBBBB4H":
            values = (*values[:-4], *(lens.get(v, v) for v in values[-4:]))
        return whole(form, *values)
    hung_job.struct = type("struct", (), {"pack": staticmethod(pack)})
    job.write(0, f"{room}/evil.rtr")
    made = run("report", f"{room}/evil.rtr", "-o", f"{room}/evil.html")
    check(made.returncode == 0 or made.returncode == 1, f"{made}")
    return f"{room}/evil.html"


def check_hostile(room):
    data, text = read_page(hostile_page(room))
    held = json.dumps(data, ensure_ascii=False)
    check(held.count("pwned=1") >= 8 and "</script>" in held, "the hostile names are not in it: this proves nothing")
    check("</script>" in data["machines"][0]["host"] and "onerror" in json.dumps(data["stacks"]), "host and frames")
    check(text.count("</script>") == 2 and text.count("<script") == 2 and "<img" not in text, "markup in the page")
    check("\x1b" not in text and "\x07" not in text, "a control character in the page")
    print("  hostile names stay text")


def check_policy(room):
    _, text = read_page(f"{room}/demo.html")
    script = text[text.rindex("<script>") + 8:text.rindex("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search(r'http-equiv="Content-Security-Policy"\s+content="([^"]*)"', text)[1]
    check(policy.startswith(f"default-src 'none'; script-src 'sha256-{digest}';"), f"{policy}, not {digest}")
    check(not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text[:text.index('id="data"')] + script),
          "an address in the page")


def check_command(room):
    made = run("report")
    check(made.returncode == 2 and b"which recording" in made.stderr, f"{made}")
    made = run("report", "/nowhere.rtr", "-o", f"{room}/x.html")
    check(made.returncode == 2 and b"/nowhere.rtr" in made.stderr and not os.path.exists(f"{room}/x.html"), f"{made}")
    with open(f"{REPLAYS}/demo.rtr", "rb") as f:
        whole = f.read()
    with open(f"{room}/torn.rtr", "wb") as f:
        f.write(whole[:len(whole) - 3000])
    made = run("report", f"{room}/torn.rtr", "-o", f"{room}/torn.html")
    data = read_page(f"{room}/torn.html")[0]
    check(b"torn" in made.stderr and any("no end" in line for line in data["unseen"]), f"{made} {data['unseen']}")
    made = run("replay", "-q", f"{REPLAYS}/demo.rtr", "-o", f"{room}/r.html")
    with open(f"{room}/r.html", "rb") as a, open(f"{room}/demo.html", "rb") as b:
        check(a.read() == b.read(), "replay -o writes another page")


def main():
    with tempfile.TemporaryDirectory(prefix="ranktrace-report-") as room:
        check_all(room)
        check_content(room)
        check_merge(room)
        check_policy(room)
        check_command(room)
        check_hostile(room)


if __name__ == "__main__":
    main()
