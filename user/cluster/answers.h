/* SPDX-License-Identifier: Apache-2.0
 *
 * answers.h - questions of the cluster on their way to the tracer, and its files on their way to the bus. Private to
 * the process that publishes. A question that comes again (who asks repeats it, as nothing keeps it) is passed on once.
 */
#ifndef RANKTRACE_CLUSTER_ANSWERS_H
#define RANKTRACE_CLUSTER_ANSWERS_H

#include "bus/bus.h"
#include "cluster/file_fetch.h"
#include "cluster/publisher.h"

#define ANSWERS_MAX 8   /* questions without an answer yet; more are passed over, and asked again */
#define ANSWERS_SEEN 64 /* ids that are known again */

#define ANSWER_LIMIT_NS 120000000000ull /* for an answer to be made, and for the bus to take it */

struct asked { /* number 0: free */
	uint64_t number, at_ns;
	struct ask ask;
	char reply[BUS_REPLY_MAX];
	int fd; /* its file, once it is made; -1 */
	bool made;
	struct file_head head;
	uint32_t sent; /* pieces */
};

struct answers {
	struct bus_cursor *questions;
	struct asked all[ANSWERS_MAX];
	uint64_t n_asked;
	char seen[ANSWERS_SEEN][ASK_TEXT_MAX];
	size_t n_seen;
};

void answers_init(struct answers *a);
void answers_free(struct answers *a, struct bus *b);
/* New questions of this host: to the tracer, by `fd`. */
void answers_hear(struct answers *a, struct bus *b, const char *host_token, int fd);
/* The tracer's: takes `file` (-1: none, note->error says why). */
void answers_take(struct answers *a, const struct publisher_file *note, int file);
/* Puts one piece. True: there is more, now. */
bool answers_put(struct answers *a, struct bus *b, const char *host_token);

#endif
