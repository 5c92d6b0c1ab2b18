/* SPDX-License-Identifier: Apache-2.0
 *
 * discover.c - the scans. Each process costs one read of its stat file; its maps are read only when that says that the
 * address space changed (vsize moves with every mmap), its environment only when the program did.
 */
#include "base/clock.h"
#include "target/discover_private.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAPS_CAP (8u << 20)
#define ENVIRON_CAP (1u << 20)
#define KERNEL_LOOK_EVERY 8 /* scans: kernel threads hardly ever turn into something else */

static void set_status(struct proc_row *p, int rc)
{
	p->pub.error = rc;
	if (!rc)
		p->pub.status = TARGET_OK;
	else if (rc == -ESRCH || rc == -ENOENT)
		p->pub.status = TARGET_GONE;
	else if (rc == -EACCES || rc == -EPERM)
		p->pub.status = TARGET_DENIED;
	else if (rc == -ETIMEDOUT || rc == -EBUSY)
		p->pub.status = TARGET_BLOCKED;
	else
		p->pub.status = TARGET_ERROR;
}

static void proc_remove(struct target_set *s, struct proc_row *p)
{
	if (p->shown_hash)
		s->revision++;
	reader_unblock(s->reader, p->pub.tgid);
	lib_table_unload(s, p);
	maps_free(&p->pub.maps);
	HASH_DEL(s->procs, p);
	free(p);
}

static struct proc_row *proc_add(struct target_set *s, uint32_t tgid)
{
	struct proc_row *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->pub.tgid = tgid;
	p->pub.rank = p->pub.local_rank = p->pub.world_size = p->pub.seccomp = -1;
	p->env.rank = -1;
	HASH_ADD_INT(s->procs, pub.tgid, p);
	return p;
}

static uint64_t hash_bytes(uint64_t h, const void *data, size_t len)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 0x100000001b3ull;
	return h;
}

static uint64_t hash_exec_rows(const struct maps *maps)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < maps->n; i++) {
		const struct mapping *m = &maps->rows[i];
		uint64_t what[] = { m->start, m->end, m->offset, m->inode, m->dev_major, m->dev_minor, m->deleted };

		if (m->prot & MAPPING_EXEC)
			h = hash_bytes(h, what, sizeof(what));
	}
	return h ? h : 1;
}

static int read_maps(struct target_set *s, uint32_t tgid, struct maps *ret)
{
	char *text = NULL;
	size_t len = 0;
	int rc = reader_file(s->reader, tgid, "maps", MAPS_CAP, READER_DEADLINE_MS, &text, &len);

	s->counts.maps_read++;
	if (!rc)
		rc = maps_parse(text, len, ret);
	free(text);
	return rc;
}

/* Paths of libs point into the maps that are replaced: move them over. Rows are the same, as the hash is. */
static void repoint_paths(struct target_proc *t, const struct maps *fresh)
{
	for (size_t i = 0; i < t->n_files; i++) {
		const struct mapping *m = maps_find(fresh, t->libs[i].map_start);

		t->libs[i].path = m ? m->path : "";
	}
}

static int load_maps(struct target_set *s, struct proc_row *p)
{
	struct maps fresh = { 0 };
	int rc = read_maps(s, p->pub.tgid, &fresh);

	if (rc)
		return rc;
	uint64_t hash = hash_exec_rows(&fresh);
	bool same = hash == p->exec_hash && !p->stale;
	struct maps old = p->pub.maps;

	if (same)
		repoint_paths(&p->pub, &fresh);
	p->pub.maps = fresh;
	if (!same)
		rc = lib_table_load(s, p);
	maps_free(&old);
	p->exec_hash = rc ? 0 : hash;
	return rc;
}

/* Nobody asks for the maps of a process that has nothing we want. */
static void trim(struct target_set *s, struct proc_row *p)
{
	lib_table_unload(s, p);
	maps_free(&p->pub.maps);
}

static int load_environ(struct target_set *s, struct proc_row *p)
{
	char *text = NULL;
	size_t len = 0;
	int rc = reader_file(s->reader, p->pub.tgid, "environ", ENVIRON_CAP, READER_DEADLINE_MS, &text, &len);

	if (rc)
		return rc;
	proc_environ_parse(text, len, &p->env);
	free(text);
	p->has_env = true;
	if (reader_link(s->reader, p->pub.tgid, "exe", p->pub.exe, sizeof(p->pub.exe), READER_DEADLINE_MS))
		p->pub.exe[0] = '\0';
	return 0;
}

static void apply_stat(struct target_set *s, struct proc_row *p, const struct proc_stat *st)
{
	bool other_process = st->start_time_ns != p->pub.start_time_ns;

	if (other_process || st->image != p->image) {
		p->has_env = false;
		p->stale = true;
		p->pub.ns_pid = 0;
		p->env = (struct proc_environ){ .rank = -1, .local_rank = -1, .world_size = -1 };
	}
	if (other_process)
		reader_unblock(s->reader, p->pub.tgid);
	p->pub.start_time_ns = st->start_time_ns;
	p->pub.parent_tgid = st->parent;
	p->pub.state = st->state;
	memcpy(p->pub.name, st->name, sizeof(st->name));
	/* Our own helper is of no interest either, though it may have inherited a RANK. */
	p->is_kernel = st->is_kernel || st->parent == (uint32_t)reader_pid(s->reader) ||
		       p->pub.tgid == (uint32_t)reader_pid(s->reader);
	p->image = st->image;
}

