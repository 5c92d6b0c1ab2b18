/* SPDX-License-Identifier: Apache-2.0
 *
 * attach_place.c - attaches probes to functions without a usable name, found by a pointer in the target's memory.
 *
 * The process' maps turn the address into a file and an offset. In one process, an offset of one file is probed once.
 * Files are compared by inode: a file mapped twice shares its probes, a copy of it does not.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "bpf/cookie.h"
#include "attach/loader_internal.h"
#include "inspect/discover/discover.h"

bool place_is_there(struct placing *p, uint64_t offset, uint32_t row)
{
	const struct loader *l = p->h->loader;

	for (size_t i = 0; i < p->n; i++)
		if (p->at[i].offset == offset && p->at[i].row == row)
			return true;
	for (const struct attached *a = l->multi ? attached_first(l, p->proc->tgid) : l->attached; a;
	     a = l->multi ? a->next_of_proc : a->next) {
		if (a->tracer != p->h->tracer || a->dev != p->lib->file->dev || a->ino != p->lib->file->ino)
			continue;
		if (l->multi && a->start_ns != p->proc->start_time_ns)
			continue;
		for (size_t i = 0; i < a->n_places; i++)
			if (a->places[i].offset == offset && a->places[i].row == row) {
				p->since_ns = p->since_ns > a->since_ns ? p->since_ns : a->since_ns;
				return true;
			}
	}
	return false;
}

/* Where returns cannot be probed, an entry that only serves its return is a useless cost. */
static bool is_possible(const struct placing *p, const struct tracer_place *all, size_t n,
			const struct tracer_place *at)
{
	const struct probe *rows = p->h->tracer->probes;

	if (return_probes_allowed(p->h->loader, p->proc))
		return true;
	for (size_t i = 0; i < n; i++)
		if (all[i].address == at->address && rows[all[i].row].at_return)
			return false;
	return true;
}

/* Both sides of a pair are attached, or neither: is_possible(). */
static __u64 place_pays(const struct placing *p, uint64_t offset, uint32_t row)
{
	const struct loader *l = p->h->loader;

	if (!l->cfg.prices)
		return 0;
	return cookie_pays(l, PROBES_POSTS, hit_class_at(p->lib->file->fd, offset), row_is_pair(p->h->tracer, row));
}

/* One link for all places with the program and side of `lead`. */
static int group_attach(struct placing *p, struct attached *a, size_t lead, const char *path, struct batch *b)
{
	const struct tracer *t = p->h->tracer;
	const struct probe *row = &t->probes[p->at[lead].row];
	const struct bpf_program *prog = bpf_object__find_program_by_name(p->h->object, row->program);
	int err;

	b->n = 0;
	for (size_t i = 0; i < p->n; i++) {
		const struct probe *other = &t->probes[p->at[i].row];

		if (other->at_return != row->at_return || strcmp(other->program, row->program))
			continue;
		if (i < lead)
			return 0; /* that place is done */
		b->offsets[b->n] = p->at[i].offset;
		b->cookies[b->n++] = COOKIE(p->at[i].row, a->lib_id) | place_pays(p, p->at[i].offset, p->at[i].row);
	}
	err = prog ? batch_attach(p->h->loader, a, prog, path, b, row->at_return) : -ENOENT;
	a->n_probes += err ? 0 : b->n;
	return err;
}

/* Returns first, as for rows found by symbols. */
static int groups_attach(struct placing *p, struct attached *a)
{
	const struct probe *rows = p->h->tracer->probes;
	struct batch b;
	char path[64];
	int err = batch_new(&b, PLACES_MAX);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", p->lib->file->fd);
	for (size_t i = 0; !err && i < p->n; i++)
		if (rows[p->at[i].row].at_return)
			err = group_attach(p, a, i, path, &b);
	a->n_return_links = a->n_links;
	a->n_return_probes = a->n_probes;
	for (size_t i = 0; !err && i < p->n; i++)
		if (!rows[p->at[i].row].at_return)
			err = group_attach(p, a, i, path, &b);
	batch_free(&b);
	return err;
}

