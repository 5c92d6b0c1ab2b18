/* SPDX-License-Identifier: Apache-2.0
 *
 * feed.h - records that `top` looks at, in a pipeline of its own: a file, in which it can go to any time, or a stream
 * that goes on (a session's, standard input). To go back is to read again from the begin: exact, whatever is shown.
 */
#ifndef RANKTRACE_TOP_FEED_H
#define RANKTRACE_TOP_FEED_H

#include "pipeline/pipeline.h"
#include "recording/recording.h"
#include "top/origin.h"

struct top_feed { /* zeroed at first */
	struct recording_reader *reader;
	struct pipeline *p;
	uint64_t begin_ns, end_ns; /* of what was read so far; of a file, once it is indexed, of all of it */
	uint64_t *opened_ns;       /* when findings opened that are a warning or worse, in order */
	size_t n_opened, opened_cap;
	bool indexing;               /* their times are kept */
	const struct wire_hdr *held; /* read, and behind the time that was asked for */
	bool ended, torn;
	struct top_part part;
};

/* Takes the reader. 0 or -ENOMEM. */
int top_feed_open(struct top_feed *f, struct recording_reader *r);
void top_feed_free(struct top_feed *f);
/* A file: to its end, noting begin, end and findings. 0 or -errno. */
int top_feed_index(struct top_feed *f);
/* A file: the moment `ns`, all records until then and none behind. 0 or -errno. */
int top_feed_seek(struct top_feed *f, uint64_t ns);
/* A stream that has something to read: what is there, for some time at most; f->ended: no more comes. 0 or -errno. */
int top_feed_take(struct top_feed *f);
/* Borrows it. */
struct top_origin top_feed_origin(struct top_feed *f);

#endif
