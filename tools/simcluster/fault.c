/* SPDX-License-Identifier: Apache-2.0
 *
 * fault.c - see fault.h. A fault strikes in the step after it was drawn, at a call of its rank that was drawn with it.
 */
#include "tools/simcluster/fault.h"

#include <string.h>

#define SUSPENDED_S 15.0
#define REPLACED_AFTER_S 60.0 /* a watchdog or a scheduler has ended the job by then, and */
#define REPLACED_GAP_S 30.0   /* so long later it goes on; */
#define SPARE_BEFORE_S 4.0    /* the spare's agent reports before that */

static const char *const names[] = {
#define X(id, name, help) [FAULT_##id] = name,
	FAULTS(X)
#undef X
};

const char *fault_name(enum fault_kind kind)
{
	return names[kind];
}

bool fault_find(const char *name, enum fault_kind *ret)
{
	for (int k = 0; k < FAULT_KINDS; k++)
		if (!strcmp(names[k], name)) {
			*ret = k;
			return true;
		}
	return false;
}

static bool has_rank(enum fault_kind kind)
{
	switch (kind) {
	case FAULT_NONE:
	case FAULT_TRAFFIC:
	case FAULT_IMBALANCE:
	case FAULT_SUSPEND:
	case FAULT_RESUME:
	case FAULT_UPGRADE:
	case FAULT_CUT: return false;
	default: return true;
	}
}

void fault_draw(struct fault *f, enum fault_kind kind, double severity, const struct cluster *c, struct draw *d)
{
	int passes = 2 * c->shape.micro;

	*f = (struct fault){ .kind = kind,
			     .severity = severity,
			     .rank = kind == FAULT_LATE ? draw_below(d, c->shape.tp * c->shape.dp)
				     : has_rank(kind)   ? draw_below(d, c->n_ranks)
							: -1,
			     .rank2 = -1,
			     .op = draw_below(d, passes),
			     .silent_s = INFINITY,
			     .spoken_s = INFINITY,
			     .first_s = INFINITY,
			     .begin_s = INFINITY };
	while (kind == FAULT_TWO && (f->rank2 < 0 || rank_replica(c, f->rank2) == rank_replica(c, f->rank)))
		f->rank2 = draw_below(d, c->n_ranks);
}

static void pause_set(struct cluster *c, int rank, enum pause_kind kind, int op, double s)
{
	c->ranks[rank].pause = (struct rank_pause){ .kind = kind, .op = op, .s = s, .begin_s = INFINITY };
}

static void host_ends(const struct fault *f, struct cluster *c)
{
	int first = f->rank / PER_HOST * PER_HOST;

	for (int r = first; r < first + PER_HOST; r++)
		pause_set(c, r, PAUSE_DEAD, f->op, INFINITY);
}

/* As a scheduler's signals reach the hosts: within two seconds. */
static void all_stopped(struct cluster *c, double for_s, struct draw *d)
{
	double from_s = 0, to_s = INFINITY;

	for (int r = 0; r < c->n_ranks; r++) {
		if (r % PER_HOST == 0) {
			from_s = c->end_s + 2 * draw_unit(d);
			to_s = c->end_s + for_s + 2 * draw_unit(d);
		}
		c->ranks[r].pause = (struct rank_pause){ .kind = PAUSE_STOPPED,
							 .op = -1,
							 .s = INFINITY,
							 .begin_s = from_s,
							 .from_s = from_s,
							 .to_s = to_s };
	}
}

void link_slow_somewhere(struct cluster *c, struct draw *d)
{
	int first = draw_below(d, c->n_hosts) * PER_HOST;

	for (int r = 0; r < c->n_ranks; r++)
		c->transfer[r] = r >= first && r < first + PER_HOST ? 3 : 1;
}

static void imbalance_set(struct cluster *c)
{
	c->shape.last_stage_factor = HEAVY_STAGE;
	c->shape.variation = UNEVEN_VARIATION;
}

void fault_before(struct fault *f, struct cluster *c, struct draw *d)
{
	switch (f->kind) {
	case FAULT_STOP: pause_set(c, f->rank, PAUSE_STOPPED, f->op, INFINITY); break;
	case FAULT_KILL: pause_set(c, f->rank, PAUSE_DEAD, f->op, INFINITY); break;
	case FAULT_TWO: pause_set(c, f->rank2, PAUSE_SLEEP, f->op, INFINITY); /* fall through */
	case FAULT_HANG: pause_set(c, f->rank, PAUSE_SLEEP, f->op, INFINITY); break;
	case FAULT_BUSY: pause_set(c, f->rank, PAUSE_WORK, f->op, INFINITY); break;
	case FAULT_DSTATE: pause_set(c, f->rank, PAUSE_D, f->op, INFINITY); break;
	case FAULT_DEADLOCK:
		pause_set(c, f->rank, PAUSE_SLEEP, f->op, INFINITY);
		c->ranks[f->rank].world_first = true;
		break;
	case FAULT_HOST: host_ends(f, c); break;
	case FAULT_REPLACE:
		if (!f->struck)
			host_ends(f, c);
		break;
	case FAULT_SUSPEND: all_stopped(c, INFINITY, d); break;
	case FAULT_RESUME:
		if (!f->struck)
			all_stopped(c, SUSPENDED_S, d);
		break;
	case FAULT_SLOW: c->ranks[f->rank].gpu_factor = f->severity; break;
	case FAULT_LATE: pause_set(c, f->rank, PAUSE_WORK, 0, (f->severity - 1) * c->shape.step_s); break;
	case FAULT_TRAFFIC: link_slow_somewhere(c, d); break;
	case FAULT_IMBALANCE: imbalance_set(c); break;
	default: break;
	}
}

void fault_after(struct fault *f, const struct cluster *c)
{
	if (f->struck)
		return;
	f->struck = true;
	f->begin_s = c->begin_s;
	f->first_s = cluster_first_wait(c, f->rank);
	if (f->kind == FAULT_AGENT)
		f->silent_s = c->begin_s;
	if (f->kind == FAULT_HOST || f->kind == FAULT_REPLACE)
		f->silent_s = c->ranks[f->rank].pause.begin_s;
}

void fault_turn(struct fault *f, struct cluster *c, double now_s)
{
	if (f->kind != FAULT_REPLACE || !f->struck || !isinf(f->spoken_s) || now_s < f->silent_s + REPLACED_AFTER_S)
		return;
	c->end_s = now_s;
	cluster_restart(c, REPLACED_GAP_S);
	f->spoken_s = c->begin_s - SPARE_BEFORE_S;
}
