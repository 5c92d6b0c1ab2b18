/* SPDX-License-Identifier: Apache-2.0
 *
 * verbs.c - probe rows; where the provider's functions are (tables that programs brought to light, or a walk through
 * the memory of a process that had its devices open before), and the scan of the totals. Decoding is verbs_records.c.
 */
#include "tracers/rdma/verbs.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "inspect/discover/discover.h"
#include "inspect/reader/reader.h"
#include "tracers/rdma/verbs_scan.h"
#include "source.h"
#include "uthash.h"
#include "verbs.skel.h"
#include "tracers/rdma/verbs_say.h"

#define WALK_PAGES_FIRST 256u /* present pages of one sample: 1 MB */
#define WALK_PAGES_MAX (8u << 10)
#define WALK_PAGES_LEAST 32u
#define WALK_SLICE_NS 10000000ull /* what a sample may take: a table may come to light meanwhile, or rings fill */
#define TABLE_GIVE_UP_NS 5000000000ull
#define DEVICE_ASK_NS 250000000ull
#define DEVICE_GIVE_UP_NS 2000000000ull
#define EMIT_EVERY_NS 1000000000ull /* totals, where more than FEW queue pairs are busy */
#define FEW 256
#define SCAN_MAX 16384

static const struct probe verbs_probes[] = {
#define IN(name) { .symbol = #name, .program = "verbs_enter" },
#define PAIR(name) IN(name){ .symbol = #name, .program = "verbs_exit", .at_return = true },
#define X(number, name, sides) sides(name)
	VERBS_FUNCTIONS(X)
#undef X
#define X(number, name, offset, prog, what) \
	{ .symbol = #name, .program = #prog, .at_return = (number) == 1, .tier = TIER_BURST, .placed = true },
		VERBS_INLINES(X)
#undef X
};
#define N_ROWS (sizeof(verbs_probes) / sizeof(verbs_probes[0]))
#define FIRST_INLINE (N_ROWS - VERBS_INLINES_MAX)

static const uint32_t inline_offsets[] = {
#define X(number, name, offset, prog, what) offset,
	VERBS_INLINES(X)
#undef X
};

static const char *const verbs_markers[] = { "ibv_create_qp|rdma_get_cm_event", NULL };

struct emitted { /* of one queue pair */
	struct verbs_qp_key key;
	uint64_t generation, sum, ns;
	bool from_start, shed; /* shed: its posts are seen no more */
	UT_hash_handle hh;
};

struct walk { /* a process that may have had devices open before the attach */
	uint32_t tgid;
	uint64_t start_ns;
	uint64_t first_ns, asked_ns; /* when it was first, last searched for open devices */
	uint32_t n_before;           /* devices that it had open when its probes were about to be placed */
	uint32_t pages;              /* of the next slice */
	bool over;
	struct verbs_found *found;
	UT_hash_handle hh;
};

struct verbs_state { /* tracer_state() */
	struct walk *walks;
	struct emitted *emitted;
	uint32_t n_busy; /* queue pairs that moved at the last scan */
	bool said_no_device, said_full;
};

static const void *verbs_object(size_t *ret_size)
{
	return verbs_bpf__elf_bytes(ret_size);
}

/* Rows of placed functions are what their pointer's place says, whatever lies at the address. */
static bool verbs_rows_alike(size_t a, size_t b)
{
	return !strcmp(verbs_probes[a].symbol, verbs_probes[b].symbol);
}

/* What brings tables to light, and with them the provider, is placed before what only shows more. */
static enum probe_group verbs_group(size_t row)
{
	static const char *const later[] = { "ibv_reg_", "ibv_get_async_event", "rdma_" };

	for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++)
		if (!strncmp(verbs_probes[row].symbol, later[i], strlen(later[i])))
			return PROBES_CALLS;
	return PROBES_NEEDED;
}

/* --- placing --- */

static void placed_note(struct tracer_handle *h, uint32_t tgid, uint64_t table, uint64_t since_ns)
{
	struct verbs_placed_key key = { .table = table, .tgid = tgid };
	struct verbs_placed placed = { .since_ns = since_ns };
	uint64_t generation;

	if (!tracer_generation(h, tgid, &generation))
		return;
	placed.generation = generation;
	tracer_map_put(h, "verbs_placed", &key, &placed);
}

