/* SPDX-License-Identifier: Apache-2.0
 *
 * test_life_faults.c - a fault amid the life of a job that is only sampled (life_job.h): after some drawn phases one
 * rank stops, dies, sleeps, works, is blocked, or calls in another order. It is named in time, counted from the first
 * peer that waits for it; nobody else is critical at any time, nor named from then on. Drawn from SEED; TRIALS=n (120).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/life/life_job.h"

#define QUICK_S 1.0 /* steps up to that: the bars of the fault matrix; of longer ones the habit counts, too */
#define NAMED_S 5.0
#define GONE_S 3.0  /* who is stopped or dead: the hang floor, a round, a tick */
#define CARE_S 11.5 /* communicators that are new: nobody knows yet what they are used to */
#define CARE_STEPS 5
#define HABIT_STEPS 50
#define BLOCKED_MIN_S 5.0
#define BLOCKED_MAX_S 6.5
#define CRITICAL_S 30.0
#define BUSY_S 90.0
#define WATCHED_S 60.0 /* so long at most */

enum how { STOPS, DIES, SLEEPS, SLEEPS_LONGER, WORKS, BLOCKS, CHILD_BLOCKS, OTHER_ORDER, N_HOWS };
enum place { BEFORE_TP, BEFORE_DP, BEFORE_WORLD, N_PLACES };

static const char *const how_names[] = { "stops", "dies",   "sleeps",           "sleeps where it uploads",
					 "works", "blocks", "its child blocks", "other order" };

struct trial {
	enum how how;
	enum place place;
	bool hosts_wait; /* after each operation; else they run ahead to the end of the step */
	int rank;
	bool on, is_blocked_known;
	uint64_t begin_ns, first_wait_ns; /* 0: not yet */
	uint64_t named_ns, critical_ns, seen_ns, since_ns;
	double habit_s; /* what the communicators may be used to */
	bool is_new;    /* they are */
	char why[200];
};

static struct bars {
	int n;
	double worst_s;
} bars[N_HOWS];

static struct trial *trial_of(const struct life *l)
{
	return l->arg;
}

/* --- what is said --- */

static bool is_culprit(const struct trial *t, int rank)
{
	return rank == t->rank || (t->how == OTHER_ORDER && rank == (t->rank ^ 2));
}

static bool names_culprits_only(const struct trial *t, const struct finding *f)
{
	for (int i = 0; i < f->n_ranks; i++)
		if (!is_culprit(t, f->ranks[i]))
			return false;
	return f->n_ranks > 0;
}

static bool is_the_fault(const struct trial *t, const struct finding *f)
{
	static const enum hang_class classes[] = {
		[STOPS] = HANG_STOPPED,        [DIES] = HANG_PROCESS_DEAD,
		[SLEEPS] = HANG_MISSING_ENTER, [SLEEPS_LONGER] = HANG_MISSING_ENTER,
		[WORKS] = HANG_MISSING_ENTER,  [OTHER_ORDER] = HANG_DEADLOCK,
	};

	if (t->how == BLOCKS || t->how == CHILD_BLOCKS)
		return f->kind == FINDING_D_STATE;
	return f->kind == FINDING_HANG && f->class == classes[t->how];
}

static void wrong_note(struct trial *t, const struct life *l, const struct finding *f, const char *what)
{
	if (*t->why)
		return;
	snprintf(t->why, sizeof(t->why), "%s at %.1f s: %s/%s of rank %d, waited %.1f s", what, (l->now - JOB_T0) / 1e9,
		 finding_kind_name(f->kind), hang_class_name(f->class), f->n_ranks ? f->ranks[0] : -1,
		 (l->now - f->since_ns) / 1e9);
}

