/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_table.h - the connections of the ranks: which there are, and how each stands. Bounded: of processes with very
 * many open files the first are sampled, and of very many connections the first found. Reading it takes
 * long: for a thread of its own.
 */
#ifndef RANKTRACE_TCP_TABLE_H
#define RANKTRACE_TCP_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inspect/net/tcp_diag.h"

struct table_connection { /* its place in the list is its number */
	bool used;
	bool gone;    /* since the last sample: to be reported, then the place is free */
	bool emitted; /* of the sampler */
	bool fresh;   /* seen in the sample of hand */
	uint32_t tgid;
	int net, device; /* device -1: unknown */
	uint32_t inode;
	uint64_t netns;
	uint8_t family, state;
	struct inet_diag_sockid id;
	uint64_t counters[TCP_COUNTERS];
	bool device_known, device_up;
	char netdev[16]; /* "" unknown */
};

struct reader;
struct tcp_table;

int tcp_table_new(struct tcp_table **ret); /* 0 or -ENOMEM */
void tcp_table_free(struct tcp_table *t);
/* Before a scan, and not by its thread: the network namespaces of these processes, which the reader enters. */
void tcp_table_enter(struct tcp_table *t, struct reader *r, const uint32_t *tgids, size_t n);
/* Finds out which connections these processes have. 0 or -ENOMEM. */
int tcp_table_scan(struct tcp_table *t, const uint32_t *tgids, size_t n, bool *ret_changed);
/* Scans those known. Those that are gone are so marked, and their places free at the next call. */
void tcp_table_sample(struct tcp_table *t);
const struct table_connection *tcp_table_list(const struct tcp_table *t); /* TCP_CONNECTIONS_MAX of them */
struct table_connection *tcp_table_at(struct tcp_table *t, size_t i);
/* Connections that found no place at the last scan; processes whose files could not be listed; why a namespace could
 * not be entered. */
size_t tcp_table_left_out(const struct tcp_table *t);
size_t tcp_table_unlisted(const struct tcp_table *t);
int tcp_table_error(const struct tcp_table *t);

#endif
