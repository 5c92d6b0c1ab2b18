/* SPDX-License-Identifier: Apache-2.0
 *
 * procs_stacks.h - the stacks of all threads of the processes in an autopsy, and what their main threads wait
 * for, as records.
 *
 * Read between the first two samples; the first sample shows which ranks delay the job, and these are read first.
 */
#ifndef RANKTRACE_AUTOPSY_PROCS_STACKS_H
#define RANKTRACE_AUTOPSY_PROCS_STACKS_H

#include "model/model.h"
#include "autopsy/procs.h"

/* Reads until `until_ns`, then emits. A process that was not read in time, or cannot be read, gets one record that says
 * so; *ret_unread counts them. 0, -ENOMEM or an error of emit(). */
int procs_read_stacks(struct autopsy_procs *s, const struct model *m, uint64_t until_ns, procs_emit_fn *emit, void *to,
		      int *ret_unread);

#endif