static int table_place(struct tracer_handle *h, const struct verbs_table_key *key, const __u64 fn[VERBS_INLINES_MAX])
{
	struct tracer_place places[VERBS_INLINES_MAX];
	uint64_t since_ns = 0;
	size_t n = 0;
	int got;

	for (uint32_t i = 0; i < VERBS_INLINES_MAX; i++)
		if (fn[i])
			places[n++] = (struct tracer_place){ .address = fn[i], .row = FIRST_INLINE + i };
	got = n ? tracer_place(h, key->tgid, places, n, &since_ns) : 0;
	if (got >= 0)
		placed_note(h, key->tgid, key->a, since_ns);
	return got;
}

static bool is_gone(int err)
{
	return err == -ESRCH;
}

/* One that cannot be placed yet (its file is not known to us) is tried again for some seconds. Done with it? */
static bool table_done(struct tracer_handle *h, const struct verbs_table_key *key, const struct verbs_table *t,
		       uint64_t now_ns)
{
	int got = table_place(h, key, t->fn);
	bool late = got != -EAGAIN && now_ns > t->since_ns + TABLE_GIVE_UP_NS;

	if (got >= 0 || is_gone(got))
		return true;
	if (late)
		log_warn("pid %u: the RDMA provider's functions cannot be probed: %s; its posts and completions stay "
			 "invisible",
			 key->tgid, strerror(-got));
	return late;
}

/* How many that came to light lately are still to be placed. */
static uint32_t tables_place(struct tracer_handle *h, uint64_t now_ns)
{
	struct verbs_table_key key, next;
	struct verbs_table t;
	int more = tracer_map_next(h, "verbs_tables", NULL, &key);
	uint32_t n = 0;

	for (int i = 0; !more && i < SCAN_MAX; i++) {
		more = tracer_map_next(h, "verbs_tables", &key, &next);
		if (!tracer_map_get(h, "verbs_tables", &key, &t)) {
			if (table_done(h, &key, &t, now_ns))
				tracer_map_delete(h, "verbs_tables", &key);
			else
				n += now_ns < t.since_ns + TABLE_GIVE_UP_NS;
		}
		key = next;
	}
	return n;
}

/* --- processes that were there before --- */

/* Only a process that has a device open has contexts: most that map libibverbs never open one. */
static uint32_t devices_open(uint32_t tgid)
{
	char path[64], target[256];
	uint32_t n = 0;
	struct dirent *d;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%u/fd", tgid);
	dir = opendir(path);
	while (dir && (d = readdir(dir))) {
		ssize_t len = readlinkat(dirfd(dir), d->d_name, target, sizeof(target) - 1);

		target[len > 0 ? len : 0] = 0;
		n += strstr(target, "/uverbs") != NULL;
	}
	if (dir)
		closedir(dir);
	return n;
}

static int found_emit(struct tracer_handle *h, const struct walk *w, uint64_t now_ns)
{
	int err = 0;

	for (size_t i = 0; !err && i < w->found->n_qps; i++) {
		const struct verbs_qp_at *q = &w->found->qps[i];
		struct verbs_qp_record r = {
			.hdr = { .size = sizeof(r),
				 .tracer = WIRE_VERBS,
				 .kind = VERBS_QP,
				 .tgid = w->tgid,
				 .ts_ns = now_ns },
			.context = q->context,
			.qp = q->addr,
			.qpn = q->qpn,
			.state = q->state,
			.type = q->type,
			.change = VERBS_QP_FOUND,
		};

		for (size_t k = 0; k < w->found->n_contexts; k++)
			if (w->found->contexts[k].addr == q->context)
				memcpy(r.device, w->found->contexts[k].device, sizeof(r.device));
		err = tracer_emit(h, &r.hdr);
	}
	return err;
}

/* Where what a process calls brings its tables to light, too: placed at the next sample, and tried again while they
 * cannot be. */
static void table_put(struct tracer_handle *h, uint32_t tgid, bool in_qp, const struct verbs_table *t)
{
	struct verbs_table_key key = { .tgid = tgid, .in_qp = in_qp, .a = verbs_table_id(t) };

	tracer_map_put_new(h, "verbs_tables", &key, t);
}

static void found_place(struct tracer_handle *h, const struct walk *w, uint64_t now_ns)
{
	for (size_t i = 0; i < w->found->n_contexts; i++) {
		const struct verbs_context_at *c = &w->found->contexts[i];
		struct verbs_table t = { .since_ns = now_ns,
					 .fn = { c->poll_cq, c->poll_cq, c->post_send, c->post_recv } };

		table_put(h, w->tgid, false, &t);
	}
}

