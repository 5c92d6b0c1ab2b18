/* SPDX-License-Identifier: Apache-2.0
 *
 * attach_lib.c - what is known of one library for one tracer and probe group: where its rows' symbols are, once per
 * file, and which instruction each function begins with. Files are distinguished by device, inode, size and time: what
 * one user's file says is never used for another's.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "bpf/cookie.h"
#include "attach/loader_internal.h"
#include "attach/probe_rows.h"
#include "schemas/collector.h"
#include "inspect/discover/discover.h"

bool return_probes_allowed(const struct loader *l, const struct target_proc *proc)
{
	return !(l->uretprobe_syscall && proc->seccomp > 0);
}

static void lib_symbols(struct loader *l, struct lib_probes *lib, const struct target_file *file)
{
	const struct tracer *t = lib->tracer;

	for (size_t i = 0; i < t->n_probes; i++) {
		const struct elf_symbol *at = NULL;

		if (!t->probes[i].placed)
			at = target_file_symbol(l->cfg.targets, file, t->probes[i].symbol);
		if (!at && t->probes[i].alias)
			at = target_file_symbol(l->cfg.targets, file, t->probes[i].alias);
		if (at)
			lib->symbols[i] = *at;
	}
	lib->n_found = probe_rows_pick(t, lib->upto, 1u << lib->group, lib->symbols, &lib->n_ambiguous);
	for (size_t i = 0; l->cfg.prices && i < t->n_probes; i++)
		if (lib->symbols[i].found && !t->probes[i].at_return)
			lib->classes[i] = hit_class_at(file->fd, lib->symbols[i].offset);
}

/* See loader_internal.h. What a process maps was probed by what the file was then. */
bool attached_is_of(const struct loader *l, const struct attached *a, int lib_id)
{
	return lib_is_same(l, a->lib_id, lib_id);
}

bool lib_is_same(const void *loader, uint32_t a, uint32_t b)
{
	const struct loader *l = loader;
	const struct lib_probes *of = &l->libs[a], *lib = &l->libs[b];

	if (a >= LOADER_LIBS_MAX || b >= LOADER_LIBS_MAX)
		return false;
	return of == lib || (of->tracer == lib->tracer && of->group == lib->group && of->upto == lib->upto &&
			     of->file.dev == lib->file.dev && of->file.ino == lib->file.ino);
}

static bool lib_is_used(const struct loader *l, uint32_t lib_id)
{
	if (l->libs[lib_id].n_attached)
		return true;
	for (const struct learnt *k = l->learnt; k; k = k->next)
		if (k->lib_id == lib_id)
			return true;
	return attacher_holds(l->attacher, lib_id) || detacher_holds(l->detacher, lib_id);
}

static void lib_drop(struct loader *l, uint32_t lib_id)
{
	struct lib_probes *lib = &l->libs[lib_id];
	struct tracer_handle *h = handle_of(l, lib->tracer);

	if (h && h->tracer->lib_gone)
		h->tracer->lib_gone(h, lib_id);
	free(lib->symbols);
	free(lib->classes);
	*lib = (struct lib_probes){ 0 };
}

/* A number for a new library: a new one, or that of one that nothing is attached to; of this user alone, or of anybody
 * (UID_UNKNOWN). */
static int lib_slot(struct loader *l, uint32_t of_uid)
{
	if (of_uid == UID_UNKNOWN && l->n_libs < LOADER_LIBS_MAX)
		return l->n_libs++;
	for (uint32_t i = 0; i < l->n_libs; i++) {
		uint32_t id = (l->lib_next + i) % l->n_libs;

		if ((of_uid != UID_UNKNOWN && l->libs[id].uid != of_uid) || lib_is_used(l, id))
			continue;
		lib_drop(l, id);
		l->lib_next = id + 1;
		return id;
	}
	return of_uid == UID_UNKNOWN ? -ENOSPC : -EDQUOT;
}

