/* SPDX-License-Identifier: Apache-2.0
 *
 * windows.c - see windows.h. One wish at a time: the next one waits where it came from.
 */
#include "session/parts/windows.h"

#include <errno.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "flight/flight.h"
#include "inspect/discover/discover.h"

#define LOOK_NS 2500000000ull  /* for stacks to be read, and two samples more to be taken */
#define MORE_NS 1500000000ull  /* for stacks that are late: who asks waits 2.5 s behind the first host's answer */
#define SETTLE_NS 100000000ull /* what was emitted is in the window */
#define STACKS_MAX 16          /* ranks whose stacks are read */

static bool is_meant(const struct target_proc *p, const char *job)
{
	return p->status != TARGET_GONE && p->rank >= 0 && (!*job || target_proc_of_job(p, job));
}

/* NULL: it may be given. "": no process of theirs is meant. */
static const char *why_not(const struct window_wish *wish, const struct flight *flight, struct target_set *set)
{
	size_t n, n_meant = 0, n_others = 0;
	const struct target_proc *const *list = target_set_list(set, &n);

	for (size_t i = 0; i < n; i++) {
		bool own = wish->user == WINDOW_ANY_USER || list[i]->uid == wish->user;

		n_meant += own && is_meant(list[i], wish->job);
		n_others += !own && is_meant(list[i], "");
	}
	if (!n_meant)
		return "";
	if (n_others)
		return "ranks of other users run on this host too";
	return flight ? NULL : "its agent has no flight recorder (--flight=no)";
}

static void stacks_ask(const struct windows *w, struct target_set *set)
{
	size_t n, asked = 0;
	const struct target_proc *const *list = target_set_list(set, &n);

	for (size_t i = 0; w->stacks && i < n && asked < STACKS_MAX; i++)
		if (is_meant(list[i], w->wish.job) && !list[i]->is_child)
			asked += w->stacks_ask(w->stacks, list[i]->tgid);
}

/* Not before what is to be in it is read, within bounds. */
static bool is_due(struct windows *w, uint64_t now_ns)
{
	bool reading = w->wish.look && w->stacks && w->stacks_asked(w->stacks);

	if (reading)
		w->reading_ns = now_ns;
	if (now_ns < w->due_ns)
		return false;
	if (now_ns < w->due_ns + MORE_NS)
		return !w->reading_ns || now_ns >= w->reading_ns + SETTLE_NS;
	if (reading)
		log_info("not all stacks that the cluster asks for are read yet: the window is given without them");
	return true;
}

static void window_give(const struct windows *w, struct flight *flight, const struct model *m)
{
	int fd = memfd_create("ranktrace-window", MFD_CLOEXEC), err = fd < 0 ? -errno : 0;

	err = err ? err : flight_copy(flight, w->wish.look, m, fd);
	if (err)
		log_warn("the flight recorder's window, which the cluster asks for: %s", strerror(-err));
	else
		log_info("the flight recorder's window goes to the cluster, which asks for it");
	w->asker.given(w->asker.of, w->wish.number, m->host, err ? -1 : fd, err ? strerror(-err) : "");
	if (fd >= 0)
		close(fd);
}

static void wish_take(struct windows *w, struct flight *flight, struct target_set *set, const struct model *m,
		      uint64_t now_ns)
{
	const char *why = why_not(&w->wish, flight, set);

	w->due_ns = now_ns + (w->wish.look ? LOOK_NS : 0);
	w->reading_ns = 0;
	if (why) {
		w->asker.given(w->asker.of, w->wish.number, m->host, -1, why);
		w->wish.number = 0;
	} else if (w->wish.look) {
		stacks_ask(w, set);
	}
}

void windows_turn(struct windows *w, struct flight *flight, struct target_set *set, const struct model *m,
		  uint64_t now_ns)
{
	if (w->asker.wanted && !w->wish.number && w->asker.wanted(w->asker.of, &w->wish))
		wish_take(w, flight, set, m, now_ns);
	if (!w->wish.number || !is_due(w, now_ns))
		return;
	window_give(w, flight, m);
	w->wish.number = 0;
}