static void exes_place(struct tracer_handle *h, const struct walk *w, uint64_t now_ns)
{
	for (size_t i = 0; i < w->found->n_qps; i++) {
		struct verbs_table t = { .since_ns = now_ns };
		struct reader_range ranges[VERBS_INLINES_MAX];

		if (!w->found->qps[i].ex)
			continue;
		for (int k = VERBS_IN_CONTEXT; k < VERBS_INLINES_MAX; k++)
			ranges[k - VERBS_IN_CONTEXT] = (struct reader_range){
				.addr = w->found->qps[i].ex + inline_offsets[k], .to = &t.fn[k], .len = 8
			};
		if (!reader_memory(tracer_reader(h), w->tgid, ranges, VERBS_INLINES_MAX - VERBS_IN_CONTEXT,
				   READER_DEADLINE_MS))
			table_put(h, w->tgid, true, &t);
	}
}

static void walk_end(struct walk *w)
{
	if (w->found)
		verbs_found_free(w->found);
	free(w->found);
	w->found = NULL;
	w->over = true;
}

/* Devices that were opened under our eyes are no reason to walk: their tables came to light. The files are counted
 * first, as each is opened after its call was. */
static bool opened_unseen(struct tracer_handle *h, const struct walk *w)
{
	struct verbs_opens o = { 0 };
	uint32_t n = devices_open(w->tgid);
	uint64_t generation;

	if (tracer_map_get(h, "verbs_opens", &w->tgid, &o) || !tracer_generation(h, w->tgid, &generation) ||
	    o.generation != generation)
		o.n = 0;
	return n && (w->n_before || n > o.n);
}

/* A device may have been opened while the probes were being put in place: asked for a while. */
static bool walk_begins(struct tracer_handle *h, struct walk *w, uint64_t now_ns)
{
	if (w->asked_ns && now_ns < w->asked_ns + DEVICE_ASK_NS)
		return false;
	w->asked_ns = now_ns;
	w->first_ns = w->first_ns ? w->first_ns : now_ns;
	if (opened_unseen(h, w))
		w->found = calloc(1, sizeof(*w->found));
	w->pages = WALK_PAGES_FIRST;
	w->over = !w->found && now_ns > w->first_ns + DEVICE_GIVE_UP_NS;
	return w->found;
}

/* A slice that is late is thrown away, and delays every other sample of the process: the next ones are smaller. */
static int walk_slice(struct tracer_handle *h, struct walk *w)
{
	uint64_t begin_ns = clock_monotonic_ns(), took_ns;
	int more = verbs_scan_step(tracer_reader(h), w->tgid, w->pages, w->found);

	took_ns = clock_monotonic_ns() - begin_ns;
	if ((more == -EINPROGRESS || took_ns > WALK_SLICE_NS) && w->pages > WALK_PAGES_LEAST)
		w->pages /= 2;
	else if (more >= 0 && took_ns < WALK_SLICE_NS / 4 && w->pages < WALK_PAGES_MAX)
		w->pages *= 2;
	return more;
}

static int walk_step(struct tracer_handle *h, struct walk *w, uint64_t now_ns)
{
	bool knew = w->found && w->found->second;
	int more, err = 0;

	if (!w->found && !walk_begins(h, w, now_ns))
		return 0;
	more = walk_slice(h, w);
	if (more == -EINPROGRESS || more == -EBUSY || more == -EAGAIN || more == -ETIMEDOUT)
		return 0; /* again later */
	if (more < 0) {
		if (more != -ESRCH)
			log_warn(
				"pid %u: its memory cannot be searched for open RDMA devices, which stay invisible: %s",
				w->tgid, strerror(-more));
		walk_end(w);
		return 0;
	}
	if (!knew && (w->found->second || !more))
		found_place(h, w, now_ns);
	if (more)
		return 0;
	exes_place(h, w, now_ns);
	err = found_emit(h, w, now_ns);
	if (w->found->cut)
		log_warn(
			"pid %u has more RDMA contexts or queue pairs than are searched for; the others stay invisible",
			w->tgid);
	walk_end(w);
	return err;
}

