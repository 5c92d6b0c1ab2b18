/* SPDX-License-Identifier: Apache-2.0
 *
 * samplers.c - runs what is due. The trouble of one sampler is told once, and the others go on.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "sampler.h"

#define SAMPLER(name, help) extern const struct sampler name##_sampler;
#include "tracers/samplers.def"
#undef SAMPLER

static const struct {
	const struct sampler *sampler;
	const char *help;
} listed[] = {
#define SAMPLER(name, help) { &name##_sampler, help },
#include "tracers/samplers.def"
#undef SAMPLER
	{ NULL, NULL }
};
#define N_LISTED (sizeof(listed) / sizeof(listed[0]) - 1)

struct running {
	const struct sampler *sampler; /* NULL: not in this tier, or off */
	const char *help;
	void *state;
	uint64_t due_ns;
	bool told; /* its trouble was */
};

struct samplers {
	struct sampler_ctx ctx; /* as samplers get it */
	int (*emit)(void *to, const struct wire_hdr *rec);
	void *emit_to;
	int emit_error; /* of the session: not the sampler's own */
	struct running running[N_LISTED + 1];
};

const struct sampler *sampler_listed(int i, const char **ret_help)
{
	if (i < 0 || (size_t)i >= N_LISTED)
		return NULL;
	*ret_help = listed[i].help;
	return listed[i].sampler;
}

static int counted_emit(void *to, const struct wire_hdr *rec)
{
	struct samplers *s = to;
	int err = s->emit(s->emit_to, rec);

	s->emit_error = err ? err : s->emit_error;
	return err;
}

static void trouble_tell(struct running *r, int err, const char *after)
{
	if (r->told)
		return;
	r->told = true;
	log_warn("%s (%s): %s; %s%s", r->sampler->name, r->help, strerror(-err),
		 r->sampler->remedy ? r->sampler->remedy : "", after);
}

int samplers_open(const struct sampler_ctx *ctx, struct samplers **ret)
{
	struct samplers *s = calloc(1, sizeof(*s));
	unsigned int tier = ctx->probes ? SAMPLER_PROBES : SAMPLER_WATCH;

	if (!s)
		return -ENOMEM;
	*s = (struct samplers){ .ctx = *ctx, .emit = ctx->emit, .emit_to = ctx->emit_to };
	s->ctx.emit = counted_emit;
	s->ctx.emit_to = s;
	for (size_t i = 0; i < N_LISTED; i++) {
		struct running *r = &s->running[i];
		int err;

		if (!(listed[i].sampler->tiers & tier))
			continue;
		*r = (struct running){ .sampler = listed[i].sampler, .help = listed[i].help };
		err = r->sampler->open(&s->ctx, &r->state);
		if (err && err != -ENOTSUP)
			trouble_tell(r, err, "; it stays off");
		if (err)
			r->sampler = NULL;
	}
	*ret = s;
	return 0;
}

static int look(struct samplers *s, struct running *r, uint64_t now_ns)
{
	int err;

	if (!r->sampler || now_ns < r->due_ns)
		return 0;
	r->due_ns = now_ns + r->sampler->period_ns;
	err = r->sampler->look(r->state, now_ns);
	if (s->emit_error)
		return s->emit_error;
	if (err)
		trouble_tell(r, err, "; the others go on");
	return 0;
}

int samplers_look(struct samplers *s, uint64_t now_ns)
{
	int err = 0;

	for (size_t i = 0; !err && i < N_LISTED; i++)
		err = look(s, &s->running[i], now_ns);
	return err;
}

void samplers_free(struct samplers *s)
{
	for (size_t i = 0; s && i < N_LISTED; i++)
		if (s->running[i].sampler)
			s->running[i].sampler->close(s->running[i].state);
	free(s);
}
