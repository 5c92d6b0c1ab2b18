/* SPDX-License-Identifier: Apache-2.0
 *
 * link_judge.c - what was measured over the links: wrong data, links that do not carry it, packets lost, rates. What is
 * wrong with each link of a port is said once, as the port's.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/stress/rdma/rates.h"
#include "tools/stress/rdma/rdma_run.h"

/* Of packets: a bit error rate of 1e-12, which InfiniBand's links have to keep, loses one of 3e7 packets of 4 KiB. */
#define LOSS_SHARE 1e-4
#define LOSS_SHARE_SOFT 1e-2 /* soft-RoCE sends again when its timer is late on a busy CPU: 8e-4 of healthy ones */
#define LOSS_LEAST 8

#define CASE_TEXT (JUDGE_TEXT + 16)

typedef bool is_bad(const struct rdma_measured *m);

static bool bad_data(const struct rdma_measured *m)
{
	return m->result.wrong > 0;
}

static bool bad_link(const struct rdma_measured *m)
{
	return m->result.status >= RDMA_FAILED;
}

/* Of a run that was cut: a process that does not answer any more may have been stopped with it. */
static bool bad_link_alone(const struct rdma_measured *m)
{
	return bad_link(m) && m->result.status != RDMA_LANE_LOST;
}

static bool bad_loss(const struct rdma_measured *m)
{
	double share = m->soft ? LOSS_SHARE_SOFT : LOSS_SHARE;

	return m->result.status == RDMA_DONE && m->lost >= LOSS_LEAST && m->lost > share * m->packets;
}

static bool bad_bandwidth(const struct rdma_measured *m)
{
	return m->judged.failed && m->of.measure == RDMA_BANDWIDTH;
}

static bool bad_rate(const struct rdma_measured *m)
{
	return m->judged.failed && m->of.measure == RDMA_RATE;
}

static bool bad_latency(const struct rdma_measured *m)
{
	return m->judged.failed && m->of.measure == RDMA_LATENCY;
}

static bool of_measure(is_bad *is, const struct rdma_measured *m)
{
	return (is != bad_bandwidth || m->of.measure == RDMA_BANDWIDTH) &&
	       (is != bad_rate || m->of.measure == RDMA_RATE) && (is != bad_latency || m->of.measure == RDMA_LATENCY);
}

/* The link between two ports, either way, has any such case. */
static bool link_bad(const struct rdma_run *run, int a, int b, is_bad *is)
{
	for (int i = 0; i < run->n_measured; i++) {
		const struct rdma_measured *m = &run->measured[i];

		if (((m->from == a && m->to == b) || (m->from == b && m->to == a)) && is(m))
			return true;
	}
	return false;
}

static bool link_tried(const struct rdma_run *run, int a, int b, is_bad *is)
{
	for (int i = 0; i < run->n_measured; i++) {
		const struct rdma_measured *m = &run->measured[i];

		if (((m->from == a && m->to == b) || (m->from == b && m->to == a)) && of_measure(is, m))
			return true;
	}
	return false;
}

/* All its links to at least two other ports are bad, and there is one between others that is not: it is the port. */
static bool port_bad(const struct rdma_run *run, int port, is_bad *is)
{
	int tried = 0, bad = 0, n = run->fleet.n_ports;
	bool others_good = false;

	for (int i = 0; i < n; i++) {
		if (i == port || !link_tried(run, port, i, is))
			continue;
		tried++;
		bad += link_bad(run, port, i, is);
	}
	if (tried < 2 || bad < tried)
		return false;
	for (int i = 0; i < run->n_measured && !others_good; i++) {
		const struct rdma_measured *m = &run->measured[i];

		others_good = m->from != port && m->to != port && m->from != m->to && of_measure(is, m) &&
			      !link_bad(run, m->from, m->to, is);
	}
	return others_good;
}

static const struct rdma_measured *port_first(const struct rdma_run *run, int port, is_bad *is)
{
	for (int i = 0; i < run->n_measured; i++)
		if ((run->measured[i].from == port || run->measured[i].to == port) && is(&run->measured[i]))
			return &run->measured[i];
	return NULL;
}

/* --- what to say of one case --- */

static void data_say(const struct rdma_measured *m, char *text, size_t size)
{
	const struct rdma_result *r = &m->result;

	snprintf(text, size,
		 "%" PRIu64 " of %" PRIu64 " bytes arrived wrong, the first at %" PRIu64 ": 0x%02" PRIx64
		 " in place of 0x%02" PRIx64,
		 r->wrong, r->checked, r->wrong_at, r->got, r->want);
}

