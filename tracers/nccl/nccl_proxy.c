/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_proxy.c - walks ncclComm.proxyState -> progressState.active -> the list of ncclProxyArgs, in the parser. The
 * target runs on meanwhile: what was followed is read a second time, and if the list is another one by then the sample
 * is thrown away and made again. Lists, counts and pointers are bounded: they may be anything.
 */
#include "tracers/nccl/nccl_proxy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/discover/discover.h"
#include "tracers/nccl/nccl_layout.h"
#include "inspect/reader/proc_files.h"
#include "inspect/reader/reader.h"
#include "inspect/stack/stack_private.h"

#define ARGS_MAX 256 /* of a list: more is a circle, or no list */
#define QUEUE_MAX 64 /* operations behind one another that are counted */
#define TRIES 4
#define PTHREAD_BYTES 1024 /* of struct pthread, in which the C library keeps the thread's id */
#define STATE_LAST 2       /* ncclProxyOpProgress */
#define CHANNELS_MAX 1024
#define RANKS_MAX (1 << 20)
#define STEPS_LAST (1ll << 40)

struct proxy_arg {
	struct nccl_proxy_layout l;
	uint64_t comm, hash;
	uint32_t hash_at, thread;
};

/* What it answers: the sample, and what has the thread behind it. */
struct proxy_answer {
	uint64_t handle; /* of its thread, as the C library has it; 0: it is known, or there is none */
	struct nccl_proxy_sample sample;
};

struct threads {
	uint64_t handle;
	uint32_t n;
	uint32_t own[NCCL_PROXY_THREADS_MAX], tids[NCCL_PROXY_THREADS_MAX];
};

struct walk {
	const struct proxy_arg *arg;
	struct memory files;
	struct stack_memory *mem;
	struct nccl_proxy_sample *out;
	uint64_t args[ARGS_MAX]; /* followed, in order */
	uint64_t op_counts[ARGS_MAX];
	size_t n;
};

/* --- in the parser --- */

static bool word(struct walk *w, uint64_t at, uint32_t offset, void *to, size_t len)
{
	return !(at & 7) && at + offset >= at && stack_memory_read(w->mem, at + offset, to, len);
}

static void byte_or_unknown(struct walk *w, uint64_t at, uint32_t offset, uint8_t *to)
{
	if (offset == NCCL_NOWHERE || !word(w, at, offset, to, 1))
		*to = UINT8_MAX;
}

static bool sub_sane(const struct proxy_part *s, uint32_t send, uint32_t transport)
{
	return s->nsteps >= 0 && s->channel >= 0 && s->channel < CHANNELS_MAX && s->peer >= 0 && s->peer < RANKS_MAX &&
	       send <= 1 && transport <= 8 && s->base < STEPS_LAST && s->posted < STEPS_LAST &&
	       s->transmitted <= s->posted && s->done <= s->transmitted &&
	       (send || (s->received <= s->posted && s->transmitted <= s->received));
}

/* False: it cannot be what the layout says. */
static bool sub_read(struct walk *w, uint64_t at, const struct proxy_part *of_args)
{
	const struct nccl_proxy_layout *l = &w->arg->l;
	struct proxy_part s = *of_args;
	uint64_t connection = 0;
	uint32_t send = 0, transport = 0;

	if (!word(w, at, l->connection, &connection, 8) || !word(w, at, l->channel, &s.channel, 4) ||
	    !word(w, at, l->nsteps, &s.nsteps, 4) || !word(w, at, l->peer, &s.peer, 4) ||
	    !word(w, at, l->base, &s.base, 8) || !word(w, at, l->posted, &s.posted, 8) ||
	    !word(w, at, l->received, &s.received, 8) || !word(w, at, l->flushed, &s.flushed, 8) ||
	    !word(w, at, l->transmitted, &s.transmitted, 8) || !word(w, at, l->done, &s.done, 8))
		return false;
	if (!word(w, connection, l->is_send, &send, 4) || !word(w, connection, l->transport, &transport, 4))
		return false;
	if (s.state < STATE_LAST) /* not begun: the counters are those of an earlier operation */
		s.posted = s.received = s.flushed = s.transmitted = s.done = 0;
	if (send) /* counted by receivers only */
		s.received = s.flushed = 0;
	if (!sub_sane(&s, send, transport))
		return false;
	s.flags = send ? PROXY_SEND : 0;
	s.transport = transport;
	if (w->out->n == NCCL_PROXY_SUBS_MAX)
		w->out->cut = 1;
	else
		w->out->parts[w->out->n++] = s;
	return true;
}

