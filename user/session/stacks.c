/* SPDX-License-Identifier: Apache-2.0
 *
 * stacks.c - see stacks.h.
 *
 * Stacks, and what the processes wait for. One round of reads at a time, of three kinds, the most urgent first:
 *
 *   of an incident   at most three rounds each: one when it opens, the later ones for a process that was running and
 *                    not asleep. The culprits first; what is read of them is emitted while the others are being read.
 *   of who is late   a rank that will be past its limit in a second: a finding then opens with its call site, and a
 *                    pause that ends soon after leaves it.
 *                    Where no counter says who is late: all ranks of a job that stands, before one is named.
 *   of waits         while an incident is open, what its culprit waits for is sampled again and again: bytes that moved
 *                    once do not move for ever.
 */
#include "session/stacks.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/keyed.h"
#include "detect/hang/uncounted.h"
#include "detect/hang/wait_roots.h"
#include "detect/rank/call_site.h"
#include "detect/rank/seats.h"
#include "inspect/wait/wait.h"
#include "tracers/process/wait_record.h"

#define ROUND_PROCS 8 /* the culprits first, then some of the ranks that wait for them */
#define ROUND_EMIT_NS \
	1000000000ull /* by then emit the stacks that are read, even if some processes are still being read */
#define WAITS_APART_NS 300000000ull /* between the two samples of what a process waits for */
#define ROUNDS_BURST 4              /* in a row for each job; then one every ROUND_EVERY_NS */
#define JOBS_MOST 8                 /* that have a budget of their own */
#define ROUND_EVERY_NS 15000000000ull

#define LATE_AHEAD_NS 1000000000ull     /* who will be past its limit in that time is read */
#define STANDING_AHEAD_NS 2000000000ull /* the same of a job in which nothing moves: many are read */
#define LATE_FRESH_NS 3000000000ull     /* and not again so soon */
#define LATE_BURST 4                    /* such rounds in a row; then one every LATE_EVERY_NS */
#define LATE_EVERY_NS 5000000000ull
#define CHECK_EVERY_NS 250000000ull /* who is late, what is over, whose wait is due */
#define WAIT_EVERY_NS 5000000000ull
#define RECENT_NS 15000000000ull

static const uint64_t rounds_after_ns[] = { 0, 10000000000ull, 60000000000ull }; /* since the first round */
#define ROUNDS (int)(sizeof(rounds_after_ns) / sizeof(rounds_after_ns[0]))

struct incident_rounds {
	struct keyed keyed; /* by the incident's number */
	uint64_t first_ns;
	int n;
	uint64_t waited_ns;      /* what its first culprit waits for was asked last */
	struct target_wait wait; /* the answer, which the next one is compared with */
};

struct stack_read {
	uint32_t tgid, tid;
	bool is_culprit, wait_only;
	uint64_t incident; /* whose first culprit it is; 0 none */
	int err;
	struct target_stacks stacks;
	struct target_wait waits[2]; /* twice, for what moves between the two */
	int wait_err;
};

struct rounds_limit { /* a budget of rounds */
	double used;
	uint64_t ns; /* when `used` was updated */
};

struct session_stacks {
	struct reader *reader; /* used by the thread while it runs */
	const struct pipeline *pipeline;
	stack_emit *emit;
	void *to;
	struct keyed_table incidents; /* struct incident_rounds of those that are open */
	struct rounds_limit limit_incidents, limit_late;
	struct wait_roots late; /* kept here for its memory */
	uint64_t checked_ns;
	uint32_t asked[STACKS_ASKED_MAX]; /* by a user, and not begun yet */
	int n_asked;
	/* the round under way */
	bool running, is_asked; /* is_asked: of processes that a user asked for */
	pthread_t thread;
	struct stack_read reads[ROUND_PROCS];
	int n, n_emitted;
	uint64_t begin_ns, verdict_ns; /* verdict_ns: the newest one's that was not for what is waited for alone */
	atomic_int n_read;
	atomic_bool stop;
};

struct session_stacks *session_stacks_new(struct reader *r, const struct pipeline *p, stack_emit *emit, void *to)
{
	struct session_stacks *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->reader = r;
	s->pipeline = p;
	s->emit = emit;
	s->to = to;
	return s;
}

/* --- the thread --- */

static void first_wait_read(struct session_stacks *s, struct stack_read *a)
{
	if (!a->wait_only) /* else it was read before */
		a->wait_err = target_wait_read(s->reader, a->tgid, a->tid, WAIT_DEADLINE_MS, &a->waits[0]);
}

static void second_wait_read(struct session_stacks *s, struct stack_read *a)
{
	bool first = !a->wait_err;

	a->wait_err = target_wait_read(s->reader, a->tgid, a->tid, WAIT_DEADLINE_MS, &a->waits[1]);
	if (first && !a->wait_err)
		target_wait_compare(&a->waits[0], &a->waits[1]);
}

