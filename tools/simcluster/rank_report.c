/* SPDX-License-Identifier: Apache-2.0
 *
 * rank_report.c - see rank_report.h. What an agent cannot know is not in it: neither when a GPU began an operation nor
 * when it ended one, but for the end that its host saw, late by an error.
 */
#include "tools/simcluster/rank_report.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"

#define START_BEFORE_S 20.0 /* a process is there so long before its first operation */
#define LISTED_DEAD_S 30.0  /* an agent lists it so long after its end */
#define ENDS_WITHIN_S 2.0   /* the processes of a restart, one after the other */
#define COMM_HASH 0x5ca1ab1e
#define DSTATE_LIMIT_S 5.0
/* Percent, as measured on H200s while a step computes, and while it waits in NCCL (docs/measurements/gpu.md). */
#define SM_WORKS 91
#define SM_NCCL 49
#define SM_RECV 3 /* assumed: two channels of a transfer, an SM each or two, of 132 */
#define TENSOR_WORKS 57
#define GPU_SCATTER 0.01
#define CLOCK_STEP_MHZ 15 /* NVML's */
/* MHz, and the deviation of single readings: below the power cap, and at it. */
static const struct {
	double mhz, scatter;
} clocks[] = { { 1980, 0.005 }, { 1600, 0.06 } };

enum { STATE_RUNS = 1, STATE_SLEEPS = 3, STATE_DISK = 4, STATE_STOPPED = 5 };
enum { COUNT_ALLGATHER = 2, COUNT_REDUCESCATTER = 3, COUNT_ALLREDUCE = 4 };

struct place { /* where the main thread is */
	int state;
	const char *wchan, *syscall, *python, *native;
};

/* A job's CUDA context spins or sleeps: one way for all its ranks. */
static const struct place waits[2] = {
	{ STATE_RUNS, "", "", "train.py:88 train_step", "cuStreamSynchronize" },
	{ STATE_SLEEPS, "poll_schedule_timeout", "poll", "train.py:88 train_step", "cuStreamSynchronize" },
};

static const struct place pauses[PAUSE_KINDS] = {
	[PAUSE_SLEEP] = { STATE_SLEEPS, "futex_wait_queue", "futex", "data.py:41 next_batch", "pthread_cond_wait" },
	[PAUSE_WORK] = { STATE_RUNS, "", "", "layers.py:12 forward", "" },
	[PAUSE_STORAGE] = { STATE_DISK, "folio_wait_bit_common", "write", "checkpoint.py:19 save", "write" },
	[PAUSE_D] = { STATE_DISK, "rpc_wait_bit_killable", "write", "checkpoint.py:19 save", "write" },
	[PAUSE_STOPPED] = { STATE_STOPPED, "do_signal_stop", "", "", "" },
};
static const struct place calling = { STATE_RUNS, "", "", "layers.py:30 forward", "ncclAllReduce" };

static uint64_t comm_hash(const struct cluster *c, unsigned generation, int rank, enum sim_comm comm)
{
	return hash_mix(hash_mix(COMM_HASH + generation, comm), (uint64_t)comm_number(c, rank, comm));
}

/* --- life and death --- */

/* Processes of the generation before live until so long after its end. */
static double old_end(const struct cluster *c, int rank)
{
	return c->gone_s + (double)(hash_mix(c->generation, (uint64_t)rank) % 1000) * 1e-3 * ENDS_WITHIN_S;
}

enum presence { ABSENT, OLD_DYING, OLD_DEAD, YOUNG /* no communicator yet */, TRAINS };

static enum presence presence_of(const struct read_at *r, int rank)
{
	const struct cluster *c = r->c;

	if (!c->generation || c->step > 1 || r->at_s >= c->begin_s)
		return TRAINS;
	if (r->at_s < old_end(c, rank))
		return OLD_DYING;
	if (r->at_s < old_end(c, rank) + LISTED_DEAD_S && r->at_s < c->begin_s - START_BEFORE_S)
		return OLD_DEAD;
	return r->at_s < c->begin_s - START_BEFORE_S ? ABSENT : YOUNG;
}

