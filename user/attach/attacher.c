/* SPDX-License-Identifier: Apache-2.0
 *
 * attacher.c - see attacher.h. One order at a time: the kernel's lock is one for all.
 */
#include "attach/attacher.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/loader_internal.h"
#include "base/clock.h"
#include "base/side_thread.h"

#define END_WAIT_NS 1000000000ull

struct attacher {
	struct side_thread side;
	bool is_started;
	bool is_busy;        /* ordered and not taken */
	struct attached *of; /* NULL: no attach waits for it */
	/* The thread's from the order until it is done. */
	struct attach_order order; /* with a file and a batch of its own */
	struct batch batch;
	struct attach_made made;
};

static void order_run(void *arg)
{
	struct attacher *t = arg;
	const struct attach_order *o = &t->order;
	LIBBPF_OPTS(bpf_uprobe_multi_opts, multi, .offsets = t->batch.offsets, .ref_ctr_offsets = t->batch.semaphores,
		    .cookies = t->batch.cookies, .cnt = t->batch.n, .retprobe = o->at_return);
	uint64_t begin_ns = o->by_wall_clock ? clock_monotonic_ns() : side_thread_cpu_ns();
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", o->fd);
	t->made = (struct attach_made){ .n = t->batch.n, .at_return = o->at_return };
	t->made.link = bpf_program__attach_uprobe_multi(o->program, o->tgid, path, NULL, &multi);
	t->made.err = t->made.link ? 0 : -errno;
	t->made.took_ns = (o->by_wall_clock ? clock_monotonic_ns() : side_thread_cpu_ns()) - begin_ns;
}

struct attacher *attacher_new(void)
{
	return calloc(1, sizeof(struct attacher));
}

static void order_drop(struct attacher *t)
{
	batch_free(&t->batch);
	if (t->order.fd >= 0)
		close(t->order.fd);
	t->batch = (struct batch){ 0 };
	t->order = (struct attach_order){ .fd = -1 };
	t->is_busy = false;
}

static int order_keep(struct attacher *t, const struct attach_order *order)
{
	size_t n = order->batch->n;
	int err = batch_new(&t->batch, n);

	t->order = *order;
	t->order.fd = fcntl(order->fd, F_DUPFD_CLOEXEC, 3);
	if (!err && t->order.fd < 0)
		err = -errno;
	if (err) {
		order_drop(t);
		return err;
	}
	memcpy(t->batch.offsets, order->batch->offsets, n * sizeof(*t->batch.offsets));
	memcpy(t->batch.semaphores, order->batch->semaphores, n * sizeof(*t->batch.semaphores));
	memcpy(t->batch.cookies, order->batch->cookies, n * sizeof(*t->batch.cookies));
	t->batch.n = n;
	return 0;
}

int attacher_order(struct attacher *t, struct attached *of, const struct attach_order *order)
{
	int err = t->is_busy ? -EBUSY : 0;

	if (!err && !t->is_started) {
		err = side_thread_start(&t->side, "attach", order_run, t);
		t->is_started = !err;
	}
	if (!err)
		err = order_keep(t, order);
	if (err)
		return err;
	t->is_busy = true;
	t->of = of;
	side_thread_set(&t->side, SIDE_ASKED);
	return 0;
}

static int made_taken(void *of, uint64_t now_ns)
{
	(void)now_ns;
	order_drop(of);
	return 0;
}

/* side_thread_take() says when it is late. */
static bool is_done(struct attacher *t, uint64_t wait_ns, struct attach_made *ret)
{
	if (!t->is_busy)
		return false;
	if (wait_ns)
		side_thread_wait(&t->side, wait_ns);
	if (side_thread_take(&t->side, made_taken, clock_monotonic_ns()))
		return false;
	*ret = t->made;
	return true;
}

bool attacher_take(struct attacher *t, uint64_t wait_ns, struct attached **ret_of, struct attach_made *ret)
{
	struct attached *of = t->of;

	if (!of || !is_done(t, wait_ns, ret))
		return false;
	t->of = NULL;
	*ret_of = of;
	return true;
}

bool attacher_works_on(const struct attacher *t, const struct attached *of)
{
	return t->is_busy && t->of == of;
}

bool attacher_is_busy(const struct attacher *t)
{
	return t->is_busy;
}

void attacher_forget(struct attacher *t, const struct attached *of)
{
	if (t->of == of)
		t->of = NULL;
}

bool attacher_holds(const struct attacher *t, uint32_t lib_id)
{
	return t->is_busy && t->order.lib_id == lib_id;
}

static void link_give(struct bpf_link *link, const struct detach_of *of, struct detacher *d)
{
	struct bpf_link **links = malloc(sizeof(*links));

	if (!links) {
		bpf_link__destroy(link);
		return;
	}
	*links = link;
	detacher_close(d, links, 1, of);
}

void attacher_poll(struct attacher *t, struct detacher *d)
{
	struct detach_of of = { t->order.lib_id, t->order.tgid, t->order.start_ns };
	struct attach_made made;

	if (!t->of && is_done(t, 0, &made) && made.link)
		link_give(made.link, &of, d);
}

void attacher_free(struct attacher *t, struct detacher *d)
{
	if (!t)
		return;
	t->of = NULL;
	if (t->is_busy) {
		side_thread_wait(&t->side, END_WAIT_NS);
		attacher_poll(t, d);
	}
	if (t->is_started && !side_thread_end(&t->side))
		return; /* it keeps what it works on */
	free(t);
}
