/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs.c - scopes are joined in a union-find forest, in three steps, each weaker than the one before: a communicator
 * proves that its members are one job; what it proved once holds until two living processes say one rank; and scopes
 * that nothing tied are one job where all their ranks differ. Then each group takes the job that most of it was.
 */
#include "job/jobs_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_MAX 1024
#define LIVING_FIRST 64
#define NAMELESS_JOBS 1024 /* of a user; then the one that ended longest ago is another one's */
#define NAMELESS_TEXT "(name not kept, %016llx)"

const struct job_id job_none = { .name = "", .shown = "" };

/* --- names, jobs, scopes --- */

static void name_free(struct name_row *row)
{
	free(row ? row->name : NULL);
	free(row ? row->key : NULL);
	free(row);
}

/* Whose claims on a name hold together. */
static uint32_t user_of(const struct job_place *at)
{
	return *job_place_text(at->container) || *job_place_text(at->pod) ? 0 : at->user;
}

static struct name_row *name_get(struct jobs *j, const char *name, uint32_t user)
{
	char key[KEY_MAX];
	struct name_row *row;

	snprintf(key, sizeof(key), "%u %s", user, name);
	HASH_FIND_STR(j->names, key, row);
	if (row)
		return row;
	row = calloc(1, sizeof(*row));
	if (row) {
		row->user = user;
		row->name = strdup(name);
		row->key = strdup(key);
	}
	if (row && row->name && row->key)
		HASH_ADD_KEYPTR(hh, j->names, row->key, strlen(row->key), row);
	if (!row || !row->hh.tbl) {
		name_free(row);
		return NULL;
	}
	row->serial = ++j->n_names;
	return row;
}

static struct job_own *job_new(struct name_row *row)
{
	struct job_own *own = calloc(1, sizeof(*own));

	if (!own)
		return NULL;
	own->j.name = own->j.shown = row->name;
	own->j.nth = row->newest ? row->newest->j.nth + 1 : 1;
	if (row->newest)
		row->newest->next = own;
	else
		row->jobs = own;
	row->newest = own;
	row->n_jobs++;
	return own;
}

static struct job_own *longest_ended(const struct jobs *j, const struct name_row *row)
{
	struct job_own *old = NULL;

	for (struct job_own *o = row->jobs; o; o = o->next)
		if (o->claimed != j->round && (!old || o->claimed < old->claimed))
			old = o;
	return old;
}

/* Its number among those of the same hash. */
static uint32_t nth_of(const struct name_row *row, const struct job_own *own)
{
	uint32_t most = 0;

	for (const struct job_own *o = row->jobs; o; o = o->next)
		if (o != own && !strcmp(o->nameless, own->nameless) && o->j.nth > most)
			most = o->j.nth;
	return most + 1;
}

/* Names that there is no room for must not fill the memory with their jobs. */
static struct job_own *job_nameless(struct jobs *j, struct name_row *row, uint64_t hash)
{
	struct job_own *own = row->n_jobs < NAMELESS_JOBS ? NULL : longest_ended(j, row);

	own = own ? own : job_new(row);
	if (!own)
		return NULL;
	snprintf(own->nameless, sizeof(own->nameless), NAMELESS_TEXT, (unsigned long long)hash);
	own->j.name = own->j.shown = own->nameless;
	own->j.nth = nth_of(row, own);
	own->claimed = j->round;
	return own;
}

static struct job_own *job_for(struct jobs *j, struct name_row *row, uint64_t nameless)
{
	return nameless ? job_nameless(j, row, nameless) : job_new(row);
}

/* A field that is unknown and one that is empty are the same. The separator is in none of them. */
static size_t key_text(const char *name, const struct job_place *at, char to[KEY_MAX])
{
	int n = snprintf(to, KEY_MAX, "%u\n%llu\n%u\n%llx\n%llx\n%s\n%s\n%s\n%s", at->host,
			 (unsigned long long)at->netns, user_of(at), (unsigned long long)at->nameless,
			 (unsigned long long)at->placeless, name, job_place_text(at->pod),
			 job_place_text(at->container), job_place_text(at->cgroup));

	return n < KEY_MAX ? n : KEY_MAX - 1;
}

static bool place_known(const struct scope *s)
{
	/* lint: job_place_text() gives a text */
	return s->s.place.netns || s->s.place.placeless || *job_place_text(s->s.place.container) ||
	       *job_place_text(s->s.place.cgroup);
}

static struct scope *scope_new(struct jobs *j, const char *name, const struct job_place *at, const char *key)
{
	struct name_row *row = name_get(j, name, user_of(at));
	struct job_own *guess = row && row->newest && !at->nameless && !*row->newest->nameless ? row->newest : NULL;
	struct job_own *job = guess || !row ? guess : job_for(j, row, at->nameless);
	struct scope *s = job ? calloc(1, sizeof(*s)) : NULL;

