/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_ring.h - the connections of a ring of hosts, a second a step, for the tests of detector tcp. Included by those
 * and nothing else.
 */
#ifndef RANKTRACE_TCP_RING_H
#define RANKTRACE_TCP_RING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/evidence.h"
#include "tests/unit/job/job_script.h"

#define RANKS 4
#define CHANNELS 2
#define CONNECTIONS \
	(RANKS * CHANNELS * 2) /* 2 * (rank * CHANNELS + channel): it sends to the next; + 1: the next's end of it */

static const char *const addresses[RANKS] = { "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4" };

struct ring {
	struct model *m;
	struct detectors *d;
	struct finding_list list;
	uint64_t now_ns, counters[CONNECTIONS][TCP_COUNTERS];
	bool down[RANKS], idle[RANKS],
		silent[CONNECTIONS];           /* idle: of what rank r sends; silent: nothing is acknowledged */
	uint64_t lost[CONNECTIONS];            /* segments a second */
	uint64_t busy_us[CONNECTIONS];         /* a second */
	uint64_t sent[RANKS], received[RANKS]; /* by the netdev of each host */
	double others;                         /* bytes a second on all netdevs */
	int n_given;                           /* counters, as an old kernel tells them; 0 all */
};

static inline void give(struct ring *u, struct event e)
{
	e.ts_ns = u->now_ns;
	assert_int_equal(model_apply(u->m, &e), 0);
}

static inline int owner(int i)
{
	return i % 2 ? (i / 2 / CHANNELS + 1) % RANKS : i / 2 / CHANNELS;
}
static inline int other(int i)
{
	return i % 2 ? i / 2 / CHANNELS : (i / 2 / CHANNELS + 1) % RANKS;
}
static inline bool sends(int i)
{
	return i % 2 == 0;
}

/* On `hosts` hosts, in turn. */
static inline void identity_on(struct ring *u, int i, int hosts)
{
	struct event e = { .kind = EV_TCP, .tgid = job_pid(owner(i)) };

	e.tcp.index = i;
	e.tcp.id.inode = 1000 + i;
	e.tcp.id.cookie = 2000 + i;
	e.tcp.id.netns = 1 + owner(i);
	e.tcp.local = addresses[owner(i) % hosts];
	e.tcp.remote = addresses[other(i) % hosts];
	e.tcp.netdev = "eth0";
	e.tcp.id.local_port = sends(i) ? 40000 + i / 2 : 5000 + i / 2;
	e.tcp.id.remote_port = sends(i) ? 5000 + i / 2 : 40000 + i / 2;
	give(u, e);
}

static inline void identity(struct ring *u, int i)
{
	identity_on(u, i, RANKS);
}

static inline struct ring ring_on(int hosts)
{
	struct ring u = { .m = model_new(), .d = detectors_new(), .now_ns = JOB_T0 };

	assert_non_null(u.m);
	assert_non_null(u.d);
	for (int r = 0; r < RANKS; r++) {
		struct event e = job_proc_event(r, RANKS, u.now_ns);

		give(&u, e);
	}
	for (int i = 0; i < CONNECTIONS; i++) {
		identity_on(&u, i, hosts);
		u.counters[i][TCP_RTT] = 200 + i;
		u.counters[i][TCP_SEND_WINDOW] = 1000000;
		u.busy_us[i] = 100000;
	}
	return u;
}

static inline struct ring ring_new(void)
{
	return ring_on(RANKS);
}

static inline void ring_free(struct ring *u)
{
	finding_list_free(&u->list);
	detectors_free(u->d);
	model_free(u->m);
}

/* A thousand segments of a kilobyte, each way round. */
static inline void flow(struct ring *u, int i)
{
	uint64_t *c = u->counters[i];
	bool moves = !u->silent[i] && !u->idle[sends(i) ? owner(i) : other(i)];

	if (!moves)
		return;
	u->sent[owner(i)] += sends(i) ? 1066000 : 66000;
	u->received[owner(i)] += sends(i) ? 66000 : 1066000;
	c[TCP_SEGMENTS_SENT] += 1000;
	c[TCP_SEGMENTS_RECEIVED] += 1000;
	if (!sends(i)) {
		c[TCP_BYTES_RECEIVED] += 1000000;
		return;
	}
	c[TCP_BYTES_SENT] += 1000000;
	c[TCP_BYTES_ACKED] += 1000000;
	c[TCP_DATA_SEGMENTS_SENT] += 1000;
	c[TCP_DELIVERED] += 1000;
	c[TCP_BUSY] += u->busy_us[i];
	c[TCP_RETRANSMITS] += u->lost[i];
}

