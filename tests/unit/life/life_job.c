/* SPDX-License-Identifier: Apache-2.0
 *
 * life_job.c - see life_job.h.
 */
#include "tests/unit/life/life_job.h"

#include <math.h>
#include <stdlib.h>

#define N LIFE_RANKS

static double unit(struct life *l)
{
	return (double)random_next(&l->rng) / (double)(1ull << 31);
}

double life_between(struct life *l, double lo, double hi)
{
	return lo * pow(hi / lo, unit(l));
}

static int any(struct life *l)
{
	return random_next(&l->rng) % N;
}

/* --- events --- */

struct event life_event(const struct life *l, enum event_kind kind, const struct life_rank *r)
{
	return (struct event){ .kind = kind, .ts_ns = l->now, .tgid = r->tgid, .tid = r->tgid };
}

void life_give(struct life *l, struct event e)
{
	if (model_apply(l->m, &e))
		exit(2);
}

static void proc_give(struct life *l, const struct life_rank *of, uint32_t tgid, bool is_child)
{
	struct event e = life_event(l, EV_PROC, of);

	e.tgid = e.tid = tgid;
	e.proc.start_ns = l->now;
	e.proc.parent_tgid = is_child ? of->tgid : 1;
	e.proc.rank = e.proc.local_rank = of - l->ranks;
	e.proc.world_size = N;
	e.proc.is_child = is_child;
	e.proc.job = e.proc.name = e.proc.container = e.proc.pod = "";
	life_give(l, e);
}

static void rank_begin(struct life *l, struct life_rank *r)
{
	*r = (struct life_rank){ .tgid = 1000 + ++l->n_pids };
	proc_give(l, r, r->tgid, false);
}

static void proc_end(struct life *l, const struct life_rank *of, uint32_t tgid, int signal)
{
	struct event e = life_event(l, EV_EXIT, of);

	e.tgid = e.tid = tgid;
	e.exit.last = true;
	e.exit.signal = signal;
	life_give(l, e);
}

void life_rank_ends(struct life *l, struct life_rank *r, int signal)
{
	if (r->child)
		proc_end(l, r, r->child, signal);
	proc_end(l, r, r->tgid, signal);
}

void life_child(struct life *l, struct life_rank *r)
{
	if (r->child)
		return;
	r->child = 1000 + ++l->n_pids;
	proc_give(l, r, r->child, true);
}

/* tp: pairs of neighbours; dp: ranks two apart, of one half. */
static uint64_t hash_of(const struct life *l, int r, int c)
{
	uint64_t group = c == LIFE_WORLD ? 0 : c == LIFE_TP ? r / 2 : r / 4 * 2 + r % 2;

	return l->generation << 16 | (uint64_t)c << 8 | group | 0x80;
}

static void sample_give(struct life *l, int r, int c)
{
	struct event e = life_event(l, EV_COMM_SAMPLE, &l->ranks[r]);

	e.comm_sample.comm = e.comm_sample.hash = hash_of(l, r, c);
	e.comm_sample.rank = c == LIFE_WORLD ? r : c == LIFE_TP ? r % 2 : r / 2 % 2;
	e.comm_sample.nranks = c == LIFE_WORLD ? N : 2;
	e.comm_sample.n_counters = OP_KINDS_COUNTED;
	e.comm_sample.counters[OP_ALLREDUCE] = l->ranks[r].entered[c];
	life_give(l, e);
}

static enum task_state task_state_of(const struct life_rank *r, bool waits)
{
	switch (waits ? LIFE_STEP : r->work) {
	case LIFE_WORKS: return TASK_RUNNABLE;
	case LIFE_STOPPED: return TASK_STOPPED;
	case LIFE_BLOCKED: return TASK_DISK;
	default: return TASK_SLEEP;
	}
}

static void task_give(struct life *l, struct life_rank *r, bool waits)
{
	struct event t = life_event(l, EV_TASK, r), at = life_event(l, EV_TASK_AT, r);

	t.task.state = task_state_of(r, waits);
	if (t.task.state == TASK_RUNNABLE || !r->since_ns)
		r->since_ns = l->now;
	r->run_ns += t.task.state == TASK_RUNNABLE ? LIFE_ROUND_NS * 9 / 10 : 0;
	t.task.since_ns = r->since_ns;
	t.task.run_ns = r->run_ns;
	at.task_at.wchan = at.task_at.file = "";
	at.task_at.syscall = waits || r->work == LIFE_STEP ? "futex" : "recvfrom";
	life_give(l, t);
	life_give(l, at);
}