/* Brings one process up to date. False: it is gone, and so is the row. */
static bool proc_update(struct target_set *s, struct proc_row *p, bool force)
{
	struct proc_stat st;
	int rc = proc_stat_read(p->pub.tgid, &st);

	if (rc || st.state == 'Z' || st.state == 'X') {
		proc_remove(s, p);
		return false;
	}
	apply_stat(s, p, &st);
	if (p->is_kernel)
		return true;
	if (force || !p->has_env)
		rc = load_environ(s, p);
	bool retry = p->retry_ns && clock_monotonic_ns() >= p->retry_ns;

	p->stale |= retry;
	if (!rc && (force || p->stale || st.vsize != p->vsize)) {
		rc = load_maps(s, p);
		/* Only a complete look is done; a failed one is made again next time. */
		p->stale = rc != 0;
		p->vsize = rc ? 0 : st.vsize;
	}
	set_status(p, rc);
	return true;
}

static void show(struct target_set *s, struct proc_row *p)
{
	const struct target_proc *t = &p->pub;
	int64_t what[] = { t->rank, t->local_rank, t->world_size, t->is_child, t->rank_tgid, t->ns_pid, t->parent_tgid,
			   t->status == TARGET_BLOCKED, (int64_t)t->start_time_ns, (int64_t)t->n_libs };
	uint64_t h = hash_bytes(0xcbf29ce484222325ull, what, sizeof(what));

	h = hash_bytes(h, t->job, strlen(t->job));
	h = hash_bytes(h, t->name, strlen(t->name));
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
		set_status(p, load_maps(s, p));
		p->stale = p->pub.status != TARGET_OK;
	}
	if (!proc_status_read(p->pub.tgid, &st)) {
		p->pub.ns_pid = st.ns_pid;
		p->pub.seccomp = st.seccomp;
	}
	proc_container_read(p->pub.tgid, p->pub.container);
}

static int by_identity(const void *a, const void *b)
{
	const struct target_proc *x = *(const struct target_proc *const *)a, *y = *(const struct target_proc *const *)b;
	int d = strcmp(x->job, y->job);

	if (d)
		return d;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->is_child != y->is_child)
		return x->is_child ? 1 : -1;
	return x->tgid < y->tgid ? -1 : x->tgid > y->tgid;
}

static int build_list(struct target_set *s)
{
	const struct target_proc **list = calloc(HASH_COUNT(s->procs) + 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	s->n_list = 0;
	for (struct proc_row *p = s->procs; p; p = p->hh.next)
		if (p->listed)
			list[s->n_list++] = &p->pub;
	qsort(list, s->n_list, sizeof(*list), by_identity);
	free(s->list);
	s->list = list;
	return 0;
}

static int finish(struct target_set *s)
{
	rank_tree_build(s);
	for (struct proc_row *p = s->procs; p; p = p->hh.next) {
		if (p->listed) {
			if (!p->pub.libs || !p->pub.ns_pid)
				enlist(s, p);
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

static void look_at(struct target_set *s, uint32_t tgid, bool all)
{
	struct proc_row *p = proc_row_find(s, tgid);
	bool skip = all && p && p->is_kernel && (s->scan + tgid) % KERNEL_LOOK_EVERY;

	if (tgid == (uint32_t)getpid())
		return;
	if (!p)
		p = proc_add(s, tgid);
	if (!p || (!skip && !proc_update(s, p, false)))
		return;
	p->seen = s->scan;
	s->counts.processes += all && !p->is_kernel;
	s->counts.kernel_threads += all && p->is_kernel;
	s->counts.denied += all && p->pub.status == TARGET_DENIED;
	s->counts.blocked += all && p->pub.status == TARGET_BLOCKED;
}

int target_set_scan(struct target_set *s)
{
	struct proc_row *p, *next;
	DIR *dir = opendir("/proc");

	if (!dir)
		return -errno;
	s->scan++;
	s->counts = (struct target_counts){ 0 };
	for (struct dirent *e; (e = readdir(dir));)
		if (isdigit((unsigned char)e->d_name[0]))
			look_at(s, strtoul(e->d_name, NULL, 10), true);
	closedir(dir);
	HASH_ITER(hh, s->procs, p, next)
		if (p->seen != s->scan)
			proc_remove(s, p);
	return finish(s);
}

int target_set_rescan(struct target_set *s, const uint32_t *tgids, size_t n)
{
	for (size_t i = 0; i < n; i++)
		look_at(s, tgids[i], false);
	return finish(s);
}

const struct target_proc *target_set_refresh(struct target_set *s, uint32_t tgid)
{
	struct proc_row *p = proc_row_find(s, tgid);

	if (!p)
		p = proc_add(s, tgid);
	if (p && proc_update(s, p, true))
		p->seen = s->scan;
	finish(s);
	return target_set_find(s, tgid);
}

int target_set_new(struct reader *r, const struct target_want *wants, size_t n, struct target_set **ret)
{
	struct target_set *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->reader = r;
	s->wants = wants;
	s->n_wants = n;
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
	HASH_ITER(hh, s->procs, p, next)
		proc_remove(s, p);
	lib_table_free(s);
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
