/* SPDX-License-Identifier: Apache-2.0
 *
 * link.c - what is wrong with a port of an RDMA device or its link, by the host's own counters. No rank is at fault: a
 * finding says whose device it is and blames no rank. A port that no rank of the job uses is an observation, and
 * congestion always is. Counters count from when they were first seen; one that was set back grew by nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed.h"
#include "detect/detect.h"
#include "detect/network/link_errors.h"
#include "detect/network/link_loss.h"
#include "detect/network/link_peers.h"
#include "detect/network/link_users.h"

#define SEC 1000000000ull
#define HOLD_NS (60 * SEC) /* what moved is reported for so long */
#define CONGESTION_HOLD_NS (10 * SEC)
#define DOWN_NS SEC              /* shorter: a flap, reported when it is up again */
#define SLOW_NS (2 * SEC)        /* a link that trains goes through lower rates */
#define SETTLE_NS (2 * SEC)      /* errors of a link that comes up are its training's */
#define WINDOW_NS (SEC * 9 / 10) /* samples come once a second, more or less */
#define BIT_WINDOWS 5            /* a rate counts when it is there in */
#define BIT_NEEDED 3             /* so many of the newest windows */
#define LOST_PER_S 10            /* retransmits or discards, and */
#define LOST_SHARE 1e-4          /* of the packets, */
#define FLOWING_BYTES 1000000    /* while so much is moved a second: else the far end's process may be what is gone */
#define CONGESTION_PER_S 1000
#define CONGESTION_SHARE 0.01
#define BYTES_PER_PACKET 1024 /* where packets are not counted */
#define NOT_FLOWING (-1)
#define GAPS_ALIKE 8 /* no more than so many times those of others */

enum fault {
	FAULT_DOWN,
	FAULT_GONE,
	FAULT_SILENT,
	FAULT_FLAP,
	FAULT_ERRORS,
	FAULT_LOSS,
	FAULT_DISCARDS,
	FAULT_SLOW,
	FAULT_CONGESTION,
	FAULTS,
};

static const struct {
	enum finding_cause cause;
	const char *remedy;
} faults[FAULTS] = {
	[FAULT_DOWN] = { CAUSE_PORT_DOWN,
			 "look at cable, transceiver and the switch's port; on InfiniBand at the subnet manager" },
	[FAULT_GONE] = { CAUSE_DEVICE_GONE,
			 "the device is off the bus or its driver was unloaded: see the kernel log; drain the node" },
	[FAULT_SILENT] = { CAUSE_DOES_NOT_ANSWER,
			   "its firmware or driver is stalled: see the kernel log; reset the device or reboot the "
			   "node" },
	[FAULT_FLAP] = { CAUSE_FLAP, "the link went down and came up again: reseat or replace cable and transceiver" },
	[FAULT_ERRORS] = { CAUSE_LINK_ERRORS,
			   "packets arrive broken: clean or replace cable and transceiver on this link" },
	[FAULT_LOSS] = { CAUSE_RETRANSMITS,
			 "packets are lost between here and the far ends: look at the other end's port, the switches' "
			 "drops, flow control" },
	[FAULT_DISCARDS] = { CAUSE_DISCARDS,
			     "the port drops packets: look at flow control (PFC, credits) and at what delays the "
			     "receiver" },
	[FAULT_SLOW] = { CAUSE_LOW_RATE,
			 "the link runs below its speed: reseat the cable, look at the switch's port and the "
			 "negotiated width" },
	[FAULT_CONGESTION] = { CAUSE_CONGESTION,
			       "the fabric asks senders to slow down: other traffic shares the path, or many send to "
			       "one" },
};

struct one {
	uint64_t since_ns, last_ns;
}; /* since_ns 0: not so; last_ns: newest sign of it */

struct watched {
	struct keyed keyed; /* by the port */
	uint64_t n_samples; /* judged */
	bool was_up;
	uint64_t down_since_ns, up_since_ns, n_downs;
	uint32_t best_mbps;
	struct port_sample begin; /* of the window; now.taken_ns 0: none */
	uint8_t bits[FAULTS];     /* was it so, by window, newest lowest */
	double per_s[FAULTS];     /* in the newest window that had it */
	struct link_errors errors;
	struct link_loss loss;
	double gaps; /* of the packets of the newest window, NOT_FLOWING */
	struct one faults[FAULTS];
};