	if (s)
		s->key = strdup(key);
	if (s && s->key)
		HASH_ADD_KEYPTR(hh, j->scopes, s->key, strlen(s->key), s);
	if (!s || !s->hh.tbl) {
		free(s ? s->key : NULL);
		free(s);
		return NULL;
	}
	s->s = (struct job_scope){ .job = &job->j, .name = row->name, .place = *at };
	s->row = row;
	row->placed |= place_known(s);
	s->serial = ++j->n_scopes;
	s->joined = s;
	*j->tail = s;
	j->tail = &s->next;
	return s;
}

struct job_scope *jobs_scope(struct jobs *j, const char *name, const struct job_place *at)
{
	char key[KEY_MAX];
	size_t len = key_text(name, at, key);
	struct scope *s;

	HASH_FIND(hh, j->scopes, key, len, s);
	if (!s)
		s = scope_new(j, name, at, key);
	return s ? &s->s : NULL;
}

static void scope_free(struct jobs *j, struct scope *s)
{
	HASH_DEL(j->scopes, s);
	free(s->key);
	free(s);
}

/* --- what lives --- */

void jobs_begin(struct jobs *j)
{
	j->n_living = 0;
	for (struct scope *s = j->first; s; s = s->next) {
		s->joined = s;
		s->living = s->ranked = false;
		s->group_job = NULL;
	}
}

/* A process whose place could not be read, where that of others could, is gone already: an assembler that a rank's
 * compiler started has its rank in its environment, and is no second one. */
