/* SPDX-License-Identifier: Apache-2.0
 *
 * table.c - see table.h. Rows of all processes first; then each communicator says of its members who is ahead and who
 * behind; then the state follows.
 */
#include "top/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/larger.h"
#include "job/parallel.h"

#define GPU_WINDOW_NS 5000000000ull

static const struct {
	const char *name, *help;
} states[] = {
#define X(id, name, help) { name, help },
	TOP_STATES(X)
#undef X
};

const char *top_state_name(enum top_state s)
{
	return states[s].name;
}

const char *top_state_help(enum top_state s)
{
	return states[s].help;
}

/* --- rows --- */

static const char *host_of(const struct proc *p, const struct model *m)
{
	return *p->node->name ? p->node->name : m->host && !m->merged ? m->host : "";
}

static struct top_row *row_get(struct top_table *t, const struct top_part *part, const struct proc *p, int rank)
{
	struct top_row *r = keyed_get(&t->rows, p->key, (uint64_t)(int64_t)rank, sizeof(*r));

	if (!r || r->proc)
		return r;
	r->part = part;
	r->proc = p;
	r->rank = rank;
	r->job = p->job->shown;
	r->host = host_of(p, part->m);
	r->phase = -1;
	r->cpu = -1;
	r->gpu = p->shared ? NULL : proc_gpu(p);
	return r;
}

static struct top_row *row_of(const struct top_table *t, const struct member *mb)
{
	int rank = mb->proc->shared ? member_rank(mb) : proc_rank(mb->proc);

	return keyed_find(&t->rows, mb->proc->key, (uint64_t)(int64_t)rank);
}

/* A launcher has no rank and no communicator; a child is its rank's. */
static bool is_shown(const struct proc *p)
{
	return !p->is_child && (p->rank >= 0 || p->members) && (!p->dead || p->members);
}

static int rows_add(struct top_table *t, const struct top_part *part, const struct proc *p)
{
	if (!p->shared)
		return row_get(t, part, p, proc_rank(p)) ? 0 : -ENOMEM;
	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc)
		if (!row_get(t, part, p, member_rank(mb)))
			return -ENOMEM;
	return 0;
}

/* --- communicators --- */

/* It entered nothing since then, as far as is seen; 0 not known. */
static uint64_t moved_ns(const struct member *mb)
{
	return larger(mb->last_call_ns, mb->samples.counted ? mb->samples.since_ns : 0);
}

static bool compares(const struct member *mb)
{
	return (!mb->gone || mb->proc->dead) && member_comparable(mb, SEQ_COLL);
}

/* Where it stands: of communicators in which it is ahead the one that it came to first, as others may be queued behind
 * that; else of those in which it is behind, or else of all, the one where it moved last. */
static bool is_place(const struct top_row *r, const struct member *mb, bool ahead, bool behind)
{
	if (!r->at || ahead != r->ahead)
		return !r->at || ahead;
	if (ahead)
		return moved_ns(mb) < moved_ns(r->at);
	return behind != r->behind ? behind : moved_ns(mb) > moved_ns(r->at);
}

static void place_note(struct top_row *r, const struct member *mb, uint64_t least, uint64_t most)
{
	uint64_t own = mb->entered_seq[SEQ_COLL];
	bool knows = compares(mb), ahead = knows && own > least, behind = knows && own < most;

	if (is_place(r, mb, ahead, behind)) {
		r->at = mb;
		r->has_seq = knows && (own || behind);
		r->seq = ahead ? least : behind || !own ? own : own - 1;
	}
	r->ahead |= ahead;
	r->behind |= behind;
}

static void member_note(struct top_table *t, const struct member *mb, uint64_t least, uint64_t most)
{
	struct top_row *r = row_of(t, mb);
	uint64_t own = mb->entered_seq[SEQ_COLL], at_ns = moved_ns(mb), now_ns = r ? r->part->m->now_ns : 0;

	if (!r || (mb->gone && !mb->proc->dead))
		return;
	r->moved |= mb->last_call_ns || mb->samples.moved;
	if (at_ns && now_ns > at_ns)
		r->wait_ns = r->wait_ns ? smaller(r->wait_ns, now_ns - at_ns) : now_ns - at_ns;
	if (compares(mb))
		r->lag = larger(r->lag, most - own);
	place_note(r, mb, least, most);
}

