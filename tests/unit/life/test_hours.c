/* SPDX-License-Identifier: Apache-2.0
 *
 * test_hours.c - hours of a healthy job's life in seconds: a session that samples (tier watch), with a clock of its
 * own. Eight ranks; every hour or two another job, by the length of its steps; phases as simjob --life has them, drawn
 * from SEED. The model, the detectors and the severities see what a session would give them, and may say nothing
 * critical; of a call site, whose stack is read half a second after a finding names it, one warning.
 *
 *     test_hours [HOURS]     3; with LONG=1 in the environment 200
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/job/job_script.h"

#define N 8
#define ROUND_NS (500 * MSEC) /* samples and a tick */
#define HOUR_S 3600.0
#define N_SITES 16
#define WARNINGS_MAX 2 /* of a site: one; and one more where the first was over before its stack was read */

enum comms { WORLD, TP, DP, N_COMMS };
enum work { STEP, SLEEPS, WORKS, N_WORKS };

struct rank {
	uint32_t tgid, child; /* child 0: none yet */
	uint64_t entered[N_COMMS], run_ns, since_ns;
	double own_s; /* of the step under way: so long it does something else than wait */
	enum work work;
	const char *site;
};

static struct model *m;
static struct detectors *d;
static struct finding_list list;
static uint64_t now, rng, generation, n_pids;
static struct rank ranks[N];
static double step_s, bubble;
static struct site_count {
	const char *name;
	int n_phases, n_warnings;
} sites[N_SITES];
static int n_critical, n_infos;
static uint64_t known[64];
static int n_known;

static double unit(void)
{
	return (double)(random_next(&rng) >> 11) / (double)(1ull << 53);
}

static double between(double lo, double hi)
{
	return lo * pow(hi / lo, unit());
}

/* --- events --- */

static struct event event_of(enum event_kind kind, const struct rank *r)
{
	return (struct event){ .kind = kind, .ts_ns = now, .tgid = r->tgid, .tid = r->tgid };
}

static void give(struct event e)
{
	if (model_apply(m, &e))
		exit(2);
}

static void proc_give(const struct rank *of, uint32_t tgid, bool is_child)
{
	struct event e = event_of(EV_PROC, of);

	e.tgid = e.tid = tgid;
	e.proc.start_ns = now;
	e.proc.parent_tgid = is_child ? of->tgid : 1;
	e.proc.rank = e.proc.local_rank = of - ranks;
	e.proc.world_size = N;
	e.proc.is_child = is_child;
	e.proc.job = e.proc.name = e.proc.container = e.proc.pod = "";
	give(e);
}

static void rank_begin(struct rank *r)
{
	*r = (struct rank){ .tgid = 1000 + ++n_pids };
	proc_give(r, r->tgid, false);
}

static void proc_end(const struct rank *of, uint32_t tgid)
{
	struct event e = event_of(EV_EXIT, of);

	e.tgid = e.tid = tgid;
	e.exit.last = true;
	e.exit.signal = 15;
	give(e);
}

static void rank_end(struct rank *r)
{
	if (r->child)
		proc_end(r, r->child);
	proc_end(r, r->tgid);
}

/* tp: pairs of neighbours; dp: ranks two apart, of one half. */
static uint64_t hash_of(int r, int c)
{
	uint64_t group = c == WORLD ? 0 : c == TP ? r / 2 : r / 4 * 2 + r % 2;

	return generation << 16 | (uint64_t)c << 8 | group | 0x80;
}

static void sample_give(int r, int c)
{
	struct event e = event_of(EV_COMM_SAMPLE, &ranks[r]);

	e.comm_sample.comm = e.comm_sample.hash = hash_of(r, c);
	e.comm_sample.rank = c == WORLD ? r : c == TP ? r % 2 : r / 2 % 2;
	e.comm_sample.nranks = c == WORLD ? N : 2;
	e.comm_sample.n_counters = OP_KINDS_COUNTED;
	e.comm_sample.counters[OP_ALLREDUCE] = ranks[r].entered[c];
	give(e);
}

static void task_give(struct rank *r, bool waits)
{
	struct event t = event_of(EV_TASK, r), at = event_of(EV_TASK_AT, r);
	bool runs = !waits && r->work == WORKS;

	if (runs || !r->since_ns)
		r->since_ns = now;
	r->run_ns += runs ? ROUND_NS * 9 / 10 : 0;
	t.task.state = runs ? TASK_RUNNABLE : TASK_SLEEP;
	t.task.since_ns = r->since_ns;
	t.task.run_ns = r->run_ns;
	at.task_at.wchan = at.task_at.file = "";
	at.task_at.syscall = waits || r->work == STEP ? "futex" : "recvfrom";
	give(t);
	give(at);
}

