/* SPDX-License-Identifier: Apache-2.0
 *
 * agent.c - see agent.h. Hosts report once a second, each at its own part of it. What is on its way waits in a ring of
 * short slots.
 */
#include "tools/simcluster/agent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "tools/simcluster/rank_report.h"

#define SLOT_S 0.05
#define SLOTS 1400         /* 70 s: no message is later */
#define READ_BEFORE_S 0.06 /* counters and threads are so old at the most when the message is made */
#define JITTER_S 0.005
#define DAY_S 86400.0
#define ROLLED_OUT_S 20.0 /* an upgrade: all hosts, each without an agent for so long: */
#define GONE_LEAST_S 2.0
#define GONE_MORE_S 7.0
#define CUT_HOSTS 8 /* one in so many is cut off, for */
#define CUT_S 60.0

struct message { /* on its way */
	int host;
	size_t len;
	double at_s;
	struct message *next;
	char data[];
};

struct agent {
	char name[24];
	double turn_s;          /* of a second */
	double host_s;          /* the host's clock at the simulation's 0 */
	double late_s;          /* its messages, all of them */
	uint64_t run, sequence; /* which process of it this is, from 1 */
	bool gone, young;       /* young: it has not found the ranks yet */
	double arrives_s;       /* of the last one: messages of a host keep their order */
};

struct agents {
	const struct cluster *c;
	struct noise noise;
	struct draw draw;
	struct agent *all;
	struct rank_seen *seen;
	struct message *slots[SLOTS];
	double slot_s; /* begin of the slot that comes next */
	size_t slot;
	char *bytes;
	uint64_t n_bytes, n, n_lost;
	const char *boot_id;
};

struct agents *agents_new(const struct cluster *c, const struct noise *n, uint64_t seed)
{
	struct agents *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	*a = (struct agents){ .c = c, .noise = *n, .draw = { seed }, .boot_id = "5e3c1f00-boot" };
	a->all = calloc(c->n_hosts, sizeof(*a->all));
	a->seen = calloc(c->n_ranks, sizeof(*a->seen));
	a->bytes = malloc(REPORT_BYTES_MAX);
	if (!a->all || !a->seen || !a->bytes) {
		agents_free(a);
		return NULL;
	}
	for (int h = 0; h < c->n_hosts; h++) {
		struct agent *one = &a->all[h];

		snprintf(one->name, sizeof(one->name), "node%05d", h);
		one->run = 1;
		one->turn_s = draw_unit(&a->draw);
		one->host_s = draw_between(&a->draw, 1, 40) * DAY_S;
		one->late_s = draw_unit(&a->draw) * (n->skew_s + n->lag_s);
	}
	return a;
}

void agents_free(struct agents *a)
{
	if (!a)
		return;
	for (int i = 0; i < SLOTS; i++)
		for (struct message *m = a->slots[i], *next; m; m = next) {
			next = m->next;
			free(m);
		}
	free(a->all);
	free(a->seen);
	free(a->bytes);
	free(a);
}

void agents_reseed(struct agents *a, uint64_t seed)
{
	a->draw.state = seed;
}

void agents_boot(struct agents *a, const char *boot_id)
{
	a->boot_id = boot_id;
}

void agents_totals(const struct agents *a, uint64_t *ret_bytes, uint64_t *ret_n, uint64_t *ret_lost)
{
	*ret_bytes = a->n_bytes;
	*ret_n = a->n;
	*ret_lost = a->n_lost;
}

/* --- one message --- */

static void head_put(const struct agents *a, const struct agent *one, double now_s, Cluster__NodeReport *r)
{
	*r = (Cluster__NodeReport)CLUSTER__NODE_REPORT__INIT;
	r->has_version = r->has_agent = r->has_sequence = r->has_now_ns = r->has_lost_records = r->has_lost_reports =
		r->has_hang_limit_ns = r->has_busy_limit_ns = 1;
	r->version = REPORT_VERSION;
	r->host = (char *)one->name;
	r->boot_id = (char *)a->boot_id;
	r->agent = one->run;
	r->sequence = one->sequence;
	r->now_ns = (uint64_t)((one->host_s + now_s * (1 + a->noise.drift)) * 1e9);
	r->hang_limit_ns = 1500000000ull;
	r->busy_limit_ns = 90000000000ull;
}

static size_t message_write(struct agents *a, int host, double now_s)
{
	struct rank_parts parts[PER_HOST];
	Cluster__Process *procs[PER_HOST];
	Cluster__Gpu *gpus[PER_HOST];
	Cluster__Finding *findings[PER_HOST];
	Cluster__NodeReport r;
	double at_s = now_s - draw_unit(&a->draw) * READ_BEFORE_S;
	struct read_at read = { a->c, &a->noise, &a->draw, at_s, now_s, a->all[host].host_s };

	if (a->c->step > 1 && read.at_s < a->c->begin_s) /* this step's times alone are known */
		read.at_s = a->c->begin_s;
	a->all[host].sequence++;
	head_put(a, &a->all[host], now_s, &r);
	r.processes = procs;
	r.gpus = gpus;
	r.findings = findings;
	for (int k = 0; k < PER_HOST && !a->all[host].young; k++) {
		int rank = host * PER_HOST + k;

		memset(&parts[k], 0, sizeof(parts[k]));
		if (!rank_report(&read, rank, &a->seen[rank], &parts[k]))
			continue;
		procs[r.n_processes++] = &parts[k].proc;
		if (parts[k].gpu.has_index)
			gpus[r.n_gpus++] = &parts[k].gpu;
		if (parts[k].blocked.kind)
			findings[r.n_findings++] = &parts[k].blocked;
	}
	a->all[host].young = false;
	return report_pack(&r, a->bytes);
}

