/* SPDX-License-Identifier: Apache-2.0
 *
 * qps.c - queue pairs of the traced processes as the kernel lists them: number, peer's number and state also of those
 * that were made before anybody looked, in every tier; and the addresses of the host's ports, by which a far end is
 * known to be on this host. Read by a thread (qp_list.c), since a provider may ask its firmware; reported by the
 * collector at its next sample, what changed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/keyed.h"
#include "base/log.h"
#include "tracers/rdma/qp_list.h"
#include "source.h"
#include "base/side_thread.h"
#include "schemas/collector.h"
#include "inspect/discover/discover.h"

#define SEC 1000000000ull
#define SAMPLE_NS SEC
#define FIRST_NS (2 * SEC) /* the longer all stays the same, the less often */
#define MOST_NS (60 * SEC)
#define COST_SHARE 100 /* at most a hundredth of a thread's time, firmware's included */

struct emitted {
	struct keyed keyed; /* by its number */
	struct qp_row row;
	char device[RECORD_QP_DEVICE_LEN];
	uint64_t round; /* last listed */
};

struct qps_sampler {
	const struct sampler_ctx *ctx;
	const char *root;
	struct side_thread side;
	/* the collector's while idle or done, the thread's while asked */
	struct qp_list *list;
	int err;
	uint64_t took_ns;
	/* the collector's */
	uint64_t asked_ns, every_ns, round;
	bool failed;
	struct keyed_table emitted;
	struct gid_row gids[GID_LIST_MAX];
	size_t n_gids;
};

static void list_read(void *of)
{
	struct qps_sampler *s = of;
	uint64_t begin_ns = clock_monotonic_ns();

	s->err = qp_list_read(s->list);
	if (!s->err)
		qp_list_gids(s->list, s->root);
	s->took_ns = clock_monotonic_ns() - begin_ns;
}

/* --- emitting --- */

static int qp_emit(struct qps_sampler *s, const struct emitted *t, uint8_t state, uint64_t now_ns)
{
	struct record_qp f = {
		.hdr = { .size = sizeof(f),
			 .tracer = WIRE_COLLECTOR,
			 .kind = RECORD_QP,
			 .tgid = t->row.pid,
			 .ts_ns = now_ns },
		.number = t->keyed.a,
		.qpn = t->row.qpn,
		.dest_qpn = t->row.dest_qpn,
		.state = state,
		.type = t->row.type,
		.port = t->row.port,
	};

	memcpy(f.device, t->device, sizeof(f.device));
	return s->ctx->emit(s->ctx->emit_to, &f.hdr);
}

static const struct qp_device *device_of(const struct qp_list *l, uint32_t index)
{
	for (size_t i = 0; i < l->n_devices; i++)
		if (l->devices[i].index == index)
			return &l->devices[i];
	return NULL;
}

static bool same(const struct qp_row *a, const struct qp_row *b)
{
	return a->dest_qpn == b->dest_qpn && a->pid == b->pid && a->state == b->state && a->type == b->type &&
	       a->port == b->port;
}