static void link_say(const struct rdma_measured *m, char *text, size_t size)
{
	if (m->small_passes)
		snprintf(text, size,
			 "packets of %d bytes do not get through and those of 256 do: the MTU of the network "
			 "between them is smaller than the ports' (%s)",
			 m->of.mtu, m->result.text);
	else
		snprintf(text, size, "%s", m->result.text);
}

static void loss_say(const struct rdma_measured *m, char *text, size_t size)
{
	char rose[120];

	counters_text(m->result.counters, COUNTER_LOSS, rose, sizeof(rose));
	snprintf(text, size, "%" PRIu64 " packets lost or sent again of %" PRIu64 "%s%s", m->lost, m->packets,
		 *rose ? ": " : "", rose);
}

static void rate_say(const struct rdma_measured *m, char *text, size_t size)
{
	char judged[JUDGE_TEXT];

	snprintf(text, size, "%s %s", rdma_measure_names[m->of.measure],
		 judgement_text(&m->judged, rdma_better(m), rdma_measure_units[m->of.measure], judged, sizeof(judged)));
}

struct rule {
	is_bad *is;
	enum fault_kind kind;
	void (*say)(const struct rdma_measured *m, char *text, size_t size);
	const char *what; /* of a port all of whose links have it */
	const char *gpu;  /* of a GPU to whose memory all ports' links have it; NULL: not of memory */
};

static const struct rule rules[] = {
	{ bad_data, FAULT_CORRUPT, data_say, "data are wrong over each of its links", "data of its memory are wrong" },
	{ bad_link, FAULT_DEAD, link_say, "none of its links to other ports works", "its memory is not reached" },
	{ bad_loss, FAULT_LOSS, loss_say, "packets are lost over each of its links", NULL },
	{ bad_bandwidth, FAULT_SLOW, rate_say, "each of its links is slow", "the way to its memory is slow" },
	{ bad_rate, FAULT_SLOW, rate_say, "the message rate of each of its links is low", NULL },
	{ bad_latency, FAULT_SLOW, rate_say, "the latency of each of its links is high", NULL },
};

static const struct rule partial_rules[] = {
	{ bad_data, FAULT_CORRUPT, data_say, "data are wrong over each of its links", "data of its memory are wrong" },
	{ bad_link_alone, FAULT_DEAD, link_say, "none of its links to other ports works", "its memory is not reached" },
	{ bad_loss, FAULT_LOSS, loss_say, "packets are lost over each of its links", NULL },
};

static void port_fault(struct rdma_run *run, const struct rule *rule, int port)
{
	const struct rdma_measured *m = port_first(run, port, rule->is);
	char what[64], link[340], text[CASE_TEXT];

	if (!m)
		return;
	rule->say(m, text, sizeof(text));
	rdma_case_fault(run, rule->kind, port, m, "%s, and not those between others; the first, %s, %s: %s", rule->what,
			rdma_link_name(run, m, link, sizeof(link)), rdma_case_name(&m->of, what, sizeof(what)), text);
}

/* --- memory of a GPU --- */

static int host_of(const struct rdma_run *run, const struct rdma_measured *m)
{
	return run->fleet.ports[m->to].port.host;
}

static bool is_same_memory(const struct rdma_run *run, const struct rdma_measured *a, const struct rdma_measured *b)
{
	return a->of.to.gpu >= 0 && a->of.to.gpu == b->of.to.gpu && host_of(run, a) == host_of(run, b);
}

/* What could have been bad: a rate that nothing bounds could not. */
static bool of_rule(const struct rule *rule, const struct rdma_measured *m)
{
	return of_measure(rule->is, m) && (rule->kind != FAULT_SLOW || m->judged.judged);
}

/* How many ports were tried with that memory, all of them bad with it and none with the host's; 0: it is not the GPU's,
 * or one port alone says so. */
static int gpu_bad(const struct rdma_run *run, const struct rule *rule, const struct rdma_measured *m)
{
	bool is_tried[RDMA_PORTS_MAX] = { false }, bad[RDMA_PORTS_MAX] = { false };
	int n_tried = 0, n_bad = 0;

	for (int i = 0; i < run->n_measured && rule->gpu && m->of.to.gpu >= 0; i++) {
		const struct rdma_measured *other = &run->measured[i];

		if (other->of.to.gpu < 0 && host_of(run, other) == host_of(run, m) && rule->is(other))
			return 0;
		if (!is_same_memory(run, m, other) || !of_rule(rule, other))
			continue;
		n_tried += !is_tried[other->to];
		is_tried[other->to] = true;
		n_bad += rule->is(other) && !bad[other->to];
		bad[other->to] |= rule->is(other);
	}
	return n_tried > 1 && n_bad == n_tried ? n_tried : 0;
}

