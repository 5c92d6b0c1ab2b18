/* SPDX-License-Identifier: Apache-2.0
 *
 * detach.c - see detach.h. One thread per batch: grace periods overlap, so all batches end together.
 */
#include "attach/detach.h"

#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define LEFT_POLL_US 250000

struct batch {
	pthread_t thread;
	struct bpf_link **links;
	int n;
	struct detach_of of;
	struct batch *next;
};

struct detacher {
	bool (*may_close)(void *to, uint32_t lib_id);
	void *to;
	struct batch *batches; /* batches that are being closed */
	struct batch *waiting;
	bool left; /* this is the process left behind by the collector */
};

struct detacher *detacher_new(bool (*may_close)(void *to, uint32_t lib_id), void *to)
{
	struct detacher *d = calloc(1, sizeof(*d));

	if (d)
		*d = (struct detacher){ .may_close = may_close, .to = to };
	return d;
}

/* Close the last attached links first, which are entries. A grace period passes between two closes, so calls whose
 * begin was seen in it still have their end seen. */
static void *batch_close(void *arg)
{
	struct batch *b = arg;

	for (int i = b->n - 1; i >= 0; i--)
		bpf_link__destroy(b->links[i]);
	free(b->links);
	return NULL;
}

/* libbpf would also close other files of the link by number, and those numbers may belong to something else by now. */
static void *batch_close_left(void *arg)
{
	struct batch *b = arg;

	for (int i = b->n - 1; i >= 0; i--)
		close(bpf_link__fd(b->links[i]));
	return NULL;
}

/* Signals belong to the loop's signalfd, so the thread inherits a full mask. */
static int thread_start(struct detacher *d, struct batch *b)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&b->thread, NULL, d->left ? batch_close_left : batch_close, b);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

static void finished_join(struct detacher *d)
{
	struct batch **at = &d->batches, *b;

	while ((b = *at)) {
		if (pthread_tryjoin_np(b->thread, NULL)) {
			at = &b->next;
			continue;
		}
		*at = b->next;
		free(b);
	}
}

static void all_join(struct detacher *d)
{
	struct batch *b;

	while ((b = d->batches)) {
		d->batches = b->next;
		pthread_join(b->thread, NULL);
		free(b);
	}
}

/* Takes ownership of the batch. */
static void batch_start(struct detacher *d, struct batch *b)
{
	if (!thread_start(d, b)) {
		b->next = d->batches;
		d->batches = b;
		return;
	}
	(d->left ? batch_close_left : batch_close)(b);
	free(b);
}

void detacher_close(struct detacher *d, struct bpf_link **links, int n, const struct detach_of *of)
{
	struct batch *b = calloc(1, sizeof(*b)), here = { .links = links, .n = n, .of = *of };

	finished_join(d);
	if (!b) {
		batch_close(&here);
		return;
	}
	*b = here;
	if (!n || d->may_close(d->to, of->lib_id)) {
		batch_start(d, b);
		return;
	}
	b->next = d->waiting;
	d->waiting = b;
}

void detacher_poll(struct detacher *d)
{
	struct batch **at = &d->waiting, *b;

	finished_join(d);
	while ((b = *at)) {
		if (!d->may_close(d->to, b->of.lib_id)) {
			at = &b->next;
			continue;
		}
		*at = b->next;
		batch_start(d, b);
	}
}

int detacher_waiting(const struct detacher *d)
{
	int n = 0;

	for (const struct batch *b = d->waiting; b; b = b->next)
		n += b->n;
	return n;
}

bool detacher_waits_on(const struct detacher *d, uint32_t lib_id)
{
	for (const struct batch *b = d->waiting; b; b = b->next)
		if (b->of.lib_id == lib_id)
			return true;
	return false;
}

bool detacher_holds(struct detacher *d, uint32_t lib_id)
{
	finished_join(d);
	for (const struct batch *b = d->batches; b; b = b->next)
		if (b->of.lib_id == lib_id)
			return true;
	return detacher_waits_on(d, lib_id);
}

bool detacher_closes(struct detacher *d, const struct detach_of *of,
		     bool (*is_same)(const void *to, uint32_t a, uint32_t b), const void *to)
{
	const struct batch *lists[2];

	finished_join(d);
	lists[0] = d->waiting;
	lists[1] = d->batches;
	for (int i = 0; i < 2; i++)
		for (const struct batch *b = lists[i]; b; b = b->next)
			if (b->n && b->of.tgid == of->tgid && b->of.start_ns == of->start_ns &&
			    is_same(to, b->of.lib_id, of->lib_id))
				return true;
	return false;
}

static bool is_kept(const struct detacher *d, int fd)
{
	for (const struct batch *b = d->waiting; b; b = b->next)
		for (int i = 0; i < b->n; i++)
			if (bpf_link__fd(b->links[i]) == fd)
				return true;
	return false;
}

/* A reader of the collector's output or recording must see its end-of-file. */
static int files_drop(const struct detacher *d)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	DIR *dir = opendir("/proc/self/fd");

	if (null < 0 || !dir) {
		int err = -errno;

		if (null >= 0)
			close(null);
		if (dir)
			closedir(dir);
		return err;
	}
	for (struct dirent *e; (e = readdir(dir));) {
		int fd = atoi(e->d_name);

		if (fd > 2 && fd != null && fd != dirfd(dir) && !is_kept(d, fd))
			close(fd);
	}
	closedir(dir);
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	close(null);
	return 0;
}

/* A signal would end this process, close the links all the same and block forks: ignore every signal but SIGKILL. */
static void left_main(struct detacher *d, int (*settle)(void *to), void *to)
{
	d->left = true;
	prctl(PR_SET_NAME, "ranktrace-close");
	setsid();
	for (int sig = 1; sig < 32; sig++)
		if (sig != SIGKILL && sig != SIGSTOP && sig != SIGCHLD && sig != SIGSEGV && sig != SIGBUS &&
		    sig != SIGABRT)
			signal(sig, SIG_IGN);
	if (chdir("/") || files_drop(d) || settle(to))
		_exit(1);
	while (d->waiting) {
		usleep(LEFT_POLL_US);
		detacher_poll(d);
	}
	all_join(d);
	_exit(0);
}

pid_t detacher_leave(struct detacher *d, int (*settle)(void *to), void *to)
{
	struct batch *b;
	pid_t pid;

	all_join(d); /* a copy of a link that is being closed here would keep its probes attached */
	pid = fork();
	if (pid < 0)
		return -errno;
	if (!pid)
		left_main(d, settle, to);
	while ((b = d->waiting)) { /* the links live on in the other process */
		d->waiting = b->next;
		batch_close(b);
		free(b);
	}
	return pid;
}

void detacher_free(struct detacher *d)
{
	struct batch *b;

	if (!d)
		return;
	while ((b = d->waiting)) {
		d->waiting = b->next;
		batch_start(d, b);
	}
	all_join(d);
	free(d);
}
