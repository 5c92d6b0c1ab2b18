/* SPDX-License-Identifier: Apache-2.0
 *
 * discover.c - the scans, and the list they end in. One process is proc_row.c's work, its files lib_table.c's, who
 * belongs to whom rank_tree.c's.
 */
#include "base/clock.h"
#include "base/shares.h"
#include "inspect/discover/discover_private.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CANDIDATES_MAX 256 /* read between the scans */
#define SETTLE_POLL_US 20000
#define SETTLE_LOCKS_NS 1200000000ull /* a blocked process is known as such after 0.2 s */
#define SETTLE_FILES_NS 5000000000ull /* an answer has to come, even of a host without a free CPU */
#define KERNEL_SCAN_EVERY 8           /* scans: kernel threads hardly ever turn into something else */

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
	shares_count_begin(s->shares);
	for (struct proc_row *p = s->active; p; p = p->next) {
		if (p->listed) {
			shares_count(s->shares, p->pub.uid);
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

/* Whose it is, before more is read of it. */
static uint32_t owner_of(const struct target_set *s, const struct proc_row *p, uint32_t tgid, uint32_t uid)
{
	struct proc_status st;

	if (!s->shares || uid != UID_UNKNOWN)
		return uid;
	if (p && p->pub.uid != UID_UNKNOWN)
		return p->pub.uid;
	return proc_status_read(tgid, &st) ? UID_UNKNOWN : st.uid;
}

static void scan_count(struct target_set *s, const struct proc_row *p)
{
	s->counts.processes += !p->is_kernel;
	s->counts.kernel_threads += p->is_kernel;
	s->counts.denied += p->pub.status == TARGET_DENIED;
	s->counts.blocked += p->pub.status == TARGET_BLOCKED;
}

static void pid_scan(struct target_set *s, struct proc_row *p, uint32_t tgid, uint32_t uid, bool all)
{
	bool skip = all && p && p->is_kernel && (s->scan + tgid) % KERNEL_SCAN_EVERY, listed = p && p->listed;

	if (!p)
		p = proc_row_add(s, tgid);
	if (p && uid != UID_UNKNOWN)
		p->pub.uid = uid;
	if (!p || (!skip && !proc_row_update(s, p, all ? SCAN_PATIENT : SCAN_NOW)))
		return;
	proc_row_wake(s, p);
	seccomp_read(p);
	p->seen = s->scan;
	p->waits = false;
	if (is_stranger(p)) /* one by one: 10,000 maps at a time are 60 MB */
		trim(s, p);
	else if (!listed)
		shares_count(s->shares, uid);
	if (all && s->of_all)
		scan_count(s, p);
}

/* A user that has as many as are scanned: what is known of the others stays as it is. */
bool discover_pid_scan(struct target_set *s, uint32_t tgid, uint32_t uid, bool all)
{
	struct proc_row *p = proc_row_find(s, tgid);
	uint64_t begin_ns;

	if (tgid == (uint32_t)getpid())
		return true;
	uid = owner_of(s, p, tgid, uid);
	if (!(p && p->listed) && shares_are_full(s->shares, uid)) {
		if (p) {
			p->seen = s->scan;
			p->waits = false;
		}
		return true;
	}
	if (!shares_may(s->shares, uid))
		return false;
	begin_ns = clock_monotonic_ns();
	pid_scan(s, p, tgid, uid, all);
	shares_spend(s->shares, uid, clock_monotonic_ns() - begin_ns);
	return true;
}

/* Of all processes: what the one before left is in this one, too. */
void discover_scan_begin(struct target_set *s)
{
	s->scan++;
	s->of_all = true;
	todo_clear(s);
	s->n_half_dead = 0;
	s->counts = (struct target_counts){ 0 };
}

int target_set_scan(struct target_set *s)
{
	struct proc_row *p, *next;
	DIR *dir = opendir("/proc");
	int err = 0;

	if (!dir)
		return -errno;
	glances_drop(s);
	discover_scan_begin(s);
	for (struct dirent *e; !err && (e = readdir(dir));)
		if (isdigit((unsigned char)e->d_name[0]))
			err = todo_add(s, strtoul(e->d_name, NULL, 10), UID_UNKNOWN);
	closedir(dir);
	if (err)
		return err;
	HASH_ITER (hh, s->procs, p, next)
		if (p->seen != s->scan)
			proc_row_free(s, p);
	todo_run(s);
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
	if ((p->awaited || (p->candidate && now < p->young_until_ns)) && n < CANDIDATES_MAX)
		n += discover_pid_scan(s, p->pub.tgid, UID_UNKNOWN, false);
}

size_t target_set_awaited(const struct target_set *s)
{
	size_t n = 0;

	for (const struct proc_row *p = s->active; p; p = p->next)
		n += p->awaited;
	return n;
}

static bool is_settled(const struct target_set *s, uint64_t took_ns)
{
	const struct proc_row *p = s->active;

	if (took_ns < SETTLE_LOCKS_NS && target_set_awaited(s))
		return false;
	while (p && !p->starved)
		p = p->next;
	return !p || took_ns >= SETTLE_FILES_NS;
}

static void starved_scan(struct target_set *s)
{
	uint64_t now = clock_monotonic_ns();
	struct proc_row *p, *next;

	DL_FOREACH_SAFE(s->active, p, next)
	if (p->starved && now >= p->retry_ns)
		discover_pid_scan(s, p->pub.tgid, UID_UNKNOWN, false);
}

int target_set_scan_settled(struct target_set *s)
{
	uint64_t begin_ns = clock_monotonic_ns();
	int err;

	reader_set_patient(s->reader, true);
	err = target_set_scan(s);
	while (!err && !is_settled(s, clock_monotonic_ns() - begin_ns)) {
		usleep(SETTLE_POLL_US);
		starved_scan(s);
		err = target_set_rescan(s, NULL, 0);
	}
	reader_set_patient(s->reader, false);
	return err;
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
		discover_pid_scan(s, tgids[i], UID_UNKNOWN, false);
	candidates_scan(s);
	return discover_finish(s);
}

/* A child's user is its parent's until it is read. */
static bool may_scan(struct target_set *s, const struct target_born *b)
{
	const struct proc_row *p = proc_row_find(s, b->tgid);

	return (p && p->pub.uid != UID_UNKNOWN) || b->uid == UID_UNKNOWN ||
	       (shares_may(s->shares, b->uid) && !shares_are_full(s->shares, b->uid));
}

int target_set_rescan_of(struct target_set *s, const struct target_born *procs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct target_born *b = &procs[(s->turn + i) % n];

		if (may_scan(s, b))
			discover_pid_scan(s, b->tgid, UID_UNKNOWN, false);
	}
	s->turn++;
	candidates_scan(s);
	return discover_finish(s);
}

void target_set_share(struct target_set *s, struct shares *shares)
{
	s->shares = shares;
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
	free(s->todo.rows);
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
