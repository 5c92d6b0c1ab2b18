/* SPDX-License-Identifier: Apache-2.0
 *
 * freeze.c - see freeze.h. Incidents that open within ten seconds lie in one window: the later ones point to the files
 * of the first, and only hosts that have not been asked for these give theirs.
 */
#include "hub/freeze.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "model/ahead.h"

#define SETTLE_NS 3000000000ull /* so that the consequences are in the window */
#define APART_NS 10000000000ull
#define AGAIN_NS 10000000000ull
#define ASKED_TIMES 6
#define WAITING_MAX 4 /* hosts of those who wait, where no rank is named */

/* --- whom --- */

static size_t node_add(const struct node **to, size_t n, const struct node *node)
{
	for (size_t i = 0; i < n; i++)
		if (to[i] == node)
			return n;
	if (n == FREEZE_HOSTS_MAX || !node || !*node->name)
		return n;
	to[n] = node;
	return n + 1;
}

static bool is_concerned(const struct node *const *to, size_t n, const struct proc *p)
{
	for (size_t i = 0; i < n; i++)
		if (to[i] == p->node)
			return true;
	return false;
}

static size_t peer_add(const struct comm *c, const struct node **to, size_t n, size_t n_concerned)
{
	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb))
		if (!mb->gone && !mb->proc->dead && !mb->proc->node->silent_ns &&
		    !is_concerned(to, n_concerned, mb->proc))
			return node_add(to, n, mb->proc->node);
	return n;
}

/* No rank is named: some of those that wait. */
static size_t waiting_add(const struct finding *f, const struct model *m, const struct node **to)
{
	size_t n = 0;

	for (const struct comm *c = m->comms; c; c = c->next)
		for (const struct member *mb = f->has_op && c->hash == f->comm ? c->members : NULL; mb;
		     mb = member_next_in_comm(mb))
			if (n < WAITING_MAX && !mb->gone)
				n = node_add(to, n, mb->proc->node);
	return n;
}

size_t freeze_hosts(const struct finding *f, const struct model *m, const struct node **to)
{
	size_t n = 0, n_concerned;

	for (int i = 0; i < f->n_ranks; i++) {
		const struct proc *p = model_proc(m, finding_proc(f, i));

		n = p ? node_add(to, n, p->node) : n;
	}
	if (!n)
		return waiting_add(f, m, to);
	n_concerned = n;
	for (int i = 0; i < f->n_ranks; i++) {
		const struct proc *p = model_proc(m, finding_proc(f, i));

		for (const struct member *mb = p ? p->members : NULL; mb; mb = member_next_in_proc(mb))
			if (mb->comm)
				n = peer_add(mb->comm, to, n, n_concerned);
	}
	return n;
}

/* --- when --- */

static bool is_worth_it(const struct incident *i)
{
	return !*i->caused_by && i->f.severity >= SEVERITY_WARNING && i->f.kind != FINDING_UNOBSERVED &&
	       i->f.kind != FINDING_LOST_EVENTS;
}

static struct freeze *freeze_free(struct freezes *all)
{
	for (int i = 0; i < FREEZES_MAX; i++)
		if (!*all->all[i].incident)
			return &all->all[i];
	return NULL;
}

void freezes_note(struct freezes *all, const struct incident *i, const char *id, const struct model *m,
		  uint64_t mono_ns)
{
	const struct node *hosts[FREEZE_HOSTS_MAX];
	struct freeze *f = is_worth_it(i) ? freeze_free(all) : NULL;
	bool same = all->last_ns && mono_ns - all->last_ns < APART_NS;
	size_t n = f ? freeze_hosts(&i->f, m, hosts) : 0;

	if (!n)
		return;
	*f = (struct freeze){ .ask = { .kind = ASK_WINDOW, .user = ASK_ANY_USER }, .due_ns = mono_ns + SETTLE_NS };
	snprintf(f->incident, sizeof(f->incident), "%s", id);
	if (!same) {
		all->last_ns = mono_ns;
		memcpy(all->last_id, f->incident, sizeof(all->last_id));
	}
	snprintf(f->ask.id, sizeof(f->ask.id), "%s", all->last_id);
	for (size_t k = 0; k < n; k++)
		bus_token(hosts[k]->name, f->ask.hosts[k]);
	f->ask.n_hosts = n;
}

static int ask_note(struct freeze *f, struct bus *b)
{
	char bytes[ASK_BYTES_MAX], key[BUS_KEY_MAX];

	file_key(key, f->ask.user, f->incident, ASK_ASKED, 0);
	return b->class->piece_put(b, key, bytes, ask_pack(&f->ask, bytes));
}

static void freeze_ask(struct freeze *f, struct bus *b)
{
	char bytes[ASK_BYTES_MAX], whose[ASK_WHOSE_MAX];
	size_t len = ask_pack(&f->ask, bytes);
	int err;

	ask_whose(f->ask.user, whose);
	err = b->class->ask(b, whose, bytes, len, NULL);
	if (!f->noted)
		f->noted = !ask_note(f, b);
	if (err && !f->n_asked)
		log_warn("%s: the flight recorders of its hosts cannot be asked for: %s", f->incident, strerror(-err));
	f->n_asked++;
}

void freezes_turn(struct freezes *all, struct bus *b, uint64_t mono_ns)
{
	for (int i = 0; i < FREEZES_MAX; i++) {
		struct freeze *f = &all->all[i];

		if (!*f->incident || mono_ns < f->due_ns)
			continue;
		freeze_ask(f, b);
		f->due_ns = mono_ns + AGAIN_NS;
		if (f->n_asked >= ASKED_TIMES)
			memset(f, 0, sizeof(*f));
	}
}
