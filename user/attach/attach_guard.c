/* SPDX-License-Identifier: Apache-2.0
 *
 * attach_guard.c - see attach_guard.h.
 *
 * Files are compared by build-id: containers of one image share an inode that stat does not show. Between the check and
 * the attach the lock may still be taken. That window is microseconds, or seconds for many links; a storage failure
 * lasts minutes.
 */
#include "attach/attach_guard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/clock.h"
#include "base/shares.h"
#include "inspect/discover/discover.h"
#include "inspect/reader/proc_files.h"
#include "uthash.h"

#define FRESH_NS 100000000ull
#define FRESH_MOST_NS 3000000000ull
#define FRESH_COSTS \
	8 /* an answer is valid for so many times what asking costs, so that asking stays cheap on a busy machine */
#define ASK_NS 15000000ull /* of a slice */
#define ASKED_MAX 4096
#define ANSWERS 64
#define UNREAD_MAX 256
#define FILES_MAX 8

struct asked {
	uint32_t tgid;
	bool held;
	uint64_t at_ns;
	uint64_t files[FILES_MAX]; /* hashes of the build-ids of files that it was seen to map */
	size_t n_files;
	UT_hash_handle hh;
};

struct answered { /* in this slice; one for each place of a small table */
	uint64_t file, slice, at_ns;
	struct guard_answer answer;
};

struct attach_guard {
	struct reader *reader;
	struct target_set *targets;
	struct shares *shares;
	struct answered answers[ANSWERS];
	uint64_t slice, ask_until_ns; /* 0: no slices, and no limit */
	size_t n_maps;                /* processes that map the file in question */
	bool unfinished;
	struct asked *asked;
	uint64_t fresh_ns; /* how long an answer is valid */
	unsigned n_asked;
	bool faults_hold; /* a page fault of a file holds the mmap_lock for reading, which the reader would not notice
			   */
};

/* From 6.7 on file pages are faulted in under the lock of their mapping alone. */
static bool faults_hold_lock(void)
{
	struct utsname u;
	int major = 0, minor = 0;

	return uname(&u) || sscanf(u.release, "%d.%d", &major, &minor) != 2 || major < 6 || (major == 6 && minor < 7);
}

static void asked_drop(struct attach_guard *g, bool also_held)
{
	struct asked *a, *next;

	HASH_ITER (hh, g->asked, a, next) {
		if (a->held && !also_held)
			continue;
		HASH_DEL(g->asked, a);
		free(a);
	}
}

struct attach_guard *attach_guard_new(struct reader *r, struct target_set *targets)
{
	struct attach_guard *g = calloc(1, sizeof(*g));

	if (g)
		*g = (struct attach_guard){
			.reader = r, .targets = targets, .fresh_ns = FRESH_NS, .faults_hold = faults_hold_lock()
		};
	return g;
}

void attach_guard_free(struct attach_guard *g)
{
	if (!g)
		return;
	asked_drop(g, true);
	free(g);
}

void attach_guard_use(struct attach_guard *g, struct reader *r)
{
	g->reader = r;
}

/* Used where the reader has no answer and no evidence (busy machine), and for a killed process whose first thread is
 * gone while other threads hold its memory: a thread that holds the lock for long sleeps uninterruptibly, and so does
 * each thread that waits for it. */
static bool lock_held_ordinary(struct attach_guard *g, uint32_t tgid)
{
	bool held = false, over = target_threads_over(tgid);
	int rc = over ? -ESRCH : reader_probe(g->reader, tgid, READER_DEADLINE_MS, &held);

	if (over || rc == -EINPROGRESS || rc == -EAGAIN)
		return target_threads_blocked(tgid);
	return !rc && (held || (g->faults_hold && target_threads_faulting(tgid)));
}

/* Of a user with many processes nothing is read but by the reader, and no answer counts as held: it is asked later. */
static bool lock_held_of_crowd(struct attach_guard *g, uint32_t tgid)
{
	struct proc_stat st = { 0 };
	int rc = reader_stat(g->reader, tgid, &st);
	bool held = false;

	if (rc)
		return reader_is_late(rc);
	if (st.state == 'Z' || st.state == 'X')
		return st.n_threads > 1;
	rc = reader_probe(g->reader, tgid, READER_DEADLINE_MS, &held);
	return held || reader_is_late(rc);
}

static bool lock_held(struct attach_guard *g, uint32_t tgid)
{
	const struct target_proc *p = target_set_find(g->targets, tgid);
	bool crowd = p && shares_are_many(g->shares, p->uid);

	return crowd ? lock_held_of_crowd(g, tgid) : lock_held_ordinary(g, tgid);
}

static struct asked *asked_get(struct attach_guard *g, uint32_t tgid)
{
	struct asked *a;

	HASH_FIND(hh, g->asked, &tgid, sizeof(tgid), a);
	if (a)
		return a;
	if (HASH_COUNT(g->asked) >= ASKED_MAX)
		asked_drop(g, false);
	a = calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	a->tgid = tgid;
	HASH_ADD(hh, g->asked, tgid, sizeof(a->tgid), a);
	return a;
}

static bool in_the_way(struct attach_guard *g, uint32_t tgid)
{
	struct asked *a = asked_get(g, tgid);

	if (!a)
		return lock_held(g, tgid);
	if (!a->at_ns || clock_monotonic_ns() - a->at_ns >= g->fresh_ns) {
		if (g->slice && clock_monotonic_ns() >= g->ask_until_ns) {
			g->unfinished = true;
			return a->held;
		}
		g->n_asked++;
		a->held = lock_held(g, tgid);
		a->at_ns = clock_monotonic_ns();
	}
	return a->held;
}

