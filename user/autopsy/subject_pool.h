/* SPDX-License-Identifier: Apache-2.0
 *
 * subject_pool.h - the same work for every process an autopsy looks at, several at a time: one reader each, since a
 * reader does one thing after the other.
 */
#ifndef RANKTRACE_SUBJECT_POOL_H
#define RANKTRACE_SUBJECT_POOL_H

#include "autopsy/subject.h"

/* Work on one process with a reader of its own. 0 or -errno: the first error is returned, the rest is done all the
 * same. */
typedef int subject_work(struct subjects *s, struct reader *r, struct subject *of);

/* In the order of `order` (n of them, indexes of s->all). Ends when all are done. */
int subjects_each(struct subjects *s, const size_t *order, size_t n, subject_work *work);

#endif
