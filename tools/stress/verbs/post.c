/* SPDX-License-Identifier: Apache-2.0
 *
 * post.c - see post.h.
 */
#include "tools/stress/verbs/post.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define IDLE_LOOK 4096 /* empty polls between two looks at the clock and the coordinator */

int traffic_fail(struct traffic *t, int err, enum rdma_status status, const char *format, ...)
{
	va_list args;

	if (t->result->status != RDMA_DONE)
		return err;
	t->result->status = status;
	va_start(args, format);
	vsnprintf(t->result->text, sizeof(t->result->text), format, args);
	va_end(args);
	return err;
}

int post_send(struct traffic *t, int opcode, uint64_t at, uint64_t there, uint32_t bytes, int flags, uint64_t id)
{
	struct endpoint *e = t->e;
	struct verbs_sge sge = { e->own.at + at, bytes, e->mr->lkey };
	struct verbs_send_wr wr = { .wr_id = id,
				    .sg_list = &sge,
				    .num_sge = 1,
				    .opcode = opcode,
				    .remote_addr = e->other.at + there,
				    .rkey = e->other.rkey };
	void *bad;
	int error;

	wr.send_flags = flags & POST_SIGNALLED ? VERBS_SEND_SIGNALED : 0;
	if (bytes <= e->inline_most && opcode != VERBS_WR_READ)
		wr.send_flags |= VERBS_SEND_INLINE;
	error = e->context->post_send(e->qp, &wr, &bad);
	return error ? traffic_fail(t, -EIO, RDMA_FAILED, "it cannot be posted: %s", strerror(error)) : 0;
}

int post_receive(struct traffic *t, uint64_t at, uint32_t bytes)
{
	struct endpoint *e = t->e;
	struct verbs_sge sge = { e->own.at + at, bytes, e->mr->lkey };
	struct verbs_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };
	void *bad;
	int error = e->context->post_recv(e->qp, &wr, &bad);

	return error ? traffic_fail(t, -EIO, RDMA_FAILED, "a receive cannot be posted: %s", strerror(error)) : 0;
}

bool traffic_ended(const struct traffic *t)
{
	struct pollfd p = { .fd = t->fd, .events = POLLIN };

	return run_signal || poll(&p, 1, 0) > 0;
}

int traffic_idle(struct traffic *t)
{
	if (++t->idle % IDLE_LOOK)
		return 0;
	if (t->idle == IDLE_LOOK)
		t->waits_since_ns = clock_monotonic_ns();
	if (run_signal)
		return traffic_fail(t, -ECANCELED, RDMA_STOPPED, "stopped by a signal");
	if (traffic_ended(t))
		return traffic_fail(t, -ECANCELED, RDMA_FAILED, "ended by the other end");
	if (clock_monotonic_ns() - t->waits_since_ns < t->c->limit_ns)
		return 0;
	return traffic_fail(t, -ETIMEDOUT, RDMA_HUNG, "nothing was completed for %.0f s", t->c->limit_ns * 1e-9);
}

static int completion_fail(struct traffic *t, const struct verbs_wc *wc)
{
	t->result->completion = wc->status;
	return traffic_fail(t, -EIO, RDMA_FAILED, "%s (completion status %d, vendor's 0x%x)",
			    t->e->host->verbs.status_text(wc->status), wc->status, wc->vendor_err);
}

int completion_take(struct traffic *t, void *queue, struct verbs_wc *wc)
{
	int n, err = 0;

	while (!(n = t->e->context->poll_cq(queue, 1, wc)) && !err)
		err = traffic_idle(t);
	if (n < 0)
		return traffic_fail(t, -EIO, RDMA_FAILED, "the completion queue cannot be read");
	if (err)
		return err;
	t->idle = 0;
	return wc->status ? completion_fail(t, wc) : 0;
}

int completion_wait(struct traffic *t, void *queue, uint64_t *id)
{
	struct verbs_wc wc;
	int err = completion_take(t, queue, &wc);

	if (!err && id)
		*id = wc.wr_id;
	return err;
}
