/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_places.h - where what pairs of addresses show is: at one host when all that goes from and to its address shows
 * it, and to two others at least; on the path between two when it is between them alone; or all over.
 */
#ifndef RANKTRACE_DETECT_TCP_PLACES_H
#define RANKTRACE_DETECT_TCP_PLACES_H

#include "detect/network/tcp_pairs.h"

#define TCP_PLACES_MAX 8

struct tcp_place {
	const char *address;         /* of the host; NULL: the pair's, or all over */
	const struct tcp_pair *pair; /* the pair, or one of them */
	int n_pairs;                 /* that show it */
	bool everywhere;
	uint64_t since_ns; /* the first of them */
};

/* Places of one fault that holds now, at most TCP_PLACES_MAX. */
int tcp_places_find(const struct tcp_pairs *s, enum tcp_fault f, struct tcp_place places[TCP_PLACES_MAX]);
bool tcp_pair_has(const struct tcp_pair *p, const char *address);

#endif
