/* SPDX-License-Identifier: Apache-2.0
 *
 * tally.h - what has to be counted from page to page, as the model knows states and not sums: of each rank its
 * operations and bytes, by what their communicator is for; of a session its findings. What was before the session is
 * not counted, so that a counter never falls while its rank lives.
 */
#ifndef RANKTRACE_METRICS_TALLY_H
#define RANKTRACE_METRICS_TALLY_H

#include "base/keyed.h"
#include "finding.h"
#include "model/model.h"

#define TALLY_RANKS_MAX 256
#define TALLY_MEMBERS_MAX 16384

enum tally_kind { TALLY_TENSOR, TALLY_DATA, TALLY_PIPELINE, TALLY_OTHER, TALLY_KINDS };

struct tally_ops { /* of one rank, in communicators of one kind */
	bool any;  /* it is in one */
	uint64_t collectives, lag;
	uint64_t ops, bytes, wait_ns, last; /* by probes */
};

struct tally_tcp {
	uint32_t connections;
	uint64_t sent, received, retransmitted; /* so far */
	uint64_t send_queue, receive_queue;     /* now */
};

struct tally_rank {         /* of a process that is several ranks: each */
	struct keyed keyed; /* process, rank */
	const struct job_id *job;
	const struct proc *proc; /* of this page only */
	int rank;
	bool lives, seen, probed; /* probed: some operation of it was */
	uint64_t moved_ns;        /* newest collective; 0 none */
	struct tally_ops of[TALLY_KINDS];
	struct tally_tcp tcp;
};

struct tally {
	struct keyed_table ranks, members, connections;
	uint64_t findings[FINDING_KIND_MAX][SEVERITY_MAX];
	struct keyed_table incidents; /* the gravest that each open one was */
};

const char *tally_kind_name(enum tally_kind k);
/* An operation that is over. 0 or -ENOMEM. */
int tally_op(struct tally *t, const struct op *op);
/* A finding opened, changed or closed. 0 or -ENOMEM. */
int tally_incident(struct tally *t, const struct incident *i);
/* Before a page is written: who lives, how far each is. 0 or -ENOMEM. */
int tally_turn(struct tally *t, const struct model *m);
/* The living ranks, one after the other, each job and rank once; NULL: there is no more. */
const struct tally_rank *tally_next(const struct tally *t, const struct tally_rank *last);
void tally_free(struct tally *t);

#endif