static void finding_read(struct life *l, struct trial *t, const struct finding *f)
{
	bool culprit = t->on && names_culprits_only(t, f);

	if (!culprit && !f->caused_by_key && f->severity == SEVERITY_CRITICAL)
		wrong_note(t, l, f, "critical");
	if (t->on && !culprit && !f->caused_by_key && f->severity == SEVERITY_WARNING && f->n_ranks)
		wrong_note(t, l, f, "named besides");
	if (!culprit)
		return;
	t->seen_ns = t->seen_ns ? t->seen_ns : l->now;
	if (!is_the_fault(t, f) || f->severity == SEVERITY_INFO)
		return;
	t->named_ns = t->named_ns ? t->named_ns : l->now;
	t->since_ns = f->since_ns;
	if (f->severity == SEVERITY_CRITICAL && !t->critical_ns)
		t->critical_ns = l->now;
}

static void findings_read(struct life *l)
{
	for (size_t i = 0; i < l->list.n; i++) {
		const struct finding *f = &l->list.items[i];
		const struct life_rank *r = &l->ranks[f->n_ranks ? f->ranks[0] : 0];

		finding_read(l, trial_of(l), f);
		if (f->n_ranks && r->work != LIFE_DEAD)
			life_stack(l, r);
	}
}

/* --- the fault --- */

static void culprit_strike(struct life *l, struct trial *t)
{
	static const enum life_work works[] = {
		[STOPS] = LIFE_STOPPED,      [DIES] = LIFE_DEAD,     [WORKS] = LIFE_WORKS,
		[BLOCKS] = LIFE_BLOCKED,     [SLEEPS] = LIFE_SLEEPS, [SLEEPS_LONGER] = LIFE_SLEEPS,
		[CHILD_BLOCKS] = LIFE_SLEEPS
	};
	struct life_rank *r = &l->ranks[t->rank];

	t->on = true;
	t->begin_ns = l->now;
	r->since_ns = 0;
	r->work = t->how == OTHER_ORDER ? LIFE_STEP : works[t->how];
	if (t->how == SLEEPS || t->how == WORKS)
		r->site = "/job/train.py:44 lock";
	if (t->how == SLEEPS_LONGER)
		r->site = "/job/train.py:31 upload";
	if (t->how == CHILD_BLOCKS)
		life_child(l, r);
	if (t->how == DIES)
		life_rank_ends(l, r, 9);
}

static bool waits_in_vain(const struct trial *t, int rank)
{
	return (t->place <= BEFORE_DP && rank == (t->rank ^ 2)) || (t->place == BEFORE_TP && rank == (t->rank ^ 1 ^ 2));
}

/* It is through with what is its own, and enters what it can. */
static void peer_arrives(struct life *l, struct trial *t, int rank)
{
	struct life_rank *r = &l->ranks[rank];

	if (t->how == OTHER_ORDER && rank == (t->rank ^ 2)) {
		r->entered[LIFE_DP] += 4;
		return;
	}
	if (t->place == BEFORE_TP && rank == (t->rank ^ 1))
		return;
	r->entered[LIFE_DP] += t->hosts_wait && waits_in_vain(t, rank) ? 1 : 4;
	r->entered[LIFE_WORLD] += !t->hosts_wait || !waits_in_vain(t, rank);
}

static void culprit_arrives(struct life *l, struct trial *t)
{
	struct life_rank *r = &l->ranks[t->rank];

	if (t->how == OTHER_ORDER) {
		r->entered[LIFE_DP] += 3;
		r->entered[LIFE_WORLD]++;
	} else if (t->place == BEFORE_WORLD) {
		r->entered[LIFE_DP] += 4;
	}
	culprit_strike(l, t);
}

/* Somebody is ahead of it in a communicator that they share. */
static bool has_waiter(const struct life *l, const struct trial *t)
{
	const uint64_t *mine = l->ranks[t->rank].entered;

	for (int r = 0; r < LIFE_RANKS; r++)
		if (l->ranks[r].entered[LIFE_WORLD] > mine[LIFE_WORLD])
			return true;
	return l->ranks[t->rank ^ 1].entered[LIFE_TP] > mine[LIFE_TP] ||
	       l->ranks[t->rank ^ 2].entered[LIFE_DP] > mine[LIFE_DP];
}

