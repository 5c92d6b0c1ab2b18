/* SPDX-License-Identifier: Apache-2.0
 *
 * kept_records.h - the state of a stream as records: what a file has to begin with that begins in the middle of a
 * session. A snapshot of the model, and the collector's records that it leaves out.
 *
 * Those are emitted once or seldom and go to sinks or into the model as they are: libraries, GPUs, ports, connections,
 * tiers. The last one of each kind, process and key is kept (struct record_kind.kept_by), until its process ends or
 * another record says that it holds no longer (struct record_kind.ends).
 */
#ifndef RANKTRACE_KEPT_RECORDS_H
#define RANKTRACE_KEPT_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#include "model/model.h"
#include "schemas/wire.h"

struct kept_record;

#define KEPT_MAX 8192 /* records */

struct kept_records {
	struct kept_record *all;
	size_t n;
	uint64_t refused; /* records that found no room, or no memory; ever */
};

/* Every record of the stream; those to be kept are copied. */
void kept_records_note(struct kept_records *k, const struct wire_hdr *rec);
void kept_records_free(struct kept_records *k);
/* Calls `each` with the records of the state, in the order in which they are to be read; nothing before the model has a
 * session. 0, or -errno of the model or of `each`, which ends it. */
int stream_state(const struct kept_records *k, struct model *m, int (*each)(void *to, const struct wire_hdr *rec),
		 void *to);

#endif
