/* SPDX-License-Identifier: Apache-2.0
 *
 * capture.c - what graphs hold. Between BEGIN and END of a capture nothing runs: operations called on its streams are
 * noted, with the waits between these streams, and become the graph's work. An exec takes the work over. A
 * stream joins by waiting for an event recorded in the capture; all leave at END. A launched graph runs what was
 * captured: its operations are called again, by the launching thread, at the time of the launch.
 */
#include <errno.h>
#include <stdlib.h>

#include "model/state.h"

#define LOSS_KNOWN_NS 1000000000ull /* a loss is reported within that */
#define CAPTURED_MAX 65536          /* things in one graph */
#define LANES_MAX 256               /* streams in one graph */
#define CAPTURES_MAX 64             /* going on at once in a process: more have lost their END */
#define GRAPHS_MAX 16384            /* and as many execs, per process */

void work_unref(struct work *w)
{
	if (!w || --w->refs)
		return;
	free(w->lane_n);
	free(w->items);
	free(w);
}

/* The lane's number, -1 no room. */
int lane_new(struct work *w)
{
	uint64_t *grown = w->n_lanes < LANES_MAX ? realloc(w->lane_n, (w->n_lanes + 1) * sizeof(*grown)) : NULL;

	if (!grown) {
		w->cut = true;
		return -1;
	}
	w->lane_n = grown;
	grown[w->n_lanes] = 0;
	return w->n_lanes++;
}

struct work *work_new(uint64_t ns)
{
	struct work *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->refs = 1;
	w->begin_ns = ns;
	if (lane_new(w) == 0)
		return w;
	work_unref(w);
	return NULL;
}

void work_add(struct work *w, const struct captured *what)
{
	size_t cap = w->cap ? 2 * w->cap : 64;
	struct captured *grown;

	if (w->n == w->cap) {
		grown = w->n < CAPTURED_MAX ? realloc(w->items, cap * sizeof(*grown)) : NULL;
		if (!grown) {
			w->cut = true;
			return;
		}
		w->items = grown;
		w->cap = cap;
	}
	w->items[w->n++] = *what;
	w->lane_n[what->lane]++;
	w->n_ops += what->comm != 0;
}

/* --- going on --- */

static struct capture *capture_find(const struct proc_own *p, uint64_t id)
{
	struct capture *c = p->captures;

	while (c && c->id != id)
		c = c->next;
	return c;
}

/* Its streams leave; the work goes to the caller. */
static struct work *capture_close(struct proc_own *p, struct capture *c)
{
	struct capture **link = &p->captures;
	struct work *w = c->work;

	for (struct stream *s = p->p.streams; s; s = s->next)
		if (s->capture == c)
			s->capture = NULL;
	while (*link != c)
		link = &(*link)->next;
	*link = c->next;
	free(c);
	return w;
}

void capture_over(struct proc_own *p, struct stream *s)
{
	if (s->capture)
		work_unref(capture_close(p, s->capture));
}

void capture_failed(struct proc_own *p, uint32_t tid)
{
	struct capture *c = p->captures, *next;

	for (; c; c = next) {
		next = c->next;
		if (c->tid == tid)
			work_unref(capture_close(p, c));
	}
}

static int capture_begin(struct model *m, struct proc_own *p, const struct event *e)
{
	struct stream *s = stream_get(p, e->capture.stream, e->tid);
	struct capture *c = calloc(1, sizeof(*c)), **end = &p->captures;
	int n = 0;

	if (c)
		c->work = work_new(e->ts_ns);
	if (!s || !c || !c->work) {
		free(c);
		return -ENOMEM;
	}
	capture_over(p, s); /* its end was missed */
	for (; *end; end = &(*end)->next)
		n++;
	*end = c;
	c->id = ++m->state->next_capture;
	c->tid = e->tid;
	s->capture = c;
	s->lane = 0;
	if (n >= CAPTURES_MAX)
		work_unref(capture_close(p, p->captures));
	return 0;
}

void capture_op(struct capture *c, int lane, const struct op *op, uint64_t group)
{
	work_add(c->work, &(struct captured){ .comm = op->member->addr,
					      .kind = op->kind,
					      .dtype = op->dtype,
					      .redop = op->redop,
					      .root = op->root,
					      .peer = op->peer,
					      .count = op->count,
					      .group = group,
					      .ns = op->call_ns,
					      .lane = lane });
}

void capture_cuda_event(const struct stream *s, struct cuda_event *k)
{
	k->capture_id = s->capture ? s->capture->id : 0;
	k->lane = s->lane;
	k->lane_n = s->capture ? s->capture->work->lane_n[s->lane] : 0;
}

static void lane_waits(struct work *w, int lane, int dep_lane, uint64_t dep_n)
{
	if (lane != dep_lane && dep_n)
		work_add(w, &(struct captured){ .lane = lane, .dep_lane = dep_lane, .dep_n = dep_n });
}

void capture_wait(struct proc_own *p, struct stream *s, const struct cuda_event *k)
{
	struct capture *c = capture_find(p, k->capture_id);
	int lane;

	if (!c || (s->capture && s->capture != c))
		return;
	if (!s->capture) {
		lane = lane_new(c->work);
		if (lane < 0)
			return;
		s->capture = c;
		s->lane = lane;
	}
	lane_waits(c->work, s->lane, k->lane, k->lane_n);
}

/* Without the probes on CUDA events nothing says which streams joined: those that the capturing thread calls on. */
void capture_guess(struct proc_own *p, struct stream *s, uint32_t tid)
{
	struct capture *c = p->captures;

	while (c && c->tid != tid)
		c = c->next;
	if (!c || s->capture || !(p->p.shed >> PROBES_EVENTS & 1))
		return;
	s->lane = lane_new(c->work);
	s->capture = s->lane < 0 ? NULL : c;
}