struct link_state {
	struct keyed_table ports;
};

static struct watched *watched_of(struct link_state *s, const struct port *p)
{
	return keyed_get(&s->ports, (uintptr_t)p, 0, sizeof(struct watched)); /* its node keeps a port for good */
}

/* --- signs --- */

static void sign(struct one *o, uint64_t now_ns)
{
	if (!o->since_ns)
		o->since_ns = now_ns;
	o->last_ns = now_ns;
}

static void sign_state(struct one *o, bool is, uint64_t since_ns)
{
	if (!is)
		*o = (struct one){ 0 };
	else if (!o->since_ns)
		*o = (struct one){ since_ns, since_ns };
}

static bool is_unknown(const struct port_sample *l)
{
	return !port_is(l, PORT_GONE) && l->now.state == PORT_STATE_UNKNOWN;
}

static uint64_t sum_grown(const struct port_sample *now, const struct port_sample *before,
			  const enum port_counter *list, int n)
{
	uint64_t sum = 0;

	for (int i = 0; i < n; i++)
		sum += port_grown(now, before, list[i]);
	return sum;
}

#define GROWN(now, before, ...) \
	sum_grown(now, before, (const enum port_counter[]){ __VA_ARGS__ }, \
		  sizeof((const enum port_counter[]){ __VA_ARGS__ }) / sizeof(enum port_counter))

static void bit_add(struct watched *w, int f, bool is, double per_s, uint64_t now_ns)
{
	w->bits[f] = (w->bits[f] << 1 | is) & ((1 << BIT_WINDOWS) - 1);
	if (is)
		w->per_s[f] = per_s;
	if (is && __builtin_popcount(w->bits[f]) >= BIT_NEEDED)
		sign(&w->faults[f], now_ns);
}

static void errors_take(struct watched *w, const struct port_sample *l, double s)
{
	struct one *o = &w->faults[FAULT_ERRORS];
	uint64_t n;

	if (link_errors_take(&w->errors, l, &w->begin, &n))
		sign(o, l->now.taken_ns);
	else if (o->since_ns > w->up_since_ns && link_errors_at_limit(&w->errors, l))
		o->last_ns = l->now.taken_ns; /* it cannot say that it is over; a link that was down since is another */
	if (n)
		w->per_s[FAULT_ERRORS] = n / s;
}

static void window_take(struct watched *w, const struct port_sample *l, bool reorders)
{
	const struct port_sample *b = &w->begin;
	double s = (l->now.taken_ns - b->now.taken_ns) * 1e-9;
	uint64_t bytes = GROWN(l, b, PORT_SENT_BYTES, PORT_RECEIVED_BYTES);
	uint64_t packets = GROWN(l, b, PORT_SENT_PACKETS, PORT_RECEIVED_PACKETS);
	double lost = GROWN(l, b, PORT_SEQUENCE_NAKS, PORT_TIMEOUTS, PORT_RETRANSMITS);
	double gaps = GROWN(l, b, PORT_OUT_OF_SEQUENCE);
	double dropped = GROWN(l, b, PORT_SEND_DISCARDS, PORT_RECEIVE_DISCARDS);
	double marked = GROWN(l, b, PORT_CNP_SENT, PORT_CNP_HANDLED, PORT_ECN_MARKED);
	bool flows = bytes >= FLOWING_BYTES * s;

	packets = packets ? packets : bytes / BYTES_PER_PACKET;
	w->gaps = flows ? gaps / packets : NOT_FLOWING;
	lost += reorders ? 0 : gaps;
	errors_take(w, l, s);
	bit_add(w, FAULT_LOSS, flows && lost >= LOST_PER_S * s && lost >= LOST_SHARE * packets, lost / s,
		l->now.taken_ns);
	if (link_loss_take(&w->loss, l, b, reorders)) {
		w->per_s[FAULT_LOSS] = lost / s > w->per_s[FAULT_LOSS] ? lost / s : w->per_s[FAULT_LOSS];
		sign(&w->faults[FAULT_LOSS], l->now.taken_ns);
	}
	bit_add(w, FAULT_DISCARDS, flows && dropped >= LOST_PER_S * s && dropped >= LOST_SHARE * packets, dropped / s,
		l->now.taken_ns);
	bit_add(w, FAULT_CONGESTION, marked >= CONGESTION_PER_S * s && marked >= CONGESTION_SHARE * packets, marked / s,
		l->now.taken_ns);
}

