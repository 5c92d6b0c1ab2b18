/* SPDX-License-Identifier: Apache-2.0
 *
 * stacks.c - see stacks.h.
 *
 * Stacks, and what the processes wait for. One incident at a time, one round of reads each, at most three rounds per
 * incident: one when it opens, the later ones for a process that was running and not asleep.
 */
#include "session/stacks.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "inspect/wait/wait.h"
#include "tracers/process/wait_record.h"

#define ROUND_PROCS 8 /* the culprits first, then some of the ranks that wait for them */
#define ROUND_EMIT_NS \
	1000000000ull /* by then emit the stacks that are read, even if some processes are still being read */
#define WAITS_APART_NS 300000000ull /* between the two samples of what a process waits for */
#define INCIDENTS_MAX 64            /* incidents remembered */
#define ROUNDS_BURST 4              /* in a row; then one every ROUND_EVERY_NS */
#define ROUND_EVERY_NS 15000000000ull

static const uint64_t rounds_after_ns[] = { 0, 10000000000ull, 60000000000ull }; /* since the first round */
#define ROUNDS (int)(sizeof(rounds_after_ns) / sizeof(rounds_after_ns[0]))

struct incident_rounds {
	uint64_t incident, first_ns;
	int n;
};

struct stack_read {
	uint32_t tgid;
	int err;
	struct target_stacks stacks;
	struct target_wait waits[2]; /* twice, for what moves between the two */
	int wait_err;
};

struct session_stacks {
	struct reader *reader; /* used by the thread while it runs */
	const struct pipeline *pipeline;
	stack_emit *emit;
	void *to;
	struct incident_rounds incidents[INCIDENTS_MAX];
	int n_incidents;
	double rounds_left;
	uint64_t rounds_ns; /* when rounds_left was updated */
	/* the round under way */
	bool running;
	pthread_t thread;
	struct stack_read reads[ROUND_PROCS];
	int n, n_emitted;
	uint64_t begin_ns;
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
	s->rounds_left = ROUNDS_BURST;
	return s;
}

/* --- the thread --- */

static void first_wait_read(struct session_stacks *s, struct stack_read *a)
{
	a->wait_err = target_wait_read(s->reader, a->tgid, a->tgid, WAIT_DEADLINE_MS, &a->waits[0]);
}

static void second_wait_read(struct session_stacks *s, struct stack_read *a)
{
	bool first = !a->wait_err;

	a->wait_err = target_wait_read(s->reader, a->tgid, a->tgid, WAIT_DEADLINE_MS, &a->waits[1]);
	if (first && !a->wait_err)
		target_wait_compare(&a->waits[0], &a->waits[1]);
}

/* Between the two samples of what a process waits for. */
static void pause_until(const struct session_stacks *s, uint64_t ns)
{
	while (!s->stop && clock_monotonic_ns() < ns)
		usleep(10000);
}

