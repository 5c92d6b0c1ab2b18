/* SPDX-License-Identifier: Apache-2.0
 *
 * comm_proxies.c - see comm_proxies.h.
 */
#include "tracers/nccl/comm_proxies.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "schemas/collector.h"
#include "tracers/nccl/nccl_proxy.h"
#include "tracers/nccl/wire/proxy.h"
#include "inspect/reader/reader.h"

typedef int proxy_emit(void *to, const struct wire_hdr *rec);

static struct record_proxy record_new(uint32_t tgid, uint64_t comm, uint64_t now_ns)
{
	return (struct record_proxy){
		.hdr = { .size = sizeof(struct record_proxy),
			 .tracer = WIRE_COLLECTOR,
			 .kind = RECORD_PROXY,
			 .tgid = tgid,
			 .tid = tgid,
			 .ts_ns = now_ns },
		.body.comm = comm,
	};
}

static int sample_emit(uint32_t tgid, uint64_t comm, const struct nccl_proxy_sample *sample, proxy_emit *emit, void *to)
{
	uint64_t now_ns = clock_monotonic_ns();
	struct record_proxy f = record_new(tgid, comm, now_ns);
	int err;

	f.body.flags = PROXY_SAMPLE | (sample->moving ? PROXY_MOVING : 0);
	f.body.n = sample->n;
	f.body.thread = sample->thread;
	err = emit(to, &f.hdr);
	for (uint32_t i = 0; !err && i < sample->n; i++) {
		f.body = sample->parts[i];
		f.body.comm = comm;
		err = emit(to, &f.hdr);
	}
	return err;
}

static bool is_shared(const uint64_t *states, size_t n, uint64_t state)
{
	size_t uses = 0;

	for (size_t i = 0; i < n; i++)
		uses += states[i] == state;
	return uses > 1;
}

static void seen_add(struct proxies_seen *seen, const struct nccl_proxy_sample *sample)
{
	seen->any |= sample->threaded || sample->n;
	for (uint32_t i = 0; i < sample->n; i++)
		seen->busy |=
			proxy_part_sends(&sample->parts[i]) && sample->parts[i].transmitted > sample->parts[i].done;
}

/* Two passes: whether a proxy is shared is known when all were seen. */
int comm_proxies_sample(struct comm_places *c, struct reader *r, uint32_t tgid, proxy_emit *emit, void *to,
			struct proxies_seen *ret)
{
	struct nccl_proxy_sample *samples = calloc(c->n_places + 1, sizeof(*samples));
	uint64_t *states = calloc(c->n_places + 1, sizeof(*states));
	int err = samples && states ? 0 : -ENOMEM;

	*ret = (struct proxies_seen){ 0 };
	for (size_t i = 0; !err && i < c->n_places; i++) {
		const struct nccl_layout *l = &c->layouts[c->places[i].layout];
		int one = nccl_proxy_read(r, tgid, &l->proxy, c->places[i].addr, l->hash, c->states[i].hash,
					  c->places[i].proxy_thread, READER_DEADLINE_MS, &samples[i]);

		states[i] = one ? 0 : samples[i].proxy_state;
		if (!one) {
			c->places[i].proxy_thread = samples[i].thread;
			seen_add(ret, &samples[i]);
		}
		err = one == -EPIPE ? one : 0;
	}
	for (size_t i = 0; !err && i < c->n_places; i++)
		if (states[i] && !is_shared(states, c->n_places, states[i]))
			err = sample_emit(tgid, c->places[i].addr, &samples[i], emit, to);
	free(samples);
	free(states);
	return err;
}
