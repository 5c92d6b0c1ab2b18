/* SPDX-License-Identifier: Apache-2.0
 *
 * storage.c - what a report says of storage: where ranks were blocked longest, by file system and kind of call.
 */
#include <stdlib.h>

#include <cjson/cJSON.h>

#include "base/larger.h"
#include "model/storage/storage.h"
#include "sink/report/report.h"

#define ROWS_SHOWN 500
#define WORTH_NS 1000000ull /* in all: less is no time in a recording */

struct row {
	const struct proc *proc;
	const struct storage *s;
};

static int longer_first(const void *one, const void *other)
{
	const struct row *a = one, *b = other;
	uint64_t a_ns = a->s->sum.blocked_ns, b_ns = b->s->sum.blocked_ns;

	return a_ns < b_ns ? 1 : a_ns > b_ns ? -1 : sink_rank(a->proc) - sink_rank(b->proc);
}

/* All that are worth a line, in `rows`, which may be NULL. How many. */
static size_t rows_collect(const struct model *m, struct row *rows)
{
	size_t n = 0;

	for (const struct proc *p = m->procs; p; p = p->next)
		for (const struct storage *s = p->storage_of_rank; s; s = s->next) {
			if (s->sum.blocked_ns < WORTH_NS)
				continue;
			if (rows)
				rows[n] = (struct row){ p, s };
			n++;
		}
	return n;
}

static cJSON *row_object(const struct row *r)
{
	const struct storage_sum *sum = &r->s->sum;
	cJSON *o = cJSON_CreateObject();
	struct mount_parts mount;

	mount_split(storage_mount(r->proc, sum->at), &mount);
	if (sink_rank(r->proc) >= 0)
		cJSON_AddNumberToObject(o, "rank", sink_rank(r->proc));
	cJSON_AddNumberToObject(o, "pid", r->proc->tgid);
	report_add(o, "mount", mount.point);
	report_add(o, "type", mount.type);
	report_add(o, "source", mount.source);
	cJSON_AddStringToObject(o, "call", storage_act_name(sum->at));
	cJSON_AddNumberToObject(o, "calls", (double)sum->calls);
	cJSON_AddNumberToObject(o, "blocked_s", (double)sum->blocked_ns * 1e-9);
	cJSON_AddNumberToObject(o, "longest_s", (double)sum->longest_ns * 1e-9);
	report_add(o, "file", r->s->file);
	return o;
}

cJSON *report_storage(const struct model *m)
{
	cJSON *list = cJSON_CreateArray();
	size_t n = rows_collect(m, NULL);
	struct row *rows = n ? calloc(n, sizeof(*rows)) : NULL;

	if (!rows)
		return list;
	rows_collect(m, rows);
	qsort(rows, n, sizeof(*rows), longer_first);
	for (size_t i = 0; i < smaller(n, ROWS_SHOWN); i++)
		cJSON_AddItemToArray(list, row_object(&rows[i]));
	free(rows);
	return list;
}