static void identity_put(const struct read_at *r, int rank, unsigned generation, Cluster__Process *p)
{
	*p = (Cluster__Process)CLUSTER__PROCESS__INIT;
	p->has_pid = p->has_start_ns = p->has_parent = p->has_rank = p->has_local_rank = p->has_world_size = 1;
	p->pid = 4000 + 100 * generation % 30000 + rank % PER_HOST;
	p->start_ns = (uint64_t)((r->host_s - 60 + 60 * (generation ? r->c->gone_s / 60 + 1 : 0)) * 1e9) + p->pid;
	p->parent = 3000 + generation;
	p->rank = rank;
	p->local_rank = rank % PER_HOST;
	p->world_size = r->c->n_ranks;
	p->has_user = p->has_netns = 1;
	p->user = 1001;
	p->netns = 4026531840u;
	p->job = (char *)"llm-10k";
	p->name = (char *)"python3";
	p->slurm_job = (char *)"4711";
}

static void death_put(const struct read_at *r, double dead_s, uint32_t signal, Cluster__Process *p)
{
	p->has_dead = p->has_exit_age_ns = p->has_exit_signal = p->has_exit_code = 1;
	p->dead = true;
	p->exit_signal = signal;
	p->exit_age_ns = read_age_ns(r, dead_s);
}

/* --- communicators --- */

int count_kind(const struct sim_op *o)
{
	if (o->comm != SIM_DP)
		return COUNT_ALLREDUCE;
	return o->forward ? COUNT_ALLGATHER : COUNT_REDUCESCATTER;
}

/* Counters as they were then. */
static void counters_read(const struct cluster *c, int rank, double at_s, uint64_t to[SIM_COMMS][KINDS])
{
	const double *called = rank_times(c->now.called, c, rank);
	unsigned long steps = c->step ? c->step - 1 : 0;

	memset(to, 0, sizeof(uint64_t) * SIM_COMMS * KINDS);
	for (int i = 0; i < c->n_ops && c->step; i++) {
		const struct sim_op *o = rank_op(c, rank, i);

		to[o->comm][count_kind(o)] += steps + (called[i] <= at_s);
	}
}

static void comm_read(struct comm_seen *s, const uint64_t counters[KINDS], double at_s)
{
	if (!s->read || memcmp(s->counters, counters, sizeof(s->counters))) {
		s->before_s = s->read ? s->read_s : 0;
		s->same_s = at_s;
		memcpy(s->counters, counters, sizeof(s->counters));
	}
	s->read = true;
	s->read_s = at_s;
}

static void member_put(const struct read_at *r, int rank, enum sim_comm comm, struct rank_seen *seen,
		       struct rank_parts *to)
{
	const struct comm_seen *s = &seen->comms[comm];
	Cluster__Member *m = to->member_list[to->proc.n_comms] = &to->members[to->proc.n_comms];

	to->proc.n_comms++;
	*m = (Cluster__Member)CLUSTER__MEMBER__INIT;
	m->has_addr = m->has_hash = m->has_rank = m->has_nranks = m->has_device = m->has_sampled_age_ns =
		m->has_same_age_ns = m->has_init_state = 1;
	m->addr = comm_addr(comm);
	m->hash = comm_hash(r->c, seen->generation, rank, comm);
	m->rank = rank_in(r->c, rank, comm);
	m->nranks = comm_size(r->c, comm);
	m->device = rank % PER_HOST;
	m->counters = seen->comms[comm].counters;
	m->n_counters = KINDS;
	m->sampled_age_ns = read_age_ns(r, s->read_s);
	m->same_age_ns = read_age_ns(r, s->same_s);
	m->has_before_age_ns = s->before_s > 0;
	m->before_age_ns = read_age_ns(r, s->before_s);
	if (!r->noise->calls || seen->generation != r->c->generation)
		return;
	calls_numbers_put(r, rank, comm, seen->before_s, m);
	if (comm == SIM_PP)
		calls_peers_put(r, rank, to, m);
}

