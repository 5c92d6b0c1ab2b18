/* SPDX-License-Identifier: Apache-2.0
 *
 * run.h - the loop of `top`: keys, records, time; each change is drawn.
 */
#ifndef RANKTRACE_TOP_RUN_H
#define RANKTRACE_TOP_RUN_H

#include "top/feed.h"
#include "top/live.h"
#include "top/view.h"

struct top_run {               /* zeroed at first, but for what is given */
	struct top_feed feed;  /* of top_feed_open(), and the caller's to free */
	struct top_live *live; /* NULL: no session of this host */
	int stream_fd;         /* live, or standard input: records come here; -1: a file */
	int ack_fd;            /* lines "finding id" for `ranktrace notify`; -1: none runs */
	const char *ack_dir;   /* where one would be */
	struct top_source source;
	/* its own */
	struct top_view view;
	struct top_table table;
	int rows, cols; /* of the screen, as drawn last */
	char *messages;
	size_t messages_len;
	char message[256];
	uint64_t message_ns, played_ns, answered_ns; /* on this machine's clock */
	bool asked;                                  /* the session, which has not answered yet */
	uint64_t play_at_ns, play_shown_ns; /* on the recording's: how far it was played, the newest record of that */
	bool held;                          /* of a stream: the picture stays */
};

/* Until the user quits. The screen is open. 0 or -errno. */
int top_run(struct top_run *r);
void top_run_free(struct top_run *r);
/* The table once as text, `cols` wide, each row; to standard output. 0 or -errno. */
int top_print(struct top_run *r, int cols);
/* Takes what the session says, if it says something. */
void top_messages_take(struct top_run *r);

#endif
