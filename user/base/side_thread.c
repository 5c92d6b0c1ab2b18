/* SPDX-License-Identifier: Apache-2.0
 *
 * side_thread.c - see side_thread.h.
 */
#include "base/side_thread.h"

#include <signal.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"

#define SEC 1000000000ull
#define END_TIMEOUT_NS SEC /* at the end: timeout for work that does not return */

static void *thread_run(void *arg)
{
	struct side_thread *t = arg;

	pthread_setname_np(pthread_self(), t->name);
	pthread_mutex_lock(&t->lock);
	while (!t->quit) {
		if (t->step != SIDE_ASKED) {
			pthread_cond_wait(&t->changed, &t->lock);
			continue;
		}
		pthread_mutex_unlock(&t->lock);
		t->work(t->of);
		pthread_mutex_lock(&t->lock);
		t->step = SIDE_DONE;
		pthread_cond_signal(&t->changed); /* side_thread_wait() */
	}
	t->over = true;
	pthread_cond_signal(&t->changed);
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

int side_thread_start(struct side_thread *t, const char *name, void (*work)(void *of), void *of)
{
	sigset_t all, before;
	int err;

	t->name = name;
	t->work = work;
	t->of = of;
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->changed, NULL);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* signals belong to the main thread */
	err = pthread_create(&t->thread, NULL, thread_run, t);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -err;
}

enum side_step side_thread_step(struct side_thread *t)
{
	enum side_step step;

	pthread_mutex_lock(&t->lock);
	step = t->step;
	pthread_mutex_unlock(&t->lock);
	return step;
}

void side_thread_set(struct side_thread *t, enum side_step step)
{
	pthread_mutex_lock(&t->lock);
	if (step == SIDE_ASKED)
		t->asked_ns = clock_monotonic_ns();
	t->step = step;
	pthread_cond_signal(&t->changed);
	pthread_mutex_unlock(&t->lock);
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){ .tv_sec = ns / SEC, .tv_nsec = ns % SEC };
}

/* By the clock that no one sets. */
enum side_step side_thread_wait(struct side_thread *t, uint64_t ns)
{
	struct timespec until = timespec_of(clock_monotonic_ns() + ns);
	enum side_step step;
	int err = 0;

	pthread_mutex_lock(&t->lock);
	while (t->step == SIDE_ASKED && !err)
		err = pthread_cond_clockwait(&t->changed, &t->lock, CLOCK_MONOTONIC, &until);
	step = t->step;
	pthread_mutex_unlock(&t->lock);
	return step;
}

/* A thread cannot be ended in a call that does not return; it shares no lock with the collector while it is in one. */
static void lateness_say(struct side_thread *t, bool at_work)
{
	uint64_t since_ns = clock_monotonic_ns() - t->asked_ns;

	if (at_work && !t->late && since_ns > (t->limit_ns ? t->limit_ns : SIDE_LIMIT_NS)) {
		log_warn("%s does not answer for %.0f s: what it reads is not known until it does", t->name,
			 since_ns / 1e9);
		t->late = true;
	} else if (!at_work && t->late) {
		log_warn("%s answers again, after %.0f s", t->name, since_ns / 1e9);
		t->late = false;
	}
}

int side_thread_take(struct side_thread *t, int (*take)(void *of, uint64_t now_ns), uint64_t now_ns)
{
	enum side_step step = side_thread_step(t);
	int err = 0;

	if (step != SIDE_IDLE)
		lateness_say(t, step == SIDE_ASKED);
	if (step == SIDE_ASKED)
		return 1;
	if (step == SIDE_DONE) {
		err = take(t->of, now_ns);
		side_thread_set(t, SIDE_IDLE);
	}
	return err;
}

bool side_thread_overdue(struct side_thread *t, uint64_t limit_ns)
{
	return side_thread_step(t) == SIDE_ASKED && clock_monotonic_ns() - t->asked_ns > limit_ns;
}

bool side_thread_end(struct side_thread *t)
{
	struct timespec until = timespec_of(clock_monotonic_ns() + (t->late ? 0 : END_TIMEOUT_NS));
	bool over;
	int err = 0;

	pthread_mutex_lock(&t->lock);
	t->quit = true;
	pthread_cond_signal(&t->changed);
	while (!t->over && !err)
		err = pthread_cond_clockwait(&t->changed, &t->lock, CLOCK_MONOTONIC, &until);
	over = t->over;
	pthread_mutex_unlock(&t->lock);
	if (!over) {
		pthread_detach(t->thread); /* its stack goes with it, should it ever come back */
		return false;
	}
	pthread_join(t->thread, NULL);
	pthread_mutex_destroy(&t->lock);
	pthread_cond_destroy(&t->changed);
	return true;
}

uint64_t side_thread_cpu_ns(void)
{
	struct timespec t = { 0 };

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * SEC + t.tv_nsec;
}
