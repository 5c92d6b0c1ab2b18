/* SPDX-License-Identifier: Apache-2.0
 *
 * procs_threads.h - samples the threads of one process of an autopsy. procs.h samples all processes.
 */
#ifndef RANKTRACE_AUTOPSY_PROCS_THREADS_H
#define RANKTRACE_AUTOPSY_PROCS_THREADS_H

#include "autopsy/procs.h"

int proc_threads_emit(struct autopsy_proc *s, procs_emit_fn *emit,
		      void *to); /* emits their names; once, before the first sample */
void proc_threads_free(struct autopsy_proc *s);

#endif
