/* SPDX-License-Identifier: Apache-2.0
 *
 * attach_learnt.c - probes functions without a name in further processes.
 *
 * A pointer in one process led to such a function (attach_place.c). Its file offset holds for every
 * process of the same user that maps the same file, so it is probed there before a pointer of that process shows up.
 * Where probes belong to one process, it gets them even before it maps the file, if it maps the library that loads that
 * file: the time between mapping and first call may be too short for an attach.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/loader_internal.h"

#define LEARNT_OF_UID 16 /* files of one user: each keeps a file open and a library's number */

static void learnt_free(struct learnt *k)
{
	if (k->file.fd >= 0)
		close(k->file.fd);
	free(k->path);
	free(k);
}

/* Of a user with too many files the oldest is forgotten. */
static void learnt_trim(struct loader *l, uint32_t uid)
{
	struct learnt **at = &l->learnt, *k;
	int n = 0;

	while ((k = *at)) {
		if (k->uid != uid || ++n <= LEARNT_OF_UID) {
			at = &k->next;
			continue;
		}
		*at = k->next;
		learnt_free(k);
	}
}

static struct learnt *learnt_get(const struct placing *p, uint32_t lib_id)
{
	const struct target_file *file = p->lib->file;
	struct loader *l = p->h->loader;
	struct learnt *k = l->learnt;

	while (k && (k->lib_id != lib_id || k->uid != p->proc->uid || !target_file_same(&k->file, file)))
		k = k->next;
	if (k || !(k = calloc(1, sizeof(*k))))
		return k;
	k->lib_id = lib_id;
	k->uid = p->proc->uid;
	k->file = *file;
	k->file.fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
	k->path = strdup(p->lib->path);
	k->next = l->learnt;
	l->learnt = k;
	learnt_trim(l, k->uid);
	return k;
}

static bool is_known(const struct learnt *k, const struct placed_at *at)
{
	for (size_t i = 0; i < k->n; i++)
		if (k->at[i].offset == at->offset && k->at[i].row == at->row)
			return true;
	return false;
}

/* See loader_internal.h. */
void learnt_note(const struct placing *p, uint32_t lib_id)
{
	struct learnt *k = learnt_get(p, lib_id);

	for (size_t i = 0; k && i < p->n; i++)
		if (k->n < PLACES_MAX && !is_known(k, &p->at[i]))
			k->at[k->n++] = p->at[i];
}

bool learnt_knows(const struct placing *p, uint64_t offset)
{
	for (const struct learnt *k = p->h->loader->learnt; k; k = k->next)
		for (size_t i = 0; k->uid == p->proc->uid && target_file_same(&k->file, p->lib->file) && i < k->n; i++)
			if (k->at[i].offset == offset)
				return true;
	return false;
}

void learnt_free_all(struct loader *l)
{
	struct learnt *k;

	while ((k = l->learnt)) {
		l->learnt = k->next;
		learnt_free(k);
	}
}

static const struct target_lib *lib_of(const struct learnt *k, const struct target_proc *proc)
{
	for (size_t i = 0; i < proc->n_files; i++)
		if (target_file_same(proc->libs[i].file, &k->file))
			return &proc->libs[i];
	return NULL;
}

static int mapped_attach(struct tracer_handle *h, const struct target_proc *proc, const struct learnt *k,
			 const struct target_lib *lib)
{
	struct tracer_place places[PLACES_MAX];
	uint64_t since_ns = 0;
	size_t n = 0;

	for (size_t i = 0; lib->file->fd >= 0 && i < k->n; i++) {
		uint64_t address = lib->map_start + k->at[i].offset - lib->map_offset;

		if (k->at[i].offset >= lib->map_offset && address < lib->map_end)
			places[n++] = (struct tracer_place){ .address = address, .row = k->at[i].row };
	}
	return n ? places_attach(h, proc, places, n, &since_ns) : 0;
}

/* Leaves out a function whose return cannot be probed, as attach_place.c does. */
static bool is_possible(const struct placing *p, const struct learnt *k, uint64_t offset)
{
	if (return_probes_allowed(p->h->loader, p->proc))
		return true;
	for (size_t i = 0; i < k->n; i++)
		if (k->at[i].offset == offset && p->h->tracer->probes[k->at[i].row].at_return)
			return false;
	return true;
}

static bool maps_lib_of(const struct target_proc *proc, const struct tracer *t)
{
	for (size_t i = 0; i < proc->n_libs; i++)
		if (proc->libs[i].tracers & 1u << t->id)
			return true;
	return false;
}

static int unmapped_attach(struct tracer_handle *h, const struct target_proc *proc, struct learnt *k)
{
	struct target_lib lib = { .file = &k->file, .path = k->path ? k->path : "" };
	struct placing p = { .h = h, .proc = proc, .lib = &lib };

	for (size_t i = 0; i < k->n; i++)
		if (!place_is_there(&p, k->at[i].offset, k->at[i].row) && is_possible(&p, k, k->at[i].offset))
			p.at[p.n++] = k->at[i];
	return p.n ? placing_attach(&p, false) : 0;
}

/* See loader.h. A rank's children (dataloader workers) map its files and do not use them. */
int loader_attach_learnt(struct loader *l, const struct target_proc *proc)
{
	int err = 0;

	for (struct learnt *k = proc->is_child ? NULL : l->learnt; k && (err >= 0 || err == -ENOENT); k = k->next) {
		struct tracer_handle *h = handle_of(l, l->libs[k->lib_id].tracer);
		const struct target_lib *lib = lib_of(k, proc);

		if (k->uid != proc->uid)
			continue;
		if (lib)
			err = mapped_attach(h, proc, k, lib);
		else if (l->multi && k->file.fd >= 0 && maps_lib_of(proc, h->tracer))
			err = unmapped_attach(h, proc, k);
	}
	return err < 0 && err != -ENOENT ? err : 0;
}