static uint32_t queue_count(struct walk *w, uint64_t at)
{
	uint32_t n = 0;

	while (n < QUEUE_MAX && word(w, at, w->arg->l.next_peer, &at, 8) && at)
		n++;
	return n;
}

static int args_read(struct walk *w, uint64_t at, uint64_t *ret_next)
{
	const struct nccl_proxy_layout *l = &w->arg->l;
	struct proxy_part s = { 0 };
	uint32_t nsubs = 0, state = 0;

	if (w->n == ARGS_MAX)
		return -ELOOP;
	if (!word(w, at, l->nsubs, &nsubs, 4) || !word(w, at, l->op_count, &s.op_count, 8) ||
	    !word(w, at, l->state, &state, 4) || !word(w, at, l->next, ret_next, 8))
		return -EFAULT;
	if (nsubs > l->max_subs || state > STATE_LAST)
		return -EBADMSG;
	w->args[w->n] = at;
	w->op_counts[w->n++] = s.op_count;
	byte_or_unknown(w, at, l->coll, &s.coll);
	byte_or_unknown(w, at, l->algorithm, &s.algorithm);
	byte_or_unknown(w, at, l->protocol, &s.protocol);
	s.state = state;
	s.queued = queue_count(w, at);
	for (uint32_t i = 0; state && i < nsubs; i++)
		if (!sub_read(w, at + l->subs + (uint64_t)i * l->stride, &s))
			return -EBADMSG;
	return 0;
}

static int head_read(struct walk *w, uint64_t *ret_active)
{
	const struct nccl_proxy_layout *l = &w->arg->l;
	uint64_t hash = 0;

	if (!word(w, w->arg->comm, w->arg->hash_at, &hash, 8) || hash != w->arg->hash)
		return -ESTALE;
	if (!word(w, w->arg->comm, l->proxy_state, &w->out->proxy_state, 8) || !w->out->proxy_state ||
	    !word(w, w->out->proxy_state, l->active, ret_active, 8))
		return -ENOENT;
	return 0;
}

static int list_read(struct walk *w)
{
	uint64_t at = 0;
	int err = head_read(w, &at);

	w->out->n = w->out->cut = 0;
	w->n = 0;
	while (!err && at)
		err = args_read(w, at, &at);
	return err;
}

/* The same list of the same operations, by a second read; as far as it was followed. */
static bool list_same(struct walk *w, bool to_end)
{
	const struct nccl_proxy_layout *l = &w->arg->l;
	uint64_t state = w->out->proxy_state, at = 0, op_count;
	size_t i = 0;

	if (head_read(w, &at) || w->out->proxy_state != state)
		return false;
	for (; i < w->n && at == w->args[i]; i++)
		if (!word(w, at, l->op_count, &op_count, 8) || op_count != w->op_counts[i] ||
		    !word(w, at, l->next, &at, 8))
			return false;
	return i == w->n && (!at || !to_end);
}

static int walk_once(struct walk *w)
{
	int err;

	stack_memory_renew(w->mem); /* the cache keeps pages as they were */
	err = list_read(w);
	if (err == -ESTALE || err == -ENOENT)
		return err;
	stack_memory_renew(w->mem);
	return list_same(w, !err) ? err : -EAGAIN;
}

static int walk_open(struct walk *w, const struct reader_job *job)
{
	int err = memory_open(job->fds, &w->files);

	if (err)
		return err;
	err = stack_memory_open(&w->files, &w->mem);
	if (err)
		memory_free(&w->files);
	return err;
}

static void walk_close(struct walk *w)
{
	stack_memory_free(w->mem);
	memory_free(&w->files);
}

static uint64_t handle_read(struct walk *w)
{
	uint64_t handle = 0;

	if (w->arg->l.thread == NCCL_NOWHERE || !word(w, w->out->proxy_state, w->arg->l.thread, &handle, 8))
		return 0;
	return handle;
}

static int proxy_op(struct reader_job *job)
{
	struct proxy_answer *a = (void *)job->out;
	struct walk w = { .arg = job->arg, .out = &a->sample };
	int err = walk_open(&w, job);

	if (err)
		return err;
	a->handle = 0;
	memset(w.out, 0, offsetof(struct nccl_proxy_sample, parts));
	err = -EAGAIN;
	for (int i = 0; i < TRIES && (err == -EAGAIN || err == -EBADMSG); i++) /* a counter may have moved in between */
		err = walk_once(&w);
	if (err && err != -EAGAIN)
		w.out->n = 0;
	w.out->thread = w.arg->thread;
	if (!err && !w.out->thread)
		a->handle = handle_read(&w);
	w.out->threaded = w.out->thread || a->handle;
	if (err == -EAGAIN) { /* it is getting on */
		w.out->moving = 1;
		w.out->n = err = 0;
	}
	walk_close(&w);
	job->out_len = offsetof(struct proxy_answer, sample.parts) + w.out->n * sizeof(w.out->parts[0]);
	return err == -EFAULT || err == -EBADMSG || err == -ELOOP ? -ENOENT : err;
}

