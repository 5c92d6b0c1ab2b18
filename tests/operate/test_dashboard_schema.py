# SPDX-License-Identifier: Apache-2.0
"""Dashboards are as Grafana's definition has it (grafana.schema.json), as far as that can be had without a Grafana:
keys, types, choices; each panel has an id and a place of its own; what a query names with $ is a variable of its
dashboard."""
import copy
import glob
import json
import os
import re
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [f"{here}/../aid", f"{here}/../replay"]
import job
from schema_check import faults, resolved

with open(f"{here}/grafana.schema.json", encoding="utf-8") as f:
    SCHEMA = resolved(json.load(f))
GRAFANA_OWN = {"__rate_interval"}


def cells(p):
    at = p["gridPos"]
    return {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}


def places(d):
    seen, ids = set(), [p["id"] for p in d["panels"]]
    if len(set(ids)) != len(ids):
        yield "an id is there twice"
    for p in d["panels"]:
        mine = cells(p)
        if mine & seen:
            yield f"'{p['title']}' lies on another panel"
        if max(x for x, _ in mine) > 23:
            yield f"'{p['title']}' is wider than the page"
        seen |= mine


def variables(d):
    known = {v["name"] for v in d["templating"]["list"]} | GRAFANA_OWN
    for p in d["panels"]:
        for text in [p.get("datasource", {}).get("uid", "")] + [t["expr"] for t in p.get("targets", [])]:
            for name in re.findall(r"\$\{?(\w+)", text):
                if name not in known:
                    yield f"'{p['title']}' has ${name}, which is no variable"


def wrong(d):
    found = list(faults(SCHEMA, d, "dashboard"))
    return found or list(places(d)) + list(variables(d))


def planted(d):
    """Each of these is seen: else this test says nothing."""
    last = len(d["panels"]) - 1

    def changed(change):
        other = copy.deepcopy(d)
        change(other)
        return wrong(other)
    for what, change in (
            ("a key misspelt", lambda o: o["panels"][last].update(tittle="x")),
            ("a type that no panel has", lambda o: o["panels"][last].update(type="graphs")),
            ("no room", lambda o: o["panels"][last]["gridPos"].update(w=25)),
            ("over the edge", lambda o: o["panels"][last]["gridPos"].update(x=20, w=12)),
            ("two in one place", lambda o: o["panels"][last].update(gridPos=o["panels"][1]["gridPos"])),
            ("an id twice", lambda o: o["panels"][last].update(id=1)),
            ("a variable that is none", lambda o: o["panels"][last]["targets"][0].update(expr='up{job="$jobs"}')),
            ("a long uid", lambda o: o.update(uid="x" * 41))):
        job.check(changed(change), f"{what}: not seen")


files = sorted(glob.glob(f"{here}/../../dashboards/*.json"))
job.check(len(files) == 5, f"dashboards: {files}")
for path in files:
    with open(path, encoding="utf-8") as f:
        dashboard = json.load(f)
    found = wrong(dashboard)
    job.check(not found, f"{os.path.basename(path)}: {found[:5]}")
    planted(dashboard)
print(f"  {len(files)} dashboards are as Grafana's definition has it")
