/* SPDX-License-Identifier: Apache-2.0
 *
 * link_cause.c - see link_cause.h. The findings of the detectors `link` and `tcp` stand earlier in the list.
 */
#include "detect/transfer/link_cause.h"

#include <string.h>

static const struct port *port_of(const struct model *m, const struct finding *f)
{
	const char *device = finding_text(f, EVIDENCE_DEVICE);
	const struct evidence *number = finding_evidence(f, EVIDENCE_PORT);
	const struct node *n = model_node(m, f->node);

	for (const struct port *p = n ? n->ports : NULL; p && device && number; p = p->next)
		if (!strcmp(p->device, device) && p->number == (uint32_t)number->number)
			return p;
	return NULL;
}

static bool is_text(const char *a, const char *b)
{
	return a && !strcmp(a, b);
}

/* Does the process have a connection that goes there? All over: any. */
static bool tcp_hits(const struct model *m, const struct finding *f, const struct proc *p)
{
	const char *at = finding_text(f, EVIDENCE_ADDRESS), *a = finding_text(f, EVIDENCE_ADDRESS_A),
		   *b = finding_text(f, EVIDENCE_ADDRESS_B);

	for (uint32_t i = 0; i < m->tcp.n; i++) {
		const struct tcp_connection *c = m->tcp.at[i];

		if (!c || c->proc != p->key)
			continue;
		if ((!at && !a) || is_text(at, c->local) || is_text(at, c->remote) ||
		    (is_text(a, c->local) && is_text(b, c->remote)) || (is_text(a, c->remote) && is_text(b, c->local)))
			return true;
	}
	return false;
}

static bool is_tcp(const struct finding *f)
{
	return is_text(finding_text(f, EVIDENCE_TRANSPORT), "tcp");
}

/* A network that is full holds ranks up as well as one that is bad. */
static uint64_t congestion_key(const struct model *m, const struct finding_list *found, const struct proc *p)
{
	for (size_t i = 0; i < found->n; i++) {
		const struct finding *f = &found->items[i];

		if (f->kind == FINDING_OBSERVATION && f->cause == CAUSE_CONGESTION && is_tcp(f) && tcp_hits(m, f, p))
			return f->key;
	}
	return 0;
}

uint64_t link_cause_key(const struct model *m, const struct finding_list *found, const struct proc *p)
{
	for (size_t i = 0; i < found->n; i++) {
		const struct finding *f = &found->items[i];
		const struct port *port = f->kind == FINDING_LINK ? port_of(m, f) : NULL;

		if (port && port->node == p->node && (port_has_proc(port, p) || !port->users_known))
			return f->key;
		if (f->kind == FINDING_LINK && is_tcp(f) && tcp_hits(m, f, p))
			return f->key;
	}
	return congestion_key(m, found, p);
}
