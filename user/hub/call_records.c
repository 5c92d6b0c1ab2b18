/* SPDX-License-Identifier: Apache-2.0
 *
 * call_records.c - what a report says of a rank's calls as records, where its agent sees them. Each report says all
 * that is open; where probes were taken away the last word is that nothing is known to be.
 */
#include "hub/record_feed.h"

static int record_feed(const struct feed_to *to, uint32_t pid, uint32_t tid, const struct reported_call *body)
{
	struct record_reported_call f = { .hdr = record_hdr(to, RECORD_REPORTED, sizeof(f), pid), .body = *body };

	f.hdr.tid = tid ? tid : pid;
	return pipeline_feed(to->pipeline, &f.hdr);
}

static int peer_feed(const struct feed_to *to, uint32_t pid, uint64_t comm, const Cluster__Peer *p)
{
	struct reported_call body = { .what = REPORTED_NUMBER, .comm = comm, .peer = (int)p->rank };
	int err;

	body.kind = OP_SEND;
	body.seq = p->sends;
	body.passed = p->sends_passed;
	err = record_feed(to, pid, 0, &body);
	body.kind = OP_RECV;
	body.seq = p->recvs;
	body.passed = p->recvs_passed;
	return err ? err : record_feed(to, pid, 0, &body);
}

static int numbers_feed(const struct feed_to *to, uint32_t pid, const Cluster__Member *mb)
{
	const struct reported_call body = {
		.what = REPORTED_NUMBER, .comm = mb->addr, .kind = OP_ALLREDUCE, .peer = -1, .seq = mb->entered
	};
	int err = mb->has_entered ? record_feed(to, pid, 0, &body) : 0;

	for (size_t i = 0; i < mb->n_peers && !err; i++)
		err = peer_feed(to, pid, mb->addr, mb->peers[i]);
	return err;
}

static int call_feed(const struct feed_to *to, uint32_t pid, const Cluster__Call *c)
{
	const struct reported_call body = {
		.what = REPORTED_OP,
		.comm = c->comm,
		.id = c->id,
		.behind = c->behind,
		.count = c->count,
		.seq = c->seq,
		.begin_ns = feed_time(to, c->age_ns),
		.kind = (int)c->kind,
		.dtype = c->dtype,
		.redop = c->redop,
		.root = c->root,
		.peer = c->peer,
	};

	return record_feed(to, pid, c->tid, &body);
}

static int wait_feed(const struct feed_to *to, uint32_t pid, const Cluster__HostWait *w)
{
	const struct reported_call body = {
		.what = REPORTED_WAIT, .id = w->call, .begin_ns = feed_time(to, w->age_ns), .peer = -1
	};

	return record_feed(to, pid, w->tid, &body);
}

static bool sees_calls(const Cluster__Process *p)
{
	for (size_t i = 0; i < p->n_comms; i++)
		if (p->comms[i]->has_entered)
			return true;
	return false;
}

int calls_feed(bool *fed, const struct feed_to *to, const Cluster__Process *p)
{
	const struct reported_call begin = { .what = REPORTED_BEGIN, .peer = -1 },
				   end = { .what = REPORTED_END, .peer = -1 };
	bool now = sees_calls(p);
	int err = now || *fed ? record_feed(to, p->pid, 0, &begin) : 0;

	for (size_t i = 0; i < p->n_comms && now && !err; i++)
		err = numbers_feed(to, p->pid, p->comms[i]);
	for (size_t i = 0; i < p->n_calls && now && !err; i++)
		err = call_feed(to, p->pid, p->calls[i]);
	for (size_t i = 0; i < p->n_waits && now && !err; i++)
		err = wait_feed(to, p->pid, p->waits[i]);
	if (!err && (now || *fed))
		err = record_feed(to, p->pid, 0, &end);
	*fed = now;
	return err;
}
