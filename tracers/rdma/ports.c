/* SPDX-License-Identifier: Apache-2.0
 *
 * ports.c - ports of RDMA devices: state, speed and counters, ten times a second while a traced rank has a device open,
 * else once. The files are read by a thread (port_tree.c): some providers ask their firmware, and one that does not
 * answer delays the thread and not the collector. What the thread read is reported by the collector at its next sample;
 * until then the thread waits.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "tracers/rdma/port_tree.h"
#include "source.h"
#include "base/side_thread.h"
#include "schemas/collector.h"
#include "inspect/discover/discover.h"

#define MSEC 1000000ull
#define SEC 1000000000ull
#define QUICK_NS (100 * MSEC)
#define SLOW_NS SEC
#define SCAN_NS (5 * SEC)        /* which devices there are */
#define USERS_FIRST_NS (2 * SEC) /* who has them open; the longer it stays the same, the less often */
#define USERS_MAX_NS (30 * SEC)
#define SILENT_NS (10 * SEC) /* a sample takes a thousandth of that on a machine that is busy */
#define FILES_MAX 65536      /* read of one process */

struct users {
	uint16_t known, n;
	uint32_t pids[PORT_USERS_MAX];
};

struct emitted { /* of one port */
	bool once, users_once;
	struct tree_id id;
	struct tree_sample sample;
	uint64_t sample_ns;
	struct users users;
};

struct ports_sampler {
	const struct sampler_ctx *ctx;
	struct side_thread side;
	/* the collector's while idle or done, the thread's while asked */
	struct port_tree *tree;
	bool scan, all;
	uint64_t taken_ns, cost_ns;
	/* the collector's */
	bool in_use, silent;
	uint64_t asked_ns, scan_ns, all_ns, users_ns, users_every_ns, n_samples, cost_sum_ns;
	uint64_t cost_last_ns; /* of the last sample that was taken: while the thread works, cost_ns is its own */
	struct emitted emitted[PORTS_LISTED_MAX];
};

/* --- the thread --- */

static void tree_read(void *of)
{
	struct ports_sampler *s = of;
	uint64_t begin = side_thread_cpu_ns();

	if (s->scan)
		port_tree_scan(s->tree);
	s->taken_ns = clock_monotonic_ns();
	port_tree_sample(s->tree, s->all);
	s->cost_ns = side_thread_cpu_ns() - begin;
}

/* --- emitting --- */

static int id_emit(struct ports_sampler *s, uint32_t index, const struct tree_id *id, uint64_t now_ns)
{
	union {
		struct record_port f;
		char bytes[sizeof(struct record_port) + sizeof(struct tree_id) + 8];
	} u = { 0 };
	struct record_port *f = &u.f;

	f->hdr =
		(struct wire_hdr){ .size = sizeof(*f), .tracer = WIRE_COLLECTOR, .kind = RECORD_PORT, .ts_ns = now_ns };
	f->body.index = index;
	f->body.number = id->number;
	f->body.numa_node = id->numa_node;
	f->body.device_len = record_text_put(&f->hdr, sizeof(u), id->device);
	f->body.netdev_len = record_text_put(&f->hdr, sizeof(u), id->netdev);
	f->body.pci_len = record_text_put(&f->hdr, sizeof(u), id->pci);
	f->body.kind_len = record_text_put(&f->hdr, sizeof(u), id->kind);
	f->body.layer_len = record_text_put(&f->hdr, sizeof(u), id->layer);
	record_pad(&f->hdr);
	return s->ctx->emit(s->ctx->emit_to, &f->hdr);
}

static int sample_emit(struct ports_sampler *s, uint32_t index, const struct tree_sample *l, uint64_t taken_ns,
		       uint64_t now_ns)
{
	union {
		struct record_port_sample f;
		char bytes[sizeof(struct record_port_sample) + sizeof(l->counters)];
	} u = { 0 };
	struct record_port_sample *f = &u.f;

	f->hdr = (struct wire_hdr){
		.size = sizeof(u), .tracer = WIRE_COLLECTOR, .kind = RECORD_PORT_SAMPLE, .ts_ns = now_ns
	};
	f->body = l->now;
	f->body.index = index;
	f->body.n_counters = PORT_COUNTERS;
	f->body.taken_ns = taken_ns;
	f->body.cost_us = s->cost_last_ns / 1000;
	memcpy(f->counters, l->counters, sizeof(l->counters));
	return s->ctx->emit(s->ctx->emit_to, &f->hdr);
}

