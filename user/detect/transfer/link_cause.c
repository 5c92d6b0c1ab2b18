/* SPDX-License-Identifier: Apache-2.0
 *
 * link_cause.c - see link_cause.h. The findings of the detectors `link` and `tcp` stand earlier in the list.
 */
#include "detect/transfer/link_cause.h"

#include <string.h>

static const struct evidence *evidence_of(const struct finding *f, const char *name)
{
	for (int i = 0; i < f->n_evidence; i++)
		if (!strcmp(f->evidence[i].name, name))
			return &f->evidence[i];
	return NULL;
}

static const struct port *port_of(const struct model *m, const struct finding *f)
{
	const struct evidence *device = evidence_of(f, "device"), *number = evidence_of(f, "port");

	for (const struct port *p = m->ports; p && device && device->text && number; p = p->next)
		if (!strcmp(p->device, device->text) && p->number == (uint32_t)number->number)
			return p;
	return NULL;
}

static bool is_text(const struct evidence *e, const char *text)
{
	return e && e->text && !strcmp(e->text, text);
}

/* Does the process have a connection that goes there? All over: any. */
static bool tcp_hits(const struct model *m, const struct finding *f, const struct proc *p)
{
	const struct evidence *at = evidence_of(f, "address"), *a = evidence_of(f, "address_a"),
			      *b = evidence_of(f, "address_b");

	for (uint32_t i = 0; i < m->tcp.n; i++) {
		const struct tcp_connection *c = m->tcp.at[i];

		if (!c || c->tgid != p->tgid)
			continue;
		if ((!at && !a) || is_text(at, c->local) || is_text(at, c->remote) ||
		    (is_text(a, c->local) && is_text(b, c->remote)) || (is_text(a, c->remote) && is_text(b, c->local)))
			return true;
	}
	return false;
}

static bool is_tcp(const struct finding *f)
{
	return is_text(evidence_of(f, "transport"), "tcp");
}

/* A network that is full holds ranks up as well as one that is bad. */
static uint64_t congestion_key(const struct model *m, const struct finding_list *found, const struct proc *p)
{
	for (size_t i = 0; i < found->n; i++) {
		const struct finding *f = &found->items[i];

		if (f->kind == FINDING_OBSERVATION && f->cause && !strcmp(f->cause, "congestion") && is_tcp(f) &&
		    tcp_hits(m, f, p))
			return f->key;
	}
	return 0;
}

uint64_t link_cause_key(const struct model *m, const struct finding_list *found, const struct proc *p)
{
	for (size_t i = 0; i < found->n; i++) {
		const struct finding *f = &found->items[i];
		const struct port *port = f->kind == FINDING_LINK ? port_of(m, f) : NULL;

		if (port && (port_has_proc(port, p) || !port->users_known))
			return f->key;
		if (f->kind == FINDING_LINK && is_tcp(f) && tcp_hits(m, f, p))
			return f->key;
	}
	return congestion_key(m, found, p);
}
