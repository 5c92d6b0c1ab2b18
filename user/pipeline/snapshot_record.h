/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot_record.h - the events of a snapshot (model/snapshot/snapshot.h) as records, and back.
 */
#ifndef RANKTRACE_SNAPSHOT_RECORD_H
#define RANKTRACE_SNAPSHOT_RECORD_H

#include "base/intern.h"
#include "event.h"
#include "schemas/collector.h"

/* The record of an event of kind START, PROC, THREAD, STACK, WAIT or SNAPSHOT into `to`, 8-byte aligned and
 * WIRE_SIZE_MAX long. Texts are cut to what fits. Its size in bytes; -EINVAL: another kind, or a body that fits no
 * record. */
int snapshot_encode(const struct event *e, struct wire_hdr *to);
/* RECORD_SNAPSHOT; `e` is zeroed but for its header's fields. 1, or -EINVAL. */
int snapshot_decode(const struct wire_hdr *rec, struct intern *strings, struct event *e);

#endif
