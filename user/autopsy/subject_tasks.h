/* SPDX-License-Identifier: Apache-2.0
 *
 * subject_tasks.h - the threads of one process that an autopsy looks at. The looks at all of them: subject.h.
 */
#ifndef RANKTRACE_SUBJECT_TASKS_H
#define RANKTRACE_SUBJECT_TASKS_H

#include "autopsy/subject.h"

int subject_threads_tell(struct subject *s, subject_emit *emit,
			 void *to); /* their names; once, before the first look */
void subject_threads_free(struct subject *s);

#endif
