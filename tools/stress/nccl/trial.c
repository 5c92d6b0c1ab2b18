/* SPDX-License-Identifier: Apache-2.0
 *
 * trial.c - see trial.h. Each step is sent to all ranks of all groups before any answer is waited for.
 */
#include "tools/stress/nccl/trial.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

const char *case_name(const struct nccl_case *c, char *text, size_t size)
{
	snprintf(text, size, "%s %s, %llu bytes%s", collectives[c->collective].name, nccl_types[c->type].name,
		 (unsigned long long)c->bytes, c->in_place ? " in place" : "");
	return text;
}

const char *rank_name(const struct coordinator *c, int rank, char *text, size_t size)
{
	const struct wire_hello *h = &c->ranks[rank].hello;

	snprintf(text, size, "GPU %d of %s (rank %d)", h->ordinal, h->host, rank);
	return text;
}

/* Of a group's troubles the one counts that the others follow from: its peers hang where a rank failed or is gone. */
static int weight(enum case_status status)
{
	switch (status) {
	case CASE_LOST: return 5;
	case CASE_FAILED: return 4;
	case CASE_SYSTEM: return 3;
	case CASE_PEER: return 2;
	default: return status != CASE_DONE;
	}
}

bool trial_lacks_memory(const char *text)
{
	static const char *const words[] = { "shared memory", "/dev/shm", "No space left", "Cannot allocate memory" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strstr(text, words[i]))
			return true;
	return false;
}

/* Of --bisect a system error may be that of the network, which is looked for: then it is a failure as others are. */
static void group_settle(const struct coordinator *c, struct trial_group *g)
{
	if (g->status == CASE_PEER ||
	    (g->status == CASE_SYSTEM && c->options->nccl.bisect && !trial_lacks_memory(g->text)))
		g->status = CASE_FAILED;
}

static void trouble(struct trial_group *g, int rank, enum case_status status, const char *text)
{
	if (weight(status) <= weight(g->status))
		return;
	g->status = status;
	g->at = rank;
	snprintf(g->text, sizeof(g->text), "%s", text);
}

static void group_reset(struct trial_group *g)
{
	g->status = CASE_DONE;
	g->at = -1;
	g->text[0] = 0;
	g->seconds = g->p99 = g->wrong = g->checked = g->n_wrong = 0;
}

/* To all of a group. */
static void group_send(struct coordinator *c, struct trial_group *g, enum wire_type type, const void *body,
		       uint32_t bytes)
{
	for (int i = 0; i < g->n; i++)
		if (!rank_send(c, g->ranks[i], type, body, bytes))
			trouble(g, g->ranks[i], CASE_LOST, c->ranks[g->ranks[i]].why);
}

/* False: lost. */
static bool group_expect(struct coordinator *c, struct trial_group *g, int rank, enum wire_type type, void *body,
			 size_t bytes, uint64_t deadline_ns)
{
	int err = rank_expect(c, rank, type, body, bytes, deadline_ns);

	if (err && err != -ECANCELED)
		trouble(g, rank, CASE_LOST, c->ranks[rank].why);
	return !err;
}

static void group_begin(struct coordinator *c, struct trial_group *g)
{
	group_reset(g);
	for (int i = 0; i < g->n; i++) {
		struct wire_group body = { .n = g->n, .rank = i, .limit_ns = c->options->nccl.limit_ns };

		if (!rank_send(c, g->ranks[i], WIRE_GROUP, &body, sizeof(body)))
			trouble(g, g->ranks[i], CASE_LOST, c->ranks[g->ranks[i]].why);
	}
}

static void group_joined(struct coordinator *c, struct trial_group *g, uint64_t deadline_ns)
{
	struct wire_joined joined;

	for (int i = 0; i < g->n && !c->stopped; i++) {
		if (!group_expect(c, g, g->ranks[i], WIRE_JOINED, &joined, sizeof(joined), deadline_ns))
			continue;
		c->ranks[g->ranks[i]].again = joined.status != CASE_DONE;
		if (joined.status != CASE_DONE)
			trouble(g, g->ranks[i], joined.status, joined.text);
	}
	group_settle(c, g);
	g->joined = g->status == CASE_DONE && !c->stopped;
}

