/* SPDX-License-Identifier: Apache-2.0
 *
 * wait_record.h - the record of what a thread waits for, as it was read from outside.
 */
#ifndef RANKTRACE_WAIT_RECORD_H
#define RANKTRACE_WAIT_RECORD_H

#include "schemas/wire.h"
#include "waits_for.h"

#define WAIT_RECORD_BYTES 1024 /* a record is no longer */

/* Its bytes, at most WAIT_RECORD_BYTES, a multiple of 8; `to` has room for that and is aligned. `ns`: time of the
 * record; those in `w` stay. Longer texts are cut. */
size_t wait_record_encode(uint32_t tgid, uint32_t tid, uint64_t ns, const struct waits_for *w, struct wire_hdr *to);
/* What emit() returns. */
int wait_record_emit(uint32_t tgid, uint32_t tid, uint64_t ns, const struct waits_for *w,
		     int (*emit)(void *to, const struct wire_hdr *rec), void *to);

#endif
