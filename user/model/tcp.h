/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp.h - the ranks' TCP connections as the model knows them: between whom, and their newest samples. Included by
 * model.h.
 */
#ifndef RANKTRACE_MODEL_TCP_H
#define RANKTRACE_MODEL_TCP_H

#include "event.h"

#define TCP_SAMPLES_KEPT 6 /* of all; one a second */

enum { TCP_STATE_ESTABLISHED = 1, TCP_STATE_SYN_SENT = 2 };

struct tcp_sample {
	uint64_t ts_ns; /* reported; `now` has when it was read */
	struct tcp_status now;
	uint64_t counters[TCP_COUNTERS]; /* TCP_NO_VALUE */
};

struct tcp_connection {
	uint32_t index; /* its place in `at`: of all hosts' connections; given again */
	uint64_t proc;  /* proc_key() of who has it open */
	uint64_t id;    /* differs from that of all others, also of earlier ones with this index */
	uint64_t netns;
	const char *local, *remote, *netdev; /* addresses as text; netdev "" unknown */
	uint16_t local_port, remote_port;
	const struct tcp_connection
		*peer; /* its other end, where a rank that is watched here has it; NULL: not, or several could be it */
	struct tcp_sample samples[TCP_SAMPLES_KEPT]; /* ring */
	uint64_t n_samples;
	struct tcp_connection *next_same; /* private: between the same two ends, seen from the same side */
};

struct tcp_connections { /* of all hosts: the two ends of one are seldom on the same */
	struct tcp_connection **at;
	uint32_t n, cap;       /* n: past the last */
	uint32_t full;         /* private: below it no place is free that other hosts' connections may have */
	struct tcp_ends *ends; /* private: which connections are between two ends */
	uint64_t n_ever;
};

struct tcp_places {                       /* of a node: where its connections stand among all, by its own numbers */
	uint32_t at[TCP_CONNECTIONS_MAX]; /* 1 + place; 0 none */
};

struct model;

/* The i-th newest sample, 0 the last one; NULL: not that many are kept. */
static inline const struct tcp_sample *tcp_sample_at(const struct tcp_connection *c, uint64_t i)
{
	return i < c->n_samples && i < TCP_SAMPLES_KEPT ? &c->samples[(c->n_samples - 1 - i) % TCP_SAMPLES_KEPT] : NULL;
}

/* By its place; NULL none. */
const struct tcp_connection *tcp_connection_at(const struct model *m, uint32_t place);
/* By its host and that one's number of it; NULL none. */
const struct tcp_connection *tcp_connection_of(const struct model *m, uint32_t node, uint32_t index);
/* What a counter grew by; 0 where one of the two was not known, and where it went back. */
uint64_t tcp_grown(const struct tcp_sample *now, const struct tcp_sample *before, enum tcp_counter counter);
/* As of a sample; `unknown` where it was not known. */
uint64_t tcp_value(const struct tcp_sample *l, enum tcp_counter counter, uint64_t unknown);

/* For model.c. 0, -ENOMEM, -EINVAL. */
int tcp_apply(struct model *m, const struct event *e);
void tcp_free(struct model *m);

#endif