/* Windows lie in times in which the link is up and has been. */
static void counters_take(struct watched *w, const struct port_sample *l, bool reorders)
{
	if (!link_is_up(l) || (w->n_downs && l->now.taken_ns < w->up_since_ns + SETTLE_NS)) {
		w->begin.now.taken_ns = 0;
		w->errors.before = 0;
		return;
	}
	if (w->begin.now.taken_ns && l->now.taken_ns < w->begin.now.taken_ns + WINDOW_NS)
		return;
	if (w->begin.now.taken_ns)
		window_take(w, l, reorders);
	w->begin = *l;
}

static void transition_take(struct watched *w, const struct port_sample *l, const struct port_sample *before)
{
	bool up = link_is_up(l);

	if (up && w->down_since_ns) {
		sign(&w->faults[FAULT_FLAP], l->now.taken_ns);
		w->n_downs++;
	}
	/* between two samples, by the device's own count; what it counts of a time that was seen comes up to a second
	 * later */
	if (up && before && link_is_up(before) && l->now.taken_ns > w->up_since_ns + SETTLE_NS &&
	    GROWN(l, before, PORT_LINK_DOWNED, PORT_NETDEV_CARRIER_DOWNS)) {
		sign(&w->faults[FAULT_FLAP], l->now.taken_ns);
		w->n_downs++;
	}
	if (up && (!w->was_up || w->down_since_ns))
		w->up_since_ns = l->now.taken_ns;
	if (!up && w->was_up && !w->down_since_ns)
		w->down_since_ns = l->now.taken_ns;
	if (up)
		w->down_since_ns = 0;
	w->was_up |= up;
}

static void sample_take(struct watched *w, const struct port_sample *l, const struct port_sample *before, bool reorders)
{
	if (is_unknown(l) || port_is(l, PORT_SILENT))
		return;
	transition_take(w, l, before);
	counters_take(w, l, reorders);
	if (link_is_up(l) && l->now.rate_mbps != PORT_NO_VALUE && l->now.rate_mbps > w->best_mbps)
		w->best_mbps = l->now.rate_mbps;
}

/* Packets that take several ways overtake each other: gaps at most ports, and nothing lost. */
static bool fabric_reorders(struct link_state *s, const struct port *p, double gaps)
{
	int n = 0, n_gaps = 0;

	for (const struct port *o = p->node->ports; o && gaps > 0; o = o->next) {
		const struct watched *other = o == p || !link_is_alike(o, p) ? NULL : watched_of(s, o);

		n += other && other->gaps >= 0;
		n_gaps += other && other->gaps * GAPS_ALIKE >= gaps;
	}
	return n_gaps && 2 * n_gaps >= n;
}

static bool is_state(int f)
{
	return f == FAULT_DOWN || f == FAULT_GONE || f == FAULT_SILENT || f == FAULT_SLOW;
}

static void port_samples_take(struct link_state *s, struct watched *w, const struct model *m, const struct port *p)
{
	const struct port_sample *l = port_sample(p, 0), *now;
	bool reorders = fabric_reorders(s, p, w->gaps);
	uint32_t rate;

	for (; w->n_samples < p->n_samples; w->n_samples++) {
		now = port_sample(p, p->n_samples - 1 - w->n_samples);
		if (now)
			sample_take(w, now, w->n_samples ? port_sample(p, p->n_samples - w->n_samples) : NULL,
				    reorders);
	}
	if (l)
		sign_state(&w->faults[FAULT_SILENT], port_is(l, PORT_SILENT), l->now.taken_ns);
	if (!l || is_unknown(l) || port_is(l, PORT_SILENT))
		return;
	rate = link_is_up(l) && l->now.rate_mbps != PORT_NO_VALUE ? l->now.rate_mbps : 0;
	sign_state(&w->faults[FAULT_DOWN], w->down_since_ns && !port_is(l, PORT_GONE), w->down_since_ns);
	sign_state(&w->faults[FAULT_GONE], w->was_up && port_is(l, PORT_GONE), l->now.taken_ns);
	sign_state(&w->faults[FAULT_SLOW], rate && (rate < w->best_mbps || link_peers_rate(p, rate)), l->now.taken_ns);
	for (int f = 0; f < FAULTS; f++)
		if (!is_state(f) && w->faults[f].since_ns &&
		    m->now_ns > w->faults[f].last_ns + (f == FAULT_CONGESTION ? CONGESTION_HOLD_NS : HOLD_NS))
			w->faults[f] = (struct one){ 0 };
}

