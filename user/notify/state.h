/* SPDX-License-Identifier: Apache-2.0
 *
 * state.h - the folder in which `ranktrace notify` keeps what it sent whom, and others leave acknowledgements.
 */
#ifndef RANKTRACE_NOTIFY_STATE_H
#define RANKTRACE_NOTIFY_STATE_H

#include "notify/notice.h"

#define NOTIFY_DIR "/var/lib/ranktrace/notify"
#define NOTIFY_STATE "state.json"  /* replaced as a whole */
#define NOTIFY_ACKS "acknowledged" /* a line a finding id; appended to by who may write there */

/* Reads DIR/state.json; without one nothing was sent yet. 0 or -errno: -EINVAL, it is no state. */
int notify_state_load(const char *dir, struct notices *s, const char *const *names, int n_names);
/* Replaces it. `now_ms` stands in it: that somebody still runs. 0 or -errno. */
int notify_state_save(const char *dir, const struct notices *s, const char *const *names, int n_names, int64_t now_ms);
/* When it was saved last; 0: never, or it cannot be read. */
int64_t notify_state_saved_ms(const char *dir);
/* Makes the folder and the file of acknowledgements where they are missing. 0 or -errno. */
int notify_state_make(const char *dir);
/* What was acknowledged since *at (a place in that file), which moves. */
void notify_acks_take(const char *dir, struct notices *s, long *at);
/* Appends one. 0 or -errno. */
int notify_ack(const char *dir, const char *id);

#endif