void life_stack(struct life *l, const struct life_rank *r)
{
	struct event e = life_event(l, EV_STACK, r);

	e.stack.wait = r->work == LIFE_SLEEPS ? "recvfrom" : "futex";
	e.stack.file = e.stack.kernel = e.stack.end = e.stack.frames = "";
	e.stack.native = r->work == LIFE_SLEEPS ? "recv (libc.so.6)" : "step (train.so)";
	e.stack.python = r->site ? r->site : "";
	life_give(l, e);
}

void life_round(struct life *l, bool waits(const struct life_rank *r, double t), double t)
{
	for (int r = 0; r < N; r++) {
		if (l->ranks[r].work == LIFE_DEAD)
			continue;
		for (int c = 0; c < LIFE_COMMS; c++)
			sample_give(l, r, c);
		task_give(l, &l->ranks[r], waits(&l->ranks[r], t));
	}
	l->now += LIFE_ROUND_NS;
	life_give(l, (struct event){ .kind = EV_TICK, .ts_ns = l->now });
	if (detectors_tick(l->d, l->m, &l->list))
		exit(2);
	if (l->said)
		l->said(l);
}

/* --- steps --- */

bool life_waits(const struct life_rank *r, double t)
{
	return t >= r->own_s;
}

/* It is through with its own, and enters what it shares. */
static void enter(struct life_rank *r)
{
	r->entered[LIFE_DP] += 4;
	r->entered[LIFE_WORLD]++;
}

static void step_end(struct life *l, bool came[N])
{
	for (int r = 0; r < N; r++) {
		if (!came[r]) /* between the last two rounds */
			enter(&l->ranks[r]);
		l->ranks[r].work = LIFE_STEP;
		l->ranks[r].site = NULL;
		l->ranks[r].since_ns = 0;
	}
	l->n_steps++;
}

/* A step, or a phase that ends in a barrier: each rank enters what it shares when it is through with its own. */
static void step_play(struct life *l)
{
	bool came[N] = { false };
	double longest = 0;

	for (int r = 0; r < N; r++) {
		longest = fmax(longest, l->ranks[r].own_s);
		l->ranks[r].entered[LIFE_TP] += 32; /* launched at its begin: hosts run ahead */
	}
	for (double t = 0; t < longest; t += LIFE_ROUND_NS / 1e9) {
		for (int r = 0; r < N; r++)
			if (!came[r] && life_waits(&l->ranks[r], t)) {
				came[r] = true;
				enter(&l->ranks[r]);
			}
		life_round(l, life_waits, t);
	}
	step_end(l, came);
}

/* Its first stage has the bubble at the end; sequences differ. */
static void step_long(struct life *l)
{
	for (int r = 0; r < N; r++)
		l->ranks[r].own_s = l->step_s * (1 - (r >= N / 2 ? l->bubble : 0)) * (0.97 + 0.03 * unit(l));
	step_play(l);
}

static bool never_waits(const struct life_rank *r, double t)
{
	(void)r;
	(void)t;
	return false;
}

/* Many short steps between two samples; some rank is read one step behind. */
static void steps_short(struct life *l, double seconds)
{
	double due = 0;

	for (double t = 0; t < seconds; t += LIFE_ROUND_NS / 1e9) {
		int n = 0, behind = random_next(&l->rng) % (2 * N);

		for (due += LIFE_ROUND_NS / 1e9; due >= l->step_s; due -= l->step_s)
			n++;
		for (int r = 0; r < N; r++) {
			l->ranks[r].entered[LIFE_WORLD] += n;
			l->ranks[r].entered[LIFE_TP] += 32 * n;
			l->ranks[r].entered[LIFE_DP] += 4 * n;
		}
		if (behind < N && n)
			l->ranks[behind].entered[LIFE_WORLD]--;
		life_round(l, never_waits, t);
		if (behind < N && n)
			l->ranks[behind].entered[LIFE_WORLD]++;
		l->n_steps += n;
	}
}

void life_steps(struct life *l)
{
	int n = 1 + random_next(&l->rng) % 12;

	if (l->step_s < 1)
		steps_short(l, life_between(l, 2, 60));
	for (int i = 0; l->step_s >= 1 && i < n; i++)
		step_long(l);
}

