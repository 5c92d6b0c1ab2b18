/* SPDX-License-Identifier: Apache-2.0
 *
 * link_place.c - see link_place.h. The end that most of what is bad shares is the place; where two share it alike, the
 * path between them is. Causes may differ: what one side sees as lost segments is a slow path to the other.
 */
#include "detect/network/link_place.h"

#include <errno.h>
#include <string.h>

#define BEFORE_NS 3000000000ull /* rounds of two hosts that see the same */
#define LINKS_MAX 512           /* read in a tick: a fabric that is down as a whole has no place to look for */

struct links {
	struct finding_list *found;
	size_t at[LINKS_MAX]; /* places in the list */
	bool taken[LINKS_MAX];
	int n;
};

static struct finding *link_at(const struct links *l, int i)
{
	return &l->found->items[l->at[i]];
}

static bool is_tcp_link(const struct finding *f)
{
	const char *transport = f->kind == FINDING_LINK ? finding_text(f, EVIDENCE_TRANSPORT) : NULL;

	return transport && !strcmp(transport, "tcp") &&
	       ((f->subject.type == SUBJECT_PORT && f->subject.address) ||
		(f->subject.type == SUBJECT_PATH && f->subject.a && f->subject.b));
}

static bool is_path(const struct finding *f)
{
	return f->subject.type == SUBJECT_PATH;
}

static bool touches(const struct finding *f, const char *address)
{
	const struct subject *s = &f->subject;

	return is_path(f) ? !strcmp(s->a, address) || !strcmp(s->b, address) : !strcmp(s->address, address);
}

static void young_drop(struct finding_list *found, uint64_t now_ns)
{
	size_t n = 0;

	for (size_t i = 0; i < found->n; i++) {
		const struct finding *f = &found->items[i];

		if (!is_tcp_link(f) || !is_path(f) || now_ns >= f->since_ns + LINK_PLACE_WAIT_NS)
			found->items[n++] = *f;
	}
	found->n = n;
}

static void links_gather(struct links *l)
{
	for (size_t i = 0; i < l->found->n && l->n < LINKS_MAX; i++)
		if (is_tcp_link(&l->found->items[i]))
			l->at[l->n++] = i;
}

/* --- one place --- */

struct place {
	const char *address;
	int n;             /* links that have it as an end */
	bool several;      /* hosts say so */
	const char *other; /* the end that all of these share as well; NULL none */
	uint64_t whole_ns; /* the last of them began */
	bool tied;         /* another address has as many, since as long */
};

static const char *other_end(const struct finding *f, const char *address)
{
	return !is_path(f) ? NULL : strcmp(f->subject.a, address) ? f->subject.a : f->subject.b;
}

static struct place place_of(const struct links *l, const char *address)
{
	struct place p = { .address = address };
	uint32_t node = 0;

	for (int i = 0; i < l->n; i++) {
		const struct finding *f = link_at(l, i);
		const char *other = other_end(f, address);

		if (l->taken[i] || !touches(f, address))
			continue;
		p.several |= p.n && f->node != node;
		p.other = p.n ? (other && p.other && !strcmp(other, p.other) ? other : NULL) : other;
		p.whole_ns = f->since_ns > p.whole_ns ? f->since_ns : p.whole_ns;
		node = f->node;
		p.n++;
	}
	return p;
}

static bool is_end_of(const struct place *p, const char *address)
{
	return !strcmp(p->address, address) || (p->other && !strcmp(p->other, address));
}

/* More share it; or as many, and did before one more path made another place of as many. */
static bool is_better(const struct place *a, const struct place *b)
{
	return a->n > b->n || (a->n == b->n && a->whole_ns + BEFORE_NS < b->whole_ns);
}

static void place_try(const struct links *l, const char *address, struct place *best)
{
	struct place p = place_of(l, address);

	if (!p.several || (best->n && is_end_of(best, address)))
		return;
	if (is_better(&p, best))
		*best = p;
	else if (!is_better(best, &p))
		best->tied = true;
}

static struct place place_find(const struct links *l)
{
	struct place best = { 0 };

	for (int i = 0; i < l->n; i++) {
		const struct finding *f = link_at(l, i);

		if (l->taken[i])
			continue;
		place_try(l, is_path(f) ? f->subject.a : f->subject.address, &best);
		if (is_path(f))
			place_try(l, f->subject.b, &best);
	}
	if (best.tied)
		return (struct place){ 0 };
	return best;
}

/* The first that is about the place and nothing else. NULL: none is. */
static struct finding *root_find(const struct links *l, const struct place *p, bool exact)
{
	struct finding *root = NULL;

	for (int i = 0; i < l->n; i++) {
		struct finding *f = link_at(l, i);

		if (l->taken[i] || !touches(f, p->address) || (exact && !p->other && is_path(f)))
			continue;
		root = !root || f->since_ns < root->since_ns ? f : root;
	}
	return root;
}

static void evidence_move(struct finding *f, const struct place *p)
{
	int n = 0;

	for (int i = 0; i < f->n_evidence; i++) {
		const struct evidence *e = &f->evidence[i];

		if (e->id != EVIDENCE_ADDRESS_A && e->id != EVIDENCE_ADDRESS_B && e->id != EVIDENCE_PATHS)
			f->evidence[n++] = *e;
	}
	f->n_evidence = n;
	finding_note_text(f, EVIDENCE_ADDRESS, p->address);
	finding_note(f, EVIDENCE_PATHS, p->n);
}

/* Of the oldest path there: the same fault, at the end that all share. */
static struct finding *root_add(struct links *l, const struct place *p)
{
	struct finding f = *root_find(l, p, false), *to = finding_list_add(l->found);

	if (!to)
		return NULL;
	f.subject = subject_address(p->address, NULL);
	finding_identify(&f, "link_place", 0, 0);
	evidence_move(&f, p);
	*to = f;
	return to;
}

/* The host that has connections from there; FINDING_NO_NODE: none of those that say something. */
static uint32_t owner_of(const struct links *l, const char *address)
{
	size_t len = strlen(address);

	for (int i = 0; i < l->n; i++) {
		const char *text = finding_text(link_at(l, i), EVIDENCE_CONNECTION); /* the local end first */

		if (text && !strncmp(text, address, len) && text[len] == ' ')
			return link_at(l, i)->node;
	}
	return FINDING_NO_NODE;
}

static int place_join(struct links *l, const struct place *p)
{
	struct finding *root = root_find(l, p, true);
	uint64_t key;

	root = root ? root : root_add(l, p);
	if (!root)
		return -ENOMEM;
	if (!p->other)
		root->node = owner_of(l, p->address);
	key = root->key;
	for (int i = 0; i < l->n; i++) {
		struct finding *f = link_at(l, i);

		if (l->taken[i] || !touches(f, p->address))
			continue;
		l->taken[i] = true;
		f->caused_by_key = f->key != key ? key : 0;
	}
	return 0;
}

int link_places_join(struct finding_list *found, uint64_t now_ns)
{
	struct links l = { .found = found };
	struct place p;
	int err = 0;

	young_drop(found, now_ns);
	links_gather(&l);
	while (!err && (p = place_find(&l)).n)
		err = place_join(&l, &p);
	return err;
}