static void blocked_give(struct life *l, struct trial *t)
{
	struct life_rank *r = &l->ranks[t->rank];
	struct event e = life_event(l, EV_BLOCKED, r), task = life_event(l, EV_TASK, r);

	if (t->how == CHILD_BLOCKS) {
		e.tgid = e.tid = task.tgid = task.tid = r->child;
		task.task.state = TASK_DISK;
		task.task.since_ns = t->begin_ns;
		life_give(l, task);
	}
	if (t->is_blocked_known || l->now < t->begin_ns + 5 * SEC)
		return;
	t->is_blocked_known = true;
	e.blocked.begin_ns = t->begin_ns;
	e.blocked.kernel_stack = "percpu_rwsem_wait\nmnt_want_write\nopen_last_lookups";
	e.blocked.user_stack = "";
	e.blocked.wchan = "percpu_rwsem_wait";
	e.blocked.syscall = "openat";
	e.blocked.file = "/ckpt";
	life_give(l, e);
}

static void arrivals(struct life *l, struct trial *t, double s)
{
	for (int r = 0; r < LIFE_RANKS; r++) {
		const struct life_rank *rank = &l->ranks[r];

		if (!life_waits(rank, s) || (s > 0 && life_waits(rank, s - LIFE_ROUND_NS / 1e9)))
			continue;
		if (r == t->rank)
			culprit_arrives(l, t);
		else
			peer_arrives(l, t, r);
	}
	if (t->on && !t->first_wait_ns && has_waiter(l, t))
		t->first_wait_ns = l->now;
}

static bool sits_in_wait(const struct life_rank *r, double s)
{
	return life_waits(r, s) && r->work == LIFE_STEP;
}

static bool is_over(const struct life *l, const struct trial *t)
{
	if (*t->why || (t->first_wait_ns && l->now > t->first_wait_ns + (uint64_t)((WATCHED_S + 3 * t->habit_s) * SEC)))
		return true;
	return t->critical_ns && l->now > t->critical_ns + 2 * SEC;
}

static void fault_play(struct life *l, struct trial *t)
{
	int launched = random_next(&l->rng) % 32;

	for (int r = 0; r < LIFE_RANKS; r++) {
		bool held = t->place == BEFORE_TP && t->how != OTHER_ORDER && r / 2 == t->rank / 2;

		l->ranks[r].own_s = l->step_s * (1 - (r >= LIFE_RANKS / 2 ? l->bubble : 0));
		l->ranks[r].entered[LIFE_TP] += held ? launched + (r != t->rank) : 32;
		if (held)
			l->ranks[r].own_s = 0;
	}
	for (double s = 0; !is_over(l, t); s += LIFE_ROUND_NS / 1e9) {
		arrivals(l, t, s);
		if (t->on && (t->how == BLOCKS || t->how == CHILD_BLOCKS))
			blocked_give(l, t);
		life_round(l, sits_in_wait, s);
	}
}

/* --- the bars --- */

static double after_s(uint64_t ns, uint64_t begin_ns)
{
	return ns ? (ns - (double)begin_ns) / SEC : INFINITY;
}

static double named_bar_s(const struct trial *t)
{
	if (t->how == STOPS || t->how == DIES)
		return GONE_S;
	if (t->how == BLOCKS || t->how == CHILD_BLOCKS)
		return BLOCKED_MAX_S;
	if (t->how == SLEEPS_LONGER) /* three times the longest upload */
		return fmax(3 * 10 + 2, NAMED_S + 1.15 * t->habit_s);
	return fmax(t->is_new ? CARE_S : 0, NAMED_S + 1.15 * t->habit_s);
}

