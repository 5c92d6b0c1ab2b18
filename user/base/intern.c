/* SPDX-License-Identifier: Apache-2.0
 *
 * intern.c - see intern.h. A hash set whose entries carry their text, and what each owner has in it. An entry knows
 * whose it is, and of which part of the room: what is given back goes where it was taken.
 */
#include "base/intern.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define uthash_fatal(msg) /* never reached: HASH_NONFATAL_OOM */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define BUCKETS_FIRST 256

struct entry {
	struct entry *next; /* of its bucket */
	struct owner *owner;
	uint32_t hash;
	uint8_t kind; /* enum intern_kind */
	bool is_more; /* beyond what its owner has first */
	bool held;    /* while texts are given back: something refers to it */
	char text[];
};

struct owner {
	UT_hash_handle hh;
	uint64_t id;
	size_t n; /* its texts */
	size_t bytes[INTERN_KINDS];
};

struct intern {
	struct entry **buckets;
	size_t n_buckets, n_entries; /* a power of two, or 0 */
	struct owner *owners;
	size_t first[INTERN_KINDS],
		more[INTERN_KINDS]; /* bytes: what each owner has first, and what some have beyond it */
	uint64_t refused[INTERN_KINDS];
	size_t came; /* bytes, since texts were given back */
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
	struct owner *o, *next_owner;

