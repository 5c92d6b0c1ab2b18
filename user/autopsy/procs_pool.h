/* SPDX-License-Identifier: Apache-2.0
 *
 * procs_pool.h - runs the same work for every process of an autopsy, several at a time.
 *
 * Each thread has its own reader, because a reader handles one call after the other.
 */
#ifndef RANKTRACE_AUTOPSY_PROCS_POOL_H
#define RANKTRACE_AUTOPSY_PROCS_POOL_H

#include "autopsy/procs.h"

/* Work on one process with the thread's own reader. 0 or -errno: the first error is returned, the other processes are
 * still handled. */
typedef int proc_work_fn(struct autopsy_procs *s, struct reader *r, struct autopsy_proc *of);

/* Takes the processes in the order of `order` (n indexes of s->all). Returns when all are done. */
int procs_each(struct autopsy_procs *s, const size_t *order, size_t n, proc_work_fn *work);

#endif
