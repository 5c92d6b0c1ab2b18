/* SPDX-License-Identifier: Apache-2.0
 *
 * jam.h - a communicator whose oldest operation on the network everybody entered, and not everybody is through with.
 */
#ifndef RANKTRACE_JAM_H
#define RANKTRACE_JAM_H

#include "detect/transfer/proxy_thread.h"
#include "model/model.h"

struct jam {
	const struct comm *comm;
	uint64_t op_count;
	uint64_t since_ns; /* nothing moved from here on; 0: something did */
	uint64_t seq;
	uint8_t coll;
	const struct member *culprit;
	enum proxy_thread why; /* of the culprit */
};

/* Of every member all is known, by looks that are fresh. False: there is none, or it cannot be told. */
bool jam_find(const struct model *m, const struct comm *c, struct jam *ret);
/* Of every member all is known. */
bool jam_known(const struct model *m, const struct comm *c);
/* The operation's number in the communicator, as findings tell it. */
uint64_t jam_seq(const struct jam *j);
/* Since when the hosts, or with `proxies` the transfers too, stand as they do now, by two looks at each; 0 they do not.
 */
uint64_t jam_stands_since(const struct comm *c, bool proxies);
/* The member whose proxy is worst off, and how; of two that are equally so nobody. */
void jam_culprit_find(struct jam *j);
/* A collective's part on a network connection. */
bool jam_is_network(const struct proxy_part *p);
bool jam_has(const struct member *mb, uint64_t op_count);
bool jam_in_any(const struct member *mb);
/* The same, by a look that is fresh. */
bool jam_in_any_now(const struct model *m, const struct member *mb);

#endif
