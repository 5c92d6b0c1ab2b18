/* SPDX-License-Identifier: Apache-2.0
 *
 * sample.c - communicators as looks from outside show them. A sample joins the same members as calls do, by process and
 * address. It is no call: nothing in it says that the host is alive. Where calls are seen they are the more exact, and
 * a sample changes no number.
 */
#include <errno.h>
#include <string.h>

#include "model/state.h"

static bool counters_same(const struct samples *s, const struct event *e)
{
	return s->n && s->counted == e->comm_sample.counters_valid &&
	       !memcmp(s->counters, e->comm_sample.counters, sizeof(s->counters));
}

static void samples_add(struct samples *s, const struct event *e)
{
	if (!counters_same(s, e)) {
		s->moved = s->n != 0;
		s->since_ns = e->ts_ns;
	}
	s->n++;
	s->seen_ns = e->ts_ns;
	s->counted = e->comm_sample.counters_valid;
	s->aborted = e->comm_sample.aborted;
	s->async_result = e->comm_sample.async_result;
	s->init_state = e->comm_sample.init_state;
	memcpy(s->counters, e->comm_sample.counters, sizeof(s->counters));
}

int sample_apply(struct model *m, const struct event *e)
{
	struct proc_own *p = proc_get(m, e->tgid, e->ts_ns);
	struct member_own *mb = p ? member_get(m, p, e->comm_sample.addr, e->ts_ns) : NULL;
	int err;

	if (mb && mb->m.comm->hash && mb->m.comm->hash != e->comm_sample.hash) { /* another one at that address now */
		member_forget(&mb->m);
		mb = member_get(m, p, e->comm_sample.addr, e->ts_ns);
	}
	if (!mb)
		return -ENOMEM;
	mb->m.device = e->comm_sample.device;
	err = member_join(m, &mb->m, e->comm_sample.hash, e->comm_sample.rank, e->comm_sample.nranks, e->ts_ns);
	if (err)
		return err;
	samples_add(&mb->m.samples, e);
	if (!mb->m.last_call_ns && !mb->m.from_birth && e->comm_sample.counters_valid)
		member_correct(&mb->m, e->comm_sample.counters_sum, e->ts_ns);
	return 0;
}
