/* SPDX-License-Identifier: Apache-2.0
 *
 * hurry.c - see hurry.h. Round robin, so that whatever else has this priority has its turn too.
 */
#include "session/parts/hurry.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/confine.h"
#include "base/log.h"
#include "inspect/reader/hurried.h"

#define LOOK_NS 50000000ull
#define STARVED_NS 100000000ull   /* past its period */
#define SPAN_NS 200000000ull      /* of which it waited half for a CPU, and ran a quarter of that at most */
#define AHEAD_NS 5000000000ull    /* at least, once it had to wait */
#define TRIED_NS 1000000000ull    /* by then it helps */
#define USELESS_NS 30000000000ull /* until it is tried again where it did not */
#define WINDOW_NS 1000000000ull
#define WINDOW_CPU_NS 500000000ull /* of it, before others: they want the CPU too */

static void ahead_set(struct hurry *h, bool ahead)
{
	if (ahead != h->is_ahead && !hurried_set(h->tid, ahead))
		h->is_ahead = ahead;
}

/* What it used of the window that began at *begin_ns, or of a new one. */
static bool used_much(const struct hurry *h, uint64_t now_ns, uint64_t *begin_ns, uint64_t *begin_cpu_ns)
{
	struct timespec t = { 0 };

	clock_gettime(h->loop_clock, &t);
	uint64_t cpu_ns = t.tv_sec * 1000000000ull + t.tv_nsec;

	if (now_ns - *begin_ns >= WINDOW_NS) {
		*begin_ns = now_ns;
		*begin_cpu_ns = cpu_ns;
	}
	return cpu_ns - *begin_cpu_ns > WINDOW_CPU_NS;
}

/* What the loop did of a span of time. */
struct share {
	int fd;
	uint64_t begin_ns, ran_ns, waited_ns;
};

static void share_open(struct share *s, pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", tid);
	s->fd = open(path, O_RDONLY | O_CLOEXEC);
}

/* Each of its turns came in time and was cut short: late by its share, not by its period. A kernel without
 * CONFIG_SCHED_INFO does not count it. */
static bool share_is_small(struct share *s, uint64_t now_ns, uint64_t span_ns)
{
	uint64_t ran_ns, waited_ns;
	struct share before = *s;
	char text[96] = "";

	if (s->fd < 0 || now_ns - s->begin_ns < span_ns || pread(s->fd, text, sizeof(text) - 1, 0) <= 0 ||
	    sscanf(text, "%" SCNu64 " %" SCNu64, &ran_ns, &waited_ns) != 2)
		return false;
	*s = (struct share){ s->fd, now_ns, ran_ns, waited_ns };
	waited_ns -= before.waited_ns;
	return before.begin_ns && 2 * waited_ns >= now_ns - before.begin_ns &&
	       4 * (ran_ns - before.ran_ns) <= waited_ns;
}

/* A kernel that shares out real-time too (CONFIG_RT_GROUP_SCHED) may give the cgroup next to none: then the loop has
 * less of a CPU with this priority than without. `tried`: since it has it. */
static bool is_useless(struct share *tried, bool is_ahead, uint64_t now_ns)
{
	if (!is_ahead)
		tried->begin_ns = 0;
	return is_ahead && share_is_small(tried, now_ns, TRIED_NS);
}

static void *look(void *arg)
{
	const struct timespec pause = { .tv_nsec = LOOK_NS };
	struct hurry *h = arg;
	struct share share = { 0 }, tried;
	uint64_t until_ns = 0, useless_ns = 0, begin_ns = 0, begin_cpu_ns = 0;

	if (hurried_above() || confine_hurry())
		return NULL;
	share_open(&share, h->tid);
	tried = share;
	if (confine_hurry_calls())
		log_detail("no filter of system calls is allowed here: a thread goes on without its own");
	while (!h->quit) {
		uint64_t beat_ns = h->beat_ns, now_ns = clock_monotonic_ns();
		bool late = beat_ns && now_ns > beat_ns + h->period_ns + STARVED_NS;

		if (share_is_small(&share, now_ns, SPAN_NS) || late)
			until_ns = now_ns + AHEAD_NS;
		if (is_useless(&tried, h->is_ahead, now_ns))
			useless_ns = now_ns + USELESS_NS;
		ahead_set(h,
			  now_ns < until_ns && now_ns >= useless_ns && !used_much(h, now_ns, &begin_ns, &begin_cpu_ns));
		nanosleep(&pause, NULL);
	}
	if (share.fd >= 0)
		close(share.fd);
	return NULL;
}

/* Signals belong to the loop. */
void hurry_open(struct hurry *h, uint64_t period_ns)
{
	sigset_t all, before;

	h->tid = gettid();
	if (pthread_getcpuclockid(pthread_self(), &h->loop_clock))
		return;
	h->period_ns = period_ns;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	h->is_on = !pthread_create(&h->thread, NULL, look, h);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void hurry_close(struct hurry *h)
{
	if (!h->is_on)
		return;
	h->quit = true;
	pthread_join(h->thread, NULL);
	ahead_set(h, false);
	h->is_on = false;
}

void hurry_beat(struct hurry *h, uint64_t now_ns)
{
	h->beat_ns = now_ns;
}

bool hurry_changed(struct hurry *h, bool *ret_is_ahead)
{
	bool ahead = h->is_ahead, changed = ahead != h->was_ahead;

	*ret_is_ahead = h->was_ahead = ahead;
	if (ahead && !h->said) {
		log_detail("this host has more to run than CPUs for it, and ranktrace did not get its turn in time: "
			   "for %.0f s it goes before other work, as it will where that happens again",
			   AHEAD_NS / 1e9);
		h->said = true;
	}
	return changed;
}
