/* SPDX-License-Identifier: Apache-2.0
 *
 * report_queue.c - see report_queue.h.
 */
#include "cluster/report_queue.h"

#include <errno.h>

#include "cluster/report_carry.h"

struct place { /* by host */
	struct keyed keyed;
	uint64_t round; /* `at` is of it; 0 none */
	size_t at;
};

static bool takes_place(struct report_queue *q, struct queued_report *old, const struct queued_report *one)
{
	uint64_t first_ns = old->first_ns;

	if (one->r->agent != old->r->agent || one->r->now_ns - first_ns > REPORT_QUEUE_SPAN_NS ||
	    !report_carries(old->r, one->r))
		return false;
	report_free(old->r);
	*old = *one;
	old->first_ns = first_ns;
	q->n_carried++;
	return true;
}

int report_queue_put(struct report_queue *q, const struct queued_report *one, size_t bytes)
{
	struct place *p = keyed_get(&q->places, (uintptr_t)one->of, 0, sizeof(*p));

	if (!p)
		return -ENOMEM;
	if (p->round == q->round + 1)
		return takes_place(q, &q->all[p->at], one) ? 0 : -EAGAIN;
	if (q->n == REPORT_QUEUE_MAX || (q->n && q->bytes + bytes > REPORT_QUEUE_BYTES))
		return -EAGAIN;
	p->round = q->round + 1;
	p->at = q->n;
	q->all[q->n] = *one;
	q->all[q->n++].first_ns = one->r->now_ns;
	q->bytes += bytes;
	return 0;
}

void report_queue_clear(struct report_queue *q)
{
	for (size_t i = 0; i < q->n; i++)
		report_free(q->all[i].r);
	q->n = q->bytes = 0;
	q->round++;
}

void report_queue_free(struct report_queue *q)
{
	report_queue_clear(q);
	keyed_free(&q->places);
}