static void *round_read(void *arg)
{
	struct session_stacks *s = arg;
	uint64_t begin_ns = clock_monotonic_ns();

	for (int i = 0; i < s->n && !s->stop; i++)
		first_wait_read(s, &s->reads[i]);
	for (int i = 0; i < s->n && !s->stop; i++) {
		struct stack_read *a = &s->reads[i];

		a->err = target_stack_read_main(s->reader, a->tgid, STACK_DEADLINE_MS, &a->stacks);
		pause_until(s, begin_ns + WAITS_APART_NS);
		second_wait_read(s, a);
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

static void round_end(struct session_stacks *s)
{
	pthread_join(s->thread, NULL);
	for (int i = 0; i < s->n; i++)
		target_stacks_free(&s->reads[i].stacks);
	s->running = false;
}

void session_stacks_free(struct session_stacks *s)
{
	if (s && s->running) {
		s->stop = true;
		round_end(s);
	}
	free(s);
}

/* --- which processes --- */

static void round_add(struct session_stacks *s, const struct proc *p)
{
	if (!p || p->dead || p->is_child || s->n >= ROUND_PROCS)
		return;
	for (int i = 0; i < s->n; i++)
		if (s->reads[i].tgid == p->tgid)
			return;
	s->reads[s->n++] = (struct stack_read){ .tgid = p->tgid };
}

static void round_choose(struct session_stacks *s, const struct finding *f)
{
	const struct model *m = pipeline_model(s->pipeline);

	s->n = 0;
	for (int k = 0; k < f->n_ranks; k++)
		round_add(s, f->pids[k] ? model_proc(m, finding_proc(f, k)) : NULL);
	for (const struct comm *c = s->n && f->has_op ? m->comms : NULL; c; c = c->next)
		for (const struct member *mb = c->hash == f->comm ? c->members : NULL; mb; mb = mb->next_in_comm)
			if (!mb->gone)
				round_add(s, mb->proc);
}

/* --- when --- */

/* A hang, or an observation that becomes one if it lasts. */
static bool needs_stacks(const struct finding *f)
{
	return f->n_ranks && f->class != HANG_PROCESS_DEAD &&
	       (f->kind == FINDING_HANG || (f->kind == FINDING_OBSERVATION && f->class != HANG_NONE));
}

static bool is_open(const struct session_stacks *s, uint64_t number)
{
	const struct incidents *all = pipeline_incidents(s->pipeline);

	for (const struct incident *i = incidents_next_open(all, NULL); i; i = incidents_next_open(all, i))
		if (i->number == number)
			return true;
	return false;
}

static void incidents_tidy(struct session_stacks *s)
{
	int n = 0;

	for (int i = 0; i < s->n_incidents; i++)
		if (is_open(s, s->incidents[i].incident))
			s->incidents[n++] = s->incidents[i];
	s->n_incidents = n;
}

static struct incident_rounds *rounds_of(struct session_stacks *s, uint64_t incident, uint64_t now_ns)
{
	for (int i = 0; i < s->n_incidents; i++)
		if (s->incidents[i].incident == incident)
			return &s->incidents[i];
	if (s->n_incidents == INCIDENTS_MAX)
		return NULL;
	s->incidents[s->n_incidents] = (struct incident_rounds){ .incident = incident, .first_ns = now_ns };
	return &s->incidents[s->n_incidents++];
}

static bool is_round_due(const struct incident_rounds *a, uint64_t now_ns)
{
	return a && a->n < ROUNDS && now_ns - a->first_ns >= rounds_after_ns[a->n];
}

static bool may_begin(struct session_stacks *s, uint64_t now_ns)
{
	s->rounds_left += s->rounds_ns ? (double)(now_ns - s->rounds_ns) / ROUND_EVERY_NS : 0;
	s->rounds_ns = now_ns;
	if (s->rounds_left > ROUNDS_BURST)
		s->rounds_left = ROUNDS_BURST;
	return s->rounds_left >= 1;
}

static void round_begin(struct session_stacks *s, struct incident_rounds *a, const struct finding *f, uint64_t now_ns)
{
	a->n++;
	round_choose(s, f);
	if (!s->n)
		return;
	s->n_emitted = 0;
	s->n_read = 0;
	s->begin_ns = now_ns;
	s->rounds_left--;
	s->running = !thread_start(s); /* without a thread there are no stacks this time */
}

static void rounds_begin(struct session_stacks *s, uint64_t now_ns)
{
	const struct incidents *all = pipeline_incidents(s->pipeline);

	incidents_tidy(s);
	if (!may_begin(s, now_ns))
		return;
	for (const struct incident *i = incidents_next_open(all, NULL); i && !s->running;
	     i = incidents_next_open(all, i)) {
		struct incident_rounds *a = needs_stacks(&i->f) ? rounds_of(s, i->number, now_ns) : NULL;

		if (is_round_due(a, now_ns))
			round_begin(s, a, &i->f, now_ns);
	}
}

/* --- records --- */

/* Stamped with the time of emission: a record older than the loop's last poll would come too late to be sorted. */
static int answer_emit(const struct session_stacks *s, const struct stack_read *a)
{
	uint64_t now_ns = clock_monotonic_ns();
	int err;

	if (a->err == -ESRCH)
		return 0;
	if (a->err || !a->stacks.n)
		return stack_record_unread(a->tgid, now_ns, a->err ? a->err : -ESRCH, s->emit, s->to);
	err = stack_record_emit(a->tgid, now_ns, &a->stacks.threads[0], s->emit, s->to);
	return err || a->wait_err ? err : wait_record_emit(a->tgid, a->tgid, now_ns, &a->waits[1].w, s->emit, s->to);
}

static int round_emit(struct session_stacks *s, uint64_t now_ns)
{
	int err = 0, n_read = s->n_read;

	if (n_read < s->n && now_ns - s->begin_ns < ROUND_EMIT_NS)
		return 0;
	while (!err && s->n_emitted < n_read)
		err = answer_emit(s, &s->reads[s->n_emitted++]);
	if (n_read == s->n)
		round_end(s);
	return err;
}

int session_stacks_tick(struct session_stacks *s, uint64_t now_ns)
{
	int err = s->running ? round_emit(s, now_ns) : 0;

	if (!err && !s->running)
		rounds_begin(s, now_ns);
	return err;
}
