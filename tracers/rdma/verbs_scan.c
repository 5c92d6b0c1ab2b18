/* SPDX-License-Identifier: Apache-2.0
 *
 * verbs_scan.c - two walks: contexts, then the words that point at one. What runs in the parser depends on its argument
 * alone. Offsets are those of <infiniband/verbs.h>, libibverbs' own ABI towards applications.
 */
#include "tracers/rdma/verbs_scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/reader/memory_walk.h"
#include "inspect/reader/reader.h"

#define DEADLINE_MS 1000
#define SLICE_QPS 1024   /* in one answer */
#define CHECKS_MAX 20000 /* candidates followed up in one slice */

#define POLL_CQ 96
#define POST_SEND 208
#define POST_RECV 216
#define ABI_COMPAT 320
#define ABI_EXTENDED UINT64_MAX /* __VERBS_ABI_IS_EXTENDED */
#define DEVICE_NAME 24
#define DEVICE_DEV_NAME 88
#define QP_EX_BYTES 344
#define QP_EX_FIRST 184 /* wr_atomic_cmp_swp; wr_flags is before it */
#define QP_EX_START 320
#define QP_EX_COMPLETE 328

struct slice_arg {
	uint32_t pages_max, n_contexts;
	uint64_t from;
	uint64_t contexts[VERBS_CONTEXTS_MAX];
};

struct slice_answer {
	uint64_t next, space;
	uint32_t n_contexts, n_qps, cut, reserved;
	struct verbs_context_at contexts[VERBS_CONTEXTS_MAX];
	struct verbs_qp_at qps[SLICE_QPS];
};

struct scan {
	const struct slice_arg *arg;
	struct slice_answer *out;
	const struct memory *memory;
	uint64_t text_lo, text_hi; /* all executable files lie between */
	uint32_t checks;
};

/* --- in the parser --- */

static const struct mapping *text_of(const struct scan *s, uint64_t addr)
{
	const struct mapping *m;

	if (addr < s->text_lo || addr >= s->text_hi)
		return NULL;
	m = maps_find(&s->memory->maps, addr);
	return m && m->prot & MAPPING_EXEC && m->inode ? m : NULL;
}

static bool one_file(const struct scan *s, uint64_t a, uint64_t b)
{
	const struct mapping *x = text_of(s, a), *y = text_of(s, b);

	return x && y && x->inode == y->inode && x->dev_major == y->dev_major && x->dev_minor == y->dev_minor;
}

static bool check_allowed(struct scan *s)
{
	if (s->checks++ < CHECKS_MAX)
		return true;
	s->out->cut = 1;
	return false;
}

static bool device_read(const struct memory *m, uint64_t device, char *name, size_t size)
{
	char names[128];

	if (!device || device % 8 || !memory_read(m, device + DEVICE_NAME, names, sizeof(names)))
		return false;
	names[63] = names[127] = 0;
	if (strncmp(names + DEVICE_DEV_NAME - DEVICE_NAME, "uverbs", 6) || !*names || strlen(names) >= size)
		return false;
	memcpy(name, names, strlen(names) + 1);
	return true;
}

/* The word at addr + POST_SEND points into text. */
static void context_check(struct scan *s, uint64_t addr)
{
	uint64_t w[ABI_COMPAT / 8 + 1];
	struct verbs_context_at at = { .addr = addr };

	if (!check_allowed(s) || !memory_read(s->memory, addr, w, sizeof(w)) || w[ABI_COMPAT / 8] != ABI_EXTENDED ||
	    !one_file(s, w[POST_SEND / 8], w[POST_RECV / 8]) || !one_file(s, w[POST_SEND / 8], w[POLL_CQ / 8]) ||
	    !device_read(s->memory, w[0], at.device, sizeof(at.device)))
		return;
	at.poll_cq = w[POLL_CQ / 8];
	at.post_send = w[POST_SEND / 8];
	at.post_recv = w[POST_RECV / 8];
	if (s->out->n_contexts == VERBS_CONTEXTS_MAX)
		s->out->cut = 1;
	else
		s->out->contexts[s->out->n_contexts++] = at;
}

static bool points_at(const struct memory *m, uint64_t object, uint64_t context)
{
	uint64_t first = 0;

	return object && !(object % 8) && memory_read(m, object, &first, sizeof(first)) && first == context;
}

static uint64_t qp_ex_of(const struct scan *s, uint64_t addr)
{
	uint64_t w[QP_EX_BYTES / 8];

	if (!memory_read(s->memory, addr, w, sizeof(w)) || !one_file(s, w[QP_EX_START / 8], w[QP_EX_COMPLETE / 8]))
		return 0;
	return addr;
}

