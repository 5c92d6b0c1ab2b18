/* SPDX-License-Identifier: Apache-2.0
 *
 * loader_leave.c - the end of all probes: what cannot be closed yet goes to a process that is left behind.
 */
#include "attach/loader_internal.h"
#include "attach/ring.h"
#include "inspect/reader/reader.h"

/* Runs in the process left behind: it checks locks through a reader of its own, and gives up the rings. */
static int left_settle(void *to)
{
	struct loader *l = to;
	struct reader *r = NULL;
	int err;

	ring_free(l->rings);
	err = reader_open(&r);
	if (!err)
		attach_guard_use(l->guard, r);
	attach_guard_share(l->guard, NULL); /* no scan counts processes here */
	return err;
}

struct loader_left loader_detach(struct loader *l)
{
	struct loader_left left = { 0 };

	attach_guard_share(l->guard, l->cfg.shares); /* no slices any more: each answer is a whole one */
	attached_free_all(l);
	attacher_free(l->attacher, l->detacher);
	l->attacher = NULL;
	detacher_poll(l->detacher);
	left.n_links = detacher_waiting(l->detacher);
	if (!left.n_links)
		return left;
	for (uint32_t i = 0; i < l->n_libs && !left.holder; i++)
		left.holder = lib_holder(l, i);
	links_free(l->life_links, l->n_life_links); /* a fork would add targets */
	l->life_links = NULL;
	l->n_life_links = 0;
	targets_clear(l);
	left.closer = detacher_leave(l->detacher, left_settle, l);
	return left;
}