static int port_emit(struct ports_sampler *s, uint32_t index, const struct tree_port *p, uint64_t now_ns)
{
	struct emitted *t = &s->emitted[index];
	int err = 0;

	if (!t->once || memcmp(&t->id, &p->id, sizeof(p->id)))
		err = id_emit(s, index, &p->id, now_ns);
	if (!err &&
	    (!t->once || memcmp(&t->sample, &p->sample, sizeof(p->sample)) || now_ns >= t->sample_ns + SLOW_NS)) {
		err = sample_emit(s, index, &p->sample, s->taken_ns, now_ns);
		t->sample_ns = now_ns;
	}
	t->id = p->id;
	t->sample = p->sample;
	t->once = true;
	return err;
}

/* --- who has them open --- */

/* By the names of the open files, which no file system can delay: not by what they are. False: they cannot be listed.
 */
static bool opens_read(uint32_t tgid,
		       void (*each)(struct ports_sampler *s, uint32_t tgid, unsigned int uverbs, struct users *to),
		       struct ports_sampler *s, struct users *to)
{
	char path[64], file[128], *name;
	struct dirent *e;
	unsigned int n;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%u/fd", tgid);
	d = opendir(path);
	if (!d)
		return errno == ENOENT || errno == ESRCH;
	for (int i = 0; i < FILES_MAX && (e = readdir(d)); i++) {
		ssize_t len = readlinkat(dirfd(d), e->d_name, file, sizeof(file) - 1);

		file[len > 0 ? len : 0] = 0;
		name = strstr(file, "/infiniband/uverbs");
		if (name && sscanf(name, "/infiniband/uverbs%u", &n) == 1)
			each(s, tgid, n, to);
	}
	closedir(d);
	return true;
}

static void user_add(struct ports_sampler *s, uint32_t tgid, unsigned int uverbs, struct users *to)
{
	char device[64];
	size_t n;
	const struct tree_port *ports = port_tree_list(s->tree, &n);

	if (!port_tree_uverbs(s->tree, uverbs, device, sizeof(device)))
		return;
	s->in_use = true;
	for (size_t i = 0; i < n; i++) {
		struct users *u = &to[i];

		if (strcmp(ports[i].id.device, device) || u->n == PORT_USERS_MAX || (u->n && u->pids[u->n - 1] == tgid))
			continue;
		u->pids[u->n++] = tgid;
	}
}

static int users_emit(struct ports_sampler *s, uint32_t index, const struct users *u, uint64_t now_ns)
{
	struct record_port_users f = {
		.hdr = { .size = sizeof(f), .tracer = WIRE_COLLECTOR, .kind = RECORD_PORT_USERS, .ts_ns = now_ns },
		.body = { .index = index, .known = u->known, .n = u->n },
	};

	memcpy(f.body.pids, u->pids, sizeof(f.body.pids));
	return s->ctx->emit(s->ctx->emit_to, &f.hdr);
}

static bool users_find(struct ports_sampler *s, struct users *to)
{
	size_t n = 0, n_ranks = 0;
	const struct target_proc *const *list = s->ctx->targets ? target_set_list(s->ctx->targets, &n) : NULL;
	bool known = true;

	s->in_use = false;
	for (size_t i = 0; i < n; i++) {
		if (list[i]->is_child || !s->ctx->is_traced(s->ctx->is_traced_of, list[i]))
			continue;
		n_ranks++;
		known &= opens_read(list[i]->tgid, user_add, s, to);
	}
	for (int i = 0; i < PORTS_LISTED_MAX; i++)
		to[i].known = known;
	return n_ranks;
}

static int users_read(struct ports_sampler *s, uint64_t now_ns)
{
	struct users *now = calloc(PORTS_LISTED_MAX, sizeof(*now));
	bool changed = false;
	size_t n;
	int err = 0;

	if (!now)
		return -ENOMEM;
	port_tree_list(s->tree, &n);
	if (users_find(s, now))
		for (size_t i = 0; i < n && !err; i++) {
			struct emitted *t = &s->emitted[i];

			if (t->users_once && !memcmp(&t->users, &now[i], sizeof(now[i])))
				continue;
			changed = t->users_once = true;
			t->users = now[i];
			err = users_emit(s, i, &now[i], now_ns);
		}
	s->users_every_ns = changed || !s->users_every_ns ? USERS_FIRST_NS : 2 * s->users_every_ns;
	s->users_every_ns = s->users_every_ns > USERS_MAX_NS ? USERS_MAX_NS : s->users_every_ns;
	s->users_ns = now_ns;
	free(now);
	return err;
}