/* --- phases --- */

/* Some rank (or that one) is at something else for so long, and then comes to the barrier. */
static void pause(struct life *l, const char *site, int rank, enum life_work work, double seconds)
{
	for (int r = 0; r < N; r++)
		l->ranks[r].own_s = 0;
	l->ranks[rank].own_s = seconds;
	l->ranks[rank].work = work;
	l->ranks[rank].site = site;
	l->n_pauses++;
	l->longest_s = fmax(l->longest_s, seconds);
	if (l->phase_begins)
		l->phase_begins(l, site);
	step_play(l);
}

static void checkpoint(struct life *l)
{
	pause(l, "/job/train.py:31 upload", 0, LIFE_SLEEPS, life_between(l, 5, 10));
}

static void evaluation(struct life *l)
{
	pause(l, "/job/train.py:52 evaluate", 0, LIFE_WORKS, life_between(l, 60, 150));
}

static void compilation(struct life *l)
{
	pause(l, "/job/model.py:90 compiled", any(l), LIFE_WORKS, life_between(l, 5, 40));
}

static void collection(struct life *l)
{
	pause(l, "/job/train.py:66 collect", any(l), LIFE_WORKS, life_between(l, 0.3, 2));
}

/* A worker begins, and its rank waits for the first batch. */
static void epoch(struct life *l)
{
	int r = any(l);
	struct life_rank *rank = &l->ranks[r];

	if (rank->child)
		proc_end(l, rank, rank->child, 15);
	rank->child = 0;
	life_child(l, rank);
	pause(l, "/job/data.py:12 next_batch", r, LIFE_SLEEPS, life_between(l, 1.5, 4));
}

static void renewed(struct life *l)
{
	l->generation++;
	l->n_steps = l->n_pauses = 0;
	l->longest_s = 0;
}

static void vanish(struct life *l)
{
	for (int r = 0; r < N; r++)
		for (int c = 0; c < LIFE_COMMS; c++) {
			struct event e = life_event(l, EV_COMM_VANISHED, &l->ranks[r]);

			e.comm_seen.addr = e.comm_seen.hash = hash_of(l, r, c);
			life_give(l, e);
			l->ranks[r].entered[c] = 0;
		}
	renewed(l);
}

/* One rank raises an error; the others notice after a while. Then all begin anew. */
static void abortion(struct life *l)
{
	pause(l, "/job/train.py:77 retry", any(l), LIFE_SLEEPS, life_between(l, 1, 4));
	vanish(l);
}

/* The launcher ends one, and starts it again; the others keep their processes. */
static void elastic(struct life *l)
{
	int r = any(l);

	life_rank_ends(l, &l->ranks[r], 15);
	vanish(l);
	l->now += (uint64_t)(life_between(l, 2, 20) * SEC);
	rank_begin(l, &l->ranks[r]);
}

void life_phase(struct life *l)
{
	static void (*const phases[])(struct life *) = { checkpoint, checkpoint, checkpoint, epoch,
							 epoch,      collection, collection, compilation,
							 evaluation, abortion,   elastic };

	phases[random_next(&l->rng) % 11](l);
}

void life_job_begin(struct life *l, double step_s)
{
	for (int r = 0; r < N; r++) {
		if (l->ranks[r].tgid)
			life_rank_ends(l, &l->ranks[r], 15);
		rank_begin(l, &l->ranks[r]);
	}
	renewed(l);
	l->step_s = step_s;
	l->bubble = 0.2 * unit(l);
	l->now += (uint64_t)(life_between(l, 5, 60) * SEC);
}

void life_begin(struct life *l, uint64_t seed)
{
	struct event e = { .kind = EV_START, .ts_ns = l->now = JOB_T0 };

	l->rng = seed;
	l->m = model_new();
	l->d = detectors_new();
	if (!l->m || !l->d)
		exit(2);
	e.start.hang_floor_ns = 1500 * MSEC;
	e.start.dstate_limit_ns = 5 * SEC;
	e.start.busy_limit_ns = 90 * SEC;
	e.start.host = "node7";
	life_give(l, e);
}

void life_end(struct life *l)
{
	finding_list_free(&l->list);
	detectors_free(l->d);
	model_free(l->m);
}
