/* SPDX-License-Identifier: Apache-2.0
 *
 * run.h - the loop of `top`: keys, records, time; each change is drawn.
 */
#ifndef RANKTRACE_TOP_RUN_H
#define RANKTRACE_TOP_RUN_H

#include "top/feed.h"
#include "top/live.h"
#include "top/origin.h"
#include "top/view.h"

struct top_run { /* zeroed at first, but for what is given */
	struct top_origin origin;
	struct top_feed *file;   /* a recording, which is the origin and can go to any time; NULL none */
	struct top_child *child; /* whose messages are shown; NULL none */
	int stream_fd;           /* where more comes; -1: a file */
	/* What a key asks of a session, where there is none to ask: why not, or what to do; by enum session_wish. All
	 * NULL: the child is a session. */
	const char *refusals[SESSION_DUMP + 1];
	/* Somebody has that finding in hand; `answer` says what became of it: "", the child will. */
	void (*acknowledge)(void *of, const char *id, char *answer, size_t size);
	void *acknowledge_of;
	struct top_source source;
	/* its own */
	struct top_view view;
	struct top_table table;
	int rows, cols; /* of the screen, as drawn last */
	char *messages;
	size_t messages_len;
	char message[256];
	uint64_t message_ns, played_ns, answered_ns; /* on this machine's clock */
	bool asked;                                  /* the child, which has not answered yet */
	uint64_t play_at_ns, play_shown_ns; /* on the recording's: how far it was played, the newest record of that */
	bool held;                          /* of a stream: the picture stays */
	bool silent;                        /* the child has ended: it says nothing any more */
};

/* Until the user quits. The screen is open. 0 or -errno. */
int top_run(struct top_run *r);
void top_run_free(struct top_run *r);
/* The table once as text, `cols` wide, each row; to standard output. 0 or -errno. */
int top_print(struct top_run *r, int cols);
/* Takes what the child says, if it says something. */
void top_messages_take(struct top_run *r);

#endif
