/* SPDX-License-Identifier: Apache-2.0
 *
 * glance.c - what strangers cost. A process that is settled and of no interest rests: it stands in the table, as a
 * parent of others, but no scan reads its files and no walk visits it, until the kernel's glance says that it mapped
 * something, called exec, got another parent or ended. So 10,000 strangers cost one pass over 10,000 small rows.
 */
#include <stdlib.h>
#include <string.h>

#include "base/larger.h"
#include "inspect/discover/discover_private.h"

static int by_tgid(const void *a, const void *b)
{
	const struct process_glance *x = a, *y = b;

	return x->tgid < y->tgid ? -1 : x->tgid > y->tgid;
}

static struct process_glance *glance_of(const struct target_set *s, const struct proc_row *p)
{
	struct process_glance key = { .tgid = p->pub.tgid };

	return s->glances ? bsearch(&key, s->glances, s->n_glances, sizeof(key), by_tgid) : NULL;
}

static void glance_mark(const struct target_set *s, const struct proc_row *p)
{
	struct process_glance *g = glance_of(s, p);

	if (g)
		g->rests = p->active ? GLANCE_LOOK : p->is_kernel ? GLANCE_RESTS_KERNEL : GLANCE_RESTS;
}

/* It rested until now: as of the last glance nothing had come to what was read of it. A new row did not. */
static void bare_note(const struct target_set *s, struct proc_row *p)
{
	const struct process_glance *g = p->pub.start_time_ns ? glance_of(s, p) : NULL;

	if (g && g->rests)
		p->pub.bare_ns = larger(p->pub.bare_ns, s->glanced_ns);
}

void proc_row_wake(struct target_set *s, struct proc_row *p)
{
	p->woken = false;
	if (p->active)
		return;
	bare_note(s, p);
	p->active = true;
	DL_APPEND(s->active, p);
	glance_mark(s, p);
}

void proc_rows_wake(struct target_set *s)
{
	for (struct proc_row *p = s->procs; p; p = p->hh.next) {
		bool rested = !p->active;

		proc_row_wake(s, p);
		p->woken = rested;
	}
}

void glances_drop(struct target_set *s)
{
	free(s->glances);
	s->glances = NULL;
	s->n_glances = 0;
}

/* All that is to be read of it was read, and it has no rank, no library, and no owner. */
static bool is_settled(const struct proc_row *p)
{
	bool was_read = p->has_env && p->seen_maps && !p->stale && !p->retry_ns && p->vsize == p->stat_vsize;

	if (p->listed || p->owner || p->awaited || p->adopted || p->has_comm || p->shown_hash)
		return false;
	return p->is_kernel || (was_read && p->pub.status == TARGET_OK && p->env.rank < 0 && !p->pub.n_libs);
}

/* What rests is in the glances: so its end will be seen. */
static void row_rest(struct target_set *s, struct proc_row *p)
{
	if (!glance_of(s, p))
		return;
	DL_DELETE(s->active, p);
	p->active = p->woken = false;
	glance_mark(s, p);
}

void proc_rows_rest(struct target_set *s)
{
	struct proc_row *p, *next;

	DL_FOREACH_SAFE(s->active, p, next)
	if (p->woken && is_settled(p))
		row_rest(s, p);
}

void settled_rest(struct target_set *s)
{
	struct proc_row *p, *next;

	DL_FOREACH_SAFE(s->active, p, next)
	if (is_settled(p))
		row_rest(s, p);
}

static bool is_sorted(const struct process_glance *rows, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (rows[i].tgid <= rows[i - 1].tgid)
			return false;
	return true;
}

static bool is_unchanged(const struct process_glance *was, const struct process_glance *now)
{
	return was->rests && !now->over && was->start_ns == now->start_ns && was->execs == now->execs &&
	       was->pages == now->pages && was->parent_tgid == now->parent_tgid;
}

static void gone_free(struct target_set *s, uint32_t tgid)
{
	struct proc_row *p = proc_row_find(s, tgid);

	if (p)
		proc_row_free(s, p);
}

/* It is there, and to be read; a row that it has is none of those that are gone. */
static int glance_todo(struct target_set *s, const struct process_glance *g)
{
	struct proc_row *p = proc_row_find(s, g->tgid);

	if (p)
		p->seen = s->scan;
	return todo_add(s, g->tgid, g->uid);
}

/* Both lists are sorted. 0 or -ENOMEM. */
static int compare(struct target_set *s, struct process_glance *rows, size_t n)
{
	const struct process_glance *was = s->glances, *end = was + s->n_glances;
	int err = 0;

	for (size_t i = 0; !err && i < n; i++) {
		for (; was < end && was->tgid < rows[i].tgid; was++)
			gone_free(s, was->tgid);
		if (was < end && was->tgid == rows[i].tgid && is_unchanged(was, &rows[i]))
			rows[i].rests = was->rests;
		was += was < end && was->tgid == rows[i].tgid;
		s->counts.processes += rows[i].rests == GLANCE_RESTS;
		s->counts.kernel_threads += rows[i].rests == GLANCE_RESTS_KERNEL;
		if (!rows[i].rests)
			err = glance_todo(s, &rows[i]);
	}
	for (; !err && was < end; was++)
		gone_free(s, was->tgid);
	return err;
}

/* Those that a rescan found and that were over before this scan. */
static void unseen_free(struct target_set *s)
{
	struct proc_row *p, *next;

	DL_FOREACH_SAFE(s->active, p, next)
	if (p->seen != s->scan)
		proc_row_free(s, p);
}

int target_set_scan_some(struct target_set *s, const struct target_born *born, size_t n)
{
	int err = 0;

	s->n_half_dead = 0;
	s->of_all = false;
	for (const struct proc_row *p = s->active; !err && p; p = p->next)
		err = p->waits ? 0 : todo_add(s, p->pub.tgid, UID_UNKNOWN);
	for (size_t i = 0; !err && i < n; i++)
		err = todo_add(s, born[i].tgid, born[i].uid);
	if (err)
		return err;
	todo_run(s);
	lib_table_sweep(s);
	return discover_finish(s);
}

int target_set_scan_glances(struct target_set *s, struct process_glance *rows, size_t n, uint64_t at_ns)
{
	int err;

	if (!is_sorted(rows, n))
		qsort(rows, n, sizeof(*rows), by_tgid);
	discover_scan_begin(s);
	if (!s->glances) /* none to compare with: those that went since would stay */
		proc_rows_wake(s);
	err = compare(s, rows, n);
	unseen_free(s);
	todo_run(s);
	lib_table_sweep(s);
	glances_drop(s);
	s->glances = rows;
	s->n_glances = n;
	s->glanced_ns = at_ns;
	err = err ? err : discover_finish(s);
	settled_rest(s);
	return err;
}
