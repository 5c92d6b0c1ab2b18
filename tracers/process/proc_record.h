/* SPDX-License-Identifier: Apache-2.0
 *
 * proc_record.h - the record that says who a process is, as every command writes it.
 */
#ifndef RANKTRACE_PROC_RECORD_H
#define RANKTRACE_PROC_RECORD_H

#include "schemas/collector.h"
#include "inspect/discover/discover.h"

/* What emit() returns. */
int proc_record_emit(const struct target_proc *p, uint64_t now_ns, int (*emit)(void *to, const struct wire_hdr *rec),
		     void *to);

#endif
