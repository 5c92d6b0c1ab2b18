/* SPDX-License-Identifier: Apache-2.0
 *
 * proc_wire.h - record_proc in bytes: written and read here, and nowhere else. It is not struct event_proc: ten texts
 * are bytes with lengths here and pointers there, and older recordings end before the place.
 */
#ifndef RANKTRACE_PROC_WIRE_H
#define RANKTRACE_PROC_WIRE_H

#include "base/intern.h"
#include "event_proc.h"
#include "schemas/collector.h"

#define PROC_WIRE_BYTES 4096 /* more than any such record has */

/* Fills all of the record but ids and time in its header. rank_source is as far as the event knows it. */
void proc_wire_write(const struct event_proc *p, struct record_proc *to);
/* 1, as a decoder of one event returns, or -EINVAL. */
int proc_wire_read(const struct record_proc *f, struct intern *strings, struct event_proc *to);

#endif
