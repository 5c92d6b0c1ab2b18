/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp.c - decodes what went wrong on TCP connections, as instants of the process that has them. How they stand is the
 * sampler's to tell (user/sample/tcp.c), and what that means the detector's: this adds when.
 */
#include "tracers/tcp/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tcp.skel.h"
#include "tracer.h"

#define LOOK_EVERY_NS \
	1000000000ull /* for the sockets of processes that are new; a look goes over all files of the machine */

struct tcp_scan {
	bool due;
	uint64_t looked_ns;
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
	if (!s->due || tracer_tier(h) == TIER_WATCH || (s->looked_ns && now_ns < s->looked_ns + LOOK_EVERY_NS))
		return 0;
	s->due = false;
	s->looked_ns = now_ns;
	return tracer_iter_each(h, "tcp_files", sizeof(struct tcp_look), found, s);
}

/* --- decode --- */

static const char *const states[] = { "unknown",   "established", "connecting", "accepting",          "closing",
				      "closing",   "closing",     "closed",     "closed by the peer", "closing",
				      "listening", "closing" };

static const char *name_of(const struct tcp_record *r)
{
	switch (r->hdr.kind) {
	case TCP_SENT_AGAIN: return "TCP sent again";
	case TCP_RESET_CAME: return "TCP reset received";
	case TCP_RESET_WENT: return "TCP reset sent";
	default: return r->state == 2 ? "TCP connect failed" : "TCP connection broken";
	}
}

static const char *connection_text(const struct tcp_record *r, struct intern *strings)
{
	char local[INET6_ADDRSTRLEN] = "?", remote[INET6_ADDRSTRLEN] = "?", text[2 * INET6_ADDRSTRLEN + 40];

	inet_ntop(r->family == AF_INET6 ? AF_INET6 : AF_INET, r->local, local, sizeof(local));
	inet_ntop(r->family == AF_INET6 ? AF_INET6 : AF_INET, r->remote, remote, sizeof(remote));
	snprintf(text, sizeof(text), "%s port %u to %s port %u", local, r->local_port, remote, r->remote_port);
	return intern(strings, text);
}

static void arg_add(struct event *e, const char *name, const char *text, int64_t number)
{
	if (e->generic.n_args < EVENT_ARGS_MAX)
		e->generic.args[e->generic.n_args++] = (struct event_arg){ name, text, number };
}

static int tcp_decode(const struct wire_hdr *h, struct intern *strings, struct event *out, int max)
{
	const struct tcp_record *r = (const void *)h;

	(void)max;
	if (h->kind < TCP_SENT_AGAIN || h->kind > TCP_RESET_WENT || h->size < sizeof(*r))
		return -EINVAL;
	out->kind = EV_INSTANT;
	out->generic.track = "TCP";
	out->generic.name = intern(strings, name_of(r));
	arg_add(out, "connection", connection_text(r, strings), 0);
	if (h->kind == TCP_SENT_AGAIN)
		arg_add(out, "segments", NULL, r->n);
	arg_add(out, "state", r->state < sizeof(states) / sizeof(states[0]) ? states[r->state] : states[0], 0);
	if (r->error)
		arg_add(out, "error", intern(strings, strerror(r->error)), 0);
	return 1;
}

const struct tracer tracer_tcp = {
	.name = "tcp",
	.help = "what goes wrong on TCP connections",
	.id = WIRE_TCP,
	.object = tcp_object,
	.on_proc = tcp_on_proc,
	.tick = tcp_tick,
	.decode = tcp_decode,
	.events_max = 1,
};
