/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp.c - TCP connections of the ranks, once a second, by sock_diag: no probe, nothing in the way of data. A thread
 * does it (tcp_table.c), since it moves between the ranks' network namespaces, and a sample of a large table takes a
 * while. What it read is reported by the collector at its next sample; until then the thread waits.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "tracers/tcp/tcp_sampler.h"
#include "base/side_thread.h"
#include "tracers/tcp/tcp_table.h"
#include "record.h"
#include "schemas/collector.h"
#include "inspect/discover/discover.h"

#define MSEC 1000000ull
#define SEC 1000000000ull
#define POLL_NS (100 * MSEC) /* is the thread done? */
#define SAMPLE_NS SEC
#define SCAN_FIRST_NS SEC /* which connections there are; the longer they stay the same, the less often */
#define SCAN_MAX_NS (10 * SEC)
#define EMITTED_MAX 256 /* connections a sample: of more each is reported every second or third time */
#define RANKS_MAX 1024

struct tcp_sampler {
	const struct sampler_ctx *ctx;
	struct side_thread side;
	/* the collector's while idle or done, the thread's while asked */
	struct tcp_table *table;
	uint32_t tgids[RANKS_MAX];
	size_t n_tgids;
	bool scan, moved; /* moved: the scan found other connections than before */
	uint64_t taken_ns, cost_ns;
	/* the collector's */
	uint64_t asked_ns, scan_ns, scan_every_ns, n_samples, cost_sum_ns;
	size_t turn, n_used; /* which is reported next; how many there were */
	bool error_emitted, left_emitted;
};

/* --- the thread --- */

static void table_read(void *of)
{
	struct tcp_sampler *s = of;
	uint64_t begin = side_thread_cpu_ns();

	s->taken_ns = clock_monotonic_ns();
	if (s->scan)
		tcp_table_scan(s->table, s->tgids, s->n_tgids, &s->moved);
	else
		tcp_table_sample(s->table);
	s->cost_ns = side_thread_cpu_ns() - begin;
}

/* --- emitting --- */

static int identity_emit(struct tcp_sampler *s, uint32_t index, const struct table_connection *c, uint64_t now_ns)
{
	union {
		struct record_tcp f;
		char bytes[sizeof(struct record_tcp) + 128];
	} u = { 0 };
	struct record_tcp *f = &u.f;
	char local[48], remote[48];

	tcp_address_text(c->family, c->id.idiag_src, local, sizeof(local));
	tcp_address_text(c->family, c->id.idiag_dst, remote, sizeof(remote));
	f->hdr = (struct wire_hdr){
		.size = sizeof(*f), .tracer = WIRE_COLLECTOR, .kind = RECORD_TCP, .tgid = c->tgid, .ts_ns = now_ns
	};
	f->body.index = index;
	f->body.local_port = __builtin_bswap16(c->id.idiag_sport);
	f->body.remote_port = __builtin_bswap16(c->id.idiag_dport);
	f->body.inode = c->inode;
	f->body.cookie = (uint64_t)c->id.idiag_cookie[1] << 32 | c->id.idiag_cookie[0];
	f->body.netns = c->netns;
	f->body.local_len = record_text_put(&f->hdr, sizeof(u), local);
	f->body.remote_len = record_text_put(&f->hdr, sizeof(u), remote);
	f->body.netdev_len = record_text_put(&f->hdr, sizeof(u), c->netdev);
	record_pad(&f->hdr);
	return s->ctx->emit(s->ctx->emit_to, &f->hdr);
}

static int sample_emit(struct tcp_sampler *s, uint32_t index, const struct table_connection *c, uint64_t now_ns)
{
	union {
		struct record_tcp_sample f;
		char bytes[sizeof(struct record_tcp_sample) + sizeof(c->counters)];
	} u = { 0 };
	struct record_tcp_sample *f = &u.f;

	f->hdr = (struct wire_hdr){
		.size = sizeof(u), .tracer = WIRE_COLLECTOR, .kind = RECORD_TCP_SAMPLE, .ts_ns = now_ns
	};
	f->body.index = index;
	f->body.state = c->state;
	f->body.flags = (c->gone ? TCP_GONE : 0) | (c->device_known ? TCP_NETDEV_KNOWN : 0) |
			(c->device_up ? TCP_NETDEV_UP : 0);
	f->body.n_counters = TCP_COUNTERS;
	f->body.taken_ns = s->taken_ns;
	f->body.cost_us = s->cost_ns / 1000;
	f->body.n_left_out = tcp_table_left_out(s->table);
	memcpy(f->counters, c->counters, sizeof(c->counters));
	return s->ctx->emit(s->ctx->emit_to, &f->hdr);
}

static int connection_emit(struct tcp_sampler *s, uint32_t index, struct table_connection *c, uint64_t now_ns)
{
	int err = c->emitted || c->gone ? 0 : identity_emit(s, index, c, now_ns);

	if (!err && (c->emitted || !c->gone)) /* it came and went: its number is not known */
		err = sample_emit(s, index, c, now_ns);
	c->emitted = true;
	return err;
}

