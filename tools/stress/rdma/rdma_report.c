/* SPDX-License-Identifier: Apache-2.0
 *
 * rdma_report.c - what `stress rdma` prints: the ports, a row a link and case, faults, notes, counters that rose, and a
 * verdict line a port; or the same as JSON lines.
 */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/stress/rdma/rdma_run.h"
#include "tools/stress/report_json.h"

static const char *status_name(int status)
{
	static const char *const names[] = { "done", "not_possible", "stopped", "failed", "hung", "lost" };

	return names[status];
}

/* --- JSON --- */

/* The end of a link, or what a line is about: a subject of the schema. */
static cJSON *port_make(const struct rdma_run *run, int port)
{
	const struct rdma_port *p = &run->fleet.ports[port].port;
	cJSON *subject = cJSON_CreateObject();

	cJSON_AddStringToObject(subject, "type", "port");
	cJSON_AddStringToObject(subject, "host", run->fleet.hosts[p->host].hello.host);
	cJSON_AddStringToObject(subject, "device", p->device);
	cJSON_AddNumberToObject(subject, "port", p->number);
	return subject;
}

/* The n-th GPU, as CUDA counts, that one PCIe switch has with a port; -1: there are no more. */
static int near_gpu(const struct rdma_run *run, int port, int n)
{
	const struct rdma_port *p = &run->fleet.ports[port].port;
	const struct wire_host *h = &run->fleet.hosts[p->host].hello;

	for (int i = 0; i < h->n_places; i++)
		if (p->apart[i] == APART_GPU_NEAR && !n--)
			return h->places[i].gpu;
	return -1;
}

static void near_gpus_json(const struct rdma_run *run, int port, cJSON *to)
{
	cJSON *list = near_gpu(run, port, 0) < 0 ? NULL : cJSON_AddArrayToObject(to, "near_gpus");

	for (int n = 0; list && near_gpu(run, port, n) >= 0; n++)
		cJSON_AddItemToArray(list, cJSON_CreateNumber(near_gpu(run, port, n)));
}

static void begin_json(const struct rdma_run *run)
{
	cJSON *line = json_line_begin("begin"), *ports = cJSON_AddArrayToObject(line, "ports");

	cJSON_AddNumberToObject(line, "hosts", run->fleet.n_hosts);
	for (int i = 0; i < run->fleet.n_ports; i++) {
		const struct rdma_port *p = &run->fleet.ports[i].port;
		cJSON *one = port_make(run, i);

		cJSON_AddBoolToObject(one, "active", run->is_usable[i]);
		cJSON_AddStringToObject(one, "link_layer",
					p->link_layer == VERBS_LINK_ETHERNET ? "Ethernet" : "InfiniBand");
		cJSON_AddStringToObject(one, "netdev", p->netdev);
		cJSON_AddStringToObject(one, "speed", p->speed);
		cJSON_AddNumberToObject(one, "mtu", p->mtu);
		cJSON_AddNumberToObject(one, "gid_index", p->gid_index);
		cJSON_AddStringToObject(one, "gid_type", p->gid_type);
		cJSON_AddStringToObject(one, "gid", p->gid);
		cJSON_AddNumberToObject(one, "node", p->node);
		cJSON_AddStringToObject(one, "firmware", p->firmware);
		cJSON_AddBoolToObject(one, "software", p->soft);
		near_gpus_json(run, i, one);
		cJSON_AddItemToArray(ports, one);
	}
	json_line_end(line);
}

static void value_add(cJSON *line, const struct rdma_measured *m)
{
	const struct rdma_result *r = &m->result;

	cJSON_AddNumberToObject(line, "value", r->value);
	cJSON_AddStringToObject(line, "unit", rdma_measure_units[m->of.measure]);
	if (m->of.measure == RDMA_LATENCY) {
		cJSON_AddNumberToObject(line, "least_us", r->least);
		cJSON_AddNumberToObject(line, "p99_us", r->p99);
		cJSON_AddNumberToObject(line, "most_us", r->most);
	}
	cJSON_AddNumberToObject(line, "messages", r->messages);
	cJSON_AddNumberToObject(line, "packets", m->packets);
	cJSON_AddNumberToObject(line, "lost", m->lost);
}

static void case_add(cJSON *line, const struct rdma_run *run, const struct rdma_measured *m)
{
	char place[40];

	cJSON_AddStringToObject(line, "shape", rdma_shape_names[m->shape]);
	cJSON_AddItemToObject(line, "from", port_make(run, m->from));
	cJSON_AddItemToObject(line, "to", port_make(run, m->to));
	cJSON_AddStringToObject(line, "memory", rdma_place_name(&m->of.to, place, sizeof(place)));
	cJSON_AddStringToObject(line, "operation", rdma_operation_names[m->of.operation]);
	cJSON_AddStringToObject(line, "measure", rdma_measure_names[m->of.measure]);
	cJSON_AddNumberToObject(line, "bytes", m->of.bytes);
}

