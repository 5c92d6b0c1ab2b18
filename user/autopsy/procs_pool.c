/* SPDX-License-Identifier: Apache-2.0
 *
 * procs_pool.c - see procs_pool.h. The caller's thread works too, so missing threads only make it slower.
 */
#include "autopsy/procs_pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

struct pool {
	struct autopsy_procs *procs;
	const size_t *order;
	size_t n;
	proc_work_fn *work;
	atomic_size_t next;
	atomic_int err;
};

struct pool_thread {
	struct pool *pool;
	struct reader *reader;
	pthread_t id;
};

static void *pool_run(void *arg)
{
	struct pool_thread *t = arg;
	struct pool *p = t->pool;

	for (size_t i; (i = atomic_fetch_add(&p->next, 1)) < p->n;) {
		int err = p->work(p->procs, t->reader, &p->procs->all[p->order[i]]), none = 0;

		if (err)
			atomic_compare_exchange_strong(&p->err, &none, err);
	}
	return NULL;
}

int procs_each(struct autopsy_procs *s, const size_t *order, size_t n, proc_work_fn *work)
{
	struct pool p = { .procs = s, .order = order, .n = n, .work = work };
	struct pool_thread threads[AUTOPSY_READERS_MAX];
	sigset_t all, before;
	size_t n_threads = 1;

	sigfillset(&all); /* signals belong to the main thread */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (; n_threads < s->n_readers && n_threads < n; n_threads++) {
		threads[n_threads] = (struct pool_thread){ .pool = &p, .reader = s->readers[n_threads] };
		if (pthread_create(&threads[n_threads].id, NULL, pool_run, &threads[n_threads]))
			break;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	threads[0] = (struct pool_thread){ .pool = &p, .reader = s->reader };
	pool_run(&threads[0]);
	for (size_t i = 1; i < n_threads; i++)
		pthread_join(threads[i].id, NULL);
	return p.err;
}
