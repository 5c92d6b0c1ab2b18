/* SPDX-License-Identifier: Apache-2.0
 *
 * discover.c - the scans, and the list they end in. One process is proc_row.c's work, its files lib_table.c's, who
 * belongs to whom rank_tree.c's.
 */
#include "base/clock.h"
#include "inspect/discover/discover_private.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CANDIDATES_MAX 256  /* read between the scans */
#define KERNEL_SCAN_EVERY 8 /* scans: kernel threads hardly ever turn into something else */

/* The maps are not read of a process that has nothing we want. */
static void trim(struct target_set *s, struct proc_row *p)
{
	lib_table_unload(s, p);
	maps_free(&p->pub.maps);
}

static void show(struct target_set *s, struct proc_row *p)
{
	const struct target_proc *t = &p->pub;
	int64_t what[] = { t->rank,
			   t->local_rank,
			   t->world_size,
			   t->is_child,
			   t->rank_tgid,
			   t->ns_pid,
			   t->parent_tgid,
			   t->status == TARGET_BLOCKED,
			   (int64_t)t->start_time_ns,
			   (int64_t)t->n_libs,
			   t->rank_source,
			   t->rank_late,
			   t->rank_ambiguous,
			   (int64_t)t->netns };
	uint64_t h = hash_bytes(0xcbf29ce484222325ull, what, sizeof(what));

	h = hash_bytes(h, t->job, strlen(t->job));
	h = hash_bytes(h, t->name, strlen(t->name));
	h = hash_bytes(h, t->place->pod_name, strlen(t->place->pod_name));
	for (size_t i = 0; i < t->n_libs; i++)
		h = hash_bytes(h, &t->libs[i].file, sizeof(t->libs[i].file));
	if (h == p->shown_hash)
		return;
	p->shown_hash = h;
	p->pub.revision = ++s->revision;
}

/* A process becomes listed: the rest of its identity, and its files kept open while that can be done. */
static void enlist(struct target_set *s, struct proc_row *p)
{
	struct proc_status st;

	if (!p->pub.libs && p->pub.status == TARGET_OK) {
		p->stale = true;
		int rc = proc_row_load_maps(s, p);

		proc_row_status(p, rc);
		p->stale = rc != 0;
	}
	if (!proc_status_read(p->pub.tgid, &st)) {
		p->pub.ns_pid = st.ns_pid;
		p->pub.seccomp = st.seccomp;
		p->pub.uid = st.uid;
	}
	place_read(p);
}

static int by_identity(const void *a, const void *b)
{
	const struct target_proc *x = *(const struct target_proc *const *)a, *y = *(const struct target_proc *const *)b;
	int d = strcmp(x->place->job, y->place->job);

	d = d ? d : strcmp(x->job, y->job);

	if (d)
		return d;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->is_child != y->is_child)
		return x->is_child ? 1 : -1;
	return x->tgid < y->tgid ? -1 : x->tgid > y->tgid;
}

void discover_sort(struct target_set *s)
{
	qsort(s->list, s->n_list, sizeof(*s->list), by_identity);
}

