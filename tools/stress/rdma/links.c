/* SPDX-License-Identifier: Apache-2.0
 *
 * links.c - a case on the links of a round: both ends of each opened, connected, checked, measured, step by step, all
 * links side by side.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/stress/rdma/rdma_run.h"

#define STEP_NS 120000000000ull /* to open and connect: a driver waits for neighbours, a busy host for a CPU */
#define FINISH_NS 1000000000ull /* for a result that is on the way */
#define SMALL_PACKET 256
#define SMALL_LIMIT_NS 2000000000ull /* a link that carries small packets shows it at once */

const char *rdma_port_name(const struct rdma_run *run, int port, char *text, size_t size)
{
	return fleet_port_name(&run->fleet, port, text, size);
}

const char *rdma_link_name(const struct rdma_run *run, const struct rdma_measured *m, char *text, size_t size)
{
	char from[160], to[160];

	rdma_port_name(run, m->from, from, sizeof(from));
	if (m->from == m->to)
		snprintf(text, size, "%s to itself", from);
	else
		snprintf(text, size, "%s to %s", from, rdma_port_name(run, m->to, to, sizeof(to)));
	return text;
}

struct trial {
	struct rdma_measured m;
	struct rdma_address own[2];
	struct rdma_result ends[2];
	bool on; /* nothing has failed yet */
};

static int port_of(const struct trial *t, int role)
{
	return role == ROLE_FROM ? t->m.from : t->m.to;
}

static void trial_fail(struct trial *t, int status, const char *text)
{
	if (t->on) {
		t->m.result.status = status;
		t->m.result.value = NAN;
		snprintf(t->m.result.text, sizeof(t->m.result.text), "%s", text);
	}
	t->on = false;
}

static void trial_lost(const struct rdma_run *run, struct trial *t, int role)
{
	char name[160], text[192];

	snprintf(text, sizeof(text), "%.120s: its process or its host does not answer",
		 rdma_port_name(run, port_of(t, role), name, sizeof(name)));
	trial_fail(t, run->fleet.stopped ? RDMA_HUNG : RDMA_LANE_LOST, text);
}

static void say(struct rdma_run *run, struct trial *t, int role, enum wire_type type, const void *body, uint32_t bytes)
{
	if (t->on && !lane_say(&run->fleet, port_of(t, role), role, type, body, bytes))
		trial_lost(run, t, role);
}

static bool hear(struct rdma_run *run, struct trial *t, int role, enum wire_type type, void *body, size_t bytes,
		 uint64_t limit_ns)
{
	if (t->on && !lane_hear(&run->fleet, port_of(t, role), role, type, body, bytes, limit_ns))
		trial_lost(run, t, role);
	return t->on;
}

/* --- steps, each on all links --- */

static void all_open(struct rdma_run *run, struct trial *trials, int n)
{
	for (int i = 0; i < 2 * n; i++)
		say(run, &trials[i / 2], i % 2, WIRE_OPEN, &trials[i / 2].m.of, sizeof(struct rdma_case));
	for (int i = 0; i < 2 * n; i++) {
		struct trial *t = &trials[i / 2];
		struct wire_opened opened = { .status = RDMA_DONE };
		bool was_on = t->on;

		/* both ends answer, whatever the first one says */
		if (was_on &&
		    !lane_hear(&run->fleet, port_of(t, i % 2), i % 2, WIRE_OPENED, &opened, sizeof(opened), STEP_NS))
			trial_lost(run, t, i % 2);
		else if (was_on && opened.status)
			t->m.result.status = opened.status;
		if (was_on && t->on && opened.status)
			snprintf(t->m.result.text, sizeof(t->m.result.text), "%s", opened.text);
		t->own[i % 2] = opened.own;
		if (i % 2 && t->on && t->m.result.status)
			t->on = false;
	}
}

/* Two Ethernet ports of one host: without these settings Linux answers no ARP request of its own. */
static bool needs_local(const struct rdma_run *run, const struct trial *t)
{
	const struct rdma_port *from = &run->fleet.ports[t->m.from].port, *to = &run->fleet.ports[t->m.to].port;

	if (from->host != to->host || from->link_layer != VERBS_LINK_ETHERNET || to->link_layer != VERBS_LINK_ETHERNET)
		return false;
	if (t->m.from == t->m.to || (*from->netdev && !strcmp(from->netdev, to->netdev)))
		return false;
	return !from->accepts_local || !to->accepts_local;
}