/* In turn, so that of very many each is reported now and then; those that are gone always. */
static int connections_emit(struct tcp_sampler *s, uint64_t now_ns)
{
	size_t n_emitted = 0, at, next = s->turn;
	int err = 0;

	s->n_used = 0;
	for (size_t i = 0; i < TCP_CONNECTIONS_MAX && !err; i++) {
		struct table_connection *c;

		at = (s->turn + i) % TCP_CONNECTIONS_MAX;
		c = tcp_table_at(s->table, at);
		if (!c->used)
			continue;
		s->n_used++;
		if (!c->gone && n_emitted >= EMITTED_MAX)
			continue;
		n_emitted += !c->gone;
		next = at + 1;
		err = connection_emit(s, at, c, now_ns);
	}
	s->turn = s->n_used > EMITTED_MAX ? next : 0;
	return err;
}

static void trouble_emit(struct tcp_sampler *s)
{
	int err = tcp_table_error(s->table);

	if (err && !s->error_emitted)
		log_warn("tcp: connections of ranks in a network namespace of their own: %s; %s", strerror(-err),
			 err == -EPERM ? "run as root, or with CAP_SYS_ADMIN, to have them watched"
				       : "they are not watched meanwhile");
	s->error_emitted |= err;
	if (tcp_table_left_out(s->table) && !s->left_emitted)
		log_warn("tcp: the ranks have %zu connections more than the %d that are watched",
			 tcp_table_left_out(s->table), TCP_CONNECTIONS_MAX);
	s->left_emitted |= tcp_table_left_out(s->table);
}

static int done_take(void *of, uint64_t now_ns)
{
	struct tcp_sampler *s = of;

	s->n_samples++;
	s->cost_sum_ns += s->cost_ns;
	if (s->scan)
		s->scan_every_ns = s->moved || !s->scan_every_ns ? SCAN_FIRST_NS : 2 * s->scan_every_ns;
	s->scan_every_ns = s->scan_every_ns > SCAN_MAX_NS ? SCAN_MAX_NS : s->scan_every_ns;
	trouble_emit(s);
	return connections_emit(s, now_ns);
}

static int tgid_compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* True: other ranks than before. */
static bool ranks_take(struct tcp_sampler *s)
{
	uint32_t tgids[RANKS_MAX];
	size_t n = 0, n_ranks = 0;
	const struct target_proc *const *list = s->ctx->targets ? target_set_list(s->ctx->targets, &n) : NULL;
	bool other;

	for (size_t i = 0; i < n && n_ranks < RANKS_MAX; i++)
		if (!list[i]->is_child && s->ctx->is_traced(s->ctx->is_traced_of, list[i]))
			tgids[n_ranks++] = list[i]->tgid;
	qsort(tgids, n_ranks, sizeof(tgids[0]), tgid_compare); /* lint: the first n_ranks are filled */
	other = n_ranks != s->n_tgids || memcmp(tgids, s->tgids, n_ranks * sizeof(tgids[0]));
	memcpy(s->tgids, tgids, n_ranks * sizeof(tgids[0]));
	s->n_tgids = n_ranks;
	return other;
}

static void ask(struct tcp_sampler *s, uint64_t now_ns)
{
	bool other = ranks_take(s);

	s->asked_ns = now_ns;
	if (!s->n_tgids && !s->n_used)
		return;
	s->scan = other || !s->scan_ns || now_ns >= s->scan_ns + s->scan_every_ns;
	s->scan_ns = s->scan ? now_ns : s->scan_ns;
	if (s->scan)
		tcp_table_enter(s->table, s->ctx->reader, s->tgids, s->n_tgids);
	side_thread_set(&s->side, SIDE_ASKED);
}

static int tcp_sample(void *state, uint64_t now_ns)
{
	struct tcp_sampler *s = state;
	int rc = side_thread_take(&s->side, done_take, now_ns);

	if (!rc && (!s->asked_ns || now_ns >= s->asked_ns + SAMPLE_NS))
		ask(s, now_ns);
	return rc < 0 ? rc : 0;
}

/* Is sock_diag there? */
static int kernel_check(void)
{
	int fd = tcp_diag_open();

	if (fd < 0)
		return fd == -EPROTONOSUPPORT ? -ENOTSUP : fd;
	close(fd);
	return 0;
}

static int tcp_open(const struct sampler_ctx *ctx, void **ret)
{
	struct tcp_sampler *s;
	int err = kernel_check();

	if (err)
		return err;
	s = calloc(1, sizeof(*s));
	err = s ? tcp_table_new(&s->table) : -ENOMEM;
	if (err)
		goto out;
	s->ctx = ctx;
	err = side_thread_start(&s->side, "ranktrace-tcp", table_read, s);
	if (err)
		goto out;
	*ret = s;
	return 0;
out:
	if (s)
		tcp_table_free(s->table);
	free(s);
	return err;
}

static struct side_thread *tcp_side(void *state)
{
	struct tcp_sampler *s = state;

	return &s->side;
}

/* A thread that does not come back keeps what it uses. */
static void tcp_close(void *state)
{
	struct tcp_sampler *s = state;

	if (!s)
		return;
	if (s->n_samples)
		log_detail("tcp: %" PRIu64 " samples of the ranks' connections (%zu), %.3f ms of CPU each",
			   s->n_samples, s->n_used, s->cost_sum_ns / 1e6 / s->n_samples);
	if (!side_thread_end(&s->side))
		return;
	tcp_table_free(s->table);
	free(s);
}

const struct sampler tcp_sampler = {
	.tiers = SAMPLER_ALWAYS,
	.period_ns = POLL_NS,
	.remedy = "does the kernel have CONFIG_INET_DIAG?",
	.open = tcp_open,
	.sample = tcp_sample,
	.close = tcp_close,
	.side = tcp_side,
};
