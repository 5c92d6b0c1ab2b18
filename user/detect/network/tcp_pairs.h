/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_pairs.h - TCP connections summed up by the pair of addresses they go between, once a sample (a round, a second),
 * and what is wrong with each: the path is the pair's, not a connection's. A round trip of a pair is its quickest
 * flowing connection's: an answer that a process gives late delays an acknowledgement, not the path.
 */
#ifndef RANKTRACE_DETECT_TCP_PAIRS_H
#define RANKTRACE_DETECT_TCP_PAIRS_H

#include "base/keyed.h"
#include "detect/network/tcp_past.h"
#include "model/ahead.h"

enum tcp_fault {
	TCP_FAULT_NETDEV,   /* of one of its addresses: no carrier, or it is not up */
	TCP_FAULT_STALL,    /* sent, sent again, and nothing comes back */
	TCP_FAULT_SLOW,     /* round trips far above the others' */
	TCP_FAULT_LOSS,     /* sent again, and the receiver did not have it */
	TCP_FAULT_MARKS,    /* of congestion */
	TCP_FAULT_NOT_READ, /* the receiver's buffer is full */
	TCP_FAULT_BUFFER,   /* the sender's buffer holds it up */
	TCP_FAULTS,
};

struct tcp_traffic {                           /* on a netdev, in the last seconds */
	double others;                         /* share that is not the ranks' TCP; below 0: not known */
	double comes_per_s, others_come_per_s; /* bytes that came in */
};

#define TCP_ADDRESS_TEXT 64 /* INET6_ADDRSTRLEN, and the name of a netdev behind it */

struct tcp_pair {
	struct keyed keyed; /* by the hashes of its addresses */
	const char *a, *b;  /* addresses, a the first by strcmp(); texts of its own: */
	char texts[2][TCP_ADDRESS_TEXT];
	uint64_t seen_ns; /* newest sample of a connection of it */
	/* of the newest round */
	double seconds;
	uint64_t segments, marked, delivered, bytes, busy_us;
	int64_t lost;                /* below 0: what was taken for lost in an earlier round had come */
	uint64_t rtt_us, rtt_low_us; /* 0: nothing flowed; and what of it is no scatter, as of answers that come late */
	int n_connections, n_moving;
	bool netdev_down[2];        /* of a, of b */
	uint32_t worst[TCP_FAULTS]; /* the connection that shows it */
	bool is[TCP_FAULTS];        /* in this round */
	/* kept */
	uint8_t bits[TCP_FAULTS];                  /* by round, newest lowest; of those that can show it */
	uint64_t round_ns[TCP_FAULTS][TCP_ROUNDS]; /* when those were */
	uint64_t since_ns[TCP_FAULTS];             /* 0: not so */
	uint64_t last_ns[TCP_FAULTS];
	struct tcp_traffic traffic[TCP_FAULTS][2]; /* on the netdevs of a and of b when it was last seen */
	int64_t lost_of[TCP_ROUNDS];               /* newest first */
	int n_lossy_queued, n_lossy_free; /* rounds of this loss with a queue in front of it, and without; and */
	bool lost_freely;                 /* once without, it is not for want of room */
	int n_stalled;                    /* rounds, without a break; */
	bool stalled_full[2];             /* in one of them others brought more to a, to b, than ever came */
	struct tcp_past past;
};

#define TCP_CHATTER_PER_S \
	65536                /* bytes: what hosts say to each other all the time fills no link of 0.1 Gb/s and more */
#define TCP_ADDRESSES_MAX 64 /* of this host's ranks: more are not known */

struct tcp_netdevs { /* what went over the netdevs of the ranks' addresses, in the samples that are kept */
	int n;
	struct tcp_netdev {
		const char *address; /* of a connection: good in the tick that took it */
		uint64_t sent, came, own_sent, own_came;
		double seconds;
	} at[TCP_ADDRESSES_MAX];
};

struct tcp_pairs {
	struct keyed_table table;
	struct tcp_netdevs netdevs;
	struct tcp_pair_of {
		uint64_t id, taken_ns;
		struct tcp_pair *pair;
	} * of; /* by the connection's index */
	uint32_t n_of;
	uint64_t rtt_best_us; /* of the quickest pair of the round; 0: nothing flowed between two hosts */
};

/* Takes what is new. 0 or -ENOMEM. */
int tcp_pairs_update(struct tcp_pairs *s, const struct model *m);
void tcp_pairs_free(struct tcp_pairs *s);
bool tcp_pair_is_local(const struct tcp_pair *p); /* within one host */
/* Lost in the newest rounds, what had come after all taken off. */
int64_t tcp_pair_lost(const struct tcp_pair *p);
void tcp_netdevs_take(struct tcp_netdevs *n, const struct model *m);
/* Of the netdev that has this address. */
struct tcp_traffic tcp_traffic_of(const struct tcp_netdevs *n, const char *address);

#endif
