/* SPDX-License-Identifier: Apache-2.0
 *
 * flight_fact.c - the facts that a retelling of the model leaves out because they are told once, or seldom, and go to
 * sinks or to a part of the model that takes a fact as it is: libraries, GPUs, ports, connections, the tier. The last
 * one of each kind, process and number is kept as it came.
 */
#include <stdlib.h>
#include <string.h>

#include "flight/flight_private.h"
#include "schemas/facts.h"
#include "tracers/process/life.h"

#define FACTS_MAX 8192

/* Kinds by number: those of later versions are kept as well. */
static bool fact_keeps(const struct wire_hdr *rec)
{
	switch (rec->kind) {
	case FACT_LIB:
	case FACT_GPU_DEVICE:
	case FACT_GPU_SAMPLE:
	case FACT_GPU_HEALTH:
	case FACT_GPU_PROCS:
	case FACT_GPU_STATE:
	case FACT_PORT:
	case FACT_PORT_LOOK:
	case FACT_PORT_USERS:
	case FACT_GIDS:
	case FACT_TCP:
	case FACT_TCP_LOOK:
	case 14:
	case 15:
	case 26: /* tier, budget, host */ return true;
	default: return false;
	}
}

/* The first word behind the header: a library's number, a GPU's, a port's or a connection's index. */
static uint32_t number_of(const struct wire_hdr *rec)
{
	uint32_t n = 0;

	if (rec->size >= sizeof(*rec) + sizeof(n))
		memcpy(&n, rec + 1, sizeof(n));
	return n;
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
	struct kept_fact **link = &f->facts, *k;

	if (rec->tracer == WIRE_LIFE && rec->kind == LIFE_EXIT && ((const struct life_exit *)rec)->last && f->facts)
		proc_forget(f, rec->tgid);
	if (rec->tracer != WIRE_FACT || !fact_keeps(rec))
		return;
	for (; *link; link = &(*link)->next)
		if ((*link)->rec.kind == rec->kind && (*link)->rec.tgid == rec->tgid &&
		    number_of(&(*link)->rec) == number_of(rec))
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
