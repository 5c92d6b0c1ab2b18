/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot.h - emits a model's state as events, so that another model that takes these, and then what comes, says the
 * same: a stream may so begin in the middle of a session. What is written: processes and threads, communicators with
 * their numbers and what they are used to, creations, the streams with what is queued on them, captured graphs, the
 * iteration clocks, and operations: the open ones and the newest of each process. What detectors remember is not
 * written.
 */
#ifndef RANKTRACE_MODEL_SNAPSHOT_H
#define RANKTRACE_MODEL_SNAPSHOT_H

#include "model/model.h"

/* Calls `each` with events in the order they are to be applied; what they point to lives as long as the call. The model
 * is changed by no more than its own notes. 0, -ENOMEM, or what `each` returned (which ends it). */
int model_snapshot(struct model *m, int (*each)(void *to, const struct event *e), void *to);

#endif
