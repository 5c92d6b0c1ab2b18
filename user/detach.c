/* SPDX-License-Identifier: Apache-2.0
 *
 * detach.c - see detach.h. One thread per batch: grace periods overlap, so all batches end together.
 */
#include "detach.h"

#include <bpf/libbpf.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct batch {
	pthread_t thread;
	struct bpf_link **links;
	int n;
	struct batch *next;
};

struct detacher {
	struct batch *batches;
};

struct detacher *detacher_new(void)
{
	return calloc(1, sizeof(struct detacher));
}

static void *batch_close(void *arg)
{
	struct batch *b = arg;

	for (int i = 0; i < b->n; i++)
		bpf_link__destroy(b->links[i]);
	free(b->links);
	return NULL;
}

/* Signals belong to the loop's signalfd, so the thread inherits a full mask. */
static int thread_start(struct batch *b)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&b->thread, NULL, batch_close, b);
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

void detacher_close(struct detacher *d, struct bpf_link **links, int n)
{
	struct batch *b = calloc(1, sizeof(*b)), here = { .links = links, .n = n };

	finished_join(d);
	if (b) {
		*b = here;
		if (!thread_start(b)) {
			b->next = d->batches;
			d->batches = b;
			return;
		}
		free(b);
	}
	batch_close(&here);
}

void detacher_free(struct detacher *d)
{
	struct batch *b;

	if (!d)
		return;
	while ((b = d->batches)) {
		d->batches = b->next;
		pthread_join(b->thread, NULL);
		free(b);
	}
	free(d);
}
