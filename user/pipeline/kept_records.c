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

#define uthash_fatal(msg) /* never reached: HASH_NONFATAL_OOM */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct kept_key {
	uint8_t tracer, kind;
	uint16_t reserved;
	uint32_t tgid;
	char key[RECORD_KEY_MAX]; /* number of a library, index of a GPU, port or connection */
};

struct kept_record { /* in order of their last records, as the hash has them */
	UT_hash_handle hh;
	struct kept_key key;
	struct wire_hdr rec; /* followed by the rest of it */
};

static struct kept_key key_of(const struct record_kind *k, const struct wire_hdr *rec)
{
	struct kept_key key = { .tracer = rec->tracer, .kind = rec->kind, .tgid = rec->tgid };

	memcpy(key.key, (const char *)rec + k->kept_by, k->kept_bytes ? k->kept_bytes : sizeof(uint32_t));
	return key;
}

static void record_drop(struct kept_records *all, struct kept_record *k)
{
	HASH_DEL(all->all, k);
	all->n--;
	free(k);
}

static void proc_forget(struct kept_records *all, uint32_t tgid)
{
	struct kept_record *k, *next;

	HASH_ITER (hh, all->all, k, next)
		if (k->rec.tgid == tgid)
			record_drop(all, k);
}

static void ended_forget(struct kept_records *all, const struct record_kind *kind, const struct wire_hdr *rec)
{
	struct kept_record *k, *next;

	HASH_ITER (hh, all->all, k, next)
		if (kind->ends(rec, &k->rec))
			record_drop(all, k);
}

static void record_keep(struct kept_records *all, const struct kept_key *key, const struct wire_hdr *rec)
{
	struct kept_record *k = all->n < KEPT_MAX ? malloc(sizeof(*k) + rec->size) : NULL;

	if (k) {
		k->key = *key;
		memcpy(&k->rec, rec, rec->size);
		HASH_ADD(hh, all->all, key, sizeof(k->key), k);
	}
	if (k && k->hh.tbl) {
		all->n++;
		return;
	}
	free(k);
	all->refused++;
}

void kept_records_note(struct kept_records *all, const struct wire_hdr *rec)
{
	const struct record_kind *kind = record_kind_of(rec);
	struct kept_record *before;
	struct kept_key key;

	if (rec->tracer == WIRE_LIFE && rec->kind == LIFE_EXIT && ((const struct life_exit *)rec)->last && all->n)
		proc_forget(all, rec->tgid);
	if (!kind || rec->size < kind->size)
		return;
	if (kind->ends)
		ended_forget(all, kind, rec);
	if (!kind->kept_by)
		return;
	key = key_of(kind, rec);
	HASH_FIND(hh, all->all, &key, sizeof(key), before);
	if (before)
		record_drop(all, before);
	record_keep(all, &key, rec);
}

void kept_records_free(struct kept_records *all)
{
	struct kept_record *k, *next;

	HASH_ITER (hh, all->all, k, next)
		record_drop(all, k);
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

	for (const struct kept_record *k = all->all; k && !err; k = k->hh.next)
		err = each(to, &k->rec);
	return err;
}
