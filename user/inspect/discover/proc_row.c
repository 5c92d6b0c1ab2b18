/* SPDX-License-Identifier: Apache-2.0
 *
 * proc_row.c - one process of the set, brought up to date. It costs one read of its stat file; its maps are read only
 * when that says that the address space changed (vsize moves with every mmap), its environment only when the program
 * did.
 */
#include "base/clock.h"
#include "base/shares.h"
#include "inspect/discover/discover_private.h"
#include "inspect/reader/proc_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAPS_CAP (8u << 20)
#define ENVIRON_CAP (1u << 20)
#define MAPS_WAIT_FIRST_NS 100000000ull
#define MAPS_WAIT_LAST_NS 5000000000ull
/* Unhurried, past its youth: so many times apart what reading took (10 ms on a PyTorch rank of thousands of mappings);
 * the first where pages of files have come, as a library's do, the second where memory has only grown. */
#define MAPS_SHARE_FILES 1000
#define MAPS_SHARE_MEMORY 4000
#define MAPS_UNHURRIED_LAST_NS 60000000000ull
#define FIRST_AGAIN_NS 100000000ull /* an answer that nothing asks for any more stands for a minute */
#define LATE_WAIT_FIRST_NS 100000000ull
#define LATE_WAIT_LAST_NS 10000000000ull
#define YOUNG_NS 20000000000ull

