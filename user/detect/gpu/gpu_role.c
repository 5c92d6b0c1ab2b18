/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_role.c - see gpu_role.h. Only what no kernel of NCCL can look like is the odd one: a kernel of another program
 * with as many blocks and threads as NCCL has is taken for NCCL's, and then no rank is named.
 */
#include "detect/gpu/gpu_role.h"

#include <math.h>
#include <string.h>

#include "base/larger.h"
#include "detect/phrase.h"
#include "detect/rank/call_site.h"

#define RECENT_NS \
	13000000000ull         /* samples that count: three of a quiet job, of which one comes every 4 s at the least */
#define FRESH_NS 8000000000ull /* the newest is not older: one may be late */
#define SPAN_NS 1500000000ull
#define SAMPLES_LEAST 3
#define IDLE_NS 7000000000ull /* hosts run ahead of their GPUs by seconds; a hang shows after 10 s */
#define ALIKE 0.05            /* percent: the last digit that NVML gives, and rounding */
#define IDLE_SM 0.02          /* one SM of 132 is 0.76 */
#define NO_MEMORY 0.1         /* of the bandwidth: polling a flag is below */
#define CHANNELS_SM 50.0      /* NCCL takes 64 SMs at the most */
#define SM_WARPS 64.0         /* of Hopper and newer, which have these counters */
#define NCCL_WARPS_MIN 2.5    /* a block of NCCL's has 96 to 640 threads: 3 to 20 warps, one block on an SM */
#define NCCL_WARPS_MAX 20.5

struct range {
	double least, most;
};

/* The newest samples, as far back as they are alike. */
struct run {
	struct range sm, occupancy;
	double work; /* the most of tensor cores' and memory's time */
	uint64_t n, first_ns;
	bool broken;
};

static struct range range_with(const struct range *r, double v)
{
	return (struct range){ fmin(r->least, v), fmax(r->most, v) };
}

static bool alike(const struct range *r)
{
	return r->most - r->least <= ALIKE;
}

static bool is_idle(const struct run *r)
{
	return r->sm.most <= IDLE_SM;
}

static void run_add(struct run *r, const struct gpu_sampled *l)
{
	struct run with = *r;

	with.sm = range_with(&r->sm, gpu_percent(l->s.sm_bp));
	with.occupancy = range_with(&r->occupancy, gpu_percent(l->s.occupancy_bp));
	with.work = fmax(r->work, fmax(gpu_percent(l->s.tensor_bp), gpu_percent(l->s.dram_bp)));
	with.n++;
	with.first_ns = l->ts_ns - l->s.window_ns;
	if (!r->broken && (is_idle(&with) || (alike(&with.sm) && alike(&with.occupancy) && with.work <= NO_MEMORY)))
		*r = with;
	else
		r->broken = true;
}

static bool samples_like_nccl(const struct gpu_activity *a)
{
	double warps = a->sm > 0 ? SM_WARPS * a->occupancy / a->sm : 0;

	return a->sm <= CHANNELS_SM && warps >= NCCL_WARPS_MIN && warps <= NCCL_WARPS_MAX;
}

static bool usable(const struct gpu_sampled *l, uint64_t since_ns)
{
	return l && l->s.window_ns && l->s.sm_bp != GPU_NO_VALUE && l->s.occupancy_bp != GPU_NO_VALUE &&
	       l->ts_ns >= since_ns + l->s.window_ns;
}

static bool is_enough(uint64_t n, uint64_t first_ns, uint64_t last_ns)
{
	return n >= SAMPLES_LEAST && last_ns >= first_ns + SPAN_NS;
}

struct gpu_activity gpu_activity_since(const struct gpu *g, uint64_t since_ns, uint64_t now_ns)
{
	const struct gpu_sampled *newest = g ? gpu_sample(g, 0) : NULL, *l = newest;
	struct run r = { { INFINITY, -INFINITY }, { INFINITY, -INFINITY }, 0, 0, 0, false };
	struct gpu_activity a = { 0 };
	uint64_t first_ns = now_ns, n = 0;

