/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_past.h - how a path between two addresses is by itself: rounds in which something flowed, the newest ones and
 * those before. A path that is alone in its job has nothing else to be compared with.
 */
#ifndef RANKTRACE_DETECT_TCP_PAST_H
#define RANKTRACE_DETECT_TCP_PAST_H

#include <stdbool.h>
#include <stdint.h>

#define TCP_ROUNDS 5 /* a fault is there when it was in some of the newest ones */
#define TCP_PAST 64  /* rounds before those */

struct tcp_round {
	double rtt_us;         /* of the quickest connection that flowed */
	double busy_us;        /* time in which something was on its way, of all connections */
	double bytes;          /* acknowledged meanwhile */
	double comes_per_s[2]; /* bytes that came in by the netdev of each end, anybody's */
};

struct tcp_past {
	struct tcp_round now[TCP_ROUNDS]; /* newest first */
	int n_now;
	struct tcp_round before[TCP_PAST]; /* ring */
	uint64_t n_before;
};

/* `habit`: what leaves the newest rounds is how the path usually is. False while it is slow. */
void tcp_past_take(struct tcp_past *p, struct tcp_round r, bool habit);
/* Enough rounds before the newest to say how it usually is. */
bool tcp_past_known(const struct tcp_past *p);
/* Round trips before: in the middle, and the longest. */
double tcp_past_rtt_us(const struct tcp_past *p);
double tcp_past_rtt_most_us(const struct tcp_past *p);
/* Time on the way for a byte: before, the worst of as many rounds as are new, and now; 0: nothing moved. */
double tcp_past_cost(const struct tcp_past *p);
double tcp_past_cost_most(const struct tcp_past *p);
double tcp_past_cost_now(const struct tcp_past *p);
double tcp_past_busy_now_us(const struct tcp_past *p);
/* What usually came in at one end, bytes a second. */
double tcp_past_comes(const struct tcp_past *p, int end);

#endif
