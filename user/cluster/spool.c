/* SPDX-License-Identifier: Apache-2.0
 *
 * spool.c - see spool.h. In memory: what is spooled is worth minutes, and a full disk must not add to a cut network.
 */
#include "cluster/spool.h"

#include <stdlib.h>
#include <string.h>

struct spooled {
	struct spooled *next;
	size_t len;
	char data[];
};

struct spool {
	struct spooled *first, **end;
	size_t bytes, bytes_max, n;
};

struct spool *spool_new(size_t bytes_max)
{
	struct spool *s = calloc(1, sizeof(*s));

	if (s) {
		s->end = &s->first;
		s->bytes_max = bytes_max;
	}
	return s;
}

void spool_free(struct spool *s)
{
	while (s && s->first)
		spool_drop(s);
	free(s);
}

size_t spool_put(struct spool *s, const void *data, size_t len)
{
	size_t gone = 0, cost = len + sizeof(struct spooled);
	struct spooled *one = cost <= s->bytes_max ? malloc(cost) : NULL;

	if (!one)
		return 1;
	while (s->bytes + cost > s->bytes_max) {
		spool_drop(s);
		gone++;
	}
	one->next = NULL;
	one->len = len;
	memcpy(one->data, data, len);
	*s->end = one;
	s->end = &one->next;
	s->bytes += cost;
	s->n++;
	return gone;
}

const void *spool_first(const struct spool *s, size_t *ret_len)
{
	if (!s->first)
		return NULL;
	*ret_len = s->first->len;
	return s->first->data;
}

void spool_drop(struct spool *s)
{
	struct spooled *one = s->first;

	if (!one)
		return;
	s->first = one->next;
	if (!s->first)
		s->end = &s->first;
	s->bytes -= one->len + sizeof(*one);
	s->n--;
	free(one);
}

size_t spool_count(const struct spool *s)
{
	return s->n;
}
