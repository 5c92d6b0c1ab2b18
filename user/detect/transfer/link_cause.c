/* SPDX-License-Identifier: Apache-2.0
 *
 * link_cause.c - see link_cause.h. The findings of the detectors `link` and `tcp` stand earlier in the list.
 */
#include "detect/transfer/link_cause.h"

#include <string.h>

static const struct port *port_of(const struct model *m, const struct subject *s)
{
	const struct node *n = s->device ? model_node(m, s->node) : NULL;

	for (const struct port *p = n ? n->ports : NULL; p; p = p->next)
		if (!strcmp(p->device, s->device) && p->id.number == s->port)
			return p;
	return NULL;
}

/* Its own port, or one that it may use; or a path that ends at it. */
static bool rdma_hits(const struct model *m, const struct subject *s, const struct proc *p)
{
	const struct port *port = port_of(m, s);

	if (port)
		return port->node == p->node && (port_carries(m, port, p) || !port->users.known);
	return s->proc == p->key || s->procs[0] == p->key || s->procs[1] == p->key;
}

static bool is_text(const char *a, const char *b)
{
	return a && !strcmp(a, b);
}

static bool goes_there(const struct subject *s, const struct tcp_connection *c)
{
	return is_text(s->address, c->local) || is_text(s->address, c->remote) ||
	       (is_text(s->a, c->local) && is_text(s->b, c->remote)) ||
	       (is_text(s->a, c->remote) && is_text(s->b, c->local));
}

/* Does the process have a connection that goes there? All ways: any. */
static bool tcp_hits(const struct model *m, const struct subject *s, const struct proc *p)
{
	for (uint32_t i = 0; i < m->tcp.n; i++) {
		const struct tcp_connection *c = m->tcp.at[i];

		if (c && c->proc == p->key && ((!s->address && !s->a) || goes_there(s, c)))
			return true;
	}
	return false;
}

static bool is_tcp(const struct subject *s)
{
	return (s->type == SUBJECT_PORT && s->address) || (s->type == SUBJECT_PATH && !s->procs[0]);
}

static bool hits(const struct model *m, const struct subject *s, const struct proc *p)
{
	return is_tcp(s) ? tcp_hits(m, s, p) : rdma_hits(m, s, p);
}

/* A network that is full holds ranks up as well as one that is bad. */
static uint64_t congestion_key(const struct model *m, const struct finding_list *found, const struct proc *p)
{
	for (size_t i = 0; i < found->n; i++) {
		const struct finding *f = &found->items[i];

		if (f->kind == FINDING_OBSERVATION && f->cause == CAUSE_CONGESTION && is_tcp(&f->subject) &&
		    tcp_hits(m, &f->subject, p))
			return f->key;
	}
	return 0;
}

uint64_t link_cause_key(const struct model *m, const struct finding_list *found, const struct proc *p)
{
	for (size_t i = 0; i < found->n; i++)
		if (found->items[i].kind == FINDING_LINK && hits(m, &found->items[i].subject, p))
			return found->items[i].key;
	return congestion_key(m, found, p);
}