int placing_attach(struct placing *p, bool mapped)
{
	struct loader *l = p->h->loader;
	uint64_t begin_ns = clock_monotonic_ns();
	int lib_id = lib_get(l, p->h->tracer, p->proc, p->lib->file, PROBES_POSTS, TIER_BURST), err;
	struct attach_note note = { 0 };
	struct attached *a;

	if (lib_id < 0 || lib_waits(l, p->proc, lib_id, &note))
		return lib_id < 0 ? lib_id : -EAGAIN;
	err = lib_file_check(l, p->lib->file);
	if (err)
		return err;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	*a = (struct attached){ .tgid = p->proc->tgid,
				.start_ns = p->proc->start_time_ns,
				.tracer = p->h->tracer,
				.lib_id = lib_id,
				.text_begin = p->lib->map_start,
				.n_places = p->n,
				.dev = p->lib->file->dev,
				.ino = p->lib->file->ino };
	a->places = malloc(sizeof(p->at));
	if (a->places)
		memcpy(a->places, p->at, sizeof(p->at));
	err = a->places ? groups_attach(p, a) : -ENOMEM;
	l->n_probes += a->n_probes;
	if (!err)
		err = attached_add(l, a);
	if (err) {
		attached_free(l, a);
		return err;
	}
	p->since_ns = a->since_ns = clock_monotonic_ns();
	a->begin_ns = begin_ns;
	a->early = !mapped;
	if (!mapped)
		return a->n_probes;
	learnt_note(p, lib_id);
	err = attached_emit(l, a, p->lib, begin_ns, true);
	return err ? err : (int)a->n_probes;
}

static const struct target_lib *lib_at(const struct target_proc *proc, uint64_t address, const struct mapping **ret)
{
	const struct mapping *m = proc ? maps_find(&proc->maps, address) : NULL;
	const struct target_lib *lib = m && m->prot & MAPPING_EXEC ? target_proc_lib(proc, m) : NULL;

	*ret = m;
	return lib && lib->file->fd >= 0 ? lib : NULL;
}

/* For a kernel without attach cookies: addresses differ by process. */
static int cookie_put(const struct placing *p, const struct tracer_place *at, uint64_t offset)
{
	struct loader *l = p->h->loader;
	struct cookie_key key = { .ip = at->address, .tgid = p->proc->tgid };
	__u64 cookie = COOKIE(at->row, 0) | place_pays(p, offset, at->row);

	if (!(l->lacks & KERNEL_BIT(COOKIE)) || p->h->tracer->probes[at->row].at_return)
		return 0;
	return bpf_map_update_elem(loader_map_fd(l, "probe_cookies"), &key, &cookie, BPF_ANY) ? -errno : 0;
}

#define ENTRIES_DEADLINE_MS 200
#define PLACING_SLICE_NS 100000000ull /* as long as an answer holds */
#define REFUSED_SAID_MAX 16           /* of a session */

/* A target's pointer may lead anywhere in a file: only what begins a function is probed. Those that another process of
 * the user led to before were checked then. 0, or -errno: not known yet. */
static int entries_keep(struct placing *p)
{
	uint64_t offsets[PLACES_MAX];
	bool begins[PLACES_MAX] = { false };
	size_t n = 0, kept = 0;
	int err;

	for (size_t i = 0; i < p->n; i++)
		if (!learnt_knows(p, p->at[i].offset))
			offsets[n++] = p->at[i].offset;
	err = n ? elf_fetch_entries(p->h->loader->cfg.reader, p->lib->file->fd, offsets, n, ENTRIES_DEADLINE_MS, begins)
		: 0;
	if (err)
		return err == -ETIMEDOUT || err == -EBUSY || err == -EINPROGRESS ? -EAGAIN : err;
	n = 0;
	for (size_t i = 0; i < p->n; i++) {
		if (learnt_knows(p, p->at[i].offset) || begins[n++])
			p->at[kept++] = p->at[i];
		else if (p->h->loader->n_refused++ < REFUSED_SAID_MAX)
			log_warn("pid %u: no function begins at %s+0x%llx, where a pointer of it leads: not probed",
				 p->proc->tgid, p->lib->path, (unsigned long long)p->at[i].offset);
	}
	p->n = kept;
	return 0;
}

