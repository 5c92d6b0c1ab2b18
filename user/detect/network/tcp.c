/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp.c - what is wrong between hosts by the ranks' TCP connections: no carrier, nothing comes back, slow round trips,
 * segments lost. A finding names a host's address or the two of a path, and no rank: who is behind is for the others to
 * say. What other traffic on the same path explains is an observation.
 */
#include <errno.h>
#include <string.h>

#include "detect/detect.h"
#include "detect/phrase.h"
#include "detect/network/tcp_places.h"

#define OTHERS_SHARE 0.5 /* of what went over the netdev: then what queues there is not the job's alone */
#define STALLED_BESIDE_OTHERS \
	10 /* rounds: six losses in a row double the timer to 12 s; at a third lost once in 700 times */
#define CONFIDENCE_ALONE 0.6 /* by its own past, with no other path to compare with */
#define REPORTED_MAX 32
#define OTHERS_NS 4000000000ull /* for a path: what is one host's shows on its other paths within some rounds */

static const struct {
	enum finding_cause cause;
	const char *remedy;
	double confidence;
} faults[TCP_FAULTS] = {
	[TCP_FAULT_NETDEV] = { CAUSE_NETDEV_DOWN,
			       "look at cable, transceiver and the switch's port; or somebody set the interface down",
			       0.95 },
	[TCP_FAULT_STALL] = { CAUSE_STALLED,
			      "nothing comes back from the other side: look at the links, the switches and firewalls "
			      "between, and whether that host is alive",
			      0.9 },
	[TCP_FAULT_SLOW] = { CAUSE_SLOW_PATH,
			     "far slower than the others' paths: look at the link's speed and duplex, rate limits, "
			     "the route that it takes",
			     0.8 },
	[TCP_FAULT_LOSS] = { CAUSE_RETRANSMITS,
			     "segments are lost between here and the far ends: look at cable and transceiver, the "
			     "switches' drops, the MTU",
			     0.85 },
	[TCP_FAULT_MARKS] = { CAUSE_CONGESTION,
			      "the fabric asks senders to slow down: other traffic shares the path, or many send to "
			      "one",
			      0.9 },
	[TCP_FAULT_NOT_READ] = { CAUSE_RECEIVER_DOES_NOT_READ,
				 "the receiving process does not read what has come: another finding says why, where "
				 "that is known",
				 0.8 },
	[TCP_FAULT_BUFFER] = { CAUSE_SEND_BUFFER,
			       "the sender's socket buffer is too small for this path: see net.ipv4.tcp_wmem and "
			       "NCCL_SOCKET_NTHREADS",
			       0.8 },
};

static const char BUSY_REMEDY[] =
	"other traffic shares the path, or more is sent than it carries: no fault of one host by these counters";

struct round {
	const struct model *m;
	struct tcp_pairs *pairs;
	struct finding_list *found;
	const struct tcp_place *reported[REPORTED_MAX]; /* what explains what comes behind it */
	int n_reported;
};

static bool covers(const struct tcp_place *why, const struct tcp_place *p)
{
	if (why->everywhere)
		return true;
	if (why->address)
		return p->address ? !strcmp(why->address, p->address)
				  : !p->everywhere && tcp_pair_has(p->pair, why->address);
	return !p->address && !p->everywhere && why->pair == p->pair;
}

static bool is_explained(const struct round *t, const struct tcp_place *p)
{
	for (int i = 0; i < t->n_reported; i++)
		if (covers(t->reported[i], p))
			return true;
	return false;
}

/* --- evidence --- */

static int rank_of(const struct model *m, uint64_t proc)
{
	const struct proc *p = model_proc(m, proc);

	return p ? proc_rank(p) : -1;
}

static bool has_rank_before(const struct model *m, uint32_t end, const struct tcp_connection *c)
{
	for (uint32_t i = 0; i < end; i++)
		if (m->tcp.at[i] && m->tcp.at[i]->proc == c->proc && !strcmp(m->tcp.at[i]->local, c->local))
			return true;
	return false;
}

/* And the name of the address's netdev; "" not known. */
static const char *ranks_note(struct round *t, struct finding *f, const char *address)
{
	const char *netdev = "";
	char ranks[256] = "";

	for (uint32_t i = 0; i < t->m->tcp.n; i++) {
		const struct tcp_connection *c = t->m->tcp.at[i];

		if (!c || strcmp(c->local, address) || has_rank_before(t->m, i, c))
			continue;
		netdev = *c->netdev ? c->netdev : netdev;
		phrase_list(ranks, sizeof(ranks), rank_of(t->m, c->proc));
	}
	if (*netdev)
		finding_note_text(f, EVIDENCE_NETDEV, netdev);
	if (*ranks)
		finding_note_text(f, EVIDENCE_RANKS_USING, finding_list_text(t->found, ranks));
	return netdev;
}