/* --- findings --- */

static void counters_note(struct finding *f, const struct port *p, int fault)
{
	static const struct {
		int fault;
		enum port_counter counter;
		enum evidence_id id;
	} rows[] = {
		{ FAULT_FLAP, PORT_LINK_DOWNED, EVIDENCE_LINK_DOWNED },
		{ FAULT_FLAP, PORT_NETDEV_CARRIER_DOWNS, EVIDENCE_NETDEV_CARRIER_DOWNS },
		{ FAULT_ERRORS, PORT_SYMBOL_ERRORS, EVIDENCE_SYMBOL_ERRORS },
		{ FAULT_ERRORS, PORT_RECEIVE_ERRORS, EVIDENCE_RECEIVE_ERRORS },
		{ FAULT_ERRORS, PORT_INTEGRITY_ERRORS, EVIDENCE_INTEGRITY_ERRORS },
		{ FAULT_ERRORS, PORT_OVERRUNS, EVIDENCE_BUFFER_OVERRUNS },
		{ FAULT_ERRORS, PORT_LINK_RECOVERIES, EVIDENCE_LINK_RECOVERIES },
		{ FAULT_ERRORS, PORT_NETDEV_RECEIVE_ERRORS, EVIDENCE_NETDEV_RECEIVE_ERRORS },
		{ FAULT_ERRORS, PORT_NETDEV_SEND_ERRORS, EVIDENCE_NETDEV_SEND_ERRORS },
		{ FAULT_LOSS, PORT_RETRANSMITS, EVIDENCE_RETRANSMITS },
		{ FAULT_LOSS, PORT_OUT_OF_SEQUENCE, EVIDENCE_OUT_OF_SEQUENCE },
		{ FAULT_LOSS, PORT_SEQUENCE_NAKS, EVIDENCE_SEQUENCE_NAKS },
		{ FAULT_LOSS, PORT_TIMEOUTS, EVIDENCE_ACK_TIMEOUTS },
		{ FAULT_DISCARDS, PORT_SEND_DISCARDS, EVIDENCE_SEND_DISCARDS },
		{ FAULT_DISCARDS, PORT_RECEIVE_DISCARDS, EVIDENCE_RECEIVE_DISCARDS },
		{ FAULT_CONGESTION, PORT_CNP_SENT, EVIDENCE_CNP_SENT },
		{ FAULT_CONGESTION, PORT_CNP_HANDLED, EVIDENCE_CNP_HANDLED },
		{ FAULT_CONGESTION, PORT_ECN_MARKED, EVIDENCE_ECN_MARKED },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t n = port_grown(port_sample(p, 0), &p->first, rows[i].counter);

		if (rows[i].fault == fault && n)
			finding_note(f, rows[i].id, n);
	}
}

static void rate_note(struct finding *f, enum evidence_id id, uint32_t mbps)
{
	if (mbps && mbps != PORT_NO_VALUE)
		finding_note(f, id, mbps / 1e3);
}

static void evidence_add(struct finding *f, const struct port *p, const struct watched *w, int fault)
{
	static const char *const states[] = { "unknown", "down", "init", "armed", "active", "active_deferred" };
	const struct port_sample *l = port_sample(p, 0);
	int state = l->now.state < 6 ? l->now.state : PORT_STATE_UNKNOWN;

	if (*p->netdev)
		finding_note_text(f, EVIDENCE_NETDEV, p->netdev);
	if (*p->pci)
		finding_note_text(f, EVIDENCE_PCI, p->pci);
	if (*p->layer)
		finding_note_text(f, EVIDENCE_LINK_LAYER, p->layer);
	finding_note_text(f, EVIDENCE_STATE, port_is(l, PORT_GONE) ? "gone" : states[state]);
	if (fault == FAULT_SLOW) {
		rate_note(f, EVIDENCE_RATE_GBPS, l->now.rate_mbps);
		rate_note(f, EVIDENCE_RATE_BEFORE_GBPS, w->best_mbps > l->now.rate_mbps ? w->best_mbps : 0);
		rate_note(f, EVIDENCE_RATE_OF_PEERS_GBPS, link_peers_rate(p, l->now.rate_mbps));
		if (l->now.lanes != PORT_NO_VALUE)
			finding_note(f, EVIDENCE_LANES, l->now.lanes);
	}
	if (fault == FAULT_FLAP)
		finding_note(f, EVIDENCE_TIMES_DOWN, w->n_downs);
	if (fault >= FAULT_ERRORS && fault != FAULT_SLOW)
		/* lint: the number of faults is the array's size */
		finding_note(f, EVIDENCE_PER_SECOND, w->per_s[fault]);
	counters_note(f, p, fault);
	finding_note_text(f, EVIDENCE_REMEDY, faults[fault].remedy);
}

