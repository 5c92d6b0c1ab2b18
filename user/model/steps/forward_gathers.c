/* SPDX-License-Identifier: Apache-2.0
 *
 * forward_gathers.c - see forward_gathers.h.
 */
#include "model/steps/forward_gathers.h"

#include "base/larger.h"
#include "base/sorted.h"
#include "model/model.h"

/* A root's parameters stay gathered, so its gather is not made again; the first layer's follows when the root's own
 * layers are launched: 0.8 to 1.3 ms (docs/measurements/phases.md). */
#define NEAR_NS 3000000ull
#define ROOT_SURE \
	3 /* forwards in which a gather of that size was so near: it is the root's, however long they take \
	   */
/* A forward that stops in the middle for something else is not seen to be spread: two such are not enough to forget. */
#define SPREAD_SURE 2
#define SPREAD_MOST 4
#define LEADS_LEAST 5

enum again { NEVER, ANOTHER, THIS };

/* Is this, or another gather of its communicator, made in backwards? */
static enum again again(const struct forward_gathers *g, const struct op *op)
{
	enum again found = NEVER;

	for (int i = 0; i < g->n_again; i++) {
		if (g->again[i].addr != op->member->addr)
			continue;
		if (g->again[i].count == op->count)
			return THIS;
		found = ANOTHER;
	}
	return found;
}

void gather_in_backward(struct forward_gathers *g, const struct op *op)
{
	if (again(g, op) == THIS || g->n_again == GATHERS_AGAIN)
		return;
	g->again[g->n_again].addr = op->member->addr;
	g->again[g->n_again++].count = op->count;
}

/* NULL: no room, as all are in use. */
static struct gather_run *run_get(struct forward_gathers *g, uint64_t addr)
{
	struct gather_run *unused = NULL;

	for (int i = 0; i < GATHER_RUNS; i++) {
		if (g->runs[i].addr == addr)
			return &g->runs[i];
		if (!g->runs[i].first_ns && !g->runs[i].spread)
			unused = &g->runs[i];
	}
	if (unused)
		*unused = (struct gather_run){ .addr = addr };
	return unused;
}

/* From when on a forward runs whose first repeated gather this is: the one before it may be the root's. */
static uint64_t root_ns(struct forward_gathers *g, const struct gather_run *before, const struct op *op)
{
	if (!before->last_ns || before->last_ns <= g->interrupted_ns)
		return op->call_ns;
	if (g->root_count != before->last_count && !g->roots)
		g->root_count = before->last_count;
	bool same = g->root_count == before->last_count, near = op->call_ns - before->last_ns <= NEAR_NS;

	if (near && !g->n)
		g->roots = same ? smaller(g->roots + 1, ROOT_SURE) : g->roots - 1;
	return near || (same && g->roots >= ROOT_SURE) ? before->last_ns : op->call_ns;
}

uint64_t gather_outside(struct forward_gathers *g, const struct op *op, uint64_t gpu_wait_ns)
{
	struct gather_run none = { 0 }, *run = run_get(g, op->member->addr), before = run ? *run : none;
	enum again made = again(g, op);
	uint64_t from_ns;

	if (run && !run->first_ns) {
		run->first_ns = op->call_ns;
		run->first_wait_ns = gpu_wait_ns;
	}
	if (run) {
		run->last_ns = op->call_ns;
		run->last_count = op->count;
		run->last_wait_ns = gpu_wait_ns;
	}
	if (made == ANOTHER || (made == NEVER && !(run && run->spread >= SPREAD_SURE)))
		return 0;
	g->forward_addr = op->member->addr;
	from_ns = root_ns(g, &before, op);
	g->n++;
	return from_ns;
}

void gathers_interrupted(struct forward_gathers *g, const struct op *op)
{
	if (!g->n || !g->least || g->n < g->least || op->member->addr != g->forward_addr)
		return;
	g->is_whole = true;
	g->interrupted_ns = op->call_ns;
}

bool gathers_anew(struct forward_gathers *g)
{
	if (!g->is_whole)
		return false;
	g->is_whole = false;
	g->n = 1;
	return true;
}

void gathers_forward_marked(struct forward_gathers *g, uint64_t ns)
{
	g->marked_ns = ns;
}

/* Later than that it is what the model computes first, and no matter of hooks. */
void gather_in_marked(struct forward_gathers *g, const struct op *op)
{
	if (g->marked_ns && op->call_ns >= g->marked_ns && op->call_ns - g->marked_ns <= NEAR_NS)
		g->leads_ns[g->n_leads++ % GATHER_LEADS] = op->call_ns - g->marked_ns;
	g->marked_ns = 0;
}

uint64_t gathers_lead_ns(const struct forward_gathers *g)
{
	size_t n = smaller(g->n_leads, GATHER_LEADS);
	double leads[GATHER_LEADS];

	for (size_t i = 0; i < n; i++)
		leads[i] = g->leads_ns[i];
	return n < LEADS_LEAST ? 0 : (uint64_t)doubles_median(leads, n);
}

static void forward_over(struct forward_gathers *g)
{
	g->marked_ns = 0;
	g->n = 0;
	g->is_whole = false;
}

static void run_end(struct gather_run *r)
{
	r->first_ns = r->last_ns = 0;
}

/* Over half of the host's time until the backward; its waits are the GPU's time. */
static bool is_spread(const struct gather_run *r, uint64_t ns, uint64_t gpu_wait_ns)
{
	uint64_t run_ns = r->last_ns - r->first_ns, all_ns = ns - r->first_ns;

	run_ns -= smaller(run_ns, r->last_wait_ns - r->first_wait_ns);
	all_ns -= smaller(all_ns, gpu_wait_ns - r->first_wait_ns);
	return run_ns && 2 * run_ns >= all_ns;
}

void gathers_backward_begins(struct forward_gathers *g, uint64_t ns, uint64_t gpu_wait_ns)
{
	for (struct gather_run *r = g->runs; r < g->runs + GATHER_RUNS; r++) {
		if (!r->first_ns)
			continue;
		if (is_spread(r, ns, gpu_wait_ns))
			r->spread += r->spread < SPREAD_MOST;
		else
			r->spread -= r->spread > 0;
		run_end(r);
	}
	if (g->n && (!g->least || g->n < g->least))
		g->least = g->n;
	forward_over(g);
}

void gathers_optimizer_ran(struct forward_gathers *g)
{
	for (int i = 0; i < GATHER_RUNS; i++)
		run_end(&g->runs[i]);
	forward_over(g);
}