static bool proc_is_full(const struct loader *l, const struct target_proc *proc)
{
	uint32_t n = 0;

	for (const struct attached *a = attached_first(l, proc->tgid); a; a = a->next_of_proc)
		n += a->start_ns == proc->start_time_ns;
	return n >= LOADER_LIBS_OF_PROC;
}

static int lib_room(struct loader *l, const struct target_proc *proc)
{
	uint32_t n = 0;

	if (proc_is_full(l, proc))
		return -EDQUOT;
	for (uint32_t i = 0; proc->uid && i < l->n_libs; i++)
		n += l->libs[i].uid == proc->uid;
	return lib_slot(l, n < LOADER_LIBS_OF_UID ? UID_UNKNOWN : proc->uid);
}

static int lib_find(const struct loader *l, const struct tracer *t, const struct target_file *file,
		    enum probe_group group, enum tier upto)
{
	for (uint32_t i = 0; i < l->n_libs; i++) {
		const struct lib_probes *p = &l->libs[i];

		if (p->tracer == t && p->group == group && p->upto == upto && target_file_same(&p->file, file))
			return i;
	}
	return -ENOENT;
}

/* What a probe on this file costs was measured for another tracer or group. */
static void price_copy(const struct loader *l, struct lib_probes *p)
{
	for (uint32_t i = 0; i < l->n_libs && !p->price_ns; i++)
		if (target_file_same(&l->libs[i].file, &p->file))
			p->price_ns = l->libs[i].price_ns;
}

static int lib_fill(struct loader *l, struct lib_probes *p, const struct target_file *file)
{
	p->file = *file;
	p->file.fd = -1; /* the file's own may be closed and its number reused */
	p->build_id_len = file->facts.build_id_len;
	memcpy(p->build_id, file->facts.build_id, p->build_id_len);
	price_copy(l, p);
	p->symbols = calloc(p->tracer->n_probes, sizeof(*p->symbols));
	p->classes = calloc(p->tracer->n_probes, sizeof(*p->classes));
	if (!p->symbols || !p->classes)
		return -ENOMEM;
	lib_symbols(l, p, file);
	return 0;
}

int lib_file_check(struct loader *l, const struct target_file *file)
{
	if (target_file_unchanged(file))
		return 0;
	target_set_file_changed(l->cfg.targets, file);
	return -ESTALE;
}

/* The file had another content before. Links without a process would put probes at its old places into each process
 * that maps it from now on. */
static void replaced_drop(struct loader *l, const struct lib_probes *lib, const struct target_file *file)
{
	struct attached *next;

	for (struct attached *a = l->attached; a; a = next) {
		const struct lib_probes *old = &l->libs[a->lib_id];

		next = a->next;
		if (old == lib || old->file.dev != file->dev || old->file.ino != file->ino ||
		    target_file_same(&old->file, file))
			continue;
		l->libs[a->lib_id].shared_next = 0;
		attached_free(l, a);
	}
}

/* See loader_internal.h. */
int lib_get(struct loader *l, const struct tracer *t, const struct target_proc *proc, const struct target_file *file,
	    enum probe_group group, enum tier upto)
{
	int id = lib_find(l, t, file, group, upto), err;

	if (id >= 0)
		return id;
	err = lib_file_check(l, file);
	if (err)
		return err;
	if (l->cfg.prices && !l->prices.ns[HIT_OTHER])
		loader_prices(l, &l->prices);
	id = t->n_probes > COOKIE_ROW_MAX ? -ENOSPC : lib_room(l, proc);
	if (id < 0)
		return id;
	l->libs[id] = (struct lib_probes){ .tracer = t, .group = group, .upto = upto, .uid = proc->uid };
	if (!l->multi)
		replaced_drop(l, &l->libs[id], file);
	err = lib_fill(l, &l->libs[id], file);
	if (err)
		lib_drop(l, id); /* its number stays free */
	return err ? err : id;
}