void proc_row_status(struct proc_row *p, int rc)
{
	p->awaited = rc == -EINPROGRESS;
	if (p->awaited) /* nothing is known yet: it is what it was */
		return;
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

void proc_row_free(struct target_set *s, struct proc_row *p)
{
	if (p->shown_hash)
		s->revision++;
	reader_unblock(s->reader, p->pub.tgid);
	lib_table_unload(s, p);
	maps_free(&p->pub.maps);
	free(p->place);
	if (p->active)
		DL_DELETE(s->active, p);
	HASH_DEL(s->procs, p);
	free(p);
}

struct proc_row *proc_row_add(struct target_set *s, uint32_t tgid)
{
	struct proc_row *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->pub.tgid = tgid;
	p->pub.rank = p->pub.local_rank = p->pub.world_size = p->pub.seccomp = -1;
	p->pub.uid = UID_UNKNOWN;
	p->pub.place = &place_none;
	p->env = PROC_ENVIRON_NONE;
	HASH_ADD_INT(s->procs, pub.tgid, p);
	proc_row_wake(s, p);
	return p;
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

int proc_row_load_maps(struct target_set *s, struct proc_row *p)
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
	if (rc) /* the rows still point into the maps from before */
		p->pub.maps = old;
	maps_free(rc ? &fresh : &old);
	p->seen_maps |= !rc;
	p->exec_hash = rc ? 0 : hash;
	return rc;
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
	rc = reader_link(s->reader, p->pub.tgid, "exe", p->pub.exe, sizeof(p->pub.exe), READER_DEADLINE_MS);
	if (rc)
		p->pub.exe[0] = '\0';
	p->has_env = rc != -EINPROGRESS;
	return p->has_env ? 0 : rc;
}

/* Since we know of it; unhurried, since its start. */
static uint64_t young_until(const struct target_set *s, const struct proc_stat *st)
{
	uint64_t now = clock_boottime_ns(), age = now > st->start_time_ns ? now - st->start_time_ns : 0;

	if (!s->unhurried)
		age = 0;
	return clock_monotonic_ns() + (age < YOUNG_NS ? YOUNG_NS - age : 0);
}

static void apply_stat(struct target_set *s, struct proc_row *p, const struct proc_stat *st)
{
	bool other_process = st->start_time_ns != p->pub.start_time_ns;

	if (other_process || st->image != p->image) {
		p->has_env = false;
		p->stale = true;
		p->seen_maps = false;
		p->pub.ns_pid = 0;
		p->env = PROC_ENVIRON_NONE;
		p->has_comm = false;
		p->late_wait_ns = p->late_due_ns = 0;
		p->young_until_ns = young_until(s, st);
	}
	if (other_process) {
		reader_unblock(s->reader, p->pub.tgid);
		p->pub.bare_ns = 0;
	}
	p->pub.start_time_ns = st->start_time_ns;
	p->pub.parent_tgid = st->parent;
	p->pub.state = st->state;
	memcpy(p->pub.name, st->name, sizeof(st->name));
	/* Our own helper is of no interest either, though it may have inherited a RANK. */
	p->is_kernel = st->is_kernel || st->parent == (uint32_t)reader_pid(s->reader) ||
		       p->pub.tgid == (uint32_t)reader_pid(s->reader);
	p->image = st->image;
	p->stat_vsize = st->vsize;
}

/* Resident pages of files and shared memory; 0 unknown. */
static uint64_t file_pages(uint32_t tgid)
{
	unsigned long long shared = 0;
	char text[256];

	if (proc_read(text, sizeof(text), "/proc/%u/statm", tgid) > 0)
		sscanf(text, "%*u %*u %llu", &shared);
	return shared;
}

/* A process without anything we want that maps and unmaps all day is sampled less and less often, 5 s at most. */
static void maps_wait(struct proc_row *p)
{
	uint64_t wait = p->maps_wait_ns ? p->maps_wait_ns * 2 : MAPS_WAIT_FIRST_NS;

	p->maps_wait_ns = p->pub.n_libs ? 0 : wait < MAPS_WAIT_LAST_NS ? wait : MAPS_WAIT_LAST_NS;
}

static bool maps_due_unhurried(const struct proc_row *p, uint64_t now)
{
	uint64_t wait =
		p->maps_took_ns * (file_pages(p->pub.tgid) == p->file_pages ? MAPS_SHARE_MEMORY : MAPS_SHARE_FILES);

	return now >= p->maps_read_ns + (wait < MAPS_UNHURRIED_LAST_NS ? wait : MAPS_UNHURRIED_LAST_NS);
}

/* What it waits for may be that one: others were read in its turn, and this one by another's asking. */
static bool first_file_is_read(const struct target_set *s, const struct proc_row *p, uint64_t now)
{
	return now >= p->maps_read_ns + FIRST_AGAIN_NS &&
	       (s->first_ns > p->maps_read_ns || reader_queue_is_done(s->reader, READER_FIRST));
}

static bool maps_due(const struct target_set *s, struct proc_row *p, uint64_t vsize, enum proc_row_scan scan)
{
	uint64_t now = clock_monotonic_ns();

	p->stale |= p->retry_ns && (now >= p->retry_ns || (p->starved && first_file_is_read(s, p, now)));
	if (p->stale || scan == SCAN_AGAIN)
		return true;
	if (vsize == p->vsize) {
		p->maps_wait_ns /= 2;
		return false;
	}
	if (s->unhurried && p->pub.n_libs && now >= p->young_until_ns)
		return maps_due_unhurried(p, now);
	return p->listed || scan == SCAN_NOW || now >= p->maps_read_ns + p->maps_wait_ns;
}

static int maps_renew(struct target_set *s, struct proc_row *p, uint64_t vsize)
{
	uint64_t begin_ns = clock_monotonic_ns();
	int rc = proc_row_load_maps(s, p);

	/* Only a complete scan is done; a failed one is made again next time. */
	p->stale = rc != 0;
	p->vsize = rc ? 0 : vsize;
	p->file_pages = s->unhurried ? file_pages(p->pub.tgid) : 0;
	p->maps_read_ns = clock_monotonic_ns();
	p->maps_took_ns = p->maps_read_ns - begin_ns;
	maps_wait(p);
	return rc;
}

/*
 * Ray and many a script set RANK when they run. While no process has said a rank by RANK, a process with libraries is
 * asked again, less and less often (0.1 s, doubling to 10 s), and whenever its communicators show (late_due_ns is 0
 * then).
 */
static void sample_late(struct target_set *s, struct proc_row *p)
{
	struct proc_environ live;
	uint64_t now = clock_monotonic_ns();

	if (!p->pub.n_libs || now < p->late_due_ns)
		return;
	int rc = late_environ_read(s->reader, &p->pub, &live);

	if (rc == -EINPROGRESS)
		return;
	if (!rc)
		proc_environ_update(&p->env, &live);
	p->late_wait_ns = !p->late_wait_ns ? LATE_WAIT_FIRST_NS : p->late_wait_ns * 2;
	if (p->late_wait_ns > LATE_WAIT_LAST_NS)
		p->late_wait_ns = LATE_WAIT_LAST_NS;
	p->late_due_ns = p->env.source == RANK_ENV ? UINT64_MAX : now + p->late_wait_ns;
}

static void half_dead_note(struct target_set *s, uint32_t tgid)
{
	for (size_t i = 0; i < s->n_half_dead; i++)
		if (s->half_dead[i] == tgid)
			return;
	if (s->n_half_dead < HALF_DEAD_MAX)
		s->half_dead[s->n_half_dead++] = tgid;
}

/* It is exiting and has given its memory back, but is no zombie yet: nothing can be read of it any more, and what is
 * known of it holds. */
static bool is_exiting(const struct proc_row *p, const struct proc_stat *st)
{
	return p->image && !st->image && st->start_time_ns == p->pub.start_time_ns;
}

static int stat_read(struct target_set *s, const struct proc_row *p, struct proc_stat *ret)
{
	return shares_are_many(s->shares, p->pub.uid) ? reader_stat(s->reader, p->pub.tgid, ret)
						      : proc_stat_read(p->pub.tgid, ret);
}

/* All that it maps was read, and nothing that we want is among it. Began at begin_ns. */
static void bare_note(struct proc_row *p, uint64_t vsize, uint64_t begin_ns)
{
	if (p->seen_maps && !p->stale && !p->retry_ns && p->vsize == vsize && !p->pub.n_libs)
		p->pub.bare_ns = begin_ns;
}

bool proc_row_update(struct target_set *s, struct proc_row *p, enum proc_row_scan scan)
{
	uint64_t begin_ns = clock_monotonic_ns();
	struct proc_stat st = { 0 };
	int rc = stat_read(s, p, &st);

	if (reader_is_late(rc) && p->pub.start_time_ns) /* what is known of it holds */
		return true;
	if (rc || st.state == 'Z' || st.state == 'X') {
		if (!rc && st.n_threads > 1)
			half_dead_note(s, p->pub.tgid);
		proc_row_free(s, p);
		return false;
	}
	if (is_exiting(p, &st))
		return true;
	apply_stat(s, p, &st);
	if (p->is_kernel)
		return true;
	if (scan == SCAN_AGAIN || !p->has_env)
		rc = load_environ(s, p);
	if (!rc && maps_due(s, p, st.vsize, scan))
		rc = maps_renew(s, p, st.vsize);
	if (!rc)
		bare_note(p, st.vsize, begin_ns);
	if (!rc)
		sample_late(s, p);
	proc_row_status(p, rc);
	return true;
}