/* All, or those of processes that have ended: few are kept, as these go whenever one comes. */
static void walks_forget(struct verbs_state *s, bool all)
{
	struct walk *w, *next;

	HASH_ITER (hh, s->walks, w, next) {
		if (!all && (w->found || !kill((pid_t)w->tgid, 0) || errno != ESRCH))
			continue;
		walk_end(w);
		HASH_DELETE(hh, s->walks, w);
		free(w);
	}
}

static int verbs_on_lib(struct tracer_handle *h, const struct target_proc *proc, const struct target_lib *lib, int fd,
			uint32_t lib_id, bool *ret_has_layout)
{
	struct verbs_state *s = tracer_state(h, sizeof(*s));
	struct walk *w;

	(void)lib;
	(void)fd;
	(void)lib_id;
	(void)ret_has_layout;
	if (!s)
		return -ENOMEM;
	HASH_FIND(hh, s->walks, &proc->tgid, sizeof(proc->tgid), w);
	if (w && w->start_ns == proc->start_time_ns)
		return 0;
	if (!w) {
		walks_forget(s, false);
		w = calloc(1, sizeof(*w));
		if (!w)
			return -ENOMEM;
		w->tgid = proc->tgid;
		HASH_ADD(hh, s->walks, tgid, sizeof(w->tgid), w);
	}
	w->start_ns = proc->start_time_ns;
	w->over = false;
	w->first_ns = w->asked_ns = 0;
	w->n_before = devices_open(w->tgid);
	verbs_say_bypass(proc);
	s->said_no_device = s->said_no_device || verbs_say_no_device(proc);
	return 0;
}

static void unopened_scan(struct tracer_handle *h)
{
	struct verbs_unopened u;

	for (int i = 0; i < SCAN_MAX && !tracer_map_next(h, "verbs_unopened", NULL, &u); i++) {
		tracer_map_delete(h, "verbs_unopened", &u);
		verbs_say_unopened(&u);
	}
}

static int verbs_sample(struct tracer_handle *h, uint64_t now_ns)
{
	struct verbs_state *s = tracer_state(h, sizeof(*s));
	struct walk *w, *next;
	int err = 0;

	if (!s)
		return -ENOMEM;
	unopened_scan(h);
	if (tracer_tier(h) < TIER_BURST)
		return 0;
	if (tables_place(h, now_ns)) /* what holds these up is not to be made worse */
		return 0;
	HASH_ITER (hh, s->walks, w, next) {
		bool reads = w->found;

		if (w->over)
			continue;
		err = walk_step(h, w, now_ns);
		if (err || reads) /* one slice a sample */
			return err;
	}
	return err;
}

/* --- totals --- */

static uint64_t counts_sum(const struct verbs_counts *c)
{
	return c->posts + c->post_bytes + c->recv_posts + c->send_done + c->recv_done + c->errors + c->cut;
}

/* Was its table's every function probed by `ns`? As start_check() of the kernel side, which asks at completions only.
 */
static bool placed_by(struct tracer_handle *h, const struct verbs_qp_key *key, uint64_t generation, uint64_t table,
		      uint64_t ns)
{
	struct verbs_placed_key at = { .table = table, .tgid = key->tgid };
	struct verbs_placed p;

	return !tracer_map_get(h, "verbs_placed", &at, &p) && p.generation == generation && p.since_ns <= ns;
}

static bool from_start(struct tracer_handle *h, const struct verbs_qp_key *key, const struct verbs_counts *c)
{
	uint64_t ex_ns = c->ex_ns > c->ready_ns ? c->ex_ns : c->ready_ns;

	return c->from_start || (c->ready_ns && placed_by(h, key, c->generation, c->table, c->ready_ns) &&
				 (!c->ex || placed_by(h, key, c->generation, c->ex, ex_ns)));
}

static int counts_emit(struct tracer_handle *h, const struct emitted *t, const struct verbs_counts *c, uint64_t now_ns)
{
	struct verbs_stats r = {
		.hdr = { .size = sizeof(r),
			 .tracer = WIRE_VERBS,
			 .kind = VERBS_STATS,
			 .tgid = t->key.tgid,
			 .ts_ns = now_ns },
		.context = t->key.context,
		.qpn = t->key.qpn,
		.first_status = c->first_status,
		.n.posts = c->posts,
		.n.post_bytes = c->post_bytes,
		.n.signalled = c->signalled,
		.n.recv_posts = c->recv_posts,
		.n.send_done = c->send_done,
		.n.recv_done = c->recv_done,
		.n.recv_bytes = c->recv_bytes,
		.n.errors = c->errors,
		.n.first_post_ns = c->first_post_ns,
		.n.last_post_ns = c->last_post_ns,
		.n.last_done_ns = c->last_done_ns,
		.n.in_flight_bytes = c->aligned ? c->post_bytes - c->done_bytes : UINT64_MAX,
		.latency_ns_sum = c->latency_ns_sum,
		.latency_n = c->latency_n,
		.latency_ns_max = c->latency_ns_max,
		.cut = c->cut,
		.from_start = t->from_start && !t->shed,
	};

	memcpy(r.by_op, c->by_op, sizeof(r.by_op));
	return tracer_emit(h, &r.hdr);
}

