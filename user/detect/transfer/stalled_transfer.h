/* SPDX-License-Identifier: Apache-2.0
 *
 * stalled_transfer.h - a communicator whose oldest operation on the network everybody entered, and not everybody is
 * through with.
 */
#ifndef RANKTRACE_STALLED_TRANSFER_H
#define RANKTRACE_STALLED_TRANSFER_H

#include "detect/transfer/proxy_thread.h"
#include "model/model.h"

struct stalled_transfer {
	const struct comm *comm;
	uint64_t op_count;
	uint64_t since_ns; /* nothing moved from here on; 0: something did */
	uint64_t seq;
	uint8_t coll;
	const struct member *culprit;
	enum proxy_thread why; /* of the culprit */
};

/* Of every member all is known, by looks that are fresh. False: there is none, or it cannot be told. */
bool stalled_transfer_find(const struct model *m, const struct comm *c, struct stalled_transfer *ret);
/* Of every member all is known. */
bool transfers_known(const struct model *m, const struct comm *c);
/* The operation's number in the communicator, as findings tell it. */
uint64_t stalled_transfer_seq(const struct stalled_transfer *j);
/* Since when the hosts, or with `proxies` the transfers too, stand as they do now, by two looks at each; 0 they do not.
 */
uint64_t transfers_unchanged_since(const struct comm *c, bool proxies);
/* The member whose proxy is worst off, and how; of two that are equally so nobody. */
void stalled_transfer_culprit(struct stalled_transfer *j);
/* A collective's part on a network connection. */
bool proxy_part_is_network(const struct proxy_part *p);
bool member_in_transfer(const struct member *mb, uint64_t op_count);
bool member_transfers(const struct member *mb);
/* The same, by a look that is fresh. */
bool member_transfers_now(const struct model *m, const struct member *mb);

#endif
