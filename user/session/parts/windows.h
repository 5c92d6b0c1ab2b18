/* SPDX-License-Identifier: Apache-2.0
 *
 * windows.h - the flight recorder's window for who asks from elsewhere: whole, or its newest part behind a look at the
 * stacks of the ranks. Nothing of another user's ranks is given: a window holds all of a host.
 */
#ifndef RANKTRACE_SESSION_WINDOWS_H
#define RANKTRACE_SESSION_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

struct flight;
struct model;
struct session_stacks;
struct target_set;

#define WINDOW_ANY_USER (-1)

struct window_wish {
	uint64_t number;
	bool look;     /* stacks are read, and the newest part is given */
	int64_t user;  /* whose ranks may be in it; WINDOW_ANY_USER */
	char job[256]; /* a host without a process of it is not meant; "": any */
};

/* Who asks. `of` is theirs. */
struct window_asker {
	/* Asked at every turn: is a window wanted? NULL: never. */
	bool (*wanted)(void *of, struct window_wish *ret);
	/* What became of it: `fd`, closed behind the call; or -1 and why not, "" where no process here is meant. */
	void (*given)(void *of, uint64_t number, const char *host, int fd, const char *error);
	void *of;
};

struct windows {
	struct window_asker asker;
	struct session_stacks *stacks;                                    /* NULL: none are read */
	bool (*stacks_ask)(struct session_stacks *stacks, uint32_t tgid); /* false: not this one, there are too many */
	bool (*stacks_asked)(const struct session_stacks *stacks);        /* some are not emitted yet */
	struct window_wish wish;                                          /* number 0: none waits */
	uint64_t due_ns, reading_ns;                                      /* reading_ns: stacks were being read last */
};

/* Each turn. `flight` NULL: there is none. */
void windows_turn(struct windows *w, struct flight *flight, struct target_set *set, const struct model *m,
		  uint64_t now_ns);

#endif