static void connection_note(struct round *t, struct finding *f, const struct tcp_connection *c)
{
	const struct proc *p = model_proc(t->m, c->proc);
	char text[160] = "";

	phrase_add(text, sizeof(text), c->local);
	phrase_add(text, sizeof(text), " port ");
	phrase_number(text, sizeof(text), c->local_port);
	phrase_add(text, sizeof(text), " to ");
	phrase_add(text, sizeof(text), c->remote);
	phrase_add(text, sizeof(text), " port ");
	phrase_number(text, sizeof(text), c->remote_port);
	finding_note_text(f, EVIDENCE_CONNECTION, finding_list_text(t->found, text));
	if (p && proc_rank(p) >= 0)
		finding_note(f, EVIDENCE_SENDER_RANK, proc_rank(p));
	if (c->peer && rank_of(t->m, c->peer->proc) >= 0)
		finding_note(f, EVIDENCE_RECEIVER_RANK, rank_of(t->m, c->peer->proc));
	if (p && *p->job->shown)
		f->job = p->job->shown;
}

static void place_note(struct round *t, struct finding *f, const struct tcp_place *p)
{
	finding_note_text(f, EVIDENCE_TRANSPORT, "tcp");
	if (p->address) {
		finding_note_text(f, EVIDENCE_ADDRESS, p->address);
		f->subject = subject_address(p->address, ranks_note(t, f, p->address));
	} else if (!p->everywhere) {
		finding_note_text(f, EVIDENCE_ADDRESS_A, p->pair->a);
		finding_note_text(f, EVIDENCE_ADDRESS_B, p->pair->b);
		f->subject = subject_path(p->pair->a, p->pair->b);
	} else {
		f->subject = subject_path(NULL, NULL);
	}
	finding_note(f, EVIDENCE_PATHS, p->n_pairs);
}

static void counter_note(struct finding *f, enum evidence_id id, const struct tcp_sample *l, enum tcp_counter counter)
{
	if (l->counters[counter] != TCP_NO_VALUE)
		finding_note(f, id, l->counters[counter]);
}

static void figures_note(struct round *t, struct finding *f, const struct tcp_pair *p, enum tcp_fault fault)
{
	const struct tcp_connection *c = tcp_connection_at(t->m, p->worst[fault]);
	const struct tcp_sample *l = c ? tcp_sample_at(c, 0) : NULL;

	if (c)
		connection_note(t, f, c);
	if (l && (fault == TCP_FAULT_STALL || fault == TCP_FAULT_NOT_READ || fault == TCP_FAULT_NETDEV)) {
		counter_note(f, EVIDENCE_SEND_QUEUE_BYTES, l, TCP_OUT_QUEUE);
		counter_note(f, EVIDENCE_UNACKED_SEGMENTS, l, TCP_UNACKED);
		counter_note(f, EVIDENCE_NOT_SENT_BYTES, l, TCP_NOT_SENT);
		counter_note(f, EVIDENCE_BACKOFF, l, TCP_BACKOFF);
		counter_note(f, EVIDENCE_SEND_WINDOW_BYTES, l, TCP_SEND_WINDOW);
		counter_note(f, EVIDENCE_SINCE_ACKED_MS, l, TCP_SINCE_ACKED);
	}
	if (fault == TCP_FAULT_SLOW || fault == TCP_FAULT_LOSS) {
		finding_note(f, EVIDENCE_ROUND_TRIP_MS, p->rtt_us * 1e-3);
		finding_note(f, EVIDENCE_QUICKEST_PATH_MS, t->pairs->rtt_best_us * 1e-3);
		if (tcp_past_known(&p->past)) {
			finding_note(f, EVIDENCE_ROUND_TRIP_BEFORE_MS, tcp_past_rtt_us(&p->past) * 1e-3);
			finding_note(f, EVIDENCE_BUSY_MS_PER_MB, 1e3 * tcp_past_cost_now(&p->past));
			finding_note(f, EVIDENCE_BUSY_MS_PER_MB_BEFORE, 1e3 * tcp_past_cost(&p->past));
		}
		finding_note(f, EVIDENCE_LOST_SEGMENTS_PER_S, p->seconds > 0 && p->lost > 0 ? p->lost / p->seconds : 0);
		finding_note(f, EVIDENCE_LOST_PERCENT, p->segments && p->lost > 0 ? 100.0 * p->lost / p->segments : 0);
	}
}

/* --- judging --- */

