/* SPDX-License-Identifier: Apache-2.0
 *
 * launch.c - a launched graph runs what was captured: its operations are called again, by the launching thread, at
 * the time of the launch. Lane 0 is the launch stream itself; each other lane is a queue of its own that begins
 * behind what the launch stream held, and that the launch stream waits for in the end.
 */
#include <errno.h>
#include <stdlib.h>

#include "model/state.h"

#define LOSS_TOLD_NS 1000000000ull /* a loss is told within that */

/* Operations that NCCL does not count may have run unseen: what is numbered without its counters is void. */
static void members_blind(struct proc_own *p, uint64_t born_before_ns)
{
	for (struct member *mb = p->p.members; mb; mb = mb->next_in_proc)
		mb->blind |= !mb->gone && ((struct member_own *)mb)->born_ns < born_before_ns;
}

static bool work_in_doubt(const struct model *m, const struct work *w)
{
	return w->cut || (m->last_loss_ns >= w->begin_ns && m->last_loss_ns < w->end_ns + LOSS_TOLD_NS);
}

struct lane {
	struct stream *s;
	uint64_t base;
};

static int wait_push(struct stream *s, const struct stream *dep, uint64_t pos, const struct event *e)
{
	struct item *it = item_push(s, e->tid, e->ts_ns);

	if (!it)
		return -ENOMEM;
	it->dep = (struct stream *)dep;
	it->dep_pos = pos;
	return 0;
}

static int lanes_fork(struct proc_own *p, const struct work *w, struct lane *lanes, const struct event *e)
{
	struct stream *origin = stream_get(p, e->capture.stream, e->tid);
	int err = origin ? 0 : -ENOMEM;

	for (int i = 0; i < w->n_lanes && !err; i++) {
		lanes[i].s = stream_lane(p, origin, i);
		if (!lanes[i].s)
			return -ENOMEM;
		if (i)
			err = wait_push(lanes[i].s, origin, origin->pos, e);
		lanes[i].base = lanes[i].s->pos;
	}
	return err;
}

static int lanes_join(const struct work *w, const struct lane *lanes, const struct event *e)
{
	int err = 0;

	for (int i = 1; i < w->n_lanes && !err; i++)
		err = wait_push(lanes[0].s, lanes[i].s, lanes[i].s->pos, e);
	return err;
}

/* One thing in the lane whatever happens: positions are counted. */
static int work_play(struct model *m, struct proc_own *p, const struct work *w, const struct lane *lanes,
		     const struct event *e)
{
	uint64_t captured_group = 0, group = 0;
	uint32_t n_ops = 0;
	int err = 0;

	for (size_t i = 0; i < w->n && !err; i++) {
		const struct captured *c = &w->items[i];
		const struct lane *l = &lanes[c->lane];
		struct op *op = c->comm ? op_launched(m, p, c, e) : NULL;

		if (!op) {
			err = c->comm ? wait_push(l->s, NULL, 0, e)
				      : wait_push(l->s, lanes[c->dep_lane].s, lanes[c->dep_lane].base + c->dep_n, e);
			continue;
		}
		if (c->group && c->group != captured_group)
			group = ++m->state->next_group;
		captured_group = c->group;
		op_own(op)->group = c->group ? group : 0;
		op->graph_i = n_ops++;
		op->graph_n = w->n_ops;
		op_enter(m, op, l->s, e->ts_ns);
	}
	return err;
}

int work_launch(struct model *m, struct proc_own *p, const struct work *w, const struct event *e)
{
	struct lane *lanes;
	int err;

	if (!w) /* not captured, or before a member's birth, or lost */
		members_blind(p, m->last_loss_ns);
	else if (work_in_doubt(m, w))
		members_blind(p, UINT64_MAX);
	if (!w || !w->n_ops) /* kernels, behind which what came before is not the last thing */
		return wait_push(stream_get(p, e->capture.stream, e->tid), NULL, 0, e);
	lanes = calloc(w->n_lanes, sizeof(*lanes));
	err = lanes ? lanes_fork(p, w, lanes, e) : -ENOMEM;
	if (!err)
		err = work_play(m, p, w, lanes, e);
	if (!err)
		err = lanes_join(w, lanes, e);
	free(lanes);
	return err;
}
