/* SPDX-License-Identifier: Apache-2.0
 *
 * hosts.h - the hosts that report: which of their messages is new, when that was on the hub's axis of time, and who has
 * fallen silent. Pure: times are given.
 */
#ifndef RANKTRACE_HUB_HOSTS_H
#define RANKTRACE_HUB_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "bus/bus.h"

#define HOSTS_SILENT_NS 5000000000ull /* five reports */
#define HOST_BOOTS_KEPT 4

struct host_clock { /* from the host's clock to the hub's axis: the least (stored - made) of two halves of a window */
	int64_t least_ns, before_ns;
	uint64_t half_ns; /* the present half began then; 0: no message yet */
};

struct host {
	uint32_t number; /* event.node, from 1: 0 is the hub's own */
	char token[BUS_TOKEN_MAX];
	char *name, *boot_id;
	char *old_boots[HOST_BOOTS_KEPT]; /* what comes from these is old */
	int n_old_boots;
	uint64_t agent, sequence; /* of the newest message */
	struct host_clock clock;
	uint64_t at_ns;     /* when that one was made, on the hub's axis */
	uint64_t n_missing; /* numbers that never came */
	bool paused;        /* its agent samples nothing: what it says of ranks is old */
	UT_hash_handle hh;
};

struct hosts {            /* zeroed at first */
	struct host *all; /* by name; in order of appearance through hh.next */
	size_t n;
};

void hosts_free(struct hosts *h);

enum host_message { HOST_NEW, HOST_REPEATED, HOST_FORGED /* of a name that is not the subject's */, HOST_NO_MEMORY };

struct host_message_id {
	const char *token, *name, *boot_id;
	uint64_t agent, sequence;
	uint64_t made_ns;   /* on the host's clock */
	uint64_t stored_ns; /* on the hub's axis */
};

/* *ret: the host that it came from; HOST_NEW alone. */
enum host_message hosts_take(struct hosts *h, const struct host_message_id *id, struct host **ret);

/* What hosts_take() would say, but for memory; `stored_ns` is not read. */
enum host_message hosts_look(const struct hosts *h, const struct host_message_id *id);

/* It is of another boot than the host's newest message: taken, it changes host_time(). */
bool hosts_boots(const struct hosts *h, const struct host_message_id *id);

/* What is known of their clocks was learned from wrong times on the hub's axis. */
void hosts_clocks_forget(struct hosts *h);

/* A time of the host's clock on the hub's axis; never behind that of its newest message. */
uint64_t host_time(const struct host *h, uint64_t ns);

#endif
