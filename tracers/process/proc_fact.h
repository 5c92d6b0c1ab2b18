/* SPDX-License-Identifier: Apache-2.0
 *
 * proc_fact.h - the fact that says who a process is, as every command writes it.
 */
#ifndef RANKTRACE_PROC_FACT_H
#define RANKTRACE_PROC_FACT_H

#include "schemas/facts.h"
#include "inspect/discover/discover.h"

/* What emit() returns. */
int proc_fact_emit(const struct target_proc *p, uint64_t now_ns, int (*emit)(void *to, const struct wire_hdr *rec),
		   void *to);

#endif