/* Between the two samples of what a process waits for. */
static void pause_until(const struct session_stacks *s, uint64_t ns)
{
	while (!s->stop && clock_monotonic_ns() < ns)
		usleep(10000);
}

static void one_read(struct session_stacks *s, struct stack_read *a, uint64_t begin_ns)
{
	if (!a->wait_only) {
		a->err = target_stack_read_thread(s->reader, a->tgid, a->tid, STACK_DEADLINE_MS, &a->stacks);
		pause_until(s, begin_ns + WAITS_APART_NS);
	}
	second_wait_read(s, a);
}

static void *round_read(void *arg)
{
	struct session_stacks *s = arg;
	uint64_t begin_ns = clock_monotonic_ns();

	for (int i = 0; i < s->n && !s->stop; i++)
		first_wait_read(s, &s->reads[i]);
	for (int i = 0; i < s->n && !s->stop; i++) {
		one_read(s, &s->reads[i], begin_ns);
		s->n_read = i + 1;
	}
	return NULL;
}

/* Signals belong to the loop, so the thread blocks them all. */
static int thread_start(struct session_stacks *s)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&s->thread, NULL, round_read, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

/* What its next sample is compared with. */
static void wait_keep(struct session_stacks *s, const struct stack_read *a)
{
	struct incident_rounds *of = a->incident ? keyed_find(&s->incidents, a->incident, 0) : NULL;

	if (of && !a->wait_err)
		target_wait_copy(&of->wait, &a->waits[1]);
}

static void round_end(struct session_stacks *s)
{
	pthread_join(s->thread, NULL);
	for (int i = 0; i < s->n; i++) {
		if (!s->stop)
			wait_keep(s, &s->reads[i]);
		target_stacks_free(&s->reads[i].stacks);
	}
	s->running = false;
}

void session_stacks_free(struct session_stacks *s)
{
	if (s && s->running) {
		s->stop = true;
		round_end(s);
	}
	if (s) {
		keyed_free(&s->incidents);
		wait_roots_free(&s->late);
	}
	free(s);
}

/* --- which processes --- */

/* Of this thread of it; 0: the main one. */
static struct stack_read *round_add(struct session_stacks *s, const struct proc *p, uint32_t tid)
{
	if (!p || p->dead || p->is_child || s->n >= ROUND_PROCS)
		return NULL;
	for (int i = 0; i < s->n; i++)
		if (s->reads[i].tgid == p->tgid && s->reads[i].tid == (tid ? tid : p->tgid))
			return NULL;
	s->reads[s->n] = (struct stack_read){ .tgid = p->tgid, .tid = tid ? tid : p->tgid };
	return &s->reads[s->n++];
}

/* Of a process that is several ranks the thread that is named, if it is its own and no child's; where ranks are named
 * alone, the one that calls for this rank; else the main one. */
static struct stack_read *culprit_add(struct session_stacks *s, const struct finding *f, int k)
{
	const struct proc *p = f->pids[k] ? model_proc(pipeline_model(s->pipeline), finding_proc(f, k)) : NULL;
	uint32_t tid = p && p->shared ? (uint32_t)finding_number(f, EVIDENCE_TID) : 0;

	if (p && p->shared && !tid)
		tid = rank_own_tid(p, f->ranks[k]);
	return round_add(s, p, p && seat_task(p, tid) ? tid : 0);
}

static void culprits_choose(struct session_stacks *s, const struct incident *i)
{
	for (int k = 0; k < i->f.n_ranks; k++) {
		struct stack_read *a = culprit_add(s, &i->f, k);

		if (!a)
			continue;
		a->is_culprit = true;
		a->incident = k ? 0 : i->number;
	}
}

static void round_choose(struct session_stacks *s, const struct incident *i)
{
	const struct model *m = pipeline_model(s->pipeline);
	const struct finding *f = &i->f;

	s->n = 0;
	culprits_choose(s, i);
	for (const struct comm *c = s->n && f->has_op ? m->comms : NULL; c; c = c->next)
		for (const struct member *mb = c->hash == f->comm ? c->members : NULL; mb; mb = mb->next_in_comm)
			if (!mb->gone)
				round_add(s, mb->proc, mb->proc->shared ? seat_own_tid(mb) : 0);
}

/* --- when --- */

/* A hang, or an observation that becomes one if it lasts. */
static bool needs_stacks(const struct finding *f)
{
	return f->n_ranks && f->class != HANG_PROCESS_DEAD &&
	       (f->kind == FINDING_HANG || (f->kind == FINDING_OBSERVATION && f->class != HANG_NONE));
}