static bool is_due(const struct round *t, const struct tcp_place *p)
{
	return p->address || p->everywhere || t->m->now_ns >= p->since_ns + OTHERS_NS;
}

/* Of the host, or of the end of the path that has more of it: which end's traffic counts. */
static int end_of(const struct tcp_place *p, enum tcp_fault fault)
{
	const struct tcp_traffic *t = p->pair->traffic[fault];

	if (p->address)
		return strcmp(p->address, p->pair->a) ? 1 : 0;
	return t[0].others > t[1].others ? 0 : 1;
}

/* A link that is overfull loses what was sent again, too: for some time, or for as long as others bring more than ever
 * came. */
static bool is_overfull(const struct tcp_place *place, int end, double others)
{
	const struct tcp_pair *p = place->pair;

	return p->stalled_full[end] || (!place->address && p->stalled_full[!end]) ||
	       (others >= OTHERS_SHARE && p->n_stalled < STALLED_BESIDE_OTHERS);
}

/* Two hosts have one path, and no other's to share. */
static bool is_only_path(const struct round *t, const struct tcp_pair *p)
{
	for (const struct tcp_pair *o = t->pairs->table.all; o; o = o->keyed.next)
		if (o != p && !tcp_pair_is_local(o) && o->n_connections)
			return false;
	return !tcp_pair_is_local(p);
}

/* Other traffic is what queues there, or the path is another's as well. */
static bool is_busy(const struct round *t, const struct tcp_place *p, enum tcp_fault fault, double others)
{
	if (fault == TCP_FAULT_STALL)
		return is_overfull(p, end_of(p, fault), others);
	if (fault != TCP_FAULT_SLOW && fault != TCP_FAULT_LOSS)
		return false;
	if (others >= OTHERS_SHARE)
		return fault == TCP_FAULT_SLOW || !p->pair->lost_freely;
	if (p->address) /* all that this host has is so, and no other's */
		return false;
	if (is_only_path(t, p->pair))
		return fault == TCP_FAULT_SLOW && others < 0;
	return fault == TCP_FAULT_SLOW || p->pair->since_ns[TCP_FAULT_SLOW];
}

static bool is_observation(enum tcp_fault f)
{
	return f == TCP_FAULT_MARKS || f == TCP_FAULT_NOT_READ || f == TCP_FAULT_BUFFER;
}

static int report(struct round *t, const struct tcp_place *p, enum tcp_fault fault)
{
	struct finding *f = finding_list_add(t->found);
	double others = p->pair->traffic[fault][end_of(p, fault)].others;
	bool busy = is_busy(t, p, fault, others);

	if (!f)
		return -ENOMEM;
	f->kind = busy || is_observation(fault) ? FINDING_OBSERVATION : FINDING_LINK;
	f->cause = busy ? CAUSE_CONGESTION : faults[fault].cause;
	f->since_ns = p->since_ns;
	f->confidence = fault == TCP_FAULT_SLOW && !p->address ? CONFIDENCE_ALONE : faults[fault].confidence;
	place_note(t, f, p);
	finding_identify(f, "tcp", busy ? TCP_FAULT_MARKS : fault, p->since_ns);
	figures_note(t, f, p->pair, fault);
	if (others >= 0 && (fault == TCP_FAULT_SLOW || fault == TCP_FAULT_LOSS || fault == TCP_FAULT_STALL))
		finding_note(f, EVIDENCE_OTHER_TRAFFIC_PERCENT, 100 * others);
	finding_note_text(f, EVIDENCE_REMEDY, busy ? BUSY_REMEDY : faults[fault].remedy);
	return 0;
}

static int tcp_tick(void *state, const struct model *m, struct finding_list *found)
{
	struct round t = { .m = m, .pairs = state, .found = found };
	struct tcp_place places[TCP_FAULTS][TCP_PLACES_MAX];
	int err = tcp_pairs_update(state, m);

	for (int f = 0; f < TCP_FAULTS && !err; f++) {
		int n = tcp_places_find(state, f, places[f]);

		for (int i = 0; i < n && !err; i++) {
			if (!is_explained(&t, &places[f][i]) && is_due(&t, &places[f][i]))
				err = report(&t, &places[f][i], f);
		}
		for (int i = 0; i < n && t.n_reported < REPORTED_MAX; i++)
			t.reported[t.n_reported++] = &places[f][i];
	}
	return err;
}

static void tcp_release(void *state)
{
	tcp_pairs_free(state);
}

const struct detector detector_tcp = {
	.name = "tcp",
	.help = "TCP between ranks that does not move, loses segments or is far slower than elsewhere; no carrier",
	.state_bytes = sizeof(struct tcp_pairs),
	.release = tcp_release,
	.tick = tcp_tick,
};
