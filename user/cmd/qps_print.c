/* SPDX-License-Identifier: Apache-2.0
 *
 * qps_print.c - see qps_print.h. Device names come from the kernel and error names from a table, so nothing needs
 * escaping.
 */
#include "cmd/qps_print.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/model.h"
#include "base/utf8.h"

static const char *number(char to[24], int64_t n, bool known)
{
	snprintf(to, 24, known ? "%" PRId64 : "null", n);
	return to;
}

static const char *quoted(char to[80], const char *text)
{
	char clean[72] = "";

	utf8_copy(clean, sizeof(clean), text ? text : "");
	utf8_tame(clean, "");
	for (char *c = clean; *c; c++) /* device names are read from the target's memory */
		*c = *c == '"' || *c == '\\' ? '?' : *c;
	snprintf(to, 80, *clean ? "\"%s\"" : "null", clean);
	return to;
}

static int rank_of(const struct proc *p)
{
	return p ? proc_rank(p->leader ? p->leader : p) : -1;
}

static void peer_print(const struct qp *q)
{
	static const char *const how[] = {
		[QP_PEER_NONE] = "", [QP_PEER_BY_NUMBERS] = "numbers", [QP_PEER_BY_ADDRESS] = "address"
	};
	const struct proc *peer = qp_peer_proc(q);
	char gid[QP_GID_TEXT] = "", a[24], b[24], c[24], d[24], e[80], f[80];

	if (q->has_gid)
		qp_gid_text(q->gid, gid);
	printf("\"peer_qp\":%s,\"peer_gid\":%s,\"peer_lid\":%s,\"peer_rank\":%s,\"peer_pid\":%s,\"peer_by\":%s,",
	       number(a, q->dest_qpn, q->dest_qpn), quoted(e, gid), number(b, q->dlid, !q->has_gid && q->dlid),
	       number(c, rank_of(peer), rank_of(peer) >= 0), number(d, peer ? peer->tgid : 0, peer),
	       quoted(f, how[q->peer_how]));
}

static void totals_print(const struct qp *q)
{
	const struct qp_totals *t = &q->totals;
	const struct qp_counts *n = &t->n;
	char a[24];

	if (!q->totals_ns) {
		printf("\"totals\":null");
		return;
	}
	printf("\"totals\":{\"posts\":%llu,\"post_bytes\":%llu,\"signalled\":%llu"
	       ",\"recv_posts\":%llu,\"send_done\":%llu,\"recv_done\":%llu,\"recv_bytes\":%llu"
	       ",\"errors\":%llu,\"in_flight_bytes\":%s,\"first_post_ns\":%llu,\"last_post_ns\":%llu"
	       ",\"from_start\":%s,\"cut\":%s}",
	       n->posts, n->post_bytes, n->signalled, n->recv_posts, n->send_done, n->recv_done, n->recv_bytes,
	       n->errors, number(a, n->in_flight_bytes, n->in_flight_bytes != UINT64_MAX), n->first_post_ns,
	       n->last_post_ns, t->from_start ? "true" : "false", t->cut ? "true" : "false");
}

static void qp_print(const struct qp *q)
{
	char a[24], b[80], c[80], d[80];

	printf("{\"rank\":%s,\"pid\":%u,\"device\":%s,\"qp\":%u,\"state\":\"%s\",\"alive\":%s,",
	       number(a, rank_of(q->proc), rank_of(q->proc) >= 0), q->proc->tgid, quoted(b, q->device), q->qpn,
	       qp_state_name(q->state), qp_alive(q) ? "true" : "false");
	peer_print(q);
	printf("\"error\":%s,\"async\":%s,", quoted(c, q->error_ns ? q->error_name : NULL),
	       quoted(d, q->async_ns ? q->async_name : NULL));
	totals_print(q);
	printf("}\n");
}

void qps_print(const struct model *m)
{
	const struct qp **all = malloc((m->qps.n + 1) * sizeof(*all));
	size_t n = 0;

	for (const struct qp *q = m->qps.newest; all && q; q = q->next)
		all[n++] = q;
	while (n)
		qp_print(all[--n]);
	free(all);
}
