/* SPDX-License-Identifier: Apache-2.0
 *
 * publisher.h - the process that speaks to the bus for an agent. What the tracer has to do with it is one send that
 * never waits: the network, TLS and a library of others are on the other side, without the tracer's rights.
 */
#ifndef RANKTRACE_CLUSTER_PUBLISHER_H
#define RANKTRACE_CLUSTER_PUBLISHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bus/bus.h"
#include "cluster/ask.h"
#include "cluster/settings.h"

struct publisher_frame { /* in front of a message on the way to it; with the host what the message is known by */
	uint64_t agent, sequence;
};

/* What comes back on that descriptor: what `ranktrace ctl` set, when it changed, and what the cluster asks for. */
struct agent_ask {
	uint64_t number;        /* the answer's */
	bool look;              /* what there is to see now; else the whole window */
	int64_t user;           /* nothing of another user's ranks; ASK_ANY_USER */
	char job[ASK_TEXT_MAX]; /* "": any */
};

enum word_kind { WORD_SETTINGS, WORD_ASK };
struct publisher_word {
	enum word_kind kind;
	union {
		struct agent_settings settings;
		struct agent_ask ask;
	};
};

/* In the place of a message, with agent 0 in its frame, and with the file's descriptor. */
struct publisher_file {
	uint64_t number;
	char host[ASK_TEXT_MAX], error[ASK_TEXT_MAX];
};

/* Forks it: early, while this process is small and has one thread. `token`: of the host. 0, or -errno with the message
 * in `error`: its library is not there, a file cannot be read. A server need not answer yet. *ret_fd: where frames go,
 * each with its message, in one send(); closed: it sends what it has, for two seconds, and ends. */
int publisher_start(const struct bus_cfg *cfg, const char *token, int *ret_fd, char *error, size_t error_size);

/* False: none, yet. */
bool publisher_hear(int fd, struct publisher_word *ret);
/* `file`: stays the caller's; -1: there is none, as `error` says; and where that is "" too, there is nothing to say. */
void publisher_answer(int fd, uint64_t number, const char *host, int file, const char *error);

/* What it does, until the other end of `fd` is closed. For tests: on any bus, in this process. */
struct spool;
void publisher_run(struct bus *b, const char *token, int fd, struct spool *s);
/* What that process gives up, for good. For tests: in a child of theirs. 0 or -errno. */
int publisher_confine(void);

#endif