static inline void devices_count(struct ring *u)
{
	for (int r = 0; r < RANKS; r++) {
		u->sent[r] += (uint64_t)u->others;
		u->received[r] += (uint64_t)u->others;
	}
	for (int i = 0; i < CONNECTIONS; i++) {
		u->counters[i][TCP_NETDEV_SENT] = u->sent[owner(i)];
		u->counters[i][TCP_NETDEV_RECEIVED] = u->received[owner(i)];
	}
}

static inline void step(struct ring *u)
{
	u->now_ns += SEC;
	for (int i = 0; i < CONNECTIONS; i++)
		flow(u, i);
	devices_count(u);
	for (int i = 0; i < CONNECTIONS; i++) {
		struct event e = { .kind = EV_TCP_SAMPLE };

		e.tcp.index = i;
		e.tcp.sample.taken_ns = u->now_ns;
		e.tcp.sample.state = TCP_STATE_ESTABLISHED;
		e.tcp.sample.flags = TCP_NETDEV_KNOWN | (u->down[owner(i)] ? 0 : TCP_NETDEV_UP);
		e.tcp.sample.n_counters = u->n_given ? u->n_given : TCP_COUNTERS;
		e.tcp.counters = u->counters[i];
		give(u, e);
	}
	give(u, (struct event){ .kind = EV_TICK });
	assert_int_equal(detectors_tick(u->d, u->m, &u->list), 0);
}

static inline void steps(struct ring *u, int seconds)
{
	for (int i = 0; i < seconds; i++)
		step(u);
}

static inline void quiet_steps(struct ring *u, int seconds)
{
	for (int i = 0; i < seconds; i++) {
		step(u);
		for (size_t f = 0; f < u->list.n; f++)
			printf("after %d s: %s %s\n", i, finding_kind_name(u->list.items[f].kind),
			       cause_name(u->list.items[f].cause));
		assert_int_equal(u->list.n, 0);
	}
}

static inline const struct evidence *evidence(const struct finding *f, const char *name)
{
	return evidence_named(f, name);
}

/* The one finding there is; of no rank. */
static inline const struct finding *only(const struct ring *u, enum finding_kind kind, const char *cause)
{
	for (size_t i = 0; i < u->list.n && u->list.n > 1; i++)
		printf("also %s %s\n", finding_kind_name(u->list.items[i].kind), cause_name(u->list.items[i].cause));
	assert_int_equal(u->list.n, 1);
	assert_int_equal(u->list.items[0].kind, kind);
	assert_string_equal(cause_name(u->list.items[0].cause), cause);
	assert_int_equal(u->list.items[0].n_ranks, 0);
	assert_string_equal(evidence(&u->list.items[0], "transport")->text, "tcp");
	assert_non_null(evidence(&u->list.items[0], "remedy"));
	return &u->list.items[0];
}

static inline const struct finding *only_host(const struct ring *u, int host, enum finding_kind kind, const char *cause)
{
	const struct finding *f = only(u, kind, cause);
	char rank[8];

	snprintf(rank, sizeof(rank), "%d", host);
	assert_string_equal(evidence(f, "address")->text, addresses[host]);
	assert_string_equal(evidence(f, "ranks_using")->text, rank);
	assert_string_equal(evidence(f, "netdev")->text, "eth0");
	return f;
}

static inline const struct finding *only_path(const struct ring *u, int from, enum finding_kind kind, const char *cause)
{
	const struct finding *f = only(u, kind, cause);

	assert_null(evidence(f, "address"));
	assert_string_equal(evidence(f, "address_a")->text, addresses[from]);
	assert_string_equal(evidence(f, "address_b")->text, addresses[from + 1]);
	assert_int_equal(evidence(f, "sender_rank")->number, from);
	assert_int_equal(evidence(f, "receiver_rank")->number, from + 1);
	return f;
}

/* What rank `r` sends is sent again and again. */
static inline void silence(struct ring *u, int r)
{
	for (int k = 0; k < CHANNELS; k++) {
		uint64_t *c = u->counters[2 * (r * CHANNELS + k)];

		u->silent[2 * (r * CHANNELS + k)] = u->silent[2 * (r * CHANNELS + k) + 1] = true;
		c[TCP_UNACKED] = 4;
		c[TCP_OUT_QUEUE] = 4000;
		c[TCP_BACKOFF] = 4;
		c[TCP_TIMEOUTS] = 4;
		c[TCP_SINCE_ACKED] = 3000;
	}
}

static inline void all_wait(struct ring *u)
{
	for (int r = 0; r < RANKS; r++)
		u->idle[r] = true;
}

static inline void lose(struct ring *u, int r, uint64_t n)
{
	for (int k = 0; k < CHANNELS; k++)
		u->lost[2 * (r * CHANNELS + k)] = n;
}

static inline void slow(struct ring *u, int r, uint64_t rtt_us)
{
	for (int k = 0; k < CHANNELS; k++)
		u->counters[2 * (r * CHANNELS + k)][TCP_RTT] = rtt_us;
}

#endif