static void members_read(const struct read_at *r, int rank, struct rank_seen *seen)
{
	uint64_t counters[SIM_COMMS][KINDS];

	counters_read(r->c, rank, r->at_s, counters);
	for (int k = 0; k < SIM_COMMS; k++)
		comm_read(&seen->comms[k], counters[k], r->at_s);
}

static void members_put(const struct read_at *r, int rank, struct rank_seen *seen, struct rank_parts *to)
{
	to->proc.comms = to->member_list;
	for (int k = 0; k < SIM_COMMS; k++)
		if (comm_size(r->c, k) > 1 && seen->comms[k].read)
			member_put(r, rank, k, seen, to);
}

/* --- threads, GPUs --- */

static struct place place_of(const struct read_at *r, int rank, enum presence there)
{
	const struct sim_rank *k = &r->c->ranks[rank];
	const struct place *wait = &waits[r->noise->asleep];
	struct place p;

	if (there == YOUNG)
		return pauses[PAUSE_WORK];
	switch (host_state_at(r->c, rank, r->at_s)) {
	case HOST_WAITS: return *wait;
	case HOST_CALLS: return calling;
	default: break;
	}
	p = pauses[k->pause.kind];
	if (k->pause.kind == PAUSE_STORAGE && draw_unit(r->draw) < 0.4) /* between two blocks it runs */
		p.state = STATE_RUNS;
	return p;
}

static void times_add(struct rank_seen *seen, const struct place *p, double at_s)
{
	double s = seen->read_s > 0 ? at_s - seen->read_s : 0;

	if (p->state != seen->state || p->state == STATE_RUNS || p->state == STATE_DISK)
		seen->state_s = p->state == STATE_DISK && p->state == seen->state ? seen->state_s : at_s - 1e-3;
	seen->run_s += p->state == STATE_RUNS ? s : 0.005 * s;
	seen->sleep_s += p->state == STATE_RUNS ? 0 : s;
	seen->stopped_s += p->state == STATE_STOPPED ? s : 0;
	seen->state = p->state;
}

static void thread_put(const struct read_at *r, const struct place *p, struct rank_seen *seen, struct rank_parts *to)
{
	Cluster__Thread *t = &to->thread;

	*t = (Cluster__Thread)CLUSTER__THREAD__INIT;
	t->has_tid = t->has_state = t->has_state_age_ns = t->has_seen_age_ns = t->has_run_ns = t->has_wait_ns =
		t->has_sleep_ns = t->has_at_age_ns = 1;
	t->tid = to->proc.pid;
	t->name = (char *)"python3";
	t->state = (uint32_t)p->state;
	t->state_age_ns = read_age_ns(r, seen->state_s);
	t->seen_age_ns = t->at_age_ns = read_age_ns(r, r->at_s);
	t->run_ns = (uint64_t)(seen->run_s * 1e9);
	t->sleep_ns = (uint64_t)(seen->sleep_s * 1e9);
	t->has_stopped_ns = seen->stopped_s > 0;
	t->stopped_ns = (uint64_t)(seen->stopped_s * 1e9);
	t->wchan = *p->wchan ? (char *)p->wchan : NULL;
	t->syscall = *p->syscall ? (char *)p->syscall : NULL;
	to->thread_list[0] = t;
	to->proc.threads = to->thread_list;
	to->proc.n_threads = 1;
}