static void connect_failed(const struct rdma_run *run, struct trial *t, const struct wire_ready *ready)
{
	t->m.is_excused = needs_local(run, t);
	if (t->m.is_excused)
		trial_fail(t, RDMA_ABSENT,
			   "this host has no way between two ports of its own: it needs "
			   "net.ipv4.conf.NETDEV.accept_local=1 of both, and a route by each port's own netdev (policy "
			   "routing)");
	else
		trial_fail(t, ready->status, ready->text);
}

static void all_connect(struct rdma_run *run, struct trial *trials, int n)
{
	struct wire_ready ready[2];

	for (int i = 0; i < 2 * n; i++)
		say(run, &trials[i / 2], i % 2, WIRE_CONNECT, &trials[i / 2].own[!(i % 2)],
		    sizeof(struct rdma_address));
	for (int i = 0; i < n; i++) {
		struct trial *t = &trials[i];

		for (int role = 0; role < 2; role++)
			hear(run, t, role, WIRE_CONNECTED, &ready[role], sizeof(ready[role]), STEP_NS);
		for (int role = 0; role < 2 && t->on; role++)
			if (ready[role].status)
				connect_failed(run, t, &ready[role]);
	}
}

static uint64_t packets_of(const struct rdma_measured *m, const struct rdma_result *end)
{
	uint64_t sent = end->counters[PORT_SENT_PACKETS];

	return sent != PORT_NOT_COUNTED && sent ? sent : end->messages * (1 + m->of.bytes / 1024);
}

static void ends_merge(struct trial *t)
{
	struct rdma_result *from = &t->ends[ROLE_FROM], *to = &t->ends[ROLE_TO], *r = &t->m.result;
	const struct rdma_result *wrong = to->wrong ? to : from;
	uint64_t checked = r->checked + from->checked + to->checked;
	bool one_port = t->m.from == t->m.to; /* both ends read the same counters */

	t->m.lost +=
		counters_sum(from->counters, COUNTER_LOSS) + (one_port ? 0 : counters_sum(to->counters, COUNTER_LOSS));
	t->m.packets += packets_of(&t->m, from) + (one_port ? 0 : packets_of(&t->m, to));
	if (from->status || to->status) {
		const struct rdma_result *bad = from->status ? from : to;

		r->completion = bad->completion;
		trial_fail(t, bad->status, bad->text);
	} else if (!r->wrong) {
		*r = *from;
		r->wrong = wrong->wrong;
		r->wrong_at = wrong->wrong_at;
		r->want = wrong->want;
		r->got = wrong->got;
	}
	r->checked = checked;
}

/* What a signal to one of the hosts cut is no failure of the link. */
static void ends_take(struct rdma_run *run, struct trial *t)
{
	for (int role = 0; role < 2; role++)
		if (t->ends[role].status == RDMA_STOPPED)
			fleet_stop(&run->fleet, run->fleet.ports[port_of(t, role)].port.host);
	ends_merge(t);
}

/* The word behind its result to the end that posts of trial i; once the run is stopped to all that still post, so that
 * they end together. Returns how many have it. */
static int froms_finish(struct rdma_run *run, struct trial *trials, int n, int i, int finished)
{
	int until = run->fleet.stopped ? n : i + 1;

	for (; finished < until; finished++)
		say(run, &trials[finished], ROLE_FROM, WIRE_FINISH, NULL, 0);
	return finished;
}

static uint64_t run_limit(const struct rdma_case *c)
{
	return STEP_NS + c->time_ns + 4 * c->limit_ns;
}

