/* SPDX-License-Identifier: Apache-2.0
 *
 * view.h - what the user of `top` looks at: page, order, filter, selection; keys change it, draw.c shows it. What takes
 * more than that (a seek, a request to the session) is returned for the command to do. Pure.
 */
#ifndef RANKTRACE_TOP_VIEW_H
#define RANKTRACE_TOP_VIEW_H

#include "sink/text.h"
#include "top/order.h"

#define TOP_FILTER_MAX 48
#define TOP_NAME_MAX 160

/* Keys that are no characters. */
enum top_key {
	TOP_KEY_UP = 0x1000,
	TOP_KEY_DOWN,
	TOP_KEY_LEFT,
	TOP_KEY_RIGHT,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_ENTER,
	TOP_KEY_BACK,
	TOP_KEY_ESCAPE,
};

enum top_page { TOP_RANKS, TOP_FINDINGS, TOP_GPUS, TOP_MESSAGES, TOP_HELP, TOP_RANK, TOP_FINDING };

enum top_want {
	TOP_WANT_NOTHING,
	TOP_WANT_QUIT,
	TOP_WANT_SEEK, /* to view.seek_ns */
	TOP_WANT_PLAY, /* or to stop playing */
	TOP_WANT_RAISE,
	TOP_WANT_STACKS,
	TOP_WANT_DUMP,
	TOP_WANT_ACKNOWLEDGE, /* view.incident */
};

struct top_source {          /* where the table comes from, for people */
	const char *name;    /* "this node", "run.rtr" */
	const char *tier;    /* of a live session; NULL: not known */
	bool seekable;       /* its begin, end and findings are known */
	bool takes_requests; /* of stacks: a session of this node */
	bool ended, playing; /* no more records come; time goes on by itself */
	uint64_t begin_ns, end_ns;
	const uint64_t *opened_ns; /* when findings opened, in order */
	size_t n_opened;
	const char *message;  /* the newest of the session, or an answer to a key; "" none */
	const char *messages; /* all, a line each */
};

struct top_view {
	enum top_page page, from; /* from: the page that a rank's or a finding's was opened on */
	struct top_choice choice; /* its texts lie in the members below */
	enum top_grouping grouping;
	bool grouping_set;       /* by the user: else by the number of ranks */
	enum top_grouping level; /* what a row is now, of that or below */
	char filter[TOP_FILTER_MAX], job[TOP_NAME_MAX], host[TOP_NAME_MAX];
	bool typing; /* of the filter */
	size_t cursor, scroll, n_lines;
	size_t list_cursor, list_scroll; /* of the page below */
	size_t group_cursor[2];          /* of hosts, of jobs: where one of them was opened */
	uint64_t proc;                   /* that is selected, or open; 0 none */
	int rank;
	bool follows; /* the selection stays with its rank, wherever that is sorted to */
	char incident[FINDING_ID_MAX];
	uint64_t seek_ns;
	bool seeks; /* and it was not done yet: the next key counts from there; the caller clears it */
	/* what is shown: top_view_turn() */
	size_t n_rows, n_groups;
	struct top_group *groups; /* NULL: rows */
	struct text text;         /* of a page that is one */
};

void top_view_init(struct top_view *v);
void top_view_free(struct top_view *v);
/* After the table was made, or a key changed the view: what is to be shown of it. `lines`: how many fit; `cols`: how
 * long they may be. */
void top_view_turn(struct top_view *v, struct top_table *t, const struct top_source *s, size_t lines, int cols);
/* A key: a character or enum top_key. */
enum top_want top_view_key(struct top_view *v, int key, const struct top_table *t, const struct top_source *s);
/* The row under the cursor, or whose page is open; NULL none. */
const struct top_row *top_view_row(const struct top_view *v, const struct top_table *t);
/* The finding under the cursor, open as a page, or the gravest of that row; NULL none. */
const struct top_found *top_view_found(const struct top_view *v, const struct top_table *t);

#endif
