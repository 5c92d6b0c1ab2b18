/* SPDX-License-Identifier: Apache-2.0
 *
 * judge.c - see judge.h. There is no bus: leases and the log of incidents are not what is judged here.
 */
#include "tools/simcluster/judge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cluster/report.h"
#include "hub/job.h"

#define WALL_NS 1790000000000000000ull /* of the bus at the simulation's 0 */

struct last {
	void *data;
	size_t len, cap;
	double at_s;
};

struct judge {
	struct hosts hosts;
	struct hub_job *job;
	struct verdict *all;
	size_t n, cap;
	struct last *last;
	int n_hosts;
	double messages_s, ticks_s, longest_s;
};

struct listener {
	struct sink base;
	struct judge *judge;
};

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t wall_ns(double s)
{
	return WALL_NS + (uint64_t)(s * 1e9);
}

static double sim_s(uint64_t ns)
{
	return ns ? ((double)(int64_t)(ns - WALL_NS)) * 1e-9 : INFINITY;
}

/* --- verdicts --- */

static struct verdict *verdict_of(struct judge *j, uint64_t number)
{
	size_t cap = j->cap ? 2 * j->cap : 64;
	struct verdict *grown;

	for (size_t i = j->n; i > 0; i--)
		if (j->all[i - 1].number == number)
			return &j->all[i - 1];
	if (j->n == j->cap) {
		grown = realloc(j->all, cap * sizeof(*grown));
		if (!grown)
			return NULL;
		j->all = grown;
		j->cap = cap;
	}
	j->all[j->n] = (struct verdict){
		.number = number, .open_s = INFINITY, .warned_s = INFINITY, .critical_s = INFINITY, .closed_s = INFINITY
	};
	return &j->all[j->n++];
}

static void ranks_take(struct verdict *v, const struct finding *f)
{
	v->n_ranks = f->n_ranks;
	v->n_ranks_all = f->n_ranks_all;
	memcpy(v->ranks, f->ranks, sizeof(v->ranks));
}

static int incident_take(struct sink *s, const struct incident *i, const struct model *m)
{
	struct verdict *v = verdict_of(((struct listener *)s)->judge, i->number);

	(void)m;
	if (!v)
		return -ENOMEM;
	v->kind = i->f.kind;
	v->class = i->f.class;
	v->cause = i->f.cause;
	v->open_s = sim_s(i->open_ns);
	memcpy(v->caused_by, i->caused_by, sizeof(v->caused_by));
	if (i->phase == PHASE_CLOSE)
		v->closed_s = sim_s(i->t_ns);
	if (i->f.severity >= SEVERITY_WARNING && isinf(v->warned_s)) {
		v->warned_s = sim_s(i->t_ns);
		v->confidence = i->f.confidence;
		ranks_take(v, &i->f);
	}
	if (i->f.severity == SEVERITY_CRITICAL && isinf(v->critical_s))
		v->critical_s = sim_s(i->t_ns);
	if (isinf(v->warned_s))
		ranks_take(v, &i->f);
	v->worst = i->f.severity > v->worst ? i->f.severity : v->worst;
	return 0;
}

static int listener_close(struct sink *s, const struct model *m)
{
	(void)m;
	free(s);
	return 0;
}

static const struct sink_class listener_class = { .name = "judge", .incident = incident_take, .close = listener_close };

/* --- the hub --- */

struct judge *judge_new(int n_hosts)
{
	struct judge *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->n_hosts = n_hosts;
	j->last = calloc(n_hosts, sizeof(*j->last));
	if (j->last)
		return j;
	free(j);
	return NULL;
}

void judge_free(struct judge *j)
{
	if (!j)
		return;
	for (int i = 0; i < j->n_hosts; i++)
		free(j->last[i].data);
	hub_job_free(j->job);
	hosts_free(&j->hosts);
	free(j->last);
	free(j->all);
	free(j);
}

static int job_begin(struct judge *j, const Cluster__NodeReport *r, uint64_t now_ns)
{
	struct listener *l = calloc(1, sizeof(*l));
	int err = -ENOMEM;

	j->job = l ? hub_job_new(r->processes[0]->job, "sim", NULL, r, now_ns) : NULL;
	if (j->job) {
		*l = (struct listener){ { &listener_class }, j };
		err = pipeline_add_listener(j->job->pipeline, &l->base);
	}
	if (err)
		free(l);
	return err;
}

static int last_keep(struct judge *j, const struct delivery *d)
{
	struct last *l = &j->last[d->host];

	if (l->cap < d->len) {
		free(l->data);
		l->cap = 2 * d->len;
		l->data = malloc(l->cap);
		if (!l->data)
			return -ENOMEM;
	}
	memcpy(l->data, d->data, d->len);
	l->len = d->len;
	l->at_s = d->at_s;
	return 0;
}

static int report_feed_to(struct judge *j, const struct delivery *d, const Cluster__NodeReport *r)
{
	char token[BUS_TOKEN_MAX];
	struct host *host = NULL;
	struct host_message_id id = { .token = token,
				      .name = r->host,
				      .boot_id = r->boot_id,
				      .agent = r->agent,
				      .sequence = r->sequence,
				      .made_ns = r->now_ns,
				      .stored_ns = wall_ns(d->at_s) };
	int err;

	bus_token(d->name, token);
	switch (hosts_take(&j->hosts, &id, &host)) {
	case HOST_NEW: break;
	case HOST_NO_MEMORY: return -ENOMEM;
	default: return -EPROTO;
	}
	err = j->job || !r->n_processes ? 0 : job_begin(j, r, wall_ns(d->at_s));
	return err || !j->job ? err : hub_job_report(j->job, host, r, wall_ns(d->at_s));
}

int judge_take(void *to, const struct delivery *d)
{
	struct judge *j = to;
	double begin_s = cpu_s();
	Cluster__NodeReport *r;
	int err;

	if (report_unpack(d->data, d->len, &r))
		return -EPROTO;
	err = report_feed_to(j, d, r);
	report_free(r);
	j->messages_s += cpu_s() - begin_s;
	return err ? err : last_keep(j, d);
}

int judge_tick(struct judge *j, double now_s)
{
	double begin_s = cpu_s(), took_s;
	int err = j->job ? hub_job_ticks(j->job, &j->hosts, wall_ns(now_s)) : 0;

	took_s = cpu_s() - begin_s;
	j->ticks_s += took_s;
	j->longest_s = took_s > j->longest_s ? took_s : j->longest_s;
	return err;
}

const struct verdict *judge_verdicts(const struct judge *j, size_t *ret_n)
{
	*ret_n = j->n;
	return j->all;
}

const void *judge_last(const struct judge *j, int host, size_t *ret_len, double *ret_at_s)
{
	*ret_len = j->last[host].len;
	*ret_at_s = j->last[host].at_s;
	return j->last[host].data;
}

void judge_cost(const struct judge *j, double *ret_messages_s, double *ret_ticks_s, double *ret_longest_s)
{
	*ret_messages_s = j->messages_s;
	*ret_ticks_s = j->ticks_s;
	*ret_longest_s = j->longest_s;
}