static int build_list(struct target_set *s)
{
	size_t n = 0;

	for (const struct proc_row *p = s->active; p; p = p->next)
		n += p->listed;
	const struct target_proc **list = calloc(n + 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	s->n_list = 0;
	for (struct proc_row *p = s->active; p; p = p->next)
		if (p->listed)
			list[s->n_list++] = &p->pub;
	free(s->list);
	s->list = list;
	discover_sort(s);
	return 0;
}

/* A program may put itself under seccomp at any time; takes no lock of the target's. */
static void seccomp_read(struct proc_row *p)
{
	struct proc_status st;

	if (!p->pub.n_libs || p->pub.seccomp > 0 || proc_status_read(p->pub.tgid, &st))
		return;
	p->pub.seccomp = st.seccomp;
	p->pub.uid = st.uid;
}

int discover_finish(struct target_set *s)
{
	rank_tree_build(s);
	for (struct proc_row *p = s->active; p; p = p->next) {
		if (p->listed) {
			if (!p->pub.libs || !p->pub.ns_pid)
				enlist(s, p);
			place_show(p);
			lib_table_keep(s, p);
			show(s, p);
			continue;
		}
		trim(s, p);
		if (p->shown_hash)
			s->revision++;
		p->shown_hash = 0;
	}
	return build_list(s);
}

static bool is_stranger(const struct proc_row *p)
{
	return !p->listed && !p->pub.n_libs && p->env.rank < 0;
}

void discover_pid_scan(struct target_set *s, uint32_t tgid, bool all)
{
	struct proc_row *p = proc_row_find(s, tgid);
	bool skip = all && p && p->is_kernel && (s->scan + tgid) % KERNEL_SCAN_EVERY;

	if (tgid == (uint32_t)getpid())
		return;
	if (!p)
		p = proc_row_add(s, tgid);
	if (!p || (!skip && !proc_row_update(s, p, all ? SCAN_PATIENT : SCAN_NOW)))
		return;
	proc_row_wake(s, p);
	seccomp_read(p);
	p->seen = s->scan;
	if (is_stranger(p)) /* one by one: 10,000 maps at a time are 60 MB */
		trim(s, p);
	s->counts.processes += all && !p->is_kernel;
	s->counts.kernel_threads += all && p->is_kernel;
	s->counts.denied += all && p->pub.status == TARGET_DENIED;
	s->counts.blocked += all && p->pub.status == TARGET_BLOCKED;
}

void discover_scan_begin(struct target_set *s)
{
	s->scan++;
	s->n_half_dead = 0;
	s->counts = (struct target_counts){ 0 };
}

int target_set_scan(struct target_set *s)
{
	struct proc_row *p, *next;
	DIR *dir = opendir("/proc");

	if (!dir)
		return -errno;
	glances_drop(s);
	discover_scan_begin(s);
	for (struct dirent *e; (e = readdir(dir));)
		if (isdigit((unsigned char)e->d_name[0]))
			discover_pid_scan(s, strtoul(e->d_name, NULL, 10), true);
	closedir(dir);
	HASH_ITER (hh, s->procs, p, next)
		if (p->seen != s->scan)
			proc_row_free(s, p);
	lib_table_sweep(s);
	return discover_finish(s);
}

/* Processes that say a rank and have no library yet: found within one rescan of mapping it, as the traced ones are. And
 * those a worker is still with. */
static void candidates_scan(struct target_set *s)
{
	uint64_t now = clock_monotonic_ns();
	struct proc_row *p, *next;
	int n = 0;

	DL_FOREACH_SAFE(s->active, p, next)
	if ((p->awaited || (p->candidate && now < p->young_until_ns)) && n++ < CANDIDATES_MAX)
		discover_pid_scan(s, p->pub.tgid, false);
}

size_t target_set_awaited(const struct target_set *s)
{
	size_t n = 0;

	for (const struct proc_row *p = s->active; p; p = p->next)
		n += p->awaited;
	return n;
}

size_t target_set_unread(const struct target_set *s, uint32_t *tgids, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_half_dead && n < max; i++)
		tgids[n++] = s->half_dead[i];
	for (const struct proc_row *p = s->active; p && n < max; p = p->next)
		if (!p->is_kernel && !p->seen_maps && (p->awaited || p->pub.status == TARGET_BLOCKED))
			tgids[n++] = p->pub.tgid;
	return n;
}

int target_set_rescan(struct target_set *s, const uint32_t *tgids, size_t n)
{
	for (size_t i = 0; i < n; i++)
		discover_pid_scan(s, tgids[i], false);
	candidates_scan(s);
	return discover_finish(s);
}

void target_set_unhurried(struct target_set *s)
{
	s->unhurried = true;
}

void target_set_has_comm(struct target_set *s, uint32_t tgid)
{
	struct proc_row *p = proc_row_find(s, tgid);

	if (!p || p->has_comm)
		return;
	p->has_comm = true;
	p->late_due_ns = 0;
}

const struct target_proc *target_set_refresh(struct target_set *s, uint32_t tgid)
{
	struct proc_row *p = proc_row_find(s, tgid);

	if (!p)
		p = proc_row_add(s, tgid);
	if (p && proc_row_update(s, p, SCAN_AGAIN)) {
		proc_row_wake(s, p);
		p->seen = s->scan;
	}
	discover_finish(s);
	return target_set_find(s, tgid);
}

int target_set_new(struct reader *r, const struct target_filter *filters, size_t n, struct target_set **ret)
{
	struct target_set *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->reader = r;
	s->filters = filters;
	s->n_filters = n;
	int rc = lib_table_init(s);

	if (rc)
		target_set_free(s);
	else
		*ret = s;
	return rc;
}

void target_set_free(struct target_set *s)
{
	struct proc_row *p, *next;

	if (!s)
		return;
	HASH_ITER (hh, s->procs, p, next)
		proc_row_free(s, p);
	lib_table_free(s);
	glances_drop(s);
	free(s->list);
	free(s);
}

const struct target_proc *target_set_find(const struct target_set *s, uint32_t tgid)
{
	const struct proc_row *p = proc_row_find(s, tgid);

	return p ? &p->pub : NULL;
}

const struct target_proc *const *target_set_list(struct target_set *s, size_t *ret_n)
{
	*ret_n = s->n_list;
	return s->list;
}

uint64_t target_set_revision(const struct target_set *s)
{
	return s->revision;
}

const char *target_status_name(enum target_status status)
{
	static const char *const names[] = { "ok", "gone", "denied", "blocked", "error" };

	return names[status];
}

const struct target_counts *target_set_counts(const struct target_set *s)
{
	return &s->counts;
}