/* As a session does it, of the ranks that a finding names. */
static void stack_give(const struct rank *r)
{
	struct event e = event_of(EV_STACK, r);

	e.stack.wait = r->work == SLEEPS ? "recvfrom" : "futex";
	e.stack.file = e.stack.kernel = e.stack.end = e.stack.frames = "";
	e.stack.native = r->work == SLEEPS ? "recv (libc.so.6)" : "step (train.so)";
	e.stack.python = r->site;
	give(e);
}

/* --- what is said --- */

static struct site_count *site_of(const char *name)
{
	int i = 0;

	while (sites[i].name && strcmp(sites[i].name, name))
		i++;
	sites[i].name = name;
	return &sites[i];
}

static bool is_new(uint64_t key)
{
	for (int i = 0; i < n_known; i++)
		if (known[i] == key)
			return false;
	known[n_known++ % 64] = key;
	n_known = n_known < 64 ? n_known : 64;
	return true;
}

static void finding_print(const struct finding *f, const char *site)
{
	printf("  %.1f s: %s/%s %s rank %d at %s, waited %.1f s\n", (now - JOB_T0) / 1e9, finding_kind_name(f->kind),
	       hang_class_name(f->class), f->severity == SEVERITY_CRITICAL ? "critical" : "warning",
	       f->n_ranks ? f->ranks[0] : -1, site, (now - f->since_ns) / 1e9);
}

static void findings_read(void)
{
	for (size_t i = 0; i < list.n; i++) {
		const struct finding *f = &list.items[i];
		const struct rank *r = &ranks[f->n_ranks ? f->ranks[0] : 0];
		const char *site = r->site ? r->site : "step";

		if (r->site)
			stack_give(r);
		if (f->severity == SEVERITY_INFO || !is_new(f->key ^ (uint64_t)f->severity << 60)) {
			n_infos += f->severity == SEVERITY_INFO;
			continue;
		}
		n_critical += f->severity == SEVERITY_CRITICAL;
		site_of(site)->n_warnings += f->severity != SEVERITY_CRITICAL;
		if (f->severity == SEVERITY_CRITICAL || getenv("SHOW"))
			finding_print(f, site);
	}
}

static void round_give(bool waits(const struct rank *r, double t), double t)
{
	for (int r = 0; r < N; r++) {
		for (int c = 0; c < N_COMMS; c++)
			sample_give(r, c);
		task_give(&ranks[r], waits(&ranks[r], t));
	}
	now += ROUND_NS;
	give((struct event){ .kind = EV_TICK, .ts_ns = now });
	if (detectors_tick(d, m, &list))
		exit(2);
	findings_read();
}

/* --- life --- */

static bool waits_at(const struct rank *r, double t)
{
	return t >= r->own_s;
}

/* Who comes between two rounds comes, too. */
static void all_enter(int r, int c)
{
	for (int o = 0; o < N; o++)
		if (hash_of(o, c) == hash_of(r, c) && ranks[o].entered[c] > ranks[r].entered[c])
			ranks[r].entered[c] = ranks[o].entered[c];
}

/* A step, or a phase that ends in a barrier: each rank enters what it shares when it is through with its own. */
static void step_play(void)
{
	double longest = 0;

	for (int r = 0; r < N; r++)
		longest = fmax(longest, ranks[r].own_s);
	for (int r = 0; r < N; r++)
		ranks[r].entered[TP] += 32; /* launched at its begin: hosts run ahead */
	for (double t = 0; t < longest; t += ROUND_NS / 1e9) {
		for (int r = 0; r < N; r++) {
			bool just = waits_at(&ranks[r], t) && (t == 0 || !waits_at(&ranks[r], t - ROUND_NS / 1e9));

			ranks[r].entered[DP] += just ? 4 : 0;
			ranks[r].entered[WORLD] += just;
		}
		round_give(waits_at, t);
	}
	for (int r = 0; r < N; r++) {
		ranks[r].work = STEP;
		ranks[r].site = NULL;
		ranks[r].since_ns = 0;
		for (int c = 0; c < N_COMMS; c++)
			all_enter(r, c);
	}
}

/* Its first stage has the bubble at the end; sequences differ. */
static void step_long(void)
{
	for (int r = 0; r < N; r++)
		ranks[r].own_s = step_s * (1 - (r >= N / 2 ? bubble : 0)) * (0.97 + 0.03 * unit());
	step_play();
}

static bool never_waits(const struct rank *r, double t)
{
	(void)r;
	(void)t;
	return false;
}

/* Many short steps between two samples; some rank is read one step behind. */
static void steps_short(double seconds)
{
	double due = 0;

	for (double t = 0; t < seconds; t += ROUND_NS / 1e9) {
		int n = 0, behind = random_next(&rng) % (2 * N);

		for (due += ROUND_NS / 1e9; due >= step_s; due -= step_s)
			n++;
		for (int r = 0; r < N; r++) {
			ranks[r].entered[WORLD] += n;
			ranks[r].entered[TP] += 32 * n;
			ranks[r].entered[DP] += 4 * n;
		}
		if (behind < N && n)
			ranks[behind].entered[WORLD]--;
		round_give(never_waits, t);
		if (behind < N && n)
			ranks[behind].entered[WORLD]++;
	}
}