/* A graph launched into a capture becomes a part of it, behind what its stream holds. */
static void capture_embed(struct stream *s, const struct work *child)
{
	struct work *w = s->capture->work;
	uint64_t at = w->lane_n[s->lane];
	int first = w->n_lanes - 1; /* lane i of the child, from 1, is first + i here */

	if (child == w)
		return;
	w->cut |= child->cut;
	for (int i = 1; i < child->n_lanes; i++) {
		if (lane_new(w) < 0)
			return;
		lane_waits(w, first + i, s->lane, at);
	}
	for (size_t i = 0; i < child->n; i++) {
		struct captured c = child->items[i];

		c.dep_n += c.dep_lane ? at > 0 : at; /* what its lanes hold before it begins */
		c.lane = c.lane ? first + c.lane : s->lane;
		c.dep_lane = c.dep_lane ? first + c.dep_lane : s->lane;
		work_add(w, &c);
	}
	for (int i = 1; i < child->n_lanes; i++)
		lane_waits(w, s->lane, first + i, w->lane_n[first + i]);
}

/* --- graphs and execs --- */

static struct graph *graph_find(struct graph *table, uint64_t handle)
{
	struct graph *g;

	HASH_FIND(hh, table, &handle, sizeof(handle), g);
	return g;
}

static void graph_drop(struct graph **table, struct graph *g)
{
	if (!g)
		return;
	HASH_DEL(*table, g);
	work_unref(g->work);
	free(g);
}

/* The table's entry now holds `w`; takes no reference of its own. */
int graph_set(struct graph **table, uint64_t handle, struct work *w)
{
	struct graph *g;

	graph_drop(table, graph_find(*table, handle)); /* given back unseen */
	if (!w)
		return 0;
	if (HASH_COUNT(*table) >= GRAPHS_MAX)
		graph_drop(table, *table);
	g = calloc(1, sizeof(*g));
	if (!g) {
		work_unref(w);
		return -ENOMEM;
	}
	g->handle = handle;
	g->work = w;
	HASH_ADD(hh, *table, handle, sizeof(handle), g);
	if (g->hh.tbl)
		return 0;
	work_unref(w);
	free(g);
	return -ENOMEM;
}

static struct work *work_ref(struct graph *g)
{
	if (g)
		g->work->refs++;
	return g ? g->work : NULL;
}

static int capture_end(struct proc_own *p, const struct event *e)
{
	struct stream *s = stream_get(p, e->capture.stream, e->tid);
	struct work *w = s && s->capture ? capture_close(p, s->capture) : NULL;

	if (w)
		w->end_ns = e->ts_ns;
	return graph_set(&p->graphs, e->capture.graph, w);
}

/* --- launches: lane 0 is the launch stream itself; each other lane is a queue of its own that begins behind
 * what the launch stream held, and that the launch stream waits for in the end --- */

/* Operations that NCCL does not count may have run unseen: what is numbered without its counters is void. */
static void members_blind(struct proc_own *p, uint64_t born_before_ns)
{
	for (struct member *mb = p->p.members; mb; mb = member_next_in_proc(mb))
		mb->blind |= !mb->gone && ((struct member_own *)mb)->born_ns < born_before_ns;
}

static bool work_in_doubt(const struct model *m, const struct work *w)
{
	return w->cut || (m->last_loss_ns >= w->begin_ns && m->last_loss_ns < w->end_ns + LOSS_KNOWN_NS);
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

static int work_launch(struct model *m, struct proc_own *p, const struct work *w, const struct event *e)
{
	struct lane *lanes;
	int err;

	if (!w) /* not captured, or before a member was created, or lost */
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

/* --- what is called --- */

static int graph_launch(struct model *m, struct proc_own *p, const struct event *e)
{
	struct stream *s = stream_get(p, e->capture.stream, e->tid);
	struct graph *g = graph_find(p->execs, e->capture.exec);

	if (!s)
		return -ENOMEM;
	if (!s->capture)
		return work_launch(m, p, g ? g->work : NULL, e);
	if (g)
		capture_embed(s, g->work);
	else
		s->capture->work->cut = true;
	return 0;
}

int capture_apply(struct model *m, const struct event *e)
{
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);

	if (!p)
		return -ENOMEM;
	p->p.last_call_ns = e->ts_ns;
	call_forget(p, e->tid);
	switch (e->capture.kind) {
	case CAPTURE_BEGIN: return capture_begin(m, p, e);
	case CAPTURE_END: return capture_end(p, e);
	case CAPTURE_INSTANTIATE:
	case CAPTURE_UPDATE:
		return graph_set(&p->execs, e->capture.exec, work_ref(graph_find(p->graphs, e->capture.graph)));
	case CAPTURE_CLONE:
		return graph_set(&p->graphs, e->capture.graph, work_ref(graph_find(p->graphs, e->capture.parent)));
	case CAPTURE_LAUNCH: return graph_launch(m, p, e);
	case CAPTURE_DESTROY:
		graph_drop(&p->graphs, graph_find(p->graphs, e->capture.graph));
		graph_drop(&p->execs, graph_find(p->execs, e->capture.exec));
		return 0;
	}
	return -EINVAL;
}

void captures_free(struct proc_own *p)
{
	while (p->captures)
		work_unref(capture_close(p, p->captures));
	while (p->graphs)
		graph_drop(&p->graphs, p->graphs); /* lint: each is unlinked when freed */
	while (p->execs)
		graph_drop(&p->execs, p->execs); /* lint: each is unlinked when freed */
}
