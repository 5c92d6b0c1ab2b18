/* SPDX-License-Identifier: Apache-2.0
 *
 * decode.h - wire record -> events.
 */
#ifndef RANKTRACE_DECODE_H
#define RANKTRACE_DECODE_H

#include "record.h"

/* Fill `out` (at least DECODE_EVENTS_MAX) and return how many; each carries the record's ts, tid, tgid and cpu
 * unless the decoder set its own. -EINVAL: unknown source or kind, or too short. Strings live in `strings`. */
int decode_record(const struct wire_hdr *rec, struct intern *strings, struct event *out);

#endif