static bool is_shed(struct tracer_handle *h, uint32_t tgid)
{
	return tracer_shed(h, tgid) >> PROBES_POSTS & 1;
}

static struct emitted *emitted_get(struct verbs_state *s, const struct verbs_qp_key *key)
{
	struct emitted *t;

	HASH_FIND(hh, s->emitted, key, sizeof(*key), t);
	if (t)
		return t;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->key = *key;
	HASH_ADD(hh, s->emitted, key, sizeof(*key), t);
	return t;
}

/* A process that is gone leaves its queue pairs in the map: they are reported a last time and taken out. */
static int qp_scan(struct tracer_handle *h, struct verbs_state *s, const struct verbs_qp_key *key, uint64_t now_ns)
{
	struct verbs_counts c;
	struct emitted *t;
	uint64_t generation, sum;
	bool alive = tracer_generation(h, key->tgid, &generation);
	int err = 0;

	if (tracer_map_get(h, "verbs_qps", key, &c) || !(t = emitted_get(s, key)))
		return 0;
	sum = counts_sum(&c);
	if (sum != t->sum || c.generation != t->generation) {
		s->n_busy++;
		if (alive && t->ns && s->n_busy > FEW && now_ns < t->ns + EMIT_EVERY_NS)
			return 0;
		t->sum = sum;
		t->generation = c.generation;
		t->ns = now_ns;
		t->from_start = from_start(h, key, &c);
		t->shed |= t->from_start && is_shed(h, key->tgid);
		err = counts_emit(h, t, &c, now_ns);
	}
	if (!alive) {
		tracer_map_delete(h, "verbs_qps", key);
		HASH_DELETE(hh, s->emitted, t);
		free(t);
	}
	return err;
}

/* The map makes room some time before it is full, a hundred at a time and CPU. */
static void full_say(struct verbs_state *s, int n)
{
	if (s->said_full || n < VERBS_QPS_COUNTED - VERBS_QPS_COUNTED / 16)
		return;
	s->said_full = true;
	log_warn("more than %d RDMA queue pairs are in use: totals of those that were idle longest are forgotten, and "
		 "begin anew when they are used again",
		 n);
}

static int verbs_tick(struct tracer_handle *h, uint64_t now_ns)
{
	struct verbs_state *s = tracer_state(h, sizeof(*s));
	struct verbs_qp_key key, next;
	int more, i, err = 0;

	if (!s)
		return -ENOMEM;
	if (tracer_tier(h) < TIER_BURST)
		return 0;
	s->n_busy = 0;
	more = tracer_map_next(h, "verbs_qps", NULL, &key);
	for (i = 0; !more && !err && i < SCAN_MAX; i++, key = next) {
		more = tracer_map_next(h, "verbs_qps", &key, &next);
		err = qp_scan(h, s, &key, now_ns);
	}
	full_say(s, i);
	return err;
}

static void verbs_end(struct tracer_handle *h)
{
	struct verbs_state *s = tracer_state(h, sizeof(*s));
	struct emitted *t, *next;

	walks_forget(s, true);
	HASH_ITER (hh, s->emitted, t, next) {
		HASH_DELETE(hh, s->emitted, t);
		free(t);
	}
}

static const struct tracer verbs_tracer = {
	.name = "verbs",
	.id = WIRE_VERBS,
	.probes = verbs_probes,
	.n_probes = N_ROWS,
	.rows_alike = verbs_rows_alike,
	.group = verbs_group,
	.markers = verbs_markers,
	.files = "libibverbs",
	.object = verbs_object,
	.on_lib = verbs_on_lib,
	.sample = verbs_sample,
	.tick = verbs_tick,
	.end = verbs_end,
};

const struct source_live source_verbs = { .tracer = &verbs_tracer };