/* Selects the places that lie in `file`. */
static int placing_fill(struct placing *p, const struct tracer_place *places, size_t n)
{
	const struct mapping *m;

	for (size_t i = 0; i < n && p->n < PLACES_MAX; i++) {
		const struct target_lib *lib = lib_at(p->proc, places[i].address, &m);
		uint64_t offset;

		if (!lib || lib->file != p->lib->file || !is_possible(p, places, n, &places[i]))
			continue;
		offset = mapping_file_offset(m, places[i].address);
		if (cookie_put(p, &places[i], offset))
			return -ENOSPC;
		if (elf_facts_in_text(&lib->file->facts, offset) && !place_is_there(p, offset, places[i].row))
			p->at[p->n++] = (struct placed_at){ offset, places[i].row };
	}
	return p->n ? entries_keep(p) : 0;
}

/* The group was removed because it cost too much. */
/* Emits the attach of probes that were in place before the process mapped the file. */
static void early_emit(const struct placing *p)
{
	struct loader *l = p->h->loader;

	for (struct attached *a = attached_first(l, p->proc->tgid); a; a = a->next_of_proc)
		if (a->early && a->tracer == p->h->tracer && a->dev == p->lib->file->dev &&
		    a->ino == p->lib->file->ino) {
			a->early = false;
			attached_emit(l, a, p->lib, a->begin_ns, true);
		}
}

/* File by file. Returns how many probes are new, or -errno. */
int places_attach(struct tracer_handle *h, const struct target_proc *proc, const struct tracer_place *places, size_t n,
		  uint64_t *ret_since_ns)
{
	const struct mapping *m;
	int placed = 0;

	for (size_t i = 0; i < n; i++) {
		struct placing p = { .h = h, .proc = proc, .lib = lib_at(proc, places[i].address, &m) };
		int got;

		if (!p.lib)
			return placed ? placed : -ENOENT;
		got = placing_fill(&p, places, n);
		if (!got && p.n)
			got = placing_attach(&p, true);
		if (got < 0)
			return got;
		placed += got;
		early_emit(&p);
		*ret_since_ns = *ret_since_ns > p.since_ns ? *ret_since_ns : p.since_ns;
	}
	return placed;
}

/* A tracer places between the session's turns of attaching, whose time for questions is over. However many tables a
 * target makes, they share one such time. */
static void placing_slice(struct loader *l)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (now_ns < l->asked_ns + PLACING_SLICE_NS)
		return;
	l->asked_ns = now_ns;
	attach_guard_slice(l->guard);
}

int tracer_place(struct tracer_handle *h, uint32_t tgid, const struct tracer_place *places, size_t n,
		 uint64_t *ret_since_ns)
{
	const struct target_proc *proc = target_set_find(h->loader->cfg.targets, tgid);
	const struct mapping *m;

	*ret_since_ns = 0;
	if (shed_groups(h->loader, tgid) >> PROBES_POSTS & 1)
		return -ESRCH;
	if (proc && n && !lib_at(proc, places[0].address, &m)) { /* mapped since the last scan, or not open yet */
		target_set_rescan(h->loader->cfg.targets, &tgid, 1);
		proc = target_set_find(h->loader->cfg.targets, tgid);
	}
	if (proc && n && !lib_at(proc, places[0].address, &m)) /* by a process whose maps did not seem to change */
		proc = target_set_refresh(h->loader->cfg.targets, tgid);
	if (!proc) /* the scan may be late */
		return loader_is_target(h->loader, tgid) ? -EAGAIN : -ESRCH;
	placing_slice(h->loader);
	return places_attach(h, proc, places, n, ret_since_ns);
}