	if (!t)
		return;
	for (size_t i = 0; i < t->n_buckets; i++)
		for (struct entry *e = t->buckets[i], *next; e; e = next) {
			next = e->next;
			free(e);
		}
	free(t->buckets);
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

size_t intern_came(const struct intern *t)
{
	return t->came;
}

size_t intern_bytes_kept(const struct intern *t)
{
	size_t n = 0;

	for (int i = 0; i < INTERN_KINDS; i++)
		n += t->first[i] + t->more[i];
	return n;
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

/* Half of the room is for what each owner has first; of the other half none takes more than three times what it leaves
 * free there: one alone takes most of it, and the next one finds some. False: there is no room. */
static bool part_find(const struct intern *t, const struct owner *o, size_t bytes, bool *ret_more)
{
	static const size_t half[INTERN_KINDS] = { INTERN_TEXTS_MAX / 2, INTERN_NAMES_MAX / 2 };
	size_t mine = o ? o->bytes[t->kind] : 0, owners = (HASH_COUNT(t->owners) + !o) * sizeof(*o);
	size_t beyond = mine > INTERN_OWNER_FIRST ? mine - INTERN_OWNER_FIRST : 0;

	*ret_more = mine + bytes > INTERN_OWNER_FIRST || t->first[t->kind] + owners + bytes > half[t->kind];
	return !*ret_more || beyond + bytes + 3 * (t->more[t->kind] + owners + bytes) <= 3 * half[t->kind];
}

static size_t *part_of(struct intern *t, const struct entry *e)
{
	return e->is_more ? &t->more[e->kind] : &t->first[e->kind];
}

static size_t entry_bytes(const struct entry *e)
{
	return offsetof(struct entry, text) + strlen(e->text) + 1;
}

static void owner_leave(struct intern *t, struct owner *o)
{
	if (o->n)
		return;
	HASH_DEL(t->owners, o);
	free(o);
}

/* NULL: no room, or no memory. The text is still to be written. */
static struct entry *entry_new(struct intern *t, size_t len)
{
	uint64_t id = t->kind == INTERN_NAMES ? t->names_owner : t->owner ? t->owner(t->of) : 0;
	size_t bytes = offsetof(struct entry, text) + len + 1;
	struct entry *e;
	struct owner *o;
	bool more;

	HASH_FIND(hh, t->owners, &id, sizeof(id), o);
	if (!part_find(t, o, bytes, &more))
		return NULL;
	o = o ? o : owner_add(t, id);
	e = o ? malloc(bytes) : NULL;
	if (!e) {
		if (o)
			owner_leave(t, o);
		return NULL;
	}
	*e = (struct entry){ .owner = o, .kind = t->kind, .is_more = more };
	o->n++;
	o->bytes[t->kind] += bytes;
	*part_of(t, e) += bytes;
	t->came += bytes;
	return e;
}

static void entry_free(struct intern *t, struct entry *e)
{
	size_t bytes = entry_bytes(e);

	e->owner->n--;
	e->owner->bytes[e->kind] -= bytes;
	*part_of(t, e) -= bytes;
	owner_leave(t, e->owner);
	free(e);
}

/* --- the set --- */

static uint32_t hash_of(const char *s, size_t len)
{
	uint64_t h = len, word;

	for (; len > sizeof(word); s += sizeof(word), len -= sizeof(word)) {
		memcpy(&word, s, sizeof(word));
		h = hash_mix(h, word);
	}
	word = 0;
	memcpy(&word, s, len);
	return (uint32_t)hash_mix(h, word);
}

static void bucket_put(struct intern *t, struct entry *e)
{
	struct entry **bucket = &t->buckets[e->hash & (t->n_buckets - 1)];

	e->next = *bucket;
	*bucket = e;
}

/* Room for one more. False: no memory, and no buckets yet; else they are only longer. */
static bool buckets_grow(struct intern *t)
{
	size_t n = t->n_buckets, more = n ? 2 * n : BUCKETS_FIRST;
	struct entry **old = t->buckets, **grown = t->n_entries < n ? NULL : calloc(more, sizeof(struct entry *));

	if (!grown)
		return n;
	t->buckets = grown;
	t->n_buckets = more;
	for (size_t i = 0; i < n; i++)
		for (struct entry *e = old[i], *next; e; e = next) {
			next = e->next;
			bucket_put(t, e);
		}
	free(old);
	return true;
}

static struct entry *entry_find(const struct intern *t, const char *s, size_t len, uint32_t hash)
{
	struct entry *e = t->n_buckets ? t->buckets[hash & (t->n_buckets - 1)] : NULL;

	while (e && (e->hash != hash || strncmp(e->text, s, len) || e->text[len]))
		e = e->next;
	return e;
}

static struct entry *entry_add(struct intern *t, const char *s, size_t len, uint32_t hash)
{
	struct entry *e = buckets_grow(t) ? entry_new(t, len) : NULL;

	if (!e)
		return NULL;
	e->hash = hash;
	memcpy(e->text, s, len);
	e->text[len] = '\0';
	bucket_put(t, e);
	t->n_entries++;
	return e;
}

const char *intern_bytes(struct intern *t, const char *s, size_t len)
{
	struct entry *e;
	uint32_t hash;

	len = s ? strnlen(s, len) : 0;
	if (!len)
		return "";
	hash = hash_of(s, len);
	e = entry_find(t, s, len, hash);
	e = e ? e : entry_add(t, s, len, hash);
	if (e)
		return e->text;
	t->refused[t->kind]++;
	return intern_none;
}

const char *intern(struct intern *t, const char *s)
{
	return s ? intern_bytes(t, s, strlen(s)) : "";
}

/* --- what is given back --- */

void intern_hold(struct intern *t, const char *text)
{
	size_t len = text ? strlen(text) : 0;
	struct entry *e = len ? entry_find(t, text, len, hash_of(text, len)) : NULL;

	if (e)
		e->held = true;
}

size_t intern_give_back(struct intern *t)
{
	size_t before = intern_bytes_kept(t);

	for (size_t i = 0; i < t->n_buckets; i++)
		for (struct entry **link = &t->buckets[i], *e; (e = *link);) {
			if (e->held) {
				e->held = false;
				link = &e->next;
				continue;
			}
			*link = e->next;
			t->n_entries--;
			entry_free(t, e);
		}
	t->came = 0;
	return before - intern_bytes_kept(t);
}
