/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_slow.h - is a path slow, though nothing is lost? By its round trips against the other paths', by them against its
 * own past, and by the time that a byte takes: a link that is capped at a high rate queues in the sender, for less than
 * a round trip shows it.
 */
#ifndef RANKTRACE_DETECT_TCP_SLOW_H
#define RANKTRACE_DETECT_TCP_SLOW_H

#include "detect/network/tcp_pairs.h"

/* By the round at hand, whose sums are complete. */
bool tcp_slow_judge(const struct tcp_pairs *s, const struct tcp_pair *p);
/* Its round trips are as they were, and as the others': nothing queues in front of it. */
bool tcp_slow_no_queue(const struct tcp_pairs *s, const struct tcp_pair *p);

#endif