/* 1: it was reported. */
static int row_emit(struct qps_sampler *s, const struct qp_row *r, uint64_t now_ns)
{
	const struct target_proc *p = s->ctx->targets ? target_set_find(s->ctx->targets, r->pid) : NULL;
	const struct qp_device *d = device_of(s->list, r->device);
	struct emitted *t;
	int err;

	if (!p || !d || !s->ctx->is_traced(s->ctx->is_traced_of, p))
		return 0;
	t = keyed_get(&s->emitted, (uint64_t)r->device << 32 | r->qpn, 0, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->round = s->round;
	if (same(&t->row, r))
		return 0;
	t->row = *r;
	memcpy(t->device, d->name, sizeof(t->device));
	err = qp_emit(s, t, r->state, now_ns);
	return err ? err : 1;
}

static bool is_listed(void *entry, const void *round)
{
	return ((const struct emitted *)entry)->round == *(const uint64_t *)round;
}

/* What is listed no more is gone, unless the list was cut short. */
static int gone_emit(struct qps_sampler *s, uint64_t now_ns)
{
	int err = 0;

	if (s->list->cut)
		return 0;
	for (struct emitted *t = s->emitted.all; t && !err; t = t->keyed.next)
		if (!is_listed(t, &s->round))
			err = qp_emit(s, t, RECORD_QP_STATE_GONE, now_ns);
	keyed_keep(&s->emitted, is_listed, &s->round);
	return err;
}

static int gids_emit(struct qps_sampler *s, const struct gid_row *r, uint64_t now_ns)
{
	const struct qp_device *d = &s->list->devices[r->device];
	struct record_gids f = {
		.hdr = { .size = sizeof(f), .tracer = WIRE_COLLECTOR, .kind = RECORD_GIDS, .ts_ns = now_ns },
		.number = d->index << 8 | r->port,
		.port = r->port,
		.lid = r->lid,
		.n = r->n,
	};

	memcpy(f.device, d->name, sizeof(f.device));
	memcpy(f.gids, r->gids, sizeof(f.gids));
	return s->ctx->emit(s->ctx->emit_to, &f.hdr);
}

/* 1: something changed. */
static int list_emit(struct qps_sampler *s, uint64_t now_ns)
{
	const struct qp_list *l = s->list;
	size_t n_emitted = s->emitted.n;
	int changed = 0, got = 0;

	s->round++;
	if (l->n_gids != s->n_gids || memcmp(l->gids, s->gids, l->n_gids * sizeof(l->gids[0]))) {
		for (size_t i = 0; got >= 0 && i < l->n_gids; i++)
			got = gids_emit(s, &l->gids[i], now_ns);
		memcpy(s->gids, l->gids, sizeof(s->gids));
		s->n_gids = l->n_gids;
		changed = 1;
	}
	for (size_t i = 0; got >= 0 && i < l->n; i++) {
		got = row_emit(s, &l->rows[i], now_ns);
		changed |= got > 0;
	}
	if (got >= 0)
		got = gone_emit(s, now_ns);
	return got < 0 ? got : changed || s->emitted.n != n_emitted;
}

static int done_take(void *of, uint64_t now_ns)
{
	struct qps_sampler *s = of;
	int changed = s->err ? 0 : list_emit(s, now_ns);

	if (s->err && s->err != -ENOTSUP && !s->failed)
		log_warn("queue pairs cannot be asked for by RDMA netlink: %s; peers of those made before the attach "
			 "stay unknown",
			 strerror(-s->err));
	s->failed = s->err != 0;
	s->every_ns = changed > 0 ? FIRST_NS : 2 * s->every_ns;
	if (s->every_ns < COST_SHARE * s->took_ns)
		s->every_ns = COST_SHARE * s->took_ns;
	s->every_ns = s->every_ns > MOST_NS ? MOST_NS : s->every_ns;
	return changed < 0 ? changed : 0;
}

static int qps_sample(void *state, uint64_t now_ns)
{
	struct qps_sampler *s = state;
	int rc = side_thread_take(&s->side, done_take, now_ns);

	if (rc || (s->asked_ns && now_ns < s->asked_ns + s->every_ns))
		return rc < 0 ? rc : 0;
	s->asked_ns = now_ns;
	side_thread_set(&s->side, SIDE_ASKED);
	return 0;
}

static int qps_open(const struct sampler_ctx *ctx, void **ret)
{
	const char *root = getenv("RANKTRACE_SYSFS");
	struct qps_sampler *s = calloc(1, sizeof(*s));
	int err = -ENOMEM;

	if (s)
		s->list = qp_list_new();
	if (!s || !s->list)
		goto out;
	s->ctx = ctx;
	s->root = root ? root : "/sys";
	s->every_ns = FIRST_NS;
	err = side_thread_start(&s->side, "ranktrace-qps", list_read, s);
	if (err)
		goto out;
	*ret = s;
	return 0;
out:
	if (s)
		qp_list_free(s->list);
	free(s);
	return err;
}

static struct side_thread *qps_side(void *state)
{
	struct qps_sampler *s = state;

	return &s->side;
}

/* A thread that does not come back keeps what it uses. */
static void qps_close(void *state)
{
	struct qps_sampler *s = state;

	if (!s)
		return;
	if (!side_thread_end(&s->side))
		return;
	keyed_free(&s->emitted);
	qp_list_free(s->list);
	free(s);
}

static const struct sampler qps_sampler = {
	.tiers = SAMPLER_ALWAYS,
	.period_ns = SAMPLE_NS,
	.remedy = "is the module ib_core loaded?",
	.open = qps_open,
	.sample = qps_sample,
	.close = qps_close,
	.side = qps_side,
};

const struct source_live source_qps = { .sampler = &qps_sampler };