static void comm_note(struct top_table *t, const struct comm *c)
{
	uint64_t least = UINT64_MAX, most = 0;

	for (const struct member *mb = c->members; mb; mb = mb->next_in_comm)
		if (compares(mb)) {
			least = smaller(least, mb->entered_seq[SEQ_COLL]);
			most = larger(most, mb->entered_seq[SEQ_COLL]);
		}
	for (const struct member *mb = c->members; mb; mb = mb->next_in_comm)
		member_note(t, mb, least, most);
}

/* --- what else is known of a rank --- */

static enum top_state state_of(const struct top_row *r, const struct task *main_task)
{
	bool stands = r->wait_ns >= TOP_STANDS_NS || (!r->moved && (r->ahead || r->behind));

	if (r->proc->dead)
		return r->proc->exit_code || r->proc->exit_signal ? TOP_DEAD : TOP_ENDED;
	if (proc_unobserved(r->proc))
		return TOP_SILENT;
	if (main_task && main_task->state == TASK_STOPPED)
		return TOP_STOPPED;
	if (main_task && main_task->blocked)
		return TOP_BLOCKED;
	if (stands && r->ahead)
		return TOP_WAITS;
	if (stands && r->behind)
		return TOP_LATE;
	return stands ? TOP_STANDS : r->moved ? TOP_MOVES : TOP_UNSEEN;
}

static const struct task *main_task_of(const struct proc *p)
{
	const struct task *t = p->tasks;

	while (t && t->tid != p->tgid)
		t = t->next;
	return t;
}

static void row_finish(struct top_row *r)
{
	const struct proc *p = r->proc;
	const struct task *main_task = main_task_of(p);
	uint64_t now_ns = r->part->m->now_ns, since_ns = now_ns > GPU_WINDOW_NS ? now_ns - GPU_WINDOW_NS : 0;
	int phase = proc_phase(p);

	r->state = state_of(r, main_task);
	if (rank_steps(p, r->rank)->period_ops)
		r->step_s = rank_steps(p, r->rank)->median_s;
	if (p->shared)
		return;
	if (phase >= 0 && phase < STEP_PHASES)
		r->phase = phase;
	if (main_task)
		r->cpu = task_cpu_share(main_task);
	if (r->gpu)
		r->activity = gpu_activity_since(r->gpu, since_ns, now_ns);
}

/* --- findings --- */

bool top_finding_names(const struct finding *f, const struct proc *p, int rank)
{
	for (int i = 0; i < f->n_ranks; i++)
		if (finding_proc(f, i) == p->key && (!p->shared || f->ranks[i] == rank))
			return true;
	return false;
}

static bool is_worse(const struct incident *a, const struct incident *than)
{
	if (!than || a->f.severity != than->f.severity)
		return !than || a->f.severity > than->f.severity;
	return !*a->caused_by && *than->caused_by; /* what the others follow from */
}

static void culprit_note(struct top_table *t, const struct top_found *found, int k)
{
	const struct finding *f = &found->i->f;
	const struct proc *p = f->pids[k] ? model_proc(found->m, finding_proc(f, k)) : NULL;
	int rank = !p ? -1 : p->shared ? f->ranks[k] : proc_rank(p);
	struct top_row *r = p ? keyed_find(&t->rows, p->key, (uint64_t)(int64_t)rank) : NULL;

	if (!r)
		return;
	r->n_findings++;
	if (is_worse(found->i, r->worst))
		r->worst = found->i;
}

static int found_compare(const void *a, const void *b)
{
	const struct incident *x = ((const struct top_found *)a)->i, *y = ((const struct top_found *)b)->i;

	if (is_worse(x, y) != is_worse(y, x))
		return is_worse(x, y) ? -1 : 1;
	return x->open_ns != y->open_ns ? (x->open_ns < y->open_ns ? -1 : 1) : strcmp(x->id, y->id);
}