static uint32_t thread_match(struct walk *w, const struct threads *t)
{
	uint32_t found = 0, at;

	for (uint32_t offset = 0; offset < PTHREAD_BYTES && word(w, t->handle, offset, &at, 4); offset += 4)
		for (size_t i = 0; at && i < t->n; i++) {
			if (t->own[i] != at)
				continue;
			if (found && found != t->tids[i])
				return 0;
			found = t->tids[i];
		}
	return found;
}

/* The thread that the handle means. */
static int thread_op(struct reader_job *job)
{
	const struct threads *t = job->arg;
	struct walk w = { 0 };
	uint32_t found;
	int err = walk_open(&w, job);

	if (err)
		return err;
	found = thread_match(&w, t);
	walk_close(&w);
	memcpy(job->out, &found, sizeof(found));
	job->out_len = sizeof(found);
	return 0;
}

/* --- in the collector --- */

/* Its id in the innermost namespace: what the C library knows it by. */
static uint32_t own_tid(pid_t pid, uint32_t tid)
{
	char text[4096];
	const char *line, *last;

	if (proc_read(text, sizeof(text), "/proc/%d/task/%u/status", pid, tid) < 0)
		return 0;
	line = strstr(text, "\nNSpid:");
	if (!line)
		return tid;
	last = line += 7;
	for (; *line && *line != '\n'; line++)
		if (*line == '\t' || *line == ' ')
			last = line + 1;
	return strtoul(last, NULL, 10);
}

/* NCCL names its thread only where NCCL_SET_THREAD_NAME=1 asks for it, so any but the main one may be it. */
static int threads_read(pid_t pid, struct threads *to)
{
	struct target_thread *all = NULL;
	bool translate = own_tid(pid, pid) != (uint32_t)pid;
	size_t n_all = 0;
	int err = target_threads_read(pid, &all, &n_all);

	for (size_t i = 0; !err && i < n_all && to->n < NCCL_PROXY_THREADS_MAX; i++) {
		if (all[i].tid == (uint32_t)pid)
			continue;
		to->tids[to->n] = all[i].tid;
		to->own[to->n++] = translate ? own_tid(pid, all[i].tid) : all[i].tid;
	}
	free(all);
	return err;
}

static uint32_t thread_find(struct reader *r, pid_t pid, uint64_t handle, unsigned deadline_ms)
{
	struct threads *t = calloc(1, sizeof(*t));
	uint32_t found = 0;
	size_t len = 0;

	if (t && !threads_read(pid, t)) {
		t->handle = handle;
		if (parser_run_memory(r, pid, thread_op, t, sizeof(*t), NULL, 0, deadline_ms, &found, sizeof(found),
				      &len))
			found = 0;
	}
	free(t);
	return found;
}

static bool answer_whole(const struct proxy_answer *a, size_t len)
{
	return len >= offsetof(struct proxy_answer, sample.parts) && a->sample.n <= NCCL_PROXY_SUBS_MAX &&
	       len == offsetof(struct proxy_answer, sample.parts) + a->sample.n * sizeof(a->sample.parts[0]);
}

int nccl_proxy_read(struct reader *r, pid_t pid, const struct nccl_proxy_layout *l, uint64_t comm, uint32_t hash_at,
		    uint64_t hash, uint32_t thread, unsigned deadline_ms, struct nccl_proxy_sample *ret)
{
	struct proxy_arg arg = { .l = *l, .comm = comm, .hash = hash, .hash_at = hash_at, .thread = thread };
	struct proxy_answer a;
	size_t len = 0;
	int err;

	memset(ret, 0, offsetof(struct nccl_proxy_sample, parts));
	if (!l->known)
		return -ENOENT;
	err = parser_run_memory(r, pid, proxy_op, &arg, sizeof(arg), NULL, 0, deadline_ms, &a, sizeof(a), &len);
	if (!err && !answer_whole(&a, len))
		err = -EPROTO;
	if (err)
		return err;
	memcpy(ret, &a.sample, len - offsetof(struct proxy_answer, sample));
	if (a.handle)
		ret->thread = thread_find(r, pid, a.handle, deadline_ms);
	return 0;
}
