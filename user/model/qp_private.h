/* SPDX-License-Identifier: Apache-2.0
 *
 * qp_private.h - between qp.c and qp_peer.c; the part of struct model_state that is theirs.
 */
#ifndef RANKTRACE_QP_PRIVATE_H
#define RANKTRACE_QP_PRIVATE_H

#include "model/model.h"

struct qp_state {
	struct qp_chain *by_number; /* of a process */
	struct qp_context *contexts;
	uint64_t swept_ns;
	bool changed; /* peers are to be found anew */
};

int op_burst_apply(struct model *m, const struct event *e);  /* op_burst.c */
int qp_peers_find(struct model *m);                          /* 0 or -ENOMEM */
void qp_hold_texts(const struct model *m, struct intern *t); /* as model_hold_texts() */

#endif
