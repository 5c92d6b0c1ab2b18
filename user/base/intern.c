/* SPDX-License-Identifier: Apache-2.0
 *
 * intern.c - see intern.h. A hash set whose entries carry their text.
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

struct intern {
	struct entry *set;
	size_t bytes;
};

struct intern *intern_new(void)
{
	return calloc(1, sizeof(struct intern));
}

void intern_free(struct intern *t)
{
	struct entry *e, *next;

	if (!t)
		return;
	HASH_ITER (hh, t->set, e, next) {
		HASH_DEL(t->set, e);
		free(e);
	}
	free(t);
}

const char *intern_bytes(struct intern *t, const char *s, size_t len)
{
	struct entry *e = NULL;

	len = s ? strnlen(s, len) : 0;
	if (!len)
		return "";
	HASH_FIND(hh, t->set, s, len, e);
	if (e)
		return e->text;
	if (t->bytes + sizeof(*e) + len >= INTERN_BYTES_MAX)
		return INTERN_FULL;
	e = calloc(1, sizeof(*e) + len + 1);
	if (!e)
		return "";
	t->bytes += sizeof(*e) + len + 1;
	memcpy(e->text, s, len);
	HASH_ADD_KEYPTR(hh, t->set, e->text, len, e);
	if (!e->hh.tbl) { /* no memory for the hash table */
		free(e);
		return "";
	}
	return e->text;
}

const char *intern(struct intern *t, const char *s)
{
	return s ? intern_bytes(t, s, strlen(s)) : "";
}
