/* SPDX-License-Identifier: Apache-2.0
 *
 * storage_wait.h - which D states are waits for storage that may just be slow, and how long such a wait has to last to
 * be critical: where it stands, and the longest before it there that ended by itself.
 */
#ifndef RANKTRACE_STORAGE_WAIT_H
#define RANKTRACE_STORAGE_WAIT_H

#include "base/keyed.h"
#include "model/ahead.h"

struct storage_waits { /* zeroed at first; storage_waits_free() */
	struct keyed_table now, usual;
};

/* The task is blocked in a call on a file of a mount that is known; a device's file is none. */
bool is_on_storage(const struct task *t);
/* How long the wait of a blocked task has to last to be critical, and `*ret_ns` 0: at once. Keeps it as one that goes
 * on. 0 or -ENOMEM. */
int storage_wait_critical(struct storage_waits *s, const struct model *m, const struct task *t, uint64_t *ret_ns);
/* At the end of a tick: learns of those that ended. 0 or -ENOMEM. */
int storage_waits_learn(struct storage_waits *s, const struct model *m);
void storage_waits_free(struct storage_waits *s);

#endif
