/* SPDX-License-Identifier: Apache-2.0
 *
 * xid.c - errors that the NVIDIA driver reported (XID), by the tracepoint or the kernel log: what each means, what to
 * do, and which rank it hits: the process that the line names, else the one that computes on that GPU.
 */
#include <errno.h>

#include "detect/detect.h"

#define HOLD_NS 60000000000ull /* after the newest of its kind */

enum xid_points_at { POINTS_AT_H, POINTS_AT_D, POINTS_AT_A, POINTS_AT_I, POINTS_AT_UNKNOWN };

static const enum finding_cause causes[] = {
	[POINTS_AT_H] = CAUSE_HARDWARE,    [POINTS_AT_D] = CAUSE_DRIVER,        [POINTS_AT_A] = CAUSE_APPLICATION,
	[POINTS_AT_I] = CAUSE_INFORMATION, [POINTS_AT_UNKNOWN] = CAUSE_UNKNOWN,
};

struct xid_row {
	uint32_t number;
	enum xid_points_at points_at;
	const char *meaning, *remedy;
};

static const struct xid_row rows[] = {
#define XID(number, points_at, meaning, remedy) { number, POINTS_AT_##points_at, meaning, remedy },
#include "detect/gpu/xids.def"
#undef XID
};

static const struct xid_row unknown = {
	0,
	POINTS_AT_UNKNOWN,
	"not in our table",
	"look the number up in NVIDIA's XID catalogue",
};
static const struct xid_row of_switch = {
	0,
	POINTS_AT_H,
	"an NVSwitch error",
	"look at the fabric manager's log; reset the GPUs and switches of the node",
};

static const struct xid_row *row_of(const struct xid *x)
{
	if (x->of_switch)
		return &of_switch;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].number == x->number)
			return &rows[i];
	return &unknown;
}

static void gpu_ranks_add(struct finding *f, const struct model *m, const struct gpu *g)
{
	for (const struct proc *p = m->procs; p; p = proc_next(p))
		if (!p->is_child && gpu_has_proc(g, p) && (!p->dead || m->now_ns < p->exit_ns + HOLD_NS))
			finding_add_rank(f, proc_rank(p), p->key);
}

/* A switch is everybody's: all ranks with a GPU. */
static void ranks_add(struct finding *f, const struct model *m, const struct node *n, const struct xid *x)
{
	const struct proc *p = x->pid ? model_proc(m, proc_key(n->number, x->pid)) : NULL;
	const struct gpu *g = node_gpu_at(n, x->pci);

	if (p && p->leader)
		p = p->leader;
	if (p)
		finding_add_rank(f, proc_rank(p), p->key);
	else if (g)
		gpu_ranks_add(f, m, g);
	else if (x->of_switch)
		for (g = n->gpus.all; g; g = g->next)
			gpu_ranks_add(f, m, g);
}

static struct subject subject_of(const struct node *n, const struct xid *x, const struct gpu *g)
{
	if (x->of_switch || x->pci == GPU_PCI_NONE)
		return subject_node(n->number);
	return subject_gpu(n->number, g ? g->device.index : SUBJECT_NO_GPU, x->pci);
}

static int report(const struct model *m, const struct node *n, const struct xid *x, struct finding_list *found)
{
	const struct gpu *g = node_gpu_at(n, x->pci);
	const struct xid_row *row = row_of(x);
	struct finding *f = finding_list_add(found);

	if (!f)
		return -ENOMEM;
	f->kind = FINDING_XID;
	f->subject = subject_of(n, x, g);
	finding_identify(f, "xid", x->number, x->ts_ns);
	f->node = n->number;
	f->cause = causes[row->points_at];
	f->since_ns = x->ts_ns;
	f->confidence = 1;
	ranks_add(f, m, n, x);
	finding_note(f, x->of_switch ? EVIDENCE_SXID : EVIDENCE_XID, x->number);
	if (g)
		finding_note(f, EVIDENCE_GPU, g->device.index);
	finding_note_text(f, EVIDENCE_MEANING, row->meaning);
	finding_note_text(f, EVIDENCE_REMEDY, row->remedy);
	finding_note_text(f, EVIDENCE_MESSAGE, x->text);
	if (x->pid)
		finding_note(f, EVIDENCE_NAMED_PID, x->pid);
	return 0;
}

static int node_tick(const struct model *m, const struct node *n, struct finding_list *found)
{
	const struct gpus *all = &n->gpus;
	uint64_t from = all->n_xids > XIDS_KEPT ? all->n_xids - XIDS_KEPT : 0;
	int err = 0;

	for (uint64_t i = from; i < all->n_xids && !err; i++) {
		const struct xid *x = &all->xids[i % XIDS_KEPT];

		if (m->now_ns <= x->last_ns + HOLD_NS)
			err = report(m, n, x, found);
	}
	return err;
}

static int xid_tick(void *state, const struct model *m, struct finding_list *found)
{
	int err = 0;

	(void)state;
	for (const struct node *n = model_next_node(m, NULL); n && !err; n = model_next_node(m, n))
		err = node_tick(m, n, found);
	return err;
}

const struct detector detector_xid = {
	.name = "xid",
	.help = "an error that the NVIDIA driver reported (XID, or SXID of an NVSwitch), with the rank it hits and "
		"what to do",
	.tick = xid_tick,
};