int jobs_rank(struct jobs *j, struct job_scope *pub, int rank, int world)
{
	struct scope *s = (struct scope *)pub;

	if (s->row->placed && !place_known(s))
		rank = -1;
	if (j->n_living == j->cap_living) {
		size_t cap = 2 * j->cap_living;
		struct living *grown = realloc(j->living, cap * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		j->living = grown;
		j->cap_living = cap;
	}
	j->living[j->n_living++] = (struct living){ s, rank, world };
	s->living = true;
	return 0;
}

static struct scope *group_of(struct scope *s)
{
	while (s->joined != s)
		s = s->joined = s->joined->joined;
	return s;
}

/* The older one stands for both. */
static void join(struct scope *a, struct scope *b)
{
	a = group_of(a);
	b = group_of(b);
	if (a->serial < b->serial)
		b->joined = a;
	else
		a->joined = b;
}

static bool same_name(const struct scope *a, const struct scope *b)
{
	return a->row == b->row && a->s.place.nameless == b->s.place.nameless;
}

void jobs_tie(struct job_scope *a, struct job_scope *b)
{
	struct scope *x = (struct scope *)a, *y = (struct scope *)b;

	if (same_name(x, y))
		join(x, y);
}

/* --- joining --- */

static int order(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int by_tie(const void *a, const void *b)
{
	const struct living *x = a, *y = b;
	int d = order(x->s->row->serial, y->s->row->serial);

	d = d ? d : order(x->s->tie, y->s->tie);
	return d ? d : (x->rank > y->rank) - (x->rank < y->rank);
}

static int by_world(const void *a, const void *b)
{
	const struct living *x = a, *y = b;
	int d = order(x->s->row->serial, y->s->row->serial);

	d = d ? d : order(x->s->s.place.nameless, y->s->s.place.nameless);
	d = d ? d : (x->world > y->world) - (x->world < y->world);
	return d ? d : (x->rank > y->rank) - (x->rank < y->rank);
}

/* Of n processes sorted by rank: a rank lives in two groups. Two of these are neighbours then. */
static bool collides(const struct living *l, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (l[i].rank >= 0 && l[i].rank == l[i - 1].rank && group_of(l[i].s) != group_of(l[i - 1].s))
			return true;
	return false;
}

static void join_all(const struct living *l, size_t n)
{
	for (size_t i = 1; i < n; i++)
		join(l[0].s, l[i].s);
}

/* What communicators tied before is one still, unless its ranks collide now. */
static void ties_keep(struct jobs *j)
{
	struct living *l = j->living, *end = l + j->n_living;
	size_t n;

	qsort(l, j->n_living, sizeof(*l), by_tie);
	for (; l < end; l += n) {
		for (n = 1; l + n < end && l[n].s->row == l->s->row && l[n].s->tie == l->s->tie; n++)
			;
		if (l->s->tie && !collides(l, n))
			join_all(l, n);
	}
	for (struct scope *s = j->first; s; s = s->next)
		s->tie = 0;
	for (struct scope *s = j->first; s; s = s->next)
		if (s->living && group_of(s) != s)
			s->tie = group_of(s)->tie = group_of(s)->serial;
}

/* Processes of one name and world size, sorted by rank. */
static void join_disjoint(struct living *l, size_t n)
{
	bool rivals = collides(l, n);

	for (size_t i = 0; i < n; i++)
		l[i].s->rival |= rivals;
	for (size_t i = 0; i < n; i++)
		rivals |= l[i].s->rival;
	if (!rivals)
		join_all(l, n);
}

static void worlds_join(struct jobs *j)
{
	struct living *l = j->living, *end = l + j->n_living;
	size_t n;

	qsort(l, j->n_living, sizeof(*l), by_world);
	for (; l < end; l += n) {
		n = 1;
		if (l->rank < 0) /* says nothing about who is whose */
			continue;
		while (l + n < end && same_name(l[n].s, l->s) && l[n].world == l->world)
			n++;
		join_disjoint(l, n);
	}
}

/* Processes of one name. Those without a rank belong to the only job of their name; where nothing says their place (an
 * old recording), to each other. */
static void join_rankless(struct living *l, size_t n)
{
	struct scope *ranked = NULL, *placeless = NULL;
	bool several = false;

	for (size_t i = 0; i < n; i++)
		if (l[i].rank >= 0) {
			group_of(l[i].s)->ranked = true;
			several |= ranked && group_of(ranked) != group_of(l[i].s);
			ranked = l[i].s;
		}
	for (size_t i = 0; i < n; i++) {
		if (group_of(l[i].s)->ranked)
			continue;
		if (ranked && !several && (*l->s->s.name || !place_known(l[i].s))) {
			join(ranked, l[i].s);
			group_of(ranked)->ranked = true;
		} else if (!place_known(l[i].s)) {
			if (placeless)
				join(placeless, l[i].s);
			placeless = l[i].s;
		}
	}
}

static void names_join(struct jobs *j)
{
	struct living *l = j->living, *end = l + j->n_living;
	size_t n;

	for (; l < end; l += n) {
		for (n = 1; l + n < end && same_name(l[n].s, l->s); n++)
			;
		join_rankless(l, n);
	}
}

/* --- which job a group is --- */

static void claim(struct jobs *j, struct scope *group, struct job_own *job)
{
	group->group_job = job;
	job->claimed = j->round;
	job->place = group->s.place;
}

/* The oldest scope that was settled says which; a guess counts for a job that no other ever was. */
static void claims(struct jobs *j, bool settled)
{
	for (struct scope *s = j->first; s; s = s->next) {
		struct job_own *job = (struct job_own *)s->s.job;

		if (s->living && s->settled == settled && (settled || !job->settled) && !group_of(s)->group_job &&
		    job->claimed != j->round)
			claim(j, group_of(s), job);
	}
}

static int jobs_assign(struct jobs *j)
{
	j->round++;
	claims(j, true);
	claims(j, false);
	for (struct scope *s = j->first; s; s = s->next) {
		struct scope *group = group_of(s);
		struct job_own *job;

		if (!s->living)
			continue;
		job = group->group_job ? NULL : job_for(j, s->row, s->s.place.nameless);
		if (job)
			claim(j, group, job);
		if (!group->group_job)
			return -ENOMEM;
		s->s.job = &group->group_job->j;
		s->settled = group->group_job->settled = true;
	}
	return 0;
}

static void scopes_sweep(struct jobs *j)
{
	struct scope **link = &j->first, *s;

	while ((s = *link)) {
		s->rival &= s->living;
		if (s->s.n_procs) {
			link = &s->next;
			continue;
		}
		*link = s->next;
		scope_free(j, s);
	}
	j->tail = link;
}

int jobs_settle(struct jobs *j)
{
	int err;

	ties_keep(j);
	worlds_join(j);
	names_join(j);
	err = jobs_assign(j);
	names_show(j);
	scopes_sweep(j);
	return err;
}

/* A job's own copy of a place is read in the round alone that set it. */
void jobs_hold_texts(const struct jobs *j, struct intern *t)
{
	for (const struct scope *s = j->first; s; s = s->next) {
		const struct job_place *at = &s->s.place;

		intern_hold(t, at->host_name);
		intern_hold(t, at->pod);
		intern_hold(t, at->pod_name);
		intern_hold(t, at->container);
		intern_hold(t, at->cgroup);
	}
}

struct jobs *jobs_new(void)
{
	struct jobs *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->tail = &j->first;
	j->cap_living = LIVING_FIRST; /* there from the start: what goes through it needs an array, if an empty one */
	j->living = malloc(LIVING_FIRST * sizeof(*j->living));
	if (j->living)
		return j;
	free(j);
	return NULL;
}

void jobs_free(struct jobs *j)
{
	struct name_row *row, *next_row;
	struct scope *s, *next;
	struct job_own *job;

	if (!j)
		return;
	HASH_ITER (hh, j->scopes, s, next)
		scope_free(j, s);
	HASH_ITER (hh, j->names, row, next_row) {
		HASH_DEL(j->names, row);
		while ((job = row->jobs)) {
			row->jobs = job->next;
			free(job->text);
			free(job);
		}
		name_free(row);
	}
	free(j->living);
	free(j);
}
