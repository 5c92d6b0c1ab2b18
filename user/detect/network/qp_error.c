/* SPDX-License-Identifier: Apache-2.0
 *
 * qp_error.c - queue pairs of ranks that ended in an error: by the first completion that was no success (tier burst),
 * by an asynchronous event (tier trace), or by the state that the kernel lists (every tier), unless the program itself
 * put it there before it failed, which closes it. A transport that gave up is the path's or the far end's, so no rank's
 * here; a refused request is software's and no link's; a process that died explains all of them. docs/findings.md.
 */
#include <errno.h>

#include "detect/detect.h"
#include "detect/transfer/link_cause.h"

#define HOLD_NS 60000000000ull  /* reported for so long */
#define DEAD_NS 120000000000ull /* NCCL's queue pairs give up 30 s after their far end is gone */
#define GROUPS_MAX 64

enum fault { FAULT_NONE, FAULT_TRANSPORT, FAULT_DEVICE, FAULT_STATE, FAULT_RECEIVER, FAULT_REFUSED, FAULT_REQUEST };

static const struct {
	enum finding_kind kind;
	enum finding_cause cause;
	const char *remedy;
} faults[] = {
	[FAULT_TRANSPORT] = { FINDING_LINK, CAUSE_TRANSPORT_RETRIES,
			      "nothing came back from the far end: look at its process and host, then at the path "
			      "between" },
	[FAULT_DEVICE] = { FINDING_LINK, CAUSE_DEVICE_ERROR,
			   "the device gave up by itself: see the kernel log, its firmware; reset it" },
	[FAULT_STATE] = { FINDING_LINK, CAUSE_QUEUE_PAIR_ERROR,
			  "which completion failed is seen in tier burst; look at both ends' ports and processes" },
	[FAULT_RECEIVER] = { FINDING_OBSERVATION, CAUSE_RECEIVER_NOT_READY,
			     "the far end's program posts no receives in time: no link's fault" },
	[FAULT_REFUSED] = { FINDING_OBSERVATION, CAUSE_REQUEST_REFUSED,
			    "the far end's device refused the request: keys or addresses of memory are wrong in the "
			    "program" },
	[FAULT_REQUEST] = { FINDING_OBSERVATION, CAUSE_BAD_REQUEST,
			    "the request itself is wrong: lengths, keys or the queue pair's state in the program" },
};

#define STATUS_FLUSHED 5 /* follows on something else */

/* By enum ibv_wc_status. */
static enum fault fault_of_status(uint32_t status)
{
	switch (status) {
	case 12:
	case 20: return FAULT_TRANSPORT;
	case 13: return FAULT_RECEIVER;
	case 9:
	case 10:
	case 11: return FAULT_REFUSED;
	case 19:
	case 21: return FAULT_DEVICE;
	case STATUS_FLUSHED: return FAULT_STATE;
	default: return FAULT_REQUEST;
	}
}

struct group { /* queue pairs of one process on one device that failed alike */
	const struct proc *proc;
	const char *device;
	enum fault fault;
	const struct qp *first; /* to fail */
	uint64_t since_ns;
	int n;
};

/* What its program closes is flushed. */
static bool is_flushed(const struct qp *q)
{
	return q->closing && q->error_status == STATUS_FLUSHED;
}

static enum fault fault_of(const struct model *m, const struct qp *q, uint64_t *ret_since)
{
	if (q->error_status && !is_flushed(q) && m->now_ns < q->error_ns + HOLD_NS) {
		*ret_since = q->error_ns;
		return fault_of_status(q->error_status);
	}
	if (q->state == QP_ERR && !q->closing && qp_alive(q) && m->now_ns < q->state_ns + HOLD_NS) {
		*ret_since = q->state_ns;
		return FAULT_STATE;
	}
	return FAULT_NONE;
}

static void group_add(struct group *groups, int *n, const struct qp *q, enum fault fault, uint64_t since_ns)
{
	struct group *g = groups;

	/* lint: the first *n groups are filled */
	while (g < groups + *n && (g->proc != q->proc || g->device != q->device || g->fault != fault))
		g++;
	if (g == groups + GROUPS_MAX)
		return;
	if (g == groups + *n) {
		*g = (struct group){ q->proc, q->device, fault, q, since_ns, 0 };
		(*n)++;
	}
	g->n++;
	if (since_ns < g->since_ns) {
		g->since_ns = since_ns;
		g->first = q;
	}
}