/* --- on their way --- */

/* When the bus can be reached from this host. */
static double reached_s(const struct agents *a, const struct fault *f, int host, double now_s)
{
	bool cut = f->kind == FAULT_CUT && host < (a->c->n_hosts + CUT_HOSTS - 1) / CUT_HOSTS;

	return cut && now_s >= f->begin_s && now_s < f->begin_s + CUT_S ? f->begin_s + CUT_S : now_s;
}

static int message_send(struct agents *a, const struct fault *f, int host, double now_s)
{
	size_t len = message_write(a, host, now_s), slot;
	struct agent *one = &a->all[host];
	struct message *m;
	double at_s = reached_s(a, f, host, now_s) + one->late_s + draw_exponential(&a->draw, JITTER_S);

	a->n++;
	a->n_bytes += len;
	if (draw_unit(&a->draw) < a->noise.loss) {
		a->n_lost++;
		return 0;
	}
	m = malloc(sizeof(*m) + len);
	if (!m)
		return -ENOMEM;
	one->arrives_s = at_s > one->arrives_s ? at_s : one->arrives_s + 1e-6;
	slot = (size_t)((one->arrives_s - a->slot_s) / SLOT_S);
	slot = (a->slot + (slot < SLOTS - 1 ? slot : SLOTS - 1)) % SLOTS;
	m->host = host;
	m->len = len;
	m->at_s = one->arrives_s;
	memcpy(m->data, a->bytes, len);
	m->next = a->slots[slot];
	a->slots[slot] = m;
	return 0;
}

static int arrival_cmp(const void *x, const void *y)
{
	const struct message *a = *(const struct message *const *)x, *b = *(const struct message *const *)y;

	return a->at_s < b->at_s ? -1 : a->at_s > b->at_s;
}

/* All of the next slot, in their order; at the slot's end none of it is left. */
static int slot_deliver(struct agents *a, deliver *each, void *to)
{
	struct message *list = a->slots[a->slot], **all, *m;
	size_t n = 0, i = 0;
	int err = 0;

	for (m = list; m; m = m->next)
		n++;
	all = calloc(n + 1, sizeof(struct message *));
	if (!all)
		return -ENOMEM;
	for (m = list; m; m = m->next)
		all[i++] = m;
	qsort(all, n, sizeof(struct message *), arrival_cmp);
	for (i = 0; i < n; i++) {
		struct delivery d = { all[i]->at_s, all[i]->host, a->all[all[i]->host].name, all[i]->data,
				      all[i]->len };

		err = err ? err : each(to, &d);
		free(all[i]);
	}
	free(all);
	a->slots[a->slot] = NULL;
	a->slot = (a->slot + 1) % SLOTS;
	a->slot_s += SLOT_S;
	return err;
}

static bool has_turn(const struct agent *one, double from_s, double to_s, double *ret_s)
{
	*ret_s = floor(from_s) + one->turn_s;
	if (*ret_s < from_s)
		*ret_s += 1;
	return *ret_s < to_s;
}

/* One of [0, 1) for a host, without a draw: what else is drawn stays as it is. */
static double unit_of(int host, uint64_t what)
{
	return (double)(hash_mix((uint64_t)host, what) >> 11) * 0x1p-53;
}

/* All agents are upgraded, this one now. */
static bool is_upgraded(const struct agents *a, const struct fault *f, int host, double now_s)
{
	double after_s = f->kind == FAULT_UPGRADE ? 0 : a->noise.upgrade_s;
	double from_s = f->begin_s + after_s + ROLLED_OUT_S * unit_of(host, 1);

	return (after_s > 0 || f->kind == FAULT_UPGRADE) && now_s >= from_s &&
	       now_s < from_s + GONE_LEAST_S + GONE_MORE_S * unit_of(host, 2);
}

static bool is_silent(const struct agents *a, const struct fault *f, int host, double now_s)
{
	if (a->noise.late_s > 0 && now_s < f->begin_s + a->noise.late_s)
		return true;
	if (is_upgraded(a, f, host, now_s))
		return true;
	return f->rank >= 0 && host == f->rank / PER_HOST && now_s >= f->silent_s && now_s < f->spoken_s;
}

/* Another process of it, or that of a host in its place: its sequence begins anew, and it has seen nothing before; the
 * kernel's totals go on. */
static void agent_begin(struct agents *a, const struct fault *f, int host)
{
	struct agent *one = &a->all[host];

	if (f->kind == FAULT_REPLACE)
		snprintf(one->name, sizeof(one->name), "spare%05d", host);
	one->gone = false;
	one->young = true;
	one->run++;
	one->sequence = 0;
	for (int k = 0; k < PER_HOST; k++) {
		struct rank_seen *seen = &a->seen[host * PER_HOST + k];

		memset(seen->comms, 0, sizeof(seen->comms));
		seen->read_s = seen->before_s = 0;
	}
}

int agents_run(struct agents *a, const struct fault *f, double from_s, double to_s, deliver *each, void *to)
{
	int err = 0;

	for (int h = 0; h < a->c->n_hosts && !err; h++) {
		double now_s;

		if (!has_turn(&a->all[h], from_s, to_s, &now_s) || now_s < READ_BEFORE_S)
			continue;
		if (is_silent(a, f, h, now_s)) {
			a->all[h].gone = true;
			continue;
		}
		if (a->all[h].gone)
			agent_begin(a, f, h);
		err = message_send(a, f, h, now_s);
	}
	while (!err && a->slot_s + SLOT_S <= to_s + 1e-9)
		err = slot_deliver(a, each, to);
	return err;
}