static void measured_json(const struct rdma_run *run, const struct rdma_measured *m)
{
	cJSON *line = json_line_begin("port_case");

	case_add(line, run, m);
	cJSON_AddStringToObject(line, "status", status_name(m->result.status));
	if (m->result.status == RDMA_DONE)
		value_add(line, m);
	else
		cJSON_AddStringToObject(line, "text", m->result.text);
	cJSON_AddNumberToObject(line, "checked", m->result.checked);
	cJSON_AddNumberToObject(line, "wrong", m->result.wrong);
	json_line_end(line);
}

static void gpu_subject_add(cJSON *line, const struct rdma_run *run, const struct fault *f)
{
	cJSON *subject = cJSON_AddObjectToObject(line, "subject");

	cJSON_AddStringToObject(subject, "type", "gpu");
	cJSON_AddStringToObject(subject, "host", run->fleet.hosts[f->memory_host].hello.host);
	cJSON_AddNumberToObject(subject, "gpu", f->memory_gpu - 1);
}

static void fault_json(const struct rdma_run *run, const struct fault *f)
{
	cJSON *line = json_fault_begin(f);

	if (f->gpu >= 0)
		cJSON_AddItemToObject(line, "subject", port_make(run, f->gpu));
	else if (f->memory_gpu)
		gpu_subject_add(line, run, f);
	else
		json_subject_add(line, "node");
	if (f->to)
		cJSON_AddItemToObject(line, "to", port_make(run, f->to - 1));
	json_line_end(line);
}

static void rates_json(const struct rdma_run *run)
{
	for (int i = 0; i < run->n_measured; i++) {
		const struct rdma_measured *m = &run->measured[i];
		cJSON *line;

		if (!m->judged.judged)
			continue;
		line = json_line_begin("port_rate");
		case_add(line, run, m);
		json_judged_add(line, &m->judged, rdma_measure_units[m->of.measure]);
		json_line_end(line);
	}
}

static void verdict_json(const struct rdma_run *run, int port)
{
	const struct fleet_port *p = &run->fleet.ports[port];
	cJSON *line = json_line_begin("port_verdict"), *counters;
	uint64_t rose[PORT_COUNTERS];

	cJSON_AddItemToObject(line, "subject", port_make(run, port));
	cJSON_AddBoolToObject(line, "tested", run->is_measured[port]);
	cJSON_AddBoolToObject(line, "passed",
			      !run->faults_of[port] && run->is_measured[port] && !run->is_alone[port] &&
				      !*run->partial);
	cJSON_AddNumberToObject(line, "faults", run->faults_of[port]);
	counters = cJSON_AddObjectToObject(line, "counters");
	counters_since(p->begin.counters, p->end.counters, rose);
	for (int i = 0; i < PORT_COUNTERS; i++)
		if (rose[i] != PORT_NOT_COUNTED)
			cJSON_AddNumberToObject(counters, counter_name(i), rose[i]);
	json_line_end(line);
}

static void end_json(const struct rdma_run *run, int status)
{
	rates_json(run);
	for (int i = 0; i < run->fleet.n_ports + run->n_missing; i++)
		verdict_json(run, i);
	json_end_line(status, run->partial, rdma_elapsed_s(run), &run->notes);
}

/* --- text --- */

static void port_print(const struct rdma_run *run, int i)
{
	const struct rdma_port *p = &run->fleet.ports[i].port;
	char name[160];

	printf("  %-20s %s  %s  MTU %d", rdma_port_name(run, i, name, sizeof(name)),
	       run->is_usable[i] ? "up" : "not up", *p->speed ? p->speed : "speed unknown", p->mtu);
	if (p->gid_index >= 0 && p->link_layer == VERBS_LINK_ETHERNET)
		printf("  GID %d %s %s", p->gid_index, p->gid_type, p->gid);
	if (p->link_layer == VERBS_LINK_INFINIBAND)
		printf("  LID %d", p->lid);
	if (*p->netdev)
		printf("  %s", p->netdev);
	if (p->node >= 0)
		printf("  node %d", p->node);
	for (int n = 0; near_gpu(run, i, n) >= 0; n++)
		printf("%s%d", n ? "," : "  near GPU ", near_gpu(run, i, n));
	printf("%s\n", p->soft ? "  software" : "");
}

void rdma_report_begin(const struct rdma_run *run)
{
	if (run->mode == REPORT_NONE)
		return;
	if (run->mode == REPORT_JSON) {
		begin_json(run);
		return;
	}
	printf("stress rdma: %d port%s on %d host%s\n", run->fleet.n_ports, run->fleet.n_ports > 1 ? "s" : "",
	       run->fleet.n_hosts, run->fleet.n_hosts > 1 ? "s" : "");
	for (int i = 0; i < run->fleet.n_ports; i++)
		port_print(run, i);
	printf("%-11s %-5s %-9s %7s %16s  %s\n", "shape", "verb", "measure", "bytes", "", "link");
	fflush(stdout);
}