/* Some rank (or that one) is at something else for so long, and then comes to the barrier. */
static void pause(const char *site, int rank, enum work work, double seconds)
{
	for (int r = 0; r < N; r++)
		ranks[r].own_s = 0;
	ranks[rank].own_s = seconds;
	ranks[rank].work = work;
	ranks[rank].site = site;
	site_of(site)->n_phases++;
	step_play();
}

static int any(void)
{
	return random_next(&rng) % N;
}

static void checkpoint(void)
{
	pause("/job/train.py:31 upload", 0, SLEEPS, between(5, 10));
}

static void evaluation(void)
{
	pause("/job/train.py:52 evaluate", 0, WORKS, between(60, 150));
}

static void compilation(void)
{
	pause("/job/model.py:90 compiled", any(), WORKS, between(5, 40));
}

static void collection(void)
{
	pause("/job/train.py:66 collect", any(), WORKS, between(0.3, 2));
}

/* A worker begins, and its rank waits for the first batch. */
static void epoch(void)
{
	int r = any();
	struct rank *rank = &ranks[r];

	if (rank->child)
		proc_end(rank, rank->child);
	rank->child = 1000 + ++n_pids;
	proc_give(rank, rank->child, true);
	pause("/job/data.py:12 next_batch", r, SLEEPS, between(1.5, 4));
}

static void vanish(void)
{
	for (int r = 0; r < N; r++)
		for (int c = 0; c < N_COMMS; c++) {
			struct event e = event_of(EV_COMM_VANISHED, &ranks[r]);

			e.comm_seen.addr = e.comm_seen.hash = hash_of(r, c);
			give(e);
			ranks[r].entered[c] = 0;
		}
	generation++;
}

/* One rank raises an error; the others notice after a while. Then all begin anew. */
static void abortion(void)
{
	pause("/job/train.py:77 retry", any(), SLEEPS, between(1, 4));
	vanish();
}

/* The launcher ends one, and starts it again; the others keep their processes. */
static void elastic(void)
{
	int r = any();

	rank_end(&ranks[r]);
	vanish();
	now += (uint64_t)(between(2, 20) * SEC);
	rank_begin(&ranks[r]);
}

/* Another job on the same host, of the same code: other processes, other steps; what was learnt stays known. */
static void job_begin(void)
{
	static const double lengths[] = { 0.05, 0.24, 0.5, 1, 3, 12, 16, 60, 120 };

	for (int r = 0; r < N; r++) {
		if (ranks[r].tgid)
			rank_end(&ranks[r]);
		rank_begin(&ranks[r]);
	}
	generation++;
	step_s = lengths[random_next(&rng) % 9];
	bubble = 0.2 * unit();
	now += (uint64_t)(between(5, 60) * SEC);
}

static void steps_play(void)
{
	int n = 1 + random_next(&rng) % 12;

	if (step_s < 1)
		steps_short(between(2, 60));
	for (int i = 0; step_s >= 1 && i < n; i++)
		step_long();
}

static void life_play(double hours)
{
	static void (*const phases[])(void) = { checkpoint, checkpoint,  checkpoint, epoch,    epoch,  collection,
						collection, compilation, evaluation, abortion, elastic };
	uint64_t end = now + (uint64_t)(hours * HOUR_S * SEC), job_end = 0;

	while (now < end) {
		if (now >= job_end) {
			job_begin();
			job_end = now + (uint64_t)(between(0.5, 3) * HOUR_S * SEC);
			steps_play();
		}
		phases[random_next(&rng) % 11]();
		steps_play(); /* that it is over is seen */
	}
}

int main(int argc, char **argv)
{
	double hours = argc > 1 ? atof(argv[1]) : getenv("LONG") && *getenv("LONG") ? 200 : 3;
	struct event e = { .kind = EV_START, .ts_ns = now = JOB_T0 };
	int n_often = 0;

	rng = test_seed();
	m = model_new();
	d = detectors_new();
	if (!m || !d)
		return 2;
	e.start.hang_floor_ns = 1500 * MSEC;
	e.start.dstate_limit_ns = 5 * SEC;
	e.start.busy_limit_ns = 90 * SEC;
	e.start.host = "node7";
	give(e);
	life_play(hours);
	printf("%.0f hours: %d critical, %d ticks with something to know\n", hours, n_critical, n_infos);
	for (int i = 0; sites[i].name; i++) {
		printf("  %-28s %4d phases, %d warnings\n", sites[i].name, sites[i].n_phases, sites[i].n_warnings);
		n_often += sites[i].n_warnings > WARNINGS_MAX;
	}
	finding_list_free(&list);
	detectors_free(d);
	model_free(m);
	return n_critical || n_often;
}
