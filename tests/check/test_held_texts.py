#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Texts of the pipeline's table are freed once the model refers to them no more (model_hold_texts()). Every field of
the model's structs that is a text is named there, or below with the reason why it need not be. And who keeps something
from tick to tick, a detector, a sink or a listener, keeps no pointer to a text that is not its own: each field is named
below."""
import glob
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
TEXT = re.compile(r"^\s*const char \*+([^;(]*);", re.M)
# Structs of contracts that have texts.
HOLDERS = "subject|finding|incident|event|event_proc|stack_event|waits_for|task_stack|known_phase|job_place"
EMBEDDED = re.compile(r"^\s*(?:const )?struct (%s) \*?(\w+)(?:\[\w+\])?;" % HOLDERS, re.M)

# Of the model: what is no text of the table.
OWN = {
    "job_id.name", "job_id.shown", "job_scope.name",  # user/job's own, for good
    "job_scope.place",  # its texts are held one by one
    "job_own.place",  # that of a scope, read in the round alone that set it
    "task.stack", "task.wait",  # their texts are held one by one
}
# Of detectors: of one tick, unless it says so.
DETECT = {
    "detector.name", "detector.help", "xid_row.meaning", "xid_row.remedy",  # constants
    "place.address", "place.other", "group.device", "tcp_place.address",
    "pause.job", "pause.site", "pause.wait", "habit.phase",
    "tcp_netdevs.address",  # taken anew by each round that asks
    "cost_thread.behind", "cost_rates.behind",  # of what is kept NULL
    "tcp_pair.a", "tcp_pair.b", "pauses.all",  # its own copies
    "finding_list.items",  # emptied when texts go
}
# Of sinks.
SINKS = {
    "sink_class.name", "sink_class.help", "sink_class.suffix", "verb.one", "verb.several", "figure.format",
    "comm_stats.use", "frame.state",  # constants
    "thread.call_name", "name_table.keys",  # the file's own: trace_text()
    "perfetto_sink.findings", "kept_incident.i", "autopsy_sink.open", "held.i",  # finding_keep()
    "heat_row.job",  # user/job's
    "why.f", "share.what", "graph.f", "stack_item.text", "frame.text",  # of one call
}
METRICS = {
    "metric.name", "metric.unit", "metric.labels", "metric.help", "own_health.tier",  # constants
    "finding_labels.job", "finding_labels.host", "finding_labels.kind", "finding_labels.class",
    "finding_labels.cause", "finding_labels.severity", "finding_labels.root", "gpu_name.uuid", "port_name.device",
    "port_name.netdev", "job_sum.name", "rank_name.job",  # of one page
}
CLUSTER = {"agent_mode.error", "publisher.token", "open_finding.f", "known_proc.who"}  # its own copies
PIPELINE = {"entry.now", "incidents.past", "output_change.path"}  # finding_keep(); the command line's
# Of that finding numbers alone are read.
FLIGHT = {"flight_cfg.dir", "flight_dump_why.reason", "flight_dump_why.finding", "flight.finding"}


def structs(path):
    """(name, body) of each struct that is defined at the left margin, nested ones with their parent's."""
    with open(path, encoding="utf-8") as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    for m in re.finditer(r"^(?:static )?(?:const )?struct (\w+) \{[ \t]*\n(.*?)^\}", text, re.S | re.M):
        yield m.group(1), m.group(2)


def fields(path):
    for name, body in structs(path):
        for m in TEXT.finditer(body):
            for one in m.group(1).split(","):
                yield name, re.sub(r"\[.*|[\s*]|const ", "", one)
        for m in EMBEDDED.finditer(body):
            yield name, m.group(2)


def files(*folders):
    return sorted(f for folder in folders
                  for f in glob.glob(os.path.join(ROOT, folder, "**", "*.[ch]"), recursive=True))


def held():
    """(struct, field) of all that is given to intern_hold(); struct "": of an expression of which it is not clear."""
    pairs = set()
    for path in files("user/model", "user/job"):
        with open(path, encoding="utf-8") as f:
            functions = re.split(r"^}", f.read(), flags=re.M)
        for body in functions:
            types = dict((name, struct) for struct, name in re.findall(r"struct (\w+) \*(\w+)", body))
            for call in re.findall(r"\b(?:HOLD|intern_hold)\(t,([^;]*)\);", body):
                for one in call.split(","):
                    path_of = re.split(r"->|\.", re.sub(r"\[.*?\]", "", one.strip()))
                    pairs.add((types.get(path_of[0], "") if len(path_of) == 2 else "", path_of[-1]))
    return pairs


def main():
    known, wrong, seen = held(), [], set()
    assert len(known) > 30, known
    for path in files("user/model", "user/job"):
        for struct, field in fields(path):
            seen.add(f"{struct}.{field}")
            if not {(struct, field), ("", field)} & known and f"{struct}.{field}" not in OWN:
                wrong.append(f"{os.path.relpath(path, ROOT)}: {struct}.{field} is not in model_hold_texts()")
    for folder, allowed in (("user/detect", DETECT), ("user/sink", SINKS), ("user/metrics", METRICS),
                            ("user/cluster", CLUSTER), ("user/pipeline", PIPELINE), ("user/flight", FLIGHT)):
        for path in files(folder):
            for struct, field in fields(path):
                seen.add(f"{struct}.{field}")
                if f"{struct}.{field}" not in allowed:
                    wrong.append(f"{os.path.relpath(path, ROOT)}: {struct}.{field}: whose text is it, and for how "
                                 f"long? Copy it, or say in {os.path.basename(__file__)} why not")
    wrong += [f"{os.path.basename(__file__)}: {one} is not there any more" for one in sorted(
        (OWN | DETECT | SINKS | METRICS | CLUSTER | PIPELINE | FLIGHT) - seen)]
    print("\n".join(wrong) or f"{len(seen)} fields are texts, each held or somebody's own")
    return bool(wrong)


sys.exit(main())
