/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp.c - probes on what goes wrong on TCP connections. How they stand is the sampler's to say (tcp_sampler.c), and
 * what that means the detector's: this adds when.
 */
#include "tracers/tcp/tcp.h"

#include <errno.h>

#include "base/log.h"
#include "tracers/tcp/tcp_sampler.h"
#include "tcp.skel.h"
#include "source.h"

#define SAMPLE_EVERY_NS \
	1000000000ull /* for the sockets of processes that are new; a sample goes over all files of the machine */

struct tcp_scan {
	bool due;
	uint64_t sampled_ns;
	size_t n_found;
};

static const void *tcp_object(size_t *ret_size)
{
	return tcp_bpf__elf_bytes(ret_size);
}

static int tcp_on_proc(struct tracer_handle *h, const struct target_proc *proc)
{
	struct tcp_scan *s = tracer_state(h, sizeof(*s));

	(void)proc;
	if (!s)
		return -ENOMEM;
	s->due = true;
	return 0;
}

static int found(void *arg, const void *row)
{
	struct tcp_scan *s = arg;

	(void)row;
	s->n_found++;
	return 0;
}

static int tcp_tick(struct tracer_handle *h, uint64_t now_ns)
{
	struct tcp_scan *s = tracer_state(h, sizeof(*s));

	if (!s)
		return -ENOMEM;
	if (!s->due || tracer_tier(h) == TIER_WATCH || (s->sampled_ns && now_ns < s->sampled_ns + SAMPLE_EVERY_NS))
		return 0;
	s->due = false;
	s->sampled_ns = now_ns;
	int err = tracer_iter_each(h, "tcp_files", sizeof(struct tcp_sample), found, s);

	log_debug("tcp: %zu connections are known that were open before", s->n_found);
	return err;
}

static const struct tracer tcp_tracer = {
	.name = "tcp",
	.id = WIRE_TCP,
	.object = tcp_object,
	.on_proc = tcp_on_proc,
	.tick = tcp_tick,
};

const struct source_live source_tcp = { .tracer = &tcp_tracer, .sampler = &tcp_sampler };