static const struct incident *open_next(const struct session_stacks *s, const struct incident *after)
{
	return incidents_next_open(pipeline_incidents(s->pipeline), after);
}

static bool is_open(void *entry, const void *of)
{
	const struct incident_rounds *a = entry;

	for (const struct incident *i = open_next(of, NULL); i; i = open_next(of, i))
		if (i->number == a->keyed.a)
			return true;
	return false;
}

static struct incident_rounds *rounds_of(struct session_stacks *s, uint64_t incident, uint64_t now_ns)
{
	struct incident_rounds *a = keyed_get(&s->incidents, incident, 0, sizeof(*a));

	if (a && !a->first_ns)
		a->first_ns = now_ns;
	return a;
}

static bool is_round_due(const struct incident_rounds *a, uint64_t now_ns)
{
	return a && a->n < ROUNDS && now_ns - a->first_ns >= rounds_after_ns[a->n];
}

static bool may_begin(struct rounds_limit *l, int burst, uint64_t every_ns, uint64_t now_ns)
{
	l->used = fmax(0, l->used - (double)(now_ns - l->ns) / (double)every_ns);
	l->ns = now_ns;
	return l->used + 1 <= burst;
}

/* Of the reads that were chosen. Without a thread there are none this time. */
static void round_begin(struct session_stacks *s, uint64_t now_ns)
{
	if (!s->n)
		return;
	s->n_emitted = 0;
	s->n_read = 0;
	s->begin_ns = now_ns;
	s->is_asked = false;
	if (!s->reads[0].wait_only)
		s->verdict_ns = now_ns;
	s->running = !thread_start(s);
}

static bool among(const struct job_id *const *jobs, int n, const struct job_id *job)
{
	for (int i = 0; i < n; i++)
		if (jobs[i] == job)
			return true;
	return false;
}

/* Of which something is open: what hits one host may stop all jobs on it. */
static int jobs_open(const struct session_stacks *s)
{
	const struct job_id *jobs[JOBS_MOST];
	int n = 0;

	for (const struct incident *i = open_next(s, NULL); i && n < JOBS_MOST; i = open_next(s, i)) {
		const struct proc *p =
			needs_stacks(&i->f) ? model_proc(pipeline_model(s->pipeline), finding_proc(&i->f, 0)) : NULL;

		if (p && !among(jobs, n, p->job))
			jobs[n++] = p->job;
	}
	return n ? n : 1;
}

static void incidents_begin(struct session_stacks *s, uint64_t now_ns)
{
	int n_jobs = jobs_open(s);

	if (!may_begin(&s->limit_incidents, n_jobs * ROUNDS_BURST, ROUND_EVERY_NS / n_jobs, now_ns))
		return;
	for (const struct incident *i = open_next(s, NULL); i && !s->running; i = open_next(s, i)) {
		struct incident_rounds *a = needs_stacks(&i->f) ? rounds_of(s, i->number, now_ns) : NULL;

		if (!is_round_due(a, now_ns))
			continue;
		a->n++;
		a->waited_ns = now_ns;
		round_choose(s, i);
		s->limit_incidents.used += s->n > 0;
		round_begin(s, now_ns);
	}
}

/* --- who is late --- */

static bool is_reported(const struct session_stacks *s, const struct proc *p)
{
	for (const struct incident *i = open_next(s, NULL); i; i = open_next(s, i))
		for (int k = 0; k < i->f.n_ranks && needs_stacks(&i->f); k++)
			if (finding_proc(&i->f, k) == p->key)
				return true;
	return false;
}

/* Of one that cannot be read the round of its incident says so. */
static bool is_known(const struct model *m, const struct proc *p)
{
	const struct task *t = call_site_task(p);

	return p->outside.stacks_unread || (t && t->stack.ns + LATE_FRESH_NS > m->now_ns);
}

/* The places of all ranks of a job that stands say who is late, where counters do not. */
static void standing_add(struct session_stacks *s, const struct model *m)
{
	const struct proc *unread[ROUND_PROCS];
	int n = uncounted_unread(m, STANDING_AHEAD_NS, unread, ROUND_PROCS);

	for (int i = 0; i < n; i++) {
		struct stack_read *a = round_add(s, unread[i], 0);

		if (a)
			a->is_culprit = true;
	}
}

static void late_begin(struct session_stacks *s, uint64_t now_ns)
{
	const struct model *m = pipeline_model(s->pipeline);

	if (!may_begin(&s->limit_late, LATE_BURST, LATE_EVERY_NS, now_ns) ||
	    wait_roots_soon(m, LATE_AHEAD_NS, &s->late))
		return;
	s->n = 0;
	for (int i = 0; i < s->late.n_roots; i++) {
		const struct proc *p = s->late.roots[i].proc;
		struct stack_read *a = is_known(m, p) || is_reported(s, p) ? NULL : round_add(s, p, 0);

		if (a)
			a->is_culprit = true;
	}
	if (!s->n)
		standing_add(s, m);
	s->limit_late.used += s->n > 0;
	round_begin(s, now_ns);
}

