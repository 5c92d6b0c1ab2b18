/* SPDX-License-Identifier: Apache-2.0
 *
 * samplers.c - runs what is due. The trouble of one sampler is reported once, and the others go on.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/side_thread.h"
#include "inspect/reader/reader.h"
#include "source.h"

#define THREAD_LIMIT_NS 60000000000ull
#define RENEWALS_MAX 4 /* threads left behind, of one sampler */

struct running {
	const struct source *source;   /* its name, in words too */
	const struct sampler *sampler; /* NULL: off */
	void *state;
	uint64_t due_ns;
	bool reported; /* its trouble was */
	int n_renewed;
};

struct samplers {
	struct sampler_ctx ctx; /* as samplers get it */
	int (*emit)(void *to, const struct wire_hdr *rec);
	void *emit_to;
	int emit_error;           /* of the session: not the sampler's own */
	size_t n, next;           /* who has the first turn */
	struct running running[]; /* those of this tier */
};

static int counted_emit(void *to, const struct wire_hdr *rec)
{
	struct samplers *s = to;
	int err = s->emit(s->emit_to, rec);

	s->emit_error = err ? err : s->emit_error;
	return err;
}

/* A helper that is late lacks CPU time, whatever else the sampler may lack. */
static void trouble_report(struct running *r, int err, const char *after)
{
	const char *remedy = r->sampler->remedy ? r->sampler->remedy : "";

	if (r->reported)
		return;
	r->reported = true;
	log_warn("%s (%s): %s; %s%s", r->source->name, r->source->help, strerror(-err),
		 reader_is_late(err) ? "its helper was late: give ranktrace CPU time" : remedy, after);
}

static void running_open(struct samplers *s, struct running *r)
{
	int err = r->sampler->open(&s->ctx, &r->state);

	if (err && err != -ENOTSUP)
		trouble_report(r, err, "; it stays off");
	if (err)
		r->sampler = NULL;
}

int samplers_open(const struct sampler_ctx *ctx, struct samplers **ret)
{
	unsigned int tier = ctx->probes ? SAMPLER_PROBES : SAMPLER_WATCH;
	const struct source *from;
	struct samplers *s;
	size_t n = 0;

	for (from = NULL; (from = source_next_sampler(from));)
		n++;
	s = calloc(1, sizeof(*s) + n * sizeof(s->running[0]));
	if (!s)
		return -ENOMEM;
	*s = (struct samplers){ .ctx = *ctx, .emit = ctx->emit, .emit_to = ctx->emit_to };
	s->ctx.emit = counted_emit;
	s->ctx.emit_to = s;
	for (from = NULL; (from = source_next_sampler(from));) {
		if (!(from->live->sampler->tiers & tier))
			continue;
		s->running[s->n] = (struct running){ .source = from, .sampler = from->live->sampler };
		running_open(s, &s->running[s->n++]);
	}
	*ret = s;
	return 0;
}

/* A call that does not return cannot be ended: the thread stays where it is, and what it uses with it. */
static void renew(struct samplers *s, struct running *r)
{
	uint64_t limit_ns = s->ctx.thread_limit_ns ? s->ctx.thread_limit_ns : THREAD_LIMIT_NS;

	if (!r->sampler->side || !side_thread_overdue(r->sampler->side(r->state), limit_ns))
		return;
	r->sampler->close(r->state);
	r->state = NULL;
	if (r->n_renewed++ == RENEWALS_MAX) {
		log_warn("%s (%s): %d of its threads do not come back: it stays off", r->source->name, r->source->help,
			 r->n_renewed);
		r->sampler = NULL;
		return;
	}
	log_warn("%s (%s): its thread does not come back: a new one takes its place (%d of %d)", r->source->name,
		 r->source->help, r->n_renewed, RENEWALS_MAX);
	running_open(s, r);
}

static int sample(struct samplers *s, struct running *r, uint64_t now_ns)
{
	int err;

	if (!r->sampler || now_ns < r->due_ns)
		return 0;
	r->due_ns = now_ns + r->sampler->period_ns;
	renew(s, r);
	if (!r->sampler)
		return 0;
	err = r->sampler->sample(r->state, now_ns);
	if (s->emit_error)
		return s->emit_error;
	if (err)
		trouble_report(r, err, "; the others go on");
	return 0;
}

void samplers_often(struct samplers *s, bool often)
{
	s->ctx.often = often;
}

int samplers_run(struct samplers *s, uint64_t now_ns, uint64_t until_ns)
{
	int err = 0;

	s->ctx.until_ns = until_ns;
	for (size_t i = 0; !err && i < s->n; i++) {
		err = sample(s, &s->running[s->next], now_ns);
		s->next = (s->next + 1) % s->n;
		if (clock_monotonic_ns() >= until_ns)
			break;
	}
	return err;
}

void samplers_free(struct samplers *s)
{
	for (size_t i = 0; s && i < s->n; i++)
		if (s->running[i].sampler)
			s->running[i].sampler->close(s->running[i].state);
	free(s);
}
