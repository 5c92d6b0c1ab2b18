/* SPDX-License-Identifier: Apache-2.0
 *
 * attached.c - the links in place, by process: how they are found, dropped by group, and forgotten. A host has
 * thousands of them, and each turn of the loop asks for those of one process.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#include "attach/loader_internal.h"
#include "attach/probe_rows.h"

struct proc_links { /* of one process */
	uint32_t tgid;
	struct attached *first;
	UT_hash_handle hh;
};

static struct proc_links *links_find(const struct loader *l, uint32_t tgid)
{
	struct proc_links *p;

	HASH_FIND_INT(l->proc_links, &tgid, p);
	return p;
}

struct attached *attached_first(const struct loader *l, uint32_t tgid)
{
	const struct proc_links *p = links_find(l, tgid);

	return p ? p->first : NULL;
}

/* Two of these would report each call twice. Without a pid filter only the first has links. */
static bool is_there(const struct loader *l, const struct attached *a)
{
	for (const struct attached *b = l->multi ? attached_first(l, a->tgid) : NULL; b; b = b->next_of_proc)
		if (!a->n_places && !b->n_places && b->start_ns == a->start_ns && attached_is_of(l, b, a->lib_id))
			return true;
	return false;
}

int attached_add(struct loader *l, struct attached *a)
{
	struct proc_links *p = links_find(l, a->tgid);

	if (is_there(l, a))
		return -EEXIST;
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return -ENOMEM;
		p->tgid = a->tgid;
		HASH_ADD_INT(l->proc_links, tgid, p);
	}
	a->next_of_proc = p->first;
	p->first = a;
	DL_PREPEND(l->attached, a);
	l->libs[a->lib_id].n_attached++;
	a->added = true;
	return 0;
}

static void attached_remove(struct loader *l, struct attached *a)
{
	struct proc_links *p = links_find(l, a->tgid);
	struct attached **at = &p->first;

	while (*at != a)
		at = &(*at)->next_of_proc;
	*at = a->next_of_proc;
	if (!p->first) { /* lint: it was added, so its process has one */
		HASH_DEL(l->proc_links, p);
		free(p);
	}
	DL_DELETE(l->attached, a);
	l->libs[a->lib_id].n_attached--;
}

struct attached *attached_find(const struct loader *l, const struct tracer *t, const struct target_proc *proc,
			       const struct target_lib *lib, int lib_id)
{
	for (struct attached *a = attached_first(l, proc->tgid); a; a = a->next_of_proc)
		if (!a->n_places && a->tracer == t && a->start_ns == proc->start_time_ns &&
		    attached_is_of(l, a, lib_id) && (l->multi || a->text_begin == lib->map_start))
			return a;
	return NULL;
}

void attached_free(struct loader *l, struct attached *a)
{
	if (a->added)
		attached_remove(l, a);
	attacher_forget(l->attacher, a);
	detacher_close(l->detacher, a->links, a->n_links,
		       &(struct detach_of){ a->lib_id, l->multi ? a->tgid : 0, l->multi ? a->start_ns : 0 });
	l->n_probes -= a->n_probes;
	free(a->places);
	free(a);
}

static void links_drop(struct loader *l, uint32_t tgid, uint32_t groups)
{
	struct attached *next;

	for (struct attached *a = l->multi ? attached_first(l, tgid) : l->attached; a; a = next) {
		next = l->multi ? a->next_of_proc : a->next;
		if (!(groups >> l->libs[a->lib_id].group & 1))
			continue;
		l->libs[a->lib_id].shared_next = 0;
		if (l->lacks & KERNEL_BIT(COOKIE))
			cookies_forget(l, a);
		attached_free(l, a);
	}
}

/* Without probes a new generation begins, and calls in flight under the old probes are dropped. */
void loader_lower(struct loader *l, uint32_t tgid, enum tier to)
{
	uint32_t groups = 0;

	for (int g = 0; g < PROBE_SETS; g++)
		groups |= probe_group_tier(g) > to ? 1u << g : 0;
	if (l->multi) /* without a pid filter links serve other processes */
		links_drop(l, tgid, groups);
	if (to == TIER_WATCH)
		target_generation_begin(l, tgid);
}

uint32_t shed_groups(const struct loader *l, uint32_t tgid)
{
	const struct shed *s = l->shed;

	while (s && s->tgid != tgid)
		s = s->next;
	return s ? s->groups : 0;
}

uint32_t tracer_shed(struct tracer_handle *h, uint32_t tgid)
{
	return shed_groups(h->loader, tgid);
}

/* Returns what it was; without memory nothing is noted. */
static uint32_t shed_set(struct loader *l, uint32_t tgid, uint32_t groups)
{
	struct shed **at = &l->shed, *s;
	uint32_t before;

	while (*at && (*at)->tgid != tgid)
		at = &(*at)->next;
	if (!*at && groups)
		*at = calloc(1, sizeof(**at));
	s = *at;
	if (!s)
		return 0;
	before = s->groups;
	*s = (struct shed){ .tgid = tgid, .groups = groups, .next = s->next };
	if (groups)
		return before;
	*at = s->next;
	free(s);
	return before;
}

/* The generation stays, because the state of NCCL's calls is still needed, unless these are not seen any more. A call
 * in flight in these groups ends with its probes (tracer_groups()). */
void loader_shed(struct loader *l, uint32_t tgid, uint32_t groups)
{
	uint32_t before = shed_set(l, tgid, groups);

	links_drop(l, tgid, groups);
	if (groups & ~before & 1u << PROBES_NEEDED)
		target_generation_begin(l, tgid);
}

uint32_t tracer_groups(struct tracer_handle *h, uint32_t tgid)
{
	const struct loader *l = h->loader;
	uint32_t groups = 0;

	for (const struct attached *a = attached_first(l, tgid); a; a = a->next_of_proc)
		if (a->tracer == h->tracer)
			groups |= 1u << l->libs[a->lib_id].group;
	return l->multi ? groups : ~shed_groups(l, tgid);
}

void attached_forget(struct loader *l, uint32_t tgid)
{
	struct attached *next;

	shed_set(l, tgid, 0);
	for (struct attached *a = attached_first(l, tgid); a; a = next) {
		next = a->next_of_proc;
		if ((l->lacks & KERNEL_BIT(COOKIE)))
			cookies_forget(l, a);
		/* links without a pid filter serve other processes too, so they stay until the end */
		if (l->multi || !a->n_links)
			attached_free(l, a);
	}
}

uint32_t loader_libs_attached(const struct loader *l)
{
	uint32_t n = 0;

	for (const struct attached *a = l->attached; a; a = a->next)
		n += l->libs[a->lib_id].group == PROBES_NEEDED;
	return n;
}

void attached_free_all(struct loader *l)
{
	while (l->attached)
		attached_free(l, l->attached); /* lint: that takes it out of the list */
}