static bool memory_said(const struct rdma_run *run, const struct rule *rule, int i)
{
	for (int j = 0; j < i; j++)
		if (is_same_memory(run, &run->measured[j], &run->measured[i]) && rule->is(&run->measured[j]))
			return true;
	return false;
}

static void gpu_fault(struct rdma_run *run, const struct rule *rule, int i, int n_ports)
{
	const struct rdma_measured *m = &run->measured[i];
	char what[64], link[340], text[CASE_TEXT];

	if (memory_said(run, rule, i))
		return;
	rule->say(m, text, sizeof(text));
	rdma_gpu_fault(run, rule->kind, m, "%s from each of the %d ports that were tried; the first, %s, %s: %s",
		       rule->gpu, n_ports, rdma_link_name(run, m, link, sizeof(link)),
		       rdma_case_name(&m->of, what, sizeof(what)), text);
}

/* The same link in the same way is said once, whatever else was tried over it. */
static bool said_before(const struct rdma_run *run, const struct rule *rule, int i)
{
	for (int j = 0; j < i; j++)
		if (run->measured[j].from == run->measured[i].from && run->measured[j].to == run->measured[i].to &&
		    rule->is(&run->measured[j]))
			return true;
	return false;
}

static void link_fault(struct rdma_run *run, const struct rule *rule, int i)
{
	const struct rdma_measured *m = &run->measured[i];
	char what[64], link[340], text[CASE_TEXT], place[40] = "";

	rule->say(m, text, sizeof(text));
	if (m->shape == SHAPE_LOOPBACK)
		rdma_place_name(&m->of.to, place, sizeof(place));
	rdma_case_fault(run, rule->kind, -1, m, "%s%s%s, %s, %s: %s", rdma_link_name(run, m, link, sizeof(link)),
			*place ? ", " : "", place, rdma_shape_names[m->shape],
			rdma_case_name(&m->of, what, sizeof(what)), text);
}

/* What is slow because packets are lost is said as loss. */
static bool explained(const struct rdma_run *run, const struct rule *rule, const struct rdma_measured *m)
{
	return rule->kind == FAULT_SLOW && link_bad(run, m->from, m->to, bad_loss);
}

/* It was up, and does not answer at the end: its links are dead for that. */
static bool is_gone(const struct rdma_run *run, int port)
{
	return run->is_usable[port] && !run->fleet.ports[port].end.state;
}

static void rule_apply(struct rdma_run *run, const struct rule *rule)
{
	bool whole[RDMA_PORTS_MAX] = { false };

	for (int i = 0; i < run->fleet.n_ports; i++) {
		whole[i] = !(rule->is == bad_link && is_gone(run, i)) && port_bad(run, i, rule->is);
		if (whole[i] && !(rule->kind == FAULT_SLOW && port_bad(run, i, bad_loss)))
			port_fault(run, rule, i);
	}
	for (int i = 0; i < run->n_measured; i++) {
		const struct rdma_measured *m = &run->measured[i];
		bool of_port = (m->from != m->to && (whole[m->from] || whole[m->to])) ||
			       (rule->is == bad_link && (is_gone(run, m->from) || is_gone(run, m->to)));
		int n_ports;

		if (!rule->is(m) || of_port || explained(run, rule, m))
			continue;
		n_ports = gpu_bad(run, rule, m);
		if (n_ports)
			gpu_fault(run, rule, i, n_ports);
		else if (!said_before(run, rule, i))
			link_fault(run, rule, i);
	}
}

/* --- counters of the whole run --- */

static bool any_excused(const struct rdma_run *run, int port)
{
	for (int i = 0; i < run->n_measured; i++)
		if (run->measured[i].is_excused && (run->measured[i].from == port || run->measured[i].to == port))
			return true;
	return false;
}