/* --- what they wait for, again --- */

static void wait_again(struct session_stacks *s, const struct incident *i, uint64_t now_ns)
{
	struct incident_rounds *a = keyed_find(&s->incidents, i->number, 0);
	struct stack_read *r;

	if (!a || !a->wait.tgid || now_ns - a->waited_ns < WAIT_EVERY_NS)
		return;
	r = culprit_add(s, &i->f, 0);
	if (!r)
		return;
	a->waited_ns = now_ns;
	r->wait_only = true;
	r->incident = i->number;
	target_wait_copy(&r->waits[0], &a->wait);
}

static void waits_begin(struct session_stacks *s, uint64_t now_ns)
{
	s->n = 0;
	for (const struct incident *i = open_next(s, NULL); i; i = open_next(s, i))
		if (needs_stacks(&i->f))
			wait_again(s, i, now_ns);
	round_begin(s, now_ns);
}

bool session_stacks_recent(const struct session_stacks *s, uint64_t now_ns)
{
	return s && s->verdict_ns && now_ns < s->verdict_ns + RECENT_NS;
}

bool session_stacks_ask(struct session_stacks *s, uint32_t tgid)
{
	for (int i = 0; i < s->n_asked; i++)
		if (s->asked[i] == tgid)
			return true;
	if (s->n_asked == STACKS_ASKED_MAX)
		return false;
	s->asked[s->n_asked++] = tgid;
	return true;
}

bool session_stacks_asked(const struct session_stacks *s)
{
	return s->n_asked || (s->running && s->is_asked);
}

/* As many as a round reads; the others are the next ones'. */
static void asked_begin(struct session_stacks *s, uint64_t now_ns)
{
	int n = 0;

	s->n = 0;
	while (n < s->n_asked && s->n < ROUND_PROCS)
		round_add(s, model_proc(pipeline_model(s->pipeline), proc_key(0, s->asked[n++])), 0);
	s->n_asked -= n;
	memmove(s->asked, s->asked + n, s->n_asked * sizeof(s->asked[0]));
	round_begin(s, now_ns);
	s->is_asked = true;
}

void session_stacks_begin(struct session_stacks *s, uint64_t now_ns)
{
	if (!s)
		return;
	if (!s->running && s->n_asked)
		asked_begin(s, now_ns);
	if (!s->running)
		incidents_begin(s, now_ns);
	if (s->running || now_ns - s->checked_ns < CHECK_EVERY_NS)
		return;
	s->checked_ns = now_ns;
	reader_check(s->reader); /* for hours nothing may be asked of it */
	keyed_keep(&s->incidents, is_open, s);
	late_begin(s, now_ns);
	if (!s->running)
		waits_begin(s, now_ns);
}

/* --- records --- */

/* Stamped with the time of emission: a record older than the loop's last poll would come too late to be sorted. */
static int answer_emit(const struct session_stacks *s, const struct stack_read *a)
{
	uint64_t now_ns = clock_monotonic_ns();
	int err = 0;

	if (a->err == -ESRCH)
		return 0;
	if (a->err || (!a->wait_only && !a->stacks.n))
		return stack_record_unread(a->tgid, now_ns, a->err ? a->err : -ESRCH, s->emit, s->to);
	if (!a->wait_only)
		err = stack_record_emit(a->tgid, now_ns, &a->stacks.threads[0], s->emit, s->to);
	return err || a->wait_err ? err : wait_record_emit(a->tgid, a->tid, now_ns, &a->waits[1].w, s->emit, s->to);
}

/* How many may be emitted: the culprits as soon as they are read, the others together. */
static int emit_until(const struct session_stacks *s, int n_read, uint64_t now_ns)
{
	int n = 0;

	if (n_read == s->n || now_ns - s->begin_ns >= ROUND_EMIT_NS)
		return n_read;
	while (n < n_read && s->reads[n].is_culprit)
		n++;
	return n;
}

int session_stacks_emit(struct session_stacks *s, uint64_t now_ns, bool *ret_of_culprit)
{
	int err = 0, n_read, until;

	if (!s || !s->running)
		return 0;
	n_read = s->n_read;
	until = emit_until(s, n_read, now_ns);
	while (!err && s->n_emitted < until) {
		const struct stack_read *a = &s->reads[s->n_emitted++];

		*ret_of_culprit |= a->is_culprit && !a->wait_only;
		err = answer_emit(s, a);
	}
	if (n_read == s->n)
		round_end(s);
	return err;
}
