/* SPDX-License-Identifier: Apache-2.0
 *
 * spans.h - a set of ranks in words, and a thread's place in one line. Pure.
 */
#ifndef RANKTRACE_REPORT_SPANS_H
#define RANKTRACE_REPORT_SPANS_H

#include "model/model.h"
#include "sink/text.h"

/* "rank 5", "ranks 0-2, 5"; past `most` spans ", and more". Sorts `ranks`. */
void text_spans(struct text *t, int *ranks, size_t n, int most);
/* Where the rank's main thread is: "load_batch (train.py:18)", a native frame, the kernel's word; "" not known. */
const char *main_place(const struct proc *p);
const struct task *main_thread(const struct proc *p); /* NULL not known */

#endif