static void judge(struct trial *t)
{
	bool sleeps = t->how == SLEEPS || t->how == SLEEPS_LONGER;
	uint64_t from = t->how == BLOCKS || t->how == CHILD_BLOCKS ? t->begin_ns : t->first_wait_ns;
	double named_s = after_s(t->how == WORKS ? t->seen_ns : t->named_ns, from);
	double critical_s = after_s(t->critical_ns, sleeps ? t->since_ns : from);

	bars[t->how].n++;
	if (t->habit_s == 0 && !t->is_new)
		bars[t->how].worst_s = fmax(bars[t->how].worst_s, named_s);
	if (*t->why)
		return;
	if (named_s > named_bar_s(t) || (t->how == BLOCKS && named_s < BLOCKED_MIN_S))
		snprintf(t->why, sizeof(t->why), "named after %.1f s, bar %.1f s", named_s, named_bar_s(t));
	else if (t->how == WORKS && after_s(t->named_ns, t->since_ns) < BUSY_S)
		snprintf(t->why, sizeof(t->why), "who works is a hang after %.1f s", after_s(t->named_ns, t->since_ns));
	else if (sleeps && (critical_s < CRITICAL_S || critical_s > CRITICAL_S + 2 * t->habit_s + CARE_S))
		snprintf(t->why, sizeof(t->why), "a sleeper is critical after %.1f s", critical_s);
	else if (!sleeps && t->how != WORKS && critical_s > named_s)
		snprintf(t->why, sizeof(t->why), "named after %.1f s, critical after %.1f s", named_s, critical_s);
}

/* --- trials --- */

static struct trial trial_draw(struct life *l, uint64_t n)
{
	struct trial t = { .how = n % N_HOWS, .place = random_next(&l->rng) % N_PLACES };

	t.rank = random_next(&l->rng) % LIFE_RANKS;
	t.hosts_wait = random_next(&l->rng) % 2;
	if (t.how == SLEEPS_LONGER)
		t.rank = 0;
	if (t.how == SLEEPS_LONGER || t.how == OTHER_ORDER)
		t.place = BEFORE_WORLD;
	return t;
}

/* What its communicators may be used to: the bubble of long steps, and pauses that come with one step in fifty or more.
 */
static double habit_s(const struct life *l)
{
	double bubble_s = l->step_s > QUICK_S ? l->step_s * (l->bubble + 0.03) : 0;

	return HABIT_STEPS * l->n_pauses < l->n_steps ? bubble_s : fmax(bubble_s, l->longest_s);
}

static bool trial_run(uint64_t seed, uint64_t n)
{
	static const double lengths[] = { 0.05, 0.24, 0.5, 1, 0.05, 3, 12, 60 };
	struct life l = { .said = findings_read };
	struct trial t;

	life_begin(&l, seed);
	t = trial_draw(&l, n);
	l.arg = &t;
	life_job_begin(&l, lengths[random_next(&l.rng) % 8]);
	life_steps(&l);
	for (int i = random_next(&l.rng) % 16 + 2; i > 0 && !*t.why; i--) {
		life_phase(&l);
		life_steps(&l);
	}
	t.is_new = l.n_steps < CARE_STEPS;
	t.habit_s = habit_s(&l);
	if (!*t.why)
		fault_play(&l, &t);
	judge(&t);
	if (*t.why)
		printf("SEED=%llu TRIALS=1 FIRST=%llu: %s, rank %d, place %d, hosts %s, steps of %.2f s: %s\n",
		       (unsigned long long)seed, (unsigned long long)n % N_HOWS, how_names[t.how], t.rank, t.place,
		       t.hosts_wait ? "wait" : "run ahead", l.step_s, t.why);
	life_end(&l);
	return !*t.why;
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
	return getenv(name) ? strtoull(getenv(name), NULL, 0) : otherwise;
}

int main(void)
{
	uint64_t trials = number_of("TRIALS", getenv("SHORT") ? 40 : 120);
	uint64_t rng = test_seed(), first = number_of("FIRST", 0);
	int failed = 0;

	for (uint64_t i = 0; i < trials; i++)
		failed += !trial_run(i ? random_next(&rng) : rng, first + i);
	for (int h = 0; h < N_HOWS; h++)
		printf("  %-24s %3d times, named after %.1f s at most, by steps of up to %.0f s\n", how_names[h],
		       bars[h].n, bars[h].worst_s, QUICK_S);
	printf("%d of %llu wrong\n", failed, (unsigned long long)trials);
	return failed != 0;
}