/* Some rank of its job that died before, or as it was reported. */
static const struct proc *dead_before(const struct model *m, const struct group *g)
{
	for (const struct proc *p = m->procs; p; p = proc_next(p))
		if (p->dead && p != g->proc && !p->is_child && proc_rank(p) >= 0 && p->job == g->proc->job &&
		    g->since_ns < p->exit_ns + DEAD_NS)
			return p;
	return NULL;
}

static void port_note(struct finding *f, const struct qp *q)
{
	const struct proc *who = q->proc;

	finding_note_text(f, EVIDENCE_DEVICE, *q->device ? q->device : "unknown");
	f->subject = subject_port(who->node->number, q->device, q->port, proc_rank(who), who->key);
	for (const struct port *p = q->proc->node->ports; p; p = p->next) {
		if (p->device != q->device || (q->port && p->id.number != q->port))
			continue;
		f->subject.port = p->id.number;
		finding_note(f, EVIDENCE_PORT, p->id.number);
		if (*p->netdev)
			finding_note_text(f, EVIDENCE_NETDEV, p->netdev);
		return;
	}
}

static void peer_note(struct finding *f, struct finding_list *found, const struct qp *q)
{
	const struct proc *peer = qp_peer_proc(q);
	char text[QP_GID_TEXT];

	if (peer)
		finding_note(f, EVIDENCE_PEER_RANK, proc_rank(peer));
	if (q->has_gid)
		finding_note_text(f, EVIDENCE_PEER_ADDRESS, finding_list_text(found, qp_gid_text(q->gid, text)));
	if (q->dest_qpn)
		finding_note(f, EVIDENCE_PEER_QUEUE_PAIR, q->dest_qpn);
}

static int report(const struct model *m, const struct group *g, struct finding_list *found)
{
	uint64_t cause = link_cause_key(m, found, g->proc);
	const struct proc *dead = dead_before(m, g);
	struct finding *f = finding_list_add(found);

	if (!f)
		return -ENOMEM;
	f->kind = dead ? FINDING_OBSERVATION : faults[g->fault].kind;
	f->cause = dead ? CAUSE_PEER_GONE : faults[g->fault].cause;
	f->peer = -1;
	f->since_ns = g->since_ns;
	f->caused_by_key = dead ? 0 : cause;
	f->confidence = g->fault == FAULT_STATE ? 0.6 : 0.8;
	port_note(f, g->first);
	finding_identify(f, "qp_error", g->fault, g->first->qpn);
	finding_note(f, EVIDENCE_RANK_USING, proc_rank(g->proc));
	if (dead)
		finding_note(f, EVIDENCE_RANK_DEAD, proc_rank(dead));
	finding_note(f, EVIDENCE_QUEUE_PAIR, g->first->qpn);
	finding_note(f, EVIDENCE_N_QUEUE_PAIRS, g->n);
	peer_note(f, found, g->first);
	if (g->first->error_name)
		finding_note_text(f, EVIDENCE_STATUS, g->first->error_name);
	if (g->first->async_name)
		finding_note_text(f, EVIDENCE_EVENT, g->first->async_name);
	finding_note_text(f, EVIDENCE_REMEDY,
			  dead ? "a rank of the job died: its peers' transfers cannot end" : faults[g->fault].remedy);
	return 0;
}

static int qp_error_tick(void *state, const struct model *m, struct finding_list *found)
{
	struct group groups[GROUPS_MAX];
	int n = 0, err = 0;

	(void)state;
	for (const struct qp *q = m->qps.newest; q; q = q->next) {
		uint64_t since = 0;
		enum fault fault = q->proc->dead || proc_rank(q->proc) < 0 ? FAULT_NONE : fault_of(m, q, &since);

		if (fault)
			group_add(groups, &n, q, fault, since);
	}
	for (int i = 0; i < n && !err; i++)
		err = report(m, &groups[i], found);
	return err;
}

const struct detector detector_qp_error = {
	.name = "qp_error",
	.help = "queue pairs of a rank that ended in an error: the transport gave up, a request was refused, the far "
		"end is gone",
	.tick = qp_error_tick,
};
