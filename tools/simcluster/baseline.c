/* SPDX-License-Identifier: Apache-2.0
 *
 * baseline.c - see baseline.h. Clocks of hosts differ by the skew, since these rules compare wall clocks.
 */
#include "tools/simcluster/baseline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/report.h"

struct seat { /* a rank in a communicator */
	uint64_t hash, count;
	double since_s; /* it called its newest operation, by its host's clock */
	int rank;
};

struct seats {
	struct seat *all;
	size_t n, cap;
};

struct group { /* a communicator */
	const struct seat *seats;
	size_t n, n_behind, n_odd;
	uint64_t most, usual; /* highest count; that of most members */
	double wait_s;        /* since when somebody waits; INFINITY: none does */
};

static const struct {
	const char *name;
	double after_s;
} table[] = {
#define X(id, name, s, help) { name, s },
	BASELINES(X)
#undef X
};

const char *baseline_name(enum baseline b)
{
	return table[b].name;
}

double baseline_after_s(enum baseline b)
{
	return table[b].after_s;
}

/* --- what was reported --- */

static int seat_add(struct seats *s, const struct seat *one)
{
	size_t cap = s->cap ? 2 * s->cap : 65536;
	struct seat *grown;

	if (s->n == s->cap) {
		grown = realloc(s->all, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		s->all = grown;
		s->cap = cap;
	}
	s->all[s->n++] = *one;
	return 0;
}

static int process_read(struct seats *s, const Cluster__Process *p, double at_s)
{
	int err = 0;

	for (size_t k = 0; k < p->n_comms && !err; k++) {
		const Cluster__Member *m = p->comms[k];
		struct seat one = { .hash = m->hash, .since_s = at_s - (double)m->same_age_ns * 1e-9, .rank = p->rank };

		for (size_t i = 0; i < m->n_counters; i++)
			one.count += m->counters[i];
		err = seat_add(s, &one);
	}
	return err;
}

static int messages_read(const struct judge *j, int n_hosts, double skew_s, struct draw *d, struct seats *s)
{
	int err = 0;

	for (int h = 0; h < n_hosts && !err; h++) {
		double at_s, off_s = skew_s * draw_normal(d);
		size_t len;
		const void *data = judge_last(j, h, &len, &at_s);
		Cluster__NodeReport *r;

		if (!data || report_unpack(data, len, &r))
			continue;
		for (size_t i = 0; i < r->n_processes && !err; i++)
			err = process_read(s, r->processes[i], at_s + off_s);
		report_free(r);
	}
	return err;
}

static int seat_cmp(const void *a, const void *b)
{
	const struct seat *x = a, *y = b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* --- rules --- */

static uint64_t usual_count(const struct seat *s, size_t n)
{
	uint64_t usual = s[0].count;
	size_t lead = 0;

	for (size_t i = 0; i < n; i++) { /* Boyer and Moore's vote */
		if (!lead)
			usual = s[i].count;
		lead += s[i].count == usual ? 1 : (size_t)-1;
	}
	return usual;
}

static struct group group_read(const struct seat *s, size_t n)
{
	struct group g = { .seats = s, .n = n, .usual = usual_count(s, n), .wait_s = INFINITY };

	for (size_t i = 0; i < n; i++)
		g.most = s[i].count > g.most ? s[i].count : g.most;
	for (size_t i = 0; i < n; i++) {
		g.n_behind += s[i].count < g.most;
		g.n_odd += s[i].count != g.usual;
	}
	for (size_t i = 0; i < n && g.n_behind; i++)
		if (s[i].count == g.most && s[i].since_s < g.wait_s)
			g.wait_s = s[i].since_s;
	return g;
}

static void word_begin(struct baseline_word *w)
{
	for (int i = 0; i < BASELINE_RANKS; i++)
		w->ranks[i] = -1;
}

static void word_add(struct baseline_word *w, int rank)
{
	for (int i = 0; i < BASELINE_RANKS; i++) {
		if (w->ranks[i] == rank)
			return;
		if (w->ranks[i] < 0) {
			w->ranks[i] = rank;
			return;
		}
	}
}

static void odd_name(const struct group *g, struct baseline_word *w)
{
	word_begin(w);
	for (size_t i = 0; i < g->n; i++)
		if (g->seats[i].count != g->usual)
			word_add(w, g->seats[i].rank);
}

static void behind_name(const struct group *g, struct baseline_word *w)
{
	word_begin(w);
	for (size_t i = 0; i < g->n; i++)
		if (g->seats[i].count < g->most)
			word_add(w, g->seats[i].rank);
}

static void waiting_name(const struct group *g, struct baseline_word *w)
{
	word_begin(w);
	for (size_t i = 0; i < g->n; i++)
		if (g->seats[i].count == g->most && g->seats[i].since_s <= g->wait_s)
			word_add(w, g->seats[i].rank);
	for (size_t i = 0; i < g->n; i++)
		if (g->seats[i].count == g->most)
			word_add(w, g->seats[i].rank);
}

static void groups_judge(const struct seats *s, struct baseline_word ret[BASELINE_COUNT])
{
	size_t fewest = SIZE_MAX;
	double first_s = INFINITY;

	for (size_t i = 0, n; i < s->n; i += n) {
		struct group g;

		for (n = 1; i + n < s->n && s->all[i + n].hash == s->all[i].hash; n++)
			;
		g = group_read(&s->all[i], n);
		if (g.n_odd && g.n_odd < fewest) {
			fewest = g.n_odd;
			odd_name(&g, &ret[BASELINE_OUTLIER]);
		}
		if (g.wait_s < first_s) {
			first_s = g.wait_s;
			behind_name(&g, &ret[BASELINE_LAST]);
			waiting_name(&g, &ret[BASELINE_LONGEST]);
		}
	}
	ret[BASELINE_TIMEOUT] = ret[BASELINE_KERNEL] = ret[BASELINE_LONGEST];
}

int baselines_ask(const struct judge *j, int n_hosts, double skew_s, struct draw *d,
		  struct baseline_word ret[BASELINE_COUNT])
{
	struct seats s = { 0 };
	int err = messages_read(j, n_hosts, skew_s, d, &s);

	for (int b = 0; b < BASELINE_COUNT; b++)
		word_begin(&ret[b]);
	if (!err && s.n) {
		qsort(s.all, s.n, sizeof(*s.all), seat_cmp);
		groups_judge(&s, ret);
	}
	free(s.all);
	return err;
}
