#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""THE panels of the dashboards. --write makes the Grafana JSON files beside this one from them; --check prints where a
file differs, which metric of schemas/metrics.def has no panel and no reason in NO_PANEL, and which a panel names that
is not there. Each query works on any of the jobs and nodes that are chosen above (templated: datasource, job, node)."""
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(HERE, "..", "scripts"))
import kept_file
import metrics

J = 'train_job=~"$train_job",instance=~"$node"'  # of what has a job
N = 'instance=~"$node"'
WINDOW = "$__rate_interval"


def rate(name, by, where=J):
    return f"sum by ({by}) (rate({name}{{{where}}}[{WINDOW}]))"


def worst(name, by, where=J):
    return f"max by ({by}) ({name}{{{where}}})"


PHASES = f"{rate('ranktrace_step_phase_seconds_total', 'train_job, phase')} / " \
    f"on (train_job) group_left () {rate('ranktrace_step_phase_seconds_total', 'train_job')}"
LATENESS = f"histogram_quantile(0.5, {rate('ranktrace_entry_lateness_seconds_bucket', 'train_job, rank, le')})"

# file -> title, [(row title, [(kind, title, unit, query, legend)])]. Kinds are Grafana's panel types.
DASHBOARDS = {
    "job.json": ("ranktrace: job", [
        ("Is it well?", [
            ("stat", "Critical findings open", "short",
             f'sum(ranktrace_findings_open{{severity="critical",{N}}}) or vector(0)', ""),
            ("stat", "Ranks", "short", f"sum(ranktrace_job_ranks{{{J}}})", ""),
            ("stat", "Ranks of which NCCL is seen", "short", f"sum(ranktrace_job_ranks_seen{{{J}}})", ""),
            ("stat", "Ranks whose steps are seen (0 without probes)", "short", f"sum(ranktrace_steps_seen{{{J}}})", ""),
            ("stat", "Since any rank entered a collective", "s",
             f"time() - max(ranktrace_last_collective_timestamp_seconds{{{J}}})", ""),
            ("table", "Open findings", "s", f"ranktrace_finding_age_seconds{{{J}}}", ""),
        ]),
        ("Pace", [
            ("timeseries", "Collectives a second", "ops", rate("ranktrace_collectives_total", "train_job, parallelism"),
             "{{train_job}} {{parallelism}}"),
            ("timeseries", "Step time (while probed)", "s", worst("ranktrace_step_seconds", "train_job, rank"),
             "rank {{rank}}"),
            ("timeseries", "Steps a second (while probed)", "ops",
             f"avg by (train_job) (rate(ranktrace_steps_total{{{J}}}[{WINDOW}]))", "{{train_job}}"),
            ("timeseries", "Operations a second (while probed)", "ops",
             rate("ranktrace_operations_total", "train_job, parallelism"), "{{train_job}} {{parallelism}}"),
            ("timeseries", "Bytes a second, by kind of communicator (while probed)", "Bps",
             rate("ranktrace_operation_bytes_total", "train_job, parallelism"), "{{train_job}} {{parallelism}}"),
            ("timeseries", "Phases of a step, share of time (while probed, of PyTorch)", "percentunit", PHASES,
             "{{train_job}} {{phase}}"),
        ]),
        ("Who is late?", [
            ("status-history", "Behind the first, in collectives", "short",
             worst("ranktrace_sequence_lag", "train_job, rank"), "rank {{rank}}"),
            ("status-history", "Share of time that a rank waits for peers (while probed)", "percentunit",
             rate("ranktrace_peer_wait_seconds_total", "train_job, rank"), "rank {{rank}}"),
            ("timeseries", "Operations entered last (while probed): the others wait for it", "ops",
             rate("ranktrace_last_arrivals_total", "train_job, rank"), "rank {{rank}}"),
            ("status-history", "How late it enters a collective, median (while probed)", "s", LATENESS, "rank {{rank}}"),
            ("heatmap", "How late collectives are entered, all ranks (while probed)", "s",
             rate("ranktrace_entry_lateness_seconds_bucket", "le"), "{{le}}"),
            ("timeseries", "Seconds since its newest collective", "s",
             f"time() - {worst('ranktrace_last_collective_timestamp_seconds', 'train_job, rank')}", "rank {{rank}}"),
        ]),
        ("Hosts of the ranks", [
            ("timeseries", "Main thread, share of time", "percentunit",
             rate("ranktrace_main_thread_seconds_total", "rank, state"), "rank {{rank}} {{state}}"),
            ("timeseries", "Held by a CPU quota, share of time", "percentunit",
             rate("ranktrace_cpu_throttled_seconds_total", "rank"), "rank {{rank}}"),
            ("timeseries", "Read and written", "Bps", rate("ranktrace_io_bytes_total", "rank"), "rank {{rank}}"),
        ]),
    ]),
    "node.json": ("ranktrace: node", [
        ("GPUs", [
            ("table", "Who computes where", "short", f"ranktrace_gpu_info{{{N}}}", ""),
            ("status-history", "Answers its driver", "short", worst("ranktrace_gpu_answers", "instance, gpu", N),
             "{{instance}} GPU {{gpu}}"),
            ("status-history", "Activity: waits in NCCL, works, idle, another kernel", "short",
             f"ranktrace_gpu_role{{{N}}}", "{{instance}} GPU {{gpu}} {{role}}"),
            ("timeseries", "How busy (sm, tensor, dram, occupancy)", "percentunit",
             worst("ranktrace_gpu_active_ratio", "instance, gpu, part", N), "{{instance}} GPU {{gpu}} {{part}}"),
            ("timeseries", "Power", "watt", worst("ranktrace_gpu_power_watts", "instance, gpu", N),
             "{{instance}} GPU {{gpu}}"),
            ("timeseries", "Temperature", "celsius", worst("ranktrace_gpu_temperature_celsius", "instance, gpu", N),
             "{{instance}} GPU {{gpu}}"),
            ("timeseries", "SM clock", "hertz", worst("ranktrace_gpu_sm_clock_hertz", "instance, gpu", N),
             "{{instance}} GPU {{gpu}}"),
            ("status-history", "Clocks are low, because of", "short",
             worst("ranktrace_gpu_slowdown", "instance, gpu, reason", N), "{{instance}} GPU {{gpu}} {{reason}}"),
            ("timeseries", "Errors", "short", f"increase(ranktrace_gpu_errors_total{{{N}}}[{WINDOW}])",
             "{{instance}} GPU {{gpu}} {{error}}"),
            ("status-history", "Memory rows, InfoROM", "short", worst("ranktrace_gpu_fault", "instance, gpu, fault", N),
             "{{instance}} GPU {{gpu}} {{fault}}"),
        ]),
        ("Findings", [
            ("timeseries", "Open, by kind and severity", "short",
             f"sum by (kind, severity) (ranktrace_findings_open{{{N}}})", "{{kind}} {{severity}}"),
            ("timeseries", "New, by kind and severity", "short",
             f"sum by (kind, severity) (increase(ranktrace_findings_total{{{N}}}[{WINDOW}]))", "{{kind}} {{severity}}"),
        ]),
    ]),
    "fabric.json": ("ranktrace: fabric", [
        ("RDMA ports", [
            ("status-history", "Up", "short", worst("ranktrace_rdma_port_active", "instance, device, port", N),
             "{{instance}} {{device}}/{{port}}"),
            ("timeseries", "Sent, of what the link can carry", "percentunit",
             f"rate(ranktrace_rdma_port_sent_bytes_total{{{N}}}[{WINDOW}]) / "
             f"ranktrace_rdma_port_rate_bytes_per_second{{{N}}}", "{{instance}} {{device}}/{{port}}"),
            ("timeseries", "Sent", "Bps", rate("ranktrace_rdma_port_sent_bytes_total", "instance, device, port", N),
             "{{instance}} {{device}}/{{port}}"),
            ("timeseries", "Received", "Bps",
             rate("ranktrace_rdma_port_received_bytes_total", "instance, device, port", N),
             "{{instance}} {{device}}/{{port}}"),
            ("timeseries", "Errors, retransmits, congestion: events a second", "ops",
             rate("ranktrace_rdma_port_events_total", "instance, device, port, event", N),
             "{{instance}} {{device}}/{{port}} {{event}}"),
        ]),
        ("TCP between ranks", [
            ("timeseries", "Connections", "short", worst("ranktrace_tcp_connections", "train_job, rank"),
             "rank {{rank}}"),
            ("timeseries", "Sent", "Bps", rate("ranktrace_tcp_sent_bytes_total", "train_job, rank"), "rank {{rank}}"),
            ("timeseries", "Received", "Bps", rate("ranktrace_tcp_received_bytes_total", "train_job, rank"),
             "rank {{rank}}"),
            ("timeseries", "Sent again", "Bps", rate("ranktrace_tcp_retransmitted_bytes_total", "train_job, rank"),
             "rank {{rank}}"),
            ("timeseries", "In queues", "bytes", worst("ranktrace_tcp_queued_bytes", "train_job, rank, queue"),
             "rank {{rank}} {{queue}}"),
        ]),
    ]),
    "tracer.json": ("ranktrace: the tracer itself", [
        ("Does it see?", [
            ("table", "Tier and version", "short", f"ranktrace_tier_info{{{N}}}", ""),
            ("timeseries", "Jobs with ranks of which it sees nothing", "short",
             f"count by (instance) ((ranktrace_job_ranks{{{J}}} > 0) unless (ranktrace_job_ranks_seen{{{J}}} > 0)) or "
             f"0 * sum by (instance) (ranktrace_processes{{{N}}})", "{{instance}}"),
            ("timeseries", "Processes", "short", worst("ranktrace_processes", "instance", N), "{{instance}}"),
            ("timeseries", "Probes", "short", worst("ranktrace_probes", "instance", N), "{{instance}}"),
            ("timeseries", "Records a second", "ops", rate("ranktrace_records_total", "instance", N), "{{instance}}"),
            ("timeseries", "Records lost a second", "ops", rate("ranktrace_lost_records_total", "instance, class", N),
             "{{instance}} {{class}}"),
            ("timeseries", "Series left out", "short", worst("ranktrace_series_left_out", "instance", N),
             "{{instance}}"),
        ]),
        ("What does it cost?", [
            ("timeseries", "Of a core: the tracer", "percentunit", rate("ranktrace_cpu_seconds_total", "instance", N),
             "{{instance}}"),
            ("timeseries", "Of a core: probes, in the jobs", "percentunit",
             rate("ranktrace_probe_seconds_total", "instance", N), "{{instance}}"),
            ("timeseries", "Probe hits a second", "ops", rate("ranktrace_probe_hits_total", "instance", N),
             "{{instance}}"),
            ("timeseries", "Memory", "bytes", worst("ranktrace_resident_memory_bytes", "instance", N), "{{instance}}"),
            ("timeseries", "Longest time without a turn", "s", worst("ranktrace_turn_gap_seconds", "instance", N),
             "{{instance}}"),
            ("timeseries", "Up for", "s", f"time() - ranktrace_start_timestamp_seconds{{{N}}}", "{{instance}}"),
        ]),
    ]),
    "hub.json": ("ranktrace: cluster", [
        ("Jobs", [
            ("stat", "Critical findings open", "short",
             f'sum(ranktrace_hub_findings_open{{severity="critical",{N}}}) or vector(0)', ""),
            ("stat", "Jobs that a hub has", "short", f'sum(ranktrace_hub_jobs{{state="owned",{N}}})', ""),
            ("stat", "Ranks", "short", f"sum(ranktrace_hub_job_ranks{{{J}}})", ""),
            ("stat", "Ranks whose host is silent", "short", f"sum(ranktrace_hub_job_unobserved_ranks{{{J}}})", ""),
            ("table", "Open findings", "s", f"ranktrace_hub_finding_age_seconds{{{J}}}", ""),
            ("timeseries", "Ranks of a job", "short", worst("ranktrace_hub_job_ranks", "train_job"), "{{train_job}}"),
            ("timeseries", "Hosts of a job", "short", worst("ranktrace_hub_job_hosts", "train_job"), "{{train_job}}"),
            ("timeseries", "The last rank behind the first, in collectives", "short",
             worst("ranktrace_hub_job_sequence_lag", "train_job, parallelism"), "{{train_job}} {{parallelism}}"),
            ("timeseries", "Since any rank entered a collective", "s",
             f"time() - {worst('ranktrace_hub_job_last_collective_timestamp_seconds', 'train_job')}",
             "{{train_job}}"),
            ("timeseries", "New findings, by kind and severity", "short",
             f"sum by (kind, severity) (increase(ranktrace_hub_findings_total{{{N}}}[{WINDOW}]))",
             "{{kind}} {{severity}}"),
        ]),
        ("Hubs", [
            ("table", "Version", "short", f"ranktrace_hub_info{{{N}}}", ""),
            ("timeseries", "Hosts: reporting, silent, paused", "short", worst("ranktrace_hub_hosts", "state", N),
             "{{state}}"),
            ("timeseries", "Jobs: owned, standby", "short", worst("ranktrace_hub_jobs", "instance, state", N),
             "{{instance}} {{state}}"),
            ("timeseries", "Reports a second", "ops", rate("ranktrace_hub_reports_total", "instance", N),
             "{{instance}}"),
            ("timeseries", "Reports refused a second", "ops",
             rate("ranktrace_hub_refused_reports_total", "instance, reason", N), "{{instance}} {{reason}}"),
            ("timeseries", "Reports that came twice, a second", "ops",
             rate("ranktrace_hub_repeated_reports_total", "instance", N), "{{instance}}"),
            ("timeseries", "Reports that never came, a second", "ops",
             rate("ranktrace_hub_missing_reports_total", "instance", N), "{{instance}}"),
            ("timeseries", "Reports that it has still to read", "short",
             worst("ranktrace_hub_unread_reports", "instance", N), "{{instance}}"),
            ("timeseries", "Reports passed over for a newer one, a second", "ops",
             rate("ranktrace_hub_carried_reports_total", "instance", N), "{{instance}}"),
            ("timeseries", "Since the newest report that it read", "s",
             f"time() - ranktrace_hub_last_report_timestamp_seconds{{{N}}}", "{{instance}}"),
            ("timeseries", "Of a core", "percentunit",
             f"sum by (instance) (rate(ranktrace_cpu_seconds_total{{{N}}}[{WINDOW}])) and on (instance) "
             "ranktrace_hub_info", "{{instance}}"),
        ]),
    ]),
}
NO_PANEL = {  # name of a metric -> why it has none
    "ranktrace_storage_blocked_seconds_total": "a job that is never blocked in a call on a file has no series",
    "ranktrace_storage_blocked_call_seconds": "the same",
}

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT = {"stat": 4, "table": 24}, {"stat": 4}


def variable(name, label, query):
    return {"name": name, "label": label, "type": "query", "datasource": SOURCE, "definition": query, "refresh": 2,
            "query": {"query": query, "refId": name}, "includeAll": True, "multi": True, "allValue": ".*", "sort": 1,
            "current": {"text": ["All"], "value": ["$__all"]}}


def variables(jobs, nodes):
    """The metrics by which jobs and nodes are known."""
    return [{"name": "datasource", "label": "Datasource", "type": "datasource", "query": "prometheus", "refresh": 1,
             "current": {}},
            variable("train_job", "Job", f"label_values({jobs}, train_job)"),
            variable("node", "Node", f"label_values({nodes}, instance)")]


VARIABLES = {"hub.json": variables("ranktrace_hub_job_ranks", "ranktrace_hub_info")}
NODE_VARIABLES = variables("ranktrace_job_ranks", "ranktrace_processes")


def panel(number, at, kind, title, unit, query, legend):
    is_now = kind in ("stat", "table")
    target = {"refId": "A", "datasource": SOURCE, "expr": query, "instant": is_now, "range": not is_now,
              "legendFormat": legend or "__auto"}
    if kind in ("table", "heatmap"):
        target["format"] = kind
    return {"id": number, "type": kind, "title": title, "datasource": SOURCE, "gridPos": at, "targets": [target],
            "fieldConfig": {"defaults": {"unit": unit}, "overrides": []}, "options": {}}


def row(number, y, title):
    return {"id": number, "type": "row", "title": title, "collapsed": False, "panels": [],
            "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}}


def dashboard(name):
    title, rows = DASHBOARDS[name]
    panels, x, y, tallest = [], 0, 0, 0
    for row_title, content in rows:
        y, x = y + tallest, 0
        panels.append(row(len(panels) + 1, y, row_title))
        y, tallest = y + 1, 0
        for kind, *rest in content:
            w, h = WIDTH.get(kind, 12), HEIGHT.get(kind, 8)
            if x + w > 24:
                x, y, tallest = 0, y + tallest, 0
            panels.append(panel(len(panels) + 1, {"x": x, "y": y, "w": w, "h": h}, kind, *rest))
            x, tallest = x + w, max(tallest, h)
    return {"uid": "ranktrace-" + name.removesuffix(".json"), "title": title, "tags": ["ranktrace"], "version": 1,
            "schemaVersion": 37, "editable": True, "refresh": "30s", "time": {"from": "now-1h", "to": "now"},
            "timezone": "browser", "templating": {"list": VARIABLES.get(name, NODE_VARIABLES)}, "annotations": {"list": []}, "panels": panels}


def queries():
    """(file, title of the panel, query)."""
    for name, (_, rows) in DASHBOARDS.items():
        for _, content in rows:
            yield from ((name, title, query) for _, title, _, query, _ in content)


def coverage():
    rows = metrics.rows(os.path.join(HERE, "..", metrics.TABLE))
    known, parts = {r["name"] for r in rows}, {r["name"] + end: r["name"] for r in rows if r["type"] == "HISTOGRAM"
                                               for end in ("_bucket", "_sum", "_count")}
    used = {(name, parts.get(m, m)) for name, _, query in queries() for m in re.findall(r"\branktrace_\w+", query)}
    with open(os.path.join(HERE, "rules.yml"), encoding="utf-8") as f:
        used |= {("rules.yml", m) for m in re.findall(r"(?<!:)\branktrace_\w+", f.read())}
    for name, m in sorted(used):
        if m not in known:
            yield f"dashboards/{name}: {m} is not in {metrics.TABLE}"
    shown = {m for name, m in used if name != "rules.yml"}
    for m in sorted(known - shown - set(NO_PANEL)):
        yield f"dashboards: {m} has no panel, and no reason in NO_PANEL"
    for m in sorted(set(NO_PANEL) & shown | set(NO_PANEL) - known):
        yield f"dashboards: {m} in NO_PANEL has a panel, or is no metric"


def main():
    write = kept_file.asked_to_write(__doc__)
    bad = list(coverage())
    for name in DASHBOARDS:
        path, text = os.path.join(HERE, name), json.dumps(dashboard(name), indent=1) + "\n"
        if kept_file.differs(path, text, write):
            bad.append(f"dashboards/{name}: not as panels.py has it: run dashboards/panels.py --write")
    return kept_file.report(bad)


if __name__ == "__main__":
    sys.exit(main())
