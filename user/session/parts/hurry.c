/* SPDX-License-Identifier: Apache-2.0
 *
 * hurry.c - see hurry.h. Round robin, so that whatever else has this priority has its turn too.
 */
#include "session/parts/hurry.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "inspect/reader/hurried.h"

#define LOOK_NS 50000000ull
#define STARVED_NS 100000000ull /* past its period */
#define AHEAD_NS 5000000000ull  /* at least, once it had to wait */
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

static void *look(void *arg)
{
	const struct timespec pause = { .tv_nsec = LOOK_NS };
	struct hurry *h = arg;
	uint64_t until_ns = 0, begin_ns = 0, begin_cpu_ns = 0;

	if (hurried_set(0, true))
		return NULL;
	while (!h->quit) {
		uint64_t beat_ns = h->beat_ns, now_ns = clock_monotonic_ns();

		if (now_ns > beat_ns + h->period_ns + STARVED_NS)
			until_ns = now_ns + AHEAD_NS;
		ahead_set(h, now_ns < until_ns && !used_much(h, now_ns, &begin_ns, &begin_cpu_ns));
		nanosleep(&pause, NULL);
	}
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
	h->beat_ns = clock_monotonic_ns();
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
