/* SPDX-License-Identifier: Apache-2.0
 *
 * flight_fact.c - the records that a snapshot of the model leaves out because they come once, or seldom, and go to
 * sinks or to a part of the model that takes a record as it is: libraries, GPUs, ports, connections, the tier. The last
 * one of each kind, process and key is kept as it came (struct record_kind.kept_by).
 */
#include <stdlib.h>
#include <string.h>

#include "flight/flight_private.h"
#include "record.h"
#include "tracers/process/life.h"

#define FACTS_MAX 8192

static const struct record_kind *kept_kind(const struct wire_hdr *rec)
{
	const struct record_kind *k = record_kind_of(rec);

	return k && k->kept_by && rec->size >= k->size ? k : NULL;
}

/* A library's number, a GPU's, a port's or a connection's index. */
static uint32_t key_of(const struct record_kind *k, const struct wire_hdr *rec)
{
	uint32_t key;

	memcpy(&key, (const char *)rec + k->kept_by, sizeof(key));
	return key;
}

static void link_drop(struct flight *f, struct kept_fact **link)
{
	struct kept_fact *k = *link;

	*link = k->next;
	f->facts_bytes -= k->rec.size;
	f->n_facts--;
	free(k);
}

static void proc_forget(struct flight *f, uint32_t tgid)
{
	struct kept_fact **link = &f->facts;

	while (*link)
		if ((*link)->rec.tgid == tgid)
			link_drop(f, link);
		else
			link = &(*link)->next;
}

void flight_fact_note(struct flight *f, const struct wire_hdr *rec)
{
	const struct record_kind *kind = kept_kind(rec);
	struct kept_fact **link = &f->facts, *k;

	if (rec->tracer == WIRE_LIFE && rec->kind == LIFE_EXIT && ((const struct life_exit *)rec)->last && f->facts)
		proc_forget(f, rec->tgid);
	if (!kind)
		return;
	for (; *link; link = &(*link)->next)
		if ((*link)->rec.kind == rec->kind && (*link)->rec.tracer == rec->tracer &&
		    (*link)->rec.tgid == rec->tgid && key_of(kind, &(*link)->rec) == key_of(kind, rec))
			break;
	if (*link)
		link_drop(f, link);
	k = f->n_facts < FACTS_MAX ? malloc(sizeof(*k) + rec->size) : NULL;
	if (!k)
		return;
	k->next = NULL;
	memcpy(&k->rec, rec, rec->size);
	for (link = &f->facts; *link; link = &(*link)->next)
		;
	*link = k;
	f->n_facts++;
	f->facts_bytes += rec->size;
}

void flight_facts_free(struct flight *f)
{
	while (f->facts)
		link_drop(f, &f->facts);
}