/* What the agent reports of a thread that has not left D state for its limit, 5 s. */
static void blocked_put(const struct read_at *r, int rank, const struct place *p, struct rank_parts *to)
{
	static const char *const names[] = { "wchan", "syscall" };
	const struct rank_pause *k = &r->c->ranks[rank].pause;
	char *texts[] = { (char *)p->wchan, (char *)p->syscall };

	if (k->kind != PAUSE_D || r->at_s < k->begin_s + DSTATE_LIMIT_S)
		return;
	to->blocked = (Cluster__Finding)CLUSTER__FINDING__INIT;
	to->subject = (Cluster__Subject)CLUSTER__SUBJECT__INIT;
	snprintf(to->blocked_id, sizeof(to->blocked_id), "d%u", to->proc.pid);
	to->blocked_rank = rank;
	to->blocked.id = to->blocked_id;
	to->blocked.kind = (char *)"d_state";
	to->blocked.severity = (char *)"critical";
	to->blocked.ranks = &to->blocked_rank;
	to->blocked.pids = &to->proc.pid;
	to->blocked.n_ranks = to->blocked.n_pids = 1;
	to->blocked.has_since_age_ns = to->blocked.has_confidence_percent = 1;
	to->blocked.since_age_ns = read_age_ns(r, k->begin_s);
	to->blocked.confidence_percent = 99;
	to->blocked.subject = &to->subject;
	to->subject.type = (char *)"thread";
	to->subject.has_pid = to->subject.has_tid = to->subject.has_rank = 1;
	to->subject.pid = to->subject.tid = to->proc.pid;
	to->subject.rank = rank;
	for (int i = 0; i < 2; i++) {
		to->evidence[i] = (Cluster__Evidence)CLUSTER__EVIDENCE__INIT;
		to->evidence[i].name = (char *)names[i];
		to->evidence[i].text = texts[i];
		to->evidence_list[i] = &to->evidence[i];
	}
	to->blocked.evidence = to->evidence_list;
	to->blocked.n_evidence = 2;
}

static Cluster__Gpu__Class class_of(const struct cluster *c, int rank, double at_s)
{
	const double *called = rank_times(c->now.called, c, rank), *ended = rank_times(c->now.ended, c, rank);
	const double *started = rank_times(c->now.started, c, rank);
	int i = 0;

	while (i < c->n_ops && ended[i] <= at_s)
		i++;
	if (i < c->n_ops && called[i] <= at_s)
		return started[i] <= at_s ? CLUSTER__GPU__CLASS__IN_NCCL : CLUSTER__GPU__CLASS__WORKS;
	return CLUSTER__GPU__CLASS__IDLE;
}

struct step_of_rank {
	const double *called, *begun, *started, *ended;
};

struct gpu_times { /* seconds of a window */
	double works_s, nccl_s, recv_s;
};

/* fmax() and fmin() are calls into a library, and these are asked for tens of thousands of operations a second. */
static double later(double a, double b)
{
	return a > b ? a : b;
}

static double sooner(double a, double b)
{
	return a < b ? a : b;
}

static double overlap(double begin_s, double end_s, double from_s, double to_s)
{
	return later(0, sooner(end_s, to_s) - later(begin_s, from_s));
}

/* What the GPU did from `from_s` on, of one step. */
static void gpu_times_add(const struct read_at *r, const struct step_of_rank *s, double from_s, struct gpu_times *t)
{
	for (int i = 0; i < r->c->n_ops; i++) {
		double free_s = i ? s->ended[i - 1] : s->begun[i];

		if (later(free_s, s->called[i]) > r->at_s)
			return;
		t->works_s += overlap(s->begun[i], s->started[i], from_s, r->at_s);
		t->recv_s += overlap(later(free_s, s->called[i]), s->begun[i], from_s, r->at_s);
		t->nccl_s += overlap(s->started[i], s->ended[i], from_s, r->at_s);
	}
}

static uint32_t share_bp(const struct read_at *r, double percent_s, double window_s)
{
	return (uint32_t)(100 * percent_s / window_s * (1 + GPU_SCATTER * draw_normal(r->draw)));
}

/* In NVML's steps. A slower GPU has a clock that is as much lower; other reasons, such as another program on it, are
 * not simulated. */
static uint32_t clock_mhz(const struct read_at *r, int rank)
{
	double scatter = clocks[r->noise->capped].scatter;
	double mhz = clocks[r->noise->capped].mhz / r->c->ranks[rank].gpu_factor * (1 + scatter * draw_normal(r->draw));

	return CLOCK_STEP_MHZ * (uint32_t)(mhz / CLOCK_STEP_MHZ);
}

