/* SPDX-License-Identifier: Apache-2.0
 *
 * subject_stacks.h - the stacks of all threads of the processes an autopsy looks at, as records. Read between two
 * looks: those who hold the job up first, by what the first look showed.
 */
#ifndef RANKTRACE_SUBJECT_STACKS_H
#define RANKTRACE_SUBJECT_STACKS_H

#include "model/model.h"
#include "autopsy/subject.h"

/*
 * Reads until `until_ns`, then tells. Of a process that was not read in time, or cannot be, one record says so.
 * *ret_unread: how many. 0, or an error of emit() or -ENOMEM.
 */
int subjects_stacks_look(struct subjects *s, const struct model *m, uint64_t until_ns, subject_emit *emit, void *to,
			 int *ret_unread);

#endif