/* --- the collector's side --- */

static int done_take(void *of, uint64_t now_ns)
{
	struct ports_sampler *s = of;
	size_t n;
	const struct tree_port *ports = port_tree_list(s->tree, &n);
	int err = 0;

	s->n_samples++;
	s->cost_last_ns = s->cost_ns;
	s->cost_sum_ns += s->cost_ns;
	for (size_t i = 0; i < n && !err; i++)
		err = port_emit(s, i, &ports[i], now_ns);
	if (!err && n && (!s->users_ns || now_ns >= s->users_ns + s->users_every_ns))
		err = users_read(s, now_ns);
	return err;
}

static bool due(uint64_t last_ns, uint64_t every_ns, uint64_t now_ns)
{
	return !last_ns || now_ns >= last_ns + every_ns;
}

static void ask(struct ports_sampler *s, uint64_t now_ns)
{
	s->asked_ns = now_ns;
	s->scan = due(s->scan_ns, SCAN_NS, now_ns);
	s->all = s->scan || due(s->all_ns, SLOW_NS, now_ns);
	s->scan_ns = s->scan ? now_ns : s->scan_ns;
	s->all_ns = s->all ? now_ns : s->all_ns;
	side_thread_set(&s->side, SIDE_ASKED);
}

/* What it read last, and that there is no answer since it was asked. The thread is in the tree: only what was reported
 * is sampled. */
static int silence_emit(struct ports_sampler *s, uint64_t now_ns)
{
	int at = port_tree_at(s->tree);
	struct tree_sample l;

	if (s->silent || now_ns < s->asked_ns + SILENT_NS || at < 0 || !s->emitted[at].once)
		return 0;
	s->silent = true;
	l = s->emitted[at].sample;
	l.now.flags |= PORT_SILENT;
	s->emitted[at].sample_ns = 0; /* the next answer is reported, whatever it is */
	return sample_emit(s, at, &l, s->asked_ns, now_ns);
}

static int ports_sample(void *state, uint64_t now_ns)
{
	struct ports_sampler *s = state;
	int rc = side_thread_take(&s->side, done_take, now_ns);

	if (rc > 0)
		return silence_emit(s, now_ns);
	s->silent = false;
	if (!rc && due(s->asked_ns, s->in_use ? QUICK_NS : SLOW_NS, now_ns))
		ask(s, now_ns);
	return rc;
}

static int ports_open(const struct sampler_ctx *ctx, void **ret)
{
	const char *root = getenv("RANKTRACE_SYSFS");
	struct ports_sampler *s = calloc(1, sizeof(*s));
	int err = s ? port_tree_open(root ? root : "/sys", &s->tree) : -ENOMEM;

	if (err)
		goto out;
	s->ctx = ctx;
	err = side_thread_start(&s->side, "ranktrace-ports", tree_read, s);
	if (err)
		goto out;
	*ret = s;
	return 0;
out:
	if (s)
		port_tree_free(s->tree);
	free(s);
	return err;
}

static struct side_thread *ports_side(void *state)
{
	struct ports_sampler *s = state;

	return &s->side;
}

/* A thread that does not come back keeps what it uses. */
static void ports_close(void *state)
{
	struct ports_sampler *s = state;

	if (!s)
		return;
	if (s->n_samples)
		log_detail("ports: %" PRIu64 " samples of RDMA ports, %.3f ms of CPU each", s->n_samples,
			   s->cost_sum_ns / 1e6 / s->n_samples);
	if (!side_thread_end(&s->side))
		return;
	port_tree_free(s->tree);
	free(s);
}

static const struct sampler ports_sampler = {
	.tiers = SAMPLER_ALWAYS,
	.period_ns = QUICK_NS,
	.remedy = "is /sys/class/infiniband readable?",
	.open = ports_open,
	.sample = ports_sample,
	.close = ports_close,
	.side = ports_side,
};

const struct source_live source_ports = { .sampler = &ports_sampler };
