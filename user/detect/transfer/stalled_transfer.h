/* SPDX-License-Identifier: Apache-2.0
 *
 * stalled_transfer.h - a communicator whose oldest operation on the network all members entered and not all are through
 * with. Takes NCCL's proxy counters (links.h) and what the proxies' threads do (proxy_thread.h); gives the transfer
 * that stalls, and the rank or the side of a link that delays it.
 */
#ifndef RANKTRACE_STALLED_TRANSFER_H
#define RANKTRACE_STALLED_TRANSFER_H

#include "detect/detect.h"
#include "detect/transfer/links.h"
#include "detect/transfer/proxy_thread.h"
#include "model/ahead.h"

#define TRANSFER_SAMPLES_NS(m) (4 * (m)->hang_floor_ns) /* more than two samples */

struct transfer_link {
	const struct member *from, *to; /* NULL: no link */
	const struct proxy_part *send, *recv;
	int channel;
	enum link_side side; /* that delays it */
};

struct stalled_transfer {
	const struct comm *comm;
	uint64_t op_count;
	uint64_t since_ns; /* nothing moved from here on; 0: something did */
	uint64_t seq;
	uint8_t coll;
	const struct member *culprit;
	enum proxy_thread why;     /* of the culprit */
	struct transfer_link link; /* the one that shows most; stalled_transfer_proven() */
	int n_delayed;             /* links that one side delays */
};

/* The oldest operation in progress of this communicator, by fresh samples of every member. False: there is none, or it
 * cannot be known. */
bool stalled_transfer_find(const struct model *m, const struct comm *c, struct stalled_transfer *ret);
/* Of all communicators the transfer that is proven to stall, best one with a culprit, else the oldest. */
bool stalled_transfer_proven(const struct model *m, struct stalled_transfer *ret);
/* The operation's number in the communicator, as findings report it. */
uint64_t stalled_transfer_seq(const struct stalled_transfer *t);
/* The side that delays the link: the culprit's, if there is one. */
enum link_side stalled_transfer_side(const struct stalled_transfer *t);
/* Evidence of the link: both ends, the channel, and how far they are. */
void stalled_transfer_note_link(struct finding *f, struct finding_list *found, const struct stalled_transfer *t);
/* The same of a rank that is named for another reason, if it stands in the middle of a transfer. */
void stalled_transfer_note(struct finding *f, struct finding_list *found, const struct model *m, const struct proc *p);

/* Of every member of the communicator all is known. */
bool transfers_known(const struct model *m, const struct comm *c);
/* Since when the hosts, or with `proxies` the transfers too, are as they are now, by two samples of each; 0: they
 * changed. */
uint64_t transfers_unchanged_since(const struct comm *c, bool proxies);
/* A collective's part on a network connection. */
bool proxy_part_is_network(const struct proxy_part *p);
bool member_in_transfer(const struct member *mb, uint64_t op_count);
bool member_transfers(const struct member *mb);
/* The same, by a fresh sample. */
bool member_transfers_now(const struct model *m, const struct member *mb);

#endif
