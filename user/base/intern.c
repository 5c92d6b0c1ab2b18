/* SPDX-License-Identifier: Apache-2.0
 *
 * intern.c - see intern.h. A hash set whose entries carry their text, and what each owner has in it.
 */
#include "base/intern.h"

#include <stdlib.h>
#include <string.h>

#define uthash_fatal(msg) /* never reached: HASH_NONFATAL_OOM */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct entry {
	UT_hash_handle hh;
	char text[];
};

struct owner {
	UT_hash_handle hh;
	uint64_t id;
	size_t bytes[INTERN_KINDS];
};

struct intern {
	struct entry *set;
	struct owner *owners;
	size_t first[INTERN_KINDS],
		more[INTERN_KINDS]; /* bytes: what each owner has first, and what some have beyond it */
	uint64_t refused[INTERN_KINDS];
	uint64_t (*owner)(void *of);
	void *of;
	enum intern_kind kind; /* of what comes now */
	uint64_t names_owner;
};

const char intern_none[] = "";

struct intern *intern_new(void)
{
	return calloc(1, sizeof(struct intern));
}

void intern_free(struct intern *t)
{
	struct entry *e, *next;
	struct owner *o, *next_owner;

	if (!t)
		return;
	HASH_ITER (hh, t->set, e, next) {
		HASH_DEL(t->set, e);
		free(e);
	}
	HASH_ITER (hh, t->owners, o, next_owner) {
		HASH_DEL(t->owners, o);
		free(o);
	}
	free(t);
}

void intern_set_owner(struct intern *t, uint64_t (*owner)(void *of), void *of)
{
	t->owner = owner;
	t->of = of;
}

void intern_names_begin(struct intern *t, uint64_t owner)
{
	t->kind = INTERN_NAMES;
	t->names_owner = owner;
}

void intern_names_end(struct intern *t)
{
	t->kind = INTERN_TEXTS;
}

uint64_t intern_n_refused(const struct intern *t, enum intern_kind kind)
{
	return t->refused[kind];
}

static struct owner *owner_add(struct intern *t, uint64_t id)
{
	struct owner *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->id = id;
	HASH_ADD(hh, t->owners, id, sizeof(o->id), o);
	if (o->hh.tbl)
		return o;
	free(o);
	return NULL;
}

/* Half of the room is for what each owner has first; of the other half none takes more than what is free there. */
static size_t *part_of(struct intern *t, size_t mine, size_t bytes)
{
	static const size_t half[INTERN_KINDS] = { INTERN_TEXTS_MAX / 2, INTERN_NAMES_MAX / 2 };
	size_t *first = &t->first[t->kind], *more = &t->more[t->kind];
	size_t beyond = mine > INTERN_OWNER_FIRST ? mine - INTERN_OWNER_FIRST : 0;

	if (mine + bytes <= INTERN_OWNER_FIRST && *first + bytes <= half[t->kind])
		return first;
	return *more + beyond + 2 * bytes <= half[t->kind] ? more : NULL;
}

static bool room_take(struct intern *t, size_t bytes)
{
	uint64_t id = t->kind == INTERN_NAMES ? t->names_owner : t->owner ? t->owner(t->of) : 0;
	struct owner *o;
	size_t *part;

	HASH_FIND(hh, t->owners, &id, sizeof(id), o);
	bytes += o ? 0 : sizeof(*o);
	part = part_of(t, o ? o->bytes[t->kind] : 0, bytes);
	o = o || !part ? o : owner_add(t, id);
	if (!o || !part)
		return false;
	o->bytes[t->kind] += bytes;
	*part += bytes;
	return true;
}

static struct entry *entry_add(struct intern *t, const char *s, size_t len)
{
	size_t size = sizeof(struct entry) + len + 1;
	struct entry *e = room_take(t, size) ? calloc(1, size) : NULL;

	if (!e)
		return NULL;
	memcpy(e->text, s, len);
	HASH_ADD_KEYPTR(hh, t->set, e->text, len, e);
	if (e->hh.tbl)
		return e;
	free(e); /* no memory for the hash table */
	return NULL;
}

const char *intern_bytes(struct intern *t, const char *s, size_t len)
{
	struct entry *e = NULL;

	len = s ? strnlen(s, len) : 0;
	if (!len)
		return "";
	HASH_FIND(hh, t->set, s, len, e);
	e = e ? e : entry_add(t, s, len);
	if (e)
		return e->text;
	t->refused[t->kind]++;
	return intern_none;
}

const char *intern(struct intern *t, const char *s)
{
	return s ? intern_bytes(t, s, strlen(s)) : "";
}
