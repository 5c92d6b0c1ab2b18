/* SPDX-License-Identifier: Apache-2.0
 *
 * qp_peer.c - which queue pairs of the known hosts are each other's far end. Numbers are unique on a device only, and
 * two hosts of one job number alike: an address decides wherever one was reported, and numbers alone only where each
 * names the other and no third fits.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/state.h"

static int by_number(const void *a, const void *b)
{
	const struct qp *x = *(struct qp *const *)a, *y = *(struct qp *const *)b;

	return x->qpn < y->qpn ? -1 : x->qpn > y->qpn;
}

/* Addresses of `there`'s device: does one answer to what `q` sends to? -1: none of its addresses is known. */
static int device_answers(const struct qp *there, const struct qp *q)
{
	int known = -1;

	for (const struct own_gids *o = there->proc->node->own; o; o = o->next) {
		if (strcmp(o->device, there->device))
			continue;
		known = known < 0 ? 0 : known;
		if (!q->has_gid && q->dlid && q->dlid == o->lid)
			return 1;
		for (uint32_t i = 0; q->has_gid && i < o->n; i++)
			if (!memcmp(o->gids[i], q->gid, sizeof(q->gid)))
				return 1;
	}
	return known;
}

static bool has_address(const struct qp *q)
{
	return q->has_gid || q->dlid;
}

static enum qp_peer_how how_far_end(const struct qp *q, const struct qp *c)
{
	int there = has_address(q) ? device_answers(c, q) : -1;
	int here = has_address(c) ? device_answers(q, c) : -1;
	bool mutual = q->dest_qpn == c->qpn && c->dest_qpn == q->qpn;

	if (q == c || !there || !here || (c->dest_qpn && !mutual))
		return QP_PEER_NONE;
	if (there > 0 || (here > 0 && mutual))
		return QP_PEER_BY_ADDRESS;
	return mutual && q->proc->node == c->proc->node ? QP_PEER_BY_NUMBERS : QP_PEER_NONE;
}

/* Several that fit equally well: not known which. */
static void peer_find(struct qp *q, struct qp *const *first, struct qp *const *end)
{
	enum qp_peer_how best_how = QP_PEER_NONE;
	struct qp *best = NULL;
	int n_best = 0;

	for (; first < end && (*first)->qpn == q->dest_qpn; first++) {
		enum qp_peer_how how = how_far_end(q, *first);

		if (how == QP_PEER_NONE || how < best_how)
			continue;
		n_best = how > best_how ? 1 : n_best + 1;
		best = *first;
		best_how = how;
	}
	q->peer = n_best == 1 ? best : NULL;
	q->peer_how = n_best == 1 ? best_how : QP_PEER_NONE;
	if (q->peer)
		best->is_peer = true;
}

static struct qp *const *first_of(struct qp *const *all, size_t n, uint32_t qpn)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (all[mid]->qpn < qpn)
			low = mid + 1;
		else
			high = mid;
	}
	return all + low;
}

int qp_peers_find(struct model *m)
{
	struct qp **all = malloc((m->qps.n + 1) * sizeof(*all));
	size_t n = 0;

	if (!all)
		return -ENOMEM;
	for (struct qp *q = m->qps.newest; q; q = q->next)
		if (qp_alive(q))
			all[n++] = q;
	qsort(all, n, sizeof(*all), by_number);
	for (size_t i = 0; i < n; i++)
		peer_find(all[i], all[i]->dest_qpn ? first_of(all, n, all[i]->dest_qpn) : all + n, all + n);
	free(all);
	return 0;
}

const struct proc *qp_peer_proc(const struct qp *q)
{
	const struct proc *p = q->peer ? q->peer->proc : NULL;

	return p && p->leader ? p->leader : p;
}

const char *qp_gid_text(const uint8_t gid[16], char to[QP_GID_TEXT])
{
	static const uint8_t v4[12] = { [10] = 0xff, [11] = 0xff };

	if (!memcmp(gid, v4, sizeof(v4)))
		return inet_ntop(AF_INET, gid + 12, to, QP_GID_TEXT);
	return inet_ntop(AF_INET6, gid, to, QP_GID_TEXT);
}

const char *qp_state_name(uint8_t state)
{
	static const char *const names[] = {
		"reset", "init", "ready to receive", "ready to send", "send queue drained", "send queue error", "error"
	};

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}
