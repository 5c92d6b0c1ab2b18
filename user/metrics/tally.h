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
#include "metrics/histogram.h"
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
	struct histogram lateness; /* behind the first of its peers; by probes */
	struct tally_tcp tcp;
};

struct tally_findings { /* zeroed at first */
	uint64_t n[FINDING_KIND_MAX][SEVERITY_MAX];
	struct keyed_table incidents; /* the gravest that each open one was */
};

struct tally {
	struct keyed_table ranks, members, connections;
	struct tally_findings findings;
};

const char *tally_kind_name(enum tally_kind k);
enum tally_kind tally_kind_of(const struct comm *c);
bool tally_sighted(const struct member *mb);      /* how far it is, is known by calls or samples */
uint64_t tally_lag(const struct member *mb);      /* collectives behind the first of its communicator */
uint64_t tally_moved_ns(const struct member *mb); /* its newest collective; 0 none */
/* An operation that is over. 0 or -ENOMEM. */
int tally_op(struct tally *t, const struct op *op);
/* A finding opened, changed or closed. 0 or -ENOMEM. */
int tally_incident(struct tally_findings *t, const struct incident *i);
void tally_findings_settle(struct tally_findings *t); /* now and then: forgets those that closed */
void tally_findings_add(struct tally_findings *to, const struct tally_findings *t); /* its counts */
void tally_findings_free(struct tally_findings *t);
/* Before a page is written: who lives, how far each is. 0 or -ENOMEM. */
int tally_turn(struct tally *t, const struct model *m);
/* The living ranks, one after the other, each job and rank once; NULL: there is no more. */
const struct tally_rank *tally_next(const struct tally *t, const struct tally_rank *last);
void tally_free(struct tally *t);

#endif
