/* SPDX-License-Identifier: Apache-2.0
 *
 * post.h - single verbs of a traffic: post one, wait for one completion, with the reasons why that may not come.
 */
#ifndef STRESS_VERBS_POST_H
#define STRESS_VERBS_POST_H

#include "tools/stress/verbs/traffic.h"

enum post_flag { POST_SIGNALLED = 1 };

/* From `at` of the own area, to or from `there` of the other. 0 or -errno with the result filled. */
int post_send(struct traffic *t, int opcode, uint64_t at, uint64_t there, uint32_t bytes, int flags, uint64_t id);
int post_receive(struct traffic *t, uint64_t at, uint32_t bytes);
/* Polls until there is one. -EIO: it failed; -ETIMEDOUT: nothing for the case's limit; -ECANCELED. */
int completion_take(struct traffic *t, void *queue, struct verbs_wc *wc);
/* The same; its id is in *id (may be NULL). */
int completion_wait(struct traffic *t, void *queue, uint64_t *id);
/* By a signal, or by the coordinator. */
bool traffic_ended(const struct traffic *t);
/* To be asked whenever a poll found nothing. 0, -ETIMEDOUT, -ECANCELED. */
int traffic_idle(struct traffic *t);
int traffic_fail(struct traffic *t, int err, enum rdma_status status, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

#endif
