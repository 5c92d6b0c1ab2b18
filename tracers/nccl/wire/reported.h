/* SPDX-License-Identifier: Apache-2.0
 *
 * reported.h - what a host reports of a rank's calls, as a hub's stream has it: the numbers it has come to, the
 * operations that its streams stand at, the waits of its threads. A process is said whole between BEGIN and END: what
 * is not in between is over. The body of the record, and the event's.
 */
#ifndef RANKTRACE_WIRE_REPORTED_H
#define RANKTRACE_WIRE_REPORTED_H

#include <stdint.h>

#include "schemas/wire.h"

enum reported_what {
	REPORTED_BEGIN = 1,
	REPORTED_NUMBER = 2, /* comm, kind, peer: so many were called, `seq` is the next */
	REPORTED_OP = 3,     /* enqueued, and not over */
	REPORTED_WAIT = 4,   /* a thread waits for its GPU; for this operation, where `id` is set */
	REPORTED_END = 5,
};

struct reported_call {
	uint64_t comm;   /* address of the ncclComm */
	uint64_t id;     /* of the operation in that process */
	uint64_t behind; /* the id of the one that must be over before; 0 none: it is reached */
	uint64_t count, seq;
	uint64_t begin_ns; /* it was enqueued; the wait began */
	int32_t kind, dtype, redop, root, peer;
	uint8_t what;   /* of enum reported_what */
	uint8_t passed; /* NUMBER of a Send or Recv: by its iteration its rank has gone on past the next one */
	uint8_t reserved[2];
};
struct record_reported_call { /* ts: as of then */
	struct wire_hdr hdr;  /* tgid, tid */
	struct reported_call body;
};
_Static_assert(sizeof(struct record_reported_call) == 96, "record_reported_call");

#endif
