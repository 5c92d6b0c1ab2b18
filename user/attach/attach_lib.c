/* SPDX-License-Identifier: Apache-2.0
 *
 * attach_lib.c - what is known of one library for one tracer and probe group: where its rows' symbols are, once per
 * build-id, and which instruction each function begins with.
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

/* See loader_internal.h. */
int lib_get(struct loader *l, const struct tracer *t, const struct target_file *file, enum probe_group group,
	    enum tier upto)
{
	const struct elf_facts *f = &file->facts;
	struct lib_probes *p;

	for (uint32_t i = 0; i < l->n_libs; i++) {
		p = &l->libs[i];
		if (p->tracer == t && p->group == group && p->upto == upto && p->build_id_len == f->build_id_len &&
		    !memcmp(p->build_id, f->build_id, f->build_id_len))
			return i;
	}
	if (l->cfg.prices && !l->prices.ns[HIT_OTHER])
		loader_prices(l, &l->prices);
	if (l->n_libs == LOADER_LIBS_MAX || t->n_probes > COOKIE_ROW_MAX)
		return -ENOSPC;
	p = &l->libs[l->n_libs];
	*p = (struct lib_probes){ .tracer = t, .group = group, .upto = upto, .build_id_len = f->build_id_len };
	memcpy(p->build_id, f->build_id, f->build_id_len);
	p->symbols = calloc(t->n_probes, sizeof(*p->symbols));
	p->classes = calloc(t->n_probes, sizeof(*p->classes));
	if (!p->symbols || !p->classes) {
		free(p->symbols);
		free(p->classes);
		return -ENOMEM;
	}
	lib_symbols(l, p, file);
	return l->n_libs++;
}