static void all_run(struct rdma_run *run, struct trial *trials, int n, int32_t phase)
{
	struct wire_ready ready;
	int finished = 0;

	for (int i = 0; i < 2 * n; i++)
		say(run, &trials[i / 2], i % 2, WIRE_RUN, &phase, sizeof(phase));
	for (int i = 0; i < 2 * n; i++)
		hear(run, &trials[i / 2], i % 2, WIRE_READY, &ready, sizeof(ready), STEP_NS);
	for (int role = ROLE_TO; role >= ROLE_FROM; role--)
		for (int i = 0; i < n; i++)
			say(run, &trials[i], role, WIRE_GO, NULL, 0);
	for (int i = 0; i < n; i++) {
		struct trial *t = &trials[i];

		if (t->on)
			lane_wait(&run->fleet, t->m.from, ROLE_FROM, run_limit(&t->m.of));
		finished = froms_finish(run, trials, n, i, finished);
		hear(run, t, ROLE_FROM, WIRE_MEASURED, &t->ends[ROLE_FROM], sizeof(t->ends[0]), FINISH_NS);
		say(run, t, ROLE_TO, WIRE_FINISH, NULL, 0);
	}
	for (int i = 0; i < n; i++)
		if (hear(run, &trials[i], ROLE_TO, WIRE_MEASURED, &trials[i].ends[ROLE_TO], sizeof(trials[i].ends[0]),
			 STEP_NS))
			ends_take(run, &trials[i]);
}

static void all_close(struct rdma_run *run, struct trial *trials, int n)
{
	for (int i = 0; i < 2 * n; i++)
		lane_say(&run->fleet, port_of(&trials[i / 2], i % 2), i % 2, WIRE_CLOSE, NULL, 0);
	for (int i = 0; i < 2 * n; i++)
		lane_hear(&run->fleet, port_of(&trials[i / 2], i % 2), i % 2, WIRE_CLOSED, NULL, 0, STEP_NS);
}

/* False: a signal cut it, and what it has is not whole. */
static bool all_try(struct rdma_run *run, struct trial *trials, int n, bool checks, bool measures)
{
	bool whole;

	all_open(run, trials, n);
	all_connect(run, trials, n);
	if (checks)
		all_run(run, trials, n, PHASE_CHECK);
	if (measures && !run->fleet.stopped)
		all_run(run, trials, n, PHASE_MEASURE);
	whole = !run->fleet.stopped;
	all_close(run, trials, n);
	return whole;
}

/* --- what came of it --- */

/* Large packets are lost and small ones are not: the network's MTU is smaller than the ports'. */
static bool small_passes(struct rdma_run *run, const struct rdma_measured *m)
{
	struct trial t = { .m = *m, .on = true };

	t.m.result = (struct rdma_result){ .status = RDMA_DONE };
	t.m.of.mtu = SMALL_PACKET;
	if (t.m.of.limit_ns > SMALL_LIMIT_NS)
		t.m.of.limit_ns = SMALL_LIMIT_NS;
	t.m.of.measure = RDMA_BANDWIDTH;
	return all_try(run, &t, 1, true, false) && t.on && t.m.result.status == RDMA_DONE && !t.m.result.wrong;
}

/* Of a round that a signal cut only wrong data stay: they were wrong before. */
static bool cut_take(struct rdma_measured *m)
{
	if (!m->result.wrong)
		return false;
	m->result.status = RDMA_STOPPED;
	m->result.value = NAN;
	snprintf(m->result.text, sizeof(m->result.text), "stopped by a signal");
	return true;
}

static void measured_add(struct rdma_run *run, const struct rdma_measured *m)
{
	if (run->n_measured == run->room) {
		run->room = run->room ? 2 * run->room : 64;
		run->measured = realloc(run->measured, run->room * sizeof(*run->measured));
		if (!run->measured)
			abort();
	}
	run->measured[run->n_measured++] = *m;
	run->is_measured[m->from] |= m->result.status == RDMA_DONE;
	run->is_measured[m->to] |= m->result.status == RDMA_DONE;
	rdma_report_measured(run, m);
}

bool link_has_failed(const struct rdma_run *run, int from, int to)
{
	for (int i = 0; i < run->n_measured; i++) {
		const struct rdma_measured *m = &run->measured[i];

		if (m->from == from && m->to == to && (m->result.status >= RDMA_FAILED || m->is_excused))
			return true;
	}
	return false;
}

static int least_mtu(const struct rdma_run *run, int from, int to)
{
	int a = run->fleet.ports[from].port.mtu, b = run->fleet.ports[to].port.mtu;

	return a < b ? a : b;
}

