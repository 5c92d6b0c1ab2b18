/* SPDX-License-Identifier: Apache-2.0
 *
 * flight_kept.c - collector records that a snapshot of the model leaves out.
 *
 * They are emitted once or seldom and go to sinks or into the model as they are: libraries, GPUs, ports, connections,
 * tiers. The last one of each kind, process and key is kept (struct record_kind.kept_by) and repeated at the begin of a
 * segment.
 */
#include <stdlib.h>
#include <string.h>

#include "flight/flight_private.h"
#include "record.h"
#include "tracers/process/life.h"

#define KEPT_MAX 8192

static const struct record_kind *kept_kind(const struct wire_hdr *rec)
{
	const struct record_kind *k = record_kind_of(rec);

	return k && k->kept_by && rec->size >= k->size ? k : NULL;
}

/* Number of a library, index of a GPU, port or connection. */
static uint32_t key_of(const struct record_kind *k, const struct wire_hdr *rec)
{
	uint32_t key;

	memcpy(&key, (const char *)rec + k->kept_by, sizeof(key));
	return key;
}

static void link_drop(struct flight *f, struct kept_record **link)
{
	struct kept_record *k = *link;

	*link = k->next;
	f->kept_bytes -= k->rec.size;
	f->n_kept--;
	free(k);
}

static void proc_forget(struct flight *f, uint32_t tgid)
{
	struct kept_record **link = &f->kept;

	while (*link)
		if ((*link)->rec.tgid == tgid)
			link_drop(f, link);
		else
			link = &(*link)->next;
}

void flight_kept_note(struct flight *f, const struct wire_hdr *rec)
{
	const struct record_kind *kind = kept_kind(rec);
	struct kept_record **link = &f->kept, *k;

	if (rec->tracer == WIRE_LIFE && rec->kind == LIFE_EXIT && ((const struct life_exit *)rec)->last && f->kept)
		proc_forget(f, rec->tgid);
	if (!kind)
		return;
	for (; *link; link = &(*link)->next)
		if ((*link)->rec.kind == rec->kind && (*link)->rec.tracer == rec->tracer &&
		    (*link)->rec.tgid == rec->tgid && key_of(kind, &(*link)->rec) == key_of(kind, rec))
			break;
	if (*link)
		link_drop(f, link);
	k = f->n_kept < KEPT_MAX ? malloc(sizeof(*k) + rec->size) : NULL;
	if (!k)
		return;
	k->next = NULL;
	memcpy(&k->rec, rec, rec->size);
	for (link = &f->kept; *link; link = &(*link)->next)
		;
	*link = k;
	f->n_kept++;
	f->kept_bytes += rec->size;
}

void flight_kept_free(struct flight *f)
{
	while (f->kept)
		link_drop(f, &f->kept);
}