	for (; usable(l, since_ns); l = gpu_sample(g, ++n)) {
		run_add(&r, l);
		first_ns = l->ts_ns - l->s.window_ns;
	}
	if (!n || newest->ts_ns + FRESH_NS < now_ns || !is_enough(n, first_ns, newest->ts_ns))
		return a;
	a = (struct gpu_activity){ GPU_ROLE_WORKS,
				   gpu_percent(newest->s.sm_bp),
				   gpu_percent(newest->s.occupancy_bp),
				   gpu_percent(newest->s.tensor_bp),
				   gpu_percent(newest->s.dram_bp),
				   now_ns };
	if (!is_enough(r.n, r.first_ns, newest->ts_ns))
		return a;
	if (is_idle(&r)) /* one that does something now and then is not idle between */
		a.role = r.n == n || newest->ts_ns >= r.first_ns + IDLE_NS ? GPU_ROLE_IDLE : GPU_ROLE_WORKS;
	else
		a.role = samples_like_nccl(&a) ? GPU_ROLE_IN_NCCL : GPU_ROLE_OTHER_KERNEL;
	a.since_ns = r.first_ns;
	return a;
}

/* --- the ranks of a job --- */

static bool is_rank_of(const struct proc *p, const struct job_id *job)
{
	return !p->dead && !p->is_child && p->members && p->job == job;
}

/* Of a process with ranks on several GPUs, what each of them does is not distinguished. */
static bool has_one_gpu(const struct proc *p)
{
	int n = 0;

	for (const struct gpu *g = p->node->gpus.all; g; g = g->next)
		n += gpu_has_proc(g, p);
	return n == 1;
}

static struct gpu_activity rank_gpu(const struct model *m, const struct proc *p, uint64_t since_ns)
{
	uint64_t recent_ns = m->now_ns > RECENT_NS ? m->now_ns - RECENT_NS : 0;

	return has_one_gpu(p) ? gpu_activity_since(proc_gpu(p), since_ns > recent_ns ? since_ns : recent_ns, m->now_ns)
			      : (struct gpu_activity){ 0 };
}

/* A first transfer between two ranks sets up their connection on the hosts: there the host waits in NCCL, its GPU has
 * nothing to do. */
static bool waits_on_host(const struct proc *p, const struct gpu_activity *a)
{
	return a->role == GPU_ROLE_IDLE && call_site_in_nccl(p);
}

static double confidence_of(const struct gpu_odd *o, int world_size)
{
	static const double of_role[] = {
		[GPU_ROLE_OTHER_KERNEL] = 0.9,
		[GPU_ROLE_IDLE] = 0.8,
		[GPU_ROLE_WORKS] = 0.7,
	};
	double c = of_role[o->of.role] - (o->n_in_nccl < 2 ? 0.1 : 0);

	c = o->n_on_host ? 0.9 * c : c;
	return o->n_known < world_size ? 0.9 * c : c;
}

/* Its GPU runs nothing, and where its host is was not read: it may wait in NCCL as its peers' hosts do. */
static bool host_unknown(const struct gpu_odd *o)
{
	return o->n_on_host && o->of.role == GPU_ROLE_IDLE && !call_site_task(o->proc);
}

static void odd_add(struct gpu_odd *o, const struct proc *p, const struct gpu_activity *a)
{
	bool on_host = waits_on_host(p, a);

	o->n_ranks++;
	o->n_known += a->role != GPU_ROLE_UNKNOWN;
	o->n_on_host += on_host;
	o->since_ns = larger(o->since_ns, a->since_ns);
	if (a->role == GPU_ROLE_IN_NCCL || (on_host && !o->n_in_nccl))
		o->peers = *a;
	o->n_in_nccl += a->role == GPU_ROLE_IN_NCCL || on_host;
	if (a->role != GPU_ROLE_IN_NCCL && a->role != GPU_ROLE_UNKNOWN && !on_host) {
		o->of = *a;
		o->proc = p;
	}
}