/* False: the link has failed before, or one of its ports is gone. */
static bool trial_make(const struct rdma_run *run, struct trial *t, const struct shape_link *link,
		       const struct rdma_case *of, const struct rdma_place *place)
{
	const struct fleet_port *from = &run->fleet.ports[link->from], *to = &run->fleet.ports[link->to];

	if (link_has_failed(run, link->from, link->to) || from->lost || to->lost)
		return false;
	*t = (struct trial){ .m = { .from = link->from, .to = link->to, .of = *of }, .on = true };
	t->m.soft = from->port.soft || to->port.soft;
	t->m.of.to = *place;
	t->m.of.mtu = least_mtu(run, link->from, link->to);
	return true;
}

static struct trial *trials_new(int n)
{
	struct trial *trials = calloc(n, sizeof(*trials));

	if (!trials)
		abort();
	return trials;
}

void links_run(struct rdma_run *run, enum rdma_shape shape, const struct shape_link *links, int n,
	       const struct rdma_case *of, const struct rdma_place *places)
{
	struct trial *trials = trials_new(n);
	int n_on = 0;
	bool whole;

	for (int i = 0; i < n; i++) {
		struct trial *t = &trials[n_on];

		if (!trial_make(run, t, &links[i], of, &places[i]))
			continue;
		t->m.shape = shape;
		t->m.round = run->n_rounds;
		t->m.of.seed = of->seed + 131071ull * i;
		n_on++;
	}
	run->n_rounds++;
	whole = all_try(run, trials, n_on, of->measure == RDMA_BANDWIDTH, true);
	for (int i = 0; i < n_on; i++) {
		struct rdma_measured *m = &trials[i].m;

		if (!whole && !cut_take(m))
			continue;
		/* soft-RoCE takes 7 retries for endless ones, and hangs */
		if ((m->result.completion == VERBS_WC_RETRY_EXCEEDED || m->result.status == RDMA_HUNG) &&
		    m->from != m->to && !run->fleet.stopped)
			m->small_passes = small_passes(run, m);
		measured_add(run, m);
	}
	free(trials);
}

/* What else a turn showed, wrong data or a link that failed, is kept beside the first. */
static void turn_take(struct rdma_run *run, int at, const struct rdma_measured *turn)
{
	struct rdma_measured *m = &run->measured[at];

	m->lost += turn->lost;
	m->packets += turn->packets;
	if (judgement_is_open(&m->judged) && turn->result.status == RDMA_DONE)
		judgement_turn(&m->judged, m->of.measure == RDMA_LATENCY ? BETTER_LESS : BETTER_MORE,
			       turn->result.value);
	if (turn->result.status != RDMA_DONE || turn->result.wrong)
		measured_add(run, turn);
}

void links_again(struct rdma_run *run, int round)
{
	struct trial *trials = trials_new(run->n_measured);
	int *at = calloc(run->n_measured, sizeof(*at)), n = 0;
	bool whole = true;

	if (!at)
		abort();
	for (int i = 0; i < run->n_measured; i++) {
		const struct rdma_measured *m = &run->measured[i];
		const struct shape_link link = { m->from, m->to };

		if (m->round != round || !trial_make(run, &trials[n], &link, &m->of, &m->of.to))
			continue;
		trials[n].m.shape = m->shape;
		trials[n].m.round = -1;
		trials[n].m.of.seed = ~m->of.seed;
		at[n++] = i;
	}
	if (n)
		whole = all_try(run, trials, n, trials[0].m.of.measure == RDMA_BANDWIDTH, true);
	for (int i = 0; i < n; i++)
		if (whole || cut_take(&trials[i].m))
			turn_take(run, at[i], &trials[i].m);
	free(trials);
	free(at);
}

void ports_count(struct rdma_run *run, bool end)
{
	for (int i = 0; i < run->fleet.n_ports; i++) {
		struct fleet_port *p = &run->fleet.ports[i];
		struct wire_counted *to = end ? &p->end : &p->begin;

		if (lane_say(&run->fleet, i, ROLE_FROM, WIRE_COUNT, NULL, 0))
			lane_hear(&run->fleet, i, ROLE_FROM, WIRE_COUNTED, to, sizeof(*to), STEP_NS);
		if (p->lost)
			memset(to->counters, 0xff, sizeof(to->counters)); /* PORT_NOT_COUNTED */
	}
}
