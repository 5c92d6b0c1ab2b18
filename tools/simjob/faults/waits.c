// SPDX-License-Identifier: Apache-2.0
/*
 * A rank waits for somebody or something that is not of NCCL: an object store's answer at a checkpoint, its data
 * worker, a lock that another of its threads holds, time, the other end of a FIFO. It ends by itself; a tracer that
 * looks at it meanwhile has to say what it waits for.
 */
#include "tools/simjob/faults/faults.h"

#include "tools/simjob/faults/object_store.h"
#include "tools/simjob/job/injection.h"
#include "tools/simjob/job/rank.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

/* In the order of the words of what=. */
enum waits_what { WHAT_STORE, WHAT_WORKER, WHAT_MUTEX, WHAT_TIMER, WHAT_FIFO };

static uint64_t delay_of(const struct injection *injection)
{
	return (uint64_t)(injection->duration_s * NSEC_PER_SEC);
}

static void nap(uint64_t ns)
{
	struct timespec left = { ns / NSEC_PER_SEC, ns % NSEC_PER_SEC };

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

static void begin(struct rank *rank, const struct injection *injection, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void begin(struct rank *rank, const struct injection *injection, const char *format, ...)
{
	char facts[512];
	va_list args;

	va_start(args, format);
	vsnprintf(facts, sizeof(facts), format, args);
	va_end(args);
	injection_report_with(rank, injection, "begin", facts);
}

static void store_await(struct rank *rank, const struct injection *injection)
{
	struct object_store store = object_store_ask(delay_of(injection), NULL);

	begin(rank, injection, ",\"what\":\"store\",\"peer\":\"127.0.0.1:%d\",\"peer_pid\":%d", store.port, store.pid);
	object_store_await(&store);
}

struct locked {
	pthread_mutex_t mutex;
	_Atomic int tid; /* of the thread that has it */
	uint64_t delay_ns;
};

static void *lock_hold(void *arg)
{
	struct locked *locked = arg;

	prctl(PR_SET_NAME, "pt_ckpt_writer");
	pthread_mutex_lock(&locked->mutex);
	atomic_store(&locked->tid, (int)syscall(SYS_gettid));
	nap(locked->delay_ns);
	pthread_mutex_unlock(&locked->mutex);
	return NULL;
}

static void mutex_await(struct rank *rank, const struct injection *injection)
{
	struct locked locked = { .mutex = PTHREAD_MUTEX_INITIALIZER, .delay_ns = delay_of(injection) };
	pthread_t thread;

	if (pthread_create(&thread, NULL, lock_hold, &locked)) {
		fprintf(stderr, "simjob: rank %d: cannot start a thread\n", rank->rank);
		exit(1);
	}
	while (!atomic_load(&locked.tid))
		nap(NSEC_PER_MSEC);
	begin(rank, injection, ",\"what\":\"mutex\",\"tid\":%d", locked.tid);
	pthread_mutex_lock(&locked.mutex);
	pthread_mutex_unlock(&locked.mutex);
	pthread_join(thread, NULL);
}

static void timer_await(struct rank *rank, const struct injection *injection)
{
	begin(rank, injection, ",\"what\":\"timer\"");
	nap(delay_of(injection));
}

/* The writer is the object store's process: a stranger, as a logger or a sidecar is. */
static void fifo_await(struct rank *rank, const struct injection *injection)
{
	const char *dir = rank->options->scratch_dir ? rank->options->scratch_dir : "/tmp";
	struct object_store store;
	char path[200], byte;
	int fd;

	snprintf(path, sizeof(path), "%s/simjob-%d.fifo", dir, rank->pid);
	if (mkfifo(path, 0600)) {
		fprintf(stderr, "simjob: rank %d cannot make %s: %s; choose another --scratch\n", rank->rank, path,
			strerror(errno));
		exit(1);
	}
	store = object_store_ask(delay_of(injection), path);
	fd = open(path, O_RDONLY | O_CLOEXEC); /* both are there when it returns */
	begin(rank, injection, ",\"what\":\"fifo\",\"path\":\"%s\",\"peer_pid\":%d", path, store.pid);
	if (fd < 0 || read(fd, &byte, 1) != 1)
		perror("simjob: cannot read the FIFO");
	close(fd);
	close(store.fd);
	unlink(path);
}

static void strike(struct rank *rank, const struct injection *injection, const struct op_place *place)
{
	static void (*const awaits[])(struct rank * rank, const struct injection *injection) = {
		[WHAT_STORE] = store_await,
		[WHAT_MUTEX] = mutex_await,
		[WHAT_TIMER] = timer_await,
		[WHAT_FIFO] = fifo_await,
	};

	(void)place;
	if (injection->what == WHAT_WORKER)
		return;
	awaits[injection->what](rank, injection);
	injection_report(rank, injection, "end", NULL);
}

/* In the child: its rank waits for the batch. */
static void worker_delay(struct rank *rank, const struct injection *injection)
{
	struct injection_state *state = injection_state(rank, injection);

	if (injection->what != WHAT_WORKER || injection->rank != rank->rank || rank->step < injection->step ||
	    state->done)
		return;
	state->done = true;
	begin(rank, injection, ",\"what\":\"worker\"");
	nap(delay_of(injection));
	injection_report(rank, injection, "end", NULL);
}

static int check(const struct options *options, const struct injection *injection, struct reason *reason)
{
	if (injection->what == WHAT_WORKER && !options->dataloader)
		return refuse(reason, "there is no dataloader child; leave --no-dataloader out");
	if ((injection->what == WHAT_STORE || injection->what == WHAT_FIFO) && options->netns)
		return refuse(reason, "the object store is on the launcher's loopback; leave --netns out");
	return 0;
}

static void complete(struct injection *injection)
{
	if (injection->what == WHAT_STORE || injection->what == WHAT_FIFO)
		injection->resource = &resource_object_store;
}

const struct fault fault_waits = {
	.keys = PLACE_KEYS | KEY_SEC | KEY_WHAT,
	.required = KEY_WHAT,
	.what = WORDS("store", "worker", "mutex", "timer", "fifo"),
	.default_s = 8,
	.complete = complete,
	.check = check,
	.strike = strike,
	.before_batch = worker_delay,
};