struct gpu_odd gpu_odd_find(const struct model *m, const struct job_id *job, uint64_t since_ns)
{
	struct gpu_odd o = { 0 };
	int world_size = 0;

	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p)) {
		struct gpu_activity a;

		if (!is_rank_of(p, job))
			continue;
		a = rank_gpu(m, p, since_ns);
		odd_add(&o, p, &a);
		world_size = p->world_size > world_size ? p->world_size : world_size;
	}
	if (!o.n_in_nccl || o.n_in_nccl != o.n_ranks - 1 || o.n_known < o.n_ranks || host_unknown(&o))
		o.proc = NULL;
	o.confidence = o.proc ? confidence_of(&o, world_size) : 0;
	return o;
}

bool gpu_some_without_work(const struct model *m, const struct job_id *job, uint64_t since_ns)
{
	int n_ranks = 0, n_in_nccl = 0;

	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p)) {
		enum gpu_role role = is_rank_of(p, job) ? rank_gpu(m, p, since_ns).role : GPU_ROLE_UNKNOWN;

		if (role == GPU_ROLE_OTHER_KERNEL || role == GPU_ROLE_IDLE)
			return true;
		n_ranks += is_rank_of(p, job);
		n_in_nccl += role == GPU_ROLE_IN_NCCL;
	}
	return n_ranks && n_in_nccl == n_ranks;
}

bool gpu_wait_is_over(const struct model *m, const struct proc *p)
{
	return call_site_gpu_wait(p) && rank_gpu(m, p, call_site_task(p)->stack.ns).role == GPU_ROLE_IDLE;
}

enum finding_cause gpu_odd_cause(const struct gpu_odd *o)
{
	switch (o->proc ? o->of.role : GPU_ROLE_UNKNOWN) {
	case GPU_ROLE_OTHER_KERNEL: return CAUSE_GPU_OTHER_KERNEL;
	case GPU_ROLE_IDLE: return CAUSE_GPU_IDLE;
	case GPU_ROLE_WORKS: return CAUSE_GPU;
	default: return CAUSE_NONE;
	}
}

static const char *role_text(enum gpu_role role)
{
	switch (role) {
	case GPU_ROLE_IN_NCCL: return "waits in NCCL";
	case GPU_ROLE_OTHER_KERNEL: return "runs a kernel that is not NCCL's";
	case GPU_ROLE_WORKS: return "computes";
	case GPU_ROLE_IDLE: return "runs nothing";
	default: return "is not known";
	}
}

/* "rank 3: waits in NCCL", "rank 2: runs nothing, its host waits in NCCL" */
static void line_add(char *text, size_t cap, const struct proc *p, const struct gpu_activity *a)
{
	phrase_add(text, cap, *text ? "\nrank " : "rank ");
	if (proc_rank(p) >= 0)
		phrase_number(text, cap, proc_rank(p));
	phrase_add(text, cap, proc_rank(p) >= 0 ? ": " : "?: ");
	phrase_add(text, cap, role_text(a->role));
	phrase_add(text, cap, waits_on_host(p, a) ? ", its host waits in NCCL" : "");
}

void gpu_odd_note(struct finding *f, struct finding_list *found, const struct model *m, const struct gpu_odd *o,
		  const struct job_id *job, uint64_t since_ns)
{
	char text[1024] = "";

	if (!o->n_known)
		return;
	if (o->proc) {
		finding_note(f, EVIDENCE_GPU, proc_gpu(o->proc)->device.index);
		finding_note(f, EVIDENCE_SM_PERCENT, o->of.sm);
		finding_note(f, EVIDENCE_SM_PERCENT_PEERS, o->peers.sm);
		finding_note(f, EVIDENCE_OCCUPANCY_PERCENT, o->of.occupancy);
		finding_note(f, EVIDENCE_OCCUPANCY_PERCENT_PEERS, o->peers.occupancy);
		finding_note(f, EVIDENCE_TENSOR_PERCENT, o->of.tensor);
		finding_note(f, EVIDENCE_DRAM_PERCENT, o->of.dram);
	}
	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p))
		if (is_rank_of(p, job)) {
			struct gpu_activity a = rank_gpu(m, p, since_ns);

			line_add(text, sizeof(text), p, &a);
		}
	finding_note_text(f, EVIDENCE_GPU_STATES, finding_list_text(found, text));
}
