/* SPDX-License-Identifier: Apache-2.0
 *
 * reader_slow.c - see reader_slow.h. No caller waits for a slow file: how far its parser is shows when it is asked
 * again.
 */
#include "inspect/reader/reader_slow.h"

#include "base/clock.h"
#include "base/hash.h"
#include "inspect/reader/reader_spawn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SLOW_MOST_NS 120000000000ull     /* then the others' turn has come, too */
#define SLOW_FORGOTTEN_NS 60000000000ull /* its processes are gone: those that live are scanned every 5 s */
#define SLOW_KEPT_NS 60000000000ull
#define SLOW_REST 3 /* times its CPU time: a quarter of a core at most, which is what one user may cost */

/* libnccl takes 41 ms; in an emulated guest, whose clock counts what its host does not give it, 200 times that. */
uint64_t slow_cpu_ns = 10000000000ull;

bool slow_key_of(const struct question *q, struct slow_key *ret)
{
	const unsigned char *arg = q->arg;
	struct stat st;

	if (q->n_fds != 1 || fstat(q->fds[0], &st))
		return false;
	memset(ret, 0, sizeof(*ret)); /* compared as bytes */
	ret->fn = q->fn;
	ret->arg_hash = q->arg_len;
	for (size_t i = 0; i < q->arg_len; i++)
		ret->arg_hash = hash_mix(ret->arg_hash, arg[i]);
	ret->dev = st.st_dev;
	ret->ino = st.st_ino;
	ret->size = st.st_size;
	ret->mtime_ns = st.st_mtim.tv_sec * 1000000000ull + st.st_mtim.tv_nsec;
	return true;
}

static bool same(const struct slow_key *a, const struct slow_key *b)
{
	return !memcmp(a, b, sizeof(*a));
}

static struct slow_key *known_find(struct slow_files *s, const struct slow_key *key)
{
	for (size_t i = 0; i < SLOW_KNOWN_MAX; i++)
		if (same(&s->known[i], key))
			return &s->known[i];
	return NULL;
}

void slow_end(struct slow_files *s)
{
	struct slow_key *known = known_find(s, &s->key);
	uint64_t used_ns = s->worker.pid ? worker_cpu_ns(&s->worker) : s->cpu_begin_ns;

	if (known)
		known->fn = NULL;
	if (used_ns > s->cpu_begin_ns)
		s->rest_until_ns = clock_monotonic_ns() + SLOW_REST * (used_ns - s->cpu_begin_ns);
	worker_drop(&s->worker);
}

bool slow_is_done(const struct slow_files *s)
{
	return s->worker.pid && worker_wait(s->worker.sock, 0) == 1;
}

int slow_lost(struct slow_files *s)
{
	bool again = same(&s->lost, &s->key);

	s->lost = s->key;
	return again ? -EBADMSG : -EAGAIN;
}

static void kept_drop(struct slow_kept *k)
{
	free(k->data);
	*k = (struct slow_kept){ 0 };
}

void slow_keep(struct slow_files *s, const void *data, size_t len)
{
	struct slow_kept *k = &s->kept[s->next_kept++ % SLOW_KEPT_MAX];

	kept_drop(k);
	k->data = malloc(len ? len : 1);
	if (!k->data)
		return;
	if (len)
		memcpy(k->data, data, len);
	k->key = s->key;
	k->len = len;
	k->used_ns = clock_monotonic_ns();
}

const struct slow_kept *slow_kept(struct slow_files *s, const struct slow_key *key)
{
	for (size_t i = 0; i < SLOW_KEPT_MAX; i++)
		if (s->kept[i].data && same(&s->kept[i].key, key)) {
			s->kept[i].used_ns = clock_monotonic_ns();
			return &s->kept[i];
		}
	return NULL;
}

void slow_free(struct slow_files *s)
{
	worker_drop(&s->worker);
	for (size_t i = 0; i < SLOW_KEPT_MAX; i++)
		kept_drop(&s->kept[i]);
}

void slow_sweep(struct slow_files *s)
{
	uint64_t now = clock_monotonic_ns();

	for (size_t i = 0; i < SLOW_KEPT_MAX; i++)
		if (s->kept[i].data && now - s->kept[i].used_ns > SLOW_KEPT_NS)
			kept_drop(&s->kept[i]);
	if (s->worker.pid && now - s->asked_ns > SLOW_FORGOTTEN_NS)
		slow_end(s);
}

/* What the parser has come to; -EAGAIN: it is at work; -EINTR: somebody stopped it. */
static int work_check(struct slow_files *s)
{
	uint64_t now = clock_monotonic_ns(), took_ns = now - s->begin_ns;
	enum worker_state state = worker_state(s->worker.pid);

	s->asked_ns = now;
	if (slow_is_done(s))
		return SLOW_ANSWERED;
	if (state == WORKER_RUNS && took_ns < SLOW_MOST_NS)
		return worker_cpu_ns(&s->worker) - s->cpu_begin_ns < slow_cpu_ns ? -EAGAIN : -EFBIG;
	return state == WORKER_STOPPED ? -EINTR : took_ns < s->late_ns ? -EAGAIN : -ETIMEDOUT;
}

int slow_check(struct slow_files *s, const struct slow_key *key)
{
	slow_sweep(s);
	if (s->worker.pid && same(&s->key, key)) {
		int rc = work_check(s);

		if (rc == -EINTR) /* by somebody, which says nothing of the file */
			worker_lost_say(worker_name(WORKER_PARSER));
		if (rc < 0 && rc != -EAGAIN)
			slow_end(s);
		return rc == -EINTR ? -EAGAIN : rc;
	}
	if (!known_find(s, key))
		return SLOW_UNKNOWN;
	return s->worker.pid || clock_monotonic_ns() < s->rest_until_ns ? -EAGAIN : SLOW_NEXT;
}

void slow_put(struct slow_files *s, const struct slow_key *key, struct worker *w, uint64_t seq, uint64_t late_ns)
{
	uint64_t now = clock_monotonic_ns();

	if (!known_find(s, key))
		s->known[s->next_known++ % SLOW_KNOWN_MAX] = *key;
	if (s->worker.pid || now < s->rest_until_ns) {
		worker_drop(w);
		return;
	}
	s->worker = *w;
	s->key = *key;
	s->seq = seq;
	s->begin_ns = s->asked_ns = now;
	s->cpu_begin_ns = worker_cpu_ns(w);
	s->late_ns = late_ns;
	*w = (struct worker){ .fd = -1, .sock = -1 };
}