void trial_open(struct coordinator *c, struct trial_group *groups, int n)
{
	uint64_t limit_ns = c->options->nccl.limit_ns + NCCL_GRACE_NS;
	struct nccl_id id;

	for (int i = 0; i < n && !c->stopped; i++)
		group_begin(c, &groups[i]);
	for (int i = 0; i < n && !c->stopped; i++) {
		bool made = group_expect(c, &groups[i], groups[i].ranks[0], WIRE_ID, &id, sizeof(id),
					 clock_monotonic_ns() + limit_ns);

		/* with a rank gone the others would wait for ever */
		if (made && groups[i].status == CASE_DONE)
			group_send(c, &groups[i], WIRE_ID, &id, sizeof(id));
	}
	for (int i = 0; i < n && !c->stopped; i++) {
		groups[i].joined = false;
		if (groups[i].status == CASE_DONE)
			group_joined(c, &groups[i], clock_monotonic_ns() + limit_ns);
	}
}

static void result_add(struct trial_group *g, int rank, const struct wire_result *r)
{
	if (r->status != CASE_DONE)
		trouble(g, rank, r->status, r->text);
	g->seconds += r->seconds / g->n;
	g->p99 = r->p99 > g->p99 ? r->p99 : g->p99;
	g->wrong += r->wrong;
	g->checked += r->checked;
	if (r->wrong && !g->n_wrong++ && g->status == CASE_DONE)
		g->at = rank;
}

static void group_results(struct coordinator *c, struct trial_group *g, uint64_t deadline_ns)
{
	for (int i = 0; i < g->n; i++) {
		struct rank *r = &c->ranks[g->ranks[i]];

		memset(&r->last, 0, sizeof(r->last));
		if (!group_expect(c, g, g->ranks[i], WIRE_RESULT, &r->last, sizeof(r->last),
				  c->stopped ? 0 : deadline_ns))
			continue;
		r->again = case_is_broken(r->last.status);
		result_add(g, g->ranks[i], &r->last);
	}
	group_settle(c, g);
	g->joined = !c->stopped && !case_is_broken(g->status);
}

static void issued_add(struct coordinator *c, const struct trial_group *g, const struct nccl_case *of)
{
	for (int i = 0; i < g->n; i++) {
		const struct wire_result *r = &c->ranks[g->ranks[i]].last;

		c->issued[of->collective].calls += r->calls;
		c->issued[of->collective].bytes += r->calls * r->call_bytes;
		c->transfers.calls += r->transfers;
		c->transfers.bytes += r->transfers * r->call_bytes;
	}
}

void trial_case(struct coordinator *c, struct trial_group *groups, int n, const struct nccl_case *of)
{
	uint64_t deadline_ns = clock_monotonic_ns() + 2 * of->limit_ns + NCCL_GRACE_NS;

	for (int i = 0; i < n && !c->stopped; i++) {
		struct nccl_case mine = *of;
		struct layout layout;

		if (!groups[i].joined)
			continue;
		group_reset(&groups[i]);
		mine.root = of->root % groups[i].n;
		collective_layout(&mine, groups[i].n, 0, &layout);
		groups[i].bytes = layout.bytes;
		group_send(c, &groups[i], WIRE_CASE, &mine, sizeof(mine));
	}
	for (int i = 0; i < n; i++) /* after a signal what has come already: wrong data stay a fault */
		if (groups[i].joined) {
			group_results(c, &groups[i], deadline_ns);
			issued_add(c, &groups[i], of);
		}
}

/* A communicator in which something went wrong may not end in order, so its ranks start anew. */
static void rank_leave(struct coordinator *c, struct trial_group *g, int rank)
{
	struct rank *r = &c->ranks[rank];
	int32_t anew = !g->joined;

	if (!r->again && !r->lost && rank_send(c, rank, WIRE_LEAVE, &anew, sizeof(anew)))
		r->again = anew;
}

void trial_close(struct coordinator *c, struct trial_group *groups, int n)
{
	for (int i = 0; i < n && !c->stopped; i++)
		for (int j = 0; j < groups[i].n; j++)
			rank_leave(c, &groups[i], groups[i].ranks[j]);
}