static void value_print(const struct rdma_measured *m)
{
	const struct rdma_result *r = &m->result;

	if (isnan(r->value)) /* wrong data: it was not measured */
		printf("%16s", "-");
	else
		printf("%9.4g %-6s", r->value, rdma_measure_units[m->of.measure]);
}

void rdma_report_measured(const struct rdma_run *run, const struct rdma_measured *m)
{
	char link[340], place[40] = "";

	if (run->mode == REPORT_NONE)
		return;
	if (run->mode == REPORT_JSON) {
		measured_json(run, m);
		return;
	}
	printf("%-11s %-5s %-9s %7u ", rdma_shape_names[m->shape], rdma_operation_names[m->of.operation],
	       rdma_measure_names[m->of.measure], m->of.bytes);
	if (m->result.status == RDMA_DONE)
		value_print(m);
	else
		printf("%16s", status_name(m->result.status));
	if (m->shape == SHAPE_LOOPBACK)
		rdma_place_name(&m->of.to, place, sizeof(place));
	printf("  %s%s%s", rdma_link_name(run, m, link, sizeof(link)), *place ? ", " : "", place);
	if (m->result.status == RDMA_DONE && m->of.measure == RDMA_LATENCY)
		printf("  (%.4g to %.4g, p99 %.4g)", m->result.least, m->result.most, m->result.p99);
	if (m->lost)
		printf("  %llu lost", (unsigned long long)m->lost);
	if (m->result.wrong)
		printf("  %llu bytes WRONG", (unsigned long long)m->result.wrong);
	printf("%s%s\n", m->result.status == RDMA_DONE ? "" : ": ",
	       m->result.status == RDMA_DONE ? "" : m->result.text);
	fflush(stdout);
}

void rdma_report_fault(const struct rdma_run *run, const struct fault *f)
{
	char name[160];

	if (run->mode == REPORT_NONE)
		return;
	if (run->mode == REPORT_JSON) {
		fault_json(run, f);
		return;
	}
	if (f->memory_gpu && run->fleet.n_hosts > 1)
		snprintf(name, sizeof(name), "%s/GPU %d", run->fleet.hosts[f->memory_host].hello.host,
			 f->memory_gpu - 1);
	else if (f->memory_gpu)
		snprintf(name, sizeof(name), "GPU %d", f->memory_gpu - 1);
	printf("FAULT %s  %s: %s\n",
	       f->gpu >= 0     ? rdma_port_name(run, f->gpu, name, sizeof(name))
	       : f->memory_gpu ? name
			       : "of no single port",
	       fault_kind_name(f->kind), f->text);
	fflush(stdout);
}

/* The one case of each kind that came closest to its bound: what the reader wants of hundreds. */
static void judged_print(const struct rdma_run *run)
{
	int n = 0, failed = 0;

	for (int i = 0; i < run->n_measured; i++) {
		n += run->measured[i].judged.judged;
		failed += run->measured[i].judged.failed;
	}
	if (n)
		printf("  %d of %d measurements were held to a bound, %d missed it\n", n, run->n_measured, failed);
	else
		printf("  no rate was judged: there is no other link of a kind, baseline or row of the table\n");
}

static void verdict_print(const struct rdma_run *run, int port)
{
	const struct fleet_port *p = &run->fleet.ports[port];
	const struct fault *first = NULL;
	uint64_t rose[PORT_COUNTERS];
	char name[160], text[200];

	for (uint32_t i = 0; i < run->n_faults && !first; i++)
		if (run->faults[i].gpu == port)
			first = &run->faults[i];
	printf("%s: ", rdma_port_name(run, port, name, sizeof(name)));
	if (first)
		printf("FAILED, %u fault%s, the first: %s: %s\n", run->faults_of[port],
		       run->faults_of[port] > 1 ? "s" : "", fault_kind_name(first->kind), first->text);
	else
		printf("%s\n", !run->is_usable[port]     ? "not up, not tested"
			       : !run->is_measured[port] ? "not tested"
			       : *run->partial           ? "no fault so far (partial)"
			       : run->is_alone[port]     ? "not tested with another host"
			       : run->n_faults           ? "no fault of its own"
							 : "passed");
	counters_since(p->begin.counters, p->end.counters, rose);
	if (*counters_text(rose, COUNTER_HARD, text, sizeof(text)))
		printf("  errors counted: %s\n", text);
	if (*counters_text(rose, COUNTER_LOSS, text, sizeof(text)))
		printf("  loss counted: %s\n", text);
}

void rdma_report_end(const struct rdma_run *run, int status)
{
	static const char *const words[] = { "passed", "FAILED", "usage", "not possible here" };

	if (run->mode == REPORT_NONE)
		return;
	if (run->mode == REPORT_JSON) {
		end_json(run, status);
		return;
	}
	printf("\n");
	judged_print(run);
	notes_print(&run->notes);
	if (*run->partial)
		printf("partial: %s\n", run->partial);
	for (int i = 0; i < run->fleet.n_ports + run->n_missing; i++)
		verdict_print(run, i);
	printf("stress rdma: %s after %.0f s\n", words[status], rdma_elapsed_s(run));
	fflush(stdout);
}