static bool is_reported(const struct model *m, const struct one *o, int f)
{
	uint64_t after = f == FAULT_DOWN ? DOWN_NS : f == FAULT_SLOW ? SLOW_NS : 0;

	return o->since_ns && m->now_ns >= o->since_ns + after;
}

static struct subject subject_of(const struct port *p)
{
	return subject_port(p->node->number, p->device, p->id.number, -1, 0);
}

static uint64_t key_of(enum finding_kind kind, const struct port *p, const struct watched *w, int fault)
{
	struct subject s = subject_of(p);

	return finding_key(kind, &s, "link", fault, w->faults[fault].since_ns);
}

/* A port of this node that sends what is lost, where this one sees no more of it than gaps: it is the far end, or one
 * of them. */
static uint64_t sender_key(struct link_state *s, const struct model *m, const struct port *p, const struct watched *w)
{
	for (const struct port *o = p->node->ports; o && !w->loss.of_sent; o = o->next) {
		const struct watched *other = o == p || strcmp(o->kind, p->kind) ? NULL : watched_of(s, o);

		if (other && other->loss.of_sent && is_reported(m, &other->faults[FAULT_LOSS], FAULT_LOSS))
			return key_of(FINDING_LINK, o, other, FAULT_LOSS);
	}
	return 0;
}

static int report(struct link_state *s, const struct model *m, const struct port *p, const struct watched *w, int fault,
		  struct finding_list *found)
{
	struct finding *f = finding_list_add(found);
	enum link_use use;

	if (!f)
		return -ENOMEM;
	f->node = p->node->number;
	finding_note_text(f, EVIDENCE_DEVICE, p->device);
	finding_note(f, EVIDENCE_PORT, p->id.number);
	use = link_users_note(f, m, p, found);
	if (use == LINK_USE_NONE && fault == FAULT_CONGESTION) {
		found->n--;
		return 0;
	}
	f->kind = use == LINK_USE_NONE || fault == FAULT_CONGESTION ? FINDING_OBSERVATION : FINDING_LINK;
	f->subject = subject_of(p);
	f->key = key_of(f->kind, p, w, fault);
	f->caused_by_key = fault == FAULT_LOSS ? sender_key(s, m, p, w) : 0;
	f->cause = faults[fault].cause;
	f->since_ns = w->faults[fault].since_ns;
	f->confidence = use == LINK_USE_RANKS ? 0.95 : 0.7;
	evidence_add(f, p, w, fault);
	return 0;
}

static int link_tick(void *state, const struct model *m, struct finding_list *found)
{
	struct link_state *s = state;
	int err = 0;

	for (const struct port *p = model_next_port(m, NULL); p && !err; p = model_next_port(m, p)) {
		struct watched *w = watched_of(s, p);

		if (!w)
			return -ENOMEM;
		port_samples_take(s, w, m, p);
		for (int f = 0; f < FAULTS && !err; f++)
			if (is_reported(m, &w->faults[f], f))
				err = report(s, m, p, w, f, found);
	}
	return err;
}

static void link_release(void *state)
{
	struct link_state *s = state;

	keyed_free(&s->ports);
}

const struct detector detector_link = {
	.name = "link",
	.help = "a port of an RDMA device that is down, flaps, makes errors, loses packets or runs below its speed",
	.state_bytes = sizeof(struct link_state),
	.release = link_release,
	.tick = link_tick,
};