/* NVML's counters since the read before. A Recv that waits is a kernel of NCCL's as well. */
static void gpu_sample_put(const struct read_at *r, int rank, double from_s, Cluster__Gpu *to)
{
	const struct cluster *c = r->c;
	double window_s = r->at_s - from_s;
	struct gpu_times t = { 0 };

	if (from_s <= 0 || window_s < 0.1)
		return;
	for (int k = 0; k < (c->step > 1 ? 2 : 1); k++) {
		const struct step_arrays *a = k ? &c->before : &c->now;
		const struct step_of_rank s = { rank_times(a->called, c, rank), rank_times(a->begun, c, rank),
						rank_times(a->started, c, rank), rank_times(a->ended, c, rank) };

		gpu_times_add(r, &s, from_s, &t);
	}
	to->has_window_ns = to->has_sm_bp = to->has_tensor_bp = 1;
	to->window_ns = (uint64_t)(window_s * 1e9);
	to->sm_bp = share_bp(r, SM_WORKS * t.works_s + SM_NCCL * t.nccl_s + SM_RECV * t.recv_s, window_s);
	to->tensor_bp = share_bp(r, TENSOR_WORKS * t.works_s, window_s);
	to->has_sm_clock_mhz = 1;
	to->sm_clock_mhz = clock_mhz(r, rank);
}

static void gpu_put(const struct read_at *r, int rank, const struct rank_seen *seen, struct rank_parts *to)
{
	to->gpu = (Cluster__Gpu)CLUSTER__GPU__INIT;
	to->gpu.has_index = to->gpu.has_class_ = to->gpu.has_sampled_age_ns = 1;
	to->gpu.index = (uint32_t)rank % PER_HOST;
	to->gpu.class_ = class_of(r->c, rank, r->at_s);
	to->gpu.sampled_age_ns = read_age_ns(r, r->at_s);
	gpu_sample_put(r, rank, seen->before_s, &to->gpu);
	to->gpu_pid = to->proc.pid;
	to->gpu.pids = &to->gpu_pid;
	to->gpu.n_pids = 1;
}

/* --- a rank --- */

static bool dies(const struct read_at *r, int rank, double *ret_s)
{
	const struct rank_pause *p = &r->c->ranks[rank].pause;

	*ret_s = p->begin_s;
	return p->kind == PAUSE_DEAD && r->at_s >= p->begin_s;
}

static void old_put(const struct read_at *r, int rank, bool is_dead, struct rank_seen *seen, struct rank_parts *to)
{
	identity_put(r, rank, seen->generation, &to->proc);
	members_put(r, rank, seen, to);
	if (is_dead)
		death_put(r, old_end(r->c, rank), 15, &to->proc);
}

static void alive_put(const struct read_at *r, int rank, enum presence there, struct rank_seen *seen,
		      struct rank_parts *to)
{
	struct place p = place_of(r, rank, there);

	times_add(seen, &p, r->at_s);
	seen->before_s = seen->read_s;
	seen->read_s = r->at_s;
	if (there == TRAINS)
		members_read(r, rank, seen);
	members_put(r, rank, seen, to);
	thread_put(r, &p, seen, to);
	gpu_put(r, rank, seen, to);
	blocked_put(r, rank, &p, to);
	if (r->noise->calls && there == TRAINS) {
		calls_open_put(r, rank, to);
		calls_wait_put(r, rank, to);
	}
}

bool rank_report(const struct read_at *r, int rank, struct rank_seen *seen, struct rank_parts *to)
{
	enum presence there = presence_of(r, rank);
	double dead_s;

	if (there == ABSENT)
		return false;
	if (there == OLD_DYING || there == OLD_DEAD) {
		old_put(r, rank, there == OLD_DEAD, seen, to);
		return true;
	}
	if (seen->generation != r->c->generation)
		*seen = (struct rank_seen){ .generation = r->c->generation };
	identity_put(r, rank, r->c->generation, &to->proc);
	if (!dies(r, rank, &dead_s)) {
		alive_put(r, rank, there, seen, to);
		return true;
	}
	if (!(seen->read_s > 0)) /* it was gone before this agent looked */
		return false;
	members_put(r, rank, seen, to);
	death_put(r, dead_s, 9, &to->proc);
	return true;
}
