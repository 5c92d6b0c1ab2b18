/* SPDX-License-Identifier: Apache-2.0
 *
 * kept_records.c - see kept_records.h.
 */
#include "pipeline/kept_records.h"

#include <stdlib.h>
#include <string.h>

#include "model/snapshot/snapshot.h"
#include "pipeline/snapshot_record.h"
#include "record.h"
#include "tracers/process/life.h"

#define KEPT_MAX 8192

struct kept_record {
	struct kept_record *next;
	struct wire_hdr rec; /* followed by the rest of it */
};

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

static void link_drop(struct kept_records *all, struct kept_record **link)
{
	struct kept_record *k = *link;

	*link = k->next;
	all->n--;
	free(k);
}

static void proc_forget(struct kept_records *all, uint32_t tgid)
{
	struct kept_record **link = &all->all;

	while (*link)
		if ((*link)->rec.tgid == tgid)
			link_drop(all, link);
		else
			link = &(*link)->next;
}

void kept_records_note(struct kept_records *all, const struct wire_hdr *rec)
{
	const struct record_kind *kind = kept_kind(rec);
	struct kept_record **link = &all->all, *k;

	if (rec->tracer == WIRE_LIFE && rec->kind == LIFE_EXIT && ((const struct life_exit *)rec)->last && all->all)
		proc_forget(all, rec->tgid);
	if (!kind)
		return;
	for (; *link; link = &(*link)->next)
		if ((*link)->rec.kind == rec->kind && (*link)->rec.tracer == rec->tracer &&
		    (*link)->rec.tgid == rec->tgid && key_of(kind, &(*link)->rec) == key_of(kind, rec))
			break;
	if (*link)
		link_drop(all, link);
	k = all->n < KEPT_MAX ? malloc(sizeof(*k) + rec->size) : NULL;
	if (!k)
		return;
	k->next = NULL;
	memcpy(&k->rec, rec, rec->size);
	for (link = &all->all; *link; link = &(*link)->next)
		;
	*link = k;
	all->n++;
}

void kept_records_free(struct kept_records *all)
{
	while (all->all)
		link_drop(all, &all->all);
}

struct state_writer {
	int (*each)(void *to, const struct wire_hdr *rec);
	void *to;
};

static int event_write(void *of, const struct event *e)
{
	static union {
		struct wire_hdr h;
		char bytes[WIRE_SIZE_MAX];
	} rec;
	const struct state_writer *w = of;
	int size = snapshot_encode(e, &rec.h);

	return size < 0 ? size : w->each(w->to, &rec.h);
}

int stream_state(const struct kept_records *all, struct model *m, int (*each)(void *to, const struct wire_hdr *rec),
		 void *to)
{
	struct state_writer w = { each, to };
	int err = m->start_ns ? model_snapshot(m, event_write, &w) : 0;

	for (const struct kept_record *k = all->all; k && !err; k = k->next)
		err = each(to, &k->rec);
	return err;
}