static size_t open_count(const struct top_part *part)
{
	size_t n = 0;

	for (const struct incident *i = incidents_next_open(part->open, NULL); i;
	     i = incidents_next_open(part->open, i))
		n++;
	return n;
}

static int found_make(struct top_table *t)
{
	size_t n = 0;

	for (size_t p = 0; p < t->n_parts; p++)
		n += open_count(&t->parts[p]);
	t->found = calloc(n + 1, sizeof(*t->found));
	if (!t->found)
		return -ENOMEM;
	for (const struct top_part *p = t->parts; p < t->parts + t->n_parts; p++)
		for (const struct incident *i = incidents_next_open(p->open, NULL); i;
		     i = incidents_next_open(p->open, i))
			t->found[t->n_found++] = (struct top_found){ i, p->m };
	qsort(t->found, t->n_found, sizeof(*t->found), found_compare);
	return 0;
}

static int findings_note(struct top_table *t)
{
	int err = found_make(t);

	for (size_t i = 0; i < t->n_found; i++) {
		t->n_open[t->found[i].i->f.severity]++;
		for (int k = 0; k < t->found[i].i->f.n_ranks; k++)
			culprit_note(t, &t->found[i], k);
	}
	return err;
}

/* --- all of it --- */

static int order_make(struct top_table *t)
{
	t->order = malloc((t->rows.n + 1) * sizeof(struct top_row *));
	if (!t->order)
		return -ENOMEM;
	for (struct top_row *r = t->rows.all; r; r = r->keyed.next) {
		row_finish(r);
		t->n_state[r->state]++;
		t->order[t->n++] = r;
	}
	return 0;
}

static int part_add(struct top_table *t, const struct top_part *part)
{
	int err = 0;

	t->now_ns = larger(t->now_ns, part->m->now_ns);
	for (const struct proc *p = part->m->procs; p && !err; p = p->next)
		err = is_shown(p) ? rows_add(t, part, p) : 0;
	for (const struct comm *c = part->m->comms; c && !err; c = c->next)
		comm_note(t, c);
	return err;
}

int top_table_make(struct top_table *t, const struct top_part *parts, size_t n_parts)
{
	int err = 0;

	top_table_free(t);
	t->parts = calloc(n_parts + 1, sizeof(*parts));
	if (!t->parts)
		return -ENOMEM;
	if (n_parts)
		memcpy(t->parts, parts, n_parts * sizeof(*parts));
	t->n_parts = n_parts;
	for (size_t i = 0; i < n_parts && !err; i++)
		err = part_add(t, &t->parts[i]);
	err = err ? err : order_make(t);
	return err ? err : findings_note(t);
}

void top_table_free(struct top_table *t)
{
	keyed_free(&t->rows);
	free(t->order);
	free(t->parts);
	free(t->found);
	*t = (struct top_table){ 0 };
}

bool top_row_is_bad(const struct top_row *r)
{
	return r->state <= TOP_LATE || (r->worst && r->worst->f.severity > SEVERITY_INFO);
}

/* What kind of operation that is: by probes, on whichever rank they saw it; NULL not known. */
static const struct op *op_at(const struct top_row *r)
{
	const struct op *op = r->has_seq ? NULL : r->at->ops_tail;

	for (const struct member *mb = r->has_seq ? r->at->comm->members : NULL; mb && !op; mb = mb->next_in_comm)
		op = mb->ops ? member_op(mb, SEQ_COLL, r->seq) : NULL;
	return op;
}

void top_row_op(const struct top_row *r, char *to, size_t size)
{
	const char *use = r->at ? parallelism_name(r->at->comm->parallelism) : NULL;
	const struct op *op = r->at ? op_at(r) : NULL;
	char number[32] = "";

	if (r->has_seq)
		snprintf(number, sizeof(number), "#%llu", (unsigned long long)r->seq);
	snprintf(to, size, "%s%s%s%s%s", use ? use : "", use && *number ? " " : "", number,
		 op && (use || *number) ? " " : "", op ? op_kind_name(op->kind) : "");
}