/* A context's address stands at addr: so it does in completion queues, domains and regions. */
static void qp_check(struct scan *s, uint64_t addr, uint64_t context)
{
	struct {
		uint64_t context, user, pd, send_cq, recv_cq, srq;
		uint32_t handle, qpn, state, type;
	} qp;
	const struct memory *m = s->memory;

	if (!check_allowed(s) || !memory_read(m, addr, &qp, sizeof(qp)) || !qp.qpn || qp.qpn >> 24 || qp.state > 7 ||
	    !qp.type || qp.type > 0xff || !points_at(m, qp.pd, context) ||
	    !(points_at(m, qp.send_cq, context) || points_at(m, qp.recv_cq, context)))
		return;
	if (s->out->n_qps == SLICE_QPS) {
		s->out->cut = 1;
		return;
	}
	s->out->qps[s->out->n_qps++] = (struct verbs_qp_at){ .addr = addr,
							     .context = context,
							     .qpn = qp.qpn,
							     .state = qp.state,
							     .type = qp.type,
							     .ex = qp_ex_of(s, addr) };
}

static void words_for_contexts(void *of, uint64_t addr, const uint64_t *words, size_t n)
{
	struct scan *s = of;

	for (size_t i = 0; i < n; i++)
		if (words[i] >= s->text_lo && words[i] < s->text_hi && (i + 1 >= n || words[i + 1] >= s->text_lo) &&
		    text_of(s, words[i]))
			context_check(s, addr + 8 * i - POST_SEND);
}

static void words_for_qps(void *of, uint64_t addr, const uint64_t *words, size_t n)
{
	struct scan *s = of;

	for (size_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < s->arg->n_contexts; k++)
			if (words[i] == s->arg->contexts[k])
				qp_check(s, addr + 8 * i, words[i]);
}

static void text_bounds(struct scan *s)
{
	s->text_lo = UINT64_MAX;
	for (size_t i = 0; i < s->memory->maps.n; i++) {
		const struct mapping *m = &s->memory->maps.rows[i];

		if (!(m->prot & MAPPING_EXEC) || !m->inode)
			continue;
		s->text_lo = m->start < s->text_lo ? m->start : s->text_lo;
		s->text_hi = m->end > s->text_hi ? m->end : s->text_hi;
	}
}

static int verbs_slice(struct reader_job *job)
{
	struct memory memory;
	struct scan s = { .arg = job->arg, .out = (void *)job->out, .memory = &memory };
	struct memory_walk w = { .memory = &memory,
				 .from = s.arg->from,
				 .pages_max = s.arg->pages_max,
				 .of = &s,
				 .words = s.arg->n_contexts ? words_for_qps : words_for_contexts };
	int err = memory_open(job->fds, &memory);

	if (err)
		return err;
	memset(s.out, 0, sizeof(*s.out));
	text_bounds(&s);
	memory_walk_slice(&w);
	memory_free(&memory);
	s.out->next = w.next;
	s.out->space = w.space;
	job->out_len = sizeof(*s.out);
	return 0;
}

/* --- in the collector --- */

static int qps_add(struct verbs_found *f, const struct slice_answer *a)
{
	size_t room = VERBS_QPS_MAX - f->n_qps, n = a->n_qps < SLICE_QPS ? a->n_qps : SLICE_QPS;
	struct verbs_qp_at *grown;

	if (n > room) {
		f->cut = true;
		n = room;
	}
	if (!n)
		return 0;
	grown = realloc(f->qps, (f->n_qps + n) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	memcpy(grown + f->n_qps, a->qps, n * sizeof(*grown));
	f->qps = grown;
	f->n_qps += n;
	return 0;
}

static void contexts_add(struct verbs_found *f, const struct slice_answer *a)
{
	for (uint32_t i = 0; i < a->n_contexts && i < VERBS_CONTEXTS_MAX; i++)
		if (f->n_contexts < VERBS_CONTEXTS_MAX) {
			f->contexts[f->n_contexts] = a->contexts[i];
			f->contexts[f->n_contexts++].device[sizeof(a->contexts[i].device) - 1] = 0;
		} else {
			f->cut = true;
		}
}

int verbs_scan_step(struct reader *r, pid_t pid, uint32_t pages_max, struct verbs_found *f)
{
	struct slice_arg arg = { .pages_max = pages_max, .from = f->from };
	struct slice_answer *a = malloc(sizeof(*a));
	size_t len = 0;
	int err;

	if (!a)
		return -ENOMEM;
	for (; f->second && arg.n_contexts < f->n_contexts; arg.n_contexts++)
		arg.contexts[arg.n_contexts] = f->contexts[arg.n_contexts].addr;
	err = parser_run_memory(r, pid, verbs_slice, &arg, sizeof(arg), NULL, 0, DEADLINE_MS, a, sizeof(*a), &len);
	if (!err && (len != sizeof(*a) || (a->next && a->next <= arg.from)))
		err = -EPROTO;
	if (!err && f->second)
		err = qps_add(f, a);
	else if (!err)
		contexts_add(f, a);
	if (!err) {
		f->cut |= a->cut;
		f->from = a->next;
		f->space += a->space;
		err = a->next && f->space < MEMORY_WALK_SPACE_MAX;
		if (!err && !f->second && f->n_contexts) {
			f->from = f->space = 0;
			err = f->second = true;
		}
	}
	free(a);
	return err;
}

void verbs_found_free(struct verbs_found *f)
{
	free(f->qps);
	*f = (struct verbs_found){ 0 };
}