static void counters_judge(struct rdma_run *run, int i)
{
	const struct fleet_port *p = &run->fleet.ports[i];
	uint64_t rose[PORT_COUNTERS];
	char text[200], name[160];

	counters_since(p->begin.counters, p->end.counters, rose);
	if (any_excused(run, i) && rose[PORT_RETRIES_EXCEEDED] != PORT_NOT_COUNTED)
		rose[PORT_RETRIES_EXCEEDED] = 0;
	if (is_gone(run, i))
		rdma_fault(run, FAULT_PORT, i,
			   p->lost ? "its process or its host does not answer any more: log in there, and look"
				   : "it does not answer any more: look at the kernel log (dmesg), then reset it");
	if (run->is_usable[i] && p->end.state && p->end.state != VERBS_PORT_ACTIVE)
		rdma_fault(run, FAULT_PORT, i, "it went down in the middle of the test: look at cable and switch port");
	if (counters_sum(rose, COUNTER_HARD) && !port_first(run, i, bad_link))
		rdma_fault(run, FAULT_LOSS, i, "errors that no healthy link has: %s",
			   counters_text(rose, COUNTER_HARD, text, sizeof(text)));
	if (*counters_text(rose, COUNTER_NOTE, text, sizeof(text)))
		rdma_note(run, "%s: the network or the receiver slowed it down: %s",
			  rdma_port_name(run, i, name, sizeof(name)), text);
}

/* For one reason, on one host. */
static bool absent_alike(const struct rdma_run *run, const struct rdma_measured *a, const struct rdma_measured *b)
{
	return a->result.status == RDMA_ABSENT && b->result.status == RDMA_ABSENT &&
	       run->fleet.ports[a->to].port.host == run->fleet.ports[b->to].port.host &&
	       !strcmp(a->result.text, b->result.text);
}

static bool absent_before(const struct rdma_run *run, int i)
{
	for (int j = 0; j < i; j++)
		if (absent_alike(run, &run->measured[j], &run->measured[i]))
			return true;
	return false;
}

/* A lost port is a fault by its failed link; what was left out for it is none of its own. */
static void absent_note(struct rdma_run *run, int i)
{
	const struct rdma_measured *m = &run->measured[i];
	bool is_counted[RDMA_PORTS_MAX] = { false };
	char link[340], others[32] = "";
	int n = 0;

	if (m->result.status != RDMA_ABSENT || absent_before(run, i))
		return;
	for (int j = i; j < run->n_measured; j++)
		if (absent_alike(run, m, &run->measured[j]) && !is_counted[run->measured[j].to]) {
			is_counted[run->measured[j].to] = true;
			n++;
		}
	if (n > 1)
		snprintf(others, sizeof(others), " and %d other%s", n - 1, n > 2 ? "s" : "");
	rdma_note(run, "%s: %s%s: %s", m->is_excused ? "no fault" : "not tested",
		  rdma_link_name(run, m, link, sizeof(link)), others, m->result.text);
}

static void unsteady_note(struct rdma_run *run, const struct rdma_measured *m)
{
	char link[340], what[64], text[CASE_TEXT];

	rate_say(m, text, sizeof(text));
	rdma_note(run, "%s, %s, %s: %s", rdma_link_name(run, m, link, sizeof(link)), rdma_shape_names[m->shape],
		  rdma_case_name(&m->of, what, sizeof(what)), text);
}

void links_judge(struct rdma_run *run)
{
	fabrics_part(run);
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		rule_apply(run, &rules[i]);
	for (int i = 0; i < run->n_measured; i++) {
		const struct rdma_measured *m = &run->measured[i];
		char link[340], what[64];

		absent_note(run, i);
		if (judgement_is_unsteady(&m->judged))
			unsteady_note(run, m);
		if (m->result.status == RDMA_DONE && !m->result.wrong && !(m->result.value > 0))
			rdma_fault(run, FAULT_MISSING, m->from, "%s, %s was not measured",
				   rdma_link_name(run, m, link, sizeof(link)),
				   rdma_case_name(&m->of, what, sizeof(what)));
	}
	for (int i = 0; i < run->fleet.n_ports; i++)
		counters_judge(run, i);
}

static void lost_note(struct rdma_run *run, const struct rdma_measured *m)
{
	char link[340];

	if (m->result.status == RDMA_LANE_LOST)
		rdma_note(run, "not judged, as the run was stopped: %s: %s", rdma_link_name(run, m, link, sizeof(link)),
			  m->result.text);
}

void links_judge_partial(struct rdma_run *run)
{
	fabrics_part(run);
	for (size_t i = 0; i < sizeof(partial_rules) / sizeof(partial_rules[0]); i++)
		rule_apply(run, &partial_rules[i]);
	for (int i = 0; i < run->n_measured; i++) {
		absent_note(run, i);
		lost_note(run, &run->measured[i]);
	}
}