static bool file_known(const struct asked *a, uint64_t file)
{
	for (size_t i = 0; i < a->n_files; i++)
		if (a->files[i] == file)
			return true;
	return a->n_files == FILES_MAX;
}

static void file_note(struct attach_guard *g, uint32_t tgid, uint64_t file)
{
	struct asked *a = asked_get(g, tgid);

	if (a && !file_known(a, file))
		a->files[a->n_files++] = file;
}

static uint64_t hash_build_id(const uint8_t *build_id, size_t len)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < len; i++)
		h = (h ^ build_id[i]) * 0x100000001b3ull;
	return h;
}

static bool maps_file(const struct target_proc *p, const uint8_t *build_id, size_t len)
{
	for (size_t i = 0; i < p->n_files; i++) {
		const struct elf_facts *f = &p->libs[i].file->facts;

		if (f->build_id_len == len && !memcmp(f->build_id, build_id, len))
			return true;
	}
	return false;
}

/* Files of a process whose maps cannot be read: those seen before, and those that other processes of the same program
 * map. */
static bool may_map_file(struct attach_guard *g, uint32_t tgid, const uint8_t *build_id, size_t len)
{
	char exe[sizeof(((struct target_proc *)0)->exe)];
	size_t n;
	const struct target_proc *const *list = target_set_list(g->targets, &n);
	const struct asked *a;

	HASH_FIND(hh, g->asked, &tgid, sizeof(tgid), a);
	if (a && file_known(a, hash_build_id(build_id, len)))
		return true;
	if (target_exe_read(tgid, exe, sizeof(exe)))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!strcmp(list[i]->exe, exe) && maps_file(list[i], build_id, len))
			return true;
	return false;
}

static uint32_t unread_holder(struct attach_guard *g, const uint8_t *build_id, size_t len)
{
	uint32_t tgids[UNREAD_MAX];
	size_t n = target_set_unread(g->targets, tgids, UNREAD_MAX);

	for (size_t i = 0; i < n; i++)
		if (may_map_file(g, tgids[i], build_id, len) && in_the_way(g, tgids[i]))
			return tgids[i];
	return 0;
}

/* The lock was held at the last check and no scan lists the process any more: it was killed and is not over yet. */
static uint32_t lost_holder(struct attach_guard *g, const uint8_t *build_id, size_t len)
{
	for (struct asked *a = g->asked; a; a = a->hh.next)
		if (a->held && !target_set_find(g->targets, a->tgid) && may_map_file(g, a->tgid, build_id, len) &&
		    in_the_way(g, a->tgid))
			return a->tgid;
	return 0;
}

/* Of a user with too many processes not all are known, and the kernel would wait for any of them. */
static struct guard_answer holder_find(struct attach_guard *g, const uint8_t *build_id, size_t len)
{
	size_t n;
	const struct target_proc *const *list = target_set_list(g->targets, &n);
	struct guard_answer a = { .holder = lost_holder(g, build_id, len) };

	g->n_maps = 0;
	for (size_t i = 0; !a.holder && i < n; i++) {
		if (!maps_file(list[i], build_id, len))
			continue;
		g->n_maps++;
		file_note(g, list[i]->tgid, hash_build_id(build_id, len));
		if (shares_are_full(g->shares, list[i]->uid)) {
			a.crowd = list[i]->uid;
			return a;
		}
		if (in_the_way(g, list[i]->tgid))
			a.holder = list[i]->tgid;
	}
	if (!a.holder)
		a.holder = unread_holder(g, build_id, len);
	return a;
}

static struct guard_answer all_ask(struct attach_guard *g, const uint8_t *build_id, size_t len)
{
	uint64_t begin_ns = clock_monotonic_ns(), fresh_ns;
	unsigned before = g->n_asked;
	struct guard_answer a;

	g->unfinished = false;
	a = holder_find(g, build_id, len);
	a.unfinished = g->unfinished;
	if (g->n_asked == before)
		return a;
	fresh_ns = FRESH_COSTS * (clock_monotonic_ns() - begin_ns) / (g->n_asked - before) *
		   (g->n_maps > g->n_asked - before ? g->n_maps : g->n_asked - before);
	g->fresh_ns = fresh_ns < FRESH_NS ? FRESH_NS : fresh_ns > FRESH_MOST_NS ? FRESH_MOST_NS : fresh_ns;
	return a;
}

struct guard_answer attach_guard_ask(struct attach_guard *g, const uint8_t *build_id, size_t len)
{
	uint64_t file = hash_build_id(build_id, len);
	struct answered *known = &g->answers[file % ANSWERS];
	uint64_t now_ns = clock_monotonic_ns();

	if (!g->slice || known->slice != g->slice || known->file != file || now_ns - known->at_ns >= FRESH_NS)
		*known = (struct answered){ file, g->slice, now_ns, all_ask(g, build_id, len) };
	return known->answer;
}

uint32_t attach_guard_holder(struct attach_guard *g, const uint8_t *build_id, size_t len)
{
	return attach_guard_ask(g, build_id, len).holder;
}

void attach_guard_share(struct attach_guard *g, struct shares *shares)
{
	g->shares = shares;
	g->slice = 0;
}

void attach_guard_slice(struct attach_guard *g)
{
	g->slice++;
	g->ask_until_ns = clock_monotonic_ns() + ASK_NS;
}
